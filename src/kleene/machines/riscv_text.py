"""RV32IMA instructions as text."""

from __future__ import annotations

NAMES = (
    *("zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1"),
    *(f"a{k}" for k in range(8)),
    *(f"s{k}" for k in range(2, 12)),
    *("t3", "t4", "t5", "t6"),
)
ALU = ("add", "sll", "slt", "sltu", "xor", "srl", "or", "and")
BRANCHES = {0: "beq", 1: "bne", 4: "blt", 5: "bge", 6: "bltu", 7: "bgeu"}
LOADS = {0: "lb", 1: "lh", 2: "lw", 4: "lbu", 5: "lhu"}
STORES = {0: "sb", 1: "sh", 2: "sw"}
MULTIPLY = ("mul", "mulh", "mulhsu", "mulhu", "div", "divu", "rem", "remu")
ATOMIC = {
    **{0b00010: "lr.w", 0b00011: "sc.w", 0b00001: "amoswap.w", 0b00000: "amoadd.w", 0b00100: "amoxor.w"},
    **{0b01100: "amoand.w", 0b01000: "amoor.w", 0b10000: "amomin.w", 0b10100: "amomax.w"},
    **{0b11000: "amominu.w", 0b11100: "amomaxu.w"},
}
SYSTEM = {0x00000073: "ecall", 0x00100073: "ebreak", 0x30200073: "mret", 0x10500073: "wfi"}


def _signed(value: int, bits: int) -> int:
    return (value & (1 << bits) - 1 ^ 1 << bits - 1) - (1 << bits - 1)


def disassemble(instruction: int, pc: int = 0) -> str:
    """An instruction as text; a jump or branch names its target address.

    >>> disassemble(0x00500093), disassemble(0xFE000EE3, 0x80000010)
    ('addi ra, zero, 5', 'beq zero, zero, 0x8000000c')
    """
    i = instruction
    opcode, f3, f7 = i & 127, i >> 12 & 7, i >> 25
    rd, rs1, rs2 = NAMES[i >> 7 & 31], NAMES[i >> 15 & 31], NAMES[i >> 20 & 31]
    if i in SYSTEM:
        return SYSTEM[i]
    if opcode in (0b0110111, 0b0010111):
        return f"{'lui' if opcode & 32 else 'auipc'} {rd}, {i >> 12:#x}"
    if opcode in (0b1101111, 0b1100111, 0b1100011):
        return _jump(i, pc, rd, rs1, rs2)
    if opcode == 0b0000011 and f3 in LOADS:
        return f"{LOADS[f3]} {rd}, {_signed(i >> 20, 12)}({rs1})"
    if opcode == 0b0100011 and f3 in STORES:
        return f"{STORES[f3]} {rs2}, {_signed(f7 << 5 | i >> 7 & 31, 12)}({rs1})"
    if opcode in (0b0010011, 0b0110011):
        return _arithmetic(i, rd, rs1, rs2)
    if opcode == 0b0101111 and f3 == 2 and f7 >> 2 in ATOMIC:
        name, second = ATOMIC[f7 >> 2], "" if f7 >> 2 == 0b00010 else f"{rs2}, "
        return f"{name}{'.aq' * (f7 >> 1 & 1)}{'.rl' * (f7 & 1)} {rd}, {second}({rs1})"
    if opcode == 0b0001111:
        return "fence.i" if f3 == 1 else "fence"
    if opcode == 0b1110011 and f3 & 3:
        source = str(i >> 15 & 31) if f3 & 4 else rs1
        return f"csrr{'xwsc'[f3 & 3]}{'i' if f3 & 4 else ''} {rd}, {i >> 20:#x}, {source}"
    return f".word {i:#010x}"


def _jump(i: int, pc: int, rd: str, rs1: str, rs2: str) -> str:
    opcode, f3 = i & 127, i >> 12 & 7
    if opcode == 0b1101111:
        offset = _signed(i >> 31 << 20 | (i >> 12 & 255) << 12 | (i >> 20 & 1) << 11 | (i >> 21 & 1023) << 1, 21)
        return f"jal {rd}, {pc + offset & 0xFFFFFFFF:#x}"
    if opcode == 0b1100111 and f3 == 0:
        return f"jalr {rd}, {_signed(i >> 20, 12)}({rs1})"
    if opcode == 0b1100011 and f3 in BRANCHES:
        offset = _signed(i >> 31 << 12 | (i >> 7 & 1) << 11 | (i >> 25 & 63) << 5 | (i >> 8 & 15) << 1, 13)
        return f"{BRANCHES[f3]} {rs1}, {rs2}, {pc + offset & 0xFFFFFFFF:#x}"
    return f".word {i:#010x}"


def _arithmetic(i: int, rd: str, rs1: str, rs2: str) -> str:
    f3, f7 = i >> 12 & 7, i >> 25
    if i & 127 == 0b0110011:
        names = {0: ALU[f3], 1: MULTIPLY[f3], 32: {0: "sub", 5: "sra"}.get(f3)}
        return f"{names[f7]} {rd}, {rs1}, {rs2}" if names.get(f7) else f".word {i:#010x}"
    if f3 not in (1, 5):
        return f"{'sltiu' if f3 == 3 else ALU[f3] + 'i'} {rd}, {rs1}, {_signed(i >> 20, 12)}"
    name = "srai" if f7 & 32 and f3 == 5 else f"{ALU[f3]}i"
    return f"{name} {rd}, {rs1}, {i >> 20 & 31}" if f7 & ~32 == 0 else f".word {i:#010x}"
