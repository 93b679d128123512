"""Programs into `Phi3ForCausalLM`: a Llama with joined projections."""

from __future__ import annotations

from typing import Any

import numpy as np

from kleene.compilers.rotary_model import RotaryModel, make_rotary
from kleene.compilers.stock_plan import Plan
from kleene.compilers.stock_sizes import Room

Array = np.ndarray[Any, Any]


def phi3(plan: Plan, room: Room) -> tuple[dict[str, Any], dict[str, Array], dict[str, Any], RotaryModel]:
    """config.json, the state dict and the claim of a plan as a Phi-3."""
    model = make_rotary(plan, room)
    config = {
        **model.config("phi3", "Phi3ForCausalLM"),
        "original_max_position_embeddings": plan.length + 1,
        "sliding_window": None,
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
    }
    config["rope_parameters"] = {**config["rope_parameters"], "partial_rotary_factor": 1.0}
    width = model.stream.width
    tensors = {
        "model.embed_tokens.weight": model.embedding,
        "model.norm.weight": np.ones(width),
        "lm_head.weight": model.unembedding,
    }
    for number, layer in enumerate(model.layers):
        at = f"model.layers.{number}."
        tensors |= {
            f"{at}input_layernorm.weight": np.ones(width),
            f"{at}post_attention_layernorm.weight": np.ones(width),
            f"{at}self_attn.qkv_proj.weight": np.concatenate(
                [part.reshape(-1, width) for part in (layer.q, layer.k, layer.v)]
            ),
            f"{at}self_attn.o_proj.weight": np.concatenate(layer.o, axis=1),
            f"{at}mlp.gate_up_proj.weight": np.concatenate([layer.gate, layer.up]),
            f"{at}mlp.down_proj.weight": layer.down,
        }
    return config, tensors, model.claim, model
