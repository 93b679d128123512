"""The autoregressive loop of a decoder, with a cache of keys and values."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from kleene.common.output import Output
from kleene.errors import NotSupported
from kleene.networks.transformer.model import Transformer
from kleene.networks.transformer.read_checks import check_moves, check_reads

MOST_TOGETHER = 256  # inputs that run in one batch


@dataclass
class Cache:
    """Keys and values of the positions so far, one pair per layer."""

    keys: list[Tensor] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)

    def extend(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Append new keys and values to those of a layer; return all of them."""
        if layer == len(self.keys):
            self.keys.append(keys)
            self.values.append(values)
        else:
            self.keys[layer] = torch.cat([self.keys[layer], keys], dim=2)
            self.values[layer] = torch.cat([self.values[layer], values], dim=2)
        return self.keys[layer], self.values[layer]

    def keep(self, rows: list[int]) -> None:
        """Keep these rows of the batch."""
        self.keys = [keys[rows] for keys in self.keys]
        self.values = [values[rows] for values in self.values]


def decode_many(
    net: Transformer, inputs: list[list[int]], layers: int, check: bool, cached: bool, evaluator: str | None
) -> list[Output]:
    """Decode each input: sparse, or dense in batches of inputs of the same length. See `Transformer.decode_batch`."""
    if evaluator not in (None, "dense", "sparse"):
        raise NotSupported(f"{net.config.name}: a decoder runs 'dense' or 'sparse', not {evaluator!r}")
    if evaluator == "sparse" or (evaluator is None and net.device.type == "cpu" and cached and not check):
        from kleene.networks.transformer.sparse_decoding import decode_sparse
        from kleene.networks.transformer.sparse_weights import NotSparse

        try:
            return decode_sparse(net, inputs, layers)
        except NotSparse as why:
            if evaluator == "sparse":
                raise NotSupported(f"{net.config.name}: these weights do not run sparse ({why}); use 'dense'") from None
    groups: dict[int, list[int]] = {}
    for place, tokens in enumerate(inputs):
        groups.setdefault(place if check else -len(tokens), []).append(place)  # checks raise for one input
    made: dict[int, Output] = {}
    for places in groups.values():
        for start in range(0, len(places), MOST_TOGETHER):
            some = places[start : start + MOST_TOGETHER]
            made |= zip(some, decode(net, [inputs[place] for place in some], layers, check, cached))
    return [made[place] for place in range(len(inputs))]


@torch.no_grad()
def decode(net: Transformer, inputs: list[list[int]], layers: int, check: bool, cached: bool) -> list[Output]:
    """Append the last position's output until `stop` or `max_tokens`; the inputs have the same length."""
    config, cache = net.config, Cache()
    made: list[list[int]] = [[] for _ in inputs]
    left, fresh, run = list(range(len(inputs))), [list(tokens) for tokens in inputs], 0
    while left and run < (config.max_tokens or 1):
        so_far = [inputs[row] + made[row] for row in left]
        net.check_input(so_far[0])
        if check or not cached:
            cache, fresh = Cache(), so_far
        x = _extend(net, fresh, len(so_far[0]) - len(fresh[0]), layers, cache, check)
        run += 1
        for row, token in zip(left, net.read(x[:, -1:])[:, 0].tolist()):
            made[row].append(int(token))
        going = [place for place, row in enumerate(left) if config.stop is None or made[row][-1] != config.stop]
        if len(going) < len(left):  # sequences leave the batch as they end
            cache.keep(going)
            left = [left[place] for place in going]
        fresh = [made[row][-1:] for row in left]
    return [Output(tokens, layers=layers * len(tokens)) for tokens in made]


def _extend(net: Transformer, fresh: list[list[int]], start: int, layers: int, cache: Cache, check: bool) -> Tensor:
    """Run the new positions through all layers, and add their keys and values to the cache."""
    x = net.embed(torch.tensor(fresh, device=net.device), start)
    for layer in range(layers):
        block = net.block(layer)
        keys, values = cache.extend(layer, *block.keys_values(x))
        mask = torch.ones(len(fresh), keys.shape[2], dtype=torch.bool, device=x.device)
        scores = block.scores(x, keys, mask, start)
        described, name = net.described(layer), net.config.name
        if check:  # nothing is cached then: these are all positions
            check_moves(name, described["moves"], x, block.selected(scores), mask, layer + 1)
        x = block.first_half(block.attend(x, scores, values))
        if check:
            counts = block.selected(scores).sum(dim=-1)
            check_reads(name, block.heads, described["reads"], x, counts, mask[:, start:], layer + 1)
        x = block.second_half(x)
    return x
