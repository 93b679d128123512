"""Section 3 and the appendices: rules α Σ^k ω with familiar and unfamiliar conduits (figures 3–6, 10, 11).

All models of the experiment are one `Stack`, trained together and probed after every epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kleene.evidence.corpora import Corpus, Windows, rule_corpus, rule_windows
from kleene.evidence.rule_probe import gradients, probe
from kleene.papers.report import Result, plot
from kleene.papers.tasks import at_scale
from kleene.training.language_model import Stack, columns, train_stack

SCALES: dict[str, dict[str, Any]] = {
    "paper": {
        "tokens": 1_000_000,
        "types": 1000,
        "conduits": 100,
        "uses": 10,
        "outside": 1000,
        "lengths": [2, 4, 6, 8],
        "counts": [10, 100, 1000, 10_000],
        "seeds": [1, 2, 3],
        "hidden": 200,
        "epochs": 40,
        "test": 50_000,
        "rate": 1.0,
        "clip": 0.25,
    },
    "small": {
        "tokens": 60_000,
        "types": 100,
        "conduits": 10,
        "uses": 40,
        "outside": 800,
        "lengths": [2, 4],
        "counts": [10, 1000],
        "seeds": [1],
        "hidden": 40,
        "epochs": 25,
        "test": 7000,
        "rate": 1.0,
        "clip": 0.25,
    },
    "tiny": {
        "tokens": 3000,
        "types": 30,
        "conduits": 4,
        "uses": 10,
        "outside": 50,
        "lengths": [2, 3],
        "counts": [5, 20],
        "seeds": [1, 2],
        "hidden": 8,
        "epochs": 3,
        "test": 350,
        "rate": 1.0,
        "clip": 0.25,
    },
}
GRADIENT_EPOCHS = (1, 2, 5, 10, 20, 40)


@dataclass(frozen=True)
class Setting:
    """One model of the experiment: its rules' length, its corpus and its seed."""

    k: int
    kind: str  # "exact", "loses" (as the authors' generator) or "fresh" (appendix A)
    familiar: bool
    seed: int
    count: int = 0  # of rules, where fresh

    def corpus(self, config: dict[str, Any]) -> Corpus:
        """The training corpus."""
        common = {key: config[key] for key in ("tokens", "types", "conduits", "uses", "outside")}
        return rule_corpus(
            self.k,
            familiar=self.familiar,
            seed=self.seed,
            loses=self.kind == "loses",
            fresh=self.count if self.kind == "fresh" else None,
            **common,
        )


def settings(config: dict[str, Any]) -> list[Setting]:
    """All models, those with one rule length side by side."""
    found = []
    for k in config["lengths"]:
        for seed in config["seeds"]:
            for familiar in (False, True):
                found += [Setting(k, kind, familiar, seed) for kind in ("exact", "loses")]
            found += [Setting(k, "fresh", False, seed, count) for count in config["counts"]]
    return found


def synthetic(
    scale: str = "small",
    data: Path | None = None,
    folder: Path | str = "results/interdependence.synthetic",
    progress: bool = True,
) -> Result:
    """Train, probe, and compare with what the paper claims."""
    config, folder = at_scale(SCALES, scale), Path(folder)
    result = Result("interdependence.synthetic", folder, {"scale": scale, **config})
    device = "cuda" if torch.cuda.is_available() else "cpu"
    models = settings(config)
    corpora = [model.corpus(config) for model in models]
    tests = {
        name: [
            rule_windows(corpus, in_domain=name == "in", seed=model.seed, tokens=config["test"])
            for model, corpus in zip(models, corpora)
        ]
        for name in ("in", "random")
    }
    stack = Stack(
        len(models),
        config["types"] + 2,
        embedding=config["hidden"],
        hidden=config["hidden"],
        seeds=[model.seed for model in models],
    ).to(device)
    untrained = _probes(stack, tests)

    def evaluate(now: Stack) -> dict[str, Any]:
        found, epoch = _probes(now, tests), int(now.epoch)
        if epoch in GRADIENT_EPOCHS or epoch == config["epochs"]:
            found["gradients"] = gradients(now, tests["in"])
            found["prefixes"] = {
                name: [p.prefixes for p in probe(now, windows, prefixes=True)] for name, windows in tests.items()
            }
        return found

    text = columns([torch.as_tensor(corpus.tokens) for corpus in corpora], 20, device)
    run = train_stack(
        stack,
        text,
        epochs=config["epochs"],
        rate=config["rate"],
        clip=config["clip"],
        seed=config["seeds"][0],
        evaluate=evaluate,
        folder=folder / "run",
        settings={"config": config},
        progress=progress,
        title="rules",
    )
    result.metrics = {
        "models": [asdict(model) for model in models],
        "rules": [corpus.rules for corpus in corpora],
        "untrained": untrained,
        "epochs": run.metrics,
        "prefixes": run.last["prefixes"],
        "murdoch": _probes(stack, tests, bias_rule="murdoch"),
    }
    describe(result, models)
    draw(result, models)
    result.write()
    return result


def _probes(stack: Stack, tests: dict[str, list[Windows]], bias_rule: str = "focus") -> dict[str, Any]:
    found = {}
    for name, windows in tests.items():
        probes = probe(stack, windows, bias_rule=bias_rule)
        for measure in ("whole", "open", "conduit", "interdependence"):
            found[f"{name}.{measure}"] = [getattr(p, measure) for p in probes]
    return found


class _Curves:
    """Curves over epochs of one measure, chosen by setting: an array of epochs × models."""

    def __init__(self, result: Result, models: Sequence[Setting]) -> None:
        self.metrics, self.models = result.metrics, models

    def all(self, measure: str) -> np.ndarray:
        """(epochs, models) of a measure."""
        return np.array([epoch[measure] for epoch in self.metrics["epochs"]])

    def of(self, measure: str, **wanted: Any) -> np.ndarray:
        """(epochs, seeds) of the models with these settings."""
        return self.all(measure)[:, self.index(**wanted)]

    def index(self, **wanted: Any) -> list[int]:
        """Where the models with these settings are."""
        return [
            m
            for m, model in enumerate(self.models)
            if all(getattr(model, key) == value for key, value in wanted.items())
        ]


def first_above(curve: np.ndarray, level: float) -> int:
    """The first epoch (from 1) at which a curve is at least `level`; one after the last if never.

    >>> first_above(np.array([0.1, 0.4, 0.6]), 0.5), first_above(np.array([0.1]), 0.5)
    (3, 2)
    """
    above = np.flatnonzero(curve >= level)
    return int(above[0]) + 1 if len(above) else len(curve) + 1


@dataclass(frozen=True)
class Claim:
    """An ordering of unfamiliar and familiar models that the paper claims, and how it is tested here."""

    name: str
    paper: str
    measure: str
    read: Callable[[np.ndarray, np.ndarray], tuple[float, float]]  # two curves → a number for each
    holds: Callable[[float, float], bool]
    unit: str


def _halfway(plain: np.ndarray, known: np.ndarray) -> tuple[float, float]:
    """The epochs at which both curves reach half of the lower of their maxima."""
    level = 0.5 * min(plain.max(), known.max())
    return float(first_above(plain, level)), float(first_above(known, level))


def _each(reduce: Callable[[np.ndarray], Any]) -> Callable[[np.ndarray, np.ndarray], tuple[float, float]]:
    return lambda plain, known: (float(reduce(plain)), float(reduce(known)))


CLAIMS = (
    Claim(
        "Figure 3a, in-domain: familiar conduits teach ω faster",
        "earlier",
        "in.whole",
        _halfway,
        lambda a, b: b < a,
        "first epoch at half of the lower of both maxima of P(ω)",
    ),
    Claim(
        "Figure 3a, in-domain: highest P(ω) is lower with familiar conduits",
        "lower",
        "in.whole",
        _each(np.max),
        lambda a, b: b < a,
        "highest mean P(ω)",
    ),
    Claim(
        "Figure 3a, in-domain: familiar is brittle to overtraining",
        "falls after its maximum",
        "in.whole",
        _each(lambda curve: curve.max() - curve[-1]),
        lambda a, b: b > a,
        "maximum less last P(ω); holds where familiar falls further",
    ),
    Claim(
        "Figure 3b, random conduits: familiar never generalises",
        "stays low, below unfamiliar",
        "random.whole",
        _each(np.max),
        lambda a, b: b < a,
        "highest mean P(ω)",
    ),
    Claim(
        "Figure 4, α alone, random conduits: familiar acquires the rule earlier",
        "earlier",
        "random.open",
        _halfway,
        lambda a, b: b < a,
        "first epoch at half of the lower of both maxima of P(ω | α)",
    ),
    Claim(
        "Figure 6: interdependence of α and conduit is higher for familiar",
        "substantially higher",
        "in.interdependence",
        _each(lambda curve: curve[-1]),
        lambda a, b: b > a,
        "at the last epoch, in-domain",
    ),
    Claim(
        "Figure 6: it rises through training (familiar)",
        "increases",
        "in.interdependence",
        _each(lambda curve: curve[-1] - curve[0]),
        lambda a, b: b > 0,
        "last less first epoch, in-domain",
    ),
)
AFTERWARDS = "criterion chosen after seeing the data: exploratory"
KINDS = {"exact": "", "loses": ", rules lost as by the authors' generator"}


def describe(result: Result, models: Sequence[Setting]) -> None:
    """Each ordering that the paper claims, on every rule length and seed, with and without lost rules."""
    curves = _Curves(result, models)
    lengths = sorted({model.k for model in models})
    for kind in KINDS:
        for claim in CLAIMS:
            _claim_row(result, curves, lengths, claim, kind)
        _prefix_rows(result, curves, lengths[-1], kind)
    _frequency_rows(result, curves, lengths)
    _gradient_rows(result, curves, lengths)
    _loss_rows(result, curves, lengths)
    _control_rows(result, curves, lengths)


def _claim_row(result: Result, curves: _Curves, lengths: Sequence[int], claim: Claim, kind: str) -> None:
    """In how many (length, seed) cases the claim holds, and both sides' means for each length."""
    cases = {}
    for k in lengths:
        plain, known = (curves.of(claim.measure, k=k, kind=kind, familiar=side) for side in (False, True))
        cases[k] = [claim.read(a, b) for a, b in zip(plain.T, known.T)]
    tested = [claim.holds(*pair) for pairs in cases.values() for pair in pairs]
    sides = "; ".join(f"k={k}: {np.mean(pairs, 0)[0]:.3g} / {np.mean(pairs, 0)[1]:.3g}" for k, pairs in cases.items())
    result.row(
        claim.name + KINDS[kind],
        claim.paper,
        f"{sum(tested)} of {len(tested)} (length, seed) cases; {sides}",
        f"{claim.unit}; unfamiliar / familiar",
        holds=all(tested),
    )


def _mean(values: Sequence[Any], index: Sequence[int]) -> Any:
    return np.mean([values[m] for m in index], axis=0)


def _prefix_rows(result: Result, curves: _Curves, k: int, kind: str) -> None:
    """Figure 5 at every epoch where it was measured."""
    models = {side: curves.index(k=k, kind=kind, familiar=side) for side in (False, True)}
    for number, epoch in enumerate(result.metrics["epochs"], 1):
        if "prefixes" not in epoch:
            continue
        rows = {side: np.array([epoch["prefixes"]["in"][m] for m in models[side]]) for side in (False, True)}
        gains = {side: row[:, -2] - row[:, 0] for side, row in rows.items()}
        true = int(((gains[True] > 0) & (gains[True] > gains[False])).sum())
        text = "; ".join(
            f"{'familiar' if side else 'unfamiliar'} {', '.join(f'{x:.2g}' for x in row.mean(0))}"
            for side, row in rows.items()
        )
        result.row(
            f"Figure 5, k = {k}, epoch {number}: familiar's P(ω) grows with each conduit word{KINDS[kind]}",
            "grows substantially; unfamiliar is high from α alone",
            f"{true} of {len(gains[True])} seeds; {text}",
            "P(ω) from α and the conduit's first 0, 1, … words, in-domain; holds where it grows until the "
            f"last but one, and more than unfamiliar ({AFTERWARDS})",
            holds=true == len(gains[True]),
        )


def _frequency_rows(result: Result, curves: _Curves, lengths: Sequence[int]) -> None:
    final = result.metrics["epochs"][-1]
    counts = sorted({model.count for model in curves.models if model.kind == "fresh"})
    for count in counts:
        text = "; ".join(
            f"k={k}: {_mean(final['random.open'], i):.3g} / {_mean(final['random.conduit'], i):.3g}"
            for k in lengths
            for i in [curves.index(kind="fresh", k=k, count=count)]
        )
        result.row(f"Figure 10, n = {count:,}", "", text, "P(ω) from α alone / from the conduit alone, last epoch")
    seeds = sorted({model.seed for model in curves.models})
    needed = [
        [
            next(
                (n for n in counts if final["random.open"][curves.index(kind="fresh", k=k, count=n, seed=s)[0]] >= 0.5),
                10 * counts[-1],
            )
            for k in lengths
        ]
        for s in seeds
    ]
    longer = sum(row == sorted(row) and row[0] < row[-1] for row in needed)
    result.row(
        "Figure 10: a longer rule needs more examples",
        "more",
        f"{longer} of {len(seeds)} seeds; "
        + "; ".join(f"k={k}: {', '.join(f'{row[c]:,}' for row in needed)}" for c, k in enumerate(lengths)),
        f"the least n at which P(ω | α) is at least one half, for each seed ({AFTERWARDS}; the test planned first was "
        "P(ω | α) lower at k = 8 than at k = 2)",
        holds=longer == len(seeds),
    )
    learned = [[_mean(final["random.open"], curves.index(kind="fresh", k=k, count=n)) for n in counts] for k in lengths]
    rises = sum(row[-1] > row[0] for row in learned)
    result.row(
        "Figure 10: more examples teach the rule",
        "P(ω | α) rises with n",
        f"{rises} of {len(lengths)} lengths",
        holds=rises == len(lengths),
    )
    rare = [
        [_mean(final[f"random.{what}"], curves.index(kind="fresh", k=k, count=counts[0])) for k in lengths]
        for what in ("open", "conduit")
    ]
    steady = max(rare[0]) < 2 * min(rare[0])
    result.row(
        f"Figure 10, n = {counts[0]}: α's P(ω) is steady, the conduit's declines with k",
        "steady; declines",
        "α " + ", ".join(f"{x:.2e}" for x in rare[0]) + "; conduit " + ", ".join(f"{x:.2e}" for x in rare[1]),
        f"k = {', '.join(map(str, lengths))}; steady: within a factor 2; declines: each lower than the last",
        holds=steady and all(a > b for a, b in zip(rare[1], rare[1][1:])),
    )


def _gradient_rows(result: Result, curves: _Curves, lengths: Sequence[int]) -> None:
    for number, epoch in enumerate(result.metrics["epochs"], 1):
        if "gradients" not in epoch:
            continue
        cases = []
        for k in lengths:
            plain, known = (curves.index(k=k, kind="exact", familiar=side) for side in (False, True))
            for a, b in zip(plain, known):
                cases.append((np.mean(epoch["gradients"][a][1:]), np.mean(epoch["gradients"][b][1:])))
        true = sum(b < a for a, b in cases)
        result.row(
            f"Figure 11, epoch {number}: a familiar conduit has the smaller error gradient",
            "smaller",
            f"{true} of {len(cases)} (length, seed) cases; mean {np.mean([a for a, _ in cases]):.3g} / "
            f"{np.mean([b for _, b in cases]):.3g}",
            "‖∂E/∂h‖ along the conduit; unfamiliar / familiar",
            holds=true == len(cases),
        )


def _loss_rows(result: Result, curves: _Curves, lengths: Sequence[int]) -> None:
    for k in lengths:
        kept = {
            side: _mean(result.metrics["rules"], curves.index(k=k, kind="loses", familiar=side))
            for side in (False, True)
        }
        gaps = {}
        for kind in ("exact", "loses"):
            for name, measure, reduce in (
                ("random P(ω)", "random.whole", np.max),
                ("interdependence", "in.interdependence", None),
            ):
                plain, known = (curves.of(measure, k=k, kind=kind, familiar=side) for side in (False, True))
                a, b = (float(np.mean(side.max(0) if reduce else side[-1])) for side in (plain, known))
                gaps[kind, name] = (a, b)
        text = "; ".join(
            f"{name}: {gaps['exact', name][0]:.3g} / {gaps['exact', name][1]:.3g} exact, "
            f"{gaps['loses', name][0]:.3g} / {gaps['loses', name][1]:.3g} lost"
            for name in ("random P(ω)", "interdependence")
        )
        result.row(
            f"Lost rules, k = {k}",
            "(not in the paper)",
            f"{kept[False]:.0f} / {kept[True]:.0f} rules kept; {text}",
            "unfamiliar / familiar; rules placed exactly, and as the authors' generator loses them",
        )


def _control_rows(result: Result, curves: _Curves, lengths: Sequence[int]) -> None:
    final, untrained, murdoch = (
        result.metrics["epochs"][-1],
        result.metrics["untrained"],
        result.metrics["murdoch"],
    )
    for k in lengths:
        plain, known = (curves.index(k=k, kind="exact", familiar=side) for side in (False, True))
        text = "; ".join(
            f"{name} {_mean(source['in.interdependence'], plain):.3g} / "
            f"{_mean(source['in.interdependence'], known):.3g}"
            for name, source in (
                ("untrained", untrained),
                ("trained", final),
                ("trained, bias rule murdoch", murdoch),
            )
        )
        result.row(
            f"Control: interdependence of α and conduit, k = {k}",
            "(not in the paper)",
            text,
            "unfamiliar / familiar, in-domain",
        )


def draw(result: Result, models: Sequence[Setting]) -> None:
    """Figures 3–6, 10 and 11 as PNG; solid lines unfamiliar, dashed familiar, bands the seeds' range."""
    curves, folder = _Curves(result, models), result.folder
    lengths = sorted({model.k for model in models})
    colours = {k: f"C{index}" for index, k in enumerate(lengths)}

    def lines(axis: Any, measure: str, title: str, kind: str = "exact") -> None:
        for k in lengths:
            for familiar in (False, True):
                seeds = curves.of(measure, k=k, kind=kind, familiar=familiar)
                epochs = np.arange(1, len(seeds) + 1)
                axis.plot(
                    epochs,
                    seeds.mean(1),
                    "--" if familiar else "-",
                    color=colours[k],
                    label=f"k={k}{' familiar' if familiar else ''}",
                )
                axis.fill_between(epochs, seeds.min(1), seeds.max(1), color=colours[k], alpha=0.12, lw=0)
        axis.set_title(title, fontsize=9)
        axis.set_xlabel("epoch")

    for kind, suffix in (("exact", ""), ("loses", "_lost_rules")):
        with plot(folder / f"figure3_4_6{suffix}.png", 4) as axes:
            lines(axes[0], "in.whole", "Figure 3a: P(ω), in-domain", kind)
            lines(axes[1], "random.whole", "Figure 3b: P(ω), random conduits", kind)
            lines(axes[2], "random.open", "Figure 4: P(ω) from α alone, random", kind)
            lines(axes[3], "in.interdependence", "Figure 6: interdependence α–conduit", kind)
            axes[0].legend(fontsize=7)
    with plot(folder / "figure5.png", 2) as axes:
        k = lengths[-1]
        for axis, (name, where) in zip(axes, (("in", "in-domain"), ("random", "random conduits"))):
            for familiar in (False, True):
                rows = np.array(
                    [result.metrics["prefixes"][name][m] for m in curves.index(k=k, kind="exact", familiar=familiar)]
                )
                axis.plot(
                    range(k + 1),
                    rows.mean(0),
                    "--" if familiar else "-",
                    label="familiar" if familiar else "unfamiliar",
                )
                axis.fill_between(range(k + 1), rows.min(0), rows.max(0), alpha=0.15, lw=0)
            axis.set_title(f"Figure 5: P(ω) from α and i conduit words, k={k}, {where}", fontsize=8)
            axis.set_xlabel("i")
        axes[0].legend(fontsize=7)
    counts = sorted({model.count for model in models if model.kind == "fresh"})
    with plot(folder / "figure10.png", len(counts), width=3) as axes:
        final = result.metrics["epochs"][-1]
        for axis, count in zip(axes, counts):
            for what in ("open", "conduit"):
                values = [_mean(final[f"random.{what}"], curves.index(kind="fresh", k=k, count=count)) for k in lengths]
                axis.semilogy(lengths, values, "o-", label="α" if what == "open" else "conduit")
            axis.set_title(f"Figure 10: P(ω), n={count:,}", fontsize=9)
            axis.set_xlabel("k")
        axes[0].legend(fontsize=7)
    measured = [(n, epoch["gradients"]) for n, epoch in enumerate(result.metrics["epochs"], 1) if "gradients" in epoch]
    with plot(folder / "figure11.png", len(measured), width=3) as axes:
        for axis, (number, rows) in zip(axes, measured):
            for k in lengths:
                for familiar in (False, True):
                    mean = _mean(rows, curves.index(k=k, kind="exact", familiar=familiar))
                    axis.plot(range(k + 1), mean, "--" if familiar else "-", color=colours[k])
            axis.set_title(f"Figure 11: ‖∂E/∂h‖, epoch {number}", fontsize=9)
            axis.set_xlabel("d")
