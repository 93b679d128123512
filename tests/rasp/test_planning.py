"""Programs as users of Tracr write them: compiled at two lengths, certified, and equal to plain Python."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import groupby
from typing import Any

import numpy as np
import pytest

import kleene as kl
from kleene.rasp import (
    Aggregate,
    AggregateFirst,
    AggregateLast,
    AggregateMax,
    Comparison,
    Full,
    Map,
    Select,
    SelectorAnd,
    SelectorWidth,
    SequenceMap,
    indices,
    numerical,
    tokens,
)

Oracle = Callable[[list[Any]], list[Any]]
EQ, LT, LEQ, GT = Comparison.EQ, Comparison.LT, Comparison.LEQ, Comparison.GT
so_far, before, after = (Select(indices, indices, how) for how in (LEQ, LT, GT))
same = Select(tokens, tokens, EQ)
hist = SelectorWidth(same)
length = SelectorWidth(Select(tokens, tokens, Comparison.TRUE))


def where(sop: Any) -> Any:
    """The positions where an s-op is true."""
    return Select(sop, sop, lambda key, query: key)


def earlier(by: int, default: Any) -> Any:
    return Aggregate(Select(indices, indices, lambda key, query: key == query - by), tokens, default=default)


def counted(token: str) -> Any:
    return SelectorWidth(SelectorAnd(Select(tokens, tokens, lambda key, query: key == token), so_far))


def ranked(sign: int) -> Any:
    keys = SequenceMap(lambda token, index: sign * token * 100 + index, tokens, indices)
    return SelectorWidth(Select(keys, keys, LT))


def at(place: Any, value: Any = tokens) -> Any:
    return Aggregate(Select(indices, place, EQ), value)


previous, starts = earlier(1, "_"), SequenceMap(lambda one, two: one != two, earlier(1, "_"), tokens)
trigrams = SequenceMap(lambda a, b: a + b, earlier(2, "_"), SequenceMap(lambda a, b: a + b, previous, tokens))
run_number = SelectorWidth(SelectorAnd(where(starts), so_far))
first = SelectorWidth(SelectorAnd(same, before)) == 0
depth = counted("(") - counted(")")
mirrored = SequenceMap(lambda a, b: a == b, tokens, at(length - indices - 1))


def depths(x: list[Any]) -> list[int]:
    return [x[: i + 1].count("(") - x[: i + 1].count(")") for i in range(len(x))]


def runs(x: list[Any]) -> list[list[Any]]:
    return [list(group) for _, group in groupby(x)]


PROGRAMS: dict[str, tuple[Any, Any, Oracle]] = {
    "histogram": (hist, "abcd", lambda x: [x.count(t) for t in x]),
    "histogram of histograms": (
        SelectorWidth(Select(hist, hist, EQ)),
        "abcd",
        lambda x: [sum(x.count(u) == x.count(t) for u in x) for t in x],
    ),
    "most frequent": (
        SelectorWidth(Select(hist, hist, GT)) == 0,
        "abcd",
        lambda x: [x.count(t) == max(map(x.count, x)) for t in x],
    ),
    "dominant": (
        SequenceMap(lambda n, total: 2 * n > total, hist, length),
        "abcd",
        lambda x: [2 * x.count(t) > len(x) for t in x],
    ),
    "shift": (earlier(1, None), "abcd", lambda x: [None, *x[:-1]]),
    "shift to the left": (earlier(-2, "_"), "abcd", lambda x: [*x[2:], *"__"][: len(x)]),
    "bigrams": (
        SequenceMap(lambda a, b: a + b, previous, tokens),
        "abcd",
        lambda x: [a + b for a, b in zip(["_", *x], x)],
    ),
    "trigrams counted": (
        SelectorWidth(Select(trigrams, trigrams, EQ)),
        "ab",
        lambda x: [_grams(x).count(gram) for gram in _grams(x)],
    ),
    "sort": (Aggregate(Select(ranked(1), indices, EQ), tokens), range(4), sorted),
    "sort, largest first": (
        Aggregate(Select(ranked(-1), indices, EQ), tokens),
        range(4),
        lambda x: sorted(x, reverse=True),
    ),
    "median": (
        Aggregate(Select(ranked(1), Map(lambda n: (n - 1) // 2, length), EQ), tokens),
        range(4),
        lambda x: [sorted(x)[(len(x) - 1) // 2]] * len(x),
    ),
    "first of its kind": (first, "abcd", lambda x: [t not in x[:i] for i, t in enumerate(x)]),
    "last of its kind": (
        SelectorWidth(SelectorAnd(same, after)) == 0,
        "abcd",
        lambda x: [t not in x[i + 1 :] for i, t in enumerate(x)],
    ),
    "how many kinds": (SelectorWidth(where(first)), "abcd", lambda x: [len(set(x))] * len(x)),
    "which occurrence": (
        SelectorWidth(SelectorAnd(same, so_far)),
        "abcd",
        lambda x: [x[: i + 1].count(t) for i, t in enumerate(x)],
    ),
    "how many runs": (SelectorWidth(where(starts)), "abcd", lambda x: [len(runs(x))] * len(x)),
    "length of the run": (
        SelectorWidth(Select(run_number, run_number, EQ)),
        "abcd",
        lambda x: [len(run) for run in runs(x) for _ in run],
    ),
    "induction": (
        AggregateLast(SelectorAnd(Select(earlier(1, None), tokens, EQ), before), tokens, default="_"),
        "abcd",
        lambda x: [next((x[j] for j in range(i - 1, 0, -1) if x[j - 1] == t), "_") for i, t in enumerate(x)],
    ),
    "distance to the same": (
        SequenceMap(
            lambda i, j: i - j if j >= 0 else 0, indices, AggregateLast(SelectorAnd(same, before), indices, default=-1)
        ),
        "abcd",
        lambda x: [next((i - j for j in range(i - 1, -1, -1) if x[j] == t), 0) for i, t in enumerate(x)],
    ),
    "Caesar": (
        Map(lambda t: chr((ord(t) - 94) % 8 + 97), tokens),
        "abcdefgh",
        lambda x: [chr((ord(t) - 94) % 8 + 97) for t in x],
    ),
    "palindrome": (
        SelectorWidth(Select(mirrored, mirrored, lambda key, query: not key)) == 0,
        "ab",
        lambda x: [x == x[::-1]] * len(x),
    ),
    "vowels": (
        SelectorWidth(Select(tokens, tokens, lambda key, query: key in "aei")),
        "aeixyz",
        lambda x: [sum(t in "aei" for t in x)] * len(x),
    ),
    "depth": (depth, "()", depths),
    "Dyck-1": (
        SequenceMap(
            lambda negative, last: negative == 0 and last == 0,
            SelectorWidth(Select(depth, depth, lambda key, query: key < 0)),
            at(length - 1, depth),
        ),
        "()",
        lambda x: [min(depths(x)) >= 0 and depths(x)[-1] == 0] * len(x),
    ),
    "parity": (
        Map(lambda n: n % 2, counted("1")),
        "01",
        lambda x: [x[: i + 1].count("1") % 2 for i in range(len(x))],
    ),
    "majority": (
        SequenceMap(
            lambda n, total: 2 * n > total,
            SelectorWidth(Select(tokens, tokens, lambda key, query: key == "1")),
            length,
        ),
        "01",
        lambda x: [2 * x.count("1") > len(x)] * len(x),
    ),
    "rotate": (at(SequenceMap(lambda i, n: (i + 1) % n, indices, length)), "abcd", lambda x: x[1:] + x[:1]),
    "largest so far": (
        AggregateMax(so_far, tokens),
        range(4),
        lambda x: [max(x[: i + 1]) for i in range(len(x))],
    ),
    "first token": (
        Aggregate(Select(indices, indices, lambda key, query: key == 0), tokens),
        "abcd",
        lambda x: x[:1] * len(x),
    ),
    "rare tokens hidden": (
        SequenceMap(lambda t, n: t if n > 1 else "_", tokens, hist),
        "abcd",
        lambda x: [t if x.count(t) > 1 else "_" for t in x],
    ),
    "every other": (
        SequenceMap(lambda t, i: t if i % 2 == 0 else "_", tokens, indices),
        "abcd",
        lambda x: [t if i % 2 == 0 else "_" for i, t in enumerate(x)],
    ),
    "the token that a token points at": (
        at(tokens, at(tokens)),
        range(4),
        lambda x: [_at(x, y) if (y := t) < len(x) and x[y] < len(x) else None for t in x],
    ),
    "moving average": (
        Aggregate(Select(indices, indices, lambda key, query: 0 <= query - key < 3), numerical(Map(float, tokens))),
        range(4),
        lambda x: [sum(x[max(0, i - 2) : i + 1]) / min(i + 1, 3) for i in range(len(x))],
    ),
    "selectors in selectors": (
        SelectorWidth(~((same & so_far) | ~(Select(indices, indices, Comparison.NEQ) | Select(tokens, Full("a"), EQ)))),
        "abc",
        lambda x: [
            sum(not ((u == t and j <= i) or not (i != j or u == "a")) for j, u in enumerate(x)) for i, t in enumerate(x)
        ],
    ),
    "kinds in order": (
        Aggregate(
            Select(
                SequenceMap(
                    lambda new, place: place if new else -1,
                    first,
                    SelectorWidth(Select(SequenceMap(lambda new, t: t if new else 9, first, tokens), tokens, LT)),
                ),
                indices,
                EQ,
            ),
            tokens,
        ),
        range(4),
        lambda x: [*sorted(set(x)), *[None] * len(x)][: len(x)],
    ),
    "next larger token": (
        AggregateFirst(Select(tokens, tokens, GT) & after, tokens, default=-1),
        range(4),
        lambda x: [next((u for u in x[i + 1 :] if u > t), -1) for i, t in enumerate(x)],
    ),
    "from both ends in turn": (
        at(SequenceMap(lambda i, n: i // 2 if i % 2 == 0 else n - 1 - i // 2, indices, length)),
        "abc",
        lambda x: [x[i // 2] if i % 2 == 0 else x[-1 - i // 2] for i in range(len(x))],
    ),
    "letters since the last stop": (
        indices - AggregateLast(Select(tokens, Full("."), EQ) & before, indices, default=-1) - 1,
        "ab.",
        lambda x: [next((i - j - 1 for j in range(i - 1, -1, -1) if x[j] == "."), i) for i in range(len(x))],
    ),
    "values of NumPy": (
        Map(np.sqrt, Map(np.int64, tokens)),
        range(4),
        lambda x: [t**0.5 for t in x],
    ),
    "fraction so far": (
        Aggregate(so_far, numerical(Map(lambda t: int(t == "a"), tokens)), default=0),
        "ab",
        lambda x: [x[: i + 1].count("a") / (i + 1) for i in range(len(x))],
    ),
}
LONGEST = {"fraction so far": 12, "trigrams counted": 20}  # many fractions, many kinds: large networks


def _at(x: list[Any], place: int) -> Any:
    return x[x[place]]


def _grams(x: list[Any]) -> list[str]:
    padded = "__" + "".join(x)
    return [padded[i : i + 3] for i in range(len(x))]


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_what_plain_python_says(name):
    sop, vocab, oracle = PROGRAMS[name]
    chance = random.Random(0)
    for longest in (5, LONGEST.get(name, 40)):
        net = kl.compile(sop, vocab=set(vocab), max_seq_len=longest)
        assert kl.certify(net).holds
        for _ in range(6):
            word = [chance.choice(list(vocab)) for _ in range(chance.randint(1, longest))]
            assert list(net.apply(word).decoded) == oracle(word), word
