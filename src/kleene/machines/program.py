"""The attention-program language: variables, heads, `step`, `halt`.

A program is a class. Its variables and heads are class attributes; `step` is plain Python on the state of one position.
The class statement checks everything that can be checked and makes a `Spec`: plain data from which the interpreter, the
lowerings and the compiler work.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Never, TypeVar, overload

from kleene.common.output import Output
from kleene.errors import InputError, ProgramError, RangeError

if TYPE_CHECKING:
    from kleene.machines.trace import Trace

T = TypeVar("T")
S = TypeVar("S")
C = TypeVar("C", bound="ProgramClass")

Value = Any  # an int, a Fraction (num) or a frozenset (subset)

RESERVED = ("tokens", "output", "halt", "positions", "layers", "causal", "stop", "max_tokens", "step", "rules", "cycle")
MAX_DEFAULT_POSITIONS = 512
MAX_WORD_BITS = 32
MAX_VALUES = 2**21  # the most values of a variable, tokens, and positions with tables: all are held in memory


class Kind:
    """The values that a variable can have, in order. `index` finds the place of a value."""

    name: str
    values: Sequence[Value]

    def __len__(self) -> int:
        return len(self.values)

    def index(self, value: Any) -> int | None:
        """The place of a value among the declared ones, or None."""
        raise NotImplementedError

    def describe(self) -> str:
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        raise NotImplementedError


def _as_int(value: Any) -> int | None:
    """Convert a whole number of any type to an int; None for anything else."""
    if isinstance(value, str | bytes):
        return None
    try:
        whole = int(value)
        return whole if whole == value else None
    except (TypeError, ValueError, OverflowError):
        return None


@dataclass(frozen=True)
class Categorical(Kind):
    """The integers 0 … range − 1, one dimension each."""

    range: int
    name = "cat"

    @property
    def values(self) -> Sequence[int]:  # type: ignore[override]
        return builtins.range(self.range)

    def index(self, value: Any) -> int | None:
        whole = _as_int(value)
        return whole if whole is not None and 0 <= whole < self.range else None

    def describe(self) -> str:
        return f"0 … {self.range - 1}"

    def to_json(self) -> dict[str, Any]:
        return {"kind": "cat", "range": self.range}


@dataclass(frozen=True)
class Numerical(Kind):
    """Declared rational numbers, ascending. A head of this kind averages what it selects."""

    values: tuple[int | Fraction, ...]
    name = "num"

    def index(self, value: Any) -> int | None:
        try:
            return self._places.get(as_number(value))
        except (TypeError, ValueError, OverflowError):
            return None

    @cached_property
    def _places(self) -> dict[int | Fraction, int]:
        return {value: place for place, value in enumerate(self.values)}

    def nearest(self, average: Fraction | int) -> int | Fraction:
        """The declared value nearest to an average, the smaller one of two; RangeError far outside all of them."""
        low, high = self.values[0], self.values[-1]
        slack_low = Fraction(self.values[1] - low, 2) if len(self) > 1 else Fraction(1, 2)
        slack_high = Fraction(high - self.values[-2], 2) if len(self) > 1 else Fraction(1, 2)
        if average < low - slack_low or average > high + slack_high:
            raise RangeError(f"the average {average} is outside the declared values {self.describe()}")
        return min(self.values, key=lambda value: (abs(value - average), value))

    def describe(self) -> str:
        shown = [str(value) for value in self.values]
        return ", ".join(shown if len(shown) <= 6 else [*shown[:3], "…", *shown[-2:]])

    def to_json(self) -> dict[str, Any]:
        return {"kind": "num", "values": [str(value) for value in self.values]}


@dataclass(frozen=True)
class Subset(Kind):
    """Declared sets of integers out of 0 … range − 1. As a query it matches any of its members."""

    range: int
    values: tuple[frozenset[int], ...]
    name = "subset"

    def index(self, value: Any) -> int | None:
        try:
            wanted = frozenset(int(member) for member in value)
        except (TypeError, ValueError):
            return None
        return self._places.get(wanted)

    @cached_property
    def _places(self) -> dict[frozenset[int], int]:
        return {members: place for place, members in enumerate(self.values)}

    def describe(self) -> str:
        shown = ["{" + ", ".join(map(str, sorted(members))) + "}" for members in self.values]
        return ", ".join(shown if len(shown) <= 6 else [*shown[:3], "…", *shown[-2:]])

    def to_json(self) -> dict[str, Any]:
        return {"kind": "subset", "range": self.range, "values": [sorted(members) for members in self.values]}


@dataclass(frozen=True)
class Word(Kind):
    """The integers 0 … 2**bits − 1 in binary: `bits` dimensions instead of 2**bits."""

    bits: int
    name = "word"

    @property
    def values(self) -> Sequence[int]:  # type: ignore[override]
        return range(1 << self.bits)

    def index(self, value: Any) -> int | None:
        whole = _as_int(value)
        return whole if whole is not None and 0 <= whole < (1 << self.bits) else None

    def describe(self) -> str:
        return f"0 … 2**{self.bits} − 1"

    def to_json(self) -> dict[str, Any]:
        return {"kind": "word", "bits": self.bits}


def kind_from_json(content: Any) -> Kind:
    """Rebuild a kind from its `to_json`."""
    name = content["kind"]
    if name == "cat":
        return Categorical(int(content["range"]))
    if name == "num":
        return Numerical(tuple(as_number(value) for value in content["values"]))
    if name == "subset":
        return Subset(int(content["range"]), tuple(frozenset(members) for members in content["values"]))
    if name == "word":
        return Word(int(content["bits"]))
    raise InputError(f"unknown kind of variable {name!r}; known: cat, num, subset, word")


def as_number(value: Any) -> int | Fraction:
    """Convert to an exact number: an int if it is whole, else a Fraction."""
    exact = Fraction(value)
    return int(exact) if exact.denominator == 1 else exact


# --- what a user writes ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Declaration:
    """What a variable can hold and how it starts. Two declarations are equal only if they are the same object."""

    kind: Kind
    token: Callable[[int], Any] | None = None
    position: Callable[[int], Any] | None = None
    default: Any = None


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
    where: Any = None
    among: Any = None
    into: Any = None
    replacing: Any = None

    if TYPE_CHECKING:

        @overload
        def __get__(self, instance: None, owner: Any) -> Head[T]: ...
        @overload
        def __get__(self, instance: object, owner: Any) -> T: ...
        def __get__(self, instance: object, owner: Any) -> Any: ...
        def __set__(self, instance: object, value: Never) -> None: ...


@dataclass(frozen=True, eq=False)
class CycleLayer:
    """One layer of a cycle: its heads, and the step after them."""

    heads: tuple[Head[Any], ...]
    step: Callable[[Any], None]


def layer(*heads: Head[Any]) -> Callable[[Callable[[Any], None]], CycleLayer]:
    """Declare a layer of a cycle: `@kl.layer(head, …)` above its step, then `cycle = (fetch, load, store)`.

    The layers of a cycle take turns. Each has its own heads and its own step.
    """
    for head in heads:
        if not isinstance(head, Head):
            raise ProgramError(f"layer: takes heads (kl.attend, kl.relative), not {head!r}")
    return lambda step: CycleLayer(heads, step)


def _variable(kind: Kind, token: Any, position: Any, default: Any) -> Variable[Any]:
    if token is not None and position is not None:
        raise ProgramError(f"{kind.name}: give either token= or position=, not both")
    for name, function in (("token", token), ("position", position)):
        if function is not None and not callable(function):
            raise ProgramError(f"{kind.name}: {name}= must be a function of one integer, not {function!r}")
    return Variable(kind, token, position, default)


def cat(
    range: int,
    *,
    token: Callable[[int], Any] | None = None,
    position: Callable[[int], Any] | None = None,
    default: int | None = None,
) -> Variable[int]:
    """Declare a categorical variable with the values 0 … range − 1.

    - `token`: a function from a token to the initial value.
    - `position`: a function from a position (0, 1, …) to the initial value, instead of `token`.
    - `default`: the initial value without either; by default 0.

    >>> cat(3, token=lambda t: t % 3).kind.describe()
    '0 … 2'
    """
    if _as_int(range) is None or int(range) < 1:
        raise ProgramError(f"cat: the range must be a whole number of at least 1, not {range!r}")
    if int(range) > MAX_VALUES:
        raise ProgramError(f"cat: {range:,} values are more than the {MAX_VALUES:,} allowed; kl.word holds more")
    return _variable(Categorical(int(range)), token, position, default)


@overload
def num(
    values: Iterable[int],
    *,
    token: Callable[[int], Any] | None = None,
    position: Callable[[int], Any] | None = None,
    default: int | None = None,
) -> Variable[int]: ...
@overload
def num(
    values: Iterable[float | Fraction],
    *,
    token: Callable[[int], Any] | None = None,
    position: Callable[[int], Any] | None = None,
    default: float | Fraction | None = None,
) -> Variable[int | Fraction]: ...
def num(
    values: Iterable[Any],
    *,
    token: Callable[[int], Any] | None = None,
    position: Callable[[int], Any] | None = None,
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
    token: Callable[[int], Any] | None = None,
    position: Callable[[int], Any] | None = None,
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
    token: Callable[[int], Any] | None = None,
    position: Callable[[int], Any] | None = None,
    default: int | None = None,
) -> Variable[int]:
    """Declare a variable that holds an integer 0 … 2**bits − 1 in binary, in `bits` dimensions.

    - `token`: a function from a token to the initial value.
    - `position`: a function from a position (0, 1, …) to the initial value, instead of `token`.
    - `default`: the initial value without either; by default 0.

    >>> word(4).kind.describe()
    '0 … 2**4 − 1'
    """
    if _as_int(bits) is None or not 1 <= int(bits) <= MAX_WORD_BITS:
        raise ProgramError(f"word: bits must be 1 … {MAX_WORD_BITS}, not {bits!r}")
    return _variable(Word(int(bits)), token, position, default)


@overload
def attend(
    query: Variable[int] | Variable[AbstractSet[int]],
    key: Variable[int],
    value: Variable[T],
    *,
    offsets: Iterable[int] | None = None,
    default: T | None = None,
    where: Mapping[Variable[int], int] | None = None,
    among: Mapping[Variable[int], int] | None = None,
    into: Variable[T] | None = None,
    replacing: Variable[T] | None = None,
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
) -> Head[Any]:
    """Declare an attention head: each position reads `value` from the positions whose `key` equals its own `query`.

    - `offsets`: select only positions at these distances, as in `range(-3, 0)` for the three to the left.
    - `default`: the output where nothing is selected. Without it, reading the head there is an error.
    - `output`: the kind of the output where it differs from that of `value`, as in `kl.num(values=…)` for averages.
    - `where`: `{variable: value}`; only positions with these values look.
    - `among`: `{variable: value}`; only positions with these values are looked at.
    - `into`: write the output into this variable before `step`, at every position where `where` holds.
    - `replacing`: with `into`, write only where a position is selected; the selected position's `replacing` must equal
      what the variable holds.
    """
    kind = output.kind if isinstance(output, Variable) else output
    if kind is not None and not isinstance(kind, Kind):
        raise ProgramError(f"attend: output= must be a declaration such as kl.num(values=…), not {output!r}")
    limited = None if offsets is None else frozenset(int(offset) for offset in offsets)
    return Head(query, key, value, limited, default, kind, where, among, into, replacing)


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


# --- what it becomes: plain data ------------------------------------------------------------------------


@dataclass(frozen=True)
class VariableSpec:
    """A variable by name. Its initial values are indices into `kind.values`."""

    name: str
    kind: Kind
    by_token: tuple[int, ...] | None
    by_position: tuple[int, ...] | None
    default: int

    def initial(self, token: int, position: int) -> int:
        """The index of the initial value."""
        if self.by_token is not None:
            return self.by_token[token]
        if self.by_position is not None:
            return self.by_position[position]
        return self.default


@dataclass(frozen=True)
class HeadSpec:
    """A head by name. `kind` is the kind of its output; `default` is an index into the values of `kind`, or None."""

    name: str
    query: str | None
    key: str | None
    value: str
    offsets: frozenset[int] | None
    default: int | None
    kind: Kind
    where: tuple[tuple[str, int], ...] = ()  # (variable, index): positions with these values look
    among: tuple[tuple[str, int], ...] = ()  # (variable, index): positions with these values are looked at
    into: str | None = None
    replacing: str | None = None

    @property
    def numerical(self) -> bool:
        return isinstance(self.kind, Numerical)

    def to_json(self) -> dict[str, Any]:
        return {
            **self.kind.to_json(),
            "query": self.query,
            "key": self.key,
            "value": self.value,
            "offsets": None if self.offsets is None else sorted(self.offsets),
            "default": self.default,
            "where": [list(pair) for pair in self.where],
            "among": [list(pair) for pair in self.among],
            "into": self.into,
            "replacing": self.replacing,
        }

    @classmethod
    def from_json(cls, name: str, content: Any) -> HeadSpec:
        offsets = None if content["offsets"] is None else frozenset(content["offsets"])
        where, among = (tuple((str(n), int(i)) for n, i in content[side]) for side in ("where", "among"))
        return cls(
            name,
            content["query"],
            content["key"],
            content["value"],
            offsets,
            content["default"],
            kind_from_json(content),
            where,
            among,
            content["into"],
            content["replacing"],
        )

    def allows(self, offset: int) -> bool:
        return self.offsets is None or offset in self.offsets


@dataclass(frozen=True)
class Spec:
    """A program without its Python: everything but `step`.

    `step` reads `heads`; `moves` are the heads that write into a variable. `cycle` names the layers that take turns,
    each with its heads and moves. Without a cycle, every layer has all of them.
    """

    name: str
    tokens: int
    positions: int | None
    variables: dict[str, VariableSpec]
    heads: dict[str, HeadSpec]
    output: str
    halt: dict[str, int]  # variable → index of its value when the program is done
    layers: int | None = None
    causal: bool = False
    stop: int | None = None
    max_tokens: int | None = None
    moves: dict[str, HeadSpec] = field(default_factory=dict)
    cycle: tuple[tuple[str, tuple[str, ...]], ...] = ()  # (layer, names of its heads and moves)
    kinds: dict[str, Kind] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        kinds = {name: variable.kind for name, variable in self.variables.items()}
        kinds |= {name: head.kind for name, head in self.heads.items()}
        object.__setattr__(self, "kinds", kinds)

    @cached_property
    def by_layer(self) -> tuple[Spec, ...]:
        """The program as each layer of its cycle sees it: with the heads of that layer alone."""
        if not self.cycle:
            return (self,)
        return tuple(
            replace(
                self,
                cycle=(),
                heads={name: head for name, head in self.heads.items() if name in names},
                moves={name: head for name, head in self.moves.items() if name in names},
            )
            for _, names in self.cycle
        )

    def to_json(self) -> dict[str, Any]:
        """Plain data, from which `from_json` rebuilds an equal Spec."""
        return {
            "name": self.name,
            "tokens": self.tokens,
            "positions": self.positions,
            "variables": {
                name: {
                    **variable.kind.to_json(),
                    "by_token": variable.by_token,
                    "by_position": variable.by_position,
                    "default": variable.default,
                }
                for name, variable in self.variables.items()
            },
            "heads": {name: head.to_json() for name, head in self.heads.items()},
            "moves": {name: head.to_json() for name, head in self.moves.items()},
            "cycle": [[name, list(heads)] for name, heads in self.cycle],
            "output": self.output,
            "halt": self.halt,
            "layers": self.layers,
            "causal": self.causal,
            "stop": self.stop,
            "max_tokens": self.max_tokens,
        }

    @classmethod
    def from_json(cls, content: Any) -> Spec:
        """Rebuild a Spec from its `to_json`."""

        def table(entry: Any) -> tuple[int, ...] | None:
            return None if entry is None else tuple(int(index) for index in entry)

        variables = {
            name: VariableSpec(
                name, kind_from_json(v), table(v["by_token"]), table(v["by_position"]), int(v["default"])
            )
            for name, v in content["variables"].items()
        }
        heads, moves = (
            {name: HeadSpec.from_json(name, head) for name, head in content[part].items()}
            for part in ("heads", "moves")
        )
        cycle = tuple((str(name), tuple(map(str, names))) for name, names in content["cycle"])
        rest = {key: content[key] for key in ("output", "halt", "layers", "causal", "stop", "max_tokens")}
        return cls(
            content["name"],
            content["tokens"],
            content["positions"],
            variables,
            heads,
            moves=moves,
            cycle=cycle,
            **rest,
        )

    def check_input(self, tokens: Sequence[Any]) -> list[int]:
        """Convert an input to a list of ints, or raise an InputError that says what is wrong."""
        try:
            given = list(tokens)
        except TypeError:
            raise InputError(f"{self.name}: the input must be a list of tokens, not {tokens!r}") from None
        if not given:
            raise InputError(f"{self.name}: the input is empty; give at least one token")
        if self.positions is not None and len(given) > self.positions:
            raise InputError(
                f"{self.name}: the input has {len(given)} tokens; at most {self.positions} positions are declared"
            )
        for place, token in enumerate(given):
            whole = _as_int(token)
            if whole is None or not 0 <= whole < self.tokens:
                raise InputError(
                    f"{self.name}: token {token!r} at position {place} is outside the alphabet 0 … {self.tokens - 1}"
                )
        return [int(token) for token in given]


# --- the class that checks it all -----------------------------------------------------------------------


class _Body(dict[str, Any]):
    """A class body that rejects a second variable of the same name."""

    def __setitem__(self, name: str, value: Any) -> None:
        if isinstance(self.get(name), Variable | Head):
            raise ProgramError(f"'{name}' is declared twice; every variable and head has a name of its own")
        super().__setitem__(name, value)


class ProgramClass(type):
    """The metaclass of programs. It checks a program when its class is made, and adds `run`, `trace` and `spec`."""

    spec: Spec
    by_layer: tuple[ProgramClass | LayerProgram, ...]  # the program itself, or each layer of its cycle

    @classmethod
    def __prepare__(mcs, name: str, bases: tuple[type, ...], /, **options: Any) -> Any:
        return _Body()

    def __new__(mcs: type[C], name: str, bases: tuple[type, ...], body: dict[str, Any], *, abstract: bool = False) -> C:
        cls = super().__new__(mcs, name, bases, dict(body))
        if bases and not abstract:
            cls.spec = _specify(cls)
            cls.by_layer = tuple(LayerProgram(cls, *one) for one in zip(cls.spec.by_layer, _cycle(cls))) or (cls,)
            if "rules" in body and "step" not in body:
                from kleene.machines.written_rules import step_from_rules

                step, recorded = step_from_rules(cls.spec, cls.rules)  # type: ignore[attr-defined]
                type.__setattr__(cls, "_written", recorded)
                type.__setattr__(cls, "step", staticmethod(step))
        return cls

    def run(cls, tokens: Sequence[int], *, layers: int | None = None, max_layers: int = 10_000) -> Output:
        """Run the program on the interpreter. The result lists the output of each position and has `.layers`.

        - `layers`: run this many layers instead of until the program halts.
        - `max_layers`: raise `DidNotHalt` after this many layers.
        """
        from kleene.machines.interpreter import run

        return run(cls, tokens, layers=layers, max_layers=max_layers)

    def trace(cls, tokens: Sequence[int], *, layers: int | None = None, max_layers: int = 10_000) -> Trace:
        """Run the program on the interpreter and keep every variable, position and layer. Options as for `run`."""
        from kleene.machines.interpreter import trace

        return trace(cls, tokens, layers=layers, max_layers=max_layers)

    def __repr__(cls) -> str:
        return f"<program {cls.__name__}>"


class LayerProgram:
    """One layer of a program with a cycle, as a program of its own. Constants come from the whole program."""

    def __init__(self, program: ProgramClass, spec: Spec, declared: CycleLayer) -> None:
        self.program, self.spec, self.step = program, spec, declared.step

    def __getattr__(self, name: str) -> Any:
        return getattr(self.program, name)


class Program(metaclass=ProgramClass):
    """The base class of attention programs.

    >>> class Copy(Program):
    ...     tokens = 2
    ...     here = cat(2, token=lambda t: t)
    ...     left = relative(here, -1, default=0)
    ...     output = here
    ...     layers = 1
    ...     def step(z):
    ...         z.here = z.left
    >>> Copy.run([1, 0, 1])
    [0, 1, 0]
    """

    tokens: ClassVar[int]  # the size of the input alphabet
    output: ClassVar[Variable[int]]  # the variable that holds the result
    halt: ClassVar[Mapping[Variable[int], int]]  # the program is done when every position has these values
    positions: ClassVar[int | None]  # the longest input
    layers: ClassVar[int | None]  # how many layers to run, without `halt`
    causal: ClassVar[bool]  # whether heads see only positions to the left
    stop: ClassVar[int | None]  # of a decoder: the token after which it stops
    max_tokens: ClassVar[int | None]  # of a decoder: the most tokens to append
    cycle: ClassVar[Sequence[CycleLayer]]  # the layers that take turns, instead of one `step`

    if TYPE_CHECKING:

        def step(z) -> None: ...


def step_of(program: ProgramClass | LayerProgram) -> Callable[[Any], None]:
    """The `step` of a program, or of one layer of its cycle."""
    step: Callable[[Any], None] = program.step  # type: ignore[union-attr]
    return step


def _body(cls: ProgramClass) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if isinstance(base, ProgramClass):
            body |= vars(base)
    return body


def _cycle(cls: ProgramClass) -> tuple[CycleLayer, ...]:
    return tuple(_body(cls).get("cycle") or ())


def _specify(cls: ProgramClass) -> Spec:
    body, name = _body(cls), cls.__name__
    names: dict[int, str] = {}
    for attribute, thing in body.items():
        if attribute in RESERVED or not isinstance(thing, Variable | Head):
            continue
        if attribute.startswith("_"):
            raise ProgramError(f"{name}: the variable '{attribute}' must not start with an underscore")
        if hasattr(ProgramClass, attribute):
            raise ProgramError(f"{name}: a program has a '{attribute}' already; give the variable another name")
        if id(thing) in names:
            raise ProgramError(
                f"{name}: '{names[id(thing)]}' and '{attribute}' are one declaration; declare each variable by itself"
            )
        names[id(thing)] = attribute
    return _Checker(name, body, names).spec()


class _Checker:
    """Turn a class body into a `Spec`, or say which variable breaks which rule."""

    def __init__(self, name: str, body: dict[str, Any], names: dict[int, str]) -> None:
        self.name, self.body, self.names = name, body, names

    def fail(self, message: str) -> ProgramError:
        return ProgramError(f"{self.name}: {message}")

    def spec(self) -> Spec:
        tokens = self._whole("tokens", at_least=1)
        if tokens is None:
            raise self.fail("'tokens', the size of the input alphabet, is missing")
        if tokens > MAX_VALUES:
            raise self.fail(f"'tokens' is {tokens:,}, more than the {MAX_VALUES:,} allowed")
        steps = [name for name in ("step", "rules", "cycle") if self.body.get(name)]
        if not steps or (steps != ["cycle"] and not callable(self.body[steps[0]])):
            raise self.fail("'step' is missing: def step(z): … (or def rules(b): …, or cycle = (layer, …))")
        declared = {self.names[id(thing)]: thing for thing in self.body.values() if id(thing) in self.names}
        plain = {name: thing for name, thing in declared.items() if isinstance(thing, Variable)}
        positions = self._positions(plain)
        variables = {name: self._variable(name, thing, tokens, positions) for name, thing in plain.items()}
        every = {name: self._head(name, thing) for name, thing in declared.items() if isinstance(thing, Head)}
        heads = {name: head for name, head in every.items() if head.into is None}
        moves = {name: head for name, head in every.items() if head.into is not None}
        cycle = self._cycle(every) if steps == ["cycle"] else ()
        for names in [names for _, names in cycle] or [tuple(every)]:
            self._check_moves([moves[name] for name in names if name in moves], [every[name] for name in names])
        halt, layers = self._halt(plain), self._whole("layers", at_least=1)
        stop, max_tokens = self._whole("stop", at_least=0), self._whole("max_tokens", at_least=1)
        if not halt and layers is None:
            raise self.fail("say when the program ends: halt = {variable: value}, or layers = a number")
        if max_tokens is not None and (halt or layers is None):
            raise self.fail("a decoder (max_tokens) runs a fixed number of layers a token and has no halt")
        if max_tokens is not None and cycle:
            raise self.fail("a decoder (max_tokens) has one layer, not a cycle of them")
        causal = bool(self.body.get("causal", False)) or max_tokens is not None
        return Spec(
            self.name,
            tokens,
            positions,
            variables,
            heads,
            self._output(plain, tokens if max_tokens else None),
            halt,
            layers,
            causal,
            stop,
            max_tokens,
            moves,
            cycle,
        )

    def _cycle(self, heads: dict[str, HeadSpec]) -> tuple[tuple[str, tuple[str, ...]], ...]:
        declared = self.body["cycle"]
        names = {id(thing): name for name, thing in self.body.items() if isinstance(thing, CycleLayer)}
        if not isinstance(declared, tuple | list) or not all(isinstance(one, CycleLayer) for one in declared):
            raise self.fail(f"cycle must be a tuple of steps declared with @kl.layer(…), not {declared!r}")
        made = []
        for place, one in enumerate(declared):
            for head in one.heads:
                if id(head) not in self.names:
                    raise self.fail(f"layer {place + 1} of the cycle has a head that is not in this program")
            made.append((names.get(id(one), f"layer {place + 1}"), tuple(self.names[id(head)] for head in one.heads)))
        idle = heads.keys() - {name for _, used in made for name in used}
        if idle:
            raise self.fail(f"the head '{min(idle)}' is in no layer of the cycle")
        return tuple(made)

    def _check_moves(self, moves: list[HeadSpec], heads: list[HeadSpec]) -> None:
        """Reject two heads of a layer that write one variable, and heads that write where a head of the layer looks."""
        written: dict[str, str] = {}
        for head in moves:
            assert head.into is not None
            if head.into in written:
                raise self.fail(f"'{written[head.into]}' and '{head.name}' write into '{head.into}' in the same layer")
            written[head.into] = head.name
        for head in heads:
            for name, _ in (*head.where, *head.among):
                if name in written:
                    raise self.fail(
                        f"'{written[name]}' writes into '{name}', which limits '{head.name}' in the same layer"
                    )

    def _limits(self, head: str, side: str, given: Any) -> tuple[tuple[str, int], ...]:
        if given is None:
            return ()
        if not isinstance(given, dict) or not given:
            raise self.fail(f"the head '{head}': {side} must be {{variable: value}}, not {given!r}")
        limits = []
        for variable, value in given.items():
            name = self._named(head, side, variable)
            index = variable.kind.index(value)
            if index is None or not isinstance(variable.kind, Categorical):
                raise self.fail(f"the head '{head}': {side} asks for {value!r} in '{name}', not a value of a kl.cat")
            limits.append((name, index))
        return tuple(sorted(limits))

    def _into(self, name: str, head: Head[Any], kind: Kind) -> tuple[str | None, str | None]:
        """The variable that a head writes into, and the variable whose value it replaces."""
        if head.into is None:
            if head.replacing is not None:
                raise self.fail(f"the head '{name}' has replacing= without into=")
            return None, None
        into = self._named(name, "into", head.into)
        if isinstance(kind, Numerical) or head.into.kind != kind:
            raise self.fail(
                f"the head '{name}' cannot write a {kind.name} into '{into}' ({head.into.kind.name}); "
                "both must be of the same kind, and not averages"
            )
        if head.replacing is None:
            return into, None
        replaced = self._named(name, "replacing", head.replacing)
        if head.replacing is head.value:
            raise self.fail(f"the head '{name}' replaces '{replaced}' with itself")
        if head.replacing.kind != kind or head.default is not None:
            raise self.fail(f"the head '{name}': replacing= takes a variable of the kind of '{into}', and no default")
        return into, replaced

    def _whole(self, attribute: str, at_least: int) -> int | None:
        value = self.body.get(attribute)
        if value is None:
            return None
        whole = _as_int(value)
        if whole is None or whole < at_least:
            raise self.fail(f"'{attribute}' must be a whole number of at least {at_least}, not {value!r}")
        return whole

    def _initial(self, name: str, variable: Variable[Any], function: Callable[[int], Any], of: str, at: int) -> int:
        try:
            value = function(at)
        except Exception as error:
            raise self.fail(f"the initialiser of '{name}' raises {error!r} for {of} {at}") from None
        index = variable.kind.index(value)
        if index is None:
            raise self.fail(
                f"the initialiser of '{name}' gives {value!r} for {of} {at}, outside {variable.kind.describe()}"
            )
        return index

    def _positions(self, variables: dict[str, Variable[Any]]) -> int | None:
        declared = self._whole("positions", at_least=1)
        placed = {name: variable for name, variable in variables.items() if variable.position is not None}
        if placed and declared is not None and declared > MAX_VALUES:
            raise self.fail(f"'positions' is {declared:,}; with '{min(placed)}' at most {MAX_VALUES:,} are allowed")
        if declared is not None or not placed:
            return declared
        for place in range(MAX_DEFAULT_POSITIONS):
            for name, variable in placed.items():
                try:
                    assert variable.position is not None
                    self._initial(name, variable, variable.position, "position", place)
                except ProgramError:
                    if place == 0:
                        raise
                    return place
        return MAX_DEFAULT_POSITIONS

    def _variable(self, name: str, variable: Variable[Any], tokens: int, positions: int | None) -> VariableSpec:
        kind, by_token, by_position = variable.kind, None, None
        if variable.token is not None:
            by_token = tuple(self._initial(name, variable, variable.token, "token", t) for t in range(tokens))
        if variable.position is not None:
            assert positions is not None
            by_position = tuple(
                self._initial(name, variable, variable.position, "position", p) for p in range(positions)
            )
        if isinstance(kind, Word) and (by_token or by_position) and not any(by_token or by_position or ()):
            return VariableSpec(name, kind, None, None, 0)  # zero everywhere: weights cannot tell that from no table
        return VariableSpec(name, kind, by_token, by_position, self._default(name, kind, variable.default))

    def _default(self, name: str, kind: Kind, value: Any) -> int:
        if value is None:  # zero or the empty set where the kind has it, else its first value
            zero = kind.index(frozenset() if isinstance(kind, Subset) else 0)
            return 0 if zero is None else zero
        index = kind.index(value)
        if index is None:
            raise self.fail(f"the default {value!r} of '{name}' is outside {kind.describe()}")
        return index

    def _named(self, head: str, role: str, thing: Any) -> str:
        if isinstance(thing, Head):
            raise self.fail(
                f"the head '{head}' has the head '{self.names.get(id(thing), '?')}' as its {role}; "
                "heads of a layer run in parallel: copy it into a variable in step"
            )
        if not isinstance(thing, Variable) or id(thing) not in self.names:
            raise self.fail(f"the {role} of the head '{head}' is {thing!r}, not a variable of this program")
        return self.names[id(thing)]

    def _head(self, name: str, head: Head[Any]) -> HeadSpec:
        value = self._named(name, "value", head.value)
        query = key = None
        if (head.query is None) != (head.key is None):
            raise self.fail(f"the head '{name}' needs both a query and a key")
        if head.query is not None and head.key is not None:
            query, key = self._named(name, "query", head.query), self._named(name, "key", head.key)
            self._match(name, query, head.query.kind, key, head.key.kind)
        kind = head.output or head.value.kind
        if kind != head.value.kind and not (
            isinstance(kind, Numerical) and isinstance(head.value.kind, Numerical | Categorical)
        ):
            raise self.fail(
                f"the head '{name}' cannot turn its value '{value}' ({head.value.kind.name}) into a {kind.name}; "
                "output= may be kl.num(values=…) for a cat or num value"
            )
        if head.offsets is not None and not head.offsets:
            raise self.fail(f"the head '{name}' has no offsets; give at least one")
        default = None if head.default is None else self._default(name, kind, head.default)
        where, among = self._limits(name, "where", head.where), self._limits(name, "among", head.among)
        into, replaced = self._into(name, head, kind)
        return HeadSpec(name, query, key, value, head.offsets, default, kind, where, among, into, replaced)

    def _match(self, head: str, query: str, asked: Kind, key: str, held: Kind) -> None:
        if isinstance(asked, Word) and isinstance(held, Word):
            sizes = (asked.bits, held.bits)
        elif isinstance(asked, Categorical | Subset) and isinstance(held, Categorical):
            sizes = (asked.range, held.range)
        else:
            raise self.fail(
                f"the head '{head}' cannot match the query '{query}' ({asked.name}) with the key '{key}' "
                f"({held.name}); a query is a cat or subset with a cat key, or a word with a word key"
            )
        if sizes[0] != sizes[1]:
            raise self.fail(
                f"the head '{head}' matches the query '{query}' (range {sizes[0]}) with the key '{key}' "
                f"(range {sizes[1]}); the ranges must be equal"
            )

    def _output(self, variables: dict[str, Variable[Any]], tokens: int | None) -> str:
        output = self.body.get("output")
        name = self.names.get(id(output))
        if output is None:
            raise self.fail("'output', the variable that is the result, is missing")
        if name not in variables:
            raise self.fail("'output' must be one of this program's variables (a head's value: copy it in step)")
        kind = variables[name].kind
        if not isinstance(kind, Categorical | Word):
            raise self.fail(f"the output '{name}' is a {kind.name}; it must be categorical (kl.cat)")
        if tokens is not None and len(kind) > tokens:
            raise self.fail(f"the output '{name}' of a decoder has {len(kind)} values, more than the {tokens} tokens")
        return name

    def _halt(self, variables: dict[str, Variable[Any]]) -> dict[str, int]:
        halt = self.body.get("halt") or {}
        if not isinstance(halt, dict):
            raise self.fail(f"halt must be {{variable: value}}, not {halt!r}")
        result = {}
        for variable, value in halt.items():
            name = self.names.get(id(variable))
            if name not in variables:
                raise self.fail(f"halt names {variable!r}, which is not a variable of this program")
            index = variables[name].kind.index(value)
            if index is None or not isinstance(variables[name].kind, Categorical):
                raise self.fail(f"halt waits for {value!r} in '{name}'; it must be a value of a categorical variable")
            result[name] = index
        return result
