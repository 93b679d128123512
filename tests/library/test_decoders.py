"""The library's decoders do what their docstrings say, and so do the stock models that hold them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

import kleene as kl

BB3 = "1RB1RZ_1LB0RC_1LC1LA"


def said(program: Any, text: str) -> str:
    return str(program.decode(program.run(program.encode(text))))


def padded(a: int, digits: int) -> str:
    return str(a).zfill(digits)


# name → (program, longest sequence, prompt → answer, a prompt of about so many symbols)
CASES: dict[str, tuple[Any, int, Callable[[str], str]]] = {
    "addition": (
        kl.library.addition_decoder(3),
        12,
        lambda text: padded(sum(map(int, text[:-1].split("+"))), 4),
    ),
    "long addition": (
        kl.library.long_addition_decoder(24),
        24,
        lambda text: str(sum(map(int, text[:-1].split("+")))).zfill(max(map(len, text[:-1].split("+"))))[::-1],
    ),
    "multiplication": (
        kl.library.multiplication_decoder(2),
        12,
        lambda text: padded(int(text[:2]) * int(text[3:5]), 4),
    ),
    "parity": (kl.library.parity_decoder(24), 26, lambda text: str(text.count("1") % 2)),
    "copy": (kl.library.copy_decoder("abc", 24), 26, lambda text: text[:-1]),
    "reverse": (kl.library.reverse_decoder("abc", 24), 26, lambda text: text[-2::-1]),
    "sort": (kl.library.sort_decoder(4, 16), 18, lambda text: "".join(sorted(text[:-1]))),
}


@pytest.mark.parametrize("name", CASES)
def test_the_interpreter_gives_the_right_answer(name: str) -> None:
    program, length, right = CASES[name]
    chance = Random(1)
    for _ in range(25):
        tokens = program.sample(chance, chance.randrange(1, length))
        text = "".join(program.symbols[t] for t in tokens)
        assert said(program, text) == right(text)


@pytest.mark.parametrize("name", CASES)
def test_a_stock_model_gives_the_right_answer_and_is_certified(name: str) -> None:
    program, length, right = CASES[name]
    family: Any = ["llama", "gpt2", "phi3", "qwen3"][[*CASES].index(name) % 4]
    net, chance = kl.compile(program, to=family, length=length), Random(2)
    assert kl.certify(net).holds
    inputs = [program.sample(chance, chance.randrange(1, length)) for _ in range(100)]
    answers = [net.decode(made) for made in net.run_batch(inputs)]
    assert answers == [right("".join(program.symbols[t] for t in tokens)) for tokens in inputs]


TEXTS = {"addition_decoder": "123+456=", "copy_decoder": "abc=", "scan_decoder": "jump twice =", "turing_decoder": ":"}


@pytest.mark.parametrize("name", TEXTS)
def test_saved_networks_know_the_text(name: str, tmp_path: Path) -> None:
    program, text = getattr(kl.library, name)(), TEXTS[name]
    expected = said(program, text)
    kl.compile(program).save(tmp_path / "net")
    net = kl.load(tmp_path / "net", kl.Transformer)
    assert net.run(text).text == expected and expected
    assert net.run(text) == program.run(program.encode(text))
    assert kl.certify(net, program=program).holds


def test_addition_is_as_small_as_promised() -> None:
    sizes = kl.compile(kl.library.addition_decoder(3), to="llama", length=12).sizes
    assert sizes.layers <= 8 and sizes.residual <= 256 and sizes.bytes <= 2_000_000


# --- languages: which tokens are allowed next ---


def allowed(net: Any, text: str) -> set[str]:
    logits = net.model()(torch.tensor([[net.first, *net.encode(text)]])).logits[0, -1]
    assert {abs(v) >= 60 for v in logits[: net.first].tolist()} == {True}
    return {net.symbols[t] for t in range(net.first) if logits[t] > 0}


@pytest.mark.parametrize("pattern", ["(0|10*1)*", "(ab|ba)*c", "a(b|c){1,3}", "[a-c]*abc[a-c]*"])
def test_a_regex_allows_exactly_the_tokens_that_keep_a_match_possible(pattern: str) -> None:
    dfa = kl.regex(pattern)
    program = kl.library.regex_decoder(pattern, 12)
    net, possible = kl.compile(program, to="llama", length=12), dfa.prefixes()
    assert kl.certify(net, program=program).holds
    chance = Random(0)
    for _ in range(12):
        word = "".join(chance.choice(dfa.alphabet) for _ in range(chance.randrange(1, 8)))
        wanted = {s for s in dfa.alphabet if possible.accepts(word + s)} | ({";"} if dfa.accepts(word) else set())
        assert allowed(net, word) == wanted
        made = net.decode(net.run(net.encode(word)))
        assert dfa.accepts(word + made) == bool(wanted)


def test_a_stock_model_accepts_what_its_automaton_does() -> None:
    dfa = kl.regex("(ab|ba)*c")
    net = kl.compile(kl.library.regex_decoder(dfa, 12), to="qwen3", length=12)
    words = ["c", "abc", "abbac", "ab", "abca", "bac", "cc"]
    assert net.accepts_batch(words) == [dfa.accepts(word) for word in words]
    assert net.accepts(net.encode("abc")) and not net.accepts("ab")
    with pytest.raises(kl.NotSupported, match="does not know which tokens are allowed"):
        kl.compile(kl.library.parity_decoder(8), to="llama", length=8).accepts("01")


def test_sampling_from_a_regex_gives_only_matches() -> None:
    dfa = kl.regex("(ab|ba)*c")
    net = kl.compile(kl.library.regex_decoder("(ab|ba)*c", 40), to="qwen3", length=40)
    torch.manual_seed(0)
    ids = torch.tensor([[net.first, *net.encode("ab")]] * 64)
    made = net.model().generate(
        ids, do_sample=True, max_new_tokens=30, eos_token_id=net.program["stop"], pad_token_id=net.first + 1
    )
    ended = [row for row in made.tolist() if net.program["stop"] in row]
    words = {net.decode([t for t in row[1:] if t < net.first]) for row in ended}
    assert len(words) > 2 and all(dfa.accepts(word) for word in words)


def test_brackets_are_closed() -> None:
    program = kl.library.dyck_decoder(24)
    net = kl.compile(program, to="gpt2", length=24)
    assert kl.certify(net).holds
    assert said(program, "([]((") == net.decode(net.run(net.encode("([](("))) == "]))"[1:] + ")"
    assert allowed(net, "([") == {"(", "[", "]"} and allowed(net, "()") == {"(", "[", ";"}


def test_languages_with_large_monoids_take_a_layer_a_position() -> None:
    program = kl.library.regex_decoder("(a|b)*a(a|b){5}", 12)
    assert program.spec.layers == 13
    assert program.run("bab").text == "aaaa" and program.run("aaaaaa").text == ""
    with pytest.raises(kl.NotSupported, match="more than 64 elements, so a position takes a layer"):
        kl.library.regex_decoder("(a|b)*a(a|b){7}", 1000)


# --- Turing machines ---


def test_a_turing_machine_thinks_in_steps() -> None:
    machine = kl.TuringMachine.parse(BB3)
    program = kl.library.turing_decoder(machine, 64)
    net = kl.compile(program, to="llama", length=64)
    assert kl.certify(net, program=program).holds
    thoughts = net.decode(net.run(net.encode(":"))).split()
    assert len(thoughts) == machine.run("", max_steps=100).steps + 1 and thoughts[-1] == "accept"
    assert thoughts == said(program, ":").split()


def test_a_turing_machine_reads_its_word() -> None:
    machine = kl.TuringMachine(
        transitions={
            "even": {"1": ("odd", "1", 1), "0": ("even", "0", 1), " ": ("yes", " ", 0)},
            "odd": {"1": ("even", "1", 1), "0": ("odd", "0", 1), " ": ("no", " ", 0)},
        },
        start="even",
        accept=frozenset({"yes"}),
        reject=frozenset({"no"}),
        input_alphabet=("0", "1"),
    )
    net = kl.compile(kl.library.turing_decoder(machine, 40), to="gpt2", length=40)
    for word in ("", "1", "1011", "110110", "0"):
        thoughts = net.decode(net.run(net.encode(" ".join([*word, ":"])))).split()
        assert thoughts[-1] == ("reject" if word.count("1") % 2 else "accept")
        assert len(thoughts) == len(word) + 2
