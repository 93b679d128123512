"""ELF files of RISC-V programs: their parts in memory, the start address, and their symbols.

A file is read strictly. Every offset and size is checked against the file and against memory before it is used.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

from kleene.errors import FileError

MAX_FILE = 1 << 28
MAX_SEGMENTS, MAX_SYMBOLS = 64, 1 << 20
EXECUTABLE, RISCV, LOAD, SYMBOLS = 2, 243, 1, 2
IN_MEMORY = 2  # a flag of a section
COMPRESSED = 1  # a flag: instructions of 16 bits


@dataclass(frozen=True)
class Executable:
    """A program: address, bytes and size of each part, the address of the first instruction, addresses by name.

    Zeros fill up a part that is larger than its bytes."""

    name: str
    parts: tuple[tuple[int, bytes, int], ...]
    entry: int
    symbols: dict[str, int] = field(default_factory=dict)

    def image(self, base: int, size: int) -> bytes:
        """The memory from `base` on, `size` bytes. Raise FileError where a part lies outside."""
        made = bytearray(size)
        for address, content, length in self.parts:
            if not (base <= address and address + length <= base + size):
                raise FileError(
                    f"{self.name}: needs {address:#x} … {address + length - 1:#x}; memory is {base:#x} … "
                    f"{base + size - 1:#x} (link it to {base:#x}, or give more memory)"
                )
            made[address - base : address - base + len(content)] = content
        return bytes(made)

    @property
    def end(self) -> int:
        """The first address after all parts."""
        return max((address + length for address, _, length in self.parts), default=0)


def load_executable(path: str | Path) -> Executable:
    """Read an ELF file for RV32. Raise FileError for any other file, and for a malformed one."""
    return read_executable(read_limited(path), str(path))


def read_limited(path: str | Path) -> bytes:
    """The bytes of a file. Raise FileError where it cannot be read, and where it is too large."""
    path = Path(path)
    try:
        size = path.stat().st_size
        if size > MAX_FILE:
            raise FileError(f"{path}: {size:,} bytes, Kleene reads at most {MAX_FILE:,}")
        return path.read_bytes()
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror})") from None


def read_executable(data: bytes, name: str = "program") -> Executable:
    """Read the bytes of an ELF file."""
    if data[:4] != b"\x7fELF":
        raise FileError(f"{name}: not an ELF file")
    if len(data) < 52 or data[4] != 1 or data[5] != 1:
        raise FileError(f"{name}: not a 32-bit little-endian ELF file; compile with -march=rv32i -mabi=ilp32")
    kind, machine, _, entry, headers, sections, flags = struct.unpack_from("<HHIIIII", data, 16)
    header_size, header_count, section_size, section_count = struct.unpack_from("<HHHH", data, 42)
    if machine != RISCV or kind != EXECUTABLE:
        raise FileError(f"{name}: not an executable for RISC-V (machine {machine}, type {kind})")
    if flags & COMPRESSED:
        raise FileError(f"{name}: has compressed instructions; compile with -march=rv32i")
    if header_size != 32 or not 0 < header_count <= MAX_SEGMENTS:
        raise FileError(
            f"{name}: has {header_count} program headers of {header_size} bytes, not 1 … {MAX_SEGMENTS} of 32"
        )
    parts = []
    for number in range(header_count):
        fields = _fields(data, headers + 32 * number, "<IIIIIIII", name)
        if fields[0] == LOAD and fields[5]:
            part = _part(data, fields, name)
            parts.append(part if fields[1] else _without_headers(part, data, (sections, section_size, section_count)))
    if not parts:
        raise FileError(f"{name}: loads nothing into memory")
    symbols = _symbols(data, sections, section_size, section_count, name) if section_count else {}
    return Executable(name, tuple(parts), entry, symbols)


def _fields(data: bytes, offset: int, layout: str, name: str) -> tuple[int, ...]:
    if offset < 0 or offset + struct.calcsize(layout) > len(data):
        raise FileError(f"{name}: a header lies outside the file, at byte {offset}")
    return struct.unpack_from(layout, data, offset)


def _part(data: bytes, fields: tuple[int, ...], name: str) -> tuple[int, bytes, int]:
    """The bytes of one segment, and its size in memory. A segment is loaded at its physical address."""
    _, offset, _, address, in_file, in_memory, *_ = fields
    if in_file > in_memory or offset + in_file > len(data):
        raise FileError(f"{name}: a segment of {in_file:,} bytes at {offset} lies outside the file")
    if in_memory > 1 << 30 or address + in_memory > 1 << 32:
        raise FileError(f"{name}: a segment of {in_memory:,} bytes at {address:#x} does not fit in memory")
    return address, data[offset : offset + in_file], in_memory


def _without_headers(part: tuple[int, bytes, int], data: bytes, table: tuple[int, int, int]) -> tuple[int, bytes, int]:
    """A segment without the headers of the file, with which it begins: from its first section on.

    The linker puts them there, below the address that the program was linked to."""
    (address, content, length), (sections, size, count) = part, table
    if size != 40 or sections + 40 * count > len(data):
        return part
    headers = [struct.unpack_from("<IIII", data, sections + 40 * k) for k in range(count)]
    starts = [place for _, _, flags, place in headers if flags & IN_MEMORY and address <= place < address + length]
    cut = min(starts, default=address) - address
    return address + cut, content[cut:], length - cut


def _symbols(data: bytes, sections: int, size: int, count: int, name: str) -> dict[str, int]:
    """Addresses by name, from the symbol table. A file may have none."""
    if size != 40:
        raise FileError(f"{name}: section headers of {size} bytes, not 40")
    headers = [_fields(data, sections + 40 * k, "<10I", name) for k in range(count)]
    found: dict[str, int] = {}
    for header in headers:
        _, kind, _, _, offset, length, link, *_ = header
        if kind != SYMBOLS:
            continue
        if length // 16 > MAX_SYMBOLS or offset + length > len(data) or link >= count:
            raise FileError(f"{name}: the symbol table lies outside the file")
        start, names_length = headers[link][4], headers[link][5]
        if start + names_length > len(data):
            raise FileError(f"{name}: the names of the symbols lie outside the file")
        names = data[start : start + names_length]
        for k in range(length // 16):
            place, value = struct.unpack_from("<II", data, offset + 16 * k)
            if 0 < place < len(names):
                end = names.find(b"\0", place)
                found[names[place : end if end >= 0 else None].decode("utf-8", errors="replace")] = value
    return found
