"""Kleene: programs into neural networks and neural networks back into programs, exactly.

This file is the list of what users may rely on. Names that need torch are imported when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from kleene import library
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
    UnknownName,
    WrongReplacement,
)
from kleene.lowering.symbolic import among, table
from kleene.machines.program import Program, attend, cat, layer, num, relative, subset, word
from kleene.verbs import certify, compile, decompile, explain, export, learn, load, verify

__version__ = "0.1.0"

# name → module that has it; imported on first use
_LAZY: dict[str, str] = {
    "rules": "kleene.lowering.rules",
    "traces": "kleene.lowering.step_traces",
    "guarded_updates": "kleene.lowering.updates",
    "RuleBuilder": "kleene.lowering.rules",
    "explain_size": "kleene.lowering.size_report",
    "AFA": "kleene.machines.automata.alternating",
    "InstructionTable": "kleene.machines.instruction_table",
    "Synthesizer": "kleene.networks.synthesizer.synthesizer",
    "memorise": "kleene.training.memorise",
    "soft_instruction": "kleene.compilers.classifier_to_synthesizer",
    "soft_memory": "kleene.compilers.classifier_to_synthesizer",
    "DFA": "kleene.machines.automata.dfa",
    "MultiTapeMachine": "kleene.machines.multitape",
    "OracleLanguage": "kleene.machines.oracle",
    "TuringMachine": "kleene.machines.turing",
    "extract": "kleene.decompilers.lstar",
    "minimal": "kleene.checks.minimality",
    "is_minimal": "kleene.checks.unspecified",
    "unspecified": "kleene.checks.unspecified",
    "landscape": "kleene.checks.landscape",
    "regex": "kleene.machines.automata.regex",
    "decompose": "kleene.evidence.decomposition",
    "interdependence": "kleene.evidence.interdependence",
    "subleq": "kleene.machines.subleq",  # modules: assemble, run, …
    "three_address": "kleene.machines.three_address",
}

__all__ = [
    "DidNotHalt",
    "FileError",
    "InputError",
    "KleeneError",
    "NotExact",
    "NotSupported",
    "Program",
    "ProgramError",
    "RangeError",
    "StepError",
    "TooManyPaths",
    "TooManyRules",
    "UndefinedRead",
    "UnknownName",
    "WrongReplacement",
    "among",
    "attend",
    "cat",
    "certify",
    "compile",
    "decompile",
    "explain",
    "export",
    "learn",
    "library",
    "load",
    "num",
    "layer",
    "relative",
    "subset",
    "table",
    "verify",
    "word",
    *_LAZY,
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        module = import_module(_LAZY[name])
        value = getattr(module, name, module)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'kleene' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
