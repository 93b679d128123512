"""L*: automata from classifiers, trained ones too."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
import torch

import kleene as kl
from kleene.errors import InputError
from kleene.library import tomita
from kleene.networks.rnn import majority
from random_machines import random_dfa


@pytest.mark.parametrize("seed", range(60))
def test_any_automaton_is_found_again(seed: int) -> None:
    dfa = random_dfa(random.Random(seed), 8, 2)
    found = kl.extract(dfa, dfa.alphabet)
    assert found.equivalent(dfa) and len(found) == len(dfa.minimise())
    assert found.agreement == 1.0 and found.complete and found.queries > 0


def test_from_networks_and_functions() -> None:
    dfa = kl.regex("(0|10*1)*", "01")
    assert kl.extract(kl.compile(dfa), "01").equivalent(dfa)
    assert kl.extract(kl.compile(dfa).torch(), "01").equivalent(dfa)
    assert kl.extract(lambda words: [w.count("1") % 2 == 0 for w in words], "01").equivalent(dfa)


def test_a_language_that_is_not_regular() -> None:
    found = kl.extract(majority.integer_relu(), "01", max_states=8)
    assert not found.complete and found.agreement < 1 and "counterexamples remain" in str(found)


def test_what_cannot_be_asked() -> None:
    with pytest.raises(kl.InputError, match="cannot ask an int"):
        kl.extract(3, "01")


def test_answers_that_are_none_are_refused() -> None:
    model = tomita.classifier("gru", 4)
    model.out.weight.data[:] = float("nan")
    for asked, message in (
        (model, r"the module's answer for '' is not a number \(NaN\)"),
        (lambda words: [float("nan")] * len(words), r"the answer for '' is not a number \(NaN\)"),
        (lambda words: [True] * (len(words) - 1), "0 answers for 1 words; give one answer per word"),
        (lambda words: [[True, False]] * len(words), r"an answer of shape \(1, 2\) for 1 words"),
        (torch.nn.Embedding(2, 5), "0 numbers for 1 words; it must give one logit per word, or two"),
    ):
        with pytest.raises(InputError, match=message):
            kl.extract(asked, "01")


def test_answers_by_chance_end_too() -> None:
    rng = np.random.default_rng(0)
    found = kl.extract(lambda words: rng.random(len(words)) < 0.5, "01", max_states=10)
    assert not found.complete and found.agreement < 0.9


def test_tomita_languages() -> None:
    examples = {
        1: ("111", "101"),
        2: ("1010", "101"),
        3: ("1100", "10"),
        4: ("00100", "1000"),
        5: ("0011", "001"),
        6: ("000", "00"),
        7: ("0101", "01010"),
    }
    for number, (inside, outside) in examples.items():
        assert tomita.language(number).accepts(inside) and not tomita.language(number).accepts(outside)


def test_tomita_has_seven_languages_and_three_cells() -> None:
    with pytest.raises(InputError, match="unknown language 8; the languages are numbered 1 to 7"):
        tomita.train(8, "gru")
    with pytest.raises(InputError, match="unknown cell 'x'; choose one of rnn, gru, lstm"):
        tomita.train(1, "x")


def test_tomita_trained_and_extracted() -> None:
    model, _ = tomita.train(4, "gru")
    found = kl.extract(model, "01")
    assert found.equivalent(tomita.language(4)) and found.agreement == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("number", range(1, 8))
def test_all_seven_tomita_languages(number: int, cell: str) -> None:
    model, _ = tomita.train(number, cell)
    assert kl.extract(model, "01").equivalent(tomita.language(number))


def test_extract_says_that_a_module_cannot_read_the_empty_word():
    class Classifier(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.lstm, self.out = torch.nn.Embedding(2, 3), torch.nn.LSTM(3, 4), torch.nn.Linear(4, 1)

        def forward(self, words: torch.Tensor) -> torch.Tensor:
            return self.out(self.lstm(self.embedding(words.T))[0][-1])

    model = Classifier().train()
    with pytest.raises(InputError, match=r"cannot read the empty word .* start symbol"):
        kl.extract(model, "ab")
    assert model.training


@pytest.mark.parametrize("seed", range(60))
def test_the_tree_finds_every_automaton_with_fewer_queries(seed: int) -> None:
    dfa = random_dfa(random.Random(seed), 8, 2)
    found = kl.extract(dfa, dfa.alphabet, learner="tree")
    assert found == dfa and len(found) == len(dfa.minimise()) and found.complete and found.stopped == "settled"


@pytest.mark.parametrize("learner", ["table", "tree"])
@pytest.mark.parametrize("most", [1, 3, 9, 40])
def test_no_more_states_than_allowed(learner: str, most: int) -> None:
    """A language that is not regular, and a classifier with noise: the limit holds, and the rest is said."""

    def noisy(words: list[str]) -> list[bool]:
        return [(word.count("1") % 2 == 1) != (hash_of(word) % 50 == 0) for word in words]

    for model in (majority.integer_relu(), noisy):
        found = kl.extract(model, "01", max_states=most, learner=learner)
        assert len(found) <= most
        if model is not noisy and most == 40:  # enough for words of up to 16 symbols
            continue
        assert not found.complete and found.stopped == "max_states"
        assert found.counterexample is not None and "not settled" in str(found)
        if model is noisy and 3 <= most < 40:
            assert found == kl.regex("0*1(0|10*1)*") and found.agreement > 0.95


def hash_of(word: str) -> int:
    value = 7
    for c in word:
        value = (value * 31 + ord(c)) % 1_000_003
    return value


def test_the_best_hypothesis_is_kept() -> None:
    """Exact at nine states on words of the length tried, wrong far away: the exact one comes back."""
    target = kl.regex("(0{3}|1{2})*0?1?", "01")

    def far(words: list[str]) -> list[bool]:
        return [bool(a) != (len(w) > 16 and hash_of(w) % 3 == 0) for w, a in zip(words, target.accepts_batch(words))]

    found = kl.extract(far, "01", max_states=60)
    assert found == target and found.agreement == 1.0


@pytest.mark.parametrize(
    "options, says",
    [
        ({"max_states": 0}, "max_states=0"),
        ({"length": -1}, "length=-1"),
        ({"random": 1.5}, "random=1.5"),
        ({"max_queries": 0}, "max_queries=0"),
        ({"learner": "guess"}, "learner='guess'"),
    ],
)
def test_options_out_of_range(options: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match=says):
        kl.extract(kl.regex("a*", "ab"), "ab", **options)  # type: ignore[arg-type]


def test_queries_are_counted_once_and_limited() -> None:
    asked: list[str] = []

    def odd(words: list[str]) -> list[bool]:
        asked.extend(words)
        return [word.count("1") % 2 == 1 for word in words]

    found = kl.extract(odd, "01")
    assert len(asked) == len(set(asked)) == found.queries
    stopped = kl.extract(majority.integer_relu(), "01", max_queries=1)
    assert stopped.stopped == "max_queries" and not stopped.complete


def test_the_bound_is_clopper_and_pearsons() -> None:
    from kleene.decompilers.lstar import error_bound

    for wrong, compared in ((0, 100), (3, 50), (10, 1000), (49, 50)):
        p = error_bound(wrong, compared)
        tail = sum(math.comb(compared, k) * p**k * (1 - p) ** (compared - k) for k in range(wrong + 1))
        assert abs(tail - 0.05) < 1e-6
    assert error_bound(5, 5) == 1.0 and error_bound(0, 0) == 1.0
