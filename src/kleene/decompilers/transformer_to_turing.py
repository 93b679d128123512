"""Whether guarded updates on a tape of cells are the steps of a Turing machine, from the updates alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from kleene.decompilers.transformer_to_dfa import Evaluated, grid, need, relative_head
from kleene.lowering.updates import Cycle, Updates
from kleene.machines.turing import TuringMachine

MOST = 20_000_000  # neighbourhoods that are tried one by one
HEADS = (
    ("mode_left", "mode", -1),
    ("symbol_left", "symbol", -1),
    ("mode_right", "mode", 1),
    ("symbol_right", "symbol", 1),
    ("has_left", "one", -1),
    ("has_right", "one", 1),
)


def check_steps(tape: dict[str, Any], updates: Updates | Cycle, machine: TuringMachine) -> int:
    """Raise NotExact where a layer is not one step of the machine; return how many neighbourhoods were tried.

    A layer's updates see a cell, its neighbours and whether some cell ended. With one head on the tape, that is: no
    head near, or the head on one of the three cells. All of these are tried.
    """
    need(isinstance(updates, Updates), "one block loops")
    assert isinstance(updates, Updates)
    spec, symbols = updates.spec, list(machine.symbols)
    size, states = len(symbols), len(machine.working)
    need(list(tape["symbols"]) == symbols and tape["blank"] == machine.blank, "the symbols of the tape")
    need(
        tape["two_way"] == machine.two_way and list(tape["alphabet"]) == list(machine.input_alphabet or ()), "the tape"
    )
    for name, value, offset in HEADS:
        need(relative_head(spec.heads[name], value, offset, None, 0), f"'{name}'")
    ended = spec.heads["ended"]
    need((ended.query, ended.key, ended.value, ended.default) == ("one", "over", "mode", 0), "'ended'")
    need(ended.offsets is None and ended.plain and not spec.moves and not spec.causal, "where heads look")
    need(spec.output == "verdict" and spec.halt == {"done": 1}, "output and halt")
    _check_start(updates, machine)
    modes = states + 4
    near = {"mode": modes, "mode_left": modes, "mode_right": modes}
    every = grid(**near, symbol=size, symbol_left=size, symbol_right=size, has_left=2, has_right=2)
    heads = sum((every[name] > 0).astype(int) for name in near)
    running = np.all([every[name] <= states for name in near], axis=0)
    chosen = (heads <= 1) & running & ((every["has_left"] == 1) | (every["mode_left"] == 0))
    chosen &= (every["has_right"] == 1) | (every["mode_right"] == 0)
    given = {name: values[chosen] for name, values in every.items()}
    rows = len(given["mode"])
    layer, zero = Evaluated(updates), np.zeros(rows, dtype=int)
    free = {"ended": zero, "over": zero, "verdict": zero, "done": zero}
    symbol, mode = _expected(given, machine)
    need(bool((layer("symbol", **given, **free) == symbol).all()), "a symbol that is written")
    need(bool((layer("mode", **given, **free) == mode).all()), "a move or a next state")
    need(bool((layer("over", **given, **free) == (mode > states)).all()), "the end of a run")
    need(
        bool((layer("verdict", **given, **free) == 0).all() and (layer("done", **given, **free) == 0).all()), "halting"
    )
    for k in (1, 2, 3):
        over = {**given, **free, "ended": zero + states + k}
        need(bool((layer("verdict", **over) == k).all() and (layer("done", **over) == 1).all()), "the answer")
    need(layer.keeps("one"), "'one' changes")
    return rows


def _check_start(updates: Updates, machine: TuringMachine) -> None:
    """The variables before the first layer."""
    v, size = updates.spec.variables, len(machine.symbols)
    states = len(machine.working)
    start = _mode(machine, machine.start)
    need(v["symbol"].by_token == (*range(size), *range(size)), "'symbol' at the start")
    need(v["mode"].by_token == (*[0] * size, *[start] * size), "'mode' at the start")
    need(v["over"].by_token == (*[0] * size, *[int(start > states)] * size), "'over' at the start")
    need((v["one"].by_token, v["one"].by_position, v["one"].default) == (None, None, 1), "'one' at the start")
    for name in ("verdict", "done"):
        need((v[name].by_token, v[name].by_position, v[name].default) == (None, None, 0), f"'{name}' at the start")


def _mode(machine: TuringMachine, state: str) -> int:
    working = list(machine.working)
    if state in working:
        return working.index(state) + 1
    return len(working) + (2 if state in machine.accept else 1)


def _expected(given: dict[str, np.ndarray], machine: TuringMachine) -> tuple[np.ndarray, np.ndarray]:
    """The symbol and the mode of a cell after a step of the machine, by its transitions."""
    symbols, working = list(machine.symbols), list(machine.working)
    states, size = len(working), len(symbols)
    target, written = np.zeros((states + 1, size), dtype=int), np.tile(np.arange(size), (states + 1, 1))
    moves = np.zeros((states + 1, size), dtype=int)
    for i, q in enumerate(working, 1):
        for s, a in enumerate(symbols):
            after, symbol, move = machine.transitions[q][a]
            target[i, s], written[i, s], moves[i, s] = _mode(machine, after), symbols.index(symbol), np.sign(move)
    own, here = given["mode"], given["symbol"]
    left, right = (given["mode_left"], given["symbol_left"]), (given["mode_right"], given["symbol_right"])
    mode = np.zeros(len(own), dtype=int)
    mode = np.where((left[0] > 0) & (moves[left] == 1), target[left], mode)
    mode = np.where((right[0] > 0) & (moves[right] == -1), target[right], mode)
    mine = target[own, here]
    mode = np.where((own > 0) & (moves[own, here] == 0), mine, mode)
    off_left = (own > 0) & (moves[own, here] == -1) & (given["has_left"] == 0)
    mode = np.where(off_left, states + 3 if machine.two_way else mine, mode)
    off_right = (own > 0) & (moves[own, here] == 1) & (given["has_right"] == 0)
    return written[own, here], np.where(off_right, states + 3, mode)
