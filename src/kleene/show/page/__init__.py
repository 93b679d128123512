"""Pages: one self-contained HTML file each, without network or server.

The data is compressed and in base64, so no text of a program or an input can become HTML. The scripts of the page only
set text. A content policy allows these scripts, by hash, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from kleene.errors import NotSupported
from kleene.files import write_text

SCRIPTS = {  # the scripts of each kind of page; the last one starts it
    "program": (
        "core.js",
        "player.js",
        "grid.js",
        "attention.js",
        "text.js",
        "network.js",
        "run.js",
        "wiring.js",
        "weights.js",
        "program.js",
        "start.js",
    ),
    "rnn": (
        "core.js",
        "player.js",
        "grid.js",
        "diagram.js",
        "exact.js",
        "words.js",
        "weights.js",
        "rnn.js",
        "start.js",
    ),
    "heat": ("core.js", "heat.js", "start.js"),
    "computer": ("core.js", "player.js", "computer.js", "start.js"),
}
MAX_BYTES = 64 * 1024 * 1024
FRAME_HEIGHT = 640


@dataclass(frozen=True)
class Page:
    """The content of a page: its kind, its title and its data."""

    kind: str
    title: str
    data: dict[str, Any]

    def html(self) -> str:
        """Build the page as one text."""
        style, script = _asset("page.css"), "\n".join(_asset(name) for name in SCRIPTS[self.kind])
        packed = json.dumps({"kind": self.kind, **self.data}, ensure_ascii=False, separators=(",", ":"))
        data = base64.b64encode(zlib.compress(packed.encode(), 9)).decode()
        if len(data) > MAX_BYTES:
            raise NotSupported(
                f"{self.title}: the page would have {len(data):,} bytes, more than {MAX_BYTES:,}; show fewer layers"
            )
        content = {
            "title": html.escape(self.title),
            "style": style,
            "script": script,
            "data": data,
            "style_hash": _hash(style),
            "script_hash": _hash(script),
            "version": page_version(self.kind),
        }
        return re.sub(r"\{\{(\w+)\}\}", lambda found: content[found[1]], _asset("page.html"))

    def write(self, path: str | Path | None) -> str:
        """Return the page; with a path, also write it there, whole or not at all."""
        text = self.html()
        if path is not None:
            write_text(path, text)
        return text

    def framed(self) -> str:
        """Wrap the page in a frame for a notebook, so that several pages do not interfere."""
        return (
            f'<iframe srcdoc="{html.escape(self.html())}" sandbox="allow-scripts" title="{html.escape(self.title)}" '
            f'style="box-sizing:border-box;width:100%;height:{FRAME_HEIGHT}px;border:1px solid #8884;border-radius:8px"'
            "></iframe>"
        )


@cache
def page_version(kind: str) -> str:
    """The version of a kind of page: a fingerprint of the files that it is made from."""
    parts = [_asset(name) for name in ("page.html", "page.css", *SCRIPTS[kind])]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@cache
def _asset(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


class Numbered:
    """Number distinct items in order of first appearance; `items` lists them."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self._numbers: dict[Any, int] = {}

    def __call__(self, thing: Any) -> int:
        number = self._numbers.setdefault(thing, len(self.items))
        if number == len(self.items):
            self.items.append(thing)
        return number


def gaps(places: Iterable[int]) -> list[int]:
    """Encode ascending numbers as their differences, which compress better.

    >>> gaps([3, 4, 9])
    [3, 1, 5]
    """
    listed = list(places)
    return [here - before for before, here in zip([0, *listed], listed)]
