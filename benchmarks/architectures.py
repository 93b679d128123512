"""One automaton in several architectures on one long word: symbols a second, beside Python's own loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import kleene as kl
from benchmarks.measure import cpu_seconds

Row = dict[str, Any]
SYMBOLS = 1_000_000


def rows(symbols: int = SYMBOLS) -> list[Row]:
    """Parity of a word of a million symbols: Python's loop, the sequential RNN, the parallel scan, log-depth layers."""
    dfa = kl.regex("(0|10*1)*", alphabet="01")
    word = "".join(np.random.default_rng(0).choice(["0", "1"], size=symbols))
    expected = dfa.accepts(word)
    table, accepting, start = dfa.table.tolist(), dfa.accepting.tolist(), dfa.start

    def loop(given: str) -> bool:
        state = start
        for letter in given:
            state = table[state][letter == "1"]
        return bool(accepting[state])

    rnn, lstm = kl.compile(dfa), kl.compile(dfa, to="lstm")
    linear, deep = kl.compile(dfa, to="linear"), kl.compile(dfa, to="transformer", depth="logarithmic", length=symbols)
    runs: dict[str, Callable[[str], bool]] = {
        "Python's own loop": loop,
        "sequential RNN": lambda given: bool(rnn.accepts_batch([given])[0]),
        "LSTM": lstm.accepts,
        "linear RNN, parallel scan": linear.accepts,
        "log-depth transformer": deep.accepts,
    }
    python, made = 0.0, list[Row]()
    for name, run in runs.items():
        run(word[:1000])  # compiles loops
        answers: list[bool] = []
        seconds = cpu_seconds(lambda run=run, answers=answers: answers.append(run(word)))
        if answers != [expected]:
            raise AssertionError(f"{name}: a wrong answer on the word of {symbols:,} symbols")
        python = python or seconds
        made.append(
            {
                "name": f"parity of {symbols:,} symbols: {name}",
                "others": None,
                "ours": symbols / seconds,
                "unit": "symbols a second",
                "note": f"{seconds:.3f} CPU seconds, {python / seconds:.2f} times Python's loop",
            }
        )
    return made
