"""Reading and writing files safely: sizes checked first, nothing half-written, nothing executed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kleene.errors import FileError, InputError

MAX_JSON_BYTES = 256 * 1024 * 1024
MAX_PARAMETERS = 2_000_000_000  # of a network that is built or loaded
MAX_ENTRIES = 1 << 24  # of an instruction table, and of a network that has memorised one


def read_text(path: str | Path, limit: int = MAX_JSON_BYTES) -> str:
    """The text of a file of at most `limit` bytes."""
    path = Path(path)
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise FileError(f"{path}: not a file")
        if size > limit:
            raise FileError(f"{path}: {size:,} bytes, more than the {limit:,} that are read")
        return path.read_text(encoding="utf-8-sig")  # a byte-order mark is no text
    except FileNotFoundError:
        raise FileError(f"{path}: no such file") from None
    except UnicodeDecodeError:
        raise FileError(f"{path}: not UTF-8 text") from None
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror})") from None


def read_json(path: str | Path, limit: int = MAX_JSON_BYTES) -> Any:
    """The content of a JSON file."""
    try:
        return json.loads(read_text(path, limit), object_pairs_hook=_distinct)
    except (ValueError, RecursionError) as error:  # ValueError: also a number of too many digits
        raise FileError(f"{path}: not JSON ({error})") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; a key that is there twice is refused, since readers disagree on which one counts."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r:.60} is there twice in one object; each key once")
    return found


def as_path(path: object) -> Path:
    """A path from what a user gave as one."""
    if not isinstance(path, str | os.PathLike) or isinstance(path, bytes):
        raise InputError(f"path {path!r:.60}: a {type(path).__name__}; it should be a file's name")
    return Path(path)


def check_version(path: Path, content: Any, version: int) -> None:
    """A FileError where a file was written by a Kleene that writes it in another way."""
    found = content.get("version") if isinstance(content, dict) else None
    if found != version:
        raise FileError(f"{path}: version {found!r}; this Kleene reads version {version}")


@contextlib.contextmanager
def written_atomically(path: str | Path) -> Iterator[Path]:
    """A path beside `path` to write to; it takes the place of `path` when the block ends without error.

    Works for a file and for a folder: whichever the block made at the path that it was given.
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
