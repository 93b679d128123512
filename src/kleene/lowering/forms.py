"""Separable forms: a constant plus a function of each of several variables.

A form is linear in one-hot space. So a threshold on a form is one neuron, however many combinations of values
lie behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import lcm, prod
from typing import Any

import numpy as np

from kleene.errors import ProgramError
from kleene.machines.kinds import as_number

Number = int | Fraction
Domains = Mapping[str, Any]  # variable → indices of the values that it may have

MAX_FORM_VALUES = 1_000_000


@dataclass(frozen=True)
class Form:
    """constant + Σ terms[v][index of v's value]. Tables start at 0, so that equal forms are equal data."""

    constant: Number
    terms: tuple[tuple[str, tuple[Number, ...]], ...]  # sorted by variable; no table is all zero

    @classmethod
    def of(cls, constant: Number, terms: Mapping[str, tuple[Number, ...]]) -> Form:
        """Normalise these tables into a form."""
        kept = {}
        for name, table in terms.items():
            constant += table[0]
            if any(entry != table[0] for entry in table):
                kept[name] = tuple(as_number(entry - table[0]) for entry in table)
        return cls(as_number(constant), tuple(sorted(kept.items())))

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.terms)

    @cached_property
    def tables(self) -> dict[str, tuple[Number, ...]]:
        return dict(self.terms)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.constant, self.terms))

    def plus(self, other: Form, times: Number = 1) -> Form:
        """self + times · other."""
        tables: dict[str, tuple[Number, ...]] = dict(self.terms)
        for name, table in other.terms:
            scaled = tuple(entry * times for entry in table)
            mine = tables.get(name)
            tables[name] = scaled if mine is None else tuple(a + b for a, b in zip(mine, scaled))
        return Form.of(self.constant + times * other.constant, tables)

    def scaled(self, times: Number) -> Form:
        return Form(0, ()).plus(self, times)

    def at(self, indices: Mapping[str, Any]) -> Number:
        """The value of the form for one assignment of indices."""
        return as_number(self.constant + sum(table[indices[name]] for name, table in self.terms))

    @cached_property
    def values(self) -> tuple[Number, ...]:
        """Every value that the form can have, ascending."""
        return self.values_on({})

    @cached_property
    def denominator(self) -> int:
        """The smallest whole number that makes every entry whole."""
        entries = [self.constant, *(entry for _, table in self.terms for entry in table)]
        return lcm(*(Fraction(entry).denominator for entry in entries))

    @cached_property
    def whole(self) -> Form:
        """The form times its denominator: the same form in whole numbers."""
        return self if self.denominator == 1 else self.scaled(self.denominator)

    def values_on(self, domains: Domains) -> tuple[Number, ...]:
        """Every value that the form can have for variables within `domains`, ascending."""
        sums: set[Number] = {self.constant}
        for name, table in self.terms:
            entries = set(table) if name not in domains else {table[i] for i in domains[name]}
            if len(sums) * len(entries) > 50 * MAX_FORM_VALUES:
                raise ProgramError(f"an expression on {', '.join(self.variables)} has too many values")
            sums = {total + entry for total in sums for entry in entries}
        return tuple(sorted(total if type(total) is int else as_number(total) for total in sums))

    def describe(self) -> str:
        """Write the form for a reader, as in `carry + a − b + 3`; a term that is not a multiple is shown as a table."""
        parts = []
        for name, table in self.terms:
            slope = table[1]
            if all(entry == slope * index for index, entry in enumerate(table)):
                sign = "−" if slope < 0 else "+"
                parts.append(f"{sign} {name}" if abs(slope) == 1 else f"{sign} {abs(slope)}·{name}")
            else:
                shown = ", ".join(map(str, table[:8])) + (", …" if len(table) > 8 else "")
                parts.append(f"+ [{shown}][{name}]")
        if self.constant or not parts:
            parts.append(f"{'−' if self.constant < 0 else '+'} {abs(self.constant)}")
        text = " ".join(parts)
        return text[2:] if text.startswith("+ ") else text


def variable_form(name: str, size: int) -> Form:
    """The form whose value is the index of one variable's value."""
    return Form(0, ((name, tuple(range(size))),)) if size > 1 else Form(0, ())


def joined(first: Form, second: Form, function: Mapping[tuple[Number, Number], Any]) -> tuple[Form, dict[Number, Any]]:
    """Rewrite a function of two forms as a function of one form.

    That form is their sum or their difference where the sum or the difference determines the result. Otherwise it is
    a positional combination, which always does.
    """
    for times in (1, -1):
        form = first.plus(second, times)
        table: dict[Number, Any] = {}
        if all(
            _same(table.setdefault(as_number(a + times * b), result), result) for (a, b), result in function.items()
        ):
            return form, table
    low, span = second.values[0], second.values[-1] - second.values[0]
    steps = [b - a for a, b in zip(first.values, first.values[1:])]
    base = as_number(Fraction(span + 1) / min(steps)) if steps else 1
    form = first.scaled(base).plus(second).plus(Form(low, ()), -1)
    return form, {as_number(a * base + b - low): result for (a, b), result in function.items()}


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and bool(a == b)


class Grid:
    """Every assignment of some variables within their domains, as broadcast index arrays."""

    def __init__(self, names: Iterable[str], domains: Domains, limit: int = 20_000_000) -> None:
        self.names = sorted(names)
        self.choices = [np.fromiter(sorted(domains[name]), dtype=np.int64) for name in self.names]
        self.shape = tuple(len(choice) for choice in self.choices)
        if prod(self.shape) > limit:
            raise ProgramError(
                f"a condition on {', '.join(self.names)} has {prod(self.shape):,} combinations of values, "
                f"more than the {limit:,} that are tried"
            )

    def indices(self, name: str) -> np.ndarray:
        axis = self.names.index(name)
        shape = [1] * len(self.names)
        shape[axis] = -1
        return self.choices[axis].reshape(shape)

    def evaluate(self, form: Form) -> np.ndarray:
        """The form times its denominator, for every assignment."""
        whole = form.whole
        total = np.full((1,) * len(self.names), int(whole.constant), dtype=np.int64)
        for name, table in whole.terms:
            total = total + np.array(table, dtype=np.int64)[self.indices(name)]
        return total

    def where(self, tests: Iterable[tuple[Form, Iterable[Number]]]) -> np.ndarray:
        """Which assignments pass all the tests."""
        mask = np.ones(self.shape, dtype=bool)
        for form, allowed in tests:
            wanted = np.array([int(value * form.denominator) for value in allowed], dtype=np.int64)
            mask &= np.isin(self.evaluate(form), wanted)
        return mask
