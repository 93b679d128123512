"""The notebooks run from beginning to end, and are stored with what they show."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parent.parent / "docs" / "notebooks").glob("*.ipynb"))


WANTED = {"patch_the_carry", "which_explanations_are_true", "an_lstms_sentence", "addition_that_cannot_be_wrong"}


def test_the_ones_for_new_users_are_there():
    assert {path.stem for path in NOTEBOOKS} >= WANTED


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_the_first_cell_installs_kleene_where_it_is_not(path):
    cells = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert 'find_spec("kleene") is None' in cells[0] and "%pip install" in cells[0]
    assert not any("pip install" in cell for cell in cells[1:])


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
