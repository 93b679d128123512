"""Patterns with assertions as deterministic automata.

A state of the automaton is a set of items. An item is a position of the pattern with obligations on the rest of the
word: a lookahead that must still come to its end (a place inside it), or one that must not (a set of items inside
it). Inside an atomic group, a way is taken only with the obligation that no way tried earlier comes to the group's
end. A lookbehind is watched from the start of the word: a set of items that a match may have reached.
"""

from __future__ import annotations

import re
import re._constants as sre  # type: ignore[import-not-found]
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

import numpy as np

from kleene.errors import NotSupported
from kleene.machines.automata.dfa import DFA
from kleene.machines.automata.regex_positions import Ask, Behind, Look, Positions, shown

START, NEWLINE, WORD, FOREIGN_WORD, OTHER, END = range(6)  # what stands to the left or the right of a place
EMPTY_IS_NON_BOUNDARY = re.fullmatch(r"\B", "") is not None  # Python changed its mind in 3.14
WORK_OF_AN_ITEM = 1000  # one item takes as long as this many moves of the kernel

# (True, stop, place): the place must reach the stop. (False, stop, items): none of these items may.
Obligation = tuple[bool, int, Any]
Item = tuple[int, frozenset[Obligation]]
Items = frozenset[Item]
NONE: frozenset[Obligation] = frozenset()


def kind_of(symbol: str) -> int:
    """The class of a symbol, as anchors and word boundaries see it."""
    if symbol == "\n":
        return NEWLINE
    if re.match(r"\w", symbol, re.ASCII):
        return WORD
    return FOREIGN_WORD if re.match(r"\w", symbol) else OTHER


def determinise(positions: Positions, alphabet: tuple[str, ...], limit: int, work: int) -> DFA:
    """The automaton on (items, class of the symbol to the left, items of the lookbehinds)."""
    kinds = [kind_of(symbol) for symbol in alphabet]
    groups, columns = positions.groups(kinds)
    none: Items = frozenset()
    first = (frozenset([(positions.begin, NONE)]), START, (none,) * len(positions.monitors))
    number: dict[Any, int] = {first: 0}
    queue, rows, accepting, done = [first], list[list[int]](), list[bool](), 0
    for items, left, watched in queue:
        end = _Place(positions, left, END, watched)
        accepting.append(any(p == positions.end and end.fulfilled(o) for p, o in end.close(items, positions.end)))
        done += end.visited
        row, places = [], dict[int, _Place]()
        for symbol in groups:
            right = kinds[symbol]
            if right not in places:
                places[right] = _Place(positions, left, right, watched)
                places[right].closed = places[right].close(items, positions.end)
                done += places[right].visited
            after, seen = places[right].step(symbol)
            target = (after, right, seen) if after else (none, START, (none,) * len(seen))
            if target not in number:
                if len(number) >= limit:
                    raise NotSupported(f"pattern {shown(positions.pattern)}: more than {limit:,} states; raise limit=")
                number[target] = len(number)
                queue.append(target)
            row.append(number[target])
        rows.append(row)
        if done * WORK_OF_AN_ITEM > work:
            raise NotSupported(f"pattern {shown(positions.pattern)}: more than {work:,} moves; raise work=")
    return DFA(np.array(rows)[:, columns], np.array(accepting), alphabet)


class _Place:
    """One place in a word: the symbols to its left and right, and what the lookbehinds have seen."""

    def __init__(self, positions: Positions, left: int, right: int, watched: tuple[Items, ...]) -> None:
        self.p, self.left, self.right, self.watched = positions, left, right, watched
        self.visited = 0
        self.closed: Items = frozenset()
        self._ways: dict[tuple[int, int], list[Item]] = {}
        self._seen: dict[int, Items] = {}

    # Closing: from positions to those that read a symbol, or to the stop

    def close(self, items: Iterable[Item], stop: int) -> Items:
        """The items that empty moves and true assertions lead to, without redundant ones."""
        found: set[Item] = set()
        for place, obligations in items:
            for end, more in [(place, NONE)] if place == stop else self.ways(place, stop):
                found.update((end, o) for o in self.settle(obligations | more))
        self.visited += len(found)
        return self.needed(found)

    def ways(self, place: int, stop: int) -> list[Item]:
        """The reading positions, or the stop, that a position leads to, each with its obligations."""
        key = (place, stop)
        if key not in self._ways:
            found: dict[Item, None] = {}
            stack: list[Item] = [(place, NONE)]
            seen = set(stack)
            while stack:
                at, obliged = stack.pop()
                self.visited += 1
                if at == stop or self.p.reads[at] is not None or at == self.p.end:
                    found[at, obliged] = None
                    continue
                for after, more in self.moves(at, stop):
                    way = (after, obliged | more)
                    if way not in seen:
                        seen.add(way)
                        stack.append(way)
            self._ways[key] = list(found)
        return self._ways[key]

    def moves(self, at: int, goal: int) -> Iterator[Item]:
        """The moves of a position that reads nothing.

        On the way to the end of an atomic group, the order of attempts does not matter: the group matches if
        any way reaches its end.
        """
        asserts = self.p.asserts[at]
        if isinstance(asserts, Look):
            start: Any = asserts.begin if asserts.positive else frozenset([(asserts.begin, NONE)])
            yield asserts.after, frozenset([(asserts.positive, asserts.stop, start)])
        elif isinstance(asserts, Behind):
            yield from self.behind(asserts)
        elif isinstance(asserts, Ask):
            obliged = self.holds(asserts)
            if obliged is not None:
                yield asserts.after, obliged
        else:
            stop = self.p.stops[at]
            earlier: frozenset[Obligation] = NONE
            for target in self.p.empty[at]:
                yield target, earlier
                if (
                    stop is not None and stop != goal
                ):  # the next way counts only if this way does not reach the end of the group
                    earlier |= {(False, stop, frozenset([(target, NONE)]))}

    def behind(self, look: Behind) -> Iterator[Item]:
        """Whether a match ends here; a match that ends under obligations passes them on."""
        _, stop = self.p.monitors[look.monitor]
        matches = [o for place, o in self.seen(look.monitor) if place == stop]
        if look.positive:
            for obligations in matches:
                yield look.after, obligations
        elif NONE not in matches:
            waiting = frozenset((stop, o) for o in matches)
            yield look.after, frozenset([(False, stop, waiting)]) if waiting else NONE

    def seen(self, monitor: int) -> Items:
        """The items of a lookbehind here: of matches that began earlier, and of a match that begins here."""
        if monitor not in self._seen:
            begin, stop = self.p.monitors[monitor]
            self._seen[monitor] = self.close([*self.watched[monitor], (begin, NONE)], stop)
        return self._seen[monitor]

    def settle(self, obligations: frozenset[Obligation]) -> list[frozenset[Obligation]]:
        """The ways to meet the obligations here. There is none if one is broken."""
        if not obligations:
            return [NONE]
        choices: list[list[frozenset[Obligation]]] = []
        for positive, stop, what in obligations:
            if positive:
                ways = [(what, NONE)] if self.p.reads[what] is not None else self.ways(what, stop)
                choices.append(
                    [
                        settled | ({(True, stop, place)} if place != stop else NONE)
                        for place, more in ways
                        for settled in self.settle(more)
                    ]
                )
            else:
                items = self.close(what, stop)
                if (stop, NONE) in items:
                    return []
                choices.append([frozenset([(False, stop, items)]) if items else NONE])
        self.visited += 1
        return list(dict.fromkeys(NONE.union(*parts) for parts in product(*choices)))

    def needed(self, items: set[Item]) -> Items:
        """Drop the items that another item implies: fewer obligations, or an earlier copy of an optional repeat."""
        bare = {place for place, obligations in items if not obligations}
        best: dict[tuple[frozenset[Obligation], int], int] = {}
        for place, obligations in items:
            for key, rank in self.p.ranks.get(place, ()):
                best[obligations, key] = min(rank, best.get((obligations, key), rank))
        return frozenset(
            (place, o)
            for place, o in items
            if (not o or place not in bare) and all(rank == best[o, k] for k, rank in self.p.ranks.get(place, ()))
        )

    # Reading

    def step(self, symbol: int) -> tuple[Items, tuple[Items, ...]]:
        """The items and the lookbehinds after a symbol."""
        watched = tuple(
            frozenset(self.read(((q, o) for q, o in self.seen(m) if q != self.p.monitors[m][1]), symbol, -1))
            for m in range(len(self.p.monitors))
        )
        return frozenset(self.read(self.closed, symbol, -1)), watched

    def read(self, items: Iterable[Item], symbol: int, stop: int) -> Iterator[Item]:
        """The items after a symbol. An item at the stop waits for its obligations."""
        for place, obligations in items:
            after = place if place == stop else self.target(place, symbol)
            if after is not None:
                then = self.carried(obligations, symbol)
                if then is not None:
                    yield after, then

    def target(self, place: int, symbol: int) -> int | None:
        reads = self.p.reads[place]
        return reads[1] if reads is not None and reads[0] >> symbol & 1 else None

    def carried(self, obligations: frozenset[Obligation], symbol: int) -> frozenset[Obligation] | None:
        """The obligations after a symbol, or None if one is broken."""
        found: set[Obligation] = set()
        for positive, stop, what in obligations:
            if positive:
                after = self.target(what, symbol)
                if after is None:
                    return None
                found.add((True, stop, after))
            else:
                items = frozenset(self.read(what, symbol, stop))
                if items:
                    found.add((False, stop, items))
        return frozenset(found)

    def fulfilled(self, obligations: frozenset[Obligation]) -> bool:
        """Whether obligations are met at the end of the word."""
        return all(
            not positive and not any(place == stop and self.fulfilled(o) for place, o in what)
            for positive, stop, what in obligations
        )

    # Anchors and word boundaries

    def holds(self, ask: Ask) -> frozenset[Obligation] | None:
        """The obligations of a true assertion, or None if it is false."""
        lines = bool(ask.flags & re.MULTILINE)
        if ask.what in (sre.AT_BOUNDARY, sre.AT_NON_BOUNDARY):
            return NONE if self.boundary(ask) == (ask.what is sre.AT_BOUNDARY) else None
        if ask.what in (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING):
            after_line = lines and ask.what is sre.AT_BEGINNING and self.left == NEWLINE
            return NONE if self.left == START or after_line else None
        if self.right == END:
            return NONE
        if ask.what is sre.AT_END and self.right == NEWLINE:
            return NONE if lines else frozenset([(True, ask.stop, ask.rest)])
        return None

    def boundary(self, ask: Ask) -> bool | None:
        """Whether a word begins or ends here; None in the empty word if \\B does not hold either."""
        if self.left == START and self.right == END:
            return False if EMPTY_IS_NON_BOUNDARY else None
        words = (WORD,) if ask.flags & re.ASCII else (WORD, FOREIGN_WORD)
        return (self.left in words) != (self.right in words)
