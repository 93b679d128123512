"""JFLAP 8's files mean what the same machine in JFLAP 7's elements means."""

import random
from pathlib import Path

import pytest

import kleene as kl
from kleene.machines.files import read_machine
from random_machines import random_dfa


def state(key: object) -> str:
    return f"<state><name>s{key}</name><id>{key}</id></state>"


def structure(kind: str, inside: str) -> str:
    return f'<structure type="{kind}">{inside}</structure>'


def symbols(kind: str, letters: str) -> str:
    return structure(kind, "".join(f"<symbol>{a}</symbol>" for a in letters))


def ends(source: object, target: object) -> str:
    return f"<from><name>s{source}</name><id>{source}</id></from><to><name>s{target}</name><id>{target}</id></to>"


def machine(kind: str, inside: str) -> str:
    return f'<?xml version="1.0"?>\n<structure mode="Default mode" type="{kind}">{inside}</structure>'


def in_editor(text: str) -> str:
    """The machine as JFLAP 8 saves it from its editor."""
    inner = text.partition("?>")[2]
    return structure("editor_panel", structure("transition_graph", inner + "<state_point_map/>") + "<note_map/>")


def written(dfa: kl.DFA) -> str:
    """A DFA as JFLAP 8 writes it."""
    moves = "".join(
        f"<fsa_trans><input>{a}</input>{ends(q, dfa.table[q, i])}</fsa_trans>"
        for q in range(len(dfa))
        for i, a in enumerate(dfa.alphabet)
    )
    return machine(
        "fsa",
        structure("final_states", "".join(state(q) for q in range(len(dfa)) if dfa.accepting[q]))
        + symbols("input_alph", "".join(dfa.alphabet))
        + structure("state_set", "".join(state(q) for q in range(len(dfa))))
        + structure("start_state", state(dfa.start))
        + structure("transition_set", moves),
    )


def load(tmp_path: Path, text: str) -> object:
    path = tmp_path / "m.jflap"
    path.write_text(text)
    return read_machine(path)


@pytest.mark.parametrize("seed", range(10))
def test_automata(tmp_path: Path, seed: int) -> None:
    dfa = random_dfa(random.Random(seed))
    assert load(tmp_path, written(dfa)) == dfa
    assert load(tmp_path, in_editor(written(dfa))) == dfa


def test_empty_moves_words_and_unused_symbols(tmp_path: Path) -> None:
    text = machine(
        "fsa",
        symbols("input_alph", "abc")
        + structure("state_set", state(0) + state(1))
        + structure("start_state", state(0))
        + structure("final_states", state(1))
        + structure(
            "transition_set",
            f"<fsa_trans><input/>{ends(0, 1)}</fsa_trans><fsa_trans><input>ab</input>{ends(1, 0)}</fsa_trans>",
        ),
    )
    nfa = load(tmp_path, text)
    assert isinstance(nfa, kl.NFA) and nfa.alphabet == ("a", "b", "c")
    assert nfa.determinise() == kl.regex("(ab)*", alphabet="abc")


def test_expressions_and_grammars(tmp_path: Path) -> None:
    text = machine("regex", structure("exp", "<exp>(a+b)*c</exp>") + symbols("input_alph", "abc"))
    assert load(tmp_path, text) == kl.regex("(a|b)*c", alphabet="abc")
    productions = [("B", "b"), ("S", "aB"), ("S", "aS")]
    rules = "".join(f"<production><rhs>{right}</rhs><lhs>{left}</lhs></production>" for left, right in productions)
    text = machine("grammar", structure("start_var", "<value>S</value>") + structure("production_set", rules))
    assert load(tmp_path, text).determinise() == kl.regex("a+b", alphabet="ab")  # type: ignore[attr-defined]


def test_mealy_and_moore_machines(tmp_path: Path) -> None:
    common = (
        symbols("input_alph", "ab") + structure("state_set", state(0) + state(1)) + structure("start_state", state(0))
    )
    moves = "".join(
        f"<fsa_trans><input>{a}</input>{ends(q, r)}</fsa_trans>" for q in (0, 1) for a, r in (("a", 0), ("b", 1))
    )
    outputs = "".join(
        f"<output_func>{state(q)}<input>{a}</input><output>{int(a == 'b')}{q}</output></output_func>"
        for q in (0, 1)
        for a in "ab"
    )
    inside = common + structure("transition_set", moves) + structure("output_set", outputs)
    mealy = load(tmp_path, machine("mealy_machine", inside))
    assert isinstance(mealy, kl.Transducer) and mealy("abba") == "00101101"
    outputs = "".join(f"<output_func>{state(q)}<output>{q}</output></output_func>" for q in (0, 1))
    inside = common + structure("transition_set", moves) + structure("output_set", outputs)
    moore = load(tmp_path, machine("moore_machine", inside))
    assert isinstance(moore, kl.Transducer) and moore("ab") == "001"


def flipping(tapes: int) -> str:
    """A machine that flips a and b until the blank; a second tape gets a copy."""
    moves = ""
    for read, write, way, to in (("a", "b", "R", 0), ("b", "a", "R", 0), ("□", "□", "S", 1)):
        labels = f"<read0>{read}</read0><write0>{write}</write0><move0>{way}</move0>"
        if tapes == 2:
            labels += f"<read1>□</read1><write1>{read}</write1><move1>{way}</move1>"
        moves += f"<transition>{ends(0, to)}{labels}<tapes>{tapes}</tapes></transition>"
    return machine(
        "turing",
        f"<tapes>{tapes}</tapes>"
        + structure("state_set", state(0) + state(1))
        + structure("start_state", state(0))
        + structure("final_states", state(1))
        + structure("blank_symbol", "<value>□</value>")
        + structure("transition_set", moves),
    )


def test_turing_machines(tmp_path: Path) -> None:
    one = load(tmp_path, flipping(1))
    assert isinstance(one, kl.TuringMachine)
    assert (one.run("abba").answer, one.run("abba").tape) == ("accept", ("b", "a", "a", "b"))
    two = load(tmp_path, flipping(2))
    assert isinstance(two, kl.MultiTapeMachine) and two.run("ab").answer == "accept"


@pytest.mark.parametrize(
    "text, says",
    [
        (machine("pda", ""), "line 2: type 'pda' of JFLAP 8 is not supported; known: fsa"),
        (structure("editor_panel", ""), "without a machine"),
        (machine("fsa", symbols("input_alph", ["ab"])), "symbol 'ab': a symbol must be one character"),
        (machine("fsa", structure("state_set", state(0))), "no start states"),
        (machine("fsa", "\n" + structure("state_set", state(0) + state(0))), "line 3: a second state with id '0'"),
    ],
)
def test_refusals_name_the_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(kl.FileError, match=says):
        load(tmp_path, text)
