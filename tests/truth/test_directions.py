"""Feature directions: values can be read from the stream by them; neurons and heads are where truth files say."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import kleene as kl
from kleene.evidence.circuit_graph import CompiledParts, SmallParts
from kleene.networks.trained.stacked_transformer import Shape, StackedTransformer
from kleene.truth.directions import given_directions, measured_directions, places_of
from kleene.truth.factory import Order, build, models_in
from kleene.truth.program_models import drawn_program
from kleene.truth.program_tables import Tables
from kleene.truth.random_programs import Size, superposed

SIZE = Size(variables=3, heads=2, layers=2)
PROGRAM, _ = drawn_program(0, 0, SIZE, 4)
TABLES = Tables.of([PROGRAM], 4)


@pytest.mark.parametrize("level", ["compiled", "superposed"])
def test_the_stream_is_the_sum_of_directions(level):
    """After every layer the stream is, exactly, the directions of the values that the program has there."""
    wide = kl.compile(PROGRAM).double()
    net, basis = wide, None
    if level == "superposed":
        net, _, basis = superposed(wide, np.random.default_rng(0), 4)
    directions, inputs = given_directions(wide, basis), TABLES.every_input()
    assert all(value.shape == (3, net.config.dim) for value in directions.values())
    values, x = TABLES.run(inputs[None])[0], net.embed(inputs)
    mask = torch.ones_like(inputs, dtype=torch.bool)
    for layer in range(2):
        x = net.block(layer)(x, mask)
        want = torch.zeros_like(x)
        for node, name in enumerate(TABLES.names):
            if name in PROGRAM.spec.variables:  # what heads write is cleared again
                want += directions[name][values[layer][0, ..., node]]
        assert torch.allclose(x, want, atol=1e-9)


def test_measured_directions():
    """Units that write one vector for each value are explained by them; random ones are not."""
    torch.manual_seed(0)
    net = StackedTransformer(Shape(3, 3, 4, 2, 2, 3)).double().requires_grad_(False)
    directions, explained = measured_directions(SmallParts(net, TABLES.names), TABLES)
    assert set(directions) == set(explained) == {f"{name}@{layer}" for layer, name in TABLES.nodes}
    assert all(0 <= share < 0.9 for share in explained.values())
    for layer in range(2):
        net.into_units[layer].zero_()
        net.units_bias[layer].fill_(1.0)  # constant: nothing to explain
    directions, explained = measured_directions(SmallParts(net, TABLES.names), TABLES)
    assert explained["v0@1"] == 0 and directions["v0@1"].abs().max() < 1e-9


def test_truth_files_say_where_nodes_are(tmp_path):
    order = Order(1, kind="program", depth=2, variables=3, heads=2, length=(4, 4), words=2)
    build(order, tmp_path / "models")
    (model,) = models_in(tmp_path / "models")
    truth = json.loads((tmp_path / "models" / model.name / "truth.json").read_text())
    places = places_of(CompiledParts(model.network))
    described = model.network.described(0)["units"][-1]
    for node in truth["nodes"]:
        assert places[node["of"]].items() <= node.items()
        for neuron in node.get("neurons", []):
            assert described[neuron][0] == node["of"]  # the network says that this unit writes the variable
    found = load_file(tmp_path / "models" / model.name / "directions.safetensors")
    assert set(found) == {"h0", "h1", "v0", "v1", "v2"}
