"""Every MLP input and output of a program's runs, as arrays. Trace supervision and minimality use them.

A row is one position in one layer of one run: all variables and head outputs before `step`, and all variables
after it. Equal rows are kept once, with their number and the place of the first. Inputs in a batch do not affect each
other: the traces of many inputs are the union of the traces of each.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kleene.common.tokens import Tokens
from kleene.errors import FileError, NotSupported
from kleene.files import written_atomically
from kleene.lowering.guarding import guarded_updates
from kleene.lowering.layout import average_scale
from kleene.lowering.rule_machine import UNDEFINED, RuleMachine, _selected_sums, _whole
from kleene.lowering.updates import Cycle, Updates
from kleene.machines.program import ProgramClass
from kleene.machines.spec import Spec

Array = np.ndarray[Any, Any]
BATCH = 1_000
MAX_FILE_BYTES = 1 << 31
PLACES = ("count", "input", "layer", "position")


@dataclass(frozen=True)
class Traces:
    """Rows without duplicates. Values are indices into the declared values; −1 is an undefined head.

    `before` has variables and heads, `after` has variables, and `averages` has the exact outputs of numerical heads.
    A row occurs `count` times, first in run `input` at `position` in `layer` (the first layer is 1).
    """

    spec: Spec
    before: dict[str, Array]
    after: dict[str, Array]
    averages: dict[str, Array]
    count: Array
    input: Array
    layer: Array
    position: Array

    def __len__(self) -> int:
        return len(self.count)

    def assignments(self) -> Array:
        """The MLP inputs as one array (row, variable), heads included, in the order of `spec.kinds`."""
        return np.stack([self.before[name] for name in self.spec.kinds], axis=1)

    def save(self, path: str | Path) -> None:
        """Write the arrays to a safetensors file, with the program's description in it."""
        import json

        from safetensors.numpy import save_file

        groups = {"before": self.before, "after": self.after, "averages": self.averages}
        arrays = {f"{group}.{name}": array for group, named in groups.items() for name, array in named.items()}
        arrays |= {name: getattr(self, name) for name in PLACES}
        with written_atomically(path) as made:
            tidy = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
            save_file(tidy, made, metadata={"program": json.dumps(self.spec.to_json())})

    @classmethod
    def load(cls, path: str | Path) -> Traces:
        """Read a file that `save` wrote. No code in the file is run."""
        import json

        from safetensors import SafetensorError, safe_open

        path = Path(path)
        if not path.is_file() or path.stat().st_size > MAX_FILE_BYTES:
            raise FileError(f"{path}: no such file, or larger than {MAX_FILE_BYTES:,} bytes")
        try:
            with safe_open(path, framework="numpy") as file:
                spec = Spec.from_json(json.loads((file.metadata() or {})["program"]))
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            groups: dict[str, dict[str, Array]] = {"before": {}, "after": {}, "averages": {}}
            for name, array in arrays.items():
                group, dot, rest = name.partition(".")
                if dot:
                    groups[group][rest] = array
            if {len(array) for array in arrays.values()} != {len(arrays["count"])}:
                raise ValueError("the arrays differ in length")
            if set(groups["before"]) != set(spec.kinds) or set(groups["after"]) != set(spec.variables):
                raise ValueError("the arrays do not fit its program")
            return cls(spec, *groups.values(), *(arrays[name] for name in PLACES))  # type: ignore[arg-type]
        except (SafetensorError, KeyError, ValueError, TypeError, AttributeError) as error:
            raise FileError(f"{path}: not a file of traces ({error})") from None


def traces(program: ProgramClass, inputs: Iterable[Tokens], *, max_layers: int = 10_000) -> Traces:
    """Run a program on inputs, and collect each different pair of MLP input and output once.

    - `max_layers`: raise `DidNotHalt` after this many layers.

    >>> import kleene as kl
    >>> found = kl.traces(kl.library.parity_relative, [[2, 1, 1], [2, 0, 1]])
    >>> len(found), int(found.count.sum())
    (8, 12)
    """
    updates = guarded_updates(program)
    if isinstance(updates, Cycle):
        raise NotSupported(f"{program.spec.name}: has a cycle of layers; only programs with one step have traces")
    if updates.words:
        raise NotSupported(f"{program.spec.name}: has words, whose values are too many to trace")
    recorder = _Recorder(updates)
    given = program.spec.check_inputs(inputs)
    if program.spec.max_tokens is not None:
        for number, tokens in enumerate(given):
            recorder.numbers = np.array([number])
            recorder.run(tokens)
    else:
        order = sorted(range(len(given)), key=lambda i: len(given[i]))
        for start in range(0, len(given), BATCH):
            recorder.numbers = np.array(order[start : start + BATCH])
            recorder.run_batch([given[i] for i in recorder.numbers], max_layers=max_layers)
    return recorder.traces()


class _Recorder(RuleMachine):
    """A rule machine that keeps the rows of its layers."""

    leaves_settled = False

    def __init__(self, updates: Updates) -> None:
        super().__init__(updates)
        self.numbers: Array = np.zeros(0, dtype=np.int64)  # the inputs of the batch
        self.running = self.numbers  # those that have not halted
        self.averaging = [name for name, head in self.spec.heads.items() if head.numerical]
        self.found: dict[bytes, list[int]] = {}
        self.width = len(self.spec.kinds) + len(self.spec.variables) + len(self.averaging)

    def _layer(self, state: dict[str, Array], lengths: Array, layer: int, check: bool) -> dict[str, Array]:
        if layer == 1:
            self.running = self.numbers
        after = super()._layer(state, lengths, layer, check)
        self._keep(state, after, lengths, layer)
        return after

    def _halted(self, state: dict[str, Array], lengths: Array) -> Array:
        done = super()._halted(state, lengths)
        self.running = self.running[~done]  # sequences leave the batch as they halt
        return done

    def _keep(self, state: dict[str, Array], after: dict[str, Array], lengths: Array, layer: int) -> None:
        heads, _ = self.heads(state, lengths)
        shape = next(iter(state.values())).shape
        real = np.arange(shape[1]) < lengths[:, None]
        columns = [(state[name] if name in state else heads[name])[real] for name in self.spec.kinds]
        columns += [after[name][real] for name in self.spec.variables]
        columns += [self._average(name, state, lengths)[real].view(np.int64) for name in self.averaging]
        rows = np.ascontiguousarray(np.stack(columns, axis=1).astype(np.int64))
        run, position = np.nonzero(real)
        order = np.argsort(self.running[run], kind="stable")  # the first occurrence of a row is then in the first input
        rows, run, position = rows[order], run[order], position[order]
        unique, first, counts = np.unique(rows, axis=0, return_index=True, return_counts=True)
        for row, place, count in zip(unique, first.tolist(), counts.tolist()):
            where = [count, int(self.running[run[place]]), layer, int(position[place])]
            known = self.found.setdefault(row.tobytes(), [0, *where[1:]])
            known[0] += count
            known[1:] = min(known[1:], where[1:])

    def _average(self, name: str, state: dict[str, Array], lengths: Array) -> Array:
        """The average of a numerical head before rounding; 0 where nothing is selected."""
        head = self.spec.heads[name]
        numbers = _whole(self.spec, head)[state[head.value]]
        counts, totals = _selected_sums(self.spec, head, state, numbers, lengths)
        if head.counts:
            counts, totals = counts + 1, totals - average_scale(self.spec, name)
        averages: Array = totals / (np.maximum(counts, 1) * average_scale(self.spec, name))
        return averages

    def traces(self) -> Traces:
        spec = self.spec
        table = np.frombuffer(b"".join(self.found), dtype=np.int64).reshape(-1, self.width)
        places = np.array(list(self.found.values()), dtype=np.int64).reshape(-1, 4)
        order = np.lexsort(places[:, [3, 2, 1]].T)  # by run, then layer, then position
        table, places = table[order], places[order]
        kinds, variables = list(spec.kinds), list(spec.variables)
        before = {name: np.where(table[:, i] < 0, UNDEFINED, table[:, i]) for i, name in enumerate(kinds)}
        after = {name: table[:, len(kinds) + i].copy() for i, name in enumerate(variables)}
        rest = np.ascontiguousarray(table[:, len(kinds) + len(variables) :]).view(np.float64)
        averages = {name: rest[:, i].copy() for i, name in enumerate(self.averaging)}
        return Traces(spec, before, after, averages, *places.T.copy())
