"""The sparse evaluator of a decoder on a CPU: many inputs together, each token computed once.

A decoder looks back only, so what a layer computed at a position stays when tokens are appended. What the segments hold
before each layer is kept as numbers (see segment_tables.py), and every new token runs through the layers at its own
position alone. Each head runs over the new tokens of all sequences in one call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numba import njit

from kleene.common.output import Output
from kleene.networks.transformer.model import Transformer
from kleene.networks.transformer.segment_kernels import (
    FINE,
    NOT_ONE_HOT,
    advance,
    embed,
    is_average,
    part_of_several,
    prepare,
    read_outputs,
)
from kleene.networks.transformer.segment_tables import MOST_VALUES, SegmentTables
from kleene.networks.transformer.sparse import turn
from kleene.networks.transformer.sparse_kernels import place_of
from kleene.networks.transformer.sparse_weights import (
    BY_KEY,
    BY_OFFSET,
    BY_WORD,
    LATEST,
    MANY_OFFSETS,
    Array,
    NotSparse,
)

BEGIN, END, EMBEDDED, LAYER, HEAD, ROW, LINKED = range(7)  # how far decoding is: places in `progress`


class Limits(NamedTuple):
    """When decoding ends."""

    layers: int
    tokens: int
    stop: int  # −1: no token
    longest: int


class Decoding(NamedTuple):
    """Sequences that are decoded together. A row is a position of one of them, in the order of computation.

    Rows BEGIN … END − 1 are computed next: the fresh rows."""

    progress: Array
    tokens: Array  # row → its token
    sequence: Array  # row → its sequence
    position: Array
    embedded: Array  # row → the row of the position embedding
    rows: Array  # (sequence, position) → row
    kept: Array  # (layer, row, loud segment) → content before the layer
    now: Array  # (fresh row, loud segment or lane) → content
    queue: Array  # the fresh rows
    nexts: Array  # (fresh row, target)
    last: Array  # (fresh row, group): what the group read last; nothing
    outputs: Array  # of the fresh rows
    following: Array  # (layer, head, row) → the next row with the same key, or −1
    first: Array  # (layer, head, sequence, key) → the first row with this key, or −1
    final: Array  # the last row with this key, or −1
    chosen: Array  # the rows that a head selects
    made: Array  # (sequence, token)
    counts: Array  # sequence → how many tokens were made
    too_long: Array  # whether a sequence would become too long


def decode_sparse(net: Transformer, inputs: Sequence[Sequence[int]], layers: int) -> list[Output]:
    """Append each input's last output until `stop` or `max_tokens`; return the appended tokens."""
    flat, config = net.sparse_copy(), net.config
    if len(flat.blocks) != 1 or not config.causal:
        raise NotSparse("a decoder of several blocks, or one that looks ahead")
    limits = Limits(layers, config.max_tokens or 1, -1 if config.stop is None else config.stop, net.longest or 1 << 40)
    for tokens in inputs:
        if len(tokens) > limits.longest:
            net.check_input(tokens)  # says so
    results: list[Output] = []
    for some in _together(inputs, limits, config.dim):
        with turn(flat):  # the tables grow while they run
            flat.follow_changes()
            done = _run(flat.tables, some, limits)
        if done is None:
            raise NotSparse("a state that is not one-hot")
        counts = done.counts.tolist()
        for tokens, row, count, too_long in zip(some, done.made.tolist(), counts, done.too_long.tolist()):
            if too_long:
                net.check_input([*tokens, *row[:count]])  # says so
            results.append(Output(row[:count], layers=count * layers))
    return results


def _room(length: int, limits: Limits) -> int:
    """How many positions a sequence may come to."""
    return min(length + limits.tokens, max(limits.longest, length) + 1)


def _together(inputs: Sequence[Sequence[int]], limits: Limits, dim: int) -> Iterator[list[Sequence[int]]]:
    """The inputs, as many together as have room in memory."""
    some: list[Sequence[int]] = []
    size = 0
    for tokens in inputs:
        values = _room(len(tokens), limits) * limits.layers * dim
        if some and size + values > MOST_VALUES:
            yield some
            some, size = [], 0
        some.append(tokens)
        size += values
    if some:
        yield some


def _run(tables: SegmentTables, inputs: list[Sequence[int]], limits: Limits) -> Decoding | None:
    """Decode some inputs together; None where a state is not one-hot."""
    tables.begin_where_large()
    run = _decoding(tables, inputs, limits)
    while status := _decode(
        tables.contents, tables.segments, tables.blocks[0], tables.lanes[0], tables.groups[0], tables.memories[0],
        tables.embedding, tables.starts, tables.reading, limits, run, tables.room,
    ):  # fmt: skip
        if status == NOT_ONE_HOT:
            return None
        if tables.makes_loud(status):
            run = _decoding(tables, inputs, limits)
            continue
        tables.make_room(status)
        if len(tables.groups[0].target_ptr) > run.last.shape[1]:
            run = run._replace(last=np.full((len(run.last), len(tables.groups[0].target_ptr)), -1, np.int64))
    return run


def _decoding(tables: SegmentTables, inputs: list[Sequence[int]], limits: Limits) -> Decoding:
    """Memory for some inputs, which are the first fresh rows."""
    lengths = np.array([len(tokens) for tokens in inputs])
    given, count, rooms = int(lengths.sum()), len(inputs), [_room(len(tokens), limits) for tokens in inputs]
    total, heads, loud = sum(rooms), tables.blocks[0].heads, tables.segments.loud
    by_head = limits.layers, len(heads.mode)
    values = int(np.max(heads.key[heads.mode == BY_KEY, 1], initial=1))
    sequence, position, embedded, tokens, rows = (
        np.zeros(size, np.int64) for size in (total, total, total, total, (count, max(rooms)))
    )
    sequence[:given] = np.repeat(np.arange(count), lengths)
    position[:given] = np.arange(given) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    embedded[:given] = position[:given] if len(tables.embedding.positions) > 1 else 0
    tokens[:given] = np.concatenate([np.asarray(some, np.int64) for some in inputs])
    rows[sequence[:given], position[:given]] = np.arange(given)
    progress = np.zeros(7, np.int64)
    progress[END] = given
    return Decoding(
        progress, tokens, sequence, position, embedded, rows,
        kept=np.zeros((limits.layers, total, loud), np.int32),
        now=np.zeros((given, loud + len(tables.lanes[0].source)), np.int32),
        queue=np.arange(given),
        nexts=np.zeros((given, len(tables.groups[0].targets)), np.int32),
        last=np.full((given, len(tables.groups[0].target_ptr)), -1, np.int64),
        outputs=np.zeros(given, np.int64),
        following=np.zeros((*by_head, total), np.int64),
        first=np.full((*by_head, count, values), -1, np.int64),
        final=np.full((*by_head, count, values), -1, np.int64),
        chosen=np.zeros(max(rooms), np.int64),
        made=np.zeros((count, limits.tokens), np.int64),
        counts=np.zeros(count, np.int64),
        too_long=np.zeros(count, np.bool_),
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _decode(contents, segments, block, lanes, groups, memory, embedding, known, reading, limits, run, room):  # type: ignore[no-untyped-def]
    """Decode until all sequences have ended; what is full, where something is. Another call goes on from there."""
    progress = run.progress
    while progress[BEGIN] < progress[END]:
        begin, end = progress[BEGIN], progress[END]
        fresh = end - begin
        now = run.now[:fresh]
        if not progress[EMBEDDED]:
            status = embed(contents, segments, embedding, run.tokens[begin:end], run.embedded[begin:end], known, now)
            if status < 0:
                return status
            progress[EMBEDDED] = 1
        while progress[LAYER] < limits.layers:
            status = prepare(contents, segments, lanes, memory)
            if status == FINE:
                run.kept[progress[LAYER], begin:end] = now[:, : segments.loud]
                status = _attend(contents, segments, block.heads, lanes, memory, run)
            if status == FINE:
                run.last[:fresh] = -1
                status = advance(contents, segments, block, lanes, groups, memory, run, room, fresh)
            if status != FINE:
                return status
            for t in range(fresh):
                for k in range(len(groups.targets)):
                    now[t, groups.targets[k]] = run.nexts[t, k]
            progress[LAYER] += 1
            progress[HEAD] = 0
        read_outputs(contents, segments, reading, now, room.row, run.outputs)
        _append(run, limits, len(embedding.positions) > 1)
    return FINE


@njit(cache=True, nogil=True)
def _append(run, limits, by_position):  # type: ignore[no-untyped-def]
    """Append the output of each last row to its sequence, where that goes on."""
    progress, made, counts = run.progress, run.made, run.counts
    end = progress[END]
    for row in range(progress[BEGIN], end):
        s, n = run.sequence[row], run.position[row] + 1
        if row + 1 < end and run.sequence[row + 1] == s:
            continue
        found = run.outputs[row - progress[BEGIN]]
        made[s, counts[s]] = found
        counts[s] += 1
        if found == limits.stop or counts[s] == limits.tokens:
            continue
        if n >= limits.longest:
            run.too_long[s] = True
            continue
        new = progress[END]
        run.tokens[new], run.sequence[new], run.position[new], run.rows[s, n] = found, s, n, new
        run.embedded[new] = n if by_position else 0
        progress[END] += 1
    progress[BEGIN], progress[EMBEDDED], progress[LAYER] = end, 0, 0


# --- attention ---


@njit(cache=True, nogil=True)
def _attend(contents, segments, heads, lanes, memory, run):  # type: ignore[no-untyped-def]
    """Set what every head adds at the fresh rows; what is full, where something is, or NOT_ONE_HOT."""
    progress = run.progress
    for h in range(progress[HEAD], len(heads.mode)):
        if heads.mode[h] == BY_OFFSET and heads.offset[h] != MANY_OFFSETS:
            status = _shift(segments, heads, h, lanes, memory, run)
        elif heads.mode[h] != BY_KEY:
            status = _attend_by_place(contents, segments, heads, h, lanes, memory, run)
        elif heads.order[h] >= LATEST:
            status = _attend_by_order(contents, segments, heads, h, lanes, memory, run)
        else:
            status = _attend_by_key(contents, segments, heads, h, lanes, memory, run)
        if status != FINE:
            return status
        progress[HEAD], progress[ROW], progress[LINKED] = h + 1, 0, 0
    return FINE


# Numba counts references to the arrays that it passes to a function, also where it inlines it. So what each row needs
# stands in the loops, and a function is called for averages alone.


@njit(cache=True, nogil=True)
def _shift(segments, heads, h, lanes, memory, run):  # type: ignore[no-untyped-def]
    """A head with a single offset."""
    now, rows, sequence, position = run.now, run.rows, run.sequence, run.position
    begin, kept, alone, offset = run.progress[BEGIN], run.kept[run.progress[LAYER]], memory.alone, heads.offset[h]
    for lane in range(lanes.head_ptr[h], lanes.head_ptr[h + 1]):
        column, source, nothing = segments.loud + lane, lanes.source[lane], memory.nothing[lane]
        for row in range(begin, run.progress[END]):
            j = position[row] + offset
            found = 0 <= j <= position[row]
            now[row - begin, column] = alone[kept[rows[sequence[row], j], source], lane] if found else nothing
    return FINE


@njit(cache=True, nogil=True)
def _attend_by_place(contents, segments, heads, h, lanes, memory, run):  # type: ignore[no-untyped-def]
    """A head that selects by several offsets, or by words: it looks at all positions."""
    progress, now, rows, chosen = run.progress, run.now, run.rows, run.chosen
    kept, sequence, position = run.kept[progress[LAYER]], run.sequence, run.position
    alone, nothing, sources, loud = memory.alone, memory.nothing, lanes.source, segments.loud
    allowed, ranks, order, tied = heads.allowed[h], heads.ranks[h], heads.order[h], heads.tied[h]
    reach, by_word, word = len(allowed) // 2, heads.mode[h] == BY_WORD, contents.word
    key, query, wanted = lanes.key[h], lanes.query[h], np.int64(0)
    for row in range(progress[BEGIN] + progress[ROW], progress[END]):
        t, s, i = row - progress[BEGIN], sequence[row], position[row]
        if by_word:
            wanted = word[kept[row, query]]
            if wanted < 0 or word[kept[row, key]] < 0:
                return NOT_ONE_HOT
        count, best = np.int64(0), np.int64(-1)
        for j in range(0 if allowed[0] else max(0, i - reach + 1), i + 1):
            place, source = place_of(j - i, reach), rows[s, j]
            if allowed[place] and (not by_word or word[kept[source, key]] == wanted):
                chosen[count] = source
                if count == 0 or ranks[place] > ranks[place_of(position[best] - i, reach)]:
                    best = source
                count += 1
        for lane in range(lanes.head_ptr[h], lanes.head_ptr[h + 1]):
            if is_average(order, tied, count):
                part = part_of_several(contents, segments, heads, h, lanes, lane, chosen, count, kept)
                if part < 0:
                    progress[ROW] = t
                    return part
            else:
                part = np.int64(nothing[lane] if best < 0 else alone[kept[best, sources[lane]], lane])
            now[t, loud + lane] = part
    return FINE


@njit(cache=True, nogil=True)
def _attend_by_key(contents, segments, heads, h, lanes, memory, run):  # type: ignore[no-untyped-def]
    """A head that selects by key. It follows the chain of rows with each one-hot key that the query matches.

    A row joins the chain of its key before it asks, so that the chain has the rows up to its own."""
    progress, now, chosen, following = run.progress, run.now, run.chosen, run.following[run.progress[LAYER], h]
    kept, sequence, position = run.kept[progress[LAYER]], run.sequence, run.position
    first, final = run.first[progress[LAYER], h], run.final[progress[LAYER], h]
    alone, nothing, sources, loud = memory.alone, memory.nothing, lanes.source, segments.loud
    allowed, ranks, order, tied = heads.allowed[h], heads.ranks[h], heads.order[h], heads.tied[h]
    base, match_ptr, matches = heads.match_base[h], heads.match_ptr, heads.matches
    reach, codes, key_of, query_of = len(allowed) // 2, contents.one_hot, lanes.key[h], lanes.query[h]
    for row in range(progress[BEGIN] + progress[ROW], progress[END]):
        t, s, i = row - progress[BEGIN], sequence[row], position[row]
        key, query = codes[kept[row, key_of]], codes[kept[row, query_of]]
        if key < 0 or query < 0:
            return NOT_ONE_HOT
        if progress[LINKED] <= t:
            progress[LINKED], following[row] = t + 1, -1
            if first[s, key] < 0:
                first[s, key] = row
            else:
                following[final[s, key]] = row
            final[s, key] = row
        count, best = np.int64(0), np.int64(-1)
        for m in range(match_ptr[base + query], match_ptr[base + query + 1]):
            source = first[s, matches[m]]
            while source >= 0:
                place = place_of(position[source] - i, reach)
                if allowed[place]:
                    chosen[count] = source
                    if count == 0 or ranks[place] > ranks[place_of(position[best] - i, reach)]:
                        best = source
                    count += 1
                source = following[source]
        for lane in range(lanes.head_ptr[h], lanes.head_ptr[h + 1]):
            if is_average(order, tied, count):
                part = part_of_several(contents, segments, heads, h, lanes, lane, chosen, count, kept)
                if part < 0:
                    progress[ROW] = t
                    return part
            else:
                part = np.int64(nothing[lane] if best < 0 else alone[kept[best, sources[lane]], lane])
            now[t, loud + lane] = part
    return FINE


@njit(cache=True, nogil=True)
def _attend_by_order(contents, segments, heads, h, lanes, memory, run):  # type: ignore[no-untyped-def]
    """A head that selects the latest or the earliest of the keys that match, at any offset."""
    begin, layer, now, position = run.progress[BEGIN], run.progress[LAYER], run.now, run.position
    kept, sequence, latest = run.kept[layer], run.sequence, heads.order[h] == LATEST
    preferred = run.final[layer, h] if latest else run.first[layer, h]  # key → the row that the head selects, or −1
    alone, nothing, sources, loud = memory.alone, memory.nothing, lanes.source, segments.loud
    base, match_ptr, matches = heads.match_base[h], heads.match_ptr, heads.matches
    codes, key_of, query_of = contents.one_hot, lanes.key[h], lanes.query[h]
    for row in range(begin, run.progress[END]):
        s, key, query = sequence[row], codes[kept[row, key_of]], codes[kept[row, query_of]]
        if key < 0 or query < 0:
            return NOT_ONE_HOT
        if latest or preferred[s, key] < 0:
            preferred[s, key] = row
        best = np.int64(-1)
        for m in range(match_ptr[base + query], match_ptr[base + query + 1]):
            source = preferred[s, matches[m]]
            if source >= 0 and (best < 0 or (position[source] > position[best]) == latest):
                best = source
        for lane in range(lanes.head_ptr[h], lanes.head_ptr[h + 1]):
            now[row - begin, loud + lane] = nothing[lane] if best < 0 else alone[kept[best, sources[lane]], lane]
    return FINE
