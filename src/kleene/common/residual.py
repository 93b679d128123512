"""The dimensions of the residual stream by name, as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class Segment:
    """The dimensions of one variable, head or set of scratch values.

    `coding`: "one-hot" (a dimension per value), "scalar" (a numerical head's average, times `scale`),
    "bits" (a word's binary digits, lowest first) or "scratch" (written in the first half of the MLP block,
    cleared in the second). `kind`: "variable", "head" or "scratch".
    """

    name: str
    start: int
    size: int
    coding: str
    labels: tuple[str, ...]
    scale: int = 1
    kind: str = field(default="", compare=False)  # empty in files that lack it

    @property
    def stop(self) -> int:
        return self.start + self.size

    @property
    def slice(self) -> slice:
        return slice(self.start, self.stop)

    @property
    def cells(self) -> list[str]:
        """The row of the segment in the printed table."""
        dims = str(self.start) if self.size == 1 else f"{self.start} … {self.stop - 1}"
        shown = ", ".join(self.labels[:6]) + (f", … ({self.size})" if self.size > 6 else "")
        return [self.name, self.kind, dims, self.coding, shown]

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "start": self.start,
            "size": self.size,
            "coding": self.coding,
            "labels": list(self.labels),
            "scale": self.scale,
            "kind": self.kind,
        }


@dataclass(frozen=True)
class Layout:
    """The residual stream, segment by segment: a table.

    >>> print(Layout((Segment("done", 0, 2, "one-hot", ("done=0", "done=1"), kind="variable"),)))
    name  kind      dimensions  coding   values
    done  variable  0 … 1       one-hot  done=0, done=1
    """

    segments: tuple[Segment, ...]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self.segments)

    def __getitem__(self, name: str) -> Segment:
        if name in self._by_name or not name.endswith("]"):
            return self._by_name[name]
        word, _, places = name[:-1].rpartition("[")  # a part of a word: "pc[3]" or "pc[0:16]"
        start, _, stop = places.partition(":")
        whole, first = self._by_name[word], int(start)
        size = int(stop or first + 1) - first
        labels = whole.labels[first : first + size]
        return Segment(name, whole.start + first, size, whole.coding, labels, whole.scale, whole.kind)

    def place(self, name: str, index: int) -> int:
        """The dimension that is 1 where a variable has a value, or where a bit is 1."""
        segment = self[name]
        return segment.start + (0 if segment.coding == "bits" else index)

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    @cached_property
    def _by_name(self) -> Mapping[str, Segment]:
        return {segment.name: segment for segment in self.segments}

    @property
    def size(self) -> int:
        return self.segments[-1].stop if self.segments else 0

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The name of every dimension."""
        return tuple(label for segment in self.segments for label in segment.labels)

    def to_rows(self) -> list[dict[str, Any]]:
        """The table as plain rows, for a data frame or a file."""
        return self.to_json()

    def __str__(self) -> str:
        return _table(["name", "kind", "dimensions", "coding", "values"], [segment.cells for segment in self.segments])

    def to_json(self) -> list[dict[str, Any]]:
        return [segment.to_json() for segment in self.segments]

    @classmethod
    def from_json(cls, content: Any) -> Layout:
        return cls(tuple(Segment(**{**entry, "labels": tuple(entry["labels"])}) for entry in content))


def _table(titles: list[str], rows: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(titles, *rows)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in [titles, *rows])
