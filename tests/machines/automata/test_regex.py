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
        ("(?>(a?)*)b", "can be empty"),
        ("(a*)*+b", "can be empty"),
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


BODIES = ["a", "b", "ab", "[ab]", "a|b", "a|ab", "b*", ".*a", "a+b", "$", "^a", "\\b", "(?=b)a", "a(?!b)", "\\n"]
FIXED = ["a", "b", "ab", "[ab]", "a|b", "^", "^a", "\\b", "a(?=b)", "(?<!a)b", "b(?!a)", "\\n", "(?<=a)b"]


def random_assertion(rng: random.Random, depth: int) -> str:
    """Patterns with lookaheads, lookbehinds, atomic groups and possessive repeats."""
    kind = rng.random()
    if depth == 0 or kind < 0.2:
        return rng.choice(["a", "b", "[ab]", ".", "\\n", "^", "$", "\\b"] if kind < 0.05 else ["a", "b", "[ab]", "."])
    inner = random_assertion(rng, depth - 1)
    if kind < 0.45:
        return inner + random_assertion(rng, depth - 1)
    if kind < 0.55:
        return f"(?:{inner}|{random_assertion(rng, depth - 1)})"
    if kind < 0.65:
        return f"(?:{inner}){rng.choice(REPEATS)}"
    if kind < 0.75:
        body = inner if rng.random() < 0.5 else rng.choice(BODIES)
        return f"(?{rng.choice('=!')}{body}){random_assertion(rng, depth - 1)}"
    if kind < 0.85:
        return f"{inner}(?<{rng.choice('=!')}{rng.choice(FIXED)})"
    if kind < 0.93:
        return f"(?>{inner})"
    return f"(?:{inner}){rng.choice(['*+', '++', '?+', '{2}+', '{1,2}+'])}"


WORDS = [w for w in all_words("ab\n", 5)]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("search", [False, True])
def test_assertions_mean_what_python_means(seed: int, search: bool) -> None:
    """8 × 2 × 60 patterns on all 364 words of up to 5 symbols."""
    rng = random.Random(100 * seed + search)
    refused = 0
    for _ in range(60):
        pattern = random_assertion(rng, 4)
        matcher = re.compile(pattern)
        try:
            dfa = kl.regex(pattern, "ab\n", search=search)
        except kl.NotSupported as error:
            assert "can be empty" in str(error), pattern
            refused += 1
            continue
        match = matcher.search if search else matcher.fullmatch
        wrong = [w for w, ours in zip(WORDS, dfa.accepts_batch(WORDS)) if ours != bool(match(w))]
        assert not wrong, (pattern, wrong[:5])
    assert refused < 20


@pytest.mark.parametrize(
    "pattern, same",
    [
        ("(?=.*b)(?=.*aa).*", "[ab]*(aa[ab]*b|b[ab]*aa)[ab]*"),
        ("(?!.*aa).*", "(b|ab)*a?"),
        ("[ab]*(?<=ab)", "[ab]*ab"),
        ("[ab]*(?<!a)", "([ab]*b)?"),
        ("(?>a|ab)b", "ab"),
        ("a*+b", "a*b"),
        ("a*+a", "(?!)"),
        ("^(?:(?:a[.]?){0,62}a)+$", "(?:(?:a[.]?){0,62}a)+"),
    ],
)
def test_known_languages(pattern: str, same: str) -> None:
    alphabet = "a." if "[.]" in same else "ab"
    assert kl.regex(pattern, alphabet) == kl.regex(same, alphabet)


def test_search_mode() -> None:
    found = kl.regex("ab+a", "abc", search=True)
    assert found == kl.regex("[abc]*ab+a[abc]*") and "cabbac" in found and "cabb" not in found
    assert kl.regex("^a", "ab", search=True) == kl.regex("a[ab]*")
    assert kl.regex("", "ab", search=True).is_universal()


def test_blow_ups_with_a_small_answer() -> None:
    assert len(kl.regex("(?:(?:a[.]?){0,62}a)+")) == 127
    assert len(kl.regex("(?:a?){50}a{50}")) == 102
    assert len(kl.regex("(((a{0,10}){0,10}){0,10})")) == 1002


@pytest.mark.parametrize("pattern", ["(a|b)*a(a|b){40}", "(?:(?:a|b){0,30}a(?:a|b){30}){3}", "(?=[ab]*a[ab]{30})[ab]*"])
def test_limits_count_work_too(pattern: str) -> None:
    with pytest.raises(kl.NotSupported, match=r"raise (limit|work)="):
        kl.regex(pattern, limit=10**7, work=10**6)


def test_an_empty_language_over_the_default_alphabet_is_warned_of() -> None:
    with pytest.warns(kl.KleeneWarning, match="no word over the characters in it .abc. matches"):
        assert kl.regex("[^abc]").is_empty()
    assert not kl.regex("[^abc]", "abcd").is_empty()


def test_long_patterns_are_not_echoed() -> None:
    for pattern in ("a" * 300_000, "(" * 300_000, "a" * 300_000 + "("):
        with pytest.raises(kl.KleeneError) as error:
            kl.regex(pattern)
        assert len(str(error.value)) < 400
