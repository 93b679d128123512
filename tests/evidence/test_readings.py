"""Networks on one word: parts add up, margins agree with the network, patterns are attention's."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import kleene as kl
from kleene.evidence.methods import PAIRS, TOKENS, Reading
from kleene.evidence.parted import RULES
from kleene.networks.trained.stacked_transformer import Shape, StackedTransformer
from kleene.truth.program_models import drawn_program, exact_effects, output_effects
from kleene.truth.program_tables import Tables
from kleene.truth.random_programs import Size, superposed

PROGRAM, _ = drawn_program(0, 1, Size(layers=2), 4)
WORD = (2, 0, 1, 2)


def small():
    torch.manual_seed(0)
    net = StackedTransformer(Shape(3, 3, 4, 2, 3, 4)).double()
    for name, parameter in net.named_parameters():
        parameter.requires_grad_(False)
        if "bias" in name:
            parameter.normal_()
    return net


def networks():
    compiled = kl.compile(PROGRAM).double()
    lstm = kl.compile(kl.regex("(a|b)*bc", "abc"), to="lstm", dtype="float64")
    for parameter in lstm.parameters():
        parameter.requires_grad_(False)
    return {
        "lstm": lstm,
        "compiled": compiled,
        "superposed": superposed(compiled, np.random.default_rng(0), 4)[0],
        "small": small(),
    }


NETWORKS = networks()


@pytest.mark.parametrize("kind", NETWORKS)
def test_what_a_network_says(kind):
    """The output of a word is the network's own; for a transformer the lead of the class that it gives."""
    network = NETWORKS[kind]
    reading = Reading.of(network, WORD)
    words = reading.drawn(0, 1, 2, 3)
    found = reading.outputs_of(words)
    if kind == "lstm":
        want = network.accepts_batch(["".join("abc"[c] for c in word) for word in words])
    else:
        tokens = torch.from_numpy(words)
        logits = network(tokens[None])[0] if kind == "small" else network(tokens)
        want = (logits[:, -1].argmax(-1) == network_answer(network, kind)).numpy()
    assert ((found > 0) == want).all() and want.any() and not want.all()


def network_answer(network, kind):
    own = torch.tensor([WORD])
    return (network(own[None])[0] if kind == "small" else network(own))[0, -1].argmax()


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "jumelet"])  # which gives nobody something
def test_parts_add_up(kind, rule):
    """All symbols and none; a focus on all differs from the output by what the biases give alone."""
    reading = Reading.of(NETWORKS[kind], WORD)
    masks = torch.stack([torch.zeros(4, dtype=torch.bool), torch.ones(4, dtype=torch.bool)])
    hidden, output = reading.parts_of(masks, rule)
    assert output[0] == 0 and hidden[0].abs().max() == 0
    assert hidden.shape[1] == len(reading) + reading.first and torch.isfinite(output).all()
    assert hidden[1].abs().max() > 1e-3
    if kind == "small":  # a network whose biases are zero and that reads no positions gives all to its symbols
        net = small()
        for name, parameter in net.named_parameters():
            if "bias" in name or "position" in name:
                parameter.zero_()
        bare = Reading.of(net, WORD)
        assert float(bare.parts_of(masks[1:], rule)[1]) == pytest.approx(float(bare.outputs_of(np.array([WORD]))[0]))


@pytest.mark.parametrize("kind", ["compiled", "superposed", "small"])
def test_patterns_are_attention(kind):
    reading = Reading.of(NETWORKS[kind], WORD)
    for pattern in reading.patterns:
        assert pattern.shape == (3, 4, 4) and pattern.min() >= 0
        sums = pattern.sum(-1)
        assert (sums <= 1 + 1e-12).all()  # the rest is the null key's
        if kind == "small":
            assert torch.allclose(sums, torch.ones_like(sums))
    found = TOKENS["attention rollout"](reading, np.random.default_rng(0))
    assert found.sum() == pytest.approx(1) and found.min() >= 0
    if kind == "small":  # by hand: each layer keeps one half
        flow = np.eye(4)
        for pattern in reading.patterns:
            flow = (pattern.mean(0).numpy() + np.eye(4)) / 2 @ flow
        assert np.allclose(found, flow[-1], atol=1e-12)


def test_a_network_without_attention_has_no_rollout():
    assert TOKENS["attention rollout"](Reading.of(NETWORKS["lstm"], WORD), np.random.default_rng(0)) is None


@pytest.mark.parametrize("kind", NETWORKS)
def test_every_method_runs(kind):
    reading = Reading.of(NETWORKS[kind], WORD)
    for methods, shape in ((TOKENS, (4,)), (PAIRS, (4, 4))):
        for name, method in methods.items():
            found = method(reading, np.random.default_rng(0))
            assert found is None or found.shape == shape, name
            if shape == (4, 4):
                assert np.allclose(found, found.T, equal_nan=True), name


@pytest.mark.parametrize("kind", NETWORKS)
def test_other_libraries_agree(kind):
    """What several libraries compute is one: integrated gradients to the end, Shapley values of the same game."""
    pytest.importorskip("captum")
    pytest.importorskip("shapiq")
    from kleene.evidence.installed_methods import _game
    from kleene.truth.shapley import shapley

    reading, rng = Reading.of(NETWORKS[kind], WORD), np.random.default_rng
    ours, theirs = (
        TOKENS[f"{name}"](reading, rng(0))
        for name in ("integrated gradients, mean symbol", "captum: integrated gradients")
    )
    assert np.allclose(ours, theirs, atol=1e-9)
    drawn = rng(3)
    drawn.integers(2**31)  # what seeds the approximation
    game = _game(reading, drawn)

    class Coalitions:
        """The game as words of 0 and 1; who is out of a coalition is 0."""

        alphabet = (0, 1)

        def accepts_batch(self, words):
            return game(np.array(words, dtype=bool))

    exact = shapley(Coalitions(), (1, 1, 1, 1), distribution={0: 1.0, 1: 0.0})
    found = TOKENS["shapiq: kernel shap"](reading, rng(3))  # all 16 coalitions are in its budget
    assert np.allclose(found, exact, atol=1e-8)


def test_effects_of_a_program_are_those_of_its_interpreter():
    tables = Tables.of([PROGRAM], 4)
    found = output_effects(tables, list(WORD))
    assert found["output"] == PROGRAM.run(list(WORD))[-1]
    want = exact_effects(PROGRAM, list(WORD))
    assert np.allclose(found["shapley"], want["shapley"], atol=1e-12)
    assert np.allclose(found["interactions"], want["interactions"], atol=1e-12)
