"""Whether a network knows an instruction table: look up every entry, and show that it does not depend on rounding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from kleene.checks.bisimulation import Report
from kleene.errors import NotSupported
from kleene.machines.instruction_table import InstructionTable
from kleene.networks.synthesizer.memoriser import Memoriser, rows_at_once

FORMATS = {  # number format → bits of precision, largest number
    "float64": (53, 2.0**1023),
    "float32": (24, 2.0**127),
}
HERE = 2.0**-53  # rounding of this check itself


def verify_table(table: InstructionTable, network: Any) -> Report:
    """Compare every operand of every instruction with the network's."""
    if not hasattr(network, "operands"):
        kind = type(network).__name__
        raise NotSupported(f"verify: a table is compared with a memoriser or a Synthesizer, not a {kind}")
    program, instruction, wanted = table.entries()
    found = network.operands(program, instruction)
    wrong = np.argwhere(found != wanted)
    example = None
    if len(wrong):
        at, operand = wrong[0]
        example = (
            f"{table.fields[operand]} of instruction {instruction[at]} of program {table.names[program[at]]} is "
            f"{wanted[at, operand]}, the network says {found[at, operand]}"
        )
    return Report(wanted.size, len(wrong), f"{wanted.size:,} operands of {len(wanted):,} instructions", example)


@dataclass(frozen=True)
class TableCertificate:
    """Whether a memoriser's answers follow from its weights, whatever the order of its sums."""

    holds: bool
    dtype: str
    entries: int  # the number of operands
    margin: float  # the lead of the right logit over the next, beyond rounding
    reasons: tuple[str, ...]

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        head = f"memoriser: {'certified' if self.holds else 'not certified'} in {self.dtype}"
        return "\n".join([head, *(f"  - {reason}" for reason in self.reasons)])

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "holds": self.holds,
            "dtype": self.dtype,
            "entries": self.entries,
            "margin": self.margin,
            "reasons": list(self.reasons),
        }


def certify_memoriser(
    net: Memoriser, *, table: InstructionTable | None = None, dtype: str | torch.dtype | None = None
) -> TableCertificate:
    """Show for every entry that the table's logit is the largest, in any order of summation: every value comes with a
    bound on its rounding error (Higham's γ).

    table: the table; by default the one that was saved with the network.
    dtype: the number format to look at; by default the network's own.
    """
    name = net.dtype if dtype is None else str(dtype).removeprefix("torch.")
    if name not in FORMATS:
        raise NotSupported(f"certify: a memoriser cannot be in {name}; it is in {' or '.join(FORMATS)}")
    wanted, misfit = _wanted(net, table)
    if misfit:
        return TableCertificate(False, name, 0, 0.0, (misfit,))
    program = np.repeat(np.arange(len(net.names)), net.lengths)
    instruction = np.concatenate([np.arange(length) for length in net.lengths])
    inputs = np.stack([instruction, program], axis=-1).astype(np.float64)
    margin, exact = float("inf"), True
    for column, (field, network) in enumerate(zip(net.fields, net.networks)):
        layers = [layer for layer in network.children() if isinstance(layer, torch.nn.Linear)]
        chunk = rows_at_once([layer.out_features for layer in layers])
        for begin in range(0, len(inputs), chunk):
            logits, error, whole = _bounded(layers, inputs[begin : begin + chunk], name)
            exact = exact and whole
            if not np.isfinite(error).all():
                why = f"'{field}' has a sum that is not a number, or that {name} cannot hold"
                return TableCertificate(False, name, 0, 0.0, (why,))
            best, least = _leads(logits, error)
            for row in np.nonzero(~(least > 0))[0][:1]:
                at = f"'{field}' of instruction {instruction[begin + row]} of program {net.names[program[begin + row]]}"
                why = f"{name} does not decide {at}: two logits are closer than the rounding error"
                return TableCertificate(False, name, 0, float(least[row]), (why,))
            margin = min(margin, float(least.min()))
            right = best if wanted is None else wanted[begin : begin + chunk, column]
            for row in np.nonzero(best != right)[0][:1]:
                at = f"'{field}' of instruction {instruction[begin + row]} of program {net.names[program[begin + row]]}"
                why = f"{at} is {right[row]} in the table, and {best[row]} by the weights"
                return TableCertificate(False, name, 0, margin, (why,))
    count = len(inputs) * len(net.fields)
    sums = "every sum is one of whole numbers that the format holds" if exact else "rounding is bounded, in any order"
    shown = (
        f"each of {count:,} operands is the largest logit, ahead of the next by {margin:g} beyond rounding",
        f"{sums} ({name})",
        "no table to compare with: pass table=" if wanted is None else "they are the operands of the table",
    )
    return TableCertificate(True, name, count, margin, shown)


def _wanted(net: Memoriser, table: InstructionTable | None) -> tuple[Any, str]:
    """The operands to compare with, None without a table; and why they cannot be those of the network, or nothing."""
    wanted = None if net.table is None else net.table.cpu().numpy()
    if len(net.fields) != len(net.networks):
        return None, "there is not one network for each operand"
    if table is not None:
        if tuple(table.names) != net.names or tuple(map(len, table.programs)) != net.lengths:
            return None, "the table has other programs or lengths"
        if tuple(table.fields) != net.fields:
            return None, "the table has other operands, or in another order"
        wanted = table.entries()[2]
    if wanted is not None and wanted.shape != (sum(net.lengths), len(net.fields)):
        return None, "the table that it holds has another size"
    return wanted, ""


def _leads(logits: Any, error: Any) -> tuple[Any, Any]:
    """The place of the largest logit of each row, and its lead over the next beyond the bounds on rounding."""
    best = logits.argmax(axis=1)
    where = np.arange(len(best))
    ahead = logits[where, best][:, None] - logits - (error[where, best][:, None] + error)
    ahead[where, best] = np.inf
    return best, ahead.min(axis=1)


def _bounded(layers: list[torch.nn.Linear], values: np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray, bool]:
    """The logits, a bound on the rounding error of each, and whether all sums are exact."""
    bits, largest = FORMATS[dtype]
    unit, exact = 2.0**-bits, True
    error = np.zeros_like(values)
    for number, layer in enumerate(layers):
        weight = layer.weight.detach().to(getattr(torch, dtype)).double().cpu().numpy()
        bias = layer.bias.detach().to(getattr(torch, dtype)).double().cpu().numpy()
        size = np.abs(values) @ np.abs(weight.T) + np.abs(bias)  # a bound on every partial sum
        spread = error @ np.abs(weight.T)
        whole = not error.any() and all((part == np.round(part)).all() for part in (values, weight, bias))
        if not (whole and size.max() < 2.0**bits):
            terms = weight.shape[1] + 2
            rounding = terms * (unit + HERE) / (1 - terms * (unit + HERE)) if terms * (unit + HERE) < 0.5 else np.inf
            spread = spread + 2 * rounding * (size + spread)  # twice: the bound itself is rounded
            exact = False
        values, error = values @ weight.T + bias, spread
        if not np.isfinite(values).all() or not (size + spread < largest).all():
            return values, np.full_like(values, np.inf), False
        if number < len(layers) - 1:
            values = np.maximum(values, 0)  # does not increase the distance of two numbers
    return values, error, exact
