"""Mealy machines, and attention programs that are one, as simple RNNs and as linear RNNs."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from kleene.compilers.dfa_to_linear import products
from kleene.compilers.dfa_to_rnn import MAX_WEIGHTS, image
from kleene.errors import InputError, NotSupported
from kleene.machines.automata.dfa import DFA
from kleene.machines.automata.transducer import Transducer
from kleene.machines.left_to_right import LIMIT, transducer_of
from kleene.machines.program import ProgramClass
from kleene.machines.spec import Spec
from kleene.networks.rnn.linear import DTYPES, LinearRNN
from kleene.networks.rnn.sequence import NO_MOVE, SequenceRNN


def compile_transducer(machine: Transducer, *, activation: str = "relu") -> SequenceRNN:
    """A simple RNN that writes what a Mealy machine writes; `activation` is "relu" or "slu"."""
    return _simple(machine.minimise(), activation, {})


def compile_transducer_to_linear(machine: Transducer, *, dtype: str | torch.dtype = "float32") -> SequenceRNN:
    """A linear RNN of swaps and merges that writes what a Mealy machine writes; `dtype` is its number format."""
    return _linear(machine.minimise(), dtype, {})


def compile_program_to_rnn(program: ProgramClass, *, activation: str = "relu", limit: int = LIMIT) -> SequenceRNN:
    """A simple RNN that gives the outputs of a program whose heads look left.

    - `activation`: "relu", or "slu" (ReLU clipped at 1).
    - `limit`: the most values that what a position sees to its left may take.
    """
    return _simple(transducer_of(program, limit=limit), activation, {"program": about_program(program.spec)})


def compile_program_to_linear(
    program: ProgramClass, *, dtype: str | torch.dtype = "float32", limit: int = LIMIT
) -> SequenceRNN:
    """A linear RNN that gives the outputs of a program whose heads look left: the program as a parallel scan.

    - `dtype`: the number format.
    - `limit`: the most values that what a position sees to its left may take.
    """
    return _linear(transducer_of(program, limit=limit), dtype, {"program": about_program(program.spec)})


def about_program(spec: Spec) -> dict[str, Any]:
    """Return what a network needs to run like the program: how inputs are written, and when a decoder stops."""
    text = None if spec.text is None else spec.text.to_json()
    limits = {"positions": spec.positions, "stop": spec.stop, "max_tokens": spec.max_tokens}
    return {"name": spec.name, "text": text, **limits}


def _simple(machine: Transducer, activation: str, about: dict[str, Any]) -> SequenceRNN:
    if activation not in ("relu", "slu"):
        raise InputError(f"compile: activation {activation!r}; it should be 'relu' or 'slu'")
    states, values, outputs = moore(machine)
    if states.table.size * len(states.alphabet) > MAX_WEIGHTS:
        raise NotSupported(
            f"compile: {len(states):,} states over {len(states.alphabet)} symbols need more than {MAX_WEIGHTS:,} "
            "weights"
        )
    cell = image(states, activation, {"method": "image"}, values)
    return SequenceRNN(cell, outputs, {"machine": machine.to_json(), **about})


def _linear(machine: Transducer, dtype: str | torch.dtype, about: dict[str, Any]) -> SequenceRNN:
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise NotSupported(f"compile: unknown dtype {name!r}; choose one of {', '.join(DTYPES)}")
    states, values, outputs = moore(machine)
    cell: LinearRNN = products(states, None, name, values)
    cell.about = {}
    return SequenceRNN(cell, outputs, {"machine": machine.to_json(), **about})


def moore(machine: Transducer) -> tuple[DFA, np.ndarray, list[str]]:
    """A Mealy machine as states that know what was written last: their moves, their outputs' numbers, the outputs.

    A state is a state of the machine and the output with which it was entered. A missing move leads to a state of its
    own, which keeps everything and has the number NO_MOVE.
    """
    if machine.first or any(word is None or word for word in machine.last):
        raise NotSupported("compile: the machine writes before the first symbol or after the last; a network does not")
    outputs = list(machine.output_alphabet)
    number_of = {symbol: number for number, symbol in enumerate(outputs)}
    first = (machine.start, 0 if outputs else NO_MOVE)
    index, queue, rows = {first: 0}, [first], list[list[int]]()
    for q, _ in queue:
        row = []
        for a in range(len(machine.alphabet)):
            after = -1 if q < 0 else int(machine.table[q, a])
            pair = (-1, NO_MOVE)
            if after >= 0:
                word = machine.outputs[q][a]
                if len(word) != 1:
                    raise NotSupported(
                        f"compile: on {machine.alphabet[a]!r} the machine writes {len(word)} symbols; a network writes "
                        "one for each that it reads (a Mealy machine)"
                    )
                pair = (after, number_of[word[0]])
            if pair not in index:
                index[pair] = len(queue)
                queue.append(pair)
            row.append(index[pair])
        rows.append(row)
    values = np.array([written for _, written in queue])
    return DFA(np.array(rows), values > 0, machine.alphabet), values, outputs
