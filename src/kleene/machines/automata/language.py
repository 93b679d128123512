"""The words of an automaton as a collection: count them, list them in order, draw them with equal probability."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cached_property
from itertools import count as naturals
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from kleene.common.alphabet import Word
from kleene.errors import InputError

if TYPE_CHECKING:
    from kleene.machines.automata.dfa import DFA

MAX_COUNTS = 30_000_000  # numbers kept for counting: states × lengths


class Language:
    """The words of an automaton, shortest first and then in the order of the alphabet.

    >>> from kleene.machines.automata.regex import regex
    >>> words = regex("a{1,2}b?").language
    >>> len(words), list(words), "ab" in words, words[2]
    (4, ['a', 'aa', 'ab', 'aab'], True, 'ab')
    >>> regex("(a|b)*").language.count(10)
    1024
    """

    def __init__(self, dfa: DFA) -> None:
        self.dfa = dfa
        self._counts: list[np.ndarray] = [dfa.accepting.astype(object) * 1]  # length → (state,) → how many words

    def __contains__(self, word: object) -> bool:
        return word in self.dfa

    def __iter__(self) -> Iterator[Word]:
        return self.words()

    def __len__(self) -> int:
        """The number of words. Raise an InputError if it is infinite."""
        if self.longest is None:
            raise InputError("language: there are infinitely many words; count(length) counts the words of one length")
        return sum(self.count(n) for n in range(self.longest + 1))

    def __bool__(self) -> bool:
        return not self.dfa.is_empty()

    def __getitem__(self, index: int) -> Word:
        """The word at an index, found without listing the words before it."""
        if not isinstance(index, int | np.integer) or index < 0:
            raise InputError(f"language: index {index!r} must be a whole number, 0 or more")
        left = int(index)
        for length in naturals():
            if self.longest is not None and length > self.longest:
                raise IndexError(f"language: index {index} is outside its {len(self)} words")
            if left < self.count(length):
                return self._unranked(left, length)
            left -= self.count(length)
        raise AssertionError

    @cached_property
    def longest(self) -> int | None:
        """The length of a longest word; None if lengths are unbounded, −1 if there are no words."""
        from kleene.machines.automata.operations import alive

        useful = self.dfa.reachable()
        living = alive(useful)
        if not living[useful.start]:
            return -1
        rows = [[r for r in set(row) if living[r]] for row in useful.table.tolist()]
        waiting = np.zeros(len(useful), dtype=np.int64)
        for q in np.flatnonzero(living).tolist():
            for r in rows[q]:
                waiting[r] += 1
        depth = {useful.start: 0} if not waiting[useful.start] else {}
        queue = list(depth)
        for q in queue:  # in topological order: a state comes once all that lead to it have come
            for r in rows[q]:
                depth[r] = max(depth.get(r, 0), depth[q] + 1)
                waiting[r] -= 1
                if not waiting[r]:
                    queue.append(r)
        if len(queue) < int(living.sum()):
            return None  # a cycle
        return max(d for q, d in depth.items() if useful.accepting[q])

    def count(self, length: int) -> int:
        """The exact number of words of this length."""
        return int(self._ways(_checked(length))[self.dfa.start])

    def _ways(self, length: int) -> np.ndarray:
        """The number of words of this length that lead from each state to an accepting one."""
        if (length + 1) * len(self.dfa) > MAX_COUNTS:
            raise InputError(f"language: length {length:,} and {len(self.dfa):,} states are too large to count words")
        while len(self._counts) <= length:
            self._counts.append(self._counts[-1][self.dfa.table].sum(axis=1))
        return self._counts[length]

    def _unranked(self, index: int, length: int) -> Word:
        """Word number `index` among those of one length."""
        state, codes = self.dfa.start, []
        for rest in range(length - 1, -1, -1):
            ways = self._ways(rest)
            for code, r in enumerate(self.dfa.table[state].tolist()):
                if index < ways[r]:
                    codes.append(code)
                    state = r
                    break
                index -= int(ways[r])
        return self.dfa.spell(codes)

    def shortest(self) -> Word | None:
        """The first word, or None."""
        from kleene.machines.automata.operations import distances

        distance = distances(self.dfa)
        state, codes = self.dfa.start, []
        if distance[state] < 0:
            return None
        while distance[state] > 0:
            ahead = distance[self.dfa.table[state]]
            codes.append(int(np.flatnonzero(ahead == distance[state] - 1)[0]))
            state = int(self.dfa.table[state, codes[-1]])
        return self.dfa.spell(codes)

    def words(self, most: int | None = None) -> Iterator[Word]:
        """Yield the words in order, at most `most` of them."""
        return islice(self._all(), None if most is None else _checked(most, "most"))

    def _all(self) -> Iterator[Word]:
        if self.longest == -1:
            return
        reaches = [self.dfa.accepting]  # length → (state,) → whether a word of this length leads to acceptance
        for length in naturals():
            if self.longest is not None and length > self.longest:
                return
            if length:
                reaches.append(reaches[-1][self.dfa.table].any(axis=1))
            yield from self._of_length(length, reaches)

    def _of_length(self, length: int, reaches: list[np.ndarray]) -> Iterator[Word]:
        """The words of one length, by a search that enters no dead end."""
        if not reaches[length][self.dfa.start]:
            return
        codes: list[int] = []
        path = [self.dfa.start]
        nexts = [iter(range(len(self.dfa.alphabet)))]
        while nexts:
            if len(codes) == length:
                yield self.dfa.spell(codes)
            else:
                rest = length - len(codes) - 1
                row = self.dfa.table[path[-1]]
                code = next((c for c in nexts[-1] if reaches[rest][row[c]]), None)
                if code is not None:
                    codes.append(code)
                    path.append(int(row[code]))
                    nexts.append(iter(range(len(self.dfa.alphabet))))
                    continue
            nexts.pop()
            path.pop()
            if codes:
                codes.pop()

    def sample(self, length: int, seed: int | np.random.Generator = 0) -> Word:
        """Draw a word of this length. Every word has the same probability."""
        total = self.count(length)
        if not total:
            raise InputError(f"language: no word has length {length}; count(length) gives the number of words")
        number = int(seed.integers(2**63)) if isinstance(seed, np.random.Generator) else seed
        return self._unranked(random.Random(number).randrange(total), length)


def _checked(number: int, what: str = "length") -> int:
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 0:
        raise InputError(f"language: {what} {number!r} must be a whole number, 0 or more")
    return int(number)
