"""A finite automaton from any classifier of words, by queries.

The classifier may be trained, so nothing is proved about it. Agreement is counted on words that the search did not use.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import numpy as np

from kleene.common.alphabet import check_alphabet, show_word
from kleene.decompilers.learners import LEARNERS, Learner, TooManyStates
from kleene.decompilers.queries import Classifier, Memory, asker
from kleene.errors import InputError
from kleene.machines.automata.dfa import DFA

CONFIDENCE = 0.95
SHORT_WORDS = 2048  # all words of a length are compared up to this many


@dataclass(frozen=True, eq=False, init=False)
class ExtractedDFA(DFA):
    """An automaton, and the classifier's agreement with it on words held out from the search."""

    agreement: float  # the share of held-out words with equal answers
    compared: int  # the number of held-out words
    queries: int  # the number of different queries
    complete: bool  # whether no counterexample was left
    counterexample: str | None  # a shortest word found on which the two differ
    stopped: str  # why the search ended: "settled", "max_states" or "max_queries"
    error_bound: float  # with 95 % confidence, the two differ on a smaller share of such words

    def __init__(
        self,
        dfa: DFA,
        agreement: float = 1.0,
        compared: int = 0,
        queries: int = 0,
        counterexample: str | None = None,
        stopped: str = "settled",
    ) -> None:
        super().__init__(dfa.table, dfa.accepting, dfa.alphabet, dfa.start, dfa.names)
        wrong = round(compared * (1 - agreement))
        for key, value in (
            ("agreement", agreement),
            ("compared", compared),
            ("queries", queries),
            ("complete", counterexample is None and stopped == "settled"),
            ("counterexample", counterexample),
            ("stopped", stopped),
            ("error_bound", error_bound(wrong, compared)),
        ):
            object.__setattr__(self, key, value)

    @property
    def confidence(self) -> str:
        """The agreement, and what was not settled, in words."""
        agrees = f"agrees on {self.agreement:.4%} of {self.compared:,} words, after {self.queries:,} queries"
        bound = f"with {CONFIDENCE:.0%} confidence differs on less than {self.error_bound:.3%} of such words"
        left = ""
        if not self.complete:
            left = f"\nnot settled: stopped at {self.stopped}, counterexamples remain"
        if self.counterexample is not None:
            left += f", such as {show_word(self.counterexample)}"
        return f"{agrees}; {bound}{left}"

    @property
    def measured(self) -> dict[str, object]:
        """The agreement, and what was not settled, as plain data."""
        counted = {"agreement": self.agreement, "compared": self.compared, "queries": self.queries}
        settled = {"complete": self.complete, "counterexample": self.counterexample, "stopped": self.stopped}
        return {**counted, **settled, "error_bound": self.error_bound, "confidence": CONFIDENCE}

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self.confidence}"

    def to_json(self) -> dict[str, object]:
        """Plain data, with the agreement."""
        return {**super().to_json(), **self.measured}


def extract(
    model: Classifier | Callable[..., Any],
    alphabet: Iterable[str],
    *,
    max_states: int = 200,
    max_queries: int = 2_000_000,
    length: int = 16,
    random: int = 2000,
    seed: int = 0,
    learner: Literal["table", "tree"] = "table",
) -> ExtractedDFA:
    """Find an automaton that behaves like a classifier of words.

    Hypotheses are refined by counterexamples: among all short words, random words, and words that lead through every
    transition. The result is the hypothesis that agrees best with the classifier on words held out from that search,
    and the smallest of these. It says what was not settled.

    - `model`: anything with `accepts_batch(words)`, a function from a list of words to answers, or a torch module
      from codes (batch, time) to one logit per word (positive: accept) or two (the larger).
    - `alphabet`: the symbols, single characters; a torch module reads their places.
    - `max_states`: the most states of a hypothesis.
    - `max_queries`: the most different words that are asked about, before a hypothesis is settled.
    - `length`: the longest random word.
    - `random`: how many random words are tried for each hypothesis, and how many are held out.
    - `seed`: of the random words.
    - `learner`: "table" (Angluin's L*) or "tree" (Kearns and Vazirani: fewer queries).

    >>> from kleene.machines.automata.regex import regex
    >>> target = regex("(ab)*")
    >>> found = extract(target, "ab")
    >>> found.equivalent(target), found.agreement
    (True, 1.0)
    """
    symbols = check_alphabet(alphabet)
    if any(len(s) != 1 for s in symbols):
        raise InputError("extract: symbols must be single characters")
    for name, value, least in (
        ("max_states", max_states, 1),
        ("max_queries", max_queries, 1),
        ("length", length, 0),
        ("random", random, 0),
    ):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise InputError(f"extract: {name}={value!r}; it must be a whole number, {least} or more")
    if learner not in LEARNERS:
        raise InputError(f"extract: learner={learner!r}; it must be {' or '.join(map(repr, LEARNERS))}")
    return _Search(model, symbols, max_states, max_queries, length, random, seed, learner).run()


class _Search:
    """The loop of hypotheses and counterexamples."""

    def __init__(
        self,
        model: Any,
        alphabet: tuple[str, ...],
        max_states: int,
        max_queries: int,
        length: int,
        random: int,
        seed: int,
        learner: str,
    ) -> None:
        self.alphabet, self.length, self.random = alphabet, length, random
        self.max_queries = max_queries
        self.ask = Memory(asker(model, alphabet))
        self.ask([""])  # alone, so that a model without useful answers is noticed at once
        self.learner: Learner = LEARNERS[learner](self.ask, alphabet, max_states)
        self.rng = np.random.default_rng(seed)
        self.held_rng = np.random.default_rng([seed, 1])
        self.best: tuple[float, int, DFA] | None = None
        self.hold_out()

    def hold_out(self) -> None:
        """Draw the words that hypotheses are judged by, and judge the best one anew."""
        self.held_out = [_random_word(self.held_rng, self.alphabet, self.length) for _ in range(self.random)] or [""]
        self.answers = self.ask(self.held_out)
        if self.best is not None:
            _, _, dfa = self.best
            self.best = None
            self.score(dfa)

    def run(self) -> ExtractedDFA:
        stopped = "settled"
        while True:
            try:
                dfa = self.learner.hypothesis()
            except TooManyStates:
                stopped = "max_states"
                break
            self.score(dfa)
            word = self.counterexample(dfa) or self.held_out_difference(dfa)
            if word is None:
                break
            if self.ask.queries >= self.max_queries:
                stopped = "max_queries"
                break
            try:
                self.learner.refine(dfa, word)
            except TooManyStates:
                stopped = "max_states"
                break
        return self.result(stopped)

    def score(self, dfa: DFA) -> None:
        """Keep the hypothesis that agrees best on the words held out; on a tie, the smaller."""
        small = dfa.minimise()
        agreement = float((small.accepts_batch(self.held_out) == self.answers).mean())
        if self.best is None or (agreement, -len(small)) > (self.best[0], -self.best[1]):
            self.best = (agreement, len(small), small)

    def counterexample(self, dfa: DFA) -> str | None:
        """A shortest word found on which the hypothesis and the classifier differ.

        Earlier queries come first, since their answers are known. New words come only if these agree.
        """
        held = set(self.held_out)
        known = [word for word in self.ask.known if word not in held]
        return self.shortest_difference(dfa, known) or self.new_difference(dfa)

    def new_difference(self, dfa: DFA) -> str | None:
        words = search_words(dfa, self.alphabet, self.length, self.random, self.rng)
        return self.shortest_difference(dfa, words)

    def shortest_difference(self, dfa: DFA, words: list[str]) -> str | None:
        wrong = np.flatnonzero(dfa.accepts_batch(words) != self.ask(words))
        return min((words[i] for i in wrong), key=len) if wrong.size else None

    def held_out_difference(self, dfa: DFA) -> str | None:
        """A word held out on which the hypothesis is wrong; the search then uses it, so new words are held out."""
        wrong = self.shortest_wrong(dfa)
        if wrong is not None:
            self.hold_out()
        return wrong

    def shortest_wrong(self, dfa: DFA) -> str | None:
        """A shortest held-out word on which the automaton differs."""
        return self.shortest_difference(dfa, self.held_out)

    def result(self, stopped: str) -> ExtractedDFA:
        if self.best is None:  # not even the first hypothesis fits: the closest automaton of one state
            accepts = bool(self.answers.mean() >= 0.5)
            self.score(DFA([[0] * len(self.alphabet)], [accepts], self.alphabet))
        assert self.best is not None
        agreement, _, dfa = self.best
        left = self.shortest_wrong(dfa) or self.counterexample(dfa) if stopped != "settled" else None
        return ExtractedDFA(dfa, agreement, len(self.held_out), self.ask.queries, left, stopped)


def _random_word(rng: np.random.Generator, alphabet: tuple[str, ...], most: int) -> str:
    return "".join(alphabet[code] for code in rng.integers(len(alphabet), size=int(rng.integers(most + 1))))


def search_words(dfa: DFA, alphabet: tuple[str, ...], length: int, random: int, rng: np.random.Generator) -> list[str]:
    """Words to compare on: all short ones, random ones, and random ones behind every transition."""
    words: list[str] = []
    size = 0
    while size <= length and len(alphabet) ** size <= SHORT_WORDS:
        words += map("".join, product(alphabet, repeat=size))
        size += 1
    words += [_random_word(rng, alphabet, length) for _ in range(random)]
    for w in access_words(dfa):
        for a in alphabet:
            words += [w + a + _random_word(rng, alphabet, max(length - len(w) - 1, 2)) for _ in range(8)]
    return words


def access_words(dfa: DFA) -> list[str]:
    """A shortest word to each state that can be reached."""
    word = {dfa.start: ""}
    for q in (queue := [dfa.start]):
        for symbol, r in zip(dfa.alphabet, dfa.table[q].tolist()):
            if r not in word:
                word[r] = word[q] + symbol
                queue.append(r)
    return list(word.values())


def error_bound(wrong: int, compared: int, confidence: float = CONFIDENCE) -> float:
    """The largest share of wrong answers that still makes `wrong` or fewer of `compared` likely enough.

    Clopper and Pearson's bound, by halving; for no wrong answers it is 1 − (1 − confidence)^(1/n).

    >>> round(error_bound(0, 3000), 5)
    0.001
    """
    if compared == 0 or wrong >= compared:
        return 1.0

    def at_most(p: float) -> float:
        logs = [_log_choose(compared, k) + k * math.log(p) + (compared - k) * math.log1p(-p) for k in range(wrong + 1)]
        top = max(logs)
        return math.exp(top) * sum(math.exp(x - top) for x in logs)

    low, high = wrong / compared, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if middle <= 0 or middle >= 1:
            break
        low, high = (middle, high) if at_most(middle) > 1 - confidence else (low, middle)
    return high


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
