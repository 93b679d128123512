"""Lemma 4.5: a recurrent step of two layers becomes a simple RNN."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

from kleene.networks.rnn.exact import ExactRNN, Readout
from kleene.networks.rnn.matrix import Matrix, Vector, vector

Net = TypeVar("Net", bound=ExactRNN)


@dataclass(frozen=True)
class TwoLayerStep:
    """h⁽⁻¹⁾ = s, g⁽ⁱ⁾ = σ(V h⁽ⁱ⁻¹⁾ + W x⁽ⁱ⁾ + b), h⁽ⁱ⁾ = U g⁽ⁱ⁾ + c, y = out_W h + out_b."""

    alphabet: tuple[str, ...]
    s: Vector
    V: Matrix
    W: Matrix
    b: Vector
    U: Matrix
    out_W: Matrix
    c: Vector = field(default_factory=dict)
    out_b: Vector = field(default_factory=dict)
    names: tuple[str, ...] = ()  # of the entries of h


def fuse(step: TwoLayerStep, cls: type[Net], **options: Any) -> Net:
    """Build the simple RNN that equals a two-layer step (Lemma 4.5, corrected). It has one unit more than g.

    Unit 0 is 1 before the first symbol and 0 after it: it carries s. With R = [s − c, U], h = R g + c, so
    V' = [0; V R], W' = [0; W], b' = [0; b + V c], s' = e₀ and out'(g) = out(R g + c). A bias c costs no unit.
    """
    size, width = step.V.columns, step.V.rows
    start = {i: step.s.get(i, 0) - step.c.get(i, 0) for i in range(size)}
    R = Matrix(
        size,
        width + 1,
        {
            **{(i, 0): v for i, v in start.items() if v != 0},
            **{(i, j + 1): v for (i, j), v in step.U.entries.items()},
        },
    )
    A = _below(step.V)
    bias = step.V.times(step.c)
    b = vector({i + 1: step.b.get(i, 0) + bias.get(i, 0) for i in {*step.b, *bias}})
    out_bias = step.out_W.times(step.c)
    out_b = vector({k: step.out_b.get(k, 0) + out_bias.get(k, 0) for k in {*step.out_b, *out_bias}})
    names = step.names or tuple(f"h[{i}]" for i in range(size))
    return cls(
        step.alphabet,
        V=A @ R,
        W=_below(step.W),
        b=b,
        s={0: 1},
        out_W=step.out_W @ R,
        out_b=out_b,
        readout=Readout(names, R, step.c, A),
        **options,
    )


def _below(matrix: Matrix) -> Matrix:
    """The matrix with a row of zeros on top."""
    return Matrix(matrix.rows + 1, matrix.columns, {(i + 1, j): v for (i, j), v in matrix.entries.items()})
