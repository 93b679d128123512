"""The syntactic monoid of a regular language: what words do to the states of its minimal automaton."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kleene.common.alphabet import Word, encode
from kleene.errors import NotSupported
from kleene.machines.automata.dfa import DFA

MAX_ELEMENTS = 50_000
MAX_CELLS = 20_000_000  # elements × states


@dataclass(frozen=True, eq=False)
class Monoid:
    """The transformations of the minimal automaton's states that words make; element 0 is the empty word's.

    >>> from kleene.machines.automata.regex import regex
    >>> parity = regex("(0|10*1)*").monoid
    >>> len(parity), parity.word(1), parity.element("0110")
    (2, '1', 0)
    """

    dfa: DFA  # minimal
    maps: np.ndarray  # (element, state) → state
    right: np.ndarray  # (element, symbol) → the element followed by the symbol
    parents: np.ndarray  # (element,) → the element before
    last: np.ndarray  # (element,) → the last symbol of its shortest word

    def __len__(self) -> int:
        return int(self.maps.shape[0])

    def codes(self, element: int) -> list[int]:
        """The shortest word of an element, as columns of the alphabet."""
        found = []
        while element:
            found.append(int(self.last[element]))
            element = int(self.parents[element])
        return found[::-1]

    def word(self, element: int) -> Word:
        """The shortest word of an element."""
        return self.dfa.spell(self.codes(element))

    def nonempty_word(self, element: int) -> Word:
        """The shortest nonempty word of an element of the semigroup."""
        if element:
            return self.word(element)
        before, symbol = min(np.argwhere(self.right == 0).tolist(), key=lambda cell: len(self.codes(cell[0])))
        return self.dfa.spell([*self.codes(before), symbol])

    def element(self, word: Word) -> int:
        """The element of a word."""
        found = 0
        for code in encode(word, self.dfa.index):
            found = int(self.right[found, code])
        return found

    @cached_property
    def number(self) -> dict[bytes, int]:
        """Map each transformation to its element."""
        return {row.tobytes(): i for i, row in enumerate(self.maps)}

    def find(self, rows: np.ndarray) -> np.ndarray:
        """The elements of transformations, one per row."""
        wanted = np.ascontiguousarray(rows, dtype=self.maps.dtype)
        return np.array([self.number[row.tobytes()] for row in wanted], dtype=np.int64)

    def multiply(self, first: int, then: int) -> int:
        """The product: the element of a word of x followed by a word of y."""
        return self.number[np.ascontiguousarray(self.maps[then][self.maps[first]]).tobytes()]

    @cached_property
    def left(self) -> np.ndarray:
        """(element, symbol) → the symbol followed by the element."""
        columns = [self.find(self.maps[:, self.dfa.table[:, a]]) for a in range(len(self.dfa.alphabet))]
        return np.stack(columns, axis=1)

    @cached_property
    def idempotents(self) -> np.ndarray:
        """The elements e with e·e = e."""
        squares = np.take_along_axis(self.maps, self.maps.astype(np.int64), axis=1)
        return np.flatnonzero((squares == self.maps).all(axis=1))

    @cached_property
    def semigroup(self) -> np.ndarray:
        """The elements of nonempty words: all except 0, and 0 if some nonempty word acts like the empty word."""
        return np.unique(self.right)

    def is_accepting(self, element: int) -> bool:
        """Whether the words of an element are in the language."""
        return bool(self.dfa.accepting[self.maps[element, self.dfa.start]])

    def periods(self) -> np.ndarray:
        """Whether the powers of each element x never settle: xⁿ ≠ xⁿ⁺¹ for all n."""
        power = self.maps.astype(np.int64)
        step = power.copy()
        for _ in range(max(1, int(self.maps.shape[1]).bit_length())):
            power = np.take_along_axis(power, power, axis=1)
        after = np.take_along_axis(step, power, axis=1)
        return np.asarray((after != power).any(axis=1))

    def group_at(self, idempotent: int) -> list[tuple[int, ...]]:
        """The maximal subgroup around an idempotent, as permutations of its image."""
        e = self.maps[idempotent]
        image = np.unique(e)
        fixed = (e[self.maps] == self.maps).all(axis=1) & (self.maps[:, e] == self.maps).all(axis=1)
        place = {int(q): i for i, q in enumerate(image)}
        found = []
        for row in self.maps[fixed][:, image]:
            if len(set(row.tolist())) == len(image):
                found.append(tuple(place[q] for q in row.tolist()))
        return found

    def stable(self) -> tuple[int, frozenset[int]]:
        """A length s such that words of s and of 2s symbols give the same elements, and these elements.

        The elements form the stable semigroup: those of all words whose length is a multiple of s.
        """
        seen: dict[frozenset[int], int] = {}
        sets: list[frozenset[int]] = []
        now = frozenset(self.right[0].tolist())
        while now not in seen:
            seen[now] = len(sets) + 1
            sets.append(now)
            now = frozenset(np.unique(self.right[sorted(now)]).tolist())
        begin = seen[now]
        period = len(sets) + 1 - begin
        s = -(-begin // period) * period
        return s, sets[s - 1]


def syntactic_monoid(dfa: DFA, limit: int = MAX_ELEMENTS, *, whole: bool = True) -> Monoid:
    """The transition monoid of the minimal automaton, shortest words first.

    Above `limit` elements, raise `NotSupported`; or, unless `whole`, give the first ones, with the products between
    them that are known.
    """
    minimal = dfa.minimise()
    states, symbols = minimal.table.shape
    kind = np.int32
    letters = [np.ascontiguousarray(minimal.table[:, a], dtype=kind) for a in range(symbols)]
    identity = np.arange(states, dtype=kind)
    number = {identity.tobytes(): 0}
    maps, parents, last, right = [identity], [0], [0], list[list[int]]()
    most = min(limit, max(1000, MAX_CELLS // states))
    for i, row in enumerate(maps):
        targets = []
        for a, letter in enumerate(letters):
            after = letter[row]
            key = after.tobytes()
            if key not in number:
                if len(maps) >= most and not whole:
                    return Monoid(minimal, np.stack(maps), np.array(right), np.array(parents), np.array(last))
                if len(maps) >= most:
                    raise NotSupported(f"monoid: more than {most:,} elements; the automaton has {states:,} states")
                number[key] = len(maps)
                maps.append(after)
                parents.append(i)
                last.append(a)
            targets.append(number[key])
        right.append(targets)
    return Monoid(minimal, np.stack(maps), np.array(right), np.array(parents), np.array(last))


def components(edges: np.ndarray) -> Iterator[list[int]]:
    """The strongly connected components of a graph (Tarjan, without recursion); edges[i] are i's targets."""
    rows = edges.tolist()
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    for root in range(len(rows)):
        if root in index:
            continue
        work: list[tuple[int, Iterable[int]]] = [(root, iter(rows[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, targets = work[-1]
            new = next((t for t in targets if t not in index or (t in on_stack and _lower(low, index, node, t))), None)
            if new is not None and new not in index:
                index[new] = low[new] = len(index)
                stack.append(new)
                on_stack.add(new)
                work.append((new, iter(rows[new])))
                continue
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[node])
            if low[node] == index[node]:
                found = []
                while True:
                    top = stack.pop()
                    on_stack.discard(top)
                    found.append(top)
                    if top == node:
                        break
                yield found


def _lower(low: dict[int, int], index: dict[int, int], node: int, target: int) -> bool:
    """Note an edge back to a node on the stack; the search for new nodes goes on."""
    low[node] = min(low[node], index[target])
    return False
