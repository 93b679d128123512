"""The compact lowering: threshold units on separable forms.

A unit is clip(weights · x + bias) with clip(y) = min(max(y, 0), 1); on whole numbers it is the predicate
weights · x + bias ≥ 1. A conjunction of value sets is one unit. A function of a form costs one unit for each
place where it changes. Predicates on forms of several variables, and the buckets of numerical heads, are
computed in the first half of the MLP block, into scratch dimensions that the second half uses and clears.
Each update is lowered in the cheapest way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import pairwise, product
from math import prod
from typing import Any, TypeVar

import numpy as np

from kleene.common.residual import Layout
from kleene.errors import NotSupported, ProgramError
from kleene.lowering.bit_functions import BitFunction, cubes, literal
from kleene.lowering.forms import Form, Grid, Number
from kleene.lowering.guarding import merged
from kleene.lowering.layout import build_layout
from kleene.lowering.rules import Rules
from kleene.lowering.updates import GuardedUpdate, Test, Updates, WordUpdate, index_test, simplify_guard
from kleene.lowering.words import LARGEST_SUM, LIMB, NARROW, WIDEST_SUM, Terms, WordPredicate, places_of, wires
from kleene.machines.bitwords import bit_of_name, part_of_name
from kleene.machines.kinds import MAX_WORD_BITS, Numerical, Subset, Word
from kleene.machines.spec import Counting, HeadSpec, Spec

AnyUpdate = TypeVar("AnyUpdate", GuardedUpdate, WordUpdate)
Dim = tuple[str, int]  # (variable or scratch name, place in its segment)
Weights = tuple[tuple[Dim, int], ...]  # what a unit reads or writes, sorted
Column = dict[Dim, int]  # what a unit adds to the residual stream when it is on

MAX_CUBES = 200_000
MOST_SHARING = 500  # updates of a variable for which a common clearing is tried

# the ways of lowering an update
WRITE = "write, then clear"
TRANSITIONS = "old to new"
DIRECT = "threshold as guard"


@dataclass(frozen=True)
class ThresholdUnit:
    """One hidden unit: clip(Σ reads · x + bias), which adds `writes`. `half` is 1 or 2."""

    reads: Weights
    bias: int
    writes: Weights
    half: int
    purpose: str  # the variable, head or scratch value that the unit serves
    why: str  # what the unit does for it


@dataclass
class LinearFunction:
    """A linear function of the residual stream with whole coefficients, and a bound on its value.

    `rough`: the function reads a head that may select several positions. Where `step` does not read that head, it may
    hold an average with rounded parts, which can exceed the bound by a rounding error. Gates then keep a margin.
    """

    weights: dict[Dim, int] = field(default_factory=dict)
    constant: int = 0
    high: int = 0
    rough: bool = False


@dataclass(frozen=True)
class ReadTest:
    """A test of a read guard, on the residual stream between the two halves."""

    linear: LinearFunction
    allowed: tuple[int, ...]


@dataclass(frozen=True)
class LoweredStep:
    """The units of both halves, their layout, and what each way of lowering would cost."""

    spec: Spec
    layout: Layout
    units: tuple[ThresholdUnit, ...]
    costs: tuple[tuple[str, str, dict[str, int]], ...] = ()  # (variable, description, way → units), best first
    reads: tuple[tuple[str, list[ReadTest]], ...] = ()  # (head, tests) in the order of reading

    def half(self, number: int) -> list[ThresholdUnit]:
        return [unit for unit in self.units if unit.half == number]


class UnitBuilder:
    """Collects units, and remembers which scratch values exist."""

    def __init__(self, updates: Updates, written: Iterable[str] = ()) -> None:
        """`written`: variables that an earlier step of the layer writes, so that they are no longer cleared."""
        self.spec, self.rough = updates.spec, frozenset(averaging_heads(updates))
        self.updates = updates
        self.cleared = self.spec.cleared(written)
        self.units: list[ThresholdUnit] = []
        self.scratch: dict[Any, str] = {}  # what the value means → the name of its dimension
        self.costs: list[tuple[str, str, dict[str, int]]] = []

    def is_cleared(self, variable: str, guard: Iterable[Test]) -> bool:
        """Whether a head has cleared a variable wherever a guard holds."""
        if variable not in self.cleared:
            return False
        known = {test.variable: test.indices for test in guard if test.variable is not None}
        return all(known.get(name) == frozenset([index]) for name, index in self.cleared[variable])

    def size(self, name: str) -> int:
        return self.updates.size(name)

    # --- linear functions of the residual stream ---

    def linear(self, form: Form) -> LinearFunction:
        """Convert a form to a linear function of the residual stream, times its denominator.

        Its bound covers all values of its variables, and undefined heads, whose dimensions are zero or an average.
        """
        whole = form.whole
        result = LinearFunction(constant=int(whole.constant), high=int(whole.constant))
        result.rough = not self.rough.isdisjoint(form.variables)
        for name, table in whole.terms:
            entries = [int(entry) for entry in table]
            if (bit := bit_of_name(name)) is not None:
                result.weights[bit] = result.weights.get(bit, 0) + entries[1]
                result.rough |= bit[0] in self.rough
            elif self.averaged(name):
                self.buckets(name)
                result.constant += entries[0]
                for k in range(1, len(entries)):
                    if entries[k] != entries[k - 1]:
                        result.weights[(self._bucket_name(name, k), 0)] = entries[k] - entries[k - 1]
            else:
                result.weights |= {(name, i): entry for i, entry in enumerate(entries) if entry}
            undefined = [0] if name in self.spec.heads else []
            result.high += max(entries + undefined)
        return result

    def averaged(self, name: str) -> bool:
        return name in self.spec.heads and isinstance(self.spec.kinds[name], Numerical)

    def _bucket_name(self, head: str, k: int) -> str:
        return f"{head}≥{self.spec.kinds[head].values[k]}"

    def buckets(self, head: str) -> None:
        """Add thermometer dimensions of a numerical head, one for each "value k or more".

        The compiler makes their units, since their slopes depend on the number format and the length.
        """
        if ("bucket", head, 1) not in self.scratch:
            for k in range(1, len(self.spec.kinds[head].values)):
                self.scratch[("bucket", head, k)] = self._bucket_name(head, k)

    def indicator(self, test: Test) -> LinearFunction:
        """A function that is 1 where the test holds and 0 elsewhere. A test on several variables is a scratch value."""
        if test.variable is None:
            return self._scratch_indicator(test)
        if test.variable in self.updates.by_predicate:
            return self._word_indicator(self.updates.by_predicate[test.variable], test.indices)
        name, allowed = test.variable, test.indices
        if (bit := bit_of_name(name)) is not None:
            rough = bit[0] in self.rough
            return LinearFunction({bit: 1}, 0, 1, rough) if allowed == {1} else LinearFunction({bit: -1}, 1, 1, rough)
        size = len(self.spec.kinds[name])
        if self.averaged(name):
            return self._bucket_indicator(name, allowed, size)
        if len(allowed) <= size - len(allowed):
            return LinearFunction({(name, i): 1 for i in sorted(allowed)}, 0, 1, name in self.rough)
        shorter = {(name, i): -1 for i in range(size) if i not in allowed}
        return LinearFunction(shorter, 1, 1, name in self.rough)

    def _bucket_indicator(self, head: str, allowed: frozenset[int], size: int) -> LinearFunction:
        """Whether the average lies in some buckets: the thermometer rises where they begin and falls where they end."""
        self.buckets(head)
        weights = {(self._bucket_name(head, k), 0): 1 for k in sorted(allowed) if k and k - 1 not in allowed}
        weights |= {(self._bucket_name(head, k + 1), 0): -1 for k in allowed if k + 1 < size and k + 1 not in allowed}
        return LinearFunction(weights, int(0 in allowed), 1)

    def _scratch_indicator(self, test: Test) -> LinearFunction:
        values = [int(v * test.form.denominator) for v in test.form.values]
        allowed = {int(v * test.form.denominator) for v in test.allowed}
        positive = values[0] not in allowed  # where the lowest value is off, no unit has to switch it on
        on = allowed if positive else set(values) - allowed
        key = (test.form, frozenset(on))
        if key not in self.scratch:
            name = self.scratch[key] = self._scratch_name(f"{test.form.describe()} ∈ {_runs(sorted(on))}")
            steps: list[tuple[int, Column]] = [(v, {(name, 0): 1} if v in on else {}) for v in values]
            self.chain([], self.linear(test.form), steps, 1, name, "predicate")
        name = self.scratch[key]
        return LinearFunction({(name, 0): 1}, 0, 1) if positive else LinearFunction({(name, 0): -1}, 1, 1)

    def _scratch_name(self, described: str) -> str:
        """A unique name for a scratch value. Long descriptions are cut, so two of them may be equal."""
        taken, name, number = set(self.scratch.values()), f"[{described}]", 1
        while name in taken:
            number += 1
            name = f"[{described}]#{number}"
        return name

    def _word_indicator(self, predicate: WordPredicate, allowed: frozenset[int]) -> LinearFunction:
        """A comparison of words as a scratch value: one threshold, or two for equality."""
        if predicate not in self.scratch:
            name = self.scratch[predicate] = predicate.name
            total, t = self.word_sum(predicate.terms, 0), predicate.threshold
            steps: list[tuple[int, Column]] = [(t - 1, {}), (t, {(name, 0): 1})]
            self.chain([], total, steps + [(t + 1, {})] * (predicate.relation == "="), 1, name, "comparison")
        name = self.scratch[predicate]
        return LinearFunction({(name, 0): 1}, 0, 1) if allowed == {1} else LinearFunction({(name, 0): -1}, 1, 1)

    def word_sum(self, terms: Terms, constant: int, below: int = MAX_WORD_BITS) -> LinearFunction:
        """Σ coefficient · word + constant, over the parts that begin below a place."""
        total = LinearFunction(constant=constant, high=constant)
        for dim, place, digit in _digits(self.spec, terms):
            if place < below:
                total.weights[dim] = total.weights.get(dim, 0) + (digit << place)
                total.high += max(0, digit << place)
                total.rough |= dim[0] in self.rough
        return total

    def read_test(self, test: Test) -> ReadTest:
        if test.variable in self.updates.by_predicate:
            return ReadTest(self._word_indicator(self.updates.by_predicate[test.variable], test.indices), (1,))
        scale = test.form.denominator
        return ReadTest(self.linear(test.form), tuple(sorted(int(value * scale) for value in test.allowed)))

    # --- units ---

    def add(self, total: LinearFunction, column: Column, half: int, purpose: str, why: str) -> None:
        self.add_unit(_frozen(total.weights), total.constant, column, half, purpose, why)

    def add_unit(self, reads: Weights, bias: int, column: Column, half: int, purpose: str, why: str) -> None:
        writes = _frozen(column)
        if writes:
            self.units.append(ThresholdUnit(reads, bias, writes, half, purpose, why))

    def conjunction(self, tests: Sequence[LinearFunction], column: Column, half: int, purpose: str, why: str) -> None:
        """One unit that is on where all indicators are 1."""
        weight = 2 if len(tests) > 1 and any(test.rough for test in tests) else 1
        total = LinearFunction(constant=1 - weight * len(tests))
        for test in tests:
            _accumulate(total, test, weight)
        self.add(total, column, half, purpose, why)

    def chain(
        self,
        tests: Sequence[LinearFunction],
        form: LinearFunction,
        steps: Sequence[tuple[int, Column]],
        half: int,
        purpose: str,
        why: str,
        guards: bool = False,
    ) -> None:
        """Units for a piecewise constant column of a form: one for each change, gated by the tests.

        `guards`: the form itself is part of the guard. It then keeps a margin too, since a test on a rough head may
        exceed 1 by a rounding error where only the form excludes the update.
        """
        far = 2 if guards and any(test.rough for test in tests) else 1
        (_, current), rest = steps[0], steps[1:]
        if current:
            self.conjunction(tests, current, half, purpose, why)
        shared = _frozen({dim: far * weight for dim, weight in form.weights.items()})  # by all units without tests
        for value, column in rest:
            if column == current:
                continue
            change = {dim: column.get(dim, 0) - current.get(dim, 0) for dim in {*column, *current}}
            gate = far * max(1, form.high - value + 1) + any(part.rough for part in (form, *tests))
            current, said = column, f"{why}, from {value} on"
            if not tests:
                self.add_unit(shared, 1 - far * value + far * form.constant, change, half, purpose, said)
                continue
            total = LinearFunction(constant=1 - far * value - gate * len(tests))
            _accumulate(total, form, far)
            for test in tests:
                _accumulate(total, test, gate)
            self.add(total, change, half, purpose, said)

    def word_update(self, update: WordUpdate) -> None:
        """Add the units of an assignment to a word: bits that are copied, or an adder; and clearing of old bits."""
        name, made = update.variable, update.assignment
        wired = made.functions if made.functions is not None else wires(self.spec, made)
        if wired is not None and (made.functions is not None or made.modulus is None):
            kept = self._bits(update, wired)
        elif self._sum_bits(update) > WIDEST_SUM and (limbs := self._limbs(update)) is not None:
            kept = self._adder_in_limbs(update, limbs)
        else:
            kept = self._adder(update)
        if not self.is_cleared(name, update.guard):
            tests = [self.indicator(test) for test in update.guard]
            for bit in range(self._width(name)):
                if bit not in kept:
                    old = LinearFunction({(name, bit): 1}, 0, 1)
                    self.conjunction([*tests, old], {(name, bit): -1}, 2, name, "clear")

    def _width(self, name: str) -> int:
        kind = self.spec.kinds[name]
        assert isinstance(kind, Word)
        return kind.bits

    def _bits(self, update: WordUpdate, functions: Sequence[BitFunction]) -> set[int]:
        """Add units for bits that are functions of a few bits, one unit for all bits that are the same function.

        Return the bits that keep their value."""
        name = update.variable
        tests = [self.indicator(test) for test in update.guard]
        alike: dict[BitFunction, Column] = {}
        kept = {bit for bit, function in enumerate(functions) if function == literal(name, bit)}
        if self.is_cleared(name, update.guard):
            kept = set()
        for bit, function in enumerate(functions):
            if bit not in kept:
                alike.setdefault(function, {})[(name, bit)] = 1
        for function, column in alike.items():
            if function.atoms:
                form, steps = _threshold_form(function)
                chain = [(value, column if on else {}) for value, on in steps]
                self.chain(tests, self.linear(form), chain, 2, name, f"bits {function.describe()}")
            elif function.table:
                self.conjunction(tests, column, 2, name, "constant")
        return kept

    def _adder(self, update: WordUpdate) -> set[int]:
        """Add the units of an adder (see words.py): copied bits, carries and the constant.

        Return the bits of the word itself that are part of the sum, and so stay as they are."""
        name, made = update.variable, update.assignment
        width = self._width(name)
        bits = width if made.modulus is None else made.modulus.bit_length() - 1
        tests = [self.indicator(test) for test in update.guard]
        digits = list(_digits(self.spec, made.terms))
        own = set() if self.is_cleared(name, update.guard) else _own_bits(name, digits, bits)
        base: Column = {(name, bit): made.constant >> bit & 1 for bit in range(bits)}
        for dim, place, digit in digits:
            if place < bits and not (dim == (name, place) and place in own):
                one = LinearFunction({dim: 1}, 0, 1, dim[0] in self.rough)
                self.conjunction([*tests, one], {(name, place): digit}, 2, name, "copy a bit")
        highest = max((place + 1 for _, place, _ in digits), default=0)
        wraps = made.modulus is not None or highest > bits  # then the last carry differs (proofs/Adders.v)
        for bit in range(1, bits + wraps):
            self._carry(update, tests, bit, bits, base)
        if not wraps:  # the sum stays in range: the last carry is what the constant was taken modulo
            base[(name, bits - 1)] += 2 * (made.constant >> bits)
        self.conjunction(tests, base, 2, name, "constant")
        return own

    def _sum_bits(self, update: WordUpdate) -> int:
        made = update.assignment
        return self._width(update.variable) if made.modulus is None else made.modulus.bit_length() - 1

    def _limbs(self, update: WordUpdate) -> list[Limb] | None:
        """A sum in limbs of 16 bits that carries link; None where a unit could not hold one of them.

        Words that are subtracted are added inverted: −b is Σ (1 − bit)·2^place less all 2^place."""
        made, bits = update.assignment, self._sum_bits(update)
        limbs = [Limb() for _ in range(-(-bits // LIMB))]
        constant = made.constant
        for dim, place, sign in _single_digits(self.spec, made.terms):
            if place < bits:
                limbs[place // LIMB].parts.append((dim, sign << place % LIMB))
                constant += min(0, sign) << place
        for number, limb in enumerate(limbs):
            limb.constant = (constant % (1 << bits)) >> number * LIMB & (1 << LIMB) - 1
        for limb, after in pairwise(limbs):
            after.scale, after.most = limb.scale * (limb.most + 1), (limb.high + limb.most) >> LIMB
        rough = any(dim[0] in self.rough for limb in limbs for dim, _ in limb.parts)
        fits = all(limb.scale * (limb.high + limb.most + 1) < LARGEST_SUM for limb in limbs)
        return limbs if fits and not rough else None

    def _adder_in_limbs(self, update: WordUpdate, limbs: list[Limb]) -> set[int]:
        """Add the units of a wide adder.

        Let S be the sum of a limb, C ≤ m the carry into it. S + C ≥ j·2^16 where C and the number of thresholds
        j·2^16 − i (i = 0 … m, j = 1, 2, …) that S reaches add up to j·(m + 1). So Λ, the sum of these numbers (scratch
        values) times B, grows limb by limb, with B·(m + 1) as the next B, and a limb's carry is ⌊Λ / B⌋: the sum below
        a bit has the carry t where B · (that sum) + Λ ≥ B · t·2^bit."""
        name, bits = update.variable, self._sum_bits(update)
        tests = [self.indicator(test) for test in update.guard]
        base: Column = {}
        for dim, place, sign in _single_digits(self.spec, update.assignment.terms):
            if place < bits:
                self.conjunction([*tests, LinearFunction({dim: 1}, 0, 1)], {(name, place): sign}, 2, name, "copy a bit")
        carried = LinearFunction()
        for number, limb in enumerate(limbs):
            start, width = number * LIMB, min(LIMB, bits - number * LIMB)
            self._carries_of_limb(tests, carried, limb.scale, {(name, start): 1})
            for place in range(width):
                base[(name, start + place)] = limb.constant_bit(place)
                column = {(name, start + place): -2}
                if place + 1 < width:
                    column[(name, start + place + 1)] = 1
                self._carries_of_limb(tests, limb.below(place + 1, carried), limb.scale << place + 1, column)
            if number + 1 < len(limbs):
                carried = self._passed_on(name, number, limb, carried)
        self.conjunction(tests, base, 2, name, "constant")
        return set()

    def _carries_of_limb(
        self, tests: Sequence[LinearFunction], total: LinearFunction, size: int, column: Column
    ) -> None:
        """Add a column as often as a sum has a size in it."""
        steps: list[tuple[int, Column]] = [(0, {})]
        for times in range(1, total.high // size + 1):
            steps.append((times * size, {dim: times * weight for dim, weight in column.items()}))
        if len(steps) > 1:
            self.chain(tests, total, steps, 2, next(iter(column))[0], "carry")

    def _passed_on(self, name: str, number: int, limb: Limb, carried: LinearFunction) -> LinearFunction:
        """Λ for the next limb: scratch values of this one, added to those of the limbs below."""
        total = Limb(limb.parts, limb.constant).below(2 * LIMB, LinearFunction())
        limits = [
            (j << LIMB) - i for j in range(1, ((limb.high + limb.most) >> LIMB) + 1) for i in range(limb.most + 1)
        ]
        reached = [limit for limit in limits if limit <= limb.high]
        more = LinearFunction(dict(carried.weights), 0, carried.high + limb.scale * len(reached))
        for limit in reached:
            key = ("limb", tuple(sorted(limb.parts)), limb.constant, limit)
            if key not in self.scratch:
                label = self.scratch[key] = self._scratch_name(f"limb {number} of a sum for {name} ≥ {limit}")
                steps: list[tuple[int, Column]] = [(limit - 1, {}), (limit, {(label, 0): 1})]
                self.chain([], total, steps, 1, label, "carry of a limb")
            more.weights[(self.scratch[key], 0)] = limb.scale
        return more

    def _carry(self, update: WordUpdate, tests: Sequence[LinearFunction], bit: int, bits: int, base: Column) -> None:
        """Add the carry T = ⌊(sum of everything below a bit) / 2^bit⌋ to the bit; subtract 2·T from the bit below."""
        name, made = update.variable, update.assignment
        size = 1 << bit
        total = self.word_sum(made.terms, made.constant % size, bit)
        lowest = made.constant % size + sum(min(0, weight) for weight in total.weights.values())
        first = lowest // size
        column = {(name, bit - 1): -2} | ({(name, bit): 1} if bit < bits else {})
        for dim, weight in column.items():
            base[dim] = base.get(dim, 0) + first * weight
        steps: list[tuple[int, Column]] = [((first + 1) * size - 1, {})]
        for k in range(1, total.high // size - first + 1):
            steps.append(((first + k) * size, {dim: k * weight for dim, weight in column.items()}))
        if len(steps) > 1:
            self.chain(tests, total, steps, 2, name, "carry")

    def clear_scratch(self) -> None:
        for name in self.scratch.values():
            self.add(LinearFunction({(name, 0): 1}), {(name, 0): -1}, 2, name, "clear")

    def clear_heads(self) -> None:
        """Clear each dimension of a head with one unit: x − clip(x) is 0 for every x in [0, 1], averages included.

        The compiler clears scalars, since their range decides the scale.
        """
        for name, head in self.spec.heads.items():
            if not self.averaged(name):
                for index in range(head.kind.bits if isinstance(head.kind, Word) else len(head.kind)):
                    self.add(LinearFunction({(name, index): 1}), {(name, index): -1}, 2, name, "clear head")


def _digits(spec: Spec, terms: Terms) -> Iterator[tuple[Dim, int, int]]:
    """The parts of a sum of words and bits: (dimension, place, digit), where a part adds digit · 2^place."""
    for name, coefficient in terms:
        word, places = places_of(spec, name)
        power = 0 if word == name else (coefficient & -coefficient).bit_length() - 1
        for place, bit in enumerate(places, power):
            yield (word, bit), place, coefficient >> power


def _single_digits(spec: Spec, terms: Terms) -> Iterator[tuple[Dim, int, int]]:
    """The parts of a sum, each a power of two: (dimension, place, sign)."""
    for dim, place, digit in _digits(spec, terms):
        for power in range(abs(digit).bit_length()):
            if abs(digit) >> power & 1:
                yield dim, place + power, 1 if digit > 0 else -1


@dataclass
class Limb:
    """16 bits of a wide sum: bits with weights ± a power of two, and a constant. What is subtracted is added inverted,
    as weight · (1 − bit); the constant makes up for it. `most` is the largest carry into it, `scale` what one counts.
    """

    parts: list[tuple[Dim, int]] = field(default_factory=list)
    constant: int = 0
    most: int = 0
    scale: int = 1

    @property
    def high(self) -> int:
        """The largest sum."""
        return self.constant + sum(abs(weight) for _, weight in self.parts)

    def constant_bit(self, place: int) -> int:
        """What is always added at a place: one for each bit that is subtracted there, and the constant."""
        return sum(weight == -(1 << place) for _, weight in self.parts) + (self.constant >> place & 1)

    def below(self, place: int, carried: LinearFunction) -> LinearFunction:
        """The sum below a place times the scale, and the carries of the limbs below."""
        size = 1 << place
        kept = [(dim, weight) for dim, weight in self.parts if abs(weight) < size]
        rest = self.constant % size
        inverted, high = rest - sum(min(0, weight) for _, weight in kept), rest + sum(abs(w) for _, w in kept)
        carries = (self.most + 1) * self.scale - 1
        total = LinearFunction(dict(carried.weights), inverted * self.scale, high * self.scale + carries)
        for dim, weight in kept:
            total.weights[dim] = total.weights.get(dim, 0) + weight * self.scale
        return total


def _own_bits(name: str, digits: Sequence[tuple[Dim, int, int]], bits: int) -> set[int]:
    """The bits of a word that are in a sum at their own places; none where the word is in the sum in another way, or
    one of its bits twice."""
    mine = [(dim[1], place, digit) for dim, place, digit in digits if dim[0] == name]
    plain = all(bit == place and digit == 1 for bit, place, digit in mine) and len(mine) == len({*mine})
    return {place for _, place, _ in mine if place < bits} if plain else set()


@cache
def _threshold_form(function: BitFunction) -> tuple[Form, list[tuple[int, bool]]]:
    """A form of a function's bits with the fewest places where the function changes, and its value at each."""
    best: tuple[Form, list[tuple[int, bool]]] | None = None
    count = len(function.atoms)
    for weights in (*product((1, -1), repeat=count), tuple(1 << k for k in range(count))):
        seen: dict[int, int] = {}
        fits = all(
            seen.setdefault(sum(w for k, w in enumerate(weights) if index >> k & 1), function.at(index))
            == function.at(index)
            for index in range(1 << count)
        )
        if fits:
            steps = [(value, bool(on)) for value, on in sorted(seen.items())]
            cost = steps[0][1] + sum(a[1] != b[1] for a, b in pairwise(steps))
            if best is None or cost < best[1][0][1] + sum(a[1] != b[1] for a, b in pairwise(best[1])):
                form = Form.of(0, {atom: (0, w) for atom, w in zip(function.atoms, weights)})
                best = form, steps
    assert best is not None
    return best


def averaging_heads(updates: Updates) -> list[str]:
    """The heads that may select several positions, and then hold an average of one-hot vectors or bits."""
    return [name for name, head in updates.spec.heads.items() if not head.numerical and not _selects_one(updates, head)]


def _selects_one(updates: Updates, head: HeadSpec) -> bool:
    """Whether a head always selects at most one position: one offset, a preference, or the position as its key."""
    if head.prefer is not None or (head.offsets is not None and len(head.offsets) == 1):
        return True
    if head.key is None or head.query is None or isinstance(updates.spec.kinds[head.query], Subset):
        return False
    name, start, stop = part_of_name(head.key) or (head.key, 0, MAX_WORD_BITS)
    if updates.of(name) or updates.of_word(name):
        return False
    places = updates.spec.variables[name].by_position
    if isinstance(places, Counting):
        return start == 0 and places.length <= 1 << min(stop, places.bits)
    return places is not None and len({place >> start & (1 << stop - start) - 1 for place in places}) == len(places)


def _accumulate(total: LinearFunction, part: LinearFunction, times: int) -> None:
    for dim, weight in part.weights.items():
        total.weights[dim] = total.weights.get(dim, 0) + times * weight
    total.constant += times * part.constant


def _runs(values: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    shown = [str(a) if a == b else f"{a}…{b}" for a, b in runs]
    return "{" + ", ".join(shown[:6] + (["…"] if len(shown) > 6 else [])) + "}"


# --- the ways of lowering one update ---------------------------------------------------------------------


@dataclass(frozen=True)
class Piece:
    """Part of an update: under some tests, a result for each value of a form, and a column for each result.

    Different results have different columns. That of `silent` is empty; that of all others is not."""

    tests: tuple[Test, ...]
    form: Form
    results: Mapping[Number, int]
    column_for: Callable[[int], Column]
    silent: int | None = None
    guards: bool = False  # the form is a test itself


@dataclass(frozen=True)
class Reached:
    """The values that a form can have where an update applies, ascending, with their results."""

    form: Form
    values: tuple[Number, ...]
    results: tuple[int, ...]

    @cached_property
    def changes(self) -> int:
        """How often the result changes from one value to the next."""
        return sum(before != after for before, after in pairwise(self.results))

    @cached_property
    def different(self) -> frozenset[int]:
        return frozenset(self.results)


class UpdateLowering:
    """The ways to lower one guarded update, each with its exact number of units."""

    def __init__(self, builder: UnitBuilder, update: GuardedUpdate) -> None:
        self.builder, self.update, self.spec = builder, update, builder.spec
        self.name = update.variable
        self.size = len(self.spec.kinds[self.name])
        self.domains = self._domains()
        self._reached: dict[Any, Reached] = {}  # pieces of one form share what it reaches

    def _domains(self) -> dict[str, frozenset[int]]:
        size = self.builder.updates.size
        domains = {n: frozenset(range(size(n))) for n in {*self.update.reads, self.name}}
        for test in self.update.guard:
            if test.variable is not None:
                domains[test.variable] &= test.indices
        self.cleared = self.builder.is_cleared(self.name, self.update.guard)
        if self.cleared:
            domains[self.name] &= frozenset([0])  # nothing is left where the guard asks for another old value
        return domains

    def ways(self) -> dict[str, list[Piece]]:
        """Name of the way → the pieces that make it."""
        tied = [t for t in self.update.guard if t.variable is None]
        direct = self.direct()
        options = {} if direct is None else {DIRECT: direct}
        if not any(self.builder.averaged(name) for test in tied for name in test.form.variables):
            options |= {WRITE: [self._write()], TRANSITIONS: self._transitions()}
        return options

    def _write(self) -> Piece:
        results = self.update.results
        return Piece(self.update.guard, self.update.form, results, lambda new: {(self.name, new): 1})

    def clears(self) -> list[Piece]:
        return [
            Piece(self._with_old(old), Form(0, ()), {0: 0}, lambda _, old=old: {(self.name, old): -1})  # type: ignore[misc]
            for old in sorted(self.domains[self.name])
        ]

    def _with_old(self, old: int) -> tuple[Test, ...]:
        others = [test for test in self.update.guard if test.variable != self.name]
        if self.cleared:
            return tuple(others)
        return (*others, index_test(self.spec, self.name, [old])) if self.size > 1 else tuple(others)

    def _fixed(self, old: int) -> Form:
        """The form where the old value of the updated variable is known."""
        form = self.update.form
        if self.name not in form.tables:
            return form
        rest = {name: table for name, table in form.terms if name != self.name}
        return Form.of(form.constant + form.tables[self.name][old], rest)

    def _transitions(self) -> list[Piece]:
        """One piece for each old value: subtract the old value and add the new one; nothing where they are equal."""
        results = self.update.results
        pieces = []
        for old in sorted(self.domains[self.name]):

            def column(new: int, old: int = old) -> Column:
                return {(self.name, old): -1, (self.name, new): 1} if new != old else {}

            pieces.append(Piece(self._with_old(old), self._fixed(old), results, column, silent=old))
        return pieces

    def direct(self) -> list[Piece] | None:
        """A constant under one test on several variables: thresholds on the form of that test, no scratch value."""
        tied = [test for test in self.update.guard if test.variable is None]
        if len(tied) != 1 or self.update.form.terms:
            return None
        test, (new,) = tied[0], self.update.results.values()
        others = tuple(t for t in self.update.guard if t is not test)
        if any(t.variable in test.form.tables for t in others) or self.name in test.form.tables:
            return None
        inside = [value in test.allowed for value in test.form.values]
        thresholds = min(inside[0], inside[-1]) + sum(a != b for a, b in pairwise(inside))
        if thresholds > 1 and any(t.variable in self.builder.rough for t in others):
            return None  # where the test fails, an average in a guard would open two thresholds by different parts
        pieces, holds = [], dict(zip(test.form.values, map(int, inside)))
        for old in sorted(self.domains[self.name]):
            if old != new:
                change = {(self.name, old): -1, (self.name, new): 1}
                guard = tuple(t for t in others if t.variable != self.name)
                guard = guard if self.cleared else (*guard, index_test(self.spec, self.name, [old]))

                def column(on: int, change: Column = change) -> Column:
                    return change if on else {}

                pieces.append(Piece(guard, test.form, holds, column, silent=0, guards=True))
        return pieces

    # --- pieces into units ---

    def reached(self, piece: Piece) -> Reached:
        """The values of a piece's form under its tests on single variables, but for those that a condition on several
        variables excludes."""
        domains = dict(self.domains)
        for test in piece.tests:
            if test.variable is not None:
                domains[test.variable] = domains.get(test.variable, test.indices) & test.indices
        key = (id(piece.form), id(piece.results), *(domains.get(name) for name in piece.form.variables))
        if key not in self._reached:
            values = tuple(value for value in piece.form.values_on(domains) if value in piece.results)
            self._reached[key] = Reached(piece.form, values, tuple(piece.results[value] for value in values))
        return self._reached[key]

    def plan(self, piece: Piece) -> tuple[int, str]:
        """The number of units of a piece, and how they are made: "chain" or "sets"."""
        reached = self.reached(piece)
        results = reached.results
        chain = reached.changes + bool(results and results[0] != piece.silent and results[-1] != piece.silent)
        if len(piece.form.terms) == 1:
            sets = len(reached.different) - (piece.silent in reached.different)
            if sets <= chain:
                return sets, "sets"
        return chain, "chain"

    def emit(self, piece: Piece, why: str) -> None:
        builder, (count, how) = self.builder, self.plan(piece)
        if not count:
            return
        reached = self.reached(piece)
        if how == "sets":
            self._emit_sets(piece, reached, why)
            return
        tests = [builder.indicator(test) for test in piece.tests]
        form, scale = piece.form.whole, piece.form.denominator
        steps = [(int(v * scale), piece.column_for(result)) for v, result in zip(reached.values, reached.results)]
        if steps[0][1] and not steps[-1][1]:  # start from the end where nothing is written: one unit fewer
            form, steps = form.scaled(-1), [(-value, column) for value, column in reversed(steps)]
        builder.chain(tests, builder.linear(form), steps, 2, self.name, why, piece.guards)

    def _emit_sets(self, piece: Piece, reached: Reached, why: str) -> None:
        ((name, table),) = piece.form.terms
        groups: dict[tuple[tuple[Dim, int], ...], set[int]] = {}
        allowed, result_of = frozenset(range(len(table))), dict(zip(reached.values, reached.results))
        for test in piece.tests:
            if test.variable == name:
                allowed &= test.indices
        for index in sorted(allowed):
            value = piece.form.constant + table[index]
            if value in result_of:
                groups.setdefault(_frozen(piece.column_for(result_of[value])), set()).add(index)
        others = [self.builder.indicator(test) for test in piece.tests if test.variable != name]
        for column, indices in groups.items():
            if column:
                here = (
                    [] if len(indices) == len(table) else [self.builder.indicator(index_test(self.spec, name, indices))]
                )
                self.builder.conjunction([*others, *here], dict(column), 2, self.name, why)


@dataclass(frozen=True)
class PlannedUpdate:
    """An update, the ways to lower it, and the units of each."""

    update: GuardedUpdate
    lowering: UpdateLowering
    ways: dict[str, list[Piece]]
    costs: dict[str, int]

    @classmethod
    def of(cls, builder: UnitBuilder, update: GuardedUpdate) -> PlannedUpdate:
        lowering = UpdateLowering(builder, update)
        ways = lowering.ways() if lowering.domains[lowering.name] else {TRANSITIONS: []}
        return cls(update, lowering, ways, {way: _cost(lowering, update, way, pieces) for way, pieces in ways.items()})

    @property
    def best(self) -> str:
        """The cheapest way for this update alone."""
        return min(self.costs, key=lambda way: self.costs[way])

    @property
    def blank(self) -> GuardedUpdate:
        """Where the update holds; what it writes is left out."""
        return GuardedUpdate(self.update.variable, self.update.guard, Form(0, ()), ((0, 0),))

    def units(self, way: str) -> int:
        """The units of a way, without clearing units that other updates may share."""
        shared = way == WRITE and not self.lowering.cleared
        return self.costs[way] - (len(self.lowering.domains[self.update.variable]) if shared else 0)


def _clearing(builder: UnitBuilder, blanks: list[GuardedUpdate]) -> list[GuardedUpdate]:
    """Where a variable is cleared: everywhere, or where one of its updates holds, with as few guards as are found."""
    made = merged(builder.spec, blanks)
    names = {name for blank in made for test in blank.guard for name in test.form.variables}
    domains = {name: frozenset(range(builder.size(name))) for name in names}
    if len(made) < 2 or prod(map(len, domains.values())) > MAX_CUBES:
        return made
    grid = Grid(names, domains)
    holds = np.zeros(grid.shape, dtype=bool)
    for blank in made:
        holds |= grid.where((test.form, test.allowed) for test in blank.guard)
    return [replace(made[0], guard=())] if holds.all() else made


def _shares_clearing(plans: Sequence[PlannedUpdate]) -> bool:
    """Whether a variable takes fewer units if all its updates write, since one clearing then serves many of them."""
    if not 2 <= len(plans) <= MOST_SHARING or not any(plan.best != WRITE and WRITE in plan.ways for plan in plans):
        return False
    builder = plans[0].lowering.builder

    def total(ways: Sequence[str]) -> int:
        blanks = [plan.blank for plan, way in zip(plans, ways) if way == WRITE and not plan.lowering.cleared]
        cleared = [UpdateLowering(builder, one) for one in _clearing(builder, blanks)]
        clearing = sum(one.plan(piece)[0] for one in cleared for piece in one.clears())
        return clearing + sum(plan.units(way) for plan, way in zip(plans, ways))

    together = total([WRITE if WRITE in plan.ways else plan.best for plan in plans])
    return together < total([plan.best for plan in plans])


def _frozen(column: Column) -> Weights:
    return tuple(sorted((dim, w) for dim, w in column.items() if w))


def lower_to_thresholds(updates: Updates, written: Iterable[str] = ()) -> LoweredStep:
    """Lower guarded updates to units, each in the cheapest way.

    `written`: variables that an earlier step of the layer writes."""
    builder = UnitBuilder(updates, written)
    parts = [
        part for one in updates for given in on_cubes(builder, one) for part in _without_tied_averages(builder, given)
    ]
    planned = [PlannedUpdate.of(builder, update) for update in parts]
    writing = {
        name for name in updates.variables if _shares_clearing([p for p in planned if p.update.variable == name])
    }
    clearing: dict[str, list[GuardedUpdate]] = {}
    for plan in planned:
        update, ways, costs, lowering = plan.update, plan.ways, plan.costs, plan.lowering
        best = WRITE if update.variable in writing and WRITE in ways else plan.best
        builder.costs.append((update.variable, _described(update), {best: costs[best], **costs}))
        for piece in ways[best]:
            lowering.emit(piece, best)
        if best == WRITE and not lowering.cleared:
            clearing.setdefault(update.variable, []).append(plan.blank)
    _lower_words(builder, updates)
    for blanks in clearing.values():  # updates whose guards differ in one test share their clearing units
        for blank in _clearing(builder, blanks):
            lowering = UpdateLowering(builder, blank)
            for piece in lowering.clears():
                lowering.emit(piece, "clear")
    return finish(builder, updates)


def _lower_words(builder: UnitBuilder, updates: Updates) -> None:
    """Lower the updates of words to adders, and note their costs."""
    words = [part for given in updates.words for part in on_cubes(builder, given)]
    for word in (part for given in words for part in _without_tied_averages(builder, given)):
        before = len(builder.units)
        builder.word_update(word)
        cost = sum(unit.half == 2 for unit in builder.units[before:])
        builder.costs.append((word.variable, word.assignment.describe(), {"adder": cost}))


# --- guards and tables on bits: cubes ---------------------------------------------------------------------


def on_cubes(builder: UnitBuilder, update: AnyUpdate) -> list[AnyUpdate]:
    """Split an update so that its tests on several bits become tests on single bits, a cube of them at a time.

    A table on several bits becomes constants on cubes where that takes fewer units than thresholds on its form."""
    for test in update.guard:
        atoms = _bit_atoms(test.form)
        if test.variable is None and atoms is not None and not _direct(builder, update, test):
            made: list[AnyUpdate] = []
            for guard in _cube_guards(builder.spec, update.guard, test, atoms):
                made += on_cubes(builder, replace(update, guard=guard))
            return made
    if isinstance(update, WordUpdate) or not update.form.terms:
        return [update]
    atoms = _bit_atoms(update.form)
    return [update] if atoms is None else _table_on_cubes(builder, update, atoms)


def _cube_guards(spec: Spec, guard: Sequence[Test], test: Test, atoms: Sequence[str]) -> list[tuple[Test, ...]]:
    """A guard with one of its tests as cubes of single bits: a guard for each cube."""
    rest = [t for t in guard if t is not test]
    chosen = [test.form.at(_assignment(atoms, i)) in test.allowed for i in range(1 << len(atoms))]
    made = [simplify_guard(spec, (*rest, *_cube_tests(spec, atoms, cube))) for cube in cubes(chosen)]
    return [guard for guard in made if all(test.allowed for test in guard)]  # others contradict the rest of the guard


def _direct(builder: UnitBuilder, update: GuardedUpdate | WordUpdate, test: Test) -> bool:
    """Whether thresholds on the form of a test guard the update with fewer units than cubes of bits."""
    if isinstance(update, WordUpdate) or UpdateLowering(builder, update).direct() is None:
        return False
    inside = [value in test.allowed for value in test.form.values]
    changes = inside[0] + sum(a != b for a, b in pairwise(inside))
    atoms = _bit_atoms(test.form)
    assert atoms is not None
    chosen = [test.form.at(_assignment(atoms, i)) in test.allowed for i in range(1 << len(atoms))]
    return changes < sum(1 for _ in cubes(chosen))


def _table_on_cubes(builder: UnitBuilder, update: GuardedUpdate, atoms: tuple[str, ...]) -> list[GuardedUpdate]:
    results = [update.results.get(update.form.at(_assignment(atoms, i))) for i in range(1 << len(atoms))]
    skipped = {0} if builder.is_cleared(update.variable, update.guard) else set()
    made, ordered = [], [update.results.get(value) for value in update.form.values]
    for result in sorted({r for r in results if r is not None} - skipped):
        for cube in cubes([r == result for r in results]):
            guard = simplify_guard(builder.spec, (*update.guard, *_cube_tests(builder.spec, atoms, cube)))
            if all(test.allowed for test in guard):
                made.append(replace(update, guard=guard, form=Form(0, ()), table=((0, result),)))
    changes = sum(a != b for a, b in pairwise(ordered)) + (ordered[0] not in skipped)
    return made if len(made) < changes else [update]


def _bit_atoms(form: Form) -> tuple[str, ...] | None:
    """The atoms of a form on a few bits alone; None for any other form."""
    few = len(form.variables) <= NARROW and all(bit_of_name(name) is not None for name in form.variables)
    return form.variables if few else None


def _assignment(atoms: Sequence[str], index: int) -> dict[str, int]:
    return {atom: index >> k & 1 for k, atom in enumerate(atoms)}


def _cube_tests(spec: Spec, atoms: Sequence[str], cube: tuple[int, int]) -> list[Test]:
    mask, values = cube
    return [index_test(spec, atom, [values >> k & 1]) for k, atom in enumerate(atoms) if mask >> k & 1]


# --- joining units ------------------------------------------------------------------------------------------


def shared(spec: Spec, units: Iterable[ThresholdUnit]) -> list[ThresholdUnit]:
    """Join units that compute the same sum, and units that differ only in the value of a variable that they ask for.

    A one-hot variable has one value at a time, so a unit may ask for several of them at once. A unit that makes a
    scratch value, or clears one or a head, does nothing else."""
    kept = list(units)
    for name, variable in spec.variables.items():
        if not isinstance(variable.kind, Word):
            kept = _asking_together(kept, name, len(variable.kind))
    by_sum: dict[Any, ThresholdUnit] = {}
    for unit in kept:
        alone = any(dim[0] not in spec.variables for dim, _ in unit.writes)
        key = (unit.half, unit.reads, unit.bias, unit.writes if alone else ())
        if key in by_sum:
            writes = dict(by_sum[key].writes)
            for dim, weight in unit.writes:
                writes[dim] = writes.get(dim, 0) + weight
            by_sum[key] = replace(by_sum[key], writes=tuple(sorted((d, w) for d, w in writes.items() if w)))
        else:
            by_sum[key] = unit
    return list(by_sum.values())


def _asking_together(units: list[ThresholdUnit], name: str, size: int) -> list[ThresholdUnit]:
    """Join units that differ only in the values of one variable that they ask for."""
    alike: dict[Any, tuple[ThresholdUnit, set[int]]] = {}
    for unit in units:
        asked = {dim[1] for dim, _ in unit.reads if dim[0] == name}
        weights = {weight for dim, weight in unit.reads if dim[0] == name}
        if len(weights) != 1:
            alike[unit, len(alike)] = unit, set()
            continue
        (weight,), bias = weights, unit.bias
        if weight < 0:  # not these values: the others
            weight, bias, asked = -weight, bias + weight, {*range(size)} - asked
        rest = tuple((dim, w) for dim, w in unit.reads if dim[0] != name)
        key = (unit.half, bias, unit.writes, rest, weight, 0)
        while key in alike and alike[key][1] & asked:  # both are on at once, and both count
            key = (*key[:-1], key[-1] + 1)
        alike[key] = unit, alike[key][1] | asked if key in alike else asked
    made = []
    for key, (unit, asked) in alike.items():
        if asked:
            _, bias, _, rest, weight, _ = key
            if 2 * len(asked) > size:
                weight, bias, asked = -weight, bias + weight, {*range(size)} - asked
            reads = tuple(sorted([*rest, *(((name, value), weight) for value in asked)]))
            unit = replace(unit, reads=reads, bias=bias)
        made.append(unit)
    return made


def lower_two_steps(updates: Updates) -> LoweredStep:
    """Lower a layer with two steps: the units of the first are the first half of the MLP block."""
    assert updates.second is not None
    first = lower_to_thresholds(replace(updates, second=None))
    second = lower_to_thresholds(updates.second, updates.variables)
    for part in (first, second):
        scratch = next((s.name for s in part.layout if s.coding == "scratch"), None)
        if scratch is not None or part.reads:
            raise NotSupported(
                f"{updates.spec.name}: a step of a layer with two steps needs {scratch or part.reads[0][0]}, which "
                "takes a half of the MLP block by itself; compare a few bits, or use a layer with one step"
            )
    units = [replace(unit, half=1) for unit in first.units] + list(second.units)
    return LoweredStep(
        updates.spec, first.layout, tuple(shared(updates.spec, units)), (*first.costs, *second.costs), ()
    )


def _cost(lowering: UpdateLowering, update: GuardedUpdate, way: str, pieces: list[Piece]) -> int:
    cost = sum(lowering.plan(piece)[0] for piece in pieces)
    if way == WRITE:
        cost += len(lowering.domains[update.variable]) + (MAX_CUBES if lowering.cleared else 0)
    if way != DIRECT:
        cost += _predicate_cost(test for test in update.guard if test.variable is None)
    return cost


def _described(update: GuardedUpdate) -> str:
    return f"a function of {update.form.describe()}" if update.form.terms else "a constant"


def _predicate_cost(tests: Iterable[Test]) -> int:
    cost = 1
    for test in tests:
        inside = [value in test.allowed for value in test.form.values]
        cost += sum(a != b for a, b in pairwise(inside))
    return cost if cost > 1 else 0


def _without_tied_averages(builder: UnitBuilder, update: AnyUpdate) -> list[AnyUpdate]:
    """Split tests that tie a numerical head to other variables into tests on single variables.

    Buckets of numerical heads exist only in the second half, so such a test cannot be a scratch value. It stays whole
    only where thresholds on its form can serve as the guard.
    """
    tied = [t for t in update.guard if t.variable is None and any(map(builder.averaged, t.form.variables))]
    if not tied or (isinstance(update, GuardedUpdate) and UpdateLowering(builder, update).direct() is not None):
        return [update]
    (test, *_), spec = tied, builder.spec
    rest: list[Test] = [t for t in update.guard if t is not test]
    *fixed, last = test.form.variables
    made = []
    sizes = [range(len(spec.kinds[name])) for name in fixed]
    if prod(map(len, sizes)) > MAX_CUBES:
        raise ProgramError(f"{spec.name}: a condition on {', '.join(test.form.variables)} has too many combinations")
    for choice in product(*sizes):
        chosen = dict(zip(fixed, choice))
        kept = [i for i in range(len(spec.kinds[last])) if test.holds({**chosen, last: i})]
        if kept:
            ties = [index_test(spec, name, [i]) for name, i in chosen.items()] + [index_test(spec, last, kept)]
            guard = simplify_guard(spec, rest + ties)
            if all(t.allowed for t in guard):  # otherwise no value passes
                made.append(replace(update, guard=guard))
    return [part for one in made for part in _without_tied_averages(builder, one)]


def finish(builder: UnitBuilder, updates: Updates) -> LoweredStep:
    """Add the read guards and the clearing units, and fix the layout."""
    reads = [(read.head, [builder.read_test(test) for test in read.guard]) for read in updates.reads]
    builder.clear_heads()
    builder.clear_scratch()
    layout = build_layout(builder.spec, builder.scratch.values())
    units = shared(updates.spec, builder.units) if updates.on_bits else builder.units
    return LoweredStep(builder.spec, layout, tuple(units), tuple(builder.costs), tuple(reads))


def lower_rules_to_units(rules: Rules, updates: Updates) -> LoweredStep:
    """Lower rules as in the papers: one unit for each rule, and thermometer scratch values for numerical heads."""
    builder = UnitBuilder(updates)
    for rule in rules:
        if rule.new is None:
            continue
        tests = [builder.indicator(index_test(rules.spec, name, [index])) for name, index in rule.antecedent]
        column = {(rule.variable, rule.old): -1, (rule.variable, rule.new): 1}
        builder.conjunction(tests, column, 2, rule.variable, "rule")
    return finish(builder, updates)
