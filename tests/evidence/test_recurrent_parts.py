"""Recurrent layers and cells with parts: cells are steps of layers; states and constants have owners."""

import pytest
import torch
from torch import nn

import kleene as kl
from kleene.evidence.parted import RULES, Parted, plain

PAIRS = [
    (nn.LSTM, nn.LSTMCell, {}),
    (nn.GRU, nn.GRUCell, {}),
    (nn.RNN, nn.RNNCell, {}),
    (nn.RNN, nn.RNNCell, {"nonlinearity": "relu"}),
]


def layer_of(kind, options):
    torch.manual_seed(1)
    layer = kind(4, 5, batch_first=True, **options).double()
    return layer, torch.randn(3, 6, 4).double(), torch.tensor([0, 1, 1, 0, 0, 1]).double()[None, :, None]


@pytest.mark.parametrize("kind, cell, options", PAIRS, ids=lambda x: getattr(x, "__name__", str(x)))
@pytest.mark.parametrize("rule", ["cd", "murdoch", "generalised", "removed"])
def test_cells_are_steps_of_layers(kind, cell, options, rule):
    layer, x, mask = layer_of(kind, options)
    one = cell(4, 5, **options).double()
    one.load_state_dict({name.removesuffix("_l0"): value for name, value in layer.state_dict().items()})
    given, state = Parted.of(x, mask * x, None, RULES[rule]), None
    for word in given.unbind(1):
        state = one(word, state)
    found = state[0] if isinstance(state, tuple) else state
    wanted = layer(given)[0][:, -1]
    for view in (plain, lambda y: y.part, lambda y: y.base):
        assert torch.allclose(view(found), view(wanted), atol=1e-12)


@pytest.mark.parametrize("kind, cell, options", PAIRS, ids=lambda x: getattr(x, "__name__", str(x)))
def test_a_sentence_in_pieces(kind, cell, options):
    """States that are passed on keep the words of the pieces before."""
    layer, x, mask = layer_of(kind, options)
    given = Parted.of(x, mask * x, None, RULES["cd"])
    wanted, state, outs = layer(given)[0], None, []
    for piece in given.split(2, 1):
        out, state = layer(piece, state)
        outs.append(out)
    found = torch.cat(outs, 1)
    assert torch.allclose(found.part, wanted.part, atol=1e-12) and torch.allclose(plain(found), plain(wanted))
    decoded, _ = layer(torch.randn(3, 2, 4).double(), state)  # a decoder that reads constants
    whole, _ = layer(Parted.of(x, x, None, RULES["cd"]))
    assert decoded.part.abs().max() > 1e-3
    assert torch.allclose(whole.part + whole.base, plain(whole), atol=1e-12)


@pytest.mark.parametrize("kind, cell, options", PAIRS, ids=lambda x: getattr(x, "__name__", str(x)))
def test_all_words_and_the_base_are_the_whole(kind, cell, options):
    """With an initial state, constants in the input, and words that are zero, first or last."""
    layer, x, _ = layer_of(kind, {**options, "num_layers": 2, "bidirectional": True})
    start = torch.randn(4, 3, 5).double()
    state = (start, start / 2) if kind is nn.LSTM else start
    for zeros in ([], [0], [5], [0, 1, 5]):
        x[:, zeros] = 0
        constant = torch.randn(1, 6, 4).double()
        for given, base, hx in ((x, None, state), (x + constant, constant.expand_as(x), None), (x, None, None)):
            found = layer(Parted.of(given, x, base, RULES["cd"]), hx)
            ends = found[1] if kind is nn.LSTM else (found[1],)
            for one in (found[0], *ends):
                assert torch.allclose(one.part + one.base, plain(one), atol=1e-12)
            none = layer(Parted.of(given, 0 * x, base, RULES["cd"]), hx)[0]
            assert none.part.abs().max() == 0 and torch.allclose(none.base, found[0].base, atol=1e-12)


def test_a_convolution_before_the_layer():
    """Its bias is a constant of every step: it was lost before."""

    class Front(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.conv = nn.Embedding(9, 4), nn.Conv1d(4, 6, 3, padding=1)
            self.rnn, self.out = nn.LSTM(6, 5, batch_first=True), nn.Linear(5, 2)

        def forward(self, x):
            read = torch.relu(self.conv(self.embed(x).transpose(1, 2))).transpose(1, 2)
            return self.out(self.rnn(read)[1][0][-1])

    torch.manual_seed(2)
    found = kl.contributions(Front(), [3, 1, 4, 1, 5], focus=[slice(None), [], 2], target="all")
    assert torch.allclose(found.parts[0] + found.base[0], found.whole, atol=1e-6)
    assert found.parts[1].abs().max() == 0 and found.parts[2].abs().max() > 1e-4


def test_a_cell_does_not_see_the_next_word():
    cell, x = nn.LSTMCell(4, 5), torch.randn(1, 4)
    with pytest.raises(kl.NotSupported, match="next word"):
        cell(Parted.of(x, x, None, RULES["released"]))
