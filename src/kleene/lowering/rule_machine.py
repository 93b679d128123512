"""The vectorised rule machine: runs guarded updates on integer arrays, batch × position × variable.

It needs only the Spec and the updates of a program, not its Python. So it also runs saved programs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from kleene.common.output import Output, check_layers
from kleene.errors import DidNotHalt, RangeError, UndefinedRead, WrongReplacement
from kleene.lowering.forms import Form
from kleene.lowering.layout import average_scale
from kleene.lowering.updates import Cycle, GuardedUpdate, Test, Updates
from kleene.machines.bitwords import part_of_name, with_part
from kleene.machines.kinds import Numerical, Subset
from kleene.machines.spec import HeadSpec, Spec

Array = np.ndarray[Any, Any]
Places = dict[
    Any, tuple[Array, Array, Array]
]  # (query, key, limits) → how many are selected, whether one is, and which
UNDEFINED = -1
OUTSIDE = -2  # an average outside the declared values


@dataclass(frozen=True)
class _FormTable:
    """A form in whole numbers: a constant and a table for each variable's column."""

    constant: int
    tables: tuple[tuple[str, Array], ...]

    @classmethod
    def of(cls, form: Form) -> _FormTable:
        whole = form.whole
        # one more entry, for undefined heads: no guard that holds reads it
        tables = tuple((name, np.array([*table, 0], dtype=np.int64)) for name, table in whole.terms)
        return cls(int(whole.constant), tables)

    def evaluate(self, state: dict[str, Array], rows: Any) -> Any:
        total: Any = self.constant
        for name, table in self.tables:
            total = total + table[state[name][rows]]
        return total


@dataclass(frozen=True)
class _TestTable:
    form: _FormTable
    low: int
    allowed: Array  # by value − low

    @classmethod
    def of(cls, test: Test) -> _TestTable:
        scale = test.form.denominator
        values = [int(value * scale) for value in test.form.values]
        # undefined heads count as zero: leave room for the values of forms there
        low, high = min(*values, 0) - 2 * _span(test.form), max(*values, 0) + 2 * _span(test.form)
        allowed = np.zeros(high - low + 1, dtype=bool)
        allowed[[int(value * scale) - low for value in test.allowed]] = True
        return cls(_FormTable.of(test.form), low, allowed)

    def holds(self, state: dict[str, Array]) -> Array:
        """The rows where the test holds. A test on one variable is a single table lookup."""
        if len(self.form.tables) == 1:
            ((name, table),) = self.form.tables
            by_index: Array = self.allowed[table + (self.form.constant - self.low)]
            return by_index[state[name]]
        result: Array = self.allowed[self.form.evaluate(state, slice(None)) - self.low]
        return result


def _all(tests: list[_TestTable], state: dict[str, Array], holds: dict[int, Array]) -> Array | None:
    """The rows where all tests hold; None means all rows."""
    where: Array | None = None
    for test in tests:
        if id(test) not in holds:
            holds[id(test)] = test.holds(state)
        where = holds[id(test)] if where is None else where & holds[id(test)]
    return where


def _span(form: Form) -> int:
    whole = form.whole
    return sum(max(abs(int(entry)) for entry in table) for _, table in whole.terms) + abs(int(whole.constant))


@dataclass(frozen=True)
class _LastLayer:
    """What the updates of a layer read, and what they made of it; rows are positions of all sequences, flattened."""

    read: dict[str, Array]
    made: dict[str, Array]

    def different(self, read: dict[str, Array]) -> Any:
        """The rows that read something else than here; all rows where that is most of them."""
        rows: Array | None = None
        for name, array in read.items():
            if array is not self.read[name]:
                differs = array != self.read[name]
                rows = differs if rows is None else rows | differs
                if 2 * np.count_nonzero(rows) > len(rows):
                    return slice(None)
        return slice(None) if rows is None else np.nonzero(rows)[0]


def _columns(state: dict[str, Array]) -> dict[str, Array]:
    """The same columns, and those of parts of words where they are asked for."""
    return _Columns(state)


def _replaced(old: Array, rows: Array, new: Array) -> Array:
    made = old.copy()
    made[rows] = new
    return made


class _Columns(dict[str, Array]):
    """Columns by name. A part of a word is a column, too, made when it is first asked for."""

    def __missing__(self, name: str) -> Array:
        found = part_of_name(name)
        if found is None:
            raise KeyError(name)
        word = self[found[0]]
        self[name] = np.where(word < 0, UNDEFINED, word >> found[1] & (1 << found[2] - found[1]) - 1)
        return self[name]


class RuleMachine:
    """Runs a program from its guarded updates, on many inputs at once."""

    leaves_settled = True  # leave positions alone that read the same again; false where a subclass sees every layer

    def __init__(self, updates: Updates | Cycle) -> None:
        self.spec = updates.spec
        self.by_layer = [self]
        if isinstance(updates, Cycle):
            self.by_layer = [RuleMachine(part) for part in updates.by_layer]
            return
        self.updates = updates
        self.second = None if updates.second is None else RuleMachine(updates.second)
        self._tests: dict[Test, _TestTable] = {}
        self._compiled = [self._compile(update) for update in updates]
        self._words = [(word, [self._test(test) for test in word.guard]) for word in updates.words]
        self._reads = [(read.head, [self._test(test) for test in read.guard]) for read in updates.reads]

    def _test(self, test: Test) -> _TestTable:
        return self._tests.setdefault(test, _TestTable.of(test))

    def _compile(self, update: GuardedUpdate) -> tuple[str, list[_TestTable], _FormTable, int, Array]:
        scale = update.form.denominator
        known = {int(value * scale): index for value, index in update.table}
        low = min(known)
        results = np.zeros(max(known) - low + 1, dtype=np.int64)
        for value, index in known.items():
            results[value - low] = index
        tests = [self._test(test) for test in update.guard]
        return update.variable, tests, _FormTable.of(update.form), low, results

    # --- one layer ---

    def heads(self, state: dict[str, Array], lengths: Array) -> tuple[dict[str, Array], dict[str, Array]]:
        """The output indices of every head, and how many positions it selects, both (batch, position)."""
        outputs, counts, state = {}, {}, _columns(state)
        places: Places = {}  # heads with the same query and key select the same positions: look them up once
        for name, head in self.spec.heads.items():
            outputs[name], counts[name] = _attend(self.spec, head, state, lengths, places)
        return outputs, counts

    def _moved(self, state: dict[str, Array], lengths: Array, layer: int, check: bool) -> dict[str, Array]:
        """The state after the heads that clear variables or write into them."""
        after, real = dict(state), np.arange(next(iter(state.values())).shape[1]) < lengths[:, None]
        state = _columns(state)
        for clear in self.spec.clears.values():
            cleared = real & _has(state, clear.where)
            after |= {name: np.where(cleared, 0, after[name]) for name in clear.variables}
        places: Places = {}
        for head in self.spec.moves.values():
            assert head.into is not None
            output, counts = _attend(self.spec, head, state, lengths, places)
            written = real & _has(state, head.where)
            if head.replacing is not None:
                written = written & (counts > 0)
            if check:
                for row, position in np.argwhere(written & (output < 0))[:1]:
                    raise UndefinedRead(self.spec.name, head.name, int(position), layer, int(counts[row, position]))
                if head.replacing is not None:
                    old, _ = _attend(self.spec, replace(head, value=head.replacing), state, lengths, {})
                    for _, position in np.argwhere(written & (old != state[head.into]))[:1]:
                        raise WrongReplacement(
                            self.spec.name, head.name, head.into, head.replacing, int(position), layer
                        )
            kept = after if head.into in after else _columns(after)
            name, value = with_part(after, head.into, np.where(written & (output >= 0), output, kept[head.into]))
            after[name] = value
        return after

    def step(self, state: dict[str, Array], heads: dict[str, Array]) -> dict[str, Array]:
        """The variables after the updates; rows are positions of all sequences, flattened."""
        everything = self._with_predicates({**state, **heads})
        after = dict(state)
        holds: dict[int, Array] = {}  # evaluate a test once for all updates that share it
        for variable, tests, form, low, results in self._compiled:
            where = _all(tests, everything, holds)
            rows: Any = slice(None) if where is None else np.nonzero(where)[0]
            if where is None or len(rows):
                if after[variable] is state[variable]:
                    after[variable] = state[variable].copy()
                after[variable][rows] = results[form.evaluate(everything, rows) - low]
        for word, tests in self._words:
            where = _all(tests, everything, holds)
            new = word.assignment.value(everything)
            after[word.variable] = np.where(True if where is None else where, new, after[word.variable])
        return after if self.second is None else self.second.step(after, {})

    def _with_predicates(self, state: dict[str, Array]) -> dict[str, Array]:
        """Add the comparisons of words to the state, as 0 and 1; bits of words can be looked up by name."""
        found = _Columns(state)
        for name, predicate in self.updates.by_predicate.items():
            found[name] = np.asarray(predicate.holds(state), dtype=np.int64)
        return found

    def _check_reads(
        self, state: dict[str, Array], counts: dict[str, Array], rows: Any, mask: Array, layer: int
    ) -> None:
        """Raise an error for the first position that reads an undefined head; `rows` are those in `state`."""
        first: dict[int, tuple[str, int]] = {}
        holds: dict[int, Array] = {}
        for name, tests in self._reads:
            bad = mask.reshape(-1)[rows] & (state[name] < 0)
            if not bad.any():
                continue
            where = _all(tests, state, holds)
            for row in np.nonzero(bad if where is None else bad & where)[0].tolist():
                found = int(counts[name].reshape(-1)[rows][row]) if state[name][row] == UNDEFINED else OUTSIDE
                first.setdefault(row, (name, found))
        if first:
            row, (name, found) = min(first.items())
            position = int(np.arange(mask.size)[rows][row]) % mask.shape[1]
            if found == OUTSIDE:
                raise RangeError(
                    f"{self.spec.name}: '{name}' at position {position} in layer {layer}: "
                    "the average is outside the declared values"
                )
            raise UndefinedRead(self.spec.name, name, position, layer, found)

    def applied(self, everything: dict[str, Array]) -> Iterator[Array]:
        """The rows to which each update applies."""
        return self._where([tests for _, tests, *_ in self._compiled], everything)

    def words_applied(self, everything: dict[str, Array]) -> Iterator[Array]:
        """The rows to which each update of a word applies."""
        return self._where([tests for _, tests in self._words], everything)

    def _where(self, guards: list[list[_TestTable]], everything: dict[str, Array]) -> Iterator[Array]:
        everything = self._with_predicates(dict(everything))
        holds: dict[int, Array] = {}
        count = len(next(iter(everything.values())))
        for tests in guards:
            where = _all(tests, everything, holds)
            yield np.arange(count) if where is None else np.nonzero(where)[0]

    def _layer(self, state: dict[str, Array], lengths: Array, layer: int, check: bool) -> dict[str, Array]:
        """The state after one layer; `check` raises where the interpreter would."""
        return self._next(state, lengths, layer, check, None)[0]

    def _next(
        self, state: dict[str, Array], lengths: Array, layer: int, check: bool, last: _LastLayer | None
    ) -> tuple[dict[str, Array], _LastLayer | None]:
        """The state after one layer, and what the next layer may compare with.

        last: the layer before, where it ran the same updates. A position that reads the same again gets the same."""
        part = self.by_layer[(layer - 1) % len(self.by_layer)]
        if part is not self:
            return part._layer(state, lengths, layer, check), None
        shape = next(iter(state.values())).shape
        heads, counts = self.heads(state, lengths)
        state = self._moved(state, lengths, layer, check)
        flat = {name: array.reshape(-1) for name, array in state.items()}
        read = {**flat, **{name: array.reshape(-1) for name, array in heads.items()}}
        rows = slice(None) if last is None else last.different(read)
        some = read if isinstance(rows, slice) else {name: array[rows] for name, array in read.items()}
        if check:
            mask = np.arange(shape[1]) < lengths[:, None]
            self._check_reads(self._with_predicates(dict(some)), counts, rows, mask, layer)
        after = self.step({name: some[name] for name in flat}, {name: some[name] for name in heads})
        if last is not None and not isinstance(rows, slice):
            after = {name: _replaced(last.made[name], rows, array) for name, array in after.items()}
        return {name: array.reshape(shape) for name, array in after.items()}, _LastLayer(read, after)

    # --- running ---

    def run_batch(
        self,
        inputs: Sequence[Sequence[int]],
        *,
        layers: int | None = None,
        max_layers: int = 10_000,
        check: bool = True,
        watch: Callable[[int, Array, dict[str, Array]], None] | None = None,
    ) -> list[Output]:
        """Run many inputs, and return their outputs. Sequences leave the batch as they halt.

        - `layers`: run this many layers instead of until the program halts.
        - `max_layers`: raise `DidNotHalt` after this many layers.
        - `check`: raise where the interpreter would raise.
        - `watch`: called after each layer with its number, the rows that still run, and their state.
        """
        spec = self.spec
        check_layers(spec.name, layers, 0 if spec.max_tokens is None else 1)
        given = spec.check_inputs(inputs)
        if not given:
            return []
        rows = np.arange(len(given))
        lengths = np.array([len(tokens) for tokens in given])
        state = self._initial(given, lengths)
        fixed, layer = (layers if layers is not None else None if spec.halt else spec.layers), 0
        results: list[Output | None] = [None] * len(given)
        last: _LastLayer | None = None
        while layer != fixed and len(rows):
            if fixed is None and layer >= max_layers:
                raise DidNotHalt(f"{spec.name}: did not halt within {max_layers:,} layers (max_layers)")
            layer += 1
            if self.leaves_settled:
                state, last = self._next(state, lengths, layer, check, last)
            else:
                state = self._layer(state, lengths, layer, check)
            if watch is not None:
                watch(layer, rows, state)
            if fixed is None:
                done = self._halted(state, lengths)
                if done.any():
                    self._collect(results, rows[done], {n: a[done] for n, a in state.items()}, lengths[done], layer)
                    keep = ~done
                    rows, lengths = rows[keep], lengths[keep]
                    longest, last = int(lengths.max()) if len(lengths) else 0, None
                    state = {n: a[keep][:, :longest] for n, a in state.items()}
        self._collect(results, rows, state, lengths, layer)
        return [result for result in results if result is not None]

    def run(self, tokens: Sequence[int], **options: Any) -> Output:
        """Run one input. Options as for `run_batch`."""
        if self.spec.max_tokens is not None:
            return self._decode(tokens, **options)
        return self.run_batch([tokens], **options)[0]

    def _decode(self, tokens: Sequence[int], **options: Any) -> Output:
        spec, layers = self.spec, 0
        made: list[int] = []
        assert spec.max_tokens is not None
        while len(made) < spec.max_tokens and (spec.stop is None or made[-1:] != [spec.stop]):
            output = self.run_batch([[*tokens, *made]], **options)[0]
            made.append(output[-1])
            layers += output.layers
        return Output(made, layers, self.spec.answer)

    def _initial(self, given: list[list[int]], lengths: Array) -> dict[str, Array]:
        shape = (len(given), int(lengths.max()))
        tokens = np.zeros(shape, dtype=np.int64)
        for row, sequence in enumerate(given):
            tokens[row, : len(sequence)] = sequence
        state = {}
        for name, variable in self.spec.variables.items():
            if variable.by_token is not None:
                state[name] = np.array(variable.by_token, dtype=np.int64)[tokens]
            elif variable.by_position is not None:
                places = np.array(variable.by_position, dtype=np.int64)[: shape[1]]
                state[name] = np.broadcast_to(places, shape).copy()
            else:
                state[name] = np.full(shape, variable.default, dtype=np.int64)
        return state

    def _halted(self, state: dict[str, Array], lengths: Array) -> Array:
        padding = np.arange(next(iter(state.values())).shape[1]) >= lengths[:, None]
        done: Array = np.ones(len(lengths), dtype=bool)
        for name, index in self.spec.halt.items():
            done &= ((state[name] == index) | padding).all(axis=1)
        return done

    def _collect(self, results: list[Output | None], rows: Array, state: Any, lengths: Array, layer: int) -> None:
        for row, values, length in zip(rows.tolist(), state[self.spec.output].tolist(), lengths.tolist()):
            results[row] = Output(values[:length], layer, self.spec.answer)


def _attend(spec: Spec, head: HeadSpec, state: dict[str, Array], lengths: Array, known: Places) -> tuple[Array, Array]:
    """The output indices of one head (UNDEFINED where it has no output), and how many positions it selects."""
    values = state[head.value]
    limited = head.where or head.among
    if head.key is None and head.offsets is not None and len(head.offsets) == 1 and not head.numerical and not limited:
        return _shift(spec, head, values, lengths)
    if head.numerical:
        counts, totals = _selected_sums(spec, head, state, _whole(spec, head)[values], lengths)
        if head.counts:
            return _average(spec, head, totals - average_scale(spec, head.name), counts + 1), counts
        return _average(spec, head, totals, counts), counts
    sharing = head.selection
    if sharing not in known:
        places = np.broadcast_to(np.arange(values.shape[1]), values.shape)
        counts, totals = _selected_sums(spec, head, state, places, lengths)
        one = counts == 1  # where one position is selected, the sum of positions is that position
        known[sharing] = counts, one, np.where(one, totals, 0)
    counts, one, place = known[sharing]
    return _with_default(head, np.where(one, _along(values, place), UNDEFINED), counts), counts


def _along(values: Array, places: Array) -> Array:
    """The values of each row at some places."""
    found: Array = values.reshape(-1)[places + (np.arange(len(values)) * values.shape[1])[:, None]]
    return found


def _preferred(spec: Spec, head: HeadSpec, state: dict[str, Array], lengths: Array) -> tuple[Array, Array]:
    """Whether a head with a preference selects a position (0 or 1), and which; 0 where it selects none."""
    selected = _selection(spec, head, state, lengths)  # (batch, query position, key position)
    size = selected.shape[1]
    ranks = np.array([head.rank(offset) for offset in range(1 - size, size)], dtype=np.int64)
    places = np.arange(size)
    ranked = ranks[places[None, :] - places[:, None] + size - 1]
    place = np.where(selected, ranked, ranks.min() - 1).argmax(axis=2)
    counts: Array = np.asarray(selected.any(axis=2), dtype=np.int64)
    return counts, np.where(counts == 1, place, 0)


def _selected_sums(
    spec: Spec, head: HeadSpec, state: dict[str, Array], summed: Array, lengths: Array
) -> tuple[Array, Array]:
    """How many positions are selected, and the sum of the numbers there."""
    if head.prefer is not None:
        counts, place = _preferred(spec, head, state, lengths)
        return counts, np.where(counts == 1, _along(summed, place), 0)
    if head.key is not None and head.offsets is None and not spec.causal:
        counts, sums = _looked_up(spec, head, state, summed, lengths)
        looks = _has(state, head.where)
        return np.where(looks, counts, 0), np.where(looks, sums, 0)
    selected = _selection(spec, head, state, lengths)  # (batch, query position, key position)
    return selected.sum(axis=2), np.einsum("bij,bj->bi", selected.astype(np.int64), summed)


def _looked_up(
    spec: Spec, head: HeadSpec, state: dict[str, Array], summed: Array, lengths: Array
) -> tuple[Array, Array]:
    """Counts and sums of the selected positions, from a table for each sequence and value of the key."""
    assert head.query is not None and head.key is not None
    batch, size = summed.shape
    keys, kind = len(spec.kinds[head.key]), spec.kinds[head.query]
    if keys > 4 * size and not isinstance(
        kind, Subset
    ):  # a wide range, such as that of a word: number the keys that occur
        known, flat = np.unique(
            np.concatenate([state[head.key].ravel(), state[head.query].ravel()]), return_inverse=True
        )
        keys, (key, query) = len(known), flat.reshape(2, batch, size)
    else:
        key, query = state[head.key], state[head.query]
    seen = (np.arange(size) < lengths[:, None]) & _has(state, head.among)
    places = (np.arange(batch)[:, None] * keys + key)[seen]
    real = summed[seen]
    counts = np.bincount(places, minlength=batch * keys).reshape(batch, keys)
    sums = np.bincount(places, weights=real, minlength=batch * keys).astype(np.int64).reshape(batch, keys)
    if isinstance(kind, Subset):
        member = np.array([[k in members for members in kind.values] for k in range(kind.range)], dtype=np.int64)
        counts, sums = counts @ member, sums @ member  # (batch, set)
    return _along(counts, query), _along(sums, query)


def _has(state: dict[str, Array], limits: tuple[tuple[str, int], ...]) -> Any:
    """Which positions have the values that limit a head."""
    holds: Any = True
    for name, index in limits:
        holds = holds & (state[name] == index)
    return holds


def _whole(spec: Spec, head: HeadSpec) -> Array:
    """The numbers that a numerical head averages, times the factor that makes them whole."""
    scale = average_scale(spec, head.name)
    if head.counts:
        return np.zeros(len(spec.kinds[head.value]), dtype=np.int64)
    return np.array([int(value * scale) for value in spec.kinds[head.value].values], dtype=np.int64)


def _with_default(head: HeadSpec, output: Array, counts: Array) -> Array:
    result = output if head.default is None else np.where(counts == 0, head.default, output)
    return result.astype(np.int64, copy=False)


def _shift(spec: Spec, head: HeadSpec, values: Array, lengths: Array) -> tuple[Array, Array]:
    (offset,) = head.offsets or (0,)
    size = values.shape[1]
    counts = np.zeros(values.shape, dtype=np.int64)
    output = np.full(values.shape, UNDEFINED, dtype=np.int64)
    if abs(offset) < size and not (spec.causal and offset > 0):
        to, source = slice(max(0, -offset), size - max(0, offset)), slice(max(0, offset), size - max(0, -offset))
        counts[:, to], output[:, to] = 1, values[:, source]
    if (lengths != size).any():  # of the shorter sequences, neither the end nor what stands behind it
        valid = np.arange(size) < (lengths - max(0, offset))[:, None]
        counts, output = np.where(valid, counts, 0), np.where(valid, output, UNDEFINED)
    return _with_default(head, output, counts), counts


def _selection(spec: Spec, head: HeadSpec, state: dict[str, Array], lengths: Array) -> Array:
    size = state[head.value].shape[1]
    places = np.arange(size)
    offsets = places[None, :] - places[:, None]
    allowed: Array = (places < lengths[:, None])[:, None, :]
    if head.offsets is not None:
        allowed = allowed & np.isin(offsets, list(head.offsets))
    if spec.causal:
        allowed = allowed & (offsets <= 0)
    if head.where or head.among:
        every = np.ones((len(lengths), size), dtype=bool)
        looks, seen = every & _has(state, head.where), every & _has(state, head.among)
        allowed = allowed & looks[:, :, None] & seen[:, None, :]
    allowed = np.broadcast_to(allowed, (len(lengths), size, size))
    if head.query is None or head.key is None:
        return allowed
    query, key = state[head.query], state[head.key]
    kind = spec.kinds[head.query]
    if isinstance(kind, Subset):
        member = np.array([[k in members for k in range(kind.range)] for members in kind.values], dtype=bool)
        match: Array = member[query[:, :, None], key[:, None, :]]
    else:
        match = query[:, :, None] == key[:, None, :]
    selected: Array = match & allowed
    return selected


def _average(spec: Spec, head: HeadSpec, totals: Array, counts: Array) -> Array:
    """The declared value nearest to each exact average. Each different (sum, count) is rounded once."""
    kind, scale = head.kind, average_scale(spec, head.name)
    assert isinstance(kind, Numerical)
    pairs, places = np.unique(np.stack([totals.ravel(), counts.ravel()]), axis=1, return_inverse=True)
    nearest = [_bucket(kind, int(total), int(count), scale) for total, count in pairs.T]
    if head.counts:  # one more than it counts
        nearest = [OUTSIDE if count > len(kind) else bucket for bucket, count in zip(nearest, pairs[1].tolist())]
    output = np.array(nearest, dtype=np.int64)[places.ravel()].reshape(totals.shape)
    return _with_default(head, output, counts)


def _bucket(kind: Numerical, total: int, count: int, scale: int) -> int:
    if count == 0:
        return UNDEFINED
    try:
        found = kind.index(kind.nearest(Fraction(total, count * scale)))
    except RangeError:
        return OUTSIDE
    return UNDEFINED if found is None else found
