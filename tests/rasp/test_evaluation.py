"""What s-ops mean, in plain Python: Tracr's rules, and the places where ours are wider or stricter."""

from __future__ import annotations

import pytest

import kleene as kl
from kleene import rasp
from kleene.rasp import Comparison, indices, tokens

EVERYTHING = rasp.Select(tokens, tokens, Comparison.TRUE)


def test_operators_make_s_ops():
    assert (indices + 1)("abc") == [1, 2, 3]
    assert (1 - indices)("abc") == [1, 0, -1]
    assert (indices - tokens)([0, 1, 1]) == [0, 0, 1]
    assert (tokens == "a")("aba") == [True, False, True]
    assert (indices % 2)("abcd") == [0, 1, 0, 1]
    assert (indices // 2)("abcd") == [0, 0, 1, 1]
    assert (~(tokens == "a"))("ab") == [False, True]
    assert ((tokens == "a") & (indices == 0))("aab") == [True, False, False]
    assert (indices == rasp.length - 1)("ab") == [False, True]


def test_none_passes_through_maps():
    nothing = rasp.Aggregate(rasp.Select(tokens, tokens, Comparison.FALSE), tokens)
    assert nothing("ab") == [None, None]
    assert rasp.Map(len, nothing)("ab") == [None, None]
    assert rasp.SequenceMap(lambda x, y: x + y, nothing, tokens)("ab") == [None, None]


def test_none_is_selected_by_no_comparison_but_true():
    nothing = rasp.Aggregate(rasp.Select(tokens, tokens, Comparison.FALSE), tokens)
    assert rasp.SelectorWidth(rasp.Select(nothing, nothing, Comparison.EQ))("ab") == [0, 0]
    assert rasp.SelectorWidth(rasp.Select(nothing, nothing, Comparison.TRUE))("ab") == [2, 2]
    assert rasp.SelectorWidth(rasp.Select(nothing, tokens, lambda k, q: k < q))("ab") == [0, 0]


def test_several_numbers_average_and_equal_values_stay():
    assert rasp.Aggregate(EVERYTHING, indices)("abc") == [1, 1, 1]
    assert rasp.Aggregate(EVERYTHING, tokens == "a")("aab") == [2 / 3] * 3
    assert rasp.Aggregate(EVERYTHING, tokens)("aaa") == list("aaa")
    with pytest.raises(kl.ProgramError, match="different values that are not numbers"):
        rasp.Aggregate(EVERYTHING, tokens)("ab")


def test_means_are_exact():
    third = rasp.Aggregate(EVERYTHING, rasp.Map(lambda i: int(i == 0), indices))
    assert (3 * third)("abc") == [1, 1, 1]
    assert (third + third + third)("abc") == [1, 1, 1]
    assert rasp.Map(lambda x: x == 1 / 3, third)("abc") == [True] * 3


def test_widths_defaults_and_extremes():
    left = rasp.Select(indices, indices, Comparison.LT)
    assert rasp.SelectorWidth(left)("abc") == [0, 1, 2]
    assert rasp.Aggregate(left, indices, default=-1)("abc") == [-1, 0, 0.5]
    assert rasp.AggregateMax(left, tokens, default=0)([3, 1, 2]) == [0, 3, 3]
    assert rasp.AggregateMin(left, tokens, default=0)([3, 1, 2]) == [0, 3, 1]


def test_selectors_combine():
    same, left = rasp.Select(tokens, tokens, Comparison.EQ), rasp.Select(indices, indices, Comparison.LT)
    assert rasp.SelectorWidth(same & left)("aab") == [0, 1, 0]
    assert rasp.SelectorWidth(same | left)("aab") == [2, 2, 3]
    assert rasp.SelectorWidth(~same)("aab") == [1, 1, 2]
    assert isinstance(same & left, rasp.SelectorAnd) and isinstance(~same, rasp.SelectorNot)


def test_causal_evaluation_hides_what_is_to_the_right():
    assert rasp.evaluate_causally(rasp.SelectorWidth(EVERYTHING), "abc") == [1, 2, 3]
    assert rasp.evaluate_causally(rasp.SelectorWidth(~rasp.Select(tokens, tokens, Comparison.EQ)), "aba") == [0, 1, 1]


def test_names_and_annotations():
    sop = rasp.numerical(tokens == "a").named("is_a")
    assert sop.name == "is_a" and rasp.is_numerical(sop) and rasp.is_categorical(tokens)
    assert rasp.Map(str, tokens).name == "map" and sop.label.startswith("is_a_")
    assert rasp.annotate(sop, colour="red").annotations["colour"] == "red" and sop.name == "is_a"
    with pytest.raises(KeyError, match="unknown annotation 'weight'"):
        sop.annotations["weight"]


def test_wrong_parts_are_named():
    with pytest.raises(kl.ProgramError, match=r"rasp\.Full"):
        rasp.Map(str, 3)
    with pytest.raises(kl.ProgramError, match="not a function"):
        rasp.Map("f", tokens)
    with pytest.raises(kl.ProgramError, match="not a selector"):
        rasp.SelectorWidth(tokens)
    with pytest.raises(kl.ProgramError, match=r"use &, \|, ~"):
        _ = tokens == "a" and indices == 0


def test_deep_programs_do_not_recurse():
    sop = indices
    for _ in range(1500):
        sop = rasp.SequenceMap(lambda x, y: x, sop, indices)
    assert sop("ab") == [0, 1]
    assert kl.compile(sop, vocab="a", max_seq_len=2).apply("aa").decoded == [0, 1]


def test_selectors_have_no_truth_value():
    same, earlier = rasp.Select(tokens, tokens, Comparison.EQ), rasp.Select(indices, indices, Comparison.LT)
    for mistake in (lambda: same and earlier, lambda: not same, lambda: earlier if same else None):
        with pytest.raises(kl.ProgramError, match=r"a choice of positions.*use &, \| and ~ instead"):
            mistake()
