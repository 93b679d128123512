"""Trace supervision without compiled weights (the ALTA paper's appendix C.1 leaves it to future work).

A standard transformer with shared weights and a layer for each bit of the longest word is trained on parity.
Linear probes, one a variable, must read the program's variables after each of its layers off the residual stream
after each layer; they are trained with it.
Then it is trained on a second task, the number of ones modulo 3, end to end: does what it learned help?
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kleene.library.parity import START, parity_relative
from kleene.lowering.guarding import guarded_updates
from kleene.lowering.rule_machine import RuleMachine
from kleene.networks.trained.encoder_decoder import StandardConfig, StandardTransformer
from kleene.papers.alta_frozen import by_trained
from kleene.papers.alta_parity import Bits, percent, words
from kleene.papers.protocol import Config, Experiment, Measured, Row, Runs
from kleene.papers.report import plot
from kleene.papers.tasks import Plan, Tasks, fast_device
from kleene.training.end_to_end import IGNORED, Data, labelled, train_standard
from kleene.training.loop import seeded
from kleene.training.options import Storage, TrainingPlan

SCALES: dict[str, dict[str, Any]] = {
    "paper": {
        "lengths": [12, 24],
        "seeds": [0, 1, 2],
        "train_each": 500,
        "test_each": 50,
        "steps": 5_000,
        "every": 100,
        "batch": 128,
        "rate": 3e-4,
        "shape": {"width": 256, "hidden": 1024, "heads": 4, "head_size": 64},
    },
    "small": {
        "lengths": [6, 12],
        "seeds": [0, 1, 2],
        "train_each": 100,
        "test_each": 30,
        "steps": 1_000,
        "every": 50,
        "batch": 64,
        "rate": 1e-3,
        "shape": {"width": 64, "hidden": 128, "heads": 4, "head_size": 16},
    },
    "tiny": {
        "lengths": [3, 5],
        "seeds": [0],
        "train_each": 10,
        "test_each": 3,
        "steps": 6,
        "every": 3,
        "batch": 8,
        "rate": 1e-3,
        "shape": {"width": 8, "hidden": 8, "heads": 1, "head_size": 8},
    },
}
TITLES = {"probes": "probes at every layer", "plain": "answers alone"}
MODULUS = 3  # of the second task
GOOD = 0.99  # of the training words: learned


def tasks(config: Config, data: Path | None, plan: Plan, runs: Runs) -> Tasks:
    """The tasks: with probes and without, for each seed."""
    trained, longest = config["lengths"]
    shared = {key: value for key, value in config.items() if key not in ("scale", "seeds", "lengths")}
    return {
        f"{kind}-seed-{seed}": {
            "kind": kind,
            "seed": seed,
            "trained": trained,
            "longest": longest,
            **shared,
            "steps": plan.step_count(config["steps"]),
        }
        for kind in TITLES
        for seed in config["seeds"]
    }


class Probed(StandardTransformer):
    """A standard transformer with a linear probe for each variable of a program."""

    def __init__(self, config: StandardConfig, sizes: dict[str, int]) -> None:
        super().__init__(config)
        self.probes = nn.ModuleDict({name: nn.Linear(config.width, size) for name, size in sizes.items()})


def states(given: list[Bits], layers: int) -> dict[str, Tensor]:
    """The program's variables after each layer: (word, layer, position), IGNORED beyond a word's end."""
    inputs, spec = [[START, *word] for word in given], parity_relative.spec
    size = max(map(len, inputs))
    found = {name: np.full((len(given), layers, size), IGNORED) for name in spec.variables}
    real = np.arange(size) < np.array([len(tokens) for tokens in inputs])[:, None]

    def watch(layer: int, rows: Any, state: dict[str, Any]) -> None:
        for name, values in found.items():
            values[:, layer - 1] = np.where(real, state[name], IGNORED)

    RuleMachine(guarded_updates(parity_relative)).run_batch(inputs, layers=layers, check=False, watch=watch)
    return {name: torch.from_numpy(values).long() for name, values in found.items()}


def examples(given: list[Bits], modulus: int) -> Data:
    """START and the bits; the last position's label is the number of ones modulo `modulus`."""
    labels = [[*[0] * len(word), sum(word) % modulus] for word in given]
    return labelled([[START, *word] for word in given], labels, "last")


def learn_one(
    kind: str,
    seed: int,
    trained: int,
    longest: int,
    train_each: int,
    test_each: int,
    shape: dict[str, int],
    folder: Path,
    deadline: float | None,
    **training: Any,
) -> dict[str, Any]:
    """Parity, with probes or without; then the second task from these weights, and (plain) from none."""
    plan, device = TrainingPlan(optimiser="adam", seed=seed, **training), fast_device()
    train, test = words(trained, train_each, seed=1), words(longest, test_each, seed=2)
    sizes = {name: len(v.kind) for name, v in parity_relative.spec.variables.items()}
    known = {name: values.to(device) for name, values in states(train, longest).items()}

    def probe_loss(net: nn.Module, layers: list[Tensor], indices: Tensor) -> Tensor:
        seen = torch.stack(layers, dim=1)  # (batch, layer, position, width)
        parts = [
            F.cross_entropy(probe(seen).flatten(0, 2).float(), known[name][indices].flatten(), ignore_index=IGNORED)
            for name, probe in net.probes.items()  # type: ignore[union-attr, operator]
        ]
        return torch.stack(parts).sum()

    found: dict[str, Any] = {}
    step = 0

    def stage(name: str, net: Probed, modulus: int, extra: Any) -> None:
        nonlocal step
        train_standard(
            net,
            examples(train, modulus),
            extra=extra,
            plan=plan,
            storage=Storage(folder=folder / name, save_seconds=60, deadline=deadline, device=device),
        )
        step += net.metrics[-1]["step"] if net.metrics else 0
        found[name] = by_length(net, test, modulus)
        good = [entry["step"] for entry in net.metrics if entry["accuracy"] >= GOOD]
        found[f"{name}_metrics"] = net.metrics
        found[f"{name}_steps"] = good[0] if good else None

    parity = _fresh(2, longest, shape, sizes, seed)
    stage("parity", parity, 2, probe_loss if kind == "probes" else None)
    second = _fresh(MODULUS, longest, shape, sizes, seed)
    second.encoder.load_state_dict(parity.encoder.state_dict())
    stage("second", second, MODULUS, None)
    stages = 2
    if kind == "plain":
        stage("scratch", _fresh(MODULUS, longest, shape, sizes, seed), MODULUS, None)
        stages = 3
    return {**found, "step": step, "finished": step >= stages * plan.steps}


def _fresh(classes: int, longest: int, shape: dict[str, int], sizes: dict[str, int], seed: int) -> Probed:
    torch.manual_seed(seeded(seed, -1))
    config = StandardConfig(
        tokens=3,
        classes=classes,
        layers=longest,
        shared=True,
        positions="relative",
        max_length=longest + 1,
        name="probed",
        **shape,
    )
    return Probed(config, sizes)


def by_length(net: Probed, test: list[Bits], modulus: int) -> dict[str, float]:
    """The share right by length."""
    found = {}
    for length in sorted({len(word) for word in test}):
        given = [word for word in test if len(word) == length]
        said = [output[-1] for output in net.run_batch([[START, *word] for word in given])]
        found[str(length)] = sum(a == sum(word) % modulus for a, word in zip(said, given)) / len(given)
    return found


# --- rows -------------------------------------------------------------------------------------------------


def rows(config: Config) -> list[Row]:
    """Accuracy on either task, and how soon the training words are right; the paper claims nothing about it."""
    found = []
    for kind, title in TITLES.items():
        found.append(_row(config, kind, f"parity, {title}", "parity"))
        found.append(_row(config, kind, f"then ones modulo {MODULUS}, from {title}", "second"))
    found.append(_row(config, "plain", f"ones modulo {MODULUS}, from nothing", "scratch"))
    return [*found, _steps_row(config, "parity", "parity"), _steps_row(config, "second", f"ones modulo {MODULUS}")]


def _row(config: Config, kind: str, title: str, part: str) -> Row:
    trained = config["lengths"][0]
    names = [f"{kind}-seed-{seed}" for seed in config["seeds"]]

    def measure(runs: Runs) -> Measured | None:
        each = [by_trained(runs[name][part], trained) for name in names if name in runs]
        if not each:
            return None
        mean = [sum(values) / len(values) for values in zip(*each)]
        said = "; ".join(" / ".join(map(percent, one)) for one in each)
        note = f"{len(each)} of {len(names)} seeds: {said}" + ("" if mean[0] == 1 else ". **not converged**")
        return Measured(" / ".join(map(percent, mean)), note=note)

    cost = "15 trainings of 5,000 steps, about 10 minutes on an H200" if config["scale"] == "paper" else ""
    return Row(f"{title}: length ≤ {trained} / > {trained}", measure, cost=cost, note="means over lengths")


def _steps_row(config: Config, part: str, title: str) -> Row:
    def measure(runs: Runs) -> Measured | None:
        steps = {
            kind: [runs[name][f"{part}_steps"] for seed in config["seeds"] if (name := f"{kind}-seed-{seed}") in runs]
            for kind in TITLES
        }
        if not all(steps.values()):
            return None
        if part == "second":
            steps["nothing"] = [run["scratch_steps"] for run in runs.values() if "scratch_steps" in run]
        text = "; ".join(f"{kind}: {', '.join(map(_count, found))}" for kind, found in steps.items())
        return Measured(text, note="each seed")

    return Row(f"steps until {percent(GOOD)} of the training words are right, {title}", measure)


def _count(steps: int | None) -> str:
    return "never" if steps is None else f"{steps:,}"


def draw(folder: Path, config: Config, runs: Runs) -> None:
    """The share right by length, on both tasks."""
    parts = {"parity": "parity", "second": f"then ones modulo {MODULUS}"}
    with plot(folder / "probes.png", panels=2, title="linear probes instead of compiled weights") as axes:
        for axis, (part, title) in zip(axes, parts.items()):
            for name, run in runs.items():
                axis.plot([int(n) for n in run[part]], list(run[part].values()), label=name, lw=1.2)
                if part == "second" and "scratch" in run:
                    alone = run["scratch"]
                    axis.plot([int(n) for n in alone], list(alone.values()), label="from nothing", lw=1)
            axis.axvline(config["lengths"][0] + 0.5, color="black", lw=0.8, ls=":")
            axis.set(xlabel="length", ylabel="right", ylim=(-0.05, 1.05), title=title)
            axis.legend(fontsize=6)


PROBES = Experiment("alta.probes", SCALES, (tasks,), learn_one, rows, draw)
