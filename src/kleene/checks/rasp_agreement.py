"""Counted agreement of an s-op, evaluated in plain Python, and its network."""

from __future__ import annotations

import random as random_module
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, product
from typing import Any

from kleene.checks.agreement import CHUNK, MAX_EXHAUSTIVE, Disagreement, Report
from kleene.errors import InputError, a_type
from kleene.networks.transformer.model import Transformer
from kleene.rasp.evaluation import evaluate, evaluate_causally
from kleene.rasp.expressions import SOp


def verify_sop(
    sop: SOp,
    network: Transformer,
    *,
    inputs: Iterable[Sequence[Any]] | None = None,
    lengths: Iterable[int] | None = None,
    random: int | None = None,
    seed: int = 0,
    evaluator: Any = None,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """Compare a network with its s-op. An input on which the s-op raises is left out.

    - `inputs`: sequences of tokens.
    - `lengths`: every sequence of these lengths, or the lengths of the random ones.
    - `random`: this many random sequences.
    - `seed`: the seed of the random sequences.
    - `evaluator`: which evaluator runs the network.
    - `progress`: called with the number of inputs checked so far.
    """
    if not isinstance(network, Transformer):
        raise InputError(f"verify: compares {sop.name} with its network, not with {a_type(network)}")
    chosen, what = _inputs(network, inputs, lengths, random, seed)
    meaning = evaluate_causally if network.config.causal else evaluate
    checked = mismatches = left_out = 0
    worst: Disagreement | None = None
    while batch := list(islice(chosen, CHUNK)):
        outputs = network.run_batch([network.encode(one) for one in batch], evaluator=evaluator)
        for one, output in zip(batch, outputs):
            try:
                expected = meaning(sop, one)
            except Exception:
                left_out += 1
                continue
            checked += 1
            found = network.decode(output)
            if found != expected:
                mismatches += 1
                if worst is None or len(one) < len(worst.input):
                    worst = Disagreement(tuple(one), expected, found, None)
        if progress is not None:
            progress(checked + left_out)
    name = evaluator or network.preferred_evaluator()
    return Report(
        sop.name, checked, mismatches, 0, "the s-op in Python", name, what, worst, layers=False, left_out=left_out
    )


def _inputs(
    network: Transformer, inputs: Any, lengths: Iterable[int] | None, random: int | None, seed: int
) -> tuple[Iterator[Sequence[Any]], str]:
    tokens, longest = network.words.tokens, (network.longest or 2) - 1
    if inputs is not None:
        given = [network.words.read(one) if isinstance(one, str) else list(one) for one in inputs]
        return iter(given), f"{len(given):,} given inputs"
    asked = list(range(1, longest + 1) if lengths is None else lengths)
    if not asked or not all(1 <= size <= longest for size in asked):
        raise InputError(f"verify: lengths {asked!r:.60}; this network takes 1 to {longest} tokens")
    if random is None and lengths is not None:
        count = sum(len(tokens) ** size for size in asked)
        if count > MAX_EXHAUSTIVE:
            raise InputError(f"verify: {count:,} inputs are too many to try all; give random=1000")
        every = (list(one) for size in asked for one in product(tokens, repeat=size))
        return every, f"all inputs of lengths {asked[0]} … {asked[-1]}"
    chance = random_module.Random(seed)
    count = random or 200
    drawn = ([chance.choice(tokens) for _ in range(chance.choice(asked))] for _ in range(count))
    return drawn, f"{count:,} random inputs of lengths {asked[0]} … {asked[-1]}"
