"""Words in, answers out: transformers that hold an automaton.

`description["words"]` says how a word becomes tokens: the alphabet; tokens `before` and `after` the word; `copies`,
where each symbol is given once for every state; and where the `answer` stands, at the last position or a certain one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kleene.common.alphabet import Word, encode_batch
from kleene.errors import InputError, NotSupported

if TYPE_CHECKING:
    from kleene.networks.transformer.model import Transformer

POSITIONS_AT_ONCE = 200_000


def described_words(net: Transformer) -> dict[str, Any]:
    """How words become tokens; NotSupported where the network reads no words."""
    words = net.description.get("words")
    if not isinstance(words, dict):
        raise NotSupported(f"{net.config.name}: it was not compiled from an automaton, so it accepts no words; use run")
    return words


def tokens_of(words: dict[str, Any], codes: Sequence[int]) -> list[int]:
    """The tokens of a word that is given by its symbols' numbers."""
    copies = int(words["copies"])
    spread = [code * copies + q for code in codes for q in range(copies)]
    return [*words["before"], *spread, *words["after"]]


def accepts_batch(net: Transformer, given: Sequence[Word]) -> np.ndarray:
    """Whether each word is accepted."""
    words = described_words(net)
    alphabet = tuple(words["alphabet"])
    codes, offsets = encode_batch(given, alphabet)
    longest = words["length"]
    lengths = np.diff(offsets)
    if longest is not None and len(lengths) and int(lengths.max()) > longest:
        raise InputError(f"word of {int(lengths.max()):,} symbols: {net.config.name} reads up to {longest:,}")
    answers = np.empty(len(given), dtype=bool)
    order = np.argsort(lengths, kind="stable")
    answer = words["answer"]
    begin = 0
    while begin < len(order):
        width = max(1, int(lengths[order[begin]]) * int(words["copies"]) + 2)
        rows = order[begin : begin + max(1, POSITIONS_AT_ONCE // width)]
        tokens = [tokens_of(words, codes[offsets[r] : offsets[r + 1]].tolist()) for r in rows]
        outputs = net.run_batch(tokens, max_layers=max(10_000, 2 * int(lengths.max()) + 2))
        answers[rows] = [bool(output[-1 if answer is None else answer]) for output in outputs]
        begin += len(rows)
    return answers
