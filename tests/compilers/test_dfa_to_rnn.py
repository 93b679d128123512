"""Which construction of an RNN is chosen, what it costs, and words of many lengths at once."""

from __future__ import annotations

import random

import numpy as np

import kleene as kl
from kleene.library.tomita import language
from random_machines import random_dfa, random_word

WAYS = ("minsky", "image", "scalar")


def test_smallest_is_never_larger_than_another_construction():
    rng = random.Random(0)
    machines = [kl.DFA([[0, 2], [1, 0], [1, 1]], [0, 1], "ab"), *(random_dfa(rng, 8, 3) for _ in range(60))]
    for dfa in machines:
        smallest = kl.compile(dfa, method="smallest")
        others = [kl.compile(m, method=way).units for m in (dfa, dfa.minimise()) for way in WAYS]
        assert smallest.units == min(others)
        assert kl.decompile(smallest) == dfa
    assert kl.compile(machines[0], method="smallest").units == 4


def test_the_default_weighs_units_and_weights():
    # random moves are no straight lines: one number for the state needs a unit a bend, all of them connected
    rng = np.random.default_rng(1)
    dfa = kl.DFA(rng.integers(0, 30, size=(30, 8)).cumsum(axis=0) % 30, list(range(0, 30, 2)), "abcdefgh")
    ways = {way: kl.compile(dfa, method=way).sizes for way in WAYS}
    chosen = kl.compile(dfa).sizes
    assert chosen["units"] * chosen["nonzero"] == min(size["units"] * size["nonzero"] for size in ways.values())
    weights = kl.compile(dfa).weights_each_way
    for way, size in ways.items():
        assert 0.5 < weights[way] / size["nonzero"] < 2
    assert "weights by construction" in str(kl.compile(dfa))


def shifts(states: int, symbols: int, pieces: int) -> kl.DFA:
    """Moves that are straight lines in pieces: few units for a state that is one number, all of them connected."""
    rng, columns = np.random.default_rng(0), []
    for _ in range(symbols):
        cuts = np.sort(rng.choice(np.arange(1, states), pieces, replace=False))
        piece = np.searchsorted(cuts, np.arange(states), side="right")
        columns.append((np.arange(states) + rng.integers(0, 12, size=pieces + 1)[piece]) % states)
    accepting = np.searchsorted(np.sort(rng.choice(states, 20, replace=False)), np.arange(states)) % 2
    return kl.DFA(np.stack(columns, 1), np.flatnonzero(accepting).tolist(), "abcdefghijklmnop"[:symbols])


def test_fewest_units_are_not_always_best():
    dfa = shifts(174, 16, 16)
    smallest, default = kl.compile(dfa, method="smallest"), kl.compile(dfa)
    assert (smallest.about["method"], default.about["method"]) == ("scalar", "image")
    assert 2 * smallest.units < default.units and smallest.sizes["nonzero"] > 10 * default.sizes["nonzero"]
    assert kl.certify(default).holds


def test_words_of_many_lengths_in_one_run():
    rng = random.Random(2)
    for dfa in (language(3), language(6)):
        for activation in ("relu", "slu"):
            rnn = kl.compile(dfa, activation=activation)
            words = [random_word(rng, "01", 80) for _ in range(200)]
            assert (rnn.accepts_batch(words) == dfa.accepts_batch(words)).all()
            assert rnn.accepts_batch([]).tolist() == [] and rnn.accepts_batch([""])[0] == dfa.accepts("")
