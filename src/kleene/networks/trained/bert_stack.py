"""Several BERTs of one shape as one module, to train seeds in parallel: every product is batched.

The stack holds the stacked weights of `Bert` models and computes what each of them computes (a test compares).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from kleene.networks.synthesizer.descriptions import PAD
from kleene.networks.trained.bert import Bert


class BertStack(nn.Module):
    """Tokens (models, batch, time) → logits (models, batch, outputs)."""

    def __init__(self, models: Sequence[Bert]) -> None:
        super().__init__()
        config = models[0].model.config
        self.heads, self.layers, self.eps = config.num_attention_heads, config.num_hidden_layers, config.layer_norm_eps
        self.dropout = config.hidden_dropout_prob
        own = [dict(model.model.named_parameters()) for model in models]
        stacked = {name: torch.stack([each[name].detach() for each in own]) for name in own[0]}
        self.weights = nn.ParameterDict({name.replace(".", "/"): nn.Parameter(w) for name, w in stacked.items()})

    def __len__(self) -> int:
        return len(self._get("classifier.bias"))

    def copy_to(self, models: Sequence[Bert]) -> None:
        """Copy the weights back into the models."""
        with torch.no_grad():
            for index, model in enumerate(models):
                for name, parameter in model.model.named_parameters():
                    parameter.copy_(self._get(name)[index])

    def _get(self, name: str) -> Tensor:
        weight: Tensor = self.weights[name.replace(".", "/")]
        return weight

    def _linear(self, x: Tensor, name: str) -> Tensor:  # (models, …, in) → (models, …, out)
        weight, bias = self._get(f"{name}.weight"), self._get(f"{name}.bias")
        flat = torch.baddbmm(bias[:, None], x.reshape(x.shape[0], -1, x.shape[-1]), weight.mT)
        return flat.view(*x.shape[:-1], -1)

    def _norm(self, x: Tensor, name: str) -> Tensor:
        shape = (x.shape[0], *[1] * (x.dim() - 2), x.shape[-1])
        weight, bias = self._get(f"{name}.weight").view(shape), self._get(f"{name}.bias").view(shape)
        return torch.addcmul(bias, functional.layer_norm(x, x.shape[-1:], eps=self.eps), weight)

    def _drop(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.dropout, self.training)

    def forward(self, tokens: Tensor, padded: bool = True) -> Tensor:
        """Logits; `padded=False` where no token is PAD."""
        models, batch, time = tokens.shape
        word = self._get("bert.embeddings.word_embeddings.weight")
        rows = tokens + torch.arange(models, device=tokens.device)[:, None, None] * word.shape[1]
        x = torch.index_select(word.flatten(0, 1), 0, rows.reshape(-1)).view(models, batch, time, -1)
        place = self._get("bert.embeddings.position_embeddings.weight")[:, :time]
        kind = self._get("bert.embeddings.token_type_embeddings.weight")[:, :1]
        x = self._drop(self._norm(x + (place + kind)[:, None], "bert.embeddings.LayerNorm"))
        mask = (tokens != PAD).view(models * batch, 1, 1, time) if padded else None
        for layer in range(self.layers):
            # the classifier reads the first token alone, so the last layer needs no other query
            asks = x[:, :, :1] if layer == self.layers - 1 else x
            x = self._layer(f"bert.encoder.layer.{layer}", asks, x, mask)
        pooled = torch.tanh(self._linear(x[:, :, 0], "bert.pooler.dense"))
        return self._linear(self._drop(pooled), "classifier")

    def _layer(self, name: str, asks: Tensor, x: Tensor, mask: Tensor | None) -> Tensor:
        models, batch, _, dim = x.shape

        def split(y: Tensor) -> Tensor:  # (models, batch, time, dim) → (models·batch, heads, time, dim/heads)
            return y.view(models * batch, y.shape[2], self.heads, dim // self.heads).transpose(1, 2)

        query = split(self._linear(asks, f"{name}.attention.self.query"))
        key = split(self._linear(x, f"{name}.attention.self.key"))
        value = split(self._linear(x, f"{name}.attention.self.value"))
        rate = self.dropout if self.training else 0.0
        read = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=rate)
        read = read.transpose(1, 2).reshape(asks.shape)
        x = self._norm(
            self._drop(self._linear(read, f"{name}.attention.output.dense")) + asks,
            f"{name}.attention.output.LayerNorm",
        )
        hidden = functional.gelu(self._linear(x, f"{name}.intermediate.dense"))
        return self._norm(self._drop(self._linear(hidden, f"{name}.output.dense")) + x, f"{name}.output.LayerNorm")


def summed_loss(logits: Tensor, labels: Tensor, sizes: Sequence[int]) -> Tensor:
    """The sum of the operands' cross-entropies, for each model: labels (models, batch, operands) → (models,)."""
    models, batch, _ = labels.shape
    losses = torch.zeros(models, device=logits.device)
    for operand, part in enumerate(torch.split(logits, list(sizes), dim=-1)):
        each = functional.cross_entropy(part.flatten(0, 1), labels[..., operand].reshape(-1), reduction="none")
        losses = losses + each.view(models, batch).mean(dim=1)
    return losses


@torch.no_grad()
def predict(stack: BertStack, tokens: Tensor, sizes: Sequence[int], *, padded: bool, chunk: int = 4096) -> Tensor:
    """The class of the largest logit of each operand: (models, entries, operands)."""
    found = []
    for begin in range(0, tokens.shape[1], max(1, chunk // len(stack))):
        logits = stack(tokens[:, begin : begin + max(1, chunk // len(stack))], padded)
        parts = torch.split(logits, list(sizes), dim=-1)
        found.append(torch.stack([part.argmax(dim=-1) for part in parts], dim=-1))
    return torch.cat(found, dim=1)
