"""The simple RNN of Definition 4.1 as a torch module, for batches. Its exact counterpart is `exact.ExactRNN`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from kleene.common.alphabet import Word, encode_batch
from kleene.errors import NotExact
from kleene.networks.formats import check_format
from kleene.networks.rnn.exact import ExactRNN
from kleene.networks.rnn.packing import Packed

__all__ = ["ExactRNN", "SimpleRNN"]

MAX_DENSE_UNITS = 8192
EXACT_INTEGERS = {torch.float32: 2**24, torch.float64: 2**53}


class SimpleRNN(nn.Module):
    """h⁽⁻¹⁾ = s, h⁽ⁱ⁾ = σ(V h⁽ⁱ⁻¹⁾ + W x⁽ⁱ⁾ + b), y = out(h), with σ ReLU or SLU; symbols are one-hot."""

    def __init__(
        self,
        alphabet: Sequence[str],
        units: int,
        outputs: int = 1,
        activation: str = "relu",
        criterion: str = "one",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.alphabet, self.activation, self.criterion = tuple(alphabet), activation, criterion
        self.s = nn.Parameter(torch.zeros(units, dtype=dtype))
        self.V = nn.Parameter(torch.zeros(units, units, dtype=dtype))
        self.W = nn.Parameter(torch.zeros(units, len(self.alphabet), dtype=dtype))
        self.b = nn.Parameter(torch.zeros(units, dtype=dtype))
        self.out = nn.Linear(units, outputs, dtype=dtype)
        self.limit: int | None = None  # see watch
        self.every = 1
        self.made_for: torch.dtype | None = None  # the format that holds the numbers of an exact network

    @classmethod
    def from_exact(
        cls, rnn: ExactRNN, dtype: torch.dtype | None = None, device: str | torch.device = "cpu"
    ) -> SimpleRNN:
        """Copy an exact network; raise NotExact if a number or a sum would be rounded."""
        bound = _largest_sum(rnn)
        if dtype is None:
            dtype = torch.float32 if bound <= EXACT_INTEGERS[torch.float32] else torch.float64
        if bound > EXACT_INTEGERS.get(dtype, 0):
            raise NotExact(f"RNN: sums reach {bound:,}, more than {dtype} holds exactly")
        if rnn.units > MAX_DENSE_UNITS:
            raise NotExact(f"RNN: {rnn.units:,} units, more than the {MAX_DENSE_UNITS:,} of a dense network")
        module = cls(rnn.alphabet, rnn.units, rnn.out_W.rows, rnn.activation, rnn.criterion, dtype)
        with torch.no_grad():
            for parameter, entries in (
                (module.V, rnn.V.entries),
                (module.W, rnn.W.entries),
                (module.out.weight, rnn.out_W.entries),
                (module.b, rnn.b),
                (module.s, rnn.s),
                (module.out.bias, rnn.out_b),
            ):
                parameter.zero_()
                if entries:
                    at = torch.tensor(list(entries)).T if parameter.dim() == 2 else torch.tensor([list(entries)])
                    parameter[tuple(at)] = torch.tensor([float(v) for v in entries.values()], dtype=dtype)
        module.made_for = dtype
        return module.to(device)

    def extra_repr(self) -> str:
        letters = ", ".join(self.alphabet[:8]) + (", …" if len(self.alphabet) > 8 else "")
        return f"{len(self.s)} {self.activation} units, alphabet {{{letters}}}, {self.s.dtype}"

    def forward(self, codes: Tensor) -> Tensor:
        """The outputs after the last symbol: (batch, time) codes of symbols → (batch, outputs)."""
        batch = codes.shape[0]
        h = self.s[:, None].expand(-1, batch)  # (unit, batch): the batch side by side is faster
        inputs = self.W + self.b[:, None]  # (unit, symbol): W x + b of each symbol
        peaks, last = [], codes.shape[1]
        for step, x in enumerate(codes.T.contiguous(), 1):
            h = inputs.index_select(1, x).addmm_(self.V, h)
            h = h.relu_() if self.activation == "relu" else h.clamp_(0, 1)
            if self.limit is not None and h.numel() and (step % self.every == 0 or step == last):
                peaks.append(h.amax())
        if self.limit is not None and peaks and not float(torch.stack(peaks).amax()) <= self.limit:  # NaN, too
            raise NotExact(f"RNN: a hidden value is above {self.limit}, so floating point might round")
        logits: Tensor = self.out(h.T)
        return logits

    @torch.no_grad()
    def watch(self, limit: int) -> None:
        """Raise NotExact in later runs if floating point might round.

        limit: the claimed bound on hidden values. A step multiplies the largest value, or 1, by at most `growth`. So it
            is enough to check the bound before values could leave the exact range.
        """
        rows = self.V.abs().sum(dim=1) + self.W.abs().amax(dim=1) + self.b.abs()
        growth = max(2, math.ceil(float(rows.max()))) if len(rows) else 2
        self.limit, self.every = max([limit, *map(int, self.s.abs())]), 1
        while growth ** (self.every + 1) * self.limit <= EXACT_INTEGERS[self.V.dtype]:
            self.every += 1

    @torch.no_grad()
    def accepts_batch(self, words: Sequence[Word]) -> np.ndarray:
        """Whether each word is accepted; words of all lengths run side by side, and leave the batch as they end."""
        if self.made_for is not None:
            check_format("RNN", self.V, self.made_for)
        codes, offsets = encode_batch(words, self.alphabet)
        packed = Packed(codes, offsets)
        answers = np.empty(len(words), dtype=bool)
        y = self.out(self._after(packed).T)[:, 0]
        answers[packed.order] = (y == 1 if self.criterion == "one" else y > 0).cpu().numpy()
        return answers

    def _after(self, packed: Packed) -> Tensor:
        """The hidden vectors after words, longest first: (unit, word)."""
        ended = self.s[:, None].repeat(1, len(packed.order))
        h = ended  # the words that go on
        inputs = self.W + self.b[:, None]
        peaks, last = [], len(packed.counts)
        for step, count in enumerate(packed.counts.tolist(), 1):
            if count < h.shape[1]:
                ended[:, count : h.shape[1]] = h[:, count:]
                h = h[:, :count]
            x = torch.from_numpy(packed.at(step - 1)).to(self.V.device)
            h = inputs.index_select(1, x).addmm_(self.V, h)
            h = h.relu_() if self.activation == "relu" else h.clamp_(0, 1)
            if self.limit is not None and h.numel() and (step % self.every == 0 or step == last):
                peaks.append(h.amax())
        ended[:, : h.shape[1]] = h
        if self.limit is not None and ended.numel():
            peaks.append(ended.amax())  # words that ended between two checks
        if self.limit is not None and peaks and not float(torch.stack(peaks).amax()) <= self.limit:  # NaN, too
            raise NotExact(f"RNN: a hidden value is above {self.limit}, so floating point might round")
        return ended

    def accepts(self, word: Word) -> bool:
        """Whether the word is accepted."""
        return bool(self.accepts_batch([word])[0])


def _largest_sum(rnn: ExactRNN) -> int:
    """A bound on every sum of absolute values in a step of an integer network with bounded values."""
    if not rnn.integer:
        raise NotExact("RNN: some weights are not integers, so floating point would round; run the network exactly")
    largest = 1 if rnn.activation == "slu" else rnn.largest
    if largest is None:
        raise NotExact(
            "RNN: no bound on hidden values is known, so floating point might round; run the network exactly"
        )
    bound = max([largest, *(abs(int(v)) for v in rnn.s.values())])
    sums: dict[tuple[str, int], int] = {}
    for name, matrix, bias in (("V", rnn.V, rnn.b), ("out", rnn.out_W, rnn.out_b)):
        for (i, _), value in matrix.entries.items():
            sums[name, i] = sums.get((name, i), 0) + abs(int(value)) * bound
        for i, value in bias.items():
            sums[name, i] = sums.get((name, i), 0) + abs(int(value))
    inputs = max([0, *(abs(int(v)) for v in rnn.W.entries.values())])
    return max([0, *sums.values()]) + inputs
