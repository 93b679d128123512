"""Asking a classifier about words: any kind of model, each word once, words of one length together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from kleene.common.alphabet import encode_batch
from kleene.errors import InputError, a_type

Ask = Callable[[list[str]], np.ndarray]
BATCH = 8192  # words in one batch of a torch module


class Classifier(Protocol):
    """Anything that says of each word whether it accepts the word."""

    def accepts_batch(self, words: list[str], /) -> Any: ...


class Memory:
    """A classifier with a cache of its answers. `queries` counts the different words."""

    def __init__(self, ask: Ask) -> None:
        self.known: dict[str, bool] = {}
        self._ask = ask

    @property
    def queries(self) -> int:
        """The number of different words queried."""
        return len(self.known)

    def __call__(self, words: Sequence[str]) -> np.ndarray:
        new = [word for word in dict.fromkeys(words) if word not in self.known]
        if new:
            self.known.update(zip(new, self._ask(new).tolist()))
        return np.array([self.known[word] for word in words], dtype=bool)


def asker(model: Any, alphabet: tuple[str, ...]) -> Ask:
    """The function that asks a model about words."""
    if hasattr(model, "accepts_batch"):
        return lambda words: _answers(model.accepts_batch(words), words)
    if hasattr(model, "forward") and hasattr(model, "parameters"):
        return lambda words: _ask_module(model, words, alphabet)
    if callable(model):
        return lambda words: _answers(model(words), words)
    raise InputError(f"extract: cannot ask {a_type(model)}; give a torch module, a function of words, or accepts_batch")


def _answers(given: Any, words: list[str]) -> np.ndarray:
    """One answer per word, as Booleans. Reject NaN."""
    answers = np.asarray(given)
    if answers.shape != (len(words),):
        found = f"{len(answers)} answers" if answers.ndim == 1 else f"an answer of shape {answers.shape}"
        raise InputError(f"extract: {found} for {len(words)} words; give one answer per word")
    if answers.dtype.kind == "f" and np.isnan(answers).any():
        raise InputError(f"extract: the answer for {words[int(np.isnan(answers).argmax())]!r} is not a number (NaN)")
    return answers.astype(bool)


def _ask_module(model: Any, words: list[str], alphabet: tuple[str, ...]) -> np.ndarray:
    """Ask a torch module, words of one length together."""
    import torch

    codes, offsets = encode_batch(words, alphabet)
    lengths = np.diff(offsets)
    answers = np.empty(len(words), dtype=bool)
    was_training = model.training
    model.eval()
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    try:
        with torch.no_grad():
            for size in np.unique(lengths):
                same = np.flatnonzero(lengths == size)
                for begin in range(0, len(same), BATCH):
                    rows = same[begin : begin + BATCH]
                    block = codes[offsets[rows][:, None] + np.arange(size)].astype(np.int64)  # (batch, time)
                    y = _answer(model, torch.from_numpy(block).to(device))
                    answers[rows] = _decisions(y, [words[i] for i in rows])
    finally:
        model.train(was_training)
    return answers


def _decisions(y: Any, words: list[str]) -> np.ndarray:
    """One logit per word (positive: accept), or two (the larger)."""
    import torch

    count = y.numel() if isinstance(y, torch.Tensor) else 0
    if count not in (len(words), 2 * len(words)):
        raise InputError(
            f"extract: the module gives {count} numbers for {len(words)} words; it must give one logit per word, or two"
        )
    y = y.reshape(len(words), -1)
    if y.isnan().any():
        word = words[int(y.isnan().any(dim=1).int().argmax())]
        raise InputError(f"extract: the module's answer for {word!r} is not a number (NaN)")
    return np.asarray((y[:, 0] > 0 if y.shape[1] == 1 else y[:, 1] > y[:, 0]).cpu().numpy())


def _answer(model: Any, block: Any) -> Any:
    try:
        return model(block)
    except RuntimeError as error:
        if block.shape[1]:
            raise
        raise InputError(
            f"extract: the module cannot read the empty word ({str(error).splitlines()[0]}); let it put a start "
            "symbol before each word"
        ) from None
