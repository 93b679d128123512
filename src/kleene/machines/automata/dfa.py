"""Deterministic finite automata on integer tables (Definition 4.3)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from kleene.common.alphabet import Word, check_alphabet, encode, encode_batch
from kleene.errors import InputError, NotSupported

MAX_STATES = 1_000_000


@dataclass(frozen=True, eq=False)
class DFA:
    """A deterministic finite automaton: δ(q, a) is table[q, a].

    >>> parity = DFA([[0, 1], [1, 0]], accepting=[1], alphabet="01")
    >>> parity.accepts("0110"), parity.accepts("10")
    (False, True)
    >>> (~parity).accepts("0110")
    True
    >>> parity.distinguish(~parity)
    ''
    """

    table: np.ndarray  # (state, symbol) → state
    accepting: np.ndarray  # (state,) → whether it is in F
    alphabet: tuple[str, ...]
    start: int = 0
    names: tuple[str, ...] | None = None
    index: dict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        alphabet = check_alphabet(self.alphabet)
        table = _numbers(self.table, "table", "iu")
        if table.ndim != 2 or table.shape[0] == 0 or table.shape[1] != len(alphabet):
            raise InputError(
                f"DFA: the table has shape {table.shape}; it needs one row a state and {len(alphabet)} columns"
            )
        states = table.shape[0]
        if int(table.min()) < 0 or int(table.max()) >= states:
            raise InputError(f"DFA: the table names states outside 0…{states - 1}")
        if isinstance(self.start, bool) or not isinstance(self.start, int | np.integer):
            raise InputError(f"DFA: start state {self.start!r} should be a whole number")
        if not 0 <= self.start < states:
            raise InputError(f"DFA: start state {self.start} is outside 0…{states - 1}")
        accepting = self._flags(states)
        if self.names is not None and len(self.names) != states:
            raise InputError(f"DFA: {len(self.names)} names for {states} states")
        for name in self.names or ():
            if not isinstance(name, str):
                raise InputError(f"DFA: state {name!r} is a {type(name).__name__}; a name is a string")
        table = table.astype(np.int32)
        table.flags.writeable = False
        for key, value in (
            ("table", table),
            ("accepting", accepting),
            ("alphabet", alphabet),
            ("start", int(self.start)),
        ):
            object.__setattr__(self, key, value)
        object.__setattr__(self, "index", {symbol: i for i, symbol in enumerate(alphabet)})

    def _flags(self, states: int) -> np.ndarray:
        """The accepting states as flags; they are given as flags or as numbers."""
        given = self.accepting
        given = list(given) if isinstance(given, Iterable) and not isinstance(given, np.ndarray) else given
        flags = _numbers(given, "accepting states", "biu")
        if flags.dtype != bool:
            chosen = flags
            if chosen.ndim != 1 or (chosen.size and (int(chosen.min()) < 0 or int(chosen.max()) >= states)):
                raise InputError(f"DFA: the accepting states are not all in 0…{states - 1}")
            flags = np.zeros(states, dtype=bool)
            flags[chosen] = True
        if flags.shape != (states,):
            raise InputError(f"DFA: {flags.size} accepting flags for {states} states")
        return flags

    @classmethod
    def build(
        cls,
        start: str,
        accepting: Iterable[str],
        transitions: Mapping[str, Mapping[str, str]],
        alphabet: Iterable[str] | None = None,
    ) -> DFA:
        """From named states: `DFA.build("even", ["odd"], {"even": {"0": "even", "1": "odd"}, …})`."""
        names, accepting = list(transitions), list(accepting)
        number = {name: i for i, name in enumerate(names)}
        symbols = tuple(alphabet or dict.fromkeys(s for row in transitions.values() for s in row))
        for name in names:
            if not isinstance(name, str):
                raise InputError(f"DFA: state {name!r} is a {type(name).__name__}; a name is a string")
        for name in (start, *accepting):
            if name not in number:
                raise InputError(f"DFA: state {name!r} has no row of transitions")
        table = np.zeros((len(names), len(symbols)), dtype=np.int32)
        for name, row in transitions.items():
            for a, symbol in enumerate(symbols):
                if symbol not in row:
                    raise InputError(f"DFA: state {name!r} has no transition for {symbol!r}; it needs one a symbol")
                if row[symbol] not in number:
                    raise InputError(f"DFA: state {name!r} goes to {row[symbol]!r}, which has no row")
                table[number[name], a] = number[row[symbol]]
            for symbol in row:
                if symbol not in symbols:
                    raise InputError(f"DFA: state {name!r} reads {symbol!r}, which is not in the alphabet")
        return cls(table, np.array([number[f] for f in accepting], dtype=int), symbols, number[start], tuple(names))

    def __len__(self) -> int:
        return int(self.table.shape[0])

    def __str__(self) -> str:
        shown = ", ".join(self.alphabet) if len(self.alphabet) <= 12 else f"{len(self.alphabet)} symbols"
        lines = [f"DFA: {len(self)} states over {{{shown}}}, {int(self.accepting.sum())} accepting"]
        for q in range(min(len(self), 20)):
            moves = "  ".join(f"{s}→{self.name(int(r))}" for s, r in zip(self.alphabet[:12], self.table[q]))
            mark = ("→" if q == self.start else " ") + ("*" if self.accepting[q] else " ")
            lines.append(f"{mark} {self.name(q)}: {moves}{' …' if len(self.alphabet) > 12 else ''}")
        return "\n".join(lines + (["  …"] if len(self) > 20 else []))

    def name(self, state: int) -> str:
        """A state's name; `q3` where it has none."""
        return self.names[state] if self.names else f"q{state}"

    # Running

    def run(self, word: Word) -> int:
        """The state after the word."""
        return self.path(word)[-1]

    def path(self, word: Word) -> list[int]:
        """The states passed, the start state first."""
        states = [self.start]
        for code in encode(word, self.index):
            states.append(int(self.table[states[-1], code]))
        return states

    def accepts(self, word: Word) -> bool:
        """Whether the word is in the language."""
        return bool(self.accepting[self.run(word)])

    def run_batch(self, words: Sequence[Word]) -> np.ndarray:
        """The state after each word."""
        from kleene.machines.automata.kernels import run_batch

        return run_batch(self.table, self.start, *encode_batch(words, self.alphabet))

    def accepts_batch(self, words: Sequence[Word]) -> np.ndarray:
        """Whether each word is in the language."""
        accepted: np.ndarray = self.accepting[self.run_batch(words)]
        return accepted

    # Operations

    def complement(self) -> DFA:
        """The automaton of all other words over the alphabet."""
        return DFA(self.table, ~self.accepting, self.alphabet, self.start, self.names)

    def product(self, other: DFA, accept: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> DFA:
        """Both at once, on the pairs of states that can be reached; `accept` joins the two answers."""
        right = other._in_order_of(self)
        pairs: dict[tuple[int, int], int] = {(self.start, right.start): 0}
        queue, rows = [(self.start, right.start)], []
        mine, theirs = self.table.tolist(), right.table.tolist()
        for p, q in queue:
            row = []
            for pair in zip(mine[p], theirs[q]):
                if pair not in pairs:
                    if len(pairs) >= MAX_STATES:
                        raise NotSupported(f"product: more than {MAX_STATES:,} states")
                    pairs[pair] = len(pairs)
                    queue.append(pair)
                row.append(pairs[pair])
            rows.append(row)
        left_states, right_states = np.array(queue).T
        accepting = accept(self.accepting[left_states], right.accepting[right_states])
        return DFA(np.array(rows), np.asarray(accepting, dtype=bool), self.alphabet)

    def __and__(self, other: DFA) -> DFA:
        return self.product(other, operator.and_)

    def __or__(self, other: DFA) -> DFA:
        return self.product(other, operator.or_)

    def __xor__(self, other: DFA) -> DFA:
        return self.product(other, operator.xor)

    def __sub__(self, other: DFA) -> DFA:
        return self.product(other, lambda mine, theirs: mine & ~theirs)

    __invert__ = complement

    def minimise(self) -> DFA:
        """The smallest automaton of the language (Hopcroft), numbered breadth-first from the start.

        Two automata of one language over one alphabet become the same table.
        """
        from kleene.machines.automata.kernels import breadth_first, hopcroft

        here = self.reachable()
        classes = hopcroft(here.table, here.accepting)
        states = np.empty(int(classes.max()) + 1, dtype=np.int32)
        states[classes] = np.arange(len(here))  # one state of each class
        quotient = classes[here.table[states]]
        order = breadth_first(quotient, int(classes[here.start]))
        number = np.empty_like(order)
        number[order] = np.arange(len(order))
        return DFA(number[quotient[order]], here.accepting[states][order], self.alphabet)

    def reachable(self) -> DFA:
        """Without the states that no word reaches; numbered breadth-first from the start."""
        from kleene.machines.automata.kernels import breadth_first

        return self.renumbered(breadth_first(self.table, self.start))

    def renumbered(self, order: np.ndarray) -> DFA:
        """With state order[i] called i; `order` must hold every state that it leads to."""
        number = np.full(len(self), -1, dtype=np.int32)
        number[order] = np.arange(len(order))
        names = tuple(self.names[q] for q in order) if self.names else None
        return DFA(number[self.table[order]], self.accepting[order], self.alphabet, int(number[self.start]), names)

    def reverse(self, limit: int = 100_000) -> DFA:
        """The minimal automaton of the reversed words (subset construction); refused above `limit` states."""
        states, symbols = self.table.shape
        before = [[0] * states for _ in range(symbols)]  # states as bits of an integer
        for p in range(states):
            for a in range(symbols):
                before[a][int(self.table[p, a])] |= 1 << p
        first = sum(1 << int(q) for q in np.flatnonzero(self.accepting))
        number, queue, rows = {first: 0}, [first], []
        for subset in queue:
            row = []
            for a in range(symbols):
                target, rest = 0, subset
                while rest:
                    low = rest & -rest
                    target |= before[a][low.bit_length() - 1]
                    rest ^= low
                if target not in number:
                    if len(number) >= limit:
                        raise NotSupported(f"reverse: more than {limit:,} states; raise limit=")
                    number[target] = len(number)
                    queue.append(target)
                row.append(number[target])
            rows.append(row)
        accepting = np.array([bool(subset >> self.start & 1) for subset in queue])
        return DFA(np.array(rows), accepting, self.alphabet).minimise()

    # Comparing

    def distinguish(self, other: DFA) -> Word | None:
        """A shortest word that one accepts and the other does not (Hopcroft–Karp); None if there is none."""
        from kleene.machines.automata.kernels import hopcroft_karp

        right = other._in_order_of(self)
        at, came_from, by = hopcroft_karp(
            self.table, self.accepting, self.start, right.table, right.accepting, right.start
        )
        if at < 0:
            return None
        symbols = []
        while came_from[at] >= 0:
            symbols.append(self.alphabet[by[at]])
            at = came_from[at]
        symbols.reverse()
        return "".join(symbols) if all(len(s) == 1 for s in self.alphabet) else symbols

    def equivalent(self, other: DFA) -> bool:
        """Whether both accept the same words."""
        return self.distinguish(other) is None

    def _in_order_of(self, other: DFA) -> DFA:
        """The same automaton with its symbols in the other's order."""
        if self.alphabet == other.alphabet:
            return self
        if set(self.alphabet) != set(other.alphabet):
            extra = sorted(set(self.alphabet) ^ set(other.alphabet))
            raise InputError(f"DFA: the two alphabets differ in {', '.join(map(repr, extra[:5]))}; they must be equal")
        columns = [self.index[symbol] for symbol in other.alphabet]
        return DFA(self.table[:, columns], self.accepting, other.alphabet, self.start, self.names)

    # Files and pictures

    def to_json(self) -> dict[str, object]:
        """Plain data that `DFA.from_json` reads again."""
        from kleene.machines.automata.files import to_json

        return to_json(self)

    @classmethod
    def from_json(cls, data: object, where: str = "DFA") -> DFA:
        """From what `to_json` gave."""
        from kleene.machines.automata.files import from_json

        return from_json(data, where)

    def save(self, path: str | Path) -> None:
        """Write a file: `.json`, `.jff` (JFLAP), `.att` or `.fst` (AT&T), `.dot`, or a picture `.png`,
        `.svg`, `.pdf`."""
        from kleene.machines.automata.files import save

        save(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> DFA:
        """Read a file: `.json`, `.jff` (JFLAP), `.att` or `.fst` (AT&T)."""
        from kleene.machines.automata.files import load

        return load(Path(path))

    def _repr_png_(self) -> bytes | None:
        """The picture that notebooks show."""
        from kleene.show.automata import png

        return png(self)

    def to_dot(self) -> str:
        """The automaton in Graphviz's language."""
        from kleene.show.automata import to_dot

        return to_dot(self)


def _numbers(values: object, what: str, kinds: str) -> np.ndarray:
    """An array of whole numbers (or flags, where `kinds` has b); nothing is rounded."""
    try:
        found = np.asarray(values)
    except ValueError:
        raise InputError(f"DFA, {what}: rows of different lengths; it should be one table of whole numbers") from None
    if found.size == 0:
        return found.astype(np.int64)
    if found.dtype.kind not in kinds:
        raise InputError(f"DFA, {what}: {found.tolist()!r:.60} should be whole numbers, counted from 0")
    return found
