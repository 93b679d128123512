"""Functions of atoms. An atom is something that a position knows: its token, its index, or a value that a head has
read.

Every s-op is a function of atoms, tabulated exactly: maps between two attention layers cost nothing until a head or the
output needs their result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from kleene.errors import NotSupported

MAX_TABLE = 400_000  # entries of a function that is tabulated whole; a larger one is computed in two steps
MAX_STEP = 4_000_000  # entries of a function of two intermediate results
IMPOSSIBLE = -1  # in a table: no input leads there, or the program raises there


@dataclass(eq=False)
class Atom:
    """Something that a position knows, one of the values in `domain`."""

    number: int
    name: str
    domain: list[Any]
    by_index: np.ndarray | None = None  # (index, value): which values are possible at which index

    @property
    def size(self) -> int:
        return len(self.domain)


@dataclass(eq=False)
class Stored(Atom):
    """The result of a function, kept in a variable and read from the next layer on."""

    function: Func = field(default=None)  # type: ignore[assignment]


@dataclass(frozen=True, eq=False)
class Func:
    """table[values of the atoms] is a whole number from 0, or `IMPOSSIBLE`."""

    atoms: tuple[Atom, ...]  # by ascending number
    table: np.ndarray

    @property
    def size(self) -> int:
        """One more than the largest result."""
        return int(self.table.max(initial=0)) + 1

    @property
    def key(self) -> Any:
        """Equal for equal functions."""
        return tuple(atom.number for atom in self.atoms), self.table.shape, self.table.tobytes()

    @classmethod
    def constant(cls) -> Func:
        return cls((), np.zeros((), dtype=np.int64))

    @classmethod
    def of_atom(cls, atom: Atom) -> Func:
        return cls((atom,), np.arange(atom.size))

    @property
    def is_atom(self) -> bool:
        """Whether the function is its one atom."""
        return len(self.atoms) == 1 and np.array_equal(self.table, np.arange(self.atoms[0].size))

    def over(self, atoms: Sequence[Atom]) -> np.ndarray:
        """The table over more atoms, as a broadcast array."""
        shape = [atom.size if atom in self.atoms else 1 for atom in atoms]
        return np.broadcast_to(self.table.reshape(shape), [atom.size for atom in atoms])

    def mapped(self, places: np.ndarray) -> Func:
        """The function followed by places[result]."""
        table = np.where(self.table < 0, IMPOSSIBLE, places[np.maximum(self.table, 0)])
        return Func(self.atoms, table).simplified()

    def simplified(self) -> Func:
        """The function without the atoms on which it does not depend."""
        atoms, table = list(self.atoms), self.table
        for place in reversed(range(len(atoms))):
            most = table.max(axis=place, keepdims=True)
            if bool(np.all((table == most) | (table < 0))):
                table = most.squeeze(axis=place)
                del atoms[place]
        return Func(tuple(atoms), table)


def union(*functions: Func) -> tuple[Atom, ...]:
    atoms = {atom.number: atom for function in functions for atom in function.atoms}
    return tuple(atoms[number] for number in sorted(atoms))


def size_of(atoms: Sequence[Atom]) -> int:
    return prod(atom.size for atom in atoms)


def possible(atoms: Sequence[Atom], index: Atom) -> np.ndarray | None:
    """Which combinations of values are possible, as far as the index limits them; None: all."""
    if index not in atoms:
        return None
    mask: np.ndarray | None = None
    for place, atom in enumerate(atoms):
        if atom.by_index is not None:
            own = list(atoms).index(index)
            shape = [1] * len(atoms)
            shape[own], shape[place] = index.size, atom.size
            part = atom.by_index if own < place else atom.by_index.T
            mask = part.reshape(shape) if mask is None else mask & part.reshape(shape)
    return None if mask is None else np.broadcast_to(mask, [atom.size for atom in atoms])


def check_size(what: str, entries: int, limit: int = MAX_STEP) -> None:
    if entries > limit:
        raise NotSupported(
            f"{what}: {entries:,} combinations of values, more than the {limit:,} that are tabulated; use a smaller "
            "vocabulary or max_seq_len, or fewer values in between"
        )
