"""RV32I, with M and A where asked for, as one function that Numba compiles: the inside of the reference machine."""

from __future__ import annotations

import numpy as np
from numba import njit

from kleene.machines.riscv import BASE

RAN, STOPPED, DEVICE, FETCH_FAULT = range(4)
LUI, AUIPC, JAL, JALR, BRANCH = 0b0110111, 0b0010111, 0b1101111, 0b1100111, 0b1100011
LOAD, STORE, OP_IMM, OP, FENCE = 0b0000011, 0b0100011, 0b0010011, 0b0110011, 0b0001111
AMO, LOAD_RESERVED, STORE_CONDITIONAL = 0b0101111, 0b00010, 0b00011
RESERVED = 33  # the place of `values` that says whether memory is reserved


@njit(cache=True, nogil=True, inline="always")
def _byte(cells, size, address):  # type: ignore[no-untyped-def]
    """A byte of memory or of a device; zero elsewhere."""
    place = np.int64(address) - np.int64(BASE - 16)
    return np.uint32(cells[place]) if 0 <= place < size + 16 else np.uint32(0)


@njit(cache=True, nogil=True, inline="always")
def _compute(f3, other, a, b):  # type: ignore[no-untyped-def]
    """The result of an arithmetic instruction; `other` chooses subtraction and the arithmetic shift."""
    shift = b & np.uint32(31)
    if f3 == 0:
        return a - b if other else a + b
    if f3 == 1:
        return a << shift
    if f3 == 2:
        return np.uint32(np.int32(a) < np.int32(b))
    if f3 == 3:
        return np.uint32(a < b)
    if f3 == 4:
        return a ^ b
    if f3 == 5:
        return np.uint32(np.int32(a) >> np.int32(shift)) if other else a >> shift
    return a | b if f3 == 6 else a & b


@njit(cache=True, nogil=True, inline="always")
def _multiply(f3, a, b):  # type: ignore[no-untyped-def]
    """The result of a multiplication or division."""
    x, y = np.int64(np.int32(a)), np.int64(np.int32(b))
    if f3 == 0:
        return np.uint32(a * b)
    if f3 == 1:
        return np.uint32((x * y) >> np.int64(32))
    if f3 == 2:
        return np.uint32((x * np.int64(b)) >> np.int64(32))
    if f3 == 3:
        return np.uint32((np.uint64(a) * np.uint64(b)) >> np.uint64(32))
    if b == 0:
        return np.uint32(0xFFFFFFFF) if f3 < 6 else np.uint32(a)
    if f3 == 5:
        return np.uint32(np.uint64(a) // np.uint64(b))
    if f3 == 7:
        return np.uint32(np.uint64(a) % np.uint64(b))
    quotient = abs(x) // abs(y)  # towards zero
    if (x < 0) != (y < 0):
        quotient = -quotient
    return np.uint32(quotient) if f3 == 4 else np.uint32(x - quotient * y)


@njit(cache=True, nogil=True, inline="always")
def _in_m(opcode, bit25, bit30):  # type: ignore[no-untyped-def]
    """Whether an instruction is a multiplication or division."""
    return opcode == OP and bit25 == 1 and bit30 == 0


@njit(cache=True, nogil=True, inline="always")
def _in_a(f3, kind):  # type: ignore[no-untyped-def]
    """Whether an instruction with the opcode AMO is known."""
    return f3 == 2 and (kind < 5 or (kind & 3 == 0))


@njit(cache=True, nogil=True, inline="always")
def _combine(kind, a, b):  # type: ignore[no-untyped-def]
    """What an atomic instruction stores: a was in memory, b is in a register."""
    if kind == 0:
        return np.uint32(a + b)
    if kind == 1:
        return b
    if kind == 4:
        return a ^ b
    if kind == 8:
        return a | b
    if kind == 12:
        return a & b
    less = np.int32(a) < np.int32(b) if kind < 24 else a < b
    return a if less == (kind & 4 == 0) else b


@njit(cache=True, nogil=True, inline="always")
def _branches(f3, a, b):  # type: ignore[no-untyped-def]
    if f3 < 2:
        return (a == b) != (f3 == 1)
    if f3 < 6:
        return (np.int32(a) < np.int32(b)) != (f3 == 5)
    return (a < b) != (f3 == 7)


@njit(cache=True, nogil=True, inline="always")
def _bits(i, low, count):  # type: ignore[no-untyped-def]
    """Some bits of an instruction."""
    return (np.uint32(i) >> np.uint32(low)) & np.uint32((1 << count) - 1)


@njit(cache=True, nogil=True, inline="always")
def _signed(value, bits):  # type: ignore[no-untyped-def]
    """Extend the sign of a number of `bits` bits to 32 bits."""
    shift = np.int32(32 - bits)
    return np.uint32(np.int32(np.uint32(value) << np.uint32(shift)) >> shift)


@njit(cache=True, nogil=True, inline="always")
def _in_rv32i(opcode, f3, bit25, bit30):  # type: ignore[no-untyped-def]
    """Whether the processor executes an instruction without its environment."""
    if opcode == OP:
        return not bit25 and (not bit30 or f3 == 0 or f3 == 5)
    if opcode == OP_IMM:
        return (f3 != 1 and f3 != 5) or (not bit25 and (f3 == 5 or not bit30))
    if opcode == LOAD:
        return f3 != 3 and f3 < 6
    if opcode == STORE:
        return f3 < 3
    if opcode == BRANCH:
        return f3 != 2 and f3 != 3
    if opcode == JALR:
        return f3 == 0
    return opcode in (LUI, AUIPC, JAL, FENCE)


@njit(cache=True, nogil=True, inline="always")
def _offset(i, opcode):  # type: ignore[no-untyped-def]
    """The immediate of an instruction."""
    if opcode == STORE:
        return _signed(_bits(i, 25, 7) << np.uint32(5) | _bits(i, 7, 5), 12)
    if opcode == BRANCH:
        high = _bits(i, 31, 1) << np.uint32(12) | _bits(i, 7, 1) << np.uint32(11)
        return _signed(high | _bits(i, 25, 6) << np.uint32(5) | _bits(i, 8, 4) << np.uint32(1), 13)
    if opcode == JAL:
        high = _bits(i, 31, 1) << np.uint32(20) | _bits(i, 12, 8) << np.uint32(12)
        return _signed(high | _bits(i, 20, 1) << np.uint32(11) | _bits(i, 21, 10) << np.uint32(1), 21)
    if opcode in (LUI, AUIPC):
        return np.uint32(i) & np.uint32(0xFFFFF000)
    return _signed(_bits(i, 20, 12), 12)


@njit(cache=True, nogil=True, inline="always")
def _load(cells, size, address, f3):  # type: ignore[no-untyped-def]
    count, result = 1 << np.int64(f3 & np.uint32(3)), np.uint32(0)
    for k in range(count):
        result |= _byte(cells, size, np.uint32(address + np.uint32(k))) << np.uint32(8 * k)
    return _signed(result, 8 * count) if f3 < 2 else np.uint32(result)


@njit(cache=True, nogil=True, inline="always")
def _store(cells, size, address, f3, value):  # type: ignore[no-untyped-def]
    for k in range(1 << np.int64(f3)):
        at = np.int64(np.uint32(address + np.uint32(k))) - (BASE - 16)
        if 0 <= at < size + 16:
            cells[at] = np.uint8((value >> np.uint32(8 * k)) & np.uint32(255))


@njit(cache=True, nogil=True, inline="always")
def _result(opcode, f3, bit30, a, b, pc, offset):  # type: ignore[no-untyped-def]
    """Return what an instruction other than a load writes into its register."""
    if opcode == OP:
        return np.uint32(_compute(f3, bit30, a, b))
    if opcode == OP_IMM:
        return np.uint32(_compute(f3, bit30 if f3 == 5 else np.uint32(0), a, offset))
    if opcode == LUI:
        return np.uint32(offset)
    return np.uint32(pc + (offset if opcode == AUIPC else np.uint32(4)))


@njit(cache=True, nogil=True, inline="always")
def _fetch(cells, place):  # type: ignore[no-untyped-def]
    """The instruction at a place of memory."""
    i = np.uint32(0)
    for k in range(4):
        i |= np.uint32(cells[16 + place + k]) << np.uint32(8 * k)
    return i


@njit(cache=True, nogil=True, inline="always")
def _following(opcode, f3, a, b, pc, offset):  # type: ignore[no-untyped-def]
    """The address of the instruction after a branch, a jump or an arithmetic instruction."""
    if opcode == JAL or (opcode == BRANCH and _branches(f3, a, b)):
        return np.uint32(pc + offset)
    if opcode == JALR:
        return np.uint32((a + offset) & np.uint32(0xFFFFFFFE))
    return np.uint32(pc + np.uint32(4))


@njit(cache=True, nogil=True)
def _atomic(cells, values, size, i):  # type: ignore[no-untyped-def]
    """Run an atomic instruction; its address is in memory, and a multiple of four."""
    kind, rd, address, b = _bits(i, 27, 5), _bits(i, 7, 5), values[_bits(i, 15, 5)], values[_bits(i, 20, 5)]
    if kind == STORE_CONDITIONAL:
        result = np.uint32(1)
        if values[RESERVED]:
            _store(cells, size, address, np.uint32(2), b)
            result = np.uint32(0)
        values[RESERVED] = 0
    else:
        result = _load(cells, size, address, np.uint32(2))
        if kind == LOAD_RESERVED:
            values[RESERVED] = 1
        else:
            _store(cells, size, address, np.uint32(2), _combine(kind, result, b))
    if rd:
        values[rd] = result


@njit(cache=True, nogil=True)
def run(cells, values, size, most, beyond, multiplies=False, atomics=False):  # type: ignore[no-untyped-def]
    """Run instructions; return how many ran, and why the run stopped. `beyond`: a load or store may go outside memory.

    Numba adds in 64 bits, so results are cut to 32."""
    for done in range(most):
        pc = values[32]
        place = np.int64(pc) - BASE
        if not 0 <= place <= size - 4:
            return done, FETCH_FAULT
        i = _fetch(cells, place)
        opcode, f3, rd = _bits(i, 0, 7), _bits(i, 12, 3), _bits(i, 7, 5)
        bit30 = _bits(i, 30, 1)
        if multiplies and _in_m(opcode, _bits(i, 25, 1), bit30):
            if rd:
                values[rd] = _multiply(f3, values[_bits(i, 15, 5)], values[_bits(i, 20, 5)])
            values[32] = np.uint32(pc + np.uint32(4))
            continue
        if opcode == AMO and atomics and _in_a(f3, _bits(i, 27, 5)):
            address = values[_bits(i, 15, 5)]
            if address & np.uint32(3) or not 0 <= np.int64(address) - BASE < size:
                return done, DEVICE
            _atomic(cells, values, size, i)
            values[32] = np.uint32(pc + np.uint32(4))
            continue
        if not _in_rv32i(opcode, f3, _bits(i, 25, 1), bit30):
            return done, STOPPED
        a, b, offset = values[_bits(i, 15, 5)], values[_bits(i, 20, 5)], _offset(i, opcode)
        if opcode in (LOAD, STORE):
            address = np.uint32(a + offset)
            if not beyond and not 0 <= np.int64(address) - BASE < size:
                return done, DEVICE
            if opcode == STORE:
                _store(cells, size, address, f3, b)
            elif rd:
                values[rd] = _load(cells, size, address, f3)
            values[32] = np.uint32(pc + np.uint32(4))
            continue
        if rd and opcode != BRANCH and opcode != FENCE:
            values[rd] = _result(opcode, f3, bit30, a, b, pc, offset)
        values[32] = _following(opcode, f3, a, b, pc, offset)
    return most, RAN
