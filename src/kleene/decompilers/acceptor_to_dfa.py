"""The automaton of a stock recurrent model: its states are the caches that words reach, number for number, each with
the answer after that word: the answer depends on the cache before the last symbol and on this symbol itself.

The model itself runs, one token at a time with its cache, as in `generate`. If words reach finitely many
caches, the model is a finite automaton in its own floating-point arithmetic, and this is that automaton.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kleene.errors import DidNotHalt, NotExact, NotSupported
from kleene.machines.automata.dfa import DFA
from kleene.networks.stock.acceptor import StockAcceptor


def decompile_acceptor(net: StockAcceptor, *, to: str = "dfa", limit: int = 20_000) -> Any:
    """The minimal automaton of a stock model whose caches are finitely many.

    `to="regex"` gives a regular expression. Raise `DidNotHalt` above `limit` caches.
    """
    if to not in ("dfa", "regex"):
        raise NotSupported(f"decompile: to={to!r}; it must be 'dfa' or 'regex'")
    dfa = reached(net, limit).minimise()
    return dfa if to == "dfa" else dfa.to_regex()


def reached(net: StockAcceptor, limit: int) -> DFA:
    """The automaton on the caches that words reach, numbered breadth-first."""
    if not all(bool(weights.isfinite().all()) for weights in net.model.parameters()):
        raise NotExact(f"a weight is not a finite number in {net.dtype}")
    cache, answer = net.begin()
    number, queue, answers = {(net.keys(cache)[0], answer): 0}, [cache], [answer]
    rows = []
    for cache in queue:
        row = []
        for key, after, answer in net.after(cache):
            state = key, answer
            if state not in number:
                if len(queue) >= limit:
                    raise DidNotHalt(f"more than {limit:,} caches can be reached; the language may not be regular")
                number[state] = len(queue)
                queue.append(after())
                answers.append(answer)
            row.append(number[state])
        rows.append(row)
    return DFA(np.array(rows), np.array(answers), net.alphabet)
