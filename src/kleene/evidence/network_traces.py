"""Traces of a network: its residual stream, layer by layer, read back as the variables that it codes.

Nothing here runs the program: the trace shows what the weights did.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch

from kleene.common.residual import Layout
from kleene.common.tokens import Tokens
from kleene.errors import DidNotHalt, NotExact, RangeError
from kleene.machines.kinds import Kind, Numerical, Word, as_number
from kleene.machines.spec import Spec
from kleene.machines.trace import HeadOutput, States, Trace
from kleene.networks.transformer.model import Transformer


@torch.no_grad()
def explain_transformer(net: Transformer, input: Tokens, *, max_layers: int = 10_000) -> Trace:
    """Trace a network on an input: every variable and head, at every position and layer. The trace of a decoder has the
    layers that compute the next token.

    >>> import kleene as kl
    >>> net = kl.compile(kl.library.parity_relative)
    >>> kl.explain(net, [2, 1, 1]).outputs
    [0, 1, 0]
    """
    spec, layout = Spec.from_json(net.description["program"]), net.layout
    tokens = net.check_input(input)
    mask = torch.ones(1, len(tokens), dtype=torch.bool, device=net.device)
    x = net.embed(torch.tensor([tokens], device=net.device))
    states = [_states(spec, layout, x)]
    heads: list[dict[str, list[HeadOutput]]] = []
    count = None if net.config.halts else net.config.layers
    while len(heads) != count:
        if len(heads) >= max_layers:
            raise DidNotHalt(f"{net.config.name}: did not halt within {max_layers:,} layers (max_layers)")
        block = net.block(len(heads))
        keys, values = block.keys_values(x)
        scores = block.scores(x, keys, mask)
        x = block.attend(x, scores, values)
        heads.append(_heads(net, len(heads), spec, layout, x, block.selected(scores)))
        x = block.second_half(block.first_half(x))
        states.append(_states(spec, layout, x))
        if count is None and bool(net.done(x, mask).all()):
            break
    evaluator = f"network (dense, {str(net.dtype).removeprefix('torch.')})"
    return Trace(spec, tuple(tokens), tuple(states), tuple(heads), evaluator, net)


def _states(spec: Spec, layout: Layout, x: torch.Tensor) -> States:
    rows = x[0].double().cpu()
    return [
        {name: _value(name, variable.kind, row[layout[name].slice]) for name, variable in spec.variables.items()}
        for row in rows
    ]


def _value(name: str, kind: Kind, part: torch.Tensor) -> Any:
    """The value that a segment codes; raise NotExact if it codes none."""
    if isinstance(kind, Word):
        if bool(((part == 0) | (part == 1)).all()):
            return int((part * 2 ** torch.arange(kind.bits)).sum())
    elif bool((part == 1).sum() == 1) and bool((part != 0).sum() == 1):
        return kind.values[int(part.argmax())]
    raise NotExact(f"the residual stream holds no value of '{name}': {part.tolist()}")


def _heads(
    net: Transformer, layer: int, spec: Spec, layout: Layout, x: torch.Tensor, selected: torch.Tensor
) -> dict[str, list[HeadOutput]]:
    found: dict[str, list[HeadOutput]] = {}
    rows = x[0].double().cpu()
    for move in net.described(layer)["moves"]:
        head = spec.moves[move["name"]]
        segment, outputs = layout[head.into or ""], []
        for position, row in enumerate(rows):
            places = tuple(torch.nonzero(selected[0, move["head"], position]).flatten().tolist())
            one = len(places) == 1 or (not places and head.default is not None)
            value = _value(head.into or "", head.kind, row[segment.slice]) if one else None
            outputs.append(HeadOutput(places, value))
        found[head.name] = outputs
    for h, name in enumerate(net.block(layer).heads):
        if name not in spec.heads:
            continue
        head, segment = spec.heads[name], layout[name]
        outputs = []
        for position, row in enumerate(rows):
            places = tuple(torch.nonzero(selected[0, h, position]).flatten().tolist())
            defined = len(places) == 1 or (head.numerical and places) or (not places and head.default is not None)
            part = row[segment.slice]
            value = None
            if defined and isinstance(head.kind, Numerical):
                value = as_number(float(part[0]) / segment.scale)
                with suppress(RangeError):  # an average that nothing reads may be outside
                    value = head.kind.nearest(value)
            elif defined:
                value = _value(name, head.kind, part)
            outputs.append(HeadOutput(places, value))
        found[name] = outputs
    return found
