"""How fast interdependence is: one run, one thread, against the textbook form beside it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.measure import PUBLIC_CODE, cpu_seconds
from kleene.evidence.decomposition import layers_of, two_streams
from kleene.evidence.interdependence import interdependence, ratio

WORDS, HIDDEN, TOKENS = 30, 650, 10_000


def oracle(lstm: nn.LSTM, decoder: nn.Linear, vectors: Tensor, dtype: torch.dtype) -> Tensor:
    """All pairs at the end by the batched two-stream form: every focus a row, logits written out."""
    length = len(vectors)
    left, right = torch.triu_indices(length, length, 1)
    singles = torch.eye(length, dtype=torch.bool)
    masks = torch.cat([singles, singles[left] | singles[right]])
    with torch.no_grad():
        hidden = two_streams(layers_of(lstm, dtype), vectors.to(dtype), masks)[0][:, -1]
        logits = hidden @ decoder.weight.to(dtype).T
        return ratio(logits[length:], logits[left] + logits[right], None)


def rows() -> list[dict[str, Any]]:
    """The measurements, with the bounds that they must keep."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [*_sentence_rows(), *_treebank_rows()]
    finally:
        torch.set_num_threads(threads)


def _sentence_rows() -> list[dict[str, Any]]:
    torch.manual_seed(0)
    lstm, decoder, x = nn.LSTM(HIDDEN, HIDDEN), nn.Linear(HIDDEN, TOKENS), torch.randn(WORDS, HIDDEN)
    pairs = WORDS * (WORDS - 1) // 2
    what = f"{WORDS} words, hidden {HIDDEN}, vocabulary {TOKENS:,}: {WORDS} singles and {pairs} pairs"
    left, right = torch.triu_indices(WORDS, WORDS, 1)
    exact = oracle(lstm, decoder, x, torch.float64)
    found = []
    for dtype, name, bound in ((torch.float32, "float32", 0.6), (torch.float64, "float64", None)):

        def fast(dtype: torch.dtype = dtype) -> Tensor:
            return interdependence(lstm, decoder, [x], read="end", dtype=dtype, noise=False)[0]

        def slow(dtype: torch.dtype = dtype) -> Tensor:
            return oracle(lstm, decoder, x, dtype)

        error = float((fast()[left, right] - exact).abs().max())
        quick, plain = cpu_seconds(fast, repeat=3, warm=True), cpu_seconds(slow, warm=True)
        row: dict[str, Any] = {
            "name": f"interdependence, {what}, read at the end, {name}",
            "others": f"19 to 228 CPU s {PUBLIC_CODE}",
            "ours": round(quick, 3),
            "unit": "CPU s",
            "note": f"largest difference from the two-stream form in float64 {error:.1e}",
        }
        found.append(row | ({} if bound is None else {"at_most": bound}))
        found.append(
            {
                "name": f"the same against the batched two-stream form, {name}",
                "others": None,
                "ours": round(plain / quick, 1),
                "unit": "times faster",
                "at_least": 4.0,
                "note": f"which takes {plain:.2f} CPU s",
            }
        )
    return found


def _treebank_rows() -> list[dict[str, Any]]:
    """All pairs of English-EWT's test set where the data is there: two cores, five minutes."""
    name = "all 255,807 pairs of English-EWT's test set, hidden 200, read at the right word"
    path = Path(os.environ.get("KLEENE_DATA", "")) / "ud-english-ewt" / "en_ewt-ud-test.conllu"
    if not path.is_file():
        return [{"name": name, "others": None, "ours": None, "unit": "s", "note": "not run: set KLEENE_DATA"}]
    from kleene.evidence.treebank import read_treebank

    torch.set_num_threads(2)
    torch.manual_seed(0)
    lstm, decoder = nn.LSTM(200, 200), nn.Linear(200, 33_278)
    sentences = [torch.randn(len(sentence), 200) for sentence in read_treebank(path)]
    begun = time.perf_counter()
    found = interdependence(lstm, decoder, sentences)
    spent = time.perf_counter() - begun
    pairs = sum(len(matrix) * (len(matrix) - 1) // 2 for matrix in found.matrices)
    return [
        {
            "name": name,
            "others": None,
            "ours": round(spent, 1),
            "unit": "s",
            "at_most": 300.0,
            "note": f"{pairs:,} pairs, float64, two threads",
        }
    ]
