"""Turing machines with several two-way tapes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from kleene.common.alphabet import Word, check_alphabet, encode
from kleene.common.decision import Answer, Decision, trimmed
from kleene.errors import FileError, InputError
from kleene.files import as_path, read_text
from kleene.machines.turing import check_steps

MAX_CASES = 5_000_000


@dataclass(frozen=True)
class Rule:
    """A rule for states in `states` and tapes that show `reads` (None: anything). It goes to `target`, writes `write`
    (None: leave the symbol), and moves each head by −1, 0 or +1."""

    states: frozenset[str]
    reads: tuple[frozenset[str] | None, ...]
    target: str
    writes: tuple[str | None, ...]
    moves: tuple[int, ...]


def rule(
    state: str | Sequence[str],
    reads: Sequence[str | Sequence[str] | None],
    target: str,
    writes: Sequence[str | None],
    moves: Sequence[int],
) -> Rule:
    """A `Rule` from plain parts; a string is one state or one symbol."""

    def some(part: str | Sequence[str] | None) -> frozenset[str] | None:
        return None if part is None else frozenset([part] if isinstance(part, str) else part)

    states = some(state)
    assert states is not None
    return Rule(states, tuple(map(some, reads)), target, tuple(writes), tuple(moves))


class Tape(NamedTuple):
    """Cells left of the head (nearest first), the symbol under it, cells to the right (nearest first)."""

    left: tuple[str, ...]
    symbol: str
    right: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class MultiTapeMachine:
    """The input is on the first tape; `contents` is what the other tapes hold at first, from the head on.

    Exactly one rule must fit each state that does not halt and each combination of symbols under the heads.
    """

    symbols: tuple[tuple[str, ...], ...]  # of each tape, the blank first
    input_alphabet: tuple[str, ...]
    rules: tuple[Rule, ...]
    start: str
    accept: frozenset[str]
    reject: frozenset[str] = frozenset()
    contents: tuple[Word, ...] = ()
    name: str = "machine with several tapes"
    working: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        working = tuple(dict.fromkeys(s for r in self.rules for s in sorted(r.states)))
        object.__setattr__(self, "working", working)
        halting = self.accept | self.reject
        if self.start not in working and self.start not in halting:
            raise InputError(f"{self.name}: start state {self.start!r} has no rules and does not halt")
        if both := self.accept & self.reject:
            raise InputError(f"{self.name}: state {min(both)!r} cannot both accept and reject")
        self._check_tapes()
        cases = len(working)
        for symbols in self.symbols:
            cases *= len(symbols)
        if cases * max(len(self.rules), 1) > MAX_CASES:
            raise InputError(
                f"{self.name}: {cases:,} cases of state and symbols with {len(self.rules)} rules are too many"
            )
        for number, r in enumerate(self.rules):
            if (
                len(r.reads) != len(self.symbols)
                or len(r.writes) != len(self.symbols)
                or len(r.moves) != len(self.symbols)
            ):
                raise InputError(f"{self.name}: rule {number} must read, write and move on {len(self.symbols)} tapes")
            if (r.target not in working and r.target not in halting) or r.states & halting:
                raise InputError(f"{self.name}: rule {number} leads to an unknown state or out of one that halts")
            self._check_rule(number, r)
        for case in product(working, *self.symbols):
            fitting = [r for r in self.rules if _fits(r, case[0], case[1:])]
            if len(fitting) != 1:
                raise InputError(
                    f"{self.name}: state {case[0]!r} on {case[1:]} has {len(fitting)} rules; it needs exactly one"
                )

    def _check_tapes(self) -> None:
        """Check each tape's symbols, the input's symbols, and the contents of the other tapes."""
        if not self.symbols:
            raise InputError(f"{self.name}: no tapes; the first holds the input")
        for symbols in self.symbols:
            check_alphabet(symbols)
        if self.input_alphabet:
            check_alphabet(self.input_alphabet)
        for symbol in self.input_alphabet:
            if symbol not in self.symbols[0][1:]:
                raise InputError(
                    f"{self.name}: input symbol {symbol!r} must be a symbol of the first tape, and not the blank"
                )
        if len(self.contents) >= len(self.symbols):
            raise InputError(
                f"{self.name}: contents for {len(self.contents)} tapes; without the input tape there are "
                f"{len(self.symbols) - 1}"
            )
        for tape, (held, symbols) in enumerate(zip(self.contents, self.symbols[1:]), 1):
            if unknown := [s for s in held if s not in symbols]:
                raise InputError(f"{self.name}: tape {tape} holds {unknown[0]!r}, which is not one of its symbols")

    def _check_rule(self, number: int, r: Rule) -> None:
        """Check a rule's symbols and moves."""
        for tape, (read, write, move) in enumerate(zip(r.reads, r.writes, r.moves)):
            used = [*sorted(read or ()), *([] if write is None else [write])]
            if unknown := [s for s in used if s not in self.symbols[tape]]:
                raise InputError(f"{self.name}: rule {number} has {unknown[0]!r}, which is not a symbol of tape {tape}")
            if move not in (-1, 0, 1):
                raise InputError(f"{self.name}: rule {number} moves {move!r}; it should be -1, 0 or 1")

    @classmethod
    def load(cls, path: str | Path) -> MultiTapeMachine:
        """Read a JFLAP file of a machine with several tapes (`.jff`)."""
        from kleene.machines.turing_jflap import multitape_from_jflap

        path = as_path(path)
        if path.suffix not in (".jff", ".jflap"):
            raise FileError(f"{path}: unknown suffix {path.suffix!r}; machines with several tapes are read from .jff")
        return multitape_from_jflap(read_text(path), str(path))

    def to_json(self) -> dict[str, Any]:
        """Convert to plain data; `from_json` reads it."""
        return {
            "symbols": [list(symbols) for symbols in self.symbols],
            "input_alphabet": list(self.input_alphabet),
            "rules": [
                [
                    sorted(r.states),
                    [None if read is None else sorted(read) for read in r.reads],
                    r.target,
                    list(r.writes),
                    list(r.moves),
                ]
                for r in self.rules
            ],
            "start": self.start,
            "accept": sorted(self.accept),
            "reject": sorted(self.reject),
            "contents": [list(held) for held in self.contents],
            "name": self.name,
        }

    @classmethod
    def from_json(cls, data: Any, where: str = "machine with several tapes") -> MultiTapeMachine:
        """Rebuild a machine from its `to_json`."""
        try:
            made = [
                Rule(
                    frozenset(map(_symbol, states)),
                    tuple(None if read is None else frozenset(map(_symbol, read)) for read in reads),
                    _symbol(target),
                    tuple(None if write is None else _symbol(write) for write in writes),
                    tuple(moves),
                )
                for states, reads, target, writes, moves in data["rules"]
            ]
            return cls(
                tuple(tuple(map(_symbol, symbols)) for symbols in data["symbols"]),
                tuple(map(_symbol, data["input_alphabet"])),
                tuple(made),
                _symbol(data["start"]),
                frozenset(map(_symbol, data["accept"])),
                frozenset(map(_symbol, data["reject"])),
                tuple(tuple(map(_symbol, held)) for held in data["contents"]),
                _symbol(data["name"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{where}: not a machine with several tapes ({error!r})") from None

    def answer(self, state: str) -> Answer:
        """The answer that a state gives: "accept", "reject", or None to go on."""
        return "accept" if state in self.accept else "reject" if state in self.reject else None

    def configurations(self, word: Word = "") -> Iterator[tuple[str, tuple[Tape, ...]]]:
        """Yield every configuration from the first on."""
        encode(word, {s: i for i, s in enumerate(self.input_alphabet)})
        contents = [word, *self.contents, *[()] * (len(self.symbols) - 1 - len(self.contents))]
        blanks = [symbols[0] for symbols in self.symbols]
        tapes = [Tape((), text[0] if text else blank, tuple(text[1:])) for text, blank in zip(contents, blanks)]
        state = self.start
        while True:
            yield state, tuple(tapes)
            if self.answer(state):
                return
            shown = tuple(tape.symbol for tape in tapes)
            r = next(r for r in self.rules if _fits(r, state, shown))
            state = r.target
            tapes = [_move(t, w, m, blank) for t, w, m, blank in zip(tapes, r.writes, r.moves, blanks)]

    def run(self, word: Word = "", *, max_steps: int = 10**6) -> Decision:
        """Simulate the machine. The decision holds the first tape."""
        check_steps(self.name, max_steps)
        steps, (state, tapes) = next(
            (steps, now)
            for steps, now in enumerate(self.configurations(word))
            if steps == max_steps or self.answer(now[0])
        )
        text, head = trimmed(*tapes[0], self.symbols[0][0], True)
        return Decision(self.answer(state), steps, state, text, head)


def _symbol(text: Any) -> str:
    if not isinstance(text, str):
        raise TypeError(f"{text!r} is not text")
    return text


def _fits(r: Rule, state: str, shown: Sequence[str]) -> bool:
    return state in r.states and all(want is None or s in want for want, s in zip(r.reads, shown))


def _move(tape: Tape, write: str | None, move: int, blank: str) -> Tape:
    left, symbol, right = tape
    symbol = symbol if write is None else write
    if move > 0:
        return Tape((symbol, *left), right[0] if right else blank, right[1:])
    if move < 0:
        return Tape(left[1:], left[0] if left else blank, (symbol, *right))
    return Tape(left, symbol, right)
