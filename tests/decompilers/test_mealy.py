"""Mealy machines found again by queries."""

from __future__ import annotations

import random

import pytest

import kleene as kl


@pytest.mark.parametrize("seed", range(40))
def test_any_machine_is_found_again(seed: int) -> None:
    rng = random.Random(seed)
    n = rng.randint(1, 7)
    table = [[rng.randrange(n) for _ in "ab"] for _ in range(n)]
    target = kl.Transducer.mealy(table, [[rng.choice("xyz") for _ in "ab"] for _ in range(n)], "ab", rng.randrange(n))
    found = kl.extract_mealy(lambda word: target(word), "ab", random=500)
    assert found.machine.equivalent(target) and len(found.machine) == len(target.minimise()) and found.queries > 0


def test_errors() -> None:
    with pytest.raises(kl.InputError, match="one symbol per symbol"):
        kl.extract_mealy(lambda word: "x", "ab")
    with pytest.raises(kl.NotSupported, match="more than 3 states"):
        kl.extract_mealy(lambda w: [str(w[: i + 1].count("a")) for i in range(len(w))], "ab", max_states=3)
    with pytest.raises(kl.InputError, match="max_states=0"):
        kl.extract_mealy(lambda word: word, "ab", max_states=0)
