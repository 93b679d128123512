"""Sentences with dependency trees from CoNLL-U treebanks, and distances in the trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kleene.errors import FileError, NotSupported
from kleene.files import read_text

# Universal part-of-speech classes; PUNCT, SYM and X are neither
OPEN = frozenset({"ADJ", "ADV", "INTJ", "NOUN", "PROPN", "VERB"})
CLOSED = frozenset({"ADP", "AUX", "CCONJ", "DET", "NUM", "PART", "PRON", "SCONJ"})


@dataclass(frozen=True)
class Sentence:
    """Words, their universal part-of-speech tags, and each word's head (−1 for the root)."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    heads: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.words)

    def distances(self) -> np.ndarray:
        """The number of edges between any two words: an array of words × words."""
        return tree_distances(self.heads)

    def edges(self) -> set[tuple[int, int]]:
        """The tree's edges, undirected: (smaller, larger)."""
        return {(min(word, head), max(word, head)) for word, head in enumerate(self.heads) if head >= 0}


def tree_distances(heads: Sequence[int]) -> np.ndarray:
    """Distances on a tree that is given by every word's head, −1 for the root.

    >>> tree_distances([2, 2, 3, -1, 5, 3])[1].tolist()    # The chimney sweep has sick lungs, from "chimney"
    [2, 0, 1, 2, 4, 3]
    """
    size = len(heads)
    distance = np.zeros((size, size), dtype=np.int64)
    order: list[int] = []
    children = {head: [w for w in range(size) if heads[w] == head] for head in range(-1, size)}
    waiting = list(children[-1])
    while waiting:
        word = waiting.pop()
        if order:  # one edge more than from its head
            seen = np.array(order)
            distance[word, seen] = distance[seen, word] = distance[heads[word], seen] + 1
        order.append(word)
        waiting += children[word]
    if len(order) < size or len(children[-1]) != 1:
        raise FileError(f"tree {list(heads)}: not one tree; every word needs a head and one word has −1")
    return distance


def read_treebank(path: str | Path) -> list[Sentence]:
    """Read the sentences of a CoNLL-U file; skip ranges (`3-4`) and empty nodes (`8.1`)."""
    try:
        import conllu
    except ImportError:
        raise NotSupported("treebanks: need the library conllu; pip install 'kleene[language]'") from None
    text, sentences = read_text(path), []
    try:
        parsed = conllu.parse(text)
    except Exception as error:  # the library raises several kinds
        raise FileError(f"{path}: not CoNLL-U ({error})") from None
    for number, tokens in enumerate(parsed, 1):
        words = [token for token in tokens if isinstance(token["id"], int)]
        if any(key not in token for token in words for key in ("form", "upos", "head")):
            raise FileError(f"{path}: not CoNLL-U (sentence {number} has a line of fewer than ten columns)")
        heads = [token["head"] for token in words]
        if not words or any(not isinstance(head, int) or not 0 <= head <= len(words) for head in heads):
            raise FileError(f"{path}: sentence {number} has a word without a head in the sentence")
        sentence = Sentence(
            tuple(token["form"] for token in words),
            tuple(token["upos"] or "X" for token in words),
            tuple(head - 1 for head in heads),
        )
        try:
            sentence.distances()
        except FileError as error:
            raise FileError(f"{path}: sentence {number}: {error}") from None
        sentences.append(sentence)
    if not sentences:
        raise FileError(f"{path}: no sentences in it")
    return sentences
