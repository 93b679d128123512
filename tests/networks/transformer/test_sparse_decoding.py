"""The sparse evaluator of decoders: it gives what the interpreter gives, whatever its tables have room for."""

from __future__ import annotations

import random

import pytest
import torch

import kleene as kl
from kleene.networks.transformer import segment_tables, sparse_decoding
from kleene.networks.transformer.segment_kernels import CONTENTS_FULL, STEPS_FULL


@pytest.mark.parametrize("seed", range(8))
def test_heads_of_every_kind_share_a_layer(seed: int) -> None:
    """Heads that average or count stand beside heads that prefer a position, shifts and words."""
    chance = random.Random(seed)

    class Mixed(kl.Program):
        tokens, layers, positions, causal, max_tokens, stop = 4, 3, 16, True, 6, 3
        here = kl.cat(4, token=lambda t: t)
        other = kl.cat(4, position=lambda p: p % 4)
        seven = kl.cat(8, default=7)
        letters = kl.word(2, token=lambda t: t)
        same = kl.count(here, here, most=16)
        alike = kl.count(other, here, most=16)
        all = kl.length(16)
        latest = kl.attend(here, other, here, latest=True, default=0)
        first = kl.attend(other, here, other, earliest=True, default=3)
        near = kl.attend(other, here, other, offsets=[-5, -3, -2], latest=True, default=1)
        spelt = kl.attend(letters, letters, other, latest=True, default=0)
        left = kl.relative(here, -1, default=1)
        output = here
        more, less = chance.sample(["same", "alike", "all", "near", "spelt", "latest", "first", "left"], 2)

        def step(z):
            z.other = (z.here + z.first + z.near) % 4
            z.here = (z.same + z.latest + getattr(z, z.more) * z.left) % 4
            z.seven = (z.alike + z.all + getattr(z, z.less)) % 8

    net = kl.compile(Mixed)
    inputs = [[chance.randrange(4) for _ in range(chance.randrange(1, 11))] for _ in range(100)]
    assert net.run_batch(inputs, evaluator="sparse") == [Mixed.run(tokens) for tokens in inputs]


class Shares(kl.Program):
    """The shares of the numbers so far, of which there are many: whether a share is more than the one before it."""

    tokens, layers, positions, causal, max_tokens = 8, 2, 40, True, 8
    number = kl.num(values=range(8), token=lambda t: t)
    value = kl.cat(8, token=lambda t: t)
    every = kl.cat(1)
    share = kl.attend(every, every, number, output=kl.num(values=[k / 4 for k in range(29)]))
    alike = kl.attend(value, value, number, output=kl.num(values=[k / 4 for k in range(29)]))
    output = value

    def step(z):
        z.value = int(z.share * 4 + z.alike) % 8


@pytest.mark.parametrize("most", [1, 5_000, 20_000_000])
def test_tables_grow_within_a_run(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run goes on where it stopped, with larger tables; tables that are too large begin anew between runs."""
    full: list[int] = []
    make_room = segment_tables.SegmentTables.make_room
    monkeypatch.setattr(segment_tables.SegmentTables, "make_room", lambda *it: (full.append(it[1]), make_room(*it)))
    monkeypatch.setattr(sparse_decoding, "MOST_VALUES", most)
    monkeypatch.setattr(segment_tables, "MOST_VALUES", most)
    chance = random.Random(0)
    inputs = [[chance.randrange(8) for _ in range(chance.randrange(1, 33))] for _ in range(200)]
    net, truth = kl.compile(Shares), [Shares.run(tokens) for tokens in inputs]
    assert net.run_batch(inputs, evaluator="sparse") == truth
    assert net.run_batch(inputs[::-1], evaluator="sparse") == truth[::-1]  # the tables are known now
    if most > 5_000:
        assert {CONTENTS_FULL, STEPS_FULL} <= set(full)


def test_a_segment_that_units_leave_something_in_becomes_loud() -> None:
    net = kl.compile(kl.library.parity_scratchpad(5))
    units = [k for k, (purpose, why) in enumerate(net.described(0)["units"][1]) if purpose == "equals_index"][:2]
    with torch.no_grad():
        net.block(0).out2[:, units] = 0  # what the head adds stays, and adds up from layer to layer
    quiet = net.sparse_copy().tables.segments.loud
    inputs = [[1, 0, 1, 2], [0, 2], [1, 1, 1, 0, 1, 2]]
    assert net.run_batch(inputs, evaluator="sparse") == net.run_batch(inputs, evaluator="dense")
    assert net.sparse_copy().tables.segments.loud == quiet + 1
