"""Contextual decomposition of recurrent layers and cells, gate by gate, as torch's modules call torch.

`torch.nn.LSTM`, `GRU` and `RNN`: several layers, both directions, initial states, packed sequences of any lengths. And
`LSTMCell`, `GRUCell` and `RNNCell`: one step of the same. Biases, and constants in inputs and initial states, are the
base of each gate. The product of two gates' biases goes to the word in focus at its own step (`Rule.owned_bias`), or to
the rest; before the first word it belongs to the base.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from kleene.errors import NotSupported
from kleene.evidence.parted import Parted, Rule, base_share, first_parted, plain, product_share, share

Three = tuple[Tensor, Tensor, Tensor]  # part, whole, base
Step = Callable[["Gates", Three, list[Three], Tensor, Rule], list[Three]]  # from a word and states to the next states
NEAR = 1e-5  # a smaller share of the whole is rounding


def recurrent(cell: str, args: Any) -> Any:
    """`torch.lstm`, `torch.gru` and such on parted inputs: outputs and last states, with their parts."""
    rule = first_parted(args).rule
    packed = isinstance(args[1], Tensor) and not args[1].is_floating_point()
    if packed:  # data, batch_sizes, hx, params, has_biases, layers, dropout, train, bidirectional
        data, sizes, state, weights, biased, layers, _, _, both = args
        x, lengths = _each(three_of(data), _unpacked, sizes), _lengths(sizes)
    else:  # input, hx, params, has_biases, layers, dropout, train, bidirectional, batch_first
        data, state, weights, biased, layers, _, _, both, first = args
        x = _each(three_of(data), lambda values: values if first else values.transpose(0, 1))  # (batch, time, features)
        lengths = torch.full((x[0].shape[0],), x[0].shape[1])
    states = [three_of(part) for part in (state if isinstance(state, (tuple, list)) else (state,))]
    out, last_states = _layers(cell, x, states, weights, biased, layers, both, lengths, rule)
    if packed:
        out = _each(out, _packed, sizes)
    elif not first:
        out = _each(out, Tensor.transpose, 0, 1)
    return (_parted(out, rule), *(_parted(last, rule) for last in last_states))


def recurrent_cell(cell: str, args: Any) -> Any:
    """`torch.lstm_cell`, `torch.gru_cell` and such on parted inputs: the next states, with their parts."""
    rule = first_parted(args).rule
    if rule.but_last:
        raise NotSupported(f"decompose: the rule released looks at the next word, which a {cell} does not see")
    x, state, *weights = args
    states = [three_of(part) for part in (state if isinstance(state, (tuple, list)) else (state,))]
    word = three_of(x)
    gates = Gates([plain(w) for w in weights if w is not None], weights[2] is not None)
    after = STEPS[cell.removesuffix("_cell")](gates, word, states, _read_alone(word), rule)
    found = [_parted(one, rule) for one in after]
    return tuple(found) if len(found) > 1 else found[0]


class Gates:
    """The weights of one direction of one layer."""

    def __init__(self, weights: Sequence[Tensor], biased: bool) -> None:
        self.inputs, self.hidden = weights[0].mT, weights[1].mT
        nothing = torch.zeros_like(weights[0][:, 0])
        self.input_bias, self.hidden_bias = (weights[2], weights[3]) if biased else (nothing, nothing)
        self.project = weights[-1].mT if len(weights) == (5 if biased else 3) else None

    def read(self, word: Three) -> Three:
        """What the gates get from a word."""
        r, z, b = (part @ self.inputs for part in word)
        return r, z + self.input_bias, b + self.input_bias

    def recall(self, state: Three) -> Three:
        """What the gates get from the hidden state."""
        r, z, b = (part @ self.hidden for part in state)
        return r, z + self.hidden_bias, b + self.hidden_bias


def _layers(
    cell: str,
    x: Three,
    states: list[Three],
    weights: Any,
    biased: bool,
    layers: int,
    both: bool,
    lengths: Tensor,
    rule: Rule,
) -> tuple[Three, list[Three]]:
    """All layers and directions on sequences (batch, time, features): outputs, and the last states."""
    owned = _read_alone(x)
    if rule.but_last:
        owned = owned * torch.cat([owned[:, 1:], torch.zeros_like(owned[:, :1])], 1)
    per = (4 if biased else 2) + _projected(cell, weights)
    directions = (_straight, _turned)[: 2 if both else 1]
    ends: list[list[Three]] = []
    for layer in range(layers):
        outs = []
        for direction, turn in enumerate(directions):
            index = layer * len(directions) + direction
            gates = Gates([plain(part) for part in weights[index * per : (index + 1) * per]], biased)
            start = [_each(part, Tensor.select, 0, index) for part in states]
            turned = _each(x, turn, lengths)
            out, last = _steps(STEPS[cell], gates, turned, start, turn(owned, lengths), lengths, rule)
            outs.append(_each(out, turn, lengths))
            ends.append(last)
        x = _joined(outs, lambda parts: torch.cat(parts, -1))
    return x, [_joined([end[k] for end in ends], torch.stack) for k in range(len(ends[0]))]


def _steps(
    step: Step, gates: Gates, x: Three, states: list[Three], owned: Tensor, lengths: Tensor, rule: Rule
) -> tuple[Three, list[Three]]:
    """One direction of one layer: the hidden state at every step, and the last states."""
    outs = []
    for t in range(x[1].shape[1]):
        alive = (lengths > t).to(x[1].device)[:, None]
        word = _each(x, Tensor.select, 1, t)
        after = step(gates, word, states, owned[:, t], rule)
        states = [
            (torch.where(alive, a, r), torch.where(alive, z, y), torch.where(alive, b, c))
            for (a, z, b), (r, y, c) in zip(after, states)
        ]
        outs.append(_each(states[0], Tensor.masked_fill, ~alive, 0.0))
    return _joined(outs, lambda parts: torch.stack(parts, 1)), states


def _lstm(gates: Gates, word: Three, states: list[Three], owned: Tensor, rule: Rule) -> list[Three]:
    """One step of an LSTM."""
    h, c = states
    i, f, g, o = zip(*(part.chunk(4, -1) for part in _sum(gates.read(word), gates.recall(h))))
    i, f, g = (
        _unit(rule.unit, torch.sigmoid, i),
        _unit(rule.unit, torch.sigmoid, f),
        _unit(rule.unit, torch.tanh, g),
    )
    cell = _written(_product(rule.product, i, g), _product(rule.product, f, c), word, h, owned, rule)
    shown, out = _unit(rule.unit, torch.tanh, cell), torch.sigmoid(o[1])
    return [
        _each(shown, lambda values: values * out if gates.project is None else values * out @ gates.project),
        cell,
    ]


def _gru(gates: Gates, word: Three, states: list[Three], owned: Tensor, rule: Rule) -> list[Three]:
    """One step of a GRU: h = (1 − u)·n + u·h, with n = tanh(W x + r·(V h + c))."""
    (h,) = states
    new, old = (list(zip(*(part.chunk(3, -1) for part in three))) for three in (gates.read(word), gates.recall(h)))
    reset, update = (_unit(rule.unit, torch.sigmoid, _sum(new[k], old[k])) for k in (0, 1))
    made = _unit(rule.unit, torch.tanh, _sum(new[2], _product(rule.product, reset, old[2])))
    written = _product(rule.product, (-update[0], 1 - update[1], 1 - update[2]), made)
    return [_written(written, _product(rule.product, update, h), word, h, owned, rule)]


def _rnn(phi: Callable[[Tensor], Tensor]) -> Step:
    """One step of a simple RNN, whose bias is a base that stays one."""

    def step(gates: Gates, word: Three, states: list[Three], owned: Tensor, rule: Rule) -> list[Three]:
        return [_unit(rule.unit, phi, _sum(gates.read(word), gates.recall(states[0])))]

    return step


STEPS: dict[str, Step] = {"lstm": _lstm, "gru": _gru, "rnn_tanh": _rnn(torch.tanh), "rnn_relu": _rnn(torch.relu)}


def _written(new: Three, kept: Three, word: Three, h: Three, owned: Tensor, rule: Rule) -> Three:
    """The sum of what a step writes and what it keeps; what the biases write together gets an owner."""
    r, z, b = new[0] + kept[0], new[1] + kept[1], kept[2]
    touched = _touched(word[0]) | _touched(h[0])
    others = ~(_rest_is_nothing(word) & _rest_is_nothing(h))
    b = torch.where(touched | others, b, b + new[2])  # no word so far
    if rule.owned_bias:
        owned = owned if rule.but_last else torch.where(touched & ~others, 1.0, owned)  # no word out of focus so far
        r = r + owned * new[2]
    return r, z, b


def _touched(part: Tensor) -> Tensor:
    return (part != 0).any(-1, keepdim=True)


def _rest_is_nothing(value: Three) -> Tensor:
    """Whether part and base are the whole, up to rounding: (…, 1)."""
    r, z, b = value
    scale = torch.maximum(z.abs(), b.abs()).amax(-1, keepdim=True)
    return (r + b - z).abs().amax(-1, keepdim=True) <= NEAR * scale


def _read_alone(x: Three) -> Tensor:
    """Where a word in focus is read: the steps whose input is the focus's alone, (…, 1)."""
    return (_touched(x[0]) & _rest_is_nothing(x)).to(x[1].dtype)


def three_of(given: Any) -> Three:
    """The part, the whole and the base; a plain tensor is all base."""
    if isinstance(given, Parted):
        return given.part, given.whole, given.base
    values = plain(given)
    return torch.zeros_like(values), values, values


def _parted(value: Three, rule: Rule) -> Parted:
    return Parted.of(value[1], value[0], value[2], rule)


def _each(value: Three, change: Callable[..., Tensor], *more: Any) -> Three:
    r, z, b = (change(part, *more) for part in value)
    return r, z, b


def _joined(values: Sequence[Three], join: Callable[[list[Tensor]], Tensor]) -> Three:
    return tuple(join([value[k] for value in values]) for k in range(3))  # type: ignore[return-value]


def _projected(cell: str, weights: Any) -> int:
    """Whether each direction has one more matrix, which projects the hidden state."""
    if cell != "lstm":
        return 0
    rows = weights[1].shape[1]
    return int(rows * 4 != weights[0].shape[0])


def _lengths(sizes: Tensor) -> Tensor:
    """The length of each sequence of a pack, longest first."""
    return (sizes[None, :] > torch.arange(int(sizes[0]))[:, None]).sum(1)


def _unpacked(values: Tensor, sizes: Tensor) -> Tensor:
    out = values.new_zeros(int(sizes[0]), len(sizes), values.shape[-1])
    at = 0
    for t, size in enumerate(sizes.tolist()):
        out[:size, t] = values[at : at + size]
        at += size
    return out


def _packed(values: Tensor, sizes: Tensor) -> Tensor:
    return torch.cat([values[:size, t] for t, size in enumerate(sizes.tolist())])


def _turned(values: Tensor, lengths: Tensor) -> Tensor:
    """Each sequence backwards, its padding left at the end."""
    time = torch.arange(values.shape[1])[None]
    order = torch.where(time < lengths[:, None], lengths[:, None] - 1 - time, time).to(values.device)
    return values.gather(1, order[..., None].expand_as(values))


def _straight(values: Tensor, lengths: Tensor) -> Tensor:
    return values


def _product(kind: str, one: Three, two: Three) -> Three:
    return product_share(kind, one, two), one[1] * two[1], one[2] * two[2]


def _sum(one: Three, two: Three) -> Three:
    return one[0] + two[0], one[1] + two[1], one[2] + two[2]


def _unit(kind: str, phi: Any, value: Three) -> Three:
    r, z, b = value
    return share(kind, phi, r, z, b), phi(z), base_share(kind, phi, r, z, b)
