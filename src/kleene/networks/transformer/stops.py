"""Runs that can pause: which evaluators have them, and why a run stops. This file does not import torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kleene.errors import NotSupported, RangeError

Array = np.ndarray[Any, Any]
EVALUATORS = ("dense", "rows", "lookup", "generated", "lanes", "lanes-numba")  # those that can pause
HALTED, WATCHED, PAUSED = "halted", "watched", "paused"


@dataclass(frozen=True)
class Watch:
    """Stop after a layer of this place in the cycle if a dimension of a row is 1."""

    place: int
    row: int
    dim: int

    def sees(self, place: int, row: Callable[[int], Array]) -> bool:
        """Whether to stop after a layer of this place."""
        return self.place == place and bool(row(self.row)[self.dim] == 1)


def check_broken(name: str, layers: int, broken: int) -> None:
    """Raise where a run leaves what is known to be exact: 1, 3: a row is not zeros and ones; 2: a word is missing."""
    where = f"{name}: in layer {layers + 1:,}"
    if broken in (1, 3):
        kind = "at rest" if broken == 1 else "that works"
        raise NotSupported(f"{where} a row {kind} holds something else than zeros and ones; use 'dense'")
    if broken:
        raise RangeError(f"{where} a head looks for a word that no row has")
