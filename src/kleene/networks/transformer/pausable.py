"""A run on one input that can pause, show its residual stream, have a row changed, and go on."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kleene.common.residual import Layout
from kleene.networks.transformer.active_rows import Array, words_held
from kleene.networks.transformer.model import Transformer
from kleene.networks.transformer.stops import Watch


class PausableRun:
    """A run on one input. `layers` counts the layers run so far."""

    evaluator: str

    def __init__(self, net: Transformer, tokens: list[int] | Array) -> None:
        self.net, self.layers, self.halted = net, 0, False
        self.begin_with(torch.as_tensor(tokens, dtype=torch.int64))

    @property
    def layout(self) -> Layout:
        """The name of every dimension."""
        return self.net.layout

    def begin_with(self, tokens: Tensor) -> None:
        """Begin with the embedding of these tokens."""
        self.begin(self.net.embed(tokens[None].to(self.net.device))[0])

    def begin(self, x: Tensor) -> None:
        raise NotImplementedError

    def run(self, layers: int, watch: Watch | None = None) -> str:
        """Run up to `layers` more layers; return "halted", "watched" or "paused"."""
        raise NotImplementedError

    def residual(self) -> Tensor:
        """The residual stream, (position, dim), on the CPU in float32."""
        raise NotImplementedError

    def row(self, position: int) -> Array:
        """One row of the residual stream."""
        raise NotImplementedError

    def word(self, position: int, start: int, size: int) -> int:
        """The whole number that neighbouring dimensions of a row hold in binary."""
        held = self.row(position)[start : start + size]
        return sum(int(bit) << k for k, bit in enumerate(held))

    def words(self, dims: tuple[int, ...]) -> Array:
        """The whole numbers that some dimensions hold in binary, for every row."""
        return words_held(self.residual().numpy(), dims)

    def put(self, position: int, start: int, values: Sequence[int]) -> None:
        """Write values into a row, from dimension `start` on: the input of a device."""
        raise NotImplementedError

    def outputs(self) -> list[int]:
        """The output at every position."""
        return self.net.read(self.residual().to(self.net.dtype).to(self.net.device)).tolist()
