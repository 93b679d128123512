"""The page of a run: changes from layer to layer, what heads select, and which update wrote each cell."""

from __future__ import annotations

import inspect
import re
import sys
from typing import Any

from kleene.lowering.layout import show_value
from kleene.machines.program import ProgramClass
from kleene.machines.spec import HeadSpec, Spec
from kleene.machines.trace import HeadOutput, Trace
from kleene.show.labels import Labels
from kleene.show.page import Numbered, Page, gaps
from kleene.show.page.live import kinds_data, updates_data
from kleene.show.page.weights import weights_data
from kleene.show.page.writers import Writers, moves


def program_page(trace: Trace, updates: Any, network: Any, without: str | None, text: str | None = None) -> Page:
    """The page of a trace.

    updates: the guarded updates of what was run, or None.
    network: the network whose weights are shown, or None.
    without: why no weights are shown.
    text: the input as it was written, for the title.
    """
    spec, shown, rows = trace.spec, Labels(trace), Numbered()
    spec.refuse_parts("the page")
    written = Writers(trace, updates)
    data = {
        "title": spec.name,
        "text": text,
        "evaluator": trace.evaluator,
        "about": _about(trace),
        "tokens": [shown.label("tokens", token) for token in trace.tokens],
        "ids": list(trace.tokens),
        "answer": None if spec.max_tokens is not None else trace.outputs.text,
        "variables": [_variable(spec, name) for name in spec.variables],
        "heads": [_head(head) for head in (*spec.heads.values(), *spec.moves.values())],
        "cycle": [name for name, _ in spec.cycle],
        "output": spec.output,
        "decoder": spec.max_tokens is not None,
        "initial": [shown(name, state[name]) for name in spec.variables for state in trace.states[0]],
        "changes": [_changes(trace, layer, shown) for layer in range(trace.layers)],
        "looks": [_looks(heads, shown, rows) for heads in trace.heads],
        "moved": [_moved(trace, layer, shown) for layer in range(trace.layers)] if spec.moves else [],
        "writes": written.by_layer,
        "patterns": written.patterns,
        "writers": written.table,
        "sources": written.sources,
        "weights": None if network is None else weights_data(network),
        "without_weights": without,
    }
    if network is not None:
        data |= _live(trace, updates, shown, written.sources)
    data |= {"values": shown.numbered.items, "rows": rows.items}
    title = f"{spec.name}: {text}" if text else f"{spec.name}, {len(trace.tokens)} tokens"
    return Page("program", title, data)


def _live(trace: Trace, updates: Any, shown: Labels, sources: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what the page needs to run the network on other inputs."""
    spec = trace.spec
    names = [shown.label("tokens", token) for token in range(spec.tokens)]
    return {
        "kinds": kinds_data(spec, shown.label),
        "updates": updates_data(updates, sources),
        "token_names": [] if names == [str(token) for token in range(spec.tokens)] else names,
        "alphabet": None if spec.text is None else spec.text.to_json(),
        "max_tokens": spec.max_tokens,
    }


def _about(trace: Trace) -> str | None:
    """One sentence about the program: the first of its docstring."""
    if not isinstance(trace.origin, ProgramClass):
        return None
    maker = getattr(sys.modules.get(trace.origin.__module__), trace.origin.__qualname__.split(".")[0], None)
    said = vars(trace.origin).get("__doc__") or (inspect.getdoc(maker) if inspect.isfunction(maker) else None)
    return None if said is None else " ".join(re.split(r"\n\s*\n", said)[0].split())


def _variable(spec: Spec, name: str) -> dict[str, Any]:
    variable = spec.variables[name]
    begins = "token" if variable.by_token is not None else "position" if variable.by_position is not None else "default"
    halt = spec.halt.get(name)
    return {
        "name": name,
        "kind": f"{variable.kind.name} {variable.kind.describe()}",
        "begins": begins,
        "halt": None if halt is None else show_value(variable.kind.values[halt]),
    }


def _head(head: HeadSpec) -> dict[str, Any]:
    """Write a head as its declaration reads."""
    offsets = sorted(head.offsets) if head.offsets is not None else None
    if head.query is None and offsets is not None and len(offsets) == 1:
        parts = [head.value, str(offsets[0])]
    else:
        parts = [head.query or "anything", head.key or "anything", head.value]
        parts += [f"offsets={offsets}"] if offsets is not None else []
    parts += [f"default={show_value(head.kind.values[head.default])}"] if head.default is not None else []
    parts += [f"where {name} = {value}" for name, value in head.where]
    parts += [f"among {name} = {value}" for name, value in head.among]
    parts += [f"{head.prefer}=True"] if head.prefer is not None else []
    parts += [f"into={head.into}"] if head.into is not None else []
    parts += [f"replacing={head.replacing}"] if head.replacing is not None else []
    kind = "relative" if head.query is None and offsets is not None and len(offsets) == 1 else "attend"
    return {"name": head.name, "value": head.value, "told": f"{kind}({', '.join(parts)})", "into": head.into}


def _changes(trace: Trace, layer: int, shown: Labels) -> list[list[int]]:
    """The cells that a layer changes, as `gaps`, and the numbers of the new texts."""
    before, after = trace.states[layer], trace.states[layer + 1]
    found = {
        row * len(after) + place: shown(name, new[name])
        for row, name in enumerate(trace.spec.variables)
        for place, (old, new) in enumerate(zip(before, after))
        if old[name] != new[name]
    }
    return [gaps(found), list(found.values())]


def _looks(heads: dict[str, list[HeadOutput]], shown: Labels, rows: Numbered) -> dict[str, list[int]]:
    """Two rows for each head of a layer, shared between layers: its outputs, and the positions that it selects."""
    found = {}
    for name, outputs in heads.items():
        values = tuple(-1 if at.value is None else shown(name, at.value) for at in outputs)
        found[name] = [rows(values), rows(tuple(_runs(at.selected) for at in outputs))]
    return found


def _moved(trace: Trace, layer: int, shown: Labels) -> list[list[int]]:
    """The cells that heads had written when `step` began, and the numbers of their texts."""
    part, rows = trace.spec.by_layer[layer % len(trace.spec.by_layer)], list(trace.spec.variables)
    return [
        [rows.index(head.into or "") * len(trace.tokens) + place, shown(name, at.value)]
        for name, head in part.moves.items()
        for place, at in enumerate(trace.heads[layer][name])
        if moves(trace, layer, part, name, place)
    ]


def _runs(selected: tuple[int, ...]) -> tuple[int, ...]:
    """Encode positions as runs: first, last, first, last, …"""
    found: list[int] = []
    for place in selected:
        if found and place == found[-1] + 1:
            found[-1] = place
        else:
            found += [place, place]
    return tuple(found)
