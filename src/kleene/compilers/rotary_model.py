"""A plan as a model with RMSNorm, rotary positions and a gated MLP: what Llama, Phi-3 and Qwen 3 share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from kleene.compilers.rotary_heads import Rotary, choose_rotary, fill_rotary_head
from kleene.compilers.stock_plan import Plan
from kleene.compilers.stock_sizes import Room, at_least, claimed_layers, fill_spare, idle_layer, need_room
from kleene.compilers.stock_tensors import (
    CONSTANTS,
    StockLayer,
    Stream,
    count_heads,
    count_neurons,
    embed_tokens,
    fill_layer,
    pad,
    unembed,
)
from kleene.errors import NotSupported

Array = np.ndarray[Any, Any]

EPSILON = 1e-12  # of the norm: 1 + 1e-12 is 1 in float32


@dataclass(frozen=True)
class RotaryModel:
    """The tensors and sizes of a model, before a class names them."""

    plan: Plan
    stream: Stream
    rotary: Rotary
    heads: int
    hidden: int
    layers: list[StockLayer]
    embedding: Array
    unembedding: Array

    @property
    def claim(self) -> dict[str, Any]:
        """The place of everything: the claim that the certificate proves."""
        s = self.stream
        return {
            "place": s.place.tolist(),
            "mirror": None,
            "sink": s.sink,
            "layers": claimed_layers(self.plan, len(self.layers)),
            "heads": [layer.names for layer in self.layers],
            "neurons": [layer.purposes for layer in self.layers],
        }

    def tensors(self) -> dict[str, Array]:
        """The state dict, by the names that Llama has and the others share."""
        width = self.stream.width
        made = {
            "model.embed_tokens.weight": self.embedding,
            "model.norm.weight": np.ones(width),
            "lm_head.weight": self.unembedding,
        }
        for number, layer in enumerate(self.layers):
            at = f"model.layers.{number}."
            made |= {
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
        return made

    def config(self, kind: str, architecture: str) -> dict[str, Any]:
        """The fields of config.json that the classes share."""
        spec = self.plan.spec
        return {
            "architectures": [architecture],
            "model_type": kind,
            "vocab_size": spec.tokens + 2,
            "hidden_size": self.stream.width,
            "intermediate_size": self.hidden,
            "num_hidden_layers": len(self.layers),
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.heads,
            "head_dim": self.rotary.size,
            "hidden_act": "silu",
            "max_position_embeddings": self.plan.length + 1,
            "rms_norm_eps": EPSILON,
            "rope_parameters": {"rope_type": "default", "rope_theta": self.rotary.theta},
            "attention_dropout": 0.0,
            "tie_word_embeddings": False,
            "bos_token_id": spec.tokens,
            "pad_token_id": spec.tokens + 1,
            "eos_token_id": spec.stop,
            "use_cache": True,
        }


def make_rotary(plan: Plan, room: Room, normed: bool = False) -> RotaryModel:
    """Choose sizes as small as the plan allows, or the requested sizes, and fill in all tensors.

    `normed`: queries and keys have norms.
    """
    if plan.positions is not None:
        placed = next(name for name, v in plan.spec.variables.items() if v.by_position is not None)
        raise NotSupported(
            f"{plan.spec.name}: '{placed}' is initialised from the position, which rotary models do not tell; use "
            "to='gpt2', or heads with offsets and latest matches"
        )
    asked, name = room.size, plan.spec.name
    rotary = choose_rotary(plan, asked.head_size)
    heads = at_least(name, "heads", count_heads(plan, rotary.size), asked.heads)
    neurons = -(-max(1, *(count_neurons(plan, layer) for layer in plan.layers)) // 8) * 8
    hidden = at_least(name, "neurons", neurons, asked.hidden)
    needed = plan.room + 1 + CONSTANTS
    width = exact_width(needed, heads) if asked.width is None else at_least(name, "width", needed, asked.width)
    if exact_width(width, heads) != width:
        raise NotSupported(f"{name}: width {width}: the norm is exact at {exact_width(width, heads)} for {heads} heads")
    need_room(plan, asked, width, heads * rotary.size)
    count = at_least(name, "layers", len(plan.layers), asked.layers)
    constants = (*range(plan.room + 1, needed),)
    stream = Stream(width, plan.places, plan.room, constants)
    fill = partial(fill_rotary_head, plan, rotary, normed)
    layers = [padded(fill_layer(plan, layer, stream, heads, rotary.size, fill), hidden) for layer in plan.layers]
    layers += [idle_layer(heads, rotary.size, width, hidden) for _ in range(count - len(layers))]
    if room.random:
        fill_spare(layers, room.seed)
    return RotaryModel(plan, stream, rotary, heads, hidden, layers, embed_tokens(plan, stream), unembed(plan, stream))


def exact_width(least: int, heads: int) -> int:
    """A multiple of 8 and of the number of heads for which the mean of ones is one, also as a sum times 1 / width."""
    width = -(-least // 8) * 8
    while width % heads or np.float32(width) * (np.float32(1) / np.float32(width)) != 1:
        width += 8
    return width


def padded(layer: StockLayer, hidden: int) -> StockLayer:
    """Neurons that do nothing, up to a number."""
    layer.gate, layer.up = pad(layer.gate, 0, hidden), pad(layer.up, 0, hidden)
    layer.down, layer.gate_bias = pad(layer.down, 1, hidden), pad(layer.gate_bias, 0, hidden)
    return layer
