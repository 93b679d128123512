"""MLP weights: the units of both halves, and the units that put averages into buckets."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
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
    sums: dict[int, int] = {}  # units of one form share what they read
    for unit in units:
        if unit.why in ("bucket", "clear average"):
            continue
        if id(unit.reads) not in sums:
            sums[id(unit.reads)] = sum(abs(weight) for _, weight in unit.reads)
        total = abs(unit.bias) + sums[id(unit.reads)]
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
        if not units:
            continue
        kind = np.float32 if into.dtype == torch.float32 else np.float64
        read, written = np.zeros(into.shape, kind), np.zeros(out.T.shape, kind)
        known: dict[int, tuple[list[int], list[float]]] = {}  # units of one form share what they read
        for row, unit in enumerate(units):
            if id(unit.reads) not in known:
                known[id(unit.reads)] = [place[dim] for dim, _ in unit.reads], [float(w) for _, w in unit.reads]
            dims, weights = known[id(unit.reads)]
            read[row, dims] = weights
            written[row, [place[dim] for dim, _ in unit.writes]] = [float(w) for _, w in unit.writes]
        into[:], out[:] = torch.from_numpy(read), torch.from_numpy(written.T)
        bias[:] = torch.tensor([float(unit.bias) for unit in units], dtype=bias.dtype)
