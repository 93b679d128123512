"""Kleene: programs into neural networks and neural networks back into programs, exactly.

This file is the list of what users may rely on. Names that need torch are imported when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kleene.errors import (
    DidNotHalt,
    FileError,
    InputError,
    KleeneError,
    NotExact,
    NotSupported,
    ProgramError,
    RangeError,
    StepError,
    TooManyPaths,
    TooManyRules,
    UndefinedRead,
)
from kleene.verbs import certify, compile, decompile, explain, load, verify

__version__ = "0.1.0"

# name → module that has it; imported on first use
_LAZY: dict[str, str] = {
    "decompose": "kleene.evidence.decomposition",
    "interdependence": "kleene.evidence.interdependence",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        value = getattr(import_module(_LAZY[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'kleene' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
