"""Where the tests find published data, and the marks of tests that need some."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("KLEENE_DATA") or ROOT.parent / "shared" / "data")
EFORTH = DATA / "subleq" / "subleq.dec"


def needs(*names: str) -> pytest.MarkDecorator:
    """Skip a test where a file or folder of the data sets is missing, and say which."""
    missing = [name for name in names if not (DATA / name).exists()]
    return pytest.mark.skipif(bool(missing), reason=f"not in KLEENE_DATA or ../shared/data: {', '.join(missing)}")


needs_eforth = needs("subleq/subleq.dec")
