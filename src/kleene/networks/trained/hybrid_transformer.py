"""A standard transformer with a frozen compiled network inside; it adds the network's logits to its residual stream."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from kleene.networks.trained.encoder_decoder import StandardConfig, StandardTransformer
from kleene.networks.transformer.model import Transformer


class HybridTransformer(StandardTransformer):
    """A trained encoder that reads the logits of a compiled network at every position.

    The compiled network reads the same tokens, runs as many layers as there are tokens, and stays frozen.
    """

    def __init__(self, config: StandardConfig, assistant: Transformer) -> None:
        super().__init__(config)
        self.assistant = assistant.requires_grad_(False)
        self.join = nn.Linear(assistant.config.classes, config.width, bias=False)

    def forward(
        self, tokens: Tensor, real: Tensor, target: Tensor | None = None, watch: list[Tensor] | None = None
    ) -> Tensor:
        """Logits (batch, position, class)."""
        with torch.no_grad(), torch.autocast(tokens.device.type, enabled=False):  # it stays exact
            said = self.assistant(tokens, real, layers=tokens.shape[1])
        logits: Tensor = self.out(self.encoder(tokens, real, watch=watch, added=self.join(said)))
        return logits
