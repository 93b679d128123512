"""Inputs of programs and networks: from what users give to checked tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from kleene.common.text import Text
from kleene.errors import InputError


class Array(Protocol):
    """An array of NumPy or a tensor."""

    def tolist(self) -> Any: ...


Tokens = Sequence[int] | Sequence[str] | Array  # an input: numbers, symbols of the alphabet, or a text


def read_tokens(given: Any, name: str, text: Text | None, encode: Callable[[str], list[int]]) -> list[Any]:
    """The tokens of an input, not yet checked: `encode` reads a text, and the alphabet of `text` a list of symbols.

    `name` is whose input it is, for messages.
    """
    if isinstance(given, str):
        return encode(given)
    if text is not None and _are_symbols(given):
        return text.numbers(given, name)
    try:
        return list(given)
    except TypeError:
        raise InputError(f"{name}: the input must be a list of tokens, not {given!r}") from None


def check_tokens(given: list[Any], name: str, count: int, longest: int | None = None) -> list[int]:
    """The tokens as ints; reject an empty input, a longer one than `longest`, and what is not in 0 … count − 1."""
    if not given:
        raise InputError(f"{name}: the input is empty; give at least one token")
    if longest is not None and len(given) > longest:
        raise InputError(f"{name}: the input has {len(given)} tokens; the longest allowed has {longest}")
    if set(map(type, given)) == {int} and min(given) >= 0 and max(given) < count:
        return given  # quick for long lists
    checked = []
    for place, token in enumerate(given):
        whole = as_int(token)
        if whole is None or not 0 <= whole < count:
            raise InputError(f"{name}: token {token!r} at position {place} is outside the alphabet 0 … {count - 1}")
        checked.append(whole)
    return checked


def list_of_inputs(inputs: Iterable[Any], name: str) -> list[Any]:
    """Several inputs as a list; reject a single text, which would be read as one input a symbol."""
    if isinstance(inputs, str):
        raise InputError(f"{name}: {inputs!r} is one input; give a list of inputs, such as [{inputs!r}]")
    return list(inputs)


def as_int(value: Any) -> int | None:
    """Convert a whole number of any type to an int; None for anything else."""
    if isinstance(value, str | bytes):
        return None
    try:
        whole = int(value)
        return whole if whole == value else None
    except (TypeError, ValueError, OverflowError):
        return None


def _are_symbols(tokens: Any) -> bool:
    """Whether an input is a list of symbols rather than of numbers."""
    return isinstance(tokens, list | tuple) and bool(tokens) and all(isinstance(one, str) for one in tokens)
