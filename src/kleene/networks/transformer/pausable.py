"""A run on one input that can pause, show its residual stream, have a row changed, and go on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from kleene.networks.transformer.active_rows import Array, words_held
from kleene.networks.transformer.model import Transformer

HALTED, WATCHED, PAUSED = "halted", "watched", "paused"


@dataclass(frozen=True)
class Watch:
    """Stop after a layer of this place in the cycle if a dimension of a row is 1."""

    place: int
    row: int
    dim: int

    def sees(self, place: int, row: Callable[[int], Array]) -> bool:
        """Whether to stop after a layer of this place."""
        return self.place == place and bool(row(self.row)[self.dim] == 1)


class PausableRun:
    """A run on one input. `layers` counts the layers run so far."""

    evaluator: str

    def __init__(self, net: Transformer, tokens: list[int]) -> None:
        self.net, self.layers, self.halted = net, 0, False
        self.begin_with(torch.tensor(tokens))

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

    def words(self, dims: tuple[int, ...]) -> Array:
        """The whole numbers that some dimensions hold in binary, for every row."""
        return words_held(self.residual().numpy(), dims)

    def put(self, position: int, start: int, values: Sequence[int]) -> None:
        """Write values into a row, from dimension `start` on: the input of a device."""
        raise NotImplementedError

    def outputs(self) -> list[int]:
        """The output at every position."""
        return self.net.read(self.residual().to(self.net.dtype).to(self.net.device)).tolist()
