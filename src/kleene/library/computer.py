"""A SUBLEQ computer: binary words, one memory, self-modifying code, three layers for each instruction.

One token is the processor; every other token is a word of memory. The layers take turns: fetch the operands,
load what they point at and subtract, store the result. Only the processor and the word that is written change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from kleene.errors import InputError, ProgramError
from kleene.library.encoding import MemoryProgram
from kleene.machines.declarations import attend, cat, counting, layer, word


def computer(
    bits: int = 16,
    dialect: Literal["eforth", "alta"] = "eforth",
    input_adds: bool = False,
    checked: bool = False,
    layers: int = 3,
    words: int | None = None,
) -> type[MemoryProgram]:
    """A computer of 2**bits − 1 words of `bits` bits, two's complement.

    An instruction `a b c` does mem[b] −= mem[a], then jumps to c if the result is 0 or less. The computer halts when
    the program counter is negative. The processor itself is word −1, the port. An instruction that reads the port takes
    the input that stands there; one that writes it leaves mem[a] there. Neither subtracts nor jumps.

    - `dialect`: "eforth"; or "alta", which has no port and halts on a negative a or b.
    - `input_adds`: add input to mem[b] instead of replacing it. The input then stands at the port negated, and the
      instruction subtracts as usual.
    - `checked`: halt with `leaves` = 1 where a difference leaves the words −2**(bits − 1) … 2**(bits − 1) − 1, or an
      operand is below −1. Without it, words wrap round.
    - `layers`: 3 for each instruction, or 2: the result is stored while the next instruction is fetched. Where the
      instruction before writes a word of it, the processor takes the word from itself (dialect "eforth").
    - `words`: the bits of a word, where they are more than address the memory. A token still holds `bits` bits, with
      their sign; a driver puts larger words into memory.
    """
    if dialect not in ("eforth", "alta"):
        raise ProgramError(f"computer: unknown dialect {dialect!r}; choose 'eforth' or 'alta'")
    if not 3 <= bits <= 16:
        raise ProgramError(f"computer: words have 3 … 16 bits, not {bits}")
    if layers not in (2, 3) or (layers == 2 and (dialect != "eforth" or input_adds or checked)):
        raise ProgramError(f"computer: layers={layers!r}; 3, or 2 for the plain dialect 'eforth'")
    wide = bits if words is None else words
    if not isinstance(wide, int) or not bits <= wide <= 60:
        raise ProgramError(f"computer: words={words!r}; words have {bits} … 60 bits")
    size, half, port = 1 << wide, 1 << (wide - 1), (1 << wide) - 1
    count, sign = 1 << bits, 1 << (bits - 1)  # of words and tokens; the sign of a token
    has_port = dialect == "eforth"

    class computer(MemoryProgram):
        tokens = count
        positions = count
        processor = cat(2, position=lambda p: p == 0)
        done = cat(2, position=lambda p: p != 0)
        mem = word(wide, token=lambda t: (t - count) % size if t >= sign else t)
        address = word(wide, position=counting(-1))
        address_less_1 = word(wide, position=counting(-2))
        address_less_2 = word(wide, position=counting(-3))
        address_plus_3 = word(wide, position=counting(2))
        pc = word(wide)
        a = word(wide)
        b = word(wide)
        c = word(wide)
        mem_a = word(wide)
        mem_b = word(wide)  # later the result
        old = word(wide)  # the old mem[b]
        talks = cat(2)  # whether the instruction reads or writes the port
        jump = cat(2)
        if checked:
            leaves = cat(2)  # whether a difference is no word, or an operand no address
        if layers == 2:
            before = word(wide)  # the address that the instruction before writes
            started, ending = cat(2), cat(2)
            keep = attend(address, address, b, into=before, where={processor: 1})

        fetch_a = attend(pc, address, mem, into=a, where={processor: 1})
        advance = attend(pc, address, address_plus_3, into=pc, where={processor: 1})
        fetch_b = attend(pc, address_less_1, mem, into=b, where={processor: 1})
        fetch_c = attend(pc, address_less_2, mem, into=c, where={processor: 1})
        load_a = attend(a, address, mem, into=mem_a, where={processor: 1})
        load_b = attend(b, address, mem, into=mem_b, where={processor: 1})
        load_old = attend(b, address, mem, into=old, where={processor: 1})
        store_b = attend(address, b, mem_b, into=mem, replacing=old, among={processor: 1})

        output = mem
        halt = {done: 1}

        @staticmethod
        def encode(memory: str | Sequence[int]) -> list[int]:
            """Convert a memory image, a text or a list of whole numbers, to tokens. The processor comes first."""
            listed = memory.replace(",", " ").split() if isinstance(memory, str) else list(memory)
            try:
                values = [int(value) for value in listed]
            except ValueError:
                raise InputError("computer: the memory image is not a list of whole numbers") from None
            if len(values) >= count:
                raise InputError(f"computer: {len(values)} words; {bits} bits address {count - 1}")
            most = count if wide == bits else sign
            for place, value in enumerate(values):
                if not -sign <= value < most:
                    raise InputError(f"computer: the word {value} at address {place} is outside {-sign} … {most - 1}")
            return [0, *(value % count for value in values)]

        @staticmethod
        def decode(outputs: Sequence[int]) -> list[int]:
            """The memory at the end as signed numbers, without the port."""
            return [(value + half) % size - half for value in outputs[1:]]

        @staticmethod
        def sample(chance: Any, length: int) -> list[int]:
            """A random program without loops, and its data. From 5 tokens on, it halts."""
            reach = min(length, count if wide == bits else sign)  # tokens from `sign` on are negative words
            instructions = max(0, (reach - 5) // 4)
            data = 3 * instructions + 3
            operands = range(data, max(data + 1, reach - 1))
            code = [(chance.choice(operands), chance.choice(operands), 3 * k + 3) for k in range(instructions)]
            image = [word for one in [*code, (data, data, -1)] for word in one][: length - 1]
            image += [chance.randrange(count) for _ in range(length - 1 - len(image))]
            return [0, *(word % count for word in image)]

        @layer(fetch_a, advance, fetch_b, fetch_c)
        def fetch(z) -> None:
            if z.processor:
                if has_port:
                    z.talks = z.a == port or z.b == port
                    if checked and (half <= z.a < port or half <= z.b < port):  # no address
                        z.leaves = 1
                        z.done = 1
                elif z.a >= half or z.b >= half:
                    z.done = 1

        @layer(load_a, load_b, load_old)
        def load(z) -> None:
            if z.processor:
                difference = z.mem_b - z.mem_a
                z.jump = 0 if z.talks else difference >= half or -half <= difference <= 0
                if checked and not z.talks:  # operands of different signs, and a difference of the wrong sign
                    below = z.mem_b >= half and z.mem_a < half and difference < half
                    if below or (z.mem_b < half and z.mem_a >= half and difference >= -half):
                        z.leaves = 1
                        z.done = 1
                if z.b == port if input_adds else z.talks:
                    z.mem_b = z.mem_a
                else:
                    z.mem_b = difference % size

        @layer(store_b)
        def store(z) -> None:
            if z.processor:
                if z.jump:
                    z.pc = z.c
                if z.pc >= half:
                    z.done = 1

        @layer(store_b, *([keep] if layers == 2 else []), fetch_a, advance, fetch_b, fetch_c)
        def store_and_fetch(z) -> None:
            if z.processor:
                if z.ending:
                    z.done = 1
                ahead = z.before - z.pc  # pc is already at the next instruction
                if z.started and ahead == -3:
                    z.a = z.mem_b
                    z.talks = z.mem_b == port or z.b == port
                elif z.started and ahead == -2:
                    z.b = z.mem_b
                    z.talks = z.a == port or z.mem_b == port
                else:
                    if z.started and ahead == -1:
                        z.c = z.mem_b
                    z.talks = z.a == port or z.b == port
                z.started = 1

        @layer(load_a, load_b, load_old)
        def load_and_jump(z) -> None:
            if z.processor:
                difference = z.mem_b - z.mem_a
                if not z.talks and (difference >= half or -half <= difference <= 0):
                    z.pc = z.c
                    z.ending = z.c >= half
                else:
                    z.ending = z.pc >= half
                if z.talks:
                    z.mem_b = z.mem_a
                else:
                    z.mem_b = difference % size

        cycle = (fetch, load, store) if layers == 3 else (store_and_fetch, load_and_jump)

    return computer
