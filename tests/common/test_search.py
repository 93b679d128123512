"""Breadth-first search: every state once, numbered as found, with the successors of each."""

from __future__ import annotations

import random

import pytest

from kleene.common.search import breadth_first
from kleene.errors import DidNotHalt


@pytest.mark.parametrize("seed", range(5))
def test_a_random_graph_is_numbered_by_distance(seed: int) -> None:
    chance = random.Random(seed)
    graph = {node: [chance.randrange(30) for _ in range(3)] for node in range(30)}
    distance, at = {0: 0}, 0
    while any(d == at for d in distance.values()):  # all nodes at one distance, then those next to them
        for node in [node for node, d in distance.items() if d == at]:
            for after in graph[node]:
                distance.setdefault(after, at + 1)
        at += 1
    found = list(breadth_first(0, graph.__getitem__, key=int, limit=30, error=ValueError))
    nodes = [node for node, _ in found]
    assert sorted(nodes) == sorted(distance)
    assert [distance[node] for node in nodes] == sorted(distance.values())
    assert all([nodes[number] for number in row] == graph[node] for node, row in found)


def test_more_states_than_the_limit_are_an_error() -> None:
    def error() -> DidNotHalt:
        return DidNotHalt("too many")

    def search(limit: int) -> list[tuple[int, list[int]]]:
        return list(breadth_first(1, lambda n: (2 * n % 7,), key=int, limit=limit, error=error))

    assert search(3) == [(1, [1]), (2, [2]), (4, [0])]
    with pytest.raises(DidNotHalt, match="too many"):
        search(2)
