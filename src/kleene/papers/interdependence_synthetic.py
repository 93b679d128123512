"""Section 3 and the appendices: rules α Σ^k ω with familiar and unfamiliar conduits (figures 3–6, 10, 11).

A task is one rule length: all of its models are one `Stack`, trained together and probed after chosen epochs. Beside
the paper's two settings stand two controls for what the authors' generator does to the familiar corpus: as few rules
but no orphaned α, and all α but the same share orphaned. Figure 10, whose models differ in the number of rules, has
tasks of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kleene.evidence.corpora import Corpus, Windows, count_orphans, lengthened, rule_corpus, rule_windows
from kleene.evidence.rule_probe import ERRORS, gradients, probe
from kleene.papers.protocol import Config, Criterion, Experiment, Measured, Row, Runs
from kleene.papers.report import plot
from kleene.papers.tasks import Plan, Tasks
from kleene.training.language_model import Stack, StackPlan, columns, train_stack
from kleene.training.options import Storage

SCALES: dict[str, dict[str, Any]] = {
    "paper": {
        "tokens": 1_000_000,
        "types": 1000,
        "conduits": 100,
        "uses": 10,
        "outside": 1000,
        "lengths": [2, 4, 6, 8],
        "seeds": [1, 2, 3, 4, 5],
        "counts": [10, 100, 1000, 10_000],  # of rules, in figure 10
        "count_seeds": [1, 2, 3],
        "hidden": 200,
        "epochs": 40,
        "probed": [1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 35, 40],
        "gradients": [1, 10, 40],
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
        "seeds": [1],
        "counts": [10, 100, 1000],
        "count_seeds": [1],
        "hidden": 40,
        "epochs": 25,
        "probed": [1, 2, 3, 4, 5, 7, 10, 15, 20, 25],
        "gradients": [1, 10, 25],
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
        "seeds": [1, 2],
        "counts": [5, 20],
        "count_seeds": [1, 2],
        "hidden": 8,
        "epochs": 3,
        "probed": [1, 2, 3],
        "gradients": [1, 3],
        "test": 350,
        "rate": 1.0,
        "clip": 0.25,
    },
}
PLACED = ("tokens", "types", "conduits", "uses", "outside")
KINDS = {
    "exact": "every rule in its place",
    "authors": "as the authors' generator writes",
    "fewer": "as few rules as the authors keep, no α orphaned",
    "orphans": "every α in its place, as many orphaned as by the authors",
}
COUNTS = "counts-k-"  # the tasks of figure 10
MEASURES = ("whole", "open", "conduit", "interdependence")


@dataclass(frozen=True)
class Setting:
    """One model: its corpus and its seed."""

    kind: str  # one of KINDS, or "fresh" (appendix A)
    familiar: bool
    seed: int
    count: int = 0  # of rules, where fresh


def settings(seeds: Sequence[int], counts: Sequence[int] | None = None) -> list[Setting]:
    """All models of a rule length; with `counts` those of figure 10."""
    if counts is not None:
        return [Setting("fresh", False, seed, count) for seed in seeds for count in counts]
    found = []
    for seed in seeds:
        found += [Setting(kind, familiar, seed) for kind in ("exact", "authors") for familiar in (False, True)]
        found += [Setting(kind, True, seed) for kind in ("fewer", "orphans")]
    return found


def corpora(k: int, models: Sequence[Setting], config: Config) -> list[Corpus]:
    """The training texts, all of the length of the longest: that of the authors' generator, which grows."""
    place = partial(rule_corpus, k, **{key: config[key] for key in PLACED if key != "tokens"})
    written = {
        (familiar, seed): place(familiar=familiar, seed=seed, loses=True, tokens=config["tokens"])
        for seed in sorted({model.seed for model in models})
        for familiar in (False, True)
    }
    longest = max(len(corpus.tokens) for corpus in written.values())

    def made(model: Setting) -> Corpus:
        if model.kind == "authors":
            return lengthened(written[model.familiar, model.seed], longest, model.seed)
        theirs = written[True, model.seed]
        alphas, lost = count_orphans(theirs.tokens, k, theirs.types)
        options: dict[str, dict[str, Any]] = {
            "exact": {},
            "fewer": {"rules": theirs.rules},
            "orphans": {"orphans": lost / max(1, alphas)},
            "fresh": {"fresh": model.count},
        }
        return place(familiar=model.familiar, seed=model.seed, tokens=longest, **options[model.kind])

    return [made(model) for model in models]


def lengths(config: Config, data: Path | None, plan: Plan, runs: Runs) -> Tasks:
    """One task a rule length, and one more for its part of figure 10."""
    shared = {key: value for key, value in config.items() if key not in ("scale", "lengths", "counts", "count_seeds")}
    found: dict[str, dict[str, Any]] = {f"k-{k}": {"k": k, "config": shared} for k in config["lengths"]}
    counted = {"config": {**shared, "seeds": config["count_seeds"]}, "counts": config["counts"]}
    return found | {f"{COUNTS}{k}": {"k": k, **counted} for k in config["lengths"]}


def train_length(
    k: int, config: dict[str, Any], folder: Path, deadline: float | None, counts: list[int] | None = None
) -> dict[str, Any]:
    """Train all models of a rule length, and probe them."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    models = settings(config["seeds"], counts)
    texts = corpora(k, models, config)
    tests = {
        name: [
            rule_windows(corpus, in_domain=name == "in", seed=model.seed, tokens=config["test"])
            for model, corpus in zip(models, texts)
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
        epoch = int(now.epoch)
        if epoch not in config["probed"]:
            return {"epoch": epoch}
        found = {"epoch": epoch, **_probes(now, tests)}
        if epoch in config["gradients"]:
            found["gradients"] = {error: _rounded(gradients(now, tests["in"], error)) for error in ERRORS}
            found["prefixes"] = {
                name: _rounded([p.prefixes for p in probe(now, windows, prefixes=True)])
                for name, windows in tests.items()
            }
        return found

    run = train_stack(
        stack,
        columns([torch.as_tensor(corpus.tokens) for corpus in texts], 20, device),
        StackPlan(config["epochs"], config["rate"], config["clip"], seed=config["seeds"][0]),
        evaluate=evaluate,
        settings={"k": k, "config": config},
        storage=Storage(folder=folder, deadline=deadline),
    )
    counted = [count_orphans(corpus.tokens, k, corpus.types) for corpus in texts]
    return {
        "models": [asdict(model) for model in models],
        "tokens": len(texts[0].tokens),
        "rules": [corpus.rules for corpus in texts],
        "alphas": [alphas for alphas, _ in counted],
        "orphans": [lost for _, lost in counted],
        "untrained": untrained,
        "curves": [point for point in run.metrics if "in.whole" in point],
        "murdoch": _probes(stack, tests, bias_rule="murdoch"),
        "step": run.step,
        "epoch": int(stack.epoch),
        "epochs": config["epochs"],
        "finished": int(stack.epoch) >= config["epochs"],
    }


def _rounded(rows: Iterable[Iterable[float]]) -> list[list[float]]:
    return [[float(f"{value:.5g}") for value in row] for row in rows]


def _probes(stack: Stack, tests: dict[str, list[Windows]], bias_rule: str = "focus") -> dict[str, Any]:
    found = {}
    for name, windows in tests.items():
        probes = probe(stack, windows, bias_rule=bias_rule)
        for measure in MEASURES:
            found[f"{name}.{measure}"] = [float(f"{getattr(p, measure):.6g}") for p in probes]
    return found


# --- reading the runs -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Curves:
    """The raw runs, by rule length and setting: of the tasks whose names begin with `tasks`."""

    runs: Runs
    tasks: str = "k-"

    @property
    def lengths(self) -> list[int]:
        """The rule lengths that were run."""
        return sorted(int(name.removeprefix(self.tasks)) for name in self.runs if name.startswith(self.tasks))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.tasks}{k}" for k in self.lengths)

    def run(self, k: int) -> dict[str, Any]:
        return self.runs[f"{self.tasks}{k}"]

    def index(self, k: int, **wanted: Any) -> list[int]:
        """The folders of the models with these settings, seed by seed."""
        models = self.run(k)["models"]
        return [m for m, model in enumerate(models) if all(model[key] == value for key, value in wanted.items())]

    def epochs(self, k: int) -> list[int]:
        return [point["epoch"] for point in self.run(k)["curves"]]

    def of(self, measure: str, k: int, **wanted: Any) -> np.ndarray:
        """(epochs, seeds) of a measure."""
        return np.array([point[measure] for point in self.run(k)["curves"]])[:, self.index(k, **wanted)]

    def at(self, epoch: int, k: int) -> dict[str, Any] | None:
        """Return what was measured after an epoch."""
        return next((point for point in self.run(k)["curves"] if point["epoch"] == epoch), None)

    def trained(self) -> str:
        """How far the training went."""
        done, asked = ({self.run(k)[key] for k in self.lengths} for key in ("epoch", "epochs"))
        return f"{min(done)} of {max(asked)} epochs"

    def finished(self) -> bool:
        """Whether every length was trained to its end."""
        return bool(self.lengths) and all(self.run(k)["epoch"] >= self.run(k)["epochs"] for k in self.lengths)

    def seeds(self) -> int:
        return min((len({model["seed"] for model in self.run(k)["models"]}) for k in self.lengths), default=0)

    def converged(self) -> bool:
        """Whether every length was trained to its end, and unfamiliar models learned the rule (P(ω) of one half)."""
        return self.finished() and all(
            self.of("in.whole", k, kind="exact", familiar=False).max(0).min() >= 0.5 for k in self.lengths
        )


def first_above(epochs: Sequence[int], curve: np.ndarray, level: float) -> int:
    """The first probed epoch at which a curve is at least `level`; one after the last if never.

    >>> first_above([1, 2, 5], np.array([0.1, 0.4, 0.6]), 0.5), first_above([1], np.array([0.1]), 0.5)
    (5, 2)
    """
    above = np.flatnonzero(curve >= level)
    return epochs[int(above[0])] if len(above) else epochs[-1] + 1


Read = Callable[[list[int], np.ndarray, np.ndarray], tuple[float, float]]  # epochs, two curves → a number for each


@dataclass(frozen=True)
class Claim:
    """An ordering of unfamiliar and familiar models that the paper claims, and how it is tested here."""

    name: str
    paper: str
    source: str
    measure: str
    read: Read
    holds: Callable[[float, float], bool]
    unit: str


def _halfway(epochs: list[int], plain: np.ndarray, known: np.ndarray) -> tuple[float, float]:
    """The epochs at which both curves reach half of the lower of their maxima."""
    level = 0.5 * min(plain.max(), known.max())
    return float(first_above(epochs, plain, level)), float(first_above(epochs, known, level))


def _each(reduce: Callable[[np.ndarray], Any]) -> Read:
    return lambda epochs, plain, known: (float(reduce(plain)), float(reduce(known)))


CLAIMS = (
    Claim(
        "in-domain: familiar conduits teach ω faster",
        "earlier",
        "Figure 3a",
        "in.whole",
        _halfway,
        lambda a, b: b < a,
        "first probed epoch at half of the lower of both maxima of P(ω); familiar is earlier",
    ),
    Claim(
        "in-domain: the highest P(ω) is lower with familiar conduits",
        "lower",
        "Figure 3a",
        "in.whole",
        _each(np.max),
        lambda a, b: b < a,
        "highest mean P(ω); familiar is lower",
    ),
    Claim(
        "in-domain: familiar is brittle to overtraining",
        "falls after its maximum",
        "Figure 3a",
        "in.whole",
        _each(lambda curve: curve.max() - curve[-1]),
        lambda a, b: b > a,
        "maximum less last P(ω); familiar falls further",
    ),
    Claim(
        "random conduits: familiar never generalises",
        "stays low, below unfamiliar",
        "Figure 3b",
        "random.whole",
        _each(np.max),
        lambda a, b: b < a and b < 0.5,
        "highest mean P(ω); familiar is lower, and below one half",
    ),
    Claim(
        "α alone, random conduits: familiar acquires the rule earlier",
        "earlier",
        "Figure 4",
        "random.open",
        _halfway,
        lambda a, b: b < a,
        "first probed epoch at half of the lower of both maxima of P(ω | α); familiar is earlier",
    ),
    Claim(
        "interdependence of α and conduit is higher for familiar",
        "substantially higher",
        "Figure 6",
        "in.interdependence",
        _each(lambda curve: curve[-1]),
        lambda a, b: b > a,
        "at the last epoch, in-domain; familiar is higher",
    ),
    Claim(
        "interdependence rises through training (familiar)",
        "increases",
        "Figure 6",
        "in.interdependence",
        _each(lambda curve: curve[-1] - curve[0]),
        lambda a, b: b > 0,
        "last less first epoch, in-domain; above 0 for familiar",
    ),
)


def rows(config: Config) -> list[Row]:
    """The paper's claims on exact and on the authors' corpora; then figures 5, 10 and 11; then the controls."""
    seeds = 5 if config["scale"] == "paper" else len(config["seeds"])
    found = [_claim_row(claim, kind, seeds) for kind in ("exact", "authors") for claim in CLAIMS]
    found += [_corpus_row(k) for k in config["lengths"]]
    found += [_control_row(k) for k in config["lengths"]]
    found += [_cause_row(name, count) for name, count in CAUSES.items()]
    longest = max(config["lengths"])
    for kind in ("exact", "authors"):
        for test in ("in", "random"):
            found += [_prefix_row(longest, kind, test, epoch, seeds) for epoch in config["gradients"]]
    for kind in ("exact", "authors"):
        for error in ERRORS:
            found += [_gradient_row(kind, error, epoch, seeds) for epoch in config["gradients"]]
    found += [_bias_row(k) for k in config["lengths"]]
    return [*found, *_frequency_rows(config)]


def _claim_row(claim: Claim, kind: str, seeds: int) -> Row:
    def measure(runs: Runs) -> Measured | None:
        curves = Curves(runs)
        cases: dict[int, list[tuple[float, float]]] = {}
        for k in curves.lengths:
            plain, known = (curves.of(claim.measure, k, kind=kind, familiar=side) for side in (False, True))
            cases[k] = [claim.read(curves.epochs(k), a, b) for a, b in zip(plain.T, known.T)]
        if not cases:
            return None
        tested = [claim.holds(*pair) for pairs in cases.values() for pair in pairs]
        means = "; ".join(
            f"k={k}: {np.mean(pairs, 0)[0]:.3g} / {np.mean(pairs, 0)[1]:.3g}" for k, pairs in cases.items()
        )
        return Measured(
            f"{sum(tested)} of {len(tested)} (length, seed) cases; {means}",
            value=(sum(tested), len(tested)),
            seeds=curves.seeds(),
            converged=curves.converged(),
            note=f"means of unfamiliar / familiar; {curves.trained()}",
            runs=curves.names,
        )

    return Row(
        f"{claim.name} [{KINDS[kind]}]",
        measure,
        paper=claim.paper,
        source=claim.source,
        criterion=Criterion(f"in every (length, seed) case: {claim.unit}", lambda found: found[0] == found[1], seeds),
    )


def _corpus_row(k: int) -> Row:
    def measure(runs: Runs) -> Measured | None:
        if f"k-{k}" not in runs:
            return None
        curves, parts = Curves(runs), []
        for kind, familiar in (("authors", False), *((kind, True) for kind in KINDS)):
            index = curves.index(k, kind=kind, familiar=familiar)
            rules, alphas, lost = (
                np.mean([curves.run(k)[what][m] for m in index]) for what in ("rules", "alphas", "orphans")
            )
            name = f"{'familiar' if familiar else 'unfamiliar'} {kind}"
            parts.append(f"{name}: {rules:.0f} rules, {alphas:.0f} α, {100 * lost / max(1.0, alphas):.0f} % orphaned")
        return Measured("; ".join(parts), note=f"means of {curves.seeds()} seeds, {curves.run(k)['tokens']:,} tokens")

    return Row(f"the corpora, k = {k}", measure)


def _control_row(k: int) -> Row:
    def measure(runs: Runs) -> Measured | None:
        if f"k-{k}" not in runs:
            return None
        curves, parts = Curves(runs), []
        for kind, familiar in (("exact", False), *((kind, True) for kind in KINDS)):
            seen = curves.of("in.whole", k, kind=kind, familiar=familiar)
            other = curves.of("random.whole", k, kind=kind, familiar=familiar).max(0)
            name = f"{'familiar' if familiar else 'unfamiliar'} {kind}"
            parts.append(f"{name} {_span(seen.max(0))}, at the end {_span(seen[-1])}, random {_span(other)}")
        return Measured("; ".join(parts), note="highest P(ω) in-domain, last, highest with random conduits")

    return Row(f"controls, P(ω), k = {k}", measure)


def _span(values: np.ndarray) -> str:
    return f"{values.mean():.3f} ({values.min():.3f} to {values.max():.3f})"


def _highest(curves: Curves, k: int, kind: str) -> np.ndarray:
    return np.asarray(curves.of("in.whole", k, kind=kind, familiar=True).max(0))


def _fall(curves: Curves, k: int, kind: str) -> np.ndarray:
    seen = curves.of("in.whole", k, kind=kind, familiar=True)
    return np.asarray(seen.max(0) - seen[-1])


# What the controls say about the cause: counted in (length, seed) cases of familiar models, no verdict, since the paper
# makes no such claim.
CAUSES: dict[str, Callable[[Curves, int], np.ndarray]] = {
    "fewer rules alone leave the highest P(ω) within 0.02 of exact": lambda curves, k: (
        _highest(curves, k, "exact") - _highest(curves, k, "fewer") <= 0.02
    ),
    "orphans alone lower the highest P(ω) by more than 0.02": lambda curves, k: (
        _highest(curves, k, "exact") - _highest(curves, k, "orphans") > 0.02
    ),
    "the authors' highest P(ω) is nearer to orphans alone than to fewer rules alone": lambda curves, k: (
        np.abs(_highest(curves, k, "authors") - _highest(curves, k, "orphans"))
        < np.abs(_highest(curves, k, "authors") - _highest(curves, k, "fewer"))
    ),
    "orphans alone make P(ω) fall further after its maximum than fewer rules alone": lambda curves, k: (
        _fall(curves, k, "orphans") > _fall(curves, k, "fewer")
    ),
}


def _cause_row(name: str, count: Callable[[Curves, int], np.ndarray]) -> Row:
    def measure(runs: Runs) -> Measured | None:
        curves = Curves(runs)
        if not curves.lengths:
            return None
        true = {k: count(curves, k) for k in curves.lengths}
        each = "; ".join(f"k={k}: {int(found.sum())} of {len(found)}" for k, found in true.items())
        whole, cases = sum(int(found.sum()) for found in true.values()), sum(map(len, true.values()))
        return Measured(f"{whole} of {cases} (length, seed) cases; {each}", seeds=curves.seeds())

    return Row(f"cause: {name}", measure)


def _prefix_row(k: int, kind: str, test: str, epoch: int, seeds: int) -> Row:
    where = "in-domain" if test == "in" else "random conduits"

    def measure(runs: Runs) -> Measured | None:
        curves = Curves(runs)
        point = curves.at(epoch, k) if k in curves.lengths else None
        if point is None:
            return None
        found = {
            side: np.array([point["prefixes"][test][m] for m in curves.index(k, kind=kind, familiar=side)])
            for side in (False, True)
        }
        gains = {side: each[:, -2] - each[:, 0] for side, each in found.items()}
        true = int(((gains[True] > 0) & (gains[True] > gains[False])).sum())
        text = "; ".join(
            f"{'familiar' if side else 'unfamiliar'} {', '.join(f'{x:.2g}' for x in each.mean(0))}"
            for side, each in found.items()
        )
        return Measured(
            f"{true} of {len(gains[True])} seeds; {text}",
            value=(true, len(gains[True])),
            seeds=len(gains[True]),
            converged=curves.converged(),
            note="P(ω) from α and the conduit's first 0, 1, … words",
            runs=(f"k-{k}",),
        )

    return Row(
        f"familiar's P(ω) grows with each conduit word, k = {k}, epoch {epoch}, {where} [{KINDS[kind]}]",
        measure,
        paper="grows substantially; unfamiliar is high from α alone",
        source="Figure 5",
        criterion=Criterion(
            "for every seed: from α alone to α and k − 1 words familiar's P(ω) grows, and more than unfamiliar's",
            lambda found: found[0] == found[1],
            seeds,
        ),
    )


ERROR_NAMES = {"window": "E of the whole window", "omega": "E of ω alone", "local": "E of the next token alone"}


def _gradient_row(kind: str, error: str, epoch: int, seeds: int) -> Row:
    def measure(runs: Runs) -> Measured | None:
        curves, cases = Curves(runs), []
        for k in curves.lengths:
            point = curves.at(epoch, k)
            if point is None or "gradients" not in point:
                return None
            plain, known = (curves.index(k, kind=kind, familiar=side) for side in (False, True))
            norms = point["gradients"][error]
            cases += [(np.mean(norms[a][1:]), np.mean(norms[b][1:])) for a, b in zip(plain, known)]
        if not cases:
            return None
        true = sum(bool(b < a) for a, b in cases)
        return Measured(
            f"{true} of {len(cases)} (length, seed) cases; mean {np.mean([a for a, _ in cases]):.3g} / "
            f"{np.mean([b for _, b in cases]):.3g}",
            value=(true, len(cases)),
            seeds=curves.seeds(),
            converged=curves.converged(),
            note="‖∂E/∂h‖ along the conduit, unfamiliar / familiar",
            runs=curves.names,
        )

    return Row(
        f"a familiar conduit has the smaller error gradient, epoch {epoch}, {ERROR_NAMES[error]} [{KINDS[kind]}]",
        measure,
        paper="smaller",
        source="Figure 11",
        criterion=Criterion(
            "in every (length, seed) case: mean ‖∂E/∂h‖ along the conduit; familiar is smaller",
            lambda found: found[0] == found[1],
            seeds,
        ),
    )


def _bias_row(k: int) -> Row:
    def measure(runs: Runs) -> Measured | None:
        if f"k-{k}" not in runs:
            return None
        curves, run = Curves(runs), runs[f"k-{k}"]
        sources = {"untrained": run["untrained"], "trained": run["curves"][-1], "bias rule murdoch": run["murdoch"]}
        parts = []
        for name, source in sources.items():
            plain, known = (
                np.mean([source["in.interdependence"][m] for m in curves.index(k, kind="exact", familiar=side)])
                for side in (False, True)
            )
            parts.append(f"{name} {plain:.3g} / {known:.3g}")
        return Measured("; ".join(parts), note="unfamiliar / familiar, in-domain, exact corpora")

    return Row(f"controls, interdependence of α and conduit, k = {k}", measure)


def _frequency_rows(config: Config) -> list[Row]:
    """Figure 10: each number of rules, and what the paper says of all."""
    counts, seeds = config["counts"], len(config["count_seeds"])
    cost = "48 models of 63,000 steps" if config["scale"] == "paper" else ""

    def means(runs: Runs, what: str, count: int) -> dict[int, float]:
        """The mean over seeds at the last epoch, by length."""
        curves = Curves(runs, COUNTS)
        return {k: float(curves.of(f"random.{what}", k, count=count)[-1].mean()) for k in curves.lengths}

    def row(count: int) -> Row:
        def measure(runs: Runs) -> Measured | None:
            one, other = means(runs, "open", count), means(runs, "conduit", count)
            if not one:
                return None
            text = "; ".join(f"k={k}: {one[k]:.3g} / {other[k]:.3g}" for k in one)
            note = f"P(ω) from α / from the conduit, random conduits; {Curves(runs, COUNTS).trained()}"
            return Measured(text, seeds=Curves(runs, COUNTS).seeds(), note=note)

        return Row(f"P(ω) with {count:,} rules", measure, source="Figure 10", cost=cost)

    def claim(name: str, text: str, what: str, chosen: str, enough: float, note: str = "") -> Row:
        def measure(runs: Runs) -> Measured | None:
            curves = Curves(runs, COUNTS)
            if len(curves.lengths) < 2:
                return None
            each = {count: means(runs, what, count) for count in counts}
            count = next((n for n, found in each.items() if found[curves.lengths[0]] >= enough), None)
            if count is None:
                return Measured("no number of rules was enough", converged=False, runs=curves.names)
            said = ", ".join(f"k={k}: {value:.3g}" for k, value in each[count].items())
            found = list(each[count].values())
            return Measured(f"with {count:,} rules {said}", found, curves.seeds(), curves.finished(), runs=curves.names)

        judged = f"{chosen} the mean of the seeds falls with every step of the length, at the last epoch"
        criterion = Criterion(judged, lambda found: all(b < a for a, b in pairwise(found)), seeds)
        return Row(name, measure, text, "Figure 10", criterion, cost, note)

    few = "with the fewest rules"
    return [
        *map(row, counts),
        claim(
            "longer conduits need more rules: P(ω) from α falls with the length",
            "longer needs more",
            "open",
            f"{few} that teach the shortest length (P(ω) from α of one half)",
            0.5,
            "this criterion replaced another after a run at the small scale, and before any at the paper's",
        ),
        claim("where rules are rare, P(ω) from the conduit falls with the length", "declines", "conduit", few, 0.0),
    ]


# --- figures ----------------------------------------------------------------------------------------------


def draw(folder: Path, config: Config, runs: Runs) -> None:
    """Figures 3–6, 10 and 11 as PNG; solid lines unfamiliar, dashed familiar, bands the seeds' range."""
    _draw_counts(folder, config, Curves(runs, COUNTS))
    curves = Curves(runs)
    if not curves.lengths:
        return
    colours = {k: f"C{index}" for index, k in enumerate(curves.lengths)}
    for kind in ("exact", "authors"):
        with plot(folder / f"figure3_4_6_{kind}.png", 4, KINDS[kind]) as axes:
            _lines(axes[0], curves, colours, "in.whole", "Figure 3a: P(ω), in-domain", kind)
            _lines(axes[1], curves, colours, "random.whole", "Figure 3b: P(ω), random conduits", kind)
            _lines(axes[2], curves, colours, "random.open", "Figure 4: P(ω) from α alone, random", kind)
            _lines(axes[3], curves, colours, "in.interdependence", "Figure 6: interdependence α–conduit", kind)
            axes[0].legend(fontsize=7)
    with plot(folder / "controls.png", len(colours), "familiar conduits, P(ω) in-domain") as axes:
        for axis, k in zip(axes, curves.lengths):
            for kind in KINDS:
                _band(axis, curves.epochs(k), curves.of("in.whole", k, kind=kind, familiar=True), label=kind)
            axis.set(xlabel="epoch", title=f"k = {k}")
        axes[0].legend(fontsize=7)
    _draw_prefixes(folder, config, curves)


def _draw_counts(folder: Path, config: Config, curves: Curves) -> None:
    if not curves.lengths:
        return
    with plot(folder / "figure10.png", 2, "Figure 10: by the number of rules, last epoch") as axes:
        for axis, (what, title) in zip(axes, (("open", "P(ω) from α"), ("conduit", "P(ω) from the conduit"))):
            for k in curves.lengths:
                found = [curves.of(f"random.{what}", k, count=count)[-1] for count in config["counts"]]
                _band(axis, config["counts"], np.array(found), label=f"k={k}", marker=".")
            axis.set(xscale="log", yscale="log", xlabel="rules", title=title)
            axis.legend(fontsize=7)


def _band(axis: Any, x: Sequence[int], seeds: np.ndarray, **options: Any) -> None:
    (line,) = axis.plot(x, seeds.mean(1), **options)
    axis.fill_between(x, seeds.min(1), seeds.max(1), color=line.get_color(), alpha=0.12, lw=0)


def _lines(axis: Any, curves: Curves, colours: dict[int, str], measure: str, title: str, kind: str) -> None:
    for k, colour in colours.items():
        for familiar in (False, True):
            label = f"k={k}{' familiar' if familiar else ''}"
            found = curves.of(measure, k, kind=kind, familiar=familiar)
            _band(axis, curves.epochs(k), found, ls="--" if familiar else "-", color=colour, label=label)
    axis.set_title(title, fontsize=9)
    axis.set_xlabel("epoch")


def _draw_prefixes(folder: Path, config: Config, curves: Curves) -> None:
    k, epoch = max(config["lengths"]), config["gradients"][-1]
    point = curves.at(epoch, k) if k in curves.lengths else None
    if point is None:
        return
    with plot(folder / "figure5.png", 2) as axes:
        for axis, test in zip(axes, ("in", "random")):
            for familiar in (False, True):
                for kind in ("exact", "authors"):
                    index = curves.index(k, kind=kind, familiar=familiar)
                    found = np.array([point["prefixes"][test][m] for m in index]).T
                    label = f"{'familiar' if familiar else 'unfamiliar'}, {kind}"
                    _band(axis, range(k + 1), found, ls="--" if familiar else "-", label=label)
            axis.set_title(f"Figure 5: P(ω) from α and i words, k={k}, {test}", fontsize=8)
            axis.set_xlabel("i")
        axes[0].legend(fontsize=7)
    with plot(folder / "figure11.png", len(ERRORS), f"Figure 11: ‖∂E/∂h‖, k = {k}, epoch {epoch}") as axes:
        for axis, error in zip(axes, ERRORS):
            for familiar in (False, True):
                for kind in ("exact", "authors"):
                    index = curves.index(k, kind=kind, familiar=familiar)
                    found = np.array([point["gradients"][error][m] for m in index]).T
                    label = f"{'familiar' if familiar else 'unfamiliar'}, {kind}"
                    _band(axis, range(k + 1), found, ls="--" if familiar else "-", label=label)
            axis.set_title(ERROR_NAMES[error], fontsize=8)
            axis.set_xlabel("d")
        axes[0].legend(fontsize=7)


SYNTHETIC = Experiment("interdependence.synthetic", SCALES, (lengths,), train_length, rows, draw)
synthetic = SYNTHETIC.run
