"""Whether a network knows an instruction table: every entry is looked up."""

from __future__ import annotations

from typing import Any

import numpy as np

from kleene.checks.bisimulation import Report
from kleene.errors import NotSupported
from kleene.machines.instruction_table import InstructionTable


def verify_table(table: InstructionTable, network: Any) -> Report:
    """Every operand of every instruction, read from the network."""
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
