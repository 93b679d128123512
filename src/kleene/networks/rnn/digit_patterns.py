"""Exact evaluation of a rational RNN by patterns of digits.

The engine splits the named values h of the network into whole numbers and *slots*: numbers kept as digits in some
base. A step depends only on the input symbol, the whole numbers, and the first digits of each slot. The engine
evaluates the weights once for each such pattern, exactly, and treats everything below the first digits as an
interval. Every unit must be on or off for the whole interval; else the engine looks at more digits. Then each slot's
next value is Bᵉ·z + c: a step replaces its first digits, and the others stay. Numba compiles the loop over steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import islice

import numpy as np

from kleene.errors import NotExact
from kleene.networks.rnn.digits import (
    ANSWERED,
    CLEAR,
    EDGE,
    LIMIT,
    UNKNOWN,
    Patterns,
    Slots,
    digits_of,
    follow_patterns,
    from_digits,
    lay_out,
    to_digits,
)
from kleene.networks.rnn.exact import ExactRNN
from kleene.networks.rnn.matrix import Number, Vector, exact

MAX_PLACES = 5
Window = tuple[
    int | None, bool
]  # a slot's first digits as one number (None: not taken yet); whether the slot has no more digits


class _MoreDigits(Exception):
    """A unit is neither on nor off for all numbers with these first digits."""


class _NewSlot(Exception):
    """A value is no longer a whole number; the argument is its index."""


class PatternEngine:
    """Runs one network, and keeps the patterns that it has met."""

    def __init__(self, rnn: ExactRNN, base: int, lazy: dict[int, Callable[[], Iterator[int]]] | None = None) -> None:
        if rnn.readout is None or rnn.activation != "relu":
            raise NotExact("patterns: the network needs a readout and ReLU units")
        self.rnn, self.base = rnn, base
        self.lazy = lazy or {}  # value → its endless digits, the digit before the point first
        self.rows = rnn.readout.A.by_row()
        self.columns = rnn.readout.R.by_column()
        self.start = rnn.readout.R.times(rnn.s)
        self.size = len(rnn.readout.names)
        self.slots: list[int] = sorted(self.lazy)
        self.places = 2  # digits in a pattern: one before the point, the others after it
        self._forget()

    def _forget(self) -> None:
        """Forget all patterns, since the slots or the places have changed."""
        self.rest = [i for i in range(self.size) if i not in self.slots]
        self.whole_ids: dict[tuple[Number, ...], int] = {}
        self.wholes: list[tuple[Number, ...]] = []
        self.pattern_count = self.node_count = 0
        self.roots = np.full((16, len(self.rnn.alphabet)), -1, dtype=np.int64)
        self.trie = np.full((64, 2 * self.base**self.places + 1), -1, dtype=np.int64)
        self.moves = np.zeros((64, 2 + len(self.slots)), dtype=np.int64)
        self.new_digits = np.zeros((64, len(self.slots), self.places + MAX_PLACES), dtype=np.int8)

    # Running

    def run(self, inputs: list[int], nul: int, limit: int, start: Vector | None = None) -> tuple[Vector, int, int]:
        """Run until the output is an answer; return the named values, the answer and the number of steps.

        inputs: the codes of the symbols to read.
        nul: the symbol to read after them.
        limit: the most steps.
        start: the named values to begin with; by default the network's own.
        """
        start = self.start if start is None else start
        while True:
            try:
                return self._attempt(np.array(inputs, dtype=np.int64), nul, limit, start)
            except _NewSlot as found:
                self.slots = sorted([*self.slots, found.args[0]])
            except _MoreDigits:
                if self.places >= MAX_PLACES:
                    raise NotExact(
                        "patterns: the sign of a unit depends on too many digits; use evaluator='plain'"
                    ) from None
                self.places += 1
            self._forget()

    def _attempt(self, inputs: np.ndarray, nul: int, limit: int, start: Vector) -> tuple[Vector, int, int]:
        sources = {slot: make() for slot, make in self.lazy.items()}
        lines = [
            list(islice(sources[i], 1)) if i in sources else to_digits(start.get(i, 0), self.base, self.places)
            for i in self.slots
        ]
        slots = lay_out(lines, np.array([i in sources for i in self.slots], dtype=np.bool_))
        whole = self._whole(tuple(start.get(i, 0) for i in self.rest))
        time, why, answer = 0, UNKNOWN, 0
        while why not in (ANSWERED, LIMIT):
            known = Patterns(self.base, self.places, self.roots, self.trie, self.moves, self.new_digits)
            why, time, whole, answer = follow_patterns(inputs, nul, time, limit, whole, slots, known)
            if why == UNKNOWN:
                symbol = int(inputs[time]) if time < len(inputs) else nul
                try:
                    self._learn(whole, symbol, self._windows(slots))
                except _MoreDigits:
                    if not self._take_digits(slots, sources):
                        raise
            elif why == EDGE:
                slots = lay_out([digits_of(slots, s) for s in range(len(self.slots))], slots.lazy)
        h = dict(zip(self.rest, self.wholes[whole]))
        for s, i in enumerate(self.slots):
            if not slots.lazy[s]:
                h[i] = from_digits(digits_of(slots, s), self.base)
        return {i: v for i, v in h.items() if v != 0}, answer, time

    def _take_digits(self, slots: Slots, sources: dict[int, Iterator[int]]) -> bool:
        """Take one more digit of each lazy number that has fewer than a pattern. Return whether there was one."""
        short = [s for s in range(len(self.slots)) if slots.high[s] - slots.low[s] < self.places]
        for s in short:
            slots.low[s] -= 1
            slots.digits[s, slots.low[s]] = next(sources[self.slots[s]])
        return bool(short)

    def _windows(self, slots: Slots) -> list[Window]:
        """The current window of every slot."""
        result: list[Window] = []
        for s in range(len(self.slots)):
            first = digits_of(slots, s)
            if len(first) < self.places:
                result.append((None, False))
                continue
            window = 0
            for digit in first[: self.places]:
                window = window * self.base + digit
            result.append((window, len(first) == self.places and not slots.lazy[s]))
        return result

    def _whole(self, values: tuple[Number, ...]) -> int:
        for i, value in zip(self.rest, values):
            if not isinstance(value, int):
                raise _NewSlot(i)
        if values not in self.whole_ids:
            self.whole_ids[values] = len(self.wholes)
            self.wholes.append(values)
            if len(self.wholes) > len(self.roots):
                self.roots = np.concatenate([self.roots, np.full_like(self.roots, -1)])
        return self.whole_ids[values]

    @staticmethod
    def _answer(outputs: list[list[Number]]) -> int:
        """The output that is 1; `outputs` is the constant and then the part that depends on each slot."""
        if any(v != 0 for part in outputs[1:] for v in part) or sorted(outputs[0]) != [0] * (len(outputs[0]) - 1) + [1]:
            raise NotExact("patterns: the output is not one of the answers")
        return outputs[0].index(1)

    # Learning a pattern from the weights

    def _learn(self, whole: int, symbol: int, windows: list[Window]) -> None:
        """Evaluate the weights on all numbers with these first digits, and store the move."""
        active = self._active_units(whole, symbol, windows)
        parts = 1 + len(self.slots)  # an affine form: a constant and a factor for each slot
        after: list[list[Number]] = [[0] * parts for _ in range(self.size)]
        outputs: list[list[Number]] = [[self.rnn.out_b.get(k, 0) for k in range(self.rnn.out_W.rows)]]
        outputs += [[0] * self.rnn.out_W.rows for _ in self.slots]
        for unit, form in active.items():
            for column, target in ((self.columns[unit], after), (self.rnn._out_columns[unit], None)):
                for i, weight in column:
                    for part, value in enumerate(form):
                        if value != 0:
                            if target is not None:
                                target[i][part] += weight * value
                            else:
                                outputs[part][i] += weight * value
        for i in self.rest:
            if any(after[i][1:]):
                raise _NewSlot(i)
        number = self._whole(tuple(exact(after[i][0]) for i in self.rest))
        edits = [self._edit(s, after[i], windows[s]) for s, i in enumerate(self.slots)]
        move = self.pattern_count
        self.pattern_count += 1
        if move >= len(self.moves):
            self.moves = np.concatenate([self.moves, np.zeros_like(self.moves)])
            self.new_digits = np.concatenate([self.new_digits, np.zeros_like(self.new_digits)])
        self.moves[move, :2] = number, self._answer(outputs)
        for s, edit in enumerate(edits):
            self.moves[move, 2 + s] = -1 if edit is None else len(edit[1]) + CLEAR * edit[0]
            if edit is not None:
                self.new_digits[move, s, : len(edit[1])] = edit[1][::-1]
        self._enter(whole, symbol, windows, move)

    def _active_units(self, whole: int, symbol: int, windows: list[Window]) -> dict[int, list[Number]]:
        """The units that are on, each as an affine form of the slots: [constant, factor of slot 0, …]."""
        value = {i: v for i, v in zip(self.rest, self.wholes[whole]) if v}
        scale = self.base ** (self.places - 1)
        opened = {}
        for s, (i, (window, closed)) in enumerate(zip(self.slots, windows)):
            if not closed:
                opened[i] = 1 + s
            elif window:  # all digits are in the window: a known number
                value[i] = exact(Fraction(window, scale))
        base = self.rnn._base[symbol][0]
        active: dict[int, list[Number]] = {}
        for unit, row in enumerate(self.rows):
            form: list[Number] = [base.get(unit, 0)] + [0] * len(self.slots)
            for i, weight in row:
                if i in value:
                    form[0] += weight * value[i]
                elif i in opened:
                    form[opened[i]] += weight
            low = high = form[0] * scale  # bounds, times scale: mostly whole numbers
            for part in opened.values():
                if factor := form[part]:
                    window = windows[part - 1][0]
                    begin, end = (0, scale) if window is None else (window, window + 1)
                    low += factor * (begin if factor > 0 else end)
                    high += factor * (end if factor > 0 else begin)
            if high <= 0:
                continue
            if low < 0:
                raise _MoreDigits
            active[unit] = form
        return active

    def _edit(self, slot: int, form: list[Number], window: Window) -> tuple[bool, list[int]] | None:
        """How a slot's digits change: (whether all old ones go, the new first digits); None where they
        stay."""
        factor, constant = form[1 + slot], form[0]
        if any(v for s, v in enumerate(form[1:]) if s != slot):
            raise NotExact("patterns: a number depends on another one; use evaluator='plain'")
        if factor == 0:
            if self.slots[slot] in self.lazy:
                raise NotExact("patterns: the network drops a lazy number; use evaluator='plain'")
            return True, to_digits(constant, self.base, self.places)
        if factor == 1 and constant == 0:
            return None
        if window[0] is None:
            raise _MoreDigits
        shift, rest = 0, Fraction(factor)
        while rest > 1 and rest.denominator == 1:
            shift, rest = shift + 1, rest / self.base
        while rest < 1 and rest.numerator == 1:
            shift, rest = shift - 1, rest * self.base
        count = self.places - shift
        first = window[0] + constant * Fraction(self.base) ** (self.places - 1 - shift)
        if rest != 1 or count < 0 or first.denominator != 1 or not 0 <= first < self.base**count:
            raise NotExact("patterns: a number does not move by whole digits; use evaluator='plain'")
        digits, number = [], int(first)
        for _ in range(count):
            number, digit = divmod(number, self.base)
            digits.append(digit)
        return False, digits[::-1]

    def _enter(self, whole: int, symbol: int, windows: list[Window], move: int) -> None:
        """Write the pattern into the trie: one node per slot, and the move at the end."""
        table, at = self.roots, (whole, symbol)
        for window, closed in windows:
            if table[at] < 0:
                if self.node_count >= len(self.trie):
                    bigger = np.concatenate([self.trie, np.full_like(self.trie, -1)])
                    table = bigger if table is self.trie else table
                    self.trie = bigger
                table[at] = self.node_count
                self.node_count += 1
            at = (int(table[at]), self.trie.shape[1] - 1 if window is None else 2 * window + closed)
            table = self.trie
        table[at] = move
