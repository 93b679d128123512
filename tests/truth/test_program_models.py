"""Models of programs by level: programs use their depth; stacks are resumable tasks."""

from __future__ import annotations

import json

import pytest

import kleene as kl
from kleene.cli import main
from kleene.truth.factory import Order, build, models_in
from kleene.truth.interchange import effects_of
from kleene.truth.program_models import drawn_program
from kleene.truth.program_tables import Tables
from kleene.truth.random_programs import Size


@pytest.mark.parametrize("index", range(3))
def test_drawn_programs_use_their_depth(index):
    program, _ = drawn_program(1, index, Size(layers=2), 4)
    tables = Tables.of([program], 4)
    effects = effects_of(tables)[0].view(2, -1)
    assert (effects[:, : tables.heads] > 0).any(1).all()


def test_stacks(tmp_path, monkeypatch, capsys):
    """Two stacks by the command line; the same command has nothing left to do, and another order is refused."""
    monkeypatch.chdir(tmp_path)
    command = ["factory", "--count", "3", "--together", "2", "--kind", "program", "--level", "interchange"]
    command += ["--depth", "1", "--length", "3", "--steps", "3", "--batch", "8", "-o", "models", "--json"]
    found = []
    for _ in range(2):
        with pytest.raises(SystemExit) as end:
            main(command)
        assert end.value.code == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0] == found[1] and [one["index"] for one in found[0]["models"]] == [0, 1, 2]
    models = list(models_in(tmp_path / "models"))
    assert [model.truth["level"] for model in models] == ["interchange"] * 3
    assert {"interchange", "off_circuit"} <= models[0].truth["reached"].keys()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("")
    with pytest.raises(kl.FileError, match="this command began"):
        build(Order(1, "trained", kind="program"), tmp_path / "full")
