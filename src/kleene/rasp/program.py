"""The attention program of an s-op: `rasp.to_program`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from kleene.common.vocabulary import Vocabulary
from kleene.errors import InputError
from kleene.machines.program import ProgramClass
from kleene.rasp.analysis import Analysis
from kleene.rasp.expressions import SOp
from kleene.rasp.planning import Planner

MAX_LENGTH = 512


def to_program(
    sop: SOp, *, vocab: Iterable[Any], max_seq_len: int, causal: bool = False, bos: Any = "BOS"
) -> ProgramClass:
    """Make the attention program of an s-op.

    - `vocab`: the tokens.
    - `max_seq_len`: the longest input, without the beginning.
    - `causal`: whether a position sees only what is to its left.
    - `bos`: the name of the token that begins every sequence; it is not in the vocabulary.

    The program has `vocabulary`, `encode` and `decode`.

    >>> from kleene import rasp
    >>> program = to_program(rasp.tokens == "a", vocab="ab", max_seq_len=3)
    >>> program.decode(program.run(program.encode("aba")))
    [True, False, True]
    """
    _, _, program = build(sop, vocab, max_seq_len, causal, bos)
    return program


def build(
    sop: SOp, vocab: Iterable[Any], max_seq_len: int, causal: bool, bos: Any
) -> tuple[Analysis, Vocabulary, ProgramClass]:
    """Analyse an s-op, plan its layers and declare its program."""
    analysis = analyse(sop, vocab, max_seq_len, causal, bos)
    values = analysis.of(sop)
    words = Vocabulary(tuple(analysis.tokens.domain), bos, tuple(values.domain))
    program = Planner(analysis, values, _title(sop)).program(words)
    type.__setattr__(program, "sop", sop)
    return analysis, words, program


def analyse(sop: SOp, vocab: Iterable[Any], max_seq_len: int, causal: bool, bos: Any) -> Analysis:
    """Check the arguments, and find what every s-op can be."""
    if not isinstance(sop, SOp):
        raise InputError(f"{sop!r} is not an s-op; rasp.SelectorWidth and rasp.Aggregate make one of a selector")
    if not isinstance(max_seq_len, int) or not 1 <= max_seq_len <= MAX_LENGTH:
        raise InputError(f"{sop.name}: max_seq_len={max_seq_len!r}; the longest input has 1 to {MAX_LENGTH} tokens")
    tokens = check_vocabulary(sop.name, vocab, bos)
    analysis = Analysis(tokens, max_seq_len, causal)
    analysis.of(sop)
    return analysis


def check_vocabulary(name: str, vocab: Iterable[Any], bos: Any) -> Sequence[Any]:
    """The tokens in a fixed order: numbers and texts ascending."""
    try:
        given = list(dict.fromkeys(v.item() if isinstance(v, np.generic) else v for v in vocab))
    except TypeError:
        raise InputError(f"{name}: vocab={vocab!r} is not a set of tokens such as {{'a', 'b'}}") from None
    if not given:
        raise InputError(f"{name}: vocab is empty; give at least one token")
    if None in given:
        raise InputError(f"{name}: None is no token; it stands for a missing value")
    if bos in given:
        raise InputError(f"{name}: the token {bos!r} is in the vocabulary; give another bos=")
    return sorted(given, key=_order)


def _order(token: Any) -> tuple[int, Any]:
    """Numbers first, then texts, then everything else by how Python writes it."""
    if isinstance(token, int | float):
        return 0, token
    return (1, token) if isinstance(token, str) else (2, repr(token))


def _title(sop: SOp) -> str:
    kept = "".join(letter if letter.isalnum() else "_" for letter in sop.name).strip("_")
    return kept if kept and not kept[0].isdigit() else f"sop_{kept}"
