"""Machines with output: running, composing, minimising, comparing, files."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import kleene as kl
from kleene.common.alphabet import all_words


def random_mealy(rng: random.Random, states: int = 4) -> kl.Transducer:
    n = rng.randint(1, states)
    table = [[rng.randrange(n) for _ in "ab"] for _ in range(n)]
    return kl.Transducer.mealy(table, [[rng.choice("ab") for _ in "ab"] for _ in range(n)], "ab", rng.randrange(n))


def random_sequential(rng: random.Random) -> kl.Transducer:
    n = rng.randint(1, 3)
    table = [[rng.randrange(n) for _ in "ab"] for _ in range(n)]
    outputs = [["".join(rng.choice("ab") for _ in range(rng.randrange(3))) for _ in "ab"] for _ in range(n)]
    return kl.Transducer(table, outputs, "ab", last=[rng.choice(["", "b", None]) for _ in range(n)])


def written(machine: kl.Transducer, word: str) -> str | None:
    try:
        return str(machine(word))
    except kl.InputError:
        return None


@pytest.mark.parametrize("seed", range(60))
def test_laws(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    one, two = random_mealy(rng), random_mealy(rng)
    words = [str(w) for w in all_words("ab", 6)]
    small = one.minimise()
    assert len(small) <= len(one) and all(small(w) == one(w) for w in words) and small.equivalent(one)
    assert len(small.minimise()) == len(small)
    assert all(one.compose(two)(w) == two(one(w)) for w in words)
    found = one.distinguish(two)
    assert (found is None) == all(one(w) == two(w) for w in words)
    assert found is None or one(found) != two(found)
    for suffix in (".json", ".jff", ".att"):
        one.save(tmp_path / f"m{suffix}")
        assert kl.Transducer.load(tmp_path / f"m{suffix}").equivalent(one)


@pytest.mark.parametrize("seed", range(80))
def test_sequential_machines(seed: int) -> None:
    rng = random.Random(seed)
    one, two = random_sequential(rng), random_sequential(rng)
    words = [str(w) for w in all_words("ab", 6)]
    assert all((written(one, w) is not None) == (w in one.domain()) for w in words)
    found = one.distinguish(two)
    if found is None:
        assert all(written(one, w) == written(two, w) for w in words)
    else:
        assert written(one, str(found)) != written(two, str(found))
    both = one.compose(two)
    for w in words:
        between = written(one, w)
        assert written(both, w) == (None if between is None else written(two, between))


def test_moore_machines_write_for_their_start() -> None:
    parity = kl.Transducer.moore([[0, 1], [1, 0]], "eo", "01")
    assert parity("0110") == "eeoee" and "e/" not in str(parity)


def test_errors() -> None:
    flip = kl.Transducer.mealy([[0, 0]], ["10"], "01")
    for work, says in (
        (lambda: flip("2"), "not in the alphabet"),
        (lambda: kl.Transducer([[5]], [["a"]], "a"), "outside"),
        (lambda: kl.Transducer([[0]], [[]], "a"), "outputs need"),
        (lambda: kl.Transducer([[-1]], [[""]], "a")("a"), "no move on 'a'"),
        (lambda: flip.compose(kl.Transducer.mealy([[0]], ["x"], "x")), "does not read"),
        (lambda: flip.distinguish(3), "give a Transducer"),  # type: ignore[arg-type]
    ):
        with pytest.raises(kl.InputError, match=says):
            work()
