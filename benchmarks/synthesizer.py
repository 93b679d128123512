"""Measurements of SUBLEQ and of the Synthesizer: speeds of interpreters, sizes of memorisers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import kleene as kl
from benchmarks.measure import cpu_seconds

Row = dict[str, Any]

COUNTDOWN = """
outer:  MOV =1000 n
loop:   DEC n
        BGT n =0 loop
        DEC rounds
        BGT rounds =0 outer
        HALT
n:      .data 0
rounds: .data {rounds}
"""


def rows() -> list[Row]:
    """All measurements."""
    return [*interpreters(), *eforth(), *memorisers(), recall_speed()]


def interpreters(rounds: int = 2000) -> list[Row]:
    """Instructions a second of the reference interpreter in every dialect, and of the plain one."""
    found = []
    for name, dialect in kl.subleq.DIALECTS.items():
        dialect = dialect.words(-(1 << 15), (1 << 15) - 1) if name == "alta" else dialect
        image = kl.subleq.assemble(COUNTDOWN.format(rounds=rounds), dialect)
        steps = kl.subleq.run(image, dialect=dialect, max_steps=1000).steps  # compiles the loop
        steps = kl.subleq.run(image, dialect=dialect).checked().steps
        speed = steps / cpu_seconds(lambda i=image, d=dialect: kl.subleq.run(i, dialect=d), repeat=3)  # type: ignore[misc]
        found.append(
            {
                "name": f"SUBLEQ interpreter (Numba), dialect {name}",
                "others": None,
                "ours": speed / 1e6,
                "unit": "M instructions/s",
                "at_least": 50,
                "note": f"{steps:,} instructions",
            }
        )
    image = kl.subleq.assemble(COUNTDOWN.format(rounds=20))
    steps = kl.subleq.run(image).steps
    speed = steps / cpu_seconds(lambda: kl.subleq.run(image, evaluator="plain"))
    return [
        *found,
        {
            "name": "SUBLEQ interpreter (plain Python)",
            "others": None,
            "ours": speed / 1e6,
            "unit": "M instructions/s",
            "note": f"{steps:,} instructions",
        },
    ]


def eforth() -> list[Row]:
    """The eForth image on the reference interpreter."""
    path = Path(os.environ.get("KLEENE_DATA", "")) / "subleq" / "subleq.dec"
    name = "eForth answers 2 2 + . on the interpreter (Numba)"
    if not path.is_file():
        return [{"name": name, "others": None, "ours": None, "unit": "", "note": "not run: set KLEENE_DATA"}]
    image = kl.subleq.load(path, "eforth")
    ask = "2 2 + . cr bye\n"
    done = kl.subleq.run(image, dialect="eforth", input=ask)
    taken = cpu_seconds(lambda: kl.subleq.run(image, dialect="eforth", input=ask), repeat=3)
    return [
        {
            "name": name,
            "others": None,
            "ours": done.steps / taken / 1e6,
            "unit": "M instructions/s",
            "at_least": 50,
            "note": f"{done.steps:,} instructions, output {done.output!r}",
        }
    ]


def memorisers() -> list[Row]:
    """Parameters of compiled memorisers, and the time that compiling takes."""
    found: list[Row] = []
    cases: list[tuple[int, Literal["grid", "yun"]]] = [(64, "grid"), (128, "grid"), (64, "yun")]
    for count, method in cases:
        table = kl.InstructionTable.random(count, 256, 256, seed=1)
        taken = cpu_seconds(lambda t=table, m=method: kl.compile(t, method=m))  # type: ignore[misc]
        net = kl.compile(table, method=method)
        wrong = kl.verify(table, net).mismatches
        row: Row = {
            "name": f"memoriser {method}, {count} programs of 256, parameters a network",
            "others": f"{net.sizes['theorem'] // 3:,} (the paper's Theorem 1, computed by us)",
            "ours": max(net.sizes[field] for field in "ABC"),
            "unit": "",
            "note": f"{net.dtype}, {wrong} labels wrong, compiled in {taken:.1f} s; others: Theorem 1's sizes as "
            "stated, mean of its three networks",
        }
        if method == "grid":
            row["at_most"] = 80_000
        found.append(row)
    return found


def recall_speed() -> Row:
    """Instructions a second that a compiled memoriser gives."""
    table = kl.InstructionTable.random(128, 256, 256, seed=1)
    net = kl.compile(table)
    program, instruction, _ = table.entries()
    taken = cpu_seconds(lambda: net.operands(program, instruction), repeat=3)
    return {
        "name": "instructions recalled from a compiled memoriser (128 programs)",
        "others": None,
        "ours": len(program) / taken,
        "unit": "instructions/s",
        "note": "batched, float32, one thread",
    }
