"""Nondeterministic finite automata with empty moves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from kleene.common.alphabet import Word, check_alphabet, encode
from kleene.errors import InputError, NotSupported, a_type, counted
from kleene.machines.automata.dfa import DFA

EMPTY = -1  # the code of an empty move
MAX_WORK = 400_000_000  # the most moves that one subset construction follows, in a few seconds


@dataclass(frozen=True, eq=False, init=False)
class NFA:
    """A nondeterministic automaton. A move on `""` is empty: it reads nothing.

    >>> ends = NFA([(0, "a", 0), (0, "b", 0), (0, "a", 1), (1, "b", 2)], accepting=[2], alphabet="ab")
    >>> ends.accepts("abab"), ends.accepts("aba"), len(ends.determinise())
    (True, False, 3)
    """

    sources: np.ndarray  # (move,) → state
    codes: np.ndarray  # (move,) → index of the symbol in the alphabet, or EMPTY
    targets: np.ndarray  # (move,) → state
    accepting: np.ndarray  # (state,) → whether it is in F
    alphabet: tuple[str, ...]
    start: tuple[int, ...]
    names: tuple[str, ...] | None

    def __init__(
        self,
        transitions: Iterable[tuple[int, str, int]],
        accepting: Iterable[int],
        alphabet: Iterable[str],
        start: int | Iterable[int] = 0,
        states: int | None = None,
        names: Iterable[str] | None = None,
    ) -> None:
        """Check the parts.

        transitions: (state, symbol, state); the symbol "" is an empty move
        accepting: the numbers of the accepting states
        alphabet: the symbols, each once
        start: one start state or several
        states: the number of states; by default as many as the other parts name
        names: the names of the states
        """
        symbols = check_alphabet(alphabet)
        code = {"": EMPTY, **{s: i for i, s in enumerate(symbols)}}
        moves = []
        for move in transitions:
            if not isinstance(move, tuple | list) or len(move) != 3:
                raise InputError(f"NFA: {move!r:.60} should be (state, symbol, state)")
            if move[1] not in code:
                raise InputError(f"NFA: {move!r:.60} reads {move[1]!r}, which is not in the alphabet")
            moves.append((move[0], code[move[1]], move[2]))
        table = _whole(moves, "transitions").reshape(-1, 3)
        final = _whole(list(accepting), "accepting states")
        begins = _whole([start] if isinstance(start, int | np.integer) else list(start), "start states")
        listed = None if names is None else tuple(names)
        named = 1 + max([-1, *(int(part.max()) for part in (table[:, 0], table[:, 2], final, begins) if part.size)])
        count = max(named, len(listed or ())) if states is None else states
        for part, what in ((table[:, [0, 2]], "a transition"), (final, "accepting"), (begins, "start")):
            if part.size and (int(part.min()) < 0 or int(part.max()) >= count):
                raise InputError(f"NFA: {what} names a state outside 0…{count - 1}")
        if listed is not None and len(listed) != count:
            raise InputError(f"NFA: {counted(len(listed), 'name')} for {counted(count, 'state')}")
        flags = np.zeros(count, dtype=bool)
        flags[final] = True
        self._set(table[:, 0], table[:, 1], table[:, 2], flags, symbols, begins, listed)

    def _set(
        self,
        sources: np.ndarray,
        codes: np.ndarray,
        targets: np.ndarray,
        accepting: np.ndarray,
        alphabet: tuple[str, ...],
        start: np.ndarray,
        names: tuple[str, ...] | None,
    ) -> None:
        for key, value in (
            ("sources", np.asarray(sources, dtype=np.int32)),
            ("codes", np.asarray(codes, dtype=np.int32)),
            ("targets", np.asarray(targets, dtype=np.int32)),
            ("accepting", accepting),
            ("alphabet", alphabet),
            ("start", tuple(np.unique(start).tolist())),
            ("names", names),
        ):
            object.__setattr__(self, key, value)

    @classmethod
    def from_arrays(cls, like: NFA, **parts: Any) -> NFA:
        """The same automaton with some parts replaced. The parts are not checked."""
        made = object.__new__(NFA)
        given = {k: getattr(like, k) for k in ("sources", "codes", "targets", "accepting", "alphabet", "start")}
        names = parts.pop("names", like.names)
        made._set(**{**given, **parts}, names=names)
        return made

    @classmethod
    def of(cls, dfa: DFA) -> NFA:
        """Convert a deterministic automaton to a nondeterministic one without dead states."""
        from kleene.machines.automata.operations import alive

        living = alive(dfa)
        sources, codes = np.nonzero(living[dfa.table] & living[:, None])
        made = object.__new__(NFA)
        start = np.array([dfa.start])
        made._set(sources, codes, dfa.table[sources, codes], dfa.accepting, dfa.alphabet, start, dfa.names)
        return made

    def __len__(self) -> int:
        return len(self.accepting)

    def name(self, state: int) -> str:
        """A state's name; `q3` where it has none."""
        return self.names[state] if self.names else f"q{state}"

    def transitions(self) -> list[tuple[int, str, int]]:
        """Every move as (state, symbol, state)."""
        symbols = (*self.alphabet, "")  # EMPTY is the last one
        return [
            (p, symbols[a], q) for p, a, q in zip(self.sources.tolist(), self.codes.tolist(), self.targets.tolist())
        ]

    def __str__(self) -> str:
        lines = [
            f"NFA: {counted(len(self), 'state')} over {{{', '.join(self.alphabet[:12])}}}, {len(self.sources)} moves"
        ]
        rows: dict[int, list[str]] = {}
        for p, symbol, q in self.transitions()[:200]:
            rows.setdefault(p, []).append(f"{symbol or 'ε'}→{self.name(q)}")
        for q in range(min(len(self), 20)):
            mark = ("→" if q in self.start else " ") + ("*" if self.accepting[q] else " ")
            lines.append(f"{mark} {self.name(q)}: {'  '.join(rows.get(q, []))}")
        return "\n".join(lines + (["  …"] if len(self) > 20 else []))

    # Running

    @cached_property
    def index(self) -> dict[str, int]:
        """Each symbol's place in the alphabet."""
        return {symbol: i for i, symbol in enumerate(self.alphabet)}

    @cached_property
    def _moves(self) -> dict[int, dict[int, list[int]]]:
        """code → state → states"""
        found: dict[int, dict[int, list[int]]] = {code: {} for code in range(-1, len(self.alphabet))}
        for p, a, q in zip(self.sources.tolist(), self.codes.tolist(), self.targets.tolist()):
            found[a].setdefault(p, []).append(q)
        return found

    def closure(self, states: Iterable[int]) -> frozenset[int]:
        """The states and all that empty moves reach from them."""
        seen = set(states)
        stack = list(seen)
        empty = self._moves[EMPTY]
        while stack:
            for q in empty.get(stack.pop(), ()):
                if q not in seen:
                    seen.add(q)
                    stack.append(q)
        return frozenset(seen)

    def step(self, states: Iterable[int], code: int) -> frozenset[int]:
        """The states after one more symbol, empty moves included."""
        moves = self._moves[code]
        return self.closure(q for p in states for q in moves.get(p, ()))

    def path(self, word: Word) -> list[frozenset[int]]:
        """The sets of states that the word passes, the start first."""
        sets = [self.closure(self.start)]
        for code in encode(word, self.index):
            sets.append(self.step(sets[-1], code))
        return sets

    def accepts(self, word: Word) -> bool:
        """Whether the word is in the language."""
        return any(self.accepting[q] for q in self.path(word)[-1])

    def accepts_batch(self, words: Sequence[Word]) -> np.ndarray:
        """Whether each word is in the language."""
        if isinstance(words, str):
            raise InputError(f"words {words!r:.60}: one word; give a list of words")
        return np.array([self.accepts(word) for word in words], dtype=bool)

    def __contains__(self, word: Word) -> bool:
        return all(s in self.index for s in word) and self.accepts(word)

    # Operations

    def determinise(self, limit: int = 1_000_000, work: int = MAX_WORK) -> DFA:
        """The deterministic automaton on sets of states (subset construction).

        Raise `NotSupported` above `limit` sets or `work` moves. States are named by their sets if these
        are small.
        """
        from kleene.machines.automata import kernels

        count, table, offsets, members = self.subsets(limit, work)
        if count == kernels.TOO_MANY_STATES:
            raise NotSupported(f"determinise: more than {limit:,} states; raise limit=")
        if count == kernels.TOO_MUCH_WORK:
            raise NotSupported(f"determinise: more than {work:,} moves; raise work=")
        hits = np.concatenate([[0], np.cumsum(self.accepting[members])])
        accepting = hits[offsets[1:]] > hits[offsets[:-1]]
        return DFA(table.reshape(count, -1), accepting, self.alphabet)

    def subsets(self, limit: int, work: int) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
        """The result of `kernels.subset_construction` for this automaton."""
        from kleene.machines.automata import kernels

        reading = self.codes != EMPTY
        starts, targets = grouped(
            self.sources[reading].astype(np.int64) * len(self.alphabet) + self.codes[reading],
            self.targets[reading],
            len(self) * len(self.alphabet),
        )
        empty_starts, empty = grouped(self.sources[~reading], self.targets[~reading], len(self))
        keep = self.accepting.copy()
        keep[self.sources[reading]] = True
        none = np.zeros(0, dtype=np.int32)
        return kernels.subset_construction(
            np.array(self.start, dtype=np.int32),
            len(self.alphabet),
            starts,
            targets,
            empty_starts,
            empty,
            keep,
            np.zeros(len(self) + 1, dtype=np.int64),
            none,
            none,
            limit,
            work,
        )

    def minimise(self) -> DFA:
        """The minimal deterministic automaton."""
        return self.determinise().minimise()

    def reverse(self) -> NFA:
        """The automaton of the reversed words: every move the other way."""
        accepting = np.zeros(len(self), dtype=bool)
        accepting[list(self.start)] = True
        start = np.flatnonzero(self.accepting)
        return NFA.from_arrays(self, sources=self.targets, targets=self.sources, accepting=accepting, start=start)

    def _beside(self, other: NFA) -> tuple[NFA, tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """The alphabet and moves of both, with the other's states numbered after this automaton's."""
        if not isinstance(other, NFA):
            raise InputError(f"{other!r:.60}: {a_type(other)}; give an NFA")
        symbols = tuple(dict.fromkeys((*self.alphabet, *other.alphabet)))
        number = np.array([*(symbols.index(s) for s in other.alphabet), EMPTY])
        wide = NFA.from_arrays(self, alphabet=symbols, names=None)
        moves = (other.sources + len(self), number[other.codes], other.targets + len(self))
        return wide, moves

    def union(self, other: NFA) -> NFA:
        """The words of either automaton."""
        wide, (sources, codes, targets) = self._beside(other)
        return NFA.from_arrays(
            wide,
            sources=np.concatenate([self.sources, sources]),
            codes=np.concatenate([self.codes, codes]),
            targets=np.concatenate([self.targets, targets]),
            accepting=np.concatenate([self.accepting, other.accepting]),
            start=np.array([*self.start, *(q + len(self) for q in other.start)]),
        )

    __or__ = union

    def concatenate(self, other: NFA) -> NFA:
        """The words u·v: empty moves lead from this automaton's accepting states to the other's start."""
        wide, (sources, codes, targets) = self._beside(other)
        ends, begins = np.flatnonzero(self.accepting), np.array(other.start, dtype=np.int32) + len(self)
        joints = np.repeat(ends, len(begins)), np.tile(begins, len(ends))
        return NFA.from_arrays(
            wide,
            sources=np.concatenate([self.sources, sources, joints[0]]),
            codes=np.concatenate([self.codes, codes, np.full(len(joints[0]), EMPTY)]),
            targets=np.concatenate([self.targets, targets, joints[1]]),
            accepting=np.concatenate([np.zeros(len(self), dtype=bool), other.accepting]),
            start=np.array(self.start),
        )

    __add__ = concatenate

    def star(self) -> NFA:
        """The words u₁·…·uₙ: a new start that accepts, and empty moves back to it."""
        new = len(self)
        ends = np.flatnonzero(self.accepting)
        sources = np.concatenate([self.sources, np.full(len(self.start), new), ends])
        targets = np.concatenate([self.targets, np.array(self.start, dtype=int), np.full(len(ends), new)])
        codes = np.concatenate([self.codes, np.full(len(sources) - len(self.codes), EMPTY)])
        accepting = np.zeros(new + 1, dtype=bool)
        accepting[new] = True
        return NFA.from_arrays(
            self, sources=sources, codes=codes, targets=targets, accepting=accepting, start=np.array([new]), names=None
        )

    def without_empty_moves(self) -> NFA:
        """The same language and states, without empty moves."""
        moves, final = [], []
        reading = [(c, m) for c, m in self._moves.items() if c != EMPTY]
        for q in range(len(self)):
            reach = self.closure([q])
            if any(self.accepting[r] for r in reach):
                final.append(q)
            for code, by_state in reading:
                symbol = self.alphabet[code]
                moves += [(q, symbol, t) for t in sorted({t for r in reach for t in by_state.get(r, ())})]
        return NFA(moves, final, self.alphabet, self.start, len(self), self.names)

    def to_regex(self, *, limit: int = 1_000_000) -> str:
        """A regular expression of the language."""
        return self.determinise().to_regex(limit=limit)

    # Files and pictures

    def to_json(self) -> dict[str, object]:
        """Convert to plain data; `NFA.load` reads it."""
        from kleene.machines.automata.files import nfa_to_json

        return nfa_to_json(self)

    def save(self, path: str | Path) -> None:
        """Write a file: `.json`, `.jff`, `.att`, `.mata`, `.ba`, `.dot`, or a picture."""
        from kleene.machines.automata.files import save

        save(self, path)

    @classmethod
    def load(cls, path: str | Path) -> NFA:
        """Read a file of a finite automaton, deterministic or not, in any format that `DFA.load` reads."""
        from kleene.machines.automata.files import load_nfa

        return load_nfa(path)

    def to_dot(self) -> str:
        """The automaton in Graphviz's language."""
        from kleene.show.automata import nfa_to_dot

        return nfa_to_dot(self)

    def _repr_png_(self) -> bytes | None:
        """The picture that notebooks show."""
        from kleene.show.automata import png

        return png(self)


def grouped(keys: np.ndarray, values: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Values sorted by key: key k has values[starts[k]:starts[k + 1]]."""
    order = np.argsort(keys, kind="stable")
    starts = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(keys, minlength=count), out=starts[1:])
    return starts, np.ascontiguousarray(values[order], dtype=np.int32)


def _whole(values: list[Any], what: str) -> np.ndarray:
    if not values:
        return np.zeros(0, dtype=np.int64)
    found = np.asarray(values)
    if found.dtype.kind not in "iu":
        raise InputError(f"NFA, {what}: {values!r:.60} should be whole numbers, counted from 0")
    return found
