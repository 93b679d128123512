"""The table of a machine in every architecture."""

from __future__ import annotations

from pathlib import Path

import pytest

import kleene as kl
from kleene.library.tomita import language


def test_every_architecture_has_a_row_with_a_certificate_or_a_theorem(tmp_path: Path):
    table = kl.compare(language(6), lengths=[6])
    assert len(table.rows) == 10
    refused = {row.options for row in table.rows if not row.holds}
    assert refused == {"transitions=positive", "transitions=signed"}
    assert all("Grazzi" in row.proof for row in table.rows if not row.holds)
    for row in table.rows:
        if row.holds:
            assert row.parameters >= row.nonzero > 0 and row.precision and row.proof == "certified"
    depths = {row.options: row.depth for row in table.rows if row.network == "transformer"}
    assert depths == {"depth=sequential": "n", "depth=logarithmic, length=6": "3", "depth=constant, length=6": "3"}
    table.plot(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes()[:4] == b"\x89PNG"
    assert table.to_json()["rows"][0]["network"] == "rnn" and "words up to" in str(table)
    with pytest.raises(kl.FileError, match="unknown suffix"):
        table.plot(tmp_path / "plot.docx")


def test_turing_machines_and_programs_have_rows():
    table = kl.compare(kl.TuringMachine.parse("1RB1LB_1LA1RZ"), lengths=[8])
    assert [row.network for row in table.rows if not row.holds] == ["lstm", "gru", "linear"]
    assert [row.holds for row in kl.compare(kl.library.parity_relative).rows] == [True]


def test_wrong_requests():
    with pytest.raises(kl.InputError, match="lengths"):
        kl.compare(language(1), lengths=[0])
    with pytest.raises(kl.NotSupported, match="cannot take an int"):
        kl.compare(3)
