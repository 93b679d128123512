"""Make the guarded updates of a program: split the paths of `step` by variable, then merge equal updates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from kleene.errors import KleeneError, RangeError, StepError
from kleene.lowering.decisions import Branch, Leaf, Node, Tree, decision_tree, endings, node
from kleene.lowering.execution import execute
from kleene.lowering.forms import Form, variable_form
from kleene.lowering.reachable import NotFollowed, reached_values
from kleene.lowering.symbolic import Assignment, HeadRead, Met, Path, fill_gaps
from kleene.lowering.updates import (
    Cycle,
    GuardedUpdate,
    ReadGuard,
    Test,
    Updates,
    WordUpdate,
    index_test,
    simplify_guard,
)
from kleene.lowering.value_sets import ValueSets, seen_values
from kleene.lowering.words import WordAssignment, normalised
from kleene.machines.kinds import Word
from kleene.machines.program import LayerProgram, ProgramClass, check_program
from kleene.machines.spec import Spec
from kleene.machines.written_rules import Rule


def guarded_updates(program: ProgramClass) -> Updates | Cycle:
    """The updates that `step` makes, by symbolic execution: `Updates`, or a `Cycle` of them."""
    if not isinstance(program, LayerProgram):
        check_program("guarded_updates", program)
    cached: Updates | Cycle | None = vars(program).get("_updates")
    if cached is None:
        failed: KleeneError | None = None
        try:
            by_layer = tuple(_updates_of(part) for part in program.by_layer)
        except (RangeError, StepError) as error:
            failed = error
        if failed is not None:  # perhaps in a state that no run reaches
            by_layer = _updates_reached(program, failed)
        cached = Cycle(program.spec, by_layer) if program.spec.cycle else by_layer[0]
        type.__setattr__(program, "_updates", cached)
    return cached


def _updates_reached(program: ProgramClass, error: KleeneError) -> tuple[Updates, ...]:
    """The updates on the values that variables have in some run. Elsewhere they may be anything."""
    if program.spec.clears or any(isinstance(part, LayerProgram) and part.second for part in program.by_layer):
        raise error
    try:
        reached = reached_values(program)
    except NotFollowed:
        raise error from None
    made = [_updates_of(part, values) for part, values in zip(program.by_layer, reached.before)]
    return tuple(replace(part, before_layers=reached.by_layer) for part in made)


def _updates_of(program: Any, before: ValueSets | None = None) -> Updates:
    if (written := vars(program).get("_written")) is not None:  # rules instead of `step`
        return updates_from_rules(program.spec, written.checked())
    second = program.second if isinstance(program, LayerProgram) else None
    after = None if second is None else _updates_of(second)
    paths = execute(program, None if before is None else seen_values(program.spec, before))
    made = [update for name in program.spec.variables for update in _of_variable(program.spec, paths, name)]
    predicates = {name: predicate for path in paths for name, predicate in path.predicates.items()}
    return Updates(
        program.spec,
        tuple(update for update in made if isinstance(update, GuardedUpdate)),
        _read_guards(program.spec, paths),
        tuple(update for update in made if isinstance(update, WordUpdate)),
        tuple(predicates.values()),
        before,
        after,
    )


def _of_variable(spec: Spec, paths: list[Path], name: str) -> list[GuardedUpdate] | list[WordUpdate]:
    ways = []
    for path in paths:
        branches = [event for event in path.events if isinstance(event, Branch)]
        ways.append((branches, _changes(path, name, _one_sum(path, name))))
    lines: dict[Any, int | None] = {}
    for _, tree in ways:
        for leaf in endings(tree):
            if leaf is not None:
                lines.setdefault(leaf.key, leaf.assignment.line)
    updates: list[GuardedUpdate] = []
    words: list[WordUpdate] = []
    for tests, leaf in leaves(decision_tree(ways), ()):
        guard, made = simplify_guard(spec, tests), leaf.assignment
        if isinstance(made, WordAssignment):
            words.append(WordUpdate(name, guard, replace(made, line=lines[leaf.key])))
        else:
            updates.append(GuardedUpdate(name, guard, made.form, made.table, lines[leaf.key]))
    return merged_words(spec, words) if words else as_functions(spec, merged(spec, updates))


def _one_sum(path: Path, name: str) -> Tree:
    """The decisions of a variable as one form, if the form has fewer values than the decisions: counted flags."""
    tree = path.assigned.get(name)
    if not isinstance(tree, Node) or len(leaves_of := list(endings(tree))) < 3:
        return tree
    kind = path.program.spec.kinds[name]
    form = None if isinstance(kind, Word) else path.form_of(tree, name)
    if form is None or len(form.values) >= sum(1 if one is None else len(one.assignment.table) for one in leaves_of):
        return tree
    table = {value: index for value in form.values if (index := kind.index(value)) is not None}
    if not set(path.attainable(form)) <= table.keys():
        return tree
    if path.reached is not None:
        fill_gaps(table, form.values)
    line = next((one.assignment.line for one in leaves_of if one is not None), None)
    made = Assignment(form, tuple(sorted(table.items())), line)
    return Leaf(replace(made, line=None), None, made)


def _changes(path: Path, name: str, tree: Tree) -> Tree:
    """The decisions of a variable, without those that no state leads to; None where the variable keeps its value."""
    if not isinstance(tree, Node):
        if tree is None or _keeps(path, name, tree.assignment):
            return None
        return Leaf(replace(tree.assignment, line=None), None, tree.assignment)  # equal wherever it was written
    made = []
    for allowed, child in path.feasible(tree):
        before = path.saved()
        path.enter(tree.form, allowed)
        made.append((allowed, _changes(path, name, child)))
        path.restore(before)
    return made[0][1] if len(made) == 1 else node(tree.form, made)


def _keeps(path: Path, name: str, made: Assignment | WordAssignment) -> bool:
    """Whether an assignment leaves the variable as it is."""
    spec = path.program.spec
    if isinstance(made, WordAssignment):
        return normalised(spec, name, made) == WordAssignment(((name, 1),), 0, None)
    size = len(spec.kinds[name])
    if made.form == variable_form(name, size):
        return all(value == index for value, index in made.table)
    if not made.form.terms:
        return path.domains[name] == {made.table[0][1]}
    return False


def leaves(tree: Tree, tests: tuple[Test, ...]) -> Iterator[tuple[tuple[Test, ...], Any]]:
    """The assignments of a tree of decisions, each with the tests that lead to it."""
    if isinstance(tree, Assignment | WordAssignment | Leaf):
        yield tests, tree
    elif tree is not None:
        form, children = tree
        for allowed, child in children:
            yield from leaves(child, (*tests, Test(form, allowed)))


def merged(spec: Spec, updates: list[GuardedUpdate]) -> list[GuardedUpdate]:
    """Join updates that do the same and whose guards differ in a single test."""
    changed = True
    while changed:
        changed = False
        alike: dict[Any, int] = {}  # what an update does, and its guard without one test → the first such update
        joined: list[GuardedUpdate] = []
        for update in updates:
            keys = [
                (update.form, update.table, test.form, update.guard[:i], update.guard[i + 1 :])
                for i, test in enumerate(update.guard)
            ]
            known = next((alike[key] for key in keys if key in alike), None)
            guard = None if known is None else _joint(spec, joined[known].guard, update.guard)
            if known is not None and guard is not None:
                joined[known], changed = replace(joined[known], guard=guard), True
                alike = {key: place for key, place in alike.items() if place != known}
                continue
            for key in keys:
                alike.setdefault(key, len(joined))
            joined.append(update)
        updates = joined
    return updates


def as_functions(spec: Spec, updates: list[GuardedUpdate]) -> list[GuardedUpdate]:
    """Join constants that one form decides into one function of it, as where `step` indexes a dict by `z.x`."""
    for form in dict.fromkeys(test.form for update in updates for test in update.guard):
        if not all(name in spec.kinds for name in form.variables):
            continue  # comparisons of words only stand in guards
        alike: dict[Any, list[GuardedUpdate]] = {}
        for update in updates:
            if not update.form.terms and any(test.form == form for test in update.guard):
                alike.setdefault(frozenset(t for t in update.guard if t.form != form), []).append(update)
        for group in alike.values():
            if len(group) > 1:
                made, gone = _function(spec, form, group), {id(update) for update in group[1:]}
                updates = [made if u is group[0] else u for u in updates if id(u) not in gone]
    return updates


def _function(spec: Spec, form: Form, group: list[GuardedUpdate]) -> GuardedUpdate:
    """The update that does what these constants do, whose guards differ in the test on one form."""
    table = {value: u.table[0][1] for u in group for test in u.guard if test.form == form for value in test.allowed}
    others = [test for test in group[0].guard if test.form != form]
    guard = simplify_guard(spec, [*others, Test(form, frozenset(table))])
    return GuardedUpdate(group[0].variable, guard, form, tuple(sorted(table.items())), group[0].line)


def merged_words(spec: Spec, words: list[WordUpdate]) -> list[WordUpdate]:
    """Join updates of words as `merged` joins the others."""
    for i, first in enumerate(words):
        for second in words[i + 1 :]:
            if replace(first.assignment, line=None) == replace(second.assignment, line=None):
                joint = _joint(spec, first.guard, second.guard)
                if joint is not None:
                    rest = [word for word in words if word is not first and word is not second]
                    return merged_words(spec, [*rest[:i], replace(first, guard=joint), *rest[i:]])
    return words


def _joint(spec: Spec, one: tuple[Test, ...], two: tuple[Test, ...]) -> tuple[Test, ...] | None:
    """The guard that holds where either guard holds; None unless they differ in exactly one test."""
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
    """The guards under which `step` reads each head, in order. A guard mentions only heads that were read before."""
    found: dict[ReadGuard, int] = {}
    for path in paths:
        _note_reads(spec, path.events, (), 0, found)
    return tuple(sorted(found, key=lambda read: found[read]))


def _note_reads(spec: Spec, events: Any, tests: tuple[Test, ...], place: int, found: dict[ReadGuard, int]) -> int:
    """Note where these events read heads, behind some tests; the place after the events."""
    for event in events:
        if isinstance(event, HeadRead):
            found.setdefault(ReadGuard(event.head, simplify_guard(spec, tests)), place)
        elif isinstance(event, Met):
            place = max(_note_reads(spec, inner, tests, place, found) for inner in event.paths)
        else:
            tests = (*tests, Test(event.form, event.classes[event.taken]))
        place += 1
    return place


def updates_from_rules(spec: Spec, rules: Mapping[Rule, tuple[str, ...]]) -> Updates:
    """Convert hand-written rules to guarded updates. Each rule lists its variables in the order of its scope."""
    updates: list[GuardedUpdate] = []
    reads: dict[ReadGuard, int] = {}
    for rule, order in rules.items():
        if rule.new == rule.old:
            continue
        guard = tuple(index_test(spec, name, [index]) for name, index in rule.antecedent)
        updates.append(GuardedUpdate(rule.variable, guard, Form(0, ()), ((0, rule.new or 0),)))
        values = dict(rule.antecedent)
        before: list[Test] = []
        for place, name in enumerate(order):
            if name in spec.heads:
                reads.setdefault(ReadGuard(name, tuple(before)), place)
            before.append(index_test(spec, name, [values[name]]))
    return Updates(spec, tuple(updates), tuple(sorted(reads, key=lambda read: reads[read])))
