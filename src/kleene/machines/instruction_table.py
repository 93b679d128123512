"""Instruction tables: the entries that a network memorises.

An entry is an instruction: (A, B, C) of SUBLEQ, or an opcode and its arguments. Programs and instructions are
counted from 0. For SUBLEQ, instruction 0 is the halt of the Synthesizer paper, `subleq(0, 0, 0)`, so that an
instruction's place in the table is its number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from kleene.common.execution import Instruction
from kleene.errors import InputError
from kleene.files import MAX_ENTRIES
from kleene.machines.subleq import Image


class InstructionTable:
    """(program, instruction) → operands. `sizes` are the numbers of classes of the operands: (k, k, n) for SUBLEQ.

    >>> table = InstructionTable({"halt": [(0, 0, 0)], "clear": [(0, 0, 0), (2, 2, 2), (0, 0, 0)]})
    >>> table.lookup(program="clear", instruction=1), len(table), table.sizes
    ((2, 2, 2), 2, (3, 3, 3))
    """

    def __init__(
        self,
        programs: Mapping[str, Any] | Sequence[Any] | np.ndarray,
        *,
        sizes: Sequence[int] | None = None,
        fields: Sequence[str] = ("A", "B", "C"),
    ) -> None:
        self.names = tuple(programs) if isinstance(programs, Mapping) else tuple(map(str, range(len(programs))))
        rows = list(programs.values()) if isinstance(programs, Mapping) else list(programs)
        self.fields = tuple(fields)
        if not rows:
            raise InputError("InstructionTable: no programs")
        self.programs = tuple(self._program(name, row) for name, row in zip(self.names, rows))
        most = np.max([program.max(axis=0) for program in self.programs], axis=0)
        if sizes is None:
            sizes = [int(value) + 1 for value in most]
            if self.fields == ("A", "B", "C"):
                k = max(sizes[:2])
                sizes = [k, k, max(sizes[2], self.longest)]
        self.sizes = tuple(int(size) for size in sizes)
        if len(self.sizes) != len(self.fields):
            raise InputError(f"InstructionTable: {len(self.sizes)} sizes for the {len(self.fields)} {self.fields}")
        for field, size, value in zip(self.fields, self.sizes, most):
            if value >= size:
                raise InputError(f"InstructionTable: {field} = {value} needs {value + 1} classes; sizes say {size}")
        if len(self) * self.longest > MAX_ENTRIES:
            raise InputError(f"InstructionTable: more than {MAX_ENTRIES:,} entries")

    def _program(self, name: str, row: Any) -> np.ndarray:
        try:
            program = np.array(row)
            whole = program.dtype.kind in "iu" or np.array_equal(program, program.astype(np.int64))
            program = program.astype(np.int64)
        except (ValueError, TypeError, OverflowError):
            program, whole = np.zeros(0), False
        if not whole or program.ndim != 2 or program.shape[1] != len(self.fields) or not len(program):
            wanted = f"({', '.join(self.fields)})"
            raise InputError(f"InstructionTable: program {name!r} is not a list of whole-number instructions {wanted}")
        if program.min() < 0:
            at = int(np.argwhere(program < 0)[0][0])
            raise InputError(f"InstructionTable: program {name!r}, instruction {at}: {program[at]} is negative")
        return program

    @classmethod
    def of_images(
        cls,
        images: Mapping[str, Image],
        *,
        sizes: Sequence[int] | None = None,
        fields: Sequence[str] = ("A", "B", "C"),
    ) -> Self:
        """Make a table from assembled programs, without their data. SUBLEQ programs get the halt as instruction 0."""
        if not isinstance(images, Mapping) or not all(isinstance(image, Image) for image in images.values()):
            raise InputError(
                "InstructionTable.of_images: give assembled programs by name, such as "
                "{'clear': kl.subleq.assemble(text, dialect='paper')}"
            )
        for name, image in images.items():
            if not image.code:
                raise InputError(
                    f"InstructionTable: the image {name!r} has no instructions apart from its {len(image.words)} words "
                    "of memory; assemble it with the dialect 'paper'"
                )
        halt: tuple[Instruction, ...] = ((0, 0, 0),) if tuple(fields) == ("A", "B", "C") else ()
        return cls({name: [*halt, *image.code] for name, image in images.items()}, sizes=sizes, fields=fields)

    @classmethod
    def random(cls, programs: int, instructions: int, addresses: int, *, seed: int = 0, least: int = 0) -> Self:
        """Make random SUBLEQ programs: A and B of `addresses` classes, C of `instructions`, all at least `least`."""
        if min(programs, instructions, addresses) < 1 or programs * instructions > MAX_ENTRIES:
            raise InputError(
                f"InstructionTable: {programs:,} programs of {instructions:,} instructions on {addresses:,} addresses; "
                f"each must be 1 or more, with at most {MAX_ENTRIES:,} instructions in all"
            )
        chance = np.random.default_rng(seed)
        high = (addresses, addresses, instructions)
        if not 0 <= least < min(high):
            raise InputError(f"InstructionTable: least={least} is outside 0 … {min(high) - 1}")
        columns = [chance.integers(least, top, (programs, instructions)) for top in high]
        return cls(np.stack(columns, axis=-1), sizes=high)

    @property
    def longest(self) -> int:
        """The number of instructions of the longest program."""
        return max(map(len, self.programs))

    def __len__(self) -> int:
        return len(self.programs)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, InstructionTable):
            return NotImplemented
        same = (self.names, self.sizes, self.fields) == (other.names, other.sizes, other.fields)
        return same and all(np.array_equal(a, b) for a, b in zip(self.programs, other.programs))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        entries = sum(map(len, self.programs))
        return f"InstructionTable({len(self)} programs, {entries:,} instructions, sizes {self.sizes})"

    def __str__(self) -> str:
        lines = [repr(self)]
        for name, rows in zip(self.names, self.programs):
            lines.append(f"{name}:")
            lines += [f"  {number:>4}  {' '.join(map(str, row))}" for number, row in enumerate(rows.tolist())]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Plain data: fields, sizes, and the programs by name."""
        programs = {name: rows.tolist() for name, rows in zip(self.names, self.programs)}
        return {"fields": list(self.fields), "sizes": list(self.sizes), "programs": programs}

    def index(self, program: int | str) -> int:
        """The index of a program, given by name or by index."""
        if isinstance(program, str):
            if program not in self.names:
                raise InputError(f"no program is called {program!r}; there are {', '.join(self.names[:20])}")
            return self.names.index(program)
        if not 0 <= program < len(self):
            raise InputError(f"program {program} is outside 0 … {len(self) - 1}")
        return int(program)

    def lookup(self, program: int | str, instruction: int) -> Instruction:
        """One entry."""
        rows = self.programs[self.index(program)]
        if not 0 <= instruction < len(rows):
            raise InputError(f"instruction {instruction} of program {program} is outside 0 … {len(rows) - 1}")
        return tuple(rows[instruction].tolist())

    def array(self) -> np.ndarray:
        """(program, instruction, operand), with zeros after the end of shorter programs."""
        full = np.zeros((len(self), self.longest, len(self.fields)), dtype=np.int64)
        for i, rows in enumerate(self.programs):
            full[i, : len(rows)] = rows
        return full

    def entries(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All entries as arrays: program, instruction, operands (entry, operand)."""
        lengths = [len(rows) for rows in self.programs]
        program = np.repeat(np.arange(len(self)), lengths)
        instruction = np.concatenate([np.arange(length) for length in lengths])
        return program, instruction, np.concatenate(self.programs)
