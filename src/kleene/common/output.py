"""The result of a run, of programs and networks alike: the outputs, and how many layers it took."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any


class Output(list[int]):
    """The outputs of one run, position by position; `layers` says how many layers it took.

    >>> Output([0, 1], layers=3)
    [0, 1]
    """

    layers: int

    def __init__(self, values: Iterable[int], layers: int, answer: Callable[[Sequence[int]], str | None] | None = None):
        super().__init__(values)
        self.layers, self.answer = layers, answer

    @property
    def text(self) -> str | None:
        """The answer as text; None where the program does not say how its outputs are written."""
        return None if self.answer is None else self.answer(self)

    def __reduce__(self) -> Any:
        return Output, (list(self), self.layers)  # the program that writes the text stays where it is


def check_layers(name: str, layers: int | None, least: int = 0, most: int | None = None) -> None:
    """Check that `layers`, where given, is a whole number from `least` to `most`.

    `most` is there where the ranges of the program's variables hold for so many layers only.
    """
    from kleene.errors import InputError

    if layers is not None and (not isinstance(layers, int) or layers < least):
        raise InputError(f"{name}: layers={layers!r}; it must be a whole number of {least} or more")
    if layers is not None and most is not None and layers > most:
        raise InputError(
            f"{name}: layers={layers}; after its {most} layers a variable may leave its range, so it runs no more than "
            "these; kl.cat(…, saturate=True) or wrap=True keeps it inside"
        )
