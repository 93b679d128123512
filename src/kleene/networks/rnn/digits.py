"""Numbers as digits in some base, and the loop that replaces their first digits (see `patterns.py`)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numba import njit

from kleene.errors import NotExact
from kleene.networks.rnn.matrix import Number, exact

LIMIT, ANSWERED, UNKNOWN, EDGE = range(4)  # why the loop stopped
CLEAR = 64  # added to a count: the old digits all go first


@njit(cache=True)
def loop(
    inputs: np.ndarray,
    nul: int,
    time: int,
    limit: int,
    whole: int,
    places: int,
    base: int,
    digits: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    lazy: np.ndarray,
    roots: np.ndarray,
    trie: np.ndarray,
    moves: np.ndarray,
    new_digits: np.ndarray,
) -> tuple[int, int, int, int]:
    """Follow known patterns: (why it stopped, time, whole numbers' id, answer). Slot s is digits[s,
    low[s]:high[s]], its first digit last. moves[m] = (whole id, answer, digits to write in slot 0, 1, …; −1
    leaves it)."""
    slots = digits.shape[0]
    room = digits.shape[1]
    while time < limit:
        symbol = inputs[time] if time < inputs.shape[0] else nul
        node = roots[whole, symbol]
        if node < 0:
            return UNKNOWN, time, whole, 0
        for s in range(slots):
            if high[s] - low[s] < places:  # a lazy number, its digits not asked for yet
                code = trie.shape[1] - 1
            else:
                window = 0
                for k in range(places):
                    window = window * base + digits[s, high[s] - 1 - k]
                code = 2 * window + (high[s] - low[s] == places and not lazy[s])
            node = trie[node, code]
            if node < 0:
                return UNKNOWN, time, whole, 0
        for s in range(slots):
            if low[s] < places + 4 or high[s] > room - places - 4:
                return EDGE, time, whole, 0
        for s in range(slots):
            count = moves[node, 2 + s]
            if count < 0:
                continue
            top = high[s] - places
            if count >= CLEAR:
                count -= CLEAR
                top = low[s]
            for k in range(count):
                digits[s, top + k] = new_digits[node, s, k]
            top += count
            bottom = low[s]
            if not lazy[s]:
                while top - bottom > places and digits[s, bottom] == 0:
                    bottom += 1
                while top - bottom < places:
                    bottom -= 1
                    digits[s, bottom] = 0
            low[s], high[s] = bottom, top
        whole = moves[node, 0]
        time += 1
        if moves[node, 1]:
            return ANSWERED, time, whole, moves[node, 1]
    return LIMIT, time, whole, 0


def to_digits(value: Number, base: int, places: int) -> list[int]:
    """The digits of a number in [0, base), the one before the point first; at least `places` of them.

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
    """The number with these digits, the one before the point first."""
    value = 0
    for digit in digits:
        value = value * base + digit
    return exact(Fraction(value, base ** (len(digits) - 1)))


def laid_out(lines: list[list[int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each slot's digits in the middle of its row, the first digit last; where they begin and end."""
    room = 1024 + 3 * max((len(line) for line in lines), default=0)
    digits = np.zeros((len(lines), room), dtype=np.int8)
    low = np.array([room // 2 - len(line) // 2 for line in lines], dtype=np.int64)
    high = low + np.array([len(line) for line in lines], dtype=np.int64)
    for s, line in enumerate(lines):
        digits[s, low[s] : high[s]] = line[::-1]
    return digits, low, high
