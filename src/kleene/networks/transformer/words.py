"""Words in, answers out: transformers that hold an automaton.

`description["words"]` says how a word becomes tokens: the alphabet; tokens `before` and `after` the word; `copies`,
where each symbol is given once for every state; and where the `answer` stands, at the last position or a certain one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kleene.common.alphabet import Word, encode_batch
from kleene.common.decision import Decision
from kleene.errors import DidNotHalt, InputError, NotSupported

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


# --- bounded tapes ----------------------------------------------------------------------------------------

MAX_TAPE = 1 << 16


def tape_tokens(tape: dict[str, Any], word: Word) -> list[int]:
    """The cells of a tape with a word on it: the word begins at the first cell, or in the middle of a two-way tape."""
    cells, symbols = int(tape["cells"]), list(tape["symbols"])
    if not 1 <= cells <= MAX_TAPE:
        raise InputError(f"tape: {cells!r} cells; it should be 1 to {MAX_TAPE:,}")
    begin = cells // 2 if tape["two_way"] else 0
    if begin + len(word) > cells:
        raise InputError(f"tape: a word of {len(word):,} symbols does not fit {cells:,} cells from cell {begin:,} on")
    made = [symbols.index(tape["blank"])] * cells
    for place, letter in enumerate(word):
        if letter not in tape["alphabet"]:
            raise InputError(f"word: {letter!r} is not in the input alphabet {{{', '.join(tape['alphabet'])}}}")
        made[begin + place] = symbols.index(letter)
    made[begin] += len(symbols)
    return made


def decide(net: Transformer, word: Word, max_steps: int) -> Decision:
    """Run a Turing machine's network on a word: a layer a step, and one in which every cell hears of the end."""
    tape = net.description.get("tape")
    if not isinstance(tape, dict):
        raise NotSupported(f"{net.config.name}: it was not compiled from a Turing machine; use run")
    try:
        output = net.run(tape_tokens(tape, word), max_layers=max_steps + 1)
    except DidNotHalt:
        return Decision(None, max_steps)
    if output[0] == 3:
        raise NotSupported(f"tape: the head leaves the {tape['cells']:,} cells; compile with a larger tape=")
    return Decision("accept" if output[0] == 2 else "reject", output.layers - 1)
