"""Turing machines as transformers: a bounded tape, a layer per step, proved. Other architectures are refused."""

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
    assert net.config.shape == "decoder"
    certificate = kl.certify(net)
    assert certificate.holds and "each token is one step of" in str(certificate)
    assert (net.decide("").answer, net.decide("").steps) == ("accept", 6)
    assert net.decide("", max_steps=3).answer is None
    assert str(kl.decompile(net, to="turing")).splitlines()[1:] == [
        "  A: '0'→'1',R,B  '1'→'1',L,B",
        "  B: '0'→'1',L,A  '1'→'1',R,accept",
    ]


def test_chains_of_thought_of_random_machines():
    rng, told = random.Random(3), {"accept": 0, "reject": 0, None: 0}
    for number in range(8):
        machine = random_turing(rng, 2, 2)
        net = kl.compile(machine, to="decoder", length=16)
        for _ in range(6):
            word = random_word(rng, machine.input_alphabet or (), 4)
            most = 16 - len(word) - 2  # steps that leave room for the answer
            expected = machine.run(word, max_steps=most)
            found = net.decide(word, max_steps=most)
            assert (found.answer, found.steps) == (expected.answer, expected.steps), (machine, word)
            told[found.answer] += 1
        if number < 3:
            assert kl.certify(net).holds
            again = kl.decompile(net, to="turing")
            for word in ("", "1", "11", "10"):
                if set(word) <= set(machine.input_alphabet or ()):
                    assert again.run(word, max_steps=50).answer == machine.run(word, max_steps=50).answer
    assert min(told.values()) > 1


def test_the_left_end_of_a_tape_in_a_chain_of_thought():
    rows = {"q": {" ": ("y", "x", -1), "1": ("q", "x", -1), "x": ("n", "1", 1)}}
    machine = kl.TuringMachine(rows, "q", {"y"}, {"n"}, input_alphabet=("1",), two_way=False)
    net = kl.compile(machine, to="decoder", length=8)
    assert (net.decide("1").answer, net.decide("1").steps) == ("reject", 2) == (machine.run("1").answer, 2)
    assert kl.certify(net).holds and not kl.decompile(net, to="turing").two_way
    both = kl.TuringMachine(rows, "q", {"y"}, {"n"}, input_alphabet=("1",))
    assert (kl.compile(both, to="decoder", length=8).decide("1").answer, both.run("1").answer) == ("accept", "accept")


def test_another_machine_is_no_chain_of_thought_of_this_one():
    net = kl.compile(BUSY, to="decoder", length=12)
    net.description["chain"]["machine"] = kl.TuringMachine.parse("1RB1LB_1LA0RZ").to_json()
    assert "in state 'B' on '1' the machine does" in str(kl.certify(net))
    net.description["chain"]["accept"] -= 1
    assert not kl.certify(net).holds
    with pytest.raises(kl.NotExact, match="the answer"):
        kl.decompile(net, to="turing")


@pytest.mark.slow
def test_the_machine_is_read_from_a_bounded_tape():
    net = kl.compile(BUSY, to="transformer", tape=12)
    again = kl.decompile(net, to="turing")
    assert again.run("").steps == 6 and again.transitions["A"]["0"] == ("B", "1", 1)
    with pytest.raises(kl.NotSupported, match="needs a network of a Turing machine"):
        kl.decompile(kl.compile(kl.library.parity_relative), to="turing")


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


def test_any_two_networks_of_a_machine_are_compared():
    rows = {"q": {"_": ("y", "_", 1), "a": ("r", "a", 1)}, "r": {"_": ("n", "_", 1), "a": ("q", "a", 1)}}
    machine = kl.TuringMachine(rows, "q", {"y"}, {"n"}, "_", ("a",), two_way=False, name="even")
    exact, looped = kl.compile(machine), kl.compile(machine, to="transformer", tape=8)
    chain, lstm = kl.compile(machine, to="decoder", length=12), kl.compile(machine, to="lstm", tape=7, length=5)
    networks = [exact, looped, chain, lstm]
    for network in networks:
        assert kl.verify(machine, network).holds
        assert kl.verify(looped, network).holds
    assert kl.verify(chain).holds and kl.verify(exact, chain).holds
    rows["r"]["_"] = ("y", "_", 1)
    other = kl.TuringMachine(rows, "q", {"y"}, {"n"}, "_", ("a",), two_way=False)
    for network in networks:
        report = kl.verify(other, network)
        assert not report.holds and "a: " in str(report)
    with pytest.raises(kl.NotSupported, match="not a Turing machine"):
        kl.verify(machine, kl.compile(kl.regex("a*"), to="lstm"))
