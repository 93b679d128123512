"""Sort threshold units into groups that straight-line code evaluates together: lanes, sums, and single units.

The groups come from the weights alone. Units in lanes have the same weights, and read and write neighbouring
dimensions. Units in sums read longer and longer runs of dimensions with weights c, 2c, 4c, …
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Items = tuple[tuple[int, int], ...]  # (dimension, weight)
FEW = 3  # the fewest units that are worth a group


@dataclass(frozen=True)
class Unit:
    """A unit on the working row: on where Σ reads ≥ threshold; what is the same in every layer is in the threshold."""

    reads: Items
    threshold: int
    writes: Items

    @property
    def weights(self) -> tuple[int, ...]:
        return tuple(weight for _, weight in self.reads)


@dataclass(frozen=True)
class Lanes:
    """Units that differ by a shift of dimensions; `steps` says which reads move, forwards (1) or backwards (−1)."""

    units: tuple[Unit, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True)
class Run:
    """Neighbouring dimensions with weights c, 2c, 4c, …"""

    first: int
    length: int
    weight: int


@dataclass(frozen=True)
class Sums:
    """Units that sum runs from the same first dimensions."""

    units: tuple[Unit, ...]
    runs: tuple[tuple[Run, ...], ...]  # of each unit
    rest: tuple[Items, ...]  # the reads of each unit that are in no run


def units_of(into: Array, bias: Array, out: Array, written: Array, row: Array) -> list[Unit]:
    """The units of one half. Those that are off in every layer are left out.

    written: the dimensions of the working row that can change; the others hold what `row` holds."""
    made = []
    for weights, constant, column in zip(into, bias, out.T):
        used = np.nonzero(weights)[0]
        fixed = used[~written[used]]
        threshold = 1 - int(constant) - int(weights[fixed] @ row[fixed])
        reads = tuple((int(dim), int(weights[dim])) for dim in used if written[dim])
        writes = tuple((int(dim), int(column[dim])) for dim in np.nonzero(column)[0])
        if writes and sum(max(0, weight) for _, weight in reads) >= threshold:
            made.append(Unit(reads, threshold, writes))
    return made


def grouped(units: Sequence[Unit]) -> Iterator[Lanes | Sums | Unit]:
    """Every unit once, in the largest group that it fits."""
    others = []
    by_runs: dict[Any, list[Unit]] = {}
    for unit in units:
        runs, rest = runs_of(unit.reads)
        if runs:
            key = tuple((run.first, run.weight) for run in runs), tuple(dim for dim, _ in rest)
            by_runs.setdefault(key, []).append(unit)
        else:
            others.append(unit)
    for members in by_runs.values():
        if len(members) < FEW:
            others += members
        else:
            parts = [runs_of(unit.reads) for unit in members]
            yield Sums(tuple(members), tuple(runs for runs, _ in parts), tuple(rest for _, rest in parts))
    for chain in chains(others):
        if len(chain) < FEW:
            yield from chain
        else:
            yield Lanes(tuple(chain), _steps(chain[0].reads, chain[1].reads) or ())


def runs_of(reads: Items) -> tuple[tuple[Run, ...], Items]:
    """Runs of neighbouring dimensions with weights c, 2c, 4c, …; and the reads that are in none."""
    runs, rest, place = [], [], 0
    while place < len(reads):
        dim, weight = reads[place]
        stop = place + 1
        while stop < len(reads) and reads[stop] == (dim + stop - place, weight << (stop - place)):
            stop += 1
        if stop - place >= 2:
            runs.append(Run(dim, stop - place, weight))
        else:
            rest.append((dim, weight))
        place = stop
    return tuple(runs), tuple(rest)


def _steps(one: Items, two: Items) -> tuple[int, ...] | None:
    """How far each dimension of one moves to get the other; None where they are not alike."""
    steps = tuple(b - a for (a, _), (b, _) in zip(one, two))
    alike = len(one) == len(two) and all(w == v for (_, w), (_, v) in zip(one, two))
    return steps if alike and all(-1 <= step <= 1 for step in steps) else None


def chains(units: Sequence[Unit]) -> Iterator[list[Unit]]:
    """Units in chains, each the one before moved by the same steps; every write of a chain moves."""
    buckets: dict[Any, list[Unit]] = {}
    for unit in units:
        key = unit.threshold, unit.weights, tuple(weight for _, weight in unit.writes)
        buckets.setdefault(key, []).append(unit)
    for bucket in buckets.values():
        left = dict.fromkeys(sorted(bucket, key=lambda u: (u.reads, u.writes)))
        while left:
            best = _longest_chain(next(iter(left)), left)
            for unit in best:
                del left[unit]
            yield best


def _longest_chain(unit: Unit, left: dict[Unit, None]) -> list[Unit]:
    best = [unit]
    for second in left:
        reads, writes = _steps(unit.reads, second.reads), _steps(unit.writes, second.writes)
        if reads is None or writes is None or not any(reads) or not all(writes):
            continue
        chain = [unit, second]
        while (after := _moved(chain[-1], reads, writes)) in left and len(chain) < WIDEST:
            chain.append(after)
        if len(chain) > len(best):
            best = chain
    return best


WIDEST = 62  # bits in a whole number of 64 bits that is never negative


def _moved(unit: Unit, reads: Sequence[int], writes: Sequence[int]) -> Unit:
    return Unit(
        tuple((dim + step, weight) for (dim, weight), step in zip(unit.reads, reads)),
        unit.threshold,
        tuple((dim + step, weight) for (dim, weight), step in zip(unit.writes, writes)),
    )
