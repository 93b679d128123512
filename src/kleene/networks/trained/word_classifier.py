"""A trainable classifier of words: an RNN, GRU, LSTM, state-space model or transformer, and one logit. Plain torch."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from kleene.common.alphabet import check_alphabet, encode_batch
from kleene.errors import FileError, InputError
from kleene.files import MAX_PARAMETERS, check_version, read_json, written_atomically
from kleene.networks.weight_files import with_saved_weights

VERSION = 1
HEADS = 4  # of the transformer
BATCH = 8192  # words in one batch
RECURRENT: dict[str, Any] = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
Cell = Literal["rnn", "gru", "lstm", "state-space", "transformer"]
CELLS = get_args(Cell)
LIMITS = {"hidden": 4096, "layers": 100}


class StateSpace(nn.Module):
    """Diagonal linear recurrences whose decay depends on the input: h' = a(x)·h + b(x), layer after layer."""

    def __init__(self, hidden: int, layers: int) -> None:
        super().__init__()
        self.decay = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(layers))
        self.drive = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(layers))

    def forward(self, x: Tensor) -> Tensor:
        """The states of the last layer. Both x and the states are (batch, time, hidden)."""
        for decay, drive in zip(self.decay, self.drive):
            kept, new = torch.tanh(decay(x)), drive(x)
            h, states = torch.zeros_like(x[:, 0]), []
            for t in range(x.shape[1]):
                h = kept[:, t] * h + new[:, t]
                states.append(h)
            x = torch.stack(states, dim=1)
        return x


class WordClassifier(nn.Module):
    """Classifies words as in a language or not: embedding → cell → two linear layers → one logit.

    A start symbol comes before each word, so that the empty word has an answer.

    - `alphabet`: the symbols, single characters.
    - `cell`: "rnn", "gru", "lstm", "state-space" or "transformer" (sines as positions, so words of any length).
    - `hidden`: the width.
    - `layers`: how many layers the cell has.

    >>> _ = torch.manual_seed(0); model = WordClassifier("ab", "gru", hidden=8)
    >>> model(torch.tensor([[0, 1, 1], [1, 0, 0]])).shape      # (batch, time) → (batch,)
    torch.Size([2])
    >>> model.accepts_batch(["", "abba"]).shape
    (2,)
    """

    def __init__(self, alphabet: Iterable[str], cell: Cell = "gru", hidden: int = 32, layers: int = 1) -> None:
        super().__init__()
        self.alphabet = check_alphabet(alphabet)
        if any(len(symbol) != 1 for symbol in self.alphabet):
            raise InputError("WordClassifier: symbols must be single characters")
        if cell not in CELLS:
            raise InputError(f"WordClassifier: cell={cell!r}; it must be one of {', '.join(CELLS)}")
        for name, value in (("hidden", hidden), ("layers", layers)):
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LIMITS[name]:
                raise InputError(f"WordClassifier: {name}={value!r}; it must be 1 … {LIMITS[name]}")
        if cell == "transformer" and hidden % (2 * HEADS):
            raise InputError(f"WordClassifier: hidden={hidden}; for a transformer it must be a multiple of {2 * HEADS}")
        self.sizes: dict[str, Any] = {"cell": cell, "hidden": hidden, "layers": layers}
        self.embedding = nn.Embedding(len(self.alphabet) + 1, hidden)
        self.body = _body(cell, hidden, layers)
        self.out = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, codes: Tensor) -> Tensor:
        """One logit per word (batch,), from the indices of its symbols (batch, time)."""
        x = self.embedding(nn.functional.pad(codes, (1, 0), value=len(self.alphabet)))  # (batch, 1 + time, hidden)
        if self.sizes["cell"] == "transformer":
            h = self.body(x + _sines(x.shape[1], x.shape[2]).to(x)).mean(dim=1)
        else:
            h = self.body(x)
            h = (h[0] if isinstance(h, tuple) else h)[:, -1]
        logits: Tensor = self.out(h)[:, 0]
        return logits

    def accepts_batch(self, words: Sequence[str]) -> np.ndarray:
        """Whether the logit of each word is positive."""
        codes, offsets = encode_batch(list(words), self.alphabet)
        lengths = np.diff(offsets)
        answers = np.empty(len(lengths), dtype=bool)
        was_training = self.training
        self.eval()
        try:
            with torch.no_grad():
                for size in np.unique(lengths):
                    same = np.flatnonzero(lengths == size)
                    for rows in np.array_split(same, math.ceil(len(same) / BATCH)):
                        block = codes[offsets[rows][:, None] + np.arange(size)].astype(np.int64)
                        logits = self(torch.from_numpy(block).to(self.embedding.weight.device))
                        answers[rows] = (logits > 0).cpu().numpy()
        finally:
            self.train(was_training)
        return answers

    def accepts(self, word: str) -> bool:
        """Whether the logit of a word is positive."""
        return bool(self.accepts_batch([word])[0])

    def save(self, folder: str | Path) -> None:
        """Write weights (safetensors), alphabet and sizes (JSON) to a folder that `kl.load` reads."""
        description = {"kind": "classifier", "version": VERSION, "alphabet": list(self.alphabet), **self.sizes}
        with written_atomically(folder) as made:
            made.mkdir()
            weights = {name: value.contiguous() for name, value in self.state_dict().items()}
            save_file(weights, made / "weights.safetensors")
            (made / "kleene.json").write_text(json.dumps(description, ensure_ascii=False), encoding="utf-8")


def _body(cell: str, hidden: int, layers: int) -> nn.Module:
    if cell == "transformer":
        layer = nn.TransformerEncoderLayer(hidden, HEADS, 4 * hidden, dropout=0.0, batch_first=True)
        return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    if cell == "state-space":
        return StateSpace(hidden, layers)
    made: nn.Module = RECURRENT[cell](hidden, hidden, layers, batch_first=True)
    return made


def _sines(length: int, hidden: int) -> Tensor:
    """Sines and cosines of positions (length, hidden)."""
    rates = torch.exp(torch.arange(0, hidden, 2) * (-math.log(10_000) / hidden))
    angles = torch.arange(length)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def load(folder: str | Path) -> WordClassifier:
    """Read a classifier that `.save(folder)` wrote. Check sizes before taking memory."""
    folder = Path(folder)
    found = read_json(folder / "kleene.json")
    check_version(folder / "kleene.json", found, VERSION)
    wanted = ("alphabet", "cell", "hidden", "layers")
    if not isinstance(found, dict) or not all(key in found for key in wanted):
        raise FileError(f"{folder}/kleene.json: it must give {', '.join(wanted)}")
    options = {key: found[key] for key in wanted}
    if not isinstance(options["alphabet"], list) or not isinstance(options["cell"], str):
        raise FileError(f"{folder}/kleene.json: alphabet must be a list of symbols and cell a string")

    def shapes() -> dict[str, list[int]]:
        with torch.device("meta"):  # no memory is taken
            found = {name: list(value.shape) for name, value in WordClassifier(**options).state_dict().items()}
        if sum(math.prod(shape) for shape in found.values()) > MAX_PARAMETERS:
            raise InputError(f"more than {MAX_PARAMETERS:,} parameters")
        return found

    return with_saved_weights(folder, shapes, lambda: WordClassifier(**options))
