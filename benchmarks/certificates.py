"""How long the independent checker takes: every library program, the cases that once grew too fast, and growth."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kleene as kl
from benchmarks.measure import Row, cpu_seconds
from benchmarks.programs import DEFAULT_SIZE
from kleene import checker


def rows() -> Iterator[Row]:
    """Every row of the table, measured now."""
    for name in DEFAULT_SIZE:
        thing = getattr(kl.library, name)
        units, seconds = certified(thing if isinstance(thing, type) else thing())
        yield {"name": f"certify {name} ({units:,} units)", "ours": seconds, "unit": "CPU s", "at_most": 5}
    for name, program, dtype, limit in large():
        units, seconds = certified(program, dtype)
        yield {"name": f"certify {name} ({units:,} units)", "ours": seconds, "unit": "CPU s", "at_most": limit}
    for name, program, dtype in decompiled():
        net, wanted = kl.compile(program, dtype=dtype), kl.guarded_updates(program)
        found = kl.decompile(net)
        assert found == wanted
        read, compared = cpu_seconds(lambda net=net: kl.decompile(net)), cpu_seconds(lambda a=found, b=wanted: a == b)
        yield {"name": f"decompile {name}", "ours": read, "unit": "CPU s", "at_most": 10}
        yield {"name": f"compare what decompile {name} gave", "ours": compared, "unit": "CPU s", "at_most": 10}
    for name in ("parity_relative", "addition", "dyck2", "scan"):
        thing = getattr(kl.library, name)
        program = thing if isinstance(thing, type) else thing()
        seconds = cpu_seconds(lambda program=program: kl.certify(program))
        yield {"name": f"certify the step of {name}", "ours": seconds, "unit": "CPU s"}
    for name in ("parity_relative", "dyck2", "scan"):
        yield {"name": f"lines of the checker that prove {name}", "ours": lines_run(compiled(name)), "unit": "lines"}
    every = [compiled(name) for name in DEFAULT_SIZE] + [kl.compile(kl.library.computer(16))]
    yield {"name": "lines of the checker that prove these programs", "ours": lines_run(*every), "unit": "lines"}
    yield from growth()


def compiled(name: str) -> Any:
    """The network of a program of the library, at its default size."""
    thing = getattr(kl.library, name)
    return kl.compile(thing if isinstance(thing, type) else thing())


def lines_run(*nets: Any) -> int:
    """How many lines of the checker's functions run when it proves these networks."""
    seen: set[int] = set()

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != checker.__file__:
            return None
        if event == "line":
            seen.add(frame.f_lineno)
        return trace

    sys.settrace(trace)
    try:
        for net in nets:
            assert kl.certify(net).holds
    finally:
        sys.settrace(None)
    return len(seen)


def decompiled() -> Iterator[tuple[str, Any, str | None]]:
    """Name, program, number format: what once took minutes to read back."""
    yield "(a + b) % 100", of_two(100, lambda a, b: (a + b) % 100), None
    yield "(a + b) % 500", of_two(500, lambda a, b: (a + b) % 500), None
    yield "sum of 32-bit words", words(32), "float64"
    yield "addition_scratchpad(16)", kl.library.addition_scratchpad(16), None


def certified(program: Any, dtype: str | None = None, repeat: int = 1) -> tuple[int, float]:
    """Hidden units, and CPU seconds to certify: the best of some runs."""
    net = kl.compile(program, dtype=dtype)

    def certify() -> None:
        certificate = kl.certify(net)
        assert certificate.holds, certificate

    return net.sizes.hidden, cpu_seconds(certify, repeat)


def large() -> Iterator[tuple[str, Any, str | None, float]]:
    """Name, program, number format, limit."""
    yield "computer(16)", kl.library.computer(16), None, 20
    yield "subleq(−128, 127, 64)", kl.library.subleq(-128, 127, 64), None, 60
    yield "dyck2(160)", kl.library.dyck2(160), None, 10
    yield "addition_scratchpad(16)", kl.library.addition_scratchpad(16), None, 10
    yield "(a + b) % 500", of_two(500, lambda a, b: (a + b) % 500), None, 10
    yield "max(a, b) of 1,000 values", of_two(1000, max), None, 10
    yield "a · b % 100", of_two(100, lambda a, b: a * b % 100), None, 10
    yield "sum of 32-bit words", words(32), "float64", 10


def of_two(size: int, function: Any) -> Any:
    """A program with one function of two variables."""

    class two(kl.Program):
        tokens = size
        a = kl.cat(size, token=lambda t: t)
        b = kl.cat(size, token=lambda t: (7 * t) % size)
        c = kl.cat(size)
        output, layers = c, 1

        def step(z: Any) -> None:  # type: ignore[misc]
            z.c = function(z.a, z.b)

    return two


def words(bits: int) -> Any:
    """A sum of two words."""

    class summed(kl.Program):
        tokens = 4
        a = kl.word(bits, token=lambda t: t)
        b = kl.word(bits, token=lambda t: 3 - t)
        c = kl.word(bits)
        output, layers = c, 1

        def step(z: Any) -> None:  # type: ignore[misc]
            z.c = (z.a + z.b) % 2**bits

    return summed


def growth() -> Iterator[Row]:
    """CPU seconds over units; plotted in results/bench/certificates.png.

    A sum of two n-valued variables has 2n thresholds that read 2n values each. So its weights grow with the square of
    its units, and the checker reads each weight: `time over weights` tells how far it is from linear."""
    series = {
        "(a + b) % n": [certified(of_two(n, lambda a, b, n=n: (a + b) % n), repeat=3) for n in (50, 100, 200, 400)],
        "max(a, b)": [certified(of_two(n, max), repeat=3) for n in (100, 200, 400, 800)],
        "dyck2": [certified(kl.library.dyck2(n), repeat=3) for n in (20, 40, 80, 160)],
        "sum of words": [certified(words(n), "float64", repeat=3) for n in (4, 8, 16, 32)],
    }
    _plot(series)
    for name, made in series.items():
        (few, quick), (many, slow) = made[-2:]
        yield {
            "name": f"certify {name}: time over units, {few:,} to {many:,} units",
            "ours": slow / quick / (many / few),
        }
    sizes, times = zip(*(_weights_and_seconds(n) for n in (200, 400, 800)))
    for few, many, quick, slow in zip(sizes, sizes[1:], times, times[1:]):
        yield {
            "name": f"certify (a + b) % n: time over weights, {few:,} to {many:,} weights",
            "ours": slow / quick / (many / few),
        }


def _weights_and_seconds(n: int) -> tuple[int, float]:
    net = kl.compile(of_two(n, lambda a, b: (a + b) % n))
    return net.sizes.nonzero, cpu_seconds(lambda: kl.certify(net), repeat=3)


def _plot(series: dict[str, list[tuple[int, float]]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(6, 4))
    for label, made in series.items():
        axis.plot([units for units, _ in made], [seconds for _, seconds in made], marker="o", label=label)
    axis.set(xscale="log", yscale="log", xlabel="hidden units", ylabel="certifying, CPU seconds")
    axis.legend()
    figure.tight_layout()
    Path("results/bench").mkdir(parents=True, exist_ok=True)
    figure.savefig("results/bench/certificates.png", dpi=120)
    pyplot.close(figure)
