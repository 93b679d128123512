"""A linear RNN of whole numbers becomes a finite automaton; any linear RNN becomes a weighted automaton.

This file uses the tensors alone, in whole numbers. States are the hidden vectors that words reach. That sums are exact
in a number format is shown along the way. That every product of a parallel scan is exact, too, follows where each step
is of a kind that is closed under composition: matrices that map coordinates to coordinates, or diagonal ones of −1, 0
and 1 that write only where they are 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kleene.common.search import breadth_first
from kleene.decompilers.rnn_to_dfa import too_many_vectors
from kleene.errors import NotExact, NotSupported
from kleene.machines.automata.dfa import DFA
from kleene.machines.automata.weighted import WeightedAutomaton
from kleene.networks.formats import PRECISION
from kleene.networks.rnn.linear import DTYPES, LinearRNN

Numbers = dict[str, np.ndarray]


@dataclass(frozen=True)
class _Layer:
    form: str
    factors: int
    numbers: Numbers


class Whole:
    """The tensors of a network as whole numbers, in a format. `largest` is the largest sum of absolute values yet."""

    def __init__(self, net: LinearRNN, dtype: str | None = None, *, closed: bool = False) -> None:
        """Read the tensors; with `closed`, raise NotExact at a step of a kind that is not closed under composition."""
        self.name = net.dtype if dtype is None else str(dtype).removeprefix("torch.")
        if self.name not in DTYPES:
            raise NotSupported(f"unknown dtype {self.name!r}; choose one of {', '.join(DTYPES)}")
        kind = DTYPES[self.name]
        self.exact = 2 ** PRECISION[kind]
        tensors = {}
        for name, value in net.state_dict().items():
            found = value.detach().cpu().to(kind).double().numpy()
            if not np.isfinite(found).all() or not (found == np.round(found)).all():
                raise NotExact(f"{name} has an entry that is not a whole number in {self.name}")
            if float(np.abs(found).max(initial=0)) >= 2**40:
                raise NotExact(f"{name} has an entry of more than 40 bits")
            tensors[name] = found.astype(np.int64)
        self.layers = []
        for number, shape in enumerate(net.shapes):
            begin = f"layers.{number}."
            numbers = {name.removeprefix(begin): v for name, v in tensors.items() if name.startswith(begin)}
            self.layers.append(_Layer(shape.form, shape.factors, numbers))
        self.read, self.read_bias = tensors.get("read.weight"), tensors.get("read.bias")
        self.out, self.out_bias = tensors["out.weight"][0], tensors["out.bias"][0]
        self.symbols = len(net.alphabet)
        self.largest = 0
        self.closed = closed
        self.known: dict[tuple[int, bytes], tuple[np.ndarray, np.ndarray]] = {}  # A and b by layer and units

    def _note(self, sums: Any) -> None:
        found = int(np.max(sums, initial=0))
        self.largest = max(self.largest, found)
        if found > self.exact:
            raise NotExact(f"a sum of {found:,} is more than {self.name} holds exactly")

    def _product(self, matrix: np.ndarray, vector: np.ndarray, bias: Any = 0) -> np.ndarray:
        self._note(np.abs(matrix) @ np.abs(vector) + np.abs(bias))
        return np.asarray(matrix @ vector + bias)

    def start(self) -> tuple[np.ndarray, ...]:
        """The first hidden vectors, one per layer."""
        return tuple(layer.numbers["start"] for layer in self.layers)

    def after(self, states: tuple[np.ndarray, ...], symbol: int) -> tuple[np.ndarray, ...]:
        """The hidden vectors after a symbol."""
        features = np.eye(self.symbols, dtype=np.int64)[symbol]
        found = []
        for number, (layer, h) in enumerate(zip(self.layers, states)):
            units = np.maximum(self._product(layer.numbers["rules"], features, layer.numbers["rules_bias"]), 0)
            found.append(self._step(number, layer, units, h))
            features = np.concatenate([features, h])
        return tuple(found)

    def _step(self, number: int, layer: _Layer, units: np.ndarray, h: np.ndarray) -> np.ndarray:
        key = (number, units.tobytes())
        if key not in self.known:
            self.known[key] = self._transition(number, layer, units)
        a, write = self.known[key]
        self._note(np.abs(a * h if layer.form == "diagonal" else np.abs(a) @ np.abs(h)) + np.abs(write))
        if layer.form == "products":  # like a step, factor by factor
            for left, right in zip(*self._factors(layer, units)):
                h = h - left * self._product(right[None], h)[0]
                self._note(np.abs(h))
            return np.asarray(h + write)
        return np.asarray((a * h if layer.form == "diagonal" else a @ h) + write)

    def _transition(self, number: int, layer: _Layer, units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A and b."""
        write = self._product(layer.numbers["write"], units)
        a = self._matrix(layer, units)
        if layer.form == "diagonal":
            if not set(a.tolist()) <= {-1, 0, 1} or bool((a * write != 0).any()):
                self._open(f"layer {number} has a step that is not −1, 0 or 1, or writes where it keeps")
        elif not set(np.unique(a).tolist()) <= {0, 1} or bool((a.sum(axis=0) > 1).any()) or bool(write.any()):
            self._open(f"layer {number} has a step that does not map coordinates to coordinates")
        return a, write

    def _open(self, why: str) -> None:
        if self.closed:
            raise NotExact(f"{why}, so a parallel scan may round")

    def _factors(self, layer: _Layer, units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        sides = []
        for side in ("left", "right"):
            self._note(np.tensordot(np.abs(units), np.abs(layer.numbers[side]), 1))
            sides.append(np.tensordot(units, layer.numbers[side], 1))
        return sides[0], sides[1]

    def _matrix(self, layer: _Layer, units: np.ndarray) -> np.ndarray:
        if layer.form == "diagonal":
            return self._product(layer.numbers["gate"], units, 1)
        if layer.form == "dense":
            self._note(np.tensordot(np.abs(units), np.abs(layer.numbers["matrix"]), 1))
            return np.asarray(np.tensordot(units, layer.numbers["matrix"], 1))
        a = np.eye(len(layer.numbers["start"]), dtype=np.int64)
        for left, right in zip(*self._factors(layer, units)):
            self._note(np.abs(right) @ np.abs(a))
            a = a - np.outer(left, right @ a)
            self._note(np.abs(a))
        return a

    def output(self, states: tuple[np.ndarray, ...]) -> int:
        """The output after hidden vectors."""
        h = np.concatenate(states)
        if self.read is not None:
            h = np.maximum(self._product(self.read, h, self.read_bias), 0)
        return int(self._product(self.out[None], h, self.out_bias)[0])


def reached(whole: Whole, alphabet: tuple[str, ...], limit: int) -> DFA:
    """The automaton on the hidden vectors that words reach, numbered breadth-first."""
    rows, outputs = moves_and_outputs(whole, limit)
    return DFA(np.array(rows), np.array(outputs) > 0, alphabet)


def moves_and_outputs(whole: Whole, limit: int) -> tuple[list[list[int]], list[int]]:
    """Visit the hidden vectors that words reach; return each one's successors by symbol, and its output."""
    found = breadth_first(
        whole.start(),
        lambda states: (whole.after(states, symbol) for symbol in range(whole.symbols)),
        key=lambda states: b"".join(h.tobytes() for h in states),
        limit=limit,
        error=lambda: too_many_vectors(limit),
    )
    queue, rows = zip(*found)
    return list(rows), [whole.output(states) for states in queue]


def weighted_of(net: LinearRNN) -> WeightedAutomaton:
    """The weighted automaton of a network with one layer: the numbers are those of the tensors, in float64."""
    import torch

    if len(net.stack) != 1 or net.read is not None:
        raise NotSupported("decompile: a weighted automaton is one linear layer with a linear read-out; use to='dfa'")
    wide = LinearRNN(net.alphabet, net.shapes, 0, "float64")
    wide.load_state_dict({name: value.double() for name, value in net.state_dict().items()})
    with torch.no_grad():
        layer = wide.stack[0]
        a, b = layer.transition(layer.units(wide.one_hot(torch.arange(len(net.alphabet)))))
        matrices, writes, start = a.numpy(), b.numpy(), layer.start.numpy()
        final, bias = wide.out.weight[0].numpy(), float(wide.out.bias[0])
    if layer.shape.form == "diagonal":
        matrices = np.stack([np.diag(row) for row in matrices])
    if writes.any() or bias:  # one more state, which is always 1
        size = len(start)
        wider = np.zeros((len(matrices), size + 1, size + 1))
        wider[:, :size, :size], wider[:, :size, size], wider[:, size, size] = matrices, writes, 1
        matrices, start, final = wider, np.append(start, 1.0), np.append(final, bias)
    return WeightedAutomaton(start, dict(zip(net.alphabet, np.swapaxes(matrices, 1, 2))), final)


def holds_weights(net: LinearRNN) -> bool:
    """Whether a network was compiled from a weighted automaton."""
    machine = net.about.get("machine")
    return isinstance(machine, dict) and machine.get("kind") == "weighted-automaton"


def decompile_linear(net: LinearRNN, *, to: str | None = None, limit: int = 100_000) -> Any:
    """The machine of a linear RNN, read from its tensors.

    `to="dfa"` gives the minimal automaton of its words, `to="regex"` a regular expression of them, `to="weighted"` the
    weighted automaton of its outputs. By default a DFA, or a weighted automaton if the network was made from one.
    """
    wanted = to or ("weighted" if holds_weights(net) else "dfa")
    if wanted not in ("dfa", "regex", "weighted"):
        raise NotSupported(f"decompile: to={to!r}; it must be 'dfa', 'regex' or 'weighted'")
    if wanted == "weighted":
        return weighted_of(net)
    dfa = reached(Whole(net, "float64"), net.alphabet, limit).minimise()
    return dfa if wanted == "dfa" else dfa.to_regex()
