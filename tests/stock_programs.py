"""Small decoders that together use everything a stock model has: offsets, matches, limits, defaults, words."""

from __future__ import annotations

from random import Random
from typing import Any

import kleene as kl


class Sums(kl.Program):
    """x[t + 1] = x[t] + x[t − 1] modulo 3, until the token 3 was given."""

    tokens, stop, max_tokens, layers = 4, 3, 12, 2
    symbols = "012;"
    token = kl.cat(4, token=lambda t: t)
    left = kl.relative(token, -1, default=0)
    total = kl.cat(4)
    result = kl.cat(4)
    output = result

    @kl.layer(left)
    def add(z):
        z.total = 3 if z.left == 3 else (z.token + z.left) % 3

    @kl.layer()
    def give(z):
        z.result = z.total

    cycle = (add, give)


class Recall(kl.Program):
    """Gives what followed the latest earlier occurrence of the last token (an induction head)."""

    tokens, max_tokens, layers = 6, 9, 2
    token = kl.cat(7, token=lambda t: t)
    value = kl.cat(6, token=lambda t: t)
    before = kl.cat(7)
    left = kl.relative(token, -1, default=6)
    found = kl.attend(token, before, value, latest=True, default=5)
    result = kl.cat(6)
    output = result

    @kl.layer(left)
    def look(z):
        z.before = z.left

    @kl.layer(found)
    def answer(z):
        z.result = z.found

    cycle = (look, answer)


class FirstEven(kl.Program):
    """Odd tokens give one more than the earliest even token; even tokens give 1. Uses `where`, `among`, `earliest`."""

    tokens, max_tokens, layers = 7, 6, 1
    token = kl.cat(7, token=lambda t: t)
    odd = kl.cat(2, token=lambda t: t % 2)
    one = kl.cat(2, default=1)
    everywhere = kl.cat(2, default=1)
    first = kl.attend(one, everywhere, token, earliest=True, among={odd: 0}, where={odd: 1}, default=3)
    result = kl.cat(7)
    output = result

    def step(z):
        z.result = (z.first + 1) % 7 if z.odd else 1


class Counter(kl.Program):
    """Counts its tokens in a word, and stops at seven: comparisons of words, two halves of an MLP block."""

    tokens, stop, max_tokens, layers = 3, 2, 12, 8
    count = kl.word(3, default=1)
    left = kl.relative(count, -1, default=0)
    result = kl.cat(3)
    output = result

    def step(z):
        if z.left < 7:
            z.count = z.left + 1
        z.result = 2 if z.left >= 6 else 1


class Copies(kl.Program):
    """A head at an offset that also compares: the token three to the left, where it is the same."""

    tokens, max_tokens, layers = 4, 5, 1
    token = kl.cat(4, token=lambda t: t)
    same = kl.attend(token, token, token, offsets=[-3], default=3)
    wide = kl.relative(token, -2, default=1)
    result = kl.cat(4)
    output = result

    def step(z):
        z.result = (z.same + z.wide * z.token) % 4


class Line(kl.Program):
    """Gives the first token of a line that is not 0. A line ends after a 2; words number the lines."""

    tokens, max_tokens, layers = 4, 4, 4
    token = kl.cat(4, token=lambda t: t)
    some = kl.cat(2, token=lambda t: t != 0)
    line = kl.word(8, default=1)
    left = kl.relative(line, -1, default=0)
    first = kl.attend(line, line, token, earliest=True, among={some: 1}, default=3)
    result = kl.cat(4)
    output = result

    @kl.layer(left)
    def number(z):
        z.line = z.left if z.token != 2 else (z.left + 1) % 256

    @kl.layer(first)
    def give(z):
        z.result = z.first

    cycle = (number, number, number, give)


class Maybe(kl.Program):
    """Heads that may select nothing: "none" is a further value, which the first token gives."""

    tokens, max_tokens, layers = 4, 6, 2
    token = kl.cat(4, token=lambda t: t)
    after = kl.cat(4)
    left = kl.relative(token, -1, default="none")
    found = kl.attend(token, after, token, latest=True, default="none")
    far = kl.relative(token, -3, default=6)  # outside the values, too
    result = kl.cat(4)
    output = result

    @kl.layer(left, far)
    def look(z):
        z.after = 1 if z.left is None else (z.left + z.far) % 4

    @kl.layer(found)
    def answer(z):
        z.result = 2 if z.found is None else (z.found + z.token) % 4

    cycle = (look, answer)


def random_program(chance: Random) -> Any:
    """A decoder of one layer with up to four random heads, whose outputs it adds up."""
    tokens, bits = chance.choice([2, 3, 4, 7, 12]), chance.choice([2, 4, 6, 8])
    wide = chance.choice([tokens, 40])
    sizes = {"token": tokens, "odd": 2, "square": 3, "single": 1}
    body: dict[str, Any] = {
        "tokens": tokens,
        "max_tokens": chance.choice([1, 3]),
        "layers": 1,
        "token": kl.cat(tokens, token=lambda t: t),
        "odd": kl.cat(2, token=lambda t: t % 2),
        "square": kl.cat(3, token=lambda t: (t * t + 1) % 3),
        "one": kl.cat(2, default=1),
        "single": kl.cat(1),
        "low": kl.word(bits, token=lambda t: (5 * t + 1) % (1 << bits)),
        "high": kl.word(bits, token=lambda t: 3 * t % (1 << bits)),
        "wide": kl.cat(wide, token=lambda t: t),
        "next": kl.cat(wide, token=lambda t: (t + 1) % tokens),
    }
    pairs = ["odd odd", "square square", "one odd", "low high", "low low", "wide next", "wide wide", "single single"]
    names = [f"head_{number}" for number in range(chance.randrange(1, 5))]
    for name in names:
        value = chance.choice([*sizes])
        default, kind = chance.randrange(sizes[value] + 2), chance.choice(["offset", "latest", "earliest", "both"])
        limits: dict[str, Any] = {}
        if chance.random() < 0.4:
            limits["among"] = {body[n]: chance.randrange(2) for n in chance.sample(["odd", "one"], 1)}
        if chance.random() < 0.3:
            limits["where"] = {body["square"]: chance.randrange(3)}
        query, key = (body[part] for part in chance.choice(pairs).split())
        far = chance.choice([0, 1, 2, 3, 5, 9, 16, 30, 50, 100])
        if kind == "offset":
            body[name] = kl.relative(body[value], -far, default=default)
        else:
            how: dict[str, Any] = {"offsets": [-far]} if kind == "both" else {kind: True}
            body[name] = kl.attend(query, key, body[value], default=default, **how, **limits)
    body["result"] = kl.cat(tokens)
    body["output"] = body["result"]

    def step(z: Any) -> None:
        z.result = sum(getattr(z, name) for name in names) % tokens

    return type(kl.Program)("Random", (kl.Program,), {**body, "step": step})


PROGRAMS = [Sums, Recall, FirstEven, Counter, Copies, Line, Maybe]
FAMILIES = ["llama", "gpt2", "phi3", "qwen3"]
