"""Turing machines with a bounded tape as LSTMs and GRUs."""

from __future__ import annotations

import random

import pytest

import kleene as kl
from kleene.common.alphabet import words_of
from random_machines import random_turing

POWERS = {  # accepts 1, 11, 1111, …: crosses off every second 1, again and again
    "start": {"1": ("one", "_", 1), "_": ("no", "_", 1), "x": ("no", "x", 1)},
    "one": {"1": ("even", "x", 1), "_": ("yes", "_", 1), "x": ("one", "x", 1)},
    "even": {"1": ("odd", "1", 1), "_": ("back", "_", -1), "x": ("even", "x", 1)},
    "odd": {"1": ("even", "x", 1), "_": ("no", "_", 1), "x": ("odd", "x", 1)},
    "back": {"1": ("back", "1", -1), "_": ("one", "_", 1), "x": ("back", "x", -1)},
}
MACHINE = kl.TuringMachine(POWERS, "start", {"yes"}, {"no"}, "_", ("1",), two_way=False, name="powers of two")


@pytest.mark.parametrize("to", ["lstm", "gru"])
def test_powers_of_two_on_eighteen_cells(to):
    net = kl.compile(MACHINE, to=to, tape=18, length=16)
    assert [n for n in range(17) if net.accepts("1" * n)] == [1, 2, 4, 8, 16]
    certificate = kl.certify(net)
    assert certificate.holds and "that the Turing machine accepts" in str(certificate)
    assert len(kl.decompile(net)) == 18  # a state a length, and one for what is longer


def test_random_machines():
    rng, held = random.Random(5), 0
    for _ in range(20):
        machine = random_turing(rng)
        try:
            net = kl.compile(machine, to="lstm", tape=24, length=3)
        except kl.NotSupported as error:
            assert "the head leaves the 24 cells" in str(error) or "no input symbols" in str(error)
            continue
        held += 1
        for word in words_of(machine.input_alphabet or (), range(4)):
            assert net.accepts(word) == (machine.run(word, max_steps=10_000).answer == "accept")
        assert kl.certify(net).holds
    assert held > 5


def test_another_machine_is_found():
    net = kl.compile(MACHINE, to="gru", tape=10, length=8)
    rows = {**POWERS, "odd": {**POWERS["odd"], "_": ("yes", "_", 1)}}
    other = kl.TuringMachine(rows, "start", {"yes"}, {"no"}, "_", ("1",), two_way=False)
    net.about["turing"]["machine"] = other.to_json()
    assert "the Turing machine and the network differ on 111" in str(kl.certify(net))
    net.about["turing"] = {**net.about["turing"], "machine": MACHINE.to_json(), "length": 7}
    assert "accepts words with more symbols" in str(kl.certify(net))


def test_refusals():
    with pytest.raises(kl.NotSupported, match=r"endless tape. Merrill \(2019\).*Give tape="):
        kl.compile(MACHINE, to="lstm")
    with pytest.raises(kl.NotSupported, match="on 11 the head leaves the 3 cells"):
        kl.compile(MACHINE, to="lstm", tape=3)
    with pytest.raises(kl.NotSupported, match="32,767 words of up to 14 symbols"):
        kl.compile(two(), to="gru", tape=30, length=14)
    for options in ({"tape": 0}, {"tape": 4, "length": 5}, {"tape": True}):
        with pytest.raises(kl.InputError):
            kl.compile(MACHINE, to="lstm", **options)


def two() -> kl.TuringMachine:
    rows = {"q": {a: ("y", a, 1) for a in "_ab"}}
    return kl.TuringMachine(rows, "q", {"y"}, blank="_", input_alphabet=("a", "b"), two_way=False)
