"""The values that variables can have in some run: a fixpoint over sets of values, one for each variable.

A program may leave a range in a state that no run reaches. The sets start with the initial values, and `step` runs
symbolically on what is in them until nothing is added. Variables are followed one by one, so the sets are too large
rather than too small.
"""

from __future__ import annotations

from typing import Any

from kleene.lowering.execution import execute
from kleene.lowering.symbolic import Assignment, Path
from kleene.lowering.value_sets import ValueSets, followed, initial_values, seen_values

MOST_ROUNDS = 100


class NotFollowed(Exception):
    """The sets still grew after `MOST_ROUNDS` rounds."""


def reached_values(program: Any) -> tuple[ValueSets, ...]:
    """The values that variables can have before each layer of the cycle.

    It raises the error of `step` where values that are reached lead to one.
    """
    parts = program.by_layer
    before = [dict.fromkeys(followed(program.spec), frozenset[int]()) for _ in parts]
    before[0] = dict(initial_values(program.spec))
    for _ in range(MOST_ROUNDS):
        grown = False
        for number, part in enumerate(parts):
            if not all(before[number].values()):
                continue  # no run has come here yet
            following = before[(number + 1) % len(parts)]
            for path in execute(part, seen_values(part.spec, before[number])):
                for name, values in _after(path).items():
                    if not values <= following[name]:
                        following[name] |= values
                        grown = True
        if not grown:
            return tuple(before)
    raise NotFollowed


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
