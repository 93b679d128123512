"""Contextual decomposition: its laws on random LSTMs, in float64 to 1e-12, and its refusals."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import kleene as kl
from kleene.errors import InputError, NotSupported
from kleene.evidence.decomposition import (
    BIAS_RULES,
    LSTMLayer,
    Stream,
    decompose,
    layers_of,
    masks_of,
    relevant_hidden,
    shapley,
    totals,
    triple,
    two_streams,
)

EXACT = 1e-12


def lstm_of(seed: int, layers: int = 1, scale: float = 1.0, bias: bool = True) -> tuple[nn.LSTM, nn.Linear]:
    torch.manual_seed(seed)
    lstm, decoder = nn.LSTM(4, 5, layers, bias=bias).double(), nn.Linear(5, 9).double()
    with torch.no_grad():
        for parameter in lstm.parameters():
            parameter.mul_(scale)
    return lstm, decoder


@st.composite
def cases(draw: st.DrawFn) -> tuple[nn.LSTM, nn.Linear, Tensor, list[int], str]:
    """A random LSTM (one to three layers, tame to saturated), a sentence, a focus and a bias rule."""
    lstm, decoder = lstm_of(
        draw(st.integers(0, 10**6)),
        draw(st.integers(1, 3)),
        draw(st.sampled_from([0.1, 1.0, 5.0])),
        draw(st.booleans()),
    )
    length = draw(st.integers(1, 8))
    focus = draw(st.sets(st.integers(0, length - 1)))
    return (
        lstm,
        decoder,
        torch.randn(length, 4, dtype=torch.float64),
        sorted(focus),
        draw(st.sampled_from(BIAS_RULES)),
    )


def close(a: Tensor, b: Tensor | float, tolerance: float = EXACT) -> bool:
    return bool(((a - b).abs() <= tolerance).all())


@given(cases())
@settings(max_examples=60, deadline=None)
def test_laws(case: tuple[nn.LSTM, nn.Linear, Tensor, list[int], str]) -> None:
    lstm, decoder, x, focus, rule = case
    parts = decompose(lstm, decoder, x, focus, bias_rule=rule)
    with torch.no_grad():
        hidden = lstm(x)[0]
        logits = decoder(hidden)
    both = two_streams(layers_of(lstm), x, masks_of(focus, len(x)), rule)
    assert close(both[0] + both[1], hidden), "relevant and irrelevant, each by its own equations, add up"
    assert close(parts.relevant_hidden, both[0]) and close(parts.irrelevant_hidden, both[1])
    assert close(parts.relevant_logits + parts.irrelevant_logits + decoder.bias.detach(), logits, 1e-11)
    assert close(parts.logits, logits, 1e-11)
    first = focus[0] if focus else len(x)
    assert close(parts.relevant_hidden[:first], 0.0), "nothing is relevant before the first focused word"
    everything = two_streams(layers_of(lstm), x, masks_of(range(len(x)), len(x)), "focus")
    assert close(everything[1], 0.0), "with all words in focus nothing is irrelevant"
    assert close(decompose(lstm, decoder, x, range(len(x))).relevant_hidden, hidden)


@given(cases(), st.data())
@settings(max_examples=25, deadline=None)
def test_pair_is_its_left_word_until_the_right_one(
    case: tuple[nn.LSTM, nn.Linear, Tensor, list[int], str], data: st.DataObject
) -> None:
    lstm, decoder, x, _, rule = case
    left = data.draw(st.integers(0, len(x) - 1))
    right = data.draw(st.integers(left, len(x) - 1))
    pair, single = (
        decompose(lstm, decoder, x, focus, bias_rule=rule).relevant_hidden for focus in ([left, right], [left])
    )
    assert torch.equal(pair[:right], single[:right])


@given(st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_gate_share_is_the_shapley_value_and_a_null_player_gets_nothing(seed: int) -> None:
    """The paper's printed formula also sums to φ(y₁ + y₂) − φ(0), but fails the null player."""
    torch.manual_seed(seed)
    n = 6
    b, r, q = (3 * torch.randn(3 * n, dtype=torch.float64) for _ in range(3))
    stream = Stream(LSTMLayer(torch.zeros(1, 4 * n).double(), torch.zeros(n, 4 * n).double(), torch.cat([b, b[:n]])))
    share = stream._share(r.clone(), stream.bias, triple(r + q + b))
    assert close(share, shapley(lambda y: torch.sigmoid(y + b), [r, q])[0])
    nothing = stream._share(torch.zeros_like(r), stream.bias, triple(q + b))
    assert torch.equal(nothing, torch.zeros_like(r)), "y₁ = 0 ⇒ L(y₁) = 0"


def test_saturated_gates_lose_nothing() -> None:
    """Weights of ±9 saturate the gates; there the LSTM itself magnifies rounding, so not to 1e-12."""
    for seed in range(40):
        lstm, decoder = lstm_of(seed, 2, 20.0)
        x, mask = torch.randn(6, 4).double(), torch.rand(6) < 0.5
        for rule in BIAS_RULES:
            wanted = two_streams(layers_of(lstm), x, mask, rule)[0]
            assert close(decompose(lstm, decoder, x, mask, bias_rule=rule).relevant_hidden, wanted, 1e-10)
    lstm, _ = lstm_of(0, 1, 2e4)
    with pytest.raises(InputError, match=r"a gate's input is .* exact to 650"):
        decompose(lstm, None, torch.ones(3, 4), [0])


def test_printed_formula_fails_the_null_player() -> None:
    sigma, y2 = torch.sigmoid, torch.tensor(2.0)
    y1 = torch.tensor(0.0)
    printed = ((sigma(y1) - sigma(torch.tensor(0.0))) + (sigma(y2 + y1) - sigma(y1))) / 2
    right = ((sigma(y1) - sigma(torch.tensor(0.0))) + (sigma(y2 + y1) - sigma(y2))) / 2
    assert printed.abs() > 0.1 and right == 0


def test_shapley_is_the_mean_over_orders_and_complete() -> None:
    values = [torch.tensor(v, dtype=torch.float64) for v in (0.3, -1.2, 2.0, 0.7)]
    found = shapley(torch.tanh, values)
    orders = list(itertools.permutations(range(4)))
    for j in range(4):
        gains = []
        for order in orders:
            before = sum((values[i] for i in order[: order.index(j)]), torch.zeros(()).double())
            gains.append(torch.tanh(before + values[j]) - torch.tanh(before))
        assert abs(found[j] - sum(gains) / len(orders)) < EXACT
    assert abs(sum(found) - torch.tanh(sum(values, torch.zeros(()).double()))) < EXACT


def test_bias_rules_differ_only_in_who_owns_the_bias_product() -> None:
    lstm, decoder = lstm_of(0)
    x = torch.randn(1, 4).double()
    focus, murdoch = (decompose(lstm, decoder, x, [0], bias_rule=rule) for rule in BIAS_RULES)
    assert not torch.allclose(focus.relevant_hidden, murdoch.relevant_hidden)
    for rule in BIAS_RULES:  # out of focus the rules agree: nothing is relevant
        assert close(decompose(lstm, decoder, x, [], bias_rule=rule).relevant_hidden, 0.0)


@given(st.integers(0, 10**6), st.sampled_from([1.0, 5.0]))
@settings(max_examples=20, deadline=None)
def test_float32_is_complete_and_keeps_small_contributions(seed: int, scale: float) -> None:
    lstm, decoder = lstm_of(seed, 2, scale)
    lstm, decoder, x = lstm.float(), decoder.float(), torch.randn(7, 4)
    parts = decompose(lstm, decoder, x, [1, 2], dtype=torch.float32)
    with torch.no_grad():
        logits = decoder(lstm(x)[0])
    total = parts.relevant_logits + parts.irrelevant_logits + decoder.bias.detach()
    assert (total - logits).norm() / logits.norm() < 1e-5
    tiny = x.clone()
    tiny[1] *= 1e-6  # a word that does almost nothing: its share must keep its relative precision
    small, exact = (
        decompose(lstm, decoder, tiny, [1], dtype=d, bias_rule="murdoch").relevant_hidden[1]
        for d in (torch.float32, torch.float64)
    )
    assert ((small - exact).norm() / exact.norm()) < 1e-4


def test_several_foci_and_batches_are_rows_of_one() -> None:
    lstm, decoder = lstm_of(3, 2)
    x = torch.randn(2, 6, 4).double()
    rows = decompose(lstm, decoder, x[0], [[0], [1, 5], []])
    for row, focus in enumerate(([0], [1, 5], [])):
        assert close(rows.relevant_hidden[row], decompose(lstm, decoder, x[0], focus).relevant_hidden)
    batch = decompose(lstm, decoder, x, [[2], [3]])
    for sentence, focus in enumerate(([2], [3])):
        assert close(batch.relevant_hidden[sentence], decompose(lstm, decoder, x[sentence], focus).relevant_hidden)
    mask = torch.tensor([False, True, False, False, False, True])
    assert close(decompose(lstm, decoder, x[0], mask).relevant_hidden, rows.relevant_hidden[1])


def test_a_stack_of_models_is_each_of_them() -> None:
    pairs = [lstm_of(seed) for seed in (1, 2)]
    layers = [layers_of(lstm)[0] for lstm, _ in pairs]
    stacked = LSTMLayer(
        *(torch.stack([getattr(layer, name) for layer in layers]) for name in ("input", "recurrent", "bias"))
    )
    x = torch.randn(2, 3, 5, 4).double()  # (models, sentences, time, features)
    mask = torch.rand(2, 3, 5) < 0.5
    found = relevant_hidden([stacked], x, mask, totals([stacked], x))
    for m, (lstm, _) in enumerate(pairs):
        for s in range(3):
            assert close(found[m, s], decompose(lstm, None, x[m, s], mask[m, s]).relevant_hidden)


def test_torch_is_not_imported_with_kleene() -> None:
    import subprocess
    import sys

    code = "import sys, kleene; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
    assert kl.decompose is decompose


@pytest.mark.parametrize("focus", [1, slice(1, 2), torch.tensor(1), [slice(1, 2), 1], np.array([1])])
def test_one_position_in_many_forms(focus: object) -> None:
    lstm, decoder = lstm_of(0)
    x = torch.randn(6, 4)
    wanted = decompose(lstm, decoder, x, [1]).relevant_hidden
    found = decompose(lstm, decoder, x.numpy(), focus).relevant_hidden
    assert close(found if found.dim() == 2 else found[0], wanted) and close(
        found if found.dim() == 2 else found[1], wanted
    )


@pytest.mark.parametrize(
    ("focus", "message"),
    [
        ([9], "position 9 is outside the sentence; use 0 to 5"),
        ([-1], "position -1 is outside"),
        (["a"], "position 'a' is outside"),
        (None, "position None is outside"),
        (9, "position 9 is outside"),
        (2.0, "position 2.0 is outside"),
        (torch.ones(5, dtype=torch.bool), "mask of 5 positions for a sentence of 6"),
    ],
)
def test_bad_focus_is_refused_in_one_line(focus: object, message: str) -> None:
    lstm, decoder = lstm_of(0)
    with pytest.raises(InputError, match=message) as error:
        decompose(lstm, decoder, torch.randn(6, 4), focus)  # type: ignore[arg-type]
    assert "\n" not in str(error.value)


def test_bad_models_and_inputs_are_refused_in_one_line() -> None:
    lstm, decoder = lstm_of(0)
    x = torch.randn(6, 4)
    for model, message in (
        (nn.GRU(4, 5), "needs a torch.nn.LSTM, not a GRU"),
        ("lstm", "not a str"),
        (nn.LSTM(4, 5, bidirectional=True), "bidirectional"),
        (nn.LSTM(4, 5, proj_size=2), "proj_size"),
    ):
        with pytest.raises(NotSupported, match=message):
            decompose(model, None, x, [0])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="time × 4 features"):
        decompose(lstm, decoder, torch.randn(6, 3), [0])
    with pytest.raises(NotSupported, match=r"cannot use torch\.float16; use torch\.float64 or torch\.float32"):
        decompose(lstm, decoder, x, [0], dtype=torch.float16)
    for number in (float("nan"), float("inf")):
        with pytest.raises(InputError, match="vectors: some are not finite"):
            decompose(lstm, decoder, torch.full((6, 4), number), [0])
        with pytest.raises(InputError, match="decoder: has weights that are not finite"):
            decompose(lstm, torch.full((9, 5), number), x, [0])
    broken, _ = lstm_of(0)
    broken.bias_ih_l0.data[0] = float("nan")
    with pytest.raises(InputError, match="a gate's input is nan"):
        decompose(broken, decoder, x, [0])
    with pytest.raises(InputError, match="outputs × 5"):
        decompose(lstm, nn.Linear(6, 9), x, [0])
    with pytest.raises(InputError, match="empty sentence"):
        decompose(lstm, decoder, x[:0], [])
    with pytest.raises(InputError, match="focus, murdoch"):
        decompose(lstm, decoder, x, [0], bias_rule="other")
    with pytest.raises(InputError, match="without a decoder"):
        _ = decompose(lstm, None, x, [0]).logits
    with pytest.raises(InputError, match="3 foci for 2 sentences"):
        decompose(lstm, decoder, torch.randn(2, 6, 4), [[0], [1], [2]])


def test_a_focus_may_be_a_list_of_bools_or_numpy_numbers():
    assert masks_of([True, False, False], 3).tolist() == [True, False, False]
    assert masks_of(np.array([2]), 3).tolist() == [False, False, True]
    with pytest.raises(InputError, match="a mask of 2 positions for a sentence of 3"):
        masks_of([True, False], 3)
