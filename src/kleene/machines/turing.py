"""Turing machines with one tape (Definition 4.9), with a tape that is endless to the right or both ways."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kleene.common.alphabet import Word, check_alphabet, encode
from kleene.common.decision import Answer, Decision, trimmed
from kleene.errors import InputError, a_type, counted

MAX_CELLS = 1_000_000_000
MOVES = {"L": -1, "S": 0, "R": 1}
Action = tuple[str, str, int]


class Configuration(NamedTuple):
    """A state, the symbol under the head, and the cells to its left and right, nearest first."""

    state: str
    left: tuple[str, ...]
    symbol: str
    right: tuple[str, ...]


Texts = tuple[str, ...]
Rows = Mapping[str, Mapping[str, tuple[str, str, int]]]  # state → symbol → (state, symbol, move)


@dataclass(frozen=True, eq=False)
class TuringMachine:
    """A deterministic machine; δ is total on the states that do not halt.

    `transitions[state][symbol]` is (state, symbol, move) with move −1, 0 or +1 (or "L", "S", "R").

    >>> bb2 = TuringMachine.parse("1RB1LB_1LA1RZ")
    >>> bb2.run("", max_steps=100)
    Decision(answer='accept', steps=6, state='Z', tape=('1', '1', '1', '1'), head=2)
    """

    transitions: Mapping[str, Mapping[str, tuple[str, str, int]]]
    start: str
    accept: frozenset[str]
    reject: frozenset[str] = frozenset()
    blank: str = " "
    input_alphabet: tuple[str, ...] | None = None  # by default all symbols except the blank
    two_way: bool = True
    name: str = "Turing machine"
    example: str = ""  # a word to try, where the machine's file has one
    states: tuple[str, ...] = field(init=False)  # states that do not halt come first
    symbols: tuple[str, ...] = field(init=False)  # Γ, the blank first
    table: np.ndarray = field(init=False, repr=False)  # (state, symbol) → state, symbol, move

    def __post_init__(self) -> None:
        accept, reject = frozenset(self.accept), frozenset(self.reject)
        _check_texts(self.name, (self.start, self.blank, *accept, *reject, *(self.input_alphabet or ())))
        rows = {q: {a: _action(self.name, q, a, t) for a, t in row.items()} for q, row in self.transitions.items()}
        self._check_halting(rows, accept, reject)
        working = tuple(q for q in rows if q not in accept | reject)
        states = working + tuple(sorted(accept)) + tuple(sorted(reject))
        written = [s for row in rows.values() for a, t in row.items() for s in (a, t[1])]
        symbols = tuple(dict.fromkeys([self.blank, *(self.input_alphabet or ()), *sorted(set(written))]))
        self._check_total(rows, working, states, symbols)
        for name, value in (
            ("transitions", {q: rows[q] for q in working}),
            ("accept", accept),
            ("reject", reject),
            ("input_alphabet", self._checked_alphabet(symbols)),
            ("states", states),
            ("symbols", symbols),
            ("table", _numbered(rows, working, states, symbols)),
        ):
            object.__setattr__(self, name, value)

    def _check_halting(self, rows: Rows, accept: frozenset[str], reject: frozenset[str]) -> None:
        """A state that halts has no transitions, and either accepts or rejects."""
        for q in rows:
            if q in accept | reject and rows[q]:
                raise InputError(f"{self.name}: state {q!r} halts, so it can have no transitions")
        if both := accept & reject:
            raise InputError(f"{self.name}: state {min(both)!r} cannot both accept and reject")

    def _check_total(self, rows: Rows, working: Texts, states: Texts, symbols: Texts) -> None:
        """Check that every working state has one transition per symbol, to an existing state."""
        if self.start not in states:
            raise InputError(f"{self.name}: start state {self.start!r} has no transitions and does not halt")
        if "" in symbols:
            raise InputError(f"{self.name}: the empty text cannot be a symbol")
        for q in working:
            for a in symbols:
                if a not in rows[q]:
                    raise InputError(f"{self.name}: state {q!r} has no transition for {a!r}; it needs one per symbol")
                if rows[q][a][0] not in states:
                    raise InputError(f"{self.name}: state {q!r} on {a!r} goes to unknown state {rows[q][a][0]!r}")

    def _checked_alphabet(self, symbols: Texts) -> Texts:
        """The input alphabet: by default all symbols except the blank."""
        if self.input_alphabet is None:
            return tuple(s for s in symbols if s != self.blank)
        alphabet = tuple(self.input_alphabet)
        if self.blank in alphabet:
            raise InputError(f"{self.name}: the blank {self.blank!r} cannot be an input symbol")
        return check_alphabet(alphabet) if alphabet else ()

    @property
    def working(self) -> tuple[str, ...]:
        """The states that do not halt."""
        return tuple(self.transitions)

    def answer(self, state: str) -> Answer:
        """The answer that a state gives: "accept", "reject", or None to go on."""
        return "accept" if state in self.accept else "reject" if state in self.reject else None

    def __str__(self) -> str:
        way = "two-way" if self.two_way else "one-way"
        lines = [
            f"{self.name}: {counted(len(self.working), 'state')}, {counted(len(self.symbols), 'symbol')}, {way} tape, "
            f"starts in {self.start}"
        ]
        letters = {-1: "L", 0: "S", 1: "R"}
        for q, row in self.transitions.items():
            lines.append(f"  {q}: " + "  ".join(f"{a!r}→{w!r},{letters[m]},{t}" for a, (t, w, m) in row.items()))
        return "\n".join(lines)

    # Running

    def configurations(self, word: Word = "") -> Iterator[Configuration]:
        """Yield every configuration from the first on, one step at a time: the definition, slow and plain."""
        encode(word, {s: i for i, s in enumerate(self.input_alphabet or ())})
        state, left, right = self.start, list[str](), list(reversed(word))
        symbol = right.pop() if right else self.blank
        while True:
            yield Configuration(state, tuple(reversed(left)), symbol, tuple(reversed(right)))
            if state not in self.transitions:
                return
            state, symbol, move = self.transitions[state][symbol]
            if move > 0:
                left.append(symbol)
                symbol = right.pop() if right else self.blank
            elif move < 0 and (left or self.two_way):
                right.append(symbol)
                symbol = left.pop() if left else self.blank

    def run(self, word: Word = "", *, max_steps: int = 10**9) -> Decision:
        """Simulate the machine in compiled code. The decision holds the tape."""
        from kleene.machines.turing_kernels import EDGE, simulate

        check_steps(self.name, max_steps)
        index = {s: i for i, s in enumerate(self.symbols)}
        codes = encode(word, {s: index[s] for s in self.input_alphabet or ()})
        origin = len(codes) + 64 if self.two_way else 0
        tape = np.zeros(origin + len(codes) + 64, dtype=np.int32)
        tape[origin : origin + len(codes)] = codes
        halting = np.array([q not in self.transitions for q in self.states])
        state, head, steps = self.states.index(self.start), origin, 0
        while True:
            state, head, done, why = simulate(
                self.table, halting, tape, head, state, min(max_steps - steps, 2**62), not self.two_way
            )
            steps += done
            if why != EDGE:
                break
            if tape.size * 3 > MAX_CELLS:
                raise InputError(f"{self.name}: the tape grows beyond {MAX_CELLS:,} cells")
            room = tape.size if self.two_way else 0
            tape = np.concatenate([np.zeros(room, np.int32), tape, np.zeros(tape.size, np.int32)])
            head += room
        used = np.flatnonzero(tape)
        low, high = (int(used[0]), int(used[-1]) + 1) if used.size else (head, head + 1)
        low, high = (min(low, head) if self.two_way else 0), max(high, head + 1)
        cells = [self.symbols[c] for c in tape[low:high]]
        text, place = trimmed(
            cells[: head - low][::-1], cells[head - low], cells[head - low + 1 :], self.blank, self.two_way
        )
        return Decision(self.answer(self.states[state]), steps, self.states[state], text, place)

    # Files

    @classmethod
    def parse(cls, text: str) -> TuringMachine:
        """Read bbchallenge text: two-way tape, blank 0, halting accepts. `---` means `1RZ`."""
        from kleene.machines.turing_files import from_bbchallenge

        if not isinstance(text, str):
            raise InputError(f"machine text {text!r:.60}: {a_type(text)}; it must be a string")
        return from_bbchallenge(text.strip(), "machine text")

    @classmethod
    def load(cls, path: str | Path) -> TuringMachine:
        """Load a file: `.yaml` (turingmachine.io), `.jff` (JFLAP), `.json`, or `.txt` (bbchallenge text)."""
        from kleene.machines.turing_files import load

        return load(path)

    def save(self, path: str | Path) -> None:
        """Write a file: `.json`, `.yaml` (turingmachine.io) or `.jff` (JFLAP)."""
        from kleene.machines.turing_files import save

        save(self, path)

    def to_json(self) -> dict[str, object]:
        """Convert to plain data; `from_json` reads it."""
        from kleene.machines.turing_files import to_json

        return to_json(self)

    @classmethod
    def from_json(cls, data: object, where: str = "Turing machine") -> TuringMachine:
        """Rebuild a machine from its `to_json`."""
        from kleene.machines.turing_files import from_json

        return from_json(data, where)

    def _repr_png_(self) -> bytes | None:
        """The picture that notebooks show."""
        from kleene.show.automata import png

        return png(self)

    def to_dot(self) -> str:
        """The machine in Graphviz's language."""
        from kleene.show.automata import turing_to_dot

        return turing_to_dot(self)


def _action(name: str, state: str, symbol: str, action: object) -> Action:
    if not isinstance(action, tuple | list) or len(action) != 3:
        raise InputError(f"{name}: state {state!r} on {symbol!r} has {action!r:.60}; it must be (state, symbol, move)")
    target, write, move = action
    number = MOVES.get(move, move) if isinstance(move, str) else move
    if number not in (-1, 0, 1):
        raise InputError(f"{name}: state {state!r} on {symbol!r} moves {move!r}; it must be L, S or R")
    _check_texts(name, (state, symbol, target, write))
    return target, write, int(number)


def _check_texts(name: str, texts: Iterable[object]) -> None:
    for text in texts:
        if not isinstance(text, str):
            raise InputError(f"{name}: {text!r} is {a_type(text)}; states and symbols are strings")


def check_steps(name: str, max_steps: int) -> None:
    """Raise an InputError unless `max_steps` is a number of steps."""
    if not isinstance(max_steps, int | np.integer) or max_steps < 0:
        raise InputError(f"{name}: max_steps={max_steps!r}; it must be a whole number, 0 or more")


def _numbered(rows: Rows, working: Texts, states: Texts, symbols: Texts) -> np.ndarray:
    """The transitions as numbers: (state, symbol) → state, symbol, move."""
    number, code = {q: i for i, q in enumerate(states)}, {a: i for i, a in enumerate(symbols)}
    table = np.zeros((max(len(working), 1), len(symbols), 3), dtype=np.int32)
    for q in working:
        for a in symbols:
            target, symbol, move = rows[q][a]
            table[number[q], code[a]] = number[target], code[symbol], move
    return table
