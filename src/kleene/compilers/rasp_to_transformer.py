"""Compile RASP's s-ops to transformers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch

from kleene.common.vocabulary import Vocabulary
from kleene.compilers.program_to_transformer import compile_program
from kleene.errors import InputError
from kleene.networks.transformer.model import Transformer
from kleene.rasp.expressions import SOp
from kleene.rasp.program import to_program


def compile_sop(
    sop: SOp,
    *,
    vocab: Iterable[Any] | None = None,
    max_seq_len: int | None = None,
    causal: bool = False,
    bos: Any = "BOS",
    pad: Any = None,
    compiler_bos: Any = None,
    compiler_pad: Any = None,
    mlp_exactness: float | None = None,
    dtype: str | torch.dtype | None = None,
) -> Transformer:
    """Build a transformer that computes exactly what an s-op does.

    - `vocab`: the tokens.
    - `max_seq_len`: the longest input, without the beginning.
    - `causal`: whether a position sees only what is to its left.
    - `bos`: the name of the token that begins every sequence; it is not in the vocabulary.
    - `pad`: the name of a token that may follow a sequence in `net.apply`.
    - `compiler_bos`, `compiler_pad`: Tracr's names of `bos` and `pad`.
    - `mlp_exactness`: an option of Tracr without effect here, where all answers are exact.
    - `dtype`: "float32" (default), "float64" or "bfloat16".
    """
    if vocab is None or max_seq_len is None:
        raise InputError(f"{sop.name}: give its tokens as vocab=, and its longest input as max_seq_len=")
    bos, pad = (given if own is None else own for given, own in ((bos, compiler_bos), (pad, compiler_pad)))
    program = to_program(sop, vocab=vocab, max_seq_len=max_seq_len, causal=causal, bos=bos)
    words: Vocabulary = vars(program)["vocabulary"]
    if pad is not None and pad in (bos, *words.tokens):
        raise InputError(f"{sop.name}: the padding token {pad!r} is a token already; give another pad=")
    net = compile_program(program, dtype=dtype)
    net.description["vocabulary"] = replace(words, pad=pad).to_json()
    return net
