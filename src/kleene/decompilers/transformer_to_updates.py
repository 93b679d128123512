"""Transformers back to guarded updates: what the weights do, variable by variable.

Embeddings and attention can be read directly. The MLP block is tested with inputs: split on variables that switch units
off for good, then tabulate the rest as a function of a separable form. The rows of the units are the candidates for
that form.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

import numpy as np
import torch

from kleene.common.residual import Layout
from kleene.compilers.transformer_attention import GAP, gap_of, ranks
from kleene.decompilers.blind import put_in_order
from kleene.decompilers.weights import FINE, Half, State, WeightsFunction, whole_halves
from kleene.errors import NotExact, NotSupported
from kleene.lowering.forms import Form, Grid, variable_form
from kleene.lowering.guarding import leaves, merged, merged_words
from kleene.lowering.symbolic import Assignment
from kleene.lowering.updates import Cycle, GuardedUpdate, Test, Updates, WordUpdate, simplify_guard
from kleene.lowering.words import WordAssignment, WordPredicate, normalised
from kleene.machines.kinds import Kind, Numerical, Subset, Word
from kleene.machines.spec import PREFERENCES, Counting, HeadSpec, Spec, VariableSpec
from kleene.networks.transformer.model import Block, Transformer

MAX_GRID = 20_000
MAX_TRIED = 50_000_000  # the most numbers of a leaf in memory


def decompile_transformer(net: Transformer, *, blind: bool = False, to: str = "updates") -> Any:
    """The guarded updates that the weights implement, with a Spec that is also read from the weights.

    blind: use no saved description; variables, heads and their values get new names (see blind.py).
    to: "updates"; "dfa" or "regex" for the words of a network that holds an automaton; "turing" for the machine of one
        that was compiled from a Turing machine.
    """
    if to == "turing":
        from kleene.decompilers.transformer_to_turing import read_turing

        if blind or not net.description.keys() & {"tape", "chain"}:
            raise NotSupported("decompile: to='turing' needs a network of a Turing machine, without blind=True")
        return read_turing(net.description, read_updates_of(net))
    if to in ("dfa", "regex"):
        from kleene.decompilers.transformer_to_dfa import described, read_automaton

        if blind:
            raise NotSupported("decompile: blind=True gives new names, so to= cannot be used with it; omit to=")
        dfa = read_automaton(described(net.description.get("words")), read_updates_of(net)).minimise()
        return dfa if to == "dfa" else dfa.to_regex()
    if to != "updates":
        raise NotSupported(f"decompile: to={to!r}; it must be 'updates', 'dfa', 'regex' or 'turing'")
    return read_updates_of(net, blind)


def read_updates_of(net: Transformer, blind: bool = False) -> Updates | Cycle:
    """The guarded updates of the weights."""
    if blind:
        net, _ = put_in_order(net)
    spec = read_spec(net)
    by_layer = tuple(_read_block(net, net.block(layer), part) for layer, part in enumerate(spec.by_layer))
    return Cycle(spec, by_layer) if spec.cycle else by_layer[0]


def _read_block(net: Transformer, block: Block, spec: Spec) -> Updates:
    halves = whole_halves(block, net.layout)
    plain = [name for name, kind in spec.variables.items() if not isinstance(kind.kind, Word)]
    updates = [u for name in plain for u in read_updates(spec, net.layout, halves, name)]
    words = [u for name in spec.variables if name not in plain for u in read_words(spec, net.layout, halves, name)]
    predicates = {p.name: p for p in _word_predicates(spec, net.layout, halves[0]).values()}
    return Updates(spec, tuple(updates), (), tuple(words), tuple(predicates.values()))


# --- embeddings and attention -----------------------------------------------------------------------------


def read_spec(net: Transformer) -> Spec:
    """Initial values, heads, halt and output as the weights have them; kinds and names as declared."""
    declared, layout = Spec.from_json(net.description["program"]), net.layout
    declared.refuse_parts("decompile")
    positions = declared.positions or 0
    variables = {name: _read_variable(net, layout, one, positions) for name, one in declared.variables.items()}
    partial = replace(declared, variables=variables)
    heads: dict[str, HeadSpec] = {}
    moves: dict[str, HeadSpec] = {}
    for layer, part in enumerate(partial.by_layer):
        found = read_heads(net.block(layer), layout, part)
        heads |= {head.name: head for head in found if head.into is None}
        moves |= {head.name: head for head in found if head.into is not None}
    halt = {}
    for name in variables:
        hot = torch.nonzero(net.halt_weight[layout[name].slice]).flatten().tolist()
        if hot:
            halt[name] = int(hot[0])
    outputs = [s.name for s in layout if bool((net.unembedding[:, s.slice] != 0).any())]
    if len(outputs) != 1:
        raise NotExact(f"{declared.name}: the unembedding reads {len(outputs)} variables; it must read one")
    return replace(partial, heads=heads, moves=moves, halt=halt, output=outputs[0])


def _read_variable(net: Transformer, layout: Layout, variable: VariableSpec, positions: int) -> VariableSpec:
    place = layout[variable.name].slice
    for first, bits, offset in net.config.counted:
        if (first, first + bits) == (place.start, place.stop):
            return replace(variable, by_position=Counting(offset, bits, positions), by_token=None)
    if net.config.positions is not None and bool(net.position_embedding[:, place].any()):
        by_position = _indices(variable.kind, net.position_embedding[:, place])
        return replace(variable, by_position=by_position, by_token=None)
    by_token = _indices(variable.kind, net.token_embedding[:, place])
    if variable.by_position is not None or variable.by_token is not None:
        return replace(variable, by_token=by_token)
    return replace(variable, default=by_token[0])


def _indices(kind: Kind, rows: torch.Tensor) -> tuple[int, ...]:
    """The values that rows code."""
    values = rows.double().cpu()
    if isinstance(kind, Word):
        return tuple(int(v) for v in (values @ (2.0 ** torch.arange(kind.bits, dtype=torch.float64))).tolist())
    return tuple(values.argmax(dim=1).tolist())


def _first(classes: np.ndarray, index: int) -> int:
    """The smallest value of the same class."""
    return int(np.argmax(classes == classes[index]))


def _segment(layout: Layout, weights: torch.Tensor) -> str | None:
    """The one segment whose columns a weight matrix reads; None where it reads nothing."""
    used = weights.reshape(-1, weights.shape[-1]).any(dim=0)
    found = [s.name for s in layout if bool(used[s.slice].any())]
    if len(found) > 1:
        raise NotExact(f"a head reads {', '.join(found)} at once; it must read one variable")
    return found[0] if found else None


def read_heads(block: Block, layout: Layout, declared: Spec) -> list[HeadSpec]:
    """The heads of a block as the weights have them; names are as declared."""
    found, cleared = [], []
    names = {head.into: name for name, head in declared.moves.items()}
    for h in range(len(block.heads)):
        through = block.out[h].double() @ block.value[h].double()  # (written, read)
        written = [s.name for s in layout if bool((block.out[h][s.slice] != 0).any())]
        selection = _Selection(block, h, layout)
        for target in written:
            reads = {s.name: part for s in layout if bool((part := through[layout[target].slice, s.slice]).any())}
            if target in declared.heads:
                found.append(_read_head(block, h, layout, declared, target, reads, selection))
            elif _is_clearing(reads, target, selection):
                away = _default(declared.variables[target].kind, -_null(block, h, layout, target))
                cleared.append((target, selection.where, away))
            elif target in names:
                found.append(_read_move(block, h, layout, declared.moves[names[target]], reads, selection))
            else:
                raise NotExact(f"a head writes into '{target}', which is not the output of a head")
    for head in found:
        if head.into is not None and head.replacing is None:
            away = head.default if head.where and head.default != _coded_as_zeros(head.kind) else None
            if (head.into, head.where, away) not in cleared:
                raise NotExact(f"'{head.name}' writes into '{head.into}', whose old value is not removed")
            cleared.remove((head.into, head.where, away))
    if cleared:
        raise NotExact(f"a head removes '{cleared[0][0]}', and nothing is written there")
    order = [*declared.heads, *declared.moves]
    return sorted(found, key=lambda head: order.index(head.name))


class _Selection:
    """How a head selects: query, key, offsets, and what both sides are limited to."""

    def __init__(self, block: Block, h: int, layout: Layout) -> None:
        query, key = block.query[h].clone(), block.key[h].clone()
        self.where: tuple[tuple[str, int], ...] = ()
        self.among: tuple[tuple[str, int], ...] = ()
        for place in range(len(query)):
            reads, keeps = bool(query[place].any()), bool(key[place].any())
            if reads and not keeps and bool(block.key_bias[h, place]):
                self.where, query[place] = self._limits(layout, query[place]), 0
            elif keeps and not reads and bool(block.query_bias[h, place]):
                self.among, key[place] = self._limits(layout, key[place]), 0
        self.query, self.key = _segment(layout, query), _segment(layout, key)
        self.prefer, base = _preference(block, h)
        self.null = float(block.null_score[h])
        reach = block.window + 1
        open_ = [int(i) - reach for i in torch.nonzero(base == base.max()).flatten()]
        self.offsets = None if len(open_) == 2 * reach + 1 else frozenset(open_)

    def counts(self, spec: Spec, query: str | None) -> bool:
        """Whether the null key scores like a match, so that it is averaged, too."""
        kind = None if query is None else spec.kinds[query]
        return self.null == (kind.bits if isinstance(kind, Word) else 2) * GAP and self.prefer is None

    @staticmethod
    def _limits(layout: Layout, row: torch.Tensor) -> tuple[tuple[str, int], ...]:
        dims = torch.nonzero(row).flatten().tolist()
        return tuple(sorted((s.name, dim - s.start) for dim in dims for s in layout if s.start <= dim < s.stop))


def _preference(block: Block, h: int) -> tuple[str | None, torch.Tensor]:
    """Which of several positions a head selects (None: all), and the scores of its offsets without their ranks."""
    table = block.relative[h].double()
    if len(table.unique()) <= 2:
        return None, table
    for prefer in PREFERENCES:
        head = HeadSpec("", None, None, "", None, None, Word(1), prefer=prefer)
        base = table - GAP * torch.tensor(ranks(head, block.window)).to(table)
        low, high = float(base.min()), float(base.max())
        if bool(((base == low) | (base == high)).all()) and high - low in (0, 2 * gap_of(head, block.window)):
            return prefer, base
    raise NotExact(f"the head '{block.heads[h]}' has scores of offsets that are neither a selection nor a preference")


def _null(block: Block, h: int, layout: Layout, target: str) -> torch.Tensor:
    """Return what a head adds to a segment where it selects nothing."""
    return (block.out[h].double() @ block.null_value[h].double())[layout[target].slice]


def _default(kind: Kind, added: torch.Tensor) -> int | None:
    """The value that is added; None where nothing is, or zeros."""
    return _indices(kind, added[None])[0] if bool(added.any()) else None


def _coded_as_zeros(kind: Kind) -> int | None:
    """The index of the value that is added as zeros, where there is one."""
    return kind.index(0) if isinstance(kind, Word) else None


def _is_clearing(reads: dict[str, torch.Tensor], target: str, selection: _Selection) -> bool:
    own = list(reads) == [target] and selection.query is None and selection.offsets == frozenset([0])
    return own and bool(torch.equal(reads[target], -torch.eye(len(reads[target]), dtype=torch.float64)))


def _read_head(
    block: Block, h: int, layout: Layout, spec: Spec, name: str, reads: dict[str, Any], selection: _Selection
) -> HeadSpec:
    if len(reads) > 1:
        raise NotExact(f"head {h} reads {len(reads)} segments; it must read one")
    kind, default = spec.heads[name].kind, None
    if bool(block.null_value[h].any()):
        row = block.null_value[h][: layout[name].size]
        if isinstance(kind, Numerical):
            default = kind.index(Fraction(int(row[0]), layout[name].scale))
        else:
            default = _indices(kind, row[None])[0]
    elif spec.heads[name].default is not None:
        default = kind.index(frozenset() if isinstance(kind, Subset) else 0)  # coded as zeros
    s = selection
    # A query that matches nothing (empty sets only) is all zeros: which variable it is, only the declaration says.
    query = spec.heads[name].query if s.query is None and s.key is not None else s.query
    value = next(iter(reads), spec.heads[name].value)  # an average of zeros reads nothing, whatever it is of
    counts = s.counts(spec, query) and isinstance(kind, Numerical)
    value = spec.heads[name].value if counts else value
    return HeadSpec(name, query, s.key, value, s.offsets, default, kind, s.where, s.among, None, None, s.prefer, counts)


def _read_move(
    block: Block, h: int, layout: Layout, declared: HeadSpec, reads: dict[str, torch.Tensor], selection: _Selection
) -> HeadSpec:
    assert declared.into is not None
    one = torch.eye(layout[declared.into].size, dtype=torch.float64)
    value = [name for name, part in reads.items() if torch.equal(part, one[:, : part.shape[1]])]
    replaced = [name for name, part in reads.items() if torch.equal(part, -one)]
    if len(value) != 1 or len(replaced) > 1 or len(value) + len(replaced) != len(reads):
        raise NotExact(f"what is written into '{declared.into}' is not a variable (less the one that it replaces)")
    default = _default(declared.kind, _null(block, h, layout, declared.into))
    if default is None and declared.default is not None:
        default = _coded_as_zeros(declared.kind)
    s = selection
    return HeadSpec(
        declared.name,
        declared.query if s.query is None and s.key is not None else s.query,  # empty sets only: as in _read_head
        s.key,
        value[0],
        s.offsets,
        default,
        declared.kind,
        s.where,
        s.among,
        declared.into,
        replaced[0] if replaced else None,
        s.prefer,
    )


# --- the MLP block ----------------------------------------------------------------------------------------


def read_updates(spec: Spec, layout: Layout, halves: tuple[Half, Half], variable: str) -> list[GuardedUpdate]:
    """One variable's guarded updates from the weights."""
    function = WeightsFunction(spec, layout, halves, variable, given=None)
    if not len(function.bias):
        return []
    comparisons = _word_predicates(spec, layout, halves[0])
    try:
        predicates = {name: _read_predicate(spec, layout, halves[0], name, comparisons) for name in function.given}
        tree = _Reader(spec, function, variable).read()
    except NotExact:  # scratch values that only make sense together: read through to the variables
        predicates = {n: _read_predicate(spec, layout, halves[0], n, comparisons) for n in comparisons}
        function = WeightsFunction(spec, layout, halves, variable, given=comparisons)
        tree = _Reader(spec, function, variable).read()
    made = []
    for tests, leaf in leaves(tree, ()):
        plain = [predicates[t.variable](t.indices) if t.variable in predicates else t for t in tests]
        guard = simplify_guard(spec, plain)
        if all(test.allowed for test in guard):  # otherwise no values pass
            made.append(GuardedUpdate(variable, guard, leaf.form, leaf.table))
    return merged(spec, made)


def _read_predicate(
    spec: Spec, layout: Layout, first: Half, name: str, comparisons: Mapping[str, WordPredicate]
) -> Callable[[frozenset[int]], Test]:
    """A scratch value as a test on the form that its units read."""
    if name in comparisons:
        told = variable_form(comparisons[name].name, 2)
        return lambda indices: Test(told, indices)
    writes = first.writes[layout[name].start]
    units = np.nonzero(writes)[0]
    if not len(units) or (first.reads[units] != first.reads[units[0]]).any():
        raise NotExact(f"{spec.name}: the scratch value {name} is not a predicate on one form")
    row = first.reads[units[0]]
    terms = {v: tuple(row[layout[v].slice].tolist()) for v in spec.kinds if row[layout[v].slice].any()}
    form = Form.of(0, terms)
    value = {v: int(writes[units] @ (v + first.bias[units] >= 1)) for v in map(int, form.values)}
    return lambda indices: Test(form, frozenset(v for v, on in value.items() if on in indices))


def _word_predicates(spec: Spec, layout: Layout, first: Half) -> dict[str, WordPredicate]:
    """The scratch values that compare words, read from the units that compute them."""
    found = {}
    for segment in layout:
        if segment.coding != "scratch":
            continue
        units = np.nonzero(first.writes[segment.start])[0]
        terms = tuple(
            (name, int(first.reads[units[0], layout[name].start]))
            for name, kind in sorted(spec.kinds.items())
            if len(units) and isinstance(kind, Word) and first.reads[units[0], layout[name].start]
        )
        if terms:
            thresholds = sorted(int(1 - first.bias[unit]) for unit in units)
            found[segment.name] = WordPredicate(terms, "≥" if len(units) == 1 else "=", thresholds[0])
    return found


NO_SUM = WordAssignment((), 0, 0)  # modulo nothing
OFF = -(1 << 60)  # stands for the sum of a unit that nothing can switch on


def read_words(spec: Spec, layout: Layout, halves: tuple[Half, Half], variable: str) -> list[WordUpdate]:
    """A word's updates: for each combination of what its units are guarded by, the sum is asked for by
    setting every word to zero, and then each to one."""
    function = WeightsFunction(spec, layout, halves, variable, given=None)
    if not len(function.bias):
        return []
    comparisons = _word_predicates(spec, layout, halves[0])
    tests = {n: _read_predicate(spec, layout, halves[0], n, comparisons) for n in function.given}
    names = function.variables
    function.begin([*names])
    choices = [sorted(np.unique(function.classes(p), return_index=True)[1].tolist()) for p in range(len(names))]

    tables = [function.table(name, function.reads) for name in names]
    words = [layout[name].slice for name, kind in spec.kinds.items() if isinstance(kind, Word)]
    left = [
        sum(np.maximum(function.reads[:, word], 0).sum(axis=1) for word in words)
    ]  # the most that can still be added
    for table in reversed(tables):
        left.insert(0, left[0] + table.max(axis=0))
    seen: dict[Any, Any] = {}

    def tree(place: int, chosen: dict[str, int], sums: np.ndarray) -> Any:
        sums = np.where(sums + left[place] <= 0, OFF, sums)  # units that stay off are all alike
        key = (place, sums.tobytes())
        if key not in seen:
            seen[key] = grown(place, chosen, sums)
        return seen[key]

    def grown(place: int, chosen: dict[str, int], sums: np.ndarray) -> Any:
        if place == len(names):
            return _ask(spec, layout, halves[1], variable, chosen)
        name, classes = names[place], function.classes(place)
        children: dict[Any, set[int]] = {}
        for index in choices[place]:
            child = tree(place + 1, {**chosen, name: index}, sums + tables[place][index])
            children.setdefault(child, set()).update(np.nonzero(classes == classes[index])[0].tolist())
        if len(children) == 1:
            return next(iter(children))
        form = variable_form(name, function.count(name))
        return (form, tuple((frozenset(indices), child) for child, indices in children.items()))

    made = []
    for found, leaf in leaves(tree(0, {}, function.bias), ()):
        plain = [tests[t.variable](t.indices) if t.variable in tests else t for t in found]
        guard = simplify_guard(spec, plain)
        if all(test.allowed for test in guard):  # otherwise no values pass
            if leaf == NO_SUM:
                raise NotExact(f"{spec.name}: what is written into the word '{variable}' is not a sum of words")
            made.append(WordUpdate(variable, guard, leaf))
    return merged_words(spec, made)


def _ask(spec: Spec, layout: Layout, second: Half, variable: str, chosen: Mapping[str, int]) -> WordAssignment | None:
    """Return what a word becomes under given other values: a sum of words, or None if it keeps its value.

    NO_SUM is right only for values that cannot be together.

    The sum is asked for by setting every word to zero, and then each to one; what it is taken modulo, and that it is a
    sum at all, by setting words to their largest values and to some others.
    """
    top = {name: len(kind) - 1 for name, kind in sorted(spec.kinds.items()) if isinstance(kind, Word)}
    zero, chance, size = dict.fromkeys(top, 0), random.Random(0), top[variable] + 1
    probes = [zero, *({**zero, name: 1} for name in top), *({**zero, name: top[name]} for name in top), top]
    probes += [{name: chance.randint(0, most) for name, most in top.items()} for _ in range(20)]
    answers = _answers(spec, layout, second, variable, chosen, probes)
    constant, *raised = answers[: len(top) + 1]
    terms = tuple((name, one - constant) for name, one in zip(top, raised) if one != constant)
    for modulus in (None, *(size >> k for k in range(size.bit_length() - 1))):
        made = normalised(spec, variable, WordAssignment(terms, constant, modulus))
        if all(made.value(values) == answer for values, answer in zip(probes, answers)):
            return None if made == WordAssignment(((variable, 1),), 0, None) else made
    return NO_SUM


def _answers(
    spec: Spec, layout: Layout, second: Half, variable: str, chosen: Mapping[str, int], probes: list[dict[str, int]]
) -> list[int]:
    """A word after the second half, for values of all words."""
    x, own = np.zeros((len(probes), layout.size)), layout[variable]
    for name, index in chosen.items():
        segment = layout[name]
        if segment.coding == "scratch":
            x[:, segment.start] = index
        elif segment.coding == "scalar":  # an average, told by its buckets
            passed = [f"{name}≥{value}" for value in spec.kinds[name].values[1 : index + 1]]
            x[:, [layout[bucket].start for bucket in passed if bucket in layout]] = 1
        else:
            x[:, segment.start + index] = 1
    for name in probes[0]:
        values = np.array([values[name] for values in probes])
        x[:, layout[name].slice] = values[:, None] >> np.arange(layout[name].size) & 1
    on = np.clip(x @ second.reads.T + second.bias, 0, 1)  # whole numbers, which float64 holds
    after = x[:, own.slice] + on @ second.writes[own.slice].T
    # where a guard keeps a sum in range, values that the guard excludes give "bits" that still add up to it
    return [sum(int(bit) << place for place, bit in enumerate(row)) for row in after]


class _Reader:
    """Finds a decision tree with functions of forms at its leaves."""

    def __init__(self, spec: Spec, function: WeightsFunction, variable: str) -> None:
        self.spec, self.function, self.variable = spec, function, variable
        others = [name for name in function.variables if name != variable]
        self.order = [*sorted(others, key=lambda n: -self._switches(n)), variable]
        self.seen: dict[tuple[int, Hashable], Any] = {}

    def _switches(self, name: str) -> float:
        """The share of units that some value of a variable switches off for good: guards come first."""
        f = self.function
        tables = {n: f.table(n, f.reads) for n in f.variables}
        most = f.bias + sum(t.max(axis=0) for t in tables.values())
        lost = tables[name].max(axis=0) - tables[name]  # (value, unit)
        pure = ((lost == 0) | (lost >= most)).all(axis=0) & (lost > 0).any(axis=0)
        return float(pure.mean()) if len(pure) else 0.0

    def read(self) -> Any:
        return self._node(self.function.begin(self.order), 0)

    def _node(self, state: State, place: int) -> Any:
        key = (place, self.function.key(state))
        if key not in self.seen:
            self.seen[key] = self._leaf_or_split(state, place)
        return self.seen[key]

    def _open(self, state: State) -> np.ndarray:
        """The units that are not settled."""
        m2 = len(self.function.bias)
        return np.nonzero(state.second[2 * m2 : 3 * m2] == 0)[0]

    def _leaf_or_split(self, state: State, place: int) -> Any:
        units = self._open(state)
        tables = self.function.tables
        matters = [p for p in range(place, len(self.order) - 1) if tables[p][1][:, units].any() or tables[p][0].any()]
        if matters and self._settles(state, place, matters[0]):  # a guard comes before the function
            return self._split(state, matters[0], place)
        found = self._one_form(state, units, matters)
        if found is not False:
            return found
        size = prod(self.function.count(self.order[p]) for p in [*matters, -1])
        if size <= MAX_GRID and not any(self.order[p] in self.function.given for p in matters):
            found = self._leaf(state, place, matters)
            if found is not False:
                return found
        if not matters:
            return self._split(state, len(self.order) - 1, place)
        return self._split(state, matters[0], place)

    def _settles(self, state: State, place: int, at: int) -> bool:
        """Whether some value of a variable leaves the units with nothing to do."""
        (before,) = self._skip([state], place, at)
        m2 = len(self.function.bias)
        return any(
            not len(self._open(after)) and not after.second[3 * m2 :].any()
            for after in self.function.advance(before, at, self._choices(at))
        )

    def _skip(self, states: list[State], start: int, stop: int) -> list[State]:
        """Variables that no longer matter, with any value."""
        for place in range(start, stop):
            states = [self.function.advance(state, place, [0])[0] for state in states]
        return states

    def _choices(self, place: int) -> list[int]:
        if self.order[place] == self.variable:
            return list(range(len(self.spec.kinds[self.variable])))
        _, first = np.unique(self.function.classes(place), return_index=True)
        return sorted(first.tolist())

    def _split(self, state: State, place: int, start: int) -> Any:
        name, classes = self.order[place], self.function.classes(place)
        (state,) = self._skip([state], start, place)
        choices: list[int | None] = list(self._choices(place))
        children: dict[Any, set[int]] = {}
        for index, after in zip(choices, self.function.advance(state, place, choices)):
            assert index is not None
            child = self._node(after, place + 1) if place + 1 < len(self.order) else self._constant(after, index)
            same = [index] if name == self.variable else np.nonzero(classes == classes[index])[0].tolist()
            children.setdefault(child, set()).update(same)
        if len(children) == 1:
            return next(iter(children))
        form = variable_form(name, self.function.count(name))
        return (form, tuple((frozenset(indices), child) for child, indices in children.items()))

    def _constant(self, state: State, old: int) -> Assignment | None:
        new = self._result(state, old)
        return None if new == old else Assignment(Form(0, ()), ((0, new),), None)

    def _result(self, state: State, old: int) -> int:
        new = self.function.result(state, old)
        if new < 0:
            raise NotExact(f"{self.spec.name}: the weights leave '{self.variable}' with no single value")
        return new

    def _one_form(self, state: State, units: np.ndarray, matters: list[int]) -> Any:
        """The leaf where all open units read one and the same form, so that its values are all there is to try: None
        (kept), an assignment, or False where it is not so, or the new value depends on the old one."""
        f, tables = self.function, self.function.tables
        if not matters or f.scratch or any(self.order[p] in f.given for p in matters):
            return False
        rows = np.concatenate([tables[p][1][:, units] for p in matters]).T  # (unit, value of a variable)
        reading = rows.any(axis=1)
        first = rows[np.argmax(reading)]
        unit = int(np.gcd.reduce(first))
        place = int(np.argmax(first != 0))
        times = rows[:, place] // (first[place] // unit)
        if unit == 0 or (rows != times[:, None] * (first // unit)).any():
            return False
        sizes = np.cumsum([len(tables[p][1]) for p in matters])[:-1]
        parts = np.split(first // unit, sizes)
        form = Form.of(0, {self.order[p]: tuple(part.tolist()) for p, part in zip(matters, parts)})
        values = np.array([int(value) for value in form.values])
        news = self._new_values(state, units, times, values)
        if news is None or (news != news[:, :1]).any():
            return None if news is not None and (news == np.arange(news.shape[1])).all() else False
        return Assignment(form, tuple(zip(values.tolist(), news[:, 0].tolist())), None)

    def _new_values(self, state: State, units: np.ndarray, times: np.ndarray, values: np.ndarray) -> np.ndarray | None:
        """The new value for each value of a form and each old value (one column where that makes no difference); None
        where there are too many to try."""
        f, m2 = self.function, len(self.function.bias)
        own, low, columns = f.tables[-1][1][:, units], state.second[units], f.columns[units]
        before = state.second[3 * m2 :] + np.eye(len(own), dtype=np.int64)
        if not (own[:, times != 0]).any():  # what writes reads the form, and what clears the old value
            clears = times == 0
            left = (low[clears] + own[:, clears] >= FINE) @ columns[clears] + before
            if (left == left[0]).all():
                written = (low[~clears] + values[:, None] * times[~clears] >= FINE).astype(np.float64)
                return self._hot((written @ columns[~clears].astype(np.float64))[:, None, :] + left[0])
        if len(values) * own.size > MAX_TRIED:
            return None
        sums = low + values[:, None, None] * times + own  # (form's value, old value, unit)
        return self._hot((sums >= FINE) @ columns + before)

    def _hot(self, after: np.ndarray) -> np.ndarray:
        """Which value is on, of the last axis."""
        if (((after == 1).sum(axis=-1) != 1) | (np.abs(after).sum(axis=-1) != 1)).any():
            raise NotExact(f"{self.spec.name}: the weights leave '{self.variable}' with no single value")
        made: np.ndarray = after.argmax(axis=-1)
        return made

    def _leaf(self, state: State, place: int, matters: list[int]) -> Any:
        """None (kept), an assignment, or False if it is not a function of a form."""
        places = [*matters, len(self.order) - 1]
        names = [self.order[p] for p in places]
        choices = [self._choices(p) for p in places]
        states, at = [state], place
        for p, options in zip(places, choices):
            states = self._skip(states, at, p)
            states = [after for before in states for after in self.function.advance(before, p, options)]
            at = p + 1
        olds = choices[-1]
        results = np.array([self._result(after, olds[i % len(olds)]) for i, after in enumerate(states)])
        results = results.reshape([len(options) for options in choices])
        for axis, (p, options) in enumerate(zip(matters, choices)):  # a class does what its first value does
            classes = self.function.classes(p)
            results = results.take([options.index(_first(classes, i)) for i in range(len(classes))], axis=axis)
        if (results == np.arange(results.shape[-1])).all():
            return None
        return self._as_form(state, names, results)

    def _as_form(self, state: State, names: Sequence[str], results: np.ndarray) -> Any:
        best: tuple[int, Assignment] | None = None
        grid = Grid(names, {name: range(len(self.spec.kinds[name])) for name in names})
        flat = results.transpose([names.index(name) for name in grid.names]).ravel()
        for form in self._candidates(state, names):
            values = np.broadcast_to(grid.evaluate(form), grid.shape).ravel()
            ranked = np.argsort(values, kind="stable")
            values, news = values[ranked], flat[ranked]
            same = values[1:] == values[:-1]
            changed = news[1:] != news[:-1]
            if (same & changed).any():
                continue
            if best is None or changed.sum() < best[0]:
                first = np.concatenate([[True], ~same])
                table = tuple(zip(values[first].tolist(), news[first].tolist()))
                best = int(changed.sum()), Assignment(form, table, None)
        return False if best is None else best[1]

    def _candidates(self, state: State, names: Sequence[str]) -> Iterable[Form]:
        """A constant, the open units' rows, then sums and differences of the variables themselves."""
        yield Form(0, ())
        others = [name for name in names if name != self.variable]
        for chosen in (others, list(names)):
            for name in chosen:
                yield variable_form(name, len(self.spec.kinds[name]))
            if len(chosen) in (2, 3):
                plain = [variable_form(name, len(self.spec.kinds[name])) for name in chosen]
                for signs in product((1, -1), repeat=len(chosen) - 1):
                    total = plain[0]
                    for form, sign in zip(plain[1:], signs):
                        total = total.plus(form, sign)
                    yield total
        still_open = self._open(state)[:40]
        for kept in (others, list(names)):
            tables = {n: self.function.tables[self.order.index(n)][1] for n in kept}
            seen = set()
            for unit in still_open:
                form = Form.of(0, {n: tuple(int(v) // FINE for v in t[:, unit]) for n, t in tables.items()})
                form = Form(0, form.terms)
                if form.terms and form not in seen:
                    seen.add(form)
                    yield form
