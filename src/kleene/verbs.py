"""The verbs. Each looks up the arrow for the kind of its argument, and imports it only then.

`arrows.py` has the table of arrows; here is what users and type checkers see: an overload for each arrow, with its own
options. The arrow imports torch, not this file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Never, Protocol, TypeVar, overload

from kleene.arrows import EXPORTS, LOADERS, NETWORKS, find_arrow, resolve
from kleene.errors import FileError, NotSupported, a_type
from kleene.files import read_json

if TYPE_CHECKING:
    import numpy as np
    import torch
    from onnx import ModelProto
    from torch import Tensor
    from transformer_lens import HookedTransformer
    from transformer_lens.model_bridge import TransformerBridge

    from kleene.checks.agreement import Report
    from kleene.checks.bisimulation import Bisimulation
    from kleene.checks.bisimulation import Report as WordReport
    from kleene.checks.certificates import Certificate
    from kleene.checks.languages import WordCertificate
    from kleene.checks.memorised import TableCertificate
    from kleene.checks.steps import StepStatement
    from kleene.checks.turing_steps import StepCertificate
    from kleene.common.alphabet import Word
    from kleene.common.cluster import Cluster
    from kleene.common.tokens import Tokens
    from kleene.evidence.explanation import Explanation
    from kleene.evidence.rnn_traces import RnnTrace
    from kleene.exporters.transformer_to_lens import Lens
    from kleene.lowering.updates import Cycle, Updates
    from kleene.machines.automata.alternating import AFA
    from kleene.machines.automata.dfa import DFA
    from kleene.machines.automata.nfa import NFA
    from kleene.machines.automata.transducer import Transducer
    from kleene.machines.automata.weighted import WeightedAutomaton
    from kleene.machines.instruction_table import InstructionTable
    from kleene.machines.multitape import MultiTapeMachine
    from kleene.machines.oracle import OracleLanguage
    from kleene.machines.program import ProgramClass
    from kleene.machines.trace import Trace
    from kleene.machines.turing import TuringMachine
    from kleene.networks.rnn.decider import Decider
    from kleene.networks.rnn.exact import ExactRNN
    from kleene.networks.rnn.gated import GatedRNN
    from kleene.networks.rnn.linear import LinearRNN
    from kleene.networks.rnn.oracle import OracleRNN
    from kleene.networks.rnn.sequence import SequenceRNN
    from kleene.networks.stock.acceptor import StockAcceptor
    from kleene.networks.stock.mamba import MambaAcceptor
    from kleene.networks.stock.model import StockModel
    from kleene.networks.stock.olmo_hybrid import OlmoHybridAcceptor
    from kleene.networks.synthesizer.memoriser import Memoriser
    from kleene.networks.synthesizer.synthesizer import Synthesizer
    from kleene.networks.trained.encoder_decoder import StandardTransformer
    from kleene.networks.trained.learned_mlp import LearnedTransformer
    from kleene.networks.trained.lstm import LanguageModel
    from kleene.networks.trained.word_classifier import WordClassifier
    from kleene.networks.transformer.hugging_face import KleeneModel
    from kleene.networks.transformer.model import Evaluator, Transformer
    from kleene.rasp.expressions import SOp
    from kleene.truth.games import Chances
    from kleene.truth.shapley import Truth

    Network = (
        Transformer
        | LearnedTransformer
        | StandardTransformer
        | ExactRNN
        | GatedRNN
        | LinearRNN
        | SequenceRNN
        | MambaAcceptor
        | OlmoHybridAcceptor
        | LanguageModel
        | WordClassifier
        | Memoriser
    )

    class Acceptor(Protocol):
        """Anything that can say which words it accepts."""

        def accepts_batch(self, words: Sequence[Word]) -> np.ndarray: ...

    N = TypeVar(
        "N",
        Transformer,
        LearnedTransformer,
        StandardTransformer,
        ExactRNN,
        Decider,
        GatedRNN,
        LinearRNN,
        SequenceRNN,
        MambaAcceptor,
        OlmoHybridAcceptor,
        LanguageModel,
        WordClassifier,
        Memoriser,
    )


@overload
def compile(
    machine: ProgramClass,
    *,
    to: Literal["transformer"] = "transformer",
    lowering: Literal["thresholds", "rules"] = "thresholds",
    shape: Literal["universal", "encoder", "decoder"] | None = None,
    layers: int | None = None,
    length: int | None = None,
    dtype: Literal["float32", "float64", "bfloat16"] | torch.dtype | None = None,
    shared: bool = True,
) -> Transformer: ...
@overload
def compile(
    machine: SOp,
    *,
    vocab: Iterable[Any],
    max_seq_len: int,
    causal: bool = False,
    bos: Any = "BOS",
    pad: Any = None,
    compiler_bos: Any = None,
    compiler_pad: Any = None,
    mlp_exactness: float | None = None,
    dtype: Literal["float32", "float64", "bfloat16"] | torch.dtype | None = None,
) -> Transformer: ...
@overload
def compile(
    machine: ProgramClass | DFA | NFA | TuringMachine,
    *,
    to: Literal["llama", "gpt2", "phi3", "qwen3"],
    length: int | None = None,
    dtype: Literal["float32", "bfloat16"] = "float32",
    layers: int | None = None,
    size: str | Mapping[str, int] | None = None,
    spare: Literal["zero", "random"] = "zero",
) -> StockModel: ...
@overload
def compile(
    machine: ProgramClass,
    *,
    to: Literal["rnn"],
    activation: Literal["relu", "slu"] = "relu",
    limit: int = 10_000,
) -> SequenceRNN: ...
@overload
def compile(
    machine: ProgramClass,
    *,
    to: Literal["linear"],
    dtype: Literal["float32", "float64", "bfloat16"] | torch.dtype = "float32",
    limit: int = 10_000,
) -> SequenceRNN: ...
@overload
def compile(
    machine: Transducer,
    *,
    to: Literal["rnn"] = "rnn",
    activation: Literal["relu", "slu"] = "relu",
) -> SequenceRNN: ...
@overload
def compile(
    machine: Transducer,
    *,
    to: Literal["linear"],
    dtype: Literal["float32", "float64", "bfloat16"] | torch.dtype = "float32",
) -> SequenceRNN: ...
@overload
def compile(
    machine: DFA | NFA,
    *,
    to: Literal["rnn"] = "rnn",
    method: Literal["balanced", "smallest", "minsky", "image", "scalar"] = "balanced",
    activation: Literal["relu", "slu"] = "relu",
) -> ExactRNN: ...
@overload
def compile(
    machine: DFA | NFA,
    *,
    to: Literal["transformer"],
    depth: Literal["sequential", "logarithmic", "constant"] = "sequential",
    length: int | None = None,
    dtype: Literal["float32", "float64", "bfloat16"] | torch.dtype | None = None,
) -> Transformer: ...
@overload
def compile(
    machine: DFA | NFA,
    *,
    to: Literal["decoder"],
    length: int = 64,
    dtype: Literal["float32", "float64", "bfloat16"] | torch.dtype | None = None,
) -> Transformer: ...
@overload
def compile(
    machine: TuringMachine,
    *,
    to: Literal["decoder"],
    length: int = 128,
    dtype: Literal["float32", "float64", "bfloat16"] | torch.dtype | None = None,
) -> Transformer: ...
@overload
def compile(
    machine: TuringMachine,
    *,
    to: Literal["transformer"],
    tape: int = 64,
    dtype: Literal["float32", "float64", "bfloat16"] | torch.dtype | None = None,
) -> Transformer: ...
@overload
def compile(
    machine: TuringMachine,
    *,
    to: Literal["lstm", "gru"],
    tape: int | None = None,
    length: int | None = None,
    dtype: Literal["float32", "float64", "bfloat16", "float16"] | torch.dtype = "float32",
) -> GatedRNN: ...
@overload
def compile(machine: TuringMachine, *, to: Literal["linear"]) -> Never: ...
@overload
def compile(
    machine: DFA | NFA,
    *,
    to: Literal["lstm", "gru"],
    dtype: Literal["float32", "float64", "bfloat16", "float16"] | torch.dtype = "float32",
) -> GatedRNN: ...
@overload
def compile(
    machine: DFA | NFA,
    *,
    to: Literal["linear"],
    transitions: Literal["products", "positive", "signed"] = "products",
    factors: int | None = None,
    dtype: Literal["float32", "float64", "bfloat16"] | torch.dtype = "float32",
) -> LinearRNN: ...
@overload
def compile(machine: DFA | NFA, *, to: Literal["mamba"]) -> MambaAcceptor: ...
@overload
def compile(machine: DFA | NFA, *, to: Literal["olmo_hybrid"]) -> OlmoHybridAcceptor: ...
@overload
def compile(
    machine: WeightedAutomaton,
    *,
    to: Literal["linear"] = "linear",
    dtype: Literal["float32", "float64", "bfloat16"] | torch.dtype = "float64",
) -> LinearRNN: ...
@overload
def compile(
    machine: TuringMachine,
    *,
    to: Literal["rnn"] = "rnn",
    form: Literal["compact", "literal"] = "compact",
    base: int = 3,
) -> Decider: ...
@overload
def compile(machine: MultiTapeMachine, *, base: int = 3) -> Decider: ...
@overload
def compile(machine: OracleLanguage, *, base: int = 3) -> OracleRNN: ...
@overload
def compile(
    machine: InstructionTable,
    *,
    method: Literal["grid", "yun"] = "grid",
    dtype: Literal["float32", "float64"] | torch.dtype | None = None,
) -> Memoriser: ...
def compile(machine: Any, *, to: str | None = None, **options: Any) -> Any:
    """Construct a network whose weights compute exactly what `machine` computes.

    - `to`: the network's architecture, for a machine that fits several: "transformer", "rnn", "lstm", "gru",
      "linear", "decoder", "mamba", "olmo_hybrid", "llama", "gpt2", "phi3", "qwen3". By default what is named first
      below. `NotSupported` names the theorem where an architecture cannot hold a machine.

    A program becomes a `Transformer`. Options:

    - `lowering`: "thresholds" for few hidden units, "rules" for one unit per transition rule.
    - `shape`: "universal" loops until it halts, "encoder" runs `layers` layers, "decoder" appends tokens. By default a
      decoder where the program declares `max_tokens`, else universal.
    - `layers`: how many layers an encoder runs.
    - `length`: the longest input that heads which average must resolve.
    - `dtype`: the number format of the weights, "float32" by default; "float64", "bfloat16" or a `torch.dtype`.
    - `shared`: whether the layers of an encoder share their weights.

    An s-op of RASP (`kleene.rasp`) becomes a `Transformer` with `encode`, `decode` and `apply`. Options:

    - `vocab`: the tokens, as in `{"a", "b"}`.
    - `max_seq_len`: the longest input, without the beginning.
    - `causal`: whether a position sees only what is to its left.
    - `bos`: the name of the token that begins every sequence.
    - `pad`: the name of a token that may follow a sequence in `net.apply`.
    - `compiler_bos`, `compiler_pad`: Tracr's names of `bos` and `pad`.
    - `mlp_exactness`: an option of Tracr without effect here, where all answers are exact.
    - `dtype`: as above.
    A decoder with `to="llama"`, `"gpt2"`, `"phi3"` or `"qwen3"` becomes a `StockModel`: an unmodified class of Hugging
    Face's transformers. So does a DFA, as a language model whose allowed tokens keep the word completable, and a Turing
    machine, which writes a token per step. Options:

    - `length`: the longest sequence, with what is generated; by default 512 tokens, 64 for an automaton and 128 for a
      Turing machine.
    - `dtype`: the number format of the weights, "float32" or "bfloat16".
    - `layers`: how many layers to run, for a program that is no decoder and whose heads look left: every position gives
      its output.
    - `size`: pad to the shape of a checkpoint ("gpt2", "llama-3.2-1b", …), or to `{"width": 768, "layers": 12, …}`.
    - `spare`: "zero" or "random" weights for heads and neurons that are left; they write nothing.

    A program whose heads look left, with `to="rnn"` or `to="linear"`, becomes a `SequenceRNN`, which reads once from
    left to right and gives the program's output at every position; so does a Mealy machine (`Transducer`). Options:

    - `limit`: the most values that what a position sees to its left may take (programs).
    - `activation`: "relu", or "slu", of a simple RNN.
    - `dtype`: the number format of a linear RNN.

    A DFA becomes an `ExactRNN`. Options:

    - `method`: "minsky" (|Q||Σ| + 1 units), "image" (a unit for each pair of a state and a symbol that leads to it),
      "scalar" (the state is one number; ReLU only); "smallest" takes the fewest units, "balanced" the least product
      of units and non-zero weights.
    - `activation`: "relu", or "slu" (ReLU clipped at 1).

    A DFA with `to="transformer"` becomes a `Transformer` with `accepts(word)`. Options:

    - `depth`: "sequential" loops one block, a layer per symbol; "logarithmic" composes blocks of symbols, in ⌈log₂ n⌉ +
      3 layers at most; "constant" is a Krohn–Rhodes cascade, for languages whose groups are solvable.
    - `length`: the longest word ("logarithmic" and "constant"); by default 64.
    - `dtype`: the number format of the weights.

    A DFA with `to="lstm"` or `to="gru"` becomes a `GatedRNN`, a plain `torch.nn.LSTM` or `GRU` with a linear read-out.
    Option:

    - `dtype`: the number format of the weights.

    A DFA with `to="linear"` becomes a `LinearRNN`, whose state is multiplied by a matrix of the input's. Options:

    - `transitions`: "products" of matrices that swap or merge two states, in one layer; "positive" for layers of
      diagonal matrices with entries in [0, 1]; "signed" for entries in [−1, 1].
    - `factors`: the most factors of a product; by default as many as are needed.
    - `dtype`: the number format of the weights.

    A DFA of a star-free language with `to="mamba"` becomes a `MambaAcceptor`, an unmodified `MambaForCausalLM` of
    Hugging Face's transformers. A DFA with `to="olmo_hybrid"` becomes an `OlmoHybridAcceptor`, an unmodified
    `OlmoHybridForCausalLM`, where the groups in it have 2ᵃ·3ᵇ elements.

    A weighted automaton becomes a `LinearRNN` with its own matrices. Option: `dtype`.

    A Turing machine with one or several tapes becomes a `Decider`, an oracle language an `OracleRNN`. Options:

    - `form`: "compact", or "literal" for the textbook construction (machines with one tape).
    - `base`: the base of the fractions that hold the tapes, 3 to 128.

    A Turing machine with `to="transformer"` becomes a looped `Transformer` with `decide(word)`. Options:

    - `tape`: how many cells there are; by default 64.
    - `dtype`: the number format of the weights.

    A Turing machine with `to="lstm"` or `to="gru"` becomes a `GatedRNN` that accepts its words on a bounded tape.
    Options:

    - `tape`: how many cells there are; without it `NotSupported` names the theorem.
    - `length`: the longest word; by default as many symbols as the tape has room for.
    - `dtype`: the number format of the weights.

    A Turing machine with `to="decoder"` becomes a `Transformer` whose tokens are the machine's steps; a DFA one that
    completes prefixes to words. Options: `length`, the longest sequence, and `dtype`.

    An instruction table becomes a `Memoriser`. Options:

    - `method`: "grid" uses whole numbers; "yun" is the construction of the theorem.
    - `dtype`: the number format of the weights; by default the smallest that is exact.

    >>> import kleene as kl
    >>> kl.compile(kl.library.parity_relative).run([2, 1, 0, 1])
    [0, 1, 1, 0]
    """
    if to is None:
        return find_arrow("compile", machine, options)(machine, **options)
    if to not in NETWORKS:
        raise NotSupported(f"compile: unknown network {to!r}; choose one of {', '.join(NETWORKS)}")
    return find_arrow(to, machine, options, NETWORKS)(machine, **options)


@overload
def decompile(network: StockModel, *, to: Literal["updates"] = "updates") -> Updates | Cycle: ...
@overload
def decompile(network: StockModel, *, to: Literal["dfa"]) -> DFA: ...
@overload
def decompile(network: StockModel, *, to: Literal["regex"]) -> str: ...
@overload
def decompile(network: StockModel, *, to: Literal["turing"]) -> TuringMachine: ...
@overload
def decompile(network: Transformer, *, blind: bool = False, to: Literal["updates"] = "updates") -> Updates | Cycle: ...
@overload
def decompile(network: Transformer, *, blind: bool = False, to: Literal["dfa"]) -> DFA: ...
@overload
def decompile(network: Transformer, *, blind: bool = False, to: Literal["regex"]) -> str: ...
@overload
def decompile(network: Transformer, *, blind: bool = False, to: Literal["turing"]) -> TuringMachine: ...
@overload  # a Decider is an ExactRNN, too: the first that fits counts
def decompile(network: Decider) -> TuringMachine: ...  # type: ignore[overload-overlap]
@overload
def decompile(
    network: ExactRNN,
    *,
    states: Literal["reachable", "all"] = "reachable",
    limit: int = 100_000,
    to: Literal["dfa"] = "dfa",
) -> DFA: ...
@overload
def decompile(
    network: ExactRNN,
    *,
    states: Literal["reachable", "all"] = "reachable",
    limit: int = 100_000,
    to: Literal["afa"],
) -> AFA: ...
@overload
def decompile(
    network: ExactRNN,
    *,
    states: Literal["reachable", "all"] = "reachable",
    limit: int = 100_000,
    to: Literal["regex"],
) -> str: ...
@overload
def decompile(network: GatedRNN, *, to: Literal["dfa"] = "dfa", limit: int = 100_000) -> DFA: ...
@overload
def decompile(network: GatedRNN, *, to: Literal["regex"], limit: int = 100_000) -> str: ...
@overload
def decompile(network: LinearRNN, *, to: None = None, limit: int = 100_000) -> DFA | WeightedAutomaton: ...
@overload
def decompile(network: LinearRNN, *, to: Literal["dfa"], limit: int = 100_000) -> DFA: ...
@overload
def decompile(network: LinearRNN, *, to: Literal["regex"], limit: int = 100_000) -> str: ...
@overload
def decompile(network: LinearRNN, *, to: Literal["weighted"], limit: int = 100_000) -> WeightedAutomaton: ...
@overload
def decompile(network: StockAcceptor, *, to: Literal["dfa"] = "dfa", limit: int = 20_000) -> DFA: ...
@overload
def decompile(network: StockAcceptor, *, to: Literal["regex"], limit: int = 20_000) -> str: ...
@overload
def decompile(network: SequenceRNN, *, limit: int = 100_000) -> Transducer: ...
@overload
def decompile(network: Memoriser) -> InstructionTable: ...
def decompile(network: Any, **options: Any) -> Any:
    """Read the machine that the weights of `network` implement.

    A transformer gives its guarded updates (a `Cycle` of them where its layers differ), a `Decider` its Turing
    machine, a `Memoriser` its instruction table. Option for a transformer:

    - `blind`: read the weights alone, without the saved description; everything gets new names.
    - `to`: "updates", or "dfa" or "regex" where the network was compiled from an automaton, "turing" from a Turing
      machine.

    An RNN gives a DFA; so does an LSTM or GRU whose gates saturate, and a linear RNN of whole numbers, with `limit` and
    `to`. A linear RNN also gives a weighted automaton (`to="weighted"`), a network that writes a symbol for each that
    it reads a Mealy machine. Options for an RNN:

    - `states`: "reachable" takes the hidden vectors that words reach and minimises; "all" takes every vector of zeros
      and ones (integer weights with SLU).
    - `limit`: the most hidden vectors to visit; `DidNotHalt` above, since the language may not be regular.
    - `to`: "dfa", "afa" for the alternating automaton of the reversed language, or "regex" for a regular expression.

    >>> import kleene as kl
    >>> even = kl.regex("(0|10*1)*", alphabet="01")
    >>> kl.decompile(kl.compile(even)).equivalent(even)
    True
    """
    return find_arrow("decompile", network, options)(network, **options)


@overload
def verify(
    machine: ProgramClass | Updates | Cycle,
    network: Transformer | LearnedTransformer | StandardTransformer | StockModel | SequenceRNN,
    *,
    inputs: Iterable[Tokens] | None = None,
    lengths: Iterable[int] | None = None,
    random: int | None = None,
    seed: int = 0,
    evaluator: Evaluator | None = None,
    layers: int | None = None,
    max_layers: int | None = None,
    cluster: Cluster | str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Report: ...
@overload
def verify(
    machine: SOp,
    network: Transformer,
    *,
    inputs: Iterable[Sequence[Any]] | None = None,
    lengths: Iterable[int] | None = None,
    random: int | None = None,
    seed: int = 0,
    evaluator: Evaluator | None = None,
    progress: Callable[[int], None] | None = None,
) -> Report: ...
@overload
def verify(
    machine: DFA | NFA,
    network: Acceptor,
    *,
    inputs: Iterable[Word] | None = None,
    lengths: Sequence[int] | None = None,
    random: int | None = None,
    length: int = 50,
    seed: int = 0,
    limit: int = 1_000_000,
    progress: Callable[[int], None] | None = None,
) -> WordReport: ...
@overload
def verify(
    machine: SequenceRNN, network: SequenceRNN | Transducer | ProgramClass | None = None, *, limit: int = 1_000_000
) -> WordReport: ...
@overload
def verify(
    machine: TuringMachine,
    network: Decider | Transformer | GatedRNN | StockModel,
    *,
    inputs: Iterable[Word] | None = None,
    lengths: Sequence[int] | None = None,
    random: int | None = None,
    length: int = 10,
    seed: int = 0,
    max_steps: int = 500,
    progress: Callable[[int], None] | None = None,
) -> WordReport: ...
@overload
def verify(
    machine: Decider,
    network: Decider | TuringMachine | Transformer | GatedRNN | StockModel | None,
    *,
    inputs: Iterable[Word] | None = None,
    lengths: Sequence[int] | None = None,
    random: int | None = None,
    length: int = 10,
    seed: int = 0,
    max_steps: int = 500,
    progress: Callable[[int], None] | None = None,
) -> WordReport: ...
@overload
def verify(
    machine: ExactRNN | GatedRNN | LinearRNN | StockAcceptor | StockModel | Transformer,
    network: Acceptor | TuringMachine | Decider | WeightedAutomaton | None = None,
    *,
    inputs: Iterable[Word] | None = None,
    lengths: Sequence[int] | None = None,
    random: int | None = None,
    length: int = 50,
    seed: int = 0,
    limit: int = 1_000_000,
    progress: Callable[[int], None] | None = None,
) -> WordReport: ...
@overload
def verify(
    machine: WeightedAutomaton,
    network: LinearRNN | WeightedAutomaton,
    *,
    inputs: Iterable[Word] | None = None,
    lengths: Sequence[int] | None = None,
    random: int | None = None,
    length: int = 50,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> WordReport: ...
@overload
def verify(machine: InstructionTable, network: Memoriser | Synthesizer) -> WordReport: ...
def verify(machine: Any, network: Any = None, **options: Any) -> Any:
    """Count how often `machine` and `network` agree; the report has the shortest counterexample.

    A program, or guarded updates, and a transformer. Options:

    - `lengths`: check every input of these lengths, as in `range(1, 9)`.
    - `random`: check this many random inputs instead, of these lengths where `lengths` is given.
    - `inputs`: check these inputs instead.
    - `seed`: the seed of the random inputs.
    - `evaluator`: which evaluator runs the network ("dense", "sparse", …); by default the quickest.
    - `layers`: run this many layers instead of until both halt.
    - `max_layers`: give up on an input after this many layers.
    - `cluster`: check on this Ray cluster: its address, "auto", or a `kleene.common.cluster.Cluster`.
    - `progress`: a function that is called with the number of inputs checked so far.

    An s-op of RASP, evaluated in plain Python, and its transformer: options as above, with sequences of tokens for
    inputs and without layers. An input on which the s-op raises is counted in `raised`, and not compared.

    An automaton and a network that accepts words, by default on the words of every length at once where the weights
    tell their automaton, or on chosen words. Instead of an automaton, `verify` takes a network, and compares it with
    another network, or with the automaton that was saved with it. Options:

    - `inputs`, `lengths`, `random`, `seed`, `progress`: as above, with words for inputs.
    - `length`: the longest random word where `lengths` is not given.
    - `limit`: the most hidden vectors of a network, or pairs of a state and a hidden vector, to visit.

    A Turing machine and its network, configuration by configuration, by default on all words of up to 4 symbols but at
    most 50. Options as for a DFA, without `limit`, and:

    - `max_steps`: how many steps of each run to compare.

    Networks of Turing machines that are no `Decider` are compared by their answers and numbers of steps, any two of
    them. Two networks that write a symbol for each that they read are compared on all words, through Mealy machines.

    A weighted automaton and a linear RNN, or two of either that give weights: by default all words at once, in exact
    rationals. Options: `inputs`, `lengths`, `random`, `length`, `seed`, `progress`.

    An instruction table and a network that knows it: every operand of every instruction.

    >>> import kleene as kl
    >>> net = kl.compile(kl.library.parity_relative)
    >>> kl.verify(kl.library.parity_relative, net, lengths=range(1, 5)).checked
    120
    """
    return find_arrow("verify", machine, options)(machine, network, **options)


@overload
def certify(
    network: Transformer | StockModel,
    *,
    dtype: Literal["float32", "float64", "bfloat16", "float16"] | torch.dtype | None = None,
    program: ProgramClass | None = None,
    layers: int | None = None,
) -> Certificate: ...
@overload
def certify(  # type: ignore[overload-overlap]
    network: Decider, *, machine: TuringMachine | MultiTapeMachine | None = None
) -> StepCertificate: ...
@overload
def certify(network: ExactRNN, *, machine: DFA | None = None, limit: int = 1_000_000) -> Bisimulation: ...
@overload
def certify(
    network: GatedRNN,
    *,
    machine: DFA | None = None,
    dtype: Literal["float32", "float64", "bfloat16", "float16"] | torch.dtype | None = None,
    limit: int = 1_000_000,
) -> WordCertificate: ...
@overload
def certify(
    network: LinearRNN,
    *,
    machine: DFA | WeightedAutomaton | None = None,
    dtype: Literal["float32", "float64", "bfloat16"] | torch.dtype | None = None,
    limit: int = 1_000_000,
    tolerance: float = 1e-6,
) -> WordCertificate: ...
@overload
def certify(network: StockAcceptor, *, machine: DFA | None = None, limit: int = 20_000) -> WordCertificate: ...
@overload
def certify(
    network: SequenceRNN,
    *,
    machine: Transducer | None = None,
    program: ProgramClass | None = None,
    dtype: Literal["float32", "float64", "bfloat16"] | torch.dtype | None = None,
    limit: int = 1_000_000,
) -> WordCertificate: ...
@overload
def certify(
    network: ProgramClass,
    *,
    updates: Updates | Cycle | None = None,
    limit: int = 1_000_000,
    layers: int | None = None,
) -> StepStatement: ...
@overload
def certify(
    network: Memoriser,
    *,
    table: InstructionTable | None = None,
    dtype: Literal["float32", "float64"] | torch.dtype | None = None,
) -> TableCertificate: ...
def certify(network: Any, **options: Any) -> Any:
    """Prove from the weights that `network` computes what it says, or give the reasons why there is no proof.

    Options for a transformer:

    - `dtype`: certify the network as if its weights were converted to this number format.
    - `program`: show also that the network was saved with this program's declarations, and that the saved guarded
      updates do what its `step` does.
    - `layers`: how many layers the network runs, where it is not as many as `program` (an encoder of a program that
      halts, for example).

    Options for an RNN, whose certificate is a bisimulation with an automaton, and for an LSTM or GRU, whose certificate
    shows that every gate saturates (in the format `dtype`), and for a linear RNN, whose numbers stay whole:

    - `machine`: the automaton, by default the one that was saved with the network.
    - `limit`: the most pairs of a state and a hidden vector to visit.
    - `tolerance`: the largest error of a weight, for the linear RNN of a weighted automaton; `max_length` says up to
      which length it is certain.

    A network that writes a symbol for each that it reads has the same options with a Mealy machine for `machine`, and:

    - `program`: show also that the machine is that of this program, explored again with its interpreter.

    Options for a program, whose `step` is checked against the guarded updates that it compiles to:

    - `updates`: other guarded updates to check, such as those that were saved with a network.
    - `limit`: the most cases to try one by one.

    Option for the network of a Turing machine, whose every step is shown from the weights, for every tape:

    - `machine`: the machine, by default the one that was saved with the network.

    Options for a memoriser, whose answers are shown not to depend on rounding:

    - `table`: the instruction table that it should know.
    - `dtype`: the number format to look at, by default its own.

    >>> import kleene as kl
    >>> kl.certify(kl.compile(kl.library.parity_relative)).holds
    True
    """
    certificate = find_arrow("certify", network, options)(network, **options)
    if hasattr(network, "note_certificate"):
        network.note_certificate(certificate)
    return certificate


@overload
def learn(
    machine: ProgramClass,
    data: Iterable[Tokens],
    *,
    supervision: Literal["trace"] = "trace",
    test: Iterable[Tokens] | None = None,
    depth: int = 2,
    width: int = 128,
    steps: int = 5_000,
    rate: float = 1e-2,
    optimiser: Literal["adafactor", "adam"] = "adafactor",
    batch: int = 256,
    noise: float = 0.1,
    seed: int = 0,
    every: int | None = None,
    target: float | None = None,
    half: bool = False,
    folder: str | Path | None = None,
    save_seconds: float = 20,
    keep: bool = True,
    deadline: float | None = None,
    device: str | None = None,
    progress: bool = False,
) -> LearnedTransformer: ...
@overload
def learn(
    machine: ProgramClass,
    data: Iterable[Tokens],
    *,
    supervision: Literal["end-to-end"],
    test: Iterable[Tokens] | None = None,
    read: Literal["all", "last"] = "all",
    layers: int = 4,
    shared: bool = True,
    positions: Literal["relative", "absolute"] = "relative",
    width: int = 64,
    hidden: int = 256,
    heads: int = 4,
    head_size: int = 16,
    max_length: int | None = None,
    steps: int = 2_000,
    rate: float = 5e-4,
    optimiser: Literal["adafactor", "adam"] = "adafactor",
    batch: int = 64,
    seed: int = 0,
    every: int | None = None,
    target: float | None = None,
    half: bool | None = None,
    folder: str | Path | None = None,
    save_seconds: float = 20,
    keep: bool = True,
    deadline: float | None = None,
    device: str | None = None,
    progress: bool = False,
) -> StandardTransformer: ...
def learn(machine: Any, data: Any, **options: Any) -> Any:
    """Train a network by gradient descent to do what `machine` does on the inputs `data`; `.metrics` has the curves.

    Options:

    - `supervision`: "trace" trains an MLP on every step of the program and puts it into the compiled network;
      "end-to-end" trains a standard transformer on inputs and outputs alone.
    - `test`: inputs on which the trained network is measured at the end.
    - `steps`: how many steps of gradient descent.
    - `rate`: the learning rate.
    - `optimiser`: "adafactor" or "adam".
    - `batch`: the batch size.
    - `seed`: the seed of weights and batches.
    - `every`: how many steps lie between two measurements.
    - `target`: stop when the measured accuracy reaches this share.
    - `half`: compute matrix products in bfloat16.
    - `folder`: keep checkpoints here; the same call goes on from the last one.
    - `save_seconds`: how many seconds lie between two checkpoints.
    - `keep`: keep the last checkpoint of a run that is done.
    - `deadline`: stop after this many seconds, with a checkpoint.
    - `device`: "cpu" or "cuda"; by default a GPU where there is one.
    - `progress`: show a progress bar.

    With "trace":

    - `depth`: how many hidden layers the MLP has.
    - `width`: how many units each of them has.
    - `noise`: standard deviation of the noise that is added to every value that the MLP reads.

    With "end-to-end":

    - `read`: learn the outputs at "all" positions, or at the "last" one alone.
    - `layers`: how many layers.
    - `shared`: whether the layers share their weights.
    - `positions`: "relative" or "absolute" position embeddings.
    - `width`: the width of the residual stream.
    - `hidden`: how many hidden units an MLP has.
    - `heads`: how many attention heads a layer has.
    - `head_size`: the width of a head.
    - `max_length`: the longest input that absolute positions take.
    """
    return find_arrow("learn", machine, options)(machine, data, **options)


@overload
def explain(network: Transformer, input: Tokens, *, max_layers: int = 10_000) -> Trace: ...
@overload
def explain(network: Decider, input: Word, *, max_steps: int = 500) -> RnnTrace: ...
@overload
def explain(network: ExactRNN, input: Word) -> RnnTrace: ...
@overload
def explain(
    network: LanguageModel,
    input: str | Sequence[str] | Sequence[int] | Tensor,
    *,
    target: str | None = None,
    bias_rule: Literal["focus", "murdoch"] = "focus",
    read: Literal["right", "end"] = "right",
) -> Explanation: ...
@overload
def explain(
    network: DFA | NFA | AFA | Transducer | WeightedAutomaton | ProgramClass,
    input: Word | Sequence[int],
    *,
    distribution: Chances = None,
    position: int | None = None,
) -> Truth: ...
def explain(network: Any, input: Any, **options: Any) -> Any:
    """Show which parts of `input` did what, with the evidence that fits the kind of `network`.

    A transformer gives a trace of every variable, head, position and layer. Option:

    - `max_layers`: `DidNotHalt` after this many layers.

    An RNN gives a trace of its hidden vectors. Option for the network of a Turing machine:

    - `max_steps`: how many steps to show.

    A language model gives the interdependence of all pairs of words, and each word's contribution to the next. Options:

    - `target`: the next word to explain; by default the likeliest.
    - `bias_rule`: "focus" gives words in focus the product of the gates' biases; "murdoch", the original rule,
      does not.
    - `read`: where a pair is read, at its "right" word or at the "end" of the sentence.

    An automaton or an attention program gives exact Shapley values, interactions and effects of interventions. Options:

    - `distribution`: how the symbols outside a coalition are drawn: uniformly, or with the probabilities of a mapping,
      or of one mapping per position.
    - `position`: the position of an attention program whose output counts; by default the last.

    >>> import kleene as kl
    >>> kl.explain(kl.compile(kl.library.parity_relative), [2, 1, 1]).outputs
    [0, 1, 0]
    """
    return find_arrow("explain", network, options)(network, input, **options)


@overload
def export(
    thing: Transformer,
    to: Literal["transformer-lens"],
    path: None = None,
    *,
    layers: int | None = None,
    length: int | None = None,
    bridge: Literal[False] | None = None,
) -> HookedTransformer: ...
@overload
def export(
    thing: Transformer,
    to: Literal["transformer-lens"],
    path: None = None,
    *,
    layers: int | None = None,
    length: int | None = None,
    bridge: Literal[True],
) -> TransformerBridge: ...
@overload
def export(
    thing: Transformer,
    to: Literal["transformer-lens"],
    path: str | Path,
    *,
    layers: int | None = None,
    length: int | None = None,
    bridge: bool | None = None,
) -> Lens: ...
@overload
def export(thing: Transformer, to: Literal["hugging-face"], path: str | Path | None = None) -> KleeneModel: ...
@overload
def export(
    thing: Transformer,
    to: Literal["onnx"],
    path: str | Path | None = None,
    *,
    layers: int | None = None,
    max_layers: int = 10_000,
) -> ModelProto: ...
@overload
def export(thing: ExactRNN | GatedRNN, to: Literal["onnx"], path: str | Path | None = None) -> ModelProto: ...
@overload
def export(
    thing: DFA | NFA | AFA | Transducer | TuringMachine | ExactRNN | GatedRNN | LinearRNN,
    to: Literal["graphviz"],
    path: str | Path | None = None,
) -> str: ...
@overload
def export(
    thing: Transformer, to: Literal["circuit"], path: str | Path | None = None, *, layers: int | None = None
) -> dict[str, Any]: ...
@overload
def export(thing: StockModel, to: Literal["circuit"], path: str | Path | None = None) -> dict[str, Any]: ...
@overload
def export(
    thing: Transformer,
    to: Literal["llama", "gpt2", "phi3", "qwen3"],
    path: str | Path | None = None,
    *,
    length: int | None = None,
    dtype: Literal["float32", "bfloat16"] = "float32",
    symbols: Sequence[str] | None = None,
) -> StockModel: ...
def export(thing: Any, to: str, path: str | Path | None = None, **options: Any) -> Any:
    """Give `thing` as another tool has it; with a `path`, also write it there.

    - `to`: "transformer-lens", "hugging-face", "onnx" or "circuit" for a transformer, "onnx" for an RNN, an LSTM or
      a GRU, "graphviz" for an automaton, a Turing machine or a network that holds an automaton.

    A compiled decoder also becomes an unmodified class of transformers: "llama", "gpt2", "phi3" or "qwen3". Options:

    - `length`: the longest sequence, with what is generated.
    - `dtype`: the number format of the weights, "float32" or "bfloat16".
    - `symbols`: the text of each token, for the tokenizer; by default its number.

    Options for "transformer-lens", "onnx" and "circuit":

    - `layers`: unroll this many layers. TransformerLens needs it where a network halts by itself.
    - `length`: the longest input (TransformerLens).
    - `bridge`: a `TransformerBridge` (TransformerLens 3.9 and 4) instead of a `HookedTransformer` (2 and 3); by default
      only where there is no `HookedTransformer`.
    - `max_layers`: leave a sequence that has not halted after this many layers (ONNX, where it is not unrolled).

    With a path, "transformer-lens" only writes the folder, which needs no TransformerLens.
    """
    if to not in EXPORTS:
        raise NotSupported(f"export: unknown format {to!r}; choose one of {', '.join(EXPORTS)}")
    return find_arrow(to, thing, options, EXPORTS)(thing, path, **options)


@overload
def load(folder: str | Path) -> Network: ...
@overload
def load(folder: str | Path, kind: type[N]) -> N: ...
def load(folder: str | Path, kind: type[Any] | None = None) -> Any:
    """Read a network that was saved with `.save(folder)`. Loading never runs code from the folder.

    - `kind`: the class that is expected, such as `kl.Transformer`; `FileError` where the folder holds another.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileError(f"{folder}: no such folder; a saved network is a folder with kleene.json in it")
    description = read_json(folder / "kleene.json")
    found = description.get("kind") if isinstance(description, dict) else None
    if not isinstance(found, str) or found not in LOADERS:
        raise FileError(f"{folder}/kleene.json: unknown kind {found!r}; known: {', '.join(LOADERS)}")
    network = resolve(LOADERS[found])(folder)
    if kind is not None and not isinstance(network, kind):
        raise FileError(f"{folder}: holds {a_type(network)}, not a {kind.__name__}")
    return network
