"""What every benchmark uses: rows, and CPU seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

Row = dict[str, Any]
PUBLIC_CODE = "(public code, measured by us, November 2026)"  # the source of a figure of others


def cpu_seconds(work: Callable[[], Any], repeat: int = 1, warm: bool = False) -> float:
    """The smallest CPU time of some runs, perhaps after one that is not counted."""
    if warm:
        work()
    best = float("inf")
    for _ in range(repeat):
        begin = time.process_time()
        work()
        best = min(best, time.process_time() - begin)
    return best
