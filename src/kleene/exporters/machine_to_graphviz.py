"""Automata and Turing machines to Graphviz's DOT language; networks of such machines are decompiled first."""

from __future__ import annotations

from pathlib import Path

from kleene.files import write_text
from kleene.machines.automata.alternating import AFA
from kleene.machines.automata.dfa import DFA
from kleene.machines.turing import TuringMachine
from kleene.networks.rnn.exact import ExactRNN


def export_graphviz(machine: DFA | AFA | TuringMachine, path: str | Path | None = None) -> str:
    """The DOT text of a machine; with a path it is written there, too."""
    text = machine.to_dot()
    if path is not None:
        write_text(path, text)
    return text


def export_decompiled(rnn: ExactRNN, path: str | Path | None = None) -> str:
    """The DOT text of the machine that an RNN implements."""
    from kleene.verbs import decompile

    return export_graphviz(decompile(rnn), path)
