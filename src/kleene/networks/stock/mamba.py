"""An unmodified Mamba of `transformers` that reads words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kleene.networks.stock.acceptor import StockAcceptor


class MambaAcceptor(StockAcceptor):
    """A `MambaForCausalLM` that accepts words."""

    kind, family, class_name = "mamba", "mamba", "MambaForCausalLM"
    cache_argument = "cache_params"

    def convolution(self, layer: int) -> Any:
        """The convolution of a layer."""
        return self.model.backbone.layers[layer].mixer.conv1d


def load(folder: Path) -> MambaAcceptor:
    """Read a network that `save` wrote."""
    return MambaAcceptor.load(folder)
