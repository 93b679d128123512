"""Minimal versions, by analysis alone: what a training set of parity says about longer words (Figure 4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kleene as kl
from kleene.checks.minimality import minimal
from kleene.checks.unspecified import unspecified
from kleene.errors import InputError, KleeneError
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
from kleene.papers.report import Result

EACH = {"paper": (200, 5), "small": (100, 5), "tiny": (40, 2)}  # training words a number of ones, test words a cell
RULES = {"relative": "7", "absolute": "—", "sum": "31"}
GENERALISES = {
    "relative": "to every length",
    "absolute": "not past the trained length",
    "sum": "not past the trained number of ones",
}


def parity_minimal(
    scale: str = "small",
    data: Path | None = None,
    folder: Path | str = "results/alta.parity-minimal",
    progress: bool = True,
) -> Result:
    """The minimal version of each program from the training words, compiled and run on longer ones."""
    if scale not in EACH:
        raise InputError(f"scale {scale!r}: unknown; there are {', '.join(EACH)}")
    (trained, longest), (each, tested) = LENGTHS[scale], EACH[scale]
    config = {"scale": scale, "trained": trained, "longest": longest, "train_each": each, "test_each": tested}
    result = Result("alta.parity-minimal", Path(folder), config)
    train, test = words(trained, each, seed=1), every_cell(longest, tested, seed=2)
    panels, whole = {}, {}
    for kind in TITLES:
        program = make_program(kind, longest)
        small = minimal(program, [tokens(kind, word) for word in readable(kind, train)])
        given = readable(kind, test)
        panels[kind] = Cells.of(given, answers(kind, small, given, longest), trained)
        whole[kind] = Cells.of(given, answers(kind, program, given, longest), trained)
        _rows(result, kind, program, small, panels[kind], whole[kind], train, given)
    result.metrics["cells"] = {kind: cells.rows for kind, cells in panels.items()}
    draw_grid(
        result.folder / "parity-minimal.png",
        {TITLES[kind]: cells for kind, cells in panels.items()},
        f"Figure 4: minimal versions, from words of up to {trained} bits",
    )
    result.write()
    return result


def answers(kind: str, program: Any, given: list[Bits], longest: int) -> list[int]:
    """What the compiled network says at the last position, run for as many layers as any word needs."""
    net = kl.compile(program)
    layers = 1 if kind == "sum" else longest + 1
    outputs = net.run_batch([tokens(kind, word) for word in given], layers=layers, evaluator="dense")
    return [output[-1] for output in outputs]


def _rows(
    result: Result, kind: str, program: Any, small: Any, found: Cells, whole: Cells, train: list[Bits], test: list[Bits]
) -> None:
    trained, title = found.trained, TITLES[kind]
    paper_sizes = trained == 20
    count, full = small.seen.rule_count, len(kl.rules(program))
    want = RULES[kind] if paper_sizes else "7" if kind == "relative" else "—"
    result.row(
        f"{title}: rules of the minimal version",
        want,
        str(count),
        f"of {full}; definition 'published', from words of up to {trained} bits; rules that clear heads included",
        None if want == "—" else str(count) == want,
    )
    everything = whole.share(lambda *at: True)
    result.row(f"{title}: the whole program, compiled", "100 %", percent(everything or 0), "", everything == 1.0)
    longer = {len(word): word for word in test if len(word) > trained}  # a word of each length
    undefined = sum(not _defined(small, tokens(kind, word)) for word in longer.values())
    result.row(
        f"{title}: the minimal version generalises",
        GENERALISES[kind],
        _verdict(kind, program, small, found),
        f"compiled, dense; the interpreter meets undefined reads at {undefined} of {len(longer)} longer lengths",
        _as_claimed(kind, found),
    )
    slices = [
        (f"length ≤ {trained}", lambda n, k: n <= trained),
        (f"length > {trained}, ones ≤ {trained}", lambda n, k: n > trained >= k),
        (f"ones > {trained}", lambda n, k: k > trained),
    ]
    said = ", ".join(f"{name}: {percent(found.share(where) or 0)}" for name, where in slices)
    result.row(f"{title}: words right", "—", said)
    given = [tokens(kind, word) for word in readable(kind, train)]
    open_ = unspecified(program, given)
    positions = f"{open_.positions[0]} … {open_.positions[-1]}" if open_.positions else "none"
    result.row(
        f"{title}: left open by the training words",
        "—",
        f"{len(open_.rules)} rules, {len(open_.constraints)} constraints, positions {positions}",
        "kl.unspecified; rules that clear heads are not counted",
    )


def _verdict(kind: str, program: Any, small: Any, found: Cells) -> str:
    same = small.seen.rule_count == len(kl.rules(program)) and small.spec.variables == program.spec.variables
    if same:
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


def _as_claimed(kind: str, found: Cells) -> bool:
    trained = found.trained
    longer = found.share(lambda n, k: n > trained)
    if kind == "relative":
        return longer == 1.0
    if kind == "absolute":
        return found.share(lambda n, k: n <= trained) == 1.0 and all(s < 1 for n, s in zip(*found.by(0)) if n > trained)
    many = dict(zip(*found.by(1)))
    return all((share == 1.0) == (k <= trained or k % 2 == 0) for k, share in many.items())


def _defined(program: Any, given: list[int]) -> bool:
    try:
        program.run(given)
    except KleeneError:
        return False
    return True
