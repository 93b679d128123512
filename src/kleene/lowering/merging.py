"""Regions: a statement runs for every path through it, and then the paths meet.

At the end of a region each variable and each local variable holds what the paths have come to: a value, or a tree of
decisions where they differ. A statement that reads such a tree forks again, for itself. `rewriting.py` puts the regions
around the statements of `step` and of the functions that it calls.
"""

from __future__ import annotations

import enum
import operator
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from fractions import Fraction
from functools import partial
from types import BuiltinFunctionType, EllipsisType, FunctionType, MethodType, ModuleType, NoneType
from typing import Any

from kleene.errors import ProgramError, TooManyPaths
from kleene.lowering.decisions import Branch, Leaf, Node, Tree, decision_tree
from kleene.lowering.identity import Opaque, refused, written_by_user
from kleene.lowering.rewriting import rewritten
from kleene.lowering.symbolic import LookupTable, Met, Path, Saved, Symbol, SymbolicState, apply, table, value_key
from kleene.lowering.words import BitsValue, WordValue
from kleene.machines.arrays import ArrayView

MAX_PATHS = 20_000  # of `step`, and of one statement
FROZEN = (bool, int, float, complex, str, bytes, NoneType, Fraction, range, slice, EllipsisType, type, ModuleType)
IMMUTABLE = (*FROZEN, BuiltinFunctionType, LookupTable, Symbol, WordValue, BitsValue, SymbolicState, ArrayView)
LOOKING_UP = {(dict, "get"), (list, "index"), (tuple, "index"), (list, "count"), (tuple, "count")}
LOOKING_UP |= {(str, name) for name in ("index", "find", "rindex", "rfind", "count", "startswith", "endswith")}
CHANGING = {"time", "random", "_random", "secrets", "uuid"}  # modules whose functions differ from call to call
UNBOUND = Leaf("unbound", object())


@dataclass(frozen=True)
class Choice:
    """A local variable that differs between paths that have met."""

    name: str
    tree: Tree


class Merger:
    """The questions that rewritten functions ask while they run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.refused: list[ProgramError] = []  # refused questions about symbols; `step` may have caught the errors

    def region(
        self, local: Mapping[str, Any], names: Sequence[str], touched: Sequence[str], seen: Sequence[str]
    ) -> Region | Alone:
        """Begin a statement.

        - `local`: the local variables.
        - `names`: those that the statement assigns.
        - `touched`: those whose objects it may change.
        - `seen`: those whose objects it only looks at.
        """
        if self.path.trying:  # an error may leave the statement
            return Alone()
        safe = all(_frozen(local[name]) for name in touched if name in local)
        safe = safe and all(_frozen(local[name], inside=True) for name in seen if name in local)
        return Region(self.path, names, {n: local[n] for n in names if n in local}) if safe else Alone()

    def read(self, value: Any) -> Any:
        """The value of a local variable on this path."""
        if type(value) is not Choice:
            return value
        found = self.path.known(value.tree)
        if found is UNBOUND.value:
            raise UnboundLocalError(f"cannot access local variable '{value.name}', which has no value on this path")
        return found

    def callee(self, function: Any) -> Any:
        """The function to call: one that the user wrote, as a region; one that looks a symbol up, without a fork."""
        if type(function) is Symbol:
            function = function.concrete()
        if type(function) is BuiltinFunctionType:
            return self._builtin(function)
        if function is type:
            return lambda value, *rest: self._asks(function, value, *rest)
        if function is Fraction:
            return _applied(function)
        inner = function.__func__ if type(function) is MethodType else function
        if changing(function):
            raise self._impure(function, sys._getframe(1).f_lineno)
        if type(inner) is not FunctionType or not written_by_user(inner.__module__ or ""):
            return function
        made = rewritten(inner, self)
        if made is None:
            return function
        return partial(self._call, made, *([] if inner is function else [function.__self__]))

    def _builtin(self, function: BuiltinFunctionType) -> Any:
        if function is id:
            return lambda value: self._asks(function, value)
        if changing(function):
            raise self._impure(function, sys._getframe(2).f_lineno)
        if function is pow:
            return _applied(function)
        looks_up = (type(function.__self__), function.__name__) in LOOKING_UP
        if not looks_up or not _frozen(function.__self__, inside=True):
            return function

        return _applied(function)

    def _call(self, function: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """Call a function of the user: its paths meet when it returns."""
        if self.path.trying or not all(map(_frozen, (*given, *named.values()))):
            return function(*given, **named)
        region, value = Region(self.path, ("returned",), {}), None
        while region.another():
            value = function(*given, **named)
            region.end({"returned": value})
        return self.read(region.after.get("returned", value))

    @contextmanager
    def trying(self) -> Iterator[None]:
        """The body of a `try` statement: an error of Python is raised where it stands, on the paths that have it."""
        self.path.trying += 1
        try:
            yield
        finally:
            self.path.trying -= 1

    def item(self, container: Any, key: Any) -> Any:
        """`container[key]`; a list, tuple or dict of constants is a table."""
        if type(container) not in (list, tuple, dict) or not _frozen(container, inside=True):
            return container[key]
        keys = key if type(key) is tuple else (key,)
        if not any(type(one) is Symbol for one in keys) or any(issubclass(type(v), Opaque) for v in _values(container)):
            return container[key]
        if type(key) is not tuple:
            return apply(container.__getitem__, key)
        return table(container)[key] if type(container) is dict else container[key]

    def contained(self, value: Any, container: Any) -> Any:
        """`value in container`; among constants, a comparison of its own."""
        constant = type(container) in (str, list, tuple, dict, set, frozenset, range) and type(value) is Symbol
        if constant and not any(issubclass(type(one), Opaque) for one in container):
            return apply(container.__contains__, value)
        return value in container

    def negated(self, value: Any) -> Any:
        return apply(operator.not_, value) if type(value) is Symbol else not value

    def _asks(self, function: Callable[..., Any], value: Any, *rest: Any) -> Any:
        if issubclass(type(value), Opaque):
            if type(value) is not Symbol or value.numeric:
                raise self._refused(f"{function.__name__}()", sys._getframe(2).f_lineno)
            value = value.concrete()
        return function(value, *rest)

    def _refused(self, what: str, line: int) -> ProgramError:
        self.refused.append(refused(self.path.program.spec.name, what, line))
        return self.refused[-1]

    def _impure(self, function: Any, line: int) -> ProgramError:
        program, name = self.path.program.spec.name, getattr(function, "__name__", function)
        said = f"{program}: step calls {name}(), which gives another result each time (line {line}); "
        self.refused.append(ProgramError(f"{said}step must be a function of the state"))
        return self.refused[-1]

    def identical(self, one: Any, other: Any) -> Any:
        """`one is other`; a number is not None, and other questions are rejected for symbols that are numbers."""
        if type(other) is Symbol:
            one, other = other, one
        if other is None and issubclass(type(one), Opaque) and one.numeric:
            return False
        if type(one) is Symbol and not one.numeric and not issubclass(type(other), Opaque):
            return apply(lambda value: value is other, one)
        if issubclass(type(one), Opaque) or issubclass(type(other), Opaque):
            raise self._refused("'is'", sys._getframe(1).f_lineno)
        return one is other

    def in_place(self, operation: str, one: Any, other: Any) -> Any:
        """`one += other`, and so on."""
        return _IN_PLACE[operation](one, other)


_IN_PLACE: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.iadd,
    "Sub": operator.isub,
    "Mult": operator.imul,
    "MatMult": operator.imatmul,
    "Div": operator.itruediv,
    "FloorDiv": operator.ifloordiv,
    "Mod": operator.imod,
    "Pow": operator.ipow,
    "LShift": operator.ilshift,
    "RShift": operator.irshift,
    "BitOr": operator.ior,
    "BitXor": operator.ixor,
    "BitAnd": operator.iand,
}


def changing(function: Any) -> bool:
    """Whether a function asks the clock or draws at random."""
    owner = getattr(function, "__self__", None)
    module = getattr(owner, "__module__", None) or getattr(type(owner), "__module__", None)
    if isinstance(owner, ModuleType) or owner is None:
        module = getattr(function, "__module__", None)
    if module == "datetime":
        return getattr(function, "__name__", "") in ("now", "today", "utcnow")
    return module in CHANGING


def _applied(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that takes symbols: it becomes a table."""

    def applied(*given: Any) -> Any:
        return apply(function, *given) if any(type(one) is Symbol for one in given) else function(*given)

    return applied


class Alone:
    """A statement that runs once: its forks are those of the region around it.

    It may change an object that a local variable holds, and no other path may see that.
    """

    before: Mapping[str, Any] = {}
    after: Mapping[str, Any] = {}
    begun = False

    def __init__(self) -> None:
        self.runs = 0

    def another(self) -> bool:
        self.runs += 1
        return self.runs == 1

    def end(self, local: Mapping[str, Any]) -> None:
        pass


@dataclass(frozen=True)
class Passage:
    """One path through a region, at its end."""

    state: Saved
    local: dict[str, Any]
    branches: list[Branch]


class Region:
    """A statement that runs once for each path through it.

    - `before`: the local variables that it assigns, as they are before it.
    - `after`: as they are when the paths have met.
    - `begun`: whether a path has ended.
    """

    def __init__(self, path: Path, names: Sequence[str], before: dict[str, Any]) -> None:
        self.path, self.names, self.before = path, names, before
        self.after: dict[str, Any] = {}
        self.begun = False
        self.open: list[tuple[int, ...]] = [()]
        self.passages: list[Passage] = []
        self.start, self.outer = path.saved(), (path.prefix, path.choices)

    def another(self) -> bool:
        """Begin the next path. Without one, merge the results of the paths."""
        if not self.open:
            self._meet()
            return False
        self.path.restore(self.start)
        self.path.prefix, self.path.choices, self.path.events = self.open.pop(), [], []
        self.begun = bool(self.passages)
        return True

    def end(self, local: Mapping[str, Any]) -> None:
        """End one path; `local` are the local variables then."""
        path = self.path
        kept = {name: local[name] for name in self.names if name in local}
        self.open += path.others()
        if self.open or self.passages:
            branches = [event for event in path.events if isinstance(event, Branch)]
            self.passages.append(Passage(path.saved(), kept, branches))
        if len(self.passages) + len(self.open) > MAX_PATHS:
            raise TooManyPaths(path.explosion([one.branches for one in self.passages], MAX_PATHS))

    def _meet(self) -> None:
        path = self.path
        if not self.passages:  # a single path goes on as it is
            path.events = [*self.start.events, *path.events]
            path.prefix, path.choices = self.outer
            return
        path.restore(self.start)
        path.prefix, path.choices = self.outer
        path.events.append(Met(tuple(tuple(one.state.events) for one in self.passages)))
        path.read |= frozenset.intersection(*(one.state.read for one in self.passages))
        path.ways += [one.state for one in self.passages if not any(isinstance(e, Met) for e in one.state.events)]
        for name in dict.fromkeys(name for one in self.passages for name in one.state.assigned):
            tree = decision_tree([(one.branches, one.state.assigned.get(name)) for one in self.passages])
            if tree != self.start.assigned.get(name):
                path.assigned[name] = tree
                path.now.pop(name, None)
        for name in self.names:
            tree = decision_tree([(one.branches, _leaf(one.local, name)) for one in self.passages])
            if tree != UNBOUND:
                self.after[name] = Choice(name, tree) if isinstance(tree, Node) else tree.value


def _leaf(local: Mapping[str, Any], name: str) -> Tree:
    if name not in local:
        return UNBOUND
    value = local[name]
    return value.tree if type(value) is Choice else Leaf(value_key(value), value)


def _values(container: Any) -> Any:
    return container.values() if type(container) is dict else container


def _frozen(value: Any, inside: bool = False) -> bool:
    """Whether no statement can change an object; with `inside`, whether none can change what it contains."""
    kind = type(value)
    if kind in IMMUTABLE or issubclass(kind, enum.Enum):
        return True
    if kind is Choice:
        return True
    if inside and kind is dict:
        return all(map(_frozen, value.values()))
    if issubclass(kind, tuple | frozenset) or (inside and kind in (list, set)):
        return all(map(_frozen, value))
    if kind is FunctionType:
        return _pure_closure(value)
    if is_dataclass(kind):
        return bool(vars(kind)["__dataclass_params__"].frozen)
    return kind is MethodType and _frozen(value.__self__) and _frozen(value.__func__)


def _pure_closure(function: FunctionType) -> bool:
    """Whether a function holds no object that it could change. Functions of modules and classes change nothing."""
    if "<locals>" not in function.__qualname__ or not function.__closure__:
        return True
    try:
        return all(
            cell.cell_contents is function or type(cell.cell_contents) is Merger or _frozen(cell.cell_contents)
            for cell in function.__closure__
        )
    except (ValueError, RecursionError):  # an empty cell, or functions that refer to each other
        return False
