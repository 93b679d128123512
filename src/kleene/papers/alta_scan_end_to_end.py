"""ALTA, appendix D.4: SCAN learned end to end by encoder–decoder transformers (Table 6, Figure 18)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kleene.errors import FileError
from kleene.machines.scan_grammar import ACTIONS, WORDS, Pair, length_split, published_split
from kleene.networks.trained.encoder_decoder import StandardConfig, StandardTransformer
from kleene.papers.alta_parity import percent
from kleene.papers.protocol import Config, Criterion, Experiment, Measured, Row, Runs
from kleene.papers.report import plot
from kleene.papers.tasks import Plan, Tasks, fast_device
from kleene.training.end_to_end import IGNORED, Data, share_right, train_standard
from kleene.training.loop import seeded
from kleene.training.options import Storage, TrainingPlan

LAYERS = (2, 6, 16, 32, 64, 128, 256)  # of the encoder, and as many of the decoder
PAPER: dict[str, tuple[int | None, ...]] = {  # percent; None: not trained
    "length-shared-relative": (11, 10, 9, 7, 7, 7, 5),
    "length-shared-absolute": (8, 9, 7, 5, 5, 6, 4),
    "length-own-relative": (9, 9, 11, 10, 10, None, None),
    "length-own-absolute": (9, 6, 7, 6, 4, None, None),
    "mcd1-shared-relative": (5, 3, 2, 4, 3, 3, 2),
    "mcd1-shared-absolute": (4, 1, 3, 2, 2, 2, 1),
    "mcd1-own-relative": (4, 4, 3, 2, 2, None, None),
    "mcd1-own-absolute": (5, 2, 1, 1, 2, None, None),
    "mcd2-shared-relative": (9, 13, 9, 5, 4, 7, 3),
    "mcd2-shared-absolute": (5, 6, 2, 2, 2, 2, 2),
    "mcd2-own-relative": (13, 7, 4, 5, 4, None, None),
    "mcd2-own-absolute": (4, 4, 2, 2, 1, None, None),
    "mcd3-shared-relative": (12, 12, 6, 5, 7, 2, 3),
    "mcd3-shared-absolute": (3, 4, 3, 3, 3, 2, 2),
    "mcd3-own-relative": (8, 8, 7, 3, 2, None, None),
    "mcd3-own-absolute": (4, 5, 2, 3, 1, None, None),
}
FULL_STEPS = 100_000
STOP, START = len(ACTIONS), len(ACTIONS) + 1  # of the decoder
SPLITS = ("length", "mcd1", "mcd2", "mcd3")

SCALES: dict[str, dict[str, Any]] = {  # `layers`, `splits`: the cells that are run unless --only names others
    "paper": {
        "layers": [2, 6, 16],
        "splits": list(SPLITS),
        "steps": 10_000,
        "every": 500,
        "batch": 128,
        "rate": 5e-4,
        "optimiser": "adafactor",
        "tested": None,
        "shape": {"width": 128, "hidden": 512, "heads": 8, "head_size": 128},
    },
    "small": {
        "layers": [2, 6],
        "splits": ["length", "mcd1"],
        "steps": 2_000,
        "every": 250,
        "batch": 32,
        "rate": 1e-3,
        "optimiser": "adam",
        "tested": 1_000,
        "shape": {"width": 64, "hidden": 128, "heads": 4, "head_size": 16},
    },
    "tiny": {
        "layers": [2],
        "splits": ["length"],
        "steps": 4,
        "every": 2,
        "batch": 4,
        "rate": 1e-3,
        "optimiser": "adam",
        "tested": 20,
        "shape": {"width": 8, "hidden": 8, "heads": 1, "head_size": 8},
    },
}


def tasks(config: Config, data: Path | None, plan: Plan, runs: Runs) -> Tasks:
    """Every cell of Table 6; by default some of them are run."""
    kept = ("every", "batch", "rate", "optimiser", "tested", "shape")
    found = {
        f"{name}-{layers}": {
            "row": name,
            "layers": layers,
            "seed": 0,
            "data": None if data is None else Path(data),
            "steps": plan.step_count(config["steps"]),
            **{key: config[key] for key in kept},
        }
        for name, cells in PAPER.items()
        for layers, paper in zip(LAYERS, cells)
        if paper is not None
    }
    for name in plan.chosen(found, default(config)):
        split_pairs(name.partition("-")[0], data)  # a clear error before any work
    return found


def default(config: Config) -> list[str]:
    """The cells that are run unless --only names others."""
    return [f"{split}-shared-relative-{layers}" for split in config["splits"] for layers in config["layers"]]


# --- data -------------------------------------------------------------------------------------------------


@cache
def split_pairs(name: str, data: Path | None) -> tuple[list[Pair], list[Pair]]:
    """The training and the test set of a split; the length split needs no files."""
    try:
        return published_split(name, data)
    except FileError:
        if name != "length":
            raise
        return length_split()


def examples(pairs: Sequence[Pair]) -> tuple[Data, Tensor]:
    """Commands as words, and actions that the decoder is to say (then STOP) and has said (after START)."""
    commands = [[WORDS.index(word) for word in command.split()] for command, _ in pairs]
    actions = [[ACTIONS.index(action) for action in said.split()] for _, said in pairs]
    words, longest = max(map(len, commands)), max(map(len, actions)) + 1
    tokens = torch.tensor([[*row, *[0] * (words - len(row))] for row in commands])
    real = torch.arange(words) < torch.tensor([len(row) for row in commands])[:, None]
    labels = torch.tensor([[*row, STOP, *[IGNORED] * (longest - 1 - len(row))] for row in actions])
    heard = torch.tensor([[START, *row, *[STOP] * (longest - 1 - len(row))] for row in actions])
    return (tokens, real, labels), heard


# --- one cell ---------------------------------------------------------------------------------------------


def learn_one(
    row: str,
    layers: int,
    seed: int,
    data: Path | None,
    tested: int | None,
    shape: dict[str, int],
    folder: Path,
    deadline: float | None,
    **training: Any,
) -> dict[str, Any]:
    """One cell of Table 6."""
    plan = TrainingPlan(seed=seed, **training)
    split, weights, positions = row.split("-")
    train, test = split_pairs(split, data)
    chosen = test if tested is None else test[:: max(1, len(test) // tested)]
    torch.manual_seed(seeded(seed, -1))
    net = StandardTransformer(
        StandardConfig(
            tokens=len(WORDS),
            classes=STOP + 1,
            target_tokens=START + 1,
            layers=layers,
            shared=weights == "shared",
            positions=positions,
            max_length=max(len(command.split()) for command, _ in [*train, *test]),
            name=f"SCAN, {row}",
            **shape,
        )
    )
    known, heard = examples(train)
    train_standard(
        net,
        known,
        targets=heard,
        plan=plan,
        storage=Storage(folder=folder, save_seconds=60, deadline=deadline, device=fast_device()),
    )
    last = net.metrics[-1] if net.metrics else {"step": 0}
    return {
        "right": share_right(net, *examples(chosen)),
        "tested": len(chosen),
        **last,
        "metrics": net.metrics,
        "parameters": sum(p.numel() for p in net.parameters()),
        "finished": last["step"] >= plan.steps,
    }


# --- the table --------------------------------------------------------------------------------------------


def rows(config: Config) -> list[Row]:
    """Table 6, then whether more layers help, split by split."""
    found = [_table_row(config, name, cells) for name, cells in PAPER.items()]
    found += [_trend_row(config, f"{split}-shared-relative") for split in config["splits"]]
    return [*found, _mean_row(config)]


def _table_row(config: Config, name: str, cells: Sequence[int | None]) -> Row:
    split, weights, positions = name.split("-")

    def measure(runs: Runs) -> Measured | None:
        each = [runs.get(f"{name}-{layers}") for layers in LAYERS]
        found = {layers: run for layers, run in zip(LAYERS, each) if run is not None}
        if not found:
            return None
        ours = " / ".join(
            "—" if cell is None else "not run" if run is None else percent(run["right"])
            for cell, run in zip(cells, each)
        )
        parts = [
            f"{layers} layers: {run['step']:,} steps, {percent(run.get('accuracy', 0.0))} of training commands"
            + ("" if run.get("accuracy") == 1.0 else " (**not converged**)")
            for layers, run in found.items()
        ]
        cut = f"; the paper's: {FULL_STEPS:,} steps" if config["scale"] == "paper" else ""
        return Measured(ours, note="; ".join(parts) + cut)

    return Row(
        f"{split}, {weights} weights, {positions}: 2 / 6 / 16 / 32 / 64 / 128 / 256 layers",
        measure,
        " / ".join("—" if cell is None else f"{cell} %" for cell in cells),
        "ALTA, Table 6",
        cost="100,000 steps a cell; 2 to 10 ms a step and layer pair on an H200: 20 minutes at 2 layers, a day at 256",
    )


def _trend_row(config: Config, name: str) -> Row:
    def measure(runs: Runs) -> Measured | None:
        found = {layers: run for layers in LAYERS if (run := runs.get(f"{name}-{layers}"))}
        if len(found) < 2:
            return None
        shares = [run["right"] for run in found.values()]
        return Measured(
            ", ".join(f"{layers}: {percent(share)}" for layers, share in zip(found, shares)),
            shares,
            seeds=1,
            converged=all(run.get("accuracy") == 1.0 for run in found.values()),
            runs=tuple(f"{name}-{layers}" for layers in found),
        )

    return Row(
        f"more layers do not help: {name.replace('-', ', ')}",
        measure,
        ", ".join(f"{layers}: {cell} %" for layers, cell in zip(LAYERS, PAPER[name])),
        "ALTA, Table 6",
        Criterion(
            "the mean of three seeds of no deeper network is more than 2 points above that of the shallowest",
            lambda shares: all(share <= shares[0] + 0.02 for share in shares),
        ),
    )


def _mean_row(config: Config) -> Row:
    def measure(runs: Runs) -> Measured | None:
        each = [[runs.get(f"{split}-shared-relative-{n}") for n in config["layers"]] for split in config["splits"]]
        if len(each) < 2 or any(run is None for row in each for run in row):
            return None
        means = [sum(run["right"] for run in column if run) / len(column) for column in zip(*each)]
        return Measured(", ".join(f"{n}: {percent(mean)}" for n, mean in zip(config["layers"], means)))

    return Row(
        "exploratory: the mean of the splits, shared weights, relative",
        measure,
        note="looked at after the splits had been seen, so that nothing follows from it",
    )


def draw(folder: Path, config: Config, runs: Runs) -> None:
    """Figure 18."""
    with plot(folder / "scan-end-to-end.png", 4, "Figure 18: test accuracy by layers", width=3) as axes:
        for axis, split in zip(axes, SPLITS):
            name = f"{split}-shared-relative"
            found = {n: run["right"] for n in LAYERS if (run := runs.get(f"{name}-{n}"))}
            axis.plot(LAYERS, [(cell or 0) / 100 for cell in PAPER[name]], marker=".", label="paper")
            axis.plot(list(found), list(found.values()), marker="o", ls="--", label="ours")
            axis.set(xlabel="layers", ylabel="right", title=split, xscale="log", ylim=(0, None))
            axis.set_xticks(LAYERS, [str(n) for n in LAYERS], fontsize=7)
            axis.minorticks_off()
            axis.legend(fontsize=7)


SCAN_END_TO_END = Experiment("alta.scan-end-to-end", SCALES, (tasks,), learn_one, rows, draw, default)
