"""Programs into `Qwen3ForCausalLM`: a Llama whose queries and keys have norms of their own.

The norm divides a query and a key by their lengths. The lengths of keys at tokens are one constant, and so are those of
queries where `where` holds. The weights of the norm of queries bring scores back to the size that is needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kleene.compilers.rotary_model import RotaryModel, make_rotary
from kleene.compilers.stock_plan import Plan
from kleene.compilers.stock_sizes import Room
from kleene.compilers.stock_tensors import StockLayer

Array = np.ndarray[Any, Any]


def qwen3(plan: Plan, room: Room) -> tuple[dict[str, Any], dict[str, Array], dict[str, Any], RotaryModel]:
    """config.json, the state dict and the claim of a plan as a Qwen 3."""
    model = make_rotary(plan, room, normed=True)
    config = {
        **model.config("qwen3", "Qwen3ForCausalLM"),
        "attention_bias": False,
        "use_sliding_window": False,
        "sliding_window": None,
    }
    tensors, size = model.tensors(), model.rotary.size
    for number, layer in enumerate(model.layers):
        at = f"model.layers.{number}.self_attn."
        tensors[f"{at}q_norm.weight"] = np.full(size, query_scale(layer, size))
        tensors[f"{at}k_norm.weight"] = np.ones(size)
    return config, tensors, model.claim, model


def query_scale(layer: StockLayer, size: int) -> float:
    """A power of two that makes up for the lengths of queries and keys: scores are no smaller than without norms."""
    longest = 1.0
    for q, k in zip(layer.q, layer.k):
        lengths = [float(np.sqrt((np.abs(part).sum(axis=1) ** 2).sum())) for part in (q, k)]
        longest = max(longest, lengths[0] * lengths[1] / size)
    return float(2.0 ** np.ceil(np.log2(longest)))
