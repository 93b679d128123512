"""Code generated from the non-zero weights of a transformer, and compiled by Numba.

Each block becomes straight-line code on whole numbers for the working rows: lookups for heads, a sum and a
comparison for each unit. Units share common sums (the carries of an adder). The generator reads the weights alone;
it does not know what the network computes. It keeps the code in memory and never saves it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from numba import njit
from torch import Tensor

from kleene.networks.transformer.active_rows import Array, LookupHead
from kleene.networks.transformer.lookup import WholeNumberRun, written_dims
from kleene.networks.transformer.model import Block
from kleene.networks.transformer.stops import HALTED, PAUSED, WATCHED, Watch

Item = tuple[int, int]  # (dimension, weight)
Term = tuple[str, int, int]  # (row, source dimension, weight)
Sums = dict[int, list[Term]]  # by target dimension
SHARED = 3  # the fewest terms of a sum that units share


class GeneratedRun(WholeNumberRun):
    """A run by code generated from the weights."""

    evaluator = "generated"

    def begin(self, x: Tensor) -> None:
        super().begin(x)
        self.source = _Writer(self).source()
        self.code = _compiled(self.source)
        self.rows = tuple(table.rows for table in self.tables)
        self.code(self.x, self.rows, 0, 0, -1, 0, 0)  # compile now, which takes seconds

    def run(self, layers: int, watch: Watch | None = None) -> str:
        if self.halted:
            return HALTED
        place, row, dim = (watch.place, watch.row, watch.dim) if watch else (-1, 0, 0)
        done, reason, broken = self.code(
            self.x, self.rows, layers, self.layers % len(self.known.blocks), place, row, dim
        )
        self.layers += done
        self.check_broken(broken)
        self.halted = reason == 1
        return (PAUSED, HALTED, WATCHED)[reason]


@cache
def _compiled(source: str) -> Any:
    """The function of a source; Numba compiles each source once, at its first call."""
    namespace: dict[str, Any] = {"np": np}
    exec(compile(source, "<generated from weights>", "exec"), namespace)
    return njit(nogil=True)(namespace["run"])


class _Writer:
    """Writes the source of one function that runs layers."""

    def __init__(self, running: WholeNumberRun) -> None:
        self.net, self.known, self.table_of, self.tables = running.net, running.known, running.table_of, running.tables

    def source(self) -> str:
        lines = ["def run(x, tables, layers, place, watch_place, watch_row, watch_dim):"]
        lines += [f"    table{k} = tables[{k}]" for k in range(len(self.table_of))]
        lines += [f"    here{row} = x[{row}]" for row in self.known.working]
        lines += [f"    new = np.empty({self.net.config.dim}, dtype=np.int8)", "    count = 0"]
        lines += ["    while count < layers:"]
        for place, lookups in enumerate(self.known.blocks):
            lines.append(f"        if place == {place}:")
            block = self.net.block(place)
            body = [*self.attention(lookups), *self.units(block, lookups), *self.after(place)]
            lines += [f"            {line}" for line in body]
        lines.append("    return count, 0, 0")
        return "\n".join(lines) + "\n"

    # --- attention ---

    def attention(self, lookups: tuple[LookupHead, ...]) -> Iterator[str]:
        """First where every head looks, then the sums that each makes, and only then the changes."""
        into_working: dict[int, Sums] = {}  # by working row
        into_resting: list[tuple[str, int, LookupHead]] = []  # the row that the head finds, the row that it looks from
        maybe: list[tuple[str, int, LookupHead]] = []  # heads that may find nothing
        for head in lookups:
            for row in head.looking if head.looking is not None else (head.seen or 0,):
                found = f"row{head.number}_{row}" if head.query else str(row)
                yield from self._find(head, row, found)
                if head.looking is None:
                    into_resting.append((found, row, head))
                elif head.needed or not head.query:
                    _collect(head, found, into_working.setdefault(row, {}))
                else:
                    maybe.append((found, row, head))
                    _collect_nothing(head, into_working.setdefault(row, {}))
        used = {row for sums in into_working.values() for terms in sums.values() for row, _, _ in terms}
        for found in sorted(row for row in used if not row.isdigit()):
            yield f"if {found} < 0: return count, 0, 2"
        for row, sums in into_working.items():
            for start, stop, terms in _runs(sums):
                yield f"for k in range({stop - start}): new[{start} + k] = here{row}[{start} + k]{_added(terms)}"
        yield from _add_if_found(maybe)
        for found, row, head in into_resting:
            yield from _write_resting(found, row, head)
        for row, sums in into_working.items():
            yield from (
                f"for k in range({stop - start}): here{row}[{start} + k] = new[{start} + k]"
                for start, stop, _ in _runs(sums)
            )

    def _find(self, head: LookupHead, row: int, found: str) -> Iterator[str]:
        """Look up the row whose key is the word in a row; a head without a query looks at its own row."""
        if head.query:
            asked = head.query if head.looking is not None else head.key
            number = self.table_of[head.table]
            first, count = self.tables[number].first, len(self.tables[number].rows)
            switched = "".join(f" and here{row}[{dim}] == 1" for dim in head.switch)
            if first == 0 and count == 1 << len(asked) and not switched:
                yield f"{found} = table{number}[{_word(row, asked)}]"
            else:
                yield f"asked = ({_word(row, asked)}) - {first}"
                yield f"{found} = table{number}[asked] if 0 <= asked < {count}{switched} else np.int32(-1)"

    # --- units ---

    def units(self, block: Block, lookups: tuple[LookupHead, ...]) -> Iterator[str]:
        halves = [_Half(block.in1, block.bias1, block.out1), _Half(block.in2, block.bias2, block.out2)]
        for row in self.known.working:
            used = sorted({dim for half in halves for dim in half.dims})
            for dim in used:
                yield f"v{dim} = np.int64(here{row}[{dim}])"
            for half in halves:
                yield from half.code()
            for dim in sorted({dim for half in halves for dim in half.written}):
                yield f"here{row}[{dim}] = v{dim}"
            written = written_dims(block, lookups)
            for start in range(0, len(written), 50):
                held = " | ".join(f"here{row}[{dim}]" for dim in written[start : start + 50])
                yield f"if ({held}) & -2: return count, 0, 3"

    # --- after a layer ---

    def after(self, place: int) -> Iterator[str]:
        yield "count += 1"
        yield f"place = {(place + 1) % len(self.known.blocks)}"
        weights = self.net.halt_weight.cpu().numpy()
        if self.net.config.halts and self.known.resting_done:
            tests = []
            for row in self.known.working:
                terms = "".join(f" {_signed(int(weights[d]))}here{row}[{d}]" for d in np.nonzero(weights)[0])
                tests.append(f"{int(self.net.halt_bias)}{terms} > 0")
            yield f"if {' and '.join(tests)}: return count, 1, 0"
        yield f"if watch_place == {place} and x[watch_row, watch_dim] == 1: return count, 2, 0"
        yield "if count >= layers: break"


class _Half:
    """One half of a block's units."""

    def __init__(self, into: Tensor, bias: Tensor, out: Tensor) -> None:
        reads, writes = (t.cpu().numpy().astype(np.int64) for t in (into, out.T))
        self.bias = [int(b) for b in bias.cpu().numpy()]
        self.reads = [frozenset(_items(row)) for row in reads]
        self.writes = [_items(row) for row in writes]

    @property
    def written(self) -> set[int]:
        return {dim for items in self.writes for dim, _ in items}

    @property
    def dims(self) -> set[int]:
        return self.written | {dim for items in self.reads for dim, _ in items}

    def code(self) -> Iterator[str]:
        """Write the sums, smallest first; name the terms that a unit shares with the next one."""
        order = sorted(range(len(self.bias)), key=lambda u: (len(self.reads[u]), sorted(self.reads[u])))
        kept: list[tuple[frozenset[Item], str]] = []

        def total(items: frozenset[Item]) -> str:
            best: tuple[frozenset[Item], str] = max(
                ((k, n) for k, n in kept if k <= items), key=lambda one: len(one[0]), default=(frozenset(), "")
            )
            rest = "".join(f" {_signed(w)}v{dim}" for dim, w in sorted(items - best[0]))
            return f"{best[1]}{rest}" if best[1] else rest.removeprefix(" ").removeprefix("+ ")

        lines: list[str] = []
        changes: dict[int, str] = {}
        for place, u in enumerate(order):
            if place + 1 < len(order):
                common = self.reads[u] & self.reads[order[place + 1]]
                if len(common) >= SHARED and all(common != k for k, _ in kept):
                    name = f"s{len(kept)}"
                    lines.append(f"{name} = {total(common)}")
                    kept.append((common, name))
            lines.append(f"u{u} = np.int64({total(self.reads[u]) or '0'} >= {1 - self.bias[u]})")
            for dim, weight in self.writes[u]:
                changes[dim] = changes.get(dim, "") + f" {_signed(weight)}u{u}"
        yield from lines
        yield from (f"v{dim} = v{dim}{change}" for dim, change in changes.items())


def _items(row: Array) -> list[Item]:
    return [(int(dim), int(row[dim])) for dim in np.nonzero(row)[0]]


def _signed(weight: int) -> str:
    """The sign and the factor before a term."""
    sign, size = ("-" if weight < 0 else "+"), abs(weight)
    return f"{sign} " if size == 1 else f"{sign} {size} * "


def _word(row: int, dims: tuple[int, ...]) -> str:
    return " | ".join(f"np.int64(here{row}[{dim}]) << {k}" for k, dim in enumerate(dims))


def _collect(head: LookupHead, row: str, sums: Sums) -> None:
    """Add the terms that a head copies from a row to the sums of their target dimensions."""
    for source, target, weight in zip(head.copies.sources, head.copies.targets, head.copies.weights):
        sums.setdefault(int(target), []).append((row, int(source), int(weight)))


def _collect_nothing(head: LookupHead, sums: Sums) -> None:
    """Note the target dimensions of a head that may add nothing."""
    for target in head.copies.targets:
        sums.setdefault(int(target), [])


def _added(terms: list[Term]) -> str:
    return "".join(f" {_signed(weight)}x[{row}, {source} + k]" for row, source, weight in terms)


def _add_if_found(heads: list[tuple[str, int, LookupHead]]) -> Iterator[str]:
    """Add what heads copy, where they find a row."""
    for found, _, head in heads:
        yield f"if {found} >= 0:"
        sums: Sums = {}
        _collect(head, found, sums)
        for start, stop, terms in _runs(sums):
            yield f"    for k in range({stop - start}): new[{start} + k] = new[{start} + k]{_added(terms)}"


def _write_resting(found: str, row: int, head: LookupHead) -> Iterator[str]:
    """Add to a row at rest, where there is one; it must hold zeros and ones afterwards."""
    sums: Sums = {}
    _collect(head, str(row), sums)
    yield f"if {found} >= 0:"
    for start, stop, terms in _runs(sums):
        yield f"    for k in range({stop - start}):"
        yield f"        value = x[{found}, {start} + k]{_added(terms)}"
        yield f"        x[{found}, {start} + k] = value"
        yield "        if value & -2: return count, 0, 1"


def _runs(sums: Sums) -> Iterator[tuple[int, int, list[Term]]]:
    """Group neighbouring dimensions that read neighbouring dimensions of the same rows: start, stop, terms of start."""
    groups: list[tuple[int, int, list[Term]]] = []  # start, stop, terms with the source relative to the target
    for dim in sorted(sums):
        shifted = [(row, source - dim, weight) for row, source, weight in sums[dim]]
        if groups and groups[-1][1] == dim and groups[-1][2] == shifted:
            groups[-1] = (groups[-1][0], dim + 1, shifted)
        else:
            groups.append((dim, dim + 1, shifted))
    for start, stop, terms in groups:
        yield start, stop, [(row, offset + start, weight) for row, offset, weight in terms]
