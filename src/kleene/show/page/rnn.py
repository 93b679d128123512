"""The page of an RNN's run: hidden units over time, beside the automaton's state or the machine's tape."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from kleene.common.alphabet import show_word
from kleene.errors import NotExact
from kleene.evidence.rnn_traces import RnnTrace
from kleene.machines.automata.dfa import DFA
from kleene.machines.turing import TuringMachine
from kleene.networks.rnn.digits import to_digits
from kleene.networks.rnn.matrix import Matrix, Number, Vector
from kleene.show.automata import graph_of
from kleene.show.page import Numbered, Page
from kleene.show.page.diagram import diagram_data

SHORT, LONG = 7, 90  # characters of a number in the grid, and of an exact one beside it
MAX_UNITS = 600


def rnn_page(trace: RnnTrace, title: str | None = None) -> Page:
    """Build the page of a trace."""
    net, shown = trace.network, Numbered()
    base = int(net.about.get("base", 0))
    named = trace.named
    units = min(net.units, MAX_UNITS)
    data = {
        "title": title or ("Turing machine" if trace.tapes else "RNN"),
        "text": show_word(trace.word),
        "evaluator": trace.evaluator,
        "answer": trace.answer,
        "activation": "ReLU" if net.activation == "relu" else "SLU",
        "symbols": list(trace.symbols),
        "alphabet": list(net.alphabet),
        "states": trace.states,
        "tapes": None if trace.tapes is None else [[t.state, t.left, t.symbol, t.right] for t in trace.tapes],
        "blank": net.about.get("blank"),
        **_machine(trace),
        "names": [] if named is None or net.readout is None else list(net.readout.names),
        "named": [] if named is None else [_cells(h, shown, base) for h in named],
        "base": base,
        "units": units,
        "left_out": net.units - units,
        "hidden": [_cells({i: v for i, v in g.items() if i < units}, shown, base) for g in trace.hidden],
        "outputs": [[_number(y, base)[0] for y in net.output(g)] for g in trace.hidden],
        "into": _rows(net.V if net.readout is None else net.readout.A, units),
        "reads": _rows(net.W, units),
        "bias": {i: str(v) for i, v in net.b.items() if i < units},
        "values": [],
    }
    data["values"] = shown.items
    return Page("rnn", f"{data['title']}: {data['text']}", data)


def _machine(trace: RnnTrace) -> dict[str, Any]:
    """The diagram of the machine that the network was made from, and how its head moves from step to step."""
    said = trace.network.about.get("machine")
    kind = said.get("kind") if isinstance(said, dict) else None
    if kind == "dfa":
        return {"diagram": diagram_data(graph_of(DFA.from_json(said))), "moves": None}
    if kind != "turing-machine" or trace.tapes is None:
        return {"diagram": None, "moves": None}
    machine = TuringMachine.from_json(said)
    moves = [0]
    for before, after in zip(trace.tapes, trace.tapes[1:]):
        step = machine.transitions.get(before.state, {}).get(before.symbol)
        moves.append(step[2] if step is not None and after.state == step[0] else 0)
    return {"diagram": diagram_data(graph_of(machine)), "moves": moves}


def _cells(values: Vector, shown: Numbered, base: int) -> list[int]:
    """The non-zero values: place, and the number of the text."""
    return [n for i in sorted(values) for n in (i, shown(_number(values[i], base)))]


def _number(value: Number, base: int) -> tuple[str, str]:
    """Write a number shortly for the grid, and exactly. Stacks use the base of their digits."""
    exact = str(value)
    if Fraction(value).denominator == 1:
        return exact, exact
    digits = _digits(value, base) if base else None
    if digits is None:
        return exact if len(exact) <= SHORT else f"≈{float(value):.3f}", exact
    shown = [digits if len(digits) <= size else f"{digits[:size]}…" for size in (SHORT, LONG)]
    return shown[0], f"{exact} = {shown[1]} in base {base}" if len(exact) <= LONG else f"{shown[1]} in base {base}"


def _digits(value: Number, base: int) -> str | None:
    """Write a number in a base, as in `.202`; None if it does not end."""
    if base > 10:
        return None
    try:
        whole, *digits = to_digits(value, base, 1)
    except NotExact:
        return None
    return f"{whole or ''}.{''.join(map(str, digits))}"


def _rows(matrix: Matrix, units: int) -> dict[int, list[Any]]:
    """The inputs of each unit: place, weight, place, weight, …"""
    found: dict[int, list[Any]] = {}
    for (row, column), weight in matrix.entries.items():
        if row < units:
            found.setdefault(row, []).extend([column, str(weight)])
    return found
