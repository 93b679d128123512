"""Checks that raise the error of the program where it would read an undefined head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from kleene.errors import RangeError, UndefinedRead, WrongReplacement


def check_reads(
    program: str,
    heads: Sequence[str],
    reads: list[dict[str, Any]],
    x: Tensor,
    selected: Tensor,
    mask: Tensor,
    layer: int,
) -> None:
    """Raise at the first position that reads an undefined head, or an average outside its declared values.

    program: the name to report.
    heads: the names of the block's heads.
    reads: the read guards of the layer, in the order of reading.
    x: the residual stream between the two halves of the MLP block.
    selected: how many positions each head selects, (batch, head, position).
    mask: which positions are real.
    layer: the number to report.
    """
    first: dict[tuple[int, int], tuple[str, int | None]] = {}  # (row, position) → head, selected
    for read in reads:  # in the order of reading
        count = selected[:, heads.index(read["head"])]
        undefined = (count < read["at_least"]) | (count > read["at_most"])
        outside = torch.zeros_like(undefined)
        if read["range"] is not None:
            dim, low, high = read["range"]
            slack = 1e-6 * max(abs(low), abs(high))  # for the rounding of the average
            average = x[..., dim].double()
            outside = (count > 0) & ((average < low - slack) | (average > high + slack))
        bad = mask & (undefined | outside)
        for test in read["tests"]:
            dims = torch.tensor(test["dims"], dtype=torch.long, device=x.device)
            weights = torch.tensor(test["weights"], dtype=torch.float64, device=x.device)
            value = x[..., dims].double() @ weights + test["constant"]
            bad = bad & torch.isin(value, torch.tensor(test["allowed"], dtype=torch.float64, device=x.device))
        for row, position in torch.nonzero(bad).tolist():
            found = int(count[row, position]) if undefined[row, position] else None
            first.setdefault((row, position), (read["head"], found))
    if first:
        (_, position), (name, found) = min(first.items())
        if found is None:
            raise RangeError(
                f"{program}: '{name}' at position {position} in layer {layer}: "
                "the average is outside the declared values"
            )
        raise UndefinedRead(program, name, position, layer, found)


def check_moves(
    program: str, moves: list[dict[str, Any]], x: Tensor, selected: Tensor, mask: Tensor, layer: int
) -> None:
    """Raise where a head that writes into a variable is undefined, or replaces a value that the variable lacks.

    program: the name to report.
    moves: the heads of the layer that write into variables.
    x: the residual stream before the layer.
    selected: which positions each head selects, (batch, head, position, position).
    mask: which positions are real.
    layer: the number to report.
    """
    for move in moves:
        chosen = selected[:, move["head"]]
        count, writes = chosen.sum(dim=-1), mask & (x[..., move["where"]] == 1).all(dim=-1)
        old = move["replacing"]
        wrong = writes & ((count < (0 if move["default"] or old else 1)) | (count > 1))
        for row, position in torch.nonzero(wrong)[:1].tolist():
            raise UndefinedRead(program, move["name"], position, layer, int(count[row, position]))
        if old is not None:
            replaced = chosen.to(x.dtype) @ x[..., old["start"] : old["start"] + old["size"]]
            held = x[..., old["into_start"] : old["into_start"] + old["size"]]
            wrong = writes & (count == 1) & (replaced != held).any(dim=-1)
            for _, position in torch.nonzero(wrong)[:1].tolist():
                raise WrongReplacement(program, move["name"], old["into"], old["variable"], position, layer)
