"""The factory: models are certified, minimal, of the size asked for; truth files say what is true."""

from __future__ import annotations

import json

import numpy as np
import pytest

import kleene as kl
from kleene.truth.factory import Order, build, models_in, random_automaton


def test_random_automata_have_the_size_that_is_asked_for():
    rng = np.random.default_rng(0)
    for states in (2, 5, 17):
        dfa = random_automaton(rng, states, 2)
        assert len(dfa) == len(dfa.minimise()) == states and 0 < dfa.accepting.sum() < states


def test_compiled_models(tmp_path):
    made = build(Order(4, states=(3, 6), length=(3, 5), words=3), tmp_path / "models")
    assert all(one["certified"] and one["agreement"] == 1 and 3 <= one["states"] <= 6 for one in made)
    assert {one["cell"] for one in made} == {"lstm", "gru"}
    for model in models_in(tmp_path / "models"):
        folder = tmp_path / "models" / model.name
        network = kl.load(folder)
        assert kl.certify(network).holds
        truth = json.loads((folder / "truth.json").read_text())
        dfa = kl.DFA.from_json(truth["machine"])
        assert kl.decompile(network).equivalent(dfa)
        for word in truth["words"]:
            assert network.accepts(word["word"]) == dfa.accepts(word["word"]) == word["accepted"]
            assert np.allclose(kl.shapley(network, word["word"]), word["shapley"], atol=1e-12)
        assert len(truth["circuit"]["nodes"]) == network.units


def test_the_same_order_makes_the_same_models(tmp_path):
    for name, workers in (("one", 1), ("two", 2)):
        build(Order(2, words=2, seed=5), tmp_path / name, workers=workers)
    for file in sorted((tmp_path / "one").rglob("truth.json")):
        other = tmp_path / "two" / file.relative_to(tmp_path / "one")
        assert file.read_text() == other.read_text()


def test_an_order_goes_on(tmp_path):
    """What is there stays, what is missing is made; another order is refused."""
    order, folder = Order(3, words=2, length=(4, 4)), tmp_path / "models"
    whole = build(order, folder)
    texts = {file: file.read_text() for file in folder.rglob("truth.json")}
    (folder / "00001" / "truth.json").unlink()  # as if it had been stopped there
    before = (folder / "00000" / "truth.json").stat().st_mtime_ns
    assert build(order, folder) == whole
    assert {file: file.read_text() for file in folder.rglob("truth.json")} == texts
    assert (folder / "00000" / "truth.json").stat().st_mtime_ns == before
    assert len(build(Order(4, words=2, length=(4, 4)), folder)) == 4  # more of the same
    with pytest.raises(kl.FileError, match="another order \\(seed\\)"):
        build(Order(3, words=2, length=(4, 4), seed=1), folder)


def test_softened_models_still_answer_right(tmp_path):
    made = build(Order(4, level="softened", words=2), tmp_path / "models")
    assert all(one["agreement"] == 1 and not one["certified"] for one in made)


def test_trained_models(tmp_path):
    """Training moves the answers to the language; the truth is the automaton's."""
    orders = [Order(3, level="trained", states=(2, 2), words=2, steps=steps) for steps in (1, 150)]
    few, many = (build(order, tmp_path / str(order.steps)) for order in orders)
    assert np.mean([one["agreement"] for one in many]) > np.mean([one["agreement"] for one in few]) + 0.1
    assert all(model.network.cell == "lstm" for model in models_in(tmp_path / "150"))


def test_wrong_uses_are_named(tmp_path):
    with pytest.raises(kl.InputError, match="compiled, softened, trained"):
        build(Order(1, level="x"), tmp_path / "a")
    with pytest.raises(kl.InputError, match="heads 40: must be from 1 to 12"):
        build(Order(1, kind="program", heads=40), tmp_path / "a")
    with pytest.raises(kl.InputError, match="states 9-3"):
        build(Order(1, states=(9, 3)), tmp_path / "a")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("")
    with pytest.raises(kl.FileError, match="new or empty"):
        build(Order(1), tmp_path / "full")
    with pytest.raises(kl.FileError, match="kleene factory"):
        list(models_in(tmp_path / "full"))
