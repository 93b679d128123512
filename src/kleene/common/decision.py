"""The result of running a machine, or the network that simulates it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

Answer = Literal["accept", "reject"] | None


@dataclass(frozen=True)
class Decision:
    """The answer ("accept", "reject", or None while still running), and how many steps the machine took."""

    answer: Answer
    steps: int
    state: str | None = None
    tape: tuple[str, ...] | None = None  # without the blanks at its ends (on a one-way tape, at its right end)
    head: int | None = None  # the place of the head on that tape; may lie outside it

    def __str__(self) -> str:
        said = {"accept": "accepts", "reject": "rejects", None: "still running"}[self.answer]
        lines = [f"{said} after {self.steps:,} step{'' if self.steps == 1 else 's'}"]
        if self.state is not None:
            lines.append(f"state {self.state}, head on cell {self.head}")
        if self.tape is not None:
            text = self.text
            lines.append(f"tape {text}" if len(text) <= 200 else f"tape {text[:200]}… ({len(self.tape):,} cells)")
        return "\n".join(lines)

    @property
    def text(self) -> str:
        """The tape as text."""
        cells = self.tape or ()
        return ("" if all(len(s) == 1 for s in cells) else " ").join(cells)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "answer": self.answer,
            "steps": self.steps,
            "state": self.state,
            "tape": None if self.tape is None else list(self.tape),
            "head": self.head,
        }


def trimmed(
    left: Sequence[str], symbol: str, right: Sequence[str], blank: str, two_way: bool
) -> tuple[tuple[str, ...], int]:
    """Cut the outer blanks off a tape; return the tape and the place of the head on it.

    left, right: the cells beside the head, nearest first.
    symbol: the cell under the head.
    blank: the symbol to cut off.
    two_way: also cut at the left end.
    """
    cells = [*reversed(left), symbol, *right]
    head = len(left)
    end = len(cells)
    while end and cells[end - 1] == blank:
        end -= 1
    begin = 0
    while two_way and begin < end and cells[begin] == blank:
        begin += 1
    if two_way and begin == end:
        return (), 0  # all blank: there is no cell to count from
    return tuple(cells[begin:end]), head - begin
