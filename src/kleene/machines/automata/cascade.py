"""Krohn–Rhodes: an automaton as a cascade of resets and counters (holonomy decomposition).

Sets of states that words lead to track the state: from all states down to a single one, through the tiles of
each set (the largest such sets inside it). A coordinate of height h says which tile of a set of height h the state is
in. A symbol either permutes the tiles of equivalent sets or resets the coordinate, and which of the two depends on
higher coordinates alone (Eilenberg; Egri-Nagy and Nehaniv). Permutations generate a group; a solvable one is a cascade
of counters modulo primes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kleene.errors import NotSupported, counted
from kleene.machines.automata.dfa import DFA
from kleene.machines.automata.monoid import components
from kleene.machines.automata.permutations import Permutation, coprime_triple, derived, generated, inverse, power, times

MAX_SETS = 800
MAX_TUPLES = 20_000
MAX_GROUP = 5_000
UNSOLVABLE = (
    "no cascade of resets and counters holds it (Krohn and Rhodes), and its word problem is complete for NC¹ "
    "(Barrington)"
)


@dataclass(frozen=True)
class Level:
    """One coordinate: a "reset" level takes a value or keeps its own; a "count" level adds modulo `size`, or becomes 0.

    `sets[u, a]` is the value that symbol a sets if the coordinates above have the number u, or −1; `adds[u, a]` is
    what symbol a adds.
    """

    kind: str
    size: int
    start: int
    sets: np.ndarray  # (above, symbol) → value, or −1
    adds: np.ndarray  # (above, symbol) → number, 0 for resets
    below: np.ndarray  # (above, value) → number of the coordinates down to this one, or −1 where no word leads there

    def after(self, above: int, value: int, symbol: int) -> int:
        """The next value."""
        wanted = int(self.sets[above, symbol])
        return wanted if wanted >= 0 else (value + int(self.adds[above, symbol])) % self.size


@dataclass(frozen=True)
class Cascade:
    """Levels, highest first; a level's action depends on the symbol and on the values above it before the symbol."""

    dfa: DFA  # minimal
    levels: tuple[Level, ...]
    states: np.ndarray  # (number of all coordinates) → state

    def run(self, word: Iterable[str]) -> int:
        """The state after a word, computed by the cascade alone."""
        values = [level.start for level in self.levels]
        for letter in word:
            symbol, above, after = self.dfa.index[letter], 0, []
            for level, value in zip(self.levels, values):
                after.append(level.after(above, value, symbol))
                above = int(level.below[above, value])
            values = after
        above = 0
        for level, value in zip(self.levels, values):
            above = int(level.below[above, value])
        return int(self.states[above])

    @cached_property
    def moduli(self) -> tuple[int, ...]:
        """The moduli of the counters."""
        return tuple(level.size for level in self.levels if level.kind == "count")

    def __str__(self) -> str:
        shown = ", ".join(f"{level.kind} {level.size}" for level in self.levels)
        return f"cascade of {counted(len(self.levels), 'level')}: {shown}"


def cascade(dfa: DFA) -> Cascade:
    """The cascade of the minimal automaton; `NotSupported` if a group is not solvable, or too large."""
    minimal = dfa.minimise()
    tiles = _Tiles(minimal)
    parts: list[_Part] = []
    for height in range(tiles.top, 0, -1):
        parts += _parts(tiles, height)
    return _tabulated(minimal, tiles, parts)


@contextmanager
def otherwise(advice: str) -> Iterator[None]:
    """Where an automaton is too large for its monoid or its cascade, say so, and what holds it."""
    try:
        yield
    except NotSupported as error:
        told = str(error)
        if not told.startswith(("monoid: ", "cascade: ")):
            raise
        raise NotSupported(f"compile: {told}; {advice}") from None


# --- sets and their tiles -----------------------------------------------------------------------------------

Set = frozenset[int]


class _Tiles:
    """The sets of states that words lead to, their heights, tiles and labels."""

    def __init__(self, dfa: DFA) -> None:
        self.dfa = dfa
        self.letters = [dfa.table[:, a].tolist() for a in range(len(dfa.alphabet))]
        everything = frozenset(range(len(dfa)))
        sets: dict[Set, int] = {everything: 0}
        queue = [everything]
        for found in queue:
            for letter in self.letters:
                after = frozenset(letter[q] for q in found)
                if after not in sets:
                    if len(sets) >= MAX_SETS:
                        raise NotSupported(f"cascade: words lead to more than {MAX_SETS:,} sets of states")
                    sets[after] = len(sets)
                    queue.append(after)
        for q in range(len(dfa)):
            sets.setdefault(frozenset([q]), len(sets))
        self.sets = list(sets)
        self.number = sets
        self._order()
        self._label()

    def image(self, members: Set, symbol: int) -> Set:
        letter = self.letters[symbol]
        return frozenset(letter[q] for q in members)

    def _order(self) -> None:
        """Classes of sets that lead to each other, and heights: the longest chains down to single states."""
        moves = np.array([[self.number[self.image(s, a)] for a in range(len(self.letters))] for s in self.sets])
        self.class_of = [0] * len(self.sets)
        members: list[list[int]] = []
        for group in components(moves):
            for i in group:
                self.class_of[i] = len(members)
            members.append(sorted(group))
        lower: list[set[int]] = [set() for _ in members]  # classes right below
        by_size = sorted(range(len(self.sets)), key=lambda i: len(self.sets[i]))
        masks = [sum(1 << q for q in s) for s in self.sets]
        inside: list[list[int]] = [[] for _ in self.sets]
        for i in by_size:
            lower[self.class_of[i]] |= {self.class_of[int(j)] for j in moves[i]} - {self.class_of[i]}
            if len(self.sets[i]) > 1:
                inside[i] = [j for j in by_size if masks[j] & masks[i] == masks[j] != masks[i]]
                lower[self.class_of[i]] |= {self.class_of[j] for j in inside[i]}
        self.members, self.inside, self.masks = members, inside, masks
        heights: dict[int, int] = {c: 0 for c, group in enumerate(members) if len(self.sets[group[0]]) == 1}

        def height(c: int) -> int:
            stack = [c]
            while stack:
                waiting = [] if stack[-1] in heights else [b for b in lower[stack[-1]] if b not in heights]
                stack += waiting
                if not waiting:
                    at = stack.pop()
                    if at not in heights:
                        heights[at] = 1 + max((heights[b] for b in lower[at]), default=0)
            return heights[c]

        self.height_of = [height(c) for c in self.class_of]
        self.top = self.height_of[0]

    def _label(self) -> None:
        """Number the tiles of each set like those of its class's representative.

        Classes of one height share no number.
        """
        self.tile_of: dict[int, dict[int, int]] = {}  # set → label → set
        self.labels: dict[int, dict[int, int]] = {}  # set → tile's set → label
        used: dict[int, int] = {}  # height → labels so far
        for group in self.members:
            first = group[0]
            if len(self.sets[first]) == 1:
                continue
            height = self.height_of[first]
            begin = used.get(height, 0)
            tiles = self._maximal(first)
            used[height] = begin + len(tiles)
            self.tile_of[first] = {begin + k: tile for k, tile in enumerate(tiles)}
            for i, mapping in self._bijections(first, set(group)).items():
                moved = {
                    k: self.number[frozenset(mapping[q] for q in self.sets[t])] for k, t in self.tile_of[first].items()
                }
                self.tile_of[i] = moved
            for i in group:
                self.labels[i] = {tile: k for k, tile in self.tile_of[i].items()}
        self.sizes = used

    def _maximal(self, i: int) -> list[int]:
        found: list[int] = []
        for j in sorted(self.inside[i], key=lambda j: -len(self.sets[j])):
            if not any(self.masks[j] & self.masks[k] == self.masks[j] for k in found):
                found.append(j)
        return found

    def _bijections(self, first: int, group: set[int]) -> dict[int, dict[int, int]]:
        """Map each set of a class to the map by which some word takes the representative to it."""
        maps = {first: {q: q for q in self.sets[first]}}
        queue = [first]
        for i in queue:
            for letter in self.letters:
                mapping = {q: letter[r] for q, r in maps[i].items()}
                j = self.number[frozenset(mapping.values())]
                if j in group and j not in maps:
                    maps[j] = mapping
                    queue.append(j)
        return maps

    def start_label(self, i: int, q: int) -> int:
        return next(k for k, tile in self.tile_of[i].items() if q in self.sets[tile])


# --- what a symbol does to a coordinate ------------------------------------------------------------------------


@dataclass(frozen=True)
class _Part:
    """The levels of one height: a reset level, and counters for the group where there is one."""

    height: int
    size: int
    series: tuple[_Step, ...]


@dataclass(frozen=True)
class _Step:
    """A subgroup of prime index in the group before: elements are subgroup · turn^count."""

    prime: int
    turns: tuple[Permutation, ...]  # turn^0 … turn^(prime − 1)
    count: dict[Permutation, int]  # element of the group before → count


def _parts(tiles: _Tiles, height: int) -> list[_Part]:
    """The part of a height, with the group that its permutations generate."""
    size = tiles.sizes.get(height, 0)
    if not size:
        return []
    found: set[Permutation] = set()
    for i, h in enumerate(tiles.height_of):
        if h == height:
            for a in range(len(tiles.letters)):
                j = tiles.number[tiles.image(tiles.sets[i], a)]
                if tiles.class_of[j] == tiles.class_of[i]:
                    found.add(_turned(tiles, i, j, a, size))
    try:
        group = generated(found, size, MAX_GROUP)
    except NotSupported:
        orders = coprime_triple(found)
        if orders is None:
            raise
        raise NotSupported(
            f"cascade: a group has more than {MAX_GROUP:,} elements and is not solvable (x, y and x·y have the orders "
            f"{', '.join(map(str, orders))}, which are coprime); {UNSOLVABLE}"
        ) from None
    return [_Part(height, size, _series(group, size))]


def _turned(tiles: _Tiles, i: int, j: int, symbol: int, size: int) -> Permutation:
    """How a symbol that takes set i to set j permutes the labels."""
    turned = list(range(size))
    for label, tile in tiles.tile_of[i].items():
        turned[label] = tiles.labels[j][tiles.number[tiles.image(tiles.sets[tile], symbol)]]
    return tuple(turned)


def _series(group: frozenset[Permutation], size: int) -> tuple[_Step, ...]:
    """A series of subgroups, each of prime index in the one before, down to the identity."""
    one = tuple(range(size))
    steps = []
    while len(group) > 1:
        commutators = derived(group)
        if len(commutators) == len(group):
            raise NotSupported(
                f"cascade: a group of {len(group)} elements is its own commutator subgroup; {UNSOLVABLE}"
            )
        index = len(group) // len(commutators)
        prime = next(p for p in range(2, index + 1) if index % p == 0)
        inside = generated(set(commutators) | {power(x, prime) for x in group}, size)
        for x in sorted(group):
            if len(group) // len(inside) == prime:
                break
            larger = generated(set(inside) | {x}, size)
            if len(larger) < len(group):
                inside = larger
        turn = min(group - inside)
        turns = tuple(power(turn, k) for k in range(prime))
        count = {times(h, t): k for k, t in enumerate(turns) for h in inside}
        steps.append(_Step(prime, turns, count))
        group = inside
    assert group == {one}
    return tuple(steps)


# --- the cascade on tuples of coordinates -----------------------------------------------------------------------

Values = tuple[int, ...]
Action = tuple[int, int]  # value that is set, or −1; number that is added


def _kinds(parts: list[_Part]) -> list[tuple[str, int]]:
    """The kind and size of each level: for each part a reset level, then its counters."""
    return [kind for part in parts for kind in [("reset", part.size), *(("count", s.prime) for s in part.series)]]


def _label_of(part: _Part, values: Values) -> int:
    """The label of a part: its last reset, turned by the group element that the counters hold."""
    label = values[0]
    for step, count in reversed(list(zip(part.series, values[1:]))):
        label = step.turns[count][label]
    return label


def _actions(tiles: _Tiles, parts: list[_Part], values: Values, symbol: int) -> tuple[Values, list[Action]]:
    """The next values, and the action on each. A part looks only at the parts above it."""
    old = new = 0  # numbers of the sets so far, before and after the symbol
    after: list[int] = []
    actions: list[Action] = []
    at = 0
    for part in parts:
        mine = values[at : at + 1 + len(part.series)]
        at += len(mine)
        done = _part_actions(tiles, part, old, new, mine, symbol)
        actions += done
        sizes = [part.size, *(step.prime for step in part.series)]
        next_mine = tuple(v if v >= 0 else (m + add) % size for (v, add), m, size in zip(done, mine, sizes))
        after += next_mine
        if tiles.height_of[old] == part.height:
            old = tiles.tile_of[old][_label_of(part, mine)]
        if tiles.height_of[new] == part.height:
            new = tiles.tile_of[new][_label_of(part, next_mine)]
    return tuple(after), actions


def _part_actions(tiles: _Tiles, part: _Part, old: int, new: int, mine: Values, symbol: int) -> list[Action]:
    counters = len(part.series)
    image = tiles.number[tiles.image(tiles.sets[old], symbol)]
    if tiles.height_of[new] < part.height:
        return [(0, 0)] * (1 + counters)
    if tiles.height_of[old] == part.height and image == new:
        turned = _turned(tiles, old, new, symbol, part.size)
        done: list[Action] = [(-1, 0)]
        for step, count in zip(part.series, mine[1:]):
            add = step.count[turned]
            done.append((-1, add))
            after = (count + add) % step.prime
            turned = times(times(step.turns[count], turned), inverse(step.turns[after]))
        return done
    wanted = tiles.masks[image]
    label = next(k for k, t in tiles.tile_of[new].items() if tiles.masks[t] & wanted == wanted)
    return [(label, 0), *[(0, 0)] * counters]


def _state(tiles: _Tiles, parts: list[_Part], values: Values) -> int:
    now, at = 0, 0
    for part in parts:
        mine = values[at : at + 1 + len(part.series)]
        at += len(mine)
        if tiles.height_of[now] == part.height:
            now = tiles.tile_of[now][_label_of(part, mine)]
    (q,) = tiles.sets[now]
    return q


def _first(tiles: _Tiles, parts: list[_Part]) -> Values:
    values: list[int] = []
    now = 0
    for part in parts:
        label = 0
        if tiles.height_of[now] == part.height:
            label = tiles.start_label(now, tiles.dfa.start)
            now = tiles.tile_of[now][label]
        values += [label, *[0] * len(part.series)]
    return tuple(values)


def _tabulated(dfa: DFA, tiles: _Tiles, parts: list[_Part]) -> Cascade:
    """All tuples that words reach, as one table per level. Each tuple is checked against the automaton."""
    kinds, symbols = _kinds(parts), len(dfa.alphabet)
    first = _first(tiles, parts)
    found: dict[Values, list[list[Action]]] = {first: []}
    queue = [first]
    for values in queue:
        for a in range(symbols):
            after, actions = _actions(tiles, parts, values, a)
            assert _state(tiles, parts, after) == dfa.table[_state(tiles, parts, values), a]
            found[values].append(actions)
            if after not in found:
                if len(found) >= MAX_TUPLES:
                    raise NotSupported(f"cascade: more than {MAX_TUPLES:,} tuples of coordinates")
                found[after] = []
                queue.append(after)
    levels = []
    above: dict[Values, int] = {(): 0}
    for at, (kind, size) in enumerate(kinds):
        sets = np.full((len(above), symbols), -1)
        adds = np.zeros((len(above), symbols), dtype=int)
        below = np.full((len(above), size), -1)
        inside: dict[Values, int] = {}
        for values, rows in found.items():
            u = above[values[:at]]
            for a, row in enumerate(rows):
                sets[u, a], adds[u, a] = row[at]
            below[u, values[at]] = inside.setdefault(values[: at + 1], len(inside))
        levels.append(Level(kind, size, first[at], sets, adds, below))
        above = inside
    states = np.empty(len(above), dtype=int)
    for values, number in above.items():
        states[number] = _state(tiles, parts, values)
    return _shortened(Cascade(dfa, tuple(levels), states))


def _shortened(made: Cascade) -> Cascade:
    """Drop the levels that have the same value in every word."""
    levels: list[Level] = []
    for level in made.levels:
        if bool(((level.below >= 0).sum(axis=1) == 1).all()) and (level.below.max() + 1 == len(level.below)):
            renumber = level.below.max(axis=1)  # one number below for each above
            if np.array_equal(renumber, np.arange(len(renumber))):
                continue
        levels.append(level)
    return Cascade(made.dfa, tuple(levels), made.states)
