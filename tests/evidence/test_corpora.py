"""Synthetic corpora: every rule is placed exactly; the imitation of the authors' generator loses rules."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kleene.errors import InputError
from kleene.evidence.corpora import _Rope, count_rules, rule_corpus, rule_windows

SMALL = {"tokens": 20_000, "types": 200, "conduits": 10, "uses": 8, "outside": 100}


def occurrences(text: np.ndarray, phrase: np.ndarray) -> int:
    windows = np.lib.stride_tricks.sliding_window_view(text, len(phrase))
    return int((windows == phrase).all(axis=1).sum())


@given(st.integers(0, 1000), st.sampled_from([3, 4, 6]), st.booleans())
@settings(max_examples=12, deadline=None)
def test_every_rule_and_conduit_is_there(seed: int, k: int, familiar: bool) -> None:
    corpus = rule_corpus(k, familiar=familiar, seed=seed, **SMALL)
    assert len(corpus.tokens) == 20_000 and corpus.rules == 80
    assert count_rules(corpus.tokens, k, 200) == 80 == (corpus.tokens == corpus.alpha).sum()
    for conduit in corpus.conduits:
        rule = np.concatenate([[corpus.alpha], conduit, [corpus.omega]])
        assert occurrences(corpus.tokens, rule) == 8
        total = occurrences(corpus.tokens, conduit)
        least = 108 if familiar else 8
        assert least <= total <= least + 3  # chance may add one, hardly more


def test_seeds_decide() -> None:
    one, same, other = (rule_corpus(4, familiar=True, seed=s, **SMALL) for s in (1, 1, 2))
    assert np.array_equal(one.tokens, same.tokens) and not np.array_equal(one.tokens, other.tokens)


def test_fresh_rules_have_their_own_conduits() -> None:
    corpus = rule_corpus(3, familiar=False, seed=0, tokens=5000, types=100, fresh=50)
    assert corpus.rules == 50 == count_rules(corpus.tokens, 3, 100) == len(np.unique(corpus.conduits, axis=0))


def test_losing_mode_loses_rules_when_conduits_are_familiar() -> None:
    size = {"tokens": 100_000, "types": 1000, "conduits": 100, "uses": 10, "outside": 100}
    kept = {familiar: rule_corpus(8, familiar=familiar, seed=0, loses=True, **size).rules for familiar in (False, True)}
    assert kept[True] < 0.8 * kept[False] and kept[False] <= 1000


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 6), st.integers(0, 6)), max_size=30))
@settings(max_examples=30, deadline=None)
def test_rope_is_list_slice_assignment(writes: list[tuple[int, int, int]]) -> None:
    plain, rope = list(range(60)), _Rope(np.arange(60), block=7)
    for number, (start, length, new) in enumerate(writes):
        start = min(start, len(plain) - 1)
        stop = min(start + length, len(plain))
        plain[start:stop] = [1000 + number] * new
        rope.replace(start, stop, np.full(new, 1000 + number))
        if not plain:
            return
    assert rope.whole().tolist() == plain


def test_windows_hold_one_rule_each() -> None:
    corpus = rule_corpus(4, familiar=False, seed=0, **SMALL)
    for in_domain in (True, False):
        found = rule_windows(corpus, in_domain=in_domain, seed=3, tokens=3500)
        assert found.tokens.shape == (100, 35)
        assert all(count_rules(row, 4, 200) == 1 for row in found.tokens)
        conduits = {tuple(row[o + 1 : o + 5]) for row, o in zip(found.tokens, found.open)}
        assert (conduits <= {tuple(c) for c in corpus.conduits}) == in_domain


def test_too_small_a_corpus_is_refused() -> None:
    with pytest.raises(InputError, match="too small for its rules and conduits by"):
        rule_corpus(8, familiar=True, seed=0, tokens=1000)
