"""The training runs of an experiment: each result is kept as a file, so that a second run goes on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kleene.files import read_json, write_json


def run_tasks(
    work: Callable[..., dict[str, Any]],
    tasks: Mapping[str, Mapping[str, Any]],
    folder: Path,
    *,
    progress: bool = True,
    title: str = "tasks",
) -> dict[str, dict[str, Any]]:
    """`work(**arguments)` for each task by name; what it returns is written to `folder`/name.json as it arrives.

    Each result also has the `seconds` that it took. A file with other arguments is made again.
    """
    from rich.console import Console
    from rich.progress import Progress

    found: dict[str, dict[str, Any]] = {}
    with Progress(console=Console(stderr=True), transient=True, disable=not progress) as bar:
        task = bar.add_task(title, total=len(tasks))
        for name, arguments in tasks.items():
            path, said = folder / f"{name}.json", _plain(arguments)
            saved = read_json(path) if path.exists() else {}
            if saved.get("arguments") != said:
                begin = time.monotonic()
                result = work(**arguments)
                saved = {"arguments": said, "result": {**result, "seconds": round(time.monotonic() - begin, 1)}}
                write_json(path, saved)
            found[name] = saved["result"]
            bar.advance(task)
    return found


def fast_device() -> str:
    """A GPU where there is one, with products in TF32."""
    import torch

    if not torch.cuda.is_available():
        return "cpu"
    torch.set_float32_matmul_precision("high")
    return "cuda"


def _plain(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as JSON has them; paths are left out, so that a folder may move."""
    return json.loads(json.dumps({k: v for k, v in arguments.items() if not isinstance(v, Path)}))
