"""An RNN with real weights (Theorem 4.12): it computes the digits of real numbers on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from kleene.errors import InputError, NotSupported
from kleene.networks.rnn.decider import NUL, Decider, Progress
from kleene.networks.rnn.matrix import Vector


class SymbolStream:
    """An endless string that keeps the part read so far."""

    def __init__(self, make: Callable[[], Iterator[str]]) -> None:
        self.known: list[str] = []
        self._more = make()

    def __getitem__(self, place: int) -> str:
        while len(self.known) <= place:
            self.known.append(next(self._more))
        return self.known[place]

    def digits(self, symbol: str, base: int) -> Iterator[int]:
        """Equation (4.40) for one symbol: 0 before the point, then base − 1 where the string has the
        symbol."""
        yield 0
        place = 0
        while True:
            yield base - 1 if self[place] == symbol else 0
            place += 1


@dataclass(frozen=True, repr=False)
class OracleRNN(Decider):
    """A `Decider` whose start vector (so, by Lemma 4.5, its first column of V) holds real numbers."""

    kind = "oracle"

    def attach(self, stream: SymbolStream, lazy: dict[int, str]) -> None:
        """Set the real values: value → the symbol of the stream that its digits mark."""
        object.__setattr__(self, "stream", stream)
        object.__setattr__(self, "lazy", lazy)

    @property
    def symbols_read(self) -> int:
        """The number of symbols of ⟨L⟩ read so far."""
        return len(self.stream.known)  # type: ignore[attr-defined]

    def weight(self, symbol: str, symbols: int) -> tuple[Fraction, Fraction]:
        """Bounds on the real weight of a symbol, from the first symbols of ⟨L⟩."""
        base = self.about["base"]
        low = sum(
            (Fraction(base - 1, base ** (i + 1)) for i in range(symbols) if self.stream[i] == symbol),  # type: ignore[attr-defined]
            Fraction(0),
        )
        return low, low + Fraction(1, base**symbols)

    def _plain(self, inputs: list[int], limit: int, progress: Progress) -> tuple[Vector, int, int]:
        raise InputError(
            "decide: real weights have endless digits, which evaluator='plain' cannot multiply; truncate them first"
        )

    def _patterns(self, inputs: list[int], limit: int, progress: Progress) -> tuple[Vector, int, int]:
        reached: tuple[Vector, int, int] = self._engine.run(inputs, self._index[NUL], limit)
        return reached

    @cached_property
    def _engine(self) -> Any:
        from kleene.networks.rnn.digit_patterns import PatternEngine

        base, stream = self.about["base"], self.stream  # type: ignore[attr-defined]
        lazy: dict[int, Callable[[], Iterator[int]]] = {
            at: partial(stream.digits, symbol, base)
            for at, symbol in self.lazy.items()  # type: ignore[attr-defined]
        }
        return PatternEngine(self, base, lazy)

    def save(self, folder: str | Path) -> None:
        """Raise NotSupported: a real weight has endless digits."""
        raise NotSupported("save: this network has real weights; save the network that oracle_to_rnn.truncated returns")
