"""Files of finite automata: every format there and back, what is completed, and what is refused by name."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import kleene as kl
from kleene.common.alphabet import all_words
from random_machines import random_dfa

FORMATS = [".json", ".jff", ".att", ".mata", ".ba", ".regex"]


def random_nfa(rng: random.Random, states: int = 6, symbols: str = "ab") -> kl.NFA:
    n = rng.randint(1, states)
    letters = ["", *symbols] if rng.random() < 0.7 else list(symbols)
    moves = [(rng.randrange(n), rng.choice(letters), rng.randrange(n)) for _ in range(rng.randint(1, 3 * n))]
    return kl.NFA(moves, [q for q in range(n) if rng.random() < 0.4], symbols, rng.randrange(n), n)


@pytest.mark.filterwarnings("ignore::kleene.errors.KleeneWarning")
@pytest.mark.parametrize("suffix", FORMATS)
def test_round_trips(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"m{suffix}"
    for seed in range(25):
        rng = random.Random(seed)
        dfa, nfa = random_dfa(rng), random_nfa(rng)
        for machine in (dfa, nfa):
            if suffix in (".ba", ".regex") and (not machine.accepting.any() or machine.minimise().is_empty()):
                continue  # BA has no way to say that nothing accepts, and such a pattern names no symbols
            if suffix == ".ba" and machine is nfa:
                machine = nfa.without_empty_moves()
                if not machine.accepting.any():
                    continue
            if suffix == ".regex" and list(machine.minimise().words(2)) == [""]:
                continue
            if suffix in (".jff", ".att", ".ba") and isinstance(machine, kl.NFA) and not (machine.codes >= 0).any():
                continue  # these files name the alphabet only by their moves
            machine.save(path)
            again = kl.NFA.load(path)
            assert again.determinise() == machine.minimise(), (suffix, seed)


def test_nondeterministic_files_are_for_nfa_load(tmp_path: Path) -> None:
    ends = kl.NFA([(0, "a", 0), (0, "b", 0), (0, "a", 1), (1, "b", 2), (2, "", 0)], [2], "ab")
    for suffix in (".json", ".jff", ".att", ".mata"):
        ends.save(tmp_path / f"m{suffix}")
        with pytest.raises(kl.FileError, match=r"with kl\.NFA\.load"):
            kl.DFA.load(tmp_path / f"m{suffix}")
        assert all(kl.NFA.load(tmp_path / f"m{suffix}").accepts(w) == w.endswith("ab") for w in all_words("ab", 6))


@pytest.mark.parametrize(
    "name, text", [("m.att", "0 1 a\n1 0 b\n1\n"), ("m.mata", "@NFA-explicit\n%Initial p\n%Final q\np a q\nq b p\n")]
)
def test_partial_automata_get_a_sink_and_say_so(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.warns(kl.KleeneWarning, match="2 moves are missing, the first from .* on 'b'; .* 'sink'"):
        dfa = kl.DFA.load(tmp_path / name)
    assert dfa == kl.regex("a(ba)*") and dfa.names is not None and dfa.names[-1] == "sink"


ATT = [
    ("0 1 a a 0.5\n1\n", "it has weights"),
    ("0 1 a 0.5\n1 0 b\n1 2.5\n", "it has weights"),
    ("0 1 a x\n1\n", "transducer"),
    ("0 0 a\n0 Infinity\n0 nan\n", "not a weight"),
]


@pytest.mark.parametrize("text, says", ATT)
def test_att_weights_are_not_dropped(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "m.att").write_text(text)
    with pytest.raises(kl.FileError, match=says):
        kl.DFA.load(tmp_path / "m.att")


@pytest.mark.filterwarnings("ignore::kleene.errors.KleeneWarning")
def test_a_final_state_of_weight_infinity_does_not_accept(tmp_path: Path) -> None:
    (tmp_path / "m.att").write_text("0 1 a\n1 0 a\n0 Infinity\n1 0.0\n")
    dfa = kl.DFA.load(tmp_path / "m.att")
    assert dfa.accepts("a") and not dfa.accepts("") and not dfa.accepts("aa")
    (tmp_path / "m.att").write_text("0 1 a a 0\n0 0 b b Infinity\n1\n")
    assert kl.DFA.load(tmp_path / "m.att") == kl.regex("a")


def test_binary_openfst_and_hoa_are_named(tmp_path: Path) -> None:
    (tmp_path / "m.fst").write_bytes(b"\xd6\xfd\xb2\x7e" + bytes(60))
    with pytest.raises(kl.FileError, match="binary OpenFst file; 'fstprint"):
        kl.DFA.load(tmp_path / "m.fst")
    (tmp_path / "m.hoa").write_text("HOA: v1\n")
    with pytest.raises(kl.FileError, match="infinite words"):
        kl.NFA.load(tmp_path / "m.hoa")


NFA_JSON = '{"alphabet": ["a"], "states": ["q"], "start": ["q"], "accepting": [], "transitions": []}'
BAD = [
    ("m.mata", "p a q\n", "no @NFA-explicit"),
    ("m.mata", "@AFA-bits\n", "@AFA-bits"),
    ("m.mata", "@NFA-explicit\n%Start q\n", "'%Start' is unknown"),
    ("m.mata", "@NFA-explicit\np a b c q\n", "line 2: 5 words"),
    ("m.ba", "", "no states"),
    ("m.ba", "[0]\n[0]->[1]\n", "line 2"),
    ("m.json", NFA_JSON.replace("[]}", '[["q"]]}'), "should be"),
    ("m.json", NFA_JSON.replace('"start": ["q"]', '"start": ["r"]'), "unknown state"),
]


@pytest.mark.parametrize("name, text, says", BAD)
def test_malformed_files(tmp_path: Path, name: str, text: str, says: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(kl.FileError, match=says) as error:
        kl.NFA.load(tmp_path / name)
    assert "\n" not in str(error.value)
