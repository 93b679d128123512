"""What a block makes of the contents of segments: computed once, looked up when it occurs again.

The dimensions of the residual stream are divided into segments: variables, outputs of heads, scratch values. The sparse
evaluator numbers the contents that each segment has met, and works with these numbers in place of vectors:

- A *lane* is what a head copies from one segment to another. It adds a content for each content that it reads.
- A *group* is some segments that the units write, with all segments that these units read. What the units make of
  the contents there is computed from the weights when it first occurs, and remembered, as a lazy automaton
  remembers its transitions. It leaves out what the weights show not to matter (segment_needs.py).
- A segment is *quiet* as long as it holds zeros between layers, as the outputs of heads and scratch values do. Its
  contents are not kept. Where the units leave something in it, it becomes loud, and the tables begin anew.
- A position is *settled* where nothing changed in the layer before, neither there nor in what heads
  add. It is left alone.

Nothing is assumed of the weights but what sparse_weights.py has read off them. The tables grow by doubling; where they
would hold more than `MOST_VALUES` values they begin anew.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kleene.networks.transformer.segment_kernels import (
    FINE,
    NOT_ONE_HOT,
    NOT_QUIET,
    STEPS_FULL,
    VALUES_FULL,
    embed,
    expand,
    fill_slots,
    intern_rows,
    read_outputs,
    refill,
    run_layers,
)  # fmt: skip
from kleene.networks.transformer.segment_needs import needs_of
from kleene.networks.transformer.sparse_kernels import Reading
from kleene.networks.transformer.sparse_weights import BY_OFFSET, Array, FlatBlock, FlatHalf, FlatHeads

MOST_VALUES = 20_000_000  # of contents or steps


class Embedding(NamedTuple):
    """What a sequence begins with."""

    tokens: Array  # (token, dim)
    positions: Array  # (position, dim); a single row of zeros where positions do not matter


class Segments(NamedTuple):
    """The segments of the residual stream, the loud ones first, and which of them decide halting and output."""

    start: Array
    size: Array
    loud: int  # how many segments are loud
    of_dim: Array  # dimension → its segment
    halting: Array  # the segments that the halting score reads
    halt_weight: Array
    halt_bias: float
    output: Array  # the segments that the output is read from


class Contents(NamedTuple):
    """The contents that segments have had. `slots` finds a content by its hash: its number, or −1."""

    sizes: Array  # how many contents, and values of all of them
    values: Array
    segment: Array
    begin: Array  # content → its first value
    hashes: Array
    slots: Array
    one_hot: Array  # the place of its only one, or −1
    word: Array  # its bits as a whole number, or −1
    halting: Array  # what it adds to the halting score
    output: Array  # the output that is read from it, or −1 where nobody has asked
    zero: Array  # segment → the content of zeros


class Lanes(NamedTuple):
    """What the heads of a block copy, from segment to segment."""

    head_ptr: Array  # head → its first lane
    source: Array
    target: Array
    copy_ptr: Array  # lane → its first entry in the next three
    at: Array  # the place within the source segment
    to: Array  # the place within the target segment
    weight: Array
    null_ptr: Array  # lane → its first entry in the next two: what it adds where the head selects nothing
    null_to: Array
    null_weight: Array
    key: Array  # head → the segment of its keys
    query: Array


class Groups(NamedTuple):
    """Segments that the units of a block write, with what they read: columns of the state, segments and then lanes."""

    bits: int  # of a content's number
    width: int  # bits of a variant's number
    whole: Array  # group → its first variant, which reads all of its columns
    selector: Array  # group → the column whose value picks the variant: value k picks variant whole + 1 + k; −1: none
    plain: Array  # whether this holds only where the contents of a segment have a single one or none
    key_ptr: Array  # variant → the first of its columns
    columns: Array
    target_ptr: Array  # group → the first of its loud segments
    targets: Array
    quiet_ptr: Array  # group → the first of its quiet segments
    quiets: Array


class Memory(NamedTuple):
    """What a block has made so far."""

    sizes: Array  # of entries in the table; of words of longer keys that have a number; of contents that were looked at
    plain: Array  # (1,): whether all of these are as `Groups.plain` wants them
    table: Array  # in turn: what a group read, or −1; the contents that it made
    alone: Array  # (content, lane): what a lane adds where its head selects a single position
    described: Array  # (1,): for how many contents `alone` is known
    nothing: Array  # lane → what it adds where its head selects nothing, or −1


class Batch(NamedTuple):
    """The state of all sequences, whose positions stand one after another, and memory for a layer."""

    loud: int  # how many segments are loud
    now: Array  # (position, loud segment or lane) → content
    before: Array  # (position, loud segment): before the last layer
    sequence: Array  # position → its sequence
    low: Array  # position → the first position of its sequence
    high: Array  # position → the end of its sequence
    starts: Array  # sequence → its first position
    ends: Array
    layers: Array  # sequence → the layers that it took, or −1 where it has not halted
    waiting: Array  # sequence → how many of its positions do not have the halt value
    halted: Array  # position → whether it has the halt value
    going: (
        Array  # (3,): how many positions changed in the last layer; whether halting was looked at; whether heads begin
    )
    moved: Array  # those positions
    queue: Array  # the positions that may change in this layer
    queued: Array  # position → the last time that it was put on the queue
    time: Array  # (2,): counts the layers, and the selections of heads
    nexts: Array  # (place in the queue, target)
    last: Array  # (position, group): what the group read last, as a key
    stale: Array  # the sequences in which a head selects anew
    marked: Array  # sequence → the last time that it was put there
    same_picks: Array  # sequence → whether the head picks the same positions again
    averages: Array  # (head, sequence): whether the head averages several positions somewhere
    picked: Array  # (head, position) → the one position that the head selects
    keys: Array
    queries: Array
    following: Array  # by position of one sequence, as the rest: the next position whose key is in the same bucket
    buckets: Array  # of keys → the first position
    chosen: Array  # the positions that a head selects
    asked: Array  # query → the last position that asked it
    preferred: Array  # key → the latest or earliest position that has it, or −1


class Room(NamedTuple):
    """Memory for the units of one position."""

    row: Array  # (1, dim)
    sums: Array
    mark: Array
    touched: Array
    changes: Array
    dims: Array


# --- the parts of a network -------------------------------------------------------------------------------


def segments_of(
    ranges: list[tuple[int, int]], needed: set[int], halting: tuple[Array, float], reading: Reading
) -> Segments:
    """Segments for all dimensions; a dimension outside the given ranges is one by itself.

    needed: a segment with one of these dimensions is loud.
    halting: weights and bias of the halting score."""
    weight, bias = halting
    covered = {k for start, stop in ranges for k in range(start, stop)}
    every = sorted([*ranges, *((k, k + 1) for k in range(len(weight)) if k not in covered)])
    loud = [part for part in every if not needed.isdisjoint(range(*part))]
    every = [*loud, *(part for part in every if part not in loud)]
    start, stop = (np.array(ends, np.int64) for ends in zip(*every))
    of_dim = np.zeros(len(weight), np.int64)
    for s, part in enumerate(every):
        of_dim[slice(*part)] = s
    read = np.unique(of_dim[np.nonzero(weight)[0]]), np.unique(of_dim[reading.dims])
    return Segments(start, stop - start, len(loud), of_dim, read[0], weight, bias, read[1])


def lanes_of(heads: FlatHeads, segments: Segments) -> Lanes:
    """The lanes of a block's heads."""
    head_ptr, made, copies, nulls = [0], [], [], []
    sources, targets = (segments.of_dim[dims] for dims in (heads.sources, heads.targets))
    null_targets = segments.of_dim[heads.null_targets]
    for h in range(len(heads.mode)):
        copied, empty = range(*heads.copy_ptr[h : h + 2]), range(*heads.null_ptr[h : h + 2])
        pairs = sorted({(int(targets[k]), int(sources[k])) for k in copied})
        written = {target for target, _ in pairs}
        pairs += [(int(t), 0) for t in np.unique(null_targets[list(empty)]) if t not in written]
        for place, (target, source) in enumerate(pairs):
            made.append((source, target))
            copies.append([k for k in copied if (targets[k], sources[k]) == (target, source)])
            is_first = place == 0 or pairs[place - 1][0] != target  # one lane adds the null value
            nulls.append([k for k in empty if is_first and null_targets[k] == target])
        head_ptr.append(len(made))
    every = np.array([k for part in copies for k in part], np.int64)
    nothing = np.array([k for part in nulls for k in part], np.int64)
    ends = np.array(made, np.int64).reshape(-1, 2).T.copy()
    return Lanes(
        np.array(head_ptr, np.int64),
        ends[0],
        ends[1],
        _pointers(copies),
        heads.sources[every] - segments.start[sources[every]],
        heads.targets[every] - segments.start[targets[every]],
        heads.weights[every],
        _pointers(nulls),
        heads.null_targets[nothing] - segments.start[null_targets[nothing]],
        heads.null_weights[nothing],
        *(np.where(heads.mode == BY_OFFSET, 0, segments.of_dim[part[:, 0]]) for part in (heads.key, heads.query)),
    )


def groups_of(block: FlatBlock, lanes: Lanes, segments: Segments, bits: int) -> Groups:
    """The groups of a block: a segment joins the first group that reads all that it depends on.

    bits: of a content's number. What a group makes fits into a word."""
    loud, reads = segments.loud, _columns_read(block, lanes, segments)
    groups: list[tuple[set[int], list[int], list[int]]] = []
    for t in sorted(reads, key=lambda t: -len(reads[t])):
        fits = (g for g in groups if reads[t] <= g[0] and (t >= loud or len(g[1]) < 62 // bits))
        group = next(fits, None)
        if group is None:
            group = reads[t], [], []
            groups.append(group)
        (group[1] if t < loud else group[2]).append(t)
    columns, targets, quiets = [sorted(g[0]) for g in groups], [g[1] for g in groups], [g[2] for g in groups]
    of_column = np.concatenate([np.arange(loud), lanes.target])
    plain = np.zeros(len(segments.size), np.bool_)
    whole: list[int] = []
    selectors: list[int] = []
    variants: list[list[int]] = []
    for part, (place, needed) in zip(
        columns, needs_of(block, segments, of_column, list(zip(columns, targets, quiets)))
    ):
        whole.append(len(variants))
        selectors.append(part[place] if place >= 0 else -1)
        variants += [part, *([part[k] for k in np.flatnonzero(row) if k != place] for row in needed)]
        plain[of_column[part]] |= place >= 0
    lists = [made for part in (variants, targets, quiets) for made in (_pointers(part), _flat(part))]
    return Groups(bits, len(variants).bit_length(), np.array(whole), np.array(selectors), plain, *lists)


def _columns_read(block: FlatBlock, lanes: Lanes, segments: Segments) -> dict[int, set[int]]:
    """Segment that the block writes → the columns of the state that it then depends on."""
    first, second = (_dependencies(half, segments) for half in (block.first, block.second))
    found = {}
    for t in sorted({*first, *second, *lanes.target.tolist()}):
        depends: set[int] = set().union(*(first.get(s, {s}) for s in second.get(t, {t})))
        through_heads = {segments.loud + k for k, s in enumerate(lanes.target.tolist()) if s in depends}
        found[t] = {s for s in depends if s < segments.loud} | through_heads
    return found


def _dependencies(half: FlatHalf, segments: Segments) -> dict[int, set[int]]:
    """Segment that units write → itself and the segments that those units read."""
    reads: list[set[int]] = [set() for _ in half.bias]
    for dim, units in enumerate(np.split(half.units, half.read_ptr[1:-1])):
        for unit in units.tolist():
            reads[unit].add(int(segments.of_dim[dim]))
    found: dict[int, set[int]] = {}
    for unit, dims in enumerate(np.split(half.targets, half.write_ptr[1:-1])):
        for t in set(segments.of_dim[dims].tolist()):
            found.setdefault(t, {t}).update(reads[unit])
    return found


def _flat(lists: list[list[int]]) -> Array:
    return np.array([entry for part in lists for entry in part], np.int64)


def _pointers(lists: list[Any]) -> Array:
    return np.cumsum([0, *map(len, lists)], dtype=np.int64)


def _needed(blocks: list[FlatBlock], embedding: Embedding, halt_weight: Array, reading: Reading) -> set[int]:
    """The dimensions that sequences begin with, or that heads, halting or the output read."""
    dims = [np.nonzero(table.any(axis=0))[0] for table in (*embedding, halt_weight[None])]
    dims += [reading.dims, *(block.heads.sources for block in blocks)]
    segments = [part for block in blocks for part in (*block.heads.key, *block.heads.query)]
    dims += [np.arange(start, start + size) for start, size in segments]
    return set(np.concatenate(dims).tolist()) | {0}  # one segment at least is loud


# --- tables that grow -------------------------------------------------------------------------------------


def _doubled(array: Array) -> Array:
    return np.concatenate([array, np.zeros_like(array)])


def _whole(*shape: int, fill: int = 0) -> Array:
    return np.full(shape, fill, np.int64)


def no_contents(segments: Segments, kind: Any) -> Contents:
    """A table without contents but the zeros of every loud segment; with room for one-hot contents."""
    room = 1 << int(segments.size.sum() + 2 * len(segments.size)).bit_length()
    made = Contents(
        _whole(2), np.zeros(4 * int(segments.size.sum()) + 1024, kind), _whole(room), _whole(room), _whole(room),
        _whole(2 * room, fill=-1), _whole(room), _whole(room), np.zeros(room, kind), _whole(room),
        _whole(segments.loud),
    )  # fmt: skip
    zero = np.zeros((1, segments.loud), np.int32)
    intern_rows(made, segments, np.zeros((1, int(segments.size.sum())), kind), zero)
    return made._replace(zero=zero[0].astype(np.int64))


def no_memory(lanes: Lanes, contents: Contents) -> Memory:
    """A table without steps."""
    alone = np.full((len(contents.hashes), len(lanes.source)), -1, np.int32)
    return Memory(
        _whole(3), np.ones(1, np.bool_), _whole(4096, fill=-1), alone, _whole(1), _whole(len(lanes.source), fill=-1)
    )


# --- runs -------------------------------------------------------------------------------------------------


class SegmentTables:
    """The tables of a network, and the runs that fill them."""

    def __init__(
        self,
        blocks: list[FlatBlock],
        ranges: list[tuple[int, int]],
        halting: tuple[Array, float],
        embedding: Embedding,
        reading: Reading,
    ) -> None:
        self.blocks, self.ranges, self.halting = blocks, ranges, halting
        self.embedding, self.reading = embedding, reading
        self.kind, self.dim = embedding.tokens.dtype, embedding.tokens.shape[1]
        self.loud = _needed(blocks, embedding, halting[0], reading)
        self._begin()
        halves = [half for block in blocks for half in (block.first, block.second)]
        width = max(len(half.bias) for half in halves) + 1
        self.room = Room(
            np.zeros((1, self.dim), self.kind), np.zeros(width, self.kind), np.zeros(width, np.bool_), _whole(width),
            np.zeros(self.dim, self.kind), _whole(max(len(half.targets) for half in halves) + 1),
        )  # fmt: skip

    def _begin(self) -> None:
        """Forget everything."""
        self.segments = segments_of(self.ranges, self.loud, self.halting, self.reading)
        self.lanes = [lanes_of(block.heads, self.segments) for block in self.blocks]
        self.starts = tuple(np.full((len(table), self.segments.loud), -1, np.int32) for table in self.embedding)
        self.contents = no_contents(self.segments, self.kind)
        self._forget_steps()

    def _forget_steps(self) -> None:
        self.memories = [no_memory(lanes, self.contents) for lanes in self.lanes]
        bits = (len(self.contents.hashes) - 1).bit_length()
        self.groups = [groups_of(block, lanes, self.segments, bits) for block, lanes in zip(self.blocks, self.lanes)]

    def run(self, given: Array, lengths: Array, limit: int, halts: bool) -> tuple[Array, Array] | None:
        """Run sequences until they halt, or for `limit` layers.

        given: the tokens of all sequences, one after another.
        lengths: of the sequences.

        The outputs of all positions, and the layers of each sequence, −1 where it has not halted; None where a row
        is not one-hot.
        """
        status = NOT_QUIET
        while status <= NOT_QUIET:  # again, where a segment has become loud
            batch = self._batch(lengths)
            self._embed(batch, given)
            status = self._run_layers(batch, limit, halts)
        if status == NOT_ONE_HOT:
            return None
        outputs = np.zeros_like(given)
        read_outputs(self.contents, self.segments, self.reading, batch.now, self.room.row, outputs)
        return outputs, batch.layers if halts else np.full(len(lengths), limit)

    def _embed(self, batch: Batch, given: Array) -> None:
        places = np.arange(len(given)) - batch.starts[batch.sequence]
        places = places if len(self.embedding.positions) > 1 else np.zeros_like(places)
        while status := embed(self.contents, self.segments, self.embedding, given, places, self.starts, batch.now):
            self.make_room(status)

    def _run_layers(self, batch: Batch, limit: int, halts: bool) -> int:
        """Run until all sequences have halted, or for `limit` layers; how it ended."""
        layer, anew, settles = 0, -1, len(self.blocks) == 1
        batch = self._renew(batch)
        while layer < limit and batch.going[0]:
            b, count = layer % len(self.blocks), limit - layer if settles else 1
            status, layer = run_layers(
                self.contents, self.segments, self.blocks[b], self.lanes[b], self.groups[b], self.memories[b], batch,
                self.room, layer, count, halts,
            )  # fmt: skip
            if self.makes_loud(status) or status == NOT_ONE_HOT:
                return int(status)
            if status != FINE and layer > anew and self._is_large(b):  # at most once per layer, so that it ends
                anew = layer
                self._begin_anew(batch)
            elif status != FINE:
                self.make_room(status, b)
            if status != FINE or not settles:
                batch = self._renew(batch)
        return FINE

    def _renew(self, batch: Batch) -> Batch:
        """Let all positions of sequences that have not halted change next. There may be more groups than before."""
        groups = max(len(groups.target_ptr) for groups in self.groups)
        if batch.last.shape[1] < groups:
            batch = batch._replace(last=_whole(len(batch.last), groups))
        moved = np.nonzero(batch.layers[batch.sequence] < 0)[0]
        batch.moved[: len(moved)], batch.going[0] = moved, len(moved)
        batch.before[moved] = -1
        batch.going[2], batch.last[:] = 1, -1
        return batch

    def makes_loud(self, status: int) -> bool:
        """Whether a segment becomes loud, so that all that ran must run again."""
        if status > NOT_QUIET:
            return False
        self.loud = {*self.loud, int(self.segments.start[NOT_QUIET - status])}
        self._begin()
        return True

    def begin_where_large(self) -> None:
        """Forget everything where the tables hold more than they should."""
        if self._is_large(0):
            self._begin()

    def _is_large(self, b: int) -> bool:
        """Whether the tables hold more than they should."""
        added = sum(memory.alone.size for memory in self.memories)
        return len(self.contents.values) + added + len(self.memories[b].table) > MOST_VALUES

    def _begin_anew(self, batch: Batch) -> None:
        """Forget everything but what the sequences hold now."""
        rows = np.zeros((len(batch.now), self.dim), self.kind)
        expand(self.contents, self.segments, batch.now, rows)
        self._begin()
        while status := intern_rows(self.contents, self.segments, rows, batch.now):
            self.make_room(status)

    def make_room(self, full: int, b: int = 0) -> None:
        """Double what is full."""
        memory, contents = self.memories[b], self.contents
        if full == STEPS_FULL:
            self.memories[b] = memory._replace(table=_whole(2 * len(memory.table), fill=-1))
            refill(memory.table, self.memories[b].table)
        elif full == VALUES_FULL:
            self.contents = contents._replace(values=_doubled(contents.values))
        else:
            names = ("segment", "begin", "hashes", "one_hot", "word", "halting", "output")
            wider = contents._replace(**{name: _doubled(getattr(contents, name)) for name in names})
            self.contents = wider._replace(slots=_whole(2 * len(contents.slots), fill=-1))
            fill_slots(self.contents.hashes, len(contents.hashes), self.contents.slots)
            self._forget_steps()  # numbers of contents have one bit more

    def _batch(self, lengths: Array) -> Batch:
        total, count, longest = int(lengths.sum()), len(lengths), int(lengths.max())
        ends = np.cumsum(lengths)
        loud, lanes = self.segments.loud, max(len(lanes.source) for lanes in self.lanes)
        heads = max(len(block.heads.mode) for block in self.blocks)
        targets = max(len(groups.targets) for groups in self.groups)
        return Batch(
            loud=loud,
            now=np.full((total, loud + lanes), -1, np.int32),
            before=np.full((total, loud), -1, np.int32),
            sequence=np.repeat(np.arange(count), lengths),
            low=np.repeat(ends - lengths, lengths),
            high=np.repeat(ends, lengths),
            starts=ends - lengths,
            ends=ends,
            layers=_whole(count, fill=-1),
            waiting=lengths.astype(np.int64),
            halted=np.zeros(total, np.bool_),
            going=_whole(3),
            moved=_whole(total),
            queue=_whole(total),
            queued=_whole(total),
            time=_whole(2),
            nexts=np.zeros((total, targets), np.int32),
            last=_whole(total, max(len(groups.target_ptr) for groups in self.groups), fill=-1),
            stale=_whole(count),
            marked=_whole(count),
            same_picks=np.zeros(count, np.bool_),
            averages=np.zeros((heads, count), np.bool_),
            picked=_whole(heads, total),
            keys=_whole(total),
            queries=_whole(total),
            following=_whole(longest),
            buckets=_whole(1 << longest.bit_length()),
            chosen=_whole(longest),
            asked=_whole(self.dim + 1),
            preferred=_whole(self.dim + 1),
        )
