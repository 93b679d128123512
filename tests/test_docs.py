"""The README and the pages in docs say what is so: their blocks are run, in order, in one folder a page."""

from __future__ import annotations

import doctest
import importlib.util
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import kleene as kl
from data_sets import EFORTH, ROOT
from kleene.cli import app
from kleene.papers import EXPERIMENTS

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r'^ *```(\w*)(?: title="([^"]+)")?\n(.*?)^ *```', re.MULTILINE | re.DOTALL)
LONG = re.compile(r"kleene (reproduce|learn|demo)\b|--steps \d{9}|--scale paper")  # these are parsed, and not run


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_blocks_run(page, tmp_path, monkeypatch):
    """Blocks of one page share their names and files; what a block shows as printed must be printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    if EFORTH.exists():
        (tmp_path / "subleq.dec").symlink_to(EFORTH)
    names: dict[str, Any] = {"__name__": page.stem}
    text = page.read_text(encoding="utf-8")
    for language, title, code in BLOCK.findall(text):
        line = text[: text.index(code)].count("\n") + 1
        code = dedent(code)
        if title:
            Path(title).write_text("import kleene as kl\n" * (language == "python") + code, encoding="utf-8")
        if language == "python":
            run_python(code, names, page, line)
        elif language == "console":
            run_console(code)


def run_python(code: str, names: dict[str, Any], page: Path, line: int) -> None:
    if ">>>" not in code:
        exec(compile("\n" * (line - 1) + code, str(page), "exec"), names)
        return
    test = doctest.DocTestParser().get_doctest(code, names, f"{page.name}, line {line}", str(page), line)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    said: list[str] = []
    runner.run(test, out=said.append, clear_globs=False)
    assert runner.summarize(verbose=False).failed == 0, "".join(said)
    names.update(test.globs)


def run_console(code: str) -> None:
    """Lines that begin with $ are commands; lines after one are what it prints, … standing for anything."""
    for part in re.split(r"^\$ ", code, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        command = command.partition("  #")[0].strip()
        if "subleq.dec" in command and not EFORTH.exists():
            continue  # the eForth image is in no clone
        printed = run_command(command)
        if shown.strip() and printed is not None:
            pattern = ".*".join(re.escape(" ".join(some.split())) for some in shown.split("…"))
            assert re.search(pattern, " ".join(printed.split()), re.DOTALL), f"$ {command}\n{printed}"


def run_command(command: str) -> str | None:
    """What it prints; nothing for commands that would take long, of which only the arguments are checked."""
    pipe = [shlex.split(part) for part in command.split(" | ")]
    words = pipe[0] if pipe[0][0] != "echo" else pipe[1]
    words[0] = words[0].removeprefix(".venv/bin/")
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), command
        return None
    assert words[0] in ("kleene", "python"), command
    if words[0] == "python":
        done = subprocess.run([sys.executable, *words[1:]], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr
    if LONG.search(command):
        check_arguments(words[1:])
        return None
    typed = " ".join(pipe[0][1:]) + "\n" if pipe[0][0] == "echo" else ""
    result = CliRunner().invoke(app, words[1:], input=typed)
    assert result.exit_code == 0, f"$ {command}\n{result.output}{result.exception}"
    return result.output


def check_arguments(words: list[str]) -> None:
    """The command exists, takes these arguments, and an experiment of that name is known."""
    command: Any = typer.main.get_command(app)
    while hasattr(command, "resolve_command"):
        context = command.make_context("kleene", list(words), resilient_parsing=True)
        name, command, words = command.resolve_command(context, words)
    command.make_context(name, list(words))
    if name == "reproduce" and words:
        assert words[0] in EXPERIMENTS, words[0]


def test_a_wrong_block_is_found():
    """The tests on this page can fail."""
    with pytest.raises(AssertionError):
        run_console("$ kleene run parity_relative 101\n7 7 7\n")
    with pytest.raises(Exception, match="No such option"):
        run_console("$ kleene reproduce alta.scan --no-such-option\n")


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_lead_somewhere(page):
    """Links and pictures that point into the repository, or at a page that the site makes, point at something."""
    made = {ROOT / "docs" / path for path in (*reference(), *LIVE)}
    for target in re.findall(r"\]\(([^)#\s]+)\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            path = page.parent / target
            assert path.exists() or path in made, target


LIVE = ("live/addition.html", "live/automaton.html", "live/machine.html")


@cache
def hooks() -> Any:
    """The module that makes pages of the site."""
    found = importlib.util.spec_from_file_location("site_hooks", ROOT / "docs" / "hooks.py")
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@cache
def reference() -> dict[str, str]:
    """The pages of the reference, as the site makes them."""
    pages: dict[str, str] = hooks().reference()
    return pages


def test_the_site_has_live_pages():
    pages = hooks().live_pages()
    assert set(pages) == set(LIVE) and all('id="data"' in text for text in pages.values())
    assert f'src="{LIVE[0]}"' in (ROOT / "docs" / "index.md").read_text()


def test_the_reference_has_every_public_name_and_every_room():
    pages = reference()
    named = set(re.findall(r"`kl\.(\w+)`", pages["reference/index.md"]))
    assert named == set(kl.__all__)
    listed = (ROOT / "mkdocs.yml").read_text()
    for path in pages:
        assert path in listed, f"mkdocs.yml should name {path}"
    for module in (ROOT / "src" / "kleene").rglob("*.py"):
        inside = module.relative_to(ROOT / "src").with_suffix("")
        room = inside.parts[1]
        if module.name != "__init__.py" and room not in ("cli", "__main__", "files") and hooks().public(module):
            assert f"::: {'.'.join(inside.parts)}\n" in pages[f"reference/{room}.md"]


def test_code_in_the_readme_is_not_cut_off():
    """Comments beside code are seen whole where a package index or a forge shows them."""
    for _, _, code in BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8")):
        assert max(map(len, code.splitlines())) <= 88


@pytest.mark.parametrize("address", ["https://example.org/kleene", ""])
def test_the_description_of_the_wheel_has_absolute_links(address):
    """A package index shows it without the repository beside it."""
    found = importlib.util.spec_from_file_location("kleene_setup", ROOT / "setup.py")
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    text = module.absolute((ROOT / "README.md").read_text(encoding="utf-8"), address)
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    assert targets and all(target.startswith("https://") for target in targets)
    assert ("https://example.org/kleene/raw/main/docs/images/" in text) == bool(address)
