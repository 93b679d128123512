"""Text in, text out: the alphabet of a program, as plain data that networks and pages carry too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from random import Random
from typing import Any

from kleene.errors import InputError

MAX_SYMBOLS = 65_536


@dataclass(frozen=True)
class Text:
    """How text becomes tokens, and how outputs become text.

    alphabet: the symbol of each token. Symbols of one character are written together, longer ones with spaces between.
    start: a symbol that is put first where a text lacks it.
    end: a symbol that is put last where a text lacks it.
    align: two characters such as `+0`: what stands before and after the + is padded to one length with leading 0s.
    room: how many tokens a text of n symbols takes; the rest has the first symbol.
    example: a text to show.
    names: the text of each output value; without them, outputs are numbers.
    part: which outputs are the answer, as the two ends of a slice: (None, -1) is all but the last.
    join: what stands between the outputs.
    strip: a character to remove from the front of the answer, unless nothing would be left.
    omit: outputs that are left out, by name.
    reverse: whether the last output comes first.

    >>> sums = Text(tuple("0123456789+^="), start="^", end="=", align="+0", part=(None, -1), strip="0")
    >>> sums.encode("34+8", "sum")
    [11, 3, 4, 10, 0, 8, 12]
    >>> sums.decode([0, 0, 4, 2, 0])
    '42'
    """

    alphabet: tuple[str, ...] = ()
    start: str = ""
    end: str = ""
    align: str = ""
    room: tuple[int, ...] = ()
    example: str = ""
    names: tuple[str, ...] = ()
    part: tuple[int | None, int | None] = (None, None)
    join: str = ""
    strip: str = ""
    omit: tuple[str, ...] = ()
    reverse: bool = False

    @property
    def spaced(self) -> bool:
        """Whether symbols are written with spaces between them."""
        return any(len(symbol) != 1 for symbol in self.alphabet)

    def encode(self, text: str, name: str) -> list[int]:
        """The tokens of a text; `name` is whose input it is, for messages."""
        symbols = text.split() if self.spaced else list(text if " " in self.alphabet else "".join(text.split()))
        if self.start and symbols[:1] != [self.start]:
            symbols.insert(0, self.start)
        if self.end and symbols[1:][-1:] != [self.end]:
            symbols.append(self.end)
        if self.align:
            symbols = self._aligned(text, symbols, name)
        if self.room and len(symbols) < len(self.room):
            symbols += [self.alphabet[0]] * (self.room[len(symbols)] - len(symbols))
        return self.numbers(symbols, name, text)

    def plain(self, text: str) -> str:
        """A text without the first and the last symbol, which readers need not type."""
        return text.strip().removeprefix(self.start).removesuffix(self.end)

    def numbers(self, symbols: Iterable[str], name: str, text: str = "") -> list[int]:
        """The tokens of symbols."""
        places = {symbol: place for place, symbol in enumerate(self.alphabet)}
        found = []
        for at, symbol in enumerate(symbols):
            if symbol not in places:
                where = f" in '{text}'" if text else f" at position {at}"
                raise InputError(f"{name}: {symbol!r}{where} is not in the alphabet {self.shown()}")
            found.append(places[symbol])
        return found

    def shown(self) -> str:
        """The alphabet, for messages."""
        some = self.alphabet if len(self.alphabet) <= 40 else (*self.alphabet[:20], "…")
        return (" " if self.spaced else "").join(some)

    def _aligned(self, text: str, symbols: list[str], name: str) -> list[str]:
        sign, fill = self.align[0], self.align[1]
        first, last = len(self.start and "x"), len(symbols) - len(self.end and "x")
        body = symbols[first:last]
        if body.count(sign) != 1 or body[0] == sign or body[-1] == sign:
            raise InputError(f"{name}: '{text}' is not of the form a{sign}b, such as {self.example or f'1{sign}2'}")
        at = body.index(sign)
        size = max(at, len(body) - at - 1)
        left, right = body[:at], body[at + 1 :]
        padded = [*[fill] * (size - len(left)), *left, sign, *[fill] * (size - len(right)), *right]
        return [*symbols[:first], *padded, *symbols[last:]]

    def decode(self, outputs: Sequence[int]) -> str:
        """The answer that outputs spell."""
        texts = [self.names[value] if 0 <= value < len(self.names) else str(value) for value in outputs]
        texts = [one for one in texts[slice(*self.part)] if one not in self.omit]
        answer = self.join.join(reversed(texts) if self.reverse else texts)
        return answer.lstrip(self.strip) or self.strip if self.strip else answer

    def sample(self, chance: Random, length: int) -> list[int]:
        """A random input of about this many tokens: start and end in their places, aligned parts of one size."""
        marks = {self.start, self.end, *self.align[:1]}
        letters = [place for place, symbol in enumerate(self.alphabet) if symbol not in marks]
        places = {symbol: place for place, symbol in enumerate(self.alphabet)}
        ends = [[places[mark]] if mark else [] for mark in (self.start, self.end)]
        free = max(1, length - len(ends[0]) - len(ends[1]))
        if not letters:
            return [chance.randrange(len(self.alphabet)) for _ in range(length)]
        if self.align:
            left, right = ([chance.choice(letters) for _ in range(max(1, (free - 1) // 2))] for _ in range(2))
            return [*ends[0], *left, places[self.align[0]], *right, *ends[1]]
        return [*ends[0], *(chance.choice(letters) for _ in range(free)), *ends[1]]

    def with_alphabet(self, alphabet: Sequence[str]) -> Text:
        return replace(self, alphabet=tuple(alphabet))

    def to_json(self) -> dict[str, Any]:
        """The fields that differ from their defaults."""
        content = {one.name: getattr(self, one.name) for one in fields(self) if getattr(self, one.name) != one.default}
        return {key: list(value) if isinstance(value, tuple) else value for key, value in content.items()}

    @classmethod
    def from_json(cls, content: Any) -> Text:
        """Rebuild a Text from its `to_json`; raise InputError where the content is malformed."""
        known = {one.name: one.default for one in fields(cls)}
        if not isinstance(content, dict) or not content.keys() <= known.keys():
            raise InputError("the description of the text is malformed")
        made: dict[str, Any] = {
            key: tuple(value) if isinstance(known[key], tuple) else value for key, value in content.items()
        }
        if not all(_well_formed(key, value, known[key]) for key, value in made.items()):
            raise InputError("the description of the text is malformed")
        if "alphabet" in made and (problem := alphabet_problem(made["alphabet"])) is not None:
            raise InputError(f"the description of the text is malformed: {problem}")
        return cls(**made)


def _well_formed(field: str, value: Any, default: Any) -> bool:
    """Whether a file's value of a field has the type that the field has."""
    if type(value) is not type(default):
        return False
    if field == "align":
        return len(value) in (0, 2)
    if field == "part":
        return len(value) == 2 and all(one is None or type(one) is int for one in value)
    kind = int if field == "room" else str
    return not isinstance(value, tuple) or all(type(one) is kind for one in value)


def encode_text(text: Text | None, given: str, name: str) -> list[int]:
    """The tokens of a text; raise an InputError where no alphabet is declared."""
    if text is None:
        raise InputError(f"{name}: has no alphabet for the text '{given}'; give tokens as a list of numbers: [2, 1, 0]")
    return text.encode(given, name)


def alphabet_problem(alphabet: Sequence[Any]) -> str | None:
    """Return what is wrong with an alphabet, or None."""
    if not alphabet or len(alphabet) > MAX_SYMBOLS:
        return f"it has {len(alphabet):,} symbols; 1 … {MAX_SYMBOLS:,} are allowed"
    seen = set[str]()
    for symbol in alphabet:
        if not isinstance(symbol, str) or not symbol or (len(symbol) > 1 and any(c.isspace() for c in symbol)):
            return f"{symbol!r} is not a symbol; a symbol is a text without spaces"
        if symbol in seen:
            return f"the symbol {symbol!r} appears twice"
        seen.add(symbol)
    return None
