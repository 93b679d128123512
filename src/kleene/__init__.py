"""Kleene: programs into neural networks and neural networks back into programs, exactly.

This file lists what users may rely on. Names that need torch are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kleene import library
from kleene.errors import (
    DidNotHalt,
    FileError,
    InputError,
    KleeneError,
    KleeneWarning,
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
from kleene.lowering.words import concat, extend
from kleene.machines.arrays import array
from kleene.machines.declarations import (
    Head,
    Variable,
    any,
    attend,
    cat,
    clear,
    count,
    counting,
    layer,
    length,
    num,
    relative,
    subset,
    word,
)
from kleene.machines.program import Program
from kleene.verbs import certify, compile, decompile, explain, export, learn, load, verify

if TYPE_CHECKING:  # for type checkers and editors, every lazy name; at run time `__getattr__` imports it
    from kleene import rasp as rasp
    from kleene.checks.agreement import Report as Report
    from kleene.checks.certificates import Certificate as Certificate
    from kleene.checks.comparison import compare as compare
    from kleene.checks.landscape import landscape as landscape
    from kleene.checks.minimality import minimal as minimal
    from kleene.checks.unspecified import is_minimal as is_minimal
    from kleene.checks.unspecified import unspecified as unspecified
    from kleene.common.text import Text as Text
    from kleene.compilers.classifier_to_synthesizer import soft_instruction as soft_instruction
    from kleene.compilers.classifier_to_synthesizer import soft_memory as soft_memory
    from kleene.decompilers.from_samples import from_samples as from_samples
    from kleene.decompilers.lstar import extract as extract
    from kleene.decompilers.mealy import extract_mealy as extract_mealy
    from kleene.evidence.contributions import contributions as contributions
    from kleene.evidence.decomposition import decompose as decompose
    from kleene.evidence.interdependence import interdependence as interdependence
    from kleene.lowering.guarding import guarded_updates as guarded_updates
    from kleene.lowering.rules import RuleBuilder as RuleBuilder
    from kleene.lowering.rules import rules as rules
    from kleene.lowering.size_report import explain_size as explain_size
    from kleene.lowering.step_traces import traces as traces
    from kleene.lowering.updates import Cycle as Cycle
    from kleene.lowering.updates import Updates as Updates
    from kleene.machines import subleq as subleq
    from kleene.machines import three_address as three_address
    from kleene.machines.automata.alternating import AFA as AFA
    from kleene.machines.automata.dfa import DFA as DFA
    from kleene.machines.automata.nfa import NFA as NFA
    from kleene.machines.automata.regex import regex as regex
    from kleene.machines.automata.transducer import Transducer as Transducer
    from kleene.machines.automata.weighted import WeightedAutomaton as WeightedAutomaton
    from kleene.machines.instruction_table import InstructionTable as InstructionTable
    from kleene.machines.multitape import MultiTapeMachine as MultiTapeMachine
    from kleene.machines.oracle import OracleLanguage as OracleLanguage
    from kleene.machines.turing import TuringMachine as TuringMachine
    from kleene.networks.rnn.decider import Decider as Decider
    from kleene.networks.rnn.exact import ExactRNN as ExactRNN
    from kleene.networks.rnn.gated import GatedRNN as GatedRNN
    from kleene.networks.rnn.linear import LinearRNN as LinearRNN
    from kleene.networks.rnn.oracle import OracleRNN as OracleRNN
    from kleene.networks.rnn.sequence import SequenceRNN as SequenceRNN
    from kleene.networks.stock.mamba import MambaAcceptor as MambaAcceptor
    from kleene.networks.stock.model import StockModel as StockModel
    from kleene.networks.stock.olmo_hybrid import OlmoHybridAcceptor as OlmoHybridAcceptor
    from kleene.networks.synthesizer.memoriser import Memoriser as Memoriser
    from kleene.networks.synthesizer.synthesizer import Synthesizer as Synthesizer
    from kleene.networks.trained.encoder_decoder import StandardTransformer as StandardTransformer
    from kleene.networks.trained.learned_mlp import LearnedTransformer as LearnedTransformer
    from kleene.networks.trained.lstm import LanguageModel as LanguageModel
    from kleene.networks.trained.word_classifier import WordClassifier as WordClassifier
    from kleene.networks.transformer.model import Transformer as Transformer
    from kleene.rasp.from_program import to_rasp as to_rasp
    from kleene.training.memorise import memorise as memorise
    from kleene.truth.causal_graph import causal_graph as causal_graph
    from kleene.truth.shapley import effects as effects
    from kleene.truth.shapley import interactions as interactions
    from kleene.truth.shapley import shapley as shapley

__version__ = "0.2.0.dev0"

# name → module that has it; imported on first use
_LAZY: dict[str, str] = {
    "rules": "kleene.lowering.rules",
    "traces": "kleene.lowering.step_traces",
    "Text": "kleene.common.text",
    "guarded_updates": "kleene.lowering.guarding",
    "RuleBuilder": "kleene.lowering.rules",
    "explain_size": "kleene.lowering.size_report",
    "AFA": "kleene.machines.automata.alternating",
    "InstructionTable": "kleene.machines.instruction_table",
    "Synthesizer": "kleene.networks.synthesizer.synthesizer",
    "memorise": "kleene.training.memorise",
    "soft_instruction": "kleene.compilers.classifier_to_synthesizer",
    "soft_memory": "kleene.compilers.classifier_to_synthesizer",
    "DFA": "kleene.machines.automata.dfa",
    "NFA": "kleene.machines.automata.nfa",
    "Transducer": "kleene.machines.automata.transducer",
    "WeightedAutomaton": "kleene.machines.automata.weighted",
    "MultiTapeMachine": "kleene.machines.multitape",
    "OracleLanguage": "kleene.machines.oracle",
    "TuringMachine": "kleene.machines.turing",
    "extract": "kleene.decompilers.lstar",
    "extract_mealy": "kleene.decompilers.mealy",
    "from_samples": "kleene.decompilers.from_samples",
    "minimal": "kleene.checks.minimality",
    "is_minimal": "kleene.checks.unspecified",
    "unspecified": "kleene.checks.unspecified",
    "compare": "kleene.checks.comparison",
    "landscape": "kleene.checks.landscape",
    "regex": "kleene.machines.automata.regex",
    "contributions": "kleene.evidence.contributions",
    "decompose": "kleene.evidence.decomposition",
    "interdependence": "kleene.evidence.interdependence",
    "rasp": "kleene.rasp",
    "to_rasp": "kleene.rasp.from_program",
    "subleq": "kleene.machines.subleq",  # modules: assemble, run, …
    "three_address": "kleene.machines.three_address",
    "Transformer": "kleene.networks.transformer.model",
    "ExactRNN": "kleene.networks.rnn.exact",
    "Decider": "kleene.networks.rnn.decider",
    "GatedRNN": "kleene.networks.rnn.gated",
    "LinearRNN": "kleene.networks.rnn.linear",
    "SequenceRNN": "kleene.networks.rnn.sequence",
    "MambaAcceptor": "kleene.networks.stock.mamba",
    "OlmoHybridAcceptor": "kleene.networks.stock.olmo_hybrid",
    "StockModel": "kleene.networks.stock.model",
    "OracleRNN": "kleene.networks.rnn.oracle",
    "Memoriser": "kleene.networks.synthesizer.memoriser",
    "LanguageModel": "kleene.networks.trained.lstm",
    "LearnedTransformer": "kleene.networks.trained.learned_mlp",
    "WordClassifier": "kleene.networks.trained.word_classifier",
    "StandardTransformer": "kleene.networks.trained.encoder_decoder",
    "shapley": "kleene.truth.shapley",
    "interactions": "kleene.truth.shapley",
    "effects": "kleene.truth.shapley",
    "causal_graph": "kleene.truth.causal_graph",
    "Report": "kleene.checks.agreement",
    "Certificate": "kleene.checks.certificates",
    "Updates": "kleene.lowering.updates",
    "Cycle": "kleene.lowering.updates",
}

__all__ = [
    "DidNotHalt",
    "FileError",
    "Head",
    "InputError",
    "KleeneError",
    "KleeneWarning",
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
    "Variable",
    "WrongReplacement",
    "among",
    "any",
    "array",
    "attend",
    "cat",
    "certify",
    "clear",
    "compile",
    "concat",
    "counting",
    "count",
    "decompile",
    "explain",
    "export",
    "extend",
    "learn",
    "length",
    "library",
    "load",
    "num",
    "layer",
    "relative",
    "subset",
    "table",
    "verify",
    "word",
    *_LAZY,  # pyright: ignore[reportUnsupportedDunderAll]
]


if not TYPE_CHECKING:  # so that checkers reject a name that is not above

    def __getattr__(name: str) -> Any:
        if name in _LAZY:
            module = import_module(_LAZY[name])
            value = getattr(module, name, module)
            globals()[name] = value
            return value
        raise AttributeError(f"module 'kleene' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
