"""Deterministic finite automata on integer tables (Definition 4.3)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from kleene.common.alphabet import Word, check_alphabet, encode, encode_batch
from kleene.errors import InputError, NotSupported, a_type, counted

if TYPE_CHECKING:
    from kleene.machines.automata.classes import Classes, Verdict
    from kleene.machines.automata.language import Language
    from kleene.machines.automata.monoid import Monoid

MAX_STATES = 20_000_000
LINKED_CELLS = 200_000  # single words run on dictionaries if the table is no larger
LONG_WORD = 400  # the kernel runs words of this length and more


@dataclass(frozen=True, eq=False, init=False)
class DFA:
    """A deterministic finite automaton: δ(q, a) is table[q, a].

    `len(dfa)` is its number of states; `dfa.language` is the set of its words.

    >>> parity = DFA([[0, 1], [1, 0]], accepting=[1], alphabet="01")
    >>> parity.accepts("0110"), "10" in parity
    (False, True)
    >>> ~parity == DFA([[0, 1], [1, 0]], accepting=[0], alphabet="01")
    True
    >>> parity.distinguish(~parity)
    ''
    """

    table: np.ndarray  # (state, symbol) → state
    accepting: np.ndarray  # (state,) → whether it is in F
    alphabet: tuple[str, ...]
    start: int
    names: tuple[str, ...] | None

    def __init__(
        self,
        table: ArrayLike,
        accepting: ArrayLike | Iterable[int],
        alphabet: Iterable[str],
        start: int = 0,
        names: Iterable[str] | None = None,
    ) -> None:
        """Check the parts.

        table: one row per state and one column per symbol; each entry is a state
        accepting: the numbers of the accepting states, or one flag per state
        alphabet: the symbols, each once
        start: the start state's number
        names: the states' names
        """
        symbols = check_alphabet(alphabet)
        rows = _numbers(table, "table", "iu")
        if rows.ndim != 2 or rows.shape[0] == 0 or rows.shape[1] != len(symbols):
            raise InputError(
                f"DFA: the table has shape {rows.shape}; it needs one row per state and {len(symbols)} columns"
            )
        states = rows.shape[0]
        if int(rows.min()) < 0 or int(rows.max()) >= states:
            raise InputError(f"DFA: the table names states outside 0…{states - 1}")
        if isinstance(start, bool) or not isinstance(start, int | np.integer):
            raise InputError(f"DFA: start state {start!r} should be a whole number")
        if not 0 <= start < states:
            raise InputError(f"DFA: start state {start} is outside 0…{states - 1}")
        rows = rows.astype(np.int32)
        rows.flags.writeable = False
        for key, value in (
            ("table", rows),
            ("accepting", _flags(accepting, states)),
            ("alphabet", symbols),
            ("start", int(start)),
            ("names", _checked_names(names, states)),
        ):
            object.__setattr__(self, key, value)

    @classmethod
    def build(
        cls,
        start: str,
        accepting: Iterable[str],
        transitions: Mapping[str, Mapping[str, str]],
        alphabet: Iterable[str] | None = None,
    ) -> DFA:
        """Build a DFA from named states: `DFA.build("even", ["odd"], {"even": {"0": "even", "1": "odd"}, …})`."""
        names, accepting = list(transitions), list(accepting)
        number = {name: i for i, name in enumerate(names)}
        symbols = tuple(alphabet or dict.fromkeys(s for row in transitions.values() for s in row))
        for name in names:
            if not isinstance(name, str):
                raise InputError(f"DFA: state {name!r} is {a_type(name)}; a name is a string")
        for name in (start, *accepting):
            if name not in number:
                raise InputError(f"DFA: state {name!r} has no row of transitions")
        table = np.zeros((len(names), len(symbols)), dtype=np.int32)
        for name, row in transitions.items():
            for a, symbol in enumerate(symbols):
                if symbol not in row:
                    raise InputError(f"DFA: state {name!r} has no transition for {symbol!r}; it needs one per symbol")
                if row[symbol] not in number:
                    raise InputError(f"DFA: state {name!r} goes to {row[symbol]!r}, which has no row")
                table[number[name], a] = number[row[symbol]]
            for symbol in row:
                if symbol not in symbols:
                    raise InputError(f"DFA: state {name!r} reads {symbol!r}, which is not in the alphabet")
        return DFA(table, np.array([number[f] for f in accepting], dtype=int), symbols, number[start], tuple(names))

    def __len__(self) -> int:
        return int(self.table.shape[0])

    def __str__(self) -> str:
        shown = ", ".join(self.alphabet) if len(self.alphabet) <= 12 else f"{len(self.alphabet)} symbols"
        lines = [f"DFA: {counted(len(self), 'state')} over {{{shown}}}, {int(self.accepting.sum())} accepting"]
        for q in range(min(len(self), 20)):
            moves = "  ".join(f"{s}→{self.name(int(r))}" for s, r in zip(self.alphabet[:12], self.table[q]))
            mark = ("→" if q == self.start else " ") + ("*" if self.accepting[q] else " ")
            lines.append(f"{mark} {self.name(q)}: {moves}{' …' if len(self.alphabet) > 12 else ''}")
        return "\n".join(lines + (["  …"] if len(self) > 20 else []))

    def name(self, state: int) -> str:
        """A state's name; `q3` where it has none."""
        return self.names[state] if self.names else f"q{state}"

    # Running

    @cached_property
    def index(self) -> dict[str, int]:
        """Each symbol's column."""
        return {symbol: i for i, symbol in enumerate(self.alphabet)}

    @cached_property
    def _linked(self) -> dict[Any, Any]:
        """The start state as a dictionary from symbols to such dictionaries; under None, whether it accepts."""
        rows: list[dict[Any, Any]] = [{None: bool(f)} for f in self.accepting]
        for row, targets in zip(rows, self.table.tolist()):
            row.update((symbol, rows[r]) for symbol, r in zip(self.alphabet, targets))
        return rows[self.start]

    def run(self, word: Word) -> int:
        """The state after the word."""
        return int(self.run_batch([word])[0])

    def path(self, word: Word) -> list[int]:
        """The states that the word passes, the start state first."""
        states = [self.start]
        for code in encode(word, self.index):
            states.append(int(self.table[states[-1], code]))
        return states

    def accepts(self, word: Word) -> bool:
        """Whether the word is in the language."""
        if self.table.size > LINKED_CELLS or (isinstance(word, str) and len(word) > LONG_WORD):
            return bool(self.accepting[self.run(word)])
        try:
            return reduce(operator.getitem, word, self._linked)[None]  # type: ignore[no-any-return]
        except (TypeError, KeyError):
            return bool(self.accepting[self.run(word)])  # raises an error that names the unknown symbol

    def __contains__(self, word: object) -> bool:
        """Whether a word is in the language; a word with other symbols is not."""
        if isinstance(word, str | Sequence) and all(isinstance(s, str) for s in word):
            return all(s in self.index for s in word) and self.accepts(word)
        raise InputError(f"word {word!r:.60}: a word is a string, or a list of symbols")

    def run_batch(self, words: Sequence[Word]) -> np.ndarray:
        """The state after each word."""
        from kleene.machines.automata.kernels import run_batch

        return run_batch(self.table, self.start, *encode_batch(words, self.alphabet))

    def accepts_batch(self, words: Sequence[Word]) -> np.ndarray:
        """Whether each word is in the language."""
        return np.asarray(self.accepting[self.run_batch(words)])

    # Boolean operations. Automata over different alphabets are compared as sets of words over both.

    def complement(self) -> DFA:
        """The automaton of all other words over the alphabet."""
        return DFA(self.table, ~self.accepting, self.alphabet, self.start, self.names)

    def product(
        self, other: DFA, accept: Callable[[np.ndarray, np.ndarray], np.ndarray], limit: int = MAX_STATES
    ) -> DFA:
        """Run both at once, on the pairs of states that words reach. `accept` combines the two arrays of answers."""
        from kleene.machines.automata.kernels import product

        left, right = self.aligned(other)
        count, lefts, rights, table = product(left.table, left.start, right.table, right.start, limit)
        if count < 0:
            raise NotSupported(f"product: more than {limit:,} states; raise limit=")
        accepting = np.asarray(accept(left.accepting[lefts], right.accepting[rights]), dtype=bool)
        return DFA(table.reshape(count, -1), accepting, left.alphabet)

    def __and__(self, other: DFA) -> DFA:
        return self.product(other, operator.and_)

    def __or__(self, other: DFA) -> DFA:
        return self.product(other, operator.or_)

    def __xor__(self, other: DFA) -> DFA:
        return self.product(other, operator.xor)

    def __sub__(self, other: DFA) -> DFA:
        return self.product(other, lambda mine, theirs: mine & ~theirs)

    __invert__ = complement

    def over(self, alphabet: Iterable[str]) -> DFA:
        """The same words over another alphabet that holds every symbol of this one.

        >>> DFA([[0]], [0], "a").over("ab").accepts("ab")
        False
        """
        symbols = check_alphabet(alphabet)
        if symbols == self.alphabet:
            return self
        if missing := [s for s in self.alphabet if s not in symbols]:
            raise InputError(
                f"DFA: the alphabet {{{', '.join(symbols)}}} lacks {missing[0]!r}, which this automaton reads"
            )
        if len(symbols) == len(self.alphabet):
            columns = [self.index[symbol] for symbol in symbols]
            return DFA(self.table[:, columns], self.accepting, symbols, self.start, self.names)
        sink = len(self)
        table = np.full((sink + 1, len(symbols)), sink, dtype=np.int32)
        for a, symbol in enumerate(symbols):
            if symbol in self.index:
                table[:sink, a] = self.table[:, self.index[symbol]]
        names = None if self.names is None else (*self.names, new_name("sink", self.names))
        return DFA(table, np.append(self.accepting, False), symbols, self.start, names)

    def aligned(self, other: DFA) -> tuple[DFA, DFA]:
        """Both automata over one alphabet, this one's symbols first."""
        other = as_dfa(other)
        symbols = tuple(dict.fromkeys((*self.alphabet, *other.alphabet)))
        return self.over(symbols), other.over(symbols)

    # Regular operations: each returns a minimal automaton

    def concatenate(self, other: DFA) -> DFA:
        """The words u·v with u in this language and v in the other."""
        from kleene.machines.automata import operations

        return operations.concatenate(self, as_dfa(other))

    __add__ = concatenate

    def star(self) -> DFA:
        """The words u₁·…·uₙ, n ≥ 0, with each uᵢ in the language."""
        from kleene.machines.automata import operations

        return operations.star(self)

    def reverse(self, limit: int = 1_000_000) -> DFA:
        """The minimal automaton of the reversed words. Above `limit` states, raise `NotSupported`."""
        from kleene.machines.automata.nfa import NFA

        return NFA.of(self).reverse().determinise(limit).minimise()

    def quotient(self, other: DFA) -> DFA:
        """The right quotient: words u such that u·v is in this language for some v in the other."""
        from kleene.machines.automata import operations

        return operations.right_quotient(self, as_dfa(other))

    __truediv__ = quotient

    def left_quotient(self, other: DFA) -> DFA:
        """Words v such that u·v is in this language for some u in the other."""
        from kleene.machines.automata import operations

        return operations.left_quotient(self, as_dfa(other))

    def homomorphism(self, image: Mapping[str, Word]) -> DFA:
        """The words with every symbol replaced by a word: `dfa.homomorphism({"a": "01", "b": ""})`."""
        from kleene.machines.automata import operations

        return operations.homomorphism(self, image)

    def inverse_homomorphism(self, image: Mapping[str, Word]) -> DFA:
        """The words over the mapping's symbols whose image is in the language."""
        from kleene.machines.automata import operations

        return operations.inverse_homomorphism(self, image)

    def prefixes(self) -> DFA:
        """Every prefix of every word."""
        from kleene.machines.automata import operations

        return operations.prefixes(self)

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
        """Drop the states that no word reaches, and number the others breadth-first from the start."""
        from kleene.machines.automata.kernels import breadth_first

        return self.renumbered(breadth_first(self.table, self.start))

    def renumbered(self, order: np.ndarray) -> DFA:
        """Rename state order[i] to i. `order` must be closed under transitions."""
        number = np.full(len(self), -1, dtype=np.int32)
        number[order] = np.arange(len(order))
        names = tuple(self.names[q] for q in order) if self.names else None
        return DFA(number[self.table[order]], self.accepting[order], self.alphabet, int(number[self.start]), names)

    # Comparing

    def distinguish(self, other: DFA) -> Word | None:
        """A shortest word that only one of the two accepts (Hopcroft–Karp), or None."""
        from kleene.machines.automata.kernels import hopcroft_karp

        left, right = self.aligned(other)
        at, came_from, by = hopcroft_karp(
            left.table, left.accepting, left.start, right.table, right.accepting, right.start
        )
        if at < 0:
            return None
        codes = []
        while came_from[at] >= 0:
            codes.append(int(by[at]))
            at = came_from[at]
        return left.spell(codes[::-1])

    def spell(self, codes: Iterable[int]) -> Word:
        """A word from its symbols' columns: text if every symbol is one character, otherwise a list."""
        symbols = [self.alphabet[code] for code in codes]
        return "".join(symbols) if all(len(s) == 1 for s in self.alphabet) else symbols

    def equivalent(self, other: DFA) -> bool:
        """Whether both accept the same words."""
        return self.distinguish(other) is None

    def __eq__(self, other: object) -> bool:
        """Whether both accept the same words."""
        return self.equivalent(other) if isinstance(other, DFA) else NotImplemented

    @cached_property
    def _hash(self) -> int:
        from kleene.machines.automata.operations import canonical

        minimal = canonical(self)
        return hash((minimal.alphabet, minimal.table.tobytes(), minimal.accepting.tobytes()))

    def __hash__(self) -> int:
        return self._hash

    def included_in(self, other: DFA) -> bool:
        """Whether the other automaton accepts every word of this one."""
        return (self - other).is_empty()

    __le__ = included_in

    def is_empty(self) -> bool:
        """Whether no word is accepted."""
        return not bool(self.reachable().accepting.any())

    def is_universal(self) -> bool:
        """Whether every word over the alphabet is accepted."""
        return bool(self.reachable().accepting.all())

    # Words

    @cached_property
    def language(self) -> Language:
        """The words as a collection in order of length: `len`, `in`, iteration, indexing, counting, sampling."""
        from kleene.machines.automata.language import Language

        return Language(self)

    def is_finite(self) -> bool:
        """Whether only finitely many words are accepted."""
        return self.language.longest is not None

    def shortest(self) -> Word | None:
        """The first shortest word in the order of the alphabet, or None."""
        return self.language.shortest()

    def words(self, most: int | None = None) -> Iterator[Word]:
        """The words, shortest first and then in the order of the alphabet; at most `most`."""
        return self.language.words(most)

    def count(self, length: int) -> int:
        """How many words have this length."""
        return self.language.count(length)

    def sample(self, length: int, seed: int | np.random.Generator = 0) -> Word:
        """A word of this length, each with the same chance."""
        return self.language.sample(length, seed)

    # The syntactic monoid, and what it decides

    @cached_property
    def monoid(self) -> Monoid:
        """The syntactic monoid: what words do to the states of the minimal automaton."""
        from kleene.machines.automata.monoid import syntactic_monoid

        return syntactic_monoid(self)

    @cached_property
    def classes(self) -> Classes:
        """Whether this language is in each class of languages, with a witness."""
        from kleene.machines.automata.classes import classify

        return classify(self)

    @property
    def is_star_free(self) -> Verdict:
        """Whether an expression with complement and without star describes the language (Schützenberger)."""
        from kleene.machines.automata.classes import star_free

        return star_free(self)

    @property
    def is_group(self) -> Verdict:
        """Whether the syntactic monoid is a group: every symbol permutes the states."""
        from kleene.machines.automata.classes import group

        return group(self)

    # Regular expressions, files and pictures

    def to_regex(self, *, limit: int = 1_000_000) -> str:
        """A short regular expression of the language that `kl.regex` and Python's `re.fullmatch` read.

        Above `limit` characters, raise `NotSupported`.

        >>> DFA([[0, 1], [1, 0]], [0], "01").to_regex()
        '(0|10*1)*'
        """
        from kleene.machines.automata.to_regex import to_regex

        return to_regex(self, limit=limit)

    def to_json(self) -> dict[str, object]:
        """Convert to plain data; `DFA.from_json` reads it."""
        from kleene.machines.automata.files import to_json

        return to_json(self)

    @classmethod
    def from_json(cls, data: object, where: str = "DFA") -> DFA:
        """Rebuild a DFA from its `to_json`."""
        from kleene.machines.automata.files import from_json

        return from_json(data, where)

    def save(self, path: str | Path) -> None:
        """Write a file: `.json`, `.jff` (JFLAP), `.att` or `.fst` (AT&T), `.mata`, `.ba`, `.regex`, `.dot`, or a
        picture `.png`, `.svg`, `.pdf`."""
        from kleene.machines.automata.files import save

        save(self, path)

    @classmethod
    def load(cls, path: str | Path) -> DFA:
        """Read a file: `.json`, `.jff` (JFLAP), `.att` or `.fst` (AT&T), `.mata`, `.ba`, `.regex`.

        A missing move leads to a new rejecting state, with a warning. `NFA.load` reads
        nondeterministic automata.
        """
        from kleene.machines.automata.files import load_dfa

        return load_dfa(path)

    def _repr_png_(self) -> bytes | None:
        """The picture that notebooks show."""
        from kleene.show.automata import png

        return png(self)

    def to_dot(self) -> str:
        """The automaton in Graphviz's language."""
        from kleene.show.automata import to_dot

        return to_dot(self)


def as_dfa(other: object) -> DFA:
    """Convert any automaton to a DFA. Nondeterministic and alternating automata are made deterministic."""
    if isinstance(other, DFA):
        return other
    convert = getattr(other, "determinise", None) or getattr(other, "to_dfa", None)
    if convert is None:
        raise InputError(f"{other!r:.60}: {a_type(other)}; give an automaton, such as kl.regex('a*b')")
    return convert()  # type: ignore[no-any-return]


def new_name(wanted: str, names: Iterable[str]) -> str:
    """A free name: `sink`, or `sink'`, and so on."""
    taken = set(names)
    while wanted in taken:
        wanted += "'"
    return wanted


def _flags(given: object, states: int) -> np.ndarray:
    """The accepting states as flags, from flags or numbers."""
    given = list(given) if isinstance(given, Iterable) and not isinstance(given, np.ndarray) else given
    flags = _numbers(given, "accepting states", "biu")
    if flags.dtype != bool:
        chosen = flags
        if chosen.ndim != 1 or (chosen.size and (int(chosen.min()) < 0 or int(chosen.max()) >= states)):
            raise InputError(f"DFA: an accepting state is outside 0…{states - 1}")
        flags = np.zeros(states, dtype=bool)
        flags[chosen] = True
    if flags.shape != (states,):
        raise InputError(f"DFA: {counted(flags.size, 'accepting flag')} for {counted(states, 'state')}")
    return flags


def _checked_names(names: Iterable[str] | None, states: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    found = tuple(names)
    if len(found) != states:
        raise InputError(f"DFA: {counted(len(found), 'name')} for {counted(states, 'state')}")
    for name in found:
        if not isinstance(name, str):
            raise InputError(f"DFA: state {name!r} is {a_type(name)}; a name is a string")
    return found


def _numbers(values: object, what: str, kinds: str) -> np.ndarray:
    """An array of whole numbers (or flags, if `kinds` has b). Nothing is rounded."""
    try:
        found = np.asarray(values)
    except ValueError:
        raise InputError(f"DFA, {what}: rows of different lengths; give one table of whole numbers") from None
    if found.size == 0:
        return found.astype(np.int64)
    if found.dtype.kind not in kinds:
        raise InputError(f"DFA, {what}: {found.tolist()!r:.60} should be whole numbers, counted from 0")
    return found
