"""Interpreter, rule machine, `rules` network and `thresholds` network: the same outputs, the same layers."""

from __future__ import annotations

import random
from functools import cache
from itertools import product
from typing import Any

import pytest
import torch

import agreeing
import kleene as kl
from agreeing import START, running_parity
from kleene.errors import InputError, NotSupported
from kleene.lowering.guarding import guarded_updates
from kleene.lowering.rule_machine import RuleMachine

EVALUATORS = ["dense", "sparse"]
DTYPES = ["float32", "float64"]


@cache
def compiled(program: Any, lowering: str = "thresholds", dtype: str = "float32") -> Any:
    return kl.compile(program, lowering=lowering, dtype=dtype)


@cache
def classic(name: str, *sizes: int) -> Any:
    return getattr(kl.library, name)(*sizes)


def told(outputs: Any) -> list[Any]:
    return [(list(output), output.layers) for output in outputs]


def all_agree(program: Any, inputs: Any, lowerings: Any = ("thresholds", "rules"), interpreted: int = 5) -> Any:
    """Rule machine and networks on all inputs, every evaluator; the interpreter on some. Gives the outputs."""
    inputs = [list(tokens) for tokens in inputs]
    wanted = RuleMachine(guarded_updates(program)).run_batch(inputs)
    for place in random.Random(0).sample(range(len(inputs)), min(interpreted, len(inputs))):
        assert told([program.run(inputs[place])]) == told([wanted[place]]), inputs[place]
    for lowering in lowerings:
        for evaluator in EVALUATORS:
            found = compiled(program, lowering).run_batch(inputs, evaluator=evaluator)
            assert told(found) == told(wanted), (lowering, evaluator)
    return wanted


# --- parity -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lowering", ["thresholds", "rules"])
@pytest.mark.parametrize("evaluator", EVALUATORS)
def test_parity_on_every_input_up_to_length_twelve(lowering, evaluator):
    program = classic("parity_absolute", 12)
    report = kl.verify(guarded_updates(program), compiled(program, lowering), lengths=range(1, 13), evaluator=evaluator)
    assert report.holds and report.checked == 2**13 - 2, report


@pytest.mark.parametrize("evaluator", EVALUATORS)
def test_parity_against_the_interpreter(evaluator):
    program = classic("parity_absolute", 12)
    report = kl.verify(program, compiled(program), lengths=range(1, 9), evaluator=evaluator)
    assert report.holds and report.checked == 2**9 - 2, report
    program = kl.library.parity_relative  # most of its inputs lack START and raise, or have several
    report = kl.verify(program, compiled(program), lengths=range(1, 6), evaluator=evaluator)
    assert report.holds and report.raised > 0, report


def test_parity_is_the_parity_and_takes_n_minus_one_layers():
    program = classic("parity_absolute", 12)
    inputs = [bits for length in range(1, 9) for bits in product((0, 1), repeat=length)]
    for bits, output in zip(inputs, all_agree(program, inputs)):
        assert output == running_parity(bits)
        assert output.layers == max(1, len(bits) - 1)  # a layer is run before halting is looked at
    inputs = [[START, *bits] for length in range(7) for bits in product((0, 1), repeat=length)]
    for tokens, output in zip(inputs, all_agree(kl.library.parity_relative, inputs)):
        assert output == running_parity([0, *tokens[1:]]) and output.layers == max(1, len(tokens) - 1)


@pytest.mark.slow
def test_parity_on_every_input_up_to_length_twelve_against_the_interpreter():
    program = classic("parity_absolute", 12)
    for lowering in ("thresholds", "rules"):
        for dtype in DTYPES:
            report = kl.verify(program, compiled(program, lowering, dtype), lengths=range(1, 13))
            assert report.holds and report.checked == 2**13 - 2, report


@pytest.mark.parametrize("length", [1, 5, 20, 50])
def test_parity_by_sum(length):
    program, chance = classic("parity_sum", length), random.Random(length)
    inputs = [[START, *(chance.randrange(2) for _ in range(length))] for _ in range(20)]
    inputs += [[START, *[1] * length], [START, *[0] * length], [START, *[1] * (length - 1)], [START]]
    outputs = all_agree(program, inputs, lowerings=("thresholds", "rules") if length < 30 else ("thresholds",))
    for tokens, output in zip(inputs, outputs):
        assert output == [sum(tokens[1:]) % 2] * len(tokens) and output.layers == 1


# --- addition ---------------------------------------------------------------------------------------------


def sums(pairs: Any, **options: Any) -> None:
    program = kl.library.addition
    pairs = list(pairs)
    inputs = [program.encode(f"{a}+{b}") for a, b in pairs]
    for (a, b), output in zip(pairs, all_agree(program, inputs, **options)):
        assert program.decode(output) == str(a + b)
        assert output.layers == max(len(str(a)), len(str(b))) + 2


def test_addition_on_pairs_of_at_most_two_digits():
    every = list(product(range(100), repeat=2))
    chosen = random.Random(0).sample(every, 300)
    edges = [(0, 0), (9, 9), (99, 1), (99, 99), (0, 99), (50, 50), (5, 5), (9, 91)]
    sums(chosen + edges, lowerings=("thresholds",))
    sums(chosen[:20] + edges)


def long_number(chance: random.Random) -> int:
    return chance.randrange(10 ** chance.randint(1, 50))


def test_addition_of_long_numbers():
    chance = random.Random(1)
    pairs = [(long_number(chance), long_number(chance)) for _ in range(30)]
    sums([*pairs, (10**50 - 1, 1), (10**50 - 1, 10**50 - 1)], lowerings=("thresholds",), interpreted=2)


@pytest.mark.slow
def test_addition_on_every_pair_of_at_most_two_digits():
    sums(product(range(100), repeat=2), interpreted=10_000)


@pytest.mark.slow
def test_addition_of_two_thousand_random_pairs_up_to_fifty_digits():
    chance = random.Random(2)
    pairs = [(long_number(chance), long_number(chance)) for _ in range(2_000)]
    sums(pairs, lowerings=("thresholds",), interpreted=2_000)
    sums(pairs[:100])


# --- the classics -----------------------------------------------------------------------------------------

LENGTHS = [5, 10, 20, 40]


def random_inputs(length: int, values: int, count: int, distinct: bool = False) -> list[list[int]]:
    """Inputs of the full length and a shorter one; at the edges all equal, ascending and descending."""
    chance, inputs = random.Random(length), []
    for size in [length] * count + [max(1, length // 2), 1]:
        if distinct:
            inputs.append(chance.sample(range(values), size))
        else:
            few = chance.choice([values, 3])
            inputs.append([chance.randrange(min(few, values)) for _ in range(size)])
    inputs += [list(range(length)), list(range(length))[::-1]]
    return inputs if distinct else [*inputs, [0] * length, [values - 1] * length]


ANSWERS: dict[str, Any] = {
    "sort": lambda tokens, values: sorted(tokens),
    "sort_unique": lambda tokens, values: sorted(tokens),
    "reverse": lambda tokens, values: tokens[::-1],
    "histogram": lambda tokens, values: [tokens.count(token) for token in tokens],
    "most_frequent": agreeing.most_frequent,
}


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", ANSWERS)
def test_a_classic_is_right(name, length):
    program = classic(name, length, length)
    inputs = random_inputs(length, length, 6, distinct=name == "sort_unique")
    small = length == 5 or (length == 10 and name in ("sort", "reverse"))
    lowerings = ("thresholds", "rules") if small else ("thresholds",)
    outputs = all_agree(program, inputs, lowerings, interpreted=3 if length < 40 else 1)
    for tokens, output in zip(inputs, outputs):
        assert output == ANSWERS[name](tokens, length) and output.layers == program.spec.layers, tokens


@pytest.mark.parametrize("name", ["sort", "histogram", "reverse", "most_frequent"])
def test_a_small_classic_is_right_on_every_input(name):
    program = classic(name, 4, 3)
    inputs = [list(tokens) for length in range(1, 5) for tokens in product(range(3), repeat=length)]
    for tokens, output in zip(inputs, all_agree(program, inputs, interpreted=120)):
        assert output == ANSWERS[name](tokens, 3)


def balanced(length: int, kinds: int, chance: random.Random) -> list[int]:
    """A random balanced word, each kind by itself."""
    word: list[int] = []
    depths = [0] * kinds
    while len(word) < length:
        kind = chance.randrange(kinds)
        left = length - len(word)
        if sum(depths) >= left:
            kind = chance.choice([k for k in range(kinds) if depths[k]])
            closes = True
        else:
            closes = depths[kind] > 0 and chance.random() < 0.5
        depths[kind] += -1 if closes else 1
        word.append(2 * kind + closes)
    return word


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("kinds", [1, 2])
def test_dyck_is_right(kinds, length):
    program, chance = classic(f"dyck{kinds}", length), random.Random(length)
    even = length - length % 2
    inputs = [balanced(even, kinds, chance) for _ in range(6)]
    inputs += [[chance.randrange(2 * kinds) for _ in range(length)] for _ in range(6)]
    inputs += [[0] * length, [1] * length, [0] * (even // 2) + [1] * (even // 2), [2 * kinds - 2]]
    lowerings = ("thresholds", "rules") if length <= 10 else ("thresholds",)
    outputs = all_agree(program, inputs, lowerings, interpreted=3 if length < 40 else 1)
    for tokens, output in zip(inputs, outputs):
        assert output == agreeing.dyck(tokens, kinds) and output.layers == len(tokens), tokens
    assert all(output[-1] == 2 for output in outputs[:6])


@pytest.mark.parametrize("kinds", [1, 2])
def test_dyck_is_right_on_every_short_word(kinds):
    program = classic(f"dyck{kinds}", 6)
    inputs = [word for length in range(1, 7 if kinds == 1 else 5) for word in product(range(2 * kinds), repeat=length)]
    for word, output in zip(inputs, all_agree(program, inputs)):
        assert output == agreeing.dyck(word, kinds)


# --- SUBLEQ -----------------------------------------------------------------------------------------------

MEMORIES = {
    "halts at once": [-1, 0, 0],
    "one subtraction, then a negative operand": [6, 7, 3, -1, 0, 0, 2, 5],
    "jumps to a negative address": [3, 4, -1, 4, 4],
    "adds by way of a zero": [12, 14, 3, 14, 13, 6, 14, 14, 9, -1, 0, 0, 4, 5, 0],
    "counts down in a loop": [10, 9, -1, 11, 11, 0, 0, 0, 0, 3, 1, 0],
    "changes its own instruction": [9, 3, 3, 0, 10, 6, -1, 0, 0, -9, 5],
    "wraps round": [6, 7, 3, -1, 0, 0, -16, 16],
}


@pytest.mark.parametrize("name", MEMORIES)
def test_subleq_runs_small_programs(name):
    memory = MEMORIES[name]
    program = classic("subleq", -16, 16, 16)
    wanted, instructions = agreeing.subleq(memory, -16, 16)
    (output,) = all_agree(program, [program.encode(memory)], ("thresholds",))
    assert program.decode(output) == wanted
    # three layers an instruction; one that halts for its negative operand ends after its fetch
    assert output.layers in (3 * instructions, 3 * (instructions - 1) + 1)


def test_subleq_on_random_memories():
    low, high, size = -6, 7, 8
    program, chance, kept = classic("subleq", low, high, size), random.Random(5), []
    while len(kept) < 40:
        memory = [chance.choice([chance.randint(0, size - 3), chance.randint(low, high)]) for _ in range(size)]
        try:
            kept.append((memory, *agreeing.subleq(memory, low, high, limit=30)))
        except (AssertionError, IndexError, ValueError):
            continue  # it does not end, or leaves its memory
    outputs = all_agree(program, [program.encode(memory) for memory, _, _ in kept], interpreted=10)
    for (memory, wanted, instructions), output in zip(kept, outputs):
        assert program.decode(output) == wanted, memory
        assert output.layers in (3 * instructions, 3 * (instructions - 1) + 1)
    assert max(instructions for _, _, instructions in kept) > 3


def test_a_subleq_program_that_never_ends_says_so_on_every_side():
    program = classic("subleq", -6, 7, 8)
    tokens = program.encode([3, 3, 0, 0, 0, 0])  # 0 − 0 ≤ 0: again and again
    net = compiled(program)
    runs = [program.run, RuleMachine(guarded_updates(program)).run]
    runs += [lambda given, e=e, **options: net.run(given, evaluator=e, **options) for e in EVALUATORS]
    for run in runs:
        with pytest.raises(kl.DidNotHalt, match="within 30 layers"):
            run(tokens, max_layers=30)


# --- decoders ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lowering", ["thresholds", "rules"])
@pytest.mark.parametrize("text", ["0", "1", "1101", "10111"])
def test_the_parity_decoder(text, lowering):
    program = classic("parity_scratchpad", 5)
    net, tokens = compiled(program, lowering), program.encode(text)
    wanted = program.run(tokens)
    machine = RuleMachine(guarded_updates(program)).run(tokens)
    cached, uncached = (net.decode_batch([tokens], cached=flag)[0] for flag in (True, False))
    assert told([wanted]) == told([machine]) == told([cached]) == told([uncached]) == told([net.run(tokens)])
    assert program.decode(wanted) == "".join(map(str, running_parity([int(bit) for bit in text])))


@pytest.mark.parametrize("a, b", [(0, 0), (7, 8), (34, 56), (99, 1), (905, 95), (999, 999)])
def test_the_addition_decoder(a, b):
    program = classic("addition_scratchpad", 3)
    net, tokens = compiled(program), program.encode(f"{a}+{b}")
    wanted = program.run(tokens)
    machine = RuleMachine(guarded_updates(program)).run(tokens)
    cached, uncached = (net.decode_batch([tokens], cached=flag)[0] for flag in (True, False))
    assert told([wanted]) == told([machine]) == told([cached]) == told([uncached]) == told([net.run(tokens)])
    assert program.decode(wanted) == str(a + b)


def test_the_addition_decoder_on_every_pair_of_one_digit():
    program = classic("addition_scratchpad", 1)
    pairs = list(product(range(10), repeat=2))
    inputs = [program.encode(f"{a}+{b}") for a, b in pairs]
    report = kl.verify(program, compiled(program), inputs=inputs)
    assert report.holds and report.checked == 100, report
    for (a, b), output in zip(pairs, compiled(program).run_batch(inputs)):
        assert program.decode(output) == str(a + b)


# --- shapes and number formats ----------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("evaluator", EVALUATORS)
def test_an_encoder_runs_a_fixed_number_of_layers(shared, evaluator):
    program = kl.library.addition
    net = kl.compile(program, shape="encoder", layers=5, shared=shared)
    assert len(net.blocks) == (1 if shared else 5)
    tokens = program.encode("274+789")
    output = net.run(tokens, evaluator=evaluator)
    assert output.layers == 5 and output == program.run(tokens, layers=5)
    assert program.decode(output) == "1063"
    short = program.encode("2+9")  # halted long before: what it computed stays
    assert net.run(short, evaluator=evaluator) == program.run(short, layers=5)


@pytest.mark.parametrize("lowering", ["thresholds", "rules"])
@pytest.mark.parametrize(
    ("dtype", "evaluator"), [*product(DTYPES, EVALUATORS), ("bfloat16", "dense"), ("bfloat16", None)]
)
def test_number_formats(dtype, evaluator, lowering):
    chance = random.Random(3)
    program = kl.library.parity_relative
    net = kl.compile(program, dtype=dtype, lowering=lowering)
    assert str(net.dtype) == f"torch.{dtype}"
    inputs = [[START, *(chance.randrange(2) for _ in range(n))] for n in range(1, 9)]
    assert kl.verify(program, net, inputs=inputs, evaluator=evaluator)
    sort = classic("sort", 6, 4)
    net = kl.compile(sort, dtype=dtype, lowering=lowering)
    assert kl.verify(sort, net, random=20, lengths=range(1, 7), evaluator=evaluator)


def test_bfloat16_runs_dense():
    net = kl.compile(kl.library.parity_relative, dtype="bfloat16")
    with pytest.raises(kl.NotSupported, match="bfloat16"):
        net.run([START, 1], evaluator="sparse")
    with pytest.raises(kl.NotSupported, match="bfloat16"):  # no disagreement, but nothing that can be checked
        kl.verify(kl.library.parity_relative, net, inputs=[[START, 1]], evaluator="sparse")


def test_an_unknown_evaluator_is_refused():
    with pytest.raises(kl.NotSupported, match="'quick'"):
        compiled(kl.library.parity_relative).run([START, 1], evaluator="quick")


@pytest.mark.parametrize("evaluator", EVALUATORS)
def test_a_batch_of_different_lengths_is_as_one_by_one(evaluator):
    program = kl.library.addition
    inputs = [program.encode(text) for text in ("1+2", "99999+1", "34+56", "0+0", "123+877")]
    net = compiled(program)
    assert told(net.run_batch(inputs, evaluator=evaluator)) == told([net.run(x, evaluator=evaluator) for x in inputs])
    assert told(net.run_batch(inputs, evaluator=evaluator)) == told(map(program.run, inputs))
    assert net.run_batch([], evaluator=evaluator) == []


@pytest.mark.parametrize("evaluator", EVALUATORS)
def test_layers_and_max_layers_mean_the_same_on_every_side(evaluator):
    program = kl.library.parity_relative
    net, tokens = compiled(program), [START, 1, 1, 1]
    for layers in range(6):
        wanted = program.run(tokens, layers=layers)
        assert told([net.run(tokens, layers=layers, evaluator=evaluator)]) == told([wanted])
    assert net.run(tokens, max_layers=3, evaluator=evaluator).layers == 3
    with pytest.raises(kl.DidNotHalt):
        net.run(tokens, max_layers=2, evaluator=evaluator)


def test_changed_weights_are_seen_by_every_evaluator():
    program = kl.library.parity_relative
    net, tokens = kl.compile(program), [START, 1, 0, 1]
    before = [net.run(tokens, evaluator=evaluator) for evaluator in EVALUATORS]
    net.unembedding.data.copy_(net.unembedding.data.flip(0))
    after = [net.run(tokens, evaluator=evaluator) for evaluator in EVALUATORS]
    assert before[0] == before[1] == [0, 1, 1, 0] and after[0] == after[1] == [1, 0, 0, 1]


# --- verify itself ----------------------------------------------------------------------------------------


def broken(program: Any, **options: Any) -> Any:
    net = kl.compile(program, **options)
    units = net.blocks[0].out2
    with torch.no_grad():
        units[:, int(units.any(dim=0).nonzero()[0])] = 0
    return net


@pytest.mark.parametrize("evaluator", EVALUATORS)
def test_verify_finds_a_broken_network_and_shows_where(evaluator):
    program = classic("parity_absolute", 6)
    net = broken(program, lowering="rules")
    report = kl.verify(program, net, lengths=range(1, 6), evaluator=evaluator, max_layers=10)
    assert not report.holds and not report and 0 < report.mismatches < report.checked
    found = report.counterexample
    assert len(found.input) == 2  # the shortest
    assert "in layer 1, position 1" in found.where and "parity" in found.where


def test_verify_counts_random_and_given_inputs():
    program = kl.library.parity_relative
    net = compiled(program)
    report = kl.verify(program, net, random=50, lengths=[3, 4], seed=3, evaluator="dense")
    assert report.checked == 50 and report.holds
    assert kl.verify(program, net, inputs=[[2, 1]], evaluator="dense").checked == 1
    assert not kl.verify(program, net, inputs=[], evaluator="dense")  # nothing checked, nothing shown
    with pytest.raises(kl.InputError):
        kl.verify(program, net)


EVEN = kl.DFA.build("even", (q for q in ["even"]), {"even": {"a": "odd"}, "odd": {"a": "even"}})
PARITY = kl.library.parity_relative


def test_what_fails_is_false_and_nothing_checked_is_not_a_success():
    other = kl.compile(~EVEN)
    assert not kl.verify(EVEN, other) and not kl.certify(other, machine=EVEN)
    assert kl.verify(EVEN, kl.compile(EVEN)) and kl.certify(kl.compile(EVEN))
    assert not kl.verify(EVEN, kl.compile(EVEN), inputs=[]).holds
    broken = kl.compile(PARITY)
    with torch.no_grad():
        broken.block(0).out2.zero_()
    assert not kl.certify(broken)


def test_verify_keeps_to_what_a_network_takes():
    program = kl.library.parity_sum(16)
    net = kl.compile(program, length=6)
    assert kl.verify(program, net, random=50).holds
    with pytest.raises(InputError, match="length 8 is more than the 6 that the network takes"):
        kl.verify(program, net, lengths=[8])


def test_learned_networks_are_verified_in_their_outputs():
    net = kl.learn(PARITY, [[2, 1, 1, 0], [2, 0, 0, 1], [2, 1, 0, 1]], steps=1_000)
    report = kl.verify(PARITY, net, inputs=[[2, 0, 1, 1, 1], [2, 1], [0]])
    assert report.holds and report.checked == 2  # on [0] the program raises
    assert "agree in outputs; 1 more left out" in f"{report}"
    standard = kl.learn(PARITY, [[2, 1]], steps=1, supervision="end-to-end", max_length=4)
    assert kl.verify(PARITY, standard, lengths=[2]).checked == 3
    assert kl.verify(PARITY, standard, random=5, lengths=[9]).checked == 5  # relative positions: any length
    with pytest.raises(NotSupported, match="options for compiled networks"):
        kl.verify(PARITY, net, lengths=[2], layers=3)


def test_an_encoder_is_verified_at_all_its_layers():
    assert kl.verify(PARITY, kl.compile(PARITY, shape="encoder", layers=9), lengths=range(1, 5)).holds


@pytest.mark.parametrize(
    "machine, network",
    [(PARITY, EVEN), (EVEN, PARITY), (kl.library.turing_machines.POWERS_OF_TWO, EVEN)],
)
def test_what_does_not_fit_is_said(machine, network):
    with pytest.raises(NotSupported, match=r"cannot compare|not compiled from an automaton"):
        kl.verify(machine, kl.compile(network), lengths=[2])


def test_an_encoder_of_more_layers_than_the_program_has():
    class Shift(kl.Program):
        tokens = 2
        layers = 1
        x = kl.cat(2, token=lambda t: t)
        left = kl.relative(x, -1, default=0)
        output = x

        def step(z):
            z.x = z.left

    net = kl.compile(Shift, shape="encoder", layers=3)
    assert kl.verify(Shift, net, lengths=range(1, 6), layers=3).holds
    assert not kl.verify(Shift, net, lengths=range(1, 6)).holds  # the program shifts once, the network three times


def test_options_that_are_none():
    net = kl.compile(kl.library.parity_relative)
    with pytest.raises(kl.InputError, match=r"lengths=5; give several, as in lengths=range\(1, 6\)"):
        kl.verify(kl.library.parity_relative, net, lengths=5)
    with pytest.raises(kl.NotSupported, match="verify: there is no option lenghts="):
        kl.verify(kl.library.parity_relative, net, lenghts=[5])
    with pytest.raises(kl.NotSupported, match="compile: there is no option shapes= for a Program"):
        kl.compile(kl.library.parity_relative, shapes="encoder")
    with pytest.raises(kl.InputError, match="length=-3; the longest input has 1 token or more"):
        kl.compile(kl.library.parity_relative, length=-3)


class Counting(kl.Program):
    """Counts up and halts at 1, but goes on counting where it is not stopped."""

    tokens = 2
    count = kl.cat(5, token=lambda t: 0)
    done = kl.cat(2)
    output = count
    halt = {done: 1}

    def step(z):
        z.count = min(z.count + 1, 4)
        z.done = 1


def test_an_encoder_of_a_halting_program_is_compared_as_it_is():
    net = kl.compile(Counting, shape="encoder", layers=3)
    assert (Counting.run([0]), net.run([0])) == ([1], [3])
    report = kl.verify(Counting, net, lengths=[1, 2])
    assert report.mismatches == report.checked == 6 and not report.holds
    assert "expected [1], found [3]" in str(report)
    assert not kl.verify(kl.guarded_updates(Counting), net, lengths=[1, 2]).holds
    assert kl.verify(Counting, net, lengths=[1, 2], layers=3).holds
    settled = kl.verify(PARITY, kl.compile(PARITY, shape="encoder", layers=9), lengths=range(1, 5))
    assert settled.holds and not settled.layers and "and layers" not in str(settled)


def test_an_encoder_with_blocks_of_its_own_keeps_step_with_its_cycle():
    class Turns(kl.Program):
        tokens = 2
        layers = 3
        count = kl.cat(8)
        output = count

        @kl.layer()
        def up(z):
            z.count = min(z.count + 1, 7)

        @kl.layer()
        def twice(z):
            z.count = min(2 * z.count, 7)

        cycle = [up, twice]

    net = kl.compile(Turns, shape="encoder", layers=3, shared=False)
    assert [net.run([0], layers=n) for n in range(9)] == [Turns.run([0], layers=n) for n in range(9)]
    assert kl.compile(Turns, shape="encoder", layers=3).run([0], layers=5) == Turns.run([0], layers=5)
    assert kl.compile(Turns, shape="encoder", layers=1, shared=False).run([0]) == Turns.run([0], layers=1)
