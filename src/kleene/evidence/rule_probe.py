"""Probe what a stack of language models has learned about rules α Σ^k ω: predictions, decompositions, gradients.

Each model has its own test windows. All measures are read at the conduit's last word, where ω is due, and made in
float64, whatever the models were trained in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from kleene.evidence.corpora import Windows
from kleene.evidence.decomposition import LSTMLayer, Totals, apply, relevant_hidden, totals
from kleene.evidence.interdependence import ratio
from kleene.training.language_model import Stack

GROUP = 4  # models in a batch: bounds the memory


@dataclass(frozen=True)
class Probe:
    """Means over test windows for one model, of its predictions where ω is due."""

    whole: float  # P(ω) of the model
    open: float  # P(ω) from the relevant logits of α alone
    conduit: float  # P(ω) from those of the conduit alone
    interdependence: float  # of α and the conduit
    prefixes: list[float]  # P(ω) from α and the conduit's first i words, i = 0 … k


def layer_of(stack: Stack, models: slice) -> LSTMLayer:
    """The LSTMs of a stack as one layer for the decomposition, in float64."""
    weights = (stack.input[models].mT, stack.recurrent[models].mT, stack.bias[models])
    return LSTMLayer.of(*(part.detach().double() for part in weights))


def _decoder_of(stack: Stack, models: slice) -> tuple[Tensor, Tensor]:
    return stack.decoder[models].detach().double(), stack.decoder_bias[models].detach().double()


def _at(values: Tensor, places: Tensor) -> Tensor:
    """values (…, time, features) at places (…, some): (…, some, features)."""
    return torch.take_along_dim(values, places[..., None], dim=-2)


def _segment(total: Totals, places: Tensor) -> Totals:
    def cut(x: Tensor) -> Tensor:
        return _at(x, places)

    gate, cell = ((cut(three[0]), cut(three[1]), cut(three[2])) for three in (total.gate, total.cell))
    return Totals(gate, cell, cut(total.out), cut(total.driven), cut(total.hidden))


def probe(
    stack: Stack,
    windows: Sequence[Windows],
    *,
    bias_rule: str = "focus",
    prefixes: bool = False,
    omega: int | None = None,
) -> list[Probe]:
    """Probe every model of the stack on its windows (as many windows, of one length, for each).

    omega: the word whose probability is measured; the last one of the vocabulary, if not given.
    """
    found: list[Probe] = []
    with torch.no_grad():
        for models in _groups(windows):
            found += _probe_group(stack, models, windows[models], bias_rule, prefixes, omega)
    return found


def _groups(windows: Sequence[Windows]) -> Iterator[slice]:
    """Group neighbouring models with the same k, whose foci have the same shape."""
    start = 0
    for end in range(1, len(windows) + 1):
        if end == len(windows) or windows[end].k != windows[start].k or end - start == GROUP:
            yield slice(start, end)
            start = end


def _probe_group(
    stack: Stack, models: slice, windows: Sequence[Windows], bias_rule: str, prefixes: bool, omega: int | None
) -> list[Probe]:
    device, k = stack.rate.device, windows[0].k
    tokens, places = _placed(windows, device)
    layer = layer_of(stack, models)
    vectors = _embed(stack, models, tokens)
    total = totals([layer], vectors)[0]
    places = places[..., None] + torch.arange(k + 1, device=device)  # α, conduit: (models, windows, k + 1)
    part, x = _segment(total, places), _at(vectors, places)
    decoder, bias = _decoder_of(stack, models)
    due = stack.sizes["tokens"] - 1 if omega is None else omega

    def relevant(first: int, last: int) -> Tensor:
        """The relevant hidden state where ω is due, of the segment's words first … last."""
        mask = torch.zeros(len(windows), tokens.shape[1], k + 1, dtype=torch.bool, device=device)
        mask[..., first : last + 1] = True
        return relevant_hidden([layer], x, mask, [part], bias_rule)[..., -1, :]

    def chance(logits: Tensor) -> list[float]:
        return logits.softmax(-1)[..., due].mean(1).tolist()

    whole = chance(apply(part.hidden[..., -1, :], decoder) + bias[:, None])
    one, other, both = (apply(relevant(*ends), decoder) for ends in ((0, 0), (1, k), (0, k)))
    depend = ratio(both, one + other, None).mean(1).tolist()
    along = [chance(apply(relevant(0, i), decoder)) for i in range(k + 1)] if prefixes else []
    return [
        Probe(*values, [row[m] for row in along])
        for m, values in enumerate(zip(whole, chance(one), chance(other), depend))
    ]


def _placed(windows: Sequence[Windows], device: torch.device) -> tuple[Tensor, Tensor]:
    tokens = torch.as_tensor(np.stack([w.tokens for w in windows]), device=device)
    return tokens, torch.as_tensor(np.stack([w.open for w in windows]), device=device)


def _embed(stack: Stack, models: slice, tokens: Tensor) -> Tensor:
    table = stack.embedding[models].detach().double()
    return torch.stack([F.embedding(ids, rows) for ids, rows in zip(tokens, table)])


ERRORS = ("window", "omega", "local")


@torch.enable_grad()
def gradients(stack: Stack, windows: Sequence[Windows], error: str = "window") -> list[list[float]]:
    """‖∂E/∂h‖ at α and along the conduit (appendix B); a list per model.

    error: what E is, which the paper leaves open. "window": the errors of the window, summed. "omega": the error of ω
    alone. "local": at each place the error of the next token alone, so that nothing is propagated back.
    """
    found: list[list[float]] = []
    for models in _groups(windows):
        group = windows[models]
        tokens, places = _placed(group, stack.rate.device)
        states = _states(stack, models, tokens)
        decoder, bias = _decoder_of(stack, models)
        logits = apply(torch.stack(states[:-1], -2), decoder) + bias[:, None, None]
        each = F.cross_entropy(logits.flatten(0, -2), tokens[..., 1:].flatten(), reduction="none")
        each = each.view(tokens[..., 1:].shape)
        along = places[..., None] + torch.arange(group[0].k + 1, device=places.device)
        if error == "local":
            chance = logits.detach().softmax(-1)
            chance.scatter_add_(-1, tokens[..., 1:, None], -torch.ones_like(tokens[..., 1:, None], dtype=chance.dtype))
            back = apply(chance, decoder.mT).norm(dim=-1)
        else:
            due = each.gather(-1, along[..., -1:]) if error == "omega" else each
            grads = torch.autograd.grad(due.sum(), states[:-1], allow_unused=True)
            back = torch.stack([torch.zeros_like(states[0]) if g is None else g for g in grads], -2).norm(dim=-1)
        found += back.gather(-1, along).mean(1).tolist()
    return found


def _states(stack: Stack, models: slice, tokens: Tensor) -> list[Tensor]:
    """The hidden state after every token, each a leaf for autograd."""
    layer, n = layer_of(stack, models), stack.sizes["hidden"]
    drive = apply(_embed(stack, models, tokens), layer.input) + layer.bias[:, None, None]
    h = torch.zeros_like(drive[..., 0, :n]).requires_grad_()
    c, states = torch.zeros_like(h), []
    for t in range(tokens.shape[-1]):
        s = torch.sigmoid(drive[..., t, :] + apply(h, layer.recurrent))
        c = s[..., n : 2 * n] * c + s[..., :n] * (2 * s[..., 2 * n : 3 * n] - 1)
        h = s[..., 3 * n :] * torch.tanh(c)
        states.append(h)
    return states
