"""Theorem 4.6: an exact RNN whose hidden vectors are finitely many becomes a finite automaton."""

from __future__ import annotations

from itertools import product

import numpy as np

from kleene.common.search import breadth_first
from kleene.errors import DidNotHalt, InputError, NotSupported
from kleene.machines.automata.alternating import AFA
from kleene.machines.automata.dfa import DFA
from kleene.networks.rnn.exact import ExactRNN
from kleene.networks.rnn.matrix import Vector

MAX_ALL_UNITS = 16


def decompile_rnn(
    rnn: ExactRNN, *, states: str = "reachable", limit: int = 100_000, to: str = "dfa"
) -> DFA | AFA | str:
    """The automaton of a network: its hidden vectors are the states.

    `states`: "reachable" (those that words reach, then minimised) or "all" (the theorem's 2^d + 1, for
    integer weights and SLU). Above `limit` hidden vectors, raise `DidNotHalt`: the language may not be
    regular. `to="afa"` gives the alternating automaton of the reversed language, `to="regex"` a regular expression.
    """
    if to == "afa":
        from kleene.decompilers.rnn_to_afa import rnn_to_afa

        return rnn_to_afa(rnn)
    if to == "regex":
        return reachable(rnn, limit)[0].to_regex()
    if to != "dfa" or states not in ("reachable", "all"):
        raise InputError(
            f"decompile: to={to!r}, states={states!r}; to is 'dfa', 'afa' or 'regex', states 'reachable' or 'all'"
        )
    return theorem_4_6(rnn) if states == "all" else reachable(rnn, limit)[0].minimise()


def reachable(rnn: ExactRNN, limit: int) -> tuple[DFA, list[Vector]]:
    """The automaton on the hidden vectors that words reach, breadth-first, and these vectors."""
    found = breadth_first(
        rnn.s,
        lambda g: (rnn.step(g, symbol) for symbol in range(len(rnn.alphabet))),
        key=lambda g: frozenset(g.items()),
        limit=limit,
        error=lambda: too_many_vectors(limit),
    )
    vectors, rows = zip(*found)
    accepting = np.array([rnn.accepting(g) for g in vectors])
    return DFA(np.array(rows), accepting, rnn.alphabet), list(vectors)


def too_many_vectors(limit: int) -> DidNotHalt:
    """The error for a network that reaches more hidden vectors than are tried."""
    said = f"more than {limit:,} hidden vectors can be reached"
    return DidNotHalt(f"{said}; the language may not be regular; or raise limit=")


def theorem_4_6(rnn: ExactRNN) -> DFA:
    """Q = {q₀} ∪ {0, 1}^d with its whole transition table; q₀ accepts when out(s) = 1."""
    if not rnn.integer or rnn.activation != "slu":
        raise NotSupported("decompile: states='all' needs integer weights and SLU units; use states='reachable'")
    if rnn.units > MAX_ALL_UNITS:
        raise NotSupported(
            f"decompile: states='all' would make 2^{rnn.units} + 1 states; at most {MAX_ALL_UNITS} units"
        )
    corners = list(product((0, 1), repeat=rnn.units))
    number = {corner: i + 1 for i, corner in enumerate(corners)}
    table, accepting = [], []
    ones: list[Vector] = [{i: 1 for i, bit in enumerate(corner) if bit} for corner in corners]
    for g in [rnn.s, *ones]:
        after = [rnn.step(g, symbol) for symbol in range(len(rnn.alphabet))]
        table.append([number[tuple(h.get(i, 0) for i in range(rnn.units))] for h in after])  # type: ignore[misc]
        accepting.append(rnn.accepting(g))
    names = ("q0", *("".join(map(str, corner)) for corner in corners))
    return DFA(np.array(table), np.array(accepting), rnn.alphabet, 0, names)
