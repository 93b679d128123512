"""Run RISC-V programs on a transformer: the compiled `library.riscv`, with a driver for console, input and exit.

The weights of the network run every instruction of RV32I, or of RV32IM or RV32IMA. The driver acts as devices and as
the environment: it puts input into the bytes of a device, takes output from there, acts on ecall, ebreak and CSR
instructions, and where an interrupt is due, it gives pc the address of the handler.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from kleene.drivers.kept import KeptNetwork
from kleene.errors import InputError, RangeError
from kleene.library.riscv import DEVICES as DEVICE_BYTES
from kleene.library.riscv import (
    FIRST_DEVICE,
    FIRST_REGISTER,
    HIDDEN_TOKEN,
    PROCESSOR_TOKEN,
    REGISTER_TOKEN,
    REGISTERS,
    riscv,
)
from kleene.library.riscv_passes import ATOMIC, EXTRA_BITS, HIDDEN, RESERVING
from kleene.machines.elf import Executable
from kleene.machines.riscv import BASE, DEFAULT_MEMORY, DEVICES, MASK, READ_BYTE, Computer, RiscvResult
from kleene.networks.transformer.stops import EVALUATORS, HALTED, WATCHED, Watch

if TYPE_CHECKING:  # torch takes seconds to import; a run whose code is in the cache does without
    from kleene.networks.transformer.model import Transformer

LAYERS = 4  # for each instruction
EXECUTE = 2  # the layer that computes the address of a load or store
MAX_DENSE = 1 << 11  # bytes; a head of the dense evaluator scores every pair of tokens
DECODED = ("form", "operand", "op", "jump", "access", "writes", "stores_1", "stores_2", "stores_4")
SB = 6  # the first value of `access` that stores


@cache
def _kept(memory: int, instructions: str = "rv32i") -> KeptNetwork:
    name = f"riscv-{memory}" if instructions == "rv32i" else f"{instructions}-{memory}"
    return KeptNetwork(name, lambda: riscv(memory, instructions))


def riscv_network(memory: int = DEFAULT_MEMORY, instructions: str = "rv32i") -> Transformer:
    """The computer as a transformer; compiled once, and kept in the cache folder."""
    return _kept(memory, instructions).net


class TransformerComputer(Computer):
    """A RISC-V computer that is a transformer; use it like `ReferenceMachine`."""

    def __init__(
        self,
        program: Executable,
        memory: int = DEFAULT_MEMORY,
        arguments: tuple[str, ...] = (),
        instructions: str = "rv32i",
        device_tree: bytes | None = None,
        *,
        evaluator: str = "generated",
    ) -> None:
        super().__init__(program, memory, arguments, instructions, device_tree)
        if evaluator not in EVALUATORS:
            raise InputError(f"riscv: unknown evaluator {evaluator!r}; a transformer has {', '.join(EVALUATORS)}")
        if evaluator == "dense" and memory > MAX_DENSE:
            raise InputError(
                f"riscv: the dense evaluator scores every pair of {memory:,} bytes, and takes at most {MAX_DENSE:,}; "
                "use generated, lookup or rows, or less memory"
            )
        self.evaluator = evaluator
        hidden = HIDDEN if instructions != "rv32i" else 0
        self.first_device = FIRST_DEVICE + hidden
        self.first_byte = self.first_device + DEVICE_BYTES
        registers = [
            PROCESSOR_TOKEN,
            *range(REGISTER_TOKEN, PROCESSOR_TOKEN),
            *range(HIDDEN_TOKEN, HIDDEN_TOKEN + hidden),
        ]
        content = np.frombuffer(bytes(DEVICE_BYTES) + bytes(self.image), dtype=np.uint8)
        tokens = np.concatenate([np.array(registers, dtype=np.int16), content])
        self.running = _kept(memory, instructions).start(tokens, evaluator)
        self.place = {segment.name: segment for segment in self.running.layout}
        self.watch = Watch(EXECUTE, 0, self.place["device"].start + 1)
        self._put(0, "pc", program.entry)
        self._put(FIRST_REGISTER + 2, "value", self.stack)
        self._put(FIRST_REGISTER + 11, "value", self.tree)
        self._waits = False
        self._counts = bool(hidden)  # whether instructions may take several passes
        self._extra, self._extra_seen = 0, 0
        self._longest = 1 << 62 if not hidden else LAYERS << EXTRA_BITS
        self._decoded = (*DECODED, *(("family", "flips") if hidden else ()))

    @property
    def net(self) -> Transformer:
        """The network whose weights run."""
        return riscv_network(self.size, self.instructions)

    # --- what the network holds ---

    def _put(self, row: int, name: str, value: int) -> None:
        segment = self.place[name]
        self.running.put(row, segment.start, [value >> k & 1 for k in range(segment.size)])

    def _put_value(self, name: str, index: int) -> None:
        """Give a one-hot variable of the processor a value."""
        segment = self.place[name]
        self.running.put(0, segment.start, [int(k == index) for k in range(segment.size)])

    def _word(self, name: str, row: int = 0) -> int:
        segment = self.place[name]
        return self.running.word(row, segment.start, segment.size)

    def _value(self, name: str) -> int:
        return max(0, self._word(name).bit_length() - 1)

    @property
    def layers(self) -> int:
        return self.running.layers

    @property
    def steps(self) -> int:
        """How many instructions are finished."""
        return self.running.layers // LAYERS - self._extra

    @property
    def pc(self) -> int:
        return self._word("pc")

    @property
    def instruction(self) -> int:
        """The instruction that was fetched last."""
        return sum(self._word(f"i{k}") << 8 * k for k in range(4))

    def register(self, number: int) -> int:
        return self._word("value", FIRST_REGISTER + number)

    def set_register(self, number: int, value: int) -> None:
        if number:
            self._put(FIRST_REGISTER + number, "value", value & MASK)

    @property
    def registers(self) -> tuple[int, ...]:
        """The registers after the last finished instruction, whose result is still on its way."""
        values = [self.register(number) for number in range(32)]
        if self.running.layers % LAYERS == 0 and self._value("writes") and 0 < self._word("rd") < REGISTERS:
            values[self._word("rd")] = self._word("r")
        return tuple(values)

    def memory(self) -> bytes:
        """Memory after the last finished instruction, whose stores are still on their way."""
        segment = self.place["byte"]
        held = self.running.words(tuple(range(segment.start, segment.stop)))[self.first_byte :].astype(np.uint8)
        if self.running.layers % LAYERS == 0:
            target = self._word("target") - BASE
            for k, stores in enumerate(("stores_1", "stores_2", "stores_4", "stores_4")):
                if self._value(stores) and 0 <= target + k < self.size:
                    held[target + k] = self._word(f"b{k}")
        return held.tobytes()

    def load(self, address: int, count: int) -> bytes:
        place = address - BASE
        if not 0 <= place <= self.size - count:
            raise RangeError(f"riscv: {count:,} bytes at {address:#x} are not in memory")
        return bytes(self._word("byte", self.first_byte + place + k) for k in range(count))

    def store(self, address: int, content: bytes) -> None:
        self.load(address, len(content))
        for k, byte in enumerate(content):
            self._put(self.first_byte + address - BASE + k, "byte", byte)

    # --- running ---

    def run(self, max_steps: int = 10_000_000) -> RiscvResult:
        """Run at most `max_steps` more instructions."""
        end, world = self.steps + max_steps, self.environment
        world.why = None
        if self._waits:
            self._go_on()
        while world.why is None and self.steps < end:
            due = world.due()
            if due is not None and due <= self.steps and self.running.layers % LAYERS == 0:
                world.now = self.steps
                self._put(0, "pc", world.interrupt(self.pc))
                continue
            self._run_to(end if due is None else max(self.steps + 1, min(end, due)))
        why = world.why or "steps"
        return RiscvResult(why, self.steps, self.take_output(), world.code, self.pc, self.registers, self.memory())

    def _run_to(self, end: int) -> None:
        """Run until so many instructions are finished, or until the environment has acted on one."""
        layers = (end + self._extra) * LAYERS - self.running.layers
        try:
            found = self.running.run(min(layers, self._longest), self.watch)
        except RangeError:
            self._count()
            raise RangeError(f"riscv: after {self.steps:,} instructions pc is {self.pc:#x}, outside memory") from None
        self._count()
        if found in (HALTED, WATCHED):
            self._go_on()

    def _count(self) -> None:
        """Count the passes that finished no instruction; the network counts them, modulo 2**EXTRA_BITS."""
        if self._counts:
            seen = self._word("extra")
            self._extra += (seen - self._extra_seen) % (1 << EXTRA_BITS)
            self._extra_seen = seen

    def _go_on(self) -> None:
        """Handle the instruction that stopped the processor. Wait if input is missing."""
        self.environment.now = self.steps
        if self.running.layers % LAYERS == 1:
            self._system()
        else:
            self._device()
        self._waits = self.environment.why == "input"

    def _system(self) -> None:
        """Act on an instruction that the network leaves to its environment, and let it do nothing more."""
        after = self.environment.system(self, self.instruction, self.pc, self.steps)
        if after is None:
            return
        self._skip_to(after)
        self._put_value("done", 0)
        self.running.halted = False

    def _skip_to(self, after: int) -> None:
        """Let the instruction do nothing more but go on at an address."""
        for name in self._decoded:
            self._put_value(name, 0)
        self._put(0, "following", after)

    def _device(self) -> None:
        """Put what a load finds, or take what a store leaves; the network itself loads and stores.

        The bytes of an address that has no token are put into those of a device, and the load goes there."""
        address, stores, world = self._word("target"), self._value("access") >= SB, self.environment
        found: bytes | int | None
        if self._counts and self._value("family") >= ATOMIC:
            found = world.refuse_atomic(address, self._value("family") == RESERVING, self.pc)
        else:
            found = world.before_access(address, stores, self._word("v2"), self.pc)
        if isinstance(found, int):
            self._skip_to(found)
            self._put_value("take", 0)
        elif found:
            for k, byte in enumerate(found):
                self._put(self.first_device + READ_BYTE - DEVICES + k, "byte", byte)
            self._put(0, "target", READ_BYTE)
        if found is not None and world.why == "exit":
            self.running.run(1)  # the last layer of the store


def run_on_transformer(
    program: Executable,
    *,
    input: bytes = b"",
    max_steps: int = 100_000_000,
    memory: int = DEFAULT_MEMORY,
    evaluator: str = "generated",
) -> RiscvResult:
    """Run a program on the transformer with all of its input, like `run_reference`."""
    machine = TransformerComputer(program, memory, evaluator=evaluator)
    machine.feed(input)
    machine.end_input()
    return machine.run(max_steps)
