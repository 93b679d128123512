"""The simple RNN of Definition 4.1 in exact arithmetic, on integer or rational weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from kleene.common.alphabet import Word, check_alphabet, encode
from kleene.errors import InputError, NotExact
from kleene.networks.rnn.matrix import (
    Matrix,
    Number,
    Vector,
)

if TYPE_CHECKING:
    from torch import device as Device
    from torch import dtype as Dtype

    from kleene.networks.rnn.torch_rnn import SimpleRNN


@dataclass(frozen=True)
class Readout:
    """The meaning of the hidden vector: named values h = R·g + c. V = A·R, so a step depends on h alone."""

    names: tuple[str, ...]
    R: Matrix  # (named value, unit)
    c: Vector
    A: Matrix  # (unit, named value)


@dataclass(frozen=True, repr=False)
class ExactRNN:
    """g⁽⁻¹⁾ = s, g⁽ⁱ⁾ = σ(V g⁽ⁱ⁻¹⁾ + W x⁽ⁱ⁾ + b), y = out(g) = out_W g + out_b, with σ ReLU or SLU.

    Weights are integers and fractions; hidden vectors are kept as their non-zero entries.

    >>> from kleene.networks.rnn.matrix import Matrix
    >>> W, out = Matrix.of([[0, 1]]), Matrix.of([[1]])
    >>> ends_in_one = ExactRNN(("0", "1"), V=Matrix(1, 1, {}), W=W, b={}, s={}, out_W=out)
    >>> ends_in_one.accepts("001"), ends_in_one.accepts("10")
    (True, False)
    """

    alphabet: tuple[str, ...]
    V: Matrix
    W: Matrix
    b: Vector
    s: Vector
    out_W: Matrix
    out_b: Vector = field(default_factory=dict)
    activation: str = "relu"  # or "slu": min(max(x, 0), 1)
    criterion: str = "one"  # accept if the output is 1, or if it is "positive"
    largest: int | None = None  # a bound on hidden values; None: unknown
    readout: Readout | None = None
    about: dict[str, Any] = field(default_factory=dict)  # plain data: method, sizes, the machine compiled

    kind = "rnn"

    def __post_init__(self) -> None:
        object.__setattr__(self, "alphabet", check_alphabet(self.alphabet))
        units, symbols = self.V.rows, len(self.alphabet)
        for name, matrix, shape in (
            ("V", self.V, (units, units)),
            ("W", self.W, (units, symbols)),
            ("out_W", self.out_W, (self.out_W.rows, units)),
        ):
            if (matrix.rows, matrix.columns) != shape:
                raise InputError(f"RNN: {name} is {matrix.rows} × {matrix.columns}; it must be {shape[0]} × {shape[1]}")
        if self.activation not in ("relu", "slu"):
            raise InputError(f"RNN: activation {self.activation!r}; it must be 'relu' or 'slu'")
        if self.criterion not in ("one", "positive"):
            raise InputError(f"RNN: criterion {self.criterion!r}; it must be 'one' or 'positive'")
        if self.largest is not None and (type(self.largest) is not int or self.largest < 1):
            raise InputError(f"RNN: largest={self.largest!r}; it must be an integer of at least 1, or None")

    # Sizes

    @property
    def units(self) -> int:
        """The number of hidden units."""
        return self.V.rows

    @property
    def sizes(self) -> dict[str, Any]:
        """Units, non-zero weights, and the sizes of the other constructions if known."""
        nonzero = len(self.V.entries) + len(self.W.entries) + len(self.b) + len(self.s) + len(self.out_W.entries)
        return {"units": self.units, "nonzero": nonzero + len(self.out_b), **self.about.get("sizes", {})}

    @property
    def weights_each_way(self) -> dict[str, int]:
        """An estimate of the non-zero weights in each construction of the automaton."""
        found: dict[str, int] = self.about.get("weights", {})
        return found

    @property
    def integer(self) -> bool:
        """Whether every weight is an integer."""
        groups = (self.V.entries, self.W.entries, self.b, self.s, self.out_W.entries, self.out_b)
        return all(isinstance(v, int) for group in groups for v in group.values())

    def __repr__(self) -> str:
        letters = ", ".join(self.alphabet[:8]) + (", …" if len(self.alphabet) > 8 else "")
        numbers, made = "integer" if self.integer else "rational", self.about.get("method") or self.about.get("form")
        return (
            f"{type(self).__name__}({self.units} {self.activation} units, {numbers} weights, {self.sizes['nonzero']} "
            f"non-zero, alphabet {{{letters}}}{f', by {made}' if made else ''})"
        )

    def __str__(self) -> str:
        weights = "integer" if self.integer else "rational"
        lines = [
            f"RNN: {self.units} {self.activation.upper() if self.activation == 'slu' else 'ReLU'} units, "
            f"{weights} weights, {self.sizes['nonzero']} of them non-zero"
        ]
        if self.about.get("sizes"):
            lines.append("units by construction: " + ", ".join(f"{k} {v:,}" for k, v in self.about["sizes"].items()))
        if self.weights_each_way:
            each = ", ".join(f"{k} {v:,}" for k, v in self.weights_each_way.items())
            lines.append(f"weights by construction, about: {each}")
        return "\n".join(lines)

    # Running

    @cached_property
    def _index(self) -> dict[str, int]:
        return {symbol: i for i, symbol in enumerate(self.alphabet)}

    @cached_property
    def _columns(self) -> list[list[tuple[int, Number]]]:
        return self.V.by_column() if self.readout is None else self.readout.A.by_column()

    @cached_property
    def _named(self) -> list[list[tuple[int, Number]]] | None:
        return None if self.readout is None else self.readout.R.by_column()

    @cached_property
    def _base(self) -> list[tuple[dict[int, Number], dict[int, Number]]]:
        """W x + b for each symbol, whole and without its negative part."""
        result = []
        for column in self.W.by_column():
            base = dict(self.b)
            for i, v in column:
                base[i] = base.get(i, 0) + v
            result.append((base, {i: v for i, v in base.items() if v > 0}))
        return result

    def step(self, g: Vector, symbol: int) -> Vector:
        """The next hidden vector, given the code of a symbol. If V = A·R, V g is computed as A (R g)."""
        return self.step_from(g if self._named is None else _combine(self._named, g), symbol)

    def step_from(self, h: Vector, symbol: int) -> Vector:
        """The next hidden vector, from the named values h = R g (from g itself without a readout)."""
        base, positive = self._base[symbol]
        sums = dict(positive)
        for j, value in h.items():
            for i, weight in self._columns[j]:
                sums[i] = sums[i] + weight * value if i in sums else base.get(i, 0) + weight * value
        if self.activation == "slu":
            return {i: (v if v < 1 else 1) for i, v in sums.items() if v > 0}
        return {i: v for i, v in sums.items() if v > 0}

    def trace(self, word: Word) -> Iterator[Vector]:
        """The hidden vectors, the initial one first."""
        g = self.s
        yield g
        for symbol in encode(word, self._index):
            g = self.step(g, symbol)
            yield g

    def run(self, word: Word) -> Vector:
        """The hidden vector after the word."""
        g = self.s
        for symbol in encode(word, self._index):
            g = self.step(g, symbol)
        return g

    @cached_property
    def _out_columns(self) -> list[list[tuple[int, Number]]]:
        return self.out_W.by_column()

    def output(self, g: Vector) -> list[Number]:
        """out(g), one number for each row of out_W."""
        result: list[Number] = [self.out_b.get(k, 0) for k in range(self.out_W.rows)]
        for j, value in g.items():
            for k, weight in self._out_columns[j]:
                result[k] += weight * value
        return result

    def accepting(self, g: Vector) -> bool:
        """Whether the output says accept."""
        y = self.output(g)[0]
        return y == 1 if self.criterion == "one" else y > 0

    def accepts(self, word: Word) -> bool:
        """Whether the output after the word says accept."""
        return self.accepting(self.run(word))

    def accepts_batch(self, words: Sequence[Word]) -> np.ndarray:
        """Whether each word is accepted; uses the torch module if that is exact."""
        try:
            return self._module.accepts_batch(words)
        except NotExact:
            return np.array([self.accepts(word) for word in words], dtype=bool)

    @cached_property
    def _module(self) -> SimpleRNN:
        """The torch module; it raises NotExact if a hidden value exceeds `largest`."""
        module = self.torch()
        if self.activation == "relu" and self.largest is not None:
            module.watch(self.largest)
        return module

    def torch(self, *, dtype: Dtype | None = None, device: str | Device = "cpu") -> SimpleRNN:
        """The same network as a torch module, a `SimpleRNN`; raises NotExact if it would round.

        dtype: the number format, by default the smaller of float32 and float64 that is exact.
        device: where the module lives.
        """
        from kleene.networks.rnn.torch_rnn import SimpleRNN

        return SimpleRNN.from_exact(self, dtype, device)

    def on_fractions(self) -> Self:
        """The same network with every weight a `Fraction`: a baseline to compare with."""

        def plain(matrix: Matrix) -> Matrix:
            return Matrix(matrix.rows, matrix.columns, {at: Fraction(v) for at, v in matrix.entries.items()})

        def each(values: Vector) -> Vector:
            return {i: Fraction(v) for i, v in values.items()}

        r = self.readout and Readout(
            self.readout.names, plain(self.readout.R), each(self.readout.c), plain(self.readout.A)
        )
        return replace(
            self,
            V=plain(self.V),
            W=plain(self.W),
            b=each(self.b),
            s=each(self.s),
            out_W=plain(self.out_W),
            out_b=each(self.out_b),
            readout=r,
        )

    # Files

    def save(self, folder: str | Path) -> None:
        """Write a folder with kleene.json (the description) and weights.json (every number, exactly)."""
        from kleene.networks.rnn.files import save

        save(self, Path(folder))


def _combine(columns: list[list[tuple[int, Number]]], g: Vector) -> Vector:
    """The sum of a matrix's columns times the entries of g."""
    result: Vector = {}
    for j, value in g.items():
        for i, weight in columns[j]:
            result[i] = result[i] + weight * value if i in result else weight * value
    return {i: v for i, v in result.items() if v}
