"""The values that variables can have in some run: a fixpoint over sets of values, one for each variable.

A program may leave a range in a state that no run reaches. The sets start with the initial values, and `step` runs
symbolically on what is in them until nothing is added, or as often as the program has layers. Variables are followed
one by one, so the sets are too large rather than too small.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any

from kleene.lowering.execution import execute
from kleene.lowering.symbolic import Assignment, Path
from kleene.lowering.value_sets import ValueSets, followed, initial_values, seen_values

MOST_ROUNDS = 100


class NotFollowed(Exception):
    """The sets still grew after `MOST_ROUNDS` rounds."""


@dataclass(frozen=True)
class Reached:
    """The values that variables can have before each layer of the cycle.

    `by_layer`: before each layer that is run, where the sets still grow after as many as the program has; None where
    they do not, so that they hold however many layers are run.
    """

    before: tuple[ValueSets, ...]
    by_layer: tuple[ValueSets, ...] | None


def reached_values(program: Any) -> Reached:
    """Follow the values of variables. It raises the error of `step` where values that are reached lead to one."""
    parts = program.by_layer
    most = None if program.spec.halt else program.spec.layers
    before = [dict.fromkeys(followed(program.spec), frozenset[int]()) for _ in parts]
    before[0] = dict(initial_values(program.spec))
    run: list[ValueSets] = []
    unchanged = 0  # how many layers in a row have added nothing
    for layer in count():
        if unchanged == len(parts):
            return Reached(tuple(before), None)
        if layer == most and layer >= len(parts):
            return Reached(tuple(before), tuple(run))
        if layer >= MOST_ROUNDS * len(parts) or layer == most:
            raise NotFollowed
        number = layer % len(parts)
        run.append(dict(before[number]))
        last = layer + 1 == most
        following = dict(before[(number + 1) % len(parts)])
        for path in execute(parts[number], seen_values(parts[number].spec, before[number])):
            for name, values in _after(path).items():
                following[name] |= values
        unchanged = unchanged + 1 if following == before[(number + 1) % len(parts)] else 0
        if not last or unchanged == len(parts):
            before[(number + 1) % len(parts)] = following
    raise AssertionError("count() does not end")


def _after(path: Path) -> ValueSets:
    """The values of every variable after a path."""
    found = {}
    for name in followed(path.program.spec):
        values: set[int] = set()
        for leaf in path.outcomes(path.assigned.get(name)):
            if leaf is not None and isinstance(leaf.assignment, Assignment):
                results = leaf.assignment.results
                values.update(results[value] for value in path.attainable(leaf.assignment.form))
            else:
                values.update(path.domains[name])
        found[name] = frozenset(values)
    return found
