"""The SUBLEQ interpreter's loop, compiled by Numba; `subleq.plain` is the same loop in plain Python."""

from __future__ import annotations

import numpy as np
from numba import njit

HALTED, LIMIT, INPUT, FULL, OUTSIDE, NO_CODE, OVERFLOW = range(7)  # why a run stopped
RUNS = -1


@njit(cache=True, inline="always")
def _halts(counter: int, halt_at: int, high: int, masked: bool) -> bool:
    """Whether the program ends at this counter."""
    return counter == halt_at or counter < 0 or (masked and counter > high)


@njit(cache=True, inline="always")
def _has_code(counter: int, unit: int, length: int) -> bool:
    """Whether three cells of code stand at the counter. The first comparison keeps the product from overflowing."""
    return counter <= length // unit and counter * unit + 2 < length


@njit(cache=True, inline="always")
def _address(operand: int, masked: bool) -> int:
    return operand & 0xFFFF if masked else operand


@njit(cache=True, inline="always")
def _inside(address: int, size: int) -> bool:
    return address >= 0 and address < size


@njit(cache=True, inline="always")
def _read(
    data: np.ndarray, b: int, given: np.ndarray, read: int, ended: bool, adds: bool, low: int, high: int
) -> tuple[int, int]:
    """Read one byte of input into address `b`: (RUNS or why it stopped, inputs read)."""
    if not _inside(b, data.shape[0]):
        return OUTSIDE, read
    if read >= given.shape[0] and not ended:
        return INPUT, read
    came = np.int64(given[read]) if read < given.shape[0] else np.int64(-1)
    value = came + data[b] if adds else came
    if low <= high:
        value = (value - low) % (high - low + 1) + low
    elif adds and ((value ^ came) & (value ^ data[b])) < 0:
        return OVERFLOW, read
    data[b] = value
    return RUNS, min(read + 1, given.shape[0])


@njit(cache=True, inline="always")
def _write(data: np.ndarray, a: int, made: np.ndarray, written: int) -> int:
    """Write the byte at address `a` to the output: RUNS, or why it stopped."""
    if not _inside(a, data.shape[0]):
        return OUTSIDE
    if written == made.shape[0]:
        return FULL
    made[written] = data[a] & 0xFF
    return RUNS


@njit(cache=True, inline="always")
def _wrapped(value: int, low: int, high: int) -> int:
    """A difference of two words, wrapped round into low … high."""
    if value > high:
        return value - (high - low + 1)
    if value < low:
        return value + (high - low + 1)
    return value


@njit(cache=True)
def execute(
    code: np.ndarray,  # instructions; in most dialects the same array as `data`
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
    ended: bool,  # the input has ended: reading gives −1
    given: np.ndarray,
    made: np.ndarray,
    limit: int,
) -> tuple[int, int, int, int, int]:
    """Run up to `limit` instructions: (why it stopped, counter, steps, inputs read, outputs made)."""
    steps, read, written = 0, 0, 0
    size, length, following, bounded = data.shape[0], code.shape[0], 3 // unit, low <= high
    while not _halts(counter, halt_at, high, masked):
        if steps >= limit:
            return LIMIT, counter, steps, read, written
        if not _has_code(counter, unit, length):
            return NO_CODE, counter, steps, read, written
        at = counter * unit
        a, b, c = code[at], code[at + 1], code[at + 2]
        if io and a == -1:
            why, read = _read(data, _address(b, masked), given, read, ended, adds, low, high)
            if why != RUNS:
                return why, counter, steps, read, written
            counter += following
        elif io and b == -1:
            why = _write(data, _address(a, masked), made, written)
            if why != RUNS:
                return why, counter, steps, read, written
            written += 1
            counter += following
        else:
            a, b = _address(a, masked), _address(b, masked)
            if negative_halts and (a < 0 or b < 0):
                break
            if not _inside(a, size) or not _inside(b, size):
                return OUTSIDE, counter, steps, read, written
            x, y = data[b], data[a]
            value = x - y
            if bounded:
                value = _wrapped(value, low, high)
            elif ((x ^ y) & (x ^ value)) < 0:
                return OVERFLOW, counter, steps, read, written
            data[b] = value
            counter = c if value <= 0 else counter + following
        steps += 1
    return HALTED, counter, steps, read, written


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
    """The same for 16-bit words and their full memory, where arithmetic wraps round by itself."""
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
