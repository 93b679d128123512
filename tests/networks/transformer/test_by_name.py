"""A network can be looked at: print, the layout as a table, heads and variables by name with their weights."""

from __future__ import annotations

import pytest
import torch

import kleene as kl
from kleene.library import memorised


@pytest.fixture(scope="module")
def parity():
    return kl.compile(kl.library.parity_relative)


@pytest.fixture(scope="module")
def computer():
    return kl.compile(kl.library.computer(4))


def test_print_tells_what_it_is():
    net = kl.compile(kl.library.parity_relative)
    text = str(net)
    for said in (
        "parity_relative: universal transformer",
        "halts when done=1",
        "parity_left",
        "of any length",
        "residual 8, heads 2, hidden 7",
        "float32 on cpu",
        "thresholds",
        "not asked yet",
    ):
        assert said in text, said
    assert repr(net) == text
    kl.certify(net, dtype="float64")
    assert "not asked yet" in str(net)  # that was another number format's
    kl.certify(net)
    assert "certificate  certified exact in float32 for any length" in str(net)
    with torch.no_grad():
        net.blocks[0].in2[0, 0] += 1
    assert "weights have changed" in str(net)
    assert not kl.certify(net).holds and "not certified in float32" in str(net)


def test_print_of_other_shapes(computer):
    assert "3 blocks that take turns" in str(computer) and "4 bits a position" in str(computer)
    encoder = kl.compile(kl.library.parity_relative, shape="encoder", layers=3, shared=False)
    assert "transformer encoder" in str(encoder) and "3 layers" in str(encoder) and "3 blocks," in str(encoder)
    decoder = kl.compile(kl.library.addition_scratchpad(2))
    assert "transformer decoder" in str(decoder) and "a token, at most" in str(decoder)


def test_layout_is_a_table(parity, tmp_path):
    lines = str(parity.layout).splitlines()
    assert lines[0].split() == ["name", "kind", "dimensions", "coding", "values"]
    assert lines[2].split()[:2] == ["done", "variable"] and "done=0, done=1" in lines[2]
    assert [row["kind"] for row in parity.layout.to_rows()] == ["variable", "variable", "head", "head"]
    assert [segment.name for segment in parity.layout] == ["parity", "done", "parity_left", "done_left"]
    parity.save(tmp_path / "net")
    assert str(kl.load(tmp_path / "net").layout) == str(parity.layout)


def test_a_head_by_name(parity):
    head = parity.heads["parity_left"]
    assert (head.block, head.index, head.offsets[-1] > 0, head.offsets[0]) == (0, 0, True, 0)
    assert head.value_reads == ("parity=0", "parity=1") and head.writes == ("parity_left=0", "parity_left=1")
    assert torch.equal(head.out @ head.value, parity.blocks[0].out[0] @ parity.blocks[0].value[0])
    assert list(parity.heads) == ["parity_left", "done_left"] and "parity_left" in repr(head)


def test_weights_are_the_networks_own():
    net = kl.compile(kl.library.parity_relative)
    assert net.run([2, 1, 1]) == [0, 1, 0]
    with torch.no_grad():
        net.heads["parity_left"].out.zero_()
    assert net.run([2, 1, 1]) != [0, 1, 0]


def test_a_variable_by_name(parity):
    done = parity.variables["done"]
    assert done.slice == slice(2, 4) and done.halts_at == "done=1" and not done.is_output
    assert done.token_rows.tolist() == [[1, 0], [1, 0], [0, 1]]  # only START is done
    (unit,) = done.units
    assert unit.purpose == "done" and unit.reads == {"done=0": 1, "done_left=1": 1} and unit.bias == -1
    assert unit.writes == {"done=0": -1, "done=1": 1}
    assert parity.variables["parity"].is_output and len(parity.variables) == 2


def test_a_cycle_by_name(computer):
    assert computer.heads["advance"].name == "fetch_a+advance" and computer.heads["store_b"].block == 2
    assert "pc" not in computer.heads  # a variable, not a head: "clear a+pc+b+c" is not called so
    pc = computer.variables["pc"]
    assert {unit.block for unit in pc.units} == {2} and {unit.purpose for unit in pc.units} == {"pc"}
    assert [head.name for head in pc.heads] == ["fetch_a+advance", "clear a+pc+b+c"]
    assert len(computer.units) == computer.sizes.hidden


def test_blocks_of_an_encoder_are_told_apart():
    net = kl.compile(kl.library.parity_relative, shape="encoder", layers=2, shared=False)
    assert net.heads["done_left"].block == 0 and net.heads["done_left", 1].block == 1


def test_a_wrong_name_is_said(parity):
    with pytest.raises(kl.UnknownName, match="no head is called 'left'; choose one of parity_left, done_left"):
        parity.heads["left"]
    with pytest.raises(kl.InputError, match="no variable is called 'x'; choose one of parity, done"):
        parity.variables["x"]
    assert parity.heads.get("left") is None and "left" not in parity.heads


def test_other_networks_say_what_they_are():
    rnn = kl.compile(kl.regex("(0|10*1)*", alphabet="01"))
    assert repr(rnn) == "ExactRNN(4 relu units, integer weights, 16 non-zero, alphabet {0, 1}, by scalar)"
    assert "4 relu units, alphabet {0, 1}" in repr(rnn.torch())
    assert repr(kl.compile(kl.TuringMachine.parse("1RB1LB_1LA1RZ"))).startswith("Decider(28 relu units, rational")
    table = kl.InstructionTable.of_images(memorised.subleq_images())
    assert "4 programs, 212 instructions" in repr(kl.compile(table))
