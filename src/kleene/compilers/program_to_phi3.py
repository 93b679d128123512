"""Programs into `Phi3ForCausalLM`: a Llama with joined projections."""

from __future__ import annotations

from typing import Any

import numpy as np

from kleene.compilers.rotary_model import RotaryModel, make_rotary
from kleene.compilers.stock_plan import Plan
from kleene.compilers.stock_sizes import Room

Array = np.ndarray[Any, Any]

MLP = ("mlp.gate", "mlp.up")


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
    tensors = model.tensors()
    for number in range(len(model.layers)):
        at = f"model.layers.{number}."
        for whole, parts in (("self_attn.qkv", ("self_attn.q", "self_attn.k", "self_attn.v")), ("mlp.gate_up", MLP)):
            tensors[f"{at}{whole}_proj.weight"] = np.concatenate([tensors.pop(f"{at}{p}_proj.weight") for p in parts])
    return config, tensors, model.claim, model
