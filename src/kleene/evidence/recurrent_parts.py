"""Contextual decomposition of `torch.nn.LSTM` and `torch.nn.GRU`, gate by gate, as their modules call torch.

Several layers, both directions, initial states, and packed sequences of any lengths. An initial state belongs to the
rest. Biases are the base of each gate; the hidden state has no base, so the product of the gates' biases goes to the
word in focus at its own step (`Rule.owned_bias`), or to the rest.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kleene.errors import NotSupported
from kleene.evidence.parted import Parted, Rule, base_share, plain, product_share, share

Three = tuple[Tensor, Tensor, Tensor]  # part, whole, base


def recurrent(cell: str, func: Any, args: Any, kwargs: Any) -> Any:
    """`torch.lstm` or `torch.gru` on a parted input: outputs and last states, with their parts."""
    if not isinstance(args[0], Parted):
        raise NotSupported("decompose: the focus reaches a recurrent layer through its initial state alone")
    packed = isinstance(args[1], Tensor) and not args[1].is_floating_point()
    if packed:  # data, batch_sizes, hx, params, has_biases, layers, dropout, train, bidirectional
        data, sizes, state, weights, biased, layers, _, _, both = args
        lengths = _lengths(sizes)
        x = _unpacked(data, sizes)
    else:  # input, hx, params, has_biases, layers, dropout, train, bidirectional, batch_first
        data, state, weights, biased, layers, _, _, both, first = args
        x = data if first else _swapped(data)  # (batch, time, features)
        lengths = torch.full((x.shape[0],), x.shape[1])
    out, last_states = _layers(cell, x, state, weights, biased, layers, both, lengths)
    if packed:
        return (_packed(out, sizes), *last_states)
    return (out if first else _swapped(out), *last_states)


def _layers(
    cell: str, x: Parted, state: Any, weights: Any, biased: bool, layers: int, both: bool, lengths: Tensor
) -> tuple[Parted, list[Parted]]:
    """All layers and directions on sequences (batch, time, features): outputs, and the last states."""
    states = [plain(part) for part in (state if isinstance(state, (tuple, list)) else (state,))]
    x_r, x_z, owned = x.part, x.whole, _owned(x)
    per = (4 if biased else 2) + _projected(cell, weights)
    steps, directions = (_lstm if cell == "lstm" else _gru), (_straight, _turned)[: 2 if both else 1]
    ends: list[list[Three]] = []
    for layer in range(layers):
        outs = []
        for direction, turn in enumerate(directions):
            index = layer * len(directions) + direction
            w = [plain(part) for part in weights[index * per : (index + 1) * per]]
            start = [part[index] for part in states]
            read = (turn(x_r, lengths), turn(x_z, lengths), turn(owned, lengths))
            r, z, last = steps(*read, w, biased, start, lengths, x.rule)
            outs.append((turn(r, lengths), turn(z, lengths)))
            ends.append(last)
        x_r, x_z = (torch.cat([out[k] for out in outs], -1) for k in (0, 1))
    last_states = [_stacked([end[k] for end in ends], x.rule) for k in range(len(ends[0]))]
    return Parted.of(x_z, x_r, None, x.rule), last_states


def _swapped(x: Parted) -> Parted:
    return Parted.of(x.whole.transpose(0, 1), x.part.transpose(0, 1), x.base.transpose(0, 1), x.rule)


def _projected(cell: str, weights: Any) -> int:
    """Whether each direction has one more matrix, which projects the hidden state."""
    if cell != "lstm":
        return 0
    rows = weights[1].shape[1]
    return int(rows * 4 != weights[0].shape[0])


def _stacked(ends: list[Three], rule: Rule) -> Parted:
    return Parted.of(torch.stack([z for _, z, _ in ends]), torch.stack([r for r, _, _ in ends]), None, rule)


def _owned(x: Parted) -> Tensor:
    """The steps whose input is the focus's alone: a word in focus is read there, (batch, time, 1)."""
    near = 1e-5 * x.whole.abs().amax(-1, keepdim=True)
    focused = (x.part != 0).any(-1, keepdim=True) & ((x.part + x.base - x.whole).abs().amax(-1, keepdim=True) <= near)
    if x.rule.but_last:
        focused = focused & torch.cat([focused[:, 1:], torch.zeros_like(focused[:, :1])], 1)
    return focused.to(x.part.dtype)


def _lengths(sizes: Tensor) -> Tensor:
    """The length of each sequence of a pack, longest first."""
    return (sizes[None, :] > torch.arange(int(sizes[0]))[:, None]).sum(1)


def _unpacked(data: Parted, sizes: Tensor) -> Parted:
    def padded(values: Tensor) -> Tensor:
        out = values.new_zeros(int(sizes[0]), len(sizes), values.shape[-1])
        at = 0
        for t, size in enumerate(sizes.tolist()):
            out[:size, t] = values[at : at + size]
            at += size
        return out

    return Parted.of(padded(data.whole), padded(data.part), padded(data.base), data.rule)


def _packed(x: Parted, sizes: Tensor) -> Parted:
    def flat(values: Tensor) -> Tensor:
        return torch.cat([values[:size, t] for t, size in enumerate(sizes.tolist())])

    return Parted.of(flat(x.whole), flat(x.part), flat(x.base), x.rule)


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
    b = b.expand_as(z)
    return share(kind, phi, r, z, b), phi(z), base_share(kind, phi, r, z, b)


def _keep(new: Tensor, old: Tensor, alive: Tensor) -> Tensor:
    return torch.where(alive, new, old)


def _lstm(
    x_r: Tensor, x_z: Tensor, owned: Tensor, w: list[Tensor], biased: bool, start: Any, lengths: Tensor, rule: Rule
) -> tuple[Tensor, Tensor, list[Three]]:
    """One direction of one layer: the parts and the whole of h at every step, and the last h and c."""
    inputs, hidden = w[0].mT, w[1].mT
    bias = w[2] + w[3] if biased else torch.zeros_like(w[0][:, 0])
    project = w[-1].mT if len(w) == (5 if biased else 3) else None
    h_z, c_z = start
    h_r, c_r, zero = torch.zeros_like(h_z), torch.zeros_like(c_z), torch.zeros_like(c_z)
    outs: list[tuple[Tensor, Tensor]] = []
    for t in range(x_z.shape[1]):
        alive = (lengths > t).to(x_z.device)[:, None]
        r, z = x_r[:, t] @ inputs + h_r @ hidden, x_z[:, t] @ inputs + h_z @ hidden + bias
        (i, f, g, o) = (
            (rr, zz, bb) for rr, zz, bb in zip(r.chunk(4, -1), z.chunk(4, -1), bias.expand_as(z).chunk(4, -1))
        )
        i, f, g = (
            _unit(rule.unit, torch.sigmoid, i),
            _unit(rule.unit, torch.sigmoid, f),
            _unit(rule.unit, torch.tanh, g),
        )
        written, kept = _product(rule.product, i, g), _product(rule.product, f, (c_r, c_z, zero))
        new_r, new_z = written[0] + kept[0], written[1] + kept[1]
        if rule.owned_bias:
            new_r = new_r + owned[:, t] * written[2]
        shown, out = _unit(rule.unit, torch.tanh, (new_r, new_z, zero)), torch.sigmoid(o[1])
        next_r, next_z = out * shown[0], out * shown[1]
        if project is not None:
            next_r, next_z = next_r @ project, next_z @ project
        h_r, h_z, c_r, c_z = (_keep(a, b, alive) for a, b in zip((next_r, next_z, new_r, new_z), (h_r, h_z, c_r, c_z)))
        outs.append((torch.where(alive, h_r, 0.0), torch.where(alive, h_z, 0.0)))
    both = [torch.stack([out[k] for out in outs], 1) for k in (0, 1)]
    return both[0], both[1], [(h_r, h_z, torch.zeros_like(h_z)), (c_r, c_z, zero)]


def _gru(
    x_r: Tensor, x_z: Tensor, owned: Tensor, w: list[Tensor], biased: bool, start: Any, lengths: Tensor, rule: Rule
) -> tuple[Tensor, Tensor, list[Three]]:
    """One direction of one layer: h = (1 − u)·n + u·h, with n = tanh(W x + r·(V h + c))."""
    inputs, hidden = w[0].mT, w[1].mT
    b, c = (w[2], w[3]) if biased else (torch.zeros_like(w[0][:, 0]),) * 2
    (h_z,) = start
    h_r, zero = torch.zeros_like(h_z), torch.zeros_like(h_z)
    outs: list[tuple[Tensor, Tensor]] = []
    for t in range(x_z.shape[1]):
        alive = (lengths > t).to(x_z.device)[:, None]
        x3 = list(zip((x_r[:, t] @ inputs).chunk(3, -1), (x_z[:, t] @ inputs + b).chunk(3, -1), b.chunk(3)))
        h3 = list(zip((h_r @ hidden).chunk(3, -1), (h_z @ hidden + c).chunk(3, -1), c.chunk(3)))
        reset, update = (_unit(rule.unit, torch.sigmoid, _sum(x3[k], h3[k])) for k in (0, 1))
        read = _product(rule.product, reset, (h3[2][0], h3[2][1], h3[2][2].expand_as(zero)))
        new = _unit(rule.unit, torch.tanh, _sum(x3[2], read))
        write = _product(rule.product, (-update[0], 1 - update[1], 1 - update[2]), new)
        kept = _product(rule.product, update, (h_r, h_z, zero))
        next_r, next_z = write[0] + kept[0], write[1] + kept[1]
        if rule.owned_bias:
            next_r = next_r + owned[:, t] * write[2]
        h_r, h_z = _keep(next_r, h_r, alive), _keep(next_z, h_z, alive)
        outs.append((torch.where(alive, h_r, 0.0), torch.where(alive, h_z, 0.0)))
    both = [torch.stack([out[k] for out in outs], 1) for k in (0, 1)]
    return both[0], both[1], [(h_r, h_z, zero)]
