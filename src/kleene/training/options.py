"""How a network is trained, and where the run lives: the options of `kl.learn`, the loop and the experiments alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor, nn

from kleene.errors import NotSupported

Metrics = dict[str, Any]  # numbers, or lists of them; what JSON holds
Options = TypeVar("Options")


@dataclass(frozen=True)
class TrainingPlan:
    """How a network is trained.

    steps: the most steps.
    rate: the learning rate.
    optimiser: "adafactor" or "adam".
    batch: examples per step.
    seed: of first weights and batches.
    every: steps between evaluations; by default a tenth of all, or a twentieth from traces.
    target: the accuracy at which training ends.
    half: matrix products in bfloat16; by default on a GPU.
    """

    steps: int = 2_000
    rate: float = 5e-4
    optimiser: str = "adafactor"
    batch: int = 64
    seed: int = 0
    every: int | None = None
    target: float | None = None
    half: bool | None = None

    def evaluation(self, measure: Callable[[nn.Module], Metrics], metric: str, times: int) -> Evaluation:
        """Measure every `every` steps, by default `times` times, until a metric reaches the target."""
        target = self.target
        until = None if target is None else lambda metrics: bool(metrics[metric] >= target)
        return Evaluation(measure, self.every or max(1, self.steps // times), until)


@dataclass(frozen=True)
class Storage:
    """The place of a run.

    folder: for checkpoints and metrics; the same call goes on from there.
    save_seconds: seconds between checkpoints.
    keep: keep the last checkpoint of a run that is done.
    deadline: of `time.monotonic`; past it the run stops with a checkpoint.
    device: by default a GPU where there is one.
    progress: show a progress bar.
    """

    folder: str | Path | None = None
    save_seconds: float = 20
    keep: bool = True
    deadline: float | None = None
    device: str | None = None
    progress: bool = False


@dataclass(frozen=True)
class Evaluation:
    """What is measured on the way.

    measure: metrics of the model; the mean loss is always one of them.
    every: steps between measurements.
    until: ends the run where it says yes to the metrics.
    """

    measure: Callable[[nn.Module], Metrics] | None = None
    every: int = 100
    until: Callable[[Metrics], bool] | None = None


@dataclass(frozen=True)
class GradientStep:
    """How one step moves the weights.

    schedule: the learning rate of a step; by default the optimiser's own.
    clip: the largest norm of the gradient.
    descend: does the whole step instead (for instance a captured CUDA graph), and returns the loss.
    """

    schedule: Callable[[int], float] | None = None
    clip: float | None = None
    descend: Callable[[nn.Module, Any], Tensor] | None = None


def take(default: Options, options: dict[str, Any]) -> Options:
    """Replace fields of `default` by options of the same name, and remove these from `options`."""
    names = [field.name for field in fields(default)]  # type: ignore[arg-type]
    return replace(default, **{name: options.pop(name) for name in names if name in options})  # type: ignore[type-var]


def names_of(*defaults: Any) -> list[str]:
    """The names of all fields."""
    return [field.name for default in defaults for field in fields(default)]


def reject_unknown(what: str, options: dict[str, Any], known: Iterable[str]) -> None:
    """Refuse options that are left over."""
    for name in options:
        raise NotSupported(f"learn: there is no option {name}= for a {what}; its options: {', '.join(known)}")
