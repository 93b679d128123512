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
from kleene.papers.report import Result, plot
from kleene.papers.tasks import Plan, at_scale, fast_device, train_all
from kleene.training.end_to_end import learn_end_to_end
from kleene.training.from_traces import learn_from_traces

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


def addition(
    scale: str = "small",
    data: Path | None = None,
    folder: Path | str = "results/alta.addition",
    progress: bool = True,
    plan: Plan | None = None,
) -> Result:
    """What a transformer that has seen sums of numbers of at most 3 digits makes of longer ones, four ways."""
    config, plan = at_scale(SCALES, scale), plan or Plan()
    result = Result("alta.addition", Path(folder), {"scale": scale, "digits": SHORT, **config})
    tasks = {
        f"{kind}-seed-{seed}": {
            "kind": kind,
            "seed": seed,
            "longest": config["longest"],
            "each": config["each"],
            **config[kind],
            "steps": plan.step_count(config[kind]["steps"]),
        }
        for kind in TITLES
        for seed in config["seeds"]
    }
    train_all(result, learn_one, tasks, scale, plan, progress)
    curves = {"compiled": _compiled(result, config), "minimal version": _minimal(result, config)}
    for kind, title in TITLES.items():
        names = [name for seed in config["seeds"] if (name := f"{kind}-seed-{seed}") in result.runs]
        _learned(result, kind, names, config)
        curves |= {f"{title}, seed {name.rpartition('-')[2]}": result.runs[name]["right"] for name in names}
    _draw(result, curves)
    result.write()
    return result


# --- sums -------------------------------------------------------------------------------------------------


def short_sums(count: int | None, seed: int = 1) -> Iterator[str]:
    """Sums of two numbers of at most 3 digits: so many random ones, or all.

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
    """Random sums of two numbers of exactly so many digits, and two that carry all the way."""
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


def _compiled(result: Result, config: dict[str, Any]) -> dict[str, float]:
    net = kl.compile(program)
    layers: list[bool] = []

    def run(inputs: list[list[int]]) -> Any:
        outputs = net.run_batch(inputs, evaluator="sparse")
        layers.extend(output.layers == (len(tokens) - 3) // 2 + 2 for output, tokens in zip(outputs, inputs))
        return outputs

    right = rights(run, config["longest"], config["each"])
    mean = sum(right.values()) / len(right)
    result.row(
        f"compiled, 1 to {config['longest']} digits",
        "100 %",
        percent(mean),
        f"{len(layers):,} sums, sparse evaluator",
        mean == 1.0,
    )
    result.row("layers for N digits", "N + 2", "N + 2" if all(layers) else "not N + 2", "", all(layers))
    return right


def _minimal(result: Result, config: dict[str, Any]) -> dict[str, float]:
    small = minimal(program, (program.encode(text) for text in short_sums(config["pairs"])))
    count = small.seen.rule_count
    which = "all 1,000,000 pairs" if config["pairs"] is None else f"{config['pairs']:,} random pairs"
    result.row(
        f"rules of the minimal version, pairs of at most {SHORT} digits",
        "884",
        f"{count:,}",
        f"of {len(kl.rules(program)):,}; definition 'published', from {which}",
        count <= 884,
    )
    right = rights(RuleMachine(guarded_updates(small)).run_batch, config["longest"], config["each"])
    mean = sum(right.values()) / len(right)
    result.row(
        f"minimal version, 1 to {config['longest']} digits",
        "generalises to every length",
        percent(mean),
        "on the rule machine",
        mean == 1.0,
    )
    return right


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
    learn: Any = learn_end_to_end
    if kind == "trace":
        learn = learn_from_traces
        options["optimiser"] = "adam"
    else:
        options["max_length"] = 2 * longest + 3
    net = learn(
        program,
        inputs,
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
    return {"right": rights(net.run_batch, longest, each), **last, "finished": last["step"] >= steps}


def _learned(result: Result, kind: str, names: list[str], config: dict[str, Any]) -> None:
    longest = config["longest"]
    title = f"{TITLES[kind]}: ≤ {SHORT} / {SHORT + 1} to 10 / more digits, up to {longest}"
    paper = "—"
    if not names:
        result.row(title, paper, "not run")
        return
    groups = ((1, SHORT), (SHORT + 1, 10), (11, longest))
    each = []
    for name in names:
        right = {int(digits): share for digits, share in result.runs[name]["right"].items()}
        parts = [[share for digits, share in right.items() if low <= digits <= high] for low, high in groups]
        each.append([sum(part) / len(part) if part else 0.0 for part in parts])
    mean = [sum(values) / len(values) for values in zip(*each)]
    steps = ", ".join(f"{result.runs[name]['step']:,}" for name in names)
    notes = [f"{len(names)} seed{'s' * (len(names) > 1)}, {steps} steps, {config[kind]['pairs']:,} pairs in training"]
    if kind == "trace":
        notes.append("the paper does not train addition; the minimal version generalises, so this should")
    if mean[0] < 1:
        notes.append("**not converged**")
    holds = mean == [1.0, 1.0, 1.0] if kind == "trace" else mean[2] < mean[0]
    result.row(title, paper, " / ".join(map(percent, mean)), ". ".join(notes), holds)


def _draw(result: Result, curves: dict[str, dict[str, float]]) -> None:
    with plot(result.folder / "addition.png", title=f"sums right, from {SHORT} digits in training") as (axis,):
        for label, right in curves.items():
            axis.plot([int(digits) for digits in right], list(right.values()), label=label, marker=".", lw=1)
        axis.axvline(SHORT + 0.5, color="black", lw=0.8, ls=":")
        axis.set(xlabel="digits", ylabel="right", ylim=(-0.05, 1.05))
        axis.legend(fontsize=7)
