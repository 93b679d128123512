"""Exact sparse matrices: the few non-zero entries, as integers and fractions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from kleene.errors import FileError

Number = int | Fraction
Vector = dict[int, Number]  # index → non-zero entry

_NUMBER = re.compile(r"-?[0-9]{1,2000}(/[0-9]{1,2000})?")


def exact(value: Any) -> Number:
    """An integer if the number is whole, otherwise a fraction."""
    fraction = Fraction(value)
    return fraction.numerator if fraction.denominator == 1 else fraction


def vector(values: Mapping[int, Any] | Iterable[Any]) -> Vector:
    """The non-zero entries of a list, or of a mapping from indices."""
    items = values.items() if isinstance(values, Mapping) else enumerate(values)
    return {i: exact(v) for i, v in items if v != 0}


@dataclass(frozen=True)
class Matrix:
    """rows × columns numbers, of which `entries` are the non-zero ones.

    >>> half = Matrix.of([[Fraction(1, 2), 0], [0, 1]])
    >>> (half @ half).entries
    {(0, 0): Fraction(1, 4), (1, 1): 1}
    """

    rows: int
    columns: int
    entries: dict[tuple[int, int], Number]

    @classmethod
    def of(cls, rows: Iterable[Iterable[Any]], columns: int | None = None) -> Matrix:
        """Build a matrix from a list of rows."""
        dense = [list(row) for row in rows]
        width = columns if columns is not None else len(dense[0])
        return cls(
            len(dense),
            width,
            {(i, j): exact(v) for i, row in enumerate(dense) for j, v in enumerate(row) if v != 0},
        )

    def by_column(self) -> list[list[tuple[int, Number]]]:
        """The (row, entry) pairs of each column."""
        result: list[list[tuple[int, Number]]] = [[] for _ in range(self.columns)]
        for (i, j), value in self.entries.items():
            result[j].append((i, value))
        return result

    def by_row(self) -> list[list[tuple[int, Number]]]:
        """The (column, entry) pairs of each row."""
        result: list[list[tuple[int, Number]]] = [[] for _ in range(self.rows)]
        for (i, j), value in self.entries.items():
            result[i].append((j, value))
        return result

    def times(self, values: Vector) -> Vector:
        """The matrix times a sparse vector."""
        columns = self.by_column()
        result: dict[int, Number] = {}
        for j, v in values.items():
            for i, c in columns[j]:
                result[i] = result.get(i, 0) + c * v
        return vector(result)

    def __matmul__(self, other: Matrix) -> Matrix:
        right = other.by_row()
        entries: dict[tuple[int, int], Number] = {}
        for (i, k), left in self.entries.items():
            for j, value in right[k]:
                entries[i, j] = entries.get((i, j), 0) + left * value
        return Matrix(self.rows, other.columns, {at: exact(v) for at, v in entries.items() if v != 0})

    def dense(self) -> list[list[Number]]:
        """All entries, zeros included."""
        result: list[list[Number]] = [[0] * self.columns for _ in range(self.rows)]
        for (i, j), value in self.entries.items():
            result[i][j] = value
        return result

    def to_json(self) -> list[list[int | str]]:
        """A list of [row, column, number]."""
        return [[i, j, number_to_json(v)] for (i, j), v in sorted(self.entries.items())]


def number_to_json(value: Number) -> int | str:
    """A number as JSON holds it exactly: integers of up to 53 bits as numbers, others as text."""
    return value if isinstance(value, int) and abs(value) < 2**53 else str(value)


def number_from_json(value: Any, where: str) -> Number:
    """The number that `number_to_json` wrote."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and _NUMBER.fullmatch(value) and not value.endswith("/0"):
        try:
            return exact(Fraction(value))
        except ZeroDivisionError:
            pass
    raise FileError(f"{where}: {value!r:.40} is not an exact number; it must be an integer or a text like '-2/3'")


def matrix_from_json(data: Any, rows: int, columns: int, where: str) -> Matrix:
    """The matrix that `to_json` wrote, checked against its shape."""
    entries: dict[tuple[int, int], Number] = {}
    if not isinstance(data, list):
        raise FileError(f"{where}: must be a list of [row, column, number]")
    for item in data:
        if not isinstance(item, list) or len(item) != 3 or not all(type(i) is int for i in item[:2]):
            raise FileError(f"{where}: {item!r:.60} must be [row, column, number]")
        i, j = item[:2]
        if not (0 <= i < rows and 0 <= j < columns):
            raise FileError(f"{where}: entry ({i}, {j}) is outside {rows} × {columns}")
        if (i, j) in entries:
            raise FileError(f"{where}: entry ({i}, {j}) appears twice")
        entries[i, j] = number_from_json(item[2], f"{where} ({i}, {j})")
    return Matrix(rows, columns, {at: v for at, v in entries.items() if v != 0})


def vector_from_json(data: Any, size: int, where: str) -> Vector:
    """A vector, written as a matrix of one column."""
    return {i: v for (i, _), v in matrix_from_json(data, size, 1, where).entries.items()}


def vector_to_json(values: Vector) -> list[list[int | str]]:
    """A vector, as a matrix of one column."""
    return [[i, 0, number_to_json(v)] for i, v in sorted(values.items())]
