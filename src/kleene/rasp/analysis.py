"""What every s-op can be: its values as a function of atoms, found exactly from the vocabulary and the length.

Nothing is sampled. A map is tabulated over the atoms that it depends on; a head makes a new atom. Two expressions with
the same meaning make one atom.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from math import lcm
from typing import Any

import numpy as np

from kleene.common.means import exact, is_number, plain
from kleene.errors import NotSupported, ProgramError
from kleene.rasp.expressions import (
    Aggregate,
    AggregateFirst,
    AggregateLast,
    AggregateMax,
    AggregateMin,
    Comparison,
    ConstantSelector,
    ConstantSOp,
    Full,
    IndicesType,
    LengthType,
    Map,
    RASPExpr,
    Select,
    SelectorAnd,
    SelectorNot,
    SelectorOr,
    SelectorWidth,
    SequenceMap,
    SOp,
    TokensType,
)
from kleene.rasp.functions import (
    IMPOSSIBLE,
    MAX_TABLE,
    Atom,
    Func,
    Stored,
    check_size,
    possible,
    size_of,
    union,
)
from kleene.rasp.selections import Family, Run, by_distance, partial_order, relation

MAX_MEANS = 30_000  # different means that a head tells apart
FEW_MEANS = 4096  # more are told apart only where a selector is not meant to choose one position
MAX_SCALE = 1 << 20  # the common denominator of numbers that are averaged
MAX_DIGITS = 12  # of numbers that are added up by counting their digits
MAX_VALUES = 100_000  # of one s-op
MAX_EXTREME = 6  # values of which a head each tells whether one is reached
MAX_ORDER = 3_000  # elements of a relation that is tested for a total order


@dataclass(frozen=True)
class Selection:
    """What one head selects: matching classes, at some distances (None: at all)."""

    keys: Func
    queries: Func
    match: np.ndarray  # (key class, query class)
    offsets: frozenset[int] | None

    @property
    def key(self) -> Any:
        return self.keys.key, self.queries.key, self.match.tobytes(), self.offsets

    @property
    def everything(self) -> bool:
        """Whether the content does not matter."""
        return bool(self.match.all())


@dataclass(frozen=True, eq=False)
class Order:
    """Positions in these states (values of the atoms, the index among them where it matters) may have equal widths."""

    atoms: tuple[Atom, ...]
    equal: np.ndarray  # (state, state)


@dataclass(eq=False)
class Width(Atom):
    """How many positions are selected: a sum of counts with factors, or of `spots`, each 0 or 1 at one distance."""

    terms: tuple[tuple[int, Selection], ...] = ()
    spots: tuple[Selection, ...] = ()
    ranks: bool = False  # different at different positions
    order: Order | None = None  # of the positions, if they are partially ordered by what they select


@dataclass(eq=False)
class Picked(Atom):
    """The value of the one selected position, or of none. `value` numbers the values; nothing is the last of them."""

    selection: Selection = field(default=None)  # type: ignore[assignment]
    value: Func = field(default=None)  # type: ignore[assignment]
    places: tuple[int, ...] = ()  # value number, then nothing → place in the domain
    prefer: str | None = None  # which of several selected positions, where one is enough


@dataclass(eq=False)
class Averaged(Atom):
    """The mean of the selected positions' codes, told apart at `levels`: (mean, place in the domain), ascending."""

    selection: Selection = field(default=None)  # type: ignore[assignment]
    value: Func = field(default=None)  # type: ignore[assignment]
    codes: tuple[Fraction, ...] = ()  # value number → what is averaged
    levels: tuple[tuple[Fraction, int], ...] = ()
    nothing: Fraction = Fraction(0)  # what is read where nothing is selected
    default: Any = None
    exact_mean: bool = False
    counts: np.ndarray | None = None  # how many positions are selected at each index, where that is known
    equal: bool = False  # all that is selected at once is equal


@dataclass(eq=False)
class Extreme(Atom):
    """The largest selected value. Of the first k heads, head k says whether a value of number ≥ k is selected."""

    selection: Selection = field(default=None)  # type: ignore[assignment]
    value: Func = field(default=None)  # type: ignore[assignment]
    count: int = 0
    places: tuple[int, ...] = ()  # how many of the heads say yes → place in the domain


@dataclass(frozen=True)
class Values:
    """An s-op: domain[function of the atoms]."""

    function: Func
    domain: list[Any]


class Domain:
    """Values in the order in which they come, each once."""

    def __init__(self, what: str) -> None:
        self.what, self.values, self._places = what, list[Any](), dict[Any, int]()

    def place(self, value: Any) -> int:
        value = value.item() if isinstance(value, np.generic) else value
        if isinstance(value, RASPExpr):
            raise ProgramError(
                f"'{self.what}' gives {value!r}; its function gets values of positions, and has to return values"
            )
        try:
            found = self._places.setdefault(value, len(self.values))
        except TypeError:
            raise ProgramError(
                f"'{self.what}' gives {value!r}; values must be hashable, such as numbers, text, tuples"
            ) from None
        if found == len(self.values):
            self.values.append(value)
            check_size(f"'{self.what}'", found, MAX_VALUES)
        return found


class Analysis:
    """Analyse the s-ops of one program.

    - `vocab`: the tokens.
    - `length`: the longest input.
    - `causal`: whether positions see only what is to their left.
    """

    def __init__(self, vocab: Sequence[Any], length: int, causal: bool) -> None:
        self.length, self.causal = length, causal
        self.atoms: list[Atom] = []
        self.tokens = self._add(Atom(0, "tokens", list(vocab)))
        self.indices = self._add(Atom(1, "indices", list(range(length))))
        self.notes: dict[
            str, None
        ] = {}  # what Tracr's evaluator or network would get wrong, or where a function raises
        self._known: dict[int, tuple[RASPExpr, Any]] = {}
        self._made: dict[Any, Any] = {}

    def _add(self, atom: Any) -> Any:
        self.atoms.append(atom)
        return atom

    def note(self, expr: RASPExpr, what: str) -> None:
        if len(self.notes) < 1000:
            self.notes.setdefault(f"{expr.name}: {what}")

    def of(self, expr: RASPExpr) -> Any:
        """The `Values` of an s-op, or the `Family` of a selector."""
        todo = [expr]
        while todo:
            here = todo[-1]
            missing = [child for child in here.children if id(child) not in self._known]
            if missing:
                todo += missing
                continue
            todo.pop()
            if id(here) not in self._known:
                self._known[id(here)] = (here, self._analyse(here))
        return self._known[id(expr)][1]

    def _analyse(self, expr: RASPExpr) -> Any:
        for cls in type(expr).__mro__:
            if cls in _RULES:
                return _RULES[cls](self, expr)
        raise NotSupported(f"{expr!r}: a {type(expr).__name__} cannot be compiled")

    # --- maps ---

    def _atom(self, atom: Atom) -> Values:
        return Values(Func.of_atom(atom), atom.domain)

    def _constant(self, sop: Full) -> Values:
        return Values(Func.constant(), [sop.fill])

    def _by_index(self, sop: ConstantSOp) -> Values:
        domain = Domain(sop.name)
        if len(sop.value) < self.length:
            raise NotSupported(
                f"{sop.name}: {len(sop.value)} constant values are fewer than max_seq_len, {self.length}"
            )
        table = np.array([domain.place(value) for value in sop.value[: self.length]])
        return Values(Func((self.indices,), table).simplified(), domain.values)

    def _map(self, sop: Map) -> Values:
        inner = self.of(sop.inner)
        domain = Domain(sop.name)
        places = np.array([self._called(sop, domain, value) for value in inner.domain])
        self._check_some(sop, places)
        return self._compact(Values(inner.function.mapped(places), domain.values))

    def _called(self, sop: Any, domain: Domain, *values: Any) -> int:
        """The place of the result of a map. A result that Python cannot compute is impossible."""
        if any(value is None for value in values):
            return domain.place(None)
        try:
            return domain.place(sop.f(*values))
        except ProgramError:
            raise
        except Exception as error:
            self.note(sop, f"raises {type(error).__name__}: {error} for {', '.join(map(repr, values))}")
            return IMPOSSIBLE

    def _check_some(self, sop: RASPExpr, places: np.ndarray) -> None:
        if not (places >= 0).any():
            why = next(note for note in self.notes if note.startswith(f"{sop.name}: raises"))
            raise ProgramError(f"{why}: it raises for every value")

    def _compact(self, values: Values) -> Values:
        """Leave out values that the function cannot have."""
        used = np.unique(values.function.table)
        used = used[used >= 0]
        if len(used) == len(values.domain):
            return values
        places = np.full(max(len(values.domain), 1), IMPOSSIBLE)
        places[used] = np.arange(len(used))
        return Values(values.function.mapped(places), [values.domain[i] for i in used])

    def _sequence_map(self, sop: SequenceMap) -> Values:
        first, second = self.of(sop.fst), self.of(sop.snd)
        fused = self._fused(sop, first, second)
        if fused is not None:
            return fused
        first, second = self._as_sum(first, second), self._as_sum(second, first)
        atoms, a, b = self.joined(sop.name, first, second)
        both = (a >= 0) & (b >= 0)
        codes, place = np.unique(a[both] * len(second.domain) + b[both], return_inverse=True)
        domain = Domain(sop.name)
        results = np.array(
            [
                self._called(
                    sop, domain, first.domain[code // len(second.domain)], second.domain[code % len(second.domain)]
                )
                for code in codes.tolist()
            ]
        )
        self._check_some(sop, results)
        table = np.full(a.shape, IMPOSSIBLE)
        table[both] = results[place]
        return self._compact(Values(Func(atoms, table).simplified(), domain.values))

    def joined(self, what: str, first: Values, second: Values) -> tuple[tuple[Atom, ...], np.ndarray, np.ndarray]:
        """Both functions over the same atoms. A function of too many atoms is stored, and becomes an atom itself."""
        one, two = first.function, second.function
        for _ in range(2):
            if size_of(union(one, two)) <= MAX_TABLE:
                break
            larger = max((one, two), key=lambda f: size_of(f.atoms) / f.size)
            if size_of(larger.atoms) <= larger.size:
                break
            stored = self.stored(larger, what)
            one, two = (stored if f is larger else f for f in (one, two))
        atoms = union(one, two)
        check_size(f"'{what}'", size_of(atoms))
        a, b = np.array(one.over(atoms)), np.array(two.over(atoms))
        mask = possible(atoms, self.indices)
        if mask is not None:
            a[~mask] = b[~mask] = IMPOSSIBLE
        return atoms, a, b

    def stored(self, function: Func, name: str) -> Func:
        """A function as an atom of its own."""
        key = ("stored", function.key)
        if key not in self._made:
            self._made[key] = self._add(Stored(len(self.atoms), name, list(range(function.size)), None, function))
        return Func.of_atom(self._made[key])

    def _fused(self, sop: SequenceMap, first: Values, second: Values) -> Values | None:
        """A linear combination of two means of the same positions, as one mean: it needs one head."""
        if not (first.function.is_atom and second.function.is_atom):
            return None
        one, two = first.function.atoms[0], second.function.atoms[0]
        if not (isinstance(one, Averaged) and isinstance(two, Averaged) and one.exact_mean and two.exact_mean):
            return None
        if first.domain != one.domain or second.domain != two.domain:
            return None  # a function of the mean that only numbers its values alike
        if one.selection.key != two.selection.key or (one.default is None) != (two.default is None):
            return None
        factors = sop.factors or _linear_factors(sop.f, one.domain, two.domain)
        if factors is None or not all(is_number(factor) for factor in factors):
            return None
        a, b = map(exact, factors)
        atoms, x, y = self.joined(sop.name, Values(one.value, list(one.codes)), Values(two.value, list(two.codes)))
        domain = Domain(sop.name)
        table = np.full(x.shape, IMPOSSIBLE)
        for where in np.ndindex(x.shape):
            if x[where] >= 0 and y[where] >= 0:
                table[where] = domain.place(plain(a * one.codes[x[where]] + b * two.codes[y[where]]))
        value = self._compact(Values(Func(atoms, table).simplified(), domain.values))
        default = None if one.default is None else plain(a * exact(one.default) + b * exact(two.default))
        return self._averaged(sop, one.selection, value, default, one.counts)

    def _as_sum(self, values: Values, other: Values) -> Values:
        """A mean of a known number of positions, as a function of that number and of the sum over these positions.

        So `(indices + 1) * mean` of what is to the left is the sum again, and `mean * length` that of all positions.
        """
        atom = values.function.atoms[0] if len(values.function.atoms) == 1 else None
        if not isinstance(atom, Averaged) or not atom.exact_mean:
            return values
        number = self._number_selected(atom, other)
        total = None if number is None else self._total_of(atom)
        if number is None or total is None:
            return values
        atoms, numbers, sums = self.joined(atom.name, number, total)
        places = {exact(v): place for place, v in enumerate(atom.domain) if is_number(v)}
        table = np.full(numbers.shape, IMPOSSIBLE)
        for where in zip(*np.nonzero((numbers >= 0) & (sums >= 0))):
            count, result = number.domain[numbers[where]], total.domain[sums[where]]
            if count:
                table[where] = places.get(result / count, IMPOSSIBLE)
            elif not result:
                table[where] = atom.levels[0][1]
        return Values(Func(atoms, table).mapped(values.function.table), values.domain)

    def _number_selected(self, atom: Averaged, other: Values) -> Values | None:
        """How many positions a head averages, where the other s-op knows it: by its index, or as a width."""
        if atom.counts is not None and self.indices in other.function.atoms:
            present = np.unique(atom.counts)
            table = np.searchsorted(present, atom.counts)
            return Values(Func((self.indices,), table).simplified(), present.tolist())
        for width in other.function.atoms:
            if isinstance(width, Width) and [(f, t.key) for f, t in width.terms] == [(1, atom.selection.key)]:
                return self._atom(width)
        return None

    def _total_of(self, atom: Averaged) -> Values | None:
        """The sum over the positions that a head averages: counts of the bits of what is added up."""
        if atom.selection.offsets is not None and atom.counts is None:
            return None
        scale = lcm(*(code.denominator for code in atom.codes))
        whole = np.array([int(code * scale) for code in atom.codes])
        unit = int(np.gcd.reduce(whole)) or 1
        units = whole // unit
        digits = _digits(units)
        if len(digits) > MAX_DIGITS:
            return None
        terms = tuple((sign * factor, term) for factor, has in digits for sign, term in self._counts_where(atom, has))
        if [factor for factor, _ in terms] == [1]:
            key: Any = ("width", ((1, terms[0][1].key),), ())
        else:
            key = ("total", tuple((factor, term.key) for factor, term in terms))
        least, most = min(0, int(units.min())), max(0, int(units.max()))
        if key not in self._made:
            sums = list(range(least * self.length, most * self.length + 1))
            total = Width(len(self.atoms), f"{atom.name}_sum", sums, None, terms)
            if atom.counts is not None:
                counts = atom.counts[:, None]
                total.by_index = (least * counts <= np.array(sums)) & (np.array(sums) <= most * counts)
            self._made[key] = self._add(total)
        made = self._made[key]
        return Values(Func.of_atom(made), [Fraction(n * unit, scale) for n in made.domain])

    def _counts_where(self, atom: Averaged, has: np.ndarray) -> list[tuple[int, Selection]]:
        """Counts of the positions that a head selects and whose value has a digit."""
        selection = atom.selection
        keys, chosen, digit = self._paired(atom.name, selection.keys, atom.value.mapped(has.astype(np.int64)))
        match = selection.match[chosen] & (digit == 1)[:, None]
        low, top = self._whole_range()
        high = top if selection.offsets is None else max(selection.offsets)
        runs: tuple[Run, ...] = ((low, high, match),)
        if high < top:
            runs = (*runs, (high + 1, top, np.zeros_like(match)))
        return self._counts(Family(keys, selection.queries, runs).reduced())

    # --- selectors ---

    def _whole_range(self) -> tuple[int, int]:
        return 1 - self.length, 0 if self.causal else self.length - 1

    def _select(self, selector: Select) -> Family:
        keys, queries = self.of(selector.keys), self.of(selector.queries)
        match = relation(
            selector.name, selector.predicate, keys.domain, queries.domain, lambda what: self.note(selector, what)
        )
        if any(None in values.domain for values in (keys, queries)):
            self.note(selector, "a key or query can be None, where Tracr's evaluator raises; here it is not selected")
        return self._taken_apart(match, keys.function, queries.function)

    def _taken_apart(self, match: np.ndarray, keys: Func, queries: Func) -> Family:
        low, high = self._whole_range()
        plain_family = Family(keys, queries, ((low, high, match),)).reduced()
        keys, queries, ((_, _, match),) = plain_family.keys, plain_family.queries, plain_family.runs
        if self.indices not in keys.atoms or self.indices not in queries.atoms:
            return plain_family
        own, rest = self._with_index_first(keys)
        asked, others = self._with_index_first(queries)
        if own.size * asked.size > 30_000_000:
            return plain_family
        runs = by_distance(match, own, asked)
        if runs is None:
            return plain_family
        inside = [(max(a, low), min(b, high), found) for a, b, found in runs if a <= high]
        return Family(_numbered(rest), _numbered(others), tuple(inside)).reduced()

    def _with_index_first(self, function: Func) -> tuple[np.ndarray, tuple[Atom, ...]]:
        rest = tuple(atom for atom in function.atoms if atom is not self.indices)
        table = np.moveaxis(function.table, function.atoms.index(self.indices), 0)
        return table.reshape(self.length, -1), rest

    def _constant_selector(self, selector: ConstantSelector) -> Family:
        if len(selector.value) < self.length:
            raise NotSupported(
                f"{selector.name}: its {len(selector.value)} rows are fewer than max_seq_len, {self.length}"
            )
        match = np.array([row[: self.length] for row in selector.value[: self.length]], dtype=bool).T
        index = Func.of_atom(self.indices)
        return self._taken_apart(match, index, index)

    def _not(self, selector: SelectorNot) -> Family:
        inner = self.of(selector.inner)
        return Family(inner.keys, inner.queries, tuple((a, b, ~match) for a, b, match in inner.runs))

    def _both(self, selector: SelectorAnd) -> Family:
        function = np.logical_or if isinstance(selector, SelectorOr) else np.logical_and
        one, two = self.of(selector.fst), self.of(selector.snd)
        keys, k1, k2 = self._paired(selector.name, one.keys, two.keys)
        queries, q1, q2 = self._paired(selector.name, one.queries, two.queries)
        check_size(f"'{selector.name}'", len(k1) * len(q1) * (len(one.runs) + len(two.runs)), 40_000_000)
        starts = sorted({run[0] for run in (*one.runs, *two.runs)})
        runs: list[Run] = []
        for start, end in zip(starts, [*(s - 1 for s in starts[1:]), self._whole_range()[1]]):
            a, b = (next(m for low, high, m in family.runs if low <= start <= high) for family in (one, two))
            runs.append((start, end, function(a[np.ix_(k1, q1)], b[np.ix_(k2, q2)])))
        return Family(keys, queries, tuple(runs)).reduced()

    def _paired(self, what: str, first: Func, second: Func) -> tuple[Func, np.ndarray, np.ndarray]:
        """The pairs of two classes that occur, numbered, and the two classes of each pair."""
        atoms, a, b = self.joined(what, Values(first, []), Values(second, []))
        both = (a >= 0) & (b >= 0)
        codes, place = np.unique(a[both] * second.size + b[both], return_inverse=True)
        table = np.full(a.shape, IMPOSSIBLE)
        table[both] = place
        return Func(atoms, table), codes // second.size, codes % second.size

    # --- widths ---

    def _length(self, sop: LengthType) -> Values:
        if self.causal:
            raise ProgramError("length: a causal network cannot know the length of its input")
        low, high = self._whole_range()
        everything = Family(Func.constant(), Func.constant(), ((low, high, np.ones((1, 1), dtype=bool)),))
        return self._width_of(everything, sop)

    def _width(self, sop: SelectorWidth) -> Values:
        return self._width_of(self.of(sop.selector), sop)

    def _width_of(self, family: Family, sop: RASPExpr) -> Values:
        spots = [run for run in family.matching]
        if sum(high - low + 1 for low, high, _ in spots) <= 2:
            chosen = [
                Selection(family.keys, family.queries, match, frozenset([distance]))
                for low, high, match in spots
                for distance in range(low, high + 1)
            ]
            terms: list[tuple[int, Selection]] = []
        else:
            chosen, terms = [], self._counts(family)
        if not chosen and not terms:
            return Values(Func.constant(), [0])
        key = ("width", tuple((sign, term.key) for sign, term in terms), tuple(spot.key for spot in chosen))
        if key not in self._made:
            most = len(chosen) if chosen else self.length
            atom = Width(len(self.atoms), sop.name, list(range(most + 1)), None, tuple(terms), tuple(chosen))
            atom.by_index = self._possible_counts(family, most)
            atom.order = self._order(family)
            atom.ranks = atom.order is not None and not self._ties(atom.order).any()
            self._made[key] = self._add(atom)
        width = self._atom(self._made[key])
        return self._without_zero(width) if self._selects_itself(family) else width

    def _selects_itself(self, family: Family) -> bool:
        """Whether every position selects at least itself, so that no width is zero."""
        match = next(found for low, high, found in family.runs if low <= 0 <= high)
        atoms = union(family.keys, family.queries)
        if match.all() or size_of(atoms) > MAX_TABLE:
            return bool(match.all())
        keys, queries = family.keys.over(atoms), family.queries.over(atoms)
        possible_there = (keys >= 0) & (queries >= 0)
        return bool(match[keys[possible_there], queries[possible_there]].all())

    def _without_zero(self, width: Values) -> Values:
        places = np.arange(-1, len(width.domain) - 1)  # 0 is impossible
        return Values(width.function.mapped(places), width.domain[1:])

    def _counts(self, family: Family) -> list[tuple[int, Selection]]:
        """A count as counts up to a distance, each of which can include the beginning of the sequence.

        With matches M1 up to a distance and M2 beyond: count(all, M2) + count(up to it, M1 − M2) − count(…, M2 − M1).
        """
        terms: list[tuple[int, Selection]] = []
        _, _, last = family.runs[-1]
        if last.any():
            terms.append((1, self._selection(family, last, None)))
        for (_, high, here), (_, _, after) in zip(family.runs, family.runs[1:]):
            for sign, match in ((1, here & ~after), (-1, after & ~here)):
                if match.any():
                    offsets = frozenset(range(-self.length, high + 1))
                    terms.append((sign, self._selection(family, match, offsets)))
        return terms

    def _selection(self, family: Family, match: np.ndarray, offsets: frozenset[int] | None) -> Selection:
        low, high = self._whole_range()
        smaller = Family(family.keys, family.queries, ((low, high, match),)).reduced()
        return Selection(smaller.keys, smaller.queries, smaller.runs[0][2], offsets)

    def _possible_counts(self, family: Family, most: int) -> np.ndarray:
        """(index, count): whether this many positions can be selected at an index."""
        here = np.arange(self.length)[:, None]
        counts = np.arange(most + 1)[None, :]
        runs = family.matching
        low, high = (runs[0][0], runs[-1][1]) if runs else (0, -1)
        everything = len(runs) == 1 and bool(runs[0][2].all()) and low == 1 - self.length
        if high <= 0:  # what is selected lies to the left, so the index bounds it
            most_here = np.maximum(here + 1 + high, 0)
            return np.asarray(counts == most_here if everything else counts <= most_here)
        if everything and high == self.length - 1:
            return np.asarray(counts >= here + 1)  # the length of the input
        return np.ones((self.length, most + 1), dtype=bool)

    def _order(self, family: Family) -> Order | None:
        """The order of positions by what they select, if it is a partial one. Counts of ties are allowed, too."""
        atoms = union(family.keys, family.queries)
        if (len(family.runs) > 1 or self.causal) and self.indices not in atoms:
            atoms = union(Func(atoms, np.zeros(0)), Func.of_atom(self.indices))
        count = size_of(atoms)
        if not 0 < count <= MAX_ORDER:
            return None
        keys, queries = (np.array(side.over(atoms)).ravel() for side in (family.keys, family.queries))
        if (keys < 0).any() or (queries < 0).any():
            return None
        match = self._matches(family, atoms, keys, queries)
        for beats in (match, self._without_itself(match, atoms), ~match):  # what is not selected is counted, too
            if beats is not None and partial_order(beats):
                return Order(atoms, ~beats & ~beats.T)
        return None

    def _ties(self, order: Order) -> np.ndarray:
        """(state, state): which two positions in these states may have equal widths."""
        if self.indices not in order.atoms:
            return order.equal
        here = np.indices([atom.size for atom in order.atoms])[order.atoms.index(self.indices)].ravel()
        return np.asarray(order.equal & (here[:, None] != here[None, :]))

    def _matches(self, family: Family, atoms: tuple[Atom, ...], keys: np.ndarray, queries: np.ndarray) -> np.ndarray:
        """(key state, query state): which match."""
        if self.indices not in atoms:
            return np.asarray(family.runs[0][2][np.ix_(keys, queries)])
        here = np.indices([atom.size for atom in atoms])[atoms.index(self.indices)].ravel()
        distance = here[:, None] - here[None, :]
        match = np.zeros((len(keys), len(queries)), dtype=bool)
        for low, high, part in family.runs:
            match |= part[np.ix_(keys, queries)] & (distance >= low) & (distance <= high)
        return match & (distance <= 0) if self.causal else match

    def _without_itself(self, match: np.ndarray, atoms: tuple[Atom, ...]) -> np.ndarray | None:
        """Without the position itself, where each counts itself and states have an index."""
        if self.indices not in atoms or not match.diagonal().all():
            return None
        without = match.copy()
        np.fill_diagonal(without, False)
        return without

    # --- aggregates ---

    def _aggregate(self, sop: Aggregate) -> Values:
        family, value = self.of(sop.selector), self.of(sop.sop)
        found = self._one_selection(family, sop.name)
        if found is None:
            return Values(Func.constant(), [sop.default])
        selection, by_index = found
        prefer = self._preference(sop, value)
        if prefer is not None or self._selects_one(selection):
            return self._picked(sop, selection, value, prefer)
        if self._selects_equals(selection, value.function):
            return self._any_of_equals(sop, selection, value)
        if isinstance(sop, AggregateMax | AggregateMin):
            return self._extreme(sop, selection, value)
        return self._averaged(sop, selection, value, sop.default, by_index)

    def _preference(self, sop: Aggregate, value: Values) -> str | None:
        """Which one of the selected positions an aggregate takes, if it takes one."""
        if isinstance(sop, AggregateFirst | AggregateLast):
            return "earliest" if isinstance(sop, AggregateFirst) else "latest"
        if not (value.function.is_atom and value.function.atoms[0] is self.indices):
            return None
        if not (isinstance(sop, AggregateMax | AggregateMin) and all(is_number(v) for v in value.domain)):
            return None
        rising = {exact(one) < exact(two) for one, two in pairwise(value.domain)}  # a function of the index
        if len(rising) > 1:
            return None
        return "latest" if isinstance(sop, AggregateMax) == (True in rising) else "earliest"

    def _one_selection(self, family: Family, what: str) -> tuple[Selection, np.ndarray | None] | None:
        """One head's selection of all that a selector selects, and how many that is at each index, if known."""
        runs = family.matching
        if not runs:
            return None
        if any(not np.array_equal(run[2], runs[0][2]) for run in runs[1:]):
            family = self._with_indices(family, what)
            runs = family.matching
        distances = frozenset(d for low, high, _ in runs for d in range(low, high + 1))
        low, high = self._whole_range()
        offsets = None if len(distances) == high - low + 1 else distances
        selection = self._selection(family, runs[0][2], offsets)
        counts = None
        if selection.everything and len(runs) == 1 and runs[0][0] == low and runs[0][1] <= 0:
            counts = np.maximum(np.arange(self.length) + 1 + runs[0][1], 0)
        return selection, counts

    def _with_indices(self, family: Family, what: str) -> Family:
        """The same selector with the index as part of keys and queries, where distances match differently."""
        index = Func.of_atom(self.indices)
        keys, k, i = self._paired(what, family.keys, index)
        queries, q, j = self._paired(what, family.queries, index)
        check_size(f"'{what}'", len(k) * len(q), 20_000_000)
        match = np.zeros((len(k), len(q)), dtype=bool)
        distance = i[:, None] - j[None, :]
        for low, high, part in family.runs:
            match |= part[np.ix_(k, q)] & (distance >= low) & (distance <= high)
        low, high = self._whole_range()
        return Family(keys, queries, ((low, high, match),)).reduced()

    def _selects_one(self, selection: Selection) -> bool:
        """Whether a head never selects two positions."""
        if selection.offsets is not None and len(selection.offsets) == 1:
            return True
        if selection.match.sum(axis=0).max() > 1:
            return False
        wanted = np.flatnonzero(selection.match.any(axis=1))
        keys = selection.keys
        for axis, atom in enumerate(keys.atoms):
            if atom is self.indices or (isinstance(atom, Width) and atom.ranks):
                places = [np.argwhere(keys.table == c)[:, axis] for c in wanted]
                if all(len(set(place.tolist())) == 1 for place in places):
                    return True
        positions = Func.of_atom(self.indices)  # two positions never hold the same index
        return self._selects_equals(selection, positions)

    def _selects_equals(self, selection: Selection, value: Func) -> bool:
        """Whether all positions that a head selects at once hold equal values.

        Either the selected keys decide the value, or they fix a width by which positions are ordered: two positions
        of one width do not beat each other, as two largest values, or two first occurrences of one token.
        """
        if not value.atoms:
            return True
        orders = [atom.order for atom in selection.keys.atoms if isinstance(atom, Width)]
        return any(self._equal_where_selected(selection, value, order) for order in (None, *orders))

    def _equal_where_selected(self, selection: Selection, value: Func, order: Order | None) -> bool:
        states = () if order is None else order.atoms
        atoms = union(selection.keys, value, Func(states, np.zeros(0)))
        if size_of(atoms) > MAX_TABLE:
            return False
        keys, values = (np.array(side.over(atoms)).ravel() for side in (selection.keys, value))
        mask = possible(atoms, self.indices)
        known = (keys >= 0) & (values >= 0) & (True if mask is None else mask.ravel())
        axes = dict(zip(atoms, np.indices([atom.size for atom in atoms]).reshape(len(atoms), -1)))
        shared = [atom for atom in atoms if self._is_shared(atom)]
        if order is not None and size_of((*states, *shared)) > MAX_ORDER:
            shared = []
        counted = [axes[a] for a in atoms if isinstance(a, Width) and order is not None and a.order is order]
        alike, at = (_combined(axes, some, len(keys)) for some in (shared, states))
        ties = np.ones((1, 1), dtype=bool) if order is None else self._ties(order)
        ties = np.kron(np.eye(size_of(shared), dtype=bool), ties)
        for column in np.unique(selection.match, axis=1).T:
            chosen = known & column[np.maximum(keys, 0)]
            group = alike[chosen]
            if counted and not _equal_in_ties(np.eye(size_of(shared), dtype=bool), group, counted[0][chosen]):
                return False
            if not _equal_in_ties(ties, group * (size_of(states)) + at[chosen], values[chosen]):
                return False
        return True

    def _is_shared(self, atom: Atom) -> bool:
        """Whether an atom has the same value at all positions: its heads select the same for all."""
        if self.causal or not isinstance(atom, Width | Picked | Averaged | Extreme):
            return False
        used = [*(t for _, t in atom.terms), *atom.spots] if isinstance(atom, Width) else [atom.selection]
        return all(one.offsets is None and not one.queries.atoms for one in used)

    def _any_of_equals(self, sop: Aggregate, selection: Selection, value: Values) -> Values:
        """The common value of what is selected: numbered, so that the mean is the number itself."""
        key = ("equals", selection.key, value.function.key, tuple(value.domain), sop.default)
        if key not in self._made:
            domain = Domain(sop.name)
            codes = tuple(Fraction(place) for place in range(len(value.domain)))
            levels = [(code, domain.place(v)) for code, v in zip(codes, value.domain)]
            nothing = Fraction(-1)
            self._made[key] = self._add(
                Averaged(
                    len(self.atoms), sop.name, domain.values, None, selection, value.function, codes,
                    ((nothing, domain.place(sop.default)), *levels), nothing, sop.default, equal=True,
                )
            )  # fmt: skip
        return self._atom(self._made[key])

    def _picked(self, sop: Aggregate, selection: Selection, value: Values, prefer: str | None) -> Values:
        prefer = None if self._selects_one(selection) else prefer
        key = ("picked", selection.key, value.function.key, tuple(value.domain), sop.default, prefer)
        if key not in self._made:
            domain = Domain(sop.name)
            places = tuple(domain.place(v) for v in [*value.domain, sop.default])
            self._made[key] = self._add(
                Picked(len(self.atoms), sop.name, domain.values, None, selection, value.function, places, prefer)
            )
        return self._atom(self._made[key])

    def _averaged(
        self, sop: RASPExpr, selection: Selection, value: Values, default: Any, counts: np.ndarray | None
    ) -> Values:
        key = ("averaged", selection.key, value.function.key, tuple(value.domain), default)
        if key not in self._made:
            made = self._mean_levels(selection, value, default, sop, counts)
            if made is None:
                made = self._carried_levels(value, default, sop)
            domain, codes, levels, nothing, is_exact, by_index = made
            self._made[key] = self._add(
                Averaged(
                    len(self.atoms), sop.name, domain, by_index, selection, value.function, codes, levels, nothing,
                    default, is_exact, counts,
                )
            )  # fmt: skip
        return self._atom(self._made[key])

    def _mean_levels(
        self, selection: Selection, value: Values, default: Any, sop: RASPExpr, counts: np.ndarray | None
    ) -> Any:
        """Every mean that a head can read, where all values are numbers and the means are not too many."""
        if not all(is_number(v) for v in value.domain if v is not None) or set(value.domain) <= {None}:
            return None
        numbers = [exact(v) for v in value.domain if v is not None]
        most = self.length if selection.offsets is None else min(self.length, len(selection.offsets))
        _check_scale(sop, value, numbers)
        means = all_means(numbers, most)
        if means is None and not self._chooses_one_key(selection):
            raise NotSupported(
                f"'{sop.name}' can have more than {MAX_MEANS:,} different means of up to {most} numbers; use a smaller "
                "max_seq_len or fewer different numbers, or count them with rasp.SelectorWidth"
            )
        if means is None or (len(means) > FEW_MEANS and self._chooses_one_key(selection)):
            return None
        low, high = min(numbers), max(numbers)
        missing = low - (most + 1) * (high - low + 1)  # the code of None: a mean with a None in it is below all others
        nothing = missing - 1 if None in value.domain else low - 1
        codes = tuple(missing if v is None else exact(v) for v in value.domain)
        domain = Domain(sop.name)
        levels = [(nothing, domain.place(default))]
        if None in value.domain:
            levels += [(missing, domain.place(None)), (low - Fraction(1, 2), domain.place(None))]
        levels += [(level, domain.place(plain(level))) for level in means]
        by_index = None
        if counts is not None and None not in value.domain:
            by_index = self._possible_means(domain.values, default, counts, numbers)
        return domain.values, codes, tuple(levels), nothing, None not in value.domain, by_index

    def _chooses_one_key(self, selection: Selection) -> bool:
        """Whether each query matches one class of keys, as where a selector is meant to choose one position."""
        return bool(selection.match.sum(axis=0).max() <= 1) and bool(selection.queries.atoms)

    def _possible_means(
        self, domain: list[Any], default: Any, counts: np.ndarray, numbers: list[Fraction]
    ) -> np.ndarray:
        """(index, mean): whether this many selected positions can have that mean."""
        scale = lcm(*(number.denominator for number in numbers))
        mask = np.zeros((self.length, len(domain)), dtype=bool)
        for place, mean in enumerate(domain):
            whole = (exact(mean) * scale).denominator if is_number(mean) else None
            mask[:, place] = (counts == 0) & (mean == default)
            if whole is not None:
                mask[:, place] |= (counts > 0) & (counts % whole == 0)
        return mask

    def _carried_levels(self, value: Values, default: Any, sop: RASPExpr) -> Any:
        """Codes whose mean is exact where all selected values are equal."""
        domain = Domain(sop.name)
        if all(is_number(v) for v in value.domain) and value.domain:
            self.note(sop, "may select several positions; a mean that is not one of the values reads as None")
            codes = tuple(exact(v) for v in value.domain)
            scale = lcm(*(code.denominator for code in codes))
            gap = Fraction(1, scale * self.length)
            levels: list[tuple[Fraction, int]] = []
            ordered = sorted((code, domain.place(v)) for code, v in zip(codes, value.domain))
            for (code, place), (after, _) in zip(ordered, [*ordered[1:], (None, None)]):
                levels.append((code, place))
                if after is not None and after - code > 2 * gap:
                    levels += [(code + gap, domain.place(None)), (after - gap, domain.place(None))]
        else:
            self.note(sop, "may select several positions; values that are not numbers must then be equal")
            codes = tuple(Fraction(place) for place in range(len(value.domain)))
            levels = [(code, domain.place(v)) for code, v in zip(codes, value.domain)]
        nothing = min(codes) - 1
        return domain.values, codes, ((nothing, domain.place(default)), *levels), nothing, False, None

    def _extreme_by_digits(self, sop: Aggregate, ranks: dict[Any, int]) -> Values:
        """The largest of many values: the high digit of its rank first, then the low digit among those that have it."""
        values = list(ranks)
        high, low = _digit(ranks, sop.sop, False), _digit(ranks, sop.sop, True)
        first = AggregateMax(sop.selector, high, default=-1).named(f"{sop.name}_high")
        there = SelectorAnd(sop.selector, Select(high, first, Comparison.EQ))
        second = AggregateMax(there, low, default=-1).named(f"{sop.name}_low")
        base, default = MAX_EXTREME, sop.default
        found = SequenceMap(
            lambda h, l: default if h < 0 else values[min(h * base + l, len(values) - 1)], first, second
        )
        made: Values = self.of(found.named(sop.name))
        return made

    def _extreme(self, sop: Aggregate, selection: Selection, value: Values) -> Values:
        try:
            order = sorted(range(len(value.domain)), key=lambda i: value.domain[i])
        except TypeError:
            raise ProgramError(f"'{sop.name}' takes the largest of values that cannot be compared") from None
        if isinstance(sop, AggregateMin):
            order.reverse()
        if len(order) > MAX_EXTREME:
            return self._extreme_by_digits(sop, {value.domain[i]: rank for rank, i in enumerate(order)})
        number = np.empty(len(order), dtype=np.int64)
        number[order] = np.arange(len(order))
        ranked = value.function.mapped(number)
        domain = Domain(sop.name)
        places = tuple(domain.place(v) for v in [sop.default, *(value.domain[i] for i in order)])
        key = ("extreme", selection.key, ranked.key, tuple(domain.values), places)
        if key not in self._made:
            atom = Extreme(len(self.atoms), sop.name, domain.values, None, selection, ranked, len(order), places)
            self._made[key] = self._add(atom)
        return self._atom(self._made[key])


def _combined(axes: dict[Atom, np.ndarray], atoms: Sequence[Atom], count: int) -> np.ndarray:
    """A number for each combination of the atoms' values."""
    found = np.zeros(count, dtype=np.int64)
    for atom in atoms:
        found = found * atom.size + axes[atom]
    return found


def _equal_in_ties(ties: np.ndarray, states: np.ndarray, values: np.ndarray) -> bool:
    """Whether any two positions in states that are tied hold equal values."""
    if not len(states):
        return True
    there, place = np.unique(states, return_inverse=True)
    least, most = np.full(len(there), np.iinfo(np.int64).max), np.full(len(there), -1)
    np.minimum.at(least, place, values)
    np.maximum.at(most, place, values)
    apart = np.maximum(most[:, None], most[None, :]) != np.minimum(least[:, None], least[None, :])
    return not bool((ties[np.ix_(there, there)] & apart).any())


def _digits(units: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """Factors, and which of these numbers have each, so that the factors of a number add up to it."""
    different = [int(unit) for unit in np.unique(units) if unit]
    if len(different) <= 2:
        return [(unit, units == unit) for unit in different]
    negative = min(different) < 0
    size = max((unit if unit >= 0 else ~unit).bit_length() for unit in different) + negative
    bits = [(1 << place, units >> place & 1 == 1) for place in range(size)]
    if negative:  # two's complement
        bits[-1] = (-bits[-1][0], bits[-1][1])
    return [(factor, has) for factor, has in bits if has.any()]


def _digit(ranks: dict[Any, int], sop: SOp, low: bool) -> SOp:
    """The high or the low digit of a value's rank."""
    place = 1 if low else 0
    return Map(lambda value: divmod(ranks[value], MAX_EXTREME)[place], sop, simplify=False)


def _numbered(atoms: tuple[Atom, ...]) -> Func:
    """A different number for every combination of the atoms' values."""
    return Func(atoms, np.arange(size_of(atoms)).reshape([atom.size for atom in atoms]))


def all_means(numbers: Sequence[Fraction], most: int) -> list[Fraction] | None:
    """Every mean of 1 … `most` of these numbers, ascending; None if they are too many."""
    scale = lcm(*(number.denominator for number in numbers))
    whole = sorted({int(number * scale) for number in numbers})
    steps = [number - whole[0] for number in whole]
    if steps[-1] * most > 1_000_000:
        return None
    found: set[Fraction] = set()
    sums = 1  # bit s: whether the sum can be whole[0]·q + s
    for q in range(1, most + 1):
        following = 0
        for step in steps:
            following |= sums << step
        sums = following
        bits = np.frombuffer(bin(sums)[:1:-1].encode(), dtype=np.uint8)
        for s in np.flatnonzero(bits == ord("1")).tolist():
            found.add(Fraction(whole[0] * q + s, q * scale))
        if len(found) > MAX_MEANS:
            return None
    return sorted(found)


def _linear_factors(function: Callable[[Any, Any], Any], xs: Sequence[Any], ys: Sequence[Any]) -> Any:
    """The factors of a function that is a·x + b·y on these values; None if it is not."""
    xs, ys = ([v for v in values if v is not None] for values in (xs, ys))
    if len(xs) * len(ys) > MAX_TABLE or len(xs) < 2 or len(ys) < 2:
        return None
    try:
        x0, x1, y0, y1 = (exact(v) for v in (xs[0], xs[1], ys[0], ys[1]))
        here = exact(function(xs[0], ys[0]))
        a = (exact(function(xs[1], ys[0])) - here) / (x1 - x0)
        b = (exact(function(xs[0], ys[1])) - here) / (y1 - y0)
        wanted = all(exact(function(x, y)) == a * exact(x) + b * exact(y) for x in xs for y in ys)
    except Exception:
        return None
    return (plain(a), plain(b)) if wanted else None


_RULES: dict[type, Callable[[Analysis, Any], Any]] = {
    TokensType: lambda self, _: self._atom(self.tokens),
    IndicesType: lambda self, _: self._atom(self.indices),
    LengthType: Analysis._length,
    Full: Analysis._constant,
    ConstantSOp: Analysis._by_index,
    Map: Analysis._map,
    SequenceMap: Analysis._sequence_map,
    SelectorWidth: Analysis._width,
    Aggregate: Analysis._aggregate,
    Select: Analysis._select,
    ConstantSelector: Analysis._constant_selector,
    SelectorOr: Analysis._both,
    SelectorAnd: Analysis._both,
    SelectorNot: Analysis._not,
}


def _check_scale(sop: RASPExpr, value: Values, numbers: list[Fraction]) -> None:
    """Refuse numbers whose means no network can tell apart."""
    if len(numbers) > 1 and lcm(*(number.denominator for number in numbers)) > MAX_SCALE:
        shown = next(v for v in value.domain if v is not None and exact(v).denominator > 1)
        raise NotSupported(
            f"'{sop.name}' averages numbers such as {shown!r}, whose means lie too close together for a network; "
            "round them first, as in rasp.Map(lambda x: round(x, 2), …)"
        )
