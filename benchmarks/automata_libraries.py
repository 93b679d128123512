"""Automata beside other libraries: automata-lib, pyformlang and AALpy on the same machines."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import kleene as kl
from benchmarks.measure import Row, cpu_seconds

MILLION = 1000 * 1009


def rows() -> list[Row]:
    """All measurements; `ours` is a ratio where the unit is times, and both figures are in the note."""
    return [*operations(), *single_words(), *large(), *files(), *learning(), expressions()]


def random_dfa(states: int, seed: int = 0, symbols: str = "ab") -> kl.DFA:
    """A random table; half of the states accept."""
    rng = np.random.default_rng(seed)
    return kl.DFA(rng.integers(0, states, (states, len(symbols))), rng.random(states) < 0.5, symbols)


def to_automata_lib(dfa: kl.DFA) -> Any:
    """The same automaton in automata-lib."""
    from automata.fa.dfa import DFA

    return DFA(
        states=set(range(len(dfa))),
        input_symbols=set(dfa.alphabet),
        initial_state=dfa.start,
        transitions={q: dict(zip(dfa.alphabet, row)) for q, row in enumerate(dfa.table.tolist())},
        final_states=set(np.flatnonzero(dfa.accepting).tolist()),
    )


def to_pyformlang(dfa: kl.DFA) -> Any:
    """The same automaton in pyformlang."""
    from pyformlang.finite_automaton import DeterministicFiniteAutomaton

    other = DeterministicFiniteAutomaton()
    other.add_transitions([(q, s, r) for q, row in enumerate(dfa.table.tolist()) for s, r in zip(dfa.alphabet, row)])
    other.add_start_state(dfa.start)
    for q in np.flatnonzero(dfa.accepting).tolist():
        other.add_final_state(q)
    return other


def beside(name: str, ours: float, others: dict[str, float], at_least: float | None, note: str) -> Row:
    """A row: how many times faster than automata-lib, with every library's seconds."""
    listed = ", ".join(f"{library} {seconds * 1000:,.2f} ms" for library, seconds in others.items())
    first = next(iter(others.values()))
    row: Row = {
        "name": name,
        "others": None,
        "ours": first / ours,
        "unit": "times",
        "note": f"{note}: Kleene {ours * 1000:,.3f} ms, {listed}",
    }
    return row if at_least is None else {**row, "at_least": at_least}


def operations(states: int = 300) -> list[Row]:
    """Minimisation, equivalence and product of random automata."""
    dfa, second = random_dfa(states), random_dfa(states, 1)
    lib, lib_second = to_automata_lib(dfa), to_automata_lib(second)
    formal, formal_second = to_pyformlang(random_dfa(60)), to_pyformlang(random_dfa(60, 1))
    small, small_second = random_dfa(60), random_dfa(60, 1)
    assert len(dfa.minimise()) == len(lib.minify(retain_names=False).states)
    note = f"random automata of {states} states, two symbols"
    found = [
        beside(
            "minimisation over automata-lib",
            cpu_seconds(dfa.minimise, 20, warm=True),
            {
                "automata-lib": cpu_seconds(lambda: lib.minify(retain_names=False), 2),
                "pyformlang (60 states)": cpu_seconds(formal.minimize, 1),
            },
            10,
            note,
        ),
        beside(
            "equivalence over automata-lib",
            cpu_seconds(lambda: dfa.equivalent(dfa.minimise()), 20, warm=True),
            {"automata-lib": cpu_seconds(lambda: lib == lib.minify(retain_names=False), 2)},
            10,
            note,
        ),
        beside(
            "product over automata-lib",
            cpu_seconds(lambda: dfa & second, 5, warm=True),
            {"automata-lib": cpu_seconds(lambda: lib.intersection(lib_second, minify=False), 1)},
            20,
            note,
        ),
        beside(
            "product over pyformlang",
            cpu_seconds(lambda: small & small_second, 20, warm=True),
            {"pyformlang": cpu_seconds(lambda: formal.get_intersection(formal_second), 1)},
            None,
            "random automata of 60 states",
        ),
    ]
    return found


def single_words(length: int = 40) -> list[Row]:
    """`accepts` on one word at a time."""
    dfa = kl.regex("(a|b)*abb(a|b)*")
    rng = random.Random(0)
    words = ["".join(rng.choice("ab") for _ in range(length)) for _ in range(2000)]
    lib, formal = to_automata_lib(dfa), to_pyformlang(dfa)
    assert [dfa.accepts(w) for w in words] == [lib.accepts_input(w) for w in words]
    few = words[:200]
    others = {
        "automata-lib": cpu_seconds(lambda: [lib.accepts_input(w) for w in words], 3) / len(words),
        "pyformlang": cpu_seconds(lambda: [formal.accepts(list(w)) for w in few], 1) / len(few),
    }
    ours = cpu_seconds(lambda: [dfa.accepts(w) for w in words], 5, warm=True) / len(words)
    return [beside("accepts, one word at a time, over automata-lib", ours, others, 5, f"words of {length} symbols")]


def large() -> list[Row]:
    """A million states: product, minimisation, equivalence, in seconds."""
    left = kl.DFA([[(q + 1) % 1000, q] for q in range(1000)], [0], "ab")
    right = kl.DFA([[(q + 1) % 1009, (q + 3) % 1009] for q in range(1009)], [0], "ab")
    both = left & right
    small = both.minimise().renumbered(np.random.default_rng(0).permutation(MILLION))
    assert len(both) == len(small) == MILLION
    loose = random_dfa(1_000_000, 2)
    timed = {
        "product of a million states": cpu_seconds(lambda: left & right),
        "minimisation of a million states": cpu_seconds(both.minimise),
        "minimisation of a random automaton of a million states": cpu_seconds(loose.minimise),
        "equivalence of two automata of a million states": cpu_seconds(lambda: both.equivalent(small)),
    }
    return [
        {"name": name, "others": None, "ours": seconds, "unit": "s", "at_most": 10, "note": "after Numba has compiled"}
        for name, seconds in timed.items()
    ]


def files(states: int = 100_000) -> list[Row]:
    """Reading files of 100,000 states."""
    dfa = random_dfa(states)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for suffix, most in ((".jff", 3.0), (".att", 3.0), (".json", 3.0)):
            path = Path(folder) / f"m{suffix}"
            dfa.save(path)
            seconds = cpu_seconds(lambda path=path: kl.DFA.load(path))  # type: ignore[misc]
            size = path.stat().st_size / 1e6
            note = f"{size:.0f} MB, 200,000 moves"
            name = f"reading {states:,} states from {suffix}"
            found.append({"name": name, "others": None, "ours": seconds, "unit": "s", "at_most": most, "note": note})
    return found


def _extracted(net: Any, learner: str) -> tuple[Any, float]:
    found: list[Any] = []
    seconds = cpu_seconds(lambda: found.append(kl.extract(net, "ab", learner=learner, random=500)))
    return found[-1], seconds


def learning() -> list[Row]:
    """Learning from the same network: queries and time of both learners, and of AALpy's L* and KV."""
    import aalpy

    dfa = kl.regex("(a|b)*a(a|b){5}")
    net = kl.compile(dfa).torch()

    class Network(aalpy.SUL):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.word = ""

        def pre(self) -> None:
            self.word = ""

        def post(self) -> None:
            pass

        def step(self, letter: str | None) -> bool:
            self.word += letter or ""
            return bool(net.accepts_batch([self.word])[0])

        def query(self, word: tuple[str, ...]) -> list[bool]:
            self.num_queries += 1
            texts = ["".join(word[:i]) for i in range(1, len(word) + 1)] or [""]
            return [bool(x) for x in net.accepts_batch(texts)]

    def aalpy_run(algorithm: str) -> tuple[float, int, int]:
        system = Network()
        oracle = aalpy.RandomWordEqOracle(["a", "b"], system, num_walks=500, min_walk_len=1, max_walk_len=16)
        run = aalpy.run_Lstar if algorithm == "L*" else aalpy.run_KV
        result: list[Any] = []
        seconds = cpu_seconds(
            lambda: result.append(run(["a", "b"], system, oracle, automaton_type="dfa", print_level=0))
        )
        return seconds, len(result[-1].states), system.num_queries

    found: list[Row] = []
    for learner, algorithm in (("table", "L*"), ("tree", "KV")):
        found_by_us, seconds = _extracted(net, learner)
        theirs, size, asked = aalpy_run(algorithm)
        assert found_by_us == dfa
        found.append(
            {
                "name": f"extraction by {algorithm} over AALpy, the same network",
                "others": None,
                "ours": theirs / seconds,
                "unit": "times",
                "note": f"Kleene {seconds:.2f} s, {found_by_us.queries:,} queries, {len(found_by_us)} states; AALpy "
                f"{theirs:.2f} s, {asked:,} queries, {size} states; a torch RNN of (a|b)*a(a|b){{5}}",
            }
        )
    return found


def expressions(count: int = 200) -> Row:
    """How long `to_regex` makes an expression of what an expression describes."""
    rng = random.Random(1)

    def expression(depth: int) -> str:
        kind = rng.random()
        if depth == 0 or kind < 0.2:
            return rng.choice("abc")
        if kind < 0.55:
            return expression(depth - 1) + expression(depth - 1)
        if kind < 0.78:
            return f"({expression(depth - 1)}|{expression(depth - 1)})"
        return f"({expression(depth - 1)}){rng.choice('*+?')}"

    ratios = []
    for _ in range(count):
        pattern = expression(5)
        ratios.append(len(kl.regex(pattern, "abc").to_regex()) / len(pattern))
    ratios.sort()
    return {
        "name": "length of to_regex over the expression itself, median",
        "others": None,
        "ours": ratios[count // 2],
        "unit": "times",
        "at_most": 3,
        "note": f"{count} random expressions; 90 % are under {ratios[int(count * 0.9)]:.2f}, "
        f"the largest is {ratios[-1]:.2f}",
    }


if __name__ == "__main__":
    for row in rows():
        print(f"{row['name']}: {row['ours']:,.4g} {row['unit']} — {row['note']}")
