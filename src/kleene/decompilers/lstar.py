"""A finite automaton from any classifier of words, by queries (Angluin's L*, with Rivest and Schapire's use
of counterexamples). The classifier may be trained, so nothing is proved about it: agreement is counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from kleene.common.alphabet import check_alphabet
from kleene.errors import InputError
from kleene.machines.automata.dfa import DFA

Ask = Callable[[list[str]], np.ndarray]


@dataclass(frozen=True, eq=False)
class ExtractedDFA(DFA):
    """An automaton, and how well the classifier agreed with it."""

    agreement: float = 1.0  # of the words compared at the end, how many both answered alike
    compared: int = 0
    queries: int = 0  # different words that the classifier was asked about
    complete: bool = True  # no counterexample was left; False when max_states was reached

    def __str__(self) -> str:
        agrees = f"agrees on {self.agreement:.4%} of {self.compared:,} words, after {self.queries:,} queries"
        left = "" if self.complete else "; stopped at max_states, counterexamples remain"
        return f"{super().__str__()}\n{agrees}{left}"

    def to_json(self) -> dict[str, object]:
        """Plain data, how well they agreed included."""
        counted = {"agreement": self.agreement, "compared": self.compared, "queries": self.queries}
        return {**super().to_json(), **counted, "complete": self.complete}


def extract(
    model: Any,
    alphabet: Iterable[str],
    *,
    max_states: int = 200,
    length: int = 16,
    random: int = 2000,
    seed: int = 0,
) -> ExtractedDFA:
    """Learn the automaton that a classifier of words behaves like, by L*.

    - `model`: anything with `accepts_batch(words)`, a function from a list of words to answers, or a torch module from
      codes (batch, time) to one logit a word (positive: accept) or two (the larger one wins).
    - `alphabet`: the symbols of the words.
    - `max_states`: stop at this many states; the result then says that it is not complete.
    - `length`: the longest random word.
    - `random`: how many random words to try as counterexamples, beside all short words and words that lead through
      every transition of the automaton so far.
    - `seed`: the seed of the random words.

    >>> from kleene.machines.automata.regex import regex
    >>> target = regex("(ab)*")
    >>> found = extract(target, "ab")
    >>> found.equivalent(target), found.agreement
    (True, 1.0)
    """
    symbols = check_alphabet(alphabet)
    if any(len(s) != 1 for s in symbols):
        raise InputError("extract: symbols should be single characters")
    learner = _Learner(_Memory(_asker(model, symbols)), symbols)
    rng = np.random.default_rng(seed)
    while True:
        dfa = learner.hypothesis()
        words = _search(dfa, symbols, length, random, rng)
        ours, theirs = dfa.accepts_batch(words), learner.ask(words)
        wrong = np.flatnonzero(ours != theirs)
        if not wrong.size or len(dfa) >= max_states:
            small = dfa.minimise()
            return ExtractedDFA(
                small.table,
                small.accepting,
                symbols,
                small.start,
                None,
                1 - len(wrong) / len(words),
                len(words),
                len(learner.ask.known),
                not wrong.size,
            )
        learner.refine(dfa, min((words[i] for i in wrong), key=len))


class _Memory:
    """Answers, each asked for once."""

    def __init__(self, ask: Ask) -> None:
        self.known: dict[str, bool] = {}
        self._ask = ask

    def __call__(self, words: Sequence[str]) -> np.ndarray:
        new = [word for word in dict.fromkeys(words) if word not in self.known]
        if new:
            self.known.update(zip(new, self._ask(new).tolist()))
        return np.array([self.known[word] for word in words], dtype=bool)


class _Learner:
    """The observation table: access words (one a state) and the suffixes that tell them apart."""

    def __init__(self, ask: _Memory, alphabet: tuple[str, ...]) -> None:
        self.ask, self.alphabet = ask, alphabet
        self.access, self.suffixes = [""], [""]

    def rows(self, words: list[str]) -> list[tuple[bool, ...]]:
        answers = self.ask([word + suffix for word in words for suffix in self.suffixes])
        return [tuple(row) for row in answers.reshape(len(words), -1).tolist()]

    def hypothesis(self) -> DFA:
        """Close the table, and read the automaton off."""
        while True:
            state = {row: i for i, row in enumerate(self.rows(self.access))}
            after = [word + symbol for word in self.access for symbol in self.alphabet]
            rows = self.rows(after)
            new = next((word for word, row in zip(after, rows) if row not in state), None)
            if new is None:
                break
            self.access.append(new)
        table = np.array([state[row] for row in rows]).reshape(len(self.access), -1)
        return DFA(table, self.ask(self.access), self.alphabet)

    def refine(self, dfa: DFA, word: str) -> None:
        """Add the suffix of a counterexample that shows a state to be two (found by halving)."""
        path = dfa.path(word)

        def answer(i: int) -> bool:
            return bool(self.ask([self.access[path[i]] + word[i:]])[0])

        low, high, first = 0, len(word), answer(0)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if answer(middle) == first else (low, middle)
        self.suffixes.append(word[high:])


def _search(dfa: DFA, alphabet: tuple[str, ...], length: int, random: int, rng: np.random.Generator) -> list[str]:
    """Words to compare on: all short ones, random ones, and random ones behind every transition."""
    words: list[str] = []
    size = 0
    while size <= length and len(alphabet) ** size <= 2048:
        words += map("".join, product(alphabet, repeat=size))
        size += 1
    letters = np.array(alphabet)

    def tail(most: int) -> str:
        return "".join(letters[rng.integers(len(letters), size=int(rng.integers(most + 1)))])

    words += [tail(length) for _ in range(random)]
    access = _access_words(dfa)
    words += [w + a + tail(max(length - len(w) - 1, 2)) for w in access for a in alphabet for _ in range(8)]
    return words


def _access_words(dfa: DFA) -> list[str]:
    """A shortest word to each state that can be reached."""
    word = {dfa.start: ""}
    for q in (queue := [dfa.start]):
        for symbol, r in zip(dfa.alphabet, dfa.table[q].tolist()):
            if r not in word:
                word[r] = word[q] + symbol
                queue.append(r)
    return list(word.values())


def _asker(model: Any, alphabet: tuple[str, ...]) -> Ask:
    """How a model is asked about words."""
    if hasattr(model, "accepts_batch"):
        return lambda words: _answers(model.accepts_batch(words), words)
    if hasattr(model, "forward") and hasattr(model, "parameters"):
        return lambda words: _ask_module(model, words, alphabet)
    if callable(model):
        return lambda words: _answers(model(words), words)
    raise InputError(
        f"extract: cannot ask a {type(model).__name__}; give a torch module, a function of words, or accepts_batch"
    )


def _answers(given: Any, words: list[str]) -> np.ndarray:
    """One answer a word, as Booleans; NaN is none."""
    answers = np.asarray(given)
    if answers.shape != (len(words),):
        found = f"{len(answers)} answers" if answers.ndim == 1 else f"an answer of shape {answers.shape}"
        raise InputError(f"extract: {found} for {len(words)} words; there should be one a word")
    if answers.dtype.kind == "f" and np.isnan(answers).any():
        raise InputError(f"extract: the answer for {words[int(np.isnan(answers).argmax())]!r} is not a number (NaN)")
    return answers.astype(bool)


def _ask_module(model: Any, words: list[str], alphabet: tuple[str, ...]) -> np.ndarray:
    """Ask a torch module, words of one length together."""
    import torch

    from kleene.common.alphabet import encode_batch

    codes, offsets = encode_batch(words, alphabet)
    lengths = np.diff(offsets)
    answers = np.empty(len(words), dtype=bool)
    was_training = model.training
    model.eval()
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    try:
        with torch.no_grad():
            for size in np.unique(lengths):
                rows = np.flatnonzero(lengths == size)
                block = codes[offsets[rows][:, None] + np.arange(size)].astype(np.int64)  # (batch, time)
                y = _answer(model, torch.from_numpy(block).to(device))
                count = y.numel() if isinstance(y, torch.Tensor) else 0
                if count not in (len(rows), 2 * len(rows)):
                    raise InputError(
                        f"extract: the module gives {count} numbers for {len(rows)} words; it should give one logit a "
                        "word, or two"
                    )
                y = y.reshape(len(rows), -1)
                if y.isnan().any():
                    word = words[rows[int(y.isnan().any(dim=1).int().argmax())]]
                    raise InputError(f"extract: the module's answer for {word!r} is not a number (NaN)")
                answers[rows] = (y[:, 0] > 0 if y.shape[1] == 1 else y[:, 1] > y[:, 0]).cpu().numpy()
    finally:
        model.train(was_training)
    return answers


def _answer(model: Any, block: Any) -> Any:
    try:
        return model(block)
    except RuntimeError as error:
        if block.shape[1]:
            raise
        raise InputError(
            f"extract: the module cannot read the empty word ({str(error).splitlines()[0]}); let it put a start "
            "symbol before each word"
        ) from None
