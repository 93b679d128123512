"""Machines with output: running, composing, minimising, comparing, files."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import kleene as kl
from kleene.common.alphabet import all_words
from kleene.machines.automata.transducer import from_json


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


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (lambda: kl.Transducer([[0]], [["x"]], "ab"), "one row per state and 2 columns"),
        (lambda: kl.Transducer([[0]], [["x"]], "a", start=3), "start state 3 is outside"),
        (lambda: kl.Transducer([[0]], [["x"]], "a", last=["", ""]), "2 last outputs for 1 state"),
    ],
)
def test_a_wrong_part_is_named(work, said):
    with pytest.raises(kl.InputError, match=said):
        work()


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("m.xyz", "", "unknown suffix ..xyz.; use .json, .jff or .att"),
        ("m.json", "[]", "not a transducer of version 1"),
        ("m.att", "0 1 a b 3.5\n1\n", "it has weights; read it with kl.WeightedAutomaton.load"),
        ("m.att", "0 1 <eps> b\n1\n", "line 1: an empty input"),
        ("m.att", "0 1 a b\n0 0 a a\n1\n", "line 2: a second move from '0' on 'a'; give one"),
        ("m.att", "0\n", "no transitions, so no alphabet"),
    ],
)
def test_a_wrong_file_is_named(tmp_path, file, content, said):
    (tmp_path / file).write_text(content)
    with pytest.raises(kl.FileError, match=said):
        kl.Transducer.load(tmp_path / file)


def test_files_that_cannot_hold_an_output(tmp_path):
    moore = kl.Transducer.moore([[0]], ["x"], "a")
    with pytest.raises(kl.FileError, match="cannot write before the first symbol"):
        moore.save(tmp_path / "m.att")
    long = kl.Transducer([[0]], [["xy"]], "a")
    with pytest.raises(kl.FileError, match="in one move; AT&T files write at most one symbol"):
        long.save(tmp_path / "m.att")
    with pytest.raises(kl.FileError, match="write only on moves and may end anywhere"):
        moore.save(tmp_path / "m.jff")
    with pytest.raises(kl.FileError, match=r"unknown suffix '\.txt'"):
        long.save(tmp_path / "m.txt")


@pytest.mark.parametrize("symbol", [None, 1, [], {}, True])
def test_a_file_that_writes_what_is_no_symbol_is_refused(symbol):
    content = json.loads(json.dumps(kl.Transducer([[0]], [[("x",)]], "a").to_json()))
    content["outputs"][0][0] = [symbol]
    with pytest.raises(kl.FileError, match="no symbol"):
        from_json(content, "a file")
