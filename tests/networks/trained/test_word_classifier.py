"""Trained classifiers of words: saved, loaded, and taken apart into regular expressions from the command line."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import kleene as kl
from kleene.cli import app
from kleene.library import tomita
from kleene.networks.trained.word_classifier import CELLS, WordClassifier


def trained(cell: str) -> WordClassifier:
    """Trained on words of up to 8 symbols without a 0 (Tomita's first language)."""
    torch.manual_seed(0)
    model, target = WordClassifier("01", cell, hidden=16), tomita.language(1)
    rng = np.random.default_rng(0)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(300):
        codes = (rng.random((32, int(rng.integers(0, 9)))) < rng.choice([0.5, 0.9, 1.0])).astype(np.int64)
        wanted = target.accepts_batch(["".join("01"[c] for c in row) for row in codes])
        logits = model(torch.from_numpy(codes))
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, torch.tensor(wanted, dtype=torch.float32))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model


@pytest.mark.parametrize("cell", CELLS)
def test_a_saved_classifier_becomes_a_regular_expression(cell: str, tmp_path: Path) -> None:
    model, folder = trained(cell), tmp_path / "net"
    assert kl.extract(model, "01", length=8, max_states=20) == tomita.language(1)
    model.save(folder)
    loaded = kl.load(folder, kl.WordClassifier)
    codes = torch.randint(0, 2, (20, 7))
    assert torch.equal(loaded(codes), model.eval()(codes))
    said = CliRunner().invoke(app, ["decompile", str(folder), "--to", "regex", "--json"])
    found = json.loads(said.stdout)
    assert kl.regex(found["regex"], alphabet="01").equivalent(kl.extract(model, "01"))
    assert found["confidence"] == 0.95 and found["error_bound"] < 0.01 and "exact" not in found
    plain = CliRunner().invoke(app, ["decompile", str(folder), "--to", "regex"])
    assert plain.stdout.strip() == found["regex"] and "not proved" in plain.stderr and "95% confidence" in plain.stderr


def test_an_answer_does_not_depend_on_the_batch() -> None:
    model = WordClassifier("ab", "lstm", hidden=8)
    words = ["", "a", "ab", "ba", "abab", "b"]
    assert model.accepts_batch(words).tolist() == [model.accepts(word) for word in words]


@pytest.mark.parametrize(
    "key, value, says",
    [
        ("cell", "perceptron", "cell='perceptron'; it must be one of rnn"),
        ("hidden", 10**9, "hidden=1000000000; it must be 1 … 4096"),
        ("hidden", 24, "does not fit"),
        ("layers", 2, "does not fit"),
        ("alphabet", ["a"], "does not fit"),
        ("alphabet", "ab", "a list of symbols"),
        ("version", 99, "version"),
    ],
)
def test_a_changed_description_is_refused(key: str, value: object, says: str, tmp_path: Path) -> None:
    WordClassifier("ab", hidden=16).save(tmp_path / "net")
    path = tmp_path / "net" / "kleene.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(kl.FileError, match=says):
        kl.load(tmp_path / "net")


def test_options_are_checked() -> None:
    with pytest.raises(kl.InputError, match="multiple of 8"):
        WordClassifier("ab", "transformer", hidden=12)
    with pytest.raises(kl.InputError, match="single characters"):
        WordClassifier(["ab", "c"])
