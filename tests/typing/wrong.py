"""Mistakes: mypy (strict) and pyright must reject every line that ends in `# wrong`, and no other line.

A line that only one of them rejects names it. What `step` writes is such a case: to pyright, an assignment to `z.x` in
a method may declare `x` anew, unless `x` is declared with its type.
"""

# ruff: noqa: B018, F841

import kleene as kl


class Parity(kl.Program):
    tokens = 3
    parity = kl.cat(2, token=lambda t: 0 if t == 2 else t)
    done = kl.cat(2, token=lambda t: t == 2)
    parity_left = kl.relative(parity, -1)
    output = parity
    halt = {done: 1}

    def step(z) -> None:
        name: str = z.parity_left  # wrong
        z.parity = z.parity_lft  # wrong
        z.parity = "odd"  # wrong (mypy)
        z.parity_left = 1  # wrong (mypy)
        z.done = z.parity_left + "1"  # wrong


class Annotated(kl.Program):
    tokens = 3
    parity: kl.Variable[int] = kl.cat(2)
    output = parity
    layers = 1

    def step(z) -> None:
        z.parity = "odd"  # wrong


class TwoParameters(kl.Program):
    tokens = 2
    value = kl.cat(2)
    output = value
    layers = 1

    def step(self, z: int) -> None:  # wrong
        self.value = z


class WrongAttributes(kl.Program):
    tokens = 3.5  # wrong
    value = kl.cat(2)
    left = kl.relative(value, -1)
    output = left  # wrong (pyright)
    halt = {left: 1}  # wrong


net = kl.compile(Parity)
dfa = kl.regex("01")
rnn = kl.compile(dfa)
decider = kl.compile(kl.TuringMachine.parse("1RB1LB_1LA1RZ"))

kl.DFAA()  # wrong
kl.library.adition  # wrong
kl.cat("two")  # wrong
kl.cat(2, tokn=lambda t: t)  # wrong
kl.relative(Parity.parity_left, -1)  # wrong
kl.attend(Parity.parity, Parity.done)  # wrong
kl.table([1, 2])["x"]  # wrong
Parity.rnu([2, 1])  # wrong
Parity.run(101)  # wrong
kl.compile(Parity, lowerng="rules")  # wrong
kl.compile(Parity, lowering="rule")  # wrong
kl.compile(Parity, method="minsky")  # wrong
kl.compile(dfa, lowering="rules")  # wrong
kl.compile(dfa, activation="tanh")  # wrong
kl.compile("parity")  # wrong
net.rnu([2, 1])  # wrong
net.run([2, 1], evaluater="dense")  # wrong
net.run([2, 1], evaluator="dens")  # wrong
net.sizes.hiden  # wrong
rnn.acepts("01")  # wrong
rnn.accepts(3)  # wrong
decider.decide("1", max_step=3)  # wrong
kl.verify(Parity, net, lenghts=range(3))  # wrong
kl.verify(Parity, rnn, lengths=range(3))  # wrong
kl.verify(Parity, net, evaluator="spars")  # wrong
kl.verify(dfa, "net")  # wrong
kl.certify(net, type="float32")  # wrong
kl.certify(dfa)  # wrong
kl.decompile(rnn, to="nfa")  # wrong
kl.decompile(dfa)  # wrong
kl.learn(Parity, [[2, 1]], supervision="traces")  # wrong
kl.learn(Parity, [[2, 1]], supervision="end-to-end", depth=3)  # wrong
kl.learn(Parity, [[2, 1]], layers=3)  # wrong
kl.explain(net, 101)  # wrong
kl.explain(rnn, [0, 1])  # wrong
kl.export(net, "graphviz")  # wrong
kl.export(dfa, "onnx")  # wrong
kl.export(net, "tensorflow")  # wrong
kl.compile(Parity, to="bert")  # wrong
kl.compile(Parity, to="llama", lowering="rules")  # wrong
kl.load("parity").run([2, 1])  # wrong
kl.load("parity", kl.DFA)  # wrong
kl.minimal(Parity, [[2, 1]], definition="whole")  # wrong
kl.regex("01", alfabet="01")  # wrong
kl.concat(1, 2)  # wrong
kl.extend("01", 8)  # wrong
rnn.torch(dtyp="float32")  # wrong
kl.learn(Parity, ["01"]).run("01", layer=3)  # wrong
kl.learn(Parity, [1, 2])  # wrong
kl.minimal(Parity, 101)  # wrong
kl.minimal(Parity, [1, 0])  # wrong
kl.guarded_updates(Parity).update  # wrong
kl.compile(Parity).config.layer  # wrong
kl.InstructionTable.of_images({}, size=[1])  # wrong
kl.shapley("parity", "01")  # wrong
kl.shapley(dfa, 101)  # wrong
kl.shapley(dfa, "01", index="owen")  # wrong
kl.effects(Parity)  # wrong
kl.causal_graph(dfa, "01")  # wrong
kl.compare("parity")  # wrong
kl.compare(dfa, length=3)  # wrong
kl.to_rasp(dfa)  # wrong
kl.compile(dfa, to="lstm", layers=2)  # wrong
kl.compile(dfa, to="transformer", depth="deep")  # wrong
kl.NFA.determinize  # wrong
kl.cat(2, token=lambda t: "one")  # wrong
kl.subset(3, [{0}], token=lambda t: t)  # wrong
kl.num([0, 1], position=lambda p: "0")  # wrong
kl.subleq.run([3, 3, -1], dialect="forth")  # wrong
kl.subleq.assemble("a", "eForth")  # wrong
kl.subleq.run([3, 3, -1], evaluator="nunba")  # wrong
kl.extract("model", "01")  # wrong
kl.extract(dfa, "01", learner="lstar")  # wrong
kl.from_samples(["1"], [""], method="rpn")  # wrong
decider.decide("1", evaluator="dense")  # wrong
if decider.decide("1").answer == "accepts":  # wrong (mypy)
    ...
kl.WeightedAutomaton([1], {"a": [[1]]}, [1], semiring="max")  # wrong
kl.WordClassifier("01", cell="GRU")  # wrong
kl.library.computer(8, dialect="forth")  # wrong
kl.relative(Parity.parity, 1.5)  # wrong
kl.attend(Parity.parity, Parity.parity, Parity.parity, offsets=1)  # wrong
kl.compile(Parity, "rnn")  # wrong
kl.decompose(None, None, "abc", [0])  # wrong
kl.shapley(dfa, "01", index="shaply")  # wrong
kl.rasp.Select(kl.rasp.tokens, kl.rasp.tokens, "==")  # wrong
kl.compile(kl.rasp.tokens, vocab={"a"})  # wrong
