"""Programs into `LlamaForCausalLM`: the names of its tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from kleene.compilers.rotary_model import RotaryModel, make_rotary
from kleene.compilers.stock_plan import Plan
from kleene.compilers.stock_sizes import Room

Array = np.ndarray[Any, Any]


def llama(plan: Plan, room: Room) -> tuple[dict[str, Any], dict[str, Array], dict[str, Any], RotaryModel]:
    """config.json, the state dict and the claim of a plan as a Llama."""
    model = make_rotary(plan, room)
    config = {**model.config("llama", "LlamaForCausalLM"), "attention_bias": False, "mlp_bias": False}
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
            f"{at}self_attn.q_proj.weight": layer.q.reshape(-1, width),
            f"{at}self_attn.k_proj.weight": layer.k.reshape(-1, width),
            f"{at}self_attn.v_proj.weight": layer.v.reshape(-1, width),
            f"{at}self_attn.o_proj.weight": np.concatenate(layer.o, axis=1),
            f"{at}mlp.gate_proj.weight": layer.gate,
            f"{at}mlp.up_proj.weight": layer.up,
            f"{at}mlp.down_proj.weight": layer.down,
        }
    return config, tensors, model.claim, model
