"""Attention weights: what each head selects, and what it copies.

A match scores 2·gap, the null key gap, a mismatch 0 or less. The gap of most heads is GAP. A head with a preference
adds GAP · rank(offset) to every score, where |rank| is at most R up to the longest input. Its gap is (R + 1)·GAP: the
worst match beats the null key by GAP, the null key the best mismatch by GAP, and one match the next by GAP. In a head
that counts, the null key scores like a match.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from kleene.common.residual import Layout
from kleene.compilers.transformer_coding import code, code_size
from kleene.lowering.forms import Number
from kleene.machines.kinds import Kind, Numerical, Subset, Word
from kleene.machines.spec import HeadSpec, Spec
from kleene.networks.transformer.model import Block

# A match scores GAP more than the null key, the null key GAP more than a mismatch. exp(−768) is zero in
# float64 too, and a power of two is exact in every format.
GAP = 1024


@dataclass(frozen=True)
class Copy:
    """What a head adds to a segment: variables of the selected position, each with a sign.

    Where the head selects no position, it adds a default with its sign.
    """

    target: str
    kind: Kind
    sources: tuple[tuple[str, int], ...]
    default: int | None = None
    sign: int = 1
    resets: bool = False  # the sources go away, and of a one-hot variable the first value comes

    @property
    def size(self) -> int:
        return 1 if isinstance(self.kind, Numerical) else code_size(self.kind)


@dataclass(frozen=True)
class AttentionHead:
    """A head of the network: how it selects, what it copies, and which moves of the program it makes."""

    name: str
    select: HeadSpec
    copies: tuple[Copy, ...]
    moves: tuple[HeadSpec, ...] = ()


def attention_heads(spec: Spec) -> list[AttentionHead]:
    """Choose the heads of the network: one for each head of the program, and one for all moves that select alike.

    A further head, which looks at its own position, subtracts the old value where a move writes. Where the move does
    not write, it subtracts the default that the move adds there.
    """
    made = [
        AttentionHead(name, head, (Copy(name, head.kind, ((head.value, 1),), head.default),))
        for name, head in spec.heads.items()
    ]
    alike: dict[Any, list[HeadSpec]] = {}
    cleared: dict[Any, list[HeadSpec]] = {}
    reset: dict[Any, list[str]] = {}
    for clear in spec.clears.values():
        reset.setdefault(clear.where, []).extend(clear.variables)
    for head in spec.moves.values():
        alike.setdefault(head.selection, []).append(head)
        if head.replacing is None:
            cleared.setdefault(head.where, []).append(head)
    for moves in alike.values():
        copies = []
        for head in moves:
            old = () if head.replacing is None else ((head.replacing, -1),)
            copies.append(Copy(head.into or "", head.kind, ((head.value, 1), *old), head.default))
        made.append(AttentionHead("+".join(head.name for head in moves), moves[0], tuple(copies), tuple(moves)))
    for where in dict.fromkeys([*cleared, *reset]):
        moves, zeroed = cleared.get(where, []), reset.get(where, [])
        names = [head.into or "" for head in moves] + zeroed
        own = HeadSpec("", None, None, names[0], frozenset([0]), None, spec.kinds[names[0]], where)
        away = [
            Copy(name, head.kind, ((name, -1),), head.default if where else None, -1)
            for name, head in zip(names, moves)
        ]
        away += [Copy(name, spec.kinds[name], ((name, -1),), resets=True) for name in zeroed]
        made.append(AttentionHead("clear " + "+".join(names), own, tuple(away)))
    return made


def fill_attention(block: Block, spec: Spec, layout: Layout) -> None:
    """Fill in the weights. A match scores 2·gap, the null key gap, a mismatch 0 or less."""
    for h, attention in enumerate(attention_heads(spec)):
        head = attention.select
        gap = gap_of(head, block.window)
        block.null_score[h] = 2 * gap if head.counts else gap
        if head.key is None or head.query is None:
            block.relative[h] = 2 * gap if head.offsets is None else 0
            for offset in head.offsets or ():
                block.relative[h, offset + block.window + 1] = 2 * gap
        else:
            fill_match(block, h, spec, head, layout, gap)
            if head.offsets is not None:
                block.relative[h] = -2 * gap
                for offset in head.offsets:
                    block.relative[h, offset + block.window + 1] = 0
        if head.prefer is not None:
            block.relative[h] += GAP * torch.tensor(ranks(head, block.window)).to(block.relative)
        fill_limits(block, h, spec, head, layout, gap)
        if head.numerical:
            fill_average(block, h, spec, head, layout)
        else:
            fill_copies(block, h, attention, layout)


def ranks(head: HeadSpec, window: int) -> list[int]:
    """The ranks of the offsets −window − 1 … window + 1."""
    return [head.rank(offset) for offset in range(-window - 1, window + 2)]


def gap_of(head: HeadSpec, window: int) -> int:
    """How far a match is above the null key, and the null key above a mismatch, before ranks are added."""
    return GAP if head.prefer is None else GAP * (max(map(abs, ranks(head, window))) + 1)


def fill_match(block: Block, h: int, spec: Spec, head: HeadSpec, layout: Layout, gap: int) -> None:
    assert head.query is not None and head.key is not None
    query, key = layout[head.query], layout[head.key]
    kind = spec.kinds[head.query]
    if isinstance(kind, Word):  # bipolar bits: a match scores `bits`, and each wrong bit costs two
        for bit in range(kind.bits):
            block.query[h, bit, query.start + bit], block.query_bias[h, bit] = 2 * gap, -gap
            block.key[h, bit, key.start + bit], block.key_bias[h, bit] = 2, -1
        block.null_score[h] = (kind.bits - (not head.counts)) * gap
        return
    for place in range(key.size):
        block.key[h, place, key.start + place] = 1
    for index, value in enumerate(kind.values):
        for member in value if isinstance(kind, Subset) else (value,):
            block.query[h, member, query.start + index] = 2 * gap


def fill_limits(block: Block, h: int, spec: Spec, head: HeadSpec, layout: Layout, gap: int) -> None:
    """Let each missing limit cost 2·gap, which is more than a match scores above the null key."""
    place = 0 if head.key is None else code_size(spec.kinds[head.key])
    if head.where:
        for name, index in head.where:
            block.query[h, place, layout.place(name, index)] = 2 * gap
        block.query_bias[h, place] = -2 * gap * len(head.where)
        block.key_bias[h, place] = 1
        place += 1
    if head.among:
        for name, index in head.among:
            block.key[h, place, layout.place(name, index)] = 1
        block.key_bias[h, place] = -len(head.among)
        block.query_bias[h, place] = 2 * gap


def fill_average(block: Block, h: int, spec: Spec, head: HeadSpec, layout: Layout) -> None:
    source, target = layout[head.value], layout[head.name]
    numbers: list[Number] = [] if head.counts else list(spec.kinds[head.value].values)
    for index, number in enumerate(numbers):
        block.value[h, 0, source.start + index] = int(number * target.scale)
    block.out[h, target.start, 0] = 1
    if head.default is not None:
        block.null_value[h, 0] = int(head.kind.values[head.default] * target.scale)


def fill_copies(block: Block, h: int, head: AttentionHead, layout: Layout) -> None:
    start = 0
    for copy in head.copies:
        for place in range(copy.size):
            for name, sign in copy.sources:
                if place < layout[name].size:  # a default may be one more value than those that are copied
                    block.value[h, start + place, layout[name].start + place] = sign
            block.out[h, layout[copy.target].start + place, start + place] = 1
        if copy.resets and not isinstance(copy.kind, Word):  # the first value gets what the others lose
            first = layout[copy.target]
            block.value[h, start, first.start] = 0
            block.value[h, start, first.start + 1 : first.stop] = 1
        if copy.default is not None:
            coded = copy.sign * code(copy.kind, [copy.default])[0]
            block.null_value[h, start : start + copy.size] = coded.to(block.value.dtype)
        start += copy.size


def key_size(spec: Spec, head: HeadSpec) -> int:
    """The size of a key: the matched code, and one more place for each side with limits."""
    return (0 if head.key is None else code_size(spec.kinds[head.key])) + bool(head.where) + bool(head.among)
