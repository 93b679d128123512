"""Stock models in other tools: the circuit names every head and neuron; TransformerLens runs the same weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import kleene as kl
from stock_programs import FAMILIES, Recall


@pytest.mark.parametrize("family", FAMILIES)
def test_the_circuit_names_every_head_and_neuron_that_writes(family: Any) -> None:
    net = kl.compile(Recall, to=family, length=20)
    circuit = kl.export(net, "circuit")
    assert [head["name"] for layer in circuit["layers"] for head in layer["heads"]] == ["left", "found"]
    names = [entry["name"] for entry in circuit["residual"]]
    assert len(names) == net.sizes.residual and "result=3" in names and "first token" in names
    for layer in circuit["layers"]:
        for head in layer["heads"]:
            held = [names[dim].lstrip("−").split(" or ") for dim in head["writes"]]  # heads of other layers share
            assert held and all(head["name"] in {name.partition("=")[0] for name in part} for part in held)
        for neuron in layer["neurons"]:
            assert neuron["writes"] and neuron["for"]
        down = {"gpt2": "transformer.h.{}.mlp.c_proj.weight"}.get(family, "model.layers.{}.mlp.down_proj.weight")
        tensor = net.tensors[down.format(layer["layer"])]
        columns = tensor.T if family == "gpt2" else tensor
        assert int(columns.any(dim=0).sum()) == len(layer["neurons"])


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_the_bridge_of_transformer_lens_runs_it(family: Any, tmp_path: Any) -> None:
    bridge = pytest.importorskip("transformer_lens.model_bridge").TransformerBridge
    net = kl.compile(Recall, to=family, length=20)
    net.save(tmp_path / "recall")
    ids = torch.tensor([[net.first, 1, 2, 3, 1]])
    logits, cache = bridge.boot_transformers(str(tmp_path / "recall"), device="cpu").run_with_cache(ids)
    assert torch.equal(logits, net.model()(ids).logits) and int(logits[0, -1].argmax()) == 2
    pattern = cache["blocks.1.attn.hook_pattern"][0, 0, -1]
    assert pattern.argmax() == 2 and float(pattern.max()) == 1  # what followed the earlier 1


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_nnsight_traces_it(family: Any) -> None:
    """What nnsight shows of the stream is ±1, and the logits are those of the model."""
    nnsight = pytest.importorskip("nnsight")
    net = kl.compile(Recall, to=family, length=20)
    plain = net.model()
    model, ids = nnsight.NNsight(plain), torch.tensor([[net.first, 1, 2, 3, 1]])
    layers = model.transformer.h if family == "gpt2" else model.model.layers
    with model.trace(ids):
        stream = layers[0].output.save()
        logits = model.output.logits.save()
    shown = stream[0] if isinstance(stream, tuple) else stream
    assert torch.equal(shown.abs(), torch.ones_like(shown))
    assert torch.equal(logits, plain(ids).logits) and int(logits[0, -1].argmax()) == 2
