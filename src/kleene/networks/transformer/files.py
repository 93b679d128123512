"""Transformers on disk: weights.safetensors and kleene.json. Loading checks everything and runs nothing."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

from safetensors.torch import save

from kleene.common.residual import Layout
from kleene.common.text import Text
from kleene.errors import FileError, InputError
from kleene.files import MAX_PARAMETERS, check_version, read_json, written_atomically
from kleene.networks.transformer.model import DTYPES, BlockShape, Config, Transformer
from kleene.networks.weight_files import check_digest, read_tensors

VERSION = 2
MAX_BLOCKS = 100_000


def save_transformer(net: Transformer, folder: str | Path) -> None:
    """Write a transformer to a folder, atomically."""
    weights = save({name: tensor.contiguous().cpu() for name, tensor in net.state_dict().items()})
    content = {**content_of(net), "weights": hashlib.sha256(weights).hexdigest()}
    with written_atomically(folder) as beside:
        beside.mkdir()
        (beside / "weights.safetensors").write_bytes(weights)
        text = json.dumps({**content, "digest": _digest(content)}, ensure_ascii=False)
        (beside / "kleene.json").write_text(text, encoding="utf-8")


def content_of(net: Transformer) -> dict[str, Any]:
    """The content of kleene.json, without the digests. A converted network keeps the format that it was made for."""
    converted = {} if net.made_for == net.dtype else {"made_for": str(net.made_for).removeprefix("torch.")}
    return {
        "kind": "transformer",
        "version": VERSION,
        "dtype": str(net.dtype).removeprefix("torch."),
        **converted,
        "config": dataclasses.asdict(net.config),
        "description": net.description,
    }


def _digest(content: dict[str, Any]) -> str:
    """A digest of everything else in kleene.json, to detect changes."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def load_transformer(folder: Path) -> Transformer:
    """Read a transformer; reject files that differ from what was saved."""
    path = folder / "kleene.json"
    content = read_json(path)
    check_version(path, content, VERSION)
    digest = content.pop("digest", None)
    if digest != _digest(content):
        raise FileError(f"{path}: its content has changed since it was saved (the digest differs)")
    try:
        config, dtype = config_from_json(content["config"]), DTYPES[content["dtype"]]
        made_for = DTYPES[content.get("made_for", content["dtype"])]
        description, weights = dict(content["description"]), str(content["weights"])
        Layout.from_json(description["layout"])
        if (text := description.get("program", {}).get("text")) is not None:
            Text.from_json(text)
    except InputError as error:
        raise FileError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FileError(f"{path}: not a description of a transformer ({error!r})") from None
    count = count_parameters(config)
    if count > MAX_PARAMETERS:
        raise FileError(f"{path}: {count:,} parameters, more than the {MAX_PARAMETERS:,} that are loaded")
    net = Transformer(config, description, dtype)
    net.made_for = made_for
    net.load_state_dict(_read_weights(folder / "weights.safetensors", weights, net))
    return net


def config_from_json(content: dict[str, Any]) -> Config:
    """Read a config from JSON; raise ValueError, KeyError or TypeError where it is malformed."""
    counted = tuple((int(first), int(bits), int(offset)) for first, bits, offset in content.get("counted", ()))
    cycle = tuple(_block_shape(shape) for shape in content["cycle"])
    config = Config(**{**content, "cycle": cycle, "counted": counted})
    _check_config(config)
    return config


def _block_shape(content: dict[str, Any]) -> BlockShape:
    fields: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in content.items()}
    return BlockShape(**fields)


def _check_config(config: Config) -> None:
    """Check that every size is a whole number and in range."""
    numbers = [
        config.tokens,
        config.dim,
        config.classes,
        config.blocks,
    ]
    for shape in config.cycle:
        numbers += [shape.key_size, shape.value_size, shape.window, *shape.hidden]
        if not all(isinstance(head, str) for head in shape.heads) or len(shape.hidden) != 2:
            raise ValueError("a block in its config is malformed")
    optional = [config.positions, config.max_length, config.layers, config.stop, config.max_tokens]
    numbers += [number for number in optional if number is not None]
    if any(type(number) is not int or number < 0 for number in numbers):
        raise ValueError("a size in its config is not a whole number")
    if config.shape not in ("universal", "encoder", "decoder") or config.output_coding not in ("one-hot", "bits"):
        raise ValueError("its config has an unknown shape or coding")
    if any(not (first >= 0 and 1 <= bits <= 62 and first + bits <= config.dim) for first, bits, _ in config.counted):
        raise ValueError("its config counts positions in dimensions that it lacks")
    if min(config.dim, config.tokens, config.blocks, len(config.cycle)) < 1:
        raise ValueError("its config has no dimensions, tokens or blocks")
    if config.blocks > MAX_BLOCKS:
        raise ValueError(f"its config has {config.blocks:,} blocks, more than {MAX_BLOCKS:,}")


def count_parameters(config: Config) -> int:
    """The number of parameters of a config, computed before any memory is taken."""
    d, total = config.dim, (config.tokens + (config.positions or 0) + config.classes) * config.dim
    for shape in config.cycle:
        h = len(shape.heads)
        block = h * (2 * shape.key_size + 2 * shape.value_size) * d + 2 * sum(shape.hidden) * d
        block += h * (2 * shape.window + 3 + 2 * shape.key_size + shape.value_size) + sum(shape.hidden)
        total += block * -(-config.blocks // len(config.cycle))
    return total


def _read_weights(path: Path, expected: str, net: Transformer) -> dict[str, Any]:
    tensors, digest = read_tensors(path)
    for name, tensor in net.state_dict().items():
        if name not in tensors:
            raise FileError(f"{path}: the tensor '{name}' is missing")
        if tensors[name].shape != tensor.shape or tensors[name].dtype != tensor.dtype:
            raise FileError(
                f"{path}: '{name}' is {tuple(tensors[name].shape)} {tensors[name].dtype}, "
                f"it should be {tuple(tensor.shape)} {tensor.dtype}"
            )
    extra = set(tensors) - set(net.state_dict())
    if extra:
        raise FileError(f"{path}: the tensor '{sorted(extra)[0]}' does not belong to this network")
    check_digest(path, digest, expected)
    return tensors
