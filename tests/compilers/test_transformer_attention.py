"""Heads that prefer one of several matching positions, and heads on parts of words, on every side."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
import torch

import kleene as kl
from agreeing import outcomes
from kleene.compilers.transformer_attention import GAP
from kleene.errors import InputError, NotExact, NotSupported, ProgramError
from kleene.lowering.guarding import guarded_updates
from kleene.lowering.rule_machine import RuleMachine
from kleene.machines.spec import Spec

NOTHING = 9


def looking_back(prefer: str, only_left: bool) -> Any:
    """Every position looks for its own token at another place, and gives the place; NOTHING where there is none."""

    class Look(kl.Program):
        tokens, layers, causal = 3, 1, only_left
        positions = 9
        here = kl.cat(3, token=lambda t: t)
        place = kl.cat(10, position=lambda p: p)
        found = kl.attend(
            here,
            here,
            place,
            offsets=[o for o in range(-8, 9) if o],
            default=NOTHING,
            latest=prefer == "latest",
            earliest=prefer == "earliest",
            nearest=prefer == "nearest",
        )
        result = kl.cat(10)
        output = result

        def step(z):
            z.result = z.found

    return Look


def expected(prefer: str, only_left: bool, tokens: list[int]) -> list[int]:
    """The same in plain Python."""
    given = []
    for i, token in enumerate(tokens):
        found = [j for j, other in enumerate(tokens) if other == token and j != i and (j < i or not only_left)]
        near = [j for _, j in sorted((abs(j - i), j) for j in found)]
        best = {"latest": found[-1:], "earliest": found[:1], "nearest": near[:1]}[prefer]
        given += best or [NOTHING]
    return given


def some_inputs(count: int, longest: int, seed: int = 0) -> list[list[int]]:
    chance = random.Random(seed)
    return [[chance.randrange(3) for _ in range(chance.randint(1, longest))] for _ in range(count)]


@pytest.mark.parametrize("only_left", [False, True])
@pytest.mark.parametrize("prefer", ["latest", "earliest", "nearest"])
def test_every_side_selects_what_plain_python_does(prefer, only_left):
    program = looking_back(prefer, only_left)
    inputs = some_inputs(60, 9)
    nets = {dtype: kl.compile(program, dtype=dtype) for dtype in ("float32", "float64", "bfloat16")}
    for tokens in inputs:
        wanted = expected(prefer, only_left, tokens)
        assert [list(found[0]) for found in outcomes(program, tokens)] == [wanted, wanted]
    for dtype, net in nets.items():
        for evaluator in ("dense", "sparse") if dtype != "bfloat16" else ("dense",):
            found = [list(output) for output in net.run_batch(inputs, evaluator=evaluator)]
            assert found == [expected(prefer, only_left, tokens) for tokens in inputs], (dtype, evaluator)
        certificate = kl.certify(net)
        assert certificate.holds and certificate.max_length == 9, certificate
        assert kl.decompile(net) == guarded_updates(program)
    assert Spec.from_json(program.spec.to_json()) == program.spec


@pytest.mark.parametrize("only_left", [False, True])
@pytest.mark.parametrize("prefer", ["latest", "earliest"])
def test_sparse_follows_the_order_of_positions_at_any_offset(prefer, only_left):
    class Look(kl.Program):
        tokens, layers, causal = 4, 2, only_left
        here = kl.cat(4, token=lambda t: t)
        asked = kl.subset(4, [{0, 1}, {2}, {1, 3}, set()], token=lambda t: [{0, 1}, {2}, {1, 3}, set()][t])
        found = kl.attend(asked, here, here, default=3, **{prefer: True})
        last = kl.attend(None, None, here, **{prefer: True})
        output = here

        def step(z):
            z.here = (z.found + z.last) % 4

    net = kl.compile(Look, length=40)
    report = kl.verify(Look, net, inputs=some_inputs(40, 40), evaluator="sparse")
    assert report.holds, report


def test_the_score_is_the_rank_of_the_offset():
    """A match at offset o scores 2·(R + 1)·GAP + o·GAP, the null key (R + 1)·GAP, with R = 9 offsets to each side."""
    head = kl.compile(looking_back("latest", False)).heads["found"]
    assert [head.offsets[o] for o in (-8, -1, 1, 8)] == [-8 * GAP, -GAP, GAP, 8 * GAP]
    assert head.offsets[0] == -2 * 10 * GAP and float(head.null_score) == 10 * GAP
    assert float(head.query.max()) == 20 * GAP


class Last(kl.Program):
    tokens, layers = 2, 1
    here = kl.cat(2, token=lambda t: t)
    found = kl.attend(here, here, here, latest=True)
    output = here

    def step(z):
        z.here = z.found


def test_a_length_limits_the_network():
    assert kl.certify(kl.compile(Last)).max_length == 512
    net = kl.compile(Last, length=700)
    assert kl.certify(net).max_length == 700 and list(net.run([1, 0] * 350)) == [1, 0] * 350
    with pytest.raises(InputError, match="the longest allowed has 700"):
        net.run([0] * 701)
    assert kl.certify(net, dtype="bfloat16").holds is False  # 1,400 ranks are more than its eight bits tell apart


@pytest.mark.parametrize(
    "spoil",
    [
        lambda table: table.mul_(0.0625),  # ranks too close for float32
        lambda table: table.copy_(table.flip(0)),  # the earliest instead of the latest
        lambda table: table[3:5].copy_(table[3:5].mean()),  # two offsets alike
        lambda table: table.mul_(4),  # a mismatch far away beats the null key
    ],
)
def test_the_certificate_refuses_other_ranks(spoil):
    net = kl.compile(looking_back("latest", False))
    assert kl.certify(net).holds
    with torch.no_grad():
        spoil(net.blocks[0].relative[0])
    certificate = kl.certify(net)
    assert not certificate.holds and "lemma hard-attention" in str(certificate)


def test_the_certificate_refuses_inputs_beyond_the_ranks():
    """Beyond its window a head has one score for all offsets, and so no order."""
    net = kl.compile(Last, length=5)
    net.config = replace(net.config, max_length=6)
    certificate = kl.certify(net)
    assert not certificate.holds and "inputs can be longer" in str(certificate)


def test_scores_that_are_no_ranks_are_not_decompiled():
    net = kl.compile(looking_back("latest", False))
    with torch.no_grad():
        net.blocks[0].relative[0, 4] += 1
    with pytest.raises(NotExact, match="neither a selection nor a preference"):
        kl.decompile(net)


def test_a_head_reads_the_latest_word_and_moves_it():
    """A memory: the value that was last written to an address, written into a variable of the reader."""

    class Memory(kl.Program):
        tokens, layers = 32, 1
        address = kl.word(2, token=lambda t: t // 8)
        datum = kl.cat(4, token=lambda t: t // 2 % 4)
        writes = kl.cat(2, token=lambda t: t % 2)
        value = kl.cat(4)
        load = kl.attend(address, address, datum, among={writes: 1}, default=0, into=value, latest=True)
        output = value
        causal = True

        def step(z):
            z.writes = 0

    chance, net = random.Random(1), kl.compile(Memory, length=30)
    for _ in range(30):
        tokens = [chance.randrange(32) for _ in range(chance.randint(1, 30))]
        memory: dict[int, int] = {}
        wanted = []
        for token in tokens:
            if token % 2:
                memory[token // 8] = token // 2 % 4
            wanted.append(memory.get(token // 8, 0))
        assert list(Memory.run(tokens)) == list(net.run(tokens)) == list(net.run(tokens, check=True)) == wanted
    assert kl.certify(net).holds and kl.decompile(net) == guarded_updates(Memory)


def test_a_decoder_with_a_cache_looks_for_the_latest():
    """Induction: append what followed the last occurrence of the last token."""

    class Induction(kl.Program):
        tokens, layers, max_tokens, causal = 4, 2, 6, True
        here = kl.cat(4, token=lambda t: t)
        before = kl.cat(5, default=4)
        left = kl.relative(here, -1, default=0)
        sought = kl.cat(5, token=lambda t: t)
        ready = kl.cat(2)
        found = kl.attend(sought, before, here, default=0, latest=True)
        output = here

        def step(z):
            if z.ready == 0:
                z.before = z.left
                z.ready = 1
            else:
                z.here = z.found

    def follow(tokens: list[int]) -> list[int]:
        made: list[int] = []
        for _ in range(6):
            every = [*tokens, *made]
            pairs = [0, *every]  # what stands before each position; 0 before the first
            made.append(next((every[j] for j in range(len(every) - 1, -1, -1) if pairs[j] == every[-1]), 0))
        return made

    net = kl.compile(Induction)
    for tokens in ([3, 1, 2, 1, 3, 1], [2], [0, 1, 2, 3, 0], [1, 1, 2, 1, 3, 2, 1]):
        assert (
            list(Induction.run(tokens)) == list(net.run(tokens)) == list(net.run(tokens, check=True)) == follow(tokens)
        )
        assert net.decode_batch([tokens], cached=False)[0] == net.run(tokens)
    assert kl.certify(net).holds
    assert kl.verify(Induction, net, lengths=range(1, 5)).holds


def test_one_preference_at_most():
    here = kl.cat(2)
    with pytest.raises(ProgramError, match="latest= and nearest= exclude each other"):
        kl.attend(here, here, here, latest=True, nearest=True)


def test_evaluators_for_computers_name_what_they_do_not_run():
    net = kl.compile(looking_back("latest", False))
    for evaluator in ("rows", "lookup", "generated"):
        with pytest.raises(NotSupported, match="use 'dense'"):
            net.run([0, 1], evaluator=evaluator)


# --- parts of words ---------------------------------------------------------------------------------------


class Sliced(kl.Program):
    """Parts of words as query, key, value and target; a bit that is computed switches a head."""

    tokens, positions, layers = 4096, 16, 6
    w = kl.word(12, token=lambda t: t)
    place = kl.word(10, position=lambda p: p + 32)
    out = kl.word(12)
    seen = kl.word(6)
    found = kl.attend(w[0:4], place[0:4], w[4:10], default=0)
    low = kl.attend(w[4:8], place[0:4], w[0:4], into=out[2:6], where={w[11]: 1}, default=3)
    high = kl.attend(w[8:12], place[0:4], w[8:10], into=out[8:10], default=0)
    bit = kl.attend(w[0:4], place[0:4], w[3], into=out[11], default=0, among={w[0]: 1})
    output = out

    @kl.layer(found, low, high, bit)
    def first(z):
        z.seen = z.found
        if z.out[2]:
            z.w = (z.w + z.found + z.out[2:8]) % 4096
        else:
            z.w = z.w ^ kl.concat(z.found, z.w[0:6])

    cycle = (first,)


def test_heads_on_parts_of_words():
    chance, net = random.Random(1), kl.compile(Sliced)
    inputs = [[chance.randrange(4096) for _ in range(chance.randrange(1, 17))] for _ in range(60)]
    expected = [Sliced.run(tokens) for tokens in inputs]
    assert RuleMachine(kl.guarded_updates(Sliced)).run_batch(inputs) == expected
    assert net.run_batch(inputs) == net.run_batch(inputs, evaluator="dense") == expected
    assert len({word for words in expected for word in words}) > 50
    assert kl.certify(net).holds and kl.certify(Sliced).holds


def test_parts_of_words_are_kept_in_files(tmp_path):
    net = kl.compile(Sliced)
    net.save(tmp_path / "sliced")
    loaded = kl.load(tmp_path / "sliced")
    assert loaded.run([2849, 12, 4095, 77]) == Sliced.run([2849, 12, 4095, 77])
    assert kl.certify(loaded).holds


@pytest.mark.parametrize("name", ["query", "key", "value", "out", "in2"])
def test_planted_bugs_in_heads_on_parts_are_found(name):
    net = kl.compile(Sliced)
    tensor = getattr(net.block(0), name)
    places = torch.nonzero(tensor)
    assert len(places) > 3
    for k in range(0, len(places), len(places) // 3):
        at, kept = tuple(places[k].tolist()), tensor[tuple(places[k].tolist())].item()
        with torch.no_grad():
            tensor[at] = 0
        assert not kl.certify(net).holds, (name, at)
        with torch.no_grad():
            tensor[at] = kept
    assert kl.certify(net).holds


@pytest.mark.parametrize(
    ("heads", "said"),
    [
        ("a = kl.attend(w[0:3], w[1:5], w)", "range 3"),
        ("a = kl.attend(w[0:3], w[1:4], w[0:2], into=w[2:5], default=0)", "same kind"),
        ("a = kl.attend(w, w, w[0:2], where={w[1]: 0})", "a bit that is 1"),
        ("a = kl.attend(w, w, w[0:2], where={w[1:3]: 1})", "a bit that is 1"),
        ("a = kl.attend(w, w, w[8])", "not [8]"),
        ("a = kl.attend(w, w, w[::-1])", "neighbouring bits"),
        (
            "a = kl.attend(w, w, w[0:4], into=w[0:4], default=0); b = kl.attend(w, w, w[3:5], into=w[3:5], default=0)",
            "same layer",
        ),
        ("a = kl.clear(w[0:2])", "takes one variable or more"),
    ],
)
def test_wrong_parts_are_refused(heads, said):
    source = (
        "class Wrong(kl.Program):\n    tokens, layers = 4, 1\n    w = kl.word(8, token=lambda t: t)\n    output = w\n"
    )
    source += f"    {heads}\n    def step(z):\n        z.w = 0\n"
    with pytest.raises(kl.ProgramError) as raised:
        exec(source, {"kl": kl})
    assert said in str(raised.value)


def test_parts_of_words_are_read_back():
    assert kl.decompile(kl.compile(Sliced)) == kl.guarded_updates(Sliced)


def test_what_does_not_know_parts_says_so():
    with pytest.raises(kl.NotSupported, match="parts of words"):
        Sliced.trace([1, 2]).to_html()
