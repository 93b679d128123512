"""How many hidden units each update costs, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kleene.errors import KleeneError
from kleene.lowering.averages import clearing_scale
from kleene.lowering.guarding import guarded_updates
from kleene.lowering.rules import lower_to_rules
from kleene.lowering.thresholds import LoweredStep, lower_to_thresholds
from kleene.machines.program import ProgramClass, check_program


@dataclass(frozen=True)
class UpdateCost:
    """One update: how it was lowered, its units, and what the other ways would have cost."""

    variable: str
    what: str
    way: str
    units: int
    others: dict[str, int]


@dataclass(frozen=True)
class SizeReport:
    """Hidden units by variable and purpose."""

    program: str
    hidden: int
    rules: int | str  # units of the papers' lowering, or why there is no number
    updates: tuple[UpdateCost, ...]
    shared: dict[str, int]  # clearing old values, heads and scratch values; predicates; buckets

    def __str__(self) -> str:
        rules = f"{self.rules:,}" if isinstance(self.rules, int) else self.rules
        rows = [f"{self.program}: {self.hidden:,} hidden units (one per transition rule would be {rules})"]
        for cost in self.updates:
            others = ", ".join(f"{way} {units}" for way, units in cost.others.items())
            rows.append(
                f"  {cost.variable} := {cost.what}: {cost.units} by '{cost.way}'" + (f" ({others})" if others else "")
            )
        rows += [f"  {what}: {units}" for what, units in self.shared.items()]
        return "\n".join(rows)

    def to_json(self) -> dict[str, Any]:
        return {
            "program": self.program,
            "hidden": self.hidden,
            "rules": self.rules,
            "updates": [vars(cost) for cost in self.updates],
            "shared": self.shared,
        }


def explain_size(program: ProgramClass) -> SizeReport:
    """Explain how many hidden units each update of a program costs in the compact lowering, and why.

    >>> import kleene as kl
    >>> print(kl.explain_size(kl.library.parity_relative))
    parity_relative: 7 hidden units (one per transition rule would be 7)
      parity := a function of parity + parity_left: 2 by 'old to new' (write, then clear 5)
      done := a constant: 1 by 'old to new' (write, then clear 2)
      clearing heads: 4
    """
    check_program("explain_size", program)
    updates = guarded_updates(program)
    lowered = [lower_to_thresholds(part) for part in updates.by_layer]
    try:
        rules: int | str = len(lower_to_rules(updates))
    except KleeneError as error:
        rules = str(error).partition(": ")[2] or str(error)
    costs = []
    for variable, what, ways in [cost for lowering in lowered for cost in lowering.costs]:
        (way, units), *rest = ways.items()
        costs.append(UpdateCost(variable, what, way, units, {w: u for w, u in rest if w != way}))
    averages: dict[str, int] = {}
    for part, lowering in zip(updates.by_layer, lowered):
        for name, head in part.spec.heads.items():
            if head.numerical:
                buckets = sum(f"{name}≥{value}" in lowering.layout for value in head.kind.values[1:])
                _, positive, negative = clearing_scale(part.spec, name)
                averages[name] = averages.get(name, 0) + buckets + positive + negative
    hidden = sum(len(lowering.units) for lowering in lowered) + sum(averages.values())
    return SizeReport(program.spec.name, hidden, rules, tuple(costs), _shared(lowered, averages))


def _shared(lowered: list[LoweredStep], averages: dict[str, int]) -> dict[str, int]:
    scratch = {s.name for lowering in lowered for s in lowering.layout if s.coding == "scratch"}
    every = [unit for lowering in lowered for unit in lowering.units]
    kinds = {
        "clearing heads": [u for u in every if u.why == "clear head"],
        "predicates": [u for u in every if u.half == 1],
        "clearing scratch values": [u for u in every if u.purpose in scratch and u.why == "clear"],
    }
    counted = {what: len(units) for what, units in kinds.items() if units}
    if averages:
        counted["buckets of numerical heads, and clearing them"] = sum(averages.values())
    return counted
