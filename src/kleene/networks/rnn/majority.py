"""MAJORITY, strictly more ones than zeros, which is not regular: exercises 4.7 and 4.8."""

from __future__ import annotations

from fractions import Fraction

from kleene.networks.rnn.exact import ExactRNN
from kleene.networks.rnn.matrix import Matrix, vector


def integer_relu() -> ExactRNN:
    """Exercise 4.7: integer weights and ReLU; the output is 1 or 0.

    With d the number of ones minus zeros, the units are max(d, 0), max(−d, 0) and max(d − 1, 0).

    >>> integer_relu().accepts("0111"), integer_relu().accepts("0101")
    (True, False)
    """
    return ExactRNN(
        ("0", "1"),
        V=Matrix.of([[1, -1, 0], [-1, 1, 0], [1, -1, 0]]),
        W=Matrix.of([[-1, 1], [1, -1], [-1, 1]]),
        b={2: -1},
        s={},
        out_W=Matrix.of([[1, 0, -1]]),
        about={"language": "strictly more ones than zeros"},
    )


def rational_slu() -> ExactRNN:
    """Exercise 4.8: rational weights and SLU; the output is positive or not.

    u = a + b is 4^−ones, with a = SLU(u/4 + x₁ − 1) and b = SLU(u + x₀ − 1); e = SLU(e/2) is 2^−length.

    >>> rational_slu().accepts("0111"), rational_slu().accepts("0101")
    (True, False)
    """
    quarter, half = Fraction(1, 4), Fraction(1, 2)
    return ExactRNN(
        ("0", "1"),
        V=Matrix.of([[quarter, quarter, 0], [1, 1, 0], [0, 0, half]]),
        W=Matrix.of([[0, 1], [1, 0], [0, 0]]),
        b=vector([-1, -1, 0]),
        s={0: 1, 2: 1},
        out_W=Matrix.of([[-Fraction(3, 2), -Fraction(3, 2), 1]]),
        activation="slu",
        criterion="positive",
        about={"language": "strictly more ones than zeros"},
    )
