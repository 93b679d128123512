"""Star-free languages in an unmodified Mamba: words, caches that close, files, and what is refused."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import kleene as kl
from kleene.common.alphabet import all_words
from kleene.library.tomita import language
from random_machines import bounded_dyck, random_dfa

pytest.importorskip("transformers")

LANGUAGES = {
    "ends in abb": kl.regex("(a|b)*abb", alphabet="ab"),
    "tomita 1": language(1),
    "tomita 2": language(2),
    "tomita 4": language(4),
    "dyck 2": bounded_dyck(2),
}


@pytest.mark.parametrize("name", LANGUAGES)
def test_all_short_words_and_every_length(name):
    dfa = LANGUAGES[name]
    net = kl.compile(dfa, to="mamba")
    words = list(all_words(dfa.alphabet, 6))
    assert (net.accepts_batch(words) == dfa.accepts_batch(words)).all()
    certificate = kl.certify(net)
    assert certificate.holds and certificate.max_length is None, certificate
    assert kl.decompile(net).equivalent(dfa) and kl.verify(dfa, net).holds


def test_random_automata():
    rng, held = random.Random(1), 0
    for _ in range(25):
        dfa = random_dfa(rng, 5, 2)
        if not dfa.is_star_free:
            with pytest.raises(kl.NotSupported, match=r"not star-free .* exp\(ΔA\) is positive: Sarrof"):
                kl.compile(dfa, to="mamba")
            continue
        held += 1
        net = kl.compile(dfa, to="mamba")
        words = list(all_words(dfa.alphabet, 5))
        assert (net.accepts_batch(words) == dfa.accepts_batch(words)).all()
    assert held > 8


def test_a_long_word_rounds_no_further():
    dfa = LANGUAGES["ends in abb"]
    net = kl.compile(dfa, to="mamba")
    rng = random.Random(0)
    for ending in ("abb", "ab"):
        word = "".join(rng.choice("ab") for _ in range(2000)) + ending
        assert net.accepts(word) == dfa.accepts(word)


def test_the_folder_is_one_of_transformers(tmp_path: Path):
    from transformers import AutoModelForCausalLM

    dfa = LANGUAGES["tomita 2"]
    net = kl.compile(dfa, to="mamba")
    net.save(tmp_path / "net")
    stock = AutoModelForCausalLM.from_pretrained(tmp_path / "net")
    assert type(stock).__name__ == "MambaForCausalLM"
    start = len(dfa.alphabet)
    for word in all_words(dfa.alphabet, 3):
        tokens = torch.tensor([[start, *(dfa.alphabet.index(symbol) for symbol in word)]])
        with torch.no_grad():
            logits = stock(tokens).logits[0, -1]
        assert bool(logits[start + 2] > logits[start + 1]) == dfa.accepts(word)
    again = kl.load(tmp_path / "net", kl.MambaAcceptor)
    assert kl.verify(again, net).holds and kl.verify(again).holds
    (tmp_path / "net" / "kleene.json").write_text('{"kind": "mamba", "version": 1, "alphabet": ["a"], "about": {}}')
    with pytest.raises(kl.FileError, match="not 3 more"):
        kl.load(tmp_path / "net")


def test_planted_bugs_are_found():
    dfa = LANGUAGES["ends in abb"]
    net = kl.compile(dfa, to="mamba")
    mixer = net.model.backbone.layers[0].mixer
    with torch.no_grad():
        mixer.out_proj.weight[:, 1] = mixer.out_proj.weight[:, 0]
    assert not kl.certify(net).holds
    net = kl.compile(dfa, to="mamba")
    with torch.no_grad():
        net.model.backbone.layers[0].mixer.dt_proj.bias.fill_(0.0)  # it forgets where no rule fires
    assert not kl.certify(net, limit=200).holds
    assert not kl.certify(kl.compile(dfa, to="mamba"), machine=dfa.complement()).holds


def test_two_words_with_one_cache_and_two_answers_are_two_states():
    """The logits depend on the last symbol, too, not on the cache after it alone."""
    dfa = kl.regex("(a|b)*bb(a|b)*", alphabet="ab")
    net = kl.compile(dfa, to="mamba")
    with torch.no_grad():
        net.model.backbone.layers[0].mixer.dt_proj.weight.view(-1)[1] = 2.0
    assert not net.accepts("bbab")
    assert "on bbab the machine accepts" in str(kl.certify(net))


@pytest.mark.parametrize(("changed", "says"), [("gone", "missing keys"), ("more", "unexpected keys")])
def test_a_folder_with_other_weights_is_refused(changed, says, tmp_path: Path):
    """transformers would make up what is missing, at random."""
    kl.compile(LANGUAGES["tomita 2"], to="mamba").save(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    if changed == "gone":
        del tensors["backbone.layers.0.mixer.in_proj.weight"]
    else:
        tensors["backbone.layers.0.mixer.more"] = torch.zeros(4)
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(kl.FileError, match=says):
        kl.load(tmp_path)
