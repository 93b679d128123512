"""The guide's examples run."""

from __future__ import annotations

import doctest
from pathlib import Path


def test_guide() -> None:
    guide = Path(__file__).parents[1] / "docs" / "interdependence.md"
    failures, tried = doctest.testfile(str(guide), module_relative=False)
    assert tried >= 12 and failures == 0
