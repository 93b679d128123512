"""Minimal versions, by analysis alone: what a training set of parity says about longer words (Figure 4)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import kleene as kl
from kleene.checks.minimality import minimal
from kleene.checks.unspecified import unspecified
from kleene.errors import KleeneError
from kleene.papers.alta_parity import (
    LENGTHS,
    TITLES,
    Bits,
    Cells,
    draw_grid,
    every_cell,
    make_program,
    percent,
    readable,
    tokens,
    words,
)
from kleene.papers.protocol import Config, Criterion, Experiment, Measured, Row, Runs
from kleene.papers.tasks import Plan, Tasks

EACH = {"paper": (200, 5), "small": (100, 5), "tiny": (40, 2)}  # training words a number of ones, test words a cell
SCALES: dict[str, dict[str, Any]] = {
    scale: {
        "trained": LENGTHS[scale][0],
        "longest": LENGTHS[scale][1],
        "train_each": EACH[scale][0],
        "test_each": EACH[scale][1],
    }
    for scale in EACH
}
RULES = {"relative": "7", "sum": "31"}
GENERALISES = {
    "relative": "to every length",
    "absolute": "not past the trained length",
    "sum": "not past the trained number of ones",
}


def tasks(config: Config, data: Path | None, plan: Plan, runs: Runs) -> Tasks:
    """One task a program."""
    return {kind: {"kind": kind, **{k: v for k, v in config.items() if k != "scale"}} for kind in TITLES}


def analyse(
    kind: str, trained: int, longest: int, train_each: int, test_each: int, folder: Path, deadline: float | None
) -> dict[str, Any]:
    """The minimal version of a program from the training words, compiled and run on longer ones."""
    program = make_program(kind, longest)
    train = [tokens(kind, word) for word in readable(kind, words(trained, train_each, seed=1))]
    test = readable(kind, every_cell(longest, test_each, seed=2))
    small = minimal(program, train)
    longer = {len(word): word for word in test if len(word) > trained}  # a word of each length
    left = unspecified(program, train)
    return {
        "rules": small.seen.rule_count,
        "all_rules": len(kl.rules(program)),
        "same": small.seen.rule_count == len(kl.rules(program)) and small.spec.variables == program.spec.variables,
        "cells": Cells.of(test, answers(kind, small, test, longest), trained).rows,
        "whole": Cells.of(test, answers(kind, program, test, longest), trained).rows,
        "longer": len(longer),
        "undefined": sum(not _defined(small, tokens(kind, word)) for word in longer.values()),
        "open_rules": len(left.rules),
        "open_constraints": len(left.constraints),
        "open_positions": list(left.positions),
    }


def answers(kind: str, program: Any, given: list[Bits], longest: int) -> list[int]:
    """Return what the compiled network says at the last position, run for as many layers as any word needs."""
    net = kl.compile(program)
    layers = 1 if kind == "sum" else longest + 1
    outputs = net.run_batch([tokens(kind, word) for word in given], layers=layers, evaluator="dense")
    return [output[-1] for output in outputs]


def _defined(program: Any, given: list[int]) -> bool:
    try:
        program.run(given)
    except KleeneError:
        return False
    return True


# --- rows -------------------------------------------------------------------------------------------------


def rows(config: Config) -> list[Row]:
    """Five rows a program."""
    return [row for kind in TITLES for row in _rows(config, kind)]


def _read(kind: str, read: Callable[[dict[str, Any]], Measured]) -> Callable[[Runs], Measured | None]:
    return lambda runs: read(runs[kind]) if kind in runs else None


def _rows(config: Config, kind: str) -> list[Row]:
    trained, title = config["trained"], TITLES[kind]
    stated = RULES.get(kind, "") if trained == 20 else "7" if kind == "relative" else ""

    def rules(run: dict[str, Any]) -> Measured:
        note = f"of {run['all_rules']}; definition 'published'; rules that clear heads included"
        return Measured(str(run["rules"]), run["rules"], 1, note=note, runs=(kind,))

    def whole(run: dict[str, Any]) -> Measured:
        share = Cells(run["whole"], trained).share(lambda *at: True) or 0.0
        return Measured(percent(share), share, 1, runs=(kind,))

    def generalises(run: dict[str, Any]) -> Measured:
        found = Cells(run["cells"], trained)
        note = f"the interpreter meets undefined reads at {run['undefined']} of {run['longer']} longer lengths"
        return Measured(_reach(kind, run, found), found, 1, note=note, runs=(kind,))

    def right(run: dict[str, Any]) -> Measured:
        found = Cells(run["cells"], trained)
        slices: dict[str, Callable[[int, int], bool]] = {
            f"length ≤ {trained}": lambda n, k: n <= trained,
            f"length > {trained}, ones ≤ {trained}": lambda n, k: n > trained >= k,
            f"ones > {trained}": lambda n, k: k > trained,
        }
        return Measured(", ".join(f"{name}: {percent(found.share(where) or 0)}" for name, where in slices.items()))

    def left_open(run: dict[str, Any]) -> Measured:
        at = run["open_positions"]
        text = f"positions {at[0]} … {at[-1]}" if at else "no positions"
        return Measured(f"{run['open_rules']} rules, {run['open_constraints']} constraints, {text}")

    return [
        Row(
            f"{title}: rules of the minimal version, words of up to {trained} bits",
            _read(kind, rules),
            stated,
            "ALTA, section 4.1" if stated else "",
            Criterion("as many rules as the paper's", lambda count: str(count) == stated, seeds=1, since="36b57a3"),
        ),
        Row(
            f"{title}: the whole program, compiled",
            _read(kind, whole),
            "100 %",
            "ALTA, Figure 4",
            Criterion("every word tested is right", lambda share: share == 1.0, seeds=1, since="36b57a3"),
        ),
        Row(
            f"{title}: the minimal version generalises",
            _read(kind, generalises),
            GENERALISES[kind],
            "ALTA, section 4.1",
            Criterion(CLAIMED[kind], lambda found: _as_claimed(kind, found), seeds=1, since="36b57a3"),
        ),
        Row(f"{title}: words right by the minimal version", _read(kind, right)),
        Row(
            f"{title}: left open by the training words",
            _read(kind, left_open),
            note="kl.unspecified; rules that clear heads are not counted",
        ),
    ]


def _reach(kind: str, run: dict[str, Any], found: Cells) -> str:
    if run["same"]:
        return "to every length: every rule and every initial value is kept, so it is the program itself"
    lengths = [n for n, share in zip(*found.by(0)) if share == 1]
    ones = [k for k, share in zip(*found.by(1)) if share == 1]
    if kind == "absolute":
        return f"to length {_run_end(lengths)}"
    return f"to {_run_end(ones)} ones, at every length"


def _run_end(values: list[int]) -> int:
    """The end of the unbroken run that values start with.

    >>> _run_end([0, 1, 2, 4])
    2
    """
    end = values[0] if values else -1
    while end + 1 in values:
        end += 1
    return end


CLAIMED = {
    "relative": "every longer word is right",
    "absolute": "every word of the trained lengths is right, and at every longer length some word is wrong",
    "sum": "the words of a number of ones are all right for at most the trained number or an even one, else not all",
}


def _as_claimed(kind: str, found: Cells) -> bool:
    trained = found.trained
    longer = found.share(lambda n, k: n > trained)
    if kind == "relative":
        return longer == 1.0
    if kind == "absolute":
        return found.share(lambda n, k: n <= trained) == 1.0 and all(s < 1 for n, s in zip(*found.by(0)) if n > trained)
    many = dict(zip(*found.by(1)))
    return all((share == 1.0) == (k <= trained or k % 2 == 0) for k, share in many.items())


def draw(folder: Path, config: Config, runs: Runs) -> None:
    """Figure 4's minimal versions."""
    panels = {title: Cells(runs[kind]["cells"], config["trained"]) for kind, title in TITLES.items() if kind in runs}
    title = f"Figure 4: minimal versions, from words of up to {config['trained']} bits"
    draw_grid(folder / "parity-minimal.png", panels, title)


MINIMAL = Experiment("alta.parity-minimal", SCALES, (tasks,), analyse, rows, draw)
