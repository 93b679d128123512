"""Many small transformers of one shape, trained at once: every weight has the network as its first dimension.

A layer has heads, then groups of ReLU units side by side; no layer norm. A node is a head or a group in a layer. The
outputs of nodes can be kept, and replaced by their outputs in another run: an interchange.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from kleene.errors import FileError
from kleene.files import read_json, write_json, written_atomically

FORMAT = "small transformer"


@dataclass(frozen=True)
class Shape:
    """The sizes of a small transformer."""

    tokens: int
    classes: int
    positions: int
    layers: int
    heads: int
    groups: int
    dim: int = 64
    key: int = 16  # dimensions of a head's keys and values
    units: int = 32  # units per group


class StackedTransformer(nn.Module):
    """`count` networks of a shape. Inputs are (network, batch, position), logits (network, batch, position, class)."""

    def __init__(self, shape: Shape, count: int = 1) -> None:
        super().__init__()
        self.shape, self.count = shape, count
        d, wide, units = shape.dim, shape.heads * shape.key, shape.groups * shape.units

        def weight(*size: int, scale: float) -> nn.Parameter:
            return nn.Parameter(torch.randn(count, *size) * scale)

        def every(*size: int, scale: float) -> nn.ParameterList:
            return nn.ParameterList([weight(*size, scale=scale) for _ in range(shape.layers)])

        self.token_embedding = weight(shape.tokens, d, scale=1.0)
        self.position_embedding = weight(shape.positions, d, scale=1.0)
        self.into_heads = every(d, 3 * wide, scale=d**-0.5)  # queries, keys, values
        self.heads_bias = every(1, 3 * wide, scale=0.0)
        self.heads_out = every(wide, d, scale=wide**-0.5)
        self.into_units = every(d, units, scale=d**-0.5)
        self.units_bias = every(1, units, scale=0.0)
        self.units_out = every(units, d, scale=units**-0.5)
        self.out_bias = every(1, d, scale=0.0)
        self.unembedding = weight(d, shape.classes, scale=d**-0.5)

    @property
    def nodes(self) -> int:
        """The number of nodes in a layer."""
        return self.shape.heads + self.shape.groups

    def embed(self, tokens: Tensor) -> Tensor:
        """The residual stream before the first layer: (network, batch, position, dim)."""
        count, batch, length = tokens.shape
        index = tokens.reshape(count, -1, 1).expand(-1, -1, self.shape.dim)
        read = self.token_embedding.gather(1, index).view(count, batch, length, -1)
        return read + self.position_embedding[:, None, :length]

    def mixed(self, layer: int, x: Tensor) -> Tensor:
        """Return what the heads read: (network, batch, position, heads × key)."""
        count, batch, length, _ = x.shape
        size = (count, batch, length, 3, self.shape.heads, self.shape.key)
        flat = torch.baddbmm(self.heads_bias[layer], x.reshape(count, -1, self.shape.dim), self.into_heads[layer])
        query, key, value = flat.view(size).permute(3, 0, 1, 4, 2, 5)  # (network, batch, head, position, key)
        pattern = (query @ key.transpose(-1, -2) * self.shape.key**-0.5).softmax(-1)
        mixed: Tensor = pattern @ value
        return mixed.transpose(2, 3).reshape(count, batch, length, -1)

    def fired(self, layer: int, x: Tensor) -> Tensor:
        """The units: (network, batch, position, groups × units)."""
        flat = torch.baddbmm(self.units_bias[layer], x.flatten(1, 2), self.into_units[layer])
        return flat.relu().view(*x.shape[:3], -1)

    def logits(self, x: Tensor) -> Tensor:
        """The logits of the residual stream after the last layer."""
        return (x.flatten(1, 2) @ self.unembedding).view(*x.shape[:3], -1)

    def run(
        self, tokens: Tensor, masks: Tensor | None = None, given: Sequence[tuple[Tensor, Tensor]] | None = None
    ) -> tuple[list[tuple[Tensor, Tensor]], Tensor]:
        """The outputs of heads and units by layer, and the logits.

        - `tokens`: (network, batch, position).
        - `masks`: (layer, network, batch, position, node), true where a node gives what it gave in another run.
        - `given`: that other run.
        """
        shape, x, kept = self.shape, self.embed(tokens), []
        for layer in range(shape.layers):
            read = self.mixed(layer, x)
            if masks is not None and given is not None:
                chosen = masks[layer, ..., : shape.heads].repeat_interleave(shape.key, -1)
                read = torch.where(chosen, given[layer][0], read)
            x = x + torch.bmm(read.flatten(1, 2), self.heads_out[layer]).view_as(x)
            units = self.fired(layer, x)
            if masks is not None and given is not None:
                chosen = masks[layer, ..., shape.heads :].repeat_interleave(shape.units, -1)
                units = torch.where(chosen, given[layer][1], units)
            x = x + torch.baddbmm(self.out_bias[layer], units.flatten(1, 2), self.units_out[layer]).view_as(x)
            kept.append((read, units))
        return kept, self.logits(x)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.run(tokens)[1]

    def one(self, index: int) -> StackedTransformer:
        """One of the networks alone."""
        alone = StackedTransformer(self.shape).to(self.unembedding)
        alone.load_state_dict({name: value[index : index + 1] for name, value in self.state_dict().items()})
        return alone

    def save(self, folder: str | Path, description: dict[str, Any] | None = None) -> None:
        """Write weights (safetensors) and shape (JSON) to a folder."""
        with written_atomically(Path(folder)) as made:
            made.mkdir()
            tensors = {name: value.detach().cpu().contiguous() for name, value in self.state_dict().items()}
            save_file(tensors, made / "model.safetensors")
            about = {"format": FORMAT, "count": self.count, "shape": asdict(self.shape)}
            write_json(made / "kleene.json", {**about, "description": description or {}})


def load_stacked(folder: str | Path) -> StackedTransformer:
    """The networks that `save` wrote."""
    path = Path(folder)
    content = read_json(path / "kleene.json")
    try:
        if content["format"] != FORMAT:
            raise KeyError("format")
        shape = Shape(**{name: int(value) for name, value in content["shape"].items()})
        tensors = load_file(path / "model.safetensors")
        with torch.device("meta"):
            net = StackedTransformer(shape, int(content["count"]))
        net.load_state_dict(tensors, assign=True)
    except (KeyError, TypeError, ValueError, RuntimeError, OSError, SafetensorError) as error:
        raise FileError(f"{path}: not a small transformer ({str(error).splitlines()[0]})") from None
    return net
