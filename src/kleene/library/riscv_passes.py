"""Multiplication, division (M) and atomic instructions (A): instructions that take several passes of the four layers.

While such an instruction runs, it jumps to itself (its immediate is 0), and every pass fetches and decodes it again. A
phase says what the pass does. Two hidden registers, which no instruction can name, hold what one pass leaves for the
next.

| phase | mul, mulh, mulhsu, mulhu | div, divu, rem, remu | an atomic instruction |
|---|---|---|---|
| START | q := rs1, held := 0 | q := size of rs1, shifted by 1; held := its top bit | held := memory[rs1] |
| RUN | add rs2 where bit 0 of q is 1, shift; 31 times | subtract rs2 where it fits, shift; 31 times | spare := new |
| LAST | the 32nd; held := the half asked for | the 32nd; held := quotient or remainder | memory[rs1] := spare |
| FINAL | rd := held | rd := held or −held | rd := held |

A signed product reads the top bit of rs1 as −2^31: the last pass subtracts. Division works on sizes. The sizes of all
operands fit: −2^31 has the size 2^31, and a divisor of 0 always fits, so the quotient is 2^32 − 1 and the remainder
rs1, as the specification wants.

lr.w reserves all of memory, so sc.w stores wherever lr.w and no other sc.w came before it. The specification leaves the
size of what is reserved to the machine.
"""

from __future__ import annotations

from typing import Any

from kleene.lowering.symbolic import table
from kleene.lowering.words import concat
from kleene.machines.bitwords import BitWord

START, RUN, LAST, FINAL = range(4)
HELD, SPARE, HIDDEN = 32, 33, 2  # the hidden registers
EXTRA_BITS = 20  # of the number of passes that finish no instruction
PRODUCT, DIVISION, ATOMIC, RESERVING, STORING = range(1, 6)  # families of instructions; the last two take one pass
FAMILIES = 6
DIVISOR = 5  # the second operand: rs2, inverted where it is not negative
SIGNED, UNSIGNED, ALWAYS, TOP = range(1, 5)  # when to invert bit 32 of the sum of the operands
# what becomes the result, after those of RV32I
FIRST = 13
BEGIN, BEGIN_UNSIGNED, BEGIN_SIGNED, STEP, LOW = range(FIRST, FIRST + 5)
DIVIDE, QUOTIENT, QUOTIENT_SIGNED, REMAINDER, SWAP, SELECT, CONDITIONAL = range(FIRST + 5, FIRST + 12)
RESULTS = FIRST + 12

OP, AMO = 0b0110011, 0b0101111  # opcodes
MUL, MULH, MULHSU, MULHU, DIV, DIVU, REM, REMU = range(8)  # funct3
LOAD_RESERVED, STORE_CONDITIONAL = 0b00010, 0b00011  # bits 27 to 31
AMO_ADD, AMO_SWAP, AMO_XOR, AMO_OR, AMO_AND = 0b00000, 0b00001, 0b00100, 0b01000, 0b01100
AMO_MIN, AMO_MAX, AMO_MINU, AMO_MAXU = 0b10000, 0b10100, 0b11000, 0b11100
# an atomic instruction takes what it read if bit 32 of the difference is 1: which is inverted so that this is right
CHOICES = {AMO_MIN: SIGNED, AMO_MAX: UNSIGNED, AMO_MINU: ALWAYS, AMO_MAXU: 0}
EVERY_ATOMIC = {LOAD_RESERVED, STORE_CONDITIONAL, AMO_ADD, AMO_SWAP, AMO_XOR, AMO_OR, AMO_AND, *CHOICES}


def multiplies(opcode: int, bit25: int, bit30: int) -> bool:
    """Whether an instruction is a multiplication or division (M)."""
    return opcode == OP and bool(bit25) and not bit30


def _family_of_m(opcode: int, top_f3: int, bit25: int, bit30: int) -> int:
    return (DIVISION if top_f3 else PRODUCT) if multiplies(opcode, bit25, bit30) else 0


FAMILY_OF_M = table([_family_of_m(k & 127, k >> 7 & 1, k >> 8 & 1, k >> 9) for k in range(1 << 10)])
FAMILY_OF_A = table([{LOAD_RESERVED: RESERVING, STORE_CONDITIONAL: STORING}.get(k, ATOMIC) for k in range(32)])
ATOMIC_STOPS = table([int(k & 7 != 2 or k >> 3 not in EVERY_ATOMIC) for k in range(256)])
FLIPS = table([CHOICES.get(k, 0) for k in range(32)])


class Passes:
    """The decoding and the arithmetic of the passes, with or without atomic instructions.

    `codes` are the numbers that RV32I uses: of operands, results and accesses."""

    def __init__(self, atomics: bool, codes: Any) -> None:
        self.atomics, self.codes = atomics, codes
        found = {AMO_ADD: codes.ADD, AMO_XOR: codes.XOR, AMO_OR: codes.OR, AMO_AND: codes.AND, AMO_SWAP: SWAP}
        self.computes = table([found.get(k, SELECT if k in CHOICES else 0) for k in range(32)])
        self.second = table([codes.NOT_REG if k in CHOICES else codes.REG for k in range(32)])

    def find_family(self, z: Any, instruction: Any) -> None:
        """The family of an instruction; the first half of decoding."""
        if self.atomics and instruction[0:7] == AMO:
            z.family = FAMILY_OF_A[instruction[27:32]]
        else:
            z.family = FAMILY_OF_M[concat(instruction[0:7], instruction[14], instruction[25], instruction[30])]

    def decode(self, z: Any, instruction: Any) -> None:
        """Find what this pass of an instruction that RV32I does not have does; the second half of decoding."""
        codes = self.codes
        rd, rs1, rs2 = instruction[7:12], instruction[15:20], instruction[20:25]
        if self.atomics and (z.family == RESERVING or z.family == STORING):
            self._decode_single(z, rd, rs1, rs2)
        elif z.phase == FINAL:
            z.rd, z.rs1, z.rs2 = rd, 0, HELD
            z.op, z.writes = codes.ADD, 1
            z.operand = codes.NOT_REG if z.negate else codes.REG
        else:
            z.jump = codes.JUMP
            if self.atomics and z.family == ATOMIC:
                self._decode_atomic(z, instruction)
            elif z.phase == START:
                z.rd, z.rs1, z.rs2, z.writes = HELD, 0, rs1, 1
                z.operand = codes.NOT_REG
                z.op = BEGIN if z.family == PRODUCT else (BEGIN_UNSIGNED if instruction[12] else BEGIN_SIGNED)
            else:
                z.rd, z.rs1, z.rs2, z.writes = HELD, HELD, rs2, 1
                if z.family == PRODUCT:
                    self._decode_product(z, instruction[12:14])
                else:
                    self._decode_division(z, instruction[12:14])

    def _decode_single(self, z: Any, rd: Any, rs1: Any, rs2: Any) -> None:
        """Load and reserve; or store, under a condition."""
        codes = self.codes
        z.rd, z.rs1, z.rs2 = rd, rs1, rs2
        z.operand, z.writes = codes.IMM, 1
        if z.family == RESERVING:
            z.access = codes.LW
        else:
            z.access, z.op = codes.SW, CONDITIONAL
            z.stores_1, z.stores_2, z.stores_4 = 1, 1, 1

    def _decode_atomic(self, z: Any, instruction: Any) -> None:
        """Load, compute, and store."""
        codes, kind = self.codes, instruction[27:32]
        if z.phase == START:
            z.rd, z.rs1, z.writes = HELD, instruction[15:20], 1
            z.access, z.operand = codes.LW, codes.IMM
        elif z.phase == RUN:
            z.rd, z.rs1, z.rs2, z.writes = SPARE, HELD, instruction[20:25], 1
            z.op, z.operand, z.flips = self.computes[kind], self.second[kind], FLIPS[kind]
        else:
            z.rs1, z.rs2 = instruction[15:20], SPARE
            z.access, z.operand = codes.SW, codes.IMM
            z.stores_1, z.stores_2, z.stores_4 = 1, 1, 1

    def _decode_product(self, z: Any, f3: Any) -> None:
        """Add rs2 where bit 0 of q is 1; the last pass of a signed product subtracts."""
        subtracts = z.phase == LAST and f3[0] != f3[1]  # mulh, mulhsu
        z.op = LOW if z.phase == LAST and f3 == MUL else STEP
        if z.q[0]:
            z.operand = self.codes.NOT_REG if subtracts else self.codes.REG
        if f3 == MULH:
            z.flips = SIGNED
        elif f3 == MULHSU and z.phase == LAST and z.q[0]:
            z.flips = ALWAYS

    def _decode_division(self, z: Any, f3: Any) -> None:
        """Subtract the size of rs2 where it fits."""
        z.operand = self.codes.NOT_REG if f3[0] else DIVISOR
        z.flips = TOP
        if z.phase == RUN:
            z.op = DIVIDE
        elif f3[1]:
            z.op = REMAINDER
        else:
            z.op = QUOTIENT if f3[0] else QUOTIENT_SIGNED

    def flip(self, z: Any) -> None:
        """Whether to invert bit 32 of the sum of the operands.

        It becomes the sign of a sum or difference of signed numbers; or, since a remainder that has a bit 32 is larger
        than the divisor, and its lower bits are not, whether the divisor fits."""
        if z.flips == SIGNED:
            if z.operand == self.codes.REG:
                z.flip = z.v1[31] ^ z.v2[31]
            elif z.operand == self.codes.NOT_REG:
                z.flip = ~(z.v1[31] ^ z.v2[31])
            else:
                z.flip = z.v1[31]  # nothing is added
        elif z.flips == UNSIGNED:
            z.flip = z.v1[31] ^ z.v2[31]
        elif z.flips == ALWAYS:
            z.flip = 1
        elif z.flips == TOP:
            z.flip = z.q[32]

    def result(self, z: Any, total: Any) -> Any:
        """The result of a pass that RV32I does not have; also the next q, and whether a division ends in −held."""
        if z.op == BEGIN:
            z.q = z.v2
            return 0
        if z.op == BEGIN_SIGNED and z.v2[31]:
            z.negate = 1
            z.q = concat(BitWord(0, 1), total[0:31])  # 0 − rs1
            return total[31]
        if z.op == BEGIN_UNSIGNED or z.op == BEGIN_SIGNED:
            z.q = concat(BitWord(0, 1), z.v2[0:31])
            return z.v2[31]
        if z.op == STEP:
            z.q = concat(z.before[1:32], total[0])
            return concat(total[1:32], z.high[16])
        if z.op == LOW:
            return concat(z.before[1:32], total[0])
        if z.op == DIVIDE:
            left = total if z.high[16] else z.v1
            z.q = concat(z.high[16], z.before[0:31], left[31])
            return concat(z.before[31], left[0:31])
        if z.op == REMAINDER:
            return total if z.high[16] else z.v1
        if z.op == SWAP:
            return z.v2
        if z.op == SELECT:
            return z.v1 if z.high[16] else z.v2
        if z.op == CONDITIONAL:
            return 0 if z.reserved else 1
        if z.op == QUOTIENT_SIGNED:
            if z.v2[31]:
                z.negate = 1 - z.negate
            elif z.zero:
                z.negate = 0
        return concat(z.high[16], z.before[0:31])

    def reserve(self, z: Any, total: Any) -> None:
        """Let lr.w reserve memory; drop what sc.w may not store; refuse addresses that are no multiples of four."""
        if z.op == CONDITIONAL:
            if not z.reserved:
                z.stores_1, z.stores_2, z.stores_4 = 0, 0, 0
            z.reserved = 0
        if z.family == RESERVING:
            z.reserved = 1
        if z.family >= ATOMIC and z.access != 0 and total[0:2] != 0:
            z.device = 1

    def finish(self, z: Any) -> None:
        """Choose the next phase, and count the passes that finish no instruction."""
        if z.phase == FINAL:
            z.phase, z.negate = START, 0
        elif z.family == PRODUCT or z.family == DIVISION or (self.atomics and z.family == ATOMIC):
            z.extra = (z.extra + 1) % (1 << EXTRA_BITS)
            if z.phase == START:
                z.phase = RUN
            elif z.phase == LAST:
                z.phase = FINAL
            elif self.atomics and z.family == ATOMIC:
                z.phase = LAST
            elif z.turn == 30:
                z.phase, z.turn = LAST, 0
            else:
                z.turn = (z.turn + 1) % 32
