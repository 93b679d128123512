"""Lanes compute what the other evaluators compute, layer by layer, whatever the weights are."""

from __future__ import annotations

import copy
import random

import numpy as np
import pytest
import torch

import kleene as kl
from kleene.drivers.subleq import computer_network
from kleene.networks.transformer.evaluators import start
from kleene.networks.transformer.lane_builds import compiler
from kleene.networks.transformer.lane_units import Lanes, Sums, Unit, grouped

needs_compiler = pytest.mark.skipif(compiler() is None, reason="no C compiler")
LANES = [pytest.param("lanes", marks=needs_compiler), "lanes-numba"]
QUICK = "lanes" if compiler() else "lanes-numba"


def tokens(chance, bits=4):
    size = 1 << bits
    words = [chance.randrange(size) for _ in range(size - 1)]
    return kl.library.computer(bits).encode(words)


def residuals(net, given, evaluator, layers=12):
    """The residual stream after each layer, and how the run ended."""
    found = []
    try:
        run = start(net, given, evaluator)
        for _ in range(layers):
            ended = run.run(1)
            found.append(run.residual())
            if ended == "halted":
                return found, "halted"
    except (kl.NotSupported, kl.RangeError) as error:
        return found, str(error).replace(evaluator, "")
    return found, "runs"


@pytest.mark.parametrize("evaluator", LANES)
def test_lockstep_with_dense(evaluator):
    chance, net = random.Random(1), computer_network(4)
    for _ in range(6):
        given = tokens(chance)
        wanted, why = residuals(net, given, "dense")
        found, also = residuals(net, given, evaluator)
        assert len(found) == len(wanted) and why == also
        assert all(map(torch.equal, found, wanted))


@needs_compiler
@pytest.mark.parametrize("tries", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_changed_weights_are_evaluated_as_lookup_does(tries):
    """A weight that is wrong must be wrong in the same way: nothing is taken for an adder."""
    net, chance, told, differ = computer_network(4), random.Random(3), 0, 0
    given = kl.library.computer(4).encode([9, 10, 3, 11, 11, -1, 0, 0, 0, 7, 3, 0])
    good, _ = residuals(net, given, "lookup")
    for _ in range(tries):
        other = copy.deepcopy(net)
        block = other.blocks[chance.randrange(len(other.blocks))]
        names = [name for name in ("in1", "bias1", "out1", "in2", "bias2", "out2") if getattr(block, name).any()]
        weight = getattr(block, chance.choice(names))
        at = tuple(torch.nonzero(weight)[chance.randrange(int(torch.count_nonzero(weight)))].tolist())
        weight[at] += chance.choice([-2, -1, 1, 2])
        wanted, why = residuals(other, given, "lookup")
        found, also = residuals(other, given, QUICK)
        assert why == also and len(found) == len(wanted), (why, also)
        assert all(map(torch.equal, found, wanted))
        told += why not in ("halted", "runs")
        differ += not all(map(torch.equal, wanted, good))
    assert told + differ > 0


def test_a_layer_by_numbers_is_the_layer_of_the_code():
    """What the code leaves undone is done from the weights; here every layer is."""
    chance, net = random.Random(5), computer_network(4)
    given = tokens(chance)
    wanted, why = residuals(net, given, "lookup")
    run = start(net, given, "lanes-numba")
    run.code = lambda *_: (0, 3)
    for layer in wanted:
        ended = run.run(1)
        assert torch.equal(run.residual(), layer)
    assert (ended == "halted") == (why == "halted")


def test_put_row_and_words():
    net = computer_network(4)
    run, other = (start(net, tokens(random.Random(2)), name) for name in (QUICK, "lookup"))
    place = net.layout["mem"]
    for position in (0, 3, 9):
        for each in (run, other):
            each.put(position, place.start, [1, 0, 1, 1])
        assert (run.row(position) == other.row(position)).all()
    dims = tuple(range(place.start, place.stop))
    assert (run.words(dims) == other.words(dims)).all() and (run.words(dims[1:3]) == other.words(dims[1:3])).all()
    with pytest.raises(kl.NotSupported, match="cannot change"):
        run.put(2, net.layout["address"].start, [1])


def test_units_are_grouped_once_each():
    """Whatever the weights are, every unit is in one group, and lanes are the same unit moved."""
    chance = random.Random(7)
    for _ in range(200):
        units = [random_unit(chance) for _ in range(chance.randrange(1, 12))]
        units += [Unit(((5 + k, 1), (40, -1)), 1, ((60 + k, 1),)) for k in range(chance.randrange(8))]
        units += [Unit(tuple((70 + j, 1 << j) for j in range(k + 2)), 1 << k, ((90 + k, 1),)) for k in range(4)]
        units = list(dict.fromkeys(units))
        groups = list(grouped(units))
        inside = [unit for group in groups for unit in (group.units if isinstance(group, (Lanes, Sums)) else [group])]
        assert sorted(inside, key=repr) == sorted(units, key=repr)
        for group in groups:
            if isinstance(group, Lanes):
                assert len({(unit.threshold, unit.weights) for unit in group.units}) == 1
                dims = np.array([[dim for dim, _ in unit.reads] for unit in group.units])
                assert (np.diff(dims, axis=0) == group.steps).all()


def random_unit(chance):
    dims = sorted(chance.sample(range(20), chance.randrange(1, 5)))
    reads = tuple((dim, chance.choice([-2, -1, 1, 1, 2, 4])) for dim in dims)
    return Unit(reads, chance.randrange(-2, 4), tuple((dim + 60, chance.choice([-1, 1])) for dim in dims[:2]))


class Scratch(kl.Program):
    """One row works, on cats and words with every kind of update; the others only hold a word."""

    tokens, positions, layers = 8, 8, 40
    here = kl.word(3, position=lambda p: p)
    first = kl.cat(2, position=lambda p: p == 0)
    held = kl.word(3, token=lambda t: t)
    a = kl.word(3)
    b = kl.word(3)
    mode = kl.cat(5)
    look = kl.attend(b, here, held, into=a, where={first: 1})
    output = held

    @kl.layer(look)
    def one(z):
        if z.first:
            z.b = (z.b + z.a + 1) % 8 if z.mode < 3 else z.b ^ z.a
            z.mode = (z.mode + 2) % 5

    @kl.layer()
    def two(z):
        if z.first and z.mode == 1:
            z.b = z.a[::-1]

    cycle = (one, two)


@pytest.mark.parametrize("evaluator", LANES)
def test_any_program_with_one_working_row(evaluator):
    net = kl.compile(Scratch)
    for seed in range(3):
        given = [random.Random(seed).randrange(8) for _ in range(8)]
        wanted, _ = residuals(net, given, "dense", 40)
        found, _ = residuals(net, given, evaluator, 40)
        assert len(found) == 40 and all(map(torch.equal, found, wanted))
