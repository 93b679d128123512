"""The reference machine: the official conformance tests, the environment, and the disassembler."""

from __future__ import annotations

import pytest

from data_sets import DATA, needs
from kleene.drivers.riscv_programs import find_program
from kleene.errors import RangeError
from kleene.machines.elf import Executable, load_executable
from kleene.machines.riscv import BASE, ReferenceMachine, run_reference
from kleene.machines.riscv_text import disassemble

CONFORMANCE = sorted((DATA / "riscv" / "tests").glob("rv32u?-p-*"))
INSTRUCTIONS = {"rv32ui": "rv32i", "rv32um": "rv32im", "rv32ua": "rv32ima"}


def assembled(*instructions: int) -> Executable:
    code = b"".join(i.to_bytes(4, "little") for i in instructions)
    return Executable("test", ((BASE, code, len(code)),), BASE)


@needs("riscv/tests")
@pytest.mark.parametrize("path", CONFORMANCE, ids=lambda path: path.name)
def test_conformance(path):
    program = load_executable(path)
    machine = ReferenceMachine(program, 1 << 16, instructions=INSTRUCTIONS[path.name[:6]])
    said = 0
    while not said and machine.steps < 100_000:
        machine.run(1000)
        said = int.from_bytes(machine.load(program.symbols["tohost"], 4), "little")
    assert said == 1, f"case {said >> 1} fails"


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("hello", b"", b"Hello from 32 bits of RISC-V.\n"),
        ("sha256", b"abc", b"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n"),
        ("lisp", b"(define f (lambda (n) (if (= n 0) 1 (* n (f (- n 1))))))\n(f 10)\n", b"f\n3628800\n"),
        ("sorting", b"", b"box brown dog fox jumps lazy over quick seven the the while wizards\n"),
    ],
)
def test_programs_in_c(name, given, said):
    result = run_reference(find_program(name), input=given)
    assert result.why == "exit" and result.code == 0 and result.output.startswith(said)


def test_a_program_waits_for_input():
    machine = ReferenceMachine(find_program("sha256"))
    assert machine.run(10**8).why == "input"
    machine.feed(b"abc")
    machine.end_input()
    assert machine.run(10**8).output.startswith(b"ba7816bf")


@pytest.mark.parametrize("address", [BASE + 2, 0x100])
def test_atomics_address_words_of_memory(address):
    machine = ReferenceMachine(assembled(0x00B5262F), instructions="rv32ima")  # amoadd.w a2, a1, (a0)
    machine.set_register(10, address)
    with pytest.raises(RangeError, match="the atomic instruction at 0x80000000 addresses"):
        machine.run(1)


def test_calls_of_the_environment():
    """li a7, 64 (write); a1 = BASE; li a2, 4; ecall; li a0, 7; li a7, 93 (exit); ecall."""
    code = (0x04000893, 0x800005B7, 0x00400613, 0x00000073, 0x00700513, 0x05D00893, 0x00000073)
    result = run_reference(assembled(*code))
    assert (result.why, result.code, result.steps) == ("exit", 7, 6)
    assert result.output == code[0].to_bytes(4, "little")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ((0x00002083,), "loads from 0x0"),  # lw ra, 0(zero)
        ((0x00000067,), "pc is 0x0"),  # jalr zero, 0(zero)
        ((0x02208133,), "compile with -march=rv32i"),  # mul sp, ra, sp
        ((0x00000000,), "not in RV32I"),
        ((0x00000073,), "call 0"),
    ],
)
def test_what_cannot_go_on_is_named(code, said):
    with pytest.raises(RangeError, match=said):
        run_reference(assembled(*code))


@pytest.mark.parametrize(
    ("instruction", "text"),
    [
        (0x00500093, "addi ra, zero, 5"),
        (0x40B50533, "sub a0, a0, a1"),
        (0x00C5A223, "sw a2, 4(a1)"),
        (0x4030D093, "srai ra, ra, 3"),
        (0x800005B7, "lui a1, 0x80000"),
        (0x02208133, "mul sp, ra, sp"),
        (0x100625AF, "lr.w a1, (a2)"),
        (0x02B5A62F, "amoadd.w.rl a2, a1, (a1)"),
        (0x1EB5202F, "sc.w.aq.rl zero, a1, (a0)"),
        (0x00000073, "ecall"),
        (0xFFFFFFFF, ".word 0xffffffff"),
    ],
)
def test_disassembly(instruction, text):
    assert disassemble(instruction) == text
