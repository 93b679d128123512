"""What the terminal says about programs is true: printed updates are read back and computed."""

from __future__ import annotations

import random
import re
from fractions import Fraction

import pytest

import kleene as kl
from kleene.lowering.forms import Form
from kleene.lowering.guarding import guarded_updates
from kleene.lowering.updates import GuardedUpdate, Updates, index_test
from kleene.machines.kinds import Subset
from kleene.show.terminal import trace_svg

PROGRAMS = [
    kl.library.parity_relative,
    kl.library.addition,
    kl.library.addition_scratchpad(3),
    kl.library.parity_scratchpad(3),
    kl.library.parity_sum(4),
    kl.library.reverse(5, 4),
    kl.library.sort(5, 4),
    kl.library.histogram(5, 4),
    kl.library.dyck2(5),
    kl.library.subleq(-4, 4, 4),
]


def as_python(condition: str) -> str:
    """`a ≠ 3`, `a in 3 … 5` and so on as Python writes it."""
    condition = re.sub(r"^(.*) in (-?\S+) … (-?\S+)$", r"\2 <= \1 <= \3", condition)
    signs = {" = ": " == ", " ≠ ": " != ", " ≤ ": " <= ", " ≥ ": " >= ", "−": "-", "·": "*"}
    for shown, python in signs.items():
        condition = condition.replace(shown, python)
    return condition


def says(line: str, state: dict[str, object]) -> tuple[bool, object]:
    """Whether a printed update applies in a state, and what it then gives ('table' where it lists one)."""
    left, right = re.split(r"\s+(?=if |always$)", line.strip(), maxsplit=1)
    conditions = [] if right == "always" else re.split(r", (?![^{]*\})", right.removeprefix("if "))
    applies = all(eval(as_python(condition), {}, dict(state)) for condition in conditions)
    expression = left.partition(" := ")[2]
    if "[" in expression or "{" in expression or not applies:
        return applies, "table"
    return applies, eval(as_python(expression), {}, dict(state))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_printed_updates_mean_the_updates(program):
    updates, chance = guarded_updates(program), random.Random(0)
    kinds = program.spec.kinds
    lines = str(updates).splitlines()[1:]
    assert len(lines) == len(updates)
    for line, update in zip(lines, updates):
        met = 0
        for _ in range(300):
            indices = {name: chance.randrange(len(kind)) for name, kind in kinds.items()}
            for test in update.guard if chance.random() < 0.8 else ():
                if test.variable is not None:
                    indices[test.variable] = chance.choice(sorted(test.indices))
            numbers = {n: kinds[n].values[i] for n, i in indices.items() if not isinstance(kinds[n], Subset)}
            applies, result = says(line, numbers)
            assert applies == update.applies(indices), (line, numbers)
            if applies and result != "table":
                assert result == kinds[update.variable].values[update.results[update.form.at(indices)]], line
                met += 1
        assert met or "[" in line, f"never tried: {line}"


def test_addition_reads_as_a_person_would_write_it():
    shown = str(guarded_updates(kl.library.addition))
    assert "value_out := (carry + ptr_a_token + ptr_b_token) % 10  if ptr_a_token ≠ 11, ptr_out = 1" in shown
    assert "carry := (carry + ptr_a_token + ptr_b_token) // 10" in shown


def test_numbers_and_sets_are_shown_as_values():
    shown = str(guarded_updates(kl.library.histogram(4, 3)))
    assert "wanted := value [0 → {0,3}, 1 → {1,3}, 2 → {2,3}]" in shown
    assert "share [1/4 → 3, 1/3 → 2, 1/2 → 1, 1 → 0]" in shown
    assert "first_value ≠ value" in shown


def test_long_tables_are_shortened():
    program = kl.library.reverse(40, 40)
    table = tuple((value, value * 7 % 40) for value in range(40))
    form = Form(0, (("value", tuple(range(40))),))
    update = GuardedUpdate("result", (index_test(program.spec, "value", range(0, 40, 2)),), form, table)
    (_, line) = str(Updates(program.spec, (update,))).splitlines()
    assert "…" in line and len(line) < 160


def test_rules_are_counted_and_clearing_ones_joined():
    lines = str(kl.rules(kl.library.parity_relative)).splitlines()
    assert lines[0] == "parity_relative: 7 transition rules"
    assert "  parity: 0 → 1  if done = 0, done_left = 1, parity_left = 1" in lines
    assert "  done_left: any value → ∅  (2 rules)" in lines


def test_many_rules_are_cut_and_say_so():
    lines = str(kl.rules(kl.library.sort(20, 20))).splitlines()
    assert len(lines) < 250 and any("more" in line for line in lines)


def test_a_trace_is_plain_data():
    data = kl.library.histogram(4, 3).trace([1, 1, 0]).to_json()
    assert data["outputs"] == [2, 2, 1] and data["layers"] == 2
    assert data["states"][1][0]["wanted"] == [1, 3]
    assert Fraction(data["heads"][0]["share"][0]["value"]) == Fraction(1, 3)


def test_a_picture_of_a_trace_needs_nothing_from_outside():
    picture = trace_svg(kl.library.parity_relative.trace([2, 1]), "parity")
    assert picture.startswith("<svg") and "0→1" in picture
    assert "url(http" not in picture and "@font-face" not in picture
