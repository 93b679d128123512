"""An unmodified OLMo Hybrid of `transformers` that reads words: DeltaNet layers, and attention that adds nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kleene.errors import NotExact
from kleene.networks.stock.acceptor import StockAcceptor


class OlmoHybridAcceptor(StockAcceptor):
    """An `OlmoHybridForCausalLM` that accepts words."""

    kind, family, class_name = "olmo_hybrid", "olmo_hybrid", "OlmoHybridForCausalLM"
    batched = True  # all numbers are whole, or halves and quarters of them: no sum is rounded, in whatever order

    def recurrent_layers(self) -> list[int]:
        """The DeltaNet layers. NotExact where an attention layer adds to the residual: its cache grows."""
        kinds = self.model.config.layer_types
        for number, kind in enumerate(kinds):
            layer = self.model.model.layers[number]
            if kind != "linear_attention":
                matrices = [weight for weight in layer.parameters() if weight.dim() == 2]
                if any(bool(weight.any()) for weight in matrices):  # where all are 0, it adds 0 at every position
                    raise NotExact(f"the attention of layer {number} adds to the residual, and its cache has no end")
        return [number for number, kind in enumerate(kinds) if kind == "linear_attention"]

    def convolution(self, layer: int) -> Any:
        """The convolution of a DeltaNet layer."""
        return self.model.model.layers[layer].linear_attn.conv1d


def load(folder: Path) -> OlmoHybridAcceptor:
    """Read a network that `save` wrote."""
    return OlmoHybridAcceptor.load(folder)
