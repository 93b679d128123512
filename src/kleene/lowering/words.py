"""Words: binary-coded integers in `step`. Sums and differences stay linear in the bits.

A comparison is a predicate on a linear function of words, L ≥ t or L = t. It takes one or two threshold units for any
number of bits. An assignment is an adder: with s_j the sum of everything below bit j and T_j = ⌊s_j / 2^j⌋ its carry,
bit j of L is Σ c·bit_j + constant_j + T_j − 2·T_{j+1}, and each T_j is a few thresholds on s_j.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice, product
from operator import index
from typing import TYPE_CHECKING, Any, cast

from kleene.errors import ProgramError, RangeError
from kleene.lowering.bit_functions import BitFunction, combined, constant_bits, inverted, literal
from kleene.lowering.forms import Form, variable_form
from kleene.lowering.identity import Opaque
from kleene.machines.bitwords import BitValues, BitWord, bit_name, part_name, part_of_name, sliced
from kleene.machines.bitwords import joined as joined_numbers
from kleene.machines.kinds import Word

if TYPE_CHECKING:
    from kleene.lowering.symbolic import Path
    from kleene.machines.spec import Spec

Terms = tuple[tuple[str, int], ...]  # (word or part of a word, coefficient), sorted by name; no coefficient is zero
Bit = tuple[str, int]  # (word, place)

NARROW = 12  # the most bits that a slice has as an ordinary value, with a table of all its values
WIDEST_SUM = 22  # bits of a sum of two words that float32 holds with its carries
LARGEST_SUM = 1 << 23  # of the weights of bits that one comparison adds up; more are compared in limbs
LIMB = 16  # bits of the limbs of wide sums
LATER = "(do it in a later layer, or in a second step: @layer.then)"  # what `step` has just written is a sum still
MOST_WRAPS = 16  # how often a sum may exceed its modulus, where it is used further


def largest(spec: Spec, name: str) -> int:
    """The largest value of a word, or of a part of one."""
    part = part_of_name(name)
    return (1 << part[2] - part[1]) - 1 if part else len(spec.kinds[name]) - 1


def places_of(spec: Spec, name: str) -> tuple[str, range]:
    """The word behind a name, and its bits that the name takes, lowest first."""
    part = part_of_name(name)
    if part:
        return part[0], range(part[1], part[2])
    return name, range(_bits(spec, name))


def bit_weights(spec: Spec, terms: Terms) -> dict[Bit, int]:
    """A sum of words as a sum of bits: what each bit adds."""
    weights: dict[Bit, int] = {}
    for name, coefficient in terms:
        word, places = places_of(spec, name)
        for power, bit in enumerate(places):
            weights[word, bit] = weights.get((word, bit), 0) + (coefficient << power)
    return {bit: weight for bit, weight in weights.items() if weight}


def grouped(spec: Spec, weights: Mapping[Bit, int]) -> Terms:
    """A sum of bits as a sum of words and parts: neighbouring bits whose weights double belong together."""
    terms: dict[str, int] = {}
    left = {bit: weight for bit, weight in weights.items() if weight}
    for word, start in sorted(left):
        stop, weight = start, left.get((word, start), 0)
        while weight and left.get((word, stop)) == weight << stop - start:
            del left[word, stop]
            stop += 1
        if weight:
            whole = stop - start == _bits(spec, word)
            terms[word if whole else part_name(word, start, stop)] = weight
    return tuple(sorted(terms.items()))


def wide(spec: Spec, terms: Terms) -> bool:
    """Whether a sum is too large to be compared by one unit."""
    return sum(abs(weight) for weight in bit_weights(spec, terms).values()) >= LARGEST_SUM


def halves(spec: Spec, terms: Terms) -> tuple[Terms, Terms]:
    """(high, low) sums with high · 2**16 + low equal to a sum; every weight of the low one is a limb's."""
    weights = bit_weights(spec, terms)
    high = {bit: (abs(weight) >> LIMB) * (1 if weight > 0 else -1) for bit, weight in weights.items()}
    low = {bit: weight - (high[bit] << LIMB) for bit, weight in weights.items()}
    return grouped(spec, high), grouped(spec, low)


@dataclass(frozen=True)
class WordPredicate:
    """Σ coefficient · word ≥ threshold, or = threshold. Guards refer to it by name; its values are 0 and 1."""

    terms: Terms  # the first coefficient is positive
    relation: str  # "≥" | "="
    threshold: int

    @property
    def name(self) -> str:
        return f"[{describe_terms(self.terms, 0)} {self.relation} {self.threshold}]"

    def holds(self, values: Mapping[str, Any]) -> Any:
        """Whether the predicate holds, for whole numbers or arrays of them."""
        values = BitValues(values)
        total = sum(coefficient * values[name] for name, coefficient in self.terms)
        return total >= self.threshold if self.relation == "≥" else total == self.threshold


@dataclass(frozen=True)
class WordAssignment:
    """Σ coefficient · word + constant, modulo 2**bits if `modulus` is given; or each bit a function of a few bits."""

    terms: Terms
    constant: int
    modulus: int | None
    line: int | None = None
    functions: tuple[BitFunction, ...] | None = None  # lowest bit first; the bits above them are 0

    def value(self, values: Mapping[str, Any]) -> Any:
        values = BitValues(values)
        if self.functions is not None:
            return sum(function.value(values) << bit for bit, function in enumerate(self.functions))
        total = self.constant + sum(coefficient * values[name] for name, coefficient in self.terms)
        return total if self.modulus is None else total % self.modulus

    @property
    def reads(self) -> frozenset[str]:
        """The words and bits that it depends on."""
        if self.functions is not None:
            return frozenset(atom for function in self.functions for atom in function.atoms)
        return frozenset(name for name, _ in self.terms)

    def describe(self) -> str:
        if self.functions is not None:
            shown = [function.describe() for function in reversed(self.functions)]
            return "bits " + " ".join(shown if len(shown) <= 6 else [*shown[:3], "…", *shown[-2:]])
        total = describe_terms(self.terms, self.constant)
        return total if self.modulus is None else f"({total}) % {self.modulus}"


def normalised(spec: Spec, variable: str, made: WordAssignment) -> WordAssignment:
    """The normal form of an assignment to a word: the smallest coefficients and constant."""
    if made.functions is not None:
        if made.functions == tuple(literal(variable, k) for k in range(_bits(spec, variable))):
            return WordAssignment(((variable, 1),), 0, None)
        return WordAssignment((), 0, None, None, trimmed(made.functions))
    wired = wires(spec, made, variable)
    if wired is not None and wired != trimmed(tuple(literal(variable, k) for k in range(_bits(spec, variable)))):
        return WordAssignment((), 0, None, None, wired) if _has_bits(made.terms) else _smallest(spec, variable, made)
    return _smallest(spec, variable, made)


def _bits(spec: Spec, variable: str) -> int:
    kind = spec.kinds[variable]
    assert isinstance(kind, Word)
    return kind.bits


def _has_bits(terms: Terms) -> bool:
    return any(part_of_name(name) for name, _ in terms)


def trimmed(functions: tuple[BitFunction, ...]) -> tuple[BitFunction, ...]:
    """Without zeros at the high end."""
    count = len(functions)
    while count and functions[count - 1] == constant_bits(0, 1)[0]:
        count -= 1
    return functions[:count]


def wires(spec: Spec, made: WordAssignment, variable: str | None = None) -> tuple[BitFunction, ...] | None:
    """The bits of a sum whose parts do not overlap, so that nothing is carried; None where they overlap."""
    if made.functions is not None:
        return made.functions
    weights, taken = bit_weights(spec, made.terms), made.constant
    if made.constant < 0 or any(weight < 0 for weight in weights.values()):
        return None
    top = (made.modulus or 0).bit_length() - 1 if made.modulus else max(1, taken.bit_length())
    for weight in weights.values():
        if taken & weight:
            return None
        taken |= weight
        top = top if made.modulus else max(top, weight.bit_length())
    functions = list(constant_bits(made.constant, top))
    for (word, bit), weight in weights.items():
        for place in range(min(top, weight.bit_length())):
            if weight >> place & 1:
                functions[place] = literal(word, bit)
    return trimmed(tuple(functions))


def _smallest(spec: Spec, variable: str, made: WordAssignment) -> WordAssignment:
    """A sum that stays in range if there is one, else the smallest coefficients and constant."""
    if made.modulus is None:
        return WordAssignment(made.terms, made.constant, None)
    most = {name: largest(spec, name) for name, _ in made.terms}
    modulus, constant, half = made.modulus, made.constant % made.modulus, made.modulus // 2
    small = tuple((name, half - (half - c) % modulus) for name, c in made.terms if c % modulus)
    # a coefficient may differ by the modulus, where its word is short: 1 − a = (1 + a) % 2 for a word of one bit
    ways = [[c for c in (s, s - modulus, s + modulus) if abs(c) * most[name] < modulus] for name, s in small]
    for chosen in islice(product(*ways), 4096):
        terms = tuple((name, c) for (name, _), c in zip(small, chosen))
        ends = [c * most[name] for name, c in terms]
        if constant + sum(e for e in ends if e < 0) >= 0 and constant + sum(e for e in ends if e > 0) < modulus:
            return WordAssignment(terms, constant, None)
    return WordAssignment(small, constant, modulus)


def describe_terms(terms: Terms, constant: int) -> str:
    parts = [
        f"{'−' if c < 0 else '+'} {name}" if abs(c) == 1 else f"{'−' if c < 0 else '+'} {abs(c)}·{name}"
        for name, c in terms
    ]
    if constant or not parts:
        parts.append(f"{'−' if constant < 0 else '+'} {abs(constant)}")
    text = " ".join(parts)
    return text[2:] if text.startswith("+ ") else text


def whole(value: Any) -> int | None:
    """Convert to a whole number, or None for anything else. A symbol forks."""
    try:
        return index(value)
    except TypeError:
        return None


class WordValue(Opaque):
    """A word expression in `step`: a sum of words, of bits and a constant. Only comparing it forks.

    `wrapped` are summands that were taken modulo, with factors. If the whole is taken modulo, they are summands like
    others; any other use forks on how often each exceeds its modulus. `width` is the number of bits of the variable
    that the value was written to; None for a value that `step` has not written."""

    def __init__(
        self,
        path: Path,
        terms: Mapping[str, int],
        constant: int,
        modulus: int | None = None,
        wrapped: tuple[tuple[int, WordValue], ...] = (),
        width: int | None = None,
    ) -> None:
        self.path, self.width = path, width
        self.plain: Terms = tuple(sorted((name, c) for name, c in terms.items() if c))
        self.offset, self.modulus, self.wrapped = constant, modulus, wrapped

    @property
    def terms(self) -> Terms:
        """The summands, without those that were taken modulo."""
        return self.plain if not self.wrapped else self._opened().plain

    @property
    def constant(self) -> int:
        """The constant that belongs to `terms`."""
        return self.offset if not self.wrapped else self._opened().offset

    def _opened(self) -> WordValue:
        """The same sum on this path, with nothing in it that is taken modulo."""
        total = WordValue(self.path, dict(self.plain), self.offset)
        for times, part in self.wrapped:
            total = total._with(part.reduced(), times)
        return total

    def _with(self, other: WordValue, times: int) -> WordValue:
        """This sum and a multiple of another one, whatever that was taken modulo."""
        total = dict(self.plain)
        for name, coefficient in other.plain:
            total[name] = total.get(name, 0) + times * coefficient
        wrapped = tuple((times * factor, part) for factor, part in other.wrapped)
        return WordValue(self.path, total, self.offset + times * other.offset, None, (*self.wrapped, *wrapped))

    def _summand(self) -> WordValue:
        """This value as a sum to add to: one that was taken modulo stays whole."""
        return self if self.modulus is None else WordValue(self.path, {}, 0, None, ((1, self),))

    @property
    def program_name(self) -> str:
        return self.path.program.spec.name

    def _refuse(self, what: str) -> ProgramError:
        return ProgramError(
            f"{self.path.program.spec.name}: step {what} the word expression "
            f"{describe_terms(self.terms, self.constant)}; "
            "words take +, −, comparisons, whole numbers as factors, % 2**bits, and where nothing is carried also "
            "bits w[i], slices w[a:b], &, |, ^, ~, << and >>"
        )

    # --- sums ---

    def reduced(self) -> WordValue:
        """The same value without a modulus: fork on how often the sum exceeds it."""
        if self.modulus is None:
            return self
        spec, modulus = self.path.program.spec, self.modulus
        terms, constant = low_part(spec, self.terms, modulus), self.constant % modulus
        low, high = bounds(self.path, terms)
        first, last = (low + constant) // modulus, (high + constant) // modulus
        if last - first > MOST_WRAPS:
            raise self._refuse(f"uses in the same step, taken modulo {modulus} (assign it first),")
        times = last
        while times > first and not compare(self.path, terms, "≥", times * modulus - constant):
            times -= 1
        return WordValue(self.path, dict(terms), constant - times * modulus)

    def _other(self, other: Any) -> WordValue:
        """The other side of a sum."""
        if isinstance(other, BitsValue):
            other = other.linear()
        if isinstance(other, WordValue):
            return other._summand()
        constant = whole(other)
        if constant is None:
            raise self._refuse(f"adds {other!r} and")
        return WordValue(self.path, {}, constant)

    def _plus(self, other: Any, times: int) -> Any:
        if _is_symbol(other) and self.narrow:
            return self.symbol() + other if times == 1 else self.symbol() - other
        return self._summand()._with(self._other(other), times)

    def __add__(self, other: Any) -> Any:
        return self._plus(other, 1)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._plus(other, -1)

    def __neg__(self) -> WordValue:
        return self * -1

    def __rsub__(self, other: Any) -> Any:
        return (-self)._plus(other, 1)

    def __mul__(self, times: Any) -> WordValue:
        constant = None if isinstance(times, (WordValue, BitsValue)) else whole(times)
        if constant is None:
            raise self._refuse("does other arithmetic with")
        return WordValue(self.path, {}, 0)._with(self._summand(), constant)

    __rmul__ = __mul__

    def __mod__(self, modulus: Any) -> WordValue:
        if modulus == 1:
            return WordValue(self.path, {}, 0)
        if not isinstance(modulus, int) or modulus < 2 or modulus & (modulus - 1):
            raise self._refuse(f"takes modulo {modulus!r}, which is not a power of two,")
        if self.wrapped and all(part.modulus is not None and part.modulus % modulus == 0 for _, part in self.wrapped):
            total = WordValue(self.path, dict(self.plain), self.offset)
            for times, part in self.wrapped:
                total = total._with(WordValue(self.path, dict(part.plain), part.offset), times)
            return WordValue(self.path, dict(total.plain), total.offset, modulus)
        return WordValue(self.path, dict(self.terms), self.constant, min(modulus, self.modulus or modulus))

    # --- bits ---

    @property
    def functions(self) -> tuple[BitFunction, ...]:
        """The bits, each a function of one bit of a word."""
        spec = self.path.program.spec
        found = self._wired()
        if found is None:
            raise self._refuse(f"works bit by bit on a sum with carries {LATER},")
        if self.width is not None:
            width = self.width
        elif self.modulus is not None:
            width = self.modulus.bit_length() - 1
        elif len(self.terms) == 1 and self.terms[0][1] == 1 and not self.constant:
            width = largest(spec, self.terms[0][0]).bit_length()
        else:
            width = len(found)
        return (*found, *constant_bits(0, width - len(found)))

    def _wired(self) -> tuple[BitFunction, ...] | None:
        """Its bits, where nothing is carried."""
        return wires(self.path.program.spec, WordAssignment(self.terms, self.constant, self.modulus))

    def bits(self) -> BitsValue:
        return BitsValue(self.path, self.functions)

    def written(self, bits: int) -> WordValue:
        """The same value as what a variable of so many bits holds."""
        return WordValue(self.path, dict(self.plain), self.offset, self.modulus, self.wrapped, bits)

    @property
    def _own_width(self) -> int | None:
        """Its bits, where they are known; None for a sum, which has no width."""
        return self.width if self.modulus is None or self.width is not None else self.modulus.bit_length() - 1

    def __getitem__(self, place: Any) -> Any:
        width = self._own_width
        if width is None or self._wired() is not None:
            return self.bits()[place]
        if isinstance(place, slice):
            places = sliced(place, width)
            if places.step != 1:
                raise self._refuse(f"reverses {LATER}")
            return self._carried(places.start, max(places.start, places.stop))
        at = whole(place)
        if at is None or not -width <= at < width:
            raise self._refuse(f"takes bit {at} of {width} of")
        return self._carried(at % width, at % width + 1)

    def _carried(self, start: int, stop: int) -> Any:
        """The bits from `start` on of a sum with carries: fork on the carry that comes from below them."""
        spec, size = self.path.program.spec, 1 << start
        if self.modulus is not None and self.modulus < 1 << stop:  # nothing stands above what it was taken modulo
            held = self._carried(start, self.modulus.bit_length() - 1) if size < self.modulus else None
            return BitsValue(self.path, constant_bits(0, stop - start)) if held is None else held.written(stop - start)
        low, rest = low_part(spec, self.terms, size), self.constant % size
        least, most = bounds(self.path, low)
        first, carry = (least + rest) // size, (most + rest) // size
        if carry - first > MOST_WRAPS:
            raise self._refuse(f"takes bits of {LATER}")
        while carry > first and not compare(self.path, low, "≥", carry * size - rest):
            carry -= 1
        above = bit_weights(spec, self.terms)
        for bit, weight in bit_weights(spec, low).items():
            above[bit] = above.get(bit, 0) - weight
        terms = grouped(spec, {bit: weight >> start for bit, weight in above.items()})
        return WordValue(self.path, dict(terms), (self.constant >> start) + carry, 1 << stop - start)

    def __invert__(self) -> Any:
        width = self._own_width
        if width is None or self._wired() is not None:
            return ~self.bits()
        return ((1 << width) - 1 - self) % (1 << width)

    def __and__(self, other: Any) -> Any:
        return self.bits() & other

    def __or__(self, other: Any) -> Any:
        return self.bits() | other

    def __xor__(self, other: Any) -> Any:
        return self.bits() ^ other

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __lshift__(self, by: Any) -> Any:
        return self.bits() << by if self._wired() is not None else self * (1 << self._places(by))

    def __rshift__(self, by: Any) -> Any:
        width = self._own_width
        if width is None or self._wired() is not None:
            return self.bits() >> by
        start = min(self._places(by), width)
        found = self._carried(start, width)
        return found.written(width) if isinstance(found, WordValue) else concat(found, BitWord(0, start))

    def _places(self, by: Any) -> int:
        """A number of places to shift by. A symbol or a few bits fork, one path for each of their values."""
        count = whole(by)
        if count is None or count < 0:
            raise self._refuse(f"shifts by {by!r}")
        return count

    # --- as an ordinary value ---

    @property
    def few(self) -> bool:
        """Whether it depends on so few bits that its values can be tabulated."""
        return len(self._weights()) <= NARROW

    @property
    def narrow(self) -> bool:
        """Whether it is made of a few bits, not of whole words, which compare better as sums."""
        return (_has_bits(self.terms) or self.modulus is not None) and self.few

    def _weights(self) -> dict[Bit, int]:
        """Return what each bit adds, as far as the modulus lets it matter."""
        spec = self.path.program.spec
        terms = self.terms if self.modulus is None else low_part(spec, self.terms, self.modulus)
        return bit_weights(spec, terms)

    def symbol(self) -> Any:
        """The same value as an ordinary symbol: a form of bits; a number where it depends on none."""
        from kleene.lowering.symbolic import Symbol

        weights, modulus = self._weights(), self.modulus
        form = Form.of(self.constant, {bit_name(*bit): (0, weight) for bit, weight in weights.items()})
        if not weights:
            return self.constant if modulus is None else self.constant % modulus
        if sum(map(abs, weights.values())) >= LARGEST_SUM:  # far apart: number the bits, and look the value up
            form = Form.of(0, {bit_name(*bit): (0, 1 << k) for k, bit in enumerate(weights)})
            totals = (
                self.constant + sum(w for k, w in enumerate(weights.values()) if int(v) >> k & 1) for v in form.values
            )
            table = {v: total if modulus is None else total % modulus for v, total in zip(form.values, totals)}
            return Symbol.simplified(self.path, form, table)
        if modulus is None:
            return Symbol(self.path, form)
        return Symbol.simplified(self.path, form, {v: v % modulus for v in form.values})

    def _ordinary(self, other: Any) -> bool:
        """Whether a comparison is one of ordinary values: a few bits on both sides."""
        return self.narrow and (_is_symbol(other) or whole_number(other) or bool(getattr(other, "narrow", False)))

    def _compare(self, other: Any, relation: str) -> Any:
        difference = self._plus(other, -1)
        if relation == "=" and (counted := difference.mismatches()) is not None:
            return counted == 0
        return compare(self.path, difference.terms, relation, -difference.constant)

    def mismatches(self) -> Any:
        """The number of bits in which a wide word differs from a constant; zero where they are equal."""
        from kleene.lowering.symbolic import Symbol

        spec, wanted = self.path.program.spec, -self.constant
        weights = bit_weights(spec, self.terms)
        made = wires(spec, WordAssignment(self.terms, 0, None))
        wide = sum(weights.values()) >= 1 << WIDEST_SUM
        if not (wide or _has_bits(self.terms)) or made is None or len(made) != len(weights):
            return None
        if not 0 <= wanted <= sum(weights.values()):
            return 1
        bits = {bit_name(*bit): bool(wanted & weight) for bit, weight in weights.items()}
        return Symbol(self.path, Form.of(0, {name: (1, 0) if one else (0, 1) for name, one in bits.items()}))

    def __ge__(self, other: Any) -> Any:
        return self.symbol() >= ordinary_bits(other) if self._ordinary(other) else self._compare(other, "≥")

    def __lt__(self, other: Any) -> Any:
        return self.symbol() < ordinary_bits(other) if self._ordinary(other) else not self._compare(other, "≥")

    def __gt__(self, other: Any) -> Any:
        return self.symbol() > ordinary_bits(other) if self._ordinary(other) else (self - 1)._compare(other, "≥")

    def __le__(self, other: Any) -> Any:
        return self.symbol() <= ordinary_bits(other) if self._ordinary(other) else not self.__gt__(other)

    def __eq__(self, other: object) -> Any:
        return self.symbol() == ordinary_bits(other) if self._ordinary(other) else self._compare(other, "=")

    def __ne__(self, other: object) -> Any:
        if self._ordinary(other):
            return self.symbol() != ordinary_bits(other)
        same = self._compare(other, "=")
        return same == 0 if _is_symbol(same) else not same

    def __bool__(self) -> bool:
        return bool(self.symbol()) if self.narrow else not self._compare(0, "=")

    def __hash__(self) -> int:
        if self.few:
            return hash(self.symbol())
        raise self._refuse("uses as a key or index")

    def __index__(self) -> int:
        if self.few:
            return int(index(self.symbol()))
        return int(self._no())

    def __getattr__(self, name: str) -> Any:
        raise self._refuse(f"uses '{name}' of")

    def _no_text(self, *_: Any) -> Any:
        raise self._refuse("makes text of")

    __str__ = __repr__ = __format__ = _no_text

    def _no(self, *_: Any) -> Any:
        raise self._refuse("does other arithmetic with")

    def __floordiv__(self, divisor: Any) -> Any:
        if not isinstance(divisor, int) or divisor < 1 or divisor & (divisor - 1):
            raise self._refuse(f"divides by {divisor!r}, which is no power of two,")
        return self >> divisor.bit_length() - 1

    __int__ = __index__
    __float__ = __iter__ = __len__ = __abs__ = __round__ = _no
    __rfloordiv__ = __truediv__ = __rtruediv__ = __pow__ = __rpow__ = _no
    __rmod__ = __rlshift__ = __rrshift__ = _no
    __contains__ = _no


def low_part(spec: Spec, terms: Terms, size: int) -> Terms:
    """A sum that is equal modulo `size`, a power of two, with weights below it."""
    weights = bit_weights(spec, terms)
    signed = {bit: abs(weight) % size * (1 if weight > 0 else -1) for bit, weight in weights.items()}
    return grouped(spec, signed)


def ordinary(value: Any) -> Any:
    """A word expression of a few bits as a symbol; anything else as it is."""
    if isinstance(value, (WordValue, BitsValue)) and value.few:
        return value.symbol()
    return value


def ordinary_bits(value: Any) -> Any:
    """The other side of a comparison of a few bits."""
    if isinstance(value, (WordValue, BitsValue)) and value.narrow:
        return value.symbol()
    return value


def whole_number(value: Any) -> bool:
    return isinstance(value, int)


def _is_symbol(value: Any) -> bool:
    from kleene.lowering.symbolic import Symbol

    return type(value) is Symbol


class BitsValue(Opaque):
    """A word expression in `step` bit by bit: each bit is a function of a few bits of words."""

    def __init__(self, path: Path, functions: tuple[BitFunction, ...]) -> None:
        self.path, self.functions = path, functions

    @property
    def program_name(self) -> str:
        return self.path.program.spec.name

    def _refuse(self, what: str) -> ProgramError:
        return ProgramError(f"{self.program_name}: step {what} of bits {', '.join(self._atoms[:4])}")

    @property
    def _atoms(self) -> list[str]:
        return list(dict.fromkeys(atom for function in self.functions for atom in function.atoms))

    # --- bits ---

    def __getitem__(self, place: Any) -> BitsValue:
        if isinstance(place, slice):
            return BitsValue(self.path, tuple(self.functions[k] for k in sliced(place, len(self.functions))))
        at = whole(place)
        if at is None or not -len(self.functions) <= at < len(self.functions):
            raise self._refuse(f"takes bit {at} of {len(self.functions)},")
        return BitsValue(self.path, (self.functions[at],))

    def __invert__(self) -> BitsValue:
        return BitsValue(self.path, tuple(inverted(function) for function in self.functions))

    def _bitwise(self, other: Any, table: int) -> BitsValue:
        if isinstance(other, WordValue | BitsValue):
            theirs = other.functions
        else:
            number = whole(other)
            if number is None or number < 0:
                raise self._refuse(f"combines {other!r} with an expression")
            theirs = constant_bits(number, max(number.bit_length(), 1))
        width = max(len(theirs), len(self.functions))
        mine, theirs = (((*each, *constant_bits(0, width - len(each)))) for each in (self.functions, theirs))
        return BitsValue(self.path, tuple(combined(a, b, table) for a, b in zip(mine, theirs)))

    def __and__(self, other: Any) -> BitsValue:
        return self._bitwise(other, 0b1000)

    def __or__(self, other: Any) -> BitsValue:
        return self._bitwise(other, 0b1110)

    def __xor__(self, other: Any) -> BitsValue:
        return self._bitwise(other, 0b0110)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __lshift__(self, by: Any) -> BitsValue:
        return BitsValue(self.path, (*constant_bits(0, _amount(self, by)), *self.functions))

    def __rshift__(self, by: Any) -> BitsValue:
        count = _amount(self, by)
        kept = self.functions[count:]
        return BitsValue(self.path, (*kept, *constant_bits(0, len(self.functions) - len(kept))))

    # --- as a sum, or as an ordinary value ---

    @property
    def narrow(self) -> bool:
        return len(self._atoms) <= NARROW

    few = narrow

    def linear(self) -> WordValue:
        """The same value as a sum of bits."""
        total: dict[Bit, int] = {}
        constant = 0
        for place, function in enumerate(self.functions):
            weights = function.linear()
            if weights is None:
                raise self._refuse("adds a bitwise expression (assign it first)")
            slope, base = weights
            constant += base << place
            for atom in function.atoms:
                word, bit, _ = part_of_name(atom) or (atom, 0, 1)
                total[word, bit] = total.get((word, bit), 0) + (slope << place)
        return WordValue(self.path, dict(grouped(self.path.program.spec, total)), constant)

    def symbol(self) -> Any:
        from kleene.lowering.symbolic import Symbol

        if all(function.linear() is not None for function in self.functions):
            form = self.linear()
            return form.symbol() if form.terms else form.constant
        atoms = self._atoms
        form_ = Form.of(0, {atom: (0, 1 << k) for k, atom in enumerate(atoms)})
        table = {}
        for value in form_.values:
            known = {atom: int(value) >> k & 1 for k, atom in enumerate(atoms)}
            table[value] = sum(function.value(known) << place for place, function in enumerate(self.functions))
        return Symbol.simplified(self.path, form_, table)

    def _simple(self) -> Any:
        """A symbol where there are few bits, otherwise a sum."""
        return self.symbol() if self.narrow else self.linear()

    def __bool__(self) -> bool:
        return bool(self._simple())

    def __index__(self) -> int:
        return int(self._simple().__index__())

    def __hash__(self) -> int:
        return hash(self._simple())

    def __neg__(self) -> Any:
        return -self.linear()

    def __mod__(self, modulus: Any) -> Any:
        if isinstance(modulus, int) and modulus >= 2 and not modulus & (modulus - 1):
            return self[0 : modulus.bit_length() - 1]
        return self._simple() % modulus

    def __getattr__(self, name: str) -> Any:
        raise self._refuse(f"uses '{name}'")

    def _no(self, *_: Any) -> Any:
        raise self._refuse("makes text or does other arithmetic")

    __int__ = __index__
    __str__ = __repr__ = __format__ = __float__ = __iter__ = __len__ = __abs__ = __round__ = _no
    __floordiv__ = __rfloordiv__ = __truediv__ = __rtruediv__ = __pow__ = __rpow__ = _no
    __rmod__ = __rlshift__ = __rrshift__ = __contains__ = _no


def _amount(value: BitsValue, by: Any) -> int:
    """A number of places to shift by. A symbol or a slice forks, one path for each of its values."""
    count = whole(by)
    if count is None or count < 0:
        raise value._refuse(f"shifts by {by!r} an expression")
    return count


def _install() -> None:
    """Give `BitsValue` sums and comparisons, those of a `WordValue` or of a symbol."""
    import operator

    for name in ("add", "sub", "mul"):
        plain = getattr(operator, name)
        setattr(BitsValue, f"__{name}__", lambda self, other, f=plain: f(self.linear(), other))
        setattr(BitsValue, f"__r{name}__", lambda self, other, f=plain: f(other, self.linear()))
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        plain = getattr(operator, name)
        setattr(BitsValue, f"__{name}__", lambda self, other, f=plain: f(self._simple(), other))


_install()


def concat(*parts: BitWord) -> BitWord:
    """Words, slices and bits side by side, the first lowest.

    >>> from kleene.machines.bitwords import BitWord
    >>> concat(BitWord(0b01, 2), BitWord(0b111, 3))
    29
    """
    found: Any = _concat(parts)  # in the symbolic run of `step` not a `BitWord`, but what stands for one
    return cast(BitWord, found)


def _concat(parts: tuple[Any, ...]) -> BitWord | BitsValue:
    if not any(isinstance(part, (WordValue, BitsValue)) for part in parts):
        return joined_numbers(parts)
    path = next(part.path for part in parts if isinstance(part, (WordValue, BitsValue)))
    functions: list[BitFunction] = []
    for part in parts:
        if isinstance(part, BitWord) and part.bits is not None:
            functions += constant_bits(int(part), part.bits)
        elif isinstance(part, (WordValue, BitsValue)):
            functions += part.functions
        else:
            raise ProgramError(f"{path.program.spec.name}: concat joins words, slices and bits, not {part!r}")
    return BitsValue(path, tuple(functions))


def extend(word: BitWord, bits: int) -> BitWord:
    """A word with its highest bit repeated up to `bits` bits: sign extension.

    >>> from kleene.machines.bitwords import BitWord
    >>> extend(BitWord(0b101, 3), 5)
    29
    """
    given: Any = word
    width = given.bits if isinstance(given, BitWord) else len(given.functions)
    if width is None or width > bits:
        raise ProgramError(f"extend: the word has {width} bits, more than {bits}")
    return concat(word, *[word[width - 1]] * (bits - width))


def bounds(path: Path, terms: Terms) -> tuple[int, int]:
    """Bounds of Σ coefficient · word on a path, from the ranges of the words and earlier comparisons."""
    low = high = 0
    for name, coefficient in terms:
        most = coefficient * largest(path.program.spec, name)
        low, high = low + min(0, most), high + max(0, most)
    spec = path.program.spec
    if wide(spec, terms):
        above, below = halves(spec, terms)
        upper, lower = bounds(path, above), bounds(path, below)
        low, high = max(low, (upper[0] << LIMB) + lower[0]), min(high, (upper[1] << LIMB) + lower[1])
    for part, (least, most) in path.word_bounds.items():  # a sum that contains one that is known
        if 0 < len(part) < len(terms) and set(part) <= set(terms):
            rest = [c * largest(spec, name) for name, c in terms if (name, c) not in part]
            low = max(low, least + sum(min(0, end) for end in rest))
            high = min(high, most + sum(max(0, end) for end in rest))
    known = path.word_bounds.get(terms, (low, high))
    negated = path.word_bounds.get(tuple((name, -c) for name, c in terms))
    if negated is not None:
        known = max(known[0], -negated[1]), min(known[1], -negated[0])
    return max(low, known[0]), min(high, known[1])


def compare(path: Path, terms: Terms, relation: str, threshold: int) -> bool:
    """Whether Σ terms ≥ threshold, or = threshold. Fork on a predicate where the path does not decide it."""
    if not terms:
        return threshold <= 0 if relation == "≥" else threshold == 0
    if terms[0][1] < 0:  # normalise: the first coefficient is positive
        terms = tuple((name, -c) for name, c in terms)
        if relation == "≥":
            return not compare(path, terms, "≥", 1 - threshold)
        threshold = -threshold
    low, high = bounds(path, terms)
    if wide(path.program.spec, terms) and low < high and low <= threshold <= high:
        return _compare_in_limbs(path, terms, relation, threshold)
    return _at_least(path, terms, threshold) if relation == "≥" else _equals(path, terms, threshold)


def _compare_in_limbs(path: Path, terms: Terms, relation: str, threshold: int) -> bool:
    """A comparison of a sum that no unit holds: high · 2^16 + low, less the threshold, with the carry of the low part.

    The carry is the largest T with low − (threshold mod 2^16) ≥ T · 2^16. Then the high part less the threshold's is
    compared with −T."""
    above, below = halves(path.program.spec, terms)
    rest = threshold % (1 << LIMB)
    low, high = bounds(path, below)
    carries = range((low - rest) >> LIMB, ((high - rest) >> LIMB) + 1)
    if relation == "=":
        met = (t for t in carries if compare(path, below, "=", (t << LIMB) + rest))
        carry = next(met, None)
        return carry is not None and compare(path, above, "=", (threshold >> LIMB) - carry)
    met = (t for t in reversed(carries[1:]) if compare(path, below, "≥", (t << LIMB) + rest))
    return compare(path, above, "≥", (threshold >> LIMB) - next(met, carries[0]))


def _at_least(path: Path, terms: Terms, threshold: int) -> bool:
    """Σ terms ≥ threshold, where the first coefficient is positive."""
    return _decided(path, WordPredicate(terms, "≥", threshold))


def _equals(path: Path, terms: Terms, threshold: int) -> bool:
    """Σ terms = threshold, where the first coefficient is positive. At an end of its range, one threshold decides."""
    low, high = bounds(path, terms)
    if low < high == threshold:
        return _at_least(path, terms, threshold)
    if low == threshold < high:
        return not _at_least(path, terms, threshold + 1)
    return _decided(path, WordPredicate(terms, "=", threshold))


def _decided(path: Path, predicate: WordPredicate) -> bool:
    """Whether a comparison holds on this path. Fork where the path does not decide it."""
    known = known_comparison(path, predicate)
    if known is not None:
        return known
    holds = _fork(path, predicate)
    learn_comparison(path, predicate, holds)
    return holds


def known_comparison(path: Path, predicate: WordPredicate) -> bool | None:
    """Whether a comparison holds on this path; None where the path does not decide it."""
    low, high = bounds(path, predicate.terms)
    at = predicate.threshold
    if predicate.relation == "≥":
        return low >= at if low >= at or high < at else None
    if low == high == at or not low <= at <= high:
        return low == high == at
    return False if (predicate.terms, at) in path.word_not else None


def learn_comparison(path: Path, predicate: WordPredicate, holds: bool) -> None:
    """Limit the path to where a comparison holds, or does not."""
    low, high = bounds(path, predicate.terms)
    at = predicate.threshold
    if predicate.relation == "≥":
        path.word_bounds[predicate.terms] = (max(low, at), high) if holds else (low, min(high, at - 1))
    elif holds:
        path.word_bounds[predicate.terms] = (at, at)
    else:  # inside the range, an inequality moves neither end
        path.word_not.add((predicate.terms, at))
        path.word_bounds[predicate.terms] = (low, high)


def _fork(path: Path, predicate: WordPredicate) -> bool:
    """Fork the path on a predicate: whether it holds on this branch."""
    path.predicates[predicate.name] = predicate
    return path.branch(variable_form(predicate.name, 2), (frozenset([1]), frozenset([0]))) == 0


def assign(path: Path, name: str, value: Any, line: int | None) -> tuple[WordAssignment, Any]:
    """Check an assignment to a word. Return it as data, and what `step` reads from the word afterwards."""
    spec = path.program.spec
    size = len(spec.kinds[name])
    if isinstance(value, BitsValue):
        if len(trimmed(value.functions)) > _bits(spec, name):
            raise RangeError(f"{spec.name}: step writes {len(value.functions)} bits to '{name}', which has fewer")
        value = BitsValue(path, trimmed(value.functions))
        padded = (*value.functions, *constant_bits(0, _bits(spec, name) - len(value.functions)))
        return WordAssignment((), 0, None, line, value.functions), BitsValue(path, padded)
    if not isinstance(value, WordValue):
        number = whole(value)
        constant = None if number is None else spec.variables[name].write(number)
        if constant is None:
            raise RangeError(f"{spec.name}: step writes {value!r} to the word '{name}', outside 0 … {size - 1}")
        value = WordValue(path, {}, constant)
    low, high = bounds(path, value.terms)
    fits = 0 <= low + value.constant <= high + value.constant < size
    if spec.variables[name].outside == "wrap" and not fits and value.modulus is None:
        value = value % size
    made = WordAssignment(value.terms, value.constant, value.modulus, line)
    wired = wires(spec, made) if _has_bits(made.terms) else None
    if wired is not None and len(wired) <= _bits(spec, name):
        return WordAssignment((), 0, None, line, wired), value.written(_bits(spec, name))
    if value.modulus is not None and value.modulus > size:
        raise RangeError(f"{spec.name}: step writes {made.describe()} to '{name}', which holds 0 … {size - 1}")
    if value.modulus is None and not fits:
        raise RangeError(
            f"{spec.name}: step writes {made.describe()} to '{name}', which can be {low + value.constant} … "
            f"{high + value.constant}, outside 0 … {size - 1}; write % {size} if it should wrap"
        )
    return made, value.written(_bits(spec, name))
