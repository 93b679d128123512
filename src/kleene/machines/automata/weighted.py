"""Weighted automata: a number for each word, as a product of matrices (reals) or as a least cost (tropical)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from kleene.common.alphabet import Word, check_alphabet, encode
from kleene.errors import FileError, InputError, a_type, counted
from kleene.files import as_path, read_json, write_json, write_text
from kleene.machines.automata.dfa import DFA
from kleene.machines.automata.nfa import NFA

Semiring = Literal["real", "tropical"]
SEMIRINGS = get_args(Semiring)
MAX_CELLS = 50_000_000


@dataclass(frozen=True, eq=False, init=False)
class WeightedAutomaton:
    """The weight of a₁…aₙ is initial · M[a₁] · … · M[aₙ] · final.

    Over the reals, sums and products are the usual ones. In the tropical semiring a sum is the smaller of two costs
    and a product their sum: the weight is the cost of a cheapest path, and Infinity where there is none.

    >>> ones = WeightedAutomaton([1, 0], {"0": [[1, 0], [0, 1]], "1": [[1, 1], [0, 1]]}, [0, 1])
    >>> ones.weight("10110")                       # how many 1s
    3.0
    """

    initial: np.ndarray  # (state,)
    matrices: np.ndarray  # (symbol, state, state)
    final: np.ndarray  # (state,)
    alphabet: tuple[str, ...]
    semiring: Semiring

    def __init__(
        self, initial: ArrayLike, matrices: Mapping[str, ArrayLike], final: ArrayLike, semiring: Semiring = "real"
    ) -> None:
        """Check the parts.

        initial: one weight per state
        matrices: for each symbol, the weight of each move from a state (row) to a state (column)
        final: one weight per state
        semiring: "real", or "tropical" where weights are costs and the cheapest path counts
        """
        if semiring not in SEMIRINGS:
            raise InputError(f"WeightedAutomaton: semiring {semiring!r}; it should be 'real' or 'tropical'")
        if not isinstance(matrices, Mapping):
            raise InputError("WeightedAutomaton: the matrices should be a mapping from symbols to matrices")
        symbols = check_alphabet(matrices)
        try:
            first, last = np.asarray(initial, dtype=float), np.asarray(final, dtype=float)
            moves = np.stack([np.asarray(matrices[s], dtype=float) for s in symbols])
        except (ValueError, TypeError) as error:
            raise InputError(f"WeightedAutomaton: the weights should be numbers ({error})") from None
        states = first.size
        if first.shape != (states,) or last.shape != (states,) or moves.shape[1:] != (states, states) or not states:
            raise InputError(
                f"WeightedAutomaton: shapes {first.shape}, {moves.shape[1:]} and {last.shape}; for n states these "
                "must be (n,), (n, n) and (n,)"
            )
        bad = np.isnan if semiring == "tropical" else lambda x: ~np.isfinite(x)
        if any(bad(part).any() for part in (first, last, moves)):
            raise InputError("WeightedAutomaton: a weight is not a number")
        parts = (("initial", first), ("matrices", moves), ("final", last), ("alphabet", symbols))
        for key, value in (*parts, ("semiring", semiring)):
            object.__setattr__(self, key, value)

    @classmethod
    def of(cls, automaton: DFA | NFA) -> WeightedAutomaton:
        """The number of accepting paths of each word: 1 or 0 for a deterministic automaton."""
        nfa = automaton.without_empty_moves() if isinstance(automaton, NFA) else NFA.of(automaton)
        states = len(nfa)
        moves = np.zeros((len(nfa.alphabet), states, states))
        moves[nfa.codes, nfa.sources, nfa.targets] = 1
        initial = np.zeros(states)
        initial[list(nfa.start)] = 1
        return cls(initial, dict(zip(nfa.alphabet, moves)), nfa.accepting.astype(float))

    def __len__(self) -> int:
        return self.initial.size

    def __str__(self) -> str:
        shown = ", ".join(self.alphabet[:12])
        return f"WeightedAutomaton: {counted(len(self), 'state')} over {{{shown}}}, {self.semiring} weights"

    @cached_property
    def index(self) -> dict[str, int]:
        """Each symbol's place."""
        return {symbol: i for i, symbol in enumerate(self.alphabet)}

    def weight(self, word: Word) -> float:
        """The weight of a word."""
        vector = self.initial
        for code in encode(word, self.index):
            if self.semiring == "real":
                vector = vector @ self.matrices[code]
            else:
                vector = (vector[:, None] + self.matrices[code]).min(axis=0)
        return float(vector @ self.final if self.semiring == "real" else (vector + self.final).min())

    def weights(self, words: Sequence[Word]) -> np.ndarray:
        """The weight of each word."""
        if isinstance(words, str):
            raise InputError(f"words {words!r:.60}: one word; give a list of words")
        return np.array([self.weight(word) for word in words])

    # Operations

    def _same(self, other: WeightedAutomaton) -> WeightedAutomaton:
        if not isinstance(other, WeightedAutomaton):
            raise InputError(f"{other!r:.60}: {a_type(other)}; give a WeightedAutomaton")
        if self.semiring != other.semiring or set(self.alphabet) != set(other.alphabet):
            raise InputError("WeightedAutomaton: both must have the same semiring and alphabet")
        order = [other.index[s] for s in self.alphabet]
        return WeightedAutomaton(
            other.initial, dict(zip(self.alphabet, other.matrices[order])), other.final, other.semiring
        )

    def _zero(self) -> float:
        return 0.0 if self.semiring == "real" else math.inf

    def __add__(self, other: WeightedAutomaton) -> WeightedAutomaton:
        """The sum of both weights of each word (tropical: the smaller cost)."""
        right = self._same(other)
        n, m = len(self), len(right)
        moves = np.full((len(self.alphabet), n + m, n + m), self._zero())
        moves[:, :n, :n], moves[:, n:, n:] = self.matrices, right.matrices
        initial = np.concatenate([self.initial, right.initial])
        final = np.concatenate([self.final, right.final])
        return WeightedAutomaton(initial, dict(zip(self.alphabet, moves)), final, self.semiring)

    def __mul__(self, other: WeightedAutomaton | float) -> WeightedAutomaton:
        """The product of both weights of each word (tropical: the sum of costs); a number scales all weights."""
        if isinstance(other, int | float):
            scaled = self.initial * other if self.semiring == "real" else self.initial + other
            return WeightedAutomaton(scaled, dict(zip(self.alphabet, self.matrices)), self.final, self.semiring)
        right = self._same(other)
        n, m = len(self), len(right)
        if len(self.alphabet) * (n * m) ** 2 > MAX_CELLS:
            raise InputError(f"WeightedAutomaton: a product of {n} and {m} states is too large")
        if self.semiring == "real":
            moves = np.stack([np.kron(a, b) for a, b in zip(self.matrices, right.matrices)])
            initial, final = np.kron(self.initial, right.initial), np.kron(self.final, right.final)
        else:
            pairs = self.matrices[:, :, None, :, None] + right.matrices[:, None, :, None, :]
            moves = pairs.reshape(len(self.alphabet), n * m, n * m)
            initial = (self.initial[:, None] + right.initial).reshape(-1)
            final = (self.final[:, None] + right.final).reshape(-1)
        return WeightedAutomaton(initial, dict(zip(self.alphabet, moves)), final, self.semiring)

    def distinguish(self, other: WeightedAutomaton) -> Word | None:
        """A shortest word of different weights; None if all weights are equal (Schützenberger; exact rationals).

        Explore the vectors that words reach in the difference automaton until they span no more: at most as many
        vectors as there are states.
        """
        if self.semiring != "real":
            raise InputError("WeightedAutomaton: equality of tropical automata is undecidable; compare words")
        right = self._same(other)
        difference = self + right * -1.0
        moves = [[[Fraction(x) for x in row] for row in matrix] for matrix in difference.matrices.tolist()]
        final = [Fraction(x) for x in difference.final.tolist()]
        basis = _Basis()
        queue: list[tuple[list[Fraction], list[int]]] = [([Fraction(x) for x in difference.initial.tolist()], [])]
        for vector, codes in queue:
            if not basis.add(vector):
                continue
            if sum((x * y for x, y in zip(vector, final)), Fraction(0)):
                symbols = [self.alphabet[c] for c in codes]
                return "".join(symbols) if all(len(s) == 1 for s in self.alphabet) else symbols
            queue += [(_times(vector, matrix), [*codes, c]) for c, matrix in enumerate(moves)]
        return None

    def equivalent(self, other: WeightedAutomaton) -> bool:
        """Whether every word has the same weight in both."""
        return self.distinguish(other) is None

    def minimise(self) -> WeightedAutomaton:
        """The automaton with the fewest states over the reals: spaces that words reach, forwards and backwards.

        The bases are found in exact rationals, and the result is rounded to floats once.
        """
        if self.semiring != "real":
            raise InputError("WeightedAutomaton: Kleene minimises only automata over the reals")
        return _reduced(_reduced(self)._mirrored())._mirrored()

    def _mirrored(self) -> WeightedAutomaton:
        moves = dict(zip(self.alphabet, np.swapaxes(self.matrices, 1, 2)))
        return WeightedAutomaton(self.final, moves, self.initial)

    # Files

    def to_json(self) -> dict[str, object]:
        """Convert to plain data; `WeightedAutomaton.load` reads it."""

        def listed(values: np.ndarray) -> Any:
            return [[_number(x) for x in row] if isinstance(row, list) else _number(row) for row in values.tolist()]

        return {
            "kind": "weighted-automaton",
            "version": 1,
            "semiring": self.semiring,
            "initial": listed(self.initial),
            "final": listed(self.final),
            "matrices": {s: listed(matrix) for s, matrix in zip(self.alphabet, self.matrices)},
        }

    def save(self, path: str | Path) -> None:
        """Write `.json`, or `.att` (AT&T) if weights are costs."""
        path = as_path(path)
        if path.suffix == ".json":
            write_json(path, self.to_json())
        elif path.suffix in (".att", ".fst"):
            write_text(path, _to_att(self))
        else:
            raise FileError(f"{path}: unknown suffix {path.suffix!r}; use .json or .att")

    @classmethod
    def load(cls, path: str | Path) -> WeightedAutomaton:
        """Read `.json` or AT&T text, whose weights are costs (OpenFst's tropical semiring)."""
        path = as_path(path)
        if path.suffix == ".json":
            return from_json(read_json(path), str(path))
        if path.suffix in (".att", ".fst", ".txt"):
            from kleene.machines.automata.files import read_automaton_text

            return _from_att(read_automaton_text(path), str(path))
        raise FileError(f"{path}: unknown suffix {path.suffix!r}; use .json or .att")


class _Basis:
    """Vectors in echelon form, exact."""

    def __init__(self) -> None:
        self.rows: dict[int, list[Fraction]] = {}  # pivot → vector with 1 there
        self.vectors: list[list[Fraction]] = []  # as added

    def add(self, vector: Sequence[Fraction]) -> bool:
        """Add a vector to the span. Return whether it was outside before."""
        rest = list(vector)
        for pivot, row in self.rows.items():
            if rest[pivot]:
                factor = rest[pivot]
                rest = [x - factor * y for x, y in zip(rest, row)]
        first = next((i for i, x in enumerate(rest) if x), None)
        if first is None:
            return False
        self.rows[first] = [x / rest[first] for x in rest]
        self.vectors.append(list(vector))
        return True


def _times(vector: Sequence[Fraction], matrix: list[list[Fraction]]) -> list[Fraction]:
    result = [Fraction(0)] * len(vector)
    for x, row in zip(vector, matrix):
        if x:
            result = [r + x * y for r, y in zip(result, row)]
    return result


def _solve(basis: list[list[Fraction]], vector: Sequence[Fraction]) -> list[Fraction]:
    """The coordinates of a vector in a basis that spans it (Gauss)."""
    size = len(basis)
    rows = [[b[i] for b in basis] + [vector[i]] for i in range(len(vector))]
    for at, column in enumerate(range(size)):
        pivot = next(i for i in range(at, len(rows)) if rows[i][column])
        rows[at], rows[pivot] = rows[pivot], rows[at]
        head = rows[at][column]
        rows[at] = [x / head for x in rows[at]]
        for i in range(len(rows)):
            if i != at and rows[i][column]:
                factor = rows[i][column]
                rows[i] = [x - factor * y for x, y in zip(rows[i], rows[at])]
    return [rows[i][size] for i in range(size)]


def _reduced(automaton: WeightedAutomaton) -> WeightedAutomaton:
    """The automaton on the space that its words reach from the initial vector."""
    moves = [[[Fraction(x) for x in row] for row in matrix] for matrix in automaton.matrices.tolist()]
    final = [Fraction(x) for x in automaton.final.tolist()]
    basis = _Basis()
    queue = [[Fraction(x) for x in automaton.initial.tolist()]]
    for vector in queue:
        if basis.add(vector):
            queue += [_times(vector, matrix) for matrix in moves]
    vectors = basis.vectors
    if not vectors:  # every word has weight 0
        zero = {s: [[0.0]] for s in automaton.alphabet}
        return WeightedAutomaton([0.0], zero, [0.0])
    matrices = {
        symbol: [[float(x) for x in _solve(vectors, _times(v, matrix))] for v in vectors]
        for symbol, matrix in zip(automaton.alphabet, moves)
    }
    ends = [float(sum((x * y for x, y in zip(v, final)), Fraction(0))) for v in vectors]
    return WeightedAutomaton([1.0, *[0.0] * (len(vectors) - 1)], matrices, ends)


def _number(x: float) -> float | str:
    return "Infinity" if x == math.inf else x


def from_json(data: Any, where: str) -> WeightedAutomaton:
    """Rebuild a weighted automaton from its `to_json`."""
    if not isinstance(data, dict) or data.get("kind") != "weighted-automaton" or data.get("version") != 1:
        raise FileError(f"{where}: not a weighted automaton of version 1, as WeightedAutomaton.save writes")

    def read(values: Any) -> Any:
        return [read(x) for x in values] if isinstance(values, list) else float(values)

    try:
        matrices = {s: read(matrix) for s, matrix in data["matrices"].items()}
        return WeightedAutomaton(read(data["initial"]), matrices, read(data["final"]), data["semiring"])
    except (KeyError, TypeError, ValueError, AttributeError, InputError) as error:
        raise FileError(f"{where}: not a weighted automaton ({error})") from None


def _from_att(text: str, where: str) -> WeightedAutomaton:
    from kleene.machines.automata.text_formats import parse_att, plain_symbol

    file = parse_att(text, where)
    if file.output is not None:
        raise FileError(f"{where}, line {file.output.line}: it has outputs; a weighted automaton reads only")
    names = list(dict.fromkeys([file.start, *(q for m in file.moves for q in (m.source, m.target)), *file.final]))
    number = {name: i for i, name in enumerate(names)}
    symbols = sorted({plain_symbol(m.read) for m in file.moves})
    if "" in symbols:
        raise FileError(f"{where}: it has empty moves; remove them with 'fstrmepsilon'")
    if not symbols:
        raise FileError(f"{where}: no transitions, so no alphabet; give at least one")
    if len(names) ** 2 * len(symbols) > MAX_CELLS:
        raise FileError(f"{where}: {len(names):,} states are too many for matrices of weights")
    moves = {s: np.full((len(names), len(names)), math.inf) for s in symbols}
    for m in file.moves:
        cell = moves[plain_symbol(m.read)]
        p, q = number[m.source], number[m.target]
        cell[p, q] = min(cell[p, q], m.weight)
    initial, final = np.full(len(names), math.inf), np.full(len(names), math.inf)
    initial[0] = 0.0
    for name, cost in file.final.items():
        final[number[name]] = cost
    return WeightedAutomaton(initial, moves, final, "tropical")


def _to_att(automaton: WeightedAutomaton) -> str:
    from kleene.machines.automata.text_formats import check_att_symbol

    if automaton.semiring != "tropical":
        raise FileError("weighted automaton: AT&T files hold costs (tropical); save real weights as .json")
    starts = np.flatnonzero(np.isfinite(automaton.initial))
    if starts.size != 1 or automaton.initial[starts[0]] != 0:
        raise FileError("weighted automaton: AT&T files have one start state of cost 0; save it as .json")
    lines = [
        f"{p}\t{q}\t{check_att_symbol(s)}\t{check_att_symbol(s)}\t{matrix[p, q]!r}"
        for p in [int(starts[0]), *(p for p in range(len(automaton)) if p != starts[0])]
        for s, matrix in zip(automaton.alphabet, automaton.matrices.astype(object))
        for q in range(len(automaton))
        if matrix[p, q] != math.inf
    ]
    if not lines or not lines[0].startswith(f"{starts[0]}\t"):
        lines.insert(0, f"{starts[0]}\t{float(automaton.final[starts[0]])!r}".replace("inf", "Infinity"))
    ends = [f"{q}\t{float(x)!r}" for q, x in enumerate(automaton.final) if x != math.inf]
    return "\n".join([*lines, *ends]) + "\n"
