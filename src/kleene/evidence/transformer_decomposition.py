"""Contextual decomposition of a transformer language model into parts that add up.

- A word owns its embedding, its place's embedding, and every bias at its position.
- Attention patterns and the scale of layer norms are those of the whole input, like the LSTM's output gate. Given
  them, attention and layer norms are linear, and act on each part separately.
- The perceptron's φ gives the focus what it does alone, above the bias b: φ(r + b) − φ(b). So its
  interactions with the rest are the rest's, as the products of gates are in an LSTM. φ(b) belongs to the
  position's word. Two other rules are there to compare: `removed`, φ(z) − φ(z − r) with z the whole input,
  which gives the interactions to the focus, and `shared`, the mean of both (Shapley), under which a pair's
  own interaction cancels out of the interdependence.

An empty focus has nothing, and one with all words everything. The part of a focus under `alone` and that of
its complement under `removed` add up to the model's own hidden state, and so do both under `shared`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kleene.errors import InputError
from kleene.evidence.interdependence import ratio, triangle
from kleene.networks.trained.transformer_lm import PreNormBlock, TransformerLanguageModel

RULES = ("alone", "removed", "shared")


def _norm(norm: nn.LayerNorm, whole: Tensor, part: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    scale = norm.weight / (whole.var(-1, keepdim=True, unbiased=False) + norm.eps).sqrt()
    return norm(whole), (part - part.mean(-1, keepdim=True)) * scale + mask * norm.bias


def _block(block: PreNormBlock, whole: Tensor, part: Tensor, mask: Tensor, rule: str) -> tuple[Tensor, Tensor]:
    y, y_part = _norm(block.norm1, whole, part, mask)
    pattern, width = block.pattern(y), y.shape[-1]
    weight, bias = block.qkv.weight[2 * width :], block.qkv.bias[2 * width :]

    def attend(x: Tensor, owned: Tensor | float) -> Tensor:
        value = block.split(x @ weight.T + owned * bias)
        mixed = (pattern @ value).transpose(-2, -3).flatten(-2)
        return mixed @ block.out.weight.T + owned * block.out.bias

    whole, part = whole + attend(y, 1.0), part + attend(y_part, mask)
    y, y_part = _norm(block.norm2, whole, part, mask)
    b, z, r = block.up.bias, block.up(y), y_part @ block.up.weight.T
    base = F.gelu(b)
    alone, removed = F.gelu(r + b) - base, F.gelu(z) - F.gelu(z - r)
    share = {"alone": alone, "removed": removed, "shared": (alone + removed) / 2}[rule] + mask * base
    down, bias = block.down.weight.T, block.down.bias
    return whole + F.gelu(z) @ down + bias, part + share @ down + mask * bias


def decompose_transformer(
    model: TransformerLanguageModel, tokens: Tensor, masks: Tensor, rule: str = "alone"
) -> tuple[Tensor, Tensor]:
    """The hidden states before the decoder (time, width), and the contribution of each focus to them.

    model: the language model.
    tokens: one sentence.
    masks: the foci (rows, time).
    rule: how the MLP shares interactions: "alone", "removed" or "shared".
    """
    if tokens.shape[-1] > model.length:
        raise InputError(f"sentence of {tokens.shape[-1]} words: the model reads at most {model.length}")
    if rule not in RULES:
        raise InputError(f"rule {rule!r}: unknown; choose one of {', '.join(RULES)}")
    with torch.no_grad():
        whole = model.start(tokens)
        mask = masks.to(whole.dtype)[..., None]
        part = mask * whole
        for block in model.blocks:
            assert isinstance(block, PreNormBlock)
            whole, part = _block(block, whole, part, mask, rule)
        return _norm(model.norm, whole, part, mask)


def transformer_interdependence(
    model: TransformerLanguageModel, sentences: Sequence[Tensor], rule: str = "alone", rows: int = 2000
) -> list[Tensor]:
    """The interdependence of all pairs of words in each sentence, read at the right word: symmetric matrices."""
    frame = triangle(model.decoder.weight.detach())
    return [_all_pairs(model, tokens, frame, rule, rows) for tokens in sentences]


def _all_pairs(model: TransformerLanguageModel, tokens: Tensor, frame: Tensor | None, rule: str, rows: int) -> Tensor:
    size = len(tokens)
    singles = torch.eye(size, dtype=torch.bool, device=tokens.device)
    alone = decompose_transformer(model, tokens, singles, rule)[1]  # (word, time, width)
    left, right = torch.triu_indices(size, size, 1, device=tokens.device)
    values = alone.new_zeros(size, size)
    for l, r in zip(left.split(rows), right.split(rows)):
        joint = decompose_transformer(model, tokens, singles[l] | singles[r], rule)[1]
        at = torch.arange(len(l), device=tokens.device)
        values[l, r] = ratio(joint[at, r], alone[l, r] + alone[r, r], frame)
    return values + values.T
