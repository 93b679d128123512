"""Compiled decoders to stock classes of transformers: a folder that needs nothing of Kleene."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from kleene.compilers.program_to_stock import to_stock
from kleene.networks.stock.model import Family, StockModel
from kleene.networks.transformer.model import Transformer

Dtype = Literal["float32", "bfloat16"]


def _export(
    net: Transformer,
    family: Family,
    path: str | Path | None,
    length: int | None,
    dtype: Dtype,
    symbols: Sequence[str] | None,
) -> StockModel:
    made = to_stock(net, family, length, dtype, symbols)
    if path is not None:
        made.save(path)
    return made


def export_llama(
    net: Transformer,
    path: str | Path | None = None,
    *,
    length: int | None = None,
    dtype: Dtype = "float32",
    symbols: Sequence[str] | None = None,
) -> StockModel:
    """A decoder as a `LlamaForCausalLM`; also saved to `path` where one is given."""
    return _export(net, "llama", path, length, dtype, symbols)


def export_gpt2(
    net: Transformer,
    path: str | Path | None = None,
    *,
    length: int | None = None,
    dtype: Dtype = "float32",
    symbols: Sequence[str] | None = None,
) -> StockModel:
    """A decoder as a `GPT2LMHeadModel`; also saved to `path` where one is given."""
    return _export(net, "gpt2", path, length, dtype, symbols)


def export_phi3(
    net: Transformer,
    path: str | Path | None = None,
    *,
    length: int | None = None,
    dtype: Dtype = "float32",
    symbols: Sequence[str] | None = None,
) -> StockModel:
    """A decoder as a `Phi3ForCausalLM`; also saved to `path` where one is given."""
    return _export(net, "phi3", path, length, dtype, symbols)


def export_qwen3(
    net: Transformer,
    path: str | Path | None = None,
    *,
    length: int | None = None,
    dtype: Dtype = "float32",
    symbols: Sequence[str] | None = None,
) -> StockModel:
    """A decoder as a `Qwen3ForCausalLM`; also saved to `path` where one is given."""
    return _export(net, "qwen3", path, length, dtype, symbols)
