"""Calls on a Ray cluster, and folders on shared storage.

Each call is one Ray task. Ray starts a call again whose node died; its result comes back once. Checkpoints go to shared
storage when it is given (any address that fsspec knows), so that a call goes on where the dead node was.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from kleene.errors import InputError, NotSupported

Call = tuple[Callable[..., Any], tuple[Any, ...]]


@dataclass(frozen=True)
class Cluster:
    """Where tasks run.

    address: of a Ray cluster ("auto": the one this machine belongs to; "local": one started for this run).
    gpus: the share of a GPU that a task takes.
    cpus: how many CPU cores a task takes.
    retries: how often a task is started again whose node died.
    storage: where checkpoints are kept for other nodes, as fsspec names it ("/shared/kleene", "s3://bucket/kleene").
    """

    address: str = "auto"
    gpus: float = 0.0
    cpus: float = 1.0
    retries: int = 3
    storage: str | None = None


def cluster_of(given: Cluster | str | None) -> Cluster | None:
    """A cluster, given as such or by its address.

    >>> cluster_of("auto").address
    'auto'
    """
    return Cluster(given) if isinstance(given, str) else given


@contextmanager
def connected(cluster: Cluster) -> Iterator[Any]:
    """Ray, connected to the cluster while the block runs."""
    try:
        import ray
    except ImportError:
        raise NotSupported("--cluster needs the package ray; pip install 'kleene[cluster]'") from None
    if ray.is_initialized():
        yield ray
        return
    paths = os.pathsep.join(path for path in (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")) if path)
    variables = {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"}
    address = None if cluster.address == "local" else cluster.address
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, runtime_env={"env_vars": variables})
    except (ConnectionError, ValueError, RuntimeError) as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"--cluster {cluster.address}: no Ray cluster answers there ({said}); start one with `ray start --head`"
        ) from None
    try:
        yield ray
    finally:
        ray.shutdown()


def gather(cluster: Cluster, calls: Iterable[tuple[str, Call]]) -> Iterator[tuple[str, Any]]:
    """Run named calls on the cluster; each name with its result, as they arrive, every name once.

    The cluster takes calls one by one, so there may be more than fit into memory. A function that several
    calls share is sent once.
    """
    with connected(cluster) as ray:
        remote = ray.remote(
            num_cpus=cluster.cpus, num_gpus=cluster.gpus, max_retries=cluster.retries, retry_exceptions=False
        )(_call)
        waiting: dict[Any, str] = {}
        sent: dict[int, tuple[Any, Any]] = {}  # by id: a function, and where Ray has it
        coming = iter(calls)
        try:
            while True:
                for name, (function, arguments) in islice(coming, max(0, _most_waiting(ray, cluster) - len(waiting))):
                    if id(function) not in sent:
                        sent[id(function)] = function, ray.put(function)
                    waiting[remote.remote(sent[id(function)][1], arguments)] = name
                if not waiting:
                    return
                (done, *_), _ = ray.wait(list(waiting), num_returns=1)
                yield waiting.pop(done), _result(ray, done)
        finally:
            for reference in waiting:
                ray.cancel(reference, force=False)


def _most_waiting(ray: Any, cluster: Cluster) -> int:
    """The number of calls in flight: somewhat more than the cluster's cores."""
    cores = ray.cluster_resources().get("CPU", 0.0)
    return 8 + int(2 * cores / max(cluster.cpus, 0.1))


def _call(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    return function(*arguments)


def _result(ray: Any, reference: Any) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause if isinstance(error.cause, Exception) else error from None


def spread_map(cluster: Cluster, function: Callable[..., Any], parts: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Call `function` on each part, on the cluster. Results are in the order of the parts."""
    found = dict(gather(cluster, ((str(number), (function, part)) for number, part in enumerate(parts))))
    return [found[str(number)] for number in range(len(parts))]


def chunks(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Items in lists of at most `size`.

    >>> list(chunks("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    some: list[Any] = []
    for item in items:
        some.append(item)
        if len(some) == size:
            yield some
            some = []
    if some:
        yield some


# --- checkpoints on shared storage -------------------------------------------------------------------------


@contextmanager
def kept(folder: Path, shared: str | None, every: float = 5.0) -> Iterator[None]:
    """Copy the folder to shared storage while the block runs, and when it ends."""
    if shared is None:
        yield
        return
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(every):
            store(folder, shared)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
        store(folder, shared)


def store(folder: Path, address: str) -> None:
    """Copy the newest checkpoint and the metrics to shared storage; `newest.json` names them once they are whole."""
    import fsspec

    files, _ = fsspec.core.url_to_fs(address)
    checkpoints = sorted(folder.rglob("checkpoint-*[0-9]"))
    if not checkpoints:
        return
    newest, base = checkpoints[-1], address.rstrip("/")
    inside = newest.relative_to(folder).as_posix()
    try:
        tree = {path.name: path.read_bytes() for path in newest.iterdir()}
        metrics = newest.with_name("metrics.jsonl")
        lines = metrics.read_bytes() if metrics.exists() else b""
    except OSError:  # it was replaced by a newer one: the next round copies that
        return
    root = files._strip_protocol(base)
    for part, content in tree.items():
        files.makedirs(f"{root}/{inside}", exist_ok=True)
        files.pipe_file(f"{root}/{inside}/{part}", content)
    about = {"checkpoint": inside, "files": sorted(tree), "metrics": lines.decode("utf-8", "ignore")}
    files.pipe_file(f"{root}/newest.json.part", json.dumps(about).encode())
    files.mv(f"{root}/newest.json.part", f"{root}/newest.json")


def fetch(address: str, folder: Path) -> None:
    """Copy the newest whole checkpoint from shared storage, if there is one."""
    import fsspec

    files, root = fsspec.core.url_to_fs(address)
    if not files.exists(f"{root}/newest.json"):
        return
    about = json.loads(files.cat_file(f"{root}/newest.json"))
    inside = Path(about["checkpoint"])
    if inside.is_absolute() or ".." in inside.parts:
        raise InputError(f"{address}: its checkpoint {about['checkpoint']!r} is outside of the folder")
    at = folder / inside
    shutil.rmtree(at, ignore_errors=True)
    at.mkdir(parents=True)
    for part in about["files"]:
        (at / Path(part).name).write_bytes(files.cat_file(f"{root}/{inside.as_posix()}/{Path(part).name}"))
    (at.parent / "metrics.jsonl").write_text(about["metrics"], encoding="utf-8")
