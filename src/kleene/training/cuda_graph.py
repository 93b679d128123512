"""A training step as a CUDA graph: captured when it is first made, then replayed. On a CPU it is the plain step.

Small models are bound by the launching of kernels; a replayed graph launches once. A batch must be a tensor of one
shape, and whatever is random in the loss is drawn from torch's own generator, which the training loop seeds before
each step; so a run that resumes draws the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

Loss = Callable[[nn.Module, Any], Tensor]


class CudaGraphStep:
    """`descend` for `training.loop.train`: one step of an optimiser on a loss, replayed on a GPU.

    `half` computes the loss with matrix products in bfloat16; weights and sums stay float32.
    """

    def __init__(self, optimiser: torch.optim.Optimizer, loss: Loss, *, half: bool = False) -> None:
        self.optimiser, self.loss, self.half = optimiser, loss, half
        self.graph: torch.cuda.CUDAGraph | None = None
        self.batch = self.value = torch.zeros(())

    def __call__(self, model: nn.Module, batch: Tensor) -> Tensor:
        if not next(model.parameters()).is_cuda:
            return self._step(model, batch)
        if self.graph is None:
            self._capture(model, batch)
        assert self.graph is not None
        self.batch.copy_(batch, non_blocking=True)
        self.graph.replay()
        return self.value

    def _step(self, model: nn.Module, batch: Tensor) -> Tensor:
        self.optimiser.zero_grad(set_to_none=True)
        device = next(model.parameters()).device.type
        with torch.autocast(device, torch.bfloat16, enabled=self.half, cache_enabled=False):
            value = self.loss(model, batch)
        value.backward()
        self.optimiser.step()
        return value.detach()

    def _capture(self, model: nn.Module, batch: Tensor) -> None:
        """Steps to warm up, all of them undone; then one that is recorded and not run."""
        fresh = not self.optimiser.state
        kept = [(tensor, tensor.detach().clone()) for tensor in self._tensors(model)]
        chance = torch.cuda.get_rng_state()
        self.batch = batch.to(next(model.parameters()).device, copy=True)
        precision = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")  # TF32 in training; the graph remembers it
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self._step(model, self.batch)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.value = self._step(model, self.batch)
        torch.set_float32_matmul_precision(precision)
        with torch.no_grad():
            for tensor, value in kept:
                tensor.copy_(value)
            if fresh:  # optimisers start from zeros
                for entries in self.optimiser.state.values():
                    for value in entries.values():
                        value.zero_()
        torch.cuda.set_rng_state(chance)
        self.graph = graph

    def _tensors(self, model: nn.Module) -> list[Tensor]:
        states = [v for entries in self.optimiser.state.values() for v in entries.values() if isinstance(v, Tensor)]
        return [*model.parameters(), *model.buffers(), *states]


def make_optimiser(name: str, model: nn.Module, rate: float, *, stacked: bool = False) -> torch.optim.Optimizer:
    """ "adafactor" or "adam", in a form that a CUDA graph can hold; `stacked`: the first axis counts networks."""
    from kleene.errors import InputError, NotSupported
    from kleene.training.adafactor import Adafactor

    if not rate > 0:
        raise InputError(f"rate={rate}: a learning rate is above 0")
    trained = [p for p in model.parameters() if p.requires_grad]
    if name == "adafactor":
        return Adafactor(trained, lr=rate, stacked=stacked)
    if name == "adam":
        on_gpu = bool(trained) and trained[0].is_cuda
        return torch.optim.Adam(trained, lr=rate, capturable=on_gpu, fused=on_gpu or None)
    raise NotSupported(f"unknown optimiser {name!r}; choose 'adafactor' or 'adam'")
