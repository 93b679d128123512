"""Sections 5 and 6: familiar and unfamiliar conduits of natural text, and a short-to-long curriculum.

Beside the artificial rules: pairs that English has, such as either … or, in the models of plain text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kleene.evidence.rule_probe import probe
from kleene.papers.interdependence_synthetic import first_above
from kleene.papers.protocol import Config, Criterion, Experiment, Measured, Row, Runs
from kleene.papers.report import plot
from kleene.papers.tasks import Plan, Tasks, fast_device
from kleene.papers.wikitext import END, WikiText, by_sentences, natural_corpus, natural_windows, pair_windows
from kleene.training.language_model import Stack, StackPlan, columns, train_stack
from kleene.training.loop import seeded
from kleene.training.options import Storage

SCALES: dict[str, dict[str, Any]] = {
    "paper": {
        "tokens": 1_000_000,
        "types": 5000,
        "hidden": 200,
        "epochs": 20,
        "seeds": [1, 2, 3, 4, 5],
        "lengths": [2, 4],
        "windows": 1000,
        "rate": 20.0,
    },
    "small": {
        "tokens": 60_000,
        "types": 500,
        "hidden": 40,
        "epochs": 8,
        "seeds": [1],
        "lengths": [2],
        "windows": 200,
        "rate": 20.0,
    },
    "tiny": {
        "tokens": 4000,
        "types": 100,
        "hidden": 8,
        "epochs": 2,
        "seeds": [1],
        "lengths": [2],
        "windows": 20,
        "rate": 5.0,
    },
}
PROBED = ("whole", "open", "interdependence")
PAIRS = (("either", "or"), ("from", "to"), ("between", "and"), ("both", "and"))


def tasks(config: Config, data: Path | None, plan: Plan, runs: Runs) -> Tasks:
    """Rules around phrases of WikiText-2 that are frequent, or seen once; and sentences short to long."""
    WikiText(data, tokens=config["tokens"], types=config["types"])  # a clear error before any work
    settings = {key: value for key, value in config.items() if key != "scale"}
    return {what: {"what": what, "data": data, "settings": settings} for what in ("conduits", "curriculum")}


def learn(
    what: str, data: Path | None, settings: dict[str, Any], folder: Path, deadline: float | None
) -> dict[str, Any]:
    """Train the models of one task, all together: which they are, and what each epoch measured."""
    wiki = WikiText(data, tokens=settings["tokens"], types=settings["types"])
    jobs, texts, evaluate = (conduits if what == "conduits" else curriculum)(wiki, settings)
    length, device = min(map(len, texts)), fast_device()
    stack = Stack(
        len(texts),
        len(wiki.vocabulary) + 2,
        embedding=settings["hidden"],
        hidden=settings["hidden"],
        seeds=[seeded(job[-1], 1) for job in jobs],
    ).to(device)
    run = train_stack(
        stack,
        columns([torch.as_tensor(text[:length]) for text in texts], 20, device),
        StackPlan(settings["epochs"], settings["rate"], anneal=4.0),
        valid=columns([torch.as_tensor(wiki.valid)] * len(texts), 40, device),
        evaluate=evaluate,
        settings={"config": settings},
        storage=Storage(folder=folder, deadline=deadline),
        title=f"WikiText-2, {what}",
    )
    return {"models": jobs, "epochs": run.metrics, "finished": len(run.metrics) >= settings["epochs"]}


Job = tuple[Any, ...]  # what a model was trained on, and its seed at the end
Evaluate = Callable[[Stack], dict[str, Any]]


def conduits(wiki: WikiText, settings: dict[str, Any]) -> tuple[list[Job], list[np.ndarray], Evaluate]:
    """The familiar/unfamiliar experiment with natural conduits: (length, familiar, seed) of each model."""
    jobs = [(k, known, seed) for k in settings["lengths"] for known in (False, True) for seed in settings["seeds"]]
    corpora = [natural_corpus(wiki, k, familiar=familiar, seed=seed) for k, familiar, seed in jobs]
    tests = {
        domain: [
            natural_windows(wiki, corpus, in_domain=domain == "in", seed=job[2], count=settings["windows"])
            for job, corpus in zip(jobs, corpora)
        ]
        for domain in ("in", "random")
    }

    def evaluate(now: Stack) -> dict[str, Any]:
        return {
            f"{domain}.{what}": [getattr(p, what) for p in found]
            for domain, windows in tests.items()
            for found in [probe(now, windows)]
            for what in PROBED
        }

    return list(jobs), [corpus.tokens for corpus in corpora], evaluate


def curriculum(wiki: WikiText, settings: dict[str, Any]) -> tuple[list[Job], list[np.ndarray], Evaluate]:
    """Sentences short to long, in every epoch, against the same sentences shuffled: (sorted, seed) of each model.

    Both are models of plain text, so that natural pairs are measured on them.
    """
    stops = [wiki.vocabulary.index[word] for word in (".", END) if word in wiki.vocabulary.index]
    jobs = [(sort, seed) for sort in (False, True) for seed in settings["seeds"]]
    texts = [by_sentences(wiki.train, stops, 20, sort=sort, seed=seed) for sort, seed in jobs]
    length = min(map(len, texts)) // 20  # each text is 20 columns: cut them all to one height
    texts = [text.reshape(20, -1)[:, :length].reshape(-1) for text in texts]
    return list(jobs), texts, natural_pairs(wiki, settings, len(jobs))


def natural_pairs(wiki: WikiText, settings: dict[str, Any], models: int) -> Evaluate:
    """Whether "or" is expected after "either" and a phrase: P(ω) with α and without, α with the phrase decomposed."""
    kinds = [(k, familiar) for k in settings["lengths"] for familiar in (False, True)]
    known = [pair for pair in PAIRS if set(pair) <= wiki.vocabulary.index.keys()]
    places = {
        (opener, k, familiar): pair_windows(wiki, opener, k, familiar=familiar, count=settings["windows"])
        for opener in {None, *(opener for opener, _ in known)}
        for k, familiar in kinds
    }

    def evaluate(now: Stack) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for opener, closer in known:
            for k, familiar in kinds:
                name = f"{opener}-{closer}.{k}.{'familiar' if familiar else 'unfamiliar'}"
                omega = wiki.vocabulary.index[closer]
                with_, without = (
                    probe(now, [places[which, k, familiar]] * models, omega=omega) for which in (opener, None)
                )
                found[f"{name}.with"] = [p.whole for p in with_]
                found[f"{name}.without"] = [p.whole for p in without]
                found[f"{name}.interdependence"] = [p.interdependence for p in with_]
        return found

    return evaluate


# --- the table --------------------------------------------------------------------------------------------

COMPARED: tuple[tuple[str, str, str, Callable[[np.ndarray], Any] | None], ...] = (
    ("epoch at which P(ω) is half of its lower maximum, in-domain", "in.whole", "earlier for familiar", None),
    ("highest P(ω), in-domain", "in.whole", "lower for familiar", np.max),
    ("highest P(ω), random conduits", "random.whole", "lower for familiar", np.max),
    ("highest P(ω) from α alone, random conduits", "random.open", "", np.max),
    (
        "interdependence of α and conduit at the end, in-domain",
        "in.interdependence",
        "higher for familiar",
        lambda curve: curve[-1],
    ),
)


def rows(config: Config) -> list[Row]:
    """Unfamiliar against familiar conduits of each length, seed by seed; then the curriculum."""
    found = [_conduit_row(k, *compared) for k in config["lengths"] for compared in COMPARED]
    found.append(_curriculum_row("after one epoch", "curriculum better early", lambda curves: curves[0]))
    best = f"best of {config['epochs']} epochs"
    found.append(_curriculum_row(best, "curriculum worse in the end", lambda curves: curves.min(0)))
    return [*found, *(_pair_row(*pair, k) for pair in PAIRS for k in config["lengths"])]


def _pair_row(opener: str, closer: str, k: int) -> Row:
    def measure(runs: Runs) -> Measured | None:
        if not runs.get("curriculum", {}).get("epochs"):
            return None
        plain = [m for m, job in enumerate(runs["curriculum"]["models"]) if not job[0]]
        last = runs["curriculum"]["epochs"][-1]
        parts = []
        for kind in ("unfamiliar", "familiar"):
            name = f"{opener}-{closer}.{k}.{kind}"
            if f"{name}.with" not in last:
                return None
            ratios, depend = zip(
                *(
                    (last[f"{name}.with"][m] / last[f"{name}.without"][m], last[f"{name}.interdependence"][m])
                    for m in plain
                )
            )
            parts.append(f"{kind} × {_spread(ratios)}, interdependence of α and phrase {_spread(depend)}")
        return Measured("; ".join(parts), seeds=len(plain), runs=("curriculum",))

    note = "mean and extremes of the seeds, models of shuffled sentences; unfamiliar: not in the training text"
    return Row(
        f"Natural pair {opener} … {closer}, {k} words between: P(ω) with α over P(ω) without", measure, note=note
    )


def _spread(values: Sequence[float]) -> str:
    return f"{np.mean(values):.3g} ({min(values):.3g} to {max(values):.3g})"


def _conduit_row(k: int, what: str, name: str, paper: str, reduce: Callable[[np.ndarray], Any] | None) -> Row:
    def measure(runs: Runs) -> Measured | None:
        if not runs.get("conduits", {}).get("epochs"):
            return None
        jobs, epochs = runs["conduits"]["models"], runs["conduits"]["epochs"]
        curve = np.array([epoch[name] for epoch in epochs])
        plain, known = ([m for m, job in enumerate(jobs) if tuple(job[:2]) == (k, side)] for side in (False, True))
        pairs = [
            (float(reduce(curve[:, a])), float(reduce(curve[:, b])))
            if reduce
            else epochs_to_half(curve[:, a], curve[:, b])
            for a, b in zip(plain, known)
        ]
        return Measured("; ".join(f"{a:.3g} / {b:.3g}" for a, b in pairs), pairs, len(pairs), runs=("conduits",))

    note = "seeds; unfamiliar (phrases seen once) / familiar (the most frequent)"
    return Row(f"Natural conduits, k = {k}: {what}", measure, paper, criterion=_one_side(paper), note=note)


def _one_side(paper: str) -> Criterion | None:
    """The criterion of a comparison seed by seed: all five on the side that the paper claims (chance: 1 in 32)."""
    if not paper:
        return None
    more = paper.startswith(("higher", "curriculum worse"))
    side = "greater" if more else "smaller"
    return Criterion(
        f"the second figure is {side} than the first in each of five seeds",
        lambda pairs: all((b > a) if more else (b < a) for a, b in pairs),
        seeds=5,
    )


def _curriculum_row(name: str, paper: str, reduce: Callable[[np.ndarray], np.ndarray]) -> Row:
    def measure(runs: Runs) -> Measured | None:
        if not runs.get("curriculum", {}).get("epochs"):
            return None
        jobs = runs["curriculum"]["models"]
        curves = np.array([epoch["perplexity"] for epoch in runs["curriculum"]["epochs"]])
        shuffled, sorted_ = (reduce(curves[:, [m for m, job in enumerate(jobs) if job[0] == s]]) for s in (False, True))
        text = "; ".join(f"{x:.1f} / {y:.1f}" for x, y in zip(shuffled, sorted_))
        return Measured(text, list(zip(shuffled, sorted_)), len(shuffled), runs=("curriculum",))

    full = f"Short-to-long curriculum against shuffled sentences: {name} (section 5)"
    note = "seeds; validation perplexity, shuffled / curriculum"
    return Row(full, measure, paper, criterion=_one_side(paper), note=note)


def epochs_to_half(one: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """The epochs at which two curves reach half of the lower one's maximum."""
    level, counted = 0.5 * min(one.max(), other.max()), list(range(1, len(one) + 1))
    return first_above(counted, one, level), first_above(counted, other, level)


def draw(folder: Path, config: Config, runs: Runs) -> None:
    """Curves over epochs."""
    if not all(runs.get(name, {}).get("epochs") for name in ("conduits", "curriculum")):
        return
    found, jobs = runs["conduits"]["epochs"], runs["conduits"]["models"]
    with plot(folder / "natural.png", 4) as axes:
        for axis, (name, title) in zip(
            axes,
            (
                ("in.whole", "P(ω), in-domain"),
                ("random.whole", "P(ω), random conduits"),
                ("in.interdependence", "interdependence α–conduit, in-domain"),
            ),
        ):
            for m, (k, familiar, seed) in enumerate(jobs):
                axis.plot(
                    range(1, len(found) + 1),
                    [epoch[name][m] for epoch in found],
                    "--" if familiar else "-",
                    color=f"C{k // 2}",
                    label=f"k={k}{' familiar' if familiar else ''}" if seed == jobs[0][2] else None,
                )
            axis.set_title(f"natural conduits: {title}", fontsize=8)
            axis.set_xlabel("epoch")
        axes[0].legend(fontsize=7)
        orders = runs["curriculum"]
        for m, (sort, seed) in enumerate(orders["models"]):
            axes[3].plot(
                range(1, len(orders["epochs"]) + 1),
                [e["perplexity"][m] for e in orders["epochs"]],
                "--" if sort else "-",
                color="C1" if sort else "C0",
                label=("short to long" if sort else "shuffled") if seed == orders["models"][0][1] else None,
            )
        axes[3].set_title("validation perplexity by order of sentences", fontsize=8)
        axes[3].legend(fontsize=7)


NATURAL = Experiment("interdependence.natural", SCALES, (tasks,), learn, rows, draw)
