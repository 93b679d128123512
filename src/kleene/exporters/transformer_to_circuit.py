"""The ground-truth circuit of a transformer, as JSON: the heads and units that implement each variable, the
dimensions that each reads and writes, and the edges between them.

Nodes are heads, groups of units (those of one half of a block that write one segment), and the ends: embeddings,
output, halting. docs/exports.md describes the schema. Everything except the names is read from the weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

from kleene.common.output import check_layers
from kleene.common.residual import Layout, Segment
from kleene.exporters.export_sizes import stored_positions
from kleene.exporters.unrolled_circuit import unrolled
from kleene.files import write_json
from kleene.lowering.updates import Updates
from kleene.machines.spec import Spec
from kleene.networks.transformer.by_name import VariableWeights, every_head
from kleene.networks.transformer.model import Transformer

FORMAT, VERSION = "kleene circuit", 1
HEADS, FIRST, SECOND = 0, 1, 2  # the order in a layer


def export_circuit(net: Transformer, path: str | Path | None = None, *, layers: int | None = None) -> dict[str, Any]:
    """Return the circuit as plain data; also write it to `path` if given.

    layers: also unroll this many layers, with a node for each head and each half of units by its hook name.
    """
    net = stored_positions(net)
    made = circuit(net)
    if layers is not None:
        check_layers(net.config.name, layers, 1)
        made["unrolled"] = unrolled(net, made["nodes"], _lasting(net), layers)
    if path is not None:
        write_json(path, made)
    return made


def circuit(net: Transformer) -> dict[str, Any]:
    """The content of circuit.json."""
    nodes = [*_ends(net), *_heads(net), *_unit_groups(net)]
    config = net.config
    return {
        "format": FORMAT,
        "version": VERSION,
        "program": config.name,
        "shape": config.shape,
        "blocks": len(net.blocks),
        "halts": config.halts,
        "layers": config.layers,
        "residual": [
            {"dim": segment.start + i, "name": label, "of": segment.name, "kind": kind_of(net, segment)}
            for segment in net.layout
            for i, label in enumerate(segment.labels)
        ],
        "nodes": nodes,
        "edges": list(edges(net, nodes)),
        "variables": {name: _variable(net.layout, variable, nodes) for name, variable in net.variables.items()},
        "heads": {name: [n["id"] for n in nodes if name in n.get("implements", [])] for name in _program_heads(net)},
        "algorithm": _algorithm(net),
    }


def kind_of(net: Transformer, segment: Segment) -> str:
    """ "variable", "head" or "scratch"; also for files that do not say it."""
    if segment.coding == "scratch":
        return "scratch"
    return "variable" if segment.name in net.description["program"]["variables"] else "head"


def _program_heads(net: Transformer) -> list[str]:
    program = net.description["program"]
    return [*program["heads"], *program.get("moves", {})]


# --- nodes --------------------------------------------------------------------------------------------------------


def _dims(weights: torch.Tensor) -> list[int]:
    """The columns that are not all zero."""
    return torch.nonzero(weights.reshape(-1, weights.shape[-1]).any(dim=0)).flatten().tolist()


def _ends(net: Transformer) -> Iterator[dict[str, Any]]:
    yield {"id": "tokens", "kind": "embedding", "reads": {}, "writes": _dims(net.token_embedding)}
    if net.config.positions is not None:
        yield {"id": "positions", "kind": "embedding", "reads": {}, "writes": _dims(net.position_embedding)}
    yield {"id": "output", "kind": "output", "reads": {"input": _dims(net.unembedding)}, "writes": []}
    if net.config.halts:
        yield {"id": "halt", "kind": "halt", "reads": {"input": _dims(net.halt_weight)}, "writes": []}


def _heads(net: Transformer) -> Iterator[dict[str, Any]]:
    for head in every_head(net):
        reads = {"query": _dims(head.query), "key": _dims(head.key), "value": _dims(head.value)}
        yield {
            "id": f"block{head.block}.head.{head.name}",
            "kind": "head",
            "block": head.block,
            "order": HEADS,
            "index": head.index,
            "implements": list(head.names),
            "relative": bool(head.relative.any()),
            "reads": {role: dims for role, dims in reads.items() if dims},
            "writes": _dims(head.out.T),
        }


def _unit_groups(net: Transformer) -> Iterator[dict[str, Any]]:
    """Group the units of a half by the segment that they write."""
    for number in range(len(net.blocks)):
        block, said = net.block(number), net.described(number)["units"]
        halves = ((FIRST, block.in1, block.out1), (SECOND, block.in2, block.out2))
        for half, into, out in halves:
            for segment in net.layout:
                units = torch.nonzero(out[segment.slice].any(dim=0)).flatten().tolist()
                if units:
                    yield {
                        "id": f"block{number}.half{half}.{segment.name}",
                        "kind": "units",
                        "block": number,
                        "order": half,
                        "units": units,
                        "writes_to": segment.name,
                        "why": [said[half - 1][u][1] for u in units],
                        "reads": {"input": _dims(into[units])},
                        "writes": _dims(out[:, units].T),
                    }


# --- edges --------------------------------------------------------------------------------------------------------


def edges(net: Transformer, nodes: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield an edge from each node that writes a dimension to each node that can read it.

    Only variables outlive a layer: it clears head outputs and scratch values at its end."""
    lasting = _lasting(net)
    for source in nodes:
        for target in nodes:
            for when, through in _meetings(source, target, lasting):
                roles = [role for role, dims in target["reads"].items() if not through.isdisjoint(dims)]
                if roles:
                    shared = sorted(through & {dim for dims in target["reads"].values() for dim in dims})
                    yield {"from": source["id"], "to": target["id"], "when": when, "as": roles, "dims": shared}


def _lasting(net: Transformer) -> set[int]:
    """The dimensions of variables."""
    return {dim for s in net.layout if kind_of(net, s) == "variable" for dim in range(s.start, s.stop)}


def _meetings(source: dict[str, Any], target: dict[str, Any], lasting: set[int]) -> Iterator[tuple[str, set[int]]]:
    """When a target can see what a source wrote, and which dimensions."""
    written = set(source["writes"])
    if source["kind"] == "embedding":
        if target["kind"] != "embedding":
            yield "start", written
        return
    if "block" not in source:
        return
    if target["kind"] in ("output", "halt"):
        yield "end", written & lasting
    elif "block" in target:
        if source["block"] == target["block"] and source["order"] < target["order"]:
            yield "same layer", written
        yield "later layer", written & lasting


# --- variables ----------------------------------------------------------------------------------------------------


def _variable(layout: Layout, variable: VariableWeights, nodes: list[dict[str, Any]]) -> dict[str, Any]:
    dims = set(range(variable.slice.start, variable.slice.stop))
    parts = [node for node in nodes if "block" in node]
    writers = [node for node in parts if not dims.isdisjoint(node["writes"])]
    readers = [node for node in parts if any(not dims.isdisjoint(read) for read in node["reads"].values())]
    return {
        "dims": sorted(dims),
        "coding": variable.segment.coding,
        "values": list(variable.segment.labels),
        "starts": variable.starts,
        "output": variable.is_output,
        "halts_at": variable.halts_at,
        "written_by": [node["id"] for node in writers],
        "read_by": [node["id"] for node in readers],
        "depends_on": _depends_on(layout, writers, parts),
    }


def _depends_on(layout: Layout, writers: list[dict[str, Any]], parts: list[dict[str, Any]]) -> list[str]:
    """The variables and heads that the next value depends on, also through scratch values."""
    found: dict[str, None] = {}
    todo, seen = list(writers), set()
    while todo:
        node = todo.pop()
        seen.add(node["id"])
        for segment in _segments(layout, [dim for dims in node["reads"].values() for dim in dims]):
            if segment.coding != "scratch":
                found[segment.name] = None
                continue
            dims = set(range(segment.start, segment.stop))
            todo += [
                part
                for part in parts
                if part["block"] == node["block"]
                and part["order"] == FIRST
                and part["id"] not in seen
                and not dims.isdisjoint(part["writes"])
            ]
    return [segment.name for segment in layout if segment.name in found]


def _segments(layout: Layout, dims: Iterable[int]) -> list[Segment]:
    wanted = set(dims)
    return [s for s in layout if not wanted.isdisjoint(range(s.start, s.stop))]


def _algorithm(net: Transformer) -> list[list[str]]:
    """The guarded updates of each block, in words."""
    spec = Spec.from_json(net.description["program"])
    saved = [net.described(layer)["updates"] for layer in range(len(spec.by_layer))]
    return [
        [line.strip() for line in str(Updates.from_json(part, content)).splitlines()[1:]]
        for part, content in zip(spec.by_layer, saved)
    ]
