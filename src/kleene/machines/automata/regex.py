"""Regular expressions into automata. Python's own parser reads the pattern, and Python's own matcher says
which symbols each character class holds, so that `regex(p).accepts(w) == bool(re.fullmatch(p, w))`."""

from __future__ import annotations

import re
import re._compiler as sre_compiler  # type: ignore[import-not-found]
import re._constants as sre  # type: ignore[import-not-found]
import re._parser as sre_parser  # type: ignore[import-not-found]
import string
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from kleene.common.alphabet import check_alphabet
from kleene.errors import InputError, NotSupported
from kleene.machines.automata.dfa import DFA

MAX_POSITIONS = 200_000
START, NEWLINE, WORD, FOREIGN_WORD, OTHER, END = range(6)  # what lies to the left or the right of a place
FREE, LAST_NEWLINE, AT_END = range(3)  # what `$` before a final newline still asks of the rest

CATEGORIES = {
    sre.CATEGORY_DIGIT: string.digits,
    sre.CATEGORY_SPACE: " \t\n\r\f\v",
    sre.CATEGORY_WORD: string.ascii_letters + string.digits + "_",
}
REFUSED = {
    sre.GROUPREF: "a backreference (\\1, (?P=name)) is not regular: it remembers a text of any length",
    sre.GROUPREF_EXISTS: "a conditional ((?(1)…|…)) asks whether a group has matched, and is not supported",
    sre.ATOMIC_GROUP: "an atomic group ((?>…)) depends on the order of matching, and is not supported",
    sre.POSSESSIVE_REPEAT: "a possessive repeat (*+, ++, ?+) depends on the order of matching, and is not supported",
}
EMPTY_IS_NON_BOUNDARY = re.fullmatch(r"\B", "") is not None  # Python changed its mind in 3.14


def regex(pattern: str, alphabet: Iterable[str] | None = None, *, flags: int = 0, limit: int = 100_000) -> DFA:
    """Build the minimal automaton of the words that a Python regular expression matches in full.

    - `alphabet`: the symbols of the words. By default the characters that the pattern names (for \\d, \\w and \\s the
      ASCII ones); `.` and `[^…]` then mean those of them that they match.
    - `flags`: flags of the `re` module, such as `re.IGNORECASE`.
    - `limit`: the most states that the automaton may have before it is minimised.

    >>> even = regex("(0|10*1)*", alphabet="01")
    >>> len(even), even.accepts("0110"), even.accepts("010")
    (2, True, False)
    >>> regex(r"(a)\\1")
    Traceback (most recent call last):
    kleene.errors.NotSupported: pattern '(a)\\\\1': a backreference ...
    """
    if not isinstance(pattern, str):
        raise InputError(f"pattern {pattern!r}: a {type(pattern).__name__}; it should be a string")
    try:
        tree = sre_parser.parse(pattern, flags)
        found = sorted(_named(tree)) if alphabet is None else alphabet
        if not found:
            raise InputError(f"pattern {pattern!r}: it names no characters; say alphabet='…'")
        symbols = check_alphabet(found)
        if any(len(symbol) != 1 for symbol in symbols):
            raise InputError(f"pattern {pattern!r}: a regular expression's symbols are single characters")
        return _Builder(pattern, symbols, tree.state.flags | flags).determinise(tree, limit).minimise()
    except (re.error, ValueError, TypeError) as error:  # ValueError, TypeError: of the flags
        raise InputError(f"pattern {pattern!r}: {error}") from None
    except (RecursionError, OverflowError):
        raise InputError(f"pattern {pattern!r}: nested too deeply or too large") from None


def _named(tree: Any) -> set[str]:
    """The characters that a pattern names."""
    found: set[str] = set()
    for op, value in tree:
        if op in (sre.LITERAL, sre.NOT_LITERAL):
            found.add(chr(value))
        elif op is sre.RANGE:
            if value[1] - value[0] > 10_000:
                raise InputError("pattern: it names more than 10,000 characters; say alphabet='…'")
            found.update(map(chr, range(value[0], value[1] + 1)))
        elif op is sre.CATEGORY:
            found.update(CATEGORIES.get(value, ""))
        elif op is sre.IN:
            found |= _named(value)
        elif op is sre.BRANCH:
            found |= set().union(*(_named(branch) for branch in value[1]))
        elif op is sre.SUBPATTERN:
            inner = _named(value[3])
            if (tree.state.flags | value[1]) & re.IGNORECASE:
                inner |= {c for s in inner for c in (s.lower(), s.upper()) if len(c) == 1}
            found |= inner
        elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            found |= _named(value[2])
        elif op in (sre.ATOMIC_GROUP, sre.ASSERT, sre.ASSERT_NOT):
            found |= _named(value if op is sre.ATOMIC_GROUP else value[1])
    if isinstance(tree, sre_parser.SubPattern) and tree.state.flags & re.IGNORECASE:
        found |= {c for s in found for c in (s.lower(), s.upper()) if len(c) == 1}
    return found


class _Builder:
    """A nondeterministic automaton (Thompson) and its subset construction.

    Positions are numbers. From a position lead empty moves, one symbol move, or one assertion.
    """

    def __init__(self, pattern: str, alphabet: Sequence[str], flags: int) -> None:
        self.pattern, self.alphabet, self.flags = pattern, alphabet, flags
        self.empty: list[list[int]] = [[]]  # position 0 is the end of the pattern
        self.reads: list[tuple[int, int] | None] = [None]  # (set of symbols as bits, next position)
        self.asks: list[tuple[Any, int, int] | None] = [None]  # (assertion, flags, next position)
        self.sets: dict[tuple[str, int], int] = {}

    def position(
        self,
        empty: Iterable[int] = (),
        reads: tuple[int, int] | None = None,
        asks: tuple[Any, int, int] | None = None,
    ) -> int:
        if len(self.empty) >= MAX_POSITIONS:
            raise NotSupported(
                f"pattern {self.pattern!r}: more than {MAX_POSITIONS:,} positions once repeats are written out"
            )
        self.empty.append(list(empty))
        self.reads.append(reads)
        self.asks.append(asks)
        return len(self.empty) - 1

    # From the parse tree to positions, from right to left: each method returns where its part begins

    def sequence(self, tree: Any, after: int, flags: int) -> int:
        for op, value in reversed(list(tree)):
            after = self.part(op, value, after, flags)
        return after

    def part(self, op: Any, value: Any, after: int, flags: int) -> int:
        if op in (sre.LITERAL, sre.NOT_LITERAL, sre.IN, sre.ANY):
            return self.position(reads=(self.symbols(op, value, flags), after))
        if op is sre.BRANCH:
            return self.position([self.sequence(branch, after, flags) for branch in value[1]])
        if op is sre.SUBPATTERN:
            _, add, drop, inner = value
            return self.sequence(inner, after, sre_compiler._combine_flags(flags, add, drop))
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            low, high, inner = value
            return self.repeat(low, high, inner, after, flags)
        if op is sre.AT:
            return self.position(asks=(value, flags, after))
        if op is sre.FAILURE:
            return self.position()
        if op in (sre.ASSERT, sre.ASSERT_NOT):
            side = "lookahead ((?=…), (?!…))" if value[0] > 0 else "lookbehind ((?<=…), (?<!…))"
            raise NotSupported(
                f"pattern {self.pattern!r}: a {side} is not supported; say it without, or use & and - of DFAs"
            )
        raise NotSupported(f"pattern {self.pattern!r}: {REFUSED.get(op, f'{op} is not supported')}")

    def repeat(self, low: int, high: int, tree: Any, after: int, flags: int) -> int:
        if int(low) * max(1, len(tree)) > MAX_POSITIONS:
            raise NotSupported(f"pattern {self.pattern!r}: a repeat of {low} is too large")
        if high is sre.MAXREPEAT:
            loop = self.position([after])
            self.empty[loop].append(self.sequence(tree, loop, flags))
            begin = loop
        else:
            begin = after
            for _ in range(int(high) - int(low)):
                begin = self.position([after, self.sequence(tree, begin, flags)])
        for _ in range(int(low)):
            end, begin = begin, self.sequence(tree, begin, flags)
            if begin == end:  # nothing to read: more of it makes no difference
                break
        return begin

    def symbols(self, op: Any, value: Any, flags: int) -> int:
        """The symbols that one character class matches, as bits: asked of Python's own matcher."""
        key = (repr((op, value)), flags)
        if key not in self.sets:
            state = sre_parser.State()
            state.flags = flags
            matcher = sre_compiler.compile(sre_parser.SubPattern(state, [(op, value)]), flags)
            self.sets[key] = sum(1 << i for i, s in enumerate(self.alphabet) if matcher.fullmatch(s))
        return self.sets[key]

    # The subset construction

    def determinise(self, tree: Any, limit: int) -> DFA:
        begin = self.sequence(tree, 0, self.flags)
        asking = any(self.asks)
        groups, columns = self.groups(asking)
        first = (frozenset([(begin, FREE)]), START)
        number, queue, rows = {first: 0}, [first], []
        accepting = []
        cache: dict[Any, frozenset[tuple[int, int]]] = {}

        def closed(state: Any, right: int) -> frozenset[tuple[int, int]]:
            key = (*state, right) if asking else state
            if key not in cache:
                cache[key] = self.closure(state[0], state[1], right)
            return cache[key]

        for state in queue:
            accepting.append(any(p == 0 and rest != LAST_NEWLINE for p, rest in closed(state, END)))
            row = []
            for symbol in groups:
                right = self.kind(self.alphabet[symbol]) if asking else OTHER
                after = self.step(closed(state, right), symbol, right)
                target = (after, right if asking and after else START)
                if target not in number:
                    if len(number) >= limit:
                        raise NotSupported(f"pattern {self.pattern!r}: more than {limit:,} states; raise limit=")
                    number[target] = len(number)
                    queue.append(target)
                row.append(number[target])
            rows.append(row)
            cache.clear()
        return DFA(np.array(rows)[:, columns], np.array(accepting), tuple(self.alphabet))

    def groups(self, asking: bool) -> tuple[list[int], list[int]]:
        """One symbol of each group that the pattern cannot tell apart, and each symbol's group."""
        sets = sorted({reads[0] for reads in self.reads if reads})
        first: dict[Any, int] = {}
        columns = []
        for i, symbol in enumerate(self.alphabet):
            signature = (tuple(s >> i & 1 for s in sets), self.kind(symbol) if asking else None)
            columns.append(first.setdefault(signature, len(first)))
        return [columns.index(g) for g in range(len(first))], columns

    def kind(self, symbol: str) -> int:
        if symbol == "\n":
            return NEWLINE
        if re.match(r"\w", symbol, re.ASCII):
            return WORD
        return FOREIGN_WORD if re.match(r"\w", symbol) else OTHER

    def step(self, places: frozenset[tuple[int, int]], symbol: int, right: int) -> frozenset[tuple[int, int]]:
        after = set()
        for position, rest in places:
            reads = self.reads[position]
            if reads and reads[0] >> symbol & 1:
                if rest == FREE:
                    after.add((reads[1], FREE))
                elif rest == LAST_NEWLINE and right == NEWLINE:
                    after.add((reads[1], AT_END))
        return frozenset(after)

    def closure(self, places: Iterable[tuple[int, int]], left: int, right: int) -> frozenset[tuple[int, int]]:
        """All that empty moves and true assertions reach, between what lies to the left and to the right."""
        seen, stack = set(places), list(places)
        while stack:
            position, rest = stack.pop()
            found = [(p, rest) for p in self.empty[position]]
            ask = self.asks[position]
            if ask:
                found += [(ask[2], then) for then in self.holds(ask[0], ask[1], left, right, rest)]
            for place in found:
                if place not in seen:
                    seen.add(place)
                    stack.append(place)
        return frozenset(seen)

    def holds(self, ask: Any, flags: int, left: int, right: int, rest: int) -> list[int]:
        """Whether an assertion holds here: empty if not, else what the rest of the word must still be."""
        lines = bool(flags & re.MULTILINE)
        if ask in (sre.AT_BOUNDARY, sre.AT_NON_BOUNDARY):
            if left == START and right == END:
                differ = False
                if ask is sre.AT_NON_BOUNDARY and not EMPTY_IS_NON_BOUNDARY:
                    return []
            else:
                words = (WORD,) if flags & re.ASCII else (WORD, FOREIGN_WORD)
                differ = (left in words) != (right in words)
            return [rest] if differ == (ask is sre.AT_BOUNDARY) else []
        if ask in (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING):
            here = left == START or (lines and ask is sre.AT_BEGINNING and left == NEWLINE)
            return [rest] if here else []
        if right == END:
            return [rest]
        if ask is sre.AT_END and right == NEWLINE:
            if lines:
                return [rest]
            return [LAST_NEWLINE] if rest in (FREE, LAST_NEWLINE) else []
        return []
