"""Base classes of library programs that encode and decode text or memory images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kleene.machines.program import Program


class TextProgram(Program, abstract=True):
    """A program that reads and writes text."""

    if TYPE_CHECKING:

        @staticmethod
        def encode(text: str) -> list[int]:
            """The tokens of a text."""
            ...

        @staticmethod
        def decode(outputs: Sequence[int]) -> str:
            """The text of the outputs."""
            ...


class MemoryProgram(Program, abstract=True):
    """A computer: a memory image before and after the run."""

    if TYPE_CHECKING:

        @staticmethod
        def encode(memory: str | Sequence[int]) -> list[int]:
            """The tokens of a memory image: a text of whole numbers, or a list of them."""
            ...

        @staticmethod
        def decode(outputs: Sequence[int]) -> list[int]:
            """The memory at the end of the run."""
            ...
