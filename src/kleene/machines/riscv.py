"""RV32I, with M and A where asked for: a reference machine, and its environment (system instructions and devices).

The reference machine follows the unprivileged specification. It was written without the transformer in mind, and is
tested on the official conformance tests. Memory starts at 0x80000000; the 16 bytes below are devices.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from kleene.errors import InputError, RangeError
from kleene.machines.elf import Executable
from kleene.machines.riscv_text import disassemble

Array = np.ndarray[Any, Any]

BASE = 0x8000_0000
DEVICES = BASE - 16
WRITE_BYTE, READ_BYTE, EXIT = DEVICES, DEVICES + 4, DEVICES + 8
DEFAULT_MEMORY = 1 << 18
MASK = 0xFFFF_FFFF
INSTRUCTIONS = ("rv32i", "rv32im", "rv32ima")
TREE_SPACE = 1 << 14  # bytes at the end of memory for a device tree
EXIT_CALL, WRITE_CALL, READ_CALL = 93, 64, 63
MSTATUS, MTVEC, MEPC, MCAUSE, MTVAL = 0x300, 0x305, 0x341, 0x342, 0x343
ILLEGAL, BREAKPOINT, ECALL = 2, 3, 11
ATOMIC = 0b0101111  # an opcode


@dataclass(frozen=True)
class RiscvResult:
    """How a run ended: "exit" with a code, "steps" (the limit), "input" (it waits for more) or "ebreak"."""

    why: str
    steps: int
    output: bytes
    code: int | None
    counter: int
    registers: tuple[int, ...]
    memory: bytes = field(repr=False)

    @property
    def halted(self) -> bool:
        return self.why in ("exit", "ebreak")


class Processor(Protocol):
    """What the environment may do with a machine that has stopped at an instruction."""

    def register(self, number: int) -> int: ...
    def set_register(self, number: int, value: int) -> None: ...
    def load(self, address: int, count: int) -> bytes: ...
    def store(self, address: int, content: bytes) -> None: ...


class Environment:
    """Input, output, exit, and the instructions that ask for them: ecall, ebreak, CSRs and mret.

    A program without a trap handler (mtvec = 0) makes calls with ecall as under Linux: 93 exit, 64 write, 63 read."""

    def __init__(self, instructions: str = "rv32i") -> None:
        self.instructions = instructions
        self.csrs: dict[int, int] = {}
        self.input, self.ended = bytearray(), False
        self.output = bytearray()
        self.code: int | None = None
        self.why: str | None = None  # where the run has to stop
        self.now = 0  # instructions finished

    def due(self) -> int | None:
        """The number of instructions after which an interrupt comes; None for never."""
        return None

    def interrupt(self, pc: int) -> int:
        """Take the interrupt that is due. Return the address to go on at."""
        raise AssertionError("no interrupt is due")

    def next_byte(self) -> int | None:
        """The next byte of input; −1 after the last one; None while the program waits for more."""
        if self.input:
            return self.input.pop(0)
        return -1 if self.ended else None

    def system(self, machine: Processor, instruction: int, pc: int, count: int) -> int | None:
        """Act on an instruction that stops the processor. Return the address to go on at, or None to stop here."""
        opcode, f3 = instruction & 127, instruction >> 12 & 7
        if opcode == 0b1110011 and f3:
            return self._csr(machine, instruction, pc, count)
        if instruction == 0x00000073:
            return self._trap(ECALL, pc, 0) if self.csrs.get(MTVEC) else self._call(machine, pc)
        if instruction == 0x30200073:  # mret
            return self.csrs.get(MEPC, 0)
        if instruction == 0x10500073:  # wfi
            return pc + 4 & MASK
        if self.csrs.get(MTVEC):
            return self._trap(BREAKPOINT if instruction == 0x00100073 else ILLEGAL, pc, instruction)
        if instruction == 0x00100073:
            self.why = "ebreak"
            return None
        raise RangeError(
            f"riscv: the instruction {instruction:#010x} at {pc:#x} is not in {self.instructions.upper()} "
            f"({disassemble(instruction, pc)}); compile with -march={self.instructions}"
            + ("" if self.instructions == INSTRUCTIONS[-1] else f", or give --instructions {INSTRUCTIONS[-1]}")
        )

    def _trap(self, cause: int, pc: int, value: int) -> int:
        self.csrs |= {MEPC: pc, MCAUSE: cause, MTVAL: value}
        return self.csrs[MTVEC] & ~3

    def _csr(self, machine: Processor, instruction: int, pc: int, count: int) -> int:
        number, f3, source = instruction >> 20, instruction >> 12 & 7, instruction >> 15 & 31
        operand = source if f3 & 4 else machine.register(source)
        old = {0xC00: count, 0xC02: count, 0xB00: count, 0xB02: count}.get(number, self.csrs.get(number, 0)) & MASK
        new = {1: operand, 2: old | operand, 3: old & ~operand}.get(f3 & 3, old) & MASK
        if f3 & 3 == 1 or source:
            self.csrs[number] = new
        machine.set_register(instruction >> 7 & 31, old)
        return pc + 4 & MASK

    def _call(self, machine: Processor, pc: int) -> int | None:
        call, first, second, third = (machine.register(n) for n in (17, 10, 11, 12))
        if call == EXIT_CALL:
            self.why, self.code = "exit", first & 0xFF
            return None
        if call == WRITE_CALL:
            self.output += machine.load(second, third)
            machine.set_register(10, third)
            return pc + 4 & MASK
        if call == READ_CALL:
            if not self.input and not self.ended:
                self.why = "input"
                return None
            content = bytes(self.input[:third])
            del self.input[:third]
            machine.store(second, content)
            machine.set_register(10, len(content))
            return pc + 4 & MASK
        raise RangeError(f"riscv: the call {call} (a7) at {pc:#x} is unknown; there are exit 93, write 64 and read 63")

    def before_access(self, address: int, stores: bool, value: int, pc: int) -> bytes | int | None:
        """Act on a load or store outside memory. Return the word that a load finds, or None to wait for input.

        A number is the address of a handler: then the instruction does nothing."""
        if stores and address == WRITE_BYTE:
            self.output.append(value & 0xFF)
            return b""
        if stores and address == EXIT:
            self.why, self.code = "exit", value & 0xFF
            return b""
        if not stores and address == READ_BYTE:
            found = self.next_byte()
            if found is None:
                self.why = "input"
                return None
            return (found & MASK).to_bytes(4, "little")
        what = "stores to" if stores else "loads from"
        raise RangeError(f"riscv: the instruction at {pc:#x} {what} {address:#x}, which is neither memory nor a device")

    def refuse_atomic(self, address: int, loads: bool, pc: int) -> int:
        """An atomic instruction addresses no word of memory. Return the address of a handler."""
        raise RangeError(
            f"riscv: the atomic instruction at {pc:#x} addresses {address:#x}, which is "
            + ("no multiple of four" if address & 3 else "not in memory")
        )


class Computer:
    """The common part of the reference machine and the transformer: a program, its environment, and how a run ends."""

    def __init__(
        self,
        program: Executable,
        memory: int = DEFAULT_MEMORY,
        arguments: tuple[str, ...] = (),
        instructions: str = "rv32i",
        device_tree: bytes | None = None,
    ) -> None:
        if instructions not in INSTRUCTIONS:
            raise InputError(f"riscv: unknown instructions {instructions!r}; there are {', '.join(INSTRUCTIONS)}")
        self.instructions = instructions
        if memory & (memory - 1) or not 16 <= memory <= 1 << 30:
            raise InputError(f"riscv: --memory {memory:,} is not a power of two from 16 to 2**30 bytes")
        self.program, self.size = program, memory
        self.image = bytearray(program.image(BASE, memory))
        if not BASE <= program.entry < BASE + memory or program.entry % 4:
            raise InputError(
                f"{program.name}: starts at {program.entry:#x}, which cannot be the address of an instruction"
            )
        self.environment = Environment(instructions)
        self.stack, self.tree = 0, 0
        if device_tree is None:
            self.stack = self._place_arguments(arguments)
        else:
            self._place_tree(device_tree)

    def _place_tree(self, tree: bytes) -> None:
        """Put a device tree at the end of memory, for an operating system on a board."""
        from kleene.machines.riscv_board import Board, with_memory

        place = self.size - TREE_SPACE
        if len(tree) > TREE_SPACE or BASE + place < self.program.end:
            raise InputError(f"{self.program.name}: the program and a device tree do not fit in {self.size:,} bytes")
        self.environment, self.tree = Board(self.instructions), BASE + place
        self.image[place : place + len(tree)] = with_memory(tree, place)

    def _place_arguments(self, arguments: tuple[str, ...]) -> int:
        """Put the arguments at the end of memory for main(argc, argv). Return the first address of the stack."""
        texts = [text.encode() + b"\0" for text in (self.program.name, *arguments)]
        places: list[int] = []
        top = self.size - 16
        for text in reversed(texts):
            top -= len(text)
            places.insert(0, BASE + top)
            self.image[max(top, 0) : top + len(text)] = text
        top = (top - 4 * (len(texts) + 2)) & ~15
        if BASE + top < self.program.end:
            raise InputError(f"{self.program.name}: the arguments and the program do not fit in {self.size:,} bytes")
        words = [len(texts), *places, 0]
        self.image[top : top + 4 * len(words)] = b"".join(word.to_bytes(4, "little") for word in words)
        return BASE + top

    def feed(self, content: bytes) -> None:
        """Give the program more input."""
        self.environment.input += content

    def end_input(self) -> None:
        """Say that there is no more input."""
        self.environment.ended = True

    def take_output(self) -> bytes:
        """The output since the last call."""
        made = bytes(self.environment.output)
        self.environment.output.clear()
        return made


class ReferenceMachine(Computer):
    """RV32I as a plain interpreter, compiled by Numba."""

    evaluator = "numba"

    def __init__(
        self,
        program: Executable,
        memory: int = DEFAULT_MEMORY,
        arguments: tuple[str, ...] = (),
        instructions: str = "rv32i",
        device_tree: bytes | None = None,
    ) -> None:
        super().__init__(program, memory, arguments, instructions, device_tree)
        self.cells = np.frombuffer(bytes(16) + bytes(self.image), dtype=np.uint8).copy()  # the devices first
        self.values = np.zeros(34, dtype=np.uint32)  # the registers, pc, and whether lr.w has reserved memory
        self.values[32], self.values[2], self.values[11] = program.entry, self.stack, self.tree
        self.steps = 0

    def register(self, number: int) -> int:
        return int(self.values[number])

    def set_register(self, number: int, value: int) -> None:
        if number:
            self.values[number] = value & MASK

    def load(self, address: int, count: int) -> bytes:
        place = address - BASE
        if not 0 <= place <= self.size - count:
            raise RangeError(f"riscv: {count:,} bytes at {address:#x} are not in memory")
        return self.cells[16 + place : 16 + place + count].tobytes()

    def store(self, address: int, content: bytes) -> None:
        self.load(address, len(content))
        place = 16 + address - BASE
        self.cells[place : place + len(content)] = np.frombuffer(content, dtype=np.uint8)

    @property
    def pc(self) -> int:
        return int(self.values[32])

    @property
    def registers(self) -> tuple[int, ...]:
        return tuple(int(value) for value in self.values[:32])

    def memory(self) -> bytes:
        return self.cells[16:].tobytes()

    def run(self, max_steps: int = 10_000_000) -> RiscvResult:
        """Run at most `max_steps` more instructions."""
        from kleene.machines.riscv_kernel import DEVICE, FETCH_FAULT, STOPPED, run

        end, world = self.steps + max_steps, self.environment
        world.why = None
        more, atomics = self.instructions != "rv32i", self.instructions == "rv32ima"
        while world.why is None and self.steps < end:
            world.now = self.steps
            due = world.due()
            if due is not None and due <= self.steps:
                self.values[32] = world.interrupt(self.pc)
                continue
            most = end - self.steps if due is None else min(end, due) - self.steps
            done, reason = run(self.cells, self.values, self.size, most, False, more, atomics)
            self.steps += done
            world.now = self.steps
            if reason == FETCH_FAULT:
                raise RangeError(f"riscv: after {self.steps:,} instructions pc is {self.pc:#x}, outside memory")
            if reason == STOPPED:
                self._stopped()
            elif reason == DEVICE:
                self._device()
        why = world.why or "steps"
        return RiscvResult(why, self.steps, self.take_output(), world.code, self.pc, self.registers, self.memory())

    def _stopped(self) -> None:
        pc = self.pc
        instruction = int.from_bytes(self.load(pc, 4), "little")
        after = self.environment.system(self, instruction, pc, self.steps)
        if after is not None:
            self.values[32] = after
            self.steps += 1

    def _device(self) -> None:
        pc, world = self.pc, self.environment
        found: bytes | int | None
        instruction = int.from_bytes(self.load(pc, 4), "little")
        if instruction & 127 == ATOMIC:
            found = world.refuse_atomic(self.register(instruction >> 15 & 31), instruction >> 27 == 2, pc)
        else:
            address, stores = access_of(instruction, self.register)
            found = world.before_access(address, stores, self.register(instruction >> 20 & 31), pc)
        if found is None:
            return
        if isinstance(found, bytes):
            if found:
                self.set_register(instruction >> 7 & 31, loaded(found, instruction >> 12 & 7))
            found = pc + 4 & MASK
        self.values[32] = found
        self.steps += 1


def loaded(word: bytes, f3: int) -> int:
    """What a load takes from a word."""
    count = 1 << (f3 & 3)
    return int.from_bytes(word[:count], "little", signed=f3 < 2) & MASK


def access_of(instruction: int, register: Any) -> tuple[int, bool]:
    """The address that a load or store goes to, and whether it stores."""
    stores = instruction & 127 == 0b0100011
    offset = (instruction >> 25 << 5 | instruction >> 7 & 31) if stores else instruction >> 20
    signed = (offset & 0xFFF ^ 0x800) - 0x800
    return (register(instruction >> 15 & 31) + signed) & MASK, stores


def run_reference(
    program: Executable, *, input: bytes = b"", max_steps: int = 100_000_000, memory: int = DEFAULT_MEMORY
) -> RiscvResult:
    """Run a program on the reference machine with all of its input."""
    machine = ReferenceMachine(program, memory)
    machine.feed(input)
    machine.end_input()
    return machine.run(max_steps)
