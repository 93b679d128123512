"""Groups of permutations: products, generated subgroups, commutators. A permutation is a tuple of images."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable

from kleene.errors import NotSupported

Permutation = tuple[int, ...]


def times(first: Permutation, then: Permutation) -> Permutation:
    """One permutation after the other.

    >>> times((1, 2, 0), (0, 2, 1))
    (2, 1, 0)
    """
    return tuple(then[i] for i in first)


def inverse(x: Permutation) -> Permutation:
    """The permutation that undoes x."""
    found = [0] * len(x)
    for i, j in enumerate(x):
        found[j] = i
    return tuple(found)


def power(x: Permutation, exponent: int) -> Permutation:
    """The power xⁿ, by squaring."""
    result = tuple(range(len(x)))
    while exponent:
        if exponent & 1:
            result = times(result, x)
        x, exponent = times(x, x), exponent >> 1
    return result


def generated(generators: Iterable[Permutation], size: int, limit: int | None = None) -> frozenset[Permutation]:
    """The group that permutations of `size` things generate; `NotSupported` where it has more than `limit` elements."""
    one = tuple(range(size))
    seen, queue, by = {one}, [one], list(generators)
    for x in queue:
        for g in by:
            y = times(x, g)
            if y not in seen:
                if limit is not None and len(seen) >= limit:
                    raise NotSupported(f"cascade: a group has more than {limit:,} elements")
                seen.add(y)
                queue.append(y)
    return frozenset(seen)


def derived(group: frozenset[Permutation]) -> frozenset[Permutation]:
    """The commutator subgroup: the normal closure of the generators' commutators."""
    size = len(next(iter(group)))
    generators = some_generators(group)
    wanted = {times(times(inverse(x), inverse(y)), times(x, y)) for x in generators for y in generators}
    while True:
        found = generated(wanted, size)
        conjugates = {times(times(inverse(g), x), g) for x in wanted for g in generators}
        if conjugates <= found:
            return found
        wanted |= conjugates


def some_generators(group: frozenset[Permutation]) -> list[Permutation]:
    """A few elements that generate the group."""
    chosen: list[Permutation] = []
    reached: frozenset[Permutation] = frozenset()
    for x in sorted(group):
        if x not in reached:
            chosen.append(x)
            reached = generated(chosen, len(x))
            if len(reached) == len(group):
                break
    return chosen


def order(x: Permutation) -> int:
    """The least positive n with xⁿ = 1."""
    lengths, seen = [1], set[int]()
    for start in range(len(x)):
        at, length = start, 0
        while at not in seen:
            seen.add(at)
            at, length = x[at], length + 1
        if length:
            lengths.append(length)
    return math.lcm(*lengths)


def coprime_triple(generators: Iterable[Permutation], tries: int = 3_000) -> tuple[int, int, int] | None:
    """Orders of some x, y and x·y that are pairwise coprime and above 1: they prove that a group is not solvable.

    In an abelian group, x·y has an order that divides the product of those of x and y; so if the three are coprime, all
    three are 1. Hence x and y lie in the commutator subgroup of every subgroup that they lie in, and the derived series
    never ends at 1. (Thompson, 1968: every group that is not solvable has such elements.) The search is random, with
    a fixed seed; None says nothing.
    """
    pool = list(generators)
    if not pool:
        return None
    rng = random.Random(0)
    pool = (pool * 10)[: max(10, len(pool))]
    primes: dict[int, list[Permutation]] = {}  # elements of prime order
    for _ in range(tries):
        i, j = rng.randrange(len(pool)), rng.randrange(len(pool))
        pool[i] = times(pool[i], pool[j] if rng.random() < 0.5 else inverse(pool[j]))
        x, whole = pool[i], order(pool[i])
        for p in (p for p in range(2, len(x) + 1) if whole % p == 0 and all(p % d for d in range(2, p))):
            found = primes.setdefault(p, [])
            found.append(power(x, whole // p))
            for q in primes:
                y = rng.choice(primes[q])
                last = order(times(found[-1], y))
                if q != p and last > 1 and math.gcd(last, p * q) == 1:
                    return p, q, last
    return None
