"""Ranges: variables that saturate or wrap, and states that no run reaches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import kleene as kl
from agreeing import outcomes
from kleene.checks.steps import certify_step
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


class Climbs(kl.Program):
    """What the decisions come to is one sum, of which some values lie outside the range where no run comes."""

    tokens, layers = 3, 2
    n = kl.cat(19, token=lambda t: t)
    output = n

    def step(z):
        if z.n > 0:
            z.n = 3 * z.n if z.n % 2 else z.n // 2


def everything_agrees(program: Any) -> None:
    net = kl.compile(program)
    assert kl.verify(program, net, lengths=range(1, 5)).holds
    assert kl.certify(net, program=program).holds
    assert kl.decompile(net) == guarded_updates(program)
    for tokens in ([0], [1, 0, 1], [0, 0, 1, 1]):
        assert len(set(map(str, outcomes(program, tokens)))) == 1


@pytest.mark.parametrize("program", [Counts, Turns, Moves, Climbs])
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


class Sums(kl.Program):
    """Three layers add a token each, and a fourth would leave the range."""

    tokens, layers = 4, 3
    x = kl.cat(4, token=lambda t: t)
    n = kl.cat(10)
    output = n

    def step(z):
        z.n += z.x


def test_ranges_need_to_hold_for_the_layers_that_the_program_has():
    net = kl.compile(Sums)
    assert kl.verify(Sums, net, lengths=range(1, 4)).mismatches == 0
    assert kl.certify(net).holds and kl.certify(Sums).holds
    assert kl.compile(Sums, shape="encoder", layers=2).run([3, 1]) == Sums.run([3, 1], layers=2) == [6, 2]


def test_a_network_runs_no_more_layers_than_its_ranges_hold_for(tmp_path):
    net = kl.compile(Sums)
    net.save(tmp_path / "sums")
    for run in (net.run, kl.load(tmp_path / "sums", kl.Transformer).run):
        with pytest.raises(kl.InputError, match="runs no more than these"):
            run([1], layers=4)
    with pytest.raises(kl.InputError, match="after its 3 layers"):
        kl.compile(Sums, shape="encoder", layers=4)
    with pytest.raises(RangeError):
        Sums.run([3], layers=4)


def test_a_changed_update_of_a_later_layer_is_found():
    """What only the third layer sees is checked, too."""
    updates = guarded_updates(Sums)
    (update,) = updates.updates
    table = tuple((value, 0 if value == 9 else index) for value, index in update.table)
    assert not certify_step(Sums, updates=replace(updates, updates=(replace(update, table=table),))).holds


class Flags(kl.Program):
    """Eighteen flags that are counted in a variable."""

    tokens, layers = 4, 1
    x = kl.array(18, lambda k: kl.cat(4, token=lambda t: (t + k) % 4))
    n = kl.cat(19)
    output = n

    def step(z):
        for k in range(18):
            if z.x[k] == 1:
                z.n += 1


def test_flags_counted_in_a_variable_are_one_sum():
    assert len(guarded_updates(Flags)) == 1
    assert kl.verify(Flags, kl.compile(Flags), lengths=[1, 2]).mismatches == 0
    assert kl.certify(Flags).holds


def test_an_average_takes_values_between_those_that_are_averaged():
    """0 and 2 are averaged to 1, which no variable holds; the state in which step leaves a range is never reached."""

    class Between(kl.Program):
        tokens = 2
        positions = 4
        level = kl.num([0, 1, 2, 3], token=lambda t: 2 * t)
        mean = kl.attend(None, None, level)
        middle, stays = kl.cat(2), kl.cat(2)
        output, layers = middle, 1

        def step(z):
            if z.stays == 1:
                z.stays = 2
            if z.mean == 1:
                z.middle = 1
            if z.mean == 3:
                z.middle = 2

    net = kl.compile(Between)
    assert net.run([0, 1]) == Between.run([0, 1]) == [1, 1] and kl.certify(net, program=Between).holds
