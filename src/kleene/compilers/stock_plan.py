"""The middle layer of the compilers into stock classes: what every layer of the model has to do, without its tensors.

A stock layer is attention, then one MLP. A layer of a program is attention, then one or two halves of an MLP block: the
second half is a stock layer of its own, whose attention does nothing. Every head selects at most one position. A head
that matches by content takes the latest match: where exactly one position matches that is the same, and where several
match the program does not read the head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
import torch

from kleene.common.residual import Layout
from kleene.compilers.transformer_attention import attention_heads
from kleene.compilers.transformer_coding import code
from kleene.errors import InputError, NotSupported
from kleene.machines.kinds import Categorical, Subset, Word
from kleene.machines.spec import HeadSpec, Spec
from kleene.networks.transformer.model import Transformer

Array = np.ndarray[Any, Any]

DEFAULT_LENGTH = 512  # positions, where neither the program nor the caller limits them
MAX_LENGTH = 1 << 16


@dataclass(frozen=True)
class PlannedHead:
    """A head: what it selects, which dimensions it copies where, and what it adds where it selects nothing.

    A dimension without a source stands for a default outside the values ("none"): only the default sets it.
    """

    name: str
    select: HeadSpec
    sources: tuple[int | None, ...]
    targets: tuple[int, ...]
    default: tuple[int, ...]

    @property
    def offset(self) -> int | None:
        """How far to the left the selected position is; None: anywhere."""
        return None if self.select.offsets is None else -min(self.select.offsets)

    @property
    def earliest(self) -> bool:
        return getattr(self.select, "prefer", None) == "earliest"

    @property
    def selection(self) -> str:
        """What tells selections apart: what is matched, limits, offset, preference."""
        s = self.select
        return repr((s.query, s.key, s.where, s.among, self.offset, self.earliest))


@dataclass(frozen=True)
class JointHead:
    """Heads that select alike are one head of the model: `lines` are the dimensions it copies, with their names."""

    select: PlannedHead
    lines: tuple[tuple[str, int | None, int, int], ...]  # (name, source, target, default)

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(name for name, _, _, _ in self.lines))

    @property
    def sources(self) -> list[int | None]:
        return [source for _, source, _, _ in self.lines]

    @property
    def targets(self) -> list[int]:
        return [target for _, _, target, _ in self.lines]

    @property
    def default(self) -> list[int]:
        return [default for _, _, _, default in self.lines]


def joined(heads: Sequence[PlannedHead], size: int) -> list[JointHead]:
    """The heads of a model's layer, each with at most `size` values: heads that select alike share."""
    made = []
    for _, alike in groupby(sorted(heads, key=lambda head: head.selection), key=lambda head: head.selection):
        group = list(alike)
        lines = [
            (head.name, *line) for head in group for line in zip(head.sources, head.targets, head.default, strict=True)
        ]
        for start in range(0, len(lines), size):
            made.append(JointHead(group[0], tuple(lines[start : start + size])))
    return made


@dataclass(frozen=True)
class PlannedLayer:
    """One layer of the model: heads, and units that add `out` · clip(`into` · x + `bias`) to the residual stream."""

    number: int  # of the program's layer
    half: int  # of its MLP block
    heads: tuple[PlannedHead, ...]
    into: Array  # (unit, dim)
    bias: Array
    out: Array  # (dim, unit)
    purposes: tuple[tuple[str, str], ...] = field(default=())


@dataclass(frozen=True)
class Plan:
    """A decoder as a list of layers over a residual stream of zeros and ones."""

    spec: Spec
    layout: Layout
    length: int  # of the longest sequence, with what is generated and without the first token
    tokens: Array  # (token, dim): the first values
    positions: Array | None  # (position, dim)
    layers: tuple[PlannedLayer, ...]
    outputs: tuple[int, ...]  # the dimension of each value of the output
    choices: str | None = None  # the variable that holds the set of tokens that are allowed next

    @property
    def dims(self) -> int:
        return self.layout.size

    @cached_property
    def places(self) -> Array:
        """The place of each dimension in the stream. Heads of different layers share theirs."""
        layers, found = self.spec.by_layer, np.full(self.dims, -1)
        of_heads = np.zeros(self.dims, dtype=bool)
        for name in self.spec.heads:
            of_heads[self.layout[name].slice] = True
        found[~of_heads] = np.arange(int((~of_heads).sum()))
        free = [int((~of_heads).sum())] * len(layers)  # the next place of each layer
        for name in self.spec.heads:
            here = [number for number, layer in enumerate(layers) if name in layer.heads]
            start = max((free[number] for number in here), default=0)
            found[self.layout[name].slice] = np.arange(start, start + self.layout[name].size)
            for number in here:
                free[number] = start + self.layout[name].size
        return found

    @property
    def room(self) -> int:
        """How many places there are."""
        return int(self.places.max(initial=-1)) + 1

    @property
    def offsets(self) -> tuple[int, ...]:
        """All offsets of heads, in order."""
        return tuple(sorted({h.offset for layer in self.layers for h in layer.heads if h.offset is not None}))

    def largest(self, rows: Array, bias: Array) -> Array:
        """The most that linear functions can be: one value of a variable is on, at most one of a head."""
        total = bias.astype(np.float64)
        for s in self.layout:
            part = rows[:, s.slice]
            if s.coding == "one-hot":
                best = part.max(axis=1)
                total = total + (best if s.name in self.spec.variables else np.maximum(best, 0))
            else:
                total = total + np.maximum(part, 0).sum(axis=1)
        return total

    def at_first(self, layer: PlannedLayer) -> Array:
        """The units' sums at the first token, where no variable has a value and heads have their defaults."""
        x = np.zeros(self.dims)
        for name, head in self.spec.by_layer[layer.number % len(self.spec.by_layer)].heads.items():
            if head.default is not None:
                x[self.layout[name].slice] = code(head.kind, [head.default])[0].numpy()
        result: Array = layer.into @ x + layer.bias
        return result


def make_plan(net: Transformer, length: int | None, choices: str | None = None) -> Plan:
    """Plan the layers of a compiled decoder.

    - `length`: the longest sequence, with what is generated.
    - `choices`: the variable with the set of tokens that are allowed next, if there is one.
    """
    spec = Spec.from_json(net.description["program"])
    need_plain(spec)
    limit = spec.positions or MAX_LENGTH
    longest = min(DEFAULT_LENGTH, limit) if length is None else length
    if longest < 1 or longest > limit:
        raise InputError(f"{spec.name}: length={length}; the longest sequence has 1 … {limit:,} tokens")
    layers = []
    for number in range(net.config.layers or 1):
        layers += plan_layer(net, spec, number)
    output = net.layout[spec.output]
    positions = net.position_embedding if net.config.positions is not None else None
    return Plan(
        spec,
        net.layout,
        longest,
        as_array(net.token_embedding),
        None if positions is None else as_array(positions)[:longest],
        tuple(layers),
        tuple(range(output.start, output.stop)),
        checked_choices(spec, choices),
    )


def checked_choices(spec: Spec, choices: str | None) -> str | None:
    """The variable of the tokens that are allowed next: a kl.subset of the tokens."""
    kind = None if choices is None or choices not in spec.variables else spec.kinds[choices]
    if choices is not None and (not isinstance(kind, Subset) or kind.range > spec.tokens):
        raise InputError(
            f"{spec.name}: choices = {choices!r}; it must name a variable that is a kl.subset of the tokens"
        )
    return choices


def as_array(tensor: torch.Tensor) -> Array:
    return tensor.detach().cpu().double().numpy()


def need_plain(spec: Spec) -> None:
    """Reject programs that a stock decoder cannot hold, by the name of what it lacks."""
    spec.refuse_parts("a stock model")
    if not spec.causal:
        ahead = [head.name for head in spec.heads.values() if head.offsets is None or max(head.offsets) > 0]
        if ahead:
            raise NotSupported(
                f"{spec.name}: a stock model looks only to the left, and the head '{ahead[0]}' may look to the right; "
                "declare max_tokens for a decoder, or causal = True"
            )
    if len(spec.kinds[spec.output]) > spec.tokens:
        raise NotSupported(f"{spec.name}: the output has more values than there are tokens; a stock model gives tokens")
    if spec.layers is None or spec.halt:
        raise NotSupported(f"{spec.name}: it halts by itself; give layers=, the number of layers to run")
    if not isinstance(spec.kinds[spec.output], Categorical):
        raise NotSupported(f"{spec.name}: the output '{spec.output}' is a word; a stock model gives tokens, a kl.cat")
    if spec.moves:
        raise NotSupported(f"{spec.name}: the head '{min(spec.moves)}' writes into a variable; read it in step instead")
    for head in spec.heads.values():
        if head.numerical:
            raise NotSupported(
                f"{spec.name}: the head '{head.name}' averages, or gives numbers (kl.num), which breaks the constant "
                "norm of the residual stream; use a head that selects one position, and values of kl.cat or kl.word"
            )
        if head.offsets is not None and len(head.offsets) > 1:
            raise NotSupported(
                f"{spec.name}: the head '{head.name}' has {len(head.offsets)} offsets; a stock head has one, or "
                "matches by content"
            )
        if head.offsets is None and head.key is None:
            raise NotSupported(f"{spec.name}: the head '{head.name}' selects every position; it may select only one")


def plan_layer(net: Transformer, spec: Spec, number: int) -> list[PlannedLayer]:
    """One layer of the program as one or two stock layers."""
    block, here = net.block(number), spec.by_layer[number % len(spec.by_layer)]
    said = net.described(number)["units"]
    heads = tuple(plan_head(net, head.select, head.name) for head in attention_heads(here))
    first = [block.in1, block.bias1, block.out1]
    second = [block.in2, block.bias2, block.out2]
    halves = [(1, first), (2, second)] if len(block.in1) else [(2, second)]
    return [
        PlannedLayer(
            number,
            half,
            heads if place == 0 else (),
            as_array(tensors[0]),
            as_array(tensors[1]),
            as_array(tensors[2]),
            tuple((str(purpose), str(why)) for purpose, why in said[half - 1]),
        )
        for place, (half, tensors) in enumerate(halves)
    ]


def plan_head(net: Transformer, head: HeadSpec, name: str) -> PlannedHead:
    source, target = net.layout[head.value], net.layout[name]
    if head.offsets is not None and min(head.offsets) > 0:
        raise NotSupported(f"{net.config.name}: the head '{name}' looks to the right; a decoder sees only what is left")
    default = [0] * target.size
    if head.default is not None:
        default = [int(v) for v in code(head.kind, [head.default])[0].tolist()]
    return PlannedHead(
        name,
        head,
        (*range(source.start, source.stop), *[None] * (target.size - source.size)),
        tuple(range(target.start, target.stop)),
        tuple(default),
    )


def match_codes(spec: Spec, head: HeadSpec, layout: Layout) -> tuple[Array, Array, Array]:
    """Return how a query and a key are compared: rows on the residual stream that are ±1 (query, key), and constants.

    Categorical values have binary codes, words their bits. A subset has a place for each member.
    """
    assert head.query is not None and head.key is not None
    asked, held = layout[head.query], layout[head.key]
    kind = spec.kinds[head.query]
    if isinstance(kind, Word):
        query, key = np.zeros((kind.bits, layout.size)), np.zeros((kind.bits, layout.size))
        for bit in range(kind.bits):
            query[bit, asked.start + bit] = key[bit, held.start + bit] = 2
        return query, key, np.full(kind.bits, -1.0)
    if not isinstance(kind, Categorical):
        raise NotSupported(f"{spec.name}: the head '{head.name}' asks for any of a set; ask for one value (kl.cat)")
    bits = max(1, (len(kind) - 1).bit_length())
    codes = (np.arange(len(kind))[None, :] >> np.arange(bits)[:, None] & 1) * 2.0 - 1  # (bit, value)
    query, key = np.zeros((bits, layout.size)), np.zeros((bits, layout.size))
    query[:, asked.slice], key[:, held.slice] = codes, codes
    return query, key, np.zeros(bits)
