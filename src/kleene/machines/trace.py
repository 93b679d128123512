"""What a run leaves behind: every variable, head, position and layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kleene.machines.program import Spec, Value
from kleene.results import Output

States = list[dict[str, Value]]  # by position: variable → value


@dataclass(frozen=True)
class HeadOutput:
    """What one head gives at one position: the positions it selected, and the value (None: undefined)."""

    selected: tuple[int, ...]
    value: Value | None


@dataclass(frozen=True)
class Trace:
    """Every variable, head, position and layer of one run; prints as tables."""

    spec: Spec
    tokens: tuple[int, ...]
    states: tuple[States, ...]  # states[k][position][variable] after k layers
    heads: tuple[dict[str, list[HeadOutput]], ...]  # heads[k][name][position] in layer k + 1

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
