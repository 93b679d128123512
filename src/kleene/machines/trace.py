"""What a run leaves behind: every variable, head, position and layer."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kleene.common.output import Output
from kleene.machines.kinds import Value
from kleene.machines.spec import Spec

States = list[dict[str, Value]]  # by position: variable → value
Lines = list[dict[str, int | None]]  # by position: variable → the line of `step` that wrote it


@dataclass(frozen=True)
class HeadOutput:
    """What one head gives at one position: the positions it selected, and the value (None: undefined)."""

    selected: tuple[int, ...]
    value: Value | None


@dataclass(frozen=True)
class Trace:
    """Every variable, head, position and layer of one run; prints as tables, and is a page in a notebook."""

    spec: Spec
    tokens: tuple[int, ...]
    states: tuple[States, ...]  # states[k][position][variable] after k layers
    heads: tuple[dict[str, list[HeadOutput]], ...]  # heads[k][name][position] in layer k + 1
    evaluator: str = field(default="interpreter", compare=False)  # who ran it
    origin: Any = field(default=None, compare=False, repr=False)  # the program or network that was run
    lines: tuple[Lines, ...] = field(default=(), compare=False, repr=False)  # lines[k]: what layer k + 1 wrote

    @property
    def layers(self) -> int:
        return len(self.heads)

    @property
    def outputs(self) -> Output:
        return Output((int(state[self.spec.output]) for state in self.states[-1]), layers=self.layers)

    def __str__(self) -> str:
        from kleene.show.terminal import trace_text

        return trace_text(self)

    def __rich__(self) -> Any:
        from kleene.show.terminal import trace_table

        return trace_table(self)

    def to_json(self) -> dict[str, Any]:
        """The trace as plain data."""
        from kleene.show.terminal import trace_json

        return trace_json(self)

    def to_html(self, path: str | Path | None = None, *, weights: bool | None = None, text: str | None = None) -> str:
        """A page to step through the run, as one self-contained text; also written to `path` where one is given.

        `weights` adds a view of the network's weights by named dimension: by default where the network is small.
        `text` is the input as it was written, for the title.
        """
        from kleene.evidence.program_page import program_page

        return program_page(self, weights=weights, text=text).write(path)

    def _repr_html_(self) -> str:
        from kleene.evidence.program_page import program_page

        return program_page(self).framed()
