"""An LSTM or GRU whose gates saturate becomes a finite automaton: its hidden vectors are the states.

This file uses the tensors alone. Intervals around its values follow a hidden vector; a gate counts as 0 or 1
only where its argument, with every rounding error that the number format allows, saturates. So a step is proved for
every order of summation and for every sigmoid and tanh that is right to four units in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kleene.common.search import breadth_first
from kleene.decompilers.rnn_to_dfa import too_many_vectors
from kleene.errors import NotExact, NotSupported
from kleene.machines.automata.dfa import DFA
from kleene.networks.rnn.gated import DTYPES, GatedRNN

DOUBLE = 2.0**-53  # the rounding of this file's own sums


@dataclass(frozen=True)
class Format:
    """The rounding of a number format, and the bounds beyond which its sigmoid and tanh are exact.

    unit: the largest relative error of one rounding.
    largest: the largest finite number.
    zero: sigmoid(−x) is exactly 0 for x from here on: half the smallest number is above exp(−x).
    one: sigmoid(x) is exactly 1 from here on.
    sign: tanh(x) is exactly 1 from here on.
    """

    unit: float
    largest: float
    zero: float
    one: float
    sign: float


FORMATS = {
    "float64": Format(2.0**-53, 1.7e308, 746.0, 40.0, 20.0),
    "float32": Format(2.0**-24, 3.4e38, 104.0, 20.0, 10.0),
    "bfloat16": Format(2.0**-8, 3.3e38, 104.0, 20.0, 10.0),  # sigmoid and tanh may be those of float32
    "float16": Format(2.0**-11, 65504.0, 104.0, 20.0, 10.0),
}


@dataclass(frozen=True)
class Hidden:
    """A hidden vector: what identifies it, its values, and how far each may be from them."""

    key: bytes
    values: np.ndarray
    radius: np.ndarray
    cell: np.ndarray  # the whole numbers in an LSTM's cell; empty for a GRU


def _grain(*weights: np.ndarray) -> float:
    """The largest power of 2 of which all numbers are whole multiples, 1 for zeros."""
    mantissas, exponents = np.frexp(np.concatenate([one.ravel() for one in weights]))
    whole = np.ldexp(mantissas, 53).astype(np.int64)
    lowest = np.ldexp((whole & -whole).astype(float), exponents - 53)
    return float(lowest[whole != 0].min(initial=math.inf)) if whole.any() else 1.0


class Saturated:
    """The tensors of a network as NumPy arrays in a format, and their effect on intervals.

    `margin` is the least distance of a gate argument from the end of saturation, over all steps.
    """

    def __init__(self, net: GatedRNN, dtype: str | None = None) -> None:
        name = net.dtype if dtype is None else str(dtype).removeprefix("torch.")
        if name not in FORMATS:
            raise NotSupported(f"unknown dtype {name!r}; choose one of {', '.join(FORMATS)}")
        self.name, self.format, self.units, self.lstm = name, FORMATS[name], net.units, net.cell == "lstm"
        self.symbols = len(net.alphabet)
        tensors: dict[str, np.ndarray] = {
            key: value.detach().cpu().to(DTYPES[name]).double().numpy() for key, value in net.state_dict().items()
        }
        if not all(np.isfinite(value).all() for value in tensors.values()):
            raise NotExact(f"a weight is not a finite number in {name}")
        self.inputs, self.hidden = tensors["recurrent.weight_ih_l0"], tensors["recurrent.weight_hh_l0"]
        self.bias_in, self.bias_hidden = tensors["recurrent.bias_ih_l0"], tensors["recurrent.bias_hh_l0"]
        self.read, self.read_bias = tensors["out.weight"], tensors["out.bias"]
        self.margin = math.inf
        self.grain = 0.0 if self.lstm else _grain(self.inputs, self.hidden, self.bias_in, self.bias_hidden)
        self.forgetful = self.lstm and self._always_forgets()

    def _always_forgets(self) -> bool:
        """Whether every forget gate is 0 after every hidden vector, whose entries are between −1 and 1."""
        f = slice(self.units, 2 * self.units)
        hidden, bias = np.abs(self.hidden[f]), self.bias_in[f] + self.bias_hidden[f]
        size = hidden.sum(axis=1) + np.abs(self.bias_in[f]) + np.abs(self.bias_hidden[f])
        size += np.abs(self.inputs[f]).max(axis=1)
        largest = hidden.sum(axis=1) + bias + self.inputs[f].max(axis=1)
        try:
            error = self.error((self.hidden[f] != 0).sum(axis=1), size)
        except NotExact:
            return False
        return bool((-largest - error > self.format.zero).all())

    def start(self) -> Hidden:
        """The hidden vector after the start symbol."""
        zero = np.zeros(self.units)
        nothing = Hidden(b"", zero, zero, zero if self.lstm else np.zeros(0))
        return self.after(nothing, [self.symbols])[0]

    def error(self, terms: np.ndarray, total: np.ndarray) -> np.ndarray:
        """The rounding error of a sum of `terms` products in the format; `total` sums absolute values."""
        rounding = (terms + 3) * (self.format.unit + DOUBLE)
        rounding[total <= self.grain / self.format.unit] = 0  # whole multiples of the grain, and few enough
        if bool((rounding >= 0.5).any()):
            raise NotExact(f"sums of {int(terms.max())} terms are too long for a bound in {self.name}")
        if float(total.max(initial=0.0)) * 1.1 > self.format.largest:
            raise NotExact(f"a sum may leave the range of {self.name}")
        return np.asarray(rounding / (1 - rounding) * total)

    def products(self, g: Hidden) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """V h: the values, the spread from h's uncertainty, the sums of absolute values, and the numbers of terms."""
        size = np.abs(self.hidden)
        spread = size @ g.radius
        total = size @ np.abs(g.values) + spread
        terms = ((self.hidden != 0) & (g.values != 0)).sum(axis=1)
        return self.hidden @ g.values, spread, total, terms

    def after(self, g: Hidden, symbols: Sequence[int]) -> list[Hidden]:
        """The hidden vector after each of these symbols."""
        return self._lstm(g, symbols) if self.lstm else self._gru(g, symbols)

    def _gate(self, argument: np.ndarray, error: np.ndarray, what: str) -> np.ndarray:
        """sigmoid of an argument, which must be 0 or 1."""
        on = argument > 0
        slack = np.where(on, argument - error - self.format.one, -argument - error - self.format.zero)
        return self._settled(on.astype(float), slack, what)

    def _sign(self, argument: np.ndarray, error: np.ndarray) -> np.ndarray:
        """tanh of an argument, which must be 1 or −1."""
        return self._settled(np.sign(argument), np.abs(argument) - error - self.format.sign, "candidate")

    def _settled(self, values: np.ndarray, slack: np.ndarray, what: str) -> np.ndarray:
        least = float(slack.min(initial=math.inf))
        if not least > 0:
            unit = int(np.argmin(slack))
            raise NotExact(f"the {what} of unit {unit} is not saturated in {self.name} (it lacks {-least:.3g})")
        self.margin = min(self.margin, least)
        return values

    def _lstm(self, g: Hidden, symbols: Sequence[int]) -> list[Hidden]:
        product, spread, total, terms = self.products(g)
        bias = self.bias_in + self.bias_hidden
        size = total + np.abs(self.bias_in) + np.abs(self.bias_hidden)
        found = []
        for symbol in symbols:
            column = self.inputs[:, symbol]
            argument = product + bias + column
            error = spread + self.error(terms, size + np.abs(column))
            i, f, c, o = (slice(k * self.units, (k + 1) * self.units) for k in range(4))
            enter = self._gate(argument[i], error[i], "input gate")
            keep = self._gate(argument[f], error[f], "forget gate")
            candidate = self._sign(argument[c], error[c])
            give = self._gate(argument[o], error[o], "output gate")
            cell = keep * g.cell + enter * candidate + 0.0  # whole numbers; + 0.0 makes −0 be 0
            if float(np.abs(cell).max(initial=0.0)) >= 1 / (2 * self.format.unit):
                raise NotExact(f"a cell counts further than {self.name} holds")
            values = give * np.tanh(cell) + 0.0
            key = values.tobytes() if self.forgetful else cell.tobytes() + give.tobytes()
            found.append(Hidden(key, values, 4 * self.format.unit * np.abs(values), cell))
        return found

    def _gru(self, g: Hidden, symbols: Sequence[int]) -> list[Hidden]:
        product, spread, total, terms = self.products(g)
        size, n = total + np.abs(self.bias_hidden), self.units
        inner = product + self.bias_hidden
        found = []
        for symbol in symbols:
            outer = self.bias_in + self.inputs[:, symbol]
            outer_size = np.abs(self.bias_in) + np.abs(self.inputs[:, symbol])
            error = spread + self.error(terms, size + outer_size)
            reset = self._gate((inner + outer)[:n], error[:n], "reset gate")
            update = self._gate((inner + outer)[n : 2 * n], error[n : 2 * n], "update gate")
            candidate = self._sign(outer[2 * n :] + reset * inner[2 * n :], error[2 * n :])
            values = (1 - update) * candidate + update * g.values + 0.0
            found.append(Hidden(values.tobytes(), values, np.zeros(n), np.zeros(0)))
        return found

    def accepts(self, g: Hidden) -> bool:
        """Whether the output after a hidden vector is positive; raise NotExact if rounding could change it."""
        size = np.abs(self.read) @ np.abs(g.values) + np.abs(self.read) @ g.radius + np.abs(self.read_bias)
        output = float((self.read @ g.values + self.read_bias)[0])
        terms = ((self.read != 0) & (g.values != 0)).sum(axis=1)
        error = float((np.abs(self.read) @ g.radius + self.error(terms, size))[0])
        if not abs(output) > error:
            raise NotExact(f"an output of {output:.3g} may be off by {error:.3g} in {self.name}")
        return output > 0


def hidden_vectors(saturated: Saturated, limit: int) -> Iterator[tuple[Hidden, list[int]]]:
    """Each hidden vector that words reach, breadth-first, with the number of its successor on each symbol."""
    return breadth_first(
        saturated.start(),
        lambda g: saturated.after(g, range(saturated.symbols)),
        key=lambda g: g.key,
        limit=limit,
        error=lambda: too_many_vectors(limit),
    )


def decompile_gated(net: GatedRNN, *, to: str = "dfa", limit: int = 100_000) -> Any:
    """The minimal automaton of a network whose gates saturate, read from its tensors.

    `to="regex"` gives a regular expression. Raise `NotExact` if a gate does not saturate: `kl.extract` then learns an
    automaton by queries.
    """
    if to not in ("dfa", "regex"):
        raise NotSupported(f"decompile: to={to!r}; it must be 'dfa' or 'regex'")
    dfa = reached(Saturated(net), net.alphabet, limit).minimise()
    return dfa if to == "dfa" else dfa.to_regex()


def reached(saturated: Saturated, alphabet: tuple[str, ...], limit: int) -> DFA:
    """The automaton on the hidden vectors that words reach, numbered breadth-first."""
    found = list(hidden_vectors(saturated, limit))
    return DFA(np.array([row for _, row in found]), np.array([saturated.accepts(g) for g, _ in found]), alphabet)
