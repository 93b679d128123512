"""For the reference: examples in docstrings become blocks of code, and a[i][j] stays what it is in Markdown."""

from __future__ import annotations

import re
from typing import Any

import griffe

BRACKETS = re.compile(r"\]( ?)\[")  # a[i][j], and the options of a command: no links
EXAMPLE = re.compile(r"^(>>> .*\n(?:.+\n?)*)", re.MULTILINE)


class Docstrings(griffe.Extension):
    """Rewrites every docstring as it is read; the source stays as it is."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called for each module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(text: str) -> str:
    """Examples (>>> until an empty line) fenced; brackets outside them escaped."""
    parts = EXAMPLE.split(text if text.endswith("\n") else text + "\n")
    fenced = [
        f"\n```python\n{part}```\n" if part.startswith(">>> ") else BRACKETS.sub(r"]\1\\[", part) for part in parts
    ]
    return "".join(fenced)
