"""Section 4 and the paper's future work: interdependence in English (figures 8 and 9), and controls.

WikiText-2 language models, one a seed, read UD English-EWT. Beside each: an untrained one, shuffled sentences, pairs
read at the sentence's end, both bias rules, and a probe for syntax; and a transformer.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from multiprocessing import get_context
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
from kleene.networks.trained.lstm import LanguageModel, load
from kleene.networks.trained.transformer_lm import TransformerLanguageModel
from kleene.papers.protocol import Config, Criterion, Experiment, Measured, Row, Runs
from kleene.papers.report import plot
from kleene.papers.tasks import Plan, Tasks, Together, fast_device
from kleene.papers.wikitext import WikiText, data_folder
from kleene.training.language_model import Stack, StackPlan, columns, train_stack
from kleene.training.loop import shuffled, train
from kleene.training.options import Evaluation, GradientStep, Storage

SCALES: dict[str, dict[str, Any]] = {
    "paper": {
        "tokens": None,
        "types": None,
        "hidden": 200,
        "epochs": 40,
        "seeds": [1, 2, 3, 4, 5],
        "rate": 20.0,
        "treebank": None,  # the whole of English-EWT, or a CoNLL-U file
        "sentences": None,
        "trees": 2077,  # sentences of the syntax probe: English-EWT's test set
        "permutations": 100,
        "transformer": {"width": 128, "layers": 2, "heads": 4, "steps": 8000, "sentences": 600},
    },
    "small": {
        "tokens": 150_000,
        "types": 2000,
        "hidden": 64,
        "epochs": 6,
        "seeds": [1],
        "rate": 20.0,
        "treebank": None,
        "sentences": 300,
        "trees": 300,
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
        "treebank": None,
        "sentences": 40,
        "trees": 40,
        "permutations": 5,
        "transformer": {"width": 8, "layers": 1, "heads": 2, "steps": 5, "sentences": 10},
    },
}


def read_sentences(data: Path | None, treebank: str | None, count: int | None) -> list[Sentence]:
    """The first sentences of the treebank asked for, or of English-EWT: its test set, then the others."""
    if treebank is not None:
        return read_treebank(treebank)[:count]
    found: list[Sentence] = []
    for part in ("test", "dev", "train"):
        name = f"en_ewt-ud-{part}.conllu"
        if count is None or len(found) < count:
            found += read_treebank(data_folder(data, "ud-english-ewt", name, "UD English-EWT") / name)
    return found[:count]


def tasks(config: Config, data: Path | None, plan: Plan, runs: Runs) -> Tasks:
    """LSTM language models, one a seed, and what is measured on the treebank; and a transformer."""
    read_sentences(data, config["treebank"], 1)  # clear errors before any work
    WikiText(data, tokens=config["tokens"], types=config["types"])
    settings = {key: value for key, value in config.items() if key not in ("scale", "seeds")}
    shared = {"data": data, "settings": settings}
    lstms = {f"lstm-seed-{seed}": {"what": "lstm", "seed": seed, **shared} for seed in config["seeds"]}
    return {**lstms, "transformer": {"what": "transformer", "seed": 3, **shared}}


def learn(what: str, folder: Path, deadline: float | None, **arguments: Any) -> dict[str, Any]:
    """Train on WikiText-2 and measure on a treebank (the whole of English-EWT, or any CoNLL-U file)."""
    if what == "transformer":
        return learn_transformer(**arguments, folder=folder, deadline=deadline)
    (made,) = train_lstms([arguments["seed"]], arguments["data"], arguments["settings"], folder, deadline)
    return made if made.get("finished") is False else made | on_treebank(**arguments, folder=folder)


def learn_together(
    tasks: Mapping[str, Mapping[str, Any]], folder: Path, deadline: float | None
) -> dict[str, dict[str, Any]]:
    """LSTMs of several seeds, trained side by side; each is measured in a process of its own."""
    each = list(tasks.values())
    data, settings, seeds = each[0]["data"], each[0]["settings"], [one["seed"] for one in each]
    made = train_lstms(seeds, data, settings, folder, deadline)
    if any(one.get("finished") is False for one in made):
        return dict(zip(tasks, made))
    workers = min(len(seeds), os.cpu_count() or 1)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        found = [pool.submit(on_treebank, seed, data, settings, folder) for seed in seeds]
        return {name: one | future.result() for name, one, future in zip(tasks, made, found)}


def group(arguments: Mapping[str, Any]) -> str | None:
    """The LSTMs learn side by side."""
    return "together-lstm" if arguments["what"] == "lstm" else None


# --- LSTM language models, one a seed, and an untrained one -------------------------------------------------


def train_lstms(
    seeds: list[int], data: Path | None, settings: dict[str, Any], folder: Path, deadline: float | None
) -> list[dict[str, Any]]:
    """Train the models of these seeds side by side, and save each, trained and untrained, to the folder."""
    device, wiki = fast_device(), read_wiki(data, settings)
    sizes = {"embedding": settings["hidden"], "hidden": settings["hidden"]}
    stack = Stack(len(seeds), len(wiki.vocabulary), seeds=seeds, **sizes).to(device)
    untrained = [stack.take(n, vocabulary=wiki.vocabulary) for n in range(len(seeds))]
    run = train_stack(
        stack,
        columns([torch.as_tensor(wiki.train)] * len(seeds), 20, device),
        StackPlan(settings["epochs"], settings["rate"], anneal=4.0, seed=seeds[0]),
        valid=columns([torch.as_tensor(wiki.valid)] * len(seeds), 40, device),
        settings={"config": settings, "seeds": seeds},
        storage=Storage(folder=folder, deadline=deadline),
        title="WikiText-2",
    )
    done = len(run.metrics) == settings["epochs"] and (deadline is None or time.monotonic() < deadline)
    for n, seed in enumerate(seeds if done else []):
        stack.take(n, vocabulary=wiki.vocabulary).save(folder / f"trained-{seed}")
        untrained[n].save(folder / f"untrained-{seed}")
    return [
        {"perplexity": [epoch["perplexity"][n] for epoch in run.metrics], "words": len(wiki.vocabulary)}
        | ({} if done else {"finished": False})
        for n in range(len(seeds))
    ]


def read_wiki(data: Path | None, settings: dict[str, Any]) -> WikiText:
    return WikiText(data, tokens=settings["tokens"], types=settings["types"])


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


VARIANTS = ("trained", "read at the end", "bias rule murdoch", "untrained", "shuffled sentences")


def on_treebank(seed: int, data: Path | None, settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """All pairs of words under every rule and control, and the statistics of them, of a saved model."""
    sentences, wiki = read_sentences(data, settings["treebank"], settings["sentences"]), read_wiki(data, settings)
    model, untrained = (load(folder / f"{name}-{seed}") for name in ("trained", "untrained"))
    words, device = [sentence.words for sentence in sentences], fast_device()
    unknown = sum(word not in wiki.vocabulary.index for sentence in words for word in sentence)
    random = np.random.default_rng(0)
    orders = [random.permutation(len(sentence)) for sentence in words]  # place of each word
    mixed = [[sentence[n] for n in np.argsort(order)] for sentence, order in zip(words, orders)]
    begun = time.time()
    found = {"trained": measure(model, words, device)}
    spent = time.time() - begun
    found["read at the end"] = measure(model, words, device, read="end")
    found["bias rule murdoch"] = measure(model, words, device, bias_rule="murdoch")
    found["untrained"] = measure(untrained, words, device)
    tables = {name: pair_table(sentences, matrices) for name, matrices in found.items()}
    tables["shuffled sentences"] = pair_table(sentences, measure(model, mixed, device), orders)
    trained = tables["trained"]
    nine = stratified_means(_lines(trained), ["apart", "kind", "tree"])
    return {
        "treebank": {"sentences": len(sentences), "words": sum(map(len, words)), "unknown": unknown},
        "pairs": sum(len(w) * (len(w) - 1) // 2 for w in words),
        "pair_seconds": spent,
        "figure8": [vars(mean) for mean in stratified_means(trained.where(trained.apart <= 30), ["apart"])],
        "figure9": [vars(mean) for mean in nine],
        "lines": [[apart, kind, slope] for (apart, kind), slope in line_slopes(nine).items()],
        "slopes": {name: _slope(sentences, name, table, settings["permutations"]) for name, table in tables.items()},
        "frequency": _frequency(words, trained, wiki),
        "attachment": _attachment(sentences[: settings["trees"]], found),
        "movement": _movement(sentences, model, wiki),
    }


def _lines(table: Pairs) -> Pairs:
    """The pairs of figure 9: both words of a class, at most ten apart."""
    return table.where((table.kind >= 0) & (table.apart <= 10))


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
    if name in ("trained", "read at the end", "untrained"):
        found["p"] = permutation_test(sentences, classed, permutations=permutations)[1]
    lines = line_slopes(stratified_means(_lines(table), ["apart", "kind", "tree"], samples=2))
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
    for name, every in found.items():
        matrices = every[: len(sentences)]
        plain = less_proximity(sentences, matrices)
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
    seed: int, data: Path | None, settings: dict[str, Any], folder: Path, deadline: float | None
) -> dict[str, Any]:
    """The same measurements on a transformer, before and after training."""
    sentences, wiki = read_sentences(data, settings["treebank"], settings["sentences"]), read_wiki(data, settings)
    torch.manual_seed(seed)
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
    order = shuffled(seed, len(windows), batch)

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
        seed=seed,
        gradient=GradientStep(lambda step: 1e-3 * min(1, (step + 1) / 200) * (1 - step / steps), clip=1.0),
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
    about = f"one layer, {config['hidden']} units, {config['epochs']} epochs"
    return [
        _row(
            config,
            "WikiText-2 language model: validation perplexity",
            lambda runs: _each(runs, lambda run: f"{run['perplexity'][-1]:.1f}"),
            note=lambda runs: f"last epoch; {about}, {runs[0]['words']:,} words",
        ),
        _row(config, "Treebank: UD English-EWT", lambda runs: _treebank_text(runs[0]), note=_unknown_text),
        _row(
            config,
            "All pairs of the treebank, read at the right word",
            lambda runs: _each(runs, lambda run: f"{run['pair_seconds']:.1f} s"),
            note=lambda runs: "float64",
        ),
        _row(
            config,
            "Figure 8: closer words are more interdependent",
            _figure8_text,
            "falls with sequential distance",
            Criterion(
                "in each seed the mean falls at every step from distance 1 to 10",
                lambda runs: all(_steps_that_fall(run) == (9, 9) for run in runs),
            ),
            lambda runs: "means of the seeds",
        ),
        _row(
            config,
            "Figure 9: at one distance and class, interdependence falls with syntactic distance",
            lambda runs: _each(runs, lambda run: f"{round(_falling(run) * len(run['lines']))} of {len(run['lines'])}"),
            "broadly decreasing",
            Criterion(
                "in each seed more than three quarters of the lines fall",
                lambda runs: all(_falling(run) > 0.75 for run in runs),
            ),
            lambda runs: "lines that fall: weighted slope of at least 3 means of at least 100 pairs, distances 1–10",
        ),
        _row(
            config,
            "Figure 9: clearer for words further apart",
            lambda runs: _each(runs, lambda run: " / ".join(f"{part:.0%}" for part in _halves(run))),
            "clearer",
            Criterion(
                "in each seed a larger share of lines falls at distances 6–10 than at 1–5",
                lambda runs: all(far > near for near, far in map(_halves, runs)),
            ),
            lambda runs: "lines that fall at distances 1–5 / 6–10",
        ),
        *(_slope_row(config, name) for name in VARIANTS),
        _row(
            config,
            "Correlation of interdependence with raw word frequency",
            _frequency_text,
            "no clear correlation",
            Criterion(
                "in each seed all correlations are below 0.1 in size",
                lambda runs: all(abs(value) < 0.1 for run in runs for value in run["frequency"].values()),
            ),
            lambda runs: "Spearman with log frequency in WikiText-2; means of the seeds",
        ),
        _row(
            config,
            "Syntax probe: unlabelled undirected attachment of the maximum spanning tree",
            _attachment_text,
            note=lambda runs: f"the first {config['trees']:,} sentences; means of the seeds",
        ),
        _row(
            config,
            "How far v_β moves when all words out of focus are replaced (section 2.1)",
            lambda runs: _each(runs, _movement_text),
            note=lambda runs: f"one word in focus, read at the end, {len(runs[0]['movement']['relevant'])} sentences",
        ),
        _transformer_row("trained"),
        _transformer_row("untrained"),
    ]


Run = dict[str, Any]


def _each(runs: list[Run], text: Callable[[Run], str]) -> str:
    """Return what each seed gave."""
    return "; ".join(map(text, runs))


def _falling(run: Run) -> float:
    """The share of figure 9's lines that fall."""
    slopes = [float(slope) for *_, slope in run["lines"]]
    return sum(slope < 0 for slope in slopes) / max(1, len(slopes))


def _halves(run: Run) -> tuple[float, float]:
    """The share of lines that fall at distances 1–5, and at 6–10."""
    near, far = ([slope < 0 for apart, _, slope in run["lines"] if lo <= apart <= hi] for lo, hi in ((1, 5), (6, 10)))
    return sum(near) / max(1, len(near)), sum(far) / max(1, len(far))


def _row(
    config: Config,
    name: str,
    text: Callable[[list[Run]], str],
    paper: str = "",
    criterion: Criterion | None = None,
    note: Callable[[list[Run]], str] = lambda runs: "",
) -> Row:
    """A row that is read off the finished LSTMs, one a seed."""

    def measure_row(runs: Runs) -> Measured | None:
        names = [f"lstm-seed-{seed}" for seed in config["seeds"]]
        done = [each for each in names if "treebank" in runs.get(each, {})]
        if not done:
            return None
        found = [runs[each] for each in done]
        said = ". ".join(part for part in (f"{len(done)} of {len(names)} seeds", note(found)) if part)
        return Measured(text(found), found, len(done), note=said, runs=tuple(done))

    return Row(name, measure_row, paper, criterion=criterion)


def _treebank_text(run: Run) -> str:
    return f"{run['treebank']['sentences']:,} sentences, {run['treebank']['words']:,} words, {run['pairs']:,} pairs"


def _unknown_text(runs: list[Run]) -> str:
    return f"{runs[0]['treebank']['unknown'] / runs[0]['treebank']['words']:.1%} of words are unknown"


def _steps_that_fall(run: Run) -> tuple[int, int]:
    """Count the steps of figure 8 from distance 1 to 10 that fall, and all of them."""
    near = run["figure8"][:10]
    return sum(a["mean"] > b["mean"] for a, b in pairwise(near)), len(near) - 1


def _figure8_text(runs: list[Run]) -> str:
    falls = _each(runs, lambda run: "{} of {}".format(*_steps_that_fall(run)))
    near = [m["key"][0] for m in runs[0]["figure8"][:10]]
    means = [np.mean([run["figure8"][at]["mean"] for run in runs]) for at in range(len(near))]
    return f"steps that fall: {falls}. " + ", ".join(f"{apart}: {mean:.3f}" for apart, mean in zip(near, means))


def _frequency_text(runs: list[Run]) -> str:
    names = runs[0]["frequency"]
    return "; ".join(f"{name} {np.mean([run['frequency'][name] for run in runs]):+.2f}" for name in names)


def _attachment_text(runs: list[Run]) -> str:
    means = {name: np.mean([run["attachment"][name] for run in runs], axis=0) for name in runs[0]["attachment"]}
    return "; ".join(f"{name} {a:.1%} ({b:.1%} without punctuation)" for name, (a, b) in means.items())


def _slope_row(config: Config, name: str) -> Row:
    def one(run: Run) -> str:
        found = run["slopes"][name]
        said = f"{found['slope'] / found['mean']:+.2%} [{found['low'] / found['mean']:+.2%}, "
        said += f"{found['high'] / found['mean']:+.2%}]" + (f", p = {found['p']:.3f}" if "p" in found else "")
        return f"{said}, {found['falling']} of {found['lines']} lines fall"

    criterion = Criterion(
        "in each seed the whole interval of the slope is below 0",
        lambda runs: all(run["slopes"][name]["high"] < 0 for run in runs),
    )
    control = name in ("untrained", "shuffled sentences")
    return _row(
        config,
        f"Regression on tree distance given distance and class: {name}{' (control)' if control else ''}",
        lambda runs: _each(runs, one),
        "" if control else "falls",
        None if control else criterion,
        lambda runs: "of the mean, an edge; intervals over sentences; p: permutation of trees",
    )


def _movement_text(run: Run) -> str:
    moved, whole = run["movement"]["relevant"], run["movement"]["logits"]
    return f"median {np.median(moved):.3f} of ‖v_β‖, the logits themselves {np.median(whole):.3f}"


def _transformer_row(name: str) -> Row:
    def measure_row(runs: Runs) -> Measured | None:
        run = runs.get("transformer", {})
        if "trained" not in run:
            return None
        found = run[name]
        slope, near = found["slope"], ", ".join(f"{m['key'][0]}: {m['mean']:.3f}" for m in found["distances"])
        text = (
            f"by distance {near}; {slope['slope']:+.2e} an edge [{slope['low']:+.2e}, {slope['high']:+.2e}]; "
            f"attachment {found['attachment']:.1%} (adjacent words {run['adjacent']:.1%})"
        )
        last = f"validation perplexity {run['metrics'][-1]['perplexity']:.0f}" if name == "trained" else "control"
        note = f"1 seed, {run['sentences']} sentences; {last}"
        return Measured(text, seeds=1, note=note, runs=("transformer",))

    return Row(f"Transformer language model, {name}", measure_row)


def draw(folder: Path, config: Config, runs: Runs) -> None:
    """Figures 8 and 9 of the first seed as PNG, with intervals."""
    run = next((run for run in runs.values() if "figure8" in run), None)
    if run is None:
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


ENGLISH = Experiment(
    "interdependence.english", SCALES, (tasks,), learn, rows, draw, together=Together(group, learn_together)
)
