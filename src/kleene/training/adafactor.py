"""Adafactor (Shazeer and Stern, 2018) that a CUDA graph can hold: its state, the step count too, is on the device.

Parameters of one shape are stacked and updated together, and on a GPU the update is compiled, so that a network of
many layers costs a few kernels.
The step is relative to the size of each parameter, as in the paper and in the common implementations; the second
moment of a matrix is kept by rows and columns where both have 128 entries or more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import torch
from torch import Tensor

LARGE = 2**20  # entries of a stack that is updated where it is
FACTORED = 128  # the smallest side of a matrix whose second moment is kept by rows and columns


class Adafactor(torch.optim.Optimizer):
    """Adafactor with a constant rate, no momentum, and updates clipped to root mean square 1.

    stacked: each parameter is a stack along its first axis, of parameters that are updated apart.

    >>> weight = torch.nn.Parameter(torch.ones(2)); optimiser = Adafactor([weight], lr=0.1)
    >>> weight.sum().backward(); optimiser.step(); [round(w, 3) for w in weight.tolist()]
    [0.9, 0.9]
    """

    def __init__(
        self, params: Iterable[Tensor], lr: float, decay: float = 0.8, smallest: float = 1e-3, stacked: bool = False
    ) -> None:
        super().__init__(params, {"lr": lr, "decay": decay, "smallest": smallest, "stacked": stacked})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update of every parameter that has a gradient."""
        for group in self.param_groups:
            by_shape: dict[Any, list[Tensor]] = {}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    by_shape.setdefault(parameter.shape, []).append(parameter)
            for parameters in by_shape.values():
                settings = group["lr"], group["decay"], group["smallest"]
                if not group["stacked"]:
                    weights = torch.stack(parameters)
                    self._update(parameters[0], weights, torch.stack(_grads(parameters)), *settings)
                    torch._foreach_copy_(parameters, list(weights.unbind()))
                elif parameters[0].numel() > LARGE:  # not worth a copy
                    for parameter, grad in zip(parameters, _grads(parameters)):
                        self._update(parameter, parameter, grad, *settings)
                else:
                    weights = torch.cat(parameters)
                    self._update(parameters[0], weights, torch.cat(_grads(parameters)), *settings)
                    torch._foreach_copy_(parameters, list(weights.chunk(len(parameters))))

    def _update(
        self, parameter: Tensor, weights: Tensor, grads: Tensor, lr: float, decay: float, smallest: float
    ) -> None:
        """Move a stack of weights in place; its state is kept under `parameter`."""
        state = self.state[parameter]
        sides = grads.shape[1:]
        factored = len(sides) == 2 and min(sides) >= FACTORED
        if not state:
            state["count"] = torch.zeros((), device=grads.device)
            if factored:
                state["row"], state["column"] = torch.zeros_like(grads[..., 0]), torch.zeros_like(grads[..., 0, :])
            else:
                state["square"] = torch.zeros_like(grads)
        state["count"] += 1
        fresh = state["count"].pow(-decay)  # 1 in the first step
        moments = [state[name] for name in ("row", "column", "square") if name in state]
        (_compiled() if grads.is_cuda else _move)(weights, grads, moments, fresh, lr, smallest)


def _grads(parameters: list[Tensor]) -> list[Tensor]:
    return [p.grad for p in parameters if p.grad is not None]


@cache
def _compiled() -> Callable[..., None]:
    from torch._dynamo import config

    config.recompile_limit = max(config.recompile_limit, 64)  # one for each shape of parameters
    return torch.compile(_move, dynamic=False)


def _move(weights: Tensor, grads: Tensor, moments: list[Tensor], fresh: Tensor, lr: float, smallest: float) -> None:
    """Update weights and moments in place."""
    squares = grads.square() + 1e-30
    if len(moments) == 2:
        row, column = moments
        row.lerp_(squares.mean(dim=-1), fresh)
        column.lerp_(squares.mean(dim=-2), fresh)
        # one root at a time: the product of two tiny moments would be zero
        update = grads * (row / row.mean(dim=-1, keepdim=True)).rsqrt()[..., None] * column.rsqrt()[..., None, :]
    else:
        update = grads * moments[0].lerp_(squares, fresh).rsqrt()
    inner = tuple(range(1, grads.dim()))
    scale = _size(weights, inner).clamp(min=smallest) * lr / _size(update, inner).clamp(min=1)
    weights -= update * scale


def _size(values: Tensor, inner: tuple[int, ...]) -> Tensor:
    """Root mean square of each parameter of a stack."""
    return values.square().mean(dim=inner, keepdim=True).sqrt() if inner else values.abs()
