"""Contributions: people's own models, Hugging Face's, foci by words and slices, tables; parts add up."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import kleene as kl
from kleene.evidence.parted import Parted


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
    """200 words, one each: the foci run in blocks, so that no tensor has more than `rows` of them; and few to check."""
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
    assert found.parts.shape == (200, 1) and seen == [1, 3, *[50] * 4, 2]


class Embedded(nn.Module):
    """Embeddings, then what a subclass does."""

    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(20, 8), nn.Linear(8, 2)
        self.rnn = nn.LSTM(8, 8, batch_first=True)


class StartAndEncoder(Embedded):
    """A learned start vector before the words, and torch's own transformer."""

    def __init__(self):
        super().__init__()
        self.start = nn.Parameter(torch.randn(1, 1, 8))
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)

    def forward(self, x):
        e = torch.cat([self.start.expand(len(x), -1, -1), self.embed(x)], 1)
        return self.out(self.encoder(e, src_key_padding_mask=nn.functional.pad(x == 19, (1, 0)))[:, 0])


class Causal(StartAndEncoder):
    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.out(self.encoder(self.embed(x), mask=mask, is_causal=True))


class MaskedMaximum(Embedded):
    def forward(self, x):
        return self.out(self.rnn(self.embed(x))[0].masked_fill((x == 9).unsqueeze(-1), -torch.inf).max(1).values)


class ChosenMaximum(Embedded):
    def forward(self, x):
        h = self.rnn(self.embed(x))[0]
        return self.out(torch.where((x == 9).unsqueeze(-1), torch.tensor(-torch.inf), h).amax(1))


class Bag(Embedded):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(20, 8, padding_idx=9)

    def forward(self, x):
        return self.out(self.bag(x))


class OneHot(Embedded):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(20, 8, batch_first=True)

    def forward(self, x):
        return self.out(self.rnn(nn.functional.one_hot(x, 20).float())[0][:, -1])


class LogProbabilities(Embedded):
    def forward(self, x):
        return nn.functional.log_softmax(self.out(self.rnn(self.embed(x))[0][:, -1]), -1)


class Probabilities(Embedded):
    def forward(self, x):
        return torch.softmax(self.out(self.rnn(self.embed(x))[0][:, -1]), -1)


class Cells(Embedded):
    """A wrapped cell, with a norm written by hand."""

    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(8, 8)

    def forward(self, x):
        h = c = torch.zeros(len(x), 8)
        for word in self.embed(x).unbind(1):
            h, c = self.cell(word, (h, c))
            h = (h - h.mean(-1, keepdim=True)) * torch.rsqrt(h.var(-1, keepdim=True, unbiased=False) + 1e-3)
        return self.out(h)


class RootMeanSquare(Embedded):
    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(8)

    def forward(self, x):
        x = self.embed(x)
        x = x + self.norm(x) * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-3)
        return self.out(nn.functional.silu(x).sum(1))


OWN = (StartAndEncoder, Causal, MaskedMaximum, ChosenMaximum, Bag, OneHot, LogProbabilities, Probabilities, Cells)


@pytest.mark.parametrize("kind", [*OWN, RootMeanSquare])
def test_models_of_many_kinds(kind):
    """The whole is the model's own; a focus on all words and the base are the whole; one on none has nothing."""
    torch.manual_seed(5)
    model, tokens = kind().eval(), [3, 7, 9, 4]
    wanted = model(torch.tensor([tokens]))
    wanted = wanted[0, -1] if wanted.dim() == 3 else wanted[0]
    found = kl.contributions(model, tokens, focus=[slice(None), [], 1, [0, 3]], target="all")
    assert torch.allclose(found.whole, wanted, atol=1e-5)
    assert torch.allclose(found.parts[0] + found.base[0], wanted, atol=1e-5)
    assert found.parts[1].abs().max() == 0 and found.parts[2:].abs().max() > 1e-4
    assert torch.isfinite(found.parts).all()


def test_attention_of_torch_is_that_of_functions():
    """`nn.MultiheadAttention` and the same written out: patterns of the whole, values by part."""
    torch.manual_seed(6)
    inside = nn.MultiheadAttention(8, 2, batch_first=True).double()
    nn.init.normal_(inside.in_proj_bias)

    class Module(nn.Module):
        def __init__(self):
            super().__init__()
            self.inside = inside

        def forward(self, x):
            return self.inside(x, x, x, need_weights=False)[0]

    class Written(Module):
        def forward(self, x):
            joined = x @ inside.in_proj_weight.T + inside.in_proj_bias
            q, k, v = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in joined.chunk(3, -1))
            mixed = (q @ k.mT / 2).softmax(-1) @ v
            return inside.out_proj(mixed.transpose(1, 2).flatten(2))

    x = torch.randn(5, 8).double()
    one, two = (kl.contributions(net().double(), x, target="all") for net in (Module, Written))
    assert torch.allclose(one.whole, two.whole, atol=1e-12)
    assert torch.allclose(one.parts, two.parts, atol=1e-12) and torch.allclose(one.base, two.base, atol=1e-12)


def test_a_model_that_looks_at_its_tokens():
    """RoBERTa counts padding tokens for its positions, which embeddings do not show."""
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    model = transformers.RobertaForSequenceClassification(transformers.RobertaConfig(vocab_size=20, **sizes))
    nn.init.normal_(model.roberta.embeddings.position_embeddings.weight)
    nn.init.normal_(model.classifier.out_proj.weight)
    for tokens in ([3, 7, 4], [3, 1, 4]):  # 1 is its padding token
        whole = model.eval()(torch.tensor([tokens]), attention_mask=torch.ones(1, 3)).logits[0]
        found = kl.contributions(model, tokens, focus=[slice(None), [], 0], target="all")
        assert torch.allclose(found.parts[0] + found.base[0], whole, atol=1e-5)
        assert found.parts[1].abs().max() == 0 and found.parts[2].abs().max() > 1e-4


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


@pytest.mark.parametrize("kind", ["gpt2", "bert"])
def test_padding_that_a_tokenizer_masks_is_not_read(kind):
    model = hugging_face(kind).eval()
    given = {"input_ids": torch.tensor([[3, 1, 4, 0, 0]]), "attention_mask": torch.tensor([[1, 1, 1, 0, 0]])}
    found = kl.contributions(model, given, target="all", read=2)
    logits = model(**given).logits.detach()[0]
    assert torch.allclose(found.whole, logits[2] if logits.dim() > 1 else logits, atol=1e-6)
    if kind == "bert":
        assert found.parts[3:].abs().max() == 0 < found.parts[0].abs().max()
        assert not torch.allclose(found.whole, kl.contributions(model, [3, 1, 4, 0, 0], target="all").whole, atol=1e-6)


def test_subwords_form_words():
    model = hugging_face("bert")
    found = kl.contributions(model, "good films last", tokenizer=Subwords(), target="LABEL_1")
    assert found.words == found.foci == ["good", "films", "last"] and found.outputs == ["LABEL_1"]
    phrase = kl.contributions(model, "good films last", tokenizer=Subwords(), focus=["good films"], target=1)
    by_hand = kl.contributions(model, list(range(9)), focus=[range(1, 6)], target=1)
    assert torch.allclose(phrase.parts, by_hand.parts, atol=1e-6) and phrase.foci == ["good films"]


def byte_level():
    """A byte-level tokenizer such as GPT-2's."""
    tokenizers, transformers = pytest.importorskip("tokenizers"), pytest.importorskip("transformers")
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=270, special_tokens=["<end>"], initial_alphabet=alphabet)
    made.train_from_iterator(["not so good, not so bad"] * 9, trainer)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<end>")


def test_byte_level_tokens_are_shown_as_text():
    transformers, tokenizer = pytest.importorskip("transformers"), byte_level()
    config = transformers.GPT2Config(vocab_size=len(tokenizer), n_positions=32, n_embd=8, n_layer=1, n_head=1)
    model = transformers.GPT2LMHeadModel(config)
    ask = {"tokenizer": tokenizer, "focus": ["café", ["not", "élan"]]}
    found = kl.contributions(model, "not so café élan", **ask, target=[" so", "Ġso"])
    assert found.words == ["not", "so", "café", "élan"] and found.foci == ["café", "not élan"]
    assert found.outputs == ["Ġso", "Ġso"] and torch.equal(found.parts[:, 0], found.parts[:, 1])
    with pytest.raises(kl.InputError, match=r"target 'xyz': 3 tokens \(x, y, z\); name one of them"):
        kl.contributions(model, "not so", tokenizer=tokenizer, target="xyz")


def test_an_unknown_word_is_no_target():
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    words = {"[UNK]": 0, "good": 1, "bad": 2}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]")
    config = transformers.GPT2Config(vocab_size=3, n_positions=8, n_embd=8, n_layer=1, n_head=1)
    model, ask = transformers.GPT2LMHeadModel(config), {"tokenizer": tokenizer}
    assert kl.contributions(model, "good bad", **ask, target=["bad", "[UNK]"]).outputs == ["bad", "[UNK]"]
    with pytest.raises(kl.InputError, match="target 'badd': not among the 3 outputs"):
        kl.contributions(model, "good bad", **ask, target="badd")


class FromState(Embedded):
    """Its initial state is an argument: (layer, batch, feature)."""

    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.GRU(8, 5, 2, batch_first=True), nn.Linear(5, 2)

    def forward(self, tokens, h0):
        return self.out(self.rnn(self.embed(tokens), h0)[0][:, -1])


def test_initial_states_as_arguments():
    torch.manual_seed(0)
    model, state = FromState().eval(), torch.randn(2, 1, 5)
    given = {"h0": lambda rows: state.expand(-1, rows, -1).contiguous()}
    found = kl.contributions(model, [3, 1, 4], focus=[slice(None), 0], target="all", arguments=given)
    whole = model(torch.tensor([[3, 1, 4]]), state)[0].detach()
    assert torch.allclose(found.whole, whole, atol=1e-6)
    assert torch.allclose(found.parts[0] + found.base[0], whole, atol=1e-6) and found.parts[1].abs().max() > 1e-4
    with pytest.raises(kl.InputError, match="with a batch axis of their own as functions of its size"):
        kl.contributions(model, [3, 1, 4], arguments={"h0": state})


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
        ({"focus": []}, "an empty list of focuses"),
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


class Last(Embedded):
    def forward(self, x):
        return self.out(self.rnn(self.embed(x))[0][:, -1])


class Dictionary(Last):
    def forward(self, x):
        return {"loss": None, "logits": super().forward(x)}


class Lengths(Last):
    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(self.embed(x), lengths, batch_first=True, enforce_sorted=False)
        return self.out(self.rnn(packed)[1][0][-1])


class TimeFirst(Last):
    def forward(self, x):
        return self.out(self.rnn(self.embed(x).transpose(0, 1))[0]).transpose(0, 1)


class Filled(Last):
    """Writes its states into a tensor."""

    def forward(self, x):
        hidden, filled = self.rnn(self.embed(x))[0], torch.zeros(*x.shape, 8)
        for t in range(x.shape[1]):
            filled[:, t] = hidden[:, t]
        return self.out(filled[:, -1])


class Remembers(Last):
    """Keeps its last state, and begins anew each time."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x):
        self.hidden = (torch.zeros(1, len(x), 8), torch.zeros(1, len(x), 8))
        out, self.hidden = self.rnn(self.embed(x), self.hidden)
        self.seen += 1
        return self.out(out[:, -1])


@pytest.mark.parametrize(
    "kind, options",
    [
        (Dictionary, {}),
        (Lengths, {"arguments": {"lengths": torch.tensor([4])}}),
        (TimeFirst, {"batch_first": False}),
        (Filled, {}),
        (Remembers, {}),
    ],
)
def test_the_same_classifier_in_other_forms(kind, options):
    torch.manual_seed(7)
    wanted, model = Last(), kind()
    model.load_state_dict(wanted.state_dict(), strict=False)
    one, two = (kl.contributions(m, [3, 7, 9, 4], target="all", **o) for m, o in ((wanted, {}), (model, options)))
    assert torch.allclose(one.parts, two.parts, atol=1e-6) and torch.allclose(one.base, two.base, atol=1e-6)


def test_the_model_stays_as_it_was():
    model = Remembers()
    model.hidden = torch.ones(1, 1, 8)
    model.train()
    model.out.eval()
    kl.contributions(model, [3, 7, 9, 4])
    assert (
        torch.equal(model.hidden, torch.ones(1, 1, 8)) and type(model.seen) is torch.Tensor and float(model.seen) == 0
    )
    assert model.training and model.rnn.training and not model.out.training


class MixesBatch(Embedded):
    """The usual mistake: attention over the batch."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 1)

    def forward(self, x):
        return self.out(self.encoder(self.embed(x)).mean(1))


class Draws(Last):
    def forward(self, x):
        return super().forward(x) + torch.randn(len(x), 1)


class Stateful(Last):
    hidden = None

    def forward(self, x):
        out, self.hidden = self.rnn(self.embed(x), self.hidden)
        return self.out(out[:, -1])


class Broken(Last):
    def forward(self, x):
        return super().forward(x) * torch.nan


class Logarithm(Embedded):
    def forward(self, x):
        return self.out((self.embed(x) ** 2).sum(1).log())


@pytest.mark.parametrize(
    "model, message",
    [
        (Logarithm, "not finite numbers; a function such as a logarithm"),
        (MixesBatch, "mixes the sentences of a batch"),
        (Draws, "draws random numbers"),
        (Stateful, "fails on a batch of three"),
        (Lengths, "missing 1 required.*give arguments="),
        (TimeFirst, "batch_first=False"),
        (Broken, "not finite"),
        (lambda: torch.sum, "needs a torch.nn.Module"),
        (lambda: torch.jit.script(nn.Linear(3, 2)), "needs a torch.nn.Module"),
    ],
)
def test_models_that_cannot_be_explained_are_named(model, message):
    with pytest.raises(kl.KleeneError, match=message):
        kl.contributions(model(), [3, 7, 9, 4])


def test_parts_that_do_not_add_up_are_an_error(monkeypatch):
    """A planted bug: a layer that forgets its bias."""
    from kleene.evidence import parted

    def forgets(func, args, kwargs):
        whole = parted.any_function(func, args, kwargs)
        return Parted.of(whole.whole, whole.part, 0 * whole.base, whole.rule)

    monkeypatch.setitem(parted.HANDLERS, "linear", forgets)
    with pytest.raises(kl.NotSupported, match="do not add up"):
        kl.contributions(Last(), [3, 7, 9, 4])


class Scaled(Embedded):
    """Lengths of vectors count as given, wherever they are taken."""

    def __init__(self):
        super().__init__()
        self.kinds = nn.Parameter(torch.randn(2, 8))
        self.norm = nn.GroupNorm(2, 8)
        self.other = nn.InstanceNorm1d(8, affine=True)

    def forward(self, x):
        read = self.rnn(self.embed(x))[0].transpose(1, 2)
        read = nn.functional.normalize((self.norm(read) + self.other(read)).mean(2), dim=-1)
        return nn.functional.cosine_similarity(read[:, None], self.kinds, dim=-1)


def test_lengths_of_vectors_are_given():
    torch.manual_seed(8)
    model, tokens = Scaled(), [3, 7, 9, 4]
    for norm in (model.norm, model.other):
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    found = kl.contributions(model, tokens, focus=[slice(None), [], [0, 2], [1, 3]], target="all")
    assert torch.allclose(found.whole, model(torch.tensor([tokens]))[0], atol=1e-6)
    assert torch.allclose(found.parts[0] + found.base[0], found.whole, atol=1e-6) and found.parts[1].abs().max() < 1e-7


class Weighted(Embedded):
    """A mean with weights of the words: without words it is 0 / 0."""

    def __init__(self):
        super().__init__()
        self.weights = nn.Parameter(torch.rand(20))

    def forward(self, x):
        weights = self.weights[x]
        return self.out((weights[..., None] * self.embed(x)).sum(1) / weights.sum(1, keepdim=True))


def test_a_mean_by_the_weights_of_words():
    torch.manual_seed(9)
    model, tokens = Weighted(), [3, 7, 9, 4]
    found = kl.contributions(model, tokens, target="all")
    weights = model.weights[tokens, None]
    wanted = (weights * model.embed(torch.tensor(tokens)) / weights.sum()) @ model.out.weight.T
    assert torch.allclose(found.parts, wanted, atol=1e-6)


@pytest.mark.parametrize(
    "focus",
    [
        [[0, 2]],
        [[True, False, True, False]],
        [True, False, True, False],
        torch.tensor([True, False, True, False]),
        torch.tensor([[0, 2]]),
        np.array([[True, False, True, False]]),
        [np.array([0, -2])],
        ((np.int64(0), torch.tensor(2)),),
        slice(0, 3, 2),
        [{0, 2}],
    ],
    ids=str,
)
def test_one_focus_in_many_forms(model, focus):
    assert kl.contributions(model, [3, 7, 9, 4], focus=focus).foci == ["3 9"]


def test_a_number_is_one_focus(model):
    assert kl.contributions(model, [3, 7, 9, 4], focus=2, target=np.int64(1)).foci == ["9"]
    assert kl.contributions(model, [3, 7, 9, 4], focus=np.arange(2)).foci == ["3", "7"]


class InViews(Last):
    """Embeddings that are changed in place, through views of them."""

    def forward(self, x):
        vectors = self.embed(x).clone()
        vectors[:, 0].mul_(2)
        vectors[:, :, :3].zero_()
        vectors.transpose(0, 1)[1][:, 5] = 7.0
        return self.out(self.rnn(vectors)[0][:, -1])


class OutOfPlace(Last):
    """The same, written otherwise."""

    def forward(self, x):
        first = torch.cat([self.embed(x)[:, :1] * 2, self.embed(x)[:, 1:]], 1)
        rest = torch.cat([torch.zeros(*x.shape, 3), first[:, :, 3:]], 2)
        second, seven = torch.tensor([0, 1, 0, 0])[:, None] * torch.eye(8)[5], torch.tensor(7.0)
        return self.out(self.rnn(torch.where(second > 0, seven, rest))[0][:, -1])


class Fourier(Last):
    """A filter by Fourier transforms: what goes through complex numbers stays with its word."""

    def forward(self, x):
        read = self.embed(x)
        spectrum = torch.fft.rfft(read, n=8, dim=1) * torch.fft.rfft(self.filter, n=8)[:, None]
        return self.out(self.rnn(torch.fft.irfft(spectrum, n=8, dim=1)[:, : x.shape[1]])[0][:, -1])

    filter = torch.tensor([1.0, -0.5, 0.25, 2.0])


class Convolved(Fourier):
    """The same filter, as a sum."""

    def forward(self, x):
        read = self.embed(x)
        moved = [torch.cat([torch.zeros(len(x), k, 8), read[:, : x.shape[1] - k]], 1) for k in range(4)]
        return self.out(self.rnn(sum(w * each for w, each in zip(self.filter.tolist(), moved)))[0][:, -1])


class Counts(Embedded):
    def forward(self, x):
        counts = torch.zeros(len(x), 20).scatter_add_(1, x, torch.ones_like(x, dtype=torch.float))
        return self.out(torch.relu(counts @ self.embed.weight))


class SumOfOneHots(Embedded):
    def forward(self, x):
        return self.out(torch.relu(nn.functional.one_hot(x, 20).float().sum(1) @ self.embed.weight))


class Viewed(Last):
    """A view of what a recurrent layer gives, which the layer's memory must allow."""

    def forward(self, x):
        self.rnn.batch_first = False
        read = self.rnn(self.embed(x.t()))[0].view(-1, 8)
        return self.out(read).view(x.shape[1], len(x), 2).transpose(0, 1)


class NotViewed(Last):
    def forward(self, x):
        return self.out(self.rnn(self.embed(x))[0])


class Similarity(Last):
    """How near two halves of a sentence are: the model ends with a function of a norm."""

    def forward(self, x):
        one, two = (self.rnn(self.embed(half))[0][:, -1] for half in x.chunk(2, 1))
        return torch.exp(-torch.norm(one - two, p=1, dim=1, keepdim=True))


class Squeezed(Last):
    """A batch of one loses its axis."""

    def forward(self, x):
        return super().forward(x).squeeze()


@pytest.mark.parametrize(
    "one, two",
    [(InViews, OutOfPlace), (Fourier, Convolved), (Counts, SumOfOneHots), (Viewed, NotViewed), (Squeezed, Last)],
)
def test_two_forms_of_a_model_have_the_same_parts(one, two):
    torch.manual_seed(0)
    first, second = one(), two()
    second.load_state_dict(first.state_dict())
    foci = [0, 1, [1, 2], slice(None), []]
    found, wanted = (kl.contributions(model, [3, 7, 9, 4], focus=foci, target="all") for model in (first, second))
    assert torch.allclose(found.whole, wanted.whole, atol=1e-5)
    assert torch.allclose(found.parts, wanted.parts, atol=1e-5)
    assert torch.allclose(found.parts[3] + found.base[3], found.whole, atol=1e-5)
    assert found.parts[0].abs().max() > 1e-3 and found.parts[4].abs().max() < 1e-6


def test_a_model_that_ends_with_a_norm_has_parts():
    torch.manual_seed(0)
    model = Similarity()
    found = kl.contributions(model, [3, 7, 9, 4], focus=[slice(None), [], 0])
    assert torch.allclose(found.parts[0] + found.base[0], model(torch.tensor([[3, 7, 9, 4]]))[0], atol=1e-5)
    assert found.parts[1].abs().max() == 0 and found.parts[2].abs().max() > 1e-3


def test_positions_in_the_shape_of_tokens_are_no_words():
    class Placed(Embedded):
        def __init__(self):
            super().__init__()
            self.places = nn.Embedding(9, 8)

        def forward(self, x):
            places = torch.arange(x.shape[1]).expand_as(x)
            return self.out(torch.tanh(self.embed(x) + self.places(places)).mean(1))

    class PlacedByHand(Placed):
        def forward(self, x):
            return self.out(torch.tanh(self.embed(x) + self.places.weight[: x.shape[1]]).mean(1))

    one, two = Placed(), PlacedByHand()
    two.load_state_dict(one.state_dict())
    found, wanted = (kl.contributions(model, [3, 7, 9, 4], target="all") for model in (one, two))
    assert torch.allclose(found.parts, wanted.parts, atol=1e-6)


def test_arrays_of_numpy_are_named():
    class Leaves(Last):
        def forward(self, x):
            return super().forward(x) + torch.from_numpy(self.embed(x).mean((1, 2)).detach().numpy())[:, None]

    with pytest.raises(kl.NotSupported, match="NumPy"):
        kl.contributions(Leaves(), [3, 7, 9, 4])
