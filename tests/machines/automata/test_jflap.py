"""JFLAP's files: versions 4 to 7, strings as labels, expressions, grammars, machines with output."""

from __future__ import annotations

from pathlib import Path

import pytest

import kleene as kl
from kleene.common.alphabet import all_words

AUTOMATON = """<?xml version="1.0" encoding="UTF-8" standalone="no"?><!--Created with JFLAP 6.4.--><structure>&#13;
<type>fa</type>{open}
<state id="0" name="q0"><x>1.0</x><y>2.0</y><initial/></state>
<state id="1" name="q1"><x>1.0</x><y>2.0</y><final/></state>
{moves}{close}</structure>"""


def jff(path: Path, *moves: tuple[int, str, int], version: int = 7) -> Path:
    listed = "".join(f"<transition>\n<from>{p}</from><to>{q}</to><read>{s}</read></transition>\n" for p, s, q in moves)
    tags = ("<automaton>", "</automaton>") if version > 5 else ("", "")
    path.write_text(AUTOMATON.format(open=tags[0], close=tags[1], moves=listed))
    return path


@pytest.mark.parametrize("version", [4, 7])
def test_a_label_of_several_characters_reads_a_string(tmp_path: Path, version: int) -> None:
    path = jff(tmp_path / "m.jff", (0, "abc", 1), (1, "ab", 0), version=version)
    nfa = kl.NFA.load(path)
    assert nfa.alphabet == ("a", "b", "c") and nfa.determinise() == kl.regex("abc(ababc)*")
    with pytest.warns(kl.KleeneWarning, match="moves are missing"):
        assert kl.DFA.load(path).accepts("abcababc")


def test_ranges_and_empty_moves(tmp_path: Path) -> None:
    path = jff(tmp_path / "m.jff", (0, "[a-d]", 1), (1, "", 0), (1, "λ", 0))
    assert kl.NFA.load(path).determinise() == kl.regex("[a-d]+")
    with pytest.raises(kl.FileError, match=r"line 7: an empty"):
        kl.DFA.load(path)


def test_symbols_of_several_characters_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(kl.FileError, match="string of symbols"):
        kl.DFA([[0]], [0], ("ab",)).save(tmp_path / "m.jff")


@pytest.mark.parametrize(
    "expression, pattern",
    [("a*(b+c)", "a*(b|c)"), ("(!+ab)*c", "(|ab)*c"), ("a+b*", "a|b*"), ("(a.b)*", r"(a\.b)*")],
)
def test_expressions(tmp_path: Path, expression: str, pattern: str) -> None:
    (tmp_path / "m.jff").write_text(f"<structure><type>re</type><expression>{expression}</expression></structure>")
    assert kl.DFA.load(tmp_path / "m.jff") == kl.regex(pattern)


def grammar(path: Path, *rules: tuple[str, str]) -> Path:
    listed = "".join(f"<production><left>{a}</left><right>{b}</right></production>\n" for a, b in rules)
    path.write_text(f"<structure><type>grammar</type>{listed}</structure>")
    return path


def test_regular_grammars(tmp_path: Path) -> None:
    right = grammar(tmp_path / "r.jff", ("S", "abS"), ("S", "cT"), ("T", "dT"), ("T", ""))
    left = grammar(tmp_path / "l.jff", ("S", "Sab"), ("S", "Tc"), ("T", "Td"), ("T", "a"), ("T", ""))
    assert kl.NFA.load(right).determinise() == kl.regex("(ab)*cd*")
    assert kl.NFA.load(left).determinise() == kl.regex("(a|)d*c(ab)*")
    for rules in ((("S", "aSb"), ("S", "")), (("S", "aT"), ("T", "Sb"), ("S", "a"))):
        with pytest.raises(kl.FileError, match="not regular"):
            kl.NFA.load(grammar(tmp_path / "n.jff", *rules))
    with pytest.raises(kl.FileError, match="one variable on the left"):
        kl.NFA.load(grammar(tmp_path / "n.jff", ("aS", "b")))


def test_mealy_and_moore_machines(tmp_path: Path) -> None:
    states = '<state id="0" name="e"><initial/>{}</state><state id="1" name="o">{}</state>'
    moves = "".join(
        f"<transition><from>{p}</from><to>{q}</to><read>{a}</read><transout>{q}</transout></transition>"
        for p, a, q in ((0, "0", 0), (0, "1", 1), (1, "0", 1), (1, "1", 0))
    )
    mealy, moore = tmp_path / "mealy.jff", tmp_path / "moore.jff"
    mealy.write_text(f"<structure><type>mealy</type>{states.format('', '')}{moves}</structure>")
    outputs = states.format("<output>0</output>", "<output>1</output>")
    moore.write_text(f"<structure><type>moore</type>{outputs}{moves}</structure>")
    assert kl.Transducer.load(mealy)("0110") == "0100"
    assert kl.Transducer.load(moore)("0110") == "00100"
    with pytest.raises(kl.FileError, match=r"read it with kl\.Transducer\.load"):
        kl.DFA.load(mealy)


@pytest.mark.parametrize("kind, says", [("pda", "pushdown"), ("turing", "TuringMachine"), ("lsystem", "lsystem")])
def test_other_kinds_are_named(tmp_path: Path, kind: str, says: str) -> None:
    (tmp_path / "m.jff").write_text(f"<structure><type>{kind}</type></structure>")
    with pytest.raises(kl.FileError, match=says):
        kl.DFA.load(tmp_path / "m.jff")


def test_words_of_the_file(tmp_path: Path) -> None:
    path = jff(tmp_path / "m.jff", (0, "ab", 1), (1, "a", 1), (1, "b", 0))
    nfa = kl.NFA.load(path)
    assert [w for w in all_words("ab", 4) if nfa.accepts(w)] == ["ab", "aba", "abaa"]
