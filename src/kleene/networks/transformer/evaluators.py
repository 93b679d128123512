"""Choose the evaluator that runs a transformer.

Seven evaluators run the same weights, and tests compare their results:

- dense: softmax over all tokens, for every row; many inputs at once, on any device (dense.py);
- sparse: the same weights without their zeros, many inputs at once on a CPU (sparse.py);
- rows: softmax over all tokens, for the rows that can change (rows.py, active_rows.py);
- lookup: attention as exact lookup, units without their zeros (lookup.py);
- generated: code generated from the weights that are not zero (generated.py);
- lanes: C code generated from the weights, on packed bits (lanes.py);
- lanes-numba: the same code, compiled by Numba.

All but sparse can pause in the middle of a run (pausable.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from kleene.common.output import Output
from kleene.errors import DidNotHalt, NotSupported, RangeError
from kleene.networks.formats import check_transformer
from kleene.networks.transformer.dense import DenseRun, Watcher, run_dense
from kleene.networks.transformer.model import Transformer
from kleene.networks.transformer.pausable import PausableRun
from kleene.networks.transformer.stops import EVALUATORS, HALTED, Array

WORTH_SPARSE = 10_000  # values in the residual streams; below this, the start-up of sparse costs more than it saves


def start(net: Transformer, tokens: Sequence[int] | Array, evaluator: str = "dense") -> PausableRun:
    """Begin a run that can pause; it computes nothing yet. Tokens may be an array, which is quicker to check."""
    if evaluator not in EVALUATORS:
        raise NotSupported(f"the evaluator {evaluator!r} cannot pause; choose one of {', '.join(EVALUATORS)}")
    check_transformer(net)
    if isinstance(tokens, np.ndarray):
        return _pausable(evaluator)(net, tokens if _in_range(net, tokens) else net.check_input(tokens.tolist()))
    return _pausable(evaluator)(net, net.check_input(tokens))


def _in_range(net: Transformer, tokens: Array) -> bool:
    """Whether an array is a list of tokens of this network; otherwise `check_input` says what is wrong."""
    fits = tokens.ndim == 1 and tokens.dtype.kind in "iu" and 0 < len(tokens) <= (net.longest or len(tokens))
    return fits and int(tokens.min()) >= 0 and int(tokens.max()) < net.config.tokens


def _pausable(evaluator: str) -> type[PausableRun]:
    """The class of an evaluator; imports Numba only where an evaluator needs it."""
    if evaluator == "rows":
        from kleene.networks.transformer.rows import RowsRun

        return RowsRun
    if evaluator == "lookup":
        from kleene.networks.transformer.lookup import LookupRun

        return LookupRun
    if evaluator == "generated":
        from kleene.networks.transformer.generated import GeneratedRun

        return GeneratedRun
    if evaluator == "lanes":
        from kleene.networks.transformer.lanes import LanesRun

        return LanesRun
    if evaluator == "lanes-numba":
        from kleene.networks.transformer.lanes import NumbaLanesRun

        return NumbaLanesRun
    return DenseRun


def run_many(
    net: Transformer,
    inputs: list[list[int]],
    fixed: int | None,
    max_layers: int,
    evaluator: str | None,
    check: bool,
    watch: Watcher | None,
) -> list[Output]:
    """Run a batch of inputs.

    fixed: the number of layers to run; None where the network halts by itself.
    max_layers: the most layers before `DidNotHalt`.
    evaluator: by default the quickest that runs these weights.
    check: raise where the program would read an undefined head (dense).
    watch: sees every layer (dense).
    """
    if evaluator not in (None, "sparse", *EVALUATORS):
        raise NotSupported(f"unknown evaluator {evaluator!r}; choose one of sparse, {', '.join(EVALUATORS)}")
    if check or watch or evaluator == "dense" or (evaluator is None and not _worth_sparse(net, inputs)):
        return run_dense(net, inputs, fixed, max_layers, check, watch)
    if evaluator in EVALUATORS:
        return [_run_one(net, tokens, fixed, max_layers, evaluator) for tokens in inputs]
    from kleene.networks.transformer.sparse_weights import NotSparse

    try:
        return net.sparse_copy().run_batch(inputs, fixed, max_layers)
    except NotSparse as why:
        if evaluator == "sparse":
            raise NotSupported(f"{net.config.name}: these weights do not run sparse ({why}); use 'dense'") from None
    if len(net.config.cycle) > 1:
        with suppress(NotSupported, RangeError):  # where a head finds nothing, dense goes on with zeros
            return [_run_one(net, tokens, fixed, max_layers, "lookup") for tokens in inputs]
    return run_dense(net, inputs, fixed, max_layers, check, watch)


def runs_sparse(net: Transformer) -> bool:
    """Whether the sparse evaluator can run these weights: on a CPU, in float32 or float64."""
    from kleene.networks.transformer.sparse_weights import NotSparse

    if net.device.type != "cpu" or net.config.shape == "decoder":
        return False
    try:
        net.sparse_copy()
    except NotSparse:
        return False
    return True


def _worth_sparse(net: Transformer, inputs: list[list[int]]) -> bool:
    return net.device.type == "cpu" and sum(map(len, inputs)) * net.config.dim > WORTH_SPARSE


def _run_one(net: Transformer, tokens: list[int], fixed: int | None, max_layers: int, evaluator: str) -> Output:
    if fixed is not None and net.config.halts:
        raise NotSupported(f"{net.config.name}: with layers= a network that halts runs 'dense', not {evaluator!r}")
    run = start(net, tokens, evaluator)
    if run.run(max_layers if fixed is None else fixed) != HALTED and fixed is None:
        raise DidNotHalt(f"{net.config.name}: did not halt within {max_layers:,} layers (max_layers)")
    return Output(run.outputs(), layers=run.layers)
