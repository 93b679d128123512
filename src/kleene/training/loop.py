"""The training loop of all of Kleene: seeded, resumable after a kill, with metrics as JSON lines.

The loop knows nothing of what it trains. It is given a model, an optimiser, a loss, and a function from
the step's index to its batch; so the order of the data follows from the seed and the step alone, and a run
that was killed goes on from its last checkpoint to the same metrics as one that was not. State that lives
across steps (a recurrent state, a running average) belongs into the model's buffers: those are saved too.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from kleene.errors import FileError, InputError, KleeneError
from kleene.files import read_json, read_text, write_text, written_atomically
from kleene.training.options import Evaluation, GradientStep, Metrics, Storage

MEASURE_LOSS, PLAIN, NOWHERE = Evaluation(), GradientStep(), Storage()


@dataclass
class Run:
    """What a training run did: its metrics at each evaluation, and where and why it stopped."""

    metrics: list[Metrics] = field(default_factory=list)
    step: int = 0
    reached: bool = False
    seconds: float = field(default=0.0, compare=False)  # of training, up to the last checkpoint

    @property
    def last(self) -> Metrics:
        """The metrics of the last evaluation."""
        return self.metrics[-1] if self.metrics else {}


def seeded(seed: int, step: int) -> int:
    """One seed for each (seed, step), spread by a 64-bit mix so that neighbours have nothing in common.

    >>> seeded(0, 1) != seeded(1, 0)
    True
    """
    mixed = (seed * 0x9E3779B97F4A7C15 + step * 0xBF58476D1CE4E5B9 + 0x94D049BB133111EB) % 2**64
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    return (mixed ^ mixed >> 31) % 2**63


def fingerprint(*parts: Any) -> str:
    """A digest of tensors and JSON values: the data of a run, so that a folder never continues with other data.

    >>> fingerprint(torch.ones(2), "a") == fingerprint(torch.ones(2), "a") != fingerprint(torch.ones(2), "b")
    True
    """
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, Tensor):
            array = part.detach().cpu().contiguous()
            digest.update(f"{array.dtype} {tuple(array.shape)}".encode())
            digest.update(array.view(torch.uint8).numpy().tobytes() if array.numel() else b"")
        else:
            digest.update(json.dumps(part, sort_keys=True, default=str).encode())
    return digest.hexdigest()[:16]


def shuffled(seed: int, count: int, batch: int) -> Callable[[int], Tensor]:
    """Batches by step index: the indices 0 … count−1 in a new order each epoch, `batch` of them a step.

    >>> order = shuffled(seed=1, count=4, batch=2)
    >>> sorted([*order(0).tolist(), *order(1).tolist()]), order(3).tolist() == order(3).tolist()
    ([0, 1, 2, 3], True)
    """
    per_epoch = max(1, math.ceil(count / batch))
    current: tuple[int, Tensor] = (-1, torch.empty(0))

    def indices(step: int) -> Tensor:
        nonlocal current
        epoch, place = divmod(step, per_epoch)
        if current[0] != epoch:
            source = torch.Generator().manual_seed(seeded(seed, epoch))
            current = (epoch, torch.randperm(count, generator=source))
        return current[1][place * batch : (place + 1) * batch]

    return indices


def train(
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    loss: Callable[[nn.Module, Any], Tensor],
    batches: Callable[[int], Any],
    *,
    steps: int,
    seed: int = 0,
    evaluation: Evaluation = MEASURE_LOSS,
    gradient: GradientStep = PLAIN,
    storage: Storage = NOWHERE,
    settings: Mapping[str, Any] | None = None,
    title: str = "training",
) -> Run:
    """Train `model` in place: `loss(model, batches(step))` downhill, until `steps` or `evaluation.until`.

    evaluation: every `evaluation.every` steps, and at the end, the mean loss since the last time and the measured
    metrics become one line of `metrics.jsonl` in the folder, and a checkpoint is written: the first time, and when
    `save_seconds` have passed since the last.
    gradient: how one step moves the weights: schedule, clipping, or a step of its own.
    storage: the folder of checkpoints. Calling again with the same folder goes on where the last one was. Past the
    deadline the run stops at the next evaluation, with a checkpoint, and `run.step` says how far it came.
    settings: compared with those stored, so that a folder never mixes two runs.

    >>> model = nn.Linear(1, 1); data = torch.linspace(-1, 1, 64)[:, None]; order = shuffled(0, 64, 16)
    >>> run = train(model, torch.optim.SGD(model.parameters(), lr=0.5),
    ...             lambda m, x: ((m(x) - 3 * x) ** 2).mean(), lambda step: data[order(step)],
    ...             steps=200, evaluation=Evaluation(every=50, until=lambda metrics: metrics["loss"] < 1e-3))
    >>> run.reached, round(model.weight.item(), 1)
    (True, 3.0)
    """
    if steps < 1 or evaluation.every < 1:
        raise InputError(f"train: steps={steps}, every={evaluation.every}; both must be at least 1")
    described = {"seed": seed, **(settings or {})}
    checkpoints = None if storage.folder is None else _Checkpoints(Path(storage.folder), described, storage)
    run = checkpoints.resume(model, optimiser) if checkpoints else Run()
    run.reached = bool(run.metrics) and evaluation.until is not None and evaluation.until(run.last)
    with _bar(title, steps, storage.progress) as show:
        total, counted = torch.zeros((), device=_device(model)), 0
        show(run.step, run.last)
        late = _late(storage)  # looked at where a checkpoint can be written
        while run.step < steps and not run.reached and not late:
            torch.manual_seed(seeded(seed, run.step))
            _set_rate(optimiser, gradient.schedule, run.step)
            model.train()
            batch = batches(run.step)
            if gradient.descend is None:
                total += _descend(model, optimiser, loss(model, batch), gradient.clip)
            else:
                total += gradient.descend(model, batch)
            counted += 1
            run.step += 1
            if run.step % evaluation.every and run.step < steps:
                continue
            run.metrics.append(_measure(model, evaluation.measure, run.step, total.item() / counted))
            run.reached = evaluation.until is not None and evaluation.until(run.last)
            if checkpoints:
                checkpoints.note(run)
                checkpoints.save_where_due(model, optimiser, run, done=run.reached or run.step == steps)
            total, counted, late = torch.zeros_like(total), 0, _late(storage)
            show(run.step, run.last)
    return run


def _late(storage: Storage) -> bool:
    return storage.deadline is not None and time.monotonic() >= storage.deadline


def _set_rate(optimiser: torch.optim.Optimizer, schedule: Callable[[int], float] | None, step: int) -> None:
    if schedule is not None:
        for group in optimiser.param_groups:
            group["lr"] = schedule(step)


def _device(model: nn.Module) -> torch.device:
    return next((p.device for p in model.parameters()), torch.device("cpu"))


def _descend(model: nn.Module, optimiser: torch.optim.Optimizer, value: Tensor, clip: float | None) -> Tensor:
    optimiser.zero_grad(set_to_none=True)
    value.backward()
    if clip is not None:
        nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimiser.step()
    return value.detach()


def _measure(model: nn.Module, evaluate: Callable[[nn.Module], Metrics] | None, step: int, loss: float) -> Metrics:
    if not math.isfinite(loss):
        raise KleeneError(f"training: the loss is {loss} by step {step}; a smaller learning rate may help")
    model.eval()
    with torch.no_grad():
        return {"step": step, "loss": loss, **(evaluate(model) if evaluate else {})}


def progress_bars(shown: bool) -> Progress:
    """Bars on standard error with a `state` each. Without a terminal there are none: they would fill a file."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[state]}"),
    )
    console = Console(stderr=True)
    return Progress(*columns, console=console, disable=not shown or not console.is_terminal, transient=True)


@contextmanager
def _bar(title: str, steps: int, shown: bool) -> Iterator[Callable[[int, Metrics], None]]:
    """A progress bar on standard error, and the function that moves it."""
    with progress_bars(shown) as bar:
        task = bar.add_task(title, total=steps, state="")

        def show(step: int, metrics: Metrics) -> None:
            numbers = {k: v for k, v in metrics.items() if k != "step" and isinstance(v, (int, float))}
            state = "  ".join(f"{name} {value:.4g}" for name, value in numbers.items())
            bar.update(task, completed=step, state=state)

        yield show


class _Checkpoints:
    """One folder per checkpoint, named by its step and renamed into place; only the newest is kept."""

    def __init__(self, folder: Path, settings: Mapping[str, Any], storage: Storage) -> None:
        self.folder, self.storage = folder, storage
        self.settings = json.loads(json.dumps(settings))
        self.saved, self.first = time.monotonic(), True

    def save_where_due(self, model: nn.Module, optimiser: torch.optim.Optimizer, run: Run, *, done: bool) -> None:
        """Save the first time, when enough seconds have passed, past the deadline, and at the end."""
        if done and not self.storage.keep:
            self.clear()
            return
        due = self.first or time.monotonic() - self.saved >= self.storage.save_seconds
        if due or done or _late(self.storage):
            run.seconds += time.monotonic() - self.saved
            self.saved, self.first = time.monotonic(), False
            self.save(model, optimiser, run)

    def _all(self) -> list[Path]:
        return sorted(self.folder.glob("checkpoint-*[0-9]"))

    def save(self, model: nn.Module, optimiser: torch.optim.Optimizer, run: Run) -> None:
        """Write weights, optimiser state and place."""
        old, state = self._all(), optimiser.state_dict()
        numbers: dict[str, Any] = {}
        tensors: dict[str, Tensor] = {}
        for index, entries in state["state"].items():
            for name, value in entries.items():
                place: dict[str, Any] = tensors if isinstance(value, Tensor) else numbers
                place[f"{index}.{name}"] = value
        groups = [
            {k: v.item() if isinstance(v, Tensor) else v for k, v in group.items() if k != "params"}
            for group in state["param_groups"]
        ]
        with written_atomically(self.folder / f"checkpoint-{run.step:012d}") as made:
            made.mkdir()
            save_file(_apart(model.state_dict()), made / "model.safetensors")
            save_file(_apart(tensors), made / "optimiser.safetensors")
            (made / "checkpoint.json").write_text(
                json.dumps(
                    {
                        "settings": self.settings,
                        "step": run.step,
                        "seconds": run.seconds,
                        "groups": groups,
                        "numbers": numbers,
                    }
                )
            )
        for path in old:
            shutil.rmtree(path, ignore_errors=True)

    def clear(self) -> None:
        """Remove what was saved; the metrics stay."""
        for path in self._all():
            shutil.rmtree(path, ignore_errors=True)

    def note(self, run: Run) -> None:
        """Append the last metrics; a run that is killed before its next checkpoint drops them again."""
        with open(self.folder / "metrics.jsonl", "a", encoding="utf-8") as lines:
            lines.write(json.dumps(run.last) + "\n")

    def resume(self, model: nn.Module, optimiser: torch.optim.Optimizer) -> Run:
        """Load the newest checkpoint, if any, and drop later metrics."""
        found = self._all()
        if not found:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_text(self.folder / "metrics.jsonl", "")
            return Run()
        path = found[-1]
        saved = read_json(path / "checkpoint.json")
        if saved["settings"] != self.settings:
            differs = _difference(saved["settings"], self.settings)
            raise InputError(f"{self.folder}: holds another run ({differs}); use another folder or delete it")
        try:
            model.load_state_dict(load_file(path / "model.safetensors"))
            _restore(optimiser, saved, load_file(path / "optimiser.safetensors"))
        except (RuntimeError, OSError, SafetensorError) as error:
            raise FileError(f"{path}: does not fit this model ({str(error).splitlines()[0]})") from None
        lines = read_text(self.folder / "metrics.jsonl").splitlines()
        whole = [json.loads(line) for line in lines if line.endswith("}")]
        metrics = [entry for entry in whole if entry["step"] <= saved["step"]]
        write_text(self.folder / "metrics.jsonl", "".join(json.dumps(x) + "\n" for x in metrics))
        return Run(metrics, saved["step"], seconds=saved.get("seconds", 0.0))


def spent(folder: Path) -> float:
    """The seconds of training in the checkpoints below a folder, killed runs included."""
    return sum(float(read_json(path).get("seconds", 0.0)) for path in folder.rglob("checkpoint-*[0-9]/checkpoint.json"))


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies that share no memory (tied weights do), as the file format asks."""
    plain = torch.contiguous_format
    return {name: value.detach().clone(memory_format=plain) for name, value in tensors.items()}


def _restore(optimiser: torch.optim.Optimizer, saved: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    state = optimiser.state_dict()
    state["state"] = {}
    for key, value in [*tensors.items(), *saved["numbers"].items()]:
        index, _, name = key.partition(".")
        state["state"].setdefault(int(index), {})[name] = value
    for group, values in zip(state["param_groups"], saved["groups"]):
        for key, value in values.items():
            if isinstance(group.get(key), Tensor):  # a rate that a CUDA graph reads
                value = torch.tensor(value, device=group[key].device)
            group[key] = tuple(value) if isinstance(value, list) else value
    optimiser.load_state_dict(state)


def _difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    key = next(k for k in [*one, *other] if one.get(k) != other.get(k))
    return f"{key} {one.get(key)!r}, not {other.get(key)!r}"
