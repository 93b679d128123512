"""The scoreboard: how well methods find what is true.

For each word of each model a method's scores are compared with the exact Shapley values of the automaton, or with the
sizes of its exact interactions; for a program, with the effects of its heads by layer. Three numbers:

- rank correlation with the truth: of signed scores for symbols, of sizes for pairs;
- AUROC: whether the sizes of scores find the symbols (pairs) whose true size is above the word's median, or the nodes
  of a program's circuit;
- top: whether the largest score is a largest true one.

A method that gives every symbol the same score has no opinion: correlation 0, AUROC ½. The numbers of a model are means
over its words and seeds; intervals are of the mean over models, by bootstrap of models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kleene.errors import InputError
from kleene.evidence.methods import Array, Method, Reading, Running, method_named
from kleene.evidence.statistics import ranks, spearman
from kleene.files import write_json, write_text
from kleene.truth.factory import Model, folders_in, models_in, one_thread
from kleene.truth.shapley import interactions, shapley

MEASURES = ("correlation", "auroc", "top")
SAMPLES = 1000  # of the bootstrap
DIGITS = 9  # closer numbers are ties


def auroc(scores: Array, positive: Array) -> float:
    """The chance that a positive has a larger score than a negative; ties count half.

    >>> auroc(np.array([3.0, 1.0, 2.0]), np.array([True, False, False]))
    1.0
    """
    place, count = ranks(scores) + 1, int(positive.sum())
    return float((place[positive].sum() - count * (count + 1) / 2) / (count * (len(scores) - count)))


def compare(scores: Array, truth: Array, signed: bool, inside: Array | None = None) -> dict[str, float] | None:
    """The measures on one word; None where the truth makes no difference between its symbols.

    `inside` says what AUROC is to find; by default what is above the median.
    """
    scale = np.abs(scores).max(initial=0.0)
    scores = np.round(scores / scale, DIGITS) if scale > 0 and np.isfinite(scale) else np.zeros_like(truth)
    truth = np.round(truth, DIGITS)
    sizes, true_sizes = np.abs(scores), np.abs(truth)
    positive = true_sizes > np.median(true_sizes) if inside is None else inside
    if not positive.any() or positive.all() or truth.std() == 0 or true_sizes.std() == 0:
        return None
    left, right = (scores, truth) if signed else (sizes, true_sizes)
    largest = sizes == sizes.max()
    return {
        "correlation": 0.0 if left.std() == 0 else spearman(left, right),
        "auroc": auroc(sizes, positive),
        "top": float((true_sizes[largest] == true_sizes.max()).mean()),
    }


def _exact(kind: str) -> Method:
    """The planted method: exact values of the network's own answers, by running it on every word."""

    class Answers:
        def __init__(self, reading: Reading) -> None:
            self.reading, self.alphabet = reading, tuple(range(reading.symbols))

        def accepts_batch(self, words: Sequence[Sequence[int]]) -> Array:
            return np.asarray(self.reading.outputs_of(np.array(words)) > 0)

    def method(reading: Reading, rng: np.random.Generator) -> Array:
        return (shapley if kind == "tokens" else interactions)(Answers(reading), reading.codes)

    return method


def chosen(names: Iterable[str]) -> list[tuple[str, str, Method]]:
    """(kind, name, method) of the methods asked for; "exact" is the planted one."""
    found = []
    for name in names:
        if name == "exact":
            found += [("tokens", name, _exact("tokens")), ("pairs", name, _exact("pairs"))]
        else:
            found += [(kind, name, method) for kind, method in method_named(name)]
    return found


@dataclass
class Board:
    """The scores: one entry a model, kind, method and length, with the means over words and seeds."""

    entries: list[dict[str, Any]] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)

    def rows(self, *by: str) -> list[dict[str, Any]]:
        """Means and intervals for each kind, method and value of `by` ("level", "states", "length", "cell")."""
        groups: dict[tuple[Any, ...], dict[str, list[dict[str, Any]]]] = {}
        for entry in self.entries:
            key = tuple(entry[name] for name in ("kind", "method", *by))
            groups.setdefault(key, {}).setdefault(entry["model"], []).append(entry)
        rows = []
        for key, models in groups.items():
            row: dict[str, Any] = dict(zip(("kind", "method", *by), key)) | {"models": len(models)}
            words = [sum(e["words"] for e in entries) for entries in models.values()]
            for measure in MEASURES:
                values = [
                    sum(e[measure] * e["words"] for e in entries) / count
                    for entries, count in zip(models.values(), words)
                ]
                row[measure] = _interval(np.array(values))
            rows.append(row)
        return sorted(rows, key=lambda row: (row["kind"], *(str(row[n]) for n in by), -row["correlation"]["mean"]))

    def to_dict(self) -> dict[str, Any]:
        """The tables as plain data."""
        tables = {name: self.rows(*by) for name, by in TABLES.items()}
        return {**self.about, "tables": tables}

    def table(self) -> str:
        """The scores by level, in Markdown."""
        lines = []
        for kind, title in (("tokens", "Symbols"), ("pairs", "Pairs"), ("nodes", "Nodes")):
            rows = [row for row in self.rows("level") if row["kind"] == kind]
            for level in dict.fromkeys(row["level"] for row in rows):
                mine = [row for row in rows if row["level"] == level]
                lines += [f"## {title}, {level} ({mine[0]['models']} models)", ""]
                lines += ["| method | rank correlation | AUROC | finds the largest |", "|---|---|---|---|"]
                lines += [f"| {row['method']} | {' | '.join(_shown(row[m]) for m in MEASURES)} |" for row in mine]
                lines.append("")
        return "\n".join(lines)

    def write(self, folder: Path) -> None:
        """Write scores.json, table.md and a plot."""
        write_json(folder / "scores.json", self.to_dict())
        write_text(folder / "table.md", self.table())
        plot(self, folder / "scores.png")


TABLES: dict[str, tuple[str, ...]] = {
    "level": ("level",),
    "cell": ("level", "cell"),
    "states": ("level", "states"),
    "length": ("level", "length"),
}


def _interval(values: Array) -> dict[str, float]:
    drawn = np.random.default_rng(0).integers(len(values), size=(SAMPLES, len(values)))
    low, high = np.quantile(values[drawn].mean(1), [0.025, 0.975])
    return {"mean": round(float(values.mean()), 4), "low": round(float(low), 4), "high": round(float(high), 4)}


def _shown(found: dict[str, float]) -> str:
    return f"{found['mean']:.3f} ({found['low']:.3f} … {found['high']:.3f})"


def _score_program(model: Model, methods: list[tuple[str, str, Method]], seeds: int) -> list[dict[str, Any]]:
    """The entries of a program's network."""
    truth = model.truth
    effect, inside = (
        np.array([node[key] for node in truth["nodes"] if node["kind"] == "head"]) for key in ("effect", "in")
    )
    inputs, rng = torch.tensor(truth["inputs"]), np.random.default_rng(truth["index"])
    inputs = inputs.repeat(8, 1)
    others = torch.from_numpy(rng.integers(model.network.config.tokens, size=inputs.shape))
    running, entries = Running(model.network, inputs, others), []
    for kind, name, method in methods:
        runs = [method(running, np.random.default_rng([seed, truth["index"]])) for seed in range(seeds)]
        measured = [found for run in runs if (found := compare(run.ravel(), effect, False, inside)) is not None]
        if measured:
            about = {"model": model.name, **{key: truth[key] for key in ("level", "cell", "states")}}
            means = {m: float(np.mean([one[m] for one in measured])) for m in MEASURES}
            length = inputs.shape[1]
            entries.append({**about, "kind": kind, "method": name, "length": length, "words": len(measured), **means})
    return entries


def score_model(model: Model, methods: list[tuple[str, str, Method]], seeds: int) -> list[dict[str, Any]]:
    """The entries of one model."""
    methods = [one for one in methods if (one[0] == "nodes") == (model.truth["kind"] == "program")]
    if model.truth["kind"] == "program":
        return _score_program(model, methods, seeds)
    number = {symbol: code for code, symbol in enumerate(model.network.alphabet)}
    kept: dict[tuple[str, str, int], list[dict[str, float]]] = {}
    for place, word in enumerate(model.truth["words"]):
        codes = tuple(number[symbol] for symbol in word["word"])
        reading = Reading.of(model.network, codes)
        upper = np.triu_indices(len(codes), 1)
        truths = {"tokens": np.array(word["shapley"]), "pairs": np.array(word["interactions"])[upper]}
        for kind, name, method in methods:
            for seed in range(seeds):
                found = method(reading, np.random.default_rng([seed, model.truth["index"], place]))
                scores = found if kind == "tokens" else found[upper]
                measured = compare(scores, truths[kind], kind == "tokens")
                if measured is not None:
                    kept.setdefault((kind, name, len(codes)), []).append(measured)
    about = {"model": model.name, **{key: model.truth[key] for key in ("level", "cell", "states")}}
    return [
        {
            **about,
            "kind": kind,
            "method": name,
            "length": length,
            "words": len(measured),
            **{m: float(np.mean([one[m] for one in measured])) for m in MEASURES},
        }
        for (kind, name, length), measured in kept.items()
    ]


def _score_folder(folder: Path, root: Path, names: list[str], seeds: int) -> list[dict[str, Any]]:
    """The entries of the model in one folder; methods that draw at random run once a seed."""
    (model,) = models_in(folder)
    taken = chosen(names)
    random = [one for one in taken if "random" in one[1] or "sampl" in one[1]]
    steady = [one for one in taken if one not in random]
    entries = score_model(model, steady, 1) + score_model(model, random, seeds)
    return [{**entry, "model": str(folder.relative_to(root))} for entry in entries]


def score(
    methods: Iterable[str],
    folder: str | Path,
    *,
    seeds: int = 1,
    limit: int | None = None,
    workers: int = 1,
    progress: Callable[[int], None] = lambda done: None,
) -> Board:
    """Score methods on the models of a folder.

    - `methods`: names (`kleene.evidence.methods`), and "exact" for the planted one.
    - `folder`: what `kleene factory` made; folders in it may be of several levels.
    - `seeds`: how often methods that draw at random are run.
    - `limit`: at most so many models of each folder of models.
    - `workers`: processes.
    - `progress`: called with the number of models done.
    """
    if seeds < 1:
        raise InputError(f"seeds {seeds}: at least one is needed")
    names, root = list(methods), Path(folder)
    chosen(names)  # refuse unknown names before any work
    places = [place for group in folders_in(root).values() for place in group[:limit]]
    board, job = Board(), partial(_score_folder, root=root, names=names, seeds=seeds)
    if workers > 1:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=one_thread) as pool:
            for done, entries in enumerate(pool.map(job, places, chunksize=4), 1):
                board.entries += entries
                progress(done)
        return board
    for done, place in enumerate(places, 1):
        board.entries += job(place)
        progress(done)
    return board


def plot(board: Board, path: Path) -> None:
    """Draw the rank correlations by level, with their intervals."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = board.rows("level")
    kinds = [kind for kind in ("tokens", "pairs", "nodes") if any(row["kind"] == kind for row in rows)]
    figure, axes = pyplot.subplots(1, len(kinds), figsize=(7 * len(kinds), 6), squeeze=False)
    for axis, kind in zip(axes[0], kinds):
        mine = [row for row in rows if row["kind"] == kind]
        levels = list(dict.fromkeys(row["level"] for row in mine))
        names = sorted({row["method"] for row in mine}, key=lambda n: _mean_of(mine, n))
        for shift, level in enumerate(levels):
            for row in (row for row in mine if row["level"] == level):
                found, at = row["correlation"], names.index(row["method"]) + 0.2 * (shift - (len(levels) - 1) / 2)
                axis.plot([found["low"], found["high"]], [at, at], color=f"C{shift}", lw=2)
                axis.plot(found["mean"], at, "o", color=f"C{shift}", ms=4, label=level)
        handles, labels = axis.get_legend_handles_labels()
        unique = dict(zip(labels, handles))
        axis.legend(unique.values(), unique.keys())
        axis.set_yticks(range(len(names)), names)
        axis.axvline(0, color="grey", lw=0.5)
        axis.set_xlabel("rank correlation with the truth")
        axis.set_title({"tokens": "symbols", "pairs": "pairs of symbols", "nodes": "heads by layer"}[kind])
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _mean_of(rows: list[dict[str, Any]], name: str) -> float:
    return float(np.mean([row["correlation"]["mean"] for row in rows if row["method"] == name]))
