"""Bugs planted in the compiler, its own checks switched off: the checker refuses each of them, for the right reason."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
import torch

import kleene as kl
from kleene import checker
from kleene.checks.certificates import as_saved
from kleene.compilers import program_to_transformer as compiler
from kleene.compilers import transformer_attention as attention
from kleene.compilers import transformer_mlp as mlp
from kleene.lowering.thresholds import LinearFunction, UnitBuilder
from kleene.machines.spec import Spec
from rich_programs import Bitwise, Choosing, Cleared, Counts, Limbs, Numbered, Remembers, Speaks

# --- programs ---------------------------------------------------------------------------------------------


class Adder(kl.Program):
    """Words: a sum, a difference that stays in range, comparisons."""

    tokens = 16
    a = kl.word(4, token=lambda t: t)
    b = kl.word(4, token=lambda t: (5 * t + 3) % 16)
    total = kl.word(4)
    rest = kl.word(4)
    same = kl.cat(2)
    output, layers = total, 2

    def step(z):
        z.same = z.a == z.b
        z.total = (z.a + z.b + 3) % 16
        z.rest = z.a - z.b if z.a >= z.b else 0


class Lookup(kl.Program):
    """Words as addresses: a head finds the position that another one names."""

    tokens = 8
    positions = 8
    place = kl.word(3, position=lambda p: p)
    wanted = kl.word(3, token=lambda t: t)
    token = kl.cat(8, token=lambda t: t)
    found = kl.attend(wanted, place, token, default=0)
    result = kl.cat(8)
    output, layers = result, 1

    def step(z):
        z.result = z.found


class Mailbox(kl.Program):
    """Heads that write into variables, everywhere and where they are asked to; and one that replaces."""

    tokens = 4
    positions = 6
    here = kl.cat(6, position=lambda p: p)
    to = kl.cat(6, token=lambda t: t)
    sends = kl.cat(2, token=lambda t: t == 3)
    reads = kl.cat(2, token=lambda t: t != 0)
    mark = kl.cat(4, token=lambda t: t)
    old = kl.cat(4, token=lambda t: 0)
    got = kl.cat(4)
    box = kl.cat(4)
    left = kl.relative(mark, -1, default=1, where={reads: 1}, into=got)
    put = kl.attend(here, to, mark, among={sends: 1}, into=box, replacing=old)
    output, layers = got, 2

    def step(z):
        z.mark = (z.mark + 1) % 4


class Shares(kl.Program):
    """An average, in halves."""

    tokens = 2
    positions = 12
    bit = kl.num([0, 3], token=lambda t: 3 * t)
    share = kl.attend(None, None, bit, output=kl.num(Fraction(k, 2) for k in range(7)))
    result = kl.cat(7)
    output, layers = result, 1

    def step(z):
        z.result = int(2 * z.share)


class Sets(kl.Program):
    """A query that is a set."""

    tokens = 3
    key = kl.cat(3, token=lambda t: t)
    ask = kl.subset(3, [{0}, {1, 2}], token=lambda t: {1, 2} if t == 0 else {0})
    found = kl.attend(ask, key, key, offsets=[-1], default=2)
    result = kl.cat(3)
    output, layers = result, 1

    def step(z):
        z.result = z.found


class Tied(kl.Program):
    """Guards on several variables: scratch values, in two updates; and a head that is read under a condition."""

    tokens = 6
    a = kl.cat(6, token=lambda t: t)
    b = kl.cat(6, token=lambda t: 5 - t)
    c = kl.cat(6)
    d = kl.cat(6)
    left = kl.relative(a, -1)
    output, layers = c, 2

    def step(z):
        if z.a + z.b > 5 and z.c < 3:
            z.c = z.a
        elif z.a == 0:
            z.c = (z.b + z.c) % 6
        if z.a > 3:
            z.d = z.left


class Several(kl.Program):
    """A head that may select several positions, read where it is asked for."""

    tokens = 4
    key = kl.cat(4, token=lambda t: t)
    asks = kl.cat(2, token=lambda t: t == 3)
    two = kl.cat(4, default=2)
    found = kl.attend(two, key, key)
    result = kl.cat(2)
    output, layers = result, 1

    def step(z):
        if z.asks:
            z.result = z.found in (1, 2)


class Wide(kl.Program):
    """A sum of many variables: every weight is small, the sum is not."""

    tokens = 30
    a = kl.cat(30, token=lambda t: t)
    b = kl.cat(30, token=lambda t: 29 - t)
    c, d, e, f, g, h, i, j = (kl.cat(30, token=lambda t, k=k: (k * t) % 30) for k in range(8))
    larger = kl.cat(2)
    output, layers = larger, 1

    def step(z):
        z.larger = z.a + z.b + z.c + z.d + z.e + z.f + z.g + z.h + z.i + z.j > 150


class Waits(kl.Program):
    """Halts when two variables have their values."""

    tokens = 3
    left = kl.cat(3, token=lambda t: t)
    done = kl.cat(2, token=lambda t: t == 0)
    output = left
    halt = {done: 1, left: 0}

    def step(z):
        if z.left > 0:
            z.left = z.left - 1
        else:
            z.done = 1


class Wiped(kl.Program):
    """A word that a head clears at some positions, and that a step writes at all of them."""

    tokens = 4
    positions = 2
    new = kl.word(2, token=lambda t: t)
    word = kl.word(2, token=lambda t: 3 - t)
    on = kl.cat(2, token=lambda t: t > 1)
    wipe = kl.clear(word, where={on: 1})
    output, layers = word, 1

    @kl.layer(wipe)
    def first(z):
        z.word = z.new

    cycle = (first,)


class Relit(kl.Program):
    """A word that a head clears where another head changes what said where."""

    tokens = 4
    positions = 2
    new = kl.word(2, token=lambda t: t)
    word = kl.word(2, token=lambda t: 3 - t)
    on = kl.cat(2, token=lambda t: t > 1)
    wipe = kl.clear(word, where={on: 1})
    lit = kl.relative(on, -1, default=1, into=on)
    output, layers = word, 1

    @kl.layer(wipe, lit)
    def first(z):
        if z.on:
            z.word = z.new

    cycle = (first,)


class Later(kl.Program):
    """A word that a head clears where the first step changes what said where."""

    tokens = 4
    positions = 2
    new = kl.word(2, token=lambda t: t)
    word = kl.word(2, token=lambda t: 3 - t)
    on = kl.cat(2, token=lambda t: t > 1)
    wipe = kl.clear(word, where={on: 1})
    output, layers = word, 1

    @kl.layer(wipe)
    def first(z):
        z.on = 1

    @first.then
    def second(z):
        if z.on:
            z.word = z.new

    cycle = (second,)


LIB = kl.library


# --- bugs: each patches the compiler, or spoils what it made -----------------------------------------------

Patch = Callable[[pytest.MonkeyPatch], None]


def after_attention(spoil: Callable[[Any, Any, Any], None]) -> Patch:
    """Something goes wrong after a block's attention is filled."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        right = attention.fill_attention

        def wrong(block: Any, spec: Any, layout: Any) -> None:
            right(block, spec, layout)
            spoil(block, spec, layout)

        monkeypatch.setattr(compiler, "fill_attention", wrong)

    return patch


def after_embeddings(spoil: Callable[[Any, Any, Any], None]) -> Patch:
    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        right = compiler.fill_embeddings

        def wrong(net: Any, spec: Any, layout: Any) -> None:
            right(net, spec, layout)
            spoil(net, spec, layout)

        monkeypatch.setattr(compiler, "fill_embeddings", wrong)

    return patch


def other_units(change: Callable[[Any], Any]) -> Patch:
    """A unit is replaced by other ones (or none) before it gets its weights."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        right = mlp.fill_mlp

        def wrong(block: Any, layout: Any, halves: Any) -> None:
            right(block, layout, tuple([change(unit) for unit in half] for half in halves))

        monkeypatch.setattr(compiler, "fill_mlp", wrong)

    return patch


def other_config(**changed: Any) -> Patch:
    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        right = compiler.configure
        monkeypatch.setattr(compiler, "configure", lambda *a: dataclasses.replace(right(*a), **changed))

    return patch


def silent(unit: Any) -> Any:
    return dataclasses.replace(unit, writes=())


def only(matches: Callable[[Any], bool], change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The change for the first unit that matches; the others stay."""
    done: list[Any] = []

    def one(unit: Any) -> Any:
        if matches(unit) and (not done or done[0] == unit):
            done.append(unit)
            return change(unit)
        return unit

    return one


def shifted(by: int) -> Callable[[Any], Any]:
    return lambda unit: dataclasses.replace(unit, bias=unit.bias + by)


def set_gap(gap: int) -> Patch:
    return lambda monkeypatch: monkeypatch.setattr(attention, "GAP", gap)


def null_score(score: float) -> Patch:
    return after_attention(lambda block, spec, layout: block.null_score.fill_(score))


def no_carry_into(bit: int) -> Patch:
    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        right = UnitBuilder._carry
        skip = lambda self, update, tests, at, *rest: None if at == bit else right(self, update, tests, at, *rest)  # noqa: E731
        monkeypatch.setattr(UnitBuilder, "_carry", skip)

    return patch


def moved_offsets(block: Any, spec: Any, layout: Any) -> None:
    block.relative.copy_(block.relative.roll(1, dims=1))


def lost_limit(side: str) -> Patch:
    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        right = attention.fill_limits
        lost = lambda block, h, spec, head, layout, gap: right(  # noqa: E731
            block, h, spec, dataclasses.replace(head, **{side: ()}), layout, gap
        )
        monkeypatch.setattr(attention, "fill_limits", lost)

    return patch


def other_copies(change: Callable[[Any], Any]) -> Patch:
    """The copies of every head are changed."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        right = attention.fill_copies

        def wrong(block: Any, h: int, head: Any, layout: Any) -> None:
            right(block, h, dataclasses.replace(head, copies=tuple(map(change, head.copies))), layout)

        monkeypatch.setattr(attention, "fill_copies", wrong)

    return patch


def no_default(copy: Any) -> Any:
    return dataclasses.replace(copy, default=None) if copy.sign < 0 else copy


def other_default(copy: Any) -> Any:
    return copy if copy.default is None else dataclasses.replace(copy, default=(copy.default + 1) % len(copy.kind))


def keeps_old(copy: Any) -> Any:
    return dataclasses.replace(copy, sources=copy.sources[:1]) if len(copy.sources) > 1 else copy


def doubled_value(block: Any, spec: Any, layout: Any) -> None:
    block.value[:] *= 2


def lost_member(block: Any, spec: Any, layout: Any) -> None:
    block.query[0, 2, layout["ask"].start + 1] = 0


def swapped_bits(block: Any, spec: Any, layout: Any) -> None:
    block.key[0, [0, 1]] = block.key[0, [1, 0]]


def other_token(net: Any, spec: Any, layout: Any) -> None:
    net.token_embedding[1] = net.token_embedding[0]


def later_positions(net: Any, spec: Any, layout: Any) -> None:
    net.position_embedding.copy_(net.position_embedding.roll(1, dims=0))


def swapped_rows(net: Any, spec: Any, layout: Any) -> None:
    net.unembedding[[0, 1]] = net.unembedding[[1, 0]]


def tied_logits(net: Any, spec: Any, layout: Any) -> None:
    net.unembedding[1] += net.unembedding[0]


def halts_early(net: Any, spec: Any, layout: Any) -> None:
    net.halt_bias[0] += 1


def halts_on_other(net: Any, spec: Any, layout: Any) -> None:
    net.halt_weight.copy_(net.halt_weight.roll(1))


def soft_gates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gates keep no distance from heads that may hold averages."""
    monkeypatch.setattr("kleene.lowering.thresholds.averaging_heads", lambda updates: [])


def lost_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    right = UnitBuilder.conjunction

    def wrong(self: Any, tests: Any, column: Any, half: int, purpose: str, why: str) -> None:
        right(self, tests[1:] if len(tests) > 2 else tests, column, half, purpose, why)

    monkeypatch.setattr(UnitBuilder, "conjunction", wrong)


def twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """An update's units are made twice."""
    right = UnitBuilder.chain

    def wrong(self: Any, *given: Any, **options: Any) -> None:
        right(self, *given, **options)
        if given[3] == 2:
            right(self, *given, **options)

    monkeypatch.setattr(UnitBuilder, "chain", wrong)


def wide_equality(monkeypatch: pytest.MonkeyPatch) -> None:
    """An equality of words without its second threshold."""
    right = UnitBuilder.chain

    def wrong(self: Any, tests: Any, form: Any, steps: Any, half: int, purpose: str, why: str, *rest: Any) -> None:
        right(self, tests, form, steps[:2] if why == "comparison" else steps, half, purpose, why, *rest)

    monkeypatch.setattr(UnitBuilder, "chain", wrong)


def later_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    """≥ is taken for >."""
    right = UnitBuilder.word_sum

    def wrong(self: Any, terms: Any, constant: int, *rest: Any) -> LinearFunction:
        total = right(self, terms, constant, *rest)
        if not rest and not constant:
            total.constant -= 1
        return total

    monkeypatch.setattr(UnitBuilder, "word_sum", wrong)


def short_averages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buckets for inputs of two tokens, a limit of twelve."""
    right = compiler.resolve_averages
    monkeypatch.setattr(compiler, "resolve_averages", lambda spec, length, dtype: right(spec, 2, dtype))


def small_clearing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlp, "clearing_scale", lambda spec, head: (2, True, False))


def no_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "check_magnitudes", lambda *given: None)


def described(change: Callable[[dict[str, Any]], None]) -> Patch:
    """The description is wrong."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        right = compiler.describe

        def wrong(*given: Any) -> dict[str, Any]:
            made = right(*given)
            change(made)
            return made

        monkeypatch.setattr(compiler, "describe", wrong)

    return patch


def lost_read_test(made: dict[str, Any]) -> None:
    next(read for read in made["reads"] if read["tests"])["tests"].clear()


def generous_read(made: dict[str, Any]) -> None:
    made["reads"][0]["at_most"] = 2


def swapped_names(made: dict[str, Any]) -> None:
    made["layout"][0]["name"], made["layout"][1]["name"] = made["layout"][1]["name"], made["layout"][0]["name"]


def extra_dimension(monkeypatch: pytest.MonkeyPatch) -> None:
    """A residual dimension that nothing is coded in."""
    right = compiler.configure
    monkeypatch.setattr(compiler, "configure", lambda *a: dataclasses.replace(right(*a), dim=right(*a).dim + 1))


def rough_weights(block: Any, layout: Any, halves: Any) -> None:
    mlp.fill_mlp(block, layout, halves)
    block.in2[0, torch.nonzero(block.in2[0])[0]] += 0.25


def whole_numbers_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "fill_mlp", rough_weights)


def leaking_scratch(unit: Any) -> Any:
    """A unit of the first half writes a variable as well."""
    return dataclasses.replace(unit, writes=(*unit.writes, (("d", 0), 1)))


def later_carry(monkeypatch: pytest.MonkeyPatch) -> None:
    other_units(only(lambda u: u.why.startswith("carry"), shifted(-1)))(monkeypatch)


def other_heads(change: Callable[[Any, int], None]) -> Patch:
    """What is changed in a block after its attention is filled, head by head."""

    def spoil(block: Any, spec: Any, layout: Any) -> None:
        for h, name in enumerate(block.heads):
            change(block, h) if name in CHANGED_HEADS else None

    return after_attention(spoil)


CHANGED_HEADS = ("last", "same", "twin", "again", "put")


def other_order(block: Any, h: int) -> None:
    """The earliest match instead of the latest."""
    block.relative[h] = block.relative[h].flip(0)


def close_ranks(block: Any, h: int) -> None:
    """Two matches that exp tells apart by less than float32 needs."""
    block.relative[h] /= 16


def right_before_left(block: Any, spec: Any, layout: Any) -> None:
    """Of two matches that are equally near, the right one."""
    h = block.heads.index("near")
    block.relative[h] = block.relative[h].flip(0)


def forgotten_offset(block: Any, spec: Any, layout: Any) -> None:
    """The offset −2 is not looked at."""
    h = block.heads.index("near")
    block.relative[h, block.window - 1] = block.relative[h, block.window + 1]


def heavier_null_key(block: Any, h: int) -> None:
    """A head that counts gives the null key another weight than a match."""
    block.null_score[h] += 1024


def counts_itself_twice(block: Any, h: int) -> None:
    block.null_value[h] *= 2


def clears_another_bit(block: Any, spec: Any, layout: Any) -> None:
    """The head that clears a word leaves its lowest bit, and takes the next one away twice."""
    start = layout["b"].start
    for h, name in enumerate(block.heads):
        if name.startswith("clear"):
            block.value[h, :, start] = 0


def another_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Positions are counted from one more."""
    right = compiler.configure

    def wrong(*given: Any) -> Any:
        made = right(*given)
        return dataclasses.replace(made, counted=tuple((at, bits, offset + 1) for at, bits, offset in made.counted))

    monkeypatch.setattr(compiler, "configure", wrong)


def both_steps_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second step reads what stood there before the first one."""
    right = compiler.lower_two_steps

    def wrong(updates: Any) -> Any:
        made = right(updates)
        early = (dataclasses.replace(unit, half=1) if unit.purpose == "n" else unit for unit in made.units)
        return dataclasses.replace(made, units=tuple(early))

    monkeypatch.setattr(compiler, "lower_two_steps", wrong)


def unread_limb(unit: Any) -> Any:
    """A unit without the carry of the limb below."""
    clears = unit.why == "clear" and "limb" in unit.purpose
    return unit if clears else dataclasses.replace(unit, reads=tuple(r for r in unit.reads if "limb" not in r[0][0]))


def lower_bit(unit: Any) -> Any:
    """The unit writes the bit below."""
    return dataclasses.replace(unit, writes=tuple(((name, bit - 1), column) for (name, bit), column in unit.writes))


def default_of_five(block: Any, spec: Any, layout: Any) -> None:
    block.null_value[block.heads.index("mean"), 0] = 5


def scores_beyond_64_bits(block: Any, spec: Any, layout: Any) -> None:
    """Where the head should look, 2^64 is taken away: nothing, for who adds in 64 bits."""
    h, scale = block.heads.index("left"), 2.0**40
    for part in (block.query, block.query_bias, block.relative, block.null_score):
        part[h] *= scale
    block.query[h, -1, layout["reads"].start + 1], block.key_bias[h, -1] = -scale, 2.0**24


def huge_relative_score(block: Any, spec: Any, layout: Any) -> None:
    """An offset that should not be selected scores more than 64 bits hold."""
    block.relative[block.heads.index("left"), 0] = 2.0**64


def cleared_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    """What says where a head clears is looked up after it has changed."""
    wheres = lambda self, written=(): {n: c.where for c in self.clears.values() for n in c.variables}  # noqa: E731
    monkeypatch.setattr(Spec, "cleared", wheres)


def not_causal(block: Any, spec: Any, layout: Any) -> None:
    block.causal = not block.causal


# name → (program, how it is compiled, the bug, the lemma that fails, what the reason says)
BUGS: dict[str, tuple[Any, dict[str, Any], Patch, str, str]] = {
    "gap of 1": (LIB.parity_relative, {}, set_gap(1), "hard-attention", "gap of 105"),
    "gap of 64": (LIB.parity_relative, {}, set_gap(64), "hard-attention", "gap of 105"),
    "gap for float32 in float64": (
        LIB.parity_relative,
        {"dtype": "float64"},
        set_gap(512),
        "hard-attention",
        "gap of 74",
    ),
    "null key like a match": (LIB.parity_relative, {}, null_score(2048), "hard-attention", "a match scores"),
    "null key like a mismatch": (LIB.parity_relative, {}, null_score(0), "hard-attention", "the null key scores"),
    "null key of words": (Lookup, {}, null_score(3 * 1024), "hard-attention", "a match scores"),
    "offsets by one": (LIB.parity_relative, {}, after_attention(moved_offsets), "hard-attention", "a match scores 0"),
    "a member of a set lost": (Sets, {}, after_attention(lost_member), "hard-attention", "different scores"),
    "bits of an address swapped": (Lookup, {}, after_attention(swapped_bits), "hard-attention", "compares bit"),
    "where lost": (Mailbox, {}, lost_limit("where"), "hard-attention", "left"),
    "among lost": (Mailbox, {}, lost_limit("among"), "hard-attention", "put"),
    "a head that looks ahead": (LIB.parity_relative, {}, after_attention(not_causal), "shapes", "causal"),
    "another default": (Sets, {}, other_copies(other_default), "copies", "found"),
    "a default stays": (Mailbox, {}, other_copies(no_default), "copies", "clear"),
    "the old value stays": (Mailbox, {}, other_copies(keeps_old), "copies", "put"),
    "a value twice": (LIB.parity_relative, {}, after_attention(doubled_value), "copies", "does not copy"),
    "a head not cleared": (
        LIB.parity_relative,
        {},
        other_units(only(lambda u: u.why == "clear head", silent)),
        "clearing",
        "not cleared",
    ),
    "scratch not cleared": (
        Tied,
        {},
        other_units(only(lambda u: u.half == 2 and u.why == "clear" and u.purpose[0] == "[", silent)),
        "clearing",
        "not cleared",
    ),
    "an old value not cleared": (
        Tied,
        {},
        other_units(only(lambda u: u.why == "clear" and u.purpose == "d", silent)),
        "thresholds",
        "'d'",
    ),
    "an average cleared by less": (Shares, {}, small_clearing, "averages", "larger than what clears"),
    "an average not cleared": (
        Shares,
        {},
        other_units(only(lambda u: u.why == "clear average", silent)),
        "averages",
        "cleared",
    ),
    "carry into bit 2 dropped": (Adder, {}, no_carry_into(2), "thresholds", "bit"),
    "carry one too late": (Adder, {}, later_carry, "thresholds", "bit"),
    "a bit not copied": (Adder, {}, other_units(only(lambda u: u.why == "copy a bit", silent)), "thresholds", "bit"),
    "a constant lost": (Adder, {}, other_units(only(lambda u: u.why == "constant", silent)), "thresholds", "bit"),
    "≥ taken for >": (Adder, {}, later_comparison, "comparisons", "comparison [a − b"),
    "= taken for ≥": (Adder, {}, wide_equality, "comparisons", "= 0"),
    "a bucket's boundary by one": (
        Shares,
        {},
        other_units(only(lambda u: u.why == "bucket", shifted(1))),
        "averages",
        "apart",
    ),
    "a limit too long": (Shares, {}, short_averages, "averages", "apart"),
    "halting on another value": (Waits, {}, after_embeddings(halts_on_other), "halting", "halt"),
    "halting too soon": (Waits, {}, after_embeddings(halts_early), "halting", "another value"),
    "a token's embedding": (LIB.parity_relative, {}, after_embeddings(other_token), "embeddings", "token 1"),
    "positions by one": (LIB.parity_absolute(6), {}, after_embeddings(later_positions), "embeddings", "position 0"),
    "rows of the unembedding swapped": (LIB.parity_relative, {}, after_embeddings(swapped_rows), "output", "logit"),
    "logits that tie": (LIB.parity_relative, {}, after_embeddings(tied_logits), "output", "logit"),
    "a guard lost": (LIB.addition, {}, lost_guard, "thresholds", "differently"),
    "an update twice": (Tied, {}, twice, "thresholds", "'c'"),
    "a threshold off by one": (
        Tied,
        {},
        other_units(only(lambda u: u.half == 2 and u.purpose == "c" and "from" in u.why, shifted(1))),
        "thresholds",
        "'c'",
    ),
    "a predicate off by one": (
        Tied,
        {},
        other_units(only(lambda u: u.half == 1, shifted(1))),
        "thresholds",
        "'c'",
    ),
    "scratch that leaks": (
        Tied,
        {},
        other_units(only(lambda u: u.half == 1, leaking_scratch)),
        "scratch",
        "no scratch value",
    ),
    "gates without distance": (Several, {}, soft_gates, "thresholds", "undefined"),
    "sums too large for bfloat16": (Wide, {"dtype": "bfloat16"}, no_rounding, "exact-sums", "bfloat16"),
    "a weight that is no whole number": (LIB.parity_relative, {}, whole_numbers_lost, "numbers", "whole"),
    "a read guard without its test": (Tied, {}, described(lost_read_test), "reads", "other tests"),
    "a read guard that allows two": (LIB.parity_relative, {}, described(generous_read), "reads", "defined"),
    "names of variables swapped": (LIB.parity_relative, {}, described(swapped_names), "embeddings", "does not start"),
    "a dimension that is nothing's": (LIB.parity_relative, {}, extra_dimension, "layout", "every dimension"),
    "a layer too few": (LIB.histogram(5, 4), {}, other_config(layers=1), "shapes", "layers"),
    "no halting": (LIB.parity_relative, {"layers": 3}, other_config(halts=False), "shapes", "halts"),
    # what was added later: preferences, counts, limbs, counted positions, two steps, bits, sets, decoders
    "the earliest for the latest": (Remembers, {}, other_heads(other_order), "hard-attention", "of two matches"),
    "ranks that exp confuses": (Remembers, {}, other_heads(close_ranks), "hard-attention", "of two matches"),
    "the right one of two": (Remembers, {}, after_attention(right_before_left), "hard-attention", "of two matches"),
    "an offset forgotten": (Remembers, {}, after_attention(forgotten_offset), "hard-attention", "near"),
    "inputs longer than the ranks": (
        Remembers,
        {},
        other_config(max_length=None, positions=None),
        "shapes",
        "longer inputs",
    ),
    "a count's null key": (Counts, {}, other_heads(heavier_null_key), "hard-attention", "counts"),
    "a count that is off": (Counts, {}, other_heads(counts_itself_twice), "copies", "same"),
    "a limb's carry lost": (
        Limbs,
        {},
        other_units(unread_limb),
        "thresholds",
        "bit 16",
    ),
    "a limb's carry too late": (
        Limbs,
        {},
        other_units(only(lambda u: u.why.startswith("carry of a limb"), shifted(-1))),
        "thresholds",
        "bit 16",
    ),
    "positions counted from one more": (Numbered, {}, another_count, "shapes", "counted"),
    "a written word keeps its old value": (Numbered, {}, other_copies(keeps_old), "copies", "put"),
    "a clearing head at every position": (Cleared, {}, lost_limit("where"), "hard-attention", "clear"),
    "a bit that is not cleared": (Cleared, {}, after_attention(clears_another_bit), "copies", "'b'"),
    "an old word not cleared": (
        Wiped,
        {},
        other_units(lambda u: silent(u) if u.why == "clear" and u.purpose == "word" else u),
        "thresholds",
        "bit 0 of 'word'",
    ),
    "cleared where a head says so later": (Relit, {}, cleared_for_good, "thresholds", "bit 0 of 'word'"),
    "cleared where a step says so later": (Later, {}, cleared_for_good, "thresholds", "bit 0 of 'word'"),
    "two steps at once": (Cleared, {}, both_steps_at_once, "thresholds", "'n'"),
    "a bit of a complement": (
        Cleared,
        {},
        other_units(only(lambda u: u.purpose == "b", shifted(-1))),
        "thresholds",
        "'b'",
    ),
    "one bit of a bitwise and": (
        Bitwise,
        {},
        other_units(only(lambda u: "[10]" in u.why or "(a[1], b[1])" in u.why, shifted(1))),
        "thresholds",
        "bit 1 of 'c'",
    ),
    "a shift by one too few": (
        Bitwise,
        {},
        other_units(only(lambda u: u.why == "bits a[2], from 1 on" and u.purpose == "a", lower_bit)),
        "thresholds",
        "of 'a'",
    ),
    "a set for nothing": (Choosing, {}, other_copies(other_default), "copies", "neighbour"),
    "an average's default": (Choosing, {}, after_attention(default_of_five), "copies", "mean"),
    "a decoder with another end": (Speaks, {}, other_config(max_tokens=4), "shapes", "max_tokens"),
    "a decoder that finds the first": (Speaks, {}, other_heads(other_order), "hard-attention", "again"),
    "scores beyond 64 bits": (
        Mailbox,
        {"dtype": "float64"},
        after_attention(scores_beyond_64_bits),
        "hard-attention",
        "too large",
    ),
    "a score beyond 64 bits": (Mailbox, {}, after_attention(huge_relative_score), "numbers", "too large"),
    "another stop token": (LIB.parity_scratchpad(3), {}, other_config(stop=0), "shapes", "stop"),
}


def planted(name: str, monkeypatch: pytest.MonkeyPatch) -> checker.Saved:
    """A network that was compiled with a bug, and without the compiler's own checks."""
    program, options, patch, *_ = BUGS[name]
    monkeypatch.setattr(compiler, "check_weights", lambda *given: None)
    patch(monkeypatch)
    return as_saved(kl.compile(program, **options))


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_refused_for_the_right_reason(name, monkeypatch):
    *_, lemma, words = BUGS[name]
    verdict = checker.check(planted(name, monkeypatch))
    assert not verdict.holds
    assert f"(lemma {lemma})" in verdict.reason and words in verdict.reason, verdict.reason


def test_the_programs_are_proved_without_a_bug():
    for program, options, *_ in {id(bug[0]): bug for bug in BUGS.values()}.values():
        if options.get("dtype") != "bfloat16":
            assert kl.certify(kl.compile(program, **options)).holds, program


# lemma → a bug that no other lemma finds
ONLY = {
    "shapes": "another stop token",
    "numbers": "a weight that is no whole number",
    "layout": "a dimension that is nothing's",
    "exact-sums": "sums too large for bfloat16",
    "embeddings": "a token's embedding",
    "hard-attention": "null key like a match",
    "copies": "another default",
    "averages": "a limit too long",
    "scratch": "scratch that leaks",
    "comparisons": "≥ taken for >",
    "clearing": "a head not cleared",
    "thresholds": "carry into bit 2 dropped",
    "reads": "a read guard that allows two",
    "halting": "halting too soon",
    "output": "rows of the unembedding swapped",
}


@pytest.mark.parametrize("lemma", checker.LEMMAS)
def test_without_a_lemma_a_bug_passes(lemma, monkeypatch):
    """Every lemma is needed: with it switched off, a bug that it finds is accepted."""
    if lemma == "decoding":
        saved = looks_ahead()
    else:
        saved = planted(ONLY[lemma], monkeypatch)
    assert f"(lemma {lemma})" in (checker.check(saved).reason or "")
    monkeypatch.setattr(checker, "LEMMAS", {n: p for n, p in checker.LEMMAS.items() if n != lemma})
    assert checker.check(saved).holds, checker.check(saved).reason


def looks_ahead() -> checker.Saved:
    """A decoder that says everywhere that it looks ahead."""
    net = kl.compile(LIB.parity_scratchpad(3))
    net.config = dataclasses.replace(net.config, causal=False)
    net.description["program"]["causal"] = False
    for block in net.blocks:
        block.causal = False
    return as_saved(net)
