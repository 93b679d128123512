"""What a user writes, with the types that an editor shows. mypy (strict) and pyright check this file."""

from collections.abc import Set as AbstractSet
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, assert_type

import numpy as np
import torch
from onnx import ModelProto

import kleene as kl
from kleene import rasp
from kleene.checks.bisimulation import Bisimulation
from kleene.checks.bisimulation import Report as WordReport
from kleene.checks.comparison import Comparison
from kleene.checks.languages import WordCertificate
from kleene.checks.minimality import MinimalProgram
from kleene.checks.steps import StepStatement
from kleene.checks.turing_steps import StepCertificate
from kleene.common.decision import Decision
from kleene.common.output import Output
from kleene.decompilers.lstar import ExtractedDFA
from kleene.evidence.explanation import Explanation
from kleene.evidence.rnn_traces import RnnTrace
from kleene.exporters.transformer_to_lens import Lens
from kleene.library.encoding import MemoryProgram, TextProgram
from kleene.lowering.rules import Rules
from kleene.lowering.size_report import SizeReport
from kleene.lowering.updates import GuardedUpdate
from kleene.machines.bitwords import BitWord
from kleene.machines.declarations import WordVariable
from kleene.machines.spec import Spec
from kleene.machines.trace import Trace
from kleene.networks.rnn.torch_rnn import SimpleRNN
from kleene.networks.transformer.hugging_face import KleeneModel
from kleene.networks.transformer.model import Applied, Sizes
from kleene.rasp.expressions import SOp
from kleene.truth.causal_graph import CausalGraph


class Parity(kl.Program):
    tokens = 3
    parity = kl.cat(2, token=lambda t: 0 if t == 2 else t)
    done = kl.cat(2, token=lambda t: t == 2)
    parity_left, done_left = kl.relative(parity, -1), kl.relative(done, -1)
    output, halt = parity, {done: 1}

    def step(z) -> None:
        if not z.done and z.done_left:
            z.parity, z.done = z.parity_left ^ z.parity, 1
        assert_type(z.parity_left, int)


class Everything(kl.Program):
    """Every kind of variable and head, a constant, a table and a set of values."""

    tokens = 4
    positions = 8
    layers = 2
    LIMIT = 3
    TABLE = kl.table([[0, 1], [1, 2]])
    value = kl.cat(4, token=lambda t: t)
    index = kl.cat(8, position=lambda p: p)
    wanted = kl.subset(4, values=[{0}, {1, 2}])
    half = kl.num([0, Fraction(1, 2), 1])
    count = kl.num(range(5), default=0)
    address = kl.word(4, position=lambda p: p)
    share = kl.attend(wanted, value, value, output=kl.num([Fraction(1, 3), 1]))
    whole = kl.attend(value, value, value, output=kl.num([0, 1, 2, 3]), offsets=range(-3, 4))
    found = kl.attend(address, address, index, default=0, where={value: 1})
    output = value

    def step(z) -> None:
        value: int = z.value
        wanted: AbstractSet[int] = z.wanted
        half: int | Fraction = z.half
        assert_type(z.count, int)
        assert_type(z.address, BitWord)
        assert_type(z.share, int | Fraction)
        assert_type(z.whole, int)
        assert_type(z.found, int)
        assert_type(z.TABLE[z.value, z.index], int)
        z.wanted = {1, 2} if 1 in wanted else {0}
        z.half = Fraction(1, 2) if value else half * half
        z.value = kl.among(z.value, [1, 2])
        z.value = min(z.value + 1, z.LIMIT)


class Bits(kl.Program):
    """Words: slices, bits, shifts and joined parts; arrays of variables and heads."""

    tokens, layers = 256, 1
    state = kl.word(32, token=lambda t: t)
    low = kl.word(8)
    bit = kl.cat(2)
    ring = kl.array(4, kl.cat(10))
    left = kl.array([kl.relative(one, -1, default=0) for one in ring])
    words = kl.array(2, kl.word(8))
    low_parts = kl.array([kl.relative(word[0:4], -1, default=0) for word in words])
    looked = kl.attend(ring[0], ring[1], words[0], default=0)
    output = low

    def step(z) -> None:
        assert_type(kl.concat(z.state[13:32], z.state[0:13]), BitWord)
        assert_type((z.state + 1) % 2**32, BitWord)
        assert_type(z.state[5], BitWord)
        z.low = ~z.state[0:8] << 3 | kl.extend(z.state[0:4], 8)
        z.low = ((z.state + 9) % 2**32)[0:8] // 4
        z.bit = z.state[5] if z.low < 3 else z.ring[1] % 2
        assert_type(z.left[1], int)
        assert_type(z.low_parts[0], int)
        z.ring = [max(z.ring), *z.left[1:]]
        z.ring[z.bit] = sum(z.ring) % 10


class Pipeline(kl.Program):
    tokens = 4
    value = kl.cat(4, token=lambda t: t)
    done = kl.cat(2)
    left = kl.relative(value, -1, default=0)
    right = kl.relative(value, 1, default=0)
    output = value
    halt = {done: 1}

    @kl.layer(left)
    def first(z) -> None:
        z.value = z.left

    @kl.layer(right)
    def second(z) -> None:
        z.value, z.done = z.right, 1

    cycle = (first, second)


class ByRules(kl.Program):
    tokens = 2
    value = kl.cat(2, token=lambda t: t)
    output = value
    layers = 1

    @staticmethod
    def rules(b: kl.RuleBuilder) -> None:
        for value in b.get("value"):
            b.set("value", 1 - value)


assert_type(Everything.count, kl.Variable[int])
assert_type(Parity.parity_left, kl.Head[int])
assert_type(kl.cat(2), kl.Variable[int])
assert_type(kl.word(4), WordVariable)
assert_type(kl.subset(3, [{0}]), kl.Variable[AbstractSet[int]])
assert_type(Parity.run([2, 1]), Output)
assert_type(Parity.run([2, 1]).layers, int)
assert_type(Parity.trace([2, 1]), Trace)
assert_type(Parity.spec, Spec)

# compile
net = kl.compile(Parity, lowering="rules", shape="encoder", layers=4, dtype=torch.float64)
assert_type(net, kl.Transformer)
assert_type(net.run([2, 1], check=True, evaluator="sparse"), Output)
assert_type(net.run_batch([[2, 1]]), list[Output])
assert_type(net.sizes, Sizes)
assert_type(net.sizes.hidden, int)
assert_type(kl.compile(Everything), kl.Transformer)
assert_type(kl.compile(Pipeline), kl.Transformer)
assert_type(kl.compile(ByRules), kl.Transformer)
stock = kl.compile(Everything, to="llama", length=64, dtype="bfloat16", size="llama-160m", spare="random")
assert_type(stock, kl.StockModel)
assert_type(kl.certify(stock, dtype="float32", program=Everything), kl.Certificate)
assert_type(kl.verify(Everything, stock, random=10), kl.Report)
assert_type(kl.export(net, "gpt2", symbols="012"), kl.StockModel)
dfa = kl.regex("(0|10*1)*", alphabet="01")
assert_type(dfa, kl.DFA)
assert_type(dfa.accepts("01"), bool)
rnn = kl.compile(dfa, method="minsky", activation="slu")
assert_type(rnn, kl.ExactRNN)
assert_type(rnn.accepts("01"), bool)
assert_type(rnn.torch(), SimpleRNN)
beaver = kl.TuringMachine.parse("1RB1LB_1LA1RZ")
decider = kl.compile(beaver, form="literal", base=4)
assert_type(beaver, kl.TuringMachine)
assert_type(decider, kl.Decider)
assert_type(decider.decide("", max_steps=100), Decision)
table = kl.InstructionTable.random(2, 3, 4)
assert_type(table, kl.InstructionTable)
memoriser = kl.compile(table, method="grid", dtype="float64")
assert_type(memoriser, kl.Memoriser)


def several_tapes(machine: kl.MultiTapeMachine, language: kl.OracleLanguage) -> None:
    assert_type(kl.compile(machine, base=5), kl.Decider)
    assert_type(kl.compile(language), kl.OracleRNN)
    gated = kl.compile(kl.regex("a*"), to="lstm", dtype="float64")
    assert_type(gated, kl.GatedRNN)
    assert_type(kl.decompile(gated), kl.DFA)
    assert_type(kl.certify(gated, dtype="bfloat16"), WordCertificate)
    assert_type(kl.verify(gated), WordReport)
    linear = kl.compile(kl.regex("a*"), to="linear", transitions="positive")
    assert_type(linear, kl.LinearRNN)
    assert_type(kl.compile(kl.library.parity_relative, to="rnn"), kl.SequenceRNN)
    assert_type(kl.compile(kl.regex("a*"), to="mamba"), kl.MambaAcceptor)
    assert_type(kl.compile(kl.regex("a*"), to="olmo_hybrid"), kl.OlmoHybridAcceptor)
    assert_type(kl.decompile(linear, to="dfa"), kl.DFA)
    assert_type(kl.compile(kl.WeightedAutomaton([1], {"a": [[2]]}, [1])), kl.LinearRNN)
    deep = kl.compile(kl.regex("a*"), to="transformer", depth="logarithmic", length=8)
    assert_type(deep, kl.Transformer)
    assert_type(kl.decompile(deep, to="dfa"), kl.DFA)


# decompile
assert_type(kl.decompile(net), kl.Updates | kl.Cycle)
assert_type(kl.decompile(rnn, states="all", limit=100), kl.DFA)
assert_type(kl.decompile(rnn, to="afa"), kl.AFA)
assert_type(kl.decompile(decider), kl.TuringMachine)
assert_type(kl.decompile(memoriser), kl.InstructionTable)

# verify and certify
assert_type(kl.verify(Parity, net, lengths=range(1, 7)), kl.Report)
assert_type(kl.verify(Parity, net, random=100, seed=1, evaluator="dense").holds, bool)
assert_type(kl.verify(kl.guarded_updates(Parity), net, inputs=[[2, 1]]), kl.Report)
assert_type(kl.verify(dfa, rnn), WordReport)
assert_type(kl.verify(dfa, rnn.torch(), lengths=range(5)), WordReport)
assert_type(kl.verify(rnn, None, limit=100), WordReport)
assert_type(kl.verify(beaver, decider, max_steps=10), WordReport)
assert_type(kl.verify(decider, None), WordReport)
assert_type(kl.verify(table, memoriser), WordReport)
assert_type(kl.certify(net, dtype="bfloat16"), kl.Certificate)
assert_type(kl.certify(rnn, machine=dfa), Bisimulation)
assert_type(kl.certify(Parity, limit=10), StepStatement)
assert_type(kl.certify(decider), StepCertificate)

# learn, explain, export, load
assert_type(kl.learn(Parity, [[2, 1]], steps=10), kl.LearnedTransformer)
assert_type(kl.learn(Parity, [[2, 1]], supervision="end-to-end", layers=2), kl.StandardTransformer)
assert_type(kl.explain(net, [2, 1]), Trace)
assert_type(kl.explain(rnn, "01"), RnnTrace)
assert_type(kl.explain(decider, "", max_steps=5), RnnTrace)
assert_type(kl.export(net, "transformer-lens", "lens", layers=4), Lens)
assert_type(kl.export(net, "hugging-face"), KleeneModel)
assert_type(kl.export(net, "onnx", Path("net.onnx")), ModelProto)
assert_type(kl.export(dfa, "graphviz"), str)
assert_type(kl.export(net, "circuit"), dict[str, Any])
assert_type(kl.load("parity", kl.Transformer).run([2, 1]), Output)
some = kl.load("parity")
if isinstance(some, kl.Transformer):
    assert_type(some.run([2, 1]), Output)


def language_model(model: kl.LanguageModel) -> None:
    assert_type(kl.explain(model, "a cat", target="sat", bias_rule="murdoch", read="end"), Explanation)


# effects, graphs and comparisons
values: np.ndarray = kl.shapley(dfa, "0110", index="banzhaf")
pairs: np.ndarray = kl.interactions(rnn, "0110", distribution={"0": 0.25, "1": 0.75})
moved: np.ndarray = kl.effects(kl.library.addition, "1+2", position=0)
graph = kl.causal_graph(Parity, [2, 1], max_layers=10)
assert_type(graph, CausalGraph)
assert_type(kl.compare(dfa, lengths=[1, 2]), Comparison)
assert_type(kl.to_rasp(Everything, layers=2), SOp)
assert_type(kl.compile(kl.to_rasp(Everything), vocab={0, 1, 2, 3}, max_seq_len=5), kl.Transformer)
assert_type(kl.NFA.load("words.jff").determinise(), kl.DFA)
assert_type(kl.Transducer.mealy([[0]], ["1"], "0").minimise(), kl.Transducer)

# text is an input everywhere
assert_type(kl.verify(Parity, net, inputs=["^101", [2, 1], ["^", "1"]]), kl.Report)
assert_type(kl.learn(Parity, ["^101"], test=["^1"]), kl.LearnedTransformer)
assert_type(kl.learn(Parity, ["^101"]).run("^1", layers=3), Output)
assert_type(net.run_batch(["^101", "^1"]), list[Output])
kl.minimal(Parity, ["^101"])
kl.unspecified(Parity, ["^101"])
kl.landscape(Parity, ["^101"])
kl.traces(Parity, ["^101"])

# arrays and tensors are inputs as well
assert_type(Parity.run(np.array([2, 1])), Output)
assert_type(net.run(torch.tensor([2, 1])), Output)
assert_type(net.run_batch(np.array([[2, 1], [2, 0]])), list[Output])
assert_type(kl.verify(Parity, net, inputs=[np.array([2, 1]), torch.tensor([2])]), kl.Report)
kl.cat(4, token=lambda t: t in (1, 2), position=None)
kl.cat(4, position=lambda p: np.int64(p % 4))
kl.subset(4, [{0}, {1, 2}], token=lambda t: {t})
kl.num([0, Fraction(1, 2)], token=lambda t: Fraction(t, 2))
kl.num([0, 1], position=lambda p: np.int64(p))

# the rest of the surface
assert_type(decider.decide("1").answer, Literal["accept", "reject"] | None)
assert_type(kl.extract(lambda words: [word == "" for word in words], "01"), ExtractedDFA)
assert_type(kl.extract(torch.nn.Linear(2, 2), "01", learner="tree"), ExtractedDFA)
assert_type(len(kl.guarded_updates(Parity)), int)
for update in kl.decompile(net):
    assert_type(update, GuardedUpdate)
sop = rasp.Aggregate(rasp.Select(rasp.tokens, rasp.indices, rasp.Comparison.EQ), rasp.tokens)
assert_type(sop("abc"), list[Any])
assert_type(rasp.Select(rasp.tokens, rasp.tokens, rasp.Comparison.EQ)("ab"), list[list[bool]])
assert_type(kl.compile(sop, vocab="ab", max_seq_len=3).apply(["BOS", "a"]), Applied)
assert_type(rnn.torch(dtype=torch.float64), SimpleRNN)
assert_type(kl.OracleLanguage("ab", predicate=lambda w: w == "a"), kl.OracleLanguage)
assert_type(kl.rules(Parity), Rules)
assert_type(kl.explain_size(Parity), SizeReport)
small = kl.minimal(Parity, [[2, 1]], definition="full")
assert_type(small, MinimalProgram)
assert_type(small.seen.rule_count, int)
assert_type(kl.compile(small), kl.Transformer)
assert_type(kl.is_minimal(Parity, [[2, 1]]), bool)
assert_type(kl.extract(dfa, "01"), ExtractedDFA)
assert_type(kl.library.addition.encode("34+56"), list[int])
assert_type(kl.library.addition.decode([1, 2]), str)
assert_type(kl.library.parity_sum(20), type[TextProgram])
assert_type(kl.library.parity_sum(20).encode("101"), list[int])
assert_type(kl.library.sort(5, 5), type[kl.Program])
assert_type(kl.library.sort(5, 5).run([1, 2]), Output)
assert_type(kl.library.computer(8), type[MemoryProgram])
assert_type(kl.compile(kl.library.computer(8)), kl.Transformer)
assert_type(kl.library.turing_machines.busy_beaver(5), kl.TuringMachine)


def by_annotation(program: type[kl.Program], network: kl.Transformer) -> kl.Report:
    return kl.verify(program, network, random=10)


by_annotation(Parity, net)
