"""kl.regex agrees with re.fullmatch."""

from __future__ import annotations

import random
import re
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kleene as kl
from kleene.common.alphabet import all_words

ALPHABET = "abA1_\n -é"
SHORT = ["".join(w) for size in range(4) for w in product(ALPHABET, repeat=size)]
ATOMS = [
    "a",
    "b",
    "A",
    ".",
    "[ab]",
    "[^a]",
    "[^ab\\n]",
    "\\w",
    "\\n",
    "_",
    "[a-c]",
    "\\W",
    "\\d",
    "1",
    "",
    "\\s",
    "\\S",
    "é",
]
ANCHORS = ["^", "$", "\\A", "\\Z", "\\b", "\\B"]
REPEATS = ["*", "+", "?", "{2}", "{1,3}", "{2,}", "{,2}", "*?", "+?", "??", "{1,2}?"]
FLAGS = ["i", "m", "s", "a", "-i", "ims"]


def random_pattern(rng: random.Random, depth: int) -> str:
    kind = rng.random()
    if depth == 0 or kind < 0.3:
        return rng.choice(ATOMS)
    if kind < 0.5:
        return random_pattern(rng, depth - 1) + random_pattern(rng, depth - 1)
    if kind < 0.65:
        return f"(?:{random_pattern(rng, depth - 1)}|{random_pattern(rng, depth - 1)})"
    if kind < 0.7:
        return f"({random_pattern(rng, depth - 1)})"
    if kind < 0.9:
        return f"(?:{random_pattern(rng, depth - 1)}){rng.choice(REPEATS)}"
    if kind < 0.96:
        return rng.choice(ANCHORS)
    return f"(?{rng.choice(FLAGS)}:{random_pattern(rng, depth - 1)})"


@pytest.mark.parametrize("seed", range(20))
def test_thousands_of_patterns(seed: int) -> None:
    """20 × 150 patterns × 60 strings."""
    rng = random.Random(seed)
    for _ in range(150):
        pattern = random_pattern(rng, 4)
        flags = rng.choice([0, 0, 0, re.IGNORECASE, re.MULTILINE, re.DOTALL, re.ASCII])
        matcher, dfa = re.compile(pattern, flags), kl.regex(pattern, ALPHABET, flags=flags)
        words = rng.sample(SHORT, 40) + [
            "".join(rng.choice("ab1\n") for _ in range(rng.randrange(9))) for _ in range(20)
        ]
        expected = [bool(matcher.fullmatch(word)) for word in words]
        assert dfa.accepts_batch(words).tolist() == expected, pattern


@pytest.mark.filterwarnings("ignore::FutureWarning")
@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="ab|*+?()[]^$.{}12,\\", max_size=8), st.text(alphabet="ab12", max_size=6))
def test_any_text_as_a_pattern(pattern: str, word: str) -> None:
    try:
        matcher = re.compile(pattern)
    except (re.error, OverflowError):
        with pytest.raises(kl.KleeneError):
            kl.regex(pattern, "ab12")
        return
    try:
        dfa = kl.regex(pattern, "ab12")
    except kl.NotSupported:
        return
    assert dfa.accepts(word) == bool(matcher.fullmatch(word))


@pytest.mark.parametrize(
    "pattern, says",
    [
        (r"(a)\1", "backreference"),
        (r"(?P<x>a)(?P=x)", "backreference"),
        ("(?=a)b", "lookahead"),
        ("(?!a)b", "lookahead"),
        ("(?<=a)b", "lookbehind"),
        ("(?<!a)b", "lookbehind"),
        ("(?>a|ab)c", "atomic group"),
        ("a*+a", "possessive repeat"),
        ("(a)?(?(1)b|c)", "conditional"),
    ],
)
def test_refused_by_name(pattern: str, says: str) -> None:
    with pytest.raises(kl.NotSupported, match=says) as error:
        kl.regex(pattern)
    assert repr(pattern) in str(error.value)


@pytest.mark.parametrize("pattern, says", [("(", "missing"), ("[z-a]", "bad character range"), (".*", "alphabet")])
def test_not_a_pattern(pattern: str, says: str) -> None:
    with pytest.raises(kl.InputError, match=says):
        kl.regex(pattern)


def test_anchors_before_a_last_newline() -> None:
    for pattern in (
        r"a$\nb",
        r"a$\n",
        r"a$\n\n",
        r"(a$\n)*b?",
        r"a$$\n$",
        r"(?m)a$\nb",
        r"a\Z\n",
        r"(a|$)+\n*",
    ):
        dfa = kl.regex(pattern, "ab\n")
        for word in all_words("ab\n", 4):
            assert dfa.accepts(word) == bool(re.fullmatch(pattern, word)), (pattern, word)


def test_alphabet_found() -> None:
    assert kl.regex("[a-c]x").alphabet == ("a", "b", "c", "x")
    assert kl.regex(r"\d+").alphabet == tuple("0123456789")
    assert kl.regex("(?i)ab").alphabet == ("A", "B", "a", "b")


def test_limits() -> None:
    with pytest.raises(kl.NotSupported, match="states"):
        kl.regex("(a|b)*a(a|b){14}", limit=1000)
    with pytest.raises(kl.KleeneError):
        kl.regex("(a{1000}){1000}")


@pytest.mark.parametrize("empty", ["()", "(?:)", "(a{0})"])
def test_repeats_of_nothing_end(empty: str) -> None:
    assert kl.regex(f"((({empty}){{1000}}){{1000}}){{1000}}a", "a").equivalent(kl.regex("a"))


@pytest.mark.parametrize(
    "options, says", [({"flags": re.L}, "LOCALE"), ({"flags": "i"}, "pattern"), ({"alphabet": 5}, "alphabet: 5")]
)
def test_slips_are_clear_errors(options: dict[str, object], says: str) -> None:
    with pytest.raises(kl.InputError, match=says) as error:
        kl.regex("a*", **options)  # type: ignore[arg-type]
    assert "\n" not in str(error.value)
