"""Compiled decoders to stock classes of transformers: a folder that needs nothing of Kleene."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from kleene.compilers.program_to_stock import to_stock
from kleene.networks.stock.model import Family, StockModel
from kleene.networks.transformer.model import Transformer

Dtype = Literal["float32", "bfloat16"]


def _into(family: Family) -> Callable[..., StockModel]:
    """The function that exports a compiled decoder to a family, and saves it where a path is given."""

    def export_stock(
        net: Transformer,
        path: str | Path | None = None,
        *,
        length: int | None = None,
        dtype: Dtype = "float32",
        symbols: Sequence[str] | None = None,
    ) -> StockModel:
        made = to_stock(net, family, length, dtype, symbols)
        if path is not None:
            made.save(path)
        return made

    return export_stock


export_llama, export_gpt2 = _into("llama"), _into("gpt2")
export_phi3, export_qwen3 = _into("phi3"), _into("qwen3")
