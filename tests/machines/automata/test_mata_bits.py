"""MATA's automata over bits, against the formulas' own meaning."""

import itertools
import random
from pathlib import Path

import pytest

import kleene as kl


def load(tmp_path: Path, text: str) -> kl.NFA:
    (tmp_path / "m.mata").write_text(text)
    return kl.NFA.load(tmp_path / "m.mata")


def test_moves_read_the_symbols_of_their_formulas(tmp_path: Path) -> None:
    nfa = load(tmp_path, "@NFA-bits\n%Initial q0\n%Final !q0 & !q2\nq0 (a0 & !a1) q1\nq1 a1 | a0 q2\nq2 true q1\n")
    assert nfa.alphabet == ("00", "01", "10", "11")
    named = {(nfa.name(p), symbol, nfa.name(q)) for p, symbol, q in nfa.transitions()}
    assert named == {
        ("q0", "01", "q1"),
        *(("q1", symbol, "q2") for symbol in ("01", "10", "11")),
        *(("q2", symbol, "q1") for symbol in nfa.alphabet),
    }
    dfa = nfa.determinise()
    assert dfa.accepts(["01"]) and dfa.accepts(["01", "10", "00"]) and not dfa.accepts(["10"])
    assert not dfa.accepts(["01", "00"]) and not dfa.accepts([])


def formula(rng: random.Random, depth: int) -> tuple[str, object]:
    """A random formula over a0 … a2: its text, and a function of the bits."""
    if depth == 0 or rng.random() < 0.2:
        bit = rng.randrange(3)
        return f"a{bit}", lambda bits: bits[bit]
    if rng.random() < 0.3:
        text, value = formula(rng, depth - 1)
        return f"!({text})", lambda bits: not value(bits)
    (one, f), (two, g) = formula(rng, depth - 1), formula(rng, depth - 1)
    if rng.random() < 0.5:
        return f"({one} & {two})", lambda bits: f(bits) and g(bits)
    return f"({one} | {two})", lambda bits: f(bits) or g(bits)


@pytest.mark.parametrize("seed", range(20))
def test_random_formulas(tmp_path: Path, seed: int) -> None:
    text, value = formula(random.Random(seed), 4)
    every = "(a0 | !a0) & (a1 | !a1) & (a2 | !a2)"
    nfa = load(tmp_path, f"@NFA-bits\n%Initial p\n%Final q\np {text} q\nr {every} r\n")
    for bits in itertools.product((False, True), repeat=3):
        word = ["".join(str(int(bit)) for bit in reversed(bits))]
        assert nfa.determinise().accepts(word) == value(bits)


@pytest.mark.parametrize(
    "lines, says",
    [
        ("p (a0 q", "line 4: a parenthesis is not closed"),
        ("p a0 & q", "line 4: a formula lacks a name"),
        ("p q", "must be 'state formula state'"),
        ("%Final p & q\np a0 q", "line 4: a conjunction of states"),
        ("%Final p | !q\np a0 q", "line 4: states and negated states"),
        ("%Colour p", "line 4: '%Colour' is unknown"),
        ("p (" + " | ".join(f"a{i}" for i in range(40)) + ") q", "more than 5,000,000 moves"),
    ],
)
def test_refusals_name_the_line(tmp_path: Path, lines: str, says: str) -> None:
    with pytest.raises(kl.FileError, match=says):
        load(tmp_path, f"@NFA-bits\n%Initial p\n# a comment\n{lines}\n")
