"""The sparse evaluator of a transformer on a CPU: it skips the zeros of weights and activations.

It runs a relative head as a shift and any other head as an exact lookup (sparse_weights.py), and computes what the
units make of some values once (segment_tables.py). Weights of another shape raise `NotSparse`, and the dense evaluator
runs them. A sparse-matrix library would not do: almost every activation is zero as well, and these kernels only work on
those that are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from threading import Lock
from weakref import WeakKeyDictionary

import numpy as np
import torch

from kleene.common.output import Output
from kleene.errors import DidNotHalt
from kleene.networks.transformer.model import Block, Transformer
from kleene.networks.transformer.segment_tables import Embedding, SegmentTables
from kleene.networks.transformer.sparse_kernels import reading
from kleene.networks.transformer.sparse_weights import Array, FlatBlock, NotSparse, flat_half, flat_heads

MOST_VALUES = 20_000_000  # of the residual streams that run together


class SparseTransformer:
    """The weights of a transformer as the arrays that the kernels read."""

    def __init__(self, net: Transformer) -> None:
        if net.dtype not in (torch.float32, torch.float64):
            raise NotSparse(f"{net.dtype} runs dense")
        self.net, self.config = net, net.config
        self.kind = np.float32 if net.dtype == torch.float32 else np.float64
        self.token_embedding = self._numpy(net.token_embedding)
        if net.config.counted and (net.longest or MOST_VALUES) * net.config.dim > MOST_VALUES:
            raise NotSparse("positions that are counted so far that no table holds them")
        places = net.places(0, net.config.positions or net.longest or 0)
        self.position_embedding = None if places is None else self._numpy(places)
        self.ranges = [(segment.start, segment.stop) for segment in net.layout]
        self.blocks = [self._block(block) for block in net.blocks if isinstance(block, Block)]
        self._read = self._readers()
        self.tables = self._tables()

    def _readers(self) -> list[Array]:
        """The weights that read the last state: small enough to compare before every run."""
        return [self._numpy(part).copy() for part in (self.net.unembedding, self.net.halt_weight, self.net.halt_bias)]

    def follow_changes(self) -> None:
        """Make the tables anew where these weights were changed through `.data`, which leaves no trace in torch."""
        now = self._readers()
        if not all(map(np.array_equal, now, self._read)):
            self._read = now
            self.tables = self._tables()

    def _numpy(self, tensor: torch.Tensor) -> Array:
        return np.ascontiguousarray(tensor.detach().cpu().numpy().astype(self.kind))

    def _block(self, block: Block) -> FlatBlock:
        return FlatBlock(
            flat_heads(block, self.ranges, self.net.longest, self.config.causal, self.kind),
            flat_half(self._numpy(block.in1), self._numpy(block.bias1), self._numpy(block.out1)),
            flat_half(self._numpy(block.in2), self._numpy(block.bias2), self._numpy(block.out2)),
        )

    def _tables(self) -> SegmentTables:
        read = reading(self.net, self.kind)
        halting = self._numpy(self.net.halt_weight), float(self.net.halt_bias[0].detach())
        places = self.position_embedding
        places = np.zeros((1, self.config.dim), self.kind) if places is None else places
        return SegmentTables(self.blocks, self.ranges, halting, Embedding(self.token_embedding, places), read)

    def run_batch(self, inputs: Sequence[Sequence[int]], fixed: int | None, max_layers: int) -> list[Output]:
        """Run many inputs, a group of sequences at a time.

        inputs: token sequences of any lengths.
        fixed: how many layers to run; None runs each sequence until it halts.
        max_layers: raise `DidNotHalt` where a sequence needs more.
        """
        self.follow_changes()
        results: list[Output] = []
        group: list[Sequence[int]] = []
        size = 0
        for tokens in inputs:
            if group and (size + len(tokens)) * self.config.dim > MOST_VALUES:
                results += self._run(group, fixed, max_layers)
                group, size = [], 0
            group.append(tokens)
            size += len(tokens)
        return results + self._run(group, fixed, max_layers)

    def _run(self, inputs: list[Sequence[int]], fixed: int | None, max_layers: int) -> list[Output]:
        lengths = np.array([len(tokens) for tokens in inputs])
        given = np.fromiter(chain.from_iterable(inputs), np.int64, int(lengths.sum()))
        with turn(self):  # the tables grow while they run
            made = self.tables.run(given, lengths, max_layers if fixed is None else fixed, fixed is None)
        if made is None:
            raise NotSparse("a state that is not one-hot")
        outputs, layers = made[0].tolist(), made[1].tolist()
        if min(layers) < 0:
            raise DidNotHalt(f"{self.config.name}: did not halt within {max_layers:,} layers (max_layers)")
        ends = np.cumsum(lengths).tolist()
        return [Output(outputs[b - len(tokens) : b], layers=k) for tokens, b, k in zip(inputs, ends, layers)]


_TURNS: WeakKeyDictionary[SparseTransformer, Lock] = WeakKeyDictionary()  # apart, so that networks can be copied
_GIVING = Lock()


def turn(runner: SparseTransformer) -> Lock:
    """The lock of one network's tables: threads run it one after another."""
    with _GIVING:
        return _TURNS.setdefault(runner, Lock())
