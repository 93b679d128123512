"""An LSTM language model: embedding, one or more layers, softmax. Plain torch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from kleene.errors import FileError, InputError
from kleene.files import MAX_PARAMETERS, check_version, read_json, written_atomically
from kleene.networks.weight_files import with_saved_weights

UNKNOWN = "<unk>"
VERSION = 1
MAX_LAYERS = 1000  # the most in a model that Kleene loads


class Vocabulary:
    """Words and their numbers. Unknown words become `<unk>`, if the vocabulary has it.

    >>> v = Vocabulary(["<unk>", "a", "cat"])
    >>> v.encode("a dog".split()), v.words[2]
    ([1, 0], 'cat')
    """

    def __init__(self, words: Iterable[str]) -> None:
        self.words = list(words)
        self.index = {word: number for number, word in enumerate(self.words)}
        if len(self.index) < len(self.words):
            twice = next(word for number, word in enumerate(self.words) if self.index[word] != number)
            raise InputError(f"vocabulary: {twice!r} appears twice")

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, words: Sequence[str]) -> list[int]:
        """The numbers of `words`."""
        unknown = self.index.get(UNKNOWN)
        missing = [word for word in words if word not in self.index]
        if missing and unknown is None:
            raise InputError(
                f"word {missing[0]!r}: not among the {len(self)} known words, and the vocabulary has no {UNKNOWN}"
            )
        return [self.index.get(word, unknown) for word in words]  # type: ignore[misc]


class LanguageModel(nn.Module):
    """Predicts each next token: embedding → dropout → LSTM → dropout → linear.

    >>> _ = torch.manual_seed(0); model = LanguageModel(tokens=10, embedding=4, hidden=6)
    >>> model(torch.tensor([[1, 2, 3]])).shape          # (batch, time) → (batch, time, tokens)
    torch.Size([1, 3, 10])
    """

    def __init__(
        self,
        tokens: int,
        embedding: int = 200,
        hidden: int = 200,
        layers: int = 1,
        dropout: float = 0.2,
        vocabulary: Vocabulary | None = None,
    ) -> None:
        super().__init__()
        if vocabulary is not None and len(vocabulary) != tokens:
            raise InputError(f"vocabulary: {len(vocabulary)} words for a model of {tokens} tokens")
        self.sizes = {"tokens": tokens, "embedding": embedding, "hidden": hidden, "layers": layers}
        self.vocabulary = vocabulary
        self.embedding = nn.Embedding(tokens, embedding)
        self.lstm = nn.LSTM(embedding, hidden, layers, batch_first=True, dropout=dropout if layers > 1 else 0.0)
        self.decoder = nn.Linear(hidden, tokens)
        self.dropout = nn.Dropout(dropout)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        nn.init.uniform_(self.decoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of the next token (batch, time, tokens), from a zero state."""
        hidden, _ = self.lstm(self.dropout(self.embedding(tokens)))
        logits: Tensor = self.decoder(self.dropout(hidden))
        return logits

    def encode(self, text: str | Sequence[str] | Sequence[int] | Tensor) -> Tensor:
        """The token numbers of a sentence: a text (split at spaces), a list of words, or the numbers themselves."""
        words: list[Any] = text.split() if isinstance(text, str) else list(text)
        if not words:
            raise InputError("sentence: empty; give at least one word")
        tokens = words if not any(isinstance(word, str) for word in words) else self._numbers(words)
        for token in tokens:
            if not _is_whole(token) or not 0 <= token < self.sizes["tokens"]:
                shown = token.tolist() if isinstance(token, Tensor) else token
                raise InputError(f"sentence: {shown!r} is not a token; tokens are 0 … {self.sizes['tokens'] - 1}")
        return torch.tensor([int(token) for token in tokens], device=self.embedding.weight.device)

    def _numbers(self, words: list[Any]) -> list[int]:
        if self.vocabulary is None:
            raise InputError("language model: has no vocabulary, so it cannot read words; give it token numbers")
        for word in words:
            if not isinstance(word, str):
                raise InputError(f"sentence: {word!r} among words; give only words, or only token numbers")
        return self.vocabulary.encode(words)

    def vectors(self, tokens: Tensor) -> Tensor:
        """The embeddings that the LSTM reads."""
        vectors: Tensor = self.embedding(tokens).detach()
        return vectors

    def save(self, folder: str | Path) -> None:
        """Write weights (safetensors), sizes and words (JSON) to a folder that `kl.load` reads."""
        description: dict[str, Any] = {"kind": "lstm", "version": VERSION, "sizes": self.sizes}
        if self.vocabulary is not None:
            description["words"] = self.vocabulary.words
        with written_atomically(folder) as made:
            made.mkdir()
            save_file(
                {name: value.contiguous() for name, value in self.state_dict().items()},
                made / "weights.safetensors",
            )
            (made / "kleene.json").write_text(json.dumps(description, ensure_ascii=False), encoding="utf-8")


def _is_whole(token: Any) -> bool:
    if isinstance(token, Tensor):
        return token.dim() == 0 and not token.is_floating_point() and token.dtype != torch.bool
    return isinstance(token, Integral) and not isinstance(token, bool)


def shapes(tokens: int, embedding: int, hidden: int, layers: int) -> dict[str, list[int]]:
    """The shape of every weight of a model of these sizes, by name."""
    found = {"embedding.weight": [tokens, embedding], "decoder.weight": [tokens, hidden], "decoder.bias": [tokens]}
    for layer in range(layers):
        found[f"lstm.weight_ih_l{layer}"] = [4 * hidden, hidden if layer else embedding]
        found[f"lstm.weight_hh_l{layer}"] = [4 * hidden, hidden]
        found[f"lstm.bias_ih_l{layer}"] = found[f"lstm.bias_hh_l{layer}"] = [4 * hidden]
    return found


def load(folder: str | Path) -> LanguageModel:
    """Read a language model that `.save(folder)` wrote."""
    folder = Path(folder)
    found = read_json(folder / "kleene.json")
    check_version(folder / "kleene.json", found, VERSION)
    sizes = found.get("sizes") if isinstance(found, dict) else None
    wanted = {"tokens", "embedding", "hidden", "layers"}
    if (
        not isinstance(sizes, dict)
        or set(sizes) != wanted
        or not all(isinstance(size, int) and 0 < size < 10_000_000 for size in sizes.values())
    ):
        raise FileError(f"{folder}/kleene.json: sizes must have {', '.join(sorted(wanted))} as positive numbers")
    if sizes["layers"] > MAX_LAYERS:
        raise FileError(f"{folder}/kleene.json: {sizes['layers']:,} layers, more than {MAX_LAYERS:,}")
    width = sizes["embedding"] + sizes["hidden"]
    if sizes["tokens"] * width + 8 * sizes["layers"] * sizes["hidden"] * width > MAX_PARAMETERS:
        raise FileError(f"{folder}/kleene.json: more than {MAX_PARAMETERS:,} parameters")
    words = found.get("words")
    if words is not None and (not isinstance(words, list) or not all(isinstance(word, str) for word in words)):
        raise FileError(f"{folder}/kleene.json: words must be a list of strings")
    return with_saved_weights(
        folder,
        lambda: shapes(**sizes),
        lambda: LanguageModel(**sizes, vocabulary=None if words is None else Vocabulary(words)),
    )
