"""A small decoder-only transformer language model, to compare with the LSTM. Plain torch."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class PreNormBlock(nn.Module):
    """Attention and a two-layer MLP, each after a layer norm, each added to the residual stream."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def split(self, x: Tensor) -> Tensor:
        """(…, time, width) → (…, heads, time, width / heads)."""
        split: Tensor = x.unflatten(-1, (self.heads, -1)).transpose(-2, -3)
        return split

    def pattern(self, y: Tensor) -> Tensor:
        """The attention pattern (…, heads, time, time) for normed inputs."""
        q, k, _ = (self.split(part) for part in self.qkv(y).chunk(3, -1))
        scores = q @ k.mT / q.shape[-1] ** 0.5
        future = torch.ones(y.shape[-2], y.shape[-2], dtype=torch.bool, device=y.device).triu(1)
        weights: Tensor = scores.masked_fill(future, float("-inf")).softmax(-1)
        return weights

    def forward(self, x: Tensor) -> Tensor:
        """(…, time, width) → the same."""
        q, k, v = (self.split(part) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.dropout(self.out(mixed.transpose(-2, -3).flatten(-2)))
        after: Tensor = x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)))))
        return after


class TransformerLanguageModel(nn.Module):
    """Predicts each next token.

    >>> model = TransformerLanguageModel(tokens=10, width=8, heads=2, layers=1, length=6)
    >>> model(torch.tensor([[1, 2, 3]])).shape
    torch.Size([1, 3, 10])
    """

    def __init__(
        self,
        tokens: int,
        *,
        width: int = 128,
        heads: int = 4,
        layers: int = 2,
        length: int = 128,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.length = length
        self.embedding, self.position = nn.Embedding(tokens, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(PreNormBlock(width, heads, dropout) for _ in range(layers))
        self.norm, self.decoder = nn.LayerNorm(width), nn.Linear(width, tokens)
        for table in (self.embedding, self.position):
            nn.init.normal_(table.weight, std=0.05)

    def start(self, tokens: Tensor) -> Tensor:
        """Word embeddings plus position embeddings: the input of the first block."""
        embedded: Tensor = self.embedding(tokens) + self.position(torch.arange(tokens.shape[-1], device=tokens.device))
        return embedded

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of the next token (batch, time, tokens)."""
        x = self.start(tokens)
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.decoder(self.norm(x))
        return logits
