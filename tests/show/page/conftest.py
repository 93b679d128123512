"""One Chromium for the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from benchmarks.chromium import chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def quiet(browser: Any) -> Iterator[Any]:
    """A browser in which no page complains or asks the network for anything."""
    yield browser
    assert browser.complaints == []
    assert all(url.startswith(("file:", "about:", "data:")) for url in browser.requests)
