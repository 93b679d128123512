"""Small programs that use, between them, every later feature of the language: what the checker's tests change."""

from __future__ import annotations

import kleene as kl


class Remembers(kl.Program):
    """Heads that choose among several matches, and one of them limited."""

    tokens = 6
    positions = 7
    key = kl.cat(3, token=lambda t: t % 3)
    payload = kl.cat(2, token=lambda t: t // 3)
    wanted = kl.cat(3, token=lambda t: (t + 1) % 3)
    last = kl.attend(wanted, key, payload, latest=True, default=0)
    first = kl.attend(wanted, key, key, earliest=True, default=2, among={payload: 1})
    near = kl.attend(key, wanted, payload, nearest=True, offsets=[-2, -1, 1, 2])
    result = kl.cat(12)
    seen = kl.cat(2)
    output, layers = result, 2

    def step(z):
        z.result = 6 * z.seen + 3 * z.last + z.first
        if z.payload == 1 and z.key != 2:
            z.seen = z.near


class Counts(kl.Program):
    """Heads that count, and one that asks whether there is anything to count."""

    tokens = 4
    positions = 6
    here = kl.cat(4, token=lambda t: t)
    odd = kl.cat(2, token=lambda t: t % 2)
    same = kl.count(here, here, most=6)
    odds = kl.count(most=4, among={odd: 1})
    twin = kl.any(here, here, offsets=[-1])
    result = kl.cat(7)
    few = kl.cat(2)
    output, layers = result, 1

    def step(z):
        z.result = z.same if z.twin else 0
        z.few = z.odds <= 2


class Limbs(kl.Program):
    """Words that are too wide for one sum: added, subtracted and compared in limbs."""

    tokens = 4
    positions = 2
    a = kl.word(24, default=0xABCDEF)
    b = kl.word(24, token=lambda t: 0x12345 * (t + 1))
    c = kl.word(24)
    kind = kl.cat(4, token=lambda t: t)
    output, layers = kind, 3

    def step(z):
        if z.kind == 0:
            z.c = (z.a + z.b) % (1 << 24)
        elif z.kind == 1:
            z.a = (z.c - z.b - 1) % (1 << 24)
        elif z.a[3]:
            z.kind = 1


class Numbered(kl.Program):
    """Positions that count from a number, addresses that are words, and a head that writes words."""

    tokens = 8
    positions = 6
    place = kl.word(4, position=kl.counting(5))
    wanted = kl.word(4, token=lambda t: t + 4)
    mine = kl.word(4, token=lambda t: t)
    old = kl.word(4, token=lambda t: t)
    asks = kl.cat(2, token=lambda t: t % 2)
    found = kl.attend(wanted, place, mine, default=9)
    put = kl.attend(place, wanted, mine, among={asks: 1}, into=mine, replacing=old, latest=True)
    kept = kl.word(4)
    output, layers = kept, 1

    def step(z):
        z.kept = z.found


class Cleared(kl.Program):
    """A layer with two steps whose heads clear variables, and another layer."""

    tokens = 4
    positions = 3
    a = kl.word(2, token=lambda t: t)
    b = kl.word(2, token=lambda t: 3 - t)
    n = kl.cat(3, token=lambda t: t % 3)
    on = kl.cat(2, token=lambda t: t > 0)
    wipe = kl.clear(b, n, where={on: 1})
    left = kl.relative(n, -1, default=1)
    output, layers = n, 4

    @kl.layer(wipe)
    def first(z):
        if z.on:
            z.b = ~z.a

    @first.then
    def second(z):
        if z.on and z.b[0]:
            z.n = 1
        elif z.on and z.b[0:2] == 2:
            z.n = 2

    @kl.layer(left)
    def other(z):
        z.a = (z.a + z.b + 1) % 4
        z.on = z.left != 0

    cycle = (second, other)


class Bitwise(kl.Program):
    """Bits, slices, bitwise operations, shifts, tables of bits."""

    tokens = 16
    positions = 2
    a = kl.word(4, token=lambda t: t)
    b = kl.word(4, token=lambda t: (5 * t + 3) % 16)
    c = kl.word(6)
    kind = kl.cat(4, token=lambda t: t % 4)
    output, layers = c, 2

    def step(z):
        if z.kind == 0:
            z.c = (z.a & z.b) ^ (z.a | 5)
        elif z.kind == 1:
            z.c = kl.concat(z.b[2:4], ~z.a)
        elif z.kind == 2:
            z.c = kl.extend(z.a[0:3], 6) if z.b[1] else z.a >> z.b[0:2]
        else:
            z.a = (z.a << 1) % 16
        z.kind = (z.kind + z.b[0] + z.a[3]) % 4


class Speaks(kl.Program):
    """A decoder that repeats what followed the same token the last time, and stops."""

    tokens = 5
    positions = 10
    token = kl.cat(5, token=lambda t: t)
    last = kl.cat(5, default=4)
    before = kl.relative(token, -1, default=4)
    again = kl.attend(token, last, token, latest=True, default=3)
    next = kl.cat(5)
    output, layers = next, 2
    causal, stop, max_tokens = True, 4, 3

    def step(z):
        z.last = z.before
        z.next = (z.again + 1) % 5 if z.again < 3 else z.again


class Choosing(kl.Program):
    """Sets that match and are copied, and averages with a default."""

    tokens = 4
    positions = 5
    key = kl.cat(3, token=lambda t: t % 3)
    ask = kl.subset(3, [set(), {0}, {1, 2}], token=lambda t: [set(), {0}, {1, 2}][t % 3])
    level = kl.num([-1, 0, 2], token=lambda t: [-1, 0, 2][t % 3])
    mean = kl.attend(ask, key, level, output=kl.num([-1, 0, 1, 2]), default=1)
    neighbour = kl.relative(ask, 1, default={0})
    result = kl.cat(4)
    output, layers = result, 2

    def step(z):
        z.ask = z.neighbour
        z.result = int(z.mean) + 1 if 2 not in z.ask else 3


class Joined(kl.Program):
    """Units that serve several purposes: what clears a comparison writes a word, one carry is for two sums."""

    tokens = 4
    positions = 2
    a = kl.word(24, default=0xABCDEF)
    b = kl.word(24, token=lambda t: 0x12345 * (t + 1))
    c = kl.word(24)
    d = kl.word(24)
    low = kl.word(3, token=lambda t: 2 * t)
    five = kl.word(3)
    kind = kl.cat(2, token=lambda t: t % 2)
    output, layers = five, 2

    def step(z):
        if z.low >= 3:
            z.five = 5
        if z.kind:
            z.kind = z.a[0]
        z.c = (z.a + z.b) % (1 << 24)
        z.d = (z.a + z.b) % (1 << 24)


RICH = {p.__name__: p for p in (Remembers, Counts, Limbs, Numbered, Cleared, Bitwise, Speaks, Choosing, Joined)}
