"""Decompile from the weights alone: no saved description, no names; dimensions, units and heads in any order.

The writer of a dimension tells what it is. Scratch values are written by the first half of the MLP block. Heads'
outputs are written by attention and are zero in the embeddings. The others are variables. A variable is a group of
dimensions of which exactly one is on: dimensions that one unit writes, or that one head matches, are in one group, and
groups are joined until every state that was seen has one dimension on in each. States are the embeddings, and what the
network makes of random inputs. Then the network is put in order, and read as any other.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from kleene.common.residual import Layout, Segment
from kleene.errors import NotExact
from kleene.machines.kinds import Categorical, Kind, Numerical, Subset
from kleene.machines.spec import HeadSpec, Spec, VariableSpec
from kleene.networks.transformer.model import Block, BlockShape, Config, Transformer

INPUTS, LAYERS = 200, 24  # the number of random inputs, and the layers of each, from which states are taken
Dims = tuple[int, ...]


@dataclass(frozen=True)
class FoundHead:
    """A head's output: where it is written, from which variable, by which head of which block."""

    name: str
    block: int
    number: int
    targets: Dims
    source: str
    scalar: bool


@dataclass
class Found:
    """The parts of the residual stream, as the weights show them."""

    variables: dict[str, Dims]  # dimensions of a variable, in the order of its values
    heads: list[FoundHead]
    scratch: Dims
    unused: Dims  # dimensions that nothing ever switches on


def put_in_order(net: Transformer) -> tuple[Transformer, Found]:
    """The same network with ordered dimensions and a new description, and the parts that were found."""
    found = find(net)
    return _rebuilt(net, found), found


def _numbers(tensor: torch.Tensor) -> np.ndarray:
    made: np.ndarray = tensor.detach().double().cpu().numpy()
    return made


def _blocks(net: Transformer) -> list[Block]:
    """One block for each place in the cycle."""
    return [net.block(place) for place in range(len(net.config.cycle))]


# --- the role of each dimension------------------------------------------------------------------------------


def find(net: Transformer) -> Found:
    """Tell variables, heads and scratch values apart."""
    blocks = _blocks(net)
    embedded = (_numbers(net.token_embedding) != 0).any(axis=0)
    if net.config.positions is not None:
        embedded |= (_numbers(net.position_embedding) != 0).any(axis=0)
    scratch = _any(blocks, lambda block: (_numbers(block.out1) != 0).any(axis=1))
    attended = _any(blocks, lambda block: (_numbers(block.out) != 0).any(axis=(0, 2)))
    if (attended & embedded).any():
        raise NotExact(f"{net.config.name}: a head writes into a variable, which needs the saved description")
    if (attended & scratch).any():
        raise NotExact(f"{net.config.name}: a dimension is written by heads and by the first half of the MLP block")
    groups = _groups(net, blocks, ~scratch & ~attended)
    order = _ordered(net, blocks, groups)
    variables = {f"v{i}": dims for i, dims in enumerate(order)}
    known = {dim for dims in order for dim in dims}
    unused = [dim for dim in np.nonzero(~scratch & ~attended)[0].tolist() if dim not in known]
    heads = _heads(net, blocks, variables, set(unused))
    copied = {dim for head in heads for dim in head.targets}
    unused += [dim for dim in np.nonzero(attended)[0].tolist() if dim not in copied]
    return Found(variables, heads, tuple(np.nonzero(scratch)[0].tolist()), tuple(unused))


def _any(blocks: Iterable[Block], which: Any) -> np.ndarray:
    made: np.ndarray = np.any([which(block) for block in blocks], axis=0)
    return made


# --- variables ----------------------------------------------------------------------------------------------


class _Sets:
    """Dimensions that belong together, joined one pair after the other."""

    def __init__(self, dims: Iterable[int]) -> None:
        self.of = {dim: {dim} for dim in dims}

    def join(self, dims: Iterable[int]) -> None:
        dims = [dim for dim in dims if dim in self.of]
        for dim in dims[1:]:
            one, two = self.of[dims[0]], self.of[dim]
            if one is not two:
                one |= two
                for moved in two:
                    self.of[moved] = one

    def all(self) -> list[set[int]]:
        return list({id(group): group for group in self.of.values()}.values())


def _groups(net: Transformer, blocks: list[Block], mine: np.ndarray) -> list[Dims]:
    """The variables' dimensions, one group per variable."""
    sets = _Sets(np.nonzero(mine)[0].tolist())
    for block in blocks:
        for unit in (_numbers(block.out2) != 0).T:  # a unit writes one variable
            sets.join(np.nonzero(unit)[0].tolist())
        for h in range(len(block.heads)):  # a head matches one variable with one
            for pairs in _matched(block, h):
                sets.join(pairs)
    sets.join(np.nonzero((_numbers(net.unembedding) != 0).any(axis=0))[0].tolist())
    states = _states(net, mine)
    return _joined(net, blocks, sets, states)


def _matched(block: Block, h: int) -> tuple[list[int], list[int]]:
    """The dimensions of the query and of the key of a head; without limits that one side reads."""
    query, key = _numbers(block.query[h]), _numbers(block.key[h])
    rows = (query != 0).any(axis=1) & (key != 0).any(axis=1)
    return (
        np.nonzero((query[rows] != 0).any(axis=0))[0].tolist(),
        np.nonzero((key[rows] != 0).any(axis=0))[0].tolist(),
    )


@torch.no_grad()
def _states(net: Transformer, mine: np.ndarray) -> np.ndarray:
    """Rows of zeros and ones in the variables' dimensions, each with as many ones as there are variables."""
    chance, config = random.Random(0), net.config
    longest = min(n for n in (net.longest, 12) if n is not None)
    tokens = torch.arange(config.tokens, device=net.device)
    rows = [net.token_embedding[tokens]]
    if config.positions is not None:
        rows = [net.token_embedding[tokens] + place for place in net.position_embedding]
    first = torch.cat(rows)
    count = int((first[0, torch.as_tensor(mine)] != 0).sum())
    found = [first]
    for _ in range(4):
        lengths = [chance.randint(1, longest) for _ in range(INPUTS // 4)]
        size = max(lengths)
        given = torch.tensor([_tokens(chance, config.tokens, size) for _ in lengths])
        mask = torch.arange(size)[None] < torch.tensor(lengths)[:, None]
        x = net.embed(given.to(net.device))
        good = mask.to(net.device)
        for layer in range(LAYERS):
            x = net.block(layer)(x, mask.to(net.device))
            held = x[..., torch.as_tensor(mine)]
            whole = ((held == 0) | (held == 1)).all(dim=-1) & (held.sum(dim=-1) == count)
            good = good & whole.all(dim=1, keepdim=True)  # a row that is not a state spoils the heads that look at it
            found.append(x[good])
    states = _numbers(torch.cat(found))
    states = np.unique(np.where(mine, states, 0), axis=0)
    if not (np.isin(states, (0, 1)).all() and (states.sum(axis=1) == count).all()):
        raise NotExact(
            f"{net.config.name}: the embeddings do not have the same number of dimensions on for every token; "
            "words (numbers in binary) need the saved description"
        )
    on: np.ndarray = states != 0
    return on


def _tokens(chance: random.Random, tokens: int, size: int) -> list[int]:
    """A random input, mostly of a few different tokens."""
    few = [chance.randrange(tokens) for _ in range(chance.choice((1, 2, 3, 8)))]
    return [chance.choice(few) if chance.random() < 0.9 else chance.randrange(tokens) for _ in range(size)]


def _joined(net: Transformer, blocks: list[Block], sets: _Sets, states: np.ndarray) -> list[Dims]:
    """Join sets until each state has exactly one dimension on in each group: a state in which all dimensions but one
    have a group determines the group of the last."""
    parts = [sorted(group) for group in sets.all() if states[:, sorted(group)].any()]  # the others are never on
    on = np.stack([states[:, part].sum(axis=1) for part in parts], axis=1)  # (state, part)
    if (on > 1).any():
        raise NotExact(f"{net.config.name}: two dimensions of one variable are on at once")
    on = np.unique(on, axis=0) != 0
    apart = (on.T.astype(np.int64) @ on) > 0  # parts that are on at once
    _, writing = _guards(blocks)
    colour = _coloured(on, apart, [_union(writing, part) for part in parts])
    if colour is None:
        raise NotExact(f"{net.config.name}: no grouping of the dimensions has one on in each group, always")
    count = int(on[0].sum())
    groups: list[list[int]] = [[] for _ in range(count)]
    for part, group in enumerate(colour):
        groups[group] += parts[part]
    idle = [sorted(group) for group in sets.all() if not states[:, sorted(group)].any()]
    _attach(blocks, groups, idle)
    return [tuple(sorted(group)) for group in groups]


def _attach(blocks: list[Block], groups: list[list[int]], idle: list[list[int]]) -> None:
    """Join values that were never seen to their variable.

    The units that clear them have the guards of those that clear the variable's other values. If several variables are
    cleared alike, what writes them decides: its guard is that of another value's writer but for one dimension.
    """
    clearing, writing = _guards(blocks)
    cleared = [_union(clearing, group) for group in groups]
    written = [_union(writing, group) for group in groups]
    for part in idle:
        wanted = _union(clearing, part)
        fitting = [i for i, told in enumerate(cleared) if wanted and wanted <= told]
        if len(fitting) > 1:
            fitting = [i for i in fitting if _written_alike(_union(writing, part), written[i])]
        if len(fitting) == 1:
            groups[fitting[0]] += part


Guard = tuple[int, float, frozenset[tuple[int, float]]]  # block, bias, and (dimension, weight) of a unit's reads


def _guards(blocks: list[Block]) -> tuple[dict[int, set[Guard]], dict[int, set[Guard]]]:
    """Map each dimension to the guards of the units that clear it (without itself) and of those that write it."""
    clearing: dict[int, set[Guard]] = {}
    writing: dict[int, set[Guard]] = {}
    for number, block in enumerate(blocks):
        reads, bias, writes = _numbers(block.in2), _numbers(block.bias2), _numbers(block.out2)
        for unit in range(len(bias)):
            read = {(int(dim), float(reads[unit, dim])) for dim in np.nonzero(reads[unit])[0]}
            changed = np.nonzero(writes[:, unit])[0].tolist()
            if len(changed) == 1 and writes[changed[0], unit] < 0 and reads[unit, changed[0]] > 0:
                guard = frozenset(pair for pair in read if pair[0] != changed[0])
                clearing.setdefault(changed[0], set()).add((number, float(bias[unit]), guard))
            for dim in changed:
                if writes[dim, unit] > 0:
                    writing.setdefault(dim, set()).add((number, float(bias[unit]), frozenset(read)))
    return clearing, writing


def _union(guards: dict[int, set[Guard]], dims: Iterable[int]) -> set[Guard]:
    return set().union(*(guards.get(dim, set()) for dim in dims))


def _written_alike(guards: set[Guard], others: set[Guard]) -> bool:
    """Whether each guard is one of the others but for one dimension."""
    known = {without for guard in others for without in _without_one(guard)}
    return all(any(without in known for without in _without_one(guard)) for guard in guards)


def _without_one(guard: Guard) -> Iterator[Guard]:
    """The guard without each of the dimensions that it reads."""
    number, bias, read = guard
    return ((number, bias, read - {pair}) for pair in read)


def _coloured(on: np.ndarray, apart: np.ndarray, writers: list[set[Guard]]) -> list[int] | None:
    """A group for each part. Where what was seen leaves a choice, the part that has the fewest is tried first, and
    of its groups first those whose parts are written under the same guards."""
    colour = {int(part): i for i, part in enumerate(np.nonzero(on[0])[0])}
    states = [frozenset(np.nonzero(row)[0].tolist()) for row in on]
    every, count = set(range(on.shape[1])), int(on[0].sum())
    neighbours = [frozenset(np.nonzero(row)[0].tolist()) - {i} for i, row in enumerate(apart)]

    def spread(known: dict[int, int]) -> dict[int, int] | None:
        """Return what follows from the groups that are known; None where it cannot be."""
        known, grown = dict(known), True
        while grown:
            grown = False
            for state in states:
                open_ = [part for part in state if part not in known]
                used = {known[part] for part in state if part in known}
                if len(used) + len(open_) != count:
                    return None
                if len(open_) == 1:
                    (last,) = set(range(count)) - used
                    known[open_[0]], grown = last, True
        return known

    def choices(known: dict[int, int], part: int) -> list[int]:
        taken = {known[other] for other in neighbours[part] if other in known}
        return [c for c in range(count) if c not in taken]

    def likeliest_first(known: dict[int, int], part: int) -> list[int]:
        def alike(c: int) -> bool:
            others = set().union(*(writers[other] for other, group in known.items() if group == c))
            return bool(writers[part]) and _written_alike(writers[part], others)

        found = choices(known, part)
        return sorted(found, key=lambda c: not alike(c)) if len(found) > 1 else found

    def solve(known: dict[int, int] | None, depth: int) -> dict[int, int] | None:
        if known is None or depth > 200:
            return None
        left = every - known.keys()
        if not left:
            return known
        part = min(left, key=lambda p: len(choices(known, p)))
        for c in likeliest_first(known, part):
            found = solve(spread({**known, part: c}), depth + 1)
            if found is not None:
                return found
        return None

    solved = solve(spread(colour), 0)
    return None if solved is None else [solved[part] for part in range(on.shape[1])]


# --- the order of values ------------------------------------------------------------------------------------


def _ordered(net: Transformer, blocks: list[Block], groups: list[Dims]) -> list[Dims]:
    """Each group in an order of values: the output's by class, queries and keys by their matches, the others as the
    unit that tells most of their values apart weighs them."""
    of = {dim: i for i, group in enumerate(groups) for dim in group}
    order: dict[int, list[int]] = {}
    classes = _numbers(net.unembedding)
    read = [int(np.argmax(row)) for row in classes if row.any()]
    if read and read[0] in of:
        group = of[read[0]]
        order[group] = [*read, *sorted(set(groups[group]) - set(read))]
    matches = [pairs for pairs in _all_pairs(blocks) if not _is_set(pairs)]
    while len(order) < len(groups):
        if not _align(groups, of, order, matches):
            free = min(set(range(len(groups))) - order.keys())
            order[free] = _by_weights(blocks, groups[free])
    return [tuple(order[i]) for i in range(len(groups))]


def _pairs(block: Block, h: int) -> list[tuple[int, int]]:
    """Which dimension of the query matches which of the key."""
    query, key = _numbers(block.query[h]), _numbers(block.key[h])
    return [
        (int(q), int(k))
        for row in range(len(query))
        if (query[row] > 0).any() and (key[row] > 0).any()
        for q in np.nonzero(query[row] > 0)[0]
        for k in np.nonzero(key[row] > 0)[0]
    ]


def _all_pairs(blocks: list[Block]) -> list[list[tuple[int, int]]]:
    return [pairs for block in blocks for h in range(len(block.heads)) if (pairs := _pairs(block, h))]


def _is_set(pairs: list[tuple[int, int]]) -> bool:
    """Whether a query matches several keys, or a key several queries: then its values are sets."""
    return len({q for q, _ in pairs}) < len(pairs) or len({k for _, k in pairs}) < len(pairs)


def _kinds(blocks: list[Block], variables: dict[str, Dims]) -> dict[str, Kind]:
    """Categories, and sets of another variable's values if a head asks for several."""
    kinds: dict[str, Kind] = {name: Categorical(len(dims)) for name, dims in variables.items()}
    for pairs in filter(_is_set, _all_pairs(blocks)):
        query = next(name for name, dims in variables.items() if pairs[0][0] in dims)
        key = next(name for name, dims in variables.items() if pairs[0][1] in dims)
        place = {dim: i for i, dim in enumerate(variables[key])}
        values = tuple(frozenset(place[k] for q, k in pairs if q == dim) for dim in variables[query])
        if len(set(values)) < len(values):
            raise NotExact("a head asks for the same set of values by two different ones")
        kinds[query] = Subset(len(place), values)
    return kinds


def _align(
    groups: list[Dims], of: dict[int, int], order: dict[int, list[int]], matches: list[list[tuple[int, int]]]
) -> bool:
    """Order a group whose partner in a head is ordered."""
    for pairs in matches:
        for turned in (pairs, [(k, q) for q, k in pairs]):
            one, two = of[turned[0][0]], of[turned[0][1]]
            if one in order and two not in order and one != two:
                place = {dim: i for i, dim in enumerate(order[one])}
                wanted = {place[q]: k for q, k in turned}
                rest = [dim for dim in groups[two] if dim not in wanted.values()]
                made = [wanted[i] if i in wanted else rest.pop(0) if rest else -1 for i in range(max(wanted) + 1)]
                if -1 in made:
                    raise NotExact("a head matches values that have no common order")
                order[two] = [*made, *rest]
                return True
    return False


def _by_weights(blocks: list[Block], group: Dims) -> list[int]:
    rows = np.concatenate(
        [_numbers(block.in1)[:, group] for block in blocks] + [_numbers(b.in2)[:, group] for b in blocks]
    )
    if not len(rows):
        return list(group)
    best = max(rows, key=lambda row: len(np.unique(row)))
    return [dim for _, dim in sorted(zip(best.tolist(), group))]


# --- heads --------------------------------------------------------------------------------------------------


def _heads(net: Transformer, blocks: list[Block], variables: dict[str, Dims], unused: set[int]) -> list[FoundHead]:
    found: list[FoundHead] = []
    for number, block in enumerate(blocks):
        alone = _numbers(block.in1)[np.count_nonzero(_numbers(block.in1), axis=1) == 1]
        scalars = set(np.nonzero(alone.any(axis=0))[0].tolist())  # only averages are put into buckets by themselves
        for h in range(len(block.heads)):
            through = _numbers(block.out[h]) @ _numbers(block.value[h])  # (target, source)
            targets = set(np.nonzero((_numbers(block.out[h]) != 0).any(axis=1))[0].tolist())
            for name, dims in variables.items():
                targets -= _copies(found, number, h, name, dims, through, targets, scalars)
            if not all(set(np.nonzero(through[target])[0].tolist()) <= unused for target in targets):
                raise NotExact(f"{net.config.name}: a head writes {len(targets)} dimensions that copy no variable")
    return found


def _copies(
    found: list[FoundHead],
    number: int,
    h: int,
    name: str,
    dims: Dims,
    through: np.ndarray,
    targets: set[int],
    scalars: set[int],
) -> set[int]:
    """The outputs of one head that copy a variable, or average its numbers."""
    used: set[int] = set()
    images = {dim: [t for t in sorted(targets) if through[t, dim]] for dim in dims}
    reading = [t for t in sorted(targets) if through[t, list(dims)].any()]
    averages = {t for t in reading if t in scalars or not set(through[t]) <= {0.0, 1.0}}
    plain = {dim: [t for t in each if t not in averages] for dim, each in images.items()}
    if min(map(len, plain.values())) < max(
        map(len, plain.values())
    ):  # some values have no image, so this is not a copy
        averages, plain = set(reading), {dim: [] for dim in dims}
    for target in sorted(averages):
        found.append(FoundHead(f"h{len(found)}", number, h, (target,), name, True))
    for copy in range(min(map(len, plain.values()))):
        placed = tuple(plain[dim][copy] for dim in dims)
        found.append(FoundHead(f"h{len(found)}", number, h, placed, name, False))
        used |= set(placed)
    return used | averages


# --- the network in order -----------------------------------------------------------------------------------


def _rebuilt(net: Transformer, found: Found) -> Transformer:
    """A network with the same numbers, one head for each output, and dimensions in the order of its own layout."""
    segments, dims, buckets = _segments(net, found)
    layout = Layout(tuple(segments))
    spec = _declared(net, found, buckets)
    shapes = []
    for number, shape in enumerate(net.config.cycle):
        mine = [head for head in found.heads if head.block == number]
        shapes.append(
            BlockShape(
                heads=tuple(head.name for head in mine),
                key_size=shape.key_size,
                value_size=max((len(head.targets) for head in mine), default=0),
                hidden=shape.hidden,
                window=shape.window,
            )
        )
    config: Config = replace(net.config, dim=len(dims), cycle=tuple(shapes), blocks=len(shapes))
    description = {"program": spec.to_json(), "layout": layout.to_json()}
    made = Transformer(config, description, net.dtype)
    with torch.no_grad():
        made.token_embedding.copy_(net.token_embedding[:, dims])
        if net.config.positions is not None:
            made.position_embedding.copy_(net.position_embedding[:, dims])
        made.unembedding.copy_(net.unembedding[:, dims])
        made.halt_weight.copy_(net.halt_weight[dims])
        made.halt_bias.copy_(net.halt_bias)
        for number, block in enumerate(_blocks(net)):
            _copy_block(made.block(number), block, [h for h in found.heads if h.block == number], dims)
    return made


def _copy_block(made: Block, block: Block, heads: list[FoundHead], dims: list[int]) -> None:
    place = {dim: i for i, dim in enumerate(dims)}
    for i, head in enumerate(heads):
        h, size = head.number, len(head.targets)
        made.query[i], made.query_bias[i] = block.query[h][:, dims], block.query_bias[h]
        made.key[i], made.key_bias[i] = block.key[h][:, dims], block.key_bias[h]
        made.relative[i], made.null_score[i] = block.relative[h], block.null_score[h]
        through = (block.out[h] @ block.value[h])[list(head.targets)]
        made.value[i, :size] = through[:, dims]
        made.null_value[i, :size] = (block.out[h] @ block.null_value[h])[list(head.targets)]
        for row, target in enumerate(head.targets):
            made.out[i, place[target], row] = 1
    for name in ("in1", "in2"):
        getattr(made, name).copy_(getattr(block, name)[:, dims])
    for name in ("bias1", "bias2"):
        getattr(made, name).copy_(getattr(block, name))
    for name in ("out1", "out2"):
        getattr(made, name).copy_(getattr(block, name)[dims])


def _segments(net: Transformer, found: Found) -> tuple[list[Segment], list[int], dict[str, list[tuple[Fraction, int]]]]:
    """The layout: variables, heads, scratch values; and for heads that average, their boundaries."""
    segments: list[Segment] = []
    dims: list[int] = []
    buckets: dict[str, list[tuple[Fraction, int]]] = {}

    def add(name: str, places: Sequence[int], coding: str, kind: str, labels: Sequence[str]) -> None:
        segments.append(Segment(name, len(dims), len(places), coding, tuple(labels), 1, kind))
        dims.extend(places)

    for name, places in found.variables.items():
        add(name, places, "one-hot", "variable", [f"{name}={i}" for i in range(len(places))])
    for head in found.heads:
        coding = "scalar" if head.scalar else "one-hot"
        labels = [head.name] if head.scalar else [f"{head.name}={i}" for i in range(len(head.targets))]
        add(head.name, head.targets, coding, "head", labels)
        if head.scalar:
            buckets[head.name] = _boundaries(_blocks(net)[head.block], head.targets[0])
    named = {dim: f"{name}≥{value}" for name, each in buckets.items() for value, dim in _valued(each)}
    for number, dim in enumerate(found.scratch):
        name = named.get(dim, f"s{number}")
        add(name, [dim], "scratch", "scratch", [name])
    return segments, dims, buckets


def _boundaries(block: Block, dim: int) -> list[tuple[Fraction, int]]:
    """The boundaries between the buckets of a head's average, and the scratch value of each."""
    reads, bias, writes = _numbers(block.in1), _numbers(block.bias1), _numbers(block.out1)
    found = []
    for unit in np.nonzero(reads[:, dim])[0]:
        (scratch,) = np.nonzero(writes[:, unit])[0].tolist()
        at = Fraction(1 - 2 * int(bias[unit]), 2) / Fraction(reads[unit, dim])
        found.append((at.limit_denominator(1000), int(scratch)))
    return sorted(found)


def _valued(boundaries: list[tuple[Fraction, int]]) -> list[tuple[Fraction, int]]:
    """A value above each boundary: the weights hold the boundaries between values, not the values."""
    return [(value, dim) for value, (_, dim) in zip(_between(boundaries)[1:], boundaries)]


def _between(boundaries: list[tuple[Fraction, int]]) -> list[Fraction]:
    at = [boundary for boundary, _ in boundaries]
    if not at:
        return [Fraction(0)]
    gap = min([b - a for a, b in pairwise(at)], default=Fraction(1)) / 2
    return [at[0] - gap, *((a + b) / 2 for a, b in pairwise(at)), at[-1] + gap]


def _declared(net: Transformer, found: Found, buckets: dict[str, list[tuple[Fraction, int]]]) -> Spec:
    """Kinds and names; everything else is read from the weights afterwards."""
    kinds = _kinds(_blocks(net), found.variables)
    variables = {name: VariableSpec(name, kinds[name], (0,) * net.config.tokens, None, 0) for name in found.variables}
    heads: dict[str, HeadSpec] = {}
    for head in found.heads:
        kind = kinds[head.source]
        if head.scalar:
            kind = Numerical(tuple(_between(buckets[head.name])))
        heads[head.name] = HeadSpec(head.name, None, None, head.source, None, None, kind)
    cycle = tuple(
        (f"layer {number}", tuple(head.name for head in found.heads if head.block == number))
        for number in range(len(net.config.cycle))
    )
    return Spec(
        name=net.config.name,
        tokens=net.config.tokens,
        positions=net.config.positions,
        variables=variables,
        heads=heads,
        output=next(iter(variables)),
        halt={},
        layers=net.config.layers,
        causal=net.config.causal,
        stop=net.config.stop,
        max_tokens=net.config.max_tokens,
        cycle=cycle if len(cycle) > 1 else (),
    )
