"""What a set of inputs leaves open in a program: rules, constraints, positions and tokens (ALTA, appendix B.3).

Definition 1: a rule set is minimal for a set of MLP inputs when neither a rule nor a single constraint of a rule
can be removed without changing the result for one of them. The constraint on the old value of the
variable that a rule writes is part of the rule and is never removed. Rules that clear heads are left out.

Removing a constraint changes something exactly if some MLP input satisfies all the other constraints and not
that one: the rule then fires there too. (If another rule fires there with the same result, the result
is the same; but two rules then write one variable, which rule sets and networks exclude: that counts as change.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, islice, product
from typing import Any

import numpy as np

from kleene.checks.minimality import Seen, all_rules, seen_rules
from kleene.common.tokens import Tokens
from kleene.errors import KleeneError
from kleene.lowering.step_traces import traces
from kleene.machines.program import ProgramClass
from kleene.machines.spec import Counting, Spec
from kleene.machines.written_rules import Rule

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Unspecified:
    """What could be different without a change on the inputs. Prints as a report."""

    spec: Spec
    rules: tuple[Rule, ...]  # never fire on the inputs: `open`, and `unreachable`
    constraints: tuple[tuple[Rule, str], ...]  # (rule that fires, variable whose constraint can go)
    positions: tuple[int, ...]  # no input reaches these
    tokens: tuple[int, ...]  # no input has these
    fired: int  # rules that do fire
    unreachable: frozenset[Rule] = frozenset()  # no input fires these: their values never come together
    examples: Mapping[Rule, tuple[int, ...]] = field(default_factory=dict)  # open rule → an input that fires it
    clearing: int = 0  # rules that clear heads, of all rules
    cleared: int = 0  # the number of these that fire

    @property
    def open(self) -> tuple[Rule, ...]:
        """Rules that the inputs leave open: they never fire here, but might fire on other inputs."""
        return tuple(rule for rule in self.rules if rule not in self.unreachable)

    @property
    def minimal(self) -> bool:
        """Definition 1: no rule or constraint can be removed."""
        return not self.rules and not self.constraints

    def __str__(self) -> str:
        from kleene.show.terminal import _rule_text

        def listed(found: Sequence[Any], shown: Any) -> list[str]:
            lines = [f"  {shown(item)}" for item in found[:10]]
            return lines + ([f"  … and {len(found) - 10:,} more"] if len(found) > 10 else [])

        def rule(found: Rule) -> str:
            example = self.examples.get(found)
            return _rule_text(self.spec, found) + (f"   (fires on {list(example)})" if example is not None else "")

        lines = [f"{self.spec.name}: {'minimal' if self.minimal else 'not minimal'} for these inputs"]
        write, never = self.fired + len(self.rules), len(self.unreachable)
        lines.append(
            f"{write + self.clearing:,} rules (kl.rules): {write:,} write a variable, {self.clearing:,} clear a head"
        )
        lines.append(
            f"{self.fired + self.cleared:,} of them fire (kl.minimal): {self.fired:,} write, {self.cleared:,} clear"
        )
        lines.append(f"{self.clearing - self.cleared:,} that clear a head never fire: no head has those values here")
        lines.append(f"{len(self.open):,} that write never fire on these inputs, and are left open")
        lines += listed(self.open, rule)
        lines.append(f"{never:,} that write cannot fire on any input")
        lines += listed([found for found in self.rules if found in self.unreachable], rule)
        lines.append(f"{len(self.constraints):,} constraints can be removed, one at a time")
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
            "cleared": self.cleared,
            "clearing": self.clearing,
            "rules": [_plain(rule) for rule in self.rules],
            "open": [{**_plain(rule), "example": _listed(self.examples.get(rule))} for rule in self.open],
            "unreachable": [_plain(rule) for rule in self.rules if rule in self.unreachable],
            "constraints": [{"rule": _plain(rule), "variable": name} for rule, name in self.constraints],
            "positions": list(self.positions),
            "tokens": list(self.tokens),
        }


def _listed(example: tuple[int, ...] | None) -> list[int] | None:
    return None if example is None else list(example)


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


def unspecified(program: ProgramClass, inputs: Iterable[Tokens]) -> Unspecified:
    """Return what a set of inputs leaves open in a program.

    >>> import kleene as kl
    >>> found = kl.unspecified(kl.library.parity_relative, [[2, 1, 0], [2, 0]])
    >>> found.minimal, len(found.rules), [name for _, name in found.constraints]
    (False, 1, ['done'])
    """
    given = program.spec.check_inputs(inputs)
    seen, spec = seen_rules(program, given), program.spec
    fires, whole = set(seen.rules), all_rules(program)
    never = tuple(rule for rule in whole if rule.new is not None and rule not in fires)
    dead = unreachable(program, never)
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
        dead,
        firing_inputs(program, given, [rule for rule in never if rule not in dead][: 10 if len(whole) < 2_000 else 1]),
        sum(rule.new is None for rule in whole),
        sum(map(len, seen.head_values.values())),
    )


def unreachable(program: ProgramClass, rules: Iterable[Rule]) -> frozenset[Rule]:
    """The rules that no input fires.

    The values that each variable can have are followed from the initial ones, through every rule whose antecedent they
    allow, until nothing is added; a head may have any value that its variable has. A rule is here where its antecedent
    needs a value that never comes up, so what is here cannot fire. Of the other rules some may still be unable to.
    """
    spec = program.spec
    values = _first_values(spec)
    writing = [rule for rule in all_rules(program) if rule.new is not None]
    before = -1
    while before != (before := sum(map(len, values.values()))):
        for name, head in spec.heads.items():
            if not head.numerical:
                known = values[head.value] if head.kind == spec.kinds[head.value] else range(len(head.kind))
                values[name] |= {*known, *(() if head.default is None else (head.default,))}
        for rule in writing:
            if rule.new is not None and all(value in values[name] for name, value in rule.antecedent):
                values[rule.variable].add(rule.new)
    return frozenset(rule for rule in rules if any(value not in values[name] for name, value in rule.antecedent))


def _first_values(spec: Spec) -> dict[str, set[int]]:
    """The values that variables start with; averages and moved values may be anything."""
    values: dict[str, set[int]] = {}
    for name, variable in spec.variables.items():
        places = variable.by_position
        if isinstance(places, Counting):
            places = tuple(places[p] for p in range(min(len(places), 1 << 16)))
        values[name] = set(variable.by_token or places or (variable.default,))
    for name, head in spec.heads.items():
        values[name] = set(range(len(head.kind))) if head.numerical else set()
    for move in spec.moves.values():
        target = move.into or move.value
        values[target] = set(range(len(spec.kinds[target])))
    for cleared in (name for clear in spec.clears.values() for name in clear.variables):
        values[cleared].add(0)
    return values


SEARCHED = 300  # short inputs, and as many long ones, that are tried to find an example


def firing_inputs(
    program: ProgramClass, given: Sequence[Sequence[int]], rules: Sequence[Rule]
) -> dict[Rule, tuple[int, ...]]:
    """Inputs that fire rules, where some are found: of the shortest, then of long ones that begin as the given do."""
    if not rules:
        return {}
    found: dict[Rule, tuple[int, ...]] = {}
    for inputs in (_short_inputs(program.spec), _long_inputs(program.spec, given)):
        some = list(islice(inputs, SEARCHED))
        found = _example_of(program, [rule for rule in rules if rule not in found], some) | found
    return {rule: found[rule] for rule in rules if rule in found}


def _example_of(
    program: ProgramClass, rules: Sequence[Rule], given: Sequence[tuple[int, ...]]
) -> dict[Rule, tuple[int, ...]]:
    """The first input that fires each rule; one that does not halt, or reads what is not defined, fires none."""
    if not rules or not given:
        return {}
    half = len(given) // 2
    try:
        fired = set(seen_rules(program, given).rules)
    except KleeneError:
        fired = set(rules) if half else set()
    rules = [rule for rule in rules if rule in fired]
    if not half:
        return dict.fromkeys(rules, given[0])
    found = _example_of(program, rules, given[:half])
    return found | _example_of(program, [rule for rule in rules if rule not in found], given[half:])


def _short_inputs(spec: Spec) -> Iterator[tuple[int, ...]]:
    """All inputs, the shortest first, as long as the program takes them."""
    for length in count(1):
        for tokens in product(range(spec.tokens), repeat=length):
            try:
                spec.check_input(list(tokens))
            except KleeneError:
                return
            yield tokens


LONGEST = 64  # tokens of an example


def _long_inputs(spec: Spec, given: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]]:
    """Inputs that begin as the given ones do and go on with one token over and over, each a token longer."""
    begins = list(dict.fromkeys(tuple(word)[:1] for word in given))
    for length in range(1, LONGEST):
        for begin, token in product(begins, range(spec.tokens)):
            word = (*begin, *[token] * length)
            try:
                spec.check_input(list(word))
            except KleeneError:
                continue
            yield word


def is_minimal(program: ProgramClass, inputs: Iterable[Tokens]) -> bool:
    """Whether a program's rule set is minimal for some inputs, by the full definition (definition 1).

    >>> import kleene as kl
    >>> words = [[2], [2, 0, 0, 1, 1, 0], [2, 1, 1, 1, 0, 1]]
    >>> kl.is_minimal(kl.library.parity_relative, words), kl.is_minimal(kl.library.parity_relative, words[:2])
    (True, False)
    """
    given = program.spec.check_inputs(inputs)
    seen = seen_rules(program, given)
    fires = set(seen.rules)
    if any(rule.new is not None and rule not in fires for rule in all_rules(program)):
        return False
    return not any(removable(program, given, seen).values())


def removable(program: ProgramClass, inputs: Iterable[Tokens], seen: Seen) -> dict[Rule, tuple[str, ...]]:
    """For each rule that fires, the constraints that can be removed, one at a time."""
    before = traces(program, inputs).before
    return {rule: _removable(rule, known) for rule, known in _with_columns(seen.rules, before)}


def reduced(program: ProgramClass, inputs: Iterable[Tokens], seen: Seen) -> tuple[Rule, ...]:
    """The rules that fire, each without removable constraints. Constraints are tried by name, again after each removal.

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
