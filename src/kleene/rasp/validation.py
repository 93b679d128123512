"""What to know of a program before it is compiled: where it can raise, and what Tracr rejects or computes wrongly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from kleene.common.means import is_number
from kleene.rasp.analysis import Analysis, Averaged
from kleene.rasp.expressions import (
    Aggregate,
    AggregateFirst,
    AggregateLast,
    AggregateMax,
    AggregateMin,
    IndicesType,
    LengthType,
    LinearSequenceMap,
    RASPExpr,
    Select,
    SequenceMap,
    SOp,
    TokensType,
    is_categorical,
    is_numerical,
)
from kleene.rasp.program import analyse


@dataclass(frozen=True)
class Finding:
    """Something to know of one expression. `of`: "program" where it can raise, "tracr" where Tracr differs."""

    expr: RASPExpr | None
    name: str
    reason: str
    of: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


def validate(
    sop: SOp, *, vocab: Iterable[Any], max_seq_len: int, causal: bool = False, bos: Any = "BOS"
) -> list[Finding]:
    """Find where a program can raise, and what Tracr rejects or computes wrongly. Options as for `kl.compile`.

    Kleene compiles all of it. Tracr's own validator needs an input to find an aggregate of several values; this one
    finds it for every input at once.

    >>> from kleene import rasp
    >>> mean = rasp.Aggregate(rasp.Select(rasp.tokens, rasp.tokens, rasp.Comparison.TRUE), rasp.tokens)
    >>> [finding.of for finding in validate(mean, vocab={1, 2}, max_seq_len=3)]
    ['tracr']
    """
    analysis = analyse(sop, vocab, max_seq_len, causal, bos)
    found = []
    for note in analysis.notes:
        name, _, reason = note.partition(": ")
        found.append(Finding(None, name, reason, "program" if reason.startswith("raises ") else "tracr"))
    seen = {str(finding) for finding in found}
    for expr in every_expression(sop):
        for reason in _differences(analysis, expr):
            finding = Finding(expr, expr.name, reason, "tracr")
            if str(finding) not in seen:
                seen.add(str(finding))
                found.append(finding)
    return found


def every_expression(expr: RASPExpr) -> Iterator[RASPExpr]:
    """An expression and all that it is made of, each once, parts before what they make."""
    todo, done = [(expr, False)], set[int]()
    while todo:
        here, ready = todo.pop()
        if ready:
            yield here
        elif id(here) not in done:
            done.add(id(here))
            todo.append((here, True))
            todo += [(child, False) for child in here.children]


def _differences(analysis: Analysis, expr: RASPExpr) -> Iterator[str]:
    """Why Tracr rejects an expression, or what it computes wrongly."""
    if isinstance(expr, LengthType):
        yield "Tracr has no compiled length; it takes rasp.SelectorWidth of a selector that is always true"
    if isinstance(expr, AggregateFirst | AggregateLast | AggregateMax | AggregateMin):
        yield f"Tracr has no {type(expr).__name__}"
    elif isinstance(expr, Aggregate):
        yield from _aggregate(analysis, expr)
    if isinstance(expr, TokensType | IndicesType) and is_numerical(expr):
        yield "Tracr rejects numerical tokens and indices"
    if isinstance(expr, Select) and not (is_categorical(expr.keys) and is_categorical(expr.queries)):
        yield "Tracr rejects a Select whose keys or queries are numerical"
    if isinstance(expr, SequenceMap):
        parts = [is_numerical(part) for part in (expr.fst, expr.snd, expr)]
        if isinstance(expr, LinearSequenceMap) and not all(parts):
            yield "Tracr rejects a LinearSequenceMap that is not numerical throughout"
        elif not isinstance(expr, LinearSequenceMap) and any(parts):
            yield "Tracr rejects a SequenceMap with numerical inputs or output"


def _aggregate(analysis: Analysis, expr: Aggregate) -> Iterator[str]:
    if is_categorical(expr) != is_categorical(expr.sop):
        yield "Tracr rejects an Aggregate whose encoding differs from that of what it aggregates"
    if is_categorical(expr) and expr.default is not None:
        yield "Tracr rejects a default other than None of a categorical Aggregate"
    if is_numerical(expr) and expr.default != 0:
        yield "Tracr rejects a default other than 0 of a numerical Aggregate"
    values = analysis.of(expr).function
    averaged = len(values.atoms) == 1 and isinstance(values.atoms[0], Averaged) and not values.atoms[0].equal
    domain = analysis.of(expr.sop).domain
    if averaged and is_categorical(expr) and len(domain) > 1:
        yield "can select several positions with different values, where Tracr's network is silently wrong"
    if averaged and is_numerical(expr) and not all(is_number(v) and v in (0, 1) for v in domain):
        yield "averages values other than 0 and 1, which Tracr cannot"
