"""What an experiment leaves behind: rows beside the paper's, as JSON, as a table, and as plots."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kleene.files import write_json, write_text, written_atomically


@dataclass
class Result:
    """Rows of a published result, each with `name`, `paper`, `ours` and perhaps `note`."""

    name: str
    folder: Path
    config: Mapping[str, Any]
    rows: list[dict[str, Any]] = field(default_factory=list)
    metrics: dict[str, Any] = field(default_factory=dict)
    started: float = field(default_factory=time.time)
    seconds: float = 0.0
    runs: Mapping[str, dict[str, Any]] = field(default_factory=dict)  # results of tasks, from this call or earlier
    before: str = ""  # what is said about the table, above it

    def row(self, name: str, paper: str, ours: str, note: str = "", holds: bool | None = None) -> None:
        """Add a row; `holds` says whether what the paper claims was found here."""
        entry: dict[str, Any] = {"name": name, "paper": paper, "ours": ours}
        if holds is not None:
            entry["holds"] = bool(holds)
        if note:
            entry["note"] = note
        self.rows.append(entry)

    def published(self) -> dict[str, Any]:
        """The committed form: how it was made, and the rows."""
        made = {
            "command": os.environ.get("KLEENE_COMMAND") or command(),
            "commit": commit(),
            "device": device(),
            "seconds": round(self.seconds, 1),
            "config": dict(self.config),
            "rows": self.rows,
        }
        if self.runs:  # the tasks may have run elsewhere, before
            made |= {key: ", ".join(sorted({run[key] for run in self.runs.values()})) for key in ("device", "commit")}
            made["task_seconds"] = {name: run["seconds"] for name, run in self.runs.items()}
        return made

    def write(self) -> None:
        """Write config, metrics, rows and table into the folder."""
        self.seconds = time.time() - self.started
        short = self.name.rpartition(".")[2]
        write_json(self.folder / "config.json", dict(self.config))
        write_json(self.folder / "metrics.json", self.metrics)
        write_json(self.folder / f"{short}.json", self.published())
        write_text(self.folder / f"{short}.md", self.table())
        write_text(self.folder / "table.md", self.table())

    def table(self) -> str:
        """The rows as Markdown."""
        made = self.published()
        tasks = made.get("task_seconds", {})
        spent = f"; {len(tasks)} tasks of {sum(tasks.values()):.0f} s in all" if tasks else ""
        lines = [
            f"# {self.name}",
            "",
            f"`{made['command']}` at {made['commit']}, {made['device']}, {made['seconds']:.0f} s{spent}",
            "",
            "| what | paper | ours | holds | note |",
            "|---|---|---|---|---|",
        ]
        for row in self.rows:
            verdict = {True: "yes", False: "**no**", None: ""}[row.get("holds")]
            cells = [row["name"], row["paper"], row["ours"], verdict, row.get("note", "")]
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        return "\n".join(lines) + "\n"


def command() -> str:
    """The command line that is running, without this machine's folders."""
    return shlex.join([Path(sys.argv[0]).stem.replace("__main__", "kleene"), *sys.argv[1:]])


def commit() -> str:
    """The commit of the source that runs: from KLEENE_COMMIT, or from git."""
    if given := os.environ.get("KLEENE_COMMIT"):
        return given
    try:
        found = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
        return found.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def device() -> str:
    """What the work ran on, in words."""
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
