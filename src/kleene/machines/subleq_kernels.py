"""The SUBLEQ interpreter's loop, compiled by Numba; `subleq.plain` is the same loop in plain Python."""

from __future__ import annotations

import numpy as np
from numba import njit

HALTED, LIMIT, INPUT, FULL, OUTSIDE, NO_CODE, OVERFLOW = range(7)


@njit(cache=True)
def execute(
    code: np.ndarray,  # instructions: in most dialects the same array as `data`
    data: np.ndarray,
    counter: int,
    unit: int,  # cells that one count of the counter passes: 3 where instructions have numbers, otherwise 1
    halt_at: int,  # the counter that halts where instructions have numbers; −1: any negative one halts
    low: int,  # words are low … high and wrap round; no limits where low > high
    high: int,
    masked: bool,  # addresses are taken modulo 65,536, and a counter above `high` halts
    io: bool,  # address −1 is input and output
    negative_halts: bool,  # an operand A or B below 0 halts
    adds: bool,  # input adds to the word instead of replacing it
    ended: bool,  # no more input will come: reading gives −1
    given: np.ndarray,
    made: np.ndarray,
    limit: int,
) -> tuple[int, int, int, int, int]:
    """Run up to `limit` instructions: (why it stopped, counter, steps, inputs read, outputs made)."""
    steps, read, written = 0, 0, 0
    size, length, bounded = data.shape[0], code.shape[0], low <= high
    following = 3 // unit
    while True:
        if counter == halt_at or counter < 0 or (masked and counter > high):
            return HALTED, counter, steps, read, written
        if steps >= limit:
            return LIMIT, counter, steps, read, written
        if counter > length // unit:  # before it is multiplied, which could overflow
            return NO_CODE, counter, steps, read, written
        at = counter * unit
        if at + 2 >= length:
            return NO_CODE, counter, steps, read, written
        a, b, c = code[at], code[at + 1], code[at + 2]
        if io and a == -1:
            if masked:
                b &= 0xFFFF
            if b < 0 or b >= size:
                return OUTSIDE, counter, steps, read, written
            if read < given.shape[0]:
                came, taken = np.int64(given[read]), 1
            elif ended:
                came, taken = np.int64(-1), 0
            else:
                return INPUT, counter, steps, read, written
            value = came + data[b] if adds else came
            if not bounded and adds and ((value ^ came) & (value ^ data[b])) < 0:
                return OVERFLOW, counter, steps, read, written
            read += taken
            if bounded:
                value = (value - low) % (high - low + 1) + low
            data[b] = value
            counter += following
        elif io and b == -1:
            if masked:
                a &= 0xFFFF
            if a < 0 or a >= size:
                return OUTSIDE, counter, steps, read, written
            if written == made.shape[0]:
                return FULL, counter, steps, read, written
            made[written] = data[a] & 0xFF
            written += 1
            counter += following
        else:
            if masked:
                a &= 0xFFFF
                b &= 0xFFFF
            elif negative_halts and (a < 0 or b < 0):
                return HALTED, counter, steps, read, written
            if a < 0 or a >= size or b < 0 or b >= size:
                return OUTSIDE, counter, steps, read, written
            x, y = data[b], data[a]
            value = x - y
            if bounded:
                if value > high:
                    value -= high - low + 1
                elif value < low:
                    value += high - low + 1
            elif ((x ^ y) & (x ^ value)) < 0:
                return OVERFLOW, counter, steps, read, written
            data[b] = value
            counter = c if value <= 0 else counter + following
        steps += 1


@njit(cache=True, boundscheck=False)
def execute_16(
    memory: np.ndarray,  # 65,536 words, uint16, so that nothing can be outside
    counter: int,
    adds: bool,
    ended: bool,
    given: np.ndarray,
    made: np.ndarray,
    limit: int,
) -> tuple[int, int, int, int, int]:
    """The same for 16-bit words and the whole of their memory, where the arithmetic wraps round by itself."""
    steps, read, written = 0, 0, 0
    while counter < 32768:
        if steps >= limit:
            return LIMIT, counter, steps, read, written
        a, b = memory[counter], memory[counter + 1]
        if a == 65535:
            if read < given.shape[0]:
                value = np.uint16(given[read])
                read += 1
            elif ended:
                value = np.uint16(65535)
            else:
                return INPUT, counter, steps, read, written
            memory[b] = np.uint16(memory[b] + value) if adds else value
            counter += 3
        elif b == 65535:
            if written == made.shape[0]:
                return FULL, counter, steps, read, written
            made[written] = memory[a] & 0xFF
            written += 1
            counter += 3
        else:
            following = int(memory[counter + 2])
            value = np.uint16(memory[b] - memory[a])
            memory[b] = value
            counter = following if value == 0 or value >= 32768 else counter + 3
        steps += 1
    return HALTED, counter, steps, read, written
