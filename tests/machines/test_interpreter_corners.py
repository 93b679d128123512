"""Where the published interpreter and network disagree (NOTES.md): here every side does the same.

One named test for each corner, on interpreter, rule machine and both networks.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
import torch

import kleene as kl
from agreeing import lookup, outcome
from kleene.errors import InputError
from kleene.lowering.guarding import guarded_updates
from kleene.lowering.rule_machine import RuleMachine
from sample_programs import Parity


def sides(program: Any) -> dict[str, Any]:
    """Everything that can run a program, with its checks on."""
    machine = RuleMachine(guarded_updates(program))
    found = {"interpreter": program.run, "rule machine": machine.run}
    for lowering in ("thresholds", "rules"):
        for dtype in ("float32", "float64"):
            net = kl.compile(program, lowering=lowering, dtype=dtype)
            found[f"{lowering} {dtype}"] = lambda tokens, net=net, **options: net.run(tokens, check=True, **options)
    return found


def the_one_outcome(program: Any, tokens: list[int], **options: Any) -> Any:
    found = {name: outcome(lambda run=run: run(tokens, **options)) for name, run in sides(program).items()}
    (first, *others) = found.values()
    assert all(other == first for other in others), found
    return first


# --- undefined head outputs -------------------------------------------------------------------------------


def test_nothing_selected_raises_the_same_everywhere():
    message = the_one_outcome(lookup(), [0, 2, 0])
    assert "'found' at position 0 in layer 1, where the head selects nothing" in message


def test_several_selected_raises_the_same_everywhere():
    message = the_one_outcome(lookup(), [0, 1, 1, 1])
    assert "'found' at position 0 in layer 1, where the head selects 3 positions" in message


def test_exactly_one_selected_is_defined_everywhere():
    assert the_one_outcome(lookup(), [0, 0, 1, 2]) == ([2] * 4, 1)


def test_a_default_is_the_same_everywhere():
    assert the_one_outcome(lookup(default=4), [0, 2]) == ([4, 4], 1)
    assert "selects 2 positions" in the_one_outcome(lookup(default=4), [1, 1])


def test_without_checks_an_undefined_head_is_zero_or_an_average_and_never_nan():
    net = kl.compile(lookup())
    block = net.block(0)
    segment = net.layout["found"].slice
    for tokens, begins in (([0, 2], [0, 0]), ([1, 1], [0.5, 0.5]), ([2, 1], [0, 1])):
        x, mask = net.embed(torch.tensor([tokens])), torch.ones(1, 2, dtype=torch.bool)
        keys, values = block.keys_values(x)
        attended = block.attend(x, block.scores(x, keys, mask), values)
        assert attended[0, 0, segment].tolist() == [*begins, 0, 0, 0, 0]
        after = block(x, mask)
        assert after.isfinite().all() and not after[..., segment].any()  # cleared again, exactly


def test_an_undefined_head_that_is_not_read_disturbs_nothing():
    class Unread(kl.Program):
        tokens = 3
        here = kl.cat(3, token=lambda t: t)
        there = kl.attend(here, here, here)
        left = kl.relative(here, -1)
        output = here
        layers = 3

        def step(z):
            if z.here == 2:
                z.here = (z.left + z.there) % 3

    assert the_one_outcome(Unread, [0, 2, 1, 1, 0, 0]) == ([0, 2, 1, 1, 0, 0], 3)
    assert "'left' at position 0" in the_one_outcome(Unread, [2, 0])
    assert "'there' at position 1" in the_one_outcome(Unread, [1, 2, 2])


@pytest.mark.parametrize("passes", [{0}, {3}, {0, 1}, {2, 3}, {1, 2, 3}, {1}, {0, 3}])
def test_nor_does_one_that_several_variables_together_keep_from_being_read(passes):
    """A threshold on a sum is then the guard, while another test of the same update reads an average."""

    class Kept(kl.Program):
        tokens = 4
        a = kl.cat(2, token=lambda t: t % 2)
        c = kl.cat(3, token=lambda t: t % 3)
        b = kl.cat(2, token=lambda t: t // 2)
        shared = kl.attend(b, b, a)
        output = b
        layers = 2

        def step(z):
            if z.a + z.c in passes:
                z.b = 1 if z.shared == 1 else 0

    for lowering in ("thresholds", "rules"):
        net = kl.compile(Kept, lowering=lowering)
        assert kl.certify(net).holds
        report = kl.verify(Kept, net, lengths=range(1, 6))
        assert report.holds and report.checked == 1364


# --- heads in parallel ------------------------------------------------------------------------------------


def test_heads_of_a_layer_run_in_parallel():
    """Figure 15's SUBLEQ reads a head whose query was written by another head of the same layer; here a
    variable that is written in `step` is seen by heads only in the next layer."""

    class Chain(kl.Program):
        tokens = 4
        value = kl.cat(4, token=lambda t: t)
        index = kl.cat(4, position=lambda p: p)
        pointer = kl.cat(4)
        got = kl.attend(pointer, index, value)
        result = kl.cat(4)
        output = result
        layers = 2

        def step(z):
            z.pointer = z.got
            z.result = z.got

    # layer 1 reads position 0 (value 2), layer 2 the position that it pointed to
    assert the_one_outcome(Chain, [2, 0, 3, 1], layers=1) == ([2] * 4, 1)
    assert the_one_outcome(Chain, [2, 0, 3, 1]) == ([3] * 4, 2)


def test_a_head_of_a_head_is_refused_when_the_class_is_made():
    with pytest.raises(kl.ProgramError, match=r"heads of a layer run in parallel: copy it into a variable"):

        class Chained(kl.Program):
            tokens = 2
            here = kl.cat(2, token=lambda t: t)
            first = kl.relative(here, -1)
            second = kl.attend(first, here, here)
            output = here
            layers = 1

            def step(z):
                z.here = z.second


def test_subleq_with_parallel_heads_takes_three_layers_an_instruction():
    program = kl.library.subleq(-4, 8, 9)
    outputs, layers = the_one_outcome(program, program.encode([6, 7, 3, 6, 7, -1, 1, 2, 0]))
    assert program.decode(outputs) == [6, 7, 3, 6, 7, -1, 1, 0, 0] and layers == 6


# --- writes out of range ----------------------------------------------------------------------------------


def overflowing(limit: int) -> Any:
    class Over(kl.Program):
        tokens = 3
        first = kl.cat(3, token=lambda t: t)
        second = kl.cat(3)
        output = second
        layers = 1

        def step(z):
            z.first = min(z.first + 1, limit)

    return Over


def test_a_write_out_of_range_is_refused_when_compiled_and_when_run():
    with pytest.raises(kl.RangeError, match=r"Over: step writes 3 to 'first', outside 0 … 2 \(for first = 2"):
        kl.compile(overflowing(3))
    assert overflowing(3).run([0, 1]) == [0, 0]
    with pytest.raises(kl.RangeError, match=r"Over: step writes 3 to 'first', outside 0 … 2"):
        overflowing(3).run([0, 2])


def test_a_write_in_range_leaves_the_next_variable_alone():
    assert the_one_outcome(overflowing(2), [0, 1, 2]) == ([0, 0, 0], 1)


# --- two rules for one variable ---------------------------------------------------------------------------


def test_two_rules_for_one_variable_are_an_error_before_anything_runs():
    builder = kl.RuleBuilder(kl.library.addition.spec)
    for stage in builder.get("stage"):
        if stage == 0:
            builder.set("carry", 5)
    for pointer in builder.get("ptr_a"):
        if pointer == 1:
            builder.set("carry", 7)
    with pytest.raises(kl.ProgramError, match=r"addition: two rules set 'carry' at once"):
        builder.updates()


def test_the_last_assignment_of_a_step_counts_everywhere():
    class Twice(kl.Program):
        tokens = 3
        here = kl.cat(3, token=lambda t: t)
        output = here
        layers = 1

        def step(z):
            z.here = 0
            if z.here == 0:
                z.here = 2

    assert the_one_outcome(Twice, [0, 1, 2]) == ([2, 2, 2], 1)


# --- numerical buckets ------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [11, 12, 13, 25, 50])
def test_sum_and_modulo_is_right_from_length_twelve_on(length):
    program = kl.library.parity_sum(length)
    net = kl.compile(program)
    for ones in range(length + 1):
        tokens = [2, *[1] * ones, *[0] * (length - ones)]
        assert net.run(tokens, evaluator="dense") == [ones % 2] * (length + 1), ones


def test_clearing_a_numerical_head_leaves_no_residue():
    """The published reset subtracts the bucket's centre; here the average itself is taken away."""

    class Mean(kl.Program):
        tokens = 5
        number = kl.num([-2, 0, 1, 3, Fraction(7, 2)], token=lambda t: [-2, 0, 1, 3, Fraction(7, 2)][t])
        mean = kl.attend(None, None, number, output=kl.num([-2, 0, 2, 4]))
        result = kl.cat(7)
        output = result
        layers = 4

        def step(z):
            z.result = int(z.mean) + 2

    assert the_one_outcome(Mean, [0, 2, 3])[0] == [2] * 3  # 2/3: nearer to 0 than to 2
    for dtype in ("float32", "float64"):
        net = kl.compile(Mean, dtype=dtype)
        seen: list[torch.Tensor] = []
        inputs = [[0, 2, 3], [0, 0, 1], [4, 4, 4, 3, 2, 1, 0], [1, 1, 2]]
        net.run_batch(inputs, evaluator="dense", watch=lambda layer, rows, x, kept=seen: kept.append(x.clone()))
        assert len(seen) == 4
        for x in seen:
            assert not x[..., net.layout["mean"].slice].any()
            assert set(x.unique().tolist()) <= {0.0, 1.0}


# --- halting ----------------------------------------------------------------------------------------------


def test_halting_is_dynamic_in_the_network_too():
    program = kl.library.parity_relative
    for length in range(1, 7):
        tokens = [2, *[1] * length]
        assert the_one_outcome(program, tokens)[1] == length


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
def test_max_layers_is_the_same_number_everywhere(limit):
    tokens = [2, 1, 1, 1]  # needs three
    wanted = "DidNotHalt" if limit < 3 else ([0, 1, 0, 1], 3)
    assert the_one_outcome(kl.library.parity_relative, tokens, max_layers=limit) == wanted


@pytest.mark.parametrize("layers", [1, 2, 3, 5])
def test_layers_is_the_same_number_everywhere(layers):
    assert the_one_outcome(kl.library.parity_relative, [2, 1, 1], layers=layers)[1] == layers


# --- Figure 8 ---------------------------------------------------------------------------------------------


def test_figure_eight_as_indented_is_wrong_and_figure_two_is_right():
    class FigureEight(Parity):
        """`done = 1` outside of the condition, as the listing's indentation has it."""

        def step(z):
            if not z.done and z.done_left:
                z.parity = z.parity_left ^ z.parity
            z.done = 1

    tokens = [2, 1, 1, 1]
    assert the_one_outcome(FigureEight, tokens) == ([0, 1, 1, 1], 1)  # ends at once: wrong from the third on
    assert the_one_outcome(kl.library.parity_relative, tokens) == ([0, 1, 0, 1], 3)


PARITY = kl.library.parity_relative


@pytest.mark.parametrize(
    "run",
    [
        lambda n: PARITY.run([2, 1], layers=n),
        lambda n: RuleMachine(guarded_updates(PARITY)).run([2, 1], layers=n),
        lambda n: kl.compile(PARITY).run([2, 1], layers=n),
        lambda n: kl.compile(PARITY)(torch.tensor([[2, 1]]), layers=n),
        lambda n: kl.compile(PARITY, shape="encoder", layers=n),
        lambda n: kl.learn(PARITY, [[2, 1]], steps=1).run([2, 1], layers=n),
    ],
)
def test_a_number_of_layers_is_never_negative(run):
    with pytest.raises(InputError, match="layers=-1; it must be a whole number of 0 or more"):
        run(-1)


def test_no_layers_are_no_layers():
    net = kl.compile(PARITY)
    assert PARITY.run([2, 1, 1], layers=0) == net.run([2, 1, 1], layers=0) == [0, 1, 1]
    assert net(torch.tensor([[2, 1, 1]]), layers=0).argmax(dim=-1).tolist() == [[0, 1, 1]]
    decoder = kl.library.parity_scratchpad(4)
    for machine in (decoder, kl.compile(decoder)):
        with pytest.raises(InputError, match="of 1 or more"):
            machine.run([1, 0, 2], layers=0)


def test_the_size_report_is_the_networks_size():
    class Signed(kl.Program):
        tokens = 3
        on = kl.cat(2, default=1)
        sign = kl.num([-1, 0, 1], token=lambda t: t - 1)
        mean = kl.attend(on, on, sign)
        low = kl.cat(2)
        output = low
        layers = 1

        def step(z):
            z.low = 1 if z.mean < 0 else 0

    assert kl.explain_size(Signed).hidden == kl.compile(Signed).sizes.hidden


def test_tokens_may_be_a_tensor():
    assert kl.compile(PARITY).run(torch.tensor([2, 1, 1])) == [0, 1, 0]
    for run in (PARITY.run, kl.compile(PARITY).run):
        assert run([2.0, 1]) == [0, 1]  # whole numbers of any type are tokens
        with pytest.raises(InputError, match="outside the alphabet 0 … 2"):
            run([2.5, 1])


def test_a_sum_may_have_thousands_of_digits():
    assert kl.library.addition.decode([0, *[9] * 5000, 0]) == "9" * 5000
