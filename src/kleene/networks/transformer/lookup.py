"""The evaluator "lookup": attention as exact lookup, units without their zeros, for the rows that can change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numba import njit
from torch import Tensor

from kleene.errors import NotSupported
from kleene.networks.transformer.active_rows import (
    ActiveRows,
    Array,
    LookupHead,
    RowTable,
    find_active_rows,
    row_by_word,
    words_held,
)
from kleene.networks.transformer.model import Block, Transformer
from kleene.networks.transformer.pausable import PausableRun
from kleene.networks.transformer.stops import HALTED, PAUSED, WATCHED, Watch, check_broken

ROWS_AT_ONCE = 1 << 15


class WholeNumberRun(PausableRun):
    """A run on whole numbers, which the residual stream of an exact network holds.

    It rejects weights that are not whole numbers, and rows that hold anything but zeros and ones after a layer; the
    dense evaluator runs these."""

    def begin_with(self, tokens: Tensor) -> None:
        parts = []
        for start in range(0, len(tokens), ROWS_AT_ONCE):  # a part at a time: floats take four times the memory
            part = self.net.embed(tokens[None, start : start + ROWS_AT_ONCE].to(self.net.device), start)[0]
            parts.append(self._whole(part))
        self.begin(torch.from_numpy(np.concatenate(parts)))

    def _whole(self, x: Tensor) -> Array:
        start = x.cpu().float().numpy()
        whole: Array = start.astype(np.int8)
        if not (whole == start).all():
            raise NotSupported(f"{self.net.config.name}: its residual stream has more than whole numbers; use 'dense'")
        return whole

    def begin(self, x: Tensor) -> None:
        self.known: ActiveRows = find_active_rows(self.net, x)
        check_whole(self.net, self.known)
        self.x: Array = np.ascontiguousarray(x.numpy() if x.dtype == torch.int8 else self._whole(x))
        self.tables: list[RowTable] = []  # one for each set of dimensions and rows that heads look up
        self.table_of: dict[Any, int] = {}
        for lookups in self.known.blocks:
            for head in lookups:
                if head.query and head.table not in self.table_of:
                    self.table_of[head.table] = len(self.tables)
                    self.tables.append(row_by_word(self.net, self.x, head.table[0], head.found))

    def residual(self) -> Tensor:
        return torch.from_numpy(self.x.astype(np.float32))

    def row(self, position: int) -> Array:
        row: Array = self.x[position]
        return row

    def words(self, dims: tuple[int, ...]) -> Array:
        return words_held(self.x, dims)

    def put(self, position: int, start: int, values: Sequence[int]) -> None:
        self.x[position, start : start + len(values)] = values

    def check_broken(self, broken: int) -> None:
        """Raise where a run leaves what is known to be exact; the interpreter raises there, or before."""
        check_broken(self.net.config.name, self.layers, broken)


def check_whole(net: Transformer, known: ActiveRows) -> None:
    """Reject weights that are not whole numbers, and sums that a byte cannot hold."""
    for number, (block, lookups) in enumerate(zip(net.blocks, known.blocks)):
        assert isinstance(block, Block)
        parts = {name: getattr(block, name).double() for name in ("in1", "bias1", "out1", "in2", "bias2", "out2")}
        parts |= {f"head {block.heads[head.number]!r}": torch.tensor(head.copies.weights) for head in lookups}
        parts |= {"halt_weight": net.halt_weight.double(), "halt_bias": net.halt_bias.double()}
        for name, weights in parts.items():
            if not bool((weights == weights.round()).all()) or bool((weights.abs() >= 2**31).any()):
                raise NotSupported(
                    f"{net.config.name}: {name} of block {number} has weights that are not whole numbers; use 'dense'"
                )
        reach = 1 + parts["out1"].abs().sum(dim=1).cpu() + parts["out2"].abs().sum(dim=1).cpu()
        for head in lookups:
            reach.index_add_(0, torch.tensor(head.copies.targets), torch.tensor(head.copies.weights).abs().double())
        if float(reach.max()) > 127:
            raise NotSupported(f"{net.config.name}: block {number} can write more than a byte holds; use 'dense'")


def written_dims(block: Any, lookups: Sequence[LookupHead]) -> list[int]:
    """The dimensions that the units and heads of a block write."""
    by_units = (block.out1 != 0).any(dim=1) | (block.out2 != 0).any(dim=1)
    by_heads = {int(target) for head in lookups for target in head.copies.targets}
    return sorted(by_heads | set(torch.nonzero(by_units).flatten().tolist()))


def flat_table(rows: Sequence[Any], columns: int) -> Array:
    """Whole numbers as an array: a list, or a table of so many columns, also where it has no row."""
    made = np.array(rows, dtype=np.int64)
    return made.reshape(len(rows), columns) if columns else made


class LookupRun(WholeNumberRun):
    """Attention as exact lookup, units without their zeros, for the rows that can change."""

    evaluator = "lookup"

    def begin(self, x: Tensor) -> None:
        super().begin(x)
        self.working = np.array(self.known.working)
        self.table_starts = np.cumsum([0, *(len(table.rows) for table in self.tables)])
        self.table = np.concatenate([np.zeros(0, np.int32), *(table.rows for table in self.tables)])
        self.heads, self.units = self._flat_heads(), self._flat_units()
        written = [written_dims(block, lookups) for block, lookups in zip(self.net.blocks, self.known.blocks)]
        starts = np.cumsum([0, *map(len, written)]).astype(np.int32)
        self.checked = Checked(starts, np.array([dim for dims in written for dim in dims], dtype=np.int32))
        weight = self.net.halt_weight.cpu().numpy().astype(np.int64)
        can_halt = self.net.config.halts and self.known.resting_done
        dims = np.nonzero(weight)[0][: len(weight) if can_halt else 0]
        self.halt = Halting(dims, weight[dims], int(self.net.halt_bias))

    def _flat_heads(self) -> FlatHeads:
        """The heads of all blocks in flat arrays; Numba is slower on tuples of arrays."""
        heads: list[Any] = []
        looking: list[int] = []
        dims: list[int] = []
        copies: list[Any] = []
        written: list[int] = []
        starts = [(0, 0)]
        for lookups in self.known.blocks:
            for head in lookups:
                asked = head.query if head.looking is not None else head.key
                number = self.table_of[head.table] if head.query else -1
                rows = head.looking if head.looking is not None else (head.seen or 0,)
                heads.append(
                    (
                        self.table_starts[number] if head.query else -1,
                        head.looking is None,
                        len(looking),
                        len(rows),
                        len(dims),
                        len(asked),
                        len(copies),
                        len(copies) + len(head.copies.sources),
                        self.tables[number].first if head.query else 0,
                        len(self.tables[number].rows) if head.query else 0,
                        head.looking is None or not head.needed,
                        len(dims) + len(asked),
                        len(head.switch),
                    )
                )
                looking += rows
                dims += [*asked, *head.switch]
                copies += list(zip(head.copies.sources, head.copies.targets, head.copies.weights))
            written += sorted({int(t) for head in lookups for t in head.copies.targets})
            starts.append((len(heads), len(written)))
        parts = ((starts, 2), (heads, 13), (looking, 0), (dims, 0), (copies, 3), (written, 0))
        return FlatHeads(*(flat_table(part, columns) for part, columns in parts))

    def _flat_units(self) -> FlatUnits:
        """The units of both halves of all blocks: for each what it reads and writes, without the zeros."""
        bias: list[int] = []
        lists: list[list[Any]] = [[0], [], [], [0], [], []]  # reads: starts, dims, weights; writes: the same
        starts = [0]
        for b in range(len(self.known.blocks)):
            block = self.net.block(b)
            for into, add, out in ((block.in1, block.bias1, block.out1), (block.in2, block.bias2, block.out2)):
                bias += add.int().tolist()
                for part, matrix in enumerate((into, out.T)):
                    for row in matrix.cpu().numpy():
                        used = np.nonzero(row)[0]
                        lists[3 * part + 1] += used.tolist()
                        lists[3 * part + 2] += row[used].tolist()
                        lists[3 * part].append(len(lists[3 * part + 1]))
                starts.append(len(bias))
        kinds: list[Any] = [np.int32] * 8
        kinds[3] = kinds[6] = np.uint32  # Numba indexes faster where an index cannot be negative
        return FlatUnits(*(np.array(part, dtype=kind) for part, kind in zip((starts, bias, *lists), kinds)))

    def run(self, layers: int, watch: Watch | None = None) -> str:
        if self.halted:
            return HALTED
        stop = Stop(watch.place, watch.row, watch.dim) if watch else Stop(-1, 0, 0)
        place = self.layers % len(self.known.blocks)
        done, reason, broken = _run(
            self.x, self.working, self.table, self.heads, self.units, self.checked, self.halt, stop, layers, place
        )
        self.layers += done
        self.check_broken(broken)
        self.halted = reason == 1
        return (PAUSED, HALTED, WATCHED)[reason]


# --- kernels: flat arrays in named tuples, which Numba unpacks once ---------------------------------------


class FlatHeads(NamedTuple):
    """The heads of all blocks, one after the other."""

    starts: Array  # block → its first head, and its first entry in `written`
    heads: Array  # table's start, inverse, looking (start, count), asked dims (start, count), copies (start, end), the
    # table's first word and length, whether it may find nothing, dims that must be 1 (start, count)
    looking: Array
    dims: Array
    copies: Array  # source dim, target dim, weight
    written: Array  # dims that the heads of a block write


class FlatUnits(NamedTuple):
    """The units of both halves of all blocks: what each reads and writes, without the zeros."""

    starts: Array
    bias: Array
    read_ptr: Array
    read_dims: Array
    read_weights: Array
    write_ptr: Array
    write_dims: Array
    write_weights: Array


class Checked(NamedTuple):
    """The dimensions that each block writes, which must hold zeros and ones after it."""

    starts: Array
    dims: Array


class Halting(NamedTuple):
    """The dimensions that decide when to halt; none where the network does not halt."""

    dims: Array
    weights: Array
    bias: int


class Stop(NamedTuple):
    """`Watch` as numbers; place −1 where nothing is watched."""

    place: int
    row: int
    dim: int


@njit(cache=True, nogil=True, inline="always")
def _word(x, row, dims, begin, count):  # type: ignore[no-untyped-def]
    word = np.int64(0)
    for k in range(count):
        word |= np.int64(x[row, dims[begin + k]]) << k
    return word


@njit(cache=True, nogil=True, inline="always")
def _add(x, working, flat, h, target, source, added, hits, count):  # type: ignore[no-untyped-def]
    """Keep what a head adds to a working row until all heads have read; note a row at rest in `hits`."""
    first, last = flat.heads[h, 6], flat.heads[h, 7]
    w = np.searchsorted(working, target)
    if w < len(working) and working[w] == target:
        for k in range(first, last):
            added[w, flat.copies[k, 1]] += flat.copies[k, 2] * x[source, flat.copies[k, 0]]
        return count
    hits[count, 0], hits[count, 1], hits[count, 2], hits[count, 3] = target, source, first, last
    return count + 1


@njit(cache=True, nogil=True, inline="always")
def _look(x, working, table, flat, place, added, hits):  # type: ignore[no-untyped-def]
    """Let the heads of a block look; the number of hits, or −1 where a head finds no row."""
    count = 0
    for h in range(flat.starts[place, 0], flat.starts[place + 1, 0]):
        which, inverse = flat.heads[h, 0], flat.heads[h, 1]
        for r in range(flat.heads[h, 2], flat.heads[h, 2] + flat.heads[h, 3]):
            here = flat.looking[r]
            there = here
            switched = True
            for k in range(flat.heads[h, 11], flat.heads[h, 11] + flat.heads[h, 12]):
                switched &= x[here, flat.dims[k]] == 1
            if not switched:
                continue
            if which >= 0:
                word = _word(x, here, flat.dims, flat.heads[h, 4], flat.heads[h, 5]) - flat.heads[h, 8]
                there = table[which + word] if 0 <= word < flat.heads[h, 9] else -1
            if there < 0:
                if flat.heads[h, 10]:
                    continue
                return -1
            target, source = (there, here) if inverse else (here, there)
            count = _add(x, working, flat, h, target, source, added, hits, count)
    return count


@njit(cache=True, nogil=True, inline="always")
def _write_resting(x, copies, hits, count):  # type: ignore[no-untyped-def]
    """Add to rows at rest what heads write there; false where one is left with more than zeros and ones."""
    for n in range(count):
        target, source = hits[n, 0], hits[n, 1]
        for k in range(hits[n, 2], hits[n, 3]):
            x[target, copies[k, 1]] += copies[k, 2] * x[source, copies[k, 0]]
        for k in range(hits[n, 2], hits[n, 3]):
            if not 0 <= x[target, copies[k, 1]] <= 1:
                return False
    return True


@njit(cache=True, nogil=True, inline="always")
def _half(row, units, half, on):  # type: ignore[no-untyped-def]
    """One half of the MLP block on one row."""
    starts, bias, read_ptr, read_dims, read_weights, write_ptr, write_dims, write_weights = units
    for u in range(starts[half], starts[half + 1]):
        total = bias[u]
        for k in range(read_ptr[u], read_ptr[u + 1]):
            total += read_weights[k] * row[read_dims[k]]
        on[u] = min(max(total, 0), 1)
    for u in range(starts[half], starts[half + 1]):
        if on[u]:
            for k in range(write_ptr[u], write_ptr[u + 1]):
                row[write_dims[k]] += write_weights[k]


@njit(cache=True, nogil=True, inline="always")
def _done(x, working, halt):  # type: ignore[no-untyped-def]
    """Whether every working row has the halt value."""
    if not len(halt.dims):
        return False
    for w in range(len(working)):
        total = halt.bias
        for k in range(len(halt.dims)):
            total += halt.weights[k] * x[working[w], halt.dims[k]]
        if total <= 0:
            return False
    return True


@njit(cache=True, nogil=True)
def _run(x, working, table, flat, units, checked, halt, stop, layers, place):  # type: ignore[no-untyped-def]
    """Run layers; return how many, why the run stopped (0 enough, 1 halted, 2 watched), and what broke (1 a row at
    rest, 2 a lookup, 3 a working row)."""
    added = np.zeros((len(working), x.shape[1]), dtype=np.int32)
    hits = np.zeros((len(flat.looking), 4), dtype=np.int64)  # each row that looks hits one at most
    on = np.zeros(len(units.bias), dtype=np.int32)
    blocks = len(flat.starts) - 1
    for layer in range(layers):
        first, last = flat.starts[place, 1], flat.starts[place + 1, 1]
        for w in range(len(working)):
            for k in range(first, last):
                added[w, flat.written[k]] = 0
        count = _look(x, working, table, flat, place, added, hits)
        if count < 0:
            return layer, 0, 2
        if not _write_resting(x, flat.copies, hits, count):
            return layer, 0, 1
        for w in range(len(working)):
            row = x[working[w]]
            for k in range(first, last):
                row[flat.written[k]] += added[w, flat.written[k]]
            _half(row, units, 2 * place, on)
            _half(row, units, 2 * place + 1, on)
            held = 0
            for k in range(checked.starts[place], checked.starts[place + 1]):
                held |= row[checked.dims[k]]
            if held & -2:
                return layer, 0, 3
        if _done(x, working, halt):
            return layer + 1, 1, 0
        if place == stop.place and x[stop.row, stop.dim] == 1:
            return layer + 1, 2, 0
        place = (place + 1) % blocks
    return layers, 0, 0
