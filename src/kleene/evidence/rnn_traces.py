"""Traces of exact RNNs: every hidden vector, and the state (and tape) that it codes."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from kleene.common.alphabet import Word, encode, show_word
from kleene.errors import InputError, NotSupported, a_type
from kleene.machines.automata.dfa import DFA
from kleene.networks.rnn.decider import ANSWERS, END, NUL, Decider
from kleene.networks.rnn.exact import ExactRNN
from kleene.networks.rnn.matrix import Number, Vector

MAX_TRACED = 500  # default number of steps of a Turing machine in a trace


@dataclass(frozen=True)
class TapeContents:
    """The configuration that a hidden vector codes; cells are in order of distance from the head."""

    state: str  # "" while the input is being read
    left: tuple[str, ...]
    symbol: str
    right: tuple[str, ...]


@dataclass(frozen=True)
class RnnTrace:
    """The run of an RNN on a word: `hidden[t]` is after t symbols. Prints as a table, and is a page in a notebook.

    `states` are those of the automaton that the network was made from, run beside it; `tapes` are read from the
    hidden vectors. `answer` is None where the run was cut off before one came.
    """

    network: ExactRNN
    word: tuple[str, ...]
    symbols: tuple[str, ...]  # the symbols read; for a Turing machine the word, EOS, and NULs
    hidden: tuple[Vector, ...]
    answer: str | None
    states: tuple[str, ...] | None = None
    tapes: tuple[TapeContents, ...] | None = None
    evaluator: str = "exact RNN (every weight multiplied out in rational numbers)"

    @property
    def named(self) -> tuple[Vector, ...] | None:
        """The named values h = R·g + c after each symbol, where the network has them."""
        readout = self.network.readout
        if readout is None:
            return None
        return tuple(_sum(readout.R.times(g), readout.c) for g in self.hidden)

    def __str__(self) -> str:
        """A line for each time: the symbol, the state, and the hidden values that are not zero."""
        lines = [f"RNN of {self.network.units} units on {show_word(self.word)}: {self.answer or 'no answer yet'}"]
        for time, values in enumerate(self.named or self.hidden):
            symbol = self.symbols[time - 1] if time else "start"
            lines.append(f"  {symbol:>5}  {self._state(time):12}  {self._values(values)}".rstrip())
        return "\n".join(lines)

    def _state(self, time: int) -> str:
        return self.tapes[time].state or "reading" if self.tapes else self.states[time] if self.states else ""

    def _values(self, values: Vector) -> str:
        names = self.network.readout.names if self.network.readout else [f"g[{i}]" for i in range(self.network.units)]
        return ", ".join(f"{names[i]} = {values[i]}" for i in sorted(values))

    def to_json(self) -> dict[str, Any]:
        """The trace as plain data; fractions as "2/3"."""

        def plain(value: Number) -> int | str:
            return int(value) if Fraction(value).denominator == 1 else str(value)

        return {
            "word": list(self.word),
            "symbols": list(self.symbols),
            "answer": self.answer,
            "units": self.network.units,
            "evaluator": self.evaluator,
            "hidden": [{str(i): plain(v) for i, v in sorted(g.items())} for g in self.hidden],
            "states": None if self.states is None else list(self.states),
            "tapes": None if self.tapes is None else [vars(tape) for tape in self.tapes],
        }

    def to_html(self, path: str | Path | None = None, *, title: str | None = None) -> str:
        """Return a self-contained HTML page to step through the run; also write it to `path` where one is given."""
        from kleene.show.page.rnn import rnn_page

        return rnn_page(self, title).write(path)

    def _repr_html_(self) -> str:
        from kleene.show.page.rnn import rnn_page

        return rnn_page(self).framed()


def explain_rnn(rnn: ExactRNN, word: Word) -> RnnTrace:
    """Trace an RNN on a word, with the states of the automaton that it was compiled from.

    >>> import kleene as kl
    >>> trace = kl.explain(kl.compile(kl.regex("(0|10*1)*", "01")), "0110")
    >>> trace.answer, len(trace.hidden)
    ('accept', 5)
    """
    machine = rnn.about.get("machine")
    states = None
    if isinstance(machine, dict) and machine.get("kind") == "dfa":
        dfa = DFA.from_json(machine)
        states = tuple(dfa.name(state) for state in dfa.path(word))
    hidden = tuple(rnn.trace(word))
    answer = "accept" if rnn.accepting(hidden[-1]) else "reject"
    return RnnTrace(rnn, tuple(word), tuple(word), hidden, answer, states)


def explain_decider(net: Decider, word: Word = "", *, max_steps: int = MAX_TRACED) -> RnnTrace:
    """Trace the RNN of a Turing machine for its first `max_steps` steps, each with the coded tape.

    >>> import kleene as kl
    >>> trace = kl.explain(kl.compile(kl.TuringMachine.parse("1RB1LB_1LA1RZ")), "")
    >>> trace.answer, trace.tapes[-1].state
    ('accept', 'Z')
    """
    if net.kind != "decider":
        raise NotSupported(f"explain: {a_type(net)} has real numbers in it, which no trace can hold")
    if max_steps < 0:
        raise InputError(f"explain: max_steps={max_steps}; it should be at least 0")
    limit = net.lead(len(encode(word, net._letters))) + max_steps
    hidden: list[Vector] = []
    answer = 0
    for g in net.run_inputs(word):
        hidden.append(g)
        answer = net.answer(g)
        if answer or len(hidden) > limit:
            break
    symbols = [*word, END][: len(hidden) - 1]
    symbols += [NUL] * (len(hidden) - 1 - len(symbols))
    tapes = tuple(_tape(net, g) for g in hidden)
    return RnnTrace(net, tuple(word), tuple(symbols), tuple(hidden), ANSWERS[answer], None, tapes)


def _tape(net: Decider, g: Vector) -> TapeContents:
    state, left, symbol, right = net.configuration(net.values(g))
    return TapeContents(state, tuple(left), symbol, tuple(right))


def _sum(values: Vector, more: Vector) -> Vector:
    found = {i: values.get(i, 0) + more.get(i, 0) for i in {*values, *more}}
    return {i: value for i, value in found.items() if value}
