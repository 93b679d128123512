"""Parted tensors: parts add up through any function; the shares are Shapley's; attention and norms are linear."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import kleene as kl
from kleene.evidence.decomposition import shapley
from kleene.evidence.parted import RULES, Parted, Rule, base_share, plain, rule_of, share

FUNCTIONS = {
    "linear": lambda x, w: F.linear(x, w, w[:, 0]),
    "tanh": lambda x, w: x.tanh(),
    "gelu": lambda x, w: F.gelu(x),
    "product": lambda x, w: x * (x @ w.T),
    "pow": lambda x, w: 0.5 * x * (1 + torch.tanh(x + 0.04 * torch.pow(x, 3.0))),
    "divided": lambda x, w: x / (2 + x.sigmoid()),
    "norm": lambda x, w: F.layer_norm(x, (4,), w[0], w[1]),
    "cat": lambda x, w: torch.cat([x, x.relu()], -1).reshape(3, 2, 4).transpose(0, 1).max(0).values,
    "attention": lambda x, w: F.scaled_dot_product_attention(x[None], x[None] @ w, x[None], is_causal=True),
    "eager": lambda x, w: ((x @ x.T) / 2).softmax(-1) @ x,
    "in place": lambda x, w: x.clone().add_(1.0).mul_(2.0).relu_(),
    "set": lambda x, w: set_row(x.clone(), x),
}


def set_row(x, y):
    x[0] = y[1] * 2
    x[1] = 3.0
    return x


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "jumelet"])
def test_all_and_nothing(name, rule):
    """A focus on everything has all but the base, an empty one has nothing, and the whole is the plain result."""
    torch.manual_seed(0)
    x, w = torch.randn(3, 4).double(), torch.randn(4, 4).double()
    wanted, function = FUNCTIONS[name](x, w), FUNCTIONS[name]
    full, none = (function(Parted.of(x, part, None, RULES[rule]), w) for part in (x, 0 * x))
    assert torch.allclose(plain(full), wanted, atol=1e-12) and torch.allclose(plain(none), wanted, atol=1e-12)
    assert torch.allclose(full.part + full.base, wanted, atol=1e-12)
    assert torch.allclose(none.part, torch.zeros_like(wanted), atol=1e-12)
    some = function(Parted.of(x, torch.tensor([[1.0], [1.0], [0.0]]).double() * x, None, RULES[rule]), w)
    assert some.part.abs().max() > 1e-3 and torch.isfinite(some.part).all()


def test_shares_are_shapley_values():
    r, q, b = (torch.tensor(v).double() for v in (0.7, -1.1, 0.4))
    z = r + q + b
    free = shapley(torch.tanh, [r, q, b])
    assert torch.allclose(share("free", torch.tanh, r, z, b), free[0])
    assert torch.allclose(base_share("free", torch.sigmoid, r, z, b), shapley(torch.sigmoid, [r, q, b])[2] + 0.5)
    above = shapley(lambda y: torch.tanh(y + b), [r, q])
    assert torch.allclose(share("shared", torch.tanh, r, z, b), above[0])


def test_attention_patterns_are_those_of_the_whole():
    torch.manual_seed(1)
    x, part = torch.randn(5, 4).double(), torch.randn(5, 4).double()
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    found = F.scaled_dot_product_attention(*(Parted.of(x, part, None, RULES["cd"])[None],) * 3, attn_mask=mask[None])
    pattern = ((x @ x.T) / 2).masked_fill(~mask, -math.inf).softmax(-1)
    assert torch.allclose(found.part[0], pattern @ part, atol=1e-12)


@pytest.mark.parametrize("join", [torch.cat, torch.stack, torch.hstack], ids=lambda f: f.__name__)
def test_constants_that_are_joined_are_nobodys(join):
    """A start vector before the words, as many classifiers have: the focus gets nothing of it."""
    x, start = torch.randn(3, 4).double(), torch.randn(3, 4).double()
    found = join([start, Parted.of(x, 0 * x, None, RULES["cd"])])
    assert found.part.abs().max() == 0
    full = join([start, Parted.of(x, x, None, RULES["cd"])])
    assert torch.equal(full.part, join([0 * start, x])) and torch.equal(full.base, join([start, 0 * x]))


def test_an_unknown_rule_is_named():
    with pytest.raises(kl.InputError, match="choose one of cd, murdoch"):
        rule_of("best")


CELLS = [
    (cell, dict(zip(("num_layers", "bidirectional", "bias"), options)))
    for cell in (nn.LSTM, nn.GRU)
    for options in itertools.product((1, 2), (False, True), (False, True))
] + [(nn.LSTM, {"proj_size": 3, "bidirectional": True})]


@pytest.mark.parametrize("cell, options", CELLS, ids=lambda x: getattr(x, "__name__", str(x)))
@pytest.mark.parametrize("packed", [False, True])
def test_recurrent_layers(cell, options, packed):
    """Any LSTM or GRU, packed or not, with an initial state: the whole is torch's own; parts behave."""
    torch.manual_seed(2)
    net = cell(4, 5, batch_first=not packed, **options).double()
    x = torch.randn(3, 6, 4).double()
    x = x if net.batch_first else x.transpose(0, 1)
    start = [
        torch.randn(options.get("num_layers", 1) * (1 + options.get("bidirectional", False)), 3, n).double()
        for n in ((net.proj_size or 5), 5)
    ]
    state = tuple(start) if cell is nn.LSTM else start[0]

    def run(given, hx=None):
        if not packed:
            return net(given, hx)[0]
        out, _ = net(nn.utils.rnn.pack_padded_sequence(given, [6, 4, 2]), hx)
        return nn.utils.rnn.pad_packed_sequence(out)[0]

    for hx in (None, state):
        full, none = (run(Parted.of(x, p, None, RULES["cd"]), hx) for p in (x, 0 * x))
        assert torch.allclose(plain(full), run(x, hx), atol=1e-12)
        assert none.part.abs().max() == 0
    full = run(Parted.of(x, x, None, RULES["cd"]))
    assert torch.allclose(full.part, run(x), atol=1e-12)


def test_lstms_are_as_in_decompose():
    """Two implementations: the single stream of `kl.decompose`, and gates with parts."""
    torch.manual_seed(3)
    net, x = nn.LSTM(4, 5, 2, batch_first=True).double(), torch.randn(1, 7, 4).double()
    mask = torch.tensor([0, 1, 1, 0, 0, 1, 0]).double()[None, :, None]
    for rule, bias_rule in (("cd", "focus"), ("murdoch", "murdoch")):
        found = net(Parted.of(x, mask * x, None, RULES[rule]))[0]
        wanted = kl.decompose(net, None, x[0], [1, 2, 5], bias_rule=bias_rule).relevant_hidden
        assert torch.allclose(found.part[0], wanted, atol=1e-12)


def test_a_gru_by_hand():
    """One step of one unit, with the equations written out."""
    net = nn.GRU(1, 1).double()
    values = torch.tensor([0.3, -0.4, 0.5]).double()
    with torch.no_grad():
        net.weight_ih_l0.copy_(values[:, None])
        net.weight_hh_l0.copy_(values.flip(0)[:, None])
        net.bias_ih_l0.copy_(values / 2)
        net.bias_hh_l0.copy_(values / 3)
    x = torch.tensor([[[0.7]], [[-1.2]]]).double()
    part = x.clone()
    part[1] = 0  # the first word is in focus
    found = net(Parted.of(x, part, None, RULES["murdoch"]))[0].part[:, 0, 0].detach()
    w, v, b, c = values, values.flip(0), values / 2, values / 3
    sig, h_r, h_z = torch.sigmoid, torch.zeros(()).double(), torch.zeros(()).double()
    for t in range(2):
        r, z = part[t, 0, 0] * w, x[t, 0, 0] * w + b
        pair = []
        for k in (0, 1):
            a_r, a_z, a_b = r[k] + h_r * v[k], z[k] + h_z * v[k] + c[k], b[k] + c[k]
            pair.append((((sig(a_r + a_b) - sig(a_b)) + (sig(a_z) - sig(a_z - a_r))) / 2, sig(a_z), sig(a_b)))
        (s_r, s_z, s_b), (u_r, u_z, u_b) = pair
        m_r, m_z = h_r * v[2], h_z * v[2] + c[2]
        n_r = r[2] + (s_r + s_b) * (m_r + c[2]) - s_b * c[2]
        n_z, n_b = z[2] + s_z * m_z, b[2] + s_b * c[2]
        t_r = ((torch.tanh(n_r + n_b) - torch.tanh(n_b)) + (torch.tanh(n_z) - torch.tanh(n_z - n_r))) / 2
        h_r, h_z = (
            (1 - u_b - u_r) * (t_r + torch.tanh(n_b)) - (1 - u_b) * torch.tanh(n_b) + (u_r + u_b) * h_r,
            (1 - u_z) * torch.tanh(n_z) + u_z * h_z,
        )
        assert abs(float(found[t] - h_r.detach())) < 1e-12


def test_the_released_code_gives_the_same():
    """Outputs of the authors' function on fixed weights, for every phrase, to 1e-12: a table that we made with it."""
    table = json.loads((Path(__file__).parent / "released_decomposition.json").read_text(encoding="utf-8"))
    vectors, decoder = (torch.tensor(table[name], dtype=torch.float64) for name in ("vectors", "decoder"))
    lstm = nn.LSTM(vectors.shape[1], decoder.shape[1], batch_first=True, dtype=torch.float64)
    lstm.load_state_dict({name: torch.tensor(v, dtype=torch.float64) for name, v in table["weights"].items()})
    different = 0
    for row in table["rows"]:
        focus = torch.zeros(len(vectors), 1)
        focus[row["first"] : row["last"] + 1] = 1
        wanted, rest = (torch.tensor(row[side], dtype=torch.float64) for side in ("relevant", "irrelevant"))
        found = {}
        for rule in ("released", "murdoch", "cd"):
            hidden, _ = lstm(Parted.of(vectors[None], (focus * vectors)[None], None, RULES[rule]))
            found[rule] = hidden.part[0, -1] @ decoder.T
            whole = hidden.whole[0, -1] @ decoder.T
        assert torch.allclose(found["released"], wanted, rtol=0, atol=1e-12)
        assert torch.allclose(whole - found["released"], rest, rtol=0, atol=1e-12)
        if row["first"] == row["last"]:  # a word by itself gets no bias there: the printed rule without it
            assert torch.allclose(found["murdoch"], wanted, rtol=0, atol=1e-12)
        different += bool((found["cd"] - wanted).abs().max() > 1e-3)
    assert different == len(table["rows"])  # the rule of the interdependence paper is another


DIAGNNOSE = {  # its options, as rules
    "cd": RULES["cd"],
    "murdoch": RULES["murdoch"],
    "jumelet": RULES["jumelet"],
    "jumelet, with biases": Rule("even", "removed", True),
    "jumelet, fixed": Rule("shared", "removed", True),
    "jumelet, without biases": Rule("shared", "bare", False),
    "jumelet, by source": Rule("shared", "source", True),
    "shapley": Rule("even", "alone", True),
}


def test_diagnnose_gives_the_same():
    """Outputs of another public code on fixed weights of two layers, for every phrase and eight of its settings."""
    table = json.loads((Path(__file__).parent / "diagnnose_decomposition.json").read_text(encoding="utf-8"))
    vectors = torch.tensor(table["vectors"], dtype=torch.float64)
    lstm = nn.LSTM(vectors.shape[1], 4, 2, batch_first=True, dtype=torch.float64)
    lstm.load_state_dict({name: torch.tensor(v, dtype=torch.float64) for name, v in table["weights"].items()})
    assert {row["rule"] for row in table["rows"]} == set(DIAGNNOSE)
    found = {}
    for row in table["rows"]:
        focus = torch.zeros(len(vectors), 1)
        focus[row["first"] : row["last"] + 1] = 1
        hidden, _ = lstm(Parted.of(vectors[None], (focus * vectors)[None], None, DIAGNNOSE[row["rule"]]))
        wanted = torch.tensor(row["relevant"], dtype=torch.float64)
        assert torch.allclose(hidden.part[0, -1], wanted, rtol=0, atol=1e-12), row
        found.setdefault((row["first"], row["last"]), []).append(wanted)
    for (first, last), values in found.items():  # no two settings are the same, but where all words are in focus
        different = {tuple(value.round(decimals=9).tolist()) for value in values}
        assert (first, last) == (0, len(vectors) - 1) or len(different) == len(DIAGNNOSE)


def test_who_shares_what_a_closed_gate_lets_through():
    """A focus on nothing has nothing by our generalised rule, and something by diagNNose's: thirds of σ(0) = ½."""
    torch.manual_seed(0)
    net, x = nn.LSTM(3, 4, batch_first=True).double(), torch.randn(1, 5, 3).double()
    assert net(Parted.of(x, 0 * x, None, RULES["generalised"]))[0].part.abs().max() == 0
    assert net(Parted.of(x, 0 * x, None, RULES["jumelet"]))[0].part.abs().max() > 1e-3


def test_wrong_shares_are_named():
    with pytest.raises(kl.InputError, match="a unit's share is alone"):
        Rule("all")
