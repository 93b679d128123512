"""The public surface as type checkers see it: right uses pass with their types, wrong uses are errors."""

from __future__ import annotations

import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import typing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import kleene as kl
from kleene import arrows, verbs

ROOT = Path(__file__).parent.parent
USES = ROOT / "tests" / "typing"

Errors = dict[str, dict[int, list[str]]]  # file → line → messages
Revealed = dict[tuple[str, int], str]  # file and line → type


def first_program() -> str:
    """The first program of README.md and what is done with it, as written."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    calls = "".join(f"{line[4:]}\n" for line in blocks[1].splitlines() if line.startswith(">>> "))
    return blocks[0] + calls


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """right.py, wrong.py, the README's first program, and a file that asks for the type of every public name."""
    folder = tmp_path_factory.mktemp("typing")
    for name in ("right.py", "wrong.py"):
        shutil.copy(USES / name, folder / name)
    (folder / "readme.py").write_text("# mypy: allow-untyped-defs\n" + first_program(), encoding="utf-8")
    lines = ["import kleene as kl", *(f"reveal_type(kl.{name})" for name in public_names())]
    (folder / "names.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "members.py").write_text(members_file(), encoding="utf-8")
    return folder


def public_names() -> list[str]:
    return sorted(kl.__all__)


# members that hold what a user or another package chose, and so have no type of their own
ANY = {
    "Head.default",  # a value of any kind
    "Variable.default",
    "Transformer.apply",  # overloaded: torch's own with a function
    "Transformer.decode",  # values of the vocabulary
    "MambaAcceptor.model",  # modules of transformers
    "OlmoHybridAcceptor.model",
    "StockModel.model",
    "MambaAcceptor.convolution",
    "OlmoHybridAcceptor.convolution",
}


def public_members() -> list[tuple[str, str]]:
    """(class, member) of every public method, property and field of the public classes."""
    found = []
    for name in public_names():
        cls = getattr(kl, name)
        if inspect.isclass(cls) and cls is not kl.Program:
            owners = [owner for owner in cls.__mro__ if owner.__module__.startswith("kleene")]
            members = {member for owner in owners for member in {**vars(owner), **inspect.get_annotations(owner)}}
            found += [(name, member) for member in sorted(members) if not member.startswith("_")]
    return found


def members_file() -> str:
    """A function per member that asks for its type."""
    generic = {"Head": "kl.Head[int]", "Variable": "kl.Variable[int]"}
    lines = ["import kleene as kl"]
    for number, (name, member) in enumerate(public_members()):
        lines.append(f"def f{number}(x: {generic.get(name, f'kl.{name}')}) -> None: reveal_type(x.{member})")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def mypy(folder: Path) -> tuple[Errors, Revealed]:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", "--no-pretty", *map(str, sorted(folder.glob("*.py")))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
    )
    assert done.returncode in (0, 1), done.stderr + done.stdout
    errors: Errors = {}
    revealed: Revealed = {}
    for path, line, kind, message in re.findall(r"^(.+?):(\d+): (error|note): (.*)$", done.stdout, re.MULTILINE):
        if kind == "error":
            errors.setdefault(Path(path).name, {}).setdefault(int(line), []).append(message)
        elif message.startswith("Revealed type is"):
            revealed[Path(path).name, int(line)] = message.partition('"')[2].rstrip('"')
    return errors, revealed


@pytest.fixture(scope="module")
def pyright(folder: Path) -> tuple[Errors, Revealed]:
    settings = {"extraPaths": [str(ROOT / "src")], "reportUnusedExpression": False}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson", "-p", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout.startswith("{"):
        pytest.skip(f"pyright cannot be started: {(done.stderr or done.stdout).strip()[-200:]}")
    errors: Errors = {}
    revealed: Revealed = {}
    for found in json.loads(done.stdout)["generalDiagnostics"]:
        name, line = Path(found["file"]).name, found["range"]["start"]["line"] + 1
        if found["severity"] == "error":
            errors.setdefault(name, {}).setdefault(line, []).append(found["message"])
        elif found["severity"] == "information":
            revealed[name, line] = found["message"].partition(" is ")[2].strip('"')
    return errors, revealed


Checker = tuple[str, Errors, Revealed]


@pytest.fixture(params=["mypy", "pyright"])
def checker(request: pytest.FixtureRequest) -> Checker:
    return (request.param, *request.getfixturevalue(request.param))


def test_right_uses_pass_with_their_types(checker: Checker) -> None:
    _, errors, _ = checker
    assert errors.get("right.py", {}) == {}


def test_the_first_program_of_the_readme_passes_as_written(checker: Checker) -> None:
    _, errors, _ = checker
    assert errors.get("readme.py", {}) == {}


def test_every_wrong_use_is_an_error_and_nothing_else_is(checker: Checker) -> None:
    name, errors, _ = checker
    lines = (USES / "wrong.py").read_text(encoding="utf-8").splitlines()
    wrong = {number for number, line in enumerate(lines, 1) if line.endswith(("# wrong", f"# wrong ({name})"))}
    found = errors.get("wrong.py", {})
    assert [lines[n - 1] for n in sorted(wrong - found.keys())] == []
    assert {lines[n - 1]: found[n] for n in sorted(found.keys() - wrong)} == {}


def test_no_public_name_is_any(checker: Checker) -> None:
    _, errors, revealed = checker
    names = public_names()
    assert errors.get("names.py", {}) == {}
    untold = [name for line, name in enumerate(names, 2) if revealed["names.py", line] in ("Any", "Unknown", "object")]
    assert untold == []


def test_no_public_member_is_any_or_returns_it(checker: Checker) -> None:
    _, errors, revealed = checker
    assert errors.get("members.py", {}) == {}
    told = {f"{name}.{member}": revealed["members.py", line] for line, (name, member) in enumerate(public_members(), 2)}
    assert len(told) > 500
    untold = {name for name, kind in told.items() if re.fullmatch(r"(.*-> )?(Any|Unknown)( \| None)?", kind)}
    assert untold - ANY == set()


# --- what checkers are told is what there is ----------------------------------------------------------------


def test_lazy_names_are_told_to_checkers_and_nothing_else() -> None:
    text = (ROOT / "src" / "kleene" / "__init__.py").read_text(encoding="utf-8")
    block = text.partition("if TYPE_CHECKING:")[2].partition("\n\n")[0]
    told = {name: module for module, name in re.findall(r"from ([\w.]+) import (\w+) as \2", block)}
    for name in ("rasp", "subleq", "three_address"):  # modules, imported from their package
        told[name] += f".{name}"
    assert told == kl._LAZY


FORWARDED = {
    "ExactRNN": "DFA",
    "GatedRNN": "DFA",
    "LinearRNN": "DFA",
    "Transformer": "DFA",
    "Decider": "TuringMachine",
}  # verify(network, None, …) takes the machine's options


def options_of(function: Any) -> dict[str, Any]:
    """The keyword-only options of a function, with their defaults."""
    return {
        parameter.name: parameter.default
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }


def classes(annotation: str) -> list[str]:
    return [name.strip() for name in annotation.split("|")]


def arrow(verb: str, kind: str) -> Any:
    """The function that does a verb (or an export) for a class, by the class's name."""
    tables = [table[verb] for table in (arrows.NETWORKS, arrows.EXPORTS, arrows.ARROWS) if verb in table]
    found = (target for table in tables for name, target in table.items() if name.endswith(f".{kind}"))
    return arrows.resolve(next(found))


def overloads() -> list[Any]:
    """(verb, class, what checkers are told, what there is) for each overload and class."""
    found = []
    for name in [*arrows.ARROWS, "export"]:
        for told in typing.get_overloads(getattr(verbs, name)):
            parameters = inspect.signature(told).parameters
            first = next(iter(parameters.values())).annotation
            known = name if name not in ("compile", "export") or "to" not in parameters else parameters["to"].annotation
            for kind in classes(first):
                for verb in re.findall("[\"']([^\"']*)[\"']", known) or [known]:
                    found.append(pytest.param(verb, kind, told, id=f"{verb}-{kind}-{len(found)}"))
    return found


@pytest.mark.parametrize(("verb", "kind", "told"), overloads())
def test_an_overload_has_the_options_of_its_arrow(verb: str, kind: str, told: Any) -> None:
    options = options_of(told)
    if verb in arrows.NETWORKS:
        options.pop("to", None)
    if verb == "learn":
        from kleene.training.end_to_end import END_TO_END, learn_end_to_end
        from kleene.training.from_traces import FROM_TRACES, learn_from_traces

        traced = options.pop("supervision") == "trace"
        grouped = options_of(learn_from_traces if traced else learn_end_to_end)
        real = {name: value for name, value in grouped.items() if name not in ("shape", "plan", "storage")}
        for default in FROM_TRACES if traced else END_TO_END:
            real |= asdict(default)
    elif verb == "verify" and kind in FORWARDED:
        real = options_of(arrow(verb, FORWARDED[kind]))
    else:
        real = options_of(arrow(verb, kind))
    required = {name for name, default in options.items() if default is inspect.Parameter.empty}  # "afa" has no default
    assert required <= {"to", "vocab", "max_seq_len", "bridge"}
    assert {**options, **{name: real[name] for name in required}} == real


def test_every_arrow_has_an_overload() -> None:
    told = {(verb, kind) for verb, kind, _ in (case.values for case in overloads())}
    real = {(verb, name.rpartition(".")[2]) for verb, table in arrows.ARROWS.items() for name in table}
    real |= {(to, name.rpartition(".")[2]) for to, table in arrows.NETWORKS.items() for name in table}
    real -= {("compile", kind) for _, kind in told if any((to, kind) in told for to in arrows.NETWORKS)}  # its default
    real |= {(to, name.rpartition(".")[2]) for to, table in arrows.EXPORTS.items() for name in table}
    assert told == real


@pytest.mark.parametrize("name", [*arrows.ARROWS, "export", "load"])
def test_the_docstring_of_a_verb_names_each_option(name: str) -> None:
    function = getattr(verbs, name)
    options = {option for told in typing.get_overloads(function) for option in options_of(told)}
    missing = {option for option in options if f"`{option}`" not in (function.__doc__ or "")}
    assert missing == set()


PUBLIC_FUNCTIONS = [name for name in kl.__all__ if inspect.isfunction(getattr(kl, name)) and not hasattr(verbs, name)]


@pytest.mark.parametrize("name", PUBLIC_FUNCTIONS)
def test_the_docstring_of_a_public_function_names_each_option(name: str) -> None:
    function = getattr(kl, name)
    missing = {option for option in options_of(function) if f"`{option}`" not in (function.__doc__ or "")}
    assert missing == set()


def test_types_cost_no_import() -> None:
    """`import kleene` imports neither torch nor what only checkers need."""
    script = (
        "import sys, kleene; print(sorted({'torch', 'onnx', 'transformers', 'transformer_lens'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
