"""Every operation on automata against its definition, word by word, on random automata."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product

import numpy as np
import pytest

import kleene as kl
from kleene.common.alphabet import all_words
from random_machines import random_dfa

LONGEST = 5


def pair(seed: int) -> tuple[kl.DFA, kl.DFA, list[str], list[str]]:
    """Two automata over ab or abc, and their words up to a length."""
    rng = random.Random(seed)
    left, right = random_dfa(rng, 5, 2), random_dfa(rng, 5, 3)
    symbols = sorted({*left.alphabet, *right.alphabet})
    every = [str(w) for w in all_words(symbols, LONGEST)]
    return left, right, [w for w in every if w in left], [w for w in every if w in right]


def words_of(dfa: kl.DFA, longest: int = LONGEST) -> list[str]:
    return [str(w) for w in all_words(sorted(dfa.alphabet), longest) if w in dfa]


@pytest.mark.parametrize("seed", range(60))
def test_boolean_operations_over_different_alphabets(seed: int) -> None:
    left, right, mine, theirs = pair(seed)
    assert set(words_of(left | right)) == {*mine, *theirs}
    assert set(words_of(left & right)) == {*mine} & {*theirs}
    assert set(words_of(left - right)) == {*mine} - {*theirs}
    assert set(words_of(left ^ right)) == {*mine} ^ {*theirs}
    assert (
        (left == right) == ((left ^ right).is_empty()) and left == left.minimise() and hash(left) == hash(left | left)
    )
    assert left.included_in(right) == (left <= right) == (left - right).is_empty()
    assert (left | right) == (right | left) and left <= (left | right) and (left & right) <= right
    found = left.distinguish(right)
    assert (found is None) == (left == right)
    if found is not None:
        assert (found in left) != (found in right)
        assert not any(
            (w in left) != (w in right)
            for w in all_words(sorted({*left.alphabet, *right.alphabet}), 3)
            if len(w) < len(found)
        )


@pytest.mark.parametrize("seed", range(60))
def test_regular_operations(seed: int) -> None:
    left, right, mine, theirs = pair(seed)
    joined = {u + v for u in mine for v in theirs if len(u + v) <= LONGEST}
    assert set(words_of(left + right)) == joined == {w for w in words_of(left.concatenate(right))}
    star = {""}
    for _ in range(LONGEST):
        star |= {u + v for u in star for v in mine if len(u + v) <= LONGEST}
    assert set(words_of(left.star())) == star
    assert set(words_of(left.reverse())) == {w[::-1] for w in mine}
    assert {w for w in words_of(left.prefixes()) if len(w) <= 2} == {
        w for w in all_words(left.alphabet, 2) if _extends(left, str(w))
    }


def _extends(dfa: kl.DFA, word: str) -> bool:
    return not kl.DFA(dfa.table, dfa.accepting, dfa.alphabet, dfa.run(word)).is_empty()


@pytest.mark.parametrize("seed", range(60))
def test_quotients(seed: int) -> None:
    """The definition, with v up to the number of pairs of states: longer ones are not needed."""
    rng = random.Random(seed)
    left, right = random_dfa(rng, 3, 2), random_dfa(rng, 3, 2).over("ab")
    left = left.over("ab")
    enough = [str(w) for w in all_words("ab", 8)]
    theirs = [v for v in enough if right.accepts(v)]
    for u in all_words("ab", 3):
        assert (left / right).accepts(u) == any(left.accepts(str(u) + v) for v in theirs), (seed, u)
        assert left.left_quotient(right).accepts(u) == any(left.accepts(v + str(u)) for v in theirs), (seed, u)


@pytest.mark.parametrize("seed", range(60))
def test_homomorphisms(seed: int) -> None:
    rng = random.Random(seed)
    dfa = random_dfa(rng, 5, 3)
    image = {s: "".join(rng.choice("01") for _ in range(rng.randint(0, 2))) for s in dfa.alphabet}
    mapped = dfa.homomorphism(image)
    for word in all_words(dfa.alphabet, 4):
        text = "".join(image[s] for s in word)
        assert not dfa.accepts(word) or text in mapped
        assert dfa.inverse_homomorphism({"x": "ab"[: len(dfa.alphabet)], "y": ""}).accepts("xyx") == dfa.accepts(
            "ab"[: len(dfa.alphabet)] * 2
        )
    if all(image.values()):  # no symbol disappears: every short image has a short origin
        origins = {"".join(image[s] for s in w) for w in all_words(dfa.alphabet, 4) if dfa.accepts(w)}
        assert {w for w in all_words("01", 4) if w in mapped} == {w for w in origins if len(w) <= 4}


@pytest.mark.parametrize("seed", range(60))
def test_words_counts_and_samples(seed: int) -> None:
    rng = random.Random(seed)
    dfa = random_dfa(rng, 5, 2)
    every = words_of(dfa, 7)
    assert [w for _, w in zip(range(40), dfa.words())] == sorted(every, key=lambda w: (len(w), w))[:40] or len(
        every
    ) < 40
    assert [dfa.count(n) for n in range(8)] == [sum(len(w) == n for w in every) for n in range(8)]
    assert dfa.shortest() == (next(iter(dfa.words(1)), None))
    assert dfa.is_empty() == (not dfa.language) and dfa.is_universal() == (~dfa).is_empty()
    for i, word in enumerate(dfa.words(30)):
        assert dfa.language[i] == word
    if dfa.is_finite():
        assert (
            len(dfa.language) == len(list(dfa.words()))
            and max(map(len, dfa.words()), default=-1) == dfa.language.longest
        )
    else:
        with pytest.raises(kl.InputError, match="infinitely many"):
            len(dfa.language)
        assert any(dfa.count(n) for n in range(len(dfa), 2 * len(dfa)))  # the pumping lemma
    if dfa.count(6):
        assert all(w in dfa and len(w) == 6 for w in (dfa.sample(6, i) for i in range(5)))


def test_samples_are_uniform() -> None:
    dfa = kl.regex("(ab|ba|aab)*", "ab")
    rng = np.random.default_rng(0)
    drawn = Counter(str(dfa.sample(6, rng)) for _ in range(6000))
    expected = 6000 / dfa.count(6)
    assert len(drawn) == dfa.count(6) and sum((n - expected) ** 2 / expected for n in drawn.values()) < 40


def test_counts_are_exact_however_large() -> None:
    assert kl.regex("(a|b|c)*").count(500) == 3**500
    assert kl.regex("(ab?)*").count(300) == kl.regex("(ab?)*").count(299) + kl.regex("(ab?)*").count(298)


@pytest.mark.parametrize("seed", range(60))
def test_nondeterministic_automata(seed: int) -> None:
    """Determinising, reversal, union, concatenation, star and removal of empty moves against paths."""
    rng = random.Random(seed)

    def nfa() -> kl.NFA:
        n = rng.randint(1, 5)
        moves = [(rng.randrange(n), rng.choice(["", "a", "b"]), rng.randrange(n)) for _ in range(2 * n)]
        return kl.NFA(moves, [q for q in range(n) if rng.random() < 0.5], "ab", [rng.randrange(n)], n)

    def brute(machine: kl.NFA, word: str) -> bool:
        """Search the graph of (state, place in the word), by the definition."""
        seen = {(q, 0) for q in machine.start}
        stack = list(seen)
        while stack:
            state, place = stack.pop()
            if place == len(word) and machine.accepting[state]:
                return True
            for p, symbol, q in machine.transitions():
                if p == state and (symbol == "" or word[place : place + 1] == symbol):
                    after = (q, place + len(symbol))
                    if after not in seen:
                        seen.add(after)
                        stack.append(after)
        return False

    one, two = nfa(), nfa()
    every = [str(w) for w in all_words("ab", 4)]
    mine, theirs = {w for w in every if brute(one, w)}, {w for w in every if brute(two, w)}
    for machine in (one, one.determinise(), one.minimise(), one.without_empty_moves(), kl.NFA.of(one.determinise())):
        assert {w for w in every if machine.accepts(w)} == mine
    assert {w for w in every if one.reverse().accepts(w)} == {w[::-1] for w in mine}
    assert {w for w in every if (one | two).accepts(w)} == mine | theirs
    joined = {u + v for u in mine for v in theirs if len(u + v) <= 4}
    assert {w for w in every if (one + two).accepts(w)} == joined
    assert kl.DFA.star(one.determinise()) == one.star().determinise()


def test_errors_are_ours() -> None:
    dfa = kl.regex("a*b")
    for work, says in (
        (lambda: dfa.count(-1), "length -1"),
        (lambda: dfa.homomorphism({"a": "x"}), "no image for 'b'"),
        (lambda: dfa.language[-1], "index -1"),
        (lambda: dfa.sample(0), "no word has length 0"),
        (lambda: dfa.over("a"), "lacks 'b'"),
        (lambda: kl.NFA([(0, "x", 0)], [0], "ab"), "not in the alphabet"),
        (lambda: kl.NFA([(0, "a")], [0], "ab"), "should be"),
        (lambda: kl.NFA([(0, "a", 3)], [0], "ab", states=2), "outside"),
    ):
        with pytest.raises(kl.InputError, match=says):
            work()


def test_products_of_a_million_states() -> None:
    """Two counters of coprime lengths: the product, its minimal form, and the two compared."""
    left = kl.DFA([[(q + 1) % 1000, q] for q in range(1000)], [0], "ab")
    right = kl.DFA([[(q + 1) % 1009, (q + 3) % 1009] for q in range(1009)], [0], "ab")
    both = left & right
    assert len(both) == 1000 * 1009 == len(both.minimise()) and both.equivalent(both.minimise())
    assert not both.equivalent(left)


def test_parts_of_words() -> None:
    assert [w for w in product("ab", repeat=2) if list(w) in kl.regex("a.|.b", "ab")] == [
        ("a", "a"),
        ("a", "b"),
        ("b", "b"),
    ]
