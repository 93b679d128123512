"""The page of a RISC-V run: registers, instructions, memory around pc and sp, and what the heads look up."""

from __future__ import annotations

from collections.abc import Sequence

from kleene.drivers.riscv_record import Moment
from kleene.show.page import Numbered, Page


def computer_page(name: str, evaluator: str, moments: Sequence[Moment]) -> Page:
    """Build the page of a recorded run."""
    heads, found = Numbered(), Numbered()
    data = {
        "title": "RISC-V in a transformer",
        "text": name,
        "evaluator": evaluator,
        "steps": [
            {
                "number": moment.number,
                "pc": moment.pc,
                "instruction": moment.instruction,
                "text": moment.text,
                "registers": list(moment.registers),
                "near_pc": [moment.at_pc[0], moment.at_pc[1].hex()],
                "near_sp": [moment.at_sp[0], moment.at_sp[1].hex()],
                "looks": [[look.layer, heads(look.head), found(look.found)] for look in moment.looks],
                "output": moment.output,
            }
            for moment in moments
        ],
    }
    return Page("computer", f"RISC-V: {name}", {**data, "heads": heads.items, "found": found.items})
