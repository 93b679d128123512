"""Section 4.2.3: any language as an RNN with real weights."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import islice

import pytest

import kleene as kl
from kleene.common.alphabet import all_words
from kleene.compilers.oracle_to_rnn import truncated
from kleene.machines.oracle import comparing_machine


def square(word: str) -> bool:
    return word[: len(word) // 2] * 2 == word


def prime_length(word: str) -> bool:
    return len(word) > 1 and all(len(word) % d for d in range(2, len(word)))


def needed(predicate: Callable[[str], bool], alphabet: str, n: int) -> int:
    """P(n) of the notes."""
    return sum(len(u) + 1 for u in all_words(alphabet, n) if predicate(u)) + n + 1


@pytest.mark.parametrize(
    "predicate, alphabet, longest",
    [
        (square, "ab", 4),
        (prime_length, "a", 8),
        (lambda w: w == w[::-1], "ab", 4),
        (lambda w: "b" in w, "ab", 3),
    ],
)
def test_theorem_4_12(predicate: Callable[[str], bool], alphabet: str, longest: int) -> None:
    net = kl.compile(kl.OracleLanguage(alphabet, predicate=predicate))  # type: ignore[arg-type]
    for word in all_words(alphabet, longest):
        assert net.decide(word).answer == ("accept" if predicate(word) else "reject")
        assert net.symbols_read <= needed(predicate, alphabet, len(word))


def test_the_chapters_string() -> None:
    """With the erratum: aaaaaa# follows bbbb#."""
    language = kl.OracleLanguage("ab", predicate=square)  # type: ignore[arg-type]
    assert "".join(islice(language.stream(), 34)) == "#aa#bb#aaaa#abab#baba#bbbb#aaaaaa#"


def test_precision_grows_on_demand() -> None:
    for n in range(4):
        net = kl.compile(kl.OracleLanguage("ab", predicate=square))  # type: ignore[arg-type]
        assert net.symbols_read == 0
        for word in all_words("ab", n):
            net.decide(word)
        assert 0 < net.symbols_read <= needed(square, "ab", n)
    low, high = net.weight("a", 7)
    assert low == Fraction(2, 9) + Fraction(2, 27) and high - low == Fraction(1, 3**7)


def test_steps_are_the_machines() -> None:
    """The network takes the two-tape machine's steps, configuration by configuration in what it answers."""
    language = kl.OracleLanguage("ab", predicate=square)  # type: ignore[arg-type]
    net = kl.compile(language)
    machine = comparing_machine(("a", "b"), ("".join(islice(language.stream(), 200)),))
    for word in all_words("ab", 4):
        run, decision = machine.run(word), net.decide(word)
        assert (decision.answer, decision.steps) == (run.answer, run.steps)


def test_no_membership_test_inside_the_run() -> None:
    """The predicate is only asked in order of length, for the digits; never about the input as such."""
    asked: list[str] = []

    def predicate(word: str) -> bool:
        asked.append(word)
        return square(word)

    net = kl.compile(kl.OracleLanguage("ab", predicate=predicate))  # type: ignore[arg-type]
    net.decide("abab")
    assert asked == list(islice(all_words("ab", 10), len(asked)))
    before = len(asked)
    net.decide("abab")
    net.decide("aab")
    assert len(asked) == before


def test_finite_language() -> None:
    words = ["a", "ab", "bba"]
    net = kl.compile(kl.OracleLanguage("ab", enumerator=lambda: words))  # type: ignore[arg-type]
    for word in all_words("ab", 4):
        assert net.decide(word).answer == ("accept" if word in words else "reject")
    empty = kl.compile(kl.OracleLanguage("a", enumerator=lambda: []))  # type: ignore[arg-type]
    assert empty.decide("").answer == "reject"


def test_running_short_is_said() -> None:
    net = kl.compile(kl.OracleLanguage("ab", predicate=lambda w: w == "a", longest=6))  # type: ignore[arg-type]
    assert net.decide("a").answer == "accept" and net.decide("").answer == "reject"
    with pytest.raises(kl.DidNotHalt, match="no further word"):
        net.decide("bb")


def test_cut_off_weights_are_never_wrong() -> None:
    """With the weights cut off, a word that needs more digits gets no answer at all."""
    language = kl.OracleLanguage("ab", predicate=square)  # type: ignore[arg-type]
    for symbols in (0, 1, 5, 12, 20):
        net = truncated(language, symbols)
        for evaluator in ("patterns", "plain"):
            for word in ["", "a", "aa", "ab", "abab", "baba"]:
                answer = net.decide(word, max_steps=120, evaluator=evaluator).answer
                assert answer in (None, "accept" if square(word) else "reject")
        assert (net.decide("abab", max_steps=500).answer is None) == (symbols < 17)


def test_enumerators_are_checked() -> None:
    with pytest.raises(kl.InputError, match="order of length"):
        kl.compile(kl.OracleLanguage("ab", enumerator=lambda: ["aa", "b"])).decide("bbb")  # type: ignore[arg-type]
    with pytest.raises(kl.InputError, match="should give words over"):
        kl.compile(kl.OracleLanguage("ab", enumerator=lambda: ["x"])).decide("b")  # type: ignore[arg-type]
    with pytest.raises(kl.InputError, match="either predicate= or enumerator="):
        kl.OracleLanguage("ab")  # type: ignore[arg-type]
    with pytest.raises(kl.NotSupported, match="real weights"):
        kl.compile(kl.OracleLanguage("a", predicate=square)).save("nowhere")  # type: ignore[arg-type]
