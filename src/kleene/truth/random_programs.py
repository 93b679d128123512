"""Random attention programs of a requested size and depth, and networks rotated into fewer dimensions.

Every variable is rewritten in every layer from another variable and a head. Only some of them reach the output: the
others are decoys, and a head that matters in the first layer may not matter in the last.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import torch

from kleene.lowering.symbolic import table
from kleene.machines.declarations import attend, cat, relative
from kleene.machines.program import Program, ProgramClass
from kleene.networks.transformer.model import Transformer


@dataclass(frozen=True)
class Size:
    """The size of a random program."""

    variables: int = 4
    heads: int = 3
    layers: int = 3
    values: int = 3
    tokens: int = 3


MEDIUM = Size()


def random_program(rng: np.random.Generator, size: Size = MEDIUM) -> ProgramClass:
    """A random program; it has an output on every input.

    >>> program = random_program(np.random.default_rng(0))
    >>> len(program.run([0, 1, 2, 0]))
    4
    """
    first = [tuple(rng.integers(size.values, size=size.tokens).tolist()) for _ in range(size.variables)]
    variables = {f"v{i}": cat(size.values, token=values.__getitem__) for i, values in enumerate(first)}

    def some() -> Any:
        return variables[f"v{rng.integers(size.variables)}"]

    heads = {
        f"h{k}": relative(some(), int(rng.choice([-2, -1, 1])), default=0)
        if rng.random() < 0.5
        else attend(some(), some(), some(), latest=True, default=0)
        for k in range(size.heads)
    }
    rules = [
        (
            name,
            f"v{(place + rng.integers(1, size.variables)) % size.variables}",
            f"h{rng.integers(size.heads)}",
            int(rng.integers(1, size.values)),
            tuple(rng.integers(size.values, size=size.values).tolist()),
        )
        for place, name in enumerate(variables)
    ]

    def step(z: Any) -> None:
        new = [
            table(values)[(getattr(z, own) + times * getattr(z, head)) % size.values]
            for _, own, head, times, values in rules
        ]
        for (name, *_), value in zip(rules, new):
            setattr(z, name, value)

    body = {"tokens": size.tokens, "layers": size.layers, **variables, **heads, "output": variables["v0"], "step": step}
    made: ProgramClass = ProgramClass("random_program", (Program,), {**body, "__module__": __name__})
    return made


def _span(net: Transformer) -> torch.Tensor:
    """Vectors that span every state of the stream in which each variable has a value, and each head has one or none."""
    every, first = [], torch.zeros(net.config.dim, dtype=torch.float64)
    for segment in net.layout:
        if segment.kind == "variable" and segment.coding == "one-hot":
            first[segment.start] = 1
    for segment in net.layout:
        for place in range(segment.start, segment.stop):
            state = first.clone()
            if segment.kind == "variable" and segment.coding == "one-hot":
                state[segment.start] = 0
            state[place] = 1
            every.append(state)
    return torch.stack([first, *every])


def superposed(net: Transformer, rng: np.random.Generator, length: int) -> tuple[Transformer, float, torch.Tensor]:
    """The network rotated, in fewer dimensions than it has features; how far its outputs are off; and the new basis.

    The states that the network can be in, also under interchanges, span fewer dimensions than it has: a variable's
    one-hot sums to 1. A random basis of that span is the new residual stream. The error is the largest difference of
    logits over all inputs of a length. A column of the basis (dim, feature) is the direction of a feature.
    """
    wide = net.double()
    tokens = torch.tensor(list(product(range(net.config.tokens), repeat=length)))
    _, sizes, rows = torch.linalg.svd(_span(net), full_matrices=False)
    span = rows[sizes > 1e-9 * sizes[0]]  # (dims, features)
    turn = torch.linalg.qr(torch.from_numpy(rng.standard_normal((len(span), len(span)))))[0]
    basis = turn @ span
    small = Transformer(replace(net.config, dim=len(basis)), net.description, torch.float64)
    writing, reading = ("out", "out1", "out2"), ("query", "key", "value", "in1", "in2")
    with torch.no_grad():
        for (name, old), new in zip(wide.named_parameters(), small.parameters()):
            short = name.rpartition(".")[2]
            if short in writing:
                new.copy_(torch.einsum("rd,...dv->...rv", basis, old))
            elif short in reading or short in ("token_embedding", "position_embedding", "unembedding", "halt_weight"):
                new.copy_(old @ basis.T)
            else:
                new.copy_(old)
    return small, float((small(tokens) - wide(tokens)).abs().max()), basis
