"""Sentences: what tokenizers of many kinds give, names of words, and foci."""

from __future__ import annotations

import pytest
import torch

import kleene as kl
from kleene.evidence.sentences import read_sentence

NUMBERS = {"not": 3, "at": 5, "all": 6, "bad": 8}


def numbers(text):
    return [NUMBERS[word] for word in text.split()]


class Encodes:
    """A tokenizer that is no function, such as those of tiktoken and SentencePiece."""

    def encode(self, text):
        return numbers(text)


class Encoding:
    """What the library tokenizers returns: subwords between special tokens."""

    ids, tokens, word_ids = [1, 3, 5, 6, 2], ["[CLS]", "no", "##t", "bad", "[SEP]"], [None, 0, 0, 1, None]


class EncodesSubwords:
    def encode(self, text):
        return Encoding()


@pytest.mark.parametrize("tokenizer", [numbers, Encodes(), lambda text: {"input_ids": [numbers(text)]}])
def test_words_of_plain_tokenizers(tokenizer):
    sentence = read_sentence("not at all bad", tokenizer)
    assert sentence.words == ["not", "at", "all", "bad"] and sentence.tokens.tolist() == [3, 5, 6, 8]
    (mask,) = sentence.masks("at all")
    assert mask.tolist() == [False, True, True, False] and sentence.called(mask) == "at all"


def test_subwords_and_special_tokens():
    sentence = read_sentence("not bad", EncodesSubwords())
    assert sentence.words == ["not", "bad"] and sentence.groups == [[1, 2], [3]]
    first, special = sentence.masks(["not", "[CLS]"])
    assert first.tolist() == [False, True, True, False, False] and special.tolist() == [
        True,
        False,
        False,
        False,
        False,
    ]
    assert sentence.called(special) == "[CLS]" and sentence.called(first) == "not"


def test_a_list_of_words_is_one_focus():
    sentence = read_sentence("not at all bad", numbers)
    several = sentence.masks(["not", ["not", "bad"], ["at all", -1], [slice(2), 3]])
    assert [sentence.called(mask) for mask in several] == ["not", "not bad", "at all bad", "not at bad"]
    with pytest.raises(kl.InputError, match="focus 'good': not in the sentence 'not at all bad'"):
        sentence.masks([["not", "good"]])


@pytest.mark.parametrize("kind", ["method", "attribute"])
def test_two_texts_have_words_of_their_own(kind):
    numbers, sequences = [None, 0, 0, None, 0, 1, None], [None, 0, 0, None, 1, 1, None]
    given = {"word_ids": numbers, "sequence_ids": sequences}
    if kind == "method":
        given = {name: staticmethod(lambda values=values: values) for name, values in given.items()}
    made = type("Encoding", (), {"ids": list(range(7)), "tokens": ["[", "a", "##b", "|", "c", "d", "]"], **given})()
    sentence = read_sentence("ab c d", lambda text: made)
    assert sentence.words == ["ab", "c", "d"]


def test_what_a_tokenizer_returns_is_an_input():
    sentence = read_sentence({"input_ids": torch.tensor([[3, 5]]), "token_type_ids": [[0, 1]]})
    assert sentence.tokens.tolist() == [3, 5] and sentence.arguments["token_type_ids"].tolist() == [[0, 1]]
    assert read_sentence(Encoding()).words == ["not", "bad"]


@pytest.mark.parametrize(
    "given, tokenizer, message",
    [
        ("good", numbers, r"tokenizer: fails on 'good' \(KeyError: 'good'\)"),
        ("bad", 7, "an? int is no function, and has no method encode"),
        ("bad", None, "text needs a tokenizer="),
        ("", numbers, "an empty sentence"),
        (["not", "bad"], None, "or text with a tokenizer="),
        ({"ids": [1]}, None, "has no input_ids"),
        ([[1, 2], [3]], None, "needs one sentence"),
    ],
)
def test_what_is_no_sentence_is_named(given, tokenizer, message):
    with pytest.raises(kl.InputError, match=message):
        read_sentence(given, tokenizer)
