"""WikiText-2 as numbers, and what the experiments make of it: natural conduits, sorted sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from kleene.errors import FileError
from kleene.evidence.corpora import Corpus, Windows
from kleene.files import read_text
from kleene.networks.trained.lstm import UNKNOWN, Vocabulary

END = "<eos>"


def data_folder(data: Path | None, name: str, file: str, source: str) -> Path:
    """The folder of a data set, or an error that says what to download and where to put it."""
    if data is None:
        raise FileError(f"{name}: no data folder; pass --data DIR or set KLEENE_DATA to the folder that holds {name}/")
    if not (Path(data) / name / file).is_file():
        raise FileError(f"{Path(data) / name / file}: no such file; download {source} and put it there")
    return Path(data) / name


def read_words(folder: Path, part: str) -> list[str]:
    """The words of train, valid or test, with an end mark after each line."""
    return [word for line in read_text(folder / f"{part}.txt").splitlines() for word in (*line.split(), END)]


class WikiText:
    """The corpus as token numbers, over its own vocabulary or over the most frequent words of a part."""

    def __init__(self, data: Path | None, *, tokens: int | None = None, types: int | None = None) -> None:
        folder = data_folder(data, "wikitext-2", "train.txt", "WikiText-2 (word level)")
        words = read_words(folder, "train")[:tokens]
        counts = Counter(words)
        kept = [word for word, _ in counts.most_common(types)]
        if UNKNOWN not in kept:
            kept.append(UNKNOWN)
        self.vocabulary = Vocabulary(kept)
        self.train = np.array(self.vocabulary.encode(words))
        held = read_words(folder, "valid")[: None if tokens is None else max(tokens // 4, 2000)]
        self.valid = np.array(self.vocabulary.encode(held))
        self.counts = np.bincount(self.train, minlength=len(kept))


def phrases_by_frequency(
    text: np.ndarray, k: int, count: int, barred: Sequence[int], familiar: bool, random: np.random.Generator
) -> np.ndarray:
    """The `count` most frequent phrases of length k, or as many that occur once; none with a barred token."""
    grams = np.lib.stride_tricks.sliding_window_view(text, k)
    grams = grams[~np.isin(grams, barred).any(axis=1)]
    found, times = np.unique(grams, axis=0, return_counts=True)
    if familiar:
        return found[np.argsort(-times, kind="stable")[:count]]
    rare: np.ndarray = found[random.permutation(np.flatnonzero(times == 1))[:count]]
    return rare


def natural_corpus(wiki: WikiText, k: int, *, familiar: bool, seed: int, conduits: int = 100, uses: int = 10) -> Corpus:
    """WikiText with rules α q ω put in at random places, q natural phrases: frequent, or seen once."""
    random = np.random.default_rng([seed, k, familiar, 5])
    types = len(wiki.vocabulary)
    barred = [wiki.vocabulary.index[word] for word in (UNKNOWN, END) if word in wiki.vocabulary.index]
    phrases = phrases_by_frequency(wiki.train, k, conduits, barred, familiar, random)
    rules = np.column_stack([np.full(len(phrases), types), phrases, np.full(len(phrases), types + 1)])
    rules = random.permutation(np.repeat(rules, uses, axis=0))
    places = np.sort(random.choice(len(wiki.train), len(rules), replace=False))
    return Corpus(np.insert(wiki.train, np.repeat(places, k + 2), rules.ravel()), phrases, len(rules), types)


def natural_windows(
    wiki: WikiText, corpus: Corpus, *, in_domain: bool, seed: int, count: int, length: int = 35
) -> Windows:
    """Windows of validation text with one rule each: conduits of training, or other rare phrases."""
    k = corpus.conduits.shape[1]
    random = np.random.default_rng([seed, k, in_domain, 78])
    starts = random.integers(len(wiki.valid) - length, size=count)
    text = wiki.valid[starts[:, None] + np.arange(length)]
    begin = random.integers(length - k - 1, size=count)
    rows = np.arange(count)
    conduits = corpus.conduits
    if not in_domain:
        barred = [wiki.vocabulary.index[word] for word in (UNKNOWN, END) if word in wiki.vocabulary.index]
        conduits = phrases_by_frequency(wiki.valid, k, count, barred, False, random)
    text[rows[:, None], begin[:, None] + np.arange(1, k + 1)] = conduits[rows % len(conduits)]
    text[rows, begin], text[rows, begin + k + 1] = corpus.alpha, corpus.omega
    return Windows(text, begin, k)


def pair_windows(
    wiki: WikiText, opener: str | None, k: int, *, familiar: bool, count: int, seed: int = 0, length: int = 35
) -> Windows:
    """Windows of validation text that end with an opening word such as "either" and a phrase of k words.

    The phrases are the most frequent of the training text, or phrases of the validation text that the training text
    does not have. Without an opening word the text's own word stays in its place: the control.
    """
    random = np.random.default_rng([seed, k, familiar, 79])  # the same windows for every opening word
    barred = [wiki.vocabulary.index[word] for word in (UNKNOWN, END) if word in wiki.vocabulary.index]
    if familiar:
        phrases = phrases_by_frequency(wiki.train, k, 100, barred, True, random)
    else:
        held = phrases_by_frequency(wiki.valid, k, len(wiki.valid), barred, False, random)
        seen = {tuple(gram) for gram in np.lib.stride_tricks.sliding_window_view(wiki.train, k).tolist()}
        phrases = np.array([gram for gram in held.tolist() if tuple(gram) not in seen][:count])
    starts = random.integers(len(wiki.valid) - length, size=count)
    text = wiki.valid[starts[:, None] + np.arange(length)]
    begin = np.full(count, length - k - 1)
    text[:, length - k :] = phrases[np.arange(count) % len(phrases)]
    if opener is not None:
        text[:, length - k - 1] = wiki.vocabulary.index[opener]
    return Windows(text, begin, k)


def by_sentences(text: np.ndarray, stops: Sequence[int], columns: int, *, sort: bool, seed: int) -> np.ndarray:
    """The text's sentences short to long, or shuffled, dealt out to columns that all go the same way."""
    ends = np.flatnonzero(np.isin(text, stops)) + 1
    sentences = [part for part in np.split(text, ends) if len(part)]
    order = np.random.default_rng(seed).permutation(len(sentences))
    if sort:
        order = order[np.argsort([len(sentences[n]) for n in order], kind="stable")]
    dealt = [np.concatenate([sentences[n] for n in order[c::columns]]) for c in range(columns)]
    shortest = min(map(len, dealt))
    return np.concatenate([column[:shortest] for column in dealt])
