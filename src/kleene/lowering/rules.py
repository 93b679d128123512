"""The papers' transition rules: a conjunction of `variable = value`, and one variable's old and new value.

One rule is one clipped-ReLU neuron. No rule mentions a variable that its update does not depend on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from kleene.errors import NotSupported, ProgramError, TooManyRules
from kleene.lowering.forms import Form, Grid
from kleene.lowering.updates import Cycle, GuardedUpdate, ReadGuard, Test, Updates, guarded_updates, index_test
from kleene.machines.program import ProgramClass, Spec, Word

MAX_RULES = 1_000_000

Antecedent = tuple[tuple[str, int], ...]  # (variable, index of its value), sorted by variable


@dataclass(frozen=True)
class Rule:
    """variable: old → new where the antecedent (which holds variable = old) is satisfied.

    Values are indices into the variable's declared values; `new` None clears the output of a head.
    """

    variable: str
    old: int
    new: int | None
    antecedent: Antecedent

    def satisfied(self, indices: Mapping[str, int | None]) -> bool:
        return all(indices[name] == index for name, index in self.antecedent)


@dataclass(frozen=True)
class Rules:
    """A rule set: the updates' rules first, then those that clear heads."""

    spec: Spec
    rules: tuple[Rule, ...]

    def __len__(self) -> int:
        return len(self.rules)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __getitem__(self, place: int) -> Rule:
        return self.rules[place]

    def apply(self, indices: Mapping[str, int | None]) -> dict[str, int | None]:
        """The paper's f_R: every variable after the satisfied rules."""
        after = dict(indices)
        for rule in self.rules:
            if rule.satisfied(indices):
                after[rule.variable] = rule.new
        return after

    def __str__(self) -> str:
        from kleene.show.terminal import rules_text

        return rules_text(self)

    def to_json(self) -> list[dict[str, Any]]:
        return [{"variable": r.variable, "old": r.old, "new": r.new, "if": dict(r.antecedent)} for r in self.rules]


def rules(program: ProgramClass) -> Rules:
    """The transition rules of a program, the ones that clear heads included.

    >>> import kleene as kl
    >>> len(kl.rules(kl.library.parity_relative))
    7
    """
    return lower_to_rules(guarded_updates(program))


def one_step(updates: Updates | Cycle) -> Updates:
    """The updates of a program whose layers all run the same step; NotSupported for a cycle of layers."""
    if isinstance(updates, Cycle):
        raise NotSupported(f"{updates.spec.name}: rules speak of one shared step, not of a cycle of layers")
    return updates


def lower_to_rules(given: Updates | Cycle) -> Rules:
    """The rules of guarded updates, merged."""
    updates = one_step(given)
    spec = updates.spec
    for name, kind in spec.kinds.items():
        if isinstance(kind, Word):
            raise NotSupported(
                f"{spec.name}: '{name}' is a word, which has no transition rules; use lowering='thresholds'"
            )
    estimate = sum(_combinations(spec, update) for update in updates)
    if estimate > MAX_RULES * 4:  # before merging and before conditions on several variables
        raise TooManyRules(_refusal(spec, estimate))
    made: list[Rule] = []
    for name in updates.variables:
        made += _merge(spec, name, [rule for update in updates.of(name) for rule in _enumerate(spec, update)])
        if len(made) > MAX_RULES:
            raise TooManyRules(_refusal(spec, len(made)))
    clearing = [
        Rule(head, index, None, ((head, index),))
        for head, spec_ in spec.heads.items()
        for index in range(len(spec_.kind))
    ]
    return Rules(spec, tuple(made + clearing))


def _refusal(spec: Spec, count: int) -> str:
    return (
        f"{spec.name}: about {count:,} transition rules, more than the {MAX_RULES:,} that are made; "
        "lowering='thresholds' has no such limit"
    )


def _domains(spec: Spec, update: GuardedUpdate) -> dict[str, frozenset[int]]:
    domains = {name: frozenset(range(len(spec.kinds[name]))) for name in {*update.reads, update.variable}}
    for test in update.guard:
        if test.variable is not None:
            domains[test.variable] &= test.indices
    return domains


def _combinations(spec: Spec, update: GuardedUpdate) -> int:
    """How many combinations of values an update is about; tied pairs of variables count once."""
    domains = _domains(spec, update)
    tied = {test.form.variables for test in update.guard if test.variable is None}
    total = prod(len(domain) for domain in domains.values())
    for names in tied:
        total //= max(1, min(len(domains[name]) for name in names))
    return total


def _enumerate(spec: Spec, update: GuardedUpdate) -> Iterator[Rule]:
    grid = Grid({*update.reads, update.variable}, _domains(spec, update), limit=MAX_RULES * 100)
    mask = grid.where([(test.form, test.allowed) for test in update.guard if test.variable is None])
    form = update.form
    lookup = {int(value * form.denominator): index for value, index in update.results.items()}
    values = np.broadcast_to(grid.evaluate(form), grid.shape)
    old = np.broadcast_to(grid.indices(update.variable), grid.shape)
    known, places = np.unique(values[mask], return_inverse=True)
    new = np.array([lookup.get(int(value), -1) for value in known], dtype=np.int64)[places]
    for place, result, before in zip(np.argwhere(mask), new.tolist(), old[mask].tolist()):
        if result != before and result >= 0:
            antecedent = tuple((name, int(grid.choices[i][place[i]])) for i, name in enumerate(grid.names))
            yield Rule(update.variable, before, result, antecedent)


def _merge(spec: Spec, variable: str, found: list[Rule]) -> list[Rule]:
    """Drop a variable from the rules that hold for all of its values alike.

    Rules of different updates may merge. That is sound for heads too: every rule that mentions a head
    comes from a path that reads it, so where the head is undefined none of them need hold.
    """
    current = {(rule.antecedent, rule.old, rule.new): None for rule in found}
    names = sorted({name for rule in found for name, _ in rule.antecedent} - {variable})
    changed = True
    while changed:
        changed = False
        for name in names:
            groups: dict[Any, list[Any]] = {}
            for key in current:
                antecedent, old, new = key
                rest = tuple(pair for pair in antecedent if pair[0] != name)
                if len(rest) < len(antecedent):
                    groups.setdefault((rest, old, new), []).append(key)
            for merged, keys in groups.items():
                if len(keys) == len(spec.kinds[name]):
                    for key in keys:
                        del current[key]
                    current[merged] = None
                    changed = True
    return [Rule(variable, old, new, antecedent) for antecedent, old, new in current]


# --- writing rules directly (the paper's Figure 6) -------------------------------------------------------


class RuleBuilder:
    """Rules written by hand: `get` walks through a variable's values and puts each in scope, `set` makes
    a rule whose antecedent is the scope.

    A program may have `def rules(b): …` instead of `step`; `b` is one of these.
    """

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self._scope: dict[str, int] = {}
        self._made: list[tuple[Rule, tuple[str, ...]]] = []

    def get(self, name: str) -> Iterator[Any]:
        """Each value of a variable or head in turn, in scope while the loop is at it."""
        if name not in self.spec.kinds:
            raise ProgramError(f"{self.spec.name}: rules get '{name}', which is not declared")
        kind = self.spec.kinds[name]
        if name in self._scope:
            yield kind.values[self._scope[name]]
            return
        for index, value in enumerate(kind.values):
            self._scope[name] = index
            try:
                yield value
            finally:
                self._scope.pop(name, None)

    def set(self, name: str, value: Any) -> None:
        """In this scope, the variable becomes `value`."""
        if name not in self.spec.variables:
            raise ProgramError(f"{self.spec.name}: rules set '{name}', which is not a declared variable")
        kind = self.spec.variables[name].kind
        new = kind.index(value)
        if new is None:
            raise ProgramError(f"{self.spec.name}: rules set '{name}' to {value!r}, outside {kind.describe()}")
        olds: Iterable[int] = [self._scope[name]] if name in self._scope else range(len(kind))
        for old in olds:  # old = new makes no neuron, but it does say what the variable becomes
            scope = {**self._scope, name: old}
            rule = Rule(name, old, new, tuple(sorted(scope.items())))
            self._made.append((rule, tuple(scope)))

    def updates(self) -> Updates:
        """The rules as guarded updates, after checking that no two can fire for one variable at once."""
        kept = dict(self._made)
        _check_exclusive(self.spec, list(kept))
        updates: list[GuardedUpdate] = []
        reads: dict[ReadGuard, int] = {}
        for rule, order in kept.items():
            if rule.new == rule.old:
                continue
            guard = tuple(index_test(self.spec, name, [index]) for name, index in rule.antecedent)
            updates.append(GuardedUpdate(rule.variable, guard, Form(0, ()), ((0, rule.new or 0),)))
            values = dict(rule.antecedent)
            before: list[Test] = []
            for place, name in enumerate(order):
                if name in self.spec.heads:
                    reads.setdefault(ReadGuard(name, tuple(before)), place)
                before.append(index_test(self.spec, name, [values[name]]))
        return Updates(self.spec, tuple(updates), tuple(sorted(reads, key=lambda read: reads[read])))


def _check_exclusive(spec: Spec, made: list[Rule]) -> None:
    groups: dict[tuple[str, int], list[Rule]] = {}
    for rule in made:
        groups.setdefault((rule.variable, rule.old), []).append(rule)
    for (name, _), group in groups.items():
        table = [dict(rule.antecedent) for rule in group]
        for i, first in enumerate(table):
            for j in range(i + 1, len(table)):
                second = table[j]
                if group[i].new != group[j].new and all(second.get(k, v) == v for k, v in first.items()):
                    raise ProgramError(
                        f"{spec.name}: two rules set '{name}' at once, to {group[i].new} and to {group[j].new}, "
                        f"where {_shown(spec, {**first, **second})}"
                    )


def _shown(spec: Spec, indices: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {spec.kinds[name].values[index]}" for name, index in indices.items())


def step_from_rules(program: ProgramClass) -> Any:
    """A `step` that does what a program's hand-written rules say, reading variables in scope order."""
    builder = RuleBuilder(program.spec)
    program.rules(builder)  # type: ignore[attr-defined]
    updates = builder.updates()
    kept = dict(builder._made)

    def step(z: Any) -> None:
        kinds, fired = program.spec.kinds, []
        for rule, order in kept.items():
            values = dict(rule.antecedent)
            if all(kinds[name].index(getattr(z, name)) == values[name] for name in order):
                fired.append(rule)
        for rule in fired:
            setattr(z, rule.variable, kinds[rule.variable].values[rule.new or 0])

    type.__setattr__(program, "_updates", updates)
    return step
