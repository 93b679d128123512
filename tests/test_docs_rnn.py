"""The guide's Python blocks run."""

from __future__ import annotations

import re
from pathlib import Path

GUIDE = Path(__file__).parent.parent / "docs" / "rnn.md"


def test_guide_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 8
    exec(compile("\n".join(blocks), str(GUIDE), "exec"), {"__name__": "guide"})
