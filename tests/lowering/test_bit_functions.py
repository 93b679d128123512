"""Bits, slices, bitwise operations, shifts and wide sums of words: interpreter, network and certificate agree."""

from __future__ import annotations

import random

import pytest
import torch

import kleene as kl

TABLE = kl.table([k * 5 % 8 for k in range(8)])


def machine(bits: int):
    size = 1 << bits

    class Machine(kl.Program):
        tokens = 8
        positions = 2
        a = kl.word(bits, default=random.Random(1).getrandbits(bits))
        b = kl.word(bits, default=random.Random(2).getrandbits(bits))
        c = kl.word(bits)
        kind = kl.cat(8, token=lambda t: t)
        output = kind
        layers = 9

        def step(z):
            after = (TABLE[z.a[1:4]] + z.kind) % 8
            if z.kind == 0:
                z.c = (z.a + z.b) % size
            elif z.kind == 1:
                z.a = (z.c - z.b - 1) % size
            elif z.kind == 2:
                z.c = (z.a & z.b) ^ (z.c | 5)
            elif z.kind == 3:
                z.b = z.a >> z.b[0:2] if z.c[1] else (z.a << 3) % size
            elif z.kind == 4:
                z.a = kl.concat(z.b[2:bits], ~z.b[0:2])
            elif z.kind == 5:
                z.c = kl.extend(z.a[0:3], bits) if z.b != 3 else z.a[::-1]
            elif z.kind == 6:
                z.a = (z.b - z.a) % size
            z.kind = after

    return Machine


@pytest.mark.parametrize("bits", [5, 24, 33])
def test_interpreter_and_network_agree_and_are_certified(bits):
    program = machine(bits)
    net = kl.compile(program)
    for token in range(8):
        trace, x = program.trace([token, 7 - token]), net.embed(torch.tensor([[token, 7 - token]]))
        for layer in range(9):
            x = net.block(layer)(x, torch.ones(1, 2, dtype=torch.bool))
            for position in range(2):
                for name in "abc":
                    held = x[0, position, net.layout[name].slice].tolist()
                    assert sum(int(bit) << k for k, bit in enumerate(held)) == trace.states[layer + 1][position][name]
    certificate = kl.certify(net)
    assert certificate.holds, certificate.reasons


def test_a_changed_carry_of_a_limb_is_refused():
    net = kl.compile(machine(24))
    block = net.block(0)
    limbs = [k for k, (_, why) in enumerate(net.description["units"][0]) if why.startswith("carry of a limb")]
    assert limbs
    block.bias1[limbs[0]] += 1
    certificate = kl.certify(net)
    assert not certificate.holds and "bit 16" in certificate.reasons[0]


def test_saved_updates_are_read_back(tmp_path):
    net = kl.compile(machine(5))
    net.save(tmp_path / "net")
    assert kl.certify(kl.load(tmp_path / "net")).holds
    updates = kl.guarded_updates(machine(5))
    assert kl.Updates.from_json(updates.spec, updates.to_json()) == updates


def test_a_word_of_62_bits_adds_in_float32():
    net = kl.compile(machine(62))
    assert max(float(p.abs().max()) for p in net.parameters() if p.numel()) < 2**24


def test_a_layer_with_two_steps_runs_them_one_after_the_other():
    class Two(kl.Program):
        tokens = 4
        positions = 1
        a = kl.word(2, token=lambda t: t)
        b = kl.word(2)
        n = kl.cat(3)
        wipe = kl.clear(b)
        output = n
        layers = 1

        @kl.layer(wipe)
        def first(z):
            z.b = ~z.a

        @first.then
        def second(z):
            if z.b[0]:
                z.n = 1
            if z.b[0:2] == 0:
                z.n = 2

        cycle = (second,)

    net = kl.compile(Two)
    assert [Two.run([t])[0] for t in range(4)] == [net.run([t])[0] for t in range(4)] == [1, 0, 1, 2]
    assert kl.certify(net).holds
