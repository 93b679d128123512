"""The weights of a transformer as the arrays that the sparse kernels read: without their zeros.

A relative head becomes a shift and any other head an exact lookup. A head whose match, null and mismatch scores are
at least 745 apart is a hard selection, because exp underflows. Weights of another shape raise `NotSparse`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from kleene.networks.transformer.model import UNDERFLOW, Block

Array = np.ndarray[Any, Any]
BY_OFFSET, BY_KEY, BY_WORD = 0, 1, 2  # how a head selects: by offset alone, by a one-hot key, by the bits of a word
ALL, RANKED, LATEST, EARLIEST = 0, 1, 2, 3  # what a head selects of several positions that match
MANY_OFFSETS = 1 << 40  # in place of the offset of a head that selects several


class NotSparse(Exception):
    """The sparse evaluator cannot run these weights."""


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


def flat_half(into: Array, bias: Array, out: Array) -> FlatHalf:
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
        """The single offset that the head may select, or MANY_OFFSETS; the ends stand for many.

        A head that counts adds the null value, too, and so is no shift."""
        (places,) = np.nonzero(self.allowed)
        if self.tied or len(places) != 1 or places[0] in (0, len(self.allowed) - 1):
            return MANY_OFFSETS
        return int(places[0]) - len(self.allowed) // 2

    def order(self, longest: int | None) -> int:
        """Return what it selects of several positions that match; `longest` is the length of the longest input."""
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
        copies.append(_copied(one["out"], one["value"]))
        if selections[-1].tied and len(copies[-1]):
            raise NotSparse("a head that averages its null value with others")
        null = one["out"] @ one["null_value"]
        nulls.append(np.stack([np.nonzero(null)[0], null[np.nonzero(null)]], axis=1))
    return selections, copies, nulls


def _copied(out: Array, value: Array) -> Array:
    """What a head copies: rows of source, target, weight, sorted by target. Only dimensions in use are multiplied."""
    written, read = np.flatnonzero(out.any(axis=1)), np.flatnonzero(value.any(axis=0))
    through = out[written] @ value[:, read]
    targets, sources = np.nonzero(through)
    return np.stack([read[sources], written[targets], through[targets, sources]], axis=1)


def flat_heads(
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
    """The place where each of several lists begins, one after the other, and where the last ends."""
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
        np.array_equal(one["query"][:bits, q0:q1], np.eye(bits) * 2 * scale)
        and np.array_equal(one["key"][:bits, k0:k1], np.eye(bits) * 2)
        and (one["query_bias"][:bits] == -scale).all()
        and (one["key_bias"][:bits] == -1).all()
        and not one["query"][bits:].any()
        and not one["query_bias"][bits:].any()
    )
    relative = one["relative"]
    if not fits or null - scale * (bits - 2) - relative.max() < UNDERFLOW:
        raise NotSparse("a word head that is not hard")
    return _Selection(BY_WORD, (q0, bits), (k0, bits), _allowed(relative, np.array([scale * bits]), null), relative)
