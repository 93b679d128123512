"""The page of interdependence: a heat map of pairs of words, and the contribution of each word to the prediction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from kleene.errors import InputError
from kleene.show.page import Page

if TYPE_CHECKING:
    from kleene.evidence.explanation import Explanation
    from kleene.evidence.interdependence import Interdependence

IN_A_NOTEBOOK = 100  # sentences
DECOMPOSITION = "contextual decomposition, in float64"


def explanation_page(found: Explanation) -> Page:
    """Build the page of one explained sentence."""
    text = " ".join(found.words)
    shares = [*zip(found.words, found.contributions), ("bias", found.bias), ("interactions", found.interactions)]
    data = {
        "title": "interdependence",
        "text": text,
        "evaluator": DECOMPOSITION,
        "sentences": [_sentence(found.words, found.interdependence)],
        "unknown": found.unknown,
        "target": found.target,
        "probability": found.probability,
        "likeliest": found.likeliest,
        "contributions": [[word, round(share, 5)] for word, share in shares],
    }
    return Page("heat", f"interdependence: {text}", data)


def interdependence_page(
    found: Interdependence, words: Sequence[Sequence[str]] | None, most: int | None = None
) -> Page:
    """Build the page of the first sentences. Without `words`, positions stand for words."""
    named = [[str(place) for place in range(len(matrix))] for matrix in found.matrices]
    if words is not None:
        named = [list(sentence) for sentence in words]
        if [len(sentence) for sentence in named] != [len(matrix) for matrix in found.matrices]:
            raise InputError("to_html: words= must have the words of every sentence, as many as were measured")
    sentences = [_sentence(sentence, matrix) for sentence, matrix in zip(named[:most], found.matrices)]
    count = f"{len(found)} sentence{'' if len(found) == 1 else 's'}"
    title = f"interdependence of {count if len(sentences) == len(found) else f'the first {most} of {count}'}"
    precision = "float64" if found.noise is None else f"float32, at most {found.noise:.1e} off where compared"
    data = {"title": title, "text": None, "evaluator": f"contextual decomposition, in {precision}"}
    return Page("heat", title, {**data, "sentences": sentences, "unknown": [], "contributions": []})


def _sentence(words: Sequence[str], matrix: Tensor) -> dict[str, Any]:
    return {"words": list(words), "matrix": [[round(value, 5) for value in row] for row in matrix.double().tolist()]}
