"""Transformers to Hugging Face's `transformers`: a folder with config.json and model.safetensors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

from kleene.errors import NotSupported
from kleene.files import written_atomically
from kleene.networks.transformer.model import Transformer

CODE = "modeling_kleene"  # the file beside the weights


def export_hugging_face(net: Transformer, path: str | Path | None = None) -> Any:
    """Return a `KleeneModel` (networks/transformer/hugging_face.py); also save it to `path` if given.

    The folder has the code of the model beside the weights, so that `AutoModel.from_pretrained(path,
    trust_remote_code=True)` works where Kleene is not installed; and a tokenizer where the program has an alphabet.
    """
    try:
        from kleene.networks.transformer.hugging_face import as_model
    except ImportError:
        raise NotSupported("hugging-face: the package is not installed; pip install transformers") from None
    model = as_model(net)
    if path is not None:
        with written_atomically(path) as beside, _quietly():
            model.config.auto_map = {"AutoConfig": f"{CODE}.KleeneConfig", "AutoModel": f"{CODE}.KleeneModel"}
            model.save_pretrained(beside)
            code = files("kleene.exporters") / "standalone_hugging_face.py"
            (beside / f"{CODE}.py").write_text(code.read_text(encoding="utf-8"), encoding="utf-8")
            _save_tokenizer(net, beside)
    return model


def _save_tokenizer(net: Transformer, folder: Path) -> None:
    """Write a tokenizer of the network's alphabet, with its first and last symbol. It does not pad numbers."""
    text = net.text
    if text is None or " " in text.alphabet:
        return
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.WordLevel({symbol: k for k, symbol in enumerate(text.alphabet)}, unk_token=None))
    letters: list[Any] = [] if text.spaced else [pre_tokenizers.Split(Regex(r"\S"), "isolated")]
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), *letters])
    marks = [mark for mark in (text.start, text.end) if mark]
    if marks:
        template = " ".join([*([text.start] if text.start else []), "$A", *([text.end] if text.end else [])])
        special = [(mark, text.alphabet.index(mark)) for mark in dict.fromkeys(marks)]
        made.post_processor = processors.TemplateProcessing(single=template, special_tokens=special)
    options: dict[str, Any] = {"tokenizer_object": made, "clean_up_tokenization_spaces": False}
    PreTrainedTokenizerFast(**options).save_pretrained(folder)


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
