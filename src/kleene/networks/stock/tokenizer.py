"""The tokenizer of a stock model: one token for each symbol of the program, the first token in front.

The files are those of `PreTrainedTokenizerFast`: `AutoTokenizer.from_pretrained` reads them without running anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kleene.errors import InputError

FIRST, PADDING = "<s>", "<pad>"


def check_symbols(name: str, symbols: Sequence[str], tokens: int) -> list[str]:
    """A list of different, non-empty symbols, one for each token of the program."""
    listed = list(symbols)
    if len(listed) != tokens:
        raise InputError(f"{name}: {len(listed)} symbols for {tokens} tokens; give one per token")
    for symbol in listed:
        if not isinstance(symbol, str) or not symbol or symbol in (FIRST, PADDING) or listed.count(symbol) > 1:
            raise InputError(f"{name}: the symbol {symbol!r} is empty, reserved or repeated; give distinct symbols")
    if any(len(symbol) > 1 for symbol in listed) and any(s.split() != [s] for s in listed):
        raise InputError(f"{name}: a symbol contains a space; words are separated by spaces")
    return listed


def tokenizer_json(symbols: Sequence[str]) -> dict[str, Any]:
    """The content of tokenizer.json. Single characters are tokens; longer symbols are words."""
    first, padding = len(symbols), len(symbols) + 1
    words = any(len(symbol) > 1 for symbol in symbols)
    split = {"type": "Split", "pattern": {"Regex": "[\\s\\S]"}, "behavior": "Isolated", "invert": False}
    special = [
        {
            "id": number,
            "content": text,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for number, text in ((first, FIRST), (padding, PADDING))
    ]
    start = {"SpecialToken": {"id": FIRST, "type_id": 0}}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"} if words else split,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [start, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [start, {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {FIRST: {"id": FIRST, "ids": [first], "tokens": [FIRST]}},
        },
        "decoder": None if words else {"type": "Fuse"},
        "model": {
            "type": "WordLevel",
            "vocab": {**{symbol: number for number, symbol in enumerate(symbols)}, FIRST: first, PADDING: padding},
            "unk_token": PADDING,  # tools try out tokenizers with any text: an unknown symbol must not be an error
        },
    }


def tokenizer_config(symbols: Sequence[str], stop: int | None, length: int) -> dict[str, Any]:
    """The content of tokenizer_config.json."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": FIRST,
        "pad_token": PADDING,
        "unk_token": PADDING,
        **({} if stop is None else {"eos_token": symbols[stop]}),
        "padding_side": "left",
        "clean_up_tokenization_spaces": False,
        "model_max_length": length + 1,
    }
