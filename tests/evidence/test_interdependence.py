"""Interdependence: all pairs at once are each pair by itself; two sets; float32; refusals."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import kleene as kl
from kleene.errors import InputError, NotSupported
from kleene.evidence.decomposition import BIAS_RULES, decompose, layers_of, two_streams
from kleene.evidence.interdependence import READS, between, ratio, triangle


def model(seed: int, layers: int = 1, scale: float = 2.0) -> tuple[nn.LSTM, nn.Linear]:
    torch.manual_seed(seed)
    lstm, decoder = nn.LSTM(4, 5, layers).double(), nn.Linear(5, 9).double()
    with torch.no_grad():
        for parameter in lstm.parameters():
            parameter.mul_(scale)
    return lstm, decoder


@given(
    st.integers(0, 10**6),
    st.integers(1, 2),
    st.lists(st.integers(1, 6), min_size=1, max_size=4),
    st.sampled_from(READS),
    st.sampled_from(BIAS_RULES),
)
@settings(max_examples=25, deadline=None)
def test_all_pairs_are_the_definition(seed: int, layers: int, lengths: list[int], read: str, rule: str) -> None:
    """Against ‖v_AB − v_A − v_B‖ / ‖v_AB‖ written out with the two-stream oracle's logits."""
    lstm, decoder = model(seed, layers)
    sentences = [torch.randn(n, 4).double() for n in lengths]
    found = kl.interdependence(lstm, decoder, sentences, read=read, bias_rule=rule)
    for x, matrix in zip(sentences, found.matrices):
        n = len(x)
        assert torch.equal(matrix, matrix.T) and torch.equal(matrix.diagonal(), torch.zeros(n).double())
        for l, r in itertools.combinations(range(n), 2):
            masks = torch.zeros(3, n, dtype=torch.bool)
            masks[0, l] = masks[1, r] = masks[2, l] = masks[2, r] = True
            hidden = two_streams(layers_of(lstm), x, masks, rule)[0][:, r if read == "right" else n - 1]
            one, other, both = hidden @ decoder.weight.detach().T
            assert abs(float((both - one - other).norm() / both.norm()) - float(matrix[l, r])) < 1e-11


@given(st.integers(0, 10**6), st.data())
@settings(max_examples=15, deadline=None)
def test_two_sets_of_words(seed: int, data: st.DataObject) -> None:
    lstm, decoder = model(seed, 2)
    x = torch.randn(6, 4).double()
    order = data.draw(st.permutations(range(6)))
    cut = data.draw(st.integers(1, 4))
    first, second = order[:cut], order[cut : cut + data.draw(st.integers(1, 5 - cut))]
    one, other, both = (
        decompose(lstm, decoder, x, focus).relevant_logits[-1] for focus in (first, second, first + second)
    )
    wanted = float((both - one - other).norm() / both.norm())
    assert abs(between(lstm, decoder, x, first, second, read="end") - wanted) < 1e-11
    assert abs(between(lstm, decoder, x, second, first, read="end") - wanted) < 1e-11


def test_words_of_one_sentence_do_not_touch_another() -> None:
    lstm, decoder = model(0)
    sentences = [torch.randn(n, 4).double() for n in (7, 3, 5, 7, 1)]
    together = kl.interdependence(lstm, decoder, sentences)
    for number, sentence in enumerate(sentences):
        alone = kl.interdependence(lstm, decoder, [sentence])[0]
        assert (together[number] - alone).abs().max() < 1e-14
    assert len(list(together.pairs())) == 21 + 3 + 10 + 21


def test_float32_reports_its_noise() -> None:
    lstm, decoder = model(1)
    sentences = [torch.randn(9, 4) for _ in range(3)]
    rough, exact = (
        kl.interdependence(lstm.to(d), decoder.to(d), [x.to(d) for x in sentences], dtype=d)
        for d in (torch.float32, torch.float64)
    )
    error = max(float((a.double() - b).abs().max()) for a, b in zip(rough.matrices, exact.matrices))
    assert exact.noise is None
    assert rough.noise is not None and error / 100 < rough.noise <= error + 1e-7
    far = kl.interdependence(lstm.float(), decoder.float(), sentences, dtype=torch.float32, read="end")
    assert far.noise is not None and 0 < far.noise < 1e-4


def test_qr_keeps_norms() -> None:
    weight = torch.randn(40, 6).double()
    d = torch.randn(6).double()
    r = triangle(weight)
    assert r is not None and r.shape == (6, 6)
    assert abs((weight @ d).norm() - (r @ d).norm()) < 1e-12


def test_a_linear_cell_has_no_interdependence() -> None:
    """With tiny inputs the LSTM is nearly linear, and words nearly independent."""
    lstm, decoder = model(3, scale=1.0)
    x = torch.randn(5, 4).double()
    values = [
        float(kl.interdependence(lstm, decoder, [x * size], bias_rule="murdoch")[0].max()) for size in (1.0, 1e-3)
    ]
    assert values[1] < 0.01 * values[0]


def test_refusals_are_one_line() -> None:
    lstm, decoder = model(0)
    x = torch.randn(4, 4).double()
    for call, kind, message in (
        (lambda: kl.interdependence(lstm, decoder, [x], read="left"), InputError, "right, end"),
        (lambda: kl.interdependence(nn.GRU(4, 5), decoder, [x]), NotSupported, "not a GRU"),
        (lambda: kl.interdependence(lstm, decoder, [x[:0]]), InputError, "empty sentence"),
        (lambda: between(lstm, decoder, x, [], [1]), InputError, "empty set"),
        (lambda: between(lstm, decoder, x, [1], [1, 2]), InputError, "word 1 is in both"),
        (lambda: between(lstm, decoder, x, [1], [7]), InputError, "position 7 is outside"),
        (lambda: between(lstm, decoder, x, [1], [2], read=9), InputError, "from 0 to 3"),
    ):
        with pytest.raises(kind, match=message) as error:
            call()
        assert "\n" not in str(error.value)


def test_what_is_not_a_number_is_not_independent():
    lstm, decoder = torch.nn.LSTM(2, 3, batch_first=True), torch.nn.Linear(3, 4)
    with torch.no_grad():
        lstm.weight_hh_l0[0, 0] = torch.nan
    with pytest.raises(InputError, match="a gate's input is nan"):
        kl.interdependence(lstm, decoder, [torch.randn(4, 2)])
    assert ratio(torch.full((3,), torch.nan), torch.zeros(3), None).isnan()


def test_long_sentences_are_read_in_blocks_of_left_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same numbers, with no more pairs at a time than asked for: so memory does not grow with the pairs."""
    from kleene.evidence import interdependence as module

    lstm, decoder = model(4, 2)
    sentences = [torch.randn(n, 4).double() for n in (13, 9)]
    whole = kl.interdependence(lstm, decoder, sentences, read="end")
    monkeypatch.setattr(module, "KEPT", 40)
    most = []
    step = module.Stream.step
    monkeypatch.setattr(module.Stream, "step", lambda self, r, *rest: most.append(r.shape[1]) or step(self, r, *rest))
    parts = kl.interdependence(lstm, decoder, sentences, read="end")
    assert all(torch.equal(a, b) or (a - b).abs().max() < 1e-12 for a, b in zip(whole.matrices, parts.matrices))
    assert max(most) <= 40 + 13
