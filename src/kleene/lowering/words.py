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
from typing import TYPE_CHECKING, Any

from kleene.errors import ProgramError, RangeError
from kleene.lowering.forms import variable_form
from kleene.lowering.identity import Opaque

if TYPE_CHECKING:
    from kleene.lowering.symbolic import Path
    from kleene.machines.spec import Spec

Terms = tuple[tuple[str, int], ...]  # (word, coefficient), sorted by word; no coefficient is zero


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
        total = sum(coefficient * values[name] for name, coefficient in self.terms)
        return total >= self.threshold if self.relation == "≥" else total == self.threshold


@dataclass(frozen=True)
class WordAssignment:
    """Σ coefficient · word + constant, modulo 2**bits if `modulus` is given."""

    terms: Terms
    constant: int
    modulus: int | None
    line: int | None = None

    def value(self, values: Mapping[str, Any]) -> Any:
        total = self.constant + sum(coefficient * values[name] for name, coefficient in self.terms)
        return total if self.modulus is None else total % self.modulus

    def describe(self) -> str:
        total = describe_terms(self.terms, self.constant)
        return total if self.modulus is None else f"({total}) % {self.modulus}"


def normalised(spec: Spec, variable: str, made: WordAssignment) -> WordAssignment:
    """The normal form of an assignment to a word: a sum that stays in range if there is one, else the smallest
    coefficients and constant."""
    if made.modulus is None:
        return WordAssignment(made.terms, made.constant, None)
    largest = {name: len(spec.kinds[name]) - 1 for name, _ in made.terms}
    modulus, constant, half = made.modulus, made.constant % made.modulus, made.modulus // 2
    small = tuple((name, half - (half - c) % modulus) for name, c in made.terms if c % modulus)
    # a coefficient may differ by the modulus, where its word is short: 1 − a = (1 + a) % 2 for a word of one bit
    ways = [[c for c in (s, s - modulus, s + modulus) if abs(c) * largest[name] < modulus] for name, s in small]
    for chosen in islice(product(*ways), 4096):
        terms = tuple((name, c) for (name, _), c in zip(small, chosen))
        ends = [c * largest[name] for name, c in terms]
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
    """A word expression in `step`: a sum of words and a constant. Only comparing it forks."""

    def __init__(self, path: Path, terms: Mapping[str, int], constant: int, modulus: int | None = None) -> None:
        self.path = path
        self.terms: Terms = tuple(sorted((name, c) for name, c in terms.items() if c))
        self.constant, self.modulus = constant, modulus

    @property
    def program_name(self) -> str:
        return self.path.program.spec.name

    def _refuse(self, what: str) -> ProgramError:
        return ProgramError(
            f"{self.path.program.spec.name}: step {what} the word expression "
            f"{describe_terms(self.terms, self.constant)}; "
            "words take +, −, comparisons, whole numbers as factors and % 2**bits"
        )

    def _parts(self, other: Any, what: str) -> tuple[Terms, int]:
        if self.modulus is not None or (isinstance(other, WordValue) and other.modulus is not None):
            raise self._refuse(f"{what} something taken modulo (assign it first) and")
        if isinstance(other, WordValue):
            return other.terms, other.constant
        constant = whole(other)
        if constant is None:
            raise self._refuse(f"{what} {other!r} and")
        return (), constant

    def _plus(self, other: Any, times: int) -> WordValue:
        terms, constant = self._parts(other, "adds")
        total = dict(self.terms)
        for name, coefficient in terms:
            total[name] = total.get(name, 0) + times * coefficient
        return WordValue(self.path, total, self.constant + times * constant)

    def __add__(self, other: Any) -> WordValue:
        return self._plus(other, 1)

    __radd__ = __add__

    def __sub__(self, other: Any) -> WordValue:
        return self._plus(other, -1)

    def __neg__(self) -> WordValue:
        return WordValue(self.path, {name: -c for name, c in self.terms}, -self.constant)

    def __rsub__(self, other: Any) -> WordValue:
        return (-self)._plus(other, 1)

    def __mul__(self, times: Any) -> WordValue:
        constant = None if isinstance(times, WordValue) or self.modulus is not None else whole(times)
        if constant is None:
            raise self._refuse("does other arithmetic with")
        return WordValue(self.path, {name: constant * c for name, c in self.terms}, constant * self.constant)

    __rmul__ = __mul__

    def __mod__(self, modulus: Any) -> WordValue:
        if modulus == 1:
            return WordValue(self.path, {}, 0)
        if not isinstance(modulus, int) or modulus < 2 or modulus & (modulus - 1):
            raise self._refuse(f"takes modulo {modulus!r}, which is not a power of two,")
        if self.modulus is not None:
            raise self._refuse("takes modulo twice")
        return WordValue(self.path, dict(self.terms), self.constant, modulus)

    def _compare(self, other: Any, relation: str) -> bool:
        difference = self._plus(other, -1)
        return compare(self.path, difference.terms, relation, -difference.constant)

    def __ge__(self, other: Any) -> bool:
        return self._compare(other, "≥")

    def __lt__(self, other: Any) -> bool:
        return not self._compare(other, "≥")

    def __gt__(self, other: Any) -> bool:
        return self._plus(1, -1)._compare(other, "≥")

    def __le__(self, other: Any) -> bool:
        return not self.__gt__(other)

    def __eq__(self, other: object) -> bool:
        return self._compare(other, "=")

    def __ne__(self, other: object) -> bool:
        return not self._compare(other, "=")

    def __bool__(self) -> bool:
        return not self._compare(0, "=")

    def __hash__(self) -> int:
        raise self._refuse("uses as a key or index")

    def __getattr__(self, name: str) -> Any:
        raise self._refuse(f"uses '{name}' of")

    def _no_text(self, *_: Any) -> Any:
        raise self._refuse("makes text of")

    __str__ = __repr__ = __format__ = _no_text

    def _no(self, *_: Any) -> Any:
        raise self._refuse("does other arithmetic with")

    __index__ = __int__ = __float__ = __iter__ = __len__ = __abs__ = __invert__ = __round__ = _no
    __floordiv__ = __rfloordiv__ = __truediv__ = __rtruediv__ = __pow__ = __rpow__ = _no
    __rmod__ = __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __lshift__ = __rshift__ = _no
    __contains__ = _no


def bounds(path: Path, terms: Terms) -> tuple[int, int]:
    """Bounds of Σ coefficient · word on a path, from the ranges of the words and earlier comparisons."""
    low = high = 0
    for name, coefficient in terms:
        largest = coefficient * (len(path.program.spec.kinds[name]) - 1)
        low, high = low + min(0, largest), high + max(0, largest)
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
    return _at_least(path, terms, threshold) if relation == "≥" else _equals(path, terms, threshold)


def _at_least(path: Path, terms: Terms, threshold: int) -> bool:
    """Σ terms ≥ threshold, where the first coefficient is positive."""
    low, high = bounds(path, terms)
    if low >= threshold or high < threshold:
        return low >= threshold
    holds = _fork(path, WordPredicate(terms, "≥", threshold))
    path.word_bounds[terms] = (threshold, high) if holds else (low, threshold - 1)
    return holds


def _equals(path: Path, terms: Terms, threshold: int) -> bool:
    """Σ terms = threshold, where the first coefficient is positive. At an end of its range, one threshold decides."""
    low, high = bounds(path, terms)
    if low == high == threshold or not low <= threshold <= high:
        return low == high == threshold
    if threshold == high:
        return _at_least(path, terms, threshold)
    if threshold == low:
        return not _at_least(path, terms, threshold + 1)
    if (terms, threshold) in path.word_not:
        return False
    holds = _fork(path, WordPredicate(terms, "=", threshold))
    if holds:
        path.word_bounds[terms] = (threshold, threshold)
    else:  # inside the range, an inequality moves neither end
        path.word_not.add((terms, threshold))
        path.word_bounds[terms] = (low, high)
    return holds


def _fork(path: Path, predicate: WordPredicate) -> bool:
    """Fork the path on a predicate: whether it holds on this branch."""
    path.predicates[predicate.name] = predicate
    return path.branch(variable_form(predicate.name, 2), (frozenset([1]), frozenset([0]))) == 0


def assign(path: Path, name: str, value: Any, line: int | None) -> tuple[WordAssignment, Any]:
    """Check an assignment to a word. Return it as data, and what `step` reads from the word afterwards."""
    spec = path.program.spec
    size = len(spec.kinds[name])
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
    if value.modulus is not None and value.modulus > size:
        raise RangeError(f"{spec.name}: step writes {made.describe()} to '{name}', which holds 0 … {size - 1}")
    if value.modulus is None and not fits:
        raise RangeError(
            f"{spec.name}: step writes {made.describe()} to '{name}', which can be {low + value.constant} … "
            f"{high + value.constant}, outside 0 … {size - 1}; say what is meant with % {size}"
        )
    return made, value
