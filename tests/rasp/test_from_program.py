"""Attention programs as s-ops: the same outputs, and clear words where a program does not fit."""

from __future__ import annotations

import random

import pytest

import kleene as kl

PROGRAMS = [
    (kl.library.reverse(6, 4), 4, None),
    (kl.library.histogram(6, 4), 4, None),
    (kl.library.sort(6, 4), 4, None),
    (kl.library.sort_unique(6, 6), 6, None),
    (kl.library.dyck1(6), 2, 6),
    (kl.library.most_frequent(5, 3), 3, None),
]


@pytest.mark.parametrize("program, tokens, layers", PROGRAMS, ids=lambda thing: getattr(thing, "__name__", ""))
def test_outputs_are_the_same(program, tokens, layers):
    sop, chance = kl.to_rasp(program, layers=layers), random.Random(0)
    for _ in range(15):
        size = chance.randint(1, 5)
        unique = program.__name__ == "sort_unique"
        xs = chance.sample(range(tokens), size) if unique else [chance.randrange(tokens) for _ in range(size)]
        assert sop(xs) == list(program.run(xs, layers=layers))


def test_the_s_op_compiles_again():
    program = kl.library.reverse(3, 2)
    sop = kl.to_rasp(program)
    net = kl.compile(sop, vocab=range(2), max_seq_len=3)
    assert kl.verify(sop, net, lengths=range(1, 4)).mismatches == 0
    assert net.apply([0, 1, 1]).decoded == [1, 1, 0]


def test_what_does_not_fit_is_named():
    with pytest.raises(kl.NotSupported, match="give layers="):
        kl.to_rasp(kl.library.dyck1(4))
    with pytest.raises(kl.NotSupported, match=r"kl\.word|into="):
        kl.to_rasp(kl.library.computer(8))
