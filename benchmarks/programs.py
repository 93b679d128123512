"""Sizes and speeds of attention programs: the table of the compact lowering, and how costs grow."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.measure import PUBLIC_CODE, Row, cpu_seconds
from kleene import library
from kleene.lowering.guarding import guarded_updates
from kleene.lowering.rule_machine import RuleMachine

# run in a process of its own, so that its peak memory is its own
_COMPILE = """
import json, resource, sys, time
import torch, kleene as kl
torch.set_num_threads(1)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
thing = getattr(kl.library, sys.argv[1])
program = thing(**json.loads(sys.argv[2])) if not isinstance(thing, type) else thing
begin = time.process_time()
net = kl.compile(program)
seconds = time.process_time() - begin
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"seconds": seconds, "megabytes": (peak - before) / 1024, **vars(net.sizes)}))
"""

DEFAULT_SIZE = [
    "parity_relative",
    "parity_absolute",
    "parity_sum",
    "parity_scratchpad",
    "addition",
    "addition_scratchpad",
    "subleq",
    "subleq_words",
    "sort_unique",
    "sort",
    "reverse",
    "histogram",
    "most_frequent",
    "dyck1",
    "dyck2",
    "scan",
]


def compiled(name: str, **parameters: int) -> dict[str, Any]:
    """Time, memory and sizes of compiling a library program."""
    made = subprocess.run(
        [sys.executable, "-c", _COMPILE, name, json.dumps(parameters)], capture_output=True, text=True, check=True
    )
    result: dict[str, Any] = json.loads(made.stdout)
    return result


def rows() -> Iterator[Row]:
    """Every row of the table, measured now."""
    yield from sizes()
    yield from speeds()
    yield from growth()


def sizes() -> Iterator[Row]:
    add, sub = compiled("addition"), compiled("subleq")
    yield {"name": "hidden units: addition", "others": f"16,466 {PUBLIC_CODE}", "ours": add["hidden"], "at_most": 150}
    yield {
        "name": "hidden units: SUBLEQ −16…16, 16 registers",
        "others": f"43,127 {PUBLIC_CODE}",
        "ours": sub["hidden"],
        "at_most": 1000,
    }
    wide = compiled("subleq", low=-128, high=127, registers=64)
    yield {
        "name": "hidden units: SUBLEQ −128…127, 64 registers",
        "ours": wide["hidden"],
        "at_most": 6500,
    }
    parity = compiled("parity_relative")
    yield {
        "name": "hidden units: parity relative",
        "others": f"7 {PUBLIC_CODE}",
        "ours": parity["hidden"],
        "at_most": 7,
    }
    sort, dyck = compiled("sort", length=40, values=40), compiled("dyck2", length=40)
    yield {"name": "sort 40 × 40: compile", "ours": sort["seconds"], "unit": "CPU s", "at_most": 2}
    yield {"name": "sort 40 × 40: non-zero parameters", "ours": sort["nonzero"], "at_most": 1_000_000}
    yield {
        "name": "shuffle-dyck-2, 40: compile",
        "ours": dyck["seconds"],
        "unit": "CPU s",
        "at_most": 2,
    }
    yield {"name": "shuffle-dyck-2, 40: hidden units", "ours": dyck["hidden"], "at_most": 1500}
    every = {name: compiled(name) for name in DEFAULT_SIZE}
    slowest = max(every, key=lambda name: every[name]["seconds"])
    largest = max(every, key=lambda name: every[name]["megabytes"])
    yield {
        "name": f"compile any library program (slowest: {slowest})",
        "ours": every[slowest]["seconds"],
        "unit": "CPU s",
        "at_most": 2,
    }
    yield {
        "name": f"compile any library program: memory (most: {largest})",
        "ours": every[largest]["megabytes"],
        "unit": "MB",
        "at_most": 500,
    }


def speeds() -> Iterator[Row]:
    """20-digit additions, a batch of 256, one thread."""
    import torch

    import kleene as kl

    torch.set_num_threads(1)
    chance = random.Random(0)
    inputs = [library.addition.encode(f"{chance.randrange(10**20)}+{chance.randrange(10**20)}") for _ in range(256)]
    net = kl.compile(library.addition)
    net.run_batch(inputs[:2], evaluator="sparse")  # compiles its kernels once
    seconds = cpu_seconds(lambda: net.run_batch(inputs, evaluator="sparse"), repeat=3) / len(inputs)
    yield {
        "name": "20-digit addition, network (sparse evaluator), a sequence",
        "others": f"266 ms {PUBLIC_CODE}",
        "ours": seconds * 1000,
        "unit": "CPU ms",
        "at_most": 2,
    }
    dense = cpu_seconds(lambda: net.run_batch(inputs[:32], evaluator="dense")) / 32
    yield {"name": "sparse evaluator over dense, 20-digit addition", "ours": dense / seconds, "unit": "times"}
    machine = RuleMachine(guarded_updates(library.addition))
    batch = cpu_seconds(lambda: machine.run_batch(inputs), repeat=3) / len(inputs)
    one = cpu_seconds(lambda: [library.addition.run(tokens) for tokens in inputs[:8]]) / 8
    yield {
        "name": "rule machine over interpreter, 20-digit addition",
        "ours": one / batch,
        "unit": "times",
        "at_least": 100,
    }
    yield from beside_the_rule_machine()
    yield from compiling()
    yield from decoding()


def beside_the_rule_machine() -> Iterator[Row]:
    """The sparse evaluator and the rule machine on batches of 256 inputs, all different.

    The first batch fills the tables of the sparse evaluator; the other rows are the best of four more."""
    import kleene as kl

    chance = random.Random(0)
    programs: list[tuple[str, Any, Callable[[], list[int]], dict[str, float]]] = [
        ("parity_relative, 100 bits", library.parity_relative, lambda: [2, *_drawn(chance, 2, 100)], {"at_most": 1.5}),
        ("parity_absolute, 100 bits", library.parity_absolute(100), lambda: _drawn(chance, 2, 100), {"at_most": 1.5}),
        ("addition, 20 digits", library.addition, lambda: library.addition.sample(chance, 43), {"at_most": 1.5}),
        ("sort, 40 of 40", library.sort(40, 40), lambda: _drawn(chance, 40, 40), {"at_most": 1.5}),
        ("dyck2, 40", library.dyck2(40), lambda: _drawn(chance, 4, 40), {"at_most": 1.5}),
    ]
    for name, program, draw, limit in programs:
        net, machine = kl.compile(program), RuleMachine(guarded_updates(program))
        batches = [[draw() for _ in range(256)] for _ in range(5)]
        net.run_batch(batches[0][:2], evaluator="sparse")  # compiles its kernels once
        net = kl.compile(program)
        sparse = [cpu_seconds(partial(net.run_batch, some, evaluator="sparse")) / 256 for some in batches]
        rules = min(cpu_seconds(partial(machine.run_batch, some)) / 256 for some in batches)
        yield {"name": f"rule machine, {name}", "ours": 1 / rules, "unit": "sequences/s"}
        yield {"name": f"sparse network, {name}: the first batch", "ours": 1 / sparse[0], "unit": "sequences/s"}
        yield {"name": f"sparse network, {name}", "ours": 1 / min(sparse[1:]), "unit": "sequences/s"}
        ratio = min(sparse[1:]) / rules
        yield {"name": f"sparse network over rule machine, {name}", "ours": ratio, "unit": "times its time", **limit}


def _drawn(chance: random.Random, values: int, length: int) -> list[int]:
    return [chance.randrange(values) for _ in range(length)]


def compiling() -> Iterator[Row]:
    """Functions of two large variables: one with few units, one with many."""
    from benchmarks.certificates import of_two

    for name, size, function, limit in (
        ("(a + b) % 1,000", 1000, lambda a, b: (a + b) % 1000, 5),
        ("a · b % 200", 200, lambda a, b: a * b % 200, 10),
    ):
        units, seconds = _compiled(of_two(size, function))
        yield {"name": f"compile {name} ({units:,} units)", "ours": seconds, "unit": "CPU s", "at_most": limit}


def decoding() -> Iterator[Row]:
    """The running parities of 20 bits, written by a decoder: 256 inputs, one thread."""
    import kleene as kl

    program, chance = library.parity_scratchpad(20), random.Random(0)
    inputs = [program.sample(chance, 20) for _ in range(256)]
    net = kl.compile(program)
    net.run_batch(inputs[:2], evaluator="sparse")  # compiles its kernels once
    sparse = cpu_seconds(lambda: net.run_batch(inputs, evaluator="sparse"), repeat=3) / len(inputs)
    dense = cpu_seconds(lambda: net.run_batch(inputs, evaluator="dense")) / len(inputs)
    single = cpu_seconds(lambda: [net.run(tokens, evaluator="dense") for tokens in inputs[:8]]) / 8
    yield {"name": "parity_scratchpad(20), sparse decoding, a sequence", "ours": sparse * 1000, "unit": "CPU ms"}
    yield {"name": "sparse decoding over dense, one by one", "ours": single / sparse, "unit": "times", "at_least": 100}
    yield {"name": "dense decoding in batches over one by one", "ours": single / dense, "unit": "times"}


def growth() -> Iterator[Row]:
    """Hidden units and compile time as ranges and lengths grow; plotted in results/bench/growth.png."""
    _compiled(library.parity_relative)  # what is only done once is done now
    values = [16, 32, 64, 128]
    subleq = [_compiled(library.subleq(-n // 2, n // 2 - 1, n // 4)) for n in values]
    bits = [4, 8, 12, 16]
    words = [_compiled(library.subleq_words(n, 8)) for n in bits]
    lengths = [5, 10, 20, 40]
    dyck = [_compiled(library.dyck2(n)) for n in lengths]
    sort = [_compiled(library.sort(n, n)) for n in lengths]
    on_words = ([1 << n for n in bits], words)
    by_length = {"dyck2 (length)": (lengths, dyck), "sort (length)": (lengths, sort)}
    _plot({"SUBLEQ (values)": (values, subleq), "SUBLEQ on words (values)": on_words, **by_length})
    for (small, large), n in zip(itertools.pairwise(subleq), values[1:]):
        yield {
            "name": f"SUBLEQ hidden units, {n} values over {n // 2}",
            "ours": large[0] / small[0],
            "unit": "times",
            "at_most": 2.2,
        }
    for n, (units, _) in zip(bits, words):
        yield {"name": f"SUBLEQ on words of {n} bits: hidden units", "ours": units, "at_most": 60 * n}
    for n, (units, seconds) in zip(lengths, dyck):
        yield {"name": f"dyck2 length {n}: hidden units; compiled in {seconds:.2f} CPU s", "ours": units}


def _compiled(program: Any) -> tuple[int, float]:
    """Hidden units, and CPU seconds to compile."""
    import kleene as kl

    found: list[int] = []
    seconds = cpu_seconds(lambda: found.append(kl.compile(program).sizes.hidden))
    return found[0], seconds


def _plot(series: dict[str, tuple[list[int], list[tuple[int, float]]]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (units, seconds) = pyplot.subplots(1, 2, figsize=(10, 4))
    for label, (sizes_, made) in series.items():
        units.plot(sizes_, [count for count, _ in made], marker="o", label=label)
        seconds.plot(sizes_, [time for _, time in made], marker="o", label=label)
    for axis, title in ((units, "hidden units"), (seconds, "compiling, CPU seconds")):
        axis.set(xscale="log", yscale="log", xlabel="number of values, or length", title=title)
        axis.legend()
    figure.tight_layout()
    Path("results/bench").mkdir(parents=True, exist_ok=True)
    figure.savefig("results/bench/growth.png", dpi=120)
    pyplot.close(figure)
