"""Turing machines in LSTMs and GRUs: a finite automaton with a bounded tape, refused with an endless one."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from kleene.common.alphabet import show_word, words_of
from kleene.compilers.dfa_to_gated import compile_to_gru, compile_to_lstm
from kleene.errors import InputError, NotSupported
from kleene.machines.automata.dfa import DFA
from kleene.machines.turing import TuringMachine
from kleene.networks.rnn.gated import GatedRNN

MAX_WORDS = 20_000
MAX_STEPS = 1_000_000  # of the machine on one word
COUNTERS = (
    "Merrill (2019), and Weiss, Goldberg and Yahav (2018): with saturated gates an LSTM is a real-time counter machine "
    "and a GRU a finite automaton; neither holds a tape"
)


def compile_turing_to_lstm(
    machine: TuringMachine,
    *,
    tape: int | None = None,
    length: int | None = None,
    dtype: str | torch.dtype = "float32",
) -> GatedRNN:
    """An LSTM that accepts what a Turing machine accepts on a bounded tape.

    - `tape`: how many cells there are; without it, raise `NotSupported`.
    - `length`: the longest word; by default as many symbols as the tape has room for.
    - `dtype`: the number format.
    """
    dfa, about = _bounded(machine, tape, length)
    net = compile_to_lstm(dfa, dtype=dtype)
    net.about["turing"] = about
    return net


def compile_turing_to_gru(
    machine: TuringMachine,
    *,
    tape: int | None = None,
    length: int | None = None,
    dtype: str | torch.dtype = "float32",
) -> GatedRNN:
    """A GRU that accepts what a Turing machine accepts on a bounded tape. Options as for an LSTM."""
    dfa, about = _bounded(machine, tape, length)
    net = compile_to_gru(dfa, dtype=dtype)
    net.about["turing"] = about
    return net


def _bounded(machine: TuringMachine, tape: int | None, length: int | None) -> tuple[DFA, dict[str, Any]]:
    if tape is None:
        raise NotSupported(
            f"compile: {machine.name} has an endless tape. {COUNTERS}. Give tape= for the words that a bounded tape "
            "decides, or use to='rnn' (exact fractions), to='transformer' (a bounded tape in a loop) or to='decoder' "
            "(a chain of thought)"
        )
    if not isinstance(tape, int) or isinstance(tape, bool) or tape < 1:
        raise InputError(f"compile: tape={tape!r}; it should be a number of cells, at least 1")
    room = tape - tape // 2 if machine.two_way else tape  # as the word lies on the transformer's tape
    longest = room if length is None else length
    if not isinstance(longest, int) or isinstance(longest, bool) or not 0 <= longest <= room:
        raise InputError(f"compile: length={length!r}; {tape} cells have room for words of 0 to {room} symbols")
    about = {"machine": machine.to_json(), "tape": tape, "length": longest}
    return bounded_language(machine, tape, longest), about


def bounded_language(machine: TuringMachine, tape: int, length: int) -> DFA:
    """The words of up to a length that a machine accepts on `tape` cells, each run to its end; a run that comes back
    to a configuration goes on for ever. `NotSupported` names a word on which the head leaves the cells."""
    alphabet = tuple(machine.input_alphabet or ())
    if not alphabet:
        raise NotSupported(f"compile: {machine.name} has no input symbols, so there are no words to read")
    count = sum(len(alphabet) ** n for n in range(length + 1))
    if count > MAX_WORDS:
        raise NotSupported(
            f"compile: {count:,} words of up to {length} symbols, more than the {MAX_WORDS:,} that are tried. A "
            "bounded tape has finitely many contents, but each state of the automaton takes a unit; give a smaller "
            "length="
        )
    size = len(alphabet)
    accepting = [_accepts(machine, word, tape) for word in words_of(alphabet, range(length + 1))]
    # the words in order of length are numbered so that word k has the successors size·k + 1 …; the rest is a sink
    table = np.arange(count)[:, None] * size + np.arange(1, size + 1)
    table = np.concatenate([np.minimum(table, count), np.full((1, size), count)])
    return DFA(table, np.array([*accepting, False]), alphabet).minimise()


def _accepts(machine: TuringMachine, word: Any, tape: int) -> bool:
    symbols = {symbol: number for number, symbol in enumerate(machine.symbols)}
    working = len(machine.working)
    cells = [symbols[machine.blank]] * tape
    at = tape // 2 if machine.two_way else 0
    cells[at : at + len(word)] = [symbols[letter] for letter in word]
    state, rows = machine.states.index(machine.start), machine.table.tolist()
    seen = set[tuple[int, ...]]()
    while state < working:
        key = (state, at, *cells)
        if key in seen:
            return False
        seen.add(key)
        if len(seen) > MAX_STEPS:
            raise NotSupported(f"compile: on {show_word(word)} the machine takes more than {MAX_STEPS:,} steps")
        state, cells[at], move = rows[state][cells[at]]
        at = max(at + move, 0) if not machine.two_way else at + move
        if not 0 <= at < tape:
            raise NotSupported(
                f"compile: on {show_word(word)} the head leaves the {tape} cells; give a larger tape=, or a smaller "
                "length="
            )
    return machine.states[state] in machine.accept
