"""Krohn–Rhodes cascades: equal to the automaton on words, and without counters exactly for star-free languages."""

from __future__ import annotations

import random

import pytest

import kleene as kl
from kleene.common.alphabet import all_words
from kleene.library.tomita import language
from kleene.machines.automata.cascade import cascade
from kleene.machines.automata.permutations import coprime_triple, derived, generated
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


def on_points(*generators: tuple[int, ...]) -> kl.DFA:
    return kl.DFA([list(row) for row in zip(*generators)], [0], "abc"[: len(generators)])


@pytest.mark.parametrize("n", [7, 9, 20])
def test_large_groups_that_are_not_solvable_are_refused_by_theorem(n):
    turn, swap = tuple((q + 1) % n for q in range(n)), (1, 0, *range(2, n))
    with pytest.raises(kl.NotSupported, match=r"not solvable .* which are coprime.*Krohn and Rhodes.*Barrington"):
        cascade(on_points(turn, swap))


def test_coprime_orders_are_found_exactly_in_groups_that_are_not_solvable():
    rng = random.Random(4)
    for _ in range(60):
        size = rng.randint(3, 6)
        generators = [tuple(rng.sample(range(size), size)) for _ in range(rng.randint(1, 2))]
        group, orders = generated(generators, size), coprime_triple(generators, 400)
        while len(derived(group)) < len(group):
            group = derived(group)
        assert (orders is not None) == (len(group) > 1)
    affine = [(*[(3 * q) % 7 for q in range(7)],), (*[(q + 1) % 7 for q in range(7)],)]  # 42 elements, solvable
    assert coprime_triple(affine) is None and coprime_triple([]) is None
