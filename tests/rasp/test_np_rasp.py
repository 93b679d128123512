"""np-rasp's functions against NumPy-like oracles, and RASP-L's tasks: counting and addition, token by token."""

from __future__ import annotations

import random

import pytest

import kleene as kl
from kleene import rasp
from kleene.rasp import np_rasp as npr

X = rasp.tokens
PREFIX = {
    "shift_right": (npr.shift_right(X, 2, 9), lambda p: p[-3] if len(p) > 2 else 9),
    "cumsum": (npr.cumsum(X == 1), lambda p: p.count(1)),
    "where": (npr.where(X > 1, X, npr.full(X, 7)), lambda p: p[-1] if p[-1] > 1 else 7),
    "mask": (npr.mask(X, X > 1, -5), lambda p: p[-1] if p[-1] > 1 else -5),
    "maximum": (npr.maximum(X), max),
    "minimum": (npr.minimum(X), min),
    "argmax": (npr.argmax(X), lambda p: len(p) - 1 - p[::-1].index(max(p))),
    "argmin": (npr.argmin(X), lambda p: len(p) - 1 - p[::-1].index(min(p))),
    "num_prev": (npr.num_prev(X, npr.full(X, 2)), lambda p: p.count(2)),
    "has_seen": (npr.has_seen(X, npr.full(X, 3)), lambda p: int(3 in p)),
    "firsts": (npr.firsts(X, npr.full(X, 2)), lambda p: p.index(2) if 2 in p else -1),
    "lasts": (npr.lasts(X, npr.full(X, 2)), lambda p: len(p) - 1 - p[::-1].index(2) if 2 in p else -1),
    "index_select": (npr.index_select(X, X), lambda p: p[p[-1]] if p[-1] < len(p) else 0),
    "first_true": (npr.first_true(X > 2), lambda p: next((i for i, v in enumerate(p) if v > 2), -1)),
    "mode": (npr.mode(X), lambda p: most_frequent(p)),
    "binary_mode": (npr.binary_mode(X), lambda p: int(p.count(1) > p.count(0))),
    "induct": (npr.induct(X, X, 1), lambda p: after_first(p, p[-1])),
    "mean": (npr.kqv(X, X, X, lambda k, q: True), lambda p: int(sum(p) / len(p))),
    "tok_map": (npr.tok_map(X, lambda v: v * 2 + 1), lambda p: p[-1] * 2 + 1),
    "seq_map": (npr.seq_map(X, npr.indices(X), lambda v, i: v + i), lambda p: p[-1] + len(p) - 1),
    "smallest": (npr.kqv(X, X, X, npr.lt, reduction="min"), lambda p: min((v for v in p if v < p[-1]), default=0)),
}  # fmt: skip


def most_frequent(prefix):
    best, found = 0, None
    for i in range(len(prefix)):
        if (n := prefix[: i + 1].count(prefix[i])) >= best:
            best, found = n, prefix[i]
    return found


def after_first(prefix, value):
    """What follows the first occurrence of a value, if that is not the last position."""
    found = prefix[:-1].index(value) + 1 if value in prefix[:-1] else None
    return 0 if found is None else prefix[found]


@pytest.mark.parametrize("name", PREFIX)
def test_functions(name):
    sop, oracle = PREFIX[name]
    net = kl.compile(sop, vocab=range(4), max_seq_len=5, causal=True)
    chance = random.Random(name)
    for _ in range(60):
        xs = [chance.randrange(4) for _ in range(chance.randint(1, 5))]
        wanted = [oracle(xs[: i + 1]) for i in range(len(xs))]
        assert sop(xs) == rasp.evaluate_causally(sop, xs) == wanted, xs
        assert net.apply(xs).decoded == wanted, xs
    assert kl.certify(net).holds


def test_an_unknown_reduction_is_named():
    with pytest.raises(kl.ProgramError, match="reduction='sum'"):
        npr.aggr(npr.select(X, X, npr.equals), X, reduction="sum")


def generate(net, prompt, stop, most):
    """Append the last output until it is `stop`."""
    made = list(prompt)
    while made[-1] != stop and len(made) < most:
        made.append(net.apply(made).decoded[-1])
    return made[len(prompt) :]


def test_the_counting_task():
    """RASP-L's count: after `start`, a first and a last number, count from one to the other."""
    from kleene.library.rasp_programs import next_of_count

    sop = next_of_count(start=-1, end=-2)
    net = kl.compile(sop, vocab=[-2, -1, *range(9)], max_seq_len=14, causal=True)
    for first, last in [(2, 6), (0, 8), (3, 3)]:
        assert generate(net, [-1, first, last], -2, 14) == [*range(first, last + 1), -2]
    assert kl.verify(sop, net, random=60).mismatches == 0 and kl.certify(net).holds


def test_the_addition_task():
    """RASP-L's addition: digits with index hints, the lowest first in the answer."""
    from kleene.library.rasp_programs import addition_prompt, next_of_addition

    sop, hints = next_of_addition(), [-100, -101, -102]
    net = kl.compile(sop, vocab=[*range(10), *hints, -1, -2, -3, -5], max_seq_len=22, causal=True)
    for a, b in [(12, 34), (99, 1), (58, 67), (0, 0), (45, 55), (99, 99)]:
        answer = generate(net, addition_prompt(a, b, 3), -5, 22)
        assert int("".join(str(d) for d in answer if d >= 0)[::-1]) == a + b, (a, b, answer)
    assert kl.certify(net).holds
