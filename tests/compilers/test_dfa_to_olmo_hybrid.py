"""Automata in an unmodified OLMo Hybrid: words, caches that close, files, exact numbers, and what is refused."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

import kleene as kl
from kleene.common.alphabet import all_words
from kleene.library.tomita import language
from kleene.machines.automata.classes import solvable
from random_machines import A5, bounded_dyck, counter, random_dfa

pytest.importorskip("transformers.models.olmo_hybrid")

S3 = kl.DFA([[1, 2], [0, 3], [4, 0], [5, 1], [2, 5], [3, 4]], [0], "ab")
LANGUAGES = {
    **{f"tomita {n}": language(n) for n in range(1, 8)},
    "ends in abb": kl.regex("(a|b)*abb", alphabet="ab"),
    "dyck 2": bounded_dyck(2),
    "mod 4": counter(4),
    "mod 6": counter(6),
    "S3": S3,
    "nothing": kl.DFA([[0]], [], "a"),
    "everything": kl.DFA([[0, 0]], [0], ["left", "right"]),
}


QUICK = ("tomita 6", "ends in abb", "mod 4", "S3", "nothing", "everything")


@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(n, marks=pytest.mark.slow) for n in LANGUAGES if n not in QUICK)]
)
def test_all_short_words_and_every_length(name):
    dfa = LANGUAGES[name]
    net = kl.compile(dfa, to="olmo_hybrid")
    words = list(all_words(dfa.alphabet, 6))
    assert (net.accepts_batch(words) == dfa.accepts_batch(words)).all()
    certificate = kl.certify(net)
    assert certificate.holds and certificate.max_length is None, certificate
    assert kl.decompile(net).equivalent(dfa) and kl.verify(dfa, net).holds


@pytest.mark.parametrize("count", [6, pytest.param(100, marks=pytest.mark.slow)])
def test_random_automata(count):
    rng, held = random.Random(1), 0
    for _ in range(count):
        dfa = random_dfa(rng, 4, 2)
        moduli = [int(n) for n in solvable(dfa).witness if isinstance(n, int)]
        if not solvable(dfa) or any(n % 5 == 0 for n in moduli):
            continue
        held += 1
        net = kl.compile(dfa, to="olmo_hybrid")
        words = list(all_words(dfa.alphabet, 5))
        assert (net.accepts_batch(words) == dfa.accepts_batch(words)).all()
        assert kl.certify(net).holds
    assert held > 0.6 * count


def test_other_groups_are_refused_with_the_reason():
    with pytest.raises(kl.NotSupported, match=r"counts modulo 5.*modulo 2 and 3 only.*Siems et al\., 2025"):
        kl.compile(counter(5), to="olmo_hybrid")
    with pytest.raises(kl.NotSupported, match=r"a group of 60 elements.*Siems"):
        kl.compile(A5, to="olmo_hybrid")


@pytest.mark.parametrize("dfa", [counter(2), counter(3)], ids=["mod 2", "mod 3"])
def test_states_are_exact_however_long_the_word_is(dfa):
    net = kl.compile(dfa, to="olmo_hybrid")
    word = "".join(random.Random(0).choice(dfa.alphabet) for _ in range(3000))
    assert net.accepts(word) == dfa.accepts(word)
    tokens = torch.tensor([[net.start, *(dfa.alphabet.index(letter) for letter in word)]])
    with torch.no_grad():
        cache = net.model(tokens, use_cache=True).past_key_values
    for layer in net.recurrent_layers():  # the parallel form rounds nothing
        state = cache.get_recurrent_state(layer)
        assert (
            torch.equal(state, state.round()) and float(state.abs().max()) <= 1024
        )  # the parallel form rounds nothing


def test_the_folder_is_one_of_transformers(tmp_path: Path):
    from transformers import AutoModelForCausalLM

    net = kl.compile(S3, to="olmo_hybrid")
    net.save(tmp_path / "net")
    stock = AutoModelForCausalLM.from_pretrained(tmp_path / "net")
    assert type(stock).__name__ == "OlmoHybridForCausalLM"
    for word in all_words("ab", 4):
        tokens = torch.tensor([[2, *("ab".index(symbol) for symbol in word)]])
        with torch.no_grad():
            logits = stock(tokens).logits[0, -1]
        assert bool(logits[4] > logits[3]) == S3.accepts(word)
    again = kl.load(tmp_path / "net", kl.OlmoHybridAcceptor)
    assert kl.verify(again, net).holds and kl.verify(again).holds and kl.verify(again, kl.compile(S3, to="lstm")).holds
    (tmp_path / "net" / "kleene.json").write_text('{"kind": "olmo_hybrid", "version": 1, "alphabet": [1], "about": {}}')
    with pytest.raises(kl.FileError, match="an 'alphabet' of symbols"):
        kl.load(tmp_path / "net")


def test_planted_bugs_are_found():
    changes = {
        "swap": lambda model: model.model.layers[1].linear_attn.b_proj.weight.zero_(),  # it does not reflect
        "decay": lambda model: model.model.layers[1].linear_attn.dt_bias.fill_(-1.0),  # it forgets slowly
        "attention": lambda model: model.model.layers[-1].self_attn.v_proj.weight.fill_(1.0),
        "answer": lambda model: model.lm_head.weight.neg_(),
        "not a number": lambda model: model.model.layers[-1].self_attn.q_norm.weight.fill_(float("nan")),
    }
    for change in changes.values():
        net = kl.compile(counter(2), to="olmo_hybrid")
        with torch.no_grad():
            change(net.model)
        assert not kl.certify(net, limit=40).holds
    assert not kl.certify(kl.compile(S3, to="olmo_hybrid"), machine=S3.complement()).holds


def test_a_key_that_is_kept_is_seen():
    net = kl.compile(counter(2), to="olmo_hybrid")
    with torch.no_grad():
        net.model.model.layers[-1].self_attn.k_norm.weight.fill_(1.0)
        net.model.model.layers[-1].self_attn.k_proj.weight.fill_(1.0)
    assert "its cache has no end" in str(kl.certify(net))


def test_two_words_with_one_cache_and_two_answers_are_two_states():
    dfa = kl.regex("(b|ab*a)*", alphabet="ab")
    net = kl.compile(dfa, to="olmo_hybrid")
    with torch.no_grad():
        net.model.model.embed_tokens.weight.view(-1)[19] = 1e30
    assert not net.accepts("b")
    assert "on b the machine accepts" in str(kl.certify(net))
