"""The evaluators "lanes" and "lanes-numba": code generated from the weights, in C or for Numba, on packed bits.

One row works. Its bits, and those of rows at rest that heads read and write, are packed into whole numbers; positions
that are counted are computed. `lane_code.py` writes the code from the weights. Where a layer leaves what the code can
do (a sum that is not 0 or 1, a word that no row has), nothing of it is done, and this file runs the layer number by
number from the weights, or raises what the other evaluators raise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kleene.errors import NotSupported
from kleene.networks.transformer.active_rows import Array, LookupHead, find_active_rows, row_by_word
from kleene.networks.transformer.lane_builds import build, syntax_of
from kleene.networks.transformer.lane_code import Column, Finder, Generator, Plan, stretches
from kleene.networks.transformer.lane_syntax import width_of
from kleene.networks.transformer.lane_units import WIDEST
from kleene.networks.transformer.lookup import WholeNumberRun, check_whole
from kleene.networks.transformer.model import Transformer
from kleene.networks.transformer.pausable import HALTED, PAUSED, WATCHED, Watch

UNDONE = 3  # the code has left a layer undone
WIDE = 24  # variables of at least so many dimensions get a word of their own


class TokenRows:
    """The first residual stream without its zeros: rows by token, tables by position, and counted positions."""

    def __init__(self, net: Transformer, tokens: Array) -> None:
        self.net, self.tokens = net, tokens
        self.embedding = net.token_embedding.detach().cpu().float().numpy()
        self.places = net.position_embedding.detach().cpu().float().numpy() if net.config.positions else None
        self.shape = (len(tokens), net.config.dim)

    def __len__(self) -> int:
        return len(self.tokens)

    def columns(self, dims: Sequence[int]) -> Array:
        """Some dimensions of every row."""
        chosen = [int(dim) for dim in dims]
        made: Array = self.embedding[:, chosen][self.tokens]
        if self.places is not None:
            made = made + self.places[: len(self), chosen]
        for first, bits, offset in self.net.config.counted:
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
        for first, bits, offset in self.net.config.counted:
            if tuple(dims) == tuple(range(first, first + bits)):
                return offset
        return None

    def by_place(self, dims: Sequence[int]) -> bool:
        """Whether the position has a say in some dimensions."""
        counted = {d for first, bits, _ in self.net.config.counted for d in range(first, first + bits)}
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
        for first, bits, offset in self.net.config.counted:
            word = (np.array(chosen, dtype=np.int64) + offset) % (1 << bits)
            made[:, first : first + bits] += word[:, None] >> np.arange(bits) & 1
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


class LanesRun(WholeNumberRun):
    """A run by C code generated from the weights; one row works, the others rest."""

    evaluator, language = "lanes", "C"

    def begin_with(self, tokens: Tensor) -> None:
        rows = TokenRows(self.net, tokens.numpy())
        self.known = find_active_rows(self.net, rows)
        check_whole(self.net, self.known)
        if len(self.known.working) != 1:
            raise NotSupported(f"{self.net.config.name}: {len(self.known.working)} rows work; use 'generated'")
        self.count, (self.at,), self.start_rows = len(tokens), self.known.working, rows
        self.plan, self.tables = self._plan(rows)
        self.columns = [_column(rows, column) for column in self.plan.columns if column.offset is None]
        self.stored = [column for column in self.plan.columns if column.offset is None]
        self.places = {dim: (k, bit) for k, dims in enumerate(self.plan.words) for bit, dim in enumerate(dims)}
        self.state: Array = np.zeros(max(1, len(self.plan.words)), dtype=np.int64)
        for dim, (word, bit) in self.places.items():
            self.state[word] |= int(self.plan.row[dim]) << bit
        self.source = Generator(self.plan, syntax_of(self.language)).text()
        self.code = build(self.source, self.language)

    # --- the plan ---

    def _plan(self, rows: TokenRows) -> tuple[Plan, list[Array]]:
        """Where everything is."""
        row = rows.rows([self.at])[0]
        columns = _columns(self.net, rows, self.known.blocks)
        in_columns = {dim for column in columns if column.offset is None for dim in column.dims}
        written = _written_here(self.net, self.known.blocks)
        words = _packed([dim for dim in np.nonzero(written)[0].tolist() if dim not in in_columns], self.net)
        finders, tables = _finders(self.net, rows, self.known.blocks)
        halting = np.nonzero(self.net.halt_weight.cpu().numpy())[0].tolist()
        checked = [*in_columns, *(dim for dims in words for dim in dims), *halting]
        whole = all(float(row[dim]) in (0, 1) for dim in checked) and (row == row.round()).all()
        if not whole or not all(rows.whole(column.dims) for column in columns):
            raise NotSupported(f"{self.net.config.name}: its residual stream has more than zeros and ones; use 'dense'")
        halts = self.net.config.halts and self.known.resting_done
        if halts and in_columns & {*halting}:
            raise NotSupported(f"{self.net.config.name}: what heads read decides when it halts; use 'generated'")
        whole_row = row.astype(np.int64)
        return Plan(
            *(self.net, self.known.blocks, self.at, whole_row, written, words, tuple(columns)),
            *(finders, len(tables), halts),
        ), tables

    # --- running ---

    def run(self, layers: int, watch: Watch | None = None) -> str:
        if self.halted:
            return HALTED
        where = (watch.place, *self._watched(watch)) if watch else (-1, 0, 0)
        while layers > 0:
            place = self.layers % len(self.known.blocks)
            done, why = self.code(self.state, self.columns, self.tables, layers, place, where)
            self.layers += done
            layers -= done
            if why == UNDONE:
                self._layer_by_numbers(self.layers % len(self.known.blocks))
                self.layers += 1
                layers -= 1
                why = self._after(watch)
            if why:
                self.halted = why == 1
                return (PAUSED, HALTED, WATCHED)[why]
        return PAUSED

    def _watched(self, watch: Watch) -> tuple[int, int]:
        if watch.row != self.at or watch.dim not in self.places:
            raise NotSupported(f"{self.net.config.name}: dimension {watch.dim} of row {watch.row} cannot be watched")
        return self.places[watch.dim]

    def _after(self, watch: Watch | None) -> int:
        """What stops the run after a layer: 1 halts, 2 is watched, 0 goes on."""
        row = self.row(self.at).astype(np.int64)
        if self.plan.halts and row @ self.net.halt_weight.cpu().numpy().astype(np.int64) + int(self.net.halt_bias) > 0:
            return 1
        return 2 if watch and watch.sees((self.layers - 1) % len(self.known.blocks), self.row) else 0

    def _layer_by_numbers(self, place: int) -> None:
        """One layer as the weights say it, number by number."""
        before = self.row(self.at).astype(np.int64)
        row, resting = before.copy(), []
        for head in self.known.blocks[place]:
            copies = head.copies
            weights = copies.weights.astype(np.int64)
            if head.looking is None or head.query:
                found = self._found(head, before)
                if found is None:
                    continue
                if head.looking is None and found != self.at:
                    resting.append((found, copies.targets, weights * before[copies.sources]))
                    continue
            source = before if head.looking is None or not head.query else self.row(found).astype(np.int64)
            np.add.at(row, copies.targets, weights * source[copies.sources])
        block = self.net.block(place)
        for into, bias, out in ((block.in1, block.bias1, block.out1), (block.in2, block.bias2, block.out2)):
            reads, add, writes = (part.cpu().numpy().astype(np.int64) for part in (into, bias, out))
            row += writes @ np.clip(reads @ row + add, 0, 1)
        if not ((row == 0) | (row == 1) | (row == self.plan.row)).all():
            self.check_broken(3)
        made: dict[int, Array] = {}
        for target, dims, added in resting:
            held = made.setdefault(target, self.row(target).astype(np.int64))
            np.add.at(held, dims, added)
        if any(not ((held == 0) | (held == 1)).all() for held in made.values()):
            self.check_broken(1)
        for position, held in [(self.at, row), *made.items()]:
            self._put_row(position, held)

    def _found(self, head: LookupHead, row: Array) -> int | None:
        """The row that a head finds; None where it finds none."""
        asked = head.query if head.looking is not None else head.key
        word, finder = sum(int(row[dim]) << k for k, dim in enumerate(asked)), self.plan.finders[head.table]
        if any(row[dim] != 1 for dim in head.switch):
            return None
        if finder.table is not None:
            place = word - finder.low
            found = int(self.tables[finder.table][place]) if 0 <= place < finder.high else -1
        else:
            found = word + finder.offset
            found = found if finder.bits is None else found & ((1 << finder.bits) - 1)
            found = found if finder.low <= found < finder.high else -1
        if found < 0 and head.looking is not None and head.needed:
            self.check_broken(2)
        return found if found >= 0 else None

    # --- what it holds ---

    def row(self, position: int) -> Array:
        made: Array = self.start_rows.rows([position])[0].astype(np.int8)
        for column, held in zip(self.stored, self.columns):
            made[column.first : column.first + column.size] = int(held[position]) >> np.arange(column.size) & 1
        if position == self.at:
            for word, dims in zip(self.state, self.plan.words):
                made[list(dims)] = int(word) >> np.arange(len(dims)) & 1
        return made

    def _put_row(self, position: int, values: Array) -> None:
        for column in self.stored:
            self.put(position, column.first, values[column.first : column.first + column.size].tolist())
        if position == self.at:
            for dim in self.places:
                self.put(position, dim, [int(values[dim])])

    def residual(self) -> Tensor:
        made = self.start_rows.rows(range(self.count)).astype(np.float32)
        for column, held in zip(self.stored, self.columns):
            made[:, column.first : column.first + column.size] = (
                held[:, None].astype(np.int64) >> np.arange(column.size) & 1
            )
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

    def put(self, position: int, start: int, values: Sequence[int]) -> None:
        for dim, value in zip(range(start, start + len(values)), values):
            column = next((k for k, one in enumerate(self.stored) if dim in one.dims), None)
            if column is not None:
                bit = dim - self.stored[column].first
                self.columns[column][position] = int(self.columns[column][position]) & ~(1 << bit) | int(value) << bit
            elif position == self.at and dim in self.places:
                word, bit = self.places[dim]
                self.state[word] = int(self.state[word]) & ~(1 << bit) | int(value) << bit
            else:
                raise NotSupported(f"{self.net.config.name}: dimension {dim} of row {position} cannot change")


class NumbaLanesRun(LanesRun):
    """The same code, compiled by Numba."""

    evaluator, language = "lanes-numba", "Numba"


def _written_here(net: Transformer, blocks: Sequence[Sequence[LookupHead]]) -> Array:
    """The dimensions of the working row that units and heads write."""
    written: Array = np.zeros(net.config.dim, dtype=bool)
    for b, lookups in enumerate(blocks):
        block = net.block(b)
        for out in (block.out1, block.out2):
            written |= (out != 0).any(dim=1).cpu().numpy()
        for head in lookups:
            written[head.copies.targets] = True
    return written


def _columns(net: Transformer, rows: TokenRows, blocks: Sequence[Sequence[LookupHead]]) -> list[Column]:
    """The dimensions that heads read from other rows, or write into them; stretches that go together are one column."""
    counted = {
        dim: (first, bits, offset) for first, bits, offset in net.config.counted for dim in range(first, first + bits)
    }
    read: set[int] = set()
    changed: set[int] = set()
    ends: set[int] = set()
    for head in (head for lookups in blocks for head in lookups):
        copies = [(int(s), int(t), 1) for s, t in zip(head.copies.sources, head.copies.targets)]
        if head.looking is None:
            copies = [(target, source, weight) for source, target, weight in copies]
            changed |= {target for target, _, _ in copies}
        elif not head.query:
            continue
        read |= {here for here, _, _ in copies}
        for start, _, length, _ in stretches({(here, there, 1) for here, there, _ in copies}):
            ends |= {start, start + length}
    functions = sorted({counted[dim] for dim in read - changed if dim in counted})
    made = [Column(first, bits, offset) for first, bits, offset in functions]
    stored = sorted(dim for dim in read if dim in changed or dim not in counted)
    while stored:
        size = 1
        while size < min(len(stored), WIDEST) and stored[size] == stored[0] + size and stored[size] not in ends:
            size += 1
        column = Column(stored[0], size)
        made.append(_as_function(column, rows) if not changed & {*column.dims} else column)
        stored = stored[size:]
    return made


def _as_function(column: Column, rows: TokenRows) -> Column:
    """A column that nothing changes, as a function of the position where it is one."""
    held = rows.words(tuple(column.dims))
    offset = int(held[0])
    same = ((np.arange(len(rows)) + offset) % (1 << column.size) == held).all()
    return Column(column.first, column.size, offset) if same else column


def _column(rows: TokenRows, column: Column) -> Array:
    kind = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.int64}[width_of(column.size)]
    held = rows.words(tuple(column.dims))
    made: Array = held.astype(kind) if held.any() else np.zeros(len(rows), dtype=kind)
    return made


def _packed(dims: list[int], net: Transformer) -> tuple[tuple[int, ...], ...]:
    """Dimensions in words: those of one variable together, wide variables by themselves."""
    left: set[int] = {*dims}
    wide: list[list[int]] = []
    bits: list[list[int]] = []
    others: list[list[int]] = []
    for segment in net.layout:
        own = [dim for dim in range(segment.start, segment.stop) if dim in left]
        left -= {*own}
        (wide if len(own) >= WIDE else bits if segment.coding == "bits" else others).append(own)
    words = [own[start : start + WIDEST] for own in wide for start in range(0, len(own), WIDEST)]
    words.append([])
    for own in (*bits, *others, *([dim] for dim in sorted(left))):
        for start in range(0, len(own), WIDEST):
            part = own[start : start + WIDEST]
            if len(words[-1]) + len(part) > WIDEST:
                words.append([])
            words[-1] += part
    return tuple(tuple(word) for word in words if word)


def _finders(
    net: Transformer, rows: TokenRows, blocks: Sequence[Sequence[LookupHead]]
) -> tuple[dict[object, Finder], list[Array]]:
    """How the heads find rows: by counting where the keys count, otherwise in tables."""
    finders: dict[object, Finder] = {}
    tables: list[Array] = []
    for head in (head for lookups in blocks for head in lookups if head.query):
        if head.table in finders:
            continue
        dims, _ = head.table
        offset, bits = rows.counted(dims), len(dims)
        if offset is not None and head.found is None:
            finders[head.table] = Finder(-offset % (1 << bits), 0, len(rows), bits)
            continue
        table = row_by_word(net, rows, dims, head.found)
        counted = _counting_finder(table.first, table.rows, bits)
        if counted is None:
            counted = Finder(0, table.first, len(table.rows), table=len(tables))
            tables.append(np.ascontiguousarray(table.rows, dtype=np.int32))
        finders[head.table] = counted
    return finders, tables


def _counting_finder(first: int, found: Array, bits: int) -> Finder | None:
    """A finder that counts, where a table does."""
    if not len(found) or (found < 0).any():
        return None
    offset, places = int(found[0]) - first, np.arange(first, first + len(found), dtype=np.int64)
    if (places + offset == found).all():
        return Finder(offset, int(found[0]), int(found[0]) + len(found))
    whole = 1 << bits
    if len(found) == whole and ((places + offset) % whole == found).all():
        return Finder(offset % whole, 0, whole, bits)
    return None
