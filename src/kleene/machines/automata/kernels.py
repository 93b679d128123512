"""The loops of `automaton.py`, compiled by Numba: running, minimising, comparing."""

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
    """The states that can be reached, in breadth-first order."""
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
def _predecessors(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """p with δ(p, a) = q are sources[starts[a·n + q]:starts[a·n + q + 1]]."""
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
    starts, sources = _predecessors(table)
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
    """Where in the queue the first difference is (−1: none), each pair's predecessor and its symbol.

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
