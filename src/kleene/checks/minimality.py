"""The minimal version of a program with respect to a set of inputs (ALTA, appendix C.2).

A program is a set of transition rules, and initialisers of its variables. A rule *fires* where its antecedent
holds, at some position, in some layer, in the run on some input. Definition "published":

1. rules that never fire when the program is run on the inputs are dropped;
2. initialisers give the default for tokens and for positions that no input has.

The rules are those of `kl.rules`: no rule mentions a variable that its update does not depend on, and every
combination of values that changes a variable is covered by exactly one rule. So it is enough to collect, for
each guarded update, the combinations of values of the variables it reads that occur where it applies: each is
an instance of one rule, and the rules that have an instance are those that fire. What a run does is only what
the rules that fire do, so on the inputs themselves the minimal version does what the program does, layer by
layer. Heads are not touched; where the program reads an undefined one, so does its minimal version.

Definition "full" (definition 1 of the paper) also drops the constraints of the rules left that can go (see
`checks/unspecified.py`). Which constraints go depends on the order in which they are tried. Outside the inputs two
rules may then hold for one variable: the data does not decide between them, and the interpreter raises an error there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Literal

import numpy as np

from kleene.common.tokens import Tokens
from kleene.errors import NotSupported, ProgramError, UndefinedRead
from kleene.lowering.forms import Form
from kleene.lowering.guarding import guarded_updates
from kleene.lowering.rule_machine import RuleMachine
from kleene.lowering.rules import Rules, lower_to_rules, one_step
from kleene.lowering.updates import GuardedUpdate, Updates, index_test
from kleene.machines.arrays import view
from kleene.machines.interpreter import PositionState, checked_write
from kleene.machines.program import ProgramClass, check_program, step_of
from kleene.machines.spec import Spec, VariableSpec
from kleene.machines.written_rules import Rule, show_state

Array = np.ndarray[Any, Any]
DEFINITIONS = ("published", "full")
MAX_FLAGS = 1 << 24  # combinations of values that are ticked off in a table; more are sorted
BATCH = 1_000


@dataclass(frozen=True)
class Seen:
    """What happens in the runs of a program on some inputs."""

    rules: tuple[Rule, ...]  # those that fire, without those that clear heads
    head_values: dict[str, frozenset[int]]  # values that a head has somewhere: their clearing rules fire
    tokens: frozenset[int]
    positions: int  # the longest input

    @property
    def rule_count(self) -> int:
        """How many rules fire, with those that clear heads: the paper's number of MLP dimensions."""
        return len(self.rules) + sum(map(len, self.head_values.values()))


class MinimalProgram(ProgramClass):
    """A program made by `kl.minimal`; `seen` describes the runs that it was made from."""

    seen: Seen

    def __str__(cls) -> str:
        """The remaining rules, and their number by sort."""
        from kleene.show.terminal import _rule_text

        seen = cls.seen
        clear = sum(map(len, seen.head_values.values()))
        lines = [
            f"{cls.spec.name}: {seen.rule_count:,} rules; {len(seen.rules):,} write a variable, {clear:,} clear a head"
        ]
        lines += [f"  {_rule_text(cls.spec, rule)}" for rule in seen.rules[:20]]
        lines += [f"  … and {len(seen.rules) - 20:,} more"] if len(seen.rules) > 20 else []
        return "\n".join(lines)


def minimal(
    program: ProgramClass, inputs: Iterable[Tokens], *, definition: Literal["published", "full"] = "published"
) -> MinimalProgram:
    """Build the minimal version of a program for a set of inputs: a program with only what their runs use.

    The result has `seen`: the rules that fire, and the tokens and positions that the inputs have.

    - `definition`: "published" keeps the rules that fire, as the paper's code does; "full" also drops every
      constraint of a rule that the inputs do not need.

    >>> import kleene as kl
    >>> small = kl.minimal(kl.library.parity_relative, [[2, 1, 1], [2, 0]])
    >>> small.run([2, 1, 1]), small.run([2, 1, 0]), len(small.seen.rules)
    ([0, 1, 0], [0, 1, 0], 2)
    """
    check_program("minimal", program)
    if definition not in DEFINITIONS:
        raise NotSupported(f"minimal: unknown definition {definition!r}; choose one of {', '.join(DEFINITIONS)}")
    given = program.spec.check_inputs(inputs)
    seen = seen_rules(program, given)
    if definition == "published":
        return restricted(program, seen)
    from kleene.checks.unspecified import reduced

    return by_rules(program, replace(seen, rules=reduced(program, given, seen)))


def seen_rules(program: ProgramClass, inputs: Iterable[Tokens]) -> Seen:
    """Run a program on inputs and collect which of its rules fire."""
    updates, rules = one_step(guarded_updates(program)), all_rules(program)
    given = program.spec.check_inputs(inputs)
    recorder = _Recorder(updates)
    if program.spec.max_tokens is not None:
        given = [[*tokens, *recorder.run(tokens)] for tokens in given]
    else:
        ordered = sorted(given, key=len)  # little padding
        for start in range(0, len(given), BATCH):
            recorder.run_batch(ordered[start : start + BATCH])
    return Seen(
        tuple(_covering(rules, recorder.instances())),
        {name: frozenset(np.nonzero(flags)[0].tolist()) for name, flags in recorder.head_values.items()},
        frozenset(token for tokens in given for token in tokens),
        max(map(len, given), default=0),
    )


def all_rules(program: ProgramClass) -> Rules:
    """`kl.rules`, kept with the program."""
    if "_rules" not in vars(program):
        type.__setattr__(program, "_rules", lower_to_rules(guarded_updates(program)))
    found: Rules = vars(program)["_rules"]
    return found


# --- which rules fire ---------------------------------------------------------------------------------------


class _Combinations:
    """The distinct combinations of values of some variables."""

    def __init__(self, spec: Spec, names: Sequence[str]) -> None:
        self.names = list(names)
        self.sizes = [len(spec.kinds[name]) for name in names]
        flags = prod(self.sizes) <= MAX_FLAGS
        self.flags = np.zeros(prod(self.sizes), dtype=bool) if flags else None
        self.sets: set[tuple[int, ...]] = set()

    def add(self, state: dict[str, Array], rows: Array) -> None:
        columns = [state[name][rows] for name in self.names]
        if self.flags is None:
            self.sets.update(map(tuple, np.unique(np.stack(columns, axis=1), axis=0).tolist()))
            return
        number = np.zeros(len(rows), dtype=np.int64)
        for column, size in zip(columns, self.sizes):
            number = number * size + column
        self.flags[number] = True

    def __iter__(self) -> Any:
        if self.flags is None:
            return iter(sorted(self.sets))
        places = np.unravel_index(np.nonzero(self.flags)[0], self.sizes)
        return iter(list(zip(*(place.tolist() for place in places))))


class _Recorder(RuleMachine):
    """A rule machine that keeps, for each update, the values it was applied to."""

    leaves_settled = False

    def __init__(self, updates: Updates) -> None:
        super().__init__(updates)
        spec = updates.spec
        self.combinations = [_Combinations(spec, sorted({*u.reads, u.variable})) for u in updates]
        self.head_values = {name: np.zeros(len(head.kind), dtype=bool) for name, head in spec.heads.items()}
        self.real: Array = np.zeros(0, dtype=bool)

    def _layer(self, state: dict[str, Array], lengths: Array, layer: int, check: bool) -> dict[str, Array]:
        size = next(iter(state.values())).shape[1]
        self.real = (np.arange(size) < lengths[:, None]).reshape(-1)
        return super()._layer(state, lengths, layer, check)

    def step(self, state: dict[str, Array], heads: dict[str, Array]) -> dict[str, Array]:
        everything = {**state, **heads}
        for name, flags in self.head_values.items():
            values = heads[name][self.real]
            flags[values[values >= 0]] = True
        for combinations, update, rows in zip(self.combinations, self.updates, self.applied(everything)):
            kept = rows[self.real[rows]]
            for name in update.reads & self.spec.heads.keys():
                kept = kept[everything[name][kept] >= 0]
            if len(kept):
                combinations.add(everything, kept)
        return super().step(state, heads)

    def instances(self) -> Iterable[Rule]:
        """The changes, each with all values that its update reads."""
        for update, combinations in zip(self.updates, self.combinations):
            for values in combinations:
                indices = dict(zip(combinations.names, values))
                old, new = indices[update.variable], update.results[update.form.at(indices)]
                if old != new:
                    yield Rule(update.variable, old, new, tuple(sorted(indices.items())))


def _covering(rules: Rules, instances: Iterable[Rule]) -> Iterable[Rule]:
    """The rules that have these instances: the antecedent of a rule is part of each instance."""
    known: dict[str, dict[tuple[str, ...], dict[tuple[int, ...], Rule]]] = {}
    for rule in rules:
        names, values = zip(*rule.antecedent)
        known.setdefault(rule.variable, {}).setdefault(names, {})[values] = rule
    found: dict[Rule, None] = {}
    for instance in instances:
        given = dict(instance.antecedent)
        for names, group in known[instance.variable].items():
            covering = group.get(tuple(given[name] for name in names)) if given.keys() >= set(names) else None
            if covering is not None:
                found[covering] = None
    return found


# --- the smaller program -----------------------------------------------------------------------------------


def restricted(program: ProgramClass, seen: Seen) -> MinimalProgram:
    """A program with only these rules, and initialisers only for these tokens and positions."""
    kept: dict[str, dict[tuple[str, ...], set[tuple[int, ...]]]] = {}
    for rule in seen.rules:
        names, values = zip(*rule.antecedent)
        kept.setdefault(rule.variable, {}).setdefault(names, set()).add(values)

    def step(z: Any) -> None:
        attempt = _Attempt(program, z)
        step_of(program)(attempt)
        for name, value in attempt.written.items():
            if value != getattr(z, name) and attempt.fires(kept.get(name, {})):
                attempt.changes[name] = value
        for name, value in attempt.changes.items():
            setattr(z, name, value)

    made = _with_step(program, seen, step)
    updates = tuple(_as_update(made.spec, rule) for rule in seen.rules)
    type.__setattr__(made, "_updates", Updates(made.spec, updates, one_step(guarded_updates(program)).reads))
    return made


def by_rules(program: ProgramClass, seen: Seen) -> MinimalProgram:
    """The program of these rules, without `step`. An undefined head satisfies no constraint."""
    kept: dict[str, dict[tuple[str, ...], dict[tuple[int | None, ...], int]]] = {}
    for rule in seen.rules:
        names, values = zip(*rule.antecedent)
        assert rule.new is not None
        kept.setdefault(rule.variable, {}).setdefault(names, {})[values] = rule.new
    clash = _overlap(seen.rules)

    def step(z: Any) -> None:
        if not isinstance(z, PositionState):
            first, second = clash or seen.rules[:2]
            where = show_state(program.spec, {**dict(first.antecedent), **dict(second.antecedent)})
            raise NotSupported(
                f"{made.__name__}: two of its rules write '{first.variable}' where {where}, which the inputs never "
                "have: it runs on the interpreter alone; definition='published' gives a program that compiles"
            )
        attempt, changes = _Attempt(program, z), dict[str, Any]()
        for name, groups in kept.items():
            given = {names: tuple(attempt._index(other) for other in names) for names in groups}
            found = {group[given[names]] for names, group in groups.items() if given[names] in group}
            if len(found) > 1:
                raise ProgramError(f"{made.__name__}: rules set '{name}' to different values; the inputs leave it open")
            for new in found:
                changes[name] = program.spec.variables[name].kind.values[new]
        for name, value in changes.items():
            setattr(z, name, value)

    made = _with_step(program, seen, step)
    if clash is None:
        type.__setattr__(
            made, "_updates", Updates(made.spec, tuple(_as_update(made.spec, rule) for rule in seen.rules))
        )
    return made


def _with_step(program: ProgramClass, seen: Seen, step: Callable[[Any], None]) -> MinimalProgram:
    """The program with another `step`, and initialisers only for the tokens and positions that were seen."""
    made = MinimalProgram(f"{program.__name__}_minimal", (program,), {"step": step, "__doc__": program.__doc__})
    made.spec = replace(
        program.spec,
        name=made.__name__,
        variables={name: _restricted_initialiser(variable, seen) for name, variable in program.spec.variables.items()},
    )
    made.seen = seen
    return made


def _overlap(rules: Sequence[Rule]) -> tuple[Rule, Rule] | None:
    """Two rules that can hold at once for one variable, or None."""
    groups: dict[tuple[str, int], list[Rule]] = {}
    for rule in rules:
        groups.setdefault((rule.variable, rule.old), []).append(rule)
    for group in groups.values():
        given = [dict(rule.antecedent) for rule in group]
        for i, one in enumerate(given):
            for j in range(i + 1, len(given)):
                if all(given[j].get(name, value) == value for name, value in one.items()):
                    return group[i], group[j]
    return None


def _as_update(spec: Spec, rule: Rule) -> GuardedUpdate:
    guard = tuple(index_test(spec, name, [value]) for name, value in rule.antecedent if len(spec.kinds[name]) > 1)
    assert rule.new is not None
    return GuardedUpdate(rule.variable, guard, Form(0, ()), ((0, rule.new),))


def _restricted_initialiser(variable: VariableSpec, seen: Seen) -> VariableSpec:
    by_token, by_position = variable.by_token, variable.by_position
    if by_token is not None:
        by_token = tuple(i if t in seen.tokens else variable.default for t, i in enumerate(by_token))
    if isinstance(by_position, tuple):
        by_position = tuple(i if p < seen.positions else variable.default for p, i in enumerate(by_position))
    return replace(variable, by_token=by_token, by_position=by_position)


class _Attempt:
    """`z` for the `step` of the whole program: reads pass through, writes are kept apart."""

    def __init__(self, program: ProgramClass, z: Any) -> None:
        vars(self).update(_spec=program.spec, _program=program, _z=z, written={}, changes={})

    def __getattr__(self, name: str) -> Any:
        if name not in self._spec.kinds and (array := view(self, self._program, name)) is not None:
            return array
        return self.written[name] if name in self.written else getattr(self._z, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._spec.kinds and (array := view(self, self._program, name)) is not None:
            return array.assign(value)
        self.written[name] = checked_write(self._spec, name, value)

    def fires(self, rules: dict[tuple[str, ...], set[tuple[int, ...]]]) -> bool:
        """Whether one of a variable's rules is satisfied by the state before `step`."""
        return any(tuple(map(self._index, names)) in group for names, group in rules.items())

    def _index(self, name: str) -> int | None:
        try:
            index: int | None = self._spec.kinds[name].index(getattr(self._z, name))
            return index
        except UndefinedRead:
            return None
