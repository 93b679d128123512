"""Measurements of the RNN chapter's part: speeds as ratios on one machine, and sizes."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import kleene as kl
from benchmarks.measure import cpu_seconds
from kleene.library.turing_machines import POWERS_OF_TWO, busy_beaver

Row = dict[str, Any]


def rows() -> list[Row]:
    """All measurements; each is a row with `name`, `ours`, `unit` and the bound that it should keep."""
    return [*sizes(), exact_rnn(), champion(), equivalence(), batch()]


def sizes() -> list[Row]:
    """Units of the networks that the issue names."""
    counter = kl.DFA(np.array([[k, (k + 1) % 100] for k in range(100)]), np.array([0]), ("0", "1"))
    found = [
        ("counting mod 100", kl.compile(counter), 201, 6),
        ("(a|b)*a(a|b){10}", kl.compile(kl.regex("(a|b)*a(a|b){10}")), 4097, 16),
        ("5-state busy beaver", kl.compile(busy_beaver(5)), 330, 81),
        ("Sipser's powers of two", kl.compile(POWERS_OF_TWO), 613, 109),
    ]
    return [
        {
            "name": f"size: {name}",
            "others": f"{theirs:,} (the chapter's construction, counted by us)",
            "ours": net.units,
            "unit": "units",
            "at_most": most,
        }
        for name, net, theirs, most in found
    ]


def exact_rnn(steps: int = 1_000_000, plain_steps: int = 3000) -> Row:
    """Steps a second of the 5-state busy beaver's network: by patterns of digits, and on `Fraction`."""
    net = kl.compile(busy_beaver(5))
    net.decide(max_steps=1000)  # compiles the loop, learns the patterns
    fast = steps / cpu_seconds(lambda: net.decide(max_steps=steps), repeat=3)
    plain = net.on_fractions()
    slow = plain_steps / cpu_seconds(lambda: plain.decide(max_steps=plain_steps, evaluator="plain"))
    return {
        "name": "exact RNN over the same network on Fraction",
        "others": None,
        "ours": fast / slow,
        "unit": "times",
        "at_least": 30,
        "note": f"{fast:,.0f} steps a second by patterns, {slow:,.0f} on Fraction; 5-state busy beaver",
    }


def champion() -> Row:
    """The 5-state champion to its end on the exact RNN."""
    net = kl.compile(busy_beaver(5))
    begin = time.perf_counter()
    decision = net.decide(max_steps=10**8, tape=True)
    took = time.perf_counter() - begin
    ones = (decision.tape or ()).count("1")
    return {
        "name": "5-state champion, all its steps on the exact RNN",
        "others": "47,176,870 (the known number of steps)",
        "ours": decision.steps,
        "unit": "steps",
        "at_least": 47_176_870,
        "note": f"{ones:,} ones, {took:.1f} s, evaluator: patterns",
    }


def equivalence(states: int = 100_000) -> Row:
    """Hopcroft–Karp on two random automata of one language."""
    rng = np.random.default_rng(0)
    dfa = kl.DFA(rng.integers(0, states, (states, 2)), rng.random(states) < 0.5, ("a", "b"))
    twin = dfa.renumbered(rng.permutation(states))
    assert dfa.equivalent(twin)
    return {
        "name": "equivalence of two 100,000-state automata",
        "others": None,
        "at_most": 2,
        "unit": "s",
        "ours": cpu_seconds(lambda: dfa.equivalent(twin), repeat=3),
        "note": "after Numba has compiled; random tables",
    }


def batch(words: int = 4096, length: int = 256) -> Row:
    """Symbols a second: the torch RNN on a batch of strings, and automata-lib's accepts_input, one string at
    a time."""
    from automata.fa.dfa import DFA as OtherDFA

    dfa = kl.regex("(a|b)*abb")
    other = OtherDFA(
        states=set(range(len(dfa))),
        input_symbols=set(dfa.alphabet),
        initial_state=dfa.start,
        transitions={q: dict(zip(dfa.alphabet, row)) for q, row in enumerate(dfa.table.tolist())},
        final_states=set(np.flatnonzero(dfa.accepting).tolist()),
    )
    codes = np.random.default_rng(0).integers(0, 2, (words, length))
    texts = ["".join(row) for row in np.array(dfa.alphabet)[codes].tolist()]
    module = kl.compile(dfa).torch()
    assert module.accepts_batch(texts[:200]).tolist() == [other.accepts_input(text) for text in texts[:200]]
    ours = words * length / cpu_seconds(lambda: module.accepts_batch(texts), repeat=5)
    some = texts[:400]
    theirs = len(some) * length / cpu_seconds(lambda: [other.accepts_input(text) for text in some], repeat=3)
    return {
        "name": "torch RNN over automata-lib, symbols a second",
        "others": None,
        "ours": ours / theirs,
        "unit": "times",
        "at_least": 10,
        "note": f"{ours / 1e6:.0f} M and {theirs / 1e6:.1f} M a second; {words:,} strings of length {length}",
    }


if __name__ == "__main__":
    for row in rows():
        bound = f"≤ {row['at_most']}" if "at_most" in row else f"≥ {row['at_least']}"
        print(f"{row['name']}: {row['ours']:,.4g} {row['unit']} ({bound}) — {row['note']}")
