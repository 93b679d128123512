"""Where a result comes from: the commit, whether the tree was clean, and the code that ran.

A run records a fingerprint of every module of Kleene that its process had loaded. A fingerprint is of the syntax
tree, without docstrings: comments and formatting do not change it.
"""

from __future__ import annotations

import ast
import hashlib
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import kleene

SOURCE = Path(kleene.__file__).parent
APART = ("kleene.cli", "kleene.show", "kleene.exporters", "kleene.papers.report")  # these show results, not make them


def fingerprint(source: str) -> str:
    """A hash of what a module says, blind to docstrings, comments and layout.

    >>> fingerprint("x = 1  # one") == fingerprint("x   =   1") != fingerprint("x = 2")
    True
    """
    return hashlib.sha256(repr(_form(ast.parse(source))).encode()).hexdigest()[:12]


def _form(node: Any) -> Any:
    """A syntax tree as tuples: the same for every version of Python, which `ast.dump` is not."""
    if isinstance(node, list):
        return [_form(part) for part in node]
    if not isinstance(node, ast.AST):
        return repr(node)
    parts = [(name, getattr(node, name, None)) for name in node._fields if name not in ("kind", "type_comment")]
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        parts = [(name, _body(value or []) if name == "body" else value) for name, value in parts]
    return (type(node).__name__, *((name, _form(value)) for name, value in parts if value not in (None, [])))


def _body(lines: list[ast.stmt]) -> list[ast.stmt]:
    """Without the docstring."""
    first = lines[0] if lines else None
    return lines[1:] if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) else lines


def loaded_code() -> dict[str, str]:
    """The modules of Kleene that this process has loaded, by path below the package, with their fingerprints."""
    found = {}
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if not name.startswith("kleene.") or name.startswith(APART) or not path or not path.endswith(".py"):
            continue
        found[Path(path).relative_to(SOURCE).as_posix()] = _of_file(path, Path(path).stat().st_mtime_ns)
    return dict(sorted(found.items()))


def changed_code(recorded: Mapping[str, str]) -> list[str]:
    """The recorded files that are different now, or gone."""
    return [path for path, known in recorded.items() if _now(path) != known]


def _now(path: str) -> str | None:
    file = SOURCE / path
    return _of_file(str(file), file.stat().st_mtime_ns) if file.is_file() else None


@cache
def _of_file(path: str, changed: int) -> str:
    """The fingerprint of a file, computed once as long as the file is not written."""
    return fingerprint(Path(path).read_text(encoding="utf-8"))


def git(*arguments: str) -> str | None:
    """What git says about this source, or None where there is no git."""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=SOURCE, capture_output=True, text=True, check=True, timeout=60, encoding="utf-8"
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout


def commit() -> str:
    """The commit that is checked out; with a plus where the package's source differs from it."""
    head = git("rev-parse", "--short=7", "HEAD")
    if head is None:
        return "unknown"
    return head.strip() + ("+" if git("status", "--porcelain", "--", ".") else "")


def commit_of(recorded: Mapping[str, str], commits: Iterable[str] | None = None) -> str | None:
    """The oldest commit whose files are those recorded; None where none of the last 300 has them all."""
    if commits is None:
        commits = (git("rev-list", "--abbrev-commit", "--abbrev=7", "-n", "300", "HEAD") or "").split()
    known: dict[str, str] = {}
    found = None
    for name in commits if recorded else ():
        listed = git("ls-tree", "-r", name, "--", ".")
        blobs = {}
        for line in (listed or "").splitlines():
            about, _, path = line.partition("\t")
            blobs[path] = about.split()[2]
        if all(path in blobs and _blob(blobs[path], known) == want for path, want in recorded.items()):
            found = name
    return found


def _blob(name: str, known: dict[str, str]) -> str:
    if name not in known:
        known[name] = fingerprint(git("cat-file", "blob", name) or "")
    return known[name]
