"""What several test files share: running each side of the house on one input, and plain Python answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import kleene as kl
from kleene.lowering.guarding import guarded_updates
from kleene.lowering.rule_machine import RuleMachine

START = 2  # of the parity programs


def outcome(run: Callable[[], Any]) -> Any:
    """Outputs with the number of layers, or the error: its type, and its text where both sides word it."""
    try:
        output = run()
    except kl.UndefinedRead as error:
        return str(error)
    except kl.KleeneError as error:
        return type(error).__name__
    return (list(output), output.layers)


def outcomes(program: Any, tokens: Sequence[int], **options: Any) -> tuple[Any, Any]:
    """Of the interpreter and of the rule machine."""
    machine = RuleMachine(guarded_updates(program))
    return outcome(lambda: program.run(tokens, **options)), outcome(lambda: machine.run(tokens, **options))


def running_parity(bits: Sequence[int]) -> list[int]:
    return [sum(bits[: place + 1]) % 2 for place in range(len(bits))]


def dyck(tokens: Sequence[int], kinds: int) -> list[int]:
    """2 balanced, 1 can still become so, 0 cannot; token 2k opens and 2k + 1 closes the kind k."""
    depths, failed, verdicts = [0] * kinds, False, []
    for token in tokens:
        depths[token // 2] += 1 if token % 2 == 0 else -1
        failed = failed or min(depths) < 0
        verdicts.append(0 if failed else 2 if not any(depths) else 1)
    return verdicts


def most_frequent(tokens: Sequence[int], filler: int) -> list[int]:
    counts = Counter(tokens)  # most_common keeps the order of first occurrence among equals
    found = [value for value, _ in counts.most_common()]
    return found + [filler] * (len(tokens) - len(found))


def subleq(memory: Sequence[int], low: int, high: int, limit: int = 1_000) -> tuple[list[int], int]:
    """The memory at the end, and the number of instructions, the one that halts included."""
    memory, size, pc = list(memory), high - low + 1, 0
    for count in range(1, limit + 1):
        a, b, c = memory[pc : pc + 3]
        if a < 0 or b < 0:
            return memory, count
        memory[b] = (memory[b] - memory[a] - low) % size + low
        if memory[b] > 0:
            pc += 3
        elif c < 0:
            return memory, count
        else:
            pc = c
    raise AssertionError("the program of the test does not end")


def lookup(**options: Any) -> Any:
    """A program that looks, from everywhere, for the position of the token 1."""

    class Lookup(kl.Program):
        tokens = 3
        key = kl.cat(3, token=lambda t: t)
        wanted = kl.cat(3, default=1)
        index = kl.cat(6, position=lambda p: p)
        found = kl.attend(wanted, key, index, **options)
        result = kl.cat(6)
        output = result
        layers = 1

        def step(z):
            z.result = z.found

    return Lookup
