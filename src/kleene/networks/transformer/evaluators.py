"""A transformer in the middle of a run on one input: go on, stop, look at the residual stream, change a row.

One set of weights, four evaluators, which are tested equal in every residual:

- dense: softmax over all tokens, for every row;
- rows: softmax over all tokens, for the rows that can change (see changing.py);
- lookup: attention as exact lookup, units without their zeros;
- generated: code that is made from the weights that are not zero (see generated.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from kleene.errors import NotSupported, RangeError
from kleene.networks.formats import check_transformer
from kleene.networks.transformer.active_rows import Array, Changing, Lookup, changing, codes, index
from kleene.networks.transformer.model import Block, Transformer

EVALUATORS = ("dense", "rows", "lookup", "generated")
HALTED, WATCHED, PAUSED = "halted", "watched", "paused"


@dataclass(frozen=True)
class Watch:
    """Stop after a layer of this place in the cycle if a dimension of a row is 1."""

    place: int
    row: int
    dim: int


def start(net: Transformer, tokens: Sequence[int], evaluator: str = "dense") -> Running:
    """Begin a run; nothing is computed yet."""
    makers: dict[str, type[Running]] = {"dense": Dense, "rows": Rows, "lookup": Lookups}
    if evaluator == "generated":
        from kleene.networks.transformer.generated import Generated

        makers["generated"] = Generated
    if evaluator not in makers:
        raise NotSupported(f"there is no evaluator {evaluator!r} that can pause; there are {', '.join(EVALUATORS)}")
    check_transformer(net)
    return makers[evaluator](net, net.check_input(tokens))


class Running:
    """A run on one input. `layers` counts those that were run."""

    evaluator: str

    def __init__(self, net: Transformer, tokens: list[int]) -> None:
        self.net, self.layers, self.halted = net, 0, False
        self.begin(net.embed(torch.tensor([tokens], device=net.device))[0])

    def begin(self, x: Tensor) -> None:
        raise NotImplementedError

    def run(self, layers: int, watch: Watch | None = None) -> str:
        """Run up to so many layers more: "halted", "watched" or "paused"."""
        raise NotImplementedError

    def residual(self) -> Tensor:
        """The residual stream, (position, dim), on the CPU in float32."""
        raise NotImplementedError

    def row(self, position: int) -> Array:
        """One row of it."""
        raise NotImplementedError

    def words(self, dims: tuple[int, ...]) -> Array:
        """The whole numbers that some dimensions hold in binary, for every row."""
        return codes(self.residual().numpy(), dims)

    def put(self, position: int, start: int, values: Sequence[int]) -> None:
        """Write into a row, from a dimension on: how the world outside changes a run."""
        raise NotImplementedError

    def outputs(self) -> list[int]:
        """The output at every position."""
        return self.net.read(self.residual().to(self.net.dtype).to(self.net.device)).tolist()


class Dense(Running):
    """Softmax over all tokens, for every row."""

    evaluator = "dense"

    def begin(self, x: Tensor) -> None:
        self.x = x[None].clone()
        self.mask = torch.ones(1, len(x), dtype=torch.bool, device=x.device)

    @torch.no_grad()
    def run(self, layers: int, watch: Watch | None = None) -> str:
        for _ in range(layers):
            if self.halted:
                break
            place = self.layers % len(self.net.blocks)
            self.layer(self.net.block(self.layers))
            self.layers += 1
            self.halted = self.done()
            if not self.halted and _sees(watch, place, self.row):
                return WATCHED
        return HALTED if self.halted else PAUSED

    def layer(self, block: Block) -> None:
        self.x = block(self.x, self.mask)

    def done(self) -> bool:
        return self.net.config.halts and bool(self.net.done(self.x, self.mask).all())

    def residual(self) -> Tensor:
        return self.x[0].float().cpu().clone()

    def row(self, position: int) -> Array:
        return self.x[0, position].float().cpu().numpy()

    def put(self, position: int, start: int, values: Sequence[int]) -> None:
        self.x[0, position, start : start + len(values)] = torch.tensor(values, dtype=self.x.dtype)


def _sees(watch: Watch | None, place: int, row: Any) -> bool:
    return watch is not None and watch.place == place and row(watch.row)[watch.dim] == 1


class Rows(Dense):
    """Softmax over all tokens, for the rows that can change. Keys that never change are made once."""

    evaluator = "rows"

    def begin(self, x: Tensor) -> None:
        super().begin(x)
        self.known = changing(self.net, x)
        self.sides: dict[tuple[int, int], Tensor] = {}
        for b, lookups in enumerate(self.known.blocks):
            block = self.net.block(b)
            for head in lookups:
                still = "key" if head.looking is not None else "query"
                weight, bias = getattr(block, still)[head.number], getattr(block, f"{still}_bias")[head.number]
                self.sides[b, head.number] = x @ weight.T + bias

    def layer(self, block: Block) -> None:
        b = self.layers % len(self.net.blocks)
        x, rows = self.x[0], list(self.known.working)
        for head in self.known.blocks[b]:
            if head.looking is None:  # the rows that see the one that can be seen
                key = x[head.seen] @ block.key[head.number].T + block.key_bias[head.number]
                scores = self.sides[b, head.number] @ key
                rows += torch.nonzero(scores > block.null_score[head.number]).flatten().tolist()
        rows = sorted(set(rows))
        after = x[rows].clone()
        for head in self.known.blocks[b]:
            after += self._attend(block, b, head, x, rows)
        self.x[0, rows] = block.second_half(block.first_half(after))

    def _attend(self, block: Block, b: int, head: Lookup, x: Tensor, rows: list[int]) -> Tensor:
        """What one head adds to some rows: its softmax over all tokens and the null key."""
        h = head.number
        queries = x[rows] @ block.query[h].T + block.query_bias[h]
        used = block.key[h].any(dim=0)  # most dimensions are in no key
        changes = head.looking is None
        keys = x[:, used] @ block.key[h][:, used].T + block.key_bias[h] if changes else self.sides[b, h]
        offsets = torch.arange(len(x), device=x.device)[None] - torch.tensor(rows, device=x.device)[:, None]
        reach = block.window + 1
        scores = queries @ keys.T + block.relative[h][offsets.clamp(-reach, reach) + reach]
        scores = torch.cat([scores, block.null_score[h].expand(len(rows), 1)], dim=1)
        weights = torch.exp(scores - scores.amax(dim=1, keepdim=True))
        read = block.value[h].any(dim=0)
        mixed = (weights[:, :-1] @ x[:, read]) / weights.sum(dim=1, keepdim=True)
        return mixed @ block.value[h][:, read].T @ block.out[h].T

    def done(self) -> bool:
        x = self.x[0, list(self.known.working)]
        working = bool((x @ self.net.halt_weight + self.net.halt_bias > 0).all())
        return self.net.config.halts and self.known.resting_done and working


class WholeNumbers(Running):
    """A run on whole numbers, which the residual stream of an exact network holds. Weights that are none, and rows that
    hold anything but zeros and ones after a layer, are refused: dense runs them."""

    def begin(self, x: Tensor) -> None:
        self.known: Changing = changing(self.net, x)
        check_whole(self.net, self.known)
        start = x.double().cpu().numpy()
        self.x: Array = np.ascontiguousarray(start.astype(np.int8))
        if not (self.x == start).all():
            raise NotSupported(f"{self.net.config.name}: its residual stream has more than whole numbers; use 'dense'")
        self.tables: list[Array] = []  # one for each different set of dimensions that is looked up
        self.table_of: dict[tuple[int, ...], int] = {}
        for lookups in self.known.blocks:
            for head in lookups:
                dims = head.key if head.looking is not None else head.query
                if dims and dims not in self.table_of:
                    self.table_of[dims] = len(self.tables)
                    self.tables.append(index(self.net, self.x, dims))

    def residual(self) -> Tensor:
        return torch.from_numpy(self.x.astype(np.float32))

    def row(self, position: int) -> Array:
        row: Array = self.x[position]
        return row

    def words(self, dims: tuple[int, ...]) -> Array:
        return codes(self.x, dims)

    def put(self, position: int, start: int, values: Sequence[int]) -> None:
        self.x[position, start : start + len(values)] = values

    def check_broken(self, broken: int) -> None:
        """Stop where a run leaves what is known to be exact: the interpreter raises there, or did before."""
        where = f"{self.net.config.name}: in layer {self.layers + 1:,}"
        if broken in (1, 3):
            kind = "at rest" if broken == 1 else "that works"
            raise NotSupported(f"{where} a row {kind} holds something else than zeros and ones; use 'dense'")
        if broken:
            raise RangeError(f"{where} a head looks for a word that no row has")


def check_whole(net: Transformer, known: Changing) -> None:
    """Refuse weights that are no whole numbers, and sums that a byte cannot hold."""
    for number, (block, lookups) in enumerate(zip(net.blocks, known.blocks)):
        assert isinstance(block, Block)
        parts = {name: getattr(block, name).double() for name in ("in1", "bias1", "out1", "in2", "bias2", "out2")}
        parts |= {f"head {block.heads[head.number]!r}": torch.tensor(head.copies.weights) for head in lookups}
        parts |= {"halt_weight": net.halt_weight.double(), "halt_bias": net.halt_bias.double()}
        for name, weights in parts.items():
            if not bool((weights == weights.round()).all()) or bool((weights.abs() >= 2**31).any()):
                raise NotSupported(
                    f"{net.config.name}: {name} of block {number} has weights that are no whole numbers; use 'dense'"
                )
        reach = 1 + parts["out1"].abs().sum(dim=1).cpu() + parts["out2"].abs().sum(dim=1).cpu()
        for head in lookups:
            reach.index_add_(0, torch.tensor(head.copies.targets), torch.tensor(head.copies.weights).abs().double())
        if float(reach.max()) > 127:
            raise NotSupported(f"{net.config.name}: block {number} can write more than a byte holds; use 'dense'")


class Lookups(WholeNumbers):
    """Attention as exact lookup, units without their zeros, for the rows that can change."""

    evaluator = "lookup"

    def begin(self, x: Tensor) -> None:
        super().begin(x)
        self.working = np.array(self.known.working)
        self.table = np.stack([np.resize(t, max(map(len, self.tables))) for t in self.tables])
        self.heads, self.units = self._flat_heads(), self._flat_units()
        written = [written_dims(block, lookups) for block, lookups in zip(self.net.blocks, self.known.blocks)]
        starts = np.cumsum([0, *map(len, written)]).astype(np.int32)
        self.looked_at = (starts, np.array([dim for dims in written for dim in dims], dtype=np.int32))
        weight = self.net.halt_weight.cpu().numpy().astype(np.int64)
        can_halt = self.net.config.halts and self.known.resting_done
        dims = np.nonzero(weight)[0][: len(weight) if can_halt else 0]
        self.halt = (dims, weight[dims], int(self.net.halt_bias))

    def _flat_heads(self) -> tuple[Array, ...]:
        """The heads of all blocks in flat arrays: Numba is quick with these, and slow with tuples of arrays."""
        heads: list[Any] = []
        looking: list[int] = []
        dims: list[int] = []
        copies: list[Any] = []
        written: list[int] = []
        starts = [(0, 0)]
        for lookups in self.known.blocks:
            for head in lookups:
                asked = head.query if head.looking is not None else head.key
                looked = head.key if head.looking is not None else head.query
                rows = head.looking if head.looking is not None else (head.seen or 0,)
                heads.append(
                    (
                        self.table_of[looked] if looked else -1,
                        head.looking is None,
                        len(looking),
                        len(rows),
                        len(dims),
                        len(asked),
                        len(copies),
                        len(copies) + len(head.copies.sources),
                    )
                )
                looking += rows
                dims += asked
                copies += list(zip(head.copies.sources, head.copies.targets, head.copies.weights))
            written += sorted({int(t) for head in lookups for t in head.copies.targets})
            starts.append((len(heads), len(written)))
        return tuple(np.array(part, dtype=np.int32) for part in (starts, heads, looking, dims, copies, written))

    def _flat_units(self) -> tuple[Array, ...]:
        """The units of both halves of all blocks: for each what it reads and writes, without the zeros."""
        bias: list[int] = []
        lists: list[list[Any]] = [[0], [], [], [0], [], []]  # reads: starts, dims, weights; writes: the same
        starts = [0]
        for b in range(len(self.known.blocks)):
            block = self.net.block(b)
            for into, add, out in ((block.in1, block.bias1, block.out1), (block.in2, block.bias2, block.out2)):
                bias += add.int().tolist()
                for part, matrix in enumerate((into, out.T)):
                    for row in matrix.cpu().numpy():
                        used = np.nonzero(row)[0]
                        lists[3 * part + 1] += used.tolist()
                        lists[3 * part + 2] += row[used].tolist()
                        lists[3 * part].append(len(lists[3 * part + 1]))
                starts.append(len(bias))
        kinds: list[Any] = [np.int32] * 8
        kinds[3] = kinds[6] = np.uint32  # places that are never negative are found without looking at the sign
        return tuple(np.array(part, dtype=kind) for part, kind in zip((starts, bias, *lists), kinds))

    def run(self, layers: int, watch: Watch | None = None) -> str:
        if self.halted:
            return HALTED
        place = watch.place if watch else -1
        row, dim = (watch.row, watch.dim) if watch else (0, 0)
        count = len(self.known.blocks)
        weights = (self.table, *self.heads, *self.units, *self.looked_at)
        done, reason, broken = _run(
            self.x, self.working, *weights, count, layers, self.layers % count, place, row, dim, *self.halt
        )  # type: ignore[call-arg]
        self.layers += done
        self.check_broken(broken)
        self.halted = reason == 1
        return (PAUSED, HALTED, WATCHED)[reason]


def written_dims(block: Any, lookups: Sequence[Lookup]) -> list[int]:
    """The dimensions that the units and heads of a block write."""
    by_units = (block.out1 != 0).any(dim=1) | (block.out2 != 0).any(dim=1)
    by_heads = {int(target) for head in lookups for target in head.copies.targets}
    return sorted(by_heads | set(torch.nonzero(by_units).flatten().tolist()))


@njit(cache=True, nogil=True)
def _word(x, row, dims, begin, count):  # type: ignore[no-untyped-def]
    word = np.int64(0)
    for k in range(count):
        word |= np.int64(x[row, dims[begin + k]]) << k
    return word


@njit(cache=True, nogil=True)
def _run(  # type: ignore[no-untyped-def]
    x,
    working,
    table,
    head_starts,
    heads,
    looking,
    dims,
    copies,
    written,
    unit_starts,
    bias,
    read_ptr,
    read_dims,
    read_weights,
    write_ptr,
    write_dims,
    write_weights,
    check_starts,
    check_dims,
    blocks,
    layers,
    place,
    watch_place,
    watch_row,
    watch_dim,
    halt_dims,
    halt_weights,
    halt_bias,
):
    """The number of layers run; why it stopped (0 enough, 1 halted, 2 watched); and what broke."""
    added = np.zeros((len(working), x.shape[1]), dtype=np.int32)
    hits = np.zeros((64, 4), dtype=np.int64)
    on = np.zeros(len(bias), dtype=np.int32)
    for layer in range(layers):
        # heads: what they add to working rows is kept until all have read; to rows at rest it is added then, too
        first, last = head_starts[place, 1], head_starts[place + 1, 1]
        for w in range(len(working)):
            for k in range(first, last):
                added[w, written[k]] = 0
        count = 0
        for h in range(head_starts[place, 0], head_starts[place + 1, 0]):
            which, inverse, a, b = heads[h, 0], heads[h, 1], heads[h, 6], heads[h, 7]
            for r in range(heads[h, 2], heads[h, 2] + heads[h, 3]):
                here = looking[r]
                there = here if which < 0 else table[which, _word(x, here, dims, heads[h, 4], heads[h, 5])]
                if there < 0:
                    if inverse:
                        continue
                    return layer, 0, 2
                target, source = (there, here) if inverse else (here, there)
                w = np.searchsorted(working, target)
                if w < len(working) and working[w] == target:
                    for k in range(a, b):
                        added[w, copies[k, 1]] += copies[k, 2] * x[source, copies[k, 0]]
                else:
                    hits[count, 0], hits[count, 1], hits[count, 2], hits[count, 3] = target, source, a, b
                    count += 1
        for n in range(count):
            target, source = hits[n, 0], hits[n, 1]
            for k in range(hits[n, 2], hits[n, 3]):
                x[target, copies[k, 1]] += copies[k, 2] * x[source, copies[k, 0]]
            for k in range(hits[n, 2], hits[n, 3]):
                if not 0 <= x[target, copies[k, 1]] <= 1:
                    return layer, 0, 1
        # units
        for w in range(len(working)):
            row = x[working[w]]
            for k in range(first, last):
                row[written[k]] += added[w, written[k]]
            for half in range(2 * place, 2 * place + 2):
                for u in range(unit_starts[half], unit_starts[half + 1]):
                    total = bias[u]
                    for k in range(read_ptr[u], read_ptr[u + 1]):
                        total += read_weights[k] * row[read_dims[k]]
                    on[u] = min(max(total, 0), 1)
                for u in range(unit_starts[half], unit_starts[half + 1]):
                    if on[u]:
                        for k in range(write_ptr[u], write_ptr[u + 1]):
                            row[write_dims[k]] += write_weights[k]
            held = 0
            for k in range(check_starts[place], check_starts[place + 1]):
                held |= row[check_dims[k]]
            if held & -2:
                return layer, 0, 3
        if len(halt_dims):
            done = True
            for w in range(len(working)):
                total = halt_bias
                for k in range(len(halt_dims)):
                    total += halt_weights[k] * x[working[w], halt_dims[k]]
                done &= total > 0
            if done:
                return layer + 1, 1, 0
        if place == watch_place and x[watch_row, watch_dim] == 1:
            return layer + 1, 2, 0
        place = (place + 1) % blocks
    return layers, 0, 0
