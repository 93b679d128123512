"""The coding of values in the residual stream, and the embeddings that write the initial values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from kleene.common.residual import Layout
from kleene.machines.kinds import Kind, Word
from kleene.machines.spec import Counting, Spec
from kleene.networks.transformer.model import Transformer


def code(kind: Kind, indices: Sequence[int]) -> torch.Tensor:
    """The code of values in the residual stream, one row for each: one-hot, or binary for a word."""
    chosen = torch.tensor(indices, dtype=torch.long)
    if isinstance(kind, Word):
        return (chosen[:, None] >> torch.arange(kind.bits) & 1).double()
    return torch.nn.functional.one_hot(chosen, len(kind)).double()


def code_size(kind: Kind) -> int:
    """How many dimensions the code of a value has."""
    return kind.bits if isinstance(kind, Word) else len(kind)


def encode(layout: Layout, spec: Spec, indices: Mapping[str, Sequence[int]]) -> torch.Tensor:
    """Residual streams (state, dim) for given values of variables. Other dimensions are zero."""
    rows = len(next(iter(indices.values())))
    x = torch.zeros(rows, layout.size, dtype=torch.float64)
    for name, chosen in indices.items():
        segment, kind = layout[name], spec.kinds[name]
        if segment.coding == "scalar":
            codes = torch.tensor([[float(value * segment.scale)] for value in kind.values], dtype=torch.float64)
            x[:, segment.slice] = codes[torch.tensor(chosen)]
        else:
            x[:, segment.slice] = code(kind, chosen)
    return x


def fill_embeddings(net: Transformer, spec: Spec, layout: Layout) -> None:
    for name, variable in spec.variables.items():
        if isinstance(variable.by_position, Counting):
            continue  # the network counts positions by itself
        rows = code(variable.kind, variable.by_position or variable.by_token or (variable.default,))
        place = layout[name].slice
        if variable.by_position is not None:
            net.position_embedding[:, place] = rows.to(net.dtype)
        elif variable.by_token is not None:
            net.token_embedding[:, place] = rows.to(net.dtype)
        else:
            net.token_embedding[:, place] = rows[0].to(net.dtype)
    output = layout[spec.output]
    net.unembedding[:, output.slice] = torch.eye(output.size, dtype=net.dtype)
    for name, index in spec.halt.items():
        net.halt_weight[layout[name].start + index] = 1
    net.halt_bias[0] = 1 - max(1, len(spec.halt))
