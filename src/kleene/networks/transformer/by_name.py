"""A transformer as data: its heads, hidden units and variables by name, with their weights.

Tensors are views of the network's weights: writing into them changes the network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch
from torch import Tensor

from kleene.common.residual import Segment
from kleene.errors import UnknownName

if TYPE_CHECKING:
    from kleene.networks.transformer.model import Transformer

Part = TypeVar("Part")


@dataclass(frozen=True, eq=False)
class HeadWeights:
    """An attention head of one block: its weights, and the dimensions that it reads and writes, by name."""

    name: str
    block: int
    index: int  # among the heads of its block
    query: Tensor  # (key size, residual)
    query_bias: Tensor
    key: Tensor
    key_bias: Tensor
    value: Tensor  # (value size, residual)
    out: Tensor  # (residual, value size)
    relative: Tensor  # a score for each offset −window − 1 … window + 1; the ends stand for all further offsets
    null_score: Tensor
    null_value: Tensor
    query_reads: tuple[str, ...]
    key_reads: tuple[str, ...]
    value_reads: tuple[str, ...]
    writes: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The heads of the program that this head implements: several where they select alike, none where it only
        clears a variable that other heads write into."""
        return () if self.name.startswith("clear ") else tuple(self.name.split("+"))

    @property
    def offsets(self) -> dict[int, float]:
        """The score of each offset within the window."""
        window = (len(self.relative) - 3) // 2
        return {offset: float(self.relative[offset + window + 1]) for offset in range(-window, window + 1)}

    def __repr__(self) -> str:
        parts = {"query": self.query_reads, "key": self.key_reads, "value": self.value_reads, "writes": self.writes}
        lines = [f"head '{self.name}' (block {self.block}, number {self.index})"]
        lines += [f"  {part:<7}{listed(names)}" for part, names in parts.items() if names]
        if bool(self.relative.any()):
            lines.append(f"  offsets {listed((f'{o:+d}: {score:g}' for o, score in self.offsets.items()), 40)}")
        return "\n".join(lines)


@dataclass(frozen=True)
class UnitWeights:
    """A hidden unit, clip(reads · x + bias), which adds `writes`; dimensions by name."""

    block: int
    half: int  # 1 or 2, of the MLP block
    index: int  # among the units of its half
    purpose: str  # the variable, head or scratch value that it is for
    why: str
    reads: dict[str, float]
    bias: float
    writes: dict[str, float]


@dataclass(frozen=True, eq=False)
class VariableWeights:
    """A variable of the program: its dimensions, its first values, and the units and heads that write it."""

    name: str
    segment: Segment
    slice: slice  # of the residual stream
    token_rows: Tensor  # (token, value): the first value that a token gives
    position_rows: Tensor | None  # (position, value): the first value that a position gives
    units: tuple[UnitWeights, ...]  # that write it
    heads: tuple[HeadWeights, ...]  # that write into it
    is_output: bool
    halts_at: str | None  # the dimension that is on when the network may halt

    @property
    def starts(self) -> str:
        """The source of its first value: token, position or nothing."""
        if self.position_rows is not None and bool(self.position_rows.any()):
            return "from the position"
        return "the same everywhere" if bool((self.token_rows == self.token_rows[0]).all()) else "from the token"

    def __repr__(self) -> str:
        s = self.segment
        lines = [f"variable '{self.name}': dimensions {s.start} … {s.stop - 1}, {s.coding}: {listed(s.labels)}"]
        lines.append(f"  starts  {self.starts}")
        writers = [f"{len(self.units)} unit{'s' * (len(self.units) != 1)}", *(f"head '{h.name}'" for h in self.heads)]
        lines.append(f"  written by {', '.join(writers)}")
        lines += ["  output"] if self.is_output else []
        lines += [f"  halts   when {self.halts_at}"] if self.halts_at else []
        return "\n".join(lines)


class Named(Mapping[str, Part], Generic[Part]):
    """Parts by name; the error for an unknown name lists the known ones."""

    def __init__(self, what: str, parts: Mapping[str, Part], also: Callable[[Any], Part | None]) -> None:
        self._what, self._parts, self._also = what, parts, also

    def __getitem__(self, name: Any) -> Part:
        found = self._parts.get(name) if isinstance(name, str) else None
        found = self._also(name) if found is None else found
        if found is None:
            raise UnknownName(f"no {self._what} is called {name!r}; choose one of {', '.join(self._parts)}")
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def __repr__(self) -> str:
        return f"{len(self)} {self._what}s: {', '.join(self)}"


def listed(names: Iterable[str], most: int = 8) -> str:
    """The first names, and how many there are in all."""
    every = list(names)
    return ", ".join(every[:most]) + (f", … ({len(every)})" if len(every) > most else "")


def every_head(net: Transformer) -> list[HeadWeights]:
    """The heads of all blocks, in order."""
    names = net.layout.names

    def used(weights: Tensor) -> tuple[str, ...]:
        return tuple(names[dim] for dim in torch.nonzero(weights.any(dim=0)).flatten().tolist())

    made = []
    for number in range(len(net.blocks)):
        block = net.block(number)
        for h, name in enumerate(block.heads):
            made.append(
                HeadWeights(
                    name,
                    number,
                    h,
                    block.query[h],
                    block.query_bias[h],
                    block.key[h],
                    block.key_bias[h],
                    block.value[h],
                    block.out[h],
                    block.relative[h],
                    block.null_score[h],
                    block.null_value[h],
                    used(block.query[h]),
                    used(block.key[h]),
                    used(block.value[h]),
                    used(block.out[h].T),
                )
            )
    return made


def every_unit(net: Transformer) -> list[UnitWeights]:
    """The hidden units of all blocks, in order."""
    names, made = net.layout.names, []
    for number in range(len(net.blocks)):
        block, said = net.block(number), net.described(number)["units"]
        halves = ((block.in1, block.bias1, block.out1), (block.in2, block.bias2, block.out2))
        for half, (into, bias, out) in enumerate(halves, start=1):
            reads, writes = _by_name(into, names), _by_name(out.T, names)
            for u, (purpose, why) in enumerate(said[half - 1]):
                made.append(UnitWeights(number, half, u, purpose, why, reads[u], float(bias[u].detach()), writes[u]))
    return made


def _by_name(rows: Tensor, names: tuple[str, ...]) -> list[dict[str, float]]:
    """The non-zero entries of each row, by dimension name."""
    made: list[dict[str, float]] = [{} for _ in range(rows.shape[0])]
    rows = rows.detach()
    for row, dim in torch.nonzero(rows).tolist():
        made[row][names[dim]] = float(rows[row, dim])
    return made


def heads_by_name(net: Transformer) -> Named[HeadWeights]:
    """Heads by their own name or by a name of the program; (name, block) picks the head of one block."""
    every = every_head(net)

    def find(name: Any) -> HeadWeights | None:
        wanted, block = name if isinstance(name, tuple) and len(name) == 2 else (name, None)
        fits = (h for h in every if wanted in (h.name, *h.names) and block in (None, h.block))
        return next(fits, None)

    first: dict[str, HeadWeights] = {}
    for head in every:
        first.setdefault(head.name, head)
    return Named("head", first, find)


def variables_by_name(net: Transformer) -> Named[VariableWeights]:
    """The variables of the program."""
    program, layout = net.description["program"], net.layout
    units, heads = every_unit(net), every_head(net)
    made = {}
    for name in program["variables"]:
        segment = layout[name]
        labels = set(segment.labels)
        placed = None if net.config.positions is None else net.position_embedding[:, segment.slice]
        halts = [
            label
            for dim, label in zip(range(segment.start, segment.stop), segment.labels)
            if float(net.halt_weight[dim])
        ]
        made[name] = VariableWeights(
            name,
            segment,
            segment.slice,
            net.token_embedding[:, segment.slice],
            placed,
            tuple(unit for unit in units if not labels.isdisjoint(unit.writes)),
            tuple(head for head in heads if not labels.isdisjoint(head.writes)),
            name == program["output"],
            halts[0] if halts else None,
        )
    return Named("variable", made, lambda name: None)


def describe(net: Transformer) -> str:
    """The text of `print(net)`."""
    c, s, program = net.config, net.sizes, net.description["program"]
    shape = {"universal": "universal transformer", "encoder": "transformer encoder", "decoder": "transformer decoder"}
    stops = "halts when " + " and ".join(sorted(v.halts_at for v in net.variables.values() if v.halts_at))
    ends = stops if c.halts else f"{c.layers} layers" if c.layers is not None else "as many layers as asked for"
    if c.max_tokens is not None:
        ends += f" a token, at most {c.max_tokens} tokens"
    lengths = [limit for limit in (c.positions, c.max_length) if limit is not None]
    blocks = len(net.blocks)
    taking = f"{len(c.cycle)} blocks that take turns" if len(c.cycle) > 1 else f"{blocks} block{'s'[: blocks > 1]}"
    heads = [*program["heads"], *program.get("moves", {})]
    rows = {
        "program": f"{len(program['variables'])} variables ({listed(program['variables'])}), {len(heads)} heads "
        f"({listed(heads) or 'none'}), output {program['output']}",
        "runs": ends,
        "inputs": f"{c.tokens:,} tokens, {f'at most {min(lengths):,} long' if lengths else 'of any length'}",
        "outputs": f"{c.classes} {'bits' if c.output_coding == 'bits' else 'classes'} a position",
        "sizes": f"{taking}, residual {s.residual:,}, heads {s.heads}, hidden {s.hidden:,}, "
        f"{s.parameters:,} parameters, {s.nonzero:,} of them non-zero",
        "numbers": f"{str(net.dtype).removeprefix('torch.')} on {net.device}; lowering '{net.description['lowering']}'",
        "certificate": net.certificate_text(),
    }
    return "\n".join([f"{c.name}: {shape[c.shape]}", *(f"  {key:<12} {text}" for key, text in rows.items())])
