"""Performing a program whose instructions come from anywhere: a list, a table, or a network.

An executor knows what one instruction does to memory, and which instruction is next. `perform` asks `fetch` for
each instruction by its number; so a program that a network has memorised runs exactly like one that is written down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kleene.errors import DidNotHalt, InputError

Instruction = tuple[int, ...]
TRACED = 100_000  # the most instructions that a trace keeps


@dataclass
class Store:
    """What a running program can change: memory, what is left of its input, its output."""

    memory: list[int]
    input: list[int] = field(default_factory=list)
    output: list[int] = field(default_factory=list)


class InstructionExecutor(Protocol):
    """What an instruction set means."""

    first: int  # the number of the instruction that a program begins with

    def execute(self, store: Store, number: int, instruction: Instruction) -> int | None:
        """Do one instruction. Return the number of the next instruction, or None to halt."""

    def show(self, instruction: Instruction) -> str:
        """An instruction as text."""


@dataclass(frozen=True)
class Performance:
    """What a program did: memory and output at the end, and the instructions in the order they were done."""

    memory: list[int]
    output: list[int]
    steps: int
    trace: list[tuple[int, Instruction]]  # (number, instruction), the first 100,000


def perform(
    fetch: Callable[[int], Instruction],
    executor: InstructionExecutor,
    memory: Sequence[int] = (),
    *,
    input: Sequence[int] = (),
    max_steps: int = 100_000,
    name: str = "program",
) -> Performance:
    """Run to the halt, or raise `DidNotHalt` with the place after `max_steps` instructions."""
    if max_steps < 0:
        raise InputError(f"{name}: max_steps={max_steps}; it must be 0 or more")
    store = Store([int(x) for x in memory], [int(x) for x in input][::-1])
    number: int | None = executor.first
    trace: list[tuple[int, Instruction]] = []
    steps = 0
    while number is not None:
        instruction = fetch(number)
        if steps >= max_steps:
            shown = executor.show(instruction)
            raise DidNotHalt(f"{name}: not halted after {steps:,} steps; it was at instruction {number}: {shown}")
        if len(trace) < TRACED:
            trace.append((number, instruction))
        number = executor.execute(store, number, instruction)
        steps += 1
    return Performance(store.memory, store.output, steps, trace)
