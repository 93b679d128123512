"""The evaluator "rows": softmax over all tokens, for the rows that can change."""

from __future__ import annotations

import torch
from torch import Tensor

from kleene.networks.transformer.active_rows import LookupHead, find_active_rows
from kleene.networks.transformer.dense import DenseRun
from kleene.networks.transformer.model import Block


class RowsRun(DenseRun):
    """Softmax over all tokens, for the rows that can change. It computes keys that never change once."""

    evaluator = "rows"

    def begin(self, x: Tensor) -> None:
        super().begin(x)
        self.known = find_active_rows(self.net, x)
        self.sides: dict[tuple[int, int], Tensor] = {}
        for b, lookups in enumerate(self.known.blocks):
            block = self.net.block(b)
            for head in lookups:
                still = "key" if head.looking is not None else "query"
                weight, bias = getattr(block, still)[head.number], getattr(block, f"{still}_bias")[head.number]
                self.sides[b, head.number] = x @ weight.T + bias

    def layer(self, block: Block) -> None:
        b = self.layers % len(self.net.blocks)
        x, rows = self.x[0], list(self.known.working)
        for head in self.known.blocks[b]:
            if head.looking is None:  # add the rows that look at the one row that can be seen
                key = x[head.seen] @ block.key[head.number].T + block.key_bias[head.number]
                scores = self.sides[b, head.number] @ key
                rows += torch.nonzero(scores > block.null_score[head.number]).flatten().tolist()
        rows = sorted(set(rows))
        after = x[rows].clone()
        for head in self.known.blocks[b]:
            after += self._attend(block, b, head, x, rows)
        self.x[0, rows] = block.second_half(block.first_half(after))

    def _attend(self, block: Block, b: int, head: LookupHead, x: Tensor, rows: list[int]) -> Tensor:
        """Return what one head adds to `rows`: its softmax over all tokens and the null key."""
        h = head.number
        queries = x[rows] @ block.query[h].T + block.query_bias[h]
        used = block.key[h].any(dim=0)  # most dimensions are in no key
        changes = head.looking is None
        keys = x[:, used] @ block.key[h][:, used].T + block.key_bias[h] if changes else self.sides[b, h]
        offsets = torch.arange(len(x), device=x.device)[None] - torch.tensor(rows, device=x.device)[:, None]
        reach = block.window + 1
        scores = queries @ keys.T + block.relative[h][offsets.clamp(-reach, reach) + reach]
        scores = torch.cat([scores, block.null_score[h].expand(len(rows), 1)], dim=1)
        weights = torch.exp(scores - scores.amax(dim=1, keepdim=True))
        read = block.value[h].any(dim=0)
        mixed = (weights[:, :-1] @ x[:, read]) / weights.sum(dim=1, keepdim=True)
        return mixed @ block.value[h][:, read].T @ block.out[h].T

    def done(self) -> bool:
        x = self.x[0, list(self.known.working)]
        working = bool((x @ self.net.halt_weight + self.net.halt_bias > 0).all())
        return self.net.config.halts and self.known.resting_done and working
