"""The page of an RNN's run: hidden units over time, beside the automaton's state or the machine's tape.

The weights are in the page as exact numbers, so that the page can run the network on other words.
"""

from __future__ import annotations

from typing import Any

from kleene.common.alphabet import show_word
from kleene.evidence.rnn_traces import RnnTrace
from kleene.machines.automata.dfa import DFA
from kleene.machines.turing import TuringMachine
from kleene.networks.rnn.decider import END, NUL, Decider
from kleene.networks.rnn.exact import ExactRNN
from kleene.networks.rnn.matrix import Matrix, Vector, number_to_json
from kleene.show.automata import graph_of
from kleene.show.page import Numbered, Page
from kleene.show.page.diagram import diagram_data

MAX_UNITS = 600  # hidden units in the table
MAX_NONZERO = 400_000  # weights in a page
MAX_TABLE = 200_000  # transitions of an automaton in a page


def rnn_page(trace: RnnTrace, title: str | None = None) -> Page:
    """Build the page of a trace."""
    net, shown = trace.network, Numbered()
    named = trace.named
    units = min(net.units, MAX_UNITS)
    data = {
        "title": title or ("Turing machine" if trace.tapes else "RNN"),
        "about": _about(trace),
        "text": show_word(trace.word),
        "word": list(trace.word),
        "evaluator": trace.evaluator,
        "answer": trace.answer,
        "activation": "ReLU" if net.activation == "relu" else "SLU",
        "symbols": list(trace.symbols),
        "states": trace.states,
        "tapes": None if trace.tapes is None else [[t.state, t.left, t.symbol, t.right] for t in trace.tapes],
        "blank": net.about.get("blank"),
        **_machine(net),
        "names": [] if net.readout is None else list(net.readout.names),
        "named": [] if named is None else [_cells(h, shown) for h in named],
        "base": int(net.about.get("base", 0)),
        "units": units,
        "left_out": net.units - units,
        "hidden": [_cells({i: v for i, v in g.items() if i < units}, shown) for g in trace.hidden],
        "outputs": [[str(y) for y in net.output(g)] for g in trace.hidden],
        "network": _network(net),
    }
    data["values"] = shown.items
    return Page("rnn", f"{data['title']}: {data['text']}", data)


def _about(trace: RnnTrace) -> str:
    """One sentence: what the network does."""
    net = trace.network
    if trace.tapes is not None:
        return (
            "A recurrent network that runs a Turing machine: the digits of its numbers are the tape, and a step of the "
            "network is a step of the machine."
        )
    where = "its output is 1" if net.criterion == "one" else "its output is positive"
    said = net.about.get("machine")
    holds = (
        "that holds an automaton" if isinstance(said, dict) and said.get("kind") == "dfa" else "not made from a machine"
    )
    return f"A recurrent network {holds}: it reads one symbol per step, and accepts where {where}."


def _machine(net: ExactRNN) -> dict[str, Any]:
    """The machine that the network was made from, to run beside it, and its diagram."""
    said = net.about.get("machine")
    kind = said.get("kind") if isinstance(said, dict) else None
    if kind == "dfa":
        dfa = DFA.from_json(said)
        small = len(dfa) * len(dfa.alphabet) <= MAX_TABLE
        return {"diagram": diagram_data(graph_of(dfa)), "machine": _automaton(dfa) if small else None}
    if kind != "turing-machine" or not isinstance(net, Decider):
        return {"diagram": None, "machine": None}
    machine = TuringMachine.from_json(said)
    rows = {state: {symbol: list(step) for symbol, step in row.items()} for state, row in machine.transitions.items()}
    told = {"start": machine.start, "blank": machine.blank, "two_way": machine.two_way, "transitions": rows}
    return {"diagram": diagram_data(graph_of(machine)), "machine": told}


def _automaton(dfa: DFA) -> dict[str, Any]:
    return {
        "alphabet": list(dfa.alphabet),
        "start": dfa.start,
        "table": dfa.table.tolist(),
        "accepting": [state for state in range(len(dfa)) if dfa.accepting[state]],
        "names": [dfa.name(state) for state in range(len(dfa))],
    }


def _network(net: ExactRNN) -> dict[str, Any] | None:
    """Every weight, exactly, and what an evaluator needs beside them; None where there are too many."""
    readout = net.readout
    matrices = [net.V if readout is None else readout.A, net.W, net.out_W, *([] if readout is None else [readout.R])]
    if sum(len(matrix.entries) for matrix in matrices) > MAX_NONZERO:
        return None
    decides = isinstance(net, Decider)
    return {
        "units": net.units,
        "alphabet": list(net.alphabet),
        "letters": [symbol for symbol in net.alphabet if not (decides and symbol in (END, NUL))],
        "activation": net.activation,
        "criterion": net.criterion,
        "into": _entries(matrices[0]),
        "readout": None if readout is None else _entries(readout.R),
        "shift": [] if readout is None else _vector(readout.c),
        "reads": _entries(net.W),
        "bias": _vector(net.b),
        "start": _vector(net.s),
        "out": _entries(net.out_W),
        "out_bias": _vector(net.out_b),
        "outputs": net.out_W.rows,
        "decides": decides,
        "end": END,
        "nul": NUL,
        "lead": list(net.about["lead"]) if decides else [0, 0],
        "roles": net.about["roles"] if decides else None,
        "base": int(net.about.get("base", 0)),
        "blank": net.about.get("blank"),
    }


def _cells(values: Vector, shown: Numbered) -> list[int]:
    """The non-zero values: place, and the number of the text."""
    return [n for i in sorted(values) for n in (i, shown(str(values[i])))]


def _entries(matrix: Matrix) -> list[int | str]:
    """The non-zero entries: row, column, weight, …"""
    return [n for (i, j), value in sorted(matrix.entries.items()) for n in (i, j, number_to_json(value))]


def _vector(values: Vector) -> list[int | str]:
    return [n for i, value in sorted(values.items()) for n in (i, number_to_json(value))]
