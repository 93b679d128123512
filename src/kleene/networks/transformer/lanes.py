"""The evaluators "lanes" and "lanes-numba": code generated from the weights, in C or for Numba, on packed bits.

One row works. Its bits, and those of rows at rest that heads read and write, are packed into whole numbers; positions
that are counted are computed. `lane_code.py` writes the code from the weights. Where a layer leaves what the code can
do (a sum that is not 0 or 1, a word that no row has), nothing of it is done, and this file runs the layer number by
number from the weights, or raises what the other evaluators raise.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from kleene.errors import NotSupported
from kleene.networks.transformer.active_rows import LookupHead, find_active_rows, row_by_word
from kleene.networks.transformer.lane_builds import build, syntax_of
from kleene.networks.transformer.lane_code import Finder, Generator, Plan, stretches
from kleene.networks.transformer.lane_runner import Column, LaneRunner, TokenRows
from kleene.networks.transformer.lane_units import WIDEST
from kleene.networks.transformer.lookup import WholeNumberRun, check_whole
from kleene.networks.transformer.model import Transformer
from kleene.networks.transformer.stops import Array

WIDE = 24  # variables of at least this many dimensions get a word of their own


class LanesRun(LaneRunner, WholeNumberRun):
    """A run by C code generated from the weights; one row works, the others rest."""

    evaluator, language = "lanes", "C"

    def begin_with(self, tokens: Tensor) -> None:
        self.name = self.net.config.name
        rows = token_rows(self.net, tokens.numpy())
        self.known = find_active_rows(self.net, rows)
        check_whole(self.net, self.known)
        if len(self.known.working) != 1:
            raise NotSupported(f"{self.name}: {len(self.known.working)} rows work; use 'generated'")
        self.plan, tables = self._plan(rows, *self.known.working)
        self.source = Generator(self.plan, syntax_of(self.language)).text()
        code = build(self.source, self.language)
        blocks = len(self.known.blocks)
        self.fill(rows, self.plan.at, self.plan.words, self.plan.columns, tables, blocks, code)

    def _plan(self, rows: TokenRows, at: int) -> tuple[Plan, list[Array]]:
        """The place of everything."""
        row = rows.rows([at])[0]
        columns = _columns(self.net, rows, self.known.blocks)
        in_columns = {dim for column in columns if column.offset is None for dim in column.dims}
        written = _written_here(self.net, self.known.blocks)
        words = _packed([dim for dim in np.nonzero(written)[0].tolist() if dim not in in_columns], self.net)
        finders, tables = _finders(self.net, rows, self.known.blocks)
        halting = np.nonzero(self.net.halt_weight.cpu().numpy())[0].tolist()
        checked = [*in_columns, *(dim for dims in words for dim in dims), *halting]
        whole = all(float(row[dim]) in (0, 1) for dim in checked) and (row == row.round()).all()
        if not whole or not all(rows.whole(column.dims) for column in columns):
            raise NotSupported(f"{self.name}: its residual stream has more than zeros and ones; use 'dense'")
        halts = self.net.config.halts and self.known.resting_done
        if halts and in_columns & {*halting}:
            raise NotSupported(f"{self.name}: what heads read decides when it halts; use 'generated'")
        whole_row = row.astype(np.int64)
        return Plan(
            *(self.net, self.known.blocks, at, whole_row, written, words, tuple(columns)),
            *(finders, len(tables), halts),
        ), tables

    # --- what the code leaves undone ---

    def halts_now(self) -> bool:
        row, weights = self.row(self.at).astype(np.int64), self.net.halt_weight.cpu().numpy().astype(np.int64)
        return self.plan.halts and bool(row @ weights + int(self.net.halt_bias) > 0)

    def layer_by_numbers(self) -> None:
        place = self.layers % self.cycle
        before = self.row(self.at).astype(np.int64)
        row, resting = before.copy(), []
        for head in self.known.blocks[place]:
            copies = head.copies
            weights = copies.weights.astype(np.int64)
            source = before
            if head.looking is None or head.query:
                found = self.found_row(head, before)
                if found is None:
                    continue
                if head.looking is None and found != self.at:
                    resting.append((found, copies.targets, weights * before[copies.sources]))
                    continue
                source = before if head.looking is None else self.row(found).astype(np.int64)
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

    def found_row(self, head: LookupHead, row: Array) -> int | None:
        """The row that a head finds; None where it finds none."""
        asked = head.query if head.looking is not None else head.key
        word, finder = sum(int(row[dim]) << k for k, dim in enumerate(asked)), self.plan.finders[head.table]
        if any(row[dim] != 1 for dim in head.switch):
            return None
        if finder.table is not None:
            place = word - finder.low
            found = int(self.row_tables[finder.table][place]) if 0 <= place < finder.high else -1
        else:
            found = word + finder.offset
            found = found if finder.bits is None else found & ((1 << finder.bits) - 1)
            found = found if finder.low <= found < finder.high else -1
        if found < 0 and head.looking is not None and head.needed:
            self.check_broken(2)
        return found if found >= 0 else None

    def _put_row(self, position: int, values: Array) -> None:
        for column in self.stored:
            self.put(position, column.first, values[column.first : column.first + column.size].tolist())
        if position == self.at:
            for dim in self.places:
                self.put(position, dim, [int(values[dim])])


class NumbaLanesRun(LanesRun):
    """The same code, compiled by Numba."""

    evaluator, language = "lanes-numba", "Numba"


def token_rows(net: Transformer, tokens: Array) -> TokenRows:
    """The first residual stream of some tokens."""
    embedding = net.token_embedding.detach().cpu().float().numpy()
    places = net.position_embedding.detach().cpu().float().numpy() if net.config.positions else None
    return TokenRows(tokens, embedding, places, net.config.counted)


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
    counts = {d: count for count in net.config.counted for d in range(count[0], count[0] + count[1])}
    read, changed, ends = _touched(blocks)
    made = [Column(*count) for count in sorted({counts[dim] for dim in read - changed if dim in counts})]
    stored = sorted(dim for dim in read if dim in changed or dim not in counts)
    while stored:
        size = 1
        while size < min(len(stored), WIDEST) and stored[size] == stored[0] + size and stored[size] not in ends:
            size += 1
        column = Column(stored[0], size)
        made.append(column if changed & {*column.dims} else _as_function(column, rows))
        stored = stored[size:]
    return made


def _touched(blocks: Sequence[Sequence[LookupHead]]) -> tuple[set[int], set[int], set[int]]:
    """The dimensions of other rows that heads read or write, those that they write, and where stretches end."""
    read: set[int] = set()
    changed: set[int] = set()
    ends: set[int] = set()
    for head in (head for lookups in blocks for head in lookups if head.query):
        here, there = head.copies.sources.tolist(), head.copies.targets.tolist()
        if head.looking is None:
            here, there = there, here
            changed |= {*here}
        read |= {*here}
        for start, _, length, _ in stretches({(one, two, 1) for one, two in zip(here, there)}):
            ends |= {start, start + length}
    return read, changed, ends


def _as_function(column: Column, rows: TokenRows) -> Column:
    """A column that nothing changes, as a function of the position where it is one."""
    held = rows.words(tuple(column.dims))
    offset = int(held[0])
    same = ((np.arange(len(rows)) + offset) % (1 << column.size) == held).all()
    return Column(column.first, column.size, offset) if same else column


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
