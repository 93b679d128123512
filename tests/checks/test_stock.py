"""The certificate of stock models does not trust the compiler: bugs are planted in tensors, config and claim."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import numpy as np
import pytest
import torch

import kleene as kl
from kleene.checks.stock_checker import check_stock, main
from kleene.checks.stock_tensors import read_stock_folder
from stock_programs import FAMILIES, Counter, FirstEven, Maybe, Recall, Sums


@pytest.fixture(scope="module", params=FAMILIES)
def net(request: pytest.FixtureRequest) -> Any:
    return kl.compile(FirstEven, to=request.param, length=40)


def refused(net: Any) -> str:
    certificate = kl.certify(net)
    assert not certificate.holds
    return str(certificate.reasons[0])


def changed(net: Any, **parts: Any) -> Any:
    made = kl.StockModel(
        net.family,
        json.loads(json.dumps(net.config)),
        {name: tensor.clone() for name, tensor in net.tensors.items()},
        json.loads(json.dumps(net.description)),
        json.loads(json.dumps(net.claim)),
        list(net.symbols),
    )
    for name, value in parts.items():
        getattr(made, name).update(value)
    return made


ROTARY = {"rms_norm_eps": 1e-3, "hidden_act": "gelu", "rope_parameters": {"rope_type": "default", "rope_theta": 10.0}}
LEARNED = {"layer_norm_epsilon": 1e-3, "activation_function": "silu", "scale_attn_by_inverse_layer_idx": True}


def test_changes_of_the_config_are_refused(net: Any) -> None:
    for key, value in (LEARNED if net.family == "gpt2" else ROTARY).items():
        refused(changed(net, config={key: value}))
    assert "'logit_scale', which is not known" in refused(changed(net, config={"logit_scale": 2.0}))


def test_changes_of_the_claim_are_refused(net: Any) -> None:
    place = list(net.claim["place"])
    refused(changed(net, claim={"place": [place[1], place[0], *place[2:]]}))
    refused(changed(net, claim={"sink": net.claim["sink"] + 1}))
    refused(changed(net, claim={"heads": [[] for _ in net.claim["heads"]]}))
    refused(changed(net, claim={"length": 20_000}))


def test_another_program_is_refused(net: Any) -> None:
    made = changed(net)
    entry = made.description["updates"]["updates"][0]
    entry["table"] = [[value, (index + 1) % 7] for value, index in entry["table"]]
    assert "lemma units" in refused(made)
    made = changed(net)
    made.description["program"]["heads"]["first"]["prefer"] = "latest"
    assert "margin" in refused(made)
    made = changed(net)
    made.description["program"]["heads"]["first"]["among"] = []
    refused(made)


def test_a_wrong_program_is_told_apart_from_its_updates() -> None:
    net = kl.compile(Sums, to="llama", length=20)
    assert kl.certify(net, program=Sums).holds
    with pytest.raises(kl.InputError, match="of another program"):
        kl.certify(net, program=Recall)


@pytest.mark.parametrize("family", FAMILIES)
def test_none_comes_from_the_first_token_alone(family: Any) -> None:
    """A head that gives "none" at a position, or a default in its place, is refused."""
    net = kl.compile(Maybe, to=family, length=20)
    for change in ({"default": 1}, {"value": "after"}):
        made = changed(net)
        made.description["cycle"][1].get("program", made.description["program"])["heads"]["found"].update(change)
        made.description["program"]["heads"]["found"].update(change)
        refused(made)


def behaviour(net: Any, given: list[list[int]]) -> Any:
    """Every logit at the program's positions, and what is generated."""
    net._model = None
    model = net.model()
    with torch.no_grad():
        logits = [model(torch.tensor([[net.first, *tokens]])).logits[0, 1:] for tokens in given]
    return [row.argmax(dim=-1).tolist() for row in logits]


def single_changes(program: Any, family: Any, count: int, seed: int) -> tuple[int, int]:
    """Change one weight at a time: every change is refused, or changes nothing on the inputs tried."""
    net, chance = kl.compile(program, to=family, length=24), Random(seed)
    given = [[chance.randrange(program.spec.tokens) for _ in range(20)] for _ in range(8)]
    right, caught, harmless = behaviour(net, given), 0, 0
    names = sorted(net.tensors)
    while caught + harmless < count:
        made = changed(net)
        tensor = made.tensors[chance.choice(names)].view(-1)
        nonzero = torch.nonzero(tensor).flatten().tolist()
        place = chance.choice(nonzero) if nonzero and chance.random() < 0.7 else chance.randrange(len(tensor))
        old = float(tensor[place])
        tensor[place] = chance.choice([0.0, -old, old + 1, old * 1.01, old + 2.0**-10, old + chance.gauss(0, 64)])
        if float(tensor[place]) == old:
            continue
        if not kl.certify(made).holds:
            caught += 1
            continue
        assert behaviour(made, given) == right, "a change was certified, and changed an answer"
        harmless += 1
    return caught, harmless


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("program", [FirstEven, Counter], ids=lambda program: program.__name__)
def test_single_changes_are_refused_or_harmless(program: Any, family: Any) -> None:
    caught, harmless = single_changes(program, family, 25, seed=1)
    assert caught >= 8 and caught + harmless == 25


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_two_thousand_single_changes(family: Any) -> None:
    caught, harmless = map(sum, zip(*(single_changes(p, family, 170, seed=2) for p in (FirstEven, Recall, Counter))))
    assert caught + harmless == 510 and caught > 350


# --- the folder, by itself ---


def test_the_folder_proves_itself(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    net = kl.compile(Sums, to="qwen3", length=30)
    net.save(tmp_path / "sums", certificate=kl.certify(net))
    assert main([str(tmp_path / "sums")]) == 0
    assert "proved: on every sequence of at most 30 tokens" in capsys.readouterr().out
    card = (tmp_path / "sums" / "README.md").read_text(encoding="utf-8")
    assert "On every sequence of at most 30 tokens" in card and "Qwen3ForCausalLM" in card
    for name, key, value in (
        ("generation_config.json", "do_sample", True),
        ("generation_config.json", "eos_token_id", 1),
        ("generation_config.json", "num_beams", 2),
        ("config.json", "pad_token_id", 1000),
        ("tokenizer.json", "model", {"type": "WordLevel", "vocab": {"1": 0, "0": 1}}),
        ("tokenizer.json", "normalizer", {"type": "Lowercase"}),
        ("tokenizer.json", "pre_tokenizer", {"type": "Whitespace"}),
    ):
        path = tmp_path / "sums" / name
        text = path.read_text(encoding="utf-8")
        path.write_text(json.dumps({**json.loads(text), key: value}), encoding="utf-8")
        assert "lemma files" in (check_stock(read_stock_folder(tmp_path / "sums")).reason or "")
        path.write_text(text, encoding="utf-8")
    assert main([str(tmp_path / "nothing")]) == 2


def test_the_numbers_of_the_certificate() -> None:
    lemmas = {lemma.name: lemma.numbers for lemma in kl.certify(kl.compile(Sums, to="llama", length=500)).lemmas}
    assert lemmas["output"]["logits"] == [-3.0, -1.0, 1.0] and lemmas["output"]["margin"] == 2
    assert lemmas["selection"]["margin"] > lemmas["selection"]["needed"] > np.log(500)
    assert lemmas["norm"] == {"norm": "RMS", "width": 24, "constant": 1}


def test_another_token_for_the_end_is_refused():
    net = kl.compile(kl.library.parity_scratchpad(3), to="gpt2")
    assert kl.certify(net).holds
    net.program["stop"] = 0
    assert "another token for the end" in str(kl.certify(net))
