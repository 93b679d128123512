"""One variable's next value as the weights compute it, in whole numbers.

A unit is on where a sum over variables is at least 1. Fed with one variable after the other, a unit is
settled as soon as the variables that are left cannot change it; what remains is a small state.
An undefined head is zero, or where it may select several positions anything between its values: it widens sums to
intervals.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np

from kleene.common.residual import Layout
from kleene.errors import NotExact
from kleene.lowering.next_values import UNREAD
from kleene.machines.kinds import Numerical, Word
from kleene.machines.spec import Spec
from kleene.networks.transformer.model import Block

Array = np.ndarray[Any, Any]
BROKEN = -3  # the result is not a value of the variable
FINE = 64  # sums are kept in 64ths: an average of several one-hots may exceed its bounds by less than one


class NotWhole(NotExact):
    """A weight that is not a whole number where one is needed."""


@dataclass(frozen=True)
class Half:
    """One half of an MLP block in whole numbers: clip(reads · x + bias), then + writes."""

    reads: Array  # (unit, dim)
    bias: Array  # (unit,)
    writes: Array  # (dim, unit)


def whole_halves(block: Block, layout: Layout) -> tuple[Half, Half]:
    """The MLP block without the units that take averages into buckets and clear them (these are checked
    separately); everything else must be whole numbers."""
    made = []
    scalars = [s.start for s in layout if s.coding == "scalar"]
    for into, bias, out in ((block.in1, block.bias1, block.out1), (block.in2, block.bias2, block.out2)):
        reads, biases, writes = (np.array(t.detach().double().cpu().numpy()) for t in (into, bias, out))
        aside = np.zeros(len(biases), dtype=bool)
        if scalars and len(biases):
            aside = (reads[:, scalars] != 0).any(axis=1)
        parts = reads[~aside], biases[~aside], writes[:, ~aside]
        for part in parts:
            if part.size and not (np.isfinite(part).all() and (part == np.rint(part)).all()):
                raise NotWhole("a weight of the MLP block is not a whole number")
        made.append(Half(*(part.astype(np.int64) for part in parts)))
    return made[0], made[1]


@dataclass(slots=True)
class State:
    """The place of a walk: what is open in the first half, what is in the second, and a digest of the latter."""

    first: Array
    second: Array
    second_key: bytes | None


class WeightsFunction:
    """One variable's next value by the MLP block's weights."""

    def __init__(
        self,
        spec: Spec,
        layout: Layout,
        halves: tuple[Half, Half],
        variable: str,
        given: Collection[str] | None = (),
        rough: Collection[str] = (),
    ) -> None:
        """Scratch values in `given` (None: all) are given like variables; the first half computes the others.
        `rough` heads may hold rounded averages where they are undefined."""
        self.spec, self.layout, self.variable, self.rough = spec, layout, variable, rough
        first, second = halves
        place = layout[variable].slice
        self.size = place.stop - place.start
        chosen = np.nonzero(second.writes[place].any(axis=0))[0]
        self.reads, self.bias = second.reads[chosen] * FINE, second.bias[chosen] * FINE
        self.columns = second.writes[place][:, chosen].T  # (unit, own dimension)
        self.float_columns = self.columns.astype(np.float64)
        buckets = {f"{n}≥{v}" for n, h in spec.heads.items() if isinstance(h.kind, Numerical) for v in h.kind.values}
        read = [
            s.name for s in layout if s.coding == "scratch" and s.name not in buckets and self.reads[:, s.start].any()
        ]
        self.given = [name for name in read if given is None or name in given]
        self.scratch = [layout[name].start for name in read if name not in self.given]
        writers = np.nonzero(first.writes[self.scratch].any(axis=0))[0] if self.scratch else np.array([], dtype=int)
        self.first_reads, self.first_bias = first.reads[writers] * FINE, first.bias[writers] * FINE
        self.first_writes = first.writes[self.scratch][:, writers]  # (scratch, first unit)
        self.through = self.reads[:, self.scratch]  # (unit, scratch)
        self.scratch_range = self._scratch_range()

    @property
    def variables(self) -> list[str]:
        """The variables and heads that the units read."""
        plain = [name for name, kind in self.spec.kinds.items() if not isinstance(kind, Word)]
        names = [*self.given, *plain]
        return [n for n in names if self.table(n, self.reads).any() or self.table(n, self.first_reads).any()]

    def count(self, name: str) -> int:
        """The number of values of a variable; a given scratch value has two."""
        return 2 if name in self.given else len(self.spec.kinds[name])

    def table(self, name: str, reads: Array) -> Array:
        """The contribution of each value of a variable to each unit: (value, unit)."""
        if name not in self.given and name not in self.spec.kinds:  # a comparison of words that no unit here reads
            return np.zeros((2, len(reads)), dtype=np.int64)
        segment = self.layout[name]
        if name in self.given:
            return np.stack([np.zeros(len(reads), dtype=np.int64), reads[:, segment.start]])
        kind = self.spec.kinds[name]
        if segment.coding == "scalar":
            rows = [np.zeros(len(reads), dtype=np.int64)]
            for k in range(1, len(kind)):
                label = f"{name}≥{kind.values[k]}"
                weight = reads[:, self.layout[label].start] if label in self.layout else 0
                rows.append(rows[-1] + weight)
            return np.stack(rows)
        return reads[:, segment.slice].T

    # --- the walk: the first half's units and scratch values are one row of whole numbers, the second's another

    def begin(self, order: Sequence[str]) -> State:
        unread = set(self.variables) - set(order)
        if unread:
            raise ValueError(f"the order leaves out {sorted(unread)}")
        self.order = list(order)
        self.tables = [(self.table(n, self.first_reads), self.table(n, self.reads)) for n in order]
        self.left = [self._bounds(half) for half in (0, 1)]
        m1, m2 = len(self.first_bias), len(self.bias)
        self.first_parts, self.second_parts = np.cumsum([m1, m1, m1]), np.cumsum([m2, m2, m2])
        zeros = np.zeros(m1 + len(self.scratch), dtype=np.int64)
        first = np.concatenate([self.first_bias, self.first_bias, zeros])[None]
        second = np.concatenate([self.bias, self.bias, np.zeros(m2 + self.size, dtype=np.int64)])[None]
        return self._settle(first, second, -1)[0]

    def _bounds(self, half: int) -> list[tuple[Array, Array]]:
        """The least and the most that the variables from each place on can still add."""
        low = high = np.zeros(len(self.first_bias if half == 0 else self.bias), dtype=np.int64)
        bounds = [(low, high)]
        for tables, name in reversed(list(zip(self.tables, self.order))):
            floor, ceiling = _spread(tables[half], name in self.spec.heads, name in self.rough)
            low, high = low + floor, high + ceiling
            bounds.append((low, high))
        return bounds[::-1]

    def classes(self, place: int) -> Array:
        """A number for each value of a variable: values with the same number do the same to every unit."""
        both = np.concatenate(self.tables[place], axis=1)
        return np.unique(both, axis=0, return_inverse=True)[1].ravel()

    def advance(self, state: State, place: int, indices: Sequence[int | None]) -> list[State]:
        """The states after each of some values of a variable; None is an undefined head."""
        into_first, into_second = self.tables[place]
        name = self.order[place]
        if name in self.spec.heads and self.layout[name].coding == "scalar":
            indices = [self._at_zero(name) if index is None else index for index in indices]
        known = [index for index in indices if index is not None]
        undefined = None if len(known) == len(indices) else name in self.rough
        first = np.repeat(state.first[None], len(indices), axis=0)
        for part, added in zip((0, 1), _chosen(into_first, known, undefined)):
            first[:, part * added.shape[1] : (part + 1) * added.shape[1]] += added
        second = state.second[None]
        if into_second.any():
            second = np.repeat(second, len(indices), axis=0)
            for part, added in zip((0, 1), _chosen(into_second, known, undefined)):
                second[:, part * added.shape[1] : (part + 1) * added.shape[1]] += added
        return self._settle(first, second, place)

    def _at_zero(self, head: str) -> int:
        """The value that a numerical head is taken for where it selects nothing, and is 0: its buckets are those of
        the declared value nearest to 0, exactly, since 0 is an average that they tell apart like any other."""
        values = self.spec.kinds[head].values
        return sum(below + above < 0 for below, above in pairwise(values))

    def _settle(self, first: Array, second: Array, place: int) -> list[State]:
        """Decide the units that are decided, pass scratch values on, and forget what no longer matters.

        `second` has a row for each row of `first`, or one that all of them share."""
        if not self.scratch:
            rows = self._settle_second(second, place, 0, 0)
            return [State(one, two, None) for one, two in zip(first, np.repeat(rows, len(first) // len(rows), axis=0))]
        low1, high1, on1, known = np.split(first, self.first_parts, axis=1)
        least, most = self.left[0][place + 1]
        on1 = np.where(on1 == 0, (low1 + least >= FINE) * 1 - (high1 + most <= 0), on1)
        low1, high1 = np.where(on1 != 0, 0, low1), np.where(on1 != 0, 0, high1)
        known, passed, least_most = self._pass_on(on1, known)
        if len(second) < len(first):  # rows that pass the same values to the second half share its row
            told = np.concatenate([known, passed, *least_most], axis=1)
            _, picks, where = np.unique(told, axis=0, return_index=True, return_inverse=True)
            second = np.repeat(second, len(picks), axis=0)
        else:
            picks = where = np.arange(len(first))
        where = where.ravel()
        added = passed[picks] @ self.through.T
        slack = self._slack(*(part[picks] for part in least_most))
        m2 = len(self.bias)
        second = second.copy()
        second[:, :m2] += added
        second[:, m2 : 2 * m2] += added
        rows = self._settle_second(second, place, *slack)
        needed = ((rows[:, 2 * m2 : 3 * m2] == 0) @ (self.through != 0)) > 0  # by a unit that is still open
        known = np.where(needed[where], known, 1)
        idle = ((known == 0) @ (self.first_writes != 0)) == 0
        low1, high1, on1 = (np.where(idle, fill, part) for fill, part in ((0, low1), (0, high1), (-1, on1)))
        first = np.concatenate([low1, high1, on1, known], axis=1)
        keys = [_digest(row) for row in rows] if len(rows) < len(first) else [None] * len(rows)
        return [State(one, rows[group], keys[group]) for one, group in zip(first, where)]

    def _settle_second(self, rows: Array, place: int, slack_low: Any, slack_high: Any) -> Array:
        low, high, done, total = np.split(rows, self.second_parts, axis=1)
        least, most = self.left[1][place + 1]
        turned = (done == 0) & (low + least + slack_low >= FINE)
        if turned.any():  # in floating point, where whole numbers this small are exact and products are fast
            total = total + (turned.astype(np.float64) @ self.float_columns).astype(np.int64)
        done = np.where(turned | (high + most + slack_high <= 0), 1, done)
        return np.concatenate([np.where(done != 0, 0, low), np.where(done != 0, 0, high), done, total], axis=1)

    def _pass_on(self, on1: Array, known: Array) -> tuple[Array, Array, tuple[Array, Array]]:
        """Which scratch values are decided, those that now are, and the least and most of the others."""
        fixed = (on1 == 1) @ self.first_writes.T  # (row, scratch)
        still_open = ((on1 == 0) @ (self.first_writes != 0).T) > 0
        ready = (known == 0) & ~still_open
        known = np.where(ready, 1, known)
        least = fixed + (on1 == 0) @ np.minimum(self.first_writes, 0).T
        most = fixed + (on1 == 0) @ np.maximum(self.first_writes, 0).T
        least, most = np.maximum(least, self.scratch_range[0]), np.minimum(most, self.scratch_range[1])
        return known, ready * fixed, ((known == 0) * least, (known == 0) * most)

    def _slack(self, least: Array, most: Array) -> tuple[Array, Array]:
        """How far scratch values that are not decided can still move the second half's sums."""
        up, down = np.maximum(self.through, 0).T, np.minimum(self.through, 0).T
        return least @ up + most @ down, most @ up + least @ down

    def _scratch_range(self) -> tuple[Array, Array]:
        """Return what a scratch value can be whatever its units read, fractions included. Units on one and the same
        sum make a piecewise linear function of it, which is smallest and largest at its corners."""
        lows, highs = [], []
        for writes in self.first_writes:
            units = np.nonzero(writes)[0]
            same = len(units) and (self.first_reads[units] == self.first_reads[units[0]]).all()
            if same:
                bias = self.first_bias[units] // FINE
                corners = np.concatenate([-bias, 1 - bias])
                values = np.clip(corners[:, None] + bias, 0, 1) @ writes[units]
                lows.append(min(0, values.min()))
                highs.append(max(0, values.max()))
            else:
                lows.append(np.minimum(writes, 0).sum())
                highs.append(np.maximum(writes, 0).sum())
        return np.array(lows, dtype=np.int64), np.array(highs, dtype=np.int64)

    def key(self, state: State) -> Hashable:
        if state.second_key is None:
            state.second_key = _digest(state.second)
        return _digest(state.first), state.second_key

    def result(self, state: State, old: int) -> int:
        """The index of the new value; UNREAD if an undefined head decides, BROKEN if the result is not a value."""
        m2 = len(self.bias)
        done, total = state.second[2 * m2 : 3 * m2], state.second[3 * m2 :]
        if not done.all():
            return UNREAD
        after = total.copy()
        after[old] += 1
        hot = np.nonzero(after)[0]
        return int(hot[0]) if len(hot) == 1 and after[hot[0]] == 1 else BROKEN


def _digest(row: Array) -> bytes:
    return blake2b(row.tobytes(), digest_size=16).digest()


def _spread(table: Array, head: bool, rough: bool) -> tuple[Array, Array]:
    """The least and most that a variable can add; an undefined head can add nothing, or an average (by a
    trifle more than its bounds where that is rounded)."""
    low, high = table.min(axis=0), table.max(axis=0)
    if head:
        low, high = np.minimum(low, 0) - (low < 0) * int(rough), np.maximum(high, 0) + (high > 0) * int(rough)
    return low, high


def _chosen(table: Array, known: Sequence[int], undefined: bool | None) -> tuple[Array, Array]:
    """The rows of some values; after them, where `undefined` is not None, the bounds of an undefined head: one that
    selects at most one position is zero then, a rough one (`undefined` is true) may be an average."""
    low = high = table[list(known)]
    if undefined is not None:
        floor = ceiling = np.zeros(table.shape[1], dtype=table.dtype)
        if undefined:
            floor, ceiling = _spread(table, True, True)
        low, high = np.concatenate([low, floor[None]]), np.concatenate([high, ceiling[None]])
    return low, high
