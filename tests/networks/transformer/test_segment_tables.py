"""The tables of the sparse evaluator: they give what the dense evaluator gives, however often they begin anew."""

from __future__ import annotations

import copy
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import kleene as kl
from kleene.lowering.guarding import guarded_updates
from kleene.lowering.rule_machine import RuleMachine
from kleene.machines.scan_grammar import pairs
from kleene.networks.transformer import segment_tables


def alike(net: kl.Transformer, inputs: list[list[int]], **options: int) -> bool:
    """Whether the sparse and the dense evaluator give the same outputs and layers."""
    sparse, dense = (net.run_batch(inputs, evaluator=evaluator, **options) for evaluator in ("sparse", "dense"))
    return sparse == dense and [one.layers for one in sparse] == [one.layers for one in dense]


@pytest.mark.parametrize("most", [1, segment_tables.MOST_VALUES])
def test_tables_that_begin_anew_give_the_same(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_tables, "MOST_VALUES", most)
    begun: list[int] = []
    begin = segment_tables.SegmentTables._begin_anew
    monkeypatch.setattr(segment_tables.SegmentTables, "_begin_anew", lambda *it: (begun.append(1), begin(*it)))
    chance = random.Random(0)
    inputs = [[chance.randrange(40) for _ in range(chance.randrange(1, 41))] for _ in range(60)]
    net = kl.compile(kl.library.sort(40, 40))
    assert alike(net, inputs)
    assert alike(net, inputs[:3])  # the tables are known now
    assert bool(begun) == (most == 1)


def test_a_segment_that_units_leave_something_in_becomes_loud() -> None:
    net = kl.compile(kl.library.parity_relative)
    (unit,) = [k for k, (purpose, why) in enumerate(net.described(0)["units"][1]) if purpose == "done_left"][:1]
    with torch.no_grad():
        net.block(0).out2[:, unit] = 0  # what the head adds stays, and adds up from layer to layer
    quiet = net.sparse_copy().tables.segments.loud
    inputs = [[2, 1, 0, 1], [2, 1, 1, 1, 0, 1], [1, 0]]
    for layers in range(5):
        assert alike(net, inputs, layers=layers)
    assert net.sparse_copy().tables.segments.loud == quiet + 1


def test_settled_positions_run_again_where_a_head_adds_something_else() -> None:
    """A position changes, rests for as many layers as it is far from the start, and changes again."""

    class Waves(kl.Program):
        tokens = 2
        positions = 9
        seen = kl.cat(4, token=lambda t: t)
        count = kl.cat(5)
        left = kl.relative(seen, -1, default=0)
        output = count
        layers = 30

        def step(z):
            if z.left != z.seen:
                z.count = (z.count + z.left) % 5
                z.seen = z.left if z.left else (z.seen + 1) % 4

    inputs = [[int(bit) for bit in f"{number:09b}"] for number in range(0, 512, 7)]
    net, machine = kl.compile(Waves), RuleMachine(guarded_updates(Waves))
    truth = [Waves.run(tokens) for tokens in inputs]
    assert net.run_batch(inputs, evaluator="sparse") == truth
    assert machine.run_batch(inputs) == truth


def test_threads_take_turns_with_the_tables_of_a_network() -> None:
    """The tables grow while they run: two threads at once spoiled them."""
    program = kl.library.scan
    net = kl.compile(program)
    commands = pairs()[::97]
    groups = [[program.encode(command) for command, _ in commands[n::12]] for n in range(12)]
    with ThreadPoolExecutor(4) as pool:
        outputs = list(pool.map(lambda group: net.run_batch(group, evaluator="sparse"), groups))
    for n, group in enumerate(outputs):
        assert [program.decode(output) for output in group] == [actions for _, actions in commands[n::12]]
    assert copy.deepcopy(net).run(groups[0][0]) == outputs[0][0]


@pytest.mark.parametrize("seed", range(12))
def test_heads_of_every_kind_share_a_layer(seed: int) -> None:
    """Heads that average or count stand beside heads that prefer a position, in each of several layers."""
    chance = random.Random(seed)

    class Mixed(kl.Program):
        tokens, layers, positions = 4, 4, 9
        here = kl.cat(4, token=lambda t: t)
        other = kl.cat(4, position=lambda p: p % 4)
        seven = kl.cat(8, default=7)
        same = kl.count(here, here, most=9)
        alike = kl.count(other, here, most=9)
        all = kl.length(9)
        found = kl.any(other, here)
        latest = kl.attend(here, other, here, latest=True, default=0)
        first = kl.attend(other, here, other, earliest=True, default=3)
        left = kl.relative(here, -1, default=1)
        output = seven
        more, less = chance.sample(["same", "alike", "all", "found", "latest", "first", "left", "other"], 2)

        def step(z):
            z.other = (z.here + z.first + z.found) % 4
            z.here = (z.same + z.latest + getattr(z, z.more) * z.left) % 4
            z.seven = (z.alike + z.all + getattr(z, z.less)) % 8

    net = kl.compile(Mixed)
    inputs = [[chance.randrange(4) for _ in range(chance.randrange(1, 10))] for _ in range(100)]
    truth = [Mixed.run(tokens) for tokens in inputs]
    for evaluator in ("sparse", "dense"):
        assert net.run_batch(inputs, evaluator=evaluator) == truth


def test_groups_that_grow_in_number_have_room() -> None:
    """Contents get longer numbers in a run, so that fewer of them fit into a word, and there are more groups."""
    tables = kl.compile(kl.library.sort(4, 4)).sparse_copy().tables
    batch = tables._batch(np.array([3, 4]))
    tables.groups = [groups._replace(target_ptr=np.arange(40)) for groups in tables.groups]
    assert tables._renew(batch).last.shape == (7, 40)


def test_a_head_may_count_a_single_offset() -> None:
    class Begun(kl.Program):
        tokens, layers, positions = 2, 1, 5
        number = kl.cat(3)
        before = kl.count(most=2, offsets=[-1])
        output = number

        def step(z):
            z.number = z.before

    net = kl.compile(Begun)
    assert net.run([1, 1, 0, 0, 1], evaluator="sparse") == Begun.run([1, 1, 0, 0, 1]) == [0, 1, 1, 1, 1]
