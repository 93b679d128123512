"""Turing machines as transformers: a bounded tape in a looped block, or a chain of thought in a decoder."""

from __future__ import annotations

from typing import Any, Never

import torch

from kleene.compilers.program_to_transformer import compile_program
from kleene.errors import InputError, NotSupported
from kleene.library.bounded_tape import bounded_tape
from kleene.library.decoders import regex_decoder, turing_decoder
from kleene.library.encoding import TextProgram
from kleene.machines.automata.dfa import DFA
from kleene.machines.automata.nfa import NFA
from kleene.machines.program import ProgramClass
from kleene.machines.turing import TuringMachine
from kleene.networks.transformer.model import Transformer
from kleene.networks.transformer.words import MAX_TAPE


def compile_turing_to_transformer(
    machine: TuringMachine, *, tape: int = 64, dtype: str | torch.dtype | None = None
) -> Transformer:
    """A looped transformer, a position per cell and a layer per step; `net.decide(word)` runs it.

    - `tape`: how many cells there are.
    - `dtype`: the number format of the weights.
    """
    if not isinstance(tape, int) or isinstance(tape, bool) or not 1 <= tape <= MAX_TAPE:
        raise InputError(f"compile: tape={tape!r}; it should be 1 to {MAX_TAPE:,} cells")
    net = compile_program(bounded_tape(machine), shape="universal", dtype=dtype)
    net.description["tape"] = {
        "machine": machine.to_json(),
        "cells": tape,
        "symbols": list(machine.symbols),
        "blank": machine.blank,
        "two_way": machine.two_way,
        "alphabet": list(machine.input_alphabet or ()),
    }
    return net


def compile_turing_to_decoder(
    machine: TuringMachine, *, length: int = 128, dtype: str | torch.dtype | None = None
) -> Transformer:
    """A decoder whose tokens are the machine's steps; `net.decide(word)` counts them.

    - `length`: the longest sequence, word and steps together.
    - `dtype`: the number format of the weights.
    """
    program = turing_decoder(machine, length)
    net = compile_program(program, dtype=dtype)
    net.description["chain"] = chain_of(machine, program, length)
    return net


def chain_of(machine: TuringMachine, program: type[TextProgram], length: int) -> dict[str, Any]:
    """What the tokens of a Turing machine's decoder mean, as it is saved with a network."""
    accept, reject = (program.encode(text)[0] for text in ("accept", "reject"))
    return {
        "machine": machine.to_json(),
        "length": length,
        "accept": accept,
        "reject": reject,
        "symbols": list(machine.symbols),
        "blank": machine.blank,
        "two_way": machine.two_way,
        "alphabet": list(machine.input_alphabet or ()),
        "states": list(machine.working),
    }


def compile_dfa_to_decoder(dfa: DFA | NFA, *, length: int = 64, dtype: str | torch.dtype | None = None) -> Transformer:
    """A decoder that completes prefixes to words; `net.accepts(word)` asks whether a word may end.

    - `length`: the longest sequence.
    - `dtype`: the number format of the weights.
    """
    minimal = dfa.minimise()
    program = regex_decoder(minimal, length)
    net = compile_program(program, dtype=dtype)
    net.description["words"] = words_of(minimal, program, length)
    return net


def words_of(minimal: DFA, program: ProgramClass, length: int) -> dict[str, Any]:
    """How words of up to `length` symbols become tokens of an automaton's decoder, as it is saved with a network."""
    symbols = len(minimal.alphabet)
    ending = [i for i, members in enumerate(program.spec.kinds["allowed"].values) if symbols in members]
    return {
        "alphabet": list(minimal.alphabet),
        "machine": minimal.to_json(),
        "depth": "decoder" if "element" in program.spec.variables else "sequential decoder",
        "before": [symbols],  # the end is neutral: it begins every word, the empty one too
        "after": [],
        "copies": 1,
        "answer": None,
        "allowed": {"variable": "allowed", "values": ending},
        "length": length,
    }


def refuse_linear(machine: TuringMachine) -> Never:
    """No linear RNN holds a Turing machine's tape."""
    raise NotSupported(
        f"compile: {machine.name} has an endless tape. A linear RNN with numbers of O(log n) bits is an arithmetic "
        "circuit of logarithmic depth, in PNC¹ (Merrill, Jiang, Li, Lin and Sabharwal, 2026); in a fixed format it has "
        "finitely many states. Use to='rnn', to='transformer' or to='decoder'"
    )
