"""Theorem 4.4: a finite automaton becomes a simple RNN with integer weights, in three ways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, permutations

import numpy as np

from kleene.compilers.two_layer import TwoLayerStep, fuse
from kleene.errors import InputError, NotSupported
from kleene.machines.automata.dfa import DFA
from kleene.machines.automata.kernels import breadth_first
from kleene.networks.rnn.exact import ExactRNN
from kleene.networks.rnn.matrix import Matrix, Number, Vector

METHODS = ("balanced", "smallest", "minsky", "image", "scalar")
MAX_WEIGHTS = 20_000_000


def compile_dfa(dfa: DFA, *, method: str = "balanced", activation: str = "relu") -> ExactRNN:
    """Build a simple RNN with integer weights whose output is 1 on the words that `dfa` accepts and 0 on others.

    - `method`: "minsky" (the construction of the chapter, |Q||Σ| + 1 units), "image" (a unit for each state and symbol
      that leads to it), "scalar" (the state is one number; ReLU only); "smallest" takes the one with the fewest units,
      "balanced" the one with the least product of units and non-zero weights. Both try the automaton and the
      minimal one. `rnn.sizes` says how many units each needs, and `rnn.weights_each_way` about how many weights.
    """
    if method not in METHODS:
        raise InputError(f"compile: method {method!r}; it should be one of {', '.join(METHODS)}")
    if activation not in ("relu", "slu"):
        raise InputError(f"compile: activation {activation!r}; it should be 'relu' or 'slu'")
    if method == "scalar" and activation == "slu":
        raise NotSupported("compile: method 'scalar' needs numbers above 1, which SLU cuts off; use activation='relu'")
    choice = _chosen(dfa, method, activation)
    source = choice.source
    if choice.name != "scalar" and source.table.size * len(source.alphabet) > MAX_WEIGHTS:
        raise NotSupported(
            f"compile: {len(source):,} states over {len(source.alphabet)} symbols need more than "
            f"{MAX_WEIGHTS:,} weights by {choice.name!r}"
        )
    each = _ways(source, activation)
    about: dict[str, object] = {
        "method": choice.name,
        "sizes": {way.name: way.units for way in each},
        "weights": {way.name: way.weights for way in each},
        "machine": dfa.to_json(),
    }
    return {"minsky": minsky, "image": image, "scalar": scalar}[choice.name](source, activation, about)


@dataclass(frozen=True)
class Way:
    """A construction for an automaton: how many units it needs, and about how many weights that are not zero."""

    name: str
    source: DFA
    units: int
    weights: int


def _ways(source: DFA, activation: str) -> list[Way]:
    """The sizes of each construction, without making it."""
    symbols = len(source.alphabet)
    pairs = source.table.size
    image_units = _image_size(source)
    made = [
        Way("minsky", source, pairs + 1, pairs * (symbols + 3)),
        Way("image", source, image_units, image_units * (symbols + 3)),
    ]
    if activation == "relu":
        best = min(_numberings(source), key=_scalar_size)
        units = _scalar_size(best)
        moves, answers = _bends(best.table) != 0, _bends(best.accepting[best.table]) != 0
        made.append(Way("scalar", source, units, int((moves | answers).sum()) * int(moves.sum() + 1) + 3 * units))
    return made


def _chosen(dfa: DFA, method: str, activation: str) -> Way:
    """The construction that a method names, or the best one, of the automaton itself or of the minimal one."""
    if method not in ("balanced", "smallest"):
        return next(way for way in _ways(dfa, activation) if way.name == method)
    minimal = dfa.minimise()
    ways = _ways(minimal, activation)
    if dfa.table.shape != minimal.table.shape or not np.array_equal(dfa.table, minimal.table):
        ways += _ways(dfa, activation)
    if method == "smallest":
        return min(ways, key=lambda way: (way.units, way.weights))
    return min(ways, key=lambda way: (way.units * way.weights, way.units))


def minsky_step(dfa: DFA) -> TwoLayerStep:
    """Equations (4.9)–(4.12): h is the one-hot state, g[q, a] = h[q] ∧ x[a], and δ is the second layer."""
    states, symbols = dfa.table.shape
    pairs = [(q, a) for q in range(states) for a in range(symbols)]
    return TwoLayerStep(
        dfa.alphabet,
        s={dfa.start: 1},
        V=Matrix(len(pairs), states, {(i, q): 1 for i, (q, _) in enumerate(pairs)}),
        W=Matrix(len(pairs), symbols, {(i, a): 1 for i, (_, a) in enumerate(pairs)}),
        b={i: -1 for i in range(len(pairs))},
        U=Matrix(states, len(pairs), {(int(dfa.table[q, a]), i): 1 for i, (q, a) in enumerate(pairs)}),
        out_W=Matrix(1, states, {(0, int(q)): 1 for q in np.flatnonzero(dfa.accepting)}),
        names=tuple(dfa.name(q) for q in range(states)),
    )


def minsky(dfa: DFA, activation: str, about: dict[str, object]) -> ExactRNN:
    """The construction of the chapter: `minsky_step` through Lemma 4.5."""
    return fuse(minsky_step(dfa), ExactRNN, activation=activation, largest=1, about=about)


def _images(dfa: DFA) -> tuple[list[tuple[int, int]], bool]:
    """The pairs (state, symbol) where the symbol leads to the state, and whether the start is among these states."""
    symbols = len(dfa.alphabet)
    codes = np.unique(dfa.table.astype(np.int64) * symbols + np.arange(symbols))
    pairs = [(int(c) // symbols, int(c) % symbols) for c in codes]
    return pairs, bool((dfa.table == dfa.start).any())


def _image_size(dfa: DFA) -> int:
    pairs, returns = _images(dfa)
    return len(pairs) + (not returns)


def image(
    dfa: DFA, activation: str, about: dict[str, object], values: Sequence[int] | np.ndarray | None = None
) -> ExactRNN:
    """One unit for each pair (r, a) with a preimage: σ(Σ_{δ(q,a)=r} h[q] + x[a] − 1), where h[q] = Σ_a g[q, a].

    The output is 1 at accepting states, or the states' `values`.
    """
    answers = (dfa.accepting if values is None else np.asarray(values)).astype(int).tolist()
    pairs, returns = _images(dfa)
    unit = {pair: i for i, pair in enumerate(pairs)}
    states = [q for q, _ in pairs] + ([] if returns else [dfa.start])  # the state of each unit
    size, symbols = len(states), len(dfa.alphabet)
    table = dfa.table.tolist()
    V = {(unit[table[q][a], a], j): 1 for j, q in enumerate(states) for a in range(symbols)}
    return ExactRNN(
        dfa.alphabet,
        V=Matrix(size, size, V),  # type: ignore[arg-type]
        W=Matrix(size, symbols, {(i, a): 1 for (_, a), i in unit.items()}),
        b={i: -1 for i in range(len(pairs))},
        s={states.index(dfa.start) if returns else size - 1: 1},
        out_W=Matrix(1, size, {(0, j): answers[q] for j, q in enumerate(states) if answers[q]}),
        activation=activation,
        largest=1,
        about=about,
    )


# The scalar net: the state is a number k, and δ(·, a) a piecewise linear function of it


def _numberings(dfa: DFA) -> list[DFA]:
    """Renumber the states of the automaton in ways that tend to make δ(·, a) nearly linear."""
    symbols = len(dfa.alphabet)
    orders = [np.arange(len(dfa))]
    for columns in islice(permutations(range(symbols)), 24):
        found = breadth_first(np.ascontiguousarray(dfa.table[:, columns]), dfa.start)
        rest = np.setdiff1d(np.arange(len(dfa)), found)
        orders.append(np.concatenate([found, rest]))
    return [dfa.renumbered(order) for order in orders] + [dfa.renumbered(order[::-1]) for order in orders]


def _bends(values: np.ndarray) -> np.ndarray:
    """d with f(k) = f(0) + Σ_j d[j]·ReLU(k − j) on 0 … n − 1."""
    slopes = np.diff(values.astype(np.int64), axis=0)
    return np.diff(slopes, axis=0, prepend=np.zeros_like(slopes[:1]))


def _constants(dfa: DFA) -> list[tuple[int, int]]:
    """The state to which each symbol leads from state 0, and whether that state accepts."""
    return [(int(r), int(dfa.accepting[r])) for r in dfa.table[0]]


def _common(constants: list[tuple[int, int]]) -> tuple[int, int]:
    return max(constants, key=constants.count)


def _scalar_size(dfa: DFA) -> int:
    bends = (_bends(dfa.table) != 0) | (_bends(dfa.accepting[dfa.table]) != 0)
    constants = _constants(dfa)
    return 1 + int(bends.sum()) + len(constants) - constants.count(_common(constants))


def scalar(dfa: DFA, activation: str, about: dict[str, object]) -> ExactRNN:
    """h = (k, whether k accepts), with a unit ReLU(k − j − M(1 − x[a])) where δ(·, a) or its acceptance bends at j."""
    dfa = min(_numberings(dfa), key=_scalar_size)
    states, symbols = dfa.table.shape
    high = max(states - 1, 1)  # M makes the units of the other symbols 0
    moves, answers = _bends(dfa.table), _bends(dfa.accepting[dfa.table])
    constants = _constants(dfa)
    base = _common(constants)
    V: dict[tuple[int, int], Number] = {}
    W: dict[tuple[int, int], Number] = {}
    U: dict[tuple[int, int], Number] = {}
    b: Vector = {}
    count = 0
    for a in range(symbols):
        for j in np.flatnonzero((moves[:, a] != 0) | (answers[:, a] != 0)).tolist():
            V[count, 0], W[count, a], b[count] = 1, high, -j - high
            U[0, count], U[1, count] = int(moves[j, a]), int(answers[j, a])
            count += 1
        if constants[a] != base:  # a unit that remembers the symbol, for the constant
            W[count, a] = 1
            U[0, count], U[1, count] = constants[a][0] - base[0], constants[a][1] - base[1]
            count += 1
    step = TwoLayerStep(
        dfa.alphabet,
        s={i: v for i, v in enumerate((dfa.start, int(dfa.accepting[dfa.start]))) if v},
        V=Matrix(count, 2, V),
        W=Matrix(count, symbols, W),
        b=b,
        U=Matrix(2, count, {at: v for at, v in U.items() if v}),
        c={i: v for i, v in enumerate(base) if v},
        out_W=Matrix(1, 2, {(0, 1): 1}),
        names=("k", "accepts"),
    )
    return fuse(step, ExactRNN, activation=activation, largest=states, about=about)
