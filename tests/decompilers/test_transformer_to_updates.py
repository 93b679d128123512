"""Guarded updates read back from the weights: equal to those that were compiled."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import kleene as kl
from kleene.lowering.guarding import guarded_updates
from kleene.lowering.rule_machine import RuleMachine

PROGRAMS = [
    kl.library.parity_relative,
    kl.library.parity_absolute(6),
    kl.library.parity_sum(8),
    kl.library.parity_scratchpad(3),
    kl.library.addition,
    kl.library.addition_scratchpad(2),
    kl.library.subleq(-4, 5, 6),
    kl.library.reverse(5, 4),
    kl.library.histogram(5, 4),
    kl.library.sort(5, 4),
    kl.library.sort_unique(5, 5),
    kl.library.most_frequent(5, 4),
    kl.library.dyck1(5),
    kl.library.dyck2(4),
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_the_library_is_read_back(program):
    found = kl.decompile(kl.compile(program))
    assert found == guarded_updates(program)
    assert found.spec == program.spec


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("program", [PROGRAMS[0], PROGRAMS[1], PROGRAMS[9]], ids=lambda program: program.__name__)
def test_rules_in_every_format_are_read_back(program, dtype):
    for lowering in ("rules", "thresholds"):
        assert kl.decompile(kl.compile(program, lowering=lowering, dtype=dtype)) == guarded_updates(program)


def test_what_is_read_back_runs():
    program = kl.library.addition
    machine = RuleMachine(kl.decompile(kl.compile(program)))
    for text in ("1+2", "99+1", "274+789"):
        tokens = program.encode(text)
        found, wanted = machine.run(tokens), program.run(tokens)
        assert found == wanted and found.layers == wanted.layers


def test_what_is_read_back_verifies_the_network():
    program = kl.library.histogram(4, 3)
    net = kl.compile(program)
    assert kl.verify(kl.decompile(net), net, lengths=range(1, 5), evaluator="dense")


def test_a_saved_network_is_read_back(tmp_path):
    kl.compile(kl.library.dyck1(4)).save(tmp_path / "net")
    assert kl.decompile(kl.load(tmp_path / "net")) == guarded_updates(kl.library.dyck1(4))


def test_it_is_the_weights_that_are_read_not_what_is_saved_beside_them():
    net = kl.compile(kl.library.sort(4, 3))
    net.description = {**net.description, "updates": {"forms": [], "updates": [], "reads": []}}
    assert kl.decompile(net) == guarded_updates(kl.library.sort(4, 3))


def toggling(old: int) -> Any:
    class Toggle(kl.Program):
        tokens = 3
        here = kl.cat(3, token=lambda t: t)
        output = here
        layers = 1

        def step(z):
            if z.here == old:
                z.here = 2

    return Toggle


def test_changed_weights_are_read_as_another_program():
    net = kl.compile(toggling(0), lowering="rules")
    assert kl.decompile(net) == guarded_updates(toggling(0)) != guarded_updates(toggling(1))
    block, names = net.blocks[0], net.layout.names
    zero, one = names.index("here=0"), names.index("here=1")
    with torch.no_grad():  # the rule 0 → 2 becomes 1 → 2
        block.in2[0, [zero, one]] = block.in2[0, [one, zero]]
        block.out2[[zero, one], 0] = block.out2[[one, zero], 0]
    found = kl.decompile(net)
    assert found == guarded_updates(toggling(1)) and found != guarded_updates(toggling(0))


@pytest.mark.parametrize("tensor", ["token_embedding", "halt_weight", "unembedding"])
def test_embeddings_halting_and_output_are_read_from_the_weights(tensor):
    program = kl.library.parity_relative
    net = kl.compile(program)
    layout = net.layout
    done, parity = layout["done"], layout["parity"]
    with torch.no_grad():
        if tensor == "token_embedding":  # the token 0 starts as 1
            net.token_embedding[0, parity.slice] = net.token_embedding[0, parity.slice].flip(0)
        elif tensor == "halt_weight":  # waits for done = 0
            net.halt_weight[done.slice] = net.halt_weight[done.slice].flip(0)
        else:  # reads done
            net.unembedding[:, done.slice] = net.unembedding[:, parity.slice].clone()
            net.unembedding[:, parity.slice] = 0
    spec = kl.decompile(net).spec
    assert spec != program.spec
    if tensor == "token_embedding":
        assert spec.variables["parity"].by_token == (1, 1, 0)
    elif tensor == "halt_weight":
        assert spec.halt == {"done": 0}
    else:
        assert spec.output == "done"


def test_heads_are_read_from_the_weights():
    net = kl.compile(kl.library.parity_relative)
    with torch.no_grad():
        net.blocks[0].relative.data.copy_(net.blocks[0].relative.data.flip(1))  # looks right instead of left
    heads = kl.decompile(net).spec.heads
    assert {head.offsets for head in heads.values()} == {frozenset([1])}


def test_a_guard_on_a_sum_before_a_function_is_read_back():
    """Found by random programs: a test on two variables guards a function of one of them."""

    class Guarded(kl.Program):
        tokens = 4
        a = kl.cat(3)
        b = kl.cat(4, token=lambda t: t)
        c = kl.cat(2, token=lambda t: t % 2)
        output = a
        layers = 1

        def step(z):
            z.a = 0 if z.c + z.b <= 0 else z.b % 3

    for lowering in ("thresholds", "rules"):
        assert kl.decompile(kl.compile(Guarded, lowering=lowering)) == guarded_updates(Guarded)


def test_a_fractional_default_is_read_back():
    from fractions import Fraction

    class Third(kl.Program):
        tokens = 2
        a = kl.cat(2, token=lambda t: t)
        c = kl.num([Fraction(1, 3), 1])
        h = kl.attend(a, a, c, default=Fraction(1, 3))
        output = a
        layers = 1

        def step(z):
            z.a = 1 - z.a

    net = kl.compile(Third)
    assert kl.decompile(net) == guarded_updates(Third) and kl.certify(net).holds


def test_words_of_one_bit_are_read_back():
    """(a + 1) % 2 and 1 − a are one function of a single bit."""

    class Flips(kl.Program):
        tokens, layers = 2, 1
        a = kl.word(1, token=lambda t: t)
        b = kl.word(1)
        output = b

        def step(z):
            z.b = (z.a + 1) % 2

    assert kl.decompile(kl.compile(Flips)) == guarded_updates(Flips)


def test_updates_that_mention_different_comparisons_are_compared():
    def compares(limit: int) -> Any:
        class Compares(kl.Program):
            tokens, layers = 8, 1
            a = kl.word(3, token=lambda t: t)
            b = kl.cat(2)
            output = b

            def step(z):
                if z.a >= limit:
                    z.b = 1

        return Compares

    assert guarded_updates(compares(3)) != guarded_updates(compares(4))
    assert guarded_updates(compares(0)) != guarded_updates(compares(4))
    assert kl.decompile(kl.compile(compares(4))) == guarded_updates(compares(4))


@pytest.mark.parametrize("options", [{}, {"default": 2}, {"default": 2, "latest": True}])
def test_a_head_that_asks_for_nothing_and_writes_is_certified_and_read_back(options):
    class Asks(kl.Program):
        tokens, layers = 3, 1
        a = kl.cat(3, token=lambda t: t)
        b = kl.cat(3)
        never = kl.subset(3, [set()])
        put = kl.attend(never, a, a, into=b, where={a: 1}, **options)
        output = b

        def step(z):
            pass

    net = kl.compile(Asks)
    assert kl.certify(net).holds
    assert kl.decompile(net) == guarded_updates(Asks)
    assert kl.verify(Asks, net, lengths=range(1, 4)).holds
