"""What an experiment is: tasks, and rows that are declared before anything runs.

A row says what the paper states, how the number is read off the raw runs, and by which criterion it is judged. The
raw runs record the digests of the criteria that stood in the code when they ran, so that a criterion that came later
gives no verdict. Tables are derived from raw runs alone: `derive` needs nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kleene.papers.report import Result
from kleene.papers.tasks import Plan, Tasks, Together, Work, at_scale, run_tasks

Config = Mapping[str, Any]
Runs = Mapping[str, dict[str, Any]]  # the results of tasks, by name


@dataclass(frozen=True)
class Criterion:
    """What decides whether a row holds.

    text: the rule in words, as the table shows it.
    holds: the rule, of `Measured.value`.
    seeds: the fewest seeds that it is applied to.
    since: the commit that already had this rule, for runs that are older than the recording of criteria.
    """

    text: str
    holds: Callable[[Any], bool]
    seeds: int = 3
    since: str = ""

    @property
    def digest(self) -> str:
        """What a run records of it."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Measured:
    """What the raw runs say about a row.

    text: the number, as the table shows it.
    value: what the criterion is applied to.
    seeds: how many seeds it is the result of.
    converged: False gives no verdict.
    runs: the names of the runs it was read off.
    """

    text: str
    value: Any = None
    seeds: int = 0
    converged: bool = True
    note: str = ""
    runs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """A row of a table, declared before the run.

    name: what is measured.
    measure: reads it off the runs; None says that it was not run.
    paper: what the paper states; empty where it states nothing.
    source: where the paper states it.
    criterion: how the row is judged; without one there is no verdict.
    cost: what running it takes, said where it was not run.
    """

    name: str
    measure: Callable[[Runs], Measured | None]
    paper: str = ""
    source: str = ""
    criterion: Criterion | None = None
    cost: str = ""
    note: str = ""


Stage = Callable[[Config, Path | None, Plan, Runs], Tasks]


@dataclass(frozen=True)
class Experiment:
    """A name, scales, stages of tasks (each may depend on the runs before it), and rows.

    draw: makes the plots, from folder, configuration and runs.
    default: the tasks that are run unless a plan names others; all, if not given.
    together: how tasks can be done side by side, where a plan asks for that.
    """

    name: str
    scales: Mapping[str, dict[str, Any]]
    stages: Sequence[Stage]
    work: Work
    rows: Callable[[Config], Sequence[Row]]
    draw: Callable[[Path, Config, Runs], None] | None = None
    default: Callable[[Config], Sequence[str]] | None = None
    together: Together | None = None

    def config(self, scale: str) -> dict[str, Any]:
        """The settings of a scale, with its name."""
        return {"scale": scale, **at_scale(self.scales, scale)}

    def run(
        self,
        scale: str = "small",
        data: Path | None = None,
        folder: Path | str | None = None,
        progress: bool = True,
        plan: Plan | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Result:
        """Run what has no result yet, and derive the table; `settings` replace those of the scale."""
        config, plan = self.config(scale) | dict(settings or {}), plan or Plan()
        result = Result(self.name, Path(folder or f"results/{self.name}"), config)
        declared = tuple(row.criterion.digest for row in self.rows(config) if row.criterion)
        runs: dict[str, dict[str, Any]] = {}
        names: list[str] = []
        for stage in self.stages:
            tasks = stage(config, data, plan, runs)
            names += tasks
            runs |= run_tasks(
                self.work,
                tasks,
                result.folder / "runs" / scale,
                plan=plan.of(tasks),
                default=None if self.default is None else self.default(config),
                progress=progress,
                title=self.name,
                declared=declared,
                together=self.together,
            )
        plan.check_named(names)
        result.runs = runs
        result.metrics["runs"] = {name: {k: v for k, v in run.items() if k != "code"} for name, run in runs.items()}
        result.rows = self.derive(config, runs)
        if self.draw is not None and runs:
            self.draw(result.folder, config, runs)
        result.write()
        return result

    def derive(self, config: Config, runs: Runs) -> list[dict[str, Any]]:
        """The table's rows, from raw runs alone."""
        return [_derived(row, runs) for row in self.rows(config)]


def _derived(row: Row, runs: Runs) -> dict[str, Any]:
    measured = row.measure(runs)
    entry: dict[str, Any] = {"name": row.name, "paper": row.paper, "source": row.source}
    entry["ours"] = "not run" + (f" (it takes {row.cost})" if row.cost else "") if measured is None else measured.text
    if row.criterion is not None and row.paper:  # no verdict where the paper claims nothing
        entry["criterion"] = row.criterion.text
        if measured is not None:
            entry["holds"], entry["verdict"] = verdict(row.criterion, measured, runs)
    note = ". ".join(part for part in (row.note, "" if measured is None else measured.note) if part)
    return entry | ({"note": note} if note else {})


def verdict(criterion: Criterion, measured: Measured, runs: Runs) -> tuple[bool | None, str]:
    """True or False with "yes" or "no"; or None, and why there is no verdict."""
    if measured.value is None:
        return None, "nothing to judge"
    if not measured.converged:
        return None, "not converged"
    if measured.seeds < criterion.seeds:
        return None, f"{measured.seeds} of {criterion.seeds} seeds"
    used = [runs[name] for name in measured.runs]
    late = any(criterion.digest not in run.get("criteria", ()) for run in used)
    if (late or not used) and not criterion.since:
        return None, "criterion later than the run"
    holds = bool(criterion.holds(measured.value))
    return holds, "yes" if holds else "no"
