"""ALTA, section 4.1 and appendix D.1: parity. The data, and what is measured on it; `alta.parity` runs its parts."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kleene.library.parity import START, parity_absolute, parity_relative, parity_sum
from kleene.papers.report import Result, plot
from kleene.papers.tasks import Plan

Bits = list[int]
LENGTHS = {"paper": (20, 40), "small": (8, 16), "tiny": (4, 8)}  # the longest in training, the longest in the test
TITLES = {"relative": "Sequential (Relative)", "absolute": "Sequential (Absolute)", "sum": "Sum + Modulo"}


def words(longest: int, each: int, seed: int) -> list[Bits]:
    """Words of up to `longest` bits, `each` of them for every number of ones: a random length, random places.

    >>> sorted({sum(word) for word in words(3, 5, seed=0)})
    [0, 1, 2, 3]
    """
    chance, found = random.Random(seed), []
    for ones in range(longest + 1):
        for _ in range(each):
            word = [1] * ones + [0] * (chance.randint(ones, longest) - ones)
            chance.shuffle(word)
            found.append(word)
    return found


def every_cell(longest: int, each: int, seed: int) -> list[Bits]:
    """`each` random words of every length and number of ones."""
    chance, found = random.Random(seed), []
    for length in range(longest + 1):
        for ones in range(length + 1):
            for _ in range(each):
                word = [1] * ones + [0] * (length - ones)
                chance.shuffle(word)
                found.append(word)
    return found


def make_program(kind: str, longest: int) -> Any:
    """One of the three programs."""
    if kind == "relative":
        return parity_relative
    if kind == "absolute":
        return parity_absolute(longest)
    return parity_sum(longest)


def tokens(kind: str, word: Bits) -> list[int]:
    """A word as a program reads it: after START, but for absolute positions."""
    return list(word) if kind == "absolute" else [START, *word]


def readable(kind: str, given: Sequence[Bits]) -> list[Bits]:
    """The words that a program can be given: one without START reads no empty word."""
    return [word for word in given if word or kind != "absolute"]


@dataclass(frozen=True)
class Cells:
    """What was said about words: (length, ones, how many, how many right, how often 1 was said), a row per cell."""

    rows: list[list[int]]
    trained: int

    @classmethod
    def of(cls, given: Sequence[Bits], said: Sequence[int], trained: int) -> Cells:
        found: dict[tuple[int, int], list[int]] = {}
        for word, answer in zip(given, said):
            cell = found.setdefault((len(word), sum(word)), [0, 0, 0])
            cell[0] += 1
            cell[1] += answer == sum(word) % 2
            cell[2] += answer == 1
        return cls([[*key, *cell] for key, cell in sorted(found.items())], trained)

    @classmethod
    def joined(cls, parts: Sequence[Cells]) -> Cells:
        """All networks' answers together."""
        found: dict[tuple[int, int], list[int]] = {}
        for length, ones, *counts in (row for cells in parts for row in cells.rows):
            old = found.get((length, ones), [0, 0, 0])
            found[length, ones] = [a + b for a, b in zip(old, counts)]
        return cls([[*key, *counts] for key, counts in sorted(found.items())], parts[0].trained)

    def share(self, where: Callable[[int, int], bool], column: int = 3) -> float | None:
        """The share of right answers (or of 1s, column 4) where (length, ones) is so."""
        chosen = [row for row in self.rows if where(row[0], row[1])]
        return sum(row[column] for row in chosen) / sum(row[2] for row in chosen) if chosen else None

    @property
    def slices(self) -> tuple[float, float, float]:
        """Tables 2 and 3: words no longer than in training, longer ones, and those with more ones than in training."""
        short = self.share(lambda length, ones: length <= self.trained)
        longer = self.share(lambda length, ones: length > self.trained)
        many = self.share(lambda length, ones: ones > self.trained)
        return short or 0.0, longer or 0.0, many or 0.0

    def by(self, axis: int, column: int = 3) -> tuple[list[int], list[float]]:
        """Shares by length (axis 0) or by number of ones (1)."""
        values = sorted({row[axis] for row in self.rows})
        return values, [self.share(lambda *at, v=value: at[axis] == v, column) or 0.0 for value in values]


def percent(value: float) -> str:
    """
    >>> percent(1.0), percent(0.999), percent(0.5)
    ('100 %', '99.9 %', '50.0 %')
    """
    return "100 %" if value == 1 else f"{100 * value:.1f} %"


def shown(slices: Sequence[float]) -> str:
    return " / ".join(map(percent, slices))


def draw_grid(path: Path, panels: dict[str, Cells], title: str) -> None:
    """Figure 4: the share right by length and number of ones, a panel each."""
    with plot(path, panels=len(panels), title=title) as axes:
        for axis, (name, cells) in zip(axes, panels.items()):
            size = max(row[0] for row in cells.rows) + 1
            grid = np.full((size, size), np.nan)
            for length, ones, count, right, _ in cells.rows:
                grid[ones, length] = right / count
            image = axis.imshow(grid, origin="lower", vmin=0, vmax=1, cmap="RdYlGn")
            axis.plot([cells.trained + 0.5] * 2, [-0.5, cells.trained + 0.5], color="black", lw=0.8)
            axis.plot([-0.5, size - 0.5], [cells.trained + 0.5] * 2, color="black", lw=0.8, ls=":")
            axis.set(xlabel="length", ylabel="ones")
            axis.set_title(name, fontsize=9)
        axes[-1].figure.colorbar(image, ax=axes, label="right")


def draw_lines(
    path: Path, panels: dict[str, dict[str, tuple[list[int], list[float]]]], title: str, ylabel: str, trained: int
) -> None:
    """Curves by length or by number of ones; a panel's name is its x axis. A line ends what training had."""
    with plot(path, panels=len(panels), title=title, height=4.0) as axes:
        for axis, (name, curves) in zip(axes, panels.items()):
            for label, (x, y) in curves.items():
                axis.plot(x, y, label=label, lw=1.2)
            axis.axvline(trained + 0.5, color="black", lw=0.8, ls=":")
            axis.set(xlabel=name, ylabel=ylabel, ylim=(-0.05, 1.05))
            if curves:
                axis.legend(fontsize=6, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)  # hides no curve


def parity(
    scale: str = "small",
    data: Path | None = None,
    folder: Path | str = "results/alta.parity",
    progress: bool = True,
    plan: Plan | None = None,
) -> Result:
    """The three parts: minimal versions, trace supervision, end-to-end supervision; each in a folder of its own."""
    from kleene.papers.alta_parity_end_to_end import END_TO_END
    from kleene.papers.alta_parity_minimal import MINIMAL
    from kleene.papers.alta_parity_trace import TRACE

    plan = plan or Plan()
    parts = (MINIMAL, TRACE, END_TO_END)
    named = {part.name: list(part.stages[0](part.config(scale), data, plan, {})) for part in parts}
    plan.check_named([name for names in named.values() for name in names])
    whole = Result("alta.parity", Path(folder), {"scale": scale})
    for part in parts:
        short = part.name.rpartition(".")[2]
        one = part.run(scale, data, whole.folder / short, progress, plan.of(named[part.name]))
        whole.rows += [{**row, "name": f"{short}: {row['name']}"} for row in one.rows]
        whole.runs = {**whole.runs, **{f"{short}: {name}": run for name, run in one.runs.items()}}
    whole.write()
    return whole
