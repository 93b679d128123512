"""A RISC-V computer: RV32I with a memory of bytes, four layers for each instruction; with M and A where asked for.

One token is the processor, 32 tokens are registers, 16 tokens are the bytes of devices, and every other token is a
byte of memory. The layers take turns: fetch and decode; read registers; execute; load, and choose the next
instruction. Stores and the result of an instruction reach memory and registers while the next one is fetched.
`riscv_passes` has the instructions that take the four layers several times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from kleene.errors import InputError, ProgramError
from kleene.library.encoding import MemoryProgram
from kleene.library.riscv_passes import (
    AMO,
    ATOMIC_STOPS,
    DIVISOR,
    EXTRA_BITS,
    FAMILIES,
    FIRST,
    HIDDEN,
    RESULTS,
    Passes,
    multiplies,
)
from kleene.lowering.symbolic import table
from kleene.lowering.words import concat, extend
from kleene.machines.bitwords import BitWord
from kleene.machines.declarations import attend, cat, clear, counting, layer, word

BASE = 0x8000_0000  # the address of the first byte of memory
REGISTERS, DEVICES = 32, 16
FIRST_REGISTER, FIRST_DEVICE = 1, 1 + REGISTERS
FIRST_BYTE = FIRST_DEVICE + DEVICES  # the position of the first byte of memory
REGISTER_TOKEN, PROCESSOR_TOKEN = 256, 256 + REGISTERS
HIDDEN_TOKEN = PROCESSOR_TOKEN + 1  # registers of a machine with M, after the 32
SETS = ("rv32i", "rv32im", "rv32ima")

# major opcodes
LUI, AUIPC, JAL, JALR, BRANCH = 0b0110111, 0b0010111, 0b1101111, 0b1100111, 0b1100011
LOAD, STORE, OP_IMM, OP, FENCE, SYSTEM = 0b0000011, 0b0100011, 0b0010011, 0b0110011, 0b0001111, 0b1110011

# the readings of an instruction's fields
U, I, S, B, J = range(1, 6)  # the format of the immediate
IMM, REG, NOT_IMM, NOT_REG = range(1, 5)  # the second operand
ADD, AND, OR, XOR, SLL, SRL, SRA, SLT, SLTU, UPPER, PC_UPPER, LINK = range(1, 13)  # what becomes the result
BEQ, BNE, BLT, BGE, BLTU, BGEU, JUMP, JUMP_REGISTER = range(1, 9)  # where to go next
LB, LBU, LH, LHU, LW, SB, SH, SW = range(1, 9)  # what to load or store

FORMATS = {LUI: U, AUIPC: U, JAL: J, JALR: I, BRANCH: B, LOAD: I, STORE: S, OP_IMM: I}
BRANCHES = {0: BEQ, 1: BNE, 4: BLT, 5: BGE, 6: BLTU, 7: BGEU}
ACCESSES = {LOAD: {0: LB, 1: LH, 2: LW, 4: LBU, 5: LHU}, STORE: {0: SB, 1: SH, 2: SW}}
ALU = {0: ADD, 1: SLL, 2: SLT, 3: SLTU, 4: XOR, 5: SRL, 6: OR, 7: AND}


def operand_of(opcode: int, f3: int, bit30: int) -> int:
    """Return what the second operand is; inverted where the processor subtracts."""
    if opcode in (LOAD, STORE, JALR):
        return IMM
    if opcode == BRANCH:
        return NOT_REG
    if opcode in (OP, OP_IMM):
        subtracts = f3 in (2, 3) or (opcode == OP and f3 == 0 and bit30)
        return {(OP, True): NOT_REG, (OP, False): REG, (OP_IMM, True): NOT_IMM, (OP_IMM, False): IMM}[
            opcode, bool(subtracts)
        ]
    return 0


def result_of(opcode: int, f3: int, bit30: int) -> int:
    """Return what the instruction writes into its register; a load writes later."""
    if opcode in (OP, OP_IMM):
        return SRA if f3 == 5 and bit30 else ALU[f3]
    return {LUI: UPPER, AUIPC: PC_UPPER, JAL: LINK, JALR: LINK}.get(opcode, 0)


def next_of(opcode: int, f3: int, bit30: int) -> int:
    """How the next instruction is chosen."""
    return {JAL: JUMP, JALR: JUMP_REGISTER, BRANCH: BRANCHES.get(f3, 0)}.get(opcode, 0)


def stops(opcode: int, f3: int, bit25: int, bit30: int) -> bool:
    """Whether an instruction is not in RV32I, or asks the environment (ecall, ebreak, CSRs)."""
    if opcode in (LUI, AUIPC, JAL, FENCE):
        return False
    known: dict[int, Callable[[], bool]] = {
        JALR: lambda: f3 == 0,
        BRANCH: lambda: f3 in BRANCHES,
        LOAD: lambda: f3 in ACCESSES[LOAD],
        STORE: lambda: f3 in ACCESSES[STORE],
        OP_IMM: lambda: f3 not in (1, 5) or (not bit25 and (f3 == 5 or not bit30)),
        OP: lambda: not bit25 and (f3 in (0, 5) or not bit30),
    }
    return not (opcode in known and known[opcode]())


def _decoder(meaning: Callable[[int, int, int], int]) -> Any:
    """A table by the opcode, funct3 and bit 30 of an instruction."""
    return table([int(meaning(k & 127, k >> 7 & 7, k >> 10)) for k in range(1 << 11)])


FORMAT_OF = table([FORMATS.get(opcode, 0) for opcode in range(128)])
OPERAND_OF, RESULT_OF, NEXT_OF = _decoder(operand_of), _decoder(result_of), _decoder(next_of)
ACCESS_OF = _decoder(lambda opcode, f3, _: ACCESSES.get(opcode, {}).get(f3, 0))
WRITES = table([int(opcode in (LUI, AUIPC, JAL, JALR, LOAD, OP, OP_IMM)) for opcode in range(128)])
STORES = [_decoder(lambda o, f3, _, least=least: o == STORE and f3 >= least) for least in (0, 1, 2)]  # type: ignore[misc]
STOPS = table([int(stops(k & 127, k >> 7 & 7, k >> 10 & 1, k >> 11)) for k in range(1 << 12)])
STOPS_M = table(
    [
        int(stops(k & 127, k >> 7 & 7, k >> 10 & 1, k >> 11) and not multiplies(k & 127, k >> 10 & 1, k >> 11))
        for k in range(1 << 12)
    ]
)


def riscv(memory: int = 1 << 16, instructions: str = "rv32i") -> type[MemoryProgram]:
    """A RISC-V computer with `memory` bytes, a power of two, from address 0x80000000 on.

    The 16 bytes below are devices: a driver puts input there and takes output. The computer halts at an instruction
    that it does not have, and at ecall and ebreak; a driver may act on it and let it go on. Words at any address may
    be loaded and stored. Addresses without a byte read as zero; accesses outside memory set `device`.

    - `instructions`: "rv32i"; "rv32im" with multiplication and division, which take 34 passes of the four layers; or
      "rv32ima" with atomic instructions too, which take four passes (lr.w and sc.w: one).
    """
    if instructions not in SETS:
        raise ProgramError(f"riscv: unknown instructions {instructions!r}; there are {', '.join(SETS)}")
    more, atomics = instructions != "rv32i", instructions == "rv32ima"
    bits = memory.bit_length() - 1 if isinstance(memory, int) else 0
    if not isinstance(memory, int) or memory != 1 << bits or not 4 <= bits <= 30:
        raise ProgramError(f"riscv: the memory is a power of two, 16 … 2**30 bytes, not {memory!r}")

    def at(offset: int) -> Any:
        return word(32, position=counting(BASE - FIRST_BYTE - (HIDDEN if more else 0) + offset))

    hidden = HIDDEN if more else 0
    index = 6 if more else 5  # bits of a register's number
    passes = Passes(atomics, _CODES) if more else None

    class riscv(MemoryProgram):
        tokens = PROCESSOR_TOKEN + 1 + hidden
        positions = FIRST_BYTE + hidden + memory
        processor = cat(2, token=lambda t: t == PROCESSOR_TOKEN)
        register = cat(2, token=lambda t: REGISTER_TOKEN <= t < PROCESSOR_TOKEN or t >= HIDDEN_TOKEN)
        writable = cat(2, token=lambda t: REGISTER_TOKEN < t < PROCESSOR_TOKEN or t >= HIDDEN_TOKEN)  # not x0
        done = cat(2, token=lambda t: t != PROCESSOR_TOKEN)
        byte = word(8, token=lambda t: t if t < 256 else 0)
        value = word(32)  # of a register
        number = word(index, token=_number)
        address, address_less_1, address_less_2, address_less_3 = at(0), at(-1), at(-2), at(-3)
        address_plus_4 = at(4)

        # of the processor
        pc = word(32, token=lambda t: BASE if t == PROCESSOR_TOKEN else 0)
        following = word(32)  # the address of the next instruction in memory
        i0, i1, i2, i3 = word(8), word(8), word(8), word(8)  # the bytes of the instruction
        rd, rs1, rs2 = word(index), word(index), word(index)
        immediate = word(32)
        v1, v2, old = word(32), word(32), word(32)  # the registers rs1, rs2 and rd
        y = word(33)  # the second operand; bit 32: add one more, to subtract
        x = word(33)  # the first operand of a shift, reversed for shifts to the left; bit 32: what is shifted in
        x1 = word(32)  # shifted by 0 … 3 places
        low = word(17)  # the sum of the operands: 16 bits and a carry
        high = word(17)
        to_low = word(17)  # pc + immediate: 16 bits and a carry
        to_high = word(16)
        target = word(32)  # the address to load from or store to
        b0, b1, b2, b3 = word(8), word(8), word(8), word(8)  # the bytes to store
        l0, l1, l2, l3 = word(8), word(8), word(8), word(8)  # the bytes loaded
        o0, o1, o2, o3 = word(8), word(8), word(8), word(8)  # the bytes that a store replaces
        r = word(32)  # the result
        form = cat(6)
        operand = cat(DIVISOR + 1 if more else 5)
        op = cat(RESULTS if more else FIRST)
        jump = cat(9)
        access = cat(9)
        writes = cat(2)
        stores_1, stores_2, stores_4 = cat(2), cat(2), cat(2)  # stores at least this many bytes
        take = cat(2)
        device = cat(2)
        if more:
            phase, turn, extra = cat(4), word(5), word(EXTRA_BITS)
            q, before = word(33), word(33)  # the multiplier, dividend or quotient; and as it was
            family, flips, flip = cat(FAMILIES), cat(5), word(1)
            upper = word(17)  # the second operand of the upper half: 16 bits, and what inverts bit 32 of the sum
            negate, zero, reserved = cat(2), cat(2), cat(2)

        here = {processor: 1}
        store_0 = attend(address, target, b0, into=byte, replacing=o0, among={processor: 1, stores_1: 1})
        store_1 = attend(address_less_1, target, b1, into=byte, replacing=o1, among={processor: 1, stores_2: 1})
        store_2 = attend(address_less_2, target, b2, into=byte, replacing=o2, among={processor: 1, stores_4: 1})
        store_3 = attend(address_less_3, target, b3, into=byte, replacing=o3, among={processor: 1, stores_4: 1})
        write_back = attend(
            number, rd, r, into=value, replacing=old, where={writable: 1}, among={processor: 1, writes: 1}
        )
        fetch_0 = attend(pc, address, byte, into=i0, where=here)
        advance = attend(pc, address, address_plus_4, into=following, where=here)
        fetch_1 = attend(pc, address_less_1, byte, into=i1, where=here)
        fetch_2 = attend(pc, address_less_2, byte, into=i2, where=here)
        fetch_3 = attend(pc, address_less_3, byte, into=i3, where=here)
        read_1 = attend(rs1, number, value, into=v1, where=here, among={register: 1})
        read_2 = attend(rs2, number, value, into=v2, where=here, among={register: 1})
        read_old = attend(rd, number, value, into=old, where=here, among={register: 1})
        load_0 = attend(target, address, byte, into=l0, default=0, where=here)
        load_1 = attend(target, address_less_1, byte, into=l1, default=0, where=here)
        load_2 = attend(target, address_less_2, byte, into=l2, default=0, where=here)
        load_3 = attend(target, address_less_3, byte, into=l3, default=0, where=here)
        keep_0 = attend(target, address, byte, into=o0, default=0, where=here)
        keep_1 = attend(target, address_less_1, byte, into=o1, default=0, where=here)
        keep_2 = attend(target, address_less_2, byte, into=o2, default=0, where=here)
        keep_3 = attend(target, address_less_3, byte, into=o3, default=0, where=here)
        decoded = (form, operand, op, jump, access, writes, stores_1, stores_2, stores_4, rd, rs1, rs2, immediate)
        clear_decoded = clear(*decoded, *((family, flips) if more else ()), where=here)
        clear_operands = clear(y, x, x1, low, to_low, to_high, *((flip, upper) if more else ()), where=here)
        results = (high, target, b0, b1, b2, b3, r, take, device)
        clear_results = clear(*results, *((q, zero) if more else ()), where=here)
        clear_pc = clear(pc, where=here)
        more_results: tuple[Any, ...] = ()
        if more:
            keep_q = attend(number, number, q, into=before, where=here, among=here)
            more_results = (keep_q,)

        output = byte
        halt = {done: 1}

        @staticmethod
        def encode(image: str | Sequence[int]) -> list[int]:
            """Convert the first bytes of memory, a text or a list of whole numbers, to tokens."""
            listed = image.replace(",", " ").split() if isinstance(image, str) else list(image)
            try:
                values = [int(value) for value in listed]
            except (TypeError, ValueError):
                raise InputError("riscv: the memory image is not a list of bytes") from None
            if len(values) > memory:
                raise InputError(f"riscv: {len(values):,} bytes; this computer has {memory:,}")
            for place, value in enumerate(values):
                if not 0 <= value < 256:
                    raise InputError(f"riscv: {value} at address {BASE + place:#x} is not a byte")
            registers = (*range(REGISTER_TOKEN, PROCESSOR_TOKEN), *range(HIDDEN_TOKEN, HIDDEN_TOKEN + hidden))
            return [PROCESSOR_TOKEN, *registers, *[0] * DEVICES, *values, *[0] * (memory - len(values))]

        @staticmethod
        def decode(outputs: Sequence[int]) -> list[int]:
            """The bytes of memory at the end."""
            return list(outputs[FIRST_BYTE + hidden :])

        @layer(
            *(store_0, store_1, store_2, store_3, write_back),
            *(fetch_0, advance, fetch_1, fetch_2, fetch_3, clear_decoded),
        )
        def decode_fields(z) -> None:
            if z.processor:
                instruction = concat(z.i0, z.i1, z.i2, z.i3)
                z.form = FORMAT_OF[instruction[0:7]]
                if passes is None:
                    _decode(z, instruction)
                else:
                    passes.find_family(z, instruction)
                if _stopped(instruction, more, atomics):
                    z.done = 1

        @decode_fields.then
        def decode_immediate(z) -> None:
            if z.processor:
                instruction, zero = concat(z.i0, z.i1, z.i2, z.i3), BitWord(0, 1)
                high, sign = instruction[25:31], instruction[31]
                if z.form == U:
                    z.immediate = concat(BitWord(0, 12), instruction[12:32])
                elif z.form == I:
                    z.immediate = extend(instruction[20:32], 32)
                elif z.form == S:
                    z.immediate = extend(concat(instruction[7:12], high, sign), 32)
                elif z.form == B:
                    z.immediate = extend(concat(zero, instruction[8:12], high, instruction[7], sign), 32)
                elif z.form == J:
                    parts = (zero, instruction[21:25], high, instruction[20], instruction[12:20], sign)
                    z.immediate = extend(concat(*parts), 32)
                if passes is not None and z.family == 0:
                    _decode(z, instruction)
                elif passes is not None:
                    passes.decode(z, instruction)

        @layer(read_1, read_2, read_old, clear_operands)
        def choose_operands(z) -> None:
            if z.processor:
                z.to_low = z.pc[0:16] + z.immediate[0:16]
                if z.op == SLL:
                    z.x = z.v1[::-1]
                else:
                    z.x = concat(z.v1, z.v1[31]) if z.op == SRA else z.v1
                if z.operand == IMM:
                    z.y = z.immediate
                elif z.operand == REG:
                    z.y = z.v2
                elif z.operand == NOT_IMM:
                    z.y = concat(~z.immediate, BitWord(1, 1))
                elif z.operand == NOT_REG:
                    z.y = concat(~z.v2, BitWord(1, 1))
                elif more and z.operand == DIVISOR:
                    z.y = z.v2 if z.v2[31] else concat(~z.v2, BitWord(1, 1))
                if passes is not None:
                    passes.flip(z)

        @choose_operands.then
        def add_low_half(z) -> None:
            if z.processor:
                z.to_high = (z.pc[16:32] + z.immediate[16:32] + z.to_low[16]) % (1 << 16)
                z.low = z.v1[0:16] + z.y[0:16] + z.y[32]
                places = int(z.y[0:2])
                z.x1 = concat(z.x[places:32], *[z.x[32]] * places)
                if more:
                    z.upper = concat(z.y[16:32], z.flip)

        @layer(clear_results, *more_results)
        def add_high_half(z) -> None:
            if z.processor:
                if more:
                    z.high = (z.v1[16:32] + z.upper + z.low[16]) % (1 << 17)
                    if z.v2 == 0:
                        z.zero = 1
                else:
                    z.high = z.v1[16:32] + z.y[16:32] + z.low[16]

        @add_high_half.then
        def execute(z) -> None:
            if z.processor:
                total = concat(z.low[0:16], z.high[0:16])
                z.target = total
                z.b0, z.b1, z.b2, z.b3 = z.v2[0:8], z.v2[8:16], z.v2[16:24], z.v2[24:32]
                z.r = passes.result(z, total) if passes is not None and z.op >= FIRST else _result(z, total)
                z.take = _taken(z, total)
                if z.access != 0 and total[bits:32] != BASE >> bits:
                    z.device = 1
                if passes is not None and atomics:
                    passes.reserve(z, total)

        @layer(load_0, load_1, load_2, load_3, keep_0, keep_1, keep_2, keep_3, clear_pc)
        def finish(z) -> None:
            if z.processor:
                if z.take:
                    z.pc = concat(z.to_low[0:16], z.to_high)
                elif z.jump == JUMP_REGISTER:
                    z.pc = concat(BitWord(0, 1), z.low[1:16], z.high[0:16])
                else:
                    z.pc = z.following
                if z.access == LB:
                    z.r = extend(z.l0, 32)
                elif z.access == LBU:
                    z.r = z.l0
                elif z.access == LH:
                    z.r = extend(concat(z.l0, z.l1), 32)
                elif z.access == LHU:
                    z.r = concat(z.l0, z.l1)
                elif z.access == LW:
                    z.r = concat(z.l0, z.l1, z.l2, z.l3)
                if passes is not None:
                    passes.finish(z)

        cycle = (decode_immediate, add_low_half, execute, finish)

    return riscv


def _decode(z: Any, instruction: Any) -> None:
    """Find what an instruction of RV32I does."""
    kind = concat(instruction[0:7], instruction[12:15], instruction[30])
    z.operand = OPERAND_OF[kind]
    z.op = RESULT_OF[kind]
    z.jump = NEXT_OF[kind]
    z.access = ACCESS_OF[kind]
    z.writes = WRITES[instruction[0:7]]
    z.stores_1, z.stores_2, z.stores_4 = (stored[kind] for stored in STORES)
    z.rd, z.rs1, z.rs2 = instruction[7:12], instruction[15:20], instruction[20:25]


def _number(token: int) -> int:
    """The number of a register's token."""
    if token >= HIDDEN_TOKEN:
        return token - HIDDEN_TOKEN + REGISTERS
    return token - REGISTER_TOKEN if REGISTER_TOKEN <= token < PROCESSOR_TOKEN else 0


def _stopped(instruction: Any, more: bool, atomics: bool) -> Any:
    """Whether the computer halts at an instruction."""
    kind = concat(instruction[0:7], instruction[12:15], instruction[25], instruction[30])
    if atomics and instruction[0:7] == AMO:
        return ATOMIC_STOPS[concat(instruction[12:15], instruction[27:32])]
    return STOPS_M[kind] if more else STOPS[kind]


def _less(z: Any) -> Any:
    """Whether the first operand is less than the second, as signed numbers; y is inverted, and added with a carry."""
    return z.v1[31] + z.y[31] > z.high[16]


def _result(z: Any, total: Any) -> Any:
    """The result of the instruction, before loads."""
    if z.op == ADD:
        return total
    if z.op == AND:
        return z.v1 & z.y[0:32]
    if z.op == OR:
        return z.v1 | z.y[0:32]
    if z.op == XOR:
        return z.v1 ^ z.y[0:32]
    if z.op == SLL or z.op == SRL or z.op == SRA:
        places = 4 * int(z.y[2:5])
        shifted = concat(z.x1[places:32], *[z.x[32]] * places)
        return shifted[::-1] if z.op == SLL else shifted
    if z.op == SLT:
        return 1 if _less(z) else 0
    if z.op == SLTU:
        return ~z.high[16]
    if z.op == UPPER:
        return z.immediate
    if z.op == PC_UPPER:
        return concat(z.to_low[0:16], z.to_high)
    return z.following if z.op == LINK else 0


def _taken(z: Any, total: Any) -> Any:
    """Whether the next instruction is at pc + immediate."""
    if z.jump == BEQ:
        return total == 0
    if z.jump == BNE:
        return total != 0
    if z.jump == BLT:
        return _less(z)
    if z.jump == BGE:
        return z.v1[31] + z.y[31] <= z.high[16]
    if z.jump == BLTU:
        return z.high[16] == 0
    if z.jump == BGEU:
        return z.high[16] == 1
    return z.jump == JUMP


_CODES = SimpleNamespace(
    ADD=ADD, XOR=XOR, OR=OR, AND=AND, IMM=IMM, REG=REG, NOT_REG=NOT_REG, LW=LW, SW=SW, OP=OP, JUMP=JUMP, less=_less
)
