"""An independent checker: proves from the tensors of a saved transformer that it computes its guarded updates.

    python -m kleene.checker DIR [--dtype float32] [--json]

It imports the standard library, NumPy and safetensors, and nothing else of Kleene. Its input is a saved folder:
weights.safetensors, and kleene.json with `config` (shapes), `description.layout` (a claim: which residual dimension
codes what) and the program as data, `description.program` (declarations) and `description.updates` (guarded updates).
Claims are proved from the numbers or refused. docs/proved.md states every lemma and what the whole rests on.

What the walks over the MLP block consume (`Block`, `Cases`): a unit is a row of whole weights and a bias,
on(x) = clip(w·x + b, 0, 1), and a column that it adds. An *atom* is anything with finitely many values in the residual
stream between attention and the second half: a one-hot variable or head, a bit of a word, a numerical head's bucket
(thermometer), a comparison of words. `tables[atom][unit, value]` is what a value adds to a unit's sum, so that a
unit's sum is its bias plus one entry of each of its tables. A head has one value more, its last: undefined.
"""

from __future__ import annotations

import json
import re
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import ceil, floor, gcd, lcm, log2, prod
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import deserialize

Array = np.ndarray[Any, Any]
Atom = Any  # the name of a variable, head or comparison; (name, bit) of a word
Domain = dict[Atom, tuple[int, ...]]  # the values that are still possible

MAX_STATES = 20_000_000  # of a joint enumeration of forms
LARGEST = 1 << 62  # of what is added up in 64 bits
MAX_CASES = 300_000  # of one variable
FEW_BITS = 16  # of a test that is decided bit by bit
MOST_SUMS = 1 << 12  # of a test that a read guard is split by


class Refused(Exception):
    """Something that the certificate needs could not be shown."""


@dataclass(frozen=True)
class Format:
    """A number format: bits of precision, exponents of the first number that overflows and of the smallest one."""

    name: str
    precision: int
    overflow: int
    smallest: int

    @property
    def whole(self) -> int:
        """Whole numbers up to this size are exact, in any order of summation."""
        return 1 << min(self.precision, 52)  # 2^52: our own bounds are float64 sums

    @property
    def gap(self) -> int:
        """exp(−gap) is zero: less than half of the smallest number, with a margin of e."""
        return ceil((1 - self.smallest) * 0.6931471805599453) + 1

    def holds(self, values: Array) -> Array:
        """Which values the format holds exactly."""
        mantissa, exponent = np.frexp(values)
        fits = np.ldexp(mantissa, self.precision) == np.rint(np.ldexp(mantissa, self.precision))
        low = exponent - self.precision < self.smallest
        small = np.ldexp(mantissa, np.where(low, exponent - self.smallest, 0))
        held: Array = fits & (exponent <= self.overflow) & (~low | (small == np.rint(small))) | (values == 0)
        return held


FORMATS = {
    f.name: f
    for f in (
        Format("float64", 53, 1024, -1074),
        Format("float32", 24, 128, -149),
        Format("bfloat16", 8, 128, -133),
        Format("float16", 11, 16, -24),
    )
}


# === the folder ===========================================================================================

TENSOR_TYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": np.uint16}


@dataclass(frozen=True)
class Saved:
    """What the checker is given: kleene.json, the tensors in float64, and what each block says of itself."""

    content: Any
    tensors: dict[str, Array]
    attributes: Any = None  # per block: heads, causal, window; None: as the config says


def read_folder(folder: str | Path) -> Saved:
    """A saved transformer, its tensors decoded from their bytes."""
    content = read_json(Path(folder) / "kleene.json")
    need(content["kind"] == "transformer", f"it holds a {content['kind']!r}, no transformer; try `kleene certify`")
    return Saved(content, read_tensors(Path(folder) / "weights.safetensors"))


def read_json(path: Path) -> Any:
    """The content of a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=single_keys)


def read_tensors(path: Path) -> dict[str, Array]:
    """The tensors of a file, in float64."""
    tensors = {}
    raw_tensors: Any = deserialize  # it has no types
    for name, entry in raw_tensors(path.read_bytes()):
        need(entry["dtype"] in TENSOR_TYPES, f"the tensor '{name}' has the type {entry['dtype']}")
        raw = np.frombuffer(bytes(entry["data"]), dtype=TENSOR_TYPES[entry["dtype"]]).reshape(entry["shape"])
        raw = (raw.astype(np.uint32) << 16).view(np.float32) if entry["dtype"] == "BF16" else raw
        tensors[name] = raw.astype(np.float64)
    return tensors


def single_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON in which every key appears once: readers disagree on which of two counts."""
    found = dict(pairs)
    need(len(found) == len(pairs), "an object of a JSON file has a key twice")
    return found


def need(condition: Any, message: str) -> None:
    """Refuse where a condition does not hold."""
    if not condition:
        raise Refused(message)


def integer(value: Any, low: int | None = None, high: int | None = None, what: str = "a number") -> int:
    """A whole number of JSON between two ends; neither true nor 1.0 is one."""
    need(type(value) is int, f"{what} is {value!r}, not a whole number")
    need((low is None or value >= low) and (high is None or value <= high), f"{what} is {value}, out of range")
    return int(value)


def rational(value: Any) -> Fraction:
    """An exact number of JSON: a whole number, or text such as "1/2"."""
    exact = type(value) is int or (isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,40}(/[0-9]{1,40})?", value))
    need(exact, f"{str(value)[:40]!r} is not an exact number")
    return Fraction(value)


# === the program as data ==================================================================================


@dataclass(frozen=True)
class Kind:
    """What a variable can hold. `size`: dimensions (bits of a word); `count`: values."""

    name: str
    size: int
    values: Any  # numbers, sets, or None for a word

    @property
    def count(self) -> int:
        return 1 << self.size if self.name == "word" else self.size

    def codes(self, indices: Sequence[int]) -> Array:
        """Values in the residual stream, a row each."""
        rows = np.zeros((len(indices), self.size))
        for row, index in enumerate(indices):
            if self.name == "word":
                rows[row] = [index >> bit & 1 for bit in range(self.size)]
            else:
                rows[row, index] = 1
        return rows


def read_kind(content: Any) -> Kind:
    name = content["kind"]
    if name == "cat":
        size = integer(content["range"], 1, 1 << 22, "a range")
        return Kind("cat", size, range(size))
    if name == "num":
        values = tuple(rational(value) for value in content["values"])
        need(values and all(a < b for a, b in pairwise(values)), "declared numbers are not ascending")
        return Kind("num", len(values), values)
    if name == "subset":
        limit = integer(content["range"], 0, 1 << 22, "a range") - 1
        sets = tuple(frozenset(integer(m, 0, limit, "a member") for m in members) for members in content["values"])
        need(sets and len(set(sets)) == len(sets), "declared sets are not different")
        return Kind("subset", len(sets), sets)
    need(name == "word", f"there is no kind {name!r}")
    return Kind("word", integer(content["bits"], 1, 64, "bits"), None)


@dataclass(frozen=True)
class Head:
    """A head of the program: what it selects, and what it gives."""

    name: str
    query: str | None
    key: str | None
    value: str
    offsets: frozenset[int] | None
    default: int | None
    kind: Kind
    where: tuple[tuple[str, int], ...]
    among: tuple[tuple[str, int], ...]
    into: str | None
    replacing: str | None
    prefer: str | None  # which of several matching positions it selects: see rank_of
    counts: bool  # whether it gives −1 / (1 + n), n positions being selected

    @property
    def selection(self) -> Any:
        return self.query, self.key, self.offsets, self.where, self.among, self.prefer, self.counts


@dataclass(frozen=True)
class Form:
    """constant + Σ table[value of an atom], in whole numbers; `scale` made them whole."""

    constant: int
    tables: dict[Atom, tuple[int, ...]]
    scale: int


BIT = re.compile(r"(.+)\[(\d+)\]")
PART = re.compile(r"(.+)\[(\d+):(\d+)\]")


def atom_of(name: str) -> Atom:
    """What a name in a form or a sum means: "w[3]" is bit 3 of the word w."""
    found = BIT.fullmatch(name)
    return (found[1], int(found[2])) if found else name


def part_of(name: str) -> tuple[str, int, int] | None:
    """The word and the bits that a name such as "w[3]" or "w[0:4]" means; None for another name."""
    bit, part = BIT.fullmatch(name), PART.fullmatch(name)
    if bit is not None:
        return bit[1], int(bit[2]), int(bit[2]) + 1
    return None if part is None else (part[1], int(part[2]), int(part[3]))


def base_of(name: str | None) -> str | None:
    """The word that a name is a part of, or the name itself."""
    found = None if name is None else part_of(name)
    return name if found is None else found[0]


def sizes_of(kinds: dict[str, Kind]) -> dict[Atom, int]:
    """Every atom of variables and heads, of a word its bits, with its number of values."""
    found: dict[Atom, int] = {}
    for name, kind in kinds.items():
        found |= {(name, bit): 2 for bit in range(kind.size)} if kind.name == "word" else {name: kind.size}
    return found


def names_of(atoms: Iterable[Atom]) -> set[str]:
    """The variables, heads and comparisons whose atoms these are."""
    return {atom[0] if isinstance(atom, tuple) else atom for atom in atoms}


class Kinds(dict[str, Kind]):
    """Kinds by name; a part of a word is a word."""

    def __missing__(self, name: str) -> Kind:
        word, start, stop = part_of(name) or (name, 0, 0)
        kind = self.get(word)
        need(kind is not None and kind.name == "word" and 0 <= start < stop <= kind.size, f"there is no '{name}'")
        return Kind("word", stop - start, None)


@dataclass(frozen=True)
class Test:
    """The form has one of these values."""

    form: Form
    allowed: frozenset[int]

    @property
    def single(self) -> Atom | None:
        return next(iter(self.form.tables)) if len(self.form.tables) == 1 else None

    @cached_property
    def indices(self) -> frozenset[int]:
        """Of a test on one atom: its values that pass."""
        (table,) = self.form.tables.values()
        return frozenset(i for i, entry in enumerate(table) if self.form.constant + entry in self.allowed)

    def __hash__(self) -> int:
        return id(self)


@dataclass(frozen=True, eq=False)
class Update:
    """Where all tests hold, the variable becomes table[form], or (of words) a sum of words."""

    variable: str
    guard: tuple[Test, ...]
    form: Form | None = None
    table: dict[int, int] = field(default_factory=dict)
    terms: dict[Atom, int] = field(default_factory=dict)  # bit → what it adds
    constant: int = 0
    modulus: int | None = None
    functions: tuple[tuple[tuple[Atom, ...], int], ...] | None = None  # of a word: each bit a table of a few bits
    reads: str | None = None  # a reading: it changes nothing, but raises where this head is undefined

    @cached_property
    def mentions(self) -> frozenset[Atom]:
        """Every atom that it depends on, and the head that it reads."""
        bits = (atom for atoms, _ in self.functions or () for atom in atoms)
        names: set[Atom] = {
            *bits,
            *self.terms,
            *(self.form.tables if self.form else ()),
            *([self.reads] if self.reads else ()),
        }
        return frozenset(names.union(*(test.form.tables for test in self.guard)))


@dataclass(frozen=True)
class Layer:
    """One layer of the program's cycle: heads that are read, heads that write into variables, and updates."""

    heads: dict[str, Head]
    moves: dict[str, Head]
    updates: tuple[Update, ...]
    reads: tuple[tuple[str, tuple[Test, ...]], ...]
    predicates: dict[str, tuple[dict[Atom, int], str, int]]  # name → (what each bit adds, relation, threshold)
    described: Any
    clears: dict[str, tuple[tuple[str, int], ...]]  # variable → where heads clear it, before the updates
    second: tuple[Update, ...] | None  # of a layer with two steps: what the second one does, in the second half


class Program:
    """The program as data, read strictly: names are declared, indices in range, kinds fit."""

    def __init__(self, description: Any) -> None:
        data = description["program"]
        self.name, self.data = data["name"], data
        self.tokens = integer(data["tokens"], 1, what="tokens")
        self.positions = None if data["positions"] is None else integer(data["positions"], 1, what="positions")
        need(data["stop"] is None or integer(data["stop"], 0, self.tokens - 1, "the stop token") >= 0, "no stop token")
        self.kinds = Kinds({name: read_kind(v) for name, v in data["variables"].items()})
        self.variables = dict(self.kinds)
        heads = {name: self._head(name, head) for name, head in data["heads"].items()}
        moves = {name: self._head(name, head) for name, head in data["moves"].items()}
        named = [*self.kinds, *heads, *moves]
        need(len({*named}) == len(named), "a name is used twice")
        need(all(part_of(name) is None for name in named), "a name is that of a part of a word")
        need(all(h.into is None and h.replacing is None for h in heads.values()), "a head that is read writes")
        need(all(h.into is not None for h in moves.values()), "a head among the moves writes into nothing")
        self.kinds.update({name: head.kind for name, head in heads.items()})
        self.output, self.halt = data["output"], data["halt"]
        need(self._variable(self.output).name in ("cat", "word"), "the output is neither a cat nor a word")
        for name, index in self.halt.items():
            need(self._variable(name).name == "cat", f"halt waits for '{name}', which is no cat")
            integer(index, 0, self.kinds[name].size - 1, "a halt value")
        clears = {name: self._clear(name, clear) for name, clear in data.get("clears", {}).items()}
        need(not {*clears} & {*self.kinds, *heads, *moves}, "a name is used twice")
        self.layers = self._layers(description, heads, moves, clears)

    def _layers(
        self, description: Any, heads: dict[str, Head], moves: dict[str, Head], clears: dict[str, Any]
    ) -> list[Layer]:
        """The layers of the cycle, or the one layer of a program without a cycle."""
        cycle = self.data["cycle"]
        need(("cycle" in description) == bool(cycle), "the layers that are described are not the program's")
        parts = description["cycle"] if cycle else [description]
        need(len(parts) == max(1, len(cycle)), "the cycle has another number of layers than are described")
        layers = []
        for place, part in enumerate(parts):
            names = {*cycle[place][1]} if cycle else {*heads, *moves}
            need(names <= {*heads, *moves, *clears}, "the cycle names a head that there is not")
            here = {n: h for n, h in heads.items() if n in names}, {n: h for n, h in moves.items() if n in names}
            layers.append(self._layer(*here, self._cleared([clears[n] for n in clears if n in names]), part))
        return layers

    def _variable(self, name: Any) -> Kind:
        need(isinstance(name, str) and name in self.variables, f"there is no variable {name!r}")
        return self.variables[name]

    def _part(self, name: Any) -> Kind:
        """The kind of a variable, or of a part of a word."""
        need(isinstance(name, str) and base_of(name) in self.variables, f"there is no variable {name!r}")
        return self.kinds[name]

    def initial(self, name: str) -> tuple[str, list[int]]:
        """What a variable's first value depends on ("token", "position" or "nothing"), and its values."""
        entry, kind = self.data["variables"][name], self.variables[name]
        last = kind.count - 1
        need(entry["by_token"] is None or entry["by_position"] is None, f"'{name}' starts in two ways")
        integer(entry["default"], 0, last, "a first value")
        if entry["by_token"] is not None:
            need(len(entry["by_token"]) == self.tokens, f"'{name}' does not start from every token")
            return "token", [integer(i, 0, last, "a first value") for i in entry["by_token"]]
        if isinstance(entry["by_position"], dict):
            counted = entry["by_position"]
            need(kind.name == "word" and counted["bits"] == kind.size, f"'{name}' counts in other bits than it has")
            need(counted["length"] == self.positions, f"'{name}' does not count every position")
            return "counted", [integer(counted["offset"], 0, last, "an offset")]
        if entry["by_position"] is not None:
            need(len(entry["by_position"]) == self.positions, f"'{name}' does not start from every position")
            return "position", [integer(i, 0, last, "a first value") for i in entry["by_position"]]
        return "nothing", [integer(entry["default"], 0, last, "a first value")]

    def _clear(self, name: str, data: Any) -> tuple[tuple[str, ...], tuple[tuple[str, int], ...]]:
        for variable in data["variables"]:
            need(self._variable(variable).name in ("cat", "word"), f"'{name}' clears '{variable}', no cat and no word")
        return tuple(data["variables"]), self._limits(name, data["where"])

    def _cleared(self, clears: list[Any]) -> dict[str, tuple[tuple[str, int], ...]]:
        """Variable → where a layer clears it; each variable once."""
        made = {variable: where for variables, where in clears for variable in variables}
        need(len(made) == sum(len(variables) for variables, _ in clears), "a layer clears a variable twice")
        return made

    def _head(self, name: str, data: Any) -> Head:
        kind, value = read_kind(data), self._part(data["value"])
        need((data["query"] is None) == (data["key"] is None), f"the head '{name}' has a query or a key alone")
        if data["query"] is not None:
            fit = self._fit(self._part(data["query"]), self._part(data["key"]))
            need(fit, f"the head '{name}' matches kinds that do not fit")
        wider = kind.name == value.name == "cat" and kind.size > value.size and data["default"] == kind.size - 1
        need(kind == value or kind.name == "num" or wider, f"the head '{name}' gives another kind than its value's")
        averages = value.name in ("num", "cat") or data.get("counts", False) is True
        need(kind.name != "num" or averages, f"the head '{name}' cannot average its value")
        offsets = None if data["offsets"] is None else frozenset(integer(o, what="an offset") for o in data["offsets"])
        where, among = self._limits(name, data["where"]), self._limits(name, data["among"])
        for target in (data["into"], data["replacing"]):
            need(target is None or self._part(target) == kind, f"the head '{name}' writes another kind")
        need(data["into"] is None or kind.name != "num", f"the head '{name}' writes averages into a variable")
        default = None if data["default"] is None else integer(data["default"], 0, kind.count - 1, "a default")
        need(data["replacing"] is None or default is None, f"the head '{name}' replaces, and has a default")
        prefer = data.get("prefer")
        need(prefer is None or prefer in PREFERENCES, f"the head '{name}' prefers {prefer!r}")
        ends, target = (data["query"], data["key"], data["value"]), (data["into"], data["replacing"])
        return Head(name, *ends, offsets, default, kind, where, among, *target, prefer, self._counts(name, data, kind))

    def _counts(self, name: str, data: Any, kind: Kind) -> bool:
        """Whether a head counts; then its values are −1, −1/2, −1/3 and so on, and its default is the first."""
        counts: bool = data.get("counts", False)
        need(type(counts) is bool, f"the head '{name}' does not say whether it counts")
        if counts:
            right = kind.name == "num" and list(kind.values) == [Fraction(-1, 1 + n) for n in range(kind.size)]
            need(right and data["default"] == 0, f"the head '{name}' counts, and gives other numbers")
            need(data["into"] is None and data.get("prefer") is None, f"the head '{name}' counts, and does more")
        return counts

    def _fit(self, asked: Kind, held: Kind) -> bool:
        """Whether a query of one kind can be matched with a key of the other."""
        if asked.name == held.name and asked.name in ("word", "cat"):
            return asked.size == held.size
        return held.name == "cat" and asked.name == "subset" and all(m < held.size for s in asked.values for m in s)

    def _limits(self, name: str, listed: Any) -> tuple[tuple[str, int], ...]:
        """The values that a head asks of variables, at one of its two ends."""
        pairs = tuple((n, integer(i, 0, max(1, self._part(n).size - 1), "a limit")) for n, i in listed)
        for n, i in pairs:
            kind = self.kinds[n]
            bit = kind.name == "word" and kind.size == i == 1 and n not in self.variables
            need(bit or (kind.name == "cat" and i < kind.size), f"the head '{name}' is limited by no cat and no bit")
        need(len({n for n, _ in pairs}) == len(pairs), f"the head '{name}' is limited twice by a variable")
        return pairs

    def _layer(self, heads: dict[str, Head], moves: dict[str, Head], clears: Any, part: Any) -> Layer:
        data = part["updates"]
        need(
            not {*clears} & {base_of(move.into) for move in moves.values()},
            "a layer clears a variable that a head writes",
        )
        updates, reads, predicates = self._step(data, heads)
        second = None
        if "second" in data:
            second, read, compared = self._step(data["second"], {})
            need(not heads and not reads and not read, "a layer with two steps reads heads")
            need(not predicates and not compared, "a layer with two steps compares words")
        return Layer(heads, moves, updates, reads, predicates, part, clears, second)

    def _step(self, data: Any, heads: dict[str, Head]) -> tuple[tuple[Update, ...], Any, Any]:
        """The updates of one step, where it reads heads, and its comparisons."""
        known = Kinds(self.variables | {name: head.kind for name, head in heads.items()})
        predicates = self._predicates(data["predicates"], known)
        sizes = sizes_of(known) | dict.fromkeys(predicates, 2)
        forms = [self._form(constant, terms, sizes) for constant, terms in data["forms"]]
        updates = [self._table_update(entry, forms) for entry in data["updates"]]
        updates += [self._word_update(entry, forms, known) for entry in data["words"]]
        reads = tuple((entry["head"], self._tests(entry["guard"], forms)) for entry in data["reads"])
        need(all(name in heads for name, _ in reads), "a read names a head that its layer does not have")
        return tuple(updates), reads, predicates

    def _predicates(self, listed: Any, known: Kinds) -> dict[str, tuple[dict[Atom, int], str, int]]:
        """The comparisons of words, by the names that forms call them."""
        predicates = {}
        for terms, relation, threshold in listed:
            need(relation in ("≥", "="), f"there is no relation {relation!r}")
            shown = " ".join(f"{'−' if c < 0 else '+'} {n if abs(c) == 1 else f'{abs(c)}·{n}'}" for n, c in terms)
            name = f"[{shown.removeprefix('+ ') or '0'} {relation} {threshold}]"
            need(name not in self.kinds, f"a comparison has the name of a variable, {name}")
            predicates[name] = (self._terms(terms, known), relation, integer(threshold, what="a threshold"))
        return predicates

    def _form(self, constant: Any, terms: Any, sizes: dict[Atom, int]) -> Form:
        for name, table in terms.items():
            need(len(table) == sizes.get(atom_of(name)), f"a form has no table of '{name}'")
        numbers = [rational(constant), *(rational(v) for table in terms.values() for v in table)]
        scale = lcm(*(number.denominator for number in numbers))
        need(sum(map(abs, numbers)) * scale < LARGEST, "a form has numbers that are too large")
        tables = {atom_of(name): tuple(int(rational(v) * scale) for v in table) for name, table in terms.items()}
        need(len(tables) == len(terms), "a form names a bit twice")
        return Form(int(rational(constant) * scale), {n: t for n, t in tables.items() if any(t)}, scale)

    def _tests(self, listed: Any, forms: list[Form]) -> tuple[Test, ...]:
        made = []
        for number, allowed in listed:
            form = forms[integer(number, 0, len(forms) - 1, "a form")]
            scaled = (rational(v) * form.scale for v in allowed)
            found = frozenset(int(v) for v in scaled if v.denominator == 1 and abs(v) < LARGEST)  # no form is larger
            made.append(Test(form, found))
        return tuple(made)

    def _table_update(self, entry: Any, forms: list[Form]) -> Update:
        kind = self._variable(entry["variable"])
        need(kind.name != "word", f"'{entry['variable']}' is a word, and is updated from a table")
        form = forms[integer(entry["form"], 0, len(forms) - 1, "a form")]
        table = {rational(v) * form.scale: integer(i, 0, kind.size - 1, "a result") for v, i in entry["table"]}
        known = {int(v): i for v, i in table.items() if v.denominator == 1}
        return Update(entry["variable"], self._tests(entry["guard"], forms), form, known)

    def _word_update(self, entry: Any, forms: list[Form], known: Kinds) -> Update:
        kind, modulus = self._variable(entry["variable"]), entry["modulus"]
        need(kind.name == "word", f"'{entry['variable']}' is no word, and is updated as one")
        if modulus is not None:
            integer(modulus, 1, kind.count, "a modulus")
            need(modulus & (modulus - 1) == 0, f"the modulus {modulus} is no power of two")
        constant, terms = integer(entry["constant"], what="a constant"), self._terms(entry["terms"], known)
        guard = self._tests(entry["guard"], forms)
        functions = None
        if "functions" in entry:
            need(not terms and not constant and modulus is None, "an assignment is both a sum and bitwise")
            need(len(entry["functions"]) <= kind.size, f"'{entry['variable']}' has fewer bits than are assigned")
            functions = tuple(self._function(atoms, table, known) for atoms, table in entry["functions"])
        return Update(entry["variable"], guard, terms=terms, constant=constant, modulus=modulus, functions=functions)

    def _function(self, names: Any, table: Any, known: Kinds) -> tuple[tuple[Atom, ...], int]:
        atoms = tuple(atom_of(name) for name in names)
        bits = all(isinstance(atom, tuple) and known[name].name == "word" for atom, name in zip(atoms, names))
        need(len(atoms) <= 16 and bits, "a bitwise function is not of bits")
        need(len({*atoms}) == len(atoms), "a bitwise function names a bit twice")
        return atoms, integer(table, 0, (1 << (1 << len(atoms))) - 1, "a table")

    def _terms(self, listed: Any, known: Kinds) -> dict[Atom, int]:
        """A sum of words and parts of words, as a sum of bits."""
        factors: dict[Atom, int] = {}
        for name, factor in listed:
            need(known[name].name == "word", f"'{name}' is added up as a word")
            word, start, _ = part_of(name) or (name, 0, 0)
            for place in range(known[name].size):
                atom = word, start + place
                factors[atom] = factors.get(atom, 0) + (integer(factor, what="a factor") << place)
        return factors

    def selects_one(self, head: Head) -> bool:
        """Whether a head selects at most one position, always: one offset, a preference, or the position as its key."""
        if head.prefer is not None or (head.offsets is not None and len(head.offsets) == 1):
            return True
        if head.key is None or head.query is None or self.kinds[head.query].name == "subset":
            return False
        name, start, stop = part_of(head.key) or (head.key, 0, 64)
        if self._changes(name):
            return False
        how, values = self.initial(name)
        if how == "counted":
            return start == 0 and (self.positions or 0) <= self.kinds[head.key].count
        held = {value >> start & (1 << stop - start) - 1 for value in values}
        return how == "position" and len(held) == len(values)

    def _changes(self, name: str) -> bool:
        """Whether a layer writes into a variable."""
        changed: set[str | None] = {
            u.variable for layer in self.layers for u in (*layer.updates, *(layer.second or ()))
        }
        changed |= {base_of(move.into) for layer in self.layers for move in layer.moves.values()}
        changed |= {variable for layer in self.layers for variable in layer.clears}
        return name in changed


# === the network ==========================================================================================


@dataclass(frozen=True)
class Segment:
    """A claim: these residual dimensions code this variable, head or scratch value."""

    name: str
    start: int
    size: int
    coding: str
    scale: int

    @property
    def slice(self) -> slice:
        return slice(self.start, self.start + self.size)


BLOCK = ["query", "query_bias", "key", "key_bias", "value", "out", "relative", "null_score", "null_value"]
BLOCK += ["in1", "bias1", "out1", "in2", "bias2", "out2"]


class Segments(dict[str, Segment]):
    """Segments by name; a part of a word is some of the word's dimensions."""

    def __missing__(self, name: str) -> Segment:
        word, start, stop = part_of(name) or (name, 0, 0)
        whole = self.get(word)
        need(whole is not None and whole.coding == "bits" and 0 <= start < stop, f"the layout has no '{name}'")
        assert whole is not None
        return Segment(name, whole.start + start, stop - start, whole.coding, whole.scale)


class Net:
    """A saved network, read: its program, its layout and its tensors by name."""

    def __init__(self, saved: Saved, number_format: Format) -> None:
        self.format, self.content = number_format, saved.content
        self.config, self.description = saved.content["config"], saved.content["description"]
        self.tensors, self.attributes = saved.tensors, saved.attributes
        self.program = Program(self.description)
        self.layout = Segments()
        for entry in self.description["layout"]:
            start, size = integer(entry["start"], 0, what="a start"), integer(entry["size"], 1, what="a size")
            scale = integer(entry["scale"], 1, what="a scale")
            need(entry["name"] not in self.layout, f"'{entry['name']}' is twice in the layout")
            self.layout[entry["name"]] = Segment(entry["name"], start, size, entry["coding"], scale)
        self.dim = integer(self.config["dim"], 1, what="dim")
        self.shapes = self.config["cycle"]
        count = integer(self.config["blocks"], 1, 1 << 20, "blocks")
        self.blocks = [Block(self, number) for number in range(count)]

    @cached_property
    def different(self) -> list[Block]:
        """The blocks without those that have the same tensors as an earlier one: what was shown of that holds there."""
        return [block for block in self.blocks if not block.same]

    def tensor(self, name: str) -> Array:
        need(name in self.tensors, f"the tensor '{name}' is missing")
        return self.tensors[name]

    @property
    def longest(self) -> int | None:
        limits = [n for n in (self.config["positions"], self.config["max_length"]) if n is not None]
        return min(limits, default=None)

    @cached_property
    def places_of_bits(self) -> dict[int, int]:
        """Dimension of a bit of a word → its place in the word."""
        words = [self.layout[n] for n, kind in self.program.kinds.items() if kind.name == "word"]
        return {s.start + bit: bit for s in words for bit in range(s.size)}

    @cached_property
    def of_variables(self) -> Array:
        """Which dimensions code variables: all others are zero between layers."""
        mask = np.zeros(self.dim, dtype=bool)
        for name in self.program.variables:
            mask[self.layout[name].slice] = True
        return mask

    def where(self, dim: int) -> str:
        """A dimension in words."""
        for s in self.layout.values():
            if s.start <= dim < s.start + s.size:
                return f"'{s.name}'" if s.size == 1 else f"'{s.name}' [{dim - s.start}]"
        return f"dimension {dim}"


class Block:
    """A block's tensors, with the layer of the program that it is for."""

    def __init__(self, net: Net, number: int) -> None:
        self.net, self.number = net, number
        self.layer = net.program.layers[number % len(net.program.layers)]
        self.shape = net.shapes[number % len(net.shapes)]
        self.raw = {name: net.tensor(f"blocks.{number}.{name}") for name in BLOCK}
        self.heads = list(self.shape["heads"])

    def __getitem__(self, name: str) -> Array:
        """A tensor in whole numbers (lemma `numbers` shows that it has no others, where it must not)."""
        if name not in self._whole:
            whole = np.empty(self.raw[name].shape, dtype=np.int64)
            self._whole[name] = np.rint(self.raw[name], out=whole, casting="unsafe")
        return self._whole[name]

    @cached_property
    def _whole(self) -> dict[str, Array]:
        return {}

    @property
    def same(self) -> bool:
        """Whether an earlier block, for the same layer of the program, has the same tensors."""
        step = len(self.net.program.layers)
        if len(self.net.shapes) != step or self.number < step:
            return False
        other = self.net.blocks[self.number - step]
        return all(np.array_equal(self.raw[n], other.raw[n]) for n in BLOCK)

    # --- claims about the first half, by which the others read its tensors ---

    @cached_property
    def scalars(self) -> dict[int, str]:
        """Dimensions that hold averages, with their heads."""
        return {s.start: s.name for s in self.net.layout.values() if s.coding == "scalar"}

    @cached_property
    def of_averages(self) -> tuple[Array, Array]:
        """Which units of each half read an average: they put it into a bucket, or clear it."""
        dims = list(self.scalars)
        return (self.raw["in1"][:, dims] != 0).any(axis=1), (self.raw["in2"][:, dims] != 0).any(axis=1)

    @cached_property
    def buckets(self) -> dict[int, tuple[str, int]]:
        """Scratch dimension → (numerical head, k): its name claims that the average is taken for value k or more."""
        named = {
            f"{head.name}≥{value}": (head.name, k)
            for head in self.layer.heads.values()
            for k, value in enumerate(head.kind.values if head.kind.name == "num" else ())
        }
        written: Array = np.asarray(self.raw["out1"][:, self.of_averages[0]].any(axis=1))
        starts = {name: self.net.layout[name].start for name in named if name in self.net.layout}
        return {dim: named[name] for name, dim in starts.items() if written[dim]}

    @cached_property
    def scratch(self) -> dict[int, tuple[Array, Array, Array]]:
        """Scratch dimension → (direction, thresholds, values): it is values[number of thresholds ≤ direction · x]."""
        found = {}
        named = {s.start for s in self.net.layout.values() if s.coding == "scratch"}
        for dim in np.nonzero(self.raw["out1"].any(axis=1))[0].tolist():
            if dim in self.buckets or dim not in named:
                continue
            units = np.nonzero(self["out1"][dim])[0]
            thresholds = 1 - self["bias1"][units]
            order = np.argsort(thresholds, kind="stable")
            values = np.concatenate([[0], np.cumsum(self["out1"][dim, units][order])])
            found[dim] = (self["in1"][units[0]], thresholds[order], values)
        return found

    @cached_property
    def predicates(self) -> dict[int, str]:
        """Scratch dimension → the comparison of words that it claims to be."""
        names = {self.net.layout[name].start: name for name in self.layer.predicates if name in self.net.layout}
        return {dim: name for dim, name in names.items() if dim in self.scratch}

    # --- atoms ---

    @cached_property
    def atoms(self) -> dict[Atom, int]:
        """Every atom with its number of values (without the undefined one)."""
        heads = {name: head.kind for name, head in self.layer.heads.items()}
        return sizes_of(self.net.program.variables | heads) | dict.fromkeys(self.predicates.values(), 2)

    def atoms_of(self, name: Atom) -> list[Atom]:
        """The atoms of a variable or head: its bits where it is a word."""
        if isinstance(name, tuple):
            return [name]
        kind = self.net.program.kinds.get(name)
        return [(name, bit) for bit in range(kind.size)] if kind is not None and kind.name == "word" else [name]

    def head_of(self, atom: Atom) -> Head | None:
        """The head whose output an atom is, or None."""
        return self.layer.heads.get(atom[0] if isinstance(atom, tuple) else atom)

    @cached_property
    def rough(self) -> frozenset[str]:
        """Heads that may select several positions and then hold an average of codes."""
        heads = self.layer.heads.values()
        return frozenset(h.name for h in heads if h.kind.name != "num" and not self.net.program.selects_one(h))

    def table(self, atom: Atom, rows: Array) -> tuple[Array, Array]:
        """What each value of an atom adds to linear functions (rows), at least and at most."""
        layout, head = self.net.layout, self.head_of(atom)
        if isinstance(atom, tuple):
            weights = rows[:, layout[atom[0]].start + atom[1]][:, None]
            table = np.concatenate([0 * weights, weights], axis=1)
        elif head is not None and head.kind.name == "num":
            table = np.zeros((len(rows), head.kind.size), dtype=rows.dtype)
            for dim, (name, k) in self.buckets.items():
                if name == atom:
                    table[:, k:] += rows[:, dim][:, None]
            zero = sum(middle < 0 for middle in middles_of(head.kind))  # where it selects nothing it is 0
            table = np.concatenate([table, table[:, [zero]]], axis=1)
            return table, table
        elif atom in self.atoms and atom not in self.net.program.kinds:
            weights = rows[:, layout[atom].start][:, None]
            table = np.concatenate([0 * weights, weights], axis=1)
            if not self.rough.isdisjoint(
                names_of(self.layer.predicates[atom][0])
            ):  # it may be a fraction where its words are
                low = np.concatenate([table, np.minimum(weights, 0)], axis=1)
                return low, np.concatenate([table, np.maximum(weights, 0)], axis=1) if weights.any() else low
        else:
            table = rows[:, layout[atom].slice]
        if head is None:
            return table, table
        none = np.zeros((len(rows), 1), dtype=rows.dtype)
        if head.name not in self.rough or not table.any():
            table = np.concatenate([table, none], axis=1)
            return table, table
        low, high = np.minimum(table.min(axis=1), 0)[:, None], np.maximum(table.max(axis=1), 0)[:, None]
        return np.concatenate([table, low], axis=1), np.concatenate([table, high], axis=1)


def middles_of(kind: Kind) -> list[Fraction]:
    """Where the nearest declared value changes."""
    return [(a + b) / 2 for a, b in pairwise(kind.values)]


# === lemma numbers, exact-sums ============================================================================


def prove_numbers(net: Net) -> dict[str, Any]:
    """Every entry is finite, the format holds it, and it is a whole number, except the weights that clear averages."""
    entries = 0
    for name, tensor in net.tensors.items():
        found = tensor[tensor != 0]  # zero is finite, whole, and in every format
        need(np.isfinite(found).all(), f"{name} has an entry that is not finite")
        need((np.abs(found) < LARGEST).all(), f"{name} has an entry that is too large")
        held = net.format.holds(found)
        need(held.all(), f"{name} has the entry {found[~held][:1]}, which {net.format.name} cannot hold")
        odd = tensor != np.rint(tensor)
        if name.endswith(".in2"):
            odd[:, [s.start for s in net.layout.values() if s.coding == "scalar"]] = False
        need(not odd.any(), f"{name} has the entry {tensor[odd][:1]}, which is no whole number")
        entries += tensor.size
    return {"entries": entries, "format": net.format.name}


def entries(table: Array, rows: Array, columns: Sequence[int]) -> Array:
    """Some rows and columns of a table, each at most once and in order."""
    chosen: Array = table if len(rows) == len(table) else table[rows]
    part: Array = chosen if len(columns) == table.shape[1] else chosen[:, list(columns)]
    return part


def most(net: Net, rows: Array) -> Array:
    """The largest sum of sizes of a linear function's terms that are not zero at once: one dimension of a one-hot
    segment is on (or an average of them), every bit and scratch value."""
    total = np.zeros(len(rows))
    for s in net.layout.values():
        part = rows[:, s.slice]
        if part.any():
            one_hot = s.coding == "one-hot"
            total += np.maximum(part.max(axis=1), -part.min(axis=1)) if one_hot else np.abs(part).sum(axis=1)
    return total


def prove_exact_sums(net: Net) -> dict[str, Any]:
    """Every sum of the MLP blocks stays within the whole numbers that the format holds, in any order of summation."""
    largest, limit = 0.0, net.format.whole
    for block in net.different:
        for half, (into, bias, out) in enumerate((("in1", "bias1", "out1"), ("in2", "bias2", "out2"))):
            chosen = ~block.of_averages[half]
            sums = (np.abs(block.raw[bias]) + most(net, block.raw[into]))[chosen]
            writes = np.abs(block.raw[out]).sum(axis=1) + 1
            top = max(sums.max(initial=0), writes.max(initial=0))
            need(
                top <= limit,
                f"a sum in block {block.number} reaches {top:,.0f}; {net.format.name} is exact to {limit:,}",
            )
            largest = max(largest, top)
    return {"largest": int(largest), "limit": limit}


# === lemma shapes =========================================================================================


def prove_shapes(net: Net) -> dict[str, Any]:
    """Config, block attributes and tensor shapes are those of the program: what decides how the network runs."""
    c, program = net.config, net.program
    need_config(net)
    placed = any(program.initial(name)[0] == "position" for name in program.variables)
    need_ends(net, placed)
    counted = [
        [net.layout[name].start, kind.size, program.initial(name)[1][0]]
        for name, kind in program.variables.items()
        if program.initial(name)[0] == "counted"
    ]
    said_counted = [[integer(n, what="a count") for n in one] for one in c.get("counted", ())]
    need(said_counted == counted, "positions are counted in other dimensions, or from another number")
    turns = len(program.layers)
    need(len(net.shapes) == turns and len(net.blocks) % turns == 0, f"the blocks do not take {turns} turns")
    need(c["shape"] == "encoder" or len(net.blocks) == turns, "a network without fixed depth has blocks of its own")
    expected: dict[str, tuple[int | None, ...]] = {
        "token_embedding": (program.tokens, net.dim),
        "unembedding": (program.kinds[program.output].size, net.dim),
        "halt_weight": (net.dim,),
        "halt_bias": (1,),
    }
    if placed:
        expected["position_embedding"] = (program.positions, net.dim)
    said = net.attributes or [
        {"heads": b.heads, "causal": c["causal"], "window": b.shape["window"]} for b in net.blocks
    ]
    need(len(said) == len(net.blocks), "there is another number of blocks than the config says")
    for block, attributes in zip(net.blocks, said):
        need_attributes(net, block, attributes)
        expected |= block_shapes(net, block)
    for name, shape in expected.items():
        need(net.tensor(name).shape == shape, f"{name} is {net.tensor(name).shape}, not {shape}")
    need(
        net.tensors.keys() == expected.keys(),
        f"there is a tensor too many: {[*net.tensors.keys() - expected.keys()][:1]}",
    )
    runs = "until it halts" if program.halt else f"{c['layers']} layer{'' if c['layers'] == 1 else 's'}"
    return {"blocks": len(net.blocks), "runs": runs, "turns": turns}


def need_config(net: Net) -> None:
    """The config says what the program says, and its numbers are in range."""
    c, data = net.config, net.program.data
    decoder, halts = data["max_tokens"] is not None, bool(net.program.halt)
    need(c["shape"] in ("universal", "encoder", "decoder"), f"there is no shape {c['shape']!r}")
    need((c["shape"] == "decoder") == decoder, "a decoder is a program with max_tokens, and only that")
    need(not (decoder and halts), "a decoder runs a fixed number of layers, and its program halts")
    need(c["shape"] != "encoder" or not halts, "an encoder runs a fixed number of layers, and its program halts")
    for name in ("name", "tokens", "layers", "causal", "stop", "max_tokens"):
        same = type(c[name]) is type(data[name]) and c[name] == data[name]
        need(same, f"'{name}' is {c[name]!r} in the config and {data[name]!r} in the program")
    need(type(c["halts"]) is bool and c["halts"] == halts, f"'halts' is {c['halts']!r}, and the program says {halts}")
    need(type(c["causal"]) is bool, "'causal' is neither true nor false")
    need(halts or integer(c["layers"], 0, what="layers") >= 0, "neither layers nor halt")
    for name, low in (("layers", 0), ("stop", 0), ("max_tokens", 1), ("positions", 1), ("max_length", 1)):
        need(c[name] is None or integer(c[name], low, what=name) >= low, f"'{name}' is out of range")


def need_ends(net: Net, placed: bool) -> None:
    """The network takes inputs as long as the program's (`placed`: it knows positions), and gives its output."""
    c, program = net.config, net.program
    need(c["positions"] == (program.positions if placed else None), "the position embedding has another length")
    if program.positions is not None:
        need(net.longest is not None and net.longest <= program.positions, "it takes longer inputs than the program")
    kind = program.kinds[program.output]
    need(c["output_coding"] == ("bits" if kind.name == "word" else "one-hot"), "the output is read in another coding")
    need(integer(c["classes"]) == kind.size, "the output has another number of values")
    decoder = program.data["max_tokens"] is not None
    need(not decoder or kind.count <= program.tokens, "a decoder gives values that are no tokens")


def need_attributes(net: Net, block: Block, attributes: Any) -> None:
    """What the config says of a block is what the block and the program say."""
    causal = net.program.data["causal"]
    for name, value in (("heads", block.heads), ("causal", causal), ("window", block.shape["window"])):
        given = list(attributes[name]) if name == "heads" else attributes[name]
        need(
            type(given) is type(value) and given == value,
            f"block {block.number} has {name} = {given!r}, not {value!r}",
        )


def block_shapes(net: Net, block: Block) -> dict[str, tuple[int, ...]]:
    s, h, d = block.shape, len(block.heads), net.dim
    need(all(isinstance(name, str) for name in block.heads) and len({*block.heads}) == h, "names of heads are no names")
    k, v, window = (integer(s[name], 0, what=name) for name in ("key_size", "value_size", "window"))
    first, second = (integer(n, 0, what="hidden") for n in s["hidden"])
    shapes: dict[str, tuple[int, ...]] = {
        "query": (h, k, d),
        "query_bias": (h, k),
        "key": (h, k, d),
        "key_bias": (h, k),
    }
    shapes |= {"value": (h, v, d), "out": (h, d, v), "relative": (h, 2 * window + 3), "null_score": (h,)}
    shapes |= {"null_value": (h, v), "in1": (first, d), "bias1": (first,), "out1": (d, first)}
    shapes |= {"in2": (second, d), "bias2": (second,), "out2": (d, second)}
    return {f"blocks.{block.number}.{name}": shape for name, shape in shapes.items()}


# === lemmas layout, embeddings, halting, output ===========================================================


def prove_layout(net: Net) -> dict[str, Any]:
    """The segments cover every residual dimension once; variables and heads have the coding of their kind."""
    covered = sorted(d for s in net.layout.values() for d in range(s.start, s.start + s.size))
    need(covered == list(range(net.dim)), "the layout does not cover every dimension once")
    for name, kind in net.program.kinds.items():
        need(name in net.layout, f"'{name}' is not in the layout")
        averaged = kind.name == "num" and name not in net.program.variables
        coding = "scalar" if averaged else "bits" if kind.name == "word" else "one-hot"
        s = net.layout[name]
        need((s.coding, s.size) == (coding, 1 if averaged else kind.size), f"'{name}' is not laid out as {coding}")
    for s in net.layout.values():
        need(s.name in net.program.kinds or (s.coding, s.size) == ("scratch", 1), f"'{s.name}' is nothing's dimension")
    return {"dimensions": net.dim, "variables": len(net.program.variables)}


def prove_embeddings(net: Net) -> dict[str, Any]:
    """For every token and position the embeddings add up to the codes of the first values, and zero elsewhere."""
    tokens = net.tensor("token_embedding")
    places = net.tensors.get("position_embedding", np.zeros((1, net.dim)))
    need(not tokens[:, ~net.of_variables].any(), "the token embedding writes what is no variable")
    need(not places[:, ~net.of_variables].any(), "the position embedding writes what is no variable")
    for name, kind in net.program.variables.items():
        how, values = net.program.initial(name)
        if how == "counted":  # no tensor writes it; the config says how it counts (lemma shapes)
            need(not tokens[:, net.layout[name].slice].any(), f"'{name}' starts from the token embedding, too")
            need(not places[:, net.layout[name].slice].any(), f"'{name}' starts from the position embedding, too")
            continue
        wanted = kind.codes(values)
        here, there = tokens[:, net.layout[name].slice], places[:, net.layout[name].slice]
        here, there = (there, here) if how == "position" else (here, there)
        for row in np.nonzero((here != wanted).any(axis=1))[0][:1]:
            raise Refused(f"the embedding of {how} {row} does not start '{name}' with its first value")
        need(not there.any(), f"'{name}' starts from both embeddings")
    return {"tokens": len(tokens), "positions": net.config["positions"]}


def prove_halting(net: Net) -> dict[str, Any]:
    """The halting unit is above zero at a position exactly where every halt variable has its value."""
    weight, bias = net.tensor("halt_weight"), float(net.tensor("halt_bias")[0])
    if not net.config["halts"]:
        need(not weight.any(), "a network that does not halt has a halting unit")
        return {"halts": False}
    need(not weight[~net.of_variables].any(), "the halting unit reads what is no variable")
    need(abs(bias) + most(net, weight[None])[0] <= net.format.whole, "the halting unit's sum is not exact")
    least = worst = bias
    cost = []
    for name in net.program.variables:
        table = weight[net.layout[name].slice]
        if name in net.program.halt:
            index = net.program.halt[name]
            others = np.delete(table, index).max(initial=-np.inf)
            least, worst = least + table[index], worst + max(table[index], others)
            cost.append(max(table[index], others) - others)
        elif table.any():
            need(net.program.kinds[name].name != "word" and (table == table[0]).all(), f"halting depends on '{name}'")
            least, worst = least + table[0], worst + table[0]
    need(least > 0, "the halting unit is off where every halt variable has its value")
    need(worst - min(cost) <= 0, "the halting unit is on where a halt variable has another value")
    return {"halts": True, "variables": len(cost)}


def prove_output(net: Net) -> dict[str, Any]:
    """The unembedding's largest logit (of a word: every bit above ½) is the value of the output variable."""
    rows, s = net.tensor("unembedding"), net.layout[net.program.output]
    logits = rows[:, s.slice]
    rest = rows.copy()
    rest[:, s.slice] = 0
    need(not rest.any(), "the unembedding reads something else than the output variable")
    if net.config["output_coding"] == "bits":
        right = (np.diag(logits) > 0.5).all() and not (logits - np.diag(np.diag(logits))).any()
        need(right, "a bit of the output is not what the unembedding reads")
        return {"bits": s.size}
    others = np.where(np.eye(s.size, dtype=bool), -np.inf, logits).max(axis=0)
    for value in np.nonzero(np.diag(logits) <= others)[0][:1]:
        raise Refused(f"the output {value} has no largest logit of its own")
    return {"values": s.size}


def prove_decoding(net: Net) -> dict[str, Any]:
    """A decoder looks only back, so that what was computed for a position stays when tokens are appended."""
    if net.config["shape"] != "decoder":
        return {"decoder": False}
    need(net.config["causal"] is True and net.program.data["causal"] is True, "a decoder looks ahead")
    limit = net.program.positions
    need(limit is None or net.longest == limit, "a decoder takes fewer tokens than its program, and would stop between")
    return {"decoder": True, "max_tokens": net.config["max_tokens"]}


# === lemma hard-attention =================================================================================


def lowest_bit(*arrays: Array) -> int:
    """The largest power of two that divides every entry."""
    entries = [np.abs(a[a != 0]) for a in arrays]
    lows = [int((e & -e).min()) for e in entries if e.size]
    return min(lows, default=1 << 40)


def prove_hard_attention(net: Net) -> dict[str, Any]:
    """Every head selects as declared: match, null key and mismatch are further apart than exp can hold, and so are two
    matches of a head with a preference, at every length up to the longest."""
    smallest, pairs, heads, ranked = float("inf"), 0, 0, False
    for block in net.different:
        for h, selection in network_heads(net, block).items():
            above, below, seen = Selection(net, block, h, selection).prove()
            smallest, pairs, heads = min(smallest, above, below), pairs + seen, heads + 1
            ranked = ranked or selection[5] is not None
    numbers = {"heads": heads, "pairs": pairs, "gap": None if not heads else smallest, "needed": net.format.gap}
    return numbers | ({"length": net.longest} if ranked else {})


def network_heads(net: Net, block: Block) -> dict[int, Any]:
    """Head of the network → what it is to select: the program's heads by name, moves by number, and for a move that
    does not replace a head that looks at its own position (it takes the old value away)."""
    found: dict[int, Any] = {}
    layer = block.layer

    def claim(number: int, selection: Any) -> None:
        need(0 <= number < len(block.heads), "a head is claimed that there is not")
        need(found.setdefault(number, selection) == selection, f"'{block.heads[number]}' is two heads at once")

    for name, head in layer.heads.items():
        need(name in block.heads, f"the head '{name}' is missing")
        claim(block.heads.index(name), head.selection)
    for said in layer.described["moves"]:
        need(said["name"] in layer.moves, "a move is described that there is not")
        claim(integer(said["head"]), layer.moves[said["name"]].selection)
    taken_away = [(move.into or "", move.where) for move in layer.moves.values() if move.replacing is None]
    for variable, where in (*taken_away, *layer.clears.items()):
        written = block.raw["out"][:, net.layout[variable].slice].any(axis=(1, 2))
        for number in np.nonzero(written)[0].tolist():
            if number not in found:
                claim(number, (None, None, frozenset([0]), where, (), None, False))
    need(len(found) == len(block.heads), "a head of the network is none of the program's")
    return found


PREFERENCES = ("latest", "earliest", "nearest")


def rank_of(prefer: str | None, offset: int) -> int:
    """The order in which a head with a preference selects one of several matching positions: the highest rank."""
    if prefer == "nearest":  # the left one of two that are equally near
        return -2 * abs(offset) - (offset > 0)
    return -offset if prefer == "earliest" else offset


class Selection:
    """One head of the network: score = match(query, key) + where + among + relative; each part is read by itself."""

    def __init__(self, net: Net, block: Block, h: int, selection: Any) -> None:
        self.net, self.block, self.h = net, block, h
        self.query, self.key, self.offsets, self.where, self.among, self.prefer, self.counts = selection
        self.name = block.heads[h]
        self.sides = [(block["query"][h], block["query_bias"][h]), (block["key"][h], block["key_bias"][h])]
        self.conditions: list[tuple[int, int | None]] = []  # (score where it holds, largest score where it fails)
        self.spread = 0  # how much matches that differ by rank alone differ in score
        self.step: int | None = None  # the least of these differences
        self.pairs, self.never = 0, False

    def need(self, condition: Any, why: str) -> None:
        need(condition, f"the head '{self.name}' (block {self.block.number}): {why}")

    def prove(self) -> tuple[int, int, int]:
        net, (q, qb), (k, kb) = self.net, *self.sides
        for side in (q, k):
            self.need(not side[:, ~net.of_variables].any(), "its scores read what is no variable")
        self.need(self.size() < LARGEST, "its scores are too large")
        matching = q.any(axis=1) & k.any(axis=1)
        reach = self.match(matching)
        for weights, factor, limits in ((q, kb, self.where), (k, qb, self.among)):
            chosen = ~matching & weights.any(axis=1)
            total = (weights[chosen] * factor[chosen][:, None]).sum(axis=0)
            reach += int(np.abs(factor[chosen]) @ most(net, weights[chosen])) if chosen.any() else 0
            self.limit(total, dict(limits))
        self.conditions.append((int(qb[~matching] @ kb[~matching]), None))
        reach += int(np.abs(qb[~matching]) @ np.abs(kb[~matching]))
        reach += self.relative()
        self.exact(reach)
        selected = sum(ok for ok, _ in self.conditions) - self.spread  # the worst match; without ranks, every match
        best = [max(ok, ok if bad is None else bad) for ok, bad in self.conditions]
        null, gap = int(self.block["null_score"][self.h]), net.format.gap
        misses = [sum(best) - most_ + bad for (_, bad), most_ in zip(self.conditions, best) if bad is not None]
        missed = max(misses, default=null - gap)
        self.need(
            self.step is None or self.step >= gap,
            f"of two matches the one to select scores {self.step} more; {net.format.name} needs {gap}",
        )
        if self.counts:
            return self.tied(selected, null, missed)
        self.need(
            selected - null >= gap or self.never,
            f"a match scores {selected}, the null key {null}; {net.format.name} needs a gap of {gap}",
        )
        self.need(
            null - missed >= gap,
            f"the null key scores {null}, a mismatch up to {missed}; {net.format.name} needs a gap of {gap}",
        )
        above = gap if self.never else min(selected - null, self.step or selected - null)
        return above, null - missed, self.pairs

    def size(self) -> float:
        """What sizes of scores add up to at most, so that all of what follows fits into 64 bits."""
        one, two = (np.abs(np.c_[w, b]).astype(np.float64).sum(axis=1) for w, b in self.sides)
        table, null = self.block.raw["relative"][self.h], self.block.raw["null_score"][self.h]
        return float(one.max(initial=0) + two.max(initial=0) + one @ two + 4 * np.abs(table).max() + 4 * abs(null))

    def tied(self, selected: int, null: int, missed: int) -> tuple[int, int, int]:
        """The null key of a head that counts scores exactly like a match, and so has the same weight."""
        self.need(selected == null or self.never, f"it counts, and a match scores {selected}, the null key {null}")
        self.need(null - missed >= self.net.format.gap, f"the null key scores {null}, a mismatch up to {missed}")
        return null - missed, null - missed, self.pairs

    def match(self, places: Array) -> int:
        """Every pair of codes of the query and the key; of words bit by bit."""
        net, (q, qb), (k, kb) = self.net, *self.sides
        if self.query is None or self.key is None:
            self.need(not places.any(), "it compares, and should not")
            return 0
        asked, held = net.layout[self.query], net.layout[self.key]
        inside = np.zeros((2, net.dim), dtype=bool)
        inside[0, asked.slice] = inside[1, held.slice] = True
        self.need(
            not q[places][:, ~inside[0]].any() and not k[places][:, ~inside[1]].any(),
            f"it compares something else than '{self.query}' with '{self.key}'",
        )
        kind = net.program.kinds[self.query]
        if kind.name == "word":
            return self.match_bits(places, asked, held)
        left = q[places][:, asked.slice] + qb[places][:, None]  # (place, query)
        right = k[places][:, held.slice] + kb[places][:, None]  # (place, key)
        scores = np.rint(left.T.astype(np.float64) @ right.astype(np.float64)).astype(np.int64)
        wanted = np.zeros(scores.shape, dtype=bool)
        for row, value in enumerate(kind.values):
            wanted[row, list(value) if kind.name == "subset" else [value]] = True
        self.pairs += scores.size
        hits = scores[wanted]
        self.need(not len(hits) or (hits == hits[0]).all(), "matches have different scores")
        misses = int(scores[~wanted].max()) if not wanted.all() else None
        self.never = not len(hits)  # a query without members: nothing is ever selected
        self.conditions.append((int(hits[0]) if len(hits) else misses or 0, misses))
        sizes = (np.abs(q[places][:, asked.slice]) + np.abs(qb[places])[:, None]).astype(np.float64)
        others = (np.abs(k[places][:, held.slice]) + np.abs(kb[places])[:, None]).astype(np.float64)
        return int((sizes.T @ others).max(initial=0))

    def match_bits(self, places: Array, asked: Segment, held: Segment) -> int:
        (q, qb), (k, kb) = self.sides
        scores = np.zeros((asked.size, 2, 2), dtype=np.int64)
        reach = 0
        for place in np.nonzero(places)[0]:
            (i,), (j,) = np.nonzero(q[place])[0][:2][None], np.nonzero(k[place])[0][:2][None]
            self.need(np.count_nonzero(q[place]) == np.count_nonzero(k[place]) == 1, "it compares several bits at once")
            self.need(
                i[0] - asked.start == j[0] - held.start,
                f"it compares bit {i[0] - asked.start} with bit {j[0] - held.start}",
            )
            left = qb[place] + np.array([0, q[place, i[0]]])
            right = kb[place] + np.array([0, k[place, j[0]]])
            scores[i[0] - asked.start] += np.outer(left, right)
            reach += int((abs(qb[place]) + abs(q[place, i[0]])) * (abs(kb[place]) + abs(k[place, j[0]])))
        self.pairs += scores.size
        same, other = scores[:, [0, 1], [0, 1]], scores[:, [0, 1], [1, 0]].max(axis=1)
        self.need(
            (same[:, 0] == same[:, 1]).all() and (other < same[:, 0]).all(),
            "a bit that differs does not cost, or equal bits have different scores",
        )
        total = int(same[:, 0].sum())
        self.conditions.append((total, total - int((same[:, 0] - other).min())))
        return reach

    def limit(self, total: Array, limits: dict[str, int]) -> None:
        """What a position must hold to look, or to be looked at."""
        for name in self.net.program.variables:
            table = total[self.net.layout[name].slice]
            named = (part_of(limit) for limit in limits.keys() - self.net.layout.keys())
            bits = [found[1] for found in named if found is not None and found[0] == name]
            if bits:
                self.need(not np.delete(table, bits).any(), f"its scores depend on other bits of '{name}'")
                self.conditions += [(int(table[place]), 0) for place in bits]
            elif name in limits:
                index = limits[name]
                others = np.delete(table, index)
                self.conditions.append((int(table[index]), int(others.max()) if len(others) else None))
            elif table.any():
                self.need(
                    self.net.program.kinds[name].name != "word" and (table == table[0]).all(),
                    f"its scores depend on '{name}', and should not",
                )
                self.conditions.append((int(table[0]), None))

    def relative(self) -> int:
        """Scores of offsets; the ends of the table are all offsets further away."""
        table, window = self.block["relative"][self.h], int(self.block.shape["window"])
        offsets = np.arange(-window - 1, window + 2)
        if self.prefer is not None:
            self.ranked(table, offsets, window)
        elif self.offsets is None:
            self.need((table == table[0]).all(), "offsets have different scores")
            self.conditions.append((int(table[0]), None))
        else:
            self.need(all(abs(offset) <= window for offset in self.offsets), "an offset is beyond its window")
            allowed = np.isin(offsets, list(self.offsets))
            self.need((table[allowed] == table[allowed][0]).all(), "offsets have different scores")
            self.conditions.append((int(table[allowed][0]), int(table[~allowed].max())))
        self.pairs += len(table)
        return int(np.abs(table).max(initial=0))

    def ranked(self, table: Array, offsets: Array, window: int) -> None:
        """Scores of offsets grow with their rank by more than exp can hold, at every offset that an input can have."""
        longest = self.net.longest or window + 2
        self.need(longest <= window + 1, f"it prefers positions up to the offset {window}, and inputs can be longer")
        reached = (np.abs(offsets) < longest) & ((offsets <= 0) | (not self.net.config["causal"]))
        allowed = reached if self.offsets is None else reached & np.isin(offsets, list(self.offsets))
        scores = table[allowed][np.argsort([rank_of(self.prefer, int(o)) for o in offsets[allowed]])]
        others = table[reached & ~allowed]
        bad = int(others.max()) if len(others) else None
        self.never = self.never or not len(scores)  # no offset that an input can have is allowed
        self.conditions.append((int(scores.max()) if len(scores) else bad or 0, bad))
        if len(scores) > 1:
            self.spread, self.step = int(scores.max() - scores.min()), int(np.diff(scores).min())

    def exact(self, reach: int) -> None:
        """Queries, keys and scores are multiples of a power of two that the format adds up exactly."""
        f, table = self.net.format, self.block["relative"][self.h]
        units = []
        for weights, bias in self.sides:
            units.append(lowest_bit(weights, bias))
            top = int((np.abs(bias) + most(self.net, weights)).max(initial=0))
            self.need(
                top <= units[-1] * f.whole and top < 1 << f.overflow,
                f"a query or key reaches {top:,}, beyond what {f.name} adds up exactly",
            )
        unit = min(units[0] * units[1], lowest_bit(table))
        self.need(
            reach <= unit * f.whole and 2 * reach < 1 << f.overflow,
            f"scores reach {reach:,} in steps of {unit:,}, beyond what {f.name} adds up exactly",
        )


# === lemma copies =========================================================================================


def prove_copies(net: Net) -> dict[str, Any]:
    """A head adds the value that it selects, or its default, where it should, and nothing else anywhere."""
    copied = 0
    for block in net.different:
        out, value, null = block["out"], block["value"], block["null_value"]
        need(((out == 0) | (out == 1)).all(), f"a head of block {block.number} writes multiples")
        need((out.sum(axis=1) <= 1).all() and (out.sum(axis=2) <= 1).all(), "a head writes sums of what it selects")
        unused = out.sum(axis=1) == 0  # (head, value row)
        need(not value[unused].any() and not null[unused].any(), "a head has values that it does not write")
        wanted = wanted_copies(net, block)
        for h, dim, row in np.argwhere(out != 0).tolist():
            need((h, dim) in wanted, f"the head '{block.heads[h]}' writes {net.where(dim)}, and should not")
            sources, default = wanted.pop((h, dim))
            expected = np.zeros(net.dim, dtype=np.int64)
            for source, factor in sources:
                expected[source] += factor
            right = (value[h, row] == expected).all() and null[h, row] == default
            need(right, f"the head '{block.heads[h]}' does not copy what it should into {net.where(dim)}")
            copied += 1
        for h, dim in wanted:
            raise Refused(f"the head '{block.heads[h]}' does not write {net.where(dim)}")
    return {"dimensions": copied}


Copies = dict[tuple[int, int], tuple[list[tuple[int, int]], int]]


def wanted_copies(net: Net, block: Block) -> Copies:
    """(head of the network, dimension) → the dimensions of the selected position that are added there, with factors,
    and what is added where nothing is selected."""
    wanted: Copies = {}
    heads = network_heads(net, block)
    for name, head in block.layer.heads.items():
        wanted |= copies_of_head(net, head, block.heads.index(name))
    numbers_of = {said["name"]: said["head"] for said in block.layer.described["moves"]}
    need(numbers_of.keys() == block.layer.moves.keys(), "the moves that are described are not the program's")
    for name, move in block.layer.moves.items():
        add_copies_of_move(net, move, numbers_of[name], wanted)
        if move.replacing is None:  # where it writes, its default goes with the old value
            size = net.layout[move.into or ""].size
            null = default_code(move, size) if move.where else np.zeros(size)
            add_clearing(block, move.into or "", move.where, heads, wanted, null, by=numbers_of[name])
    for variable, where in block.layer.clears.items():
        target = net.layout[variable]
        h = add_clearing(block, variable, where, heads, wanted, np.zeros(target.size))
        if net.program.kinds[variable].name != "word":  # its first value comes instead
            wanted[h, target.start] = ([(target.start + i, 1) for i in range(1, target.size)], 0)
    into = [move.into for move in block.layer.moves.values() if move.replacing is None]
    into += list({move.into for move in block.layer.moves.values() if move.replacing is not None})
    places = [place for name in into for place in range(net.dim)[net.layout[name or ""].slice]]
    need(len({*places}) == len(places), "two heads write into a variable")
    return wanted


def add_clearing(
    block: Block, variable: str, where: Any, heads: dict[int, Any], wanted: Copies, null: Array, by: int | None = None
) -> int:
    """A head takes a variable's old value away at its own position, and `null` with it; `by` brings the new value.
    Return the head's number."""
    target = block.net.layout[variable]
    own = (None, None, frozenset([0]), where, (), None, False)
    writes = np.nonzero(block.raw["out"][:, target.slice].any(axis=(1, 2)))[0].tolist()
    others = [h for h in writes if h != by]
    need(len(others) == 1 and heads[others[0]] == own, f"not one head takes the old value of '{variable}' away")
    for i in range(target.size):
        wanted[others[0], target.start + i] = ([(target.start + i, -1)], -int(null[i]))
    return int(others[0])


def copies_of_head(net: Net, head: Head, h: int) -> Copies:
    """What a head that is read copies: its value's code, or of an average the numbers."""
    target, source = net.layout[head.name], net.layout[head.value]
    if head.counts:
        return {(h, target.start): ([], -target.scale)}
    if head.kind.name == "num":
        numbers = [Fraction(v) * target.scale for v in net.program.kinds[head.value].values]
        default = Fraction(0) if head.default is None else head.kind.values[head.default] * target.scale
        need(all(n.denominator == 1 for n in (*numbers, default)), f"the averages of '{head.name}' are not whole")
        return {(h, target.start): ([(source.start + i, int(n)) for i, n in enumerate(numbers)], int(default))}
    null = default_code(head, target.size)
    return {
        (h, target.start + i): ([(source.start + i, 1)] if i < source.size else [], int(null[i]))
        for i in range(target.size)
    }


def default_code(head: Head, size: int) -> Array:
    """The code of a head's default; zeros where it has none."""
    return np.zeros(size) if head.default is None else head.kind.codes([head.default])[0]


def add_copies_of_move(net: Net, move: Head, h: int, wanted: Copies) -> None:
    """A move adds the new value to its variable, and takes away the value that it replaces."""
    target, source = net.layout[move.into or ""], net.layout[move.value]
    null = default_code(move, target.size)
    for i in range(target.size):
        old = [] if move.replacing is None else [(net.layout[move.replacing].start + i, -1)]
        need((h, target.start + i) not in wanted, f"two heads write into '{move.into}'")
        new = [(source.start + i, 1)] if i < source.size else []
        wanted[h, target.start + i] = ([*new, *old], int(null[i]))


# === lemma averages =======================================================================================


def neighbours(middle: Fraction, length: int) -> tuple[Fraction, Fraction]:
    """Of the fractions with denominators up to `length`: the largest not above `middle`, the smallest above it.
    A walk down the Stern–Brocot tree in leaps."""
    base = floor(middle)
    (a, b), (c, d) = (base, 1), (base + 1, 1)  # a/b ≤ middle < c/d
    while b + d <= length:
        if (a + c) * middle.denominator <= middle.numerator * (b + d):  # the mediant is not above: move the lower end
            top, bottom = middle.numerator * b - a * middle.denominator, c * middle.denominator - middle.numerator * d
            leap = max(1, min(top // bottom if bottom else length, (length - b) // d))
            a, b = a + leap * c, b + leap * d
        else:
            top, bottom = c * middle.denominator - middle.numerator * d, middle.numerator * b - a * middle.denominator
            leap = max(1, min((top - 1) // bottom if bottom else length, (length - d) // b))
            c, d = c + leap * a, d + leap * b
    return Fraction(a, b), Fraction(c, d)


def prove_averages(net: Net) -> dict[str, Any]:
    """Rounded averages fall into the right bucket up to the longest input, and are cleared exactly."""
    tightest, buckets = None, 0
    for block in net.different:
        first, second = (set(np.nonzero(part)[0].tolist()) for part in block.of_averages)
        for head in block.layer.heads.values():
            if head.kind.name != "num":
                continue
            seen, margin = prove_buckets(net, block, head, first)
            prove_average_cleared(net, block, head, second)
            buckets += seen
            tightest = margin if tightest is None or (margin is not None and margin < tightest) else tightest
        need(not first and not second, f"a unit of block {block.number} reads an average that its layer does not have")
    return {"buckets": buckets, "length": net.longest, "margin": None if tightest is None else float(tightest)}


def averaged(net: Net, head: Head) -> list[int]:
    """The whole numbers that a head averages."""
    scale = net.layout[head.name].scale
    if head.counts:
        return [0, -scale]
    values = [Fraction(v) for v in net.program.kinds[head.value].values]
    values += [] if head.default is None else [head.kind.values[head.default]]
    return [int(v * scale) for v in values]


def prove_buckets(net: Net, block: Block, head: Head, units: set[int]) -> tuple[int, Fraction | None]:
    f, s = net.format, net.layout[head.name]
    if net.longest is None:
        raise Refused(f"'{head.name}' averages, and nothing limits the length of inputs")
    length = net.longest + head.counts  # positions, and the null key of a head that counts
    largest = max(1, *(abs(n) for n in averaged(net, head)))
    need(
        length * largest <= f.whole, f"sums of '{head.name}' over {length} positions leave what {f.name} holds exactly"
    )
    error, middles, margin, seen = Fraction(1, 1 << f.precision), middles_of(head.kind), None, 0
    for unit in sorted(units):
        if np.nonzero(block.raw["in1"][unit])[0].tolist() != [s.start]:
            continue
        units.discard(unit)
        (dim, *others) = np.nonzero(block.raw["out1"][:, unit])[0].tolist() or [-1]
        need(dim >= 0 and not others, f"a unit that puts '{head.name}' into a bucket writes none or several")
        need(block.buckets.get(dim, ("", 0))[0] == head.name, f"a unit puts '{head.name}' into {net.where(dim)}")
        slope, offset = Fraction(block.raw["in1"][unit, s.start]), -Fraction(block.raw["bias1"][unit])
        need(np.count_nonzero(block.raw["out1"][dim]) == 1, "two units write one bucket")
        need(block.raw["out1"][dim, unit] == 1 and slope > 0 and log2(slope) % 1 == 0, "a bucket is no power of two")
        need(abs(offset) <= f.whole and slope < 1 << f.overflow, "a bucket's sum is not exact")
        below, above = neighbours(middles[block.buckets[dim][1] - 1] * s.scale, length)
        off, on = slope * (below + abs(below) * error), slope * (above - abs(above) * error)
        if off > offset or on < offset + 1:
            raise Refused(
                f"{f.name} does not tell the averages {below} and {above} of '{head.name}' apart, "
                f"which inputs of {length} tokens can have"
            )
        slack = min(offset - off, on - offset - 1)
        margin = slack if margin is None else min(margin, slack)
        seen += 1
    return seen, margin


def prove_average_cleared(net: Net, block: Block, head: Head, units: set[int]) -> None:
    """x − size·clip(x / size) = 0 with a size that is a power of two and no smaller than any average."""
    f, s, numbers, signs = net.format, net.layout[head.name], averaged(net, head), []
    for unit in sorted(units):
        if np.nonzero(block.raw["in2"][unit])[0].tolist() != [s.start]:
            continue
        units.discard(unit)
        weight, added = block.raw["in2"][unit, s.start], block.raw["out2"][s.start, unit]
        right = np.count_nonzero(block.raw["out2"][:, unit]) == 1 and block.raw["bias2"][unit] == 0
        need(
            right and weight * added == -1 and log2(abs(added)) % 1 == 0, f"the average of '{head.name}' is not cleared"
        )
        need(abs(added) >= max(abs(n) for n in numbers), f"an average of '{head.name}' is larger than what clears it")
        tiny = floor(log2(1 / ((net.longest or 1) + 1))) - f.precision + 1  # the last bit of the smallest average
        need(tiny - log2(abs(added)) >= f.smallest, f"{f.name} cannot hold the averages of '{head.name}' scaled down")
        signs.append(1 if weight > 0 else -1)
    need(len(signs) == len({*signs}), f"the average of '{head.name}' is cleared twice")
    need(min(numbers) >= 0 or -1 in signs, f"negative averages of '{head.name}' are not cleared")
    need(max(numbers) <= 0 or 1 in signs, f"positive averages of '{head.name}' are not cleared")


# === lemmas scratch, comparisons, clearing ================================================================


def prove_scratch(net: Net) -> dict[str, Any]:
    """A scratch value is a step function of one sum, 0 or 1: between whole numbers it stays in [0, 1]."""
    count = 0
    for block in net.different:
        if block.layer.second is not None:  # its first half is a step of its own (lemma thresholds)
            stray = block.raw["out1"][~net.of_variables]
            need(not stray.any(), f"the first half of block {block.number} writes what is no variable")
            continue
        scratch = {s.start for s in net.layout.values() if s.coding == "scratch"}
        written = np.nonzero(block.raw["out1"].any(axis=1))[0].tolist()
        for dim in written:
            need(dim in scratch, f"the first half of block {block.number} writes {net.where(dim)}, no scratch value")
        reads = block["in1"][~block.of_averages[0]]
        need(not reads[:, list(scratch)].any(), f"the first half of block {block.number} reads a scratch value")
        for dim, (direction, thresholds, values) in block.scratch.items():
            units = np.nonzero(block["out1"][dim])[0]
            need((block["in1"][units] == direction).all(), f"{net.where(dim)} is made from different sums")
            need(len({*thresholds.tolist()}) == len(thresholds), f"{net.where(dim)} has two steps at one place")
            need({*values.tolist()} <= {0, 1}, f"{net.where(dim)} is neither 0 nor 1")
            rough = any(direction[net.layout[name].slice].any() for name in block.rough)
            moved = trifle(block, direction[None], np.abs(thresholds).max(initial=0)[None])[0]
            need(not rough or moved <= 0.25, f"{net.format.name} rounds {net.where(dim)} by too much")
            count += 1
    return {"values": count}


def prove_comparisons(net: Net) -> dict[str, Any]:
    """A scratch value named for a comparison of words is that comparison, bit by bit from the highest down."""
    states = count = 0
    for block in net.different:
        for dim, name in block.predicates.items():
            terms, relation, threshold = block.layer.predicates[name]
            units = np.nonzero(block["out1"][dim])[0]
            bits = Bits(block, block["in1"][units], block["bias1"][units], block["out1"][dim, units])
            wanted = at_least(threshold) if relation == "≥" else equal_to(threshold)
            states += bits.prove(bits.weights(terms), 0, wanted, f"the comparison {name}")
            count += 1
    return {"comparisons": count, "states": states}


def prove_clearing(net: Net) -> dict[str, Any]:
    """Heads and scratch values are zero again after the block: x − clip(x) for every x in [0, 1]."""
    cleared = 0
    for block in net.different:
        out, into = block.raw["out2"], block.raw["in2"]
        used = {*block.scratch, *block.buckets}
        for s in net.layout.values():
            if s.name in net.program.variables or s.coding == "scalar":
                continue
            for dim in range(s.start, s.start + s.size):
                units = np.nonzero(out[dim])[0]
                must = s.name in block.layer.heads or dim in used
                need(len(units) <= 1 and (len(units) or not must), f"{net.where(dim)} is not cleared by one unit")
                for unit in units:
                    plain = np.nonzero(into[unit])[0].tolist() == [dim] and into[unit, dim] == 1
                    right = plain and out[dim, unit] == -1 and block.raw["bias2"][unit] == 0
                    need(right, f"{net.where(dim)} is written by a unit that does not clear it")
                    cleared += 1
        for dim in block.scalars:
            for unit in np.nonzero(out[dim])[0]:
                need(block.of_averages[1][unit], f"{net.where(dim)} is written by a unit that does not clear it")
    return {"dimensions": cleared}


# === lemma adders: a walk over bits, from the highest down ================================================


def bit_of(place: int) -> Callable[[int, int], int | None]:
    """A bit of a sum that lies between two ends, where both have it the same."""
    return lambda low, high: low >> place & 1 if low >> place == high >> place else None


def bit_in_range(place: int, size: int) -> Callable[[int, int], int | None]:
    """The same of a sum that must be in 0 … size − 1; −1: it is not, and nothing is asked."""

    def value(low: int, high: int) -> int | None:
        if high < 0 or low >= size:
            return -1
        return (low >> place & 1) if low >= 0 and high < size and low >> place == high >> place else None

    return value


def entry_of(table: int) -> Callable[[int, int], int | None]:
    """The entry of a table of bits at a sum that is its index."""
    return lambda low, high: table >> low & 1 if low == high else None


def at_least(threshold: int) -> Callable[[int, int], int | None]:
    return lambda low, high: 1 if low >= threshold else 0 if high < threshold else None


def equal_to(threshold: int) -> Callable[[int, int], int | None]:
    return lambda low, high: 0 if threshold < low or threshold > high else 1 if low == high else None


class Bits:
    """Units that read bits of words, and scratch values that are made from bits, and add to one dimension."""

    def __init__(
        self, block: Block, rows: Array, bias: Array, added: Array, base: int = 0, carries: Carries | None = None
    ) -> None:
        self.block, self.base, self.carries = block, base, carries or {}
        self.directions: dict[bytes, tuple[dict[int, int], list[tuple[int, int]]]] = {}
        for row, constant, column in zip(rows, bias.tolist(), added.tolist()):
            used = np.nonzero(row)[0].tolist()
            known = self.directions.setdefault(row.tobytes(), ({d: int(row[d]) for d in used}, []))
            known[1].append((1 - constant, column))
        for _, steps in self.directions.values():
            steps.sort()

    def prove(self, spec: dict[int, int], constant: int, wanted: Callable[[int, int], int | None], what: str) -> int:
        """base + Σ columns of the units that are on = wanted(constant + Σ spec, a sum of bits), for all bits."""
        place, used = self.places, self._read_carries()
        steps = [[], *(steps for _, steps in self.directions.values()), *(self.carries[dim][2:] for dim in used)]
        forms = [spec, *self._of_bits(), *(self.carries[dim][0] for dim in used)]
        involved = {d for weights in forms for d in weights}
        need(involved <= place.keys(), f"{what}: a unit reads what is no bit")
        order = sorted(involved, key=lambda d: (-abs(spec.get(d, 1 << place[d])), d))  # any order proves it
        left = [bounds_left(weights, order) for weights in forms]
        sums = (constant, *[0] * len(self.directions), *(self.carries[dim][1] for dim in used))
        start = self._settle(sums, self.base, 0, left, steps, wanted)
        states, count = {start} if start is not None else set(), 1
        for depth, dim in enumerate(order, start=1):
            moved = [weights.get(dim, 0) for weights in forms]
            nexts = (self._settle(*new, depth, left, steps, wanted) for new in with_either_bit(states, moved))
            after = {settled for settled in nexts if settled is not None}
            states, count = after, count + len(after)
            need(len(states) < 100_000, f"{what}: too many sums stay undecided")
        need(all(total == 0 for _, total in states), f"the units differ from {what}")
        return count

    def _read_carries(self) -> list[int]:
        """The scratch values that units read; `through` says which units, and with what weights."""
        units = [weights for weights, _ in self.directions.values()]
        used = [dim for dim in self.carries if any(dim in weights for weights in units)]
        self.through = [[(weights.get(dim, 0), 1 + u) for u, weights in enumerate(units)] for dim in used]
        return used

    def _of_bits(self) -> Iterator[dict[int, int]]:
        """What units read, without scratch values."""
        for weights, _ in self.directions.values():
            yield {dim: weight for dim, weight in weights.items() if dim not in self.carries}

    @cached_property
    def places(self) -> dict[int, int]:
        """Of all words: dimension → the bit's place."""
        return self.block.net.places_of_bits

    def weights(self, terms: dict[Atom, int], below: int | None = None) -> dict[int, int]:
        """Of a sum of bits: dimension → what its bit adds; multiples of 2^below are left out."""
        layout = self.block.net.layout
        spec = {layout[word].start + bit: weight for (word, bit), weight in terms.items()}
        return {dim: weight for dim, weight in spec.items() if (weight if below is None else weight % (1 << below))}

    def _settle(self, sums: Any, total: int, depth: int, left: Any, steps: Any, wanted: Any) -> Any:
        """Decide what the bits that are left cannot change; None where nothing is asked."""
        kept = list(sums)
        if kept[0] is not None:
            low, high = left[0][depth]
            value = wanted(kept[0] + low, kept[0] + high)
            if value == -1:
                return None
            if value is not None:
                kept[0], total = None, total - value
        first_carry = 1 + len(self.directions)
        low_more, high_more = self._settle_carries(kept, depth, left, steps)
        for d in range(1, first_carry):
            if kept[d] is not None:
                low, high = left[d][depth][0] + low_more[d], left[d][depth][1] + high_more[d]
                first = bisect_left(steps[d], (kept[d] + low + 1,))
                if first == len(steps[d]) or steps[d][first][0] > kept[d] + high:
                    total += sum(column for _, column in steps[d][:first])
                    kept[d] = None
        return tuple(kept), total

    def _settle_carries(self, kept: list[Any], depth: int, left: Any, steps: Any) -> tuple[list[int], list[int]]:
        """Add scratch values that the bits that are left cannot change; what the others may add to each unit's sum."""
        low_more, high_more = [0] * len(kept), [0] * len(kept)
        for number, readers in enumerate(self.through, start=1 + len(self.directions)):
            if kept[number] is None:
                continue
            thresholds, values = steps[number]
            low, high = left[number][depth]
            first, last = np.searchsorted(thresholds, [kept[number] + low, kept[number] + high], side="right").tolist()
            known = (values[first : last + 1] == values[first]).all()
            if known:
                kept[number] = None
            for weight, unit in readers:
                if known and kept[unit] is not None:
                    kept[unit] += weight * int(values[first])
                elif not known:
                    low_more[unit] += min(0, weight)
                    high_more[unit] += max(0, weight)
        return low_more, high_more


Carries = dict[int, Any]  # scratch dimension → (what each bit adds, constant, thresholds, values between them)


def with_either_bit(states: Iterable[Any], weights: list[int]) -> Iterator[tuple[Any, int]]:
    """Sums and totals after one more bit, which is 0 or 1; None are the sums that are decided."""
    for sums, total in states:
        for bit in (0, 1):
            yield tuple(None if s is None else s + bit * w for s, w in zip(sums, weights)), total


def bounds_left(weights: dict[int, int], order: Sequence[int]) -> list[tuple[int, int]]:
    """What the bits from each place on can still add."""
    bounds = [(0, 0)]
    for dim in reversed(order):
        low, high = bounds[-1]
        weight = weights.get(dim, 0)
        bounds.append((low + min(0, weight), high + max(0, weight)))
    return bounds[::-1]


# === lemma thresholds: the updates, case by case ==========================================================


def prove_updates(net: Net) -> dict[str, Any]:
    """For every variable the units compute the saved updates, for all values of everything that they depend on."""
    facts = {"variables": 0, "units": 0, "cases": 0, "states": 0}
    for block in net.different:
        for name in net.program.variables:
            for half in (1, 2) if block.layer.second is not None else (2,):
                cases = Cases(block, name, half)
                cases.prove()
                facts["variables"] += half == 2
                facts["units"] += len(cases.bias)
                facts["cases"] += cases.count
                facts["states"] += cases.states
    return facts


@dataclass
class Linear:
    """A linear function of atoms over their domains: base + factor · (a direction that others share)."""

    base: int
    factor: int
    key: Any
    tables: dict[Atom, Array]


class Cases:
    """The proof for one variable of a block: boxes of states are split until what units add can be compared.

    In a box every unit is settled, depends on one atom, or is a threshold on a sum of several (a *direction*).
    Directions are enumerated together, each sum once; what depends on one atom is compared atom by atom.
    """

    def __init__(self, block: Block, name: str, half: int = 2) -> None:
        self.block, self.name, self.net = block, name, block.net
        self.kind, self.segment = self.net.program.kinds[name], self.net.layout[name]
        step = block.layer.second if half == 2 and block.layer.second is not None else block.layer.updates
        mine = [update for update in step if update.variable == name]
        out = block[f"out{half}"][self.segment.slice]
        units = np.nonzero(out.any(axis=0))[0]
        self.rows, self.bias = block[f"in{half}"][units], block[f"bias{half}"][units]
        self.cleared = self._cleared(half)
        self.columns = out[:, units].T.astype(np.float64)  # (unit, own dimension)
        self.scratch = [d for d in block.scratch if d not in block.predicates and self.rows[:, d].any()]
        self.through = self.rows[:, self.scratch]
        asked = {h for h in block.layer.heads if self._depends_on(h)}.union(*(names_of(u.mentions) for u in mine))
        asked |= names_of(bit for name in asked & block.layer.predicates.keys() for bit in self._compared(name))
        reads = [
            Update("", guard, reads=h)
            for h, guard in block.layer.reads
            if h in asked and not self._defined(block.layer.heads[h])
        ]
        self.updates, self.count_updates = [*mine, *reads], len(mine)  # a reading changes nothing
        self._read_tables()
        self.seen: set[Any] = set()
        self.count = self.states = 0

    def _cleared(self, half: int) -> tuple[tuple[str, int], ...] | None:
        """Where heads have cleared the variable, if nothing has written it, or what says where, since."""
        layer, written = self.block.layer, set[str]()
        if half == 2 and layer.second is not None:
            by_units: Array = np.asarray(self.block.raw["out1"].any(axis=1))
            written = {name for name in self.net.program.variables if by_units[self.net.layout[name].slice].any()}
            written |= {update.variable for update in layer.updates}
        where = layer.clears.get(self.name)
        moved = written | {*layer.clears, *(base_of(move.into) or "" for move in layer.moves.values())}
        known = where is not None and self.name not in written and moved.isdisjoint(base_of(n) or "" for n, _ in where)
        return where if known else None

    def _compared(self, name: str) -> dict[Atom, int]:
        """The bits that a comparison adds up."""
        return self.block.layer.predicates[name][0]

    def _depends_on(self, head: str) -> bool:
        """Whether a unit of this variable reads a head, or a scratch value that is made from it."""
        dims = [d for atom in self.block.atoms_of(head) for d in dims_of(self.block, atom)]
        made = [self.block.scratch[d][0] for d in self.scratch]
        return bool(self.rows[:, dims].any()) or any(row[dims].any() for row in made)

    def _read_tables(self) -> None:
        """Tables of every atom that units, scratch values or updates read."""
        block, directions = self.block, np.array([self.block.scratch[d][0] for d in self.scratch])
        directions = directions.reshape(len(self.scratch), self.net.dim)
        self.low: dict[Atom, Array] = {}
        self.high: dict[Atom, Array] = {}
        self.into_scratch: dict[Atom, tuple[Array, Array]] = {}
        named = {atom for update in self.updates for n in update.mentions for atom in block.atoms_of(n)}
        for atom in block.atoms:
            low, high = block.table(atom, self.rows)
            one, two = block.table(atom, directions)
            own = atom == self.name or (self.cleared is not None and isinstance(atom, tuple) and atom[0] == self.name)
            if low.any() or high.any() or one.any() or two.any() or atom in named or own:
                self.low[atom], self.high[atom] = low, high
                self.into_scratch[atom] = (one, two)
        self.reads = {
            atom: np.any([self.low[atom].any(axis=1), self.high[atom].any(axis=1)], axis=0) for atom in self.low
        }
        # rounded sums are monotone: a single part in [0, 1] moves no bound, several parts of an average may exceed 1
        parts = [(self.rows[:, self.net.layout[name].slice] != 0).sum(axis=1) for name in block.rough]
        kinds = [self.net.program.kinds[name].name for name in block.rough]
        several = [count > 1 for count, kind in zip(parts, kinds) if kind != "word"]
        self.trifle = trifle(block, self.rows, self.bias) * np.any([np.zeros(len(self.rows), bool), *several], axis=0)
        self.scratch_trifle = np.ceil(trifle(block, directions, np.zeros(len(self.scratch)))).astype(int)

    def prove(self) -> None:
        read = {*np.nonzero(self.rows.any(axis=0))[0].tolist()} - {*self.scratch}
        for dim in read.difference(*(dims_of(self.block, atom) for atom in self.low)):
            raise Refused(f"a unit of '{self.name}' reads {self.net.where(dim)}, which it cannot")
        for update in self.updates:
            for name in update.mentions - self.low.keys() - self.block.layer.heads.keys():
                raise Refused(f"an update of '{self.name}' depends on '{name}', which no scratch value holds")
        whole = {atom: self._values(atom) for atom in self.low}
        every = np.arange(len(self.bias)), np.zeros(self.kind.size), tuple(range(len(self.updates)))
        stack: list[Any] = [(domain, *every, None) for domain in self._domains(whole)]
        while stack:
            self.count += 1
            need(self.count < MAX_CASES, f"'{self.name}' has too many cases")
            stack.extend(self._case(*stack.pop()))

    def _defined(self, head: Head) -> bool:
        """Whether a head always has a value: it selects one position at most, and has a default for none."""
        one = self.net.program.selects_one(head)
        return one and head.default is not None and head.kind.name != "num"

    def _values(self, atom: Atom) -> tuple[int, ...]:
        """Everything that an atom can be; undefined comes last."""
        head, every = self.block.head_of(atom), tuple(range(self.low[atom].shape[1]))
        return every[:-1] if head is not None and self._defined(head) and self.block.atoms[atom] in every else every

    def _domains(self, domain: Domain) -> Iterator[Domain]:
        """The boxes to begin with: where heads have cleared the variable, its old value is known."""
        if self.cleared is None:
            yield domain
            return
        rest = domain
        for name, index in self.cleared:
            part = part_of(name)
            atom = name if part is None else part[:2]
            others = tuple(i for i in rest.get(atom, range(self.block.atoms[atom])) if i != index)
            if others:
                yield {**rest, atom: others} if atom in rest else rest
            rest = {**rest, atom: (index,)} if atom in rest else rest
        old = dict.fromkeys((atom for atom in self.block.atoms_of(self.name) if atom in rest), (0,))
        yield {**rest, **old}

    # --- one box ---

    def _case(self, domain: Domain, units: Array, total: Array, alive: tuple[int, ...], parent: Any) -> Iterator[Any]:
        """Prove a box, or give the boxes that it is split into."""
        fixed, fuzzy = self._scratch_in(domain)
        low, high, blurred = self._bounds(domain, units, fixed, fuzzy)
        total = total + self.columns[units[low >= 1]].sum(axis=0)
        keep = (low < 1) & (high > 0)
        units, blurred = units[keep], blurred[keep]
        alive = tuple(u for u in alive if not self._dead(self.updates[u], domain))
        key, relevant = self._key(domain, units, total, alive)
        if key in self.seen:  # a box is never proved by itself
            need(key != parent, f"the proof of '{self.name}' does not come to an end")
            return
        self.seen.add(key)
        atom, parts = self._split(domain, units, blurred, alive)
        if atom is None:
            if any(self._raises(u, domain) for u in alive):
                return  # an undefined head is read
            joint = self._enumerate(domain, units, alive, fixed, fuzzy)
            if joint is not None and self._compare(domain, units, total, alive, fixed, joint):
                return
            atom, parts = self._halves(domain, relevant)
        yield from ((self._with(domain, atom, part), units, total, alive, key) for part in parts)

    def _split(self, domain: Domain, units: Array, blurred: Array, alive: tuple[int, ...]) -> tuple[Atom, Any]:
        """An atom to split, with the parts of its domain; None where the box may be compared."""
        if any(self._raises(u, domain) for u in alive):  # first: other heads may be undefined in any combination
            return None, ()
        for_updates: tuple[Atom, Any] | None = self._split_for_updates(domain, units, alive)
        if for_updates is not None:
            return for_updates
        atom = self._atom_to_split(domain, units, blurred)
        return (None, ()) if atom is None else (atom, self._classes(domain, units, atom))

    def _scratch_in(self, domain: Domain) -> tuple[dict[int, int], set[int]]:
        """Scratch values that are the same in all of a box, and those that an average may make fractional."""
        fixed, fuzzy = {}, set()
        for s, dim in enumerate(self.scratch):
            _, thresholds, values = self.block.scratch[dim]
            low = high = 0
            for atom, part in domain.items():
                one, two = self.into_scratch[atom]
                if one[s].any() or two[s].any():
                    chosen = list(part)
                    low, high = low + one[s, chosen].min(), high + two[s, chosen].max()
                    if (one[s, chosen] != two[s, chosen]).any():
                        fuzzy.add(s)
            margin = self.scratch_trifle[s] if s in fuzzy else 0
            first, last = np.searchsorted(thresholds, [low - margin, high + margin], side="right")
            if (values[first : last + 1] == values[first]).all():
                fixed[s] = int(values[first])
                fuzzy.discard(s)
        return fixed, fuzzy

    def _bounds(
        self, domain: Domain, units: Array, fixed: dict[int, int], fuzzy: set[int]
    ) -> tuple[Array, Array, Array]:
        """The least and most that units' sums can be in a box; and which of them an average blurs."""
        low = self.bias[units].astype(np.float64)
        high = low.copy()
        blurred = np.zeros(len(units), dtype=bool)
        for s in range(len(self.scratch)):
            weights = self.through[units, s]
            if s in fixed:
                low, high = low + fixed[s] * weights, high + fixed[s] * weights
            else:
                low, high = low + np.minimum(weights, 0), high + np.maximum(weights, 0)
                blurred |= (weights != 0) & (s in fuzzy)
        for atom, part in domain.items():
            if (mine := np.nonzero(self.reads[atom][units])[0]).size:
                one, two = (entries(table[atom], units[mine], part) for table in (self.low, self.high))
                low[mine], high[mine] = low[mine] + one.min(axis=1), high[mine] + two.max(axis=1)
                if self.low[atom] is not self.high[atom]:
                    blurred[mine] |= (one != two).any(axis=1)
        trifle = np.where(blurred, self.trifle[units], 0)
        return low - trifle, high + trifle, blurred

    def _dead(self, update: Update, domain: Domain) -> bool:
        for test in update.guard:
            if (
                test.single is None
                and all(len(domain[a]) == 1 for a in test.form.tables)
                and not self._vague(test, domain)
            ):
                value = test.form.constant + sum(table[domain[a][0]] for a, table in test.form.tables.items())
                if value not in test.allowed:
                    return True
        return any(
            test.single is not None
            and not self._undefined(test.single, domain)
            and test.indices.isdisjoint(domain[test.single])
            and self.block.atoms[test.single] not in domain[test.single]
            for test in update.guard
        )

    def _vague(self, test: Test, domain: Domain) -> bool:
        """Whether a test depends on a head that is undefined in all of a box."""
        return any(self._undefined(atom, domain) for atom in test.form.tables)

    def _undefined(self, atom: Atom, domain: Domain) -> bool:
        """Whether a head is undefined in all of a box."""
        return domain[atom] == (self.block.atoms[atom],)

    def _atoms_of(self, update: Update) -> Iterator[Atom]:
        compared = [n for n in self.block.layer.predicates if update.reads in names_of(self._compared(n))]
        for name in (*update.mentions, *compared):
            yield from (atom for atom in self.block.atoms_of(name) if atom in self.low)

    def _blind(self, u: int, domain: Domain) -> bool:
        """Whether an update or a reading depends on a head that is undefined: a reading then raises."""
        return any(self._undefined(atom, domain) for atom in self._atoms_of(self.updates[u]))

    def _raises(self, u: int, domain: Domain) -> bool:
        """Whether the program reads an undefined head in all of a box: the guard of the reading holds there."""
        if u < self.count_updates or not self._blind(u, domain) or self._open_tests(u, domain):
            return False
        return all(len(self._parts_by_test(test, domain)) <= 1 for test in self.updates[u].guard)

    def _open_tests(self, u: int, domain: Domain) -> list[Test]:
        """Tests on several atoms, all of them defined, that a box does not decide."""
        return [
            t
            for t in self.updates[u].guard
            if t.single is None and t.form.tables and not any(self._undefined(a, domain) for a in t.form.tables)
        ]

    def _key(self, domain: Domain, units: Array, total: Array, alive: tuple[int, ...]) -> tuple[Any, list[Atom]]:
        """What the rest of the proof depends on, and the atoms that it still depends on."""
        named = {atom for u in alive for atom in self._atoms_of(self.updates[u])}
        named.update(self.block.atoms_of(self.name))  # the old value: heads may have cleared it in some boxes
        constant, left = np.zeros(len(units)), []
        asked = [s for s in range(len(self.scratch)) if self.through[units, s].any()]
        for atom, part in domain.items():
            into = any(table[asked][:, list(part)].any() for table in self.into_scratch[atom])
            sharp = self.low[atom] is self.high[atom]
            if atom in named or into or not sharp or self._varies(atom, domain, units).any():
                left.append((atom, part))
            else:
                constant = constant + self.low[atom][units, part[0]]
        key = units.tobytes(), constant.tobytes(), total.tobytes(), alive, tuple(left)
        return key, [atom for atom, _ in left]

    # --- splitting ---

    def _split_for_updates(self, domain: Domain, units: Array, alive: tuple[int, ...]) -> tuple[Atom, Any] | None:
        """An atom on which a guard depends, with the parts of its domain: undefined, passing, failing."""
        for u in alive:
            for test in self.updates[u].guard:
                parts = self._parts_by_test(test, domain)
                if len(parts) > 1:
                    return test.single, parts
                few = test.single is None and len(test.form.tables) <= FEW_BITS
                if self.kind.name == "word" and few:  # its bits one by one: words are walked by bits
                    for atom in test.form.tables:
                        if isinstance(atom, tuple) and len(domain[atom]) > 1:
                            return atom, [(value,) for value in domain[atom]]
        named = {atom for u in alive for atom in self._atoms_of(self.updates[u])}
        for atom, part in domain.items():
            none = self.block.atoms[atom]
            if none in part and len(part) > 1 and (atom in named or self._blurs(atom, units)):
                return atom, [part[:-1], (none,)]
        return None

    def _parts_by_test(self, test: Test, domain: Domain) -> list[tuple[int, ...]]:
        """The values of a test's atom that pass it, that fail it, and undefined; of several atoms, none."""
        if test.single is None:
            return []
        part, none = domain[test.single], self.block.atoms[test.single]
        passing = tuple(i for i in part if i in test.indices)
        failing = tuple(i for i in part if i not in test.indices and i != none)
        return [p for p in (passing, failing, (none,) if none in part else ()) if p]

    def _blurs(self, atom: Atom, units: Array) -> bool:
        """Whether an atom is an average that units read, straight or through scratch values."""
        if self.low[atom] is self.high[atom]:
            return False
        return bool(self.reads[atom][units].any() or self.into_scratch[atom][1].any())

    def _with(self, domain: Domain, atom: Atom, part: tuple[int, ...]) -> Domain:
        """A box with fewer values of an atom; the bits of a head are undefined together."""
        changed = {atom: part}
        if isinstance(atom, tuple) and self.block.head_of(atom) is not None:
            undefined = part == (2,)
            changed |= {
                a: (2,) if undefined else tuple(i for i in domain[a] if i != 2)
                for a in domain
                if a[0] == atom[0] and a != atom and isinstance(a, tuple)
            }
        return {**domain, **changed}

    def _atom_to_split(self, domain: Domain, units: Array, blurred: Array) -> Atom | None:
        """An atom without which units that read several have fewer directions; None where there are few already."""
        varying = {atom: self._varies(atom, domain, units) for atom in domain}
        if self.kind.name == "word":  # words are walked bit by bit: everything else is split
            return next((a for a, which in varying.items() if not isinstance(a, tuple) and which.any()), None)
        if blurred.any():
            wide = [a for a, which in varying.items() if which[blurred].any()]
            return min(wide, key=lambda a: len(domain[a])) if wide else None
        several = sum((which.astype(int) for which in varying.values()), start=np.zeros(len(units), int)) > 1
        if not several.any():
            return None
        used = [atom for atom, which in varying.items() if which[several].any()]
        return self._atom_of_many_directions(domain, units, units[several], used)

    def _atom_of_many_directions(self, domain: Domain, units: Array, chosen: Array, used: list[Atom]) -> Atom | None:
        """Of the atoms that the chosen units read: the one without which they have the fewest directions."""
        tables = {a: normal(self.low[a][chosen][:, list(domain[a])]) for a in used}
        if self.name in used:  # its old value goes, whatever else decides
            return self.name
        if distinct([tables[a] for a in used]) <= 3:
            return None
        counts = {a: distinct([tables[b] for b in used if b != a]) for a in used}
        return min(used, key=lambda a: (counts[a] * (1 + len(self._classes(domain, units, a)) // 64), len(domain[a])))

    def _varies(self, atom: Atom, domain: Domain, units: Array) -> Array:
        """Which units' sums an atom can change in a box."""
        result = np.zeros(len(units), dtype=bool)
        if len(domain[atom]) > 1 and (mine := np.nonzero(self.reads[atom][units])[0]).size:
            table = entries(self.low[atom], units[mine], domain[atom])
            result[mine] = (table != table[:, :1]).any(axis=1)
        return result

    def _classes(self, domain: Domain, units: Array, atom: Atom) -> list[tuple[int, ...]]:
        """Values of an atom that do the same to every unit, scratch value and update."""
        part = list(domain[atom])
        rows = [entries(self.low[atom], units, part), self.into_scratch[atom][0][:, part]]
        for update in self.updates:
            forms = [test.form for test in update.guard] + ([update.form] if update.form else [])
            rows += [np.array([[*f.tables[atom], 0]])[:, part] for f in forms if atom in f.tables]
        _, where = np.unique(np.concatenate(rows), axis=1, return_inverse=True)
        groups: dict[int, list[int]] = {}
        for value, number in zip(part, where.ravel().tolist()):
            groups.setdefault(number, []).append(value)
        if len(groups) == 1:
            return [(value,) for value in part]
        return [tuple(values) for values in groups.values()]

    def _halves(self, domain: Domain, relevant: list[Atom]) -> tuple[Atom, Any]:
        """A box that could not be compared, in two; one state is a counterexample."""
        wide = [atom for atom in relevant if len(domain[atom]) > 1]
        if not wide or self.kind.name == "word":
            raise self._difference(domain)
        atom = min(wide, key=lambda a: len(domain[a]))
        half = len(domain[atom]) // 2
        return atom, (domain[atom][:half], domain[atom][half:])

    def _difference(self, domain: Domain, what: str = "") -> Refused:
        shown = []
        for atom, part in domain.items():
            if self._undefined(atom, domain):
                shown.append(f"{atom[0] if isinstance(atom, tuple) else atom} = undefined")
            elif len(part) == 1 and not isinstance(atom, tuple):
                kind = self.net.program.kinds.get(atom)
                shown.append(f"{atom} = {part[0] if kind is None else kind.values[part[0]]}")
        where = f" where {', '.join(dict.fromkeys(shown))}" if shown else ""
        weights = f"in {self.net.format.name} the weights change '{self.name}'"
        return Refused(f"{weights} differently from the saved updates{where}{what}")

    # --- comparing ---

    def _linear(self, tables: dict[Atom, Array], constant: int, domain: Domain) -> Linear:
        """A linear function over a box, so that those in one direction have the same key."""
        base, kept, factor = constant, {}, 0
        for atom in sorted(tables, key=str):
            entries = tables[atom][list(domain[atom])]
            base += int(entries[0])
            shifted = entries - entries[0]
            if shifted.any():
                kept[atom] = shifted
                factor = gcd(factor, int(np.gcd.reduce(shifted)))
        if not kept:
            return Linear(base, 0, None, {})
        first = next(iter(kept.values()))
        factor *= 1 if first[np.nonzero(first)[0][0]] > 0 else -1
        reduced = {atom: entries // factor for atom, entries in kept.items()}
        return Linear(base, factor, tuple((a, t.tobytes()) for a, t in reduced.items()), reduced)

    def _of_form(self, form: Form, domain: Domain) -> Linear:
        return self._linear({a: np.array([*t, 0]) for a, t in form.tables.items()}, form.constant, domain)

    def _of_unit(self, unit: int, domain: Domain) -> Linear:
        used = {atom: self.low[atom][unit] for atom in domain if self.reads[atom][unit]}
        return self._linear(used, int(self.bias[unit]), domain)

    def _enumerate(self, domain: Domain, units: Array, alive: tuple[int, ...], fixed: Any, fuzzy: Any) -> Joint | None:
        """All values that the directions of a box can have together; None where there are too many."""
        joint = Joint(domain)
        joint.fuzzy = {s for s in fuzzy if self.through[units, s].any()}
        for s in range(len(self.scratch)):
            if s not in fixed and s not in fuzzy and self.through[units, s].any() and s not in self.carries:
                tables = {a: self.into_scratch[a][0][s] for a in domain if self.into_scratch[a][0][s].any()}
                joint.scratch[s] = joint.add(self._linear(tables, 0, domain))
        for u in alive:
            self._add_update(u, domain, joint)
        if self.kind.name != "word":
            several = sum(self._varies(a, domain, units).astype(int) for a in domain) > 1
            for unit in units[several].tolist():
                joint.units[unit] = joint.add(self._of_unit(unit, domain))
        if not joint.enumerate():
            return None
        self.states += len(joint.codes)
        return joint

    def _add_update(self, u: int, domain: Domain, joint: Joint) -> None:
        """The directions of an update's open tests, and of its form where that is not plain."""
        joint.tests[u] = [(joint.add(self._of_form(t.form, domain)), t) for t in self._open_tests(u, domain)]
        form = self.updates[u].form
        if form is not None and not self._blind(u, domain):
            linear = self._of_form(form, domain)
            values = [linear.base + linear.factor * int(v) for t in linear.tables.values() for v in t]
            if len(linear.tables) > 1 or any(v not in self.updates[u].table for v in (linear.base, *values)):
                joint.forms[u] = joint.add(linear)
            else:
                joint.plain[u] = linear

    def _compare(
        self, domain: Domain, units: Array, total: Array, alive: tuple[int, ...], fixed: Any, joint: Joint
    ) -> bool:
        """Whether the units add what the updates ask for, in every state of a box."""
        columns = [joint.value(where) for where in joint.scratch.values()]
        marks = []
        for s, values in zip(joint.scratch, columns):
            _, thresholds, steps = self.block.scratch[self.scratch[s]]
            marks.append(steps[np.searchsorted(thresholds, values, side="right")])
        applies = {
            u: np.all([np.isin(joint.value(w), list(t.allowed)) for w, t in tests], axis=0) | np.zeros(joint.size, bool)
            for u, tests in joint.tests.items()
        }
        marks += [where.astype(np.int64) for where in applies.values()]
        grid = np.stack([np.zeros(joint.size, dtype=np.int64), *marks], axis=1)
        kinds, group = np.unique(grid, axis=0, return_inverse=True)
        for number, row in enumerate(kinds):
            known = {**fixed, **dict(zip(joint.scratch, row[1:].tolist()))}
            applied = [u for u, on in zip(applies, row[1 + len(joint.scratch) :].tolist()) if on]
            if any(u >= self.count_updates and self._blind(u, domain) for u in applied):
                continue
            applied = [u for u in applied if u < self.count_updates]
            if len(applied) > 1 or any(self._blind(u, domain) for u in applied):
                return False  # two updates at once, or one that asks an undefined head that nothing reads
            chosen = np.nonzero(group.ravel() == number)[0]
            same = self._words_agree if self.kind.name == "word" else self._codes_agree
            if not same(domain, units, total, known, applied, joint, chosen):
                return False
        return True

    def _settled(self, domain: Domain, units: Array, total: Array, known: Any, joint: Joint) -> Any:
        low, high, blurred = self._bounds(domain, units, known, joint.fuzzy)
        total = total + self.columns[units[low >= 1]].sum(axis=0)
        keep = (low < 1) & (high > 0)
        if joint.fuzzy:
            blurred = blurred | self.through[units][:, sorted(joint.fuzzy)].any(axis=1)
        shift = {s: value for s, value in known.items() if value}
        moved = np.array(
            [sum(self.through[u, s] * value for s, value in shift.items()) for u in units[keep]], dtype=int
        )
        return units[keep], moved, total, bool(blurred[keep].any())

    def _codes_agree(
        self, domain: Domain, units: Array, total: Array, known: Any, applied: list[int], joint: Joint, chosen: Array
    ) -> bool:
        """One-hot codes: what depends on one atom agrees atom by atom up to a constant, the rest sum by sum."""
        units, moved, total, blurred = self._settled(domain, units, total, known, joint)
        if blurred:
            return False
        size = self.kind.size
        alone: dict[Atom, Array] = {}
        rest = np.zeros((len(chosen), size))
        if applied:
            update = self.updates[applied[0]]
            alone[self.name] = np.eye(size)[list(domain[self.name])]  # the old value goes
            if applied[0] in joint.forms:
                values = joint.value(joint.forms[applied[0]])[chosen]
                if not all(v in update.table for v in np.unique(values).tolist()):
                    return False
                rest -= np.eye(size)[[update.table[v] for v in values.tolist()]]
            else:
                linear = joint.plain[applied[0]]
                if not linear.tables:
                    rest -= np.eye(size)[update.table[linear.base]]
                for atom, entries in linear.tables.items():
                    results = [update.table[linear.base + linear.factor * int(v)] for v in entries]
                    alone[atom] = alone.get(atom, 0) - np.eye(size)[results]
        several = np.array([u in joint.units for u in units.tolist()], dtype=bool)
        self._add_alone(domain, units[~several], moved[~several], alone)
        self._add_joint(units[several], moved[several], joint, chosen, rest)
        for table in alone.values():
            if (table != table[:1]).any():
                return False
            total = total + table[0]
        return not (rest + total).any()

    def _add_alone(self, domain: Domain, units: Array, moved: Array, alone: dict[Atom, Array]) -> None:
        """Units that depend on one atom: what they add for each of its values."""
        for atom in domain:
            which = self._varies(atom, domain, units)
            if not which.any():
                continue
            mine = units[which]
            sums = entries(self.low[atom], mine, domain[atom]) + (self.bias[mine] + moved[which])[:, None]
            for other in domain:
                if other != atom and self.reads[other][mine].any():
                    sums = sums + self.low[other][mine][:, domain[other][0]][:, None]
            if atom not in alone:
                alone[atom] = np.zeros((sums.shape[1], self.kind.size))
            writers, dims = np.nonzero(self.columns[mine])
            np.add.at(alone[atom].T, dims, (sums >= 1)[writers] * self.columns[mine][writers, dims][:, None])

    def _add_joint(self, units: Array, moved: Array, joint: Joint, chosen: Array, rest: Array) -> None:
        """Units on directions: each direction's step function of its sum."""
        groups: dict[int, list[tuple[int, int, int]]] = {}
        for unit, shift in zip(units.tolist(), moved.tolist()):
            number, linear = joint.units[unit]
            groups.setdefault(number, []).append((unit, linear.factor, linear.base + shift))
        for number, members in groups.items():
            values = joint.column(number)[chosen]
            points, places = np.unique(values, return_inverse=True)
            jumps = np.zeros((len(points) + 1, rest.shape[1]))
            for unit, factor, base in members:
                if factor > 0:  # on from (1 − base) / factor
                    jumps[np.searchsorted(points, -((base - 1) // factor))] += self.columns[unit]
                else:  # on up to (base − 1) / −factor
                    jumps[0] += self.columns[unit]
                    jumps[np.searchsorted(points, (base - 1) // -factor, side="right")] -= self.columns[unit]
            rest += np.cumsum(jumps, axis=0)[:-1][places.ravel()]

    def _words_agree(
        self, domain: Domain, units: Array, total: Array, known: Any, applied: list[int], joint: Joint, chosen: Array
    ) -> bool:
        """Words, bit by bit: the units' sum and the old bit are the bit of what is assigned, or stay the old bit."""
        units, moved, total, blurred = self._settled(domain, units, total, known, joint)
        if blurred:
            return False
        bias = self.bias[units] + moved
        rows = self.rows[units].copy()
        known_bits: dict[int, int] = {}  # dimension → the bit's value in all of the box
        for atom in domain:
            dims = dims_of(self.block, atom)
            if isinstance(atom, tuple) and domain[atom] in ((0,), (1,)):
                known_bits[dims[0]] = domain[atom][0]
                bias = bias + rows[:, dims[0]] * domain[atom][0]
                rows[:, dims] = 0
            elif not isinstance(atom, tuple):
                bias = bias + self.low[atom][units][:, domain[atom][0]] if self.reads[atom][units].any() else bias
                rows[:, dims] = 0
            elif self._undefined(atom, domain):
                rows[:, dims] = 0
        open_carries = {s for s in self.carries if s not in known}
        rows[:, [dim for s, dim in enumerate(self.scratch) if s not in open_carries]] = 0
        carries = {self.scratch[s]: self._carry(s, domain, known_bits) for s in open_carries}
        update = self.updates[applied[0]] if applied else None
        for bit in range(self.kind.size):
            mine = np.nonzero(self.columns[units, bit])[0]
            own, old = self.segment.start + bit, np.zeros((1, self.net.dim), dtype=np.int64)
            old[0, own] = own not in known_bits  # a unit that is on where the old bit is
            bits = Bits(
                self.block,
                np.concatenate([rows[mine], old]),
                np.concatenate([bias[mine], [known_bits.get(own, 0)]]),
                np.concatenate([np.rint(self.columns[units[mine], bit]).astype(np.int64), [1]]),
                int(total[bit]),
                carries,
            )
            wanted, spec, constant = self._assigned(update, bit, bits)
            constant += sum(weight * known_bits[dim] for dim, weight in spec.items() if dim in known_bits)
            spec = {dim: weight for dim, weight in spec.items() if dim not in known_bits}
            try:
                self.states += bits.prove(spec, constant, wanted, f"bit {bit} of '{self.name}'")
            except Refused as error:
                raise self._difference(domain, f" ({error})") from None
        return True

    @cached_property
    def carries(self) -> frozenset[int]:
        """Of a word: the scratch values that depend on bits of variables alone, such as the carries of limbs."""
        if self.kind.name != "word":
            return frozenset()
        heads = {
            dim for head in self.block.layer.heads for a in self.block.atoms_of(head) for dim in dims_of(self.block, a)
        }
        bits = self.net.places_of_bits.keys() - heads
        directions = [self.block.scratch[dim][0] for dim in self.scratch]
        made = {s for s, row in enumerate(directions) if bits.issuperset(np.nonzero(row)[0].tolist())}
        return frozenset(s for s in made if np.abs(directions[s]).max() > 1)  # the others count bits, as guards do

    def _carry(self, s: int, domain: Domain, known_bits: dict[int, int]) -> Any:
        """A scratch value as a function of bits, those that a box fixes in its constant."""
        direction, thresholds, values = self.block.scratch[self.scratch[s]]
        weights = {dim: int(direction[dim]) for dim in np.nonzero(direction)[0].tolist()}
        constant = sum(weight * known_bits[dim] for dim, weight in weights.items() if dim in known_bits)
        return {d: w for d, w in weights.items() if d not in known_bits}, constant, thresholds, values

    def _assigned(self, update: Update | None, bit: int, bits: Bits) -> Any:
        """What a bit becomes: (its value from bounds of a sum of bits, what each bit adds, the sum's constant)."""
        if update is None:
            return bit_of(bit), bits.weights({(self.name, b): 1 << b for b in range(bit + 1)}), 0
        size = self.kind.count if update.modulus is None else update.modulus
        if update.functions is not None:
            atoms, table = update.functions[bit] if bit < len(update.functions) else ((), 0)
            return entry_of(table), bits.weights({atom: 1 << k for k, atom in enumerate(atoms)}), 0
        if 1 << bit >= size:
            return (lambda low, high: 0), {}, 0
        if update.modulus is None and bit == self.kind.size - 1:
            return bit_in_range(bit, size), bits.weights(update.terms), update.constant
        return bit_of(bit), bits.weights(update.terms, bit + 1), update.constant % (2 << bit)


class Joint:
    """Several directions over one box, and every combination of values that they can have."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.directions: dict[Any, tuple[int, dict[Atom, Array]]] = {}
        self.scratch: dict[int, tuple[int, Linear]] = {}
        self.tests: dict[int, list[tuple[tuple[int, Linear], Test]]] = {}
        self.forms: dict[int, tuple[int, Linear]] = {}
        self.plain: dict[int, Linear] = {}
        self.units: dict[int, tuple[int, Linear]] = {}
        self.fuzzy: set[int] = set()
        self.codes: Array = np.zeros(1, dtype=np.int64)

    def add(self, linear: Linear) -> tuple[int, Linear]:
        """The number of a function's direction (−1: it is constant)."""
        if linear.key is None:
            return -1, linear
        number, _ = self.directions.setdefault(linear.key, (len(self.directions), linear.tables))
        return number, linear

    def enumerate(self) -> bool:
        """Sums of all directions as the digits of one code: atom after atom, equal codes once."""
        listed = [tables for _, tables in self.directions.values()]
        spans = [(sum(int(t.min()) for t in f.values()), sum(int(t.max()) for t in f.values())) for f in listed]
        self.strides, self.lows, stride = [], [low for low, _ in spans], 1
        for low, high in spans:
            self.strides.append(stride)
            stride *= high - low + 1
        if stride >= 1 << 62:
            return False
        self.spans = [high - low + 1 for low, high in spans]
        for atom in dict.fromkeys(a for tables in listed for a in tables):
            added = np.zeros(len(self.domain[atom]), dtype=np.int64)
            for tables, step in zip(listed, self.strides):
                added = added + tables.get(atom, 0) * step
            added = np.unique(added)
            if len(self.codes) * len(added) > MAX_STATES:
                return False
            self.codes = np.unique(self.codes[:, None] + added[None])
        self.codes = self.codes - sum(low * step for low, step in zip(self.lows, self.strides))
        return True

    @property
    def size(self) -> int:
        return len(self.codes)

    def column(self, number: int) -> Array:
        """A direction's sum in every combination."""
        if number < 0:
            return np.zeros(self.size, dtype=np.int64)
        result: Array = self.codes // self.strides[number] % self.spans[number] + self.lows[number]
        return result

    def value(self, where: tuple[int, Linear]) -> Array:
        """A function's value in every combination."""
        number, linear = where
        result: Array = linear.base + linear.factor * self.column(number)
        return result


def trifle(block: Block, rows: Array, bias: Array) -> Array:
    """How much rounding can move sums where a head holds an average: every addition, product and average is rounded,
    by 2^−precision of its size, and partial sums grow with each: (1 + 2^−precision)^terms − 1 of all sizes together
    (`trifle` in proofs/Attention.v; terms · 2^−precision is a little less)."""
    sizes = np.abs(bias) + most(block.net, rows)
    terms = np.full(len(rows), 2)
    for s in block.net.layout.values():
        used = (rows[:, s.slice] != 0).sum(axis=1)
        terms = terms + (np.minimum(used, 1) if s.coding == "one-hot" and s.name not in block.rough else used)
    growth = np.expm1(terms * np.log1p(2.0**-block.net.format.precision)) * (1 + 1e-9)  # of float64 itself
    result: Array = growth * sizes
    return result


def dims_of(block: Block, atom: Atom) -> list[int]:
    """The residual dimensions that an atom is read from."""
    layout = block.net.layout
    if isinstance(atom, tuple):
        return [layout[atom[0]].start + atom[1]]
    head = block.head_of(atom)
    if head is not None and head.kind.name == "num":
        return [dim for dim, (name, _) in block.buckets.items() if name == atom]
    s = layout[atom]
    return list(range(s.start, s.start + s.size))


def normal(table: Array) -> Array:
    """Tables without what is the same for all values."""
    return table - table[:, :1]


def distinct(tables: list[Array]) -> int:
    """How many units differ in these tables."""
    return len({row.tobytes() for row in np.concatenate(tables, axis=1)}) if tables else 1


# === lemma reads ==========================================================================================


def prove_reads(net: Net) -> dict[str, Any]:
    """What `check=True` evaluates are the program's read guards, and its moves where they are described."""
    guards = 0
    for block in net.different:
        layer, said = block.layer, block.layer.described
        need(len(said["reads"]) == len(layer.reads), "there is another number of read guards than reads")
        for entry, (name, guard) in zip(said["reads"], layer.reads):
            need_read_guard(block, entry, name, guard)
            guards += 1
        wanted = [described_move(net, head) for head in layer.moves.values()]
        found = [{key: value for key, value in entry.items() if key != "head"} for entry in said["moves"]]
        need(json.dumps(found, sort_keys=True) == json.dumps(wanted, sort_keys=True), "the moves are described wrongly")
    return {"guards": guards}


def need_read_guard(block: Block, entry: Any, name: str, guard: tuple[Test, ...]) -> None:
    """A described read guard is the program's: the same head, bounds, range and tests."""
    layer, net = block.layer, block.net
    head = layer.heads[name]
    need(entry["head"] == name, f"a read guard is for '{entry['head']}', not '{name}'")
    bounds = (0 if head.default is not None else 1, 1 << 30 if head.kind.name == "num" else 1)
    need((entry["at_least"], entry["at_most"]) == bounds, f"'{name}' is defined where it should not be")
    need(all(type(entry[key]) is int for key in ("at_least", "at_most")), f"'{name}' has no whole bounds")
    need(entry["range"] == average_range(net, head), f"'{name}' is checked for another range")
    for test in guard:
        need_read_before(layer, test, name, guard)
    need(len(entry["tests"]) == len(guard), f"a read guard of '{name}' has other tests")
    for given, test in zip(entry["tests"], guard):
        need(same_test(block, given, test), f"a read guard of '{name}' tests something else")


def need_read_before(layer: Layer, test: Test, name: str, guard: tuple[Test, ...]) -> None:
    """Every head that a test of a read guard depends on is read earlier, wherever that guard holds."""
    words = names_of(bit for n in test.form.tables if n in layer.predicates for bit in layer.predicates[n][0])
    for other in (names_of(test.form.tables) | words) & layer.heads.keys():
        before = [earlier for n, earlier in layer.reads[: layer.reads.index((name, guard))] if n == other]
        known = covered(layer, guard, before)
        need(known, f"'{name}' is read where '{other}' has a value, and '{other}' is not read before")


def covered(layer: Layer, guard: tuple[Test, ...], before: list[tuple[Test, ...]], splits: int = 6) -> bool:
    """Whether one of the guards `before` holds wherever `guard` does; cases of tests on variables are split."""
    if any(all(implied(test, guard) for test in earlier) for earlier in before):
        return True
    heard = layer.heads.keys() | layer.predicates.keys()
    open_ = (
        test
        for earlier in before
        for test in earlier
        if not implied(test, guard)
        and heard.isdisjoint(names_of(test.form.tables))
        and prod(map(len, test.form.tables.values())) <= MOST_SUMS
    )
    test = next(open_, None) if splits else None
    if test is None:
        return False
    every = {test.form.constant}
    for table in test.form.tables.values():
        every = {total + entry for total in every for entry in table}
    return all(
        not allowed or covered(layer, (*guard, Test(test.form, frozenset(allowed))), before, splits - 1)
        for allowed in (every & test.allowed, every - test.allowed)
    )


def implied(test: Test, guard: Iterable[Test]) -> bool:
    """Whether a guard has a test on the same form that is as strong."""
    return any(t.form == test.form and t.allowed <= test.allowed for t in guard)


def average_range(net: Net, head: Head) -> list[float] | None:
    """The dimension of an average, and its declared values' range widened by half a gap."""
    if head.kind.name != "num":
        return None
    s, v = net.layout[head.name], head.kind.values
    first, last = (v[1] - v[0], v[-1] - v[-2]) if len(v) > 1 else (Fraction(1), Fraction(1))
    last = Fraction(1, len(v) * (len(v) + 1)) if head.counts else last
    low, high = (v[0] - first / 2) * s.scale, (v[-1] + last / 2) * s.scale
    slack = Fraction(1, 10**6) * max(abs(low), abs(high))
    numbers, error = averaged(net, head), Fraction(2, 1 << net.format.precision)
    length = (net.longest or 1) + head.counts
    under, over = neighbours(low, length), neighbours(high, length)
    outside = under[0] if under[0] < low else -neighbours(-low, length)[1]
    need(
        min(numbers) >= low or outside + abs(outside) * error < low - slack,
        f"'{head.name}' can be just below its range",
    )
    need(
        max(numbers) <= high or over[1] - abs(over[1]) * error > high + slack,
        f"'{head.name}' can be just above its range",
    )
    return [s.start, float(low), float(high)]


def same_test(block: Block, given: Any, test: Test) -> bool:
    """A linear function of the residual stream and its allowed values against a test of a guard."""
    row = np.zeros((1, block.net.dim), dtype=np.int64)
    need(len(given["dims"]) == len(given["weights"]), "a read guard has dimensions without weights")
    for dim, weight in zip(given["dims"], given["weights"]):
        row[0, integer(dim, 0, block.net.dim - 1, "a dimension")] += integer(weight, what="a weight")
    constant, allowed = integer(given["constant"]), {integer(v) for v in given["allowed"]}
    tables = {}
    for atom in test.form.tables:
        if atom not in block.atoms:
            return False
        tables[atom] = block.table(atom, row)[0][0][: block.atoms[atom]].tolist()
        row[0, dims_of(block, atom)] = 0
    if row.any():
        return False
    if test.single is not None:
        passing = {i for i, entry in enumerate(tables[test.single]) if constant + entry in allowed}
        return passing == test.indices
    same = all(
        [t - table[0] for t in table] == [t - test.form.tables[a][0] for t in test.form.tables[a]]
        for a, table in tables.items()
    )
    shift = constant + sum(table[0] for table in tables.values())
    wanted = test.form.constant + sum(table[0] for table in test.form.tables.values())
    return same and {v - shift for v in allowed} == {v - wanted for v in test.allowed}


def described_move(net: Net, head: Head) -> dict[str, Any]:
    layout, into = net.layout, head.into or ""
    replaced = None
    if head.replacing is not None:
        s = layout[head.replacing]
        replaced = {"into": into, "variable": head.replacing, "into_start": layout[into].start, "start": s.start}
        replaced["size"] = s.size
    where = [layout[name].start + (index if name in layout else 0) for name, index in head.where]
    return {"name": head.name, "where": where, "default": head.default is not None, "replacing": replaced}


# === the whole ============================================================================================

LEMMAS: dict[str, tuple[Callable[[Net], dict[str, Any]], str]] = {
    "shapes": (prove_shapes, "config, block attributes and tensor shapes are those of the program"),
    "numbers": (prove_numbers, "the format holds every entry; entries are whole, or powers of two that clear averages"),
    "layout": (prove_layout, "every residual dimension codes one value of one variable, head or scratch value"),
    "exact-sums": (prove_exact_sums, "every sum of the MLP blocks is exact in any order of summation"),
    "embeddings": (prove_embeddings, "the embeddings add up to the first values, for every token and position"),
    "hard-attention": (prove_hard_attention, "heads select as declared, by gaps beyond what exp can hold"),
    "copies": (prove_copies, "heads add the value they select, or their default, and nothing else"),
    "averages": (prove_averages, "rounded averages fall into the right bucket and are cleared"),
    "scratch": (prove_scratch, "scratch values are 0 or 1, and between them where a head is undefined"),
    "comparisons": (prove_comparisons, "comparisons of words hold for all bits"),
    "clearing": (prove_clearing, "heads and scratch values are zero again after every block"),
    "thresholds": (prove_updates, "for every variable the units compute the saved updates, for all values"),
    "reads": (prove_reads, "the guards that check=True evaluates are the program's"),
    "halting": (prove_halting, "it halts exactly where every halt variable has its value"),
    "output": (prove_output, "the output that is read is the value of the output variable"),
    "decoding": (prove_decoding, "a decoder's earlier positions do not change when tokens are appended"),
}


@dataclass(frozen=True)
class Lemma:
    """One statement, and the numbers that made it true."""

    name: str
    statement: str
    numbers: dict[str, Any]

    def __str__(self) -> str:
        shown = ", ".join(
            f"{key} {value:,}" if type(value) is int else f"{key} {value}" for key, value in self.numbers.items()
        )
        return f"{self.name}: {self.statement} ({shown})"

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "statement": self.statement, "numbers": self.numbers}


@dataclass(frozen=True)
class Verdict:
    """What was shown of a network; where it does not hold, why not."""

    holds: bool
    program: str
    dtype: str
    max_length: int | None
    lemmas: tuple[Lemma, ...]
    reason: str | None
    statement: str

    def to_json(self) -> dict[str, Any]:
        lemmas = [lemma.to_json() for lemma in self.lemmas]
        parts = {"program": self.program, "holds": self.holds, "dtype": self.dtype, "max_length": self.max_length}
        return {**parts, "statement": self.statement, "reason": self.reason, "lemmas": lemmas}


BROKEN = (KeyError, ValueError, TypeError, IndexError, AttributeError, ArithmeticError, MemoryError, RecursionError)


def check(saved: Saved, dtype: str | None = None) -> Verdict:
    """Prove every lemma of a network in a number format (its own, or `dtype`), or say which one fails."""
    lemmas: list[Lemma] = []
    program, name = "?", dtype or "?"
    try:
        name = dtype or saved.content["dtype"]
        program = str(saved.content["config"]["name"])
        need(name in FORMATS, f"there is no number format {name!r}; there are {', '.join(FORMATS)}")
        need(saved.content["kind"] == "transformer", "this is no transformer of an attention program")
        net = Net(saved, FORMATS[name])
        for label, (prove, statement) in LEMMAS.items():
            try:
                lemmas.append(Lemma(label, statement, prove(net)))
            except Refused as error:
                raise Refused(f"{error} (lemma {label})") from None
        limit = length_limit(net)
    except Refused as error:
        return Verdict(False, program, name, None, tuple(lemmas), str(error), "")
    except BROKEN as error:
        why = f"what is saved with the network is malformed ({type(error).__name__}: {error})"
        return Verdict(False, program, name, None, tuple(lemmas), why, "")
    return Verdict(True, program, name, limit, tuple(lemmas), None, statement_of(net, limit))


def length_limit(net: Net) -> int | None:
    """The longest input: the network's own limit, and what a softmax over several selected keys adds up exactly."""
    heads = [head for layer in net.program.layers for head in (*layer.heads.values(), *layer.moves.values())]
    if all(head.offsets is not None and len(head.offsets) == 1 and head.key is None for head in heads):
        return net.longest
    return min(net.longest or net.format.whole, net.format.whole)


def statement_of(net: Net, limit: int | None) -> str:
    """What follows from the lemmas together (lemma `composition`)."""
    inputs = "every input" if limit is None else f"every input of at most {limit:,} tokens"
    count = net.config["layers"]
    runs = f"for {count} layer{'' if count == 1 else 's'}"
    runs = "until every position has its halt value" if net.config["halts"] else runs
    if net.config["shape"] == "decoder":
        runs += " a token (the limit counts appended tokens)"
    heads = [head for layer in net.program.layers for head in (*layer.heads.values(), *layer.moves.values())]
    excluded = "no undefined head is read"
    if any(head.replacing is not None for head in heads):
        excluded += ", no head replaces a value that is not there"
    if any(head.kind.name == "num" for head in heads):
        excluded += ", no average or count leaves its values"
    steps = [update for layer in net.program.layers for update in (*layer.updates, *(layer.second or ()))]
    if any(update.terms and update.modulus is None for update in steps):
        excluded += ", no sum leaves its word"
    return (
        f"on {inputs} on which {excluded}, the network in {net.format.name} computes in every layer "
        f"exactly the saved guarded updates of '{net.program.name}', run {runs}"
    )


def run_checker(
    arguments: Iterable[str] | None,
    module: str,
    what: str,
    formats: Sequence[str],
    read: Callable[[str], Any],
    prove: Callable[[Any, str | None], Verdict],
) -> int:
    """The command line of a checker: read a folder, prove it, print the lemmas; 0 where it holds, 1, or 2."""
    import argparse

    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=f"Prove a saved {what} exact.")
    parser.add_argument("folder", help="the folder that net.save(folder) wrote, for example parity/")
    parser.add_argument("--dtype", choices=formats, help="the number format; by default the network's own")
    parser.add_argument("--json", action="store_true", help="print the lemmas and their numbers as JSON")
    given = parser.parse_args(None if arguments is None else list(arguments))
    try:
        saved = read(given.folder)
    except Exception as error:  # safetensors raises its own
        print(f"{given.folder}: cannot be read ({error})", file=sys.stderr)
        return 2
    verdict = prove(saved, given.dtype)
    if given.json:
        print(json.dumps(verdict.to_json(), ensure_ascii=False, indent=2))
    else:
        for lemma in verdict.lemmas:
            print(f"  {lemma}")
        print(f"proved: {verdict.statement}" if verdict.holds else f"refused: {verdict.reason}")
    return 0 if verdict.holds else 1


def main(arguments: Iterable[str] | None = None) -> int:
    """Check a saved folder from the command line, as the first lines of this file show."""
    return run_checker(arguments, "kleene.checker", "transformer", [*FORMATS], read_folder, check)


if __name__ == "__main__":
    sys.exit(main())
