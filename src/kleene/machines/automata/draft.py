"""An automaton as a file describes it: states and moves with their places in the file.

At the end it becomes a DFA or an NFA.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from kleene.errors import FileError, InputError, KleeneWarning
from kleene.machines.automata.dfa import DFA, MAX_STATES, new_name
from kleene.machines.automata.nfa import EMPTY, NFA

Place = Callable[[], str]  # "line 3": computed only for an error message


@dataclass
class Draft:
    """States by name, moves by number. The symbol `""` marks an empty move."""

    where: str
    number: dict[str, int] = field(default_factory=dict)
    sources: list[int] = field(default_factory=list)
    symbols: list[str] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    final: list[int] = field(default_factory=list)
    alphabet: Sequence[str] | None = None  # by default the symbols of the moves
    move_place: Callable[[int], str] = lambda move: f"move {move + 1}"
    state_place: Callable[[int], str] | None = None

    def state(self, name: str) -> int:
        """The number of a state. A new name makes a new state."""
        if name not in self.number:
            if len(self.number) >= MAX_STATES:
                raise FileError(f"{self.where}: more than {MAX_STATES:,} states")
            self.number[name] = len(self.number)
        return self.number[name]

    def move(self, source: int, symbol: str, target: int) -> None:
        """Add a move on one symbol."""
        self.sources.append(source)
        self.symbols.append(symbol)
        self.targets.append(target)

    def read(self, source: int, word: Iterable[str], target: int) -> None:
        """Add moves that read a word, through new states."""
        letters = list(word) or [""]
        at = source
        for i, letter in enumerate(letters):
            after = target
            if i < len(letters) - 1:
                after = self.state(new_name(f"{len(self.number)}", self.number))
            self.move(at, letter, after)
            at = after

    def _arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[str, ...]]:
        symbols = tuple(self.alphabet if self.alphabet is not None else sorted({s for s in self.symbols if s}))
        if not symbols:
            raise FileError(f"{self.where}: no transitions, so no alphabet; give at least one")
        code = {"": EMPTY, **{s: i for i, s in enumerate(symbols)}}
        codes = np.array([code[s] for s in self.symbols], dtype=np.int32)
        return np.array(self.sources, dtype=np.int32), codes, np.array(self.targets, dtype=np.int32), symbols

    def nfa(self) -> NFA:
        """The automaton with all its moves."""
        sources, codes, targets, symbols = self._arrays()
        accepting = np.zeros(len(self.number), dtype=bool)
        accepting[self.final] = True
        names = tuple(self.number)
        base = NFA([], [], symbols, start=[], states=0)
        return NFA.from_arrays(
            base,
            sources=sources,
            codes=codes,
            targets=targets,
            accepting=accepting,
            start=np.array(self.starts, dtype=int),
            names=names,
        )

    def dfa(self) -> DFA:
        """The deterministic automaton. Missing moves lead to a new rejecting state, with a warning."""
        names = list(self.number)
        if len(self.starts) != 1:
            place = self._state_at(self.starts[1]) if self.starts else ""
            raise FileError(
                f"{self.where}{place}: {len(self.starts) or 'no'} start states; a DFA has one"
                f"{'; read several with kl.NFA.load' if self.starts else ''}"
            )
        if "" in self.symbols:
            move = self.symbols.index("")
            name = names[self.sources[move]]
            raise FileError(
                f"{self.where}, {self.move_place(move)}: an empty (ε) move from {name!r}; a DFA reads a symbol per "
                "move; read empty moves with kl.NFA.load"
            )
        sources, codes, targets, symbols = self._arrays()
        table = np.full((len(names), len(symbols)), -1, dtype=np.int32)
        table[sources, codes] = targets
        clash = np.flatnonzero(table[sources, codes] != targets)
        if clash.size:
            raise self._second_move(sources, codes, targets, symbols, names)
        accepting = np.zeros(len(names), dtype=bool)
        accepting[self.final] = True
        missing = table < 0
        if missing.any():
            table, accepting, names = self._with_sink(table, accepting, names, symbols)
        try:
            return DFA(table, accepting, symbols, self.starts[0], names)
        except InputError as error:
            raise FileError(f"{self.where}: {error}") from None

    def _state_at(self, state: int) -> str:
        return f", {self.state_place(state)}" if self.state_place is not None else ""

    def _second_move(
        self, sources: np.ndarray, codes: np.ndarray, targets: np.ndarray, symbols: tuple[str, ...], names: list[str]
    ) -> FileError:
        """The first move that differs from an earlier one of the same state and symbol."""
        seen: dict[tuple[int, int], int] = {}
        for move, (p, a, q) in enumerate(zip(sources.tolist(), codes.tolist(), targets.tolist())):
            if seen.setdefault((p, a), q) != q:
                return FileError(
                    f"{self.where}, {self.move_place(move)}: a second move from {names[p]!r} on {symbols[a]!r} (to "
                    f"{names[q]!r}, before to {names[seen[p, a]]!r}); a DFA has one; read several with kl.NFA.load"
                )
        raise AssertionError

    def _with_sink(
        self, table: np.ndarray, accepting: np.ndarray, names: list[str], symbols: tuple[str, ...]
    ) -> tuple[np.ndarray, np.ndarray, list[str]]:
        missing = table < 0
        state, code = (int(i) for i in np.argwhere(missing)[0])
        sink = new_name("sink", names)
        warnings.warn(
            f"{self.where}: {int(missing.sum()):,} moves are missing, the first from {names[state]!r} on "
            f"{symbols[code]!r}; they lead to a new rejecting state {sink!r}",
            KleeneWarning,
            stacklevel=2,
        )
        table = np.concatenate([np.where(missing, len(names), table), np.full((1, len(symbols)), len(names))])
        return table.astype(np.int32), np.append(accepting, False), [*names, sink]
