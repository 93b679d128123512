"""An unmodified OLMo Hybrid of `transformers` that reads words: DeltaNet layers, and attention that adds nothing."""

from __future__ import annotations

import copy
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import nn

from kleene.errors import InputError, NotExact, NotSupported
from kleene.networks.stock.acceptor import StockAcceptor


class OlmoHybridAcceptor(StockAcceptor):
    """An `OlmoHybridForCausalLM` that accepts words."""

    kind, family, class_name = "olmo_hybrid", "olmo_hybrid", "OlmoHybridForCausalLM"
    batched = True  # all numbers are whole, or halves and quarters of them: no sum is rounded, in whatever order

    def recurrent_layers(self) -> list[int]:
        """The DeltaNet layers."""
        return [number for number, kind in enumerate(self.model.config.layer_types) if kind == "linear_attention"]

    def keys(self, cache: Any) -> list[bytes]:
        """Every number that the next step reads. NotExact where attention keeps a number of a word: its cache grows.

        Where all its keys and values are 0, attention adds the same at every position.
        """
        for number in set(range(self.model.config.num_hidden_layers)) - set(self.recurrent_layers()):
            kept = cache.layers[number]
            if bool(kept.keys.any()) or bool(kept.values.any()):  # NaN is not 0
                raise NotExact(f"the attention of layer {number} keeps numbers of the word, and its cache has no end")
        return super().keys(cache)

    def convolution(self, layer: int) -> Any:
        """The convolution of a DeltaNet layer."""
        return self.model.model.layers[layer].linear_attn.conv1d

    def with_flash_linear_attention(self, mode: str = "chunk") -> OlmoHybridAcceptor:
        """The same model with the `GatedDeltaNet` of flash-linear-attention for its DeltaNet layers, tensor by tensor.

        It accepts words; certificates, files and caches are those of the stock model. `mode` is the layer's own:
        "chunk" or "fused_recurrent".
        """
        try:
            GatedDeltaNet = import_module("fla.layers").GatedDeltaNet
        except ImportError:
            raise NotSupported("flash-linear-attention is not installed; pip install flash-linear-attention") from None
        if mode not in ("chunk", "fused_recurrent"):
            raise InputError(f"mode {mode!r}; it should be 'chunk' or 'fused_recurrent'")
        model, config = copy.deepcopy(self.model), self.model.config
        for number in self.recurrent_layers():
            block = model.model.layers[number]
            layer = GatedDeltaNet(
                hidden_size=config.hidden_size,
                head_dim=config.linear_key_head_dim,
                expand_v=config.linear_value_head_dim / config.linear_key_head_dim,
                num_heads=config.linear_num_key_heads,
                conv_size=config.linear_conv_kernel_dim,
                allow_neg_eigval=config.linear_allow_neg_eigval,
                mode=mode,
            )
            tensors = dict(block.linear_attn.state_dict())
            keys = len(tensors["k_proj.weight"])
            whole = tensors.pop("conv1d.weight")
            for name, part in zip("qkv", torch.split(whole, [keys, keys, len(whole) - 2 * keys])):
                tensors[f"{name}_conv1d.weight"] = part
            layer.load_state_dict(tensors)
            block.linear_attn = _OutputOnly(layer).to(whole.device)
        return OlmoHybridAcceptor(self.alphabet, model, self.about)


class _OutputOnly(nn.Module):
    """A layer of flash-linear-attention in the place of one of transformers; it keeps no cache."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, hidden_states: torch.Tensor, **_: Any) -> Any:
        return self.inner(hidden_states)[0]


def load(folder: Path) -> OlmoHybridAcceptor:
    """Read a network that `save` wrote."""
    return OlmoHybridAcceptor.load(folder)
