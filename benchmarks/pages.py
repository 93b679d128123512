"""Sizes of pages, and how soon they can be used in Chromium: SCAN, and 100 positions × 50 variables × 400 layers."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kleene as kl
from benchmarks.chromium import Browser, chromium, find_chromium
from benchmarks.measure import Row

COMMANDS = ("jump twice and look left", "jump around right thrice and look around left thrice")
MEGABYTES, SECONDS = 5, 2
OPENED = 5  # times that each page is opened; the median counts
STEP = (
    "(() => { const begin = performance.now(); view.player.go(LAYER); document.body.offsetHeight; "
    "return performance.now() - begin; })()"
)


def rows() -> Iterator[Row]:
    """Every row of the table, measured now."""
    if find_chromium() is None:
        yield {"name": "pages", "ours": "not measured: Chromium is not installed"}
        return
    scan = kl.library.scan
    with chromium() as browser, tempfile.TemporaryDirectory() as folder:
        for command in COMMANDS:
            trace = scan.trace(scan.encode(command))
            yield from measured(browser, f"page of SCAN '{command}'", trace, Path(folder) / "page.html")
        name = "page of 100 positions × 50 variables × 400 layers"
        yield from measured(browser, name, large_trace(), Path(folder) / "page.html")
        steps = [browser.do(STEP.replace("LAYER", str(layer))) for layer in range(1, 21)]
        yield {"name": f"{name}: a step, all cells changing", "ours": statistics.median(steps), "unit": "ms"}


def measured(browser: Browser, name: str, trace: Any, path: Path) -> Iterator[Row]:
    """The size of a page, and the seconds from the start of loading it until it is drawn and can be used."""
    size = len(trace.to_html(path).encode())
    yield {"name": f"{name}: size", "ours": size / 1e6, "unit": "MB", "at_most": MEGABYTES}
    seconds = statistics.median(browser.open(path) / 1000 for _ in range(OPENED))
    yield {"name": f"{name}: interactive in Chromium", "ours": seconds, "unit": "s", "at_most": SECONDS}


def large_trace() -> Any:
    """A program whose every variable changes at every position in every layer: the most that a page must bear."""

    class large(kl.Program):
        tokens, positions, layers = 2, 100, 400
        for number in range(50):
            locals()[f"v{number}"] = kl.cat(4, position=lambda p, n=number: p * (n + 1) % 4)  # type: ignore[misc]
        for number in range(8):
            locals()[f"left{number}"] = kl.relative(locals()[f"v{number}"], -1 - number, default=0)
        output = locals()["v0"]
        del number

        def step(z: Any) -> None:
            for number in range(50):
                more = getattr(z, f"left{number}") if number < 8 else 0
                setattr(z, f"v{number}", (getattr(z, f"v{number}") + more + 1) % 4)

    return large.trace([0] * 100)
