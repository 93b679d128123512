"""The README and the pages in docs say what is so: every python block in them is run."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^ *```python\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_python_blocks_run(page, tmp_path, monkeypatch):
    """Blocks of one page share their names; a block with >>> must print what it shows."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": page.stem}
    text = page.read_text(encoding="utf-8")
    for block in BLOCK.finditer(text):
        line, code = text[: block.start()].count("\n") + 1, dedent(block[1])
        if ">>>" in code:
            test = doctest.DocTestParser().get_doctest(code, names, page.name, str(page), line)
            runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
            said: list[str] = []
            runner.run(test, out=said.append, clear_globs=False)
            assert runner.summarize(verbose=False).failed == 0, "".join(said)
            names.update(test.globs)
        else:
            exec(compile("\n" * line + code, str(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_lead_somewhere(page):
    """Links and pictures that point into the repository point at something."""
    for target in re.findall(r"\]\(([^)#\s]+)\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target
