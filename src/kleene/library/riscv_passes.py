"""Multiplication, division (M) and atomic instructions (A): instructions that take several passes of the four layers.

While such an instruction runs, it jumps to itself (its immediate is 0), and every pass fetches and decodes the instruction again. A phase
says what the pass does. Two hidden registers, which no instruction can name, hold what one pass leaves for the next.

| phase | mul, mulh, mulhsu, mulhu | div, divu, rem, remu | an atomic instruction |
|---|---|---|---|
| START | q := rs1, held := 0 | q := size of rs1, shifted by one; held := its top bit | held := memory[rs1] |
| RUN | add rs2 where bit 0 of q is 1, shift (31 passes) | subtract rs2 where it fits, shift (31) | spare := held and rs2 |
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
AMO = 0b0101111  # the opcode of atomic instructions
DIVISOR = 5  # the second operand: rs2, inverted where it is not negative
# what becomes the result, after those of RV32I
FIRST = 13
BEGIN, BEGIN_UNSIGNED, BEGIN_SIGNED = range(FIRST, FIRST + 3)  # a product; a quotient of rs1, or of its size
ADD_SHIFT, ADD_SHIFT_SIGNED, SUBTRACT_SHIFT, LOW = range(FIRST + 3, FIRST + 7)
DIVIDE, QUOTIENT, QUOTIENT_SIGNED, REMAINDER = range(FIRST + 7, FIRST + 11)
SWAP, MIN, MAX, MINU, MAXU, CONDITIONAL = range(FIRST + 11, FIRST + 17)
RESULTS = FIRST + 17
EXTRA_BITS = 20  # of the number of passes that finish no instruction

MUL, MULH, MULHSU, MULHU, DIV, DIVU, REM, REMU = range(8)  # funct3
LOAD_RESERVED, STORE_CONDITIONAL = 0b00010, 0b00011  # bits 27 to 31
AMO_ADD, AMO_SWAP, AMO_XOR, AMO_OR, AMO_AND = 0b00000, 0b00001, 0b00100, 0b01000, 0b01100
AMO_MIN, AMO_MAX, AMO_MINU, AMO_MAXU = 0b10000, 0b10100, 0b11000, 0b11100
ATOMICS = {AMO_SWAP: SWAP, AMO_MIN: MIN, AMO_MAX: MAX, AMO_MINU: MINU, AMO_MAXU: MAXU}
EVERY_ATOMIC = {LOAD_RESERVED, STORE_CONDITIONAL, AMO_ADD, AMO_XOR, AMO_OR, AMO_AND, *ATOMICS}


def begin_of(f3: int) -> int:
    """What the first pass of a multiplication or division leaves."""
    return BEGIN if f3 < DIV else (BEGIN_SIGNED if f3 in (DIV, REM) else BEGIN_UNSIGNED)


def last_of(f3: int, bit: int) -> int:
    """What the 32nd pass leaves; `bit`: the top bit of the multiplier."""
    if f3 == MULHSU:
        return SUBTRACT_SHIFT if bit else ADD_SHIFT
    others = {MUL: LOW, MULH: ADD_SHIFT_SIGNED, MULHU: ADD_SHIFT, DIV: QUOTIENT_SIGNED, DIVU: QUOTIENT}
    return others.get(f3, REMAINDER)


def run_of(f3: int) -> int:
    """What the passes between leave."""
    return DIVIDE if f3 >= DIV else (ADD_SHIFT_SIGNED if f3 == MULH else ADD_SHIFT)


BEGINS, RUNS = table([begin_of(f3) for f3 in range(8)]), table([run_of(f3) for f3 in range(8)])
LASTS = table([last_of(k & 7, k >> 3) for k in range(16)])
ATOMIC_STOPS = table([int(k & 7 != 2 or k >> 3 not in EVERY_ATOMIC) for k in range(256)])


class Passes:
    """The decoding and the arithmetic of the passes, with or without atomic instructions.

    `codes` are the numbers that RV32I uses: of operands, results and accesses."""

    def __init__(self, atomics: bool, codes: Any) -> None:
        self.atomics, self.codes = atomics, codes
        found = {AMO_ADD: codes.ADD, AMO_XOR: codes.XOR, AMO_OR: codes.OR, AMO_AND: codes.AND, **ATOMICS}
        self.computes = table([found.get(k, 0) for k in range(32)])
        inverts = (AMO_MIN, AMO_MAX, AMO_MINU, AMO_MAXU)
        self.second = table([codes.NOT_REG if k in inverts else codes.REG for k in range(32)])
        self.adds = table([codes.REG if k & 1 else 0 for k in range(2)])
        self.subtracts = table([codes.NOT_REG if k & 1 else 0 for k in range(2)])
        self.divides = table([0, 0, 0, 0, DIVISOR, codes.NOT_REG, DIVISOR, codes.NOT_REG])

    def decode(self, z: Any, instruction: Any) -> None:
        """Change what an instruction of RV32I would be decoded to, in all passes of another one."""
        atomic = self.atomics and instruction[0:7] == AMO
        if z.phase == START:
            if atomic:
                self._start_atomic(z, instruction)
            elif instruction[0:7] == self.codes.OP and instruction[25]:
                z.stay, z.jump = 1, self.codes.JUMP
                z.op = BEGINS[instruction[12:15]]
                z.operand = self.codes.NOT_REG
                z.rd, z.rs1, z.rs2 = HELD, 0, instruction[15:20]
        elif z.phase == FINAL:
            z.op, z.writes = self.codes.ADD, 1
            z.operand = self.codes.NOT_REG if z.negate else self.codes.REG
            z.rs1, z.rs2 = 0, HELD
        else:
            z.stay, z.jump = 1, self.codes.JUMP
            if atomic:
                self._go_on_atomic(z, instruction)
            else:
                self._go_on(z, instruction)

    def _go_on(self, z: Any, instruction: Any) -> None:
        """One of the 32 steps of a multiplication or division."""
        f3, codes = instruction[12:15], self.codes
        z.rd, z.rs1 = HELD, HELD
        if z.phase == RUN:
            z.op = RUNS[f3]
        else:
            z.op = LASTS[concat(f3, z.q[0])]
        if f3[2]:
            z.operand = self.divides[f3]
        elif not z.q[0]:
            z.operand = 0
        elif z.phase == LAST and (f3 == MULH or f3 == MULHSU):
            z.operand = codes.NOT_REG
        else:
            z.operand = codes.REG

    def _start_atomic(self, z: Any, instruction: Any) -> None:
        """Load; or store, under a condition."""
        codes = self.codes
        z.atomic, z.operand, z.writes = 1, codes.IMM, 1
        if instruction[27:32] == STORE_CONDITIONAL:
            z.op, z.access = CONDITIONAL, codes.SW
            z.stores_1, z.stores_2, z.stores_4 = 1, 1, 1
        else:
            z.access = codes.LW
            if instruction[28]:
                z.reserves = 1
            else:
                z.stay, z.jump, z.rd = 1, codes.JUMP, HELD

    def _go_on_atomic(self, z: Any, instruction: Any) -> None:
        """Compute, and then store."""
        codes = self.codes
        if z.phase == RUN:
            z.rs1, z.rd, z.writes = HELD, SPARE, 1
            z.op, z.operand = self.computes[instruction[27:32]], self.second[instruction[27:32]]
        else:
            z.rs2, z.access, z.operand, z.writes = SPARE, codes.SW, codes.IMM, 0
            z.stores_1, z.stores_2, z.stores_4 = 1, 1, 1

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
        if z.op == DIVIDE or z.op == QUOTIENT or z.op == QUOTIENT_SIGNED or z.op == REMAINDER:
            return self._divide(z, total)
        return self._atomic(z, total) if self.atomics and z.op >= SWAP else self._multiply(z, total)

    def _divide(self, z: Any, total: Any) -> Any:
        """One bit of the quotient: whether the divisor fits; total is what is left, then."""
        if z.op == QUOTIENT_SIGNED:
            if z.v2[31]:
                z.negate = 1 - z.negate
            elif z.zero:
                z.negate = 0
        fits = z.before[32] | z.high[16]
        if z.op == QUOTIENT or z.op == QUOTIENT_SIGNED:
            return concat(fits, z.before[0:31])
        if fits:
            z.q = concat(BitWord(1, 1), z.before[0:31], total[31])
            return total if z.op == REMAINDER else concat(z.before[31], total[0:31])
        z.q = concat(BitWord(0, 1), z.before[0:31], z.v1[31])
        return z.v1 if z.op == REMAINDER else concat(z.before[31], z.v1[0:31])

    def _multiply(self, z: Any, total: Any) -> Any:
        """One bit of the product, which moves from the sum to q."""
        if z.op == LOW:
            return concat(z.before[1:32], total[0])
        z.q = concat(z.before[1:32], total[0])
        if z.op == ADD_SHIFT_SIGNED:
            return concat(total[1:32], BitWord(1, 1)) if self.codes.less(z) else total[1:32]
        return concat(total[1:32], ~z.high[16] if z.op == SUBTRACT_SHIFT else z.high[16])

    def _atomic(self, z: Any, total: Any) -> Any:
        """What an atomic instruction stores; or whether a conditional store fails."""
        if z.op == CONDITIONAL:
            if z.reserved:
                return 0
            z.stores_1, z.stores_2, z.stores_4 = 0, 0, 0
            return 1
        if z.op == MIN or z.op == MAX:
            first = self.codes.less(z) if z.op == MIN else not self.codes.less(z)
        elif z.op == MINU or z.op == MAXU:
            first = z.high[16] == (0 if z.op == MINU else 1)
        else:
            return z.v2
        return z.v1 if first else z.v2

    def finish(self, z: Any) -> None:
        """Choose the next phase, and count the passes that finish no instruction."""
        if z.phase == FINAL:
            z.phase, z.negate = START, 0
        elif z.stay:
            z.extra = (z.extra + 1) % (1 << EXTRA_BITS)
            if z.phase == START:
                z.phase = RUN
            elif z.phase == LAST:
                z.phase = FINAL
            elif self.atomics and z.i0[2]:
                z.phase = LAST
            elif z.turn == 30:
                z.phase, z.turn = LAST, 0
            else:
                z.turn = (z.turn + 1) % 32
