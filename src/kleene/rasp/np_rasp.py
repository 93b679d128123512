"""The functions of np-rasp (RASP-L) on s-ops: `from kleene.rasp.np_rasp import *` in place of `from np_rasp import *`.

In np-rasp a program is a function of an array; here it is a function of an s-op, called with `rasp.tokens`. Selectors
are causal unless `causal=False`, means are cut to whole numbers, and the default where nothing is selected is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kleene import rasp
from kleene.errors import ProgramError
from kleene.rasp.expressions import (
    Aggregate,
    AggregateMax,
    AggregateMin,
    Full,
    Map,
    Select,
    Selector,
    SelectorWidth,
    SequenceMap,
    SOp,
)
from kleene.rasp.notation_library import choose, sequence

Test = Callable[[Any, Any], Any]


def full(x: SOp, const: Any) -> SOp:
    """A constant at every position."""
    return Full(const)


def indices(x: SOp) -> SOp:
    return rasp.indices


def tok_map(x: SOp, func: Callable[[Any], Any]) -> SOp:
    return Map(lambda v: int(func(v)), sequence(x))


def seq_map(x: SOp, y: SOp, func: Test) -> SOp:
    return SequenceMap(lambda v, w: int(func(v, w)), sequence(x), sequence(y))


def select(k: SOp, q: SOp, pred: Test, causal: bool = True) -> Selector:
    chosen = Select(sequence(k), sequence(q), pred)
    return chosen & Select(rasp.indices, rasp.indices, rasp.Comparison.LEQ) if causal else chosen


def sel_width(A: Selector) -> SOp:
    return SelectorWidth(A)


def aggr_mean(A: Selector, v: SOp, default: Any = 0) -> SOp:
    """The mean of what is selected, cut to a whole number."""
    return Map(int, Aggregate(A, sequence(v), default))


def aggr_max(A: Selector, v: SOp, default: Any = 0) -> SOp:
    return AggregateMax(A, sequence(v), default)


def aggr_min(A: Selector, v: SOp, default: Any = 0) -> SOp:
    return AggregateMin(A, sequence(v), default)


REDUCTIONS: dict[str, Callable[[Selector, SOp, Any], SOp]] = {"mean": aggr_mean, "max": aggr_max, "min": aggr_min}


def aggr(A: Selector, v: SOp, default: Any = 0, reduction: str = "mean") -> SOp:
    if reduction not in REDUCTIONS:
        raise ProgramError(f"aggr: reduction={reduction!r}; it is 'mean', 'max' or 'min'")
    return REDUCTIONS[reduction](A, v, default)


def kqv(k: SOp, q: SOp, v: SOp, pred: Test, default: Any = 0, reduction: str = "mean") -> SOp:
    return aggr(select(k, q, pred), v, default, reduction)


def equals(x: Any, y: Any) -> Any:
    return x == y


def leq(x: Any, y: Any) -> Any:
    return x <= y


def lt(x: Any, y: Any) -> Any:
    return x < y


def geq(x: Any, y: Any) -> Any:
    return x >= y


def gt(x: Any, y: Any) -> Any:
    return x > y


def shift_right(x: SOp, n: int, default: Any = 0) -> SOp:
    """The values moved n positions to the right."""
    return kqv(rasp.indices + n, rasp.indices, x, equals, default)


def cumsum(bool_array: SOp) -> SOp:
    """How many values up to here are true."""
    return sel_width(select(bool_array, bool_array, lambda k, q: k))


def where(condition: SOp, x_if: SOp, y_else: SOp) -> SOp:
    return choose(sequence(condition), x_if, y_else)


def mask(x: SOp, bool_mask: SOp, mask_val: Any = 0) -> SOp:
    """The values where the mask is true, `mask_val` elsewhere."""
    return where(bool_mask, x, Full(mask_val))


def maximum(x: SOp) -> SOp:
    """The largest value up to here."""
    return kqv(x, x, x, lambda k, q: True, reduction="max")


def minimum(x: SOp) -> SOp:
    """The smallest value up to here."""
    return kqv(x, x, x, lambda k, q: True, reduction="min")


def argmax(x: SOp) -> SOp:
    """The last index up to here that holds the largest value."""
    return kqv(x, maximum(x), rasp.indices, equals, reduction="max")


def argmin(x: SOp) -> SOp:
    """The last index up to here that holds the smallest value."""
    return kqv(x, minimum(x), rasp.indices, equals, reduction="max")


def num_prev(x: SOp, queries: SOp) -> SOp:
    """How many values up to here equal the query."""
    return sel_width(select(x, queries, equals))


def has_seen(x: SOp, queries: SOp) -> SOp:
    """1 where the query occurs up to here, else 0."""
    return kqv(x, queries, Full(1), equals)


def firsts(x: SOp, queries: SOp, default: Any = -1) -> SOp:
    """The first index up to here at which x equals the query."""
    return kqv(x, queries, rasp.indices, equals, default, "min")


def lasts(x: SOp, queries: SOp, default: Any = -1) -> SOp:
    """The last index up to here at which x equals the query."""
    return kqv(x, queries, rasp.indices, equals, default, "max")


def index_select(x: SOp, idx: SOp, default: Any = 0) -> SOp:
    """x at an index, where that is not to the right."""
    return kqv(rasp.indices, idx, x, equals, default)


def first_true(x: SOp, default: Any = -1) -> SOp:
    """The index of the first true value up to here."""
    return firsts(tok_map(x, bool), Full(1), default)


def mode(x: SOp) -> SOp:
    """The most frequent value up to here; of several, the one that became it last."""
    return index_select(x, argmax(num_prev(x, x)))


def binary_mode(x: SOp) -> SOp:
    """1 where ones outnumber zeros up to here, else 0."""
    return seq_map(num_prev(x, Full(1)), num_prev(x, Full(0)), gt)


def induct_kqv(k: SOp, q: SOp, v: SOp, offset: int, default: Any = 0, null_val: Any = -999) -> SOp:
    """v at `offset` after the first key that equals the query. `null_val` is a value that neither has."""
    return index_select(v, firsts(shift_right(k, offset, null_val), q, null_val), default)


def induct(k: SOp, q: SOp, offset: int, default: Any = 0, null_val: Any = -999) -> SOp:
    return induct_kqv(k, q, k, offset, default, null_val)


def induct_prev(k: SOp, q: SOp, offset: int, default: Any = 0, null_val: Any = -999) -> SOp:
    """k at a negative offset from the first key that equals the query."""
    return index_select(k, firsts(k, q, null_val) + offset, default)
