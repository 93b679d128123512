"""Statistics of interdependence: stratified means with intervals, regression, a permutation test.

Sentences, not pairs, are the independent observations: intervals come from resampling sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kleene.evidence.treebank import CLOSED, OPEN, Sentence

Array = np.ndarray
CLASSES = ("open", "mixed", "closed")  # both words' classes


@dataclass(frozen=True)
class Pairs:
    """All pairs of words, one entry each: their interdependence and what it may depend on."""

    sentence: Array
    left: Array
    right: Array
    value: Array
    tree: Array  # edges between them
    apart: Array  # words from left to right
    kind: Array  # index into CLASSES, −1 where a word has neither class

    def where(self, chosen: Array) -> Pairs:
        """The pairs for which `chosen` is true."""
        return Pairs(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))


def pair_table(
    sentences: Sequence[Sentence], matrices: Sequence[Array], orders: Sequence[Array] | None = None
) -> Pairs:
    """The pairs of sentences with matrices of interdependence.

    `orders` says where each word stood when the model read it, if the sentence was shuffled: the distance
    in sequence is then the one that the model saw, the tree the sentence's own.
    """
    columns: list[list[Array]] = [[] for _ in range(7)]
    for number, (sentence, matrix) in enumerate(zip(sentences, matrices)):
        left, right = np.triu_indices(len(sentence), 1)
        place = np.arange(len(sentence)) if orders is None else orders[number]
        side = np.array([0 if tag in OPEN else 1 if tag in CLOSED else -9 for tag in sentence.tags])
        kind = np.maximum(side[left] + side[right], -1)
        for column, values in zip(
            columns,
            (
                np.full(len(left), number),
                left,
                right,
                np.asarray(matrix)[place[left], place[right]],
                sentence.distances()[left, right],
                np.abs(place[right] - place[left]),
                kind,
            ),
        ):
            column.append(values)
    return Pairs(*(np.concatenate(column) for column in columns))


@dataclass(frozen=True)
class Mean:
    """A mean over pairs, its 95 % interval over sentences, and how many pairs there were."""

    key: tuple[int, ...]
    mean: float
    low: float
    high: float
    count: int


def stratified_means(
    pairs: Pairs, by: Sequence[str], *, least: int = 100, samples: int = 1000, seed: int = 0
) -> list[Mean]:
    """The mean in each stratum with at least `least` pairs, by columns such as `tree`, `apart`, `kind`.

    >>> table = Pairs(*(np.array(c) for c in ([0, 0, 1], [0, 0, 0], [1, 2, 1], [1.0, 3.0, 2.0], [1, 2, 1],
    ...               [1, 2, 1], [0, 0, 0])))
    >>> [(m.key, m.mean, m.count) for m in stratified_means(table, ["tree"], least=1, samples=10)]
    [((1,), 1.5, 2), ((2,), 3.0, 1)]
    """
    keys = np.stack([getattr(pairs, name) for name in by])
    least_key = keys.min(axis=1, initial=0)
    sizes = tuple(keys.max(axis=1, initial=0) - least_key + 1)
    codes, index = np.unique(np.ravel_multi_index(tuple(keys - least_key[:, None]), sizes), return_inverse=True)
    strata = np.stack(np.unravel_index(codes, sizes), 1) + least_key
    sentences, number = np.unique(pairs.sentence, return_inverse=True)
    shape = (len(sentences), len(strata))
    cells = number * len(strata) + index
    totals = np.bincount(cells, pairs.value, shape[0] * shape[1]).reshape(shape)
    counts = np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape).astype(float)
    weights = _resamples(len(sentences), samples, seed)
    with np.errstate(invalid="ignore", divide="ignore"):
        drawn = (weights @ totals) / (weights @ counts)  # (samples, strata)
    kept = counts.sum(0) >= least
    low, high = np.full((2, len(strata)), np.nan)
    if kept.any():
        low[kept], high[kept] = np.nanpercentile(drawn[:, kept], [2.5, 97.5], axis=0)
    return [
        Mean(
            tuple(int(x) for x in strata[s]),
            float(totals[:, s].sum() / counts[:, s].sum()),
            float(low[s]),
            float(high[s]),
            int(counts[:, s].sum()),
        )
        for s in np.flatnonzero(kept)
    ]


def _resamples(sentences: int, samples: int, seed: int) -> Array:
    """How often each sentence is drawn in each bootstrap sample."""
    return (
        np.random.default_rng(seed)
        .multinomial(sentences, np.full(sentences, 1 / sentences), size=samples)
        .astype(float)
    )


@dataclass(frozen=True)
class Slope:
    """Change of interdependence per edge of tree distance, with sequential distance and class held fixed."""

    slope: float
    low: float
    high: float
    pairs: int


def _within(pairs: Pairs) -> tuple[Array, Array]:
    """Strata of (sequential distance, class), and the tree distances minus the mean of their stratum."""
    _, stratum = np.unique(pairs.apart * 10 + pairs.kind, return_inverse=True)
    return stratum, _demean(pairs.tree.astype(float), stratum)


def _demean(values: Array, stratum: Array) -> Array:
    counts = np.bincount(stratum)
    centred: np.ndarray = values - (np.bincount(stratum, values) / counts)[stratum]
    return centred


def regression(pairs: Pairs, *, samples: int = 1000, seed: int = 0) -> Slope:
    """Least squares of interdependence on tree distance, with an intercept for every (distance, class).

    The interval is over resampled sentences.
    """
    stratum, x = _within(pairs)
    y = _demean(pairs.value, stratum)
    _, number = np.unique(pairs.sentence, return_inverse=True)
    top, bottom = np.bincount(number, x * y), np.bincount(number, x * x)
    weights = _resamples(len(top), samples, seed)
    drawn = (weights @ top) / (weights @ bottom)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return Slope(float(top.sum() / bottom.sum()), float(low), float(high), len(x))


def permutation_test(
    sentences: Sequence[Sentence], pairs: Pairs, *, permutations: int = 200, seed: int = 0
) -> tuple[float, float]:
    """The slope of the regression, and the probability of one as steep for randomly exchanged trees.

    Sentences of the same length exchange their trees, so only the words that an edge joins change.
    """
    random = np.random.default_rng(seed)
    stratum, x = _within(pairs)
    y = _demean(pairs.value, stratum)
    observed = float((x * y).sum() / (x * x).sum())
    by_length: dict[int, list[int]] = {}
    for number in np.unique(pairs.sentence):
        by_length.setdefault(len(sentences[number]), []).append(int(number))
    sizes = np.array([len(sentence) for sentence in sentences])
    starts = np.concatenate([[0], np.cumsum(sizes**2)[:-1]])  # of each sentence's table of distances
    distances = np.concatenate([sentence.distances().ravel() for sentence in sentences])
    within = pairs.left * sizes[pairs.sentence] + pairs.right
    steeper = 0
    for _ in range(permutations):
        dealt = np.arange(len(sentences))  # whose tree each sentence gets
        for same in by_length.values():
            dealt[same] = random.permutation(same)
        tree = distances[starts[dealt][pairs.sentence] + within]
        shuffled = _demean(tree.astype(float), stratum)
        steeper += bool(abs((shuffled * y).sum() / (shuffled * shuffled).sum()) >= abs(observed))
    return observed, (1 + steeper) / (1 + permutations)


def ranks(values: Array) -> Array:
    """Ranks from 0; ties get their mean rank."""
    _, index, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts + 1) / 2)[index.reshape(-1)]


def spearman(a: Array, b: Array) -> float:
    """The rank correlation.

    >>> round(spearman(np.array([1, 2, 3, 4]), np.array([10, 30, 20, 40])), 3)
    0.8
    """
    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])
