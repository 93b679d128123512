"""Write straight-line code for the layers of a network: bits of the working row are bits of whole numbers.

Units in lanes are evaluated by one logical operation for all lanes; units that sum runs of weights c, 2c, 4c, … get the
runs as masked whole numbers; other units test and count bits. Every unit is evaluated in every layer, and nothing is
recognised as more than units. What a half writes is added bit by bit. The code works while every dimension of the row
holds 0 or 1 between the halves, and each head that must find a row finds one; where this fails it leaves the layer
undone and says so, and the caller runs the layer number by number.

The same lines are written in C and in Python for Numba (`lane_syntax.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kleene.networks.transformer.active_rows import Array, LookupHead
from kleene.networks.transformer.lane_runner import Column
from kleene.networks.transformer.lane_syntax import SMALL_SUM, Syntax
from kleene.networks.transformer.lane_units import FEW, WIDEST, Items, Lanes, Sums, Unit, grouped, runs_of, units_of
from kleene.networks.transformer.model import Transformer

Copy = tuple[int, int, int]  # source, target, weight
ALL, NONE = "all", "0"  # every lane is on; none is


@dataclass(frozen=True)
class Finder:
    """Finds the row of a word: row = word + offset (in `bits` bits where given), if it lies in low … high − 1;
    or in a table of rows, by the word less `low`."""

    offset: int
    low: int
    high: int
    bits: int | None = None
    table: int | None = None


@dataclass(frozen=True)
class Plan:
    """The place of everything: the working row's bits in words, the columns of all rows, and how heads find rows."""

    net: Transformer
    blocks: tuple[tuple[LookupHead, ...], ...]
    at: int  # the working row
    row: Array  # its dimensions at the start
    written: Array  # those that can change
    words: tuple[tuple[int, ...], ...]  # the dimensions in each word of the state, lowest bit first
    columns: tuple[Column, ...]
    finders: dict[object, Finder]  # head.table → finder
    tables: int
    halts: bool


@dataclass(frozen=True)
class Term:
    """Bits that are added, times a weight, to the word of some dimensions; `mask` says which bits can be on."""

    bits: str
    mask: int
    weight: int


class Generator:
    """Writes the source of one function for each block, and of one that runs layers."""

    def __init__(self, plan: Plan, syntax: Syntax) -> None:
        self.plan, self.syntax = plan, syntax
        self.home: dict[int, tuple[int, int]] = {}  # dimension → word, bit; words of columns come after the state's
        for number, dims in enumerate(plan.words):
            self.home |= {dim: (number, bit) for bit, dim in enumerate(dims)}
        self.stored = [k for k, column in enumerate(plan.columns) if column.offset is None]
        for k in self.stored:
            column = plan.columns[k]
            self.home |= {dim: (len(plan.words) + k, bit) for bit, dim in enumerate(column.dims)}
        self.changes = plan.written.copy()
        for k in self.stored:
            self.changes[list(plan.columns[k].dims)] = True

    def text(self) -> str:
        parts = [self.syntax.begin(self.plan.columns, self.plan.tables, len(self.plan.words))]
        parts += ["\n".join(_Block(self, place).lines()) for place in range(len(self.plan.blocks))]
        parts.append(self.syntax.loop(len(self.plan.blocks), self._halting()))
        return "\n".join(parts) + "\n"

    def _halting(self) -> str | None:
        """Whether the state halts, as a condition on `s`."""
        if not self.plan.halts:
            return None
        weights = self.plan.net.halt_weight.cpu().numpy().astype(np.int64)
        used = np.nonzero(weights)[0]
        if any(self.home.get(int(dim), (0, 0))[0] >= len(self.plan.words) for dim in used):
            raise ValueError("halting depends on a column")
        fixed = [dim for dim in used if not self.changes[dim]]
        constant = int(self.plan.net.halt_bias) + int(weights[fixed] @ self.plan.row[fixed])
        terms = [
            f"((s[{word}] >> {bit}) & 1) * {int(weights[dim])}"
            for dim in used
            if self.changes[dim]
            for word, bit in [self.home[int(dim)]]
        ]
        return f"{' + '.join([str(constant), *terms])} > 0"


class _Block:
    """The function of one block."""

    def __init__(self, generator: Generator, place: int) -> None:
        self.plan, self.syntax, self.home, self.changes = (
            *(generator.plan, generator.syntax),
            *(generator.home, generator.changes),
        )
        self.place, self.body, self.named, self.bad = place, [], {}, []  # type: tuple[int, list[str], dict[str, str], list[str]]
        self.now: dict[int, str] = {}  # word → the name of what it holds now
        self.may: dict[int, int] = {}  # word → the bits that can be on now, where not all can
        self.mirrored: dict[tuple[int, int, int], list[Term]] = {}  # (word, weight, bit of lane 0) → lanes backwards
        self.commits: list[str] = []
        self.resting: list[tuple[str, str, int, LookupHead]] = []  # what is written into rows: row, whether, column

    def let(self, value: str) -> str:
        """A name for a value; the same for the same value."""
        if value.isidentifier() or value.isdecimal():
            return value
        if value not in self.named:
            self.named[value] = f"x{len(self.named)}"
            self.body.append(self.syntax.let(self.named[value], value))
        return self.named[value]

    def lines(self) -> Iterator[str]:
        block = self.plan.net.block(self.place)
        self._attention(self.plan.blocks[self.place])
        for into, bias, out in ((block.in1, block.bias1, block.out1), (block.in2, block.bias2, block.out2)):
            reads, add, writes = (part.cpu().numpy().astype(np.int64) for part in (into, bias, out))
            self._half(units_of(reads, add, writes, self.changes, self.plan.row))
        for word, name in self.now.items():
            if name != self._start(word):
                self.commits.append(self.syntax.store(self._place(word), name, self._type(word)))
        self._check_own_columns()
        bad = self.let(" | ".join(self.bad)) if self.bad else None
        yield from self.syntax.function(f"block{self.place}", [*self.body], bad, self.commits)

    # --- the working row ---

    def _place(self, word: int) -> str:
        """The place of a word: in the state, or in the working row's entry of a column."""
        count = len(self.plan.words)
        return f"s[{word}]" if word < count else f"c{word - count}[{self.plan.at}]"

    def _type(self, word: int) -> int | None:
        count = len(self.plan.words)
        return None if word < count else self.plan.columns[word - count].size

    def _start(self, word: int) -> str:
        return self.let(f"INT({self._place(word)})")

    def word(self, number: int) -> str:
        """The name of what a word holds now."""
        if number not in self.now:
            self.now[number] = self._start(number)
        return self.now[number]

    def bits(self, dims: Sequence[int]) -> str:
        """Dimensions of the working row as the bits of a number, the first one lowest."""
        parts, constant, place = [], 0, 0
        while place < len(dims):
            stop = place + 1
            if not self.changes[dims[place]]:
                constant |= int(self.plan.row[dims[place]]) << place
                place = stop
                continue
            word, bit = self.home[dims[place]]
            step = 1 if stop == len(dims) or self._follows(dims[place], dims[stop], 1) else -1
            while stop < len(dims) and self._follows(dims[stop - 1], dims[stop], step):
                stop += 1
            count = stop - place
            if step > 0 or count == 1:
                parts.append(moved(self.word(word), bit, count, place, self._size(word)))
            else:
                held = self.let(moved(self.word(word), bit - count + 1, count, 0, self._size(word)))
                parts.append(moved(self.let(f"REVERSE({held}, {count})"), 0, count, place, count))
            place = stop
        parts += [str(constant)] * bool(constant)
        return self.let(" | ".join(parts) if len(parts) > 1 else parts[0] if parts else "0")

    def _follows(self, one: int, two: int, step: int) -> bool:
        """Whether a dimension is the next bit of the same word."""
        if two not in self.home or not self.changes[two] or not self.changes[one]:
            return False
        (word, bit), (other, place) = self.home[one], self.home[two]
        return word == other and place == bit + step

    # --- attention ---

    def _attention(self, lookups: Sequence[LookupHead]) -> None:
        """All heads read the state before the layer; rows at rest are written when the layer is done."""
        terms: dict[int, list[Term]] = {}
        factors: dict[int, int] = {}  # of what a dimension holds itself, where it is not 1
        for head in lookups:
            if head.looking is None:
                self._write_resting(head)
            elif head.query:
                self._copy_found(head, terms)
            else:
                self._copy_own(head, terms, factors)
        self._add(terms, factors)

    def _find(self, head: LookupHead) -> tuple[str, str]:
        """The row that a head finds, 0 where it finds none; and whether it finds one."""
        finder = self.plan.finders[head.table]
        asked = head.query if head.looking is not None else head.key
        word = self.bits(asked)
        if finder.table is not None:
            place = self.let(f"{word} - {finder.low}")
            inside = self.let(f"INT(({place} >= 0) & ({place} < {finder.high}))")
            row = self.let(f"INT(t{finder.table}[{place} * {inside}])")
            found = self.let(f"{inside} & INT({row} >= 0)")
        else:
            row = self.let(f"{word} + {finder.offset}")
            least, most = finder.offset, finder.offset + (1 << len(asked)) - 1
            if finder.bits is not None:
                row = self.let(f"{row} & {(1 << finder.bits) - 1}")
                least, most = 0, (1 << finder.bits) - 1
            tests = [f"({row} >= {finder.low})"] * (least < finder.low) + [f"({row} < {finder.high})"] * (
                most >= finder.high
            )
            found = self.let(f"INT({' & '.join(tests)})") if tests else "1"
        switches = [(dim, 1) for dim in head.switch]
        if switches:
            on = self.at_least(
                tuple(item for item in switches if self.changes[item[0]]), len(switches) - self._fixed(head)
            )
            found = found if on == ALL else NONE if on == NONE else self.let(f"{found} & {on}") if found != "1" else on
        return (row, found) if found == "1" else (self.let(f"{row} * {found}"), found)

    def _fixed(self, head: LookupHead) -> int:
        return sum(int(self.plan.row[dim]) for dim in head.switch if not self.changes[dim])

    def _copy_found(self, head: LookupHead, terms: dict[int, list[Term]]) -> None:
        row, found = self._find(head)
        if found != "1" and head.needed:
            self.bad.append(self.let(f"{found} ^ 1"))
        for column, entries in self._by_column(head):
            held = self._entry(column, row)
            if found != "1" and not head.needed:
                held = self.let(f"{held} & -{found}")
            for source, target, count, weight in stretches(entries):
                self._spread((held, self.plan.columns[column].size), source, target, count, weight, terms)

    def _by_column(self, head: LookupHead) -> Iterator[tuple[int, list[tuple[int, int, int]]]]:
        """Return what a head copies, by the column that it comes from: (bit, target dimension, weight)."""
        copies = head.copies
        for k, column in enumerate(self.plan.columns):
            entries = [
                (int(source) - column.first, int(target), int(weight))
                for source, target, weight in zip(copies.sources, copies.targets, copies.weights)
                if int(source) in column.dims
            ]
            if entries:
                yield k, entries

    def _entry(self, k: int, row: str) -> str:
        column = self.plan.columns[k]
        if column.offset is None:
            return self.let(f"INT(c{k}[{row}])")
        return self.let(f"({row} + {column.offset}) & {(1 << column.size) - 1}")

    def _spread(
        self,
        held: tuple[str, int],
        source: int,
        target: int,
        count: int,
        weight: int,
        terms: dict[int, list[Term]],
    ) -> None:
        """Add `count` bits of a value, given with its size, to the dimensions from `target` on."""
        while count:
            word, bit = self.home[target]
            part = 1
            while part < count and self.home[target + part] == (word, bit + part):
                part += 1
            mask = ((1 << part) - 1) << bit
            terms.setdefault(word, []).append(Term(self.let(moved(held[0], source, part, bit, held[1])), mask, weight))
            source, target, count = source + part, target + part, count - part

    def _copy_own(self, head: LookupHead, terms: dict[int, list[Term]], factors: dict[int, int]) -> None:
        """A head that looks at its own row."""
        copies = head.copies
        entries = []
        for source, target, weight in zip(
            *(part.tolist() for part in (copies.sources, copies.targets, copies.weights))
        ):
            if source == target:
                factors[target] = factors.get(target, 1) + int(weight)
            else:
                entries.append((source, target, int(weight)))
        for source, target, count, weight in stretches(self._gather_alike(entries, terms)):
            for start in range(0, count, WIDEST):
                part = min(WIDEST, count - start)
                held = self.bits(range(source + start, source + start + part))
                self._spread((held, part), 0, target + start, part, weight, terms)

    def _gather_alike(self, entries: Sequence[Copy], terms: dict[int, list[Term]]) -> list[Copy]:
        """Add bits of one word that go to the same dimension, of which at most one is on; return the other copies."""
        alike: dict[tuple[int, int, int], list[Copy]] = {}
        for source, target, weight in entries:
            word = self.home[source][0] if self.changes[source] else -1
            alike.setdefault((word, target, weight), []).append((source, target, weight))
        rest = []
        for (word, target, weight), copies in alike.items():
            if len(copies) < FEW or word < 0:
                rest += copies
                continue
            held = self.let(f"{self.word(word)} & {sum(1 << self.home[source][1] for source, _, _ in copies)}")
            self.bad.append(self.let(f"{held} & ({held} - 1)"))
            home, bit = self.home[target]
            terms.setdefault(home, []).append(Term(self.let(f"INT({held} != 0) << {bit}"), 1 << bit, weight))
        return rest

    def _write_resting(self, head: LookupHead) -> None:
        """Return what a head adds to the row that it finds; a row at rest, or the working row's entry of a column."""
        row, found = self._find(head)
        if found == NONE:
            return
        copies = head.copies
        for k, column in enumerate(self.plan.columns):
            entries = [
                (int(source), int(target) - column.first, int(weight))
                for source, target, weight in zip(copies.sources, copies.targets, copies.weights)
                if int(target) in column.dims
            ]
            if not entries:
                continue
            terms = []
            for source, bit, count, weight in stretches(entries):
                held = self.bits(range(source, source + count))
                terms.append(Term(self.let(moved(held, 0, count, bit, count)), ((1 << count) - 1) << bit, weight))
            held = self._entry(k, row)
            before = len(self.bad)
            new = self._sum(held, (1 << column.size) - 1, terms)
            if found != "1":
                self.bad[before:] = [self.let(f"{self.let(why)} & -{found}") for why in self.bad[before:]]
            for other, also, where, asked in self.resting:
                if where == k and not self._apart(asked, head):  # two heads that write into one row: for the caller
                    same = [f"INT({other} == {row})", *(flag for flag in (also, found) if flag != "1")]
                    self.bad.append(self.let(" & ".join(same)))
            self.resting.append((row, found, k, head))
            self.commits.append(self.syntax.store(f"c{k}[{row}]", new, column.size, None if found == "1" else found))

    def _apart(self, one: LookupHead, two: LookupHead) -> bool:
        """Whether two heads that ask for the same word always find different rows."""
        first, second = self.plan.finders[one.table], self.plan.finders[two.table]
        counted = first.table is None and second.table is None and first.bits == second.bits
        return counted and one.key == two.key and first.offset != second.offset

    def _check_own_columns(self) -> None:
        """A head that writes into an entry of the working row which this block uses is left to the caller."""
        used = {word - len(self.plan.words) for word in self.now if word >= len(self.plan.words)}
        for row, found, k, _ in self.resting:
            if k in used:
                flags = [f"INT({row} == {self.plan.at})", *([found] if found != "1" else [])]
                self.bad.append(self.let(" & ".join(flags)))

    # --- units ---

    def _half(self, units: Sequence[Unit]) -> None:
        terms: dict[int, list[Term]] = {}
        single: dict[tuple[int, int, int], list[str]] = {}  # (word, mask, weight) → units that write there
        self.mirrored = {}
        for group in grouped(units):
            if isinstance(group, Lanes):
                self._lanes(group, terms)
            elif isinstance(group, Sums):
                self._sums(group, terms)
            else:
                on = self.at_least(group.reads, group.threshold)
                for (word, weight), mask in self._written(group.writes).items():
                    single.setdefault((word, mask, weight), []).append("1" if on == ALL else on)
        for (word, mask, weight), names in single.items():
            on = names[0]
            if len(names) > 1:  # at most one of them is on
                on = self.let(" + ".join(names))
                self.bad.append(self.let(f"{on} >> 1"))
            value = self.let(
                f"-{on} & {mask}" if mask & (mask - 1) else f"{on} << {mask.bit_length() - 1}" if mask > 1 else on
            )
            terms.setdefault(word, []).append(Term(value, mask, weight))
        for (word, weight, last), lanes in self.mirrored.items():
            total, mask = self._at_most_one(lanes)
            mirror = sum(1 << (last - bit) for bit in range(last + 1) if mask >> bit & 1)
            terms.setdefault(word, []).append(Term(self.let(f"REVERSE({total}, {last + 1})"), mirror, weight))
        self._add(terms, {})

    def _written(self, writes: Items) -> dict[tuple[int, int], int]:
        """The bits that a unit writes, by word and weight."""
        masks: dict[tuple[int, int], int] = {}
        for dim, weight in writes:
            word, bit = self.home[dim]
            masks[word, weight] = masks.get((word, weight), 0) | 1 << bit
        return masks

    def _lanes(self, group: Lanes, terms: dict[int, list[Term]]) -> None:
        first, count = group.units[0], len(group.units)
        full = (1 << count) - 1
        fixed = tuple(item for item, step in zip(first.reads, group.steps) if not step)
        moving = []  # bits that count towards the threshold where they are on, and their weights
        threshold = first.threshold
        for (dim, weight), step in zip(first.reads, group.steps):
            if step:
                held = self.bits([dim + step * lane for lane in range(count)])
                moving.append((held if weight > 0 else self.let(f"{held} ^ {full}"), abs(weight)))
                threshold += max(0, -weight)
        moving.sort(key=lambda one: -one[1])
        on = self._at_least_in_lanes(moving, 0, fixed, threshold, full)
        self._write_lanes(on, group.units, terms)

    def _at_least_in_lanes(self, moving: list[tuple[str, int]], k: int, fixed: Items, threshold: int, full: int) -> str:
        """The lanes where the bits from k on and the fixed reads reach the threshold."""
        if k == len(moving):
            flag = self.at_least(fixed, threshold)
            return str(full) if flag == ALL else NONE if flag == NONE else self.let(f"-{flag} & {full}")
        bits, weight = moving[k]
        with_it = self._at_least_in_lanes(moving, k + 1, fixed, threshold - weight, full)
        without = self._at_least_in_lanes(moving, k + 1, fixed, threshold, full)
        if with_it == NONE or without == str(full):
            return without
        both = bits if with_it == str(full) else self.let(f"{bits} & {with_it}")
        return both if without == NONE else self.let(f"{both} | {without}")

    def at_least(self, reads: Items, threshold: int) -> str:
        """Whether single bits reach a threshold: ALL, NONE, or the name of 0 or 1."""
        most, least = sum(w for _, w in reads if w > 0), sum(w for _, w in reads if w < 0)
        if threshold <= least or threshold > most:
            return ALL if threshold <= least else NONE
        masks = self._masks(reads)
        if threshold > most - min(abs(w) for _, w in reads):  # every bit must be as it should be
            tests = [f"(({self.word(word)} & {plus | minus}) == {plus})" for word, (plus, minus) in masks.items()]
            if len(reads) == 1 and not tests[0].endswith("== 0)"):
                word, bit = self.home[reads[0][0]]
                return self.let(f"({self.word(word)} >> {bit}) & 1")
            return self.let(f"INT({' & '.join(tests)})")
        if threshold <= least + min(abs(w) for _, w in reads):  # one such bit is enough
            tests = [f"(({self.word(word)} & {plus | minus}) != {minus})" for word, (plus, minus) in masks.items()]
            return self.let(f"INT({' | '.join(tests)})")
        return self.let(f"INT({self._total(reads)} >= {threshold})")

    def _masks(self, reads: Items) -> dict[int, tuple[int, int]]:
        """Map each word that is read to its bits with positive and with negative weights."""
        masks: dict[int, tuple[int, int]] = {}
        for dim, weight in reads:
            word, bit = self.home[dim]
            plus, minus = masks.get(word, (0, 0))
            masks[word] = (plus | 1 << bit, minus) if weight > 0 else (plus, minus | 1 << bit)
        return masks

    def _total(self, reads: Items) -> str:
        """The sum of bits times weights: runs as whole numbers, equal weights counted."""
        runs, rest = runs_of(reads)
        terms = []
        for run in runs:
            held = self.bits(range(run.first, run.first + run.length))
            terms.append(held if run.weight == 1 else f"({held} * {run.weight})")
        alike: dict[tuple[int, int], list[int]] = {}
        for dim, weight in rest:
            word, bit = self.home[dim]
            alike.setdefault((word, weight), []).append(bit)
        for (word, weight), bits in alike.items():
            if len(bits) == 1:
                held = self.let(f"({self.word(word)} >> {bits[0]}) & 1")
            else:
                held = self.let(f"COUNT({self.let(f'{self.word(word)} & {sum(1 << bit for bit in bits)}')})")
            terms.append(held if weight == 1 else f"({held} * {weight})")
        return f"({' + '.join(terms)})"

    def _sums(self, group: Sums, terms: dict[int, list[Term]]) -> None:
        count = len(group.units)
        sources = []  # (name, mask of each lane, weight)
        for k, run in enumerate(group.runs[0]):
            lengths = [runs[k].length for runs in group.runs]
            held = self.bits(range(run.first, run.first + max(lengths)))
            sources.append((held, [(1 << length) - 1 for length in lengths], run.weight))
        extra = []  # (name of a bit, weight in each lane)
        for k, (dim, _) in enumerate(group.rest[0]):
            extra.append((self.bits([dim]), [rest[k][1] for rest in group.rest]))
        limits = [unit.threshold for unit in group.units]
        largest = max(sum(map(abs, unit.weights)) + abs(unit.threshold) for unit in group.units)
        for begin in range(0, count, WIDEST):
            part = slice(begin, min(begin + WIDEST, count))
            name = f"m{self.place}_{len(self.named)}"
            self.named[name] = name
            self.body += self.syntax.sums(
                name,
                [(held, masks[part], weight) for held, masks, weight in sources],
                [(held, weights[part]) for held, weights in extra],
                limits[part],
                small=largest < SMALL_SUM,
            )
            self._write_lanes(name, group.units[part], terms)

    def _write_lanes(self, on: str, units: Sequence[Unit], terms: dict[int, list[Term]]) -> None:
        """Return what lanes write: lanes with neighbouring dimensions together, forwards or backwards."""
        count = len(units)
        forwards: dict[tuple[int, int, int], list[int]] = {}  # (word, weight, bit of lane 0) → lanes
        for lane, unit in enumerate(units):
            for dim, weight in unit.writes:
                word, bit = self.home[dim]
                forwards.setdefault((word, weight, bit - lane), []).append(lane)
        backwards: dict[tuple[int, int, int], list[int]] = {}
        for word, weight, start in [key for key, lanes in forwards.items() if len(lanes) == 1]:
            (lane,) = forwards.pop((word, weight, start))
            backwards.setdefault((word, weight, start + 2 * lane), []).append(lane)
        for word, weight, start in [key for key, lanes in backwards.items() if len(lanes) == 1]:
            (lane,) = backwards.pop((word, weight, start))
            forwards[word, weight, start - 2 * lane] = [lane]
        for (word, weight, start), lanes in backwards.items():
            picked = sum(1 << lane for lane in lanes)
            held = on if picked == (1 << count) - 1 else self.let(f"{on} & {picked}")
            self.mirrored.setdefault((word, weight, start), []).append(Term(held, picked, 1))
        for (word, weight, start), lanes in forwards.items():
            picked = sum(1 << lane for lane in lanes)
            held = on if picked == (1 << count) - 1 else self.let(f"{on} & {picked}")
            mask = picked << start if start >= 0 else picked >> -start
            value = held if not start else self.let(f"{held} << {start}" if start > 0 else f"{held} >> {-start}")
            terms.setdefault(word, []).append(Term(value, mask, weight))

    # --- adding ---

    def _add(self, terms: dict[int, list[Term]], factors: dict[int, int]) -> None:
        """Add terms to their words; a dimension itself counts `factors` times."""
        for dim in factors:
            terms.setdefault(self.home[dim][0], [])
        new = {}
        for word, added in terms.items():
            own: dict[int, int] = {}  # factor → bits
            for dim, factor in factors.items():
                at, bit = self.home[dim]
                if at == word:
                    own[factor] = own.get(factor, 0) | 1 << bit
            size = self._size(word)
            may = self.may.get(word, (1 << size) - 1)
            kept = may & ~sum(own.values())
            base = self.word(word) if kept == may else self.let(f"{self.word(word)} & {kept}") if kept else "0"
            again = [
                Term(self.let(f"{self.word(word)} & {mask}"), mask, factor) for factor, mask in own.items() if factor
            ]
            new[word] = self._sum(base, kept, [*again, *added])
            self.may[word] = kept
            for term in (*again, *added):
                self.may[word] |= term.mask
        self.now |= new

    def _size(self, word: int) -> int:
        count = len(self.plan.words)
        return len(self.plan.words[word]) if word < count else self.plan.columns[word - count].size

    def _sum(self, base: str, mask: int, terms: Sequence[Term]) -> str:
        """A word of bits plus terms. What is not a word of bits again goes to `bad`."""
        heavy = 0  # bits that are counted
        for term in terms:
            heavy |= term.mask if abs(term.weight) != 1 else 0
        while True:
            reached = heavy
            for term in terms:
                reached |= term.mask if term.mask & heavy else 0
            if reached == heavy:
                break
            heavy = reached
        light = [term for term in terms if not term.mask & heavy]
        parts = []
        if light or mask & ~heavy:
            plain = base if not heavy else self.let(f"{base} & {mask & ~heavy}") if mask & ~heavy else "0"
            parts.append(self._choose(plain, mask & ~heavy, light))
        if heavy:
            counted = "0" if not mask & heavy else self.let(f"{base} & {mask & heavy}")
            parts.append(self._count(counted, mask & heavy, [term for term in terms if term.mask & heavy]))
        return self.let(" | ".join(part for part in parts if part != "0") or "0")

    def _choose(self, base: str, mask: int, terms: Sequence[Term]) -> str:
        """Terms of weight 1 and −1, of which at most one of each is on for a bit."""
        plus, plus_mask = self._at_most_one([term for term in terms if term.weight > 0])
        minus, minus_mask = self._at_most_one([term for term in terms if term.weight < 0])
        if minus == "0":
            if plus_mask & mask:
                self.bad.append(self.let(f"{base} & {plus}"))
            return base if plus == "0" else plus if base == "0" else self.let(f"{base} | {plus}")
        change = (
            minus
            if plus == "0"
            else self.let(f"{plus} ^ {minus}")
            if plus_mask & minus_mask
            else self.let(f"{plus} | {minus}")
        )
        new = self.let(f"{base} ^ {change}")
        self.bad.append(self.let(f"{change} & ({new} ^ {plus})"))
        return new

    def _at_most_one(self, terms: Sequence[Term]) -> tuple[str, int]:
        """The bits where one term is on; where two are on, that is `bad`."""
        total, mask = "0", 0
        for term in terms:
            if term.mask & mask:
                self.bad.append(self.let(f"{total} & {term.bits}"))
            total = term.bits if total == "0" else self.let(f"{total} | {term.bits}")
            mask |= term.mask
        return total, mask

    def _count(self, base: str, mask: int, terms: Sequence[Term]) -> str:
        """Terms that are counted bit by bit, in as many binary places as the sums need."""
        width = max((term.mask | mask).bit_length() for term in terms)
        most = max((mask >> b & 1) + sum(max(0, t.weight) for t in terms if t.mask >> b & 1) for b in range(width))
        least = min(sum(min(0, t.weight) for t in terms if t.mask >> b & 1) for b in range(width))
        places = [base]
        while most >= 1 << len(places) or least <= 1 - (1 << len(places)):
            places.append("0")
        for term in terms:
            for place in range(abs(term.weight).bit_length()):
                if abs(term.weight) >> place & 1:
                    self._carry(places, place, term.bits, term.weight > 0)
        self.bad += [place for place in places[1:] if place != "0"]
        return places[0]

    def _carry(self, places: list[str], place: int, bits: str, adds: bool) -> None:
        """Add or take away bits at one place, and what carries over at the next ones."""
        for k in range(place, len(places)):
            held = places[k]
            if held == "0":
                places[k], bits = bits, "0" if adds else bits
            else:
                places[k] = self.let(f"{held} ^ {bits}")
                bits = self.let(f"{held} & {bits}" if adds else f"{bits} & {places[k]}") if k + 1 < len(places) else "0"
            if bits == "0":
                return


def moved(bits: str, start: int, count: int, to: int, size: int) -> str:
    """`count` bits of a value of `size` bits from `start` on, moved to `to`."""
    if bits == "0":
        return "0"
    if start + count == size and (start == 0 or to == 0):  # nothing is left out
        shift = to - start
        return bits if not shift else f"({bits} << {shift})" if shift > 0 else f"({bits} >> {-shift})"
    mask = (1 << count) - 1
    if start == to:
        return f"({bits} & {mask << to})"
    if to > start:
        return f"(({bits} & {mask << start}) << {to - start})"
    return f"(({bits} >> {start - to}) & {mask << to})"


def stretches(entries: Iterable[tuple[int, int, int]]) -> Iterator[tuple[int, int, int, int]]:
    """Copies (source, target, weight) between neighbours: first source, first target, how many, weight."""
    ordered = sorted(entries, key=lambda entry: (entry[2], entry[1] - entry[0], entry[0]))
    place = 0
    while place < len(ordered):
        source, target, weight = ordered[place]
        stop = place + 1
        while stop < len(ordered) and ordered[stop] == (source + stop - place, target + stop - place, weight):
            stop += 1
        yield source, target, stop - place, weight
        place = stop
