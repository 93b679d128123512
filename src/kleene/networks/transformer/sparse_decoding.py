"""The sparse evaluator of a decoder on a CPU: many inputs, each token computed once.

A decoder looks back only, so what a layer computed at a position stays when tokens are appended. The states of all
layers are kept, and every new token runs through the layers at its own position alone (sparse.py has the kernels).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from kleene.common.output import Output
from kleene.networks.transformer.model import Transformer
from kleene.networks.transformer.sparse import Array, NotSparse, Scratch, attend, half

FINE, TOO_LONG, NOT_ONE_HOT = 0, 1, 2


class Reading(NamedTuple):
    """How the output is read: the unembedding without its zeros."""

    pointers: Array  # class → its first entry
    dims: Array
    weights: Array
    bits: bool  # a word, of which a class is a bit


class Limits(NamedTuple):
    """When decoding ends."""

    layers: int
    tokens: int
    stop: int  # −1: no token
    longest: int


def decode_sparse(net: Transformer, inputs: Sequence[Sequence[int]], layers: int) -> list[Output]:
    """Append each input's last output until `stop` or `max_tokens`; return the appended tokens."""
    flat, config = net.sparse_copy(), net.config
    if len(flat.blocks) != 1 or not config.causal:
        raise NotSparse("a decoder of several blocks, or one that looks ahead")
    lengths = np.array([len(tokens) for tokens in inputs])
    most, longest = config.max_tokens or 1, net.longest
    limits = Limits(layers, most, -1 if config.stop is None else config.stop, longest or 1 << 40)
    places = flat.position_embedding
    if places is None:
        places = np.zeros((0, config.dim), dtype=flat.kind)
    made = np.zeros((len(inputs), most), dtype=np.int64)
    counts, status = np.zeros(len(inputs), dtype=np.int64), np.zeros(len(inputs), dtype=np.int64)
    given = np.concatenate([np.asarray(tokens, dtype=np.int64) for tokens in inputs])
    starts = np.cumsum(lengths) - lengths
    _decode(
        given, starts, lengths, flat.token_embedding, places, _reading(net, flat.kind), limits, made, counts, status,
        *flat.blocks[0],
    )  # fmt: skip
    for tokens, row, count, how in zip(inputs, made.tolist(), counts.tolist(), status.tolist()):
        if how == NOT_ONE_HOT:
            raise NotSparse("a state that is not one-hot")
        if how == TOO_LONG:
            net.check_input([*tokens, *row[:count]])  # says so
    return [Output(row[:count], layers=count * layers) for row, count in zip(made.tolist(), counts.tolist())]


def _reading(net: Transformer, kind: Any) -> Reading:
    weights = net.unembedding.detach().cpu().numpy().astype(kind)
    classes, dims = np.nonzero(weights)
    pointers = np.searchsorted(classes, np.arange(len(weights) + 1))
    return Reading(pointers, dims, weights[classes, dims], net.config.output_coding == "bits")


@njit(cache=True, nogil=True, inline="always")
def _read(row, reading):  # type: ignore[no-untyped-def]
    """The output at one position, as a whole number."""
    best, largest, word = 0, -np.inf, 0
    for k in range(len(reading.pointers) - 1):
        total = 0.0
        for e in range(reading.pointers[k], reading.pointers[k + 1]):
            total += reading.weights[e] * row[reading.dims[e]]
        if total > largest:
            best, largest = k, total
        if reading.bits and total > 0.5:
            word |= 1 << k
    return word if reading.bits else best


@njit(cache=True, nogil=True)
def _decode(given, starts, lengths, tokens, places, reading, limits, made, counts, status, heads, first, second):  # type: ignore[no-untyped-def]
    """Decode each input by itself. `states[l]` are the states before layer l; only new positions are computed."""
    width, dim = max(len(first.bias), len(second.bias)) + 1, tokens.shape[1]
    sums, changes = np.zeros(width, dtype=tokens.dtype), np.zeros(dim, dtype=tokens.dtype)
    mark, touched = np.zeros(width, dtype=np.bool_), np.zeros(width, dtype=np.int64)
    dims = np.zeros(max(len(first.targets), len(second.targets)) + 1, dtype=np.int64)
    room = min(np.max(lengths) + limits.tokens, max(limits.longest, np.max(lengths)) + 1)
    keys = np.zeros((limits.layers, len(heads.mode), room), dtype=np.int64)  # of every layer, kept like its states
    queries, chosen = np.zeros(room, dtype=np.int64), np.zeros(dim + 1, dtype=np.int64)
    following, selected = np.zeros(room, dtype=np.int64), np.zeros(room, dtype=np.int64)
    states = np.zeros((limits.layers + 1, room, dim), dtype=tokens.dtype)
    for s in range(len(starts)):
        begin, n, count = 0, lengths[s], 0
        for i in range(n):
            states[0, i] = tokens[given[starts[s] + i]]
            if len(places) > 0:
                states[0, i] += places[i]
        while count < limits.tokens and (count == 0 or made[s, count - 1] != limits.stop):
            if n > limits.longest:
                status[s] = TOO_LONG
                break
            for layer in range(limits.layers):
                before, after = states[layer], states[layer + 1]
                after[begin:n] = before[begin:n]
                scratch = Scratch(keys[layer], queries, following, chosen, selected)
                if not attend(before, after, 0, begin, n, heads, scratch):
                    status[s] = NOT_ONE_HOT
                    return
                for row in range(begin, n):
                    if len(first.bias) > 0:
                        half(after, row, first, sums, mark, touched, changes, dims)
                    half(after, row, second, sums, mark, touched, changes, dims)
            found = _read(states[limits.layers, n - 1], reading)
            made[s, count] = found
            count += 1
            counts[s] = count
            if n < room:
                states[0, n] = tokens[found]
                if n < len(places):
                    states[0, n] += places[n]
            begin, n = n, n + 1
