"""Compile RASP's s-ops to transformers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from kleene.compilers.program_to_transformer import compile_program
from kleene.networks.transformer.model import Transformer
from kleene.rasp.expressions import SOp
from kleene.rasp.program import to_program


def compile_sop(
    sop: SOp,
    *,
    vocab: Iterable[Any],
    max_seq_len: int,
    causal: bool = False,
    bos: Any = "BOS",
    dtype: str | torch.dtype | None = None,
) -> Transformer:
    """Build a transformer that computes exactly what an s-op does.

    - `vocab`: the tokens.
    - `max_seq_len`: the longest input, without the beginning.
    - `causal`: whether a position sees only what is to its left.
    - `bos`: the name of the token that begins every sequence; it is not in the vocabulary.
    - `dtype`: "float32" (default), "float64" or "bfloat16".
    """
    program = to_program(sop, vocab=vocab, max_seq_len=max_seq_len, causal=causal, bos=bos)
    return compile_program(program, dtype=dtype)
