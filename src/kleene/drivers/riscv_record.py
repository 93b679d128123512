"""Record a run of the RISC-V computer, instruction by instruction, with what each head looks up."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kleene.drivers.riscv import TransformerComputer
from kleene.errors import InputError, RangeError
from kleene.library.riscv import FIRST_BYTE, FIRST_DEVICE, FIRST_REGISTER
from kleene.machines.riscv import BASE, DEVICES
from kleene.machines.riscv_text import disassemble
from kleene.networks.transformer.prepared import PreparedLanes

AROUND = 32  # bytes of memory to keep before and after an address


@dataclass(frozen=True)
class Look:
    """A head in one of the four layers, and what it finds; nothing where it selects nothing."""

    layer: int
    head: str
    found: str


@dataclass(frozen=True)
class Moment:
    """The computer before an instruction, and what the heads look up while it runs."""

    number: int
    pc: int
    instruction: int
    text: str
    registers: tuple[int, ...]
    at_pc: tuple[int, bytes]  # the first address, and the bytes from there on
    at_sp: tuple[int, bytes]
    looks: tuple[Look, ...]
    output: str


def record(machine: TransformerComputer, steps: int) -> Iterator[Moment]:
    """Run up to `steps` instructions on lanes, one at a time; yield each."""
    running: Any = machine.running
    if not machine.evaluator.startswith("lanes"):
        raise InputError(f"riscv: a page is recorded on lanes, not on {machine.evaluator}")
    whole = running.weights() if isinstance(running, PreparedLanes) else running
    code = running.code
    looks: list[Look] = []

    def one_by_one(state: Any, columns: Any, tables: Any, layers: int, place: int, watch: Any) -> tuple[int, int]:
        for done in range(layers):
            at = (place + done) % len(whole.known.blocks)
            looks.extend(_looks(whole, running, at))
            ran, why = code(state, columns, tables, 1, at, watch)
            if why or not ran:
                return done + ran, why
        return layers, 0

    running.code = one_by_one
    try:
        for number in range(steps):
            pc, registers, memory = machine.pc, machine.registers, machine.memory()
            held = memory[max(0, pc - BASE) : max(0, pc - BASE) + 4]
            instruction = int.from_bytes(held, "little")
            looks.clear()
            result = machine.run(1)
            said = result.output.decode("utf-8", errors="replace")
            near = [_near(memory, address) for address in (pc, registers[2])]
            text = disassemble(instruction, pc)
            yield Moment(number, pc, instruction, text, registers, near[0], near[1], tuple(looks), said)
            if result.why != "steps":
                return
    finally:
        running.code = code


def _looks(whole: Any, running: Any, place: int) -> Iterator[Look]:
    """Return what the heads of a layer find, read from their weights and the row before the layer."""
    row, names = running.row(whole.plan.at), whole.net.block(place).heads
    for head in whole.known.blocks[place]:
        if head.query:
            found = None
            with contextlib.suppress(RangeError):
                found = whole.found_row(head, row)
            yield Look(place + 1, names[head.number], "" if found is None else position_name(found))


def position_name(position: int) -> str:
    """The meaning of a position of the computer."""
    if position < FIRST_REGISTER:
        return "the processor"
    if position < FIRST_DEVICE:
        return f"x{position - FIRST_REGISTER}"
    address = position - FIRST_BYTE + BASE
    return f"device {address:#x}" if DEVICES <= address < BASE else f"byte {address:#x}"


def _near(memory: bytes, address: int) -> tuple[int, bytes]:
    """Some lines of memory around an address."""
    first = min(max(0, (address - BASE & ~15) - AROUND), max(0, len(memory) - 2 * AROUND - 16))
    return BASE + first, memory[first : first + 2 * AROUND + 16]
