"""Classes of regular languages, each decided with a witness that a person can check."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields

import numpy as np

from kleene.common.alphabet import Word, show_word
from kleene.errors import NotSupported
from kleene.machines.automata.dfa import DFA
from kleene.machines.automata.monoid import Monoid, components, syntactic_monoid
from kleene.machines.automata.operations import alive
from kleene.machines.automata.permutations import Permutation, derived

SOME_ELEMENTS = 3_000  # of a monoid that is too large, to look for proofs in


@dataclass(frozen=True)
class Verdict:
    """Whether a language is in a class, a sentence that says why, and the words or numbers that prove it."""

    holds: bool
    reason: str
    witness: tuple[object, ...] = ()

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        return f"{'yes' if self.holds else 'no'}: {self.reason}"


@dataclass(frozen=True)
class Classes:
    """The verdict for each class."""

    strictly_local: Verdict
    locally_testable: Verdict
    piecewise_testable: Verdict
    star_free: Verdict
    group: Verdict
    solvable: Verdict
    ac0: Verdict
    acc0: Verdict
    nc1: Verdict

    def __str__(self) -> str:
        return "\n".join(f"{f.name.replace('_', ' '):18} {getattr(self, f.name)}" for f in fields(self))

    def to_json(self) -> dict[str, dict[str, object]]:
        """Plain data."""
        verdicts = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: {"holds": v.holds, "reason": v.reason, "witness": [*v.witness]} for name, v in verdicts.items()}


def classify(dfa: DFA) -> Classes:
    """All classes."""
    solved = solvable(dfa)
    return Classes(
        strictly_local(dfa),
        locally_testable(dfa),
        piecewise_testable(dfa),
        star_free(dfa),
        group(dfa),
        solved,
        ac0(dfa),
        acc0(solved),
        Verdict(True, "every regular language is in NC¹: products in a finite monoid, in a tree of logarithmic depth"),
    )


def _shown(word: Word) -> str:
    return repr(show_word(word)) if word else "the empty word"


def strictly_local(dfa: DFA) -> Verdict:
    """Whether the factors of some length k, with the word's ends, decide membership.

    The language is strictly k-local if k − 1 symbols determine the state: such a word takes any two live states that it
    keeps alive to one state. So the graph of pairs of different live states must have no cycle; its longest path gives
    k.
    """
    minimal = dfa.minimise()
    living = np.flatnonzero(alive(minimal)).tolist()
    pairs = {(p, q): i for i, (p, q) in enumerate((p, q) for p in living for q in living if p < q)}
    after: list[list[tuple[int, int]]] = []  # pair → (symbol, pair)
    for p, q in pairs:
        moves = []
        for a in range(len(minimal.alphabet)):
            r, s = sorted((int(minimal.table[p, a]), int(minimal.table[q, a])))
            if (r, s) in pairs:
                moves.append((a, pairs[r, s]))
        after.append(moves)
    loop = _cycle(after)
    if loop is not None:
        first, codes = loop
        p, q = list(pairs)[first]
        word = minimal.spell(codes * 2 if _swaps(minimal, p, q, codes) else codes)
        reason = f"{_shown(word)} can be repeated for ever and leads states {p} and {q} back to themselves"
        return Verdict(False, reason, (word, p, q))
    k = _longest_path(after) + 2 if pairs else 1
    return Verdict(True, f"any {k} neighbouring symbols, ends included, decide (k = {k})", (k,))


def _swaps(dfa: DFA, p: int, q: int, codes: list[int]) -> bool:
    for code in codes:
        p, q = int(dfa.table[p, code]), int(dfa.table[q, code])
    return p > q


def _cycle(after: list[list[tuple[int, int]]]) -> tuple[int, list[int]] | None:
    """A node on a cycle and the symbols around it; None where there is no cycle."""
    colour = [0] * len(after)
    for root in range(len(after)):
        if colour[root]:
            continue
        path: list[tuple[int, int]] = [(root, -1)]
        iterators: list[Iterator[tuple[int, int]]] = [iter(after[root])]
        colour[root] = 1
        while iterators:
            move = next(iterators[-1], None)
            if move is None:
                colour[path.pop()[0]] = 2
                iterators.pop()
            elif colour[move[1]] == 1:
                begin = next(i for i, (node, _) in enumerate(path) if node == move[1])
                return move[1], [symbol for _, symbol in path[begin + 1 :]] + [move[0]]
            elif colour[move[1]] == 0:
                colour[move[1]] = 1
                path.append((move[1], move[0]))
                iterators.append(iter(after[move[1]]))
    return None


def _longest_path(after: list[list[tuple[int, int]]]) -> int:
    """The number of edges on the longest path of an acyclic graph."""
    depth: dict[int, int] = {}
    for root in range(len(after)):
        stack = [root]
        while stack:
            node = stack[-1]
            waiting = [t for _, t in after[node] if t not in depth]
            if waiting:
                stack += waiting
            else:
                depth[node] = max((1 + depth[t] for _, t in after[node]), default=0)
                stack.pop()
    return max(depth.values(), default=0)


def locally_testable(dfa: DFA) -> Verdict:
    """Whether the set of factors of some length, with the word's ends, decides membership.

    The theorem (Brzozowski and Simon; McNaughton): around every idempotent e of the syntactic semigroup S, eSe is
    idempotent and commutative.
    """
    m = dfa.monoid
    inside = m.semigroup
    for e in [int(e) for e in m.idempotents if e in set(inside.tolist())]:
        rows = np.unique(m.maps[e][m.maps[inside][:, m.maps[e]]], axis=0)
        squares = np.take_along_axis(rows, rows.astype(np.int64), axis=1)
        bad = np.flatnonzero((squares != rows).any(axis=1))
        if bad.size:
            x = int(m.find(rows[bad[:1]])[0])
            around = m.nonempty_word(e)
            reason = f"around {_shown(around)}, {_shown(m.nonempty_word(x))} once is not the same as twice"
            return Verdict(False, reason, (around, m.nonempty_word(x)))
        for i, row in enumerate(rows):
            first, second = rows[:, row], row[rows]  # row then others; others then row
            bad = np.flatnonzero((first != second).any(axis=1))
            if bad.size:
                x, y = (int(z) for z in m.find(rows[[i, bad[0]]]))
                around, u, v = (m.nonempty_word(z) for z in (e, x, y))
                reason = f"around {_shown(around)}, {_shown(u)} and {_shown(v)} do not commute"
                return Verdict(False, reason, (around, u, v))
    return Verdict(True, "around every idempotent, words are idempotent and commute", (len(m),))


def piecewise_testable(dfa: DFA) -> Verdict:
    """Whether the set of scattered subwords of some length decides membership (Simon: the monoid is J-trivial)."""
    m = dfa.monoid
    for name, edges in (("to the right", m.right), ("to the left", m.left)):
        for found in components(edges):
            if len(found) > 1:
                x, y = sorted(found)[:2]
                both = f"{_shown(m.word(x))} and {_shown(m.word(y))}"
                reason = f"{both} act differently, and each leads to the other {name}"
                return Verdict(False, reason, (m.word(x), m.word(y), name))
    return Verdict(True, "no two words that act differently lead to each other (the monoid is J-trivial)", (len(m),))


def counting(dfa: DFA, counts: Callable[[int], bool]) -> tuple[Word, list[int]] | None:
    """A short word that turns states in a cycle of a length that `counts`, and the cycle.

    Only some thousand words are tried, so None says nothing. A word found is proof, whatever the monoid's size.
    """
    return _turning(syntactic_monoid(dfa, SOME_ELEMENTS, whole=False), range(SOME_ELEMENTS), counts)


def _turning(
    m: Monoid, elements: Iterable[int], counts: Callable[[int], bool] = lambda length: length > 1
) -> tuple[Word, list[int]] | None:
    """A word among some elements that turns states in a cycle of a length that `counts`, and the cycle."""
    turning = m.periods()
    for x in elements:
        if x < len(m) and turning[x]:
            row = m.maps[x].tolist()
            state = m.dfa.start
            for start in range(len(row)):
                state, seen = start, list[int]()
                while state not in seen:
                    seen.append(state)
                    state = row[state]
                cycle = seen[seen.index(state) :]
                if counts(len(cycle)):
                    return m.word(x), cycle
    return None


def star_free(dfa: DFA) -> Verdict:
    """Whether complement can replace star (Schützenberger: no word of the monoid has a period)."""
    try:
        found = _turning(dfa.monoid, range(len(dfa.monoid)))
    except NotSupported:
        found = counting(dfa, lambda length: length > 1)
        if found is None:
            raise
    if found is None:
        return Verdict(True, "no word turns states in a cycle (the monoid is aperiodic)", (len(dfa.monoid),))
    word, cycle = found
    return Verdict(False, f"{_shown(word)} turns {len(cycle)} states in a cycle", (word, tuple(cycle)))


def group(dfa: DFA) -> Verdict:
    """Whether every symbol permutes the states of the minimal automaton."""
    minimal = dfa.minimise()
    for a, symbol in enumerate(minimal.alphabet):
        column = minimal.table[:, a].tolist()
        seen: dict[int, int] = {}
        for q, r in enumerate(column):
            if r in seen:
                reason = f"{symbol!r} takes states {seen[r]} and {q} to one"
                return Verdict(False, reason, (symbol, seen[r], q))
            seen[r] = q
    return Verdict(True, "every symbol permutes the states", (len(minimal),))


def solvable(dfa: DFA) -> Verdict:
    """Whether every group in the syntactic monoid is solvable."""
    m = dfa.monoid
    seen: set[frozenset[Permutation]] = set()
    orders = set()
    for e in m.idempotents.tolist():
        elements = frozenset(m.group_at(e))
        if elements in seen:
            continue
        seen.add(elements)
        orders.add(len(elements))
        core = _perfect_core(elements)
        if len(core) > 1:
            around = f"around {_shown(m.word(e))} is a group of {len(elements)} elements"
            reason = f"{around} whose perfect core has {len(core)}"
            return Verdict(False, reason, (m.word(e), len(elements), len(core)))
    sizes = ", ".join(map(str, sorted(orders)))
    return Verdict(True, f"its groups are solvable; their orders: {sizes}", (*sorted(orders),))


def _perfect_core(elements: frozenset[Permutation]) -> frozenset[Permutation]:
    """The last group of the series of commutator subgroups: one element for a solvable group."""
    current = elements
    while len(current) >= 60:  # smaller groups are solvable
        commutators = derived(current)
        if commutators == current:
            return current
        current = commutators
    return frozenset([min(elements)])


def ac0(dfa: DFA) -> Verdict:
    """Whether circuits of constant depth decide it.

    The theorem (Barrington, Compton, Straubing and Thérien): the words of one length, for every length, contain no
    group; so the stable semigroup is aperiodic.
    """
    m = dfa.monoid
    length, elements = m.stable()
    found = _turning(m, sorted(elements))
    if found is None:
        reason = f"words of every multiple of {length} symbols turn no states in a cycle"
        return Verdict(True, reason, (length,))
    word, cycle = found
    reason = (
        f"words as long as multiples of {length} do what {_shown(word)} does, and it turns {len(cycle)} states in a "
        "cycle: counting them is parity, or harder"
    )
    return Verdict(False, reason, (word, tuple(cycle), length))


def acc0(solved: Verdict) -> Verdict:
    """Whether circuits of constant depth with counting gates decide it (Barrington and Thérien)."""
    if solved:
        return Verdict(True, "every group of the monoid is solvable: a cascade of counters and resets", solved.witness)
    reason = f"{solved.reason}: complete for NC¹, so in ACC⁰ only if ACC⁰ = NC¹"
    return Verdict(False, reason, solved.witness)
