"""The screens on which pages are tested, and the mark of tests that need a browser."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks.chromium import find_chromium

SCREENS: dict[str, dict[str, Any]] = {
    "laptop": {"width": 1280, "height": 820},
    "tablet": {"width": 820, "height": 1180, "phone": True},
    "phone": {"width": 390, "height": 844, "phone": True},
}
needs_chromium = pytest.mark.skipif(
    find_chromium() is None, reason="Chromium is not installed (Debian: apt-get install chromium); .ci/run installs it"
)
