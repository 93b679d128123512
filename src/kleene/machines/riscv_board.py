"""A board for operating systems without MMU: machine and user mode, traps, a timer (CLINT), a UART, and power-off.

Time runs with the instructions: the timer ticks once every `PER_TICK` instructions, and jumps to its next alarm where
the processor waits for an interrupt. So every run of the same program with the same input is the same run.
"""

from __future__ import annotations

import struct

from kleene.errors import FileError, RangeError
from kleene.machines.riscv import (
    BREAKPOINT,
    ECALL,
    ILLEGAL,
    MASK,
    MCAUSE,
    MEPC,
    MSTATUS,
    MTVAL,
    MTVEC,
    Environment,
    Processor,
)

UART, LINE_CONTROL, LINE_STATUS, SCRATCH = 0x1000_0000, 0x1000_0003, 0x1000_0005, 0x1000_0007
CLINT, POWER = 0x1100_0000, 0x1110_0000
SOFTWARE, ALARM, TIME = CLINT, CLINT + 0x4000, CLINT + 0xBFF8  # msip, mtimecmp and mtime
POWER_OFF = 0x5555
PER_TICK = 16  # instructions
QUIET = 200  # waits for interrupts in a row, without input or output, after which the computer is idle
MIE, MIP, MISA = 0x304, 0x344, 0x301
KEPT = {MSTATUS: 0x1888, MIE: 0xFFFF, MTVEC: MASK, 0x340: MASK, MEPC: MASK & ~3, MCAUSE: MASK, MTVAL: MASK}
RV32IMA_U = 1 << 30 | 1 << 20 | 1 << 12 | 1 << 8 | 1  # misa
USER, MACHINE = 0, 3
INTERRUPTS_ON, WERE_ON, BEFORE = 1 << 3, 1 << 7, 3 << 11  # of mstatus: MIE, MPIE, MPP
TIMER, SOFT = 7, 3  # interrupts
LOAD_MISALIGNED, LOAD_FAULT, STORE_MISALIGNED, STORE_FAULT = 4, 5, 6, 7
TREE_MAGIC, BEGIN_NODE, END_NODE, PROPERTY, NOTHING, END = 0xD00DFEED, 1, 2, 3, 4, 9


class Board(Environment):
    """The privileged part of an RV32IMA computer with its devices."""

    def __init__(self, instructions: str = "rv32ima") -> None:
        super().__init__(instructions)
        self.mode = MACHINE
        self.alarm, self.skipped, self.software = (1 << 64) - 1, 0, 0
        self.quiet = 0
        self.kept = {LINE_CONTROL: 0, SCRATCH: 0}  # registers of the UART that read as they were written
        self.csrs[MSTATUS] = 0

    @property
    def time(self) -> int:
        return self.now // PER_TICK + self.skipped

    def _pending(self) -> int:
        return (self.time >= self.alarm) << TIMER | self.software << SOFT

    def _listens(self) -> bool:
        return self.mode == USER or bool(self.csrs[MSTATUS] & INTERRUPTS_ON)

    def due(self) -> int | None:
        """The number of instructions after which an interrupt comes, if nothing else happens before."""
        enabled = self.csrs.get(MIE, 0)
        if not self._listens():
            return None
        if enabled >> SOFT & self.software:
            return self.now
        return (self.alarm - self.skipped) * PER_TICK if enabled >> TIMER & 1 else None

    def interrupt(self, pc: int) -> int:
        """Take the interrupt that is due. Return the address to go on at."""
        waiting = self._pending() & self.csrs.get(MIE, 0)
        return self._trap((SOFT if waiting >> SOFT & 1 else TIMER) | 1 << 31, pc, 0)

    def system(self, machine: Processor, instruction: int, pc: int, count: int) -> int | None:
        opcode, f3 = instruction & 127, instruction >> 12 & 7
        if opcode == 0b1110011 and f3 & 3:
            return self._csr(machine, instruction, pc, count)
        if instruction == 0x00000073:
            return self._trap(ECALL if self.mode == MACHINE else 8, pc, 0)
        if instruction == 0x00100073:
            return self._trap(BREAKPOINT, pc, pc)
        if instruction == 0x10500073:
            return self._wait(pc)
        if instruction == 0x30200073 and self.mode == MACHINE:
            status = self.csrs[MSTATUS]
            self.mode = status >> 11 & 3
            self.csrs[MSTATUS] = WERE_ON | (status & WERE_ON) >> 4
            return self.csrs.get(MEPC, 0)
        return self._trap(ILLEGAL, pc, instruction)

    def _wait(self, pc: int) -> int | None:
        """Let time jump to the next alarm. Stop where the computer is idle and there is nothing to type."""
        self.quiet += 1
        if self.quiet > QUIET and not self.input:
            self.quiet = 0
            self.why = "idle" if self.ended else "input"
            return None
        if not self._pending():
            self.skipped += max(0, min(self.alarm, 1 << 63) - self.time)
        return pc + 4 & MASK

    def _trap(self, cause: int, pc: int, value: int) -> int:
        if not self.csrs.get(MTVEC):
            raise RangeError(f"riscv: a trap at {pc:#x} (cause {cause:#x}, {value:#x}), and mtvec names no handler")
        status = self.csrs[MSTATUS]
        self.csrs[MSTATUS] = (status & INTERRUPTS_ON) << 4 | self.mode << 11
        self.mode = MACHINE
        return super()._trap(cause, pc, value)

    def _csr(self, machine: Processor, instruction: int, pc: int, count: int) -> int:
        number, f3, source = instruction >> 20, instruction >> 12 & 7, instruction >> 15 & 31
        writes = f3 & 3 == 1 or source != 0
        if number >> 8 & 3 > self.mode or (writes and number >> 10 == 3):
            return self._trap(ILLEGAL, pc, instruction)
        operand = source if f3 & 4 else machine.register(source)
        old = self._read(number)
        if writes and number in KEPT:
            new = {1: operand, 2: old | operand, 3: old & ~operand}[f3 & 3]
            self.csrs[number] = new & KEPT[number]
        machine.set_register(instruction >> 7 & 31, old)
        return pc + 4 & MASK

    def _read(self, number: int) -> int:
        if number == MIP:
            return self._pending()
        if number == MISA:
            return RV32IMA_U
        if number & 0xF7F in (0xB00, 0xB02, 0xC00, 0xC02):  # cycles and instructions; the upper halves
            return self.now >> (32 if number & 0x80 else 0) & MASK
        if number & 0xF7F == 0xC01:
            return self.time >> (32 if number & 0x80 else 0) & MASK
        return self.csrs.get(number, 0)

    def before_access(self, address: int, stores: bool, value: int, pc: int) -> bytes | int | None:
        if stores:
            return self._store(address, value, pc)
        found = 0
        if address == UART and self._divides():
            found = 1
        elif address == UART and self.input:
            found, self.quiet = self.input.pop(0), 0
        elif address == LINE_STATUS:
            found = 0x60 | (1 if self.input else 0)
        elif address in self.kept:
            found = self.kept[address]
        elif address in (ALARM, ALARM + 4):
            found = self.alarm >> (8 * (address - ALARM)) & MASK
        elif address in (TIME, TIME + 4):
            found = self.time >> (8 * (address - TIME)) & MASK
        elif address == SOFTWARE:
            found = self.software
        elif not self._known(address):
            return self._trap(LOAD_FAULT, pc, address)
        return found.to_bytes(4, "little")

    def _store(self, address: int, value: int, pc: int) -> bytes | int:
        if address == UART:
            if not self._divides():
                self.output.append(value & 0xFF)
                self.quiet = 0
        elif address in self.kept:
            self.kept[address] = value & 0xFF
        elif address == POWER:
            self.why, self.code = "exit", 0 if value & 0xFFFF == POWER_OFF else 1
        elif address == SOFTWARE:
            self.software = value & 1
        elif address in (ALARM, ALARM + 4):
            low = address == ALARM
            self.alarm = self.alarm & MASK << 32 | value if low else self.alarm & MASK | value << 32
        elif not self._known(address):
            return self._trap(STORE_FAULT, pc, address)
        return b""

    def _divides(self) -> bool:
        """Whether the UART's first address is a part of its divisor."""
        return bool(self.kept[LINE_CONTROL] & 0x80)

    @staticmethod
    def _known(address: int) -> bool:
        return UART <= address < UART + 0x100 or CLINT <= address < CLINT + 0x10000 or POWER <= address < POWER + 0x1000

    def refuse_atomic(self, address: int, loads: bool, pc: int) -> int:
        causes = (LOAD_MISALIGNED, LOAD_FAULT) if loads else (STORE_MISALIGNED, STORE_FAULT)
        return self._trap(causes[address & 3 == 0], pc, address)


def with_memory(tree: bytes, size: int, name: str = "device tree") -> bytes:
    """A flattened device tree that names `size` bytes of memory. Raise FileError for a file that is none."""
    try:
        place = _memory_size(tree, name)
    except (struct.error, IndexError):
        raise FileError(f"{name}: a part of the device tree lies outside the file") from None
    return tree[:place] + size.to_bytes(8, "big") + tree[place + 8 :]


def _memory_size(tree: bytes, name: str) -> int:
    """Where the size of memory stands: in `reg` of the node `memory`, 64 bits after 64 bits of address."""
    magic, _, structure, strings = struct.unpack_from(">4I", tree, 0)
    if magic != TREE_MAGIC:
        raise FileError(f"{name}: not a flattened device tree (.dtb)")
    at, path = int(structure), [""]
    while True:
        (kind,) = struct.unpack_from(">I", tree, at)
        at += 4
        if kind == BEGIN_NODE:
            end = tree.find(b"\0", at)
            path.append(tree[at : max(end, at)].decode("latin-1"))
            at = end + 4 & ~3
        elif kind == END_NODE:
            path.pop()
        elif kind == PROPERTY:
            length, place = struct.unpack_from(">2I", tree, at)
            if path[-1].split("@")[0] == "memory" and tree[strings + place :].startswith(b"reg\0") and length == 16:
                struct.unpack_from(">Q", tree, at + 16)
                return at + 16
            at += 8 + length + 3 & ~3
        elif kind != NOTHING:
            raise FileError(f"{name}: names no memory (a node `memory` with one address and size of 64 bits each)")
