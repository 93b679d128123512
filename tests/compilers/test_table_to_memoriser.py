"""The grid memoriser's bound and its quick reading back are those of the whole network."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import kleene as kl
from kleene.compilers.table_to_memoriser import _grid_layers, _largest_sum, _separated
from kleene.errors import NotExact


def every_sum(layers, shape):
    """The largest sum, by going through every input."""
    program, instruction = np.meshgrid(np.arange(shape[0]), np.arange(shape[1]), indexing="ij")
    values, largest = np.stack([instruction.ravel(), program.ravel()], axis=-1).astype(float), 0.0
    for number, (weight, bias) in enumerate(layers):
        largest = max(largest, float((np.abs(values) @ np.abs(weight.T).astype(float) + np.abs(bias)).max()))
        values = values @ weight.T.astype(float) + bias
        values = np.maximum(values, 0) if number < len(layers) - 1 else values
    return largest


def test_the_bound_is_the_largest_sum():
    chance = np.random.default_rng(0)
    for _ in range(100):
        shape, z = tuple(chance.integers(1, 7, 2).tolist()), int(chance.integers(1, 9))
        labels = chance.integers(0, z, shape)
        for swapped in (False, True):
            layers = _grid_layers(labels.T if swapped else labels, z, swapped)
            found, wanted = _largest_sum(layers, shape), every_sum(layers, shape)
            assert found == wanted if labels.max() == z - 1 else found >= wanted


@pytest.mark.parametrize(("programs", "length", "addresses"), [(3, 5, 7), (7, 3, 4), (1, 6, 6), (6, 1, 6)])
def test_reading_back_is_what_the_network_says(programs, length, addresses):
    table = kl.InstructionTable.random(programs, length, addresses, seed=programs)
    net = kl.compile(table)
    program, instruction, wanted = table.entries()
    assert (_separated(net, table) == net.operands(program, instruction)).all()
    assert (_separated(net, table) == wanted).all()


def test_a_changed_weight_is_seen():
    table = kl.InstructionTable.random(4, 6, 8, seed=1)
    net = kl.compile(table)
    with torch.no_grad():
        linear = [layer for layer in net.networks[1].children() if isinstance(layer, torch.nn.Linear)]
        linear[1].weight[0, 0] += 1
    program, instruction, wanted = table.entries()
    assert (_separated(net, table) != wanted).any()
    assert (_separated(net, table) == net.operands(program, instruction)).all()


def test_what_does_not_fit_is_refused():
    with pytest.raises(NotExact, match="float64"):
        kl.compile(kl.InstructionTable.random(2, 200, 100_000, seed=0), dtype="float32")
