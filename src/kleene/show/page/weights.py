"""The weights of a network for the page: the non-zero entries of each matrix, with named rows and columns."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kleene.networks.transformer.model import Block, Transformer
from kleene.show.page import Numbered

MAX_NONZERO = 400_000


def weights_data(net: Transformer) -> dict[str, Any]:
    """The weights as data. A matrix has the numbers of two lists of names and its entries (row, column, weight)."""
    made = _Matrices()
    dims = net.layout.names
    tokens = [f"token {n}" for n in range(net.config.tokens)]
    made.add("embedding", "token embedding", tokens, dims, net.token_embedding, ["token"])
    if net.config.positions is not None:
        places = [f"position {n}" for n in range(net.config.positions)]
        made.add("embedding", "position embedding", places, dims, net.position_embedding, ["position"])
    for number, block in enumerate(net.blocks):
        assert isinstance(block, Block)
        made.block(net, number, block)
    bits = net.config.output_coding == "bits"
    classes = [f"output {'bit ' if bits else ''}{n}" for n in range(net.config.classes)]
    made.add("output", "unembedding", classes, dims, net.unembedding, ["unembedding"])
    if net.config.halts:
        halt = _with_bias(net.halt_weight[None], net.halt_bias)
        made.add("output", "halt", ["done"], ["1", *dims], halt, ["halt"])
    sizes = net.sizes
    return {
        "sizes": vars(sizes),
        "dtype": str(net.dtype).removeprefix("torch."),
        "lowering": net.description["lowering"],
        "segments": [[s.name, s.coding, list(s.labels)] for s in net.layout],
        "net": _shape(net),
        "lists": made.lists.items,
        "matrices": made.found,
        "cut": made.cut,
    }


def _shape(net: Transformer) -> dict[str, Any]:
    """Return what the evaluator of the page needs beside the matrices."""
    c = net.config
    return {
        "dim": c.dim,
        "tokens": c.tokens,
        "positions": c.positions,
        "counted": c.counted,
        "longest": net.longest,
        "halts": c.halts,
        "layers": c.layers,
        "causal": c.causal,
        "classes": c.classes,
        "bits": c.output_coding == "bits",
        "stop": c.stop,
        "segments": {s.name: [s.start, s.size, s.coding, s.scale] for s in net.layout},
        "blocks": [_block_shape(net, number) for number in range(len(net.blocks))],
    }


def _block_shape(net: Transformer, number: int) -> dict[str, Any]:
    block, said = net.block(number), net.described(number)
    return {
        "heads": list(block.heads),
        "keys": block.key.shape[1],
        "values": block.value.shape[1],
        "window": block.window,
        "hidden": [len(block.bias1), len(block.bias2)],
        "moves": [[move["name"], move["head"], move["where"], move["replacing"] is not None] for move in said["moves"]],
        "reads": [[read["head"], read["at_least"], read["at_most"], read["tests"]] for read in said["reads"]],
    }


class _Matrices:
    """Collect matrices until they have too many entries for a page."""

    def __init__(self) -> None:
        self.lists, self.found = Numbered(), list[dict[str, Any]]()
        self.entries, self.cut = 0, list[str]()

    def add(
        self, group: str, name: str, rows: Any, columns: Any, weights: Tensor, at: list[Any], notes: Any = None
    ) -> None:
        """Add a matrix. `at` says where the evaluator of the page finds it."""
        places = torch.nonzero(weights)
        if not len(places):
            return
        self.entries += len(places)
        if self.entries > MAX_NONZERO:
            self.cut.append(f"{group}: {name}")
            return
        values = weights[tuple(places.T)].double().tolist()
        entries = [[r, c, int(v) if v == int(v) else v] for (r, c), v in zip(places.tolist(), values)]
        self.found.append(
            {
                "at": at,
                "group": group,
                "name": name,
                "rows": self.lists(tuple(rows)),
                "columns": self.lists(tuple(columns)),
                "entries": [number for entry in entries for number in entry],
                "notes": notes,
            }
        )

    def block(self, net: Transformer, number: int, block: Block) -> None:
        cycle, dims = net.description["program"]["cycle"], net.layout.names
        names = [name for name, _ in cycle]
        where = f"{names[number % len(names)]} layer, " if names else f"layer {number + 1}, " * (len(net.blocks) > 1)
        for h, name in enumerate(block.heads):
            group, at = f"{where}head {name}", [number, "head", h]
            keys = [f"key {k}" for k in range(block.key.shape[1])]
            self.add(
                group, "query", keys, ["1", *dims], _with_bias(block.query[h], block.query_bias[h]), [*at, "query"]
            )
            self.add(group, "key", keys, ["1", *dims], _with_bias(block.key[h], block.key_bias[h]), [*at, "key"])
            values = [f"value {v}" for v in range(block.value.shape[1])]
            self.add(group, "value", values, dims, block.value[h], [*at, "value"])
            self.add(group, "writes", dims, values, block.out[h], [*at, "writes"])
            offsets = range(-block.window - 1, block.window + 2)
            ends = {offsets[0]: f"offset ≤ {offsets[0]}", offsets[-1]: f"offset ≥ {offsets[-1]}"}
            named = [ends.get(o, f"offset {o}") for o in offsets]
            self.add(group, "relative bias", ["score"], named, block.relative[h][None], [*at, "relative"])
            null = torch.cat([block.null_score[h : h + 1], block.null_value[h]])[None]
            self.add(group, "null key", ["null key"], ["score", *values], null, [*at, "null"])
        told = net.described(number)["units"]
        for half, (into, bias, out) in enumerate(
            [(block.in1, block.bias1, block.out1), (block.in2, block.bias2, block.out2)]
        ):
            group = f"{where}units, {('first', 'second')[half]} half"
            units = [f"unit {half + 1}.{u}" for u in range(len(bias))]
            notes = [f"{purpose}: {why}" for purpose, why in told[half]]
            at = [number, "units", half]
            self.add(group, "reads", units, ["1", *dims], _with_bias(into, bias), [*at, "reads"], notes)
            self.add(group, "writes", units, dims, out.T, [*at, "writes"], notes)


def _with_bias(weights: Tensor, bias: Tensor) -> Tensor:
    """Put the bias into a first column, whose input is 1."""
    return torch.cat([bias.reshape(-1, 1), weights], dim=1)
