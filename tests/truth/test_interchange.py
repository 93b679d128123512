"""Strict interchange training: circuits of programs, and networks whose nodes do what the program's nodes do."""

from __future__ import annotations

import time

import pytest
import torch

import kleene as kl
from kleene.networks.trained.stacked_transformer import Shape, StackedTransformer, load_stacked
from kleene.training.options import Storage
from kleene.truth.interchange import Schedule, effects_of, measure, train_stack
from kleene.truth.program_tables import Tables


class Copy(kl.Program):
    """`left` reaches the output; `decoy` and `other` do not."""

    tokens, layers = 2, 1
    x = kl.cat(2, token=lambda t: t)
    other = kl.cat(2)
    left = kl.relative(x, -1, default=0)
    decoy = kl.relative(x, 1, default=0)
    output = x

    def step(z):
        z.x = z.left
        z.other = z.decoy


TABLES = Tables.of([Copy], 3)
EFFECTS = effects_of(TABLES)
CIRCUIT = EFFECTS > 0


def test_the_circuit():
    assert dict(zip(TABLES.names, CIRCUIT[0].tolist())) == {"left": True, "decoy": False, "x": True, "other": False}
    different = sum(a[:2] != b[:2] for a in _words() for b in _words() if a != b)
    assert 0 < float(EFFECTS[0, 0]) <= different / 56


def _words():
    return [(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)]


def test_training_makes_the_circuit_the_programs(tmp_path):
    model, _ = train_stack(TABLES, CIRCUIT, Schedule(150, 64, 5e-3))
    (found,) = measure(model, TABLES, CIRCUIT)
    assert found["accuracy"] == 1 and found["interchange"] == 1 and found["off_circuit"] == 0
    alone, _ = train_stack(TABLES, CIRCUIT, Schedule(150, 64, 5e-3, interchange=False))
    (plain,) = measure(alone, TABLES, CIRCUIT)
    assert plain["accuracy"] == 1 and plain["interchange"] < 0.9  # behaviour alone leaves the circuit open


def test_a_run_that_was_stopped_goes_on(tmp_path):
    """In two parts, by a deadline, to the same weights."""
    schedule = Schedule(20, 8)
    whole, _ = train_stack(TABLES, CIRCUIT, schedule, every=5)
    _, part = train_stack(TABLES, CIRCUIT, schedule, every=5, storage=Storage(tmp_path, deadline=0.0))
    assert part.step == 0
    _, part = train_stack(
        TABLES, CIRCUIT, schedule, every=5, storage=Storage(tmp_path, deadline=time.monotonic() + 1e-3)
    )
    again, rest = train_stack(TABLES, CIRCUIT, schedule, every=5, storage=Storage(tmp_path))
    assert rest.step == 20
    for one, other in zip(whole.parameters(), again.parameters()):
        assert torch.equal(one, other)


def test_interchange_by_hand():
    """A node that is replaced everywhere by itself changes nothing; all nodes replaced give the source's output."""
    torch.manual_seed(0)
    net = StackedTransformer(Shape(3, 3, 4, 2, 2, 3), 2)
    base, source = (torch.randint(3, (2, 5, 4)) for _ in range(2))
    kept, plain = net.run(base)
    masks = torch.ones(2, 2, 5, 4, net.nodes, dtype=torch.bool)
    assert torch.allclose(net.run(base, masks, kept)[1], plain)
    other = net.run(source)[0]
    moved = net.run(base, masks, other)[0]
    assert all(torch.equal(a, b) for one, two in zip(moved, other) for a, b in zip(one, two))


def test_one_of_a_stack_is_the_same_network(tmp_path):
    torch.manual_seed(0)
    net = StackedTransformer(Shape(3, 3, 4, 2, 2, 3), 3)
    tokens = torch.randint(3, (3, 6, 4))
    net.one(1).save(tmp_path / "one")
    again = load_stacked(tmp_path / "one")
    assert torch.allclose(again(tokens[1:2]), net(tokens)[1:2], atol=1e-6)
    (tmp_path / "one" / "kleene.json").write_text('{"format": "x"}')
    with pytest.raises(kl.FileError, match="not a small transformer"):
        load_stacked(tmp_path / "one")
