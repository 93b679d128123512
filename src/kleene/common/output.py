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


def check_layers(name: str, layers: int | None, least: int = 0) -> None:
    """A number of layers to run, where one is given, is a whole number of at least 0 (for a decoder, 1)."""
    from kleene.errors import InputError

    if layers is not None and (not isinstance(layers, int) or layers < least):
        raise InputError(f"{name}: layers={layers!r}; it must be a whole number of {least} or more")
