"""The SUBLEQ computer as a program: its random inputs."""

from __future__ import annotations

import random

import pytest

import kleene as kl


@pytest.mark.parametrize(("bits", "words"), [(4, None), (5, 9)])
def test_random_programs_halt_and_use_their_memory(bits: int, words: int | None) -> None:
    program, chance = kl.library.computer(bits, words=words), random.Random(0)
    for length in range(1, 2**bits):
        tokens = program.sample(chance, length)
        assert len(tokens) == length and tokens[0] == 0
        assert length < 8 or len(set(tokens)) > 2
        if length >= 5:
            assert program.run(tokens, max_layers=3 * length).layers % 3 == 0
