"""What a group need not read is left out of what it remembers, and only where the weights show it."""

from __future__ import annotations

import random

import pytest
import torch

import kleene as kl
from kleene.networks.transformer import segment_needs


@pytest.fixture(autouse=True)
def every_selector(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs this small spare little; leave out what they can."""
    monkeypatch.setattr(segment_needs, "WORTH", 2)


def alike(net: kl.Transformer, inputs: list[list[int]], layers: int) -> bool:
    """Whether the sparse and the dense evaluator give the same outputs."""
    sparse, dense = (net.run_batch(inputs, layers=layers, evaluator=evaluator) for evaluator in ("sparse", "dense"))
    return sparse == dense


def drawn(chance: random.Random, values: int, length: int, count: int) -> list[list[int]]:
    return [[chance.randrange(values) for _ in range(chance.randrange(1, length + 1))] for _ in range(count)]


def test_sort_remembers_a_step_for_one_neighbour() -> None:
    """In an odd layer a position compares with its left neighbour alone, in an even one with the right one."""
    net = kl.compile(kl.library.sort(12, 12))
    inputs = drawn(random.Random(0), 12, 12, 300)
    assert net.run_batch(inputs, evaluator="sparse") == [sorted(tokens) for tokens in inputs]
    (memory,) = net.sparse_copy().tables.memories
    assert memory.plain[0] and memory.sizes[0] <= 2 * 12 * 12


@pytest.mark.parametrize("seed", range(12))
def test_other_weights_show_other_needs(seed: int) -> None:
    """Biases and weights are changed: units that were off are on, segments are not cleared, weights are not whole."""
    chance = random.Random(seed)
    net = kl.compile(kl.library.sort(5, 5) if seed % 2 else kl.library.dyck2(5))
    inputs = drawn(chance, net.config.tokens, 5, 40)
    with torch.no_grad():
        for _ in range(3):
            part = chance.choice([net.block(0).bias2, net.block(0).in2, net.block(0).out2])
            places = (part != 0).nonzero()
            part[tuple(chance.choice(places.tolist()))] += chance.choice([-1, 1, 1, 0.5])
    for layers in range(4):
        assert alike(net, inputs, layers)


def test_nothing_is_left_out_where_a_segment_holds_something_else() -> None:
    """A content with two ones switches units on that the bounds call off."""

    class Chooses(kl.Program):
        tokens, layers, positions = 4, 3, 6
        odd = kl.cat(2, position=lambda p: p % 2)
        value = kl.cat(4, token=lambda t: t)
        left = kl.relative(value, -1, default=0)
        right = kl.relative(value, 1, default=3)
        output = value

        def step(z):
            if z.odd:
                z.value = z.left
            else:
                z.value = z.right % 2

    inputs = drawn(random.Random(1), 4, 6, 60)
    net = kl.compile(Chooses)
    assert alike(net, inputs, 3)
    assert net.sparse_copy().tables.groups[0].selector.max() >= 0
    with torch.no_grad():
        net.token_embedding[3] += net.token_embedding[1]
    assert alike(net, inputs, 1)
    assert not net.sparse_copy().tables.memories[0].plain[0]
    assert alike(net, inputs, 2) and alike(net, inputs, 3)
