"""Decompiling programs that work on bits and slices of words, on wide sums, and in two steps a layer."""

from __future__ import annotations

import pytest
import torch

import kleene as kl
from kleene.drivers.riscv import riscv_network


def on_bits(line: str):
    namespace = {"kl": kl}
    exec(
        "class Bits(kl.Program):\n"
        "    tokens, layers = 64, 2\n    a = kl.word(40, token=lambda t: t**7 % 2**40)\n"
        "    b = kl.word(11, token=lambda t: t**3 % 2**11)\n    c = kl.word(13, token=lambda t: t**2)\n"
        "    f = kl.cat(2)\n    output = f\n"
        f"    def step(z):\n        {line}\n",
        namespace,
    )
    return namespace["Bits"]


@pytest.mark.parametrize(
    "line",
    [
        "z.f = 1 if z.c[9:13] + z.c[7:13] == z.c[8] else 0",  # the reader once said 1 everywhere
        "z.f = 1 if z.a < z.b else 0",
        "z.b = z.c[2:13] ^ z.b",
        "z.a = (z.a + z.c) % 2**40",
        "z.b = (z.c[3:9] + 1) % 2**11",
    ],
)
def test_updates_on_bits_are_proved(line):
    program = on_bits(line)
    net = kl.compile(program)
    assert kl.decompile(net) == kl.guarded_updates(program)
    weights = net.block(0).out2
    place = tuple(torch.nonzero(weights)[0].tolist())
    weights[place] += 1 if weights[place] != -1 else 2
    with pytest.raises(kl.NotExact, match="the weights do not compute the saved updates"):
        kl.decompile(net)


def test_whole_words_are_read_from_the_weights():
    """A changed weight gives other updates, not an error."""

    class Add(kl.Program):
        tokens, layers = 16, 1
        a = kl.word(4, token=lambda t: t)
        b = kl.word(4, token=lambda t: t)
        output = a

        def step(z):
            z.a = (z.a + z.b) % 16

    assert kl.decompile(kl.compile(Add)) == kl.guarded_updates(Add)


@pytest.mark.slow
def test_the_riscv_computer_is_decompiled():
    assert kl.decompile(riscv_network(64)) == kl.guarded_updates(kl.library.riscv(64))
