"""From selectors to what a head can do: match a query with a set of keys, at a range of distances.

A selector becomes a `Family`: functions that put keys and queries into classes, and for each range of distances between
the two positions a matrix that says which classes match. `select(indices, indices, <)` is distances alone; a
predicate of keys that mix a token with an index, as in Tracr's sort, is taken apart in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kleene.errors import ProgramError
from kleene.rasp.expressions import COMPARISONS, Comparison
from kleene.rasp.functions import Func, check_size

Run = tuple[int, int, np.ndarray]  # distances from … to, and which classes of keys (rows) match which queries (columns)

ORDERINGS: dict[Comparison, Callable[[Any, Any], Any]] = {
    Comparison.EQ: np.equal,
    Comparison.LT: np.less,
    Comparison.LEQ: np.less_equal,
    Comparison.GT: np.greater,
    Comparison.GEQ: np.greater_equal,
    Comparison.NEQ: np.not_equal,
}


@dataclass(frozen=True)
class Family:
    """Classes of keys and queries, and which match at which distance (key's position − query's position)."""

    keys: Func
    queries: Func
    runs: tuple[Run, ...]  # ascending; together every distance

    @property
    def matching(self) -> tuple[Run, ...]:
        """The distances at which something matches."""
        return tuple(run for run in self.runs if run[2].any())

    def reduced(self) -> Family:
        """Join classes that no query, and no key, tells apart, and neighbouring distances that match alike."""
        stacked = np.stack([match for _, _, match in self.runs])  # (run, key, query)
        keys = _classes(np.moveaxis(stacked, 1, 0))
        queries = _classes(np.moveaxis(stacked, 2, 0))
        first_key, first_query = _first(keys), _first(queries)
        runs: list[Run] = []
        for low, high, match in self.runs:
            smaller = match[np.ix_(first_key, first_query)]
            if runs and np.array_equal(runs[-1][2], smaller):
                runs[-1] = (runs[-1][0], high, smaller)
            else:
                runs.append((low, high, smaller))
        return Family(self.keys.mapped(keys), self.queries.mapped(queries), tuple(runs))


def _classes(rows: np.ndarray) -> np.ndarray:
    """A class for each row, numbered in the order in which they come."""
    numbers: dict[bytes, int] = {}
    return np.array([numbers.setdefault(np.ascontiguousarray(row).tobytes(), len(numbers)) for row in rows])


def _first(classes: np.ndarray) -> np.ndarray:
    """The first member of each class."""
    return np.unique(classes, return_index=True)[1]


def relation(
    what: str, predicate: Any, keys: Sequence[Any], queries: Sequence[Any], note: Callable[[str], None]
) -> np.ndarray:
    """Which keys match which queries. `note` is told where the predicate raises; it may not raise everywhere."""
    if predicate in (Comparison.TRUE, Comparison.FALSE):
        return np.full((len(keys), len(queries)), predicate is Comparison.TRUE)
    if isinstance(predicate, Comparison):
        ranks = _ranks([*keys, *queries])
        if ranks is not None:
            there = np.array([value is not None for value in [*keys, *queries]])
            k, q = ranks[: len(keys), None], ranks[None, len(keys) :]
            holds: np.ndarray = ORDERINGS[predicate](k, q)
            found: np.ndarray = holds & there[: len(keys), None] & there[None, len(keys) :]
            return found
        predicate = _unless_none(COMPARISONS[predicate])
    check_size("a predicate", len(keys) * len(queries), 20_000_000)
    match = np.zeros((len(keys), len(queries)), dtype=bool)
    raised, why = 0, ""
    for row, key in enumerate(keys):
        for column, query in enumerate(queries):
            try:
                match[row, column] = bool(predicate(key, query))
            except ProgramError:
                raise
            except Exception as error:
                if key is not None and query is not None:
                    raised += 1
                    why = f"raises {type(error).__name__}: {error} for the key {key!r} and the query {query!r}"
                    note(why)
    if raised == sum(key is not None for key in keys) * sum(query is not None for query in queries) > 0:
        raise ProgramError(f"{what}: the predicate {why}: it raises for every key and query")
    return match


def _unless_none(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda key, query: key is not None and query is not None and function(key, query)


def _ranks(values: Sequence[Any]) -> np.ndarray | None:
    """The place of each value in order, equal for equal values; None where they cannot be ordered."""
    try:
        ordered = sorted({value for value in values if value is not None})
    except TypeError:
        return None
    places = {value: place for place, value in enumerate(ordered)}
    return np.array([places.get(value, -1) for value in values])


def by_distance(match: np.ndarray, keys: np.ndarray, queries: np.ndarray) -> list[Run] | None:
    """Take a relation apart by distance, where the index itself does not matter.

    - `match`: which key values match which query values.
    - `keys`, `queries`: (index, rest) → value, or −1 where impossible.

    The result has, for each range of distances, which rests match; None if they depend on the index, too.
    """
    length = len(keys)
    check_size("a selector", keys.size * queries.size, 30_000_000)
    padded = np.pad(match, ((0, 1), (0, 1)))  # −1, an impossible value, matches nothing
    runs: list[Run] = []
    for distance in range(1 - length, length):
        places = np.arange(max(0, -distance), min(length, length - distance))  # of queries
        here = padded[keys[places + distance][:, :, None], queries[places][:, None, :]]  # (place, key, query)
        known = (keys[places + distance] >= 0)[:, :, None] & (queries[places] >= 0)[:, None, :]
        seen = (here & known).any(axis=0)
        if bool(((~here & known).any(axis=0) & seen).any()):
            return None
        if runs and np.array_equal(runs[-1][2], seen):
            runs[-1] = (runs[-1][0], distance, seen)
        else:
            runs.append((distance, distance, seen))
    return runs


def partial_order(beats: np.ndarray) -> bool:
    """Whether a relation of a set with itself is a strict partial order: no element beats itself, and it is transitive.

    Then an element that beats another is beaten by fewer: two that are beaten by equally many do not beat each other.
    """
    if beats.diagonal().any():
        return False
    numbers = beats.astype(np.float32)
    return not bool(((numbers @ numbers > 0) & ~beats).any())
