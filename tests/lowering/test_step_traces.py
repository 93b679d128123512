"""Traces as arrays: what the interpreter says, each row once, and no run in another's."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import kleene as kl
from kleene.lowering.step_traces import Traces

BITS = [[2, *bits] for n in range(5) for bits in product((0, 1), repeat=n)]
addition = kl.library.addition
SUMS = [addition.encode(text) for text in ("12+9", "5+5", "999+1", "0+0")]
PROGRAMS = [
    (kl.library.parity_relative, BITS),
    (kl.library.parity_absolute(6), [[1, 0, 1], [1, 1, 1, 1], [0]]),
    (kl.library.parity_sum(6), BITS),
    (addition, SUMS),
    (kl.library.parity_scratchpad(4), [[1, 0, 1, 2], [1, 2]]),
]


def by_interpreter(program, inputs):
    """(before, after) → [count, first place], by looking at every position of every layer."""
    spec, found = program.spec, {}
    for number, tokens in enumerate(inputs):
        made = program.run(tokens) if spec.max_tokens is not None else []
        runs = [[*tokens, *made[:k]] for k in range(len(made))] if made else [tokens]
        for run in runs:
            trace = program.trace(run)
            for layer, heads in enumerate(trace.heads):
                for place, state in enumerate(trace.states[layer]):
                    values = {**state, **{name: outputs[place].value for name, outputs in heads.items()}}
                    before = tuple(_index(spec.kinds[name], values[name]) for name in spec.kinds)
                    after = tuple(_index(spec.kinds[n], v) for n, v in trace.states[layer + 1][place].items())
                    at = found.setdefault((before, after), [0, number, layer + 1, place])
                    at[0] += 1
    return found


def _index(kind, value):
    if value is None:
        return -1
    return kind.index(kind.nearest(value)) if hasattr(kind, "nearest") else kind.index(value)


@pytest.mark.parametrize(("program", "inputs"), PROGRAMS, ids=lambda p: getattr(p, "__name__", ""))
def test_traces_are_the_interpreters(program, inputs):
    found = kl.traces(program, inputs)
    wanted = by_interpreter(program, inputs)
    after = np.stack([found.after[name] for name in program.spec.variables], axis=1)
    rows = zip(map(tuple, found.assignments().tolist()), map(tuple, after.tolist()))
    places = np.stack([found.count, found.input, found.layer, found.position], axis=1).tolist()
    mine = dict(zip(rows, places))
    assert len(mine) == len(found)  # each once
    assert mine.keys() == wanted.keys()
    assert all(mine[row][0] == wanted[row][0] for row in mine)
    if program.spec.max_tokens is None:
        assert mine == wanted


def test_no_run_sees_another():
    together = kl.traces(addition, SUMS)
    rows = {row for tokens in SUMS for row in map(tuple, kl.traces(addition, [tokens]).assignments().tolist())}
    assert rows == set(map(tuple, together.assignments().tolist()))
    again = kl.traces(addition, SUMS)
    assert all(np.array_equal(together.before[name], again.before[name]) for name in together.before)


def test_numerical_heads_keep_what_they_gave():
    found = kl.traces(kl.library.parity_sum(6), [[2, 1, 1, 0]])
    assert set(found.averages["share"].tolist()) == {1 / 3}


def test_files(tmp_path):
    found = kl.traces(kl.library.parity_sum(6), BITS)
    found.save(tmp_path / "parity.safetensors")
    again = Traces.load(tmp_path / "parity.safetensors")
    assert again.spec == found.spec and np.array_equal(again.layer, found.layer)
    for group in ("before", "after", "averages"):
        one, other = getattr(found, group), getattr(again, group)
        assert one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)
    (tmp_path / "bad").write_bytes(b"\x08\0\0\0\0\0\0\0{}")
    for bad in ("bad", "missing"):
        with pytest.raises(kl.FileError):
            Traces.load(tmp_path / bad)


def test_words_are_refused():
    class Counter(kl.Program):
        tokens = 1
        n = kl.word(4)
        output = n
        layers = 1

        def step(z):
            z.n = (z.n + 1) % 16

    with pytest.raises(kl.NotSupported, match="words"):
        kl.traces(Counter, [[0]])


def test_cycles_are_refused():
    with pytest.raises(kl.NotSupported, match="cycle of layers"):
        kl.traces(kl.library.computer(8), [[0, 1]])
