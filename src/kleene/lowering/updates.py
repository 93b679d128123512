"""Guarded updates: the effect of `step` as data. Where a guard holds, variable := a function of a separable form.

Each updated variable has its own list of updates. Their guards exclude each other, and mention only variables on
which the new value really depends. Read guards say where `step` reads a head, so that a network can be checked there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kleene.lowering.forms import Form, Number, variable_form
from kleene.lowering.value_sets import ValueSets, seen_values
from kleene.lowering.words import WordAssignment, WordPredicate
from kleene.machines.bitwords import BitValues, bit_of_name
from kleene.machines.spec import Spec


@dataclass(frozen=True)
class Test:
    """A test: the form has one of these values."""

    form: Form
    allowed: frozenset[Number]

    @property
    def variable(self) -> str | None:
        """The variable of a test on one variable; None for a test on several."""
        return self.form.terms[0][0] if len(self.form.terms) == 1 else None

    @cached_property
    def indices(self) -> frozenset[int]:
        """The values of that variable that pass, as indices."""
        ((_, table),) = self.form.terms
        return frozenset(i for i, entry in enumerate(table) if self.form.constant + entry in self.allowed)

    def holds(self, indices: Mapping[str, int]) -> bool:
        return self.form.at(indices) in self.allowed


@dataclass(frozen=True)
class GuardedUpdate:
    """An assignment under a guard: variable := kind.values[table[value of form]] where all tests hold."""

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
    """An assignment of a sum of words to a word, where all tests of the guard hold."""

    variable: str
    guard: tuple[Test, ...]
    assignment: WordAssignment

    @property
    def line(self) -> int | None:
        return self.assignment.line

    @property
    def reads(self) -> frozenset[str]:
        """The words of the sum, and the variables that the guard mentions."""
        return self.assignment.reads.union(*(test.form.variables for test in self.guard))


@dataclass(frozen=True)
class ReadGuard:
    """A guard under which `step` reads a head. Its tests mention only heads that were read before."""

    head: str
    guard: tuple[Test, ...]


@dataclass(frozen=True)
class Updates:
    """All guarded updates of a program, variable by variable, and where it reads its heads.

    Two sets of updates are equal if they compute the same function, however they are written.
    """

    spec: Spec
    updates: tuple[GuardedUpdate, ...]
    reads: tuple[ReadGuard, ...] = ()
    words: tuple[WordUpdate, ...] = ()
    predicates: tuple[WordPredicate, ...] = ()  # comparisons of words; guards refer to them by name
    before: ValueSets | None = None  # the values of variables before the layer in some run; None: all that there are
    second: Updates | None = None  # of a layer with two steps: what the second step does, after the first
    before_layers: tuple[ValueSets, ...] | None = None  # where `before` holds for so many layers: before each of them

    @cached_property
    def reached(self) -> ValueSets | None:
        """The values of variables and heads for which the updates are what `step` does; None: all."""
        return None if self.before is None else seen_values(self.spec, self.before)

    def values(self, name: str) -> Sequence[int]:
        """The values of a variable or head for which the updates are what `step` does, as indices in order."""
        if self.reached is None or name not in self.reached:
            return range(len(self.spec.kinds[name]))
        return sorted(self.reached[name])

    @property
    def by_layer(self) -> tuple[Updates, ...]:
        return (self,)

    @cached_property
    def on_bits(self) -> bool:
        """Whether a guard, a table or an assignment depends on single bits of words."""
        forms = [form for u in self.updates for form in (u.form, *(test.form for test in u.guard))]
        forms += [test.form for u in self.words for test in u.guard]
        named = {name for form in forms for name in form.variables} | {
            n for u in self.words for n in u.assignment.reads
        }
        return any(bit_of_name(name) for name in named) or bool(self.second and self.second.on_bits)

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
        """Apply the updates to one position, and return its variables without the heads."""
        after = {name: indices[name] for name in self.spec.variables}
        known = BitValues({**indices, **{name: int(p.holds(indices)) for name, p in self.by_predicate.items()}})
        for update in self.updates:
            if update.applies(known):
                after[update.variable] = update.results[update.form.at(known)]
        for word in self.words:
            if all(test.holds(known) for test in word.guard):
                after[word.variable] = word.assignment.value(indices)
        return after if self.second is None else self.second.apply(after)

    def __eq__(self, other: object) -> bool:
        from kleene.lowering.next_values import first_difference

        if not isinstance(other, Updates):
            return NotImplemented
        same = self.spec == other.spec and first_difference(self, other) is None
        return same and self.second == other.second

    def __hash__(self) -> int:
        return hash(self.spec.name)

    def __str__(self) -> str:
        from kleene.show.terminal import updates_text

        return updates_text(self)

    def to_json(self) -> dict[str, Any]:
        """Convert to plain data. Each form is stored once and referred to by number."""
        from kleene.lowering.updates_json import updates_to_json

        return updates_to_json(self)

    @classmethod
    def from_json(cls, spec: Spec, content: Any) -> Updates:
        """Rebuild the updates from their `to_json`."""
        from kleene.lowering.updates_json import updates_from_json

        return updates_from_json(spec, content)


@dataclass(frozen=True)
class Cycle:
    """The guarded updates of each layer of a program with a cycle."""

    spec: Spec
    by_layer: tuple[Updates, ...]

    def __str__(self) -> str:
        from kleene.show.terminal import updates_text

        names = [name for name, _ in self.spec.cycle]
        return "\n\n".join(f"{name}:\n{updates_text(part)}" for name, part in zip(names, self.by_layer))

    def __iter__(self) -> Iterator[GuardedUpdate]:
        return (update for part in self.by_layer for update in part)

    def __len__(self) -> int:
        return sum(map(len, self.by_layer))

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that are updated in some layer."""
        return tuple(dict.fromkeys(name for part in self.by_layer for name in part.variables))

    def to_json(self) -> dict[str, Any]:
        return {"cycle": [updates.to_json() for updates in self.by_layer]}


def simplify_guard(spec: Spec, tests: Iterable[Test]) -> tuple[Test, ...]:
    """Combine tests into one for each variable and one for each form of several; drop tests that always hold."""
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
    """The test that a variable has one of these values, given by index."""
    size = len(spec.kinds[name]) if name in spec.kinds else 2  # a bit of a word
    return Test(variable_form(name, size), frozenset(allowed))
