"""Transformers to Hugging Face's `transformers`: a folder with config.json and model.safetensors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kleene.errors import NotSupported
from kleene.files import written_atomically
from kleene.networks.transformer.model import Transformer


def export_hugging_face(net: Transformer, path: str | Path | None = None) -> Any:
    """Return a `KleeneModel` (networks/transformer/hugging_face.py); also save it to `path` where one is given."""
    try:
        from kleene.networks.transformer.hugging_face import as_model
    except ImportError:
        raise NotSupported("hugging-face: the package is not here; pip install transformers") from None
    model = as_model(net)
    if path is not None:
        with written_atomically(path) as beside, _quietly():
            model.save_pretrained(beside)
    return model


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Hide the progress bars of transformers."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
