"""Guarded updates: what `step` does, as data. On this guard, variable := function of a separable form.

Every updated variable has its own list of updates with exclusive guards, over only the variables that it
really depends on. Read guards say where `step` reads a head, so that a network can be checked for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from kleene.lowering.forms import Form, Number, variable_form
from kleene.lowering.symbolic import Assignment, Branch, Path, Read, execute
from kleene.lowering.words import Terms, WordAssignment, WordPredicate, normalised
from kleene.machines.program import ProgramClass, Spec, as_number


@dataclass(frozen=True)
class Test:
    """The form has one of these values."""

    form: Form
    allowed: frozenset[Number]

    @property
    def variable(self) -> str | None:
        """The variable that it is about where it is about one alone."""
        return self.form.terms[0][0] if len(self.form.terms) == 1 else None

    @cached_property
    def indices(self) -> frozenset[int]:
        """The indices of that variable's values that pass."""
        ((_, table),) = self.form.terms
        return frozenset(i for i, entry in enumerate(table) if self.form.constant + entry in self.allowed)

    def holds(self, indices: Mapping[str, int]) -> bool:
        return self.form.at(indices) in self.allowed


@dataclass(frozen=True)
class GuardedUpdate:
    """Where all tests of the guard hold, variable := kind.values[table[value of form]]."""

    variable: str
    guard: tuple[Test, ...]
    form: Form
    table: tuple[tuple[Number, int], ...]
    line: int | None = None

    def applies(self, indices: Mapping[str, int]) -> bool:
        return all(test.holds(indices) for test in self.guard)

    @cached_property
    def results(self) -> dict[Number, int]:
        return dict(self.table)

    @property
    def reads(self) -> frozenset[str]:
        """The variables that the guard and the form mention."""
        return frozenset(self.form.variables).union(*(test.form.variables for test in self.guard))


@dataclass(frozen=True)
class WordUpdate:
    """Where all tests of the guard hold, a word becomes a sum of words."""

    variable: str
    guard: tuple[Test, ...]
    assignment: WordAssignment

    @property
    def line(self) -> int | None:
        return self.assignment.line

    @property
    def reads(self) -> frozenset[str]:
        """The words that it adds up, and what the guard mentions."""
        words = frozenset(name for name, _ in self.assignment.terms)
        return words.union(*(test.form.variables for test in self.guard))


@dataclass(frozen=True)
class ReadGuard:
    """Where all tests hold, `step` reads this head (tests mention only heads read before it)."""

    head: str
    guard: tuple[Test, ...]


@dataclass(frozen=True)
class Updates:
    """All guarded updates of a program, variable by variable, and where it reads its heads.

    Two are equal when they do the same: the comparison is of functions, not of how they are written.
    """

    spec: Spec
    updates: tuple[GuardedUpdate, ...]
    reads: tuple[ReadGuard, ...] = ()
    words: tuple[WordUpdate, ...] = ()
    predicates: tuple[WordPredicate, ...] = ()  # comparisons of words, which guards use by name

    @property
    def by_layer(self) -> tuple[Updates, ...]:
        return (self,)

    def size(self, name: str) -> int:
        """How many values a variable, a head or a predicate has."""
        return len(self.spec.kinds[name]) if name in self.spec.kinds else 2

    @cached_property
    def by_predicate(self) -> dict[str, WordPredicate]:
        return {predicate.name: predicate for predicate in self.predicates}

    def of(self, variable: str) -> tuple[GuardedUpdate, ...]:
        return self._by_variable.get(variable, ())

    def of_word(self, variable: str) -> tuple[WordUpdate, ...]:
        return tuple(update for update in self.words if update.variable == variable)

    @cached_property
    def _by_variable(self) -> dict[str, tuple[GuardedUpdate, ...]]:
        found: dict[str, list[GuardedUpdate]] = {}
        for update in self.updates:
            found.setdefault(update.variable, []).append(update)
        return {name: tuple(updates) for name, updates in found.items()}

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that are updated."""
        return tuple(dict.fromkeys([*self._by_variable, *(update.variable for update in self.words)]))

    def __iter__(self) -> Iterator[GuardedUpdate]:
        return iter(self.updates)

    def __len__(self) -> int:
        return len(self.updates)

    def apply(self, indices: Mapping[str, int]) -> dict[str, int]:
        """One position's variables after the updates (heads are left out)."""
        after = {name: indices[name] for name in self.spec.variables}
        known = {**indices, **{name: int(p.holds(indices)) for name, p in self.by_predicate.items()}}
        for update in self.updates:
            if update.applies(known):
                after[update.variable] = update.results[update.form.at(known)]
        for word in self.words:
            if all(test.holds(known) for test in word.guard):
                after[word.variable] = word.assignment.value(indices)
        return after

    def __eq__(self, other: object) -> bool:
        from kleene.lowering.next_values import first_difference

        if not isinstance(other, Updates):
            return NotImplemented
        return self.spec == other.spec and first_difference(self, other) is None

    def __hash__(self) -> int:
        return hash(self.spec.name)

    def __str__(self) -> str:
        from kleene.show.terminal import updates_text

        return updates_text(self)

    def to_json(self) -> dict[str, Any]:
        """Plain data: forms once each, referred to by number."""
        forms: dict[Form, int] = {}

        def tests(guard: Iterable[Test]) -> list[Any]:
            return [
                [forms.setdefault(test.form, len(forms)), [_plain(v) for v in sorted(test.allowed)]] for test in guard
            ]

        updates = [
            {
                "variable": update.variable,
                "guard": tests(update.guard),
                "form": forms.setdefault(update.form, len(forms)),
                "table": [[_plain(value), index] for value, index in update.table],
                "line": update.line,
            }
            for update in self.updates
        ]
        reads = [{"head": read.head, "guard": tests(read.guard)} for read in self.reads]
        words = [
            {
                "variable": word.variable,
                "guard": tests(word.guard),
                "terms": word.assignment.terms,
                "constant": word.assignment.constant,
                "modulus": word.assignment.modulus,
                "line": word.assignment.line,
            }
            for word in self.words
        ]
        predicates = [[p.terms, p.relation, p.threshold] for p in self.predicates]
        listed = [[_plain(f.constant), {name: [_plain(v) for v in table] for name, table in f.terms}] for f in forms]
        return {"forms": listed, "updates": updates, "reads": reads, "words": words, "predicates": predicates}

    @classmethod
    def from_json(cls, spec: Spec, content: Any) -> Updates:
        """The updates back from plain data."""
        forms = [
            Form(_number(constant), tuple((name, tuple(_number(v) for v in table)) for name, table in terms.items()))
            for constant, terms in content["forms"]
        ]

        def tests(listed: Any) -> tuple[Test, ...]:
            return tuple(Test(forms[form], frozenset(_number(v) for v in allowed)) for form, allowed in listed)

        updates = tuple(
            GuardedUpdate(
                entry["variable"],
                tests(entry["guard"]),
                forms[entry["form"]],
                tuple((_number(value), int(index)) for value, index in entry["table"]),
                entry["line"],
            )
            for entry in content["updates"]
        )
        words = tuple(
            WordUpdate(
                entry["variable"],
                tests(entry["guard"]),
                WordAssignment(_terms(entry["terms"]), int(entry["constant"]), entry["modulus"], entry["line"]),
            )
            for entry in content["words"]
        )
        predicates = tuple(
            WordPredicate(_terms(t), str(relation), int(at)) for t, relation, at in content["predicates"]
        )
        reads = tuple(ReadGuard(entry["head"], tests(entry["guard"])) for entry in content["reads"])
        return cls(spec, updates, reads, words, predicates)


@dataclass(frozen=True)
class Cycle:
    """The guarded updates of a program with a cycle: those of each layer."""

    spec: Spec
    by_layer: tuple[Updates, ...]

    def __str__(self) -> str:
        from kleene.show.terminal import updates_text

        names = [name for name, _ in self.spec.cycle]
        return "\n\n".join(f"{name}:\n{updates_text(part)}" for name, part in zip(names, self.by_layer))

    def to_json(self) -> dict[str, Any]:
        return {"cycle": [updates.to_json() for updates in self.by_layer]}


def _terms(listed: Any) -> Terms:
    return tuple((str(name), int(coefficient)) for name, coefficient in listed)


def _plain(value: Number) -> int | str:
    return int(value) if Fraction(value).denominator == 1 else str(value)


def _number(value: Any) -> Number:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"{value!r} is not a number")
    return as_number(value)


# --- from paths -----------------------------------------------------------------------------------------

Leaf = Assignment | WordAssignment | None
Tree = Any  # Leaf, or (form, ((allowed, Tree), …))


def guarded_updates(program: ProgramClass) -> Any:
    """The updates that `step` makes, by symbolic execution: `Updates`, or a `Cycle` of them."""
    cached = vars(program).get("_updates")
    if cached is None:
        by_layer = tuple(_updates_of(part) for part in program.by_layer)
        cached = Cycle(program.spec, by_layer) if program.spec.cycle else by_layer[0]
        type.__setattr__(program, "_updates", cached)
    return cached


def _updates_of(program: Any) -> Updates:
    paths = execute(program)
    made = [update for name in program.spec.variables for update in _of_variable(program.spec, paths, name)]
    predicates = {name: predicate for path in paths for name, predicate in path.predicates.items()}
    return Updates(
        program.spec,
        tuple(update for update in made if isinstance(update, GuardedUpdate)),
        _read_guards(program.spec, paths),
        tuple(update for update in made if isinstance(update, WordUpdate)),
        tuple(predicates.values()),
    )


def _of_variable(spec: Spec, paths: list[Path], name: str) -> list[GuardedUpdate] | list[WordUpdate]:
    lines: dict[Any, int | None] = {}
    ways = []
    for path in paths:
        branches = [event for event in path.events if isinstance(event, Branch)]
        leaf: Leaf = path.assigned.get(name)
        if leaf is not None:
            line, leaf = leaf.line, replace(leaf, line=None)  # the same from different lines is the same
            lines.setdefault(leaf, line)
            leaf = None if _keeps(spec, path, name, leaf) else leaf
        ways.append((branches, leaf))
    updates: list[GuardedUpdate] = []
    words: list[WordUpdate] = []
    for tests, leaf in leaves(_tree(ways, 0), ()):
        guard = simplify_guard(spec, tests)
        if isinstance(leaf, WordAssignment):
            words.append(WordUpdate(name, guard, replace(leaf, line=lines[leaf])))
        else:
            updates.append(GuardedUpdate(name, guard, leaf.form, leaf.table, lines[leaf]))
    return merged_words(spec, words) if words else merged(spec, updates)


def _keeps(spec: Spec, path: Path, name: str, leaf: Assignment | WordAssignment) -> bool:
    """Whether an assignment leaves the variable as it is."""
    if isinstance(leaf, WordAssignment):
        return normalised(spec, name, leaf) == WordAssignment(((name, 1),), 0, None)
    size = len(spec.kinds[name])
    if leaf.form == variable_form(name, size):
        return all(value == index for value, index in leaf.table)
    if not leaf.form.terms:
        return path.domains[name] == {leaf.table[0][1]}
    return False


def _tree(ways: list[tuple[list[Branch], Leaf]], depth: int) -> Tree:
    """The decisions on which one variable depends: a branch whose outcomes are the same is left out."""
    branches, leaf = ways[0]
    if depth == len(branches):
        return leaf
    branch = branches[depth]
    children: dict[Tree, frozenset[Number]] = {}
    for taken, allowed in enumerate(branch.classes):
        child = _tree([way for way in ways if way[0][depth].taken == taken], depth + 1)
        children[child] = children.get(child, frozenset()) | allowed
    if len(children) == 1:
        return next(iter(children))
    return (branch.form, tuple((allowed, child) for child, allowed in children.items()))


def leaves(tree: Tree, tests: tuple[Test, ...]) -> Iterator[tuple[tuple[Test, ...], Any]]:
    """The assignments of a tree of decisions, each with the tests that lead to it."""
    if isinstance(tree, Assignment | WordAssignment):
        yield tests, tree
    elif tree is not None:
        form, children = tree
        for allowed, child in children:
            yield from leaves(child, (*tests, Test(form, allowed)))


def simplify_guard(spec: Spec, tests: Iterable[Test]) -> tuple[Test, ...]:
    """One test a variable, on its index, and one a form of several; tests that always hold are left out."""
    single: dict[str, frozenset[int]] = {}
    several: dict[Form, frozenset[Number]] = {}
    for test in tests:
        if not test.form.terms:
            continue
        if test.variable is not None:
            single[test.variable] = single.get(test.variable, test.indices) & test.indices
        else:
            several[test.form] = several.get(test.form, test.allowed) & test.allowed
    kept = []
    for name, allowed in single.items():
        size = len(spec.kinds[name]) if name in spec.kinds else 2  # a comparison of words
        if len(allowed) < size:
            kept.append(Test(variable_form(name, size), frozenset(allowed)))
    kept += [Test(form, allowed) for form, allowed in several.items() if len(allowed) < len(form.values)]
    return tuple(sorted(kept, key=lambda test: (len(test.form.terms), test.form.variables)))


def index_test(spec: Spec, name: str, allowed: Iterable[int]) -> Test:
    """The test that one variable has one of some values, given by index."""
    return Test(variable_form(name, len(spec.kinds[name])), frozenset(allowed))


def merged(spec: Spec, updates: list[GuardedUpdate]) -> list[GuardedUpdate]:
    """Join updates that do the same and whose guards differ in one test only."""
    changed = True
    while changed:
        changed = False
        for i, first in enumerate(updates):
            for second in updates[i + 1 :]:
                joint = _joint_guard(spec, first, second)
                if joint is not None:
                    rest = [update for update in updates if update is not first and update is not second]
                    joined = GuardedUpdate(first.variable, joint, first.form, first.table, first.line)
                    updates, changed = [*rest[:i], joined, *rest[i:]], True
                    break
            if changed:
                break
    return updates


def merged_words(spec: Spec, words: list[WordUpdate]) -> list[WordUpdate]:
    """The same for words."""
    for i, first in enumerate(words):
        for second in words[i + 1 :]:
            if replace(first.assignment, line=None) == replace(second.assignment, line=None):
                joint = _joint(spec, first.guard, second.guard)
                if joint is not None:
                    rest = [word for word in words if word is not first and word is not second]
                    return merged_words(spec, [*rest[:i], replace(first, guard=joint), *rest[i:]])
    return words


def _joint_guard(spec: Spec, first: GuardedUpdate, second: GuardedUpdate) -> tuple[Test, ...] | None:
    if (first.form, first.table) != (second.form, second.table):
        return None
    return _joint(spec, first.guard, second.guard)


def _joint(spec: Spec, one: tuple[Test, ...], two: tuple[Test, ...]) -> tuple[Test, ...] | None:
    """The guard that holds where either does, where they differ in one test only."""
    mine = {test.form: test.allowed for test in one}
    theirs = {test.form: test.allowed for test in two}
    if mine.keys() != theirs.keys():
        return None
    differing = [form for form in mine if mine[form] != theirs[form]]
    if len(differing) != 1:
        return None
    mine[differing[0]] |= theirs[differing[0]]
    return simplify_guard(spec, [Test(form, allowed) for form, allowed in mine.items()])


def _read_guards(spec: Spec, paths: list[Path]) -> tuple[ReadGuard, ...]:
    """In the order of reading: a guard never mentions a head that is read later on its path."""
    found: dict[ReadGuard, int] = {}
    for path in paths:
        tests: list[Test] = []
        for place, event in enumerate(path.events):
            if isinstance(event, Read):
                found.setdefault(ReadGuard(event.head, simplify_guard(spec, tests)), place)
            else:
                tests.append(Test(event.form, event.classes[event.taken]))
    return tuple(sorted(found, key=lambda read: found[read]))
