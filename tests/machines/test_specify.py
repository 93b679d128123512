"""The check of a class body says which part of a program breaks which rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import kleene as kl
from kleene.common.text import Text


def keep(z: Any) -> None:
    """Keep every variable."""


def plain(**body: Any) -> dict[str, Any]:
    here = kl.cat(2, token=lambda t: t % 2)
    return {"tokens": 2, "here": here, "output": here, "layers": 1, "step": keep} | body


def cycle(clears: bool = False, **layer: Any) -> dict[str, Any]:
    """A cycle of one layer, with a head that writes into a word, and perhaps a clear of the same word."""
    word, here = kl.word(3), kl.cat(2, token=lambda t: t)
    head = kl.attend(here, here, word, latest=True, into=word)
    clear = kl.clear(word)
    one = kl.layer(head, *([clear] if clears else []))(keep)
    body = {"tokens": 2, "here": here, "word": word, "head": head, "output": here, "layers": 1, "one": one}
    return body | {"cycle": (one,)} | ({"gone": clear} if clears else {}) | layer


def other_head() -> dict[str, Any]:
    stranger = kl.layer(kl.relative(kl.cat(2), -1))(keep)
    return cycle(stranger=stranger, cycle=(stranger,))


def idle_head() -> dict[str, Any]:
    empty = kl.layer()(keep)
    return cycle(one=empty, cycle=(empty,))


def replacing_with(**options: Any) -> dict[str, Any]:
    here, other, digit = kl.cat(2, token=lambda t: t), kl.cat(2), kl.cat(5)
    kinds = {"other": other, "digit": digit, "here": here}
    chosen = {name: kinds[value] if isinstance(value, str) else value for name, value in options.items()}
    return plain(
        here=here, other=other, digit=digit, output=here, moved=kl.attend(here, here, here, latest=True, **chosen)
    )


CASES: dict[str, Callable[[], dict[str, Any]]] = {
    "align='+-0' must be a sign and a digit": lambda: plain(tokens="+-0", text=Text(align="+-0")),
    "the alphabet has 2 symbols, but the program has 3 tokens": lambda: plain(tokens=3, text=Text(alphabet=("a", "b"))),
    "stop = 'x' is not in the alphabet": lambda: plain(tokens="01", stop="x", max_tokens=3),
    "'gone' clears 'share', a num; only words and cats": lambda: plain(
        share=(share := kl.num([0, 1])), gone=kl.clear(share)
    ),
    "'gone' is a kl.clear; only the layers of a cycle": lambda: plain(word=(word := kl.word(3)), gone=kl.clear(word)),
    "'head' and 'gone' both write 'word' in one layer": lambda: cycle(clears=True),
    "'tokens' is 2,097,153, more than the 2,097,152": lambda: plain(tokens=2**21 + 1),
    "layer 1 of the cycle has a head that is not in this program": other_head,
    "the head 'head' is not in any layer of the cycle": idle_head,
    "the head 'left': where must be {variable: value}, not 3": lambda: plain(
        other=(other := kl.cat(2)), left=kl.relative(other, -1, where=3)
    ),
    "the head 'moved' cannot write a cat into 'digit'": lambda: replacing_with(into="digit"),
    "the head 'moved' has replacing= without into=": lambda: replacing_with(replacing="other"),
    "replacing= takes a variable of the kind of 'other', and no default": lambda: replacing_with(
        into="other", replacing="digit"
    ),
    "'positions' is 9,999,999; with a table for 'place'": lambda: plain(
        positions=9_999_999, place=kl.cat(2, position=lambda p: p % 2)
    ),
    "'place' counts positions; only a kl.word can": lambda: plain(place=kl.cat(2, position=kl.counting(0))),
    "the default 9999999 of 'left' is too large": lambda: plain(
        other=(other := kl.cat(2)), left=kl.relative(other, -1, default=9_999_999)
    ),
}


@pytest.mark.parametrize("said", CASES)
def test_a_wrong_part_is_named(said: str) -> None:
    body = CASES[said]()
    namespace = type(kl.Program).__prepare__("Made", (kl.Program,))
    with pytest.raises(kl.ProgramError) as caught:
        for name, value in body.items():
            namespace[name] = value
        type(kl.Program)("Made", (kl.Program,), namespace)
    message = str(caught.value)
    assert message.startswith("Made: ") and said in message and "\n" not in message


@pytest.mark.parametrize(
    ("declare", "said"),
    [
        (lambda: kl.clear(), "clear: takes one variable or more"),
        (lambda: kl.layer(3), "layer: takes heads"),
        (lambda: kl.layer()(keep).then(keep).then(keep), "two steps at most"),
        (lambda: kl.counting("x"), "counting: the offset must be a whole number, not 'x'"),
        (lambda: kl.cat(2**21 + 1), "cat: 2,097,153 values are more than"),
        (lambda: kl.word(63), "word: bits must be 1 … 62, not 63"),
    ],
)
def test_a_wrong_declaration_is_named(declare: Callable[[], object], said: str) -> None:
    with pytest.raises(kl.ProgramError) as caught:
        declare()
    assert said in str(caught.value)
