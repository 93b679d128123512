"""Keep what a run of lanes needs beside the weights, so that the next run of the same weights starts without torch.

A folder holds plain data: sizes, the source of the code, and arrays of numbers. It belongs to one file of weights,
whose hash it names; another file of weights makes it worthless. Where the code leaves a layer undone, the network
itself is loaded and runs it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kleene.common.residual import Layout
from kleene.errors import FileError
from kleene.files import read_json, written_atomically
from kleene.networks.transformer.lane_builds import build
from kleene.networks.transformer.lane_runner import Column, LaneRunner, TokenRows
from kleene.networks.transformer.stops import Array

if TYPE_CHECKING:
    from kleene.networks.transformer.lanes import LanesRun

VERSION = 2


def save_prepared(run: LanesRun, weights: Path, folder: Path) -> None:
    """Write what a run needs besides the weights in a file; nothing where rows begin with more than zeros and ones."""
    tables = {"embedding": run.start_rows.embedding}
    if run.start_rows.places is not None:
        tables["places"] = run.start_rows.places
    if not all(((table == 0) | (table == 1)).all() for table in tables.values()):
        return
    plan = run.plan
    content = {
        "version": VERSION,
        "weights": digest_of(weights),
        "name": run.name,
        "evaluator": run.evaluator,
        "language": run.language,
        "dim": run.start_rows.shape[1],
        "at": plan.at,
        "words": [list(dims) for dims in plan.words],
        "columns": [[column.first, column.size, column.offset] for column in plan.columns],
        "counts": [list(count) for count in run.start_rows.counts],
        "blocks": run.cycle,
        "tables": len(run.row_tables),
        "rows": _kinds_of(run.start_rows, plan.columns),
        "layout": run.net.layout.to_json(),
        "source": run.source,
    }
    arrays = {f"t{k}": table for k, table in enumerate(run.row_tables)}
    for name, table in tables.items():
        dims = np.flatnonzero(table.any(axis=0))
        arrays |= {name: table[:, dims].astype(np.int8), f"{name}_dims": dims}
    with contextlib.suppress(OSError, FileError), written_atomically(folder) as beside:
        beside.mkdir()
        (beside / "lanes.json").write_text(json.dumps(content), encoding="utf-8")
        with (beside / "arrays.npz").open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]


def _kinds_of(rows: TokenRows, columns: Sequence[Column]) -> str:
    """A hash of all rows without their columns: the code is the same for rows that differ in columns alone.

    What positions add belongs to the weights."""
    kept = np.array(rows.embedding.any(axis=0))
    for column in columns:
        if column.offset is None:
            kept[list(column.dims)] = False
    kinds = np.unique(rows.embedding[:, kept].astype(np.int8), axis=0, return_inverse=True)[1].ravel().astype(np.uint16)
    return hashlib.sha256(kinds[rows.tokens].tobytes()).hexdigest()


def _table(arrays: dict[str, Array], name: str, dim: int) -> Array:
    """A table of which the dimensions that are not zero were kept."""
    table: Array = np.zeros((len(arrays[name]), dim), dtype=np.int8)
    table[:, arrays[f"{name}_dims"]] = arrays[name]
    return table


def digest_of(path: Path) -> str:
    """The hash of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class PreparedLanes(LaneRunner):
    """A run of lanes from the cache; `load` gives the whole evaluator where the code leaves a layer undone."""

    def __init__(self, content: dict[str, Any], arrays: dict[str, Array], tokens: Array) -> None:
        self.name, self.evaluator = str(content["name"]), str(content["evaluator"])
        self.layers, self.halted = 0, False
        self.layout = Layout.from_json(content["layout"])
        self.load: Callable[[], LanesRun] | None = None
        self.whole: LanesRun | None = None
        counts = [(int(first), int(bits), int(offset)) for first, bits, offset in content["counts"]]
        dim = int(content["dim"])
        places = _table(arrays, "places", dim) if "places" in arrays else None
        rows = TokenRows(tokens, _table(arrays, "embedding", dim), places, counts)
        columns = [Column(*column) for column in content["columns"]]
        if _kinds_of(rows, columns) != content["rows"]:
            raise ValueError("the rows are of other kinds")
        tables = [np.ascontiguousarray(arrays[f"t{k}"], dtype=np.int32) for k in range(content["tables"])]
        code = build(content["source"], content["language"])
        self.fill(rows, content["at"], content["words"], columns, tables, content["blocks"], code)

    def layer_by_numbers(self) -> None:
        self.weights().layer_by_numbers()

    def halts_now(self) -> bool:
        return self.weights().halts_now()

    def weights(self) -> LanesRun:
        """The evaluator with its weights, on the state of this run."""
        if self.whole is None:
            assert self.load is not None
            self.whole = self.load()
        self.whole.state, self.whole.columns, self.whole.layers = self.state, self.columns, self.layers
        return self.whole


def load_prepared(folder: Path, weights: Path, tokens: Array) -> PreparedLanes | None:
    """Begin a run from what was kept; None where there is nothing, or something else."""
    try:
        content = read_json(folder / "lanes.json")
        if content["version"] != VERSION or content["weights"] != digest_of(weights):
            return None
        with np.load(folder / "arrays.npz", allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        return PreparedLanes(content, arrays, tokens)
    except (FileError, OSError, KeyError, TypeError, ValueError, AttributeError):
        return None
