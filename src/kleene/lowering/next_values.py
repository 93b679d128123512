"""Next-value functions and their exact comparison.

A lowered program gives every variable a next value: a function of the values of some variables. `difference` compares
two such functions. It walks through the values of one variable after another and keeps, for each function, only the
state that still matters. Prefixes that lead to the same states are walked once. Separable forms have few partial sums,
so this is exact and fast where enumeration is hopeless.

A head may be undefined (index None). A function that reads an undefined head has no value there (UNREAD).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from kleene.lowering.forms import Form, Number, variable_form
from kleene.lowering.updates import GuardedUpdate, ReadGuard, Updates, WordUpdate
from kleene.lowering.words import normalised
from kleene.machines.kinds import Word
from kleene.machines.spec import Spec

UNREAD = -1  # the result where an undefined head is read
SPOILED = ...  # a partial sum with an undefined head in it

State = Any


class NextValue(Protocol):
    """The next value of one variable, as a function that takes the values of variables in a fixed order."""

    def begin(self, order: Sequence[str]) -> State: ...
    def classes(self, place: int) -> Any: ...
    def advance(self, state: State, place: int, indices: Sequence[int | None]) -> Sequence[State]: ...
    def key(self, state: State) -> Hashable: ...
    def result(self, state: State, old: int) -> int: ...


class UpdatesFunction:
    """The next value of one variable, by its guarded updates."""

    def __init__(self, spec: Spec, updates: Sequence[GuardedUpdate], reads: Sequence[ReadGuard] = ()) -> None:
        """The result with `reads` is UNREAD wherever `step` would raise, whatever the updates decide."""
        self.spec, self.count = spec, len(updates)
        readings = [
            GuardedUpdate("", read.guard, variable_form(read.head, len(spec.kinds[read.head])), ()) for read in reads
        ]
        self.updates = [
            *updates,
            *readings,
        ]  # a read changes nothing, but makes the result UNREAD where its head is undefined
        self.forms: list[Form] = list(
            dict.fromkeys(form for u in self.updates for form in [u.form, *(test.form for test in u.guard)])
        )
        self.number = {form: place for place, form in enumerate(self.forms)}
        self.valued = {self.number[update.form] for update in self.updates}

    def begin(self, order: Sequence[str]) -> State:
        self.order = list(order)
        self.tables = [[form.tables.get(name) for form in self.forms] for name in order]
        last = [max((order.index(n) for n in form.variables), default=-1) for form in self.forms]
        self.ends = [[f for f, place in enumerate(last) if place == at] for at in range(len(order))]
        self.testing = [
            [(u, t.allowed) for u, update in enumerate(self.updates) for t in update.guard if self.number[t.form] == f]
            for f in range(len(self.forms))
        ]
        alive = (1 << len(self.updates)) - 1
        sums = tuple(form.constant if self._used(f, alive) else None for f, form in enumerate(self.forms))
        return alive, 0, sums  # updates that may still apply, those that have read an undefined head, partial sums

    def _used(self, form: int, alive: int) -> bool:
        """Whether a live update still needs a form's sum."""
        return any(
            alive >> u & 1
            and (self.number[update.form] == form or any(self.number[t.form] == form for t in update.guard))
            for u, update in enumerate(self.updates)
        )

    def classes(self, place: int) -> Any:
        """A class number for each value of a variable. Values of one class have the same effect on every form."""
        tables = [table for table in self.tables[place] if table is not None]
        numbers: dict[tuple[Number, ...], int] = {}
        name = self.order[place]
        size = len(self.spec.kinds[name]) if name in self.spec.kinds else 2  # a comparison of words
        return np.array([numbers.setdefault(tuple(t[i] for t in tables), len(numbers)) for i in range(size)])

    def advance(self, state: State, place: int, indices: Sequence[int | None]) -> Sequence[State]:
        return [self._advance(state, place, index) for index in indices]

    def _advance(self, state: State, place: int, index: int | None) -> State:
        alive, poisoned, sums = state
        tables, name = self.tables[place], self.order[place]
        if index is None:
            poisoned |= sum(1 << u for u, update in enumerate(self.updates) if name in update.reads) & alive
            new = [s if t is None or s is None else SPOILED for s, t in zip(sums, tables)]
        else:
            new = [s if t is None or s is None or s is SPOILED else s + t[index] for s, t in zip(sums, tables)]
        for f in self.ends[place]:
            if new[f] is None or new[f] is SPOILED:
                continue  # leave a test on an undefined head open: the other tests of the update decide
            alive = self._tested(alive, f, new[f])
            if f not in self.valued:
                new[f] = None
        if alive != state[0]:
            new = [s if s is not None and self._used(f, alive) else None for f, s in enumerate(new)]
        return alive, poisoned & alive, tuple(new)

    def _tested(self, alive: int, form: int, total: Any) -> int:
        """The updates of `alive` whose tests on a form allow its sum."""
        for u, allowed in self.testing[form]:
            if total not in allowed:
                alive &= ~(1 << u)
        return alive

    def key(self, state: State) -> Hashable:
        key: Hashable = state
        return key

    def result(self, state: State, old: int) -> int:
        alive, poisoned, sums = state
        if poisoned:
            return UNREAD
        alive &= (1 << self.count) - 1
        if not alive:
            return old
        update = self.updates[alive.bit_length() - 1]
        found: int = update.results.get(sums[self.number[update.form]], UNREAD)
        return found


def reading_order(variable: str, updates: Iterable[GuardedUpdate], also: Iterable[str] = ()) -> list[str]:
    """An order of variables that keeps the walk small: single tests, tied tests, the form, the variable itself."""
    names: dict[str, None] = {}
    updates = list(updates)
    for tied in (False, True):
        for update in updates:
            for test in update.guard:
                if (test.variable is None) == tied:
                    names |= dict.fromkeys(n for n in test.form.variables if tied or n not in update.form.tables)
    for update in updates:
        names |= dict.fromkeys(n for test in update.guard for n in test.form.variables)
        names |= dict.fromkeys(update.form.variables)
    names |= dict.fromkeys(also)
    names.pop(variable, None)
    return [*names, variable]


def difference(
    spec: Spec, variable: str | None, first: NextValue, second: NextValue, order: Sequence[str], undefined: bool
) -> dict[str, int | None] | None:
    """Find values for which two functions differ, or return None.

    - `variable`: the variable whose next value they give; without one, the old value is 0.
    - `order`: the variables in the order of the walk.
    - `undefined`: whether heads may be undefined. Where `first` is UNREAD, `second` may be anything.
    """
    start = (first.begin(order), second.begin(order))
    seen: set[Hashable] = set()
    stack: list[tuple[int, State, State, tuple[int | None, ...]]] = [(0, *start, ())]
    own = None if variable is None else order.index(variable)
    choices = [_choices(spec, name, first.classes(i), second.classes(i), i == own) for i, name in enumerate(order)]
    for i, name in enumerate(order):
        if undefined and name in spec.heads:
            choices[i].append(None)
    while stack:
        place, one, two, values = stack.pop()
        options = choices[place]
        for index, a, b in zip(options, first.advance(one, place, options), second.advance(two, place, options)):
            old = 0 if own is None else index if place == own else values[own] if own < place else None
            if place + 1 < len(order):
                key = (place, first.key(a), second.key(b), old)
                if key not in seen:
                    seen.add(key)
                    stack.append((place + 1, a, b, (*values, index)))
                continue
            assert old is not None
            wanted = first.result(a, old)
            if wanted != UNREAD and wanted != second.result(b, old):
                return dict(zip(order, (*values, index)))
    return None


def _word_difference(one: Updates, two: Updates, name: str) -> dict[str, int | None] | None:
    """Find values for which a word is assigned differently, by comparing normal forms of assignments."""
    made: dict[Any, int] = {}  # assignment → its number from 1; 0 means that the word keeps its value
    told = [
        [
            GuardedUpdate("", u.guard, Form(0, ()), ((0, made.setdefault(_written(one.spec, u), len(made) + 1)),))
            for u in updates.of_word(name)
        ]
        for updates in (one, two)
    ]
    order = list(dict.fromkeys(n for updates in told for u in updates for test in u.guard for n in test.form.variables))
    if not order:
        return None if [u.table for u in told[0]] == [u.table for u in told[1]] else {}
    first, second = (UpdatesFunction(one.spec, updates) for updates in told)
    return difference(one.spec, None, first, second, order, undefined=False)


def _written(spec: Spec, update: WordUpdate) -> Any:
    return replace(normalised(spec, update.variable, update.assignment), line=None)


def _choices(spec: Spec, name: str, one: Any, two: Any, own: bool) -> list[int | None]:
    """One value of a variable for each class of values that either function distinguishes."""
    if own:
        return list(range(len(spec.kinds[name])))
    _, first = np.unique(np.stack([one, two]), axis=1, return_index=True)
    return sorted(first.tolist())


def first_difference(one: Updates, two: Updates) -> tuple[str, dict[str, int | None]] | None:
    """Find a variable and values for which two sets of updates differ, or return None."""
    for name in one.spec.variables:
        if isinstance(one.spec.kinds[name], Word):
            if (where := _word_difference(one, two, name)) is not None:
                return name, where
            continue
        a, b = one.of(name), two.of(name)
        order = reading_order(name, [*a, *b])
        found = difference(
            one.spec, name, UpdatesFunction(one.spec, a), UpdatesFunction(one.spec, b), order, undefined=False
        )
        if found is not None:
            return name, found
    return None
