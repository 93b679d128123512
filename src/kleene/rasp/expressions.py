"""RASP's expressions: s-ops, which map a sequence to a sequence, and selectors, which map it to a matrix of choices.

The names and the meaning are those of Tracr's `rasp` module, so that its programs run unchanged. docs/rasp.md lists
every name, and where the meaning is wider or stricter here.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from kleene.errors import ProgramError

Value = Any  # None, a bool, an int, a float, a str, or a tuple of them
NumericValue = int | float
Predicate = Callable[[Any, Any], Any]  # of a key and a query
SelectorValue = list[list[bool]]
E = TypeVar("E", bound="RASPExpr")
S = TypeVar("S", bound="SOp")

Annotator = Callable[[Any], Any]
DEFAULT_ANNOTATORS: dict[str, Annotator] = {}  # annotation → the function that gives its default value

_numbers = count(1)


class Annotations(Mapping[str, Any]):
    """The annotations of an expression; a missing one comes from `DEFAULT_ANNOTATORS`."""

    def __init__(self, expr: RASPExpr, given: Mapping[str, Any]) -> None:
        self._expr, self._given = expr, dict(given)

    def __getitem__(self, key: str) -> Any:
        if key not in self._given:
            if key not in DEFAULT_ANNOTATORS:
                known = ", ".join(sorted({*self._given, *DEFAULT_ANNOTATORS}))
                raise KeyError(f"unknown annotation {key!r}; choose one of {known}")
            self._given[key] = DEFAULT_ANNOTATORS[key](self._expr)
        return self._given[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)


class RASPExpr:
    """An s-op or a selector. Calling it evaluates it on a sequence."""

    default_name = "expr"

    def __init__(self) -> None:
        self._annotations = Annotations(self, {})
        self.unique_id = next(_numbers)

    def __call__(self, xs: Sequence[Value]) -> Any:
        from kleene.rasp.evaluation import evaluate

        return evaluate(self, xs)

    @property
    def annotations(self) -> Mapping[str, Any]:
        return self._annotations

    @annotations.setter
    def annotations(self, given: Mapping[str, Any]) -> None:
        self._annotations = Annotations(self, given)

    @property
    def name(self) -> str:
        return str(self.annotations["name"])

    @property
    def label(self) -> str:
        return f"{self.name}_{self.unique_id}"

    @property
    def children(self) -> Sequence[RASPExpr]:
        """The expressions that this one is made of."""
        return []

    def named(self: E, name: str) -> E:
        """Name the expression; the variables of its network are called so."""
        return annotate(self, name=name)

    def annotated(self: E, **annotations: Any) -> E:
        return annotate(self, **annotations)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


def annotate(expr: E, **annotations: Any) -> E:
    """Set annotations of an expression; earlier ones stay where the names differ."""
    expr.annotations = {**expr.annotations, **annotations}
    return expr


# --- s-ops ----------------------------------------------------------------------------------------------------


class SOp(RASPExpr):
    """A sequence operation: a function from a sequence to a sequence of the same length.

    Python's operators make new s-ops, with a constant or with another s-op.
    """

    default_name = "sop"
    __hash__ = object.__hash__

    if TYPE_CHECKING:

        def __call__(self, xs: Sequence[Value]) -> list[Any]: ...

    if True:  # for type checkers: the operators are installed below

        def __eq__(self, other: object) -> SOp:  # type: ignore[override]
            return _binary(operator.eq, self, other)

        def __ne__(self, other: object) -> SOp:  # type: ignore[override]
            return _binary(operator.ne, self, other)

    def __lt__(self, other: Any) -> SOp:
        return _binary(operator.lt, self, other)

    def __le__(self, other: Any) -> SOp:
        return _binary(operator.le, self, other)

    def __gt__(self, other: Any) -> SOp:
        return _binary(operator.gt, self, other)

    def __ge__(self, other: Any) -> SOp:
        return _binary(operator.ge, self, other)

    def __add__(self, other: Any) -> SOp:
        return _linear(operator.add, self, other, 1)

    def __radd__(self, other: Any) -> SOp:
        return _linear(operator.add, other, self, 1)

    def __sub__(self, other: Any) -> SOp:
        return _linear(operator.sub, self, other, -1)

    def __rsub__(self, other: Any) -> SOp:
        return _linear(operator.sub, other, self, -1)

    def __mul__(self, other: Any) -> SOp:
        return _binary(operator.mul, self, other)

    def __rmul__(self, other: Any) -> SOp:
        return _binary(operator.mul, other, self)

    def __truediv__(self, other: Any) -> SOp:
        return _binary(operator.truediv, self, other)

    def __rtruediv__(self, other: Any) -> SOp:
        return _binary(operator.truediv, other, self)

    def __floordiv__(self, other: Any) -> SOp:
        return _binary(operator.floordiv, self, other)

    def __rfloordiv__(self, other: Any) -> SOp:
        return _binary(operator.floordiv, other, self)

    def __mod__(self, other: Any) -> SOp:
        return _binary(operator.mod, self, other)

    def __rmod__(self, other: Any) -> SOp:
        return _binary(operator.mod, other, self)

    def __pow__(self, other: Any) -> SOp:
        return _binary(operator.pow, self, other)

    def __rpow__(self, other: Any) -> SOp:
        return _binary(operator.pow, other, self)

    def __and__(self, other: Any) -> SOp:
        return _binary(both, self, other)

    def __rand__(self, other: Any) -> SOp:
        return _binary(both, other, self)

    def __or__(self, other: Any) -> SOp:
        return _binary(either, self, other)

    def __ror__(self, other: Any) -> SOp:
        return _binary(either, self, other)  # in this order, as in Tracr

    def __invert__(self) -> SOp:
        return Map(operator.not_, self)

    def __neg__(self) -> SOp:
        return Map(operator.neg, self)

    def __pos__(self) -> SOp:
        return Map(operator.pos, self)

    def __abs__(self) -> SOp:
        return Map(abs, self)

    def __round__(self, digits: int | None = None) -> SOp:
        return Map(lambda x: round(x) if digits is None else round(x, digits), self)

    def __bool__(self) -> bool:
        raise ProgramError(
            f"'{self.name}' is an s-op, a different value at each position; Python's if, and, or, not and in need one "
            "value: use &, |, ~ and rasp.Map instead"
        )


def both(x: Any, y: Any) -> Any:
    """Python's `x and y`."""
    return x and y


def either(x: Any, y: Any) -> Any:
    """Python's `x or y`."""
    return x or y


def _binary(function: Callable[[Any, Any], Any], left: Any, right: Any) -> SOp:
    if isinstance(left, Selector) or isinstance(right, Selector):
        raise ProgramError(f"cannot apply {function.__name__} to an s-op and a selector")
    if isinstance(left, SOp) and isinstance(right, SOp):
        return Map(lambda x: function(x, x), left) if left is right else SequenceMap(function, left, right)
    if isinstance(left, SOp):
        return Map(lambda x: function(x, right), left)
    return Map(lambda x: function(left, x), right)


def _linear(function: Callable[[Any, Any], Any], left: Any, right: Any, sign: int) -> SOp:
    made = _binary(function, left, right)
    if isinstance(made, SequenceMap):
        made.factors = (1, sign)
    return made


class TokensType(SOp):
    """The input tokens."""

    default_name = "tokens"


class IndicesType(SOp):
    """The index of each position: 0, 1, 2, …"""

    default_name = "indices"


class LengthType(SOp):
    """The length of the input, at every position."""

    default_name = "length"


tokens = TokensType()
indices = IndicesType()
length = LengthType()


def _check_sop(where: str, thing: Any) -> None:
    if not isinstance(thing, SOp):
        raise ProgramError(f"{where}: {thing!r} is not an s-op; a constant is rasp.Full({thing!r})")


def _check_function(where: str, function: Any) -> None:
    if not callable(function) or isinstance(function, RASPExpr):
        raise ProgramError(f"{where}: {function!r} is not a function")


class Map(SOp):
    """A function of one s-op, element by element.

    - `f`: the function; None from the s-op stays None without a call.
    - `inner`: the s-op.
    - `simplify`: join two maps, one after the other, into one. As in Tracr, the second function is then called with a
      None that the first gives; where it raises because of that, None stays None.
    """

    default_name = "map"

    def __init__(self, f: Callable[[Any], Any], inner: SOp, simplify: bool = True) -> None:
        super().__init__()
        _check_function("Map", f)
        _check_sop("Map", inner)
        self.f, self.inner = f, inner
        if simplify and type(inner) is Map:
            before = inner.f
            self.f, self.inner = lambda x: after(f, before(x)), inner.inner

    @property
    def children(self) -> Sequence[RASPExpr]:
        return [self.inner]


def after(function: Callable[[Any], Any], value: Any) -> Any:
    """function(value); None where the value is None and the function raises."""
    try:
        return function(value)
    except Exception:
        if value is None:
            return None
        raise


class SequenceMap(SOp):
    """A function of two s-ops, element by element. None in either gives None, without a call."""

    default_name = "sequence_map"

    def __init__(self, f: Callable[[Any, Any], Any], fst: SOp, snd: SOp) -> None:
        super().__init__()
        _check_function("SequenceMap", f)
        _check_sop("SequenceMap", fst)
        _check_sop("SequenceMap", snd)
        self.f, self.fst, self.snd = f, fst, snd
        self.factors: tuple[Any, Any] | None = None  # where f(x, y) is factors[0]·x + factors[1]·y

    @property
    def children(self) -> Sequence[RASPExpr]:
        return [self.fst, self.snd]


class LinearSequenceMap(SequenceMap):
    """fst_fac · fst + snd_fac · snd."""

    default_name = "linear_sequence_map"

    def __init__(self, fst: SOp, snd: SOp, fst_fac: float, snd_fac: float) -> None:
        super().__init__(lambda x, y: fst_fac * x + snd_fac * y, fst, snd)
        self.fst_fac, self.snd_fac = fst_fac, snd_fac
        self.factors = (fst_fac, snd_fac)


class Full(SOp):
    """One value at every position."""

    default_name = "full"

    def __init__(self, fill: Value) -> None:
        super().__init__()
        self.fill = fill


class ConstantSOp(SOp):
    """Given values, position by position."""

    default_name = "constant_sop"

    def __init__(self, value: Sequence[Value], check_length: bool = True) -> None:
        super().__init__()
        self.value, self.check_length = list(value), check_length


def sop_not(sop: SOp) -> SOp:
    return Map(operator.not_, sop)


class Comparison(enum.Enum):
    """A predicate of a key and a query: key < query, key == query, …

    Where either is None, a comparison does not hold (Tracr's evaluator raises there); TRUE holds.
    """

    EQ = "=="
    LT = "<"
    LEQ = "<="
    GT = ">"
    GEQ = ">="
    NEQ = "!="
    TRUE = "True"
    FALSE = "False"

    def __call__(self, key: Value, query: Value) -> bool:
        if self in (Comparison.TRUE, Comparison.FALSE):
            return self is Comparison.TRUE
        if key is None or query is None:
            return False
        return bool(COMPARISONS[self](key, query))


COMPARISONS: dict[Comparison, Callable[[Any, Any], Any]] = {
    Comparison.EQ: operator.eq,
    Comparison.LT: operator.lt,
    Comparison.LEQ: operator.le,
    Comparison.GT: operator.gt,
    Comparison.GEQ: operator.ge,
    Comparison.NEQ: operator.ne,
}


# --- selectors ------------------------------------------------------------------------------------------------


class Selector(RASPExpr):
    """Which positions each position selects. `&`, `|` and `~` combine selectors."""

    default_name = "selector"

    if TYPE_CHECKING:

        def __call__(self, xs: Sequence[Value]) -> list[list[bool]]: ...

    def __and__(self, other: Selector) -> Selector:
        return selector_and(self, other)

    def __rand__(self, other: Selector) -> Selector:
        return selector_and(other, self)

    def __or__(self, other: Selector) -> Selector:
        return selector_or(self, other)

    def __ror__(self, other: Selector) -> Selector:
        return selector_or(other, self)

    def __invert__(self) -> Selector:
        return selector_not(self)

    def __bool__(self) -> bool:
        raise ProgramError(
            f"'{self.name}' is a selector, a choice of positions; Python's if, and, or and not need one value: use "
            "&, | and ~ instead"
        )


def _check_selector(where: str, thing: Any) -> None:
    if not isinstance(thing, Selector):
        raise ProgramError(f"{where}: {thing!r} is not a selector; make one with rasp.Select(keys, queries, predicate)")


class Select(Selector):
    """Select the positions whose key satisfies `predicate(key, query)` with one's own query."""

    default_name = "select"

    def __init__(self, keys: SOp, queries: SOp, predicate: Predicate) -> None:
        super().__init__()
        _check_sop("Select", keys)
        _check_sop("Select", queries)
        _check_function("Select", predicate)
        self.keys, self.queries, self.predicate = keys, queries, predicate

    @property
    def children(self) -> Sequence[RASPExpr]:
        return [self.keys, self.queries]


class ConstantSelector(Selector):
    """A given matrix: row by row, what each position selects."""

    default_name = "constant_selector"

    def __init__(self, value: SelectorValue, check_length: bool = True) -> None:
        super().__init__()
        self.value, self.check_length = [list(row) for row in value], check_length


class SelectorAnd(Selector):
    """What both selectors select."""

    default_name = "selector_and"

    def __init__(self, fst: Selector, snd: Selector) -> None:
        super().__init__()
        _check_selector(type(self).__name__, fst)
        _check_selector(type(self).__name__, snd)
        self.fst, self.snd = fst, snd

    @property
    def children(self) -> Sequence[RASPExpr]:
        return [self.fst, self.snd]


class SelectorOr(SelectorAnd):
    """What either selector selects."""

    default_name = "selector_or"


class SelectorNot(Selector):
    """What a selector does not select."""

    default_name = "selector_not"

    def __init__(self, inner: Selector) -> None:
        super().__init__()
        _check_selector("SelectorNot", inner)
        self.inner = inner

    @property
    def children(self) -> Sequence[RASPExpr]:
        return [self.inner]


def selector_not(inner: Selector, simplify: bool = True) -> Selector:
    return SelectorNot(inner)


def selector_and(fst: Selector, snd: Selector, simplify: bool = True) -> Selector:
    return SelectorAnd(fst, snd)


def selector_or(fst: Selector, snd: Selector, simplify: bool = True) -> Selector:
    return SelectorOr(fst, snd)


# --- from selectors back to s-ops -----------------------------------------------------------------------------


class SelectorWidth(SOp):
    """How many positions each position selects."""

    default_name = "selector_width"

    def __init__(self, selector: Selector) -> None:
        super().__init__()
        _check_selector("SelectorWidth", selector)
        self.selector = selector

    @property
    def children(self) -> Sequence[RASPExpr]:
        return [self.selector]


class Aggregate(SOp):
    """What the selected positions hold.

    One selected position gives its value. Several give the mean of their numbers; values that are not numbers must then
    be equal. None selected gives `default`.
    """

    default_name = "aggregate"

    def __init__(self, selector: Selector, sop: SOp, default: Value = None) -> None:
        super().__init__()
        _check_selector(type(self).__name__, selector)
        _check_sop(type(self).__name__, sop)
        self.selector, self.sop, self.default = selector, sop, default

    @property
    def children(self) -> Sequence[RASPExpr]:
        return [self.selector, self.sop]


class AggregateMax(Aggregate):
    """The largest value that the selected positions hold; `default` where none is selected."""

    default_name = "aggregate_max"


class AggregateMin(Aggregate):
    """The smallest value that the selected positions hold; `default` where none is selected."""

    default_name = "aggregate_min"


class AggregateFirst(Aggregate):
    """The value of the leftmost selected position; `default` where none is selected."""

    default_name = "aggregate_first"


class AggregateLast(Aggregate):
    """The value of the rightmost selected position; `default` where none is selected."""

    default_name = "aggregate_last"


# --- encodings and names --------------------------------------------------------------------------------------


class Encoding(enum.Enum):
    """How Tracr lays out an s-op. Kleene chooses the layout itself, so an encoding changes nothing here."""

    CATEGORICAL = "categorical"
    NUMERICAL = "numerical"


def numerical(sop: S) -> S:
    return annotate(sop, encoding=Encoding.NUMERICAL)


def categorical(sop: S) -> S:
    return annotate(sop, encoding=Encoding.CATEGORICAL)


def get_encoding(sop: SOp) -> Encoding:
    encoding: Encoding = sop.annotations["encoding"]
    return encoding


def is_numerical(sop: SOp) -> bool:
    return get_encoding(sop) is Encoding.NUMERICAL


def is_categorical(sop: SOp) -> bool:
    return get_encoding(sop) is Encoding.CATEGORICAL


def default_encoding(expr: RASPExpr) -> Encoding:
    if not isinstance(expr, SOp):
        raise TypeError(f"{expr!r} is not an s-op; only s-ops have an encoding")
    return Encoding.CATEGORICAL


def default_name(expr: RASPExpr) -> str:
    return type(expr).default_name


DEFAULT_ANNOTATORS["encoding"] = default_encoding
DEFAULT_ANNOTATORS["name"] = default_name
