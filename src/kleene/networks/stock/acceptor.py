"""Unmodified models of `transformers` that read words: a start token, the word, and the logits of two answers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch

from kleene.common.alphabet import Word, check_alphabet, encode_batch
from kleene.errors import FileError, NotSupported
from kleene.files import check_version, read_json, write_json, written_atomically

VERSION = 1
TOKENS_AT_ONCE = 4096


def transformers_model(family: str) -> Any:
    """The module of transformers that holds a model; NotSupported where it is not installed."""
    try:
        return import_module(f"transformers.models.{family}.modeling_{family}")
    except ImportError:
        raise NotSupported(
            f"stock models run in the package transformers, here with {family}; pip install --upgrade transformers"
        ) from None


class StockAcceptor:
    """A stock model that accepts words. `model` is the stock module, as `from_pretrained` reads it.

    Tokens 0, 1, … are the symbols of `alphabet`; then come the start, `reject` and `accept`. A word is accepted where
    after the start and the word the logit of `accept` is larger.
    """

    kind: ClassVar[str]
    family: ClassVar[str]  # the folder of transformers
    class_name: ClassVar[str]
    cache_argument: ClassVar[str] = "past_key_values"
    batched: ClassVar[bool] = False  # whether a batch rounds as its rows do

    def __init__(self, alphabet: Sequence[str], model: Any, about: dict[str, Any] | None = None) -> None:
        self.alphabet, self.model = check_alphabet(alphabet), model.eval()
        self.about: dict[str, Any] = {} if about is None else about

    @property
    def start(self) -> int:
        """The token that begins every word."""
        return len(self.alphabet)

    @property
    def dtype(self) -> str:
        """The number format of the weights."""
        return str(self.model.lm_head.weight.dtype).removeprefix("torch.")

    @property
    def units(self) -> int:
        """Units of a layer."""
        return int(self.model.config.intermediate_size)

    @property
    def sizes(self) -> dict[str, int]:
        """Layers, widths, parameters, and how many of them are not zero."""
        config, every = self.model.config, list(self.model.parameters())
        return {
            "layers": config.num_hidden_layers,
            "residual": config.hidden_size,
            "units": self.units,
            "parameters": sum(p.numel() for p in every),
            "nonzero": sum(int((p != 0).sum()) for p in every),
        }

    def __repr__(self) -> str:
        s = self.sizes
        return f"{self.class_name}: {s['layers']} layers, residual {s['residual']}, {s['parameters']:,} parameters"

    def accepted(self, logits: torch.Tensor) -> torch.Tensor:
        """Return what logits (…, token) say."""
        return logits[..., self.start + 2] > logits[..., self.start + 1]

    @torch.no_grad()
    def accepts_batch(self, words: Sequence[Word]) -> np.ndarray:
        """Whether each word is accepted; words of equal length run together, all positions at once."""
        codes, offsets = encode_batch(words, self.alphabet)
        lengths, answers = np.diff(offsets), np.empty(len(words), dtype=bool)
        for length in np.unique(lengths).tolist():
            rows = np.flatnonzero(lengths == length)
            for some in np.array_split(rows, -(-len(rows) * (length + 1) // TOKENS_AT_ONCE)):
                tokens = np.full((len(some), length + 1), self.start, dtype=np.int64)
                for place, row in enumerate(some):
                    tokens[place, 1:] = codes[offsets[row] : offsets[row + 1]]
                logits = self.model(torch.from_numpy(tokens), use_cache=False, logits_to_keep=1).logits[:, -1]
                answers[some] = self.accepted(logits).numpy()
        return answers

    def accepts(self, word: Word) -> bool:
        """Whether the word is accepted."""
        return bool(self.accepts_batch([word])[0])

    @torch.no_grad()
    def _step(self, cache: Any, tokens: list[int]) -> tuple[Any, list[bool]]:
        out = self.model(torch.tensor(tokens)[:, None], use_cache=True, **{self.cache_argument: cache})
        return getattr(out, self.cache_argument), self.accepted(out.logits[:, -1]).tolist()

    def begin(self) -> tuple[Any, bool]:
        """The cache after the start token, as `generate` keeps it, and whether the empty word is accepted."""
        cache, (answer,) = self._step(None, [self.start])
        return cache, answer

    def after(self, cache: Any) -> Iterator[tuple[bytes, Callable[[], Any], bool]]:
        """Read each symbol: the key of the cache after it, the cache, and whether the word so far is accepted."""
        count = len(self.alphabet)
        groups = [list(range(count))] if self.batched else [[symbol] for symbol in range(count)]
        for symbols in groups:
            repeated = _rows(cache, [0] * len(symbols))
            new, answers = self._step(repeated, symbols)
            for row, (key, answer) in enumerate(zip(self.keys(new), answers)):
                yield key, partial(_rows, new, [row]), answer

    def recurrent_layers(self) -> list[int]:
        """The layers that keep a state of a word."""
        return list(range(self.model.config.num_hidden_layers))

    def convolution(self, layer: int) -> Any:
        """The convolution of a recurrent layer."""
        raise NotImplementedError

    def keys(self, cache: Any) -> list[bytes]:
        """Every number of each row of a cache that the next token's step reads.

        A convolution over K positions keeps K of them. It reads K − 1 beside the new one, where its weight is not 0.
        (0 times a number that is not finite is none.)
        """
        parts = []
        for layer in self.recurrent_layers():
            weight, held = self.convolution(layer).weight[:, 0, :-1], cache.get_conv_state(layer, state_idx=0)[..., 1:]
            kept = torch.where((weight != 0) | ~held.isfinite(), held, 0.0)
            for held in (kept, cache.get_recurrent_state(layer, state_idx=0)):
                parts.append((held + 0.0).flatten(1))  # + 0.0 makes −0 be 0
        return [row.tobytes() for row in torch.cat(parts, dim=1).numpy()]

    def save(self, folder: str | Path) -> None:
        """Write the model as `save_pretrained` does, and kleene.json beside it, atomically."""
        content = {"kind": self.kind, "version": VERSION, "alphabet": list(self.alphabet), "about": self.about}
        with written_atomically(folder) as made:
            made.mkdir()
            self.model.save_pretrained(made)
            write_json(made / "kleene.json", content)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read a network that `save` wrote; no code of the folder runs."""
        path = folder / "kleene.json"
        content = read_json(path)
        check_version(path, content, VERSION)
        alphabet, about = content.get("alphabet"), content.get("about")
        if (
            not isinstance(alphabet, list)
            or not all(isinstance(s, str) for s in alphabet)
            or not isinstance(about, dict)
        ):
            raise FileError(f"{path}: needs an 'alphabet' of symbols and 'about'")
        stock = getattr(transformers_model(cls.family), cls.class_name)
        try:
            model, found = stock.from_pretrained(folder, local_files_only=True, output_loading_info=True)
        except Exception as error:  # transformers raises errors of its own, of many classes
            said = (str(error).splitlines() or [type(error).__name__])[0]
            raise FileError(f"{folder}: not a {cls.class_name} ({said})") from None
        for what in ("missing_keys", "unexpected_keys", "mismatched_keys"):  # transformers makes up what is missing
            if found[what]:
                raise FileError(f"{folder}: {what.replace('_', ' ')} in its weights, such as {sorted(found[what])[0]}")
        if model.config.vocab_size != len(alphabet) + 3:
            raise FileError(
                f"{path}: {len(alphabet)} symbols, and the model has {model.config.vocab_size} tokens, not 3 more"
            )
        return cls(alphabet, model, about)


def _rows(cache: Any, rows: list[int]) -> Any:
    """A copy of some rows of a cache."""
    kept = copy.deepcopy(cache)
    kept.reorder_cache(torch.tensor(rows))
    return kept
