"""A Turing machine on a bounded tape as an attention program: a position per cell, a layer per step."""

from __future__ import annotations

from typing import Any

from kleene.lowering.symbolic import table
from kleene.machines.declarations import attend, cat, relative
from kleene.machines.program import Program, ProgramClass
from kleene.machines.turing import TuringMachine

REJECTED, ACCEPTED, LEFT_THE_TAPE = 1, 2, 3  # what the output says; 0: still running


def bounded_tape(machine: TuringMachine) -> ProgramClass:
    """Every position is a cell; the cell under the head holds the machine's state. Each layer is one step.

    Token s is a cell with symbol s; token |symbols| + s is that cell with the head on it, in the start state. The
    output, everywhere, is 2 where the machine accepts, 1 where it rejects, and 3 where its head leaves the cells that
    there are.
    """
    symbols, working = list(machine.symbols), list(machine.working)
    size, states = len(symbols), len(working)
    ends = {REJECTED: states + REJECTED, ACCEPTED: states + ACCEPTED, LEFT_THE_TAPE: states + LEFT_THE_TAPE}

    def mode_of(state: str) -> int:
        """The value of `mode` in a state: 0 is a cell without the head."""
        if state in working:
            return working.index(state) + 1
        return ends[ACCEPTED] if state in machine.accept else ends[REJECTED]

    def rows(move: int | None) -> Any:
        """Map each mode and symbol to the mode that goes that way, or 0; without a move, to the symbol written."""
        made = [[0 if move is not None else s for s in range(size)]]
        for q in working:
            actions = [machine.transitions[q][a] for a in symbols]
            if move is None:
                made.append([symbols.index(written) for _, written, _ in actions])
            else:
                made.append([mode_of(target) if way == move else 0 for target, _, way in actions])
        return table([*made, *([0 if move is not None else s for s in range(size)] for _ in ends)])

    writes, right, left, stays = rows(None), rows(1), rows(-1), rows(0)
    modes = states + 1 + len(ends)
    start = mode_of(machine.start)
    symbol = cat(size, token=lambda t: t % size)
    mode = cat(modes, token=lambda t: start if t >= size else 0)
    over = cat(2, token=lambda t: int(t >= size and start > states))
    one, verdict, done = cat(2, default=1), cat(4), cat(2)
    body: dict[str, Any] = {
        "tokens": 2 * size,
        "symbol": symbol,
        "mode": mode,
        "over": over,
        "one": one,
        "verdict": verdict,
        "done": done,
        "mode_left": relative(mode, -1, default=0),
        "symbol_left": relative(symbol, -1, default=0),
        "mode_right": relative(mode, 1, default=0),
        "symbol_right": relative(symbol, 1, default=0),
        "has_left": relative(one, -1, default=0),
        "has_right": relative(one, 1, default=0),
        "ended": attend(one, over, mode, default=0),
        "output": verdict,
        "halt": {done: 1},
    }

    def step(z: Any) -> None:
        if z.ended > states:
            z.verdict = z.ended - states
            z.done = 1
        else:
            arrives = right[z.mode_left, z.symbol_left]
            returns = left[z.mode_right, z.symbol_right]
            keeps = stays[z.mode, z.symbol]
            goes_left, goes_right = left[z.mode, z.symbol], right[z.mode, z.symbol]
            z.symbol = writes[z.mode, z.symbol]
            if arrives:
                _enter(z, arrives, states)
            elif returns:
                _enter(z, returns, states)
            elif keeps:
                _enter(z, keeps, states)
            elif goes_left and not z.has_left:
                _enter(z, ends[LEFT_THE_TAPE] if machine.two_way else goes_left, states)
            elif goes_right and not z.has_right:
                _enter(z, ends[LEFT_THE_TAPE], states)
            else:
                z.mode = 0

    return ProgramClass("bounded_tape", (Program,), {**body, "step": step})


def _enter(z: Any, mode: Any, states: int) -> None:
    z.mode = mode
    if mode > states:
        z.over = 1
