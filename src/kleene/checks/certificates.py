"""Certificates: a proof, by reading the weights, that a network computes what its guarded updates say.

No stored hash is consulted. Shown are: (a) numbers — every entry is exact in the number format, every sum
it enters stays exact, score gaps underflow, averages land in the right bucket up to a length; (b) the
weights are, entry by entry, the coding of what they parse to, with nothing left over; (c) for every
variable, the function that the units compute equals the saved updates for all values of all variables,
undefined heads included. From these follows equality on every run on which the interpreter does not raise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import torch

from kleene.compilers.program_to_transformer import assemble, dtype_name, lower, resolve_averages
from kleene.decompilers.transformer_to_updates import read_spec
from kleene.decompilers.weights import WeightsFunction, whole_halves
from kleene.errors import KleeneError, NotExact
from kleene.lowering.averages import PRECISION, clearing_scale, neighbours
from kleene.lowering.next_values import UpdatesFunction, difference, reading_order
from kleene.lowering.thresholds import averaging_heads
from kleene.lowering.updates import Cycle, Updates
from kleene.machines.program import Spec, Word
from kleene.networks.transformer.model import DTYPES, Block, Transformer

MOVES = (  # follows from parsing the heads (check_nothing_left), where the interpreter does not raise
    "heads that write into a variable take its old value away where they write: their own position's, or the "
    "replaced value of the position that they select"
)


@dataclass(frozen=True)
class Certificate:
    """Whether a network is proved exact, in which number format, up to which length, and why (not)."""

    holds: bool
    dtype: str
    max_length: int | None
    reasons: tuple[str, ...]  # what was shown; where it does not hold, what failed
    program: str = field(default="")

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        limit = "any length" if self.max_length is None else f"inputs of up to {self.max_length} tokens"
        head = (
            f"{self.program}: certified exact in {self.dtype} for {limit}"
            if self.holds
            else f"{self.program}: not certified in {self.dtype}"
        )
        return "\n".join([head, *(f"  - {reason}" for reason in self.reasons)])

    def to_json(self) -> dict[str, Any]:
        return {
            "program": self.program,
            "holds": self.holds,
            "dtype": self.dtype,
            "max_length": self.max_length,
            "reasons": list(self.reasons),
        }


def certify_transformer(net: Transformer, *, dtype: str | torch.dtype | None = None) -> Certificate:
    """Check a network in its own number format, or as if it were converted to `dtype`."""
    name = dtype_name(dtype or net.dtype)
    certificate = _certificate(net, name)
    if name == dtype_name(net.dtype):
        net.note_certificate(certificate)
    return certificate


def _certificate(net: Transformer, name: str) -> Certificate:
    try:
        spec = Spec.from_json(net.description["program"])
        updates = saved_updates(net, spec)
        limit, shown = _prove(net, spec, updates, name)
    except KleeneError as error:
        return Certificate(False, name, None, (str(error),), net.config.name)
    except (KeyError, ValueError, TypeError, IndexError) as error:
        return Certificate(
            False, name, None, (f"what is saved with the network is malformed ({error!r})",), net.config.name
        )
    return Certificate(True, name, limit, tuple(shown), net.config.name)


def saved_updates(net: Transformer, spec: Spec) -> Updates | Cycle:
    """The guarded updates that are saved with a network."""
    if not spec.cycle:
        return Updates.from_json(spec, net.description["updates"])
    parts = [Updates.from_json(part, net.described(layer)["updates"]) for layer, part in enumerate(spec.by_layer)]
    return Cycle(spec, tuple(parts))


def _prove(net: Transformer, spec: Spec, updates: Updates | Cycle, dtype: str) -> tuple[int | None, list[str]]:
    shown = dict.fromkeys([check_representable(net, dtype), check_nothing_left(net, spec, updates)])
    limits: list[int | None] = []
    largest = 0.0
    for number, block in enumerate(net.blocks):
        assert isinstance(block, Block)
        layer = number % len(spec.by_layer)
        part, saved = spec.by_layer[layer], updates.by_layer[layer]
        shown[check_cleared(net, block, part)] = None
        if part.moves:
            shown[MOVES] = None
        shown[check_functions(net, block, part, saved)] = None
        largest = max(largest, check_sums(net, block, dtype))
        limit, why = check_averages(net, block, part, dtype)
        limits.append(limit)
        shown[why] = None
    exact = f"every sum stays within the whole numbers that {dtype} holds exactly"
    shown[f"{exact} (largest {largest:,.0f} of {1 << PRECISION[dtype]:,})"] = None
    known = [limit for limit in limits if limit is not None]
    return min(known, default=None), list(shown)


# --- (a) numbers ------------------------------------------------------------------------------------------


def check_representable(net: Transformer, dtype: str) -> str:
    """Every entry is a whole number (or a power of two), and the format holds it."""
    for name, tensor in net.named_parameters():
        values = tensor.detach().double()
        if not torch.isfinite(values).all():
            raise NotExact(f"{name} has an entry that is not finite")
        odd = values[(values != values.round())]
        if len(odd) and not (torch.log2(odd.abs()) == torch.log2(odd.abs()).round()).all():
            raise NotExact(f"{name} has the entry {odd[0]}, neither a whole number nor a power of two")
        if not torch.equal(values.to(DTYPES[dtype]).double(), values):
            worst = values[values.to(DTYPES[dtype]).double() != values][0]
            raise NotExact(f"{name} has the entry {worst:g}, which {dtype} cannot hold")
    return f"every weight is a whole number or a power of two that {dtype} holds"


def check_sums(net: Transformer, block: Block, dtype: str) -> float:
    """Sums of whole numbers stay where the format is exact; scores are multiples of a power of two.
    Gives the largest sum."""
    limit = 1 << PRECISION[dtype]
    largest = 0.0
    for into, bias in ((block.in1, block.bias1), (block.in2, block.bias2)):
        if len(bias):
            total = bias.double().abs()
            for segment in net.layout:  # one dimension of a one-hot segment is on at a time
                weights = into[:, segment.slice].double().abs()
                if segment.coding == "bits":
                    total = total + weights.sum(dim=1)
                elif segment.coding != "scalar":  # sums with averages are looked at by themselves
                    total = total + weights.amax(dim=1)
            largest = max(largest, float(total.max()))
    if largest > limit:
        raise NotExact(f"a unit's sum reaches {largest:,.0f}; {dtype} is exact for whole numbers up to {limit:,}")
    query, key = block.query.double().abs(), block.key.double().abs()
    if query.numel():
        scores = (query.sum(dim=2) + block.query_bias.double().abs()) * (key.sum(dim=2) + block.key_bias.double().abs())
        unit = 1024
        reach = float(scores.sum(dim=1).max() + block.relative.double().abs().max()) / unit
        whole = all(
            bool((t.double() % unit == 0).all())
            for t in (block.query, block.query_bias, block.relative, block.null_score)
        )
        if not whole or reach > limit:
            raise NotExact(f"attention scores reach {reach:,.0f} × 1024; {dtype} is exact up to {limit:,} × 1024")
    return largest


def check_averages(net: Transformer, block: Block, spec: Spec, dtype: str) -> tuple[int | None, str]:
    """Averages fall into the right bucket for every input up to the length; counts stay exact."""
    limit = net.config.max_length
    averaging = [name for name, head in spec.heads.items() if head.numerical]
    looking = {**spec.heads, **spec.moves}
    counted = [n for n, h in looking.items() if h.key is not None or h.offsets is None or len(h.offsets) > 1]
    if counted:  # a softmax adds up to `length` ones
        limit = min(limit or 1 << PRECISION[dtype], 1 << PRECISION[dtype])
    for head in averaging:
        _check_buckets(net, block, spec, head, limit or 1, dtype)
    if averaging:
        return limit, f"averages fall into the right bucket for inputs of up to {limit} tokens"
    return limit, "no averages"


def _check_buckets(net: Transformer, block: Block, spec: Spec, head: str, length: int, dtype: str) -> None:
    layout, values = net.layout, spec.heads[head].kind.values
    segment, error = layout[head], Fraction(1, 1 << PRECISION[dtype])
    readers = torch.nonzero(block.in1[:, segment.start]).flatten().tolist()
    seen = set()
    for unit in readers:
        written = torch.nonzero(block.out1[:, unit]).flatten().tolist()
        label = layout.names[written[0]]
        k = next(k for k, value in enumerate(values) if label == f"{head}≥{value}")
        slope, offset = int(block.in1[unit, segment.start]), -int(block.bias1[unit])
        below, above = neighbours(Fraction(values[k - 1] + values[k], 2) * segment.scale, length)
        if slope * (below + abs(below) * error) > offset or slope * (above - abs(above) * error) < offset + 1:
            raise NotExact(
                f"{dtype} does not tell '{label}' apart in inputs of {length} tokens (averages {below} and {above})"
            )
        seen.add(k)
    buckets = {k: layout[f"{head}≥{value}"].start for k, value in enumerate(values) if f"{head}≥{value}" in layout}
    if seen != {k for k, dim in buckets.items() if block.in1[:, dim].any() or block.in2[:, dim].any()}:
        raise NotExact(f"the buckets of '{head}' that are computed are not those that are read")


# --- (b) nothing left over --------------------------------------------------------------------------------


def check_nothing_left(net: Transformer, spec: Spec, updates: Updates | Cycle) -> str:
    """The Spec that the weights parse to is the saved one, and coding spec and updates again gives every
    entry of every tensor."""
    parsed = read_spec(net)
    if parsed != spec:
        raise NotExact("embeddings, heads, halt or output read from the weights differ from what is saved")
    units, config, dtype = lower(updates, net.description["lowering"]), net.config, dtype_name(net.dtype)
    averages = resolve_averages(spec, config.max_length, dtype)
    again = assemble(updates, units, config, averages, config.max_length, dtype, net.description["lowering"])
    theirs = dict(again.named_parameters())
    for name, tensor in net.named_parameters():
        if theirs[name].shape != tensor.shape or not torch.equal(theirs[name], tensor.cpu()):
            raise NotExact(f"{name} has entries that the guarded updates do not account for")
    if again.layout != net.layout:
        raise NotExact("the layout differs from what the guarded updates need")
    return "the weights parse into embeddings, heads and guarded updates, with no entry left over"


# --- (c) the updates --------------------------------------------------------------------------------------


def check_cleared(net: Transformer, block: Block, spec: Spec) -> str:
    """The first half writes scratch only; heads and scratch are zero again after the second."""
    layout = net.layout
    scratch = {dim for s in layout if s.coding == "scratch" for dim in range(s.start, s.stop)}
    for dim in torch.nonzero(block.out1.any(dim=1)).flatten().tolist():
        if dim not in scratch:
            raise NotExact(f"the first half of the MLP block writes '{layout.names[dim]}', which is no scratch value")
    used = {dim for dim in scratch if bool(block.out1[dim].any()) or bool(block.out2[dim].any())}
    for segment in layout:
        if (segment.coding == "scratch" and segment.start in used) or segment.name in spec.heads:
            for dim in range(segment.start, segment.stop):
                _check_clearing(block, spec, layout.names[dim], dim, segment)
    return "the second half clears heads and scratch values exactly (x − clip(x) for every x they can be)"


def _check_clearing(block: Block, spec: Spec, label: str, dim: int, segment: Any) -> None:
    scale, signs = 1, [1]
    if segment.coding == "scalar":
        scale, positive, negative = clearing_scale(spec, segment.name)
        signs = [1] * positive + [-1] * negative
    found = []
    for unit in torch.nonzero(block.out2[dim]).flatten().tolist():
        reads = torch.nonzero(block.in2[unit]).flatten().tolist()
        writes = torch.nonzero(block.out2[:, unit]).flatten().tolist()
        weight = float(block.in2[unit, dim])
        if reads != [dim] or writes != [dim] or float(block.bias2[unit]) != 0 or abs(weight) * scale != 1:
            raise NotExact(f"'{label}' is written by a unit that does not just clear it")
        sign = 1 if weight > 0 else -1
        if float(block.out2[dim, unit]) != -sign * scale:
            raise NotExact(f"'{label}' is not cleared exactly")
        found.append(sign)
    if sorted(found) != sorted(signs):
        raise NotExact(f"'{label}' is cleared by {len(found)} units; it should be {len(signs)}")


def check_functions(net: Transformer, block: Block, spec: Spec, updates: Updates) -> str:
    """For every variable the units compute what the saved updates say, for all values."""
    halves, rough = whole_halves(block, net.layout), averaging_heads(updates)
    for name in spec.variables:
        if isinstance(spec.kinds[name], Word):
            continue  # adders, entry by entry (check_nothing_left); that they add is the lemma of lowering/words.py
        function = WeightsFunction(spec, net.layout, halves, name, given=updates.by_predicate, rough=rough)
        low, high = function.scratch_range
        if len(low) and (np.any(low < 0) or np.any(high > 1)):
            raise NotExact(f"a scratch value that '{name}' depends on can leave [0, 1]")
        order = reading_order(name, updates.of(name), function.variables)
        found = difference(spec, name, UpdatesFunction(spec, updates.of(name)), function, order, undefined=True)
        if found is not None and None in found.values():  # where a head is undefined: step may read it there, and raise
            found = _difference_where_read(spec, name, updates, function)
        if found is not None:
            state = ", ".join(
                f"{n} = {'undefined' if i is None else spec.kinds[n].values[i]}" for n, i in found.items()
            )
            raise NotExact(f"the weights change '{name}' differently from the saved updates where {state}")
    return "for every variable the units compute the saved updates, for all values of all variables"


def _difference_where_read(
    spec: Spec, name: str, updates: Updates, function: WeightsFunction
) -> dict[str, int | None] | None:
    """The same comparison, leaving out states in which `step` reads an undefined head and raises."""
    heads = {*function.variables}.union(*(update.reads for update in updates.of(name))) & spec.heads.keys()
    reads = [read for read in updates.reads if read.head in heads]
    asked = [n for read in reads for test in read.guard for n in test.form.variables]
    order = list(
        dict.fromkeys([*(n for n in asked if n != name), *reading_order(name, updates.of(name), function.variables)])
    )
    return difference(spec, name, UpdatesFunction(spec, updates.of(name), reads), function, order, undefined=True)
