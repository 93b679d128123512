"""Write a saved transformer as the text that the extracted checker reads (recheck.ml).

    python proofs/export.py DIR FILE

It uses the standard library, NumPy and safetensors, and nothing of Kleene. What it does is trusted: it reads the
tensors and the program as data, says which residual dimensions each value switches on, and which rows belong to which
half.
Everything that follows (tables, sums, the walk, the comparison) is done by functions that Coq proved.

In scope: the MLP blocks as far as they write categorical variables, the clearing of heads and scratch values, and heads
that select by categorical variables.
Taken as given: the buckets of averages and comparisons of words, which are variables with values of their own here,
and what heads copy.
Left out, and listed in the text: variables that are words or depend on bits of words, heads that select by words, heads
that write into variables, heads that prefer some of the positions that match (latest, earliest, nearest), heads that
count, blocks whose heads clear variables or that do two steps.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from safetensors import deserialize

# exp(−gap) is below half of the smallest number of the format (proofs/Attention.v, gaps_of_the_formats)
GAPS = {"float64": 747, "float32": 105, "bfloat16": 94, "float16": 19}
TYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": np.uint16}
Text = list[Any]


def tensors_of(path: Path) -> dict[str, np.ndarray]:
    """Every tensor in float64."""
    found = {}
    for name, entry in deserialize(path.read_bytes()):
        raw = np.frombuffer(bytes(entry["data"]), dtype=TYPES[entry["dtype"]]).reshape(entry["shape"])
        raw = (raw.astype(np.uint32) << 16).view(np.float32) if entry["dtype"] == "BF16" else raw
        found[name] = raw.astype(np.float64)
    return found


def whole(values: np.ndarray) -> np.ndarray:
    """Whole numbers of 62 bits; anything else cannot be exported."""
    if not (np.isfinite(values).all() and (values == np.rint(values)).all()):
        raise ValueError("a weight is no whole number")
    if (np.abs(values) >= 1 << 62).any():
        raise ValueError("a weight is too large")
    return values.astype(np.int64)


def listed(items: Iterable[Any]) -> Text:
    """A list: its length, then its items."""
    made = [item if isinstance(item, list) else [item] for item in items]
    return [len(made), *(word for item in made for word in item)]


def sparse(row: np.ndarray) -> Text:
    return listed([int(d), int(row[d])] for d in np.nonzero(row)[0])


def changed(description: Any, program: Any) -> set[str]:
    """The variables that some step, some head or some clearing changes."""
    parts = [p["updates"] for p in description.get("cycle", [description])]
    steps = [step for part in parts for step in (part, part.get("second", {}))]
    names = {u["variable"] for step in steps for u in step.get("updates", [])}
    names |= {m["into"] for m in program["moves"].values()}
    return names | {name for clear in program.get("clears", {}).values() for name in clear["variables"]}


class Block:
    """One block of the network, with the part of the program that it is for."""

    def __init__(self, content: Any, tensors: dict[str, np.ndarray], number: int) -> None:
        program, description = content["description"]["program"], content["description"]
        cycle = program["cycle"]
        layer = number % len(cycle) if cycle else 0
        self.part = description["cycle"][layer] if cycle else description
        names = {*cycle[layer][1]} if cycle else {*program["heads"], *program["moves"]}
        self.program, self.tensors, self.number = program, tensors, number
        self.variables = program["variables"]
        self.heads = {n: h for n, h in program["heads"].items() if n in names}
        self.layout = {s["name"]: s for s in description["layout"]}
        self.dim, self.gap = content["config"]["dim"], GAPS[content["dtype"]]
        self.shape = content["config"]["cycle"][number % len(content["config"]["cycle"])]
        self.changed = changed(description, program)
        self.clears = "second" in self.part["updates"] or any(name in names for name in program.get("clears", {}))
        self.left_out: list[tuple[str, str]] = []
        if self.clears:
            self.leave_out("block")
        for name in (name for name in program["moves"] if name in names):
            self.leave_out("move", name)
        self._halves()
        self._atoms()

    def leave_out(self, kind: str, name: str = "") -> None:
        """Note that something is not rechecked."""
        label = quote(f"{self.number}/{name}" if name else str(self.number), safe="/")
        if (kind, label) not in self.left_out:
            self.left_out.append((kind, label))

    def tensor(self, name: str) -> np.ndarray:
        return self.tensors[f"blocks.{self.number}.{name}"]

    def dims(self, name: str) -> list[int]:
        s = self.layout[name]
        return list(range(s["start"], s["start"] + s["size"]))

    def _halves(self) -> None:
        """Rows, biases and columns of both halves, without the units that read averages or compare words."""
        scalars = [s["start"] for s in self.layout.values() if s["coding"] == "scalar"]
        named = {describe(*entry) for entry in self.part["updates"]["predicates"]}
        self.predicates = {n: self.layout[n]["start"] for n in named if n in self.layout}
        self.halves = []
        for half in "12":
            reads, bias, writes = (self.tensor(name + half) for name in ("in", "bias", "out"))
            averages = np.isin(np.arange(self.dim), scalars)
            targets = averages if half == "2" else np.isin(np.arange(self.dim), self.scratch)
            aside = (reads[:, averages] != 0).any(axis=1) & ~(reads[:, ~averages] != 0).any(axis=1)
            keep = ~(aside & ~(writes[~targets] != 0).any(axis=0))  # they only clear averages, or only make buckets
            if half == "1":
                self.bucket_dims = sorted(np.nonzero(writes[:, ~keep].any(axis=1))[0].tolist())
                keep &= ~(writes[list(self.predicates.values())] != 0).any(axis=0)
            self.halves.append((whole(reads[keep]), whole(bias[keep]), whole(writes[:, keep])))

    def selects_one(self, head: Any) -> bool:
        """Whether it selects at most one position: by one offset, a preference, or a key that is the position."""
        if head.get("prefer") or (head["offsets"] is not None and len(head["offsets"]) == 1):
            return True
        if head["key"] is None or self.variables[head["query"]]["kind"] == "subset":
            return False
        places = self.variables[head["key"]]["by_position"]
        return places is not None and len({*places}) == len(places) and head["key"] not in self.changed

    def _atoms(self) -> None:
        """Everything with finitely many values: name → (kind, dimensions that each value switches on)."""
        self.atoms: dict[str, tuple[str, list[list[int]]]] = {}
        for name, variable in self.variables.items():
            if variable["kind"] != "word":
                self.atoms[name] = ("variable", [[d] for d in self.dims(name)])
        for name, head in self.heads.items():
            if head["kind"] == "num":
                values = [Fraction(v) for v in head["values"]]
                if any(a + b < 0 for a, b in pairwise(values)):
                    continue  # where it selects nothing it is not its first value
                steps = [self.layout.get(f"{name}≥{v}", {"start": -1})["start"] for v in head["values"][1:]]
                on = [[d for d in steps[:k] if d in self.bucket_dims] for k in range(len(values))]
                self.atoms[name] = ("head", on)
            elif head["kind"] != "word":
                kind = "head" if self.selects_one(head) else "averaging"
                self.atoms[name] = (kind, [[d] for d in self.dims(name)])
        for name, dim in self.predicates.items():
            self.atoms[name] = ("variable", [[], [dim]])
        self.number_of = {name: k for k, name in enumerate(self.atoms)}

    @property
    def idle(self) -> list[int]:
        """Scratch values that this block does not make, and heads of other layers: zero here."""
        made = {*np.nonzero(self.tensor("out1").any(axis=1))[0].tolist()}
        zero = []
        for name, s in self.layout.items():
            if s["coding"] == "scratch" and s["start"] not in made:
                zero.append(s["start"])
            elif s["coding"] != "scratch" and name not in self.variables and name not in self.heads:
                zero += self.dims(name)
        return zero

    @property
    def scratch(self) -> list[int]:
        """Dimensions that the first half may write."""
        return [s["start"] for s in self.layout.values() if s["coding"] == "scratch"]

    @property
    def cleared(self) -> list[int]:
        """Dimensions that the second half must clear: heads (but averages) and the scratch values of this block."""
        made = {*np.nonzero(self.tensor("out1").any(axis=1))[0].tolist()}
        heads = [d for name in self.heads if self.layout[name]["coding"] != "scalar" for d in self.dims(name)]
        return [*heads, *(d for d in self.scratch if d in made)]

    # --- updates ---

    def form(self, number: int) -> tuple[int, list[list[int]], int]:
        """A form in whole numbers: constant, a table for each atom (empty: not mentioned), and what made it whole."""
        constant, terms = self.part["updates"]["forms"][number]
        numbers = [Fraction(constant), *(Fraction(v) for table in terms.values() for v in table)]
        scale = int(np.lcm.reduce([n.denominator for n in numbers]))
        tables: list[list[int]] = [[] for _ in self.atoms]
        for name, table in terms.items():
            if any(Fraction(v) for v in table):
                tables[self.number_of[name]] = [int(Fraction(v) * scale) for v in table]
        return int(Fraction(constant) * scale), tables, scale

    def tests(self, guard: Any) -> list[Text]:
        made = []
        for number, allowed in guard:
            constant, tables, scale = self.form(number)
            values = [Fraction(v) * scale for v in allowed]
            made.append([constant, *listed(map(listed, tables)), *listed(int(v) for v in values if v.denominator == 1)])
        return made

    def update(self, entry: Any) -> Text:
        constant, tables, scale = self.form(entry["form"])
        results = [(Fraction(v) * scale, i) for v, i in entry["table"]]
        table = listed([int(v), i] for v, i in results if v.denominator == 1)
        return [*listed(self.tests(entry["guard"])), constant, *listed(map(listed, tables)), *table]

    def reading(self, entry: Any) -> Text:
        """A head that `step` reads under a guard: an update of nothing that mentions the head."""
        tables: list[list[int]] = [[] for _ in self.atoms]
        tables[self.number_of[entry["head"]]] = [0] * len(self.atoms[entry["head"]][1])
        return [*listed(self.tests(entry["guard"])), 0, *listed(map(listed, tables)), 0]

    def mentioned(self, guard: Any, form: int | None = None) -> list[str]:
        numbers = [number for number, _ in guard] + ([] if form is None else [form])
        forms = [self.part["updates"]["forms"][n][1] for n in numbers]
        return [name for terms in forms for name, table in terms.items() if any(Fraction(v) for v in table)]

    def order(self, name: str, updates: list[Any], reads: list[Any]) -> list[str]:
        """The walk's order: guards on single variables, other guards, forms, what units read besides, the variable."""
        names: dict[str, None] = {}
        for single in (True, False):
            for entry in [*updates, *reads]:
                for test in entry["guard"]:
                    mentioned = self.mentioned([test])
                    if (len(mentioned) == 1) == single:
                        names |= dict.fromkeys(mentioned)
        for entry in updates:
            names |= dict.fromkeys(self.mentioned([], entry["form"]))
        names |= dict.fromkeys(entry["head"] for entry in reads)
        (in1, _, out1), (in2, _, out2) = self.halves
        rows = in2[(out2[self.dims(name)] != 0).any(axis=0)]
        used = (rows != 0).any(axis=0)
        first = (out1[used] != 0).any(axis=0)
        used |= (in1[first] != 0).any(axis=0)
        for atom, (_, values) in self.atoms.items():
            if any(used[d] for dims in values for d in dims):
                names.setdefault(atom)
        names.pop(name, None)
        return [*names, name]

    # --- the text ---

    def text(self) -> Text:
        words: Text = ["block"]
        for reads, bias, writes in self.halves:
            words += listed([*sparse(reads[u]), int(bias[u]), *sparse(writes[:, u])] for u in range(len(bias)))
        words += listed([kind, *listed(map(listed, values))] for kind, values in self.atoms.values())
        words += [*listed(self.idle), str(self.number), *listed(self.cleared), *listed(self.scratch)]
        words += listed(filter(None, map(self.variable, self.variables)))
        return words + listed(filter(None, (self.head(h) for h in range(len(self.shape["heads"])))))

    def variable(self, name: str) -> Text | None:
        updates = [u for u in self.part["updates"]["updates"] if u["variable"] == name]
        reads = self.part["updates"]["reads"]
        asked = [n for entry in [*updates, *reads] for n in self.mentioned(entry["guard"], entry.get("form"))]
        asked += [entry["head"] for entry in reads]
        if name not in self.atoms or any(n not in self.atoms for n in asked):
            self.leave_out("variable", name)
            return None
        order = [self.number_of[n] for n in self.order(name, updates, reads)]
        label = quote(f"{self.number}/{name}", safe="/")
        head = [label, self.number_of[name], *listed(order), *listed(map(self.update, updates))]
        return head + listed(map(self.reading, reads))

    def head(self, h: int) -> Text | None:
        label = self.shape["heads"][h]
        names = [name for name in label.split("+") if name in self.heads]
        selections = {
            json.dumps([self.heads[n][k] for k in ("query", "key", "offsets", "where", "among")]) for n in names
        }
        if len(selections) != 1 or any(self.heads[n].get("prefer") or self.heads[n].get("counts") for n in names):
            self.leave_out("head", label)
            return None
        query, key, offsets, where, among = json.loads(selections.pop())
        sides, limits = [], []
        read: list[list[str]] = []
        for tensor, own, limit in (("query", query, where), ("key", key, among)):
            names = self.names_read(h, tensor, {own, *dict(limit)})
            if any(self.variables[n]["kind"] == "word" for n in names):
                self.leave_out("head", label)
                return None
            read.append(names)
            limits.append([[names.index(n), i] for n, i in limit])
            sides.append(self.side(h, tensor, names, limits[-1]))
        table = [] if query is None else self.codes(query)
        matched: Text = [0]
        if query is not None:
            matched = [1, read[0].index(query), read[1].index(key), *listed(map(listed, table))]
        window = self.shape["window"]
        scores = whole(self.tensor("relative")[h])
        allowed = [offsets is None or o in offsets for o in range(-window - 1, window + 2)]
        null = int(whole(self.tensor("null_score"))[h])
        best = self.best(h, read, limits, (query, key, table), scores, allowed)
        distances = listed([int(s), int(a)] for s, a in zip(scores, allowed))
        name = quote(f"{self.number}/{label}", safe="/")
        return [
            name,
            null + self.gap if best is None else best,
            self.gap,
            null,
            *sides[0],
            *sides[1],
            *matched,
            *distances,
        ]

    def names_read(self, h: int, tensor: str, own: set[str]) -> list[str]:
        """The variables that one side of a head reads, or is to read."""
        used = (self.tensor(tensor)[h] != 0).any(axis=0)
        return [n for n in self.variables if n in own or used[self.dims(n)].any()]

    def side(self, h: int, tensor: str, names: list[str], limits: list[list[int]]) -> Text:
        """One side of a head: its rows with their biases, the dimensions that they read, and what limits it."""
        rows, bias = whole(self.tensor(tensor)[h]), whole(self.tensor(f"{tensor}_bias")[h])
        places = listed([*sparse(row), int(b)] for row, b in zip(rows, bias))
        dims = listed(listed(listed([d]) for d in self.dims(n)) for n in names)
        return [*places, *dims, *listed(limits)]

    def codes(self, query: str) -> list[list[int]]:
        """The keys that each value of a query matches."""
        asked = self.variables[query]
        sets = asked["values"] if asked["kind"] == "subset" else [[v] for v in range(asked["range"])]
        return [sorted(members) for members in sets]

    def best(self, h: int, read: Any, limits: Any, match: Any, scores: np.ndarray, allowed: list[bool]) -> int | None:
        """The score of one selected position: a claim, which the checker compares with all others."""
        query, key, table = match
        pair = next(((q, ks[0]) for q, ks in enumerate(table) if ks), None)
        if (query is not None and pair is None) or not any(allowed):
            return None
        vectors = []
        for tensor, names, limit, own, value in (
            ("query", read[0], limits[0], query, pair and pair[0]),
            ("key", read[1], limits[1], key, pair and pair[1]),
        ):
            x = np.zeros(self.dim, dtype=np.int64)
            wanted = {names[k]: v for k, v in limit}
            for name in names:
                x[self.dims(name)[value if name == own and value is not None else wanted.get(name, 0)]] = 1
            vectors.append(whole(self.tensor(tensor)[h]) @ x + whole(self.tensor(f"{tensor}_bias")[h]))
        return int(vectors[0] @ vectors[1]) + int(scores[allowed.index(True)])


def describe(terms: Any, relation: str, threshold: int) -> str:
    """The name of a comparison of words."""
    shown = " ".join(f"{'−' if c < 0 else '+'} {n if abs(c) == 1 else f'{abs(c)}·{n}'}" for n, c in terms)
    return f"[{shown.removeprefix('+ ') or '0'} {relation} {threshold}]"


def export(folder: str | Path) -> tuple[str, list[str]]:
    """The text, and what it leaves out, for example "variable 0/mem"."""
    folder = Path(folder)
    content = json.loads((folder / "kleene.json").read_text(encoding="utf-8"))
    tensors = tensors_of(folder / "weights.safetensors")
    blocks = [Block(content, tensors, number) for number in range(content["config"]["blocks"])]
    texts = [block.text() for block in blocks if not block.clears]
    left_out = [[kind, label] for block in blocks for kind, label in block.left_out]
    words = ["kleene-recheck-2", len(texts), *(word for text in texts for word in text), *listed(left_out), "end"]
    return " ".join(map(str, words)) + "\n", [" ".join(what) for what in left_out]


def main() -> int:
    if len(sys.argv) != 3:
        print("python proofs/export.py DIR FILE", file=sys.stderr)
        return 2
    try:
        text, left_out = export(sys.argv[1])
    except (OSError, KeyError, ValueError, TypeError, IndexError) as error:
        print(f"{sys.argv[1]}: cannot be exported ({type(error).__name__}: {error})", file=sys.stderr)
        return 2
    Path(sys.argv[2]).write_text(text)
    for what in left_out:
        print(f"left out: {what}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
