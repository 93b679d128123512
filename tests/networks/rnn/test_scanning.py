"""Scans over affine steps: every way of multiplying gives the state that steps one by one give."""

from __future__ import annotations

import pytest
import torch

from kleene.networks.rnn.scanning import Kinds, after, apply, before


def one_by_one(a: torch.Tensor, b: torch.Tensor, order: torch.Tensor, h: torch.Tensor) -> list[torch.Tensor]:
    states = [h]
    for row in order.tolist():
        states.append(apply(a[row], b[row], states[-1]))
    return states


def functions(symbols: int, size: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Matrices of random functions of states, and no offset."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randint(size, (symbols, size), generator=generator)
    return torch.eye(size)[rows].transpose(1, 2).contiguous(), torch.zeros(symbols, size)


@pytest.mark.parametrize("symbols", [1, 2, 5, 70])
@pytest.mark.parametrize("length", [1, 2, 3, 31, 1000, 20_001])
def test_products_that_repeat_are_looked_up_and_the_state_is_the_same(symbols, length):
    a, b = functions(symbols, 4, seed=symbols)
    order = torch.randint(symbols, (length,), generator=torch.Generator().manual_seed(length))
    start = torch.eye(4)[1]
    assert torch.equal(after(a, b, order, start), one_by_one(a, b, order, start)[-1])
    assert torch.equal(before(a[order], b[order], start)[1], one_by_one(a, b, order, start)[-1])


@pytest.mark.parametrize("cells", [0, 40, 4_000_000])
def test_blocks_and_limits_change_nothing(monkeypatch, cells):
    monkeypatch.setattr("kleene.networks.rnn.scanning.CELLS", cells)
    a, b = functions(3, 5, seed=1)
    order = torch.randint(3, (20_000,), generator=torch.Generator().manual_seed(0))
    start = torch.eye(5)[0]
    assert torch.equal(after(a, b, order, start), one_by_one(a, b, order, start)[-1])


def test_a_long_word_over_a_small_monoid_needs_few_products():
    a, b = functions(2, 3, seed=4)
    kinds = Kinds(a, b)
    order = torch.randint(2, (100_000,), generator=torch.Generator().manual_seed(0))
    assert len(kinds.shorten(order)) == 1
    assert kinds.count <= 3**3 + 2


def test_steps_that_never_repeat_are_all_multiplied():
    generator = torch.Generator().manual_seed(0)
    a = torch.rand(2, 1, 1, generator=generator, dtype=torch.float64) / 2 + 0.4
    b = torch.rand(2, 1, generator=generator, dtype=torch.float64)
    order = torch.randint(2, (5000,), generator=generator)
    start = torch.zeros(1, dtype=torch.float64)
    assert torch.allclose(after(a, b, order, start), one_by_one(a, b, order, start)[-1])
    diagonal = after(a[:, 0], b, order, start)
    assert torch.allclose(diagonal, one_by_one(a[:, 0], b, order, start)[-1])


def test_zero_and_minus_zero_are_one_kind():
    a = torch.tensor([[[0.0]], [[-0.0]]])
    kinds = Kinds(a, torch.zeros(2, 1))
    assert len(kinds.numbers) == 1
