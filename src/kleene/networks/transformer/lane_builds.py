"""Compile the source of lanes, once: the result is kept in the cache folder by the hash of the source.

Source comes from the weights in front of it each time; the cache folder only saves the compiler's work."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from kleene.common.cache import cache_folder, hash_of_texts
from kleene.errors import NotSupported
from kleene.networks.transformer.lane_syntax import C, Numba, Syntax
from kleene.networks.transformer.stops import Array

FLAGS = ("-O2", "-fno-tree-slp-vectorize", "-march=native", "-mtune=generic", "-fwrapv", "-shared", "-fPIC", "-w")

# state, columns, tables, layers, place, watch (place, word, bit) → layers done, why it stopped
Code = Callable[[Array, list[Array], list[Array], int, int, tuple[int, int, int]], tuple[int, int]]


def compiler() -> str | None:
    """The C compiler: CC, cc, gcc or clang; None where there is none."""
    chosen = os.environ.get("CC")
    return next((found for name in (chosen, "cc", "gcc", "clang") if name and (found := shutil.which(name))), None)


def syntax_of(language: str) -> Syntax:
    return C() if language == "C" else Numba()


def build(source: str, language: str) -> Code:
    """Compile a source, or take what was compiled from the same source before."""
    return _c_code(source) if language == "C" else _numba_code(source)


def _c_code(source: str) -> Code:
    run = _library(source).run
    pointer = ctypes.c_void_p
    run.argtypes, run.restype = [pointer] * 3 + [ctypes.c_int64] * 5 + [pointer], ctypes.c_int64
    why = np.zeros(1, dtype=np.int64)

    def code(
        state: Array, columns: list[Array], tables: list[Array], layers: int, place: int, watch: tuple[int, int, int]
    ) -> tuple[int, int]:
        places = [
            (ctypes.c_void_p * max(1, len(arrays)))(*(array.ctypes.data for array in arrays))
            for arrays in (columns, tables)
        ]
        done = run(state.ctypes.data, places[0], places[1], layers, place, *watch, why.ctypes.data)
        return int(done), int(why[0])

    return code


@cache
def _library(source: str) -> Any:
    """The shared library of a source, from the cache folder or compiled now."""
    chosen = compiler()
    if chosen is None:
        raise NotSupported("the evaluator 'lanes' needs a C compiler (cc, gcc or clang; or name one in CC)")
    path = cache_folder() / f"lanes-{hash_of_texts([source, chosen, *FLAGS, platform.machine(), _processor()])[:32]}.so"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            text, made = Path(folder) / "lanes.c", Path(folder) / path.name
            text.write_text(source, encoding="utf-8")
            command = [chosen, *FLAGS, "-o", str(made), str(text)]
            ran = subprocess.run(command, capture_output=True, text=True, check=False)
            if ran.returncode:
                raise NotSupported(f"{chosen} does not compile the generated code: {ran.stderr[:300]}")
            os.replace(made, path)
    return ctypes.CDLL(str(path))


def _processor() -> str:
    """Return what tells this kind of processor from others: code for one may not run on another."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())


@cache
def _numba_code(source: str) -> Code:
    """Import the source as a module of the cache folder, so that Numba keeps what it compiles beside it."""
    folder = cache_folder() / f"lanes-{hash_of_texts([source])[:32]}"
    path = folder / "lanes.py"
    folder.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != source:
        with tempfile.NamedTemporaryFile("w", dir=folder, delete=False, encoding="utf-8") as text:
            text.write(source)
        os.replace(text.name, path)
    spec = importlib.util.spec_from_file_location(folder.name.replace("-", "_"), path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # Numba finds it by name when it takes code from its cache
    exec(compile(source, str(path), "exec"), module.__dict__)  # the source that was just generated, not the file's

    def code(
        state: Array, columns: list[Array], tables: list[Array], layers: int, place: int, watch: tuple[int, int, int]
    ) -> tuple[int, int]:
        done, why = module.run(state, *columns, *tables, layers, place, *watch)
        return int(done), int(why)

    return code
