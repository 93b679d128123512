"""Compile attention programs to transformers."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import torch

from kleene.common.output import check_layers
from kleene.common.residual import Layout
from kleene.compilers.transformer_attention import attention_heads, fill_attention, key_size
from kleene.compilers.transformer_coding import fill_embeddings
from kleene.compilers.transformer_mlp import average_units, check_magnitudes, fill_mlp
from kleene.compilers.transformer_weight_check import check_weights
from kleene.errors import InputError, NotSupported
from kleene.files import MAX_PARAMETERS
from kleene.lowering.averages import Boundary, boundaries
from kleene.lowering.guarding import guarded_updates
from kleene.lowering.layout import build_layout
from kleene.lowering.rules import lower_to_rules
from kleene.lowering.thresholds import (
    LoweredStep,
    lower_rules_to_units,
    lower_to_thresholds,
    lower_two_steps,
)
from kleene.lowering.updates import Cycle, Updates
from kleene.machines.kinds import Word
from kleene.machines.program import ProgramClass
from kleene.machines.spec import Counting, HeadSpec, Spec
from kleene.networks.transformer.files import count_parameters
from kleene.networks.transformer.model import DTYPES, Block, BlockShape, Config, Transformer

DEFAULT_LENGTH = (
    512  # of inputs, where a head needs a limit (it averages, or has a preference) and the program has none
)


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
    """Build a transformer that computes exactly what an attention program does.

    - `lowering`: "thresholds" (compact) or "rules" (one unit for each transition rule).
    - `shape`: "universal" (halts by itself), "encoder" (a fixed number of layers) or "decoder".
    - `layers`: the number of layers of an encoder.
    - `length`: the longest input for which heads that average or have a preference must be exact.
    - `dtype`: "float32" (default), "float64" or "bfloat16".
    - `shared`: whether all layers of an encoder share one block.
    """
    if length is not None and (not isinstance(length, int) or length < 1):
        raise InputError(f"{program.spec.name}: length={length!r}; the longest input has 1 token or more")
    averages = resolve_averages(
        program.spec, length, dtype_name(dtype)
    )  # first: this is quick, and may reject the program
    updates = guarded_updates(program)
    units = lower(updates, lowering)
    config = configure(program.spec, units, shape, layers, shared, length)
    most = None if updates.by_layer[0].before_layers is None else program.spec.layers
    check_layers(program.spec.name, layers, most=most)
    net = assemble(as_run(updates, shape, layers), units, config, averages, dtype_name(dtype), lowering)
    if most is not None:
        net.description["most_layers"] = most
    if (words := getattr(program, "vocabulary", None)) is not None:  # an s-op's: tokens and values by name
        net.description["vocabulary"] = words.to_json()
    check_weights(program, net)
    return net


def as_run(updates: Updates | Cycle, shape: str | None, layers: int | None) -> Updates | Cycle:
    """The updates of the program as it is run: an encoder runs its layers, whether or not the program halts."""
    halt = {} if shape == "encoder" else updates.spec.halt
    count = updates.spec.layers if layers is None else layers
    parts = [replace(part, spec=replace(part.spec, layers=count, halt=halt)) for part in updates.by_layer]
    return (
        parts[0] if isinstance(updates, Updates) else Cycle(replace(updates.spec, layers=count, halt=halt), (*parts,))
    )


def lower(updates: Updates | Cycle, lowering: str) -> tuple[LoweredStep, ...]:
    """Lower the guarded updates of each layer to units, in one residual stream for all layers."""
    if lowering not in ("thresholds", "rules"):
        raise NotSupported(f"unknown lowering {lowering!r}; choose 'thresholds' or 'rules'")
    lowered = [_lower_layer(part, lowering) for part in updates.by_layer]
    # each layer clears its scratch values, so layers may share their dimensions
    scratch = dict.fromkeys(s.name for part in lowered for s in part.layout if s.coding == "scratch")
    layout = build_layout(updates.spec, scratch)
    return tuple(replace(part, layout=layout) for part in lowered)


def _lower_layer(updates: Updates, lowering: str) -> LoweredStep:
    if lowering == "thresholds":
        return lower_to_thresholds(updates) if updates.second is None else lower_two_steps(updates)
    if updates.second is not None or updates.on_bits:
        raise NotSupported(f"{updates.spec.name}: rules have no bits of words; use lowering='thresholds'")
    return lower_rules_to_units(lower_to_rules(updates), updates)


def dtype_name(dtype: str | torch.dtype | None) -> str:
    name = "float32" if dtype is None else str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise NotSupported(f"unknown dtype {name!r}; choose one of {', '.join(DTYPES)}")
    return name


# --- from units to a network ------------------------------------------------------------------------------


def configure(
    spec: Spec, units: tuple[LoweredStep, ...], shape: str | None, layers: int | None, shared: bool, length: int | None
) -> Config:
    """Choose the shape of the network."""
    if shape is None:
        shape = "decoder" if spec.max_tokens is not None else "universal"
    if shape not in ("universal", "encoder", "decoder"):
        raise NotSupported(f"unknown shape {shape!r}; choose 'universal', 'encoder' or 'decoder'")
    if (shape == "decoder") != (spec.max_tokens is not None):
        raise NotSupported(f"{spec.name}: a decoder is a program with max_tokens (and stop), and only that")
    check_layers(spec.name, layers)
    count = layers if layers is not None else spec.layers
    if shape == "encoder" and count is None:
        raise NotSupported(f"{spec.name}: shape='encoder' needs layers=, the fixed number of layers to run")
    output, turns, longest = spec.kinds[spec.output], len(spec.by_layer), longest_input(spec, length)
    return Config(
        name=spec.name,
        shape=shape,
        tokens=spec.tokens,
        positions=_embedded_positions(spec),
        max_length=longest,
        dim=units[0].layout.size,
        cycle=tuple(_block_shape(part, longest) for part in spec.by_layer),
        classes=output.bits if isinstance(output, Word) else len(output),
        output_coding="bits" if isinstance(output, Word) else "one-hot",
        causal=spec.causal,
        halts=shape == "universal" and bool(spec.halt),
        layers=count,
        blocks=turns if shared or shape != "encoder" else turns * -(-(count or 1) // turns),  # a whole number of cycles
        stop=spec.stop,
        max_tokens=spec.max_tokens,
        counted=_counted(spec, units[0].layout),
    )


def _embedded_positions(spec: Spec) -> int | None:
    """The rows of the position embedding; None if no variable is initialised from the position."""
    return spec.positions if any(isinstance(v.by_position, tuple) for v in spec.variables.values()) else None


def _counted(spec: Spec, layout: Layout) -> tuple[tuple[int, int, int], ...]:
    """The dimensions that count positions, each with its bits and its offset."""
    words = {name: v.by_position for name, v in spec.variables.items()}
    return tuple((layout[n].start, c.bits, c.offset) for n, c in words.items() if isinstance(c, Counting))


def longest_input(spec: Spec, length: int | None) -> int | None:
    """The longest input that the network takes; None: any length, since no head needs a limit."""
    asked = [limit for limit in (length, spec.positions) if limit is not None]
    limited = any(head.numerical or head.prefer is not None for head in (*spec.heads.values(), *spec.moves.values()))
    return min(asked) if asked else DEFAULT_LENGTH + (spec.max_tokens or 0) if limited else None


def _block_shape(spec: Spec, longest: int | None) -> BlockShape:
    heads = attention_heads(spec)
    offsets = [abs(offset) for head in heads for offset in head.select.offsets or ()]
    offsets += [(longest or 1) - 1 for head in heads if head.select.prefer is not None]  # ranks need every offset
    return BlockShape(
        heads=tuple(head.name for head in heads),
        key_size=max([key_size(spec, head.select) for head in heads], default=0),
        value_size=max([sum(copy.size for copy in head.copies) for head in heads], default=0),
        hidden=(0, 0),
        window=max(offsets, default=0),
    )


def resolve_averages(spec: Spec, length: int | None, dtype: str) -> dict[str, list[Boundary]]:
    """The boundaries between the values of each numerical head, for the longest input."""
    longest = length or spec.positions or DEFAULT_LENGTH + (spec.max_tokens or 0)
    return {name: boundaries(spec, name, longest, dtype) for name, head in spec.heads.items() if head.numerical}


def assemble(
    updates: Updates | Cycle,
    lowered: tuple[LoweredStep, ...],
    config: Config,
    averages: dict[str, list[Boundary]],
    dtype: str,
    way: str,
) -> Transformer:
    """Build the network: fill in embeddings, attention and units."""
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
    config = replace(config, cycle=tuple(shapes))
    if (count := count_parameters(config)) > MAX_PARAMETERS:
        raise NotSupported(f"{spec.name}: {count:,} parameters, more than the {MAX_PARAMETERS:,} of a transformer here")
    net = Transformer(config, describe(updates, lowered, halves, way), DTYPES[dtype])
    net.encoder = None if spec.encoder is None else spec.encode
    net.decoder = None if spec.decoder is None else spec.answer
    with torch.no_grad():
        fill_embeddings(net, spec, layout)
        for k, block in enumerate(net.blocks):
            assert isinstance(block, Block)
            fill_attention(block, spec.by_layer[k % len(shapes)], layout)
            fill_mlp(block, layout, halves[k % len(shapes)])
    return net


def describe(updates: Updates | Cycle, lowered: tuple[LoweredStep, ...], halves: Any, way: str) -> dict[str, Any]:
    """Describe how the network was made, as plain data that is saved beside the weights."""
    layout = lowered[0].layout
    made = {"program": updates.spec.to_json(), "lowering": way, "layout": layout.to_json()}
    parts = [_describe_layer(*one) for one in zip(updates.by_layer, lowered, halves)]
    return {**made, "cycle": parts} if updates.spec.cycle else {**made, **parts[0]}


def _describe_layer(updates: Updates, lowering: LoweredStep, halves: Any) -> dict[str, Any]:
    layout, spec = lowering.layout, updates.spec
    place = {(s.name, i): s.start + i for s in layout for i in range(s.size)}
    moves = [
        {
            "name": head.name,
            "head": number,
            "where": [layout.place(*limit) for limit in head.where],
            "default": head.default is not None,
            "replacing": None
            if head.replacing is None
            else {
                "into": head.into,
                "variable": head.replacing,
                "into_start": layout[head.into or ""].start,
                "start": layout[head.replacing].start,
                "size": layout[head.replacing].size,
            },
        }
        for number, attention in enumerate(attention_heads(spec))
        for head in attention.moves
    ]
    moves.sort(key=lambda move: list(spec.moves).index(str(move["name"])))  # in the order of the interpreter
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
    """The dimension of an average, and the range it may have: half a gap beyond the declared values."""
    segment, values = layout[head.name], head.kind.values
    first, last = (values[1] - values[0], values[-1] - values[-2]) if len(values) > 1 else (1, 1)
    if head.counts:  # up to the middle between the largest count and one more
        last = Fraction(1, len(values) * (len(values) + 1))
    low, high = values[0] - Fraction(first) / 2, values[-1] + Fraction(last) / 2
    return [segment.start, float(low * segment.scale), float(high * segment.scale)]
