"""The layout of the residual stream: a name for every dimension of every variable, head and scratch value."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import lcm
from typing import Any

from kleene.common.residual import Layout, Segment
from kleene.lowering.forms import Number
from kleene.machines.kinds import Kind, Numerical, Word
from kleene.machines.spec import Spec


def build_layout(spec: Spec, scratch: Iterable[str] = ()) -> Layout:
    """Lay out variables first, then heads, then scratch dimensions."""
    segments: list[Segment] = []
    start = 0
    for name, kind in spec.kinds.items():
        averaged = name in spec.heads and isinstance(kind, Numerical)
        coding, labels = ("scalar", (name,)) if averaged else _coding(name, kind)
        scale = average_scale(spec, name) if averaged else 1
        kind_name = "head" if name in spec.heads else "variable"
        segments.append(Segment(name, start, len(labels), coding, labels, scale, kind_name))
        start += len(labels)
    for label in scratch:
        segments.append(Segment(label, start, 1, "scratch", (label,), kind="scratch"))
        start += 1
    return Layout(tuple(segments))


def _coding(name: str, kind: Kind) -> tuple[str, tuple[str, ...]]:
    if isinstance(kind, Word):
        return "bits", tuple(f"{name}.bit{bit}" for bit in range(kind.bits))
    return "one-hot", tuple(f"{name}={show_value(value)}" for value in kind.values)


def show_value(value: Any) -> str:
    return "{" + ",".join(map(str, sorted(value))) + "}" if isinstance(value, frozenset) else str(value)


def averaged_values(spec: Spec, head: str) -> list[Number]:
    """The numbers that a numerical head averages: the values of its value variable, and its default."""
    head_spec = spec.heads[head]
    if head_spec.counts:
        return [0, -1]
    values = list(spec.kinds[head_spec.value].values)
    if head_spec.default is not None:
        values.append(head_spec.kind.values[head_spec.default])
    return values


def average_scale(spec: Spec, head: str) -> int:
    """The smallest factor that makes every number that a head averages whole."""
    return lcm(*(Fraction(value).denominator for value in averaged_values(spec, head)))
