"""Table 1 of the Synthesizer paper: is there a setting whose steps are the paper's?

The paper leaves out depth, dropout, learning rate, warm-up and initial deviation. All of a grid is tried with 16
programs and one seed; two settings go on to 16, 32, 64 and 128 programs with five other seeds: the one whose steps are
nearest to the paper's, and the fastest. Models of one depth and dropout are one stack, each with a rate of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from statistics import mean, stdev
from typing import Any, cast

import torch
from torch import Tensor, nn

from kleene.machines.instruction_table import InstructionTable
from kleene.networks.trained.bert import Bert
from kleene.networks.trained.bert_stack import BertStack, predict
from kleene.papers.protocol import Config, Criterion, Experiment, Measured, Row, Runs
from kleene.papers.report import plot
from kleene.papers.tasks import Plan, Tasks, fast_device
from kleene.training.bert_stack import Batch, Descent, RateEach, endless
from kleene.training.loop import train
from kleene.training.options import Evaluation, GradientStep, Metrics, Storage

PAPER = {16: (1030, 74), 32: (1366, 95), 64: (1907, 153), 128: (2991, 72)}  # Table 1: mean, standard deviation
SHAPE = {"hidden": 256, "intermediate": 1024, "heads": 4}
SCALES: dict[str, dict[str, Any]] = {
    "paper": {
        "length": 256,
        "sizes": [16, 32, 64, 128],
        "layers": [2, 4, 6, 12],
        "dropouts": [0.0, 0.1],
        "rates": [1e-4, 2e-4, 5e-4, 1e-3],
        "warmups": [0, 100, 1000],
        "spreads": [0.02, 0.0625],
        "seeds": [1, 2, 3, 4, 5],
        "tried": 2_060,
        "most": {"16": 2_060, "32": 2_732, "64": 3_814, "128": 5_982},  # twice the paper's
        "shape": SHAPE,
    },
    "tiny": {
        "length": 4,
        "sizes": [2, 3],
        "layers": [1, 2],
        "dropouts": [0.0],
        "rates": [1e-3, 3e-3],
        "warmups": [0, 10],
        "spreads": [0.2],
        "seeds": [1, 2],
        "tried": 300,
        "most": {"2": 400, "3": 400},
        "shape": {"hidden": 32, "intermediate": 64, "heads": 2},
    },
}
SCALES["small"] = {
    **SCALES["tiny"],
    "length": 16,
    "layers": [1, 2],
    "rates": [1e-3, 3e-3],
    "spreads": [0.1, 0.2],
    "tried": 600,
    "most": {"2": 800, "3": 800},
}
Setting = dict[str, Any]  # layers, dropout, rate, warmup, spread


def grid(config: Config) -> list[Setting]:
    """Every setting that is tried."""
    names = ("layers", "dropout", "rate", "warmup", "spread")
    values = (config[key] for key in ("layers", "dropouts", "rates", "warmups", "spreads"))
    return [dict(zip(names, some)) for some in product(*values)]


def trials(config: Config, data: Path | None, plan: Plan, runs: Runs) -> Tasks:
    """The grid, one seed: a task a depth and dropout."""
    found: dict[str, dict[str, Any]] = {}
    for layers, dropout in product(config["layers"], config["dropouts"]):
        settings = [s for s in grid(config) if s["layers"] == layers and s["dropout"] == dropout]
        found[f"try-{layers}-layers-dropout-{dropout}"] = _task(
            config, config["sizes"][0], settings, [0], config["tried"]
        )
    return found


def finals(config: Config, data: Path | None, plan: Plan, runs: Runs) -> Tasks:
    """The two chosen settings, all sizes and seeds; nothing as long as a trial is missing."""
    chosen = choose(config, runs)
    return {
        f"{name}-programs-{size}": _task(config, size, [setting], config["seeds"], config["most"][str(size)])
        for name, setting in chosen.items()
        for size in config["sizes"]
    }


def _task(config: Config, programs: int, settings: list[Setting], seeds: list[int], steps: int) -> dict[str, Any]:
    shared = {"length": config["length"], "shape": config["shape"]}
    return {"programs": programs, "settings": settings, "seeds": seeds, "steps": steps, **shared}


def tried(config: Config, runs: Runs) -> list[tuple[Setting, int | None]]:
    """Each setting with the steps that it took; None where it did not get there."""
    found = []
    for name in trials(config, None, Plan(), {}):
        if name in runs:
            found += [(model["setting"], model["reached"]) for model in runs[name]["models"]]
    return found


def choose(config: Config, runs: Runs) -> dict[str, Setting]:
    """The setting nearest to the paper's steps, and the fastest one."""
    found = [(setting, steps) for setting, steps in tried(config, runs) if steps is not None]
    if not found or any(name not in runs for name in trials(config, None, Plan(), {})):
        return {}
    wanted = PAPER.get(config["sizes"][0], (0, 0))[0]
    nearest = min(found, key=lambda pair: abs(pair[1] - wanted))
    fastest = min(found, key=lambda pair: pair[1])
    return {"nearest": nearest[0], "fastest": fastest[0]}


def train_models(
    programs: int,
    settings: list[Setting],
    seeds: list[int],
    length: int,
    shape: dict[str, int],
    steps: int,
    folder: Path,
    deadline: float | None,
) -> dict[str, Any]:
    """Models of one depth and dropout side by side: every setting with every seed, until all know their programs."""
    device = torch.device(fast_device())
    members = [(setting, seed) for setting in settings for seed in seeds]
    tables = {seed: InstructionTable.random(programs, length, length, seed=seed) for seed in seeds}
    operands = tables[seeds[0]].sizes
    stack = BertStack([_model(setting, seed, programs, length, operands, shape) for setting, seed in members])
    stack.to(device)
    stack.register_buffer("reached", torch.full((len(members),), -1, device=device))
    reached = cast(Tensor, stack.reached)
    numbers = torch.arange(length).repeat(programs)
    which = torch.arange(programs).repeat_interleave(length)
    # [CLS], the number's token, the program's token; only tokens that occur have a row
    inputs = torch.stack([torch.ones_like(numbers), 2 + numbers, 2 + length + which], dim=1).to(device)
    labels = torch.stack([torch.as_tensor(tables[seed].entries()[2]) for _, seed in members]).to(device)
    count = len(inputs)
    orders = {seed: endless(seed, count, max(1, count // 20)) for seed in seeds}
    at = torch.arange(len(members), device=device)[:, None]
    rates = torch.tensor([setting["rate"] for setting, _ in members], device=device)
    warmups = torch.tensor([max(1, setting["warmup"]) for setting, _ in members], device=device)
    sample = torch.randperm(count, generator=torch.Generator().manual_seed(0))[:1024].to(device)

    def batches(step: int) -> Batch:
        drawn = {seed: order(step) for seed, order in orders.items()}
        chosen = torch.stack([drawn[seed] for _, seed in members]).to(device)
        return inputs[chosen], labels[at, chosen], rates * ((step + 1) / warmups).clamp(max=1.0)

    def right(some: Tensor | slice) -> Tensor:
        asked = inputs[some].expand(len(members), -1, -1)
        return (predict(stack, asked, operands, padded=False, chunk=65_536) == labels[:, some]).all(-1).double().mean(1)

    def evaluate(_: nn.Module) -> Metrics:
        share = right(sample)
        if count > len(sample) and bool(((share == 1.0) & (reached < 0)).any()):  # only then look at all
            share = right(slice(None))
        return {"right": [round(value, 5) for value in share.tolist()]}

    def until(metrics: Metrics) -> bool:
        done = torch.tensor(metrics["right"], device=device) == 1.0
        reached[done & (reached < 0)] = metrics["step"]
        return bool((reached >= 0).all())

    optimiser = RateEach(stack, rates.clone())
    run = train(
        stack,
        optimiser,
        lambda model, batch: torch.zeros(()),  # `descend` makes the steps
        batches,
        steps=steps,
        gradient=GradientStep(descend=Descent(stack, optimiser, operands, padded=False)),
        seed=seeds[0],
        evaluation=Evaluation(measure=evaluate, every=10, until=until),
        storage=Storage(deadline=deadline),
    )
    curve = {point["step"]: point["right"] for point in run.metrics if point["step"] % 100 == 0}
    return {
        "models": [
            {
                "setting": setting,
                "seed": seed,
                "reached": None if reached[m] < 0 else int(reached[m]),
                "curve": [[step, right[m]] for step, right in curve.items()],
            }
            for m, (setting, seed) in enumerate(members)
        ],
        "step": run.step,
        "finished": run.reached or run.step >= steps,
    }


def _model(
    setting: Setting, seed: int, programs: int, length: int, operands: Sequence[int], shape: dict[str, int]
) -> Bert:
    torch.manual_seed(seed)
    return Bert(
        sum(operands),
        2 + length + programs,
        layers=setting["layers"],
        dropout=setting["dropout"],
        spread=setting["spread"],
        positions=16,
        **shape,
    )


# --- rows -------------------------------------------------------------------------------------------------


def said(setting: Setting) -> str:
    """
    >>> said({"layers": 4, "dropout": 0.1, "rate": 5e-4, "warmup": 100, "spread": 0.02})
    '4 layers, dropout 0.1, rate 0.0005, warm-up 100, initial deviation 0.02'
    """
    return (
        f"{setting['layers']} layers, dropout {setting['dropout']:g}, rate {setting['rate']:g}, "
        f"warm-up {setting['warmup']}, initial deviation {setting['spread']:g}"
    )


def rows(config: Config) -> list[Row]:
    """The grid in two rows, then each chosen setting at each size, then whether one setting fits all sizes."""
    first = config["sizes"][0]
    found = [
        Row(f"settings tried with {first} programs, seed 0", lambda runs: _grid_text(config, runs)),
        Row(
            f"settings within two deviations of the paper's steps at {first} programs",
            lambda runs: _near_text(config, runs),
        ),
    ]
    for name in ("nearest", "fastest"):
        for size in config["sizes"]:
            found.append(_size_row(config, name, size))
        found.append(_all_sizes_row(config, name))
    return found


def _grid_text(config: Config, runs: Runs) -> Measured | None:
    found = tried(config, runs)
    if not found:
        return None
    reached = sorted((steps, said(setting)) for setting, steps in found if steps is not None)
    text = f"{len(reached)} of {len(found)} settings get every operand right in {config['tried']:,} steps"
    if reached:
        text += f"; the fastest: {', '.join(f'{steps:,} ({name})' for steps, name in reached[:3])}"
    return Measured(text, seeds=1, runs=tuple(name for name in runs if name.startswith("try-")))


def _near_text(config: Config, runs: Runs) -> Measured | None:
    found = tried(config, runs)
    wanted = PAPER.get(config["sizes"][0])
    if not found or wanted is None:
        return None
    near = [(steps, said(s)) for s, steps in found if steps is not None and abs(steps - wanted[0]) <= 2 * wanted[1]]
    listed = "; ".join(f"{steps:,}: {name}" for steps, name in sorted(near)[:8])
    more = f" and {len(near) - 8} more" if len(near) > 8 else ""
    return Measured(f"{len(near)} of {len(found)}. {listed}{more}", seeds=1)


def _found(runs: Runs, name: str, size: int) -> list[int] | None:
    run = runs.get(f"{name}-programs-{size}")
    if run is None or any(model["reached"] is None for model in run["models"]):
        return None
    return [model["reached"] for model in run["models"]]


def _within(size: int, steps: Sequence[int]) -> bool:
    theirs, spread = PAPER[size]
    return abs(mean(steps) - theirs) <= 2 * spread


def _size_row(config: Config, name: str, size: int) -> Row:
    def measure(runs: Runs) -> Measured | None:
        run = runs.get(f"{name}-programs-{size}")
        if run is None:
            return None
        models = run["models"]
        steps = [model["reached"] for model in models if model["reached"] is not None]
        text = f"{mean(steps):.0f} ± {stdev(steps):.0f}" if len(steps) > 1 else "not reached"
        if len(steps) < len(models):
            text += f" ({len(steps)} of {len(models)} seeds within {run['step']:,} steps)"
        return Measured(
            text,
            value=steps,
            seeds=len(models),
            converged=len(steps) == len(models),
            note=said(models[0]["setting"]) + ": " + ", ".join(map(str, steps)),
            runs=(f"{name}-programs-{size}",),
        )

    stated = PAPER.get(size)
    return Row(
        f"{name} setting, steps to 100 %: {size} random programs of {config['length']}",
        measure,
        paper="" if stated is None else f"{stated[0]} ± {stated[1]}",
        source="" if stated is None else "Synthesizer paper, Table 1",
        criterion=None
        if stated is None
        else Criterion(
            "the mean of five seeds is within two of the paper's standard deviations",
            lambda steps: _within(size, steps),
            seeds=5,
        ),
    )


def _all_sizes_row(config: Config, name: str) -> Row:
    def measure(runs: Runs) -> Measured | None:
        each = {size: _found(runs, name, size) for size in config["sizes"]}
        done = {size: steps for size, steps in each.items() if steps is not None}
        names = tuple(f"{name}-programs-{size}" for size in config["sizes"])
        if any(one not in runs for one in names) or not all(size in PAPER for size in each):
            return None
        within = sum(_within(size, steps) for size, steps in done.items())
        return Measured(
            f"{within} of {len(each)} sizes",
            value=(within, len(each)),
            seeds=min((len(steps) for steps in done.values()), default=0),
            converged=len(done) == len(each),
            runs=names,
        )

    return Row(
        f"{name} setting: one setting gives the paper's steps at every size",
        measure,
        paper="one setting",
        source="Synthesizer paper, Table 1",
        criterion=Criterion(
            "at every size the mean of five seeds is within two of the paper's standard deviations",
            lambda found: found[0] == found[1],
            seeds=5,
        ),
    )


def draw(folder: Path, config: Config, runs: Runs) -> None:
    """Steps by size: the paper's, and ours for both settings."""
    with plot(folder / "sweep.png", title="steps to 100 %, random programs") as (axis,):
        known = [size for size in config["sizes"] if size in PAPER]
        if known:
            values = [PAPER[size] for size in known]
            axis.errorbar(known, [v[0] for v in values], [v[1] for v in values], label="paper", capsize=3)
        for name in ("nearest", "fastest"):
            found = {size: steps for size in config["sizes"] if (steps := _found(runs, name, size))}
            spread = [stdev(steps) if len(steps) > 1 else 0.0 for steps in found.values()]
            axis.errorbar(list(found), [mean(s) for s in found.values()], spread, label=name, capsize=3)
        axis.set(xlabel="programs", ylabel="steps", xscale="log", yscale="log")
        axis.legend(fontsize=7)


SWEEP = Experiment("synthesizer.sweep", SCALES, (trials, finals), train_models, rows, draw)
sweep = SWEEP.run
