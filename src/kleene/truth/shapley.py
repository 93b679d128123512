"""Exact effects of a word's symbols on a machine's answer: Shapley values, interactions, interventions.

A coalition keeps its symbols; the others are drawn. Let V(t) be the expected value where each symbol is kept with
probability t. The Shapley value of symbol i is the mean over t in [0, 1] of its effect at t, because a coalition of
size k of the other n − 1 has the weight ∫ tᵏ(1 − t)ⁿ⁻¹⁻ᵏ dt = k!(n − 1 − k)!/n!. The effect is a polynomial of degree
n − 1 in t, and Gauss-Legendre quadrature with ⌈n/2⌉ nodes is exact on it. So one sum over nodes replaces the sum over
2ⁿ⁻¹ coalitions. The same holds for pairs; every number on the way is an expectation, so nothing cancels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from kleene.errors import InputError, NotSupported
from kleene.truth.games import Array, Chances, Game, Input, Machine, game_of

INDICES = ("shapley", "banzhaf", "taylor")
Index = Literal["shapley", "banzhaf", "taylor"]
MAX_PAIRS_CELLS = 100_000_000


def _nodes(game: Game, index: str) -> tuple[Array, Array]:
    """Values of t and weights that make the sum exact; Banzhaf's index is the effect at t = ½."""
    if index == "banzhaf":
        return np.array([0.5]), np.array([1.0])
    nodes, weights = np.polynomial.legendre.leggauss(len(game) // 2 + 1)
    t = (nodes + 1) / 2
    return t, weights / 2 * (2 * (1 - t) if index == "taylor" else 1)


def _summed(game: Game, index: str, at: Callable[[Array], Array], pairs: bool) -> Array:
    """The weighted sum of a function of t over the nodes, block by block."""
    t, weights = _nodes(game, index)
    size, total = game.block(pairs), np.zeros(())
    for begin in range(0, len(t), size):
        part = slice(begin, begin + size)
        total = total + np.tensordot(weights[part], at(t[part]), axes=(0, 0))
    return total


def shapley(
    machine: Machine,
    word: Input,
    *,
    distribution: Chances = None,
    position: int | None = None,
    index: Literal["shapley", "banzhaf"] = "shapley",
) -> Array:
    """The exact Shapley value of each symbol of a word: how far it moves the chance that the machine says yes.

    - `machine`: an automaton (DFA, NFA, AFA, weighted, transducer), an attention program, or anything with an
      `alphabet` and `accepts_batch`. Automata take time polynomial in the length; the others run on every word that
      can be drawn.
    - `word`: the word. An attention program takes tokens, or text where it has `encode`.
    - `distribution`: how the symbols outside a coalition are drawn, each independently: uniformly, or with the
      probabilities of a mapping, or of one mapping per position.
    - `position`: for an attention program, the position whose output counts; by default the last. The value is the
      chance that the output is what it is on the word.
    - `index`: "shapley", or "banzhaf", which gives every coalition the same weight.

    >>> from kleene.machines.automata.regex import regex
    >>> even = regex("(0|10*1)*", "01")
    >>> print(shapley(even, "0110"))                         # all matter alike
    [0.125 0.125 0.125 0.125]
    >>> print(shapley(regex("(0|1)*1", "01"), "0110"))       # the last symbol alone decides
    [ 0.   0.   0.  -0.5]
    """
    if index not in INDICES[:2]:
        raise InputError(f"index {index!r}: unknown; choose 'shapley' or 'banzhaf'")
    game = game_of(machine, word, distribution, position)
    return _summed(game, index, game.effects, False) if len(game) else np.zeros(0)


def interactions(
    machine: Machine,
    word: Input,
    *,
    distribution: Chances = None,
    position: int | None = None,
    index: Index = "shapley",
) -> Array:
    """The exact interaction of each two symbols of a word: how far the effect of one depends on the other.

    - `machine`, `word`, `distribution`, `position`: as for `shapley`.
    - `index`: "shapley" (Grabisch and Roubens), "banzhaf", or "taylor" (Shapley-Taylor: with the effects where all
      is drawn, the interactions sum to the value).

    >>> from kleene.machines.automata.regex import regex
    >>> print(interactions(regex("1.*1", "01"), "101"))      # the outer symbols act together alone
    [[0.   0.   0.25]
     [0.   0.   0.  ]
     [0.25 0.   0.  ]]
    """
    if index not in INDICES:
        raise InputError(f"index {index!r}: unknown; choose one of {', '.join(INDICES)}")
    game = game_of(machine, word, distribution, position)
    if len(game) ** 2 > MAX_PAIRS_CELLS:
        raise NotSupported(f"{len(game):,} symbols: a table of pairs has at most {MAX_PAIRS_CELLS:,} entries")
    return _summed(game, index, game.pairs, True) if len(game) else np.zeros((0, 0))


def effects(machine: Machine, word: Input, *, distribution: Chances = None, position: int | None = None) -> Array:
    """The effect of each intervention on one symbol: what the value becomes, less what it is: (symbol, replacement).

    `machine`, `word`, `distribution` and `position`: as for `shapley`. An entry is NaN where the distribution of an
    attention program does not draw the replacement.

    >>> from kleene.machines.automata.regex import regex
    >>> print(effects(regex("1.*1", "01"), "101"))
    [[-1.  0.]
     [ 0.  0.]
     [-1.  0.]]
    """
    game = game_of(machine, word, distribution, position)
    return game.replaced() - game.value()


@dataclass(frozen=True)
class Truth:
    """What is true of a machine on a word.

    `value` is the machine's answer; `expected` is its mean when every symbol is drawn. The Shapley
    values sum to the difference.
    """

    symbols: list[str]
    alphabet: list[str]
    value: float
    expected: float
    shapley: Array
    interactions: Array
    effects: Array

    def __str__(self) -> str:
        lines = [f"value {self.value:g}; {self.expected:.4f} expected of a random word"]
        strongest = np.abs(self.interactions)
        for place, symbol in enumerate(self.symbols):
            with_ = ""
            if len(self.symbols) > 1 and strongest[place].max() > 0:
                other = int(strongest[place].argmax())
                with_ = f"   with {other} ({self.symbols[other]}): {self.interactions[place, other]:+.4f}"
            lines.append(f"{place:4d}  {symbol:8s} {self.shapley[place]:+.4f}{with_}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """The numbers as plain data."""
        return {
            "word": self.symbols,
            "alphabet": self.alphabet,
            "value": self.value,
            "expected": self.expected,
            "shapley": self.shapley.tolist(),
            "interactions": self.interactions.tolist(),
            "effects": [[None if np.isnan(x) else x for x in row] for row in self.effects.tolist()],
        }


def explain_machine(machine: Any, word: Any, *, distribution: Chances = None, position: int | None = None) -> Truth:
    """`kl.explain` for machines: the exact effects of a word's symbols, together.

    >>> from kleene.machines.automata.regex import regex
    >>> print(explain_machine(regex("1.*1", "01"), "101"))
    value 1; 0.2500 expected of a random word
       0  1        +0.3750   with 2 (1): +0.2500
       1  0        +0.0000
       2  1        +0.3750   with 0 (1): +0.2500
    """
    game = game_of(machine, word, distribution, position)
    options: dict[str, Any] = {"distribution": distribution, "position": position}
    replaced = game.replaced()
    return Truth(
        [str(game.symbols[code]) for code in game.own],
        [str(symbol) for symbol in game.symbols],
        game.value(),
        game.value(0.0),
        shapley(machine, word, **options),
        interactions(machine, word, **options),
        replaced - game.value(),
    )
