"""The step from results to `docs/results`: raw runs, compressed, and the tables and plots derived from them.

`make publish FROM="results/alta.frozen"` adds the raw runs of these folders to the published ones, names the commit
whose code made them, and derives tables and plots anew; without FROM it derives all from what is published. `stale`
lists the published results whose code has changed since they were made. A folder that `kleene score` wrote is published
under `truth`, by its name.
"""

from __future__ import annotations

import gzip
import json
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kleene.errors import FileError, InputError
from kleene.files import MAX_JSON_BYTES, read_json, write_json, write_text, written_atomically
from kleene.papers import protocol_of
from kleene.papers.protocol import Experiment
from kleene.papers.provenance import changed_code, commit_of
from kleene.papers.report import described, table, without_folders

Raw = dict[str, dict[str, Any]]  # by task: arguments, finished, result


def place(docs: Path, experiment: str, scale: str) -> Path:
    """The path of a published result, without a suffix. Results of the small scale say so in their name.

    >>> place(Path("docs/results"), "alta.frozen", "small").as_posix()
    'docs/results/alta/frozen-small'
    """
    paper, _, short = experiment.partition(".")
    return docs / paper / (short if scale == "paper" else f"{short}-{scale}")


def read_raw(path: Path) -> Raw:
    """Raw runs from a compressed file; at most 256 MB of JSON."""
    try:
        with gzip.open(path) as file:
            text = file.read(MAX_JSON_BYTES + 1)
    except (OSError, EOFError) as error:
        raise FileError(f"{path}: cannot be read as compressed JSON ({error})") from None
    if len(text) > MAX_JSON_BYTES:
        raise FileError(f"{path}: more than {MAX_JSON_BYTES:,} bytes of JSON")
    runs: Raw = json.loads(text)["runs"]
    return runs


def write_raw(path: Path, runs: Raw) -> None:
    """The same runs always give the same bytes."""
    text = json.dumps({"runs": dict(sorted(runs.items()))}, separators=(",", ":"), sort_keys=True)
    with written_atomically(path) as made:
        made.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def collected(folder: Path, scale: str) -> Raw:
    """The raw runs of a folder of results."""
    found = {path.stem: read_json(path) for path in sorted((folder / "runs" / scale).glob("*.json"))}
    if not found:
        raise InputError(f"{folder}: has no runs of scale {scale!r}; run `kleene reproduce … -o {folder}` first")
    return found


def publish(folder: Path, docs: Path, command: str = "") -> Path:
    """Add a folder's raw runs to the published ones, and derive the result."""
    about = read_json(folder / "config.json")
    experiment, scale = protocol_of(about["experiment"]), about["scale"]
    at = place(docs, experiment.name, scale)
    raw = at.with_name(at.name + ".runs.json.gz")
    runs = read_raw(raw) if raw.exists() else {}
    for name, entry in collected(folder, scale).items():
        if name not in runs or not _longer(runs[name], entry):
            runs[name] = entry
    for entry in runs.values():
        result = entry["result"]
        if result["commit"].endswith(("+", "unknown")) and (known := commit_of(result.get("code", {}))):
            result["commit"] = known  # the tree was copied without its history, or committed afterwards
    write_raw(raw, runs)
    made = read_json(folder / f"{experiment.name.rpartition('.')[2]}.json").get("command", "")
    return derive(at, experiment, scale, command or made)


def _longer(known: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether a published run is of the same task and made more steps: then it stands, whatever the new one says."""
    old, asked = ({k: v for k, v in entry["arguments"].items() if k != "steps"} for entry in (known, new))
    return old == asked and known["result"].get("step", 0) > new["result"].get("step", 0)


def publish_scores(folder: Path, docs: Path) -> Path:
    """Publish what `kleene score` wrote to a folder: its numbers, table and plot, under the folder's name."""
    made, at = read_json(folder / "scores.json"), docs / "truth" / folder.name
    if str(made["commit"]).endswith(("+", "unknown")) and (known := commit_of(made.get("code", {}))):
        made["commit"] = known
    head = [
        f"# Explanations against the truth: {folder.name.replace('-', ', ')}",
        "",
        f"Made by `{made['command']}` at commit {made['commit']} in {made['seconds']:.0f} seconds on {made['device']}; "
        f"{made['seeds']} seeds. [All numbers]({folder.name}.json), by level, size and length. Intervals are at 95 %.",
        "",
        f"![rank correlations]({folder.name}.png)",
        "",
    ]
    write_json(at.with_suffix(".json"), made)
    write_text(at.with_suffix(".md"), "\n".join([*head, (folder / "table.md").read_text(encoding="utf-8")]))
    shutil.copyfile(folder / "scores.png", at.with_suffix(".png"))
    return at.with_suffix(".json")


def derive(at: Path, experiment: Experiment, scale: str, command: str = "") -> Path:
    """Write table, rows and plots from published raw runs alone."""
    raw = read_raw(at.with_name(at.name + ".runs.json.gz"))
    runs = {name: entry["result"] for name, entry in raw.items()}
    path = at.with_name(at.name + ".json")
    before = read_json(path) if path.exists() else {}
    config = experiment.config(scale)
    made = {
        "experiment": experiment.name,
        "command": without_folders(
            shlex.split(command or before.get("command", f"kleene reproduce {experiment.name} --scale {scale}"))
        ),
        **described(runs),
        "code": {file: known for run in runs.values() for file, known in run.get("code", {}).items()},
        "config": config,
        "rows": experiment.derive(config, runs),
    }
    write_json(path, made)
    write_text(at.with_name(at.name + ".md"), table(made))
    if experiment.draw is not None:
        with tempfile.TemporaryDirectory() as folder:
            experiment.draw(Path(folder), config, runs)
            for plot in sorted(Path(folder).glob("*.png")):
                shutil.copyfile(plot, at.parent / _plot_name(plot.name, experiment.name, scale))
    return path


def _plot_name(name: str, experiment: str, scale: str) -> str:
    short = experiment.rpartition(".")[2]
    if scale == "paper":
        return name
    return name.replace(short, f"{short}-{scale}", 1) if name.startswith(short) else f"{short}-{scale}-{name}"


def published(docs: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every published result of an experiment, with its path."""
    for path in sorted(docs.glob("*/*.json")):
        made = read_json(path)
        if "experiment" in made:
            yield path, made


def raw_of(path: Path) -> Path:
    """The raw runs of a published result."""
    return path.with_name(path.stem + ".runs.json.gz")


def stale(docs: Path) -> dict[str, list[str]]:
    """Published results whose code has changed since, with the files that changed; by path below `docs`."""
    found = {}
    scores = [(path, read_json(path)) for path in sorted(docs.glob("truth/*.json"))]
    for path, made in [*published(docs), *scores]:
        name = path.relative_to(docs).with_suffix("").as_posix()
        recorded: Mapping[str, str] = made.get("code", {})
        if not recorded:
            found[name] = ["made before code was recorded"]
        elif changed := changed_code(recorded):
            found[name] = changed
    return found


def main(folders: list[str], docs: Path = Path("docs/results")) -> None:
    """Publish folders; without any, derive every published result again."""
    if folders:
        for folder in map(Path, folders):
            print((publish_scores if (folder / "scores.json").exists() else publish)(folder, docs))
        return
    for path, made in published(docs):
        if raw_of(path).exists():
            print(derive(path.with_suffix(""), protocol_of(made["experiment"]), made["config"]["scale"]))


if __name__ == "__main__":
    main(sys.argv[1:])
