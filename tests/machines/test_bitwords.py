"""Numbers of a known width: bits, slices, and what keeps the width."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kleene.errors import ProgramError
from kleene.lowering.bit_functions import cubes
from kleene.lowering.words import concat, extend
from kleene.machines.bitwords import BitWord


@given(st.integers(0, 2**16 - 1), st.integers(0, 15), st.integers(0, 16))
def test_bits_and_slices_are_those_of_the_number(value, first, second):
    word = BitWord(value, 16)
    assert word[first] == value >> first & 1 and word[first].bits == 1
    low, high = sorted((first, second))
    assert word[low:high] == value >> low & (1 << (high - low)) - 1
    assert concat(word[0:low], word[low:16]) == word and (~word) + word == 2**16 - 1
    assert word[::-1] == int(f"{value:016b}"[::-1], 2)


@given(st.integers(-128, 127))
def test_sign_extension_keeps_the_signed_number(value):
    assert extend(BitWord(value % 256, 8), 32) == value % 2**32


def test_sums_have_no_width_until_they_are_taken_modulo():
    with pytest.raises(ProgramError, match="take it % 2\\*\\*bits first"):
        (BitWord(3, 4) + 1)[0]
    assert ((BitWord(15, 4) + 3) % 16)[0:2] == 2


@given(st.lists(st.booleans(), min_size=16, max_size=16))
def test_cubes_cover_each_index_once(wanted):
    covered = [index for mask, values in cubes(wanted) for index in range(16) if index & mask == values]
    assert sorted(covered) == [index for index, one in enumerate(wanted) if one]
