"""Sets of values that variables and heads can have, one for each; words are not followed."""

from __future__ import annotations

from collections.abc import Mapping

from kleene.machines.kinds import Word
from kleene.machines.spec import HeadSpec, Spec

ValueSets = Mapping[str, frozenset[int]]  # indices of values


def followed(spec: Spec) -> list[str]:
    """The variables whose values are followed: all but words."""
    return [name for name, variable in spec.variables.items() if not isinstance(variable.kind, Word)]


def initial_values(spec: Spec) -> ValueSets:
    """The values that variables start with."""
    first = {name: spec.variables[name] for name in followed(spec)}
    places = {n: v.by_position if isinstance(v.by_position, tuple) else None for n, v in first.items()}
    return {name: frozenset(v.by_token or places[name] or (v.default,)) for name, v in first.items()}


def seen_values(spec: Spec, before: ValueSets) -> ValueSets:
    """What `step` sees where variables have these values before the layer.

    All heads read the state before the layer. A head that writes into a variable everywhere leaves nothing of what was
    there; one that writes at some positions adds to it.
    """
    seen = dict(before)
    for move in spec.moves.values():
        if move.into in seen:
            written = before[move.value] | _default(move)
            everywhere = not move.where and move.replacing is None
            seen[move.into] = written if everywhere else seen[move.into] | written
    for name, head in spec.heads.items():
        if not isinstance(head.kind, Word):
            known = before[head.value] if head.kind == spec.kinds[head.value] else range(len(head.kind))
            if head.numerical and known:  # an average lies between the values
                known = range(min(known), max(known) + 1)
            seen[name] = frozenset(known) | _default(head)
    return seen


def _default(head: HeadSpec) -> frozenset[int]:
    return frozenset() if head.default is None else frozenset([head.default])
