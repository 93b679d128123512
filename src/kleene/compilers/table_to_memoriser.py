"""Instruction tables into four-layer ReLU networks: Theorem 1 of the Synthesizer paper, and a smaller way.

Both take [j, i], an instruction's and a program's number. One of the two, the *outer*, is walked through in groups,
the other, the *inner*, inside a group.

`method="yun"` is the construction that the theorem cites, made explicit. With p inner values and w = p + 1 the input
becomes t = w·outer + inner + 1. Layer 1 has two ReLUs a group, whose difference u_g = clip(t − w·g, 0, w) runs from
0 to w inside group g and is constant elsewhere. Layer 2 has a hard tanh (two ReLUs) for each of p units: unit q is a
line in u_g inside each group, hits the label (scaled into (−1, 1)) at its own point, which is the q-th from the
left in even groups and from the right in odd ones, and has slope at least 2, so that it is ±1 at all other points.
Going through the points from alternating sides makes S_{g+1} = −S_g + Δy/(w − place): slopes do not grow. Signs
alternate from unit to unit, so that with an even p the saturated units sum to 1, and the label remains. Layer 3 has
four ReLUs a class, layer 4 makes one-hot vectors of them. Exact in rationals.

`method="grid"` uses whole numbers only. With Y the label, z the number of classes, D_q = Y[outer, q] − Y[outer, q−1] +
z − 1 (Y[outer, −1] = 0) and M = 2(z − 1), every D lies in 0 … M, so that

    Y[outer, inner] = Σ_q [relu(D_q(outer) + M·(inner − q)) − M·relu(inner − q)] − (z − 1)·inner − (z − 1).

D_q is piecewise linear in `outer`, from relu(outer − m) in layer 1; layer 2 has the two ReLUs of the sum; layer 3 is
the label v itself; and layer 4 has logits 2·c·v − c², largest at c = v by at least 1.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import torch

from kleene.errors import InputError, NotExact, NotSupported
from kleene.machines.instruction_table import InstructionTable
from kleene.networks.synthesizer.memoriser import MAX_PARAMETERS, Memoriser, parameters, rows_at_once

METHODS = ("grid", "yun")
EXACT = {"float32": 2**24, "float64": 2**53}  # whole numbers up to here are exact
CACHED = 2**17  # numbers that a core's cache holds
Layer = tuple[np.ndarray, np.ndarray]  # weight (out, in), bias


def compile_table(table: InstructionTable, *, method: str = "grid", dtype: Any = None) -> Memoriser:
    """A network for each operand whose largest logit, at [j, i], is the operand of instruction j of program i.

    `grid` is exact in float32 (float64 where numbers grow beyond that, unless `dtype` says otherwise); `yun` is
    the paper's, in float64. Reject an inexact result, with the number of wrong labels.
    """
    if method not in METHODS:
        raise InputError(f"compile: method {method!r}; it should be one of {', '.join(METHODS)}")
    name = None if dtype is None else str(dtype).removeprefix("torch.")
    if name is not None and name not in EXACT:
        raise NotSupported(f"compile: a memoriser cannot be in {name}; it is in float32 or float64")
    total = sum(_least_parameters(table, method, z, column) for column, z in enumerate(table.sizes))
    if total > MAX_PARAMETERS:
        raise NotSupported(f"compile: {total:,} parameters, more than {MAX_PARAMETERS:,}")
    labels = table.array()
    made = []
    for column, z in enumerate(table.sizes):
        last = column == len(table.sizes) - 1
        made.append(_yun(labels[..., column], z, last) if method == "yun" else _grid(labels[..., column], z, name))
    if name is None:
        name = "float64" if method == "yun" or any(found == "float64" for _, found in made) else "float32"
    net = Memoriser(
        [_widths(layers) for layers, _ in made],
        method=method,
        names=table.names,
        lengths=[len(rows) for rows in table.programs],
        fields=table.fields,
        dtype=name,
    )
    with torch.no_grad():
        for network, (layers, _) in zip(net.networks, made):
            linear = [layer for layer in network.children() if isinstance(layer, torch.nn.Linear)]
            for layer, (weight, bias) in zip(linear, layers):
                layer.weight.copy_(torch.as_tensor(weight))
                layer.bias.copy_(torch.as_tensor(bias))
    net.requires_grad_(False)
    net.table = torch.as_tensor(table.entries()[2], dtype=torch.int32)
    _check(table, net)
    return net


def _check(table: InstructionTable, net: Memoriser) -> None:
    """Every entry, read back from the network."""
    program, instruction, wanted = table.entries()
    read = _separated(net, table) if net.method == "grid" else net.operands(program, instruction)
    wrong = read != wanted
    if wrong.any():
        raise NotExact(
            f"compile: in {net.dtype} the {net.method!r} network gets {int(wrong.sum()):,} of {wrong.size:,} labels "
            f"wrong ({wrong.mean():.1%}); use dtype='float64' or method='grid'"
        )


def _separated(net: Memoriser, table: InstructionTable) -> np.ndarray:
    """The operands of every entry, from the network's own weights, without multiplying what is the same twice.

    Each unit of layer 1 reads j alone or i alone; so layer 2 is a sum of a part for j and a part for i. Sums of whole
    numbers below 2^24 (2^53) are exact in every order, so this is what the network computes; see `_largest_sum`.
    """
    program, instruction, _ = table.entries()
    columns = []
    for network in net.networks:
        one, two, three, four = (layer for layer in network.children() if isinstance(layer, torch.nn.Linear))
        if bool(((one.weight != 0).sum(dim=1) > 1).any()):
            return net.operands(program, instruction)
        parts = []
        for coordinate, count in enumerate((table.longest, len(table))):
            mine = one.weight[:, 1 - coordinate] == 0
            numbers = torch.arange(count, dtype=one.weight.dtype)[:, None]
            hidden = torch.relu(numbers * one.weight[mine, coordinate] + one.bias[mine])
            parts.append(hidden @ two.weight[:, mine].T)  # (count, units of layer 2)
            if coordinate == 0 and bool(((one.weight == 0).all(dim=1)).any()):
                return net.operands(program, instruction)
        labels = torch.empty(len(table), table.longest, dtype=one.weight.dtype)
        rows = max(1, CACHED // two.out_features)
        sums = torch.empty(rows, two.out_features, dtype=one.weight.dtype)  # small enough to stay in the cache
        shifts = parts[1] + two.bias
        for start in range(0, table.longest, rows):
            some = parts[0][start : start + rows]
            read = sums[: len(some)]
            for index in range(len(table)):
                torch.relu_(torch.add(some, shifts[index], out=read))
                torch.mv(read, three.weight[0], out=labels[index, start : start + rows])
        torch.relu_(labels.add_(three.bias))
        values, which = labels[torch.as_tensor(program), torch.as_tensor(instruction)].unique(return_inverse=True)
        found = [
            (some @ four.weight.T + four.bias).argmax(dim=1)
            for some in values[:, None].split(rows_at_once([four.out_features]))
        ]
        columns.append(torch.cat(found)[which].numpy())
    return np.stack(columns, axis=-1)


def _least_parameters(table: InstructionTable, method: str, z: int, column: int) -> int:
    """The parameters of an operand's network (of the smaller of the two that `grid` has), before anything is made."""
    both = ((len(table), table.longest), (table.longest, len(table)))  # (outer, inner)
    if method == "grid":
        return min(parameters([2, max(outer - 1, 1) + 1, 2 * inner, 1, z]) for outer, inner in both)
    groups, width = both[column == len(table.sizes) - 1]
    return parameters([2, 2 * groups, 2 * (width + width % 2), 4 * z, z])


def _widths(layers: list[Layer]) -> list[int]:
    sizes = [layers[0][0].shape[1], *(weight.shape[0] for weight, _ in layers)]
    if parameters(sizes) > MAX_PARAMETERS:
        raise NotSupported(f"compile: {parameters(sizes):,} parameters, more than {MAX_PARAMETERS:,}")
    return sizes


def _grid(labels: np.ndarray, z: int, dtype: str | None) -> tuple[list[Layer], str]:
    """Layers in whole numbers: the orientation with fewer parameters among those exact in the smaller dtype."""
    both = [_grid_layers(labels.T if swapped else labels, z, swapped) for swapped in (False, True)]
    both.sort(key=lambda layers: parameters(_widths(layers)))
    largest = []
    for layers in both:
        largest.append(_largest_sum(layers, labels.shape))
        if largest[-1] < EXACT["float32"]:
            return layers, "float32"
    if dtype == "float32" or min(largest) >= EXACT["float64"]:
        bound = "2^24; use float64" if dtype == "float32" else "2^53"
        raise NotExact(f"compile: numbers in a grid of {labels.shape} with {z} classes grow beyond {bound}")
    return both[largest.index(min(largest))], "float64"


def _grid_layers(labels: np.ndarray, z: int, swapped: bool) -> list[Layer]:
    """labels[outer, inner]; `swapped` where outer is the instruction and inner the program."""
    outer, inner = labels.shape
    shift, gap = z - 1, 2 * (z - 1)
    before = np.concatenate([np.zeros((outer, 1), dtype=np.int64), labels[:, :-1]], axis=1)
    steps = labels - before + shift  # D: (outer, inner), within 0 … gap
    hinges = max(outer - 1, 1)  # relu(outer − m), m = 0 … outer − 2
    reads = np.array([[1, 0]]) if not swapped else np.array([[0, 1]])  # inner of [j, i]
    first = np.concatenate([np.repeat(reads[:, ::-1], hinges, axis=0), reads])
    first_bias = np.concatenate([-np.arange(hinges), [0]])
    slopes = np.diff(steps, axis=0)  # (outer − 1, inner)
    turns = np.diff(slopes, axis=0, prepend=0) if outer > 1 else np.zeros((1, inner), dtype=np.int64)
    q = np.arange(inner)
    jumps = np.concatenate([turns.T, np.full((inner, 1), gap)], axis=1)
    ramps = np.concatenate([np.zeros((inner, hinges), dtype=np.int64), np.ones((inner, 1), dtype=np.int64)], axis=1)
    second = np.concatenate([jumps, ramps])
    second_bias = np.concatenate([steps[0] - gap * q, -q])
    third = np.concatenate([np.ones(inner), np.full(inner, -gap)])[None].astype(np.int64)
    third[0, inner] -= shift  # relu(inner − 0) is `inner` itself
    classes = np.arange(z)
    return [
        (first, first_bias),
        (second, second_bias),
        (third, np.array([-shift])),
        (2 * classes[:, None], -(classes**2)),
    ]


def _largest_sum(layers: list[Layer], shape: tuple[int, ...]) -> float:
    """The largest Σ|weight·input| + |bias| anywhere: below 2^24 every order of adding is exact in float32.

    Each unit of layer 1 reads one of j and i, with weight 1; so its value, and with it every sum of absolute values in
    layers 1 and 2, is largest at the largest j and i. Layer 3's inputs also grow with the inner number, so that only
    the outer one remains to go through. Layer 4 reads the label.
    """
    (first, first_bias), (second, second_bias), (third, third_bias), (fourth, fourth_bias) = layers
    corner = np.array([shape[1] - 1, shape[0] - 1], dtype=np.float64)  # [j, i]
    sums = [corner @ np.abs(first.T) + np.abs(first_bias)]
    hidden = np.maximum(corner @ first.T + first_bias, 0)
    sums.append(hidden @ np.abs(second.T).astype(np.float64) + np.abs(second_bias))
    inner = int(np.argmax(first[-1]))  # the coordinate that the last unit of layer 1 reads
    numbers = np.zeros((shape[inner], 2))  # shape is (i, j): the other one's count
    numbers[:, inner], numbers[:, 1 - inner] = corner[inner], np.arange(shape[inner])
    read = np.maximum(numbers @ first.T.astype(np.float64) + first_bias, 0)
    read = np.maximum(read @ second.T.astype(np.float64) + second_bias, 0)
    sums.append(read @ np.abs(third.T).astype(np.float64) + np.abs(third_bias))
    label = len(fourth_bias) - 1
    sums.append(label * np.abs(fourth.T).astype(np.float64) + np.abs(fourth_bias))
    return max(float(np.max(part)) for part in sums)


def _yun(labels: np.ndarray, z: int, last: bool) -> tuple[list[Layer], str]:
    """The cited construction: groups are programs, for the last operand (C) instructions (h1 and h2 change places)."""
    exact = yun_layers(labels.T.tolist() if last else labels.tolist(), z, last)
    return [(_floats(weight), np.array(bias, dtype=np.float64)) for weight, bias in exact], "float64"


def _floats(rows: list[list[Any]]) -> np.ndarray:
    """Fractions as float64; a row that stands several times is converted once."""
    once = {id(row): row for row in rows}
    made = {key: np.array(row, dtype=np.float64) for key, row in once.items()}
    return np.stack([made[id(row)] for row in rows])


def yun_layers(labels: list[list[int]], z: int, swapped: bool) -> list[tuple[list[list[Any]], list[Any]]]:
    """Its weights as fractions: labels[group][place]; `swapped` where groups are instructions."""
    groups, width = len(labels), len(labels[0])
    units = width + width % 2  # an even number: the saturated ones sum to 1
    w = units + 1
    values = [[(Fraction(2 * label + 1, z) - 1) for label in row] + [Fraction(0)] * (units - width) for row in labels]
    # layer 1: relu(t − w·g) and relu(t − w·(g + 1)), t = w·group + place + 1
    row = [1, w] if not swapped else [w, 1]
    first = [row] * (2 * groups)
    first_bias: list[Any] = [1 - w * (g + side) for g in range(groups) for side in (0, 1)]
    # layer 2: hard tanh of b + Σ_g S_g u_g, as relu(· + 1) − relu(· − 1) − 1
    second: list[list[Any]] = []
    second_bias: list[Any] = []
    for unit in range(1, units + 1):
        places = [unit if g % 2 == 0 else w - unit for g in range(groups)]
        targets = [values[g][places[g] - 1] for g in range(groups)]
        sign = 1 if unit % 2 else -1
        slopes = _slopes(places, targets, w, sign)
        bias = targets[0] - slopes[0] * places[0]
        weights = [weight for slope in slopes for weight in (slope, -slope)]
        second += [weights, weights]
        second_bias += [bias + 1, bias - 1]
    # layer 3: v = the label, four ReLUs a class around it
    half = Fraction(z, 2)
    ones = [half if unit % 2 == 0 else -half for unit in range(2 * units)]
    offset = half * (-units - 1) + half - Fraction(1, 2)  # Σ hard tanh = value + 1; label = half·(value + 1) − ½
    third = [ones] * (4 * z)
    third_bias = [offset - c + corner for c in range(z) for corner in _CORNERS]
    # layer 4: one-hot
    fourth = [[0] * (4 * z) for _ in range(z)]
    for c in range(z):
        fourth[c][4 * c : 4 * c + 4] = [2, -2, -2, 2]
    return [(first, first_bias), (second, second_bias), (third, third_bias), (fourth, [0] * z)]


_CORNERS = (Fraction(3, 4), Fraction(1, 4), Fraction(-1, 4), Fraction(-3, 4))


def _slopes(places: list[int], targets: list[Fraction], w: int, sign: int) -> list[Fraction]:
    """One slope a group, of alternating sign and at least 2, so that the line hits every target at its place."""
    drift = [Fraction(0)]  # what is added to the first slope, without its alternating sign
    for g in range(len(places) - 1):
        change = (targets[g + 1] - targets[g]) / (w - places[g])
        drift.append(drift[-1] + (-1) ** (g + 1) * change)
    start = sign * (2 + max(-sign * value for value in drift))
    return [(-1) ** g * (start + value) for g, value in enumerate(drift)]
