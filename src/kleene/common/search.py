"""Breadth-first search: the states that can be reached, numbered in the order in which they are found."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

State = TypeVar("State")


def breadth_first(
    first: State,
    successors: Callable[[State], Iterable[State]],
    *,
    key: Callable[[State], Hashable],
    limit: int,
    error: Callable[[], Exception],
) -> Iterator[tuple[State, list[int]]]:
    """Yield each state that can be reached from `first`, with the numbers of its successors.

    key: equal for equal states.
    limit: the most states.
    error: makes what is raised above the limit.

    >>> halves = breadth_first(6, lambda n: (n // 2, n % 2), key=int, limit=9, error=ValueError)
    >>> list(halves)
    [(6, [1, 2]), (3, [3, 3]), (0, [2, 2]), (1, [2, 3])]
    """
    number: dict[Hashable, int] = {key(first): 0}
    queue = [first]
    for state in queue:
        row = []
        for after in successors(state):
            known = key(after)
            if known not in number:
                if len(queue) >= limit:
                    raise error()
                number[known] = len(queue)
                queue.append(after)
            row.append(number[known])
        yield state, row
