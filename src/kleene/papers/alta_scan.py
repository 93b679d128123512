"""ALTA, section 4.4 and appendix D.4: SCAN. Every command, on every evaluator, and minimal versions on the splits."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
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
from kleene.papers.report import Result
from kleene.papers.tasks import at_scale

# How many commands each evaluator runs (None: all), and how many the dense evaluator is compared on.
SCALES: dict[str, dict[str, Any]] = {
    "paper": {"interpreter": None, "commands": None, "dense": 200, "splits": ["length", "mcd1", "mcd2", "mcd3"]},
    "small": {"interpreter": 500, "commands": None, "dense": 50, "splits": ["length", "mcd1", "mcd2", "mcd3"]},
    "tiny": {"interpreter": 10, "commands": 100, "dense": 3, "splits": []},
}
CHUNK, GPU_CHUNK, THREADS, SEED = 400, 4096, 2, 0
PAPER = {"hidden": "70,792", "heads": "13", "residual": "2,014", "parameters": "300 million"}

Runner = Callable[[Sequence[Sequence[int]]], list[Any]]


def scan(
    scale: str = "small",
    data: Path | None = None,
    folder: Path | str = "results/alta.scan",
    progress: bool = True,
) -> Result:
    """Run all commands, measure the network, and test minimal versions on the published splits."""
    config = at_scale(SCALES, scale)
    result = Result("alta.scan", Path(folder), {"scale": scale, "seed": SEED, **config})
    commands = pairs()
    _data_rows(result, commands, data)
    chosen = _sample(commands, config["commands"])
    network = _size_rows(result)
    _interpreter_row(result, _sample(chosen, config["interpreter"]), progress)
    _rule_machine_rows(result, chosen, progress)
    _network_row(result, network, chosen, progress)
    _dense_row(result, network, _sample(chosen, config["dense"]), progress)
    for name in config["splits"]:
        _split_row(result, name, data, progress)
    result.write()
    return result


def scan_dense(
    scale: str = "small",
    data: Path | None = None,
    folder: Path | str = "results/alta.scan-dense",
    progress: bool = True,
) -> Result:
    """Run commands on the network's dense evaluator: all of them at paper scale, which wants a GPU."""
    count = None if scale == "paper" else at_scale(SCALES, scale)["dense"]
    result = Result("alta.scan-dense", Path(folder), {"scale": scale, "seed": SEED, "commands": count})
    network = compile_program(program)
    if torch.cuda.is_available():
        network = network.to("cuda")
    _dense_row(result, network, _sample(pairs(), count), progress, "the published one would need about 40 days")
    result.write()
    return result


def _sample(commands: list[Pair], count: int | None) -> list[Pair]:
    return commands if count is None or count >= len(commands) else random.Random(SEED).sample(commands, count)


def _data_rows(result: Result, commands: list[Pair], data: Path | None) -> None:
    same: bool | None
    try:
        data_folder(data)
    except FileError:
        same, note = None, "no data folder: not compared with tasks.txt"
    else:
        same, note = sorted(published_tasks(data)) == sorted(commands), "equal as a set to the published tasks.txt"
    result.row("commands from the grammar", "20,910", f"{len(commands):,}", note, same)


# --- sizes ------------------------------------------------------------------------------------------------


def _size_rows(result: Result) -> Any:
    network = compile_program(program)
    for name, paper in PAPER.items():
        note = {"hidden": "full declared ranges", "parameters": f"{network.sizes.nonzero:,} are not zero"}.get(name, "")
        label = {"hidden": "hidden units", "residual": "residual dimensions"}.get(name, name)
        result.row(label, paper, f"{getattr(network.sizes, name):,}", note)
    count = f"{len(all_rules(program)):,}"
    result.row("transition rules, full ranges", "70,792", count, 'one unit each with lowering="rules"')
    certificate = certify_transformer(network)
    dtype = str(network.dtype).removeprefix("torch.")
    result.row(f"certified exact in {dtype}", "—", "yes" if certificate.holds else "no", holds=certificate.holds)
    return network


# --- all commands -----------------------------------------------------------------------------------------


@contextmanager
def _bar(doing: str, total: int, progress: bool) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not progress or not console.is_terminal) as bar:
        task = bar.add_task(doing, total=total)
        yield lambda count: bar.advance(task, count)


def _run(
    doing: str,
    run: Runner,
    commands: list[Pair],
    progress: bool,
    workers: Executor | None = None,
    chunk_size: int = CHUNK,
) -> tuple[int, list[int], float]:
    """How many commands a runner gets right, the layers of each, and the seconds it took."""
    ordered = sorted(commands, key=lambda pair: len(program.encode(pair[0])))  # little padding
    chunks = [ordered[start : start + chunk_size] for start in range(0, len(ordered), chunk_size)]
    right, layers, start = 0, [], time.perf_counter()
    with _bar(doing, len(ordered), progress) as advance, workers or ThreadPoolExecutor(1) as pool:
        inputs = ([program.encode(command) for command, _ in chunk] for chunk in chunks)
        for chunk, outputs in zip(chunks, pool.map(run, inputs)):
            right += sum(program.decode(output) == actions for output, (_, actions) in zip(outputs, chunk))
            layers += [output.layers for output in outputs]
            advance(len(chunk))
    return right, layers, time.perf_counter() - start


def _accuracy(right: int, total: int) -> str:
    return f"{right:,} of {total:,} ({100 * right / total:.2f} %)"


def _interpret(inputs: Sequence[Sequence[int]]) -> list[Any]:
    return [program.run(tokens) for tokens in inputs]


def _interpreter_row(result: Result, commands: list[Pair], progress: bool) -> None:
    processes = os.cpu_count() or 1
    workers = ProcessPoolExecutor(processes, mp_context=get_context("spawn"))
    right, _, seconds = _run("interpreter", _interpret, commands, progress, workers, chunk_size=50)
    note = f"{seconds:.0f} s, {processes} processes; the published one would need about 14 hours for all"
    result.row("accuracy, interpreter", "100 %", _accuracy(right, len(commands)), note, right == len(commands))


def _rule_machine_rows(result: Result, commands: list[Pair], progress: bool) -> None:
    machine = RuleMachine(guarded_updates(program))
    right, layers, seconds = _run("rule machine", machine.run_batch, commands, progress)
    result.row(
        "accuracy, rule machine", "100 %", _accuracy(right, len(commands)), f"{seconds:.0f} s", right == len(commands)
    )
    mean, most = sum(layers) / len(layers), max(layers)
    result.row("layers, mean", "168.6", f"{mean:.1f}", "", mean <= 168.6)
    result.row("layers, most", "408", f"{most}", "the paper's text says fewer than 512", most <= 408)
    result.metrics |= {"layers_mean": mean, "layers_max": most, "rule_machine_seconds": seconds}


def _network_row(result: Result, network: Any, commands: list[Pair], progress: bool) -> None:
    run: Runner = lambda inputs: network.run_batch(inputs, evaluator="sparse")  # noqa: E731
    run([program.encode("jump")])  # weights are prepared once
    right, _, seconds = _run("network, sparse", run, commands, progress, ThreadPoolExecutor(THREADS))
    note = f"{seconds:.0f} s, {THREADS} threads; the published one would need about 40 days"
    result.row(
        "accuracy, network (sparse, cpu)", "100 %", _accuracy(right, len(commands)), note, right == len(commands)
    )
    result.metrics |= {"network_seconds": seconds, "network_evaluator": "sparse"}


def _dense_row(result: Result, network: Any, commands: list[Pair], progress: bool, note: str = "a sample") -> None:
    run: Runner = lambda inputs: network.run_batch(inputs, evaluator="dense")  # noqa: E731
    size = GPU_CHUNK if network.device.type == "cuda" else CHUNK
    right, _, seconds = _run("network, dense", run, commands, progress, chunk_size=size)
    result.row(
        f"accuracy, network (dense, {network.device.type})",
        "100 %",
        _accuracy(right, len(commands)),
        f"{seconds:.0f} s; {note}",
        right == len(commands),
    )
    result.metrics |= {"dense_seconds": seconds}


# --- minimal versions -------------------------------------------------------------------------------------


def _split_row(result: Result, name: str, data: Path | None, progress: bool) -> None:
    try:
        train, test = published_split(name, data)
    except FileError as error:
        if name != "length":
            result.row(f"minimal version, {name}", "100 %", "not run", str(error))
            return
        train, test = length_split()
    with _bar(f"minimal version, {name}", 1, progress):
        small = minimal(program, [program.encode(command) for command, _ in train])
    right, _, _ = _run(f"test set, {name}", RuleMachine(guarded_updates(small)).run_batch, test, progress)
    note = f"definition 'published', from {len(train):,} training commands; on the rule machine"
    result.row(f"minimal version, {name}: test set", "100 %", _accuracy(right, len(test)), note, right == len(test))
    count = small.seen.rule_count
    hidden = compile_program(small).sizes.hidden
    result.row(
        f"minimal version, {name}: rules",
        "fewer than 2,000",
        f"{count:,}",
        f"with those that clear heads; its network has {hidden:,} hidden units",
        count < 2_000,
    )
