"""Typical mistakes, each with the one line that the command line answers: it names the input, what is wrong and what
would be right, in the words of the command line. Also completion, standard input line by line, and aliases."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import kleene as kl
from kleene.cli import app, main
from kleene.cli.words import in_options
from kleene.papers.durations import DURATIONS, about

kl_results = Path(__file__).parents[2] / "docs" / "results"

MISTAKES = {
    "run additon 34+58": "there is no program 'additon'; did you mean addition or addition_decoder?",
    "run addition": "Missing argument 'INPUT...'. (see kleene run --help)",
    "run addition 34-58": "addition: '34-58' is not a sum of two whole numbers such as 34+56; write tokens as [2,1,0]",
    "run addition 34+58 --on gpu": "Invalid value for '--on': 'gpu' is not one of 'interpreter', 'rules', 'network'. "
    "(see kleene run --help)",
    "run addition 34+58 --layer 3": "--layer: no such option; --help lists the options",
    "run addition 34+58 --max-layers 2": "addition: did not halt within 2 layers (--max-layers)",
    "run sort 3 1 99": "sort: token 99 at position 2 is outside the alphabet 0 … 19",
    "run sort 3 x": "sort: the input '3 x' is not a list of whole numbers such as 2 1 0 or [2,1,0]",
    "run sort:len=5 3 1 2": "sort: there is no parameter 'len'; it takes length, values",
    "run sort:length=two 3 1 2": "sort: the parameter 'length=two' is not name=whole number, such as length=20",
    "run parity_relative [1,0]": "parity_relative: step reads 'done_left' at position 0 in layer 1, where the head "
    "selects nothing; give the head a default, or read it only where it is defined",
    "run missing/ 101": "missing/: no such folder; a saved network is a folder with kleene.json in it",
    "run file.py:Name 1": "file.py: no such file",
    "compile addition -o /dev/null": "/dev/null: a file; -o needs the name of a folder",
    "compile addition --layers 4": "--layers 4: only for an encoder; add --shape encoder",
    "verify addition --lengths 8-1": "--lengths 8-1: not a range of lengths such as 1-8",
    "verify addition --lengths 1-9": "addition: all inputs of lengths 1 to 9 are more than 50,000,000; use --random or "
    "shorter ones",
    "certify nowhere/": "nowhere/: no such folder; a saved network is a folder with kleene.json in it",
    "trace addition 34+58 --weights": "--weights: only for a page; add --html FILE",
    "trace addition 34+58 --on rules": "--on rules: the rule machine keeps no trace; use --on interpreter or --on "
    "network",
    "regex (ab": "pattern '(ab': missing ), unterminated subpattern at position 0",
    "regex a*b aXb": "word 'aXb': 'X' at position 1 is not in the alphabet {a, b}",
    "tm nothing": "nothing: no such file, no bbchallenge text such as '1RB1LB_1LA1RZ', and none of powers_of_two, "
    "busy_beaver_2, busy_beaver_3, busy_beaver_4, busy_beaver_5",
    "export addition --to onnx": "--to onnx: give -o OUT, the place to write to",
    "reproduce alta.scann": "experiment 'alta.scann': unknown; did you mean alta.scan or alta.scan-dense or "
    "alta.scan-end-to-end?",
    "reproduce alta.scan --scale huge": "--scale 'huge': unknown; use small or paper",
    "decompile addition -o x.yaml": "-o x.yaml: guarded updates are saved as JSON; use a name that ends in .json",
    "subleq nosuch": "nosuch: no such file, and no program of the library (bubble_sort, factorial, hello, interpreter, "
    "life, primes)",
    "run scan walk around": "scan: 'around' in 'walk around' needs left or right after it; write tokens as [2,1,0]",
}


def run(capsys, monkeypatch, *words, given=None):
    """The exit code, standard output and standard error of a command."""
    if given is not None:
        monkeypatch.setattr(sys, "stdin", io.StringIO(given))
    with pytest.raises(SystemExit) as ended:
        main([*words])
    said = capsys.readouterr()
    return ended.value.code, said.out, said.err


@pytest.mark.parametrize("command", MISTAKES)
def test_a_typical_mistake(capsys, monkeypatch, tmp_path, command):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, monkeypatch, *command.split())
    assert (code, out, err) == (2, "", f"kleene: {MISTAKES[command]}\n")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("run mine 01", "there is no program 'mine'; did you mean mine.py?"),
        ("run mine:Flip 01", "there is no program 'mine'; did you mean mine.py:Flip?"),
        ("run mine.Flip 01", "there is no program 'mine.Flip'; did you mean mine.py:Flip?"),
        ("run none.py 01", "none.py: holds no program; a program is a class made from kl.Program"),
        ("tm even.json 11", "even.json: holds a DFA, not a Turing machine; kleene run even.json WORD runs it"),
        (
            "run addition ^3+x=",
            "addition: '^3+x=' is not a sum of two whole numbers such as 34+56; write tokens as [2,1,0]",
        ),
    ],
)
def test_a_mistake_with_a_file(capsys, monkeypatch, tmp_path, command, said):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("import kleene as kl\n", encoding="utf-8")
    Path("none.py").write_text("x = 3\n", encoding="utf-8")
    kl.regex("(0|10*1)*", alphabet="01").save("even.json")
    assert run(capsys, monkeypatch, *command.split()) == (2, "", f"kleene: {said}\n")


def test_text_with_the_marks_that_traces_show(capsys, monkeypatch):
    assert run(capsys, monkeypatch, "run", "addition", "^34+58=") == run(
        capsys, monkeypatch, "run", "addition", "34+58"
    )


def test_the_run_as_json_where_there_are_no_exact_effects(capsys, monkeypatch):
    code, out, err = run(capsys, monkeypatch, "explain", "parity_relative", "101", "--json")
    found = json.loads(out)
    assert (code, err) == (0, "") and "has no output" in found["no_exact_effects"] and found["layers"] == 3
    code, out, err = run(capsys, monkeypatch, "explain", "powers_of_two", "11", "--json")
    assert (code, err) == (0, "") and json.loads(out)["answer"] == "accept"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("give layers=3 or max_layers=9", "give --layers 3 or --max-layers 9"),
        ("within 2 layers (max_layers)", "within 2 layers (--max-layers)"),
        ("as in sort:layers=3", "as in sort:layers=3"),
        ("unknown=3", "unknown=3"),
    ],
)
def test_options_are_spelled_as_on_the_command_line(message, said):
    assert in_options(message, ["run", "x"], app) == said


def test_lengths_are_spelled_as_on_the_command_line():
    assert in_options("lengths=range(1, 9), random=1000 or inputs=[…]", ["verify"], app) == (
        "--lengths 1-8, --random 1000 or --input …"
    )


def test_standard_input_line_by_line(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, monkeypatch, "run", "addition", "-", given="34+58\n\n1+1\n")
    assert (code, out, err) == (0, "92\n2\n", "")
    code, out, err = run(capsys, monkeypatch, "run", "addition", "-", given="3+4\noops\n1+1\n")
    assert (code, out) == (2, "7\n2\n") and err.startswith("kleene: line 2: addition: 'oops'") and err.count("\n") == 1
    code, out, _ = run(capsys, monkeypatch, "run", "addition", "-", "--json", given="3+4\n8+1\n")
    assert [json.loads(line)["decoded"] for line in out.splitlines()] == ["7", "9"]
    kl.regex("(0|10*1)*", alphabet="01").save("even.json")
    assert run(capsys, monkeypatch, "run", "even.json", "-", given="11\n1\n")[1] == "accepts\nrejects\n"


def test_text_for_a_saved_network(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    kl.compile(kl.library.addition).save("adder")
    assert run(capsys, monkeypatch, "run", "adder", "34+58")[1].startswith("92\n")
    code, out, _ = run(capsys, monkeypatch, "trace", "adder", "34+58")
    assert code == 0 and "value_out after 4 layers: 0 0 0 0 9 2 0 (92)" in out


def test_a_trace_of_the_network(capsys, monkeypatch, tmp_path):
    """What is recorded is what the weights do: a network with another weight gives another trace."""
    monkeypatch.chdir(tmp_path)
    _, interpreted, _ = run(capsys, monkeypatch, "trace", "parity_relative", "101", "--json")
    code, recorded, _ = run(capsys, monkeypatch, "trace", "parity_relative", "101", "--on", "network", "--json")
    assert code == 0 and json.loads(recorded)["states"] == json.loads(interpreted)["states"]
    assert run(capsys, monkeypatch, "trace", "parity_relative", "101", "--on", "network", "--html", "p.html")[0] == 0
    for program, given in (("addition_scratchpad:digits=3", "37+8"), ("parity_scratchpad:length=4", "101")):
        both = [run(capsys, monkeypatch, "trace", program, given, "--json", *on)[1] for on in ([], ["--on", "network"])]
        assert json.loads(both[0])["states"] == json.loads(both[1])["states"]


def test_names_of_machines(capsys, monkeypatch):
    assert "accepts after 21 steps" in run(capsys, monkeypatch, "tm", "powers_of_two", "1111")[1]
    assert "accepts after 6 steps" in run(capsys, monkeypatch, "tm", "busy_beaver_2")[1]


@pytest.mark.parametrize(("short", "name"), [("hf", "hugging-face"), ("lens", "transformer-lens"), ("dot", "graphviz")])
def test_aliases(capsys, monkeypatch, tmp_path, short, name):
    monkeypatch.chdir(tmp_path)
    what = "even.json" if short == "dot" else "parity_relative"
    kl.regex("(0|10*1)*", alphabet="01").save("even.json")
    options = ["--layers", "3", "--length", "4"] if short == "lens" else []
    code, out, _ = run(
        capsys, monkeypatch, "export", what, "--to", short, "-o", "out.dot" if short == "dot" else "out", *options
    )
    assert code == 0 and f"saved for {name}" in out


def test_completion():
    """The shell asks, and the names of the library come, each with a sentence."""
    asked = {"_KLEENE_COMPLETE": "complete_bash", "COMP_WORDS": "kleene run par", "COMP_CWORD": "2"}
    made = subprocess.run(
        [sys.executable, "-m", "kleene"], env={**os.environ, **asked}, capture_output=True, text=True, timeout=60
    )
    assert made.stdout.split() == [name for name in kl.library.__all__ if name.startswith("par")]


def test_experiments_are_listed_with_what_they_show_and_how_long_they_take(capsys, monkeypatch):
    code, out, _ = run(capsys, monkeypatch, "reproduce", "--json")
    rows = {row["name"]: row for row in json.loads(out)}
    assert code == 0 and all(len(about(name)) > 20 for name in rows)
    for name, scales in DURATIONS.items():
        for scale, (seconds, device) in scales.items():
            paper, _, stem = name.partition(".")
            stem += "-small" if scale == "small" and (kl_results / paper / f"{stem}-small.json").exists() else ""
            published = json.loads((kl_results / paper / f"{stem}.json").read_text(encoding="utf-8"))
            assert published["seconds"] == seconds and ("NVIDIA" in published["device"]) == ("GPU" in device), name


def test_verify_says_first_that_most_inputs_were_errors():
    class Reads(kl.Program):
        tokens = 4
        here = kl.cat(4, token=lambda t: t)
        zero = kl.cat(4)
        found = kl.attend(zero, here, here)
        output = here
        layers = 1

        def step(z):
            z.here = z.found

    report = kl.verify(Reads, kl.compile(Reads), random=50)
    assert report.holds and 2 * report.raised > report.checked
    assert "beware: only" in str(report).splitlines()[1]
    assert "beware" not in str(kl.verify(Reads, kl.compile(Reads), inputs=[[0, 1], [1, 0, 2]]))


def test_random_inputs_come_from_the_alphabet():
    """`^` first and `=` last, and both numbers of one length: nothing is undefined."""

    class Adds(kl.library.addition):
        sample = None

    report = kl.verify(Adds, kl.compile(Adds), random=30)
    assert report.holds and report.raised == 0
