"""The classes of languages against their definitions, decided by brute force on the monoid or on words."""

from __future__ import annotations

import random
from functools import cache
from itertools import permutations, product

import pytest

import kleene as kl
from kleene.common.alphabet import all_words
from kleene.machines.automata.classes import counting
from kleene.machines.automata.monoid import syntactic_monoid
from random_machines import random_dfa

Element = tuple[int, ...]


def monoid_of(dfa: kl.DFA) -> tuple[set[Element], list[Element]]:
    """All transformations of words, the identity included, and the letters: closed under multiplication naively."""
    minimal = dfa.minimise()
    letters = [tuple(minimal.table[:, a].tolist()) for a in range(len(minimal.alphabet))]
    elements = {tuple(range(len(minimal)))}
    queue = list(elements)
    for x in queue:
        for a in letters:
            y = tuple(a[q] for q in x)
            if y not in elements:
                elements.add(y)
                queue.append(y)
    return elements, letters


def times(x: Element, y: Element) -> Element:
    return tuple(y[q] for q in x)


def power(x: Element, n: int) -> Element:
    found = tuple(range(len(x)))
    for _ in range(n):
        found = times(found, x)
    return found


def groups_inside(elements: set[Element]) -> list[set[Element]]:
    """For each idempotent e, the elements x with ex = xe = x and some y with xy = yx = e."""
    found = []
    for e in (e for e in elements if times(e, e) == e):
        local = {x for x in elements if times(e, x) == x == times(x, e)}
        found.append({x for x in local if any(times(x, y) == e == times(y, x) for y in local)})
    return found


def solvable(group: set[Element]) -> bool:
    """The derived series by all commutators, closed naively."""
    while len(group) > 1:
        one = next(x for x in group if times(x, x) == x)
        inverse = {x: next(y for y in group if times(x, y) == one) for x in group}
        derived = {times(times(inverse[x], inverse[y]), times(x, y)) for x in group for y in group}
        while True:
            more = derived | {times(x, y) for x in derived for y in derived}
            if more == derived:
                break
            derived = more
        if derived == group:
            return False
        group = derived
    return True


def ideal(x: Element, letters: list[Element]) -> frozenset[Element]:
    """MxM: all that letters before and behind x make of it."""
    seen, queue = {x}, [x]
    for y in queue:
        for z in (w for a in letters for w in (times(a, y), times(y, a))):
            if z not in seen:
                seen.add(z)
                queue.append(z)
    return frozenset(seen)


def words_by_length(letters: list[Element]) -> list[set[Element]]:
    """The elements of the words of each length, until the sequence has come round twice."""
    sets, seen = [set(letters)], []
    while sets[-1] not in seen:
        seen = sets[:]
        sets.append({times(x, a) for x in sets[-1] for a in letters})
    return sets


def has_group(some: set[Element]) -> bool:
    """Whether a set holds a nontrivial group: two elements x ≠ e with x in the group of e, all powers inside."""
    for x in some:
        powers, y = [], x
        while y not in powers:
            powers.append(y)
            y = times(y, x)
        if y == x and len(powers) > 1 and all(p in some for p in powers):
            return True
    return False


def strictly_local(dfa: kl.DFA, k: int) -> bool:
    """Suffix substitution, by its definition on prefixes: words that end alike in k − 1 symbols, and live, are one."""
    minimal = dfa.minimise()
    live = [
        q for q in range(len(minimal)) if not kl.DFA(minimal.table, minimal.accepting, minimal.alphabet, q).is_empty()
    ]
    for word in product(range(len(minimal.alphabet)), repeat=k - 1):
        ends = set()
        for q in live:
            for code in word:
                q = int(minimal.table[q, code])
            if q in live:
                ends.add(q)
        if len(ends) > 1:
            return False
    return True


@pytest.mark.parametrize("part", range(10))
def test_five_hundred_random_automata(part: int) -> None:
    held: dict[str, int] = {}
    for seed in range(50 * part, 50 * part + 50):
        rng = random.Random(seed)
        dfa = random_dfa(rng, 4, 2) if seed % 2 else _structured(rng)
        elements, letters = monoid_of(dfa)
        classes = dfa.classes
        assert len(dfa.monoid) == len(elements)
        bound = len(elements) + 1
        aperiodic = all(power(x, bound) == power(x, bound + 1) for x in elements)
        assert bool(dfa.is_star_free) == bool(classes.star_free) == aperiodic
        assert bool(dfa.is_group) == bool(classes.group) == all(len(set(x)) == len(x) for x in letters)
        ideals = {x: ideal(x, letters) for x in elements}
        assert bool(classes.piecewise_testable) == (len(set(ideals.values())) == len(elements))
        nonempty = {times(x, a) for x in elements for a in letters}
        local = True
        for e in (e for e in nonempty if times(e, e) == e):
            around = [times(times(e, x), e) for x in nonempty]
            local = local and all(times(x, x) == x for x in around)
            local = local and all(times(x, y) == times(y, x) for x in around for y in around)
        assert bool(classes.locally_testable) == local
        assert bool(classes.solvable) == bool(classes.acc0) == all(solvable(g) for g in groups_inside(elements))
        assert bool(classes.ac0) == (not any(has_group(s) for s in words_by_length(letters)))
        if classes.strictly_local:
            k = classes.strictly_local.witness[0]
            assert isinstance(k, int) and strictly_local(dfa, k) and (k == 1 or not strictly_local(dfa, k - 1))
        else:
            assert not any(strictly_local(dfa, k) for k in range(1, 8))
        for name, verdict in classes.to_json().items():
            held[name] = held.get(name, 0) + bool(verdict["holds"])
        _check_witnesses(dfa, classes)
    assert held["star_free"] < 50 and held["nc1"] == 50


def _structured(rng: random.Random) -> kl.DFA:
    """Languages that are in small classes more often than random tables are."""
    parts = ["a*", "b*", "(ab)*", "[ab]*", "(aa)*", "a", "b", "ab", "(a|bb)*", "b?"]
    return kl.regex("".join(rng.choice(parts) for _ in range(rng.randint(1, 3))), "ab")


def _check_witnesses(dfa: kl.DFA, classes: object) -> None:
    minimal = dfa.minimise()
    if not classes.star_free:  # type: ignore[attr-defined]
        word, cycle = classes.star_free.witness  # type: ignore[attr-defined]
        moved = [kl.DFA(minimal.table, minimal.accepting, minimal.alphabet, q).run(word) for q in cycle]
        assert len(cycle) > 1 and moved == [*cycle[1:], cycle[0]]
    if not classes.strictly_local:  # type: ignore[attr-defined]
        word, p, q = classes.strictly_local.witness  # type: ignore[attr-defined]
        assert word and p != q
        assert [kl.DFA(minimal.table, minimal.accepting, minimal.alphabet, s).run(word) for s in (p, q)] == [p, q]


def word_problem(degree: int, even: bool) -> kl.DFA:
    """The words over two generators that multiply to the identity, as an automaton on the group's elements."""
    first = (*range(1, degree), 0) if even or degree % 2 else tuple([1, 0, *range(2, degree)])
    second = (1, 2, 0, *range(3, degree)) if even else (1, 0, *range(2, degree))
    if not even:
        first = (*range(1, degree), 0)
    elements = [p for p in permutations(range(degree)) if not even or _sign(p) == 0]
    number = {p: i for i, p in enumerate(elements)}
    table = [[number[times(p, g)] for g in (first, second)] for p in elements]
    return kl.DFA(table, [number[tuple(range(degree))]], "ab", number[tuple(range(degree))])


@cache
def _sign(p: Element) -> int:
    return sum(p[i] > p[j] for i in range(len(p)) for j in range(i + 1, len(p))) % 2


def test_word_problems_of_groups() -> None:
    for degree, even, order, soluble in (
        (3, False, 6, True),
        (4, False, 24, True),
        (5, True, 60, False),
        (5, False, 120, False),
    ):
        dfa = word_problem(degree, even)
        assert len(dfa.monoid) == order and dfa.is_group
        classes = dfa.classes
        assert bool(classes.solvable) == soluble == bool(classes.acc0) and not classes.ac0 and classes.nc1
        if not soluble:
            assert classes.solvable.witness[1:] == (order, 60) and "NC¹" in classes.acc0.reason


def test_famous_languages() -> None:
    assert kl.regex("(ab)*").classes.strictly_local.witness == (2,)
    assert not kl.regex("a*ba*").classes.locally_testable and kl.regex("a*ba*").classes.piecewise_testable
    assert kl.regex("((a|b)(a|b))*").classes.ac0 and not kl.regex("((a|b)(a|b))*").is_star_free
    parity = kl.regex("(0|10*1)*").classes
    assert not parity.ac0 and parity.acc0 and "parity" in parity.ac0.reason
    assert "star free" in str(parity)
    assert (
        sum(1 for w in all_words("ab", 3) if kl.regex("(ab)*").monoid.is_accepting(kl.regex("(ab)*").monoid.element(w)))
        == 2
    )


def test_a_monoid_that_is_too_large_is_refused() -> None:
    n = 9
    table = [[(q + 1) % n, {0: 1, 1: 0}.get(q, q), 0 if q == 1 else q] for q in range(n)]
    with pytest.raises(kl.NotSupported, match="more than 50,000 elements"):
        _ = kl.DFA(table, [0], "abc").monoid


def test_a_short_word_that_turns_states_proves_it_however_large_the_monoid_is() -> None:
    n = 12
    large = kl.DFA([[(q + 1) % n, max(q, 1), 1 - q if q < 2 else q] for q in range(n)], [0], "abc")  # 12¹² functions
    free = large.is_star_free
    word, cycle = free.witness
    assert not free and isinstance(word, str) and isinstance(cycle, tuple) and len(cycle) > 1
    minimal = large.minimise()
    for here, there in zip(cycle, (*cycle[1:], cycle[0])):
        assert kl.DFA(minimal.table, minimal.accepting, "abc", here).run(word) == there
    with pytest.raises(kl.NotSupported, match="more than 50,000 elements"):
        _ = large.classes


def test_some_words_of_a_monoid_are_what_they_are_in_the_whole() -> None:
    rng = random.Random(3)
    for _ in range(40):
        dfa = random_dfa(rng, 5, 2)
        whole, some = dfa.monoid, syntactic_monoid(dfa, 6, whole=False)
        assert len(some) == min(6, len(whole)) and (some.maps == whole.maps[: len(some)]).all()
        found = counting(dfa, lambda length: length > 1)
        assert (found is None) == bool(dfa.is_star_free)  # these monoids are small, so all their words are tried
