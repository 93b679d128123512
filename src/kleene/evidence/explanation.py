"""`kl.explain` for language models: which words interact, and which words cause the prediction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from kleene.errors import InputError
from kleene.evidence.decomposition import decompose
from kleene.evidence.interdependence import interdependence
from kleene.networks.trained.lstm import LanguageModel

SHOWN = 5


@dataclass(frozen=True)
class Explanation:
    """The evidence for one sentence: printed as a table and a heat map, or drawn as PNG.

    `contributions` are the relevant logits of each word alone for the predicted word; the rest of its
    logit is the decoder's bias and the words' interactions.
    """

    words: list[str]
    unknown: list[str]
    interdependence: Tensor  # (words, words)
    target: str
    probability: float
    likeliest: list[tuple[str, float]]
    contributions: list[float]
    bias: float
    interactions: float

    def __str__(self) -> str:
        from kleene.show.heatmap import terminal

        return terminal(self)

    def to_png(self, path: str | Path) -> None:
        """Draw the heat map and the contributions."""
        from kleene.show.heatmap import png

        png(self, Path(path))

    def to_html(self, path: str | Path | None = None) -> str:
        """Return the heat map as a self-contained HTML page; also write it to `path` if given."""
        from kleene.show.page.heat import explanation_page

        return explanation_page(self).write(path)

    def _repr_html_(self) -> str:
        from kleene.show.page.heat import explanation_page

        return explanation_page(self).framed()

    def to_dict(self) -> dict[str, Any]:
        """The explanation as plain data."""
        return {
            **{name: getattr(self, name) for name in self.__dataclass_fields__},
            "interdependence": self.interdependence.tolist(),
        }


def explain_language_model(
    model: LanguageModel,
    sentence: str | Sequence[str] | Sequence[int] | Tensor,
    *,
    target: str | None = None,
    bias_rule: Literal["focus", "murdoch"] = "focus",
    read: Literal["right", "end"] = "right",
) -> Explanation:
    """Interdependence of all pairs, and each word's contribution to the next (the likeliest, or `target`).

    A sentence may also be token numbers; without a vocabulary these stand for the words.

    >>> from kleene.networks.trained.lstm import Vocabulary
    >>> words = Vocabulary(["<unk>", "a", "cat", "sat"])
    >>> found = explain_language_model(LanguageModel(4, 5, 6, vocabulary=words), "a cat barked", target="sat")
    >>> found.unknown, len(found.contributions), found.interdependence.shape
    (['barked'], 3, torch.Size([3, 3]))
    """
    tokens = model.encode(sentence)
    names = [str(token) for token in range(model.sizes["tokens"])]
    if model.vocabulary is not None:
        names = model.vocabulary.words
    given = sentence.split() if isinstance(sentence, str) else list(sentence)
    words = [word if isinstance(word, str) else names[int(word)] for word in given]
    index = {name: token for token, name in enumerate(names)}
    if target is not None and target not in index:
        raise InputError(f"target {target!r}: not among the {len(index)} words that the model can predict")
    vectors = model.vectors(tokens)
    parts = decompose(model.lstm, model.decoder, vectors, [[word] for word in range(len(words))], bias_rule=bias_rule)
    logits = parts.logits[-1]
    chances = logits.softmax(-1)
    chosen = int(chances.argmax()) if target is None else index[target]
    row = model.decoder.weight[chosen].detach().to(logits.dtype)
    shares = (parts.relevant_hidden[:, -1] @ row).tolist()
    bias = float(model.decoder.bias[chosen].detach())
    top = chances.topk(min(SHOWN, len(index)))
    return Explanation(
        words,
        [word for word in words if word not in index],
        interdependence(model.lstm, model.decoder, [vectors], read=read, bias_rule=bias_rule)[0],
        names[chosen],
        float(chances[chosen]),
        [(names[int(w)], float(p)) for p, w in zip(*top)],
        shares,
        bias,
        float(logits[chosen]) - bias - sum(shares),
    )
