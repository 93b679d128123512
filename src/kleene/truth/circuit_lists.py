"""The circuit of a program's network as other benchmarks list circuits.

MIB names nodes `input`, `a0.h1` (layer 0, head 1), `m0` (the units of layer 0) and `logits`, and edges
`input->a0.h1<q>`: into a head by its query, key or value. InterpBench names the hooks of TransformerLens. Both know the
units of a layer as one node, so the variables that a layer writes become one: it is in the circuit where one of them
is, and its score is the largest of their effects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SIDES = {"q": "query", "k": "key", "v": "value"}


def _place(truth: Mapping[str, Any], name: str) -> str:
    """A node of the truth by MIB's name."""
    if name in ("input", "output"):
        return {"input": "input", "output": "logits"}[name]
    of, _, layer = name.rpartition("@")
    heads = list(truth["program"]["spec"]["heads"])
    return f"a{int(layer) - 1}.h{heads.index(of)}" if of in heads else f"m{int(layer) - 1}"


def _sides(truth: Mapping[str, Any], source: str, target: str) -> list[str]:
    """The ways by which a head reads a source; nothing for other targets."""
    heads = truth["program"]["spec"]["heads"]
    of = target.rpartition("@")[0]
    if of not in heads:
        return [""]
    variable = source.rpartition("@")[0]
    used = {side: heads[of][name] for side, name in SIDES.items()}
    return [f"<{side}>" for side, name in used.items() if name is not None and variable in ("", name)]


def _every_edge(layers: int, heads: int) -> list[str]:
    """Every edge of a transformer, by MIB's name."""
    before, found = ["input"], []
    for layer in range(layers):
        mine = [f"a{layer}.h{head}" for head in range(heads)]
        found += [f"{source}->{head}<{side}>" for head in mine for side in SIDES for source in before]
        found += [f"{source}->m{layer}" for source in (*before, *mine)]
        before += [*mine, f"m{layer}"]
    return found + [f"{source}->logits" for source in before]


def mib_graph(truth: Mapping[str, Any]) -> dict[str, Any]:
    """The circuit in the form of MIB's graph files: every node and edge, with its score and whether it is in.

    - `truth`: the content of a program's truth.json.
    """
    spec = truth["program"]["spec"]
    layers, heads = int(truth["states"]), len(spec["heads"])
    names = ["input", *(n for k in range(layers) for n in (*(f"a{k}.h{h}" for h in range(heads)), f"m{k}")), "logits"]
    nodes = {name: {"in_graph": name in ("input", "logits"), "score": 0.0} for name in names}
    for node in truth["nodes"]:
        entry = nodes[_place(truth, node["name"])]
        entry["in_graph"] = entry["in_graph"] or node["in"]
        entry["score"] = max(entry["score"], node["effect"])
    edges = {name: {"score": 0.0, "in_graph": False} for name in _every_edge(layers, heads)}
    for edge in truth["edges"]:
        for side in _sides(truth, edge["from"], edge["to"]):
            entry = edges[f"{_place(truth, edge['from'])}->{_place(truth, edge['to'])}{side}"]
            entry["in_graph"] = True
            entry["score"] = max(entry["score"], edge["effect"])
    cfg = {"n_layers": layers, "n_heads": heads, "parallel_attn_mlp": False, "d_model": truth.get("residual")}
    return {"cfg": cfg, "nodes": nodes, "edges": edges}


def _hook(name: str, reads: bool) -> str:
    """A node, or an end `a0.h1<q>` of an edge, as TransformerLens names the hook that it writes or reads."""
    if name in ("input", "logits"):
        return "hook_embed" if name == "input" else "hook_resid_post"
    if name.startswith("m"):
        return f"blocks.{name[1:]}.hook_mlp_{'in' if reads else 'out'}"
    layer, _, head = name[1:].partition(".h")
    number, _, side = head.rstrip(">").partition("<")
    return (
        f"blocks.{layer}.hook_{side}_input[:, :, {number}]"
        if reads
        else f"blocks.{layer}.attn.hook_result[:, :, {number}]"
    )


def interpbench_lists(truth: Mapping[str, Any]) -> dict[str, Any]:
    """The nodes and edges of the circuit by the names of hooks, as InterpBench and ACDC list them.

    - `truth`: the content of a program's truth.json.
    """
    graph = mib_graph(truth)
    nodes = [_hook(name, False) for name, entry in graph["nodes"].items() if entry["in_graph"]]
    ends = [name.split("->") for name, entry in graph["edges"].items() if entry["in_graph"]]
    return {"nodes": nodes, "edges": [[_hook(source, False), _hook(target, True)] for source, target in ends]}
