"""Find RISC-V programs: ELF files, C files that a cross compiler makes into ELF files, and programs of the library."""

from __future__ import annotations

import gzip
import io
import shutil
import subprocess
import tempfile
import zlib
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from kleene.errors import FileError, NotSupported
from kleene.machines.elf import MAX_FILE, Executable, load_executable, read_executable, read_limited
from kleene.machines.riscv import BASE

GZIP = b"\x1f\x8b"
COMPILERS = ("riscv64-unknown-elf-gcc", "riscv32-unknown-elf-gcc", "riscv-none-elf-gcc")
FLAGS = ("-mabi=ilp32", "-O2", "-ffunction-sections", "-fdata-sections", "-s")
LIBRARY = ("--specs=picolibc.specs", "-nostartfiles", "-Wl,--gc-sections,--no-warn-rwx-segments")


def library_programs() -> dict[str, Any]:
    """Map the names of the programs that come with Kleene to their ELF files."""
    folder = files("kleene.library") / "riscv_programs"
    return {Path(entry.name).stem: entry for entry in folder.iterdir() if entry.name.endswith(".elf")}


def find_program(name: str, instructions: str = "rv32i") -> Executable:
    """Read an ELF file, compile a C file for these instructions, or find a program of the library by its name."""
    known = library_programs()
    if name in known:
        return read_executable(known[name].read_bytes(), name)
    if not Path(name).exists():
        raise FileError(f"{name}: no such file, and no program of the library ({', '.join(sorted(known))})")
    return compile_c(name, instructions) if Path(name).suffix == ".c" else load_executable(name)


def load_image(path: str) -> Executable:
    """Read the image of an operating system, which starts with its first byte; it may be compressed with gzip."""
    content = read_limited(path)
    if content[:2] == GZIP:
        try:
            with gzip.open(io.BytesIO(content)) as packed:
                content = packed.read(MAX_FILE + 1)
        except (OSError, EOFError, zlib.error):
            raise FileError(f"{path}: damaged; gzip cannot unpack it") from None
        if len(content) > MAX_FILE:
            raise FileError(f"{path}: unpacks to more than {MAX_FILE:,} bytes")
    if content[:4] == b"\x7fELF":
        return read_executable(content, path)
    if not content:
        raise FileError(f"{path}: empty")
    return Executable(path, ((BASE, content, len(content)),), BASE)


def compile_c(path: str, instructions: str = "rv32i") -> Executable:
    """Compile a C file with a cross compiler and picolibc; NotSupported says how to get them."""
    chosen = next((found for one in COMPILERS if (found := shutil.which(one))), None)
    if chosen is None:
        raise NotSupported(
            f"{path}: no RISC-V compiler here ({', '.join(COMPILERS)}); on Debian: "
            "apt install gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf"
        )
    with (
        as_file(files("kleene.library") / "riscv_programs" / "support") as support,
        tempfile.TemporaryDirectory() as made,
    ):
        out = Path(made) / "program.elf"
        parts = [str(support / "start.S"), str(support / "console.c"), path]
        command = [
            chosen,
            f"-march={instructions}",
            *FLAGS,
            *LIBRARY,
            f"-T{support / 'memory.ld'}",
            *parts,
            "-lm",
            "-o",
            str(out),
        ]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode:
            marks = ("undefined reference", "multiple definition", "error")
            said = [line for mark in marks for line in ran.stderr.splitlines() if mark in line]
            raise FileError(f"{path}: {chosen} fails: {(said or [ran.stderr.strip()[:200]])[0].strip()}")
        return read_executable(out.read_bytes(), path)
