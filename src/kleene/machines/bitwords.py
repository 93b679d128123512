"""Words in `step` on plain numbers: integers that know their width, so that bits and slices can be taken."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kleene.errors import ProgramError

PART = re.compile(r"(.+)\[(\d+)(?::(\d+))?\]")


def bit_name(word: str, bit: int) -> str:
    """The name of one bit of a word, by which forms and assignments refer to it.

    >>> bit_name("pc", 3)
    'pc[3]'
    """
    return f"{word}[{bit}]"


def bit_of_name(name: str) -> tuple[str, int] | None:
    """The word and the place that the name of a bit gives; None for any other name.

    >>> bit_of_name("pc[3]"), bit_of_name("pc")
    (('pc', 3), None)
    """
    found = part_of_name(name)
    return found[:2] if found and ":" not in name[len(found[0]) :] else None


def part_name(word: str, start: int, stop: int) -> str:
    """The name of neighbouring bits of a word; one bit has the name that `bit_name` gives it.

    >>> part_name("pc", 0, 16), part_name("pc", 3, 4)
    ('pc[0:16]', 'pc[3]')
    """
    return f"{word}[{start}:{stop}]" if stop - start > 1 else bit_name(word, start)


def part_of_name(name: str) -> tuple[str, int, int] | None:
    """The word and the places that the name of a part gives; None for any other name.

    >>> part_of_name("pc[0:16]"), part_of_name("pc[3]"), part_of_name("pc")
    (('pc', 0, 16), ('pc', 3, 4), None)
    """
    found = PART.fullmatch(name)
    return (found[1], int(found[2]), int(found[3] or int(found[2]) + 1)) if found else None


def word_of_name(name: str) -> str:
    """The word behind the name of a part; any other name as it is."""
    found = part_of_name(name)
    return found[0] if found else name


def overlap(one: str, other: str) -> bool:
    """Whether two names stand for the same variable, or for parts of a word that share a bit.

    >>> overlap("w[0:4]", "w"), overlap("w[0:4]", "w[3]"), overlap("w[0:4]", "w[4:8]")
    (True, True, False)
    """
    mine, theirs = part_of_name(one), part_of_name(other)
    if word_of_name(one) != word_of_name(other):
        return False
    return mine is None or theirs is None or (mine[1] < theirs[2] and theirs[1] < mine[2])


def with_part(values: Mapping[str, Any], name: str, new: Any) -> tuple[str, Any]:
    """The variable behind a name, and its value after a part of it is written; for whole numbers or arrays of them."""
    found = part_of_name(name)
    if found is None:
        return name, new
    word, start, stop = found
    return word, values[word] & ~((1 << stop) - (1 << start)) | new << start


class BitValues(Mapping[str, Any]):
    """Values by name, in which the parts of words have names too; for whole numbers or arrays of them."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values_by_name = values

    def __getitem__(self, name: str) -> Any:
        if name in self.values_by_name:
            return self.values_by_name[name]
        found = part_of_name(name)
        if found is None:
            raise KeyError(name)
        word, start, stop = found
        return self.values_by_name[word] >> start & (1 << stop - start) - 1

    def __iter__(self) -> Any:
        return iter(self.values_by_name)

    def __len__(self) -> int:
        return len(self.values_by_name)


def sliced(given: slice, bits: int) -> range:
    """The places that a slice of a word takes, lowest first; `[::-1]` takes all of them from the highest down."""
    if given.step not in (None, 1, -1):
        raise ProgramError(f"a slice of a word takes neighbouring bits, not every {given.step}th one")
    return range(*given.indices(bits))


class BitWord(int):
    """An integer of a known width. Its bits are `w[i]`, its slices `w[a:b]` (lowest bit first), reversed `w[::-1]`.

    A sum has no width; `% 2**n` gives it one. `~`, `&`, `|` and `^` keep the width.

    >>> w = BitWord(0b1101, 4)
    >>> w[0], w[1:3], ~w, w[::-1]
    (1, 2, 2, 11)
    >>> ((w + 9) % 16)[0:2]
    2
    """

    bits: int | None

    if TYPE_CHECKING:  # made below

        def __add__(self, other: int, /) -> BitWord: ...
        def __sub__(self, other: int, /) -> BitWord: ...
        def __mul__(self, other: int, /) -> BitWord: ...
        def __and__(self, other: int, /) -> BitWord: ...
        def __or__(self, other: int, /) -> BitWord: ...
        def __xor__(self, other: int, /) -> BitWord: ...
        def __lshift__(self, other: int, /) -> BitWord: ...
        def __rshift__(self, other: int, /) -> BitWord: ...

    def __new__(cls, value: int, bits: int | None) -> BitWord:
        made = super().__new__(cls, value)
        made.bits = bits
        return made

    def _width(self, what: str) -> int:
        if self.bits is None:
            raise ProgramError(f"step takes {what} of a sum of words, which has no width; take it % 2**bits first")
        return self.bits

    def __getitem__(self, place: Any) -> BitWord:
        bits = self._width("a slice")
        if isinstance(place, slice):
            places = sliced(place, bits)
            return BitWord(sum((int(self) >> at & 1) << k for k, at in enumerate(places)), len(places))
        at = int(place) + bits if int(place) < 0 else int(place)
        if not 0 <= at < bits:
            raise ProgramError(f"step takes bit {int(place)} of a word of {bits} bits")
        return BitWord(int(self) >> at & 1, 1)

    def __invert__(self) -> BitWord:
        bits = self._width("the complement")
        return BitWord((1 << bits) - 1 - int(self), bits)

    if TYPE_CHECKING:  # by a power of two; otherwise a number without a width

        def __floordiv__(self, divisor: int, /) -> BitWord: ...
        def __mod__(self, modulus: int, /) -> BitWord: ...
    else:

        def __floordiv__(self, divisor: int) -> int:
            return self >> int(divisor).bit_length() - 1 if _power_of_two(divisor) else int(self) // divisor

        def __mod__(self, modulus: int) -> int:
            made = int(self) % modulus
            return BitWord(made, modulus.bit_length() - 1) if _power_of_two(modulus) else made


def _power_of_two(number: int) -> bool:
    return number >= 1 and number & (number - 1) == 0


def _keep_width(name: str) -> Any:
    """A bitwise operation: as wide as the wider side."""
    plain = getattr(int, name)

    def operation(self: BitWord, other: Any) -> Any:
        result = plain(int(self), int(other)) if isinstance(other, int) else NotImplemented
        if result is NotImplemented or self.bits is None:
            return result
        width = other.bits if isinstance(other, BitWord) else int(other).bit_length()
        return BitWord(result, None if width is None else max(self.bits, width))

    return operation


def _lose_width(name: str) -> Any:
    """Do arithmetic: the result is as wide as its value needs."""
    plain = getattr(int, name)

    def operation(self: BitWord, other: Any) -> Any:
        result = plain(int(self), int(other)) if isinstance(other, int) else NotImplemented
        return result if result is NotImplemented else BitWord(result, None)

    return operation


for _name in ("and", "or", "xor"):
    setattr(BitWord, f"__{_name}__", _keep_width(f"__{_name}__"))
    setattr(BitWord, f"__r{_name}__", _keep_width(f"__r{_name}__"))
for _name in ("add", "sub", "mul"):
    setattr(BitWord, f"__{_name}__", _lose_width(f"__{_name}__"))
    setattr(BitWord, f"__r{_name}__", _lose_width(f"__r{_name}__"))


def _shift(self: BitWord, by: Any) -> Any:
    return BitWord(int(self) << int(by), None)


def _shift_right(self: BitWord, by: Any) -> Any:
    return BitWord(int(self) >> int(by), self.bits)


setattr(BitWord, "__lshift__", _shift)  # noqa: B010
setattr(BitWord, "__rshift__", _shift_right)  # noqa: B010


def joined(parts: tuple[Any, ...]) -> BitWord:
    """Join words, the first lowest."""
    total = place = 0
    for part in parts:
        width = part.bits if isinstance(part, BitWord) else None
        if width is None:
            raise ProgramError(f"concat: {part!r} has no width; join words, slices and bits")
        total, place = total | int(part) << place, place + width
    return BitWord(total, place)
