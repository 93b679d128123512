"""The kinds of values that a variable of a program can have: categorical, numerical, sets, and binary words."""

from __future__ import annotations

import builtins
import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from kleene.common.tokens import as_int
from kleene.errors import InputError, RangeError

Value = Any  # an int, a Fraction (num) or a frozenset (subset)

MAX_WORD_BITS = 62
MAX_VALUES = 2**21  # the most values of a variable, tokens, and positions with tables: all are held in memory


class Kind:
    """The values that a variable can have, in order. `index` finds the place of a value."""

    name: str
    values: Sequence[Value]

    def __len__(self) -> int:
        return len(self.values)

    def index(self, value: Any) -> int | None:
        """The place of a value among the declared ones, or None."""
        raise NotImplementedError

    def describe(self) -> str:
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        raise NotImplementedError


@dataclass(frozen=True)
class Categorical(Kind):
    """The integers 0 … range − 1, one dimension each."""

    range: int
    name = "cat"

    @property
    def values(self) -> Sequence[int]:  # type: ignore[override]
        return builtins.range(self.range)

    def index(self, value: Any) -> int | None:
        whole = as_int(value)
        return whole if whole is not None and 0 <= whole < self.range else None

    def describe(self) -> str:
        return f"0 … {self.range - 1}"

    def to_json(self) -> dict[str, Any]:
        return {"kind": "cat", "range": self.range}


@dataclass(frozen=True)
class Numerical(Kind):
    """Declared rational numbers, ascending. A head of this kind averages what it selects."""

    values: tuple[int | Fraction, ...]
    name = "num"

    def index(self, value: Any) -> int | None:
        try:
            return self._places.get(as_number(value))
        except (TypeError, ValueError, OverflowError):
            return None

    @cached_property
    def _places(self) -> dict[int | Fraction, int]:
        return {value: place for place, value in enumerate(self.values)}

    def nearest(self, average: Fraction | int) -> int | Fraction:
        """The declared value nearest to an average, the smaller one on a tie; RangeError far outside all values."""
        low, high = self.values[0], self.values[-1]
        slack_low = Fraction(self.values[1] - low, 2) if len(self) > 1 else Fraction(1, 2)
        slack_high = Fraction(high - self.values[-2], 2) if len(self) > 1 else Fraction(1, 2)
        if average < low - slack_low or average > high + slack_high:
            raise RangeError(f"the average {average} is outside the declared values {self.describe()}")
        place = bisect_left(self.values, average)
        near = self.values[max(place - 1, 0) : place + 1]
        return min(near, key=lambda value: (abs(value - average), value))

    def describe(self) -> str:
        shown = [str(value) for value in self.values]
        return ", ".join(shown if len(shown) <= 6 else [*shown[:3], "…", *shown[-2:]])

    def to_json(self) -> dict[str, Any]:
        return {"kind": "num", "values": [str(value) for value in self.values]}


@dataclass(frozen=True)
class Subset(Kind):
    """Declared sets of integers out of 0 … range − 1. As a query it matches any of its members."""

    range: int
    values: tuple[frozenset[int], ...]
    name = "subset"

    def index(self, value: Any) -> int | None:
        try:
            wanted = frozenset(int(member) for member in value)
        except (TypeError, ValueError):
            return None
        return self._places.get(wanted)

    @cached_property
    def _places(self) -> dict[frozenset[int], int]:
        return {members: place for place, members in enumerate(self.values)}

    def describe(self) -> str:
        shown = ["{" + ", ".join(map(str, sorted(members))) + "}" for members in self.values]
        return ", ".join(shown if len(shown) <= 6 else [*shown[:3], "…", *shown[-2:]])

    def to_json(self) -> dict[str, Any]:
        return {"kind": "subset", "range": self.range, "values": [sorted(members) for members in self.values]}


@dataclass(frozen=True)
class Word(Kind):
    """The integers 0 … 2**bits − 1 in binary: `bits` dimensions instead of 2**bits."""

    bits: int
    name = "word"

    @property
    def values(self) -> Sequence[int]:  # type: ignore[override]
        return range(1 << self.bits)

    def index(self, value: Any) -> int | None:
        whole = as_int(value)
        return whole if whole is not None and 0 <= whole < (1 << self.bits) else None

    def describe(self) -> str:
        return f"0 … 2**{self.bits} − 1"

    def to_json(self) -> dict[str, Any]:
        return {"kind": "word", "bits": self.bits}


def kind_from_json(content: Any) -> Kind:
    """Rebuild a kind from its `to_json`."""
    name = content["kind"]
    if name == "cat":
        return Categorical(int(content["range"]))
    if name == "num":
        return Numerical(tuple(number_from_json(value) for value in content["values"]))
    if name == "subset":
        return Subset(int(content["range"]), tuple(frozenset(members) for members in content["values"]))
    if name == "word":
        return Word(int(content["bits"]))
    raise InputError(f"unknown kind of variable {name!r}; known: cat, num, subset, word")


def as_number(value: Any) -> int | Fraction:
    """Convert to an exact number: an int if it is whole, otherwise a Fraction."""
    exact = Fraction(value)
    return int(exact) if exact.denominator == 1 else exact


def number_from_json(value: Any) -> int | Fraction:
    """An exact number of a file: a whole number, or text such as "1/2"; never "1e999999999", too long to hold."""
    written = isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,40}(/[0-9]{1,40})?", value)
    if not written and type(value) is not int:
        raise ValueError(f"{str(value)[:40]!r} is not a number")
    return as_number(value)
