"""The dense evaluator of a transformer: plain matrix products and softmax, many inputs at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from kleene.common.output import Output
from kleene.errors import DidNotHalt
from kleene.networks.transformer.model import Transformer
from kleene.networks.transformer.read_checks import check_moves, check_reads

Watch = Callable[[int, Tensor, Tensor], None]


@torch.no_grad()
def run_dense(
    net: Transformer, inputs: list[list[int]], fixed: int | None, max_layers: int, check: bool, watch: Watch | None
) -> list[Output]:
    """Outputs after `fixed` layers, or where that is None, of each sequence when it halts."""
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
            if bool(done.any()):  # finished sequences leave the batch
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
    """A layer that counts what each head selects, and raises where the program would read nothing."""
    block, config = net.block(layer), net.config
    keys, values = block.keys_values(x)
    scores = block.scores(x, keys, mask)
    selected, described = scores > block.null_score[None, :, None, None], net.described(layer)
    check_moves(config.name, described["moves"], x, selected, mask, layer + 1)
    x = block.first_half(block.attend(x, scores, values))
    check_reads(config.name, block.heads, described["reads"], x, selected.sum(dim=-1), mask, layer + 1)
    return block.second_half(x)


def pad(inputs: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Token ids (batch, position) and which of them are real."""
    longest = max(len(tokens) for tokens in inputs)
    padded = [[*tokens, *[0] * (longest - len(tokens))] for tokens in inputs]
    lengths = torch.tensor([len(tokens) for tokens in inputs], device=device)
    return torch.tensor(padded, device=device), torch.arange(longest, device=device) < lengths[:, None]
