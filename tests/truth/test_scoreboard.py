"""The scoreboard: a planted perfect method scores 1, a random one is at chance; a new method is one function."""

from __future__ import annotations

import json

import numpy as np
import pytest

import kleene as kl
from kleene.cli import main
from kleene.evidence.methods import PAIRS, TOKENS, Reading, tokens
from kleene.papers.publish import publish_scores, stale
from kleene.truth.factory import Order, build
from kleene.truth.keeping import keep_pairs, keep_symbols
from kleene.truth.scoreboard import auroc, compare, score


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    build(Order(6, length=(5, 6), words=3), folder / "compiled")
    build(Order(2, level="softened", length=(5, 6), words=2), folder / "softened")
    return folder


def test_planted_and_random(models):
    board = score(["exact", "random"], models, seeds=5)
    rows = {(row["kind"], row["method"], row["level"]): row for row in board.rows("level")}
    for kind in ("tokens", "pairs"):
        for level in ("compiled", "softened"):
            found = rows[kind, "exact", level]
            assert [found[m]["mean"] for m in ("correlation", "auroc", "top")] == [1, 1, 1]
        null = rows[kind, "random", "compiled"]
        assert abs(null["auroc"]["mean"] - 0.5) < 0.02 and abs(null["correlation"]["mean"]) < 0.05


def test_every_method_runs(models):
    names = list(dict.fromkeys([*TOKENS, *PAIRS]))
    board = score(names, models, limit=1)
    assert {(e["kind"], e["method"]) for e in board.entries} == {
        *(("tokens", name) for name in TOKENS if "attention" not in name),
        *(("pairs", name) for name in PAIRS),
    }
    assert all(np.isfinite(e["correlation"]) for e in board.entries)


def test_a_new_method_is_one_function(models):
    @tokens("loudest")
    def loudest(reading: Reading, rng: np.random.Generator) -> np.ndarray:
        return np.ones(len(reading))

    try:
        (row,) = score(["loudest"], models / "compiled").rows("level")
        assert row["correlation"]["mean"] == 0 and row["auroc"]["mean"] == 0.5  # it has no opinion
    finally:
        del TOKENS["loudest"]


OWN = """
import torch
from kleene.evidence.methods import pairs, tokens

@tokens("of a user: late")
def late(reading, rng):
    return torch.arange(len(reading))

@pairs("of a user: noise")
def noise(reading, rng):
    return rng.random((len(reading), len(reading)))

@tokens("of a user: short")
def short(reading, rng):
    return [1.0]

@tokens("of a user: fails")
def fails(reading, rng):
    return 1 / 0

def unregistered(reading, rng):
    return [0.0] * len(reading)
"""


def test_a_users_method_in_a_file(models, tmp_path, monkeypatch):
    (tmp_path / "own_methods.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    names = ["own_methods:late", f"{tmp_path}/own_methods.py:noise", "position"]
    board = score(names, models / "compiled", seeds=3, keep=tmp_path / "kept")
    rows = {(row["kind"], row["method"]): row for row in board.rows("level")}
    assert rows["tokens", names[0]]["auroc"] == rows["tokens", "position"]["auroc"]
    noise = [entry["words"] for entry in board.entries if entry["method"] == names[1]]
    once = [entry["words"] for entry in board.entries if entry["method"] == "position" and entry["kind"] == "pairs"]
    assert noise and noise == [3 * words for words in once]  # a method of a user may draw, so each seed counts
    assert score(names, models / "compiled", seeds=3, keep=tmp_path / "kept").rows("level") == board.rows("level")
    for name, message in {
        "own_methods:short": r"gives numbers of shape \(1,\); this needs",
        "own_methods:fails": "raises ZeroDivisionError: division by zero",
        "own_methods:unregistered": "not registered; write @tokens",
        "own_methods:other": "has no other",
        "nowhere:other": "cannot be imported",
    }.items():
        with pytest.raises(kl.InputError, match=message):
            score([name], models / "compiled", limit=1)
    with pytest.raises(kl.InputError, match="there is one of this name"):
        tokens("random")(lambda reading, rng: np.ones(len(reading)))
    for methods in (TOKENS, PAIRS):
        for name in [name for name in methods if name.startswith("of a user")]:
            del methods[name]


def test_methods_on_a_known_network():
    """The last symbol alone decides: what must hold of methods that measure what they say."""
    net = kl.compile(kl.regex("(a|b)*b", "ab"), to="lstm", dtype="float64")
    for parameter in net.parameters():
        parameter.requires_grad_(False)
    reading, rng = Reading.of(net, (0, 1, 0, 1)), np.random.default_rng(0)
    for name in ("occlusion by resampling", "sampled shapley"):
        found = TOKENS[name](reading, rng)
        assert np.abs(found[:3]).max() < 1e-12 < found[3]
    assert np.abs(PAIRS["occlusion by resampling"](reading, rng)).max() < 1e-12  # nothing interacts


def test_scoring_goes_on(models, tmp_path):
    """A second call measures what is missing alone; another number of seeds begins anew."""
    calls = []

    @tokens("counted")
    def counted(reading: Reading, rng: np.random.Generator) -> np.ndarray:
        calls.append(reading)
        return np.arange(len(reading), dtype=float)

    try:
        first = score(["counted"], models, limit=1, keep=tmp_path)
        before = len(calls)
        again = score(["counted", "position"], models, limit=1, keep=tmp_path)
        assert len(calls) == before > 0
        assert [e for e in again.entries if e["method"] == "counted"] == first.entries
        assert {e["method"] for e in again.entries} == {"counted", "position"}
        score(["counted"], models, limit=1, seeds=2, keep=tmp_path)
        assert len(calls) == 2 * before
    finally:
        del TOKENS["counted"]


def test_some_kinds_only(models, tmp_path):
    """A method of several kinds scores the kinds that are named; a later call adds the others."""
    for only in (["pairs"], ["tokens", "pairs"]):
        board = score(["random", "nearness"], models, only=only, limit=1, keep=tmp_path)
        assert {entry["kind"] for entry in board.entries} == set(only)
    with pytest.raises(kl.InputError, match="only 'words': unknown; choose some of tokens, pairs, nodes, edges"):
        score(["random"], models, only=["words"])


def test_measures():
    assert auroc(np.array([1.0, 1.0]), np.array([True, False])) == 0.5
    truth = np.array([0.5, -0.25, 0.0, 0.1])
    assert compare(truth, truth, True) == {"correlation": 1.0, "auroc": 1.0, "top": 1.0}
    assert compare(-truth, truth, True)["correlation"] == pytest.approx(-1)
    assert compare(-truth, truth, True)["auroc"] == 1
    assert compare(truth, np.ones(4), True) is None
    assert compare(np.full(4, np.nan), truth, True)["auroc"] == 0.5


def test_faithfulness_and_completeness():
    """The last symbol alone decides: keeping it keeps the answer, and drawing it anew loses what can be lost."""
    net = kl.compile(kl.regex("(a|b)*b", "ab"), to="lstm", dtype="float64")
    reading = Reading.of(net, (0, 1, 0, 1))
    right, wrong = np.array([0.0, 0.0, 0.0, 1.0]), np.array([1.0, 1.0, 1.0, 0.0])
    assert keep_symbols(reading, right) == {"faithfulness": 1.0, "completeness": 1.0}
    assert keep_symbols(reading, wrong) == {"faithfulness": 0.0, "completeness": 0.0}
    pair = np.zeros((4, 4))
    pair[0, 3] = pair[3, 0] = 1
    assert keep_pairs(reading, pair) == {"faithfulness": 1.0, "completeness": 1.0}


def test_the_random_null_is_at_chance():
    """Five draws a word are few: a hundred bring the mean to one half, whatever is to be found."""
    truth, rng = np.array([0.5, 0.5, 0.0, 0.1, 0.0, 0.0, 0.2]), np.random.default_rng(0)
    found = [compare(rng.standard_normal(7), truth, False)["auroc"] for _ in range(4000)]
    assert abs(np.mean(found) - 0.5) < 0.02


def test_commands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for arguments in (
        ["factory", "--count", "2", "--words", "2", "--length", "5", "-o", "models"],
        ["score", "exact", "nearness", "--models", "models", "-o", "scores"],
    ):
        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert end.value.code == 0, capsys.readouterr()
    found = json.loads((tmp_path / "scores" / "scores.json").read_text())
    assert {"command", "commit", "tables"} <= found.keys()
    assert "| exact | 1.000" in (tmp_path / "scores" / "table.md").read_text()
    assert (tmp_path / "scores" / "scores.png").stat().st_size > 1000
    path = publish_scores(tmp_path / "scores", tmp_path / "docs")
    assert path.name == "scores.json" and found["command"] in path.with_suffix(".md").read_text()
    assert stale(tmp_path / "docs") == {}
    content = json.loads(path.read_text())
    content["code"]["truth/scoreboard.py"] = "another"
    path.write_text(json.dumps(content))
    assert stale(tmp_path / "docs") == {"truth/scores": ["truth/scoreboard.py"]}
