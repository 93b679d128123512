"""Finite-domain symbolic execution of `step`, by operator overloading (its source may be unavailable).

`step` runs once for each path. Reading a variable gives a `Symbol`: a function of one separable form. A branch on a
symbol forks the path and limits the values that variables may have on it. The result is the list of paths, each with
its branches, the heads that it read and the variables that it assigned.
"""

from __future__ import annotations

import math
import operator
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Any, Generic, TypeVar, overload

import numpy as np

from kleene.errors import ProgramError, RangeError, StepError
from kleene.lowering.decisions import Branch, Leaf, Node, Tree, exact_number, separable
from kleene.lowering.forms import Form, Grid, Number, joined, variable_form
from kleene.lowering.identity import Opaque
from kleene.lowering.words import (
    BitsValue,
    Terms,
    WordAssignment,
    WordPredicate,
    WordValue,
    known_comparison,
    learn_comparison,
    ordinary,
)
from kleene.lowering.words import assign as assign_word
from kleene.machines.arrays import view
from kleene.machines.bitwords import bit_of_name
from kleene.machines.interpreter import checked_write, class_constant, executing_line, remedy
from kleene.machines.kinds import Value, Word
from kleene.machines.program import ProgramClass

T = TypeVar("T")
K = TypeVar("K", contravariant=True)
V = TypeVar("V", covariant=True)

MAX_TABLE = 1_000_000
MOST_TIED = 2_000_000  # states of variables that conditions tie together and that are enumerated
MOST_TIED_BITS = 16  # bits of words that conditions tie together and that are enumerated


@dataclass(frozen=True)
class Raised:
    """An entry in the table of a symbol: Python raised this error for that value of the form."""

    error: Exception


@dataclass(frozen=True)
class HeadRead:
    """The first time that a path reads a head."""

    head: str


@dataclass(frozen=True)
class Assignment:
    """variable := kind.values[table[value of form]], written by this line of `step`."""

    form: Form
    table: tuple[tuple[Number, int], ...]
    line: int | None

    @cached_property
    def results(self) -> dict[Number, int]:
        return dict(self.table)


class PathDomains(dict[str, frozenset[int]]):
    """The values that variables may have on a path; a bit that is not limited has both."""

    def __missing__(self, name: str) -> frozenset[int]:
        if bit_of_name(name) is None:
            raise KeyError(name)
        return frozenset((0, 1))


@dataclass(frozen=True)
class Met:
    """Paths through a statement, which have met after it: the events of each."""

    paths: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Saved:
    """What a path knows and has done at some point."""

    events: list[Branch | HeadRead | Met]
    assigned: dict[str, Tree]
    now: dict[str, Any]
    domains: PathDomains
    tests: list[tuple[Form, frozenset[Number]]]
    chain: list[Branch]
    word_bounds: dict[Terms, tuple[int, int]]
    word_not: set[tuple[Terms, int]]
    read: frozenset[str]


@dataclass
class Path:
    """One way through `step`: its events in order, and what it assigned."""

    program: ProgramClass
    prefix: Sequence[int] = ()
    events: list[Branch | HeadRead | Met] = field(default_factory=list)
    assigned: dict[str, Tree] = field(default_factory=dict)
    now: dict[str, Any] = field(default_factory=dict)  # what `step` reads from variables and heads
    domains: PathDomains = field(default_factory=PathDomains)
    tests: list[tuple[Form, frozenset[Number]]] = field(default_factory=list)
    chain: list[Branch] = field(default_factory=list)  # the forks that lead here, those of statements included
    choices: list[tuple[int, int]] = field(default_factory=list)  # (taken, how many) at each fork
    predicates: dict[str, WordPredicate] = field(default_factory=dict)  # comparisons of words
    word_bounds: dict[Terms, tuple[int, int]] = field(default_factory=dict)
    word_not: set[tuple[Terms, int]] = field(default_factory=set)
    read: frozenset[str] = frozenset()  # the heads that were read for certain
    ways: list[Saved] = field(default_factory=list)  # paths through statements, at their end
    reached: Mapping[str, frozenset[int]] | None = None  # the values that variables have in runs; None: any
    comparisons: dict[Any, Any] = field(default_factory=dict)  # of symbols with constants
    trying: int = 0  # how many `try` statements are around what runs now

    def __post_init__(self) -> None:
        kinds = self.program.spec.kinds
        every = {n: frozenset(range(len(kind))) for n, kind in kinds.items() if not isinstance(kind, Word)}
        self.domains = PathDomains(every if self.reached is None else {n: self.reached[n] for n in every})

    def saved(self) -> Saved:
        """Return what the path knows and has done, to go back to."""
        return Saved(
            list(self.events),
            dict(self.assigned),
            dict(self.now),
            PathDomains(self.domains),
            list(self.tests),
            list(self.chain),
            dict(self.word_bounds),
            set(self.word_not),
            self.read,
        )

    def restore(self, saved: Saved) -> None:
        """Go back to what the path knew and had done."""
        self.events, self.assigned, self.now = list(saved.events), dict(saved.assigned), dict(saved.now)
        self.domains, self.tests, self.chain = PathDomains(saved.domains), list(saved.tests), list(saved.chain)
        self.word_bounds, self.word_not = dict(saved.word_bounds), set(saved.word_not)
        self.read = saved.read

    def others(self) -> list[tuple[int, ...]]:
        """The choices that lead to the paths that fork off this one."""
        found: list[tuple[int, ...]] = []
        for place in range(len(self.prefix), len(self.choices)):
            before = tuple(taken for taken, _ in self.choices[:place])
            found += [(*before, other) for other in range(1, self.choices[place][1])]
        return found

    def explosion(self, paths: Iterable[Sequence[Branch]], most: int) -> str:
        """The message where there are too many paths."""
        forks = Counter((branch.line, branch.form.describe()) for path in paths for branch in path)
        worst = "; ".join(f"line {line} on {form}" for (line, form), _ in forks.most_common(3))
        return (
            f"{self.program.spec.name}: step has more than {most:,} paths; the branches that multiply: {worst} "
            "(kl.table(T)[z.x] and kl.among(z.x, values) do not branch)"
        )

    def attainable(self, form: Form) -> Iterable[Number]:
        """The values that a form can have on this path, exactly.

        Variables are enumerated together only where a condition on several of them ties them.
        """
        names, tests = self._tied(form.variables)
        bits = sum(bit_of_name(name) is not None for name in names)
        if not tests or bits > MOST_TIED_BITS or prod(len(self.domains[name]) for name in names) > MOST_TIED:
            return form.values_on(self.domains)  # with many values: some that no state has may be among these
        grid = Grid(names, self.domains)
        found = np.unique(np.broadcast_to(grid.evaluate(form), grid.shape)[grid.where(tests)])
        return [value if form.denominator == 1 else Fraction(value, form.denominator) for value in found.tolist()]

    def _tied(self, names: Iterable[str]) -> tuple[set[str], list[tuple[Form, frozenset[Number]]]]:
        """The variables that conditions tie to these, and those conditions."""
        tied, grown = set(names), True
        tests: list[tuple[Form, frozenset[Number]]] = []
        while grown:
            tests = [test for test in self.tests if tied & set(test[0].variables)]
            larger = tied.union(*(form.variables for form, _ in tests))
            grown, tied = larger != tied, larger
        return tied, tests

    def example(self, form: Form, value: Number) -> str:
        """Values of variables on this path for which a form has a value, for an error message."""
        names, tests = self._tied(form.variables)
        grid = Grid(names, self.domains)
        place = np.argwhere(grid.where([*tests, (form, [value])]))[0]
        spec = self.program.spec
        values = {name: kind.values for name, kind in spec.kinds.items() if not isinstance(kind, Word)}
        values |= {name: head.read_values for name, head in spec.heads.items() if head.counts}
        chosen = {name: int(grid.choices[i][place[i]]) for i, name in enumerate(grid.names)}
        found = {name: values[name][index] if name in values else index for name, index in chosen.items()}
        return ", ".join(f"{name} = {shown(chosen)}" for name, chosen in found.items())

    def fork(self, symbol: Symbol, key: Callable[[Any], Any]) -> Any:
        """Take one of the classes of values that `key` distinguishes. Other paths take the others."""
        classes: dict[Any, list[Number]] = {}
        for value in self.attainable(symbol.form):
            classes.setdefault(key(self.defined(symbol, value)), []).append(value)
        outcomes = list(classes)
        if len(outcomes) == 1:
            return outcomes[0]
        for value in symbol.form.values:  # classify also the values that this path cannot reach, so that
            result = symbol.at(value)  # equal branches of different paths are equal data
            if not isinstance(result, Raised) and (outcome := key(result)) in classes:
                classes[outcome].append(value)
        sets = tuple(frozenset(classes[outcome]) for outcome in outcomes)
        taken = self.branch(symbol.form, sets)
        self.limit(symbol.form, sets[taken])
        return outcomes[taken]

    def branch(self, form: Form, classes: tuple[frozenset[Number], ...]) -> int:
        """Record a fork and say which class this path takes."""
        place = len(self.choices)
        taken = self.prefix[place] if place < len(self.prefix) else 0
        self.choices.append((taken, len(classes)))
        branch = Branch(form, classes, taken, executing_line(self.program))
        self.events.append(branch)
        self.chain.append(branch)
        return taken

    def limit(self, form: Form, allowed: frozenset[Number]) -> None:
        """Limit the form to these values for the rest of the path."""
        if len(form.terms) == 1:
            ((name, table),) = form.terms
            kept = frozenset(i for i in self.domains[name] if form.constant + table[i] in allowed)
            self.domains[name] = kept
        else:
            self.tests.append((form, allowed))

    def feasible(self, node: Node) -> list[tuple[frozenset[Number], Tree]]:
        """The children of a node that this path can come to."""
        predicate = self._predicate(node.form)
        if predicate is not None:
            known = known_comparison(self, predicate)
            return [pair for pair in node.children if known is None or int(known) in pair[0]]
        values = frozenset(self.attainable(node.form))
        return [pair for pair in node.children if pair[0] & values]

    def _predicate(self, form: Form) -> WordPredicate | None:
        return self.predicates.get(form.variables[0]) if len(form.terms) == 1 else None

    def enter(self, form: Form, allowed: frozenset[Number]) -> None:
        """Limit the path to a child of a node."""
        predicate = self._predicate(form)
        if predicate is None:
            self.limit(form, allowed)
        elif len(allowed) == 1:
            learn_comparison(self, predicate, 1 in allowed)

    def resolved(self, tree: Tree) -> Tree:
        """The leaf of a tree on this path. Other paths take the others."""
        while isinstance(tree, Node):
            children = self.feasible(tree)
            taken = 0
            if len(children) > 1:
                taken = self.branch(tree.form, tuple(allowed for allowed, _ in children))
                self.enter(tree.form, children[taken][0])
            tree = children[taken][1]
        return tree

    def outcomes(self, tree: Tree) -> Iterator[Tree]:
        """The leaves of a tree that this path can come to, one after the other; the path is limited to each in turn."""
        if not isinstance(tree, Node):
            yield tree
            return
        for allowed, child in self.feasible(tree):
            before = self.saved()
            self.enter(tree.form, allowed)
            yield from self.outcomes(child)
            self.restore(before)

    def value(self, name: str) -> Any:
        """What `step` reads from a variable."""
        tree = self.assigned.get(name)
        return self.known(tree, _fresh(self, name)) if isinstance(tree, Node) or tree is None else tree.value

    def known(self, tree: Tree, kept: Any = None) -> Any:
        """The result of a tree: a form, if one has its value everywhere; otherwise its value on this path.

        - `kept`: the value where the tree has None.
        """
        if isinstance(tree, Node):
            form = self._separable(tree, kept)
            if form is not None:
                return Symbol(self, form) if form.terms else form.constant
            function = function_of_one(tree, lambda leaf: kept if leaf is None else leaf.value)
            if function is not None and function[0] in self.program.spec.kinds:
                return Symbol.simplified(
                    self, variable_form(function[0], len(function[1])), dict(enumerate(function[1]))
                )
            tree = self.resolved(tree)
        return kept if tree is None else tree.value

    def _separable(self, tree: Tree, kept: Any) -> Form | None:
        kinds = self.program.spec.kinds
        kept_form = self._single(_form_of(kept))
        return separable(tree, lambda leaf: kept_form if leaf is None else _form_of(leaf.value), kinds.get)

    def _single(self, form: Form | None) -> Form | None:
        """A form; the number, where it can have only one on this path."""
        if form is None or len(form.terms) != 1 or len(values := list(self.attainable(form))) != 1:
            return form
        return Form(values[0], ())

    def form_of(self, tree: Tree, name: str) -> Form | None:
        """The form that a variable has everywhere, where there is one."""
        return self._separable(tree, _fresh(self, name))

    def defined(self, symbol: Symbol, value: Number) -> Any:
        """The value of a symbol where its form has `value`. Raise an error with an example where Python raised."""
        result = symbol.at(value)
        if isinstance(result, Raised):
            example = self.example(symbol.form, value)
            raise StepError(
                f"{self.program.spec.name}: step raises {type(result.error).__name__}: {result.error} "
                f"(for {example}{_place(self.program)})"
            )
        return result

    def assign(self, name: str, value: Any) -> Any:
        """Record an assignment, and return what `step` reads from the variable afterwards."""
        spec, line = self.program.spec, executing_line(self.program)
        if name not in spec.variables:
            checked_write(spec, name, value)  # says so
        if isinstance(spec.variables[name].kind, Word):
            assigned, value = assign_word(self, name, value, line)
            return self._written(name, assigned, value)
        value = ordinary(value)
        if isinstance(value, WordValue | BitsValue):
            raise ProgramError(f"{spec.name}: step writes a word expression to '{name}', which is not a word")
        if not isinstance(value, Symbol):
            value = checked_write(spec, name, value)
            index = spec.variables[name].kind.index(value)
            assert index is not None
            return self._written(name, Assignment(Form(0, ()), ((0, index),), line), value)
        variable = spec.variables[name]
        kind, table, written = variable.kind, {}, {}
        for at in self.attainable(value.form):
            result = self.defined(value, at)
            index = variable.write(result)
            if index is None:
                raise RangeError(
                    f"{spec.name}: step writes {shown(result)} to '{name}', outside {kind.describe()} "
                    f"(for {self.example(value.form, at)}{_place(self.program)}{remedy(spec, name, result)})"
                )
            table[at], written[at] = index, kind.values[index]
        for at in value.form.values:  # values that this path cannot reach, too, where the result is in range
            index = None if isinstance(value.at(at), Raised) else variable.write(value.at(at))
            if index is not None:
                table[at] = index
        if self.reached is not None:
            fill_gaps(table, value.form.values)
        made = Assignment(value.form, tuple(sorted(table.items())), line)
        return self._written(name, made, Symbol.simplified(self, value.form, written))

    def _written(self, name: str, assignment: Assignment | WordAssignment, value: Any) -> Any:
        key = replace(assignment, line=None), value_key(value)  # the value is simplified for this path
        self.assigned[name] = Leaf(key, value, assignment)
        return value


def function_of_one(tree: Tree, value_of: Callable[[Tree], Any]) -> tuple[str, list[Any]] | None:
    """A tree that depends on one variable alone: the variable, and what the tree comes to for each of its values."""
    names: set[str] = set()
    for form, values in _parts(tree, value_of):
        names.update(form.variables)
        if len(names) > 1 or any(issubclass(type(value), Opaque) and type(value) is not Symbol for value in values):
            return None
    if not names:
        return None
    (name,) = names
    size = next(len(form.tables[name]) for form, _ in _parts(tree, value_of) if form.terms)
    found: list[Any] = []
    for index in range(size):
        at = tree
        while isinstance(at, Node):
            value = at.form.at({name: index})
            at = next((child for allowed, child in at.children if value in allowed), at.children[0][1])
        result = value_of(at)
        if type(result) is Symbol:
            result = result.at(result.form.at({name: index}))
        if not _constant(result):
            return None
        found.append(result)
    return name, found


def _constant(value: Any) -> bool:
    if type(value) is tuple:
        return all(map(_constant, value))
    return type(value) in (bool, int, str, Fraction, type(None), Raised)


def _parts(tree: Tree, value_of: Callable[[Tree], Any]) -> Iterator[tuple[Form, tuple[Any, ...]]]:
    """The forms that a tree depends on, each with the value of its leaf."""
    if isinstance(tree, Node):
        yield tree.form, ()
        for _, child in tree.children:
            yield from _parts(child, value_of)
    else:
        value = value_of(tree)
        yield (value.form if type(value) is Symbol else Form(0, ())), (value,)


def _form_of(value: Any) -> Form | None:
    """The form of a number, or of a symbol that is a form by itself."""
    if type(value) is Symbol:
        return value.form if value.pure and not value.boolean else None
    return Form(value, ()) if exact_number(value) else None


def value_key(value: Any) -> Hashable:
    """Equal keys: values that no Python code can distinguish."""
    kind = type(value)
    if kind is Symbol:
        key: Hashable = value.key
        return key
    if kind is tuple:
        return kind, tuple(map(value_key, value))
    return (kind, value) if kind in (bool, int, str, Fraction, frozenset, type(None)) else (kind, id(value))


def fill_gaps(table: dict[Number, int], every: Sequence[Number]) -> None:
    """Give values that no run reaches the result of a neighbour: any result is right, and an equal one costs
    nothing."""
    known = sorted(table)
    for value in every:
        if value not in table:
            table[value] = table[known[max(0, bisect_right(known, value) - 1)]]


def shown(value: Any) -> str:
    return "{" + ", ".join(map(str, sorted(value))) + "}" if isinstance(value, frozenset) else str(value)


def _place(program: ProgramClass) -> str:
    line = executing_line(program)
    return f"; line {line}" if line is not None else ""


class Symbol(Opaque):
    """An unknown value: a function of one separable form."""

    def __init__(
        self, path: Path, form: Form, table: dict[Number, Any] | None = None, *, boolean: bool = False
    ) -> None:
        self.path, self.form, self.table = path, form, table  # table None: the symbol is the value of the form itself
        self.boolean = boolean  # without a table: False and True, coded as 0 and 1
        self._key: Hashable = None

    @classmethod
    def simplified(cls, path: Path, form: Form, table: dict[Number, Any]) -> Any:
        """A symbol in its simplest shape: a constant, a form by itself, or a function of a form."""
        results = list(table.values())
        first = results[0]
        if not isinstance(first, Raised) and all(_identical(first, result) for result in results):
            return first
        boolean = all(isinstance(result, bool) for result in results)
        if boolean or all(isinstance(r, int | Fraction) and not isinstance(r, bool) for r in results):
            if all(value == result for value, result in table.items()):
                return cls(path, form, boolean=boolean)
            if len(form.terms) == 1:
                ((name, entries),) = form.terms
                if all(form.constant + entry in table for entry in entries):
                    values = tuple(table[form.constant + entry] + 0 for entry in entries)
                    return cls(path, Form.of(0, {name: values}), boolean=boolean)
        made = cls(path, form, table)
        if path.trying:
            made._raise_here()
        return made

    def _raise_here(self) -> None:
        """Fork on whether Python raised an error, and raise it on the path where it did: `step` may catch it."""
        table = self.table or {}
        reached = set(self.path.attainable(self.form))
        errors = {value: result.error for value, result in table.items() if isinstance(result, Raised)}
        if any(value in reached for value in errors):
            said = {value: repr(errors[value]) if value in errors else "" for value in table}
            what = type(self)(self.path, self.form, said).concrete()
            if what:
                raise next(error for error in errors.values() if repr(error) == what)

    def at(self, value: Number) -> Any:
        if self.table is None:
            return bool(value) if self.boolean else value
        return self.table.get(value, _UNREACHED)

    def concrete(self) -> Any:
        """Fork on the value, and return the value on this path."""
        return self.path.fork(self, lambda value: (type(value), value))[1]

    @property
    def program_name(self) -> str:
        return self.path.program.spec.name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.concrete(), name)

    @property
    def key(self) -> Hashable:
        if self._key is None:
            entries = self.table and tuple((at, value_key(entry)) for at, entry in self.table.items())
            self._key = Symbol, self.form, self.boolean, entries
        return self._key

    @property
    def numeric(self) -> bool:
        """Whether every value is a number: then it stands for an ordinary variable."""
        return self.table is None or all(
            isinstance(one, int | float | Fraction | Raised) for one in self.table.values()
        )

    @property
    def pure(self) -> bool:
        return self.table is None

    def __bool__(self) -> bool:
        return bool(self.path.fork(self, bool))

    def __index__(self) -> int:
        return operator.index(self.concrete())

    def __int__(self) -> int:
        return int(self.concrete())

    def __float__(self) -> float:
        return float(self.concrete())

    def __hash__(self) -> int:
        return hash(self.concrete())

    def __len__(self) -> int:
        return len(self.concrete())

    def __call__(self, *given: Any, **named: Any) -> Any:
        return self.concrete()(*given, **named)

    def __iter__(self) -> Any:
        return iter(self.concrete())

    def __contains__(self, member: Any) -> bool:
        return bool(apply(lambda members, one: one in members, self, member))

    def __getitem__(self, key: Any) -> Any:
        return apply(operator.getitem, self, key)

    def __eq__(self, other: object) -> Any:
        return _compare(operator.eq, self, ordinary(other))

    def __ne__(self, other: object) -> Any:
        return _compare(operator.ne, self, ordinary(other))

    def __neg__(self) -> Any:
        return _multiply(self, -1)

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        if modulus is None:
            return _unless_word(lambda a, b: apply(operator.pow, a, b), self, other)
        return apply(pow, self, ordinary(other), ordinary(modulus))

    def __round__(self, *digits: int) -> Any:
        return apply(lambda value: round(value, *digits), self)

    def __divmod__(self, other: Any) -> Any:
        return apply(operator.floordiv, self, other), apply(operator.mod, self, other)

    def __rdivmod__(self, other: Any) -> Any:
        return apply(operator.floordiv, other, self), apply(operator.mod, other, self)

    def __str__(self) -> str:
        return str(self.concrete())

    def __format__(self, how: str) -> str:
        return format(self.concrete(), how)

    def __repr__(self) -> str:
        return repr(self.concrete())


def _identical(one: Any, other: Any) -> bool:
    """Whether no Python code can distinguish two values. Values count as different where this cannot be decided."""
    if type(one) is not type(other) or one != other:
        return False
    return type(one) in (bool, int, str, Fraction) or repr(one) == repr(other)


_UNREACHED = Raised(ProgramError("a value that no path reaches"))


def apply(function: Callable[..., Any], *arguments: Any) -> Any:
    """Apply a Python function to symbols and constants, and return the result as a symbol."""
    symbols = [argument for argument in arguments if isinstance(argument, Symbol)]
    path = symbols[0].path
    form, table = symbols[0].form, {value: {symbols[0].form: value} for value in symbols[0].form.values}
    for symbol in symbols[1:]:
        if all(symbol.form in known for known in table.values()):
            continue
        if len(form.values) * len(symbol.form.values) > MAX_TABLE:
            raise ProgramError(
                f"{path.program.spec.name}: an expression combines ({form.describe()}) and ({symbol.form.describe()}), "
                f"{len(form.values) * len(symbol.form.values):,} combinations; compute it in parts"
                f"{_place(path.program)}"
            )
        pairs = {(a, b): _Known({**known, symbol.form: b}) for a, known in table.items() for b in symbol.form.values}
        return _apply_joined(path, function, arguments, form, symbol.form, pairs, symbols)
    return Symbol.simplified(path, form, {v: _call(function, arguments, known) for v, known in table.items()})


def _applied_to_several(function: Callable[..., Any], keys: tuple[Any, ...]) -> Any:
    """Apply a function to two keys or more; more than two symbols are joined into pairs first."""
    symbols = [key for key in keys if isinstance(key, Symbol)]
    if len({symbol.form for symbol in symbols}) <= 2:
        return apply(function, *keys)
    pair = apply(lambda a, b: (a, b), keys[0], keys[1])
    return _applied_to_several(lambda both, *rest: function(*both, *rest), (pair, *keys[2:]))


class _Known(dict[Form, Number]):
    """The values of some forms, while a function of several forms is tabulated."""


def _apply_joined(
    path: Path, function: Any, arguments: Any, first: Form, second: Form, pairs: Any, symbols: Any
) -> Any:
    others = {symbol.form for symbol in symbols} - {first, second}
    if others:
        raise ProgramError(f"{path.program.spec.name}: an operation takes more than two different expressions")
    results = {pair: _call(function, arguments, known) for pair, known in pairs.items()}
    form, table = joined(first, second, results)
    return Symbol.simplified(path, form, table)


def _call(function: Callable[..., Any], arguments: Sequence[Any], known: dict[Form, Number]) -> Any:
    given = [argument.at(known[argument.form]) if isinstance(argument, Symbol) else argument for argument in arguments]
    for value in given:
        if isinstance(value, Raised):
            return value
    try:
        return function(*given)
    except Exception as error:
        return Raised(error)


def _form(thing: Any) -> Form | None:
    """The form of a pure symbol or of an exact number."""
    if isinstance(thing, Symbol):
        return thing.form if thing.pure else None
    return Form(thing + 0, ()) if isinstance(thing, int | Fraction) else None


def _compare(function: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """Compare two different forms by their difference: one threshold instead of a table of pairs."""
    a, b = _form(left), _form(right)
    if a is not None and b is not None and a.terms and b.terms and a != b:
        difference = a.plus(b, -1)
        symbol = left if isinstance(left, Symbol) else right
        return Symbol.simplified(symbol.path, difference, {v: function(v, 0) for v in difference.values})
    if type(left) is not Symbol or type(right) not in (bool, int, str, type(None)):
        return apply(function, left, right)
    known, key = left.path.comparisons, (function, left.key, type(right), right)
    if key not in known:  # the same questions come up on every path
        known[key] = apply(function, left, right)
    return known[key]


def _linear(function: Callable[[Any, Any], Any], times: int) -> Callable[[Any, Any], Any]:
    def combined(left: Any, right: Any) -> Any:
        a, b = _form(left), _form(right)
        if a is None or b is None:
            return apply(function, left, right)
        symbol = left if isinstance(left, Symbol) else right
        form = a.plus(b, times)
        return Symbol(symbol.path, form) if form.terms else form.constant

    return combined


def _multiply(left: Any, right: Any) -> Any:
    a, b = _form(left), _form(right)
    if a is not None and b is not None and not (a.terms and b.terms):
        symbol, form, factor = (left, a, b.constant) if a.terms else (right, b, a.constant)
        return Symbol(symbol.path, form.scaled(factor)) if factor else 0
    if type(left) is list or type(right) is list:  # a list of its own on each path
        one, two = (side.concrete() if type(side) is Symbol else side for side in (left, right))
        return one * two
    return apply(operator.mul, left, right)


def _unless_word(function: Callable[[Any, Any], Any], symbol: Symbol, other: Any) -> Any:
    if type(other) in (WordValue, BitsValue):
        return function(symbol, other.symbol()) if other.narrow else NotImplemented  # the word handles the operation
    return function(symbol, other)


def _install() -> None:
    """Give `Symbol` Python's operators."""
    special = {"add": _linear(operator.add, 1), "sub": _linear(operator.sub, -1), "mul": _multiply}
    for name in [
        "add",
        "sub",
        "mul",
        "truediv",
        "floordiv",
        "mod",
        "pow",
        "xor",
        "and",
        "or",
        "lshift",
        "rshift",
    ]:
        plain = getattr(operator, f"__{name}__")
        function = special.get(name, lambda a, b, plain=plain: apply(plain, a, b))
        if name != "pow":  # which takes a third number
            setattr(Symbol, f"__{name}__", lambda self, other, f=function: _unless_word(f, self, other))
        setattr(Symbol, f"__r{name}__", lambda self, other, f=function: f(other, self))
    for name in ["lt", "le", "gt", "ge"]:
        plain = getattr(operator, name)
        setattr(Symbol, f"__{name}__", lambda self, other, plain=plain: _compare(plain, self, ordinary(other)))
    for name in ["pos", "abs", "invert"]:
        plain = getattr(operator, name)
        setattr(Symbol, f"__{name}__", lambda self, plain=plain: apply(plain, self))
    for name, plain in {"floor": math.floor, "ceil": math.ceil, "trunc": math.trunc}.items():
        setattr(Symbol, f"__{name}__", lambda self, plain=plain: apply(plain, self))


_install()


class SymbolicState:
    """`z` in `step`, while it is executed symbolically."""

    def __init__(self, path: Path) -> None:
        vars(self).update(_path=path)

    def __getattr__(self, name: str) -> Any:
        path: Path = self._path
        spec = path.program.spec
        if name in spec.heads and name not in path.read:
            path.read |= {name}
            path.events.append(HeadRead(name))
        if name not in path.now:
            if name not in spec.kinds:
                return class_constant(path.program, name, self)
            path.now[name] = path.value(name)
        return path.now[name]

    def __setattr__(self, name: str, value: Any) -> None:
        program = self._path.program
        if name not in program.spec.kinds and (array := view(self, program, name)) is not None:
            return array.assign(value)
        self._path.now[name] = self._path.assign(name, value)


def _fresh(path: Path, name: str) -> Any:
    """The value of a variable before `step`, as a symbol or a word."""
    kind = path.program.spec.kinds[name]
    if isinstance(kind, Word):
        return WordValue(path, {name: 1}, 0)
    head = path.program.spec.heads.get(name)
    values: dict[Number, Value] = dict(enumerate(kind.values if head is None else head.read_values))
    return Symbol.simplified(path, variable_form(name, len(kind)), values)


class LookupTable(Generic[K, V]):
    """`kl.table(T)`: indexing that does not fork."""

    def __init__(self, content: Any) -> None:
        self.content = content

    @overload
    def __getitem__(self, key: K) -> V: ...
    @overload
    def __getitem__(self: LookupTable[int, Sequence[T]], key: tuple[int, int]) -> T: ...
    @overload
    def __getitem__(self: LookupTable[int, Sequence[Sequence[T]]], key: tuple[int, int, int]) -> T: ...
    def __getitem__(self, key: Any) -> Any:
        keys = tuple(ordinary(k) for k in (key if isinstance(key, tuple) else (key,)))
        if isinstance(self.content, dict) and len(keys) > 1:
            function: Callable[..., Any] = lambda *ks: self.content[ks]  # noqa: E731
        else:
            function = self._nested
        return _applied_to_several(function, keys) if any(isinstance(k, Symbol) for k in keys) else function(*keys)

    def _nested(self, *keys: Any) -> Any:
        found = self.content
        for key in keys:
            found = found[key]
        return found


@overload
def table(content: Mapping[K, V]) -> LookupTable[K, V]: ...
@overload
def table(content: Sequence[V]) -> LookupTable[int, V]: ...
def table(content: Any) -> LookupTable[Any, Any]:
    """Wrap a list or dict so that `step` can index it by `z.x` without forking a path for each value.

    >>> table([5, 6, 7])[1]
    6
    """
    return LookupTable(content)


def among(value: T, values: Iterable[T]) -> bool:
    """Whether `value` is one of `values`, without forking a path for each.

    >>> among(3, [1, 3])
    True
    """
    wanted = frozenset(values)
    value = ordinary(value)
    found: bool = apply(wanted.__contains__, value) if isinstance(value, Symbol) else value in wanted
    return found
