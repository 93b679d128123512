"""From a plan to tensors that every stock class shares: heads, neurons, embeddings, over a residual stream of ±1.

Every dimension of the residual stream is −1 or +1, so that its norm is one constant. A unit clip(n) of whole n is
relu(n) − relu(n − 1), and silu(128 n) = gelu(128 n) = 128 · relu(n) for whole n. The first token of every sequence is
a sink: it has a dimension of its own, no variable has a value there, and heads look there where they select nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kleene.compilers.stock_plan import JointHead, Plan, PlannedHead, PlannedLayer, joined
from kleene.errors import NotExact

Array = np.ndarray[Any, Any]

SATURATION = 128.0  # silu and gelu of this times a whole number are exact ReLUs
GAP = 64.0  # between a selected position and all others, in scores
CONSTANTS = 4  # dimensions that are always 1: a constant is a sum of few-bit parts over them
NEVER = -3.0  # the logit of a token that is never generated
ALLOWED = 64.0  # more for tokens that are allowed next, and less for others: exp(−128) is zero


@dataclass(frozen=True)
class Stream:
    """The place of each dimension of the plan in the model's residual stream, and the form of linear functions there.

    `mirror`: the dimensions that hold the negatives, where the norm subtracts the mean. `shift`: what the norm adds.
    """

    width: int
    place: Array
    sink: int
    constants: tuple[int, ...]
    mirror: Array | None = None  # stock dimension → the one that holds its negative
    shift: float = 0.0

    def rows(self, weights: Array, constant: Array, sink: Array) -> tuple[Array, Array]:
        """Linear functions of zeros and ones as rows on the normed stream, and their biases."""
        made = np.zeros((len(weights), self.width))
        np.add.at(made.T, self.place, weights.T / 2)
        made[:, self.sink] = sink / 2
        rest = constant + weights.sum(axis=1) / 2 + sink / 2
        for dim in self.constants:
            part = few_bits(rest)
            made[:, dim] = part
            rest = rest - part
        return made, -self.shift * made.sum(axis=1)

    def columns(self, added: Array) -> Array:
        """Return what units add to zeros and ones, as what neurons add to the stream."""
        made = np.zeros((self.width, added.shape[1]))
        np.add.at(made, self.place, 2 * added)
        return self.mirrored(made)

    def mirrored(self, columns: Array) -> Array:
        if self.mirror is not None:
            used = np.nonzero(columns.any(axis=1))[0]
            columns[self.mirror[used]] = -columns[used]
        return columns


def few_bits(values: Array) -> Array:
    """The leading eight bits of numbers, which bfloat16 holds."""
    mantissa, exponent = np.frexp(values)
    result: Array = np.ldexp(np.trunc(mantissa * 256), exponent - 8)
    return result


@dataclass
class StockLayer:
    """The tensors of one layer, whatever its class calls them. Biases are zero where a class has none."""

    q: Array  # (head, place, width)
    k: Array
    v: Array
    o: Array  # (head, width, place)
    gate: Array  # (neuron, width)
    up: Array
    down: Array  # (width, neuron)
    q_bias: Array
    k_bias: Array
    v_bias: Array
    gate_bias: Array
    names: list[list[str]] = field(default_factory=list)  # of the program's heads that each head holds
    purposes: list[list[str]] = field(default_factory=list)  # of the neurons


@dataclass(frozen=True)
class Rows:
    """Linear functions of zeros and ones: rows on the plan's dimensions, constants, and the sink's weights."""

    weights: Array
    constant: Array
    sink: Array

    @classmethod
    def zeros(cls, count: int, dims: int) -> Rows:
        return cls(np.zeros((count, dims)), np.zeros(count), np.zeros(count))


FillHead = Callable[[PlannedHead], tuple[Rows, Rows]]  # queries and keys of a head


def fill_layer(plan: Plan, layer: PlannedLayer, stream: Stream, heads: int, size: int, fill: FillHead) -> StockLayer:
    """The tensors of one layer. `heads`, `size`: of the model's attention."""
    shape = (heads, size, stream.width)
    q, k, v, o = np.zeros(shape), np.zeros(shape), np.zeros(shape), np.zeros((heads, stream.width, size))
    biases = [np.zeros((heads, size)) for _ in range(3)]
    names = []
    for number, head in enumerate(joined(layer.heads, size)):
        queries, keys = fill(head.select)
        q[number], biases[0][number] = stream.rows(queries.weights, queries.constant, queries.sink)
        k[number], biases[1][number] = stream.rows(keys.weights, keys.constant, keys.sink)
        fill_value(stream, head, v[number], o[number], biases[2][number])
        names.append(head.names)
    gate, gate_bias, down, purposes = fill_neurons(plan, layer, stream)
    up, up_bias = stream.rows(np.zeros((len(gate), len(stream.place))), np.ones(len(gate)), np.zeros(len(gate)))
    assert not up_bias.any() or stream.shift
    return StockLayer(q, k, v, o, gate, up, down, biases[0], biases[1], biases[2], gate_bias, names, purposes)


def fill_value(stream: Stream, head: JointHead, v: Array, o: Array, bias: Array) -> None:
    """Copy twice the zeros and ones of the selected position; of the first token the default."""
    sources, targets, default = head.sources, head.targets, np.array(head.default, dtype=float)
    weights = np.zeros((len(sources), len(stream.place)))
    held = [(place, source) for place, source in enumerate(sources) if source is not None]
    weights[tuple(np.array(held, dtype=int).reshape(-1, 2).T)] = 2
    v[: len(sources)], bias[: len(sources)] = stream.rows(weights, np.zeros(len(sources)), 2 * default)
    added = np.zeros((len(stream.place), len(sources)))
    added[targets, np.arange(len(sources))] = 0.5
    o[:, : len(sources)] = stream.columns(added)


def fill_neurons(plan: Plan, layer: PlannedLayer, stream: Stream) -> tuple[Array, Array, Array, list[list[str]]]:
    """clip(n) as relu(n) − relu(n − 1); as relu(n) where n is never above 1. Equal neurons are one."""
    top, off = plan.largest(layer.into, layer.bias), kept_off(plan, layer)
    made: dict[Any, list[Any]] = {}
    for unit, (row, bias) in enumerate(zip(layer.into, layer.bias)):
        steps = [(bias, 1)] if top[unit] <= 1 else [(bias, 1), (bias - 1, -1)]
        for constant, sign in steps:
            key = row.tobytes(), float(constant), float(off[unit])
            entry = made.setdefault(key, [row, constant, off[unit], np.zeros(plan.dims), []])
            entry[3] = entry[3] + sign * layer.out[:, unit]
            entry[4].append(layer.purposes[unit] if layer.purposes else ("", ""))
    kept = [entry for entry in made.values() if entry[3].any()]
    weights = np.zeros((len(kept), len(stream.place)))
    added = np.zeros((len(stream.place), len(kept)))
    for number, entry in enumerate(kept):
        weights[number, : plan.dims], added[: plan.dims, number] = entry[0], entry[3]
    constant, sink = (np.array([entry[place] for entry in kept], dtype=float) for place in (1, 2))
    centre(plan, weights, constant, sink)
    gate, bias = stream.rows(SATURATION * weights, SATURATION * constant, -SATURATION * sink)
    down = stream.columns(added / SATURATION)
    return gate, bias, down, [sorted({f"{purpose}: {why}" for purpose, why in entry[4]}) for entry in kept]


def centre(plan: Plan, weights: Array, constant: Array, sink: Array) -> None:
    """Take the median of the weights on each variable away, and add it to the constant: one of its values is on.

    The same for each head with a default. Weights are smaller then, and so are the sums that float32 has to hold. At
    the first token heads have their defaults, and no variable has a value: its weight keeps the sums there. A single
    value keeps its weight: the unit that clears it reads it."""
    for segment in plan.layout:
        head = plan.spec.heads.get(segment.name)
        always = segment.name in plan.spec.variables or (head is not None and head.default is not None)
        if segment.coding == "one-hot" and always and segment.size > 1:
            middle = np.sort(weights[:, segment.slice], axis=1)[:, (segment.size - 1) // 2]
            weights[:, segment.slice] -= middle[:, None]
            constant += middle
            sink += middle if head is None else 0


def kept_off(plan: Plan, layer: PlannedLayer) -> Array:
    """How much the first token subtracts from each unit's sum, so that no unit changes a variable there.

    Units that clear heads stay on. All units of one direction subtract the same, so that they share neurons."""
    variables = np.zeros(plan.dims, dtype=bool)
    for name in plan.spec.variables:
        variables[plan.layout[name].slice] = True
    writes = (layer.out[variables] != 0).any(axis=0) | (layer.half == 1)
    most: dict[bytes, float] = {}
    for row, value, on in zip(layer.into, plan.at_first(layer), writes):
        if on:
            most[row.tobytes()] = max(most.get(row.tobytes(), 0.0), float(np.ceil(value)))
    return np.array([most[row.tobytes()] if on else 0.0 for row, on in zip(layer.into, writes)])


def count_neurons(plan: Plan, layer: PlannedLayer) -> int:
    """The number of neurons that a layer needs."""
    plain = Stream(plan.dims + 1 + CONSTANTS, np.arange(plan.dims), plan.dims, (*range(plan.dims + 1, plan.dims + 5),))
    return len(fill_neurons(plan, layer, plain)[0])


def count_heads(plan: Plan, size: int) -> int:
    """How many heads of a size the model needs: a head with many values becomes several."""
    counts = [len(joined(layer.heads, size)) for layer in plan.layers]
    return max([1, *counts])


def pad(array: Array, axis: int, size: int) -> Array:
    """Zeros behind an array, up to a size."""
    widths = [(0, size - array.shape[axis] if place == axis else 0) for place in range(array.ndim)]
    return np.pad(array, widths)


def embed_tokens(plan: Plan, stream: Stream) -> Array:
    """(token, width): the program's tokens, the first token and padding. Dimensions of positions are zero."""
    codes = np.zeros((plan.spec.tokens + 2, stream.width))
    codes[:] = 1.0  # constants, and dimensions that nothing uses
    bits = np.zeros((plan.spec.tokens + 2, len(stream.place)))
    bits[: plan.spec.tokens, : plan.dims] = plan.tokens
    codes[:, stream.place] = 2 * bits - 1
    codes[:, stream.sink] = -1
    codes[plan.spec.tokens, stream.sink] = 1
    codes[:, stream.place[by_position(plan, stream)]] = 0
    if stream.mirror is not None:
        positive = np.unique(stream.mirror[stream.mirror >= 0], return_index=False)
        originals = np.nonzero(stream.mirror >= 0)[0]
        codes[:, stream.mirror[originals]] = -codes[:, originals]
        assert len(positive) == len(originals)
    return codes


def by_position(plan: Plan, stream: Stream) -> Array:
    """The dimensions of the plan, and behind it of codes, that are initialised from the position."""
    dims = [
        dim
        for name, variable in plan.spec.variables.items()
        if variable.by_position is not None
        for dim in range(plan.layout[name].start, plan.layout[name].stop)
    ]
    return np.array([*dims, *range(plan.dims, len(stream.place))], dtype=int)


def unembed(plan: Plan, stream: Stream) -> Array:
    """(token, width): the logit of an output is its dimension, ±1; of a token that is no output, −3.

    Where the program says which tokens are allowed, the logits of these are 64 more, and of all others 64 less."""
    rows = np.zeros((plan.spec.tokens + 2, stream.width))
    rows[:, stream.constants[0]] = NEVER
    for value, dim in enumerate(plan.outputs):
        rows[value] = 0
        rows[value, stream.place[dim]] = 1
    if plan.choices is not None:
        segment, kind = plan.layout[plan.choices], plan.spec.kinds[plan.choices]
        rows[:, stream.constants[1]] = -ALLOWED
        for index, members in enumerate(kind.values):
            rows[sorted(members), stream.place[segment.start + index]] += ALLOWED
            rows[sorted(members), stream.constants[1]] += ALLOWED
    if stream.mirror is not None:  # the norm's shift cancels
        originals = np.nonzero(stream.mirror >= 0)[0]
        rows[:, originals] /= 2
        rows[:, stream.mirror[originals]] = -rows[:, originals]
    return rows


def check_sums(name: str, layers: Sequence[StockLayer], logits: Array, shift: float) -> None:
    """Refuse a model whose sums float32 may round: values of heads, neurons and logits are exact in any order."""
    for number, layer in enumerate(layers):
        for rows, bias, out in zip(layer.v, layer.v_bias, layer.o):
            used = out.any(axis=0)
            _check_sum(name, f"a head's value in layer {number}", rows[used], bias[used], shift)
        used = layer.down.any(axis=0)
        _check_sum(name, f"a neuron in layer {number}", layer.gate[used], layer.gate_bias[used], shift)
    _check_sum(name, "a logit", logits, np.zeros(len(logits)), shift)


def _check_sum(name: str, what: str, rows: Array, bias: Array, shift: float) -> None:
    used = np.concatenate([np.abs(part[part != 0]) for part in (rows, bias)])
    if not used.size:
        return
    mantissa, exponent = np.frexp(used)
    digits = np.ldexp(mantissa, 53).astype(np.int64)  # the lowest set bit of each entry
    unit = float(np.ldexp(1.0, (np.log2(digits & -digits).astype(int) + exponent - 53).min()))
    most = float((np.abs(rows).sum(axis=1) * (shift + 1) + np.abs(bias)).max())
    if most > unit * 2.0**24:
        raise NotExact(
            f"{name}: {what} adds up to {most:,.6g} in steps of {unit:.6g}, more than float32 adds exactly"
            + ("; the rotary classes (llama, qwen3, phi3) take larger programs than gpt2" if shift else "")
        )
