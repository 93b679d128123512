"""Programs into `GPT2LMHeadModel`: LayerNorm, learned positions, GELU.

Every dimension has a mirror that holds its negative, so that the mean is zero. LayerNorm rounds: its bias is a power of
two so large that adding it rounds the result to ±1 again, exactly (in bfloat16 the format itself does that).
Learned positions hold binary codes of the position, and of the position each offset away.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import ceil, log2
from typing import Any

import numpy as np

from kleene.compilers.rotary_model import padded
from kleene.compilers.stock_plan import Plan, PlannedHead, match_codes
from kleene.compilers.stock_sizes import Room, Size, at_least, claimed_layers, fill_spare, idle_layer, need_room
from kleene.compilers.stock_tensors import (
    CONSTANTS,
    GAP,
    Rows,
    StockLayer,
    Stream,
    by_position,
    count_heads,
    count_neurons,
    embed_tokens,
    fill_layer,
    unembed,
)
from kleene.errors import NotSupported

Array = np.ndarray[Any, Any]

EPSILON = 1e-12
LEAST_SHIFT = 512.0
MAX_WIDTH = 1 << 16


@dataclass(frozen=True)
class Places:
    """The place of the positions' codes, behind the plan's dimensions."""

    plan: Plan

    @property
    def bits(self) -> int:
        return max(1, self.plan.length.bit_length())

    @property
    def shifts(self) -> tuple[int, ...]:
        return (0, *(offset for offset in self.plan.offsets if offset))

    @property
    def dims(self) -> int:
        """The plan's dimensions, and the codes."""
        return self.plan.dims + self.bits * len(self.shifts)

    @property
    def room(self) -> int:
        """How many places of the stream they take."""
        return self.plan.room + self.bits * len(self.shifts)

    def of(self, offset: int) -> list[int]:
        """The dimensions of the code of the position that is `offset` to the left."""
        start = self.plan.dims + self.bits * self.shifts.index(offset)
        return list(range(start, start + self.bits))

    def needed(self, head: PlannedHead) -> int:
        """How many places the queries and keys of a head have."""
        bits = 0 if head.select.key is None else len(match_codes(self.plan.spec, head.select, self.plan.layout)[0])
        return 1 + bool(head.select.among) + bits + (self.bits if head.offset is not None else 1)


def gpt2(
    plan: Plan, room: Room, dtype: str = "float32"
) -> tuple[dict[str, Any], dict[str, Array], dict[str, Any], Any]:
    """config.json, the state dict and the claim of a plan as a GPT-2."""
    places = Places(plan)
    asked, name = room.size, plan.spec.name
    width, heads = choose_width(plan, places, asked)
    need_room(plan, room.size, width, heads * (width // heads))
    stream = make_stream(plan, places, width, dtype)
    neurons = -(-max(1, *(count_neurons(plan, layer) for layer in plan.layers)) // 8) * 8
    hidden = at_least(name, "neurons", neurons, asked.hidden)
    fill = partial(fill_learned_head, plan, places, width // heads)
    layers = [padded(fill_layer(plan, layer, stream, heads, width // heads, fill), hidden) for layer in plan.layers]
    count = at_least(name, "layers", len(layers), asked.layers)
    layers += [idle_layer(heads, width // heads, width, hidden) for _ in range(count - len(layers))]
    if room.random:
        fill_spare(layers, room.seed)
    tensors = {
        "transformer.wte.weight": embed_tokens(plan, stream),
        "transformer.wpe.weight": embed_positions(plan, places, stream),
        "transformer.ln_f.weight": np.ones(width),
        "transformer.ln_f.bias": np.full(width, stream.shift),
        "lm_head.weight": unembed(plan, stream),
    }
    for number, layer in enumerate(layers):
        tensors |= layer_tensors(f"transformer.h.{number}.", layer, stream)
    claim = {
        "place": stream.place[: plan.dims].tolist(),
        "mirror": None if stream.mirror is None else stream.mirror.tolist(),
        "sink": stream.sink,
        "layers": claimed_layers(plan, len(layers)),
        "heads": [layer.names for layer in layers],
        "neurons": [layer.purposes for layer in layers],
    }
    return make_config(plan, width, heads, hidden, len(layers)), tensors, claim, layers


def make_config(plan: Plan, width: int, heads: int, hidden: int, layers: int) -> dict[str, Any]:
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": plan.spec.tokens + 2,
        "n_positions": plan.length + 1,
        "n_ctx": plan.length + 1,  # converters of other tools read this name
        "n_embd": width,
        "n_layer": layers,
        "n_head": heads,
        "n_inner": hidden,
        "activation_function": "gelu_new",
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
        "layer_norm_epsilon": EPSILON,
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "reorder_and_upcast_attn": False,
        "add_cross_attention": False,
        "tie_word_embeddings": False,
        "bos_token_id": plan.spec.tokens,
        "pad_token_id": plan.spec.tokens + 1,
        "eos_token_id": plan.spec.stop,
        "use_cache": True,
    }


def layer_tensors(at: str, layer: StockLayer, stream: Stream) -> dict[str, Array]:
    """A layer by the class's names; its matrices are transposed."""
    width = stream.width
    turned = [part.reshape(-1, width).T for part in (layer.q, layer.k, layer.v)]
    biases = [part.reshape(-1) for part in (layer.q_bias, layer.k_bias, layer.v_bias)]
    return {
        f"{at}ln_1.weight": np.ones(width),
        f"{at}ln_1.bias": np.full(width, stream.shift),
        f"{at}ln_2.weight": np.ones(width),
        f"{at}ln_2.bias": np.full(width, stream.shift),
        f"{at}attn.c_attn.weight": np.concatenate(turned, axis=1),
        f"{at}attn.c_attn.bias": np.concatenate(biases),
        f"{at}attn.c_proj.weight": np.concatenate(layer.o, axis=1).T,
        f"{at}attn.c_proj.bias": np.zeros(width),
        f"{at}mlp.c_fc.weight": layer.gate.T,
        f"{at}mlp.c_fc.bias": layer.gate_bias,
        f"{at}mlp.c_proj.weight": layer.down.T,
        f"{at}mlp.c_proj.bias": np.zeros(width),
    }


def choose_width(plan: Plan, places: Places, asked: Size) -> tuple[int, int]:
    """The smallest width, or the requested one, and how many heads share it: each holds its codes and values."""
    needed = max([1, *(places.needed(head) for layer in plan.layers for head in layer.heads)])
    name, size, fixed = plan.spec.name, asked.head_size, requested_width(plan.spec.name, asked, needed)
    width = at_least(name, "width", -(-2 * (places.room + 1 + CONSTANTS) // 8) * 8, fixed)
    if width % 2:
        raise NotSupported(f"{name}: width {width}: every dimension has a mirror, so the width must be even")
    while True:
        for heads in range(1, width // needed + 1) if asked.heads is None else (asked.heads,):
            each = width // heads
            fits = width % heads == 0 and each >= needed and size in (None, each)
            if fits and count_heads(plan, each) <= heads:
                return width, heads
        if fixed is not None or width > MAX_WIDTH:
            shape = f"{asked.heads or 'any number of'} heads of {size or 'any size'}"
            raise NotSupported(f"{name}: {shape} in width {width} do not hold its heads, of {needed} places")
        width += 8


def requested_width(name: str, asked: Size, needed: int) -> int | None:
    """The width that a size asks for: by itself, or as so many heads of a size. `needed`: the places of a head."""
    heads, size = asked.heads, asked.head_size
    if size is not None and size < needed:
        raise NotSupported(f"{name}: a head needs {needed} places, but the requested size has {size}")
    both = None if heads is None or size is None else heads * size
    if both is not None and asked.width not in (None, both):
        raise NotSupported(f"{name}: {heads} heads of {size} have a width of {both} together, not {asked.width}")
    return both if asked.width is None else asked.width


def make_stream(plan: Plan, places: Places, width: int, dtype: str) -> Stream:
    """The plan's dimensions, codes of positions, the sink, constants and padding; then the mirror of each."""
    half = width // 2
    mirror = np.full(width, -1)
    mirror[:half] = np.arange(half, width)
    constants = (*range(places.room + 1, places.room + 1 + CONSTANTS),)
    place = np.concatenate([plan.places, np.arange(plan.room, places.room)])
    shift = 0.0 if dtype == "bfloat16" else LEAST_SHIFT
    while shift and 2.0 ** (log2(shift) - 24) <= norm_error(width):
        shift *= 2
    return Stream(width, place, places.room, constants, mirror, shift)


def norm_error(width: int) -> float:
    """How far LayerNorm of ±1 in float32 can be from ±1, in any order of summation."""
    return 1.25 * (width + 16) * 2.0**-24 + EPSILON


def embed_positions(plan: Plan, places: Places, stream: Stream) -> Array:
    """(position, width): codes of positions, and the first values that depend on them; the first token is before."""
    at = np.arange(plan.length + 1)
    bits = np.zeros((len(at), places.dims))
    if plan.positions is not None:
        bits[1:, : plan.dims] = plan.positions
    for offset in places.shifts:
        bits[:, places.of(offset)] = np.maximum(at - offset, 0)[:, None] >> np.arange(places.bits) & 1
    codes = np.zeros((len(at), stream.width))
    placed = by_position(plan, stream)
    codes[:, stream.place[placed]] = 2 * bits[:, placed] - 1
    return stream.mirrored(codes.T).T


def fill_learned_head(plan: Plan, places: Places, size: int, head: PlannedHead) -> tuple[Rows, Rows]:
    """Queries and keys of a head, in whole numbers."""
    queries, keys = Rows.zeros(size, places.dims), Rows.zeros(size, places.dims)
    best = worst = 0.0
    lost = np.inf
    spots = iter(range(2, size))  # 0 is the sink's, 1 is for `among`
    if head.offset is not None:  # the code of the place asked for: the first token's where there is none
        for asked, held in zip(places.of(head.offset), places.of(0)):
            spot = next(spots)
            queries.weights[spot, asked], queries.constant[spot] = 2 * GAP, -GAP
            keys.weights[spot, held], keys.constant[spot] = 2, -1
            keys.sink[spot] = 1 if head.select.key is not None else 0  # then the first token has a score of its own
        best = worst = GAP * places.bits
        lost = 2 * GAP
    if head.select.key is not None:
        gain, spread, missed = _match(plan, places, head, queries, keys, spots)
        best, worst, lost = best + gain, worst + gain - spread, min(lost, missed)
    _limits(plan, head, queries, keys, best, worst, lost)
    scale = 2.0 ** ceil(log2(size) / 2)  # at least the root of the size, by which the model divides
    return Rows(scale * queries.weights, scale * queries.constant, scale * queries.sink), keys


def _match(
    plan: Plan, places: Places, head: PlannedHead, queries: Rows, keys: Rows, spots: Any
) -> tuple[float, float, float]:
    """Compare codes, and prefer the latest: the best score, how far matches spread, what a mismatch loses."""
    query, key, constant = match_codes(plan.spec, head.select, plan.layout)
    slope = 0.0 if head.offset is not None else -GAP if head.earliest else GAP
    spread = abs(slope) * plan.length
    strength = 2.0 ** ceil(log2((spread + 4 * GAP) / 2))
    for bit in range(len(query)):
        spot = next(spots)
        queries.weights[spot, : plan.dims], queries.constant[spot] = strength * query[bit], strength * constant[bit]
        keys.weights[spot, : plan.dims], keys.constant[spot] = key[bit], constant[bit]
        keys.sink[spot] = -constant[bit]  # the first token has no code
    if slope:
        spot = next(spots)
        queries.constant[spot] = slope
        keys.weights[spot, places.of(0)] = 2.0 ** np.arange(places.bits)
    best = strength * len(query) + (spread if slope > 0 else 0.0)
    return best, spread, 2 * strength


def _limits(plan: Plan, head: PlannedHead, queries: Rows, keys: Rows, best: float, worst: float, lost: float) -> None:
    """The score of the first token, more where `where` fails; a key that `among` excludes scores less."""
    select = head.select
    level = float(np.floor((worst + best - lost) / 2 / 16) * 16)
    level = level if select.key is not None else 0.0  # an offset asks for the first token itself
    cost = float(np.ceil((best - level + 2 * GAP) / GAP) * GAP)
    queries.constant[0] = level + cost * len(select.where)
    for name, index in select.where:
        queries.weights[0, plan.layout[name].start + index] = -cost
    keys.sink[0] = 1
    if select.among:
        queries.constant[1] = cost
        keys.constant[1], keys.sink[1] = -len(select.among), len(select.among)
        for name, index in select.among:
            keys.weights[1, plan.layout[name].start + index] = 1
