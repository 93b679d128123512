"""`make bench`: sizes and speeds, measured in one run, as a table and as JSON.

Times are CPU seconds of this process on one thread, so that other work on the machine disturbs them less.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.measure import Row
from kleene.papers.report import commit

PARTS = (
    "benchmarks.programs",
    "benchmarks.rasp",
    "benchmarks.certificates",
    "benchmarks.architectures",
    "benchmarks.automata",
    "benchmarks.automata_libraries",
    "benchmarks.interdependence",
    "benchmarks.computer",
    "benchmarks.riscv",
    "benchmarks.synthesizer",
    "benchmarks.pages",
    "benchmarks.stock_models",
)


def rows(only: str | None = None) -> Iterator[Row]:
    """The rows of every part that is there."""
    for name in PARTS:
        if only is None or only in name:
            yield from import_module(name).rows()


def meets(row: Row) -> bool | None:
    """Whether a row is within its limit; None where it has none."""
    if row.get("at_most") is not None:
        return bool(row["ours"] <= row["at_most"])
    if row.get("at_least") is not None:
        return bool(row["ours"] >= row["at_least"])
    return None


def main() -> None:
    """Measure, print the table, save it as results/bench/bench.json and bench.md; a part under the part's name."""
    from rich.console import Console
    from rich.table import Table

    from kleene.files import write_json, write_text

    only = sys.argv[1] if len(sys.argv) > 1 else None
    console, measured = Console(), []
    with console.status("measuring …"):
        for row in rows(only):
            measured.append({**row, "meets": meets(row)})
            console.print(f"{row['name']}: {_number(row['ours'])} {row.get('unit', '')}")
    table = Table("what", "of others", "ours", "limit", "met", title="make bench")
    for row in measured:
        table.add_row(*_cells(row))
    console.print(table)
    folder, name = Path("results/bench"), only or "bench"
    write_json(folder / f"{name}.json", {"machine": machine(), "commit": commit(), "rows": measured})
    write_text(folder / f"{name}.md", _markdown(measured, only))
    console.print(f"saved as {folder}/{name}.json and {name}.md")
    if any(row["meets"] is False for row in measured):
        sys.exit(1)


def machine() -> dict[str, Any]:
    return {"python": platform.python_version(), "processor": platform.machine(), "cores": os.cpu_count()}


def _cells(row: Row) -> list[str]:
    limit = f"≤ {_number(row['at_most'])}" if row.get("at_most") is not None else ""
    limit = f"≥ {_number(row['at_least'])}" if row.get("at_least") is not None else limit
    ours = row["note"] if row["ours"] is None else f"{_number(row['ours'])} {row.get('unit', '')}".strip()
    return [row["name"], str(row.get("others") or "–"), ours, limit, {True: "yes", False: "no", None: ""}[row["meets"]]]


PLOTS = {None: ("growth", "certificates"), "programs": ("growth",), "certificates": ("certificates",)}


def _markdown(measured: list[Row], only: str | None = None) -> str:
    about = machine()
    plots = PLOTS.get(only, ())
    lines = [
        f"# python -m benchmarks {only}" if only else "# make bench",
        "",
        f"One run on {about['cores']} CPU cores, {about['processor']}, Python {about['python']}, at {commit()}. "
        "One thread, and CPU seconds of the process, unless a row says otherwise.",
        "",
        "| what | of others | ours | limit | met |",
        "|---|---|---|---|---|",
        *("| " + " | ".join(cell.replace("|", r"\|") for cell in _cells(row)) + " |" for row in measured),
        "",
        *(["How sizes and times grow:", ""] if plots else []),
        *(line for plot in plots for line in (f"![{plot}]({plot}.png)", "")),
    ]
    return "\n".join(lines)


def _number(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    main()
