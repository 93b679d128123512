"""Words of many lengths side by side: sorted by length, so that one run takes them all."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np


class Packed:
    """Words sorted by length, longest first.

    `order[i]` is the place of the i-th word in the given list; `at(t)` gives the symbols at time t of the
    `counts[t]` words that are longer than t.

    >>> packed = Packed(np.array([0, 1, 1]), np.array([0, 2, 2, 3]))        # "ab", "", "b"
    >>> packed.order.tolist(), packed.counts.tolist(), [packed.at(t).tolist() for t in range(2)]
    ([0, 2, 1], [2, 1], [[0, 1], [1]])
    """

    def __init__(self, codes: np.ndarray, offsets: np.ndarray) -> None:
        lengths = np.diff(offsets)
        self.order = np.argsort(-lengths, kind="stable")
        self.lengths = lengths[self.order]
        self.codes = codes
        self.begins = offsets[:-1][self.order]
        longest = int(self.lengths[0]) if len(self.lengths) else 0
        # how many words are longer than t, for t = 0 … longest − 1
        self.counts = np.searchsorted(-self.lengths, -np.arange(longest), side="left")

    def at(self, t: int) -> np.ndarray:
        """The codes at time t of the words that are longer than t."""
        return np.asarray(self.codes[self.begins[: self.counts[t]] + t])

    def groups(self, cells: int) -> Iterator[slice]:
        """Cut the sorted words into groups of at most `cells` symbols each, or of one word."""
        begin = 0
        while begin < len(self.order):
            width = max(1, int(self.lengths[begin]))
            end = min(len(self.order), begin + max(1, cells // width))
            yield slice(begin, end)
            begin = end
