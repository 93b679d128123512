"""Run the code of lanes: the bits of one working row in a few words, those of the other rows in columns.

This file needs the weights only where the code leaves a layer undone. It does not import torch, so that a run whose
code is in the cache starts quickly (`prepared.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kleene.errors import NotSupported
from kleene.networks.transformer.lane_builds import Code
from kleene.networks.transformer.lane_syntax import width_of
from kleene.networks.transformer.stops import HALTED, PAUSED, WATCHED, Array, Watch

UNDONE = 3  # the code has left a layer undone

Count = tuple[int, int, int]  # first dimension, bits, offset: position + offset in binary


@dataclass(frozen=True)
class Column:
    """Neighbouring dimensions of all rows: bit k of entry `row` is dimension first + k.

    A column that is a function of the position holds row + offset in binary, and is not stored."""

    first: int
    size: int
    offset: int | None = None

    @property
    def dims(self) -> range:
        return range(self.first, self.first + self.size)


class TokenRows:
    """The first residual stream without its zeros: rows by token, tables by position, and counted positions."""

    def __init__(self, tokens: Array, embedding: Array, places: Array | None, counts: Sequence[Count]) -> None:
        self.tokens, self.embedding, self.places, self.counts = tokens, embedding, places, tuple(counts)
        self.shape = (len(tokens), embedding.shape[1])

    def __len__(self) -> int:
        return len(self.tokens)

    def columns(self, dims: Sequence[int]) -> Array:
        """Some dimensions of every row."""
        chosen = [int(dim) for dim in dims]
        made: Array = self.embedding[:, chosen][self.tokens]
        if self.places is not None:
            made = made + self.places[: len(self), chosen]
        for first, bits, offset in self.counts:
            for k, dim in enumerate(chosen):
                if first <= dim < first + bits:
                    made[:, k] += (np.arange(len(self)) + offset) >> (dim - first) & 1
        return made

    def words(self, dims: Sequence[int]) -> Array:
        """The word that some dimensions hold in binary, for each row."""
        counted = self.counted(dims)
        if counted is not None:
            return (np.arange(len(self), dtype=np.int64) + counted) % (1 << len(dims))
        if not self.by_place(dims):
            held = np.zeros(len(self.embedding), dtype=np.int64)
            for k, dim in enumerate(dims):
                held |= self.embedding[:, dim].astype(np.int64) << k
            by_token: Array = held[self.tokens] if held.any() else np.zeros(len(self), dtype=np.int64)
            return by_token
        held = np.zeros(len(self), dtype=np.int64)
        for k, dim in enumerate(dims):
            held |= self.columns([dim])[:, 0].astype(np.int64) << k
        return held

    def counted(self, dims: Sequence[int]) -> int | None:
        """The offset of dimensions that hold the position in binary."""
        for first, bits, offset in self.counts:
            if tuple(dims) == tuple(range(first, first + bits)) and not self.embedding[:, first : first + bits].any():
                by_table = self.places is not None and self.places[:, first : first + bits].any()
                return None if by_table else offset
        return None

    def packed(self, dims: Sequence[int], kind: Any) -> Array:
        """The same words in numbers of another kind; zeros that nobody writes take no memory."""
        if self.counted(dims) is None and not self.by_place(dims):
            held = np.zeros(len(self.embedding), dtype=np.int64)
            for k, dim in enumerate(dims):
                held |= self.embedding[:, dim].astype(np.int64) << k
            made: Array = held.astype(kind)[self.tokens] if held.any() else np.zeros(len(self), dtype=kind)
            return made
        return self.words(dims).astype(kind)

    def by_place(self, dims: Sequence[int]) -> bool:
        """Whether the position has a say in some dimensions."""
        counted = {d for first, bits, _ in self.counts for d in range(first, first + bits)}
        return bool(counted & {*dims}) or (self.places is not None and bool(self.places[:, list(dims)].any()))

    def whole(self, dims: Sequence[int]) -> bool:
        """Whether some dimensions hold zeros and ones in every row."""
        if self.counted(dims) is not None:
            return True
        parts = self.columns(dims) if self.by_place(dims) else self.embedding[:, list(dims)]
        return bool(((parts == 0) | (parts == 1)).all())

    def rows(self, chosen: Sequence[int]) -> Array:
        """Some rows as they are."""
        made: Array = self.embedding[self.tokens[list(chosen)]].copy()
        if self.places is not None:
            made += self.places[list(chosen)]
        for first, bits, offset in self.counts:
            word = (np.array(chosen, dtype=np.int64) + offset) % (1 << bits)
            made[:, first : first + bits] += (word[:, None] >> np.arange(bits) & 1).astype(made.dtype)
        return made

    def kinds(self, dims: Array) -> tuple[Array, Array]:
        """Rows that are alike in some dimensions: the first row of each kind, and the kind of each row."""
        if self.by_place(dims.tolist()):
            held = np.ascontiguousarray(self.columns(dims.tolist()).astype(np.int8))
            keys: Any = held.view(np.dtype((np.void, held.shape[1]))).ravel()
            _, first_rows, kind = np.unique(keys, return_index=True, return_inverse=True)
            return first_rows, kind.ravel()
        used = np.zeros(len(self.embedding), dtype=bool)
        used[self.tokens] = True
        number = np.cumsum(used) - 1
        first_rows = np.zeros(int(used.sum()), dtype=np.int64)
        first_rows[number[self.tokens[::-1]]] = np.arange(len(self) - 1, -1, -1)
        return first_rows, number[self.tokens]


class LaneRunner:
    """A run of lanes. `layers` counts the layers run so far."""

    name: str
    layers: int
    halted: bool

    def fill(
        self,
        rows: TokenRows,
        at: int,
        words: Sequence[Sequence[int]],
        columns: Sequence[Column],
        tables: list[Array],
        blocks: int,
        code: Code,
    ) -> None:
        """Set the state to the start of a run.

        rows: the first residual stream.
        at: the working row.
        words: the dimensions of the working row in each word of the state.
        columns: the dimensions of all rows that heads read and write.
        tables: rows by word, where heads do not count.
        blocks: the length of the cycle.
        code: the compiled layers."""
        self.start_rows, self.at, self.lane_words, self.count = rows, at, words, len(rows)
        self.stored = [column for column in columns if column.offset is None]
        self.columns = [_column(rows, column) for column in self.stored]
        self.row_tables, self.cycle, self.code = tables, blocks, code
        self.places = {dim: (k, bit) for k, dims in enumerate(words) for bit, dim in enumerate(dims)}
        self.state: Array = np.zeros(max(1, len(words)), dtype=np.int64)
        row = rows.rows([at])[0]
        for dim, (word, bit) in self.places.items():
            self.state[word] |= int(row[dim]) << bit

    def run(self, layers: int, watch: Watch | None = None) -> str:
        if self.halted:
            return HALTED
        where = (watch.place, *self._watched(watch)) if watch else (-1, 0, 0)
        while layers > 0:
            done, why = self.code(self.state, self.columns, self.row_tables, layers, self.layers % self.cycle, where)
            self.layers += done
            layers -= done
            if why == UNDONE:
                self.layer_by_numbers()
                self.layers += 1
                layers -= 1
                why = self._after(watch)
            if why:
                self.halted = why == 1
                return (PAUSED, HALTED, WATCHED)[why]
        return PAUSED

    def layer_by_numbers(self) -> None:
        """Run the next layer as the weights say it, number by number."""
        raise NotImplementedError

    def halts_now(self) -> bool:
        """Whether the state halts."""
        raise NotImplementedError

    def _watched(self, watch: Watch) -> tuple[int, int]:
        if watch.row != self.at or watch.dim not in self.places:
            raise NotSupported(f"{self.name}: dimension {watch.dim} of row {watch.row} cannot be watched")
        return self.places[watch.dim]

    def _after(self, watch: Watch | None) -> int:
        """Return what stops the run after a layer: 1 halts, 2 is watched, 0 goes on."""
        if self.halts_now():
            return 1
        return 2 if watch and watch.sees((self.layers - 1) % self.cycle, self.row) else 0

    # --- what it holds ---

    def row(self, position: int) -> Array:
        made: Array = self.start_rows.rows([position])[0].astype(np.int8)
        for column, held in zip(self.stored, self.columns):
            made[column.first : column.first + column.size] = int(held[position]) >> np.arange(column.size) & 1
        if position == self.at:
            for word, dims in zip(self.state, self.lane_words):
                made[list(dims)] = int(word) >> np.arange(len(dims)) & 1
        return made

    def residual(self) -> Any:
        """The residual stream, (position, dim), on the CPU in float32."""
        import torch

        made = self.start_rows.rows(range(self.count)).astype(np.float32)
        for column, held in zip(self.stored, self.columns):
            bits = held[:, None].astype(np.int64) >> np.arange(column.size) & 1
            made[:, column.first : column.first + column.size] = bits
        made[self.at] = self.row(self.at)
        return torch.from_numpy(made)

    def words(self, dims: tuple[int, ...]) -> Array:
        for column, stored in zip(self.stored, self.columns):
            if dims == tuple(column.dims):
                return stored.astype(np.int64)
        held = self.start_rows.words(dims)
        for column, stored in zip(self.stored, self.columns):
            for k, dim in enumerate(dims):
                if dim in column.dims:
                    held = held & ~(1 << k) | (stored.astype(np.int64) >> (dim - column.first) & 1) << k
        row = self.row(self.at)
        held[self.at] = sum(int(row[dim]) << k for k, dim in enumerate(dims))
        return held

    def word(self, position: int, start: int, size: int) -> int:
        """The whole number that neighbouring dimensions of a row hold in binary."""
        held = self._held(position, start, size)
        if held is None:
            return sum(int(bit) << k for k, bit in enumerate(self.row(position)[start : start + size]))
        array, place, bit = held
        return int(array[place]) >> bit & (1 << size) - 1

    def _held(self, position: int, start: int, size: int) -> tuple[Array, int, int] | None:
        """Where neighbouring dimensions are neighbouring bits: an array, a place in it, and the lowest bit."""
        for column, array in zip(self.stored, self.columns):
            if column.first <= start and start + size <= column.first + column.size:
                return (array, position, start - column.first) if position != self.at else None
        if position == self.at and start in self.places:
            word, bit = self.places[start]
            found = tuple(self.lane_words[word][bit : bit + size])
            return (self.state, word, bit) if found == tuple(range(start, start + size)) else None
        return None

    def put(self, position: int, start: int, values: Sequence[int]) -> None:
        held = self._held(position, start, len(values))
        if held is not None:
            array, place, bit = held
            mask, made = (1 << len(values)) - 1, sum(int(value) << k for k, value in enumerate(values))
            array[place] = int(array[place]) & ~(mask << bit) | made << bit
            return
        for dim, value in zip(range(start, start + len(values)), values):
            column = next((k for k, one in enumerate(self.stored) if dim in one.dims), None)
            if column is not None:
                bit = dim - self.stored[column].first
                self.columns[column][position] = int(self.columns[column][position]) & ~(1 << bit) | int(value) << bit
            elif position == self.at and dim in self.places:
                word, bit = self.places[dim]
                self.state[word] = int(self.state[word]) & ~(1 << bit) | int(value) << bit
            else:
                raise NotSupported(f"{self.name}: dimension {dim} of row {position} cannot change")


def _column(rows: TokenRows, column: Column) -> Array:
    kind = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.int64}[width_of(column.size)]
    return rows.packed(tuple(column.dims), kind)
