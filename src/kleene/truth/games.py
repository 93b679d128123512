"""A machine on one word as a game: the symbols are players, and the symbols outside a coalition are drawn at random.

With each symbol kept with probability t, independently of the others, the expected value V(t) is a polynomial in t. Its
derivatives give every index here (`kleene.truth.shapley`): the effect of symbol i at t is the expected difference
between keeping symbol i and drawing it; the interaction of i and j at t is the difference of such differences.

A game has one of two forms. In a `ProductGame` the value of a word is a product of matrices: automata of any kind. Its
effects come from prefix and suffix products, in time polynomial in the length. In a `TableGame` the value of every word
is known: small attention programs, and networks on short words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import Any, Protocol

import numpy as np

from kleene.common.alphabet import encode
from kleene.errors import InputError, KleeneError, NotSupported
from kleene.lowering.guarding import guarded_updates
from kleene.lowering.rule_machine import RuleMachine
from kleene.machines.automata.alternating import AFA
from kleene.machines.automata.dfa import DFA, as_dfa
from kleene.machines.automata.nfa import NFA
from kleene.machines.automata.transducer import Transducer
from kleene.machines.automata.weighted import WeightedAutomaton
from kleene.machines.program import ProgramClass

Array = np.ndarray[Any, Any]
Chances = Mapping[Any, float] | Sequence[Mapping[Any, float]] | None
MAX_CELLS = 50_000_000  # numbers in the matrices of an automaton
MAX_WORDS = 1_000_000  # words of a table
BLOCK = 4_000_000  # numbers that one block of values of t makes


class AnswersWords(Protocol):
    """Anything that can say which words over its alphabet it accepts."""

    @property
    def alphabet(self) -> Sequence[Any] | None:
        """The symbols."""

    def accepts_batch(self, words: Sequence[Any]) -> Any:
        """Whether each word is accepted."""


Machine = ProgramClass | DFA | NFA | AFA | WeightedAutomaton | Transducer | AnswersWords
Input = Sequence[str] | Sequence[int]  # a word, or an attention program's tokens or text


@dataclass(frozen=True)
class ProductGame:
    """A word a₁…aₙ has the value start · M[a₁] · … · M[aₙ] · final; `chances` is (position, symbol)."""

    start: Array  # (state,)
    moves: Array  # (symbol, state, state)
    final: Array  # (state,)
    word: tuple[int, ...]
    symbols: tuple[Any, ...]
    chances: Array

    @property
    def own(self) -> tuple[int, ...]:
        """The word's symbols, as numbers."""
        return self.word

    @cached_property
    def means(self) -> Array:
        """The expected move of a symbol that is drawn: (position, state, state)."""
        return np.tensordot(self.chances, self.moves, axes=(1, 0))

    def __len__(self) -> int:
        return len(self.word)

    def value(self, t: float = 1.0) -> float:
        """The expected value where each symbol is kept with probability t."""
        return float(self._prefixes(np.array([t]))[-1][0] @ self.final)

    def _forward(self, place: int, rows: Array, t: Array) -> Array:
        """Rows (t, state) after the expected move at a position."""
        moved: Array = (1 - t[:, None]) * (rows @ self.means[place]) + t[:, None] * (
            rows @ self.moves[self.word[place]]
        )
        return moved

    def _backward(self, place: int, columns: Array, t: Array) -> Array:
        """Columns (t, any, state) before the expected move at a position."""
        kept, t = self.moves[self.word[place]], t[:, None, None]
        moved: Array = (1 - t) * (columns @ self.means[place].T) + t * (columns @ kept.T)
        return moved

    def _prefixes(self, t: Array) -> list[Array]:
        rows = [np.broadcast_to(self.start, (len(t), len(self.start)))]
        for place in range(len(self)):
            rows.append(self._forward(place, rows[-1], t))
        return rows

    def _suffixes(self, t: Array) -> list[Array]:
        columns = [np.broadcast_to(self.final, (len(t), len(self.final)))]
        for place in reversed(range(len(self))):
            columns.append(self._backward(place, columns[-1][:, None], t)[:, 0])
        return columns[::-1]

    def _change(self, place: int) -> Array:
        change: Array = self.moves[self.word[place]] - self.means[place]
        return change

    def block(self, pairs: bool) -> int:
        """How many values of t to take at once."""
        size = len(self)
        return max(1, BLOCK // max(1, size * (2 * len(self.start) + (size if pairs else 1))))

    def effects(self, t: Array) -> Array:
        """The effect of each symbol at each t: (t, position)."""
        before, after = self._prefixes(t), self._suffixes(t)
        found = np.empty((len(t), len(self)))
        for place in range(len(self)):
            found[:, place] = ((before[place] @ self._change(place)) * after[place + 1]).sum(1)
        return found

    def pairs(self, t: Array) -> Array:
        """The interaction of each two symbols at each t: (t, position, position), symmetric."""
        before, after, size = self._prefixes(t), self._suffixes(t), len(self)
        found = np.zeros((len(t), size, size))
        ends = np.zeros((len(t), 0, len(self.final)))  # what each later symbol changes, seen from here
        for place in reversed(range(size)):
            if place < size - 1:
                first = before[place] @ self._change(place)
                found[:, place, place + 1 :] = np.einsum("tq,tjq->tj", first, ends)[:, ::-1]
            here = after[place + 1] @ self._change(place).T
            ends = np.concatenate([self._backward(place, ends, t), here[:, None]], axis=1)
        return found + found.transpose(0, 2, 1)

    def replaced(self) -> Array:
        """The value of the word with one symbol replaced: (position, symbol)."""
        one = np.ones(1)
        before, after = self._prefixes(one), self._suffixes(one)
        return np.array([self.moves @ after[place + 1][0] @ before[place][0] for place in range(len(self))]).reshape(
            len(self), len(self.symbols)
        )


@dataclass(frozen=True)
class TableGame:
    """The value of every word that can be drawn: one axis per position, one entry per symbol that can stand there."""

    table: Array
    word: tuple[int, ...]  # by position, the index of the word's own symbol along the axis
    chances: tuple[Array, ...]  # by position, the chance of each entry
    symbols: tuple[Any, ...]
    codes: tuple[tuple[int, ...], ...]  # by position, the entries' symbols

    @property
    def own(self) -> tuple[int, ...]:
        """The word's symbols, as numbers."""
        return tuple(codes[place] for codes, place in zip(self.codes, self.word))

    def __len__(self) -> int:
        return len(self.word)

    def block(self, pairs: bool) -> int:
        """How many values of t to take at once."""
        return 1

    def _kept(self, place: int, t: float) -> Array:
        own = np.zeros(len(self.chances[place]))
        own[self.word[place]] = 1
        mixed: Array = t * own + (1 - t) * self.chances[place]
        return mixed

    def _change(self, place: int) -> Array:
        return self._kept(place, 1.0) - self.chances[place]

    def value(self, t: float = 1.0) -> float:
        """The expected value where each symbol is kept with probability t."""
        return float(self._summed(self.table, list(range(len(self))), t))

    def _summed(self, table: Array, places: Sequence[int], t: float) -> Array:
        """The table with the last axes, which belong to `places`, averaged at t."""
        for place in reversed(places):
            table = table @ self._kept(place, t)
        return table

    def _singles(self, table: Array, places: list[int], t: float) -> list[tuple[int, float]]:
        """(position, effect) of every axis of a table: average one half while looking at the other."""
        if len(places) == 1:
            return [(places[0], float(table @ self._change(places[0])))]
        if not places:
            return []
        half = len(places) // 2
        left, right = places[:half], places[half:]
        over_right = self._summed(table, right, t)
        turned = np.moveaxis(table, range(half), range(-half, 0))
        return self._singles(over_right, left, t) + self._singles(self._summed(turned, left, t), right, t)

    def effects(self, t: Array) -> Array:
        """The effect of each symbol at each t: (t, position)."""
        found = np.zeros((len(t), len(self)))
        for row, at in enumerate(t):
            for place, effect in self._singles(self.table, list(range(len(self))), float(at)):
                found[row, place] = effect
        return found

    def pairs(self, t: Array) -> Array:
        """The interaction of each two symbols at each t: (t, position, position), symmetric."""
        size = len(self)
        found = np.zeros((len(t), size, size))
        for row, at in enumerate(t):
            for first in range(size):
                changed = np.tensordot(self.table, self._change(first), axes=(first, 0))
                others = [place for place in range(size) if place != first]
                for place, effect in self._singles(changed, others, float(at)):
                    found[row, first, place] = effect
        return found

    def replaced(self) -> Array:
        """The value of the word with one symbol replaced: (position, symbol); NaN where a symbol cannot stand."""
        found = np.full((len(self), len(self.symbols)), np.nan)
        for place in range(len(self)):
            index: list[Any] = list(self.word)
            index[place] = slice(None)
            found[place, list(self.codes[place])] = self.table[tuple(index)]
        return found


Game = ProductGame | TableGame


def chances_of(given: Chances, symbols: Sequence[Any], length: int) -> Array:
    """The distribution of the symbol at each position: (position, symbol).

    given: None for uniform; a mapping from symbols to probabilities; or one such mapping per position.
    """
    if given is None:
        return np.full((length, len(symbols)), 1 / len(symbols))
    if isinstance(given, str) or not isinstance(given, Mapping | Sequence):
        raise InputError(f"distribution: {given!r:.60}; give probabilities by symbol, such as {{'0': 0.9, '1': 0.1}}")
    rows = [given] * length if isinstance(given, Mapping) else list(given)
    if len(rows) != length:
        raise InputError(f"distribution: {len(rows)} mappings for {length} symbols; give one, or one per symbol")
    number = {symbol: code for code, symbol in enumerate(symbols)}
    chances = np.zeros((length, len(symbols)))
    for place, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise InputError(f"distribution: {row!r:.60} is not a mapping from symbols to probabilities")
        for symbol, chance in row.items():
            if symbol not in number:
                raise InputError(f"distribution: {symbol!r} is not in the alphabet {{{', '.join(map(str, symbols))}}}")
            if not isinstance(chance, int | float | np.number) or not 0 <= chance <= 1:
                raise InputError(f"distribution: {symbol!r} has the probability {chance!r}; it must be from 0 to 1")
            chances[place, number[symbol]] = chance
        if abs(chances[place].sum() - 1) > 1e-9:
            raise InputError(
                f"distribution: the probabilities at position {place} sum to {chances[place].sum():g}, not 1"
            )
    return chances


def game_of(machine: Machine, word: Input, distribution: Chances = None, position: int | None = None) -> Game:
    """The game of a machine on a word.

    machine: an automaton, a weighted automaton, a transducer, an attention program, or anything with an `alphabet` and
        `accepts_batch`.
    word: the word; for an attention program its tokens, or text if it takes text.
    distribution: how symbols outside a coalition are drawn.
    position: for attention programs, the position whose output counts; by default the last.
    """
    if not hasattr(word, "__len__") or not hasattr(word, "__iter__"):
        raise InputError(f"word {word!r:.60}: give text, or a sequence of symbols")
    if isinstance(machine, ProgramClass):
        return _program_game(machine, word, distribution, position)
    if position is not None:
        raise InputError(
            f"position={position!r}: only for attention programs; a {type(machine).__name__} has one answer"
        )
    if isinstance(machine, WeightedAutomaton):
        return _weighted_game(machine, word, distribution)
    if isinstance(machine, Transducer):
        return _transducer_game(machine, word, distribution)
    if isinstance(machine, DFA | NFA | AFA):
        return _automaton_game(as_dfa(machine).minimise(), word, distribution)
    if hasattr(machine, "alphabet") and hasattr(machine, "accepts_batch"):
        return _answers_game(machine, word, distribution)
    raise NotSupported(
        f"a {type(machine).__name__} has no words; give an automaton, an attention program, or a network that accepts "
        "words"
    )


def _product(start: Any, moves: Any, final: Any, word: Any, symbols: Sequence[str], given: Chances) -> ProductGame:
    codes = encode(word, {symbol: code for code, symbol in enumerate(symbols)})
    chances = chances_of(given, symbols, len(codes))
    return ProductGame(start, moves, final, tuple(codes), tuple(symbols), chances)


def _check_states(states: int, symbols: int, length: int) -> None:
    if states * states * (symbols + length) > MAX_CELLS:
        raise NotSupported(
            f"{states:,} states: the matrices of {symbols} symbols and {length} positions have more than "
            f"{MAX_CELLS:,} numbers"
        )


def _automaton_game(dfa: DFA, word: Any, given: Chances) -> ProductGame:
    states, count = len(dfa), len(dfa.alphabet)
    _check_states(states, count, len(word))
    moves = np.zeros((count, states, states))
    moves[np.arange(count)[None], np.arange(states)[:, None], dfa.table] = 1
    start = np.zeros(states)
    start[dfa.start] = 1
    return _product(start, moves, dfa.accepting.astype(float), word, dfa.alphabet, given)


def _weighted_game(machine: WeightedAutomaton, word: Any, given: Chances) -> ProductGame:
    if machine.semiring != "real":
        raise NotSupported(
            "a tropical weighted automaton takes least costs, which have no expectation; use semiring='real'"
        )
    _check_states(len(machine.initial), len(machine.alphabet), len(word))
    return _product(machine.initial, machine.matrices, machine.final, word, machine.alphabet, given)


def _transducer_game(machine: Transducer, word: Any, given: Chances) -> ProductGame:
    """The value: whether the last move writes the same as on the word itself. A copy of each state records it."""
    states, count = machine.table.shape
    _check_states(2 * states, count, len(word))
    state, wanted = machine.start, None
    for code in encode(word, {symbol: c for c, symbol in enumerate(machine.alphabet)}):
        if state < 0 or machine.table[state, code] < 0:
            raise InputError(f"word {word!r:.60}: the transducer has no move for {machine.alphabet[code]!r}")
        state, wanted = int(machine.table[state, code]), machine.outputs[state][code]
    moves = np.zeros((count, 2 * states, 2 * states))
    for q, a in product(range(states), range(count)):
        if machine.table[q, a] >= 0:
            target = int(machine.table[q, a]) + states * (machine.outputs[q][a] == wanted)
            moves[a, q, target] = moves[a, q + states, target] = 1
    start, final = np.zeros(2 * states), np.repeat([0.0, 1.0], states)
    start[machine.start] = 1
    return _product(start, moves, final, word, machine.alphabet, given)


def _axes(codes: Sequence[int], chances: Array) -> list[tuple[int, ...]]:
    """The symbols that can stand at each position, and the word's own."""
    axes = [tuple(sorted({own, *np.flatnonzero(row).tolist()})) for own, row in zip(codes, chances)]
    if (words := prod(map(len, axes))) > MAX_WORDS:
        raise NotSupported(
            f"{words:,} words of length {len(codes)} can be drawn; a table has at most {MAX_WORDS:,}. "
            "Automata have no such limit; a distribution with fewer symbols has fewer words"
        )
    return axes


def _table(values: Iterable[float], codes: Sequence[int], chances: Array, symbols: Sequence[Any]) -> TableGame:
    axes = _axes(codes, chances)
    table = np.fromiter(values, dtype=float).reshape([len(axis) for axis in axes])
    return TableGame(
        table,
        tuple(axis.index(own) for axis, own in zip(axes, codes)),
        tuple(row[list(axis)] for axis, row in zip(axes, chances)),
        tuple(symbols),
        tuple(axes),
    )


def _answers_game(machine: Any, word: Any, given: Chances) -> TableGame:
    symbols = tuple(machine.alphabet)
    codes = encode(word, {symbol: code for code, symbol in enumerate(symbols)})
    chances = chances_of(given, symbols, len(codes))
    words = [tuple(symbols[c] for c in drawn) for drawn in product(*_axes(codes, chances))]
    return _table(machine.accepts_batch(words).astype(float), codes, chances, symbols)


def _program_game(program: ProgramClass, word: Any, given: Chances, position: int | None) -> TableGame:
    """The value: whether the output at a position is the same as on the word itself."""
    tokens = program.spec.check_input(word)
    size = len(tokens)
    at = size - 1 if position is None else position
    if not isinstance(at, int) or not -size <= at < size:
        raise InputError(f"position {position!r}: outside the input; use 0 to {size - 1}")
    symbols = tuple(range(program.spec.tokens))
    chances = chances_of(given, symbols, size)
    words = list(product(*_axes(tokens, chances)))
    try:
        outputs = run_all(program, words)
    except KleeneError as error:
        raise NotSupported(
            f"{program.spec.name}: has no output on some inputs that can be drawn ({error}); "
            "give a distribution, one mapping per position, under which every input has one"
        ) from None
    wanted = program.run(tokens)[at]
    return _table((float(output[at] == wanted) for output in outputs), tokens, chances, symbols)


def run_all(program: ProgramClass, inputs: Sequence[Sequence[int]]) -> list[Any]:
    """The outputs of a program on many inputs, from its guarded updates; a decoder's from the interpreter."""
    if program.spec.max_tokens is not None:
        return [program.run(tokens) for tokens in inputs]
    return list(RuleMachine(guarded_updates(program)).run_batch(inputs))
