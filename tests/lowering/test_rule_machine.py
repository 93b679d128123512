"""The rule machine on bits of words and on layers with two steps: what the interpreter computes, in every layer."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import kleene as kl
from kleene.lowering.rule_machine import RuleMachine


class Bits(kl.Program):
    """Reads single bits and slices of a word, in guards and in values."""

    tokens = 8
    w = kl.word(3, token=lambda t: t)
    left = kl.relative(w, -1, default=5)
    odd = kl.cat(2)
    low = kl.word(2)
    output = odd
    layers = 2

    def step(z):
        z.odd = z.w[0] ^ z.left[2]
        if z.w[1] and not z.left[0]:
            z.low = z.w[1:3]


class TwoSteps(kl.Program):
    """A layer whose second step sees what the first has written."""

    tokens = 8
    w = kl.word(3, token=lambda t: t)
    seen = kl.word(3)
    both = kl.cat(2)
    left = kl.relative(w, -1, into=seen, default=0)
    output = both
    layers = 2

    @kl.layer(left)
    def first(z):
        z.both = z.seen[0] & z.w[1]

    @first.then
    def first(z):
        if z.both:
            z.w = z.seen[1:3]

    cycle = (first,)


@pytest.mark.parametrize("program", [Bits, TwoSteps], ids=lambda program: program.__name__)
def test_it_computes_what_the_interpreter_computes(program):
    machine = RuleMachine(kl.guarded_updates(program))
    inputs = [list(word) for n in (1, 2, 3) for word in product(range(program.spec.tokens), repeat=n)]
    seen: dict[int, list[np.ndarray]] = {}

    def watch(layer, rows, state):
        for row, at in enumerate(rows.tolist()):
            seen.setdefault(at, []).append({name: values[row] for name, values in state.items()})

    assert machine.run_batch(inputs, watch=watch) == [program.run(word) for word in inputs]
    for at, word in enumerate(inputs):
        for layer, states in enumerate(program.trace(word).states[1:]):
            for name in program.spec.variables:
                assert [int(v) for v in seen[at][layer][name][: len(word)]] == [state[name] for state in states]


def test_updates_on_bits_are_written_for_people():
    text = str(kl.guarded_updates(Bits))
    assert "if left[0] = 0, w[1] = 1" in text and "low := bits w[2] w[1]" in text
    text = str(kl.guarded_updates(TwoSteps).by_layer[0])
    assert text.startswith("TwoSteps: 2 guarded updates of 2 variables")
    assert "then w := bits seen[2] seen[1]  if both = 1" in " ".join(text.split()).replace("] if", "]  if")
