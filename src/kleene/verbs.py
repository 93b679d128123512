"""The five verbs. Each looks up the arrow that fits what it is given, and imports it only then.

A new machine or network adds a line to `ARROWS`; torch is imported by the arrow, not here.
"""

from __future__ import annotations

from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

from kleene.errors import FileError, NotSupported
from kleene.files import read_json

TRANSFORMER = "kleene.networks.transformer.model.Transformer"

# verb → (class of the first argument → "module:function")
ARROWS: dict[str, dict[str, str]] = {
    "compile": {
        "kleene.machines.program.ProgramClass": "kleene.compilers.program_to_transformer:compile_program",
        "kleene.machines.automata.dfa.DFA": "kleene.compilers.dfa_to_rnn:compile_dfa",
        "kleene.machines.turing.TuringMachine": "kleene.compilers.turing_to_rnn:compile_turing",
        "kleene.machines.multitape.MultiTapeMachine": "kleene.compilers.multitape_to_rnn:compile_multitape",
        "kleene.machines.oracle.OracleLanguage": "kleene.compilers.oracle_to_rnn:compile_oracle",
        "kleene.machines.instruction_table.InstructionTable": "kleene.compilers.table_to_memoriser:compile_table",
    },
    "decompile": {
        TRANSFORMER: "kleene.decompilers.transformer_to_updates:decompile_transformer",
        "kleene.networks.rnn.exact.ExactRNN": "kleene.decompilers.rnn_to_dfa:decompile_rnn",
        "kleene.networks.rnn.decider.Decider": "kleene.decompilers.rnn_to_turing:decompile_decider",
        "kleene.networks.synthesizer.memoriser.Memoriser": "kleene.decompilers.memoriser_to_table:decompile_memoriser",
    },
    "verify": {
        "kleene.machines.program.ProgramClass": "kleene.checks.agreement:verify_program",
        "kleene.lowering.updates.Updates": "kleene.checks.agreement:verify_updates",
        "kleene.lowering.updates.Cycle": "kleene.checks.agreement:verify_updates",
        "kleene.machines.automata.dfa.DFA": "kleene.checks.bisimulation:verify_dfa",
        "kleene.networks.rnn.exact.ExactRNN": "kleene.checks.bisimulation:verify_saved",
        "kleene.networks.rnn.decider.Decider": "kleene.checks.turing_invariants:verify_saved",
        "kleene.machines.turing.TuringMachine": "kleene.checks.turing_invariants:verify_turing",
        "kleene.machines.instruction_table.InstructionTable": "kleene.checks.memorised:verify_table",
    },
    "certify": {
        "kleene.machines.program.ProgramClass": "kleene.checks.steps:certify_step",
        TRANSFORMER: "kleene.checks.certificates:certify_transformer",
        "kleene.networks.rnn.exact.ExactRNN": "kleene.checks.bisimulation:certify_rnn",
        "kleene.networks.rnn.decider.Decider": "kleene.checks.turing_steps:certify_decider",
        "kleene.networks.synthesizer.memoriser.Memoriser": "kleene.checks.memorised:certify_memoriser",
    },
    "learn": {
        "kleene.machines.program.ProgramClass": "kleene.training.learn:learn_program",
    },
    "explain": {
        TRANSFORMER: "kleene.evidence.network_traces:explain_transformer",
        "kleene.networks.rnn.exact.ExactRNN": "kleene.evidence.rnn_traces:explain_rnn",
        "kleene.networks.rnn.decider.Decider": "kleene.evidence.rnn_traces:explain_decider",
        "kleene.networks.trained.lstm.LanguageModel": "kleene.evidence.explanation:explain_language_model",
    },
}

# the tool or format → (class of what is exported → "module:function")
EXPORTS: dict[str, dict[str, str]] = {
    "transformer-lens": {
        TRANSFORMER: "kleene.exporters.transformer_to_lens:export_lens",
    },
    "hugging-face": {
        TRANSFORMER: "kleene.exporters.transformer_to_hugging_face:export_hugging_face",
    },
    "onnx": {
        TRANSFORMER: "kleene.exporters.transformer_to_onnx:export_onnx",
        "kleene.networks.rnn.exact.ExactRNN": "kleene.exporters.rnn_to_onnx:export_onnx",
    },
    "graphviz": {
        "kleene.machines.automata.dfa.DFA": "kleene.exporters.machine_to_graphviz:export_graphviz",
        "kleene.machines.automata.alternating.AFA": "kleene.exporters.machine_to_graphviz:export_graphviz",
        "kleene.machines.turing.TuringMachine": "kleene.exporters.machine_to_graphviz:export_graphviz",
        "kleene.networks.rnn.exact.ExactRNN": "kleene.exporters.machine_to_graphviz:export_decompiled",
    },
    "circuit": {
        TRANSFORMER: "kleene.exporters.transformer_to_circuit:export_circuit",
    },
}

# kind written in a saved folder's kleene.json → the loader of such a folder
LOADERS: dict[str, str] = {
    "transformer": "kleene.networks.transformer.model:load",
    "learned": "kleene.networks.trained.learned_mlp:load",
    "standard": "kleene.networks.trained.encoder_decoder:load",
    "rnn": "kleene.networks.rnn.files:load",
    "decider": "kleene.networks.rnn.decider:load",
    "lstm": "kleene.networks.trained.lstm:load",
    "memoriser": "kleene.networks.synthesizer.memoriser:load",
}


def _resolve(target: str) -> Any:
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


def _arrow(verb: str, thing: Any, arrows: dict[str, dict[str, str]] = ARROWS) -> Any:
    for cls in type(thing).__mro__:
        target = arrows[verb].get(f"{cls.__module__}.{cls.__qualname__}")
        if target is not None:
            return _resolve(target)
    kinds = ", ".join(sorted({name.rpartition(".")[2].removesuffix("Class") for name in arrows[verb]}))
    raise NotSupported(f"{verb}: cannot take a {type(thing).__name__}; it takes: {kinds}")


def _check_options(verb: str, thing: Any, found: Any, options: dict[str, Any]) -> None:
    for option in options.keys() - signature(found).parameters.keys():
        kind = type(thing).__name__.removesuffix("Class")
        raise NotSupported(f"{verb}: there is no option {option}= for a {kind}")


def compile(machine: Any, **options: Any) -> Any:
    """A network whose weights are constructed to compute exactly what `machine` computes."""
    found = _arrow("compile", machine)
    _check_options("compile", machine, found, options)
    return found(machine, **options)


def decompile(network: Any, **options: Any) -> Any:
    """The machine that the weights of `network` implement, found again."""
    return _arrow("decompile", network)(network, **options)


def verify(machine: Any, network: Any, **options: Any) -> Any:
    """A report of how often `machine` and `network` agree, with the shortest disagreement found."""
    return _arrow("verify", machine)(machine, network, **options)


def certify(network: Any, **options: Any) -> Any:
    """A certificate that `network` computes what it says, or the reasons why there is none."""
    certificate = _arrow("certify", network)(network, **options)
    if hasattr(network, "note_certificate"):
        network.note_certificate(certificate)
    return certificate


def learn(machine: Any, data: Any, **options: Any) -> Any:
    """A network that found the behaviour of `machine` on `data` by gradient descent, with its metrics."""
    return _arrow("learn", machine)(machine, data, **options)


def explain(network: Any, input: Any, **options: Any) -> Any:
    """The evidence that fits the kind of `network`: which parts of `input` did what."""
    return _arrow("explain", network)(network, input, **options)


def export(thing: Any, to: str, path: str | Path | None = None, **options: Any) -> Any:
    """`thing` as another tool has it (`to`: transformer-lens, hugging-face, onnx, graphviz or circuit); with a path it
    is written there."""
    if to not in EXPORTS:
        raise NotSupported(f"export: there is no {to!r}; there are {', '.join(EXPORTS)}")
    found = _arrow(to, thing, EXPORTS)
    _check_options(to, thing, found, options)
    return found(thing, path, **options)


def load(folder: str | Path) -> Any:
    """A network that was saved with `.save(folder)`. Loading never runs code from the folder."""
    folder = Path(folder)
    if not folder.is_dir():
        raise FileError(f"{folder}: no such folder; a saved network is a folder with kleene.json in it")
    description = read_json(folder / "kleene.json")
    kind = description.get("kind") if isinstance(description, dict) else None
    if not isinstance(kind, str) or kind not in LOADERS:
        raise FileError(f"{folder}/kleene.json: unknown kind {kind!r}; known: {', '.join(LOADERS)}")
    return _resolve(LOADERS[kind])(folder)
