"""Section 4.2.1: automata and RNNs, both ways."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import kleene as kl
from kleene.checks.bisimulation import check_files
from kleene.common.alphabet import all_words
from kleene.compilers.dfa_to_rnn import minsky_step
from kleene.compilers.two_layer import TwoLayerStep, fuse
from kleene.errors import InputError
from kleene.networks.rnn import majority
from kleene.networks.rnn.exact import ExactRNN
from kleene.networks.rnn.matrix import Matrix, Vector, vector
from random_machines import random_dfa, random_slu_rnn, random_word

PARITY = kl.DFA(np.array([[0, 1], [1, 0]]), np.array([1]), ("0", "1"))


def named(rnn: ExactRNN, g: Vector) -> list[int | Fraction]:
    assert rnn.readout is not None
    h = rnn.readout.R.times(g)
    return [h.get(i, 0) + rnn.readout.c.get(i, 0) for i in range(len(rnn.readout.names))]


def test_example_4_2_parity_on_110() -> None:
    """The chapter's h⁽⁻¹⁾ … h⁽²⁾ and g⁽⁰⁾ … g⁽²⁾."""
    rnn = kl.compile(PARITY, method="minsky")
    vectors = list(rnn.trace("110"))
    assert [named(rnn, g) for g in vectors] == [[1, 0], [0, 1], [1, 0], [1, 0]]
    matrices = [[[g.get(1 + 2 * q + a, 0) for a in (0, 1)] for q in (0, 1)] for g in vectors[1:]]
    assert matrices == [[[0, 1], [0, 0]], [[0, 0], [0, 1]], [[1, 0], [0, 0]]]
    assert not rnn.accepts("110") and rnn.accepts("1")


@pytest.mark.parametrize("activation", ["relu", "slu"])
@pytest.mark.parametrize("seed", range(100))
def test_theorem_4_4(seed: int, activation: str) -> None:
    """Every method, state by state against the automaton, and back by Theorem 4.6's exploration."""
    rng = random.Random(seed)
    dfa = random_dfa(rng)
    methods = ["minsky", "image", "smallest"] + (["scalar"] if activation == "relu" else [])
    for method in methods:
        rnn = kl.compile(dfa, method=method, activation=activation)
        assert rnn.integer
        if method != "smallest":
            assert rnn.units == rnn.sizes[method]
        assert kl.decompile(rnn).equivalent(dfa)
        assert kl.verify(dfa, rnn).holds
    assert kl.compile(dfa, method="minsky").units == dfa.table.size + 1
    word = random_word(rng, dfa.alphabet, 12)
    rnn = kl.compile(dfa, method="minsky", activation=activation)
    for state, g in zip(dfa.path(word), rnn.trace(word)):
        assert named(rnn, g) == [int(q == state) for q in range(len(dfa))]
        assert rnn.output(g) == [int(dfa.accepting[state])]


@pytest.mark.parametrize("activation", ["relu", "slu"])
@pytest.mark.parametrize("seed", range(100))
def test_lemma_4_5(seed: int, activation: str) -> None:
    """Any two-layer step, with a bias in its second layer, equals its fused network after every prefix."""
    rng = random.Random(seed)
    size, width, symbols, outputs = (rng.randint(1, 4) for _ in range(4))

    def number() -> Fraction:
        return Fraction(rng.randint(-3, 3), rng.randint(1, 3))

    def matrix(rows: int, columns: int) -> Matrix:
        return Matrix.of([[number() for _ in range(columns)] for _ in range(rows)])

    step = TwoLayerStep(
        tuple("abcd"[:symbols]),
        s=vector([number() for _ in range(size)]),
        V=matrix(width, size),
        W=matrix(width, symbols),
        b=vector([number() for _ in range(width)]),
        U=matrix(size, width),
        c=vector([number() for _ in range(size)]),
        out_W=matrix(outputs, size),
        out_b=vector([number() for _ in range(outputs)]),
    )
    rnn = fuse(step, ExactRNN, activation=activation)
    assert rnn.units == width + 1

    def plus(*parts: Vector) -> Vector:
        keys = {k for part in parts for k in part}
        return vector({k: sum(part.get(k, 0) for part in parts) for k in keys})

    h, word = step.s, random_word(rng, step.alphabet, 6)
    for g, symbol in zip(rnn.trace(word), [*word, None]):
        wanted = plus(step.out_W.times(h), step.out_b)
        assert rnn.output(g) == [wanted.get(k, 0) for k in range(outputs)]
        assert named(rnn, g) == [h.get(i, 0) for i in range(size)]
        if symbol is not None:
            x = {step.alphabet.index(symbol): 1}
            before = plus(step.V.times(h), step.W.times(x), step.b)
            high = 1 if activation == "slu" else 10**9
            h = plus(step.U.times({i: min(v, high) for i, v in before.items() if v > 0}), step.c)


def test_lemma_4_5_as_printed_would_be_wrong_on_the_empty_word() -> None:
    """The correction matters: out' must see s through unit 0."""
    rnn = fuse(minsky_step(~PARITY), ExactRNN)
    assert rnn.accepts("") and rnn.out_W.entries.get((0, 0)) == 1


def chapter_example() -> ExactRNN:
    return ExactRNN(
        ("a", "b"),
        V=Matrix.of([[1, -2], [-3, 4]]),
        W=Matrix.of([[1, 0], [0, 1]]),
        b={},
        s={0: 1},
        out_W=Matrix.of([[1, 0]]),
        activation="slu",
    )


def test_section_4_2_1_example() -> None:
    """The whole transition table; q₀ accepts (an erratum), so that all words are accepted."""
    dfa = kl.decompile(chapter_example(), states="all")
    assert dfa.names == ("q0", "00", "01", "10", "11") and len(dfa) == 2**2 + 1
    moves = [[dfa.names[r] for r in row] for row in dfa.table.tolist()]
    assert moves == [["10", "10"], ["10", "01"], ["01", "01"], ["10", "10"], ["01", "01"]]
    assert {dfa.names[q] for q in np.flatnonzero(dfa.accepting)} == {"q0", "10", "11"}
    assert len(dfa.reachable()) == 2 and kl.decompile(chapter_example()).equivalent(kl.regex("[ab]*"))


@pytest.mark.parametrize("seed", range(150))
def test_theorem_4_6(seed: int) -> None:
    rng = random.Random(seed)
    rnn = random_slu_rnn(rng, boolean_start=seed % 2 == 0)
    dfa, whole = kl.decompile(rnn), kl.decompile(rnn, states="all")
    assert len(whole) == 2**rnn.units + 1 and whole.equivalent(dfa)
    for word in all_words(rnn.alphabet, 5):
        assert dfa.accepts(word) == (rnn.output(rnn.run(word)) == [1])
    assert kl.decompile(kl.compile(dfa, activation="slu")).equivalent(dfa)


@pytest.mark.parametrize("seed", range(150))
def test_remark_on_alternating_automata(seed: int) -> None:
    """d units, d states (one more where s is not Boolean), for the reversal of the language."""
    rng = random.Random(seed)
    rnn = random_slu_rnn(rng, boolean_start=seed % 2 == 0)
    afa, dfa = kl.decompile(rnn, to="afa"), kl.decompile(rnn)
    assert len(afa) == rnn.units + (0 if all(v == 1 for v in rnn.s.values()) else 1)
    assert afa.reverse_dfa().equivalent(dfa)
    assert afa.to_dfa().equivalent(dfa.reverse())
    for word in all_words(rnn.alphabet, 5):
        assert afa.accepts(word[::-1]) == rnn.accepts(word)


def test_exercise_4_7_majority() -> None:
    rnn = majority.integer_relu()
    assert rnn.integer and rnn.activation == "relu"
    for word in all_words("01", 12):
        assert rnn.output(rnn.run(word)) == [int(word.count("1") > word.count("0"))]


def test_exercise_4_8_majority() -> None:
    rnn = majority.rational_slu()
    assert not rnn.integer and rnn.activation == "slu"
    for word in all_words("01", 10):
        assert (rnn.output(rnn.run(word))[0] > 0) == (word.count("1") > word.count("0"))


@pytest.mark.parametrize("make", [majority.integer_relu, majority.rational_slu])
def test_majority_has_no_automaton(make: object) -> None:
    with pytest.raises(kl.DidNotHalt, match="more than 500 hidden vectors"):
        kl.decompile(make(), limit=500)  # type: ignore[operator]


def test_sizes() -> None:
    count = kl.DFA(np.array([[k, (k + 1) % 100] for k in range(100)]), np.array([0]), ("0", "1"))
    window, abb = kl.regex("(a|b)*a(a|b){10}"), kl.regex("(a|b)*abb")
    for dfa, units, sizes in ((count, 6, (201, 200)), (window, 16, (4097, 2048)), (abb, 4, (9, 4))):
        rnn = kl.compile(dfa)
        assert rnn.units == units and (rnn.sizes["minsky"], rnn.sizes["image"]) == sizes
        assert kl.decompile(rnn).equivalent(dfa) and kl.certify(rnn).holds
    minsky = kl.compile(window, method="minsky")
    assert minsky.units == 4097 and kl.decompile(minsky).equivalent(window)


def test_torch_module_is_the_same_network() -> None:
    rng = random.Random(0)
    for _ in range(20):
        dfa = random_dfa(rng)
        for method in ("minsky", "image", "scalar"):
            rnn = kl.compile(dfa, method=method)
            words = [random_word(rng, dfa.alphabet, 20) for _ in range(50)]
            module = rnn.torch()
            assert module.accepts_batch(words).tolist() == [rnn.accepts(w) for w in words]
            assert rnn.accepts_batch(words).tolist() == dfa.accepts_batch(words).tolist()
    assert module.V.shape == (rnn.units, rnn.units)


def test_torch_module_follows_its_weights() -> None:
    """Nothing stands behind the network: change a weight, and the answers change."""
    rnn = kl.compile(PARITY)
    module = rnn.torch()
    module.out.bias.data += 1
    assert module.accepts("1") is False and module.accepts("") is True


def test_torch_refuses_to_round() -> None:
    with pytest.raises(kl.NotExact, match="some weights are not integers"):
        majority.rational_slu().torch()
    with pytest.raises(kl.NotExact, match="no bound"):
        majority.integer_relu().torch()
    assert majority.integer_relu().accepts_batch(["1", "01"]).tolist() == [True, False]


def test_verify_finds_a_shortest_difference() -> None:
    dfa = kl.regex("(ab)*", "ab")
    rnn = kl.compile(kl.regex("(ab)*|aaa", "ab"))
    report = kl.verify(dfa, rnn)
    assert not report.holds and "aaa" in str(report) and report.to_json()["holds"] is False
    assert kl.verify(dfa, rnn, lengths=range(3)).holds
    assert kl.verify(dfa, rnn, lengths=range(5)).mismatches == 1
    assert kl.verify(dfa, kl.compile(dfa), random=200).holds
    assert kl.verify(rnn, None).holds and not kl.verify(rnn, dfa).holds  # the machine saved with it; another


@pytest.mark.parametrize("seed", range(20))
def test_certificate_from_the_files_alone(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    dfa = random_dfa(rng)
    for options in ({}, {"method": "minsky"}, {"activation": "slu"}, {"method": "scalar"}):
        rnn = kl.compile(dfa, **options)
        certificate = kl.certify(rnn)
        assert certificate.holds and "every length" in str(certificate)
        rnn.save(tmp_path / "net")
        certificate.save(tmp_path / "net")
        assert check_files(tmp_path / "net")
        assert kl.load(tmp_path / "net") == rnn and kl.certify(kl.load(tmp_path / "net")).holds


def test_certificate_fails_when_a_number_changes(tmp_path: Path) -> None:
    """Every single weight of the network matters to the check."""
    rnn = kl.compile(kl.regex("(a|b)*abb"))
    rnn.save(tmp_path / "net")
    kl.certify(rnn).save(tmp_path / "net")
    path = tmp_path / "net" / "weights.json"
    good = json.loads(path.read_text())
    caught = total = 0
    for key in ("V", "W", "b", "s", "out_W"):
        for i in range(len(good[key])):
            bad = json.loads(json.dumps(good))
            bad[key][i][2] += 1
            path.write_text(json.dumps(bad))
            total += 1
            caught += not check_files(tmp_path / "net")
    assert total == caught
    path.write_text(json.dumps(good))
    assert check_files(tmp_path / "net")
    proof = tmp_path / "net" / "bisimulation.json"
    relation = json.loads(proof.read_text())
    relation["relation"].pop()
    proof.write_text(json.dumps(relation))
    assert not check_files(tmp_path / "net")


def test_certificate_refuses_another_language() -> None:
    rnn = kl.compile(kl.regex("a*", "ab"))
    certificate = kl.certify(rnn, machine=kl.regex("a*b?", "ab"))
    assert not certificate.holds and "on b the machine accepts" in str(certificate)


def test_loading_checks_everything(tmp_path: Path) -> None:
    rnn = kl.compile(PARITY, method="minsky")
    rnn.save(tmp_path / "net")
    weights = tmp_path / "net" / "weights.json"
    good = json.loads(weights.read_text())

    def refused(change: dict[str, object], says: str) -> None:
        weights.write_text(json.dumps({**good, **change}))
        with pytest.raises(kl.FileError, match=says):
            kl.load(tmp_path / "net")

    refused({"units": -1}, "units")
    refused({"units": 10**12}, "units")
    refused({"V": [[0, 99, 1]]}, "outside")
    refused({"V": [[0, 0, "1/0"]]}, "not an exact number")
    refused({"V": [[0, 0, 0.5]]}, "not an exact number")
    refused({"V": [[0, 0, "__import__('os')"]]}, "not an exact number")
    refused({"V": []}, "V = A·R does not hold")
    refused({"activation": "tanh"}, "activation")
    refused({"alphabet": "01"}, "alphabet")
    weights.write_text("{")
    with pytest.raises(kl.FileError, match="not JSON"):
        kl.load(tmp_path / "net")
    (tmp_path / "net" / "kleene.json").write_text('{"kind": "rnn", "version": 99, "about": {}}')
    with pytest.raises(kl.FileError, match="version 99"):
        kl.load(tmp_path / "net")


def test_options_are_checked() -> None:
    with pytest.raises(kl.InputError, match="method 'tiny'"):
        kl.compile(PARITY, method="tiny")
    with pytest.raises(kl.InputError, match="activation 'tanh'"):
        kl.compile(PARITY, activation="tanh")
    with pytest.raises(kl.NotSupported, match="SLU"):
        kl.compile(PARITY, method="scalar", activation="slu")
    with pytest.raises(kl.NotSupported, match="integer weights and SLU"):
        kl.decompile(kl.compile(PARITY), states="all")
    with pytest.raises(kl.InputError, match="not in the alphabet"):
        kl.compile(PARITY).accepts("2")


EVEN = kl.DFA.build("even", (q for q in ["even"]), {"even": {"a": "odd"}, "odd": {"a": "even"}})


def test_words_of_long_symbols_are_checked_too():
    dfa = kl.DFA(np.array([[1, 0], [0, 1]]), np.array([1]), ("ab", "c"))
    report = kl.verify(dfa, kl.compile(dfa), lengths=range(4))
    assert report.holds and report.checked == 15


def test_too_many_words_are_refused_before_memory_is_taken():
    with pytest.raises(InputError, match="all words of up to 40 symbols are more than"):
        kl.verify(kl.regex("(a|b)*"), kl.compile(kl.regex("(a|b)*")), lengths=range(41))


def test_random_words_of_some_lengths():
    report = kl.verify(EVEN, kl.compile(EVEN), lengths=[40], random=7)
    assert report.holds and report.checked == 7
    with pytest.raises(InputError, match="neither can be negative"):
        kl.verify(EVEN, kl.compile(EVEN), random=-1)


@pytest.fixture
def certified(tmp_path: Path) -> Path:
    """A saved network with its certificate."""
    rnn = kl.compile(kl.regex("(0|10*1)*", alphabet="01"), method="image")
    rnn.save(tmp_path / "net")
    kl.certify(rnn).save(tmp_path / "net")
    assert check_files(tmp_path / "net")
    return tmp_path / "net"


def change(path: Path, **changes: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_an_entry_that_is_there_twice_is_refused(certified: Path) -> None:
    (i, j, v), *rest = json.loads((certified / "weights.json").read_text())["V"]
    change(certified / "weights.json", V=[[i, j, v + 1], [i, j, -1], *rest])
    for read in (check_files, kl.load):
        with pytest.raises(kl.FileError, match="appears twice"):
            read(certified)


def test_only_the_first_output_is_the_answer(certified: Path) -> None:
    out = json.loads((certified / "weights.json").read_text())["out_W"]
    change(certified / "weights.json", outputs=2, out_W=[[1, j, v] for _, j, v in out])
    assert not kl.load(certified).accepts("") and not check_files(certified)


def test_the_alphabets_must_be_equal(certified: Path) -> None:
    weights = json.loads((certified / "weights.json").read_text())
    change(certified / "weights.json", alphabet=["0"], W=[entry for entry in weights["W"] if entry[1] == 0])
    assert not check_files(certified)


@pytest.mark.parametrize(
    "name, changes",
    [
        ("weights.json", {"activation": "tanh"}),
        ("weights.json", {"criterion": "two"}),
        ("weights.json", {"units": -1}),
        ("weights.json", {"units": 1}),
        ("weights.json", {"largest": 0}),
        ("weights.json", {"largest": -5}),
        ("weights.json", {"b": [[0, 0, "1e999999999"]]}),
        ("weights.json", {"b": [[0, 0, "1/0"]]}),
        ("weights.json", {"b": [[0, 0, 0.5]]}),
        ("kleene.json", {"version": 99}),
        ("kleene.json", {"kind": "decider"}),
        ("kleene.json", {"about": {}}),
        ("bisimulation.json", {"relation": [["q0", [[0, "1e999999999"]]]]}),
        ("bisimulation.json", {"relation": [["q0", [[0, "1/0"]]]]}),
        ("bisimulation.json", {"relation": [["q0", [[0, 1], [0, 2]]]]}),
        ("bisimulation.json", {"relation": [["q0", [[99, 1]]]]}),
        ("bisimulation.json", {"relation": [["q9", []]]}),
        ("bisimulation.json", {"relation": [[["q0"], []]]}),
        ("bisimulation.json", {"relation": None}),
    ],
)
def test_a_certificate_is_read_as_the_network_is(certified: Path, name: str, changes: dict[str, object]) -> None:
    change(certified / name, **changes)
    with pytest.raises(kl.FileError) as error:
        check_files(certified)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["kleene.json", "weights.json", "bisimulation.json"])
@pytest.mark.parametrize("text", ["[]", "{}", "[" * 100_000])
def test_a_certificate_that_is_none(certified: Path, name: str, text: str) -> None:
    (certified / name).write_text(text)
    with pytest.raises(kl.FileError):
        check_files(certified)


def test_a_batch_is_exact_whatever_largest_says() -> None:
    V, W, out = Matrix.of([[2, 0], [2, 0]]), Matrix.of([[1], [0]]), Matrix.of([[1, -1]])
    net = ExactRNN(("a",), V=V, W=W, b={}, s={0: 1}, out_W=out, largest=1)
    words = ["a" * n for n in (0, 1, 60, 200)]
    assert net.accepts_batch(words).tolist() == [net.accepts(word) for word in words] == [True] * 4
    with pytest.raises(InputError, match="largest=0"):
        ExactRNN(("a",), V=V, W=W, b={}, s={0: 1}, out_W=out, largest=0)


def test_a_value_that_was_above_largest_once_is_noticed() -> None:
    """It goes up to 2⁵⁴ + 1, which no float holds, and down again to 1."""
    W = Matrix.of([[2**51, -(2**51)]])
    net = ExactRNN(("a", "b"), V=Matrix.of([[1]]), W=W, b={}, s={0: 1}, out_W=Matrix.of([[1]]), largest=1)
    word = "a" * 8 + "b" * 8
    assert net.accepts(word) and net.accepts_batch([word, "ab"]).tolist() == [True, True]
