"""Standard transformers, to be trained: layer norm before each part, GeLU and softmax attention.

They are encoders, or encoders with a decoder and cross-attention.

All layers share their weights, or none do. Positions are relative (per head a learned bias for each bucket of
distances, the buckets growing with the distance, one table for all layers) or absolute (learned embeddings).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F

from kleene.common.output import Output
from kleene.common.tokens import check_tokens
from kleene.errors import FileError, InputError, NotSupported, a_type
from kleene.files import MAX_PARAMETERS, check_version, read_json, written_atomically

POSITIONS = ("relative", "absolute")
BUCKETS, FURTHEST = 32, 128
CHUNK = 1024
TILE = 128  # positions that a fused kernel of attention takes at once
VERSION = 1
MAX_LAYERS = 10_000


@dataclass(frozen=True)
class StandardConfig:
    """The shape of a standard transformer. With `target_tokens` it also has a decoder with as many layers."""

    tokens: int
    classes: int
    width: int = 512
    hidden: int = 2048
    heads: int = 6
    head_size: int = 64
    layers: int = 8
    shared: bool = True
    positions: str = "relative"
    max_length: int = 64
    target_tokens: int | None = None
    name: str = "standard"

    def __post_init__(self) -> None:
        sizes = (self.tokens, self.classes, self.width, self.hidden, self.heads, self.head_size, self.layers)
        whole = all(type(size) is int and size >= 1 for size in (*sizes, self.max_length, self.target_tokens or 1))
        if not whole or self.positions not in POSITIONS:
            raise InputError(f"{self}: sizes must be whole numbers of 1 or more, and positions one of {POSITIONS}")

    @property
    def parameters(self) -> int:
        """An estimate of the number of parameters."""
        inner = self.heads * self.head_size
        block = 4 * self.width * inner + 2 * self.width * self.hidden
        blocks = (1 if self.shared else self.layers) * block * (1 if self.target_tokens is None else 3)
        return blocks + (self.tokens + self.classes + (self.target_tokens or 0) + self.max_length) * self.width


def bucket(offsets: Tensor, both_ways: bool) -> Tensor:
    """The bucket of each offset (key − query): one bucket per step when near, then even steps of the logarithm.

    >>> bucket(torch.tensor([-200, -3, 0, 3, 200]), both_ways=True).tolist()
    [15, 3, 0, 19, 31]
    """
    count = BUCKETS // 2 if both_ways else BUCKETS
    start = (offsets > 0).long() * count if both_ways else torch.zeros_like(offsets)
    distance = offsets.abs() if both_ways else (-offsets).clamp(min=0)
    near = count // 2
    far = torch.log(distance.clamp(min=1) / near) / math.log(FURTHEST / near) * (count - near)
    return start + torch.where(distance < near, distance, (near + far.long()).clamp(max=count - 1))


class _Rows(torch.autograd.Function):
    """Rows of a matrix by index. The gradient is one matrix product, which is faster where indices repeat."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, indices: Tensor) -> Tensor:
        ctx.save_for_backward(indices)
        ctx.count = len(weight)
        return weight[indices]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (indices,) = ctx.saved_tensors
        chosen = torch.arange(ctx.count, device=grad.device)[:, None] == indices.flatten()
        return chosen.to(grad.dtype) @ grad.flatten(0, -2), None


def rows(weight: Tensor, indices: Tensor) -> Tensor:
    """An embedding of few, often repeated tokens.

    >>> rows(torch.eye(3), torch.tensor([2, 0])).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    rows: Tensor = _Rows.apply(weight, indices)  # type: ignore[no-untyped-call]
    return rows


def examples_in_a_row(tokens: Tensor) -> int:
    """How many examples share a row of attention: on a GPU as many as fill a kernel's tile."""
    return max(1, TILE // tokens.shape[1]) if tokens.is_cuda else 1


def folded(x: Tensor, count: int) -> Tensor:
    """Put `count` examples one after the other: (batch, position, …) → (row, count · position, …).

    >>> folded(torch.tensor([[1, 2], [3, 4], [5, 6]]), 2).tolist()
    [[1, 2, 3, 4], [5, 6, 0, 0]]
    """
    if missing := -len(x) % count:
        x = torch.cat([x, x.new_zeros(missing, *x.shape[1:])])
    return x.reshape(-1, count * x.shape[1], *x.shape[2:])


def folded_bias(bias: Tensor, count: int) -> Tensor:
    """The same for the bias of attention, (batch, head, query, key): nothing passes between the examples of a row."""
    if missing := -len(bias) % count:
        bias = torch.cat([bias, bias.new_zeros(missing, *bias.shape[1:])])
    each = bias.unflatten(0, (-1, count)).transpose(1, 2)  # (row, head, example, query, key)
    own = torch.eye(count, dtype=torch.bool, device=bias.device)[:, None, :, None]  # (example, 1, example, 1)
    apart: Tensor = each[..., None, :].where(own, -torch.inf)
    return apart.flatten(4, 5).flatten(2, 3)


class Attention(nn.Module):
    """Multi-head attention; the bias holds relative positions and the mask (−inf)."""

    def __init__(self, config: StandardConfig) -> None:
        super().__init__()
        self.heads, inner = config.heads, config.heads * config.head_size
        self.query = nn.Linear(config.width, inner, bias=False)
        self.key_value = nn.Linear(config.width, 2 * inner, bias=False)
        self.out = nn.Linear(inner, config.width, bias=False)

    def forward(self, x: Tensor, memory: Tensor, bias: Tensor) -> Tensor:
        def split(y: Tensor) -> Tensor:
            parts: Tensor = y.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (batch, head, position, size)
            return parts

        key, value = self.key_value(memory).chunk(2, dim=-1)
        mixed = F.scaled_dot_product_attention(split(self.query(x)), split(key), split(value), bias)
        attended: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return attended


class StandardBlock(nn.Module):
    """A pre-norm layer: self-attention, optional cross-attention to the encoder, and the MLP."""

    def __init__(self, config: StandardConfig, crossed: bool) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(config.width), Attention(config)
        if crossed:
            self.norm_cross, self.cross = nn.LayerNorm(config.width), Attention(config)
        self.norm2 = nn.LayerNorm(config.width)
        self.mlp = nn.Sequential(
            nn.Linear(config.width, config.hidden), nn.GELU(), nn.Linear(config.hidden, config.width)
        )

    def forward(self, x: Tensor, bias: Tensor, memory: Tensor | None = None, cross: Tensor | None = None) -> Tensor:
        y = self.norm1(x)
        x = x + self.attention(y, y, bias)
        if memory is not None and cross is not None:
            x = x + self.cross(self.norm_cross(x), memory, cross)
        after: Tensor = x + self.mlp(self.norm2(x))
        return after


class Side(nn.Module):
    """An encoder, or a decoder: embeddings, layers, and a last layer norm."""

    def __init__(self, config: StandardConfig, tokens: int, decodes: bool) -> None:
        super().__init__()
        self.config, self.decodes = config, decodes
        self.embedding = nn.Embedding(tokens, config.width)
        self.relative = decodes or config.positions == "relative"  # the paper varies only the encoder's positions
        if self.relative:
            self.bias = nn.Embedding(BUCKETS, config.heads)
        else:
            self.places = nn.Embedding(config.max_length, config.width)
        self.blocks = nn.ModuleList(
            [StandardBlock(config, decodes) for _ in range(1 if config.shared else config.layers)]
        )
        self.norm = nn.LayerNorm(config.width)
        for embedding in (m for m in self.modules() if isinstance(m, nn.Embedding)):
            nn.init.normal_(embedding.weight, std=0.1 if embedding is getattr(self, "bias", None) else 1.0)

    def forward(
        self,
        tokens: Tensor,
        real: Tensor,
        memory: Tensor | None = None,
        cross: Tensor | None = None,
        watch: list[Tensor] | None = None,
        added: Tensor | None = None,
    ) -> Tensor:
        """(batch, position) → (batch, position, width); `watch` receives the residual stream of every layer.

        `added` (batch, position, width) joins the embeddings.
        """
        x = rows(self.embedding.weight, tokens)
        if added is not None:
            x = x + added
        bias = torch.zeros(real.shape[0], 1, 1, real.shape[1], device=x.device)
        bias = bias.masked_fill(~real[:, None, None, :], -torch.inf)
        here = torch.arange(tokens.shape[1], device=x.device)
        offsets = here[None, :] - here[:, None]  # (query, key)
        if self.relative:
            learned = rows(self.bias.weight, bucket(offsets, both_ways=not self.decodes)).permute(2, 0, 1)
            bias = bias + learned  # (batch, head, query, key)
        else:
            x = x + self.places(here)
        if self.decodes:
            bias = bias.masked_fill(offsets > 0, -torch.inf)
        lower = torch.get_autocast_dtype(x.device.type) if torch.is_autocast_enabled(x.device.type) else x.dtype
        bias = bias.to(lower)
        batch, length = tokens.shape
        if (count := examples_in_a_row(tokens)) > 1:
            x, bias = folded(x, count), folded_bias(bias.expand(batch, -1, length, -1), count)
            if memory is not None and cross is not None:
                memory, cross = folded(memory, count), folded_bias(cross.expand(-1, -1, length, -1), count)
        bias, cross = (
            bias.contiguous(),
            None if cross is None else cross.to(lower).contiguous(),
        )  # as fused kernels require
        for layer in range(self.config.layers):
            x = self.blocks[layer % len(self.blocks)](x, bias, memory, cross)
            if watch is not None:
                watch.append(x.view(-1, length, x.shape[-1])[:batch])
        x = x.view(-1, length, x.shape[-1])[:batch]
        normed: Tensor = self.norm(x)
        return normed


class StandardTransformer(nn.Module):
    """An encoder whose every position is classified, or an encoder and a decoder."""

    def __init__(self, config: StandardConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = Side(config, config.tokens, decodes=False)
        if config.target_tokens is not None:
            self.decoder = Side(config, config.target_tokens, decodes=True)
        self.out = nn.Linear(config.width, config.classes)
        self.metrics: list[dict[str, Any]] = []

    @property
    def device(self) -> torch.device:
        return self.out.weight.device

    @property
    def longest(self) -> int | None:
        """The longest input, in tokens; None: any length, where positions are relative."""
        return self.config.max_length if self.config.positions == "absolute" else None

    def extra_repr(self) -> str:
        c = self.config
        weights = "shared" if c.shared else "its own for each layer"
        return f"{c.name}, {c.layers} layers, weights {weights}, {c.positions} positions, width {c.width}"

    def forward(
        self, tokens: Tensor, real: Tensor, target: Tensor | None = None, watch: list[Tensor] | None = None
    ) -> Tensor:
        """Logits (batch, position, class): of the input's positions, or with a decoder of the target's positions.

        `target` holds the tokens that the decoder has read: position i predicts token i + 1.
        """
        memory = self.encoder(tokens, real, watch=watch)
        if target is None:
            logits: Tensor = self.out(memory)
            return logits
        cross = torch.zeros(real.shape[0], 1, 1, real.shape[1], device=real.device)
        cross = cross.masked_fill(~real[:, None, None, :], -torch.inf)
        logits = self.out(self.decoder(target, torch.ones_like(target, dtype=torch.bool), memory, cross))
        return logits

    @torch.no_grad()
    def run_batch(self, inputs: Sequence[Sequence[int]]) -> list[Output]:
        """The outputs at every position for a batch of inputs (encoders only)."""
        if self.config.target_tokens is not None:
            raise InputError(f"{self.config.name}: has a decoder; use decode")
        self.eval()
        made: list[Output] = []
        for start in range(0, len(inputs), CHUNK):
            tokens, real = padded(inputs[start : start + CHUNK], self.config, self.device)
            best = self(tokens, real).argmax(dim=-1).tolist()
            lengths = real.sum(dim=1).tolist()
            made += [Output(row[:length], layers=self.config.layers) for row, length in zip(best, lengths)]
        return made

    def run(self, tokens: Sequence[int]) -> Output:
        """The outputs of one input."""
        return self.run_batch([tokens])[0]

    @torch.no_grad()
    def decode(self, inputs: Sequence[Sequence[int]], start: int, stop: int, limit: int) -> list[list[int]]:
        """Decode greedily for each input, after `start` and until `stop` or `limit` tokens."""
        self.eval()
        tokens, real = padded(inputs, self.config, self.device)
        said = torch.full((len(inputs), 1), start, device=self.device)
        for _ in range(limit):
            best = self(tokens, real, said)[:, -1].argmax(dim=-1, keepdim=True)
            said = torch.cat([said, best], dim=1)
            if bool((said == stop).any(dim=1).all()):
                break
        rows = [row[1:] for row in said.tolist()]
        return [row[: row.index(stop)] if stop in row else row for row in rows]

    def save(self, folder: str | Path) -> None:
        """Write the network to a folder: weights.safetensors and kleene.json."""
        if type(self) is not StandardTransformer:
            raise NotSupported(f"{self.config.name}: {a_type(self)} cannot be saved; a standard transformer can")
        with written_atomically(folder) as made:
            made.mkdir()
            weights = {name: tensor.detach().cpu().contiguous() for name, tensor in self.state_dict().items()}
            save_file(weights, made / "weights.safetensors")
            content = {"kind": "standard", "version": VERSION, "config": asdict(self.config), "metrics": self.metrics}
            (made / "kleene.json").write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def padded(inputs: Sequence[Sequence[int]], config: StandardConfig, device: torch.device) -> tuple[Tensor, Tensor]:
    """Pad tokens to (batch, position); the mask tells real tokens from padding."""
    most = config.max_length if config.positions == "absolute" else None
    checked = [check_tokens(list(tokens), config.name, config.tokens, most) for tokens in inputs]
    longest = max(map(len, checked))
    rows = torch.tensor([[*tokens, *[0] * (longest - len(tokens))] for tokens in checked], device=device)
    lengths = torch.tensor([len(tokens) for tokens in checked], device=device)
    return rows, torch.arange(longest, device=device) < lengths[:, None]


def load(folder: Path) -> StandardTransformer:
    """Read a saved standard transformer (through kl.load)."""
    content = read_json(folder / "kleene.json")
    check_version(folder / "kleene.json", content, VERSION)
    try:
        config = StandardConfig(**content["config"])
        if config.parameters > MAX_PARAMETERS or config.layers > MAX_LAYERS:
            said = f"{config.parameters:,} parameters in {config.layers:,} layers"
            raise FileError(f"{folder}: {said}, more than the {MAX_PARAMETERS:,} in {MAX_LAYERS:,} allowed")
        made = StandardTransformer(config)
        made.load_state_dict(load_file(folder / "weights.safetensors"))
        made.metrics = list(content["metrics"])
    except (KeyError, TypeError, RuntimeError, OSError, SafetensorError, InputError) as error:
        raise FileError(f"{folder}: not a saved standard transformer ({str(error).splitlines()[0]})") from None
    return made.eval()
