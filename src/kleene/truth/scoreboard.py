"""The scoreboard: how well methods find the truth.

For each word of each model a method's scores are compared with the exact Shapley values of the automaton or program, or
with the sizes of its exact interactions; nodes and edges of a program with the effects of interchanging them. Five
numbers:

- rank correlation with the truth: of signed scores for symbols, of sizes for pairs, nodes and edges;
- AUROC: whether the sizes of scores find the symbols (pairs) whose true size is above the word's median, or the nodes
  (edges) of a program's circuit; where a network was trained end to end, those above the median;
- top: whether the largest score is a largest true one;
- faithfulness: how much of the answer stays if only the parts with the largest scores are kept;
- completeness: how much of the answer is lost if these parts are removed (`kleene.truth.keeping`).

A method that gives every symbol the same score has no opinion: correlation 0, AUROC ½. The numbers of a model are means
over its words and seeds; intervals are of the mean over models, by bootstrap of models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kleene.errors import InputError
from kleene.evidence import circuit_methods, installed_methods  # noqa: F401  (these register methods)
from kleene.evidence.circuit_graph import CircuitGraph, parts_of
from kleene.evidence.methods import EDGES, KINDS, NODES, PAIRS, TOKENS, Method, foreign_module, is_foreign, method_named
from kleene.evidence.readings import Array, Reading
from kleene.evidence.statistics import ranks, spearman
from kleene.files import read_json, write_json, write_text
from kleene.truth.factory import Model, folders_in, models_in, one_thread
from kleene.truth.interchange import EDGE_PAIRS, MOST_PAIRS, pairs_among
from kleene.truth.keeping import NOTHING_KEPT, keep_edges, keep_nodes, keep_pairs, keep_symbols
from kleene.truth.shapley import interactions, shapley

MEASURES = ("correlation", "auroc", "top", "faithfulness", "completeness")
TITLES = {"tokens": "Symbols", "pairs": "Pairs", "nodes": "Nodes", "edges": "Edges"}
NULL_DRAWS = 20  # of the random method, for each seed
MOST_KEPT = 5  # draws of a method for which faithfulness is measured
KEPT_SEED = 1_000_000  # of the pairs of inputs for faithfulness
BATCH = 32  # pairs of inputs that a method for nodes or edges gets
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
    """The measures on one word; None if the truth does not differ between its symbols.

    `inside` is the set that AUROC looks for; by default the values above the median.
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
            self.reading = reading
            self.alphabet: Any = tuple(range(reading.symbols))

        def accepts_batch(self, words: Sequence[Any]) -> Array:
            return np.asarray(self.reading.outputs_of(np.array(words)) > 0)

    def method(reading: Reading, rng: np.random.Generator) -> Array:
        return (shapley if kind == "tokens" else interactions)(Answers(reading), reading.codes)

    return method


@torch.no_grad()
def interchanged(graph: CircuitGraph, kind: str) -> Array:
    """The planted method for nodes and edges: how often an interchange changes the network's answer at a position."""
    tokens, length = int(graph.tokens), graph.inputs.shape[1]
    wide = graph.on(*pairs_among(tokens, length, MOST_PAIRS if kind == "nodes" else EDGE_PAIRS))
    before = wide.clean.logits.argmax(-1)
    if kind == "nodes":
        every = (wide.with_nodes(chosen) for chosen in torch.eye(wide.nodes, dtype=torch.bool))
    else:
        every = (wide.with_edge(*edge) for edge in wide.edges)
    return np.array([float((logits.argmax(-1) != before).double().mean()) for logits in every])


def _interchanges(kind: str) -> Method:
    return lambda graph, rng: interchanged(graph, kind)


def chosen(names: Iterable[str], only: Sequence[str] = ()) -> list[tuple[str, str, Method]]:
    """(kind, name, method) of the requested methods, of some kinds only if any is named; "exact" is the planted one."""
    for kind in only:
        if kind not in TITLES:
            raise InputError(f"only {kind!r}: unknown; choose some of {', '.join(TITLES)}")
    found = []
    for name in names:
        if name == "exact":
            found += [("tokens", name, _exact("tokens")), ("pairs", name, _exact("pairs"))]
            found += [(kind, name, _interchanges(kind)) for kind in ("nodes", "edges")]
        else:
            found += [(kind, name, method) for kind, method in method_named(name)]
    return [one for one in found if not only or one[0] in only]


def every_method() -> list[str]:
    """The names of all methods, the planted one last."""
    return list(dict.fromkeys([*TOKENS, *PAIRS, *NODES, *EDGES, "exact"]))


@dataclass
class Board:
    """The scores: one entry per model, kind, method and length, with the means over words and seeds."""

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
            for measure in MEASURES:
                values = [_mean(entries, measure) for entries in models.values()]
                row[measure] = _interval(np.array([value for value in values if value is not None]))
            rows.append(row)
        return sorted(rows, key=lambda row: (row["kind"], *(str(row[n]) for n in by), -row["correlation"]["mean"]))

    def to_dict(self) -> dict[str, Any]:
        """The tables as plain data."""
        tables = {name: self.rows(*by) for name, by in TABLES.items()}
        return {**self.about, "tables": tables}

    def table(self) -> str:
        """The scores by level, in Markdown."""
        lines = []
        for kind, title in TITLES.items():
            rows = [row for row in self.rows("level") if row["kind"] == kind]
            for level in dict.fromkeys(row["level"] for row in rows):
                mine = [row for row in rows if row["level"] == level]
                lines += [f"## {title}, {level} ({mine[0]['models']} models)", ""]
                lines += ["| method | rank correlation | AUROC | finds the largest | faithfulness | completeness |"]
                lines += ["|---|---|---|---|---|---|"]
                lines += [f"| {row['method']} | {' | '.join(_shown(row[m]) for m in MEASURES)} |" for row in mine]
                lines.append("")
        return "\n".join(lines)

    def write(self, folder: Path) -> None:
        """Write scores.json, table.md and a plot."""
        write_json(folder / "scores.json", self.to_dict())
        write_text(folder / "table.md", self.table())
        plot(self.rows("level"), folder / "scores.png")


TABLES: dict[str, tuple[str, ...]] = {
    "level": ("level",),
    "cell": ("level", "cell"),
    "states": ("level", "states"),
    "length": ("level", "length"),
}


def _mean(entries: list[dict[str, Any]], measure: str) -> float | None:
    """The mean over the words of a model; None where no word has the measure."""
    known = [(entry[measure], entry["words"]) for entry in entries if entry[measure] is not None]
    words = sum(count for _, count in known)
    return sum(value * count for value, count in known) / words if words else None


def _interval(values: Array) -> dict[str, float] | None:
    if not len(values):
        return None
    drawn = np.random.default_rng(0).integers(len(values), size=(SAMPLES, len(values)))
    low, high = np.quantile(values[drawn].mean(1), [0.025, 0.975])
    return {"mean": round(float(values.mean()), 4), "low": round(float(low), 4), "high": round(float(high), 4)}


def _shown(found: dict[str, float] | None) -> str:
    return "" if found is None else f"{found['mean']:.3f} ({found['low']:.3f} … {found['high']:.3f})"


def _means(measured: list[dict[str, float | None]]) -> dict[str, float | None]:
    """The mean of each measure over words and seeds, where it is known."""
    found: dict[str, float | None] = {}
    for measure in MEASURES:
        known = [value for one in measured if (value := one[measure]) is not None]
        found[measure] = float(np.mean(known)) if known else None
    return found


def truth_of_graph(model: Model, graph: CircuitGraph, kind: str) -> tuple[Array, Array | None]:
    """The true effect of each node or edge, and whether it is in the circuit.

    The program's, where the network has its circuit; else that of interchanges in the network, and no circuit.
    """
    if model.truth["level"] == "trained":
        return interchanged(graph, kind), None
    if kind == "nodes":
        known = {node["name"]: node["effect"] for node in model.truth["nodes"]}
        effect = np.array([known[name] for name in graph.names])
    else:
        edges = {(edge["from"], edge["to"]): edge["effect"] for edge in model.truth["edges"]}
        effect = np.array([edges.get(name, 0.0) for name in graph.edge_names])
    return effect, effect > 0


def graph_of(model: Model, batch: int = BATCH, seed: int = 0) -> CircuitGraph:
    """A program's network on random pairs of inputs."""
    truth = model.truth
    tokens, names = truth["program"]["spec"]["tokens"], [node["of"] for node in truth["nodes"] if node["layer"] == 1]
    rng = np.random.default_rng([truth["index"], seed])
    inputs, others = torch.from_numpy(rng.integers(tokens, size=(2, batch, len(truth["words"][0]["word"]))))
    return CircuitGraph(parts_of(model.network, names), inputs, others, tokens)


def _ask(name: str, method: Method, thing: Any, rng: np.random.Generator, shape: tuple[int, ...]) -> Array | None:
    """The scores of a method; None if it does not apply."""
    try:
        found: Any = method(thing, rng)
        if found is None:
            return None
        scores = np.asarray(found.detach() if isinstance(found, torch.Tensor) else found, dtype=float)
    except Exception as error:
        if not is_foreign(name):
            raise
        raise InputError(f"method {name!r}: raises {type(error).__name__}: {error}") from error
    if scores.shape != shape:
        raise InputError(f"method {name!r}: gives numbers of shape {scores.shape}; this needs {shape}")
    return scores


STEADY = ("exact", "position", "nearness", "weight norm")  # do not depend on the pairs of inputs


def _score_graphs(model: Model, methods: list[tuple[str, str, Method]], seeds: int) -> list[dict[str, Any]]:
    """The entries of a program's network for nodes and edges: each seed has pairs of inputs of its own."""
    graphs = [graph_of(model, seed=seed) for seed in range(seeds)]
    fresh, entries = graph_of(model, 64, seed=KEPT_SEED), []
    truths = {kind: truth_of_graph(model, graphs[0], kind) for kind in {kind for kind, _, _ in methods}}
    for kind, name, method in methods:
        effect, inside = truths[kind]
        keep = keep_nodes if kind == "nodes" else keep_edges
        measured: list[dict[str, float | None]] = []
        for run in range(seeds * (NULL_DRAWS if name == "random" else 1) if name not in STEADY else 1):
            rng = np.random.default_rng([run, model.truth["index"]])
            scores = _ask(name, method, graphs[run % seeds], rng, effect.shape)
            found = None if scores is None else compare(scores, effect, False, inside)
            if found is not None and scores is not None:
                measured.append({**found, **(keep(fresh, scores) if run < MOST_KEPT else NOTHING_KEPT)})
        if measured:
            entries.append(_entry(model, kind, name, fresh.inputs.shape[1], measured))
    return entries


def _score_words(model: Model, methods: list[tuple[str, str, Method]], seeds: int) -> list[dict[str, Any]]:
    """The entries of a network for symbols and pairs of the words in its truth file."""
    number = {symbol: code for code, symbol in enumerate(getattr(model.network, "alphabet", ()))}
    kept: dict[tuple[str, str, int], list[dict[str, float | None]]] = {}
    for place, word in enumerate(model.truth["words"]):
        reading = Reading.of(model.network, [number.get(symbol, symbol) for symbol in word["word"]])
        upper = np.triu_indices(len(reading), 1)
        truths = {"tokens": np.array(word["shapley"]), "pairs": np.array(word["interactions"])[upper]}
        for kind, name, method in methods:
            for run in range(_runs(name, seeds)):
                rng = np.random.default_rng([run, model.truth["index"], place])
                found = _ask(name, method, reading, rng, (len(reading),) * (1 if kind == "tokens" else 2))
                if found is None:
                    break
                measured = compare(found if kind == "tokens" else found[upper], truths[kind], kind == "tokens")
                if measured is not None:
                    keep = keep_symbols if kind == "tokens" else keep_pairs
                    kept.setdefault((kind, name, len(reading)), []).append(
                        {**measured, **(keep(reading, found) if run < MOST_KEPT else NOTHING_KEPT)}
                    )
    return [_entry(model, kind, name, length, measured) for (kind, name, length), measured in kept.items()]


def _entry(
    model: Model, kind: str, method: str, length: int, measured: list[dict[str, float | None]]
) -> dict[str, Any]:
    about = {"model": model.name, **{key: model.truth[key] for key in ("level", "cell", "states")}}
    about |= {"kind": kind, "method": method, "length": length, "words": len(measured)}
    return {**about, **_means(measured)}


def score_model(model: Model, methods: list[tuple[str, str, Method]], seeds: int) -> list[dict[str, Any]]:
    """The entries of one model; automata have no nodes and edges to score."""
    graphs = [one for one in methods if one[0] in ("nodes", "edges") and model.truth["kind"] == "program"]
    words = [one for one in methods if one[0] in ("tokens", "pairs")]
    entries = _score_graphs(model, graphs, seeds) if graphs else []
    return entries + (_score_words(model, words, seeds) if words else [])


ROOMS = ("evidence", "networks", "truth")
DRAWING = ("random", "sampl", "kernel", "lime", "shap")  # parts of the names of methods that draw at random


def _runs(name: str, seeds: int) -> int:
    """How often a method for symbols or pairs is run on a word."""
    if name == "random":
        return seeds * NULL_DRAWS
    return seeds if is_foreign(name) or any(part in name for part in DRAWING) else 1


def _score_folder(
    folder: Path, root: Path, names: list[str], only: Sequence[str], seeds: int, keep: Path | None
) -> list[dict[str, Any]]:
    """The entries of the model in one folder; what is kept from another run is not measured again."""
    place = str(folder.relative_to(root))
    file = None if keep is None else keep / f"{place.replace('/', '_') or 'model'}.json"
    known: dict[str, list[dict[str, Any]]] = {}
    if file is not None and file.is_file():
        content = read_json(file)
        known = content["methods"] if content.get("of") == _key(seeds) else {}
    methods = chosen(names, only)
    missing = [method for method in methods if _kept_as(*method[:2]) not in known]
    if missing:
        (model,) = models_in(folder)
        for method in missing:
            entries = score_model(model, [method], seeds)
            known[_kept_as(*method[:2])] = [{**entry, "model": place} for entry in entries]
        if file is not None:
            write_json(file, {"of": _key(seeds), "methods": known}, indent=None)
    return [entry for kind, name, _ in methods for entry in known[_kept_as(kind, name)]]


def _kept_as(kind: str, name: str) -> str:
    """The name of a method among kept entries: a user's has the fingerprint of its file."""
    if not is_foreign(name) or any(name in methods for _, methods in KINDS):
        return f"{kind}: {name}"
    file = getattr(foreign_module(name.rpartition(":")[0]), "__file__", None)
    return f"{kind}: {name}" + ("" if file is None else f" {sha256(Path(file).read_bytes()).hexdigest()[:12]}")


def _key(seeds: int) -> dict[str, Any]:
    """What kept entries depend on, besides the model and the method."""
    return {"seeds": seeds, "code": _code()}


@cache
def _code() -> str:
    """A fingerprint of the source of the rooms that measure."""
    files = sorted(file for room in ROOMS for file in (Path(__file__).parents[1] / room).rglob("*.py"))
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def score(
    methods: Iterable[str],
    folder: str | Path,
    *,
    only: Sequence[str] = (),
    seeds: int = 1,
    limit: int | None = None,
    workers: int = 1,
    keep: str | Path | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> Board:
    """Score methods on the models of a folder.

    - `methods`: names (`kleene.evidence.methods`), and "exact" for the planted one.
    - `folder`: what `kleene factory` made; folders in it may be of several levels.
    - `only`: some of "tokens", "pairs", "nodes" and "edges"; a method such as "exact" scores several of them.
    - `seeds`: how often methods that draw at random are run; methods for nodes and edges get other inputs each time.
    - `limit`: at most this many models of each folder of models.
    - `workers`: processes.
    - `keep`: a folder for what is measured of each model. A second call with the same code goes on from it.
    - `progress`: called with the number of models done.
    """
    if seeds < 1:
        raise InputError(f"seeds {seeds}: give at least one")
    names, root = list(dict.fromkeys(methods)), Path(folder)
    chosen(names, only)  # refuse unknown names before any work
    places = [place for group in folders_in(root).values() for place in group[:limit]]
    kept = None if keep is None else Path(keep)
    job = partial(_score_folder, root=root, names=names, only=tuple(only), seeds=seeds, keep=kept)
    board = Board()
    if workers > 1:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=one_thread) as pool:
            for done, entries in enumerate(pool.map(job, places, chunksize=1), 1):
                board.entries += entries
                progress(done)
        return board
    for done, place in enumerate(places, 1):
        board.entries += job(place)
        progress(done)
    return board


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw the rank correlations of rows by level, with their intervals."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    kinds = [kind for kind in TITLES if any(row["kind"] == kind for row in rows)]
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
        axis.set_title(TITLES[kind].lower())
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _mean_of(rows: list[dict[str, Any]], name: str) -> float:
    return float(np.mean([row["correlation"]["mean"] for row in rows if row["method"] == name]))
