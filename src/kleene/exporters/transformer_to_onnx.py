"""Transformers to ONNX, node by node.

Looped (by default): one Loop whose body is the blocks in order; each sequence stops when it halts, or after
`max_layers`. Unrolled (`layers=`): a fixed number of layers without a Loop.

Inputs: `tokens` (batch, position), and `mask` (batch, position), true for real tokens. Outputs: `outputs` (batch,
position) as from `net.run`, `logits`, and `layers` and `halted` for each sequence.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kleene.exporters.export_sizes import number_of_layers, stored_positions
from kleene.exporters.onnx_graph import Kind, OnnxGraph, onnx_model
from kleene.networks.transformer.model import Block, Transformer

MAX_LAYERS = 10_000
FORMAT, VERSION = "kleene onnx", 1


def export_onnx(
    net: Transformer, path: str | Path | None = None, *, layers: int | None = None, max_layers: int = MAX_LAYERS
) -> Any:
    """Return the ONNX model.

    path: also write the model there.
    layers: unroll this many layers; by default the model is a Loop.
    max_layers: where the Loop stops a sequence that has not halted.
    """
    layers = None if layers is None else number_of_layers(net, layers)
    # onnxruntime does not compute bfloat16 on a CPU; float32 contains bfloat16
    graph = OnnxGraph(np.float64 if net.dtype == torch.float64 else np.float32)
    net = stored_positions(net)
    x = _embed(graph, net)
    offsets = _offsets(graph)
    if layers is None:
        x, counted, halted = _looped(graph, net, x, offsets, max_layers)
    else:
        for layer in range(layers):
            x = _block(graph, net.block(layer), f"block {layer % len(net.blocks)}", x, offsets)
        counted, halted = _each(graph, graph.integer(layers)), _each(graph, graph.constant("no", np.array(False)))
    _outputs(graph, net, x, counted, halted)
    shape = ["batch", "position"]
    return onnx_model(
        graph,
        net.config.name,
        inputs={"tokens": (np.int64, shape), "mask": (np.bool_, shape)},
        outputs={
            "outputs": (np.int64, shape),
            "logits": (graph.dtype, [*shape, net.config.classes]),
            "layers": (np.int64, ["batch"]),
            "halted": (np.bool_, ["batch"]),
        },
        names=_names(net, layers),
        doc=_runs(net, layers),
        path=path,
    )


def _each(g: OnnxGraph, value: str) -> str:
    """Repeat a value for each sequence."""
    return g.add("Expand", value, g.add("Shape", "tokens", start=0, end=1))


def _runs(net: Transformer, layers: int | None) -> str:
    if layers is not None:
        return f"unrolled, {layers} layers"
    return "looped, halts by itself" if net.config.halts else f"looped, {net.config.layers} layers"


def _names(net: Transformer, layers: int | None) -> dict[str, str]:
    """The metadata of the model: the names of dimensions, heads and units."""
    return {
        "format": FORMAT,
        "version": str(VERSION),
        "program": net.config.name,
        "layers": "looped" if layers is None else str(layers),
        "residual": json.dumps(net.layout.names),
        "blocks": json.dumps(
            [{"heads": list(net.block(k).heads), "units": net.described(k)["units"]} for k in range(len(net.blocks))]
        ),
    }


def _embed(g: OnnxGraph, net: Transformer) -> str:
    x = g.add("Gather", g.weight("token_embedding", net.token_embedding), "tokens")
    if net.config.positions is None:
        return x
    length = g.add("Shape", "tokens", start=1, end=2)
    rows = g.add("Slice", g.weight("position_embedding", net.position_embedding), g.integers(0), length, g.integers(0))
    return g.add("Add", x, rows)


def _offsets(g: OnnxGraph) -> str:
    """The offset of each key from each query: (query, key)."""
    length = g.add("Squeeze", g.add("Shape", "tokens", start=1, end=2), g.integers(0))
    here = g.add("Range", g.integer(0), length, g.integer(1))
    return g.add("Sub", g.add("Unsqueeze", here, g.integers(0)), g.add("Unsqueeze", here, g.integers(1)))


def _block(g: OnnxGraph, block: Block, name: str, x: str, offsets: str) -> str:
    """Attention, then the two halves of the MLP block; one node for each product in `Block`."""
    if block.heads:
        x = g.add("Add", x, _attention(g, block, name, x, offsets))
    for half, (into, bias, out) in enumerate(
        ((block.in1, block.bias1, block.out1), (block.in2, block.bias2, block.out2)), start=1
    ):
        if len(bias):
            part = f"{name} half {half}"
            pre = g.add("Add", g.add("MatMul", x, g.weight(f"{part} in", into.T)), g.weight(f"{part} bias", bias))
            on = g.add("Clip", pre, g.number(0), g.number(1))
            x = g.add("Add", x, g.add("MatMul", on, g.weight(f"{part} out", out.T)))
    return x


def _attention(g: OnnxGraph, block: Block, name: str, x: str, offsets: str) -> str:
    def side(part: str, weight: torch.Tensor, bias: torch.Tensor | None) -> str:
        made = g.add("MatMul", each, g.weight(f"{name} {part}", weight.transpose(1, 2)))  # (batch, head, n, size)
        return made if bias is None else g.add("Add", made, g.weight(f"{name} {part} bias", bias[:, None]))

    each = g.add("Unsqueeze", x, g.integers(1))
    reach = block.window + 1
    place = g.add("Add", g.add("Clip", offsets, g.integer(-reach), g.integer(reach)), g.integer(reach))
    scores = g.add("Gather", g.weight(f"{name} relative", block.relative), place, axis=1)  # (head, query, key)
    if block.query.shape[1]:
        keys = g.add("Transpose", side("key", block.key, block.key_bias), perm=[0, 1, 3, 2])
        scores = g.add("Add", g.add("MatMul", side("query", block.query, block.query_bias), keys), scores)
    allowed = g.add("Unsqueeze", "mask", g.integers(1, 2))
    if block.causal:
        allowed = g.add("And", allowed, g.add("LessOrEqual", offsets, g.integer(0)))
    scores = g.add("Where", allowed, scores, g.number(-np.inf))  # (batch, head, query, key)
    null = g.weight(f"{name} null score", block.null_score[:, None, None])
    best = g.add("Max", g.add("ReduceMax", scores, g.integers(-1)), null)
    weights, nulls = g.add("Exp", g.add("Sub", scores, best)), g.add("Exp", g.add("Sub", null, best))
    values = g.add("MatMul", weights, side("value", block.value, None))
    mixed = g.add("Add", values, g.add("Mul", nulls, g.weight(f"{name} null value", block.null_value[:, None])))
    total = g.add("Add", g.add("ReduceSum", weights, g.integers(-1)), nulls)
    out = g.add("MatMul", g.add("Div", mixed, total), g.weight(f"{name} out", block.out.transpose(1, 2)))
    return g.add("ReduceSum", out, g.integers(1), keepdims=0)


def _looped(g: OnnxGraph, net: Transformer, x: str, offsets: str, max_layers: int) -> tuple[str, str, str]:
    """A Loop over the cycle of blocks; it carries (residual stream, layers, halted) for each sequence."""
    most = max_layers if net.config.halts or net.config.layers is None else net.config.layers
    g.constant("max_layers", np.array(most, dtype=np.int64))
    first = [x, _each(g, g.integer(0)), _each(g, g.constant("no", np.array(False)))]
    body = g.inside()
    state: dict[str, Kind] = {
        "x": (g.dtype, ["batch", "position", net.config.dim]),
        "count": (np.int64, ["batch"]),
        "stopped": (np.bool_, ["batch"]),
    }
    after = ("x", "count", "stopped")
    for number in range(len(net.blocks)):
        after = _halting_layer(body, net, number, after, offsets)
    going = body.add("And", body.add("Not", after[2]), body.add("Less", after[1], "max_layers"))
    again = body.cast(body.add("ReduceMax", body.cast(going, np.int32), keepdims=0), np.bool_)
    x, counted, halted = g.loop(body, state, first, after, again)
    return x, counted, halted


def _halting_layer(
    g: OnnxGraph, net: Transformer, number: int, state: tuple[str, str, str], offsets: str
) -> tuple[str, str, str]:
    """One layer for the sequences that are still running; the others stay unchanged."""
    x, counts, halted = state
    active = g.add("And", g.add("Not", halted), g.add("Less", counts, "max_layers"))
    after = _block(g, net.block(number), f"block {number}", x, offsets)
    x = g.add("Where", g.add("Unsqueeze", active, g.integers(1, 2)), after, x)
    counts = g.add("Add", counts, g.cast(active, np.int64))
    if net.config.halts:
        score = g.add("MatMul", x, g.weight("halt weight", net.halt_weight[:, None]))
        on = g.add("Greater", g.add("Add", score, g.weight("halt bias", net.halt_bias)), g.number(0))
        on = g.add("Or", g.add("Squeeze", on, g.integers(2)), g.add("Not", "mask"))
        every = g.add("ReduceMin", g.cast(on, np.int32), g.integers(1), keepdims=0)
        halted = g.add("Or", halted, g.add("And", active, g.cast(every, np.bool_)))
    else:
        halted = g.add("Identity", halted)
    return x, counts, halted


def _outputs(g: OnnxGraph, net: Transformer, x: str, counts: str, halted: str) -> None:
    logits = g.add("MatMul", x, g.weight("unembedding", net.unembedding.T), name="logits")
    if net.config.output_coding == "bits":
        bits = g.cast(g.add("Greater", logits, g.number(0.5)), np.int64)
        powers = g.constant("powers", 2 ** np.arange(net.config.classes, dtype=np.int64))
        g.add("ReduceSum", g.add("Mul", bits, powers), g.integers(-1), keepdims=0, name="outputs")
    else:
        g.add("ArgMax", logits, axis=-1, keepdims=0, name="outputs")
    g.add("Identity", counts, name="layers")
    g.add("Identity", halted, name="halted")
