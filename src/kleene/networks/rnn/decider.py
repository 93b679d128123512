"""A rational RNN with intermediate steps (Theorem 4.11): it reads w, EOS, and NULs until it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from kleene.common.alphabet import Word, encode
from kleene.common.decision import Answer, Decision, trimmed
from kleene.errors import FileError, InputError, NotExact
from kleene.networks.rnn import files as rnn_files
from kleene.networks.rnn.digits import to_digits
from kleene.networks.rnn.exact import ExactRNN
from kleene.networks.rnn.matrix import Number, Vector
from kleene.networks.rnn.whole_numbers import WholeNumbers, vector_of

END, NUL = "EOS", "NUL"
MAX_BASE = 128  # the largest base of stacks: a digit fits into a byte
NOTHING, ACCEPT, REJECT = range(3)  # the rows of the output
ANSWERS: tuple[Answer, ...] = (None, "accept", "reject")
MARK = ""  # stands for $, the bottom of a stack; real symbols are not empty
CHUNK = 20_000_000  # steps between two reports of progress
Progress = Callable[[int], None] | None


@dataclass(frozen=True, repr=False)
class Decider(ExactRNN):
    """An `ExactRNN` with outputs NUL, ACC and REJ. `about` names the values from which tapes are read."""

    kind = "decider"

    def decide(
        self,
        word: Word = "",
        *,
        max_steps: int = 10**6,
        tape: bool = False,
        evaluator: Literal["patterns", "plain"] = "patterns",
        progress: Progress = None,
    ) -> Decision:
        """Feed the word, EOS and NULs until the output is an answer.

        word: the input.
        max_steps: the most steps of the machine.
        tape: also return the tape.
        evaluator: "patterns" evaluates the weights once for every pattern of leading digits, and then moves digits;
            "plain" multiplies by every weight at every step. Both are exact.
        progress: called with the number of steps from time to time.
        """
        if max_steps < 0:
            raise InputError(f"decide: max_steps={max_steps}; it must be at least 0")
        if evaluator not in ("patterns", "plain"):
            raise InputError(f"decide: evaluator {evaluator!r}; it should be 'patterns' or 'plain'")
        inputs = [*encode(word, self._letters), self._index[END]]
        lead = self.lead(len(inputs) - 1)
        h, answer, steps = (self._plain if evaluator == "plain" else self._patterns)(inputs, lead + max_steps, progress)
        done = Decision(ANSWERS[answer], max(steps - lead, 0))
        if not tape:
            return done
        state, left, symbol, right = self.configuration(h)
        text, head = trimmed(left, symbol, right, self.about["blank"], self.about["two_way"])
        return Decision(done.answer, done.steps, state, text, head)

    def lead(self, length: int) -> int:
        """The number of network steps before the machine's first step, on a word of this length."""
        each, more = self.about["lead"]
        return int(each * length + more)

    @cached_property
    def _letters(self) -> dict[str, int]:
        return {s: i for s, i in self._index.items() if s not in (END, NUL)}

    def run_inputs(self, word: Word) -> Iterator[Vector]:
        """The hidden vectors on w, EOS, NUL, NUL, …, without end, after the initial one."""
        g = self.s
        yield g
        for symbol in [*encode(word, self._letters), self._index[END]]:
            g = self.step(g, symbol)
            yield g
        while True:
            g = self.step(g, self._index[NUL])
            yield g

    def _plain(self, inputs: list[int], limit: int, progress: Progress) -> tuple[Vector, int, int]:
        g, answer, steps = self._advance(inputs, limit, progress)
        return self.values(g), answer, steps

    def _patterns(self, inputs: list[int], limit: int, progress: Progress) -> tuple[Vector, int, int]:
        """Read the input by plain steps, since it becomes many digits of a number; then follow patterns."""
        g, answer, steps = self._read(inputs[:limit])
        h = self.values(g)
        try:
            while not answer and steps < limit:
                h, answer, more = self._engine.run([], self._index[NUL], min(limit - steps, CHUNK), h)
                steps += more
                if progress is not None:
                    progress(steps)
        except NotExact:  # a network without patterns of digits
            return self._plain(inputs, limit, progress)
        return h, answer, steps

    def _read(self, inputs: list[int]) -> tuple[Vector, int, int]:
        """The hidden vector, answer and steps after the input, or at the first answer."""
        steps, answer = -1, 0
        for numbers, scale in self._whole_numbers.run(inputs):
            steps += 1
            answer = self._which(self._whole_numbers.output(numbers, scale))
            if answer:
                break
        return vector_of(numbers, scale), answer, steps

    @cached_property
    def _whole_numbers(self) -> WholeNumbers:
        return WholeNumbers(self)

    def _advance(self, inputs: list[int], limit: int, progress: Progress) -> tuple[Vector, int, int]:
        """The hidden vector, answer and steps after at most `limit` plain steps."""
        g, steps, nul = self.s, 0, self._index[NUL]
        answer = self.answer(g)
        while not answer and steps < limit:
            g = self.step(g, inputs[steps] if steps < len(inputs) else nul)
            answer = self.answer(g)
            steps += 1
            if progress is not None and steps % 1000 == 0:
                progress(steps)
        return g, answer, steps

    @cached_property
    def _engine(self) -> Any:
        from kleene.networks.rnn.digit_patterns import PatternEngine

        return PatternEngine(self, int(self.about["base"]))

    def answer(self, g: Vector) -> int:
        """Which output is 1: NOTHING, ACCEPT or REJECT."""
        return self._which(self.output(g))

    def _which(self, y: list[Number]) -> int:
        if sorted(y) != [0, 0, 1]:
            raise InputError(
                f"decide: the output is {[str(v) for v in y]}; exactly one of NUL, ACC and REJ should be 1"
            )
        return y.index(1)

    # Reading the configuration from the hidden vector

    def values(self, g: Vector) -> Vector:
        """h = R g: the named values."""
        assert self.readout is not None
        return self.readout.R.times(g)

    def values_of(self, state: str, left: Sequence[str], symbol: str, right: Sequence[str]) -> Vector:
        """The named values of a configuration: what `configuration` reads."""
        blank = self.about["blank"] if self.about["form"] == "compact" else None
        wanted = (["pair", state, symbol], ["q", state], ["c", symbol])
        roles = self.about["roles"]
        h: Vector = {i: 1 for i, role in enumerate(roles) if role in wanted}
        for part, cells in (("l", left), ("r", right)):
            at = {role[1]: i for i, role in enumerate(roles) if role[0] == part}
            h.update({at[a]: v for a, v in code(cells, at, self.about["base"], blank).items() if v})
        return h

    def configuration(self, h: Vector) -> tuple[str, list[str], str, list[str]]:
        """The state, the cells to the left (nearest first), the symbol, the cells to the right."""
        state = symbol = ""
        stacks: dict[str, dict[str, Number]] = {"l": {}, "r": {}}
        for i, role in enumerate(self.about["roles"]):
            value = h.get(i, 0)
            part = role[0].removesuffix("0")  # of several tapes, the first
            if part in stacks:
                stacks[part][role[1]] = value
            elif value == 1 and part == "pair":
                state, symbol = role[1], role[2]
            elif value == 1 and part == "q":
                state = role[1]
            elif value == 1 and part == "c":
                symbol = role[1]
        return state, self._cells(stacks["l"]), symbol or self.about["blank"], self._cells(stacks["r"])

    def _cells(self, stack: dict[str, Number]) -> list[str]:
        """The symbols of a stack, top first, from the digits of its numbers."""
        base = self.about["base"]
        digits = {a: to_digits(z, base, 1)[1:] for a, z in stack.items()}
        cells = [self.about["blank"]] * max((len(d) for d in digits.values()), default=0)
        for a, line in digits.items():
            for depth, digit in enumerate(line):
                if digit == base - 1:
                    cells[depth] = a
        return cells[: cells.index(MARK)] if MARK in cells else cells


def code(cells: Sequence[str], symbols: Iterable[str], base: int, zero: str | None) -> dict[str, Fraction]:
    """Equations (4.27), (4.28): the number of each symbol, with $ at the bottom if there is one.

    Symbol `zero` is digit 0 of all numbers.
    """
    numbers = {symbol: Fraction(0) for symbol in symbols}
    scale = Fraction(base - 1, base)
    for symbol in (*cells, *([MARK] if MARK in numbers else [])):
        if symbol != zero:
            numbers[symbol] += scale
        scale /= base
    return numbers


def load(folder: Path) -> Decider:
    """Read the network that `save` wrote."""
    net: Decider = rnn_files.load(folder, Decider)
    where = f"{folder}/kleene.json, 'about'"
    about = net.about
    roles = about.get("roles")
    if net.readout is None or not isinstance(roles, list) or len(roles) != len(net.readout.names):
        raise FileError(f"{where} → 'roles': must name each value of the readout")
    if not all(isinstance(r, list) and r and all(isinstance(part, str) for part in r) for r in roles):
        raise FileError(f"{where} → 'roles': each must be a list of strings")
    lead = about.get("lead")
    if not isinstance(lead, list | tuple) or len(lead) != 2 or not all(type(n) is int for n in lead):
        raise FileError(f"{where} → 'lead': must be two integers")
    if type(about.get("base")) is not int or not 3 <= about["base"] <= MAX_BASE:
        raise FileError(f"{where}: 'base' must be a whole number from 3 to {MAX_BASE}")
    if not isinstance(about.get("blank"), str) or not isinstance(about.get("two_way", True), bool):
        raise FileError(f"{where}: 'blank' must be a symbol, and 'two_way' true or false")
    if net.out_W.rows != 3 or END not in net.alphabet or NUL not in net.alphabet:
        raise FileError(f"{folder}/weights.json: a decider reads EOS and NUL and has three outputs")
    return net
