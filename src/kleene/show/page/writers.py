"""What wrote each cell of a trace: the guarded update that fired, and its line of `step`."""

from __future__ import annotations

import inspect
import linecache
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kleene.errors import RangeError
from kleene.lowering.rule_machine import UNDEFINED, RuleMachine
from kleene.machines.bitwords import part_of_name
from kleene.machines.kinds import Kind, Numerical
from kleene.machines.program import ProgramClass, step_of
from kleene.machines.spec import Spec
from kleene.machines.trace import Trace
from kleene.show.page import Numbered, gaps
from kleene.show.terminal import assignment_text, guard_text

Array = np.ndarray[Any, Any]
AROUND = 3  # lines of source shown around a line
MAX_SOURCE = 300  # lines of a step that are shown in full
MADE_FROM_RULES = "kleene.machines.written_rules"


class Writers:
    """What wrote each cell, by layer.

    `table` lists the distinct writers. A pattern says which writers write which cells in a layer: `gaps` of the cells,
    and the numbers of the writers. Layers share `patterns`; `by_layer[k]` is the number of the pattern of layer k + 1.
    A cell is the place of the variable times the number of positions, plus the position. `sources` has, for each layer
    of the cycle, the file name of `step` and the lines around those that wrote something.
    """

    def __init__(self, trace: Trace, updates: Any) -> None:
        self.trace, self.size = trace, len(trace.tokens)
        self.rows = {name: row for row, name in enumerate(trace.spec.variables)}
        self.cells: list[dict[int, int]] = [{} for _ in range(trace.layers)]
        self._table = Numbered()
        self._told: list[dict[str, Any]] = []
        steps = _steps(trace)
        for part, spec in enumerate(trace.spec.by_layer):
            layers = list(range(part, trace.layers, len(trace.spec.by_layer)))
            if layers:
                self._heads(spec, layers)
                if updates is not None:
                    self._updates(updates.by_layer[part], part, layers, _written_as_rules(steps[part]))
                self._kept(part, layers, _written_as_rules(steps[part]))
        patterns = Numbered()
        self.by_layer = [patterns(tuple(sorted(found.items()))) for found in self.cells]
        self.patterns = [[gaps(cell for cell, _ in one), [writer for _, writer in one]] for one in patterns.items]
        self.table = self._told
        self.sources = [self._source(step, part) for part, step in enumerate(steps)]

    def _writer(self, key: Any, told: dict[str, Any]) -> int:
        number = self._table(key)
        if number == len(self._told):
            self._told.append(told)
        return number

    def _heads(self, spec: Spec, layers: list[int]) -> None:
        """The cells that heads write into variables, before `step`."""
        for head in spec.moves.values():
            for layer in layers:
                for place in range(self.size):
                    if moves(self.trace, layer, spec, head.name, place):
                        told = {"how": "head", "variable": head.into, "head": head.name}
                        cell = self.rows[head.into or ""] * self.size + place
                        self.cells[layer][cell] = self._writer(("head", head.name), told)

    def _updates(self, updates: Any, part: int, layers: list[int], by_rules: bool) -> None:
        """Evaluate all layers of a part at once: each update with the rows to which it applies."""
        machine = RuleMachine(updates)
        state = indices(self.trace, updates.spec, layers)
        self._fired(machine, state, part, layers, by_rules)
        if machine.second is not None:  # it sees what the first step has written
            heads = {name: state[name] for name in updates.spec.heads}
            first = RuleMachine(replace(updates, second=None))
            variables = {name: state[name] for name in updates.spec.variables}
            self._fired(machine.second, first.step(variables, heads), part, layers, by_rules, second=True)

    def _fired(
        self,
        machine: RuleMachine,
        state: dict[str, Array],
        part: int,
        layers: list[int],
        by_rules: bool,
        second: bool = False,
    ) -> None:
        """The cells that the updates of one step write."""
        updates = machine.updates
        found = [*machine.applied(state), *machine.words_applied(state)]
        for number, (update, rows) in enumerate(zip((*updates, *updates.words), found)):
            for name in update.reads & updates.spec.heads.keys():  # an update that reads an undefined head did not fire
                rows = rows[state[name][rows] >= 0]
            told = {
                "how": "rule" if by_rules else "update",
                "variable": update.variable,
                "part": part,
                "text": assignment_text(updates.spec, update),
                "guard": guard_text(updates.spec, update.guard),
                "reads": sorted(named(updates, update.reads)),
            }
            first, writers = self.rows[update.variable] * self.size, dict[int | None, int]()
            for row in rows.tolist():
                layer, place = layers[row // self.size], row % self.size
                at = None if by_rules else self._line(layer, place, update.variable, update.line)
                if at not in writers:
                    writers[at] = self._writer((part, second, number, at), {**told, "line": at})
                self.cells[layer][first + place] = writers[at]

    def _line(self, layer: int, place: int, variable: str, otherwise: int | None) -> int | None:
        """The line that wrote a cell in the interpreter; for a network, the first line that writes the same."""
        if not self.trace.lines:
            return otherwise
        return self.trace.lines[layer][place].get(variable, otherwise)

    def _kept(self, part: int, layers: list[int], by_rules: bool) -> None:
        """Lines that wrote the value that was already there; they need no update."""
        if by_rules or not self.trace.lines:
            return
        for layer in layers:
            for place, wrote in enumerate(self.trace.lines[layer]):
                for name, line in wrote.items():
                    cell = self.rows[name] * self.size + place
                    if cell not in self.cells[layer]:
                        told = {"how": "same", "variable": name, "part": part, "line": line}
                        self.cells[layer][cell] = self._writer(("same", part, name, line), told)

    def _source(self, step: Any, part: int) -> dict[str, Any]:
        """The file name of a layer's step and the text around the lines that wrote, or why there is none."""
        wanted = sorted({w["line"] for w in self._told if w.get("part") == part and w.get("line") is not None})
        if _written_as_rules(step):
            return {"file": None, "lines": {}, "why": "The program is written as rules and has no lines of step."}
        if step is None:
            said = "A saved network has no source text; of lines that write the same it has the first."
            return {"file": None, "lines": {}, "why": said}
        filename = step.__code__.co_filename
        own = _lines_of(step)
        others = [line for line in wanted if line not in own]  # of functions that step calls
        shown = {n for line in others for n in range(max(1, line - AROUND), line + AROUND + 1)} | own
        texts = {n: linecache.getline(filename, n).rstrip("\n") for n in sorted(shown)}
        if not any(texts.values()):
            return {"file": Path(filename).name, "lines": {}, "why": "The source text is not available."}
        return {"file": Path(filename).name, "lines": texts, "why": None}


def named(updates: Any, reads: frozenset[str]) -> set[str]:
    """The variables and heads that an update reads; a comparison of words and a bit read those words."""
    found = set()
    for name in reads:
        predicate, part = updates.by_predicate.get(name), part_of_name(name)
        if predicate is not None:
            found |= named(updates, frozenset(word for word, _ in predicate.terms))
        else:
            found |= {name} if part is None or name in updates.spec.kinds else {part[0]}
    return found


def _steps(trace: Trace) -> list[Any]:
    """The step of each layer of the cycle; None for a network without its program."""
    if isinstance(trace.origin, ProgramClass):
        return [step_of(part) for part in trace.origin.by_layer]
    return [None] * len(trace.spec.by_layer)


def _lines_of(step: Any) -> set[int]:
    """The lines of a step, where they are not too many."""
    try:
        texts, first = inspect.getsourcelines(step)
    except (OSError, TypeError):
        return set()
    return set(range(first, first + len(texts))) if len(texts) <= MAX_SOURCE else set()


def _written_as_rules(step: Any) -> bool:
    return getattr(step, "__module__", None) == MADE_FROM_RULES


def moves(trace: Trace, layer: int, spec: Spec, name: str, place: int) -> bool:
    """Whether a head writes into its variable here."""
    head, before = spec.moves[name], trace.states[layer][place]
    if not all(before[limit] == spec.kinds[limit].values[index] for limit, index in head.where):
        return False
    return head.replacing is None or bool(trace.heads[layer][name][place].selected)


def indices(trace: Trace, spec: Spec, layers: list[int]) -> dict[str, Array]:
    """The indices of the values that `step` sees in these layers: variables after moves, and heads."""
    moved = {head.into: name for name, head in spec.moves.items()}
    state: dict[str, Array] = {}
    for name, variable in spec.variables.items():
        mover = moved.get(name)
        values = [
            trace.heads[k][mover][place].value if mover and moves(trace, k, spec, mover, place) else before[name]
            for k in layers
            for place, before in enumerate(trace.states[k])
        ]
        state[name] = np.array([variable.kind.index(value) for value in values], dtype=np.int64)
    for name, head in spec.heads.items():
        outputs = [at.value for k in layers for at in trace.heads[k][name]]
        state[name] = np.array([_index(head.kind, value) for value in outputs], dtype=np.int64)
    return state


def _index(kind: Kind, value: Any) -> int:
    if value is None:
        return UNDEFINED
    try:
        found = kind.index(kind.nearest(value) if isinstance(kind, Numerical) else value)
    except RangeError:  # an average that no update reads
        return UNDEFINED
    return UNDEFINED if found is None else found
