"""Text works wherever tokens do, and one text is no list of inputs."""

from __future__ import annotations

import numpy as np
import pytest

import kleene as kl
from kleene.common.text import Text
from kleene.common.tokens import check_tokens, read_tokens


class Named(kl.Program):
    """Parity with an alphabet."""

    tokens = "01^"
    parity = kl.cat(2, token=lambda t: 0 if t == 2 else t)
    done = kl.cat(2, token=lambda t: t == 2)
    parity_left = kl.relative(parity, -1, default=0)
    done_left = kl.relative(done, -1, default=1)
    output, halt = parity, {done: 1}

    def step(z):
        if not z.done and z.done_left:
            z.parity, z.done = z.parity_left ^ z.parity, 1


TEXT, SYMBOLS, NUMBERS = "^101", ["^", "1", "0", "1"], [2, 1, 0, 1]
FORMS = [TEXT, SYMBOLS, NUMBERS]


@pytest.mark.parametrize("given", [*FORMS, (2, 1, 0, 1), np.array(NUMBERS), [2.0, True, 0, 1]])
def test_an_input_in_any_form_is_the_same_tokens(given):
    text = Text(("0", "1", "^"))
    read = read_tokens(given, "it", text, lambda one: text.encode(one, "it"))
    checked = check_tokens(read, "it", 3)
    assert checked == NUMBERS and {type(token) for token in checked} == {int}


@pytest.mark.parametrize(
    "given, said",
    [
        ([], "it: the input is empty"),
        ([0, 1, 2, 0], "it: the input has 4 tokens; the longest allowed has 3"),
        ([0, 3], "it: token 3 at position 1 is outside the alphabet 0 … 2"),
        ([0, -1], "it: token -1 at position 1"),
        ([0.5], "it: token 0.5 at position 0"),
        (["1"], "it: token '1' at position 0"),
        ([None], "it: token None at position 0"),
        ([True + 2], "it: token 3 at position 0"),
    ],
)
def test_what_is_no_token_is_named(given, said):
    with pytest.raises(kl.InputError, match=said):
        check_tokens(given, "it", 3, 3)


def test_every_verb_takes_text():
    net = kl.compile(Named)
    assert kl.verify(Named, net, inputs=FORMS).holds
    assert net.run_batch(FORMS) == [[0, 1, 1, 0]] * 3
    assert kl.minimal(Named, [TEXT]).seen == kl.minimal(Named, [NUMBERS]).seen
    assert str(kl.unspecified(Named, [TEXT])) == str(kl.unspecified(Named, [NUMBERS]))
    assert str(kl.landscape(Named, [TEXT])) == str(kl.landscape(Named, [NUMBERS]))
    assert len(kl.traces(Named, [TEXT])) == len(kl.traces(Named, [NUMBERS]))
    assert np.array_equal(kl.shapley(Named, "^10"), kl.shapley(Named, [2, 1, 0]))
    assert np.array_equal(kl.effects(Named, "^10"), kl.effects(Named, [2, 1, 0]))
    assert str(kl.causal_graph(Named, "^10")) == str(kl.causal_graph(Named, [2, 1, 0]))


def test_learning_takes_text():
    traced = kl.learn(Named, [TEXT], test=["^1"], steps=2)
    assert traced.run(TEXT) == traced.run(NUMBERS) and traced.run_batch([TEXT])[0].layers
    answered = kl.learn(Named, [TEXT], supervision="end-to-end", test=["^1"], steps=2, width=8, hidden=8)
    assert len(answered.run(NUMBERS)) == 4
    with pytest.raises(kl.InputError, match="token '\\^' at position 0"):  # it has no alphabet
        answered.run(TEXT)


@pytest.mark.parametrize("verb", ["run_batch", "verify", "minimal", "traces", "learn"])
def test_one_text_is_not_a_list_of_inputs(verb):
    net = kl.compile(Named)
    call = {
        "run_batch": lambda: net.run_batch(TEXT),
        "verify": lambda: kl.verify(Named, net, inputs=TEXT),
        "minimal": lambda: kl.minimal(Named, TEXT),
        "traces": lambda: kl.traces(Named, TEXT),
        "learn": lambda: kl.learn(Named, TEXT, steps=1),
    }[verb]
    with pytest.raises(kl.InputError, match=r"'\^101' is one input; give a list of inputs, such as \['\^101'\]"):
        call()
