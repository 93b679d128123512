"""Functions of a few bits, such as one bit of a bitwise expression: a small table of zeros and ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from kleene.errors import ProgramError
from kleene.machines.bitwords import bit_name

MOST_ATOMS = 8


@dataclass(frozen=True)
class BitFunction:
    """`table >> index & 1`, where bit k of the index is the bit named atoms[k]. It depends on every atom."""

    atoms: tuple[str, ...]  # names of bits, sorted
    table: int

    def value(self, values: Mapping[str, Any]) -> Any:
        """The value for whole numbers, or for arrays of them."""
        index = sum(values[atom] << k for k, atom in enumerate(self.atoms))
        return self.table >> index & 1

    def at(self, index: int) -> int:
        return self.table >> index & 1

    def linear(self) -> tuple[int, int] | None:
        """(slope, base) of a function of at most one bit; None for the others."""
        if len(self.atoms) > 1:
            return None
        return (self.at(1) - self.at(0) if self.atoms else 0), self.at(0)

    def describe(self) -> str:
        if not self.atoms:
            return str(self.table)
        plain = {(1, 0b10): "{}", (1, 0b01): "~{}", (2, 8): "{}&{}", (2, 14): "{}|{}", (2, 6): "{}^{}"}
        found = plain.get((len(self.atoms), self.table))
        return found.format(*self.atoms) if found else f"[{self.table:b}]({', '.join(self.atoms)})"


def literal(word: str, bit: int) -> BitFunction:
    """A bit of a word itself."""
    return BitFunction((bit_name(word, bit),), 0b10)


def constant_bits(value: int, count: int) -> tuple[BitFunction, ...]:
    """A number as bits that depend on nothing."""
    return tuple(BitFunction((), value >> bit & 1) for bit in range(count))


def inverted(function: BitFunction) -> BitFunction:
    return BitFunction(function.atoms, ((1 << (1 << len(function.atoms))) - 1) ^ function.table)


@cache
def combined(one: BitFunction, two: BitFunction, table: int) -> BitFunction:
    """`table >> (2·two + one) & 1` as a function of the bits of both."""
    atoms = tuple(sorted({*one.atoms, *two.atoms}))
    if len(atoms) > MOST_ATOMS:
        raise ProgramError(f"a bitwise expression depends on {len(atoms)} bits; assign parts of it first")
    made = 0
    for index in range(1 << len(atoms)):
        known = {atom: index >> k & 1 for k, atom in enumerate(atoms)}
        made |= (table >> (2 * two.value(known) + one.value(known)) & 1) << index
    return _without_idle(BitFunction(atoms, made))


def _without_idle(function: BitFunction) -> BitFunction:
    """The same function without the atoms that it does not depend on."""
    for k, _ in enumerate(function.atoms):
        rest = [i for i in range(1 << len(function.atoms)) if not i >> k & 1]
        if all(function.at(i) == function.at(i | 1 << k) for i in rest):
            kept = function.atoms[:k] + function.atoms[k + 1 :]
            return _without_idle(BitFunction(kept, sum(function.at(i) << n for n, i in enumerate(rest))))
    return function


Cube = tuple[int, int]  # (mask of the bits that count, their values)


def cubes(wanted: Sequence[bool]) -> Iterator[Cube]:
    """Disjoint cubes that cover the indices where `wanted` is true: few of them, found greedily, largest first."""
    left = {index for index, one in enumerate(wanted) if one}
    bits = (len(wanted) - 1).bit_length()
    while left:
        best: tuple[int, Cube, set[int]] | None = None
        for seed in _corners(left):
            cube, members = _grown(seed, left, bits)
            if best is None or len(members) > best[0]:
                best = (len(members), cube, members)
        assert best is not None
        left -= best[2]
        yield best[1]


def _corners(left: set[int]) -> list[int]:
    """The seeds to grow a cube from."""
    ordered = sorted(left)
    return ordered if len(ordered) <= 64 else ordered[:: len(ordered) // 64]


def _grown(seed: int, left: set[int], bits: int) -> tuple[Cube, set[int]]:
    """The cube around a seed: free bits one by one, while every member is still to be covered."""
    members, mask = {seed}, (1 << bits) - 1
    for bit in reversed(range(bits)):
        other = {index ^ 1 << bit for index in members}
        if other <= left:
            members, mask = members | other, mask & ~(1 << bit)
    return (mask, seed & mask), members
