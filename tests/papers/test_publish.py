"""Published results: every row comes out of the committed raw runs, and nothing is judged that may not be."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from data_sets import ROOT
from kleene.errors import FileError, InputError
from kleene.files import write_json
from kleene.papers import protocol_of
from kleene.papers.provenance import git
from kleene.papers.publish import derive, main, publish, published, raw_of, read_raw, stale, write_raw
from kleene.papers.report import table

DOCS = ROOT / "docs" / "results"
RESULTS = dict(published(DOCS))
DERIVED = [path for path in RESULTS if raw_of(path).exists()]
NAMES = [path.relative_to(DOCS).as_posix() for path in DERIVED]


@pytest.mark.parametrize("path", DERIVED, ids=NAMES)
def test_every_row_comes_out_of_the_raw_runs(path: Path) -> None:
    made = RESULTS[path]
    experiment = protocol_of(made["experiment"])
    runs = {name: entry["result"] for name, entry in read_raw(raw_of(path)).items()}
    rows = json.loads(json.dumps(experiment.derive(experiment.config(made["config"]["scale"]), runs)))
    assert rows == made["rows"]
    assert path.with_suffix(".md").read_text(encoding="utf-8") == table(made)


@pytest.mark.parametrize("path", DERIVED, ids=NAMES)
def test_a_changed_run_changes_the_table(path: Path) -> None:
    """The test above can fail: without one of its runs a table is another one."""
    made = RESULTS[path]
    experiment = protocol_of(made["experiment"])
    runs = {name: entry["result"] for name, entry in read_raw(raw_of(path)).items()}
    changed = (
        json.loads(json.dumps(experiment.derive(experiment.config(made["config"]["scale"]), rest)))
        for name in runs
        if (rest := {other: run for other, run in runs.items() if other != name})
    )  # one at a time: the first run that is left out is mostly enough
    assert len(runs) == 1 or any(rows != made["rows"] for rows in changed)


def test_results_without_raw_runs_say_so_and_are_not_judged() -> None:
    for path, made in RESULTS.items():
        if path not in DERIVED:
            assert "raw runs" in made["remark"].lower(), path
            assert not any("holds" in row or "verdict" in row for row in made["rows"]), path


def test_a_verdict_has_a_claim_a_criterion_seeds_and_a_commit_before_the_run() -> None:
    judged = 0
    for path in DERIVED:
        for row in RESULTS[path]["rows"]:
            if row.get("holds") is None:
                continue
            judged += 1
            assert row["paper"] and row["criterion"], (path, row["name"])
        assert not any(
            row.get("holds") is not None and "not converged" in row.get("note", "") for row in RESULTS[path]["rows"]
        )
    assert judged >= 10


def test_criteria_that_name_a_commit_are_older_than_the_runs() -> None:
    if git("rev-parse", "HEAD") is None or (git("rev-parse", "--is-shallow-repository") or "").strip() == "true":
        pytest.skip("needs git with its history")
    for path in DERIVED:
        made = RESULTS[path]
        experiment = protocol_of(made["experiment"])
        since = {row.criterion.since for row in experiment.rows(made["config"]) if row.criterion} - {""}
        for commit in since:
            for run in read_raw(raw_of(path)).values():
                ran = run["result"]["commit"].rstrip("+")
                assert git("merge-base", "--is-ancestor", commit, ran) is not None, (path, commit, ran)


def test_raw_runs_are_small_and_always_the_same_bytes(tmp_path: Path) -> None:
    for path in DERIVED:
        assert raw_of(path).stat().st_size < 200_000, path
        write_raw(tmp_path / "again.gz", read_raw(raw_of(path)))
        assert read_raw(tmp_path / "again.gz") == read_raw(raw_of(path))
    first = (tmp_path / "again.gz").read_bytes()
    write_raw(tmp_path / "again.gz", read_raw(tmp_path / "again.gz"))
    assert (tmp_path / "again.gz").read_bytes() == first


def test_a_longer_published_run_stands(tmp_path: Path) -> None:
    def folder(name: str, steps: int, rate: float = 0.1, asked: int = 9) -> Path:
        entry = {"arguments": {"steps": asked, "rate": rate}, "finished": False}
        result = {"step": steps, "commit": "1234567", "seconds": 1.0, "device": "CPU", "right": name}
        write_json(tmp_path / name / "runs/tiny/with-seed-0.json", entry | {"result": result})
        write_json(tmp_path / name / "config.json", {"experiment": "alta.frozen", "scale": "tiny"})
        write_json(tmp_path / name / "frozen.json", {"command": "kleene reproduce"})
        return tmp_path / name

    def stands(made: Path) -> str:
        with suppress(KeyError, TypeError, AttributeError):  # the table of so bare a run
            publish(made, tmp_path / "docs")
        said: str = read_raw(tmp_path / "docs/alta/frozen-tiny.runs.json.gz")["with-seed-0"]["result"]["right"]
        return said

    assert stands(folder("first", 5)) == "first"
    assert stands(folder("shorter", 4, asked=4)) == "first"
    assert stands(folder("longer", 6)) == "longer"
    assert stands(folder("another", 2, rate=0.2)) == "another"


def test_publishing_adds_runs_and_derives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kleene.papers.publish.commit_of", lambda recorded: None)
    from kleene.papers.alta_frozen import FROZEN
    from kleene.papers.tasks import Plan

    plan = Plan(workers=1, only=("with-*",), steps=2)
    FROZEN.run("tiny", folder=tmp_path / "one", progress=False, plan=plan)
    path = publish(tmp_path / "one", tmp_path / "docs")
    assert path == tmp_path / "docs/alta/frozen-tiny.json"
    plan = Plan(workers=1, only=("without-*",), steps=2)
    FROZEN.run("tiny", folder=tmp_path / "two", progress=False, plan=plan)
    publish(tmp_path / "two", tmp_path / "docs")
    assert set(read_raw(raw_of(path))) == {"with-seed-0", "without-seed-0"}
    assert (tmp_path / "docs/alta/frozen-tiny.png").exists()
    before = path.read_text()
    derive(tmp_path / "docs/alta/frozen-tiny", FROZEN, "tiny")
    assert path.read_text() == before
    assert stale(tmp_path / "docs") == {}
    made = json.loads(before)
    made["code"]["training/loop.py"] = "another"
    path.write_text(json.dumps(made))
    assert stale(tmp_path / "docs") == {"alta/frozen-tiny": ["training/loop.py"]}
    shutil.rmtree(tmp_path / "two" / "runs")
    with pytest.raises(InputError, match="has no runs of scale 'tiny'"):
        main([str(tmp_path / "two")], tmp_path / "docs")


def test_a_broken_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "x.gz").write_bytes(b"no")
    with pytest.raises(FileError, match="cannot be read"):
        read_raw(tmp_path / "x.gz")
