"""Numbers as digits in some base, and the loop that replaces their first digits (see digit_patterns.py)."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numba import njit

from kleene.errors import NotExact
from kleene.networks.rnn.matrix import Number, exact

LIMIT, ANSWERED, UNKNOWN, EDGE = range(4)  # why the loop stopped
CLEAR = 64  # added to a number of digits to write: all old digits go first


class Slots(NamedTuple):
    """Numbers as digits. Slot s is digits[s, low[s]:high[s]], with its first digit last."""

    digits: np.ndarray  # (slot, room)
    low: np.ndarray
    high: np.ndarray
    lazy: np.ndarray  # whether the number has more digits than the array


class Patterns(NamedTuple):
    """The patterns known so far, as a trie with one node per slot, and the move at the end of each path."""

    base: int
    places: int  # digits in a pattern
    roots: np.ndarray  # (id of the whole numbers, symbol) → node
    trie: np.ndarray  # (node, code of a slot's first digits) → node, or move
    moves: np.ndarray  # move → (id of the whole numbers, answer, digits to write in slot 0, 1, …; −1 leaves the slot)
    new_digits: np.ndarray  # (move, slot, digit)


@njit(cache=True)
def follow_patterns(
    inputs: np.ndarray, nul: int, time: int, limit: int, whole: int, slots: Slots, patterns: Patterns
) -> tuple[int, int, int, int]:
    """Run steps while their patterns are known.

    inputs: the codes of the symbols to read; `nul` after their end.
    time: the step to begin with; `limit` the one to stop before.
    whole: the id of the whole numbers.
    slots: the other numbers; their digits are changed in place.

    Returns why it stopped, the time, the id of the whole numbers, and the answer.
    """
    digits, low, high, lazy = slots
    base, places, roots, trie, moves, new_digits = patterns
    count, room = digits.shape
    while time < limit:
        node = roots[whole, inputs[time] if time < inputs.shape[0] else nul]
        for s in range(count):
            if node < 0:
                break
            if high[s] - low[s] < places:  # a lazy number whose digits are not computed yet
                code = trie.shape[1] - 1
            else:
                window = 0
                for k in range(places):
                    window = window * base + digits[s, high[s] - 1 - k]
                code = 2 * window + (high[s] - low[s] == places and not lazy[s])
            node = trie[node, code]
        if node < 0:
            return UNKNOWN, time, whole, 0
        for s in range(count):
            if low[s] < places + 4 or high[s] > room - places - 4:
                return EDGE, time, whole, 0
        _move(digits, low, high, lazy, places, moves, new_digits, node)
        whole = moves[node, 0]
        time += 1
        if moves[node, 1]:
            return ANSWERED, time, whole, moves[node, 1]
    return LIMIT, time, whole, 0


@njit(cache=True, inline="always")
def _move(digits, low, high, lazy, places, moves, new_digits, move):  # type: ignore[no-untyped-def]
    """Replace the first digits of every slot that the move writes."""
    for s in range(len(low)):
        written = moves[move, 2 + s]
        if written < 0:
            continue
        top = high[s] - places
        if written >= CLEAR:
            written -= CLEAR
            top = low[s]
        for k in range(written):
            digits[s, top + k] = new_digits[move, s, k]
        top += written
        bottom = low[s]
        if not lazy[s]:
            while top - bottom > places and digits[s, bottom] == 0:
                bottom += 1
            while top - bottom < places:
                bottom -= 1
                digits[s, bottom] = 0
        low[s], high[s] = bottom, top


def to_digits(value: Number, base: int, places: int) -> list[int]:
    """At least `places` digits of a number in [0, base), the digit before the point first.

    >>> to_digits(Fraction(2, 9), 3, 2)
    [0, 0, 2]
    """
    if not 0 <= value < base:
        raise NotExact(f"patterns: a number reaches {value}; use evaluator='plain'")
    number = Fraction(value)
    depth, power = 0, 1
    while power % number.denominator:
        depth, power = depth + 1, power * base
        if depth > number.denominator.bit_length():
            raise NotExact(f"patterns: {value} has no finite digits in base {base}; use evaluator='plain'")
    rest, digits = number.numerator * (power // number.denominator), []
    for _ in range(depth):
        rest, digit = divmod(rest, base)
        digits.append(digit)
    return [rest, *reversed(digits)] + [0] * (places - 1 - depth)


def from_digits(digits: list[int], base: int) -> Number:
    """The number with these digits, the digit before the point first."""
    value = 0
    for digit in digits:
        value = value * base + digit
    return exact(Fraction(value, base ** (len(digits) - 1)))


def lay_out(lines: list[list[int]], lazy: np.ndarray) -> Slots:
    """Put the digits of each slot, its first digit first, into the middle of a row."""
    room = 1024 + 3 * max((len(line) for line in lines), default=0)
    digits = np.zeros((len(lines), room), dtype=np.int8)
    low = np.array([room // 2 - len(line) // 2 for line in lines], dtype=np.int64)
    high = low + np.array([len(line) for line in lines], dtype=np.int64)
    for s, line in enumerate(lines):
        digits[s, low[s] : high[s]] = line[::-1]
    return Slots(digits, low, high, lazy)


def digits_of(slots: Slots, s: int) -> list[int]:
    """The digits of one slot, its first digit first."""
    digits: list[int] = slots.digits[s, slots.low[s] : slots.high[s]][::-1].tolist()
    return digits
