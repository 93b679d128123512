"""Transformers to ONNX, node by node.

Looped (by default): one Loop whose body is the blocks in order; each sequence stops when it halts, or after
`max_layers`. Unrolled (`layers=`): exactly so many layers, and no Loop.

Inputs: `tokens` (batch, position) whole numbers, `mask` (batch, position) which of them are real. Outputs:
`outputs` (batch, position) as `net.run` gives them, `logits`, and of each sequence `layers` and `halted`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kleene.errors import NotSupported
from kleene.exporters.choices import number_of_layers, transformer
from kleene.files import written_atomically
from kleene.networks.transformer import Block, Transformer

OPSET = 18
IR_VERSION = 10
MAX_LAYERS = 10_000
FORMAT, VERSION = "kleene onnx", 1


def export_onnx(
    net: Transformer, path: str | Path | None = None, *, layers: int | None = None, max_layers: int = MAX_LAYERS
) -> Any:
    """The ONNX model; with a path it is written there, too. `layers`: unrolled, so many; by default looped, where a
    sequence that has not halted is left after `max_layers`."""
    net = transformer(net, "onnx")
    try:
        import onnx
    except ImportError:
        raise NotSupported("onnx: the package is not here; pip install onnx onnxruntime") from None
    model = _model(net, None if layers is None else number_of_layers(net, layers), max_layers)
    onnx.checker.check_model(model, full_check=True)
    if path is not None:
        with written_atomically(path) as beside:
            beside.write_bytes(model.SerializeToString())
    return model


class _Graph:
    """Collects nodes and constants; `add` gives the name of a node's output."""

    def __init__(self, dtype: type[np.generic]) -> None:
        self.dtype, self.nodes, self.constants = dtype, [], {}  # type: type[np.generic], list[Any], dict[str, Any]
        self.count = 0

    def add(self, operator: str, *inputs: str, name: str | None = None, **attributes: Any) -> str:
        from onnx import helper

        self.count += 1
        output = name or f"{operator}_{self.count}"
        self.nodes.append(helper.make_node(operator, list(inputs), [output], name=f"node {output}", **attributes))
        return output

    def constant(self, name: str, value: Any) -> str:
        from onnx import numpy_helper

        self.constants.setdefault(name, numpy_helper.from_array(np.asarray(value, order="C"), name))
        return name

    def weight(self, name: str, value: torch.Tensor) -> str:
        return self.constant(name, value.detach().cpu().double().numpy().astype(self.dtype))

    def number(self, value: float) -> str:
        return self.constant(f"number {value}", np.array(value, dtype=self.dtype))

    def integers(self, *values: int) -> str:
        return self.constant(f"integers {values}", np.array(values, dtype=np.int64))

    def integer(self, value: int) -> str:
        return self.constant(f"integer {value}", np.array(value, dtype=np.int64))


def _model(net: Transformer, layers: int | None, max_layers: int) -> Any:
    from onnx import TensorProto, helper

    # bfloat16 is not computed by onnxruntime on a CPU: float32 holds the same numbers, and more
    dtype = np.float64 if net.dtype == torch.float64 else np.float32
    kind = TensorProto.DOUBLE if net.dtype == torch.float64 else TensorProto.FLOAT
    graph = _Graph(dtype)
    x = _embed(graph, net)
    offsets = _offsets(graph)
    if layers is None:
        x, counted, halted = _looped(graph, net, x, offsets, kind, max_layers)
    else:
        for layer in range(layers):
            x = _block(graph, net.block(layer), f"block {layer % len(net.blocks)}", x, offsets)
        batch = graph.add("Shape", "tokens", start=0, end=1)
        counted = graph.add("Expand", graph.integer(layers), batch)
        halted = graph.add("Expand", graph.constant("no", np.array(False)), batch)
    _outputs(graph, net, x, counted, halted)
    shape = ["batch", "position"]
    inputs = [
        helper.make_tensor_value_info("tokens", TensorProto.INT64, shape),
        helper.make_tensor_value_info("mask", TensorProto.BOOL, shape),
    ]
    outputs = [
        helper.make_tensor_value_info("outputs", TensorProto.INT64, shape),
        helper.make_tensor_value_info("logits", kind, [*shape, net.config.classes]),
        helper.make_tensor_value_info("layers", TensorProto.INT64, ["batch"]),
        helper.make_tensor_value_info("halted", TensorProto.BOOL, ["batch"]),
    ]
    made = helper.make_graph(graph.nodes, net.config.name, inputs, outputs, list(graph.constants.values()))
    model = helper.make_model(
        made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="kleene",
        doc_string=f"{net.config.name}: {_runs(net, layers)}",
    )  # fmt: skip
    helper.set_model_props(model, _names(net, layers))
    return model


def _runs(net: Transformer, layers: int | None) -> str:
    if layers is not None:
        return f"unrolled, {layers} layers"
    return "looped, halts by itself" if net.config.halts else f"looped, {net.config.layers} layers"


def _names(net: Transformer, layers: int | None) -> dict[str, str]:
    """What is written beside the graph, so that dimensions have names."""
    return {
        "format": FORMAT, "version": str(VERSION), "program": net.config.name,
        "layers": "looped" if layers is None else str(layers), "residual": json.dumps(net.layout.names),
        "blocks": json.dumps([{"heads": list(net.block(k).heads), "units": net.described(k)["units"]}
                              for k in range(len(net.blocks))]),
    }  # fmt: skip


def _embed(g: _Graph, net: Transformer) -> str:
    x = g.add("Gather", g.weight("token_embedding", net.token_embedding), "tokens")
    if net.config.positions is None:
        return x
    length = g.add("Shape", "tokens", start=1, end=2)
    rows = g.add("Slice", g.weight("position_embedding", net.position_embedding), g.integers(0), length, g.integers(0))
    return g.add("Add", x, rows)


def _offsets(g: _Graph) -> str:
    """How far each key is from each query: (query, key)."""
    length = g.add("Squeeze", g.add("Shape", "tokens", start=1, end=2), g.integers(0))
    here = g.add("Range", g.integer(0), length, g.integer(1))
    return g.add("Sub", g.add("Unsqueeze", here, g.integers(0)), g.add("Unsqueeze", here, g.integers(1)))


def _block(g: _Graph, block: Block, name: str, x: str, offsets: str) -> str:
    """Attention, then the two halves of the MLP block; one node for each product in `networks.transformer.Block`."""
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


def _attention(g: _Graph, block: Block, name: str, x: str, offsets: str) -> str:
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


def _looped(
    g: _Graph, net: Transformer, x: str, offsets: str, kind: int, max_layers: int
) -> tuple[str, str, str]:
    """A Loop over the cycle of blocks; what it carries is (residual stream, layers, halted), a row a sequence."""
    from onnx import TensorProto, helper

    most = max_layers if net.config.halts or net.config.layers is None else net.config.layers
    g.constant("max_layers", np.array(most, dtype=np.int64))
    batch = g.add("Shape", "tokens", start=0, end=1)
    counts = g.add("Expand", g.integer(0), batch)
    halted = g.add("Expand", g.constant("no", np.array(False)), batch)
    body = _Graph(g.dtype)
    body.count, body.constants = 1_000_000, g.constants  # names of their own; constants are the outer graph's
    state = ("carried x", "carried layers", "carried halted")
    for number in range(len(net.blocks)):
        state = _halting_layer(body, net, number, state, offsets)
    going = body.add("Not", state[2])
    going = body.add("And", going, body.add("Less", state[1], "max_layers"))
    again = body.add("Cast", body.add("ReduceMax", body.add("Cast", going, to=TensorProto.INT32), keepdims=0), to=9)
    shape = ["batch", "position", net.config.dim]
    types: list[tuple[int, Any]] = [(kind, shape), (TensorProto.INT64, ["batch"]), (TensorProto.BOOL, ["batch"])]
    names = ("carried x", "carried layers", "carried halted")
    inputs = [
        helper.make_tensor_value_info("iteration", TensorProto.INT64, []),
        helper.make_tensor_value_info("going", TensorProto.BOOL, []),
        *(helper.make_tensor_value_info(name, *what) for name, what in zip(names, types)),
    ]
    outputs = [
        helper.make_tensor_value_info(again, TensorProto.BOOL, []),
        *(helper.make_tensor_value_info(name, *what) for name, what in zip(state, types)),
    ]
    made = helper.make_graph(body.nodes, "layers", inputs, outputs)
    first = g.constant("yes", np.array(True))
    ends = ["looped x", "looped layers", "looped halted"]
    g.nodes.append(helper.make_node("Loop", ["", first, x, counts, halted], ends, name="layers", body=made))
    return ends[0], ends[1], ends[2]


def _halting_layer(
    g: _Graph, net: Transformer, number: int, state: tuple[str, str, str], offsets: str
) -> tuple[str, str, str]:
    """One layer for the sequences that have not halted and may run on; the others stay as they are."""
    from onnx import TensorProto

    x, counts, halted = state
    active = g.add("And", g.add("Not", halted), g.add("Less", counts, "max_layers"))
    after = _block(g, net.block(number), f"block {number}", x, offsets)
    x = g.add("Where", g.add("Unsqueeze", active, g.integers(1, 2)), after, x)
    counts = g.add("Add", counts, g.add("Cast", active, to=TensorProto.INT64))
    if net.config.halts:
        score = g.add("MatMul", x, g.weight("halt weight", net.halt_weight[:, None]))
        on = g.add("Greater", g.add("Add", score, g.weight("halt bias", net.halt_bias)), g.number(0))
        on = g.add("Or", g.add("Squeeze", on, g.integers(2)), g.add("Not", "mask"))
        every = g.add("ReduceMin", g.add("Cast", on, to=TensorProto.INT32), g.integers(1), keepdims=0)
        halted = g.add("Or", halted, g.add("And", active, g.add("Cast", every, to=TensorProto.BOOL)))
    else:
        halted = g.add("Identity", halted)
    return x, counts, halted


def _outputs(g: _Graph, net: Transformer, x: str, counts: str, halted: str) -> None:
    from onnx import TensorProto

    logits = g.add("MatMul", x, g.weight("unembedding", net.unembedding.T), name="logits")
    if net.config.output_coding == "bits":
        bits = g.add("Cast", g.add("Greater", logits, g.number(0.5)), to=TensorProto.INT64)
        powers = g.constant("powers", 2 ** np.arange(net.config.classes, dtype=np.int64))
        g.add("ReduceSum", g.add("Mul", bits, powers), g.integers(-1), keepdims=0, name="outputs")
    else:
        g.add("ArgMax", logits, axis=-1, keepdims=0, name="outputs")
    g.add("Identity", counts, name="layers")
    g.add("Identity", halted, name="halted")
