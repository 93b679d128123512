"""Every instruction of RV32I, M and A from random states: the transformer's lanes against the reference machine.

As a script it runs as many states as it is told, and prints the count of each instruction; the third argument chooses
the computer, and "rv32ima" tries the instructions of M and A:

    PYTHONPATH=src:tests python tests/drivers/test_riscv_fuzz.py 1000000 0 rv32ima
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter

import numpy as np
import pytest

from kleene.drivers.riscv import LAYERS, TransformerComputer
from kleene.drivers.subleq import quickest
from kleene.library.riscv import FIRST_REGISTER
from kleene.machines.elf import Executable
from kleene.machines.riscv import BASE, ReferenceMachine
from kleene.machines.riscv_kernel import RESERVED
from kleene.machines.riscv_kernel import run as reference_run

MEMORY = 1 << 8
EDGES = (0, 1, 2, 31, 32, 0x7FF, 0x800, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF)
ALU = {"add": 0, "sll": 1, "slt": 2, "sltu": 3, "xor": 4, "srl": 5, "or": 6, "and": 7}
IMMEDIATE = {"addi": 0, "slti": 2, "sltiu": 3, "xori": 4, "ori": 6, "andi": 7}
BRANCHES = {"beq": 0, "bne": 1, "blt": 4, "bge": 5, "bltu": 6, "bgeu": 7}
LOADS = {"lb": 0, "lh": 1, "lw": 2, "lbu": 4, "lhu": 5}
STORES = {"sb": 0, "sh": 1, "sw": 2}
NAMES = (
    *("lui", "auipc", "jal", "jalr", "fence", "sub", "sra", "slli", "srli", "srai"),
    *(*ALU, *IMMEDIATE, *BRANCHES, *LOADS, *STORES),
)
MULTIPLY = {"mul": 0, "mulh": 1, "mulhsu": 2, "mulhu": 3, "div": 4, "divu": 5, "rem": 6, "remu": 7}
ATOMIC = {
    **{"lr": 2, "sc": 3, "swap": 1, "amoadd": 0, "amoxor": 4, "amoand": 12, "amoor": 8},
    **{"min": 16, "max": 20, "minu": 24, "maxu": 28},
}
PASSES = {**dict.fromkeys(MULTIPLY, 34), **dict.fromkeys(ATOMIC, 4), "lr": 1, "sc": 1}
TRIED = {"rv32i": NAMES, "rv32im": tuple(MULTIPLY), "rv32ima": (*MULTIPLY, *ATOMIC)}


def instruction(name: str, chance: random.Random) -> int:
    """An instruction with random fields."""
    rd, rs1, rs2, any12, any20 = (chance.randrange(n) for n in (32, 32, 32, 1 << 12, 1 << 20))
    registers = rs2 << 20 | rs1 << 15 | rd << 7
    if name in ALU or name in ("sub", "sra"):
        return (name in ("sub", "sra")) << 30 | registers | {**ALU, "sub": 0, "sra": 5}[name] << 12 | 0b0110011
    if name in ("slli", "srli", "srai"):
        return (name == "srai") << 30 | registers | (1 if name == "slli" else 5) << 12 | 0b0010011
    if name in MULTIPLY:
        return 1 << 25 | registers | MULTIPLY[name] << 12 | 0b0110011
    if name in ATOMIC:
        return ATOMIC[name] << 27 | chance.randrange(4) << 25 | registers | 2 << 12 | 0b0101111
    plain = any12 << 20 | rs1 << 15 | rd << 7
    if name in IMMEDIATE:
        return plain | IMMEDIATE[name] << 12 | 0b0010011
    if name in LOADS:
        return plain | LOADS[name] << 12 | 0b0000011
    if name in STORES:
        return any12 >> 5 << 25 | registers & ~(31 << 7) | STORES[name] << 12 | (any12 & 31) << 7 | 0b0100011
    if name in BRANCHES:
        return any12 >> 5 << 25 | registers & ~(31 << 7) | BRANCHES[name] << 12 | (any12 & 31) << 7 | 0b1100011
    other = {"lui": 0b0110111, "auipc": 0b0010111, "jal": 0b1101111}
    if name in other:
        return any20 << 12 | rd << 7 | other[name]
    return plain | (0b1100111 if name == "jalr" else 0b0001111)


def signed_offset(code: int) -> int:
    """The offset of a load or store; an atomic instruction has none."""
    if code & 127 == 0b0101111:
        return 0
    held = code >> 25 << 5 | code >> 7 & 31 if code & 127 == 0b0100011 else code >> 20
    return (held ^ 0x800) - 0x800


class Fuzz:
    """Both machines, put into random states."""

    def __init__(self, evaluator: str | None = None, instructions: str = "rv32i") -> None:
        program = Executable("fuzz", ((BASE, b"", 4),), BASE)
        self.reference = ReferenceMachine(program, MEMORY)
        self.network = TransformerComputer(
            program, MEMORY, instructions=instructions, evaluator=evaluator or quickest()
        )
        self.more, self.atomics = instructions != "rv32i", instructions == "rv32ima"
        run = self.network.running
        self.run, self.start = run, run.state.copy()
        place = {column.first: held for column, held in zip(run.stored, run.columns)}
        self.bytes, self.values = (place[self.network.place[name].start] for name in ("byte", "value"))
        self.where = {name: self._where(name) for name in ("pc", "rd", "r", "target", "b0", "b1", "b2", "b3")}
        flags = ("writes", "stores_1", "stores_2", "stores_4", *(("reserved",) if self.more else ()))
        self.flags = {name: self._where(name) for name in flags}

    def _where(self, name: str) -> tuple[int, int, int]:
        """The word of the state that holds a variable, its lowest bit there, and its mask."""
        segment, places = self.network.place[name], self.run.places
        (word, bit), size = places[segment.start], segment.size
        assert all(places[segment.start + k] == (word, bit + k) for k in range(size))
        return word, bit, (1 << size) - 1

    def word(self, name: str) -> int:
        word, bit, mask = self.where[name]
        return int(self.run.state[word]) >> bit & mask

    def flag(self, name: str) -> bool:
        word, bit, _ = self.flags[name]
        return bool(int(self.run.state[word]) >> (bit + 1) & 1)

    def state(self, name: str, chance: random.Random, numbers: np.random.Generator) -> str:
        """One random state; what differs after one instruction, or nothing."""
        code, pc = instruction(name, chance), 4 * chance.randrange(MEMORY // 4)
        registers = numbers.integers(0, 1 << 32, 32, dtype=np.uint32)
        for k in range(1, 32, 3):
            registers[k] = chance.choice(EDGES)
        registers[0] = 0
        content = numbers.integers(0, 256, MEMORY, dtype=np.uint8)
        content[pc : pc + 4] = np.frombuffer(code.to_bytes(4, "little"), dtype=np.uint8)
        if name in LOADS or name in STORES or name in ATOMIC:  # an address in memory; x0 is left as it is
            if not code >> 15 & 31:
                code |= 1 << 15
                content[pc : pc + 4] = np.frombuffer(code.to_bytes(4, "little"), dtype=np.uint8)
            place = chance.randrange(MEMORY - 3) & ~(3 if name in ATOMIC else 0)
            registers[code >> 15 & 31] = (BASE + place - signed_offset(code)) & 0xFFFFFFFF
        reference, run = self.reference, self.run
        reference.values[:32], reference.values[32], reference.cells[16:] = registers, BASE + pc, content
        run.state[:] = self.start
        word, bit, mask = self.where["pc"]
        run.state[word] = int(run.state[word]) & ~(mask << bit) | (BASE + pc) << bit
        reference.values[RESERVED] = reserved = self.more and chance.randrange(2)
        if reserved:
            word, bit, _ = self.flags["reserved"]
            run.state[word] = int(run.state[word]) & ~(3 << bit) | 2 << bit
        run.layers, run.halted = 0, False
        self.values[FIRST_REGISTER : FIRST_REGISTER + 32], self.bytes[self.network.first_byte :] = registers, content
        done, why = reference_run(reference.cells, reference.values, MEMORY, 1, False, self.more, self.atomics)
        ended = run.run(LAYERS * PASSES.get(name, 1))
        if (done, why) != (1, 0) or ended != "paused":
            return f"{name}: {code:#010x} ends with {why} and {ended!r}"
        return self.difference(f"{name} {code:#010x} at {BASE + pc:#x}")

    def difference(self, what: str) -> str:
        """What differs; the result and the stores of the network are still on their way."""
        reference = self.reference
        registers = self.values[FIRST_REGISTER : FIRST_REGISTER + 32].copy()
        if self.flag("writes") and (rd := self.word("rd")):
            registers[rd] = self.word("r")
        cells, target = self.bytes[self.network.first_byte :].copy(), self.word("target") - BASE
        for k, stores in enumerate(("stores_1", "stores_2", "stores_4", "stores_4")):
            if self.flag(stores) and 0 <= target + k < MEMORY:
                cells[target + k] = self.word(f"b{k}")
        if self.more and self.flag("reserved") != bool(reference.values[RESERVED]):
            return f"{what}: what is reserved"
        if self.word("pc") != int(reference.values[32]):
            return f"{what}: pc"
        if (registers != reference.values[:32]).any():
            return f"{what}: registers"
        return f"{what}: memory" if (cells != reference.cells[16:]).any() else ""


def fuzz(states: int, seed: int = 0, instructions: str = "rv32i") -> Counter[str]:
    """Run random states, as many of each instruction; raise where one differs."""
    both, chance = Fuzz(None, instructions), random.Random(seed)
    numbers, counts = np.random.default_rng(seed), Counter()
    names = TRIED[instructions]
    for number in range(states):
        name = names[number % len(names)]
        differs = both.state(name, chance, numbers)
        if differs:
            raise AssertionError(f"state {number:,} of seed {seed}: {differs}")
        counts[name] += 1
    return counts


def test_every_instruction_from_random_states():
    counts = fuzz(2 * len(NAMES), seed=1)
    assert len(NAMES) == 38 and set(counts.values()) == {2}


def test_multiplications_divisions_and_atomics_from_random_states():
    counts = fuzz(2 * 19, seed=1, instructions="rv32ima")
    assert len(counts) == 19 and set(counts.values()) == {2}


def test_a_planted_bug_is_found():
    both, chance, numbers = Fuzz(), random.Random(2), np.random.default_rng(2)
    code = both.run.code

    def wrong(*given):
        result = code(*given)
        word, bit = both.run.places[both.network.place["r"].start + 5]
        both.run.state[word] ^= 1 << bit
        return result

    both.run.code = wrong
    assert any("registers" in both.state("add", chance, numbers) for _ in range(5))


@pytest.mark.slow
def test_fifty_thousand_states():
    assert sum(fuzz(50_000, seed=3).values()) == 50_000
    assert sum(fuzz(20_000, seed=3, instructions="rv32ima").values()) == 20_000


if __name__ == "__main__":
    began = time.time()
    found = fuzz(int(sys.argv[1]), *map(int, sys.argv[2:3]), *sys.argv[3:4])
    print(json.dumps({"states": sum(found.values()), "seconds": round(time.time() - began), **found}))
