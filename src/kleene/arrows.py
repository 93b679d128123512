"""The table of arrows: which function compiles, reads, checks or exports which class.

Functions and classes are named as text and imported on first use. A new machine or network adds its lines here, and its
overloads to `verbs.py`.
"""

from __future__ import annotations

from importlib import import_module
from inspect import Parameter, signature
from typing import Any

from kleene.errors import NotSupported, a_type

# classes, by their full names
PROGRAM, SOP = "kleene.machines.program.ProgramClass", "kleene.rasp.expressions.SOp"
SELECTOR = "kleene.rasp.expressions.Selector"
UPDATES, CYCLE = "kleene.lowering.updates.Updates", "kleene.lowering.updates.Cycle"
DETERMINISTIC, NONDETERMINISTIC = "kleene.machines.automata.dfa.DFA", "kleene.machines.automata.nfa.NFA"
ALTERNATING = "kleene.machines.automata.alternating.AFA"
TRANSDUCER = "kleene.machines.automata.transducer.Transducer"
WEIGHTED = "kleene.machines.automata.weighted.WeightedAutomaton"
TURING, MULTITAPE = "kleene.machines.turing.TuringMachine", "kleene.machines.multitape.MultiTapeMachine"
ORACLE = "kleene.machines.oracle.OracleLanguage"
TABLE = "kleene.machines.instruction_table.InstructionTable"
TRANSFORMER = "kleene.networks.transformer.model.Transformer"
STOCK, ACCEPTOR = "kleene.networks.stock.model.StockModel", "kleene.networks.stock.acceptor.StockAcceptor"
RNN, DECIDER = "kleene.networks.rnn.exact.ExactRNN", "kleene.networks.rnn.decider.Decider"
GATED, LINEAR = "kleene.networks.rnn.gated.GatedRNN", "kleene.networks.rnn.linear.LinearRNN"
SEQUENCE = "kleene.networks.rnn.sequence.SequenceRNN"
MEMORISER = "kleene.networks.synthesizer.memoriser.Memoriser"
LANGUAGE_MODEL = "kleene.networks.trained.lstm.LanguageModel"
STOCK_SOURCES = (PROGRAM, DETERMINISTIC, NONDETERMINISTIC, TURING)  # what decoders are made of

# verb → (class of the first argument → "module:function")
ARROWS: dict[str, dict[str, str]] = {
    "compile": {
        PROGRAM: "kleene.compilers.program_to_transformer:compile_program",
        SOP: "kleene.compilers.rasp_to_transformer:compile_sop",
        DETERMINISTIC: "kleene.compilers.dfa_to_rnn:compile_dfa",
        NONDETERMINISTIC: "kleene.compilers.nfa_to_rnn:compile_nfa",
        WEIGHTED: "kleene.compilers.dfa_to_linear:compile_weighted",
        TRANSDUCER: "kleene.compilers.transducer_to_rnn:compile_transducer",
        TURING: "kleene.compilers.turing_to_rnn:compile_turing",
        MULTITAPE: "kleene.compilers.multitape_to_rnn:compile_multitape",
        ORACLE: "kleene.compilers.oracle_to_rnn:compile_oracle",
        TABLE: "kleene.compilers.table_to_memoriser:compile_table",
    },
    "decompile": {
        TRANSFORMER: "kleene.checks.readings:decompile_network",
        RNN: "kleene.decompilers.rnn_to_dfa:decompile_rnn",
        GATED: "kleene.decompilers.gated_to_dfa:decompile_gated",
        LINEAR: "kleene.decompilers.linear_to_dfa:decompile_linear",
        SEQUENCE: "kleene.decompilers.sequence_to_transducer:decompile_sequence",
        ACCEPTOR: "kleene.decompilers.acceptor_to_dfa:decompile_acceptor",
        STOCK: "kleene.checks.stock:decompile_stock",
        DECIDER: "kleene.decompilers.rnn_to_turing:decompile_decider",
        MEMORISER: "kleene.decompilers.memoriser_to_table:decompile_memoriser",
    },
    "verify": {
        PROGRAM: "kleene.checks.agreement:verify_program",
        UPDATES: "kleene.checks.agreement:verify_updates",
        CYCLE: "kleene.checks.agreement:verify_updates",
        SOP: "kleene.checks.rasp_agreement:verify_sop",
        DETERMINISTIC: "kleene.checks.bisimulation:verify_dfa",
        NONDETERMINISTIC: "kleene.checks.bisimulation:verify_dfa",
        WEIGHTED: "kleene.checks.weights:verify_weights",
        TRANSFORMER: "kleene.checks.languages:verify_networks",
        GATED: "kleene.checks.languages:verify_networks",
        LINEAR: "kleene.checks.languages:verify_networks",
        ACCEPTOR: "kleene.checks.languages:verify_networks",
        STOCK: "kleene.checks.languages:verify_networks",
        SEQUENCE: "kleene.checks.sequences:verify_sequence",
        RNN: "kleene.checks.bisimulation:verify_saved",
        DECIDER: "kleene.checks.turing_invariants:verify_saved",
        TURING: "kleene.checks.turing_invariants:verify_turing",
        TABLE: "kleene.checks.memorised:verify_table",
    },
    "certify": {
        PROGRAM: "kleene.checks.steps:certify_step",
        TRANSFORMER: "kleene.checks.certificates:certify_transformer",
        STOCK: "kleene.checks.stock:certify_stock",
        RNN: "kleene.checks.bisimulation:certify_rnn",
        GATED: "kleene.checks.languages:certify_gated",
        LINEAR: "kleene.checks.languages:certify_linear",
        SEQUENCE: "kleene.checks.sequences:certify_sequence",
        ACCEPTOR: "kleene.checks.languages:certify_acceptor",
        DECIDER: "kleene.checks.turing_steps:certify_decider",
        MEMORISER: "kleene.checks.memorised:certify_memoriser",
    },
    "learn": {
        PROGRAM: "kleene.training.learn:learn_program",
    },
    "explain": {
        TRANSFORMER: "kleene.evidence.network_traces:explain_transformer",
        RNN: "kleene.evidence.rnn_traces:explain_rnn",
        DECIDER: "kleene.evidence.rnn_traces:explain_decider",
        LANGUAGE_MODEL: "kleene.evidence.explanation:explain_language_model",
        **dict.fromkeys(
            (PROGRAM, DETERMINISTIC, NONDETERMINISTIC, ALTERNATING, TRANSDUCER, WEIGHTED),
            "kleene.truth.shapley:explain_machine",
        ),
    },
}

# the network → (class of the machine → "module:function"), for `compile(machine, to=…)`
NETWORKS: dict[str, dict[str, str]] = {
    "transformer": {
        PROGRAM: ARROWS["compile"][PROGRAM],
        DETERMINISTIC: "kleene.compilers.dfa_to_transformer:compile_to_transformer",
        NONDETERMINISTIC: "kleene.compilers.dfa_to_transformer:compile_to_transformer",
        TURING: "kleene.compilers.turing_to_transformer:compile_turing_to_transformer",
    },
    "rnn": {
        **{kind: ARROWS["compile"][kind] for kind in (DETERMINISTIC, NONDETERMINISTIC, TURING, TRANSDUCER)},
        PROGRAM: "kleene.compilers.transducer_to_rnn:compile_program_to_rnn",
    },
    "decoder": {
        DETERMINISTIC: "kleene.compilers.turing_to_transformer:compile_dfa_to_decoder",
        NONDETERMINISTIC: "kleene.compilers.turing_to_transformer:compile_dfa_to_decoder",
        TURING: "kleene.compilers.turing_to_transformer:compile_turing_to_decoder",
    },
    "lstm": {
        TURING: "kleene.compilers.turing_to_gated:compile_turing_to_lstm",
        DETERMINISTIC: "kleene.compilers.dfa_to_gated:compile_to_lstm",
        NONDETERMINISTIC: "kleene.compilers.dfa_to_gated:compile_to_lstm",
    },
    "linear": {
        TURING: "kleene.compilers.turing_to_transformer:refuse_linear",
        DETERMINISTIC: "kleene.compilers.dfa_to_linear:compile_to_linear",
        NONDETERMINISTIC: "kleene.compilers.dfa_to_linear:compile_to_linear",
        WEIGHTED: ARROWS["compile"][WEIGHTED],
        TRANSDUCER: "kleene.compilers.transducer_to_rnn:compile_transducer_to_linear",
        PROGRAM: "kleene.compilers.transducer_to_rnn:compile_program_to_linear",
    },
    "gru": {
        TURING: "kleene.compilers.turing_to_gated:compile_turing_to_gru",
        DETERMINISTIC: "kleene.compilers.dfa_to_gated:compile_to_gru",
        NONDETERMINISTIC: "kleene.compilers.dfa_to_gated:compile_to_gru",
    },
    "mamba": {
        DETERMINISTIC: "kleene.compilers.dfa_to_mamba:compile_to_mamba",
        NONDETERMINISTIC: "kleene.compilers.dfa_to_mamba:compile_to_mamba",
    },
    "olmo_hybrid": {
        DETERMINISTIC: "kleene.compilers.dfa_to_olmo_hybrid:compile_to_olmo_hybrid",
        NONDETERMINISTIC: "kleene.compilers.dfa_to_olmo_hybrid:compile_to_olmo_hybrid",
    },
    "llama": dict.fromkeys(STOCK_SOURCES, "kleene.compilers.program_to_stock:compile_to_llama"),
    "gpt2": dict.fromkeys(STOCK_SOURCES, "kleene.compilers.program_to_stock:compile_to_gpt2"),
    "phi3": dict.fromkeys(STOCK_SOURCES, "kleene.compilers.program_to_stock:compile_to_phi3"),
    "qwen3": dict.fromkeys(STOCK_SOURCES, "kleene.compilers.program_to_stock:compile_to_qwen3"),
}

# the class of a machine → why the networks that are missing above are missing, and what holds it
MISSING: dict[str, str] = {
    WEIGHTED: "saturated gates and bounded whole numbers take finitely many values, so they compute finitely many "
    "weights; to='linear' holds its weights as they are",
    TRANSDUCER: "no theorem forbids it, but Kleene has no such compiler; to='rnn' and to='linear' hold it",
    PROGRAM: "no theorem forbids it, but Kleene has no such compiler; where its heads look left, to='rnn' and "
    "to='linear' hold it",
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
        RNN: "kleene.exporters.rnn_to_onnx:export_onnx",
        GATED: "kleene.exporters.gated_to_onnx:export_onnx",
    },
    "graphviz": {
        DETERMINISTIC: "kleene.exporters.machine_to_graphviz:export_graphviz",
        ALTERNATING: "kleene.exporters.machine_to_graphviz:export_graphviz",
        NONDETERMINISTIC: "kleene.exporters.machine_to_graphviz:export_graphviz",
        TRANSDUCER: "kleene.exporters.machine_to_graphviz:export_graphviz",
        TURING: "kleene.exporters.machine_to_graphviz:export_graphviz",
        RNN: "kleene.exporters.machine_to_graphviz:export_decompiled",
        GATED: "kleene.exporters.machine_to_graphviz:export_decompiled",
        LINEAR: "kleene.exporters.machine_to_graphviz:export_decompiled",
    },
    "circuit": {
        TRANSFORMER: "kleene.exporters.transformer_to_circuit:export_circuit",
        STOCK: "kleene.exporters.stock_to_circuit:export_stock_circuit",
    },
    "llama": {TRANSFORMER: "kleene.exporters.transformer_to_stock:export_llama"},
    "gpt2": {TRANSFORMER: "kleene.exporters.transformer_to_stock:export_gpt2"},
    "phi3": {TRANSFORMER: "kleene.exporters.transformer_to_stock:export_phi3"},
    "qwen3": {TRANSFORMER: "kleene.exporters.transformer_to_stock:export_qwen3"},
}

# kind written in a saved folder's kleene.json → the loader of such a folder
LOADERS: dict[str, str] = {
    "transformer": "kleene.networks.transformer.model:load",
    "learned": "kleene.networks.trained.learned_mlp:load",
    "standard": "kleene.networks.trained.encoder_decoder:load",
    "rnn": "kleene.networks.rnn.files:load",
    "decider": "kleene.networks.rnn.decider:load",
    "gated": "kleene.networks.rnn.gated:load",
    "linear": "kleene.networks.rnn.linear:load",
    "sequence": "kleene.networks.rnn.sequence:load",
    "lstm": "kleene.networks.trained.lstm:load",
    "classifier": "kleene.networks.trained.word_classifier:load",
    "memoriser": "kleene.networks.synthesizer.memoriser:load",
    "stock": "kleene.networks.stock.model:load",
    "mamba": "kleene.networks.stock.mamba:load",
    "olmo_hybrid": "kleene.networks.stock.olmo_hybrid:load",
}


def resolve(target: str) -> Any:
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


def find_arrow(verb: str, thing: Any, options: dict[str, Any], arrows: dict[str, dict[str, str]] = ARROWS) -> Any:
    """Find the function that does `verb` for a thing of this kind, and check that it knows the options."""
    for cls in type(thing).__mro__:
        target = arrows[verb].get(f"{cls.__module__}.{cls.__qualname__}")
        if target is not None:
            found = resolve(target)
            _check_options(verb, thing, found, options)
            return found
    kinds = ", ".join(sorted({name.rpartition(".")[2].removesuffix("Class") for name in arrows[verb]}))
    names = (f"{cls.__module__}.{cls.__qualname__}" for cls in type(thing).__mro__)
    why = next((MISSING[name] for name in names if name in MISSING), None) if arrows is NETWORKS else None
    other = "" if why is None else f". {why[0].upper()}{why[1:]}"
    if verb == "explain" and any(cls.__module__.startswith("torch.nn.") for cls in type(thing).__mro__):
        other = "; kl.contributions takes any model of torch"
    if verb == "compile" and SELECTOR in (f"{cls.__module__}.{cls.__qualname__}" for cls in type(thing).__mro__):
        other = "; rasp.SelectorWidth and rasp.Aggregate make an SOp of a selector"
    raise NotSupported(f"{verb}: cannot take {a_type(thing).removesuffix('Class')}; it takes: {kinds}{other}")


def _check_options(verb: str, thing: Any, found: Any, options: dict[str, Any]) -> None:
    known = signature(found).parameters.values()
    if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in known):
        return  # the function itself rejects unknown ones
    names = [parameter.name for parameter in known if parameter.kind is Parameter.KEYWORD_ONLY]
    for option in options.keys() - set(names):
        kind = a_type(thing).removesuffix("Class")
        there = f"; its options: {', '.join(names)}" if names else "; it has none"
        elsewhere = ", ".join(f"to='{name}'" for name in _networks_with(thing, option) if name != verb)
        hint = f"; {option}= goes with {elsewhere}" if elsewhere and (verb == "compile" or verb in NETWORKS) else ""
        raise NotSupported(f"{verb}: there is no option {option}= for {kind}{there}{hint}")


def _networks_with(thing: Any, option: str) -> list[str]:
    """The networks that this machine fits and whose compilers take an option."""
    kinds = [f"{cls.__module__}.{cls.__qualname__}" for cls in type(thing).__mro__]
    targets = {name: arrows[kind] for name, arrows in NETWORKS.items() for kind in kinds if kind in arrows}
    return [name for name, target in targets.items() if option in signature(resolve(target)).parameters]
