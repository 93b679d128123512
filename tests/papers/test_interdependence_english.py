"""The experiments on English text; tests/training/test_language_model.py runs them from end to end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kleene as kl
from data_sets import DATA, needs
from kleene.evidence.statistics import Mean
from kleene.papers.interdependence_english import ENGLISH, line_slopes
from kleene.papers.interdependence_natural import NATURAL, epochs_to_half
from kleene.papers.tasks import Plan
from kleene.papers.wikitext import WikiText, pair_windows

needs_text = needs("wikitext-2/train.txt", "ud-english-ewt/en_ewt-ud-test.conllu")


@needs_text
def test_without_runs_nothing_is_claimed(tmp_path: Path):
    for experiment in (NATURAL, ENGLISH):
        found = experiment.run("tiny", data=DATA, folder=tmp_path, progress=False, plan=Plan(limit=0, workers=1))
        assert found.rows and all(row["ours"] == "not run" for row in found.rows)


@needs_text
def test_another_treebank(tmp_path: Path):
    with pytest.raises(kl.FileError, match=r"none\.conllu"):
        ENGLISH.run("tiny", data=DATA, folder=tmp_path, progress=False, settings={"treebank": "none.conllu"})


def test_slopes_of_lines_and_epochs_to_half():
    means = [Mean((2, 1, tree), 5.0 - tree, 4.0, 6.0, 100) for tree in (1, 2, 3)]
    assert line_slopes(means) == {(2, 1): pytest.approx(-1.0)}
    assert line_slopes(means[:2]) == {}
    assert epochs_to_half(np.array([0.1, 0.4, 0.8]), np.array([0.3, 0.4, 0.4])) == (2, 1)


@needs_text
def test_windows_of_natural_pairs_end_with_the_opening_word_and_a_phrase():
    wiki = WikiText(DATA, tokens=20_000, types=300)
    seen = {tuple(gram) for gram in np.lib.stride_tricks.sliding_window_view(wiki.train, 2).tolist()}
    opener = wiki.vocabulary.index["from"]
    for familiar in (False, True):
        found, control = (
            pair_windows(wiki, word, 2, familiar=familiar, count=50, length=10) for word in ("from", None)
        )
        assert (found.tokens[np.arange(50), found.open] == opener).all() and (found.open == 7).all()
        assert all((tuple(phrase) in seen) == familiar for phrase in found.tokens[:, 8:].tolist())
        assert (np.delete(found.tokens, 7, axis=1) == np.delete(control.tokens, 7, axis=1)).all()
