"""Finite automata: laws, an independent library as oracle, files."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from automata.fa.dfa import DFA as OtherDFA

import kleene as kl
from kleene.common.alphabet import all_words
from kleene.errors import FileError
from random_machines import random_dfa, random_word


def other(dfa: kl.DFA) -> OtherDFA:
    rows = dfa.table.tolist()
    return OtherDFA(
        states=set(range(len(dfa))),
        input_symbols=set(dfa.alphabet),
        transitions={q: dict(zip(dfa.alphabet, row)) for q, row in enumerate(rows)},
        initial_state=dfa.start,
        final_states={q for q in range(len(dfa)) if dfa.accepting[q]},
    )


@pytest.mark.parametrize("seed", range(60))
def test_against_an_independent_library(seed: int) -> None:
    rng = random.Random(seed)
    dfa, second = random_dfa(rng, symbols=2), random_dfa(rng, symbols=2)
    second = kl.DFA(second.table, second.accepting, second.alphabet, second.start)
    assert len(dfa.minimise()) == len(other(dfa).minify(retain_names=False).states)
    for _ in range(30):
        word = random_word(rng, dfa.alphabet, 12)
        assert dfa.accepts(word) == other(dfa).accepts_input(word)
    if dfa.alphabet == second.alphabet:
        assert dfa.equivalent(second) == (other(dfa) == other(second))
        both = other(dfa).intersection(other(second))
        assert (dfa & second).equivalent(second & dfa)
        assert all((dfa & second).accepts(w) == both.accepts_input(w) for w in all_words(dfa.alphabet, 4))


@pytest.mark.parametrize("seed", range(100))
def test_laws(seed: int) -> None:
    rng = random.Random(1000 + seed)
    dfa = random_dfa(rng)
    minimal = dfa.minimise()
    assert minimal.equivalent(dfa) and len(minimal) <= len(dfa)
    assert (minimal.minimise().table == minimal.table).all()
    assert dfa.complement().complement().equivalent(dfa)
    assert not (dfa & ~dfa).reachable().accepting.any() and (dfa | ~dfa).reachable().accepting.all()
    assert dfa.reverse().reverse().equivalent(dfa)
    words = [random_word(rng, dfa.alphabet, 10) for _ in range(50)]
    assert dfa.accepts_batch(words).tolist() == [dfa.accepts(w) for w in words]
    assert dfa.run_batch(words).tolist() == [dfa.run(w) for w in words]
    assert [dfa.reverse().accepts(w[::-1]) for w in words] == [dfa.accepts(w) for w in words]


@pytest.mark.parametrize("seed", range(200))
def test_distinguishing_word_is_shortest(seed: int) -> None:
    rng = random.Random(2000 + seed)
    left = random_dfa(rng, 5, 2)
    right = random_dfa(rng, 5, 2)
    if left.alphabet != right.alphabet:
        return
    found = left.distinguish(right)
    wanted = next((w for w in all_words(left.alphabet, 10) if left.accepts(w) != right.accepts(w)), None)
    assert (found is None) == (wanted is None)
    if found is not None and wanted is not None:
        assert left.accepts(found) != right.accepts(found) and len(found) == len(wanted)


def test_minimal_automata_of_one_language_are_the_same_table() -> None:
    for seed in range(50):
        dfa = random_dfa(random.Random(3000 + seed))
        order = np.random.default_rng(seed).permutation(len(dfa))
        other_way = dfa.renumbered(order)
        assert (dfa.minimise().table == other_way.minimise().table).all()
        assert (dfa.minimise().accepting == other_way.minimise().accepting).all()


def test_large_machines() -> None:
    rng = np.random.default_rng(0)
    size = 100_000
    dfa = kl.DFA(rng.integers(0, size, (size, 2)), rng.random(size) < 0.5, ("a", "b"))
    twin = dfa.renumbered(rng.permutation(size))
    assert dfa.equivalent(twin)
    last = kl.DFA(dfa.table, dfa.accepting ^ (np.arange(size) == dfa.run("abbab" * 3)), dfa.alphabet)
    word = dfa.distinguish(last)
    assert word is not None and dfa.accepts(word) != last.accepts(word) and len(word) <= 15


def test_symbols_of_several_characters() -> None:
    dfa = kl.DFA.build("off", ["on"], {"off": {"push": "on", "wait": "off"}, "on": {"push": "off", "wait": "on"}})
    assert dfa.accepts(["push", "wait"]) and not dfa.accepts(["push", "push"])
    assert list(dfa.distinguish(~dfa) or []) == []
    assert kl.compile(dfa).accepts(["push", "wait"])


@pytest.mark.parametrize("suffix", [".json", ".jff", ".att"])
def test_files_round_trip(tmp_path: Path, suffix: str) -> None:
    for seed in range(30):
        dfa = random_dfa(random.Random(seed))
        dfa.save(tmp_path / f"m{suffix}")
        assert kl.DFA.load(tmp_path / f"m{suffix}").equivalent(dfa)


def test_files_hold_difficult_symbols(tmp_path: Path) -> None:
    dfa = kl.DFA(np.array([[0, 1, 0, 1], [1, 0, 0, 0]]), np.array([1]), (" ", "<", "&", '"'))
    for suffix in (".json", ".jff", ".att"):
        dfa.save(tmp_path / f"m{suffix}")
        assert kl.DFA.load(tmp_path / f"m{suffix}").equivalent(dfa)


def test_dot_and_picture(tmp_path: Path) -> None:
    dfa = kl.regex("(0|10*1)*", "01")
    dot = dfa.to_dot()
    assert dot.count("->") == 5 and "doublecircle" in dot and dot.startswith("digraph")
    for suffix, magic in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")):
        dfa.save(tmp_path / f"m{suffix}")
        assert (tmp_path / f"m{suffix}").read_bytes().startswith(magic)
    assert "doublecircle" not in kl.regex("a&b", "ab").to_dot()


JFF = "<structure><type>fa</type><automaton>\n{}\n</automaton></structure>"
STATE = '<state id="0"><initial/></state>\n'
MALFORMED = [
    ("m.json", "{", "not JSON"),
    ("m.json", "[]", "is an object with"),
    ("m.json", '{"alphabet": ["a"], "accepting": [], "start": ["q", "r"], "transitions": {}}', "'start'"),
    (
        "m.json",
        '{"alphabet": ["a"], "accepting": [], "start": "q", "transitions": {"q": {"b": "q"}}}',
        "unknown symbol 'b'",
    ),
    (
        "m.json",
        '{"alphabet": ["a"], "accepting": [], "start": "q", "transitions": {"q": {"a": "r"}}}',
        "unknown state",
    ),
    ("m.jff", "<structure><type>", "line 1: not XML"),
    ("m.jff", "hello", "line 1: not XML"),
    ("m.jff", "<!DOCTYPE x [<!ENTITY a 'b'>]><structure/>", "document types and entities"),
    ("m.jff", "<structure><type>pda</type></structure>", "<type>pda</type>"),
    (
        "m.jff",
        JFF.format('<state id="0"><initial/></state>\n<state id="1"><initial/></state>'),
        "line 3: 2 start states",
    ),
    ("m.jff", JFF.format('<state id="0"/>'), "no start states"),
    (
        "m.jff",
        JFF.format(STATE + "<transition><from>0</from><to>7</to><read>a</read></transition>"),
        "line 3",
    ),
    (
        "m.jff",
        JFF.format(STATE + "<transition><from>0</from><to>0</to><read/></transition>"),
        "empty (ε) move",
    ),
    (
        "m.jff",
        JFF.format(
            STATE + '<state id="1"/>\n<transition><from>0</from><to>0</to><read>a</read></transition>\n'
            "<transition><from>0</from><to>1</to><read>a</read></transition>"
        ),
        "line 5: a second move",
    ),
    ("m.att", "0 1 a\n1 0 a b c d e\n", "line 2"),
    ("m.att", "0 1 a\n1 0 b c 1.5\n", "transducer"),
    ("m.att", "0 1 a a x\n", "'x' is not a weight"),
    ("m.json", '{"start": "q", "start": "r"}', "'start' appears twice"),
    ("m.att", "0 0 a\n0 0 a b\n", "transducer"),
    ("m.att", "", "no states"),
    ("m.xyz", "", "unknown suffix"),
]


@pytest.mark.parametrize("name, text, says", MALFORMED)
def test_malformed_files(tmp_path: Path, name: str, text: str, says: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(kl.FileError) as error:
        kl.DFA.load(tmp_path / name)
    assert says in str(error.value) and str(tmp_path / name) in str(error.value)
    assert "\n" not in str(error.value)


def test_errors_name_the_input() -> None:
    dfa = kl.regex("a*", "ab")
    with pytest.raises(kl.InputError, match="'x' at position 1 is not in the alphabet"):
        dfa.accepts("axb")
    with pytest.raises(kl.InputError, match="'x' at position 1"):
        dfa.accepts_batch(["ab", "axb"])
    for other in ("ab", 3, None):
        with pytest.raises(kl.InputError, match="give an automaton"):
            dfa.equivalent(other)  # type: ignore[arg-type]
        with pytest.raises(kl.InputError, match="give an automaton"):
            dfa & other  # type: ignore[operator]
    with pytest.raises(kl.InputError, match="give a list of words"):
        dfa.accepts_batch("ab")
    for path in (None, 3, b"x.json"):
        with pytest.raises(kl.InputError, match="should be a file's name"):
            kl.DFA.load(path)  # type: ignore[arg-type]
    with pytest.raises(kl.InputError, match="no transition for 'b'"):
        kl.DFA.build("q", [], {"q": {"a": "q"}}, "ab")
    with pytest.raises(kl.InputError, match="outside"):
        kl.DFA(np.array([[3]]), np.array([0]), ("a",))


EVEN = kl.DFA.build("even", (q for q in ["even"]), {"even": {"a": "odd"}, "odd": {"a": "even"}})


def test_a_generator_of_accepting_states_is_read_once():
    assert EVEN.accepts("aa") and not EVEN.accepts("a")


def test_a_number_of_too_many_digits_is_a_clear_error(tmp_path):
    path = tmp_path / "even.json"
    path.write_text('{"start": ' + "1" * 5000 + "}")
    with pytest.raises(FileError, match="not JSON"):
        kl.DFA.load(path)


@pytest.mark.parametrize("symbol", ["ε", "<eps>", "<epsilon>", "@0@"])
def test_a_symbol_that_other_files_read_as_empty(tmp_path: Path, symbol: str) -> None:
    dfa = kl.DFA([[0, 1], [1, 0]], [1], ("a", symbol))
    dfa.save(tmp_path / "m.json")
    assert kl.DFA.load(tmp_path / "m.json").equivalent(dfa)
    assert kl.certify(kl.compile(dfa)).holds
    for suffix in (".att", ".jff"):
        with pytest.raises(FileError, match="symbol"):
            dfa.save(tmp_path / f"m{suffix}")


@pytest.mark.parametrize("symbol", list("\x0b\x0c\x1c\x85\xa0\u2028\u3000\ufeff\t\n "))
def test_att_files_hold_white_space(tmp_path: Path, symbol: str) -> None:
    dfa = kl.DFA([[0, 1], [1, 0]], [1], ("a", symbol))
    dfa.save(tmp_path / "m.att")
    assert kl.DFA.load(tmp_path / "m.att").equivalent(dfa)


@pytest.mark.parametrize("symbol", ["\r", "a b", "a\tb", "a\n", "<space>", "<tab>", "<newline>"])
def test_att_files_refuse_what_they_cannot_hold(tmp_path: Path, symbol: str) -> None:
    with pytest.raises(FileError, match="AT&T files cannot hold it"):
        kl.DFA([[0]], [0], (symbol,)).save(tmp_path / "m.att")
    assert not (tmp_path / "m.att").exists()


def test_att_files_with_a_byte_order_mark_or_windows_line_ends(tmp_path: Path) -> None:
    (tmp_path / "m.att").write_bytes("\ufeff0\t1\ta\r\n1\t0 a\r\n1\r\n".encode())
    dfa = kl.DFA.load(tmp_path / "m.att")
    assert len(dfa) == 2 and dfa.accepts("a") and not dfa.accepts("aa")


@pytest.mark.parametrize("symbol", ["\x00", "\x0b", "\x1f", "\ufffe"])
def test_jflap_refuses_what_xml_cannot_hold(tmp_path: Path, symbol: str) -> None:
    for dfa in (kl.DFA([[0]], [0], (symbol,)), kl.DFA([[0]], [0], "a", names=(symbol,))):
        with pytest.raises(FileError, match="XML, and so JFLAP, cannot hold") as error:
            dfa.save(tmp_path / "m.jff")
        assert "\n" not in str(error.value) and not (tmp_path / "m.jff").exists()


@pytest.mark.parametrize(
    "table, accepting, start, says",
    [
        ([[0.5, 1], [1, 0]], [1], 0, "table: .* should be whole"),
        ([[0, float("nan")], [1, 0]], [1], 0, "table: .* should be whole"),
        ([["0", "1"], ["1", "0"]], [1], 0, "table: .* should be whole"),
        ([[0, 2**70], [1, 0]], [1], 0, "table: .* should be whole"),
        (np.array([[2**32, 1], [1, 0]]), [1], 0, "outside"),
        ([[0, 1], [1]], [1], 0, "rows of different lengths"),
        (np.array([[0.5, 1], [1, 0]]), [1], 0, "table: .* should be whole"),
        (None, [1], 0, "table: .* should be whole"),
        ([[0, 1], [1, 0]], [0.7], 0, "accepting states: .* should be whole"),
        ([[0, 1], [1, 0]], 5, 0, "accepting state"),
        ([[0, 1], [1, 0]], [2], 0, "an accepting state is outside"),
        ([[0, 1], [1, 0]], [True, False, True], 0, "3 accepting flags"),
        ([[0, 1], [1, 0]], [1], True, "start state True"),
        ([[0, 1], [1, 0]], [1], 0.5, "start state 0.5"),
    ],
)
def test_nothing_is_rounded(table: object, accepting: object, start: object, says: str) -> None:
    with pytest.raises(kl.InputError, match=says) as error:
        kl.DFA(table, accepting, "01", start)  # type: ignore[arg-type]
    assert "\n" not in str(error.value)


def test_accepting_states_can_be_any_collection() -> None:
    for accepting in ({1}, frozenset([1]), (1,), range(1, 2), iter([1]), [False, True], np.array([1], dtype=np.uint64)):
        assert kl.DFA([[0, 1], [1, 0]], accepting, "01").accepts("1")  # type: ignore[arg-type]
    assert not kl.DFA([[0, 1], [1, 0]], (), "01").accepting.any()  # type: ignore[arg-type]


def test_names_are_strings() -> None:
    with pytest.raises(kl.InputError, match="state 0 is an int"):
        kl.DFA.build(0, [0], {0: {"0": 0}})  # type: ignore[arg-type,dict-item]
    with pytest.raises(kl.InputError, match="state 0 is an int"):
        kl.DFA([[0]], [0], "0", names=(0,))  # type: ignore[arg-type]


def test_words_that_are_none() -> None:
    dfa = kl.regex("a*", "ab")
    for word in (None, 5, [["a"]], [0, 1]):
        with pytest.raises(kl.InputError, match="word"):
            dfa.accepts(word)  # type: ignore[arg-type]
        with pytest.raises(kl.InputError, match="word"):
            dfa.accepts_batch([word])  # type: ignore[list-item]
    with pytest.raises(kl.InputError, match="word"):
        dfa.accepts_batch(None)  # type: ignore[arg-type]


def test_files_are_utf_8_whatever_they_say_and_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    dfa = kl.DFA([[1, 0], [0, 1]], start=0, accepting=[0], alphabet=("é", "b"))
    for name in ("x.jff", "x.json", "x.att"):
        path = tmp_path / name
        dfa.save(path)
        text = path.read_text(encoding="utf-8").replace('encoding="UTF-8"', 'encoding="ISO-8859-1"')
        path.write_text("\ufeff" + text, encoding="utf-8")
        assert kl.DFA.load(path).equivalent(dfa), name


@pytest.mark.parametrize(
    ("work", "error", "said"),
    [
        (lambda: kl.DFA([[0, 0]], [0], "a"), kl.InputError, "one row per state and 1 columns"),
        (lambda: kl.DFA([[0]], [0], "a", start=2), kl.InputError, "start state 2 is outside"),
        (lambda: kl.DFA([[0]], [0], "a", names=["p", "q"]), kl.InputError, "2 names for 1 state"),
        (lambda: kl.DFA.build("p", ["x"], {"p": {"a": "p"}}), kl.InputError, "'x' has no row"),
        (lambda: kl.DFA.build("p", [], {"p": {"a": "x"}}), kl.InputError, "goes to 'x', which has no row"),
        (lambda: kl.DFA.build("p", [], {"p": {"a": "p", "b": "p"}}, "a"), kl.InputError, "reads 'b', which is not"),
        (lambda: kl.NFA([(0, "a", 0)], [0], "a").accepts_batch("a"), kl.InputError, "give a list of words"),
        (lambda: kl.NFA([(0, "a", 0)], [0], "a") | 3, kl.InputError, "give an NFA"),
        (
            lambda: kl.NFA([(0, "a", 0), (0, "b", 0), (0, "a", 1)], [1], "ab").determinise(limit=1),
            kl.NotSupported,
            "determinise: more than 1 states; raise limit=",
        ),
        (lambda: kl.regex(3), kl.InputError, "pattern 3: an int; it should be a string"),
        (lambda: kl.regex("a", alphabet=["ab"]), kl.InputError, "symbols of a regular expression are single"),
    ],
)
def test_wrong_parts_are_named(work, error, said) -> None:
    with pytest.raises(error, match=said):
        work()
