"""Decompiling without a description: dimensions, units and heads are permuted at random, and nothing has a name."""

from __future__ import annotations

import copy
import random
from dataclasses import replace
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import kleene as kl
from kleene.cli import app
from kleene.decompilers.blind import Found, put_in_order
from kleene.lowering.forms import Form
from kleene.lowering.rule_machine import RuleMachine
from kleene.lowering.updates import GuardedUpdate, Updates
from kleene.lowering.updates import Test as Condition

LIBRARY = kl.library
PROGRAMS = {
    "parity_relative": lambda: LIBRARY.parity_relative,
    "parity_absolute": lambda: LIBRARY.parity_absolute(8),
    "parity_sum": lambda: LIBRARY.parity_sum(8),
    "parity_count": lambda: LIBRARY.parity_count(8),
    "parity_scratchpad": lambda: LIBRARY.parity_scratchpad(6),
    "addition": lambda: LIBRARY.addition,
    "addition_scratchpad": lambda: LIBRARY.addition_scratchpad(3),
    "sort": lambda: LIBRARY.sort(5, 5),
    "sort_unique": lambda: LIBRARY.sort_unique(5, 5),
    "reverse": lambda: LIBRARY.reverse(5, 5),
    "histogram": lambda: LIBRARY.histogram(5, 5),
    "most_frequent": lambda: LIBRARY.most_frequent(5, 5),
    "dyck1": lambda: LIBRARY.dyck1(8),
    "dyck2": lambda: LIBRARY.dyck2(8),
    "subleq": lambda: LIBRARY.subleq(-8, 8, 6),
    "scan": lambda: LIBRARY.scan,
}


def _order(count: int, chance: random.Random) -> list[int]:
    return chance.sample(range(count), count)


def permuted(net: Any, chance: random.Random) -> tuple[Any, list[int]]:
    """The network with its dimensions, hidden units, heads, keys and values in another order and no description; and
    where each of its dimensions comes from."""
    made = copy.deepcopy(net)
    made.description = {}
    dims = _order(net.config.dim, chance)
    with torch.no_grad():
        for name in ("token_embedding", "position_embedding", "unembedding"):
            if hasattr(made, name):
                getattr(made, name).copy_(getattr(made, name)[:, dims].clone())
        made.halt_weight.copy_(made.halt_weight[dims].clone())
        for block in made.blocks:
            heads = _order(len(block.heads), chance)
            keys, values = _order(block.query.shape[1], chance), _order(block.value.shape[1], chance)
            for name, places in (("query", keys), ("key", keys), ("value", values)):
                weight = getattr(block, name)
                weight.copy_(weight[heads][:, places][:, :, dims].clone())
            block.out.copy_(block.out[heads][:, dims][:, :, values].clone())
            block.null_value.copy_(block.null_value[heads][:, values].clone())
            for name in ("query_bias", "key_bias"):
                getattr(block, name).copy_(getattr(block, name)[heads][:, keys].clone())
            for name in ("relative", "null_score"):
                getattr(block, name).copy_(getattr(block, name)[heads].clone())
            for into, bias, out in (("in1", "bias1", "out1"), ("in2", "bias2", "out2")):
                units = _order(len(getattr(block, bias)), chance)
                getattr(block, into).copy_(getattr(block, into)[units][:, dims].clone())
                getattr(block, bias).copy_(getattr(block, bias)[units].clone())
                getattr(block, out).copy_(getattr(block, out)[dims][:, units].clone())
    return made, dims


class Names:
    """Which variable, head and value of the program each one that was found is."""

    def __init__(self, net: Any, found: Found, ordered: Any, dims: list[int]) -> None:
        place = {d: (s.name, d - s.start) for s in net.layout for d in range(s.start, s.stop)}
        self.of: dict[str, str] = {}  # name in the program → name that was given
        self.index: dict[str, list[int]] = {}  # name that was given → the program's index of each of its values
        for name, where in [*found.variables.items(), *((head.name, head.targets) for head in found.heads)]:
            told = [place[dims[dim]] for dim in where]
            assert len({other for other, _ in told}) == 1, told
            self.of[told[0][0]] = name
            self.index[name] = [index for _, index in told]
        for head in found.heads:
            if head.scalar:
                original = next(o for o, given in self.of.items() if given == head.name)
                values = [str(v) for v in net_kind(net, original)]
                passed = [0]
                for segment in ordered.layout:
                    if segment.coding == "scratch" and segment.name.startswith(f"{head.name}≥"):
                        old = place[dims[found.scratch[_scratch_number(ordered.layout, segment)]]][0]
                        passed.append(values.index(old.partition("≥")[2]))
                self.index[head.name] = sorted(passed)

    def form(self, form: Form) -> Form:
        terms = {self.of[n]: tuple(table[i] for i in self.index[self.of[n]]) for n, table in form.terms}
        return Form.of(form.constant, terms)

    def update(self, update: GuardedUpdate) -> GuardedUpdate:
        name = self.of[update.variable]
        guard = tuple(Condition(self.form(test.form), test.allowed) for test in update.guard)
        form, back = self.form(update.form), {index: i for i, index in enumerate(self.index[name])}
        table = tuple((value, back[index]) for value, index in update.table if index in back)
        return GuardedUpdate(name, guard, form, table)


def net_kind(net: Any, head: str) -> Any:
    return net.description["program"]["heads"][head]["values"]


def _scratch_number(layout: Any, segment: Any) -> int:
    return [s.name for s in layout if s.coding == "scratch"].index(segment.name)


def _possible(update: GuardedUpdate) -> bool:
    return all(set(test.form.values) & test.allowed for test in update.guard)


LONG = {"addition", "addition_scratchpad", "subleq", "scan"}
LONG_AS_RULES = {"most_frequent", "parity_scratchpad", "histogram", "sort_unique"}
CASES = [pytest.param(name, "thresholds", marks=[pytest.mark.slow] * (name in LONG)) for name in PROGRAMS]
CASES += [
    pytest.param(name, "rules", marks=[pytest.mark.slow] * (name in LONG_AS_RULES))
    for name in PROGRAMS
    if name not in LONG | {"dyck2"}  # of those, thousands of rules
]


@pytest.mark.parametrize(("name", "lowering"), CASES)
def test_the_updates_of_the_library_come_back_up_to_names(name, lowering):
    program = PROGRAMS[name]()
    net = kl.compile(program, lowering=lowering)
    hidden, dims = permuted(net, random.Random(len(name)))
    found = kl.decompile(hidden, blind=True)
    ordered, places = put_in_order(hidden)
    names = Names(net, places, ordered, dims)
    wanted = kl.guarded_updates(program)
    told = tuple(update for update in map(names.update, wanted.updates) if _possible(update))
    assert Updates(found.spec, told) == found
    for original, head in wanted.spec.heads.items():
        read = found.spec.heads[names.of[original]]
        assert (read.offsets, read.value) == (head.offsets, names.of[head.value])
        assert [names.of.get(side) for side in (head.query, head.key)] == [read.query, read.key]
    assert names.of[wanted.spec.output] == found.spec.output
    assert set(found.spec.halt) == {names.of[n] for n in wanted.spec.halt}


def test_what_is_read_blind_runs_like_the_network():
    program = LIBRARY.dyck2(8)
    hidden, _ = permuted(kl.compile(program), random.Random(5))
    found, chance = kl.decompile(hidden, blind=True), random.Random(0)
    inputs = [program.sample(chance, 8) if hasattr(program, "sample") else [0] * 8 for _ in range(20)]
    assert RuleMachine(found).run_batch(inputs) == hidden.run_batch(inputs)


def test_words_are_named_as_what_cannot_be_read():
    hidden, _ = permuted(kl.compile(LIBRARY.subleq_words(8, 16)), random.Random(1))
    with pytest.raises(kl.NotExact, match="the saved description"):
        kl.decompile(hidden, blind=True)


def test_a_weight_that_breaks_a_group_is_noticed():
    net = kl.compile(LIBRARY.parity_relative)
    broken = copy.deepcopy(net)
    with torch.no_grad():
        broken.token_embedding[0, :2] = 1
    with pytest.raises(kl.NotExact):
        kl.decompile(broken, blind=True)
    again = replace(kl.decompile(net, blind=True).spec, name="x")
    assert len(again.variables) == 2


def test_on_the_command_line(tmp_path):
    kl.compile(LIBRARY.parity_relative).save(tmp_path / "net")
    done = CliRunner().invoke(app, ["decompile", str(tmp_path / "net"), "--blind"])
    assert done.exit_code == 0 and "v0" in done.stdout and "parity" not in done.stdout.split("\n", 1)[1]
