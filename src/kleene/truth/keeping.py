"""Faithfulness and completeness: how an answer changes if only some parts are kept, or some are removed.

Keep the parts with the largest scores, and redraw (symbols) or interchange (nodes, edges) all others: the
share of answers that stay is the faithfulness. Redraw or interchange these parts, and keep all others:
the share of answers that are lost is the completeness. Both count beside what is lost where everything is changed: 0 is
what keeping nothing gives, 1 what changing nothing gives (for completeness: changing everything). Each is a mean over
several sizes of the kept part. None where nothing is lost even then.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from kleene.evidence.circuit_graph import CircuitGraph
from kleene.evidence.readings import Array, Reading

SHARES = (0.05, 0.1, 0.2, 0.3, 0.5)  # of nodes and edges
DRAWS = 16  # of symbols

Measured = dict[str, float | None]
NOTHING_KEPT: Measured = {"faithfulness": None, "completeness": None}


def _largest(scores: Array, count: int) -> Array:
    """Whether each part is among the largest; among equals a fixed random order decides."""
    sizes = np.abs(np.nan_to_num(scores))
    order = np.lexsort([np.random.default_rng(0).permutation(len(sizes)), -sizes])
    found = np.zeros(len(sizes), dtype=bool)
    found[order[:count]] = True
    return found


def _both(stays: Callable[[Array], float], choices: list[Array]) -> Measured:
    """Measure choices of kept parts; `stays` gives the share of answers that stay if a mask of parts is changed."""
    lost = 1 - stays(np.ones_like(choices[0]))
    if lost <= 0:
        return NOTHING_KEPT
    kept = [1 - (1 - stays(~choice)) / lost for choice in choices]
    gone = [(1 - stays(choice)) / lost for choice in choices]
    return {"faithfulness": float(np.mean(kept)), "completeness": float(np.mean(gone))}


def keep_nodes(graph: CircuitGraph, scores: Array) -> Measured:
    """Measure scores of nodes, by interchanging the nodes that are not kept."""
    answer = graph.clean.logits.argmax(-1)

    @torch.no_grad()
    def stays(changed: Array) -> float:
        logits = graph.with_nodes(torch.from_numpy(changed))
        return float((logits.argmax(-1) == answer).double().mean())

    return _both(stays, [_largest(scores, max(1, round(share * len(scores)))) for share in SHARES])


def keep_edges(graph: CircuitGraph, scores: Array) -> Measured:
    """Measure scores of edges, by interchanging the edges that are not kept."""
    answer = graph.clean.logits.argmax(-1)

    @torch.no_grad()
    def stays(changed: Array) -> float:
        logits = graph.with_edges(graph.edge_mask(changed))
        return float((logits.argmax(-1) == answer).double().mean())

    return _both(stays, [_largest(scores, max(1, round(share * len(scores)))) for share in SHARES])


def _symbols(reading: Reading, choices: list[Array]) -> Measured:
    """Measure each choice of kept symbols, by redrawing the others. All words run in one batch."""
    own, size = np.array(reading.codes), len(reading)
    drawn = np.random.default_rng(0).integers(reading.symbols, size=(DRAWS, size))
    masks = [np.ones(size, dtype=bool), *(~choice for choice in choices), *choices]
    words = np.concatenate([np.where(mask, drawn, own) for mask in masks] + [own[None]])
    answers = reading.outputs_of(words) > 0
    shares = (answers[:-1] == answers[-1]).reshape(len(masks), DRAWS).mean(1)
    known = {mask.tobytes(): float(share) for mask, share in zip(masks, shares)}
    return _both(lambda changed: known[changed.tobytes()], choices)


def keep_symbols(reading: Reading, scores: Array) -> Measured:
    """Measure scores of symbols: keep the one with the largest score, the two, and so on, all but one at most."""
    return _symbols(reading, [_largest(scores, count) for count in range(1, len(reading))])


def keep_pairs(reading: Reading, scores: Array) -> Measured:
    """Measure scores of pairs: keep the symbols of the largest pairs, in the order in which they appear."""
    size = len(reading)
    rows, columns = np.triu_indices(size, 1)
    order = np.argsort(-np.abs(np.nan_to_num(scores[rows, columns])), kind="stable")
    seen = list(dict.fromkeys(int(place) for pair in order for place in (rows[pair], columns[pair])))
    choices = []
    for count in range(2, size):
        choices.append(np.isin(np.arange(size), seen[:count]))
    return _symbols(reading, choices)
