"""What s-ops can be: programs of many styles against plain Python, and which selections hold equal values."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import kleene as kl
from kleene import rasp
from kleene.library import rasp_programs as lib
from kleene.rasp import Aggregate, Comparison, Full, Map, Select, SelectorWidth, SequenceMap, indices, tokens
from kleene.rasp.analysis import Averaged, Picked
from kleene.rasp.program import analyse

EQ, LT, GT = Comparison.EQ, Comparison.LT, Comparison.GT
EVERY = Select(indices, indices, Comparison.TRUE)
DIGITS, LETTERS, FRACTIONS = range(7), "abcd", [0.25 * k for k in range(6)]
WORDS = ["plum", "Fig", "pear", "sloe", "noon", "x"]
LENGTH = SelectorWidth(EVERY)

Oracle = Callable[[list[Any]], list[Any]]


def at(index: Any, value: rasp.SOp = tokens, default: Any = None) -> rasp.SOp:
    return Aggregate(Select(indices, index if isinstance(index, rasp.SOp) else Full(index), EQ), value, default)


def before(back: int, default: Any = None, value: rasp.SOp = tokens) -> rasp.SOp:
    return Aggregate(Select(indices, indices, lambda key, query: key + back == query), value, default)


def number(truth: rasp.SOp) -> rasp.SOp:
    """How many positions are true."""
    return SelectorWidth(Select(truth, Full(True), EQ))


def extreme(beats: Comparison) -> rasp.SOp:
    """A token that no other token beats."""
    return Aggregate(Select(SelectorWidth(Select(tokens, tokens, beats)), Full(0), EQ), tokens)


def total(of: rasp.SOp = tokens) -> rasp.SOp:
    return Map(round, Aggregate(EVERY, of) * LENGTH)


def first_seen() -> rasp.SOp:
    return SelectorWidth(Select(tokens, tokens, EQ) & Select(indices, indices, LT)) == 0


ELEMENTS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "root": (DIGITS, math.sqrt),
    "exponential": (DIGITS, math.exp),
    "logarithm": (DIGITS, lambda x: math.log(1 + x)),
    "sine": (DIGITS, math.sin),
    "sigmoid": (range(-3, 4), lambda x: 1 / (1 + math.exp(-x))),
    "tanh": (range(-3, 4), math.tanh),
    "relu": (range(-3, 4), lambda x: max(0, x)),
    "sign": (range(-3, 4), lambda x: (x > 0) - (x < 0)),
    "cube": (DIGITS, lambda x: x**3),
    "clip": (DIGITS, lambda x: min(max(x, 2), 5)),
    "round": (FRACTIONS, round),
    "inverse or none": (DIGITS, lambda x: 1 / x if x else None),
    "prime": (range(30), lambda x: x > 1 and all(x % d for d in range(2, x))),
    "square number": (range(30), lambda x: math.isqrt(x) ** 2 == x),
    "ones in binary": (DIGITS, int.bit_count),
    "word": (DIGITS, lambda x: ("none", "one", "two", "many")[min(x, 3)]),
    "length of a word": (WORDS, len),
    "word backwards": (WORDS, lambda w: "".join(reversed(w))),
    "palindrome word": (WORDS, lambda w: w == w[::-1]),
    "capitals": (WORDS, str.swapcase),
    "share of vowels": (WORDS, lambda w: sum(c in "aeiou" for c in w.lower()) / len(w)),
    "letter's number": (LETTERS, ord),
    "pair": ([(0, 1), (2, 3), (4, 4)], lambda p: p[0] * p[1]),
    "truth": ([True, False], lambda b: not b),
    "class of a word": (WORDS, lambda w: {"plum": "fruit", "pear": "fruit", "noon": "time"}.get(w, "unknown")),
}

SEQUENCES: dict[str, tuple[Any, Callable[[], rasp.SOp], Oracle]] = {
    "mean": (DIGITS, lambda: Aggregate(EVERY, tokens), lambda xs: [sum(xs) / len(xs)] * len(xs)),
    "sum": (range(4), total, lambda xs: [sum(xs)] * len(xs)),
    "running sum": (
        range(4), lambda: SequenceMap(lambda m, i: round(m * (i + 1)),
                                      Aggregate(Select(indices, indices, Comparison.LEQ), tokens), indices),
        lambda xs: list(itertools.accumulate(xs)),
    ),
    "largest": (DIGITS, lambda: extreme(GT), lambda xs: [max(xs)] * len(xs)),
    "smallest word": (WORDS, lambda: extreme(LT), lambda xs: [min(xs)] * len(xs)),
    "range": (DIGITS, lambda: extreme(GT) - extreme(LT), lambda xs: [max(xs) - min(xs)] * len(xs)),
    "scaled": (
        range(4), lambda: lib.make_nary_sequencemap(lambda x, low, top: (x - low) / (top - low) if top > low else 0,
                                                    tokens, extreme(LT), extreme(GT)),
        lambda xs: [(x - min(xs)) / (max(xs) - min(xs)) if len(set(xs)) > 1 else 0 for x in xs],
    ),
    "is it the largest": (DIGITS, lambda: SelectorWidth(Select(tokens, tokens, GT)) == 0,
                          lambda xs: [x == max(xs) for x in xs]),
    "median": (
        DIGITS, lambda: at(Map(lambda n: n // 2, LENGTH), lib.make_sort(tokens, tokens, max_seq_len=6, min_key=1)),
        lambda xs: [sorted(xs)[len(xs) // 2]] * len(xs),
    ),
    "palindrome": (LETTERS, lambda: number(SequenceMap(lambda x, y: x != y, tokens, lib.make_reverse(tokens))) == 0,
                   lambda xs: [xs == xs[::-1]] * len(xs)),
    "parity": (range(4), lambda: number(tokens % 2 == 1) % 2, lambda xs: [sum(xs) % 2] * len(xs)),
    "all even": (DIGITS, lambda: number(tokens % 2 == 1) == 0, lambda xs: [all(x % 2 == 0 for x in xs)] * len(xs)),
    "kinds": (LETTERS, lambda: number(first_seen()), lambda xs: [len(set(xs))] * len(xs)),
    "where it was first": (
        LETTERS,
        lambda: Aggregate(Select(tokens, tokens, EQ) & Select(first_seen(), Full(True), EQ), indices),
        lambda xs: [xs.index(x) for x in xs],
    ),
    "most frequent": (LETTERS, lambda: at(0, lib.make_sort_freq(6)),
                      lambda xs: [sorted(xs, key=lambda x: -xs.count(x))[0]] * len(xs)),
    "share of its kind": (LETTERS, lambda: lib.make_hist() / LENGTH, lambda xs: [xs.count(x) / len(xs) for x in xs]),
    "rare or frequent": (LETTERS, lambda: Map(lambda n: "rare" if n < 2 else "frequent", lib.make_hist()),
                         lambda xs: ["rare" if xs.count(x) < 2 else "frequent" for x in xs]),
    "rank": (DIGITS, lambda: SelectorWidth(Select(tokens, tokens, LT)),
             lambda xs: [sum(y < x for y in xs) for x in xs]),
    "by first letter": (
        WORDS, lambda: lib.make_sort(tokens, Map(lambda w: ord(w[0]), tokens), max_seq_len=6, min_key=1),
        lambda xs: sorted(xs, key=lambda w: w[0]),
    ),
    "fractions sorted": (FRACTIONS, lambda: lib.make_sort(tokens, tokens, max_seq_len=6, min_key=0.25), sorted),
    "odd ones first": (
        DIGITS, lambda: lib.make_sort_unique(tokens, SequenceMap(lambda t, i: (1 - t % 2, i), tokens, indices)),
        lambda xs: [x for x in xs if x % 2] + [x for x in xs if not x % 2],
    ),
    "to the left": (DIGITS, lambda: at(SequenceMap(lambda i, n: (i + 1) % n, indices, LENGTH)),
                    lambda xs: xs[1:] + xs[:1]),
    "halves exchanged": (
        LETTERS,
        lambda: at(SequenceMap(lambda i, n: i + n // 2 if i < n - n // 2 else i - (n - n // 2), indices, LENGTH)),
        lambda xs: xs[len(xs) // 2:] + xs[: len(xs) // 2],
    ),
    "halves sent": (
        LETTERS,
        lambda: Aggregate(Select(SequenceMap(lambda i, n: (i + n // 2) % n, indices, LENGTH), indices, EQ), tokens),
        lambda xs: [xs[(i - len(xs) // 2) % len(xs)] for i in range(len(xs))],
    ),
    "neighbours exchanged": (DIGITS, lambda: at(Map(lambda i: i ^ 1, indices)),
                             lambda xs: [xs[i ^ 1] if i ^ 1 < len(xs) else None for i in range(len(xs))]),
    "pointer": (range(6), lambda: at(tokens), lambda xs: [xs[x] if x < len(xs) else None for x in xs]),
    "times the next": (DIGITS, lambda: tokens * before(-1, 1), lambda xs: [x * y for x, y in zip(xs, [*xs[1:], 1])]),
    "last two": (LETTERS, lambda: SequenceMap(lambda x, y: x == y, at(LENGTH - 1), at(LENGTH - 2)),
                 lambda xs: [None if len(xs) < 2 else xs[-1] == xs[-2]] * len(xs)),
    "trend": (
        DIGITS, lambda: SequenceMap(lambda x, y: "up" if x > y else "down" if x < y else "level", tokens, before(1)),
        lambda xs: [None, *("up" if y > x else "down" if y < x else "level" for x, y in itertools.pairwise(xs))],
    ),
    "no repeats": (LETTERS, lambda: SequenceMap(lambda x, y: None if x == y else x, tokens, before(1, "")),
                   lambda xs: [None if xs[i - 1: i] == [x] else x for i, x in enumerate(xs)]),
    "window": (DIGITS, lambda: Aggregate(Select(indices, indices, lambda k, q: q - 2 <= k <= q), tokens),
               lambda xs: [sum(w) / len(w) for w in (xs[max(0, i - 2): i + 1] for i in range(len(xs)))]),
    "in order": (DIGITS, lambda: number(SequenceMap(lambda x, y: x > y, tokens, before(-1, 99))) == 0,
                 lambda xs: [xs == sorted(xs)] * len(xs)),
    "pattern somewhere": ("ab", lambda: number(lib.detect_pattern(tokens, "aba")) > 0,
                          lambda xs: ["aba" in "".join(xs)] * len(xs)),
    "next larger": (range(5), lambda: rasp.AggregateMin(Select(tokens, tokens, GT), tokens),
                    lambda xs: [min((y for y in xs if y > x), default=None) for x in xs]),
    "above the mean": (DIGITS, lambda: SequenceMap(lambda x, m: x > m, tokens, Aggregate(EVERY, tokens)),
                       lambda xs: [x * len(xs) > sum(xs) for x in xs]),
    "majority": ([0, 1], lambda: Aggregate(EVERY, tokens) > 0.5, lambda xs: [2 * sum(xs) > len(xs)] * len(xs)),
    "tuples": (LETTERS, lambda: SequenceMap(lambda t, i: (t, i % 2), tokens, indices),
               lambda xs: [(x, i % 2) for i, x in enumerate(xs)]),
    "mode of counts": (LETTERS, lambda: number(lib.make_hist() == 2),
                       lambda xs: [2 * sum(n == 2 for n in Counter(xs).values())] * len(xs)),
    "third of all": (DIGITS, lambda: rasp.LinearSequenceMap(tokens, indices, 3, -2),
                     lambda xs: [3 * x - 2 * i for i, x in enumerate(xs)]),
}  # fmt: skip


def check(make: Callable[[], rasp.SOp], vocab: Any, oracle: Oracle) -> None:
    net = kl.compile(make(), vocab=vocab, max_seq_len=6)
    chance, words = random.Random(0), list(vocab)
    inputs = [list(xs) for size in (1, 2) for xs in itertools.product(words, repeat=size)]
    inputs += [[chance.choice(words) for _ in range(chance.randint(3, 6))] for _ in range(40)]
    for xs, output in zip(inputs, net.run_batch([net.encode(xs) for xs in inputs])):
        assert net.decode(output) == oracle(xs), xs
    assert kl.certify(net).holds


@pytest.mark.parametrize("name", ELEMENTS)
def test_functions_of_one_element(name):
    vocab, function = ELEMENTS[name]
    check(lambda: Map(function, tokens), vocab, lambda xs: [function(x) for x in xs])


@pytest.mark.parametrize("name", SEQUENCES)
def test_functions_of_sequences(name):
    vocab, make, oracle = SEQUENCES[name]
    check(make, vocab, oracle)


def last_atom(sop: rasp.SOp, vocab: Any, causal: bool = False) -> Any:
    return analyse(sop, vocab, 6, causal, "BOS").atoms[-1]


def test_the_largest_is_one_value_wherever_it_stands():
    """Positions that equally many others beat hold equal tokens, so the mean of several is no new value."""
    atom = last_atom(extreme(GT), DIGITS)
    assert isinstance(atom, Averaged) and atom.equal and len(atom.domain) == 8  # the tokens, and None
    assert not rasp.validate(extreme(GT), vocab=DIGITS, max_seq_len=6)
    assert kl.compile(extreme(GT), vocab=range(11), max_seq_len=9).sizes.parameters < 20_000


def test_what_a_width_does_not_order_is_averaged():
    """Equal widths of `!=` say nothing of the tokens; nor does a width of one position for another's neighbour."""
    apart = SelectorWidth(Select(tokens, tokens, Comparison.NEQ))
    for sop in (
        Aggregate(Select(apart, Full(1), EQ), tokens),
        Aggregate(Select(SelectorWidth(Select(tokens, tokens, LT)), Full(0), EQ), before(1, 0)),
        Aggregate(Select(SelectorWidth(Select(tokens, tokens, LT)), Full(0), GT), tokens),
    ):
        atom = last_atom(sop, DIGITS)
        assert isinstance(atom, Averaged) and not atom.equal
        net = kl.compile(sop, vocab=range(3), max_seq_len=4)
        assert kl.verify(sop, net, lengths=range(1, 5)).mismatches == 0


def test_first_occurrences_of_one_token_are_one_position():
    atom = last_atom(SEQUENCES["where it was first"][1](), LETTERS)
    assert isinstance(atom, Picked)


def test_positions_are_compared_within_one_length():
    """Where each position sends its token depends on the length, which all positions share."""
    assert isinstance(last_atom(SEQUENCES["halves sent"][1](), LETTERS), Picked)


def test_means_that_lie_too_close_are_refused_with_advice():
    roots = Aggregate(EVERY, Map(math.sqrt, tokens)).named("mean_root")
    with pytest.raises(kl.NotSupported, match=r"'mean_root' averages numbers such as 1.41.* round"):
        kl.compile(roots, vocab=DIGITS, max_seq_len=6)
    rounded = Aggregate(EVERY, Map(lambda x: round(math.sqrt(x), 2), tokens))
    assert kl.compile(rounded, vocab=range(4), max_seq_len=3).apply([0, 1, 2]).decoded[0] == pytest.approx(2.41 / 3)


def test_too_many_values_of_a_variable_are_refused():
    pairs = SequenceMap(lambda x, y: (x, y), SequenceMap(lambda x, y: (x, y), tokens, indices), before(1))
    with pytest.raises(kl.NotSupported, match=r"can have .* values"):
        kl.compile(pairs, vocab=range(40), max_seq_len=30)


SO_FAR = Select(indices, indices, Comparison.LEQ)
SUMS: dict[str, tuple[Any, Callable[[], rasp.SOp], Oracle]] = {
    "running sum": (range(10), lambda: Map(round, Aggregate(SO_FAR, tokens) * (indices + 1)),
                    lambda xs: list(itertools.accumulate(xs))),
    "sum of all": (range(10), total, lambda xs: [sum(xs)] * len(xs)),
    "sum of negative numbers": (range(-7, 8, 2), total, lambda xs: [sum(xs)] * len(xs)),
    "sum of fractions": ([0.25, 0.5, 2, 3.75], lambda: Aggregate(EVERY, tokens) * LENGTH,
                         lambda xs: [sum(xs)] * len(xs)),
    "sum before": (range(10), lambda: Map(round, Aggregate(Select(indices, indices, LT), tokens, 0) * indices),
                   lambda xs: [0, *itertools.accumulate(xs)][: len(xs)]),
    "sum of the like": (
        range(8), lambda: Map(round, Aggregate(Select(tokens, tokens, lambda k, q: k % 2 == q % 2), tokens)
                              * SelectorWidth(Select(tokens, tokens, lambda k, q: k % 2 == q % 2))),
        lambda xs: [sum(y for y in xs if y % 2 == x % 2) for x in xs],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SUMS)
def test_sums_of_many_numbers_are_exact(name):
    """Their means are more than a network has room for; the sums are counted digit by digit."""
    vocab, make, oracle = SUMS[name]
    net = kl.compile(make(), vocab=vocab, max_seq_len=40)
    assert net.sizes.parameters < 4_000_000
    chance = random.Random(0)
    inputs = [[chance.choice(list(vocab)) for _ in range(chance.choice([1, 2, 39, 40]))] for _ in range(12)]
    for xs, output in zip(inputs, net.run_batch([net.encode(xs) for xs in inputs])):
        assert net.decode(output) == oracle(xs), xs


def test_too_many_means_are_refused_and_not_read_as_none():
    """A position between two numbers is never called None where a selector averages on purpose."""
    with pytest.raises(kl.NotSupported, match=r"'mean' can have more than 30,000 different means of up to 60 numbers"):
        kl.compile(Aggregate(EVERY, tokens).named("mean"), vocab=range(40), max_seq_len=60)
    above = Aggregate(EVERY, tokens) > 4.5  # 4,411 means, of which two kinds are told apart
    net = kl.compile(above, vocab=range(10), max_seq_len=40)
    assert net.apply([4, 5] * 19 + [5, 5]).decoded == [True] * 40 and not any(net.apply([4, 5] * 20).decoded)


def test_a_missing_value_is_no_number_in_a_difference_of_means():
    sop = Aggregate(SO_FAR, before(1)) - Aggregate(SO_FAR, tokens)
    net = kl.compile(sop, vocab=range(3), max_seq_len=4)
    assert kl.verify(sop, net, lengths=range(1, 5)).mismatches == 0


def test_an_extreme_of_a_falling_function_of_the_index():
    """The largest of −index stands first, the largest of the index last; neither of their mixture."""
    for function in (lambda i: -i, lambda i: 2 * i, lambda i: i ^ 1):
        for kind in (rasp.AggregateMax, rasp.AggregateMin):
            sop = kind(Select(tokens, tokens, Comparison.NEQ), Map(function, indices), -9)
            net = kl.compile(sop, vocab="ab", max_seq_len=4)
            assert kl.verify(sop, net, lengths=range(1, 5)).mismatches == 0


def test_a_constant_is_aggregated():
    running = Aggregate(SO_FAR, Aggregate(SO_FAR, Map(lambda t: 1, tokens), 0), 0)
    sop = SelectorWidth(Select(running, tokens, lambda key, query: key == 1 and query == "a"))
    net = kl.compile(sop, vocab="ab", max_seq_len=4)
    assert kl.verify(sop, net, lengths=range(1, 5)).mismatches == 0
