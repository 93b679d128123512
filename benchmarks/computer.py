"""Measurements of the computer in a transformer: its sizes, and the speed of each evaluator of its weights."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.measure import cpu_seconds
from benchmarks.riscv import plain_library
from kleene.cli.computer import read_program
from kleene.drivers.subleq import TransformerMachine, computer_network
from kleene.machines import subleq
from kleene.networks.transformer.evaluators import start
from kleene.networks.transformer.lane_builds import compiler

Row = dict[str, Any]
LIMITS = {"heads": 8, "hidden": 128, "residual": 256}
RATES = (  # evaluator, bits, layers, at least so many instructions a second
    ("lanes", 16, 90_000_000, 25_000_000),
    ("lanes-numba", 16, 90_000_000, 18_000_000),
    ("generated", 16, 30_000_000, 2_000_000),
    ("lookup", 16, 600_000, 100_000),
    ("rows", 16, 30, None),
    ("dense", 9, 30, None),
)


def rows() -> Iterator[Row]:
    """Sizes at 8, 12 and 16 bits; instructions a second; the same program on the reference."""
    for bits in (8, 12, 16):
        sizes = computer_network(bits).sizes
        for name, most in LIMITS.items():
            row = {"name": f"computer, {bits} bits: {name}", "ours": getattr(sizes, name), "unit": ""}
            yield {**row, "at_most": most} if bits == 16 else row
    speeds = {}
    for evaluator, bits, layers, least in RATES:
        if evaluator == "lanes" and compiler() is None:
            continue
        chance, size = random.Random(0), 1 << bits
        loop = [3, 3, 0, *(chance.randrange(size // 2) for _ in range(size - 4))]  # never halts
        run = start(computer_network(bits), [0, *loop], evaluator)
        run.run(3)
        taken = cpu_seconds(lambda: run.run(layers))  # noqa: B023
        speeds[evaluator] = layers / 3 / taken
        row = {
            "name": f"computer, {bits} bits: instructions a second, evaluator {evaluator}",
            "ours": speeds[evaluator],
            "unit": "instructions/s",
        }
        yield {**row, "at_least": least} if least else row
    if compiler() is not None:
        yield _plain()
    yield _against_reference()


def _plain() -> Row:
    """The same loop on a plain interpreter in C."""
    chance, size, count = random.Random(0), 1 << 16, 30_000_000
    memory = np.array([3, 3, 0, *(chance.randrange(size // 2) for _ in range(size - 4)), 0], dtype=np.uint16)
    run = plain_library().subleq
    run.argtypes, run.restype = [ctypes.c_void_p, ctypes.c_int64], ctypes.c_int64
    taken = cpu_seconds(lambda: run(memory.ctypes.data, count))
    return {
        "name": "computer, 16 bits: instructions a second, a plain interpreter in C",
        "ours": count / taken,
        "unit": "instructions/s",
    }


def _against_reference() -> Row:
    """The library's primes on the transformer and on the reference interpreter (Numba)."""
    image = read_program("primes", "eforth")
    subleq.run(image, dialect="eforth", max_steps=10)
    machine = TransformerMachine(image)
    on_transformer = cpu_seconds(lambda: machine.run())
    on_reference = cpu_seconds(lambda: subleq.run(image, dialect="eforth"))
    return {
        "name": f"computer: primes on the transformer ({machine.evaluator}) over the reference interpreter",
        "ours": on_transformer / on_reference,
        "unit": "times the reference's time",
    }
