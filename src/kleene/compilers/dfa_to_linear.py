"""Automata as linear RNNs: one layer of products of swaps and merges, or layers of diagonal matrices; and weighted
automata, whose matrices are the network's own."""

from __future__ import annotations

import numpy as np
import torch

from kleene.common.alphabet import show_word
from kleene.errors import InputError, NotSupported
from kleene.machines.automata.cascade import Cascade, Level, cascade, otherwise
from kleene.machines.automata.classes import counting, solvable
from kleene.machines.automata.dfa import DFA
from kleene.machines.automata.nfa import NFA
from kleene.machines.automata.weighted import WeightedAutomaton
from kleene.networks.rnn.linear import DTYPES, LayerShape, LinearLayer, LinearRNN

TRANSITIONS = ("products", "positive", "signed")
MAX_CELLS = 200_000_000  # of all symbols' matrices
SARROF = (
    "Sarrof, Veitsman and Hahn (2024): in finite precision, diagonal matrices with entries in [0, 1] hold exactly the "
    "star-free languages"
)
GRAZZI_1 = "Grazzi et al. (2025), Theorem 1: without negative eigenvalues there is no parity"
GRAZZI_2 = "Grazzi et al. (2025), Theorem 2: real eigenvalues count modulo powers of 2 only"

Change = tuple[np.ndarray, np.ndarray]  # l and r of I − l rᵀ


def compile_to_linear(
    dfa: DFA | NFA,
    *,
    transitions: str = "products",
    factors: int | None = None,
    dtype: str | torch.dtype = "float32",
) -> LinearRNN:
    """A linear RNN that accepts what `dfa` accepts.

    - `transitions`: "products" of matrices I − l rᵀ that swap two states (l = r, a Householder matrix) or merge
      them, in one layer; "positive" for layers of diagonal matrices with entries in [0, 1]; "signed" for entries in
      [−1, 1].
    - `factors`: the most factors of a product; refused where a symbol needs more. By default as many as are needed.
    - `dtype`: the number format.
    """
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise NotSupported(f"compile: unknown dtype {name!r}; choose one of {', '.join(DTYPES)}")
    if transitions not in TRANSITIONS:
        raise InputError(f"compile: transitions {transitions!r}; it should be one of {', '.join(TRANSITIONS)}")
    minimal = dfa.minimise()
    if transitions == "products":
        return products(minimal, factors, name)
    if factors is not None:
        raise InputError(f"compile: factors={factors} is for transitions='products'")
    return _diagonal(_allowed(minimal, transitions), transitions, name)


# --- products ---------------------------------------------------------------------------------------------


def changes(row: list[int]) -> list[Change]:
    """Swaps and merges that make a function of states, first one first; as few as its rank allows.

    A function is a graph of components, each a cycle with trees. A cycle of c states is c − 1 swaps; then each state
    outside of cycles is merged into the state after it, those nearest to the cycle first.
    """
    size = len(row)
    made: list[Change] = []
    depth: dict[int, int] = {}
    for start in range(size):
        path, q = [], start
        while q not in depth and q not in path:
            path.append(q)
            q = row[q]
        if q in path:
            cycle = path[path.index(q) :]
            depth.update(dict.fromkeys(cycle, 0))
            made += [_swap(size, cycle[0], other) for other in cycle[1:]]
        for state in reversed(path):
            if state not in depth:
                depth[state] = depth[row[state]] + 1
    trees = sorted((d, q) for q, d in depth.items() if d)
    return made + [_merge(size, q, row[q]) for _, q in trees]


def _swap(size: int, i: int, j: int) -> Change:
    k = np.zeros(size)
    k[i], k[j] = 1, -1
    return k, k


def _merge(size: int, i: int, into: int) -> Change:
    left, right = np.zeros(size), np.zeros(size)
    left[i], left[into], right[i] = 1, -1, 1
    return left, right


def products(dfa: DFA, factors: int | None, dtype: str, values: np.ndarray | None = None) -> LinearRNN:
    """One layer of swaps and merges; the output is ±1 by acceptance, or the states' `values`."""
    states, symbols = dfa.table.shape
    plans = [changes(dfa.table[:, a].tolist()) for a in range(symbols)]
    most = max(map(len, plans))
    if factors is not None and most > factors:
        worst = max(range(symbols), key=lambda a: len(plans[a]))
        raise NotSupported(
            f"compile: the matrix of {dfa.alphabet[worst]!r} differs from the identity by rank {most}, a product "
            f"of {factors} factors I − l rᵀ by rank {factors} at most (Cartan and Dieudonné); give factors={most}"
        )
    count = max(most, 1) if factors is None else factors
    if symbols * count * states * 2 > MAX_CELLS:
        raise NotSupported(f"compile: {states:,} states need {count:,} factors, more than {MAX_CELLS:,} numbers")
    net = LinearRNN(
        dfa.alphabet, [LayerShape("products", states, symbols, count)], 0, dtype, {"machine": dfa.to_json()}
    )
    layer = net.stack[0]
    left, right = np.zeros((symbols, count, states)), np.zeros((symbols, count, states))
    for a, plan in enumerate(plans):
        for k, change in enumerate(plan):
            left[a, k], right[a, k] = change
    with torch.no_grad():
        _set(layer, rules=np.eye(symbols), start=np.eye(states)[dfa.start], left=left, right=right)
        answers = np.where(dfa.accepting, 1.0, -1.0) if values is None else values.astype(np.float64)
        net.out.weight.copy_(torch.from_numpy(answers[None]))
    return net.eval()


def _set(layer: LinearLayer, **values: np.ndarray) -> None:
    for name, value in values.items():
        getattr(layer, name).copy_(torch.from_numpy(np.asarray(value, dtype=np.float64)))


# --- diagonal ---------------------------------------------------------------------------------------------


def _allowed(dfa: DFA, transitions: str) -> Cascade:
    """The cascade of an automaton that diagonal matrices hold; the theorem where they do not."""
    with otherwise("transitions='products' holds it"):
        free = dfa.is_star_free if transitions == "positive" else None
        if free is not None and not free:
            raise NotSupported(
                f"compile: not star-free ({free.reason}), and eigenvalues are positive: {SARROF}; {GRAZZI_1}"
            )
        why = _odd_group(dfa)
        if why is not None:
            raise NotSupported(
                f"compile: {why}, and diagonal entries are real: {GRAZZI_2}; transitions='products' holds it"
            )
        return cascade(dfa)


def _odd_group(dfa: DFA) -> str | None:
    """A sentence on a group whose number of elements is no power of 2; None where there is none."""
    turning = counting(dfa, lambda length: bool(length & (length - 1)))
    if turning is not None:
        return f"{show_word(turning[0])!r} turns {len(turning[1])} states in a cycle"
    solved = solvable(dfa)
    orders = [int(n) for n in solved.witness if isinstance(n, int) and n & (n - 1)]
    if not solved:
        return solved.reason
    return f"a group of {max(orders)} elements" if orders else None


def _code(level: Level) -> np.ndarray:
    """The vector of each value: one-hot, or 1 and −1 for a counter modulo 2."""
    return np.eye(level.size) if level.kind == "reset" else np.array([[1.0], [-1.0]])


def _diagonal(made: Cascade, transitions: str, dtype: str) -> LinearRNN:
    """A layer a level: a reset sets A = 0 and writes, a count modulo 2 sets A = −1, otherwise A = 1."""
    dfa, symbols = made.dfa, len(made.dfa.alphabet)
    codes = [_code(level) for level in made.levels] or [np.ones((1, 1))]
    plans = [_rules(made, at, codes) for at in range(len(made.levels))] or [_nothing(symbols)]
    shapes = [LayerShape("diagonal", code.shape[1], len(plan[1])) for code, plan in zip(codes, plans)]
    read, bias, signs = _read(made, codes)
    net = LinearRNN(dfa.alphabet, shapes, len(bias), dtype, {"machine": dfa.to_json(), "transitions": transitions})
    starts = [code[level.start] for code, level in zip(codes, made.levels)] or [np.ones(1)]
    with torch.no_grad():
        for layer, (rules, rules_bias, gate, write), start in zip(net.stack, plans, starts):
            _set(layer, rules=rules, rules_bias=rules_bias, gate=gate, write=write, start=start)
        assert net.read is not None
        net.read.weight.copy_(torch.from_numpy(read))
        net.read.bias.copy_(torch.from_numpy(bias))
        net.out.weight.copy_(torch.from_numpy(signs[None]))
    return net.eval()


def _nothing(symbols: int) -> tuple[np.ndarray, ...]:
    """A layer that keeps its state: for an automaton of one state."""
    return np.zeros((1, symbols)), np.zeros(1), np.zeros((1, 1)), np.zeros((1, 1))


def value_tuples(made: Cascade) -> list[list[tuple[int, ...]]]:
    """Map each level to the values above it, by their number; the last entry has those of all levels."""
    found: list[list[tuple[int, ...]]] = [[()]]
    for level in made.levels:
        count = int(level.below.max()) + 1
        rows: list[tuple[int, ...]] = [()] * count
        for above, value in np.argwhere(level.below >= 0).tolist():
            rows[int(level.below[above, value])] = (*found[-1][above], value)
        found.append(rows)
    return found


def _pattern(values: tuple[int, ...], codes: list[np.ndarray], width: int) -> tuple[np.ndarray, float]:
    """Weights and bias of a unit that is 1 where the states have these values, and 0 or less elsewhere."""
    weights, needed, at = np.zeros(width), 0.0, 0
    for value, code in zip(values, codes):
        size = code.shape[1]
        weights[at : at + size] = code[value]
        needed += 1
        at += size
    return weights, 1 - needed


def _rules(made: Cascade, at: int, codes: list[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Rules, bias, gate and write of a level: a unit for each symbol and each tuple above that does something."""
    level, symbols = made.levels[at], len(made.dfa.alphabet)
    width = sum(code.shape[1] for code in codes[:at])
    above = value_tuples(made)[at]
    rules, bias, gates, writes = [], [], [], []
    size = codes[at].shape[1]
    for u, values in enumerate(above):
        weights, constant = _pattern(values, codes, width)
        for a in range(symbols):
            wanted, added = int(level.sets[u, a]), int(level.adds[u, a])
            if wanted < 0 and not added:
                continue
            rules.append(np.concatenate([np.eye(symbols)[a], weights]))
            bias.append(constant - 1)  # the symbol is one more condition
            gates.append(np.full(size, -1.0 if wanted >= 0 else -2.0))
            writes.append(codes[at][wanted] if wanted >= 0 else np.zeros(size))
    if not rules:
        return np.zeros((1, symbols + width)), np.zeros(1), np.zeros((size, 1)), np.zeros((size, 1))
    return np.array(rules), np.array(bias), np.array(gates).T, np.array(writes).T


def _read(made: Cascade, codes: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A read-out unit for each tuple of values, with the sign of its state's answer."""
    width = sum(code.shape[1] for code in codes)
    rows = [_pattern(values, codes, width) for values in value_tuples(made)[-1]]
    signs = np.where(made.dfa.accepting[made.states], 1.0, -1.0)
    return np.array([weights for weights, _ in rows]), np.array([bias for _, bias in rows]), signs


# --- weighted ---------------------------------------------------------------------------------------------


def compile_weighted(automaton: WeightedAutomaton, *, dtype: str | torch.dtype = "float64") -> LinearRNN:
    """The linear RNN whose output after a word is the word's weight: its matrices are the automaton's, transposed."""
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise NotSupported(f"compile: unknown dtype {name!r}; choose one of {', '.join(DTYPES)}")
    if automaton.semiring != "real":
        raise NotSupported("compile: a linear RNN sums products of real numbers; tropical weights are least costs")
    symbols, size = len(automaton.alphabet), len(automaton)
    about = {"machine": automaton.to_json()}
    net = LinearRNN(automaton.alphabet, [LayerShape("dense", size, symbols)], 0, name, about)
    with torch.no_grad():
        matrices = np.swapaxes(automaton.matrices, 1, 2)
        _set(net.stack[0], rules=np.eye(symbols), matrix=matrices, start=automaton.initial)
        net.out.weight.copy_(torch.from_numpy(automaton.final[None]))
    return net.eval()
