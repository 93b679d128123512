"""Weighted automata against sums over paths; exact comparison; minimal forms; AT&T files."""

from __future__ import annotations

import math
import random
from itertools import product
from pathlib import Path

import pytest

import kleene as kl
from kleene.common.alphabet import all_words
from random_machines import random_dfa


def random_weighted(rng: random.Random, semiring: str = "real") -> kl.WeightedAutomaton:
    n = rng.randint(1, 3)
    choices = [0, 0, 1, -1, 2, 0.5] if semiring == "real" else [math.inf, 0, 1, 2.5, 3]

    def vector() -> list[float]:
        return [rng.choice(choices) for _ in range(n)]

    return kl.WeightedAutomaton(vector(), {s: [vector() for _ in range(n)] for s in "ab"}, vector(), semiring)


def by_paths(w: kl.WeightedAutomaton, word: str) -> float:
    """The definition: over all sequences of states, the sum of products, or the least sum."""
    total = 0.0 if w.semiring == "real" else math.inf
    for path in product(range(len(w)), repeat=len(word) + 1):
        steps = [float(w.matrices[w.index[s], p, q]) for s, p, q in zip(word, path, path[1:])]
        parts = [float(w.initial[path[0]]), *steps, float(w.final[path[-1]])]
        total = total + math.prod(parts) if w.semiring == "real" else min(total, sum(parts))
    return total


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("semiring", ["real", "tropical"])
def test_weights_sums_and_products(seed: int, semiring: str, tmp_path: Path) -> None:
    rng = random.Random(seed)
    one, two = random_weighted(rng, semiring), random_weighted(rng, semiring)
    one.save(tmp_path / "m.json")
    again = kl.WeightedAutomaton.load(tmp_path / "m.json")
    for word in map(str, all_words("ab", 4)):
        x, y = by_paths(one, word), by_paths(two, word)
        assert one.weight(word) == x == again.weight(word)
        assert (one + two).weight(word) == (x + y if semiring == "real" else min(x, y))
        assert (one * two).weight(word) == (x * y if semiring == "real" else x + y)


@pytest.mark.parametrize("seed", range(60))
def test_minimal_forms_and_comparison(seed: int) -> None:
    rng = random.Random(seed)
    one, two = random_weighted(rng), random_weighted(rng)
    doubled = (one + one) * 0.5
    assert doubled.equivalent(one) and len(doubled.minimise()) <= len(one)
    small = one.minimise()
    assert all(math.isclose(small.weight(w), one.weight(w), abs_tol=1e-9) for w in all_words("ab", 5))
    found = one.distinguish(two)
    words = list(all_words("ab", 5))
    assert (found is None) == all(one.weight(w) == two.weight(w) for w in words)
    if found is not None:
        assert one.weight(found) != two.weight(found)
        assert all(one.weight(w) == two.weight(w) for w in words if len(w) < len(found))


def test_paths_are_counted() -> None:
    dfa = random_dfa(random.Random(3), 5, 2)
    indicator = kl.WeightedAutomaton.of(dfa)
    assert all(indicator.weight(w) == dfa.accepts(w) for w in all_words(dfa.alphabet, 5))
    twice = kl.WeightedAutomaton.of(kl.NFA([(0, "a", 0), (0, "a", 1), (1, "a", 1)], [1], "a"))
    assert twice.weight("aaaa") == 4


def test_att_files(tmp_path: Path) -> None:
    path = tmp_path / "m.att"
    path.write_text("0 1 a a 0.5\n0 1 b\n1 1 a a 2\n1 3.25\n0 Infinity\n")
    cheap = kl.WeightedAutomaton.load(path)
    assert cheap.semiring == "tropical"
    assert cheap.weight("a") == 3.75 and cheap.weight("baa") == 7.25 and cheap.weight("") == math.inf
    cheap.save(tmp_path / "n.att")
    again = kl.WeightedAutomaton.load(tmp_path / "n.att")
    assert all(again.weight(w) == cheap.weight(w) for w in all_words("ab", 4))
    path.write_text("0 1 a 0.5\n1 2.5\n")  # an acceptor's weight in the fourth column
    assert kl.WeightedAutomaton.load(path).weight("a") == 3.0


def test_errors() -> None:
    for work, says in (
        (lambda: kl.WeightedAutomaton([1], {"a": [[1, 2]]}, [1]), "shapes"),
        (lambda: kl.WeightedAutomaton([math.nan], {"a": [[1]]}, [1]), "not a number"),
        (lambda: kl.WeightedAutomaton([1], {"a": [[1]]}, [1], "log"), "semiring"),
        (lambda: kl.WeightedAutomaton([1], {"a": [[1]]}, [1]).weights("aa"), "list of words"),
        (lambda: random_weighted(random.Random(0), "tropical").minimise(), "over the reals"),
    ):
        with pytest.raises(kl.InputError, match=says):
            work()


ONE = kl.WeightedAutomaton([1], {"a": [[2]]}, [1])
CHEAP = kl.WeightedAutomaton([0], {"a": [[2]]}, [0], semiring="tropical")


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (lambda: kl.WeightedAutomaton([1], [[[2]]], [1]), "matrices should be a mapping"),
        (lambda: kl.WeightedAutomaton(["x"], {"a": [[2]]}, [1]), "weights should be numbers"),
        (lambda: ONE + 3, "give a WeightedAutomaton"),
        (lambda: ONE + CHEAP, "the same semiring and alphabet"),
        (lambda: CHEAP.equivalent(CHEAP), "equality of tropical automata is undecidable"),
    ],
)
def test_a_wrong_operand_is_named(work, said):
    with pytest.raises(kl.InputError, match=said):
        work()


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("m.xyz", "", "unknown suffix ..xyz.; use .json or .att"),
        ("m.json", "[]", "not a weighted automaton of version 1"),
        ("m.json", '{"version": 1, "kind": "weighted automaton"}', "not a weighted automaton"),
        ("m.att", "0 1 a b 1\n1\n", "line 1: it has outputs"),
        ("m.att", "0 1 <eps>\n1\n", "it has empty moves"),
        ("m.att", "0\n", "no transitions, so no alphabet"),
    ],
)
def test_a_wrong_file_is_named(tmp_path, file, content, said):
    (tmp_path / file).write_text(content)
    with pytest.raises(kl.FileError, match=said):
        kl.WeightedAutomaton.load(tmp_path / file)


def test_files_that_cannot_hold_weights(tmp_path):
    with pytest.raises(kl.FileError, match=r"use \.json or \.att"):
        ONE.save(tmp_path / "m.txt")
    with pytest.raises(kl.FileError, match=r"save real weights as \.json"):
        ONE.save(tmp_path / "m.att")
