"""The loops of automata, compiled by Numba: running, minimising, comparing, products, subset construction."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True)
def run_batch(table: np.ndarray, start: int, codes: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The state after each word; word i is codes[offsets[i]:offsets[i + 1]]."""
    words = offsets.shape[0] - 1
    states = np.empty(words, np.int32)
    for i in range(words):
        state = start
        for t in range(offsets[i], offsets[i + 1]):
            state = table[state, codes[t]]
        states[i] = state
    return states


@njit(cache=True)
def breadth_first(table: np.ndarray, start: int) -> np.ndarray:
    """The reachable states in breadth-first order."""
    states, symbols = table.shape
    order = np.empty(states, np.int32)
    seen = np.zeros(states, np.bool_)
    order[0], seen[start], count, at = start, True, 1, 0
    while at < count:
        for a in range(symbols):
            r = table[order[at], a]
            if not seen[r]:
                seen[r] = True
                order[count] = r
                count += 1
        at += 1
    return order[:count]


@njit(cache=True)
def predecessors(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The predecessors p with δ(p, a) = q are sources[starts[a·n + q]:starts[a·n + q + 1]]."""
    states, symbols = table.shape
    starts = np.zeros(states * symbols + 1, np.int64)
    for p in range(states):
        for a in range(symbols):
            starts[a * states + table[p, a] + 1] += 1
    for i in range(states * symbols):
        starts[i + 1] += starts[i]
    free = starts[:-1].copy()
    sources = np.empty(states * symbols, np.int32)
    for p in range(states):
        for a in range(symbols):
            i = a * states + table[p, a]
            sources[free[i]] = p
            free[i] += 1
    return starts, sources


@njit(cache=True)
def hopcroft(table: np.ndarray, accepting: np.ndarray) -> np.ndarray:
    """The number of each state's class in the coarsest partition that respects F and δ (Hopcroft)."""
    states, symbols = table.shape
    starts, sources = predecessors(table)
    members = np.empty(states, np.int32)  # states, those of one block side by side
    place = np.empty(states, np.int32)  # where a state is in `members`
    block = np.zeros(states, np.int32)
    first = np.zeros(states + 1, np.int32)
    size = np.zeros(states + 1, np.int32)
    marked = np.zeros(states + 1, np.int32)  # how many of a block's first members are marked
    count = 0
    for want in (True, False):
        begin = size[0] if count else 0
        at = begin
        for q in range(states):
            if accepting[q] == want:
                members[at], place[q], block[q] = q, at, count
                at += 1
        if at > begin:
            first[count], size[count] = begin, at - begin
            count += 1
    waiting = np.zeros((states + 1) * symbols, np.bool_)
    work = np.empty((states + 1) * symbols, np.int64)
    pending = 0
    for a in range(symbols):
        for b in range(count):
            work[pending] = b * symbols + a
            waiting[b * symbols + a] = True
            pending += 1
    found = np.empty(states, np.int32)
    touched = np.empty(states, np.int32)
    while pending:
        pending -= 1
        code = work[pending]
        waiting[code] = False
        splitter, a = code // symbols, code % symbols
        hits = 0
        for i in range(first[splitter], first[splitter] + size[splitter]):
            at = a * states + members[i]
            for j in range(starts[at], starts[at + 1]):
                found[hits] = sources[j]
                hits += 1
        blocks = 0
        for i in range(hits):
            p = found[i]
            b = block[p]
            if marked[b] == 0:
                touched[blocks] = b
                blocks += 1
            here, there = place[p], first[b] + marked[b]
            other = members[there]
            members[here], members[there] = other, p
            place[other], place[p] = here, there
            marked[b] += 1
        for i in range(blocks):
            b = touched[i]
            m = marked[b]
            marked[b] = 0
            if m == size[b]:
                continue
            first[count], size[count] = first[b], m
            first[b] += m
            size[b] -= m
            for j in range(first[count], first[count] + m):
                block[members[j]] = count
            for c in range(symbols):
                smaller = count if waiting[b * symbols + c] or size[count] <= size[b] else b
                work[pending] = smaller * symbols + c
                waiting[smaller * symbols + c] = True
                pending += 1
            count += 1
    return block


@njit(cache=True)
def _root(parent: np.ndarray, x: int) -> int:
    while parent[x] != x:
        parent[x] = parent[parent[x]]
        x = parent[x]
    return x


@njit(cache=True)
def hopcroft_karp(
    left: np.ndarray,
    left_accepting: np.ndarray,
    left_start: int,
    right: np.ndarray,
    right_accepting: np.ndarray,
    right_start: int,
) -> tuple[int, np.ndarray, np.ndarray]:
    """The place of the first difference in the queue (−1: none), and each pair's predecessor and symbol.

    Pairs are merged in breadth-first order, so the first difference has a shortest word: if a pair that a
    word v tells apart is skipped because it is already merged, v tells one of the merged pairs apart, and
    these came no later.
    """
    states = left.shape[0]
    total = states + right.shape[0]
    parent = np.arange(total)
    queue = np.empty((total + 1, 2), np.int32)
    came_from = np.empty(total + 1, np.int32)
    by = np.empty(total + 1, np.int32)
    queue[0, 0], queue[0, 1], came_from[0], by[0] = left_start, right_start, -1, -1
    if left_accepting[left_start] != right_accepting[right_start]:
        return 0, came_from, by
    parent[states + right_start] = left_start
    count, at = 1, 0
    while at < count:
        for a in range(left.shape[1]):
            p, q = left[queue[at, 0], a], right[queue[at, 1], a]
            x, y = _root(parent, p), _root(parent, states + q)
            if x == y:
                continue
            queue[count, 0], queue[count, 1], came_from[count], by[count] = p, q, at, a
            if left_accepting[p] != right_accepting[q]:
                return count, came_from, by
            parent[y] = x
            count += 1
        at += 1
    return -1, came_from, by


TOO_MANY_STATES, TOO_MUCH_WORK = -1, -2
_MIX = np.uint64(0x9E3779B97F4A7C15)


@njit(cache=True)
def _slot(key: int | np.int64, mask: int) -> np.int64:
    mixed = np.uint64(key) * _MIX
    return np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(mask))


@njit(cache=True)
def _grown(array: np.ndarray, size: int) -> np.ndarray:
    larger = np.empty(size, array.dtype)
    larger[: array.shape[0]] = array
    return larger


@njit(cache=True)
def product(
    left: np.ndarray, left_start: int, right: np.ndarray, right_start: int, limit: int
) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    """The pairs of states that words reach, breadth-first: how many, the left and right states, and the table.

    The count is TOO_MANY_STATES where there are more than `limit`. Pairs are found again through a hash table.
    """
    symbols = left.shape[1]
    width = np.int64(right.shape[0])
    room, capacity = 1024, 4096
    lefts, rights = np.empty(room, np.int32), np.empty(room, np.int32)
    table = np.empty(room * symbols, np.int32)
    slots = np.full(capacity, -1, np.int32)
    lefts[0], rights[0], count, at = left_start, right_start, 1, 0
    slots[_slot(left_start * width + right_start, capacity - 1)] = 0
    while at < count:
        for a in range(symbols):
            p, q = left[lefts[at], a], right[rights[at], a]
            i = _slot(p * width + q, capacity - 1)
            while slots[i] >= 0 and (lefts[slots[i]] != p or rights[slots[i]] != q):
                i = (i + 1) & (capacity - 1)
            if slots[i] < 0:
                if count >= limit:
                    return TOO_MANY_STATES, lefts, rights, table
                if count == room:
                    room *= 2
                    lefts, rights, table = _grown(lefts, room), _grown(rights, room), _grown(table, room * symbols)
                lefts[count], rights[count], slots[i] = p, q, count
                table[at * symbols + a] = count
                count += 1
                if 2 * count > capacity:
                    capacity *= 4
                    slots = np.full(capacity, -1, np.int32)
                    for k in range(count):
                        j = _slot(lefts[k] * width + rights[k], capacity - 1)
                        while slots[j] >= 0:
                            j = (j + 1) & (capacity - 1)
                        slots[j] = k
            else:
                table[at * symbols + a] = slots[i]
        at += 1
    return count, lefts[:count], rights[:count], table[: count * symbols]


@njit(cache=True)
def _close(
    members: np.ndarray, size: int, stamp: np.ndarray, now: int, empty_starts: np.ndarray, empty: np.ndarray
) -> int:
    """Add what empty moves reach to the first `size` members, and stamp all members `now`."""
    at = 0
    while at < size:
        q = members[at]
        for k in range(empty_starts[q], empty_starts[q + 1]):
            r = empty[k]
            if stamp[r] != now:
                stamp[r] = now
                members[size] = r
                size += 1
        at += 1
    return size


@njit(cache=True)
def _prune(
    members: np.ndarray,
    size: int,
    keep: np.ndarray,
    rank_starts: np.ndarray,
    rank_keys: np.ndarray,
    ranks: np.ndarray,
    best: np.ndarray,
) -> int:
    """Drop members that read nothing, and those that another member dominates (same key, smaller rank).

    A state of one copy of an optional repeat accepts all that the same state of a later copy accepts. Each
    domination lowers one rank and keeps the others, so no two members dominate each other.
    """
    for i in range(size):
        for k in range(rank_starts[members[i]], rank_starts[members[i] + 1]):
            if ranks[k] < best[rank_keys[k]]:
                best[rank_keys[k]] = ranks[k]
    kept = 0
    for i in range(size):
        q = members[i]
        good = keep[q]
        for k in range(rank_starts[q], rank_starts[q + 1]):
            good = good and ranks[k] == best[rank_keys[k]]
        if good:
            members[size + kept] = q
            kept += 1
    for i in range(size):
        for k in range(rank_starts[members[i]], rank_starts[members[i] + 1]):
            best[rank_keys[k]] = 2147483647
    members[:kept] = members[size : size + kept]
    return kept


@njit(cache=True)
def _gather(
    sources: np.ndarray,
    symbol: int,
    symbols: int,
    starts: np.ndarray,
    targets: np.ndarray,
    scratch: np.ndarray,
    stamp: np.ndarray,
    now: int,
) -> int:
    """Write each state that `sources` reach on a symbol into `scratch` once. Return the number of states."""
    size = 0
    for q in sources:
        cell = np.int64(q) * symbols + symbol
        for k in range(starts[cell], starts[cell + 1]):
            r = targets[k]
            if stamp[r] != now:
                stamp[r] = now
                scratch[size] = r
                size += 1
    return size


@njit(cache=True)
def _hash_of(members: np.ndarray) -> np.uint64:
    code = np.uint64(members.shape[0])
    for q in members:
        code = (code ^ np.uint64(q)) * _MIX
        code ^= code >> np.uint64(29)
    return code


@njit(cache=True)
def _find(
    found: np.ndarray, code: np.uint64, slots: np.ndarray, hashes: np.ndarray, offsets: np.ndarray, members: np.ndarray
) -> tuple[int, np.int64]:
    """The number of a set, −1 where it is new, and its slot in the hash table."""
    mask = slots.shape[0] - 1
    i = np.int64(code & np.uint64(mask))
    while slots[i] >= 0:
        k = slots[i]
        same = hashes[k] == code and offsets[k + 1] - offsets[k] == found.shape[0]
        if same and np.array_equal(members[offsets[k] : offsets[k + 1]], found):
            return k, i
        i = (i + 1) & mask
    return -1, i


@njit(cache=True)
def _rehashed(hashes: np.ndarray, count: int, capacity: int) -> np.ndarray:
    slots = np.full(capacity, -1, np.int32)
    for k in range(count):
        i = np.int64(hashes[k] & np.uint64(capacity - 1))
        while slots[i] >= 0:
            i = (i + 1) & (capacity - 1)
        slots[i] = k
    return slots


@njit(cache=True)
def subset_construction(
    first: np.ndarray,
    symbols: int,
    starts: np.ndarray,
    targets: np.ndarray,
    empty_starts: np.ndarray,
    empty: np.ndarray,
    keep: np.ndarray,
    rank_starts: np.ndarray,
    rank_keys: np.ndarray,
    ranks: np.ndarray,
    limit: int,
    work: int,
) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    """The sets of states that words reach, breadth-first: how many, the table, and the sets one after another.

    q goes to targets[starts[q·symbols + a]:starts[q·symbols + a + 1]] on a, and by empty moves to
    empty[empty_starts[q]:empty_starts[q + 1]]. Set i is members[offsets[i]:offsets[i + 1]], sorted. The count is
    TOO_MANY_STATES above `limit` sets and TOO_MUCH_WORK after `work` moves.
    """
    states = keep.shape[0]
    stamp = np.full(states, -1, np.int64)
    best = np.full(rank_keys.max() + 1 if rank_keys.shape[0] else 1, 2147483647, np.int32)
    scratch = np.empty(2 * states + 2, np.int32)
    room, held = 256, 4096
    table = np.empty(room * symbols, np.int32)
    offsets = np.zeros(room + 1, np.int64)
    hashes = np.empty(room, np.uint64)
    members = np.empty(held, np.int32)
    slots = np.full(1024, -1, np.int32)
    count, at, now, done = 0, -1, 0, 0
    while at < count:
        for a in range(symbols if at >= 0 else 1):
            now += 1
            if at < 0:
                size = first.shape[0]
                scratch[:size] = first
                for q in first:
                    stamp[q] = now
            else:
                size = _gather(members[offsets[at] : offsets[at + 1]], a, symbols, starts, targets, scratch, stamp, now)
                done += offsets[at + 1] - offsets[at]
            size = _close(scratch, size, stamp, now, empty_starts, empty)
            done += size
            if done > work:
                return TOO_MUCH_WORK, table, offsets, members
            size = _prune(scratch, size, keep, rank_starts, rank_keys, ranks, best)
            found = scratch[:size]
            found.sort()
            code = _hash_of(found)
            number, slot = _find(found, code, slots, hashes, offsets, members)
            if number < 0:
                if count >= limit:
                    return TOO_MANY_STATES, table, offsets, members
                if count == room:
                    room *= 2
                    table, hashes = _grown(table, room * symbols), _grown(hashes, room)
                    offsets = _grown(offsets, room + 1)
                while offsets[count] + size > held:
                    held *= 2
                    members = _grown(members, held)
                number = count
                members[offsets[count] : offsets[count] + size] = found
                offsets[count + 1] = offsets[count] + size
                hashes[count], slots[slot] = code, count
                count += 1
                if 2 * count > slots.shape[0]:
                    slots = _rehashed(hashes, count, 4 * slots.shape[0])
            if at >= 0:
                table[at * symbols + a] = number
        at += 1
    return count, table[: count * symbols], offsets[: count + 1], members[: offsets[count]]


@njit(cache=True)
def distances(starts: np.ndarray, sources: np.ndarray, accepting: np.ndarray, symbols: int) -> np.ndarray:
    """The length of a shortest word from each state to an accepting one; −1 where there is none."""
    states = accepting.shape[0]
    distance = np.full(states, -1, np.int64)
    queue = np.empty(states, np.int32)
    count, at = 0, 0
    for q in range(states):
        if accepting[q]:
            distance[q] = 0
            queue[count] = q
            count += 1
    while at < count:
        q = queue[at]
        at += 1
        for a in range(symbols):
            cell = a * states + q
            for k in range(starts[cell], starts[cell + 1]):
                p = sources[k]
                if distance[p] < 0:
                    distance[p] = distance[q] + 1
                    queue[count] = p
                    count += 1
    return distance
