"""Networks of s-ops compute what the s-ops mean: known programs, random programs, and errors."""

from __future__ import annotations

import itertools

import pytest

import kleene as kl
from kleene import rasp
from kleene.rasp import Comparison, indices, tokens
from random_rasp import random_program


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed):
    """Random s-ops agree with plain evaluation, on all short inputs and random longer ones, and are certified."""
    sop, vocab, causal = random_program(seed, 14)
    net = kl.compile(sop, vocab=vocab, max_seq_len=5, causal=causal)
    every, some = kl.verify(sop, net, lengths=range(1, 4)), kl.verify(sop, net, random=40, seed=seed)
    assert every.mismatches == some.mismatches == 0, every.counterexample or some.counterexample
    assert kl.certify(net).holds


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1150))
def test_random_programs_of_more_parts_on_longer_inputs(seed):
    sop, vocab, causal = random_program(seed, 26)
    net = kl.compile(sop, vocab=vocab, max_seq_len=9, causal=causal)
    assert kl.verify(sop, net, random=100, seed=seed).mismatches == 0
    assert kl.certify(net).holds


def test_random_programs_are_not_trivial():
    """Most of the random programs have heads, and few raise on most inputs."""
    heads = raised = 0
    for seed in range(30):
        sop, vocab, causal = random_program(seed, 14)
        heads += bool(rasp.to_program(sop, vocab=vocab, max_seq_len=3, causal=causal).spec.heads)
        evaluate = rasp.evaluate_causally if causal else rasp.evaluate
        for xs in itertools.product(vocab, repeat=3):
            try:
                evaluate(sop, xs)
            except Exception:
                raised += 1
                break
    assert heads >= 20 and raised <= 15


def test_a_wrong_weight_is_found():
    """The comparison is no formality: a network with one changed weight disagrees."""
    hist = rasp.SelectorWidth(rasp.Select(tokens, tokens, Comparison.EQ))
    net = kl.compile(hist, vocab="abc", max_seq_len=5)
    block = net.block(0)
    block.bias1[2] += 2
    assert kl.verify(hist, net, lengths=range(1, 5)).mismatches > 0
    assert not kl.certify(net).holds


def test_apply_takes_and_gives_what_tracr_does():
    shifted = rasp.Aggregate(rasp.Select(indices, indices, lambda k, q: q == k + 1), tokens)
    net = kl.compile(shifted, vocab={"a", "b"}, max_seq_len=5, bos="BOS")
    assert net.apply(["BOS", "a", "b", "b"]).decoded == ["BOS", None, "a", "b"]
    assert net.apply("abb").decoded == [None, "a", "b"]
    assert net.decode(net.run(net.encode("ba"))) == [None, "b"]
    assert net.apply(lambda module: None) is net  # torch's own apply still works


def test_a_saved_network_keeps_its_vocabulary(tmp_path):
    fraction = rasp.Aggregate(rasp.Select(indices, indices, Comparison.LEQ), tokens == "a", default=0)
    net = kl.compile(fraction, vocab="ab", max_seq_len=6)
    net.save(tmp_path / "net")
    again = kl.load(tmp_path / "net")
    assert again.apply("aab").decoded == [1, 1, 2 / 3] == net.apply("aab").decoded
    assert kl.certify(again).holds and kl.decompile(again) is not None


def test_the_program_runs_on_the_interpreter():
    reverse = rasp.Aggregate(rasp.Select(indices, rasp.length - indices - 1, Comparison.EQ), tokens).named("reverse")
    program = rasp.to_program(reverse, vocab="abc", max_seq_len=6)
    assert program.__name__ == "reverse"
    assert program.decode(program.run(program.encode("abca"))) == list("acba")
    net = kl.compile(program)
    assert kl.verify(program, net, inputs=[program.encode("cab")])
    assert "reverse" in str(program.trace(program.encode("ab")))


@pytest.mark.parametrize(
    "options, words",
    [
        ({"vocab": "", "max_seq_len": 3}, "vocab is empty"),
        ({"vocab": "ab", "max_seq_len": 0}, "max_seq_len=0"),
        ({"vocab": "ab", "max_seq_len": 3, "bos": "a"}, "is in the vocabulary"),
        ({"vocab": [None], "max_seq_len": 3}, "None is no token"),
        ({"vocab": 3, "max_seq_len": 3}, "not a set of tokens"),
    ],
)
def test_bad_arguments_are_named(options, words):
    with pytest.raises(kl.InputError, match=words):
        kl.compile(rasp.tokens == "a", **options)


def test_an_unknown_token_is_named():
    net = kl.compile(tokens == "a", vocab="ab", max_seq_len=3)
    with pytest.raises(kl.InputError, match="'c' at index 1 is not in the vocabulary 'a', 'b'"):
        net.apply("ac")


def test_a_map_that_always_raises_is_an_error():
    with pytest.raises(kl.ProgramError, match="raises TypeError"):
        kl.compile(rasp.Map(lambda x: x + 1, tokens), vocab="ab", max_seq_len=3)


@pytest.mark.parametrize(
    "predicate, words",
    [
        (lambda key: True, "raises TypeError.* for every key and query"),
        (lambda key, query: key < 3, "'<' not supported"),
        (Comparison.LT, "'<' not supported"),
        (lambda key, query: tokens == key, "'map' is an s-op, a different value at each position"),
    ],
)
def test_a_predicate_that_always_raises_is_an_error(predicate, words):
    with pytest.raises(kl.ProgramError, match=words):
        kl.compile(rasp.SelectorWidth(rasp.Select(tokens, indices, predicate)), vocab="ab", max_seq_len=3)


def test_a_map_to_an_s_op_is_an_error():
    with pytest.raises(kl.ProgramError, match="has to return values"):
        kl.compile(rasp.Map(lambda t: indices, tokens), vocab="ab", max_seq_len=3)


def test_verify_leaves_out_where_the_s_op_raises():
    inverse = rasp.Map(lambda t: 1 / t, tokens)
    net = kl.compile(inverse, vocab=[0, 1, 2], max_seq_len=3)
    report = kl.verify(inverse, net, lengths=range(1, 3))
    assert (report.checked, report.left_out, report.raised, report.mismatches) == (6, 6, 0, 0)
    with pytest.raises(kl.InputError, match="with its network, not with a NoneType"):
        kl.verify(inverse, None)  # type: ignore[call-overload]


def test_what_is_no_sequence_is_an_error():
    for run in (rasp.tokens, kl.compile(tokens == "a", vocab="ab", max_seq_len=3).apply):
        with pytest.raises(kl.InputError, match=r"5 is not a sequence of tokens such as \['a', 'b'\]"):
            run(5)  # type: ignore[arg-type]


def test_a_selector_is_no_s_op():
    same = rasp.Select(tokens, tokens, Comparison.EQ)
    with pytest.raises(kl.NotSupported, match=r"rasp\.SelectorWidth and rasp.Aggregate make an SOp"):
        kl.compile(same, vocab="ab", max_seq_len=3)  # type: ignore[call-overload]
    for function in (kl.guarded_updates, kl.rules, kl.explain_size, kl.to_rasp, lambda s: kl.minimal(s, [[0]])):
        with pytest.raises(kl.NotSupported, match=r"takes an attention program; rasp\.to_program"):
            function(rasp.SelectorWidth(same))  # type: ignore[arg-type]


def test_a_causal_network_cannot_know_the_length():
    with pytest.raises(kl.ProgramError, match="length"):
        kl.compile(rasp.length, vocab="ab", max_seq_len=3, causal=True)


def test_too_many_combinations_are_refused_before_they_are_made():
    big = rasp.Map(lambda x: x, rasp.SequenceMap(lambda x, y: (x, y), indices, tokens))
    for _ in range(4):
        big = rasp.SequenceMap(lambda x, y: (x, y), big, rasp.Aggregate(rasp.Select(big, big, Comparison.NEQ), big))
    with pytest.raises(kl.KleeneError):
        kl.compile(big, vocab=range(60), max_seq_len=60)


def test_a_mean_is_not_taken_for_a_function_of_it():
    """`m2 - m * m` numbers the values of m alike, and is no mean of differences."""
    every = rasp.Select(indices, indices, Comparison.TRUE)
    mean, square = rasp.Aggregate(every, tokens), rasp.Aggregate(every, tokens * tokens)
    variance = square - mean * mean
    net = kl.compile(variance, vocab=range(3), max_seq_len=4)
    assert net.apply([0, 2]).decoded == [1, 1]
    assert kl.verify(variance, net, lengths=range(1, 5)).mismatches == 0


def test_joined_maps_see_none_as_in_tracr():
    small = rasp.Map(lambda x: x if x < 2 else None, tokens)
    told = rasp.Map(lambda x: "none" if x is None else x, small)
    assert told([1, 2]) == [1, "none"] == kl.compile(told, vocab={1, 2}, max_seq_len=2).apply([1, 2]).decoded
    assert (small + 1)([1, 2]) == [2, None]  # Tracr raises here
    apart = rasp.Map(lambda x: "none" if x is None else x, small, simplify=False)
    assert apart([1, 2]) == [1, None]


def test_the_options_of_tracr_work(tmp_path):
    hist = rasp.SelectorWidth(rasp.Select(tokens, tokens, Comparison.EQ))
    net = kl.compile(
        hist, vocab={"a", "b"}, max_seq_len=4, causal=False, compiler_bos="begin", compiler_pad="pad", mlp_exactness=100
    )
    assert net.apply(["begin", "a", "b", "a", "pad", "pad"]).decoded == ["begin", 2, 1, 2, "pad", "pad"]
    net.save(tmp_path / "hist")
    assert kl.load(tmp_path / "hist", kl.Transformer).apply(["b", "pad"]).decoded == [1, "pad"]
    with pytest.raises(kl.InputError, match="'pad' at index 0"):
        net.apply(["pad", "a"])
    with pytest.raises(kl.InputError, match="padding token 'a' is a token already"):
        kl.compile(hist, vocab="ab", max_seq_len=4, pad="a")
    with pytest.raises(kl.InputError, match="give its tokens as vocab="):
        kl.compile(hist)  # type: ignore[call-overload]
