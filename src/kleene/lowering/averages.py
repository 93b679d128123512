"""Averages, the one inexact operation: slopes and offsets that put a rounded average into the right bucket.

The scalar of a numerical head holds P/q, a sum of whole numbers divided by the number of selected positions. It is
rounded once. A bucket boundary m lies between two declared values; the unit clip(slope · x − offset) must be 0 for
every P/q ≤ m and 1 for every P/q > m, for all q up to the longest input. The slope is a power of two and
the offset a whole number, so that nothing but the average itself is rounded.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

from kleene.errors import NotExact
from kleene.lowering.layout import average_scale, averaged_values
from kleene.machines.spec import Spec

# number format → bits of precision
PRECISION = {"float64": 53, "float32": 24, "bfloat16": 8}


@dataclass(frozen=True)
class Boundary:
    """[average ≥ declared value k] = clip(slope · x − offset)."""

    slope: int
    offset: int


def neighbours(middle: Fraction, length: int) -> tuple[Fraction, Fraction]:
    """The two fractions P/q with q ≤ length next to `middle`: the largest not above it and the smallest above it."""
    a, b = middle.numerator, middle.denominator
    if b <= length:  # `middle` is itself such a fraction; the next one solves p·b − a·q = 1 with the largest q
        inverse = pow(a, -1, b) if b > 1 else 0
        q = length - (length + inverse) % b
        return middle, Fraction((a * q + 1) // b, q)
    p0, q0, p1, q1, n, d = 0, 1, 1, 0, a, b  # expand its continued fraction while denominators are small enough
    while q0 + (n // d) * q1 <= length:
        p0, q0, p1, q1, n, d = p1, q1, p0 + (n // d) * p1, q0 + (n // d) * q1, d, n - (n // d) * d
    k = (length - q0) // q1
    sides = Fraction(p0 + k * p1, q0 + k * q1), Fraction(p1, q1)
    return min(sides), max(sides)


def _boundary(middle: Fraction, length: int, precision: int) -> Boundary | None:
    below, above = neighbours(middle, length)
    error = Fraction(1, 1 << precision)  # the relative error of one rounding; every later operation is exact
    below, above = below + abs(below) * error, above - abs(above) * error
    slope = 1
    while slope * max(abs(below), abs(above)) < 1 << precision:
        offset = ceil(slope * below)
        if offset + 1 <= slope * above:
            return Boundary(slope, offset) if abs(offset) < 1 << precision else None
        slope *= 2
    return None


def boundaries(spec: Spec, head: str, length: int, dtype: str) -> list[Boundary]:
    """Find the boundary below each declared value but the first.

    Raise `NotExact` with the largest length that works where this length does not.
    """
    precision, scale, made = PRECISION[dtype], average_scale(spec, head), []
    length += spec.heads[head].counts  # the null key is averaged, too
    longest = min(length, ((1 << precision) - 1) // _largest(spec, head))
    for low, high in itertools.pairwise(spec.heads[head].kind.values):
        middle = Fraction(low + high, 2) * scale
        found = _boundary(middle, longest, precision) if longest else None
        if found is None:  # longer inputs have closer neighbours
            lengths = range(1, longest)
            longest = bisect_left(lengths, True, key=lambda size: _boundary(middle, size, precision) is None)
        elif longest == length:
            made.append(found)
    if longest < length:
        less = int(spec.heads[head].counts)
        raise NotExact(
            f"{spec.name}: {dtype} cannot tell the declared values of '{head}' apart on inputs of length "
            f"{length - less}; the largest length that works is {longest - less}"
        )
    return made


def extreme_averages(spec: Spec, head: str, length: int) -> list[list[Fraction]]:
    """The least and the greatest average that rounds to each declared value, times the scale.

    Where no average rounds to any declared value, return the declared values themselves.
    """
    scale, values = average_scale(spec, head), spec.heads[head].kind.values
    length += spec.heads[head].counts
    averaged = [Fraction(value) * scale for value in averaged_values(spec, head)]
    middles = [Fraction(low + high, 2) * scale for low, high in itertools.pairwise(values)]
    first, last = neighbours(Fraction(values[0]) * scale, length), neighbours(Fraction(values[-1]) * scale, length)
    least = [first[0] if first[0] == values[0] * scale else first[1]]
    least += [neighbours(middle, length)[1] for middle in middles]
    greatest = [*(neighbours(middle, length)[0] for middle in middles), last[0]]
    ends = [(max(low, min(averaged)), min(high, max(averaged))) for low, high in zip(least, greatest)]
    found = [[low, high] if low <= high else [] for low, high in ends]
    return found if any(found) else [[Fraction(value) * scale] for value in values]


def _largest(spec: Spec, head: str) -> int:
    scale = average_scale(spec, head)
    return max(1, max(abs(ceil(value * scale)) for value in averaged_values(spec, head)))


def clearing_scale(spec: Spec, head: str) -> tuple[int, bool, bool]:
    """A power of two that bounds every average, and whether averages can be positive and negative."""
    values = averaged_values(spec, head)
    size = 1
    while size < _largest(spec, head):
        size *= 2
    return size, max(values) > 0, floor(min(values)) < 0
