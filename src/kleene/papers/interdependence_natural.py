"""Sections 5 and 6: familiar and unfamiliar conduits of natural text, and a short-to-long curriculum."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from kleene.evidence.rule_probe import probe
from kleene.papers.interdependence_synthetic import first_above
from kleene.papers.report import Result, plot
from kleene.papers.tasks import at_scale
from kleene.papers.wikitext import END, WikiText, by_sentences, natural_corpus, natural_windows
from kleene.training.language_model import Stack, columns, train_stack
from kleene.training.loop import seeded

SCALES: dict[str, dict[str, Any]] = {
    "paper": {
        "tokens": 1_000_000,
        "types": 5000,
        "hidden": 200,
        "epochs": 20,
        "seeds": [1, 2],
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


def natural(
    scale: str = "small",
    data: Path | None = None,
    folder: Path | str = "results/interdependence.natural",
    progress: bool = True,
) -> Result:
    """Rules around phrases of WikiText-2 that are frequent, or seen once; and sentences short to long."""
    config, folder = at_scale(SCALES, scale), Path(folder)
    result = Result("interdependence.natural", folder, {"scale": scale, **config})
    device = "cuda" if torch.cuda.is_available() else "cpu"
    wiki = WikiText(data, tokens=config["tokens"], types=config["types"])
    conduits(result, wiki, config, device, progress)
    result.write()
    curriculum(result, wiki, config, device, progress)
    draw(result)
    result.write()
    return result


def _train(
    result: Result,
    wiki: WikiText,
    texts: list[np.ndarray],
    seeds: list[int],
    name: str,
    device: str,
    progress: bool,
    evaluate: Any = None,
) -> list[dict[str, Any]]:
    """Train one model a text, all together."""
    config, length = result.config, min(map(len, texts))
    stack = Stack(
        len(texts),
        len(wiki.vocabulary) + 2,
        embedding=config["hidden"],
        hidden=config["hidden"],
        seeds=[seeded(seed, 1) for seed in seeds],
    ).to(device)
    text = columns([torch.as_tensor(text[:length]) for text in texts], 20, device)
    valid = columns([torch.as_tensor(wiki.valid)] * len(texts), 40, device)
    run = train_stack(
        stack,
        text,
        epochs=config["epochs"],
        rate=config["rate"],
        valid=valid,
        anneal=4.0,
        evaluate=evaluate,
        folder=result.folder / name,
        settings={"config": dict(config)},
        progress=progress,
        title=f"WikiText-2, {name}",
    )
    return run.metrics


def conduits(result: Result, wiki: WikiText, config: dict[str, Any], device: str, progress: bool) -> None:
    """The familiar/unfamiliar experiment with natural conduits."""
    jobs = [(k, familiar, seed) for k in config["lengths"] for familiar in (False, True) for seed in config["seeds"]]
    corpora = [natural_corpus(wiki, k, familiar=familiar, seed=seed) for k, familiar, seed in jobs]
    tests = {
        domain: [
            natural_windows(wiki, corpus, in_domain=domain == "in", seed=job[2], count=config["windows"])
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

    epochs = _train(
        result,
        wiki,
        [corpus.tokens for corpus in corpora],
        [job[2] for job in jobs],
        "conduits",
        device,
        progress,
        evaluate,
    )
    result.metrics["conduits"] = {"models": jobs, "epochs": epochs}
    curves = {name: np.array([epoch[name] for epoch in epochs]) for name in (f"{d}.{w}" for d in tests for w in PROBED)}
    compare_conduits(result, config["lengths"], jobs, curves)


def compare_conduits(
    result: Result, lengths: list[int], jobs: list[tuple[int, bool, int]], curves: dict[str, np.ndarray]
) -> None:
    """Rows of the table: unfamiliar against familiar conduits of each length, seed by seed."""
    for k in lengths:
        plain, known = ([m for m, job in enumerate(jobs) if job[:2] == (k, side)] for side in (False, True))
        for what, name, paper, reduce in (
            (
                "epoch at which P(ω) is half of its lower maximum, in-domain",
                "in.whole",
                "earlier for familiar",
                None,
            ),
            ("highest P(ω), in-domain", "in.whole", "lower for familiar", np.max),
            ("highest P(ω), random conduits", "random.whole", "lower for familiar", np.max),
            ("highest P(ω) from α alone, random conduits", "random.open", "", np.max),
            (
                "interdependence of α and conduit at the end, in-domain",
                "in.interdependence",
                "higher for familiar",
                lambda curve: curve[-1],
            ),
        ):
            curve = curves[name]
            pairs = [
                (float(reduce(curve[:, a])), float(reduce(curve[:, b])))
                if reduce
                else epochs_to_half(curve[:, a], curve[:, b])
                for a, b in zip(plain, known)
            ]
            result.row(
                f"Natural conduits, k = {k}: {what}",
                paper,
                "; ".join(f"{a:.3g} / {b:.3g}" for a, b in pairs),
                "seeds; unfamiliar (phrases seen once) / familiar (the most frequent)",
            )


def epochs_to_half(one: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """The epochs at which two curves reach half of the lower one's maximum."""
    level, counted = 0.5 * min(one.max(), other.max()), list(range(1, len(one) + 1))
    return first_above(counted, one, level), first_above(counted, other, level)


def curriculum(result: Result, wiki: WikiText, config: dict[str, Any], device: str, progress: bool) -> None:
    """Sentences short to long, in every epoch, against the same sentences shuffled."""
    stops = [wiki.vocabulary.index[word] for word in (".", END) if word in wiki.vocabulary.index]
    jobs = [(sort, seed) for sort in (False, True) for seed in config["seeds"]]
    texts = [by_sentences(wiki.train, stops, 20, sort=sort, seed=seed) for sort, seed in jobs]
    length = min(map(len, texts)) // 20  # each text is 20 columns: cut them all to one height
    texts = [text.reshape(20, -1)[:, :length].reshape(-1) for text in texts]
    epochs = _train(result, wiki, texts, [seed for _, seed in jobs], "curriculum", device, progress)
    result.metrics["curriculum"] = {"models": jobs, "epochs": epochs}
    curves = np.array([epoch["perplexity"] for epoch in epochs])
    shuffled, sorted_ = (curves[:, [m for m, job in enumerate(jobs) if job[0] == side]] for side in (False, True))
    for name, paper, a, b in (
        ("after one epoch", "curriculum better early", shuffled[0], sorted_[0]),
        (f"best of {len(curves)} epochs", "curriculum worse in the end", shuffled.min(0), sorted_.min(0)),
    ):
        result.row(
            f"Short-to-long curriculum against shuffled sentences: {name} (section 5)",
            paper,
            "; ".join(f"{x:.1f} / {y:.1f}" for x, y in zip(a, b)),
            "seeds; validation perplexity, shuffled / curriculum",
        )


def draw(result: Result) -> None:
    """Curves over epochs."""
    found, jobs = result.metrics["conduits"]["epochs"], result.metrics["conduits"]["models"]
    with plot(result.folder / "natural.png", 4) as axes:
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
        orders = result.metrics["curriculum"]
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
