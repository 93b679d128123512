"""ALTA, section 4.2: addition. Compiled, minimal, learned from traces, and learned end to end."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import kleene as kl
from kleene.checks.minimality import minimal
from kleene.library.addition import addition as program
from kleene.lowering.guarding import guarded_updates
from kleene.lowering.rule_machine import RuleMachine
from kleene.papers.alta_parity import percent
from kleene.papers.protocol import Config, Criterion, Experiment, Measured, Row, Runs
from kleene.papers.report import plot
from kleene.papers.tasks import Plan, Tasks, fast_device
from kleene.training.learn import learn_program

SHORT = 3  # digits in training
SCALES: dict[str, dict[str, Any]] = {  # `pairs`: how many of at most 3 digits (None: all); `each`: sums of each length
    "paper": {
        "pairs": None,
        "longest": 50,
        "each": 100,
        "seeds": [0, 1, 2],
        "trace": {"pairs": 20_000, "depth": 3, "width": 512, "batch": 512, "rate": 1e-3, "steps": 10_000},
        "end-to-end": {
            "pairs": 200_000,
            "layers": 8,
            "shared": True,
            "positions": "relative",
            "width": 512,
            "hidden": 2048,
            "heads": 6,
            "head_size": 64,
            "batch": 128,
            "rate": 5e-4,
            "steps": 20_000,
            "optimiser": "adafactor",
        },
    },
    "small": {
        "pairs": 20_000,
        "longest": 50,
        "each": 20,
        "seeds": [0],
        "trace": {"pairs": 5_000, "depth": 3, "width": 512, "batch": 512, "rate": 1e-3, "steps": 4_000},
        "end-to-end": {
            "pairs": 20_000,
            "layers": 3,
            "shared": False,
            "positions": "relative",
            "width": 64,
            "hidden": 256,
            "heads": 4,
            "head_size": 16,
            "batch": 64,
            "rate": 1e-3,
            "steps": 4_000,
            "optimiser": "adam",
        },
    },
    "tiny": {
        "pairs": 2_000,
        "longest": 12,
        "each": 4,
        "seeds": [0],
        "trace": {"pairs": 100, "depth": 1, "width": 32, "batch": 32, "rate": 1e-3, "steps": 20},
        "end-to-end": {
            "pairs": 100,
            "layers": 1,
            "shared": True,
            "positions": "relative",
            "width": 16,
            "hidden": 32,
            "heads": 2,
            "head_size": 8,
            "batch": 16,
            "rate": 1e-3,
            "steps": 20,
            "optimiser": "adam",
        },
    },
}
TITLES = {"trace": "learned from traces", "end-to-end": "learned end to end"}


def tasks(config: Config, data: Path | None, plan: Plan, runs: Runs) -> Tasks:
    """The compiled program, its minimal version, and the training runs."""
    sizes = {"longest": config["longest"], "each": config["each"]}
    found: dict[str, dict[str, Any]] = {
        "compiled": {"kind": "compiled", **sizes},
        "minimal": {"kind": "minimal", "pairs": config["pairs"], **sizes},
    }
    for kind in TITLES:
        for seed in config["seeds"]:
            steps = plan.step_count(config[kind]["steps"])
            found[f"{kind}-seed-{seed}"] = {"kind": kind, "seed": seed, **sizes, **config[kind], "steps": steps}
    return found


def work(kind: str, **arguments: Any) -> dict[str, Any]:
    """One task."""
    if kind == "compiled":
        return run_compiled(**arguments)
    return find_minimal(**arguments) if kind == "minimal" else learn_one(kind, **arguments)


# --- sums -------------------------------------------------------------------------------------------------


def short_sums(count: int | None, seed: int = 1) -> Iterator[str]:
    """Sums of two numbers of at most 3 digits: `pairs` random ones, or all.

    >>> sum(1 for _ in short_sums(None)), len(set(short_sums(10)))
    (1000000, 10)
    """
    if count is None:
        yield from (f"{a}+{b}" for a, b in product(range(10**SHORT), repeat=2))
        return
    chance = random.Random(seed)
    for _ in range(count):
        yield "+".join(str(chance.randrange(10 ** chance.randint(1, SHORT))) for _ in range(2))


def sums_by_digits(longest: int, each: int) -> dict[int, list[str]]:
    """Random sums of two numbers of exactly this many digits, and two that carry all the way."""
    chance = random.Random(2)
    lengths = sorted({*range(1, min(longest, 10) + 1), *range(10, longest + 1, 10), longest})
    return {
        digits: [f"{'9' * digits}+1", f"{'5' * digits}+{'5' * digits}"]
        + ["+".join(str(chance.randrange(10 ** (digits - 1), 10**digits)) for _ in range(2)) for _ in range(each - 2)]
        for digits in lengths
    }


def _added(text: str) -> str:
    a, b = text.split("+")
    return str(int(a) + int(b))


def rights(run_batch: Any, longest: int, each: int) -> dict[str, float]:
    """The share of sums that come out right, by the number of digits."""
    found = {}
    for digits, given in sums_by_digits(longest, each).items():
        outputs = run_batch([program.encode(text) for text in given])
        same = [program.decode(output) == _added(text) for output, text in zip(outputs, given)]
        found[str(digits)] = sum(same) / len(same)
    return found


# --- by analysis ------------------------------------------------------------------------------------------


def run_compiled(longest: int, each: int, folder: Path, deadline: float | None) -> dict[str, Any]:
    """The compiled network on sums of every length, and whether N digits take N + 2 layers."""
    net = kl.compile(program)
    layers: list[bool] = []

    def run(inputs: list[list[int]]) -> Any:
        outputs = net.run_batch(inputs, evaluator="sparse")
        layers.extend(output.layers == (len(tokens) - 3) // 2 + 2 for output, tokens in zip(outputs, inputs))
        return outputs

    return {"right": rights(run, longest, each), "sums": len(layers), "layers": all(layers)}


def find_minimal(pairs: int | None, longest: int, each: int, folder: Path, deadline: float | None) -> dict[str, Any]:
    """The minimal version from short sums, and what it makes of longer ones."""
    small = minimal(program, (program.encode(text) for text in short_sums(pairs)))
    right = rights(RuleMachine(guarded_updates(small)).run_batch, longest, each)
    return {"right": right, "rules": small.seen.rule_count, "all_rules": len(kl.rules(program))}


# --- by learning ------------------------------------------------------------------------------------------


def learn_one(
    kind: str,
    seed: int,
    longest: int,
    each: int,
    pairs: int,
    steps: int,
    folder: Path,
    deadline: float | None,
    **options: Any,
) -> dict[str, Any]:
    """One network, learned from sums of numbers of at most 3 digits; what it makes of longer ones."""
    inputs = [program.encode(text) for text in short_sums(pairs)]
    options |= {"optimiser": "adam"} if kind == "trace" else {"max_length": 2 * longest + 3}
    net = learn_program(
        program,
        inputs,
        supervision="trace" if kind == "trace" else "end-to-end",
        seed=seed,
        steps=steps,
        every=max(1, steps // 20),
        folder=folder,
        save_seconds=60,
        deadline=deadline,
        device=fast_device(),
        **options,
    )
    last = net.metrics[-1] if net.metrics else {"step": 0}
    right = rights(net.run_batch, longest, each)
    return {"right": right, **last, "metrics": net.metrics, "finished": last["step"] >= steps}


# --- rows -------------------------------------------------------------------------------------------------


def rows(config: Config) -> list[Row]:
    """The tasks: by analysis, then by learning."""
    longest = config["longest"]
    which = "all 1,000,000 pairs" if config["pairs"] is None else f"{config['pairs']:,} random pairs"
    right = Criterion("every sum tested is right", lambda share: share == 1.0, seeds=1, since="bcc79a0")

    def share(name: str, note: str) -> Any:
        def measure(runs: Runs) -> Measured | None:
            if name not in runs:
                return None
            found = runs[name]["right"].values()
            mean = sum(found) / len(found)
            return Measured(percent(mean), mean, 1, note=note, runs=(name,))

        return measure

    def layers(runs: Runs) -> Measured | None:
        held = runs.get("compiled", {}).get("layers")
        return None if held is None else Measured("N + 2" if held else "not N + 2", held, 1, runs=("compiled",))

    def count(runs: Runs) -> Measured | None:
        run = runs.get("minimal")
        note = f"definition 'published', from {which}; another program than the paper's, so another count"
        return None if run is None else Measured(f"{run['rules']:,} of {run['all_rules']:,}", note=note)

    stated = Criterion("every run takes N + 2 layers", bool, seeds=1, since="bcc79a0")
    return [
        Row(f"compiled, 1 to {longest} digits", share("compiled", "sparse evaluator"), "100 %", "ALTA, 4.2", right),
        Row("layers for N digits", layers, "N + 2", "ALTA, 4.2", stated),
        Row(
            f"rules of the minimal version, pairs of at most {SHORT} digits",
            count,
            "884 of 16,466",
            "measured by us from the public code, November 2026; the paper gives no count",
        ),
        Row(
            f"minimal version, 1 to {longest} digits",
            share("minimal", "on the rule machine"),
            "generalises to every length",
            "ALTA, 4.2",
            right,
        ),
        *(_learned_row(config, kind) for kind in TITLES),
    ]


def _learned_row(config: Config, kind: str) -> Row:
    """The paper does not train addition, so that there is no verdict."""
    longest = config["longest"]
    names = [f"{kind}-seed-{seed}" for seed in config["seeds"]]
    groups = ((1, SHORT), (SHORT + 1, 10), (11, longest))

    def measure(runs: Runs) -> Measured | None:
        found = [name for name in names if name in runs]
        if not found:
            return None
        each = []
        for name in found:
            right = {int(digits): share for digits, share in runs[name]["right"].items()}
            parts = [[share for digits, share in right.items() if low <= digits <= high] for low, high in groups]
            each.append([sum(part) / len(part) if part else 0.0 for part in parts])
        mean = [sum(values) / len(values) for values in zip(*each)]
        steps = ", ".join(f"{runs[name]['step']:,}" for name in found)
        note = f"{len(found)} seed{'s' * (len(found) > 1)}, {steps} steps, {config[kind]['pairs']:,} pairs in training"
        return Measured(" / ".join(map(percent, mean)), note=note + (". **not converged**" if mean[0] < 1 else ""))

    title = f"{TITLES[kind]}: ≤ {SHORT} / {SHORT + 1} to 10 / more digits, up to {longest}"
    return Row(title, measure, note="the paper does not train addition")


def draw(folder: Path, config: Config, runs: Runs) -> None:
    """The share right by digits."""
    with plot(folder / "addition.png", title=f"sums right, from {SHORT} digits in training") as (axis,):
        for name, run in runs.items():
            axis.plot(
                [int(digits) for digits in run["right"]], list(run["right"].values()), label=name, marker=".", lw=1
            )
        axis.axvline(SHORT + 0.5, color="black", lw=0.8, ls=":")
        axis.set(xlabel="digits", ylabel="right", ylim=(-0.05, 1.05))
        axis.legend(fontsize=7)


ADDITION = Experiment("alta.addition", SCALES, (tasks,), work, rows, draw)
