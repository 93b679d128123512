"""circuit.json, unrolled: nodes by hook name, layer and head; read back and held against the weights."""

from __future__ import annotations

import json

import pytest
import torch

import kleene as kl
from kleene.exporters.transformer_to_lens import to_lens


@pytest.mark.parametrize(
    ("program", "layers"),
    [
        (kl.library.parity_relative, 3),
        (kl.library.addition, 4),
        (kl.library.computer(6), 4),
        (kl.library.parity_sum(5), 1),
    ],
    ids=lambda thing: getattr(thing, "__name__", ""),
)
def test_read_back(tmp_path, program, layers):
    net = kl.compile(program)
    kl.export(net, "circuit", tmp_path / "circuit.json", layers=layers)
    found = json.loads((tmp_path / "circuit.json").read_text(encoding="utf-8"))["unrolled"]
    nodes = {node["id"]: node for node in found["nodes"]}
    assert len(nodes) == len(found["nodes"])
    for edge in found["edges"]:  # every edge goes forwards, through dimensions that one writes and the other reads
        source, target = nodes[edge["from"]], nodes[edge["to"]]
        assert source["layer"] is None or target["layer"] is None or source["layer"] <= target["layer"]
        assert (
            edge["dims"]
            and set(edge["dims"]) <= writes(net, source)
            and set(edge["dims"]) <= reads(net, target, edge["as"])
        )
    lens = to_lens(net, layers=layers, length=5)
    assert found["blocks"] == lens.config["n_layers"]
    for node in nodes.values():  # the hooks are those of the TransformerLens export
        if node["head"] is not None:
            assert lens.names["blocks"][node["block"]]["heads"][node["head"]] in (node["id"].split("head.")[1],)
            assert node["hook"] == f"blocks.{node['block']}.attn.hook_result"
        elif node["layer"] is not None:
            assert node["hook"] == f"blocks.{node['block']}.hook_mlp_out"
            assert lens.names["blocks"][node["block"]]["layer"] == node["layer"]


def block_of(net, node):
    return net.block(node["layer"] - 1)


def writes(net, node):
    """What a node writes, from the weights."""
    if node["layer"] is None:
        table = net.token_embedding if node["id"] == "tokens" else net.position_embedding
        counted = {d for first, bits, _ in net.config.counted for d in range(first, first + bits)}
        stored = {*torch.nonzero(table.any(dim=0)).flatten().tolist()}
        return stored if node["id"] == "tokens" else stored | counted
    block = block_of(net, node)
    if node["head"] is not None:
        return {*torch.nonzero(block.out[node["head"]].any(dim=1)).flatten().tolist()}
    out = block.out1 if node["id"].endswith("half1") else block.out2
    return {*torch.nonzero(out.any(dim=1)).flatten().tolist()}


def reads(net, node, role):
    if node["id"] == "output":
        return {*torch.nonzero(net.unembedding.any(dim=0)).flatten().tolist()}
    block = block_of(net, node)
    if node["head"] is not None:
        return {*torch.nonzero(getattr(block, role)[node["head"]].any(dim=0)).flatten().tolist()}
    into = block.in1 if node["id"].endswith("half1") else block.in2
    return {*torch.nonzero(into.any(dim=0)).flatten().tolist()}


def test_edges_are_complete():
    """Whatever a node writes and a later one reads is an edge: nothing is left out."""
    net = kl.compile(kl.library.parity_relative)
    found = kl.export(net, "circuit", layers=2)["unrolled"]
    edges = {(edge["from"], edge["to"], edge["as"]) for edge in found["edges"]}
    assert ("layer1.head.parity_left", "layer1.half2", "input") in edges
    assert ("layer1.half2", "layer2.head.parity_left", "value") in edges
    assert ("layer1.half2", "output", "input") in edges and ("tokens", "output", "input") in edges
    assert not any(a.startswith("layer2") and b.startswith("layer1") for a, b, _ in edges)
    assert (
        "layer1.head.parity_left",
        "layer2.half2",
        "input",
    ) not in edges  # a head's output does not outlive its layer


def test_without_layers_it_is_as_before():
    assert "unrolled" not in kl.export(kl.compile(kl.library.parity_relative), "circuit")
    with pytest.raises(kl.InputError, match="layers=0"):
        kl.export(kl.compile(kl.library.parity_relative), "circuit", layers=0)
