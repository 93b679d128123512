"""Read safetensors files safely: sizes and shapes are compared before a model takes memory."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from safetensors import SafetensorError, safe_open
from safetensors.torch import load, load_file
from torch import Tensor, nn

from kleene.errors import FileError, InputError
from kleene.files import MAX_PARAMETERS

M = TypeVar("M", bound=nn.Module)
Shapes = dict[str, list[int]]  # name of a tensor → its shape


def read_tensors(path: Path) -> tuple[dict[str, Tensor], str]:
    """The tensors of a file, and the SHA-256 digest of its bytes."""
    try:
        if path.stat().st_size > 8 * MAX_PARAMETERS:
            raise FileError(f"{path}: {path.stat().st_size:,} bytes, too large")
        data = path.read_bytes()
        return load(data), hashlib.sha256(data).hexdigest()
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror})") from None
    except SafetensorError as error:
        raise FileError(f"{path}: not a safetensors file ({error})") from None


def check_digest(path: Path, found: str, expected: str) -> None:
    """Raise a FileError if a file has changed since it was saved."""
    if found != expected:
        raise FileError(f"{path}: its bytes have changed since it was saved (the digest differs)")


def with_saved_weights(folder: Path, shapes: Callable[[], Shapes], make: Callable[[], M]) -> M:
    """The model that `make` gives, with the weights of a folder. Shapes are compared before `make` is called."""
    try:
        _check_shapes(folder / "weights.safetensors", shapes())
        model = make()
        model.load_state_dict(load_file(folder / "weights.safetensors"))
    except InputError as error:
        raise FileError(f"{folder}/kleene.json: {error}") from None
    except FileNotFoundError:
        raise FileError(f"{folder}/weights.safetensors: no such file") from None
    except Exception as error:  # the safetensors library raises its own errors
        raise FileError(f"{folder}/weights.safetensors: does not fit ({str(error).splitlines()[0]})") from None
    return model.eval()


def _check_shapes(path: Path, wanted: Shapes) -> None:
    """Compare the header of a weights file with the wanted shapes; read nothing but the header."""
    with safe_open(path, framework="pt") as file:
        found = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    for name in sorted(found.keys() | wanted.keys()):
        if found.get(name) != wanted.get(name):
            raise ValueError(f"{name}: {found.get(name)} in the file, but {wanted.get(name)} according to the sizes")
