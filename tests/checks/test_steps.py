"""The statement that guarded updates do what `step` does: it holds, and each of its parts finds what only it can."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import kleene as kl
from kleene.checks import steps
from kleene.checks.steps import certify_step
from kleene.lowering import updates as updates_module
from kleene.lowering.forms import Form
from kleene.lowering.guarding import guarded_updates
from kleene.lowering.updates import Updates

PROGRAMS = {
    "parity_relative": kl.library.parity_relative,
    "parity_sum": kl.library.parity_sum(8),
    "sort": kl.library.sort(5, 5),
    "dyck2": kl.library.dyck2(8),
    "most_frequent": kl.library.most_frequent(5, 5),
    "parity_scratchpad": kl.library.parity_scratchpad(6),
    "subleq_words": kl.library.subleq_words(8, 16),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_updates_of_the_library_do_what_step_does(name):
    found = kl.certify(PROGRAMS[name])
    assert found.holds, str(found)
    assert found.method == ("sample" if name == "subleq_words" else "all values")
    assert found.checked > 0
    if found.method == "sample":
        assert found.reached == found.paths
        assert "both sides of every branch" in str(found)


def test_a_sample_takes_every_path_of_a_program_with_words_and_ties():
    class Tied(kl.Program):
        tokens = 2
        layers = 1
        a, b, c = kl.cat(200, token=lambda t: t), kl.cat(200), kl.cat(200)
        w, v = kl.word(16), kl.word(16)
        out = kl.cat(3)
        output = out

        def step(z):
            if z.a + z.b == 2 * z.c + 1:
                z.out = 1 if z.w - z.v == 1234 else 2
            elif z.w >= 60000 and z.v < 3:
                z.w = (z.w + 3 * z.v) % 65536

    found = certify_step(Tied)
    assert found.holds and found.method == "sample"
    assert found.reached == found.paths >= 5


def test_a_cycle_is_checked_layer_by_layer():
    found = certify_step(kl.library.computer(4))
    assert found.holds
    assert {reason[:7] for reason in found.reasons} == {"layer 1", "layer 2", "layer 3"}


# --- planted bugs: each is refused, and passes when the part that finds it is switched off ---


class Little(kl.Program):
    """A guard, a table, a head that is read on one side only."""

    tokens = 4
    layers = 1
    a = kl.cat(4, token=lambda t: t)
    b = kl.cat(4)
    left = kl.relative(a, -1, default=0)
    output = b

    def step(z):
        if z.a >= 2:
            z.b = (z.left + z.a) % 4
        else:
            z.b = z.a


def _with_update(place: int, **changes: Any) -> Updates:
    updates = guarded_updates(Little)
    listed = list(updates.updates)
    listed[place] = replace(listed[place], **changes)
    return replace(updates, updates=tuple(listed))


def _wrong_entry() -> Updates:
    value, index = guarded_updates(Little).updates[0].table[0]
    return _with_update(0, table=((value, (index + 1) % 4), *guarded_updates(Little).updates[0].table[1:]))


def _lost_update() -> Updates:
    updates = guarded_updates(Little)
    return replace(updates, updates=updates.updates[:-1])


def _duplicate() -> Updates:
    updates = guarded_updates(Little)
    return replace(updates, updates=(*updates.updates, updates.updates[0]))


def _lost_entry() -> Updates:
    return _with_update(0, table=guarded_updates(Little).updates[0].table[1:])


def _lost_reading() -> Updates:
    return replace(guarded_updates(Little), reads=())


def _lost_test() -> Updates:
    updates = guarded_updates(Little)
    return replace(updates, reads=tuple(replace(read, guard=()) for read in updates.reads))


BUGS = {  # the bug → the parts of the check that find it, and what is said
    "wrong entry": (_wrong_entry, ["_Check._compare_rows"], "step makes 'b'"),
    "lost update": (_lost_update, ["_Check._compare_rows"], "unchanged"),
    "duplicated update": (_duplicate, ["check_exclusive"], "two guards of 'b' can hold together"),
    "lost entry": (_lost_entry, ["check_total", "_Check._compare_rows"], "no entry"),
    "lost reading": (_lost_reading, ["_Check._compare_reads"], "step reads 'left'"),
    "reading without its test": (_lost_test, ["_Check._compare_reads"], "step does not read 'left'"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_refused_by_the_part_that_looks_for_them(bug, monkeypatch):
    make, parts, said = BUGS[bug]
    assert certify_step(Little).holds
    found = certify_step(Little, updates=make())
    assert not found.holds
    assert said in str(found)
    for part in parts:
        owner, _, name = part.rpartition(".")
        monkeypatch.setattr(getattr(steps, owner) if owner else steps, name, lambda *_: "switched off")
    assert certify_step(Little, updates=make()).holds


def test_updates_that_depend_on_what_step_does_not_read_are_seen():
    updates = guarded_updates(Little)
    extra = updates_module.Test(Form(0, (("left", (0, 1, 2, 3)),)), frozenset([0, 1, 2]))
    listed = [replace(update, guard=(*update.guard, extra)) for update in updates.updates]
    found = certify_step(Little, updates=replace(updates, updates=tuple(listed)))
    assert not found.holds and "left = 3" in str(found)


def test_a_step_that_is_another_one_for_symbols_is_seen():
    calls: list[int] = []

    class Counting(kl.Program):
        tokens = 2
        layers = 1
        a = kl.cat(2, token=lambda t: t)
        output = a

        def step(z):
            calls.append(1)
            z.a = z.a if len(calls) < 5 else 1 - z.a

    assert not certify_step(Counting).holds


def test_updates_of_another_program_are_refused():
    with pytest.raises(kl.InputError, match="another program"):
        certify_step(Little, updates=guarded_updates(kl.library.parity_relative))


class Moved(Little):
    """The same declarations, another step."""

    def step(z):
        z.b = (z.left + z.a) % 4 if z.a >= 3 else z.a


def test_a_certificate_can_hold_both_statements():
    net = kl.compile(Little)
    both = kl.certify(net, program=Little)
    assert both.holds and both.step.holds and "do what step does, on all values" in str(both)
    assert both.to_json()["step"]["method"] == "all values"
    assert kl.certify(net).step is None
    other = kl.certify(net, program=Moved)
    assert not other.holds and not other.step.holds and "step does not read 'left'" in str(other)
    assert "which are not this step" in str(other)
    encoder = kl.compile(kl.library.parity_relative, shape="encoder", layers=3)
    assert kl.certify(encoder, program=kl.library.parity_relative).holds
