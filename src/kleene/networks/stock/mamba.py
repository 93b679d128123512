"""An unmodified Mamba of `transformers` that reads words."""

from __future__ import annotations

from pathlib import Path

from kleene.networks.stock.acceptor import StockAcceptor


class MambaAcceptor(StockAcceptor):
    """A `MambaForCausalLM` that accepts words."""

    kind, family, class_name = "mamba", "mamba", "MambaForCausalLM"
    cache_argument = "cache_params"


def load(folder: Path) -> MambaAcceptor:
    """Read a network that `save` wrote."""
    return MambaAcceptor.load(folder)
