"""Automata and Turing machines to Graphviz's DOT language; networks of such machines are decompiled first."""

from __future__ import annotations

from pathlib import Path

from kleene.decompilers.gated_to_dfa import decompile_gated
from kleene.decompilers.linear_to_dfa import decompile_linear
from kleene.decompilers.rnn_to_dfa import decompile_rnn
from kleene.decompilers.rnn_to_turing import decompile_decider
from kleene.files import write_text
from kleene.machines.automata.alternating import AFA
from kleene.machines.automata.dfa import DFA
from kleene.machines.automata.nfa import NFA
from kleene.machines.automata.transducer import Transducer
from kleene.machines.turing import TuringMachine
from kleene.networks.rnn.decider import Decider
from kleene.networks.rnn.exact import ExactRNN
from kleene.networks.rnn.gated import GatedRNN
from kleene.networks.rnn.linear import LinearRNN


def export_graphviz(machine: DFA | NFA | AFA | Transducer | TuringMachine, path: str | Path | None = None) -> str:
    """Return the DOT text of a machine; also write it to `path` if given."""
    text = machine.to_dot()
    if path is not None:
        write_text(path, text)
    return text


def export_decompiled(rnn: ExactRNN | GatedRNN | LinearRNN, path: str | Path | None = None) -> str:
    """Return the DOT text of the machine that an RNN implements; also write it to `path` if given."""
    if isinstance(rnn, GatedRNN):
        return export_graphviz(decompile_gated(rnn), path)
    if isinstance(rnn, LinearRNN):
        return export_graphviz(decompile_linear(rnn, to="dfa"), path)
    if isinstance(rnn, Decider):
        return export_graphviz(decompile_decider(rnn), path)
    dfa = decompile_rnn(rnn)
    assert not isinstance(dfa, str)
    return export_graphviz(dfa, path)
