"""Theorem 4.12: any language at all becomes an RNN with real weights, known to as many digits as a run asks
for."""

from __future__ import annotations

from itertools import islice

from kleene.compilers.multitape_to_rnn import build_multitape, compile_multitape
from kleene.compilers.two_layer import fuse
from kleene.machines.oracle import OracleLanguage, comparing_machine
from kleene.networks.rnn.decider import Decider
from kleene.networks.rnn.oracle import OracleRNN, SymbolStream


def compile_oracle(language: OracleLanguage, *, base: int = 3) -> OracleRNN:
    """The proof's two-tape machine as a network whose second tape holds ⟨L⟩ in its weights, digit by digit.

    Running never asks the language about the input: it only reads digits, and asks for more when it needs
    them.
    """
    machine = comparing_machine(language.alphabet)
    build, about = build_multitape(machine, base, open_tapes={1})
    net = fuse(build.build(), OracleRNN, about=about)
    net.attach(SymbolStream(language.stream), {at: role[1] for role, at in build.roles.items() if role[0] == "r1"})
    return net


def truncated(language: OracleLanguage, symbols: int, *, base: int = 3) -> Decider:
    """The network with the real weights cut off after some symbols of ⟨L⟩: rational, and silent where it
    would need more."""
    content = "".join(islice(language.stream(), symbols))
    return compile_multitape(comparing_machine(language.alphabet, (content,)), base=base)
