"""The simulator's loop, compiled by Numba."""

from __future__ import annotations

import numpy as np
from numba import njit

HALTED, LIMIT, EDGE = 0, 1, 2


@njit(cache=True)
def simulate(
    table: np.ndarray,
    halting: np.ndarray,
    tape: np.ndarray,
    head: int,
    state: int,
    limit: int,
    left_end: bool,
) -> tuple[int, int, int, int]:
    """Run up to `limit` steps: (state, head, steps, why it stopped). table[q, a] = (state, symbol, move)."""
    steps = 0
    while not halting[state]:
        if steps >= limit:
            return state, head, steps, LIMIT
        if (not left_end and head == 0) or head == tape.shape[0] - 1:
            return state, head, steps, EDGE
        symbol = tape[head]
        tape[head] = table[state, symbol, 1]
        head += table[state, symbol, 2]
        if head < 0:
            head = 0
        state = table[state, symbol, 0]
        steps += 1
    return state, head, steps, HALTED
