"""Minimal versions of programs (ALTA, appendix C.2)."""

from __future__ import annotations

import random
from itertools import product

import pytest

import kleene as kl
from data_sets import DATA, needs
from kleene.checks.minimality import seen_rules
from kleene.library import addition, parity_absolute, parity_relative, scan, subleq
from kleene.lowering.rule_machine import RuleMachine
from kleene.machines.scan_grammar import pairs, published_split

needs_splits = needs("scan/mcd_split")
BITS = [[2, *bits] for n in range(1, 5) for bits in product((0, 1), repeat=n)]
SUMS = [addition.encode(f"{a}+{b}") for a in range(0, 100, 7) for b in range(0, 100, 9)]


def brute_force(program, inputs):
    """The rules that are satisfied somewhere, by looking at every rule at every position of every layer."""
    found, rules = set(), [rule for rule in kl.rules(program) if rule.new is not None]
    for tokens in inputs:
        trace = program.trace(tokens)
        for states, heads in zip(trace.states, trace.heads):
            for place, state in enumerate(states):
                indices = {name: program.spec.kinds[name].index(value) for name, value in state.items()}
                for name, outputs in heads.items():
                    value = outputs[place].value
                    indices[name] = None if value is None else program.spec.kinds[name].index(value)
                found |= {rule for rule in rules if rule.satisfied(indices)}
    return found


on_some_inputs = pytest.mark.parametrize(
    ("program", "inputs"),
    [
        (parity_relative, [[2, 1, 1], [2, 0]]),
        (parity_relative, BITS),
        (parity_absolute(6), [[1, 0, 1], [1, 1, 1, 1]]),
        (addition, [addition.encode("12+9"), addition.encode("5+5")]),
    ],
)


@on_some_inputs
def test_rules_that_fire_are_those_that_are_satisfied(program, inputs):
    assert set(seen_rules(program, inputs).rules) == brute_force(program, inputs)


def test_all_seven_rules_of_parity_fire():
    assert kl.minimal(parity_relative, BITS).seen.rule_count == len(kl.rules(parity_relative)) == 7


@pytest.mark.parametrize(("program", "inputs"), [(parity_relative, BITS[:6]), (addition, SUMS[:40])])
def test_on_its_own_inputs_it_is_the_program(program, inputs):
    small = kl.minimal(program, inputs)
    for tokens in inputs:
        whole, left = program.trace(tokens), small.trace(tokens)
        assert whole.states == left.states


def test_a_rule_that_never_fired_is_gone():
    small = kl.minimal(parity_relative, [[2, 0, 0], [2, 0]])
    assert small.run([2, 0, 0]) == parity_relative.run([2, 0, 0])
    assert small.run([2, 1, 1]) != parity_relative.run([2, 1, 1])


def test_initialisers_know_only_tokens_and_positions_seen():
    program = parity_absolute(6)
    small = kl.minimal(program, [[1, 1, 1]])
    (placed,) = [v for v in small.spec.variables.values() if v.by_position is not None][:1]
    whole = program.spec.variables[placed.name]
    assert placed.by_position[:3] == whole.by_position[:3]
    assert set(placed.by_position[3:]) == {whole.default}
    (tokened,) = [v for v in small.spec.variables.values() if v.by_token is not None][:1]
    assert tokened.by_token[0] == tokened.default


@pytest.mark.parametrize("lowering", ["thresholds", "rules"])
def test_it_compiles_like_any_other(lowering, tmp_path):
    small = kl.minimal(addition, SUMS)
    network = kl.compile(small, lowering=lowering)
    chance = random.Random(1)
    inputs = [addition.encode(f"{chance.randrange(99)}+{chance.randrange(99)}") for _ in range(40)]
    assert kl.verify(small, network, inputs=inputs).holds
    network.save(tmp_path / "small")
    assert kl.load(tmp_path / "small").run(SUMS[5]) == small.run(SUMS[5]) == addition.run(SUMS[5])


def test_it_is_certified():
    assert kl.certify(kl.compile(kl.minimal(parity_relative, BITS))).holds


def test_it_has_what_the_program_has():
    small = kl.minimal(addition, SUMS)
    assert small.decode(small.run(small.encode("14+18"))) == "32"
    assert small.__name__ == "addition_minimal"


def test_what_cannot_be_done_is_said():
    with pytest.raises(kl.NotSupported, match="unknown definition 'tiny'; choose one of published, full"):
        kl.minimal(parity_relative, BITS, definition="tiny")
    with pytest.raises(kl.InputError):
        kl.minimal(parity_relative, [[7]])


# --- the full definition ---


def brute_force_removable(program, inputs):
    """Constraints without which a rule fires on the same MLP inputs as with it."""
    found = set()
    every = []
    for tokens in inputs:
        trace = program.trace(tokens)
        for states, heads in zip(trace.states, trace.heads):
            for place, state in enumerate(states):
                values = {**state, **{name: outputs[place].value for name, outputs in heads.items()}}
                kinds = program.spec.kinds
                every.append({n: None if v is None else kinds[n].index(v) for n, v in values.items()})
    for rule in brute_force(program, inputs):
        for name, _ in rule.antecedent:
            if name != rule.variable:
                rest = [pair for pair in rule.antecedent if pair[0] != name]
                if all(rule.satisfied(v) == all(v[n] == i for n, i in rest) for v in every):
                    found.add((rule, name))
    return found


@on_some_inputs
def test_constraints_that_can_go(program, inputs):
    found = kl.unspecified(program, inputs)
    assert set(found.constraints) == brute_force_removable(program, inputs)
    assert kl.is_minimal(program, inputs) == (not found.rules and not found.constraints)


def test_parity_is_minimal_and_less_data_leaves_things_open():
    assert kl.is_minimal(parity_relative, BITS)
    found = kl.unspecified(parity_absolute(6), [[1, 0, 1]])
    assert not found.minimal and found.positions == (3, 4, 5) and found.tokens == ()
    assert "positions never seen: 3…5" in str(found)
    assert kl.unspecified(parity_absolute(6), [[1, 1]]).tokens == (0,)


@pytest.mark.parametrize(("program", "inputs"), [(parity_relative, BITS[:6]), (addition, SUMS[:40])])
def test_the_full_version_is_minimal_and_does_the_same(program, inputs):
    full = kl.minimal(program, inputs, definition="full")
    assert all(full.trace(tokens).states == program.trace(tokens).states for tokens in inputs)
    published = kl.minimal(program, inputs)
    count = lambda version: sum(len(rule.antecedent) for rule in version.seen.rules)  # noqa: E731
    assert count(full) < count(published)
    if "_updates" in vars(full):
        assert kl.verify(full, kl.compile(full), inputs=inputs).holds
        assert kl.is_minimal(full, inputs)
    else:
        with pytest.raises(kl.NotSupported, match="two of its rules write"):
            kl.compile(full)


def test_programs_with_undefined_heads():
    program = subleq(-3, 5, 6)
    image = [0] * 6
    small = kl.minimal(program, [image])
    assert small.run(image) == program.run(image)


# --- SCAN ---


@pytest.fixture(scope="module")
def some():
    return random.Random(5).sample(pairs(), 300)


@pytest.mark.slow
def test_scan_minimal_version_runs_and_compiles(some):
    small = kl.minimal(scan, [scan.encode(command) for command, _ in some])
    assert small.seen.rule_count < 2_000
    outputs = kl.compile(small).run_batch([scan.encode(command) for command, _ in some[:50]])
    assert [scan.decode(output) for output in outputs] == [actions for _, actions in some[:50]]


@pytest.mark.slow
@needs_splits
@pytest.mark.parametrize("split", ["length", "mcd1", "mcd2", "mcd3"])
def test_scan_minimal_versions_generalise(split):
    train, test = published_split(split, DATA)
    small = kl.minimal(scan, [scan.encode(command) for command, _ in train])
    assert small.seen.rule_count < 2_000
    machine = RuleMachine(kl.guarded_updates(small))
    outputs = machine.run_batch([scan.encode(command) for command, _ in test])
    assert all(scan.decode(output) == actions for output, (_, actions) in zip(outputs, test))


# --- reports that fit together ------------------------------------------------------------------------------


class with_a_dead_rule(kl.Program):
    """`never` is 0 from the start and is written nowhere, so the second rule cannot fire."""

    tokens = 2
    state = kl.cat(3, token=lambda t: t)
    never = kl.cat(2)
    left = kl.relative(state, -1, default=0)
    output = state
    layers = 1

    def step(z):
        if z.never:
            z.state = 2
        elif z.left == 1 and z.state == 0:
            z.state = 1


def test_rules_that_cannot_fire_are_apart_from_those_left_open():
    found = kl.unspecified(with_a_dead_rule, [[0, 0], [1]])
    assert found.unreachable and found.open and set(found.open) | found.unreachable == set(found.rules)
    assert all(dict(rule.antecedent).get("never") == 1 for rule in found.unreachable)
    (rule,) = found.open
    example = found.examples[rule]
    assert rule in seen_rules(with_a_dead_rule, [example]).rules
    report = str(found)
    assert "1 that write never fire on these inputs" in report and f"(fires on {list(example)})" in report


@pytest.mark.parametrize("program", [kl.library.parity_relative, with_a_dead_rule, kl.library.parity_sum(4)])
def test_the_counts_fit(program):
    inputs = [[0], [1], [1, 0]] if program is with_a_dead_rule else [[2, 1, 0], [2, 0]]
    found, small = kl.unspecified(program, inputs), kl.minimal(program, inputs)
    assert len(kl.rules(program)) == found.fired + len(found.rules) + found.clearing
    assert small.seen.rule_count == found.fired + found.cleared
    assert str(small).startswith(f"{small.spec.name}: {small.seen.rule_count} rules; {found.fired} write")


def test_examples_of_rules_that_need_a_long_input():
    """Inputs without a start token read what is not defined; they must not hide the others."""
    program = kl.library.parity_sum(12)
    found = kl.unspecified(program, [[2, 1, 0, 1], [2, 1, 1, 1]])
    to_one = [rule for rule in found.open if rule.new == 1]
    assert to_one and set(to_one) <= set(found.examples)
    assert all(rule in seen_rules(program, [found.examples[rule]]).rules for rule in to_one)
    lines = str(found).splitlines()
    counts = [int(line.split()[0]) for line in lines[1:] if line[0].isdigit()]
    rules, fire, never_clear, open_, dead, _ = counts
    assert rules == fire + never_clear + open_ + dead == len(kl.rules(program))


def test_what_is_called_unreachable_never_fires():
    """On every input of up to five tokens."""
    inputs = [list(word) for length in range(1, 6) for word in product(range(2), repeat=length)]
    fired = set(seen_rules(with_a_dead_rule, inputs).rules)
    assert not fired & kl.unspecified(with_a_dead_rule, [[0]]).unreachable
