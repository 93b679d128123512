"""The description in the wheel: README.md with absolute links, so that a package index renders it.

The address is that of git's `origin`, or KLEENE_ADDRESS. Without one, links into the repository become plain text, and
its pictures are left out: a link that leads nowhere helps nobody.
"""

import os
import re
import subprocess
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?://|#)([^)\s]+)\)")


def address() -> str:
    """Where the repository is on the web; empty where nobody says so."""
    said = os.environ.get("KLEENE_ADDRESS", "")
    if not said and (ROOT / ".git").exists():
        asked = subprocess.run(["git", "remote", "get-url", "origin"], cwd=ROOT, capture_output=True, text=True)
        said = re.sub(r"^git@([^:]+):", r"https://\1/", asked.stdout.strip())
    return said.removesuffix(".git").rstrip("/") if said.startswith("https://") else ""


def absolute(text: str, base: str) -> str:
    """Every link and picture with the address in front of it."""

    def link(found: re.Match[str]) -> str:
        picture, label, target = found.groups()
        if not base:
            return "" if picture else label
        return f"{picture}[{label}]({base}/{'raw' if picture else 'blob'}/main/{target})"

    return LINK.sub(link, text)


def description() -> str:
    """The README with absolute links; in an unpacked source distribution, the one that was made for it."""
    made = ROOT / "PKG-INFO"
    if made.exists():
        return made.read_text(encoding="utf-8").partition("\n\n")[2]
    return absolute((ROOT / "README.md").read_text(encoding="utf-8"), address())


if __name__ == "__main__":
    setup(long_description=description(), long_description_content_type="text/markdown")
