"""Plain Python costs what a table does: constants that one value decides are one function of it."""

from __future__ import annotations

from typing import Any

import pytest

import kleene as kl
from kleene.lowering.guarding import guarded_updates

TABLE = [(7 * i + 3) % 26 for i in range(26)]
WAYS: dict[str, Any] = {
    "table": lambda z: kl.table(TABLE)[z.x],
    "list": lambda z: TABLE[z.x],
    "dict": lambda z: dict(enumerate(TABLE))[z.x],
    "index": lambda z: [TABLE.index(i) for i in range(26)].index(z.x),
}


def indexing(way: str) -> Any:
    class Indexes(kl.Program):
        tokens, layers = 26, 1
        x = kl.cat(26, token=lambda t: t)
        on = kl.cat(2, token=lambda t: t % 2)
        y = kl.cat(26)
        output = y

        def step(z):
            if z.on:
                z.y = WAYS[way](z)

    return Indexes


@pytest.mark.parametrize("way", WAYS)
def test_indexing_costs_what_a_table_does(way):
    program = indexing(way)
    assert kl.explain_size(program).hidden == kl.explain_size(indexing("table")).hidden
    assert len(guarded_updates(program)) == 1
    assert list(kl.compile(program).run(list(range(26)))) == [TABLE[i] if i % 2 else 0 for i in range(26)]
    assert kl.certify(kl.compile(program), program=program).holds


def test_updates_are_the_same_function_however_they_are_written():
    assert guarded_updates(indexing("dict")) == guarded_updates(indexing("table"))
    assert kl.decompile(kl.compile(indexing("dict"))) == guarded_updates(indexing("list"))
