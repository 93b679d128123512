"""The Turing machine of a transformer, from its guarded updates alone: on a tape of cells, or in tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kleene.decompilers.transformer_to_dfa import Evaluated, grid, need, relative_head
from kleene.errors import InputError, NotExact
from kleene.lowering.updates import Cycle, Updates
from kleene.machines.turing import TuringMachine

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


# --- reading the machine ------------------------------------------------------------------------------------


def read_turing(description: dict[str, Any], updates: Updates | Cycle) -> TuringMachine:
    """The Turing machine of a network's updates. States keep their saved names; the weights say what they do."""
    try:
        if "chain" in description:
            return _read_chain(description["chain"], updates)
        tape = description["tape"]
        found = _read_tape(tape, updates)
        check_steps(tape, updates, found)
        return found
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, InputError) as error:
        raise NotExact(f"the updates are not a Turing machine's ({error!r})") from None


def _machine(
    about: dict[str, Any], states: list[str], start: int, rows: list[list[tuple[int, int, int]]]
) -> TuringMachine:
    """A machine from (mode, symbol, move) for each state and symbol. Modes above the states reject, then accept."""
    halting = []
    for wanted in ("reject", "accept"):
        while wanted in states:
            wanted += "'"
        halting.append(wanted)
    names, symbols = [*states, *halting], list(about["symbols"])
    transitions = {
        q: {a: (names[mode - 1], symbols[symbol], move) for a, (mode, symbol, move) in zip(symbols, row)}
        for q, row in zip(states, rows)
    }
    return TuringMachine(
        transitions,
        names[start - 1],
        frozenset([halting[1]]),
        frozenset([halting[0]]),
        about["blank"],
        tuple(about["alphabet"]),
        about["two_way"],
        "decompiled",
    )


def _read_tape(tape: dict[str, Any], updates: Updates | Cycle) -> TuringMachine:
    """One step with the head on a cell, or on its left or right neighbour: what is written, and which way it goes."""
    need(isinstance(updates, Updates), "one block loops")
    assert isinstance(updates, Updates)
    spec, size = updates.spec, len(tape["symbols"])
    states = len(spec.kinds["mode"]) - 4
    names = list(TuringMachine.from_json(tape["machine"], "the network's 'machine'").working)
    need(len(names) == states, "the number of states")
    layer = Evaluated(updates)
    every = grid(head=states, read=size)
    zero = np.zeros(states * size, dtype=int)
    rest = dict.fromkeys(["ended", "over", "verdict", "done", "mode", "mode_left", "mode_right"], zero)
    rest |= dict.fromkeys(["symbol", "symbol_left", "symbol_right"], zero) | {
        "has_left": zero + 1,
        "has_right": zero + 1,
    }
    head, read = every["head"] + 1, every["read"]
    written = layer("symbol", **{**rest, "mode": head, "symbol": read})
    ways = [("mode_right", "symbol_right", -1), ("mode", "symbol", 0), ("mode_left", "symbol_left", 1)]
    goes = [layer("mode", **{**rest, mode: head, symbol: read}) for mode, symbol, _ in ways]
    need(bool((np.sum([after > 0 for after in goes], axis=0) == 1).all()), "the head goes one way")
    targets = np.sum(goes, axis=0)
    moves = np.sum([way * (after > 0) for (_, _, way), after in zip(ways, goes)], axis=0)
    actions = list(zip(targets.tolist(), written.tolist(), moves.tolist()))
    start = spec.variables["mode"].by_token
    assert start is not None
    return _machine(tape, names, start[-1], [actions[q * size : (q + 1) * size] for q in range(states)])


class _Chain:
    """Tokens that are the steps of a machine.

    Lemma: doublings sum the moves since the word's end, so `at` is the head's cell; the latest write there is the
    symbol under the head. The token that follows says what the step does.
    """

    def __init__(self, chain: dict[str, Any], updates: Updates | Cycle) -> None:
        self.chain, self.spec = chain, updates.spec
        *self.sums, self.place, self.act = updates.by_layer
        self.symbols, self.halting = list(chain["symbols"]), len(chain["states"])
        self.size, self.word = len(self.spec.kinds["at"]), len(chain["alphabet"])
        self.layer = Evaluated(self.act)
        names = ("moved", "writes", "symbol", "state", "ending")
        tables = [self.spec.variables[name].by_token for name in names]
        need(all(one is not None for one in tables), "what tokens mean")
        self.moved, self.writes, self.written, self.state, self.ending = (list(one or ()) for one in tables)
        self._check_layers()
        self._check_tokens()

    def _check_layers(self) -> None:
        spec, length, size = self.spec, int(self.chain["length"]), self.size
        need(spec.causal and not spec.moves and spec.output == "result", "the decoder")
        need(length <= 1 << len(self.sums) and 2 * length <= size, "the length")
        _check_sums(self.sums, size)
        need(not self.place.spec.heads and Evaluated(self.place).keeps("at"), "the layer that finds the cell")
        every = grid(at=size, moved=size)
        cell = Evaluated(self.place)("cell", **every, cell=0 * every["at"])
        need(bool((cell == (every["at"] - every["moved"]) % size).all()), "the cell of a write")
        (under,) = self.act.spec.heads.values()
        need((under.query, under.key, under.value, under.prefer) == ("at", "cell", "symbol", "latest"), "'under'")
        need(under.among == (("writes", 1),) and under.offsets is None and not under.where, "where 'under' looks")
        blank = self.symbols.index(self.chain["blank"])
        need(under.default == blank, "the symbol of a cell that nothing was written to")
        need(all(self.layer.keeps(name) for name in spec.variables if name != "result"), "what the last layer writes")
        for name in ("writes", "symbol", "state", "ending", "moved"):
            need(all(Evaluated(part).keeps(name) for part in (*self.sums, self.place)), f"'{name}' changes")

    def _check_tokens(self) -> None:
        v, word = self.spec.variables, self.word
        need(v["at"].by_token == tuple(self.moved), "the moves of tokens")
        need(v["at_fresh"].by_token == tuple(int(t == word) for t in range(self.spec.tokens)), "where the word ends")
        need(all(m in (0, 1, self.size - 1) for m in self.moved), "the moves of tokens")
        need(self.writes[:word] == [1] * word and self.moved[:word] == [1] * word, "the word's tokens")
        need(not self.writes[word] and not self.moved[word], "the token after the word")
        need([self.symbols[s] for s in self.written[:word]] == list(self.chain["alphabet"]), "the word's symbols")

    def mode(self, token: int) -> int:
        """The mode after a token, as on a tape of cells."""
        if self.state[token] < self.halting:
            return self.state[token] + 1
        need(self.ending[token] in (1, 2), "a step that leads nowhere")
        return self.halting + (2 if self.ending[token] == 1 else 1)

    def steps(self, cell: int) -> np.ndarray:
        """The token that follows in each state on each symbol, with the head on a cell."""
        given = grid(state=self.halting, under=len(self.symbols), ending=4, result=len(self.spec.kinds["result"]))
        found = self.layer("result", **given, at=np.full(len(given["state"]), cell))
        rows = found.reshape(self.halting, len(self.symbols), -1)
        need(bool((rows == rows[:, :, :1]).all()), "a step depends on more than state and symbol")
        return np.asarray(rows[:, :, 0])

    def check_edge(self, usual: np.ndarray) -> None:
        """The first cell behaves the same, except that a tape with a left end has no move to the left."""
        edge, left = self.steps(0), self.size - 1
        for q, a in np.ndindex(*usual.shape):
            t, e = int(usual[q, a]), int(edge[q, a])
            need(bool(self.writes[t] and self.writes[e]), "a step writes nothing")
            stays = 0 if self.moved[t] == left and not self.chain["two_way"] else self.moved[t]
            same = all(one[t] == one[e] for one in (self.state, self.ending, self.written))
            need(same and self.moved[e] == stays, "the first cell")


def _read_chain(chain: dict[str, Any], updates: Updates | Cycle) -> TuringMachine:
    found = _Chain(chain, updates)
    usual = found.steps(1)
    need(all(np.array_equal(found.steps(cell), usual) for cell in range(2, found.size)), "a step depends on the cell")
    found.check_edge(usual)
    _check_answers(found.layer, chain, found.halting, updates.spec.kinds)
    ways = {0: 0, 1: 1, found.size - 1: -1}
    rows = [[(found.mode(t), found.written[t], ways[found.moved[t]]) for t in map(int, row)] for row in usual]
    return _machine(chain, list(chain["states"]), found.mode(found.word), rows)


def _check_sums(sums: Sequence[Updates], size: int) -> None:
    for k, part in enumerate(sums):
        left, left_fresh = f"at_{1 << k}_left", f"at_fresh_{1 << k}_left"
        need(set(part.spec.heads) == {left, left_fresh}, "the heads that sum")
        need(relative_head(part.spec.heads[left], "at", -(1 << k), None, 0), f"'{left}'")
        need(relative_head(part.spec.heads[left_fresh], "at_fresh", -(1 << k), None, 1), f"'{left_fresh}'")
        layer = Evaluated(part)
        flags = grid(at_fresh=2, **{left_fresh: 2})
        wanted = np.where(flags["at_fresh"] == 1, 1, flags[left_fresh])
        need(bool((layer("at_fresh", **flags) == wanted).all()), "where a sum begins")
        every = grid(at_fresh=2, at=size, **{left: size})
        wanted = np.where(every["at_fresh"] == 1, every["at"], (every["at"] + every[left]) % size)
        need(bool((layer("at", **every) == wanted).all()), "the sum of moves")


def _check_answers(layer: Evaluated, chain: dict[str, Any], halting: int, kinds: Any) -> None:
    """A halting state is followed by the answer, and the answer by the end."""
    given = grid(ending=4, under=len(chain["symbols"]), result=len(kinds["result"]))
    here = {"state": np.full(len(given["ending"]), halting)}
    for cell in (0, 1):
        found = layer("result", **given, **here, at=np.full(len(given["ending"]), cell))
        for ending, token in ((1, chain["accept"]), (2, chain["reject"])):
            need(bool((found[given["ending"] == ending] == token).all()), "the answer")
        need(not np.isin(found[given["ending"] == 3], [chain["accept"], chain["reject"]]).any(), "a second answer")
