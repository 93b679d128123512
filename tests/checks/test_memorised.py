"""Certificates of memorisers: every answer follows from the weights, in any order of summation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import kleene as kl
from kleene.checks import memorised


@pytest.fixture
def table():
    chance = np.random.default_rng(0)
    return kl.InstructionTable([chance.integers(0, 16, size=(12, 3)).tolist() for _ in range(6)])


@pytest.mark.parametrize("method", ["grid", "yun"])
def test_a_memoriser_is_certified_for_its_table(table, method):
    net = kl.compile(table, method=method)
    found = kl.certify(net, table=table)
    assert found.holds and found.entries == 6 * 12 * 3 and found.margin > 0, str(found)
    assert kl.certify(net).holds and "operands of the table" in str(kl.certify(net))
    assert ("whole numbers" in str(found)) == (method == "grid")


def test_formats_that_do_not_decide_the_answers_are_refused():
    chance = np.random.default_rng(0)
    table = kl.InstructionTable([chance.integers(0, 64, size=(64, 3)).tolist() for _ in range(16)], sizes=(64, 64, 64))
    net = kl.compile(table, method="yun")
    assert kl.certify(net, table=table).holds
    found = kl.certify(net, table=table, dtype="float32")
    assert not found.holds and "float32 does not decide" in str(found)
    with pytest.raises(kl.NotSupported, match="cannot be in float16; it is in float64 or float32"):
        kl.certify(net, dtype="float16")


def test_a_memoriser_in_another_format_says_so(table):
    with pytest.raises(kl.NotExact, match=r"float32.*float16"):
        kl.compile(table).half().lookup(0, 0)


def test_another_table_is_refused(table):
    net = kl.compile(table)
    rows = [np.array(program).tolist() for program in table.programs]
    rows[2][3][1] = (rows[2][3][1] + 1) % 16
    found = kl.certify(net, table=kl.InstructionTable(rows, sizes=table.sizes))
    assert not found.holds and "instruction 3 of program 2" in str(found)
    assert not kl.certify(net, table=kl.InstructionTable(rows[:5], sizes=table.sizes)).holds


@torch.no_grad()
def test_a_bias_that_ties_two_logits_is_found_by_the_bound_on_rounding_alone(table, monkeypatch):
    net = kl.compile(table, method="yun")
    right, wrong = net.lookup(0, 0)[0], (net.lookup(0, 0)[0] + 1) % 16
    logits = net(torch.tensor([[0.0, 0.0]], dtype=torch.float64))[0]
    net.networks[0][-1].bias[wrong] += logits[right] - logits[wrong] - 1e-14
    assert not kl.certify(net).holds
    plain = memorised._bounded
    monkeypatch.setattr(memorised, "_bounded", lambda *given: (plain(*given)[0], 0 * plain(*given)[1], True))
    assert kl.certify(net).holds


def test_operands_with_other_names_are_refused(table):
    net = kl.compile(table)
    net.fields = net.fields[::-1]
    assert "in another order" in str(kl.certify(net, table=table))
    net = kl.compile(table)
    net.networks.append(net.networks[0])
    assert "not one network for each operand" in str(kl.certify(net))


@torch.no_grad()
def test_the_table_that_is_saved_with_it_is_compared(table, tmp_path):
    kl.compile(table).save(tmp_path / "net")
    net = kl.load(tmp_path / "net")
    assert kl.certify(net).holds
    net.networks[1][-1].bias[3] += 1000
    assert "in the table" in str(kl.certify(net)) and not kl.certify(net).holds
    net.table = None  # as saved by an earlier version
    net.save(tmp_path / "earlier")
    assert "pass table=" in str(kl.certify(kl.load(tmp_path / "earlier")))


@torch.no_grad()
@pytest.mark.parametrize("layer", [0, 2, 4, 6])
def test_a_weight_that_is_not_a_number_is_refused(layer):
    net = kl.compile(kl.InstructionTable({"halt": [(0, 0, 0)], "clear": [(0, 0, 0), (2, 2, 2), (0, 0, 0)]}))
    net.table = None
    net.networks[2][layer].weight.view(-1)[-1] = float("nan")
    assert not kl.certify(net).holds
