"""Programs with a cycle of layers, heads that write into variables, and limits of heads."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
import torch

import kleene as kl


class Mailbox(kl.Program):
    """Odd positions hold letters, even ones addresses: fetch what an address points at, then add one to it there."""

    tokens = 5
    positions = 6
    here = kl.cat(6, position=lambda p: p)
    asks = kl.cat(2, position=lambda p: p == 0)
    value = kl.cat(5, token=lambda t: t)
    wanted = kl.cat(6, token=lambda t: t)
    got = kl.cat(5)
    was = kl.cat(5)
    done = kl.cat(2, position=lambda p: p != 0)

    look = kl.attend(wanted, here, value, into=got, where={asks: 1})
    note = kl.attend(wanted, here, value, into=was, where={asks: 1})
    deliver = kl.attend(here, wanted, got, into=value, replacing=was, among={asks: 1})
    output = value
    halt = {done: 1}

    @kl.layer(look, note)
    def fetch(z):
        if z.asks:
            z.got = (z.got + 1) % 5

    @kl.layer(deliver)
    def store(z):
        if z.asks:
            z.wanted = z.got
            z.done = z.got == 0

    cycle = (fetch, store)


def mail(chance, length):
    return [chance.randrange(5) for _ in range(length)]


def test_interpreter():
    output = Mailbox.run([1, 4, 0, 0, 0, 0])
    assert output == [1, 0, 0, 0, 0, 0] and output.layers == 2


@pytest.mark.parametrize("lowering", ["thresholds", "rules"])
def test_everything_agrees(lowering):
    net = kl.compile(Mailbox, lowering=lowering)
    chance = random.Random(0)
    inputs = [mail(chance, chance.randint(1, 6)) for _ in range(200)]
    report = kl.verify(Mailbox, net, inputs=inputs, max_layers=50)
    assert report.holds and report.raised
    assert kl.verify(kl.guarded_updates(Mailbox), net, inputs=inputs, max_layers=50).holds
    assert kl.certify(net).holds
    assert kl.decompile(net) == kl.guarded_updates(Mailbox)


def test_save_and_load(tmp_path):
    net = kl.compile(Mailbox)
    net.save(tmp_path / "net")
    again = kl.load(tmp_path / "net")
    assert again.run([1, 4, 0, 0, 0, 0]) == net.run([1, 4, 0, 0, 0, 0]) == [1, 0, 0, 0, 0, 0]
    assert kl.certify(again).holds and again.config == net.config


def test_traces_agree():
    net, tokens = kl.compile(Mailbox), [1, 2, 3, 2, 2, 2]
    assert kl.explain(net, tokens).to_json() == Mailbox.trace(tokens).to_json()


def test_a_changed_weight_is_not_certified():
    for name in ("value", "query", "out", "in2", "null_score"):
        net = kl.compile(Mailbox)
        block = net.blocks[0]
        with torch.no_grad():
            flat = getattr(block, name).view(-1)
            flat[int(torch.nonzero(flat)[0])] += 1024 if name == "null_score" else 1
        assert not kl.certify(net).holds, name


def test_a_cleared_variable_that_is_not_cleared_shows():
    net = kl.compile(Mailbox)
    head = net.blocks[0].heads.index("clear got+was")
    with torch.no_grad():
        net.blocks[0].value[head] = 0
        net.blocks[0].out[head] = 0
    with pytest.raises(kl.NotExact, match="is not removed"):
        kl.decompile(net)


class Exchange(kl.Program):
    """Sorts by exchanges, of even pairs and odd pairs by turns, until none is made in two layers."""

    tokens = 4
    positions = 12
    value = kl.cat(4, token=lambda t: t)
    odd = kl.cat(2, position=lambda p: p % 2)
    moved = kl.cat(2)
    still = kl.cat(2)
    left, right = kl.relative(value, -1, default=0), kl.relative(value, 1, default=3)
    moving = kl.attend(None, None, moved, output=kl.num([0, Fraction(1, 12), 1]))
    output, halt = value, {still: 1}

    @kl.layer(left, right, moving)  # `moving` is not read here, and leaves nothing behind
    def even_pairs(z):
        z.still = 0
        z.moved = 0
        other = z.left if z.odd else z.right
        if other > z.value if z.odd else other < z.value:
            z.value, z.moved = other, 1

    @kl.layer(left, right, moving)
    def odd_pairs(z):
        other = z.right if z.odd else z.left
        if other < z.value if z.odd else other > z.value:
            z.value, z.moved = other, 1
        elif z.moving == 0:
            z.still = 1

    cycle = (even_pairs, odd_pairs)


@pytest.mark.parametrize("lowering", ["thresholds", "rules"])
def test_a_cycle_that_reads_an_average_in_one_of_its_layers(lowering):
    net, chance = kl.compile(Exchange, lowering=lowering), random.Random(0)
    inputs = [[chance.randrange(4) for _ in range(chance.randint(1, 12))] for _ in range(200)]
    assert kl.verify(Exchange, net, inputs=inputs).holds
    assert kl.certify(net).holds and kl.decompile(net) == kl.guarded_updates(Exchange)
    dense = net.run_batch(inputs, evaluator="dense")
    sparse = net.run_batch(inputs, evaluator="sparse")  # each sequence for as long as it takes
    assert dense == sparse == [sorted(tokens) for tokens in inputs]
    assert [output.layers for output in dense] == [output.layers for output in sparse]
    assert len({output.layers for output in sparse}) > 3
    assert net.run_batch(inputs, layers=5, evaluator="sparse") == net.run_batch(inputs, layers=5, evaluator="dense")
    with pytest.raises(kl.DidNotHalt, match="within 3 layers"):
        net.run_batch(inputs, max_layers=3, evaluator="sparse")


def test_a_head_of_another_layer_is_not_read():
    class Other(kl.Program):
        tokens = 2
        layers = 2
        x = kl.cat(2, token=lambda t: t)
        left, right = kl.relative(x, -1, default=0), kl.relative(x, 1, default=0)
        output = x

        @kl.layer(left)
        def one(z):
            z.x = z.left

        @kl.layer(right)
        def two(z):
            z.x = z.left

        cycle = (one, two)

    for act in (lambda: Other.run([0, 0]), lambda: kl.compile(Other)):
        with pytest.raises(kl.ProgramError, match="reads 'left', which is not a head of its layer"):
            act()


@pytest.mark.parametrize("evaluator", ["rows", "lookup", "generated"])
def test_lookups_by_value_do_not_run_by_rows(evaluator):
    class Find(kl.Program):
        tokens = 6
        positions = 6
        layers = 2
        x, here = kl.cat(6, token=lambda t: t), kl.cat(6, position=lambda p: p)
        found = kl.attend(x, here, x)
        output = x

        def step(z):
            z.x = z.found

    with pytest.raises(kl.NotSupported, match=r"does not match bits|looks"):
        kl.compile(Find).run([1, 0], evaluator=evaluator)


def test_reading_a_head_that_writes_is_refused():
    class Wrong(kl.Program):
        tokens = 2
        x = kl.cat(2, token=lambda t: t)
        y = kl.cat(2)
        left = kl.relative(x, -1, default=0, into=y)
        output = y
        layers = 1

        def step(z):
            z.x = z.left

    with pytest.raises(kl.ProgramError, match="read 'y'"):
        Wrong.run([1, 0])


class Defaults(kl.Program):
    """Moves that select alike, with defaults of their own; one of them does not write everywhere."""

    tokens = 3
    layers = 2
    digit, odd = kl.cat(3, token=lambda t: t), kl.cat(2, token=lambda t: t % 2)
    number = kl.word(3, token=lambda t: t)
    digit_left, odd_left = kl.cat(3), kl.cat(2, default=1)
    number_left, kept = kl.word(3), kl.cat(3, default=1)
    a = kl.relative(digit, -1, default=2, into=digit_left)
    b = kl.relative(odd, -1, default=0, into=odd_left, where={odd: 1})
    c = kl.relative(number, -1, default=2, into=number_left)
    d = kl.relative(digit, -1, default=0, into=kept, where={odd: 1})
    total = kl.cat(3)
    output = total

    def step(z):
        z.total = (z.digit_left + z.odd_left + z.kept + (z.number_left >= 2)) % 3


def test_a_default_is_written_where_the_head_writes_and_nowhere_else():
    net = kl.compile(Defaults)
    assert kl.verify(Defaults, net, lengths=range(1, 6)).holds
    assert kl.certify(net).holds and kl.decompile(net) == kl.guarded_updates(Defaults)
    with torch.no_grad():
        net.blocks[0].null_value[net.blocks[0].heads.index("clear odd_left+kept")] *= -1
    assert not kl.certify(net).holds


def test_into_without_a_cycle():
    class Shift(kl.Program):
        tokens = 3
        x = kl.cat(3, token=lambda t: t)
        left = kl.relative(x, -1, default=2, into=x)
        output = x
        layers = 2

        def step(z):
            z.x = (z.x + 1) % 3

    net = kl.compile(Shift)
    assert Shift.run([0, 1, 2]) == net.run([0, 1, 2]) == [0, 1, 2]
    assert kl.verify(Shift, net, lengths=range(1, 6)).holds and kl.certify(net).holds
    assert kl.decompile(net) == kl.guarded_updates(Shift)


def test_limits_of_ordinary_heads():
    class Marked(kl.Program):
        """Each position that asks gets the value of the one marked position."""

        tokens = 8
        value = kl.cat(2, token=lambda t: t & 1)
        asks = kl.cat(2, token=lambda t: t >> 1 & 1)
        marked = kl.cat(2, token=lambda t: t >> 2)
        found = kl.attend(value, value, value, where={asks: 1}, among={marked: 1}, default=0)
        output = value
        layers = 1

        def step(z):
            z.value = z.found

    net = kl.compile(Marked)
    assert kl.verify(Marked, net, lengths=range(1, 4)).holds and kl.certify(net).holds
    assert kl.decompile(net).spec == Marked.spec


def test_wrong_replacement_is_the_same_everywhere():
    class Careless(kl.Program):
        tokens = 3
        x = kl.cat(3, token=lambda t: t)
        zero = kl.cat(3)
        two = kl.cat(3, default=2)
        swap = kl.attend(x, x, zero, into=x, replacing=two)
        output = x
        layers = 1

        def step(z):
            z.x = z.x

    net = kl.compile(Careless)
    for run in (Careless.run, lambda t: net.run(t, check=True)):
        with pytest.raises(kl.WrongReplacement, match="'swap' writes into 'x' at position 0 in layer 1"):
            run([1, 2])
    assert kl.verify(kl.guarded_updates(Careless), net, lengths=range(1, 4)).holds


@pytest.mark.parametrize(
    "body, message",
    [
        ({"again": lambda x, y: kl.relative(x, 1, into=y, default=0)}, "write into 'y' in the same layer"),
        (
            {"left": lambda x, y: kl.relative(x, -1, default=0, where={y: 1}, into=y)},
            "which limits .* in the same layer",
        ),
        ({"left": lambda x, y: kl.relative(x, -1, default=0, where={y: 7})}, "not a value of a kl.cat"),
        ({"left": lambda x, y: kl.attend(x, x, y, replacing=y)}, "without into="),
        ({"left": lambda x, y: kl.attend(x, x, x, into=y, replacing=x)}, "with itself"),
        ({"cycle": lambda x, y: (1, 2)}, "@kl.layer"),
    ],
)
def test_errors(body, message):
    x, y = kl.cat(2, token=lambda t: t), kl.cat(2)
    attributes = {"tokens": 2, "x": x, "y": y, "left": kl.relative(x, -1, default=0, into=y), "output": y, "layers": 1}
    attributes |= {name: make(x, y) for name, make in body.items()}
    if "cycle" not in attributes:
        attributes["step"] = lambda z: None
    with pytest.raises(kl.ProgramError, match=message):
        type(kl.Program)("Bad", (kl.Program,), attributes)


def test_rules_speak_of_one_step():
    with pytest.raises(kl.NotSupported, match="cycle"):
        kl.rules(Mailbox)
