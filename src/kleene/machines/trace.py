"""The trace of a run: every variable, head, position and layer."""

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
    evaluator: str = field(default="interpreter", compare=False)  # the evaluator that made the trace
    origin: Any = field(default=None, compare=False, repr=False)  # the program or network that was run
    lines: tuple[Lines, ...] = field(
        default=(), compare=False, repr=False
    )  # lines[k]: the lines of `step` that wrote in layer k + 1

    @property
    def layers(self) -> int:
        return len(self.heads)

    @property
    def outputs(self) -> Output:
        return Output((int(state[self.spec.output]) for state in self.states[-1]), self.layers, self.spec.answer)

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
        """A self-contained HTML page to step through the run.

        - `path`: also write the page to this file.
        - `weights`: add a view of the weights of the network by named dimension; by default for small networks.
        - `text`: the input as text, for the title.
        """
        from kleene.evidence.program_page import program_page

        return program_page(self, weights=weights, text=text).write(path)

    def _repr_html_(self) -> str:
        from kleene.evidence.program_page import program_page

        return program_page(self).framed()
