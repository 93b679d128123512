"""The autoregressive loop of a decoder, with a cache of keys and values."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from kleene.common.output import Output
from kleene.networks.transformer.model import Transformer
from kleene.networks.transformer.read_checks import check_moves, check_reads


@dataclass
class Cache:
    """Keys and values of the positions so far, one pair a layer."""

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


@torch.no_grad()
def decode(net: Transformer, tokens: list[int], layers: int, check: bool, cached: bool) -> Output:
    """Append the last position's output until `stop` or `max_tokens`; return the appended tokens."""
    config, cache = net.config, Cache()
    made: list[int] = []
    fresh, run = list(tokens), 0
    while len(made) < (config.max_tokens or 1) and (config.stop is None or made[-1:] != [config.stop]):
        net.check_input(tokens + made)
        if check or not cached:
            cache, fresh = Cache(), tokens + made
        x = _extend(net, fresh, len(tokens) + len(made) - len(fresh), layers, cache, check)
        run += layers
        made.append(int(net.read(x)[0, -1]))
        fresh = made[-1:]
    return Output(made, layers=run)


def _extend(net: Transformer, fresh: list[int], start: int, layers: int, cache: Cache, check: bool) -> Tensor:
    """Run the new positions through all layers, and add their keys and values to the cache."""
    x = net.embed(torch.tensor([fresh], device=net.device), start)
    for layer in range(layers):
        block = net.block(layer)
        keys, values = cache.extend(layer, *block.keys_values(x))
        mask = torch.ones(1, keys.shape[2], dtype=torch.bool, device=x.device)
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
