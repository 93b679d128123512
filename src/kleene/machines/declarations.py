"""What a program declares: variables (`cat`, `num`, `subset`, `word`), heads (`attend`, `relative`) and layers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields
from fractions import Fraction
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, Literal, Never, SupportsIndex, TypeVar, overload

from kleene.common.tokens import as_int
from kleene.errors import ProgramError
from kleene.machines.bitwords import BitWord, sliced
from kleene.machines.kinds import (
    MAX_VALUES,
    MAX_WORD_BITS,
    Categorical,
    Kind,
    Numerical,
    Subset,
    Word,
    as_number,
)
from kleene.machines.spec import PREFERENCES

range_of = range  # declarations have a parameter of that name

T = TypeVar("T")
S = TypeVar("S")


@dataclass(frozen=True, eq=False)
class Declaration:
    """What a variable can hold and how it starts. Two declarations are equal only if they are the same object."""

    kind: Kind
    token: Callable[[int], Any] | None = None
    position: Callable[[int], Any] | None = None
    default: Any = None
    outside: str | None = None  # "saturate" or "wrap": what a whole number outside becomes when it is written


class Variable(Declaration, Generic[T]):
    """A declared variable, made by `kl.cat`, `kl.num`, `kl.subset` or `kl.word`.

    A type checker takes `z` in `step` for an instance of the program. As a descriptor, the variable tells it that `z.x`
    reads and writes values of type T.
    """

    if TYPE_CHECKING:

        @overload
        def __get__(self, instance: None, owner: Any) -> Variable[T]: ...
        @overload
        def __get__(self, instance: object, owner: Any) -> T: ...
        def __get__(self, instance: object, owner: Any) -> Any: ...
        def __set__(self, instance: object, value: T) -> None: ...


class WordVariable(Variable[int]):
    """A declared word, made by `kl.word`. `z.w` reads a number that has bits and slices."""

    if TYPE_CHECKING:

        @overload
        def __get__(self, instance: None, owner: Any) -> WordVariable: ...
        @overload
        def __get__(self, instance: object, owner: Any) -> BitWord: ...
        def __get__(self, instance: object, owner: Any) -> Any: ...

    def __getitem__(self, place: int | slice) -> WordPart:
        """A bit `w[i]` or a slice `w[a:b]`, for heads."""
        assert isinstance(self.kind, Word)
        bits = self.kind.bits
        places = sliced(place, bits) if isinstance(place, slice) else range(bits)[place : place + 1 or None]
        if not len(places) or places.step != 1:
            raise ProgramError(f"a head takes one bit or neighbouring bits of a word of {bits} bits, not [{place}]")
        return WordPart(Word(len(places)), None, None, None, None, self, places.start)


@dataclass(frozen=True, eq=False)
class WordPart(Variable[int]):
    """Neighbouring bits of a word, for heads: `w[a:b]` or `w[i]` in the class. Not a variable by itself."""

    word: WordVariable | None = None
    start: int = 0


@dataclass(frozen=True, eq=False)
class Head(Generic[T]):
    """A declared attention head, made by `kl.attend` or `kl.relative`.

    `step` reads its output as `z.x`, of type T. A head with `into` writes its output into a variable instead.
    """

    query: Declaration | None
    key: Declaration | None
    value: Declaration
    offsets: frozenset[int] | None = None
    default: Any = None
    output: Kind | None = None
    where: Mapping[Variable[Any], int] | None = None
    among: Mapping[Variable[Any], int] | None = None
    into: Declaration | None = None
    replacing: Declaration | None = None
    prefer: str | None = None
    counts: bool = False
    own: Declaration | None = None  # a variable that the head brings along

    if TYPE_CHECKING:

        @overload
        def __get__(self, instance: None, owner: Any) -> Head[T]: ...
        @overload
        def __get__(self, instance: object, owner: Any) -> T: ...
        def __get__(self, instance: object, owner: Any) -> Any: ...
        def __set__(self, instance: object, value: Never) -> None: ...


@dataclass(frozen=True, eq=False)
class Clear:
    """Variables that start a layer with their first value (of a word: 0), made by `kl.clear`."""

    variables: tuple[Variable[Any], ...]
    where: Any = None


def clear(*variables: Variable[Any], where: Mapping[Variable[int], int] | None = None) -> Clear:
    """Declare that variables become zero (a `cat`: its value 0) before the step of a layer.

    A head takes the old values away, so that no unit has to.

    - `where`: `{variable: value}`; only positions with these values clear.
    """
    if not variables or not all(isinstance(one, Variable) and not isinstance(one, WordPart) for one in variables):
        raise ProgramError("clear: takes one variable or more, as in kl.clear(total, carry)")
    return Clear(variables, where)


@dataclass(frozen=True, eq=False)
class CycleLayer:
    """One layer of a cycle: its heads, and the step after them; or two steps, one for each half of the MLP block."""

    heads: tuple[Head[Any] | Clear, ...]
    step: Callable[[Any], None]
    second: Callable[[Any], None] | None = None

    def then(self, step: Callable[[Any], None]) -> CycleLayer:
        """Declare the second step of a layer: `@fetch.then` above it. It sees what the first step has written."""
        if self.second is not None:
            raise ProgramError("layer: a layer has two steps at most, one for each half of the MLP block")
        return CycleLayer(self.heads, self.step, step)


def layer(*heads: Head[Any] | Clear) -> Callable[[Callable[[Any], None]], CycleLayer]:
    """Declare a layer of a cycle: `@kl.layer(head, …)` above its step, then `cycle = (fetch, load, store)`.

    The layers of a cycle take turns. Each has its own heads and its own step.
    """
    for head in heads:
        if not isinstance(head, Head | Clear):
            raise ProgramError(f"layer: takes heads (kl.attend, kl.relative) and kl.clear, not {head!r}")
    return lambda step: CycleLayer(heads, step)


@dataclass(frozen=True)
class Counted:
    """An initialiser of a word: position p starts with p + offset, modulo the word's size."""

    offset: int

    def __call__(self, position: int) -> int:
        return position + self.offset


def counting(offset: int = 0) -> Counted:
    """Initialise a word with its position plus an offset, in binary. The network computes it and stores no table.

    >>> counting(5)(3)
    8
    """
    if as_int(offset) is None:
        raise ProgramError(f"counting: the offset must be a whole number, not {offset!r}")
    return Counted(int(offset))


def _variable(
    kind: Kind, token: Any, position: Any, default: Any, saturate: bool = False, wrap: bool = False
) -> Variable[Any]:
    if saturate and wrap:
        raise ProgramError(f"{kind.name}: saturate= and wrap= exclude each other")
    if token is not None and position is not None:
        raise ProgramError(f"{kind.name}: give either token= or position=, not both")
    for name, function in (("token", token), ("position", position)):
        if function is not None and not callable(function):
            raise ProgramError(f"{kind.name}: {name}= must be a function of one integer, not {function!r}")
    return Variable(kind, token, position, default, "saturate" if saturate else "wrap" if wrap else None)


def cat(
    range: int,
    *,
    token: Callable[[int], SupportsIndex] | None = None,
    position: Callable[[int], SupportsIndex] | None = None,
    default: int | None = None,
    saturate: bool = False,
    wrap: bool = False,
) -> Variable[int]:
    """Declare a categorical variable with the values 0 … range − 1.

    - `token`: a function from a token to the initial value.
    - `position`: a function from a position (0, 1, …) to the initial value, instead of `token`.
    - `default`: the initial value without either; by default 0.
    - `saturate`: a whole number below 0 is written as 0, one above the range as range − 1.
    - `wrap`: a whole number is written modulo the range.

    >>> cat(3, token=lambda t: t % 3).kind.describe()
    '0 … 2'
    """
    if as_int(range) is None or int(range) < 1:
        raise ProgramError(f"cat: the range must be a whole number of at least 1, not {range!r}")
    if int(range) > MAX_VALUES:
        raise ProgramError(f"cat: {range:,} values are more than the {MAX_VALUES:,} allowed; kl.word holds more")
    return _variable(Categorical(int(range)), token, position, default, saturate, wrap)


@overload
def num(
    values: Iterable[int],
    *,
    token: Callable[[int], SupportsIndex | float | Fraction] | None = None,
    position: Callable[[int], SupportsIndex | float | Fraction] | None = None,
    default: int | None = None,
) -> Variable[int]: ...
@overload
def num(
    values: Iterable[float | Fraction],
    *,
    token: Callable[[int], SupportsIndex | float | Fraction] | None = None,
    position: Callable[[int], SupportsIndex | float | Fraction] | None = None,
    default: float | Fraction | None = None,
) -> Variable[int | Fraction]: ...
def num(
    values: Iterable[Any],
    *,
    token: Callable[[int], SupportsIndex | float | Fraction] | None = None,
    position: Callable[[int], SupportsIndex | float | Fraction] | None = None,
    default: Any = None,
) -> Variable[Any]:
    """Declare a numerical variable. A head that reads it averages.

    - `values`: the numbers that the variable can have; use `Fraction` for exact ones.
    - `token`: a function from a token to the initial value.
    - `position`: a function from a position (0, 1, …) to the initial value, instead of `token`.
    - `default`: the initial value without either; by default 0, or the smallest value.

    >>> num([0, Fraction(1, 2), 1]).kind.describe()
    '0, 1/2, 1'
    """
    try:
        declared = tuple(sorted({as_number(value) for value in islice(values, MAX_VALUES + 1)}))
    except (TypeError, ValueError, OverflowError) as error:
        raise ProgramError(f"num: the values must be finite numbers ({error})") from None
    if not declared:
        raise ProgramError("num: declare at least one value")
    if len(declared) > MAX_VALUES:
        raise ProgramError(f"num: declare at most {MAX_VALUES:,} values")
    return _variable(Numerical(declared), token, position, default)


def subset(
    range: int,
    values: Iterable[Iterable[int]],
    *,
    token: Callable[[int], Iterable[int]] | None = None,
    position: Callable[[int], Iterable[int]] | None = None,
    default: Iterable[int] | None = None,
) -> Variable[AbstractSet[int]]:
    """Declare a variable that holds a set of integers out of 0 … range − 1. As a query it matches each of its members.

    - `values`: the sets that the variable can hold.
    - `token`: a function from a token to the initial value.
    - `position`: a function from a position (0, 1, …) to the initial value, instead of `token`.
    - `default`: the initial value without either; by default the empty set, or the first set.

    >>> subset(3, values=[{0}, {1, 2}]).kind.describe()
    '{0}, {1, 2}'
    """
    declared = tuple(dict.fromkeys(frozenset(int(member) for member in members) for members in values))
    if not declared:
        raise ProgramError("subset: declare at least one set in values=")
    for members in declared:
        for member in members:
            if not 0 <= member < range:
                raise ProgramError(f"subset: the member {member} is outside 0 … {range - 1}")
    return _variable(Subset(int(range), declared), token, position, default)


def word(
    bits: int,
    *,
    token: Callable[[int], SupportsIndex] | None = None,
    position: Callable[[int], SupportsIndex] | None = None,
    default: int | None = None,
    wrap: bool = False,
) -> WordVariable:
    """Declare a variable that holds an integer 0 … 2**bits − 1 in binary, in `bits` dimensions.

    - `token`: a function from a token to the initial value.
    - `position`: a function from a position (0, 1, …) to the initial value, instead of `token`.
    - `default`: the initial value without either; by default 0.
    - `wrap`: a whole number is written modulo 2**bits.

    >>> word(4).kind.describe()
    '0 … 2**4 − 1'
    """
    if as_int(bits) is None or not 1 <= int(bits) <= MAX_WORD_BITS:
        raise ProgramError(f"word: bits must be 1 … {MAX_WORD_BITS}, not {bits!r}")
    made = _variable(Word(int(bits)), token, position, default, wrap=wrap)
    return WordVariable(**{field.name: getattr(made, field.name) for field in fields(made)})


@overload
def attend(
    query: Variable[int] | Variable[AbstractSet[int]],
    key: Variable[int],
    value: Variable[T],
    *,
    offsets: Iterable[int] | None = None,
    default: T | Literal["none"] | None = None,
    where: Mapping[Variable[int], int] | None = None,
    among: Mapping[Variable[int], int] | None = None,
    into: Variable[T] | None = None,
    replacing: Variable[T] | None = None,
    latest: bool = False,
    earliest: bool = False,
    nearest: bool = False,
) -> Head[T]: ...
@overload
def attend(
    query: Variable[int] | Variable[AbstractSet[int]],
    key: Variable[int],
    value: Variable[T],
    *,
    offsets: Iterable[int] | None = None,
    default: S | None = None,
    output: Variable[S],
    where: Mapping[Variable[int], int] | None = None,
    among: Mapping[Variable[int], int] | None = None,
    into: Variable[S] | None = None,
    replacing: Variable[S] | None = None,
    latest: bool = False,
    earliest: bool = False,
    nearest: bool = False,
) -> Head[S]: ...
def attend(
    query: Variable[int] | Variable[AbstractSet[int]],
    key: Variable[int],
    value: Variable[Any],
    *,
    offsets: Iterable[int] | None = None,
    default: Any = None,
    output: Variable[Any] | Kind | None = None,
    where: Mapping[Variable[int], int] | None = None,
    among: Mapping[Variable[int], int] | None = None,
    into: Variable[Any] | None = None,
    replacing: Variable[Any] | None = None,
    latest: bool = False,
    earliest: bool = False,
    nearest: bool = False,
) -> Head[Any]:
    """Declare an attention head: each position reads `value` from the positions whose `key` equals its own `query`.

    - `offsets`: select only positions at these distances, as in `range(-3, 0)` for the three to the left.
    - `default`: the output where nothing is selected. Without it, reading the head there is an error. It may lie above
      the range of `value`; "none" is the first number above.
    - `output`: the kind of the output where it differs from that of `value`, as in `kl.num(values=…)` for averages.
    - `where`: `{variable: value}`; only positions with these values look.
    - `among`: `{variable: value}`; only positions with these values are looked at.
    - `into`: write the output into this variable before `step`, at every position where `where` holds.
    - `replacing`: with `into`, write only where a position is selected; the selected position's `replacing` must equal
      what the variable holds.
    - `latest`: of several matching positions, select the rightmost.
    - `earliest`: of several matching positions, select the leftmost.
    - `nearest`: of several matching positions, select the nearest; of two that are equally near, the left one.
    """
    preferred = [name for name, asked in zip(PREFERENCES, (latest, earliest, nearest)) if asked]
    if len(preferred) > 1:
        raise ProgramError(f"attend: {preferred[0]}= and {preferred[1]}= exclude each other")
    kind = output.kind if isinstance(output, Variable) else output
    if kind is not None and not isinstance(kind, Kind):
        raise ProgramError(f"attend: output= must be a declaration such as kl.num(values=…), not {output!r}")
    limited = None if offsets is None else frozenset(int(offset) for offset in offsets)
    prefer = preferred[0] if preferred else None
    return Head(query, key, value, limited, default, kind, where, among, into, replacing, prefer)


def count(
    query: Variable[int] | Variable[AbstractSet[int]] | None = None,
    key: Variable[int] | None = None,
    *,
    most: int,
    offsets: Iterable[int] | None = None,
    where: Mapping[Variable[int], int] | None = None,
    among: Mapping[Variable[int], int] | None = None,
) -> Head[int]:
    """Declare a head that counts: the number of positions whose `key` equals a position's own `query`.

    Without query and key it counts all positions. Attention averages 0 at the n positions and −1 at the null key, which
    scores like a match: the output is −1 / (1 + n), and `step` reads n.

    - `most`: the largest number; counting more is an error where it is read.
    - `offsets`: count only positions at these distances.
    - `where`: `{variable: value}`; only positions with these values look, others count 0.
    - `among`: `{variable: value}`; only positions with these values are counted.
    """
    if as_int(most) is None or not 1 <= int(most) < MAX_VALUES:
        raise ProgramError(f"count: most must be a whole number of at least 1, not {most!r}")
    limited = None if offsets is None else frozenset(int(offset) for offset in offsets)
    kind = Numerical(tuple(as_number(Fraction(-1, 1 + n)) for n in range_of(int(most) + 1)))
    return Head(query, key, key, limited, -1, kind, where, among, counts=True)  # type: ignore[arg-type]


def length(most: int) -> Head[int]:
    """Declare a head that counts the positions of the input; in a causal program, those up to a position's own.

    - `most`: the longest input.
    """
    return count(most=most)


def any(
    query: Variable[int] | Variable[AbstractSet[int]],
    key: Variable[int],
    *,
    offsets: Iterable[int] | None = None,
    where: Mapping[Variable[int], int] | None = None,
    among: Mapping[Variable[int], int] | None = None,
) -> Head[int]:
    """Declare a head that asks whether there is a position whose `key` equals a position's own `query`: 1 or 0.

    - `offsets`: look only at positions at these distances.
    - `where`: `{variable: value}`; only positions with these values look, others read 0.
    - `among`: `{variable: value}`; only positions with these values are looked at.
    """
    limited = None if offsets is None else frozenset(int(offset) for offset in offsets)
    one: Variable[int] = Variable(Categorical(2), None, None, 1)
    return Head(query, key, one, limited, 0, None, where, among, prefer="latest", own=one)


def relative(
    value: Variable[T],
    offset: int,
    default: T | None = None,
    *,
    where: Mapping[Variable[int], int] | None = None,
    into: Variable[T] | None = None,
) -> Head[T]:
    """Declare a head that reads `value` from the position `offset` places to the right, or to the left if negative.

    - `default`: the output where there is no such position. Without it, reading the head there is an error.
    - `where`: `{variable: value}`; only positions with these values look.
    - `into`: write the output into this variable before `step`, at every position where `where` holds.
    """
    return Head(None, None, value, frozenset([int(offset)]), default, where=where, into=into)
