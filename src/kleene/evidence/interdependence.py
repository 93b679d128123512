"""Interdependence of words in an LSTM: how far two contributions are from adding up (section 2.2).

    interdependence(A, B) = ‖v_{A∪B} − (v_A + v_B)‖ / ‖v_{A∪B}‖

with v the relevant logits of contextual decomposition. All pairs of all sentences are computed together:
the pair (l, r) is the single l until r is read, so it forks there; at r it even shares the single's matrix
product. ‖W d‖ = ‖R d‖ with the decoder W = QR, so that no logits are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from kleene.common.cluster import Cluster, chunks, cluster_of, spread_map
from kleene.errors import InputError
from kleene.evidence.decomposition import (
    LSTMLayer,
    Stream,
    Totals,
    checked_vectors,
    decoder_of,
    layers_of,
    masks_of,
    relevant_hidden,
    totals,
)

READS = ("right", "end")
NOISE_SAMPLE = 8  # sentences on which float32 is compared with float64
NOISE_WORDS = 10  # the first words of each
NOISE_PAIRS = 16  # pairs among them
SENTENCES = 256  # of one call on a cluster
ROWS = 20_000  # the most pairs in a batch: bounds the memory
KEPT = 5_000  # pairs of a sentence that are kept to its end at a time


@dataclass(frozen=True)
class Interdependence:
    """Interdependence of all pairs: for each sentence a symmetric matrix (words × words), zero diagonal.

    `noise` is the largest error that float32 made on the pairs where it was compared with float64.
    """

    matrices: list[Tensor]
    noise: float | None = None

    def __len__(self) -> int:
        return len(self.matrices)

    def __getitem__(self, sentence: int) -> Tensor:
        return self.matrices[sentence]

    def pairs(self) -> Iterator[tuple[int, int, int, float]]:
        """(sentence, left word, right word, interdependence) of every pair."""
        for index, matrix in enumerate(self.matrices):
            left, right = torch.triu_indices(len(matrix), len(matrix), 1)
            for l, r, value in zip(left.tolist(), right.tolist(), matrix[left, right].tolist()):
                yield index, l, r, value

    def to_html(self, path: str | Path | None = None, *, words: Sequence[Sequence[str]] | None = None) -> str:
        """Return the heat maps as a self-contained HTML page; also write it to `path` if given."""
        from kleene.show.page.heat import interdependence_page

        return interdependence_page(self, words).write(path)

    def _repr_html_(self) -> str:
        from kleene.show.page.heat import IN_A_NOTEBOOK, interdependence_page

        return interdependence_page(self, None, IN_A_NOTEBOOK).framed()


def triangle(weight: Tensor | None) -> Tensor | None:
    """R of W = QR, where R is smaller than W; both give the same norms."""
    if weight is None or weight.shape[0] <= weight.shape[1]:
        return weight
    factor: Tensor = torch.linalg.qr(weight, mode="r")[1]
    return factor


def ratio(joint: Tensor, apart: Tensor, frame: Tensor | None) -> Tensor:
    """‖joint − apart‖ / ‖joint‖ after the decoder; 0 where joint is 0."""
    both = torch.stack([joint - apart, joint])
    both = (both if frame is None else both @ frame.mT).norm(dim=-1)
    return torch.where(both[1] == 0, torch.zeros_like(both[0]), both[0] / both[1])  # NaN stays NaN


def interdependence(
    lstm: nn.LSTM,
    decoder: nn.Linear | Tensor | None,
    sentences: Tensor | Sequence[Tensor],
    *,
    read: Literal["right", "end"] = "right",
    bias_rule: Literal["focus", "murdoch"] = "focus",
    dtype: torch.dtype = torch.float64,
    noise: bool = True,
    cluster: Cluster | str | None = None,
) -> Interdependence:
    """Measure the interdependence of all pairs of words of all sentences, each a tensor of time × features.

    - `decoder`: the layer from hidden states to logits; None compares the hidden states themselves.
    - `read`: where a pair is read, after its "right" word or at the "end" of the sentence.
    - `bias_rule`: "focus" gives words in focus the product of the gates' biases; "murdoch", the original rule,
      does not.
    - `dtype`: the number format of the computation.
    - `noise`: in float32, measure the error on pairs of the first words of some sentences and keep it with the result.
    - `cluster`: measure on this Ray cluster: its address, "auto", or a `kleene.common.cluster.Cluster`.

    >>> _ = torch.manual_seed(0); lstm = nn.LSTM(3, 4); decoder = nn.Linear(4, 9)
    >>> found = interdependence(lstm, decoder, [torch.randn(5, 3), torch.randn(2, 3)])
    >>> len(found), found[0].shape, bool((found[0] == found[0].T).all()), float(found[1][0, 0])
    (2, torch.Size([5, 5]), True, 0.0)
    """
    if read not in READS:
        raise InputError(f"read {read!r}: unknown; pairs are read at: {', '.join(READS)}")
    layers = layers_of(lstm, dtype)
    if getattr(sentences, "ndim", 3) < 3:
        raise InputError("interdependence: one sentence; give a list of sentences, [vectors]")
    vectors = [checked_vectors(lstm, sentence, dtype) for sentence in sentences]
    weight, _ = decoder_of(decoder, lstm.hidden_size, dtype)
    pairs = sum(len(sentence) * (len(sentence) - 1) // 2 for sentence in vectors)
    with torch.no_grad():
        frame = triangle(weight) if pairs > lstm.hidden_size else weight  # QR costs about that many products
        where = cluster_of(cluster)
        if where is None:
            matrices = all_pairs(layers, frame, vectors, read, bias_rule)
        else:
            matrices = _spread(where, _AllPairs(layers, frame, read, bias_rule), vectors)
    if dtype == torch.float64 or not vectors or not noise:
        return Interdependence(matrices)
    first = vectors[: max(1, min(NOISE_SAMPLE, len(vectors) // 16))]
    with torch.no_grad():
        values = [[_some_pairs(lstm, decoder, x, read, bias_rule, d) for d in (dtype, torch.float64)] for x in first]
    return Interdependence(matrices, max(float((a.double() - b).abs().max()) if len(a) else 0.0 for a, b in values))


def _some_pairs(
    lstm: nn.LSTM, decoder: nn.Linear | Tensor | None, vectors: Tensor, read: str, bias_rule: str, dtype: torch.dtype
) -> Tensor:
    """The interdependence of some pairs among a sentence's first words, evenly chosen, in a number format."""
    layers, x = layers_of(lstm, dtype), vectors[:NOISE_WORDS].to(dtype)
    left, right = torch.triu_indices(len(x), len(x), 1, device=x.device)
    if not len(left):
        return x.new_zeros(0)
    chosen = torch.linspace(0, len(left) - 1, min(NOISE_PAIRS, len(left)), device=x.device).round().long()
    left, right = left[chosen], right[chosen]
    one, other = (torch.nn.functional.one_hot(side, len(x)).bool() for side in (left, right))
    parts = relevant_hidden(layers, x, torch.cat([one, other, one | other]), totals(layers, x), bias_rule)
    at = torch.full_like(right, len(x) - 1) if read == "end" else right
    alone, beside, joint = parts.unflatten(0, (3, -1))[:, torch.arange(len(at), device=at.device), at]
    return ratio(joint, alone + beside, decoder_of(decoder, lstm.hidden_size, dtype)[0])


@dataclass(frozen=True)
class _AllPairs:
    """`all_pairs` of some sentences, as a call on a cluster."""

    layers: Sequence[LSTMLayer]
    frame: Tensor | None
    read: str
    bias_rule: str

    def __call__(self, sentences: Sequence[Tensor]) -> list[Tensor]:
        with torch.no_grad():
            return all_pairs(self.layers, self.frame, sentences, self.read, self.bias_rule)


def _spread(cluster: Cluster, work: _AllPairs, sentences: Sequence[Tensor]) -> list[Tensor]:
    """Sentences of similar length go to one call."""
    order = sorted(range(len(sentences)), key=lambda s: -len(sentences[s]))
    parts = list(chunks(order, SENTENCES))
    found = spread_map(cluster, work, [([sentences[s] for s in part],) for part in parts])
    by_sentence = {s: matrix for part, matrices in zip(parts, found) for s, matrix in zip(part, matrices)}
    return [by_sentence[s] for s in range(len(sentences))]


def all_pairs(
    layers: Sequence[LSTMLayer], frame: Tensor | None, sentences: Sequence[Tensor], read: str, bias_rule: str
) -> list[Tensor]:
    """Like `interdependence`, on checked inputs; sentences of similar length form a batch."""
    matrices: list[Tensor] = [torch.empty(0)] * len(sentences)
    order = sorted(range(len(sentences)), key=lambda s: -len(sentences[s]))
    streams = [Stream(layer, bias_rule) for layer in layers]
    while order:
        longest = len(sentences[order[0]])
        most = longest if read == "right" else longest * longest // 2
        batch = order[: max(1, ROWS // (most + 1))]
        order = order[len(batch) :]
        lengths = [len(sentences[s]) for s in batch]
        padded = nn.utils.rnn.pad_sequence([sentences[s] for s in batch], batch_first=True)
        forked = _Pairs(streams, totals(layers, padded), lengths, frame)
        for index, matrix in zip(batch, forked.read_right() if read == "right" else forked.read_end()):
            matrices[index] = matrix + matrix.T
    return matrices


class _Pairs:
    """A batch of sentences, longest first, read word by word; sentences leave the batch as they end.

    The rows of a sentence are foci: each word adds one for itself, and one with each earlier word.
    """

    def __init__(
        self, streams: Sequence[Stream], found: Sequence[Totals], lengths: Sequence[int], frame: Tensor | None
    ) -> None:
        self.streams, self.found, self.lengths, self.frame = streams, found, lengths, frame
        size = found[0].hidden.shape[1]
        self.values = found[0].hidden.new_zeros(len(lengths), size, size)

    def _step(
        self, t: int, alive: int, states: list[tuple[Tensor, Tensor]], singles: list[int] | slice
    ) -> list[tuple[Tensor, Tensor]]:
        """Read word t; append to the foci in `states` the word alone, and the word with each earlier word."""
        part: Tensor | None = None
        after = []
        for stream, total, (h, c) in zip(self.streams, self.found, states):

            def now(x: Tensor, t: int = t) -> Tensor:
                return x[:alive, t, None]

            h, c = h[:alive], c[:alive]
            old = h @ stream.recurrent  # (alive, foci, 3·hidden)
            blank = old.new_zeros(alive, 1, 3 * stream.hidden)
            r = torch.cat([old, blank, old[:, singles]], 1)
            c = torch.cat([c, blank[..., : stream.hidden], c[:, singles]], 1)
            if part is None:
                r[:, old.shape[1] :] += now(total.driven)  # the new word is in focus
            else:
                r += part @ stream.input
            owned = torch.zeros_like(r[..., :1])
            owned[:, old.shape[1] :] = 1
            gate, cell = ([now(x) for x in three] for three in (total.gate, total.cell))
            h, c = stream.step(r, c, owned, gate, cell, now(total.out))
            after.append((h, c))
            part = h
        return after

    def _start(self) -> list[tuple[Tensor, Tensor]]:
        none = [self.values.new_zeros(len(self.lengths), 0, stream.hidden) for stream in self.streams]
        return [(x, x) for x in none]

    def _alive(self, t: int) -> int:
        return sum(length > t for length in self.lengths)

    def read_right(self) -> list[Tensor]:
        """Read every pair at its right word: make the pairs, measure them, and drop them."""
        states = self._start()
        for t in range(self.lengths[0]):
            alive = self._alive(t)
            states = self._step(t, alive, states, slice(t))
            hidden = states[-1][0]
            singles, own, pairs = hidden[:, :t], hidden[:, t : t + 1], hidden[:, t + 1 :]
            self.values[:alive, :t, t] = ratio(pairs, singles + own, self.frame)
            states = [(h[:, : t + 1], c[:, : t + 1]) for h, c in states]
        return self._matrices()

    def read_end(self) -> list[Tensor]:
        """Read every pair at the end of its sentence. Pairs of some left words at a time: that bounds the memory."""
        size = max(1, KEPT // self.lengths[0])
        for first in range(0, self.lengths[0], size):
            self._read_end(slice(first, first + size))
        return self._matrices()

    def _read_end(self, lefts: slice) -> None:
        """Keep the pairs of some left words to the end of the sentence, and measure them there."""
        states = self._start()
        singles: list[int] = []  # the row of each word alone
        pairs: list[tuple[int, int]] = []  # the words of each pair
        rows: list[int] = []  # and its row
        for t in range(self.lengths[0]):
            alive, before = self._alive(t), len(singles) + len(pairs)
            states = self._step(t, alive, states, singles[lefts])
            singles.append(before)
            forked = [(l, t) for l in range(t)[lefts]]
            rows += range(before + 1, before + 1 + len(forked))
            pairs += forked
            over = slice(self._alive(t + 1), alive)
            if pairs and over.start < over.stop:
                left, right = (list(side) for side in zip(*pairs))
                alone = states[-1][0][over][:, singles]
                joint = states[-1][0][over][:, rows]
                self.values[over, left, right] = ratio(joint, alone[:, left] + alone[:, right], self.frame)

    def _matrices(self) -> list[Tensor]:
        return [matrix[:n, :n] for matrix, n in zip(self.values, self.lengths)]


def between(
    lstm: nn.LSTM,
    decoder: nn.Linear | Tensor | None,
    vectors: Tensor,
    first: Iterable[int],
    second: Iterable[int],
    *,
    read: str | int = "right",
    bias_rule: str = "focus",
    dtype: torch.dtype = torch.float64,
) -> float:
    """The interdependence of two sets of words of one sentence, read at their right word, at the end, or at a position.

    >>> _ = torch.manual_seed(0); lstm = nn.LSTM(3, 4); decoder = nn.Linear(4, 9); x = torch.randn(5, 3)
    >>> pair = between(lstm, decoder, x, [1], [3])
    >>> abs(pair - interdependence(lstm, decoder, [x])[0][1, 3].item()) < 1e-12
    True
    """
    layers = layers_of(lstm, dtype)
    vectors = checked_vectors(lstm, vectors, dtype)
    weight, _ = decoder_of(decoder, lstm.hidden_size, dtype)
    length = len(vectors)
    masks = [masks_of(side, length) for side in (first, second)]
    if not masks[0].any() or not masks[1].any():
        raise InputError("interdependence: an empty set of words; give at least one word for each")
    if (masks[0] & masks[1]).any():
        shared = int((masks[0] & masks[1]).nonzero()[0])
        raise InputError(f"interdependence: word {shared} is in both sets; they must be disjoint")
    both = masks[0] | masks[1]
    place: Any = {"end": length - 1, "right": int(both.nonzero().max())}.get(str(read), read)
    if not isinstance(place, int) or not 0 <= place < length:
        raise InputError(f"read {read!r}: unknown; read at right, end, or a position from 0 to {length - 1}")
    stacked = torch.stack([*masks, both]).to(vectors.device)
    with torch.no_grad():
        one, other, joint = relevant_hidden(layers, vectors, stacked, totals(layers, vectors), bias_rule)[:, place]
        return float(ratio(joint, one + other, triangle(weight)))
