"""A transformer as a graph of nodes that write into one residual stream, on inputs, and on other inputs to interchange
with.

Sources are the input (the embedding) and the nodes: heads and groups of units, by layer. Targets are the nodes and the
output. An edge goes from a source to every target that reads the stream later. A node is interchanged where it writes
what it writes on the other input; an edge, where its target alone sees that.

There are two kinds of networks: compiled transformers, whose groups are the units that write a variable, and small
trained ones. In a compiled network some units only clear old values; they belong to the stream, not to a node: what a
source has written is gone from the stream once it is cleared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from kleene.errors import InputError
from kleene.networks.trained.stacked_transformer import StackedTransformer
from kleene.networks.transformer.model import Block, Transformer

Array = np.ndarray[Any, Any]


class Parts(Protocol):
    """A network in parts. Streams are (batch, position, dim); what nodes see and write (batch, node, position, dim)."""

    layers: int
    heads: tuple[str, ...]
    groups: tuple[str, ...]

    @property
    def token_vectors(self) -> Tensor:
        """What each token writes: (token, dim)."""

    @property
    def class_vectors(self) -> Tensor:
        """What each class reads: (class, dim)."""

    def embed(self, tokens: Tensor) -> Tensor:
        """Return what the input writes."""

    def pattern(self, layer: int, x: Tensor) -> Tensor:
        """How each head spreads over the positions, from what each sees: (batch, head, position, position)."""

    def attend(self, layer: int, x: Tensor) -> Tensor:
        """Return what each head writes, from what each sees."""

    def fire(self, layer: int, x: Tensor) -> Tensor:
        """Return what each group writes, from what each sees."""

    def after(self, layer: int, stream: Tensor) -> Tensor:
        """The stream (batch, position, dim) after all units of a layer."""

    def clear(self, layer: int, stream: Tensor, written: Tensor) -> Tensor:
        """The part of each source's writing that is left after the clearing units of a layer."""

    def constant(self, layer: int) -> Tensor | float:
        """The constant that a layer adds to the stream."""

    def logits(self, x: Tensor) -> Tensor:
        """The logits of a stream."""


@dataclass(frozen=True)
class _BlockWeights:
    """What the nodes of a layer of a compiled transformer multiply by; the first dimension is the head or the group."""

    query: Tensor  # (head, key, dim)
    query_bias: Tensor  # (head, 1, key)
    key: Tensor
    key_bias: Tensor
    relative: Tensor  # (head, offset)
    null_score: Tensor  # (head, 1, 1)
    value: Tensor  # (head, value, dim)
    out: Tensor  # (head, value, dim)
    null_value: Tensor  # (head, 1, value)
    units_in: Tensor  # (group, unit, dim)
    units_bias: Tensor  # (group, 1, unit)
    units_out: Tensor  # (group, unit, dim)


class CompiledParts:
    """A compiled transformer of a program without predicates, in parts."""

    def __init__(self, network: Transformer) -> None:
        self.network, config = network, network.config
        if config.hidden[0] or config.layers is None or len(config.cycle) != 1:
            raise InputError(f"{config.name}: its layers have predicates, take turns or halt; a graph needs plain ones")
        self.layers = config.layers
        purposes = [(str(purpose), str(why)) for purpose, why in network.described(0)["units"][-1]]
        if any(why.startswith("old") for _, why in purposes):
            raise InputError(f"{config.name}: a variable changes in place; a graph needs variables that are rewritten")
        self.groups = tuple(segment.name for segment in network.layout if segment.kind == "variable")
        self.members = [
            [k for k, (purpose, why) in enumerate(purposes) if purpose == name and not why.startswith("clear")]
            for name in self.groups
        ]
        self.clearing = [k for k, (_, why) in enumerate(purposes) if why.startswith("clear")]
        self.heads, self.values = self._heads()

    def _heads(self) -> tuple[tuple[str, ...], list[tuple[int, slice]]]:
        """The program's heads, each with its head of the network and the dimensions of its values.

        Heads that select alike share a head of the network: their values lie side by side.
        """
        sizes = {segment.name: segment.stop - segment.start for segment in self.network.layout}
        found = {}
        for k, shared in enumerate(self.network.config.heads):
            at = 0
            for name in shared.split("+"):
                found[name] = (k, slice(at, at + sizes[name]))
                at += sizes[name]
        names = tuple(segment.name for segment in self.network.layout if segment.name in found)
        return names, [found[name] for name in names]

    @property
    def token_vectors(self) -> Tensor:
        return self.network.token_embedding

    @property
    def class_vectors(self) -> Tensor:
        return self.network.unembedding

    def embed(self, tokens: Tensor) -> Tensor:
        return self.network.embed(tokens)

    @cached_property
    def weights(self) -> list[_BlockWeights]:
        """The weights of each layer by node, padded to one size."""
        return [self._weights(self.network.block(layer)) for layer in range(self.layers)]

    def _weights(self, block: Block) -> _BlockWeights:
        heads = [head for head, _ in self.values]
        value = [block.value[head, values] for head, values in self.values]
        out = [block.out[head][:, values].T for head, values in self.values]
        null = [block.null_value[head, values, None] for head, values in self.values]
        return _BlockWeights(
            block.query[heads],
            block.query_bias[heads, None],
            block.key[heads],
            block.key_bias[heads, None],
            block.relative[heads],
            block.null_score[heads, None, None],
            pad_sequence(value, batch_first=True),
            pad_sequence(out, batch_first=True),
            pad_sequence(null, batch_first=True).mT,
            pad_sequence([block.in2[units] for units in self.members], batch_first=True),
            pad_sequence([block.bias2[units, None] for units in self.members], batch_first=True).mT,
            pad_sequence([block.out2[:, units].T for units in self.members], batch_first=True),
        )

    def _spread(self, layer: int, x: Tensor) -> Tensor:
        """The attention of each head, (batch, head, position, position + 1); the last is the null key's."""
        block, w, n = self.network.block(layer), self.weights[layer], x.shape[-2]
        offsets = torch.arange(n)[None, :] - torch.arange(n)[:, None]
        reach = block.window + 1
        query = torch.einsum("bhnd,hkd->bhnk", x, w.query) + w.query_bias
        key = torch.einsum("bhnd,hkd->bhnk", x, w.key) + w.key_bias
        scores = query @ key.transpose(-1, -2) + w.relative[:, offsets.clamp(-reach, reach) + reach]
        if block.causal:
            scores = scores.masked_fill(offsets > 0, -torch.inf)
        return torch.cat([scores, w.null_score.expand(len(x), -1, n, 1)], -1).softmax(-1)

    def pattern(self, layer: int, x: Tensor) -> Tensor:
        return self._spread(layer, x)[..., :-1]

    def attend(self, layer: int, x: Tensor) -> Tensor:
        w = self.weights[layer]
        value = torch.einsum("bhnd,hvd->bhnv", x, w.value)
        value = torch.cat([value, w.null_value.expand(len(x), -1, -1, -1)], 2)
        return torch.einsum("bhnv,hvd->bhnd", self._spread(layer, x) @ value, w.out)

    def fire(self, layer: int, x: Tensor) -> Tensor:
        w = self.weights[layer]
        fired = (torch.einsum("bgnd,gud->bgnu", x, w.units_in) + w.units_bias).clamp(0, 1)
        return torch.einsum("bgnu,gud->bgnd", fired, w.units_out)

    def after(self, layer: int, stream: Tensor) -> Tensor:
        return self.network.block(layer).second_half(stream)

    def clear(self, layer: int, stream: Tensor, written: Tensor) -> Tensor:
        """A unit at 0 clears with slope 1, too, so that it clears alike in every run where values are from 0 to 1."""
        block, units = self.network.block(layer), self.clearing
        full = stream @ block.in2[units].T  # a clearing unit has no bias
        slope = torch.where(full.abs() > 1e-9, full.clamp(0, 1) / torch.where(full == 0, 1.0, full), 1.0).detach()
        parts = written @ block.in2[units].T * slope[:, None]
        return written + parts @ block.out2[:, units].T

    def constant(self, layer: int) -> Tensor | float:
        return 0.0

    def logits(self, x: Tensor) -> Tensor:
        return self.network.logits(x)


class SmallParts:
    """One small trained transformer, in parts."""

    def __init__(self, network: StackedTransformer, names: Sequence[str]) -> None:
        self.network, shape = network, network.shape
        self.layers, self.shape = shape.layers, shape
        self.heads, self.groups = tuple(names[: shape.heads]), tuple(names[shape.heads :])

    @property
    def token_vectors(self) -> Tensor:
        return self.network.token_embedding[0]

    @property
    def class_vectors(self) -> Tensor:
        return self.network.unembedding[0].T

    def embed(self, tokens: Tensor) -> Tensor:
        return self.network.embed(tokens[None])[0]

    def _read(self, layer: int, x: Tensor) -> Tensor:
        """Queries, keys and values: (which, batch, head, position, key)."""
        net, shape = self.network, self.shape
        into = net.into_heads[layer][0].view(shape.dim, 3, shape.heads, shape.key)
        bias = net.heads_bias[layer][0].view(3, shape.heads, 1, shape.key)
        found: Tensor = torch.einsum("bhnd,dwhk->wbhnk", x, into) + bias[:, None]
        return found

    def pattern(self, layer: int, x: Tensor) -> Tensor:
        query, key, _ = self._read(layer, x)
        found: Tensor = (query @ key.transpose(-1, -2) * self.shape.key**-0.5).softmax(-1)
        return found

    def attend(self, layer: int, x: Tensor) -> Tensor:
        net, shape = self.network, self.shape
        query, key, value = self._read(layer, x)
        mixed = (query @ key.transpose(-1, -2) * shape.key**-0.5).softmax(-1) @ value
        return torch.einsum("bhnk,hkd->bhnd", mixed, net.heads_out[layer][0].view(shape.heads, shape.key, shape.dim))

    def fire(self, layer: int, x: Tensor) -> Tensor:
        net, shape = self.network, self.shape
        into = net.into_units[layer][0].view(shape.dim, shape.groups, shape.units)
        bias = net.units_bias[layer][0].view(shape.groups, 1, shape.units)
        fired = (torch.einsum("bgnd,dgu->bgnu", x, into) + bias).relu()
        return torch.einsum("bgnu,gud->bgnd", fired, net.units_out[layer][0].view(shape.groups, shape.units, shape.dim))

    def after(self, layer: int, stream: Tensor) -> Tensor:
        seen = stream[:, None].expand(-1, self.shape.groups, -1, -1)
        return stream + self.fire(layer, seen).sum(1) + self.constant(layer)

    def clear(self, layer: int, stream: Tensor, written: Tensor) -> Tensor:
        return written

    def constant(self, layer: int) -> Tensor | float:
        bias: Tensor = self.network.out_bias[layer][0]
        return bias

    def logits(self, x: Tensor) -> Tensor:
        return self.network.logits(x[None])[0]


def parts_of(network: Transformer | StackedTransformer, names: Sequence[str]) -> Parts:
    """A network in parts. A network without names gets names of heads, then of groups."""
    return SmallParts(network, names) if isinstance(network, StackedTransformer) else CompiledParts(network)


Seen = Callable[[int, Tensor, Tensor], Tensor]  # (stage, what its nodes see, what sources have left) → what to use
Written = Callable[[int, Tensor], Tensor]  # (stage, what its nodes write) → what to use


@dataclass(frozen=True)
class Run:
    """The logits of a run; what every source has left in the stream at each stage; what every node has written."""

    logits: Tensor
    left: list[Tensor]  # by stage, the output last: (batch, source, position, dim)
    written: Tensor  # (batch, node, position, dim)


@dataclass(frozen=True)
class CircuitGraph:
    """A network on inputs (batch, position), and on as many others.

    Nodes are numbered as they run: the heads of the first layer, its groups, the heads of the second, and so on. Source
    0 is the input, source k + 1 is node k. Targets are the nodes, then the output.
    """

    parts: Parts
    inputs: Tensor
    others: Tensor
    tokens: int  # the number of tokens

    @cached_property
    def stages(self) -> list[range]:
        """The nodes of each stage: heads and groups in turn."""
        found, first = [], 0
        for _ in range(self.parts.layers):
            for names in (self.parts.heads, self.parts.groups):
                found.append(range(first, first + len(names)))
                first += len(names)
        return found

    @cached_property
    def names(self) -> list[str]:
        """The nodes by name and layer, as "h0@1"."""
        every = (*self.parts.heads, *self.parts.groups)
        return [f"{name}@{layer + 1}" for layer in range(self.parts.layers) for name in every]

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return len(self.names)

    @cached_property
    def edges(self) -> list[tuple[int, int]]:
        """(source, target) of every edge."""
        found = [(source, node) for stage in self.stages for node in stage for source in range(stage.start + 1)]
        return found + [(source, self.nodes) for source in range(self.nodes + 1)]

    @cached_property
    def edge_names(self) -> list[tuple[str, str]]:
        """The edges by the names of their ends."""
        sources, targets = ["input", *self.names], [*self.names, "output"]
        return [(sources[source], targets[target]) for source, target in self.edges]

    def on(self, inputs: Tensor, others: Tensor) -> CircuitGraph:
        """The same network on other pairs."""
        return CircuitGraph(self.parts, inputs, others, self.tokens)

    def run(
        self,
        tokens: Tensor,
        *,
        seen: Seen | None = None,
        written: Written | None = None,
        given: Tensor | None = None,
        start: int = 0,
        apart: bool = True,
    ) -> Run:
        """Run the network.

        - `tokens`: (batch, position).
        - `seen`: changes what the nodes of a stage see, (batch, node, position, dim); the output is the last stage.
        - `written`: changes what the nodes of a stage write.
        - `given`: what the input writes, instead of the embedding of the tokens.
        - `start`: begin at this stage of the run on the inputs.
        - `apart`: keep what each source has left; otherwise `seen` and the run have the sum alone, in less time.
        """
        parts, left, wrote = self.parts, list[Tensor](), list[Tensor]()
        rest: Tensor | float = 0.0  # the part that no source has written
        if start:
            sources, left = self.clean.left[start], self.clean.left[:start]
            wrote = [self.clean.written[:, : self.stages[start - 1].stop]]
            for layer in range(start // 2):
                rest = rest + parts.constant(layer)
        else:
            sources = (parts.embed(tokens) if given is None else given)[:, None]  # (batch, source, position, dim)
        for stage in range(start, len(self.stages)):
            layer, units = divmod(stage, 2)
            sources = sources if apart else sources.sum(1, keepdim=True)
            left.append(sources)
            stream = sources.sum(1) + rest
            x = stream[:, None].expand(-1, len(self.stages[stage]), -1, -1)
            x = x if seen is None else seen(stage, x, sources)
            out = parts.fire(layer, x) if units else parts.attend(layer, x)
            wrote.append(out if written is None else written(stage, out))
            if units:
                sources = parts.clear(layer, stream, sources)
                rest = rest + parts.constant(layer)
            sources = torch.cat([sources, wrote[-1]], 1)
        left.append(sources)
        x = (sources.sum(1) + rest)[:, None]
        x = x if seen is None else seen(len(self.stages), x, sources)
        return Run(parts.logits(x[:, 0]), left, torch.cat(wrote, 1))

    @cached_property
    def clean(self) -> Run:
        """The run on the inputs."""
        with torch.no_grad():
            return self.run(self.inputs)

    @cached_property
    def other(self) -> Run:
        """The run on the other inputs."""
        with torch.no_grad():
            return self.run(self.others)

    def targets(self, stage: int) -> slice:
        """The targets of a stage; the output is the last stage."""
        nodes = self.stages[stage] if stage < len(self.stages) else range(self.nodes, self.nodes + 1)
        return slice(nodes.start, nodes.stop)

    def with_nodes(self, chosen: Tensor, instead: Tensor | None = None) -> Tensor:
        """The logits if chosen nodes (node,) write their values on the other inputs, or `instead` (batch, node, …)."""
        fresh = self.other.written if instead is None else instead

        def written(stage: int, out: Tensor) -> Tensor:
            these = self.targets(stage)
            return torch.where(chosen[these, None, None], fresh[:, these], out)

        return self.run(self.inputs, written=written, start=self._first(chosen), apart=False).logits

    def _first(self, targets: Tensor) -> int:
        """The first stage with some of the targets (target,)."""
        found = targets.nonzero()
        return self._stage(int(found[0]) if len(found) else self.nodes)

    def _stage(self, target: int) -> int:
        """The stage of a target."""
        return next((k for k, nodes in enumerate(self.stages) if target < nodes.stop), len(self.stages))

    def with_edges(self, weights: Tensor) -> Tensor:
        """The logits where each edge is interchanged by a weight from 0 to 1: (source, target).

        A target sees of each source what it leaves in this run, moved by the weight to what it leaves on the others.
        """

        def seen(stage: int, x: Tensor, sources: Tensor) -> Tensor:
            into = weights[: sources.shape[1], self.targets(stage)]
            return x + torch.einsum("bsnd,st->btnd", self.other.left[stage] - sources, into)

        return self.run(self.inputs, seen=seen, start=self._first(weights.detach().any(0))).logits

    def with_edge(self, source: int, target: int) -> Tensor:
        """The logits if one edge is interchanged: only the target sees what the source leaves on the other inputs."""
        at = self._stage(target)
        change = self.other.left[at][:, source] - self.clean.left[at][:, source]

        def seen(stage: int, x: Tensor, sources: Tensor) -> Tensor:
            if stage != at:
                return x
            x = x.clone()
            x[:, target - self.targets(stage).start] += change
            return x

        return self.run(self.inputs, seen=seen, start=at, apart=False).logits

    def edge_mask(self, chosen: Array) -> Tensor:
        """One value per edge, in the order of `edges`, as a matrix (source, target)."""
        found = torch.zeros(self.nodes + 1, self.nodes + 1, dtype=self.inputs_dtype)
        source, target = (torch.tensor(side) for side in zip(*self.edges))
        found[source, target] = torch.as_tensor(chosen, dtype=self.inputs_dtype)
        return found

    @property
    def inputs_dtype(self) -> torch.dtype:
        """The number format of the network."""
        return self.clean.logits.dtype
