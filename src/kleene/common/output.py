"""The result of a run, of programs and networks alike: the outputs, and how many layers it took."""

from __future__ import annotations

from collections.abc import Iterable


class Output(list[int]):
    """The outputs of one run, position by position; `layers` says how many layers it took.

    >>> Output([0, 1], layers=3)
    [0, 1]
    """

    layers: int

    def __init__(self, values: Iterable[int], layers: int) -> None:
        super().__init__(values)
        self.layers = layers


def check_layers(name: str, layers: int | None, least: int = 0) -> None:
    """Check that `layers`, where given, is a whole number of at least `least`."""
    from kleene.errors import InputError

    if layers is not None and (not isinstance(layers, int) or layers < least):
        raise InputError(f"{name}: layers={layers!r}; it must be a whole number of {least} or more")
