"""A SUBLEQ computer on categorical values (the ALTA paper's D.3), with heads in parallel."""

from __future__ import annotations

from collections.abc import Sequence

from kleene.common.text import Text
from kleene.errors import InputError, ProgramError
from kleene.library.encoding import MemoryProgram
from kleene.machines.declarations import attend, cat, word

FETCH, EXECUTE, NEXT, DONE = range(4)


def read_memory(name: str, memory: str | Sequence[int], low: int, high: int) -> list[int]:
    """A memory image: a text of whole numbers or a list of them, each within low … high."""
    words = memory.replace(",", " ").split() if isinstance(memory, str) else list(memory)
    try:
        values = [int(value) for value in words]
    except ValueError:
        raise InputError(f"{name}: '{memory}' is not a list of whole numbers") from None
    for place, value in enumerate(values):
        if not low <= value <= high:
            raise InputError(f"{name}: the word {value} at address {place} is outside {low} … {high}")
    return values


def subleq(low: int = -16, high: int = 16, registers: int = 16) -> type[MemoryProgram]:
    """A computer with one memory of up to `registers` words low … high, self-modifying; three layers an instruction.

    An instruction `a b c` does mem[b] −= mem[a], wrapping round in low … high, then jumps to c if the result is 0 or
    less. The computer halts on a negative a or b, and on a jump to a negative c.
    """
    if low > -1 or high < registers - 1 or registers < 3:
        raise ProgramError(
            f"subleq: words {low} … {high} must hold −1 and every address 0 … {registers - 1}, and an instruction "
            "needs 3 registers"
        )
    size = high - low + 1
    zero = -low  # the index of the value 0

    class subleq(MemoryProgram):
        tokens = tuple(str(value) for value in range(low, high + 1))
        text = Text(names=tokens, join=" ")
        positions = registers
        mem = cat(size, token=lambda t: t)
        address = cat(size, position=lambda p: p + zero)
        address_less_1 = cat(size, position=lambda p: p - 1 + zero)
        address_less_2 = cat(size, position=lambda p: p - 2 + zero if p > 1 else size - 1)
        pc = cat(size, default=zero)
        at_a = cat(size)  # operands of the current instruction
        at_b = cat(size)
        goto = cat(size)
        jump = cat(2)
        state = cat(4, default=FETCH)
        a = attend(pc, address, mem)
        b = attend(pc, address_less_1, mem)
        c = attend(pc, address_less_2, mem)
        mem_a = attend(at_a, address, mem)
        mem_b = attend(at_b, address, mem)
        output = mem
        halt = {state: DONE}

        @staticmethod
        def encode(memory: str | Sequence[int]) -> list[int]:
            """A memory image as tokens; a text of whole numbers or a list of them."""
            return [value - low for value in read_memory("subleq", memory, low, high)]

        @staticmethod
        def decode(outputs: Sequence[int]) -> list[int]:
            """The memory at the end."""
            return [token + low for token in outputs]

        def step(z) -> None:
            if z.state == FETCH:
                z.at_a = z.a
                z.at_b = z.b
                z.goto = z.c
                z.state = DONE if z.a < zero or z.b < zero else EXECUTE
            elif z.state == EXECUTE:
                z.jump = (z.mem_b - z.mem_a + zero) % size <= zero
                if z.address == z.at_b:
                    z.mem = (z.mem - z.mem_a + zero) % size
                z.state = NEXT
            elif z.state == NEXT:
                if not z.jump:
                    z.pc = min(z.pc + 3, size - 1)
                    z.state = FETCH
                elif z.goto < zero:
                    z.state = DONE
                else:
                    z.pc = z.goto
                    z.state = FETCH

    return subleq


def subleq_words(bits: int = 8, registers: int = 64) -> type[MemoryProgram]:
    """The same computer on binary words in two's complement. Its hidden units are linear in the number of bits.

    It halts on an address a or b with its highest bit set, and on a jump to such a c.
    """
    size, half = 1 << bits, 1 << (bits - 1)
    if not 3 <= registers <= half:
        raise ProgramError(f"subleq_words: {bits} bits address 3 … {half} registers, not {registers}")

    class subleq_words(MemoryProgram):
        tokens = tuple(str((token + half) % size - half) for token in range(size))
        text = Text(names=tokens, join=" ")
        positions = registers
        mem = word(bits, token=lambda t: t)
        address = word(bits, position=lambda p: p)
        address_less_1 = word(bits, position=lambda p: (p - 1) % size)
        address_less_2 = word(bits, position=lambda p: (p - 2) % size)
        pc = word(bits)
        at_a = word(bits)
        at_b = word(bits)
        goto = word(bits)
        result = word(bits)
        state = cat(4, default=FETCH)
        a = attend(pc, address, mem)
        b = attend(pc, address_less_1, mem)
        c = attend(pc, address_less_2, mem)
        mem_a = attend(at_a, address, mem)
        mem_b = attend(at_b, address, mem)
        output = mem
        halt = {state: DONE}

        @staticmethod
        def encode(memory: str | Sequence[int]) -> list[int]:
            """A memory image as tokens; a text of whole numbers or a list of them."""
            return [value % size for value in read_memory("subleq_words", memory, -half, half - 1)]

        @staticmethod
        def decode(outputs: Sequence[int]) -> list[int]:
            """The memory at the end."""
            return [(token + half) % size - half for token in outputs]

        def step(z) -> None:
            if z.state == FETCH:
                z.at_a = z.a
                z.at_b = z.b
                z.goto = z.c
                z.state = DONE if z.a >= half or z.b >= half else EXECUTE
            elif z.state == EXECUTE:
                z.result = (z.mem_b - z.mem_a) % size
                if z.address == z.at_b:
                    z.mem = (z.mem - z.mem_a) % size
                z.state = NEXT
            elif z.state == NEXT:
                if z.result != 0 and z.result < half:
                    z.pc = (z.pc + 3) % size
                    z.state = FETCH
                elif z.goto >= half:
                    z.state = DONE
                else:
                    z.pc = z.goto
                    z.state = FETCH

    return subleq_words
