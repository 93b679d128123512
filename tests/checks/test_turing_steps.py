"""Certificates of networks of Turing machines: every step from the weights, and what each part of the check finds."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

import kleene as kl
from kleene.checks import turing_steps
from kleene.compilers import turing_compact, turing_to_rnn
from kleene.compilers.affine_forms import StepBuilder
from kleene.compilers.oracle_to_rnn import truncated
from kleene.compilers.turing_compact import CompactStep
from kleene.compilers.turing_literal import LiteralStep
from kleene.library.turing_machines import POWERS_OF_TWO, busy_beaver
from kleene.machines.multitape import MultiTapeMachine
from kleene.machines.oracle import OracleLanguage
from kleene.networks.rnn.matrix import Matrix
from random_machines import random_turing, random_two_tape

BB2 = kl.TuringMachine.parse("1RB1LB_1LA1RZ")


@pytest.mark.parametrize("form", ["compact", "literal"])
def test_every_machine_is_certified_in_both_forms(form):
    chance = random.Random(3)
    for machine in [POWERS_OF_TWO, busy_beaver(4), *(random_turing(chance) for _ in range(12))]:
        found = kl.certify(kl.compile(machine, form=form, base=chance.choice([3, 4, 10])))
        assert found.holds, str(found)
        assert found.cases >= len(machine.states)


def test_machines_with_several_tapes_are_certified():
    chance = random.Random(4)
    for _ in range(6):
        machine = random_two_tape(chance)
        net = kl.compile(machine)
        assert kl.certify(net).holds and kl.certify(net, machine=machine).holds
        again = MultiTapeMachine.from_json(machine.to_json())
        assert again.to_json() == machine.to_json()


def test_real_weights_are_certified_for_every_string_of_digits(tmp_path):
    squares = OracleLanguage("ab", predicate=lambda w: w[: len(w) // 2] * 2 == w)
    found = kl.certify(kl.compile(squares))
    assert found.holds and "any digits" in str(found)
    cut = truncated(squares, 9)
    cut.save(tmp_path / "net")
    assert kl.certify(kl.load(tmp_path / "net")).holds


# --- single weights ---


def _changed(net: Any, part: str, at: Any, by: Fraction) -> Any:
    """The network with one number changed, and V = A·R kept where that is what is changed."""
    if part in ("b", "s", "out_b"):
        values = dict(getattr(net, part))
        values[at] = values.get(at, 0) + by
        return replace(net, **{part: values})
    readout = net.readout
    if part in ("W", "out_W"):
        matrix = getattr(net, part)
        entries = {**matrix.entries, at: matrix.entries.get(at, 0) + by}
        return replace(net, **{part: Matrix(matrix.rows, matrix.columns, entries)})
    matrix = getattr(readout, part)
    made = Matrix(matrix.rows, matrix.columns, {**matrix.entries, at: matrix.entries.get(at, 0) + by})
    readout = replace(readout, **{part: made})
    return replace(net, readout=readout, V=readout.A @ readout.R)


@pytest.mark.parametrize("form", ["compact", "literal"])
def test_every_changed_weight_is_refused_or_changes_no_answer(form):
    net = kl.compile(BB2, form=form)
    chance, accepted = random.Random(0), 0
    places = [("b", i) for i in range(net.units)] + [("out_b", k) for k in range(3)] + [("s", 0)]
    for part, matrix in (("W", net.W), ("out_W", net.out_W), ("A", net.readout.A), ("R", net.readout.R)):
        places += [(part, at) for at in matrix.entries]
        places += [(part, (chance.randrange(matrix.rows), chance.randrange(matrix.columns))) for _ in range(10)]
    places = chance.sample(places, 60)
    for part, at in places:
        changed = _changed(net, part, at, chance.choice([1, -1, Fraction(1, 3), Fraction(-1, 27)]))
        if kl.certify(changed).holds:
            accepted += 1
            for word in ("", "1", "11", "111"):
                assert changed.decide(word, evaluator="plain") == net.decide(word)
    assert accepted < len(places) / 2  # guards have room: some changes are changes of nothing


# --- bugs planted in the compiler ---


def _swapped_outputs(build: Any, machine: Any) -> None:
    turing_to_rnn_outputs(build, machine)
    build.out = {({0: 0, 1: 2, 2: 1}[k], at): v for (k, at), v in build.out.items()}


turing_to_rnn_outputs = turing_to_rnn._outputs

BUGS: dict[str, tuple[str, Any, str, Any]] = {  # form, object, attribute, what it becomes
    "the head falls off the left end": ("compact", CompactStep, "stop_at_the_left_end", lambda self: None),
    "what is not moved is lost": ("compact", CompactStep, "keep_stacks", lambda self: None),
    "halting states are left": ("compact", CompactStep, "halt", lambda self: None),
    "moves that stay are lost": ("compact", CompactStep, "stay", lambda self: None),
    "the top is never seen": ("compact", StepBuilder, "when_top", lambda self, p, z: self.relu(p * 0 - 1)),
    "the bottom is seen too early": ("literal", StepBuilder, "at_bottom", lambda self, p, z: p + z * self.base - 1),
    "pushing adds too little": ("literal", StepBuilder, "push", property(lambda self: Fraction(1, self.base))),
    "nothing is rewound": ("literal", LiteralStep, "rewind", lambda self: None),
    "halting states are left, literal": ("literal", LiteralStep, "halt", lambda self: None),
    "answers are exchanged": ("compact", turing_to_rnn, "_outputs", _swapped_outputs),
    "the machine begins a step late": ("compact", turing_compact, "LEAD", (1, 3)),
}


MACHINE = kl.TuringMachine(
    {
        "a": {"_": ("b", "x", 1), "x": ("a", "_", -1), "y": ("b", "y", 0)},
        "b": {"_": ("a", "y", -1), "x": ("Y", "x", 0), "y": ("N", "_", 1)},
    },
    "a",
    frozenset("Y"),
    frozenset("N"),
    "_",
    ("x", "y"),
    two_way=False,
    name="all kinds of moves",
)


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_refused(bug, monkeypatch):
    form, owner, name, other = BUGS[bug]
    assert kl.certify(kl.compile(MACHINE, form=form)).holds
    monkeypatch.setattr(owner, name, other)
    found = kl.certify(kl.compile(MACHINE, form=form))
    assert not found.holds, bug


def _other_outputs(net: Any) -> Any:
    entries = {({0: 0, 1: 2, 2: 1}[k], unit): v for (k, unit), v in net.out_W.entries.items()}
    return replace(net, out_W=Matrix(3, net.units, entries))


def _other_v(net: Any) -> Any:
    return replace(net, V=Matrix(net.units, net.units, {**net.V.entries, (1, 1): 7}))


def _other_lead(net: Any) -> Any:
    return replace(net, about={**net.about, "lead": [1, 1]})


def _other_conditions(net: Any) -> Any:
    return replace(net, about={**net.about, "conditions": net.about["conditions"][1:]})


def _other_start(net: Any) -> Any:
    return replace(net, s={})


ONLY: dict[str, tuple[Any, str]] = {  # a bug, and the one check that finds it
    "answers exchanged": (_other_outputs, "_Weights.check_output"),
    "V is another one": (_other_v, "_Weights.check_factors"),
    "the lead is another one": (_other_lead, "_Proof.check_about"),
    "a condition is missing": (_other_conditions, "_Weights.check_conditions"),
    "the start is another one": (_other_start, "_Proof.check_start"),
}


@pytest.mark.parametrize("bug", ONLY)
def test_each_check_finds_what_no_other_does(bug, monkeypatch):
    make, check = ONLY[bug]
    net = make(kl.compile(MACHINE))
    assert not kl.certify(net).holds
    owner, name = check.split(".")
    monkeypatch.setattr(getattr(turing_steps, owner), name, lambda *_, **__: "switched off")
    assert kl.certify(net).holds


def test_without_the_comparison_of_values_a_changed_step_passes(monkeypatch):
    net = kl.compile(MACHINE)
    rows = {q: dict(row) for q, row in MACHINE.transitions.items()}
    rows["b"]["_"] = ("a", "x", -1)
    other = replace_machine(MACHINE, rows)
    assert not kl.certify(net, machine=other).holds
    monkeypatch.setattr(turing_steps._Proof, "show", lambda *_, **__: None)
    assert kl.certify(net, machine=other).holds


def replace_machine(machine: Any, rows: Any) -> Any:
    return kl.TuringMachine(
        rows,
        machine.start,
        machine.accept,
        machine.reject,
        machine.blank,
        machine.input_alphabet,
        two_way=machine.two_way,
        name=machine.name,
    )


@pytest.mark.parametrize(
    ("part", "entry"),
    [
        ("roles", []),
        ("base", 2),
        ("base", "3"),
        ("lead", None),
        ("conditions", [[1]]),
        ("symbols", ["_"]),
        ("blank", 7),
    ],
)
def test_a_changed_description_is_refused_without_a_raw_error(part, entry):
    net = kl.compile(MACHINE)
    assert not kl.certify(replace(net, about={**net.about, part: entry})).holds
