"""The classic programs of RASP: reverse, histogram, sort, most frequent, Dyck languages."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from kleene.common.text import Text
from kleene.errors import InputError
from kleene.library.encoding import TextProgram
from kleene.lowering.symbolic import table
from kleene.machines.declarations import attend, cat, num, relative, subset
from kleene.machines.program import Program


def reverse(length: int = 20, values: int = 20) -> type[Program]:
    """Reverse the input. The program finds the end of the input by itself."""

    class reverse(Program):
        tokens = values
        positions = length
        layers = 3
        value = cat(values, token=lambda t: t)
        index = cat(length, position=lambda p: p)
        one = cat(2, default=1)
        last = cat(2)
        mirror = cat(length)
        stage = cat(3)
        result = cat(values)
        one_right = relative(one, 1, default=0)
        last_index = attend(one, last, index)
        mirrored = attend(mirror, index, value)
        output = result

        def step(z) -> None:
            if z.stage == 0:
                z.last = not z.one_right
                z.stage = 1
            elif z.stage == 1:
                z.mirror = (z.last_index - z.index) % length
                z.stage = 2
            else:
                z.result = z.mirrored

    return reverse


def counting(length: int, values: int, wanted_sets: list[set[int]]) -> dict[str, Any]:
    """Declarations that count, at each position, the positions whose value is in a wanted set.

    Attention averages; an anchor turns averages into counts. Position 0 has the key `values`, which is in every wanted
    set. So the anchor is 1 / (1 + count) of the selected positions. The count excludes position 0, whose value is read
    separately.
    """
    value = cat(values, token=lambda t: t)
    index = cat(length, position=lambda p: p)
    zero = cat(length)
    key = cat(values + 1)
    wanted = subset(values + 1, wanted_sets)
    anchor = num([0, 1], position=lambda p: p == 0)
    shares = num(Fraction(1, count + 1) for count in range(length))
    return {
        "value": value,
        "index": index,
        "zero": zero,
        "key": key,
        "wanted": wanted,
        "anchor": anchor,
        "share": attend(wanted, key, anchor, output=shares),
        "first_value": attend(zero, index, value),
    }


def histogram(length: int = 20, values: int = 20) -> type[Program]:
    """Count, at each position, how often its value occurs in the input."""
    sets = [{value, values} for value in range(values)]
    made = counting(length, values, sets)

    class histogram(Program):
        tokens = values
        positions = length
        layers = 2
        value, index, zero, key = made["value"], made["index"], made["zero"], made["key"]
        wanted, anchor, share, first_value = made["wanted"], made["anchor"], made["share"], made["first_value"]
        counts = cat(length + 1)
        second = cat(2)
        output = counts

        def step(z) -> None:
            if not z.second:
                z.key = values if z.index == 0 else z.value
                z.wanted = table(sets)[z.value]
                z.second = 1
            else:
                others = round(1 / z.share) - 1
                z.counts = others + 1 if z.first_value == z.value else others

    return histogram


def sort_unique(length: int = 20, values: int = 20) -> type[Program]:
    """Sort different values: count, for each, how many are smaller. It takes three layers."""
    sets = [{*range(value), values} for value in range(values)]
    made = counting(length, values, sets)

    class sort_unique(Program):
        tokens = values
        positions = length
        layers = 3
        value, index, zero, key = made["value"], made["index"], made["zero"], made["key"]
        wanted, anchor, share, first_value = made["wanted"], made["anchor"], made["share"], made["first_value"]
        rank = cat(length)
        stage = cat(3)
        result = cat(values)
        ranked = attend(index, rank, value)
        output = result

        def step(z) -> None:
            if z.stage == 0:
                z.key = values if z.index == 0 else z.value
                z.wanted = table(sets)[z.value]
                z.stage = 1
            elif z.stage == 1:
                others = round(1 / z.share) - 1
                z.rank = (others + 1) % length if z.first_value < z.value else others
                z.stage = 2
            else:
                z.result = z.ranked

    return sort_unique


def sort(length: int = 20, values: int = 20) -> type[Program]:
    """Sort any values by odd–even transposition: neighbours compare and swap, one round in each layer."""

    class sort(Program):
        tokens = values
        positions = length
        layers = length
        value = cat(values, token=lambda t: t)
        odd = cat(2, position=lambda p: p % 2)  # pairs are (even, odd) and (odd, even) in turn
        left = relative(value, -1, default=0)
        right = relative(value, 1, default=values - 1)
        output = value

        def step(z) -> None:
            if z.odd:
                if z.left > z.value:
                    z.value = z.left
            elif z.right < z.value:
                z.value = z.right
            z.odd = 1 - z.odd

    return sort


def most_frequent(length: int = 20, values: int = 20) -> type[Program]:
    """List the different values of the input, most frequent first, and earlier ones first among equals.

    The value `values`, which is not a token, fills the rest.
    """
    sets = [{value, values} for value in range(values)]
    made = counting(length, values, sets)

    class most_frequent(Program):
        tokens = values
        positions = length
        layers = length + 2
        value, index, zero, key = made["value"], made["index"], made["zero"], made["key"]
        wanted, anchor, share, first_value = made["wanted"], made["anchor"], made["share"], made["first_value"]
        one = num([1])
        seen = attend(value, value, one, offsets=range(-length + 1, 0) or [-1], default=0, output=num([0, 1]))
        stage = cat(3)
        odd = cat(2, position=lambda p: p % 2)
        item = cat(values + 1)
        score = cat(length + 1)
        item_left = relative(item, -1, default=values)
        item_right = relative(item, 1, default=values)
        score_left = relative(score, -1, default=length)
        score_right = relative(score, 1, default=0)
        output = item

        def step(z) -> None:
            if z.stage == 0:
                z.key = values if z.index == 0 else z.value
                z.wanted = table(sets)[z.value]
                z.stage = 1
            elif z.stage == 1:
                if z.seen:  # only the first occurrence of a value represents it
                    z.item = values
                    z.score = 0
                else:
                    others = round(1 / z.share) - 1
                    z.item = z.value
                    z.score = others + 1 if z.first_value == z.value else others
                z.stage = 2
            else:  # odd–even transposition, largest score first; equals do not swap
                if z.odd:
                    if z.score_left < z.score:
                        z.item = z.item_left
                        z.score = z.score_left
                elif z.score_right > z.score:
                    z.item = z.item_right
                    z.score = z.score_right
                z.odd = 1 - z.odd

    return most_frequent


FAILED, PREFIX, BALANCED = range(3)


def brackets(alphabet: str) -> Any:
    """An encoder of texts over some brackets."""

    def encode(text: str) -> list[int]:
        for place, letter in enumerate(text):
            if letter not in alphabet:
                raise InputError(f"'{text}': the character {letter!r} at place {place} is not one of {alphabet}")
        return [alphabet.index(letter) for letter in text]

    return staticmethod(encode)


def verdicts(outputs: Sequence[int]) -> str:
    """One letter for each prefix: T balanced, P can still become balanced, F cannot."""
    return "".join("FPT"[output] for output in outputs)


def dyck1(length: int = 20) -> type[TextProgram]:
    """Decide for each prefix of a text of ( and ): balanced (2), can still become balanced (1), or cannot (0)."""

    class dyck1(TextProgram):
        tokens = "()"
        text = Text(example="(()())", names=tuple("FPT"))
        positions = length
        token = cat(2, token=lambda t: t)
        depth = cat(length + 1)
        done = cat(2)
        verdict = cat(3)
        depth_left = relative(depth, -1, default=0)
        done_left = relative(done, -1, default=1)
        verdict_left = relative(verdict, -1, default=BALANCED)
        output = verdict
        halt = {done: 1}
        encode, decode = brackets("()"), staticmethod(verdicts)

        def step(z) -> None:
            if not z.done and z.done_left:
                if z.verdict_left == FAILED or (z.token == 1 and z.depth_left == 0):
                    z.verdict = FAILED
                else:
                    depth = min(z.depth_left + 1, length) if z.token == 0 else z.depth_left - 1
                    z.depth = depth
                    z.verdict = BALANCED if depth == 0 else PREFIX
                z.done = 1

    return dyck1


def dyck2(length: int = 20) -> type[TextProgram]:
    """Shuffle-Dyck-2: ( and ) must balance, and [ and ] must balance separately. Outputs are as for dyck1."""

    class dyck2(TextProgram):
        tokens = "()[]"
        text = Text(example="([)]", names=tuple("FPT"))
        positions = length
        token = cat(4, token=lambda t: t)
        round_depth = cat(length + 1)
        square_depth = cat(length + 1)
        done = cat(2)
        verdict = cat(3)
        round_left = relative(round_depth, -1, default=0)
        square_left = relative(square_depth, -1, default=0)
        done_left = relative(done, -1, default=1)
        verdict_left = relative(verdict, -1, default=BALANCED)
        output = verdict
        halt = {done: 1}
        encode, decode = brackets("()[]"), staticmethod(verdicts)

        def step(z) -> None:
            if not z.done and z.done_left:
                fails = (z.token == 1 and z.round_left == 0) or (z.token == 3 and z.square_left == 0)
                if fails or z.verdict_left == FAILED:
                    z.verdict = FAILED
                else:
                    rounds, squares = z.round_left, z.square_left
                    if z.token < 2:
                        rounds = min(rounds + 1, length) if z.token == 0 else rounds - 1
                    else:
                        squares = min(squares + 1, length) if z.token == 2 else squares - 1
                    z.round_depth = rounds
                    z.square_depth = squares
                    z.verdict = BALANCED if rounds == 0 and squares == 0 else PREFIX
                z.done = 1

    return dyck2
