"""Synthetic corpora of section 3.1: uniform noise that contains an exact number of rules α Σ^k ω.

In the *familiar* setting the conduits Σ^k also occur often outside of rules; in the *unfamiliar* setting they do
not. `loses=True` reproduces the authors' public generator: its slice assignments make the document grow, so later
rules and conduits overwrite earlier ones, mostly in the familiar setting. Some rules disappear, and some α lose their
ω (orphans). `rules` and `orphans` cause one effect without the other, to measure each by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kleene.errors import InputError

Array = np.ndarray


@dataclass(frozen=True)
class Corpus:
    """A training text, the conduits of its rules, and the number of complete rules in it.

    Tokens are 0 … types − 1; then `alpha`, and `omega`.
    """

    tokens: Array  # (tokens,)
    conduits: Array  # (conduits, k)
    rules: int
    types: int

    @property
    def alpha(self) -> int:
        """The open symbol."""
        return self.types

    @property
    def omega(self) -> int:
        """The close symbol."""
        return self.types + 1


def rule_corpus(
    k: int,
    *,
    familiar: bool,
    seed: int,
    tokens: int = 1_000_000,
    types: int = 1000,
    conduits: int = 100,
    uses: int = 10,
    outside: int = 1000,
    fresh: int | None = None,
    loses: bool = False,
    rules: int | None = None,
    orphans: float = 0.0,
) -> Corpus:
    """A corpus with `conduits` × `uses` rules, and in the familiar setting each conduit `outside` times elsewhere.

    fresh: make this many rules instead, each with a new random conduit (appendix A).
    loses: write like the authors' generator; the text is then longer than `tokens`.
    rules: keep only this many of the rules, drawn at random.
    orphans: the share of rules, drawn at random, that end in a random token instead of ω.

    >>> corpus = rule_corpus(3, familiar=True, seed=0, tokens=5000, types=50, conduits=4, uses=5, outside=20)
    >>> len(corpus.tokens), corpus.rules, count_rules(corpus.tokens, 3, 50)
    (5000, 20, 20)
    """
    random = np.random.default_rng([seed, k, familiar, loses, 0 if fresh is None else fresh])
    count = conduits if fresh is None else fresh
    phrases = distinct_phrases(random, count, k + 2 if loses else k, types)
    each = uses if fresh is None else 1
    if loses:
        return _losing(random, phrases, each, outside if familiar else 0, tokens, types)
    rule = np.column_stack([np.full(count, types), phrases, np.full(count, types + 1)])
    placed = np.repeat(rule, each, axis=0)
    if rules is not None:
        placed = placed[random.permutation(len(placed))[:rules]]
    lost = random.permutation(len(placed))[: round(orphans * len(placed))]
    placed[lost, -1] = random.integers(types, size=len(lost))
    pieces = [placed]
    if familiar:
        pieces.append(np.repeat(phrases, outside, axis=0))
    filler = tokens - sum(piece.size for piece in pieces)
    if filler < 0:
        raise InputError(f"corpus of {tokens:,} tokens: too small for its rules and conduits by {-filler:,}")
    text = _interleave(random, pieces, random.integers(types, size=filler))
    return Corpus(text, phrases, len(placed) - len(lost), types)


def distinct_phrases(random: np.random.Generator, count: int, length: int, types: int) -> Array:
    """`count` different phrases, drawn uniformly."""
    if types**length < count:
        raise InputError(f"conduits: there are fewer than {count} of length {length} over {types} types")
    phrases = random.integers(types, size=(count, length))
    while len(kept := np.unique(phrases, axis=0)) < count:
        phrases = np.concatenate([kept, random.integers(types, size=(count - len(kept), length))])
    return random.permutation(phrases)


def _interleave(random: np.random.Generator, pieces: list[Array], filler: Array) -> Array:
    """Shuffle all rows of all pieces and all filler tokens, without overlaps."""
    lengths = np.concatenate([*[np.full(len(piece), piece.shape[1]) for piece in pieces], np.ones(len(filler), int)])
    flat = np.concatenate([*[piece.ravel() for piece in pieces], filler])
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    order = random.permutation(len(lengths))
    ends = np.cumsum(lengths[order])
    within = np.arange(len(flat)) - np.repeat(ends - lengths[order], lengths[order])
    shuffled: np.ndarray = flat[np.repeat(starts[order], lengths[order]) + within]
    return shuffled


def _losing(random: np.random.Generator, phrases: Array, uses: int, outside: int, tokens: int, types: int) -> Corpus:
    """Write on a grid of the rule's length; each write is longer than the slot that it replaces.

    A rule replaces k tokens between its ends by a phrase of k + 2, and then overwrites the last token but one by ω. A
    conduit outside of rules replaces k + 1 tokens. So later writes land at shifted places.
    """
    count, length = phrases.shape
    copies = outside // uses  # of the conduit, after each of its rules
    slots = tokens // length
    wanted = min(count * uses * (1 + copies), slots)
    begins = random.permutation(slots)[:wanted] * length
    text = _Rope(random.integers(types, size=tokens))
    for place in range(0, wanted, 1 + copies):
        phrase = phrases[place // (1 + copies) % count]
        begin = int(begins[place])
        text.replace(begin, begin + length - 1, np.concatenate([[types], phrase]))
        text.replace(begin + length - 1, begin + length, np.array([types + 1]))
        for copy in begins[place + 1 : place + 1 + copies]:
            text.replace(int(copy), int(copy) + length - 1, phrase)
    written = text.whole()
    kept = count_rules(written, length - 2, types)
    return Corpus(written, phrases[:, : length - 2], kept, types)


class _Rope:
    """A long text in blocks: replacing a slice by one of another length moves only one block."""

    def __init__(self, text: Array, block: int = 1000) -> None:
        self.blocks = [text[k : k + block] for k in range(0, len(text), block)]
        self.sizes = np.array([len(b) for b in self.blocks])

    def replace(self, start: int, stop: int, new: Array) -> None:
        """text[start:stop] = new, like a Python list."""
        ends = np.cumsum(self.sizes)
        first = min(int(np.searchsorted(ends, start, side="right")), len(ends) - 1)
        last = max(first, min(int(np.searchsorted(ends, stop, side="left")), len(ends) - 1))
        base = int(ends[first] - self.sizes[first])
        joined = np.concatenate(self.blocks[first : last + 1])
        joined = np.concatenate([joined[: start - base], new, joined[stop - base :]])
        self.blocks[first], self.sizes[first] = joined, len(joined)
        for index in range(first + 1, last + 1):
            self.blocks[index], self.sizes[index] = joined[:0], 0

    def whole(self) -> Array:
        """The text."""
        return np.concatenate(self.blocks)


def count_rules(text: Array, k: int, types: int) -> int:
    """Count the pairs α … ω that are k tokens apart, with no other α or ω between them."""
    alpha = np.flatnonzero(text[: -(k + 1)] == types)
    whole = text[alpha + k + 1] == types + 1
    inside = (text[alpha[:, None] + np.arange(1, k + 1)] < types).all(axis=1)
    return int((whole & inside).sum())


def count_orphans(text: Array, k: int, types: int) -> tuple[int, int]:
    """Count the α, and those without an ω where it is due.

    >>> count_orphans(np.array([9, 1, 10, 0, 9, 1, 2, 9, 1]), 1, 9)
    (3, 2)
    """
    alpha = np.flatnonzero(text == types)
    due = alpha + k + 1
    inside = due < len(text)
    return len(alpha), int(len(alpha) - (text[due[inside]] == types + 1).sum())


def lengthened(corpus: Corpus, tokens: int, seed: int) -> Corpus:
    """Append random tokens to a corpus, up to `tokens` in all."""
    more = np.random.default_rng([seed, 99]).integers(corpus.types, size=tokens - len(corpus.tokens))
    return replace(corpus, tokens=np.concatenate([corpus.tokens, more]))


@dataclass(frozen=True)
class Windows:
    """A test set: one rule in each window of noise; `open` is where its α is."""

    tokens: Array  # (windows, length)
    open: Array  # (windows,)
    k: int


def rule_windows(corpus: Corpus, *, in_domain: bool, seed: int, tokens: int = 50_000, length: int = 35) -> Windows:
    """The test sets of section 3.2: the training conduits in turn (in-domain), or random ones.

    >>> corpus = rule_corpus(2, familiar=False, seed=0, tokens=500, types=20, conduits=3, uses=2)
    >>> found = rule_windows(corpus, in_domain=True, seed=1, tokens=350)
    >>> found.tokens.shape, found.tokens[0, found.open[0]], found.tokens[0, found.open[0] + 3]
    ((10, 35), np.int64(20), np.int64(21))
    """
    k = corpus.conduits.shape[1]
    random = np.random.default_rng([seed, k, in_domain, 77])
    count = tokens // length
    text = random.integers(corpus.types, size=(count, length))
    begin = random.integers(length - k - 1, size=count)
    rows = np.arange(count)
    text[rows, begin] = corpus.alpha
    text[rows, begin + k + 1] = corpus.omega
    if in_domain:
        text[rows[:, None], begin[:, None] + np.arange(1, k + 1)] = corpus.conduits[rows % len(corpus.conduits)]
    return Windows(text, begin, k)
