"""The kernels of the sparse evaluator: layers over numbered contents of segments (see segment_tables.py).

Numba counts references to the arrays that it passes to a function. So the functions called for every position are
inlined, or take few arrays; the others run once per layer. Numba also compiles a function once more for each literal
that it is given, so numbers are given as `np.int64(1)`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from kleene.networks.transformer.sparse_kernels import half, place_of, read_output
from kleene.networks.transformer.sparse_weights import ALL, BY_OFFSET, BY_WORD, LATEST, MANY_OFFSETS

FINE, NOT_ONE_HOT, CONTENTS_FULL, VALUES_FULL, STEPS_FULL = 0, -1, -2, -3, -4  # how a kernel ends
NOT_QUIET = -5  # a quiet segment holds something: segment s gives NOT_QUIET − s
MIX = 6364136223846793005  # an odd factor, for hashes
UNKNOWN = -1


@njit(cache=True, nogil=True)
def fill_slots(hashes, count, slots):  # type: ignore[no-untyped-def]
    """Put entries into empty slots, each at its hash or at the next free slot."""
    for entry in range(count):
        place = hashes[entry] & (len(slots) - 1)
        while slots[place] >= 0:
            place = (place + 1) & (len(slots) - 1)
        slots[place] = entry


@njit(cache=True, nogil=True, inline="always")
def _finish(found):  # type: ignore[no-untyped-def]
    """A hash whose low bits depend on all the bits before, not negative."""
    return (found ^ (found >> 32)) & 0x7FFFFFFFFFFFFFFF


# --- contents of segments ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def intern(contents, segments, s, vector):  # type: ignore[no-untyped-def]
    """The number of a segment's content, which begins `vector`; or what is full."""
    size, values, slots = segments.size[s], contents.values, contents.slots
    found = np.int64(s + 1) * MIX
    for k in range(size):
        if vector[k] != 0:
            found = (found ^ (np.int64(vector[k] * 4096) + 65599 * np.int64(k + 1))) * MIX
    found = _finish(found)
    place = found & (len(slots) - 1)
    while slots[place] >= 0:
        entry = slots[place]
        if contents.hashes[entry] == found and contents.segment[entry] == s:
            begin, same = contents.begin[entry], True
            for k in range(size):
                same = same and values[begin + k] == vector[k]
            if same:
                return entry
        place = (place + 1) & (len(slots) - 1)
    entry, begin = contents.sizes[0], contents.sizes[1]
    if entry == len(contents.hashes):
        return CONTENTS_FULL
    if begin + size > len(values):
        return VALUES_FULL
    contents.sizes[0], contents.sizes[1], slots[place] = entry + 1, begin + size, entry
    contents.hashes[entry], contents.segment[entry], contents.begin[entry] = found, s, begin
    _describe(contents, segments, s, vector, entry)
    return entry


@njit(cache=True, nogil=True)
def _describe(contents, segments, s, vector, entry):  # type: ignore[no-untyped-def]
    """Return what a new content means: its one, its bits, and what it adds to the halting score."""
    ones, place, word, score, whole = 0, UNKNOWN, 0, contents.halting[entry] * 0, True
    for k in range(segments.size[s]):
        value = vector[k]
        contents.values[contents.begin[entry] + k] = value
        score += segments.halt_weight[segments.start[s] + k] * value
        if value != 0:
            ones += 1
            place = k
            whole = whole and value == 1
            word |= 1 << min(k, 62)
    contents.one_hot[entry] = place if ones == 1 and whole else UNKNOWN
    contents.word[entry] = word if whole and segments.size[s] <= 62 else UNKNOWN
    contents.halting[entry] = score
    contents.output[entry] = UNKNOWN


@njit(cache=True, nogil=True)
def intern_rows(contents, segments, rows, now):  # type: ignore[no-untyped-def]
    """Number the contents of the loud segments of some rows; what is full, where something is."""
    for i in range(len(rows)):
        for s in range(segments.loud):
            found = intern(contents, segments, s, rows[i, segments.start[s] :])
            if found < 0:
                return found
            now[i, s] = found
    return FINE


@njit(cache=True, nogil=True)
def embed(contents, segments, embedding, given, places, known, now):  # type: ignore[no-untyped-def]
    """Number the contents at the start. `known` has (token, segment) and (position, segment) → content, or −1.

    Where both a token and a position write a segment, their sum is its content."""
    by_token, by_position = known
    for i in range(len(given)):
        token, place = given[i], places[i]
        for s in range(segments.loud):
            begin, size = segments.start[s], segments.size[s]
            if by_token[token, s] < 0:
                by_token[token, s] = intern(contents, segments, s, embedding.tokens[token, begin:])
            if by_position[place, s] < 0:
                by_position[place, s] = intern(contents, segments, s, embedding.positions[place, begin:])
            a, b = np.int64(by_token[token, s]), np.int64(by_position[place, s])
            if a < 0 or b < 0:
                by_token[token, s], by_position[place, s] = max(a, -1), max(b, -1)
                return min(a, b)
            if b != contents.zero[s]:
                both = embedding.tokens[token, begin : begin + size] + embedding.positions[place, begin : begin + size]
                a = b if a == contents.zero[s] else intern(contents, segments, s, both)
                if a < 0:
                    return a
            now[i, s] = a
    return FINE


@njit(cache=True, nogil=True)
def expand(contents, segments, now, rows):  # type: ignore[no-untyped-def]
    """Write the rows whose loud segments have these contents."""
    for i in range(len(now)):
        for s in range(segments.loud):
            begin = contents.begin[now[i, s]]
            for k in range(segments.size[s]):
                rows[i, segments.start[s] + k] = contents.values[begin + k]


# --- what heads add ---------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _part(contents, segments, lanes, lane, source):  # type: ignore[no-untyped-def]
    """Return what a lane adds where its head selects a row whose source segment has this content; or what is full."""
    vector = np.zeros(segments.size[lanes.target[lane]], contents.values.dtype)
    for k in range(lanes.copy_ptr[lane], lanes.copy_ptr[lane + 1]):
        vector[lanes.to[k]] += contents.values[contents.begin[source] + lanes.at[k]] * lanes.weight[k]
    return intern(contents, segments, lanes.target[lane], vector)


@njit(cache=True, nogil=True)
def _null_part(contents, segments, lanes, lane, parts):  # type: ignore[no-untyped-def]
    """Return what a lane adds where the null key has one of this many equal parts of the attention; or what is full."""
    vector = np.zeros(segments.size[lanes.target[lane]], contents.values.dtype)
    for k in range(lanes.null_ptr[lane], lanes.null_ptr[lane + 1]):
        vector[lanes.null_to[k]] += lanes.null_weight[k] / parts
    return intern(contents, segments, lanes.target[lane], vector)


@njit(cache=True, nogil=True)
def _average_part(contents, segments, lanes, lane, chosen, count, now):  # type: ignore[no-untyped-def]
    """Return what a lane adds where its head selects several positions; or what is full."""
    vector = np.zeros(segments.size[lanes.target[lane]], contents.values.dtype)
    for k in range(count):
        begin = contents.begin[now[chosen[k], lanes.source[lane]]]
        for e in range(lanes.copy_ptr[lane], lanes.copy_ptr[lane + 1]):
            vector[lanes.to[e]] += contents.values[begin + lanes.at[e]] * lanes.weight[e]
    for k in range(len(vector)):  # the sum of whole numbers, divided once
        vector[k] /= count
    return intern(contents, segments, lanes.target[lane], vector)


@njit(cache=True, nogil=True)
def prepare(contents, segments, lanes, memory):  # type: ignore[no-untyped-def]
    """Know what every lane adds for the contents of its source segment, and for no position; or what is full."""
    for lane in range(len(lanes.source)):
        if memory.nothing[lane] < 0:
            found = _null_part(contents, segments, lanes, lane, np.int64(1))
            if found < 0:
                return found
            memory.nothing[lane] = found
    while memory.described[0] < contents.sizes[0]:  # what this adds has lanes, too
        entry = memory.described[0]
        for lane in range(len(lanes.source)):
            if lanes.source[lane] == contents.segment[entry]:
                found = _part(contents, segments, lanes, lane, entry)
                if found < 0:
                    return found
                memory.alone[entry, lane] = found
        memory.described[0] += 1
    return FINE


# --- attention --------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, inline="always")
def _put(now, i, column, part, queued, time, queue, todo):  # type: ignore[no-untyped-def]
    """Set what a lane adds at a position; where that is something else, the position goes on the queue."""
    if now[i, column] != part:
        now[i, column] = part
        if queued[i] != time:
            queued[i] = time
            queue[todo] = i
            return todo + 1
    return todo


@njit(cache=True, nogil=True)
def attend(contents, segments, heads, lanes, memory, batch, moved):  # type: ignore[no-untyped-def]
    """Update what every head adds; how many positions are on the queue, or what is wrong.

    moved: how many positions changed in the layer before; the queue begins with those."""
    batch.time[0] += 1
    todo, time, queue, queued = moved, batch.time[0], batch.queue, batch.queued
    for t in range(moved):
        queue[t] = batch.moved[t]
        queued[queue[t]] = time
    if batch.going[2]:  # nothing is selected yet
        for lane in range(len(lanes.source)):
            batch.now[:, batch.loud + lane] = memory.nothing[lane]
        batch.going[2] = 0
    for h in range(len(heads.mode)):
        if heads.mode[h] == BY_OFFSET and heads.offset[h] != MANY_OFFSETS:
            todo = _shift(heads, h, lanes, memory, batch, moved, todo)
        else:
            stale = _stale_sequences(heads, h, lanes, batch, moved)
            if heads.mode[h] == BY_OFFSET:
                todo = _select_by_offset(contents, segments, heads, h, lanes, batch, stale, todo)
            elif not _read_codes(contents, heads, h, lanes, batch, stale):
                return NOT_ONE_HOT
            elif heads.order[h] >= LATEST:
                _select_by_order(heads, h, batch, stale)
            else:
                todo = _select_by_key(contents, segments, heads, h, lanes, batch, stale, todo)
            if todo < 0:
                return todo
            todo = _put_picked(h, lanes, memory, batch, stale, todo)
    return todo


@njit(cache=True, nogil=True)
def _shift(heads, h, lanes, memory, batch, moved, todo):  # type: ignore[no-untyped-def]
    """A head with a single offset: it adds something else where the selected position has moved."""
    now, where, low, high = batch.now, batch.moved, batch.low, batch.high
    queued, time, queue, alone = batch.queued, batch.time[0], batch.queue, memory.alone
    offset = heads.offset[h]
    if heads.causal and offset > 0:
        return todo
    for lane in range(lanes.head_ptr[h], lanes.head_ptr[h + 1]):
        column, source = batch.loud + lane, lanes.source[lane]
        for t in range(moved):
            j = where[t]
            i = j - offset
            if low[j] <= i < high[j]:
                part = alone[now[j, source], lane]
                if now[i, column] != part:  # as _put does, without counting references
                    now[i, column] = part
                    if queued[i] != time:
                        queued[i] = time
                        queue[todo] = i
                        todo += 1
    return todo


@njit(cache=True, nogil=True)
def _stale_sequences(heads, h, lanes, batch, moved):  # type: ignore[no-untyped-def]
    """List the sequences in which a position has another key, query or value than in the layer before.

    Where only values differ and the head averages nothing, it picks the same positions again (`same_picks`)."""
    now, before, where, sequence = batch.now, batch.before, batch.moved, batch.sequence
    stale, marked, same_picks, averages = batch.stale, batch.marked, batch.same_picks, batch.averages[h]
    batch.time[1] += 1
    count, time = 0, batch.time[1]
    key, query, begin, end = lanes.key[h], lanes.query[h], lanes.head_ptr[h], lanes.head_ptr[h + 1]
    by_key, sources = heads.mode[h] != BY_OFFSET, lanes.source
    for t in range(moved):
        i = where[t]
        s = sequence[i]
        anew = before[i, 0] < 0 or (by_key and (now[i, key] != before[i, key] or now[i, query] != before[i, query]))
        changed = anew
        for lane in range(begin, end):
            changed = changed or now[i, sources[lane]] != before[i, sources[lane]]
        if changed and marked[s] != time:
            marked[s], stale[count], same_picks[s] = time, s, not averages[s]
            count += 1
        if anew:
            same_picks[s] = False
    return count


@njit(cache=True, nogil=True)
def _read_codes(contents, heads, h, lanes, batch, stale):  # type: ignore[no-untyped-def]
    """Read keys and queries of the sequences that select anew; false where one is no value."""
    now, keys, queries, starts, ends = batch.now, batch.keys, batch.queries, batch.starts, batch.ends
    codes = contents.word if heads.mode[h] == BY_WORD else contents.one_hot
    key, query = lanes.key[h], lanes.query[h]
    for k in range(stale):
        s = batch.stale[k]
        if batch.same_picks[s]:
            continue
        for i in range(starts[s], ends[s]):
            keys[i], queries[i] = codes[now[i, key]], codes[now[i, query]]
            if keys[i] < 0 or queries[i] < 0:
                return False
    return True


@njit(cache=True, nogil=True)
def part_of_several(contents, segments, heads, h, lanes, lane, chosen, count, now):  # type: ignore[no-untyped-def]
    """Return what a lane adds where its head selects the first `count` of `chosen`, or counts them; or what is full."""
    if heads.tied[h]:
        return _null_part(contents, segments, lanes, lane, count + 1)
    return _average_part(contents, segments, lanes, lane, chosen, count, now)


@njit(cache=True, nogil=True)
def _put_average(contents, segments, heads, h, lanes, batch, i, count, todo):  # type: ignore[no-untyped-def]
    """Set what a head adds at a position where it selects the first `count` of `batch.chosen`, or counts them."""
    now, time = batch.now, batch.time[0]
    for lane in range(lanes.head_ptr[h], lanes.head_ptr[h + 1]):
        part = part_of_several(contents, segments, heads, h, lanes, lane, batch.chosen, count, now)
        if part < 0:
            return part
        todo = _put(now, i, batch.loud + lane, part, batch.queued, time, batch.queue, todo)
    return todo


NOTHING, DONE = -1, -2  # in place of the position that is selected; below DONE: the same as an earlier position


@njit(cache=True, nogil=True)
def _put_picked(h, lanes, memory, batch, stale, todo):  # type: ignore[no-untyped-def]
    """Set what a head adds in the sequences that are stale, from the position that each of their positions has picked.

    A sequence that picks the same again passes over those that have picked a position that is not on the queue."""
    now, picked, queued, time, queue = batch.now, batch.picked[h], batch.queued, batch.time[0], batch.queue
    alone, starts, ends = memory.alone, batch.starts, batch.ends
    for lane in range(lanes.head_ptr[h], lanes.head_ptr[h + 1]):
        column, source, nothing = batch.loud + lane, lanes.source[lane], memory.nothing[lane]
        for k in range(stale):
            s = batch.stale[k]
            begin, only_moved = starts[s], batch.same_picks[s]
            for i in range(begin, ends[s]):
                pick = picked[i]
                if pick == DONE or (pick >= 0 and only_moved and queued[pick] != time):
                    continue
                if pick >= 0:
                    part = alone[now[pick, source], lane]
                else:
                    part = nothing if pick == NOTHING else now[begin + DONE - 1 - pick, column]
                if now[i, column] != part:  # as _put does, without counting references
                    now[i, column] = part
                    if queued[i] != time:
                        queued[i] = time
                        queue[todo] = i
                        todo += 1
    return todo


@njit(cache=True, nogil=True, inline="always")
def _same_everywhere(mode, order, causal, allowed):  # type: ignore[no-untyped-def]
    """Whether what a query selects does not depend on where it is asked."""
    return mode != BY_WORD and order == ALL and not causal and allowed.all()


@njit(cache=True, nogil=True, inline="always")
def is_average(order, tied, count):  # type: ignore[no-untyped-def]
    """Whether a head that selects `count` positions adds something else than one of them does."""
    return order == ALL and (count > 1 or (tied and count > 0))


@njit(cache=True, nogil=True)
def _select_by_offset(contents, segments, heads, h, lanes, batch, stale, todo):  # type: ignore[no-untyped-def]
    """A head that selects by several offsets."""
    allowed, ranks, causal, tied = heads.allowed[h], heads.ranks[h], heads.causal, heads.tied[h]
    chosen, picked = batch.chosen, batch.picked[h]
    reach, order = len(allowed) // 2, heads.order[h]
    everywhere = _same_everywhere(BY_OFFSET, order, causal, allowed)
    for k in range(stale):
        s = batch.stale[k]
        if batch.same_picks[s]:
            continue
        begin, end = batch.starts[s], batch.ends[s]
        batch.averages[h, s] = False
        for i in range(begin, end):
            if everywhere and i > begin:
                picked[i] = DONE - 1  # the same as the first
                continue
            count, best = np.int64(0), NOTHING
            low = begin if allowed[0] else max(begin, i - reach + 1)
            high = end if allowed[-1] else min(end, i + reach)
            for j in range(low, min(high, i + 1) if causal else high):
                if allowed[place_of(j - i, reach)]:
                    chosen[count] = j
                    if count == 0 or ranks[place_of(j - i, reach)] > ranks[place_of(best - i, reach)]:
                        best = j
                    count += 1
            picked[i] = best
            if is_average(order, tied, count):
                picked[i], batch.averages[h, s] = DONE, True
                todo = _put_average(contents, segments, heads, h, lanes, batch, i, count, todo)
                if todo < 0:
                    return todo
    return todo


@njit(cache=True, nogil=True)
def _chain(keys, n, buckets, following):  # type: ignore[no-untyped-def]
    """Chain the positions whose keys are in the same bucket; there are a power of two of buckets."""
    buckets[:] = -1
    for j in range(n - 1, -1, -1):
        bucket = keys[j] & (len(buckets) - 1)
        following[j], buckets[bucket] = buckets[bucket], j


@njit(cache=True, nogil=True)
def _select_by_key(contents, segments, heads, h, lanes, batch, stale, todo):  # type: ignore[no-untyped-def]
    """A head that selects by key: it follows the chain of positions with each key that the query matches."""
    allowed, ranks, causal, tied = heads.allowed[h], heads.ranks[h], heads.causal, heads.tied[h]
    chosen, buckets, following, asked = batch.chosen, batch.buckets, batch.following, batch.asked
    reach, order, by_word = len(allowed) // 2, heads.order[h], heads.mode[h] == BY_WORD
    base, match_ptr, matches = heads.match_base[h], heads.match_ptr, heads.matches
    everywhere = _same_everywhere(heads.mode[h], order, causal, allowed)
    for k in range(stale):
        s = batch.stale[k]
        if batch.same_picks[s]:
            continue
        begin, end = batch.starts[s], batch.ends[s]
        keys, queries, picked = batch.keys[begin:end], batch.queries[begin:end], batch.picked[h, begin:end]
        batch.averages[h, s] = False
        _chain(keys, end - begin, buckets, following)
        for i in range(end - begin):
            query = queries[i]
            if everywhere:
                r = asked[query]  # the position that asked last
                asked[query] = i
                if r < i and queries[r] == query:
                    picked[i] = picked[r] if picked[r] != DONE else DONE - 1 - r
                    continue
            count, best = np.int64(0), NOTHING
            first, last = (0, 1) if by_word else (match_ptr[base + query], match_ptr[base + query + 1])
            for m in range(first, last):
                key = query if by_word else matches[m]
                j = buckets[key & (len(buckets) - 1)]
                while j >= 0 and not (causal and j > i):
                    if keys[j] == key and allowed[place_of(j - i, reach)]:
                        chosen[count] = begin + j
                        if count == 0 or ranks[place_of(j - i, reach)] > ranks[place_of(best - begin - i, reach)]:
                            best = begin + j
                        count += 1
                    j = following[j]
            picked[i] = best
            if is_average(order, tied, count):
                picked[i], batch.averages[h, s] = DONE, True
                todo = _put_average(contents, segments, heads, h, lanes, batch, begin + i, count, todo)
                if todo < 0:
                    return todo
    return todo


@njit(cache=True, nogil=True)
def _select_by_order(heads, h, batch, stale):  # type: ignore[no-untyped-def]
    """A head that selects the latest or the earliest of the keys that match, at any offset."""
    causal, latest, preferred = heads.causal, heads.order[h] == LATEST, batch.preferred
    base, match_ptr, matches = heads.match_base[h], heads.match_ptr, heads.matches
    for k in range(stale):
        s = batch.stale[k]
        if batch.same_picks[s]:
            continue
        begin, end = batch.starts[s], batch.ends[s]
        keys, queries, picked = batch.keys[begin:end], batch.queries[begin:end], batch.picked[h, begin:end]
        batch.averages[h, s] = False
        preferred[: heads.key[h, 1]] = -1
        if not causal:
            for j in range(end - begin):
                if latest or preferred[keys[j]] < 0:
                    preferred[keys[j]] = j
        for i in range(end - begin):
            if causal and (latest or preferred[keys[i]] < 0):
                preferred[keys[i]] = i
            best = -1
            for m in range(match_ptr[base + queries[i]], match_ptr[base + queries[i] + 1]):
                j = preferred[matches[m]]
                if j >= 0 and (best < 0 or (j > best) == latest):
                    best = j
            picked[i] = begin + best if best >= 0 else NOTHING


# --- units ------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, inline="always")
def _find(table, key):  # type: ignore[no-untyped-def]
    """The place of a key in a table of keys and values in turn, or of the first free place for it."""
    mixed = key * MIX
    place = (mixed ^ (mixed >> 32)) & (len(table) // 2 - 1)
    while table[2 * place] != key and table[2 * place] >= 0:
        place = (place + 1) & (len(table) // 2 - 1)
    return 2 * place


@njit(cache=True, nogil=True)
def refill(old, new):  # type: ignore[no-untyped-def]
    """Put the keys and values of a table into a larger one."""
    for k in range(0, len(old), 2):
        if old[k] >= 0:
            place = _find(new, old[k])
            new[place], new[place + 1] = old[k], old[k + 1]


@njit(cache=True, nogil=True)
def advance(contents, segments, block, lanes, groups, memory, batch, room, todo):  # type: ignore[no-untyped-def]
    """Find or compute what the queued positions hold after the block; what is full, where something is.

    What a group reads is one key: its variant, and `bits` for each content. Where that does not fit into a word, the
    words before the last are numbered, and the next word begins with the number and bit 62 in place of the variant."""
    now, queue, nexts, table, bits = batch.now, batch.queue, batch.nexts, memory.table, groups.bits
    key_ptr, columns, target_ptr, targets = groups.key_ptr, groups.columns, groups.target_ptr, groups.targets
    last, slots = batch.last, len(table) // 2 - 1
    whole, selector, one_hot = groups.whole, groups.selector, contents.one_hot
    plain = _look_at_contents(contents, segments, groups.plain, memory)
    for t in range(todo):
        i = queue[t]
        for g in range(len(whole)):
            variant = whole[g]
            if plain and selector[g] >= 0:
                variant += 1 + one_hot[now[i, selector[g]]]
            tag, key, used, size = variant << (62 - groups.width), np.int64(0), 0, 62 - groups.width
            for k in range(key_ptr[variant], key_ptr[variant + 1]):
                if used + bits > size:
                    number = _number(memory, tag | key)
                    if number < 0:
                        return STEPS_FULL
                    tag, key, used, size = (1 << 62) | (number << 31), np.int64(0), 0, 31
                key = (key << bits) | now[i, columns[k]]
                used += bits
            key |= tag
            if last[i, g] == key:  # the segments hold what this has made already
                for k in range(target_ptr[g], target_ptr[g + 1]):
                    nexts[t, k] = now[i, targets[k]]
                continue
            last[i, g] = key
            mixed = key * MIX  # as _find does, without counting references
            place = 2 * ((mixed ^ (mixed >> 32)) & slots)
            while table[place] != key and table[place] >= 0:
                place = (place + 2) & (2 * slots + 1)
            if table[place] < 0:
                made = _compute_step(contents, segments, block, lanes, groups, now, room, i, g)
                if made < 0:
                    return made
                if memory.sizes[0] >= len(table) // 4:
                    return STEPS_FULL
                table[place], table[place + 1] = key, made
                memory.sizes[0] += 1
            made = table[place + 1]
            for k in range(target_ptr[g + 1] - 1, target_ptr[g] - 1, -1):
                nexts[t, k] = made & ((1 << bits) - 1)
                made >>= bits
    return FINE


@njit(cache=True, nogil=True)
def _look_at_contents(contents, segments, plain, memory):  # type: ignore[no-untyped-def]
    """Whether all contents so far of the segments that are to be plain have a single one, or none."""
    for entry in range(memory.sizes[2], contents.sizes[0]):
        s = contents.segment[entry]
        if plain[s] and contents.one_hot[entry] < 0:
            for k in range(segments.size[s]):
                if contents.values[contents.begin[entry] + k] != 0:
                    memory.plain[0] = False
    memory.sizes[2] = contents.sizes[0]
    return memory.plain[0]


@njit(cache=True, nogil=True)
def _number(memory, key):  # type: ignore[no-untyped-def]
    """The number of a word of a longer key; −1 where the table is full."""
    place = _find(memory.table, key)
    if memory.table[place] < 0:
        if memory.sizes[0] >= len(memory.table) // 4:
            return -1
        memory.table[place], memory.table[place + 1] = key, memory.sizes[1]
        memory.sizes[0] += 1
        memory.sizes[1] += 1
    return memory.table[place + 1]


@njit(cache=True, nogil=True)
def _compute_step(contents, segments, block, lanes, groups, now, room, i, g):  # type: ignore[no-untyped-def]
    """Compute from the weights what a group's segments hold after the block: all in one word; or what is full.

    Units that write these segments read only the segments of the group's columns; the others stay zero here."""
    row, columns, targets, quiets = room.row, groups.columns, groups.targets, groups.quiets
    row[0, :] = 0
    for k in range(groups.key_ptr[groups.whole[g]], groups.key_ptr[groups.whole[g] + 1]):
        s = columns[k] if columns[k] < segments.loud else lanes.target[columns[k] - segments.loud]
        values = contents.begin[now[i, columns[k]]]
        for m in range(segments.size[s]):
            row[0, segments.start[s] + m] += contents.values[values + m]
    if len(block.first.bias) > 0:
        half(row, 0, block.first, room.sums, room.mark, room.touched, room.changes, room.dims)
    half(row, 0, block.second, room.sums, room.mark, room.touched, room.changes, room.dims)
    for k in range(groups.quiet_ptr[g], groups.quiet_ptr[g + 1]):
        for dim in range(segments.start[quiets[k]], segments.start[quiets[k]] + segments.size[quiets[k]]):
            if row[0, dim] != 0:
                return NOT_QUIET - quiets[k]
    packed = np.int64(0)
    for k in range(groups.target_ptr[g], groups.target_ptr[g + 1]):
        made = intern(contents, segments, targets[k], row[0, segments.start[targets[k]] :])
        if made < 0:
            return made
        packed = (packed << groups.bits) | made
    return packed


# --- layers -----------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _commit(groups, batch, todo, compares):  # type: ignore[no-untyped-def]
    """Go to what the layer has made; how many positions hold something else than before.

    compares: whether a head compares what the positions hold with what they held before."""
    now, before, nexts, queue, where = batch.now, batch.before, batch.nexts, batch.queue, batch.moved
    targets, moved = groups.targets, 0
    for t in range(todo):
        i, changed = queue[t], False
        for k in range(len(targets)):
            if now[i, targets[k]] != nexts[t, k]:
                if compares and not changed:
                    for s in range(batch.loud):
                        before[i, s] = now[i, s]
                now[i, targets[k]] = nexts[t, k]
                changed = True
        if changed:
            where[moved] = i
            moved += 1
    return moved


@njit(cache=True, nogil=True)
def _finish_sequences(contents, segments, batch, moved, layer, first):  # type: ignore[no-untyped-def]
    """Count the positions that have the halt value; positions of sequences in which all have it move no more."""
    now, where, sequence, waiting, halted = batch.now, batch.moved, batch.sequence, batch.waiting, batch.halted
    for t in range(len(now) if first else moved):
        i = t if first else where[t]
        score = segments.halt_bias
        for k in range(len(segments.halting)):
            score += contents.halting[now[i, segments.halting[k]]]
        if (score > 0) != halted[i]:
            halted[i] = score > 0
            waiting[sequence[i]] += -1 if halted[i] else 1
    left = 0
    for t in range(moved):
        if waiting[sequence[where[t]]] > 0:
            where[left] = where[t]
            left += 1
    for s in range(len(waiting)):
        if waiting[s] == 0 and batch.layers[s] < 0:
            batch.layers[s] = layer
    return left


@njit(cache=True, nogil=True)
def run_layers(contents, segments, block, lanes, groups, memory, batch, room, layer, count, halts):  # type: ignore[no-untyped-def]
    """Run layers layer + 1 … layer + count with one block; how it ended, and the number of the last layer.

    Only the `batch.going[0]` positions that changed in the layer before can change others."""
    moved, heads = batch.going[0], block.heads
    compares = ((heads.mode != BY_OFFSET) | (heads.offset == MANY_OFFSETS)).any()  # the others are shifts
    while count > 0 and moved > 0:
        status = prepare(contents, segments, lanes, memory)
        if status < 0:
            return status, layer
        todo = attend(contents, segments, block.heads, lanes, memory, batch, moved)
        if todo < 0:
            return todo, layer
        status = advance(contents, segments, block, lanes, groups, memory, batch, room, todo)
        if status < 0:
            return status, layer
        first = batch.going[1] == 0
        batch.going[1] = 1
        moved = _commit(groups, batch, todo, compares)
        layer, count = layer + 1, count - 1
        if halts:
            moved = _finish_sequences(contents, segments, batch, moved, layer, first)
        batch.going[0] = moved
    return FINE, layer


@njit(cache=True, nogil=True)
def read_outputs(contents, segments, reading, now, row, outputs):  # type: ignore[no-untyped-def]
    """The output at every position; where it is read from one segment, once for every content."""
    output = contents.output
    for i in range(len(now)):
        content = now[i, segments.output[0]]
        if len(segments.output) == 1 and output[content] >= 0:
            outputs[i] = output[content]
            continue
        for k in range(len(segments.output)):
            s = segments.output[k]
            begin = contents.begin[now[i, s]]
            for m in range(segments.size[s]):
                row[0, segments.start[s] + m] = contents.values[begin + m]
        outputs[i] = output[content] = read_output(row[0], reading)
