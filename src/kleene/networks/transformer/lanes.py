"""The evaluator "lanes": C code generated from the weights, in which units that are alike are lanes of a vector.

The generator reads the weights alone. It finds units that differ only by a shift of dimensions, and compares them in
one vector; units that sum runs of weights 1, 2, 4, … get those runs as masked whole numbers; units that ask for single
bits test them in packed words. Every unit is evaluated for the working row in every layer, and every row is checked to
hold zeros and ones. Rows at rest keep only the dimensions that heads read and write; positions that are counted are
computed. The code is compiled once and kept in the cache folder by its hash.
"""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kleene.common.cache import cache_folder, hash_of_texts
from kleene.errors import NotSupported
from kleene.networks.transformer.active_rows import Array, LookupHead, RowTable, find_active_rows, row_by_word
from kleene.networks.transformer.lookup import WholeNumberRun, check_whole
from kleene.networks.transformer.model import Transformer
from kleene.networks.transformer.pausable import HALTED, PAUSED, WATCHED, Watch

FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-fwrapv", "-shared", "-fPIC", "-w")
PAD = 64
FEW = 4  # the fewest units that are worth a vector

Items = tuple[tuple[int, int], ...]  # (dimension, weight)


@dataclass(frozen=True)
class Unit:
    """A unit on the working row: on where Σ reads ≥ threshold; what is the same in every layer is in the threshold."""

    reads: Items
    threshold: int
    writes: Items


def compiler() -> str | None:
    """The C compiler: CC, cc, gcc or clang; None where there is none."""
    chosen = os.environ.get("CC")
    return next((found for name in (chosen, "cc", "gcc", "clang") if name and (found := shutil.which(name))), None)


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
        for first, bits, offset in self.net.config.counted:
            if tuple(dims) == tuple(range(first, first + bits)):
                counted: Array = (np.arange(len(self), dtype=np.int64) + offset) % (1 << bits)
                return counted
        held = np.zeros(len(self), dtype=np.int64)
        for k, dim in enumerate(dims):
            held |= self.columns([dim])[:, 0].astype(np.int64) << k
        return held

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
        counted = {d for first, bits, _ in self.net.config.counted for d in range(first, first + bits)}
        by_place = self.places is not None and bool(self.places[:, dims].any())
        if by_place or counted & {*dims.tolist()}:
            held = np.ascontiguousarray(self.columns(dims.tolist()).astype(np.int8))
            keys: Any = held.view(np.dtype((np.void, held.shape[1]))).ravel()
        else:
            keys = self.tokens
        _, first_rows, kind = np.unique(keys, return_index=True, return_inverse=True)
        return first_rows, kind.ravel()


class LanesRun(WholeNumberRun):
    """A run by C code generated from the weights; one row works, the others rest."""

    evaluator = "lanes"

    def begin_with(self, tokens: Tensor) -> None:
        if compiler() is None:
            raise NotSupported("the evaluator 'lanes' needs a C compiler (cc, gcc or clang; or name one in CC)")
        rows = TokenRows(self.net, tokens.numpy())
        self.known = find_active_rows(self.net, rows)
        check_whole(self.net, self.known)
        if len(self.known.working) != 1:
            raise NotSupported(f"{self.net.config.name}: {len(self.known.working)} rows work; use 'generated'")
        self.count, (self.at,) = len(tokens), self.known.working
        self.live = _live_dims(self.net, self.known.blocks)
        self.start_rows = rows
        memory = rows.columns(self.live)
        self.resting: Array = np.ascontiguousarray(memory.astype(np.int8))
        row = rows.rows([self.at])[0]
        self.here: Array = np.zeros(len(row) + 2 * PAD, dtype=np.int8)
        self.here[PAD : PAD + len(row)] = row
        if (self.resting != memory).any() or (self.here[PAD : PAD + len(row)] != row).any():
            raise NotSupported(f"{self.net.config.name}: its residual stream has more than whole numbers; use 'dense'")
        del memory
        self.row_tables = _Tables(self.net, rows, self.known.blocks)
        self.source = _Source(self, row).text()
        self.code = _library(self.source).run
        pointer = ctypes.c_void_p
        self.code.argtypes = [pointer] * 3 + [ctypes.c_int64] * 4 + [pointer]
        self.code.restype = ctypes.c_int64
        self.pointers = (ctypes.c_void_p * max(1, len(self.row_tables.rows)))(
            *(rows.ctypes.data for rows in self.row_tables.rows)
        )
        self.why = np.zeros(2, dtype=np.int64)

    def run(self, layers: int, watch: Watch | None = None) -> str:
        if self.halted:
            return HALTED
        place, dim = (watch.place, watch.dim) if watch else (-1, 0)
        if watch and watch.row != self.at:
            raise NotSupported(f"{self.net.config.name}: row {watch.row} rests, and cannot be watched")
        done = self.code(
            self.here.ctypes.data + PAD,
            self.resting.ctypes.data,
            ctypes.addressof(self.pointers),
            layers,
            self.layers % len(self.known.blocks),
            place,
            dim,
            self.why.ctypes.data,
        )
        self.layers += done
        self.check_broken(int(self.why[1]))
        self.halted = self.why[0] == 1
        return (PAUSED, HALTED, WATCHED)[int(self.why[0])]

    # --- what it holds ---

    @property
    def _row(self) -> Array:
        return self.here[PAD : len(self.here) - PAD]

    def row(self, position: int) -> Array:
        if position == self.at:
            return self._row
        made: Array = self.start_rows.rows([position])[0].astype(np.int8)
        made[self.live] = self.resting[position]
        return made

    def residual(self) -> Tensor:
        made = self.start_rows.rows(range(self.count)).astype(np.int8)
        made[:, self.live] = self.resting
        made[self.at] = self._row
        return torch.from_numpy(made.astype(np.float32))

    def words(self, dims: tuple[int, ...]) -> Array:
        places = {dim: k for k, dim in enumerate(self.live)}
        held = np.zeros(self.count, dtype=np.int64)
        for k, dim in enumerate(dims):
            column = self.resting[:, places[dim]] if dim in places else self.start_rows.columns([dim])[:, 0]
            held |= column.astype(np.int64) << k
        held[self.at] = sum(int(self._row[dim]) << k for k, dim in enumerate(dims))
        return held

    def put(self, position: int, start: int, values: Sequence[int]) -> None:
        if position == self.at:
            self._row[start : start + len(values)] = values
            return
        places = {dim: k for k, dim in enumerate(self.live)}
        for k, value in enumerate(values):
            self.resting[position, places[start + k]] = value


def _live_dims(net: Transformer, blocks: Sequence[Sequence[LookupHead]]) -> list[int]:
    """The dimensions of rows at rest that heads write, or read and no function of the position gives."""
    counted = {d for first, bits, _ in net.config.counted for d in range(first, first + bits)}
    found: set[int] = set()
    for head in (head for lookups in blocks for head in lookups):
        if head.looking is None:
            found |= {int(dim) for dim in head.copies.targets}
        elif head.query:
            found |= {int(dim) for dim in head.copies.sources} - counted
    return sorted(found)


class _Tables:
    """For each head, how to find the row of a word: by counting, or in a table of rows."""

    def __init__(self, net: Transformer, rows: TokenRows, blocks: Sequence[Sequence[LookupHead]]) -> None:
        self.rows: list[Array] = []
        self.numbers: dict[Any, tuple[int | None, int, int]] = {}  # head.table → number, first word, how many
        counted = {tuple(range(first, first + bits)): offset for first, bits, offset in net.config.counted}
        for head in (head for lookups in blocks for head in lookups if head.query):
            if head.table in self.numbers:
                continue
            dims, _ = head.table
            if dims in counted and head.found is None:
                self.numbers[head.table] = None, counted[dims], len(rows)
                continue
            table: RowTable = row_by_word(net, rows, dims, head.found)
            self.numbers[head.table] = len(self.rows), table.first, len(table.rows)
            self.rows.append(np.ascontiguousarray(table.rows, dtype=np.int32))


@cache
def _library(source: str) -> Any:
    """The shared library of a source, from the cache folder or compiled now."""
    chosen = compiler()
    assert chosen is not None
    version = subprocess.run([chosen, "--version"], capture_output=True, text=True, check=False).stdout
    name = f"lanes-{hash_of_texts([source, version, *FLAGS, platform.machine(), _processor()])[:32]}.so"
    path = cache_folder() / name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            text, made = Path(folder) / "lanes.c", Path(folder) / name
            text.write_text(source, encoding="utf-8")
            ran = subprocess.run(
                [chosen, *FLAGS, "-o", str(made), str(text)], capture_output=True, text=True, check=False
            )
            if ran.returncode:
                raise NotSupported(f"{chosen} does not compile the generated code: {ran.stderr[:300]}")
            os.replace(made, path)
    return ctypes.CDLL(str(path))


def _processor() -> str:
    """What tells this kind of processor from others: code for one may not run on another."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())


# --- units in lanes ------------------------------------------------------------------------------------------


@dataclass
class Family:
    """Units that are evaluated together: `code` makes a vector `name` of −1 and 0, a lane for each unit."""

    name: str
    units: list[Unit]
    code: list[str] = field(default_factory=list)


def _shift(one: Items, two: Items) -> tuple[int, ...] | None:
    """How far each dimension of one moves to get the other; None where they are not alike."""
    if len(one) != len(two):
        return None
    steps = []
    for (a, w), (b, v) in zip(one, two):
        if w != v or not -1 <= b - a <= 1:
            return None
        steps.append(b - a)
    return tuple(steps)


def chains(units: Sequence[Unit]) -> Iterator[list[Unit]]:
    """Units in chains, each the one before moved by the same steps."""
    buckets: dict[Any, list[Unit]] = {}
    for unit in units:
        key = (unit.threshold, tuple(w for _, w in unit.reads), tuple(w for _, w in unit.writes))
        buckets.setdefault(key, []).append(unit)
    for bucket in buckets.values():
        left = dict.fromkeys(sorted(bucket, key=lambda u: (u.reads, u.writes)))
        while left:
            unit = next(iter(left))
            del left[unit]
            best: list[Unit] = [unit]
            for second in left:
                steps = _shift(unit.reads, second.reads), _shift(unit.writes, second.writes)
                if None in steps or not any(steps[0] or ()):
                    continue
                chain = [unit, second]
                while (after := _moved(chain[-1], steps)) in left:
                    chain.append(after)
                if len(chain) > len(best):
                    best = chain
            for one in best[1:]:
                del left[one]
            yield best


def _moved(unit: Unit, steps: Any) -> Unit:
    reads = tuple((dim + step, w) for (dim, w), step in zip(unit.reads, steps[0]))
    writes = tuple((dim + step, w) for (dim, w), step in zip(unit.writes, steps[1]))
    return Unit(reads, unit.threshold, writes)


Runs = tuple[tuple[int, int, int], ...]  # (first dimension, length, weight of the first)


def runs_of(reads: Items) -> tuple[Runs, Items]:
    """Runs of neighbouring dimensions with weights c, 2c, 4c, …; and the reads that are in none."""
    runs, rest, place = [], [], 0
    while place < len(reads):
        dim, weight = reads[place]
        stop = place + 1
        while stop < len(reads) and reads[stop] == (dim + stop - place, weight << (stop - place)):
            stop += 1
        if stop - place >= 2:
            runs.append((dim, stop - place, weight))
        else:
            rest.append((dim, weight))
        place = stop
    return tuple(runs), tuple(rest)


class _Source:
    """Writes the C source of one function that runs layers."""

    def __init__(self, running: LanesRun, row: Array) -> None:
        self.net, self.known, self.tables = running.net, running.known, running.row_tables
        self.live = {dim: k for k, dim in enumerate(running.live)}
        self.count, self.at, self.row = running.count, running.at, row
        self.dim, self.width = len(row), len(running.live)
        self.counted = [(first, bits, offset) for first, bits, offset in self.net.config.counted]
        self.written = np.zeros(self.dim, dtype=bool)
        for b, lookups in enumerate(self.known.blocks):
            block = self.net.block(b)
            for out in (block.out1, block.out2):
                self.written |= (out != 0).any(dim=1).cpu().numpy()
            for head in lookups:
                self.written[head.copies.targets] = True
        self.names = 0

    def name(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"

    def text(self) -> str:
        lines = [f"#define DIM {self.dim}", f"#define WIDTH {self.width}", f"#define COUNT {self.count}", PRELUDE]
        lines += ["int64_t run(int8_t *h, int8_t *mem, int32_t **tables, int64_t layers, int64_t place,"]
        lines += ["            int64_t watch_place, int64_t watch_dim, int64_t *why) {"]
        lines += ["  int8_t old[DIM + 192] __attribute__((aligned(64))); int8_t *o = old + 64;"]
        lines += ["  memset(old, 0, sizeof old); why[0] = why[1] = 0; int64_t count = 0;"]
        lines += ["  if (layers <= 0) return 0;", "  copy(o, h);", "  switch (place) {"]
        for place, lookups in enumerate(self.known.blocks):
            lines.append(f"  case {place}: again{place}: {{")
            lines += [f"    {line}" for line in self.attention(lookups)]
            block = self.net.block(place)
            for into, bias, out in ((block.in1, block.bias1, block.out1), (block.in2, block.bias2, block.out2)):
                lines += [f"    {line}" for line in self.half(into, bias, out)]
            lines += [f"    {line}" for line in self.after(place)]
            lines.append("  }")
        lines += ["  goto again0;", "  }", "  return count;", "}"]
        return "\n".join(lines) + "\n"

    # --- attention ---

    def attention(self, lookups: Sequence[LookupHead]) -> Iterator[str]:
        """First where every head looks, then what each adds; rows at rest last."""
        looked: list[tuple[str, LookupHead]] = []
        for head in lookups:
            found = self.name("row")
            if head.query:
                yield from self._find(head, found)
            looked.append((found, head))
        for found, head in looked:
            if head.looking is not None and head.query:
                yield from self._copy_from(found, head)
            elif head.looking is not None:
                yield from self._copy_own(head)
        for found, head in looked:
            if head.looking is None:
                yield from self._write_resting(found, head)

    def _find(self, head: LookupHead, found: str) -> Iterator[str]:
        asked = head.query if head.looking is not None else head.key
        number, first, count = self.tables.numbers[head.table]
        bits = len(asked)
        word = self._packed(asked, "o")
        if number is None:
            mask = (1 << bits) - 1
            yield f"int64_t {found} = (int64_t)((({word}) - {first}ULL) & {mask}ULL);"
            yield f"if ({found} >= {count}) {found} = -1;"
        else:
            yield f"int64_t {found} = (int64_t)({word}) - {first}LL;"
            yield f"{found} = {found} >= 0 && {found} < {count} ? tables[{number}][{found}] : -1;"
        for dim in head.switch:
            yield f"if (o[{dim}] != 1) {found} = -1;"
        if head.looking is not None and head.needed:
            yield f"if ({found} < 0) {{ why[1] = 2; memcpy(h, o, DIM); return count; }}"

    def _packed(self, dims: Sequence[int], array: str) -> str:
        """Dimensions as the bits of a word."""
        parts, place = [], 0
        while place < len(dims):
            stop = place + 1
            while stop < len(dims) and dims[stop] == dims[place] + stop - place and stop - place < 32:
                stop += 1
            mask = (1 << (stop - place)) - 1
            parts.append(f"((uint64_t)(pack32({array} + {dims[place]}) & {mask}u) << {place})")
            place = stop
        return " | ".join(parts)

    def _copy_from(self, found: str, head: LookupHead) -> Iterator[str]:
        """Add what the found row holds; a row that works may be found, too."""
        yield f"if ({found} >= 0) {{ const int8_t *m = mem + {found} * WIDTH; int8_t own[WIDTH + 1];"
        inside = [(dim, k) for dim, k in self.live.items() if dim in {int(s) for s in head.copies.sources}]
        if inside:
            yield (
                f"  if ({found} == {self.at}) {{ " + " ".join(f"own[{k}] = o[{d}];" for d, k in inside) + " m = own; }"
            )
        counted: list[tuple[int, int, int]] = []
        plain: list[tuple[int, int, int]] = []
        for source, target, weight in zip(head.copies.sources, head.copies.targets, head.copies.weights):
            entry = (int(source), int(target), int(weight))
            (plain if int(source) in self.live else counted).append(entry)
        for start, stop, shift, weight in _stretches([(self.live[s], t, w) for s, t, w in plain]):
            yield f"  for (int k = {start}; k < {stop}; k++) h[k + {shift}] += {weight} * m[k];"
        for first, bits, offset in self.counted:
            mine = [(s - first, t, w) for s, t, w in counted if first <= s < first + bits]
            if mine:
                yield f"  {{ uint64_t c = ((uint64_t){found} + {offset}ULL); int8_t b[64]; unpack64(c, b);"
                for start, stop, shift, weight in _stretches(mine):
                    yield f"  for (int k = {start}; k < {stop}; k++) h[k + {shift}] += {weight} * b[k];"
                yield "  }"
        yield "}"

    def _copy_own(self, head: LookupHead) -> Iterator[str]:
        """A head that looks at its own row."""
        entries = [
            (int(s), int(t), int(w)) for s, t, w in zip(head.copies.sources, head.copies.targets, head.copies.weights)
        ]
        alike = [(s, t, w) for s, t, w in entries if s == t]
        for start, stop, shift, weight in _stretches(alike):
            yield f"for (int k = {start}; k < {stop}; k++) h[k + {shift}] += {weight} * o[k];"
        sums: dict[int, list[tuple[int, int]]] = {}
        for source, target, weight in entries:
            if source != target:
                sums.setdefault(target, []).append((source, weight))
        for target, terms in sums.items():
            yield f"h[{target}] += {_sum(terms, 'o')};"

    def _write_resting(self, found: str, head: LookupHead) -> Iterator[str]:
        entries = [
            (int(s), int(t), int(w)) for s, t, w in zip(head.copies.sources, head.copies.targets, head.copies.weights)
        ]
        by_target: dict[int, list[tuple[int, int]]] = {}
        for source, target, weight in entries:
            by_target.setdefault(target, []).append((source, weight))
        yield f"if ({found} == {self.at}) {{"
        for target, terms in by_target.items():
            yield f"  h[{target}] += {_sum(terms, 'o')};"
        yield f"}} else if ({found} >= 0) {{ int8_t *m = mem + {found} * WIDTH; int bad = 0;"
        for start, stop, terms in _alike_sums(by_target):
            at = self.live[start] - start
            added = " ".join(f"{'+' if w > 0 else '-'} {abs(w)} * o[k + {s}]" for s, w in terms)
            value = f"int8_t v = m[k + {at}] {added}; m[k + {at}] = v; bad |= v;"
            yield f"  for (int k = {start}; k < {stop}; k++) {{ {value} }}"
        yield "  if (bad & ~1) { why[1] = 1; return count; }"
        yield "}"

    # --- units ---

    def half(self, into: Tensor, bias: Tensor, out: Tensor) -> Iterator[str]:
        units = self._units(into, bias, out)
        if not units:
            return
        yield "{"
        self.packs: dict[int, str] = {}
        body: list[str] = []
        changes: dict[tuple[int, int], list[str]] = {}  # (lanes, first dimension) → what is taken away there
        for family in self._families(units):
            body += family.code
            for lanes, at, value in self._changes(family):
                changes.setdefault((lanes, at), []).append(value)
        for start, name in self.packs.items():
            yield f"uint32_t {name} = pack32(h + {start});"
        yield from body
        for (lanes, at), values in sorted(changes.items()):
            total = " + ".join(values)
            if lanes > 1:
                yield f"store{lanes}(h + ({at}), load{lanes}(h + ({at})) - ({total}));"
            else:
                yield f"h[{at}] -= {total};"
        yield "}"

    def _units(self, into: Tensor, bias: Tensor, out: Tensor) -> list[Unit]:
        """The units. What is the same in every layer is in their thresholds; those that are always off are left out."""
        reads, writes = into.cpu().numpy().astype(np.int64), out.cpu().numpy().astype(np.int64).T
        made = []
        for row, constant, column in zip(reads, bias.cpu().numpy().astype(np.int64), writes):
            used = np.nonzero(row)[0]
            fixed = used[~self.written[used]]
            threshold = 1 - int(constant) - int(row[fixed] @ self.row[fixed].astype(np.int64))
            items = tuple((int(d), int(row[d])) for d in used if self.written[d])
            adds = tuple((int(d), int(column[d])) for d in np.nonzero(column)[0])
            if sum(max(0, w) for _, w in items) >= threshold:
                made.append(Unit(items, threshold, adds))
        return made

    def _families(self, units: list[Unit]) -> Iterator[Family]:
        masked: dict[Any, list[Unit]] = {}
        others = []
        for unit in units:
            runs, rest = runs_of(unit.reads)
            if runs:
                masked.setdefault((tuple((d, w) for d, _, w in runs), rest), []).append(unit)
            else:
                others.append(unit)
        for key, members in list(masked.items()):
            if len(members) < FEW:
                others += members
            else:
                yield self._masked(key, members)
        for chain in chains(others):
            small = all(sum(abs(w) for _, w in u.reads) + abs(u.threshold) < 120 for u in chain)
            if len(chain) >= FEW and small:
                yield from self._lanes(chain)
            else:
                yield from (self._single(unit) for unit in chain)

    def _masked(self, key: Any, members: list[Unit]) -> Family:
        """Units that sum longer and longer runs of the same dimensions."""
        runs, rest = key
        members.sort(key=lambda u: [length for _, length, _ in runs_of(u.reads)[0]])
        family = Family(self.name("M"), members)
        lanes = _lanes_for(len(members), 8)
        lengths = [[length for _, length, _ in runs_of(u.reads)[0]] for u in members]
        terms = [f"({_sum(rest, 'h')})" if rest else "0"]
        family.code.append(f"w{lanes} {family.name}_s = (w{lanes}){{0}} + (int32_t)({terms[0]});")
        for k, (start, weight) in enumerate(runs):
            masks = ", ".join(str((1 << lengths[u][k]) - 1) for u in range(len(members)))
            longest = max(each[k] for each in lengths)
            source = self._packed(list(range(start, start + longest)), "h")
            family.code.append(
                f"{family.name}_s += (((w{lanes}){{0}} + (int32_t)({source})) & (w{lanes}){{{masks}}}) * {weight};"
            )
        limits = ", ".join(str(u.threshold - 1) for u in members)
        limits += ", 0x7fffffff" * (lanes - len(members))
        family.code.append(
            f"v{lanes} {family.name} = __builtin_convertvector({family.name}_s > (w{lanes}){{{limits}}}, v{lanes});"
        )
        return family

    def _lanes(self, chain: list[Unit]) -> Iterator[Family]:
        """Units that differ only by a shift, up to 64 at a time."""
        for begin in range(0, len(chain), 64):
            part = chain[begin : begin + 64]
            if len(part) < FEW:
                yield from (self._single(unit) for unit in part)
                continue
            lanes = _lanes_for(len(part), 16)
            family = Family(self.name("U"), part)
            steps = _shift(part[0].reads, part[1].reads) or ()
            fixed = tuple(item for item, step in zip(part[0].reads, steps) if not step)
            terms = [f"(v{lanes}){{0}} + (int8_t)({_sum(fixed, 'h')})"] if fixed else [f"(v{lanes}){{0}}"]
            for (dim, weight), step in zip(part[0].reads, steps):
                if step:
                    at = dim if step > 0 else dim - lanes + 1
                    loaded = f"load{lanes}(h + ({at}))"
                    loaded = loaded if step > 0 else f"reverse{lanes}({loaded})"
                    terms.append(
                        f"{loaded} * (int8_t){weight}" if abs(weight) != 1 else f"{'-' if weight < 0 else ''}{loaded}"
                    )
            total = " + ".join(terms).replace("+ -", "- ")
            test = f"(({total}) > (int8_t){part[0].threshold - 1})"
            if len(part) < lanes:
                mask = ", ".join("-1" if k < len(part) else "0" for k in range(lanes))
                test = f"({test} & (v{lanes}){{{mask}}})"
            family.code.append(f"v{lanes} {family.name} = {test};")
            yield family

    def _single(self, unit: Unit) -> Family:
        """One unit: single bits by packed words, other weights one by one."""
        family = Family(self.name("u"), [unit])
        masks, plain = _windows(unit.reads)
        packs = {start: self.packs.setdefault(start, f"p{start}") for start in masks}
        positive = sum(w for _, w in unit.reads if w > 0)
        if masks and unit.threshold == positive and all(abs(w) == 1 for _, w in plain):  # every bit as it should be
            tests = [f"({packs[s]} & {plus | minus}u) == {plus}u" for s, (plus, minus) in masks.items()]
            tests += [f"h[{d}] == {int(w > 0)}" for d, w in plain]
            family.code.append(f"int {family.name} = -(int)({' & '.join(f'({t})' for t in tests)});")
            return family
        terms = [_sum(plain, "h") if plain else "0"]
        for start, (plus, minus) in masks.items():
            terms += [f"+ __builtin_popcount({packs[start]} & {plus}u)"] * bool(plus)
            terms += [f"- __builtin_popcount({packs[start]} & {minus}u)"] * bool(minus)
        family.code.append(f"int {family.name} = -(int)(({' '.join(terms)}) >= {unit.threshold});")
        return family

    def _changes(self, family: Family) -> Iterator[tuple[int, int, str]]:
        """What the units of a family write: (lanes, first dimension, what to take away).

        Neighbouring lanes write to neighbouring dimensions as one vector."""
        if family.name.startswith("u"):
            yield from _changes_of_one(family)
            return
        lanes = _lanes_for(len(family.units), 8 if family.name.startswith("M") else 16)
        for (step, base, weight), members in _streams(family.units).items():
            if len(members) < FEW:
                yield from ((1, base + step * lane, f"{weight} * {family.name}[{lane}]") for lane in members)
                continue
            every = len(members) == len(family.units)
            mask = ", ".join("-1" if k in members else "0" for k in range(lanes))
            value = family.name if every else f"({family.name} & (v{lanes}){{{mask}}})"
            at = base if step > 0 else base - lanes + 1
            value = value if step > 0 else f"reverse{lanes}({value})"
            factor = "" if weight == 1 else f" * (int8_t){weight}"
            yield lanes, at, f"{value}{factor}"

    # --- after a layer ---

    def after(self, place: int) -> Iterator[str]:
        yield "count++;"
        yield "if (copy(o, h)) { why[1] = 3; return count - 1; }"
        weights = self.net.halt_weight.cpu().numpy()
        if self.net.config.halts and self.known.resting_done:
            items = tuple((int(d), int(weights[d])) for d in np.nonzero(weights)[0])
            yield f"if ({_sum(items, 'h')} + {int(self.net.halt_bias)} > 0) {{ why[0] = 1; return count; }}"
        yield f"if (watch_place == {place} && h[watch_dim] == 1) {{ why[0] = 2; return count; }}"
        yield "if (count >= layers) return count;"


def _windows(reads: Items) -> tuple[dict[int, tuple[int, int]], Items]:
    """Reads of weight 1 and −1 as masks of packed words, by the first dimension of the word; and the other reads."""
    windows: dict[int, list[tuple[int, int]]] = {}
    for dim, weight in reads:
        if abs(weight) == 1:
            windows.setdefault(dim // 32 * 32, []).append((dim, weight))
    packed = {start: items for start, items in windows.items() if len(items) > 2}
    masks = {}
    for start, items in packed.items():
        plus, minus = (sum(1 << (d - start) for d, w in items if w == sign) for sign in (1, -1))
        masks[start] = plus, minus
    rest = tuple(item for item in reads if abs(item[1]) != 1 or item[0] // 32 * 32 not in packed)
    return masks, rest


def _changes_of_one(family: Family) -> Iterator[tuple[int, int, str]]:
    """What one unit writes; many neighbouring dimensions as one vector."""
    for start, stop, weight in _level(family.units[0].writes):
        if stop - start >= FEW:
            lanes = _lanes_for(stop - start, 8)
            mask = ", ".join(str(weight if k < stop - start else 0) for k in range(lanes))
            yield lanes, start, f"((v{lanes}){{{mask}}} * (int8_t){family.name})"
        else:
            yield from ((1, dim, f"{weight} * {family.name}") for dim in range(start, stop))


def _streams(units: Sequence[Unit]) -> dict[tuple[int, int, int], list[int]]:
    """What lanes write: (step, dimension of lane 0, weight) → the lanes that write there, forwards or backwards."""
    streams: dict[tuple[int, int, int], list[int]] = {}
    for lane, unit in enumerate(units):
        for dim, weight in unit.writes:
            streams.setdefault((1, dim - lane, weight), []).append(lane)
    for key in [key for key, members in streams.items() if len(members) < FEW]:
        for lane in streams.pop(key):
            streams.setdefault((-1, key[1] + 2 * lane, key[2]), []).append(lane)
    return streams


def _lanes_for(count: int, least: int) -> int:
    return next(n for n in (8, 16, 32, 64) if n >= max(count, least))


def _sum(items: Sequence[tuple[int, int]], array: str) -> str:
    return " ".join(f"{'+' if w > 0 else '-'} {abs(w)} * {array}[{d}]" for d, w in items)


def _level(items: Items) -> Iterator[tuple[int, int, int]]:
    """Stretches of neighbouring dimensions with one weight: start, stop, weight."""
    ordered = sorted(items)
    place = 0
    while place < len(ordered):
        dim, weight = ordered[place]
        stop = place + 1
        while stop < len(ordered) and ordered[stop] == (dim + stop - place, weight):
            stop += 1
        yield dim, dim + stop - place, weight
        place = stop


def _stretches(entries: list[tuple[int, int, int]]) -> Iterator[tuple[int, int, int, int]]:
    """Copies between neighbouring dimensions: first source, its end, how far the target is, weight."""
    ordered = sorted(entries)
    place = 0
    while place < len(ordered):
        source, target, weight = ordered[place]
        stop = place + 1
        while stop < len(ordered) and ordered[stop] == (source + stop - place, target + stop - place, weight):
            stop += 1
        yield source, source + stop - place, target - source, weight
        place = stop


def _alike_sums(by_target: dict[int, list[tuple[int, int]]]) -> list[tuple[int, int, list[tuple[int, int]]]]:
    """Neighbouring targets that add neighbouring sources: start, stop, terms with sources relative to the target."""
    groups: list[tuple[int, int, list[tuple[int, int]]]] = []
    for target in sorted(by_target):
        shifted = sorted((source - target, weight) for source, weight in by_target[target])
        if groups and groups[-1][1] == target and groups[-1][2] == shifted:
            groups[-1] = (groups[-1][0], target + 1, shifted)
        else:
            groups.append((target, target + 1, shifted))
    return groups


PRELUDE = """/* Generated from the weights of a transformer. */
#include <stdint.h>
#include <string.h>
typedef int8_t v8 __attribute__((vector_size(8)));
typedef int8_t v16 __attribute__((vector_size(16)));
typedef int8_t v32 __attribute__((vector_size(32)));
typedef int8_t v64 __attribute__((vector_size(64)));
typedef int32_t w8 __attribute__((vector_size(32)));
typedef int32_t w16 __attribute__((vector_size(64)));
typedef int32_t w32 __attribute__((vector_size(128)));
typedef int32_t w64 __attribute__((vector_size(256)));
#define VECTOR(n) \\
static inline v##n load##n(const int8_t *p) { v##n v; memcpy(&v, p, n); return v; } \\
static inline void store##n(int8_t *p, v##n v) { memcpy(p, &v, n); }
VECTOR(8) VECTOR(16) VECTOR(32) VECTOR(64)
static inline v16 reverse16(v16 v) { return __builtin_shuffle(v, (v16){15,14,13,12,11,10,9,8,7,6,5,4,3,2,1,0}); }
static inline v8 reverse8(v8 v) { return __builtin_shuffle(v, (v8){7,6,5,4,3,2,1,0}); }
static inline v32 reverse32(v32 v) { return __builtin_shuffle(v, (v32){31,30,29,28,27,26,25,24,23,22,21,20,19,18,17,16,
 15,14,13,12,11,10,9,8,7,6,5,4,3,2,1,0}); }
static inline v64 reverse64(v64 v) { v64 r; for (int k = 0; k < 64; k++) r[k] = v[63 - k]; return r; }
#ifdef __AVX2__
#include <immintrin.h>
static inline uint32_t pack32(const int8_t *p) {
  return (uint32_t)_mm256_movemask_epi8(_mm256_slli_epi16(_mm256_loadu_si256((const __m256i *)p), 7)); }
#else
static inline uint32_t pack8(const int8_t *p) {
  uint64_t x; memcpy(&x, p, 8); return (uint32_t)((x & 0x0101010101010101ULL) * 0x0102040810204080ULL >> 56); }
static inline uint32_t pack32(const int8_t *p) {
  return pack8(p) | pack8(p + 8) << 8 | pack8(p + 16) << 16 | pack8(p + 24) << 24; }
#endif
static inline void unpack64(uint64_t c, int8_t *b) {
  for (int k = 0; k < 8; k++) {
    uint64_t x = ((c >> 8 * k & 255) * 0x0101010101010101ULL & 0x8040201008040201ULL) + 0x7f7f7f7f7f7f7f7fULL;
    x = x >> 7 & 0x0101010101010101ULL; memcpy(b + 8 * k, &x, 8); } }
static inline int copy(int8_t *o, const int8_t *h) { /* and whether something is neither 0 nor 1 */
  v64 held = {0};
  for (int k = 0; k < DIM; k += 64) { v64 v = load64(h + k); held |= v; store64(o + k, v); }
  uint64_t x[8], all = 0; memcpy(x, &held, 64); for (int k = 0; k < 8; k++) all |= x[k];
  return (all & 0xfefefefefefefefeULL) != 0; }
"""
