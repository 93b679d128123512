"""The files around the package say the same: versions, Pythons, commands and pins."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

import kleene

ROOT = Path(__file__).parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PYTHONS = ["3.11", "3.12", "3.13"]


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def commands_of(target: str) -> list[str]:
    """The recipe of a target of the Makefile."""
    recipe = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", text("Makefile"), re.MULTILINE)
    assert recipe is not None, f"the Makefile has no target {target}"
    return [line.strip() for line in recipe[1].splitlines()]


def test_the_workflow_runs_what_ci_runs() -> None:
    job = yaml.safe_load(text(".github/workflows/ci.yml"))["jobs"]["test"]
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
    script = text(".ci/run").splitlines()
    assert {"make lint", "make docs", "make test", ".ci/first_ten_minutes"} <= set(script)
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111


def test_every_place_names_the_same_pythons() -> None:
    job = yaml.safe_load(text(".github/workflows/ci.yml"))["jobs"]["test"]
    assert job["strategy"]["matrix"]["python"] == PYTHONS
    prefix = "Programming Language :: Python :: 3."
    told = [line.rpartition(" ")[2] for line in PROJECT["project"]["classifiers"] if line.startswith(prefix)]
    assert told == PYTHONS
    assert PROJECT["project"]["requires-python"] == f">={PYTHONS[0]}"
    for page in ("README.md", "CONTRIBUTING.md"):
        assert f"Python {PYTHONS[0]}, {PYTHONS[1]} or {PYTHONS[2]}" in text(page)
    assert PROJECT["tool"]["mypy"]["python_version"] == PYTHONS[0]
    assert PROJECT["tool"]["pyright"]["pythonVersion"] == PYTHONS[0]


def test_the_version_stands_in_one_place() -> None:
    assert "version" in PROJECT["project"]["dynamic"] and "version" not in PROJECT["project"]
    assert PROJECT["tool"]["setuptools"]["dynamic"]["version"]["attr"] == "kleene.__version__"
    assert yaml.safe_load(text("CITATION.cff"))["version"] == kleene.__version__
    newest = re.search(r"^## \[(.+?)\](.*)$", text("CHANGELOG.md"), re.MULTILINE)
    assert newest is not None
    assert kleene.__version__.removesuffix(".dev0") == newest[1]
    assert kleene.__version__.endswith(".dev0") == ("unreleased" in newest[2])


def test_every_dependency_is_pinned() -> None:
    extras = PROJECT["project"]["optional-dependencies"].values()
    wanted = {
        re.split(r"[\[<>= ]", line)[0].lower()
        for lines in [PROJECT["project"]["dependencies"], *extras]
        for line in lines
    }
    pinned = {line.partition("==")[0].lower() for line in text("constraints.txt").splitlines() if "==" in line}
    assert wanted - pinned == {"types-pyyaml"}  # stubs: any version will do


def test_the_hooks_are_among_the_lint_commands() -> None:
    hooks = yaml.safe_load(text(".pre-commit-config.yaml"))["repos"][0]["hooks"]
    lint = " ".join(commands_of("lint")).replace("$(BIN)", ".venv/bin")
    for hook in hooks:
        assert hook["entry"].removesuffix(" --fix") in lint
    assert ".venv/bin/pyright" in lint


def test_the_commands_that_contributing_names_exist() -> None:
    page = text("CONTRIBUTING.md")
    for target in set(re.findall(r"make ([a-z-]+)", page)) - {"sure"}:
        assert re.search(rf"^{target}:", text("Makefile"), re.MULTILINE), target
    for path in re.findall(r"`((?:machines|lowering|checks|compilers|networks|papers)/[\w./]*)`", page):
        if path not in ("machines/counter.py", "compilers/counter_to_rnn.py"):  # the example
            assert (ROOT / "src" / "kleene" / path).exists(), path
    for path in re.findall(r"pytest ((?:tests|src)/[\w./]+)", page):
        assert (ROOT / path).exists(), path


def test_the_forms_are_well_formed() -> None:
    for form in ("bug", "idea"):
        body = yaml.safe_load(text(f".github/ISSUE_TEMPLATE/{form}.yml"))
        assert body["name"] and body["description"]
        assert all(part["attributes"]["label"] for part in body["body"])


def test_installed_packages_have_types() -> None:
    assert "py.typed" in PROJECT["tool"]["setuptools"]["package-data"]["kleene"]
    assert (ROOT / "src" / "kleene" / "py.typed").exists()
