"""Exact effects: against sums over all coalitions and all words, written out; the laws that define the indices."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kleene as kl
from kleene.truth.games import game_of
from kleene.truth.shapley import explain_machine
from random_machines import random_dfa


def expected(decide, word, chances, alphabet):
    """The value of every coalition: all words are drawn and weighed, one by one."""
    values = {}
    answers = {w: float(decide(w)) for w in itertools.product(alphabet, repeat=len(word))}
    for coalition in itertools.product((False, True), repeat=len(word)):
        total = 0.0
        for drawn, answer in answers.items():
            if all(d == own for d, own, kept in zip(drawn, word, coalition) if kept):
                total += answer * math.prod(c[d] for d, c, kept in zip(drawn, chances, coalition) if not kept)
        values[coalition] = total
    return values


def coalitions(values, without):
    size = len(next(iter(values)))
    return [s for s in values if not any(s[i] for i in without)], size


def with_(coalition, *places):
    return tuple(kept or i in places for i, kept in enumerate(coalition))


def brute_single(values, i, index):
    found, n = coalitions(values, [i])
    total = 0.0
    for s in found:
        k = sum(s)
        weight = math.factorial(k) * math.factorial(n - k - 1) / math.factorial(n)
        total += (weight if index == "shapley" else 1 / 2 ** (n - 1)) * (values[with_(s, i)] - values[s])
    return total


def brute_pair(values, i, j, index):
    found, n = coalitions(values, [i, j])
    total = 0.0
    for s in found:
        k = sum(s)
        weight = {
            "shapley": math.factorial(k) * math.factorial(n - k - 2) / math.factorial(n - 1),
            "banzhaf": 1 / 2 ** (n - 2),
            "taylor": 2 / n / math.comb(n - 1, k),
        }[index]
        total += weight * (values[with_(s, i, j)] - values[with_(s, i)] - values[with_(s, j)] + values[s])
    return total


def check(machine, word, decide, alphabet, distribution=None):
    chances = distribution or [dict.fromkeys(alphabet, 1 / len(alphabet))] * len(word)
    values = expected(decide, tuple(word), chances, alphabet)
    n, given = len(word), {} if distribution is None else {"distribution": distribution}
    for index in ("shapley", "banzhaf"):
        found = kl.shapley(machine, word, index=index, **given)
        assert max(abs(found[i] - brute_single(values, i, index)) for i in range(n)) < 1e-12
    for index in ("shapley", "banzhaf", "taylor"):
        found = kl.interactions(machine, word, index=index, **given)
        assert np.array_equal(found, found.T) or np.abs(found - found.T).max() < 1e-14
        for i, j in itertools.combinations(range(n), 2):
            assert abs(found[i, j] - brute_pair(values, i, j, index)) < 1e-12
    effects = kl.effects(machine, word, **given)
    for i, (a, symbol) in itertools.product(range(n), enumerate(alphabet)):
        changed = (*word[:i], symbol, *word[i + 1 :])
        assert effects[i, a] == float(decide(changed)) - float(decide(tuple(word)))


@given(st.integers(0, 10**6), st.integers(2, 5))
@settings(max_examples=20, deadline=None)
def test_automata_are_the_sum_over_coalitions(seed, length):
    rng = random.Random(seed)
    dfa = random_dfa(rng)
    word = [rng.choice(dfa.alphabet) for _ in range(length)]
    weights = [[rng.random() + 0.01 for _ in dfa.alphabet] for _ in word]
    distribution = [dict(zip(dfa.alphabet, (x / sum(row) for x in row))) for row in weights]
    check(dfa, word, dfa.accepts, dfa.alphabet, rng.choice([None, distribution]))


def test_twelve_symbols():
    """Length 12, where coalitions are 4,096: their values by the mean matrices, independently of prefix products."""
    rng = np.random.default_rng(3)
    dfa = kl.DFA(rng.integers(7, size=(7, 2)), [0, 2, 5], "01")
    word = "011010011101"
    moves = np.eye(7)[dfa.table.T]
    values = {}
    for s in itertools.product((False, True), repeat=12):
        row = np.eye(7)[0]
        for kept, symbol in zip(s, word):
            row = row @ (moves[int(symbol)] if kept else moves.mean(0))
        values[s] = float(row[dfa.accepting].sum())
    found, pairs = kl.shapley(dfa, word), kl.interactions(dfa, word)
    assert max(abs(found[i] - brute_single(values, i, "shapley")) for i in range(12)) < 1e-12
    assert np.abs(found).max() > 0.01
    for i, j in [(0, 1), (3, 9), (10, 11), (0, 11)]:
        assert abs(pairs[i, j] - brute_pair(values, i, j, "shapley")) < 1e-12


def test_a_hundred_symbols_sum_to_the_value():
    rng = np.random.default_rng(0)
    table = np.stack([(np.arange(10) + 1) % 10, rng.permutation(10)], axis=1)
    dfa = kl.DFA(table, [0, 3, 4], "01")
    word = "".join(map(str, rng.integers(2, size=100)))
    game = game_of(dfa, word)
    assert len(game.start) == 10
    found = kl.shapley(dfa, word)
    assert abs(found.sum() - (game.value() - game.value(0))) < 1e-12
    pairs = kl.interactions(dfa, word, index="taylor")
    alone = game.effects(np.zeros(1))[0]
    assert abs(alone.sum() + pairs[np.triu_indices(100, 1)].sum() - (game.value() - game.value(0))) < 1e-11


def test_other_machines():
    """Nondeterministic, alternating, weighted; a transducer; an attention program; a network."""
    dfa = kl.regex("(0|1)*1(0|1)", "01")
    expected_values = kl.shapley(dfa, "0110")
    assert np.allclose(kl.shapley(kl.NFA.of(dfa), "0110"), expected_values, atol=1e-15)
    assert np.allclose(kl.shapley(kl.WeightedAutomaton.of(dfa), "0110"), expected_values, atol=1e-15)
    lstm = kl.compile(dfa, to="lstm")
    assert np.allclose(kl.shapley(lstm, "0110"), expected_values, atol=1e-12)
    assert np.allclose(kl.interactions(lstm, "0110"), kl.interactions(dfa, "0110"), atol=1e-12)
    ones = kl.WeightedAutomaton([1, 0], {"0": [[1, 0], [0, 1]], "1": [[1, 1], [0, 1]]}, [0, 1])
    assert np.allclose(kl.shapley(ones, "0110"), [-0.5, 0.5, 0.5, -0.5])  # a sum has no interactions
    assert np.abs(kl.interactions(ones, "0110")).max() < 1e-15
    delay = kl.Transducer.mealy([[0, 1], [0, 1]], ["00", "11"], "01")  # writes the symbol before
    assert np.allclose(kl.shapley(delay, "011"), [0, 0.5, 0])
    check(kl.library.parity_absolute(5), [1, 0, 1, 1], lambda w: sum(w) % 2 == 1, (0, 1))


def test_a_program_with_a_distribution_by_position():
    parity, coin = kl.library.parity_relative, {0: 0.5, 1: 0.5}
    fixed = [{2: 1.0}, coin, coin, coin]
    assert np.allclose(kl.shapley(parity, "101", distribution=fixed), [0, 1 / 6, 1 / 6, 1 / 6])
    assert np.allclose(kl.shapley(parity, "101", distribution=fixed, position=1), [0, 0.5, 0, 0])
    effects = kl.effects(parity, "101", distribution=fixed)
    assert np.isnan(effects[1, 2]) and effects[1, 0] == -1 and effects[0, 2] == 0
    with pytest.raises(kl.NotSupported, match="give a distribution"):
        kl.shapley(parity, "101")  # START in the middle never halts, or reads what is not there


def test_together():
    found = explain_machine(kl.regex("1.*1", "01"), "101")
    assert found.to_dict()["shapley"] == [0.375, 0.0, 0.375]
    assert found.value == 1 and found.expected == 0.25
    assert str(kl.explain(kl.regex("1.*1", "01"), "101")) == str(found)
    assert kl.shapley(kl.regex("a*", "a"), "").shape == (0,)
    assert kl.interactions(kl.regex("a*", "a"), "").shape == (0, 0)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda d: kl.shapley(d, "012"), "'2' at position 2"),
        (lambda d: kl.shapley(d, 12), "a sequence of symbols"),
        (lambda d: kl.shapley(d, "01", distribution="uniform"), "probabilities by symbol"),
        (lambda d: kl.shapley(d, "01", distribution={"0": 0.5}), "sum to 0.5"),
        (lambda d: kl.shapley(d, "01", distribution={"x": 1.0}), "'x' is not in the alphabet"),
        (lambda d: kl.shapley(d, "01", distribution=[{"0": 1.0}]), "1 mappings for 2 symbols"),
        (lambda d: kl.shapley(d, "01", distribution={"0": 2.0, "1": -1.0}), "from 0 to 1"),
        (lambda d: kl.shapley(d, "01", index="taylor"), "unknown"),
        (lambda d: kl.interactions(d, "01", index="x"), "unknown"),
        (lambda d: kl.shapley(d, "01", position=1), "only for attention programs"),
        (lambda d: kl.shapley(kl.library.parity_absolute(9), [0, 1], position=5), "outside the input"),
    ],
)
def test_wrong_uses_are_named(call, message):
    with pytest.raises(kl.InputError, match=message):
        call(kl.regex("0*1", "01"))


def test_what_it_cannot_do_is_named():
    with pytest.raises(kl.NotSupported, match="at most 1,000,000"):
        kl.shapley(kl.compile(kl.regex("0*1", "01"), to="gru"), "01" * 20)
    with pytest.raises(kl.NotSupported, match="tropical"):
        kl.shapley(kl.WeightedAutomaton([0], {"0": [[1]]}, [0], "tropical"), "0")
    with pytest.raises(kl.NotSupported, match="TuringMachine"):
        kl.shapley(kl.TuringMachine.parse("1RB1LB_1LA1RZ"), "0")
