"""Prove from the tensors of a stock model that it computes its program: norm, heads, neurons, logits.

    python -m kleene.checks.stock_checker DIR [--dtype float32] [--json]

Its input is a folder of transformers (config.json, model.safetensors) with kleene.json, which holds the program as data
and a claim: which dimensions of the residual stream hold what. Nothing of the compilers is imported. Every lemma states
what the numbers show. The walk over the MLP is that of kleene/checker.py, on units that are derived from the neurons.

The residual stream holds ±1. A dimension of the program that is 0 or 1 is −1 or +1 there. The first token of every
sequence is the sink: it attends to itself alone, so its state is computed once, exactly.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import log
from typing import Any

import numpy as np

from kleene import checker
from kleene.checker import Array, Format, Refused, integer, need
from kleene.checks.stock_tensors import Attention, Mlp, StockNet, StockSaved, read_net, read_stock_folder

SATURATION = 128  # silu and gelu of 128 n are 128 · relu(n) for every whole n: exp(128) overflows, tanh is ±1
MAX_CLASSES = 8192  # of what a query or a key can be
MAX_SCORES = 2_000_000_000
EXACT_SCORES = 100_000  # of one query: beyond, scores are bounded from above
SHARED = 2.0**-10  # a factor of all scores of a query may be off by so much
LEAK = 2.0**-28  # the most that positions which are not selected may add


@dataclass(frozen=True)
class Linear:
    """Linear functions of the stream: weights on the program's zeros and ones, constants at a token and at the first
    token (where no variable has a value), and weights on codes of positions."""

    weights: Array  # (row, dim)
    constant: Array
    first: Array
    placed: Array  # (row, place)


class Model:
    """A stock model, read: its tensors by role, its program, and where the claim puts things."""

    def __init__(self, saved: StockSaved, number_format: Format) -> None:
        self.saved, self.format = saved, number_format
        self.net: StockNet = read_net(saved)
        self.description, claim = saved.content["description"], saved.content["claim"]
        self.width, self.dims = self.net.shape.width, len(claim["place"])
        self.length = integer(claim["length"], 1, 1 << 20, "the length")
        self.place = np.array([integer(p, 0, self.width - 1, "a place") for p in claim["place"]])
        self.sink = integer(claim["sink"], 0, self.width - 1, "the sink")
        self.layers = [
            (integer(entry[0], 0), integer(entry[1], 1, 2)) for entry in claim["layers"] if entry is not None
        ]
        self.idle = claim["layers"][len(self.layers) :]
        need(all(entry is None for entry in self.idle), "a layer without a claim is not at the end")
        self.heads = [[[str(name) for name in names] for names in layer] for layer in claim["heads"]][
            : len(self.layers)
        ]
        self.mirror = None if claim["mirror"] is None else np.array(claim["mirror"])
        self._read_stream()
        self.core = self._core()
        self.program = self.core.program
        self.alive = [self._alive(layer.heads) for layer in self.program.layers]

    def _read_stream(self) -> None:
        """Every dimension is the program's, the sink, constant, a code of the position, or the mirror of one."""
        used = [*self.place.tolist(), self.sink]
        need(self.sink not in self.place, "the sink is claimed twice")
        self.originals = np.arange(self.width)
        self.mirrors = np.full(self.width, -1)
        if self.mirror is not None:
            need(self.mirror.shape == (self.width,), "the claim has another width")
            self.originals = np.nonzero(self.mirror >= 0)[0]
            both = [*self.originals.tolist(), *self.mirror[self.originals].tolist()]
            need(sorted(both) == list(range(self.width)), "mirrors do not cover the stream")
            need({*used} <= {*self.originals.tolist()}, "a dimension of the program is a mirror")
            self.mirrors = self.mirror
        need((self.mirror is not None) == self.net.subtracts_mean, "mirrors are for norms that subtract the mean")
        moved = np.zeros(self.width, dtype=bool)
        if self.net.positions is not None:
            moved = np.asarray(self.net.positions.any(axis=0))
        rest = [d for d in self.originals.tolist() if d not in {*used}]
        self.fixed = np.array([d for d in rest if not moved[d]], dtype=int)
        self.extra = np.array([d for d in rest if moved[d]], dtype=int)

    def _core(self) -> checker.Net:
        """The program and the units, as the independent checker reads a network."""
        program = self.description["program"]
        turns = max(1, len(program["cycle"]))
        count = integer(program["layers"], 1, 4096, "layers")
        shapes = [{"heads": [], "window": 0} for _ in range(turns)]
        config = {"dim": self.dims, "cycle": shapes, "blocks": count, "positions": program["positions"]}
        config |= {"max_length": self.length, "causal": True, "shape": "decoder", "halts": False}
        content = {"config": {**config, "layers": count}, "description": self.description}
        empty = {f"blocks.{b}.{name}": np.zeros((0, self.dims)) for b in range(count) for name in checker.BLOCK}
        return checker.Net(checker.Saved(content, empty), self.format)

    @cached_property
    def shift(self) -> float:
        """What the norm adds to ±1."""
        bias = self.net.norms[0].bias
        return 0.0 if bias is None else float(bias[0])

    def signs(self, rows: Array) -> Array:
        """Weights on the original dimensions: a mirror holds the negative."""
        mine: Array = rows[..., self.originals]
        return mine if self.mirror is None else mine - rows[..., self.mirrors[self.originals]]

    def _alive(self, heads: Iterable[str]) -> Array:
        """The dimensions that may be one in a layer: variables, scratch values, and its own heads. Each has a place.

        Heads of other layers are zero: they start as zero, only their own layer writes them, and it clears them."""
        alive = np.ones(self.dims, dtype=bool)
        for layer in self.program.layers:
            for name in layer.heads:
                alive[self.core.layout[name].slice] = False
        for name in heads:
            alive[self.core.layout[name].slice] = True
        need(len({*self.place[alive].tolist()}) == int(alive.sum()), "a dimension is claimed twice")
        return alive

    def alive_at(self, index: int | None) -> Array:
        """The dimensions that may be one in a layer of the model; None: after the last."""
        return self._alive(()) if index is None else self.alive[self.layers[index][0] % len(self.alive)]

    def linear(self, rows: Array, bias: Array, index: int | None) -> Linear:
        """Rows on the normed stream, in a layer of the model, as functions of the program's zeros and ones."""
        alive = self.alive_at(index)
        whole = np.zeros(rows.shape)
        whole[:, self.originals] = self.signs(rows)
        every, mine = np.unique(self.place), self.place[alive]
        constant = bias + self.shift * rows.sum(axis=1) + whole[:, self.fixed] @ self.start[self.fixed]
        constant = constant - whole[:, every].sum(axis=1)
        first = constant + whole[:, self.sink] + 2 * whole[:, every] @ (self.start[every] > 0)
        weights = np.zeros((len(rows), self.dims))
        weights[:, alive] = 2 * whole[:, mine]
        return Linear(weights, constant - whole[:, self.sink], first, whole[:, self.extra])

    @cached_property
    def start(self) -> Array:
        """The stream at the first token, before the first layer."""
        row: Array = self.net.embedding[self.tokens].copy()
        return row if self.net.positions is None else np.asarray(row + self.net.positions[0])

    @property
    def attention(self) -> list[Attention]:
        """Of the layers that are claimed to do something."""
        return self.net.attention[: len(self.layers)]

    @property
    def mlp(self) -> list[Mlp]:
        return self.net.mlp[: len(self.layers)]

    @property
    def tokens(self) -> int:
        return int(self.description["program"]["tokens"])

    def unit(self, *arrays: Array) -> float:
        """The largest power of two that divides every entry."""
        lows = [1.0]
        for array in arrays:
            entries = np.abs(array[array != 0])
            if entries.size:
                mantissa, exponent = np.frexp(entries)
                whole = np.ldexp(mantissa, 53).astype(np.int64)
                lows.append(float(np.ldexp(1.0, int((np.log2(whole & -whole).astype(int) + exponent - 53).min()))))
        return min(lows[1:], default=1.0)

    def exact(self, rows: Array, bias: Array, what: str) -> float:
        """Sums over the normed stream are exact in any order: whole multiples of a unit, below 2^24 of them."""
        unit = self.unit(rows, bias)
        top = float((np.abs(rows).sum(axis=1) * (self.shift + 1) + np.abs(bias)).max(initial=0))
        need(
            top <= unit * 2.0**24, f"{what} reaches {top:,.6g} in steps of {unit:.6g}, beyond what float32 adds exactly"
        )
        return top / unit

    def most(self, weights: Array) -> Array:
        """The most that linear functions of zeros and ones can be, without their constants."""
        total = np.zeros(len(weights))
        for s in self.core.layout.values():
            part = weights[:, s.slice]
            if s.coding != "one-hot":
                total = total + np.maximum(part, 0).sum(axis=1)
            else:
                best = part.max(axis=1)
                total = total + (best if s.name in self.program.variables else np.maximum(best, 0))
        return total


# === shapes, numbers, norm, embeddings ====================================================================


def prove_shapes(model: Model) -> dict[str, Any]:
    """The config is the class's, its layers take the program's turns, and lengths fit."""
    s, program = model.net.shape, model.description["program"]
    need(program["causal"] is True, "the program looks ahead")
    need(not program["moves"] and not program["halt"], "the program halts, or has heads that write into variables")
    need(s.vocabulary == model.tokens + 2, "the vocabulary has another size than tokens, the first token and padding")
    claimed = len(model.layers) + len(model.idle)
    need(claimed == s.layers and len(model.heads) == len(model.layers), "another number of layers is claimed")
    for number in range(len(model.layers), s.layers):
        quiet = not model.net.attention[number].o.any() and not model.net.mlp[number].down.any()
        need(quiet, f"layer {number} is claimed to add nothing, and adds something")
    need(s.positions is None or s.positions >= model.length + 1, "there are fewer positions than the length")
    limit = program["positions"]
    need(limit is None or model.length <= integer(limit, 1), "it takes longer sequences than the program")
    wanted: list[tuple[int, int]] = []
    for number in range(program["layers"]):
        wanted += [(number, half) for half in (1, 2) if (number, half) in model.layers or half == 2]
    need(model.layers == wanted, "the layers are not the program's, one after the other")
    for (_, half), names, before in zip(model.layers, model.heads, [None, *model.layers]):
        need(half == 1 or before is None or before[1] == 2 or not names, "a second half has heads")
    return {"class": model.net.family, "layers": s.layers, "width": s.width, "length": model.length}


def prove_numbers(model: Model) -> dict[str, Any]:
    """Every entry is finite, and the format holds it."""
    entries = 0
    for name, tensor in model.saved.tensors.items():
        need(np.isfinite(tensor).all(), f"{name} has an entry that is not finite")
        held = model.format.holds(tensor)
        need(held.all(), f"{name} has the entry {tensor[~held][:1]}, which {model.format.name} cannot hold")
        entries += tensor.size
    return {"entries": entries, "format": model.format.name}


def prove_norm(model: Model) -> dict[str, Any]:
    """Where every dimension is ±1, every norm gives the dimension plus one constant, exactly."""
    d, epsilon = model.width, model.net.shape.epsilon
    for norm in model.net.norms:
        need((norm.weight == 1).all(), "a weight of a norm is not 1")
        need(norm.bias is None or (norm.bias == model.shift).all(), "the biases of the norms differ")
    need(np.float32(1) + np.float32(epsilon) == 1, f"1 + {epsilon} is not 1 in float32")
    if not model.net.subtracts_mean:
        one = np.float32(d) * (np.float32(1) / np.float32(d))
        need(one == 1 and d < 1 << 24, f"the mean of {d} ones, as their sum times 1 / {d}, is not 1 in float32")
        return {"norm": "RMS", "width": d, "constant": 1}
    error = 1.25 * (d + 16) * 2.0**-24 + epsilon  # of mean and deviation together, in any order of summation
    if model.format.name == "bfloat16":
        need(model.shift == 0 and error < 2.0**-9, "the norm's rounding shows in bfloat16")
        return {"norm": "Layer", "width": d, "error": error, "rounds to": 2.0**-8}
    grid = 2.0 ** (np.frexp(model.shift)[1] - 1 - 23)  # between numbers just above the bias
    need(model.shift > 1 and np.frexp(model.shift)[0] == 0.5, "the bias of the norms is no power of two")
    need(error < grid / 2, f"the norm may be off by {error:.2g}, and its bias rounds only to {grid:.2g}")
    return {"norm": "Layer", "width": d, "error": error, "rounds to": grid}


def prove_embeddings(model: Model) -> dict[str, Any]:
    """For every token and position the embeddings add up to ±1, and to the codes of the first values."""
    tokens, program = model.net.embedding[: model.tokens + 1], model.program
    places = np.zeros((1, model.width)) if model.net.positions is None else model.net.positions[: model.length + 1]
    for array in (tokens, places):
        if model.mirror is not None:
            same = (array[:, model.mirrors[model.originals]] == -array[:, model.originals]).all()
            need(same, "an embedding is not mirrored")
    moved = places.any(axis=0)
    need((np.abs(tokens[:, ~moved]) == 1).all(), "a token's embedding is neither −1 nor 1")
    need(not tokens[:, moved].any(), "a dimension depends on token and position")
    need((np.abs(places[:, moved]) == 1).all(), "a position's embedding is neither −1 nor 1")
    need((tokens[:, model.fixed] == tokens[:1, model.fixed]).all(), "a constant depends on the token")
    need((tokens[: model.tokens, model.sink] == -1).all() and tokens[-1, model.sink] == 1, "the sink is not the sink")
    codes = -np.ones((model.tokens, model.dims))
    for name, kind in program.variables.items():
        how, values = program.initial(name)
        here = model.place[model.core.layout[name].slice]
        wanted = 2 * kind.codes(values) - 1
        if how == "position":
            need((places[1:, here] == wanted[: model.length]).all(), f"'{name}' does not start from the position")
        else:
            need((tokens[: model.tokens, here] == wanted).all(), f"'{name}' does not start with its first value")
        codes[:, model.core.layout[name].slice] = 1
    others = model.place[(codes == -1).all(axis=0)]
    need((tokens[: model.tokens, others] == -1).all(), "what is no variable does not start as zero")
    return {"tokens": model.tokens, "positions": None if model.net.positions is None else len(places)}


# === neurons ==============================================================================================


@dataclass(frozen=True)
class Units:
    """Units clip(into · x + bias) with the columns that they add to zeros and ones."""

    into: Array
    bias: Array
    out: Array  # (unit, dim)


def derive_units(model: Model, number: int, mlp: Mlp) -> tuple[Units, dict[str, float]]:
    """The neurons of a layer as clipped units. A sum of relu(n + b), whole n, is a step function or refused."""
    used = np.nonzero(mlp.down.any(axis=0))[0]
    rows, bias, down = mlp.gate[used], mlp.gate_bias[used], mlp.down[:, used]
    reach = model.exact(rows, bias, f"a neuron's sum in layer {number}")
    if mlp.up is not None:
        model.exact(mlp.up[used], np.zeros(len(used)), f"a gate in layer {number}")
        gate = model.linear(mlp.up[used], np.zeros(len(used)), number)
        plain = not gate.weights.any() and not gate.placed.any() and (gate.constant == 1).all()
        need(plain and (gate.first == 1).all(), f"a gate of layer {number} is not the constant 1")
    sums = model.linear(rows, bias, number)
    need(not sums.placed.any(), f"a neuron of layer {number} reads the position")
    whole = [part / SATURATION for part in (sums.weights, sums.constant, sums.first)]
    for part in whole:
        need(
            (part == np.rint(part)).all(), f"a neuron of layer {number} is not saturated: its sum is no multiple of 128"
        )
    added = columns_of(model, down, number, f"layer {number}") * SATURATION
    weights, constant = np.rint(whole[0]).astype(np.int64), np.rint(whole[1]).astype(np.int64)
    top = model.most(weights.astype(float)) + constant
    least = model.format.precision
    need(top.max(initial=0) <= 1 << least, f"a neuron of layer {number} reaches {top.max(initial=0):,.0f}")
    exact_outputs(model, down, np.maximum(top, 0), number)
    return step_functions(model, weights, constant, added, number), {"sum": reach, "top": float(top.max(initial=0))}


def columns_of(model: Model, columns: Array, index: int, what: str) -> Array:
    """Return what columns add to the program's zeros and ones, (column, dim); nothing else may change."""
    if model.mirror is not None:
        same = columns[model.mirrors[model.originals]] == -columns[model.originals]
        need(same.all(), f"{what} does not write mirrors alike")
    alive, rest = model.alive_at(index), np.ones(model.width, dtype=bool)
    rest[model.place[alive]] = False
    if model.mirror is not None:
        rest[model.mirrors[model.place[alive]]] = False
    need(not columns[rest].any(), f"{what} writes a constant, the sink, a position or another layer's head")
    result = np.zeros((columns.shape[1], model.dims))
    result[:, alive] = columns[model.place[alive]].T / 2
    return result


def exact_outputs(model: Model, down: Array, top: Array, number: int) -> None:
    """Show that the sums of neurons are exact in any order."""
    unit = model.unit(down) * SATURATION
    most = float((np.abs(down) @ (SATURATION * top)).max(initial=0)) + 1
    need(most <= min(1.0, unit) * 2.0**24, f"what layer {number} adds up to leaves what float32 holds exactly")


def step_functions(model: Model, weights: Array, constant: Array, added: Array, number: int) -> Units:
    """Σ column · relu(direction + b) over one direction as clipped units: each column is the sum of those before it."""
    groups: dict[bytes, dict[int, Array]] = {}
    row_of: dict[bytes, Array] = {}
    for row, b, column in zip(weights, constant.tolist(), added):
        here = groups.setdefault(row.tobytes(), {})
        here[b] = here.get(b, 0) + column
        row_of[row.tobytes()] = row
    into: list[Array] = []
    bias: list[int] = []
    out: list[Array] = []
    for key, steps in groups.items():
        row = row_of[key]
        most = float(model.most(row[None].astype(float))[0])
        total, level = np.zeros(model.dims), max(steps)
        while True:
            total = total + steps.get(level, 0)
            if most + level >= 1 and total.any():
                into.append(row)
                bias.append(level)
                out.append(total)
            if most + level <= 1:
                break  # it never exceeds 1 here, and what is left never starts
            left = [b for b in steps if b < level]
            if not total.any():
                if not left:
                    break
                level = max(left)
                continue
            need(left, f"a neuron of layer {number} grows beyond 1")
            level -= 1
    shape = (len(into), model.dims)
    return Units(np.array(into).reshape(shape), np.array(bias, dtype=float), np.array(out).reshape(shape))


def split_columns(model: Model, units: Units, half: int) -> Units:
    """Units that write scratch values and heads one by one; those that write variables stay whole."""
    variables = model.core.of_variables
    into, bias, out = [], [], []
    for row, b, column in zip(units.into, units.bias, units.out):
        parts = [np.where(variables, column, 0)] if half == 2 else []
        single = np.nonzero(column)[0] if half == 1 else np.nonzero(np.where(variables, 0, column))[0]
        for dim in single.tolist():
            parts.append(np.where(np.arange(model.dims) == dim, column, 0))
        for part in parts:
            if part.any():
                into.append(row)
                bias.append(b)
                out.append(part)
    shape = (len(into), model.dims)
    return Units(np.array(into).reshape(shape), np.array(bias, dtype=float), np.array(out).reshape(shape))


def prove_neurons(model: Model) -> dict[str, Any]:
    """Every neuron is saturated and exact; together they are clipped units of whole sums."""
    facts = {"neurons": 0, "units": 0, "largest sum": 0.0, "largest value": 0.0}
    tensors: dict[str, Array] = {name: t for name, t in model.core.tensors.items()}
    for index, ((number, half), mlp) in enumerate(zip(model.layers, model.mlp)):
        units, found = derive_units(model, index, mlp)
        units = split_columns(model, units, half)
        at = f"blocks.{number}."
        tensors |= {f"{at}in{half}": units.into, f"{at}bias{half}": units.bias, f"{at}out{half}": units.out.T}
        facts["neurons"] += int(mlp.down.any(axis=0).sum())
        facts["units"] += len(units.bias)
        facts["largest sum"] = max(facts["largest sum"], found["sum"])
        facts["largest value"] = max(facts["largest value"], found["top"])
    for block in range(len(model.core.blocks)):
        for name in ("out1", "out2"):
            if tensors[f"blocks.{block}.{name}"].shape == (0, model.dims):
                tensors[f"blocks.{block}.{name}"] = np.zeros((model.dims, 0))
        for name in ("bias1", "bias2"):
            tensors[f"blocks.{block}.{name}"] = tensors[f"blocks.{block}.{name}"].reshape(-1)
    for name, tensor in tensors.items():
        need((tensor == np.rint(tensor)).all(), f"a unit has a weight that is no whole number ({name})")
    saved = checker.Saved(model.core.content, tensors)
    model.core = checker.Net(saved, model.format)
    model.program = model.core.program
    return facts


def prove_units(model: Model) -> dict[str, Any]:
    """The units compute the guarded updates: the walk of the independent checker."""
    facts: dict[str, Any] = {}
    for prove in (
        checker.prove_layout,
        checker.prove_scratch,
        checker.prove_comparisons,
        checker.prove_clearing,
        checker.prove_updates,
    ):
        facts |= prove(model.core)
    return facts


# === the first token ======================================================================================


def prove_first(model: Model) -> dict[str, Any]:
    """The first token sees itself alone: its state is computed, stays ±1, and is the same before every layer."""
    x = model.start.copy()
    for index, (attention, mlp) in enumerate(zip(model.attention, model.mlp)):
        if index == 0 or model.layers[index - 1][1] == 2:
            need((x == model.start).all(), f"the first token has changed before layer {index}")
        x = x + attended(model, attention, x)
        need((np.abs(x) == 1).all(), f"the first token is not ±1 after the heads of layer {index}")
        y = x + model.shift
        sums = mlp.gate @ y + mlp.gate_bias
        x = x + mlp.down @ (np.maximum(sums, 0) * (1 if mlp.up is None else mlp.up @ y))
        need((np.abs(x) == 1).all(), f"the first token is not ±1 after layer {index}")
    need((x == model.start).all(), "the first token has changed after the last layer")
    return {"layers": len(model.layers), "norm": "constant"}


def attended(model: Model, attention: Attention, x: Array) -> Array:
    """Return what heads add where they look at a position with this stream."""
    values = attention.v @ (x + model.shift) + attention.v_bias  # (head, place)
    result: Array = np.einsum("hdp,hp->d", attention.o, values)
    return result


# === heads ================================================================================================


def prove_copies(model: Model) -> dict[str, Any]:
    """A head adds the value that it selects to its own dimensions, or its default, and nothing else."""
    copied = 0
    for index, (attention, names) in enumerate(zip(model.attention, model.heads)):
        here = model.program.layers[model.layers[index][0] % len(model.program.layers)].heads
        first = index == 0 or model.layers[index - 1][1] == 2
        claimed = {name for held in names for name in held}
        need(claimed == ({*here} if first else set()), f"layer {index} has other heads than the program")
        idle = [h for h in range(len(attention.o)) if h >= len(names)]
        for h in idle:
            quiet = not attention.o[h].any() or not (attention.v[h].any() or attention.v_bias[h].any())
            need(quiet, f"head {h} of layer {index} is none of the program's, and writes")
        need(len(names) <= len(attention.o), "more heads are claimed than there are")
        if first:
            copied += copies_of(model, attention, names, here, index)
    return {"dimensions": copied}


def copies_of(model: Model, attention: Attention, names: list[list[str]], here: Any, index: int) -> int:
    """A head writes only the dimensions of the program's heads that it holds; together these get all that is theirs."""
    total, none = np.zeros((model.dims, model.dims)), np.zeros(model.dims)
    layout = model.core.layout
    for h, held in enumerate(names):
        what = f"the head {h} ({', '.join(held)}) of layer {index}"
        model.exact(attention.v[h], attention.v_bias[h], f"a value of {what}")
        values = model.linear(attention.v[h], attention.v_bias[h], index)
        written = columns_of(model, attention.o[h], index, what)  # (place, dim)
        others = np.ones(model.dims, dtype=bool)
        for name in held:
            others[layout[name].slice] = False
        need(not written[:, others].any(), f"{what} writes what it is not claimed to hold")
        need((written * 64 == np.rint(written * 64)).all(), f"{what} writes fractions")
        used = written.any(axis=1)
        need(not values.placed[used].any() and not values.constant[used].any(), f"{what} adds a constant or a position")
        top = np.abs(values.weights).max(axis=1) + np.abs(values.first)
        need(float((np.abs(written).T @ top).max(initial=0)) <= 64, f"{what} writes large numbers")
        total += written.T @ values.weights
        none += written.T @ values.first
    for name, head in here.items():
        source, target = layout[head.value], layout[name]
        what = f"the head '{name}' of layer {index}"
        default = checker.default_code(head, target.size)
        further = target.size - source.size  # "none" is a further value, which only the first token gives
        wider = further > 0 and source.coding == target.coding == "one-hot"
        need(further == 0 or wider, f"{what} has other values than '{head.value}'")
        wanted = np.zeros((target.size, model.dims))
        wanted[np.arange(source.size), np.arange(source.start, source.start + source.size)] = 1
        need((total[target.slice] == wanted).all(), f"{what} does not copy '{head.value}'")
        need((none[target.slice] == default).all(), f"{what} does not have its default at the first token")
    return sum(layout[name].size for name in here)


def prove_selection(model: Model) -> dict[str, Any]:
    """Every softmax is hard at every length up to the limit: what is selected leads all others by the gap."""
    least, needed, pairs, heads, seen = np.inf, gap_needed(model), 0, 0, {}
    for index, (attention, names) in enumerate(zip(model.attention, model.heads)):
        layer = model.program.layers[model.layers[index][0] % len(model.program.layers)]
        for h, head in ((h, layer.heads[name]) for h, held in enumerate(names) for name in held):
            sides = [attention.q[h], attention.q_bias[h], attention.k[h], attention.k_bias[h]]
            norms = [n for n in (attention.q_norm, attention.k_norm) if n is not None]
            asked = (head.query, head.key, head.where, head.among, head.offsets, getattr(head, "prefer", None))
            key = (repr(asked), head.kind.name, *(part.tobytes() for part in (*sides, *norms)))
            if key not in seen:
                seen[key] = Selection(model, attention, h, head, index).prove()
            gap, count = seen[key]
            least, pairs, heads = min(least, gap), pairs + count, heads + 1
    if heads:
        need(least >= needed, f"a head's margin is {least:.3f}; {needed:.3f} is needed for {model.length:,} positions")
    return {
        "heads": heads,
        "scores": pairs,
        "margin": None if not heads else round(float(least), 3),
        "needed": round(needed, 3),
    }


def gap_needed(model: Model) -> float:
    """N · exp(−gap) · 64 is at most 2^−28: added to ±1 it is rounded away."""
    return log(model.length + 1) + log(64 / LEAK)


@dataclass(frozen=True)
class Side:
    """What queries or keys can be: vectors (class, place), and which value and which limits each class stands for."""

    vectors: Array
    value: Array  # index of the matched value; −1 where nothing is matched
    allowed: Array  # whether the limits hold
    placed: Array  # (place, extra)
    error: Array  # (class, place): rounding


class Selection:
    """One head: all classes of queries and keys, at all distances."""

    def __init__(self, model: Model, attention: Attention, h: int, head: Any, index: int) -> None:
        self.model, self.head, self.h, self.index = model, head, h, index
        self.attention = attention
        need(head.kind.name != "num", f"'{head.name}' averages")
        self.prefer = getattr(head, "prefer", None)
        self.offset = None if head.offsets is None else -min(head.offsets)
        need(head.offsets is None or len(head.offsets) == 1, f"'{head.name}' has several offsets")
        need(self.offset is not None or head.key is not None, f"'{head.name}' selects everything")
        need(self.offset is None or self.offset >= 0, f"'{head.name}' looks ahead")
        self.u = 2.0**-model.format.precision

    def refuse(self, why: str) -> Refused:
        return Refused(f"the head '{self.head.name}' (layer {self.index}): {why}")

    def prove(self) -> tuple[float, int]:
        a, h = self.attention, self.h
        queries = self.side(a.q[h], a.q_bias[h], self.head.query, dict(self.head.where), a.q_norm, shared=True)
        keys = self.side(a.k[h], a.k_bias[h], self.head.key, dict(self.head.among), a.k_norm)
        sink = self.at_first(a.k[h], a.k_bias[h], a.k_norm)
        geometry = Rotary(self) if self.model.net.positions is None else Learned(self)
        gap, count = geometry.prove(queries, keys, sink)
        return gap * (1 - SHARED), count

    def side(
        self,
        rows: Array,
        bias: Array,
        matched: str | None,
        limits: dict[str, int],
        norm: Array | None,
        shared: bool = False,
    ) -> Side:
        """Enumerate what a query or key can be. `shared`: all scores share the factor by which the norm is off."""
        model, found = self.model, self.model.linear(rows, bias, self.index)
        choices: list[list[tuple[Array, int, bool]]] = []
        for name, kind in model.program.variables.items():
            table = found.weights[:, model.core.layout[name].slice]
            if name == matched or name in limits or self._varies(kind, table):
                if name != matched and name not in limits:
                    raise self.refuse(f"its scores depend on '{name}', and should not")
                choices.append(self._choices(name, kind, table, name == matched, limits))
            elif kind.name != "word":
                choices.append([(table[:, 0], -1, True)])
        count = int(np.prod([len(c) for c in choices]))
        if count > MAX_CLASSES:
            raise self.refuse(f"{count:,} classes of queries or keys are more than the {MAX_CLASSES:,} that are tried")
        vectors, values, allowed = [], [], []
        for chosen in product(*choices):
            vectors.append(found.constant + sum((part for part, _, _ in chosen), start=np.zeros(len(rows))))
            values.append(max((value for _, value, _ in chosen), default=-1))
            allowed.append(all(ok for _, _, ok in chosen))
        made = np.array(vectors)
        error = self._rounding(rows, bias) + self.u * np.abs(made)
        made, error = self._normed(made, error, norm, shared)
        return Side(made, np.array(values), np.array(allowed), found.placed, error)

    def _varies(self, kind: Any, table: Array) -> bool:
        return bool(table.any() if kind.name == "word" else (table != table[:, :1]).any())

    def _choices(self, name: str, kind: Any, table: Array, matched: bool, limits: dict[str, int]) -> Any:
        if kind.name == "word":
            bits = np.arange(1 << kind.size)[:, None] >> np.arange(kind.size) & 1 if kind.size <= 12 else None
            if bits is None:
                raise self.refuse(f"'{name}' has {kind.size} bits, more than are tried")
            return [(table @ row, value if matched else -1, True) for value, row in enumerate(bits)]
        listed = [
            (table[:, i], i if matched else -1, name not in limits or limits[name] == i) for i in range(kind.size)
        ]
        return listed if matched else list({(part.tobytes(), ok): (part, v, ok) for part, v, ok in listed}.values())

    def _rounding(self, rows: Array, bias: Array) -> Array:
        """The error of each place's projection: zero where a sum is exact in whole multiples of a unit."""
        sizes = np.abs(rows).sum(axis=1) * (self.model.shift + 1) + np.abs(bias)
        units = np.array([self.model.unit(row, bias[[place]]) for place, row in enumerate(rows)])
        terms = (rows != 0).sum(axis=1) + 2
        return np.where(sizes <= units * 2.0**24, 0.0, terms * 2.0**-24 * sizes)

    def _normed(self, vectors: Array, error: Array, norm: Array | None, shared: bool = False) -> tuple[Array, Array]:
        """Vectors after a norm over the places of a head, and their rounding: but for the norm's own where it is
        shared."""
        if norm is None:
            return vectors, error
        size = vectors.shape[1]
        root = np.sqrt((vectors**2).mean(axis=1, keepdims=True) + self.model.net.shape.epsilon)
        rounded = (size / 2 + 4) * 2.0**-24  # of the root of a mean, in any order of summation
        off = error.max(axis=1, keepdims=True) / root + rounded
        if shared:
            if off.max() > SHARED:
                raise self.refuse("the norm of its queries is too inexact")
            off = np.zeros_like(off)
        return vectors / root * norm, np.abs(norm) * (error / root + np.abs(vectors) / root * (off + 4 * self.u))

    def at_first(self, rows: Array, bias: Array, norm: Array | None) -> tuple[Array, Array]:
        """The key of the first token, and its rounding."""
        key = (rows @ (self.model.start + self.model.shift) + bias)[None]
        error = (self._rounding(rows, bias) + self.u * np.abs(key[0]))[None]
        return self._normed(key, error, norm)

    def matches(self, queries: Side, q: int, keys: Side) -> Array:
        """Which classes of keys a class of queries selects."""
        if not queries.allowed[q]:
            return np.zeros(len(keys.vectors), dtype=bool)
        same = np.ones(len(keys.vectors), dtype=bool) if self.head.key is None else keys.value == self.asked(queries, q)
        result: Array = same & keys.allowed
        return result

    def asked(self, queries: Side, q: int) -> int:
        need(self.model.program.kinds[self.head.query].name != "subset", f"'{self.head.name}' asks for a set")
        return int(queries.value[q])

    def margin(self, chosen: Array, best_other: float, sinks: Array) -> float:
        """How far the selected lead. `chosen`: scores of keys that match (class, place in the order of preference)."""
        low, high = float(sinks.min()), float(sinks.max())
        least = low - best_other
        if not len(chosen):
            return least
        if self.offset is not None:
            if self.offset >= chosen.shape[1]:
                return min(least, low - float(chosen.max()))
            at = chosen[:, self.offset]
            rest = np.delete(chosen, self.offset, axis=1)
            best_other = max(best_other, float(rest.max(initial=-np.inf)))
            return min(float(at.min()) - max(high, best_other), low - best_other)
        least = min(least, float(chosen.min()) - max(high, best_other))
        later = np.maximum.accumulate(chosen.max(axis=0)[::-1])[::-1]  # the best of this place and all after it
        if chosen.shape[1] > 1:
            least = min(least, float((chosen.min(axis=0)[:-1] - later[1:]).min()))
        return least


class Rotary:
    """Scores of rotary positions: q · R(−θD) k, summed over frequencies."""

    def __init__(self, selection: Selection) -> None:
        self.selection, self.model = selection, selection.model
        shape = self.model.net.shape
        assert shape.theta is not None
        self.half, self.scale = shape.head_size // 2, shape.head_size**-0.5
        exponents = np.arange(0, shape.head_size, 2, dtype=np.float32) / np.float32(shape.head_size)
        self.theta = (np.float32(1) / np.float32(shape.theta) ** exponents).astype(np.float64)
        distances = np.arange(self.model.length + 1)
        angles = np.outer(self.theta, distances)
        self.cos, self.sin = np.cos(angles), np.sin(angles)
        # frequencies and products are rounded, and so are sines; two positions at most N apart from zero
        exact = self.model.format.name != "bfloat16"
        self.turned = self.theta * (self.model.length + 1) * 2.0**-20 + 2.0**-22 + (0 if exact else 4 * selection.u)

    def scores(self, q: Array, keys: Array) -> Array:
        """(class of key, distance)."""
        a, b = q[: self.half], q[self.half :]
        c, d = keys[:, : self.half], keys[:, self.half :]
        result: Array = ((a * c + b * d) @ self.cos + (a * d - b * c) @ self.sin) * self.scale
        return result

    def error(self, q: Array, q_error: Array, keys: Array, k_error: Array) -> float:
        """How far scores can be off: projections, turns, products and their sum."""
        u, half = max(self.selection.u, 2.0**-24), self.half
        size_q = np.hypot(q[:half], q[half:])
        size_k = np.hypot(keys[:, :half], keys[:, half:]).max(axis=0)
        off_q = np.hypot(q_error[:half], q_error[half:]) + size_q * (self.turned + 4 * u)
        off_k = np.hypot(k_error[:, :half], k_error[:, half:]).max(axis=0) + size_k * (self.turned + 4 * u)
        total = (size_q + off_q) @ off_k + off_q @ size_k
        reach = float((size_q + off_q) @ (size_k + off_k))
        return float((total + reach * ((2 * half + 4) * 2.0**-24 + 4 * u)) * self.scale)

    def best(self, q: Array, keys: Array) -> float:
        """The most that these keys can score at any distance: exactly, or where there are many, from above.

        Frequencies at which all keys are alike are summed exactly; each of the others is taken at its own best turn,
        between 0 and θN.
        """
        if not len(keys):
            return float("-inf")
        if len(keys) * self.model.length <= EXACT_SCORES:
            return float(self.scores(q, keys)[:, : self.model.length].max())
        a, b = q[: self.half], q[self.half :]
        c, d = keys[:, : self.half], keys[:, self.half :]
        along, across = a * c + b * d, a * d - b * c  # (class of key, frequency)
        alike = (along == along[:1]).all(axis=0) & (across == across[:1]).all(axis=0)
        common = along[0, alike] @ self.cos[alike] + across[0, alike] @ self.sin[alike]  # (distance)
        far = self.theta * self.model.length
        peak = np.mod(np.arctan2(across, along), 2 * np.pi)  # the turn at which it would be largest
        ends = np.maximum(along, along * np.cos(far) + across * np.sin(far))
        rest = np.where(peak <= far, np.hypot(along, across), ends)[:, ~alike].sum(axis=1).max()
        return float((common[: self.model.length].max() + rest) * self.scale)

    def prove(self, queries: Side, keys: Side, sink: tuple[Array, Array]) -> tuple[float, int]:
        s, least = self.selection, float("inf")
        count = len(queries.vectors) * len(keys.vectors) * self.model.length
        if len(queries.vectors) * len(keys.vectors) * self.half > MAX_SCORES:
            raise s.refuse(f"{count:,} scores are more than are tried")
        every = np.concatenate([keys.vectors, sink[0]]), np.concatenate([keys.error, sink[1]])
        for q, vector in enumerate(queries.vectors):
            wanted = s.matches(queries, q, keys)
            chosen = self.scores(vector, keys.vectors[wanted])[:, : self.model.length]
            sinks = self.scores(vector, sink[0])[0, 1:]
            error = self.error(vector, queries.error[q], *every)
            ordered = chosen[:, ::-1] if s.prefer == "earliest" and s.offset is None else chosen
            least = min(least, s.margin(ordered, self.best(vector, keys.vectors[~wanted]), sinks) - 2 * error)
        return float(least), count


class Learned:
    """Scores of learned positions: queries and keys are a class's vector plus the position's."""

    def __init__(self, selection: Selection) -> None:
        self.selection, self.model = selection, selection.model
        shape = self.model.net.shape
        self.scale = shape.head_size**-0.5
        assert self.model.net.positions is not None
        self.codes = self.model.net.positions[: self.model.length + 1, self.model.extra]  # (position, extra)

    def prove(self, queries: Side, keys: Side, sink: tuple[Array, Array]) -> tuple[float, int]:
        s = self.selection
        moved_q, moved_k = self.codes @ queries.placed.T, self.codes @ keys.placed.T  # (position, place)
        if s.offset is None:
            if moved_q.any():
                raise s.refuse("its queries depend on the position, and should not")
            return self._by_content(queries, keys, sink, moved_k)
        return self._by_offset(queries, keys, sink, moved_q, moved_k)

    def error(self, q: Array, q_error: Array, k: Array, k_error: Array) -> float:
        u = max(self.selection.u, 2.0**-24)
        off = q_error @ np.abs(k) + (np.abs(q) + q_error) @ k_error
        return float((off + (np.abs(q) @ np.abs(k)) * ((len(q) + 4) * 2.0**-24 + 2 * u)) * self.scale)

    def _by_content(self, queries: Side, keys: Side, sink: tuple[Array, Array], moved: Array) -> tuple[float, int]:
        s, least = self.selection, float("inf")
        top = np.abs(keys.vectors).max(axis=0) + np.abs(moved).max(axis=0)
        top, off = np.maximum(top, np.abs(sink[0][0])), np.maximum(keys.error.max(axis=0), sink[1][0])
        for q, vector in enumerate(queries.vectors):
            by_class, by_place = keys.vectors @ vector, moved[1:] @ vector
            wanted = s.matches(queries, q, keys)
            chosen = (by_class[wanted][:, None] + by_place[None]) * self.scale  # (class, position 1 …)
            others = float((by_class[~wanted].max(initial=-np.inf) + by_place.max()) * self.scale)
            sinks = np.array([sink[0][0] @ vector]) * self.scale
            ordered = chosen if s.prefer == "earliest" else chosen[:, ::-1]
            error = self.error(np.abs(vector), queries.error[q], top, off + s.u * top)
            least = min(least, s.margin(ordered, others, sinks) - 2 * error)
        return float(least), len(queries.vectors) * len(keys.vectors) * self.model.length

    def _by_offset(
        self, queries: Side, keys: Side, sink: tuple[Array, Array], moved_q: Array, moved_k: Array
    ) -> tuple[float, int]:
        """Every position against every position before it. Positions have places of their own: scores are sums."""
        s, n = self.selection, self.model.length
        assert s.offset is not None
        if n * n > MAX_SCORES or len(queries.vectors) * (len(keys.vectors) + n) > MAX_SCORES:
            raise s.refuse("more scores than are tried")
        apart = ~(queries.placed.any(axis=1) | keys.placed.any(axis=1))
        for side in (queries, keys):
            if (side.vectors[:, ~apart] != side.vectors[:1, ~apart]).any():
                raise s.refuse("what it compares shares places with positions")
        asked, held = queries.vectors[0] + moved_q[1:], keys.vectors[0] + moved_k[1:]  # (position, place)
        by_place = asked[:, ~apart] @ held[:, ~apart].T * self.scale  # (query, key)
        before, target = np.tril(np.ones((n, n), dtype=bool)), np.eye(n, k=-s.offset, dtype=bool)
        there = target.any(axis=1)
        here = np.where(target, by_place, -np.inf).max(axis=1)  # (query)
        elsewhere = np.where(before & ~target, by_place, -np.inf).max(axis=1)
        sinks_by_place = asked[:, ~apart] @ sink[0][0][~apart] * self.scale
        top = np.abs(keys.vectors).max(axis=0) + np.abs(moved_k).max(axis=0)
        top, off = np.maximum(top, np.abs(sink[0][0])), np.maximum(keys.error.max(axis=0), sink[1][0])
        least = float("inf")
        for q, vector in enumerate(queries.vectors):
            by_class = keys.vectors[:, apart] @ vector[apart] * self.scale
            wanted = s.matches(queries, q, keys)
            sinks = sinks_by_place + vector[apart] @ sink[0][0][apart] * self.scale  # (query)
            found = here + (by_class[wanted].min() if wanted.any() else 0.0)
            rest = np.maximum(elsewhere + by_class.max(), here + by_class[~wanted].max(initial=-np.inf))
            hit = there & bool(wanted.any())
            # where a key of another class is at the offset, or none is, the first token is selected
            alone = ~there | (not wanted.all())
            margins = np.where(hit, found - np.maximum(rest, sinks), np.inf)
            margins = np.minimum(margins, np.where(alone, sinks - rest, np.inf))
            largest = np.abs(vector) + np.abs(moved_q).max(axis=0)
            error = self.error(largest, queries.error[q], top, off + s.u * top)
            least = min(least, float(margins.min()) - 2 * error)
        return float(least), len(queries.vectors) * len(keys.vectors) * n * n


# === output, files ========================================================================================


def prove_output(model: Model) -> dict[str, Any]:
    """The largest logit is the program's output, by the margin given; logits have the values given and no others."""
    rows = model.net.unembedding
    model.exact(rows, np.zeros(len(rows)), "a logit")
    found = model.linear(rows, np.zeros(len(rows)), None)
    s, output = model.core.layout[model.program.output], model.program.kinds[model.program.output]
    rest, choices = found.weights.copy(), model.saved.content["claim"].get("choices")
    rest[:, s.slice] = 0
    if choices is not None:
        return prove_choices(model, found, str(choices), s)
    need(output.name == "cat" and not rest.any() and not found.placed.any(), "logits depend on more than the output")
    logits = found.weights[:, s.slice] + found.constant[:, None]  # (token, value)
    right = logits[np.arange(s.size), np.arange(s.size)]
    others = logits.copy()
    others[np.arange(s.size), np.arange(s.size)] = -np.inf
    margin = float((right - others.max(axis=0)).min())
    need(margin >= 0.5, f"the right logit leads by {margin} only")
    values = sorted({*logits.ravel().tolist()})
    need(len(values) <= 64, "logits have too many values")
    return {"values": s.size, "margin": margin, "logits": values[:8]}


def prove_choices(model: Model, found: Linear, choices: str, s: checker.Segment) -> dict[str, Any]:
    """Logits above zero are exactly those of the tokens in the set `choices`; of these the output has the largest."""
    need(choices in model.program.variables, f"there is no variable {choices!r}")
    kind, segment = model.program.kinds[choices], model.core.layout[choices]
    need(kind.name == "subset" and choices != model.program.output, f"'{choices}' is no set of tokens")
    rest = found.weights.copy()
    rest[:, s.slice] = rest[:, segment.slice] = 0
    need(not rest.any() and not found.placed.any(), "logits depend on more than the output and what is allowed")
    own = found.weights[:, s.slice]  # (token, output)
    least, gap = np.inf, np.inf
    for index, members in enumerate(kind.values):
        base = found.weights[:, segment.start + index] + found.constant
        logits = own + base[:, None]  # (token, output)
        allowed = np.isin(np.arange(len(logits)), list(members))
        inside, outside = logits[allowed], logits[~allowed]
        need(inside.min(initial=1) > 0 > outside.max(initial=-1), f"tokens are allowed that are not in '{choices}'")
        gap = min(gap, float(inside.min(initial=np.inf) - outside.max(initial=-np.inf)))
        for value in sorted(members) if len(members) else range(s.size):
            if value < s.size:
                others = np.delete(logits[:, value], value)
                least = min(least, float(logits[value, value] - others.max()))
    need(least >= 0.5 and gap >= 100, f"the right logit leads by {least}, allowed ones by {gap} only")
    return {"values": s.size, "sets": kind.size, "margin": least, "allowed lead by": gap}


GENERATION = {"do_sample", "max_new_tokens", "bos_token_id", "pad_token_id", "eos_token_id", "transformers_version"}


def prove_files(model: Model) -> dict[str, Any]:
    """Generation is greedy and stops where the program does; the tokenizer has its symbols and the first token."""
    files, program = model.saved.files, model.description["program"]
    need(model.saved.config.get("eos_token_id") == program["stop"], "the config has another token for the end")
    for end in ("bos_token_id", "pad_token_id"):
        need((model.saved.config.get(end) or 0) < model.tokens + 2, f"the config's {end} is no token")
    if files is None:
        return {"files": 0}
    made, tokenizer = files["generation_config.json"], files["tokenizer.json"]
    need(made.keys() <= GENERATION, f"generation_config.json says {[*made.keys() - GENERATION][:1]}, not known here")
    need(
        made["do_sample"] is False and made["max_new_tokens"] == (program["max_tokens"] or 1),
        "generation is not greedy",
    )
    need(made["eos_token_id"] == program["stop"], "generation stops at another token")
    symbols = [*model.saved.content["symbols"], "<s>", "<pad>"]
    wanted = {symbol: number for number, symbol in enumerate(symbols)}
    need(len(wanted) == model.tokens + 2, "a symbol appears twice")
    need(
        tokenizer["model"]["type"] == "WordLevel" and tokenizer["model"]["vocab"] == wanted, "it has another vocabulary"
    )
    plain = all(tokenizer[part] is None for part in ("normalizer", "truncation", "padding"))
    words = any(len(symbol) > 1 for symbol in model.saved.content["symbols"])
    split = {"type": "Split", "pattern": {"Regex": "[\\s\\S]"}, "behavior": "Isolated", "invert": False}
    need(
        plain and tokenizer["pre_tokenizer"] == ({"type": "WhitespaceSplit"} if words else split),
        "the tokenizer splits texts in another way",
    )
    front = tokenizer["post_processor"]["single"][0].get("SpecialToken", {}).get("id")
    need(front == "<s>", "the tokenizer does not put the first token in front")
    for config in (made, model.saved.config):
        need(config["bos_token_id"] == model.tokens, "the first token has another number")
    return {"files": len(files), "symbols": len(symbols)}


LEMMAS: dict[str, tuple[Callable[[Model], dict[str, Any]], str]] = {
    "shapes": (prove_shapes, "config and tensors are the class's, and its layers are the program's"),
    "numbers": (prove_numbers, "the format holds every entry"),
    "norm": (prove_norm, "of a stream of ±1 every norm is the stream plus one constant, exactly"),
    "embeddings": (prove_embeddings, "every token and position starts as ±1, with the program's first values"),
    "neurons": (prove_neurons, "every activation is saturated; sums are exact; neurons are clipped units"),
    "units": (prove_units, "for every variable the units compute the saved updates, for all values"),
    "first-token": (prove_first, "the first token stays what it is"),
    "copies": (prove_copies, "heads add the value they select, or their default, and nothing else"),
    "selection": (prove_selection, "every softmax is hard at every length up to the limit, by the margin"),
    "output": (prove_output, "the largest logit is the output, by the margin; logits have these values"),
    "files": (prove_files, "generation is greedy and stops as the program does; tokens are its symbols"),
}


def check_stock(saved: StockSaved, dtype: str | None = None) -> checker.Verdict:
    """Prove every lemma of a stock model in a number format (its own, or `dtype`), or say which one fails."""
    lemmas: list[checker.Lemma] = []
    program, name = "?", dtype or "?"
    try:
        name = dtype or saved.content["dtype"]
        need(name in ("float32", "bfloat16"), f"stock models are checked in float32 and bfloat16, not {name!r}")
        need(saved.content["kind"] == "stock", "this is no stock model")
        program = str(saved.content["description"]["program"]["name"])
        model = Model(saved, checker.FORMATS[name])
        for label, (prove, statement) in LEMMAS.items():
            try:
                lemmas.append(checker.Lemma(label, statement, prove(model)))
            except Refused as error:
                raise Refused(f"{error} (lemma {label})") from None
    except Refused as error:
        return checker.Verdict(False, program, name, None, tuple(lemmas), str(error), "")
    except checker.BROKEN as error:
        why = f"what is saved with the model is malformed ({type(error).__name__}: {error})"
        return checker.Verdict(False, program, name, None, tuple(lemmas), why, "")
    return checker.Verdict(True, program, name, model.length, tuple(lemmas), None, statement_of(model))


def statement_of(model: Model) -> str:
    """Return what follows from the lemmas together."""
    return (
        f"on every sequence of at most {model.length:,} tokens after <s> on which the program '{model.program.name}' "
        f"reads no undefined head, this {model.net.family} in {model.format.name} computes in every layer exactly the "
        "saved guarded updates, and its largest logit is the program's next token"
    )


def main(arguments: Iterable[str] | None = None) -> int:
    """Check a saved stock model from the command line, as the first lines of this file show."""
    formats = ["float32", "bfloat16"]
    return checker.run_checker(
        arguments, "kleene.checks.stock_checker", "stock model", formats, read_stock_folder, check_stock
    )


if __name__ == "__main__":
    sys.exit(main())
