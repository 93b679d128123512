"""The well-known RASP programs against plain Python: every short input, random long ones, and a certificate."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

import kleene as kl
from kleene import rasp
from kleene.library import rasp_programs as programs
from kleene.rasp import indices, tokens

PAPER = programs.paper_programs()
LETTERS, NUMBERS, BRACKETS = "abcd", (1, 2, 3, 4), "(){}"


class Case(NamedTuple):
    """A program for a longest input, its tokens, and what it should give."""

    make: Callable[[int], rasp.SOp]
    vocab: Any
    oracle: Callable[[list[Any]], list[Any]]
    slow: bool = False  # at length 40
    unique: bool = False  # only for inputs without repetitions


def prefixes(xs: list[Any]) -> list[list[Any]]:
    return [xs[: i + 1] for i in range(len(xs))]


def depths(xs: list[Any], pair: str) -> list[int]:
    return [p.count(pair[0]) - p.count(pair[1]) for p in prefixes(xs)]


def shuffle_dyck(xs: list[Any], pairs: list[str]) -> list[bool]:
    good = all(min(depths(xs, pair)) >= 0 and depths(xs, pair)[-1] == 0 for pair in pairs)
    return [good] * len(xs)


def verdicts(xs: list[Any], step: Callable[[list[Any], Any], bool], open_now: Callable[[list[Any]], bool]) -> list[str]:
    """F once a step fails, T where nothing is open, P otherwise."""
    state: list[Any] = []
    failed, found = False, []
    for x in xs:
        failed = failed or not step(state, x)
        found.append("F" if failed else "P" if open_now(state) else "T")
    return found


def nested(pairs: dict[str, str]) -> Callable[[list[Any], Any], bool]:
    def step(stack: list[Any], x: Any) -> bool:
        if x in pairs:
            stack.append(x)
        elif x in pairs.values():
            return bool(stack) and pairs[stack.pop()] == x
        return True

    return step


def shuffled(pairs: dict[str, str]) -> Callable[[list[Any], Any], bool]:
    def step(open_now: list[Any], x: Any) -> bool:
        if x in pairs:
            open_now.append(x)
        for begin, end in pairs.items():
            if x == end:
                if begin not in open_now:
                    return False
                open_now.remove(begin)
        return True

    return step


def by_frequency(xs: list[Any]) -> list[Any]:
    return sorted(xs, key=lambda x: -xs.count(x))


def most_frequent(xs: list[Any]) -> list[Any]:
    kinds = list(dict.fromkeys(xs))
    kinds.sort(key=lambda x: -xs.count(x))
    return [*kinds, *["§"] * (len(xs) - len(kinds))]


def pattern(xs: list[Any], wanted: str) -> list[Any]:
    size = len(wanted)
    return [None if i < size - 1 else "".join(xs[i - size + 1 : i + 1]) == wanted for i in range(len(xs))]


CASES = {
    "length": Case(lambda n: programs.make_length(), LETTERS, lambda xs: [len(xs)] * len(xs)),
    "reverse": Case(lambda n: programs.make_reverse(tokens), LETTERS, lambda xs: xs[::-1]),
    "frac_prevs": Case(
        lambda n: programs.make_frac_prevs(tokens == "a"), LETTERS,
        lambda xs: [p.count("a") / len(p) for p in prefixes(xs)], slow=True,
    ),
    "pair_balance": Case(
        lambda n: programs.make_pair_balance(tokens, "a", "b"), LETTERS,
        lambda xs: [(p.count("a") - p.count("b")) / len(p) for p in prefixes(xs)], slow=True,
    ),
    "shuffle_dyck": Case(lambda n: programs.make_shuffle_dyck2(), BRACKETS, lambda xs: shuffle_dyck(xs, ["()", "{}"])),
    "hist": Case(lambda n: programs.make_hist(), LETTERS, lambda xs: [xs.count(x) for x in xs]),
    "sort_unique": Case(
        lambda n: programs.make_sort_unique(tokens, tokens), NUMBERS, sorted, slow=True, unique=True
    ),
    "sort": Case(lambda n: programs.make_sort(tokens, tokens, max_seq_len=n, min_key=1), NUMBERS, sorted),
    "sort_freq": Case(lambda n: programs.make_sort_freq(n), LETTERS, by_frequency),
    "shift_by": Case(lambda n: programs.shift_by(2, tokens), LETTERS, lambda xs: ([None, None, *xs])[: len(xs)]),
    "detect_pattern": Case(lambda n: programs.detect_pattern(tokens, "aba"), LETTERS, lambda xs: pattern(xs, "aba")),
    "count_less_freq": Case(
        lambda n: programs.make_count_less_freq(2), LETTERS, lambda xs: [sum(xs.count(x) <= 2 for x in xs)] * len(xs)
    ),
    "count": Case(lambda n: programs.make_count(tokens, "a"), LETTERS, lambda xs: [xs.count("a")] * len(xs)),
    "nary_sequencemap": Case(
        lambda n: programs.make_nary_sequencemap(lambda x, y, z: x * y - z, tokens, indices, tokens), NUMBERS,
        lambda xs: [x * i - x for i, x in enumerate(xs)],
    ),
    "paper hist_bos": Case(
        # the first position stands for the mark that begins the sequence: it is counted by nobody
        lambda n: PAPER["hist_bos"], LETTERS, lambda xs: [xs[1:].count(x) for x in xs], slow=True,
    ),
    "paper hist_nobos": Case(lambda n: PAPER["hist_nobos"], LETTERS, lambda xs: [xs.count(x) for x in xs]),
    "paper hist2": Case(
        lambda n: PAPER["hist2"], LETTERS,
        lambda xs: [Counter(Counter(xs).values())[xs.count(x)] for x in xs],
    ),
    "paper reverse": Case(lambda n: PAPER["reverse"], LETTERS, lambda xs: xs[::-1]),
    "paper sorted": Case(lambda n: PAPER["sorted"], LETTERS, sorted),
    "paper most_freq": Case(lambda n: PAPER["most_freq"], LETTERS, most_frequent),
    "paper dyck1_ptf": Case(
        lambda n: PAPER["dyck1_ptf"], BRACKETS, lambda xs: verdicts(xs, nested({"(": ")"}), bool)
    ),
    "paper shuffle_dyck2_ptf": Case(
        lambda n: PAPER["shuffle_dyck2_ptf"], BRACKETS, lambda xs: verdicts(xs, shuffled({"(": ")", "{": "}"}), bool)
    ),
    "paper dyck2_ptf": Case(
        lambda n: PAPER["dyck2_ptf"], BRACKETS, lambda xs: verdicts(xs, nested({"(": ")", "{": "}"}), bool), slow=True
    ),
}  # fmt: skip


def short(case: Case, longest: int) -> Iterator[list[Any]]:
    for size in range(1, longest + 1):
        for xs in itertools.product(case.vocab, repeat=size):
            if not case.unique or len(set(xs)) == size:
                yield list(xs)


def compare(case: Case, net: kl.Transformer, inputs: list[list[Any]]) -> None:
    outputs = net.run_batch([net.encode(xs) for xs in inputs])
    for xs, output in zip(inputs, outputs):
        assert net.decode(output) == case.oracle(xs), xs


@pytest.mark.parametrize("name", CASES)
def test_every_short_input(name):
    case = CASES[name]
    net = kl.compile(case.make(6), vocab=case.vocab, max_seq_len=6)
    compare(case, net, list(short(case, 4)))
    assert kl.certify(net).holds


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_input_up_to_length_six(name):
    case = CASES[name]
    net = kl.compile(case.make(6), vocab=case.vocab, max_seq_len=6)
    compare(case, net, list(short(case, 6)))


def long_inputs(case: Case, longest: int, count: int) -> list[list[Any]]:
    chance = random.Random(0)
    made = [[chance.choice(case.vocab) for _ in range(chance.randint(1, longest))] for _ in range(count)]
    if set(case.vocab) == set(BRACKETS):  # random brackets fail at once: nest some
        made += [nest(chance, longest) for _ in range(count)]
    return [chance.sample(case.vocab, len(set(xs))) for xs in made] if case.unique else made


def nest(chance: random.Random, longest: int) -> list[str]:
    """Brackets that close what is open, up to a length, sometimes with a slip."""
    stack, made = [], []
    while len(made) < chance.randint(1, longest):
        if stack and chance.random() < 0.5:
            made.append({"(": ")", "{": "}"}[stack.pop(chance.choice([-1, -1, -1, 0]))])
        else:
            stack.append(chance.choice("({"))
            made.append(stack[-1])
    return made


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.slow])
def test_long_inputs(name):
    case = CASES[name]
    net = kl.compile(case.make(40), vocab=case.vocab, max_seq_len=40)
    compare(case, net, long_inputs(case, 40, 60))
    assert kl.certify(net).holds


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.slow])
def test_long_inputs_of_large_networks(name):
    case, longest = CASES[name], 20 if name == "paper dyck2_ptf" else 40
    net = kl.compile(case.make(longest), vocab=case.vocab, max_seq_len=longest)
    compare(case, net, long_inputs(case, longest, 60))
    assert kl.certify(net).holds


def test_sort_and_dyck_of_forty_are_no_larger_than_twice_the_written_ones():
    """Through the RASP door against the programs of the library that a person wrote."""
    ranked = kl.compile(programs.make_sort(tokens, tokens, max_seq_len=40, min_key=1), vocab=range(40), max_seq_len=40)
    written = kl.compile(kl.library.sort_unique(40, 40))
    assert ranked.sizes.hidden <= written.sizes.hidden and ranked.sizes.parameters <= written.sizes.parameters
    assert ranked.sizes.hidden <= 2 * kl.compile(kl.library.sort(40, 40)).sizes.hidden
    dyck, by_hand = programs.make_shuffle_dyck2(), kl.compile(kl.library.dyck2(40))
    made = kl.compile(dyck, vocab=BRACKETS, max_seq_len=40)
    assert made.sizes.hidden <= by_hand.sizes.hidden and made.sizes.parameters <= by_hand.sizes.parameters
