"""Contextual decomposition: the hidden state of an LSTM as the contribution of the words in focus, plus the rest.

At every time step h = h^r + h^q: the relevant part comes from the words in focus alone; the irrelevant part
from all others and from their interactions with the focus. With z = r + q + b the summed input of a gate φ,
the focus gets the Shapley value of r beside q, on top of the bias:

    L^r = ½ [φ(r + b) − φ(b) + φ(z) − φ(z − r)]        (the paper prints the second difference wrongly)

The irrelevant part is the total less the relevant one, so only the relevant stream is propagated here;
`two_streams` is the textbook form that it is tested against. Writing w = e^r − 1, a logistic gate gives

    L^r = w/2 · [σ_b(1 − σ_b) / (1 − σ_b + σ_b e^r) + σ_z(1 − σ_z) / (σ_z + (1 − σ_z) e^r)]

without a difference of near numbers (in float32, w comes from `expm1`), so that small shares keep their
relative precision; tanh x = 2σ(2x) − 1 turns the candidate gate and the cell's output into the same formula.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import factorial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from kleene.errors import InputError, NotSupported, a_type

BIAS_RULES = ("focus", "murdoch")
LIMITS = {torch.float64: 650.0, torch.float32: 80.0}  # e^r of the largest gate inputs must be a number


@dataclass(frozen=True)
class LSTMLayer:
    """One LSTM layer as the decomposition needs it: gates i, f, g, o side by side, g doubled (tanh as σ).

    Tensors may have a leading axis of models: a stack of LSTMs of one shape is decomposed at once.
    """

    input: Tensor  # (features, 4·hidden)
    recurrent: Tensor  # (hidden, 4·hidden)
    bias: Tensor  # (4·hidden)

    @property
    def hidden(self) -> int:
        """The number of hidden units."""
        return self.recurrent.shape[-2]

    @staticmethod
    def of(weight_ih: Tensor, weight_hh: Tensor, bias: Tensor) -> LSTMLayer:
        """Rearrange torch's weights: (4·hidden, …) with the gates i, f, g, o."""
        hidden = weight_hh.shape[-1]
        double = torch.ones(4 * hidden, dtype=weight_ih.dtype, device=weight_ih.device)
        double[2 * hidden : 3 * hidden] = 2
        return LSTMLayer(
            (weight_ih * double[:, None]).mT.contiguous(),
            (weight_hh * double[:, None]).mT.contiguous(),
            bias * double,
        )


@dataclass(frozen=True)
class Totals:
    """The activations of a layer at every word, which the relevant stream looks up.

    `gate` is (σ(z), σ(−z), ½σ(z)σ(−z)) of the gates i, f, g; `cell` the same of 2c; `driven` is W x.
    """

    gate: tuple[Tensor, Tensor, Tensor]
    cell: tuple[Tensor, Tensor, Tensor]
    out: Tensor
    driven: Tensor
    hidden: Tensor


def layers_of(lstm: nn.Module, dtype: torch.dtype = torch.float64) -> list[LSTMLayer]:
    """The layers of a `torch.nn.LSTM`, converted to `dtype`."""
    if dtype not in LIMITS:
        raise NotSupported(f"decompose: cannot use {dtype}; use torch.float64 or torch.float32")
    if not isinstance(lstm, nn.LSTM):
        raise NotSupported(f"decompose: needs a torch.nn.LSTM, not {a_type(lstm)}; kl.contributions takes any model")
    if lstm.bidirectional or lstm.proj_size:
        what = "a bidirectional LSTM" if lstm.bidirectional else "an LSTM with proj_size"
        raise NotSupported(
            f"decompose: cannot take {what}; it takes LSTMs that read left to right, "
            "unprojected; kl.contributions takes any model"
        )
    layers = []
    for index in range(lstm.num_layers):
        names = [f"weight_ih_l{index}", f"weight_hh_l{index}"]
        w, v = (getattr(lstm, name).detach().to(dtype) for name in names)
        b = torch.zeros_like(w[:, 0])
        if lstm.bias:
            b = sum((getattr(lstm, f"bias_{side}_l{index}").detach().to(dtype) for side in ("ih", "hh")), b)
        layers.append(LSTMLayer.of(w, v, b))
    return layers


def apply(rows: Tensor, weight: Tensor) -> Tensor:
    """rows · weight; in a stack, each model has its own weight."""
    if weight.dim() == 2:
        return rows @ weight
    flat = rows.reshape(rows.shape[0], -1, rows.shape[-1])
    return torch.bmm(flat, weight).reshape(*rows.shape[:-1], -1)


def triple(z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """σ(z), σ(−z) and half their product; σ(−z) is computed directly, since 1 − σ(z) rounds."""
    s, n = torch.sigmoid(z), torch.sigmoid(-z)
    return s, n, 0.5 * s * n


def spread(values: Tensor, rows: Tensor) -> Tensor:
    """Insert axes of length one before the last axis of `values`, until it has as many axes as `rows`.

    Only for stacks of models, whose first axis must stay first.
    """
    extra = rows.dim() - values.dim()
    return values.reshape(*values.shape[:-1], *[1] * extra, values.shape[-1]) if extra > 0 else values


def totals(layers: Sequence[LSTMLayer], vectors: Tensor) -> list[Totals]:
    """Run the LSTM on vectors (…, time, features), and keep its activations."""
    found = []
    for layer in layers:
        n, stacked = layer.hidden, layer.bias.dim() > 1
        driven = apply(vectors, layer.input)  # (…, time, 4·hidden)
        drive = driven + (spread(layer.bias, driven) if stacked else layer.bias)
        h = torch.zeros_like(driven[..., 0, :n])
        c, zs, cs, hs = h, [], [], []
        for t in range(vectors.shape[-2]):
            z = drive[..., t, :] + apply(h, layer.recurrent)
            s = torch.sigmoid(z)
            c = s[..., n : 2 * n] * c + s[..., :n] * (2 * s[..., 2 * n : 3 * n] - 1)
            h = s[..., 3 * n :] * torch.tanh(c)
            zs.append(z)
            cs.append(c)
            hs.append(h)
        z, hidden = torch.stack(zs, -2), torch.stack(hs, -2)
        if not (most := float(z.abs().max())) <= LIMITS[z.dtype]:  # also rejects NaN
            raise InputError(f"decompose: a gate's input is {most:.0f}; {z.dtype} is exact to {LIMITS[z.dtype]:.0f}")
        found.append(
            Totals(
                triple(z[..., : 3 * n]),
                triple(2 * torch.stack(cs, -2)),
                torch.sigmoid(z[..., 3 * n :]),
                driven[..., : 3 * n],
                hidden,
            )
        )
        vectors = hidden
    return found


class Stream:
    """Steps the relevant stream of one layer. Each row is a focus; activations are broadcast to the rows."""

    def __init__(self, layer: LSTMLayer, bias_rule: str = "focus") -> None:
        if bias_rule not in BIAS_RULES:
            raise InputError(f"bias_rule {bias_rule!r}: unknown; choose one of {', '.join(BIAS_RULES)}")
        n = layer.hidden
        self.hidden, self.owns = n, bias_rule == "focus"
        self.input = layer.input[..., : 3 * n].contiguous()
        self.recurrent = layer.recurrent[..., : 3 * n].contiguous()
        self.bias = triple(layer.bias[..., : 3 * n])
        s = self.bias[0]
        self.i, self.f, self.g = s[..., :n], s[..., n : 2 * n], 2 * s[..., 2 * n :] - 1
        self.limit = LIMITS[s.dtype]

    def _share(self, r: Tensor, base: Sequence[Tensor | float], total: Sequence[Tensor]) -> Tensor:
        """The Shapley value of r for σ, above `base`; `total` belongs to the sum of all summands."""
        r = r.clamp_(-self.limit, self.limit)  # the caller no longer needs r
        e = torch.exp(r)
        w = e - 1 if r.dtype == torch.float64 else torch.expm1(r)  # e − 1 rounds small shares, not exactness
        return w.mul_((base[2] / (base[0] * e).add_(base[1])).add_(total[2] / (total[1] * e).add_(total[0])))

    def step(
        self,
        r: Tensor,
        cell: Tensor,
        owned: Tensor | float,
        gate: Sequence[Tensor],
        total_cell: Sequence[Tensor],
        out: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Compute the relevant hidden state and cell from the relevant gate inputs r and cell.

        `owned` is the focus mask of this time step, one entry per row.
        """
        n, i, f, g = self.hidden, self.i, self.f, self.g
        bias: Sequence[Tensor] = self.bias
        if i.dim() > 1:  # a stack of models
            i, f, g = (spread(x, cell) for x in (i, f, g))
            bias = [spread(x, r) for x in bias]
        shares = self._share(r, bias, gate)
        i_r, f_r, g_r = shares[..., :n], shares[..., n : 2 * n], 2 * shares[..., 2 * n :]
        cell = ((f_r + f) * cell).addcmul_(i_r, g_r + g).addcmul_(i, g_r)
        if self.owns:
            cell = cell.addcmul_(owned, i * g) if isinstance(owned, Tensor) else cell + owned * (i * g)
        return self._share(2 * cell, (0.5, 0.5, 0.125), total_cell).mul_(2).mul_(out), cell


def relevant_hidden(
    layers: Sequence[LSTMLayer], vectors: Tensor, masks: Tensor, found: Sequence[Totals], bias_rule: str = "focus"
) -> Tensor:
    """The relevant hidden states (…, time, hidden) of the last layer, for foci given as masks (…, time).

    The axes of `masks` before time are rows, and broadcast against those of `vectors` before time.
    """
    part: Tensor | None = None  # the layer's relevant input; the first layer's is its focused words
    weight = masks.to(vectors.dtype)
    for layer, total in zip(layers, found):
        stream = Stream(layer, bias_rule)
        rows = torch.broadcast_shapes(weight.shape[:-1], total.out.shape[:-2])
        h = vectors.new_zeros(*rows, layer.hidden)
        c, states = h, []
        driven = None if part is None else apply(part, stream.input)
        for t in range(vectors.shape[-2]):
            mask = weight[..., t, None]
            now = mask * total.driven[..., t, :] if driven is None else driven[..., t, :]
            h, c = stream.step(
                apply(h, stream.recurrent) + now,
                c,
                mask,
                [x[..., t, :] for x in total.gate],
                [x[..., t, :] for x in total.cell],
                total.out[..., t, :],
            )
            states.append(h)
        part = torch.stack(states, -2)
    assert part is not None
    return part


def two_streams(
    layers: Sequence[LSTMLayer], vectors: Tensor, masks: Tensor, bias_rule: str = "focus"
) -> tuple[Tensor, Tensor]:
    """Propagate both parts by their own equations: slower, and the reference for the single-stream form."""

    def shares(phi: Callable[[Tensor], Tensor], r: Tensor, q: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        both, base = phi(r + q + b), phi(b)
        return (
            (phi(r + b) - base + both - phi(q + b)) / 2,
            (phi(q + b) - base + both - phi(r + b)) / 2,
            base,
        )

    mask = masks.to(vectors.dtype)[..., None]  # (rows, time, 1)
    x_r, x_q = mask * vectors, (1 - mask) * vectors
    for layer in layers:
        n = layer.hidden
        slices = [slice(k * n, (k + 1) * n) for k in range(4)]
        scale = torch.ones_like(layer.bias)
        scale[slices[2]] = 0.5  # `LSTMLayer` holds the candidate gate doubled
        w, v, b = layer.input * scale, layer.recurrent * scale, layer.bias * scale
        h_r = h_q = c_r = c_q = torch.zeros_like(x_r[..., 0, :1] * b[:n])
        out_r, out_q = [], []
        for t in range(vectors.shape[-2]):
            m = mask[..., t, :] if bias_rule == "focus" else torch.zeros_like(mask[..., t, :])
            r, q = x_r[..., t, :] @ w + h_r @ v, x_q[..., t, :] @ w + h_q @ v
            (i_r, i_q, i_b), (f_r, f_q, f_b), (g_r, g_q, g_b) = (
                shares(torch.tanh if k == 2 else torch.sigmoid, r[..., s], q[..., s], b[s])
                for k, s in enumerate(slices[:3])
            )
            o = torch.sigmoid((r + q + b)[..., slices[3]])
            c_r, c_q = (
                i_r * (g_r + g_b) + i_b * g_r + m * i_b * g_b + (f_r + f_b) * c_r,
                i_q * (g_r + g_q + g_b) + (i_r + i_b) * g_q + (1 - m) * i_b * g_b + (f_r + f_q + f_b) * c_q + f_q * c_r,
            )
            whole, apart_r, apart_q = torch.tanh(c_r + c_q), torch.tanh(c_r), torch.tanh(c_q)
            h_r, h_q = o * (apart_r + whole - apart_q) / 2, o * (apart_q + whole - apart_r) / 2
            out_r.append(h_r)
            out_q.append(h_q)
        x_r, x_q = torch.stack(out_r, -2), torch.stack(out_q, -2)
    return x_r, x_q


def shapley(phi: Callable[[Any], Any], summands: Sequence[Any]) -> list[Any]:
    """The exact Shapley value of each summand of φ(y₁ + … + y_N): its mean effect over all orders.

    >>> shapley(lambda y: y * y, [1.0, 2.0])      # (1 + 2)² = 9 = 1 + 4 + 2·1·2, the product shared equally
    [3.0, 6.0]
    """
    count, values = len(summands), []
    for j, own in enumerate(summands):
        others = [y for k, y in enumerate(summands) if k != j]
        value = 0 * own
        for size in range(count):
            weight = factorial(size) * factorial(count - size - 1) / factorial(count)
            for subset in combinations(others, size):
                rest = sum(subset, 0 * own)
                value = value + weight * (phi(rest + own) - phi(rest))
        values.append(value)
    return values


@dataclass(frozen=True)
class Decomposition:
    """An LSTM's hidden states in two parts that add up, at every read position.

    With several foci the first axis is the focus; `hidden` is the LSTM's own (time × hidden).
    """

    relevant_hidden: Tensor
    hidden: Tensor
    decoder: Tensor | None
    bias: Tensor | None

    @property
    def irrelevant_hidden(self) -> Tensor:
        """The contribution of the words out of focus, and all their interactions with the focus."""
        return self.hidden - self.relevant_hidden

    @property
    def relevant_logits(self) -> Tensor:
        """v_β, without the decoder's bias."""
        return self.relevant_hidden @ self._weights().mT

    @property
    def irrelevant_logits(self) -> Tensor:
        """The logits' other part, without the decoder's bias."""
        return self.irrelevant_hidden @ self._weights().mT

    @property
    def logits(self) -> Tensor:
        """The logits of the model: both parts and the decoder's bias."""
        plain = self.hidden @ self._weights().mT
        return plain if self.bias is None else plain + self.bias

    @property
    def relevant_probabilities(self) -> Tensor:
        """P(Y | x_β) = softmax(v_β)."""
        return self.relevant_logits.softmax(-1)

    def _weights(self) -> Tensor:
        if self.decoder is None:
            raise InputError("decomposition: made without a decoder, so it has no logits; pass the output layer")
        return self.decoder


def decoder_of(
    decoder: nn.Linear | Tensor | None, hidden: int, dtype: torch.dtype
) -> tuple[Tensor | None, Tensor | None]:
    """The output layer's weight (outputs × hidden) and bias, checked against the LSTM's width."""
    weight = decoder.weight if isinstance(decoder, nn.Linear) else decoder
    if weight is None:
        return None, None
    if not isinstance(weight, Tensor) or weight.dim() != 2 or weight.shape[1] != hidden:
        shape = tuple(weight.shape) if isinstance(weight, Tensor) else type(weight).__name__
        raise InputError(f"decoder {shape}: needs a torch.nn.Linear or a matrix of outputs × {hidden}")
    if not weight.isfinite().all():
        raise InputError("decoder: has weights that are not finite numbers")
    bias = decoder.bias if isinstance(decoder, nn.Linear) else None
    return weight.detach().to(dtype), None if bias is None else bias.detach().to(dtype)


def masks_of(focus: Tensor | Iterable[Any] | slice | int, length: int) -> Tensor:
    """A focus as a mask over time: one position or several, a slice, a Boolean mask; or a list of these, a row each.

    >>> masks_of([0, 2], 3), masks_of([True, False, True], 3), masks_of([[0], []], 2)
    (tensor([ True, False,  True]), tensor([ True, False,  True]), tensor([[ True, False],
            [False, False]]))
    """
    if isinstance(focus, slice):
        focus = range(length)[focus]
    if not isinstance(focus, Iterable) or (isinstance(focus, Tensor) and focus.dim() == 0):
        focus = [focus.item() if isinstance(focus, Tensor) else focus]
    if isinstance(focus, Tensor) and focus.dtype == torch.bool:
        if focus.shape[-1] != length:
            raise InputError(f"focus: a mask of {focus.shape[-1]} positions for a sentence of {length}")
        return focus
    positions = focus.tolist() if isinstance(focus, Tensor) else list(focus)
    if any(isinstance(entry, (Iterable, slice)) and not isinstance(entry, str) for entry in positions):
        return torch.stack([masks_of(entry, length) for entry in positions])
    if positions and all(isinstance(entry, (bool, np.bool_)) for entry in positions):
        return masks_of(torch.tensor([bool(entry) for entry in positions]), length)
    return _mask_at(positions, length)


def _mask_at(positions: Iterable[Any], length: int) -> Tensor:
    """The mask of some positions, each of which must be inside the sentence."""
    mask = torch.zeros(length, dtype=torch.bool)
    for position in positions:
        if not isinstance(position, (int, np.integer)) or not 0 <= position < length:
            raise InputError(f"focus: position {position!r} is outside the sentence; use 0 to {length - 1}")
        mask[int(position)] = True
    return mask


def checked_vectors(lstm: nn.LSTM, vectors: Any, dtype: torch.dtype) -> Tensor:
    """Vectors (…, time, features) that fit the LSTM, or an error that says what fits."""
    if isinstance(vectors, np.ndarray):
        vectors = torch.from_numpy(vectors)
    if not isinstance(vectors, Tensor) or vectors.dim() < 2 or vectors.shape[-1] != lstm.input_size:
        shape = tuple(vectors.shape) if isinstance(vectors, Tensor) else type(vectors).__name__
        raise InputError(f"vectors {shape}: needs a tensor of time × {lstm.input_size} features")
    if vectors.shape[-2] == 0:
        raise InputError("vectors: an empty sentence; give at least one word")
    if not vectors.isfinite().all():
        raise InputError("vectors: some are not finite numbers")
    return vectors.detach().to(dtype)


def decompose(
    lstm: nn.LSTM,
    decoder: nn.Linear | Tensor | None,
    vectors: Tensor,
    focus: Tensor | Iterable[Any] | slice | int,
    *,
    bias_rule: Literal["focus", "murdoch"] = "focus",
    dtype: torch.dtype = torch.float64,
) -> Decomposition:
    """Split every hidden state and prediction of an LSTM into the contribution of the words in `focus`, and the rest.

    - `vectors`: one sentence (time × features), or a batch of sentences of one length (sentences × time × features).
    - `focus`: one position or several, a slice, or a Boolean mask; or a list of these, for a batch one a sentence.
    - `bias_rule`: "focus" gives words in focus the product of the gates' biases; "murdoch", the original rule,
      does not.
    - `dtype`: the number format of the computation.

    >>> _ = torch.manual_seed(0); lstm = nn.LSTM(3, 4); decoder = nn.Linear(4, 5); x = torch.randn(6, 3)
    >>> parts = decompose(lstm, decoder, x, focus=[1, 4])
    >>> parts.relevant_hidden.shape, parts.relevant_logits.shape
    (torch.Size([6, 4]), torch.Size([6, 5]))
    >>> whole = decoder(lstm(x)[0]); summed = parts.relevant_logits + parts.irrelevant_logits + decoder.bias
    >>> torch.allclose(whole, summed.float(), atol=1e-6)
    True
    """
    layers = layers_of(lstm, dtype)
    vectors = checked_vectors(lstm, vectors, dtype)
    weight, bias = decoder_of(decoder, lstm.hidden_size, dtype)
    masks = masks_of(focus, vectors.shape[-2]).to(vectors.device)
    if vectors.dim() > 2 and masks.dim() > 1 and masks.shape[0] not in (1, vectors.shape[0]):
        raise InputError(f"focus: {masks.shape[0]} foci for {vectors.shape[0]} sentences; give one, or one each")
    with torch.no_grad():
        found = totals(layers, vectors)
        part = relevant_hidden(layers, vectors, masks, found, bias_rule)
    return Decomposition(part, found[-1].hidden, weight, bias)
