"""Appendix B of the ALTA paper: theorem 2, the corrected criterion, and the counterexample to theorem 1."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kleene as kl
from kleene.checks.landscape import RuleSet, landscape
from kleene.machines.written_rules import Rule


def loss(weights, hat, inputs, regulariser, alpha):
    """The regularised loss by its definition (equations 4, 15 and 17), in exact numbers."""

    def mlp(parameters, z):
        first, bias, second = parameters
        hidden = [
            max(Fraction(0), min(Fraction(1), sum((w * x for w, x in zip(row, z)), Fraction(0)) + b))
            for row, b in zip(first, bias)
        ]
        return [x + sum((w * h for w, h in zip(row, hidden)), Fraction(0)) for x, row in zip(z, second)]

    total = Fraction(0)
    for z in inputs:
        total += sum(abs(a - b) for a, b in zip(mlp(weights, z), mlp(hat, z)))
    everything = [w for row in weights[0] for w in row] + list(weights[1]) + [w for row in weights[2] for w in row]
    return total + alpha * sum(abs(w) if regulariser == "l1" else w * w for w in everything)


def plain(weights):
    return [
        [[Fraction(int(w)) for w in row] for row in weights[0]],
        [Fraction(int(w)) for w in weights[1]],
        [[Fraction(int(w)) for w in row] for row in weights[2]],
    ]


def moved(weights, part, place, by):
    made = [[list(row) for row in weights[0]], list(weights[1]), [list(row) for row in weights[2]]]
    if part == 1:
        made[1][place[0]] += by
    else:
        made[part][place[0]][place[1]] += by
    return made


def coordinates(weights):
    for part in (0, 2):
        for i, row in enumerate(weights[part]):
            for j in range(len(row)):
                yield part, (i, j)
    for j in range(len(weights[1])):
        yield 1, (j,)


def is_strict(rules, data, regulariser, alpha):
    """Strictness by value: the loss is higher at every coordinate a little to the left and to the right."""
    hat = plain(rules.weights())
    inputs = [[Fraction(int(x)) for x in z] for z in rules.vectors(np.array(data))]
    here, little = loss(hat, hat, inputs, regulariser, alpha), Fraction(1, 1000)
    return all(
        loss(moved(hat, part, place, sign * little), hat, inputs, regulariser, alpha) > here
        for part, place in coordinates(hat)
        for sign in (-1, 1)
    )


def is_minimal(rules, data):
    """Definition 1 by trying: remove each rule and each constraint and run what is left."""

    def apply(kept, assignment):
        changed = [tuple(sorted((r.variable, r.new) for r in kept if r.satisfied(assignment)))]
        return changed

    every = [dict(zip(rules.ranges, row)) for row in data]
    before = [apply(rules.rules, v) for v in every]
    for i, rule in enumerate(rules.rules):
        others = [r for k, r in enumerate(rules.rules) if k != i]
        if [apply(others, v) for v in every] == before:
            return False
        for name, _ in rule.antecedent:
            if name != rule.variable:
                left = tuple(pair for pair in rule.antecedent if pair[0] != name)
                less = Rule(rule.variable, rule.old, rule.new, left)
                if [apply([*others, less], v) for v in every] == before:
                    return False
    return True


def criterion(rules, data):
    """Every rule fires, and every rule with two or more constraints is somewhere violated in exactly one."""
    for rule in rules.rules:
        violated = [sum(v != dict(zip(rules.ranges, row))[n] for n, v in rule.antecedent) for row in data]
        if 0 not in violated or (len(rule.antecedent) > 1 and 1 not in violated):
            return False
    return True


@st.composite
def rule_sets(draw):
    sizes = draw(st.lists(st.integers(2, 3), min_size=2, max_size=3))
    ranges = {f"v{i}": size for i, size in enumerate(sizes)}
    rules: list[Rule] = []
    for _ in range(draw(st.integers(1, 3))):
        variable = draw(st.sampled_from(list(ranges)))
        names = draw(st.sets(st.sampled_from(list(ranges)))) | {variable}
        values = {name: draw(st.integers(0, ranges[name] - 1)) for name in sorted(names)}
        new = draw(st.integers(0, ranges[variable] - 1).filter(lambda v, old=values[variable]: v != old))
        rule = Rule(variable, values[variable], new, tuple(sorted(values.items())))
        clash = any(r.variable == variable and all(values.get(n, v) == v for n, v in r.antecedent) for r in rules)
        if not clash:  # at most one rule for a variable holds anywhere
            rules.append(rule)
    everything = list(product(*(range(size) for size in sizes)))
    data = draw(st.lists(st.sampled_from(everything), min_size=1, max_size=8))
    return RuleSet(ranges, tuple(rules)), data


def alphas(rules, regulariser):
    most = max([1, *(len(rule.antecedent) - 1 for rule in rules.rules)])
    below = Fraction(1) if regulariser == "l1" else Fraction(1, 2 * most)
    return [below / 2, below * Fraction(99, 100)]


@pytest.mark.parametrize("regulariser", ["l1", "l2"])
@settings(max_examples=60, deadline=None)
@given(found=rule_sets())
def test_random_rule_sets(regulariser, found):
    """The verdict is the loss's own; theorem 2 holds; the corrected criterion holds in both directions."""
    rules, data = found
    for alpha in alphas(rules, regulariser):
        around = landscape(rules, data, regulariser=regulariser, alpha=alpha)
        assert around.strict == is_strict(rules, data, regulariser, alpha)
        assert around.strict == criterion(rules, data)
        if is_minimal(rules, data):
            assert around.strict  # theorem 2


@settings(max_examples=15, deadline=None)
@given(found=rule_sets(), regulariser=st.sampled_from(["l1", "l2"]))
def test_derivatives_are_limits_of_difference_quotients(found, regulariser):
    """Within |ε| < 1 the reconstruction loss is linear on each side, so the quotient is exact up to α·ε²."""
    rules, data = found
    alpha, e = Fraction(1, 7), Fraction(1, 1000)
    around = landscape(rules, data, regulariser=regulariser, alpha=alpha)
    hat = plain(rules.weights())
    inputs = [[Fraction(int(x)) for x in z] for z in rules.vectors(np.array(data))]
    here = loss(hat, hat, inputs, regulariser, alpha)
    curve = alpha * e if regulariser == "l2" else 0
    tables = {name: around.derivatives(name) for name in ("W1", "b", "W2")}
    for part, place in coordinates(hat):
        left, right = tables[("W1", "b", "W2")[part]]
        below = (here - loss(moved(hat, part, place, -e), hat, inputs, regulariser, alpha)) / e + curve
        above = (loss(moved(hat, part, place, e), hat, inputs, regulariser, alpha) - here) / e - curve
        assert (left[place], right[place]) == (below, above)


COUNTEREXAMPLE = RuleSet({"V0": 3, "V1": 2, "V2": 2}, (Rule("V0", 0, 1, (("V0", 0), ("V1", 1), ("V2", 1))),))
DATA = [(0, 1, 1), (0, 0, 1), (2, 1, 1)]


@pytest.mark.parametrize(("regulariser", "alpha"), [("l1", "0.5"), ("l1", "0.99"), ("l2", "0.1")])
def test_theorem_1_is_false_as_printed(regulariser, alpha):
    """V2 = 1 can go, so the rule set is not minimal; yet its compilation is a strict optimum."""
    assert not is_minimal(COUNTEREXAMPLE, DATA)
    assert landscape(COUNTEREXAMPLE, DATA, regulariser=regulariser, alpha=alpha).strict
    assert is_strict(COUNTEREXAMPLE, DATA, regulariser, Fraction(alpha))


def test_the_worked_example_of_the_paper():
    """A.2: seven rules of parity, of which the first kind here leaves out those that clear heads."""
    words = [[2, *bits] for n in range(5) for bits in product((0, 1), repeat=n)]
    around = landscape(kl.library.parity_relative, words)
    assert around.strict and len(around.rules.rules) == 3
    assert not landscape(kl.library.parity_relative, [[2, 0, 0]]).strict


def test_a_minimal_version_is_an_optimum():
    addition = kl.library.addition
    inputs = [addition.encode(f"{a}+{b}") for a in range(0, 100, 7) for b in range(0, 100, 9)]
    full = kl.minimal(addition, inputs, definition="full")
    rules = RuleSet({n: len(k) for n, k in addition.spec.kinds.items()}, full.seen.rules)
    data = kl.traces(addition, inputs).assignments()
    assert landscape(rules, data).strict
    assert not landscape(addition, inputs).strict


def test_bad_rule_sets_are_refused():
    with pytest.raises(kl.InputError, match="old value a constraint"):
        RuleSet({"a": 2}, (Rule("a", 0, 1, ()),))
    with pytest.raises(kl.NotSupported, match="regulariser 'l3'"):
        landscape(COUNTEREXAMPLE, DATA, regulariser="l3")


def test_values_are_shown_as_the_program_has_them():
    around = landscape(kl.library.parity_sum(3), [[2, 1, 0, 1]])
    assert "rule 0: parity: 0 → 1  if share = 1/4" in str(around)
    assert any("share=1/4" in at.name for at in around.breaking)
