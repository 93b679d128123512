"""Heads that count, ask whether there is a match, or have a default above the range of their value."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

import kleene as kl
from agreeing import outcomes
from kleene.errors import ProgramError, RangeError
from kleene.lowering.guarding import guarded_updates

LONGEST = 12


def aggregates(only_left: bool, limited: bool) -> Any:
    class Aggregates(kl.Program):
        tokens, layers, causal = 4, 2, only_left
        here = kl.cat(4, token=lambda t: t)
        asked = kl.cat(4, token=lambda t: (t + 1) % 4)
        odd = kl.cat(2, token=lambda t: t % 2)
        matches = kl.count(asked, here, most=LONGEST, **({"among": {odd: 1}, "where": {odd: 0}} if limited else {}))
        positions_seen = kl.length(LONGEST)
        near = kl.count(most=5, offsets=range(-2, 3))
        there = kl.any(asked, here)
        last = kl.attend(asked, here, here, default="none", latest=True)
        first = kl.attend(asked, here, here, default=6, earliest=True)
        moved = kl.cat(6)
        put = kl.attend(asked, here, here, default=5, into=moved, latest=True)
        counted = kl.cat(LONGEST + 1)
        size = kl.cat(LONGEST + 1)
        beside = kl.cat(6)
        exists = kl.cat(2)
        both = kl.cat(11)
        output = counted

        def step(z):
            z.counted, z.size, z.beside, z.exists = z.matches, z.positions_seen, z.near, z.there
            z.both = z.last + z.first
            if z.matches > 2:
                z.here = (z.here + 1) % 4

    return Aggregates


def some_inputs(count: int = 40) -> list[list[int]]:
    chance = random.Random(0)
    return [[chance.randrange(4) for _ in range(chance.randint(1, LONGEST))] for _ in range(count)]


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("only_left", [False, True])
def test_aggregates_are_what_plain_python_counts(only_left, limited):
    program = aggregates(only_left, limited)
    for tokens in some_inputs(20):
        for i, state in enumerate(program.trace(tokens).states[1]):
            seen = range(i + 1 if only_left else len(tokens))
            found = [j for j in seen if tokens[j] == (tokens[i] + 1) % 4]
            kept = [j for j in found if not limited or (tokens[j] % 2 and tokens[i] % 2 == 0)]
            assert state["counted"] == len(kept) and state["size"] == len(seen)
            assert state["beside"] == len([j for j in seen if abs(j - i) <= 2]) and state["exists"] == bool(found)
            asked = (tokens[i] + 1) % 4
            assert state["both"] == (2 * asked if found else 4 + 6) and state["moved"] == (asked if found else 5)


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("only_left", [False, True])
def test_every_side_agrees(only_left, limited):
    program = aggregates(only_left, limited)
    net = kl.compile(program, length=LONGEST)
    for evaluator in ("dense", None):
        assert kl.verify(program, net, inputs=some_inputs(), evaluator=evaluator).holds
    for tokens in some_inputs(5):
        assert len(set(map(str, outcomes(program, tokens)))) == 1
    assert kl.certify(net, program=program).holds
    assert kl.decompile(net) == guarded_updates(program)


class Histogram(kl.Program):
    """How often each token occurs."""

    tokens, layers = 4, 1
    here = kl.cat(4, token=lambda t: t)
    same = kl.count(here, here, most=LONGEST)
    result = kl.cat(LONGEST + 1)
    output = result

    def step(z):
        z.result = z.same


def test_counting_runs_sparse():
    net = kl.compile(Histogram, length=LONGEST)
    for tokens in some_inputs():
        assert list(net.run(tokens, evaluator="sparse")) == [tokens.count(token) for token in tokens]


def test_counting_more_than_declared_is_an_error():
    class Few(kl.Program):
        tokens, layers = 2, 1
        here = kl.cat(2, token=lambda t: t)
        same = kl.count(here, here, most=2)
        result = kl.cat(3)
        output = result

        def step(z):
            z.result = z.same

    assert list(Few.run([0, 1, 0])) == [2, 1, 2]
    for run in (Few.run, lambda tokens: kl.compile(Few).run(tokens, check=True)):
        with pytest.raises(RangeError, match="'same' at position 0 in layer 1"):
            run([0, 0, 0])


@pytest.mark.parametrize("by", [-1024, 1024, 1])
def test_the_certificate_refuses_a_null_key_that_does_not_score_like_a_match(by):
    net = kl.compile(Histogram)
    assert kl.certify(net).holds
    with torch.no_grad():
        net.blocks[0].null_score += by
    certificate = kl.certify(net)
    assert not certificate.holds and "it counts, and a match scores" in str(certificate)


def test_what_counts_takes_is_checked():
    with pytest.raises(ProgramError, match="most must be a whole number"):
        kl.count(most=0)
