"""Ranges: variables that saturate or wrap, and states that no run reaches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import kleene as kl
from agreeing import outcomes
from kleene.errors import ProgramError, RangeError, StepError
from kleene.lowering.guarding import guarded_updates


class Counts(kl.Program):
    """x stops at 3: a fourth value, and what step does there, never come up."""

    tokens, layers = 2, 5
    x = kl.cat(5, token=lambda t: t)
    y = kl.cat(3)
    left = kl.relative(x, -1, default=0)
    output = x

    def step(z):
        if z.x < 3:
            z.x = z.x + 1
        elif z.x == 4:
            z.x = z.x + 5
        z.y = [0, 1, 2, 1][z.left]


class Turns(kl.Program):
    """Two up, two down: each layer has its own values."""

    tokens, layers = 2, 6
    x = kl.cat(4, token=lambda t: t)
    output = x

    @kl.layer()
    def up(z):
        z.x = z.x + 2

    @kl.layer()
    def down(z):
        z.x = z.x - 2

    cycle = (up, down)


class Moves(kl.Program):
    """A head writes into x what y holds, so that 3 is reached."""

    tokens, layers = 2, 3
    x = kl.cat(5, token=lambda t: t)
    y = kl.cat(5, default=3)
    put = kl.relative(y, -1, default=0, into=x)
    output = x

    def step(z):
        z.x = z.x + 1


def everything_agrees(program: Any) -> None:
    net = kl.compile(program)
    assert kl.verify(program, net, lengths=range(1, 5)).holds
    assert kl.certify(net, program=program).holds
    assert kl.decompile(net) == guarded_updates(program)
    for tokens in ([0], [1, 0, 1], [0, 0, 1, 1]):
        assert len(set(map(str, outcomes(program, tokens)))) == 1


@pytest.mark.parametrize("program", [Counts, Turns, Moves])
def test_what_no_run_reaches_is_no_error(program):
    everything_agrees(program)


def test_the_values_that_are_reached():
    assert guarded_updates(Counts).reached["x"] == {0, 1, 2, 3}
    assert guarded_updates(Counts).reached["left"] == {0, 1, 2, 3}
    assert [part.reached["x"] for part in guarded_updates(Turns).by_layer] == [{0, 1}, {2, 3}]
    assert guarded_updates(Moves).before["x"] == {0, 1, 4} and guarded_updates(Moves).reached["x"] == {0, 3}
    assert "no run reaches x = 4" in str(kl.certify(Counts))


def test_what_a_run_reaches_is_an_error_with_an_example():
    class Leaves(kl.Program):
        tokens, layers = 2, 2
        x = kl.cat(3, token=lambda t: t)
        output = x

        def step(z):
            z.x = z.x + 1

    with pytest.raises(RangeError, match=r"writes 3 to 'x', outside 0 … 2 \(for x = 2; line \d+; .*saturate=True"):
        kl.compile(Leaves)


def test_an_exception_that_a_run_reaches_is_an_error():
    class Divides(kl.Program):
        tokens, layers = 2, 2
        x = kl.cat(3, token=lambda t: t)
        output = x

        def step(z):
            z.x = 2 // z.x

    with pytest.raises(StepError, match="ZeroDivisionError"):
        kl.compile(Divides)


def test_the_statement_about_step_does_not_believe_the_values(monkeypatch):
    """Leave out a value that runs reach: certify sees step make it, or start with it."""
    for values in ({0, 1, 2}, {1, 2, 3}):
        right = guarded_updates(Counts)
        wrong = replace(right, before={**right.before, "x": frozenset(values)})
        monkeypatch.setattr("kleene.checks.steps.guarded_updates", lambda program, wrong=wrong: wrong)
        statement = kl.certify(Counts)
        assert not statement.holds and "no run reaches" in str(statement)


class Bounded(kl.Program):
    tokens, layers = 3, 4
    x = kl.cat(5, token=lambda t: 3 * t - 1, saturate=True)
    y = kl.cat(3, token=lambda t: 5 * t, wrap=True)
    w = kl.word(3, token=lambda t: 7 * t, wrap=True)
    place = kl.cat(2, position=lambda p: p, wrap=True)
    output = x

    def step(z):
        z.x = z.x * 2 - z.y
        z.y = z.y + z.x - 4
        z.w = 3 * z.w + 1
        if z.place:
            z.x = -1
            z.y = 7


def test_saturate_and_wrap():
    def plain(token: int, place: int) -> int:
        x, y = min(max(3 * token - 1, 0), 4), 5 * token % 3
        for _ in range(4):
            x = min(max(x * 2 - y, 0), 4)
            y = (y + x - 4) % 3
            if place % 2:
                x, y = 0, 1
        return x

    assert list(Bounded.run([2, 1, 0, 2])) == [plain(t, p) for p, t in enumerate([2, 1, 0, 2])]
    assert Bounded.trace([1]).states[1][0]["w"] == (3 * 7 + 1) % 8
    everything_agrees_with_words(Bounded)


def everything_agrees_with_words(program: Any) -> None:
    net = kl.compile(program)
    assert kl.verify(program, net, lengths=range(1, 5)).holds
    assert kl.certify(net, program=program).holds
    assert kl.decompile(net) == guarded_updates(program)


def test_only_one_of_saturate_and_wrap():
    with pytest.raises(ProgramError, match="exclude each other"):
        kl.cat(3, saturate=True, wrap=True)
    with pytest.raises(RangeError, match=r"writes 1\.5"):
        _fraction().run([0])


def _fraction() -> Any:
    class Half(kl.Program):
        tokens, layers = 1, 1
        x = kl.cat(3, saturate=True)
        output = x

        def step(z):
            z.x = 1.5

    return Half
