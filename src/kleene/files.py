"""Read and write files safely: check sizes first, leave nothing half-written, execute nothing."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kleene.errors import FileError, InputError, a_type

MAX_JSON_BYTES = 256 * 1024 * 1024
MAX_PARAMETERS = 2_000_000_000  # the most in a network that is built or loaded
MAX_ENTRIES = 1 << 24  # the most in an instruction table, and in a network that has memorised one


def read_bytes(path: str | Path, limit: int = MAX_JSON_BYTES) -> bytes:
    """Read a file of at most `limit` bytes."""
    path = Path(path)
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise FileError(f"{path}: not a file")
        if size > limit:
            raise FileError(f"{path}: {size:,} bytes; Kleene reads at most {limit:,}")
        return path.read_bytes()
    except FileNotFoundError:
        raise FileError(f"{path}: no such file") from None
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror})") from None


def read_text(path: str | Path, limit: int = MAX_JSON_BYTES) -> str:
    """Read a text file of at most `limit` bytes."""
    try:
        text = read_bytes(path, limit).decode("utf-8-sig")  # without a byte-order mark
    except UnicodeDecodeError:
        raise FileError(f"{path}: not UTF-8 text") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_json(path: str | Path, limit: int = MAX_JSON_BYTES) -> Any:
    """Read a JSON file of at most `limit` bytes."""
    try:
        return json.loads(read_text(path, limit), object_pairs_hook=_distinct)
    except (ValueError, RecursionError) as error:  # ValueError: also a number with too many digits
        raise FileError(f"{path}: not JSON ({error})") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a dict; reject a repeated key, since JSON readers disagree on which one counts."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r:.60} appears twice in one object; give each key once")
    return found


def as_path(path: object) -> Path:
    """Convert what a user gave to a path."""
    if not isinstance(path, str | os.PathLike) or isinstance(path, bytes):
        raise InputError(f"path {path!r:.60}: {a_type(path)}; it should be a file's name")
    return Path(path)


def check_version(path: Path, content: Any, version: int) -> None:
    """Raise a FileError if a file has another version of the format."""
    found = content.get("version") if isinstance(content, dict) else None
    if found != version:
        raise FileError(f"{path}: version {found!r}; this Kleene reads version {version}")


@contextlib.contextmanager
def written_atomically(path: str | Path) -> Iterator[Path]:
    """Give a path beside `path` to write to, and move it to `path` when the block ends without an error.

    The block may make a file or a folder there.
    """
    path = Path(path).absolute()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        holder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    except OSError as error:
        raise FileError(f"{path}: cannot be written ({error.strerror})") from None
    made = holder / path.name
    try:
        yield made
        if made.is_dir() and path.is_dir() and any(path.iterdir()) and not (path / "kleene.json").exists():
            raise FileError(f"{path}: a folder with other files in it; save to a new folder or over a saved network")
        if made.is_dir() and path.is_dir():
            os.replace(path, holder / "replaced")
        os.replace(made, path)
    except OSError as error:
        raise FileError(f"{path}: cannot be written ({error.strerror})") from None
    finally:
        shutil.rmtree(holder, ignore_errors=True)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with written_atomically(path) as beside:
        beside.write_text(text, encoding="utf-8")


def write_json(path: str | Path, content: Any, indent: int | None = 1) -> None:
    """Write a JSON file, whole or not at all."""
    write_text(path, json.dumps(content, indent=indent, ensure_ascii=False) + "\n")
