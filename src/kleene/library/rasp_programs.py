"""Well-known RASP programs: those of Tracr's library, of the RASP paper, and of the RASP-L paper.

Each function gives an s-op, built with the s-ops of the original. `kl.compile(make_hist(), vocab="abc", max_seq_len=9)`
makes its network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from kleene import rasp
from kleene.errors import InputError
from kleene.rasp import Comparison, SOp, indices, tokens
from kleene.rasp import np_rasp as npr

# --- Tracr's library --------------------------------------------------------------------------------------------


def make_length() -> SOp:
    """The length of the input, at every position."""
    everything = rasp.Select(tokens, tokens, Comparison.TRUE).named("everything")
    return rasp.SelectorWidth(everything).named("length")


def make_reverse(sop: SOp) -> SOp:
    """The values from the last to the first."""
    mirror = (make_length() - indices - 1).named("mirror")
    return rasp.Aggregate(rasp.Select(indices, mirror, Comparison.EQ), sop).named("reverse")


def make_frac_prevs(bools: SOp) -> SOp:
    """Which fraction of the positions up to here is true."""
    so_far = rasp.Select(indices, indices, Comparison.LEQ).named("so_far")
    return rasp.numerical(rasp.Aggregate(so_far, rasp.numerical(bools), default=0)).named("frac_prevs")


def make_pair_balance(sop: SOp, open_token: Any, close_token: Any) -> SOp:
    """The fraction of opening tokens up to here minus that of closing ones."""
    opened = make_frac_prevs(rasp.numerical(sop == open_token)).named("opened")
    closed = make_frac_prevs(rasp.numerical(sop == close_token)).named("closed")
    return rasp.numerical(rasp.LinearSequenceMap(opened, closed, 1, -1)).named("pair_balance")


def make_shuffle_dyck(pairs: Sequence[str]) -> SOp:
    """Whether every pair of brackets balances by itself; the same answer at every position."""
    if not pairs or any(len(pair) != 2 for pair in pairs):
        raise InputError(f"make_shuffle_dyck: pairs={pairs!r}; give pairs of two characters, as in ['()', '[]']")
    balances = [make_pair_balance(tokens, *pair).named(f"balance_{place}") for place, pair in enumerate(pairs)]
    negative = reduce(lambda one, two: one | two, [balance < 0 for balance in balances])
    closed = reduce(lambda one, two: one & two, [balance == 0 for balance in balances])
    everything = rasp.Select(indices, indices, Comparison.TRUE)
    ever_negative = rasp.Aggregate(everything, rasp.numerical(rasp.Map(bool, negative)), default=0).named(
        "ever_negative"
    )
    last = rasp.Select(indices, make_length() - 1, Comparison.EQ).named("last")
    closed_at_the_end = rasp.Aggregate(last, closed).named("closed_at_the_end")
    return (closed_at_the_end & ~rasp.numerical(ever_negative)).named("shuffle_dyck")


def make_shuffle_dyck2() -> SOp:
    """Shuffle-Dyck of round and curly brackets."""
    return make_shuffle_dyck(["()", "{}"]).named("shuffle_dyck2")


def make_hist() -> SOp:
    """How often a position's token occurs."""
    return rasp.SelectorWidth(rasp.Select(tokens, tokens, Comparison.EQ).named("same_token")).named("hist")


def make_sort_unique(vals: SOp, keys: SOp) -> SOp:
    """The values in the order of their keys, which must differ."""
    place = rasp.SelectorWidth(rasp.Select(keys, keys, Comparison.LT).named("smaller")).named("target_pos")
    return rasp.Aggregate(rasp.Select(place, indices, Comparison.EQ), vals).named("sort")


def make_sort(vals: SOp, keys: SOp, *, max_seq_len: int, min_key: float) -> SOp:
    """The values in the order of their keys; equal keys keep their order. Keys differ by at least `min_key`."""
    distinct = rasp.SequenceMap(lambda key, index: key + min_key * index / max_seq_len, keys, indices)
    return make_sort_unique(vals, distinct.named("distinct_keys"))


def make_sort_freq(max_seq_len: int) -> SOp:
    """The tokens, the most frequent first."""
    return make_sort(tokens, -1 * make_hist(), max_seq_len=max_seq_len, min_key=1).named("sort_freq")


def shift_by(offset: int, /, sop: SOp) -> SOp:
    """The values moved to the right; None comes in."""
    from_there = rasp.Select(indices, indices, lambda key, query: query == key + offset)
    return rasp.Aggregate(from_there, sop, default=None).named(f"shift_by_{offset}")


def detect_pattern(sop: SOp, pattern: Sequence[Any]) -> SOp:
    """Whether the values up to here end with a pattern; None where fewer values precede."""
    if len(pattern) < 1:
        raise InputError("detect_pattern: the pattern is empty")
    found = [
        sop == element if back == 0 else shift_by(back, sop == element)
        for back, element in enumerate(reversed(pattern))
    ]
    detected: SOp = reduce(lambda one, two: one & two, reversed(found))
    return detected.named("detect_pattern")


def make_count_less_freq(n: int) -> SOp:
    """How many positions hold a token that occurs at most n times."""
    hist = make_hist()
    return rasp.SelectorWidth(rasp.Select(hist, hist, lambda key, query: key <= n)).named("count_less_freq")


def make_count(sop: SOp, token: Any) -> SOp:
    """How often a value occurs."""
    return rasp.SelectorWidth(rasp.Select(sop, sop, lambda key, query: key == token)).named("count")


def make_nary_sequencemap(f: Callable[..., Any], *sops: SOp) -> SOp:
    """A function of several s-ops, through s-ops of tuples."""
    first, *others = sops
    packed: SOp = rasp.Map(lambda x: (x,), first)
    for other in others:
        packed = rasp.SequenceMap(lambda values, value: (*values, value), packed, other)
    return rasp.Map(lambda values: f(*values), packed).named("nary")


# --- the RASP paper, in RASP's own notation ------------------------------------------------------------------------

PAPER = """
# Histograms: with a sequence that begins with a mark of its own (bos), and without.
def width_after_bos(chosen) {
    anchored = chosen or select(indices, 0, ==);
    return 1 / aggregate(anchored, indicator(indices == 0)) - 1;
}
same_token = select(tokens, tokens, ==);
hist_bos = width_after_bos(same_token);
hist_nobos = selector_width(same_token);

# How many different tokens are as frequent as this one.
first_of_its_kind = not has_focus(same_token and select(indices, indices, <));
hist2 = selector_width(select(hist_nobos, hist_nobos, ==) and select(first_of_its_kind, True, ==));

reverse = aggregate(select(indices, length - 1 - indices, ==), tokens);

sorted = sort(tokens, tokens);

# The different tokens, the most frequent first; the rest is filled.
def most_frequent_first(filler) {
    weight = hist_nobos if first_of_its_kind else 0;
    kept = tokens if first_of_its_kind else filler;
    return sort(kept, -weight);
}
most_freq = most_frequent_first("§");

# For each prefix: T balanced, P may become balanced, F cannot.
up_to_here = select(indices, indices, <=);
def seen(what) {
    return (indices + 1) * aggregate(up_to_here, indicator(what));
}
def verdict(failed, depth) {
    return "F" if failed else ("T" if depth == 0 else "P");
}
depth = seen(tokens == "(") - seen(tokens == ")");
dyck1_ptf = verdict(aggregate(up_to_here, indicator(depth < 0)) > 0, depth);

def shuffle_dyck_ptf(pairs) {
    depths = [seen(tokens == p[0]) - seen(tokens == p[1]) for p in pairs];
    negative = False;
    total = 0;
    for d in depths {
        negative = negative or (d < 0);
        total = total + (d if d > 0 else 0);
    }
    return verdict(aggregate(up_to_here, indicator(negative)) > 0, total);
}
shuffle_dyck2_ptf = shuffle_dyck_ptf(["()", "{}"]);

# A closing bracket finds its opening one: of the same depth, and the last before it.
def dyck_ptf(pairs) {
    opens = tokens in [p[0] for p in pairs];
    closes = tokens in [p[1] for p in pairs];
    level = seen(opens) - seen(closes);
    own_level = level + indicator(closes);
    turn = selector_width(select(own_level, own_level, ==) and up_to_here);
    partner = select(opens, True, ==) and select(own_level, own_level, ==) and select(turn, turn - 1, ==);
    fits = aggregate(partner, tokens, "-") + tokens in pairs;
    wrong = (closes and not fits) or (level < 0);
    return verdict(aggregate(up_to_here, indicator(wrong)) > 0, level);
}
dyck2_ptf = dyck_ptf(["()", "{}"]);
"""


def paper_programs() -> dict[str, SOp]:
    """The s-ops of the RASP paper's programs, by name."""
    names = ("hist_bos", "hist_nobos", "hist2", "reverse", "sorted", "most_freq", "dyck1_ptf", "shuffle_dyck2_ptf")
    made = rasp.parse(PAPER)
    return {name: made[name] for name in (*names, "dyck2_ptf")}


# --- the tasks of the RASP-L paper: the next token of a sequence, at every position ---------------------------------

START, PLUS, EQUALS, END, NONE = -1, -2, -3, -5, -88  # marks of the addition task; index hints are −100 and below


def next_of_count(start: int = -1, end: int = -2) -> SOp:
    """Count on: after `start`, a first and a last number come the numbers between them, and then `end`."""
    begin = npr.lasts(tokens, npr.full(tokens, start))
    first, last = npr.index_select(tokens, begin + 1), npr.index_select(tokens, begin + 2)
    at_first = npr.seq_map(indices, begin + 2, npr.equals)
    done = npr.where(npr.seq_map(tokens, last, npr.equals), npr.full(tokens, end), tokens + 1)
    return npr.where(at_first, first, done).named("next_of_count")


def addition_prompt(a: int, b: int, digits: int) -> list[int]:
    """`start a + b =`, highest digit first, each digit after its index hint."""

    def written(number: int) -> list[int]:
        return [t for place, digit in enumerate(str(number).rjust(digits, "0")) for t in (-100 - place, int(digit))]

    return [START, *written(a), PLUS, *written(b), EQUALS]


def next_of_addition() -> SOp:
    """The next token of a sum with index hints, lowest digit first, and `END` after the highest."""
    seen_plus, seen_equals = (npr.has_seen(tokens, npr.full(tokens, mark)) for mark in (PLUS, EQUALS))
    prompt = npr.mask(tokens, 1 - seen_equals)
    in_second = npr.seq_map(seen_plus, seen_equals, lambda plus, equals: plus and not equals)
    other = npr.induct(prompt, npr.shift_right(prompt, 1), 1)  # the first number's digit with the same hint
    sums = npr.mask(npr.seq_map(tokens, other, lambda x, y: x + y if x >= 0 else x), in_second, NONE)
    here = npr.induct(sums, npr.shift_right(tokens, 2), 1)  # the sum behind the last digit of the answer
    following = npr.induct(sums, tokens, 1)  # the sum after this hint
    digit = npr.shift_right(tokens, 1)
    carry = npr.seq_map(here, digit, lambda total, d: total > 9 or (total == 9 and d == 0))
    answer = npr.seq_map(following, carry, lambda total, c: (total + c) % 10)
    first_hint = npr.induct_prev(tokens, npr.full(tokens, EQUALS), -2)
    hint = npr.tok_map(digit, lambda before: before + 1)
    after_digit = npr.tok_map(tokens, lambda t: t > -100)
    ends = npr.seq_map(hint, after_digit, lambda h, a: a and h > -100)
    found = npr.where(after_digit, hint, answer)
    found = npr.where(ends, npr.full(tokens, END), found)
    return npr.where(tokens == EQUALS, first_hint, found).named("next_of_addition")
