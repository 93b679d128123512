"""A nondeterministic automaton as an exact RNN: made deterministic first."""

from __future__ import annotations

from kleene.compilers.dfa_to_rnn import compile_dfa
from kleene.machines.automata.nfa import NFA
from kleene.networks.rnn.exact import ExactRNN


def compile_nfa(nfa: NFA, *, method: str = "balanced", activation: str = "relu") -> ExactRNN:
    """The network of the minimal deterministic automaton; options are those of a DFA."""
    return compile_dfa(nfa.minimise(), method=method, activation=activation)
