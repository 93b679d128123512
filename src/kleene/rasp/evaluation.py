"""Evaluate s-ops and selectors in plain Python. This file defines what they mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, overload

from kleene.common.means import is_number, mean
from kleene.errors import InputError, ProgramError
from kleene.rasp.expressions import (
    Aggregate,
    AggregateFirst,
    AggregateLast,
    AggregateMax,
    AggregateMin,
    Comparison,
    ConstantSelector,
    ConstantSOp,
    Full,
    IndicesType,
    LengthType,
    Map,
    RASPExpr,
    Select,
    Selector,
    SelectorAnd,
    SelectorNot,
    SelectorOr,
    SelectorValue,
    SelectorWidth,
    SequenceMap,
    SOp,
    TokensType,
    Value,
)


class DefaultRASPEvaluator:
    """Evaluate an expression on a sequence. Each sub-expression is evaluated once."""

    causal = False

    def evaluate(self, expr: RASPExpr, xs: Sequence[Value]) -> Any:
        if not isinstance(expr, RASPExpr):
            raise InputError(f"evaluate: {expr!r} is not an s-op or a selector")
        if not isinstance(xs, Iterable):
            raise InputError(f"{expr.name}: {xs!r} is not a sequence of tokens such as ['a', 'b']")
        return _Run(list(xs), self.causal).value(expr)


class CausalEvaluator(DefaultRASPEvaluator):
    """A `DefaultRASPEvaluator` in which no position selects a position to its right."""

    causal = True


class _Run:
    """One evaluation: the input, and what has been computed."""

    def __init__(self, xs: list[Value], causal: bool) -> None:
        self.xs, self.causal, self.known = xs, causal, dict[int, Any]()

    def value(self, expr: RASPExpr) -> Any:
        todo = [expr]
        while todo:  # without recursion: programs can be deep
            here = todo[-1]
            missing = [child for child in here.children if id(child) not in self.known]
            if missing:
                todo += missing
                continue
            todo.pop()
            if id(here) not in self.known:
                self.known[id(here)] = self._compute(here)
        return self.known[id(expr)]

    def _compute(self, expr: RASPExpr) -> Any:
        for cls in type(expr).__mro__:
            if cls in _RULES:
                return _RULES[cls](self, expr)
        raise ProgramError(f"{expr!r}: there is no rule that evaluates a {type(expr).__name__}")

    def of(self, expr: RASPExpr) -> Any:
        return self.known[id(expr)]

    def constant_sop(self, sop: ConstantSOp) -> list[Value]:
        if sop.check_length and len(self.xs) != len(sop.value):
            raise InputError(f"{sop.name}: {len(sop.value)} constant values, but the input has {len(self.xs)} tokens")
        return sop.value[: len(self.xs)]

    def constant_selector(self, selector: ConstantSelector) -> SelectorValue:
        if selector.check_length and len(self.xs) != len(selector.value):
            raise InputError(f"{selector.name}: {len(selector.value)} rows, but the input has {len(self.xs)} tokens")
        return [row[: len(self.xs)] for row in selector.value[: len(self.xs)]]

    def select(self, selector: Select) -> SelectorValue:
        keys, queries = self.of(selector.keys), self.of(selector.queries)
        return [[selects(selector.predicate, key, query) for key in keys] for query in queries]

    def selected(self, selector: Selector) -> list[list[int]]:
        """The positions that each position selects."""
        rows = self.of(selector)
        return [
            [k for k, chosen in enumerate(row) if chosen and not (self.causal and k > q)] for q, row in enumerate(rows)
        ]

    def aggregate(self, sop: Aggregate) -> list[Value]:
        values = self.of(sop.sop)
        return [aggregated(sop, [values[k] for k in row]) for row in self.selected(sop.selector)]

    def length(self, sop: LengthType) -> list[int]:
        if self.causal:
            raise ProgramError("length: a causal network cannot know the length of its input")
        return [len(self.xs)] * len(self.xs)


def selects(predicate: Callable[[Any, Any], Any], key: Value, query: Value) -> bool:
    """Whether a predicate holds. Where it raises because a side is None, it does not."""
    try:
        return bool(predicate(key, query))
    except Exception:
        if key is None or query is None:
            return False
        raise


def aggregated(sop: Aggregate, values: list[Value]) -> Value:
    """Return what an aggregate makes of the selected values."""
    if not values:
        return sop.default
    if isinstance(sop, AggregateFirst | AggregateLast):
        return values[0] if isinstance(sop, AggregateFirst) else values[-1]
    if isinstance(sop, AggregateMax | AggregateMin):
        return max(values) if isinstance(sop, AggregateMax) else min(values)
    if len(values) == 1 or all(value == values[0] for value in values):
        return values[0]
    if all(is_number(value) for value in values):
        return mean(values)
    raise ProgramError(
        f"'{sop.name}' aggregates different values that are not numbers, {values[:6]!r}; select one position, "
        "or numbers"
    )


_RULES: dict[type, Callable[[_Run, Any], Any]] = {
    TokensType: lambda run, sop: list(run.xs),
    IndicesType: lambda run, sop: list(range(len(run.xs))),
    LengthType: _Run.length,
    Full: lambda run, sop: [sop.fill] * len(run.xs),
    ConstantSOp: _Run.constant_sop,
    Map: lambda run, sop: [None if x is None else sop.f(x) for x in run.of(sop.inner)],
    SequenceMap: lambda run, sop: [
        None if x is None or y is None else sop.f(x, y) for x, y in zip(run.of(sop.fst), run.of(sop.snd))
    ],
    SelectorWidth: lambda run, sop: [len(row) for row in run.selected(sop.selector)],
    Aggregate: _Run.aggregate,
    Select: _Run.select,
    ConstantSelector: _Run.constant_selector,
    SelectorOr: lambda run, s: [[a or b for a, b in zip(*rows)] for rows in zip(run.of(s.fst), run.of(s.snd))],
    SelectorAnd: lambda run, s: [[a and b for a, b in zip(*rows)] for rows in zip(run.of(s.fst), run.of(s.snd))],
    SelectorNot: lambda run, s: [[not chosen for chosen in row] for row in run.of(s.inner)],
}


@overload
def evaluate(expr: SOp, xs: Sequence[Value]) -> list[Any]: ...
@overload
def evaluate(expr: Selector, xs: Sequence[Value]) -> list[list[bool]]: ...
@overload
def evaluate(expr: RASPExpr, xs: Sequence[Value]) -> list[Any]: ...
def evaluate(expr: RASPExpr, xs: Sequence[Value]) -> Any:
    """Evaluate an s-op or a selector on a sequence.

    >>> from kleene import rasp
    >>> evaluate(rasp.SelectorWidth(rasp.Select(rasp.tokens, rasp.tokens, rasp.Comparison.EQ)), "abca")
    [2, 1, 1, 2]
    """
    return DefaultRASPEvaluator().evaluate(expr, xs)


def evaluate_causally(expr: RASPExpr, xs: Sequence[Value]) -> Any:
    """Evaluate where no position selects a position to its right."""
    return CausalEvaluator().evaluate(expr, xs)


__all__ = ["CausalEvaluator", "Comparison", "DefaultRASPEvaluator", "SOp", "evaluate", "evaluate_causally"]
