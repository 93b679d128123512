"""The sparse evaluator of a transformer on a CPU: it skips the zeros of weights and activations.

It runs a relative head as a shift and any other head as an exact lookup. A head whose match, null and mismatch
scores are at least 745 apart is a hard selection, because exp underflows. Weights of another shape raise
`NotSparse`, and the dense evaluator runs them. A sparse-matrix library would not do: almost every activation is
zero as well, and these kernels only work on those that are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numba import njit

from kleene.common.output import Output
from kleene.errors import DidNotHalt
from kleene.networks.transformer.model import UNDERFLOW, Block, Transformer

Array = np.ndarray[Any, Any]
MOST_VALUES = 20_000_000  # of the residual streams that run together
BY_OFFSET, BY_KEY, BY_WORD = 0, 1, 2  # how a head selects: by offset alone, by a one-hot key, by the bits of a word
ALL, RANKED, LATEST, EARLIEST = 0, 1, 2, 3  # what a head selects of several positions that match
MANY_OFFSETS = 1 << 40  # in place of the offset of a head that selects several


class NotSparse(Exception):
    """The sparse evaluator cannot run these weights."""


class SparseTransformer:
    """The weights of a transformer as the arrays that the kernels read."""

    def __init__(self, net: Transformer) -> None:
        if net.dtype not in (torch.float32, torch.float64):
            raise NotSparse(f"{net.dtype} runs dense")
        self.net, self.config = net, net.config
        self.kind = np.float32 if net.dtype == torch.float32 else np.float64
        self.token_embedding = self._numpy(net.token_embedding)
        self.position_embedding = None if net.config.positions is None else self._numpy(net.position_embedding)
        self.halt_weight, self.halt_bias = self._numpy(net.halt_weight), self._numpy(net.halt_bias)
        self.blocks = [self._block(block) for block in net.blocks if isinstance(block, Block)]

    def _numpy(self, tensor: torch.Tensor) -> Array:
        return np.ascontiguousarray(tensor.detach().cpu().numpy().astype(self.kind))

    def _block(self, block: Block) -> FlatBlock:
        segments = [(segment.start, segment.stop) for segment in self.net.layout]
        return FlatBlock(
            _flat_heads(block, segments, self.net.longest, self.config.causal, self.kind),
            _flat_half(self._numpy(block.in1), self._numpy(block.bias1), self._numpy(block.out1)),
            _flat_half(self._numpy(block.in2), self._numpy(block.bias2), self._numpy(block.out2)),
        )

    def run_batch(self, inputs: Sequence[Sequence[int]], fixed: int | None, max_layers: int) -> list[Output]:
        """Run many inputs, a group of sequences at a time.

        inputs: token sequences of any lengths.
        fixed: how many layers to run; None runs each sequence until it halts.
        max_layers: raise `DidNotHalt` where a sequence needs more.
        """
        results: list[Output] = []
        group: list[Sequence[int]] = []
        size = 0
        for tokens in inputs:
            if group and (size + len(tokens)) * self.config.dim > MOST_VALUES:
                results += self._run(group, fixed, max_layers)
                group, size = [], 0
            group.append(tokens)
            size += len(tokens)
        return results + self._run(group, fixed, max_layers)

    def _run(self, inputs: list[Sequence[int]], fixed: int | None, max_layers: int) -> list[Output]:
        lengths = np.array([len(tokens) for tokens in inputs])
        ends = np.cumsum(lengths)
        starts = ends - lengths
        x = self._embed(inputs, lengths)  # (position of any sequence, dim)
        layers, left = self._run_layers(x, starts, lengths, max_layers if fixed is None else fixed, fixed is None)
        if fixed is None and left:
            raise DidNotHalt(f"{self.config.name}: did not halt within {max_layers:,} layers (max_layers)")
        values = self.net.read(torch.from_numpy(x).to(self.net.dtype)).tolist()
        return [Output(values[a:b], layers=int(k)) for a, b, k in zip(starts, ends, layers)]

    def _embed(self, inputs: list[Sequence[int]], lengths: Array) -> Array:
        x = self.token_embedding[np.concatenate([np.asarray(tokens) for tokens in inputs])]
        if self.position_embedding is not None:
            x = x + self.position_embedding[np.concatenate([np.arange(n) for n in lengths])]
        return np.ascontiguousarray(x)

    def _run_layers(self, x: Array, starts: Array, lengths: Array, limit: int, halts: bool) -> tuple[Array, int]:
        """Run at most `limit` layers; the layers of each sequence, and how many sequences have not halted."""
        layers = np.zeros(len(starts), dtype=np.int64)
        if len(self.blocks) == 1:
            return layers, len(self._run_block(x, starts, lengths, limit, halts, layers, self.blocks[0]))
        left = np.arange(len(starts))
        for layer in range(limit):  # several blocks: a layer at a time
            taken = np.zeros(len(left), dtype=np.int64)
            block = self.blocks[layer % len(self.blocks)]
            going = self._run_block(x, starts[left], lengths[left], 1, halts, taken, block)
            layers[left] += taken
            left = left[going] if halts else left
            if not len(left):
                break
        return layers, len(left)

    def _run_block(
        self, x: Array, starts: Array, lengths: Array, limit: int, halts: bool, layers: Array, block: FlatBlock
    ) -> Array:
        """Run one block up to `limit` times; the sequences that have not halted."""
        going = np.zeros(len(starts), dtype=np.bool_)
        one_hot = _run_sequences(
            x, starts, lengths, limit, halts, self.halt_weight, self.halt_bias[0], layers, going, *block
        )
        if not one_hot:
            raise NotSparse("a state that is not one-hot")
        return np.nonzero(going)[0]


# --- weights into arrays: in named tuples, which Numba unpacks once ---------------------------------------


class FlatHeads(NamedTuple):
    """All heads of a block. `_ptr` arrays say where the entries of a head (or of its query value) begin and end."""

    mode: Array  # BY_OFFSET, BY_KEY or BY_WORD
    query: Array  # (head, 2): the first dimension and the size of the segment that the query reads
    key: Array  # (head, 2): the same of the key
    offset: Array  # the single offset that a head selects, or MANY_OFFSETS
    allowed: Array  # (head, offset): whether the relative bias lets the head select it
    order: Array  # which of several positions a head selects: ALL, RANKED, LATEST or EARLIEST
    ranks: Array  # (head, offset): the position with the highest rank is selected
    tied: Array  # whether the null key scores like a match, so that it is averaged, too: a head that counts
    causal: bool
    match_base: Array  # head → its first place in match_ptr
    match_ptr: Array  # one entry a query value
    matches: Array  # the key values that a query value selects
    copy_ptr: Array
    sources: Array  # a head adds weight × source dimension of each selected row to the target dimension
    targets: Array
    weights: Array
    null_ptr: Array
    null_targets: Array  # what a head adds where it selects nothing
    null_weights: Array


class FlatHalf(NamedTuple):
    """One half of the MLP block without its zeros."""

    read_ptr: Array  # dimension → the units that read it
    units: Array
    read_weights: Array
    bias: Array
    write_ptr: Array  # unit → the dimensions that it writes
    targets: Array
    write_weights: Array
    always: Array  # the units that are on where they read zeros


class FlatBlock(NamedTuple):
    """One block: its heads, and the two halves of its MLP block."""

    heads: FlatHeads
    first: FlatHalf
    second: FlatHalf


def _flat_half(into: Array, bias: Array, out: Array) -> FlatHalf:
    dims, units = np.nonzero(into.T)
    read_ptr = np.searchsorted(dims, np.arange(into.shape[1] + 1))
    writers, targets = np.nonzero(out.T)
    write_ptr = np.searchsorted(writers, np.arange(out.shape[1] + 1))
    parts = (
        read_ptr,
        units,
        into[units, dims],
        bias,
        write_ptr,
        targets,
        out[targets, writers],
        np.nonzero(bias > 0)[0],
    )
    # arrays of one memory layout, so that Numba compiles the kernels once
    return FlatHalf(*(np.ascontiguousarray(part) for part in parts))


@dataclass(frozen=True)
class _Selection:
    """How one head selects.

    query, key: the first dimension and the size of the segments that they read.
    allowed: whether the head may select each offset −window − 1 … window + 1.
    matches: of each query value, the key values that match it; only of a head BY_KEY.
    relative: the scores of the offsets.
    tied: whether the null key scores like a match.
    """

    mode: int
    query: tuple[int, int]
    key: tuple[int, int]
    allowed: Array
    relative: Array
    matches: tuple[Array, ...] = ()
    tied: bool = False

    @property
    def offset(self) -> int:
        """The single offset that the head may select, or MANY_OFFSETS; the ends stand for many."""
        (places,) = np.nonzero(self.allowed)
        if len(places) != 1 or places[0] in (0, len(self.allowed) - 1):
            return MANY_OFFSETS
        return int(places[0]) - len(self.allowed) // 2

    def order(self, longest: int | None) -> int:
        """What it selects of several positions that match; `longest` is the length of the longest input."""
        scores = self.relative[self.allowed]
        if len(scores) <= 1 or (scores == scores[0]).all():
            return ALL
        if (np.diff(np.sort(scores)) < UNDERFLOW).any():
            raise NotSparse("a head that is not hard")
        if longest is None or longest > len(self.allowed) // 2:
            raise NotSparse("a head that prefers some of the positions, for inputs of any length")
        if not self.allowed.all() or self.mode != BY_KEY:
            return RANKED
        return LATEST if (np.diff(scores) > 0).all() else EARLIEST if (np.diff(scores) < 0).all() else RANKED

    @property
    def reads(self) -> set[int]:
        """The dimensions of the query's and the key's segment."""
        return {start + k for start, size in (self.query, self.key) for k in range(size)}


def _selections_and_copies(
    block: Block, segments: list[tuple[int, int]]
) -> tuple[list[_Selection], list[Array], list[Array]]:
    """How each head selects, what it copies, and what it adds where it selects nothing."""
    names = ("query", "query_bias", "key", "key_bias", "value", "out", "relative", "null_score", "null_value")
    tensors = {name: getattr(block, name).detach().cpu().double().numpy() for name in names}
    selections: list[_Selection] = []
    copies: list[Array] = []  # of each head: rows of source, target, weight, sorted by target
    nulls: list[Array] = []  # of each head: rows of target, weight
    for h in range(len(block.heads)):
        one = {name: tensor[h] for name, tensor in tensors.items()}
        selections.append(_selection(one, segments))
        through = one["out"] @ one["value"]
        targets, sources = np.nonzero(through)
        copies.append(np.stack([sources, targets, through[targets, sources]], axis=1))
        if selections[-1].tied and len(sources):
            raise NotSparse("a head that averages its null value with others")
        null = one["out"] @ one["null_value"]
        nulls.append(np.stack([np.nonzero(null)[0], null[np.nonzero(null)]], axis=1))
    return selections, copies, nulls


def _flat_heads(
    block: Block, segments: list[tuple[int, int]], longest: int | None, causal: bool, kind: Any
) -> FlatHeads:
    selections, copies, nulls = _selections_and_copies(block, segments)
    every, nothing = np.concatenate([np.zeros((0, 3)), *copies]), np.concatenate([np.zeros((0, 2)), *nulls])
    read = set().union(*(selection.reads for selection in selections)) | set(every[:, 0].astype(int).tolist())
    if read & set(every[:, 1].astype(int).tolist()):
        raise NotSparse("a head reads what a head writes")
    values = [len(selection.matches) for selection in selections]
    matches = [part for selection in selections for part in selection.matches]
    reach = len(selections[0].allowed) if selections else 1
    return FlatHeads(
        mode=np.array([selection.mode for selection in selections], dtype=np.int64),
        query=np.array([selection.query for selection in selections], dtype=np.int64).reshape(-1, 2),
        key=np.array([selection.key for selection in selections], dtype=np.int64).reshape(-1, 2),
        offset=np.array([selection.offset for selection in selections], dtype=np.int64),
        allowed=np.array([selection.allowed for selection in selections], dtype=np.bool_).reshape(
            len(selections), reach
        ),
        order=np.array([selection.order(longest) for selection in selections], dtype=np.int64),
        ranks=np.array([selection.relative for selection in selections], dtype=np.float64).reshape(
            len(selections), reach
        ),
        tied=np.array([selection.tied for selection in selections], dtype=np.bool_),
        causal=causal,
        match_base=_pointers(values),
        match_ptr=_pointers([len(part) for part in matches]),
        matches=np.concatenate([np.zeros(0, dtype=np.int64), *matches]),
        copy_ptr=_pointers([len(part) for part in copies]),
        sources=every[:, 0].astype(np.int64),
        targets=every[:, 1].astype(np.int64),
        weights=every[:, 2].astype(kind),
        null_ptr=_pointers([len(part) for part in nulls]),
        null_targets=nothing[:, 0].astype(np.int64),
        null_weights=nothing[:, 1].astype(kind),
    )


def _pointers(lengths: list[int]) -> Array:
    """Where each of several lists begins, one after the other, and where the last ends."""
    return np.cumsum([0, *lengths], dtype=np.int64)


def _selection(one: dict[str, Array], segments: list[tuple[int, int]]) -> _Selection:
    """Read from the weights of one head how it selects."""
    found = _hard_selection(one, segments)
    if found is not None:
        return found
    lower = {**one, "null_score": one["null_score"] - 1.01 * UNDERFLOW}  # the null key may score exactly like a match
    found = _hard_selection(lower, segments)
    if found is None or found.mode == BY_WORD or not _scores_tie(one, found):
        raise NotSparse("a head that is not hard")
    return replace(found, tied=True)


def _scores_tie(one: dict[str, Array], found: _Selection) -> bool:
    """Whether every match scores exactly like the null key."""
    offsets, null = one["relative"][found.allowed], float(one["null_score"])
    if found.mode == BY_OFFSET:
        return bool((offsets == null).all())
    start, size = found.query
    scores = one["query"][:, start : start + size].T
    return all(bool((scores[q][keys][:, None] + offsets == null).all()) for q, keys in enumerate(found.matches))


def _hard_selection(one: dict[str, Array], segments: list[tuple[int, int]]) -> _Selection | None:
    """Read how a head selects, where matches are above the null key and everything else below; None elsewhere."""
    try:
        return _read_selection(one, segments)
    except _NotHard:
        return None


class _NotHard(NotSparse):
    """A score that is neither far above the null key nor far below it."""


def _read_selection(one: dict[str, Array], segments: list[tuple[int, int]]) -> _Selection:
    null, relative = float(one["null_score"]), one["relative"]
    if not one["query"].any() or not one["key"].any():
        on, off = relative > null + UNDERFLOW, relative < null - UNDERFLOW
        if one["query_bias"].any() or not (on | off).all():
            raise _NotHard("a relative head that is not hard")
        return _Selection(BY_OFFSET, (0, 0), (0, 0), on, relative)
    (q0, q1), (k0, k1) = (_segment(one[name], segments) for name in ("query", "key"))
    if one["key_bias"].any() or one["query_bias"].any():
        return _word_selection(one, (q0, q1), (k0, k1), null)
    key = one["key"][:, k0:k1]
    if key.shape[0] < k1 - k0 or not (key[: k1 - k0] == np.eye(k1 - k0)).all() or key[k1 - k0 :].any():
        raise NotSparse("a key that is not one-hot")
    scores = one["query"][: k1 - k0, q0:q1].T  # (query value, key value)
    best = float(relative.max())
    match = scores + best > null + UNDERFLOW
    allowed = _allowed(relative, scores[match], null)
    if not (scores[~match] + best < null - UNDERFLOW).all():
        raise _NotHard("a head that is not hard")
    matches = tuple(np.nonzero(row)[0] for row in match)
    return _Selection(BY_KEY, (q0, q1 - q0), (k0, k1 - k0), allowed, relative, matches)


def _allowed(relative: Array, matched: Array, null: float) -> Array:
    """The offsets at which a match, whose score is one of `matched`, is selected; at the others none may be."""
    allowed: Array = relative + matched.min(initial=np.inf) > null + UNDERFLOW
    if matched.size and not (relative[~allowed] + matched.max() < null - UNDERFLOW).all():
        raise _NotHard("a head that is not hard")
    return allowed


def _segment(weights: Array, segments: list[tuple[int, int]]) -> tuple[int, int]:
    """Start and stop of the segment that a projection reads; a query that asks for nothing has a column of zeros."""
    dims = np.nonzero(weights.any(axis=0))[0]
    for start, stop in segments:
        if start <= dims[0] and dims[-1] < stop:
            return start, stop
    raise NotSparse("a head that reads several variables at once")


def _word_selection(one: dict[str, Array], query: tuple[int, int], key: tuple[int, int], null: float) -> _Selection:
    """Check that a head selects the keys whose bits equal the query's."""
    (q0, q1), (k0, k1) = query, key
    bits = q1 - q0
    scale = one["query"][0, q0] / 2
    fits = (
        k1 - k0 == bits
        and (one["query"][:bits, q0:q1] == np.eye(bits) * 2 * scale).all()
        and (one["key"][:bits, k0:k1] == np.eye(bits) * 2).all()
    )
    fits = fits and (one["query_bias"][:bits] == -scale).all() and (one["key_bias"][:bits] == -1).all()
    relative = one["relative"]
    if not fits or null - scale * (bits - 2) - relative.max() < UNDERFLOW:
        raise NotSparse("a word head that is not hard")
    return _Selection(BY_WORD, (q0, bits), (k0, bits), _allowed(relative, np.array([scale * bits]), null), relative)


class Scratch(NamedTuple):
    """Memory for one head: by position but for `first`."""

    keys: Array  # (head, position): a head's own
    queries: Array
    following: Array  # the next position with the same key, or −1
    first: Array  # key value → the first position that has it, or −1
    counts: Array  # how many positions are selected


# --- attention --------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _code(x: Array, row: int, start: int, size: int, mode: int) -> int:
    """The value that a segment holds: the place of its one, or its bits; −1 where it holds anything else."""
    found = -1
    if mode == BY_WORD:
        found = 0
        for k in range(size):
            if x[row, start + k] == 1:
                found |= 1 << k
            elif x[row, start + k] != 0:
                return -1
        return found
    for k in range(size):
        value = x[row, start + k]
        if value != 0:
            if value != 1 or found >= 0:
                return -1
            found = k
    return found


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
        codes[i] = _code(x, begin + i, start, size, mode)
        if codes[i] < 0:
            return False
    return True


@njit(cache=True, nogil=True, inline="always")
def _place(offset, reach):  # type: ignore[no-untyped-def]
    """The place of an offset in `allowed`; the ends stand for all offsets further away."""
    return min(max(offset, -reach), reach) + reach


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
                if allowed[_place(j - i, reach)]:
                    if order == ALL:
                        count = _copy(x, y, begin + i, begin + j, a, b, sources, targets, weights, count)
                    elif best < 0 or ranks[_place(j - i, reach)] > ranks[_place(best - i, reach)]:
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
                if not (causal and j > i) and allowed[_place(j - i, reach)]:
                    if order == ALL:
                        count = _copy(x, y, begin + i, begin + j, a, b, sources, targets, weights, count)
                    elif best < 0 or ranks[_place(j - i, reach)] > ranks[_place(best - i, reach)]:
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
            if keys[j] == queries[i] and allowed[_place(j - i, reach)]:
                if order == ALL:
                    count = _copy(x, y, begin + i, begin + j, a, b, sources, targets, weights, count)
                elif best < 0 or ranks[_place(j - i, reach)] > ranks[_place(best - i, reach)]:
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


# --- units, and whole layers ------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def half(x, row, flat, sums, mark, touched, changes, dims):  # type: ignore[no-untyped-def]
    """One half of the MLP block at one position: only the units that read something or are always on."""
    read_ptr, units, read_weights, bias, write_ptr, targets, write_weights, always = flat
    count = 0
    for dim in range(x.shape[1]):
        value = x[row, dim]
        if value != 0:
            for k in range(read_ptr[dim], read_ptr[dim + 1]):
                unit = units[k]
                if not mark[unit]:
                    mark[unit] = True
                    sums[unit] = 0
                    touched[count] = unit
                    count += 1
                sums[unit] += read_weights[k] * value
    for k in range(len(always)):
        unit = always[k]
        if not mark[unit]:
            mark[unit] = True
            sums[unit] = 0
            touched[count] = unit
            count += 1
    moved = 0
    for t in range(count):
        unit = touched[t]
        mark[unit] = False
        on = min(max(sums[unit] + bias[unit], 0), 1)
        if on != 0:
            for k in range(write_ptr[unit], write_ptr[unit + 1]):
                dim = targets[k]
                if changes[dim] == 0:
                    dims[moved] = dim
                    moved += 1
                changes[dim] += write_weights[k] * on
    for t in range(moved):
        x[row, dims[t]] += changes[dims[t]]
        changes[dims[t]] = 0


@njit(cache=True, nogil=True)
def _run_sequences(x, starts, lengths, limit, halts, halt_weight, halt_bias, layers, going, heads, first, second):  # type: ignore[no-untyped-def]
    """Run each sequence by itself until it halts, or for `limit` layers; false where a state is not one-hot.

    `layers` gets the layers of each sequence, `going` whether it has not halted."""
    width = max(len(first.bias), len(second.bias)) + 1
    sums, changes = np.zeros(width, dtype=x.dtype), np.zeros(x.shape[1], dtype=x.dtype)
    mark, touched = np.zeros(width, dtype=np.bool_), np.zeros(width, dtype=np.int64)
    dims = np.zeros(max(len(first.targets), len(second.targets)) + 1, dtype=np.int64)
    longest = 1
    for n in lengths:
        longest = max(longest, n)
    keys, queries = np.zeros((len(heads.mode), longest), dtype=np.int64), np.zeros(longest, dtype=np.int64)
    following, counts = np.zeros(longest, dtype=np.int64), np.zeros(longest, dtype=np.int64)
    scratch = Scratch(keys, queries, following, np.zeros(x.shape[1] + 1, dtype=np.int64), counts)
    halt_dims = np.nonzero(halt_weight)[0]
    for s in range(len(starts)):
        begin, n = starts[s], lengths[s]
        layer, finished = 0, False
        while not finished:
            if layer >= limit:
                going[s] = halts
                break
            if not attend(x, x, begin, 0, n, heads, scratch):
                return False
            for row in range(begin, begin + n):
                if len(first.bias) > 0:
                    half(x, row, first, sums, mark, touched, changes, dims)
                half(x, row, second, sums, mark, touched, changes, dims)
            layer += 1
            finished = halts and _done(x, begin, n, halt_dims, halt_weight, halt_bias)
        layers[s] = layer
    return True


@njit(cache=True, nogil=True, inline="always")
def _done(x, begin, n, halt_dims, halt_weight, halt_bias):  # type: ignore[no-untyped-def]
    """Whether every position has the halt value."""
    for row in range(begin, begin + n):
        total = halt_bias
        for dim in halt_dims:
            total += halt_weight[dim] * x[row, dim]
        if not total > 0:
            return False
    return True
