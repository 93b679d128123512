"""The first half of a proof about a program: its guarded updates do what its Python `step` does.

The certificate of a network starts from guarded updates; this is the separate statement about how they came about.
Nothing of symbolic execution is believed. Shown from the updates alone: the guards of a variable exclude each other,
and where a guard holds its table has an entry; where no guard holds, the variable keeps its value. Then `step` is run
on plain values and compared: on all values where there are at most a million cases, otherwise on a sample.

A case is what `step` reads, value by value: a value that it does not read cannot change what it does, because `step`
is pure. That a variable's updates do not depend on it either is looked at with all its values.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from math import prod
from typing import Any

import numpy as np

from kleene.common.output import check_layers
from kleene.errors import InputError, counted
from kleene.lowering.decisions import Branch
from kleene.lowering.execution import execute, ways_through
from kleene.lowering.forms import Form, Number
from kleene.lowering.guarding import guarded_updates
from kleene.lowering.symbolic import Path, Saved
from kleene.lowering.updates import Cycle, GuardedUpdate, Test, Updates, WordUpdate
from kleene.lowering.value_sets import ValueSets, initial_values
from kleene.lowering.words import largest
from kleene.machines.arrays import view
from kleene.machines.bitwords import BitValues, BitWord, part_of_name, with_part, word_of_name
from kleene.machines.interpreter import checked_write, class_constant, quiet
from kleene.machines.kinds import Kind, Word
from kleene.machines.program import LayerProgram
from kleene.machines.spec import Spec

ALL = 1_000_000  # cases that are tried one by one
RANDOM = 10_000  # states in a sample, beside those that the paths need
CHUNK = 20_000
MAX_JOINT = 5_000_000
KEPT = -(1 << 63)  # not what a sum of words comes to
WIDE = 50  # bits of a word whose sums may leave 64 bits

Array = np.ndarray[Any, Any]
Columns = Mapping[str, Array]
Case = tuple[tuple[str, ...], tuple[int, ...], tuple[tuple[str, int], ...]]  # read, their indices, written


@dataclass(frozen=True)
class StepStatement:
    """Whether the guarded updates do what `step` does, and how far that was shown."""

    program: str
    holds: bool
    method: str  # "all values" | "sample"
    checked: int  # times that step was run on plain values
    paths: int | None  # of a sample: ways through step
    reached: int | None  # and how many of them a state was found for
    reasons: tuple[str, ...]  # what was shown; where it does not hold, what failed

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        how = "on all values" if self.method == "all values" else "on a sample"
        said = f"the guarded updates do what step does, {how}" if self.holds else "the guarded updates are not step"
        return "\n".join([f"{self.program}: {said}", *(f"  - {reason}" for reason in self.reasons)])

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "program": self.program,
            "holds": self.holds,
            "method": self.method,
            "checked": self.checked,
            "paths": self.paths,
            "reached": self.reached,
            "reasons": list(self.reasons),
        }


class _Differs(Exception):
    """What failed, in words."""


# what decides a run beside `step`; how long it runs is compared by itself
DECLARED = (
    *("tokens", "positions", "variables", "heads", "moves", "clears", "cycle"),
    *("output", "causal", "stop", "max_tokens", "text"),
)


def certify_step(
    program: Any, *, updates: Updates | Cycle | None = None, limit: int = ALL, layers: int | None = None
) -> StepStatement:
    """Check guarded updates (by default those that the program compiles to) against its `step`.

    program: the class. updates: what a network was saved with. limit: how many cases are tried one by one.
    layers: how many layers the updates are to run, where that is not what the program says.
    """
    given = guarded_updates(program) if updates is None else updates
    made = guarded_updates(program).by_layer
    _check_declarations(program.spec, given.spec, layers)
    count = program.spec.layers if layers is None else layers
    check_layers(program.spec.name, count, most=None if made[0].before_layers is None else program.spec.layers)
    before: list[ValueSets | None] = [*(own.before for own in made), made[0].before]
    if made[0].before_layers is not None:  # the ranges hold for as many layers as the program has
        before = [*made[0].before_layers, None]
    parts: dict[str, StepStatement] = {}
    for i, (values, following) in enumerate(pairwise(before)):
        part, own = program.by_layer[i % len(made)], given.by_layer[i % len(made)]
        limited = replace(own, spec=part.spec, before=values)
        parts[f"layer {i + 1}"] = _Check(part, limited, limit, i == 0, following).statement()
        second = part.second if isinstance(part, LayerProgram) else None
        if (second is None) != (own.second is None):
            raise InputError(f"{program.spec.name}: the updates of layer {i + 1} have another number of steps")
        if second is not None and own.second is not None:
            later = replace(own.second, spec=second.spec)
            parts[f"layer {i + 1}, second step"] = _Check(second, later, limit, False, following).statement()
    return next(iter(parts.values())) if len(parts) == 1 else _of_all_layers(program.spec.name, parts)


def _check_declarations(spec: Spec, given: Spec, layers: int | None) -> None:
    """Raise an error where a network runs another program, whatever its updates do."""
    for part in DECLARED:
        if getattr(given, part) != getattr(spec, part):
            raise InputError(f"{spec.name}: the updates are of another program, {given.name}: they differ in '{part}'")
    wanted, found = _runs(spec, layers), _runs(given, None)
    if wanted != found:
        told = f"layers={given.layers}" if not given.halt and given.layers is not None else "no layers="
        raise InputError(
            f"{spec.name}: the updates run {found}, the program {wanted}; "
            f"with {told} the certificate is about such runs"
        )


def _runs(spec: Spec, layers: int | None) -> str:
    """How long a program runs, in words."""
    if layers is not None or not spec.halt:
        return f"for {counted((spec.layers if layers is None else layers) or 0, 'layer')}"
    return f"until {', '.join(f'{n} = {spec.kinds[n].values[i]}' for n, i in sorted(spec.halt.items()))}"


def _of_all_layers(name: str, by_layer: Mapping[str, StepStatement]) -> StepStatement:
    """The statement about a cycle, from those about its layers: where some fail, their reasons alone."""
    parts = list(by_layer.values())
    failed = [part for part in parts if not part.holds]
    reasons = [
        f"{where}: {why}" for where, part in by_layer.items() for why in part.reasons if part in (failed or parts)
    ]
    return StepStatement(
        name,
        not failed,
        "sample" if any(part.method == "sample" for part in parts) else "all values",
        sum(part.checked for part in parts),
        sum(part.paths or 0 for part in parts) or None,
        sum(part.reached or 0 for part in parts) or None,
        tuple(reasons),
    )


class _Check:
    """One layer's updates against its step."""

    def __init__(self, program: Any, updates: Updates, limit: int, first: bool, following: ValueSets | None) -> None:
        self.program, self.updates, self.spec, self.limit = program, updates, updates.spec, limit
        self.first, self.following = (
            first,
            following,
        )  # the values that may come out, where those that go in are limited
        self.checked, self.filled = 0, False
        self.known = _Known(updates.spec)

    def statement(self) -> StepStatement:
        with quiet():
            return self._statement()

    def _statement(self) -> StepStatement:
        method, paths, reached = "all values", None, None
        try:
            shown = [check_exclusive(self.updates), check_total(self.updates)]
            if self.updates.before is not None:
                shown.append(self._check_reached())
            if self._cases() <= self.limit:
                shown.append(self._replay_all())
            else:
                method = "sample"
                paths, reached, why = self._replay_sample()
                shown.append(why)
            if self.filled:
                method = "sample"
                shown.append("values that step does not read, and updates mention, were drawn at random")
        except _Differs as difference:
            return StepStatement(self.spec.name, False, method, self.checked, paths, reached, (str(difference),))
        return StepStatement(self.spec.name, True, method, self.checked, paths, reached, tuple(shown))

    # --- running step on plain values ---

    def _cases(self) -> float:
        """About how many cases there are: the mean of what random ones say (Knuth's estimate of a tree)."""
        chance, total = random.Random(0), 0.0
        for _ in range(200):
            read, _, _ = self._run(lambda name: chance.choice(self.updates.values(name)))
            total += prod(float(len(self.updates.values(name))) for name in read)
        return total / 200

    def _check_reached(self) -> str:
        """Runs do not start with a value that is left out; that `step` makes none is seen when it is run."""
        before, kinds = self.updates.before or {}, self.spec.kinds
        for name, values in initial_values(self.spec).items() if self.first else ():
            if not values <= before[name]:
                raise _Differs(f"'{name}' starts with a value that is left out as one that no run reaches")
        left = {n: sorted({*range(len(kinds[n]))} - values) for n, values in before.items()}
        told = "; ".join(
            f"{n} = {', '.join(str(kinds[n].values[i]) for i in some)}" for n, some in left.items() if some
        )
        return f"no run reaches {told}: no variable starts there, and step was not seen to lead there"

    def _run(self, choose: Callable[[str], int]) -> Case:
        """`step` on values that are chosen when it reads them."""
        state = Plain(self.program, self.known, choose)
        try:
            self.program.step(state)
        except Exception as error:
            raise _Differs(f"step raises {type(error).__name__}: {error}, where {self._told(state._read)}") from error
        return tuple(state._read), tuple(state._read.values()), tuple(state._written.items())

    def _told(self, indices: Mapping[str, int]) -> str:
        kinds = self.spec.kinds
        return ", ".join(f"{name} = {kinds[name].values[index]}" for name, index in indices.items()) or "anything"

    def _replay_all(self) -> str:
        """Every case: the values that step reads, in the order of reading, counted through."""
        chosen: list[list[int]] = []  # [index, how many] of each reading
        place = 0

        def choose(name: str) -> int:
            nonlocal place
            values = self.updates.values(name)
            if place == len(chosen):
                chosen.append([0, len(values)])
            place += 1
            return values[chosen[place - 1][0]]

        cases: list[Case] = []
        while True:
            place = 0
            cases.append(self._run(choose))
            if len(cases) == CHUNK:
                self._compare(cases)
                cases = []
            del chosen[place:]
            while chosen and chosen[-1][0] + 1 == chosen[-1][1]:
                chosen.pop()
            if not chosen:
                break
            chosen[-1][0] += 1
        self._compare(cases)
        return f"step, run on plain values in all {self.checked:,} cases that it tells apart, does what the updates do"

    def _replay_sample(self) -> tuple[int, int, str]:
        """A state for each path, so that both sides of every branch are taken, and random ones."""
        chance, paths = random.Random(0), ways_through(execute(self.program, self.updates.reached))
        reached, states = 0, []
        for path, way in paths:
            found = [state for _ in range(2) if (state := witness(self.updates, path, way, chance)) is not None]
            reached += bool(found)
            states += found
        states += [_random_state(self.updates, chance) for _ in range(RANDOM)]
        for start in range(0, len(states), CHUNK):
            self._compare([self._run(_given(state)) for state in states[start : start + CHUNK]])
        why = (
            f"step, run on plain values in {self.checked:,} states, does what the updates do: a sample, "
            f"{RANDOM:,} random states (seed 0) and one or two on {reached:,} of {len(paths):,} paths"
        )
        return len(paths), reached, why + (", so both sides of every branch" if reached == len(paths) else "")

    # --- comparing with the updates ---

    def _compare(self, cases: list[Case]) -> None:
        self.checked += len(cases)
        groups: dict[tuple[str, ...], list[Case]] = {}
        for case in cases:
            groups.setdefault(case[0], []).append(case)
        for names, rows in groups.items():
            columns = {name: self._column([indices[i] for _, indices, _ in rows], name) for i, name in enumerate(names)}
            self._compare_reads(columns, len(rows))
            written = [dict(row[2]) for row in rows]
            for name in self.spec.variables:
                wanted = np.array([row.get(name, KEPT) for row in written], dtype=np.int64)
                self._compare_variable(name, columns, wanted)
                self._compare_reached(name, columns, wanted)

    def _column(self, values: Sequence[int], name: str) -> Array:
        """Values of a variable or head; of a wide word as Python's integers, since sums would leave 64 bits."""
        return np.array(values, dtype=object if self.known.bits.get(name, 0) > WIDE else np.int64)

    def _compare_reached(self, name: str, columns: Columns, wanted: Array) -> None:
        """Where values are left out as ones that no run reaches, step does not make them."""
        if self.following is None or name not in self.following:
            return
        kept = columns[name][wanted == KEPT] if name in columns else np.array(self.updates.values(name))
        made = {*wanted.tolist(), *(kept.tolist() if (wanted == KEPT).any() else ())} - {KEPT}
        if not made <= self.following[name]:
            value = self.spec.kinds[name].values[min(made - self.following[name])]
            raise _Differs(f"step makes '{name}' {value}, which is left out as a value that no run reaches")

    def _compare_variable(self, name: str, columns: Columns, wanted: Array) -> None:
        updates: list[GuardedUpdate | WordUpdate] = [*self.updates.of(name), *self.updates.of_word(name)]
        mentioned = {update: self._mentioned(update) - columns.keys() for update in updates}
        waiting = np.zeros(len(wanted), dtype=bool)  # rows in which an update needs a value that step did not read
        unread: set[str] = set()
        for update, missing in mentioned.items():
            if missing:
                known = [test for test in update.guard if self._names([test.form]) <= columns.keys()]
                rows = _where(known, self._with_predicates(columns), len(wanted))
                if rows.any():
                    waiting, unread = waiting | rows, unread | missing
        ready = [update for update, missing in mentioned.items() if not missing]
        if not waiting.any():
            self._compare_rows(name, ready, columns, wanted)
            return
        closed = ~waiting
        self._compare_rows(name, ready, {n: column[closed] for n, column in columns.items()}, wanted[closed])
        larger, repeated = self._filled({n: c[waiting] for n, c in columns.items()}, sorted(unread), wanted[waiting])
        self._compare_rows(name, updates, larger, repeated)

    def _filled(self, columns: Columns, names: Sequence[str], wanted: Array) -> tuple[dict[str, Array], Array]:
        """The same rows with every value of more variables; with random ones where that is too much."""
        made = dict(columns)
        values = [self.updates.values(name) for name in names]
        if prod(map(len, values)) * len(wanted) <= MAX_JOINT:
            grid = np.stack([a.ravel() for a in np.meshgrid(*map(np.array, values), indexing="ij")])
            made = {name: np.repeat(column, grid.shape[1]) for name, column in made.items()}
            made |= {name: np.tile(row, len(wanted)) for name, row in zip(names, grid)}
            return made, np.repeat(wanted, grid.shape[1])
        self.filled = True
        chance = random.Random(0)
        made |= {name: self._column([chance.choice(some) for _ in wanted], name) for name, some in zip(names, values)}
        return made, wanted

    def _compare_rows(self, name: str, updates: Sequence[Any], columns: Columns, wanted: Array) -> None:
        """The updates of one variable, on rows in which all that they mention is known."""
        if not len(wanted):
            return
        known = self._with_predicates(columns)
        found = np.full(len(wanted), KEPT, dtype=np.int64)
        for update in updates:
            rows = np.nonzero(_where(update.guard, known, len(wanted)))[0]
            if not len(rows):
                continue
            here = BitValues({n: column[rows] for n, column in known.items()})
            if isinstance(update, WordUpdate):
                found[rows] = update.assignment.value(here)
            else:
                values = _values(update.form, here, len(rows))
                keys = np.array([int(v * update.form.denominator) for v, _ in update.table], dtype=np.int64)
                place = np.searchsorted(keys, values).clip(0, len(keys) - 1)
                if not (keys[place] == values).all():
                    raise _Differs(f"the table of an update of '{name}' has no entry for a value that it needs")
                found[rows] = np.array([index for _, index in update.table], dtype=np.int64)[place]
        only = self.updates.values(name) if not isinstance(self.spec.kinds[name], Word) else ()
        old = columns[name] if name in columns else only[0] if len(only) == 1 else KEPT
        left, right = np.where(wanted == KEPT, old, wanted), np.where(found == KEPT, old, found)
        for row in np.nonzero(left != right)[0][:1]:
            kind = self.spec.kinds[name]
            told = [_shown(kind, int(side[row])) for side in (left, right)]
            where = self._told({n: int(column[row]) for n, column in columns.items()})
            raise _Differs(f"step makes '{name}' {told[0]}, the updates make it {told[1]}, where {where}")

    def _compare_reads(self, columns: Columns, count: int) -> None:
        """The read guards say which heads step reads."""
        known = self._with_predicates(columns)
        said: dict[str, Array] = {}
        for read in self.updates.reads:
            tests = [test for test in read.guard if self._names([test.form]) <= columns.keys()]
            rows = _where(tests, known, count)
            if len(tests) < len(read.guard) and rows.any():
                raise _Differs(f"the guard of a reading of '{read.head}' depends on what step has not read")
            said[read.head] = said.get(read.head, False) | rows
        for name in self.spec.heads:
            rows = said.get(name, np.zeros(count, dtype=bool))
            for row in np.nonzero(rows != (name in columns))[0][:1]:
                where = self._told({n: int(column[row]) for n, column in columns.items()})
                does = "reads" if name in columns else "does not read"
                raise _Differs(f"step {does} '{name}', the read guards say otherwise, where {where}")

    def _with_predicates(self, columns: Columns) -> BitValues:
        known = dict(columns)
        for name, predicate in self.updates.by_predicate.items():
            if _words_of(word for word, _ in predicate.terms) <= columns.keys():
                known[name] = np.asarray(predicate.holds(columns), dtype=np.int64)
        return BitValues(known)

    def _names(self, forms: Iterable[Form]) -> set[str]:
        """The variables and heads behind forms: words for their bits, and for a comparison."""
        found: set[str] = set()
        for form in forms:
            for name in form.variables:
                predicate = self.updates.by_predicate.get(name)
                found |= _words_of([name] if predicate is None else [word for word, _ in predicate.terms])
        return found

    def _mentioned(self, update: GuardedUpdate | WordUpdate) -> set[str]:
        tests = self._names(test.form for test in update.guard)
        if isinstance(update, WordUpdate):
            return tests | _words_of(update.assignment.reads)
        return tests | self._names([update.form])


class Plain:
    """`z` in `step` on plain values, each chosen when it is first read. Values that are known are plain attributes."""

    def __init__(self, program: Any, known: _Known, choose: Callable[[str], int]) -> None:
        vars(self).update(_program=program, _known=known, _choose=choose, _read={}, _written={})

    def __getattr__(self, name: str) -> Any:
        known = self._known
        values = known.values.get(name)
        if values is None:
            return class_constant(self._program, name, self)
        index = self._choose(name)
        value = BitWord(values[index], known.bits[name]) if name in known.bits else values[index]
        self._read[name], vars(self)[name] = index, value
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._known.values and (array := view(self, self._program, name)) is not None:
            return array.assign(value)
        now, self._written[name] = self._known.write(name, value)
        vars(self)[name] = now


class _Known:
    """Each variable's values, and what was written before."""

    def __init__(self, spec: Spec) -> None:
        self.spec, self.values = spec, {name: kind.values for name, kind in spec.kinds.items()}
        self.values |= {name: head.read_values for name, head in spec.heads.items()}
        self.bits = {name: kind.bits for name, kind in spec.kinds.items() if isinstance(kind, Word)}
        self._writes: dict[Any, tuple[Any, int]] = {}

    def write(self, name: str, value: Any) -> tuple[Any, int]:
        """The value as the variable holds it, and its index."""
        key = (name, type(value), value) if type(value) in (int, bool) else None
        found = self._writes.get(key)
        if found is None:
            now = checked_write(self.spec, name, value)
            index = self.spec.variables[name].kind.index(now)
            assert index is not None
            found = BitWord(now, self.bits[name]) if name in self.bits else now, index
            if key is not None and len(self._writes) < ALL:
                self._writes[key] = found
        return found


def _shown(kind: Kind, index: int) -> str:
    """A value, given by its index; a word may be out of range."""
    if index == KEPT:
        return "unchanged"
    return str(index if isinstance(kind, Word) else kind.values[index])


def _words_of(names: Iterable[str]) -> set[str]:
    """Names of variables and heads; a word for each of its parts."""
    return set(map(word_of_name, names))


def _given(state: Mapping[str, int]) -> Callable[[str], int]:
    return lambda name: state[name]


def _values(form: Form, columns: Columns, count: int) -> Array:
    """The form times its denominator."""
    total = np.full(count, int(form.whole.constant), dtype=np.int64)
    for name, table in form.whole.terms:
        total = total + np.array(table, dtype=np.int64)[np.asarray(columns[name], dtype=np.int64)]
    return total


def _where(tests: Iterable[Test], columns: Columns, count: int) -> Array:
    holds = np.ones(count, dtype=bool)
    for test in tests:
        allowed = np.array([int(value * test.form.denominator) for value in test.allowed], dtype=np.int64)
        holds &= np.isin(_values(test.form, columns, count), allowed)
    return holds


# --- guards -----------------------------------------------------------------------------------------------


def check_exclusive(updates: Updates) -> str:
    """No two guards of a variable hold together."""
    for name in updates.spec.variables:
        guards = [update.guard for update in updates.of(name)] + [update.guard for update in updates.of_word(name)]
        limited = [(_domains(guard), {t.form: t.allowed for t in guard if t.variable is None}) for guard in guards]
        for (one, mine), (two, theirs) in combinations(limited, 2):
            if any(not domain & two[n] for n, domain in one.items() if n in two):
                continue
            if any(not allowed & theirs[form] for form, allowed in mine.items() if form in theirs):
                continue
            both = {n: one.get(n, two.get(n, frozenset())) & two.get(n, one.get(n, frozenset())) for n in {*one, *two}}
            tests = [*mine.items(), *theirs.items()]
            if len(_joint(updates, both, tests, [])) and not _impossible(updates, both):
                raise _Differs(f"two guards of '{name}' can hold together")
    return "guards of a variable exclude each other; where none holds, it keeps its value"


def check_total(updates: Updates) -> str:
    """Where a guard holds, the update's table has an entry for the value of its form."""
    for update in updates:
        domains, forms = _domains(update.guard), [(t.form, t.allowed) for t in update.guard if t.variable is None]
        needed = _joint(updates, domains, forms, [update.form])
        known = {int(value * update.form.denominator) for value, _ in update.table}
        missing = set(needed[:, 0].tolist()) - known
        if missing and not any(name in updates.by_predicate for name in domains):
            raise _Differs(
                f"an update of '{update.variable}' has no entry for {min(missing)} of {update.form.describe()}"
            )
    return "where a guard holds, its update has a value"


def _domains(guard: Iterable[Test]) -> dict[str, frozenset[int]]:
    found: dict[str, frozenset[int]] = {}
    for test in guard:
        if test.variable is not None:
            found[test.variable] = found.get(test.variable, test.indices) & test.indices
    return found


def _joint(
    updates: Updates,
    domains: Mapping[str, frozenset[int]],
    tests: Sequence[tuple[Form, frozenset[Number]]],
    forms: Sequence[Form],
) -> Array:
    """The values that `forms` have together (a row each, times their denominators) where the tests hold: variable by
    variable, different values that come to the same sums are counted once."""
    every = [*forms, *(form for form, _ in tests)]
    allowed = [None] * len(forms) + [
        np.array(sorted(int(v * form.denominator) for v in values), dtype=np.int64) for form, values in tests
    ]
    names = sorted({name for form in every for name in form.variables})
    names.sort(key=lambda name: min(len(form.terms) for form in every if name in form.tables))
    last = [max((names.index(n) for n in form.variables), default=-1) for form in every]
    sums = np.array([[int(form.whole.constant) for form in every]], dtype=np.int64)
    for place, name in enumerate(names):
        indices = sorted(domains.get(name, range(updates.size(name))))
        steps = np.array([[int(f.whole.tables.get(name, [0] * (i + 1))[i]) for f in every] for i in indices])
        steps = np.unique(steps.reshape(len(indices), len(every)), axis=0)
        if len(sums) * len(steps) > MAX_JOINT:
            raise _Differs(f"guards on {', '.join(names)} have too many values to be told apart")
        sums = (sums[:, None, :] + steps[None, :, :]).reshape(-1, len(every))
        for k, values in enumerate(allowed):
            if last[k] == place and values is not None:
                sums = sums[np.isin(sums[:, k], values)]
                sums[:, k] = 0
        sums = np.unique(sums, axis=0)
    return sums[:, : len(forms)] if len(forms) else sums


def _impossible(updates: Updates, domains: Mapping[str, frozenset[int]]) -> bool:
    """Whether comparisons of words cannot have these results together, looking at each sum of words by itself."""
    ranges: dict[Any, tuple[int, int]] = {}
    for name, allowed in domains.items():
        predicate = updates.by_predicate.get(name)
        if predicate is None or len(allowed) != 1:
            continue
        ends = [c * (len(updates.spec.kinds[word]) - 1) for word, c in predicate.terms]
        low, high = ranges.get(predicate.terms, (sum(e for e in ends if e < 0), sum(e for e in ends if e > 0)))
        at, holds = predicate.threshold, 1 in allowed
        if predicate.relation == "≥":
            low, high = (max(low, at), high) if holds else (low, min(high, at - 1))
        elif holds:
            low, high = max(low, at), min(high, at)
        ranges[predicate.terms] = low, high
    return any(low > high for low, high in ranges.values())


# --- states of a sample -----------------------------------------------------------------------------------


def _random_state(updates: Updates, chance: random.Random) -> dict[str, int]:
    """Small and large words are as likely as others: what depends on them changes there."""
    state = {}
    for name, kind in updates.spec.kinds.items():
        if not isinstance(kind, Word):
            state[name] = chance.choice(updates.values(name))
            continue
        top = len(kind) - 1
        near = min(top, chance.choice((0, 1, 2, 3)))
        ends = chance.random() < 0.3
        state[name] = chance.choice((near, top - near)) if ends else chance.randint(0, top)
    return state


def witness(updates: Updates, path: Path, way: Saved, chance: random.Random) -> dict[str, int] | None:
    """A state that takes a way through `step` or one of its statements, or None where none was found in some tries."""
    spec = updates.spec
    wanted = {e.form.variables[0]: 1 in e.classes[e.taken] for e in way.chain if _is_predicate(path, e)}
    for _ in range(20):
        state = _random_state(updates, chance)
        for name, domain in way.domains.items():
            if name in spec.kinds or part_of_name(name):
                _put(state, name, chance.choice(sorted(domain)))
        for _ in range(20):
            failed = [test for test in way.tests if test[0].at(BitValues(state)) not in test[1]]
            words = [name for name, holds in wanted.items() if path.predicates[name].holds(state) != holds]
            if not failed and not words:
                return state
            for form, allowed in failed[:1]:
                _mend(way, state, form, allowed, chance)
            for name in words[:1]:
                _mend_words(spec, path.predicates[name], wanted[name], state, chance)
    return None


def _put(state: dict[str, int], name: str, value: int) -> None:
    """Give a variable, a head or a part of a word a value."""
    word, new = with_part(state, name, value)
    state[word] = new


def _is_predicate(path: Path, event: Branch) -> bool:
    return len(event.form.terms) == 1 and event.form.variables[0] in path.predicates


def _mend(path: Saved, state: dict[str, int], form: Form, allowed: frozenset[Number], chance: random.Random) -> None:
    """Change one or two variables of a form so that it has an allowed value."""
    names = list(form.variables)
    chance.shuffle(names)
    for name in names:
        known, table = BitValues(state), form.tables[name]
        rest = form.at(known) - table[known[name]]
        good = [i for i in path.domains[name] if rest + table[i] in allowed]
        if good:
            _put(state, name, chance.choice(good))
            return
    _put(state, names[0], chance.choice(sorted(path.domains[names[0]])))


def _mend_words(spec: Spec, predicate: Any, holds: bool, state: dict[str, int], chance: random.Random) -> None:
    """Change a word so that a comparison comes out as wanted: at its boundary, or a little beyond."""
    terms = list(predicate.terms)
    chance.shuffle(terms)
    by = chance.choice((0, 0, 1, chance.randint(0, 1000)))
    if predicate.relation == "≥":
        target = predicate.threshold + by if holds else predicate.threshold - 1 - by
    else:
        target = predicate.threshold if holds else predicate.threshold + chance.choice((-1, 1)) * (1 + by)
    for name, factor in terms:
        known = BitValues(state)
        rest = sum(c * known[word] for word, c in terms) - factor * known[name]
        new = (target - rest) // factor
        if 0 <= new <= largest(spec, name):
            _put(state, name, new)
            return
    _put(state, terms[0][0], chance.randint(0, largest(spec, terms[0][0])))
