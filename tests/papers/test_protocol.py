"""Rows, criteria and verdicts; where runs come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from kleene.errors import InputError
from kleene.papers.protocol import Criterion, Experiment, Measured, Row, verdict
from kleene.papers.provenance import changed_code, commit, commit_of, fingerprint, git, loaded_code
from kleene.papers.tasks import Plan

ABOVE = Criterion("the value is above 1", lambda value: value > 1, seeds=2)


def judged(criterion: Criterion = ABOVE, recorded: tuple[str, ...] = (ABOVE.digest,), **about: object) -> object:
    measured = Measured("text", **{"value": 2, "seeds": 2, "runs": ("a",), **about})  # type: ignore[arg-type]
    return verdict(criterion, measured, {"a": {"criteria": list(recorded)}})


def test_verdicts() -> None:
    assert judged() == (True, "yes") and judged(value=1) == (False, "no")
    assert judged(value=None)[0] is None and judged(converged=False) == (None, "not converged")
    assert judged(seeds=1) == (None, "1 of 2 seeds")


def test_a_criterion_that_came_after_the_run_gives_no_verdict() -> None:
    assert judged(recorded=()) == (None, "criterion later than the run")
    assert judged(runs=()) == (None, "criterion later than the run")
    later = Criterion("the value is above 0", lambda value: value > 0, seeds=2)
    assert judged(later) == (None, "criterion later than the run")
    older = Criterion("the value is above 1", lambda value: value > 1, seeds=2, since="abc1234")
    assert judged(older, recorded=()) == (True, "yes")


def number(x: int, folder: Path, deadline: float | None) -> dict[str, object]:
    return {"x": x}


def rows(config: object) -> list[Row]:
    def measure(runs: object) -> Measured | None:
        found = [run["x"] for run in runs.values()]  # type: ignore[attr-defined]
        return Measured(str(sum(found)), sum(found), len(found), runs=tuple(runs)) if found else None  # type: ignore[arg-type]

    return [Row("sum", measure, "above 1", "Table 1", ABOVE), Row("sum again", measure, criterion=ABOVE)]


def test_an_experiment_records_its_criteria_and_derives_its_rows(tmp_path: Path) -> None:
    stages = (
        lambda config, data, plan, runs: {"a": {"x": 1}},
        lambda config, data, plan, runs: {"b": {"x": runs["a"]["x"] + 1}} if "a" in runs else {},
    )
    small = Experiment("test.sum", {"tiny": {}}, stages, number, rows)  # type: ignore[arg-type]
    result = small.run("tiny", folder=tmp_path, progress=False, plan=Plan(workers=1))
    assert result.rows[0]["ours"] == "3" and result.rows[0]["holds"] is True
    assert "holds" not in result.rows[1], "no verdict where the paper claims nothing"
    assert result.runs["b"]["criteria"] == [ABOVE.digest, ABOVE.digest]
    assert "papers/tasks.py" in result.runs["a"]["code"]
    with pytest.raises(InputError, match="no task has such a name"):
        small.run("tiny", folder=tmp_path / "x", progress=False, plan=Plan(workers=1, only=("z*",)))


def test_fingerprints() -> None:
    one = fingerprint('def f(x):\n    """What it does."""\n    return x + 1  # why\n')
    assert one == fingerprint("def f(x):\n    return (x + 1)\n") != fingerprint("def f(x):\n    return x + 2\n")
    known = loaded_code()
    assert changed_code(known) == []
    assert changed_code({**known, "papers/tasks.py": "x", "gone.py": "y"}) == ["papers/tasks.py", "gone.py"]


def test_commits_are_known_by_their_files() -> None:
    if git("rev-parse", "HEAD") is None:
        pytest.skip("needs git")
    head = git("rev-parse", "--short=7", "HEAD").strip()  # type: ignore[union-attr]
    assert commit().rstrip("+") == head
    text = git("show", "HEAD:./errors.py")
    assert text is not None and commit_of({"errors.py": fingerprint(text)}, [head]) == head
    assert commit_of({"errors.py": "another"}, [head]) is None


def test_environment_variables_do_not_name_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    before = commit()
    monkeypatch.setenv("KLEENE_COMMIT", "1234567")
    assert commit() == before
