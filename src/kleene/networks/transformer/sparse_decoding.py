"""The sparse evaluator of a decoder on a CPU: many inputs, each token computed once.

A decoder looks back only, so what a layer computed at a position stays when tokens are appended. The states of all
layers are kept, and every new token runs through the layers at its own position alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import njit

from kleene.common.output import Output
from kleene.networks.transformer.model import Transformer
from kleene.networks.transformer.sparse_kernels import code, half, place_of, read_output, reading
from kleene.networks.transformer.sparse_weights import (
    ALL,
    BY_OFFSET,
    BY_WORD,
    LATEST,
    MANY_OFFSETS,
    Array,
    NotSparse,
)

FINE, TOO_LONG, NOT_ONE_HOT = 0, 1, 2


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
        given, starts, lengths, flat.token_embedding, places, reading(net, flat.kind), limits, made, counts, status,
        *flat.blocks[0],
    )  # fmt: skip
    for tokens, row, count, how in zip(inputs, made.tolist(), counts.tolist(), status.tolist()):
        if how == NOT_ONE_HOT:
            raise NotSparse("a state that is not one-hot")
        if how == TOO_LONG:
            net.check_input([*tokens, *row[:count]])  # says so
    return [Output(row[:count], layers=count * layers) for row, count in zip(made.tolist(), counts.tolist())]


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
            found = read_output(states[limits.layers, n - 1], reading)
            made[s, count] = found
            count += 1
            counts[s] = count
            if n < room:
                states[0, n] = tokens[found]
                if n < len(places):
                    states[0, n] += places[n]
            begin, n = n, n + 1


# --- attention ---


class Scratch(NamedTuple):
    """Memory for one head: by position but for `first`."""

    keys: Array  # (head, position): a head's own
    queries: Array
    following: Array  # the next position with the same key, or −1
    first: Array  # key value → the first position that has it, or −1
    counts: Array  # how many positions are selected


# Numba counts references to the arrays that it passes to a function. So the functions called for every position or
# every unit are few and take few arrays.


@njit(cache=True, nogil=True)
def attend(x, y, begin, since, n, heads, scratch):  # type: ignore[no-untyped-def]
    """Add every head's output at positions since … n − 1 of one sequence to `y`; false where a state is not one-hot.

    Heads read the states `x` of all positions; `scratch.keys` has the keys before `since` already. `y` may be `x`
    itself: no head reads what a head writes."""
    for h in range(len(heads.mode)):
        mode = heads.mode[h]
        if mode == BY_OFFSET:
            _attend_by_offset(x, y, begin, since, n, heads, h, scratch.counts)
        elif not (
            _read_codes(x, begin, since, n, heads.key[h], mode, scratch.keys[h])
            and _read_codes(x, begin, since, n, heads.query[h], mode, scratch.queries)
        ):
            return False
        elif heads.order[h] >= LATEST:
            _attend_by_order(x, y, begin, since, n, heads, h, scratch)
        elif mode == BY_WORD:
            _attend_by_word(x, y, begin, since, n, heads, h, scratch)
        else:
            _attend_by_key(x, y, begin, since, n, heads, h, scratch)
        _average(y, begin, since, n, heads, h, scratch.counts)
    return True


@njit(cache=True, nogil=True)
def _read_codes(x, begin, since, n, segment, mode, codes):  # type: ignore[no-untyped-def]
    """Write the value that a segment holds at positions since … n − 1 into `codes`; false where it holds none."""
    start, size = segment
    for i in range(since, n):
        codes[i] = code(x, begin + i, start, size, mode)
        if codes[i] < 0:
            return False
    return True


@njit(cache=True, nogil=True)
def _attend_by_offset(x, y, begin, since, n, heads, h, counts):  # type: ignore[no-untyped-def]
    """A head that selects by offset alone; a head with a single offset is a shift."""
    a, b, sources, targets, weights = (
        heads.copy_ptr[h],
        heads.copy_ptr[h + 1],
        heads.sources,
        heads.targets,
        heads.weights,
    )
    offset, allowed, causal = heads.offset[h], heads.allowed[h], heads.causal
    order, ranks = heads.order[h], heads.ranks[h]
    reach = len(allowed) // 2
    for i in range(since, n):
        count = 0
        if offset != MANY_OFFSETS:
            j = i + offset
            if 0 <= j < n and not (causal and j > i):
                count = _copy(x, y, begin + i, begin + j, a, b, sources, targets, weights, count)
        else:
            best = -1
            for j in range(i + 1 if causal else n):
                if allowed[place_of(j - i, reach)]:
                    if order == ALL:
                        count = _copy(x, y, begin + i, begin + j, a, b, sources, targets, weights, count)
                    elif best < 0 or ranks[place_of(j - i, reach)] > ranks[place_of(best - i, reach)]:
                        best = j
            if best >= 0:
                count = _copy(x, y, begin + i, begin + best, a, b, sources, targets, weights, count)
        counts[i] = count


@njit(cache=True, nogil=True)
def _attend_by_key(x, y, begin, since, n, heads, h, scratch):  # type: ignore[no-untyped-def]
    """A head that selects one-hot keys: it follows the chain of each key value that the query matches."""
    a, b, sources, targets, weights = (
        heads.copy_ptr[h],
        heads.copy_ptr[h + 1],
        heads.sources,
        heads.targets,
        heads.weights,
    )
    base, match_ptr, matches = heads.match_base[h], heads.match_ptr, heads.matches
    allowed, causal = heads.allowed[h], heads.causal
    reach = len(allowed) // 2
    every, queries, following, first, counts = scratch
    keys = every[h]
    first[: heads.key[h, 1]] = -1
    for j in range(n - 1, -1, -1):  # chain the positions of each key value
        following[j] = first[keys[j]]
        first[keys[j]] = j
    order, ranks = heads.order[h], heads.ranks[h]
    for i in range(since, n):
        count, best = 0, -1
        for m in range(match_ptr[base + queries[i]], match_ptr[base + queries[i] + 1]):
            j = first[matches[m]]
            while j >= 0:
                if not (causal and j > i) and allowed[place_of(j - i, reach)]:
                    if order == ALL:
                        count = _copy(x, y, begin + i, begin + j, a, b, sources, targets, weights, count)
                    elif best < 0 or ranks[place_of(j - i, reach)] > ranks[place_of(best - i, reach)]:
                        best = j
                j = following[j]
        if best >= 0:
            count = _copy(x, y, begin + i, begin + best, a, b, sources, targets, weights, count)
        counts[i] = count


@njit(cache=True, nogil=True)
def _attend_by_order(x, y, begin, since, n, heads, h, scratch):  # type: ignore[no-untyped-def]
    """A head that selects the latest or the earliest of the keys that match, at any offset."""
    a, b, sources, targets, weights = (
        heads.copy_ptr[h],
        heads.copy_ptr[h + 1],
        heads.sources,
        heads.targets,
        heads.weights,
    )
    base, match_ptr, matches = heads.match_base[h], heads.match_ptr, heads.matches
    causal, latest = heads.causal, heads.order[h] == LATEST
    keys, queries, counts = scratch.keys[h], scratch.queries, scratch.counts
    chosen = scratch.first  # key value → the position that the head selects, or −1
    chosen[: heads.key[h, 1]] = -1
    if not causal:
        for j in range(n):
            if latest or chosen[keys[j]] < 0:
                chosen[keys[j]] = j
    for i in range(n):
        if causal and (latest or chosen[keys[i]] < 0):
            chosen[keys[i]] = i
        if i < since:
            continue
        best = -1
        for m in range(match_ptr[base + queries[i]], match_ptr[base + queries[i] + 1]):
            j = chosen[matches[m]]
            if j >= 0 and (best < 0 or (j > best) == latest):
                best = j
        counts[i] = 0
        if best >= 0:
            counts[i] = _copy(x, y, begin + i, begin + best, a, b, sources, targets, weights, 0)


@njit(cache=True, nogil=True)
def _attend_by_word(x, y, begin, since, n, heads, h, scratch):  # type: ignore[no-untyped-def]
    """A head that selects the keys equal to the query's word."""
    a, b, sources, targets, weights = (
        heads.copy_ptr[h],
        heads.copy_ptr[h + 1],
        heads.sources,
        heads.targets,
        heads.weights,
    )
    allowed, causal = heads.allowed[h], heads.causal
    reach = len(allowed) // 2
    keys, queries, counts = scratch.keys[h], scratch.queries, scratch.counts
    order, ranks = heads.order[h], heads.ranks[h]
    for i in range(since, n):
        count, best = 0, -1
        for j in range(i + 1 if causal else n):
            if keys[j] == queries[i] and allowed[place_of(j - i, reach)]:
                if order == ALL:
                    count = _copy(x, y, begin + i, begin + j, a, b, sources, targets, weights, count)
                elif best < 0 or ranks[place_of(j - i, reach)] > ranks[place_of(best - i, reach)]:
                    best = j
        if best >= 0:
            count = _copy(x, y, begin + i, begin + best, a, b, sources, targets, weights, count)
        counts[i] = count


@njit(cache=True, nogil=True)
def _copy(x, y, to, source, a, b, sources, targets, weights, count):  # type: ignore[no-untyped-def]
    """Add a selected row to the row that selects it; the number of rows added so far."""
    for k in range(a, b):
        value = x[source, sources[k]]
        if value != 0:
            y[to, targets[k]] += value * weights[k]
    return count + 1


@njit(cache=True, nogil=True)
def _average(y, begin, since, n, heads, h, counts):  # type: ignore[no-untyped-def]
    """Divide each sum of selected rows by their number; add the null value where there are none."""
    a, b, targets = heads.copy_ptr[h], heads.copy_ptr[h + 1], heads.targets
    c, d, null_targets, null_weights = heads.null_ptr[h], heads.null_ptr[h + 1], heads.null_targets, heads.null_weights
    for i in range(since, n):
        if heads.tied[h]:
            for k in range(c, d):  # nothing else is averaged
                y[begin + i, null_targets[k]] += null_weights[k] / (counts[i] + 1)
        elif counts[i] == 0:
            for k in range(c, d):
                y[begin + i, null_targets[k]] += null_weights[k]
        elif counts[i] > 1:
            for k in range(a, b):  # the sum of whole numbers, divided once
                if k == a or targets[k] != targets[k - 1]:
                    y[begin + i, targets[k]] /= counts[i]
