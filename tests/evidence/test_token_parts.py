"""Whatever a model does with token numbers before it embeds them, the words keep what is theirs."""

import pytest
import torch
from torch import nn

import kleene as kl

WORDS = [3, 1, 4, 1, 5, 9]


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.rnn, self.out = nn.Embedding(20, 8), nn.GRU(8, 6, batch_first=True), nn.Linear(6, 2)
        self.register_buffer("order", torch.randperm(20))

    def forward(self, x):
        return self.read(self.embed(x))

    def read(self, vectors):
        return self.out(self.rnn(vectors)[0][:, -1])


def model_of(forward):
    return type("Model", (Plain,), {"forward": forward})()


SAME = {
    "long": lambda self, x: self.read(self.embed(x.long())),
    "shifted and back": lambda self, x: self.read(self.embed((x + 1).clamp(max=19) - 1)),
    "words of a loop": lambda self, x: self.read(torch.stack([self.embed(word) for word in x.t()], 1)),
    "unbound": lambda self, x: self.read(torch.stack([self.embed(word) for word in x.unbind(1)], 1)),
    "split": lambda self, x: self.read(torch.cat([self.embed(part) for part in x.split(2, 1)], 1)),
    "indexed": lambda self, x: self.read(self.embed.weight[x]),
    "selected": lambda self, x: self.read(self.embed.weight.index_select(0, x.flatten()).view(*x.shape, 8)),
    "turned": lambda self, x: self.read(self.embed(x.T).transpose(0, 1)),
    "data": lambda self, x: self.read(self.embed(x.data)),
    "one-hot": lambda self, x: self.read(nn.functional.one_hot(x, 20).float() @ self.embed.weight),
}


@pytest.mark.parametrize("name", SAME)
def test_the_same_model_written_otherwise(name):
    wanted = kl.contributions(Plain(), WORDS, target="all")
    found = kl.contributions(model_of(SAME[name]), WORDS, target="all")
    assert torch.allclose(found.parts, wanted.parts, atol=1e-6) and torch.allclose(found.base, wanted.base, atol=1e-6)
    assert (found.parts.abs().amax(1) > 1e-5).all()


OTHER = {
    "numbers of a table": (lambda self, x: self.read(self.embed(self.order[x])), lambda self: self.order[WORDS]),
    "unknown words": (
        lambda self, x: self.read(self.embed(torch.where(x > 4, torch.tensor(2), x))),
        lambda self: torch.tensor(WORDS).where(torch.tensor(WORDS) <= 4, 2),
    ),
    "halves": (lambda self, x: self.read(self.embed(x // 2)), lambda self: torch.tensor(WORDS) // 2),
}


@pytest.mark.parametrize("name", OTHER)
def test_numbers_made_of_words(name):
    """As the plain model on these numbers."""
    forward, numbers = OTHER[name]
    wanted = kl.contributions(Plain(), numbers(Plain()), target="all")
    found = kl.contributions(model_of(forward), WORDS, target="all")
    assert torch.allclose(found.parts, wanted.parts, atol=1e-6)


def written(self, x):
    y = torch.zeros(len(x), x.shape[1] + 1, dtype=torch.long)
    y[:, 1:] = x
    y[:, 0] = 7
    return self.read(self.embed(y))


STARTED = {
    "joined": lambda self, x: self.read(self.embed(torch.cat([torch.full((len(x), 1), 7), x], 1))),
    "padded": lambda self, x: self.read(self.embed(nn.functional.pad(x, (1, 0), value=7))),
    "written": written,
}


@pytest.mark.parametrize("name", STARTED)
def test_constant_tokens_are_nobodys(name):
    """A start token that the model joins with the words belongs to the base, as a start vector does."""

    def vectors(self, x):
        start = self.embed.weight[7].expand(len(x), 1, -1)
        return self.read(torch.cat([start, self.embed(x)], 1))

    wanted = kl.contributions(model_of(vectors), WORDS, focus=[slice(None), 0, [1, 3]], target="all")
    found = kl.contributions(model_of(STARTED[name]), WORDS, focus=[slice(None), 0, [1, 3]], target="all")
    assert torch.allclose(found.parts, wanted.parts, atol=1e-6) and torch.allclose(found.base, wanted.base, atol=1e-6)
    assert torch.allclose(found.parts[0] + found.base[0], found.whole, atol=1e-6)


def test_numbers_as_values():
    """A model that reads the numbers themselves."""

    class Values(nn.Module):
        def __init__(self):
            super().__init__()
            self.out = nn.Linear(6, 1)

        def forward(self, x):
            return self.out(x / 10)

    model = Values()
    found = kl.contributions(model, WORDS)
    assert torch.allclose(found.parts[:, 0], model.out.weight[0] * torch.tensor(WORDS) / 10, atol=1e-6)


def test_a_bag_of_words():
    class Bag(nn.Module):
        def __init__(self, mode):
            super().__init__()
            self.embed = nn.EmbeddingBag(20, 3, mode=mode)

        def forward(self, x):
            return self.embed(x)

    model = Bag("mean")
    found = kl.contributions(model, WORDS, target="all")
    assert torch.allclose(found.parts, model.embed.weight[WORDS] / len(WORDS), atol=1e-6)
    most = kl.contributions(Bag("max"), WORDS, focus=[slice(None)], target="all")
    assert torch.allclose(most.parts[0], most.whole)


REFUSED = {
    "several tokens": lambda self, x: self.read(self.embed((x[:, 1:] + x[:, :-1]) // 2)),
    "scatter": lambda self, x: self.read(self.embed(torch.zeros_like(x).scatter(1, x.argsort(1), x))),
    "looks up tokens": lambda self, x: self.read(self.embed.weight.T[:, x].permute(1, 2, 0)),
    "does not come from its input": lambda self, x: self.read(self.embed(torch.tensor(x.tolist()))),
    "a part of a tensor": lambda self, x: self.read(self.embed(_rows(x))),
}


def _rows(x):
    y = torch.zeros(len(x), x.shape[1], dtype=torch.long)
    for row in range(len(x)):
        y[row][:] = x[row]
    return y


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_not_followed_is_named(message):
    with pytest.raises(kl.KleeneError, match=message):
        kl.contributions(model_of(REFUSED[message]), WORDS)
