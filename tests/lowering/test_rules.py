"""Transition rules: how many there are, what they mention, and the paper's worked example (appendix A.2)."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import pytest
import torch

import kleene as kl
from kleene.lowering.guarding import guarded_updates
from kleene.lowering.rule_machine import RuleMachine
from kleene.lowering.rules import Rules, lower_to_rules
from kleene.lowering.updates import Updates
from kleene.machines.written_rules import Rule

SMALL = [
    kl.library.parity_relative,
    kl.library.parity_absolute(4),
    kl.library.addition,
    kl.library.subleq(-3, 3, 4),
    kl.library.reverse(4, 3),
    kl.library.histogram(4, 3),
    kl.library.sort_unique(4, 4),
    kl.library.sort(4, 3),
    kl.library.most_frequent(3, 3),
    kl.library.dyck1(4),
    kl.library.dyck2(3),
    kl.library.parity_scratchpad(3),
]


def assignment(program: Any, **values: int) -> dict[str, int | None]:
    """Indices of all variables and heads: those given, and the first value of the others."""
    return {name: values.get(name, 0) for name in program.spec.kinds}


# --- counts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", [kl.library.parity_relative, kl.library.parity_absolute(50)])
def test_parity_has_exactly_seven_rules(program):
    assert len(kl.rules(program)) == 7


def test_addition_has_no_more_rules_than_the_published_hand_written_version():
    assert 1_000 < len(kl.rules(kl.library.addition)) <= 16_466


def test_subleq_has_no_more_rules_than_the_published_one():
    assert 1_000 < len(kl.rules(kl.library.subleq(-16, 16, 16))) <= 43_127


def test_too_many_rules_are_refused_with_the_estimate():
    with pytest.raises(kl.TooManyRules, match=r"about [\d,]+ transition rules.*lowering='thresholds'"):
        kl.rules(kl.library.subleq(-128, 127, 64))


# --- what they say ----------------------------------------------------------------------------------------


def depends(program: Any, rules: Rules, variable: str, other: str) -> bool:
    """Whether `step` changes the variable differently for two values of another, on some tried state."""
    spec, updates, chance = program.spec, guarded_updates(program), random.Random(0)
    mentioning = [rule for rule in rules if rule.variable == variable and other in dict(rule.antecedent)]
    for rule in chance.sample(mentioning, min(len(mentioning), 30)):
        for _ in range(20):
            state = {name: chance.randrange(len(kind)) for name, kind in spec.kinds.items()} | dict(rule.antecedent)
            results = {updates.apply({**state, other: i})[variable] for i in range(len(spec.kinds[other]))}
            if len(results) > 1:
                return True
    return False


@pytest.mark.parametrize("program", SMALL, ids=lambda program: program.__name__)
def test_no_rule_mentions_a_variable_that_its_update_does_not_depend_on(program):
    rules = kl.rules(program)
    for variable in program.spec.variables:
        mentioned = {name for rule in rules if rule.variable == variable for name, _ in rule.antecedent} - {variable}
        for other in mentioned:
            assert depends(program, rules, variable, other), f"rules of '{variable}' mention '{other}'"


@pytest.mark.parametrize("program", SMALL, ids=lambda program: program.__name__)
def test_rules_do_what_the_updates_do(program):
    rules, updates, chance = kl.rules(program), guarded_updates(program), random.Random(1)
    by_variable: dict[str, list[Rule]] = {}
    for rule in rules:
        by_variable.setdefault(rule.variable, []).append(rule)
    for _ in range(60 if len(rules) < 2_000 else 8):
        state = {name: chance.randrange(len(kind)) for name, kind in program.spec.kinds.items()}
        after = rules.apply(state)
        assert {name: after[name] for name in program.spec.variables} == updates.apply(state)
        assert all(after[head] is None for head in program.spec.heads)
        for found in by_variable.values():
            assert sum(rule.satisfied(state) for rule in found) <= 1


def test_every_rule_changes_its_variable_and_mentions_its_old_value():
    for program in SMALL:
        for rule in kl.rules(program):
            assert rule.new != rule.old and (rule.variable, rule.old) in rule.antecedent


def test_the_rules_that_clear_heads_come_last_one_for_each_value():
    rules = list(kl.rules(kl.library.addition))
    clearing = [rule for rule in rules if rule.new is None]
    assert rules[-len(clearing) :] == clearing
    assert len(clearing) == 3 * 13 + 3 * 2
    assert all(rule.antecedent == ((rule.variable, rule.old),) for rule in clearing)


def test_one_unit_is_one_rule():
    for program in (kl.library.parity_relative, kl.library.parity_absolute(5), kl.library.subleq(-2, 3, 4)):
        assert kl.compile(program, lowering="rules").sizes.hidden == len(kl.rules(program))


# --- the worked example of appendix A.2 --------------------------------------------------------------------

A2 = kl.library.parity_absolute(3)
# as in the paper: (variable, old, new, the other conjuncts)
R = [
    ("parity", 0, 1, {"done": 0, "done_left": 1, "parity_left": 1}),
    ("parity", 1, 0, {"done": 0, "done_left": 1, "parity_left": 1}),
    ("done", 0, 1, {"done_left": 1}),
    ("parity_left", 0, None, {}),
    ("parity_left", 1, None, {}),
    ("done_left", 0, None, {}),
    ("done_left", 1, None, {}),
]
DIMS = [f"{name}={value}" for name in ("parity", "parity_left", "done", "done_left") for value in (0, 1)]
W1_TRANSPOSED = [  # rows as DIMS, a column per rule
    [1, 0, 0, 0, 0, 0, 0],
    [0, 1, 0, 0, 0, 0, 0],
    [0, 0, 0, 1, 0, 0, 0],
    [1, 1, 0, 0, 1, 0, 0],
    [1, 1, 1, 0, 0, 0, 0],
    [0, 0, 0, 0, 0, 0, 0],
    [0, 0, 0, 0, 0, 1, 0],
    [1, 1, 1, 0, 0, 0, 1],
]
B1 = [-3, -3, -1, 0, 0, 0, 0]
W2 = [  # rows as DIMS, a column per rule
    [-1, 1, 0, 0, 0, 0, 0],
    [1, -1, 0, 0, 0, 0, 0],
    [0, 0, 0, -1, 0, 0, 0],
    [0, 0, 0, 0, -1, 0, 0],
    [0, 0, -1, 0, 0, 0, 0],
    [0, 0, 1, 0, 0, 0, 0],
    [0, 0, 0, 0, 0, -1, 0],
    [0, 0, 0, 0, 0, 0, -1],
]
Z = [0, 1, 0, 1, 1, 0, 0, 1]  # parity = 1, parity_left = 1, done = 0, done_left = 1
HIDDEN = [0, 1, 1, 0, 1, 0, 1]
OUT = [1, -1, 0, -1, -1, 1, 0, -1]
AFTER = [1, 0, 0, 0, 0, 1, 0, 0]  # parity = 0, done = 1, both heads null


def as_printed(rule: Rule) -> tuple[Any, ...]:
    others = {name: index for name, index in rule.antecedent if name != rule.variable}
    return rule.variable, rule.old, rule.new, others


def test_a2_the_seven_rules():
    found = [as_printed(rule) for rule in kl.rules(A2)]
    assert len(found) == 7
    assert all(rule in found for rule in R) and all(rule in R for rule in found)


def test_a2_the_rules_applied():
    state = assignment(A2, parity=1, parity_left=1, done=0, done_left=1)
    rules = list(kl.rules(A2))
    order = [next(rule for rule in rules if as_printed(rule) == wanted) for wanted in R]
    assert [int(rule.satisfied(state)) for rule in order] == HIDDEN
    after = kl.rules(A2).apply(state)
    assert (after["parity"], after["done"], after["parity_left"], after["done_left"]) == (0, 1, None, None)


def matrices() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """W1 (rule × dim), b1 and W2 (dim × rule) from the compiled network, in the order of the paper."""
    net = kl.compile(A2, lowering="rules", dtype="float64")
    block, names = net.block(0), net.layout.names
    assert net.config.hidden == (0, 7)
    dims = [names.index(label) for label in DIMS]
    rest = [dim for dim in range(len(names)) if dim not in dims]  # index and index_left: all zeros
    assert {names[dim].partition("=")[0] for dim in rest} == {"index", "index_left"}
    assert not block.in2[:, rest].any() and not block.out2[rest].any()
    rows = block.in2[:, dims]
    order = [int(torch.nonzero((rows == torch.tensor(column)).all(dim=1))) for column in zip(*W1_TRANSPOSED)]
    assert sorted(order) == list(range(7))
    return rows[order], block.bias2[order], block.out2[dims][:, order]


def test_a2_the_matrices():
    w1, b1, w2 = matrices()
    assert w1.T.tolist() == W1_TRANSPOSED
    assert b1.tolist() == B1
    assert w2.tolist() == W2


def test_a2_the_hidden_vector_and_the_output():
    w1, b1, w2 = matrices()
    z = torch.tensor(Z, dtype=torch.float64)
    hidden = (w1 @ z + b1).clamp(0, 1)
    assert hidden.tolist() == HIDDEN
    assert (w2 @ hidden).tolist() == OUT
    assert (z + w2 @ hidden).tolist() == AFTER


@pytest.mark.parametrize("lowering", ["rules", "thresholds"])
def test_a2_the_block_of_the_network(lowering):
    net = kl.compile(A2, lowering=lowering)
    names = net.layout.names
    z = torch.zeros(len(names))
    for label in ("parity=1", "parity_left=1", "done=0", "done_left=1", "index=2", "index_left=1"):
        z[names.index(label)] = 1
    after = net.block(0).second_half(net.block(0).first_half(z))
    assert {names[dim] for dim in torch.nonzero(after).flatten()} == {"parity=0", "done=1", "index=2", "index_left=1"}
    assert set(after.tolist()) == {0.0, 1.0}


def test_a2_the_encoding_of_variables():
    net = kl.compile(A2, lowering="rules")
    names = net.layout.names
    embedded = net.embed(torch.tensor([[1, 0, 1]]))[0]
    on = [{names[dim] for dim in torch.nonzero(row).flatten()} for row in embedded]
    assert on[0] == {"parity=1", "done=1", "index=0", "index_left=0"}
    assert on[1] == {"parity=0", "done=0", "index=1", "index_left=0"}
    assert on[2] == {"parity=1", "done=0", "index=2", "index_left=1"}  # heads start at null


def test_a2_the_heads():
    """W^V and W^O carry parity into parity_left; queries meet keys where index_left = index."""
    net = kl.compile(A2, lowering="rules")
    block, names = net.block(0), net.layout.names
    head = net.config.heads.index("parity_left")
    carried = block.out[head] @ block.value[head]  # (dim, dim)
    found = {(names[i], names[j]) for i, j in torch.nonzero(carried).tolist()}
    assert found == {("parity_left=0", "parity=0"), ("parity_left=1", "parity=1")}
    assert set(carried.unique().tolist()) == {0.0, 1.0}
    scores = block.query[head].T @ block.key[head]  # (query dim, key dim)
    matched = {(names[i], names[j]) for i, j in torch.nonzero(scores).tolist()}
    assert matched == {(f"index_left={k}", f"index={k}") for k in range(3)}
    assert len(scores[scores != 0].unique()) == 1


# --- rules written by hand (Figure 6) ----------------------------------------------------------------------


def figure_six(b: Any) -> None:
    for done, done_left in ((d, dl) for d in b.get("done") for dl in b.get("done_left")):
        if done != 1 and done_left == 1:
            b.set("done", 1)
            for parity_left in b.get("parity_left"):
                for parity in b.get("parity"):
                    b.set("parity", parity_left ^ parity)


def built(program: Any, write: Any) -> Updates:
    builder = kl.RuleBuilder(program.spec)
    write(builder)
    return builder.updates()


@pytest.mark.parametrize("program", [kl.library.parity_relative, kl.library.parity_absolute(6)])
def test_rules_by_hand_are_the_rules_of_step(program):
    updates = built(program, figure_six)
    assert updates == guarded_updates(program)
    assert set(lower_to_rules(updates)) == set(kl.rules(program))


def test_rules_by_hand_know_where_they_read():
    reads = {(read.head, len(read.guard)) for read in built(kl.library.parity_relative, figure_six).reads}
    assert ("done_left", 1) in reads and any(head == "parity_left" and size >= 2 for head, size in reads)


def test_a_program_may_have_rules_instead_of_step():
    class ByHand(kl.Program):
        tokens = 3
        parity = kl.cat(2, token=lambda t: 0 if t == 2 else t)
        done = kl.cat(2, token=lambda t: t == 2)
        parity_left = kl.relative(parity, -1)
        done_left = kl.relative(done, -1)
        output = parity
        halt = {done: 1}
        rules = figure_six

    tokens = [2, 1, 0, 1, 1]
    assert ByHand.run(tokens) == kl.library.parity_relative.run(tokens)
    assert len(kl.rules(ByHand)) == 7
    net = kl.compile(ByHand)
    inputs = [[2, *bits] for n in range(5) for bits in product((0, 1), repeat=n)]
    assert kl.verify(kl.library.parity_relative, net, inputs=inputs, evaluator="dense")


def overlapping(b: Any) -> None:
    for done in b.get("done"):
        if done == 0:
            b.set("parity", 1)
    for left in b.get("done_left"):
        if left == 1:
            b.set("parity", 0)  # with done = 0 it is to be both 1 and 0


def contradicting(b: Any) -> None:
    for value in b.get("parity_left"):
        b.set("done", value)
    b.set("done", 1)


def test_two_rules_that_set_a_third_value_are_refused():
    def write(b: Any) -> None:
        for value in b.get("carry"):
            if value < 2:
                b.set("stage", 1)
        for value in b.get("ptr_a"):
            if value:
                b.set("stage", 2)

    with pytest.raises(kl.ProgramError, match=r"two rules set 'stage' at once, to [12] and to [12], where .*carry = 0"):
        built(kl.library.addition, write)


@pytest.mark.parametrize("write", [overlapping, contradicting])
def test_two_rules_for_one_variable_at_once_are_refused(write):
    """Also where one of them keeps the old value and is therefore no transition."""
    with pytest.raises(kl.ProgramError, match=r"two rules set '(parity|done)' at once"):
        built(kl.library.parity_relative, write)


def test_rules_that_say_the_same_twice_are_one():
    def write(b: Any) -> None:
        b.set("done", 1)
        b.set("done", 1)

    assert len(built(kl.library.parity_relative, write)) == 1


def test_hand_written_rules_are_checked():
    spec = kl.library.parity_relative.spec
    with pytest.raises(kl.ProgramError, match=r"rules set 'parity' to 2, outside 0 … 1"):
        kl.RuleBuilder(spec).set("parity", 2)
    with pytest.raises(kl.ProgramError, match=r"rules set 'done_left', which is not a declared variable"):
        kl.RuleBuilder(spec).set("done_left", 1)
    with pytest.raises(kl.ProgramError, match=r"rules get 'doen', which is not declared"):
        list(kl.RuleBuilder(spec).get("doen"))


PARITY = kl.library.parity_relative


@pytest.mark.parametrize("program", [kl.library.histogram(), kl.library.most_frequent()])
def test_the_rule_machine_runs_sets_on_short_inputs(program):
    """A set as a query, and a key with many more values than there are positions."""
    machine = RuleMachine(guarded_updates(program))
    for tokens in ([1], [1, 2, 1], [0, 0]):
        assert machine.run(tokens) == program.run(tokens)


def test_the_rule_machine_takes_no_inputs():
    assert RuleMachine(guarded_updates(PARITY)).run_batch([]) == []
