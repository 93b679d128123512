"""The RISC-V computer as a transformer: equal to the reference in every register and byte, on every evaluator."""

from __future__ import annotations

import random
import shutil

import pytest
import torch

import kleene as kl
from data_sets import DATA, needs
from kleene.drivers import riscv
from kleene.drivers.riscv import LAYERS, TransformerComputer, riscv_network
from kleene.drivers.riscv_programs import COMPILERS, find_program, load_image
from kleene.errors import FileError
from kleene.library.riscv import FIRST_REGISTER
from kleene.machines.elf import Executable, load_executable
from kleene.machines.riscv import BASE, ReferenceMachine
from kleene.networks.transformer.lane_builds import compiler
from kleene.networks.transformer.prepared import PreparedLanes, load_prepared
from machines.test_riscv_board import board_program, device_tree, run_board

SMALL, MEMORY = 64, 1 << 16
LANES = ["lanes", "lanes-numba"] if compiler() else ["lanes-numba"]
FAST = LANES[0]
CONFORMANCE = sorted((DATA / "riscv" / "tests").glob("rv32u?-p-*"))
INSTRUCTIONS = {"rv32ui": "rv32i", "rv32um": "rv32ima", "rv32ua": "rv32ima"}


def random_instruction(chance: random.Random) -> int:
    """An instruction of RV32I with random fields; branches, loads and stores stay near."""
    rd, rs1, rs2, f3 = (chance.randrange(n) for n in (32, 32, 32, 8))
    kind = chance.choice(["op", "op", "op_imm", "op_imm", "lui", "auipc", "branch", "jal", "load", "store"])
    base = rs2 << 20 | rs1 << 15 | f3 << 12 | rd << 7
    if kind == "op":
        return chance.choice([0, 1 << 30 if f3 in (0, 5) else 0]) | base | 0b0110011
    if kind == "op_imm":
        high = chance.choice([0, 1 << 30 if f3 == 5 else 0]) if f3 in (1, 5) else chance.randrange(128) << 25
        return high | base | 0b0010011
    if kind in ("lui", "auipc"):
        return chance.randrange(1 << 20) << 12 | rd << 7 | (0b0110111 if kind == "lui" else 0b0010111)
    if kind == "branch":
        return rs2 << 20 | rs1 << 15 | chance.choice([0, 1, 4, 5, 6, 7]) << 12 | 8 << 7 | 0b1100011
    if kind == "jal":
        return 8 << 20 | rd << 7 | 0b1101111
    offset = chance.randrange(SMALL // 2, SMALL - 4)  # from gp, which holds BASE
    if kind == "load":
        return offset << 20 | 3 << 15 | chance.choice([0, 1, 2, 4, 5]) << 12 | (rd if rd != 3 else 4) << 7 | 0b0000011
    width = chance.randrange(3)
    return (offset >> 5) << 25 | rs2 << 20 | 3 << 15 | width << 12 | (offset & 31) << 7 | 0b0100011


def random_program(chance: random.Random, memory: int = SMALL) -> Executable:
    code = [random_instruction(chance) for _ in range(6)]
    code = [i & ~(31 << 7) | 4 << 7 if i & 127 not in (0b0100011, 0b1100011) and i >> 7 & 31 == 3 else i for i in code]
    image = b"".join(i.to_bytes(4, "little") for i in code) + bytes(8) + chance.randbytes(memory // 2)
    return Executable("random", ((BASE, image[:memory], memory),), BASE)


class Bare:
    """Both machines on one program, with random registers."""

    def __init__(self, program: Executable, evaluator: str, chance: random.Random) -> None:
        self.reference, self.network = _bare(ReferenceMachine, program), _bare(TransformerComputer, program, evaluator)
        for number in range(1, 32):
            value = chance.choice([0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, chance.getrandbits(32)])
            for machine in (self.reference, self.network):
                machine.set_register(number, BASE if number == 3 else value)


def _bare(kind, program, evaluator=None, instructions="rv32i"):
    """A machine of 64 bytes, where arguments have no place."""
    original = kind._place_arguments
    kind._place_arguments = lambda self, arguments: 0
    try:
        if evaluator is None:
            return kind(program, SMALL, instructions=instructions)
        return kind(program, SMALL, instructions=instructions, evaluator=evaluator)
    finally:
        kind._place_arguments = original


def state(machine):
    return machine.pc, machine.registers, machine.memory()


def test_sizes():
    sizes = riscv_network(SMALL).sizes
    assert sizes.hidden <= 1500 and sizes.heads <= 24 and len(riscv_network(SMALL).config.cycle) == 4


def test_random_instructions_equal_the_reference():
    chance = random.Random(0)
    for _ in range(40):
        both = Bare(random_program(chance), FAST, chance)
        for _ in range(6):
            both.reference.run(1)
            both.network.run(1)
            assert state(both.reference) == state(both.network)
            if both.reference.pc - BASE >= 24:  # past its last instruction
                break


def test_evaluators_in_lockstep():
    """Every residual of every layer is the same."""
    chance = random.Random(3)
    program = random_program(chance)
    runs = [Bare(program, name, random.Random(4)).network.running for name in ("dense", "rows", "lookup", *LANES)]
    for _ in range(3 * LAYERS):
        for run in runs:
            run.run(1)
        expected = runs[0].residual()
        assert all(torch.equal(run.residual(), expected) for run in runs[1:])
        if runs[0].halted:
            break


def test_a_run_from_the_cache_does_without_the_network():
    """The second run of the same weights is prepared; other weights, or rows of other kinds, are not taken for them."""
    program = random_program(random.Random(8))
    first = _bare(TransformerComputer, program, FAST)
    again = _bare(TransformerComputer, program, FAST)
    assert isinstance(again.running, PreparedLanes) and again.running.whole is None
    for machine in (first, again):
        machine.run(4)
    assert state(first) == state(again)
    folder = riscv._kept(SMALL).folder
    kept, weights = folder.with_name(f"{folder.name}-{FAST}"), folder / "weights.safetensors"
    tokens = again.running.start_rows.tokens
    assert load_prepared(kept, weights, tokens) is not None
    assert load_prepared(kept, folder / "kleene.json", tokens) is None
    assert load_prepared(kept, weights, tokens[::-1].copy()) is None


def test_a_run_from_the_cache_says_what_is_wrong():
    """Where the code leaves a layer undone, the weights decide: here pc leaves memory."""
    program = Executable("jump", ((BASE, (0x0400006F).to_bytes(4, "little"), SMALL),), BASE)  # jal x0, +64
    for _ in range(2):
        machine = _bare(TransformerComputer, program, FAST)
        with pytest.raises(kl.RangeError, match="after 1 instructions pc is 0x80000040, outside memory"):
            machine.run(10)


def test_the_interpreter_says_the_same():
    code = (0x00500093, 0xFF908113, 0x0020F1B3, 0x00000073)  # addi, addi, and, ecall
    program = kl.library.riscv(SMALL)
    image = list(b"".join(i.to_bytes(4, "little") for i in code))
    tokens = program.encode(image)
    trace = program.trace(tokens)
    assert trace.layers == 13
    values = [state["value"] for state in trace.states[-1]][FIRST_REGISTER : FIRST_REGISTER + 4]
    assert values == [0, 5, 0xFFFFFFFE, 4]
    assert riscv_network(SMALL).run(tokens, evaluator="lookup") == trace.outputs


def test_sizes_with_multiplication_and_atomics():
    sizes = riscv_network(256, "rv32ima").sizes
    assert sizes.hidden <= 2200 and sizes.heads <= 24


@pytest.mark.slow
def test_evaluators_in_lockstep_through_a_product_and_a_quotient():
    """Every residual of every layer is the same: mulh a2, a0, a1; div a3, a2, a0; amomin.w a4, a1, (gp)."""
    code = b"".join(i.to_bytes(4, "little") for i in (0x02B51633, 0x02A646B3, 0x80B1A72F))
    program = Executable("some", ((BASE, code, SMALL),), BASE)
    runs = []
    for name in ("dense", "rows", "lookup", *LANES):
        machine = _bare(TransformerComputer, program, name, "rv32ima")
        for number, value in ((10, 0x87654321), (11, 0xFEDCBA98), (3, BASE + 32)):
            machine.set_register(number, value)
        runs.append(machine.running)
    for _ in range(72 * LAYERS):
        for run in runs:
            run.run(1)
        expected = runs[0].residual()
        assert all(torch.equal(run.residual(), expected) for run in runs[1:])


@pytest.mark.slow
def test_an_operating_system_has_a_board():
    """Interrupts, traps and devices on the transformer: equal to the reference."""
    given = (board_program(), MEMORY, (), "rv32ima", device_tree())
    assert run_board(TransformerComputer(*given, evaluator=FAST)) == run_board(ReferenceMachine(*given))


@needs("riscv/linux-6.8-rc1-rv32nommu.Image.gz")
@pytest.mark.slow
def test_linux_boots():
    """About 34 million instructions to the prompt of the shell, compared every million, and a command."""
    tree = (DATA / "riscv" / "minimal-nommu-64MB.dtb").read_bytes()
    image = load_image(str(DATA / "riscv" / "linux-6.8-rc1-rv32nommu.Image.gz"))
    given = (image, 1 << 24, (), "rv32ima", tree)
    machine, reference, said = TransformerComputer(*given, evaluator=FAST), ReferenceMachine(*given), b""
    for typed in (b"echo $((6 * 7))\n", b""):
        why = "steps"
        while why == "steps":
            found = machine.run(10**6)
            assert found == reference.run(10**6)
            why, said = found.why, said + found.output
        for one in (machine, reference):
            one.feed(typed)
    assert b"Linux version 6.8.0" in said and said.endswith(b"\r\n42\r\n~ # ")


@pytest.mark.slow
@pytest.mark.parametrize("instructions", ["rv32i", "rv32ima"])
def test_certificate_and_planted_bugs(instructions):
    net = riscv_network(SMALL, instructions)
    certificate = kl.certify(net)
    assert certificate.holds, certificate.reasons
    chance = random.Random(5)
    for half in ("in1", "in2", "bias2", "out2"):
        block = net.block(chance.randrange(3))
        weights = getattr(block, half)
        place = tuple(torch.nonzero(weights)[chance.randrange(int(torch.count_nonzero(weights)))].tolist())
        kept = float(weights[place])
        weights[place] = kept + (1 if kept != -1 else 2)
        try:
            assert not kl.certify(net).holds, (half, place)
        finally:
            weights[place] = kept


@needs("riscv/tests")
@pytest.mark.parametrize("name", ["add", "lw", "sh", "sra", "bltu", "jalr", "ma_data"])
def test_conformance_on_the_transformer(name):
    check_conformance(DATA / "riscv" / "tests" / f"rv32ui-p-{name}")


@needs("riscv/tests")
@pytest.mark.slow
@pytest.mark.parametrize("path", CONFORMANCE, ids=lambda path: path.name)
def test_all_conformance_on_the_transformer(path):
    check_conformance(path)


def check_conformance(path):
    program = load_executable(path)
    instructions = INSTRUCTIONS[path.name[:6]]
    machine = TransformerComputer(program, MEMORY, instructions=instructions, evaluator=FAST)
    reference, said = ReferenceMachine(program, MEMORY, instructions=instructions), 0
    while not said and machine.steps < 100_000:
        assert machine.run(200) == reference.run(200)
        said = int.from_bytes(machine.load(program.symbols["tohost"], 4), "little")
    assert said == 1


@pytest.mark.parametrize(("name", "given"), [("hello", b""), ("lisp", b"(* 6 7)\n'(1 2)\n")])
def test_programs_in_c(name, given):
    program = find_program(name)
    machine, reference = TransformerComputer(program, MEMORY, evaluator=FAST), ReferenceMachine(program, MEMORY)
    for one in (machine, reference):
        one.feed(given)
        one.end_input()
    result = None
    while result is None or result.why == "steps":
        result = machine.run(5_000)
        assert result == reference.run(5_000)
    assert result.why == "exit" and result.code == 0


def test_a_program_waits_for_input():
    program = find_program("lisp")
    machine = TransformerComputer(program, MEMORY, evaluator=FAST)
    assert machine.run(10**6).why == "input"
    machine.feed(b"(+ 1 2)\n")
    result = machine.run(10**6)
    assert result.why == "input" and result.output == b"3\n"


@pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no RISC-V compiler here")
def test_a_c_program_that_aborts_and_one_that_does_not_link(tmp_path):
    """abort() ends a program with the code that a shell gives; the message of the linker names what is missing."""
    (tmp_path / "abort.c").write_text("#include <stdlib.h>\nint main() { abort(); }\n")
    result = ReferenceMachine(find_program(str(tmp_path / "abort.c")), MEMORY).run(100_000)
    assert (result.why, result.code) == ("exit", 134)
    (tmp_path / "missing.c").write_text("int socket(int); int main() { return socket(1); }\n")
    with pytest.raises(FileError, match="undefined reference to `socket'"):
        find_program(str(tmp_path / "missing.c"))
