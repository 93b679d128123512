"""Trace supervision on parity (Table 2, Figure 4's trained networks): the three programs, learned from their steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kleene.library.parity import parity_count
from kleene.papers.alta_parity import (
    LENGTHS,
    TITLES,
    Cells,
    draw_grid,
    make_program,
    readable,
    shown,
    tokens,
    words,
)
from kleene.papers.report import Result
from kleene.papers.tasks import Plan, at_scale, fast_device, train_all
from kleene.training.from_traces import learn_from_traces

PAPER = {"relative": "100 % / 100 % / 100 %", "absolute": "100 % / 52 % / 51 %", "sum": "100 % / 78 % / 50 %"}

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
        "sum": {**WIDE, "steps": 400_000, "share": 300},
    },
    "small": {
        "seeds": [0, 1],
        "train_each": 100,
        "test_each": 50,
        "every": 250,
        "relative": {**NARROW, "steps": 2_000},
        "absolute": {**MIDDLE, "steps": 3_000},
        "sum": {**MIDDLE, "rate": 5e-4, "steps": 6_000, "share": 100},
    },
    "tiny": {
        "seeds": [0],
        "train_each": 20,
        "test_each": 5,
        "every": 50,
        "relative": {**TINY, "steps": 100},
        "absolute": {**TINY, "steps": 100},
        "sum": {**TINY, "steps": 100, "share": 100},
    },
}
BATCH, NOISE = 256, 0.1
FULL = {"relative": 50_000, "absolute": 50_000, "sum": 400_000}


def parity_trace(
    scale: str = "small",
    data: Path | None = None,
    folder: Path | str = "results/alta.parity-trace",
    progress: bool = True,
    plan: Plan | None = None,
) -> Result:
    """Learn each program's MLP from its traces on short words, and test the network on longer ones."""
    config, plan = at_scale(SCALES, scale), plan or Plan()
    trained, longest = LENGTHS[scale]
    result = Result(
        "alta.parity-trace",
        Path(folder),
        {
            "scale": scale,
            "trained": trained,
            "longest": longest,
            "batch": BATCH,
            "noise": NOISE,
            **config,
        },
    )
    train_all(result, learn_one, tasks(scale, plan), scale, plan, progress)
    for kind in TITLES:
        _row(result, kind, [f"{kind}-seed-{seed}" for seed in config["seeds"]], trained)
    panels = {
        TITLES[kind]: Cells(result.runs[name]["cells"], trained)
        for kind in TITLES
        if (name := f"{kind}-seed-{config['seeds'][0]}") in result.runs
    }
    if panels:
        title = f"Figure 4: learned from traces, from words of up to {trained} bits"
        draw_grid(result.folder / "parity-trace.png", panels, title)
    result.write()
    return result


def tasks(scale: str, plan: Plan) -> dict[str, dict[str, Any]]:
    """The training runs, by name."""
    config, (trained, longest) = at_scale(SCALES, scale), LENGTHS[scale]
    return {
        f"{kind}-seed-{seed}": {
            "kind": kind,
            "trained": trained,
            "longest": longest,
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
    steps: int,
    every: int,
    folder: Path,
    deadline: float | None,
    share: int = 1,
    **shape: Any,
) -> dict[str, Any]:
    """One network, learned from traces of words of up to `trained` bits."""
    device = fast_device()
    program = parity_count(longest, share) if kind == "sum" else make_program(kind, longest)
    train, test = readable(kind, words(trained, each, seed=1)), readable(kind, words(longest, tested, seed=2))
    net = learn_from_traces(
        program,
        [tokens(kind, word) for word in train],
        batch=BATCH,
        noise=NOISE,
        steps=steps,
        every=every,
        seed=seed,
        folder=folder,
        deadline=deadline,
        device=device,
        **shape,
    )
    outputs = net.run_batch([tokens(kind, word) for word in test])
    cells = Cells.of(test, [output[-1] for output in outputs], trained)
    last = net.metrics[-1] if net.metrics else {"step": 0}
    parameters = sum(p.numel() for p in net.mlp.parameters())
    return {"cells": cells.rows, **last, "parameters": parameters, "finished": last["step"] >= steps}


def _row(result: Result, kind: str, names: list[str], trained: int) -> None:
    found = [result.runs[name] for name in names if name in result.runs]
    title = f"{TITLES[kind]}: length ≤ {trained} / > {trained} / ones > {trained}"
    paper = PAPER[kind] if trained == 20 else f"{PAPER[kind]} (at 20)"
    if not found:
        result.row(title, paper, "not run")
        return
    each = [Cells(run["cells"], trained).slices for run in found]
    mean = [sum(values) / len(values) for values in zip(*each)]
    seeds = ", ".join(name.rpartition("-")[2] for name in names if name in result.runs)
    notes = [f"seed{'s' * (len(found) > 1)} {seeds}: " + "; ".join(map(shown, each))]
    steps = sorted({run["step"] for run in found})
    notes.append(f"{', '.join(f'{step:,}' for step in steps)} steps (paper {FULL[kind]:,})")
    if mean[0] < 1:
        notes.append("**not converged**")
    if kind == "sum":
        notes.append(f"num_ones is a variable of its own, and the share is scaled by {result.config['sum']['share']:,}")
    result.row(title, paper, shown(mean), ". ".join(notes), _as_paper(kind, mean))


def _as_paper(kind: str, mean: list[float]) -> bool:
    """The paper's shape: all right; or right on short words, and guessing where the data says nothing."""
    short, longer, many = mean
    if kind == "relative":
        return short == longer == many == 1.0
    guesses = abs(many - 0.5) < 0.1
    return short == 1.0 and guesses and (abs(longer - 0.5) < 0.1 if kind == "absolute" else 0.6 < longer < 0.9)
