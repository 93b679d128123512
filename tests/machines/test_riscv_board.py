"""The board for operating systems: traps, the timer, the UART, user mode, power-off, and device trees."""

from __future__ import annotations

import struct

import pytest

from kleene.errors import FileError, InputError, RangeError
from kleene.machines.elf import Executable
from kleene.machines.riscv import BASE, ReferenceMachine
from kleene.machines.riscv_board import with_memory

MEMORY = 1 << 16
ENVIRONMENT_CALL = 8  # the cause of a trap
# Writes a, waits for the timer, whose handler writes T, echoes one byte of input, and goes to user mode. There lr.w
# addresses nothing; the handler puts that right. At the call that follows, sc.w stores (word + 1)², and power is off.
CODE = """
00000297 07428293 30529073 10000437 110004B7 11100937 000042B7 009282B3 0002A223 03200313 0062A023 08000313 30431073
06100313 00642023 30046073 10500073 00544303 00137313 FE030AE3 00044303 00640023 00000297 01428293 34129073 30001073
30200073 100625AF 00000073 34202573 02054063 00800693 02D50C63 00000617 05460613 341022F3 34129073 30200073 05400313
00640023 FFF00313 000042B7 009282B3 0062A223 341022F3 30200073 00062703 00170713 02E70733 18E627AF 00062703 00005337
55530313 00692023 0000000B
"""
WORD = 4 * 54  # where the word stands


def device_tree(length: int = 16) -> bytes:
    """A device tree with one node, for memory."""
    registers = struct.pack(">3I", 3, length, 0) + struct.pack(">QQ", BASE, 1 << 26)[:length]
    structure = struct.pack(">3I", 1, 0, 1) + b"memory@80000000\0" + registers + struct.pack(">3I", 2, 2, 9)
    end = 40 + len(structure)
    return struct.pack(">10I", 0xD00DFEED, end + 4, 40, end, *[0] * 6) + structure + b"reg\0"


def board_program() -> Executable:
    code = b"".join(int(one, 16).to_bytes(4, "little") for one in CODE.split())
    return Executable("board", ((BASE, code, len(code)),), BASE)


def run_board(machine):
    """What the machine says until it waits, and after a key."""
    first = machine.run(100_000)
    machine.feed(b"k")
    return first, machine.run(100_000)


def test_traps_timer_uart_and_user_mode():
    first, second = run_board(ReferenceMachine(board_program(), MEMORY, (), "rv32ima", device_tree()))
    assert (first.why, first.output) == ("input", b"aT") and first.steps > 200
    assert (second.why, second.code, second.output) == ("exit", 0, b"k")
    assert second.registers[14] == 144 == int.from_bytes(second.memory[WORD : WORD + 4], "little")
    assert second.registers[10] == ENVIRONMENT_CALL


def test_a_board_without_input_is_idle():
    machine = ReferenceMachine(board_program(), MEMORY, (), "rv32ima", device_tree())
    machine.end_input()
    assert machine.run(10**6).why == "idle"


def test_a_trap_without_a_handler_is_named():
    machine = ReferenceMachine(Executable("none", ((BASE, bytes(4), 4),), BASE), MEMORY, (), "rv32ima", device_tree())
    with pytest.raises(RangeError, match="mtvec names no handler"):
        machine.run(1)


def test_the_tree_names_the_memory():
    made = with_memory(device_tree(), 0x123456)
    assert len(made) == len(device_tree()) and made.count((0x123456).to_bytes(8, "big")) == 1
    machine = ReferenceMachine(board_program(), MEMORY, (), "rv32ima", device_tree())
    assert machine.registers[11] == BASE + MEMORY - (1 << 14) and machine.registers[10] == 0


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        (b"", "lies outside the file"),
        (bytes(100), "not a flattened device tree"),
        (device_tree()[:70], "lies outside the file"),
        (device_tree(8), "names no memory"),
    ],
)
def test_trees_that_are_none(tree, said):
    with pytest.raises(FileError, match=said):
        with_memory(tree, MEMORY)


def test_a_board_needs_space():
    with pytest.raises(InputError, match="do not fit"):
        ReferenceMachine(board_program(), 1 << 13, (), "rv32ima", device_tree())
