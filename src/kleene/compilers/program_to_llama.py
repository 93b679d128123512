"""Programs into `LlamaForCausalLM`."""

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
    return config, model.tensors(), model.claim, model
