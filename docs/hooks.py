"""What the site makes as it is built: live pages, and a reference of one page a room."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
HOUSE = ROOT / "src" / "kleene"
sys.path.insert(0, str(HOUSE.parent))
ALONE = ("verbs", "arrows", "errors", "checker")  # files that are rooms by themselves
HIDDEN = ("cli",)  # `kleene --help` describes it


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made here."""
    for path, content in {**reference(), **live_pages()}.items():
        files.append(File.generated(config, path, content=content))
    return files


def live_pages() -> dict[str, str]:
    """Pages that run networks, for the landing page and the guide."""
    import kleene as kl

    even = kl.compile(kl.regex("(0|10*1)*", alphabet="01"))
    return {
        "live/addition.html": kl.library.addition.trace("34+58").to_html(),
        "live/automaton.html": kl.explain(even, "0110").to_html(title="An even number of ones"),
        "live/machine.html": kl.explain(kl.compile(kl.library.turing_machines.POWERS_OF_TWO), "1111").to_html(
            title="Is the length a power of two?"
        ),
    }


# The reference


def reference() -> dict[str, str]:
    """The pages of the reference: all names that users may rely on, and each room's modules."""
    pages = {f"reference/{room}.md": room_page(room) for room in rooms()}
    return {"reference/index.md": names_page(), **pages}


def rooms() -> list[str]:
    """Every room of the house, those on top first."""
    packages = sorted(found.parent.name for found in HOUSE.glob("*/__init__.py"))
    return [*ALONE[:1], *(name for name in packages if name not in HIDDEN), *ALONE[1:]]


def room_page(room: str) -> str:
    """One page a room: what it is for, and every module with its signatures."""
    if room in ALONE:
        return f"# {room}\n\n::: kleene.{room}\n{OPTIONS}"
    said, modules = docstring(HOUSE / room / "__init__.py"), []
    for path in sorted((HOUSE / room).rglob("*.py")):
        inside = path.relative_to(HOUSE).with_suffix("")
        if path.name != "__init__.py" and public(path):
            modules.append(f"## {'.'.join(inside.parts[1:])}\n\n::: kleene.{'.'.join(inside.parts)}\n{OPTIONS}")
    return "\n".join([f"# {room}\n\n{said}\n", *modules])


OPTIONS = "    options: {show_root_heading: false, show_root_toc_entry: false}\n"


def names_page() -> str:
    """Everything that `import kleene as kl` offers, with its first line and where it stands."""
    rows = []
    for name, module in sorted(public_names().items(), key=lambda found: found[0].lower()):
        path = HOUSE.joinpath(*module.split(".")[1:])
        package = path.is_dir()
        source = path / "__init__.py" if package else path.with_suffix(".py")
        first = docstring(source, name) or docstring(source)
        room = module.split(".")[1]
        anchor = "" if package or module.endswith(f".{name}") else f"#{module}.{name}"
        line = re.sub(r"\s+", " ", first.split("\n\n")[0]).replace("|", "\\|").replace("][", "]\\[")
        rows.append(f"| [`kl.{name}`]({room}.md{anchor}) | {line} |")
    listed = "\n".join(f"- [{room}]({room}.md): {summary(room)}" for room in rooms())
    return (
        "# Reference\n\nEverything that `import kleene as kl` offers. What is not in this table may change.\n\n"
        "| name | what it is |\n|---|---|\n" + "\n".join(rows) + f"\n\n## The rooms\n\n{listed}\n"
    )


def summary(room: str) -> str:
    """The first sentence about a room."""
    path = HOUSE / f"{room}.py" if room in ALONE else HOUSE / room / "__init__.py"
    return docstring(path).split("\n\n")[0].replace("\n", " ")


def public_names() -> dict[str, str]:
    """The module of each name in `kleene.__all__`."""
    import kleene as kl

    found = {name: f"kleene.{name}" for name in kl.__all__}
    for node in ast.walk(ast.parse((HOUSE / "__init__.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = alias.asname or alias.name
                inside = HOUSE.joinpath(*node.module.split(".")[1:], alias.name)
                module = inside.is_dir() or inside.with_suffix(".py").exists()
                if name in found:
                    found[name] = f"{node.module}.{alias.name}" if module else node.module
    return found


def docstring(path: Path, name: str | None = None) -> str:
    """The docstring of a module, or of a name in it; empty where there is none."""
    tree = parsed(path)
    if name is None:
        return ast.get_docstring(tree) or ""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name and ast.get_docstring(node):
            return ast.get_docstring(node) or ""
    return ""


@cache
def parsed(path: Path) -> ast.Module:
    """The syntax of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def public(path: Path) -> bool:
    """Whether a module has a function or class without an underscore."""
    tree = parsed(path)
    return any(isinstance(n, ast.FunctionDef | ast.ClassDef) and not n.name.startswith("_") for n in tree.body)
