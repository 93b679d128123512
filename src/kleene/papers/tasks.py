"""Independent tasks of an experiment: run in processes, each result kept as a file, so that a second run goes on."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from kleene.files import read_json, write_json


def run_tasks(
    work: Callable[..., dict[str, Any]],
    tasks: Mapping[str, Mapping[str, Any]],
    folder: Path,
    *,
    workers: int = 1,
    progress: bool = True,
    title: str = "tasks",
) -> dict[str, dict[str, Any]]:
    """`work(**arguments)` for each task by name; what it returns is written to `folder`/name.json as it arrives.

    Each result also has the `seconds` that it took.
    """
    from rich.console import Console
    from rich.progress import Progress

    found: dict[str, dict[str, Any]] = {}
    waiting = []
    for name, arguments in tasks.items():
        path, said = folder / f"{name}.json", _plain(arguments)
        saved = read_json(path) if path.exists() else {}
        if saved.get("arguments") == said:
            found[name] = saved["result"]
        else:
            waiting.append(name)
    with Progress(console=Console(stderr=True), transient=True, disable=not progress) as bar:
        task = bar.add_task(title, total=len(tasks), completed=len(found))
        for name, result in _results(work, {name: tasks[name] for name in waiting}, workers):
            write_json(folder / f"{name}.json", {"arguments": _plain(tasks[name]), "result": result})
            found[name] = result
            bar.advance(task)
    return {name: found[name] for name in tasks}


def timed(work: Callable[..., dict[str, Any]], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What the work returns, with the `seconds` that it took."""
    begin = time.monotonic()
    result = work(**arguments)
    return {**result, "seconds": round(time.monotonic() - begin, 1)}


def fast_device() -> str:
    """A GPU where there is one, with products in TF32."""
    import torch

    if not torch.cuda.is_available():
        return "cpu"
    torch.set_float32_matmul_precision("high")
    return "cuda"


def _plain(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as JSON has them; paths are left out, so that a folder may move."""
    import json

    return json.loads(json.dumps({k: v for k, v in arguments.items() if not isinstance(v, Path)}))


def _results(
    work: Callable[..., dict[str, Any]], tasks: Mapping[str, Mapping[str, Any]], workers: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    if workers <= 1 or len(tasks) <= 1:
        for name, arguments in tasks.items():
            yield name, timed(work, arguments)
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with ProcessPoolExecutor(min(workers, len(tasks)), mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(timed, work, arguments): name for name, arguments in tasks.items()}
        for done in as_completed(waiting):
            yield waiting[done], done.result()
