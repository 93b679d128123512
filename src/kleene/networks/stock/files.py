"""Stock models on disk: a complete folder of transformers, and kleene.json with the claim about it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from safetensors.torch import save

from kleene.errors import FileError, InputError
from kleene.files import check_version, read_json, written_atomically
from kleene.networks.stock.card import model_card
from kleene.networks.stock.model import CLASSES, StockModel
from kleene.networks.stock.tokenizer import FIRST, PADDING, tokenizer_config, tokenizer_json
from kleene.networks.weight_files import check_digest, read_tensors

VERSION = 1


def save_stock(net: StockModel, folder: str | Path, certificate: Any = None) -> None:
    """Write config, weights, tokenizer, generation config, model card and kleene.json, atomically."""
    weights = save({name: tensor.contiguous().cpu() for name, tensor in net.tensors.items()}, {"format": "pt"})
    dtype = str(net.dtype).removeprefix("torch.")
    texts: dict[str, Any] = {
        "config.json": {**net.config, "dtype": dtype},
        **_generation(net),
        "special_tokens_map.json": {"bos_token": FIRST, "pad_token": PADDING},
        "kleene.json": content_of(net, hashlib.sha256(weights).hexdigest()),
    }
    if certificate is not None:
        texts["certificate.json"] = certificate.to_json()
    with written_atomically(folder) as beside:
        beside.mkdir()
        (beside / "model.safetensors").write_bytes(weights)
        for name, content in texts.items():
            (beside / name).write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        (beside / "README.md").write_text(model_card(net, certificate), encoding="utf-8")


def _generation(net: StockModel) -> dict[str, Any]:
    """The files that say how the model generates, and what its tokens are."""
    stop = net.program["stop"]
    return {
        "generation_config.json": {
            "do_sample": False,
            "max_new_tokens": net.max_tokens,
            "bos_token_id": net.first,
            "pad_token_id": net.first + 1,
            "eos_token_id": stop,
        },
        "tokenizer.json": tokenizer_json(net.symbols),
        "tokenizer_config.json": tokenizer_config(net.symbols, stop, net.length),
    }


def content_of(net: StockModel, weights: str) -> dict[str, Any]:
    """The content of kleene.json: the program as data, and the claim that the certificate proves."""
    return {
        "kind": "stock",
        "version": VERSION,
        "family": net.family,
        "dtype": str(net.dtype).removeprefix("torch."),
        "about": net.about,
        "symbols": net.symbols,
        "claim": net.claim,
        "description": net.description,
        "weights": weights,
    }


def load_stock(folder: Path) -> StockModel:
    """Read a stock model; reject files that differ from what was saved."""
    path = folder / "kleene.json"
    content = read_json(path)
    check_version(path, content, VERSION)
    config = read_json(folder / "config.json")
    try:
        config = {key: value for key, value in config.items() if key != "dtype"}
        family, weights = content["family"], str(content["weights"])
        if family not in CLASSES:
            raise ValueError(f"there is no family {family!r}")
        tensors, digest = read_tensors(folder / "model.safetensors")
        check_digest(folder / "model.safetensors", digest, weights)
        net = StockModel(
            family,
            config,
            tensors,
            dict(content["description"]),
            dict(content["claim"]),
            [str(symbol) for symbol in content["symbols"]],
            str(content["about"]),
        )
        if config["architectures"] != [CLASSES[family]] or not (net.length >= 1 and net.sizes.heads >= 1):
            raise ValueError(f"config.json is not that of a {CLASSES[family]}")
        for name, wanted in _generation(net).items():
            if read_json(folder / name) != json.loads(json.dumps(wanted)):
                raise FileError(f"{folder / name}: differs from what is saved with this program; save the model again")
        return net
    except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError, InputError) as error:
        raise FileError(f"{path}: not a description of a stock model ({error})") from None
