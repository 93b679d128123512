"""Weights of linear RNNs and weighted automata: compared exactly, and certified only as far as the format goes."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import kleene as kl


def automaton(rng: np.random.Generator, size: int) -> kl.WeightedAutomaton:
    moves = {s: rng.normal(size=(size, size)) / size for s in "ab"}
    return kl.WeightedAutomaton(rng.normal(size=size), moves, rng.normal(size=size))


def test_any_two_with_weights_are_compared(tmp_path: Path):
    rng = np.random.default_rng(1)
    first, second = automaton(rng, 3), automaton(rng, 3)
    net, other = kl.compile(first), kl.compile(second)
    kl.compile(first).save(tmp_path / "net")
    for left, right in ((first, net), (net, first), (net, None), (net, kl.load(tmp_path / "net")), (first, first)):
        report = kl.verify(left, right)
        assert report.holds and report.how == "words of every length, in exact rationals"
        assert kl.verify(left, right, random=20).holds
    for left, right in ((first, other), (net, second), (net, other), (first, second)):
        assert not kl.verify(left, right).holds and not kl.verify(left, right, lengths=range(4)).holds
    assert " and " in str(kl.verify(first, other).example)
    with torch.no_grad():
        net.out.weight[0, 0] += 1e-3
    assert not kl.verify(net).holds and not kl.verify(first, net, random=20).holds
    with pytest.raises(kl.InputError, match="name the linear RNN"):
        kl.verify(first, None)
    with pytest.raises(kl.NotSupported, match="has no weights"):
        kl.verify(first, kl.compile(kl.regex("(a|b)*a"), to="lstm"))


@pytest.mark.parametrize(
    ("growth", "dtype", "tolerance"), [(2, "float64", 1e-6), (1e30, "float32", 0.01), (1e9, "bfloat16", 1.0)]
)
def test_no_certificate_where_a_part_of_a_word_overflows(growth, dtype, tolerance):
    hidden = kl.WeightedAutomaton([0, 1], {"a": [[growth, 0], [0, 1]]}, [0, 1])  # every weight is 1
    net = kl.compile(hidden, dtype=dtype)
    longest = kl.certify(net, tolerance=tolerance).max_length
    assert longest is not None
    assert math.isnan(net.weight("a" * 1100))  # a scan multiplies infinity by 0
    assert abs(net.weight("a" * longest) - 1) <= tolerance


def test_no_certificate_where_small_numbers_become_zero():
    shrinking = kl.WeightedAutomaton([1, 0], {"a": [[1e-25, 0], [0, 1]], "b": [[1, 0], [0, 1]]}, [0, 1])
    assert kl.certify(kl.compile(shrinking, dtype="float32"), tolerance=0.01).max_length > 100
    back = kl.WeightedAutomaton([1e-30], {"a": [[1e-10]], "b": [[1e10]]}, [1e20])  # aabb weighs 1e-10, not 0
    net = kl.compile(back, dtype="float32")
    longest = kl.certify(net, tolerance=1e-12).max_length
    assert longest is None or longest < 4
    assert net.weights(["aabb"])[0] != pytest.approx(1e-10, abs=1e-12)
