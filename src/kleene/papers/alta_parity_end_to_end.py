"""End-to-end supervision on parity (Table 3, Figures 5, 9, 10 and 11), and the simplicity bias of section 4.1."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

import kleene as kl
from kleene.checks.minimality import minimal
from kleene.library.parity import START
from kleene.networks.trained.encoder_decoder import StandardConfig, StandardTransformer
from kleene.papers.alta_parity import (
    LENGTHS,
    TITLES,
    Bits,
    Cells,
    draw_lines,
    make_program,
    percent,
    readable,
    shown,
    tokens,
    words,
)
from kleene.papers.alta_parity_minimal import answers
from kleene.papers.protocol import Config, Criterion, Experiment, Measured, Row, Runs
from kleene.papers.tasks import Plan, Tasks, Together, fast_device
from kleene.training.end_to_end import Data, labelled, train_standard
from kleene.training.loop import seeded
from kleene.training.options import Storage, TrainingPlan
from kleene.training.standard_stack import train_standards

Cell = tuple[int, bool, str]  # layers, shared weights, positions
FULL_STEPS = 50_000
PAPER: dict[Cell, tuple[int, int, int]] = {  # percent: length ≤ 20, > 20, ones > 20
    (8, False, "relative"): (100, 60, 51),
    (8, True, "relative"): (100, 65, 52),
    (40, False, "relative"): (100, 55, 51),
    (40, True, "relative"): (100, 54, 48),
    (8, False, "absolute"): (100, 49, 50),
    (8, True, "absolute"): (100, 50, 52),
    (40, False, "absolute"): (100, 50, 51),
    (40, True, "absolute"): (100, 52, 51),
}
SCALES: dict[str, dict[str, Any]] = {  # `layers`: few and many, with the steps of each; the paper has 8 and 40
    "paper": {
        "layers": {8: 50_000, 40: 5_000},
        "seeds": [0, 1, 2],
        "train_each": 2_000,
        "test_each": 100,
        "every": 500,
        "batch": 128,
        "rate": 5e-4,
        "optimiser": "adafactor",
        "shape": {"width": 512, "hidden": 2048, "heads": 6, "head_size": 64},
    },
    "small": {
        "layers": {2: 4_000, 4: 2_500},
        "seeds": [0],
        "train_each": 400,
        "test_each": 50,
        "every": 250,
        "batch": 64,
        "rate": 5e-4,
        "optimiser": "adam",
        "shape": {"width": 64, "hidden": 256, "heads": 4, "head_size": 16},
    },
    "tiny": {
        "layers": {1: 20, 2: 20},
        "seeds": [0],
        "train_each": 20,
        "test_each": 5,
        "every": 10,
        "batch": 16,
        "rate": 1e-3,
        "optimiser": "adam",
        "shape": {"width": 16, "hidden": 32, "heads": 2, "head_size": 8},
    },
}
for _scale, (_trained, _longest) in LENGTHS.items():
    SCALES[_scale] |= {"trained": _trained, "longest": _longest}
OPTIONS = ("train_each", "test_each", "every", "batch", "rate", "optimiser", "shape")
PLANNED = ("steps", "every", "batch", "rate", "optimiser")  # of a task's arguments


def cells(config: Config) -> dict[Cell, tuple[int, int, int]]:
    """The paper's figures by cell, with this scale's few and many layers in the place of 8 and 40."""
    few, many = config["layers"]
    return {(few if layers == 8 else many, *rest): paper for (layers, *rest), paper in PAPER.items()}


def name_of(cell: Cell, seed: int) -> str:
    """The name of a training run."""
    layers, shared, positions = cell
    return f"{positions}-{layers}-{'shared' if shared else 'own'}-seed-{seed}"


def tasks(config: Config, data: Path | None, plan: Plan, runs: Runs) -> Tasks:
    """The minimal versions' answers, and the training runs."""
    sizes = {key: config[key] for key in ("trained", "longest", "test_each")}
    found: dict[str, dict[str, Any]] = {"minimal-versions": {"kind": "minimal-versions", **sizes}}
    for layers, shared, positions in cells(config):
        for seed in config["seeds"]:
            found[name_of((layers, shared, positions), seed)] = {
                "layers": layers,
                "shared": shared,
                "positions": positions,
                "seed": seed,
                "trained": config["trained"],
                "longest": config["longest"],
                "steps": plan.step_count(config["layers"][layers]),
                **{key: config[key] for key in OPTIONS},
            }
    return found


def work(kind: str = "train", **arguments: Any) -> dict[str, Any]:
    """One task."""
    return minimal_versions(**arguments) if kind == "minimal-versions" else learn_one(**arguments)


def minimal_versions(
    trained: int, longest: int, test_each: int, folder: Path, deadline: float | None
) -> dict[str, Any]:
    """Return what each program's minimal version, from words of up to `trained` bits, says of the test words."""
    test = words(longest, test_each, seed=2)
    found: dict[str, Any] = {}
    for kind in TITLES:
        program = make_program(kind, longest)
        small = minimal(program, [tokens(kind, word) for word in readable(kind, words(trained, 200, seed=1))])
        given = readable(kind, test)
        said = iter(answers(kind, small, given, longest))
        sizes = kl.compile(small).sizes
        found[kind] = {
            "said": "".join(str(next(said)) if word or kind != "absolute" else "0" for word in test),
            "rules": small.seen.rule_count,
            "parameters": sizes.parameters,
            "nonzero": sizes.nonzero,
        }
    return found


def examples(given: list[Bits]) -> Data:
    """START and the bits; the last position's label is the word's parity."""
    inputs = [[START, *word] for word in given]
    return labelled(inputs, [[*[0] * len(word), sum(word) % 2] for word in given], "last")


def learn_one(folder: Path, deadline: float | None, **arguments: Any) -> dict[str, Any]:
    """One transformer, trained on words of up to `trained` bits; what it says of the test words."""
    net, plan = network(**arguments), plan_of(**arguments)
    train_standard(net, training_words(**arguments), plan=plan, storage=storage(folder, deadline))
    return said_by(net, plan, **arguments)


def learn_together(
    tasks: Mapping[str, Mapping[str, Any]], folder: Path, deadline: float | None
) -> dict[str, dict[str, Any]]:
    """Transformers of one shape, trained side by side."""
    each = list(tasks.values())
    plans = [plan_of(**arguments) for arguments in each]
    nets = train_standards(
        [network(**arguments) for arguments in each],
        training_words(**each[0]),
        plans=plans,
        storage=storage(folder, deadline),
        title=folder.name,
    )
    return {
        name: said_by(net.to(fast_device()), plan, **arguments)
        for net, plan, (name, arguments) in zip(nets, plans, tasks.items())
    }


def group(arguments: Mapping[str, Any]) -> str | None:
    """Networks of one depth learn side by side, those that share their weights apart from those that do not."""
    if "layers" not in arguments:
        return None
    return f"together-{arguments['layers']}-{'shared' if arguments['shared'] else 'own'}"


def storage(folder: Path, deadline: float | None) -> Storage:
    return Storage(folder=folder, save_seconds=60, deadline=deadline, device=fast_device())


def plan_of(seed: int, **arguments: Any) -> TrainingPlan:
    return TrainingPlan(seed=seed, **{key: arguments[key] for key in PLANNED})


def training_words(trained: int, train_each: int, **_: Any) -> Data:
    return examples(words(trained, train_each, seed=1))


def network(
    layers: int, shared: bool, positions: str, seed: int, longest: int, shape: dict[str, int], **_: Any
) -> StandardTransformer:
    """A network with its first weights."""
    torch.manual_seed(seeded(seed, -1))
    return StandardTransformer(
        StandardConfig(
            tokens=3,
            classes=2,
            layers=layers,
            shared=shared,
            positions=positions,
            max_length=longest + 1,
            name="parity",
            **shape,
        )
    )


def said_by(net: StandardTransformer, plan: TrainingPlan, longest: int, test_each: int, **_: Any) -> dict[str, Any]:
    """Return what a trained network says of the test words, and how it was trained."""
    test = words(longest, test_each, seed=2)
    said = "".join(str(output[-1]) for output in net.run_batch([[START, *word] for word in test]))
    last = net.metrics[-1] if net.metrics else {"step": 0}
    parameters = sum(p.numel() for p in net.parameters())
    metrics = net.metrics[:: max(1, len(net.metrics) // 20)]
    finished = last["step"] >= plan.steps
    return {"said": said, **last, "metrics": metrics, "parameters": parameters, "finished": finished}


# --- rows -------------------------------------------------------------------------------------------------


class Networks:
    """The trained networks of a scale, as the raw runs have them."""

    def __init__(self, config: Config, runs: Runs) -> None:
        self.config, self.trained, self.runs = config, config["trained"], runs
        self.test = words(config["longest"], config["test_each"], seed=2)

    def cells(self, name: str) -> Cells:
        return Cells.of(self.test, [int(answer) for answer in self.runs[name]["said"]], self.trained)

    def converged(self, name: str) -> bool:
        """Whether a network is right on every tested word that is no longer than in training."""
        return self.cells(name).slices[0] == 1.0

    def of(self, positions: str) -> list[str]:
        """The converged networks with these positions."""
        return [name for name in self.runs if name.startswith(positions) and self.converged(name)]

    def agreement(self, name: str, kind: str) -> float:
        """Count the words with more ones than in training on which a network says what a minimal version does."""
        said: str = self.runs[name]["said"]
        wanted: str = self.runs["minimal-versions"][kind]["said"]
        places = [at for at, word in enumerate(self.test) if sum(word) > self.trained]
        return sum(said[at] == wanted[at] for at in places) / len(places)


def rows(config: Config) -> list[Row]:
    """Table 3; then agreement with the minimal versions; then what the paper says of all rows together."""
    return [
        *(_table_row(config, cell, paper) for cell, paper in cells(config).items()),
        *(_agreement_row(config, kind) for kind in TITLES),
        _simplicity_row(config),
        _positions_row(config),
        _many_ones_row(config),
    ]


def _table_row(config: Config, cell: Cell, paper: tuple[int, int, int]) -> Row:
    layers, shared, positions = cell
    trained = config["trained"]
    names = [name_of(cell, seed) for seed in config["seeds"]]

    def measure(runs: Runs) -> Measured | None:
        found = [name for name in names if name in runs]
        if not found:
            return None
        networks = Networks(config, runs)
        each = [networks.cells(name).slices for name in found]
        mean = [sum(values) / len(values) for values in zip(*each)]
        notes = [f"{len(found)} seed{'s' * (len(found) > 1)}: " + "; ".join(map(shown, each))]
        notes.append(", ".join(f"{runs[name]['step']:,}" for name in found) + " steps")
        if config["scale"] == "paper":
            notes[-1] += f" (the paper's: {FULL_STEPS:,})"
        if lost := [name for name in found if not networks.converged(name)]:
            notes.append(f"**not converged**: {len(lost)} of {len(found)}")
        return Measured(shown(mean), mean, len(found), not lost, ". ".join(notes), tuple(found))

    theirs = " / ".join(f"{part} %" for part in paper)
    few = layers == min(config["layers"])
    steps = config["layers"][layers]
    return Row(
        f"{layers} layers, {'shared' if shared else 'own'} weights, {positions} positions: "
        f"length ≤ {trained} / > {trained} / ones > {trained}",
        measure,
        paper=theirs if trained == 20 else f"{theirs} (width 512, {8 if few else 40} layers)",
        source="ALTA, Table 3",
        criterion=Criterion(
            "the mean of three seeds is within 5 points of the paper's on longer words, and within 5 points of 50 % on "
            "more ones",
            lambda mean: abs(mean[1] - paper[1] / 100) <= 0.05 and abs(mean[2] - 0.5) <= 0.05,
        )
        if trained == 20
        else None,
        cost=f"{steps:,} steps a seed, {16 if few else 70} minutes on an H200 that trains nine"
        if trained == 20
        else "",
    )


def _folded(share: float) -> float:
    return max(share, 1 - share)


def _agreement_row(config: Config, kind: str) -> Row:
    def measure(runs: Runs) -> Measured | None:
        networks = Networks(config, runs)
        if "minimal-versions" not in runs or not networks.of("relative"):
            return None
        parts = []
        for positions in ("relative", "absolute"):
            shares = [networks.agreement(name, kind) for name in networks.of(positions)]
            if shares:
                raw, folded = sum(shares) / len(shares), sum(map(_folded, shares)) / len(shares)
                parts.append(f"{positions} positions {percent(raw)}, folded {percent(folded)} ({len(shares)} networks)")
        about = runs["minimal-versions"][kind]
        note = (
            f"{about['rules']} rules, {1 if kind == 'sum' else config['trained']} layers for {config['trained']} bits"
        )
        return Measured("; ".join(parts), note=note)

    return Row(
        f"agreement with the minimal {TITLES[kind]} on words with more than {config['trained']} ones",
        measure,
        note="converged networks; folded: max(x, 1 − x) for each network, which is at least 50 % whatever it says",
    )


def _simplicity_row(config: Config) -> Row:
    def measure(runs: Runs) -> Measured | None:
        networks = Networks(config, runs)
        names = networks.of("relative")
        if "minimal-versions" not in runs or not names:
            return None
        shares = {kind: [networks.agreement(name, kind) for name in names] for kind in ("sum", "relative")}
        means = {kind: sum(values) / len(values) for kind, values in shares.items()}
        return Measured(
            f"{percent(means['sum'])} with Sum + Modulo, {percent(means['relative'])} with Sequential (Relative)",
            value=list(zip(shares["sum"], shares["relative"])),
            seeds=len(names),
            note=f"converged networks with relative positions, not folded, more than {config['trained']} ones",
            runs=tuple(names),
        )

    return Row(
        "simplicity bias: networks agree more with the program of fewest layers than with that of fewest rules",
        measure,
        paper="more consistent with Sum + Modulo",
        source="ALTA, section 4.1",
        criterion=Criterion(
            "of at least three converged networks with relative positions, each agrees more often with the minimal "
            "Sum + Modulo than with the minimal Sequential (Relative), without folding",
            lambda pairs: all(one > other for one, other in pairs),
        ),
    )


def _positions_row(config: Config) -> Row:
    def measure(runs: Runs) -> Measured | None:
        networks = Networks(config, runs)
        shares = {
            positions: [networks.cells(name).slices[1] for name in networks.of(positions)]
            for positions in ("relative", "absolute")
        }
        if not all(shares.values()):
            return None
        means = [sum(values) / len(values) for values in shares.values()]
        return Measured(
            f"{percent(means[0])} and {percent(means[1])}",
            value=shares,
            seeds=min(map(len, shares.values())),
            note=" and ".join(f"{len(values)} converged networks" for values in shares.values()),
            runs=tuple(name for positions in shares for name in networks.of(positions)),
        )

    return Row(
        "longer words: relative positions above absolute ones",
        measure,
        paper="60, 65, 55, 54 % above 49, 50, 50, 52 %",
        source="ALTA, Table 3",
        criterion=Criterion(
            "of at least three converged networks on either side, every one with relative positions is above every one "
            "with absolute positions",
            lambda shares: min(shares["relative"]) > max(shares["absolute"]),
        ),
    )


def _many_ones_row(config: Config) -> Row:
    def measure(runs: Runs) -> Measured | None:
        networks = Networks(config, runs)
        names = [name for positions in ("relative", "absolute") for name in networks.of(positions)]
        if not names:
            return None
        shares = [networks.cells(name).slices[2] for name in names]
        return Measured(
            ", ".join(map(percent, shares)), shares, len(names), note="converged networks", runs=tuple(names)
        )

    return Row(
        f"more than {config['trained']} ones: nothing is learned",
        measure,
        paper="48 to 52 %",
        source="ALTA, Table 3",
        criterion=Criterion(
            "of at least three converged networks each is within 5 points of 50 %",
            lambda shares: all(abs(share - 0.5) <= 0.05 for share in shares),
        ),
    )


# --- figures ----------------------------------------------------------------------------------------------


def draw(folder: Path, config: Config, runs: Runs) -> None:
    """Figures 5, 9, 10 and 11."""
    networks = Networks(config, runs)
    found = {name: networks.cells(name) for name in runs if name != "minimal-versions"}
    relative = {name: one for name, one in found.items() if name.startswith("relative")}
    absolute = {name: one for name, one in found.items() if name.startswith("absolute")}
    compared = {
        f"{positions} positions, mean of {len(some)}": Cells.joined(list(some.values()))
        for positions, some in (("relative", relative), ("absolute", absolute))
        if some
    }

    def figure(number: str, title: str, panels: dict[str, Any], ylabel: str = "right") -> None:
        draw_lines(folder / f"parity-end-to-end{number}.png", panels, title, ylabel, config["trained"])

    def curves(some: Mapping[str, Cells], axis: int, column: int = 3) -> dict[str, Any]:
        return {name: one.by(axis, column) for name, one in some.items()}

    by_length = {"length, relative positions": curves(relative, 0), "length, absolute positions": curves(absolute, 0)}
    figure("", "Figure 5: end-to-end supervision", {"length": curves(compared, 0), "ones": curves(compared, 1)})
    figure("-figure9", "Figure 9: by length", by_length)
    figure("-figure10", "Figure 10: by number of ones", {"ones, relative positions": curves(relative, 1)})
    said = {"ones, relative positions": curves(relative, 1, 4)}
    figure("-figure11", "Figure 11: mean prediction", said, "share of 1")


END_TO_END = Experiment(
    "alta.parity-end-to-end", SCALES, (tasks,), work, rows, draw, together=Together(group, learn_together)
)
