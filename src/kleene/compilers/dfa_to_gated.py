"""A finite automaton as an LSTM or a GRU with saturated gates.

A unit stands for a state. It is on after a symbol a exactly where the state before was in P(a), the states that a takes
to its own. A gate compares a number of the state with a number of the symbol, so it tests sets P(a) that contain one
another. A unit has two such gates (LSTM: input and output; GRU: reset and candidate), whose conjunction counts. So a
state needs half as many units as the sets P(a) need chains: one unit where there are two symbols.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from kleene.errors import NotSupported
from kleene.machines.automata.dfa import DFA
from kleene.machines.automata.nfa import NFA
from kleene.networks.rnn.gated import DTYPES, GatedRNN

MAX_UNITS = 8192
LSTM_SCALE = {"float16": 1024.0}  # elsewhere 2048: times tanh(1) / 2 it saturates every gate, in float64, too
GRU_SCALE = {"float16": 128.0}  # elsewhere 1024
LONGEST_CHAIN = {"bfloat16": 7, "float16": 30}  # ranks of longer ones would be lost in an LSTM's rounding
ON = math.tanh(1.0)  # the hidden value of an LSTM unit that is on; in a GRU it is 1, and −1 where the unit is off

Chain = list[tuple[frozenset[int], list[int]]]  # sets that grow, each with the symbols that have it


@dataclass(frozen=True)
class Unit:
    """A unit of a state, and the chains of its two gates."""

    state: int
    chains: tuple[Chain, Chain]
    starts: bool  # whether the start symbol turns it on


def compile_to_lstm(dfa: DFA | NFA, *, dtype: str | torch.dtype = "float32") -> GatedRNN:
    """A `torch.nn.LSTM` with a linear read-out that accepts what `dfa` accepts; `dtype` is its number format."""
    return _compile(dfa, "lstm", dtype, _fill_lstm)


def compile_to_gru(dfa: DFA | NFA, *, dtype: str | torch.dtype = "float32") -> GatedRNN:
    """A `torch.nn.GRU` with a linear read-out that accepts what `dfa` accepts; `dtype` is its number format."""
    return _compile(dfa, "gru", dtype, _fill_gru)


def _compile(
    automaton: DFA | NFA,
    cell: Literal["lstm", "gru"],
    dtype: str | torch.dtype,
    fill: Callable[[GatedRNN, DFA, list[Unit]], None],
) -> GatedRNN:
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise NotSupported(f"compile: unknown dtype {name!r}; choose one of {', '.join(DTYPES)}")
    minimal = automaton.minimise()
    units = plan(minimal, LONGEST_CHAIN.get(name) if cell == "lstm" else None)
    if len(units) > MAX_UNITS:
        raise NotSupported(f"compile: {len(units):,} units; a dense {cell} here has at most {MAX_UNITS:,}")
    net = GatedRNN(minimal.alphabet, cell, len(units), name, {"machine": minimal.to_json()})
    with torch.no_grad():
        fill(net, minimal, units)
    if cell == "gru":
        _check_sums(net)
    return net.eval()


@torch.no_grad()
def _check_sums(net: GatedRNN) -> None:
    """Check that a GRU's sums, whole multiples of its scale, are exact in its format in any order of summation.

    An LSTM needs no such check: where one of its units is on, all others are 0.
    """
    dtype = DTYPES[net.dtype]
    about, scale = torch.finfo(dtype), GRU_SCALE.get(net.dtype, 1024.0)
    cell, n = dict(net.recurrent.named_parameters()), net.units
    bias = cell["bias_ih_l0"].double().abs() + cell["bias_hh_l0"].double().abs()
    largest = cell["weight_hh_l0"].double().abs().sum(dim=1) + bias + cell["weight_ih_l0"].double().abs().amax(dim=1)
    most = min(2 / about.eps, about.max / 1.1 / scale)  # multiples of the scale
    row = int(largest.argmax())
    if not float(largest[row]) / scale <= most:
        raise NotSupported(
            f"compile: the sum of a gate of unit {row % n} may exceed {most:,.0f}, which is as far as {net.dtype} "
            f"counts in this GRU; give another dtype ({', '.join(DTYPES)}), or to='lstm'"
        )


# --- which units ------------------------------------------------------------------------------------------


def plan(dfa: DFA, longest: int | None = None) -> list[Unit]:
    """The units of each state; each has two chains of preimages at most, of `longest` sets at most."""
    units = []
    for state in range(len(dfa)):
        whole = _chains(dfa, state)
        chains = [
            chain[i : i + (longest or len(chain))]
            for chain in whole
            for i in range(0, len(chain), longest or len(chain))
        ]
        pairs = [(chains[i], chains[i + 1] if i + 1 < len(chains) else []) for i in range(0, len(chains), 2)]
        starts = state == dfa.start
        for number, pair in enumerate(pairs or ([([], [])] if starts else [])):
            units.append(Unit(state, pair, starts and number == 0))
    return units


def _chains(dfa: DFA, state: int) -> list[Chain]:
    """The preimages of a state under the symbols in as few chains as there can be (Dilworth, by matching)."""
    symbols_of: dict[frozenset[int], list[int]] = {}
    for a in range(len(dfa.alphabet)):
        before = frozenset(np.flatnonzero(dfa.table[:, a] == state).tolist())
        if before:
            symbols_of.setdefault(before, []).append(a)
    sets = sorted(symbols_of, key=lambda s: (len(s), sorted(s)))
    next_of = _matching(sets)
    follows = set(next_of.values())
    chains = []
    for first in range(len(sets)):
        if first not in follows:
            chain, at = [], first
            while at >= 0:
                chain.append((sets[at], symbols_of[sets[at]]))
                at = next_of.get(at, -1)
            chains.append(chain)
    return chains


def _matching(sets: list[frozenset[int]]) -> dict[int, int]:
    """A largest set of pairs (set, larger set), each set at most once on each side."""
    before: dict[int, int] = {}  # larger → smaller

    def place(small: int, tried: set[int]) -> bool:
        for large in range(len(sets)):
            if sets[small] < sets[large] and large not in tried:
                tried.add(large)
                if large not in before or place(before[large], tried):
                    before[large] = small
                    return True
        return False

    for small in range(len(sets)):
        place(small, set())
    return {small: large for large, small in before.items()}


# --- weights ----------------------------------------------------------------------------------------------


def _ranks(chain: Chain, states: int) -> np.ndarray:
    """A number for each state: how many sets of the chain it is in."""
    ranks = np.zeros(states)
    for members, _ in chain:
        ranks[sorted(members)] += 1
    return ranks


def _thresholds(unit: Unit, gate: int, symbols: int) -> np.ndarray:
    """The rank that each symbol asks of the state: 0 asks nothing, one more than there are sets refuses all."""
    mine, other = unit.chains[gate], unit.chains[1 - gate]
    wanted = np.full(symbols, len(mine) + 1.0)
    for place, (_, letters) in enumerate(mine):
        wanted[letters] = len(mine) - place
    wanted[_letters(other)] = 0
    return wanted


def _letters(chain: Chain) -> list[int]:
    return [letter for _, letters in chain for letter in letters]


def _tensor(values: Iterable[float] | np.ndarray, like: torch.Tensor) -> torch.Tensor:
    return torch.as_tensor(np.asarray(values), dtype=torch.float64).to(like.dtype)


def _fill_lstm(net: GatedRNN, dfa: DFA, units: list[Unit]) -> None:
    """h = o·tanh(i): forget gate 0, candidate 1, and the two conditions in the input and the output gate."""
    count, symbols, scale = len(units), len(dfa.alphabet), LSTM_SCALE.get(net.dtype, 2048.0)
    of = [unit.state for unit in units]
    inputs, hidden = np.zeros((4 * count, symbols + 1)), np.zeros((4 * count, count))
    bias = np.zeros(4 * count)
    bias[count : 2 * count], bias[2 * count : 3 * count] = -scale, scale
    for k, unit in enumerate(units):
        for gate, row in ((0, k), (1, 3 * count + k)):
            hidden[row] = scale * _ranks(unit.chains[gate], len(dfa))[of]
            inputs[row, :symbols] = scale * ON * (0.5 - _thresholds(unit, gate, symbols))
            inputs[row, symbols] = scale if unit.starts else -scale
    cell = dict(net.recurrent.named_parameters())
    cell["weight_ih_l0"].copy_(_tensor(inputs, cell["weight_ih_l0"]))
    cell["weight_hh_l0"].copy_(_tensor(hidden, cell["weight_hh_l0"]))
    cell["bias_ih_l0"].copy_(_tensor(bias, cell["bias_ih_l0"]))
    net.out.weight.copy_(_tensor(np.where(dfa.accepting[of], 1.0, -1.0)[None], net.out.weight))


def _fill_gru(net: GatedRNN, dfa: DFA, units: list[Unit]) -> None:
    """h = n = tanh(W x + r·(V h + c)): update gate 0, the conditions in the reset gate and in the candidate.

    Hidden values are 1 and −1. So Σ ranks·h is twice the rank of the state, less the sum of all ranks.
    """
    count, symbols, scale = len(units), len(dfa.alphabet), GRU_SCALE.get(net.dtype, 1024.0)
    of = [unit.state for unit in units]
    inputs, hidden = np.zeros((3 * count, symbols + 1)), np.zeros((3 * count, count))
    bias_in, bias_hidden = np.zeros(3 * count), np.zeros(3 * count)
    bias_in[count : 2 * count] = -scale
    for k, unit in enumerate(units):
        first, second = (_ranks(chain, len(dfa))[of] for chain in unit.chains)
        refuse = 2 * len(unit.chains[1]) + 3  # more than the second condition can give
        hidden[k], hidden[2 * count + k] = scale * first, scale * second
        bias_in[k], bias_hidden[2 * count + k] = scale * first.sum(), scale * (second.sum() + refuse)
        inputs[k, :symbols] = scale * (1 - 2 * _thresholds(unit, 0, symbols))
        inputs[2 * count + k, :symbols] = scale * (1 - 2 * _thresholds(unit, 1, symbols) - refuse)
        # the hidden vector before the start symbol is zero
        inputs[k, symbols] = scale * (1 if unit.starts else -1 - first.sum())
        inputs[2 * count + k, symbols] = scale * (1 if unit.starts else -1)
    cell = dict(net.recurrent.named_parameters())
    cell["weight_ih_l0"].copy_(_tensor(inputs, cell["weight_ih_l0"]))
    cell["weight_hh_l0"].copy_(_tensor(hidden, cell["weight_hh_l0"]))
    cell["bias_ih_l0"].copy_(_tensor(bias_in, cell["bias_ih_l0"]))
    cell["bias_hh_l0"].copy_(_tensor(bias_hidden, cell["bias_hh_l0"]))
    signs = np.where(dfa.accepting[of], 1.0, -1.0)
    net.out.weight.copy_(_tensor(signs[None], net.out.weight))
    net.out.bias.copy_(_tensor([signs.sum()], net.out.bias))
