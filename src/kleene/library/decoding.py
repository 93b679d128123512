"""The parts that decoders share: text in and text out, and sums over a prefix by doubling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kleene.common.text import Text, alphabet_problem
from kleene.errors import InputError
from kleene.library.encoding import TextProgram
from kleene.machines.declarations import layer, relative
from kleene.machines.program import ProgramClass


def text_decoder(name: str, about: str, symbols: Sequence[str], stop: int, most: int, body: dict[str, Any]) -> Any:
    """A program class with text in and text out. `most`: the most tokens that it appends."""
    listed, spaces = list(symbols), any(len(symbol) > 1 for symbol in symbols)

    def encode(text: str) -> list[int]:
        parts = text.split() if spaces else list(text)
        for part in parts:
            if part not in listed:
                raise InputError(f"{name}: {part!r} is not one of the symbols {' '.join(listed)}")
        return [listed.index(part) for part in parts]

    def decode(outputs: Sequence[int]) -> str:
        return (" " if spaces else "").join(listed[token] for token in outputs if token != stop)

    made = {
        "__doc__": about,
        "__module__": "kleene.library.decoders",
        "tokens": len(listed),
        **(_alphabet(listed, stop, spaces) if alphabet_problem(listed) is None else {}),
        "symbols": tuple(listed),
        "stop": stop,
        "max_tokens": most,
        "encode": staticmethod(encode),
        "decode": staticmethod(decode),
    }
    return ProgramClass(name, (TextProgram,), {**made, **body})


def _alphabet(symbols: list[str], stop: int, spaces: bool) -> dict[str, Any]:
    """The same text for what lacks the class: saved networks, pages and exports. The tokens that it writes have the
    symbols' names, and `stop` is not shown."""
    return {
        "tokens": tuple(symbols),
        "text": Text(names=tuple(symbols), omit=(symbols[stop],), join=" " if spaces else ""),
    }


def doublings(size: int) -> int:
    """How many layers sum over a prefix of this length: each doubles how far a position has summed."""
    return max(1, (size - 1).bit_length())


def summed(body: dict[str, Any], name: str, layers: int) -> list[Any]:
    """Layers that sum the word `name` over the prefix, from the latest position where `name`_fresh is 1 on."""
    value, fresh = body[name], body[f"{name}_fresh"]
    size = 1 << value.kind.bits
    made = []
    for k in range(layers):
        left, left_fresh = f"{name}_{1 << k}_left", f"{name}_fresh_{1 << k}_left"
        body[left] = relative(value, -(1 << k), default=0)
        body[left_fresh] = relative(fresh, -(1 << k), default=1)

        def step(z: Any, left: str = left, left_fresh: str = left_fresh) -> None:
            if not getattr(z, f"{name}_fresh"):
                setattr(z, name, (getattr(z, name) + getattr(z, left)) % size)
                setattr(z, f"{name}_fresh", getattr(z, left_fresh))

        body[f"sum_{name}_{1 << k}"] = made_layer = layer(body[left], body[left_fresh])(step)
        made.append(made_layer)
    return made
