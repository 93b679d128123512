"""Transition rules, as in the papers: a conjunction of `variable = value`, and the old and new value of one variable.

One rule is one clipped-ReLU neuron. No rule mentions a variable that its update does not depend on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from kleene.errors import NotSupported, TooManyRules
from kleene.lowering.forms import Grid
from kleene.lowering.guarding import guarded_updates, updates_from_rules
from kleene.lowering.updates import Cycle, GuardedUpdate, Updates
from kleene.machines.kinds import Word
from kleene.machines.program import ProgramClass, check_program
from kleene.machines.spec import Spec
from kleene.machines.written_rules import Rule, RuleRecorder

MAX_RULES = 1_000_000


@dataclass(frozen=True)
class Rules:
    """A set of rules: those of the updates first, then those that clear heads."""

    spec: Spec
    rules: tuple[Rule, ...]

    def __len__(self) -> int:
        return len(self.rules)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __getitem__(self, place: int) -> Rule:
        return self.rules[place]

    def apply(self, indices: Mapping[str, int | None]) -> dict[str, int | None]:
        """Apply every rule that is satisfied (f_R in the paper), and return all variables."""
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
    """The transition rules of a program, including those that clear heads.

    >>> import kleene as kl
    >>> len(kl.rules(kl.library.parity_relative))
    7
    """
    check_program("rules", program)
    return lower_to_rules(guarded_updates(program))


def one_step(updates: Updates | Cycle) -> Updates:
    """The updates of a program with one step for all layers. Raise `NotSupported` for a cycle of layers."""
    if isinstance(updates, Cycle):
        raise NotSupported(f"{updates.spec.name}: rules need one shared step; this program has a cycle of layers")
    return updates


def lower_to_rules(given: Updates | Cycle) -> Rules:
    """Convert guarded updates to rules, and merge them."""
    updates = one_step(given)
    spec = updates.spec
    for name, kind in spec.kinds.items():
        if isinstance(kind, Word):
            raise NotSupported(
                f"{spec.name}: '{name}' is a word, which has no transition rules; use lowering='thresholds'"
            )
    estimate = sum(_combinations(spec, update) for update in updates)
    if estimate > MAX_RULES * 4:  # counted before merging, without conditions on several variables
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
        f"{spec.name}: about {count:,} transition rules, more than the limit of {MAX_RULES:,}; "
        "lowering='thresholds' has no such limit"
    )


def _domains(spec: Spec, update: GuardedUpdate) -> dict[str, frozenset[int]]:
    domains = {name: frozenset(range(len(spec.kinds[name]))) for name in {*update.reads, update.variable}}
    for test in update.guard:
        if test.variable is not None:
            domains[test.variable] &= test.indices
    return domains


def _combinations(spec: Spec, update: GuardedUpdate) -> int:
    """How many combinations of values an update covers. A condition that ties two variables counts them once."""
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
    """Merge rules that differ only in one variable and cover all of its values.

    Rules of different updates may merge. This is sound for heads too: every rule that mentions a head comes from a
    path that reads it, so none of these rules needs to hold where the head is undefined.
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


class RuleBuilder(RuleRecorder):
    """Records rules written by hand, and converts them to guarded updates."""

    def updates(self) -> Updates:
        """Check that no two rules can fire for one variable at once, and convert the rules to guarded updates."""
        return updates_from_rules(self.spec, self.checked())
