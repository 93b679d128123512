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
from kleene.lowering.words import WordAssignment
from rich_programs import RICH, Bitwise, Cleared

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


def runs(**changed: Any) -> Any:
    """A program whose declarations, beside those that `step` reads, can be others."""

    class Runs(kl.Program):
        tokens = 3
        positions = 4
        a = kl.cat(3, token=lambda t: t)
        b = kl.cat(3)
        done = kl.cat(2, token=lambda t: t > 1)
        wipe = kl.clear(b, where={done: changed.get("where", 1)})
        output = a if changed.get("output") else b
        causal = changed.get("causal", False)
        if "halt" in changed:
            halt = {done: changed["halt"]}
        else:
            layers = changed.get("layers", 2)

        @kl.layer(wipe)
        def first(z):
            z.b = z.a
            z.done = 1

        cycle = (first,)

    return Runs


@pytest.mark.parametrize(
    "changed", [{"where": 0}, {"output": True}, {"causal": True}, {"layers": 3}, {"halt": 1}], ids=str
)
def test_another_program_with_the_same_step_is_refused(changed):
    """What decides a run beside `step`: where heads clear, the output, who looks ahead, when it ends."""
    net = kl.compile(runs())
    assert kl.certify(net, program=runs()).holds
    with pytest.raises(kl.InputError, match=r"differ in|the updates run for 2 layers"):
        kl.certify(net, program=runs(**changed))


def test_an_encoder_is_compared_with_the_layers_that_are_asked_for():
    program = kl.library.parity_relative
    encoder = kl.compile(program, shape="encoder", layers=3)
    with pytest.raises(kl.InputError, match="with layers=3 the certificate is about such runs"):
        kl.certify(encoder, program=program)
    with pytest.raises(kl.InputError, match="the updates run for 3 layers, the program for 4 layers"):
        kl.certify(encoder, program=program, layers=4)
    assert kl.certify(encoder, program=program, layers=3).holds
    with pytest.raises(kl.InputError, match="no program="):
        kl.certify(encoder, layers=3)


# --- bits of words, wide words, layers of two steps ---


@pytest.mark.parametrize("name", ["Limbs", "Numbered", "Cleared", "Bitwise"])
def test_the_updates_of_bits_wide_words_and_two_steps_do_what_step_does(name):
    found = certify_step(RICH[name])
    assert found.holds, str(found)
    assert found.method == ("sample" if name == "Limbs" else "all values")


def test_a_second_step_is_checked_too():
    updates = guarded_updates(Cleared)
    first, other = updates.by_layer
    (one, *rest) = first.second.updates
    value, index = one.table[0]
    wrong = replace(one, table=((value, (index + 1) % 3), *one.table[1:]))
    spoiled = replace(first, second=replace(first.second, updates=(wrong, *rest)))
    found = certify_step(Cleared, updates=replace(updates, by_layer=(spoiled, other)))
    assert not found.holds and "layer 1, second step: step makes 'n'" in str(found)
    with pytest.raises(kl.InputError, match="number of steps"):
        certify_step(Cleared, updates=replace(updates, by_layer=(replace(first, second=None), other)))


def test_a_wrong_bit_is_seen():
    updates = guarded_updates(Bitwise)
    place, one = next((i, u) for i, u in enumerate(updates.words) if u.assignment.functions)
    functions = one.assignment.functions
    wrong = replace(one, assignment=replace(one.assignment, functions=(functions[1], functions[0], *functions[2:])))
    found = certify_step(Bitwise, updates=replace(updates, words=(*updates.words[:place], wrong)))
    assert not found.holds and f"step makes '{one.variable}'" in str(found)


class Widest(kl.Program):
    """Words whose sums are wider than 64 bits."""

    tokens = 2
    a = kl.word(62, default=(1 << 62) - 1)
    b = kl.word(62, token=lambda t: t)
    more = kl.cat(2)
    output, layers = more, 1

    def step(z):
        z.more = z.a + z.a + z.b + z.b >= 1 << 63
        z.b = (z.a + z.b) % (1 << 62)


class Wider(Widest):
    """The same, with another threshold."""

    def step(z):
        z.more = z.a + z.a + z.b + z.b >= (1 << 63) + 2
        z.b = (z.a + z.b) % (1 << 62)


def test_sums_beyond_64_bits_are_compared_exactly():
    found = certify_step(Widest)
    assert found.holds and found.reached == found.paths, str(found)
    assert "step makes 'more'" in str(certify_step(Widest, updates=guarded_updates(Wider)))


class Lowered(kl.Program):
    """A difference that is assigned only where it is in range."""

    tokens = 4
    a = kl.word(7, token=lambda t: t)
    b = kl.word(7, token=lambda t: 3 - t)
    output, layers = a, 1

    def step(z):
        if z.a >= z.b:
            z.a = z.a - z.b


def test_a_sum_of_minus_one_is_not_taken_for_an_unchanged_word():
    updates = guarded_updates(Lowered)
    (predicate,) = updates.predicates
    (word,) = updates.words
    lower = replace(predicate, threshold=predicate.threshold - 1)
    difference = WordAssignment((("a", 1), ("b", -1)), 0, None)
    test = replace(word.guard[0], form=Form(0, ((lower.name, (0, 1)),)))
    wrong = replace(updates, predicates=(lower,), words=(replace(word, guard=(test,), assignment=difference),))
    found = certify_step(Lowered, updates=wrong)
    assert not found.holds and "step makes 'a' 0, the updates make it -1" in str(found)
