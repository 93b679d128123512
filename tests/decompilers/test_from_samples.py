"""RPNI and EDSM: consistent with every sample, and right where the sample says enough."""

from __future__ import annotations

import random

import pytest

import kleene as kl
from kleene.common.alphabet import all_words
from random_machines import random_dfa


@pytest.mark.parametrize("method", ["rpni", "edsm"])
@pytest.mark.parametrize("seed", range(30))
def test_samples_are_kept(method: str, seed: int) -> None:
    rng = random.Random(seed)
    dfa = random_dfa(rng, 5, 2)
    words = [str(w) for w in all_words(dfa.alphabet, 7) if rng.random() < 0.3]
    good, bad = [w for w in words if dfa.accepts(w)], [w for w in words if not dfa.accepts(w)]
    if not any(words):
        return
    found = kl.from_samples(good, bad, dfa.alphabet, method=method)
    assert all(found.accepts(w) for w in good) and not any(found.accepts(w) for w in bad)


@pytest.mark.parametrize("seed", range(40))
def test_rpni_finds_the_language_from_a_complete_sample(seed: int) -> None:
    """All words up to twice the number of states hold a characteristic sample."""
    dfa = random_dfa(random.Random(seed), 4, 2).minimise()
    words = [str(w) for w in all_words(dfa.alphabet, 2 * len(dfa) + 1)]
    found = kl.from_samples(
        [w for w in words if dfa.accepts(w)], [w for w in words if not dfa.accepts(w)], dfa.alphabet, method="rpni"
    )
    assert found == dfa


def test_edsm_on_a_sparse_sample() -> None:
    target = kl.regex("(0|10*1)*")
    rng = random.Random(0)
    words = {"".join(rng.choice("01") for _ in range(rng.randint(0, 14))) for _ in range(300)}
    found = kl.from_samples([w for w in words if w in target], [w for w in words if w not in target])
    assert found == target


def test_errors() -> None:
    for good, bad, options, says in (
        (["a"], ["a"], {}, "both accepted and rejected"),
        ("ab", [], {}, "one word"),
        ([3], [], {}, "must be a string"),
        (["a"], ["b"], {"method": "x"}, "method='x'"),
        (["a"], ["b"], {"alphabet": "a"}, "not in the alphabet"),
    ):
        with pytest.raises(kl.InputError, match=says):
            kl.from_samples(good, bad, **options)  # type: ignore[arg-type]
