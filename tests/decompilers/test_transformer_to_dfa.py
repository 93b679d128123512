"""What a description says of words is part of the proof: every change that gives other answers is refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import kleene as kl


@pytest.fixture(scope="module")
def networks() -> dict[str, Any]:
    dfa = kl.regex("(01)*")
    return {
        "sequential": kl.compile(dfa, to="transformer"),
        "logarithmic": kl.compile(dfa, to="transformer", depth="logarithmic", length=3),
        "decoder": kl.compile(dfa, to="decoder", length=3),
    }


def reason(net: Any, **changed: Any) -> str:
    """Why a network with another description of words has no certificate."""
    certificate = kl.certify(described(net, **changed))
    assert not certificate.holds
    return certificate.words or ""


def described(net: Any, **changed: Any) -> Any:
    other = copy.copy(net)
    other.description = {**net.description, "words": {**net.description["words"], **changed}}
    return other


def test_the_networks_are_certified_as_they_are(networks):
    for net in networks.values():
        assert kl.certify(net).holds


@pytest.mark.parametrize("copies", [2, 0, "1", True, None])
@pytest.mark.parametrize("name", ["sequential", "logarithmic", "decoder"])
def test_symbols_that_are_given_more_than_once(networks, name, copies):
    assert "copies of each symbol" in reason(networks[name], copies=copies)


@pytest.mark.parametrize("length", [None, 4, "3", 3.0, -1, True])
def test_words_that_are_longer_than_the_layers_reach(networks, length):
    said = reason(networks["logarithmic"], length=length)
    assert ("too few layers" if length == 4 else "longest word") in said
    assert "longest word" in reason(networks["decoder"], length=None)


def test_an_answer_that_is_looked_up_in_a_variable(networks):
    """`accepts` would read a variable instead of the output."""
    ends = {"variable": "done", "values": [1]}
    assert "where the answer stands" in reason(networks["sequential"], allowed=ends)
    assert "where the answer stands" in reason(networks["logarithmic"], allowed=ends)


@pytest.mark.parametrize("changed", [{"alphabet": ["0", "0"]}, {"alphabet": [0, 1]}, {"answer": "0"}, {"machine": 3}])
def test_malformed_words(networks, changed):
    assert reason(networks["sequential"], **changed)


def test_every_description_is_proved(networks):
    """A tape that is right does not stand in for words that are wrong: `accepts` reads the words."""
    rows = {"q": {"1": ("q", "1", "R"), "_": ("yes", "_", "R")}}
    machine = kl.TuringMachine(rows, "q", {"yes"}, {"no"}, "_", ("1",), two_way=False)
    net = kl.compile(machine, to="transformer", tape=4)
    assert kl.certify(net).holds
    net.description["words"] = networks["sequential"].description["words"]
    assert not kl.certify(net).holds
    net = copy.copy(networks["sequential"])
    net.description = {**net.description, "words": "none"}
    assert not kl.certify(net).holds
