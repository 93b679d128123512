"""Random machines and networks for the tests."""

from __future__ import annotations

import random

from kleene.machines.automata.dfa import DFA
from kleene.machines.multitape import MultiTapeMachine, rule
from kleene.machines.turing import TuringMachine
from kleene.networks.rnn.exact import ExactRNN
from kleene.networks.rnn.matrix import Matrix, vector


def random_dfa(rng: random.Random, states: int = 8, symbols: int = 3) -> DFA:
    n, k = rng.randint(1, states), rng.randint(1, symbols)
    table = [[rng.randrange(n) for _ in range(k)] for _ in range(n)]
    return DFA(table, [q for q in range(n) if rng.random() < 0.5], "abc"[:k], rng.randrange(n))


def random_word(rng: random.Random, alphabet: str | tuple[str, ...], longest: int) -> str:
    return "".join(rng.choice(alphabet) for _ in range(rng.randint(0, longest))) if alphabet else ""


def random_turing(rng: random.Random, states: int = 4, symbols: int = 4) -> TuringMachine:
    names = [f"s{i}" for i in range(rng.randint(1, states))]
    tape = ["_", "a", "b", "c"][: rng.randint(2, symbols)]
    targets = [*names * 3, "Y", "N"]
    rows = {q: {a: (rng.choice(targets), rng.choice(tape), rng.choice([-1, 1, -1, 1, 0])) for a in tape} for q in names}
    alphabet = tuple(tape[1 : rng.randint(2, len(tape))])
    return TuringMachine(rows, names[0], frozenset("Y"), frozenset("N"), "_", alphabet, two_way=rng.random() < 0.5)


def random_two_tape(rng: random.Random) -> MultiTapeMachine:
    names = [f"s{i}" for i in range(rng.randint(1, 3))]
    first, second = ["_", "a", "b"][: rng.randint(2, 3)], ["-", "x", "y"][: rng.randint(2, 3)]
    rules = []
    for q in names:
        for a in first:
            whole = rng.random() < 0.3  # one rule for anything on the second tape
            for b in [None] if whole else second:
                rules.append(
                    rule(
                        q,
                        [a, b],
                        rng.choice([*names * 3, "Y", "N"]),
                        [rng.choice([None, *first]), rng.choice([None, *second])],
                        [rng.choice([-1, 0, 1]), rng.choice([-1, 0, 1])],
                    )
                )
    content = "".join(rng.choice(second[1:]) for _ in range(rng.randint(0, 3)))
    return MultiTapeMachine(
        (tuple(first), tuple(second)),
        ("a",),
        tuple(rules),
        names[0],
        frozenset("Y"),
        frozenset("N"),
        (content,),
    )


def random_slu_rnn(rng: random.Random, units: int = 5, symbols: int = 2, boolean_start: bool = True) -> ExactRNN:
    d, k = rng.randint(1, units), rng.randint(1, symbols)

    def matrix(rows: int, columns: int) -> Matrix:
        return Matrix.of([[rng.randint(-2, 2) for _ in range(columns)] for _ in range(rows)])

    start = [rng.randint(0, 1) if boolean_start else rng.randint(-3, 3) for _ in range(d)]
    bias = vector([rng.randint(-2, 2) for _ in range(d)])
    return ExactRNN(
        "ab"[:k],  # type: ignore[arg-type]
        matrix(d, d),
        matrix(d, k),
        bias,
        vector(start),
        matrix(1, d),
        vector([rng.randint(-1, 1)]),
        activation="slu",
    )


def group_words(generators: dict[str, tuple[int, ...]]) -> DFA:
    """The word problem of a permutation group: words over the generators whose product is the identity."""
    one = tuple(range(len(next(iter(generators.values())))))
    number, queue, rows = {one: 0}, [one], []
    for x in queue:
        row = []
        for g in generators.values():
            y = tuple(g[i] for i in x)
            if y not in number:
                number[y] = len(queue)
                queue.append(y)
            row.append(number[y])
        rows.append(row)
    return DFA(rows, [0], list(generators))


A5 = group_words({"a": (1, 2, 0, 3, 4), "b": (1, 2, 3, 4, 0)})
S5 = group_words({"a": (1, 0, 2, 3, 4), "b": (1, 2, 3, 4, 0)})


def bounded_dyck(depth: int) -> DFA:
    """Balanced brackets that are nested at most so deep."""
    dead = depth + 1
    rows = [[q + 1 if q < depth else dead, q - 1 if q else dead] for q in range(depth + 1)]
    return DFA([*rows, [dead, dead]], [0], "()")


def counter(modulus: int) -> DFA:
    """Words whose number of 1s is a multiple of the modulus."""
    return DFA([[q, (q + 1) % modulus] for q in range(modulus)], [0], "01")
