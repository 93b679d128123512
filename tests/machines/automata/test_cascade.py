"""Krohn–Rhodes cascades: equal to the automaton on words, and without counters exactly for star-free languages."""

from __future__ import annotations

import random

import pytest

import kleene as kl
from kleene.common.alphabet import all_words
from kleene.library.tomita import language
from kleene.machines.automata.cascade import cascade
from random_machines import random_dfa, random_word


@pytest.mark.parametrize("number", range(1, 8))
def test_tomita_languages(number):
    made = cascade(language(number))
    assert all(made.run(word) == made.dfa.run(word) for word in all_words("01", 9))
    assert (made.moduli == ()) == bool(language(number).is_star_free)


def test_random_automata_run_alike_and_count_exactly_where_they_are_not_star_free():
    rng, done = random.Random(1), 0
    for _ in range(120):
        dfa = random_dfa(rng, 5, 2)
        try:
            made = cascade(dfa)
        except kl.NotSupported:
            continue
        done += 1
        assert (made.moduli == ()) == bool(dfa.is_star_free)
        for _ in range(15):
            word = random_word(rng, dfa.alphabet, 25)
            assert made.run(word) == made.dfa.run(word)
    assert done > 110


def test_a_group_that_is_not_solvable_is_refused_by_name():
    a, b = (1, 2, 0, 3, 4), (1, 2, 3, 4, 0)
    dfa = kl.DFA([[a[q], b[q]] for q in range(5)], [0], "ab")  # A₅ on five points
    with pytest.raises(
        kl.NotSupported, match=r"a group of 60 elements is its own commutator subgroup.*Krohn and Rhodes"
    ):
        cascade(dfa)


def test_a_solvable_group_becomes_counters_of_prime_moduli():
    s4 = kl.DFA([[[1, 0, 2, 3][q], [1, 2, 3, 0][q]] for q in range(4)], [0], "ab")  # S₄ on four points
    assert sorted(cascade(s4).moduli) == [2, 2, 2, 3]
