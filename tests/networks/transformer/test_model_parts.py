"""net(x) on a tensor, and the parts of a network that hooks find by name."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

import kleene as kl
from kleene.errors import InputError, KleeneError


def test_a_call_halts_by_itself():
    """Sequences of a batch halt at different layers; each has the outputs of `run`."""
    net = kl.compile(kl.library.addition)
    batch = [net.encode("34+58"), net.encode("999+1")]
    longest = max(map(len, batch))
    tokens = torch.tensor([[*row, *[0] * (longest - len(row))] for row in batch])
    mask = torch.tensor([[k < len(row) for k in range(longest)] for row in batch])
    outputs = net(tokens, mask).argmax(dim=-1)
    for row, found in zip(batch, outputs.tolist()):
        assert found[: len(row)] == net.run(row)
    assert net(torch.tensor([batch[0]])).shape == (1, 7, 10)


def test_a_call_with_something_else():
    net = kl.compile(kl.library.parity_relative)
    with pytest.raises(InputError, match=r"takes a tensor of tokens \(batch, position\); net.run takes lists"):
        net([2, 1, 0])


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (torch.zeros(1, 4), r"of shape \(1, 4\) and float32"),
        (torch.zeros(4, dtype=torch.int64), r"of shape \(4,\) and int64"),
        (torch.full((1, 4), 7), "tokens are 0 … 1"),
        (torch.zeros(1, 9, dtype=torch.int64), "9 tokens; it has 5 positions"),
    ],
)
def test_a_wrong_tensor_is_named(tokens, said):
    net = kl.compile(kl.library.parity_absolute(5))
    with pytest.raises(InputError, match=said):
        net(tokens)
    assert net(torch.zeros(1, 5, dtype=torch.int32)).shape[:2] == (1, 5)


def test_parts_are_found_by_name():
    net = kl.compile(kl.library.parity_relative)
    names = dict(net.named_modules())
    assert {"blocks.0", "blocks.0.attention", "blocks.0.attention.scores", "blocks.0.mlp"} <= names.keys()
    assert not any("attention" in name or "mlp" in name for name in net.state_dict())  # the weights keep their names
    seen = []
    hook = names["blocks.0.attention"].register_forward_hook(lambda part, given, made: seen.append(made))
    plain = net.run([2, 1, 0, 1])  # runs dense while somebody looks
    assert len(seen) == plain.layers == 3
    segment = net.layout["parity_left"]
    assert seen[0][0, 2, segment.slice].tolist() == [0, 1]  # what the head read: the 1 before
    hook.remove()
    assert not net.hooked() and net.run([2, 1, 0, 1]) == plain


def test_a_hook_can_patch():
    """Flip what the head reads at one position, and the parity flips from there on."""
    net = kl.compile(kl.library.parity_relative)
    segment = net.layout["parity_left"]

    def flip(part, given, made):
        made = made.clone()
        made[0, 1, segment.slice] = made[0, 1, segment.slice].flip(0)
        return made

    with net.blocks[0].attention.register_forward_hook(flip):
        assert net.run([2, 1, 0, 1]) == [0, 0, 0, 1]
    assert net.run([2, 1, 0, 1]) == [0, 1, 1, 0]


@pytest.mark.parametrize(
    "made", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))], ids=["copied", "pickled"]
)
def test_a_copy_has_parts_of_its_own(made):
    net = kl.compile(kl.library.parity_relative)
    other = made(net)
    with torch.no_grad():
        net.blocks[0].out2.zero_()
    assert other(torch.tensor([[2, 1, 0, 1]])).argmax(dim=-1).tolist() == [[0, 1, 1, 0]]
    assert kl.certify(other).holds


def test_half_is_refused():
    net = kl.compile(kl.library.parity_relative).half()
    with pytest.raises(KleeneError, match="float16"):
        net.run([2, 1, 0])
    with pytest.raises(KleeneError, match="float16"):
        net(torch.tensor([[2, 1, 0]]))


def test_hugging_face_gives_streams_and_attention():
    from kleene.networks.transformer.hugging_face import as_model

    net = kl.compile(kl.library.parity_relative)
    made = as_model(net)(torch.tensor([[2, 1, 0]]), output_hidden_states=True, output_attentions=True)
    assert len(made.hidden_states) == int(made.layers[0]) + 1 == len(made.attentions) + 1
    assert torch.equal(made.hidden_states[-1], made.last_hidden_state)
    assert made.attentions[0].shape == (1, 2, 3, 4) and torch.equal(made.attentions[0].sum(-1), torch.ones(1, 2, 3))
    assert made.attentions[0][0, 0, 2].tolist() == [0, 1, 0, 0]  # the third position looks one to the left
    plain = as_model(net)(torch.tensor([[2, 1, 0]]))
    assert plain.hidden_states is None and plain.attentions is None
