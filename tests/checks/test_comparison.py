"""The table of a machine in every architecture: every cell, on the languages that papers take and random automata."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Literal

import pytest

import kleene as kl
from kleene.library.tomita import language
from kleene.machines.automata.classes import solvable
from random_machines import A5, S5, bounded_dyck, counter, random_dfa, random_word


def test_every_architecture_has_a_row_with_a_certificate_or_a_theorem(tmp_path: Path):
    table = kl.compare(language(6), lengths=[6])
    assert len(table.rows) == 10
    refused = {row.options for row in table.rows if not row.holds}
    assert refused == {"transitions=positive", "transitions=signed"}
    assert all("Grazzi" in row.proof for row in table.rows if not row.holds)
    for row in table.rows:
        if row.holds:
            assert row.parameters >= row.nonzero > 0 and row.precision and row.proof == "certified"
    depths = {row.options: row.depth for row in table.rows if row.network == "transformer"}
    assert depths == {"depth=sequential": "n", "depth=logarithmic, length=6": "3", "depth=constant, length=6": "3"}
    table.plot(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes()[:4] == b"\x89PNG"
    assert table.to_json()["rows"][0]["network"] == "rnn" and "words up to" in str(table)
    with pytest.raises(kl.FileError, match="unknown suffix"):
        table.plot(tmp_path / "plot.docx")


def test_turing_machines_and_programs_have_rows():
    table = kl.compare(kl.TuringMachine.parse("1RB1LB_1LA1RZ"), lengths=[8])
    assert [row.network for row in table.rows if not row.holds] == ["lstm", "gru", "linear"]
    rows = kl.compare(kl.library.parity_relative).rows
    assert [(row.network, row.holds) for row in rows] == [("rnn", True), ("linear", True), ("transformer", True)]
    doubling = kl.compare(kl.WeightedAutomaton([1], {"a": [[2]]}, [1])).rows  # whole numbers of 53 bits
    assert [(row.network, row.precision, row.holds) for row in doubling] == [("linear", "float64", True)]
    assert doubling[0].length == 52
    rows = kl.compare(kl.library.addition).rows
    assert [row.holds for row in rows] == [False, False, True] and "'token_right'" in rows[0].proof


def test_wrong_requests():
    with pytest.raises(kl.InputError, match="lengths"):
        kl.compare(language(1), lengths=[0])
    with pytest.raises(kl.InputError, match="lengths=16; "):
        kl.compare(language(1), lengths=16)  # type: ignore[arg-type]
    with pytest.raises(kl.NotSupported, match="finitely many weights; to='linear' holds"):
        kl.compile(kl.WeightedAutomaton([1], {"a": [[2]]}, [1]), to="gru")
    with pytest.raises(kl.NotSupported, match="cannot take an int"):
        kl.compare(3)


# --- every cell ---

NAMED = {
    **{f"tomita {n}": language(n) for n in range(1, 8)},
    "dyck 2": bounded_dyck(2),
    "dyck 4": bounded_dyck(4),
    **{f"mod {m}": counter(m) for m in (2, 3, 4, 12)},
    "A5": A5,
    "S5": S5,
}
CELLS = [
    {"to": "rnn"},
    {"to": "lstm"},
    {"to": "gru"},
    {"to": "linear"},
    {"to": "linear", "transitions": "positive"},
    {"to": "linear", "transitions": "signed"},
    {"to": "transformer"},
    {"to": "transformer", "depth": "logarithmic", "length": 8},
    {"to": "transformer", "depth": "constant", "length": 8},
    {"to": "decoder", "length": 8},
]


def checked(dfa: kl.DFA, cell: dict[str, object], rng: random.Random) -> bool:
    """Compile to a cell; certify and compare on words. False where a theorem, or a size, refuses."""
    try:
        net = kl.compile(dfa, **cell)
    except kl.NotSupported as error:
        told = str(error)
        names = ("Sarrof", "Grazzi", "Barrington", "compile: cascade: ", "compile: monoid: ")
        assert any(name in told for name in names), told
        return False
    assert kl.certify(net).holds, (cell, str(kl.certify(net)))
    words = [random_word(rng, dfa.alphabet, 8) for _ in range(25)]
    assert (net.accepts_batch(words) == dfa.accepts_batch(words)).all()
    if len(dfa) <= 8:  # reading large transformers takes minutes
        assert kl.decompile(net, to="dfa").equivalent(dfa)
    return True


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMED)
def test_named_languages(name):
    dfa, rng = NAMED[name], random.Random(0)
    held = [checked(dfa, cell, rng) for cell in CELLS]
    assert held[:4] == [True] * 4 and held[6:8] == [True] * 2 and held[9]
    assert held[4] == bool(dfa.is_star_free)
    assert held[8] == bool(solvable(dfa))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_two_hundred_random_automata_of_up_to_50_states(part):
    rng = random.Random(part)
    for _ in range(20):
        dfa = random_dfa(rng, 50, 3)
        held = [checked(dfa, cell, rng) for cell in CELLS]
        assert held[:4] == [True] * 4 and held[6:8] == [True] * 2 and held[9]  # no theorem refuses these


@pytest.mark.parametrize("seed", range(3))
def test_a_few_random_automata(seed):
    rng = random.Random(seed)
    dfa = random_dfa(rng, 30, 2)
    held = [checked(dfa, cell, rng) for cell in CELLS if cell.get("depth") != "constant"]
    assert held[:4] == [True] * 4 and held[6:] == [True] * 3


@pytest.mark.parametrize("to", ["rnn", "lstm", "linear"])
def test_a_comparison_visits_no_more_hidden_vectors_than_its_limit(to: Literal["rnn", "lstm", "linear"]):
    dfa = kl.regex("(a|b){12}")
    one, two = kl.compile(dfa, to=to), kl.compile(dfa, to="gru")
    assert kl.verify(one, two, limit=100).holds
    with pytest.raises(kl.KleeneError, match="more than 5 hidden vectors can be reached"):
        kl.verify(one, two, limit=5)


def test_any_two_networks_are_compared():
    dfa, other = kl.regex("a*b", alphabet="ab"), kl.regex("a*bb", alphabet="ab")
    cells = [{"to": to} for to in ("rnn", "lstm", "linear", "transformer")] + [{"to": "decoder", "length": 4}]
    for first in cells:
        network = kl.compile(dfa, **first)
        for second in cells:
            assert kl.verify(network, kl.compile(dfa, **second)).holds
            assert not kl.verify(network, kl.compile(other, **second)).holds
