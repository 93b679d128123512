"""kleene regex and kleene tm."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import kleene as kl
from kleene.checks.bisimulation import check_files
from kleene.cli import main
from kleene.cli.automata import find_machine, verify_words
from kleene.library.turing_machines import POWERS_OF_TWO, busy_beaver

CHAMPION = "1RB1LC_1RC1RB_1RD0LE_1LA1LD_1RZ0LA"


def kleene(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "kleene", *arguments], capture_output=True, text=True, check=False)


def test_regex(tmp_path: Path) -> None:
    done = kleene(
        "regex",
        "(0|10*1)*",
        "0110",
        "010",
        "--alphabet",
        "01",
        "-o",
        str(tmp_path / "even.png"),
        "-o",
        str(tmp_path / "even.dot"),
        "-o",
        str(tmp_path / "even"),
    )
    assert done.returncode == 0, done.stderr
    assert "'0110' accepted" in done.stdout and "'010' rejected" in done.stdout and "certified" in done.stdout
    assert (tmp_path / "even.png").read_bytes().startswith(b"\x89PNG")
    assert check_files(tmp_path / "even") and kl.load(tmp_path / "even").accepts("0110")


def test_regex_json() -> None:
    data = json.loads(kleene("regex", "(a|b)*abb", "abb", "ba", "--json").stdout)
    assert data["words"] == {"abb": True, "ba": False} and data["sizes"]["units"] == 4
    assert kl.DFA.from_json(data["automaton"]).equivalent(kl.regex("(a|b)*abb"))


@pytest.mark.parametrize(
    "arguments, says",
    [
        (["regex", r"(a)\1"], "backreference"),
        (["regex", "("], "missing )"),
        (["regex", "a*", "x"], "not in the alphabet"),
        (["regex", "a*", "-o", "x.docx"], "unknown suffix"),
        (["tm", "missing.yaml"], "no such file"),
        (["tm", "1RB1LB_1LA1R"], "no such file, no bbchallenge text such as '1RB1LB_1LA1RZ'"),
        (["tm", CHAMPION, "--form", "tiny"], "form 'tiny'"),
        (["tm", "1RB1LB_1LA1RZ", "x"], "not in the alphabet"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: list[str], says: str) -> None:
    done = kleene(*arguments)
    assert done.returncode == 2 and says in done.stderr and done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_tm_runs_a_million_steps_of_the_champion() -> None:
    done = kleene("tm", CHAMPION, "--max-steps", "1000000", "--check")
    assert done.returncode == 0, done.stderr
    assert "still running after 1,000,000 steps" in done.stdout and "simulator agrees" in done.stdout


def test_tm_from_a_file(tmp_path: Path) -> None:
    POWERS_OF_TWO.save(tmp_path / "powers.yaml")
    for word, answer in (("1111", "accept"), ("111", "reject")):
        done = kleene("tm", str(tmp_path / "powers.yaml"), word, "--json", "--tape", "-o", str(tmp_path / "net"))
        data = json.loads(done.stdout)
        assert done.returncode == 0 and data["answer"] == answer and data["units"] <= 109
    assert kl.load(tmp_path / "net").decide("1111").answer == "accept"
    done = kleene("tm", str(tmp_path / "powers.yaml"), "11", "-o", str(tmp_path / "m.png"), "--form", "literal")
    assert done.returncode == 0 and (tmp_path / "m.png").exists()


def test_machine_files_are_told_apart(tmp_path: Path) -> None:
    dfa, machine = kl.regex("(0|10*1)*", "01"), busy_beaver(3)
    for suffix in (".json", ".jff", ".att"):
        dfa.save(tmp_path / f"m{suffix}")
        assert find_machine(str(tmp_path / f"m{suffix}")).equivalent(dfa)
    for suffix in (".json", ".jff", ".yaml"):
        machine.save(tmp_path / f"m{suffix}")
        assert find_machine(str(tmp_path / f"m{suffix}")).run().steps == 21
    assert find_machine("addition") is None


def test_verify_words(tmp_path: Path) -> None:
    dfa = kl.regex("(0|10*1)*", "01")
    kl.compile(dfa).save(tmp_path / "even")
    kl.compile(busy_beaver(2)).save(tmp_path / "bb2")
    kl.regex("1*", "01").save(tmp_path / "ones.att")
    assert verify_words(str(tmp_path / "even"), None, None, None, 0, None).holds
    assert verify_words(str(tmp_path / "bb2"), None, range(3), None, 0, None).holds
    assert verify_words(str(tmp_path / "bb2"), None, None, 3, 0, None).checked == 3
    assert not verify_words(str(tmp_path / "even"), str(tmp_path / "ones.att"), None, None, 0, None).holds
    assert verify_words(str(tmp_path / "even"), str(tmp_path / "ones.att"), None, None, 0, ["11"]).holds
    assert verify_words("addition", None, None, None, 0, None) is None
    with pytest.raises(kl.FileError, match="neither a machine's file"):
        verify_words(str(tmp_path / "even"), "addition", None, None, 0, None)


@pytest.mark.parametrize("command", ["regex", "tm"])
def test_help_has_an_example(command: str) -> None:
    assert f"Example: kleene {command}" in kleene(command, "--help").stdout


def test_import_is_light() -> None:
    code = "import sys, kleene; kleene.DFA; kleene.regex; kleene.TuringMachine; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_run_and_compile_take_machines_and_their_networks(tmp_path: Path) -> None:
    kl.regex("(0|10*1)*", "01").save(tmp_path / "even.json")
    busy_beaver(2).save(tmp_path / "bb2.yaml")
    for name in ("even.json", "bb2.yaml"):
        done = kleene("compile", str(tmp_path / name), "-o", str(tmp_path / Path(name).stem))
        assert done.returncode == 0 and " units, " in done.stdout, done.stderr
    for arguments, said in (
        (["even.json", "0110"], "accepts\nby the interpreter\n"),
        (["even.json", "01", "0", "--on", "network"], "rejects\nby the RNN\n"),
        (["even", "0110"], "accepts\nby the RNN\n"),
        (["bb2.yaml", ""], "accepts\nby the interpreter, in 6 steps of the machine\n"),
        (["bb2", ""], "accepts\nby the RNN, in 6 steps of the machine\n"),
    ):
        assert kleene("run", str(tmp_path / arguments[0]), *arguments[1:]).stdout == said
    data = json.loads(kleene("run", str(tmp_path / "even"), "1", "--json").stdout)
    assert (data["answer"], data["evaluator"], data["steps"]) == ("reject", "network", None)
    for name in ("even.json", "bb2.yaml"):
        assert kleene("verify", str(tmp_path / name)).stdout.startswith("agree on")
    for arguments, said in (
        (["run", "even", "1", "--on", "interpreter"], "--on network only"),
        (["run", "even.json", "1", "--on", "rules"], "has no rules"),
        (["run", "even.json", "2"], "not in the alphabet"),
        (["compile", "even.json", "--shape", "decoder"], "holds a DFA"),
        (["compile", "even.json", "--depth", "constant"], "--depth goes with --to 'transformer'"),
        (["compile", "even.json", "--tape", "4"], "no option --tape for a DFA; its options: method, activation\n"),
        (["explain", "even", "1", "--target", "x"], "only for language models"),
    ):
        done = kleene(arguments[0], str(tmp_path / arguments[1]), *arguments[2:])
        assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1


def test_every_architecture_from_a_pattern_or_a_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*arguments: str, code: int = 0) -> str:
        with pytest.raises(SystemExit) as end:
            main(list(arguments))
        told = capsys.readouterr()
        assert end.value.code == code, told.err
        return told.out if code == 0 else told.err

    lstm, flat, tape = (str(tmp_path / name) for name in ("lstm", "flat", "tape"))
    run("compile", "(a|b)*abb", "--to", "lstm", "--dtype", "float16", "-o", lstm)
    run("compile", "(a|b)*abb", "--to", "transformer", "--depth", "constant", "--length", "5", "-o", flat)
    assert "agree on words of up to 5 symbols" in run("verify", lstm, flat)
    assert run("run", "(a|b)*abb", "aabb").startswith("accepts")
    assert json.loads(run("compile", "(aa)*b", "--method", "scalar", "--json"))["sizes"]["units"] == 4
    assert "Sarrof" in run("compile", "(aa)*b", "--to", "linear", "--transitions", "positive", code=2)
    (tmp_path / "beaver.txt").write_text("1RB1LB_1LA1RZ\n")
    assert "accepts" in run("run", str(tmp_path / "beaver.txt"), "")
    run("compile", str(tmp_path / "beaver.txt"), "--to", "gru", "--tape", "9", "--length", "2", "-o", tape)
    assert kl.certify(kl.load(tape)).holds
    assert "the head leaves" in run("compile", "1RB1LB_1LA1RZ", "--to", "lstm", "--tape", "2", code=2)
    (tmp_path / "plain.txt").write_text("0 1 a\n1\n")  # AT&T, which shares the suffix
    rows = json.loads(run("compare", str(tmp_path / "plain.txt"), "--length", "3", "--json"))["rows"]
    assert all(row["holds"] for row in rows)


def test_symbols_of_several_characters_are_set_apart_by_spaces(tmp_path: Path) -> None:
    kl.DFA([[1, 0], [0, 1]], start=0, accepting=[0], alphabet=("left", "right")).save(tmp_path / "turns.json")
    done = kleene("run", str(tmp_path / "turns.json"), "left", "left right", "--on", "network", "--json")
    assert json.loads(done.stdout)["input"] == ["left", "left", "right"], done.stderr
    assert kleene("verify", str(tmp_path / "turns.json"), "--input", "left right").stdout == "agree on 1 given words\n"
    assert kleene("compile", str(tmp_path / "turns.json"), "-o", str(tmp_path / "turns")).returncode == 0
    assert kleene("explain", str(tmp_path / "turns"), "left right").returncode == 0


def test_tm_takes_the_input_of_its_file(tmp_path: Path) -> None:
    text = "input: '111'\nblank: ' '\nstart state: a\ntable:\n  a:\n    1: R\n    ' ': {write: 1, R: done}\n  done:\n"
    (tmp_path / "one.yaml").write_text(text)
    path = str(tmp_path / "one.yaml")
    assert kl.TuringMachine.load(path).example == "111"
    assert "tape 1111\n" in kleene("tm", path, "--tape").stdout
    assert "tape 1\n" in kleene("tm", path, "", "--tape").stdout
    kl.TuringMachine.load(path).save(tmp_path / "again.yaml")
    assert kl.TuringMachine.load(tmp_path / "again.yaml").example == "111"


QUESTIONS = [
    (["(0|10*1)*", "--same-as", "0*(10*10*)*"], 0, "the same words"),
    (["a*b", "--same-as", "a*"], 1, '"" is in the other only'),
    (["ab", "--included-in", "[ab]*"], 0, "every word is in the other"),
    (["[ab]*", "--included-in", "a*"], 1, "b is in the first only"),
    (["a*b", "--words", "3"], 0, "b\nab\naab"),
    (["(a|b)*", "--count", "3"], 0, "length 3: 8"),
    (["ab*", "--random", "2", "--length", "4"], 0, "abbb\nabbb"),
    (["(a|b)*a(a|b)", "--to-regex"], 0, "[ab]*a[ab]"),
    (["(ab)*", "--classes"], 0, "strictly local     yes"),
    (["b", "--search", "--alphabet", "ab", "--same-as", "b"], 0, "the same words"),
    (["a*b", "--minimise"], 0, "DFA: 3 states"),
]


@pytest.mark.parametrize("arguments, code, says", QUESTIONS)
def test_questions_about_a_language(
    arguments: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["regex", *arguments])
    assert end.value.code == code and says in capsys.readouterr().out


def test_convert_and_decompile_to_regex(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*arguments: str) -> str:
        with pytest.raises(SystemExit) as end:
            main(list(arguments))
        assert end.value.code == 0, capsys.readouterr().err
        return capsys.readouterr().out

    at = {
        suffix: str(tmp_path / f"m{suffix}") for suffix in (".jff", ".json", ".mata", ".att", ".regex", ".dot", ".html")
    }
    run("regex", "(a|b)*abb", "--minimise", "-o", at[".jff"], "--steps", at[".html"])
    run(
        "convert",
        at[".jff"],
        "-o",
        at[".json"],
        "-o",
        at[".mata"],
        "-o",
        at[".att"],
        "-o",
        at[".regex"],
        "-o",
        at[".dot"],
    )
    for suffix in (".json", ".mata", ".att", ".regex"):
        assert kl.NFA.load(at[suffix]).determinise() == kl.regex("(a|b)*abb")
        assert "the same words" in run("regex", at[suffix], "--same-as", "(a|b)*abb")
    assert "Subset construction" in Path(at[".html"]).read_text()
    run("regex", "(a|b)*abb", "-o", str(tmp_path / "net"))
    assert kl.regex(run("decompile", str(tmp_path / "net"), "--to", "regex").strip()) == kl.regex("(a|b)*abb")
    (tmp_path / "n.att").write_text("0 0 a\n0 0 b\n0 1 a\n1 2 b\n2\n")  # nondeterministic: found, determinised, run
    assert "accepts" in run("run", str(tmp_path / "n.att"), "ab")
    (tmp_path / "tm.txt").write_text("1RB1LB_1LA1RZ")
    run("convert", str(tmp_path / "tm.txt"), "-o", str(tmp_path / "tm.yaml"))
    assert kl.TuringMachine.load(tmp_path / "tm.yaml").run("", max_steps=10).steps == 6


def test_notes_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.att").write_text("0 1 a\n1 0 b\n1\n")
    with pytest.raises(SystemExit):
        main(["run", str(tmp_path / "m.att"), "a"])
    error = capsys.readouterr().err
    assert error.startswith("kleene: note: ") and error.count("\n") == 1


def test_verify_compares_two_saved_networks(tmp_path: Path):
    for pattern, to in (("a*b", "lstm"), ("a*b", "transformer"), ("a*bb", "linear")):
        kl.compile(kl.regex(pattern, alphabet="ab"), to=to).save(tmp_path / to)
    lstm, transformer, linear = (str(tmp_path / name) for name in ("lstm", "transformer", "linear"))
    for pair in ((lstm, transformer), (transformer, lstm)):
        assert verify_words(*pair, None, None, 0, None).holds
    assert not verify_words(lstm, linear, None, None, 0, None).holds
    with pytest.raises(kl.FileError, match="nor a saved network"):
        verify_words(lstm, str(tmp_path / "nothing"), None, None, 0, None)
