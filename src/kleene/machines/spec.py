"""A program as plain data: its variables, its heads, and when it ends. Everything but `step`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from kleene.common.text import Text, encode_text
from kleene.common.tokens import Tokens, as_int, check_tokens, list_of_inputs, read_tokens
from kleene.errors import InputError, KleeneError, NotSupported
from kleene.machines.bitwords import part_of_name, word_of_name
from kleene.machines.kinds import Kind, Numerical, Word, kind_from_json


def inside(kind: Kind, outside: str | None, value: Any) -> Any:
    """A whole number as a variable that saturates or wraps takes it; anything else unchanged."""
    whole = as_int(value) if outside is not None else None
    if whole is None:
        return value
    return whole % len(kind) if outside == "wrap" else min(max(whole, 0), len(kind) - 1)


PREFERENCES = ("latest", "earliest", "nearest")


@dataclass(frozen=True)
class VariableSpec:
    """A variable by name. Its initial values are indices into `kind.values`."""

    name: str
    kind: Kind
    by_token: tuple[int, ...] | None
    by_position: tuple[int, ...] | Counting | None
    default: int
    outside: str | None = field(default=None, compare=False)  # what a number outside becomes when it is written

    def write(self, value: Any) -> int | None:
        """The index of what the variable holds after this value is written; None where it cannot hold it."""
        return self.kind.index(inside(self.kind, self.outside, value))

    def initial(self, token: int, position: int) -> int:
        """The index of the initial value."""
        if self.by_token is not None:
            return self.by_token[token]
        if self.by_position is not None:
            return self.by_position[position]
        return self.default


def _places_to_json(places: tuple[int, ...] | Counting | None) -> Any:
    if isinstance(places, Counting):
        return {"offset": places.offset, "bits": places.bits, "length": places.length}
    return places


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
    prefer: str | None = None  # one of PREFERENCES: which of several matching positions it selects
    counts: bool = False  # whether it counts the n positions that it selects; its output is then −1 / (1 + n)

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
            "prefer": self.prefer,
            "counts": self.counts,
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
            content.get("prefer"),  # files of older versions lack it
            bool(content.get("counts", False)),
        )

    @property
    def plain(self) -> bool:
        """Whether it looks at every position that matches: no conditions, no preference, no counting."""
        return not self.where and not self.among and self.prefer is None and not self.counts

    @property
    def selection(self) -> tuple[Any, ...]:
        """What decides which positions it selects: heads with equal selections select alike."""
        return self.query, self.key, self.offsets, self.where, self.among, self.prefer, self.counts

    def allows(self, offset: int) -> bool:
        return self.offsets is None or offset in self.offsets

    @property
    def read_values(self) -> Sequence[Any]:
        """What `step` reads for each value of the output: the value itself, or the number that the head counted."""
        return range(len(self.kind)) if self.counts else self.kind.values

    def rank(self, offset: int) -> int:
        """The rank of the position at an offset. A head with a preference selects the highest rank."""
        if self.prefer == "nearest":  # of two equally near positions, the left one
            return -2 * abs(offset) - (offset > 0)
        return -offset if self.prefer == "earliest" else offset


@dataclass(frozen=True)
class ClearSpec:
    """Variables that become zero before `step`, at the positions with the values of `where`."""

    name: str
    variables: tuple[str, ...]
    where: tuple[tuple[str, int], ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"variables": list(self.variables), "where": [list(pair) for pair in self.where]}

    @classmethod
    def from_json(cls, name: str, content: Any) -> ClearSpec:
        where = tuple((str(n), int(i)) for n, i in content["where"])
        return cls(name, tuple(map(str, content["variables"])), where)


@dataclass(frozen=True)
class Counting:
    """Positions counted in binary: position p holds (p + offset) mod 2**bits. Nothing is stored."""

    offset: int
    bits: int
    length: int

    def __getitem__(self, position: int) -> int:
        if not 0 <= position < self.length:
            raise IndexError(position)
        return (position + self.offset) % (1 << self.bits)

    def __len__(self) -> int:
        return self.length

    @property
    def distinct(self) -> bool:
        return self.length <= 1 << self.bits


class Kinds(dict[str, Kind]):
    """Kinds by name. A part of a word is a word; it is not listed."""

    def __missing__(self, name: str) -> Kind:
        found = part_of_name(name)
        if found is None or not isinstance(self.get(found[0]), Word):
            raise KeyError(name)
        return Word(found[2] - found[1])


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
    cycle: tuple[tuple[str, tuple[str, ...]], ...] = ()  # (layer, names of its heads, moves and clears)
    clears: dict[str, ClearSpec] = field(default_factory=dict)
    text: Text | None = field(default=None, compare=False)  # how text becomes tokens
    encoder: Callable[[str], Sequence[int]] | None = field(default=None, compare=False, repr=False)  # the program's own
    decoder: Callable[[Sequence[int]], Any] | None = field(default=None, compare=False, repr=False)
    kinds: dict[str, Kind] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        kinds = {name: variable.kind for name, variable in self.variables.items()}
        kinds |= {name: head.kind for name, head in self.heads.items()}
        object.__setattr__(self, "kinds", Kinds(kinds))

    @property
    def parts(self) -> list[str]:
        """The parts of words that heads use."""
        every = [*self.heads.values(), *self.moves.values()]
        named = [name for head in every for name in (head.query, head.key, head.value, head.into, head.replacing)]
        named += [name for head in every for name, _ in (*head.where, *head.among)]
        return [name for name in named if name is not None and part_of_name(name)]

    def refuse_parts(self, what: str) -> None:
        """Raise `NotSupported` where heads use parts of words; `what` does not know them."""
        if self.parts:
            raise NotSupported(f"{self.name}: {what} does not know heads on parts of words ('{self.parts[0]}')")

    def cleared(self, written: Iterable[str] = ()) -> dict[str, tuple[tuple[str, int], ...]]:
        """Variables that a layer's heads clear → the values that say where, as a step of the layer sees them.
        Leave out what an earlier step has `written`, and variables for which a head or that step may change these."""
        moved = {word_of_name(head.into) for head in self.moves.values() if head.into is not None}
        changed = {*written, *moved, *(name for clear in self.clears.values() for name in clear.variables)}
        kept = [c for c in self.clears.values() if changed.isdisjoint(word_of_name(name) for name, _ in c.where)]
        return {name: clear.where for clear in kept for name in clear.variables if name not in {*written}}

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
                clears={name: clear for name, clear in self.clears.items() if name in names},
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
                    "by_position": _places_to_json(variable.by_position),
                    "default": variable.default,
                }
                for name, variable in self.variables.items()
            },
            "heads": {name: head.to_json() for name, head in self.heads.items()},
            "moves": {name: head.to_json() for name, head in self.moves.items()},
            "cycle": [[name, list(heads)] for name, heads in self.cycle],
            **({"clears": {name: clear.to_json() for name, clear in self.clears.items()}} if self.clears else {}),
            "output": self.output,
            "halt": self.halt,
            "layers": self.layers,
            "causal": self.causal,
            "stop": self.stop,
            "max_tokens": self.max_tokens,
            **({} if self.text is None else {"text": self.text.to_json()}),
        }

    @classmethod
    def from_json(cls, content: Any) -> Spec:
        """Rebuild a Spec from its `to_json`."""

        def table(entry: Any) -> tuple[int, ...] | None:
            return None if entry is None else tuple(int(index) for index in entry)

        def places(entry: Any) -> tuple[int, ...] | Counting | None:
            if isinstance(entry, dict):
                return Counting(int(entry["offset"]), int(entry["bits"]), int(entry["length"]))
            return table(entry)

        variables = {
            name: VariableSpec(
                name, kind_from_json(v), table(v["by_token"]), places(v["by_position"]), int(v["default"])
            )
            for name, v in content["variables"].items()
        }
        heads, moves = (
            {name: HeadSpec.from_json(name, head) for name, head in content[part].items()}
            for part in ("heads", "moves")
        )
        cycle = tuple((str(name), tuple(map(str, names))) for name, names in content["cycle"])
        clears = {name: ClearSpec.from_json(name, clear) for name, clear in content.get("clears", {}).items()}
        rest = {key: content[key] for key in ("output", "halt", "layers", "causal", "stop", "max_tokens")}
        return cls(
            content["name"],
            content["tokens"],
            content["positions"],
            variables,
            heads,
            moves=moves,
            cycle=cycle,
            clears=clears,
            text=Text.from_json(content["text"]) if "text" in content else None,
            **rest,
        )

    def encode(self, text: str) -> list[int]:
        """The tokens of a text: by the program's own `encode`, or by its alphabet."""
        if self.encoder is not None:
            try:
                return list(self.encoder(text))
            except KleeneError:
                raise
            except Exception as error:
                said = f"encode raises {type(error).__name__}: {error} for the input '{text}'"
                raise InputError(f"{self.name}: {said}") from None
        return encode_text(self.text, text, self.name)

    def answer(self, outputs: Sequence[int]) -> str | None:
        """The text of outputs: by the program's own `decode`, or by its `text`; None if it has neither, or it fails."""
        if self.decoder is not None:
            try:
                made = self.decoder(outputs)
            except Exception:  # `encode` would not make an input with these outputs
                return None
            return made if isinstance(made, str) else " ".join(map(str, made))
        return None if self.text is None else self.text.decode(outputs)

    def read_input(self, given: Tokens) -> list[Any]:
        """The tokens of an input, tokens or text, not yet checked."""
        return read_tokens(given, self.name, self.text, self.encode)

    def check_input(self, given: Tokens) -> list[int]:
        """Convert an input, tokens or text, to a list of ints, or raise an InputError that says what is wrong."""
        return check_tokens(self.read_input(given), self.name, self.tokens, self.positions)

    def check_inputs(self, inputs: Iterable[Tokens]) -> list[list[int]]:
        """Convert several inputs to lists of ints."""
        return [self.check_input(given) for given in list_of_inputs(inputs, self.name)]


def second_spec(spec: Spec) -> Spec:
    """The program as the second step of a layer sees it: no heads."""
    return replace(spec, heads={}, moves={})
