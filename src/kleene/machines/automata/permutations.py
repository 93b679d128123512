"""Groups of permutations: products, generated subgroups, commutators. A permutation is a tuple of images."""

from __future__ import annotations

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
    """The power xⁿ."""
    result = tuple(range(len(x)))
    for _ in range(exponent):
        result = times(result, x)
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
