"""Alternating finite automata (Chandra, Kozen and Stockmeyer): transitions are Boolean functions of
states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kleene.common.alphabet import Word, check_alphabet, encode
from kleene.common.search import breadth_first
from kleene.errors import InputError, NotSupported, counted
from kleene.machines.automata.dfa import DFA

Values = tuple[bool, ...]


@dataclass(frozen=True)
class Threshold:
    """True when the sum of the weights of the true parts is at least a bound; a part is a state or a
    threshold.

    >>> either = any_of(0, 1)
    >>> either((False, True)), all_of(0, not_(1))((True, True))
    (True, False)
    """

    parts: tuple[tuple[int, Formula], ...]  # (weight, part)
    at_least: int

    def __call__(self, values: Values) -> bool:
        return (
            sum(w for w, part in self.parts if (values[part] if isinstance(part, int) else part(values)))
            >= self.at_least
        )

    def states(self) -> set[int]:
        """The states that occur in the formula."""
        return {s for _, part in self.parts for s in ([part] if isinstance(part, int) else part.states())}

    def __str__(self) -> str:
        shown = " + ".join(f"{'' if w == 1 else w}{f'q{p}' if isinstance(p, int) else f'[{p}]'}" for w, p in self.parts)
        return f"{shown or '0'} ≥ {self.at_least}"


Formula = int | Threshold


def all_of(*parts: Formula) -> Threshold:
    """The conjunction of some parts; true when there are none."""
    return Threshold(tuple((1, part) for part in parts), len(parts))


def any_of(*parts: Formula) -> Threshold:
    """The disjunction of some parts; false when there are none."""
    return Threshold(tuple((1, part) for part in parts), 1)


def not_(part: Formula) -> Threshold:
    """Negation."""
    return Threshold(((-1, part),), 0)


@dataclass(frozen=True)
class AFA:
    """State q is true of the empty word if it is in `accepting`, and of a·w if transitions[q][a] is true
    of the states' truth values on w. The automaton accepts the words for which `head` is true.

    >>> both = AFA("ab", transitions=[{"a": any_of(0), "b": all_of()}, {"a": all_of(), "b": any_of(1)}],
    ...            accepting=[], head=all_of(0, 1))            # has an a and a b
    >>> both.accepts("aab"), both.accepts("aaa"), len(both.to_dfa())
    (True, False, 4)
    """

    alphabet: tuple[str, ...]
    transitions: Sequence[Mapping[str, Formula]]
    accepting: Sequence[int]
    head: Formula

    def __post_init__(self) -> None:
        object.__setattr__(self, "alphabet", check_alphabet(self.alphabet))
        for q, row in enumerate(self.transitions):
            if set(row) != set(self.alphabet):
                raise InputError(
                    f"AFA: state {q} has formulas for {sorted(row)}; it needs one for each of {self.alphabet}"
                )
        formulas = [self.head, *(f for row in self.transitions for f in row.values())]
        used = {s for f in formulas for s in ([f] if isinstance(f, int) else f.states())} | set(self.accepting)
        if any(not 0 <= s < len(self.transitions) for s in used):
            raise InputError(f"AFA: a formula names a state outside 0…{len(self.transitions) - 1}")

    def __len__(self) -> int:
        return len(self.transitions)

    def __str__(self) -> str:
        lines = [f"AFA: {counted(len(self), 'state')} over {{{', '.join(self.alphabet)}}}, head {_show(self.head)}"]
        for q, row in enumerate(self.transitions):
            mark = "*" if q in self.accepting else " "
            lines.append(f"{mark} q{q}: " + "   ".join(f"{a}: {_show(f)}" for a, f in row.items()))
        return "\n".join(lines)

    def start_values(self) -> Values:
        """Whether each state is true of the empty word."""
        return tuple(q in self.accepting for q in range(len(self)))

    def before(self, symbol: str, values: Values) -> Values:
        """Whether each state is true of symbol·w, given the same for w."""
        return tuple(_true(row[symbol], values) for row in self.transitions)

    def accepts(self, word: Word) -> bool:
        """Whether the head is true of the word. Reads the symbols from the last to the first."""
        encode(word, {s: i for i, s in enumerate(self.alphabet)})
        values = self.start_values()
        for symbol in reversed(list(word)):
            values = self.before(symbol, values)
        return _true(self.head, values)

    def reverse_dfa(self, limit: int = 100_000) -> DFA:
        """The automaton of the reversed words: its states are the vectors of truth values."""
        first = self.start_values()
        found = breadth_first(
            first,
            lambda values: (self.before(symbol, values) for symbol in self.alphabet),
            key=tuple,
            limit=limit,
            error=lambda: NotSupported(f"AFA: more than {limit:,} vectors of truth values; raise limit="),
        )
        queue, rows = zip(*found)
        return DFA(np.array(rows), np.array([_true(self.head, values) for values in queue]), self.alphabet)

    def to_dfa(self, limit: int = 100_000) -> DFA:
        """The minimal automaton of the same language."""
        return self.reverse_dfa(limit).minimise().reverse(limit)

    def to_dot(self) -> str:
        """The automaton in Graphviz's language: states are circles, formulas boxes."""
        from kleene.show.automata import afa_to_dot

        return afa_to_dot(self)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "kind": "afa",
            "version": 1,
            "alphabet": list(self.alphabet),
            "accepting": list(self.accepting),
            "head": _json(self.head),
            "transitions": [{a: _json(f) for a, f in row.items()} for row in self.transitions],
        }


def _true(formula: Formula, values: Values) -> bool:
    return values[formula] if isinstance(formula, int) else formula(values)


def _show(formula: Formula) -> str:
    return f"q{formula}" if isinstance(formula, int) else str(formula)


def _json(formula: Formula) -> Any:
    if isinstance(formula, int):
        return formula
    return {"parts": [[w, _json(part)] for w, part in formula.parts], "at_least": formula.at_least}
