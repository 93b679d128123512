"""A circuit unrolled over layers, as tools that find circuits write theirs: nodes by hook name, layer and head.

Hooks are those of the TransformerLens export, so that a found circuit and this one can be compared node by node and
edge by edge. A layer is one block there, or two where the MLP block has two halves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kleene.networks.transformer.model import Transformer

HEADS, FIRST, SECOND = 0, 1, 2
INPUTS = {"query": "hook_q_input", "key": "hook_k_input", "value": "hook_v_input", "input": "hook_mlp_in"}


def unrolled(net: Transformer, nodes: list[dict[str, Any]], lasting: set[int], layers: int) -> dict[str, Any]:
    """The nodes and edges of this many layers.

    nodes: the nodes of the looped circuit.
    lasting: the dimensions that outlive a layer.
    """
    steps = 2 if any(shape.hidden[0] for shape in net.config.cycle) else 1
    placed = list(_nodes(net, nodes, layers, steps))
    made = [{key: node[key] for key in ("id", "hook", "layer", "block", "head", "implements")} for node in placed]
    return {"layers": layers, "blocks": layers * steps, "nodes": made, "edges": list(_edges(placed, lasting))}


def _nodes(net: Transformer, nodes: list[dict[str, Any]], layers: int, steps: int) -> Iterator[dict[str, Any]]:
    """Embeddings; then for each layer its heads and its halves of units; then the output: in order of computation."""
    plain: dict[str, Any] = {"layer": None, "block": None, "head": None, "implements": [], "time": -1}
    names = {"tokens": "hook_embed", "positions": "hook_pos_embed"}
    for node in nodes:
        if node["kind"] == "embedding":
            yield {**plain, "id": node["id"], "hook": names[node["id"]], "reads": {}, "writes": set(node["writes"])}
    for layer in range(layers):
        yield from _layer(net, nodes, layer, steps)
    last = {"hook": f"blocks.{layers * steps - 1}.hook_resid_post", "time": 3 * layers}
    reads = next(node["reads"] for node in nodes if node["id"] == "output")
    yield {**plain, "id": "output", "reads": reads, "writes": set(), **last}


def _layer(net: Transformer, nodes: list[dict[str, Any]], layer: int, steps: int) -> Iterator[dict[str, Any]]:
    """The heads of a layer, then its halves of units."""
    mine = [node for node in nodes if node.get("block") == layer % len(net.blocks)]
    first = layer * steps
    for node in (node for node in mine if node["kind"] == "head"):
        yield {
            **{"layer": layer + 1, "block": first, "head": node["index"], "implements": node["implements"]},
            **{"id": f"layer{layer + 1}.{node['id'].split('.', 1)[1]}", "hook": f"blocks.{first}.attn.hook_result"},
            **{"reads": node["reads"], "writes": set(node["writes"]), "time": 3 * layer + HEADS},
        }
    for half in (FIRST, SECOND):
        groups = [node for node in mine if node["kind"] == "units" and node["order"] == half]
        if groups:
            block = first + (half - 1 if steps == 2 else 0)
            reads = sorted({dim for node in groups for dim in node["reads"]["input"]})
            yield {
                **{"layer": layer + 1, "block": block, "head": None, "time": 3 * layer + half},
                **{"id": f"layer{layer + 1}.half{half}", "hook": f"blocks.{block}.hook_mlp_out"},
                **{"implements": sorted({node["writes_to"] for node in groups}), "reads": {"input": reads}},
                **{"writes": {dim for node in groups for dim in node["writes"]}},
            }


def _edges(placed: list[dict[str, Any]], lasting: set[int]) -> Iterator[dict[str, Any]]:
    """An edge from each node to each later one that reads what it wrote. Only variables outlive a layer."""
    for source in placed:
        for target in placed:
            same = source["layer"] is not None and source["layer"] == target["layer"]
            if target["time"] <= source["time"]:
                continue
            through = source["writes"] if same else source["writes"] & lasting
            for role, dims in target["reads"].items():
                shared = sorted(through.intersection(dims))
                if shared:
                    into = target["hook"] if target["id"] == "output" else f"blocks.{target['block']}.{INPUTS[role]}"
                    said = {"from": source["id"], "to": target["id"], "as": role, "into": into}
                    yield {**said, "head": target["head"], "dims": shared}
