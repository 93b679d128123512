"""What RASP's own notation knows: its operators and the functions of its library."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

from kleene.errors import ProgramError
from kleene.rasp.expressions import (
    Aggregate,
    Comparison,
    Full,
    Map,
    RASPExpr,
    Select,
    Selector,
    SelectorWidth,
    SequenceMap,
    SOp,
    indices,
    length,
    selector_and,
    selector_not,
    selector_or,
    tokens,
)

MAX_SIZE = 100_000  # of a number or a list that a text computes

PRIMITIVES: tuple[RASPExpr, ...] = ()  # filled below: names of RASP's own are never renamed
RESERVED = frozenset({"tokens_str", "tokens_int", "tokens_float", "tokens_bool", "tokens_asis", "indices", "length"})
RESERVED |= {"True", "False"}

SELECTIONS = {
    "==": Comparison.EQ,
    "<": Comparison.LT,
    ">": Comparison.GT,
    "<=": Comparison.LEQ,
    ">=": Comparison.GEQ,
    "!=": Comparison.NEQ,
}
ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": operator.mod,
    "^": operator.pow,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def is_atom(value: Any) -> bool:
    return isinstance(value, int | float | str)


def described(value: Any) -> str:
    if isinstance(value, SOp):
        return f"the s-op {value.name}"
    if isinstance(value, Selector):
        return f"the selector {value.name}"
    return f"{value!r:.40}" if is_atom(value) else f"a {type(value).__name__.lower()}"


def sequence(value: Any) -> SOp:
    """An s-op, or an atom as the s-op that has it everywhere."""
    if isinstance(value, SOp):
        return value
    if not is_atom(value):
        raise ProgramError(f"{described(value)} where an s-op or an atom should be")
    return Full(value)


def binary(sign: str, left: Any, right: Any) -> Any:
    """An operator between atoms, lists, s-ops or selectors."""
    if sign == "in":
        return contained(left, right)
    if isinstance(left, Selector) or isinstance(right, Selector):
        if sign not in ("and", "or") or not (isinstance(left, Selector) and isinstance(right, Selector)):
            raise ProgramError(f"{sign} between {described(left)} and {described(right)}")
        return selector_and(left, right) if sign == "and" else selector_or(left, right)
    if sign in ("and", "or"):
        both = sign == "and"
        if isinstance(left, SOp) or isinstance(right, SOp):
            joint = (lambda x, y: bool(x and y)) if both else (lambda x, y: bool(x or y))
            return SequenceMap(joint, sequence(left), sequence(right))
        return (left and right) if both else (left or right)
    if not isinstance(left, SOp) and not isinstance(right, SOp):
        return _small(sign, left, right)
    return ARITHMETIC[sign](left, right)


def _small(sign: str, left: Any, right: Any) -> Any:
    """An operator between atoms or lists; results that would not fit are rejected before they are made."""
    if sign == "^" and (abs(left) > 1000 or abs(right) > 20):
        raise ProgramError(f"{left} ^ {right} is too large")
    if sign == "*" and isinstance(left, str | list) | isinstance(right, str | list):
        raise ProgramError("* is for numbers")
    made = ARITHMETIC[sign](left, right)
    if isinstance(made, list | str) and len(made) > MAX_SIZE:
        raise ProgramError(f"a list or text of more than {MAX_SIZE:,}")
    if isinstance(made, int) and abs(made) > 10**60:
        raise ProgramError("a number of more than 60 digits")
    return made


def contained(left: Any, right: Any) -> Any:
    """`s-op in list`, `atom in list` or `atom in s-op`."""
    if isinstance(left, SOp):
        if not isinstance(right, list) or not all(is_atom(v) for v in right):
            raise ProgramError(f"s-op in X: X must be a list of atoms, not {described(right)}")
        return Map(lambda x: x in right, left)
    if isinstance(right, SOp):
        return contains(right, left)
    if not is_atom(left) or not isinstance(right, list | dict):
        raise ProgramError(f"{described(left)} in {described(right)}")
    return left in right


def unary(sign: str, value: Any) -> Any:
    if sign == "not":
        if isinstance(value, Selector):
            return selector_not(value)
        return Map(operator.not_, value) if isinstance(value, SOp) else not value
    return -value if sign == "-" else +value


def choose(condition: SOp, yes: Any, no: Any) -> SOp:
    """`yes if condition else no`, position by position."""
    taken = SequenceMap(lambda c, x: (x,) if c else (), condition, sequence(yes))
    return SequenceMap(lambda t, y: t[0] if t else y, taken, sequence(no)).named("choice")


def item(value: Any, index: Any) -> Any:
    """`list[i]`, `dict[key]`, `text[i]`, or the value of an s-op at one position, at every position."""
    if isinstance(value, SOp):
        if not isinstance(index, int):
            raise ProgramError(f"an s-op is indexed by a whole number, not {described(index)}")
        where = Full(index) if index >= 0 else length + index
        return Aggregate(Select(indices, where, Comparison.EQ), value, default=0).named(f"{value.name}_at_{index}")
    if isinstance(value, dict):
        if index not in value:
            raise ProgramError(f"the dict has no key {described(index)}")
        return value[index]
    if not isinstance(value, list | str) or not isinstance(index, int):
        raise ProgramError(f"{described(value)} cannot be indexed by {described(index)}")
    if not -len(value) <= index < len(value):
        raise ProgramError(f"there is no item {index} of {len(value)}")
    return value[index]


# --- functions that the grammar has of its own ---


def call_aggregate(selector: Any, value: Any, default: Any = 0) -> SOp:
    if not isinstance(selector, Selector):
        raise ProgramError(f"aggregate needs a selector, not {described(selector)}")
    if isinstance(default, RASPExpr):
        raise ProgramError("aggregate: the default must be an atom")
    return Aggregate(selector, sequence(value), default)


def call_round(value: Any) -> Any:
    return round(value)


def call_indicator(value: Any) -> Any:
    return Map(lambda x: 1 if x else 0, sequence(value))


def call_range(*limits: Any) -> list[int]:
    if not 1 <= len(limits) <= 3 or not all(isinstance(limit, int) for limit in limits):
        raise ProgramError("range takes one to three whole numbers")
    made = range(*limits)
    if len(made) > MAX_SIZE:
        raise ProgramError(f"a range of {len(made):,}; {MAX_SIZE:,} is the most")
    return list(made)


def call_zip(*lists: Any) -> list[list[Any]]:
    if not lists or not all(isinstance(one, list) and len(one) == len(lists[0]) for one in lists):
        raise ProgramError("zip takes lists of one length")
    return [list(items) for items in zip(*lists)]


def call_len(value: Any) -> int:
    if not isinstance(value, list | dict | str):
        raise ProgramError(f"len takes a list, not {described(value)}")
    return len(value)


# --- the library ---


def call(function: Callable[..., Any], values: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """Call a function of the library; an error says how many arguments it takes."""
    try:
        signature(function).bind(*values, **named)
    except TypeError:
        known = next((name for name, one in builtins().items() if one is function), "the function")
        arguments = ", ".join(signature(function).parameters)
        raise ProgramError(f"{known} takes {arguments}; it is given {len(values) + len(named)} arguments") from None
    return function(*values, **named)


def selector_width(sel: Selector, assume_bos: Any = False) -> SOp:
    """How many positions are selected; with `assume_bos`, not counting the first, which is a mark."""
    if not isinstance(sel, Selector):
        raise ProgramError(f"selector_width needs a selector, not {described(sel)}")
    if assume_bos:
        return SelectorWidth(selector_and(sel, Select(indices, Full(0), Comparison.NEQ)))
    return SelectorWidth(sel)


def has_focus(selector: Selector) -> SOp:
    """Whether a selector selects anything."""
    return SelectorWidth(selector) > 0


def full() -> Selector:
    return Select(Full(1), Full(1), Comparison.EQ).named("full_s")


def count(sop: Any, value: Any) -> SOp:
    """How often a value occurs in an s-op."""
    return SelectorWidth(Select(sequence(sop), Full(value), Comparison.EQ))


def contains(sop: Any, value: Any) -> SOp:
    return count(sop, value) > 0


def largest(a: Any, b: Any) -> Any:
    return choose(a > b, a, b) if isinstance(a, SOp) or isinstance(b, SOp) else max(a, b)


def smallest(a: Any, b: Any) -> Any:
    return choose(a < b, a, b) if isinstance(a, SOp) or isinstance(b, SOp) else min(a, b)


def average(sop: SOp) -> SOp:
    return Aggregate(full(), sequence(sop), default=0)


def load_from_location(sop: SOp, where: Any) -> SOp:
    return Aggregate(Select(indices, sequence(where), Comparison.EQ), sequence(sop), default=0)


def shift(sop: SOp, by: Any, filler: Any) -> SOp:
    """The s-op moved to the right; what comes in is the filler."""
    return Aggregate(Select(indices + by, indices, Comparison.EQ), sequence(sop), filler)


def _has_other(sop: SOp, value: Any, where: Comparison) -> SOp:
    there = selector_and(Select(sequence(sop), Full(value), Comparison.EQ), Select(indices, indices, where))
    return has_focus(there)


def _and(one: SOp, two: SOp) -> SOp:
    return SequenceMap(lambda x, y: bool(x and y), one, two)


def mark_last_instance(sop: SOp, value: Any) -> SOp:
    """Whether a position has the value and no later one has it."""
    return _and(sequence(sop) == value, ~_has_other(sop, value, Comparison.GT))


def mark_first_instance(sop: SOp, value: Any) -> SOp:
    """Whether a position has the value and no earlier one has it."""
    return _and(sequence(sop) == value, ~_has_other(sop, value, Comparison.LT))


def select_from_last(sop: SOp, value: Any) -> Selector:
    return Select(mark_last_instance(sop, value), Full(True), Comparison.EQ)


def select_from_first(sop: SOp, value: Any) -> Selector:
    return Select(mark_first_instance(sop, value), Full(True), Comparison.EQ)


def sort(sop: SOp, key: SOp) -> SOp:
    """The s-op in ascending order of a key; equal keys keep their order."""
    equal = selector_and(Select(key, key, Comparison.EQ), Select(indices, indices, Comparison.LT))
    place = SelectorWidth(selector_or(Select(key, key, Comparison.LT), equal)).named("target_position")
    return Aggregate(Select(place, indices, Comparison.EQ), sequence(sop), default=0)


def select_next_identical(sop: SOp) -> Selector:
    """Select the next position with the same value."""
    same = Select(sop, sop, Comparison.EQ)
    earlier = SelectorWidth(selector_and(same, Select(indices, indices, Comparison.LT)))
    return selector_and(same, Select(earlier, earlier + 1, Comparison.EQ))


def builtins() -> dict[str, Any]:
    """The names that every text begins with."""
    as_text = Map(str, tokens).named("tokens_str")
    return {
        "tokens": as_text,
        "tokens_str": as_text,
        "tokens_int": Map(int, tokens).named("tokens_int"),
        "tokens_float": Map(float, tokens).named("tokens_float"),
        "tokens_bool": Map(bool, tokens).named("tokens_bool"),
        "tokens_asis": tokens,
        "indices": indices,
        "length": length,
        "True": True,
        "False": False,
        "full_s": full(),
        "selector_width": selector_width,
        "has_focus": has_focus,
        "count": count,
        "contains": contains,
        "max": largest,
        "min": smallest,
        "average": average,
        "load_from_location": load_from_location,
        "shift": shift,
        "mark_last_instance": mark_last_instance,
        "mark_first_instance": mark_first_instance,
        "select_from_last": select_from_last,
        "select_from_first": select_from_first,
        "sort": sort,
        "select_next_identical": select_next_identical,
    }


PRIMITIVES = (tokens, indices, length)
