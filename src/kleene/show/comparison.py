"""The plot of a machine in every architecture: parameters and depths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kleene.errors import FileError
from kleene.files import written_atomically

SUFFIXES = (".png", ".svg", ".pdf")


def draw(comparison: Any, path: Path) -> None:
    """Write a picture: a bar of parameters for each network, its non-zero ones inside, its depth beside it."""
    from matplotlib.figure import Figure

    if path.suffix not in SUFFIXES:
        raise FileError(f"{path}: unknown suffix {path.suffix!r}; a plot is {', '.join(SUFFIXES)}")
    rows = [row for row in comparison.rows if row.holds]
    names = [f"{row.network} {row.options}".strip() for row in rows]
    figure = Figure(figsize=(9, 0.45 * len(rows) + 1.4), layout="constrained")
    axes = figure.subplots()
    places = range(len(rows))
    axes.barh(places, [row.parameters for row in rows], color="#c9d4e4", label="parameters")
    axes.barh(places, [row.nonzero for row in rows], color="#3a6ea5", label="not zero", height=0.45)
    for place, row in zip(places, rows):
        limit = "any length" if row.length is None else f"up to {row.length:,}"
        axes.annotate(f" depth {row.depth}, {limit}", (row.parameters, place), va="center", fontsize=8)
    axes.set_yticks(list(places), names, fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.margins(x=0.35)
    axes.set_xlabel("parameters")
    axes.set_title(comparison.machine, fontsize=9)
    axes.legend(loc="upper right", fontsize=8)
    with written_atomically(path) as made:
        figure.savefig(made, dpi=150)
