"""Theorem 4.12: any language becomes an RNN with real weights. A run reads as many of their digits as it needs."""

from __future__ import annotations

from itertools import islice

from kleene.compilers.multitape_to_rnn import build_multitape, compile_multitape
from kleene.compilers.two_layer import fuse
from kleene.machines.oracle import OracleLanguage, comparing_machine
from kleene.networks.rnn.decider import Decider
from kleene.networks.rnn.oracle import OracleRNN, SymbolStream


def compile_oracle(language: OracleLanguage, *, base: int = 3) -> OracleRNN:
    """Build the two-tape machine of the proof as a network whose second tape holds ⟨L⟩ in its weights, digit by digit.

    A run never asks the language about the input. It only reads digits, and asks for more when it needs them.
    """
    machine = comparing_machine(language.alphabet)
    build, about = build_multitape(machine, base, open_tapes={1})
    net = fuse(build.build(), OracleRNN, about=about)
    net.attach(SymbolStream(language.stream), {at: role[1] for role, at in build.roles.items() if role[0] == "r1"})
    return net


def truncated(language: OracleLanguage, symbols: int, *, base: int = 3) -> Decider:
    """The network with its real weights cut off after some symbols of ⟨L⟩.

    Its weights are rational. It gives no answer where it would need more symbols.
    """
    content = "".join(islice(language.stream(), symbols))
    return compile_multitape(comparing_machine(language.alphabet, (content,)), base=base)
