"""ELF files: what a good one holds, and that no damaged one does harm."""

from __future__ import annotations

import contextlib
import random
import struct

import pytest

from kleene.drivers.riscv_programs import library_programs
from kleene.errors import FileError
from kleene.machines.elf import load_executable, read_executable

HELLO = library_programs()["hello"].read_bytes()


def test_a_program_starts_in_its_memory():
    found = read_executable(HELLO)
    assert found.entry == 0x80000000 and found.image(0x80000000, 1 << 16)[:4] != bytes(4)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: b"MZ" + d[2:], "not an ELF file"),
        (lambda d: d[:4] + b"\2" + d[5:], "32-bit"),
        (lambda d: d[:18] + b"\x28\0" + d[20:], "not an executable for RISC-V"),
        (lambda d: d[:36] + b"\1\0\0\0" + d[40:], "compressed"),
        (lambda d: d[:28] + b"\xff\xff\xff\x7f" + d[32:], "outside the file"),
        (lambda d: d[:44] + b"\xff\xff" + d[46:], "program headers"),
        (lambda d: d[:60], "outside the file"),
        (lambda d: b"", "not an ELF file"),
    ],
)
def test_damage_is_named(change, said):
    with pytest.raises(FileError, match=said):
        read_executable(change(HELLO))


def test_a_program_outside_memory_is_refused():
    with pytest.raises(FileError, match="give more memory"):
        read_executable(HELLO).image(0x80000000, 1024)


def test_random_damage_is_an_error_or_harmless():
    chance = random.Random(1)
    for _ in range(2000):
        data = bytearray(HELLO)
        for _ in range(chance.randrange(1, 5)):
            data[chance.randrange(96)] = chance.randrange(256)
        with contextlib.suppress(FileError):
            read_executable(bytes(data)).image(0x80000000, 1 << 16)


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(FileError, match="cannot be read"):
        load_executable(tmp_path / "nowhere.elf")


def test_a_segment_is_loaded_without_the_headers_of_the_file():
    """A linker that is told only -Ttext lets the first segment begin with them, below the address."""
    names, address = 52 + 32, 0x7FFFFFAC
    program = struct.pack("<8I", 1, 0, address, address, 88, 88, 5, 4)
    sections = bytes(40) + struct.pack("<10I", 0, 1, 6, 0x80000000, names, 4, 0, 0, 4, 0)
    head = struct.pack("<HHIIIII", 2, 243, 1, 0x80000000, 52, 88, 0) + struct.pack("<6H", 52, 32, 1, 40, 2, 0)
    found = read_executable(b"\x7fELF\1\1\1" + bytes(9) + head + program + b"code" + sections)
    assert found.parts == ((0x80000000, b"code", 4),)
