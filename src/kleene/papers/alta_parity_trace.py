"""Trace supervision on parity (Table 2, Figure 4's trained networks): the programs, learned from their steps.

Sum + Modulo is learned twice: as the paper states it, and in an easier form of ours, whose share of START is scaled and
whose head selects nothing in the second layer.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kleene.library.parity import parity_count
from kleene.papers import alta_parity
from kleene.papers.alta_parity import LENGTHS, Cells, draw_grid, make_program, percent, readable, shown, tokens, words
from kleene.papers.protocol import Config, Criterion, Experiment, Measured, Row, Runs
from kleene.papers.tasks import Plan, Tasks, fast_device
from kleene.training.learn import learn_program

TITLES = {
    "relative": alta_parity.TITLES["relative"],
    "absolute": alta_parity.TITLES["absolute"],
    "stated": "Sum + Modulo, as the paper states it",
    "sum": "Sum + Modulo, an easier program of ours",
}
PAPER = {"relative": "100 % / 100 % / 100 %", "absolute": "100 % / 52 % / 51 %", "stated": "100 % / 78 % / 50 %"}
WIDE = {"depth": 4, "width": 4096, "rate": 1e-4, "optimiser": "adam"}
MIDDLE = {"depth": 4, "width": 256, "rate": 1e-3, "optimiser": "adam"}
NARROW = {"depth": 2, "width": 128, "rate": 1e-2, "optimiser": "adafactor"}
TINY = {"depth": 2, "width": 64, "rate": 3e-3, "optimiser": "adam"}
SCALES: dict[str, dict[str, Any]] = {  # paper: Table 1; `share`: what the share of START is scaled by, for noise
    "paper": {
        "seeds": [0, 1, 2],
        "train_each": 200,
        "test_each": 100,
        "every": 1000,
        "relative": {**NARROW, "steps": 50_000},
        "absolute": {**WIDE, "steps": 50_000},
        "stated": {**WIDE, "steps": 400_000},
        "sum": {**WIDE, "steps": 400_000, "share": 300},
    },
    "small": {
        "seeds": [0, 1, 2],
        "train_each": 100,
        "test_each": 50,
        "every": 250,
        "relative": {**NARROW, "steps": 2_000},
        "absolute": {**MIDDLE, "steps": 3_000},
        "stated": {**MIDDLE, "rate": 5e-4, "steps": 6_000},
        "sum": {**MIDDLE, "rate": 5e-4, "steps": 6_000, "share": 100},
    },
    "tiny": {
        "seeds": [0],
        "train_each": 20,
        "test_each": 5,
        "every": 50,
        "relative": {**TINY, "steps": 100},
        "absolute": {**TINY, "steps": 100},
        "stated": {**TINY, "steps": 100},
        "sum": {**TINY, "steps": 100, "share": 100},
    },
}
for _scale, (_trained, _longest) in LENGTHS.items():
    SCALES[_scale] |= {"trained": _trained, "longest": _longest, "batch": 256, "noise": 0.1}
COST = {"stated": "400,000 steps a seed, 6 minutes each on an H200", "sum": "400,000 steps a seed, 6 minutes each"}


def tasks(config: Config, data: Path | None, plan: Plan, runs: Runs) -> Tasks:
    """The training runs, by name."""
    return {
        f"{kind}-seed-{seed}": {
            "kind": kind,
            "trained": config["trained"],
            "longest": config["longest"],
            "seed": seed,
            "each": config["train_each"],
            "tested": config["test_each"],
            "every": config["every"],
            **config[kind],
            "steps": plan.step_count(config[kind]["steps"]),
        }
        for kind in TITLES
        for seed in config["seeds"]
    }


def learn_one(
    kind: str,
    trained: int,
    longest: int,
    seed: int,
    each: int,
    tested: int,
    folder: Path,
    deadline: float | None,
    share: int = 1,
    **options: Any,
) -> dict[str, Any]:
    """One network, learned from traces of words of up to `trained` bits."""
    if kind in ("sum", "stated"):
        program = parity_count(longest, share, mask=kind == "sum")
    else:
        program = make_program(kind, longest)
    train, test = readable(kind, words(trained, each, seed=1)), readable(kind, words(longest, tested, seed=2))
    net = learn_program(
        program,
        [tokens(kind, word) for word in train],
        batch=256,
        noise=0.1,
        seed=seed,
        folder=folder,
        deadline=deadline,
        device=fast_device(),
        **options,
    )
    outputs = net.run_batch([tokens(kind, word) for word in test])
    cells = Cells.of(test, [output[-1] for output in outputs], trained)
    last = net.metrics[-1] if net.metrics else {"step": 0}
    parameters = sum(p.numel() for p in net.mlp.parameters())
    return {
        "cells": cells.rows,
        **last,
        "metrics": net.metrics[:: max(1, len(net.metrics) // 20)],
        "parameters": parameters,
        "finished": last["step"] >= options["steps"],
    }


Slices = list[tuple[float, float, float, float]]  # for each seed: short, longer, many ones, at most `trained` ones


def _all_right(found: Slices) -> bool:
    return all(part == 1.0 for slices in found for part in slices[:3])


def _guesses(found: Slices) -> bool:
    return all(abs(sum(slices[part] for slices in found) / len(found) - 0.5) < 0.1 for part in (1, 2))


def _counts(found: Slices) -> bool:
    known = all(slices[3] == 1.0 for slices in found)
    return known and abs(sum(slices[2] for slices in found) / len(found) - 0.5) < 0.1


CRITERIA: dict[str, tuple[str, Callable[[Slices], bool]]] = {
    "relative": ("every seed is right on every word tested", _all_right),
    "absolute": ("the mean of three seeds is within 10 points of 50 % on longer words and on more ones", _guesses),
    "stated": (
        "every seed is right on every word, of any length, with no more ones than in training; with more ones the mean "
        "of three seeds is within 10 points of 50 %",
        _counts,
    ),
}


def rows(config: Config) -> list[Row]:
    """A row a program."""
    return [_row(config, kind) for kind in TITLES]


def _row(config: Config, kind: str) -> Row:
    trained, full = config["trained"], config[kind]["steps"]
    names = [f"{kind}-seed-{seed}" for seed in config["seeds"]]

    def measure(runs: Runs) -> Measured | None:
        found = {name: runs[name] for name in names if name in runs}
        if not found:
            return None
        slices: Slices = []
        for run in found.values():
            cells = Cells(run["cells"], trained)
            slices.append((*cells.slices, cells.share(lambda length, ones: ones <= trained) or 0.0))
        mean = [sum(values) / len(values) for values in zip(*slices)]
        steps = sorted({run["step"] for run in found.values()})
        seeds = ", ".join(name.rpartition("-")[2] for name in found)
        whole = all(part[0] == 1.0 for part in slices) and steps[0] >= full
        notes = [
            f"at most {trained} ones, any length: {percent(mean[3])}",
            f"seed{'s' * (len(found) > 1)} {seeds}: " + "; ".join(shown(part[:3]) for part in slices),
            f"{', '.join(f'{step:,}' for step in steps)} steps (the paper's: {full:,})"
            if config["scale"] == "paper"
            else f"{', '.join(f'{step:,}' for step in steps)} steps",
        ]
        if not whole:
            notes.append("**not converged**" if steps[0] >= full else "**cut short**")
        return Measured(
            shown(mean[:3]), slices, seeds=len(found), converged=whole, note=". ".join(notes), runs=tuple(found)
        )

    paper, criterion = PAPER.get(kind, ""), CRITERIA.get(kind)
    return Row(
        f"{TITLES[kind]}: length ≤ {trained} / > {trained} / ones > {trained}",
        measure,
        paper=paper if trained == 20 or not paper else f"{paper} (at 20)",
        source="ALTA, Table 2" if paper else "",
        criterion=None if criterion is None else Criterion(*criterion),
        cost=COST.get(kind, "") if config["scale"] == "paper" else "",
        note=f"the share is scaled by {config['sum']['share']}, and the head selects nothing in layer 2"
        if kind == "sum"
        else "",
    )


def draw(folder: Path, config: Config, runs: Runs) -> None:
    """Figure 4's trained networks, the first seed of each."""
    panels = {
        title: Cells(runs[name]["cells"], config["trained"])
        for kind, title in TITLES.items()
        if (name := f"{kind}-seed-{config['seeds'][0]}") in runs
    }
    if panels:
        title = f"Figure 4: learned from traces, from words of up to {config['trained']} bits"
        draw_grid(folder / "parity-trace.png", panels, title)


TRACE = Experiment("alta.parity-trace", SCALES, (tasks,), learn_one, rows, draw)
parity_trace = TRACE.run
