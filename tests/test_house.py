"""The house is as docs/extending.md says: imports point downwards, the walk names real places, tests mirror rooms."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest
from radon.complexity import cc_visit

import kleene as kl
from data_sets import ROOT
from kleene.networks.synthesizer.descriptions import by_index

SOURCE = ROOT / "src" / "kleene"
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
FILES = sorted(SOURCE.rglob("*.py"))
ABOVE_ALL = {"arrows", "verbs", "__init__", "__main__"}  # they name every room
MAY_IMPORT_THE_TOP = {"papers", "cli"}
TRACE = SOURCE / "machines" / "trace.py"  # may collect what a page shows
MOST_COMPLEX = 20


def room_of(path: Path) -> str:
    """The room of a file, or the file's own name at the root."""
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def room_named(module: str) -> str:
    """The room of a module by its dotted name; the package itself is "__init__"."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def stated_order() -> dict[str, int]:
    """Room → its place in the order that the page states, counted from the top."""
    (stated,) = re.findall(r"`(cli → .*?)`", PAGE, re.DOTALL)
    groups = stated.replace("\n", " ").split("→")
    return {room.strip(): place for place, rooms in enumerate(groups) for room in rooms.split(",")}


def imports(tree: ast.AST, package: str, inside: bool = False) -> Iterator[tuple[str, bool]]:
    """Every import of the package, and whether it is inside a function or for type checkers only.

    package: the dotted name of the folder that the file is in, from which relative imports count.
    """
    for node in ast.iter_child_nodes(tree):
        deferred = inside or isinstance(node, ast.FunctionDef) or _for_checkers(node)
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*parents, *([node.module] if node.module else [])])
            names = [f"kleene.{alias.name}" for alias in node.names] if module == "kleene" else [module]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__"):
            names = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
        else:
            names = []
        yield from ((name, inside) for name in names if str(name).split(".")[0] == "kleene")
        yield from imports(node, package, deferred)


def _for_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def violations(path: Path, tree: ast.AST) -> list[str]:
    """The imports of a file that do not point downwards."""
    order, here, found = stated_order(), room_of(path), []
    package = ".".join(["kleene", *path.relative_to(SOURCE).parent.parts])
    for name, deferred in imports(tree, package):
        there = room_named(name)
        if there == here or (here in MAY_IMPORT_THE_TOP and there not in order and there != "checker"):
            continue
        if deferred and (there == "show" or (path == TRACE and name == "kleene.evidence.program_page")):
            continue
        if there == "checker" and here in ("checks", "cli"):
            continue
        if there not in order or order[there] <= order[here] or (here, there) == ("networks", "machines"):
            found.append(f"{path.relative_to(SOURCE)} imports {name}")
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_downwards(path):
    if room_of(path) in ABOVE_ALL | {"checker"}:
        return  # tests/checker looks at what the checker imports
    assert violations(path, ast.parse(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "file, text",
    [
        ("machines/turing.py", "from kleene.lowering import rules"),
        ("machines/turing.py", "def f():\n    from kleene.verbs import decompile"),
        ("networks/rnn/exact.py", "from kleene.machines.turing import TuringMachine"),
        ("networks/rnn/exact.py", "from kleene.lowering.forms import Form"),
        ("lowering/rules.py", "from kleene.show.terminal import rules_text"),
        ("checks/agreement.py", "import kleene as kl"),
        ("machines/turing.py", "from ..verbs import compile"),
        ("machines/turing.py", "def f():\n    from .. import verbs"),
        ("machines/automata/dfa.py", "from ...rasp.program import compile"),
        ("common/text.py", "def f():\n    return importlib.import_module('kleene.verbs')"),
        ("evidence/trace.py", "def f():\n    from kleene.papers.tasks import Plan"),
        ("lowering/trace.py", "def f():\n    from kleene.evidence.program_page import program_page"),
    ],
)
def test_an_import_that_points_upwards_is_found(file, text):
    assert violations(SOURCE / file, ast.parse(text)) != []


@pytest.mark.parametrize(
    "file, text",
    [
        ("machines/turing.py", "from .spec import Spec"),
        ("machines/automata/dfa.py", "from ..spec import Spec\nfrom ...common.text import Text"),
        ("machines/trace.py", "def f():\n    from kleene.evidence.program_page import program_page"),
        ("lowering/rules.py", "def f():\n    from kleene.show.terminal import rules_text"),
        ("papers/tasks.py", "import kleene as kl"),
    ],
)
def test_an_import_that_points_downwards_is_not(file, text):
    assert violations(SOURCE / file, ast.parse(text)) == []


def test_every_room_is_in_the_order():
    rooms = {room_of(path) for path in FILES} - ABOVE_ALL - {"checker"}
    assert rooms == set(stated_order())


def test_the_walk_names_real_places():
    """Each file of the walk is there and defines what the page says to look for; the walks are short."""
    steps = re.findall(r"^\| (\d+) \| `([^`]+)` \| `([^`]+)` \|", PAGE, re.MULTILINE)
    assert 5 <= len(steps) <= 8 and [int(number) for number, _, _ in steps] == list(range(1, len(steps) + 1))
    for _, file, name in steps:
        assert name in defined(SOURCE / file), f"{file} does not define {name}"
    others = re.findall(r"^\| [^|`]+ \| ((?:`[^`]+\.py`(?:, )?)+) \|", PAGE, re.MULTILINE)
    assert len(others) >= 5
    for listed in others:
        files = re.findall(r"`([^`]+)`", listed)
        assert len(files) <= 6
        for file in files:
            assert (SOURCE / file).is_file(), f"{file} is not there"


def entered(*calls: Callable[[], object]) -> set[tuple[str, str]]:
    """(file, function or class) of everything in the house that some calls enter."""
    found = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(SOURCE):
            found.add((path.relative_to(SOURCE).as_posix(), frame.f_code.co_qualname.split(".")[0]))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        for call in calls:
            call()
    finally:
        sys.setprofile(before)
    return found


def walk_program() -> None:
    class Flip(kl.Program):
        tokens, layers = 2, 1
        bit = kl.cat(2, token=lambda t: t)
        left = kl.relative(bit, -1, default=0)
        output = bit

        def step(z):
            z.bit = 1 - z.left

    assert kl.compile(Flip).run([1, 1]) == [1, 0]


def walk_automaton() -> None:
    even = kl.regex("(0|10*1)*", alphabet="01")
    rnn = kl.compile(even)
    assert rnn.accepts("11") and kl.decompile(rnn).equivalent(even) and kl.certify(rnn).holds


def walk_turing() -> None:
    net = kl.compile(kl.TuringMachine.parse("1RB1LB_1LA1RZ"))
    assert net.decide("", max_steps=10).steps == 6 and kl.certify(net).holds


def walk_table() -> None:
    table = kl.InstructionTable([[(0, 0, 1), (1, 0, 0)]])
    net = kl.compile(table)
    machine = kl.Synthesizer(net, table.sizes, kl.subleq.Executor(), by_index)
    assert machine.instructions(0, [1]) == [(1, 0, 0)] and kl.certify(net).holds


def test_the_walk_is_what_happens() -> None:
    """Compiling and running a program enters each file of the walk, in the function that the page names."""
    steps = re.findall(r"^\| \d+ \| `([^`]+)` \| `([^`]+)` \|", PAGE, re.MULTILINE)
    assert set(steps) - entered(walk_program) == set()


@pytest.mark.parametrize(
    "what, walk",
    [("an automaton", walk_automaton), ("a Turing machine", walk_turing), ("an instruction table", walk_table)],
)
def test_the_other_walks_are_what_happens(what: str, walk: Callable[[], None]) -> None:
    (listed,) = re.findall(rf"^\| {what} \| (.*) \|$", PAGE, re.MULTILINE)
    assert set(re.findall(r"`([^`]+)`", listed)) - {file for file, _ in entered(walk)} == set()


def defined(path: Path) -> set[str]:
    """The classes and functions at the top of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}


def test_tests_mirror_the_house():
    """tests/<room>/test_<file>.py, or test_<file>_<what of it>.py, tests src/kleene/<room>/<file>.py."""
    strangers = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        room = path.parent.relative_to(ROOT / "tests")
        if room == Path() or room.parts[0] not in {file.name for file in SOURCE.iterdir()}:
            continue  # tests of the whole house, of proofs, of the checker
        names = {file.stem for file in (SOURCE / room).glob("*.py")} | {room.name}
        name = path.stem.removeprefix("test_")
        if not any(name == known or name.startswith(f"{known}_") for known in names):
            strangers.append(str(path.relative_to(ROOT)))
    assert strangers == []


@pytest.mark.parametrize(
    "path",
    [*FILES, *sorted((SOURCE.parents[1] / "proofs").glob("*.py"))],
    ids=lambda path: "/".join(path.parts[len(SOURCE.parts) :] if SOURCE in path.parents else path.parts[-2:]),
)
def test_functions_are_simple(path):
    blocks = cc_visit(path.read_text(encoding="utf-8"))
    functions = [block for block in blocks if not hasattr(block, "methods")]
    assert [f"{block.fullname}: {block.complexity}" for block in functions if block.complexity > MOST_COMPLEX] == []
