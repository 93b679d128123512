"""A frozen compiled block inside a trained transformer, with and without (the ALTA paper's section 5 suggests it).

The task: does a word's parity equal its last bit? Words in training are short. A standard transformer learns it
alone, or with a compiled parity network inside, which it must learn to read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

import kleene as kl
from kleene.library.parity import START, parity_relative
from kleene.networks.trained.encoder_decoder import StandardConfig, StandardTransformer
from kleene.networks.trained.hybrid_transformer import HybridTransformer
from kleene.papers.alta_parity import LENGTHS, Bits, percent, words
from kleene.papers.protocol import Config, Experiment, Measured, Row, Runs
from kleene.papers.report import plot
from kleene.papers.tasks import Plan, Tasks, fast_device
from kleene.training.end_to_end import Data, labelled, train_standard
from kleene.training.loop import seeded
from kleene.training.options import Storage, TrainingPlan

SCALES: dict[str, dict[str, Any]] = {
    "paper": {
        "seeds": [0, 1, 2],
        "train_each": 1_000,
        "test_each": 100,
        "steps": 5_000,
        "every": 250,
        "batch": 128,
        "rate": 5e-4,
        "optimiser": "adafactor",
        "layers": 4,
        "shape": {"width": 512, "hidden": 2048, "heads": 6, "head_size": 64},
    },
    "small": {
        "seeds": [0, 1, 2],
        "train_each": 200,
        "test_each": 50,
        "steps": 1_500,
        "every": 250,
        "batch": 64,
        "rate": 1e-3,
        "optimiser": "adam",
        "layers": 2,
        "shape": {"width": 64, "hidden": 128, "heads": 4, "head_size": 16},
    },
    "tiny": {
        "seeds": [0],
        "train_each": 10,
        "test_each": 4,
        "steps": 10,
        "every": 5,
        "batch": 8,
        "rate": 1e-3,
        "optimiser": "adam",
        "layers": 1,
        "shape": {"width": 8, "hidden": 8, "heads": 1, "head_size": 8},
    },
}
for _scale, (_trained, _longest) in LENGTHS.items():
    SCALES[_scale] |= {"trained": _trained, "longest": _longest}
TITLES = {"with": "with the frozen block", "without": "without it"}


def tasks(config: Config, data: Path | None, plan: Plan, runs: Runs) -> Tasks:
    """The tasks: with and without the block, for each seed."""
    shared = {key: value for key, value in config.items() if key not in ("scale", "seeds")}
    return {
        f"{kind}-seed-{seed}": {"kind": kind, "seed": seed, **shared, "steps": plan.step_count(config["steps"])}
        for kind in TITLES
        for seed in config["seeds"]
    }


def examples(given: list[Bits]) -> Data:
    """START and the bits; the last position's label says whether the parity is the last bit (of none: START's 0)."""
    wanted = [int(sum(word) % 2 == (word[-1] if word else 0)) for word in given]
    return labelled([[START, *word] for word in given], [[*[0] * len(w), y] for w, y in zip(given, wanted)], "last")


def learn_one(
    kind: str,
    seed: int,
    trained: int,
    longest: int,
    train_each: int,
    test_each: int,
    layers: int,
    shape: dict[str, int],
    folder: Path,
    deadline: float | None,
    **training: Any,
) -> dict[str, Any]:
    """One transformer, with a compiled parity network inside or without."""
    plan = TrainingPlan(seed=seed, **training)
    torch.manual_seed(seeded(seed, -1))
    config = StandardConfig(
        tokens=3,
        classes=2,
        layers=layers,
        shared=False,
        positions="relative",
        max_length=longest + 1,
        name=f"{kind} frozen parity",
        **shape,
    )
    net = HybridTransformer(config, kl.compile(parity_relative)) if kind == "with" else StandardTransformer(config)
    train_standard(
        net,
        examples(words(trained, train_each, seed=1)),
        plan=plan,
        storage=Storage(folder=folder, save_seconds=60, deadline=deadline, device=fast_device()),
    )
    right: dict[str, float] = {}
    for length in range(longest + 1):
        given = [word for word in words(longest, test_each, seed=2) if len(word) == length]
        if given:
            labels = examples(given)[2][:, -1].tolist()
            said = [output[-1] for output in net.run_batch([[START, *word] for word in given])]
            right[str(length)] = sum(a == b for a, b in zip(said, labels)) / len(given)
    last = net.metrics[-1] if net.metrics else {"step": 0}
    return {"right": right, **last, "metrics": net.metrics, "finished": last["step"] >= plan.steps}


def by_trained(right: dict[str, float], trained: int) -> list[float]:
    """Means over lengths of the shares right: up to the trained length, and beyond."""
    parts: list[list[float]] = [[], []]
    for length, share in right.items():
        parts[int(length) > trained].append(share)
    return [sum(part) / len(part) for part in parts]


def rows(config: Config) -> list[Row]:
    """The rows with and without the block, without a verdict: the paper suggests the experiment and claims nothing."""
    return [_row(config, kind) for kind in TITLES]


def _row(config: Config, kind: str) -> Row:
    trained = config["trained"]
    names = [f"{kind}-seed-{seed}" for seed in config["seeds"]]

    def measure(runs: Runs) -> Measured | None:
        found = [runs[name] for name in names if name in runs]
        if not found:
            return None
        each = [by_trained(run["right"], trained) for run in found]
        mean = [sum(values) / len(values) for values in zip(*each)]
        said = "; ".join(" / ".join(map(percent, part)) for part in each)
        steps = ", ".join(f"{run['step']:,}" for run in found)
        note = f"{len(found)} of {len(names)} seeds: {said}; {steps} of {config['steps']:,} steps"
        return Measured(" / ".join(map(percent, mean)), note=note + ("" if mean[0] == 1 else ". **not converged**"))

    return Row(
        f"{TITLES[kind]}: length ≤ {trained} / > {trained}",
        measure,
        cost=f"{config['steps']:,} steps a seed, about 2 minutes each on an H200" if config["scale"] == "paper" else "",
        note="means over lengths",
    )


def draw(folder: Path, config: Config, runs: Runs) -> None:
    """The share right by length."""
    with plot(folder / "frozen.png", title="parity = last bit, by length") as (axis,):
        for name, run in runs.items():
            axis.plot([int(n) for n in run["right"]], list(run["right"].values()), label=name, lw=1.2)
        axis.axvline(config["trained"] + 0.5, color="black", lw=0.8, ls=":")
        axis.set(xlabel="length", ylabel="right", ylim=(-0.05, 1.05))
        axis.legend(fontsize=7)


FROZEN = Experiment("alta.frozen", SCALES, (tasks,), learn_one, rows, draw)
