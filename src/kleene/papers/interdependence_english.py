"""Section 4 and the paper's future work: interdependence in English (figures 8 and 9), and controls.

A WikiText-2 language model reads UD English-EWT. Beside it: an untrained one, shuffled sentences, both bias
rules, a transformer, and a probe for syntax.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from kleene.evidence.decomposition import decompose, layers_of
from kleene.evidence.interdependence import all_pairs, triangle
from kleene.evidence.statistics import (
    CLASSES,
    Mean,
    Pairs,
    pair_table,
    permutation_test,
    regression,
    spearman,
    stratified_means,
)
from kleene.evidence.syntax_probe import attachment, chain, less_proximity, maximum_spanning_tree
from kleene.evidence.transformer_decomposition import transformer_interdependence
from kleene.evidence.treebank import Sentence, read_treebank
from kleene.files import written_atomically
from kleene.networks.trained.lstm import LanguageModel
from kleene.networks.trained.transformer_lm import TransformerLanguageModel
from kleene.papers.protocol import Config, Criterion, Experiment, Measured, Row, Runs
from kleene.papers.report import plot
from kleene.papers.tasks import Plan, Tasks, fast_device
from kleene.papers.wikitext import WikiText, data_folder
from kleene.training.language_model import Stack, columns, train_stack
from kleene.training.loop import shuffled, train
from kleene.training.options import Evaluation, Storage

SCALES: dict[str, dict[str, Any]] = {
    "paper": {
        "tokens": None,
        "types": None,
        "hidden": 200,
        "epochs": 40,
        "seeds": [1, 2],
        "rate": 20.0,
        "treebank": None,  # English-EWT's test set, or a CoNLL-U file
        "sentences": None,
        "permutations": 300,
        "transformer": {"width": 128, "layers": 2, "heads": 4, "steps": 8000, "sentences": 600},
    },
    "small": {
        "tokens": 150_000,
        "types": 2000,
        "hidden": 64,
        "epochs": 6,
        "seeds": [1],
        "rate": 20.0,
        "treebank": None,  # English-EWT's test set, or a CoNLL-U file
        "sentences": 300,
        "permutations": 50,
        "transformer": {"width": 48, "layers": 2, "heads": 4, "steps": 400, "sentences": 100},
    },
    "tiny": {
        "tokens": 6000,
        "types": 200,
        "hidden": 12,
        "epochs": 2,
        "seeds": [1],
        "rate": 5.0,
        "treebank": None,  # English-EWT's test set, or a CoNLL-U file
        "sentences": 40,
        "permutations": 5,
        "transformer": {"width": 8, "layers": 1, "heads": 2, "steps": 5, "sentences": 10},
    },
}


def treebank_file(data: Path | None, treebank: str | None) -> Path:
    """The treebank asked for, or English-EWT's test set."""
    if treebank is not None:
        return Path(treebank)
    name = "en_ewt-ud-test.conllu"
    return data_folder(data, "ud-english-ewt", name, "UD English-EWT") / name


def tasks(config: Config, data: Path | None, plan: Plan, runs: Runs) -> Tasks:
    """LSTM language models and what is measured on the treebank, and a transformer."""
    read_treebank(treebank_file(data, config["treebank"]))  # clear errors before any work
    WikiText(data, tokens=config["tokens"], types=config["types"])
    settings = {key: value for key, value in config.items() if key != "scale"}
    return {what: {"what": what, "data": data, "settings": settings} for what in ("lstm", "transformer")}


def learn(
    what: str, data: Path | None, settings: dict[str, Any], folder: Path, deadline: float | None
) -> dict[str, Any]:
    """Train on WikiText-2 and measure on a treebank (English-EWT's test set, or any CoNLL-U file)."""
    sentences = read_treebank(treebank_file(data, settings["treebank"]))[: settings["sentences"]]
    wiki = WikiText(data, tokens=settings["tokens"], types=settings["types"])
    work = learn_lstm if what == "lstm" else learn_transformer
    return work(sentences, wiki, settings, folder, deadline)


# --- LSTM language models, one a seed, and an untrained one -------------------------------------------------


def learn_lstm(
    sentences: list[Sentence], wiki: WikiText, settings: dict[str, Any], folder: Path, deadline: float | None
) -> dict[str, Any]:
    """What the trained models and the controls say about the treebank."""
    seeds, device = settings["seeds"], fast_device()
    stack = Stack(
        len(seeds), len(wiki.vocabulary), embedding=settings["hidden"], hidden=settings["hidden"], seeds=seeds
    ).to(device)
    untrained = stack.take(0, vocabulary=wiki.vocabulary)
    run = train_stack(
        stack,
        columns([torch.as_tensor(wiki.train)] * len(seeds), 20, device),
        epochs=settings["epochs"],
        rate=settings["rate"],
        valid=columns([torch.as_tensor(wiki.valid)] * len(seeds), 40, device),
        anneal=4.0,
        seed=seeds[0],
        folder=folder,
        deadline=deadline,
        settings={"config": settings},
        progress=False,
        title="WikiText-2",
    )
    made: dict[str, Any] = {"perplexity": [epoch["perplexity"] for epoch in run.metrics], "words": len(wiki.vocabulary)}
    if len(run.metrics) < settings["epochs"]:
        return {**made, "finished": False}
    models = [stack.take(m, vocabulary=wiki.vocabulary) for m in range(len(seeds))]
    models[0].save(folder / "model")
    made |= _on_treebank(sentences, models, untrained, wiki, settings["permutations"], folder)
    return {**made, "movement": _movement(sentences, models[0], wiki)}


def measure(
    model: LanguageModel,
    sentences: Sequence[Sequence[str]],
    device: str,
    *,
    read: str = "right",
    bias_rule: str = "focus",
) -> list[np.ndarray]:
    """Interdependence matrices of sentences, in float64."""
    dtype = torch.float64
    layers = [
        type(layer)(*(getattr(layer, name).to(device) for name in ("input", "recurrent", "bias")))
        for layer in layers_of(model.lstm, dtype)
    ]
    frame = triangle(model.decoder.weight.detach().to(device, dtype))
    with torch.no_grad():
        vectors = [model.vectors(model.encode(words)).to(device, dtype) for words in sentences]
        return [matrix.cpu().numpy() for matrix in all_pairs(layers, frame, vectors, read, bias_rule)]


def _on_treebank(
    sentences: list[Sentence],
    models: list[LanguageModel],
    untrained: LanguageModel,
    wiki: WikiText,
    permutations: int,
    folder: Path,
) -> dict[str, Any]:
    """All pairs of words under every model and rule, and the statistics of them."""
    words, device = [sentence.words for sentence in sentences], fast_device()
    unknown = sum(word not in wiki.vocabulary.index for sentence in words for word in sentence)
    random = np.random.default_rng(0)
    orders = [random.permutation(len(sentence)) for sentence in words]  # place of each word
    mixed = [[sentence[n] for n in np.argsort(order)] for sentence, order in zip(words, orders)]
    begun = time.time()
    found = {"trained": measure(models[0], words, device)}
    spent = time.time() - begun
    for number, model in enumerate(models[1:], 2):
        found[f"trained, seed {number}"] = measure(model, words, device)
    found["trained, read at the end"] = measure(models[0], words, device, read="end")
    found["trained, bias rule murdoch"] = measure(models[0], words, device, bias_rule="murdoch")
    found["untrained"] = measure(untrained, words, device)
    tables = {name: pair_table(sentences, matrices) for name, matrices in found.items()}
    tables["trained, shuffled sentences"] = pair_table(sentences, measure(models[0], mixed, device), orders)
    _save_pairs(folder, tables)
    trained = tables["trained"]
    nine = stratified_means(trained.where(trained.kind >= 0), ["apart", "kind", "tree"])
    return {
        "treebank": {"sentences": len(sentences), "words": sum(map(len, words)), "unknown": unknown},
        "pairs": sum(len(w) * (len(w) - 1) // 2 for w in words),
        "pair_seconds": spent,
        "figure8": [vars(mean) for mean in stratified_means(trained, ["apart"])],
        "figure9": [vars(mean) for mean in nine],
        "lines": [[apart, kind, slope] for (apart, kind), slope in line_slopes(nine).items()],
        "slopes": {name: _slope(sentences, name, table, permutations) for name, table in tables.items()},
        "frequency": _frequency(words, trained, wiki),
        "attachment": _attachment(sentences, found),
    }


def _save_pairs(folder: Path, tables: dict[str, Pairs]) -> None:
    first = next(iter(tables.values()))
    columns_: dict[str, Any] = {name: getattr(first, name).astype(np.int32) for name in ("sentence", "left", "right")}
    columns_ |= {name.replace(", ", "_").replace(" ", "_"): t.value.astype(np.float32) for name, t in tables.items()}
    with written_atomically(folder / "pairs.npz") as made:
        np.savez_compressed(made, allow_pickle=False, **columns_)


def line_slopes(means: Sequence[Mean]) -> dict[tuple[int, int], float]:
    """The slope over syntactic distance of each line of figure 9: of each (sequential distance, class)."""
    slopes = {}
    for apart in range(1, 11):
        for kind in range(len(CLASSES)):
            line = [m for m in means if m.key[:2] == (apart, kind)]
            if len(line) >= 3:
                x, y, w = (np.array(v, float) for v in zip(*((m.key[2], m.mean, m.count) for m in line)))
                x -= np.average(x, weights=w)
                slopes[apart, kind] = float((w * x * y).sum() / (w * x * x).sum())
    return slopes


def _slope(sentences: list[Sentence], name: str, table: Pairs, permutations: int) -> dict[str, Any]:
    """The regression on tree distance given distance and class."""
    classed = table.where(table.kind >= 0)
    found: dict[str, Any] = {**vars(regression(classed)), "mean": float(classed.value.mean())}
    if name in ("trained", "untrained"):
        found["p"] = permutation_test(sentences, classed, permutations=permutations)[1]
    lines = line_slopes(stratified_means(classed, ["apart", "kind", "tree"], samples=2))
    return {**found, "lines": len(lines), "falling": sum(slope < 0 for slope in lines.values())}


def _frequency(words: Sequence[Sequence[str]], table: Pairs, wiki: WikiText) -> dict[str, float]:
    """Rank correlations of interdependence with the words' frequencies."""
    counts = [np.log1p(wiki.counts[wiki.vocabulary.encode(sentence)]) for sentence in words]
    left, right = (np.array([counts[s][w] for s, w in zip(table.sentence, side)]) for side in (table.left, table.right))
    found = {}
    for apart in (None, 1, 2, 5):
        chosen = np.ones(len(left), bool) if apart is None else table.apart == apart
        for name, values in (("left", left), ("right", right), ("rarer", np.minimum(left, right))):
            found[f"{'all' if apart is None else f'distance {apart}'}, {name}"] = spearman(
                values[chosen], table.value[chosen]
            )
    return found


def _attachment(sentences: list[Sentence], found: dict[str, list[np.ndarray]]) -> dict[str, list[float]]:
    """How many edges of the trees each guess has, with and without punctuation."""
    scores: dict[str, list[float]] = {}

    def score(name: str, guess: Callable[[int], set[tuple[int, int]]]) -> None:
        scores[name] = [attachment(sentences, guess), attachment(sentences, guess, punctuation=False)]

    score("adjacent words", lambda n: chain(len(sentences[n])))
    for name in ("trained", "trained, read at the end", "trained, bias rule murdoch", "untrained"):
        matrices, plain = found[name], less_proximity(sentences, found[name])
        score(name, lambda n, m=matrices: maximum_spanning_tree(m[n]))  # type: ignore[misc]
        score(f"{name}, over the mean at its distance", lambda n, m=plain: maximum_spanning_tree(m[n]))  # type: ignore[misc]
    return scores


def _movement(sentences: list[Sentence], model: LanguageModel, wiki: WikiText) -> dict[str, list[float]]:
    """Section 2.1's second error: how far v_β moves when words out of focus are replaced."""
    random, device = np.random.default_rng(1), fast_device()
    moved: dict[str, list[float]] = {"relevant": [], "logits": []}
    chance = wiki.counts / wiki.counts.sum()
    model = model.to(device)
    for sentence in [s for s in sentences if 5 <= len(s) <= 30][:150]:
        tokens = model.encode(sentence.words)
        focus = int(random.integers(len(tokens)))
        other = torch.as_tensor(random.choice(len(chance), size=len(tokens), p=chance), device=tokens.device)
        other[focus] = tokens[focus]
        pair = model.vectors(torch.stack([tokens, other]))
        parts = decompose(model.lstm, model.decoder, pair, [focus])
        for name, values in (("relevant", parts.relevant_logits[:, -1]), ("logits", parts.logits[:, -1])):
            moved[name].append(float((values[0] - values[1]).norm() / values[0].norm()))
    model.to("cpu")
    return moved


# --- a transformer language model ---------------------------------------------------------------------------


def learn_transformer(
    sentences: list[Sentence], wiki: WikiText, settings: dict[str, Any], folder: Path, deadline: float | None
) -> dict[str, Any]:
    """The same measurements on a transformer, before and after training."""
    torch.manual_seed(3)
    config, length, batch, device = settings["transformer"], 64, 32, fast_device()
    model = TransformerLanguageModel(
        len(wiki.vocabulary),
        width=config["width"],
        heads=config["heads"],
        layers=config["layers"],
        length=128,
    ).to(device)
    longest = max(map(len, sentences))
    sample = [s for s in sentences if len(s) <= min(30, longest)][: config["sentences"]]
    tokens = [torch.tensor(wiki.vocabulary.encode(s.words), device=device) for s in sample]

    def matrices() -> list[np.ndarray]:
        return [matrix.cpu().numpy() for matrix in transformer_interdependence(model.eval(), tokens)]

    before = matrices()
    windows = torch.as_tensor(wiki.train, device=device)[: len(wiki.train) // length * length].view(-1, length)
    held = torch.as_tensor(wiki.valid, device=device)[: len(wiki.valid) // length * length].view(-1, length)[:1000]
    order = shuffled(3, len(windows), batch)

    def loss(net: torch.nn.Module, rows: Tensor) -> Tensor:
        logits = net(rows[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())

    def evaluate(net: torch.nn.Module) -> dict[str, Any]:
        return {"perplexity": math.exp(np.mean([float(loss(net, part)) for part in held.split(batch)]))}

    steps = config["steps"]
    run = train(
        model,
        torch.optim.AdamW(model.parameters(), lr=1e-3),
        loss,
        lambda step: windows[order(step).to(device)],
        steps=steps,
        clip=1.0,
        seed=3,
        schedule=lambda step: 1e-3 * min(1, (step + 1) / 200) * (1 - step / steps),
        settings={"config": config},
        title="transformer",
        evaluation=Evaluation(measure=evaluate, every=max(1, steps // 4)),
        storage=Storage(folder=folder, save_seconds=60, progress=False, deadline=deadline),
    )
    if not run.metrics or run.last["step"] < steps:
        return {"metrics": run.metrics, "finished": False}
    made: dict[str, Any] = {"metrics": run.metrics, "sentences": len(sample)}
    made["adjacent"] = attachment(sample, lambda n: chain(len(sample[n])))
    for name, found in (("trained", matrices()), ("untrained", before)):
        table = pair_table(sample, found)
        made[name] = {
            "distances": [vars(mean) for mean in stratified_means(table, ["apart"])[:6]],
            "slope": vars(regression(table.where(table.kind >= 0))),
            "attachment": attachment(sample, lambda n, m=found: maximum_spanning_tree(m[n])),  # type: ignore[misc]
        }
    return made


# --- the table ----------------------------------------------------------------------------------------------


def rows(config: Config) -> list[Row]:
    """Language models, figures 8 and 9, regressions and controls, the syntax probe, the transformer."""
    seeds = [f"trained, seed {number}" for number in range(2, len(config["seeds"]) + 1)]
    variants = ["trained", *seeds, "trained, read at the end", "trained, bias rule murdoch", "untrained"]
    about = f"one layer, {config['hidden']} units, {config['epochs']} epochs"
    return [
        _row(
            "WikiText-2 language model: validation perplexity",
            "(not given; about 150 or less expected)",
            lambda run: ", ".join(f"{x:.1f}" for x in run["perplexity"][-1]),
            lambda run: f"last epoch, seeds {config['seeds']}; {about}, {run['words']:,} words",
        ),
        _row("Treebank", "UD English-EWT", _treebank_text, _unknown_text),
        _row(
            "All pairs of the treebank, read at the right word",
            "",
            lambda run: f"{run['pair_seconds']:.1f} s",
            lambda run: "float64",
        ),
        _row(
            "Figure 8: closer words are more interdependent",
            "falls with sequential distance",
            _figure8_text,
            lambda run: "95 % intervals over sentences",
        ),
        _row(
            "Figure 9: at one distance and class, interdependence falls with syntactic distance",
            "broadly decreasing",
            lambda run: f"{sum(slope < 0 for *_, slope in run['lines'])} of {len(run['lines'])} lines fall",
            lambda run: "weighted slope of each line of at least 3 means of at least 100 pairs, distances 1–10",
            criterion=Criterion("more than three quarters of the lines fall", lambda run: _falling(run) > 0.75),
        ),
        _row("Figure 9: clearer for words further apart", "clearer", _clearer_text, lambda run: ""),
        *(_slope_row(name) for name in [*variants, "trained, shuffled sentences"]),
        _row(
            "Correlation of interdependence with raw word frequency",
            "no clear correlation",
            lambda run: "; ".join(f"{name} {value:+.2f}" for name, value in run["frequency"].items()),
            lambda run: "Spearman with log frequency in WikiText-2",
            criterion=Criterion(
                "all correlations are below 0.1 in size",
                lambda run: all(abs(value) < 0.1 for value in run["frequency"].values()),
            ),
        ),
        _row(
            "Syntax probe: unlabelled undirected attachment of the maximum spanning tree",
            "(future work)",
            lambda run: "; ".join(
                f"{n} {a:.1%} ({b:.1%} without punctuation)" for n, (a, b) in run["attachment"].items()
            ),
            lambda run: "",
        ),
        _row(
            "How far v_β moves when all words out of focus are replaced (section 2.1)",
            "(named, not measured)",
            _movement_text,
            lambda run: f"one word in focus, read at the end, {len(run['movement']['relevant'])} sentences",
        ),
        _transformer_row("trained"),
        _transformer_row("untrained"),
    ]


Text = Callable[[dict[str, Any]], str]


def _falling(run: dict[str, Any]) -> float:
    """The share of figure 9's lines that fall."""
    slopes = [float(slope) for *_, slope in run["lines"]]
    return sum(slope < 0 for slope in slopes) / max(1, len(slopes))


def _row(name: str, paper: str, text: Text, note: Text, task: str = "lstm", criterion: Criterion | None = None) -> Row:
    """A row that is read off one finished task."""

    def measure_row(runs: Runs) -> Measured | None:
        run = runs.get(task)
        if run is None or ("treebank" if task == "lstm" else "trained") not in run:
            return None
        seeds = len(run["perplexity"][-1]) if task == "lstm" else 1
        return Measured(text(run), run, seeds=seeds, note=note(run), runs=(task,))

    return Row(name, measure_row, paper, criterion=criterion)


def _treebank_text(run: dict[str, Any]) -> str:
    return f"{run['treebank']['sentences']:,} sentences, {run['treebank']['words']:,} words, {run['pairs']:,} pairs"


def _unknown_text(run: dict[str, Any]) -> str:
    return f"{run['treebank']['unknown'] / run['treebank']['words']:.1%} of words are unknown"


def _figure8_text(run: dict[str, Any]) -> str:
    near = run["figure8"][:10]
    falls = sum(a["mean"] > b["mean"] for a, b in pairwise(near))
    means = ", ".join(f"{m['key'][0]}: {m['mean']:.3f} [{m['low']:.3f}, {m['high']:.3f}]" for m in near)
    return f"{falls} of {len(near) - 1} steps of the first {len(near)} fall; {means}"


def _clearer_text(run: dict[str, Any]) -> str:
    halves = [[slope < 0 for apart, _, slope in run["lines"] if lo <= apart <= hi] for lo, hi in ((1, 5), (6, 10))]
    if not all(halves):
        return "too few lines"
    a, b = (float(np.mean(half)) for half in halves)
    return f"{a:.0%} of lines fall at distances 1–5, {b:.0%} at 6–10"


def _slope_row(name: str) -> Row:
    def text(run: dict[str, Any]) -> str:
        found = run["slopes"][name]
        said = f"{found['slope']:+.2e} an edge [{found['low']:+.2e}, {found['high']:+.2e}]"
        said += f", {found['slope'] / found['mean']:+.2%} of the mean"
        said += f"; permutation of trees p = {found['p']:.4f}" if "p" in found else ""
        return f"{said}; {found['falling']} of {found['lines']} lines of figure 9 fall"

    expected = "falls" if name.startswith("trained") and "shuffled" not in name else "(control)"
    return _row(
        f"Regression on tree distance given distance and class: {name}",
        expected,
        text,
        lambda run: f"{run['slopes'][name]['pairs']:,} pairs; interval over sentences",
    )


def _movement_text(run: dict[str, Any]) -> str:
    moved, whole = run["movement"]["relevant"], run["movement"]["logits"]
    low, high = np.percentile(moved, 25), np.percentile(moved, 75)
    return (
        f"median {np.median(moved):.3f} of ‖v_β‖ (quartiles {low:.3f}–{high:.3f}); "
        f"the logits themselves move by {np.median(whole):.3f}"
    )


def _transformer_row(name: str) -> Row:
    def text(run: dict[str, Any]) -> str:
        found = run[name]
        slope, near = found["slope"], ", ".join(f"{m['key'][0]}: {m['mean']:.3f}" for m in found["distances"])
        return (
            f"by distance {near}; {slope['slope']:+.2e} an edge [{slope['low']:+.2e}, {slope['high']:+.2e}]; "
            f"attachment {found['attachment']:.1%} (adjacent words {run['adjacent']:.1%})"
        )

    def note(run: dict[str, Any]) -> str:
        last = f"validation perplexity {run['metrics'][-1]['perplexity']:.0f}" if name == "trained" else "control"
        return f"{run['sentences']} sentences; {last}"

    return _row(f"Transformer language model, {name}", "(future work)", text, note, "transformer")


def draw(folder: Path, config: Config, runs: Runs) -> None:
    """Figures 8 and 9 as PNG, with intervals."""
    run = runs.get("lstm", {})
    if "figure8" not in run:
        return
    with plot(folder / "figure8.png", 1, width=5) as (axis,):
        rows = [row for row in run["figure8"] if row["key"][0] <= 30]
        x, mean, low, high = (
            [row["key"][0] if name == "key" else row[name] for row in rows] for name in ("key", "mean", "low", "high")
        )
        axis.plot(x, mean, "o-", ms=3)
        axis.fill_between(x, low, high, alpha=0.3, lw=0)
        axis.set_title("Figure 8: interdependence by sequential distance", fontsize=9)
        axis.set_xlabel("r − l")
    with plot(folder / "figure9.png", 6, width=2.7) as axes:
        for axis, apart in zip(axes, (1, 2, 3, 4, 6, 8)):
            for kind, name in enumerate(CLASSES):
                rows = [row for row in run["figure9"] if tuple(row["key"][:2]) == (apart, kind)]
                if rows:
                    axis.errorbar(
                        [row["key"][2] for row in rows],
                        [row["mean"] for row in rows],
                        [
                            [row["mean"] - row["low"] for row in rows],
                            [row["high"] - row["mean"] for row in rows],
                        ],
                        fmt="o-",
                        ms=3,
                        lw=1,
                        label=name,
                    )
            axis.set_title(f"Figure 9: distance {apart}", fontsize=9)
            axis.set_xlabel("syntactic distance")
        if axes[0].get_legend_handles_labels()[0]:
            axes[0].legend(fontsize=7)


ENGLISH = Experiment("interdependence.english", SCALES, (tasks,), learn, rows, draw)
