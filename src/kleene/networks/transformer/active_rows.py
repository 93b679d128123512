"""Which rows of the residual stream can change, read from the weights.

In a computer almost nothing happens: the processor works, and one word of memory is written. A row is at rest
where no head looks from it and its units together change nothing, whatever is written into it. Evaluators that
leave such rows alone compute the same as one that does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from kleene.errors import NotSupported
from kleene.networks.transformer.model import Block, Transformer

Array = np.ndarray[Any, Any]
UNDERFLOW = 745.2  # exp(−745.2) is zero in float64
MOST_WORKING = 8


@dataclass(frozen=True)
class Copies:
    """What a head adds: weight × source dimension of the row selected, to a target dimension."""

    sources: Array
    targets: Array
    weights: Array


@dataclass(frozen=True)
class Lookup:
    """A hard head: from the rows in `looking`, at itself, or at the row whose key is the query's word.

    Where `looking` is None every row looks, and only the row `seen` is looked at."""

    number: int
    looking: tuple[int, ...] | None
    seen: int | None
    query: tuple[int, ...]  # dimensions of the query's bits, lowest first; none: it looks at itself
    key: tuple[int, ...]
    copies: Copies


@dataclass(frozen=True)
class ActiveRows:
    """The rows that work, and the heads of each block as lookups."""

    working: tuple[int, ...]
    blocks: tuple[tuple[Lookup, ...], ...]
    resting_done: bool  # whether every row at rest has the halt value


def find_active_rows(net: Transformer, x: torch.Tensor) -> ActiveRows:
    """What can change in a run that starts from the residual stream `x` (position, dim)."""
    if net.config.causal:
        raise NotSupported(f"{net.config.name}: a causal network has no rows at rest; use 'dense'")
    blocks = [block for block in net.blocks if isinstance(block, Block)]
    start = x.detach().double().cpu().numpy()
    written = _written(blocks)
    heads = [[_lookup(net, block, h, start, written) for h in range(len(block.heads))] for block in blocks]
    looking = {row for lookups in heads for head in lookups for row in head.looking or ()}
    reached = np.zeros(start.shape[1], dtype=bool)  # dimensions that may change at rest
    for lookups in heads:
        for head in lookups:
            if head.looking is None:
                reached[head.copies.targets] = True
    working = sorted(looking | set(np.nonzero(_can_work(blocks, start, reached))[0].tolist()))
    if len(working) > MOST_WORKING:
        raise NotSupported(
            f"{net.config.name}: {len(working):,} of {len(start):,} rows can change in every layer; use 'dense'"
        )
    if any(head.looking is None and head.seen not in working for lookups in heads for head in lookups):
        raise NotSupported(f"{net.config.name}: a row at rest is looked at by every row; use 'dense'")
    rest = np.ones(len(start), dtype=bool)
    rest[working] = False
    halt, bias = net.halt_weight.double().cpu().numpy(), float(net.halt_bias)
    if reached[np.nonzero(halt)[0]].any():
        raise NotSupported(f"{net.config.name}: rows at rest decide when it halts; use 'dense'")
    return ActiveRows(
        tuple(working), tuple(tuple(lookups) for lookups in heads), bool((start[rest] @ halt + bias > 0).all())
    )


def _written(blocks: list[Block]) -> Array:
    """The dimensions that some head or unit writes."""
    found = torch.zeros(blocks[0].out.shape[1], dtype=torch.bool)
    for block in blocks:
        found |= (block.out != 0).any(dim=2).any(dim=0).cpu()
        found |= (block.out1 != 0).any(dim=1).cpu() | (block.out2 != 0).any(dim=1).cpu()
    return found.numpy()


def _can_work(blocks: list[Block], x: Array, reached: Array) -> Array:
    """The rows that the units of some block change: for whatever is in the dimensions that are reached, 0 … 1."""
    works = np.zeros(len(x), dtype=bool)
    fixed = np.where(reached, 0, x)
    for block in blocks:
        after = fixed
        for into, bias, out in ((block.in1, block.bias1, block.out1), (block.in2, block.bias2, block.out2)):
            weights = into.double().cpu().numpy()
            least = after @ weights.T + bias.double().cpu().numpy()
            sure = ~weights[:, reached].any(axis=1)  # the others must be off
            works |= (least + np.maximum(weights[:, reached], 0).sum(axis=1) > 0)[:, ~sure].any(axis=1)
            after = after + np.clip(least[:, sure], 0, 1) @ out.double().cpu().numpy().T[sure]
        works |= (after != fixed).any(axis=1)
    return works


def _lookup(net: Transformer, block: Block, h: int, x: Array, written: Array) -> Lookup:
    """One head, or NotSupported where it is no lookup of the kinds that are known here."""

    def refuse(why: str) -> NotSupported:
        return NotSupported(f"{net.config.name}: the head '{block.heads[h]}' {why}; use 'dense'")

    one = {
        name: getattr(block, name)[h].double().cpu().numpy()
        for name in ("query", "query_bias", "key", "key_bias", "relative", "null_score", "null_value", "value", "out")
    }
    if one["null_value"].any():
        raise refuse("has a default")
    query, query_bias, key, key_bias = one["query"], one["query_bias"], one["key"], one["key_bias"]
    match, limits = [], {"looking": np.zeros(len(x)), "seen": np.zeros(len(x))}  # what a row lacks costs
    limited = {"looking": False, "seen": False}
    for place in range(len(query)):
        reads, keeps = query[place].any(), key[place].any()
        if reads and keeps:
            match.append(place)
        elif reads or keeps:
            side = "looking" if reads else "seen"
            row, bias = (query[place], query_bias[place]) if reads else (key[place], key_bias[place])
            times = key_bias[place] if reads else query_bias[place]
            if written[np.nonzero(row)[0]].any():
                raise refuse("is limited by something that changes")
            limits[side] += (x @ row + bias) * times
            limited[side] = True
        elif query_bias[place] * key_bias[place]:
            raise refuse("has a constant score")
    null, relative, window = float(one["null_score"]), one["relative"], block.window
    bits = [_bit(one, place) for place in match]
    if None in bits or len({bit[2] for bit in bits}) > 1:
        raise refuse("does not match bits")
    scale = bits[0][2] if bits else 0.0
    best = scale * len(bits) + (relative.max() if not bits else 0)
    if bits and relative.any():
        raise refuse("matches and is limited to offsets")
    elsewhere = np.delete(relative, window + 1)
    if not bits and (elsewhere.max() >= null or relative[window + 1] <= null):
        raise refuse("looks at other positions by offset")
    lost = 2 * scale if bits else best - float(elsewhere.max())
    for cost in limits.values():  # a limit costs nothing, or enough
        if not ((cost == 0) | (best + cost < null - UNDERFLOW)).all():
            raise refuse("is not hard")
    if best - null < UNDERFLOW or null - (best - lost) < UNDERFLOW:
        raise refuse("is not hard")
    dims = (tuple(int(bit[0]) for bit in bits), tuple(int(bit[1]) for bit in bits))
    through = one["out"] @ one["value"]
    targets, sources = np.nonzero(through)
    copies = Copies(sources, targets, through[targets, sources])
    if limited["looking"]:
        if limited["seen"] or written[list(dims[1])].any():
            raise refuse("looks for something that changes")
        return Lookup(h, tuple(np.nonzero(limits["looking"] == 0)[0].tolist()), None, *dims, copies)
    seen = np.nonzero(limits["seen"] == 0)[0]
    if len(seen) != 1 or not bits or written[list(dims[0])].any():
        raise refuse("looks from every row")
    return Lookup(h, None, int(seen[0]), *dims, copies)


def _bit(one: dict[str, Array], place: int) -> Any:
    """Where a place of the key matches one bit: the bit's dimensions, and what a match is worth."""
    query, key = one["query"][place], one["key"][place]
    (q, *more), (k, *others) = np.nonzero(query)[0], np.nonzero(key)[0]
    scale = query[q] / 2
    fits = key[k] == 2 and one["key_bias"][place] == -1 and one["query_bias"][place] == -scale
    return (q, k, scale) if fits and not more and not others else None


def words_held(x: Array, dims: tuple[int, ...]) -> Array:
    """The words that some dimensions hold, a row each."""
    held: Array = (x[:, list(dims)].astype(np.int64) << np.arange(len(dims))).sum(axis=1)
    return held


def row_by_word(net: Transformer, x: Array, dims: tuple[int, ...]) -> Array:
    """Map each word to the row that holds it in these dimensions, or −1."""
    found = words_held(x, dims)
    if len(np.unique(found)) < len(found):
        raise NotSupported(f"{net.config.name}: two rows have the same key; use 'dense'")
    table = np.full(1 << len(dims), -1, dtype=np.int32)
    table[found] = np.arange(len(found))
    return table
