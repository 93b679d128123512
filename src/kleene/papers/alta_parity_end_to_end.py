"""End-to-end supervision on parity (Table 3, Figures 5, 9, 10 and 11), and the simplicity bias of section 4.1."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

import kleene as kl
from kleene.checks.minimality import minimal
from kleene.files import read_json
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
from kleene.papers.report import Result
from kleene.papers.tasks import Plan, at_scale, fast_device, train_all
from kleene.training.end_to_end import Data, labelled, train_standard
from kleene.training.loop import seeded

Row = tuple[int, bool, str]  # layers, shared weights, positions
FULL_STEPS = 50_000
PAPER: dict[Row, str] = {
    (8, False, "relative"): "100 % / 60 % / 51 %",
    (8, True, "relative"): "100 % / 65 % / 52 %",
    (40, False, "relative"): "100 % / 55 % / 51 %",
    (40, True, "relative"): "100 % / 54 % / 48 %",
    (8, False, "absolute"): "100 % / 49 % / 50 %",
    (8, True, "absolute"): "100 % / 50 % / 52 %",
    (40, False, "absolute"): "100 % / 50 % / 51 %",
    (40, True, "absolute"): "100 % / 52 % / 51 %",
}
SCALES: dict[str, dict[str, Any]] = {  # `layers`: few and many, with the steps of each; the paper has 8 and 40
    "paper": {
        "layers": {8: 50_000, 40: 5_000},
        "seeds": [0],
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


def parity_end_to_end(
    scale: str = "small",
    data: Path | None = None,
    folder: Path | str = "results/alta.parity-end-to-end",
    progress: bool = True,
    plan: Plan | None = None,
) -> Result:
    """Train standard transformers on short words' parities; compare what they say of longer ones."""
    config, plan = at_scale(SCALES, scale), plan or Plan()
    trained, longest = LENGTHS[scale]
    result = Result(
        "alta.parity-end-to-end", Path(folder), {"scale": scale, "trained": trained, "longest": longest, **config}
    )
    train_all(result, learn_one, tasks(scale, plan), scale, plan, progress)
    test = words(longest, config["test_each"], seed=2)
    few, many = config["layers"]
    for (layers, shared, positions), paper in PAPER.items():
        _row(result, (few if layers == 8 else many, shared, positions), paper, config, test, trained)
    _simplicity(result, test, trained, longest)
    _draw(result, test, trained)
    result.write()
    return result


def _name(row: Row, seed: int) -> str:
    layers, shared, positions = row
    return f"{positions}-{layers}-{'shared' if shared else 'own'}-seed-{seed}"


def _title(row: Row) -> str:
    layers, shared, positions = row
    return f"{layers} layers, {'shared weights' if shared else 'own weights'}, {positions} positions"


def tasks(scale: str, plan: Plan) -> dict[str, dict[str, Any]]:
    """The training runs, by name."""
    config, (trained, longest) = at_scale(SCALES, scale), LENGTHS[scale]
    kept = ("train_each", "test_each", "every", "batch", "rate", "optimiser", "shape")
    return {
        _name((layers, shared, positions), seed): {
            "layers": layers,
            "shared": shared,
            "positions": positions,
            "seed": seed,
            "trained": trained,
            "longest": longest,
            "steps": plan.step_count(steps),
            **{key: config[key] for key in kept},
        }
        for positions in ("relative", "absolute")
        for layers, steps in config["layers"].items()
        for shared in (False, True)
        for seed in config["seeds"]
    }


def examples(given: list[Bits]) -> Data:
    """START and the bits; the last position's label is the word's parity."""
    inputs = [[START, *word] for word in given]
    return labelled(inputs, [[*[0] * len(word), sum(word) % 2] for word in given], "last")


def learn_one(
    layers: int,
    shared: bool,
    positions: str,
    seed: int,
    trained: int,
    longest: int,
    train_each: int,
    test_each: int,
    steps: int,
    every: int,
    batch: int,
    rate: float,
    optimiser: str,
    shape: dict[str, int],
    folder: Path,
    deadline: float | None,
) -> dict[str, Any]:
    """One transformer, trained on words of up to `trained` bits; what it says of the test words."""
    device = fast_device()
    test = words(longest, test_each, seed=2)
    torch.manual_seed(seeded(seed, -1))
    net = StandardTransformer(
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
    train_standard(
        net,
        examples(words(trained, train_each, seed=1)),
        steps=steps,
        rate=rate,
        optimiser=optimiser,
        batch=batch,
        seed=seed,
        every=every,
        folder=folder,
        save_seconds=60,
        deadline=deadline,
        device=device,
    )
    said = "".join(str(output[-1]) for output in net.run_batch([[START, *word] for word in test]))
    last = net.metrics[-1] if net.metrics else {"step": 0}
    parameters = sum(p.numel() for p in net.parameters())
    return {"said": said, **last, "parameters": parameters, "finished": last["step"] >= steps}


def _cells(run: Mapping[str, Any], test: list[Bits], trained: int) -> Cells:
    return Cells.of(test, [int(answer) for answer in run["said"]], trained)


def _row(result: Result, row: Row, paper: str, config: Mapping[str, Any], test: list[Bits], trained: int) -> None:
    names = [name for seed in config["seeds"] if (name := _name(row, seed)) in result.runs]
    title = f"{_title(row)}: length ≤ {trained} / > {trained} / ones > {trained}"
    theirs = paper if trained == 20 else f"{paper} (width 512, {8 if row[0] == min(config['layers']) else 40} layers)"
    if not names:
        result.row(title, theirs, "not run")
        return
    each = [_cells(result.runs[name], test, trained).slices for name in names]
    mean = [sum(values) / len(values) for values in zip(*each)]
    steps = ", ".join(f"{result.runs[name]['step']:,}" for name in names)
    notes = [f"seeds {config['seeds'][: len(names)]}: {'; '.join(map(shown, each))}"] if len(names) > 1 else ["1 seed"]
    notes.append(f"{steps} steps (paper {FULL_STEPS:,})")
    if mean[0] < 1:
        notes.append("**not converged**")
    result.row(title, theirs, shown(mean), ". ".join(notes))


# --- simplicity bias --------------------------------------------------------------------------------------


def _simplicity(result: Result, test: list[Bits], trained: int, longest: int) -> None:
    """Each program's size beside how far the transformers agree with its minimal version on longer words.

    Those of relative positions are asked, which generalise at all. What Sum + Modulo says of more ones than training
    had is one answer for all words, 0 or 1: which, the training words leave open, so the better one counts.
    """
    held_out = [place for place, word in enumerate(test) if len(word) > trained]
    groups = [[at for at in held_out if (sum(test[at]) > trained) == many] for many in (False, True)]
    runs = [run for name, run in result.runs.items() if name.startswith("relative")]
    most: dict[str, float] = {}
    for kind in TITLES:
        program = make_program(kind, longest)
        small = minimal(program, [tokens(kind, word) for word in readable(kind, words(trained, 200, seed=1))])
        wanted = dict(zip(held_out, answers(kind, small, [test[place] for place in held_out], longest)))
        sizes, count = kl.compile(small).sizes, small.seen.rule_count
        shares = [[_agreement(run["said"], wanted, group) for group in groups] for run in runs]
        if kind == "sum":
            shares = [[few, max(many, 1 - many)] for few, many in shares]
        mean = [sum(values) / len(values) for values in zip(*shares)]
        most[kind] = mean[1] if mean else 0.0
        result.row(
            f"simplicity bias: agreement with the minimal {TITLES[kind]}, at most / more than {trained} ones",
            "",
            " / ".join(map(percent, mean)) or "not run",
            f"{count} rules, {1 if kind == 'sum' else trained} layers for {trained} bits, {sizes.parameters:,} "
            f"parameters ({sizes.nonzero:,} not zero); longer words, mean of {len(runs)} networks",
        )
    if runs:
        result.row(
            "simplicity bias: the fewest layers, not the fewest rules",
            "Sum + Modulo, 31 rules, agrees most",
            f"{percent(most['sum'])} with Sum + Modulo, {percent(most['relative'])} with Sequential (Relative)",
            f"longer words with more than {trained} ones; elsewhere the two say the same",
            most["sum"] > most["relative"],
        )
    if result.runs:
        relative = _mean_slices(result, "relative", test, trained)
        absolute = _mean_slices(result, "absolute", test, trained)
        if relative and absolute:
            result.row(
                "longer words: relative positions above absolute ones",
                "60, 65, 55, 54 % above 49, 50, 50, 52 %",
                f"{percent(relative[1])} and {percent(absolute[1])}",
                "means of the rows",
                relative[1] > absolute[1],
            )
            away = max(abs(slices[2] - 0.5) for slices in (relative, absolute))
            result.row(
                f"more than {trained} ones: nothing is learned",
                "about 50 %",
                f"{percent(relative[2])} and {percent(absolute[2])}",
                "relative and absolute",
                away < 0.1,
            )


def _agreement(said: str, wanted: Mapping[int, int], places: list[int]) -> float:
    return sum(int(said[at]) == wanted[at] for at in places) / max(1, len(places))


def _mean_slices(result: Result, positions: str, test: list[Bits], trained: int) -> list[float]:
    each = [_cells(run, test, trained).slices for name, run in result.runs.items() if name.startswith(positions)]
    return [sum(values) / len(values) for values in zip(*each)]


# --- figures ----------------------------------------------------------------------------------------------


def _draw(result: Result, test: list[Bits], trained: int) -> None:
    if not result.runs:
        return
    found = {name: _cells(run, test, trained) for name, run in result.runs.items()}
    relative = {name: cells for name, cells in found.items() if name.startswith("relative")}
    absolute = {name: cells for name, cells in found.items() if name.startswith("absolute")}
    compared = {f"from traces: {TITLES[kind]}": cells for kind, cells in _traced(result, trained).items()}
    for name, some in (("relative", relative), ("absolute", absolute)):
        if some:
            label = f"end to end: {name} positions, mean of {len(some)}"
            compared[label] = Cells.joined(list(some.values()))

    def draw(figure: str, title: str, panels: dict[str, Any], ylabel: str = "right") -> None:
        draw_lines(result.folder / f"parity-end-to-end{figure}.png", panels, title, ylabel, trained)

    def curves(some: dict[str, Cells], axis: int, column: int = 3) -> dict[str, Any]:
        return {name: cells.by(axis, column) for name, cells in some.items()}

    draw("", "Figure 5: trace and end-to-end supervision", {"length": curves(compared, 0), "ones": curves(compared, 1)})
    draw(
        "-figure9",
        "Figure 9: by length",
        {"length, relative positions": curves(relative, 0), "length, absolute positions": curves(absolute, 0)},
    )
    draw("-figure10", "Figure 10: by number of ones", {"ones, relative positions": curves(relative, 1)})
    draw("-figure11", "Figure 11: mean prediction", {"ones, relative positions": curves(relative, 1, 4)}, "share of 1")


def _traced(result: Result, trained: int) -> dict[str, Cells]:
    """The networks learned from traces, where that experiment's results lie beside these."""
    found = {}
    for kind in TITLES:
        for beside in ("parity-trace", "alta.parity-trace"):
            path = result.folder.parent / beside / "runs" / result.config["scale"] / f"{kind}-seed-0.json"
            if path.exists():
                found[kind] = Cells(read_json(path)["result"]["cells"], trained)
    return found
