"""A recorded run: what the reference does, and what the heads look up by their weights."""

from __future__ import annotations

import pytest

import kleene as kl
from kleene.drivers.riscv import TransformerComputer
from kleene.drivers.riscv_programs import find_program
from kleene.drivers.riscv_record import position_name, record
from kleene.drivers.subleq import quickest
from kleene.machines.riscv import BASE, ReferenceMachine
from kleene.show.page.computer import computer_page

MEMORY = 1 << 16


def test_a_recorded_run_is_the_run():
    program = find_program("hello")
    machine, reference = TransformerComputer(program, MEMORY, evaluator=quickest()), ReferenceMachine(program, MEMORY)
    seen = []
    for moment in record(machine, 25):
        assert moment.pc == reference.pc and moment.registers == reference.registers
        assert moment.instruction == int.from_bytes(reference.load(moment.pc, 4), "little")
        first, near = moment.at_pc
        assert reference.load(first, len(near)) == near and first <= moment.pc < first + len(near)
        fetched = [look.found for look in moment.looks if look.head.startswith("fetch_")]
        assert fetched == [f"byte {moment.pc + k:#x}" for k in range(4)]
        rs1 = [look.found for look in moment.looks if look.head == "read_1"]
        assert rs1 == [f"x{moment.instruction >> 15 & 31}"]
        reference.run(1)
        seen.append(moment)
    assert len(seen) == 25 and machine.run(0) == reference.run(0)
    page = computer_page("hello", machine.evaluator, seen)
    assert len(page.data["steps"]) == 25 and page.html().count("<script") == 2


def test_names_and_refusals():
    assert [position_name(k) for k in (0, 1, 32, 33, 49)] == [
        *("the processor", "x0", "x31", "device 0x7ffffff0", f"byte {BASE:#x}")
    ]
    machine = TransformerComputer(find_program("hello"), MEMORY, evaluator="lookup")
    with pytest.raises(kl.InputError, match="a page is recorded on lanes, not on lookup"):
        next(record(machine, 1))
