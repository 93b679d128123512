"""The ground-truth circuit of a stock model, as JSON: what each dimension, head and neuron of the class is for.

The tensors give the dimensions that parts read and write; the proved claim gives the names.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from kleene.common.residual import Layout
from kleene.files import write_json
from kleene.networks.stock.model import CLASSES, StockModel

FORMAT, VERSION = "kleene stock circuit", 1
Array = np.ndarray[Any, Any]


def export_stock_circuit(net: StockModel, path: str | Path | None = None) -> dict[str, Any]:
    """Return the circuit as plain data; also write it to `path` if given."""
    made = stock_circuit(net)
    if path is not None:
        write_json(path, made)
    return made


def stock_circuit(net: StockModel) -> dict[str, Any]:
    names = residual_names(net)
    return {
        "format": FORMAT,
        "version": VERSION,
        "program": net.name,
        "class": CLASSES[net.family],
        "residual": [{"dim": dim, "name": name} for dim, name in enumerate(names)],
        "layers": [_layer(net, number) for number in range(net.sizes.layers)],
    }


def residual_names(net: StockModel) -> list[str]:
    """A name for every dimension of the residual stream."""
    claim, width = net.claim, net.sizes.residual
    labels = Layout.from_json(net.description["layout"]).names
    held: dict[int, list[str]] = {}
    for label, dim in zip(labels, claim["place"]):
        held.setdefault(dim, []).append(label)  # heads of different layers share
    names = [" or ".join(held.get(dim, ["constant or position"])) for dim in range(width)]
    names[claim["sink"]] = "first token"
    for dim, mirror in enumerate(claim["mirror"] or []):
        if mirror >= 0:
            names[mirror] = f"−{names[dim]}"
    return names


def _layer(net: StockModel, number: int) -> dict[str, Any]:
    claim, size = net.claim, net.sizes.head_size
    program_layer, half = claim["layers"][number] or (None, None)  # a layer that only pads holds none of the program
    q, k, v, o, gate, down = _parts(net, number)
    heads = [
        {
            "index": index,
            "name": ", ".join(named),
            "reads": {
                role: _used(part[index * size : (index + 1) * size])
                for role, part in (("query", q), ("key", k), ("value", v))
            },
            "writes": _used(o[:, index * size : (index + 1) * size].T),
        }
        for index, named in enumerate(claim["heads"][number])
    ]
    neurons = [
        {"index": index, "for": why, "reads": _used(gate[[index]]), "writes": _used(down[:, [index]].T)}
        for index, why in enumerate(claim["neurons"][number])
    ]
    return {"layer": number, "program_layer": program_layer, "half": half, "heads": heads, "neurons": neurons}


def _used(rows: Array) -> list[int]:
    """The columns that are not all zero."""
    return [int(dim) for dim in np.nonzero(rows.any(axis=0))[0]]


def _parts(net: StockModel, number: int) -> list[Array]:
    """Queries, keys, values, outputs, gates and what neurons add, whatever the class calls them."""

    def take(name: str) -> Array:
        return net.tensors[name].double().numpy()

    if net.family == "gpt2":
        at = f"transformer.h.{number}."
        joined = np.split(take(f"{at}attn.c_attn.weight").T, 3)
        rest = [f"{at}attn.c_proj.weight", f"{at}mlp.c_fc.weight", f"{at}mlp.c_proj.weight"]
        return [*joined, *(take(name).T for name in rest)]
    at = f"model.layers.{number}."
    outs = [take(f"{at}self_attn.o_proj.weight")]
    down = take(f"{at}mlp.down_proj.weight")
    if net.family == "phi3":
        gate = np.split(take(f"{at}mlp.gate_up_proj.weight"), 2)[0]
        return [*np.split(take(f"{at}self_attn.qkv_proj.weight"), 3), *outs, gate, down]
    every = [take(f"{at}self_attn.{part}_proj.weight") for part in "qkv"]
    return [*every, *outs, take(f"{at}mlp.gate_proj.weight"), down]
