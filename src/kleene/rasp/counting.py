"""B-RASP and C-RASP, the forms in which theorems about transformers are stated.

B-RASP has truth values and unique hard attention: the leftmost or the rightmost position that matches. C-RASP has
counts of what is to the left, and linear comparisons of counts. A program is a list of definitions, one a line; the
last one decides whether a prefix is accepted.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kleene.errors import ProgramError
from kleene.rasp.expressions import (
    AggregateFirst,
    AggregateLast,
    Comparison,
    Full,
    Map,
    Select,
    Selector,
    SelectorWidth,
    SequenceMap,
    SOp,
    indices,
    tokens,
)
from kleene.rasp.notation_library import choose

FORMULA, TERM = "formula", "term"
COMPARED: dict[type, Callable[[Any, Any], Any]] = {
    ast.LtE: operator.le,
    ast.Lt: operator.lt,
    ast.GtE: operator.ge,
    ast.Gt: operator.gt,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


def leftmost(selector: Selector, value: SOp, default: Any = None) -> SOp:
    """The value of the leftmost selected position: B-RASP's ◂."""
    return AggregateFirst(selector, value, default)


def rightmost(selector: Selector, value: SOp, default: Any = None) -> SOp:
    """The value of the rightmost selected position: B-RASP's ▸."""
    return AggregateLast(selector, value, default)


@dataclass(frozen=True)
class Fragment:
    """The fragment in which a program lies: its name, the theorem about it, and how deeply attention nests."""

    name: str
    theorem: str
    counts: int  # nested counting terms
    attention: int  # nested leftmost and rightmost

    def __str__(self) -> str:
        return f"{self.name}: {self.theorem} (counts nest {self.counts} deep, hard attention {self.attention} deep)"


THEOREMS = {
    "position-wise": "each position decides from its own token alone",
    "B-RASP": "star-free languages, those of masked hard-attention transformers (Yang, Chiang & Angluin 2024)",
    "C-RASP": "contained in what softmax transformers with future masking recognise (Yang & Chiang 2024)",
    "B-RASP with counting": "both kinds of attention; no fragment of either theorem holds it",
}


class CRasp(Map):
    """An s-op that says whether each prefix is accepted, and what its program defines.

    - `fragment`: where the program lies.
    - `definitions`: every name with its s-op.
    """

    default_name = "accepts"

    def __init__(self, formula: SOp, definitions: dict[str, SOp], fragment: Fragment) -> None:
        super().__init__(bool, formula, simplify=False)
        self.definitions, self.fragment = definitions, fragment

    def accepts(self, word: Sequence[Any]) -> bool:
        """Whether a word is accepted: what its last position says."""
        return bool(self(word)[-1])


@dataclass(frozen=True)
class Typed:
    """An s-op, whether it is a formula or a term, and how deeply counts and hard attention nest in it."""

    sop: SOp
    kind: str
    counts: int = 0
    attention: int = 0
    constant: int | None = None


def crasp(text: str) -> CRasp:
    """Read a program of B-RASP or C-RASP.

    A line is `name = expression`. Formulas: a token in quotes (it is here), `and`, `or`, `not`, comparisons of terms,
    and `last(S, V)`, `first(S, V)`, `last(S, V, D)`: V at the rightmost or leftmost earlier position where S holds,
    else D.
    Terms: whole numbers, `count(F)` (the positions up to here where F holds), sums, differences, multiples, and
    `t if F else t`.

    >>> balanced = crasp('''
    ... depth = count("(") - count(")")
    ... accept = depth == 0 and count(depth < 0) == 0
    ... ''')
    >>> balanced.accepts("(())"), balanced.accepts("())("), balanced.fragment.name
    (True, False, 'C-RASP')
    """
    known: dict[str, Typed] = {}
    last: str | None = None
    for number, line in enumerate(text.splitlines(), 1):
        plain = line.strip()
        if plain and not plain.startswith("#"):
            last = _define(plain, number, known)
    if last is None:
        raise ProgramError('crasp: the text has no definitions; write lines such as accept = count("a") > 2')
    found = known[last]
    if found.kind != FORMULA:
        raise ProgramError(f"crasp: the last definition, '{last}', is a count; it must be a formula")
    return CRasp(found.sop, {name: typed.sop for name, typed in known.items()}, _fragment(found))


def _fragment(found: Typed) -> Fragment:
    name = {
        (False, False): "position-wise",
        (False, True): "B-RASP",
        (True, False): "C-RASP",
        (True, True): "B-RASP with counting",
    }[found.counts > 0, found.attention > 0]
    return Fragment(name, THEOREMS[name], found.counts, found.attention)


def _define(line: str, number: int, known: dict[str, Typed]) -> str:
    try:
        tree = ast.parse(line).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ProgramError(f"crasp: line {number}: {line!r:.60} is not name = expression") from None
    statement = tree[0] if len(tree) == 1 else None
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        raise ProgramError(f"crasp: line {number}: {line!r:.60} is not name = expression")
    target = statement.targets[0]
    if not isinstance(target, ast.Name) or target.id in ("count", "first", "last"):
        raise ProgramError(f"crasp: line {number}: what is left of = must be a new name")
    made = _Reader(number, known).read(statement.value)
    made.sop.named(target.id)
    known[target.id] = made
    return target.id


class _Reader:
    """Turn a Python expression tree into s-ops. Only the forms of the language are read; nothing is run."""

    def __init__(self, line: int, known: dict[str, Typed]) -> None:
        self.line, self.known = line, known

    def wrong(self, what: str) -> ProgramError:
        return ProgramError(f"crasp: line {self.line}: {what}")

    def read(self, node: ast.expr) -> Typed:
        method = getattr(self, f"_read_{type(node).__name__}", None)
        if method is None:
            raise self.wrong(f"'{ast.unparse(node)}' is no formula and no term")
        found: Typed = method(node)
        return found

    def of(self, node: ast.expr, kind: str) -> Typed:
        found = self.read(node)
        if found.kind != kind:
            raise self.wrong(f"'{ast.unparse(node)}' is a {found.kind} where a {kind} should be")
        return found

    def _joint(self, function: Callable[..., SOp], kind: str, *parts: Typed) -> Typed:
        counts, attention = max(p.counts for p in parts), max(p.attention for p in parts)
        return Typed(function(*(p.sop for p in parts)), kind, counts, attention)

    def _read_Constant(self, node: ast.Constant) -> Typed:
        if isinstance(node.value, bool):
            return Typed(Full(node.value), FORMULA)
        if isinstance(node.value, int):
            return Typed(Full(node.value), TERM, constant=node.value)
        if isinstance(node.value, str):
            return Typed(tokens == node.value, FORMULA)
        raise self.wrong(f"{node.value!r} is no token and no whole number")

    def _read_Name(self, node: ast.Name) -> Typed:
        if node.id not in self.known:
            raise self.wrong(f"'{node.id}' is not defined above")
        return self.known[node.id]

    def _read_BoolOp(self, node: ast.BoolOp) -> Typed:
        parts = [self.of(value, FORMULA) for value in node.values]
        function = (lambda x, y: bool(x and y)) if isinstance(node.op, ast.And) else (lambda x, y: bool(x or y))
        made = parts[0]
        for part in parts[1:]:
            made = self._joint(lambda a, b: SequenceMap(function, a, b), FORMULA, made, part)
        return made

    def _read_UnaryOp(self, node: ast.UnaryOp) -> Typed:
        if isinstance(node.op, ast.Not):
            return self._joint(lambda a: Map(operator.not_, a), FORMULA, self.of(node.operand, FORMULA))
        if isinstance(node.op, ast.USub):
            inner = self.of(node.operand, TERM)
            made = self._joint(lambda a: -a, TERM, inner)
            return made if inner.constant is None else Typed(made.sop, TERM, constant=-inner.constant)
        raise self.wrong(f"'{ast.unparse(node)}' is no formula and no term")

    def _read_Compare(self, node: ast.Compare) -> Typed:
        if len(node.ops) != 1 or type(node.ops[0]) not in COMPARED:
            raise self.wrong(f"'{ast.unparse(node)}': compare two terms with <=, <, >=, >, == or !=")
        function = COMPARED[type(node.ops[0])]
        sides = self.of(node.left, TERM), self.of(node.comparators[0], TERM)
        return self._joint(lambda a, b: function(a, b), FORMULA, *sides)

    def _read_BinOp(self, node: ast.BinOp) -> Typed:
        left, right = self.of(node.left, TERM), self.of(node.right, TERM)
        if isinstance(node.op, ast.Add):
            return self._joint(lambda a, b: a + b, TERM, left, right)
        if isinstance(node.op, ast.Sub):
            return self._joint(lambda a, b: a - b, TERM, left, right)
        if isinstance(node.op, ast.Mult) and (left.constant is not None or right.constant is not None):
            return self._joint(lambda a, b: a * b, TERM, left, right)
        raise self.wrong(f"'{ast.unparse(node)}': terms are added, subtracted, or multiplied by a whole number")

    def _read_IfExp(self, node: ast.IfExp) -> Typed:
        test, yes = self.of(node.test, FORMULA), self.read(node.body)
        no = self.of(node.orelse, yes.kind)
        return self._joint(choose, yes.kind, test, yes, no)

    def _read_Call(self, node: ast.Call) -> Typed:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        given = [self.of(argument, FORMULA) for argument in node.args]
        if name == "count" and len(given) == 1:
            here = Select(indices, indices, Comparison.LEQ)
            chosen = Select(given[0].sop, Full(True), Comparison.EQ) & here
            return Typed(SelectorWidth(chosen), TERM, given[0].counts + 1, given[0].attention)
        if name in ("first", "last") and len(given) in (2, 3):
            return self._attention(name, *given)
        raise self.wrong(f"'{ast.unparse(node)}': there are count(F), first(S, V[, D]) and last(S, V[, D])")

    def _attention(self, name: str, score: Typed, value: Typed, other: Typed | None = None) -> Typed:
        earlier = Select(indices, indices, Comparison.LT)
        chosen = Select(score.sop, Full(True), Comparison.EQ) & earlier
        cls = AggregateFirst if name == "first" else AggregateLast
        parts = [part for part in (score, value, other) if part is not None]
        counts, attention = max(p.counts for p in parts), max(p.attention for p in parts) + 1
        if other is None:
            return Typed(cls(chosen, value.sop, default=False), FORMULA, counts, attention)
        found = cls(chosen, Map(lambda x: (x,), value.sop), default=())
        return Typed(SequenceMap(lambda f, d: f[0] if f else d, found, other.sop), FORMULA, counts, attention)
