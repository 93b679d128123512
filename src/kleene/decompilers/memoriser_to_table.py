"""From a memoriser's weights back to the instruction table."""

from __future__ import annotations

import numpy as np

from kleene.machines.instruction_table import InstructionTable
from kleene.networks.synthesizer.memoriser import Memoriser


def decompile_memoriser(net: Memoriser) -> InstructionTable:
    """The table that the network computes: its answer at every instruction of every program."""
    program = np.repeat(np.arange(len(net.names)), net.lengths)
    instruction = np.concatenate([np.arange(length) for length in net.lengths])
    parts = np.split(net.operands(program, instruction), np.cumsum(net.lengths)[:-1])
    return InstructionTable(dict(zip(net.names, parts)), sizes=net.operand_sizes, fields=net.fields)
