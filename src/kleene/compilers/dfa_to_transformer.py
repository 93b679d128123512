"""A finite automaton as a transformer: it becomes an attention program, and that becomes weights."""

from __future__ import annotations

from typing import Any

import torch

from kleene.compilers.program_to_transformer import compile_program
from kleene.errors import InputError, NotExact, NotSupported
from kleene.library.automata import MAX_PRODUCTS, constant, logarithmic, logarithmic_by_states, sequential
from kleene.machines.automata.cascade import otherwise
from kleene.machines.automata.dfa import DFA
from kleene.machines.automata.nfa import NFA
from kleene.machines.program import ProgramClass
from kleene.networks.transformer.model import Transformer

DEPTHS = ("sequential", "logarithmic", "constant")
DEFAULT_LENGTH = 64


def compile_to_transformer(
    dfa: DFA | NFA,
    *,
    depth: str = "sequential",
    length: int | None = None,
    dtype: str | torch.dtype | None = None,
) -> Transformer:
    """A transformer that accepts what `dfa` accepts.

    - `depth`: "sequential" loops one block, a layer per symbol, on words of any length; "logarithmic" composes what
      blocks of symbols do, in ⌈log₂ n⌉ + 3 layers at most; "constant" is a cascade of resets and counters, for
      languages whose groups are solvable.
    - `length`: the longest word, for "logarithmic" and "constant"; by default 64.
    - `dtype`: the number format of the weights.
    """
    if depth not in DEPTHS:
        raise InputError(f"compile: depth {depth!r}; it should be one of {', '.join(DEPTHS)}")
    minimal = dfa.minimise()
    symbols, longest = len(minimal.alphabet), DEFAULT_LENGTH if length is None else length
    words: dict[str, Any] = {
        "alphabet": list(minimal.alphabet),
        "machine": minimal.to_json(),
        "depth": depth,
        "before": [symbols],
        "after": [],
        "copies": 1,
        "answer": None,
        "length": None if depth == "sequential" else longest,
    }
    if depth == "sequential":
        if length is not None:
            raise InputError(f"compile: length={length}: a sequential transformer reads words of any length")
        return _compiled(sequential(minimal), "universal", dtype, words)
    if depth == "constant":
        words["after"] = [symbols + 1]
        with otherwise("depth='logarithmic' holds every automaton"):
            program = constant(minimal, longest)
        return _compiled(program, "encoder", dtype, words)
    if _small(minimal):
        return _compiled(logarithmic(minimal, longest), "encoder", dtype, words)
    states = len(minimal)
    end = [symbols * states + q for q in range(states)]
    words |= {"depth": "logarithmic by states", "before": [], "after": end, "copies": states, "answer": minimal.start}
    return _compiled(logarithmic_by_states(minimal, longest), "encoder", dtype, words)


def _small(dfa: DFA) -> bool:
    """Whether the syntactic monoid's multiplication table is small."""
    from kleene.machines.automata.monoid import syntactic_monoid

    try:
        syntactic_monoid(dfa, limit=int(MAX_PRODUCTS**0.5))
    except NotSupported:
        return False
    return True


def _compiled(program: ProgramClass, shape: str, dtype: Any, words: dict[str, Any]) -> Transformer:
    try:
        net = compile_program(program, shape=shape, dtype=dtype)
    except NotExact as error:
        raise NotSupported(
            f"compile: depth {words['depth']!r}, cascade: too wide for the number format ({error})"
        ) from None
    net.description["words"] = words
    return net
