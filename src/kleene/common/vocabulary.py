"""The tokens that a network reads and the values that it writes, where they are more than whole numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from kleene.common.means import Mean
from kleene.errors import InputError


@dataclass(frozen=True)
class Vocabulary:
    """What the tokens 0, 1, … and the outputs 0, 1, … of a network mean. The last token begins every sequence.

    `pad`, where there is one, may follow a sequence; the network does not see it.

    >>> words = Vocabulary(("a", "b"), "BOS", (None, 1, 2))
    >>> words.encode("ba"), words.encode(["BOS", "b", "a"]), words.decode([0, 1, 2])
    ([2, 1, 0], [2, 1, 0], [1, 2])
    """

    tokens: tuple[Any, ...]
    bos: Any
    outputs: tuple[Any, ...]
    pad: Any = None

    def encode(self, sequence: Iterable[Any]) -> list[int]:
        """The tokens of a sequence, the beginning first. A text is read as its characters, or its words."""
        if not isinstance(sequence, Iterable):
            raise InputError(f"{sequence!r} is not a sequence of tokens such as {list(self.tokens[:2])!r}")
        given = self.read(sequence) if isinstance(sequence, str) else list(sequence)
        given = given[1:] if given and given[0] == self.bos else given
        given = given[: len(given) - self.padding(given)]
        places = {token: place for place, token in enumerate(self.tokens)}
        found = [len(self.tokens)]
        for position, token in enumerate(given):
            place = places.get(token) if _hashable(token) else None
            if place is None:
                shown = ", ".join(repr(known) for known in self.tokens[:12]) + (", …" if len(self.tokens) > 12 else "")
                raise InputError(f"the token {token!r} at index {position} is not in the vocabulary {shown}")
            found.append(place)
        return found

    def padding(self, sequence: Sequence[Any]) -> int:
        """How many padding tokens follow a sequence."""
        count = 0
        while self.pad is not None and count < len(sequence) and sequence[-1 - count] == self.pad:
            count += 1
        return count

    def read(self, text: str) -> list[Any]:
        """The tokens in a text: its characters if all tokens are characters, otherwise the words between spaces."""
        if all(isinstance(token, str) and len(token) == 1 for token in self.tokens):
            plain = text.removeprefix(str(self.bos)).lstrip() if text.startswith(f"{self.bos} ") else text
            return list(plain if " " in self.tokens else plain.replace(" ", ""))
        named = {str(token): token for token in self.tokens}
        return [named.get(word, word) for word in text.replace(",", " ").split()]

    def decode(self, outputs: Sequence[int]) -> list[Any]:
        """The values of a network's outputs, without the first, which belongs to the beginning."""
        return [self.outputs[output] for output in outputs[1:]]

    def to_json(self) -> dict[str, Any]:
        found = {
            "tokens": [_to_json(token) for token in self.tokens],
            "bos": _to_json(self.bos),
            "outputs": [_to_json(value) for value in self.outputs],
        }
        return found if self.pad is None else {**found, "pad": _to_json(self.pad)}

    @classmethod
    def from_json(cls, content: Any) -> Vocabulary:
        read = {side: tuple(_from_json(value) for value in content[side]) for side in ("tokens", "outputs")}
        return cls(read["tokens"], _from_json(content["bos"]), read["outputs"], _from_json(content.get("pad")))


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _to_json(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Mean):
        return {"mean": str(value.exact)}
    if isinstance(value, Fraction):
        return {"fraction": str(value)}
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, tuple):
        return {"tuple": [_to_json(part) for part in value]}
    raise InputError(f"the value {value!r} cannot be saved; use numbers, text, None, or tuples of them")


def _from_json(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tuple":
        return tuple(_from_json(part) for part in content)
    readers: dict[str, Callable[[str], Any]] = {
        "mean": lambda text: Mean(Fraction(text)),
        "fraction": Fraction,
        "float": float.fromhex,
    }
    return readers[kind](content)
