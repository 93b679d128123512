"""What an experiment leaves behind: rows beside the paper's, as JSON, as a table, and as plots."""

from __future__ import annotations

import platform
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kleene.files import write_json, write_text, written_atomically
from kleene.papers.provenance import commit


@dataclass
class Result:
    """What an experiment found: rows, and how they were made.

    rows: each with `name`, `paper`, `ours`; perhaps `source`, `criterion`, `holds`, `verdict` and `note`.
    runs: the results of its tasks, from this call or earlier.
    """

    name: str
    folder: Path
    config: Mapping[str, Any]
    rows: list[dict[str, Any]] = field(default_factory=list)
    metrics: dict[str, Any] = field(default_factory=dict)
    started: float = field(default_factory=time.time)
    runs: Mapping[str, dict[str, Any]] = field(default_factory=dict)

    def row(self, name: str, paper: str, ours: str, note: str = "") -> None:
        """Add a row without a verdict."""
        self.rows.append({"name": name, "paper": paper, "ours": ours, **({"note": note} if note else {})})

    def published(self) -> dict[str, Any]:
        """How it was made, and the rows."""
        made: dict[str, Any] = {
            "experiment": self.name,
            "command": command(),
            "commit": commit(),
            "device": device(),
            "seconds": round(time.time() - self.started, 1),
        }
        if self.runs:  # the tasks may have run elsewhere, before
            made |= described(self.runs)
        return made | {"config": dict(self.config), "rows": self.rows}

    def write(self) -> None:
        """Write config, metrics, rows and table into the folder."""
        short = self.name.rpartition(".")[2]
        published = self.published()
        write_json(self.folder / "config.json", {"experiment": self.name, **self.config})
        write_json(self.folder / "metrics.json", self.metrics)
        write_json(self.folder / f"{short}.json", published)
        write_text(self.folder / "table.md", table(published))

    def table(self) -> str:
        """The rows as Markdown."""
        return table(self.published())


def described(runs: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Commits, devices and seconds of tasks."""
    return {
        "commit": ", ".join(sorted({run["commit"] for run in runs.values()})),
        "device": ", ".join(sorted({run["device"] for run in runs.values()})),
        "seconds": round(sum(run["seconds"] for run in runs.values()), 1),
        "task_seconds": {name: run["seconds"] for name, run in runs.items()},
    }


def table(made: Mapping[str, Any]) -> str:
    """A published result as Markdown: the rows, each with its criterion and verdict, and how they were made."""
    tasks = made.get("task_seconds", {})
    spent = f"{len(tasks)} tasks, {made['seconds']:.0f} s in all" if tasks else f"{made['seconds']:.0f} s"
    lines = [f"# {made['experiment']}", "", f"`{made['command']}`", ""]
    lines += [f"Commit {made['commit']}; {made['device']}; {spent}.", ""]
    lines += [made["remark"], ""] if made.get("remark") else []
    criteria = list(dict.fromkeys(row["criterion"] for row in made["rows"] if row.get("criterion")))
    lines += ["| what | paper | ours | criterion | holds | note |", "|---|---|---|---|---|---|"]
    for row in made["rows"]:
        paper = row["paper"] + (f" ({row['source']})" if row.get("source") and row["paper"] else "")
        number = f"[{criteria.index(row['criterion']) + 1}](#criteria)" if row.get("criterion") else ""
        cells = [row["name"], paper, row["ours"], number, _verdict(row), row.get("note", "")]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    if criteria:
        lines += ["", "## Criteria", "", "A run that is older than its criterion gets no verdict.", ""]
        lines += [f"{number}. {text}." for number, text in enumerate(criteria, 1)]
    return "\n".join(lines) + "\n"


def _verdict(row: Mapping[str, Any]) -> str:
    if "verdict" not in row:
        return ""
    return {True: "yes", False: "**no**", None: f"no verdict: {row['verdict']}"}[row.get("holds")]


def command() -> str:
    """The command line that is running, without this machine's folders."""
    return without_folders([Path(sys.argv[0]).stem.replace("__main__", "kleene"), *sys.argv[1:]])


def without_folders(words: Sequence[str]) -> str:
    """A command line without the options that name a folder of the machine it ran on.

    >>> without_folders(["kleene", "reproduce", "alta.scan", "--data", "/data", "-o", "/tmp/runs"])
    'kleene reproduce alta.scan'
    """
    folders = ("-o", "--output", "--data", "--storage")
    kept = [word for before, word in zip(("", *words), words) if word not in folders and before not in folders]
    return shlex.join(kept)


def device() -> str:
    """Return what the work ran on, in words."""
    import torch

    if torch.cuda.is_available():
        return f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    return f"CPU ({platform.machine()}, {torch.get_num_threads()} threads), torch {torch.__version__}"


@contextmanager
def plot(path: Path, panels: int = 1, title: str = "", width: float = 4.2, height: float = 3.4) -> Iterator[Any]:
    """A figure with `panels` side by side, written whole as PNG when the block ends."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, panels, figsize=(width * panels, height), squeeze=False, layout="constrained")
    try:
        yield list(axes[0])
        if title:
            figure.suptitle(title, fontsize=10)
        with written_atomically(path) as made:
            figure.savefig(made, dpi=110, format="png")
    finally:
        pyplot.close(figure)
