"""The training runs of an experiment: each result is kept as a file, so that a second run goes on."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from kleene.common.cluster import Call, Cluster, fetch, gather, kept
from kleene.errors import InputError, KleeneError
from kleene.files import read_json, write_json
from kleene.papers.provenance import changed_code, commit, loaded_code
from kleene.papers.report import device

Work = Callable[..., dict[str, Any]]
Tasks = Mapping[str, Mapping[str, Any]]
SHOWN = ("loss", "accuracy", "test")  # metrics beside a task's bar
MEANING = ("library/", "machines/", "lowering/")  # what programs say and mean: a result of another program is none


@dataclass(frozen=True)
class Plan:
    """The part of an experiment to run now: `only` tasks by pattern, for `limit` seconds, with `workers` processes.

    Workers are processes; without a number there are as many as cores on a CPU, and one on a GPU. `steps` stands
    in for every task's own number of steps. With a `cluster` the tasks run there instead. `together` does the tasks of
    a group in one training run, where an experiment can.
    """

    only: tuple[str, ...] = ()
    limit: float | None = None
    workers: int | None = None
    steps: int | None = None
    cluster: Cluster | None = None
    together: bool = False
    begun: float = field(default_factory=time.monotonic)

    @property
    def deadline(self) -> float | None:
        return None if self.limit is None else self.begun + self.limit

    @property
    def late(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline

    def chosen(self, tasks: Iterable[str], default: Iterable[str] | None = None) -> list[str]:
        """The names to run: those that match, or by default all (or those given).

        >>> Plan(only=("*-8",)).chosen(["a-8", "a-40", "b-8"])
        ['a-8', 'b-8']
        """
        names = list(tasks)
        if not self.only:
            wanted = set(names if default is None else default)
            return [name for name in names if name in wanted]
        for pattern in filter(None, self.only):
            if not any(fnmatchcase(name, pattern) for name in names):
                raise InputError(f"--only {pattern!r}: no task has such a name; the tasks: {', '.join(names)}")
        return [name for name in names if any(fnmatchcase(name, pattern) for pattern in self.only)]

    def of(self, tasks: Iterable[str]) -> Plan:
        """The same plan for one of several stages: with the patterns that name tasks of it."""
        names = list(tasks)
        mine = tuple(p for p in self.only if any(fnmatchcase(name, p) for name in names))
        return replace(self, only=mine or ("",) if self.only else ())

    def check_named(self, tasks: Iterable[str]) -> None:
        """Refuse a pattern that names no task of any stage."""
        self.chosen(tasks)

    def step_count(self, steps: int) -> int:
        return steps if self.steps is None else self.steps


@dataclass(frozen=True)
class Together:
    """How the tasks of an experiment can be done side by side.

    group: a task's group, from its arguments; tasks of one group are done together.
    work: `work(tasks, folder=…, deadline=…)` does a group, and returns each task's result by its name.
    """

    group: Callable[[Mapping[str, Any]], str | None]
    work: Callable[..., dict[str, dict[str, Any]]]


def at_scale(scales: Mapping[str, dict[str, Any]], scale: str) -> dict[str, Any]:
    """The settings of a scale, by name."""
    if scale not in scales:
        raise InputError(f"scale {scale!r}: unknown; choose one of {', '.join(scales)}")
    return scales[scale]


def run_tasks(
    work: Work,
    tasks: Tasks,
    folder: Path,
    *,
    plan: Plan,
    default: Iterable[str] | None = None,
    progress: bool = True,
    title: str = "tasks",
    declared: tuple[str, ...] = (),
    together: Together | None = None,
) -> dict[str, dict[str, Any]]:
    """`work(**arguments)` for each task by name; what it returns is written to `folder`/name.json as it arrives.

    Each result also has the `seconds` that it took, the `device`, the `commit` (with a plus where the tree differed
    from it), the `code` that was loaded, with fingerprints, and the digests of the `criteria` that were `declared`. A
    file with other arguments is made again; where they differ in `steps` alone, a longer run is reused for a shorter
    request, and a shorter one goes on. Work is also given `folder` (for its checkpoints) and `deadline`, and may say
    that it has not `finished`; then the next call goes on with it. Tasks that have no
    result yet are missing in what comes back.
    """
    names = plan.chosen(tasks, default)
    saved = {name: _saved(folder, name, tasks[name]) for name in tasks}
    open_ = [name for name in names if not saved[name].get("finished")]
    jobs = {name: Job(work, name, {name: dict(tasks[name])}, folder, plan, declared) for name in open_}
    if plan.together and together is not None and plan.cluster is None:
        jobs = _grouped(jobs, together)
    steps = {label: next(iter(job.tasks.values())).get("steps") for label, job in jobs.items()}
    with _bars(title, folder, steps, progress) as started:
        if plan.cluster is not None:
            _run_on_cluster(plan, jobs, saved, started)
        elif (workers := _workers(plan, len(jobs))) == 1:
            for label, job in jobs.items():
                if not plan.late:
                    started(label)
                    saved |= _run(job)
        else:
            _run_apart(jobs, workers, saved, started)
    return {name: entry["result"] for name, entry in saved.items() if entry}


@dataclass(frozen=True)
class Job:
    """What one process does in one go: a task, or with `together` a group of them, and where it is kept."""

    work: Work
    label: str
    tasks: dict[str, dict[str, Any]]
    folder: Path
    plan: Plan
    declared: tuple[str, ...]
    together: bool = False


def _grouped(jobs: Mapping[str, Job], together: Together) -> dict[str, Job]:
    """The same work with the tasks of a group in one job, which has the group's name."""
    made: dict[str, Job] = {}
    for name, job in jobs.items():
        group = together.group(job.tasks[name])
        if group is None:
            made[name] = job
        else:
            tasks = made[group].tasks if group in made else {}
            made[group] = replace(job, work=together.work, label=group, tasks=tasks | job.tasks, together=True)
    return made


def _workers(plan: Plan, jobs: int) -> int:
    if plan.workers is not None:
        return max(1, min(plan.workers, jobs))
    return 1 if fast_device() == "cuda" else max(1, min(os.cpu_count() or 1, jobs))


def _run_apart(
    jobs: Mapping[str, Job], workers: int, saved: dict[str, dict[str, Any]], started: Callable[[str], None]
) -> None:
    """Run jobs in processes of their own, each with one thread."""
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_alone) as pool:
        futures: list[Future[dict[str, dict[str, Any]]]] = []
        for label, job in jobs.items():
            futures.append(pool.submit(_run, job))
            started(label)
        try:
            for future in futures:
                saved |= future.result()
        except BrokenProcessPool:
            raise KleeneError(
                f"{', '.join(jobs)}: a training process was killed, or had too little memory; "
                "the same command continues from the checkpoints"
            ) from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # running tasks end and are kept; no new task begins
            raise


def _run_on_cluster(
    plan: Plan, jobs: Mapping[str, Job], saved: dict[str, dict[str, Any]], started: Callable[[str], None]
) -> None:
    """Run jobs on a cluster. Only this process writes results, one for each task, as they arrive."""
    assert plan.cluster is not None
    if plan.late:
        return
    limit = None if plan.deadline is None else plan.deadline - time.monotonic()
    calls: dict[str, Call] = {}
    for name, job in jobs.items():
        calls[name] = (run_remotely, (job.work, name, job.tasks[name], limit, plan.cluster.storage))
        started(name)
    for name, (result, origin) in gather(plan.cluster, calls.items()):
        saved[name] = _keep(jobs[name], name, saved[name], result, origin)


def run_remotely(
    work: Work, name: str, arguments: dict[str, Any], limit: float | None, storage: str | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Do a task on a worker in a folder of its own; return its result, and where it came from."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kleene-") as made:
        folder = Path(made) / name
        shared = None if storage is None else f"{storage.rstrip('/')}/{name}"
        if shared is not None:
            fetch(shared, folder)
        with kept(folder, shared):
            result = work(**arguments, folder=folder, deadline=None if limit is None else begin + limit)
    seconds = round(time.monotonic() - begin, 1)
    return result, {"seconds": seconds, "device": device(), "commit": commit(), "code": loaded_code()}


def _alone() -> None:
    """Set up a worker: one thread, and an end when its parent is gone."""
    import torch

    torch.set_num_threads(1)
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _run(job: Job) -> dict[str, dict[str, Any]]:
    """Do a job, unless it is too late; what is kept of its tasks, by name."""
    from kleene.training.loop import spent

    saved = {name: _saved(job.folder, name, arguments) for name, arguments in job.tasks.items()}
    if job.plan.late:
        return saved
    at = job.folder / job.label
    if not any(saved.values()) and any(_of_another(job, name) for name in job.tasks):
        shutil.rmtree(at, ignore_errors=True)
    begin, before = time.monotonic(), spent(at)
    if job.together:
        results = job.work(job.tasks, folder=at, deadline=job.plan.deadline)
    else:
        results = {job.label: job.work(**job.tasks[job.label], folder=at, deadline=job.plan.deadline)}
    known = sum(entry["result"]["seconds"] for entry in saved.values() if entry)
    spent_in_all = max(before, known) + time.monotonic() - begin  # `before` also counts a run that was killed
    seconds = round(spent_in_all / len(results), 1)
    origin = {"seconds": seconds, "device": device(), "commit": commit(), "code": loaded_code()}
    return {name: _keep(job, name, saved[name], result, origin) for name, result in results.items()}


def _of_another(job: Job, name: str) -> bool:
    """Whether checkpoints may be of another task: of other arguments, or of code that gave them another meaning.

    What is trained together says itself what it learns from, so that it goes on when only code has changed.
    """
    path = job.folder / f"{name}.json"
    return path.exists() and not (job.together and _without_steps(path) == _plain(job.tasks[name]) | {"steps": None})


def _without_steps(path: Path) -> dict[str, Any]:
    arguments: dict[str, Any] = read_json(path)["arguments"]
    return arguments | {"steps": None}


def _keep(
    job: Job, name: str, saved: Mapping[str, Any], result: dict[str, Any], origin: Mapping[str, Any]
) -> dict[str, Any]:
    """Write what a task made, with where it came from."""
    finished = bool(result.pop("finished", True))
    criteria = [d for d in job.declared if not saved or d in saved["result"].get("criteria", ())]
    made = {**result, **origin, "criteria": criteria}
    entry = {"arguments": _plain(job.tasks[name]), "finished": finished, "result": made}
    write_json(job.folder / f"{name}.json", entry, indent=None)
    return entry


def _saved(folder: Path, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The saved part of a task, and whether it is complete."""
    path = folder / f"{name}.json"
    if not path.exists():
        return {}
    saved: dict[str, Any] = read_json(path)
    new, code = _plain(arguments), saved["result"].get("code", {})
    if changed_code({file: known for file, known in code.items() if file.startswith(MEANING)}):
        return {}
    old = dict(saved["arguments"])
    made, asked = old.pop("steps", None), new.pop("steps", None)
    if old != new:
        return {}
    if made and asked:
        step = saved["result"].get("step", made)
        saved["finished"] = step >= asked or (saved["finished"] and step < made)  # the second stopped at its target
    return saved


@contextmanager
def _bars(title: str, folder: Path, steps: Mapping[str, Any], shown: bool) -> Iterator[Callable[[str], None]]:
    """A bar for all tasks and one for each that trains, which is read off its metrics."""
    from kleene.training.loop import progress_bars

    with progress_bars(shown) as bar:
        whole = bar.add_task(title, total=len(steps), state="")
        rows: dict[str, Any] = {}
        ended = threading.Event()

        def look() -> None:
            while not ended.wait(1.0):
                bar.update(whole, completed=sum((folder / f"{name}.json").exists() for name in rows))
                for name, row in list(rows.items()):
                    last = _last(folder / name / "metrics.jsonl")
                    state = "  ".join(f"{k} {v:.4g}" for k, v in last.items() if k in SHOWN and isinstance(v, float))
                    bar.update(row, completed=last.get("step", 0), state=state, visible=bool(last))

        def started(name: str) -> None:
            rows[name] = bar.add_task(f"  {name}", total=steps[name], state="", visible=False)

        watcher = threading.Thread(target=look, daemon=True)
        watcher.start()
        try:
            yield started
        finally:
            ended.set()
            watcher.join()


def _last(path: Path) -> dict[str, Any]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        return json.loads(lines[-1]) if lines else {}
    except (OSError, ValueError):  # not there yet, or its last line is being written
        return {}


def fast_device() -> str:
    """A GPU if there is one, with products in TF32."""
    import torch

    if not torch.cuda.is_available():
        return "cpu"
    torch.set_float32_matmul_precision("high")
    return "cuda"


def _plain(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as JSON has them; paths are left out, so that a folder may move."""
    plain: dict[str, Any] = json.loads(json.dumps({k: v for k, v in arguments.items() if not isinstance(v, Path)}))
    return plain
