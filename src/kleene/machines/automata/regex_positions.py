"""A pattern's parse tree as positions with moves between them (Thompson), assertions and atomic groups included."""

from __future__ import annotations

import re
import re._compiler as sre_compiler  # type: ignore[import-not-found]
import re._constants as sre  # type: ignore[import-not-found]
import re._parser as sre_parser  # type: ignore[import-not-found]
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kleene.errors import NotSupported

MAX_POSITIONS = 200_000
REFUSED = {
    sre.GROUPREF: "a backreference (\\1, (?P=name)) is not regular: it remembers a text of any length",
    sre.GROUPREF_EXISTS: "a conditional ((?(1)…|…)) asks whether a group has matched, and is not supported",
}


@dataclass(frozen=True)
class Ask:
    """An anchor or a word boundary; `rest` is the position from which `$` reads a last newline and the end."""

    what: Any
    flags: int
    after: int
    rest: int = -1
    stop: int = -1


@dataclass(frozen=True)
class Look:
    """A lookahead: a match from `begin` to `stop` must be possible here (or must not)."""

    positive: bool
    begin: int
    stop: int
    after: int


@dataclass(frozen=True)
class Behind:
    """A lookbehind: a match that ends here must exist (or must not); `monitor` watches for it from the start."""

    positive: bool
    monitor: int
    after: int


def shown(pattern: str) -> str:
    """A pattern for a message; a long one is cut."""
    return repr(pattern) if len(pattern) <= 100 else f"{pattern[:60]!r}… ({len(pattern):,} characters)"


class Positions:
    """A position with empty moves, with one move that reads a symbol, or with one assertion.

    Empty moves are in the matcher's order of attempts. The order matters only inside an atomic group, where a
    position's entry in `stops` is the end of the group.
    """

    def __init__(self, pattern: str, tree: Any, alphabet: Sequence[str], flags: int, search: bool) -> None:
        self.pattern, self.alphabet = pattern, alphabet
        self.empty: list[list[int]] = []
        self.reads: list[tuple[int, int] | None] = []  # (set of symbols as bits, next position)
        self.asserts: list[Ask | Look | Behind | None] = []
        self.stops: list[int | None] = []
        self.monitors: list[tuple[int, int]] = []  # (begin, stop) of each lookbehind
        self.ranks: dict[int, list[tuple[int, int]]] = {}  # position → (key, rank): smaller ranks accept more
        self._rank_keys: dict[tuple[int, int], int] = {}
        self._repeats = 0
        self._atomic: int | None = None  # the end of the atomic group that is being built
        self._sets: dict[tuple[str, int], int] = {}
        self.end = self.position()
        last = self.any_symbols(self.end) if search else self.end
        first = self.sequence(tree, last, flags)
        self.begin = self.any_symbols(first) if search else first
        self.asserting = any(self.asserts) or any(stop is not None for stop in self.stops)

    def position(
        self,
        empty: Iterable[int] = (),
        reads: tuple[int, int] | None = None,
        asserts: Ask | Look | Behind | None = None,
    ) -> int:
        """A new position."""
        if len(self.empty) >= MAX_POSITIONS:
            raise NotSupported(
                f"pattern {shown(self.pattern)}: more than {MAX_POSITIONS:,} positions once repeats are written out"
            )
        self.empty.append(list(empty))
        self.reads.append(reads)
        self.asserts.append(asserts)
        self.stops.append(self._atomic if len(self.empty[-1]) > 1 else None)
        return len(self.empty) - 1

    def any_symbols(self, after: int) -> int:
        """A loop over all symbols that goes on to a position."""
        loop = self.position([after])
        reader = self.position(reads=((1 << len(self.alphabet)) - 1, loop))
        self.empty[loop].append(reader)
        return loop

    # From the parse tree to positions, from right to left: each method returns the first position of its part

    def sequence(self, tree: Any, after: int, flags: int) -> int:
        """A concatenation."""
        for op, value in reversed(list(tree)):
            after = self.part(op, value, after, flags)
        return after

    def part(self, op: Any, value: Any, after: int, flags: int) -> int:
        """One node of the parse tree."""
        if op in (sre.LITERAL, sre.NOT_LITERAL, sre.IN, sre.ANY):
            return self.position(reads=(self.symbols(op, value, flags), after))
        if op is sre.BRANCH:
            return self.position([self.sequence(branch, after, flags) for branch in value[1]])
        if op is sre.SUBPATTERN:
            _, add, drop, inner = value
            return self.sequence(inner, after, sre_compiler._combine_flags(flags, add, drop))
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            low, high, inner = value
            return self.repeat(low, high, inner, after, flags, greedy=op is sre.MAX_REPEAT)
        if op is sre.ATOMIC_GROUP:
            return self.atomic([(None, value)], after, flags)
        if op is sre.POSSESSIVE_REPEAT:  # Python's matcher also makes each round atomic
            low, high, inner = value
            rounds = sre_parser.SubPattern(inner.state, [(sre.ATOMIC_GROUP, inner)])
            return self.atomic([(sre.MAX_REPEAT, (low, high, rounds))], after, flags)
        if op is sre.AT:
            return self.anchor(value, after, flags)
        if op is sre.FAILURE:
            return self.position()
        if op in (sre.ASSERT, sre.ASSERT_NOT):
            return self.look(op is sre.ASSERT, value[0] > 0, value[1], after, flags)
        raise NotSupported(f"pattern {shown(self.pattern)}: {REFUSED.get(op, f'{op} is not supported')}")

    def repeat(self, low: int, high: int, tree: Any, after: int, flags: int, greedy: bool) -> int:
        """Repeat low … high times. The order of empty moves says whether more or fewer are tried first."""
        if int(low) * max(1, len(tree)) > MAX_POSITIONS:
            raise NotSupported(f"pattern {shown(self.pattern)}: a repeat of {low} is too large")
        if high is sre.MAXREPEAT:
            if self._atomic is not None and tree.getwidth()[0] == 0:
                raise NotSupported(
                    f"pattern {shown(self.pattern)}: an atomic group or possessive repeat holds an endless repeat of "
                    "something that can be empty, and is not supported"
                )
            begin = loop = self.position([after, after])  # two moves: a choice
            self.empty[loop] = [self.sequence(tree, loop, flags), after]
            if not greedy:
                self.empty[loop].reverse()
        else:
            begin = self.options(int(high) - int(low), tree, after, flags, greedy)
        for _ in range(int(low)):
            end, begin = begin, self.sequence(tree, begin, flags)
            if begin == end:  # nothing to read: repeating makes no difference
                break
        return begin

    def options(self, copies: int, tree: Any, after: int, flags: int, greedy: bool) -> int:
        """Repeat up to `copies` times.

        A place in an earlier copy accepts all that the same place in a later copy accepts.
        """
        begin, instance = after, self._repeats
        self._repeats += 1
        for copy in range(copies):  # the last copy is built first
            first = len(self.empty)
            inner = self.sequence(tree, begin, flags)
            if self._atomic is None:
                for place in range(first, len(self.empty)):
                    key = self._rank_keys.setdefault((instance, place - first), len(self._rank_keys))
                    self.ranks.setdefault(place, []).append((key, copies - copy))
            begin = self.position([inner, after] if greedy else [after, inner])
        return begin

    def atomic(self, tree: Any, after: int, flags: int) -> int:
        """A group whose first way of matching is the only one."""
        before = self._atomic
        self._atomic = None
        stop = self.position([after])
        self._atomic = stop
        for op, value in tree:
            begin = self.sequence(value, stop, flags) if op is None else self.part(op, value, stop, flags)
        self._atomic = before
        return begin

    def look(self, positive: bool, ahead: bool, tree: Any, after: int, flags: int) -> int:
        """A lookahead or lookbehind; any way of matching inside counts."""
        before, self._atomic = self._atomic, None
        stop = self.position()
        begin = self.sequence(tree, stop, flags)
        self._atomic = before
        if ahead:
            return self.position(asserts=Look(positive, begin, stop, after))
        self.monitors.append((begin, stop))
        return self.position(asserts=Behind(positive, len(self.monitors) - 1, after))

    def anchor(self, what: Any, after: int, flags: int) -> int:
        """^, $, \\A, \\Z, \\b or \\B."""
        if what is not sre.AT_END or flags & re.MULTILINE or "\n" not in self.alphabet:
            return self.position(asserts=Ask(what, flags, after))
        stop = self.position()
        at_end = self.position(asserts=Ask(sre.AT_END_STRING, flags, stop))
        newline = self.position(reads=(1 << list(self.alphabet).index("\n"), at_end))
        return self.position(asserts=Ask(what, flags, after, newline, stop))

    def symbols(self, op: Any, value: Any, flags: int) -> int:
        """The symbols that one character class matches, as bits, found by Python's own matcher."""
        key = (repr((op, value)), flags)
        if key not in self._sets:
            state = sre_parser.State()
            state.flags = flags
            matcher = sre_compiler.compile(sre_parser.SubPattern(state, [(op, value)]), flags)
            self._sets[key] = sum(1 << i for i, s in enumerate(self.alphabet) if matcher.fullmatch(s))
        return self._sets[key]

    # Helpers of the constructions

    def groups(self, kinds: Sequence[int] | None = None) -> tuple[list[int], list[int]]:
        """One symbol of each group that the pattern cannot tell apart, and each symbol's group."""
        sets = sorted({reads[0] for reads in self.reads if reads})
        first: dict[Any, int] = {}
        columns, chosen = [], []
        for i in range(len(self.alphabet)):
            signature = (tuple(s >> i & 1 for s in sets), kinds[i] if kinds is not None else None)
            if signature not in first:
                chosen.append(i)
            columns.append(first.setdefault(signature, len(first)))
        return chosen, columns

    def rank_arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The ranks of position p are keys[starts[p]:starts[p + 1]] and ranks[…]."""
        starts = np.zeros(len(self.empty) + 1, dtype=np.int64)
        keys, ranks = [], []
        for p in range(len(self.empty)):
            for key, rank in self.ranks.get(p, ()):
                keys.append(key)
                ranks.append(rank)
            starts[p + 1] = len(keys)
        return starts, np.array(keys, dtype=np.int32), np.array(ranks, dtype=np.int32)
