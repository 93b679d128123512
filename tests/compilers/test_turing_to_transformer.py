"""Turing machines as transformers: a bounded tape, a layer a step, proved; other architectures are refused by name."""

from __future__ import annotations

import random

import pytest

import kleene as kl
from random_machines import random_turing, random_word

BUSY = kl.TuringMachine.parse("1RB1LB_1LA1RZ")


def test_the_busy_beaver_takes_a_layer_a_step():
    net = kl.compile(BUSY, to="transformer", tape=12)
    decision = net.decide("")
    assert (decision.answer, decision.steps) == ("accept", 6) == (BUSY.run("").answer, BUSY.run("").steps)
    certificate = kl.certify(net)
    assert certificate.holds and "each layer is one step" in str(certificate)


def test_random_machines_agree_where_the_tape_suffices():
    rng, told = random.Random(6), {"accept": 0, "reject": 0}
    for _ in range(12):
        machine = random_turing(rng)
        net = kl.compile(machine, to="transformer", tape=20)
        for _ in range(4):
            word = random_word(rng, machine.input_alphabet or (), 4)
            expected = machine.run(word, max_steps=40)
            try:
                found = net.decide(word, max_steps=40)
            except kl.NotSupported as error:
                assert "the head leaves the 20 cells" in str(error)
                continue
            assert (found.answer, found.steps) == (expected.answer, expected.steps)
            if found.answer:
                told[found.answer] += 1
    assert min(told.values()) > 3


def test_random_machines_are_proved_and_other_machines_are_not():
    rng = random.Random(8)
    for _ in range(3):
        net = kl.compile(random_turing(rng, 3, 3), to="transformer")
        assert kl.certify(net).holds
    net = kl.compile(BUSY, to="transformer")
    net.description["tape"]["machine"] = kl.TuringMachine.parse("1RB1LB_1LA0RZ").to_json()
    assert "a symbol that is written" in str(kl.certify(net))


def test_a_chain_of_thought_takes_the_same_steps():
    net = kl.compile(BUSY, to="decoder", length=24)
    assert net.config.shape == "decoder" and kl.certify(net).holds


@pytest.mark.parametrize("to", ["lstm", "gru", "linear"])
def test_other_architectures_are_refused_by_name(to):
    with pytest.raises(kl.NotSupported, match=r"Merrill.*to='rnn'"):
        kl.compile(BUSY, to=to)


def test_words_and_tapes_that_do_not_fit():
    net = kl.compile(BUSY, to="transformer", tape=4)
    with pytest.raises(kl.InputError, match="does not fit 4 cells"):
        net.decide("111")
    with pytest.raises(kl.InputError, match="tape=0"):
        kl.compile(BUSY, to="transformer", tape=0)
    with pytest.raises(kl.NotSupported, match="not compiled from a Turing machine"):
        kl.compile(kl.library.parity_relative).decide("1")
