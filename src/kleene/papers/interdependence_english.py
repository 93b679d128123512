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
from kleene.papers.report import Result, plot
from kleene.papers.tasks import at_scale
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
        "sentences": 40,
        "permutations": 5,
        "transformer": {"width": 8, "layers": 1, "heads": 2, "steps": 5, "sentences": 10},
    },
}


def english(
    scale: str = "small",
    data: Path | None = None,
    folder: Path | str = "results/interdependence.english",
    progress: bool = True,
    treebank: Path | None = None,
) -> Result:
    """Train on WikiText-2, measure on a treebank (English-EWT's test set, or any CoNLL-U file), compare."""
    config, folder = at_scale(SCALES, scale), Path(folder)
    result = Result("interdependence.english", folder, {"scale": scale, **config})
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if treebank is None:
        where = data_folder(data, "ud-english-ewt", "en_ewt-ud-test.conllu", "UD English-EWT")
        treebank = where / "en_ewt-ud-test.conllu"
    sentences = read_treebank(treebank)[: config["sentences"]]
    wiki = WikiText(data, tokens=config["tokens"], types=config["types"])
    models, untrained = _language_models(result, wiki, config, device, progress)
    _treebank_rows(result, sentences, models, untrained, wiki, config, device)
    _movement_rows(result, sentences, models[0], wiki, device)
    _transformer_rows(result, sentences, wiki, config["transformer"], device, progress)
    draw(result)
    result.write()
    return result


def _stage(result: Result, name: str) -> None:
    """Note how long it has taken so far."""
    result.metrics.setdefault("stages", {})[name] = round(time.time() - result.started, 1)
    result.write()  # what there is, should the rest be interrupted


def _language_models(
    result: Result, wiki: WikiText, config: dict[str, Any], device: str, progress: bool
) -> tuple[list[LanguageModel], LanguageModel]:
    """Trained language models, one a seed, and an untrained one."""
    seeds = config["seeds"]
    stack = Stack(
        len(seeds), len(wiki.vocabulary), embedding=config["hidden"], hidden=config["hidden"], seeds=seeds
    ).to(device)
    untrained = stack.take(0, vocabulary=wiki.vocabulary)
    text = columns([torch.as_tensor(wiki.train)] * len(seeds), 20, device)
    valid = columns([torch.as_tensor(wiki.valid)] * len(seeds), 40, device)
    run = train_stack(
        stack,
        text,
        epochs=config["epochs"],
        rate=config["rate"],
        valid=valid,
        anneal=4.0,
        seed=seeds[0],
        folder=result.folder / "run",
        settings={"config": config},
        progress=progress,
        title="WikiText-2",
    )
    curves = np.array([epoch["perplexity"] for epoch in run.metrics])
    result.metrics["perplexity"] = curves.tolist()
    result.row(
        "WikiText-2 language model: validation perplexity",
        "(not given; about 150 or less expected)",
        ", ".join(f"{x:.1f}" for x in curves[-1]),
        f"last epoch, seeds {seeds}; one layer, {config['hidden']} units, "
        f"{len(wiki.vocabulary):,} words, {config['epochs']} epochs",
    )
    models = [stack.take(m, vocabulary=wiki.vocabulary) for m in range(len(seeds))]
    models[0].save(result.folder / "model")
    _stage(result, "language models")
    return models, untrained


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


def _treebank_rows(
    result: Result,
    sentences: list[Sentence],
    models: list[LanguageModel],
    untrained: LanguageModel,
    wiki: WikiText,
    config: dict[str, Any],
    device: str,
) -> Pairs:
    words = [sentence.words for sentence in sentences]
    total = sum(map(len, words))
    unknown = sum(word not in wiki.vocabulary.index for sentence in words for word in sentence)
    result.row(
        "Treebank",
        "UD English-EWT",
        f"{len(sentences):,} sentences, {total:,} words, {sum(len(w) * (len(w) - 1) // 2 for w in words):,} pairs",
        f"{unknown / total:.1%} of words are unknown",
    )
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
    result.row("All pairs of the treebank, read at the right word", "", f"{spent:.1f} s", "float64")
    _stage(result, "interdependence")
    _save_pairs(result, tables)
    _figure_rows(result, tables["trained"])
    _slope_rows(result, sentences, tables, config["permutations"])
    _frequency_rows(result, words, tables["trained"], wiki)
    _probe_rows(result, sentences, found)
    _stage(result, "statistics")
    return tables["trained"]


def _save_pairs(result: Result, tables: dict[str, Pairs]) -> None:
    first = next(iter(tables.values()))
    columns_: dict[str, Any] = {name: getattr(first, name).astype(np.int32) for name in ("sentence", "left", "right")}
    columns_ |= {name.replace(", ", "_").replace(" ", "_"): t.value.astype(np.float32) for name, t in tables.items()}
    with written_atomically(result.folder / "pairs.npz") as made:
        np.savez_compressed(made, allow_pickle=False, **columns_)


def _figure_rows(result: Result, table: Pairs) -> None:
    """Figures 8 and 9."""
    eight = stratified_means(table, ["apart"])
    result.metrics["figure8"] = [vars(mean) for mean in eight]
    near = eight[:10]
    falls = sum(a.mean > b.mean for a, b in pairwise(near))
    result.row(
        "Figure 8: closer words are more interdependent",
        "falls with sequential distance",
        f"{falls} of {len(near) - 1} steps of the first {len(near)} fall; "
        + ", ".join(f"{m.key[0]}: {m.mean:.3f} [{m.low:.3f}, {m.high:.3f}]" for m in near),
        "95 % intervals over sentences",
    )
    classed = table.where(table.kind >= 0)
    nine = stratified_means(classed, ["apart", "kind", "tree"])
    result.metrics["figure9"] = [vars(mean) for mean in nine]
    trends = line_slopes(nine)
    down = sum(slope < 0 for slope in trends.values())
    result.row(
        "Figure 9: at one distance and class, interdependence falls with syntactic distance",
        "broadly decreasing",
        f"{down} of {len(trends)} lines fall",
        "weighted slope of each line of at least 3 means of at least 100 "
        "pairs, distances 1–10; holds where more than three quarters fall",
    )
    halves = [[slope < 0 for (apart, _), slope in trends.items() if lo <= apart <= hi] for lo, hi in ((1, 5), (6, 10))]
    if all(halves):
        a, b = (float(np.mean(half)) for half in halves)
        result.row(
            "Figure 9: clearer for words further apart",
            "clearer",
            f"{a:.0%} of lines fall at distances 1–5, {b:.0%} at 6–10",
        )


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


def _slope_rows(result: Result, sentences: list[Sentence], tables: dict[str, Pairs], permutations: int) -> None:
    for name, table in tables.items():
        classed = table.where(table.kind >= 0)
        found = regression(classed)
        scale = float(classed.value.mean())
        text = f"{found.slope:+.2e} an edge [{found.low:+.2e}, {found.high:+.2e}]"
        text += f", {found.slope / scale:+.2%} of the mean"
        if name in ("trained", "untrained"):
            _, p = permutation_test(sentences, classed, permutations=permutations)
            text += f"; permutation of trees p = {p:.4f}"
            result.metrics[f"permutation.{name}"] = p
        lines = line_slopes(stratified_means(classed, ["apart", "kind", "tree"], samples=2))
        text += f"; {sum(slope < 0 for slope in lines.values())} of {len(lines)} lines of figure 9 fall"
        result.metrics[f"slope.{name}"] = vars(found)
        expected = "falls" if name.startswith("trained") and "shuffled" not in name else "(control)"
        result.row(
            f"Regression on tree distance given distance and class: {name}",
            expected,
            text,
            f"{found.pairs:,} pairs; interval over sentences",
        )


def _frequency_rows(result: Result, words: Sequence[Sequence[str]], table: Pairs, wiki: WikiText) -> None:
    counts = [np.log1p(wiki.counts[wiki.vocabulary.encode(sentence)]) for sentence in words]
    left, right = (np.array([counts[s][w] for s, w in zip(table.sentence, side)]) for side in (table.left, table.right))
    found = {}
    for apart in (None, 1, 2, 5):
        chosen = np.ones(len(left), bool) if apart is None else table.apart == apart
        for name, values in (("left", left), ("right", right), ("rarer", np.minimum(left, right))):
            found[f"{'all' if apart is None else f'distance {apart}'}, {name}"] = spearman(
                values[chosen], table.value[chosen]
            )
    result.metrics["frequency"] = found
    result.row(
        "Correlation of interdependence with raw word frequency",
        "no clear correlation",
        "; ".join(f"{name} {value:+.2f}" for name, value in found.items()),
        "Spearman with log frequency in WikiText-2; holds where all are below 0.1 in size",
    )


def _probe_rows(result: Result, sentences: list[Sentence], found: dict[str, list[np.ndarray]]) -> None:
    scores: dict[str, tuple[float, float]] = {}

    def score(name: str, guess: Callable[[int], set[tuple[int, int]]]) -> None:
        scores[name] = (attachment(sentences, guess), attachment(sentences, guess, punctuation=False))

    score("adjacent words", lambda n: chain(len(sentences[n])))
    for name in ("trained", "trained, read at the end", "trained, bias rule murdoch", "untrained"):
        matrices, plain = found[name], less_proximity(sentences, found[name])
        score(name, lambda n, m=matrices: maximum_spanning_tree(m[n]))  # type: ignore[misc]
        score(f"{name}, over the mean at its distance", lambda n, m=plain: maximum_spanning_tree(m[n]))  # type: ignore[misc]
    result.metrics["attachment"] = scores
    result.row(
        "Syntax probe: unlabelled undirected attachment of the maximum spanning tree",
        "(future work)",
        "; ".join(f"{name} {a:.1%} ({b:.1%} without punctuation)" for name, (a, b) in scores.items()),
        "holds where the trained model beats adjacent words and the untrained model",
    )


def _movement_rows(
    result: Result, sentences: list[Sentence], model: LanguageModel, wiki: WikiText, device: str
) -> None:
    """Section 2.1's second error: how far v_β moves when words out of focus are replaced."""
    random, moved, whole = np.random.default_rng(1), [], []
    chance = wiki.counts / wiki.counts.sum()
    chosen = [s for s in sentences if 5 <= len(s) <= 30][:150]
    model = model.to(device)
    for sentence in chosen:
        tokens = model.encode(sentence.words)
        focus = int(random.integers(len(tokens)))
        other = torch.as_tensor(random.choice(len(chance), size=len(tokens), p=chance), device=tokens.device)
        other[focus] = tokens[focus]
        pair = model.vectors(torch.stack([tokens, other]))
        parts = decompose(model.lstm, model.decoder, pair, [focus])
        relevant, logits = parts.relevant_logits[:, -1], parts.logits[:, -1]
        moved.append(float((relevant[0] - relevant[1]).norm() / relevant[0].norm()))
        whole.append(float((logits[0] - logits[1]).norm() / logits[0].norm()))
    model.to("cpu")
    result.metrics["movement"] = {"relevant": moved, "logits": whole}
    result.row(
        "How far v_β moves when all words out of focus are replaced (section 2.1)",
        "(named, not measured)",
        f"median {np.median(moved):.3f} of ‖v_β‖ (quartiles {np.percentile(moved, 25):.3f}–"
        f"{np.percentile(moved, 75):.3f}); "
        f"the logits themselves move by {np.median(whole):.3f}",
        f"one word in focus, read at the end, {len(moved)} sentences",
    )


def _transformer_rows(
    result: Result,
    sentences: list[Sentence],
    wiki: WikiText,
    config: dict[str, Any],
    device: str,
    progress: bool,
) -> None:
    torch.manual_seed(3)
    length, batch = 64, 32
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
        storage=Storage(folder=result.folder / "transformer", save_seconds=60, progress=progress),
    )
    after = matrices()
    result.metrics["transformer"] = run.metrics
    for name, found in (("trained", after), ("untrained", before)):
        table = pair_table(sample, found)
        slope, eight = regression(table.where(table.kind >= 0)), stratified_means(table, ["apart"])[:6]
        tree = attachment(sample, lambda n, m=found: maximum_spanning_tree(m[n]))  # type: ignore[misc]
        result.row(
            f"Transformer language model, {name}",
            "(future work)",
            f"by distance {', '.join(f'{m.key[0]}: {m.mean:.3f}' for m in eight)}; {slope.slope:+.2e} an edge"
            " "
            f"[{slope.low:+.2e}, {slope.high:+.2e}]; attachment {tree:.1%} (adjacent words "
            f"{attachment(sample, lambda n: chain(len(sample[n]))):.1%})",
            f"{len(sample)} sentences; "
            + (f"validation perplexity {run.last['perplexity']:.0f}" if name == "trained" else "control"),
        )
    _stage(result, "transformer")


def draw(result: Result) -> None:
    """Figures 8 and 9 as PNG, with intervals."""
    with plot(result.folder / "figure8.png", 1, width=5) as (axis,):
        rows = [row for row in result.metrics["figure8"] if row["key"][0] <= 30]
        x, mean, low, high = (
            [row["key"][0] if name == "key" else row[name] for row in rows] for name in ("key", "mean", "low", "high")
        )
        axis.plot(x, mean, "o-", ms=3)
        axis.fill_between(x, low, high, alpha=0.3, lw=0)
        axis.set_title("Figure 8: interdependence by sequential distance", fontsize=9)
        axis.set_xlabel("r − l")
    with plot(result.folder / "figure9.png", 6, width=2.7) as axes:
        for axis, apart in zip(axes, (1, 2, 3, 4, 6, 8)):
            for kind, name in enumerate(CLASSES):
                rows = [row for row in result.metrics["figure9"] if tuple(row["key"][:2]) == (apart, kind)]
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
