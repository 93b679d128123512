"""Measurements of the RISC-V computer: its sizes, and the speed of its evaluators beside plain interpreters."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import Row, cpu_seconds
from kleene.drivers.riscv import TransformerComputer, riscv_network
from kleene.drivers.riscv_programs import find_program
from kleene.machines.riscv import ReferenceMachine
from kleene.networks.transformer.lane_builds import compiler

MEMORY, PROGRAM = 1 << 18, "sudoku"
RATES = (  # evaluator, instructions, at least so many a second
    ("lanes", 10_000_000, 4_000_000),
    ("lanes-numba", 10_000_000, 1_000_000),
    ("lookup", 30_000, None),
)
LIMITS = {"heads": 24, "hidden": 1500}


def rows() -> Iterator[Row]:
    """Sizes; instructions a second on each evaluator, on the reference and on a plain interpreter in C."""
    sizes = riscv_network(MEMORY).sizes
    for name, most in LIMITS.items():
        yield {"name": f"riscv: {name}", "ours": getattr(sizes, name), "unit": "", "at_most": most}
    longest = max(count for _, count, _ in RATES)
    reference = ReferenceMachine(find_program(PROGRAM), MEMORY)
    reference.run(1)
    taken = cpu_seconds(lambda: reference.run(longest - 1))
    wanted = reference.run(0)
    for evaluator, count, least in RATES:
        if evaluator == "lanes" and compiler() is None:
            continue
        machine = TransformerComputer(find_program(PROGRAM), MEMORY, evaluator=evaluator)
        machine.run(1)
        seconds = cpu_seconds(lambda: machine.run(count - 1))  # noqa: B023
        if count == longest and machine.run(0) != wanted:
            raise AssertionError(f"riscv: {evaluator} differs from the reference after {count:,} instructions")
        yield _rate(f"{PROGRAM} on the transformer, evaluator {evaluator}", (count - 1) / seconds, least)
    yield _rate(f"{PROGRAM} on the reference (Numba)", (longest - 1) / taken)
    if compiler() is not None:
        yield _rate(f"{PROGRAM} on a plain interpreter in C", _plain(reference, longest))


def _rate(name: str, rate: float, least: int | None = None) -> Row:
    row = {"name": f"riscv: {name}", "ours": rate, "unit": "instructions/s"}
    return {**row, "at_least": least} if least else row


def _plain(reference: Any, count: int) -> float:
    """The speed of the plain interpreter, which must end where the reference does."""
    start = ReferenceMachine(find_program(PROGRAM), MEMORY)
    memory, values = np.array(start.cells[16:]), start.values.copy()
    run = plain_library().riscv
    run.argtypes, run.restype = [ctypes.c_void_p] * 2 + [ctypes.c_int64] * 2, ctypes.c_int64
    done = []
    taken = cpu_seconds(lambda: done.append(run(memory.ctypes.data, values.ctypes.data, MEMORY, count)))
    if done != [count] or (values != reference.values).any() or (memory != reference.cells[16:]).any():
        raise AssertionError(f"riscv: the plain interpreter differs from the reference ({done[0]:,} instructions)")
    return count / taken


def plain_library() -> Any:
    """The plain interpreters, compiled now."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "plain.so"
        source = Path(__file__).with_name("plain.c")
        command = [str(compiler()), "-O2", "-march=native", "-shared", "-fPIC", "-o", str(made), str(source)]
        subprocess.run(command, check=True)
        return ctypes.CDLL(str(made))
