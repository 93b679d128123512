"""Section 4.2.2: Turing machines as RNNs, checked configuration by configuration."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import kleene as kl
from kleene import library
from kleene.checks.turing_invariants import check_run, code
from kleene.compilers.affine_forms import StepBuilder
from kleene.compilers.two_layer import fuse
from kleene.errors import InputError
from kleene.library.turing_machines import BUSY_BEAVERS, POWERS_OF_TWO, busy_beaver
from kleene.machines.multitape import MultiTapeMachine, rule
from kleene.networks.rnn.decider import Decider
from kleene.networks.rnn.digit_patterns import PatternEngine
from kleene.networks.rnn.matrix import Matrix
from random_machines import random_turing, random_two_tape, random_word


def words_for(machine: kl.TuringMachine, rng: random.Random) -> list[str]:
    alphabet = machine.input_alphabet or ()
    return ["", random_word(rng, alphabet, 2), random_word(rng, alphabet, 6)]


@pytest.mark.parametrize("seed", range(150))
def test_theorem_4_11_compact(seed: int) -> None:
    rng = random.Random(seed)
    machine = random_turing(rng)
    net = kl.compile(machine)
    for word in words_for(machine, rng):
        assert check_run(machine, net, word, 40)[1] is None
        assert net.decide(word, max_steps=300, tape=True) == machine.run(word, max_steps=300)


@pytest.mark.parametrize("seed", range(100))
def test_theorem_4_11_literal(seed: int) -> None:
    rng = random.Random(1000 + seed)
    machine = random_turing(rng, 3, 3)
    net = kl.compile(machine, form="literal")
    for word in words_for(machine, rng)[1:]:
        assert check_run(machine, net, word, 20)[1] is None
        assert net.decide(word, max_steps=100, tape=True) == machine.run(word, max_steps=100)


@pytest.mark.parametrize("base", [4, 5])
@pytest.mark.parametrize("form", ["compact", "literal"])
def test_theorem_4_11_in_other_bases(form: str, base: int) -> None:
    for seed in range(5):
        rng = random.Random(2000 + seed)
        machine = random_turing(rng, 3, 3)
        net = kl.compile(machine, form=form, base=base)
        for word in words_for(machine, rng):
            assert check_run(machine, net, word, 15)[1] is None
            assert net.decide(word, max_steps=100, tape=True) == machine.run(word, max_steps=100)


@pytest.mark.parametrize("form", ["compact", "literal"])
def test_example_4_10(form: str) -> None:
    """Sipser's machine decides 1^(2^m)."""
    net = kl.compile(POWERS_OF_TWO, form=form)
    for n in range(18):
        decision = net.decide("1" * n, tape=True)
        assert decision == POWERS_OF_TWO.run("1" * n)
        assert decision.answer == ("accept" if n in (1, 2, 4, 8, 16) else "reject")
    assert net.decide("1" * 64).answer == "accept"
    assert kl.certify(net).holds


@pytest.mark.parametrize("form", ["compact", "literal"])
@pytest.mark.parametrize("states, steps, ones", [(2, 6, 4), (3, 21, 5), (4, 107, 13)])
def test_busy_beavers(states: int, steps: int, ones: int, form: str) -> None:
    net = kl.compile(busy_beaver(states), form=form)
    for evaluator in ("patterns", "plain"):
        decision = net.decide(max_steps=1000, tape=True, evaluator=evaluator)
        assert (decision.answer, decision.steps, (decision.tape or ()).count("1")) == ("accept", steps, ones)
    assert kl.verify(busy_beaver(states), net, inputs=[""], max_steps=200).holds
    assert kl.TuringMachine.parse(BUSY_BEAVERS[states][0].replace("1RZ", "---")).run().steps == steps


def test_the_champion_to_its_end() -> None:
    """All 47,176,870 steps on the exact network."""
    net = kl.compile(busy_beaver(5))
    decision = net.decide(max_steps=10**8, tape=True)
    assert (decision.answer, decision.steps, (decision.tape or ()).count("1")) == ("accept", 47_176_870, 4098)


def test_sizes() -> None:
    assert kl.compile(busy_beaver(5)).units <= 81 and kl.compile(POWERS_OF_TWO).units <= 109
    assert kl.compile(busy_beaver(5), form="literal").units <= 330
    assert kl.compile(POWERS_OF_TWO, form="literal").units <= 613


def test_output_is_nul_until_the_answer_and_stays() -> None:
    net = kl.compile(POWERS_OF_TWO, form="literal")
    word = "11"
    steps = POWERS_OF_TWO.run(word).steps
    end = 2 * len(word) + 2 + steps  # |w| symbols, EOS, then T = |w| + 1 + steps NULs
    for time, g in zip(range(end + 10), net.run_inputs(word)):
        assert net.output(g) == ([1, 0, 0] if time < end else [0, 1, 0])


def test_still_running() -> None:
    net = kl.compile(kl.TuringMachine.parse("1RA1RA"))
    decision = net.decide("111", max_steps=1000)
    assert (decision.answer, decision.steps) == (None, 1000)
    assert str(decision) == "still running after 1,000 steps"
    assert net.decide("", max_steps=0).answer is None


def test_awkward_names() -> None:
    """Symbols and states called like the network's own parts."""
    rows = {
        "load": {"_": ("rewind", "$", 1), "$": ("load", "l", -1), "l": ("load", "_", 1), "x": ("q", "x", 0)},
        "rewind": {
            "_": ("load", "x", -1),
            "$": ("q", "$", -1),
            "l": ("rewind", "x", 1),
            "x": ("load", "$", -1),
        },
    }
    for two_way in (True, False):
        machine = kl.TuringMachine(rows, "load", frozenset("q"), blank="_", two_way=two_way)
        for form in ("compact", "literal"):
            net = kl.compile(machine, form=form)
            for word in ("", "$l", "xl$$"):
                assert net.decide(word, max_steps=50, tape=True) == machine.run(word, max_steps=50)
                assert check_run(machine, net, word, 20)[1] is None
    with pytest.raises(kl.InputError, match="EOS"):
        kl.compile(kl.TuringMachine({}, "a", frozenset("a"), input_alphabet=("EOS",)))


def test_start_state_that_halts() -> None:
    machine = kl.TuringMachine({}, "yes", frozenset({"yes"}), blank="_", input_alphabet=("a",))
    for form in ("compact", "literal"):
        assert kl.compile(machine, form=form).decide("aa", tape=True) == machine.run("aa")


def test_evaluators_agree_on_changed_weights() -> None:
    """The fast evaluator reads the weights, not the machine: on damaged networks it still equals the plain
    one."""
    rng = random.Random(0)
    base = kl.compile(busy_beaver(3))
    assert base.readout is not None
    different = 0
    for _ in range(60):
        entries = dict(base.readout.A.entries)
        at = rng.choice(sorted(entries))
        entries[at] = entries[at] + rng.choice([-1, 1])
        A = Matrix(base.readout.A.rows, base.readout.A.columns, {k: v for k, v in entries.items() if v})
        net = replace(base, readout=replace(base.readout, A=A), V=A @ base.readout.R)
        answers = []
        for evaluator in ("plain", "patterns"):
            try:
                answers.append(net.decide(max_steps=40, evaluator=evaluator))
            except kl.InputError:
                answers.append(None)
        assert answers[0] == answers[1]
        different += answers[0] != base.decide(max_steps=40)
    assert different > 10


def test_evaluators_agree_where_deeper_digits_decide() -> None:
    """Thresholds moved by small fractions: the fast evaluator must look at more digits, or leave it to the
    plain one."""
    rng = random.Random(1)
    base = kl.compile(busy_beaver(4), form="literal")
    for _ in range(40):
        b = dict(base.b)
        unit = rng.randrange(1, base.units)
        b[unit] = b.get(unit, 0) + Fraction(rng.choice([-1, 1]), 3 ** rng.randint(1, 3))
        net = replace(base, b=b)
        answers = []
        for evaluator in ("plain", "patterns"):
            try:
                answers.append(net.decide(max_steps=30, evaluator=evaluator))
            except kl.InputError:
                answers.append(None)
        assert answers[0] == answers[1]


def test_patterns_look_at_as_many_digits_as_it_takes() -> None:
    """z > 2/9 cannot be told from the first digit behind the point; where it holds, a number hangs on
    another one."""
    for start, answer in ((Fraction(4, 27), 0), (Fraction(19, 81), None)):
        build = StepBuilder(("EOS", "NUL"), outputs=3)
        z = build.value("z", start=start)
        build.value("done")
        build.add(("z",), build.relu(z))
        build.add(("done",), build.relu(z - Fraction(2, 9)) * 81)
        build.out, build.out_bias = {(0, 1): -1, (1, 1): 1}, {0: 1}
        engine = PatternEngine(fuse(build.build(), Decider), 3)
        if answer is None:
            with pytest.raises(kl.NotExact, match="depends on another"):
                engine.run([], 1, 4)
        else:
            assert engine.run([], 1, 4) == ({0: start}, answer, 4) and engine.places > 2


def test_certificate_fails_for_a_damaged_network() -> None:
    net = kl.compile(POWERS_OF_TWO)
    assert kl.certify(net).holds and kl.verify(net, None).holds and kl.verify(net, net, lengths=range(3)).holds
    assert kl.verify(POWERS_OF_TWO, net, random=5).checked == 5
    b = dict(net.b)
    b[5] = b.get(5, 0) + Fraction(1, 3)
    damaged = replace(net, b=b)
    certificate = kl.certify(damaged)
    assert not certificate.holds and certificate.reasons
    assert not kl.verify(POWERS_OF_TWO, damaged).holds
    data = POWERS_OF_TWO.to_json()
    data["transitions"]["q1"][" "] = ["q6", " ", "R"]  # type: ignore[index]
    report = kl.verify(kl.TuringMachine.from_json(data), net, inputs=["1"])
    assert not report.holds and "step 2" in str(report)


def test_stack_code() -> None:
    """Equations (4.27), (4.28)."""
    assert code("ab", ("a", "b", ""), 3, None) == {
        "a": Fraction(2, 3),
        "b": Fraction(2, 9),
        "": Fraction(2, 27),
    }
    assert code("_b", "b", 3, "_") == {"b": Fraction(2, 9)}


def test_saved_networks_decide(tmp_path: Path) -> None:
    for form in ("compact", "literal"):
        net = kl.compile(POWERS_OF_TWO, form=form)
        net.save(tmp_path / form)
        again = kl.load(tmp_path / form)
        assert isinstance(again, Decider) and again == net
        assert again.decide("1111", tape=True) == POWERS_OF_TWO.run("1111")
        assert kl.certify(again).holds


@pytest.mark.parametrize("seed", range(60))
def test_two_tapes(seed: int) -> None:
    rng = random.Random(seed)
    machine = random_two_tape(rng)
    net = kl.compile(machine)
    for word in ("", "aa"):
        assert net.decide(word, max_steps=60, tape=True) == machine.run(word, max_steps=60)
        vectors = net.run_inputs(word)
        for _ in range(net.lead(len(word))):
            next(vectors)
        for (state, tapes), g, _ in zip(machine.configurations(word), vectors, range(15)):
            h = net.values(g)
            value = {tuple(role): h.get(i, 0) for i, role in enumerate(net.about["roles"])}
            assert value["q", state] == 1 and sum(v for r, v in value.items() if r[0] == "q") == 1
            true = [sum(f * g.get(u, 0) for u, f in units) for _, units in net.about["conditions"]]
            assert sorted(true) == [0] * (len(true) - 1) + [1]
            for t, (left, symbol, right) in enumerate(tapes):
                assert value[f"c{t}", symbol] == 1
                for part, cells in ((f"l{t}", left), (f"r{t}", right)):
                    numbers = {r[1]: v for r, v in value.items() if r[0] == part}
                    assert numbers == code(cells, numbers, 3, machine.symbols[t][0])


@pytest.mark.parametrize("form", ["compact", "literal"])
def test_machines_are_read_back_out_of_the_weights(form: str) -> None:
    for seed in range(60):
        machine = random_turing(random.Random(seed), 3, 3)
        net = kl.compile(machine, form=form)
        net.about["machine"] = None  # nothing but the weights
        found = kl.decompile(net)
        assert found.start == machine.start and found.two_way == machine.two_way
        assert all(row == machine.transitions[q] for q, row in found.transitions.items())
        assert found.accept <= machine.accept and found.reject <= machine.reject


# Files


@pytest.mark.parametrize("suffix", [".json", ".yaml", ".jff"])
def test_files_round_trip(tmp_path: Path, suffix: str) -> None:
    for seed in range(30):
        rng = random.Random(seed)
        machine = random_turing(rng)
        if suffix == ".jff" and not machine.two_way:
            continue
        machine.save(tmp_path / f"m{suffix}")
        again = kl.TuringMachine.load(tmp_path / f"m{suffix}")
        for word in words_for(machine, rng):
            first, second = machine.run(word, max_steps=200), again.run(word, max_steps=200)
            assert (first.answer, first.steps, first.state) == (second.answer, second.steps, second.state)
            assert suffix == ".jff" or first == second  # JFLAP's blank is □
    POWERS_OF_TWO.save(tmp_path / "p.yaml")
    assert kl.TuringMachine.load(tmp_path / "p.yaml").run("1111").steps == 21


DIVISIBLE_BY_THREE = """
input: '1001'
blank: ' '
start state: q0
synonyms:
  yes: {R: accept}
table:
  q0:
    0: R
    1: {R: q1}
    ' ': yes
  q1: {0: {R: q2}, 1: {R: q0}}
  q2:
    [0]: {R: q1}
    1: {write: 1, R}
  accept:
"""


def test_turingmachine_io(tmp_path: Path) -> None:
    (tmp_path / "three.yaml").write_text(DIVISIBLE_BY_THREE)
    machine = kl.TuringMachine.load(tmp_path / "three.yaml")
    net = kl.compile(machine)
    for n in range(20):
        wanted = "accept" if n % 3 == 0 else "reject"
        assert machine.run(bin(n)[2:]).answer == net.decide(bin(n)[2:]).answer == wanted


def test_the_librarys_yaml() -> None:
    machine = kl.TuringMachine.load(Path(library.__file__).parent / "powers_of_two.yaml")
    assert not machine.two_way
    for n in range(20):
        assert machine.run("1" * n) == POWERS_OF_TWO.run("1" * n)


JFF = "<structure><type>turing</type><automaton>\n{}\n</automaton></structure>"
YAML = "blank: ' '\nstart state: q\ntable:\n"
MALFORMED = [
    ("m.txt", "1RB1LB_1LA1R", "character 11"),
    ("m.txt", "1RB1LB_1LA", "row 2: 1 transitions"),
    ("m.txt", "1RB7LB_1LA1RZ", "writes 7"),
    ("m.txt", "hello", "character 1"),
    ("m.yaml", "blank: [", "line 1: not YAML"),
    ("m.yaml", "- a\n- b\n", "line 1: the file must be a mapping"),
    ("m.yaml", "blank: ' '\n", "no 'start state'"),
    ("m.yaml", "blank: ' '\nstart state: [q, r]\ntable:\n  q:\n  r:\n", "line 2: 'start state'"),
    ("m.yaml", "blank: ' '\nstart state: r\ntable:\n  q:\n", "line 2: start state 'r'"),
    ("m.yaml", YAML + "  q:\n    a: {R: nowhere}\n", "line 5: state 'q' on 'a': goes to 'nowhere'"),
    ("m.yaml", YAML + "  q:\n    a: {R: q, L: q}\n", "line 5"),
    ("m.yaml", YAML + "  q:\n    a: jump\n", "line 5: state 'q' on 'a': 'jump' is not an instruction"),
    ("m.yaml", YAML + "  q:\n    a: R\n    a: L\n", "line 6: state 'q': a second instruction for 'a'"),
    ("m.yaml", "tape: one-way\n" + YAML + "  q:\n    a: R\n", "line 5: state 'q' has no transition for ' '"),
    ("m.yaml", "tape: round\n" + YAML + "  q:\n", "line 1: 'tape' is 'round'"),
    ("m.jff", "<structure>", "not XML"),
    ("m.jff", "<structure><type>fa</type></structure>", "<type>fa</type>"),
    (
        "m.jff",
        JFF.format('<state id="0"><initial/></state>\n<state id="1"><initial/></state>'),
        "line 3: 2 start states",
    ),
    (
        "m.jff",
        JFF.format(
            '<state id="0"><initial/></state>\n<transition><from>0</from><to>0</to><read>a</read>'
            "<write>a</write><move>X</move></transition>"
        ),
        "line 3: move 'X'",
    ),
    (
        "m.jff",
        JFF.format('<state id="0"><initial/></state>\n<transition><from>0</from><to>4</to></transition>'),
        "line 3",
    ),
    ("m.json", "{}", "'start'"),
    ("m.json", "nonsense", "not JSON"),
    ("m.abc", "", "unknown suffix"),
]


@pytest.mark.parametrize("name, text, says", MALFORMED)
def test_malformed_files(tmp_path: Path, name: str, text: str, says: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(kl.FileError) as error:
        kl.TuringMachine.load(tmp_path / name)
    assert says in str(error.value) and str(tmp_path / name) in str(error.value)
    assert "\n" not in str(error.value)


def test_json_machine_with_a_missing_transition(tmp_path: Path) -> None:
    data = POWERS_OF_TWO.to_json()
    del data["transitions"]["q3"]["x"]  # type: ignore[attr-defined]
    (tmp_path / "m.json").write_text(json.dumps(data))
    with pytest.raises(kl.FileError, match="state 'q3' has no transition for 'x'"):
        kl.TuringMachine.load(tmp_path / "m.json")


def test_words_are_checked() -> None:
    for thing in (POWERS_OF_TWO.run, kl.compile(POWERS_OF_TWO).decide):
        with pytest.raises(kl.InputError, match="'2' at position 1"):
            thing("12")


def test_the_plain_definition_and_the_fast_simulator_agree() -> None:
    for seed in range(100):
        rng = random.Random(seed)
        machine = random_turing(rng)
        word = random_word(rng, machine.input_alphabet or (), 6)
        run = machine.run(word, max_steps=60)
        configurations = [c for c, _ in zip(machine.configurations(word), range(61))]
        assert configurations[-1].state == run.state and len(configurations) - 1 == run.steps


@pytest.mark.parametrize("base", [2, 129, 200, 2.5])
def test_stacks_have_a_base_that_fits_a_byte(base):
    machine = kl.library.turing_machines.POWERS_OF_TWO
    with pytest.raises(InputError, match="from 3 to 128"):
        kl.compile(machine, base=base)
    with pytest.raises(InputError, match="from 3 to 128"):
        kl.compile(kl.OracleLanguage("ab", lambda word: True), base=base)


def test_a_large_base_runs():
    machine = kl.library.turing_machines.POWERS_OF_TWO
    net = kl.compile(machine, base=128)
    for n in range(5):
        assert net.decide("1" * n).answer == machine.run("1" * n).answer


def test_a_decider_of_another_machine_is_not_certified():
    machine = kl.library.turing_machines.POWERS_OF_TWO
    rows = {q: dict(row) for q, row in machine.transitions.items()}
    rows["q3"][" "] = ("q5", " ", 1)  # accepts three ones, which few words show
    other = kl.TuringMachine(
        rows,
        start="q0",
        accept=machine.accept,
        reject=machine.reject,
        blank=" ",
        input_alphabet=("1",),
        two_way=False,
        name="other",
    )
    found = kl.certify(kl.compile(other), machine=machine)
    assert not found.holds and "in state 'q3' on ' '" in str(found)
    assert kl.certify(kl.compile(other)).holds


def test_jflap_keeps_rejecting_states(tmp_path: Path):
    machine = kl.TuringMachine(
        {
            "odd": {"□": ("no", "□", 1), "1": ("even", "1", 1)},
            "even": {"□": ("yes", "□", 1), "1": ("odd", "1", 1)},
        },
        start="even",
        accept=frozenset({"yes"}),
        reject=frozenset({"no"}),
        blank="□",
        input_alphabet=("1",),
    )
    machine.save(tmp_path / "m.jff")
    again = kl.TuringMachine.load(tmp_path / "m.jff")
    for n in range(5):
        wanted, found = machine.run("1" * n), again.run("1" * n)
        assert (found.answer, found.steps, found.state) == (wanted.answer, wanted.steps, wanted.state)


PARTS = {
    "symbols": (("_", "a"), ("_", "b")),
    "input_alphabet": ("a",),
    "rules": (
        rule("go", ["a", None], "go", [None, "b"], [1, 1]),
        rule("go", ["_", None], "yes", [None, None], [0, 0]),
    ),
    "start": "go",
    "accept": frozenset(["yes"]),
}


@pytest.mark.parametrize(
    "changes, says",
    [
        ({"start": "come"}, "start state 'come'"),
        ({"reject": frozenset(["yes"])}, "'yes' cannot both accept and reject"),
        ({"input_alphabet": ("a", "_")}, "input symbol '_'"),
        ({"input_alphabet": ("c",)}, "input symbol 'c'"),
        ({"symbols": ()}, "no tapes"),
        ({"symbols": (("_", "a"), ("_", "b", "b"))}, "'b' appears twice"),
        ({"contents": ("c",)}, "tape 1 holds 'c'"),
        ({"contents": ("b", "b")}, "contents for 2 tapes"),
        ({"rules": (rule("go", [None, None], "yes", ["x", None], [0, 0]),)}, "'x', which is not a symbol of tape 0"),
        ({"rules": (rule("go", [["a", "_", "x"], None], "yes", [None, None], [0, 0]),)}, "'x', which is not a symbol"),
        ({"rules": (rule("go", [None, None], "yes", [None, None], [0, 5]),)}, "moves 5"),
    ],
)
def test_machines_with_several_tapes_are_checked(changes: dict[str, Any], says: str) -> None:
    assert MultiTapeMachine(**PARTS).run("aa").answer == "accept"  # type: ignore[arg-type]
    with pytest.raises(InputError, match=says):
        MultiTapeMachine(**{**PARTS, **changes})


def test_numbers_of_steps_are_checked() -> None:
    two, one = MultiTapeMachine(**PARTS), busy_beaver(2)  # type: ignore[arg-type]
    for machine in (two, one):
        for steps in (-1, 0.5, None):
            with pytest.raises(InputError, match="max_steps"):
                machine.run("", max_steps=steps)  # type: ignore[attr-defined]
        assert machine.run("", max_steps=2**70).answer == "accept"  # type: ignore[attr-defined]
    assert one.run(max_steps=0).steps == 0
    assert kl.compile(one).decide(max_steps=2**70).answer == "accept"


def turing(symbol: str, blank: str = "_", state: str = "go") -> kl.TuringMachine:
    rows = {state: {blank: ("yes", blank, 1), symbol: (state, blank, 1)}}
    return kl.TuringMachine(rows, state, frozenset(["yes"]), blank=blank)


@pytest.mark.parametrize("symbol", list("\x00\x1b\x7f\x85\x9f\xa0\u2028\u2029\ufeff\uffff😀"))
def test_yaml_holds_every_character(tmp_path: Path, symbol: str) -> None:
    turing(symbol, state=symbol).save(tmp_path / "m.yaml")
    again = kl.TuringMachine.load(tmp_path / "m.yaml")
    assert again.transitions == turing(symbol, state=symbol).transitions


def test_yaml_names_the_line_of_a_control_character(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text("blank: ' '\nstart state: \x01\n")
    with pytest.raises(kl.FileError, match=r"line 2: not YAML \(special characters are not allowed\)"):
        kl.TuringMachine.load(tmp_path / "m.yaml")


@pytest.mark.parametrize("symbol", ["\r", "\n", "\t", " ", "<", '"'])
def test_jflap_holds_white_space(tmp_path: Path, symbol: str) -> None:
    turing(symbol, blank="□", state=f"go{symbol}").save(tmp_path / "m.jff")
    again = kl.TuringMachine.load(tmp_path / "m.jff")
    assert again.transitions == turing(symbol, blank="□", state=f"go{symbol}").transitions


def test_jflap_refuses_what_it_cannot_hold(tmp_path: Path) -> None:
    for machine, says in (
        (turing("□"), "JFLAP's blank"),
        (turing("\x01"), "XML, and so JFLAP, cannot hold"),
        (turing("1", state="\x01"), "XML, and so JFLAP, cannot hold"),
    ):
        with pytest.raises(kl.FileError, match=says) as error:
            machine.save(tmp_path / "m.jff")
        assert "\n" not in str(error.value) and not (tmp_path / "m.jff").exists()


@pytest.mark.parametrize(
    "rows, says",
    [
        ({"go": {0: ("yes", "_", 1)}}, "0 is an int"),
        ({"go": {"_": ("yes", 0, 1)}}, "0 is an int"),
        ({"go": {"_": (1, "_", 1)}}, "1 is an int"),
        ({0: {"_": ("yes", "_", 1)}}, "0 is an int"),
        ({"go": {"_": ("yes", 1)}}, r"it must be \(state, symbol, move\)"),
        ({"go": {"_": "R"}}, r"it must be \(state, symbol, move\)"),
        ({"go": {"_": ("yes", "_", [1])}}, "moves"),
    ],
)
def test_transitions_are_checked(rows: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        kl.TuringMachine(rows, "go", frozenset(["yes"]), blank="_")


def test_a_word_that_is_none() -> None:
    for decide in (POWERS_OF_TWO.run, kl.compile(POWERS_OF_TWO).decide):
        with pytest.raises(InputError, match="word None"):
            decide(None)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"transitions": {"p": {"_": ("q", "_", 1)}, "q": {"_": ("q", "_", 1)}}}, "state 'q' halts, so it can have no"),
        ({"reject": ["q"]}, "'q' cannot both accept and reject"),
        ({"start": "x"}, "start state 'x' has no transitions and does not halt"),
        ({"transitions": {"p": {"_": ("x", "_", 1)}}}, "goes to unknown state 'x'"),
        ({"input_alphabet": ["_"]}, "the blank '_' cannot be an input symbol"),
    ],
)
def test_a_wrong_part_of_a_machine_is_named(options, said):
    good = {"transitions": {"p": {"_": ("q", "_", 1)}}, "start": "p", "accept": ["q"], "blank": "_"}
    assert kl.TuringMachine(**good).run("", max_steps=5).answer == "accept"
    with pytest.raises(kl.InputError, match=said):
        kl.TuringMachine(**{**good, **options})
