"""Words in, answers out: transformers that hold an automaton.

`description["words"]` says how a word becomes tokens: the alphabet; tokens `before` and `after` the word; `copies`,
where each symbol is given once for every state; and where the `answer` stands, at the last position or a certain one.
A decoder has no answer of its own: `allowed` names the variable that holds the tokens which may come next, and lists
its values that hold the end. A word is accepted where it may end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from kleene.common.alphabet import Word, encode_batch
from kleene.common.decision import Answer, Decision
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
        if "allowed" in words:
            answers[rows] = _may_end(net, words["allowed"], tokens)
        else:
            outputs = net.run_batch(tokens, max_layers=max(10_000, 2 * int(lengths.max()) + 2))
            answers[rows] = [bool(output[-1 if answer is None else answer]) for output in outputs]
        begin += len(rows)
    return answers


@torch.no_grad()
def _may_end(net: Transformer, allowed: dict[str, Any], inputs: list[list[int]]) -> np.ndarray:
    """Whether a decoder allows each of some inputs to end: one pass, and the variable at the last position."""
    last = torch.tensor([len(tokens) - 1 for tokens in inputs])
    padded = torch.zeros(len(inputs), int(last.max()) + 1, dtype=torch.long)
    for row, tokens in enumerate(inputs):
        padded[row, : len(tokens)] = torch.tensor(tokens)
    padded, last = padded.to(net.unembedding.device), last.to(net.unembedding.device)
    mask = torch.arange(padded.shape[1], device=padded.device) <= last[:, None]
    x = net.embed(padded)
    for layer in range(net.config.layers or 0):
        x = net.block(layer)(x, mask)
    held = x[torch.arange(len(inputs), device=x.device), last][:, net.layout[allowed["variable"]].slice].argmax(dim=1)
    ends: np.ndarray = np.isin(held.cpu().numpy(), allowed["values"])
    return ends


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
    """Run a Turing machine's network on a word: a layer per step, and one in which every cell hears of the end."""
    tape = net.description.get("tape")
    if isinstance(net.description.get("chain"), dict):
        return decide_by_tokens(net.run, net.config.name, net.description["chain"], word, max_steps)
    if not isinstance(tape, dict):
        raise NotSupported(f"{net.config.name}: it was not compiled from a Turing machine; use run")
    try:
        output = net.run(tape_tokens(tape, word), max_layers=max_steps + 1)
    except DidNotHalt:
        return Decision(None, max_steps)
    if output[0] == 3:
        raise NotSupported(f"tape: the head leaves the {tape['cells']:,} cells; compile with a larger tape=")
    return Decision("accept" if output[0] == 2 else "reject", output.layers - 1)


def decide_by_tokens(
    run: Callable[[list[int]], Sequence[int]], name: str, chain: dict[str, Any], word: Word, max_steps: int
) -> Decision:
    """Run a decoder whose tokens are the steps of a Turing machine: those before its answer are counted."""
    codes, _ = encode_batch([word], tuple(chain["alphabet"]))
    if len(word) + 1 > chain["length"]:
        raise InputError(f"word of {len(word):,} symbols: {name} reads up to {chain['length'] - 1:,}")
    made = run([*codes.tolist(), len(chain["alphabet"])])
    answers: dict[int, Answer] = {chain["accept"]: "accept", chain["reject"]: "reject"}
    for steps, token in enumerate(made[: chain["length"] - len(word) - 1]):
        if token in answers:
            return Decision(answers[token], steps) if steps <= max_steps else Decision(None, max_steps)
    return Decision(None, min(max_steps, chain["length"] - len(word) - 1))
