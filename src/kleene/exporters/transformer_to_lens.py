"""Transformers to TransformerLens: a `HookedTransformer` or a `TransformerBridge`, every dimension named.

Layers are unrolled. The two halves of the MLP block become two blocks, the second without attention, and a clipped
unit becomes two ReLUs: clip(y) = relu(y) − relu(y − 1). The null key is a token of its own, the *sink*, which comes
first in every input. Relative scores are made from position dimensions, so that there is a longest input.

The sink's residual stream holds its own dimension and nothing else. Its query finds itself, so that what it gets in
a layer is the null values of all heads; one more unit takes that away, and no other unit is on there.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from kleene.errors import InputError, NotSupported
from kleene.exporters.export_sizes import longest_input, number_of_layers, stored_positions
from kleene.files import written_atomically
from kleene.networks.transformer.model import Block, Transformer

SELF = 4096  # how far the sink's score for itself is above its other scores
SCALE = 2.0  # of attention scores in a TransformerBridge
MAX_ENTRIES = 500_000_000  # of all weights together
FORMAT, VERSION = "kleene transformer-lens", 1


@dataclass(frozen=True)
class Lens:
    """The config and the state dict of a HookedTransformer, and the names of its parts."""

    config: dict[str, Any]
    weights: dict[str, Tensor]
    names: dict[str, Any]

    def model(self, bridge: bool | None = None) -> Any:
        """The model in TransformerLens; `model.kleene` has the names. The `transformer_lens` package must be installed.

        bridge: a TransformerBridge (TransformerLens 3.9 and 4) instead of a HookedTransformer (2 and 3); by default
            only where there is no HookedTransformer.
        """
        try:
            import transformer_lens
        except ImportError:
            raise NotSupported("transformer-lens: it is not installed; pip install transformer-lens") from None
        try:
            hooked = bool(transformer_lens.HookedTransformer)
        except (AttributeError, ImportError):  # version 4 no longer has it
            hooked = False
        if bridge is False and not hooked:
            raise NotSupported("transformer-lens: version 4 has no HookedTransformer; omit bridge=False")
        model = self._hooked() if hooked and not bridge else self._bridge()
        model.requires_grad_(False)
        object.__setattr__(model, "kleene", self.names)
        return model

    def _hooked(self) -> Any:
        from transformer_lens import HookedTransformer, HookedTransformerConfig

        config = {**self.config, "dtype": getattr(torch, self.config["dtype"])}
        with warnings.catch_warnings():  # version 3 warns that version 4 has no HookedTransformer
            warnings.simplefilter("ignore", DeprecationWarning)
            model = HookedTransformer(HookedTransformerConfig(**config))
        missing, extra = model.load_state_dict(self.weights, strict=False)
        assert not extra and all(name.endswith((".mask", ".IGNORE")) for name in missing)
        return model

    def _bridge(self) -> Any:
        """TransformerLens's own model, with these weights. It divides scores by a scale that must not be 1: queries are
        multiplied by the scale, a power of two, which changes no number."""
        try:
            from transformer_lens.config import TransformerBridgeConfig
            from transformer_lens.model_bridge.sources._bridge_builder import build_bridge_from_module
            from transformer_lens.model_bridge.sources.native import NativeModel
        except ImportError:
            raise NotSupported("transformer-lens: this version has no TransformerBridge; use 3.9 or 4") from None
        given = {name: value for name, value in self.config.items() if name not in ("use_attn_scale", "dtype")}
        dtype = getattr(torch, self.config["dtype"])
        config = TransformerBridgeConfig(**given, use_attn_scale=True, attn_scale=SCALE, dtype=dtype)
        inside = NativeModel(config).to(dtype)
        inside.load_state_dict(self.native_weights())
        return build_bridge_from_module(
            inside,
            architecture="TransformerLensNative",
            tl_config=config,
            tokenizer=None,
            dtype=dtype,
            device="cpu",
            model_name=self.config["model_name"],
        )

    def native_weights(self) -> dict[str, Tensor]:
        """The weights by the names of TransformerLens's own model: linear maps of all heads side by side."""
        w, made = self.weights, dict[str, Tensor]()
        made["tok_embed.weight"], made["pos.weight"] = w["embed.W_E"], w["pos_embed.W_pos"]
        made["head.weight"] = w["unembed.W_U"].T
        for layer in range(self.config["n_layers"]):
            old, new = f"blocks.{layer}.", f"layers.{layer}."
            for name in "QKV":
                scale = SCALE if name == "Q" else 1
                part = new + f"attn.{name.lower()}."
                made[part + "weight"] = scale * w[f"{old}attn.W_{name}"].transpose(1, 2).flatten(0, 1)
                made[part + "bias"] = scale * w[f"{old}attn.b_{name}"].flatten()
            made[new + "attn.o.weight"] = w[old + "attn.W_O"].flatten(0, 1).T
            made[new + "attn.o.bias"] = w[old + "attn.b_O"]
            for name, part in (("in", "fc_in"), ("out", "fc_out")):
                made[f"{new}mlp.{part}.weight"] = w[f"{old}mlp.W_{name}"].T
                made[f"{new}mlp.{part}.bias"] = w[f"{old}mlp.b_{name}"]
        return {name: tensor.contiguous() for name, tensor in made.items()}

    def save(self, folder: str | Path) -> None:
        """Write config.json, model.safetensors and names.json, atomically."""
        with written_atomically(folder) as beside:
            beside.mkdir()
            (beside / "model.safetensors").write_bytes(save(self.weights))
            for name, content in (("config", self.config), ("names", self.names)):
                text = json.dumps(content, indent=1, ensure_ascii=False)
                (beside / f"{name}.json").write_text(text, encoding="utf-8")


def export_lens(
    net: Transformer,
    path: str | Path | None = None,
    *,
    layers: int | None = None,
    length: int | None = None,
    bridge: bool | None = None,
) -> Any:
    """A model of TransformerLens with `layers` layers for inputs of up to `length` tokens.

    With a path, the folder is written instead, which needs no TransformerLens here.

    - `layers`: how many layers to unroll.
    - `length`: the longest input.
    - `bridge`: a `TransformerBridge` (TransformerLens 3.9 and 4) instead of a `HookedTransformer` (2 and 3); by default
      only where there is no `HookedTransformer`.
    """
    made = to_lens(net, layers, length)
    if path is None:
        return made.model(bridge)
    made.save(path)
    return made


def to_lens(net: Transformer, layers: int | None = None, length: int | None = None) -> Lens:
    """Unroll the weights."""
    net = stored_positions(net)
    count, longest = number_of_layers(net, layers), longest_input(net, length)
    shape = _Shape(net, longest)
    total = count * shape.steps * (4 * shape.heads * shape.head * shape.dim + 2 * shape.dim * shape.mlp)
    if total > MAX_ENTRIES:
        raise InputError(
            f"{net.config.name}: {count} layers of {longest} positions are {total:,} weights, more than "
            f"{MAX_ENTRIES:,}; take fewer layers= or a smaller length="
        )
    weights = shape.embeddings()
    blocks: list[dict[str, Any]] = []
    for layer in range(count):
        block, units = net.block(layer), net.described(layer)["units"]
        for half in range(3 - shape.steps, 3):
            first = half == 3 - shape.steps
            prefix = f"blocks.{len(blocks)}."
            weights |= {prefix + "attn." + k: v for k, v in shape.attention(block if first else None).items()}
            weights |= {prefix + "mlp." + k: v for k, v in shape.half(block, half, first).items()}
            blocks.append(
                {
                    "layer": layer + 1,
                    "half": half,
                    "heads": list(block.heads) if first else [],
                    "units": [f"{purpose}: {why}" for purpose, why in units[half - 1]],
                }
            )
    return Lens(shape.config(len(blocks)), weights, shape.names(blocks, count))


class _Shape:
    """The sizes of the exported model, and the weights of its parts."""

    def __init__(self, net: Transformer, length: int) -> None:
        self.net, self.length = net, length
        every = [net.block(k) for k in range(len(net.blocks))]
        self.relative = any(bool(block.relative.any()) for block in every)
        self.steps = 2 if any(len(block.bias1) for block in every) else 1  # blocks per layer
        self.sink = net.config.dim  # the dimension; the token is net.config.tokens
        self.dim = net.config.dim + 1 + (length if self.relative else 0)
        self.heads = max(1, *(len(block.heads) for block in every))
        keys = max(shape.key_size for shape in net.config.cycle) + 2 + (length if self.relative else 0)
        self.head = max(keys, *(shape.value_size for shape in net.config.cycle))
        self.mlp = 1 + 2 * max(max(shape.hidden) for shape in net.config.cycle)

    def zeros(self, *shape: int) -> Tensor:
        return torch.zeros(*shape, dtype=self.net.dtype)

    def config(self, blocks: int) -> dict[str, Any]:
        return {
            "n_layers": blocks,
            "d_model": self.dim,
            "n_ctx": self.length + 1,
            "d_head": self.head,
            "n_heads": self.heads,
            "d_mlp": self.mlp,
            "act_fn": "relu",
            "d_vocab": self.net.config.tokens + 1,
            "d_vocab_out": self.net.config.classes,
            "normalization_type": None,
            "use_attn_scale": False,
            "attention_dir": "causal" if self.net.config.causal else "bidirectional",
            "positional_embedding_type": "standard",
            "default_prepend_bos": False,
            "init_weights": False,
            "dtype": str(self.net.dtype).removeprefix("torch."),
            "device": "cpu",
            "model_name": self.net.config.name,
        }

    def names(self, blocks: list[dict[str, Any]], layers: int) -> dict[str, Any]:
        net = self.net
        positions = [f"position {p}" for p in range(self.length)] if self.relative else []
        return {
            "format": FORMAT,
            "version": VERSION,
            "program": net.config.name,
            "layers": layers,
            "length": self.length,
            "sink_token": net.config.tokens,
            "output_coding": net.config.output_coding,
            "outputs": _output_names(net),
            "residual": [*net.layout.names, "sink", *positions],
            "blocks": blocks,
        }

    def embeddings(self) -> dict[str, Tensor]:
        net, d = self.net, self.net.config.dim
        embed, place = self.zeros(net.config.tokens + 1, self.dim), self.zeros(self.length + 1, self.dim)
        embed[:-1, :d], embed[-1, self.sink] = net.token_embedding, 1
        if net.config.positions is not None:
            place[1:, :d] = net.position_embedding[: self.length]
        if self.relative:
            place[1:, d + 1 :] = torch.eye(self.length)
        out = self.zeros(self.dim, net.config.classes)
        out[:d] = net.unembedding.T
        return {
            "embed.W_E": embed,
            "pos_embed.W_pos": place,
            "unembed.W_U": out,
            "unembed.b_U": self.zeros(net.config.classes),
        }

    def attention(self, block: Block | None) -> dict[str, Tensor]:
        """The attention weights of a block; without a block, heads that add nothing.

        Keys and queries have the block's dimensions, one for the null key, one by which the sink finds itself, and one
        for each position."""
        made = {f"W_{name}": self.zeros(self.heads, self.dim, self.head) for name in "QKV"}
        made |= {f"b_{name}": self.zeros(self.heads, self.head) for name in "QKV"}
        made |= {"W_O": self.zeros(self.heads, self.head, self.dim), "b_O": self.zeros(self.dim)}
        if block is None or not block.heads:
            return made
        d, (h, k, _), v = self.net.config.dim, block.query.shape, block.value.shape[1]
        null, own, places = k, k + 1, slice(k + 2, k + 2 + self.length)
        made["W_Q"][:h, :d, :k], made["b_Q"][:h, :k] = block.query.transpose(1, 2), block.query_bias
        made["W_K"][:h, :d, :k], made["b_K"][:h, :k] = block.key.transpose(1, 2), block.key_bias
        made["W_Q"][:h, self.sink, :k], made["W_K"][:h, self.sink, :k] = -block.query_bias, -block.key_bias
        made["b_Q"][:h, null], made["W_K"][:h, self.sink, null] = 1, block.null_score
        made["W_Q"][:h, self.sink, own], made["W_K"][:h, self.sink, own] = 1, SELF + block.null_score.abs()
        if self.relative:
            made["W_Q"][:h, d + 1 :, places] = torch.eye(self.length, dtype=self.net.dtype)
            here = torch.arange(self.length)
            reach = block.window + 1
            offsets = (here[:, None] - here[None, :]).clamp(-reach, reach) + reach  # (key, query)
            made["W_K"][:h, d + 1 :, places] = block.relative[:, offsets]
        made["W_V"][:h, :d, :v], made["W_V"][:h, self.sink, :v] = block.value.transpose(1, 2), block.null_value
        made["W_O"][:h, :v, :d] = block.out.transpose(1, 2)
        return made

    def half(self, block: Block, half: int, first: bool) -> dict[str, Tensor]:
        """The MLP weights of a half: two ReLUs for each clipped unit; the last unit removes the null values from the
        sink."""
        d = self.net.config.dim
        into, bias, out = (block.in1, block.bias1, block.out1) if half == 1 else (block.in2, block.bias2, block.out2)
        got = torch.einsum("hdv,hv->d", block.out, block.null_value) if first else self.zeros(d)
        units = 2 * len(bias)
        made = {
            "W_in": self.zeros(self.dim, self.mlp),
            "b_in": self.zeros(self.mlp),
            "W_out": self.zeros(self.mlp, self.dim),
            "b_out": self.zeros(self.dim),
        }
        off = -(bias + into @ got).clamp(min=0)  # what keeps a unit off at the sink
        for start, less, sign in ((0, 0, 1), (1, 1, -1)):
            made["W_in"][:d, start:units:2], made["W_in"][self.sink, start:units:2] = into.T, off
            made["b_in"][start:units:2] = bias - less
            made["W_out"][start:units:2, :d] = sign * out.T
        made["W_in"][self.sink, -1], made["W_out"][-1, :d] = 1, -got
        return made


def _output_names(net: Transformer) -> list[str]:
    """The name of each logit: the dimension that it shows."""
    names = net.layout.names
    return [names[int(row.argmax())] for row in net.unembedding.abs()]
