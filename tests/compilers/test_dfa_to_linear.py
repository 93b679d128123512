"""Automata and weighted automata as linear RNNs: equal, proved from the tensors, read back; theorems refuse."""

from __future__ import annotations

import random
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import torch

import kleene as kl
from kleene.common.alphabet import all_words
from kleene.compilers.dfa_to_linear import changes
from kleene.library.tomita import language
from random_machines import A5, S5, random_dfa, random_word


@pytest.mark.parametrize("transitions", ["products", "positive", "signed"])
@pytest.mark.parametrize("number", range(1, 8))
def test_tomita_languages_are_exact_and_proved_or_refused_by_a_theorem(number, transitions):
    dfa = language(number)
    refused = (transitions == "positive" and not dfa.is_star_free) or (transitions == "signed" and number == 6)
    if refused:
        with pytest.raises(kl.NotSupported, match=r"Sarrof|Grazzi"):
            kl.compile(dfa, to="linear", transitions=transitions)
        return
    net = kl.compile(dfa, to="linear", transitions=transitions)
    words = list(all_words("01", 7))
    assert (net.accepts_batch(words) == dfa.accepts_batch(words)).all()
    assert [net.accepts(word) for word in words] == dfa.accepts_batch(words).tolist()
    for dtype in ("float32", "float64", "bfloat16"):
        assert kl.certify(net, dtype=dtype).holds
    assert kl.decompile(net) == dfa
    entries = (
        [float(x) for layer in net.stack for x in torch.unique(layer.gate.detach() + 1)]
        if transitions != "products"
        else []
    )
    assert all(x >= 0 for x in entries) or transitions == "signed"


def test_parity_needs_a_negative_eigenvalue_and_mod_three_a_product():
    parity = kl.regex("(0|10*1)*", alphabet="01")
    with pytest.raises(kl.NotSupported, match="without negative eigenvalues there is no parity"):
        kl.compile(parity, to="linear", transitions="positive")
    assert kl.certify(kl.compile(parity, to="linear", transitions="signed")).holds
    three = kl.DFA([[0, 1], [1, 2], [2, 0]], [0], "01")
    with pytest.raises(kl.NotSupported, match="real eigenvalues count modulo powers of 2 only"):
        kl.compile(three, to="linear", transitions="signed")
    assert kl.certify(kl.compile(three, to="linear")).holds


@pytest.mark.parametrize("group", [A5, S5], ids=["A5", "S5"])
def test_the_word_problems_of_a5_and_s5_need_products(group):
    assert not group.classes.solvable
    for transitions in ("positive", "signed"):
        with pytest.raises(kl.NotSupported, match=r"Sarrof|Grazzi"):
            kl.compile(group, to="linear", transitions=transitions)
    with pytest.raises(kl.NotSupported, match=r"differs from the identity by rank \d+.*Cartan and Dieudonné"):
        kl.compile(group, to="linear", factors=1)
    net = kl.compile(group, to="linear")
    assert kl.certify(net).holds and kl.decompile(net) == group


@pytest.mark.parametrize("length", [3_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_a5_is_exact_to_length_100_000(length):
    rng = random.Random(5)
    word = "".join(rng.choice("ab") for _ in range(length))
    net = kl.compile(A5, to="linear")
    with torch.no_grad():
        state = net.scanned(torch.tensor([0 if letter == "a" else 1 for letter in word]))
    expected = torch.zeros(60)
    expected[net_state(net, word)] = 1
    assert torch.equal(state, expected)  # the hidden vector itself, not only its sign


def net_state(net: kl.LinearRNN, word: str) -> int:
    machine = kl.DFA.from_json(net.about["machine"])
    return machine.run(word)


def test_a_product_has_as_few_factors_as_its_rank_allows():
    rng = random.Random(2)
    rows = [list(p) for p in permutations(range(4))] + [[rng.randrange(6) for _ in range(6)] for _ in range(60)]
    for row in rows:
        size = len(row)
        matrix, made = np.eye(size), changes(row)
        for left, right in made:
            matrix = (np.eye(size) - np.outer(left, right)) @ matrix
        function = np.eye(size)[row].T
        assert np.array_equal(matrix, function)
        assert len(made) == np.linalg.matrix_rank(function - np.eye(size))


@pytest.mark.parametrize("transitions", ["products", "positive", "signed"])
def test_random_automata_go_there_and_back(transitions):
    rng = random.Random(3)
    done = 0
    for _ in range(40):
        dfa = random_dfa(rng, 20 if transitions == "products" else 4, 2)
        try:
            net = kl.compile(dfa, to="linear", transitions=transitions)
        except kl.NotSupported:
            continue
        done += 1
        assert kl.decompile(net) == dfa and kl.certify(net).holds
        words = [random_word(rng, dfa.alphabet, 30) for _ in range(20)]
        assert (net.accepts_batch(words) == dfa.accepts_batch(words)).all()
        assert kl.verify(dfa, net).holds
    assert done > 15


def test_the_scan_and_the_steps_give_the_same_states(monkeypatch):
    monkeypatch.setattr("kleene.networks.rnn.scanning.CELLS", 90)  # blocks of a few symbols
    rng = random.Random(4)
    for dfa in (language(3), language(5)):
        net = kl.compile(dfa, to="linear", transitions="signed")
        for _ in range(10):
            word = random_word(rng, "01", 70)
            assert net.weight(word) == net.weights([word])[0]
    assert kl.compile(language(3), to="linear").accepts_batch([]).shape == (0,)


@pytest.mark.parametrize("transitions", ["products", "positive"])
def test_planted_bugs_are_refused(transitions):
    dfa = language(4)
    refused = 0
    for name, parameter in kl.compile(dfa, to="linear", transitions=transitions).named_parameters():
        for place in np.argwhere(parameter.detach().numpy() != 0)[:12]:
            net = kl.compile(dfa, to="linear", transitions=transitions)
            with torch.no_grad():
                dict(net.named_parameters())[name][tuple(place)] += 1
            words = list(all_words("01", 7))
            if kl.certify(net, limit=500).holds:
                assert (net.accepts_batch(words) == dfa.accepts_batch(words)).all(), (name, place)
            else:
                refused += 1
    assert refused > 12


def test_numbers_that_are_not_whole_have_no_certificate():
    net = kl.compile(language(2), to="linear")
    with torch.no_grad():
        net.stack[0].left[0, 0, 0] += 0.25
    assert "not a whole number" in str(kl.certify(net))


def test_weighted_automata_and_linear_rnns_are_one_thing():
    rng = np.random.default_rng(0)
    for size in (1, 2, 4):
        automaton = kl.WeightedAutomaton(
            rng.normal(size=size), {s: rng.normal(size=(size, size)) / size for s in "ab"}, rng.normal(size=size)
        )
        net = kl.compile(automaton)
        words = list(all_words("ab", 6))
        assert np.allclose(net.weights(words), automaton.weights(words), rtol=0, atol=1e-12)
        back = kl.decompile(net)
        assert isinstance(back, kl.WeightedAutomaton) and back.equivalent(automaton)
        assert kl.compile(back).weights(words).tolist() == net.weights(words).tolist()
        certificate = kl.certify(net)
        assert certificate.holds and (certificate.max_length is None or certificate.max_length >= 10)


def test_the_automaton_of_any_linear_rnn_with_one_layer_is_weighted():
    net = kl.compile(language(6), to="linear")
    weighted = kl.decompile(net, to="weighted")
    words = list(all_words("01", 6))
    assert weighted.weights(words).tolist() == net.weights(words).tolist()
    with pytest.raises(kl.NotSupported, match="one linear layer"):
        kl.decompile(kl.compile(language(5), to="linear", transitions="signed"), to="weighted")


def test_whole_weights_are_exact_up_to_the_length_that_the_certificate_states():
    doubling = kl.WeightedAutomaton([1], {"a": [[2]], "b": [[1]]}, [1])  # 2 to the number of a's
    net = kl.compile(doubling, dtype="float32")
    certificate = kl.certify(net, tolerance=0.25)
    assert certificate.holds and 20 <= certificate.max_length <= 24
    assert net.weight("a" * certificate.max_length) == 2.0**certificate.max_length
    ones = kl.WeightedAutomaton.of(language(1))
    assert kl.certify(kl.compile(ones)).max_length is None
    with torch.no_grad():
        net.out.weight += 1
    assert "has the weight 1.0, and the network's numbers give 2.0" in str(kl.certify(net))


def test_tropical_weights_are_refused():
    costs = kl.WeightedAutomaton([0], {"a": [[1]]}, [0], "tropical")
    with pytest.raises(kl.NotSupported, match="least costs"):
        kl.compile(costs)


def test_saved_networks_come_back_and_changed_ones_are_noticed(tmp_path: Path):
    for transitions in ("products", "signed"):
        net = kl.compile(language(5), to="linear", transitions=transitions)
        net.save(tmp_path / transitions)
        again = kl.load(tmp_path / transitions, kl.LinearRNN)
        assert kl.certify(again).holds and kl.verify(again, net).holds
    path = tmp_path / "signed" / "kleene.json"
    text = path.read_text()
    for old, new in (('"size": 1', '"size": 2'), ('"size": 1', '"size": 9000000000'), ('"diagonal"', '"odd"')):
        path.write_text(text.replace(old, new, 1))
        with pytest.raises(kl.FileError):
            kl.load(tmp_path / "signed")


def test_large_automata_are_refused_by_theorem_or_with_what_holds_them():
    n = 12
    table = [[(q + 1) % n, max(q, 1), 1 - q if q < 2 else q] for q in range(n)]  # all functions of 12 states
    for options, told in (
        ({"to": "linear", "transitions": "positive"}, "not star-free .* Sarrof"),
        ({"to": "linear", "transitions": "signed"}, "turns .* states in a cycle.* Grazzi .* Theorem 2"),
        ({"to": "mamba"}, "not star-free .* Sarrof"),
        ({"to": "olmo_hybrid"}, "compile: monoid: .*; to='linear' holds every automaton"),
        ({"to": "transformer", "depth": "constant"}, "compile: cascade: .*; depth='logarithmic' holds every automaton"),
    ):
        with pytest.raises(kl.NotSupported, match=told):
            kl.compile(kl.DFA(table, [0], "abc"), **options)
