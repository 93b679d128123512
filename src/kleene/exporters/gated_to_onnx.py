"""LSTMs and GRUs that read words to ONNX: its own LSTM or GRU operator, and the read-out.

Inputs: `codes` (batch, time), the place of each symbol in the alphabet (the metadata has the alphabet), and `lengths`
(batch); the model ignores codes past a word's length. Outputs: `accepts` (batch), and `output` (batch, 1).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kleene.errors import NotSupported
from kleene.exporters.onnx_graph import OnnxGraph, onnx_model
from kleene.networks.rnn.gated import GatedRNN

FORMAT, VERSION = "kleene onnx gated rnn", 1
ORDER = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2)}  # ONNX's gates among torch's: i o f c, and z r h
KINDS: dict[str, type[np.generic]] = {"float32": np.float32, "float64": np.float64}


def export_onnx(net: GatedRNN, path: str | Path | None = None) -> Any:
    """Return the ONNX model; also write it to `path` if given."""
    if net.dtype not in KINDS:
        raise NotSupported(f"export: this export takes float32 and float64; the network has {net.dtype}")
    graph = OnnxGraph(KINDS[net.dtype])
    cell, symbols = dict(net.recurrent.named_parameters()), len(net.alphabet)

    def ordered(value: torch.Tensor) -> torch.Tensor:
        parts = value.detach().reshape(len(ORDER[net.cell]), net.units, -1)
        return torch.cat([parts[k] for k in ORDER[net.cell]])

    bias = torch.cat([ordered(cell["bias_ih_l0"]), ordered(cell["bias_hh_l0"])]).T  # (1, 2 · gates · units)
    start = graph.add(
        "Expand", graph.integers(symbols), graph.add("Concat", graph.add("Shape", "lengths"), graph.integers(1), axis=0)
    )
    codes = graph.add("Transpose", graph.add("Concat", start, "codes", axis=1), perm=[1, 0])  # (time + 1, batch)
    vectors = graph.add("Gather", graph.weight("one-hot", torch.eye(symbols + 1)), codes)
    lengths = graph.cast(graph.add("Add", "lengths", graph.integer(1)), np.int32)
    weights = (
        graph.weight("W", ordered(cell["weight_ih_l0"])[None]),
        graph.weight("R", ordered(cell["weight_hh_l0"])[None]),
    )
    options = {"hidden_size": net.units, **({"linear_before_reset": 1} if net.cell == "gru" else {})}
    names = ["every", "last", "cells"] if net.cell == "lstm" else ["every", "last"]
    inputs = [vectors, *weights, graph.weight("B", bias), lengths]
    graph.nodes.append(graph.helper.make_node(net.cell.upper(), inputs, names, name="recurrent", **options))
    last = graph.add("Squeeze", "last", graph.integers(0))  # (batch, unit)
    product = graph.add("MatMul", last, graph.weight("out weight", net.out.weight.T))
    output = graph.add("Add", product, graph.weight("out bias", net.out.bias), name="output")
    first = graph.add("Gather", output, graph.integer(0), axis=1)
    graph.add("Greater", first, graph.number(0), name="accepts")
    return onnx_model(
        graph,
        net.cell,
        inputs={"codes": (np.int64, ["batch", "time"]), "lengths": (np.int64, ["batch"])},
        outputs={"accepts": (np.bool_, ["batch"]), "output": (graph.dtype, ["batch", 1])},
        names={"format": FORMAT, "version": str(VERSION), "alphabet": json.dumps(net.alphabet)},
        doc=f"a {net.cell.upper()} of {net.units} units that reads words",
        path=path,
    )
