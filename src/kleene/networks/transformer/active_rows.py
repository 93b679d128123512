"""Find the rows of the residual stream that can change, from the weights.

In a computer almost nothing changes in a step: the processor works, and writes one word of memory. A row is at rest
where no head looks from it and its units together change nothing, whatever heads write into it. Evaluators may skip
rows at rest: the result is the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from kleene.errors import NotSupported
from kleene.networks.transformer.model import UNDERFLOW, Block, Transformer

Array = np.ndarray[Any, Any]
MOST_WORKING = 8


@dataclass(frozen=True)
class Copies:
    """A head adds weight × source dimension of the selected row to the target dimension."""

    sources: Array
    targets: Array
    weights: Array


@dataclass(frozen=True)
class LookupHead:
    """A hard head. The rows in `looking` look at themselves, or at the row whose key equals the query's word.

    Where `looking` is None, every row looks, and only the row `seen` can be selected, while its dimensions `switch`
    are 1."""

    number: int
    looking: tuple[int, ...] | None
    seen: int | None
    query: tuple[int, ...]  # dimensions of the query's bits, lowest first; none: a row looks at itself
    key: tuple[int, ...]
    copies: Copies
    found: Array | None = None  # which rows can be found by their word; None: all
    switch: tuple[int, ...] = ()
    needed: bool = True  # whether a word that no row has is an error; otherwise nothing is selected

    @property
    def table(self) -> tuple[tuple[int, ...], bytes | None]:
        """What tells its table of rows by word from others: the dimensions of the word, and which rows are found."""
        dims = self.key if self.looking is not None else self.query
        return dims, None if self.found is None else np.packbits(self.found).tobytes()


@dataclass(frozen=True)
class ActiveRows:
    """The working rows, and the heads of each block as lookups."""

    working: tuple[int, ...]
    blocks: tuple[tuple[LookupHead, ...], ...]
    resting_done: bool  # whether every row at rest has the halt value


class MatrixRows:
    """The first residual stream as a matrix (position, dim)."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x.detach().cpu().numpy()
        self.shape = self.x.shape

    def __len__(self) -> int:
        return len(self.x)

    def columns(self, dims: Any) -> Array:
        made: Array = self.x[:, dims]
        return made

    def words(self, dims: Any) -> Array:
        return words_held(self.x, dims)

    def rows(self, chosen: Any) -> Array:
        made: Array = self.x[chosen]
        return made

    def kinds(self, dims: Array) -> tuple[Array, Array]:
        """Rows that are alike in some dimensions: the first row of each kind, and the kind of each row."""
        held = np.ascontiguousarray(self.x[:, dims].astype(np.int8))
        plain = len(dims) and (held.astype(self.x.dtype) == self.x[:, dims]).all()
        alike = held.view(np.dtype((np.void, held.shape[1]))).ravel() if plain else np.arange(len(self.x))
        _, first, kind = np.unique(alike, return_index=True, return_inverse=True)
        return first, kind.ravel()


def find_active_rows(net: Transformer, x: Any) -> ActiveRows:
    """Find the rows that can change in a run that starts from the residual stream `x` (position, dim).

    `x` is a tensor, or something with the methods of `MatrixRows`."""
    if net.config.causal:
        raise NotSupported(f"{net.config.name}: a causal network has no rows at rest; use 'dense'")
    blocks = [block for block in net.blocks if isinstance(block, Block)]
    start = MatrixRows(x) if isinstance(x, torch.Tensor) else x
    written = _written(blocks)
    heads = [
        [_lookup_head(net, b, h, start, written) for h in range(len(block.heads))] for b, block in enumerate(blocks)
    ]
    looking = {row for lookups in heads for head in lookups for row in head.looking or ()}
    reached = _reached(heads, start.shape[1])
    working = sorted(looking | _working_rows(blocks, start, reached))
    if len(working) > MOST_WORKING:
        raise NotSupported(
            f"{net.config.name}: {len(working):,} of {len(start):,} rows can change in every layer; use 'dense'"
        )
    if any(head.looking is None and head.seen not in working for lookups in heads for head in lookups):
        raise NotSupported(f"{net.config.name}: a row at rest is looked at by every row; use 'dense'")
    rest = np.ones(len(start), dtype=bool)
    rest[working] = False
    halt, bias = net.halt_weight.double().cpu().numpy(), float(net.halt_bias)
    if reached[np.nonzero(halt)[0]].any():
        raise NotSupported(f"{net.config.name}: rows at rest decide when it halts; use 'dense'")
    used = np.nonzero(halt)[0]
    done = start.columns(used)[rest] @ halt[used] + bias > 0
    return ActiveRows(tuple(working), tuple(tuple(lookups) for lookups in heads), bool(done.all()))


def _reached(heads: list[list[LookupHead]], size: int) -> Array:
    """The dimensions that may change at rest."""
    reached = np.zeros(size, dtype=bool)
    for head in (head for lookups in heads for head in lookups if head.looking is None):
        reached[head.copies.targets] = True
    return reached


def _working_rows(blocks: list[Block], x: Any, reached: Array) -> set[int]:
    """The rows that units can change. Rows that are alike in what units read are tried once."""
    read = np.zeros(x.shape[1], dtype=bool)
    for block in blocks:
        for into in (block.in1, block.in2):
            read |= (into != 0).any(dim=0).cpu().numpy()
    kept = np.nonzero(read & ~reached)[0]
    first, kind = x.kinds(kept)
    works = _can_work(blocks, x.rows(first).astype(np.float64), reached)
    return set(np.nonzero(works[kind])[0].tolist())


def _written(blocks: list[Block]) -> Array:
    """The dimensions that some head or unit writes."""
    found = torch.zeros(blocks[0].out.shape[1], dtype=torch.bool)
    for block in blocks:
        found |= (block.out != 0).any(dim=2).any(dim=0).cpu()
        found |= (block.out1 != 0).any(dim=1).cpu() | (block.out2 != 0).any(dim=1).cpu()
    return found.numpy()


def _can_work(blocks: list[Block], x: Array, reached: Array) -> Array:
    """Whether units of some block can change each row, whatever the reached dimensions hold in 0 … 1."""
    works = np.zeros(len(x), dtype=bool)
    fixed = np.where(reached, 0, x)
    for block in blocks:
        after = fixed
        for into, bias, out in ((block.in1, block.bias1, block.out1), (block.in2, block.bias2, block.out2)):
            weights = into.double().cpu().numpy()
            least = after @ weights.T + bias.double().cpu().numpy()
            sure = ~weights[:, reached].any(axis=1)  # the others must be off
            works |= (least + np.maximum(weights[:, reached], 0).sum(axis=1) > 0)[:, ~sure].any(axis=1)
            after = after + np.clip(least[:, sure], 0, 1) @ out.double().cpu().numpy().T[sure]
        works |= (after != fixed).any(axis=1)
    return works


def _lookup_head(net: Transformer, b: int, h: int, x: Any, written: Array) -> LookupHead:
    """Read one head as a lookup; NotSupported where it is none of the kinds known here."""
    block = net.block(b)
    try:
        return _HeadReader(block, h, x, written, _has_default(net, b, h)).lookup(h)
    except _NoLookup as why:
        raise NotSupported(f"{net.config.name}: the head '{block.heads[h]}' {why}; use 'dense'") from None


def _has_default(net: Transformer, b: int, h: int) -> bool:
    """Whether the program says what a head gives where it selects nothing; then that is no error."""
    moves = net.described(b).get("moves", ())
    named = [move for move in moves if move["head"] == h]
    return bool(named) and all(move["default"] for move in named)


class _NoLookup(Exception):
    """Why a head is no lookup."""


@dataclass(frozen=True)
class _Bit:
    """One entry of the key that compares one bit: the dimensions of query and key, and the score of a match."""

    query: int
    key: int
    scale: float


class _HeadReader:
    """The weights of one head, taken apart: the bits that it compares, and which rows may look and be seen.

    A limit is an entry of the key that only one side reads: it takes score away from the rows that lack something."""

    def __init__(self, block: Block, h: int, x: Any, written: Array, has_default: bool) -> None:
        names = ("query", "query_bias", "key", "key_bias", "relative", "null_score", "null_value", "value", "out")
        self.one = {name: getattr(block, name)[h].double().cpu().numpy() for name in names}
        self.x, self.written, self.own_offset = x, written, block.window + 1
        self.bits: list[_Bit] = []
        self.limits: dict[str, Array] = {}  # "looking" or "seen" → what a limit adds to the score of each row
        self.switch: tuple[int, ...] = ()  # dimensions of the seen row that change, and must be 1
        self.has_default = has_default

    def lookup(self, h: int) -> LookupHead:
        if self.one["null_value"].any():
            raise _NoLookup("has a default")
        self._read_entries()
        self._check_hard()
        through = self.one["out"] @ self.one["value"]
        targets, sources = np.nonzero(through)
        copies = Copies(sources, targets, through[targets, sources])
        query, key = tuple(bit.query for bit in self.bits), tuple(bit.key for bit in self.bits)
        may_look, may_be_seen = (self._rows(side) for side in ("looking", "seen"))
        if may_look is not None and not self.written[list(key)].any() and not self.switch:
            rows = tuple(np.nonzero(may_look)[0].tolist())
            return LookupHead(h, rows, None, query, key, copies, may_be_seen, (), not self.has_default)
        if may_be_seen is None or may_be_seen.sum() != 1 or not self.bits or self.written[list(query)].any():
            raise _NoLookup("looks from every row")
        seen = int(np.nonzero(may_be_seen)[0][0])
        return LookupHead(h, None, seen, query, key, copies, may_look, self.switch)

    def _rows(self, side: str) -> Array | None:
        """Which rows a limit lets look, or be seen; None where there is no limit."""
        limit = self.limits.get(side)
        return None if limit is None else limit == 0

    def _read_entries(self) -> None:
        """Sort the entries of the key: those that both sides read compare bits, the others are limits."""
        query, query_bias, key, key_bias = (self.one[name] for name in ("query", "query_bias", "key", "key_bias"))
        compared = []
        for place in range(len(query)):
            reads, keeps = query[place].any(), key[place].any()
            if reads and keeps:
                compared.append(place)
            elif reads:
                self._add_limit("looking", query[place], query_bias[place], key_bias[place])
            elif keeps:
                self._add_limit("seen", key[place], key_bias[place], query_bias[place])
            elif query_bias[place] * key_bias[place]:
                raise _NoLookup("has a constant score")
        self.bits = [self._bit(place) for place in compared]
        if len({bit.scale for bit in self.bits}) > 1:
            raise _NoLookup("does not match bits")

    def _add_limit(self, side: str, weights: Array, bias: float, times: float) -> None:
        used = np.nonzero(weights)[0]
        changing = used[self.written[used]]
        if len(changing):  # all of its dimensions must be 1, or it costs more than a match is worth
            plain = side == "seen" and (weights[used] > 0).all() and bias == -weights[used].sum() and times > UNDERFLOW
            if not plain:
                raise _NoLookup("is limited by something that changes")
            self.switch += tuple(changing.tolist())
            bias += float(weights[changing].sum())
            used = used[~self.written[used]]
        cost = (self.x.columns(used) @ weights[used] + bias) * times
        self.limits[side] = self.limits.get(side, np.zeros(len(self.x))) + cost

    def _bit(self, place: int) -> _Bit:
        query, key = self.one["query"][place], self.one["key"][place]
        (q, *more), (k, *others) = np.nonzero(query)[0], np.nonzero(key)[0]
        scale = query[q] / 2
        fits = key[k] == 2 and self.one["key_bias"][place] == -1 and self.one["query_bias"][place] == -scale
        if not fits or more or others:
            raise _NoLookup("does not match bits")
        return _Bit(int(q), int(k), float(scale))

    def _check_hard(self) -> None:
        """Check that the best score, the null score and every other score are far enough apart."""
        null, relative = float(self.one["null_score"]), self.one["relative"]
        if self.bits:
            if relative.any():
                raise _NoLookup("matches and is limited to offsets")
            best = self.bits[0].scale * len(self.bits)
            next_best = best - 2 * self.bits[0].scale
        else:
            best, next_best = float(relative.max()), float(np.delete(relative, self.own_offset).max())
            if next_best >= null or relative[self.own_offset] <= null:
                raise _NoLookup("looks at other positions by offset")
        for cost in self.limits.values():  # a limit costs nothing, or enough
            if not ((cost == 0) | (best + cost < null - UNDERFLOW)).all():
                raise _NoLookup("is not hard")
        if best - null < UNDERFLOW or null - next_best < UNDERFLOW:
            raise _NoLookup("is not hard")


def words_held(x: Array, dims: tuple[int, ...]) -> Array:
    """The word that the dimensions `dims` hold in binary, for each row."""
    held: Array = np.zeros(len(x), dtype=np.int64)
    for k, dim in enumerate(dims):
        held |= x[:, dim].astype(np.int64) << k
    return held


@dataclass(frozen=True)
class RowTable:
    """Finds the row that holds a word: `rows[word − first]`, or −1."""

    first: int
    rows: Array


MOST_WORDS = 1 << 27  # of a table of rows


def row_by_word(net: Transformer, x: Any, dims: tuple[int, ...], which: Array | None = None) -> RowTable:
    """Map each word to the row that holds it in these dimensions; `which` rows count (None: all)."""
    rows = np.arange(len(x)) if which is None else np.nonzero(which)[0]
    found = (words_held(x, dims) if isinstance(x, np.ndarray) else x.words(dims))[rows]
    if len(np.unique(found)) < len(found):
        raise NotSupported(f"{net.config.name}: two rows have the same key; use 'dense'")
    first, last = (int(found.min()), int(found.max())) if len(found) else (0, 0)
    if last - first >= MOST_WORDS:
        raise NotSupported(f"{net.config.name}: keys lie {last - first:,} apart; use 'dense'")
    table = np.full(last - first + 1, -1, dtype=np.int32)
    table[found - first] = rows
    return RowTable(first, table)
