"""Evaluators on whole numbers refuse what they would not evaluate faithfully."""

from __future__ import annotations

import copy
import random

import pytest
import torch

import kleene as kl
from kleene.drivers.subleq import computer_network
from kleene.networks.transformer.evaluators import start

LAYERS = 12


def _tokens() -> list[int]:
    return kl.library.computer(4).encode([9, 10, 3, 11, 11, -1, 0, 0, 0, 7, 3, 0])


def _residuals(net, evaluator):
    """The residual stream after each layer; None where the evaluator refuses, or finds nothing."""
    found = []
    try:
        run = start(net, _tokens(), evaluator)
        for _ in range(LAYERS):
            ended = run.run(1)
            found.append(run.residual())
            if ended == "halted":
                break
    except (kl.NotSupported, kl.RangeError):
        return None
    return found


def _changed(net, chance, by):
    """The network with one weight that is not zero changed."""
    other = copy.deepcopy(net)
    block = other.blocks[chance.randrange(len(other.blocks))]
    names = ("in1", "bias1", "out1", "in2", "bias2", "out2", "value", "out")
    weight = getattr(block, chance.choice([name for name in names if getattr(block, name).any()]))
    at = tuple(torch.nonzero(weight)[chance.randrange(int(torch.count_nonzero(weight)))].tolist())
    with torch.no_grad():
        weight[at] += by
    return other


@pytest.mark.parametrize("by", [0.25, -0.5, 1.0, -1.0, 2.0])
def test_a_changed_weight_is_evaluated_as_dense_does_or_refused(by):
    net, chance, refused = computer_network(4), random.Random(0), 0
    for _ in range(15):
        other = _changed(net, chance, by)
        wanted = _residuals(other, "dense")
        for evaluator in ("rows", "lookup"):
            found = _residuals(other, evaluator)
            refused += found is None
            assert found is None or all(map(torch.equal, found, wanted)), evaluator
    assert refused > 0


@pytest.mark.parametrize("evaluator", ["lookup", "generated"])
def test_weights_that_are_no_whole_numbers_are_refused(evaluator):
    net = copy.deepcopy(computer_network(4))
    with torch.no_grad():
        net.blocks[0].bias2[0] += 0.25
    with pytest.raises(kl.NotSupported, match="bias2 of block 0 has weights that are not whole numbers; use 'dense'"):
        start(net, _tokens(), evaluator)


def test_a_row_that_works_is_looked_at_too():
    """Units that write 2 where they should write 1: the row is no row of bits any more."""
    net, said = computer_network(4), set()
    for number in range(len(net.blocks)):
        for at in torch.nonzero(net.blocks[number].out2 > 0).tolist():
            other = copy.deepcopy(net)
            with torch.no_grad():
                other.blocks[number].out2[tuple(at)] += 1
            try:
                start(other, _tokens(), "lookup").run(3)
            except kl.NotSupported as error:
                said.add(str(error).partition(" a row ")[2])
    assert "that works holds something else than zeros and ones; use 'dense'" in said


class OwnRow(kl.Program):
    """A cycle whose only head looks at its own row: there is nothing to look up."""

    tokens, layers = 2, 2
    a = kl.cat(2, token=lambda t: t)
    b = kl.cat(2)
    c = kl.cat(2, token=lambda t: t)
    put = kl.relative(a, 0, into=b, where={c: 1})
    output = b

    @kl.layer(put)
    def one(z):
        z.a = 1 - z.a

    @kl.layer()
    def two(z):
        pass

    cycle = (one, two)


@pytest.mark.parametrize("evaluator", [None, "dense", "rows", "lookup", "generated"])
def test_heads_that_look_at_their_own_row_run_on_every_evaluator(evaluator):
    net = kl.compile(OwnRow)
    assert net.run([0, 1, 1], evaluator=evaluator) == OwnRow.run([0, 1, 1])
    assert net.run([0, 1] * 2000, evaluator=evaluator if evaluator in (None, "dense") else None) == [0, 1] * 2000


def test_checked_decoders_look_at_heads_that_write_into_variables():
    class Writes(kl.Program):
        tokens, layers, max_tokens = 3, 1, 2
        a = kl.cat(3, token=lambda t: t)
        b = kl.cat(3)
        wanted = kl.cat(3, default=1)
        put = kl.attend(wanted, a, a, into=b)
        output = b

        def step(z):
            pass

    report = kl.verify(Writes, kl.compile(Writes), lengths=range(1, 4))
    assert report.holds and report.checked == 39, report
    with pytest.raises(kl.UndefinedRead, match="'put' at position 0 in layer 1, where the head selects nothing"):
        kl.compile(Writes).run([0, 1], check=True)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("layers", [1, 2, 4])
def test_an_encoder_may_have_fewer_layers_than_its_cycle(layers, shared):
    net = kl.compile(OwnRow, shape="encoder", layers=layers, shared=shared)
    assert net.run([0, 1, 1]) == OwnRow.run([0, 1, 1], layers=layers)
    assert kl.certify(net).holds


class Follows(kl.Program):
    """A decoder: what followed the last occurrence of the last token, plus the share of ones so far."""

    tokens, layers, max_tokens, stop = 4, 3, 7, 3
    here = kl.cat(4, token=lambda t: t)
    before = kl.cat(5, default=4)
    sought = kl.cat(5, token=lambda t: t)
    ready = kl.cat(3, saturate=True)
    ones = kl.num([0, 1], token=lambda t: t == 1)
    left = kl.relative(here, -1, default=0)
    found = kl.attend(sought, before, here, default=2, latest=True)
    share = kl.attend(None, None, ones, output=kl.num([0, 0.5, 1]))
    output = here

    def step(z):
        if z.ready == 0:
            z.before = z.left
        elif z.ready == 1:
            z.here = (z.found + (z.share == 1)) % 4
        z.ready = z.ready + 1


@pytest.mark.parametrize("program", [Follows, kl.library.parity_scratchpad(6)])
def test_decoders_run_alike_in_batches_and_one_by_one(program):
    net, chance = kl.compile(program), random.Random(3)
    inputs = [[chance.randrange(3) for _ in range(chance.randint(1, 6))] for _ in range(60)]
    if program is not Follows:
        inputs = [program.sample(chance, chance.randint(1, 6)) for _ in range(60)]
    wanted = [program.run(tokens) for tokens in inputs]
    for options in ({"evaluator": "sparse"}, {"evaluator": "dense"}, {}, {"check": True}):
        made = net.run_batch(inputs, **options)
        assert made == wanted and [one.layers for one in made] == [one.layers for one in wanted], options
    assert net.decode_batch(inputs, cached=False, evaluator="dense") == wanted
    assert kl.verify(program, net, inputs=inputs, evaluator="sparse").holds


@pytest.mark.parametrize("evaluator", ["sparse", "dense"])
def test_a_decoder_that_runs_out_of_positions_says_so(evaluator):
    net = kl.compile(Follows, length=5)
    assert net.run([3, 3, 3, 3], evaluator=evaluator) == Follows.run([3, 3, 3, 3])
    with pytest.raises(kl.InputError, match="longest allowed has 5"):
        net.run_batch([[3], [0, 1, 2, 0, 1]], evaluator=evaluator)


def test_a_decoder_runs_dense_or_sparse():
    with pytest.raises(kl.NotSupported, match="'dense' or 'sparse', not 'rows'"):
        kl.compile(Follows).run([0], evaluator="rows")


class Placed(kl.Program):
    """Where a position is, in binary, from 5 on."""

    tokens = 2
    positions = 9
    place = kl.word(4, position=kl.counting(5))
    third = kl.cat(3, position=lambda p: p % 3)
    result = kl.cat(16)
    output, layers = result, 1

    def step(z):
        z.result = z.place[0:4] if z.third else 0


class Continues(Placed):
    """A decoder that appends where it is."""

    tokens = 16
    causal, stop, max_tokens = True, 13, 3

    def step(z):
        z.result = z.place[0:4]


@pytest.mark.parametrize("evaluator", ["dense", "sparse"])
def test_counted_positions_run_on_every_evaluator(evaluator):
    """Nothing in the weights says where positions are counted from: the config does."""
    net, wanted = kl.compile(Placed), [0, 6, 7, 0, 9, 10, 0, 12, 13]
    for size in range(1, 10):
        assert net.run([1] * size, evaluator=evaluator) == Placed.run([1] * size) == wanted[:size]
    batch = [[0] * size for size in (1, 9, 3)]
    assert net.run_batch(batch, evaluator=evaluator) == [Placed.run(row) for row in batch]
    decoder = kl.compile(Continues)
    assert decoder.run([3, 3], evaluator=evaluator) == Continues.run([3, 3]) == [6, 7, 8]


@pytest.mark.parametrize("evaluator", ["dense", "sparse", "rows", "lookup", "generated"])
def test_evaluators_run_a_program_without_heads(evaluator):
    class Alone(kl.Program):
        tokens, layers = 8, 3
        w = kl.word(3, token=lambda t: t)
        output = w

        def step(z):
            z.w = (z.w + 3) % 8

    assert kl.compile(Alone).run([0, 5, 7], evaluator=evaluator) == [1, 6, 0]


class Limited(kl.Program):
    """A head whose only query and key are limits on one variable of four values."""

    tokens = 4
    here = kl.cat(4, token=lambda t: t)
    found = kl.count(most=9, where={here: 1}, among={here: 2})
    result = kl.cat(10)
    output, layers = result, 1

    def step(z):
        z.result = z.found


def test_limits_on_one_variable_are_no_word_to_compare():
    net, chance = kl.compile(Limited), random.Random(0)
    inputs = [[chance.randrange(4) for _ in range(chance.randint(1, 9))] for _ in range(20)]
    assert net.run_batch(inputs) == net.run_batch(inputs, evaluator="dense") == [Limited.run(row) for row in inputs]
    with pytest.raises(kl.NotSupported, match="do not run sparse"):
        net.run_batch(inputs, evaluator="sparse")
