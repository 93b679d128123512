"""From a table over atoms to guarded updates: forms whose thresholds are few.

A function of several atoms becomes a function of one form: a sum or a difference of the atoms' numbers where that
decides the result, a positional combination otherwise. Where it is cheaper, the function is split by the values of one
atom first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, pairwise, permutations, product
from math import lcm
from typing import Any

import numpy as np

from kleene.common.means import exact, is_number
from kleene.lowering.forms import Form
from kleene.rasp.functions import Atom, Func, check_size

MAX_SPLIT = 12  # classes of an atom by which a function is split
MAX_DEPTH = 3
MAX_FORM = 300_000  # values of a form


@dataclass(frozen=True, eq=False)
class Source:
    """The source of an atom that a step reads: raw = Σ terms[variable][index], at places[raw − low] of its domain."""

    terms: dict[str, tuple[int, ...]]
    low: int
    places: tuple[int, ...]
    atom: Atom
    summed: bool = False  # a sum of atoms, whose number is the raw value itself

    @classmethod
    def of_variable(cls, name: str, places: Sequence[int], atom: Atom) -> Source:
        return cls({name: tuple(range(len(places)))}, 0, tuple(places), atom)

    @classmethod
    def of_classes(cls, name: str, places: Sequence[int], part: np.ndarray, atom: Atom) -> Source:
        """The source of one head: its values fall into the classes of a partition, each read as its first value."""
        first = np.unique(part, return_index=True)[1]
        return cls({name: tuple(range(len(places)))}, 0, tuple(int(first[part[p]]) for p in places), atom)

    @classmethod
    def sum_of(cls, terms: Mapping[str, tuple[int, ...]], places: Sequence[int], atom: Atom, first: int = 0) -> Source:
        """The source of several heads, whose sums begin at `first`. Sums that no run has are read as the nearest."""
        low, high = sum(min(t) for t in terms.values()), sum(max(t) for t in terms.values())
        inside = [places[min(max(raw - first, 0), len(places) - 1)] for raw in range(low, high + 1)]
        return cls(dict(terms), low, tuple(inside), atom)

    @property
    def single(self) -> str | None:
        """The one variable that is read, if it is one."""
        return next(iter(self.terms)) if len(self.terms) == 1 else None


@dataclass(frozen=True)
class Piece:
    """Under tests (variable, size, allowed indices), the result is table[form], an index of a value."""

    tests: tuple[tuple[str, int, frozenset[int]], ...]
    form: Form
    table: tuple[tuple[Any, int], ...]
    cost: int


def pieces(function: Func, sources: Sequence[Source], places: np.ndarray) -> list[Piece]:
    """The cheapest way found to compute a function from its sources; results are places[function]."""
    raw = [np.array(source.places) for source in sources]
    table = function.table[np.ix_(*raw)] if sources else function.table
    table = np.where(table < 0, -1, places[np.maximum(table, 0)])
    return _best(table, tuple(sources), MAX_DEPTH)


def _best(table: np.ndarray, sources: tuple[Source, ...], depth: int) -> list[Piece]:
    table, sources = _with_sums(*_simplified(table, sources))
    if not sources:
        return [Piece((), Form(0, ()), ((0, max(int(table), 0)),), 1)]
    whole = _whole(table, sources)
    if len(sources) == 1 or not depth:
        return [_checked(whole, sources)]
    found, cost = [whole], float("inf") if whole is None else whole.cost
    for place, source in enumerate(sources):
        name = source.single
        if name is None:
            continue
        groups = _groups(np.moveaxis(table, place, 0))
        if len(groups) > MAX_SPLIT or len(groups) >= cost:
            continue
        rest = sources[:place] + sources[place + 1 :]
        made: list[Piece] = []
        for members in groups:
            indices = frozenset(i for i, raw in enumerate(source.terms[name]) if raw - source.low in members)
            test = (name, len(source.terms[name]), indices)
            part = np.take(table, members[0], axis=place)
            made += [_tested(piece, test) for piece in _best(part, rest, depth - 1)]
            if sum(piece.cost for piece in made) >= cost:
                break
        else:
            found, cost = list(made), sum(piece.cost for piece in made)
    return [_checked(piece, sources) for piece in found]


def _checked(piece: Piece | None, sources: Sequence[Source]) -> Piece:
    if piece is None:
        count = int(np.prod([len(source.places) for source in sources]))
        check_size(
            "a function of " + ", ".join(source.atom.name for source in sources), max(count, MAX_FORM + 1), MAX_FORM
        )
    assert piece is not None
    return piece


def _tested(piece: Piece, test: tuple[str, int, frozenset[int]]) -> Piece:
    return Piece((*piece.tests, test), piece.form, piece.table, piece.cost)


def _groups(rows: np.ndarray) -> list[list[int]]:
    """The places with equal rows."""
    found: dict[bytes, list[int]] = {}
    for place, row in enumerate(np.ascontiguousarray(rows)):
        found.setdefault(row.tobytes(), []).append(place)
    return list(found.values())


def _simplified(table: np.ndarray, sources: tuple[Source, ...]) -> tuple[np.ndarray, tuple[Source, ...]]:
    """Without sources on which the table does not depend."""
    kept = list(sources)
    for place in reversed(range(len(kept))):
        most = table.max(axis=place, keepdims=True)
        if bool(np.all((table == most) | (table < 0))):
            table = most.squeeze(axis=place)
            del kept[place]
    return table, tuple(kept)


def _with_sums(table: np.ndarray, sources: tuple[Source, ...]) -> tuple[np.ndarray, tuple[Source, ...]]:
    """Replace two sources by their sum or difference where the function depends on that alone."""
    for one, two in combinations(range(len(sources)), 2) if len(sources) > 2 else ():
        for sign in (1, -1):
            found = _summed(table, sources, one, two, sign)
            if found is not None:
                return _with_sums(*_simplified(*found))
    return table, sources


def _summed(
    table: np.ndarray, sources: tuple[Source, ...], one: int, two: int, sign: int
) -> tuple[np.ndarray, tuple[Source, ...]] | None:
    a, b = _numbers(sources[one]), _numbers(sources[two])
    if a is None or b is None:
        return None
    total = a[:, None] + sign * b[None, :]
    low, high = int(total.min()), int(total.max())
    if high - low + 1 > 2 * (len(a) + len(b)):
        return None
    front = np.moveaxis(table, (one, two), (0, 1))
    made = np.full((high - low + 1, *front.shape[2:]), -1)
    for raw in range(low, high + 1):
        rows = front[total == raw]
        if len(rows):
            most = rows.max(axis=0)
            if not bool(np.all((rows == most) | (rows < 0))):
                return None
            made[raw - low] = most
    terms = {**_numbered_terms(sources[one], a, 1), **_numbered_terms(sources[two], b, sign)}
    least = sum(min(entries) for entries in terms.values())
    most_raw = sum(max(entries) for entries in terms.values())
    padding = [(low - least, most_raw - high)] + [(0, 0)] * (made.ndim - 1)
    made = np.pad(made, padding, constant_values=-1)
    places = tuple(range(most_raw - least + 1))
    joint = Source(terms, least, places, sources[one].atom, summed=True)
    rest = tuple(source for place, source in enumerate(sources) if place not in (one, two))
    return made, (joint, *rest)


def _numbered_terms(source: Source, numbers: np.ndarray, sign: int) -> dict[str, tuple[int, ...]]:
    """The terms of a source, so that they add up to its number."""
    name = source.single
    if name is None:  # a sum of heads, whose number is the raw value
        return {head: tuple(sign * entry for entry in entries) for head, entries in source.terms.items()}
    return {name: tuple(sign * int(numbers[raw - source.low]) for raw in source.terms[name])}


def _whole(table: np.ndarray, sources: tuple[Source, ...]) -> Piece | None:
    """The function as one table of one form."""
    options = [*_sums(table, sources), *_positional(table, sources)]
    return min(options, key=lambda piece: piece.cost, default=None)


def _sums(table: np.ndarray, sources: tuple[Source, ...]) -> Iterable[Piece]:
    """Sums and differences of the sources' numbers that decide the result."""
    numbers = [_numbers(source) for source in sources]
    if not 2 <= len(sources) <= 4 or any(n is None for n in numbers):
        return
    known = table >= 0
    for signs in product((1, -1), repeat=len(sources) - 1):
        scaled = [sign * n for sign, n in zip((1, *signs), numbers) if n is not None]
        total = np.zeros(table.shape, dtype=np.int64)
        for place, part in enumerate(scaled):
            shape = [1] * len(sources)
            shape[place] = -1
            total = total + part.reshape(shape)
        values, where = np.unique(total[known], return_inverse=True)
        results = np.full(len(values), -1)
        results[where] = table[known]
        if np.array_equal(results[where], table[known]):
            yield _piece(sources, scaled, dict(zip(values.tolist(), results.tolist())))


def _numbers(source: Source) -> np.ndarray | None:
    """The whole numbers that a source's raw values stand for; None if there are none."""
    if source.summed:
        return np.arange(source.low, source.low + len(source.places))
    values = [source.atom.domain[place] for place in source.places]
    if not all(is_number(value) for value in values):
        return None
    exacts = [exact(value) for value in values]
    scale = lcm(*(number.denominator for number in exacts))
    if scale > 1 or max(map(abs, exacts)) > 100_000:
        return None  # fractions of different denominators add up to too many values
    if source.single is None and exacts != [Fraction(source.low + i) for i in range(len(exacts))]:
        return _raw_if_clamped(source, exacts)
    return np.array([int(number) for number in exacts])


def _raw_if_clamped(source: Source, exacts: Sequence[Fraction]) -> np.ndarray | None:
    """The raw values of a sum of heads, where the values that runs have are the raw values themselves."""
    raw = range(source.low, source.low + len(exacts))
    inside = [number == min(max(r, int(min(exacts))), int(max(exacts))) for r, number in zip(raw, exacts)]
    return np.array(raw) if all(inside) else None


def _positional(table: np.ndarray, sources: tuple[Source, ...]) -> Iterable[Piece]:
    """Positional combinations, the most significant source first; values that are not told apart are one digit."""
    digits = []
    for place, source in enumerate(sources):
        if source.single is None:
            digits.append(np.arange(len(source.places)))
            continue
        number = np.zeros(len(source.places), dtype=np.int64)
        for digit, members in enumerate(_groups(np.moveaxis(table, place, 0))):
            number[members] = digit
        digits.append(number)
    orders = list(permutations(range(len(sources)))) if len(sources) <= 3 else [tuple(range(len(sources)))]
    sizes = [int(digit.max()) + 1 for digit in digits]
    if int(np.prod(sizes)) > MAX_FORM:
        return
    for order in orders:
        base, scaled = 1, [np.zeros(0, dtype=np.int64)] * len(sources)
        for place in reversed(order):
            scaled[place] = digits[place] * base
            base *= sizes[place]
        total = np.zeros(table.shape, dtype=np.int64)
        for place, part in enumerate(scaled):
            shape = [1] * len(sources)
            shape[place] = -1
            total = total + part.reshape(shape)
        known = table >= 0
        yield _piece(sources, scaled, dict(zip(total[known].tolist(), table[known].tolist())))


def _piece(sources: Sequence[Source], scaled: Sequence[np.ndarray], results: dict[int, int]) -> Piece:
    """A piece whose form adds up scaled[source][raw]; values that no run has are filled with their neighbours."""
    constant, terms = 0, dict[str, tuple[int, ...]]()
    for source, part in zip(sources, scaled):
        name = source.single
        if name is not None:
            terms[name] = tuple(int(part[raw - source.low]) for raw in source.terms[name])
            continue
        slope = int(part[1] - part[0]) if len(part) > 1 else 0
        constant += int(part[0]) - slope * source.low
        for head, entries in source.terms.items():
            terms[head] = tuple(slope * entry for entry in entries)
    form = Form.of(constant, terms)
    filled, last = {}, next(iter(results.values()), 0)
    for value in form.values:
        last = results.get(int(value), last)
        filled[value] = last
    values = list(filled.values())
    cost = sum(a != b for a, b in pairwise(values)) + 1
    return Piece((), form, tuple(filled.items()), cost)
