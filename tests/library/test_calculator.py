"""The calculator shows its work: its lines are those of replacing text, and the last one is Python's value."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import pytest

import kleene as kl
from kleene.library.calculator import SYMBOLS, lines_of, random_expression
from stock_programs import FAMILIES


def value(text: str) -> int:
    return int(eval(re.sub(r"\d+", lambda found: str(int(found[0])), text)))


def said(program: Any, text: str) -> str:
    return str(program.decode(program.run(program.encode(f"{text}="))))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("12*(3-45)+6", "12*-42+6=(-84+1*-420)+6=(-84+-420)+6=-504+6=-498"),
        ("((5))", "(5)=5"),
        ("-0", "0"),
        ("3--4*-2", "3-8=-5"),
        ("99*99", "(891+9*990)=(891+8910)=9801"),
        ("100-100", "0"),
        ("1*(2)*3", "1*2*3=2*3=6"),
        ("99999+1", "?"),
        ("123456", "?"),
    ],
)
def test_lines(text: str, lines: str) -> None:
    assert "=".join(lines_of(text, 5)) == lines
    assert said(kl.library.calculator_decoder(), text) == lines


def test_the_lines_lead_to_the_value_that_python_gives() -> None:
    chance = Random(0)
    for _ in range(2000):
        text = random_expression(chance, chance.randrange(1, 20))
        last = lines_of(text, 12)[-1]
        assert int(last) == value(text)


def test_the_interpreter_writes_these_lines() -> None:
    program, chance = kl.library.calculator_decoder(3, 62), Random(1)
    for _ in range(12):
        text = program.decode(program.sample(chance, chance.randrange(1, 9)))[:-1]
        assert said(program, text) == "=".join(lines_of(text, 3))


def right_and_certified(family: Any, digits: int, length: int, count: int, longest: int) -> None:
    program, chance = kl.library.calculator_decoder(digits, length), Random(2)
    net = kl.compile(program, to=family, length=length)
    assert net.sizes.layers <= 24
    certificate = kl.certify(net)
    assert certificate.holds, certificate.reasons
    inputs = [program.sample(chance, chance.randrange(1, longest)) for _ in range(count)]
    for tokens, made in zip(inputs, net.run_batch(inputs), strict=True):
        text = "".join(SYMBOLS[token] for token in tokens[:-1])
        assert net.decode(made) == "=".join(lines_of(text, digits))
        assert int(net.decode(made).split("=")[-1]) == value(text)


def test_a_llama_that_calculates() -> None:
    right_and_certified("llama", 2, 30, 12, 7)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_class_calculates(family: Any) -> None:
    right_and_certified(family, 3, 62, 100, 10)


def test_limits_are_checked() -> None:
    with pytest.raises(kl.InputError, match="digits=9; it takes 2 to 7"):
        kl.library.calculator_decoder(9)
    with pytest.raises(kl.InputError, match="length=8; it takes 16"):
        kl.library.calculator_decoder(5, 8)
