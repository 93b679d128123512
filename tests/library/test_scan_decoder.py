"""The SCAN decoder writes the actions of every command, as a program and inside stock models."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import kleene as kl
from kleene.machines.scan_grammar import commands, interpret
from stock_programs import FAMILIES


def some(count: int) -> list[str]:
    return ["turn around right thrice after jump opposite left twice", *Random(0).sample(commands(), count)]


def test_the_program_gives_the_actions() -> None:
    program = kl.library.scan_decoder()
    for command in some(12):
        assert program.decode(program.run(program.encode(f"{command} ="))) == interpret(command)


def right(net: Any, given: list[str]) -> None:
    made = net.run_batch([net.encode(f"{command} =") for command in given])
    assert [net.decode(tokens) for tokens in made] == [interpret(command) for command in given]


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_a_stock_model_gives_the_actions_and_is_certified(family: Any) -> None:
    net = kl.compile(kl.library.scan_decoder(), to=family, length=60)
    assert kl.certify(net).holds
    right(net, some(8 if family == "gpt2" else 20))


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_class_gives_the_actions_of_every_command(family: Any) -> None:
    net = kl.compile(kl.library.scan_decoder(), to=family, length=60)
    assert kl.certify(net).holds
    right(net, commands() if family == "llama" else some(500))
