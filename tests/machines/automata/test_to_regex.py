"""Kleene's theorem both ways: expressions of automata and of networks."""

from __future__ import annotations

import random
import re
import statistics

import pytest

import kleene as kl
from kleene.common.alphabet import all_words
from kleene.machines.automata.expressions import Algebra, Term
from random_machines import random_dfa


def random_expression(rng: random.Random, depth: int) -> str:
    kind = rng.random()
    if depth == 0 or kind < 0.2:
        return rng.choice("ab" if rng.random() < 0.8 else "abc")
    inner = random_expression(rng, depth - 1)
    if kind < 0.55:
        return inner + random_expression(rng, depth - 1)
    if kind < 0.78:
        return f"({inner}|{random_expression(rng, depth - 1)})"
    return f"({inner}){rng.choice('*+?*')}"


def test_a_thousand_expressions_through_networks_and_back() -> None:
    """regex → DFA → network → DFA → regex → DFA; the last expression is short."""
    rng, ratios = random.Random(7), []
    for _ in range(1000):
        pattern = random_expression(rng, 4)
        dfa = kl.regex(pattern, "abc")
        back = kl.decompile(kl.compile(dfa, method="image"))
        found = back.to_regex()
        assert kl.regex(found, "abc") == dfa, (pattern, found)
        ratios.append(len(found) / len(pattern))
    assert statistics.median(ratios) <= 1 and sum(r > 3 for r in ratios) < 20


@pytest.mark.parametrize("seed", range(80))
def test_any_automaton(seed: int) -> None:
    dfa = random_dfa(random.Random(seed), 7, 3)
    pattern = dfa.to_regex()
    assert kl.regex(pattern, dfa.alphabet) == dfa
    matcher = re.compile(pattern)  # Python's own matcher reads it, too
    assert all(bool(matcher.fullmatch(str(w))) == dfa.accepts(w) for w in all_words(dfa.alphabet, 4))


@pytest.mark.parametrize("symbols", ["+*", "[]^-", "()\\", ".$", "\n\t ", "é|", "&~"])
def test_symbols_that_patterns_use_themselves(symbols: str) -> None:
    dfa = kl.DFA([[1, *[0] * (len(symbols) - 1)], [1, *[1] * (len(symbols) - 1)]], [1], symbols)
    for machine in (dfa, ~dfa, dfa.star()):
        assert kl.regex(machine.to_regex(), symbols) == machine
        assert bool(re.fullmatch(machine.to_regex(), symbols[0])) == machine.accepts(symbols[0])


def test_small_languages() -> None:
    assert kl.DFA([[0]], [], "a").to_regex() == "(?!)" and kl.regex("(?!)", "a").is_empty()
    assert kl.regex("", "a").to_regex() == "" and kl.regex("(a|b)*", "ab").to_regex() == "[ab]*"
    assert kl.regex("(0|10*1)*").to_regex() == "(0|10*1)*"
    assert len(kl.regex("(a|b)*a(a|b)(a|b)").to_regex()) <= 16


def test_refusals() -> None:
    with pytest.raises(kl.NotSupported, match="several characters"):
        kl.DFA([[0]], [0], ("ab",)).to_regex()
    with pytest.raises(kl.NotSupported, match="raise limit="):
        kl.DFA([[(q * 7 + 1) % 40, (q * 3 + 5) % 40] for q in range(40)], range(0, 40, 3), "ab").to_regex(limit=50)


def random_term(rng: random.Random, k: Algebra, depth: int) -> tuple[Term, str]:
    """A term and, built beside it without any simplification, the pattern of the same language."""
    kind = rng.random()
    if depth == 0 or kind < 0.2:
        symbol = rng.choice("ab")
        return (k.symbol(symbol), symbol) if rng.random() < 0.9 else (k.empty, "(?:)")
    left, one = random_term(rng, k, depth - 1)
    right, two = random_term(rng, k, depth - 1)
    if kind < 0.5:
        return k.concat(left, right), f"(?:{one})(?:{two})"
    if kind < 0.8:
        return k.union(left, right), f"(?:{one}|{two})"
    return k.star(left), f"(?:{one})*"


@pytest.mark.parametrize("seed", range(150))
def test_every_simplification_keeps_the_language(seed: int) -> None:
    rng, k = random.Random(seed), Algebra()
    term, pattern = random_term(rng, k, 5)
    wanted = kl.regex(pattern, "ab")
    for found in (term, k.simplify(term), k.reverse(k.reverse(term))):
        assert kl.regex(k.show(found), "ab") == wanted and len(k.show(found)) == k.length(found)
        assert found.nullable == wanted.accepts("")
    other, second = random_term(rng, k, 4)
    if k.included(term, other):
        assert wanted <= kl.regex(second, "ab")
    for symbol in "ab":
        assert kl.regex(k.show(k.derivative(term, symbol)), "ab") == wanted.left_quotient(kl.regex(symbol, "ab"))
