"""RASP files on the command line: run, compile, certify, verify, and one line for bad input."""

from __future__ import annotations

import json

import pytest

from kleene.cli import main

TEXT = """
same = select(tokens, tokens, ==);
hist = selector_width(same);
reverse = aggregate(select(indices, length - 1 - indices, ==), tokens);
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "prog.rasp"
    path.write_text(TEXT, encoding="utf-8")
    return str(path)


def kleene(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main([*arguments])
    out = capsys.readouterr()
    return ended.value.code, out.out + out.err


def test_a_file_from_run_to_certificate(capsys, tmp_path, file):
    name, folder = f"{file}:hist:vocab=abc,length=6", str(tmp_path / "net")
    assert kleene(capsys, "run", name, "abca")[1].startswith("2 1 1 2\n")
    assert kleene(capsys, "run", f"{file}:vocab=abc", "abc")[1].startswith("c b a\n")  # the s-op that comes last
    code, said = kleene(capsys, "compile", name, "-o", folder, "--json")
    assert code == 0 and json.loads(said)["sizes"]["heads"] == 1
    assert kleene(capsys, "run", folder, "abca")[1].startswith("2 1 1 2\n")
    assert kleene(capsys, "certify", folder)[0] == 0
    code, said = kleene(capsys, "verify", folder, name, "--lengths", "1-4")
    assert code == 0 and "120 of 120 inputs agree" in said
    assert kleene(capsys, "verify", name, "--input", "abc")[0] == 0
    assert kleene(capsys, "verify", folder, f"{file}:reverse:vocab=abc,length=6", "--lengths", "1-3")[0] == 1


@pytest.mark.parametrize(
    "name, words",
    [
        ("{}", "give the tokens, as in"),
        ("{}:nothing:vocab=ab", "defines no 'nothing'; it defines same, hist, reverse"),
        ("{}:same:vocab=ab", "'same' is not an s-op"),
        ("{}:hist:vocab=ab,size=3", "is not in the vocabulary"),
        ("{}:hist:size=3", "is not vocab="),
        ("{}:hist:vocab=ab,length=many", "length is a whole number"),
        ("nowhere.rasp:hist:vocab=ab", "cannot be read"),
    ],
)
def test_bad_input_is_one_line(capsys, file, name, words):
    code, said = kleene(capsys, "run", name.format(file), "xyz")
    assert code == 2 and words in said and said.count("\n") == 1 and "Traceback" not in said
