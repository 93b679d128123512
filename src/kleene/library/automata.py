"""Finite automata as attention programs: one position per layer, in logarithmically many layers, or in constantly many.

The input is a start token and the word's symbols; the output at a position is whether the word up to there is accepted
(programs of constant depth read an end token, too, and answer there; see `logarithmic_by_states` for its input).
Programs are made for a minimal automaton.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from kleene.errors import InputError, NotSupported
from kleene.lowering.symbolic import table
from kleene.machines.automata.cascade import Level, cascade
from kleene.machines.automata.dfa import DFA
from kleene.machines.declarations import attend, cat, layer, num, relative, word
from kleene.machines.program import Program, ProgramClass

MAX_PRODUCTS = 4_096  # entries of a multiplication table that becomes units
MAX_LENGTH = 1 << 20
MAX_CASCADE = 200_000_000  # parameters of a network of constant depth, roughly


def sequential(dfa: DFA) -> ProgramClass:
    """Each layer takes the automaton one position further; the program halts by itself, on words of any length."""
    states, symbols = dfa.table.shape
    moves, answers = table(dfa.table.tolist()), table([int(flag) for flag in dfa.accepting])
    symbol = cat(symbols, token=lambda t: min(t, symbols - 1))
    state, done = cat(states, default=dfa.start), cat(2, token=lambda t: t == symbols)
    accepts = cat(2, default=int(dfa.accepting[dfa.start]))
    state_left, done_left = relative(state, -1), relative(done, -1)

    def step(z: Any) -> None:
        if not z.done and z.done_left:
            after = moves[z.state_left, z.symbol]
            z.state = after
            z.accepts = answers[after]
            z.done = 1

    declared = {"symbol": symbol, "state": state, "done": done, "accepts": accepts}
    heads = {"state_left": state_left, "done_left": done_left}
    rest = {"tokens": symbols + 1, "output": accepts, "halt": {done: 1}, "step": step}
    return ProgramClass("sequential_automaton", (Program,), {**declared, **heads, **rest})


def check_length(length: int) -> None:
    """Check a longest word's length."""
    if not isinstance(length, int) or isinstance(length, bool) or not 1 <= length <= MAX_LENGTH:
        raise InputError(f"automaton: length={length!r}; the longest word has 1 to {MAX_LENGTH:,} symbols")


def logarithmic(dfa: DFA, length: int) -> ProgramClass:
    """Every position composes what blocks of 1, 2, 4, … symbols do: ⌈log₂(length + 1)⌉ layers.

    A position holds the element of the syntactic monoid of the symbols behind it.
    """
    check_length(length)
    monoid = dfa.monoid
    size, symbols = len(monoid), len(dfa.alphabet)
    if size * size > MAX_PRODUCTS:
        raise NotSupported(f"automaton: its monoid has {size:,} elements; a table of their products would be too large")
    first = [*(int(x) for x in monoid.right[0]), 0]  # the start token is the empty word
    products = table([[monoid.multiply(x, y) for y in range(size)] for x in range(size)])
    answers = table([int(monoid.is_accepting(x)) for x in range(size)])
    element, accepts = cat(size, token=lambda t: first[t]), cat(2)
    body: dict[str, Any] = {"tokens": symbols + 1, "element": element, "accepts": accepts}
    rounds = length.bit_length()
    turns = []
    for k in range(rounds):
        name = f"before_{1 << k}"
        body[name] = head = relative(element, -(1 << k), default=0)
        turns.append(layer(head)(_composing(products, answers if k == rounds - 1 else None, name)))
    body |= {f"round_{k}": turn for k, turn in enumerate(turns)}
    body |= {"cycle": tuple(turns), "output": accepts, "layers": rounds, "positions": 1 << rounds}
    return ProgramClass("logarithmic_automaton", (Program,), body)


def _composing(products: Any, answers: Any, left: str) -> Any:
    """The step that composes the block to the left with the position's own, and in the last layer answers."""

    def step(z: Any) -> None:
        z.element = products[getattr(z, left), z.element]

    def last(z: Any) -> None:
        both = products[getattr(z, left), z.element]
        z.element = both
        z.accepts = answers[both]

    return step if answers is None else last


def logarithmic_by_states(dfa: DFA, length: int) -> ProgramClass:
    """State by state, by doubling pointers: ⌈log₂(length + 1)⌉ + 2 layers, for automata with large monoids.

    Each symbol is given once for every state, with the state's number: token a·|Q| + q; after the word come |Q| end
    tokens. So a position stands for a symbol and the state before it. First it finds the position of the next symbol
    and the state after this one; then all positions replace their pointers by the pointers that these lead to, until
    the pointers of the first symbol reach the end. The answer stands at the position of the start state.
    """
    check_length(length)
    states, symbols = dfa.table.shape
    positions = states * (length + 1)
    bits = max(1, (positions - 1).bit_length())
    end = symbols * states

    def after(token: int) -> int:
        return token - end if token >= end else int(dfa.table[token % states, token // states])

    own = cat(2 * states, position=lambda p: p % (2 * states))  # the state, and whether the symbol's number is odd
    target = cat(states, token=after)
    wanted = cat(2 * states)
    place, pointer = word(bits, position=lambda p: p), word(bits)
    is_end = cat(2, token=lambda t: int(t >= end))
    answer = cat(2, token=lambda t: int(t >= end and bool(dfa.accepting[t - end])))
    found = attend(wanted, own, place, offsets=range(2 * states), default=0)
    next_pointer = attend(pointer, place, pointer)
    next_answer = attend(pointer, place, answer)

    def aim(z: Any) -> None:
        odd = z.own >= states
        here = odd if z.is_end else not odd
        z.wanted = z.target + (states if here else 0)

    def begin(z: Any) -> None:
        z.pointer = z.found

    def double(z: Any) -> None:
        z.pointer = z.next_pointer
        z.answer = z.next_answer

    rounds = length.bit_length()
    first, second, again = layer()(aim), layer(found)(begin), layer(next_pointer, next_answer)(double)
    body: dict[str, Any] = {
        "tokens": end + states,
        "positions": positions,
        "own": own,
        "target": target,
        "wanted": wanted,
        "place": place,
        "pointer": pointer,
        "is_end": is_end,
        "answer": answer,
        "found": found,
        "next_pointer": next_pointer,
        "next_answer": next_answer,
        "aim": first,
        "begin": second,
        "cycle": (first, second, *[again] * rounds),
        "output": answer,
        "layers": 2 + rounds,
    }
    return ProgramClass("logarithmic_automaton_by_states", (Program,), body)


# --- constant depth ---------------------------------------------------------------------------------------


def constant(dfa: DFA, length: int) -> ProgramClass:
    """A Krohn–Rhodes cascade: a layer for each reset, one or two for each counter, whatever the length of the word.

    A reset level holds what the latest position set, which one head finds. A counter is a sum over all positions
    before, which heads get from averages, so the length must be stated. Star-free languages need no counters; groups
    that are not solvable are refused, by the theorems of Krohn and Rhodes and of Barrington.
    """
    check_length(length)
    made = cascade(dfa)
    # each number of a tuple is a dimension that units read, and each tuple takes about a dozen units
    parameters = 13 * sum(len(level.sets) for level in made.levels) * len(made.states)
    if parameters > MAX_CASCADE:
        raise NotSupported(f"cascade: a network of about {parameters:,} parameters, more than {MAX_CASCADE:,}")
    body = _Body(dfa, length)
    above = 0  # how many tuples of values there are above the level
    for number, level in enumerate(made.levels):
        above = len(level.sets)
        body.actions(number, level, above)
    for number, level in enumerate(made.levels):
        below = made.levels[number + 1] if number + 1 < len(made.levels) else None
        body.level(number, level, below, made.dfa.accepting[made.states])
    if not made.levels:
        body.one_state(bool(dfa.accepting[dfa.start]))
    return body.program()


class _Body:
    """The class body of a program of constant depth, level by level."""

    def __init__(self, dfa: DFA, length: int) -> None:
        self.symbols, self.length = len(dfa.alphabet), length
        self.behind = range(-(length + 1), 0)
        self.turns: list[Any] = []
        self.one, self.accepts = cat(2, default=1), cat(2)
        self.symbol = cat(self.symbols, token=lambda t: min(t, self.symbols - 1))
        self.real = [*[True] * self.symbols, False, False]  # whether a token is a symbol
        self.content: dict[str, Any] = {
            "tokens": self.symbols + 2,
            "positions": length + 2,
            "symbol": self.symbol,
            "one": self.one,
            "is_symbol": cat(2, token=lambda t: int(self.real[t])),
            "accepts": self.accepts,
        }

    def actions(self, number: int, level: Level, above: int) -> None:
        """Variables that say what a position does to a level; those of the first level are known from the token."""
        first = number == 0

        def known(values: Any, otherwise: int) -> Any:
            return (lambda t: int(values[t]) if self.real[t] else otherwise) if first else None

        sets, adds = level.sets[0], level.adds[0]
        size = level.size
        if level.kind == "reset":
            self._add(number, "sets", cat(2, token=known(sets >= 0, 0)))
            self._add(number, "value", cat(size, token=known(np.maximum(sets, 0), 0)))
        else:
            if (level.sets >= 0).any():
                self._add(number, "sets", cat(2, token=known(sets >= 0, 0)))
            start = self.symbols
            self._add(number, "start", num([0, 1], token=lambda t: int(t == start)))
            for k in range(1, size):
                mark = self._mark(adds if first else None, k)
                self._add(number, f"adds_{k}", cat(2, token=mark))
                if size > 2:
                    self._add(number, f"count_{k}", cat(size))
        if not first:
            self._add(number, "above", cat(above))

    def _mark(self, adds: np.ndarray | None, k: int) -> Any:
        """Whether a token counts: the start always does; a symbol where it adds k, if that is known from the token."""
        return lambda t: int(t == self.symbols or (adds is not None and self.real[t] and adds[t] == k))

    def _add(self, number: int, name: str, thing: Any) -> None:
        self.content[f"{name}_{number}"] = thing

    def _turn(self, name: str, heads: list[Any], step: Any) -> None:
        self.content[name] = turn = layer(*heads)(step)
        self.turns.append(turn)

    def level(self, number: int, level: Level, below: Level | None, answers: np.ndarray) -> None:
        """The layers that find a level's value, and from it what the position does to the level below."""
        content = self.content
        if level.kind == "reset":
            head = attend(
                self.one,
                content[f"sets_{number}"],
                content[f"value_{number}"],
                offsets=self.behind,
                latest=True,
                default=level.start,
            )
            self._add(number, "found", head)
            self._turn(f"find_{number}", [head], self._after(number, level, below, answers, f"found_{number}"))
            return
        totals = []
        shares = [Fraction(1, k + 1) for k in range(self.length + 1)]
        for k in range(1, level.size):
            key, start = content[f"adds_{k}_{number}"], content[f"start_{number}"]
            head = attend(self.one, key, start, offsets=self.behind, output=num(shares), default=1)
            self._add(number, f"share_{k}", head)
            totals.append(head)
        self._add(number, "total", cat(level.size))
        self._turn(f"count_{number}", totals, _counting(number, level.size))
        if level.size > 2:
            self._turn(f"sum_{number}", [], _summing(number, level.size))
        reset = (level.sets >= 0).any()
        heads = []
        if reset:
            head = attend(
                self.one,
                content[f"sets_{number}"],
                content[f"total_{number}"],
                offsets=self.behind,
                latest=True,
                default=0,
            )
            self._add(number, "base", head)
            heads = [head]
        self._turn(f"find_{number}", heads, self._after(number, level, below, answers, None, bool(reset)))

    def _after(
        self,
        number: int,
        level: Level,
        below: Level | None,
        answers: np.ndarray,
        found: str | None,
        reset: bool = False,
    ) -> Any:
        """The step that knows a level's value: it finds the number of the tuple, and acts on the level below."""
        numbers = np.maximum(level.below, 0)
        tuples = table(numbers.tolist())
        act = _acting(number + 1, below) if below is not None else _answering(answers)

        def step(z: Any) -> None:
            if found is not None:
                value = getattr(z, found)
            elif reset:
                value = (getattr(z, f"total_{number}") - getattr(z, f"base_{number}")) % level.size
            else:
                value = getattr(z, f"total_{number}")
            act(z, tuples[getattr(z, f"above_{number}") if number else 0, value])

        return step

    def one_state(self, accepts: bool) -> None:
        """An automaton that accepts everything or nothing."""

        def step(z: Any) -> None:
            z.accepts = int(accepts)

        self._turn("answer", [], step)

    def program(self) -> ProgramClass:
        rest = {"cycle": tuple(self.turns), "output": self.accepts, "layers": len(self.turns)}
        return ProgramClass("constant_automaton", (Program,), {**self.content, **rest})


def _counting(number: int, size: int) -> Any:
    def step(z: Any) -> None:
        if size == 2:
            setattr(z, f"total_{number}", (round(1 / getattr(z, f"share_1_{number}")) - 1) % 2)
            return
        for k in range(1, size):
            setattr(z, f"count_{k}_{number}", (round(1 / getattr(z, f"share_{k}_{number}")) - 1) % size)

    return step


def _summing(number: int, size: int) -> Any:
    def step(z: Any) -> None:
        total = sum(k * getattr(z, f"count_{k}_{number}") for k in range(1, size))
        setattr(z, f"total_{number}", total % size)

    return step


def _acting(number: int, level: Level) -> Any:
    """Write what a position does to a level, given the number of the tuple above it."""
    sets, values = table((level.sets >= 0).astype(int).tolist()), table(np.maximum(level.sets, 0).tolist())
    adds = [table((level.adds == k).astype(int).tolist()) for k in range(level.size)]
    resets = level.kind == "reset" or bool((level.sets >= 0).any())

    def act(z: Any, above: Any) -> None:
        setattr(z, f"above_{number}", above)
        if z.is_symbol:
            if resets:
                setattr(z, f"sets_{number}", sets[above, z.symbol])
            if level.kind == "reset":
                setattr(z, f"value_{number}", values[above, z.symbol])
            else:
                for k in range(1, level.size):
                    setattr(z, f"adds_{k}_{number}", adds[k][above, z.symbol])

    return act


def _answering(answers: np.ndarray) -> Any:
    accepted = table(answers.astype(int).tolist())

    def act(z: Any, above: Any) -> None:
        z.accepts = accepted[above]

    return act
