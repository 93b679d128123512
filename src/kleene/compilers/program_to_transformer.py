"""Attention programs to transformers."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import torch

from kleene.common.output import check_layers
from kleene.common.residual import Layout
from kleene.errors import InputError, KleeneError, NotExact, NotSupported
from kleene.files import MAX_PARAMETERS
from kleene.lowering.averages import PRECISION, Boundary, boundaries, clearing_scale, extreme_averages
from kleene.lowering.forms import Number
from kleene.lowering.guarding import guarded_updates
from kleene.lowering.layout import build_layout
from kleene.lowering.rules import lower_to_rules
from kleene.lowering.thresholds import (
    Lowering,
    Unit,
    averaging_heads,
    lower_rules_to_units,
    lower_to_thresholds,
)
from kleene.lowering.updates import Cycle, Updates
from kleene.machines.interpreter import Layer, run_step
from kleene.machines.program import HeadSpec, Kind, Numerical, ProgramClass, Spec, Subset, Word
from kleene.machines.trace import HeadOutput
from kleene.networks.transformer.files import count_parameters
from kleene.networks.transformer.model import DTYPES, Block, BlockShape, Config, Transformer

# A match scores GAP more than the null key, the null key GAP more than a mismatch. exp(−768) is zero in
# float64 too, and a power of two is exact in every format.
GAP = 1024
MAX_SAMPLES = 5_000  # states that weights are tested on
DEFAULT_LENGTH = 512  # of inputs, where a numerical head needs a limit and the program has none


def compile_program(
    program: ProgramClass,
    *,
    lowering: str = "thresholds",
    shape: str | None = None,
    layers: int | None = None,
    length: int | None = None,
    dtype: str | torch.dtype | None = None,
    shared: bool = True,
) -> Transformer:
    """A transformer that computes exactly what an attention program does.

    lowering: "thresholds" (compact) or "rules" (one unit a transition rule). shape: "universal" (halts by
    itself), "encoder" (`layers` layers, one block each unless `shared`) or "decoder". length: the longest
    input that numerical heads must resolve. dtype: "float32" (default), "float64" or "bfloat16".
    """
    if length is not None and (not isinstance(length, int) or length < 1):
        raise InputError(f"{program.spec.name}: length={length!r}; the longest input has 1 token or more")
    averages = resolve_averages(program.spec, length, dtype_name(dtype))  # first: it is soon done, and may refuse
    updates = guarded_updates(program)
    units = lower(updates, lowering)
    config = configure(program.spec, units, shape, layers, shared)
    net = assemble(updates, units, config, averages, length, dtype_name(dtype), lowering)
    check_weights(program, net)
    return net


def lower(updates: Updates | Cycle, lowering: str) -> tuple[Lowering, ...]:
    """Units for the guarded updates of each layer, in one residual stream that they share."""
    if lowering not in ("thresholds", "rules"):
        raise NotSupported(f"there is no lowering {lowering!r}; there are 'thresholds' and 'rules'")
    lowered = [
        lower_to_thresholds(part) if lowering == "thresholds" else lower_rules_to_units(lower_to_rules(part), part)
        for part in updates.by_layer
    ]
    # a scratch value is cleared in the layer that makes it: layers may use the same dimension
    scratch = dict.fromkeys(s.name for part in lowered for s in part.layout if s.coding == "scratch")
    layout = build_layout(updates.spec, scratch)
    return tuple(replace(part, layout=layout) for part in lowered)


def dtype_name(dtype: str | torch.dtype | None) -> str:
    name = "float32" if dtype is None else str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise NotSupported(f"there is no dtype {name!r} here; there are {', '.join(DTYPES)}")
    return name


# --- checking the weights against step itself -------------------------------------------------------------


def check_weights(program: ProgramClass, net: Transformer, samples: int = 1_000, seed: int = 0) -> None:
    """Run the MLP blocks beside `step`: on a state for each update, and on random states; on plain values and on
    averages next to a boundary, and with heads undefined where `step` does not read them."""
    for layer, part in enumerate(program.by_layer):
        _check_block(part, guarded_updates(program).by_layer[layer], net, layer, samples, seed)


def _check_block(program: Any, updates: Updates, net: Transformer, layer: int, samples: int, seed: int) -> None:
    spec, chance = program.spec, random.Random(seed)
    averages = {
        name: extreme_averages(spec, name, net.config.max_length or 1)
        for name, head in spec.heads.items()
        if head.numerical
    }
    ranges = {name: range(len(kind)) for name, kind in spec.kinds.items()}
    ranges |= {name: [i for i, ends in enumerate(each) if ends] for name, each in averages.items()}
    sizes = [len(values) for name, values in ranges.items() if not isinstance(spec.kinds[name], Word)]
    samples = min(max(samples, *sizes), MAX_SAMPLES) if sizes else samples
    states = [*_witnesses(updates, chance), *[{} for _ in range(samples)]]
    states = [state for state in states if all(index in ranges[n] for n, index in state.items() if n in ranges)]
    for name, values in ranges.items():  # each of its values, as often as the others
        count = min(len(values), len(states))
        order = [value for _ in range(0, len(states), count) for value in chance.sample(values, count)]
        for state, value in zip(states, order):
            state.setdefault(name, value)
    expected, read = zip(*(_step_on(program, state) for state in states))
    block, layout = net.block(layer), net.layout
    before = encode(layout, spec, {n: [state[n] for state in states] for n in spec.kinds})
    for name, each in averages.items():
        chosen = [float(chance.choice(each[state[name]])) for state in states]
        before[:, layout[name].start] = torch.tensor(chosen, dtype=before.dtype)
    wanted = encode(layout, spec, {n: [state[n] for state in expected] for n in spec.variables})
    unread = _with_undefined(before, layout, updates, read, seed)
    for given in (before, unread):
        rows = given.to(net.dtype).split(256)
        after = torch.cat([block.second_half(block.first_half(part)) for part in rows]).double()
        if not torch.equal(after, wanted):
            row, dim = torch.nonzero(after != wanted)[0].tolist()
            where = f"{states[row]}" + (", heads that are not read undefined" if given is unread else "")
            raise KleeneError(
                f"{spec.name}: the weights differ from step in '{layout.names[dim]}' for {where}: an error in Kleene, "
                "unless step does other things with symbols than with values (isinstance, 'is', chance, globals)"
            )


def _with_undefined(
    states: torch.Tensor, layout: Layout, updates: Updates, read: Sequence[set[str]], seed: int
) -> torch.Tensor:
    """The same residual streams, where heads that `step` does not read select nothing, or up to three positions."""
    mixed, several, chance = states.clone(), averaging_heads(updates), torch.Generator().manual_seed(seed)
    for name, head in updates.spec.heads.items():
        rows = [row for row, names in enumerate(read) if name not in names]
        if rows and not head.numerical:
            count = torch.randint(4 if name in several else 1, (len(rows), 1), generator=chance)
            chosen = torch.randint(len(head.kind), (3, len(rows)), generator=chance).tolist()
            values = [code(head.kind, indices) * (k < count) for k, indices in enumerate(chosen)]
            mixed[torch.tensor(rows), layout[name].slice] = sum(values) / count.clamp(min=1)
    return mixed


def _witnesses(updates: Updates, chance: random.Random) -> Iterable[dict[str, int]]:
    """For each guarded update a state that passes its tests on single variables."""
    for update in updates:
        yield {t.variable: chance.choice(sorted(t.indices)) for t in update.guard if t.variable is not None}


class _Given(Layer):
    """A layer whose heads give chosen values, and have written what they write."""

    @property
    def moved(self) -> Any:
        return self.states

    def __init__(self, spec: Spec, values: dict[str, Any]) -> None:
        super().__init__(spec, [{name: values[name] for name in spec.variables}], 1)
        self.given, self.read = values, set[str]()

    def output(self, head: HeadSpec, position: int) -> HeadOutput:
        self.read.add(head.name)
        return HeadOutput((0,), self.given[head.name])


def _step_on(program: Any, indices: dict[str, int]) -> tuple[dict[str, int], set[str]]:
    """The variables' indices after `step` on plain values, and the heads that it read."""
    spec = program.spec
    layer = _Given(spec, {name: kind.values[indices[name]] for name, kind in spec.kinds.items()})
    after = run_step(program, layer, 0)
    return {name: spec.variables[name].kind.index(value) or 0 for name, value in after.items()}, layer.read


def encode(layout: Layout, spec: Spec, indices: Mapping[str, Sequence[int]]) -> torch.Tensor:
    """Residual streams (state, dim) for given values of variables; what is not given is zero."""
    rows = len(next(iter(indices.values())))
    x = torch.zeros(rows, layout.size, dtype=torch.float64)
    for name, chosen in indices.items():
        segment, kind = layout[name], spec.kinds[name]
        if segment.coding == "scalar":
            codes = torch.tensor([[float(value * segment.scale)] for value in kind.values], dtype=torch.float64)
            x[:, segment.slice] = codes[torch.tensor(chosen)]
        else:
            x[:, segment.slice] = code(kind, chosen)
    return x


# --- from units to a network ------------------------------------------------------------------------------


def configure(spec: Spec, units: tuple[Lowering, ...], shape: str | None, layers: int | None, shared: bool) -> Config:
    """The shape of the network."""
    if shape is None:
        shape = "decoder" if spec.max_tokens is not None else "universal"
    if shape not in ("universal", "encoder", "decoder"):
        raise NotSupported(f"there is no shape {shape!r}; there are 'universal', 'encoder' and 'decoder'")
    if (shape == "decoder") != (spec.max_tokens is not None):
        raise NotSupported(f"{spec.name}: a decoder is a program with max_tokens (and stop), and only that")
    check_layers(spec.name, layers)
    count = layers if layers is not None else spec.layers
    if shape == "encoder" and count is None:
        raise NotSupported(f"{spec.name}: shape='encoder' needs layers=, the fixed number of layers to run")
    output = spec.kinds[spec.output]
    return Config(
        name=spec.name,
        shape=shape,
        tokens=spec.tokens,
        positions=_embedded_positions(spec),
        max_length=None,
        dim=units[0].layout.size,
        cycle=tuple(_block_shape(part) for part in spec.by_layer),
        classes=output.bits if isinstance(output, Word) else len(output),
        output_coding="bits" if isinstance(output, Word) else "one-hot",
        causal=spec.causal,
        halts=shape == "universal" and bool(spec.halt),
        layers=count,
        blocks=len(spec.by_layer) if shared or shape != "encoder" else count or 1,
        stop=spec.stop,
        max_tokens=spec.max_tokens,
    )


def _embedded_positions(spec: Spec) -> int | None:
    """The rows of the position embedding; None where no variable starts from the position."""
    placed = any(variable.by_position is not None for variable in spec.variables.values())
    return spec.positions if placed else None


def _block_shape(spec: Spec) -> BlockShape:
    heads = attention_heads(spec)
    offsets = [abs(offset) for head in heads for offset in head.select.offsets or ()]
    return BlockShape(
        heads=tuple(head.name for head in heads),
        key_size=max([_key_size(spec, head.select) for head in heads], default=0),
        value_size=max([sum(copy.size for copy in head.copies) for head in heads], default=0),
        hidden=(0, 0),
        window=max(offsets, default=0),
    )


def _key_size(spec: Spec, head: HeadSpec) -> int:
    """What is matched, and a place more for each side that the head is limited to."""
    return (0 if head.key is None else _size(spec.kinds[head.key])) + bool(head.where) + bool(head.among)


def _size(kind: Kind) -> int:
    return kind.bits if isinstance(kind, Word) else len(kind)


def resolve_averages(spec: Spec, length: int | None, dtype: str) -> dict[str, list[Boundary]]:
    """The boundaries between the values of each numerical head, for the longest input."""
    longest = length or spec.positions or DEFAULT_LENGTH
    return {name: boundaries(spec, name, longest, dtype) for name, head in spec.heads.items() if head.numerical}


def assemble(
    updates: Updates | Cycle,
    lowered: tuple[Lowering, ...],
    config: Config,
    averages: dict[str, list[Boundary]],
    length: int | None,
    dtype: str,
    way: str,
) -> Transformer:
    """Put embeddings, attention and units into tensors."""
    spec, layout = updates.spec, lowered[0].layout
    halves, shapes = [], []
    for part, lowering, shape in zip(spec.by_layer, lowered, config.cycle):
        units = list(lowering.units)
        for head, limits in averages.items():
            if head in part.heads:
                units += average_units(part, lowering, head, limits)
        check_magnitudes(spec, units, dtype)
        halves.append(([u for u in units if u.half == 1], [u for u in units if u.half == 2]))
        shapes.append(replace(shape, hidden=(len(halves[-1][0]), len(halves[-1][1]))))
    limit = length or spec.positions or (DEFAULT_LENGTH if averages else None)
    config = replace(config, cycle=tuple(shapes), max_length=limit)
    if (count := count_parameters(config)) > MAX_PARAMETERS:
        raise NotSupported(f"{spec.name}: {count:,} parameters, more than the {MAX_PARAMETERS:,} of a transformer here")
    net = Transformer(config, describe(updates, lowered, halves, way), DTYPES[dtype])
    with torch.no_grad():
        fill_embeddings(net, spec, layout)
        for k, block in enumerate(net.blocks):
            assert isinstance(block, Block)
            fill_attention(block, spec.by_layer[k % len(shapes)], layout)
            fill_mlp(block, layout, halves[k % len(shapes)])
    return net


def average_units(spec: Spec, lowering: Lowering, head: str, limits: list[Boundary]) -> list[Unit]:
    """Units that put a numerical head's average into its bucket, and those that clear it."""
    made = []
    read = {name for unit in lowering.units for (name, _), _ in unit.reads}  # buckets of other layers stay empty
    values = spec.heads[head].kind.values
    for k, boundary in enumerate(limits, start=1):
        bucket = f"{head}≥{values[k]}"
        if bucket in read:
            reads, writes = (((head, 0), boundary.slope),), (((bucket, 0), 1),)
            made.append(Unit(reads, -boundary.offset, writes, 1, head, "bucket"))
    size, positive, negative = clearing_scale(spec, head)
    for sign in [1] * positive + [-1] * negative:
        weight: Any = Fraction(sign, size)
        made.append(Unit((((head, 0), weight),), 0, (((head, 0), -sign * size),), 2, head, "clear average"))
    return made


def check_magnitudes(spec: Spec, units: list[Unit], dtype: str) -> None:
    """Whole numbers are exact only up to the format's precision."""
    limit = 1 << PRECISION[dtype]
    for unit in units:
        if unit.why in ("bucket", "clear average"):
            continue
        total = abs(unit.bias) + sum(abs(weight) for _, weight in unit.reads)
        if total > limit:
            raise NotExact(
                f"{spec.name}: a unit of '{unit.purpose}' sums up to {total:,}, beyond the whole numbers that "
                f"{dtype} holds exactly ({limit:,}); use a wider dtype or smaller ranges"
            )


def describe(updates: Updates | Cycle, lowered: tuple[Lowering, ...], halves: Any, way: str) -> dict[str, Any]:
    """What the network was made from, as plain data: saved beside the weights."""
    layout = lowered[0].layout
    made = {"program": updates.spec.to_json(), "lowering": way, "layout": layout.to_json()}
    parts = [_describe_layer(*one) for one in zip(updates.by_layer, lowered, halves)]
    return {**made, "cycle": parts} if updates.spec.cycle else {**made, **parts[0]}


def _describe_layer(updates: Updates, lowering: Lowering, halves: Any) -> dict[str, Any]:
    layout, spec = lowering.layout, updates.spec
    place = {(s.name, i): s.start + i for s in layout for i in range(s.size)}
    moves = [
        {
            "name": head.name,
            "head": number,
            "where": [place[limit] for limit in head.where],
            "default": head.default is not None,
            "replacing": None
            if head.replacing is None
            else {
                "into": head.into,
                "variable": head.replacing,
                "into_start": place[head.into or "", 0],
                "start": place[head.replacing, 0],
                "size": layout[head.replacing].size,
            },
        }
        for number, attention in enumerate(attention_heads(spec))
        for head in attention.moves
    ]
    moves.sort(key=lambda move: list(spec.moves).index(str(move["name"])))  # as the interpreter goes through them
    reads = []
    for name, tests in lowering.reads:
        one = spec.heads[name]
        reads.append(
            {
                "head": name,
                "at_least": 0 if one.default is not None else 1,
                "at_most": 1 << 30 if one.numerical else 1,
                "range": _average_range(one, layout) if one.numerical else None,
                "tests": [
                    {
                        "dims": [place[dim] for dim in test.linear.weights],
                        "weights": list(test.linear.weights.values()),
                        "constant": test.linear.constant,
                        "allowed": list(test.allowed),
                    }
                    for test in tests
                ],
            }
        )
    return {
        "updates": updates.to_json(),
        "reads": reads,
        "moves": moves,
        "units": [[[unit.purpose, unit.why] for unit in half] for half in halves],
    }


def _average_range(head: HeadSpec, layout: Layout) -> list[float]:
    """The dimension of an average, and how far it may be from the declared values: half a gap."""
    segment, values = layout[head.name], head.kind.values
    first, last = (values[1] - values[0], values[-1] - values[-2]) if len(values) > 1 else (1, 1)
    low, high = values[0] - Fraction(first) / 2, values[-1] + Fraction(last) / 2
    return [segment.start, float(low * segment.scale), float(high * segment.scale)]


def fill_embeddings(net: Transformer, spec: Spec, layout: Layout) -> None:
    for name, variable in spec.variables.items():
        rows = code(variable.kind, variable.by_position or variable.by_token or (variable.default,))
        place = layout[name].slice
        if variable.by_position is not None:
            net.position_embedding[:, place] = rows.to(net.dtype)
        elif variable.by_token is not None:
            net.token_embedding[:, place] = rows.to(net.dtype)
        else:
            net.token_embedding[:, place] = rows[0].to(net.dtype)
    output = layout[spec.output]
    net.unembedding[:, output.slice] = torch.eye(output.size, dtype=net.dtype)
    for name, index in spec.halt.items():
        net.halt_weight[layout[name].start + index] = 1
    net.halt_bias[0] = 1 - max(1, len(spec.halt))


def code(kind: Kind, indices: Sequence[int]) -> torch.Tensor:
    """Values in the residual stream, a row each: one-hot, or binary for a word."""
    chosen = torch.tensor(indices, dtype=torch.long)
    if isinstance(kind, Word):
        return (chosen[:, None] >> torch.arange(kind.bits) & 1).double()
    return torch.nn.functional.one_hot(chosen, len(kind)).double()


# --- attention --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Copy:
    """What a head adds to a segment: variables of the position that it selects, each with a sign; where it selects
    none, a default with its sign."""

    target: str
    kind: Kind
    sources: tuple[tuple[str, int], ...]
    default: int | None = None
    sign: int = 1

    @property
    def size(self) -> int:
        return 1 if isinstance(self.kind, Numerical) else _size(self.kind)


@dataclass(frozen=True)
class AttentionHead:
    """A head of the network: how it selects, what it copies, and the program's moves that it makes."""

    name: str
    select: HeadSpec
    copies: tuple[Copy, ...]
    moves: tuple[HeadSpec, ...] = ()


def attention_heads(spec: Spec) -> list[AttentionHead]:
    """One head for each of the program's; moves that select alike share one. What moves write into is first
    taken away where they write, by a head that looks at its own position; where they do not, it takes the default
    away that they add there as well."""
    made = [
        AttentionHead(name, head, (Copy(name, head.kind, ((head.value, 1),), head.default),))
        for name, head in spec.heads.items()
    ]
    alike: dict[Any, list[HeadSpec]] = {}
    cleared: dict[Any, list[HeadSpec]] = {}
    for head in spec.moves.values():
        alike.setdefault((head.query, head.key, head.offsets, head.where, head.among), []).append(head)
        if head.replacing is None:
            cleared.setdefault(head.where, []).append(head)
    for moves in alike.values():
        copies = []
        for head in moves:
            old = () if head.replacing is None else ((head.replacing, -1),)
            copies.append(Copy(head.into or "", head.kind, ((head.value, 1), *old), head.default))
        made.append(AttentionHead("+".join(head.name for head in moves), moves[0], tuple(copies), tuple(moves)))
    for where, moves in cleared.items():
        names = [head.into or "" for head in moves]
        own = HeadSpec("", None, None, names[0], frozenset([0]), None, moves[0].kind, where)
        away = [
            Copy(name, head.kind, ((name, -1),), head.default if where else None, -1)
            for name, head in zip(names, moves)
        ]
        made.append(AttentionHead("clear " + "+".join(names), own, tuple(away)))
    return made


def fill_attention(block: Block, spec: Spec, layout: Layout) -> None:
    """Scores: a match is 2·GAP, the null key GAP, a mismatch 0 or less."""
    for h, attention in enumerate(attention_heads(spec)):
        head = attention.select
        block.null_score[h] = GAP
        if head.key is None or head.query is None:
            block.relative[h] = 2 * GAP if head.offsets is None else 0
            for offset in head.offsets or ():
                block.relative[h, offset + block.window + 1] = 2 * GAP
        else:
            fill_match(block, h, spec, head, layout)
            if head.offsets is not None:
                block.relative[h] = -2 * GAP
                for offset in head.offsets:
                    block.relative[h, offset + block.window + 1] = 0
        fill_limits(block, h, spec, head, layout)
        if head.numerical:
            fill_average(block, h, spec, head, layout)
        else:
            fill_copies(block, h, attention, layout)


def fill_match(block: Block, h: int, spec: Spec, head: HeadSpec, layout: Layout) -> None:
    assert head.query is not None and head.key is not None
    query, key = layout[head.query], layout[head.key]
    kind = spec.kinds[head.query]
    if isinstance(kind, Word):  # bipolar bits: a match is worth `bits`, one wrong bit two less
        for bit in range(kind.bits):
            block.query[h, bit, query.start + bit], block.query_bias[h, bit] = 2 * GAP, -GAP
            block.key[h, bit, key.start + bit], block.key_bias[h, bit] = 2, -1
        block.null_score[h] = (kind.bits - 1) * GAP
        return
    for place in range(key.size):
        block.key[h, place, key.start + place] = 1
    for index, value in enumerate(kind.values):
        for member in value if isinstance(kind, Subset) else (value,):
            block.query[h, member, query.start + index] = 2 * GAP


def fill_limits(block: Block, h: int, spec: Spec, head: HeadSpec, layout: Layout) -> None:
    """Each value that is asked for and missing costs 2·GAP: more than a match is above the null key."""
    place = 0 if head.key is None else _size(spec.kinds[head.key])
    if head.where:
        for name, index in head.where:
            block.query[h, place, layout[name].start + index] = 2 * GAP
        block.query_bias[h, place] = -2 * GAP * len(head.where)
        block.key_bias[h, place] = 1
        place += 1
    if head.among:
        for name, index in head.among:
            block.key[h, place, layout[name].start + index] = 1
        block.key_bias[h, place] = -len(head.among)
        block.query_bias[h, place] = 2 * GAP


def fill_average(block: Block, h: int, spec: Spec, head: HeadSpec, layout: Layout) -> None:
    source, target = layout[head.value], layout[head.name]
    numbers: list[Number] = list(spec.kinds[head.value].values)
    for index, number in enumerate(numbers):
        block.value[h, 0, source.start + index] = int(number * target.scale)
    block.out[h, target.start, 0] = 1
    if head.default is not None:
        block.null_value[h, 0] = int(head.kind.values[head.default] * target.scale)


def fill_copies(block: Block, h: int, head: AttentionHead, layout: Layout) -> None:
    start = 0
    for copy in head.copies:
        for place in range(copy.size):
            for name, sign in copy.sources:
                block.value[h, start + place, layout[name].start + place] = sign
            block.out[h, layout[copy.target].start + place, start + place] = 1
        if copy.default is not None:
            coded = copy.sign * code(copy.kind, [copy.default])[0]
            block.null_value[h, start : start + copy.size] = coded.to(block.value.dtype)
        start += copy.size


# --- the MLP block ----------------------------------------------------------------------------------------


def fill_mlp(block: Block, layout: Layout, halves: tuple[list[Unit], list[Unit]]) -> None:
    place = {(s.name, i): s.start + i for s in layout for i in range(s.size)}
    for (into, bias, out), units in zip(
        ((block.in1, block.bias1, block.out1), (block.in2, block.bias2, block.out2)), halves
    ):
        rows, columns, values = [], [], []
        writes: tuple[list[int], list[int], list[float]] = ([], [], [])
        for row, unit in enumerate(units):
            for dim, weight in unit.reads:
                rows.append(row)
                columns.append(place[dim])
                values.append(float(weight))
            for dim, weight in unit.writes:
                writes[0].append(place[dim])
                writes[1].append(row)
                writes[2].append(float(weight))
        if units:
            into[rows, columns] = torch.tensor(values, dtype=into.dtype)
            out[writes[0], writes[1]] = torch.tensor(writes[2], dtype=out.dtype)
            bias[:] = torch.tensor([float(unit.bias) for unit in units], dtype=bias.dtype)
