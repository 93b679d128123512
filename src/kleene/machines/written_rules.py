"""Transition rules written by hand (Figure 6 of the paper): `def rules(b): …` instead of `step` in a program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kleene.errors import ProgramError
from kleene.machines.spec import Spec

Antecedent = tuple[tuple[str, int], ...]  # (variable, index of its value), sorted by variable


@dataclass(frozen=True)
class Rule:
    """Change variable from old to new where the antecedent, which includes variable = old, is satisfied.

    Values are indices into the variable's declared values; `new` None clears the output of a head.
    """

    variable: str
    old: int
    new: int | None
    antecedent: Antecedent

    def satisfied(self, indices: Mapping[str, int | None]) -> bool:
        return all(indices[name] == index for name, index in self.antecedent)


class RuleRecorder:
    """Record rules written by hand: the `b` in `def rules(b): …`.

    `get` iterates over the values of a variable and puts each in scope. `set` makes a rule whose antecedent is the
    scope.
    """

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self._scope: dict[str, int] = {}
        self.made: list[tuple[Rule, tuple[str, ...]]] = []

    def get(self, name: str) -> Iterator[Any]:
        """Iterate over the values of a variable or head. Each is in scope during its turn of the loop."""
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
        """Set the variable to `value` in this scope."""
        if name not in self.spec.variables:
            raise ProgramError(f"{self.spec.name}: rules set '{name}', which is not a declared variable")
        kind = self.spec.variables[name].kind
        new = kind.index(value)
        if new is None:
            raise ProgramError(f"{self.spec.name}: rules set '{name}' to {value!r}, outside {kind.describe()}")
        olds: Iterable[int] = [self._scope[name]] if name in self._scope else range(len(kind))
        for old in olds:  # a rule with old = new makes no neuron, but still counts in the check for conflicts
            scope = {**self._scope, name: old}
            rule = Rule(name, old, new, tuple(sorted(scope.items())))
            self.made.append((rule, tuple(scope)))

    def checked(self) -> dict[Rule, tuple[str, ...]]:
        """Check that no two rules can fire for one variable at once.

        Return each rule with its variables in the order of the scope.
        """
        kept = dict(self.made)
        check_exclusive(self.spec, list(kept))
        return kept


def check_exclusive(spec: Spec, made: list[Rule]) -> None:
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
                        f"where {show_state(spec, {**first, **second})}"
                    )


def show_state(spec: Spec, indices: Mapping[str, int]) -> str:
    """Format values of variables, as in `done = 0, parity = 1`."""
    return ", ".join(f"{name} = {spec.kinds[name].values[index]}" for name, index in indices.items())


def step_from_rules(spec: Spec, write: Callable[[Any], None]) -> tuple[Callable[[Any], None], RuleRecorder]:
    """Make a `step` that applies hand-written rules and reads variables in scope order. Also return the rules."""
    recorder = RuleRecorder(spec)
    write(recorder)
    kept = recorder.checked()

    def step(z: Any) -> None:
        kinds, fired = spec.kinds, []
        for rule, order in kept.items():
            values = dict(rule.antecedent)
            if all(kinds[name].index(getattr(z, name)) == values[name] for name in order):
                fired.append(rule)
        for rule in fired:
            setattr(z, rule.variable, kinds[rule.variable].values[rule.new or 0])

    return step, recorder
