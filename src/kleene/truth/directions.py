"""Feature directions: what each value of a variable or a head is in the residual stream, and who writes it.

In a compiled network a value has a dimension of its own, and in a superposed one a column of the rotation: both are
given. In a trained network directions are measured: the mean of what a node writes where the program has a value there,
less the mean over all. How much of what the node writes they explain is measured with them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from kleene.evidence.circuit_graph import CircuitGraph, CompiledParts, SmallParts
from kleene.files import written_atomically
from kleene.networks.transformer.model import Transformer
from kleene.truth.program_tables import Tables

FILE = "directions.safetensors"
INPUTS = 512  # random ones, for measured directions


def given_directions(net: Transformer, basis: Tensor | None = None) -> dict[str, Tensor]:
    """Map each variable and head to the direction of each value: (value, dim).

    - `net`: a compiled network.
    - `basis`: of the network that it was rotated to, (dim, feature).
    """
    every = torch.eye(net.config.dim, dtype=torch.float64) if basis is None else basis
    wanted = [segment for segment in net.layout if segment.kind in ("variable", "head")]
    return {segment.name: every[:, segment.start : segment.stop].T.contiguous() for segment in wanted}


@torch.no_grad()
def measured_directions(parts: SmallParts, tables: Tables) -> tuple[dict[str, Tensor], dict[str, float]]:
    """Map each node of a trained network to the direction of each value that occurs there, and the share they explain.

    - `parts`: the network.
    - `tables`: its program alone.
    """
    drawn = torch.Generator().manual_seed(0)
    every = torch.randint(tables.tokens, (INPUTS, tables.length), generator=drawn)
    written = CircuitGraph(parts, every, every, tables.tokens).clean.written  # (input, node, position, dim)
    values = torch.cat(tables.run(every[None])[0], -1)[0]  # (input, position, node)
    directions, explained = {}, {}
    for k, (layer, name) in enumerate(tables.nodes):
        own, value = written[:, k].flatten(0, 1).double(), values[..., k].flatten()
        centred = own - own.mean(0)
        found = torch.zeros(int(values.max()) + 1, own.shape[-1], dtype=torch.float64)
        for v in value.unique():
            found[int(v)] = centred[value == v].mean(0)
        total = float(centred.square().sum())
        directions[f"{name}@{layer}"] = found
        explained[f"{name}@{layer}"] = float(found[value].square().sum()) / total if total > 0 else 0.0
    return directions, explained


def write_directions(folder: Path, directions: dict[str, Tensor]) -> None:
    """Write directions beside the network."""
    with written_atomically(folder / FILE) as made:
        save_file({name: value.float().contiguous() for name, value in directions.items()}, made)


def places_of(parts: CompiledParts | SmallParts) -> dict[str, dict[str, Any]]:
    """The place of each head and variable in a layer: the number of the head, and the numbers of units, its neurons."""
    if isinstance(parts, CompiledParts):
        heads: list[dict[str, Any]] = [
            {"head": head, "values": [values.start, values.stop]} for head, values in parts.values
        ]
        units = parts.members
    else:
        heads = [{"head": k} for k in range(len(parts.heads))]
        size = parts.shape.units
        units = [list(range(k * size, (k + 1) * size)) for k in range(len(parts.groups))]
    return dict(zip((*parts.heads, *parts.groups), [*heads, *({"neurons": list(some)} for some in units)]))
