"""Interdependence as a syntax probe: the maximum spanning tree of a sentence against its own tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from kleene.evidence.treebank import Sentence

Edges = set[tuple[int, int]]


def maximum_spanning_tree(weights: np.ndarray) -> Edges:
    """The edges of the maximum spanning tree (Prim); ties go to the nearer words.

    >>> sorted(maximum_spanning_tree(np.array([[0, 5, 1], [5, 0, 2], [1, 2, 0]])))
    [(0, 1), (1, 2)]
    """
    size = len(weights)
    near = np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
    best, link = np.full(size, -np.inf), np.zeros(size, dtype=int)
    inside, edges, word = np.zeros(size, dtype=bool), set(), 0
    for _ in range(size - 1):
        inside[word] = True
        better = (weights[word] > best) | ((weights[word] == best) & (near[word] < near[np.arange(size), link]))
        link = np.where(better, word, link)
        best = np.where(better, weights[word], best)
        word = int(np.argmax(np.where(inside, -np.inf, best)))
        edges.add((min(word, int(link[word])), max(word, int(link[word]))))
    return edges


def chain(size: int) -> Edges:
    """Join every word to the next: the baseline."""
    return {(word, word + 1) for word in range(size - 1)}


def attachment(sentences: Sequence[Sentence], guess: Callable[[int], Edges], *, punctuation: bool = True) -> float:
    """The share of the treebank's edges that `guess` finds, undirected and unlabelled (UUAS).

    sentences: the treebank.
    guess: the number of a sentence → its guessed edges.
    punctuation: whether to count edges to punctuation.
    """
    found = asked = 0
    for number, sentence in enumerate(sentences):
        edges = {
            edge for edge in sentence.edges() if punctuation or not any(sentence.tags[word] == "PUNCT" for word in edge)
        }
        found += len(edges & guess(number))
        asked += len(edges)
    return found / max(asked, 1)


def less_proximity(sentences: Sequence[Sentence], matrices: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Divide interdependence by its mean at that sequential distance, to remove proximity."""
    longest = max(map(len, sentences))
    total, count = np.zeros(longest), np.zeros(longest)
    for matrix in matrices:
        apart = np.abs(np.subtract.outer(np.arange(len(matrix)), np.arange(len(matrix))))
        np.add.at(total, apart, matrix)
        np.add.at(count, apart, 1)
    mean = np.maximum(total / np.maximum(count, 1), 1e-30)
    return [
        matrix / mean[np.abs(np.subtract.outer(np.arange(len(matrix)), np.arange(len(matrix))))] for matrix in matrices
    ]
