"""An exact RNN in whole numbers over a common denominator that grows with every step.

For reading an input this is faster than fractions, which Python reduces at every sum."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from math import lcm

from kleene.networks.rnn.exact import ExactRNN
from kleene.networks.rnn.matrix import Matrix, Number, Vector, exact

Columns = list[list[tuple[int, int]]]


class WholeNumbers:
    """Runs one ReLU network without making fractions."""

    def __init__(self, rnn: ExactRNN) -> None:
        assert rnn.readout is not None and rnn.activation == "relu"
        self.rnn = rnn
        self.first, self.first_factor = _whole(rnn.readout.R)
        biases = [v for base, _ in rnn._base for v in base.values()]
        self.second, self.second_factor = _whole(rnn.readout.A, biases)
        self.base = [{i: int(v * self.second_factor) for i, v in base.items()} for base, _ in rnn._base]
        self.out, self.out_factor = _whole(rnn.out_W, rnn.out_b.values())

    def run(self, symbols: Iterable[int]) -> Iterator[tuple[dict[int, int], int]]:
        """Hidden vectors as (numerators, common denominator), the initial one first."""
        scale = lcm(*(Fraction(v).denominator for v in self.rnn.s.values()))
        g = {i: int(v * scale) for i, v in self.rnn.s.items()}
        yield g, scale
        for symbol in symbols:
            h = _times(self.first, g)
            scale *= self.first_factor
            sums = _times(self.second, h)
            for i, v in self.base[symbol].items():
                sums[i] = sums.get(i, 0) + v * scale
            scale *= self.second_factor
            g = {i: v for i, v in sums.items() if v > 0}
            yield g, scale

    def output(self, g: dict[int, int], scale: int) -> list[Number]:
        """out(g), in whole numbers where possible, otherwise in fractions."""
        sums = _times(self.out, g)
        bias = self.rnn.out_b
        total = [sums.get(k, 0) + int(bias.get(k, 0) * self.out_factor) * scale for k in range(self.rnn.out_W.rows)]
        whole = scale * self.out_factor
        return [v // whole if v % whole == 0 else Fraction(v, whole) for v in total]


def vector_of(g: dict[int, int], scale: int) -> Vector:
    """The hidden vector itself."""
    return {i: exact(Fraction(v, scale)) for i, v in g.items()}


def _whole(matrix: Matrix, more: Iterable[Number] = ()) -> tuple[Columns, int]:
    """The columns of a matrix, times the least factor that makes it and the numbers in `more` whole."""
    factor = lcm(*(Fraction(v).denominator for v in [*matrix.entries.values(), *more]))
    return [[(i, int(v * factor)) for i, v in column] for column in matrix.by_column()], factor


def _times(columns: Columns, values: dict[int, int]) -> dict[int, int]:
    result: dict[int, int] = {}
    for j, value in values.items():
        for i, weight in columns[j]:
            result[i] = result.get(i, 0) + weight * value
    return result
