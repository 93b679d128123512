"""JFLAP's Turing machines: wildcards, building blocks, several tapes."""

from __future__ import annotations

from pathlib import Path

import pytest

import kleene as kl

States = str


def move(p: int, q: int, read: str, write: str, way: str) -> str:
    return (
        f"<transition>\n<from>{p}</from><to>{q}</to><read>{read}</read><write>{write}</write>"
        f"<move>{way}</move></transition>"
    )


def machine(path: Path, body: str, kind: str = "turing") -> Path:
    path.write_text(f"<structure><type>{kind}</type><automaton>\n{body}\n</automaton></structure>")
    return path


START, MIDDLE, END = '<state id="0"><initial/></state>', '<state id="1"/>', '<state id="2"><final/></state>'


def test_wildcards(tmp_path: Path) -> None:
    """Go right over everything but b, then mark the b."""
    path = machine(
        tmp_path / "m.jff",
        START + END + move(0, 0, "!b", "~", "R") + move(0, 2, "b", "x", "S") + move(2, 2, "a", "c", "R"),
    )
    tm = kl.TuringMachine.load(path)
    assert set(tm.symbols) == {"□", "a", "b", "c", "x"}
    decision = tm.run("acab", max_steps=100)
    assert decision.answer == "accept" and decision.tape == ("a", "c", "a", "x") and decision.steps == 4
    everything = machine(tmp_path / "e.jff", START + END + move(0, 2, "~", "~", "R") + move(2, 2, "a", "b", "R"))
    assert kl.TuringMachine.load(everything).run("b", max_steps=9).answer == "accept"


def test_a_wildcard_beside_its_own_symbol_is_a_choice(tmp_path: Path) -> None:
    path = machine(tmp_path / "m.jff", START + END + move(0, 2, "~", "~", "R") + move(0, 0, "a", "a", "R"))
    with pytest.raises(kl.FileError, match=r"line 3: a second transition from '0' on 'a'"):
        kl.TuringMachine.load(path)


@pytest.mark.parametrize(
    "read, write, says", [("ab", "a", "one character"), ("a,b}w", "w", "variable"), ("a", "!b", "one character")]
)
def test_what_a_cell_cannot_hold(tmp_path: Path, read: str, write: str, says: str) -> None:
    with pytest.raises(kl.FileError, match=says):
        kl.TuringMachine.load(machine(tmp_path / "m.jff", START + END + move(0, 2, read, write, "R")))


BLOCK = """<block id="0" name="to the end"><tag>Machine0</tag><initial/></block>
<block id="1" name="mark"><tag>Machine1</tag></block>
<block id="2" name="done"><tag>Machine2</tag><final/></block>
{moves}
<Machine0><block id="0" name="q0"><tag>Machine2</tag><initial/></block>{inner}</Machine0>
<Machine1/><Machine2/>"""


@pytest.mark.parametrize("kind", ["turing", "turingbb"])
def test_blocks_run_until_they_halt(tmp_path: Path, kind: str) -> None:
    """The block runs right over every a; its machine halts on the blank, and only then its transition applies."""
    moves = move(0, 1, "", "x", "L") + move(1, 2, "a", "y", "S")
    path = machine(tmp_path / "m.jff", BLOCK.format(moves=moves, inner=move(0, 0, "a", "a", "R")), kind)
    tm = kl.TuringMachine.load(path)
    assert tm.start == "to the end/q0" and set(tm.transitions) == {"to the end/q0", "mark"}
    assert tm.run("aaa", max_steps=100).tape == ("a", "a", "y", "x")
    assert tm.run("", max_steps=100).answer == "reject"  # nothing to mark
    net = kl.compile(tm)
    assert net.decide("aaa", max_steps=100).answer == "accept"


def test_a_transition_of_the_block_waits_for_its_machine(tmp_path: Path) -> None:
    """Both the block and its machine have a transition for a: the inner one applies."""
    moves = move(0, 1, "~", "z", "S") + move(1, 2, "z", "z", "S")
    path = machine(tmp_path / "m.jff", BLOCK.format(moves=moves, inner=move(0, 0, "a", "b", "R")))
    assert kl.TuringMachine.load(path).run("aa", max_steps=100).tape == ("b", "b", "z")


def test_blocks_that_cannot_be_expanded(tmp_path: Path) -> None:
    plain = BLOCK.format(moves="", inner="")
    inside_itself = plain.replace("<tag>Machine2</tag><initial/>", "<tag>Machine0</tag><initial/>")
    with pytest.raises(kl.FileError, match="a block inside itself"):
        kl.TuringMachine.load(machine(tmp_path / "m.jff", inside_itself))
    final = plain.replace("<initial/></block>", "<initial/><final/></block>", 1)
    with pytest.raises(kl.FileError, match="the building block 'to the end' is final"):
        kl.TuringMachine.load(machine(tmp_path / "m.jff", final))


def test_two_tapes(tmp_path: Path) -> None:
    """Copy the input to the second tape."""

    def both(p: int, q: int, first: tuple[str, str, str], second: tuple[str, str, str]) -> str:
        parts = "".join(
            f'<read tape="{t}">{r}</read><write tape="{t}">{w}</write><move tape="{t}">{m}</move>'
            for t, (r, w, m) in enumerate((first, second), 1)
        )
        return f"<transition><from>{p}</from><to>{q}</to>{parts}</transition>"

    body = START + END + both(0, 0, ("a", "a", "R"), ("", "a", "R")) + both(0, 0, ("b", "b", "R"), ("", "b", "R"))
    body += both(0, 2, ("", "", "S"), ("", "", "S"))
    path = tmp_path / "m.jff"
    path.write_text(f"<structure><type>turing</type><tapes>2</tapes><automaton>{body}</automaton></structure>")
    with pytest.raises(kl.FileError, match=r"2 tapes; read it with kl\.MultiTapeMachine\.load"):
        kl.TuringMachine.load(path)
    copy = kl.MultiTapeMachine.load(path)
    assert copy.run("abba").answer == "accept"
    *_, (state, tapes) = copy.configurations("abb")
    assert state == "2" and "".join(tapes[1].left[::-1]) == "abb"


TEXTS = [
    "1RB1LB_1LA1RZ",
    "1RB 1LB_1LA 1RZ",
    "1RB 1LB  1LA 1RZ",
    "1RB1LB 1LA1RZ",
    "1RB 1LB\n1LA 1RZ",
    "1RB 1LB; 1LA 1RZ",
    "1RB 1LB 1LA 1RZ",
    "1RB 1LB | 1LA 1RZ",
]


@pytest.mark.parametrize("text", TEXTS)
def test_bbchallenge_texts_with_spaces(text: str) -> None:
    assert kl.TuringMachine.parse(text).transitions == kl.TuringMachine.parse(TEXTS[0]).transitions


@pytest.mark.parametrize("text", ["1RB 1LB 1LA", "1RB_", "1RB 1L", "", "1RB\t1XB"])
def test_bbchallenge_texts_that_are_none(text: str) -> None:
    with pytest.raises(kl.KleeneError):
        kl.TuringMachine.parse(text)


def test_parse_takes_text() -> None:
    with pytest.raises(kl.InputError, match="must be a string"):
        kl.TuringMachine.parse(None)  # type: ignore[arg-type]


def test_the_wrapper_of_turingmachine_io(tmp_path: Path) -> None:
    source = "input: '1'\nblank: ' '\nstart state: go\ntable:\n  go:\n    1: R\n    ' ': {L: done}\n  done:\n"
    wrapped = (
        "name: over\nsource code: |\n"
        + "".join(f"  {line}\n" for line in source.splitlines())
        + "positions:\n  go: {x: 1}\n"
    )
    (tmp_path / "m.yaml").write_text(wrapped)
    (tmp_path / "plain.yaml").write_text(source)
    one, other = kl.TuringMachine.load(tmp_path / "m.yaml"), kl.TuringMachine.load(tmp_path / "plain.yaml")
    assert one.transitions == other.transitions and one.example == "1"
