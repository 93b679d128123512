"""The names of tokens and values: those of the program's alphabet and labels, otherwise the values."""

from __future__ import annotations

from typing import Any

from kleene.lowering.layout import show_value
from kleene.machines.program import ProgramClass
from kleene.machines.spec import Spec
from kleene.machines.trace import Trace
from kleene.show.page import Numbered


class Labels:
    """Number the texts of values: the program's `labels` if it has them, otherwise the values."""

    def __init__(self, trace: Trace) -> None:
        labels = getattr(trace.origin, "labels", None) if isinstance(trace.origin, ProgramClass) else None
        self.labels: dict[str, Any] = labels if isinstance(labels, dict) else {}
        self.labels = {**labels_of_text(trace.spec), **self.labels}
        self.spec, self.numbered = trace.spec, Numbered()
        self._known: dict[tuple[str, Any], int] = {}

    def __call__(self, name: str, value: Any) -> int:
        """The number of the text for a value of a variable or head."""
        key = name, value
        if key not in self._known:
            self._known[key] = self.numbered(self.label(name, value))
        return self._known[key]

    def label(self, name: str, value: Any) -> str:
        head = self.spec.heads.get(name) or self.spec.moves.get(name)
        if head is not None:  # a head's output has the labels of its value
            return self.label(head.value, value) if head.kind == self.spec.kinds[head.value] else show_value(value)
        labels = self.labels.get(name, ())
        index = value if name == "tokens" else self.spec.kinds[name].index(value)
        return str(labels[index]) if index is not None and index < len(labels) else show_value(value)


def labels_of_text(spec: Spec) -> dict[str, tuple[str, ...]]:
    """The names that an alphabet gives to tokens, to variables that hold a token, and to outputs."""
    if spec.text is None:
        return {}
    alphabet, tokens = spec.text.alphabet, tuple(range(spec.tokens))
    found = {
        name: alphabet for name, v in spec.variables.items() if v.by_token == tokens and len(v.kind) == spec.tokens
    }
    names = {spec.output: spec.text.names} if spec.text.names else {}
    return {**found, **names, "tokens": alphabet}
