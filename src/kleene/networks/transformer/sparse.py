"""The sparse evaluator of a transformer on a CPU: the same weights, without their zeros.

Relative heads are shifts, other heads exact lookups: a head whose scores are a match, a null key and a
mismatch at least 745 apart is a hard selection, since exp underflows. What is not of that shape is refused
here (`NotSparse`), and the dense evaluator is used instead. Ours rather than a sparse-matrix library's,
because almost every activation is zero as well: work is done only for what is on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numba import njit

from kleene.common.output import Output
from kleene.errors import DidNotHalt
from kleene.networks.transformer.model import Block, Transformer

Array = np.ndarray[Any, Any]
UNDERFLOW = 745.2  # exp(−745.2) is zero in float64
ROWS_AT_ONCE = 200_000


class NotSparse(Exception):
    """The weights are not of the shape that this evaluator runs."""


class SparseTransformer:
    """Weights prepared for the sparse evaluator."""

    def __init__(self, net: Transformer) -> None:
        if net.dtype not in (torch.float32, torch.float64):
            raise NotSparse(f"{net.dtype} runs dense")
        self.net, self.config = net, net.config
        self.kind = np.float32 if net.dtype == torch.float32 else np.float64
        self.token_embedding = self._numpy(net.token_embedding)
        self.position_embedding = None if net.config.positions is None else self._numpy(net.position_embedding)
        self.halt_weight, self.halt_bias = self._numpy(net.halt_weight), self._numpy(net.halt_bias)
        self.blocks = [self._block(block) for block in net.blocks if isinstance(block, Block)]

    def _numpy(self, tensor: torch.Tensor) -> Array:
        return np.ascontiguousarray(tensor.detach().cpu().numpy().astype(self.kind))

    def _block(self, block: Block) -> tuple[Any, ...]:
        segments = [(segment.start, segment.stop) for segment in self.net.layout]
        heads = _heads(block, segments, self.config.causal, self.kind)
        first = _columns(self._numpy(block.in1), self._numpy(block.bias1), self._numpy(block.out1))
        second = _columns(self._numpy(block.in2), self._numpy(block.bias2), self._numpy(block.out2))
        # arrays of one kind, so that the kernels are compiled once
        return tuple(np.ascontiguousarray(part) for part in (*heads, *first, *second))

    def run_batch(self, inputs: Sequence[Sequence[int]], fixed: int | None, max_layers: int) -> list[Output]:
        """Outputs for many inputs; a group of sequences at a time, each until it halts."""
        results: list[Output] = []
        group: list[Sequence[int]] = []
        size = 0
        for tokens in inputs:
            if group and (size + len(tokens)) * self.config.dim > ROWS_AT_ONCE * 100:
                results += self._run(group, fixed, max_layers)
                group, size = [], 0
            group.append(tokens)
            size += len(tokens)
        return results + self._run(group, fixed, max_layers)

    def _run(self, inputs: list[Sequence[int]], fixed: int | None, max_layers: int) -> list[Output]:
        lengths = np.array([len(tokens) for tokens in inputs])
        ends = np.cumsum(lengths)
        starts = ends - lengths
        x = self.token_embedding[np.concatenate([np.asarray(tokens) for tokens in inputs])]
        if self.position_embedding is not None:
            x = x + self.position_embedding[np.concatenate([np.arange(n) for n in lengths])]
        x = np.ascontiguousarray(x)
        limit = max_layers if fixed is None else fixed
        layers = np.zeros(len(inputs), dtype=np.int64)
        if len(self.blocks) == 1:
            left = self._layers(x, starts, lengths, limit, fixed is None, layers, self.blocks[0])
        else:  # one block a layer: a layer at a time
            left = np.arange(len(inputs))
            for layer in range(limit):
                taken = np.zeros(len(left), dtype=np.int64)
                block = self.blocks[layer % len(self.blocks)]
                going = self._layers(x, starts[left], lengths[left], 1, fixed is None, taken, block)
                layers[left] += taken
                left = left[going] if fixed is None else left
                if not len(left):
                    break
        if fixed is None and len(left):
            raise DidNotHalt(f"{self.config.name}: did not halt within {max_layers:,} layers (max_layers)")
        values = self.net.read(torch.from_numpy(x).to(self.net.dtype)).tolist()
        return [Output(values[a:b], layers=int(k)) for a, b, k in zip(starts, ends, layers)]

    def _layers(
        self, x: Array, starts: Array, lengths: Array, limit: int, halts: bool, layers: Array, block: tuple[Any, ...]
    ) -> Array:
        """Run one block; which sequences have not halted."""
        going = np.zeros(len(starts), dtype=np.bool_)
        one_hot = _run_sequences(
            x, starts, lengths, limit, halts, self.halt_weight, self.halt_bias[0], layers, going, block
        )
        if not one_hot:
            raise NotSparse("a state that is not one-hot")
        return np.nonzero(going)[0]


# --- weights into arrays ----------------------------------------------------------------------------------


def _columns(into: Array, bias: Array, out: Array) -> tuple[Array, ...]:
    """One half of the MLP block: by dimension, the units that read it; by unit, the dimensions it writes;
    and the units that are on whatever is read."""
    dims, units = np.nonzero(into.T)
    read_ptr = np.searchsorted(dims, np.arange(into.shape[1] + 1))
    writers, targets = np.nonzero(out.T)
    write_ptr = np.searchsorted(writers, np.arange(out.shape[1] + 1))
    always = np.nonzero(bias > 0)[0]
    return (
        read_ptr,
        units,
        into[units, dims],
        bias,
        write_ptr,
        targets,
        out[targets, writers],
        always,
    )


def _heads(block: Block, segments: list[tuple[int, int]], causal: bool, kind: Any) -> tuple[Array, ...]:
    """All heads: segments of query and key, members of each query value, offsets, what is copied where."""
    tensors = {
        name: getattr(block, name).detach().cpu().double().numpy()
        for name in ("query", "query_bias", "key", "key_bias", "value", "out", "relative", "null_score", "null_value")
    }
    count = tensors["query"].shape[0]
    table = np.zeros((count, 6), dtype=np.int64)  # mode, query start, size, key start, size, offset if there is one
    allowed = np.zeros((count, tensors["relative"].shape[1]), dtype=np.bool_)
    member_ptr: list[Array] = [np.zeros(1, dtype=np.int64)]
    members: list[int] = []
    copies: list[tuple[int, int, float]] = []
    nulls: list[tuple[int, float]] = []
    bases, copy_ptr, null_ptr = [], [0], [0]
    written: set[int] = set()
    read: set[int] = set()
    for h in range(count):
        one = {name: tensor[h] for name, tensor in tensors.items()}
        mode, table[h, 1:5], ok, chosen = _selection(one, segments)
        table[h, 0] = mode
        allowed[h] = ok
        table[h, 5] = (
            int(np.nonzero(ok)[0][0]) - block.window - 1
            if ok.sum() == 1 and 0 < np.argmax(ok) < len(ok) - 1
            else 1 << 40
        )
        bases.append(sum(len(part) for part in member_ptr) - 1)
        offset = len(members)
        lengths = [len(part) for part in chosen]
        member_ptr.append(offset + np.cumsum(lengths, dtype=np.int64) if lengths else np.zeros(0, dtype=np.int64))
        for part in chosen:
            members += part
        through = one["out"] @ one["value"]
        for target, source in np.argwhere(through):
            copies.append((source, target, through[target, source]))
            written.add(int(target))
            read.add(int(source))
        copy_ptr.append(len(copies))
        null = one["out"] @ one["null_value"]
        nulls += [(int(target), float(null[target])) for target in np.nonzero(null)[0]]
        null_ptr.append(len(nulls))
        read |= {*range(table[h, 1], table[h, 1] + table[h, 2]), *range(table[h, 3], table[h, 3] + table[h, 4])}
    if written & read:
        raise NotSparse("a head reads what a head writes")
    return (
        table,
        allowed,
        np.array([block.window, int(causal)]),
        np.concatenate(member_ptr),
        np.array(bases, dtype=np.int64),
        np.array(members, dtype=np.int64),
        np.array(copy_ptr),
        np.array([c[0] for c in copies], dtype=np.int64),
        np.array([c[1] for c in copies], dtype=np.int64),
        np.array([c[2] for c in copies], dtype=kind),
        np.array(null_ptr),
        np.array([n[0] for n in nulls], dtype=np.int64),
        np.array([n[1] for n in nulls], dtype=kind),
    )


def _selection(one: dict[str, Array], segments: list[tuple[int, int]]) -> tuple[int, list[int], Array, list[list[int]]]:
    """How one head selects: 0 by offset alone, 1 by a one-hot key, 2 by the bits of a word."""
    null, relative = float(one["null_score"]), one["relative"]
    if not one["query"].any() or not one["key"].any():
        on, off = relative > null + UNDERFLOW, relative < null - UNDERFLOW
        if one["query_bias"].any() or not (on | off).all():
            raise NotSparse("a relative head that is not hard")
        return 0, [0, 0, 0, 0], on, []
    (q0, q1), (k0, k1) = (_segment(one[name], segments) for name in ("query", "key"))
    if one["key_bias"].any() or one["query_bias"].any():
        selection: tuple[int, list[int], Array, list[list[int]]] = _word_selection(one, q0, q1, k0, k1, null)
        return selection
    key = one["key"][:, k0:k1]
    if key.shape[0] < k1 - k0 or not (key[: k1 - k0] == np.eye(k1 - k0)).all() or key[k1 - k0 :].any():
        raise NotSparse("a key that is not one-hot")
    scores = one["query"][: k1 - k0, q0:q1].T  # (query value, key value)
    best, worst = float(relative.max()), float(relative.min())
    match = scores + best > null + UNDERFLOW
    ok = relative == best
    if not (match | (scores + best < null - UNDERFLOW)).all() or (
        worst < best and (scores + relative[~ok].max() > null - UNDERFLOW).any()
    ):
        raise NotSparse("a head that is not hard")
    return 1, [q0, q1 - q0, k0, k1 - k0], ok, [np.nonzero(row)[0].tolist() for row in match]


def _segment(weights: Array, segments: list[tuple[int, int]]) -> tuple[int, int]:
    """The segment that a projection reads, whole: a query that asks for nothing has a column of zeros."""
    dims = np.nonzero(weights.any(axis=0))[0]
    for start, stop in segments:
        if start <= dims[0] and dims[-1] < stop:
            return start, stop
    raise NotSparse("a head that reads several variables at once")


def _word_selection(one: dict[str, Array], q0: int, q1: int, k0: int, k1: int, null: float) -> Any:
    bits = q1 - q0
    scale = one["query"][0, q0] / 2
    shape = (np.eye(bits) * 2 * scale, np.eye(bits) * 2)
    fits = (
        k1 - k0 == bits
        and (one["query"][:bits, q0:q1] == shape[0]).all()
        and (one["key"][:bits, k0:k1] == shape[1]).all()
    )
    fits = fits and (one["query_bias"][:bits] == -scale).all() and (one["key_bias"][:bits] == -1).all()
    relative = one["relative"]
    ok = relative == relative.max()
    if not fits or relative.max() != 0 or scale * bits - null < UNDERFLOW or null - scale * (bits - 2) < UNDERFLOW:
        raise NotSparse("a word head that is not hard")
    if not ok.all() and scale * bits + relative[~ok].max() > null - UNDERFLOW:
        raise NotSparse("a word head that is not hard")
    return 2, [q0, bits, k0, bits], ok, []


# --- running ----------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _code(x: Array, row: int, start: int, size: int, mode: int) -> int:
    """The value that a segment holds: the place of its one, or its bits; −1 where it holds anything else."""
    found = -1
    if mode == 2:
        found = 0
        for k in range(size):
            if x[row, start + k] == 1:
                found |= 1 << k
            elif x[row, start + k] != 0:
                return -1
        return found
    for k in range(size):
        value = x[row, start + k]
        if value != 0:
            if value != 1 or found >= 0:
                return -1
            found = k
    return found


@njit(cache=True, nogil=True)
def _attend(x, begin, n, block, codes, order, first_of):  # type: ignore[no-untyped-def]
    """Add every head's output at every position of one sequence; false where a state is not one-hot."""
    table, allowed, shape, member_ptr, bases, members = block[:6]
    copy_ptr, sources, targets, weights, null_ptr, null_targets, null_weights = block[6:13]
    window, causal = shape[0], shape[1] == 1
    for h in range(table.shape[0]):
        mode, q0, qn, k0, kn, single = table[h]
        if mode != 0:  # chain the positions that have the same key
            for j in range(n):
                codes[j] = _code(x, begin + j, k0, kn, mode)
                if codes[j] < 0:
                    return False
            if mode == 1:
                first_of[:kn] = -1
                for j in range(n - 1, -1, -1):
                    order[j] = first_of[codes[j]]
                    first_of[codes[j]] = j
        for i in range(n):
            count = 0
            a, b = copy_ptr[h], copy_ptr[h + 1]
            if mode == 0:
                if single < (1 << 40):
                    j = i + single
                    if 0 <= j < n and not (causal and j > i):
                        count = _copy(x, begin + i, begin + j, a, b, sources, targets, weights, count)
                else:
                    for j in range(i + 1 if causal else n):
                        if allowed[h, min(max(j - i, -window - 1), window + 1) + window + 1]:
                            count = _copy(x, begin + i, begin + j, a, b, sources, targets, weights, count)
            else:
                query = _code(x, begin + i, q0, qn, mode)
                if query < 0:
                    return False
                if mode == 1:
                    for m in range(member_ptr[bases[h] + query], member_ptr[bases[h] + query + 1]):
                        j = first_of[members[m]]
                        while j >= 0:
                            if (
                                not (causal and j > i)
                                and allowed[h, min(max(j - i, -window - 1), window + 1) + window + 1]
                            ):
                                count = _copy(x, begin + i, begin + j, a, b, sources, targets, weights, count)
                            j = order[j]
                else:
                    for j in range(i + 1 if causal else n):
                        if codes[j] == query and allowed[h, min(max(j - i, -window - 1), window + 1) + window + 1]:
                            count = _copy(x, begin + i, begin + j, a, b, sources, targets, weights, count)
            if count == 0:
                for k in range(null_ptr[h], null_ptr[h + 1]):
                    x[begin + i, null_targets[k]] += null_weights[k]
            elif count > 1:
                for k in range(a, b):  # the sum of whole numbers, divided once
                    if k == a or targets[k] != targets[k - 1]:
                        x[begin + i, targets[k]] /= count
    return True


@njit(cache=True, nogil=True)
def _copy(x, to, source, a, b, sources, targets, weights, count):  # type: ignore[no-untyped-def]
    for k in range(a, b):
        value = x[source, sources[k]]
        if value != 0:
            x[to, targets[k]] += value * weights[k]
    return count + 1


@njit(cache=True, nogil=True)
def _half(x, row, block, sums, mark, touched, changes, dims):  # type: ignore[no-untyped-def]
    """One half of the MLP block at one position: only the units that something touches."""
    read_ptr, units, read_weights, bias, write_ptr, targets, write_weights, always = block
    count = 0
    for dim in range(x.shape[1]):
        value = x[row, dim]
        if value != 0:
            for k in range(read_ptr[dim], read_ptr[dim + 1]):
                unit = units[k]
                if not mark[unit]:
                    mark[unit] = True
                    sums[unit] = 0
                    touched[count] = unit
                    count += 1
                sums[unit] += read_weights[k] * value
    for k in range(len(always)):
        unit = always[k]
        if not mark[unit]:
            mark[unit] = True
            sums[unit] = 0
            touched[count] = unit
            count += 1
    moved = 0
    for t in range(count):
        unit = touched[t]
        mark[unit] = False
        on = min(max(sums[unit] + bias[unit], 0), 1)
        if on != 0:
            for k in range(write_ptr[unit], write_ptr[unit + 1]):
                dim = targets[k]
                if changes[dim] == 0:
                    dims[moved] = dim
                    moved += 1
                changes[dim] += write_weights[k] * on
    for t in range(moved):
        x[row, dims[t]] += changes[dims[t]]
        changes[dims[t]] = 0


@njit(cache=True, nogil=True)
def _run_sequences(x, starts, lengths, limit, halts, halt_weight, halt_bias, layers, going, block):  # type: ignore[no-untyped-def]
    """Run each sequence by itself until it halts; `going` are those that do not. False where a state is not one-hot."""
    first, second = block[13:21], block[21:29]
    width = max(len(first[3]), len(second[3])) + 1
    sums, changes = np.zeros(width, dtype=x.dtype), np.zeros(x.shape[1], dtype=x.dtype)
    mark, touched = np.zeros(width, dtype=np.bool_), np.zeros(width, dtype=np.int64)
    dims = np.zeros(max(len(first[5]), len(second[5])) + 1, dtype=np.int64)
    longest = 1
    for n in lengths:
        longest = max(longest, n)
    codes, order = np.zeros(longest, dtype=np.int64), np.zeros(longest, dtype=np.int64)
    first_of = np.zeros(x.shape[1] + 1, dtype=np.int64)
    halt_dims = np.nonzero(halt_weight)[0]
    for s in range(len(starts)):
        begin, n = starts[s], lengths[s]
        layer, finished = 0, False
        while not finished:
            if layer >= limit:
                going[s] = halts
                break
            if not _attend(x, begin, n, block, codes, order, first_of):
                return False
            for row in range(begin, begin + n):
                if len(first[3]) > 0:
                    _half(x, row, first, sums, mark, touched, changes, dims)
                _half(x, row, second, sums, mark, touched, changes, dims)
            layer += 1
            if halts:
                finished = True
                for row in range(begin, begin + n):
                    total = halt_bias
                    for dim in halt_dims:
                        total += halt_weight[dim] * x[row, dim]
                    if not total > 0:
                        finished = False
                        break
        layers[s] = layer
    return True
