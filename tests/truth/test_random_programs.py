"""Random programs: certified networks; circuits of heads; rotated and squeezed networks with the same outputs."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

import kleene as kl
from kleene.evidence.methods import EDGES, NODES
from kleene.truth.factory import Order, build, models_in
from kleene.truth.interchange import effects_of
from kleene.truth.program_models import nodes_of
from kleene.truth.program_tables import Tables
from kleene.truth.random_programs import Size, random_program, superposed
from kleene.truth.scoreboard import score


@pytest.mark.parametrize("seed", range(3))
def test_random_programs_are_certified(seed):
    program = random_program(np.random.default_rng(seed), Size(layers=2))
    net = kl.compile(program)
    tokens = torch.tensor(list(product(range(3), repeat=4)))
    assert kl.certify(net).holds
    assert net(tokens).argmax(-1).tolist() == [program.run(row) for row in tokens.tolist()]


def test_rotated_and_squeezed_networks_give_the_same():
    program = random_program(np.random.default_rng(1))
    net = kl.compile(program)
    small, error, _ = superposed(net, np.random.default_rng(0), 4)
    assert small.config.dim < net.config.dim and error < 1e-9
    tokens = torch.tensor(list(product(range(3), repeat=4)))
    assert torch.allclose(small(tokens), net.double()(tokens), atol=1e-9)
    assert (small.token_embedding.abs() > 1e-6).all()  # no dimension has a name any more


class Known(kl.Program):
    """`used` reaches the output in the last layer; `decoy` never does; `early` does through `x` in the first layer."""

    tokens = 2
    x = kl.cat(2, token=lambda t: t)
    y = kl.cat(2)
    other = kl.cat(2)
    used = kl.relative(x, -1, default=0)
    early = kl.relative(x, 1, default=0)
    decoy = kl.relative(x, -1, default=1)
    output = y
    layers = 2

    def step(z):
        z.y = z.used
        z.x = z.early
        z.other = z.decoy


def test_the_circuit_of_a_known_program():
    tables = Tables.of([Known], 4)
    nodes = nodes_of(tables, effects_of(tables)[0])
    assert {node["name"] for node in nodes if node["in"]} == {"used@2", "early@1", "x@1", "y@2"}


def test_programs_of_the_factory_are_scored(tmp_path):
    for level in ("compiled", "superposed"):
        made = build(Order(1, level, kind="program", depth=1, length=(3, 3)), tmp_path / level)
        assert all(one["agreement"] == 1 and one["certified"] == (level == "compiled") for one in made)
    assert {len(model.truth["nodes"]) for model in models_in(tmp_path)} == {7}
    board = score({**NODES, **EDGES, "exact": None}, tmp_path, seeds=2)
    assert {entry["kind"] for entry in board.entries} == {"nodes", "edges", "tokens", "pairs"}
    assert {entry["method"] for entry in board.entries} == {*NODES, *EDGES, "exact"}
    for row in board.rows("level"):
        if row["method"] == "exact":  # the network's interchanges are the program's
            assert [row[m]["mean"] for m in ("correlation", "auroc", "top")] == [1, 1, 1]
