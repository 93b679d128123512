"""Automata and Turing machines to Graphviz's DOT language; networks of such machines are decompiled first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kleene.errors import NotSupported
from kleene.files import write_text
from kleene.networks.exact_rnn import ExactRNN


def export_graphviz(machine: Any, path: str | Path | None = None) -> str:
    """The DOT text of a DFA, an AFA, a Turing machine, or of the machine in an RNN; with a path it is written, too."""
    if isinstance(machine, ExactRNN):
        from kleene.verbs import decompile

        machine = decompile(machine)
    if not hasattr(machine, "to_dot"):
        raise NotSupported(
            f"graphviz: cannot take a {type(machine).__name__}; it takes a DFA, an AFA, a Turing machine, or an RNN "
            "compiled from one"
        )
    text: str = machine.to_dot()
    if path is not None:
        write_text(path, text)
    return text
