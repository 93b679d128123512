"""What a set of inputs leaves open in a program: rules, constraints, positions and tokens (ALTA, appendix B.3).

Definition 1: a rule set is minimal for a set of MLP inputs when neither a rule nor a single constraint of a rule
can be removed without changing what the rule set gives for one of them. The constraint on the old value of the
variable that a rule writes is part of the rule and is never removed. Rules that clear heads are left out.

Removing a constraint changes something exactly where some MLP input satisfies all the other constraints and not
that one: the rule then fires there too. (Where another rule fires there with the same result, what the rules say
is the same; but two rules then write one variable, which rule sets and networks exclude: that counts as change.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kleene.checks.minimality import Seen, all_rules, seen_rules
from kleene.lowering.step_traces import traces
from kleene.machines.program import ProgramClass
from kleene.machines.spec import Spec
from kleene.machines.written_rules import Rule

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Unspecified:
    """What could be otherwise and nothing would change on the inputs. Prints as a report."""

    spec: Spec
    rules: tuple[Rule, ...]  # never fire
    constraints: tuple[tuple[Rule, str], ...]  # (rule that fires, variable whose constraint can go)
    positions: tuple[int, ...]  # no input reaches these
    tokens: tuple[int, ...]  # no input has these
    fired: int  # rules that do fire

    @property
    def minimal(self) -> bool:
        """Definition 1: no rule and no constraint can go."""
        return not self.rules and not self.constraints

    def __str__(self) -> str:
        from kleene.show.terminal import _rule_text

        def listed(found: Sequence[Any], shown: Any) -> list[str]:
            lines = [f"  {shown(item)}" for item in found[:10]]
            return lines + ([f"  … and {len(found) - 10:,} more"] if len(found) > 10 else [])

        lines = [f"{self.spec.name}: {'minimal' if self.minimal else 'not minimal'} for these inputs"]
        lines.append(f"{self.fired:,} rules fire, {len(self.rules):,} never do")
        lines += listed(self.rules, lambda rule: _rule_text(self.spec, rule))
        lines.append(f"{len(self.constraints):,} constraints can each go")
        lines += listed(self.constraints, lambda pair: f"'{pair[1]}' in {_rule_text(self.spec, pair[0])}")
        for what, numbers in (("positions", self.positions), ("tokens", self.tokens)):
            lines.append(f"{what} never seen: {_ranges(numbers) or 'none'}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "program": self.spec.name,
            "minimal": self.minimal,
            "fired": self.fired,
            "rules": [_plain(rule) for rule in self.rules],
            "constraints": [{"rule": _plain(rule), "variable": name} for rule, name in self.constraints],
            "positions": list(self.positions),
            "tokens": list(self.tokens),
        }


def _plain(rule: Rule) -> dict[str, Any]:
    return {"variable": rule.variable, "old": rule.old, "new": rule.new, "if": dict(rule.antecedent)}


def _ranges(numbers: Sequence[int]) -> str:
    """
    >>> _ranges([1, 2, 3, 7])
    '1…3, 7'
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}…{run[-1]}" for run in runs)


def unspecified(program: ProgramClass, inputs: Iterable[Sequence[int]]) -> Unspecified:
    """What a set of inputs leaves open in a program.

    >>> import kleene as kl
    >>> found = kl.unspecified(kl.library.parity_relative, [[2, 1, 0], [2, 0]])
    >>> found.minimal, len(found.rules), [name for _, name in found.constraints]
    (False, 1, ['done'])
    """
    given = list(inputs)
    seen, spec = seen_rules(program, given), program.spec
    fires = set(seen.rules)
    never = tuple(rule for rule in all_rules(program) if rule.new is not None and rule not in fires)
    free = [(rule, name) for rule, names in removable(program, given, seen).items() for name in names]
    placed = any(variable.by_position is not None for variable in spec.variables.values())
    longest = max((len(variable.by_position or ()) for variable in spec.variables.values()), default=0)
    return Unspecified(
        spec,
        never,
        tuple(free),
        tuple(range(seen.positions, longest)) if placed else (),
        tuple(token for token in range(spec.tokens) if token not in seen.tokens),
        len(seen.rules),
    )


def is_minimal(program: ProgramClass, inputs: Iterable[Sequence[int]]) -> bool:
    """Whether a program's rule set is minimal for some inputs, by the full definition (definition 1).

    >>> import kleene as kl
    >>> words = [[2], [2, 0, 0, 1, 1, 0], [2, 1, 1, 1, 0, 1]]
    >>> kl.is_minimal(kl.library.parity_relative, words), kl.is_minimal(kl.library.parity_relative, words[:2])
    (True, False)
    """
    return unspecified(program, inputs).minimal


def removable(program: ProgramClass, inputs: Iterable[Sequence[int]], seen: Seen) -> dict[Rule, tuple[str, ...]]:
    """For each rule that fires, the constraints that can each go (one at a time)."""
    before = traces(program, inputs).before
    return {rule: _removable(rule, known) for rule, known in _with_columns(seen.rules, before)}


def reduced(program: ProgramClass, inputs: Iterable[Sequence[int]], seen: Seen) -> tuple[Rule, ...]:
    """The rules that fire, each without constraints that can go: tried by name, again after each that went.

    What a rule fires on among the MLP inputs does not change, so the rules do not depend on one another.
    """
    before = traces(program, inputs).before
    made: dict[Rule, None] = {}
    for rule, known in _with_columns(seen.rules, before):
        while free := _removable(rule, known):
            rule = Rule(
                rule.variable, rule.old, rule.new, tuple(pair for pair in rule.antecedent if pair[0] != free[0])
            )
        made[rule] = None
    return tuple(made)


def _with_columns(rules: Sequence[Rule], before: Mapping[str, Array]) -> Iterable[tuple[Rule, dict[str, Array]]]:
    """Each rule with the different combinations of values that the variables it mentions have."""
    known: dict[tuple[str, ...], dict[str, Array]] = {}
    for rule in rules:
        names = tuple(name for name, _ in rule.antecedent)
        if names not in known:
            unique = np.unique(np.stack([before[name] for name in names], axis=1), axis=0)
            known[names] = dict(zip(names, unique.T))
        yield rule, known[names]


def _removable(rule: Rule, columns: Mapping[str, Array]) -> tuple[str, ...]:
    violated = np.stack([columns[name] != value for name, value in rule.antecedent], axis=1)
    alone = violated[violated.sum(axis=1) == 1].any(axis=0)  # constraints that are somewhere the only one violated
    return tuple(
        name for (name, _), needed in zip(rule.antecedent, alone.tolist()) if not needed and name != rule.variable
    )
