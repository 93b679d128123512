"""A folder for what can be made again: compiled networks and generated code, by the hash of what they come from."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path

SOURCES = Path(__file__).resolve().parent.parent


def cache_folder() -> Path:
    """KLEENE_CACHE, or `kleene` in the user's folder for caches."""
    if chosen := os.environ.get("KLEENE_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kleene"


@cache
def hash_of_sources(rooms: tuple[str, ...]) -> str:
    """A hash of the source files of some rooms of Kleene, so that what they make is made again when they change."""
    made = hashlib.sha256()
    for room in rooms:
        for path in sorted((SOURCES / room).rglob("*.py")):
            made.update(str(path.relative_to(SOURCES)).encode() + b"\0" + path.read_bytes() + b"\0")
    return made.hexdigest()


def hash_of_texts(texts: Iterable[str]) -> str:
    """A hash of some texts."""
    made = hashlib.sha256()
    for text in texts:
        made.update(text.encode() + b"\0")
    return made.hexdigest()
