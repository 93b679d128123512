"""The dense evaluator of a transformer: plain matrix products and softmax on a padded batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from kleene.common.output import Output
from kleene.errors import DidNotHalt
from kleene.networks.transformer.active_rows import Array
from kleene.networks.transformer.model import Block, Transformer
from kleene.networks.transformer.pausable import PausableRun
from kleene.networks.transformer.read_checks import check_moves, check_reads
from kleene.networks.transformer.stops import HALTED, PAUSED, WATCHED, Watch

Watcher = Callable[[int, Tensor, Tensor], None]  # called with the layer, the rows of the batch, and the residual stream


@torch.no_grad()
def run_dense(
    net: Transformer, inputs: list[list[int]], fixed: int | None, max_layers: int, check: bool, watch: Watcher | None
) -> list[Output]:
    """Run a batch for `fixed` layers; where `fixed` is None, run each sequence until it halts."""
    tokens, mask = pad(inputs, net.device)
    rows = torch.arange(len(inputs), device=net.device)
    x, layer = net.embed(tokens), 0
    results: list[Output | None] = [None] * len(inputs)
    while layer != fixed:
        if fixed is None and layer >= max_layers:
            raise DidNotHalt(f"{net.config.name}: did not halt within {max_layers:,} layers (max_layers)")
        x = _checked_layer(net, layer, x, mask) if check else net.block(layer)(x, mask)
        layer += 1
        if watch is not None:
            watch(layer, rows, x)
        if fixed is None:
            done = net.done(x, mask)
            if bool(done.any()):  # sequences leave the batch as they halt
                _collect(net, results, rows[done], x[done], mask[done], layer)
                x, mask, rows = x[~done], mask[~done], rows[~done]
            if not len(rows):
                break
    _collect(net, results, rows, x, mask, layer)
    return [result for result in results if result is not None]


def _collect(net: Transformer, results: list[Output | None], rows: Tensor, x: Tensor, mask: Tensor, layer: int) -> None:
    lengths = mask.sum(dim=1).tolist()
    for row, values, length in zip(rows.tolist(), net.read(x).tolist(), lengths):
        results[row] = Output(values[:length], layers=layer)


def _checked_layer(net: Transformer, layer: int, x: Tensor, mask: Tensor) -> Tensor:
    """Run a layer, and raise where the program would raise: at undefined reads and wrong replacements."""
    block, config = net.block(layer), net.config
    keys, values = block.keys_values(x)
    scores = block.scores(x, keys, mask)
    selected, described = block.selected(scores), net.described(layer)
    check_moves(config.name, described["moves"], x, selected, mask, layer + 1)
    x = block.first_half(block.attend(x, scores, values))
    check_reads(config.name, block.heads, described["reads"], x, selected.sum(dim=-1), mask, layer + 1)
    return block.second_half(x)


def pad(inputs: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Pad token ids to (batch, position); the mask tells real tokens from padding."""
    longest = max(len(tokens) for tokens in inputs)
    padded = [[*tokens, *[0] * (longest - len(tokens))] for tokens in inputs]
    lengths = torch.tensor([len(tokens) for tokens in inputs], device=device)
    return torch.tensor(padded, device=device), torch.arange(longest, device=device) < lengths[:, None]


class DenseRun(PausableRun):
    """Softmax over all tokens, for every row."""

    evaluator = "dense"

    def begin(self, x: Tensor) -> None:
        self.x = x[None].clone()
        self.mask = torch.ones(1, len(x), dtype=torch.bool, device=x.device)

    @torch.no_grad()
    def run(self, layers: int, watch: Watch | None = None) -> str:
        for _ in range(layers):
            if self.halted:
                break
            place = self.layers % len(self.net.blocks)
            self.layer(self.net.block(self.layers))
            self.layers += 1
            self.halted = self.done()
            if not self.halted and watch is not None and watch.sees(place, self.row):
                return WATCHED
        return HALTED if self.halted else PAUSED

    def layer(self, block: Block) -> None:
        self.x = block(self.x, self.mask)

    def done(self) -> bool:
        return self.net.config.halts and bool(self.net.done(self.x, self.mask).all())

    def residual(self) -> Tensor:
        return self.x[0].float().cpu().clone()

    def row(self, position: int) -> Array:
        return self.x[0, position].float().cpu().numpy()

    def put(self, position: int, start: int, values: Sequence[int]) -> None:
        self.x[0, position, start : start + len(values)] = torch.tensor(values, dtype=self.x.dtype)
