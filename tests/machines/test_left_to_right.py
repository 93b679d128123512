"""Programs whose heads look left as Mealy machines, against the interpreter on all short inputs."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import pytest

import kleene as kl
from kleene.machines.left_to_right import transducer_of


def outcomes(program: Any, longest: int) -> dict[tuple[int, ...], list[int] | None]:
    """What the interpreter gives on all inputs; None where it raises."""
    found = {}
    for length in range(1, longest + 1):
        for tokens in product(range(program.spec.tokens), repeat=length):
            try:
                found[tokens] = list(program.run(list(tokens), max_layers=60))
            except kl.KleeneError:
                found[tokens] = None
    return found


def check(program: Any, longest: int, limit: int = 2_000) -> Any:
    """The machine writes what the interpreter gives, and lacks a move where it raises."""
    machine = transducer_of(program, limit=limit)
    for tokens, wanted in outcomes(program, longest).items():
        state, written = machine.steps(machine.start, [machine.alphabet[t] for t in tokens])
        found = None if state is None else [int(symbol) for symbol in written]
        assert found == wanted, (program.spec, tokens, found, wanted)
    return machine


def random_program(seed: int, halts: bool) -> Any:
    """Random heads of every kind that looks left, and a random step on what they read."""
    rng = random.Random(seed)
    size = rng.choice([2, 3])
    starts = [rng.randrange(size) for _ in range(3)]
    body: dict[str, Any] = {
        "tokens": 3,
        "causal": rng.random() < 0.7 or None,
        "a": kl.cat(size, token=lambda t: starts[t]),
        "b": kl.cat(2, token=lambda t: t % 2),
    }
    a, b = body["a"], body["b"]
    heads = []
    for number in range(rng.choice([1, 1, 2])):
        value, key = rng.choice([a, b]), rng.choice([a, b])
        default = rng.choice([0, 0, None])
        kind = rng.choice(["relative", "relative", "latest", "earliest", "one", "count", "any", "window"])
        if body["causal"] is None:
            kind = "relative" if kind != "window" else kind
        name = f"h{number}"
        among = {rng.choice([b]): rng.randrange(2)} if rng.random() < 0.3 else None
        if kind == "relative":
            head = kl.relative(value, -rng.choice([1, 1, 2]), default=default)
        elif kind == "count":
            head = kl.count(key, key, most=rng.choice([2, 3]), among=among)
        elif kind == "any":
            head = kl.any(key, key, among=among)
            body[f"{name}_here"] = head.own
        elif kind == "window":
            head = kl.attend(key, key, value, offsets=range(-2, 0), default=default, latest=rng.random() < 0.5)
        else:
            head = kl.attend(
                key, key, value, default=default, among=among, latest=kind == "latest", earliest=kind == "earliest"
            )
        body[name] = head
        heads.append(name)
    reads = rng.random() < 0.8
    tables = [[rng.randrange(size) for _ in range(64)] for _ in range(2)]

    def compute(z: Any) -> None:
        total = z.a + 3 * z.b
        if reads or z.b:
            for place, name in enumerate(heads):
                total = total + (place + 6) * getattr(z, name)
        z.a = tables[0][total % 64]
        if not halts:
            z.b = tables[1][total % 64] % 2

    if halts:
        done = body["done"] = kl.cat(2, token=lambda t: t == 2)
        body["done_left"] = kl.relative(done, -1, default=0)

        def wait(z: Any) -> None:
            if not z.done and z.done_left:
                compute(z)
                z.done = 1

        body |= {"step": staticmethod(wait), "halt": {done: 1}}
    else:
        body |= {"step": staticmethod(compute), "layers": rng.choice([1, 2, 3])}
    body["output"] = a
    return type(kl.Program)("random", (kl.Program,), {k: v for k, v in body.items() if v is not None})


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed):
    try:
        check(random_program(seed, halts=False), 5)
    except kl.NotSupported as error:
        assert "takes more than" in str(error)


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_that_wait_for_the_left(seed):
    try:
        check(random_program(seed, halts=True), 5)
    except kl.NotSupported as error:
        assert any(said in str(error) for said in ("takes more than", "depends on how many layers", "goes on after"))


@pytest.mark.slow
def test_five_hundred_random_programs():
    told = {"agrees": 0, "takes more than": 0, "depends on how many layers": 0}
    for seed in range(1000, 1250):
        for halts in (False, True):
            try:
                check(random_program(seed, halts), 5, limit=500)
                told["agrees"] += 1
            except kl.NotSupported as error:
                told[next(said for said in told if said in str(error))] += 1
    assert told == {"agrees": 354, "takes more than": 14, "depends on how many layers": 132}


class Brackets(kl.Program):
    """Whether the bracket at a position is closed rightly so far: the depth goes from left to right in a variable."""

    tokens = "()"
    causal = True
    open = kl.cat(2, token=lambda t: t == 0)
    depth = kl.cat(5)
    done = kl.cat(2)
    one = kl.cat(2, default=1)
    depth_left = kl.relative(depth, -1, default=0)
    done_left = kl.relative(done, -1, default=1)
    output = depth
    halt = {done: 1}

    def step(z):
        if not z.done and z.done_left:
            z.depth = min(z.depth_left + 1, 4) if z.open else max(z.depth_left - 1, 0)
            z.done = 1


class Since(kl.Program):
    """Layers that take turns, a head that writes into a variable, a head that is limited, and a start by position."""

    tokens = 2
    causal = True
    positions = 6
    bit = kl.cat(2, token=lambda t: t)
    place = kl.cat(6, position=lambda p: p)
    first = kl.cat(7, default=6)
    moved = kl.cat(2)
    seen = kl.cat(6)
    one = kl.cat(2, default=1)
    fetch = kl.attend(one, bit, place, latest=True, default="none")
    carry = kl.relative(bit, -1, default=0, into=moved)
    output = seen

    @kl.layer(fetch)
    def look(z):
        z.first = z.fetch

    @kl.layer(carry)
    def mark(z):
        z.seen = (z.place - min(z.first, z.place)) % 6 if z.moved else 5

    cycle = (look, mark)
    layers = 2


def test_depth_of_brackets_is_carried():
    machine = check(Brackets, 8)
    assert len(machine) == 5 and machine("(()(") == "1212"


def test_layers_that_take_turns_and_starts_by_position():
    machine = check(Since, 6)
    assert machine.steps(machine.start, ["1"] * 7)[0] is None  # no more than 6 positions are declared


def test_heads_that_look_right_are_refused_by_name():
    with pytest.raises(kl.NotSupported, match="the head 'token_right' of addition looks 1 to the right"):
        transducer_of(kl.library.addition)
    with pytest.raises(kl.NotSupported, match="the head 'word' of scan looks at every position"):
        transducer_of(kl.library.scan)


def test_endless_memories_are_refused_with_their_head():
    class Majority(kl.Program):
        tokens = 2
        causal = True
        bit = kl.cat(2, token=lambda t: t)
        one = kl.cat(2, default=1)
        share = kl.attend(one, one, bit, output=kl.num(values=[0, 1]))
        result = kl.cat(2)
        output = result
        layers = 1

        def step(z):
            z.result = int(z.share)

    with pytest.raises(kl.NotSupported, match="more than 300 values, mostly through the head 'share'"):
        transducer_of(Majority, limit=300)


def test_outputs_that_depend_on_how_long_the_left_needs_are_refused():
    class Late(kl.Program):
        """A position counts, modulo 2, the layers before its neighbour is done."""

        tokens = 2
        done = kl.cat(2, token=lambda t: t == 1)
        clock = kl.cat(2)
        done_left = kl.relative(done, -1, default=1)
        output = clock
        halt = {done: 1}

        def step(z):
            if not z.done:
                z.clock = 1 - z.clock
                z.done = z.done_left

    with pytest.raises(kl.NotSupported, match="depends on how many layers the positions to its left take"):
        transducer_of(Late)


def test_positions_that_go_on_after_halting_are_refused():
    class Restless(kl.Program):
        tokens = 2
        done = kl.cat(2, token=lambda t: t)
        count = kl.cat(9, saturate=True)
        output = count
        halt = {done: 1}

        def step(z):
            z.count = z.count + 1
            z.done = 1

    with pytest.raises(kl.NotSupported, match="goes on after it has halted"):
        transducer_of(Restless)
