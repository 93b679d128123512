"""Automata as LSTMs and GRUs: equal to the automaton, proved from the tensors, read back, saved and exported."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

import kleene as kl
from kleene.common.alphabet import all_words, encode_batch
from kleene.compilers.dfa_to_gated import plan
from kleene.decompilers.gated_to_dfa import Saturated
from kleene.library.tomita import language
from random_machines import random_dfa, random_word

CELLS = ("lstm", "gru")
FORMATS = ("float64", "float32", "bfloat16", "float16")


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("number", range(1, 8))
def test_tomita_languages_are_exact_on_every_short_word_and_proved_in_every_format(cell, number):
    dfa = language(number)
    net = kl.compile(dfa, to=cell)
    assert net.units == len(dfa)  # two symbols: one unit per state
    words = list(all_words("01", 8))
    assert (net.accepts_batch(words) == dfa.accepts_batch(words)).all()
    for dtype in FORMATS:
        assert kl.certify(net, dtype=dtype).holds
        converted = kl.compile(dfa, to=cell, dtype=dtype)
        assert (converted.accepts_batch(words) == dfa.accepts_batch(words)).all()
        assert kl.certify(converted).dtype == dtype
    assert kl.decompile(net) == dfa


@pytest.mark.parametrize("cell", CELLS)
def test_random_automata_go_there_and_back(cell):
    rng = random.Random(7)
    for _ in range(25):
        dfa = random_dfa(rng, 20, 3)
        net = kl.compile(dfa, to=cell)
        assert kl.decompile(net) == dfa
        assert kl.certify(net).holds
        words = [random_word(rng, dfa.alphabet, 40) for _ in range(30)]
        assert (net.accepts_batch(words) == dfa.accepts_batch(words)).all()
        assert kl.verify(dfa, net).holds


def test_a_state_needs_half_as_many_units_as_chains():
    three = kl.DFA([[0, 1, 2], [1, 2, 0], [2, 0, 1]], [0], "abc")  # preimages of each state: three single states
    assert len(plan(three)) == 6
    inside = kl.DFA([[0, 0, 0], [1, 0, 0], [2, 2, 0]], [0, 2], "abc")  # {0} ⊂ {0, 1} ⊂ {0, 1, 2}: one chain
    assert [unit.state for unit in plan(inside)].count(0) == 1


def thresholds(n: int) -> kl.DFA:
    """n states and n symbols, of which the k-th leads states from k on to the last: chains of n sets."""
    table = [[n - 1 if q >= k else min(q + 1, n - 1) for k in range(n)] for q in range(n)]
    return kl.DFA(table, [n - 1], [f"s{k}" for k in range(n)])


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("cell", CELLS)
def test_long_chains_keep_within_the_format_or_are_refused(cell, dtype):
    dfa = thresholds(40)
    if cell == "gru" and "16" in dtype:
        with pytest.raises(kl.NotSupported, match=f"as far as {dtype} counts"):
            kl.compile(dfa, to=cell, dtype=dtype)
        return
    net = kl.compile(dfa, to=cell, dtype=dtype)
    certificate = kl.certify(net)
    assert certificate.holds and f"{net.units} hidden vectors" in str(certificate)  # none twice, by its cell
    assert kl.decompile(net) == dfa.minimise()
    words = [["s39"], ["s0"], ["s20", "s38", "s3"], []]
    assert (net.accepts_batch(words) == dfa.accepts_batch(words)).all()


def test_sums_of_whole_numbers_in_a_gru_are_exact():
    """A bound on the rounding of so many terms would refuse these."""
    assert kl.certify(kl.compile(thresholds(16), to="gru", dtype="float16")).holds
    net = kl.compile(thresholds(20), to="gru")
    with torch.no_grad():  # another grain: numbers that are not whole multiples of the scale any more
        net.recurrent.weight_hh_l0 *= 1 + 2**-12
    assert Saturated(net).grain < 1 and Saturated(net).error(np.array([60]), np.array([1e7]))[0] > 0


@pytest.mark.parametrize("cell", CELLS)
def test_words_of_many_lengths_run_in_one_pack(cell, monkeypatch):
    monkeypatch.setattr("kleene.networks.rnn.gated.SEGMENT", 7)
    monkeypatch.setattr("kleene.networks.rnn.gated.CALL", 200)
    rng = random.Random(1)
    dfa = language(3)
    words = [random_word(rng, "01", 60) for _ in range(80)] + [""]
    assert (kl.compile(dfa, to=cell).accepts_batch(words) == dfa.accepts_batch(words)).all()
    assert kl.compile(dfa, to=cell).accepts_batch([]).shape == (0,)


@pytest.mark.parametrize("cell", CELLS)
def test_a_planted_bug_is_refused_with_the_shortest_word(cell):
    dfa = language(4)
    net = kl.compile(dfa, to=cell)
    with torch.no_grad():  # the read-out of one state changes its sign, and the bias goes with it
        net.out.weight[0, 2] *= -1
        if cell == "gru":
            net.out.bias[0] += 2 * net.out.weight[0, 2]
    certificate = kl.certify(net)
    assert not certificate.holds and "on 00 the machine accepts, and the network rejects" in str(certificate)
    assert not kl.verify(dfa, net).holds


@pytest.mark.parametrize("cell", CELLS)
def test_a_gate_that_does_not_saturate_is_refused(cell):
    net = kl.compile(language(1), to=cell)
    with torch.no_grad():
        net.recurrent.weight_ih_l0 /= 100
        net.recurrent.weight_hh_l0 /= 100
        net.recurrent.bias_ih_l0 /= 100
        net.recurrent.bias_hh_l0 /= 100
    assert "is not saturated in float32" in str(kl.certify(net))
    with pytest.raises(kl.NotExact, match="is not saturated"):
        kl.decompile(net)


@pytest.mark.parametrize("cell", CELLS)
def test_every_single_weight_that_is_cut_is_noticed_or_harmless(cell):
    """Set each weight to zero in turn: a certificate that still holds must be right on all short words."""
    dfa = language(2)
    words = list(all_words("01", 7))
    refused = 0
    for name, parameter in kl.compile(dfa, to=cell).named_parameters():
        for place in np.argwhere(parameter.detach().numpy() != 0):
            net = kl.compile(dfa, to=cell)
            with torch.no_grad():
                dict(net.named_parameters())[name][tuple(place)] = 0
            if kl.certify(net).holds:
                assert (net.accepts_batch(words) == dfa.accepts_batch(words)).all()
            else:
                refused += 1
    assert refused > 10


def test_a_certificate_is_for_a_format():
    net = kl.compile(language(1), to="lstm")
    with torch.no_grad():
        net.recurrent.bias_ih_l0[net.units] = -600.0  # a forget gate: sigmoid(−600) is 0 in float32, not in float64
    assert kl.certify(net).holds
    assert "forget gate" in str(kl.certify(net, dtype="float64"))


@pytest.mark.parametrize("cell", CELLS)
def test_saved_networks_come_back_and_changed_ones_are_noticed(cell, tmp_path: Path):
    dfa = language(5)
    net = kl.compile(dfa, to=cell)
    net.save(tmp_path / "net")
    again = kl.load(tmp_path / "net", kl.GatedRNN)
    assert again.accepts("0011") and not again.accepts("011")
    assert kl.certify(again).holds and kl.verify(again).holds
    text = (tmp_path / "net" / "kleene.json").read_text()
    for old, new in (('"units": 4', '"units": 5'), ('"units": 4', '"units": 4000000000'), (f'"{cell}"', '"rnn"')):
        (tmp_path / "net" / "kleene.json").write_text(text.replace(old, new, 1))
        with pytest.raises(kl.FileError):
            kl.load(tmp_path / "net")


@pytest.mark.parametrize("cell", CELLS)
def test_onnx_gives_the_same_answers(cell):
    rng = random.Random(3)
    dfa = random_dfa(rng, 9, 3)
    net = kl.compile(dfa, to=cell)
    session = onnxruntime.InferenceSession(kl.export(net, "onnx").SerializeToString())
    words = [random_word(rng, dfa.alphabet, 12) for _ in range(40)]
    codes, offsets = encode_batch(words, dfa.alphabet)
    lengths = np.diff(offsets)
    padded = np.zeros((len(words), int(lengths.max())), dtype=np.int64)
    for row, (begin, end) in enumerate(pairwise(offsets)):
        padded[row, : end - begin] = codes[begin:end]
    (accepts,) = session.run(["accepts"], {"codes": padded, "lengths": lengths})
    assert (accepts == dfa.accepts_batch(words)).all()


def test_networks_of_different_architectures_are_compared_with_each_other():
    one, other = kl.compile(language(6), to="lstm"), kl.compile(language(6), to="gru")
    assert kl.verify(one, other).holds and kl.verify(kl.compile(language(6)), other).holds
    assert kl.verify(one, other, lengths=range(6)).checked == 63
    different = kl.verify(one, kl.compile(language(5), to="gru"))
    assert not different.holds and different.example == "on 00 the machine accepts, and the network rejects"
    assert kl.verify(kl.NFA.of(language(6)), one).holds


def test_wrong_requests_say_what_would_be_right():
    with pytest.raises(kl.NotSupported, match="unknown network 'perceptron'; choose one of transformer, rnn"):
        kl.compile(language(1), to="perceptron")
    with pytest.raises(kl.NotSupported, match="unknown dtype 'int8'"):
        kl.compile(language(1), to="lstm", dtype="int8")
    with pytest.raises(kl.NotSupported, match=r"cannot take a Program; .* no such compiler"):
        kl.compile(kl.library.parity_relative, to="lstm")
