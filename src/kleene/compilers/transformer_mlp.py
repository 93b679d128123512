"""MLP weights: the units of both halves, and the units that put averages into buckets."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import torch

from kleene.common.residual import Layout
from kleene.errors import NotExact
from kleene.lowering.averages import PRECISION, Boundary, clearing_scale
from kleene.lowering.thresholds import LoweredStep, ThresholdUnit
from kleene.machines.spec import Spec
from kleene.networks.transformer.model import Block


def average_units(spec: Spec, lowering: LoweredStep, head: str, limits: list[Boundary]) -> list[ThresholdUnit]:
    """The units that put the average of a numerical head into its bucket, and the units that clear it."""
    made = []
    read = {name for unit in lowering.units for (name, _), _ in unit.reads}  # leave buckets of other layers empty
    values = spec.heads[head].kind.values
    for k, boundary in enumerate(limits, start=1):
        bucket = f"{head}≥{values[k]}"
        if bucket in read:
            reads, writes = (((head, 0), boundary.slope),), (((bucket, 0), 1),)
            made.append(ThresholdUnit(reads, -boundary.offset, writes, 1, head, "bucket"))
    size, positive, negative = clearing_scale(spec, head)
    for sign in [1] * positive + [-1] * negative:
        weight: Any = Fraction(sign, size)
        made.append(ThresholdUnit((((head, 0), weight),), 0, (((head, 0), -sign * size),), 2, head, "clear average"))
    return made


def check_magnitudes(spec: Spec, units: list[ThresholdUnit], dtype: str) -> None:
    """Reject sums that the number format cannot hold exactly."""
    limit = 1 << PRECISION[dtype]
    for unit in units:
        if unit.why in ("bucket", "clear average"):
            continue
        total = abs(unit.bias) + sum(abs(weight) for _, weight in unit.reads)
        if total > limit:
            raise NotExact(
                f"{spec.name}: a unit of '{unit.purpose}' sums up to {total:,}, beyond the whole numbers that "
                f"{dtype} holds exactly ({limit:,}); use a wider dtype or smaller ranges"
            )


def fill_mlp(block: Block, layout: Layout, halves: tuple[list[ThresholdUnit], list[ThresholdUnit]]) -> None:
    place = {(s.name, i): s.start + i for s in layout for i in range(s.size)}
    for (into, bias, out), units in zip(
        ((block.in1, block.bias1, block.out1), (block.in2, block.bias2, block.out2)), halves
    ):
        rows, columns, values = [], [], []
        writes: tuple[list[int], list[int], list[float]] = ([], [], [])
        for row, unit in enumerate(units):
            for dim, weight in unit.reads:
                rows.append(row)
                columns.append(place[dim])
                values.append(float(weight))
            for dim, weight in unit.writes:
                writes[0].append(place[dim])
                writes[1].append(row)
                writes[2].append(float(weight))
        if units:
            into[rows, columns] = torch.tensor(values, dtype=into.dtype)
            out[writes[0], writes[1]] = torch.tensor(writes[2], dtype=out.dtype)
            bias[:] = torch.tensor([float(unit.bias) for unit in units], dtype=bias.dtype)
