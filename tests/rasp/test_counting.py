"""B-RASP and C-RASP: what programs accept, and which fragment they lie in."""

from __future__ import annotations

import itertools
import re

import pytest

import kleene as kl
from kleene import rasp

DYCK = """
depth = count("(") - count(")")
accept = depth == 0 and count(depth < 0) == 0
"""
PROGRAMS = {
    "balanced": (DYCK, "()", lambda w: balanced(w), "C-RASP"),
    "majority": ('accept = count("a") > count("b")', "ab", lambda w: w.count("a") > w.count("b"), "C-RASP"),
    "twice as many": (
        'accept = count("a") == 2 * count("b")', "ab", lambda w: w.count("a") == 2 * w.count("b"), "C-RASP"
    ),
    "a* b*": (
        'late = "a" and last("b", True)\nbad = late or last(late, True)\naccept = not bad\n',
        "ab", lambda w: re.fullmatch("a*b*", w) is not None, "B-RASP",
    ),
    "first is last": (
        'other = "b"\nfirst_a = first("a" or "b", "a", "a")\naccept = ("a" and first_a) or ("b" and not first_a)',
        "ab", lambda w: w[0] == w[-1], "B-RASP",
    ),
    "token": ('accept = "a"', "ab", lambda w: w[-1] == "a", "position-wise"),
    "mixed": (
        'accept = last(True, "a") and count("b") >= 2',
        "ab", lambda w: len(w) > 1 and w[-2] == "a" and w.count("b") >= 2, "B-RASP with counting",
    ),
    "conditional": (
        'n = count("a") if "a" else count("b")\naccept = n >= 2', "ab", lambda w: w.count(w[-1]) >= 2, "C-RASP"
    ),
}  # fmt: skip


def balanced(word):
    depth = 0
    for letter in word:
        depth += 1 if letter == "(" else -1
        if depth < 0:
            return False
    return depth == 0


@pytest.mark.parametrize("name", PROGRAMS)
def test_networks_accept_what_the_language_has(name):
    text, alphabet, wanted, fragment = PROGRAMS[name]
    program = rasp.crasp(text)
    net = kl.compile(program, vocab=alphabet, max_seq_len=7, causal=True)
    for size in range(1, 8):
        for letters in itertools.product(alphabet, repeat=size):
            word = "".join(letters)
            assert program.accepts(word) == wanted(word), word
    assert kl.verify(program, net, lengths=range(1, 8)).mismatches == 0
    assert kl.certify(net).holds
    assert program.fragment.name == fragment and fragment in str(program.fragment)


def test_nesting_is_counted():
    fragment = rasp.crasp(DYCK).fragment
    assert (fragment.counts, fragment.attention) == (2, 0)


def test_leftmost_and_rightmost():
    same = rasp.Select(rasp.tokens, rasp.tokens, rasp.Comparison.EQ)
    first, last = rasp.leftmost(same, rasp.indices), rasp.rightmost(same, rasp.indices)
    assert first("abab") == [0, 1, 0, 1] and last("abab") == [2, 3, 2, 3]
    for sop in (first, last):
        net = kl.compile(sop, vocab="ab", max_seq_len=6)
        assert kl.verify(sop, net, lengths=range(1, 6)).mismatches == 0 and kl.certify(net).holds


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "no definitions"),
        ("accept", "line 1: 'accept' is not name = expression"),
        ("accept = ", "not name = expression"),
        ('x = count("a")', "'x', is a count"),
        ('x = count("a") and "b"', "a term where a formula should be"),
        ('x = "a" + 1', "a formula where a term should be"),
        ('x = count("a") * count("b") > 1', "multiplied by a whole number"),
        ("x = y", "'y' is not defined above"),
        ('x = __import__("os")', "there are count"),
        ('x = 1 < count("a") < 3', "compare two terms"),
        ('count = "a"', "must be a new name"),
        ("x = 1.5", "no token and no whole number"),
        ("x = [1]", "is no formula and no term"),
    ],
)
def test_errors_say_the_line(text, words):
    with pytest.raises(kl.ProgramError, match=re.escape(words)):
        rasp.crasp(text)
