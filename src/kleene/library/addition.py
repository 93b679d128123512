"""Addition of two numbers of any length: in a universal transformer, and digit by digit in a decoder."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from kleene.common.text import Text
from kleene.errors import InputError
from kleene.library.encoding import TextProgram
from kleene.machines.declarations import attend, cat, relative

ADD, START, END = 10, 11, 12
INIT, ITERATE, DONE = 0, 1, 2


def random_sum(chance: Random, digits: int) -> str:
    """A sum of two random numbers of at most this many digits, as text."""
    return f"{chance.randrange(10**digits)}+{chance.randrange(10**digits)}"


def parse_sum(text: str) -> tuple[str, str]:
    """The two numbers of `34+56`, padded with zeros to the same number of digits."""
    parts = [part.strip() for part in text.split("+")]
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() for part in parts):
        raise InputError(f"'{text}' is not a sum of two whole numbers such as 34+56")
    width = max(map(len, parts))
    return parts[0].zfill(width), parts[1].zfill(width)


class addition(TextProgram):
    """Schoolbook addition: pointers walk left over both numbers, one digit in each layer. It takes N + 2 layers."""

    tokens = "0123456789+^="
    text = Text(start="^", end="=", align="+0", example="34+58", part=(None, -1), strip="0")
    token = cat(13, token=lambda t: t)
    stage = cat(3)
    ptr_a = cat(2)  # 1 at the next digit of the first number
    ptr_b = cat(2)
    ptr_out = cat(2)  # 1 where the next digit of the result goes
    carry = cat(10)
    value_out = cat(10)
    one = cat(2, default=1)
    token_right = relative(token, 1)
    ptr_a_right = relative(ptr_a, 1)
    ptr_b_right = relative(ptr_b, 1)
    ptr_out_right = relative(ptr_out, 1)
    ptr_a_token = attend(one, ptr_a, token)
    ptr_b_token = attend(one, ptr_b, token)
    output = value_out
    halt = {stage: DONE}

    @staticmethod
    def encode(text: str) -> list[int]:
        a, b = parse_sum(text)
        return [START, *map(int, a), ADD, *map(int, b), END]

    @staticmethod
    def sample(chance: Random, length: int) -> list[int]:
        return addition.encode(random_sum(chance, max(1, (length - 3) // 2)))

    @staticmethod
    def decode(outputs: Sequence[int]) -> str:
        return "".join(map(str, outputs[:-1])).lstrip("0") or "0"

    def step(z) -> None:
        if z.stage == INIT:
            if z.token != END:  # nothing stands to the right of END
                if z.token_right == END:
                    z.ptr_b = 1
                    z.ptr_out = 1
                if z.token_right == ADD:
                    z.ptr_a = 1
            z.stage = ITERATE
        elif z.stage == ITERATE:
            if z.ptr_a_token == START:  # every digit is added: the last carry is the first digit
                if z.ptr_out:
                    z.value_out = z.carry
                z.stage = DONE
            else:
                raw_sum = z.carry + z.ptr_a_token + z.ptr_b_token
                if z.ptr_out:
                    z.value_out = raw_sum % 10
                z.carry = raw_sum // 10
                if z.token != END:
                    z.ptr_out = z.ptr_out_right
                    z.ptr_a = z.ptr_a_right
                    z.ptr_b = z.ptr_b_right


def addition_scratchpad(digits: int = 8) -> type[TextProgram]:
    """A decoder: after `a+b=`, with equally many digits, it writes the digits of the sum, lowest first, and stops."""
    equals, end = 11, 12
    size = 3 * digits + 4

    class addition_scratchpad(TextProgram):
        tokens = "0123456789+=."
        text = Text(end="=", align="+0", example="34+58", omit=(".",), reverse=True, strip="0")
        positions = size
        stop = end
        max_tokens = digits + 2
        layers = 2
        token = cat(13, token=lambda t: t)
        index = cat(size, position=lambda p: p)
        is_add = cat(2, token=lambda t: t == ADD)
        is_equals = cat(2, token=lambda t: t == equals)
        one = cat(2, default=1)
        second = cat(2)  # whether this is the second layer
        at_a = cat(size)  # where the next digits are
        at_b = cat(size)
        before_a = cat(size)  # where the digits added last are
        before_b = cat(size)
        ended = cat(3)  # 0: digits are left, 1: the last carry is left, 2: nothing is
        result = cat(13)
        add_index = attend(one, is_add, index, default=0)
        equals_index = attend(one, is_equals, index, default=0)
        a = attend(at_a, index, token)
        b = attend(at_b, index, token)
        last_a = attend(before_a, index, token)
        last_b = attend(before_b, index, token)
        output = result

        @staticmethod
        def encode(text: str) -> list[int]:
            a, b = parse_sum(text)
            return [*map(int, a), ADD, *map(int, b), equals]

        @staticmethod
        def sample(chance: Random, length: int) -> list[int]:
            return addition_scratchpad.encode(random_sum(chance, min(digits, max(1, length // 2))))

        @staticmethod
        def decode(outputs: Sequence[int]) -> str:
            return str(int("".join(str(token) for token in reversed(outputs) if token != end)))

        def step(z) -> None:
            if not z.second:
                made = z.index - z.equals_index  # digits written so far
                z.at_a = (z.add_index - 1 - made) % size
                z.at_b = (z.equals_index - 1 - made) % size
                z.before_a = (z.add_index - made) % size
                z.before_b = (z.equals_index - made) % size
                left = z.equals_index - z.add_index - 1 - made
                z.ended = 0 if left > 0 else 1 if left == 0 else 2
                z.second = 1
            elif z.ended == 2:
                z.result = end
            else:
                carry = 0
                if z.token < 10:  # the digit written last tells its carry: a + b − digit is 9 or more
                    carry = 1 if z.last_a + z.last_b - z.token >= 9 else 0
                z.result = carry if z.ended else (z.a + z.b + carry) % 10

    return addition_scratchpad
