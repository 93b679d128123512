"""The notebooks run from beginning to end, and are stored with what they show."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parent.parent / "docs" / "notebooks").glob("*.ipynb"))


def test_there_are_three():
    assert len(NOTEBOOKS) >= 3


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_runs(path, tmp_path):
    """Every cell runs, and the same kinds of things come out, pictures included."""
    stored = nbformat.read(path, as_version=4)
    fresh = nbformat.from_dict(stored)
    NotebookClient(fresh, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert [shown(cell) for cell in fresh.cells] == [shown(cell) for cell in nbformat.read(path, as_version=4).cells]
    assert sum("image/png" in kinds for cell in fresh.cells for kinds in shown(cell)) >= 1


def shown(cell):
    """The kinds of a cell's outputs: pictures, pages, text."""
    if cell.cell_type != "code":
        return []
    results = [output for output in cell.outputs if output.output_type in ("display_data", "execute_result")]
    return [sorted(output.data) for output in results]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_is_stored_with_its_outputs(path):
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in cells)
    assert not any(output.output_type == "error" for cell in cells for output in cell.outputs)
