"""Plan a program from analysed s-ops: which variables hold what, which heads each layer has, what each step writes.

A head needs its query, key and value in variables before its layer; the step of a layer writes them from what the heads
of that layer have just read. A function of the token alone, or of the index alone, is in the embedding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from kleene.common.vocabulary import Vocabulary
from kleene.errors import NotSupported
from kleene.lowering.forms import variable_form
from kleene.lowering.updates import Cycle, GuardedUpdate, ReadGuard, Test, Updates
from kleene.machines.declarations import CycleLayer, Head, Variable
from kleene.machines.kinds import Categorical, Kind, Numerical, Subset, as_number
from kleene.machines.program import Program, ProgramClass
from kleene.machines.spec import Spec
from kleene.machines.specify import RESERVED
from kleene.rasp.analysis import Analysis, Averaged, Picked, Selection, Values, Width
from kleene.rasp.functions import Atom, Func, Stored
from kleene.rasp.lowering import Piece, Source, pieces

MOST_VALUES = 10_000  # of a variable: it has a dimension and a unit for each, and these have a weight together
TOKEN, INDEX = "token_here", "index"  # the variables of a position's own token and index


@dataclass(eq=False)
class Root:
    """A function that a variable holds. `places`: result → index of a value; `at_bos`: the index at the beginning."""

    name: str
    function: Func
    kind: Kind
    places: tuple[int, ...]
    at_bos: int
    variable: Any = None  # once it is declared

    @property
    def key(self) -> Any:
        return self.function.key, self.kind, self.places, self.at_bos


@dataclass(eq=False)
class HeadPlan:
    """A head to be declared, of an atom; `selection` None: it selects what `offsets` allow, the beginning too."""

    name: str
    selection: Selection
    value: Root
    kind: Kind
    default: Any
    anchored: bool = False  # also selects the beginning of the sequence
    prefer: str | None = None  # which of several matching positions
    head: Any = None  # once it is declared


class Planner:
    """Plan the program of one s-op."""

    def __init__(self, analysis: Analysis, output: Values, name: str) -> None:
        self.analysis, self.length, self.name = analysis, analysis.length, name
        self.vocab = analysis.tokens.size
        self.roots: dict[Any, Root] = {}
        self.names: set[str] = set(RESERVED)
        self.layers: dict[int, int] = {}  # atom number → the layer that reads it
        self.heads: dict[int, list[HeadPlan]] = {}  # atom number → its heads
        self.kept: dict[int, Root] = {}  # atom number → the variable that keeps it for later layers
        count = len(output.domain)
        self.output = self.root("result", output.function, Categorical(count), range(count), 0)
        self._need(self.output.function)
        self.parts = {atom.number: self._partition(atom) for atom in self._attention()}
        self._keep()

    # --- what is needed ---

    def unique(self, name: str) -> str:
        """A name that no other variable or head has."""
        base = "".join(letter if letter.isalnum() else "_" for letter in name).strip("_") or "value"
        base = f"v{base}" if base[0].isdigit() else base
        chosen, number = base, 1
        while chosen in self.names or hasattr(ProgramClass, chosen):
            number += 1
            chosen = f"{base}_{number}"
        self.names.add(chosen)
        return chosen

    def root(self, name: str, function: Func, kind: Kind, places: Iterable[int], at_bos: int) -> Root:
        if len(kind) > MOST_VALUES:
            raise NotSupported(
                f"'{name}' can have {len(kind):,} values, more than the {MOST_VALUES:,} for which a network has room; "
                "use a smaller vocabulary or max_seq_len, or round what is computed"
            )
        made = Root(name, function, kind, tuple(places), at_bos)
        found = self.roots.setdefault(made.key, made)
        if found is made:
            made.name = self.unique(name)
        return found

    def _attention(self) -> list[Any]:
        return [atom for atom in self.analysis.atoms if atom.number in self.heads]

    def _need(self, function: Func) -> None:
        """Plan the heads and variables behind a function."""
        for atom in function.atoms:
            if atom.number in self.layers or atom in (self.analysis.tokens, self.analysis.indices):
                continue
            if isinstance(atom, Stored):
                self._need(atom.function)
                size = atom.size
                self.kept[atom.number] = self.root(atom.name, atom.function, Categorical(size), range(size), 0)
                self.layers[atom.number] = self.ready(self.kept[atom.number]) + 1
                continue
            heads = self._heads_of(atom)
            for head in heads:
                for part in (head.selection.keys, head.selection.queries, head.value.function):
                    self._need(part)
            self.heads[atom.number] = heads
            sides = [root for head in heads for root in (*self._sides(head), head.value)]
            self.layers[atom.number] = 1 + max(map(self.ready, sides), default=0)

    def ready(self, root: Root) -> int:
        """The layer after which a variable holds its value; 0: from the start."""
        atoms = root.function.atoms
        if len(atoms) == 0 or (len(atoms) == 1 and atoms[0] in (self.analysis.tokens, self.analysis.indices)):
            return 0
        return max(1, *(self.layers.get(atom.number, 0) for atom in atoms))

    def _sides(self, head: HeadPlan) -> tuple[Root, ...]:
        """The query and key variables of a head; none where the content does not matter."""
        selection = head.selection
        if selection.everything:
            return ()
        count = selection.keys.size
        own = {count} if head.anchored else set()
        sets = [frozenset({*np.flatnonzero(column).tolist(), *own}) for column in selection.match.T]
        declared = tuple(dict.fromkeys(sets))
        kind = Subset(count + 1, declared)
        name = head.name
        query = self.root(f"{name}_query", selection.queries, kind, (declared.index(s) for s in sets), 0)
        key = self.root(f"{name}_key", selection.keys, Categorical(count + 1), range(count), count)
        return query, key

    # --- heads ---

    def _heads_of(self, atom: Any) -> list[HeadPlan]:
        if isinstance(atom, Width):
            return self._width_heads(atom)
        if isinstance(atom, Picked):
            count = atom.value.size
            value = self.root(f"{atom.name}_value", atom.value, Categorical(count + 1), range(count), count)
            return [HeadPlan(atom.name, atom.selection, value, value.kind, count, prefer=atom.prefer)]
        if isinstance(atom, Averaged):
            codes = tuple(sorted(set(atom.codes)))
            kind = Numerical(tuple(as_number(code) for code in codes))
            value = self.root(f"{atom.name}_value", atom.value, kind, (codes.index(c) for c in atom.codes), 0)
            return [HeadPlan(atom.name, atom.selection, value, kind, as_number(atom.nothing))]
        kind = Numerical(tuple(dict.fromkeys((0, as_number(Fraction(1, self.length)), 1))))
        made = []
        for k in range(atom.count):
            reached = atom.value.mapped(np.array([int(n >= k) for n in range(atom.count)]))
            value = self.root(f"{atom.name}_from_{k}", reached, Categorical(2), (0, 1), 0)
            made.append(HeadPlan(f"{atom.name}_{k}", atom.selection, value, kind, 0))
        return made

    def _width_heads(self, atom: Width) -> list[HeadPlan]:
        everywhere = Func.constant()
        if atom.spots:
            one = self.root("one", everywhere, Categorical(2), (1,), 0)
            return [HeadPlan(atom.name, spot, one, one.kind, 0) for spot in atom.spots]
        anchor = self.root("anchor", everywhere, Numerical((0, 1)), (0,), 1)
        return [HeadPlan(atom.name, term, anchor, anchor.kind, 1, True) for _, term in atom.terms]

    # --- what is told apart, and what is kept ---

    def _partition(self, atom: Atom) -> np.ndarray:
        """A class for each value of an atom: values that no variable tells apart are one class."""
        rows: list[np.ndarray] = [np.zeros((atom.size, 1), dtype=np.int64)]
        for root in self.roots.values():
            if atom in root.function.atoms:
                table = np.array(root.places)[np.maximum(root.function.table, 0)]
                table = np.where(root.function.table < 0, -1, table)
                rows.append(np.moveaxis(table, root.function.atoms.index(atom), 0).reshape(atom.size, -1))
        numbers: dict[bytes, int] = {}
        joint = np.concatenate(rows, axis=1)
        return np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in np.ascontiguousarray(joint)])

    def _keep(self) -> None:
        """Keep what a head has read in a variable where a later layer needs it."""
        for atom in self._attention():
            later = [
                r for r in self.roots.values() if atom in r.function.atoms and self.ready(r) > self.layers[atom.number]
            ]
            if later:
                part = Func((atom,), self.parts[atom.number])
                self.kept[atom.number] = self.root(atom.name, part, Categorical(part.size), range(part.size), 0)

    # --- the program ---

    def program(self, words: Vocabulary) -> ProgramClass:
        """Declare the program."""
        body: dict[str, Any] = {}
        self._declare_base(body, TOKEN, self.analysis.tokens, self.vocab)
        self._declare_base(body, INDEX, self.analysis.indices, self.length)
        self._bos = Variable[Any](Categorical(2), token=lambda t: int(t == self.vocab))
        for root in self.roots.values():
            body[root.name] = root.variable = self._declare(root)
        total = max([1, *(self.ready(root) for root in self.roots.values())])
        heads, by_layer = [], []
        for number in range(1, total + 1):
            atoms = [atom for atom in self._attention() if self.layers[atom.number] == number]
            read = {atom.number: self._declare_heads(body, atom) for atom in atoms}
            heads.append(tuple(plan.head for atom in atoms for plan in self.heads[atom.number]))
            by_layer.append(self._updates(number, read))
        if any(head.among for used in heads for head in used):
            body[self.unique("bos")] = self._bos
        reading = {name for updates in by_layer for update in updates for name in update.reads}
        body = {name: thing for name, thing in body.items() if name not in (TOKEN, INDEX) or name in reading}
        body |= {
            "tokens": self.vocab + 1,
            "positions": self.length + 1,
            "layers": total,
            "causal": self.analysis.causal,
            "output": self.output.variable,
            "cycle": tuple(CycleLayer(used, _step(updates)) for used, updates in zip(heads, by_layer)),
            "vocabulary": words,
            "encode": staticmethod(words.encode),
            "decode": staticmethod(words.decode),
            "__doc__": f"The s-op {self.name}, compiled from RASP.",
            "__module__": __name__,
        }
        made: ProgramClass = ProgramClass(self.name, (Program,), body)
        parts = [_part(spec, updates) for spec, updates in zip(made.spec.by_layer, by_layer)]
        type.__setattr__(made, "_updates", Cycle(made.spec, tuple(parts)))
        return made

    def _declare_base(self, body: dict[str, Any], name: str, atom: Atom, size: int) -> None:
        """The variable of the token, or of the index; the beginning of the sequence has one more value."""
        if atom is self.analysis.tokens:
            body[name] = Variable(Categorical(size + 1), token=lambda t: t)
        else:
            body[name] = Variable(Categorical(size + 1), position=lambda p: p - 1 if p else size)
        self.names.add(name)

    def _declare(self, root: Root) -> Variable[Any]:
        values, function = root.kind.values, root.function
        table = np.maximum(function.table, 0)
        if self.ready(root):
            start, at_bos = values[0], values[root.at_bos]
            return Variable(root.kind, token=lambda t: at_bos if t == self.vocab else start)
        if function.atoms and function.atoms[0] is self.analysis.indices:
            return Variable(root.kind, position=lambda p: values[root.places[table[p - 1]] if p else root.at_bos])
        flat = np.broadcast_to(table, (self.vocab,))
        return Variable(root.kind, token=lambda t: values[root.at_bos if t == self.vocab else root.places[flat[t]]])

    def _declare_heads(self, body: dict[str, Any], atom: Any) -> Source:
        """Declare the heads of an atom; the result says how its value is read from them."""
        plans, part = self.heads[atom.number], self.parts[atom.number]
        for plan in plans:
            plan.name = self.unique(f"{plan.name}_read")
        if isinstance(atom, Width) and not atom.spots:
            source = self._count_source(atom, plans, part)
        elif isinstance(atom, Width):
            source = Source.sum_of({plan.name: (0, 1) for plan in plans}, list(range(len(plans) + 1)), atom)
        elif isinstance(atom, Picked):
            source = Source.of_classes(plans[0].name, [atom.places[i] for i in range(len(plans[0].kind))], part, atom)
        elif isinstance(atom, Averaged):
            kind, reps = declared_levels(atom.levels, part)
            plans[0].kind = kind
            source = Source.of_classes(plans[0].name, reps, part, atom)
        else:
            yes = tuple(int(value > 0) for value in plans[0].kind.values)
            source = Source.sum_of({plan.name: yes for plan in plans}, list(atom.places), atom)
        for plan in plans:
            body[plan.name] = plan.head = self._head(plan)
        return source

    def _count_source(self, atom: Width, plans: Sequence[HeadPlan], part: np.ndarray) -> Source:
        shares = [Fraction(1, count + 1) for count in range(self.length + 1)]
        if [factor for factor, _ in atom.terms] == [1]:
            levels = sorted((share, count) for count, share in enumerate(shares))
            plans[0].kind, reps = declared_levels(levels, part)
            return Source.of_classes(plans[0].name, reps, part, atom)
        terms = {}
        for plan, (factor, _) in zip(plans, atom.terms):
            plan.kind = Numerical(tuple(as_number(share) for share in sorted(shares)))
            terms[plan.name] = tuple(factor * count for count in reversed(range(self.length + 1)))
        return Source.sum_of(terms, list(range(atom.size)), atom, first=atom.domain[0])

    def _head(self, plan: HeadPlan) -> Head[Any]:
        sides = self._sides(plan)
        query, key = (sides[0].variable, sides[1].variable) if sides else (None, None)
        numerical = isinstance(plan.kind, Numerical)
        among = {self._bos: 0} if (numerical or plan.prefer) and not sides and not plan.anchored else None
        output = plan.kind if numerical else None
        offsets = plan.selection.offsets
        return Head(query, key, plan.value.variable, offsets, plan.default, output, None, among, prefer=plan.prefer)

    def _updates(self, number: int, read: dict[int, Source]) -> list[GuardedUpdate]:
        """Return what the step of a layer writes."""
        made = []
        for root in self.roots.values():
            if self.ready(root) == number and len(root.kind) > 1:
                sources = [self._source(atom, read) for atom in root.function.atoms]
                for piece in pieces(root.function, sources, np.array(root.places)):
                    made.append(self._guarded(root, piece))
        return made

    def _source(self, atom: Atom, read: dict[int, Source]) -> Source:
        if atom.number in read:
            return read[atom.number]
        if atom is self.analysis.tokens:
            return Source.of_variable(TOKEN, [*range(self.vocab), 0], atom)
        if atom is self.analysis.indices:
            return Source.of_variable(INDEX, [*range(self.length), 0], atom)
        root = self.kept[atom.number]
        if isinstance(atom, Stored):
            return Source.of_variable(root.name, list(range(atom.size)), atom)
        first = np.unique(self.parts[atom.number], return_index=True)[1]
        return Source.of_variable(root.name, first.tolist(), atom)

    def _guarded(self, root: Root, piece: Piece) -> GuardedUpdate:
        """A write of a variable that still holds its first value; the beginning of the sequence holds another."""
        own = Test(variable_form(root.name, len(root.kind)), frozenset([0]))
        tests = [own, *(Test(variable_form(name, size), frozenset(allowed)) for name, size, allowed in piece.tests)]
        guard = tuple(sorted(tests, key=lambda test: (len(test.form.terms), test.form.variables)))
        return GuardedUpdate(root.name, guard, piece.form, piece.table)


def declared_levels(levels: Sequence[tuple[Fraction, int]], part: np.ndarray) -> tuple[Numerical, list[int]]:
    """The values that a numerical head has to tell apart: the ends of each run of levels of one class.

    The second result is the place in the domain that each of them stands for.
    """
    kept: list[tuple[Fraction, int]] = []
    ordered = sorted(levels)
    for i, (level, place) in enumerate(ordered):
        before = i > 0 and part[ordered[i - 1][1]] == part[place]
        after = i + 1 < len(ordered) and part[ordered[i + 1][1]] == part[place]
        if not (before and after):
            kept.append((level, place))
    return Numerical(tuple(as_number(level) for level, _ in kept)), [place for _, place in kept]


def _part(spec: Spec, updates: Sequence[GuardedUpdate]) -> Updates:
    """The updates of a layer, and which heads it reads: all that it mentions, at every position."""
    mentioned = {name for update in updates for name in update.reads}
    return Updates(spec, tuple(updates), tuple(ReadGuard(name, ()) for name in spec.heads if name in mentioned))


def _step(updates: Sequence[GuardedUpdate]) -> Any:
    """The step of a layer, in Python."""
    names = sorted({name for update in updates for name in update.reads})
    plans = [
        (
            update.variable,
            [(test.variable or "", test.indices) for test in update.guard],
            update.form.constant,
            update.form.terms,
            update.results,
        )
        for update in updates
    ]
    indices_of: dict[str, dict[Any, int]] = {}

    def step(z: Any) -> None:
        kinds = z._program.spec.kinds
        if not indices_of:
            indices_of.update({name: {value: i for i, value in enumerate(kinds[name].values)} for name in names})
        now = {name: indices_of[name][getattr(z, name)] for name in names}
        for variable, tests, constant, terms, results in plans:
            if all(now[name] in allowed for name, allowed in tests):
                total = constant + sum(table[now[name]] for name, table in terms)
                setattr(z, variable, kinds[variable].values[results[total]])

    return step
