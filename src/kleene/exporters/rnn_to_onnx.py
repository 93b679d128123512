"""Simple RNNs to ONNX: one Loop over time. It takes networks of bounded whole numbers, which floats hold exactly.

Inputs: `codes` (batch, time), the place of each symbol in the alphabet (the metadata has the alphabet), and `lengths`
(batch); the model ignores codes past a word's length. Outputs: `accepts` (batch), and `output` (batch, outputs).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kleene.exporters.onnx_graph import Kind, OnnxGraph, onnx_model
from kleene.networks.rnn.exact import ExactRNN
from kleene.networks.rnn.torch_rnn import SimpleRNN

FORMAT, VERSION = "kleene onnx rnn", 1


def export_onnx(rnn: ExactRNN, path: str | Path | None = None) -> Any:
    """Return the ONNX model; also write it to `path` if given. Raise NotExact if it would round."""
    module: SimpleRNN = rnn.torch()
    graph = OnnxGraph(np.float64 if module.s.dtype == torch.float64 else np.float32)
    units = len(module.s)
    batch = graph.add("Concat", graph.add("Shape", "lengths"), graph.integers(1), axis=0)
    start = graph.add("Expand", graph.weight("s", module.s[None]), batch)
    time = graph.add("Squeeze", graph.add("Shape", "codes", start=1, end=2), graph.integers(0))
    body = graph.inside()
    after, again = _step(body, module), body.add("Identity", "going")
    state: dict[str, Kind] = {"h": (graph.dtype, ["batch", units])}
    (h,) = graph.loop(body, state, first=[start], after=[after], again=again, most=time)
    output = graph.add("MatMul", h, graph.weight("out weight", module.out.weight.T))
    output = graph.add("Add", output, graph.weight("out bias", module.out.bias), name="output")
    first = graph.add("Gather", output, graph.integer(0), axis=1)
    says = ("Equal", 1) if rnn.criterion == "one" else ("Greater", 0)
    graph.add(says[0], first, graph.number(says[1]), name="accepts")
    return onnx_model(
        graph,
        "rnn",
        inputs={"codes": (np.int64, ["batch", "time"]), "lengths": (np.int64, ["batch"])},
        outputs={"accepts": (np.bool_, ["batch"]), "output": (graph.dtype, ["batch", rnn.out_W.rows])},
        names={"format": FORMAT, "version": str(VERSION), "alphabet": json.dumps(rnn.alphabet)},
        doc=f"an RNN of {units} {rnn.activation} units, a Loop over time",
        path=path,
    )


def _step(body: OnnxGraph, module: SimpleRNN) -> str:
    """h := σ(V h + W x + b) for the words that have not ended."""
    inputs = body.weight("inputs", (module.W + module.b[:, None]).T)  # (symbol, unit)
    code = body.add("Gather", "codes", "iteration", axis=1)  # (batch)
    pre = body.add("Add", body.add("MatMul", "h", body.weight("V", module.V.T)), body.add("Gather", inputs, code))
    on = body.add("Relu", pre) if module.activation == "relu" else body.add("Clip", pre, body.number(0), body.number(1))
    going = body.add("Unsqueeze", body.add("Less", "iteration", "lengths"), body.integers(1))
    return body.add("Where", going, on, "h")
