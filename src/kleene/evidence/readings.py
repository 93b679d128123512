"""A network on one word, as methods that explain symbols see it: what it reads, what it says, how parts pass through.

A recurrent network says one number of a word: above zero, it accepts. Of a transformer of a program it is the margin by
which the class that it gives at the last position leads the next.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kleene.evidence.circuit_graph import Parts, parts_of
from kleene.evidence.parted import RULES, Parted
from kleene.networks.rnn.gated import GatedRNN
from kleene.networks.trained.stacked_transformer import StackedTransformer
from kleene.networks.transformer.model import Transformer

Array = np.ndarray[Any, Any]
ROWS = 4096  # words at a time


@dataclass(frozen=True)
class Reading(ABC):
    """A network on one word; computed in float64.

    - `symbols`: how many there are.
    - `codes`: the word.
    """

    symbols: int
    codes: tuple[int, ...]

    @staticmethod
    def of(network: GatedRNN | Transformer | StackedTransformer, codes: Sequence[int]) -> Reading:
        """A word of a network, which should be in float64 already."""
        word = tuple(int(code) for code in codes)
        if isinstance(network, GatedRNN):
            return RecurrentReading(len(network.alphabet), word, network.recurrent, network.out)
        names = [f"node {k}" for k in range(network.nodes)] if isinstance(network, StackedTransformer) else []
        parts = parts_of(network, names)
        return TransformerReading(len(parts.token_vectors), word, parts)

    def __len__(self) -> int:
        return len(self.codes)

    @property
    @abstractmethod
    def first(self) -> int:
        """How many vectors come before those of the word."""

    @property
    @abstractmethod
    def vectors(self) -> Tensor:
        """What the network reads, one-hot: (time, features)."""

    @abstractmethod
    def output(self, vectors: Tensor) -> Tensor:
        """Return what the network says of each sequence of vectors (batch, time, features), differentiably."""

    @abstractmethod
    def one_hot(self, words: Tensor) -> Tensor:
        """The vectors of words of codes (word, position)."""

    @abstractmethod
    def parts_of(self, masks: Tensor, rule: str) -> tuple[Tensor, Tensor]:
        """The focus's part of the hidden states (mask, time, hidden) and of the output, for masks over symbols."""

    @property
    @abstractmethod
    def weight(self) -> Tensor:
        """What reads the output from the hidden state: (1, hidden)."""

    @property
    def patterns(self) -> list[Tensor] | None:
        """The attention of each layer, (head, position, position); None for networks without."""
        return None

    @torch.no_grad()
    def outputs_of(self, words: Array) -> Array:
        """Return what the network says of each word of codes (word, position)."""
        codes = torch.from_numpy(np.asarray(words).astype(np.int64))
        return torch.cat([self.output(self.one_hot(part)) for part in codes.split(ROWS)]).numpy()

    def drawn(self, *places: int) -> Array:
        """The word with every choice of symbols at some positions: (choices, position)."""
        choices = np.stack(np.meshgrid(*[np.arange(self.symbols)] * len(places), indexing="ij"), -1).reshape(
            -1, len(places)
        )
        words = np.tile(np.array(self.codes), (len(choices), 1))
        words[:, list(places)] = choices
        return words


@dataclass(frozen=True)
class RecurrentReading(Reading):
    """`recurrent` is a `torch.nn.LSTM` or `GRU`, `out` the read-out; the start symbol's vector is the first."""

    recurrent: Any
    out: Any

    @property
    def first(self) -> int:
        return 1

    @cached_property
    def vectors(self) -> Tensor:
        return self.one_hot(torch.tensor([self.codes]))[0]

    def one_hot(self, words: Tensor) -> Tensor:
        start = torch.full((len(words), 1), self.symbols)
        return torch.eye(self.symbols + 1, dtype=torch.float64)[torch.cat([start, words], 1)]

    def output(self, vectors: Tensor) -> Tensor:
        hidden, _ = self.recurrent(vectors)
        return self.out(hidden[:, -1])[:, 0]  # type: ignore[no-any-return]

    @torch.no_grad()
    def parts_of(self, masks: Tensor, rule: str) -> tuple[Tensor, Tensor]:
        focus = torch.cat([torch.zeros(len(masks), 1, dtype=torch.bool), masks], 1)[..., None]
        vectors = self.vectors.expand(len(masks), *self.vectors.shape)
        hidden, _ = self.recurrent(Parted.of(vectors, focus * vectors, None, RULES[rule]))
        return hidden.part, hidden.part[:, -1] @ self.weight[0]

    @property
    def weight(self) -> Tensor:
        weight: Tensor = self.out.weight
        return weight


@dataclass(frozen=True)
class TransformerReading(Reading):
    """A transformer in parts; a symbol owns its embedding, and nobody a position's."""

    parts: Parts

    @property
    def first(self) -> int:
        return 0

    @cached_property
    def vectors(self) -> Tensor:
        return self.one_hot(torch.tensor([self.codes]))[0]

    def one_hot(self, words: Tensor) -> Tensor:
        return torch.eye(self.symbols, dtype=torch.float64)[words]

    @cached_property
    def places(self) -> Tensor:
        """What the positions write: (time, dim)."""
        own = torch.tensor([self.codes])
        return (self.parts.embed(own) - self.parts.token_vectors[own])[0]

    @cached_property
    def leading(self) -> tuple[int, int]:
        """The class that the network gives at the last position, and the next."""
        with torch.no_grad():
            logits = self.parts.logits(self._stream(self.parts.embed(torch.tensor([self.codes]))))
        first, second = logits[0, -1].topk(2).indices.tolist()
        return first, second

    def _stream(self, x: Tensor) -> Tensor:
        """The stream after all layers, from the embedding."""
        for layer in range(self.parts.layers):
            seen = x[:, None].expand(-1, len(self.parts.heads), -1, -1)
            x = self.parts.after(layer, x + self.parts.attend(layer, seen).sum(1))
        return x

    def output(self, vectors: Tensor) -> Tensor:
        logits = self.parts.logits(self._stream(vectors @ self.parts.token_vectors + self.places))[:, -1]
        others = [k for k in range(logits.shape[-1]) if k != self.leading[0]]
        return logits[:, self.leading[0]] - logits[:, others].amax(-1)

    @torch.no_grad()
    def parts_of(self, masks: Tensor, rule: str) -> tuple[Tensor, Tensor]:
        vectors = (self.vectors @ self.parts.token_vectors).expand(len(masks), -1, -1)
        given = Parted.of(
            vectors + self.places, masks[..., None] * vectors, self.places.expand_as(vectors), RULES[rule]
        )
        found = self._stream(given)
        assert isinstance(found, Parted)
        return found.part, found.part[:, -1] @ self.weight[0]

    @property
    def weight(self) -> Tensor:
        first, second = self.leading
        return (self.parts.class_vectors[first] - self.parts.class_vectors[second])[None]

    @property
    def patterns(self) -> list[Tensor]:
        x, found = self.parts.embed(torch.tensor([self.codes])), []
        with torch.no_grad():
            for layer in range(self.parts.layers):
                seen = x[:, None].expand(-1, len(self.parts.heads), -1, -1)
                found.append(self.parts.pattern(layer, seen)[0])
                x = self.parts.after(layer, x + self.parts.attend(layer, seen).sum(1))
        return found
