"""Contributions: people's own models, Hugging Face's, foci by words and slices, tables; parts add up."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import kleene as kl


class Classifier(nn.Module):
    """An embedding, a packed bidirectional LSTM, and a head of several layers."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.drop = nn.Embedding(20, 6), nn.Dropout(0.5)
        self.rnn = nn.LSTM(6, 5, num_layers=2, bidirectional=True, dropout=0.3, batch_first=True)
        self.head = nn.Sequential(nn.LayerNorm(10), nn.Linear(10, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 3))

    def forward(self, tokens):
        lengths = torch.full((len(tokens),), tokens.shape[1])
        x = nn.utils.rnn.pack_padded_sequence(self.drop(self.embed(tokens)), lengths, batch_first=True)
        _, (last, _) = self.rnn(x)
        return self.head(torch.cat([last[-2], last[-1]], -1))


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Classifier()


def test_a_classifier(model):
    tokens = [3, 1, 4, 1, 5]
    found = kl.contributions(model, tokens, focus=[slice(None), [], 2, [0, 4]], target="all", rows=3)
    assert model.training  # as it was
    wanted = model.eval()(torch.tensor([tokens]))[0]
    assert torch.allclose(found.whole, wanted, atol=1e-6)
    assert torch.allclose(found.parts + found.rest + found.base, wanted.expand(4, 3), atol=1e-6)
    assert found.parts[1].abs().max() == 0 and found.rest[0].abs().max() < 1e-5
    one = kl.contributions(model, torch.tensor([tokens]), focus=[2], target=1)
    assert torch.allclose(one.parts[0, 0], found.parts[2, 1], atol=1e-6) and one.outputs == ["1"]


def test_vectors_and_a_sequential():
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Flatten(), nn.Linear(18, 2)).double()
    x = torch.randn(3, 4).double()
    found = kl.contributions(net, x, target="all")
    assert found.foci == ["0", "1", "2"] and torch.allclose(found.whole, net(x[None])[0])


def test_memory_is_bounded_at_200_words():
    """200 words, one each: the foci run in blocks, so that no tensor has more than `rows` of them."""
    torch.manual_seed(2)
    seen = []

    class Watched(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.out = nn.GRU(3, 4, batch_first=True), nn.Linear(4, 2)

        def forward(self, x):
            seen.append(x.shape[0])
            return self.out(self.rnn(x)[0])

    found = kl.contributions(Watched(), torch.randn(200, 3), rows=50)
    assert found.parts.shape == (200, 1) and seen == [50] * 4


def hugging_face(kind):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(3)
    if kind == "gpt2":
        config = transformers.GPT2Config(
            vocab_size=30,
            n_embd=16,
            n_layer=2,
            n_head=2,
            n_positions=16,
            bos_token_id=0,
            eos_token_id=0,
            initializer_range=0.3,
        )
        return transformers.GPT2LMHeadModel(config)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = transformers.BertConfig(vocab_size=30, num_labels=3, initializer_range=0.3, **sizes)
    return transformers.BertForSequenceClassification(config)


@pytest.mark.parametrize("kind", ["gpt2", "bert"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_hugging_face(kind, attention):
    model = hugging_face(kind)
    model.set_attn_implementation(attention)
    model.eval()
    tokens = [3, 7, 11, 2, 9]
    logits = model(torch.tensor([tokens])).logits
    wanted = logits[0, -1] if kind == "gpt2" else logits[0]
    found = kl.contributions(model, tokens, focus=[slice(None), [], 1, [2, 3]], target="all")
    assert torch.allclose(found.whole, wanted, atol=1e-5)
    assert torch.allclose(found.parts[0] + found.base[0], wanted, atol=1e-5)
    assert found.parts[1].abs().max() == 0 and found.parts[2].abs().max() > 1e-4
    assert "forward" not in vars(next(m for m in model.modules() if "Activation" in type(m).__name__))


class Subwords:
    """A tokenizer that cuts words in two letters each, and adds special tokens."""

    def __call__(self, text):
        self.names, self.numbers = ["[CLS]"], [None]
        for number, word in enumerate(text.split()):
            for at in range(0, len(word), 2):
                self.names.append(("##" if at else "") + word[at : at + 2])
                self.numbers.append(number)
        names, numbers = [*self.names, "[SEP]"], [*self.numbers, None]
        self.names = names

        class Encoding(dict):
            def word_ids(self):
                return numbers

        return Encoding(input_ids=list(range(len(names))))

    def convert_ids_to_tokens(self, ids):
        return self.names[ids] if isinstance(ids, int) else [self.names[i] for i in ids]


def test_subwords_form_words():
    model = hugging_face("bert")
    found = kl.contributions(model, "good films last", tokenizer=Subwords(), target="LABEL_1")
    assert found.words == found.foci == ["good", "films", "last"] and found.outputs == ["LABEL_1"]
    phrase = kl.contributions(model, "good films last", tokenizer=Subwords(), focus=["good films"], target=1)
    by_hand = kl.contributions(model, list(range(9)), focus=[range(1, 6)], target=1)
    assert torch.allclose(phrase.parts, by_hand.parts, atol=1e-6) and phrase.foci == ["good films"]


def test_tables(model, tmp_path):
    found = kl.contributions(model, [3, 1, 4], words=["a", "<b>", "c"], target="all")
    assert list(found.to_dataframe().index) == ["a", "<b>", "c", "base", "whole"]
    text = found.to_csv(tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text() == text and text.startswith("focus,0,1,2\na,")
    page = found.to_html(tmp_path / "x.html")
    assert "&lt;b&gt;" in page and "<b>" not in page and (tmp_path / "x.html").read_text() == page
    assert str(found).splitlines()[0].startswith("focus")
    assert found.foci == ["a", "<b>", "c"]


@pytest.mark.parametrize(
    "options, message",
    [
        ({"focus": ["zebra"]}, "'zebra': not in the sentence"),
        ({"focus": [9]}, "position 9"),
        ({"focus": []}, "no focus"),
        ({"target": 7}, "target 7"),
        ({"rule": "x"}, "rule 'x'"),
        ({"words": ["a"]}, "1 names for 3"),
        ({"input": "a b"}, "tokenizer="),
        ({"input": []}, "empty sentence"),
        ({"input": [[1, 2], [3, 4]]}, "2 sentences"),
    ],
)
def test_wrong_uses_are_named(model, options, message):
    with pytest.raises(kl.InputError, match=message):
        kl.contributions(model, **{"input": [3, 1, 4], **options})
