"""The kernels that evaluators of sparse weights share: what a row holds, one half of the MLP block, the output."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from kleene.networks.transformer.model import Transformer
from kleene.networks.transformer.sparse_weights import BY_WORD, Array


class Reading(NamedTuple):
    """How the output is read: the unembedding without its zeros."""

    pointers: Array  # class → its first entry
    dims: Array
    weights: Array
    bits: bool  # a word, of which a class is a bit


def reading(net: Transformer, kind: Any) -> Reading:
    weights = net.unembedding.detach().cpu().numpy().astype(kind)
    classes, dims = np.nonzero(weights)
    pointers = np.searchsorted(classes, np.arange(len(weights) + 1))
    return Reading(pointers, dims, weights[classes, dims], net.config.output_coding == "bits")


@njit(cache=True, nogil=True, inline="always")
def read_output(row, reading):  # type: ignore[no-untyped-def]
    """The output at one position, as a whole number."""
    best, largest, word = 0, -np.inf, 0
    for k in range(len(reading.pointers) - 1):
        total = 0.0
        for e in range(reading.pointers[k], reading.pointers[k + 1]):
            total += reading.weights[e] * row[reading.dims[e]]
        if total > largest:
            best, largest = k, total
        if reading.bits and total > 0.5:
            word |= 1 << k
    return word if reading.bits else best


@njit(cache=True, nogil=True)
def code(x: Array, row: int, start: int, size: int, mode: int) -> int:
    """The value that a segment holds: the place of its one, or its bits; −1 where it holds anything else."""
    found = -1
    if mode == BY_WORD:
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
def half(x, row, flat, sums, mark, touched, changes, dims):  # type: ignore[no-untyped-def]
    """One half of the MLP block at one position: only the units that read something or are always on."""
    read_ptr, units, read_weights, bias, write_ptr, targets, write_weights, always = flat
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


@njit(cache=True, nogil=True, inline="always")
def place_of(offset, reach):  # type: ignore[no-untyped-def]
    """The place of an offset in `allowed`; the ends stand for all offsets further away."""
    return min(max(offset, -reach), reach) + reach
