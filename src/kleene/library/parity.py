"""Parity in three ways, as in the ALTA paper, and with a scratchpad."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from random import Random

from kleene.common.text import Text
from kleene.library.encoding import TextProgram
from kleene.machines.declarations import attend, cat, num, relative

START = 2
BITS = Text(start="^", example="1011", part=(-1, None))  # the answer is the output of the last position


def bits_after_start(text: str) -> list[int]:
    """Convert a text of 0s and 1s to tokens, with START first."""
    return [START, *bits(text)]


def bits(text: str) -> list[int]:
    """Convert a text of 0s and 1s to tokens."""
    from kleene.errors import InputError

    for place, letter in enumerate(text):
        if letter not in "01":
            raise InputError(f"'{text}': the character {letter!r} at place {place} is not 0 or 1")
    return [int(letter) for letter in text]


def random_bits_after_start(chance: Random, length: int) -> list[int]:
    """START and random bits, `length` tokens in all."""
    return [START, *(chance.randrange(2) for _ in range(length - 1))]


def last_bit(outputs: Sequence[int]) -> str:
    """The parity of the whole input: the last position's output."""
    return str(outputs[-1])


class parity_relative(TextProgram):
    """Running parity by relative attention, one position in each layer. It halts when every position is done."""

    tokens = "01^"
    text = BITS
    parity = cat(2, token=lambda t: 0 if t == START else t)
    done = cat(2, token=lambda t: t == START)
    parity_left = relative(parity, -1)
    done_left = relative(done, -1)
    output = parity
    halt = {done: 1}
    encode, decode = staticmethod(bits_after_start), staticmethod(last_bit)
    sample = staticmethod(random_bits_after_start)

    def step(z) -> None:
        if not z.done and z.done_left:
            z.parity = z.parity_left ^ z.parity
            z.done = 1


def parity_absolute(length: int = 50) -> type[TextProgram]:
    """Running parity by absolute positions (the paper's Figure 2), for inputs of up to `length` bits."""

    class parity_absolute(TextProgram):
        tokens = "01"
        text = Text(example="1011", part=(-1, None))
        positions = length
        parity = cat(2, token=lambda t: t)
        done = cat(2, position=lambda p: p == 0)
        index = cat(length, position=lambda p: p)
        index_left = cat(length, position=lambda p: max(0, p - 1))
        parity_left = attend(index_left, index, parity)
        done_left = attend(index_left, index, done)
        output = parity
        halt = {done: 1}
        encode, decode = staticmethod(bits), staticmethod(last_bit)

        def step(z) -> None:
            if not z.done and z.done_left:
                z.parity = z.parity_left ^ z.parity
                z.done = 1

    return parity_absolute


def parity_sum(length: int = 50) -> type[TextProgram]:
    """Parity in one layer: the share of START among START and the ones is 1 / (1 + ones)."""

    class parity_sum(TextProgram):
        tokens = "01^"
        text = BITS
        positions = length + 1
        parity = cat(2)
        start = num([0, 1], token=lambda t: t == START)
        start_or_one = cat(2, token=lambda t: t in (1, START))
        query = cat(2, default=1)
        share = attend(query, start_or_one, start, output=num(Fraction(1, ones + 1) for ones in range(length + 1)))
        output = parity
        layers = 1
        encode, decode = staticmethod(bits_after_start), staticmethod(last_bit)
        sample = staticmethod(random_bits_after_start)

        def step(z) -> None:
            ones = round(1 / z.share) - 1
            z.parity = ones % 2

    return parity_sum


def parity_count(length: int = 50, scale: int = 1000, mask: bool = True) -> type[TextProgram]:
    """Parity in two layers: count the ones, then look up their parity (appendix D.1 of the paper).

    - `length`: the longest input.
    - `scale`: multiply the share of START that `parity_sum` has, so that its values are further apart than noise.
    - `mask`: whether the head selects nothing in the second layer.

    The paper's own program is `parity_count(length, scale=1, mask=False)`; the defaults are easier to learn from noisy
    traces.
    """
    later = 2 if mask else 1

    class parity_count(TextProgram):
        tokens = "01^"
        text = BITS
        positions = length + 1
        parity = cat(2)
        counted = cat(2)
        ones = cat(length + 1)
        start = num([0, scale], token=lambda t: scale * (t == START))
        start_or_one = cat(3, token=lambda t: t in (1, START))
        query = cat(3, default=1)
        share = attend(query, start_or_one, start, output=num(Fraction(scale, k + 1) for k in range(length + 1)))
        output = parity
        layers = 2
        encode, decode = staticmethod(bits_after_start), staticmethod(last_bit)
        sample = staticmethod(random_bits_after_start)

        def step(z) -> None:
            if z.counted:
                z.parity = z.ones % 2
            else:
                z.ones = round(scale / z.share) - 1
                z.counted = 1
                z.query = later  # 2 selects nothing: the head would make `scale` of a learned step's imprecision

    return parity_count


def parity_scratchpad(length: int = 20) -> type[TextProgram]:
    """A decoder: after the bits and `=` it writes the running parities, one for each token, and stops."""
    equals, end = 2, 3

    class parity_scratchpad(TextProgram):
        tokens = "01=."
        text = Text(end="=", example="1011", omit=(".",))
        positions = 2 * length + 1
        stop = end
        max_tokens = length + 1
        layers = 2
        token = cat(4, token=lambda t: t)
        index = cat(2 * length + 1, position=lambda p: p)
        is_equals = cat(2, token=lambda t: t == equals)
        one = cat(2, default=1)
        source = cat(2 * length + 1)
        second = cat(2)  # whether this is the second layer
        result = cat(4)
        equals_index = attend(one, is_equals, index, default=0)
        bit = attend(source, index, token)
        output = result

        @staticmethod
        def encode(text: str) -> list[int]:
            return [*bits(text), equals]

        @staticmethod
        def sample(chance: Random, size: int) -> list[int]:
            return [*(chance.randrange(2) for _ in range(min(size, length))), equals]

        @staticmethod
        def decode(outputs: Sequence[int]) -> str:
            return "".join(str(token) for token in outputs if token != end)

        def step(z) -> None:
            if not z.second:
                z.source = (z.index - z.equals_index) % (2 * length + 1)
                z.second = 1
            elif z.bit >= equals:  # every bit has been used
                z.result = end
            else:
                before = 0 if z.token == equals else z.token
                z.result = (before + z.bit) % 2

    return parity_scratchpad
