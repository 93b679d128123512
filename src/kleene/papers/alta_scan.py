"""ALTA, section 4.4 and appendix D.4: SCAN. Every command, on every evaluator, and minimal versions on the splits."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from kleene.checks.certificates import certify_transformer
from kleene.checks.minimality import all_rules, minimal
from kleene.compilers.program_to_transformer import compile_program
from kleene.errors import FileError
from kleene.library.scan import scan as program
from kleene.lowering.guarding import guarded_updates
from kleene.lowering.rule_machine import RuleMachine
from kleene.machines.scan_grammar import Pair, data_folder, length_split, pairs, published_split, published_tasks
from kleene.papers.protocol import Config, Criterion, Experiment, Measured, Row, Runs
from kleene.papers.tasks import Plan, Tasks, Work

# How many commands each evaluator runs (None: all), and how many the dense evaluator is compared on.
SCALES: dict[str, dict[str, Any]] = {
    "paper": {"interpreter": None, "commands": None, "dense": 200, "splits": ["length", "mcd1", "mcd2", "mcd3"]},
    "small": {"interpreter": 500, "commands": None, "dense": 50, "splits": ["length", "mcd1", "mcd2", "mcd3"]},
    "tiny": {"interpreter": 10, "commands": 100, "dense": 3, "splits": []},
}
CHUNK, GPU_CHUNK, THREADS, SEED = 400, 4096, 2, 0
SIZES = {  # measured by us from the public code; the paper gives no sizes but "fewer than 2,000" hidden units minimal
    "hidden": ("hidden units, full ranges", "70,792"),
    "heads": ("heads", "13"),
    "residual": ("residual dimensions", "2,014"),
    "parameters": ("parameters", "300 million"),
}

Runner = Callable[[Sequence[Sequence[int]]], list[Any]]


def _sample(commands: list[Pair], count: int | None) -> list[Pair]:
    return commands if count is None or count >= len(commands) else random.Random(SEED).sample(commands, count)


def tasks(config: Config, data: Path | None, plan: Plan, runs: Runs) -> Tasks:
    """What is looked at, one task each."""
    folder = None if data is None else Path(data)
    if folder is not None:
        published_tasks(folder)  # say what cannot be read before anything runs
    found: dict[str, dict[str, Any]] = {"commands": {"kind": "commands", "data": folder}, "sizes": {"kind": "sizes"}}
    counts = {"interpreter": config["interpreter"], "dense": config["dense"]}
    for name in ("interpreter", "rule-machine", "sparse", "dense"):
        count = counts.get(name, config["commands"])
        found[name] = {"kind": "run", "evaluator": name, "commands": config["commands"], "count": count}
    for split in config["splits"]:
        found[f"split-{split}"] = {"kind": "split", "split": split, "data": folder}
    return found


def dense_tasks(config: Config, data: Path | None, plan: Plan, runs: Runs) -> Tasks:
    """Commands on the network's dense evaluator: all of them at paper scale, which wants a GPU."""
    return {"dense": {"kind": "run", "evaluator": "dense", "commands": None, "count": config["dense"]}}


def work(kind: str, folder: Path, deadline: float | None, **arguments: Any) -> dict[str, Any]:
    """One task."""
    done: dict[str, Work] = {
        "commands": compare_commands,
        "sizes": measure_sizes,
        "run": run_commands,
        "split": run_split,
    }
    return done[kind](**arguments)


def compare_commands(data: Path | None) -> dict[str, Any]:
    """The grammar's commands, and whether they are the published ones."""
    commands = pairs()
    try:
        data_folder(data)
    except FileError:
        return {"count": len(commands), "same": None}
    return {"count": len(commands), "same": sorted(published_tasks(data)) == sorted(commands)}


def measure_sizes() -> dict[str, Any]:
    """The compiled network's sizes, and its certificate."""
    network = compile_program(program)
    return {
        **{name: getattr(network.sizes, name) for name in SIZES},
        "nonzero": network.sizes.nonzero,
        "rules": len(all_rules(program)),
        "certified": certify_transformer(network).holds,
        "dtype": str(network.dtype).removeprefix("torch."),
    }


def _interpret(inputs: Sequence[Sequence[int]]) -> list[Any]:
    return [program.run(tokens) for tokens in inputs]


def run_commands(evaluator: str, commands: int | None, count: int | None) -> dict[str, Any]:
    """How many commands an evaluator gets right, and the layers they take."""
    given = _sample(_sample(pairs(), commands), count)
    if evaluator == "interpreter":
        workers = ProcessPoolExecutor(os.cpu_count() or 1, mp_context=get_context("spawn"))
        right, layers, seconds = _run(_interpret, given, workers, chunk_size=50)
    elif evaluator == "rule-machine":
        right, layers, seconds = _run(RuleMachine(guarded_updates(program)).run_batch, given)
    else:
        network: Any = compile_program(program)
        if evaluator == "dense" and torch.cuda.is_available():
            network = network.to("cuda")
        run: Runner = lambda inputs: network.run_batch(inputs, evaluator=evaluator)  # noqa: E731
        run([program.encode("jump")])  # weights are prepared once
        size = GPU_CHUNK if network.device.type == "cuda" else CHUNK
        right, layers, seconds = _run(run, given, ThreadPoolExecutor(THREADS), size)
    return {
        "right": right,
        "commands": len(given),
        "layers_mean": sum(layers) / len(layers),
        "layers_most": max(layers),
        "took": round(seconds, 1),
    }


def _run(
    run: Runner,
    commands: list[Pair],
    workers: Executor | None = None,
    chunk_size: int = CHUNK,
) -> tuple[int, list[int], float]:
    """How many commands a runner gets right, the layers of each, and the seconds it took."""
    ordered = sorted(commands, key=lambda pair: len(program.encode(pair[0])))  # little padding
    chunks = [ordered[start : start + chunk_size] for start in range(0, len(ordered), chunk_size)]
    right, layers, start = 0, [], time.perf_counter()
    with workers or ThreadPoolExecutor(1) as pool:
        inputs = ([program.encode(command) for command, _ in chunk] for chunk in chunks)
        for chunk, outputs in zip(chunks, pool.map(run, inputs)):
            right += sum(program.decode(output) == actions for output, (_, actions) in zip(outputs, chunk))
            layers += [output.layers for output in outputs]
    return right, layers, time.perf_counter() - start


def run_split(split: str, data: Path | None) -> dict[str, Any]:
    """The minimal version from a split's training set, on its test set."""
    try:
        train, test = published_split(split, data)
    except FileError:
        if split != "length":
            return {"missing": True}
        train, test = length_split()
    small = minimal(program, [program.encode(command) for command, _ in train])
    right, _, _ = _run(RuleMachine(guarded_updates(small)).run_batch, test)
    return {
        "right": right,
        "commands": len(test),
        "train": len(train),
        "rules": small.seen.rule_count,
        "hidden": compile_program(small).sizes.hidden,
    }


# --- rows -------------------------------------------------------------------------------------------------

ALL_RIGHT = Criterion("every command run is right", lambda found: found[0] == found[1], seeds=1, since="36b57a3")
NAMES = {
    "interpreter": "interpreter",
    "rule-machine": "rule machine",
    "sparse": "network, sparse evaluator",
    "dense": "network, dense evaluator",
}


def rows(config: Config) -> list[Row]:
    """Data and sizes, all commands on every evaluator, and minimal versions on the splits."""
    found = [_commands_row(), *(_size_row(name) for name in SIZES), _rules_row(), _certificate_row()]
    found += [_run_row(name) for name in NAMES]
    found += [_layers_row("layers_mean", "layers, mean", "168.6"), _layers_row("layers_most", "layers, most", "408")]
    return found + [row for split in config["splits"] for row in _split_rows(split)]


def _commands_row() -> Row:
    def measure(runs: Runs) -> Measured | None:
        run = runs.get("commands")
        if run is None:
            return None
        note = "no data folder: not compared" if run["same"] is None else "compared with tasks.txt as a set"
        return Measured(f"{run['count']:,}", run["same"], 1, note=note, runs=("commands",))

    criterion = Criterion("the same commands as tasks.txt", bool, seeds=1, since="36b57a3")
    return Row("commands from the grammar", measure, "20,910", "SCAN, tasks.txt", criterion)


OURS = "measured by us from the public code, November 2026"


def _size_row(name: str) -> Row:
    def measure(runs: Runs) -> Measured | None:
        run = runs.get("sizes")
        note = f"{run['nonzero']:,} are not zero" if run is not None and name == "parameters" else ""
        return None if run is None else Measured(f"{run[name]:,}", note=note)

    return Row(SIZES[name][0], measure, SIZES[name][1], OURS)


def _rules_row() -> Row:
    def measure(runs: Runs) -> Measured | None:
        return Measured(f"{runs['sizes']['rules']:,}") if "sizes" in runs else None

    return Row("transition rules, full ranges", measure, "70,792", OURS, note='one unit each with lowering="rules"')


def _certificate_row() -> Row:
    def measure(runs: Runs) -> Measured | None:
        run = runs.get("sizes")
        return None if run is None else Measured(f"{'yes' if run['certified'] else 'no'}, in {run['dtype']}")

    return Row("certified exact", measure)


def _run_row(name: str) -> Row:
    def measure(runs: Runs) -> Measured | None:
        run = runs.get(name)
        if run is None:
            return None
        text = f"{run['right']:,} of {run['commands']:,} ({100 * run['right'] / run['commands']:.2f} %)"
        note = f"{run['took']:.0f} s, {run['device']}"
        return Measured(text, (run["right"], run["commands"]), 1, note=note, runs=(name,))

    return Row(f"accuracy, {NAMES[name]}", measure, "100 %", "ALTA, section 4.4", ALL_RIGHT)


def _layers_row(key: str, title: str, theirs: str) -> Row:
    def measure(runs: Runs) -> Measured | None:
        return Measured(f"{runs['rule-machine'][key]:.1f}") if "rule-machine" in runs else None

    return Row(title, measure, theirs, OURS, note="another program; the paper's text says fewer than 512")


def _split_rows(split: str) -> list[Row]:
    name = f"split-{split}"

    def right(runs: Runs) -> Measured | None:
        run = runs.get(name)
        if run is None or run.get("missing"):
            return None
        note = f"definition 'published', from {run['train']:,} training commands; on the rule machine"
        text = f"{run['right']:,} of {run['commands']:,}"
        return Measured(text, (run["right"], run["commands"]), 1, note=note, runs=(name,))

    def count(runs: Runs) -> Measured | None:
        run = runs.get(name)
        if run is None or run.get("missing"):
            return None
        note = f"with those that clear heads; its network has {run['hidden']:,} hidden units; another program"
        return Measured(f"{run['rules']:,}", note=note)

    return [
        Row(f"minimal version, {split}: test set", right, "100 %", "ALTA, section 4.4", ALL_RIGHT),
        Row(f"minimal version, {split}: rules", count, "fewer than 2,000", "ALTA, section 4.4"),
    ]


def dense_rows(config: Config) -> list[Row]:
    """The dense evaluator alone."""
    return [_run_row("dense")]


SCAN = Experiment("alta.scan", SCALES, (tasks,), work, rows)
DENSE_SCALES: dict[str, dict[str, Any]] = {"paper": {"dense": None}, "small": {"dense": 50}, "tiny": {"dense": 3}}
SCAN_DENSE = Experiment("alta.scan-dense", DENSE_SCALES, (dense_tasks,), work, dense_rows)
