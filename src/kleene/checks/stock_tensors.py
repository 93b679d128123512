"""The tensors of stock models by role, for the checker: what a class of transformers computes, family by family.

Imports NumPy, safetensors (through kleene.checker) and nothing of the compilers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kleene.checker import Array, integer, need, read_json, read_tensors

ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "gpt2": "GPT2LMHeadModel",
    "phi3": "Phi3ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}

# what a config may say: a value, or a check of it; any other key is refused
Rule = Callable[[Any], bool]
anything: Rule = lambda value: True  # noqa: E731
whole: Rule = lambda value: type(value) is int and value >= 1  # noqa: E731
token: Rule = lambda value: value is None or (type(value) is int and value >= 0)  # noqa: E731
small: Rule = lambda value: isinstance(value, float) and 0 <= value <= 1e-9  # noqa: E731

flag: Rule = lambda value: type(value) is bool  # noqa: E731

ENDS = {"bos_token_id": token, "pad_token_id": token, "eos_token_id": token, "use_cache": flag, "dtype": anything}
ROTARY: dict[str, Any] = {
    "vocab_size": whole,
    "hidden_size": whole,
    "intermediate_size": whole,
    "num_hidden_layers": whole,
    "num_attention_heads": whole,
    "num_key_value_heads": whole,
    "head_dim": whole,
    "hidden_act": "silu",
    "max_position_embeddings": whole,
    "rms_norm_eps": small,
    "rope_parameters": lambda value: value == {"rope_type": "default", "rope_theta": value["rope_theta"]},
    "attention_dropout": 0.0,
    "tie_word_embeddings": False,
    **ENDS,
}
RULES: dict[str, dict[str, Any]] = {
    "llama": {**ROTARY, "attention_bias": False, "mlp_bias": False},
    "phi3": {
        **ROTARY,
        "original_max_position_embeddings": whole,
        "sliding_window": None,
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "rope_parameters": lambda value: (
            value == {"rope_type": "default", "rope_theta": value["rope_theta"], "partial_rotary_factor": 1.0}
        ),
    },
    "qwen3": {**ROTARY, "attention_bias": False, "use_sliding_window": False, "sliding_window": None},
    "gpt2": {
        "vocab_size": whole,
        "n_positions": whole,
        "n_ctx": whole,
        "n_embd": whole,
        "n_layer": whole,
        "n_head": whole,
        "n_inner": whole,
        "activation_function": "gelu_new",
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
        "layer_norm_epsilon": small,
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "reorder_and_upcast_attn": False,
        "add_cross_attention": False,
        "tie_word_embeddings": False,
        **ENDS,
    },
}


@dataclass(frozen=True)
class StockSaved:
    """What the checker is given: config.json, kleene.json, and the tensors in float64."""

    config: Any
    content: Any
    tensors: dict[str, Array]
    files: dict[str, Any] | None = None  # generation_config.json, tokenizer.json; None: not asked


def read_stock_folder(folder: str | Path) -> StockSaved:
    """A saved stock model, its tensors decoded from their bytes."""
    folder = Path(folder)
    files = {name: read_json(folder / name) for name in ("generation_config.json", "tokenizer.json")}
    config, content = read_json(folder / "config.json"), read_json(folder / "kleene.json")
    return StockSaved(config, content, read_tensors(folder / "model.safetensors"), files)


@dataclass(frozen=True)
class Shape:
    """The sizes of a model, whatever its config calls them."""

    width: int
    layers: int
    heads: int
    head_size: int
    hidden: int
    vocabulary: int
    positions: int | None  # rows of learned positions
    theta: float | None  # of rotary positions
    epsilon: float


@dataclass(frozen=True)
class Attention:
    """Queries, keys and values (head, place, width) with biases (head, place), and outputs (head, width, place)."""

    q: Array
    k: Array
    v: Array
    o: Array
    q_bias: Array
    k_bias: Array
    v_bias: Array
    q_norm: Array | None = None  # weights of a norm of queries, over the places of a head
    k_norm: Array | None = None


@dataclass(frozen=True)
class Mlp:
    """down · (act(gate · y + bias) * (up · y)); `up` is None where the class has no gate."""

    gate: Array
    gate_bias: Array
    up: Array | None
    down: Array


@dataclass(frozen=True)
class Norm:
    weight: Array
    bias: Array | None


@dataclass(frozen=True)
class StockNet:
    """A model's tensors by role."""

    family: str
    shape: Shape
    embedding: Array
    positions: Array | None
    norms: list[Norm]
    attention: list[Attention]
    mlp: list[Mlp]
    unembedding: Array

    @property
    def subtracts_mean(self) -> bool:
        return self.family == "gpt2"


def read_net(saved: StockSaved) -> StockNet:
    """Read a config strictly, and every tensor by its name and shape."""
    config, family = saved.config, saved.content["family"]
    need(family in RULES, f"there is no family {family!r}")
    need(config.get("model_type") == family, f"config.json is of a {config.get('model_type')!r}, not {family!r}")
    need(config.get("architectures") == [ARCHITECTURES[family]], "config.json names another class")
    check_config(config, RULES[family])
    shape = shape_of(config, family)
    taken: set[str] = set()

    def take(name: str, *size: int) -> Array:
        need(name in saved.tensors, f"the tensor '{name}' is missing")
        found = saved.tensors[name]
        need(found.shape == size, f"{name} is {found.shape}, not {size}")
        taken.add(name)
        return found

    net = read_gpt2(shape, take) if family == "gpt2" else read_rotary(family, shape, take)
    extra = sorted(saved.tensors.keys() - taken)
    need(not extra, f"there is a tensor too many: {extra[:1]}")
    return net


def check_config(config: Any, rules: dict[str, Any]) -> None:
    for key, value in config.items():
        if key in ("architectures", "model_type"):
            continue
        need(key in rules, f"config.json says '{key}', which is not known here")
        rule = rules[key]
        right = rule(value) if callable(rule) else type(value) is type(rule) and value == rule
        need(right, f"config.json has {key} = {value!r}")
    optional = {*ENDS, "num_key_value_heads"}
    for key in rules.keys() - config.keys() - optional:
        need(False, f"config.json does not say '{key}'")


def shape_of(config: Any, family: str) -> Shape:
    vocabulary = integer(config["vocab_size"], 1)
    if family == "gpt2":
        width, heads = config["n_embd"], config["n_head"]
        need(width % heads == 0, "the width is no multiple of the number of heads")
        return Shape(
            width,
            config["n_layer"],
            heads,
            width // heads,
            config["n_inner"],
            vocabulary,
            config["n_positions"],
            None,
            config["layer_norm_epsilon"],
        )
    heads = config["num_attention_heads"]
    need(config.get("num_key_value_heads", heads) == heads, "heads share keys and values")
    theta = config["rope_parameters"]["rope_theta"]
    need(isinstance(theta, float | int) and 1 <= theta < 1e30, f"rope_theta is {theta!r}")
    need(config["head_dim"] % 2 == 0, "the head size is odd")
    return Shape(
        config["hidden_size"],
        config["num_hidden_layers"],
        heads,
        config["head_dim"],
        config["intermediate_size"],
        vocabulary,
        None,
        float(theta),
        config["rms_norm_eps"],
    )


Take = Callable[..., Array]


def read_rotary(family: str, s: Shape, take: Take) -> StockNet:
    """Llama, Phi-3 and Qwen 3."""
    d, size, hidden = s.width, s.heads * s.head_size, s.hidden
    norms, attention, mlp = [], [], []
    none = np.zeros((s.heads, s.head_size))
    for number in range(s.layers):
        at = f"model.layers.{number}."
        norms.append(Norm(take(f"{at}input_layernorm.weight", d), None))
        norms.append(Norm(take(f"{at}post_attention_layernorm.weight", d), None))
        if family == "phi3":
            joined = take(f"{at}self_attn.qkv_proj.weight", 3 * size, d)
            q, k, v = joined[:size], joined[size : 2 * size], joined[2 * size :]
            both = take(f"{at}mlp.gate_up_proj.weight", 2 * hidden, d)
            gate, up = both[:hidden], both[hidden:]
        else:
            q, k, v = (take(f"{at}self_attn.{n}_proj.weight", size, d) for n in "qkv")
            gate, up = take(f"{at}mlp.gate_proj.weight", hidden, d), take(f"{at}mlp.up_proj.weight", hidden, d)
        o = take(f"{at}self_attn.o_proj.weight", d, size)
        by_head = [part.reshape(s.heads, s.head_size, d) for part in (q, k, v)]
        named = (
            [take(f"{at}self_attn.{n}_norm.weight", s.head_size) for n in "qk"] if family == "qwen3" else [None, None]
        )
        outs = o.reshape(d, s.heads, s.head_size).transpose(1, 0, 2)
        attention.append(Attention(by_head[0], by_head[1], by_head[2], outs, none, none, none, named[0], named[1]))
        mlp.append(Mlp(gate, np.zeros(hidden), up, take(f"{at}mlp.down_proj.weight", d, hidden)))
    norms.append(Norm(take("model.norm.weight", d), None))
    embedding = take("model.embed_tokens.weight", s.vocabulary, d)
    return StockNet(family, s, embedding, None, norms, attention, mlp, take("lm_head.weight", s.vocabulary, d))


def read_gpt2(s: Shape, take: Take) -> StockNet:
    """GPT-2: matrices are transposed, and have biases."""
    d, hidden = s.width, s.hidden
    norms, attention, mlp = [], [], []
    for number in range(s.layers):
        at = f"transformer.h.{number}."
        for name in ("ln_1", "ln_2"):
            norms.append(Norm(take(f"{at}{name}.weight", d), take(f"{at}{name}.bias", d)))
        joined, bias = take(f"{at}attn.c_attn.weight", d, 3 * d).T, take(f"{at}attn.c_attn.bias", 3 * d)
        parts = [joined[i * d : (i + 1) * d].reshape(s.heads, s.head_size, d) for i in range(3)]
        biases = [bias[i * d : (i + 1) * d].reshape(s.heads, s.head_size) for i in range(3)]
        outs = take(f"{at}attn.c_proj.weight", d, d).T.reshape(d, s.heads, s.head_size).transpose(1, 0, 2)
        for name in ("attn.c_proj.bias", "mlp.c_proj.bias"):
            need(not take(f"{at}{name}", d).any(), f"{at}{name} is not zero")
        attention.append(Attention(parts[0], parts[1], parts[2], outs, biases[0], biases[1], biases[2]))
        gate, gate_bias = take(f"{at}mlp.c_fc.weight", d, hidden).T, take(f"{at}mlp.c_fc.bias", hidden)
        mlp.append(Mlp(gate, gate_bias, None, take(f"{at}mlp.c_proj.weight", hidden, d).T))
    norms.append(Norm(take("transformer.ln_f.weight", d), take("transformer.ln_f.bias", d)))
    embedding, places = take("transformer.wte.weight", s.vocabulary, d), take("transformer.wpe.weight", s.positions, d)
    return StockNet("gpt2", s, embedding, places, norms, attention, mlp, take("lm_head.weight", s.vocabulary, d))
