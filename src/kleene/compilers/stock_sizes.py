"""Shapes of known checkpoints, to which a stock model can be padded, and what fills the room that is left.

A planted program lives in some dimensions, heads and neurons of a larger shape. The other dimensions of the residual
stream are constants, the other heads and neurons write nothing: their weights are zero, or random with outputs of zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kleene.compilers.stock_plan import Plan
from kleene.compilers.stock_tensors import StockLayer
from kleene.errors import InputError, NotSupported
from kleene.files import MAX_PARAMETERS

Array = np.ndarray[Any, Any]


MOST = 2 * MAX_PARAMETERS  # the shape of phi-3-mini has 3.6 billion


@dataclass(frozen=True)
class Size:
    """Sizes to pad to; None: as small as the program allows."""

    width: int | None = None
    layers: int | None = None
    heads: int | None = None
    head_size: int | None = None
    hidden: int | None = None


@dataclass(frozen=True)
class Room:
    """The size to pad to, and whether what is left is random; `seed` is of the random weights."""

    size: Size = Size()
    random: bool = False
    seed: int = 0


def claimed_layers(plan: Plan, count: int) -> list[list[int] | None]:
    """The program's layer and half of each layer; None for layers that add nothing."""
    made: list[list[int] | None] = [[layer.number, layer.half] for layer in plan.layers]
    return made + [None] * (count - len(made))


# public shapes; every head has its own keys and values here
SIZES = {
    "gpt2": Size(768, 12, 12, 64, 3072),
    "gpt2-medium": Size(1024, 24, 16, 64, 4096),
    "llama-160m": Size(768, 12, 12, 64, 3072),
    "llama-3.2-1b": Size(2048, 16, 32, 64, 8192),
    "qwen3-0.6b": Size(1024, 28, 16, 128, 3072),
    "phi-3-mini": Size(3072, 32, 32, 96, 8192),
}


def read_size(size: str | Mapping[str, int] | None) -> Size:
    """The size of a name, or of a mapping with the keys of `Size`."""
    if size is None:
        return Size()
    if isinstance(size, str):
        if size not in SIZES:
            raise InputError(f"size={size!r}: not known; known: {', '.join(SIZES)}, or a mapping with {_keys()}")
        return SIZES[size]
    try:
        found = Size(**{key: int(value) for key, value in dict(size).items()})
    except (TypeError, ValueError):
        raise InputError(f"size={size!r}: a mapping to whole numbers with some of {_keys()}") from None
    if any(value is not None and value < 1 for value in vars(found).values()):
        raise InputError(f"size={size!r}: every size must be at least 1")
    return found


def _keys() -> str:
    return ", ".join(Size.__dataclass_fields__)


def at_least(name: str, what: str, needed: int, given: int | None) -> int:
    """The given size, or the needed one; reject a given size that is too small."""
    if given is not None and given < needed:
        raise NotSupported(f"{name}: needs {what} {needed:,}, but the requested size has {given:,}")
    return needed if given is None else given


def need_room(plan: Plan, asked: Size, width: int, heads: int) -> None:
    """Reject a model with too many parameters, before memory is taken. `heads`: the places of all heads together."""
    neurons = max([asked.hidden or 0, *(len(layer.bias) for layer in plan.layers)])
    layers = max(asked.layers or 0, len(plan.layers))
    count = layers * width * (4 * heads + 3 * neurons) + 2 * width * plan.spec.tokens
    if count > MOST:
        raise NotSupported(f"{plan.spec.name}: about {count:,} parameters; there are at most {MOST:,}")


def idle_layer(heads: int, size: int, width: int, hidden: int) -> StockLayer:
    """A layer that adds nothing."""
    by_head = [np.zeros((heads, size, width)) for _ in range(3)]
    biases = [np.zeros((heads, size)) for _ in range(3)]
    return StockLayer(
        by_head[0],
        by_head[1],
        by_head[2],
        np.zeros((heads, width, size)),
        np.zeros((hidden, width)),
        np.zeros((hidden, width)),
        np.zeros((width, hidden)),
        biases[0],
        biases[1],
        biases[2],
        np.zeros(hidden),
    )


def fill_spare(layers: list[StockLayer], seed: int) -> None:
    """Random queries, keys, values and gates for heads and neurons that write nothing."""
    chance = np.random.default_rng(seed)
    for layer in layers:
        heads, neurons = slice(len(layer.names), None), slice(len(layer.purposes), None)
        for part in (layer.q[heads], layer.k[heads], layer.v[heads], layer.gate[neurons], layer.up[neurons]):
            part[:] = chance.normal(0, 0.02, part.shape)
