"""What a run gives back, on both sides: the outputs, and how many layers made them."""

from __future__ import annotations

from collections.abc import Iterable


class Output(list[int]):
    """The outputs of one run, position by position; `layers` says how many layers were run.

    >>> Output([0, 1], layers=3)
    [0, 1]
    """

    layers: int

    def __init__(self, values: Iterable[int], layers: int) -> None:
        super().__init__(values)
        self.layers = layers
