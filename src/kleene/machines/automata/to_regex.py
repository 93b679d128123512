"""Kleene's theorem, the way back: a short regular expression of a finite automaton, by state elimination."""

from __future__ import annotations

import random

import numpy as np

from kleene.errors import NotSupported
from kleene.machines.automata.dfa import DFA
from kleene.machines.automata.expressions import Algebra, Term
from kleene.machines.automata.operations import alive

Edges = dict[int, dict[int, Term]]  # source → target → the term of the words that lead there

TRIED_STATES = 40  # up to this size, several orders of elimination are tried
ORDERS = 6
SIMPLIFIED_LENGTH = 4000  # longer terms are not simplified by inclusion


def to_regex(dfa: DFA, *, limit: int = 1_000_000) -> str:
    """A pattern for `kl.regex`: the shortest that several orders give, for the automaton and its reversal.

    limit: the longest pattern to write
    """
    for symbol in dfa.alphabet:
        if len(symbol) != 1:
            raise NotSupported(
                f"to_regex: the symbol {symbol!r} has several characters; a pattern has symbols of one character"
            )
    minimal = dfa.minimise()
    algebra = Algebra()
    candidates = _eliminations(minimal, algebra)
    if len(minimal) <= TRIED_STATES:
        try:
            mirrored = minimal.reverse(limit=4 * TRIED_STATES)
            candidates += [algebra.reverse(term) for term in _eliminations(mirrored, algebra)]
        except NotSupported:
            pass  # the reversal is much larger
    best = min(candidates, key=algebra.length)
    if algebra.length(best) > limit:
        raise NotSupported(f"to_regex: {algebra.length(best):,} characters, more than {limit:,}; raise limit=")
    shown = algebra.show(best)
    return shown if shown or not minimal.accepting.any() else ""


def _eliminations(dfa: DFA, algebra: Algebra) -> list[Term]:
    """Yield the simplified terms of several orders of elimination."""
    orders = ORDERS if len(dfa) <= TRIED_STATES else 1
    found = list(dict.fromkeys(eliminate(edges_of(dfa, algebra), algebra, seed) for seed in range(orders)))
    found.sort(key=algebra.length)
    simple = [algebra.simplify(t) for t in found[:3] if algebra.length(t) <= SIMPLIFIED_LENGTH]
    return found + simple


def edges_of(dfa: DFA, algebra: Algebra) -> Edges:
    """The automaton as a graph with one new start (−1) and one new end (−2); dead states are left out."""
    living = alive(dfa)
    edges: Edges = {-1: {}, -2: {}}
    for q in np.flatnonzero(living).tolist():
        symbols: dict[int, list[str]] = {}
        for symbol, r in zip(dfa.alphabet, dfa.table[q].tolist()):
            if living[r]:
                symbols.setdefault(r, []).append(symbol)
        edges[q] = {r: algebra.symbol(*listed) for r, listed in symbols.items()}
        if dfa.accepting[q]:
            edges[q][-2] = algebra.empty
    if living[dfa.start]:
        edges[-1][dfa.start] = algebra.empty
    return edges


def eliminate(edges: Edges, algebra: Algebra, seed: int = 0) -> Term:
    """Eliminate state after state, always the one that lengthens the terms least (Delgado and Morais)."""
    rng = random.Random(seed)
    while len(edges) > 2:
        state = cheapest(edges, algebra, rng if seed else None)
        take_out(edges, state, algebra)
    return edges[-1].get(-2, algebra.nothing)


def cheapest(edges: Edges, algebra: Algebra, rng: random.Random | None = None) -> int:
    """The state whose elimination writes the fewest new characters; `rng` perturbs the choice a little."""
    into: dict[int, list[int]] = {q: [] for q in edges}
    for p, row in edges.items():
        for q in row:
            if q != p:
                into[q].append(algebra.length(edges[p][q]))
    best, least = 0, float("inf")
    for q in edges:
        if q < 0:
            continue
        out = [algebra.length(term) for r, term in edges[q].items() if r != q]
        loop = algebra.length(edges[q][q]) if q in edges[q] else 0
        weight: float = (
            sum(into[q]) * (len(out) - 1) + sum(out) * (len(into[q]) - 1) + loop * (len(into[q]) * len(out) - 1)
        )
        if rng is not None:
            weight = weight * (1 + rng.random()) + rng.random()
        if weight < least:
            best, least = q, weight
    return best


def take_out(edges: Edges, state: int, algebra: Algebra) -> None:
    """Replace every path through a state by one term."""
    row = edges.pop(state)
    loop = algebra.star(row.pop(state)) if state in row else algebra.empty
    for outs in edges.values():
        through = outs.pop(state, None)
        if through is None:
            continue
        before = algebra.concat(through, loop)
        for r, term in row.items():
            way = algebra.concat(before, term)
            outs[r] = algebra.union(outs[r], way) if r in outs else way
