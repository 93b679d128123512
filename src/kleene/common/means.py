"""Exact means. A mean is a Python float that remembers the fraction it stands for.

Tracr computes means in floats. Here `1/3 + 1/3 + 1/3` and `(indices + 1) * mean` are exact, and a mean still compares,
prints and calculates as a float wherever a program uses it as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

LARGEST_DENOMINATOR = 1_000_000  # a float within one rounding of such a fraction is read as that fraction


class Mean(float):
    """A float that is the rounding of `exact`. Sums, products and quotients with whole numbers and means stay exact.

    >>> 3 * Mean(Fraction(1, 3)) == 1, Mean(Fraction(1, 5)) == 0.2
    (True, True)
    """

    exact: Fraction

    def __new__(cls, exact: Fraction) -> Mean:
        made = super().__new__(cls, exact.numerator / exact.denominator)
        made.exact = exact
        return made

    def __neg__(self) -> Any:
        return plain(-self.exact)

    def __abs__(self) -> Any:
        return plain(abs(self.exact))

    def __reduce__(self) -> Any:
        return Mean, (self.exact,)


def _exact_operation(name: str, operation: Callable[[Fraction, Fraction], Any]) -> None:
    """Give `Mean` an operator that stays exact where the other number is exact, and is a float's otherwise."""

    def forward(self: Mean, other: Any) -> Any:
        if isinstance(other, Mean | int | Fraction):
            return plain(operation(self.exact, exact(other)))
        return getattr(float, f"__{name}__")(self, other)

    def backward(self: Mean, other: Any) -> Any:
        if isinstance(other, Mean | int | Fraction):
            return plain(operation(exact(other), self.exact))
        return getattr(float, f"__r{name}__")(self, other)

    setattr(Mean, f"__{name}__", forward)
    setattr(Mean, f"__r{name}__", backward)


_exact_operation("add", lambda a, b: a + b)
_exact_operation("sub", lambda a, b: a - b)
_exact_operation("mul", lambda a, b: a * b)
_exact_operation("truediv", lambda a, b: a / b)
_exact_operation("mod", lambda a, b: a % b)
_exact_operation("floordiv", lambda a, b: Fraction(a // b))


def is_number(value: Any) -> bool:
    """Whether a value can be averaged: a bool, an int, a Fraction or a finite float."""
    return isinstance(value, int | Fraction) or (isinstance(value, float) and abs(value) != float("inf"))


def exact(value: Any) -> Fraction:
    """The fraction that a number stands for."""
    if isinstance(value, Mean):
        return value.exact
    given = Fraction(value)
    if isinstance(value, float) and given.denominator > LARGEST_DENOMINATOR:
        simple = given.limit_denominator(LARGEST_DENOMINATOR)
        return simple if simple.numerator / simple.denominator == value else given
    return given


def plain(value: Fraction) -> int | Mean:
    """A fraction as a program sees it: a whole number is an int, another a float."""
    return int(value) if value.denominator == 1 else Mean(value)


def mean(values: Iterable[Any]) -> int | Mean:
    """The exact mean of numbers."""
    numbers = [exact(value) for value in values]
    return plain(sum(numbers, Fraction(0)) / len(numbers))
