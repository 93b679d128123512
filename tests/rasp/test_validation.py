"""What the validator finds before anything is compiled."""

from __future__ import annotations

import kleene as kl
from kleene import rasp
from kleene.library import rasp_programs as programs
from kleene.rasp import Comparison, indices, tokens


def reasons(sop, vocab=("a", "b"), of="tracr"):
    return [finding.reason for finding in rasp.validate(sop, vocab=vocab, max_seq_len=4) if finding.of == of]


def test_programs_that_tracr_computes_rightly_have_no_findings():
    clean = [
        programs.make_length(),
        programs.make_reverse(tokens),
        programs.make_hist(),
        programs.shift_by(1, tokens),
        programs.make_frac_prevs(rasp.numerical(tokens == "a")),
    ]
    assert [reasons(sop) for sop in clean] == [[]] * len(clean)


def test_an_aggregate_of_several_values_is_found_without_an_input():
    near = rasp.Select(rasp.indices, rasp.indices, lambda key, query: abs(key - query) < 2)
    assert any("silently wrong" in reason for reason in reasons(rasp.Aggregate(near, tokens), range(3)))
    assert reasons(programs.make_sort_unique(tokens, tokens), range(3)) == []  # several at a place are equal
    unique = programs.make_sort(tokens, tokens, max_seq_len=4, min_key=1)
    assert reasons(unique, range(3)) == []  # different keys: it always selects one


def test_what_tracr_rejects_is_named():
    everything = rasp.Select(tokens, tokens, Comparison.TRUE)
    number = rasp.numerical(rasp.Map(lambda x: x, tokens))
    assert any("default other than None" in r for r in reasons(rasp.Aggregate(everything, tokens == "a", default=0)))
    assert any("differs" in r for r in reasons(rasp.Aggregate(everything, number), range(3)))
    assert any(
        "other than 0 and 1" in r for r in reasons(rasp.numerical(rasp.Aggregate(everything, number, 0)), [1, 2])
    )
    assert any(
        "keys or queries" in r for r in reasons(rasp.SelectorWidth(rasp.Select(number, number, Comparison.LT)), [1])
    )
    assert any("LinearSequenceMap" in r for r in reasons(rasp.LinearSequenceMap(indices, indices + 1, 1, 1)))
    assert any("no compiled length" in r for r in reasons(rasp.length))
    assert any("AggregateMax" in r for r in reasons(rasp.AggregateMax(everything, indices)))


def test_what_can_raise_is_named():
    found = reasons(rasp.Map(lambda x: 1 / x, indices), of="program")
    assert found == ["raises ZeroDivisionError: division by zero for 0"]


def test_none_in_a_select_is_found():
    shifted = programs.shift_by(1, tokens)
    assert any("can be None" in r for r in reasons(rasp.SelectorWidth(rasp.Select(shifted, shifted, Comparison.EQ))))


def test_findings_read_as_text():
    (finding,) = rasp.validate(rasp.length.named("length"), vocab="a", max_seq_len=2)
    assert str(finding).startswith("length: Tracr has no compiled length") and isinstance(finding, rasp.Finding)
    assert isinstance(finding.expr, kl.rasp.SOp)


def test_no_width_is_zero_where_positions_select_themselves():
    same = rasp.SelectorWidth(rasp.Select(tokens, tokens, Comparison.EQ))
    for divisor in (same, rasp.length, rasp.SelectorWidth(rasp.Select(indices, indices, Comparison.LEQ))):
        assert not reasons(1 / divisor, of="program")
    others = rasp.SelectorWidth(rasp.Select(tokens, tokens, Comparison.NEQ))
    assert reasons(1 / others, of="program") == ["raises ZeroDivisionError: division by zero for 0"]
