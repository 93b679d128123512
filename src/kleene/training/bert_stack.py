"""Training a stack of BERTs with the Synthesizer's loss: AdamW, each model's gradient clipped by itself.

On a GPU a step is captured as a CUDA graph for each shape of batch that comes more than twice, and replayed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from kleene.networks.trained.bert_stack import BertStack, summed_loss
from kleene.training.loop import seeded

# tokens (models, batch, time), labels (models, batch, operands), the learning rate of all or of each model
Batch = tuple[Tensor, Tensor, float | Tensor]
EAGER = 2  # steps of a shape before its capture
BETAS = (0.9, 0.999)


def adamw(stack: BertStack, rate: float) -> torch.optim.AdamW:
    """AdamW whose rate a CUDA graph can read."""
    device = next(stack.parameters()).device
    if device.type != "cuda":
        return torch.optim.AdamW(stack.parameters(), lr=rate)
    return torch.optim.AdamW(stack.parameters(), lr=torch.tensor(rate, device=device), fused=True, capturable=True)


class RateEach(torch.optim.Optimizer):
    """AdamW for stacked parameters (models, …), with a learning rate for each model.

    The step is the same as that of `torch.optim.AdamW` with weight decay 0.01, and a CUDA graph can hold it.
    """

    def __init__(self, stack: nn.Module, rates: Tensor) -> None:
        super().__init__(list(stack.parameters()), {"lr": rates})
        (group,) = self.param_groups
        self.count = torch.zeros((), device=rates.device)
        self.means = [torch.zeros_like(p) for p in group["params"]]
        self.squares = [torch.zeros_like(p) for p in group["params"]]

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Move every parameter that has a gradient; all of a stack's have one."""
        (group,) = self.param_groups
        parameters = group["params"]
        gradients = [p.grad for p in parameters]
        rates = [group["lr"].view(-1, *[1] * (p.dim() - 1)) for p in parameters]
        self.count += 1
        torch._foreach_mul_(parameters, [1 - 0.01 * rate for rate in rates])
        torch._foreach_lerp_(self.means, gradients, 1 - BETAS[0])
        torch._foreach_mul_(self.squares, BETAS[1])
        torch._foreach_addcmul_(self.squares, gradients, gradients, 1 - BETAS[1])
        below = torch._foreach_div(self.squares, 1 - BETAS[1] ** self.count)
        torch._foreach_sqrt_(below)
        torch._foreach_add_(below, 1e-8)
        moves = torch._foreach_div(self.means, below)
        torch._foreach_mul_(moves, [rate / (1 - BETAS[0] ** self.count) for rate in rates])
        torch._foreach_sub_(parameters, moves)


def endless(seed: int, count: int, batch: int) -> Callable[[int], Tensor]:
    """Batches by step index, all of one size: epoch after epoch in a new order, without a break between them.

    >>> order = endless(1, 4, 3)
    >>> sorted(torch.cat([order(step) for step in range(4)]).tolist()) == sorted([0, 1, 2, 3] * 3)
    True
    """
    epochs: dict[int, Tensor] = {}

    def epoch(number: int) -> Tensor:
        if number not in epochs:
            source = torch.Generator().manual_seed(seeded(seed, number))
            for old in [key for key in epochs if key < number - 1]:
                del epochs[old]
            epochs[number] = torch.randperm(count, generator=source)
        return epochs[number]

    def indices(step: int) -> Tensor:
        places = torch.arange(step * batch, (step + 1) * batch)
        numbers = range(step * batch // count, ((step + 1) * batch - 1) // count + 1)
        return torch.cat([epoch(number)[places[places // count == number] % count] for number in numbers])

    return indices


class Descent:
    """One step of training, for `training.loop.train(descend=…)`."""

    def __init__(
        self,
        stack: BertStack,
        optimiser: torch.optim.Optimizer,
        sizes: Sequence[int],
        *,
        padded: bool = True,
        clip: float | None = None,
    ) -> None:
        self.stack, self.optimiser, self.sizes, self.padded, self.clip = stack, optimiser, sizes, padded, clip
        self.refused = ""  # why no graph could be captured
        self.seen: dict[tuple[int, ...], int] = {}
        self.graphs: dict[tuple[int, ...], tuple[torch.cuda.CUDAGraph, Tensor, Tensor, Tensor]] = {}

    def __call__(self, model: nn.Module, batch: Batch) -> Tensor:
        """Make the step. Return the mean loss of the models."""
        tokens, labels, rate = batch
        for group in self.optimiser.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].copy_(torch.as_tensor(rate))
            else:
                group["lr"] = rate
        if tokens.device.type != "cuda":
            return self._step(tokens, labels)
        shape = tuple(tokens.shape)
        self.seen[shape] = self.seen.get(shape, 0) + 1
        if self.seen[shape] <= EAGER:
            return self._step(tokens, labels)
        if shape not in self.graphs and not self._capture(shape, tokens, labels):
            return self._step(tokens, labels)
        graph, at_tokens, at_labels, loss = self.graphs[shape]
        at_tokens.copy_(tokens)
        at_labels.copy_(labels)
        graph.replay()
        return loss

    def _capture(self, shape: tuple[int, ...], tokens: Tensor, labels: Tensor) -> bool:
        """Capture the step for a shape. Return False if this machine cannot; steps then run uncaptured, and slower."""
        if self.refused:
            return False
        at_tokens, at_labels = tokens.clone(), labels.clone()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                loss = self._step(at_tokens, at_labels)
        except RuntimeError as error:
            self.refused = str(error).splitlines()[0]
            warnings.warn(f"training goes on without CUDA graphs: {self.refused}", stacklevel=2)
            return False
        self.graphs[shape] = (graph, at_tokens, at_labels, loss)
        return True

    def _step(self, tokens: Tensor, labels: Tensor) -> Tensor:
        for parameter in self.stack.parameters():
            parameter.grad = None
        losses = summed_loss(self.stack(tokens, self.padded), labels, self.sizes)
        losses.sum().backward()
        if self.clip is not None:
            self._clip(self.clip)
        self.optimiser.step()
        return losses.detach().mean()

    def _clip(self, most: float) -> None:
        with torch.no_grad():
            grads = [parameter.grad for parameter in self.stack.parameters() if parameter.grad is not None]
            norms = torch.stack([grad.flatten(1).norm(dim=1) for grad in grads]).norm(dim=0)
            scale = (most / (norms + 1e-6)).clamp(max=1.0)
            for grad in grads:
                grad.mul_(scale.view(-1, *[1] * (grad.dim() - 1)))
