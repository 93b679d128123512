"""Language models by gradient descent, many of one shape at once.

A `Stack` holds M language models side by side: every weight has a leading axis of models, each model reads
its own text, and nothing passes between them; so a whole experiment (rules × settings × seeds) is one run.
The update is plain SGD with the gradient of each model clipped by itself, in windows of `bptt` tokens that
carry the recurrent state over. On a GPU the step is captured once as a CUDA graph and replayed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kleene.errors import InputError
from kleene.networks.trained.lstm import LanguageModel
from kleene.training.loop import Run, fingerprint, seeded, train
from kleene.training.options import Evaluation, GradientStep, Metrics, Storage


def _cell(z: Tensor, drive: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden state, cell and gates (i, f, g, o side by side) from both halves of the gates' input."""
    if z.is_cuda:
        flat = [x.reshape(-1, x.shape[-1]) for x in (drive, z, c)]
        h, c_new, gates = torch.ops.aten._thnn_fused_lstm_cell(*flat)
        return h.view_as(c), c_new.view_as(c), gates.view_as(z)
    i, f, g, o = (z + drive).chunk(4, -1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    c = f * c + i * g
    return o * c.tanh(), c, torch.cat([i, f, g, o], -1)


def _cell_back(dh: Tensor, dc: Tensor, c: Tensor, c_new: Tensor, gates: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients for the gates' input and for the cell before."""
    if dh.is_cuda:
        flat = [x.reshape(-1, x.shape[-1]) for x in (dh, dc, c, c_new, gates)]
        dz, dc_old, _ = torch.ops.aten._thnn_fused_lstm_cell_backward_impl(*flat, False)
        return dz.view_as(gates), dc_old.view_as(c)
    i, f, g, o = gates.chunk(4, -1)
    y = c_new.tanh()
    dc = dc + dh * o * (1 - y * y)
    return torch.cat(
        [dc * g * i * (1 - i), dc * c * f * (1 - f), dc * i * (1 - g * g), dh * y * o * (1 - o)], -1
    ), dc * f


class _Recurrence(torch.autograd.Function):
    """An LSTM layer over time for a stack of models, with the weights' gradient as one product at the end."""

    @staticmethod
    def forward(ctx: Any, drive: Tensor, recurrent: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """drive (time, models, batch, 4·hidden), recurrent (models, hidden, 4·hidden) → hidden, last cell."""
        hs, cs, gates = [h], [c], []
        for now in drive:
            h, c, gate = _cell(torch.bmm(h, recurrent), now, c)
            hs.append(h)
            cs.append(c)
            gates.append(gate)
        ctx.hs, ctx.cs, ctx.gates, ctx.recurrent = hs, cs, gates, recurrent
        return torch.stack(hs[1:]), c

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, Tensor, None, None]:
        """The recurrent state that a window starts from is data, so the gradient ends there."""
        back = ctx.recurrent.mT.contiguous()
        grad = grad.clone(memory_format=torch.contiguous_format)  # what comes back through time is added in place
        dc = torch.zeros_like(ctx.cs[0])
        dzs = []
        for t in reversed(range(len(grad))):
            dz, dc = _cell_back(grad[t], dc, ctx.cs[t], ctx.cs[t + 1], ctx.gates[t])
            dzs.append(dz)
            if t:
                grad[t - 1].baddbmm_(dz, back)
        before = torch.stack(ctx.hs[:-1], 1).flatten(1, 2)  # (models, time·batch, hidden)
        after = torch.stack(dzs[::-1], 1).flatten(1, 2)
        return torch.stack(dzs[::-1]), torch.bmm(before.mT, after), None, None


def _aligned(values: Tensor, filler: float) -> Tensor:
    """The same with a last axis that is a multiple of 32."""
    return F.pad(values, (0, -values.shape[-1] % 32), value=filler)


@cache
def _fused_entropy() -> Callable[..., Tensor]:
    """Cross-entropy, compiled."""
    fused: Callable[..., Tensor] = torch.compile(F.cross_entropy, dynamic=False)
    return fused


class _Look(torch.autograd.Function):
    """Rows of a matrix; the gradient is added up in place, which a CUDA graph can hold."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, rows: Tensor) -> Tensor:
        """table (rows, features), rows (…) → (…, features)."""
        ctx.rows, ctx.shape = rows, table.shape
        return table.index_select(0, rows.reshape(-1)).view(*rows.shape, -1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        """Each row's gradient is the sum over where it was looked up."""
        flat = grad.reshape(-1, ctx.shape[1])
        return grad.new_zeros(ctx.shape).index_add_(0, ctx.rows.reshape(-1), flat), None


class Stack(nn.Module):
    """M one-layer language models of one shape, and the recurrent state of their training."""

    embedding: Tensor  # (models, tokens, embedding)
    input: Tensor  # (models, embedding, 4·hidden)
    recurrent: Tensor
    bias: Tensor
    decoder: Tensor  # (models, hidden, tokens)
    decoder_bias: Tensor
    h: Tensor  # (models, batch, hidden)
    c: Tensor
    rate: Tensor  # (models,), the learning rates
    best: Tensor  # (models,), the lowest perplexities so far
    epoch: Tensor
    last: tuple[Tensor, Tensor]

    def __init__(
        self,
        models: int,
        tokens: int,
        *,
        embedding: int = 200,
        hidden: int = 200,
        batch: int = 20,
        dropout: float = 0.2,
        seeds: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        self.sizes = {"tokens": tokens, "embedding": embedding, "hidden": hidden}
        self.dropout = dropout
        shapes = {
            "embedding": (tokens, embedding),
            "input": (embedding, 4 * hidden),
            "recurrent": (hidden, 4 * hidden),
            "bias": (4 * hidden,),
            "decoder": (hidden, tokens),
            "decoder_bias": (tokens,),
        }
        for name, shape in shapes.items():
            self.register_parameter(name, nn.Parameter(torch.empty(models, *shape)))
        for name in ("h", "c"):
            self.register_buffer(name, torch.zeros(models, batch, hidden))
        self.register_buffer("rate", torch.ones(models))
        self.register_buffer("best", torch.full((models,), math.inf))
        self.register_buffer("epoch", torch.zeros((), dtype=torch.long))
        for m in range(models):
            torch.manual_seed(seeded(seeds[m] if seeds else m, 0))
            self.put(m, LanguageModel(tokens, embedding, hidden, dropout=dropout))

    @property
    def models(self) -> int:
        """How many models there are."""
        return int(self.rate.shape[0])

    def put(self, m: int, model: LanguageModel) -> None:
        """Make model `m` a copy of `model`."""
        lstm = dict(model.lstm.named_parameters())
        with torch.no_grad():
            for mine, theirs in (
                (self.embedding, model.embedding.weight),
                (self.input, lstm["weight_ih_l0"].T),
                (self.recurrent, lstm["weight_hh_l0"].T),
                (self.bias, lstm["bias_ih_l0"] + lstm["bias_hh_l0"]),
                (self.decoder, model.decoder.weight.T),
                (self.decoder_bias, model.decoder.bias),
            ):
                mine[m].copy_(theirs)

    def take(self, m: int, **options: Any) -> LanguageModel:
        """Model `m` by itself, on the CPU."""
        sizes: dict[str, Any] = {**self.sizes, **options}
        model = LanguageModel(dropout=self.dropout, **sizes)
        lstm = dict(model.lstm.named_parameters())
        with torch.no_grad():
            for theirs, mine in (
                (model.embedding.weight, self.embedding),
                (lstm["weight_ih_l0"], self.input.mT),
                (lstm["weight_hh_l0"], self.recurrent.mT),
                (lstm["bias_ih_l0"], self.bias),
                (model.decoder.weight, self.decoder.mT),
                (model.decoder.bias, self.decoder_bias),
            ):
                theirs.copy_(mine[m])
            lstm["bias_hh_l0"].zero_()
        return model.eval()

    def vectors(self, tokens: Tensor) -> Tensor:
        """Embeddings (models, …, features) of tokens (models, …)."""
        models = tokens.shape[0]
        offset = torch.arange(models, device=tokens.device).view(-1, *[1] * (tokens.dim() - 1)) * self.sizes["tokens"]
        vectors: Tensor = _Look.apply(self.embedding.flatten(0, 1), tokens + offset)  # type: ignore[no-untyped-call]
        return vectors

    def hidden_states(self, tokens: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden states (models, time·batch, hidden), after dropout, of tokens (models, time, batch)."""
        models, steps, batch = tokens.shape
        x = F.dropout(self.vectors(tokens), self.dropout, self.training).flatten(1, 2)
        drive = torch.baddbmm(self.bias[:, None], x, self.input)
        drive = drive.view(models, steps, batch, -1).transpose(0, 1).contiguous()
        hidden, c = _Recurrence.apply(drive, self.recurrent, h, c)  # type: ignore[no-untyped-call]
        self.last = (hidden[-1].detach(), c.detach())
        return F.dropout(hidden.transpose(0, 1).flatten(1, 2), self.dropout, self.training), c

    def logits(self, hidden: Tensor, aligned: bool) -> Tensor:
        """Logits (models, time·batch, tokens) of hidden states.

        aligned: add tokens that have no chance, up to a multiple of 32, for which a GPU has kernels of its own.
        """
        decoder, bias = self.decoder, self.decoder_bias
        if aligned:
            decoder, bias = _aligned(decoder, 0.0), _aligned(bias, -math.inf)
        return torch.baddbmm(bias[:, None], hidden, decoder)

    def losses(self, tokens: Tensor, h: Tensor, c: Tensor) -> Tensor:
        """Mean cross-entropy of each model (models,) on tokens (time + 1, models, batch)."""
        tokens = tokens.transpose(0, 1)
        hidden, _ = self.hidden_states(tokens[:, :-1], h, c)
        logits = self.logits(hidden, aligned=hidden.is_cuda)
        entropy = _fused_entropy() if logits.is_cuda and self.training else F.cross_entropy
        each = entropy(logits.flatten(0, 1), tokens[:, 1:].reshape(-1), reduction="none")
        return each.view(self.models, -1).mean(1)

    def perplexities(self, text: Tensor, window: int = 100) -> Tensor:
        """Perplexity of each model on columns of text (time, models, batch), state carried over."""
        h = self.h.new_zeros(self.models, text.shape[2], self.sizes["hidden"])
        c, total, count = h, torch.zeros_like(self.rate), 0
        with torch.no_grad():
            for start in range(0, len(text) - 1, window):
                part = text[start : start + window + 1]
                total += self.losses(part, h, c) * (len(part) - 1)
                count += len(part) - 1
                h, c = self.last
        return (total / count).exp()


def columns(texts: Sequence[Tensor], batch: int, device: torch.device | str = "cpu") -> Tensor:
    """Texts of one length, one per model, as (time, models, batch): each cut into `batch` columns.

    >>> columns([torch.arange(6)], 2)[:, 0].tolist()
    [[0, 3], [1, 4], [2, 5]]
    """
    lengths = {len(text) for text in texts}
    if len(lengths) != 1 or (length := min(lengths) // batch) < 2:
        raise InputError(f"texts: need one length, at least {2 * batch} tokens; got {sorted(lengths)}")
    cut = [text[: length * batch].view(batch, length) for text in texts]
    return torch.stack(cut).permute(2, 0, 1).contiguous().to(device)


class _Descent:
    """One SGD step of a stack, each model's gradient clipped by itself; replayed as a CUDA graph on a GPU."""

    def __init__(self, stack: Stack, bptt: int, clip: float) -> None:
        self.stack, self.clip = stack, clip
        self.graph: torch.cuda.CUDAGraph | None = None
        device = stack.rate.device
        models, batch = stack.h.shape[:2]
        self.tokens = torch.zeros(bptt + 1, models, batch, dtype=torch.long, device=device)
        self.keep = torch.zeros((), device=device)
        self.loss = torch.zeros(models, device=device)
        if device.type == "cuda":
            self._capture()

    def _capture(self) -> None:
        stack = self.stack
        kept = stack.h.clone(), stack.c.clone(), stack.rate.clone()
        stack.rate.zero_()  # warming up must not move the weights
        stack.train()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self._step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step()
        for buffer, value in zip((stack.h, stack.c, stack.rate), kept):
            buffer.copy_(value)
        self.graph = graph

    def _step(self) -> None:
        stack = self.stack
        for parameter in stack.parameters():
            parameter.grad = None
        losses = stack.losses(self.tokens, stack.h * self.keep, stack.c * self.keep)
        losses.sum().backward()
        with torch.no_grad():
            stack.h.copy_(stack.last[0])
            stack.c.copy_(stack.last[1])
            moves = [(p, p.grad) for p in stack.parameters() if p.grad is not None]
            norms = torch.stack([grad.flatten(1).norm(dim=1) for _, grad in moves]).norm(dim=0)
            scale = stack.rate * (self.clip / (norms + 1e-6)).clamp(max=1)
            for p, grad in moves:
                p.addcmul_(grad, scale.view(-1, *[1] * (p.dim() - 1)), value=-1)
            self.loss.copy_(losses)

    def __call__(self, model: nn.Module, batch: tuple[Tensor, bool]) -> Tensor:
        tokens, first = batch
        self.tokens.copy_(tokens)
        self.keep.fill_(0.0 if first else 1.0)
        if self.graph is None:
            self._step()
        else:
            self.graph.replay()
        return self.loss.mean()


@dataclass(frozen=True)
class StackPlan:
    """How a stack is trained: plain SGD, each model's gradient clipped by itself.

    epochs: passes over the text.
    rate: the first learning rate.
    clip: the largest norm of a model's gradient.
    bptt: tokens in a window of backpropagation through time.
    anneal: divide a model's rate by this after an epoch without a better perplexity.
    seed: of the dropout.
    """

    epochs: int = 40
    rate: float = 1.0
    clip: float = 0.25
    bptt: int = 35
    anneal: float = 1.0
    seed: int = 1111


def train_stack(
    stack: Stack,
    text: Tensor,
    plan: StackPlan,
    *,
    valid: Tensor | None = None,
    evaluate: Callable[[Stack], Metrics] | None = None,
    settings: dict[str, Any] | None = None,
    title: str = "language models",
    storage: Storage | None = None,
) -> Run:
    """Train on columns of text (time, models, batch), and evaluate after every epoch.

    valid: columns on which each model's perplexity is measured; without them no rate is annealed.
    evaluate: more metrics of an epoch.
    """
    bptt = plan.bptt
    per_epoch = (len(text) - 1) // bptt
    if per_epoch < 1:
        raise InputError(f"text: {len(text)} tokens per column; one window of {bptt} needs {bptt + 1}")
    stack.rate.fill_(plan.rate)
    descent: list[_Descent] = []  # made when first used: after a checkpoint was loaded

    def descend(model: nn.Module, batch: tuple[Tensor, bool]) -> Tensor:
        if not descent:
            descent.append(_Descent(stack, bptt, plan.clip))
        return descent[0](model, batch)

    def batches(step: int) -> tuple[Tensor, bool]:
        start = step % per_epoch * bptt
        return text[start : start + bptt + 1], start == 0

    def measure(_: nn.Module) -> Metrics:
        found: Metrics = {}
        stack.epoch += 1
        if valid is not None:
            perplexity = stack.perplexities(valid)
            stack.rate[perplexity >= stack.best] /= plan.anneal
            stack.best.copy_(torch.minimum(stack.best, perplexity))
            found["perplexity"] = perplexity.tolist()
        return {**found, **(evaluate(stack) if evaluate else {})}

    return train(
        stack,
        torch.optim.SGD(stack.parameters(), lr=plan.rate),
        lambda m, b: torch.zeros(()),
        batches,
        steps=plan.epochs * per_epoch,
        seed=plan.seed,
        gradient=GradientStep(descend=descend),
        settings={**(settings or {}), "text": fingerprint(text), "rate": plan.rate, "clip": plan.clip, "bptt": bptt},
        title=title,
        evaluation=Evaluation(measure=measure, every=per_epoch),
        storage=storage or Storage(),
    )
