"""Circuits in the forms of MIB and InterpBench: every node and edge by name, those of the program inside."""

from __future__ import annotations

import json

from kleene.truth.circuit_lists import interpbench_lists, mib_graph
from kleene.truth.factory import Order, build

HEADS = {
    "h0": {"query": "v0", "key": "v1", "value": "v1"},
    "h1": {"query": None, "key": None, "value": "v0"},
}
TRUTH = {
    "states": 2,
    "program": {"spec": {"heads": HEADS}},
    "nodes": [
        {"name": "h0@1", "effect": 0.5, "in": True},
        {"name": "h1@1", "effect": 0.0, "in": False},
        {"name": "v0@1", "effect": 0.25, "in": True},
        {"name": "v1@1", "effect": 0.5, "in": True},
    ],
    "edges": [
        {"from": "input", "to": "h0@1", "effect": 0.5},
        {"from": "h0@1", "to": "v1@1", "effect": 0.5},
        {"from": "v1@1", "to": "h0@2", "effect": 0.125},
        {"from": "v0@1", "to": "h1@2", "effect": 0.25},
        {"from": "v0@2", "to": "output", "effect": 0.75},
    ],
}


def test_a_circuit_by_hand():
    graph = mib_graph(TRUTH)
    assert list(graph["nodes"]) == ["input", "a0.h0", "a0.h1", "m0", "a1.h0", "a1.h1", "m1", "logits"]
    assert graph["nodes"]["m0"] == {"in_graph": True, "score": 0.5} and not graph["nodes"]["a0.h1"]["in_graph"]
    inside = {name: entry["score"] for name, entry in graph["edges"].items() if entry["in_graph"]}
    assert inside == {
        "input->a0.h0<q>": 0.5,
        "input->a0.h0<k>": 0.5,
        "input->a0.h0<v>": 0.5,
        "a0.h0->m0": 0.5,
        "m0->a1.h0<k>": 0.125,
        "m0->a1.h0<v>": 0.125,
        "m0->a1.h1<v>": 0.25,
        "m1->logits": 0.75,
    }
    # (input, two heads by three ways) + (3 into m0) + (4 sources, 2 heads, 3 ways) + (6 into m1) + (7 into the logits)
    assert len(graph["edges"]) == 6 + 3 + 24 + 6 + 7
    hooks = interpbench_lists(TRUTH)["edges"]
    assert ["blocks.0.hook_mlp_out", "blocks.1.hook_v_input[:, :, 1]"] in hooks and len(hooks) == len(inside)
    assert ["blocks.0.attn.hook_result[:, :, 0]", "blocks.0.hook_mlp_in"] in hooks


def test_the_factory_writes_them(tmp_path):
    build(Order(1, kind="program", depth=1, length=(3, 3)), tmp_path / "models")
    truth, graph = (json.loads((tmp_path / "models/00000" / n).read_text()) for n in ("truth.json", "mib.json"))
    assert graph == mib_graph(truth) and graph["nodes"]["m0"]["in_graph"]
