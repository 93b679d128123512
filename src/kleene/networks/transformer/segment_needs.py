"""What a group of segments need not read: given one value of a selector, some units stay off whatever the rest is.

A program that compares with the left neighbour in odd layers and with the right one in even layers makes the same of
all right neighbours in odd layers. The weights show it: with `odd` given, the units that read the other neighbour stay
off, for every value that the other segments can have. So a step is remembered once for all of these values.

The bounds hold where every segment that the group reads holds a single one or zeros, and all weights are whole numbers;
the kernels look at the first, and this module at the second.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kleene.networks.transformer.sparse_weights import Array, FlatBlock, FlatHalf

WORTH = 32  # a selector that spares less costs more time than it saves
MOST_VALUES = 64  # of a selector
MOST_SUMS = 50_000_000  # products that the bounds may take
EXACT = 1 << 22  # below this, sums of whole numbers are exact


class _Half(NamedTuple):
    """One half of the MLP block, its entries one after another."""

    reader: Array  # entry → the unit that reads
    read: Array  # the dimension
    weight: Array
    writer: Array  # entry → the unit that writes
    written: Array  # the dimension
    change: Array
    bias: Array


class _Bounds(NamedTuple):
    """The most that every unit can get, and from which segment."""

    total: Array  # unit
    part: Array  # (unit, segment): what is in the total
    reads: Array  # (unit, segment): whether
    writes: Array


def _entries(flat: FlatHalf) -> _Half:
    dims, units = np.arange(len(flat.read_ptr) - 1), np.arange(len(flat.bias))
    return _Half(
        flat.units,
        np.repeat(dims, np.diff(flat.read_ptr)),
        flat.read_weights.astype(np.float64),
        np.repeat(units, np.diff(flat.write_ptr)),
        flat.targets,
        flat.write_weights.astype(np.float64),
        flat.bias.astype(np.float64),
    )


def _is_exact(half: _Half) -> bool:
    """Whether all weights are whole, and all sums exact."""
    numbers = np.concatenate([half.weight, half.change, half.bias])
    sums = np.bincount(half.reader, np.abs(half.weight), len(half.bias)) + np.abs(half.bias)
    return bool((numbers == np.round(numbers)).all() and np.max(sums, initial=0) < EXACT)


def needs_of(
    block: FlatBlock, segments: Any, of_column: Array, groups: list[tuple[list[int], list[int], list[int]]]
) -> list[tuple[int, Array]]:
    """The place of each group's selector among its columns, and (value, place) → whether the column there matters.

    The place is −1, and there are no values, where no selector makes the steps `WORTH` times fewer.

    of_column: column → the segment that it holds a part of.
    groups: of each its columns, its targets and its quiet segments.
    """
    first, second = _entries(block.first), _entries(block.second)
    nothing = -1, np.zeros((0, 0), bool)
    units, count = len(first.bias) + len(second.bias), len(segments.size)
    if not (_is_exact(first) and _is_exact(second)) or units * count * count > MOST_SUMS // MOST_VALUES:
        return [nothing] * len(groups)
    analysis = _Analysis(first, second, segments, np.bincount(of_column, minlength=count))
    return [
        analysis.selector(of_column[columns], targets) if targets and all(map(analysis.is_cleared, quiets)) else nothing
        for columns, targets, quiets in groups
    ]


class _Analysis:
    """Bounds of all units of a block.

    columns: of each segment, how many columns hold a part of it.
    """

    def __init__(self, first: _Half, second: _Half, segments: Any, columns: Array) -> None:
        self.segments, self.columns, self.second = segments, columns, second
        most = columns[segments.of_dim].astype(np.float64)
        self.high = most + np.bincount(first.written, np.maximum(first.change, 0), len(most))
        self.low = np.bincount(first.written, np.minimum(first.change, 0), len(most))
        self.changed = np.zeros(len(columns), bool)  # segments that the first half writes
        self.changed[segments.of_dim[first.written]] = True
        self.halves = [self._bounds(first, np.zeros_like(self.changed)), self._bounds(second, self.changed)]
        self.weights = [(half.reader, half.read, half.weight) for half in (first, second)]

    def _bounds(self, half: _Half, changed: Array) -> _Bounds:
        shape = len(half.bias), len(self.columns)
        segment = self.segments.of_dim[half.read]
        single, several = np.zeros(shape), np.zeros(shape)
        np.maximum.at(single, (half.reader, segment), half.weight)
        most = np.maximum(half.weight * self.high[half.read], half.weight * self.low[half.read])
        np.add.at(several, (half.reader, segment), most)
        part = np.where(changed, several, single * self.columns)
        reads, writes = np.zeros(shape, bool), np.zeros(shape, bool)
        reads[half.reader, segment] = True
        writes[half.writer, self.segments.of_dim[half.written]] = True
        return _Bounds(half.bias + part.sum(axis=1), part, reads, writes)

    def selector(self, columns: Array, targets: list[int]) -> tuple[int, Array]:
        """The place of the column that spares most, and (value, column) → whether the column matters; −1 for none."""
        sizes = self.segments.size[columns].astype(np.float64)
        best, least, found = -1, float(np.prod(sizes)) / WORTH, np.ones((0, len(columns)), bool)
        for place, s in enumerate(columns.tolist()):
            if self.columns[s] != 1 or self.changed[s] or self.segments.size[s] > MOST_VALUES:
                continue
            needed = np.stack([self._needed(s, value, targets)[columns] for value in range(self.segments.size[s])])
            needed[:, place] = True
            steps = float(np.where(needed, np.where(np.arange(len(columns)) == place, 1, sizes), 1).prod(axis=1).sum())
            if steps <= least:
                best, least, found = place, steps, needed
        return best, found

    def _needed(self, s: int, value: int, targets: list[int]) -> Array:
        """The segments that some of the targets depend on, where segment s holds this value."""
        depends = np.zeros(len(self.columns), bool)
        depends[targets] = True
        for half, (reader, read, weight) in zip(self.halves[::-1], self.weights[::-1]):
            most = half.total - half.part[:, s]
            here = read == self.segments.start[s] + value
            most[reader[here]] += weight[here]
            on = (most > 0) & (half.writes & depends).any(axis=1)
            depends = depends | half.reads[on].any(axis=0)
        return depends

    def is_cleared(self, q: int) -> bool:
        """Whether a quiet segment holds zeros after the block, whatever the rest is."""
        half, start, size = self.second, int(self.segments.start[q]), int(self.segments.size[q])
        dims = np.arange(start, start + size)
        if self.changed[q]:
            if size > 1 or self.low[start] < 0 or self.high[start] > 1:
                return False
        elif self.columns[q] > 1 or size > 1 << 10:
            return False
        writers = np.flatnonzero(self.halves[1].writes[:, q])
        if np.delete(self.halves[1].reads[writers], q, axis=1).any() or len(writers) * size > MOST_SUMS:
            return False
        place = np.zeros(len(half.bias), np.int64)
        place[writers] = np.arange(len(writers))
        into, out = np.zeros((size, len(writers))), np.zeros((len(writers), size))
        reading = np.isin(half.reader, writers) & np.isin(half.read, dims)
        into[half.read[reading] - start, place[half.reader[reading]]] = half.weight[reading]
        writing = np.isin(half.written, dims)
        out[place[half.writer[writing]], half.written[writing] - start] = half.change[writing]
        held = np.concatenate([np.eye(size), np.zeros((1, size))])
        return not (held + np.clip(held @ into + half.bias[writers], 0, 1) @ out).any()
