"""Build an ONNX graph node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kleene.errors import NotSupported
from kleene.files import written_atomically

OPSET = 18
IR_VERSION = 10
Kind = tuple[Any, Sequence[str | int]]  # a NumPy type, and the shape


def package() -> Any:
    """The `onnx` package."""
    try:
        import onnx
    except ImportError:
        raise NotSupported("onnx: the package is not installed; pip install onnx onnxruntime") from None
    return onnx


class OnnxGraph:
    """Collects nodes and constants; `add` returns the name of a node's output."""

    def __init__(self, dtype: type[np.generic]) -> None:
        self.dtype, self.helper, self.numpy = dtype, package().helper, package().numpy_helper
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}
        self.count = 0

    def inside(self) -> OnnxGraph:
        """Begin the body of a Loop: it has its own names, and shares the constants of this graph."""
        body = OnnxGraph(self.dtype)
        body.count, body.constants = 1_000_000, self.constants
        return body

    def add(self, operator: str, *inputs: str, name: str | None = None, **attributes: Any) -> str:
        self.count += 1
        output = name or f"{operator}_{self.count}"
        made = self.helper.make_node(operator, list(inputs), [output], name=f"node {output}", **attributes)
        self.nodes.append(made)
        return output

    def constant(self, name: str, value: Any) -> str:
        self.constants.setdefault(name, self.numpy.from_array(np.asarray(value, order="C"), name))
        return name

    def weight(self, name: str, value: torch.Tensor) -> str:
        return self.constant(name, value.detach().cpu().double().numpy().astype(self.dtype))

    def number(self, value: float) -> str:
        return self.constant(f"number {value}", np.array(value, dtype=self.dtype))

    def integers(self, *values: int) -> str:
        return self.constant(f"integers {values}", np.array(values, dtype=np.int64))

    def integer(self, value: int) -> str:
        return self.constant(f"integer {value}", np.array(value, dtype=np.int64))

    def cast(self, value: str, kind: Any) -> str:
        return self.add("Cast", value, to=self.kind(kind))

    def kind(self, kind: Any) -> int:
        found: int = self.helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        return found

    def described(self, kinds: Mapping[str, Kind]) -> list[Any]:
        return [
            self.helper.make_tensor_value_info(name, self.kind(kind), shape) for name, (kind, shape) in kinds.items()
        ]

    def loop(
        self,
        body: OnnxGraph,
        state: Mapping[str, Kind],
        first: Sequence[str],
        after: Sequence[str],
        again: str,
        most: str = "",
    ) -> list[str]:
        """Add a Loop; return the names of the final state. The body may read `iteration`.

        body: the graph of one iteration.
        state: the names of the carried values in the body, with their types.
        first: their initial values.
        after: their values after an iteration.
        again: whether to go on.
        most: the most iterations.
        """
        inputs = {"iteration": (np.int64, []), "going": (np.bool_, []), **state}
        outputs = {again: (np.bool_, []), **dict(zip(after, state.values()))}
        made = self.helper.make_graph(body.nodes, "body", self.described(inputs), self.described(outputs))
        ends = [f"last {name}" for name in state]
        begin = [most, self.constant("yes", np.array(True)), *first]
        self.nodes.append(self.helper.make_node("Loop", begin, ends, name="loop", body=made))
        return ends


def onnx_model(
    graph: OnnxGraph,
    name: str,
    inputs: Mapping[str, Kind],
    outputs: Mapping[str, Kind],
    names: dict[str, str],
    doc: str,
    path: str | Path | None,
) -> Any:
    """Make a checked model of a graph.

    name: the name of the graph.
    inputs, outputs: their types by name.
    names: metadata.
    doc: what the model is.
    path: also write the model there.
    """
    helper, constants = graph.helper, list(graph.constants.values())
    made = helper.make_graph(graph.nodes, name, graph.described(inputs), graph.described(outputs), constants)
    model = helper.make_model(
        made,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="kleene",
        doc_string=f"{name}: {doc}",
    )
    helper.set_model_props(model, names)
    package().checker.check_model(model, full_check=True)
    if path is not None:
        with written_atomically(path) as beside:
            beside.write_bytes(model.SerializeToString())
    return model
