"""Automata as transformers of sequential, logarithmic and constant depth: equal, proved, and read back."""

from __future__ import annotations

import copy
import math
import random
from pathlib import Path

import pytest
import torch

import kleene as kl
from kleene.common.alphabet import all_words
from kleene.library.tomita import language
from random_machines import A5, S5, bounded_dyck, counter, random_dfa, random_word

DEPTHS = ("sequential", "logarithmic", "constant")


def compiled(dfa: kl.DFA, depth: str, length: int) -> kl.Transformer:
    options = {} if depth == "sequential" else {"length": length}
    return kl.compile(dfa, to="transformer", depth=depth, **options)


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("number", range(1, 8))
def test_tomita_languages_are_exact_and_proved(number, depth):
    dfa = language(number)
    net = compiled(dfa, depth, 12)
    words = list(all_words("01", 6))
    assert (net.accepts_batch(words) == dfa.accepts_batch(words)).all()
    certificate = kl.certify(net)
    assert certificate.holds and "accept the words of the machine" in str(certificate)
    assert kl.decompile(net, to="dfa") == dfa
    assert kl.verify(dfa, net).holds and kl.verify(net).holds


@pytest.mark.parametrize("dfa", [bounded_dyck(3), counter(6), counter(5)], ids=["dyck", "mod 6", "mod 5"])
@pytest.mark.parametrize("depth", DEPTHS)
def test_brackets_and_counters(dfa, depth):
    net = compiled(dfa, depth, 10)
    rng = random.Random(0)
    words = [random_word(rng, dfa.alphabet, 10) for _ in range(100)]
    assert (net.accepts_batch(words) == dfa.accepts_batch(words)).all()
    assert kl.certify(net).holds and kl.decompile(net, to="dfa") == dfa


@pytest.mark.parametrize(("depth", "least"), [("sequential", 8), ("logarithmic", 8), ("constant", 6)])
def test_random_automata(depth, least):
    rng, done = random.Random(11), 0
    for _ in range(10):
        dfa = random_dfa(rng, 4 if depth == "constant" else 8, 2)
        try:
            net = compiled(dfa, depth, 9)
        except kl.NotSupported:
            continue
        done += 1
        words = [random_word(rng, dfa.alphabet, 9) for _ in range(30)]
        assert (net.accepts_batch(words) == dfa.accepts_batch(words)).all()
        assert kl.certify(net).holds and kl.decompile(net, to="dfa") == dfa
    assert done >= least


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 9, 31, 32, 33])
def test_logarithmic_depth_is_at_most_log_n_plus_3(length):
    rng = random.Random(length)
    for dfa in (language(3), random_dfa(rng, 30, 2)):
        net = kl.compile(dfa, to="transformer", depth="logarithmic", length=length)
        assert net.config.layers <= math.ceil(math.log2(length)) + 3
        words = ["".join(rng.choice(dfa.alphabet) for _ in range(length)) for _ in range(5)]
        assert (net.accepts_batch(words) == dfa.accepts_batch(words)).all()


def test_a_large_monoid_goes_state_by_state():
    rng = random.Random(2)
    dfa = random_dfa(rng, 20, 2)
    while len(dfa.minimise()) < 12:
        dfa = random_dfa(rng, 20, 2)
    net = kl.compile(dfa, to="transformer", depth="logarithmic", length=15)
    assert net.description["words"]["depth"] == "logarithmic by states"
    words = [random_word(rng, dfa.alphabet, 15) for _ in range(30)]
    assert (net.accepts_batch(words) == dfa.accepts_batch(words)).all()
    assert kl.certify(net).holds and kl.decompile(net, to="dfa") == dfa


def test_constant_depth_does_not_grow_with_the_length():
    depths = {compiled(language(7), "constant", length).config.layers for length in (5, 20, 80)}
    assert len(depths) == 1
    groups = {compiled(language(5), "constant", length).config.layers for length in (5, 20)}
    assert len(groups) == 1


@pytest.mark.parametrize("group", [A5, S5], ids=["A5", "S5"])
def test_groups_that_are_not_solvable_have_no_constant_depth(group):
    with pytest.raises(kl.NotSupported, match=r"its own commutator subgroup.*Barrington"):
        kl.compile(group, to="transformer", depth="constant")


def test_a5_in_logarithmic_depth():
    net = kl.compile(A5, to="transformer", depth="logarithmic", length=64)
    rng = random.Random(4)
    words = ["".join(rng.choice("ab") for _ in range(64)) for _ in range(10)] + ["aaa", "bbbbb", "ab"]
    assert (net.accepts_batch(words) == A5.accepts_batch(words)).all()
    assert net.config.layers == 7 and kl.certify(net).holds


def test_s5_in_logarithmic_depth():
    net = kl.compile(S5, to="transformer", depth="logarithmic", length=64)
    assert net.config.layers <= 9 and kl.certify(net).holds
    words = ["aa", "ab", "bbbbb", "ba" * 4]
    assert (net.accepts_batch(words) == S5.accepts_batch(words)).all()


@pytest.mark.parametrize("depth", [*DEPTHS, "by states"])
def test_changed_weights_and_changed_updates_are_refused(depth):
    rng = random.Random(9)
    dfa = language(2) if depth != "by states" else random_dfa(rng, 25, 2)
    net = compiled(dfa, "logarithmic" if depth == "by states" else depth, 6)
    other = language(4) if depth != "by states" else ~dfa
    swapped = copy.deepcopy(net)
    swapped.description["words"]["machine"] = other.minimise().to_json()
    assert "differ on" in str(kl.certify(swapped))
    weights = dict(net.blocks[-1].named_parameters())["out2"]
    place = tuple(torch.nonzero(weights)[0].tolist())
    with torch.no_grad():
        weights[place] += 1
    assert not kl.certify(net).holds


def test_a_program_that_means_something_else_is_refused():
    """The checker proves tensors equal to updates; the updates of another construction are not those of the words."""
    net = compiled(language(6), "logarithmic", 6)
    net.description["words"]["depth"] = "sequential"
    assert "the updates are not an automaton's" in str(kl.certify(net))
    net.description["words"] |= {"depth": "logarithmic", "length": 600}
    assert "too few layers for the length" in str(kl.certify(net))


def test_saved_networks_come_back(tmp_path: Path):
    net = compiled(language(5), "constant", 8)
    net.save(tmp_path / "net")
    again = kl.load(tmp_path / "net", kl.Transformer)
    assert again.accepts("0011") and not again.accepts("001") and kl.certify(again).holds
    with pytest.raises(kl.InputError, match="reads up to 8"):
        again.accepts("0" * 9)


def test_transformers_are_compared_with_other_networks():
    dfa = language(7)
    net = compiled(dfa, "logarithmic", 10)
    for other in ("lstm", "gru", "linear"):
        report = kl.verify(net, kl.compile(dfa, to=other))
        assert report.holds and "up to 10 symbols" in str(report)
    assert not kl.verify(net, kl.compile(language(4), to="lstm")).holds


def test_wrong_requests_say_what_would_be_right():
    with pytest.raises(kl.InputError, match="depth 'linear'"):
        kl.compile(language(1), to="transformer", depth="linear")
    with pytest.raises(kl.InputError, match="any length"):
        kl.compile(language(1), to="transformer", length=4)
    with pytest.raises(kl.InputError, match="length=0"):
        kl.compile(language(1), to="transformer", depth="logarithmic", length=0)
    with pytest.raises(kl.NotSupported, match="accepts no words"):
        kl.compile(kl.library.parity_relative).accepts("01")
    with pytest.raises(kl.NotSupported, match="not compiled from an automaton"):
        kl.decompile(kl.compile(kl.library.parity_relative), to="dfa")


# --- decoders ---


@pytest.mark.parametrize(
    "dfa", [kl.regex("(a|b)*abb", alphabet="ab"), S5], ids=["small monoid", "a layer per position"]
)
def test_a_decoder_accepts_words_and_gives_the_automaton_back(dfa, tmp_path):
    net = kl.compile(dfa, to="decoder", length=6)
    words = [random_word(random.Random(n), dfa.alphabet, 6) for n in range(60)] + [""]
    assert (net.accepts_batch(words) == dfa.accepts_batch(words)).all()
    certificate = kl.certify(net)
    assert certificate.holds and "accept the words of the machine" in str(certificate)
    assert kl.verify(dfa, net).holds and kl.decompile(net, to="dfa").equivalent(dfa)
    net.save(tmp_path / "net")
    again = kl.load(tmp_path / "net", kl.Transformer)
    assert again.accepts_batch(words[:5]).tolist() == net.accepts_batch(words[:5]).tolist()
    with pytest.raises(kl.InputError, match="reads up to 6"):
        net.accepts([dfa.alphabet[0]] * 7)


@pytest.mark.parametrize(
    "dfa", [kl.regex("(a|b)*abb", alphabet="ab"), S5], ids=["small monoid", "a layer per position"]
)
def test_a_decoder_of_another_language_is_not_proved(dfa):
    net = kl.compile(dfa, to="decoder", length=6)
    net.description["words"]["machine"] = dfa.complement().to_json()
    assert "differ on" in str(kl.certify(net))
    net = kl.compile(dfa, to="decoder", length=6)
    net.description["words"]["allowed"]["values"] = [0]
    assert "what holds the end" in str(kl.certify(net))
    net.description["words"]["length"] = 100
    assert "too few layers" in str(kl.certify(net))


def test_a_decoder_of_many_layers_completes_words():
    net = kl.compile(S5, to="decoder", length=6)
    word = S5.sample(2)
    prefix = [S5.alphabet.index(symbol) for symbol in word]
    made = net.run(prefix[:1], evaluator="dense")
    assert made[-1] == len(S5.alphabet)
    assert S5.accepts([S5.alphabet[token] for token in [*prefix[:1], *made[:-1]]])
    with pytest.raises(kl.NotSupported, match="length=600 is more than 512 layers"):
        kl.compile(S5, to="decoder", length=600)


def test_a_cascade_that_would_take_gigabytes_is_refused_before_it_is_lowered():
    rng = random.Random(13)
    dfa = random_dfa(rng, 50, 3)  # 12 states, solvable, with 16,572 tuples of coordinates
    with pytest.raises(kl.NotSupported, match=r"a network of about .* parameters, .* depth='logarithmic' holds"):
        kl.compile(dfa, to="transformer", depth="constant", length=8)
