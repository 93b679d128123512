"""The command line, as a user meets it: what is printed, exit codes, one line for bad input."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

import kleene as kl
from kleene.cli import ORDER, main
from kleene.cli.names import find_program, library_programs, read_tokens
from sample_programs import COPY

FILE = (
    COPY
    + """
class Keeps(Copy):
    def step(z):
        pass

class Divides(Copy):
    def step(z):
        z.x = 1 // z.x

class Reads(Copy):
    unset = kl.relative(Copy.x, -1)
    def step(z):
        z.x = z.unset

def copies(values):
    class copies(kl.Program):
        tokens = values
        x = kl.cat(values, token=lambda t: t)
        output = x
        layers = 1
        def step(z):
            pass
    return copies

def seven():
    return 7

number = 3
"""
)


class Result(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def kleene(capsys, monkeypatch, tmp_path):
    """Run the command line in this process, in an empty folder that has programs.py in it."""
    (tmp_path / "programs.py").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def run(*arguments: str) -> Result:
        with pytest.raises(SystemExit) as exit:
            main(arguments)
        captured = capsys.readouterr()
        return Result(exit.value.code, captured.out, captured.err)

    return run


def refused(result: Result, *named: str) -> None:
    """Exit code 2 and one line on standard error that names these."""
    assert result.code == 2, result
    assert result.err.count("\n") == 1 and result.err.startswith("kleene: "), result.err
    assert result.out == ""
    for part in named:
        assert part in result.err, result.err


# --- commands -----------------------------------------------------------------------------------------------


def test_import_leaves_torch_alone():
    code = "import sys, kleene, kleene.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_no_arguments_show_the_help(kleene):
    assert "Commands:" in "".join(kleene()[1:])


def commands() -> list[str]:
    from kleene.cli import app

    return [command.name or command.callback.__name__ for command in app.registered_commands]


@pytest.mark.parametrize("command", commands())
def test_every_command_has_help_with_an_example_and_json(kleene, command):
    result = kleene(command, "--help")
    assert result.code == 0
    assert f"Example: kleene {command}" in result.out
    assert "--json" in result.out


def examples() -> list[str]:
    """The examples of all commands, without the parts of pipes."""
    from kleene.cli import app

    groups = [app, *(group.typer_instance for group in app.registered_groups)]
    texts = [f"{command.callback.__doc__}\n\n{command.epilog}" for one in groups for command in one.registered_commands]
    found = [re.search(r"Example: (kleene .+?)(?:\n\n|$)", text, re.DOTALL) for text in texts]
    assert all(found)
    every = [one for match in found for one in re.split(r", (?:or|after) ", " ".join(match[1].split()))]
    return [one for one in every if "|" not in one]


LONG = ("learn", "reproduce", "demo", "subleq", "riscv", "factory", "score", "compare", "tm")


@pytest.mark.parametrize(
    "example",
    [pytest.param(one, marks=[pytest.mark.slow] if one.split()[1] in LONG else []) for one in examples()],
)
def test_every_example_of_the_help_runs_as_it_stands(kleene, example, monkeypatch):
    """In an empty folder; `score` after the `factory` that its help names."""
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    words = shlex.split(example)[1:]
    if words[0] == "score":
        assert kleene("factory", "--count", "4", "-o", "models/compiled").code == 0
    result = kleene(*words)
    assert result.code == 0, result


@pytest.mark.parametrize("name", ["powers_of_two", "1RB1LB_1LA1RZ"])
def test_turing_machines_have_names_wherever_machines_do(kleene, name):
    word = "11" if name == "powers_of_two" else ""
    assert kleene("run", name, word).out.startswith("accepts\n")
    assert kleene("trace", name, word).out.startswith("RNN of")
    assert kleene("compile", name, "-o", "net").code == 0
    assert kleene("run", "net", word).out.startswith("accepts\n")
    assert kleene("certify", name).code == kleene("verify", name).code == 0
    assert "starts in" in kleene("decompile", name).out
    assert kleene("export", name, "--to", "dot").out.startswith("digraph")
    assert kleene("convert", name, "-o", "machine.json").code == 0
    assert kleene("convert", "net", "-o", "again.json").code == 0
    assert kleene("tm", "again.json", word).out.splitlines()[-1] == kleene("tm", name, word).out.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "lines", "answers"),
    [
        (["run", "addition"], "1+1\n99+1\n", ["2", "100"]),
        (["tm", "powers_of_two"], "11\n111\n", ["11: accepts after 7 steps", "111: rejects after 4 steps"]),
        (["regex", "(0|10*1)*", "--alphabet", "01"], "0110\n1\n", ["'0110' accepted", "'1' rejected"]),
    ],
    ids=["run", "tm", "regex"],
)
def test_a_dash_reads_lines(kleene, monkeypatch, arguments, lines, answers):
    monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
    words = [*arguments, "-"] if arguments[0] != "regex" else [*arguments[:2], "-", *arguments[2:]]
    assert kleene(*words).out.splitlines() == answers
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{lines}?\n"))
    found = kleene(*words)
    assert found.code == 2 and found.out.splitlines() == answers and found.err.startswith("kleene: line 3: ")


@pytest.mark.parametrize("command", ["trace", "explain"])
def test_a_dash_reads_lines_of_runs(kleene, monkeypatch, command):
    monkeypatch.setattr(sys, "stdin", io.StringIO("(())\n()\n"))
    both = kleene(command, "dyck1:length=4", "-").out
    assert both == kleene(command, "dyck1:length=4", "(())").out + kleene(command, "dyck1:length=4", "()").out
    refused(kleene(command, "dyck1:length=4", "-", "--html", "a.html"), "--html", "in place of -")


def test_every_file_of_the_package_is_in_the_wheel():
    """What is not Python is named in pyproject.toml: programs for the RISC-V computer were left out once."""
    root = Path(kl.__file__).parent
    project = tomllib.loads((root.parent.parent / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["kleene"]
    wheel = {path for pattern in patterns for path in root.glob(pattern)}
    other = {p for p in root.rglob("*") if p.is_file() and p.suffix != ".py" and "__pycache__" not in p.parts}
    assert other == {path for path in wheel if path.is_file()}


def test_the_help_lists_what_a_new_user_tries_first(kleene):
    shown = kleene("--help").out
    places = [shown.index(f"\n  {command} ") for command in ("list", "run", "trace", "certify", "regex", "reproduce")]
    assert places == sorted(places) and {*commands(), "learn"} == {*ORDER}


def test_the_only_program_of_a_file_needs_no_name(kleene):
    Path("one.py").write_text(COPY)
    assert kleene("run", "one.py", "1", "0", "1").out == kleene("run", "one.py:Copy", "1", "0", "1").out != ""


def test_what_has_no_exact_effects_shows_its_run(kleene):
    """On some inputs that could be drawn, such as ^^^^^, addition reads a head that selects nothing."""
    shown = kleene("explain", "addition", "3+4")
    assert shown.code == 0 and "No exact effects" in shown.out and "layer 1" in shown.out


def test_list_has_every_program(kleene):
    shown, data = kleene("list").out, json.loads(kleene("list", "--json").out)
    assert {row["name"] for row in data} == set(library_programs())
    assert all(name in shown for name in library_programs())
    assert next(row for row in data if row["name"] == "sort")["parameters"] == {"length": 20, "values": 20}


def test_run_says_the_answer_and_who_made_it(kleene):
    assert kleene("run", "addition", "34+56") == (0, "90\nby the interpreter, in 4 layers\n", "")


@pytest.mark.parametrize("evaluator", ["interpreter", "rules", "network"])
def test_run_on_every_evaluator(kleene, evaluator):
    memory = ["9", "11", "3", "11", "10", "6", "11", "11", "-1", "5", "7", "0"]
    result = kleene("run", "subleq", *memory, "--on", evaluator)
    assert result.code == 0
    assert result.out.splitlines()[0] == "9 11 3 11 10 6 11 11 -1 5 12 0"
    assert "9 layers" in result.out


def test_run_as_json(kleene):
    data = json.loads(kleene("run", "parity_relative", "101", "--json").out)
    assert data["tokens"] == [2, 1, 0, 1]
    assert data["outputs"] == [0, 1, 1, 0]
    assert (data["decoded"], data["layers"], data["evaluator"]) == ("0", 3, "interpreter")


def test_run_takes_tokens_where_the_program_reads_text(kleene):
    assert json.loads(kleene("run", "parity_relative", "[2, 1, 1]", "--json").out)["outputs"] == [0, 1, 0]


def test_a_text_of_brackets_is_no_list_of_tokens():
    assert read_tokens(find_program("dyck2"), "[]") == [2, 3]


def test_run_with_a_number_of_layers(kleene):
    assert json.loads(kleene("run", "parity_relative", "111", "--layers", "1", "--json").out)["layers"] == 1


def test_run_a_program_of_a_file(kleene):
    assert kleene("run", "programs.py:Copy", "1", "0", "1").out.startswith("0 1 0\n")
    assert kleene("run", "programs.py:copies:values=5", "4,3").out.startswith("4 3\n")


def test_trace_shows_changes_and_undefined_heads(kleene):
    out = kleene("trace", "parity_relative", "11").out
    assert "layer 2" in out and "0→1" in out and "∅" in out
    assert out.splitlines()[-1] == "parity after 2 layers: 0 1 0 (0)"


def test_trace_of_a_long_input_fits_the_terminal(kleene):
    out = kleene("trace", "addition", "1234567890123456789+1", "--layers", "1").out
    assert "positions 0 …" in out
    assert max(map(len, out.splitlines()[1:-1])) <= 100


def test_trace_as_json(kleene):
    data = json.loads(kleene("trace", "histogram:length=4,values=3", "1", "1", "0", "--json").out)
    assert len(data["states"]) == data["layers"] + 1
    assert data["states"][-1][0]["counts"] == 2
    assert data["heads"][0]["share"][0] == {"selected": [0, 1, 2], "value": "1/3"}


def test_compile_save_run_decompile(kleene, tmp_path):
    result = kleene("compile", "parity_relative", "-o", "net", "--dtype", "float64", "--json")
    data = json.loads(result.out)
    assert result.code == 0 and data["folder"] == "net" and data["sizes"]["heads"] == 2
    assert kleene("run", "net", "[2,1,1]").out.startswith("0\n")
    assert "parity := " in kleene("decompile", "net", "-o", "found.json").out
    assert json.loads(Path("found.json").read_text())["program"]["name"] == "parity_relative"
    assert json.loads(kleene("decompile", "net", "--json").out)["updates"]["updates"]


def test_compile_certify_run_a_stock_model(kleene):
    made = kleene("compile", "addition_decoder", "--to", "llama", "--length", "12", "-o", "adder")
    assert made.code == 0 and "certified exact in float32" in made.out, made
    assert kleene("certify", "adder").code == 0
    found = kleene("run", "adder", "007+999=")
    assert found.code == 0 and "1006" in found.out, found
    assert "1006" in kleene("run", "adder", "[0,0,7,10,9,9,9,11]").out
    assert json.loads(kleene("run", "adder", "123+456=", "--json").out)["decoded"] == "0579"
    refused(kleene("run", "adder", "1 + 2"), "addition_decoder", "' '", "[2,1,0]")


def test_compile_machines_into_stock_models(kleene):
    kleene("regex", "(0|1)*11", "-o", "words.json")
    size = "--size", "width=64,layers=6", "--spare", "random"
    made = kleene("compile", "words.json", "--to", "llama", "--length", "9", *size, "-o", "words")
    assert made.code == 0 and "64 residual" in made.out, made
    assert "words of up to 8 symbols" in kleene("certify", "words").out
    assert kleene("verify", "words").code == 0 and kleene("verify", "words", "words.json").code == 0
    assert kleene("decompile", "words", "--to", "regex").out.strip() == "[01]*11"
    assert "dimensions" in kleene("export", "words", "--to", "circuit", "-o", "circuit.json").out
    assert kleene("compile", "1RB1LB_1LA1RZ", "--to", "gpt2", "--length", "12", "-o", "beaver").code == 0
    assert kleene("verify", "beaver").code == 0
    assert "compiled in" in kleene("compile", "(ab)*c", "--to", "phi3", "--length", "9").out
    assert "compiled in" in kleene("compile", "parity_relative", "--to", "llama", "--layers", "4", "--length", "9").out
    refused(kleene("compile", "words.json", "--to", "llama", "--size", "width=big"), "width=big", "whole numbers")


def test_symbols_that_are_numbers_are_read_as_numbers():
    class Echo(kl.Program):
        tokens, max_tokens, layers = 3, 2, 1
        result = kl.cat(3, token=lambda t: t)
        output = result

        def step(z):
            pass

    net = kl.compile(Echo, to="gpt2", length=6)
    assert net.symbols == ["0", "1", "2"] and read_tokens(net, "2 1 0") == [2, 1, 0]
    assert kl.compile(kl.library.parity_relative, to="gpt2", length=6, layers=4).symbols == ["0", "1", "^"]


def test_compile_says_what_it_made(kleene):
    out = kleene("compile", "parity_relative", "--lowering", "rules").out
    assert "7 hidden units" in out and "not saved" in out


def test_compile_report(kleene):
    assert "parity" in kleene("compile", "parity_relative", "--report").out
    assert json.loads(kleene("compile", "parity_relative", "--report", "--json").out)["report"]


def test_compile_an_encoder(kleene):
    result = kleene("compile", "parity_relative", "--shape", "encoder", "--layers", "4", "--json")
    assert json.loads(result.out)["sizes"]["residual"] > 0


# --- checks -------------------------------------------------------------------------------------------------


def test_verify_a_program(kleene):
    result = kleene("verify", "parity_relative", "--lengths", "1-5", "--json")
    assert result.code == 0
    data = json.loads(result.out)
    assert data["holds"] is True and data["checked"] == 3 + 9 + 27 + 81 + 243


def test_verify_random_and_given_inputs(kleene):
    assert kleene("verify", "addition", "--input", "1+2", "--input", "99+1").code == 0
    result = kleene("verify", "sort:length=4,values=3", "--random", "5", "--json")
    assert json.loads(result.out)["checked"] == 5


def test_verify_a_folder_with_its_updates_or_a_program(kleene):
    kleene("compile", "sort:length=3,values=3", "-o", "net")
    alone = kleene("verify", "net", "--lengths", "1-3")
    assert alone.code == 0 and "saved" in alone.out
    assert kleene("verify", "net", "sort:length=3,values=3", "--lengths", "1-3").code == 0


def test_verify_finds_the_wrong_program(kleene):
    kleene("compile", "programs.py:Copy", "-o", "net")
    result = kleene("verify", "net", "programs.py:Keeps", "--lengths", "1-3", "--json")
    data = json.loads(result.out)
    assert result.code == 1
    assert data["holds"] is False and data["mismatches"] > 0
    assert data["counterexample"]["input"] == [1]
    assert "first differ" in kleene("verify", "net", "programs.py:Keeps", "--lengths", "1-3").out


def test_verify_finds_a_program_with_other_variables(kleene):
    kleene("compile", "sort:length=3,values=3", "-o", "net")
    assert kleene("verify", "net", "reverse:length=3,values=3", "--lengths", "1-3").code == 1


def test_certify(kleene):
    kleene("compile", "parity_relative", "-o", "net")
    result = kleene("certify", "net", "--dtype", "bfloat16", "--json")
    data = json.loads(result.out)
    assert result.code == 0 and data["holds"] is True and data["dtype"] == "bfloat16"


def test_certify_refuses_a_changed_weight(kleene):
    import kleene as kl

    net = kl.compile(kl.library.parity_relative)
    net.blocks[0].bias2[0] += 0.37
    net.save("net")
    result = kleene("certify", "net")
    assert result.code == 1 and result.out


@pytest.mark.slow
def test_demo(kleene):
    result = kleene("demo", "--json")
    data = json.loads(result.out)
    assert result.code == 0 and data["holds"] and len(data["programs"]) >= 5
    assert all(row["certified"] and row["mismatches"] == 0 for row in data["programs"])


def test_demo_of_one_program(kleene, monkeypatch):
    from kleene.cli import demo

    monkeypatch.setattr(demo, "DEMO", [("parity_relative", "101", {"lengths": range(1, 5)})])
    result = kleene("demo")
    assert result.code == 0 and "certified exact" in result.out and "0 differ" in result.out


# --- bad input ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["run", "sort", "1", "99"], ["sort", "token 99", "0 … 19"]),
        (["run", "parity_relative", "[2,7]"], ["token 7", "0 … 2"]),
        (["run", "parity_relative", "102"], ["'2'", "not 0 or 1"]),
        (["run", "sort:length=3", "1", "2", "1", "0"], ["4 tokens", "the longest allowed has 3"]),
        (["run", "sort", ""], ["sort", "empty"]),
        (["run", "sort", "[]"], ["sort", "empty"]),
        (["trace", "sort", ""], ["sort", "empty"]),
        (["run", "sort", "1 two 3"], ["1 two 3", "whole numbers"]),
        (["run", "addition", "34-56"], ["34-56", "34+56"]),
        (["run", "programs.py:Divides", "0"], ["Divides", "ZeroDivisionError"]),
        (["compile", "programs.py:Divides"], ["Divides", "ZeroDivisionError"]),
        (["run", "programs.py:Reads", "1"], ["Reads", "'unset'", "position 0", "default"]),
        (["run", "programs.py:Reads", "1", "--on", "rules"], ["Reads", "'unset'", "position 0"]),
        (["run", "programs.py:Reads", "1", "--on", "network"], ["Reads", "'unset'", "position 0"]),
        (["run", "programs.py:Missing", "1"], ["'Missing'", "Copy"]),
        (["run", "programs.py", "1"], ["programs.py:Name", "Copy"]),
        (["run", "programs.py:number", "1"], ["number", "not a program"]),
        (["run", "programs.py:seven", "1"], ["seven", "not a program"]),
        (["run", "programs.py:copies", "1"], ["'values' is missing"]),
        (["run", "nowhere.py:Name", "1"], ["nowhere.py", "no such file"]),
        (["run", "sorted", "1"], ["'sorted'", "did you mean sort"]),
        (["run", "sort:size=3", "1"], ["'size'", "length, values"]),
        (["run", "sort:length=long", "1"], ["length=long", "length=20"]),
        (["run", "addition:length=3", "1+1"], ["no parameters"]),
        (["run", "sort", "1", "--layer", "3"], ["--layer"]),
        (["run", "sort", "1", "--on", "gpu"], ["gpu", "network"]),
        (["run", "sort"], ["INPUT"]),
        (["frobnicate"], ["frobnicate"]),
        (["addition", "34+58"], ["kleene run addition"]),
        (["powers_of_two", "11"], ["kleene tm powers_of_two"]),
        (["run", "34+58", "addition"], ["a program comes before its input"]),
        (["run", "power_of_two", "11"], ["did you mean powers_of_two"]),
        (["trace", "powers_of_two", "11", "--layers", "3"], ["--layers", "only for attention programs"]),
        (["riscv", "nothing"], ["nothing", "sudoku"]),
        (["verify", "parity_relative", "--lengths", "8-1"], ["8-1", "1-8"]),
        (["verify", "parity_relative", "--lengths", "1-90000"], ["1-90000", "--random"]),
        (["verify", "no/such/folder"], ["no/such/folder", "no such folder"]),
        (["verify", "parity_relative", "addition"], ["no such folder"]),
        (["certify", "."], ["kleene.json"]),
        (["decompile", "."], ["kleene.json"]),
        (["compile", "sort", "-o", "programs.py"], ["programs.py", "folder"]),
        (["compile", "sort", "-o", "."], ["other files"]),
        (["compile", "sort", "--dtype", "int8"], ["int8", "float32"]),
        (["compile", "parity_relative", "--shape", "encoder"], ["layers"]),
    ],
)
def test_bad_input_is_one_line(kleene, arguments, named):
    refused(kleene(*arguments), *named)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("this is no Python", "not Python"),
        ("raise ValueError('on\\npurpose')", "ValueError: on purpose"),
        ("raise SystemExit(0)", "SystemExit"),
        ("import kleene as kl\nclass P(kl.Program):\n    tokens = 2\n", "'step' is missing"),
        ("\0", "not Python"),
    ],
)
def test_a_file_that_is_no_program(kleene, content, named):
    Path("bad.py").write_text(content)
    refused(kleene("run", "bad.py:P", "1"), "bad.py", named)


def test_a_changed_file_is_refused(kleene):
    kleene("compile", "parity_relative", "-o", "net")
    path = Path("net/kleene.json")
    path.write_text(path.read_text().replace("parity_left", "parity_lift"))
    refused(kleene("certify", "net"), "kleene.json", "changed")


def cli(*arguments: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, "-m", "kleene", *arguments], env=environment, capture_output=True, timeout=100, **options
    )


def test_the_command_line_at_its_edges(tmp_path):
    assert cli("--version").stdout.startswith(b"kleene ")
    assert json.loads(cli("regex", "a*", "--dot", "--json").stdout)["dot"].startswith("digraph")
    made = cli("regex", "a*", "-o", str(tmp_path / "net"))
    assert made.returncode == 0, made.stderr
    found = cli("certify", str(tmp_path / "net"), "--dtype", "bfloat16")
    assert found.returncode == 2 and b"only for transformers" in found.stderr
    assert cli("decompile", str(tmp_path / "net"), "-o", str(tmp_path / "a.jff")).returncode == 0
    assert kl.DFA.load(tmp_path / "a.jff").accepts("aa")
    (tmp_path / "turing.json").write_text(
        json.dumps(
            {
                "kind": "dfa",
                "version": 1,
                "alphabet": ["a"],
                "start": "turing",
                "accepting": [],
                "transitions": {"turing": {"a": ["turing"]}},
            }
        )
    )
    found = cli("export", str(tmp_path / "turing.json"), "--to", "graphviz")
    assert found.returncode == 2 and b"unknown state" in found.stderr


def test_a_transformers_updates_are_saved_as_json_alone(tmp_path):
    found = cli("decompile", "parity_relative", "-o", str(tmp_path / "largest.py"))
    assert found.returncode == 2 and b"ends in .json" in found.stderr and not (tmp_path / "largest.py").exists()


def test_input_that_is_not_text_reaches_the_program(tmp_path):
    echo = tmp_path / "echo.dec"
    echo.write_text("-1 9 3 9 -1 6 10 10 -1 0 0")  # one sign, and no more
    found = cli("subleq", str(echo), "--on", "reference", input=b"\xff\n")
    assert found.returncode == 0 and found.stdout.startswith(b"\xff"), found.stderr
