"""The Synthesizer: networks inside it, descriptions, instruction sets, soft programs, and the join with SUBLEQ."""

from __future__ import annotations

import random

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import kleene as kl
from data_sets import DATA, needs
from kleene.cli import app
from kleene.common.execution import Store
from kleene.compilers.classifier_to_synthesizer import soft_instruction, soft_memory
from kleene.drivers.subleq import run_on_transformer
from kleene.errors import DidNotHalt, FileError, InputError, RangeError
from kleene.library import memorised
from kleene.machines import three_address
from kleene.machines.subleq import DIALECTS, Executor
from kleene.networks.synthesizer.descriptions import ByText, ByToken, ByVector, Words, by_index
from kleene.networks.synthesizer.synthesizer import OneHot, Synthesizer
from kleene.networks.trained.bert import Bert
from kleene.networks.trained.bert_stack import BertStack
from kleene.papers.tasks import Plan, run_tasks
from kleene.training.bert_stack import Descent
from kleene.training.loop import train
from kleene.training.options import Evaluation

needs_sst2 = needs("sst2/dev.tsv", "bert-base-uncased/vocab.txt")

SHORT = {name: memorised.subleq_images()[name] for name in ("multiply", "fibonacci")}


class Convolutional(nn.Module):
    def __init__(self, vocabulary, outputs):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 32)
        self.convolution = nn.Conv1d(32, 128, 3)
        self.head = nn.Linear(128, outputs)

    def forward(self, tokens):
        return self.head(self.convolution(self.embedding(tokens).transpose(1, 2)).relu().amax(dim=2))


class Recurrent(nn.Module):
    def __init__(self, vocabulary, outputs):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 32)
        self.rnn = nn.GRU(32, 64, batch_first=True)
        self.head = nn.Linear(64, outputs)

    def forward(self, tokens):
        return self.head(self.rnn(self.embedding(tokens))[0][:, -1])


def tiny_bert(outputs, vocabulary):
    sizes = {"hidden": 64, "intermediate": 128, "layers": 2, "heads": 2, "positions": 64}
    return Bert(outputs, vocabulary, dropout=0.0, spread=0.1, **sizes)


@pytest.fixture(scope="module")
def short_table():
    return kl.InstructionTable.of_images(SHORT)


@pytest.mark.parametrize("kind", ["feedforward", "convolutional", "recurrent", "transformer"])
def test_any_network_memorises_programs_and_performs_them(kind, short_table):
    table, tokens = short_table, ByToken(short_table.longest, len(short_table))
    outputs = sum(table.sizes)
    torch.manual_seed(0)
    network, describe = {
        "feedforward": lambda: (OneHot(table.longest, len(table), outputs, hidden=64), by_index),
        "convolutional": lambda: (Convolutional(tokens.vocabulary, outputs), tokens),
        "recurrent": lambda: (Recurrent(tokens.vocabulary, outputs), tokens),
        "transformer": lambda: (tiny_bert(outputs, tokens.vocabulary), tokens),
    }[kind]()
    machine = Synthesizer(network, table.sizes, Executor(), describe)
    rate = 1e-3 if kind == "transformer" else 1e-2
    run = kl.memorise(machine, table, batch=len(table.entries()[0]), rate=rate, warmup=20, steps=600, progress=False)
    assert run.reached and kl.verify(table, machine).holds
    for index, (name, image) in enumerate(SHORT.items()):
        label, answer = {"multiply": ("product", 42), "fibonacci": ("a", 55)}[name]
        done = machine.run(index, image.words)
        assert done.memory[image.address(label)] == answer
        wanted = kl.subleq.run(image, dialect="paper")
        assert (done.memory, done.steps) == (wanted.memory, wanted.steps)
        assert done.trace[0] == (1, image.code[0]) and len(done.trace) == done.steps


def test_useful_programs_by_a_compiled_network():
    images = memorised.subleq_images()
    table = kl.InstructionTable.of_images(images)
    machine = Synthesizer(kl.compile(table), table.sizes, Executor(), by_index)
    sort, count, multiply = images["sort"], images["count"], images["multiply"]
    chance = random.Random(0)
    for _ in range(10):
        numbers = [chance.randint(-50, 50) for _ in range(5)]
        at = sort.address("list")
        memory = machine.run(table.index("sort"), sort.with_data(list=numbers).words).memory
        assert memory[at : at + 5] == sorted(numbers)
        x, y = chance.randint(-9, 9), chance.randint(0, 9)
        memory = machine.run(table.index("multiply"), multiply.with_data(x=x, y=y).words).memory
        assert memory[multiply.address("product")] == x * y
        bits = [chance.randint(0, 1) for _ in range(8)]
        memory = machine.run(table.index("count"), count.with_data(bits=bits).words).memory
        assert memory[count.address("ones")] == sum(bits)
    assert machine.run(table.index("count"), count.words).memory[count.address("ones")] == 6  # 11101011


def test_a_run_past_its_limit_says_where_it_was():
    image = kl.subleq.assemble("INC x\n again: JMP again\n x: .data 0", "paper")
    table = kl.InstructionTable.of_images({"endless": image})
    machine = Synthesizer(kl.compile(table), table.sizes, Executor(), by_index)
    with pytest.raises(DidNotHalt, match="not halted after 50 steps; it was at instruction 2: subleq 2 2 2"):
        machine.run(0, image.words, max_steps=50)
    with pytest.raises(RangeError, match="address 2 is outside memory 0 … 1, at instruction 2: subleq 2 2 2"):
        machine.run(0, image.words[:2], max_steps=50)


def test_a_network_of_the_wrong_width_is_refused():
    machine = Synthesizer(nn.Linear(2, 7), (2, 2, 2), Executor(), lambda d, n: torch.ones(len(n), 2))
    with pytest.raises(InputError, match=r"the network has 7 outputs; operands of \(2, 2, 2\) classes need 6"):
        machine.instructions(0, [1])


@pytest.mark.parametrize("program", [7, -1, "x", 0.5, None])
def test_a_program_that_the_network_does_not_know_is_refused(program):
    table = kl.InstructionTable([[(0, 0, 0), (0, 0, 0)], [(0, 0, 0), (1, 1, 0)]])
    for network in (kl.compile(table), OneHot(2, 2, sum(table.sizes))):
        machine = Synthesizer(network, table.sizes, Executor(), by_index)
        with pytest.raises(InputError, match=r"no program .*; the network knows 2, 0 … 1"):
            machine.run(program, [1, 2])
    with pytest.raises(InputError, match="'x' is not a program's index"):
        by_index("x", [1])


def test_logits_that_are_not_numbers_name_no_instruction():
    machine = Synthesizer(nn.Linear(2, 6), (2, 2, 2), Executor(), by_index)
    nn.init.constant_(machine.network.bias, float("nan"))
    machine.double()
    assert machine.predict(torch.ones(1, 2, dtype=torch.float64)).tolist() == [[-1, -1, -1]]
    with pytest.raises(InputError, match=r"at instruction 1 the network's logits are not numbers \(NaN\)"):
        machine.run(0, [1, 2])


# Descriptions


def test_the_instruction_vector_as_a_description(short_table):
    describe = ByVector(3 * short_table.longest)
    rows = [rows.tolist() for rows in short_table.programs]
    inputs = describe(rows[0], [1, 2])
    assert inputs.shape == (2, 1 + 3 * short_table.longest) and inputs[1, 0] == 2
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(inputs.shape[1], 128), nn.Tanh(), nn.Linear(128, sum(short_table.sizes)))
    machine = Synthesizer(network, short_table.sizes, Executor(), describe)
    run = kl.memorise(
        machine, short_table, descriptions=rows, batch=64, rate=5e-3, warmup=20, steps=4000, every=50, progress=False
    )
    assert run.reached
    assert machine.run(rows[0], SHORT["multiply"].words).memory[2] == 42


@pytest.fixture(scope="module")
def told(short_table):
    """A small BERT that was told programs in words: "run multiply", "run fibonacci"."""
    words = Words([f"run {name}" for name in SHORT] + [str(number) for number in range(short_table.longest)])
    torch.manual_seed(0)
    network = tiny_bert(sum(short_table.sizes), len(words))
    machine = Synthesizer(network, short_table.sizes, Executor(), ByText(words.encode))
    texts = [f"run {name}" for name in SHORT]
    run = kl.memorise(
        machine, short_table, descriptions=texts, batch=64, rate=1e-3, warmup=20, steps=400, progress=False
    )
    assert run.reached
    return machine


def test_text_as_a_description(told):
    assert told.run("run multiply", SHORT["multiply"].words).memory[SHORT["multiply"].address("product")] == 42
    assert told.run("run fibonacci", SHORT["fibonacci"].words).memory[SHORT["fibonacci"].address("a")] == 55
    with pytest.raises(InputError, match="the word 'sing' is unknown"):
        told.run("sing multiply", SHORT["multiply"].words)


def test_from_a_text_to_an_answer_by_networks_alone(told):
    """The text's program is recalled from one network and run by another: the compiled SUBLEQ transformer."""
    image = SHORT["multiply"].with_data(x=3, y=2)
    recalled = kl.subleq.recall(lambda number: told.instructions("run multiply", [number])[0], image.words)
    assert recalled.code == image.code
    joined = kl.subleq.one_memory(recalled, DIALECTS["alta"].words(-128, 127))
    program = kl.library.subleq_words(8, len(joined))
    net = kl.compile(program)
    memory = program.decode(net.run(program.encode(joined.words)))
    assert memory[3 * len(image.code) + image.address("product")] == 6
    wanted = kl.subleq.run(joined, dialect=DIALECTS["alta"].words(-128, 127))
    assert memory == wanted.memory


@pytest.mark.parametrize("name, word, answer", [("multiply", "product", 42), ("fibonacci", "a", 55)])
def test_from_a_text_to_an_answer_on_the_computer(told, name, word, answer):
    """The same on the 16-bit computer, whose instructions are run by a transformer's weights."""
    image = SHORT[name]
    recalled = kl.subleq.recall(lambda number: told.instructions(f"run {name}", [number])[0], image.words)
    done = run_on_transformer(recalled, dialect="paper")
    wanted = told.run(f"run {name}", image.words)
    assert done.memory == wanted.memory
    assert done.memory[image.address(word)] == answer
    assert (done.why, done.steps) == ("halted", wanted.steps)


def test_recalling_without_end_is_refused():
    with pytest.raises(InputError, match="more than 100 instructions"):
        kl.subleq.recall(lambda number: (0, 1, number + 1), [1, 1], limit=100)


# Soft programs


GOOD, BAD = ["good", "great", "lovely", "fine"], ["bad", "awful", "dull", "poor"]


def test_a_soft_imperative_runs_as_long_as_the_text_is_positive():
    """ "as long as the input text is positive run multiply": the program's instructions, or subleq(0, 0, 0)."""
    image = kl.subleq.assemble("unused: .data 0\n" + memorised.SUBLEQ["multiply"], "paper")  # avoids address 0
    table = kl.InstructionTable.of_images({"multiply": image})
    ask = "as long as the input text is positive run multiply [sep] a {} film"
    words = Words([ask.format("x"), *GOOD, *BAD, *map(str, range(table.longest))])
    torch.manual_seed(0)
    machine = Synthesizer(tiny_bert(sum(table.sizes), len(words)), table.sizes, Executor(), ByText(words.encode))
    seen = [*GOOD[:3], *BAD[:3]]
    inputs = torch.cat([machine.describe(ask.format(word), range(1, table.longest)) for word in seen])
    labels = torch.tensor(
        [table.lookup(0, number) if word in GOOD else (0, 0, 0) for word in seen for number in range(1, table.longest)]
    )
    optimiser = torch.optim.AdamW(machine.parameters(), lr=1e-3)
    run = train(
        machine,
        optimiser,
        lambda model, batch: model.loss(*batch),
        lambda step: (inputs, labels),
        steps=400,
        evaluation=Evaluation(
            every=20,
            measure=lambda model: {"right": (model.predict(inputs) == labels).double().mean().item()},
            until=lambda metrics: metrics["right"] == 1.0,
        ),
    )
    assert run.reached
    for word in seen:
        done = machine.run(ask.format(word), image.words)
        if word in GOOD:
            assert done.memory[image.address("product")] == 42
        else:
            assert done.steps == 1 and done.memory == list(image.words)


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        return (x + self.second(self.first(x).relu())).relu()


def resnet_images():
    """Images of 12 × 12 with a bright bar: lying, standing, or none; and a small ResNet."""
    source = torch.Generator().manual_seed(1)
    images, labels = torch.rand(240, 1, 12, 12, generator=source), torch.arange(240) % 3
    for image, label, at in zip(images, labels, torch.randint(0, 12, (240,), generator=source)):
        if label == 1:
            image[0, at] += 1.0
        elif label == 2:
            image[0, :, at] += 1.0
    network = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        Residual(8),
        nn.AvgPool2d(2),
        Residual(8),
        nn.AdaptiveMaxPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 3),
    )
    return network, images, labels, 3


def next_tokens():
    """The next of eight tokens after four: a counter with a stride, so the next is 2·last − the one before."""
    source = torch.Generator().manual_seed(2)
    start, stride = torch.randint(0, 8, (2, 300), generator=source)
    tokens = (start[:, None] + stride[:, None] * torch.arange(5)) % 8
    network = nn.Sequential(
        nn.Embedding(8, 16),
        nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True),
        nn.Flatten(),
        nn.Linear(64, 8),
    )
    return network, tokens[:, :4], tokens[:, 4], 8


def binned_regression():
    """sin(3x) in ten bins."""
    x = torch.linspace(-1, 1, 300)[:, None]
    bins = ((torch.sin(3 * x[:, 0]) + 1) / 2 * 10).long().clamp(0, 9)
    return nn.Sequential(nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10)), x, bins, 10


@pytest.mark.parametrize("task", [resnet_images, next_tokens, binned_regression])
def test_a_soft_instruction_writes_the_class_that_the_bare_model_gives(task):
    torch.manual_seed(0)
    classifier, inputs, labels, classes = task()
    machine = soft_instruction(classifier, classes, addresses=32, instructions=16)
    targets = torch.stack([labels, torch.full_like(labels, classes), torch.zeros_like(labels)], dim=1)
    optimiser = torch.optim.Adam(classifier.parameters(), lr=1e-2)
    train(
        machine,
        optimiser,
        lambda model, batch: model.loss(*batch),
        lambda step: (inputs, targets),
        steps=150,
        evaluation=Evaluation(every=50),
    )
    classifier.eval()
    with torch.no_grad():
        bare = classifier(inputs).argmax(dim=1).tolist()
    written = [machine.run(x, soft_memory(classes, 32)).memory[classes] for x in inputs]
    assert written == bare
    assert sum(a == b for a, b in zip(bare, labels.tolist())) / len(bare) > 0.9
    assert set(written) == set(range(classes))  # halts for class 0 and for those above it


def test_algorithm_1_to_the_letter_halts_on_an_operand():
    store = Store([0, -1, 0])
    assert Executor(literal=True).execute(store, 1, (1, 2, 0)) is None and store.memory[2] == 1
    store = Store([0, -1, 0])
    assert Executor().execute(store, 1, (1, 2, 0)) == 2  # what is meant: the branch is not taken


# Another instruction set


@pytest.fixture(scope="module")
def listed():
    images = memorised.three_address_images()
    return images, kl.InstructionTable.of_images(images, fields=three_address.FIELDS)


@pytest.mark.parametrize("how", ["compiled", "trained"])
def test_one_memorised_program_sums_and_sorts_lists_of_any_length(how, listed):
    images, table = listed
    if how == "compiled":
        network = kl.compile(table)
    else:
        torch.manual_seed(0)
        network = OneHot(table.longest, len(table), sum(table.sizes), hidden=64)
    machine = Synthesizer(network, table.sizes, three_address.ThreeAddress(), by_index)
    if how == "trained":
        run = kl.memorise(machine, table, batch=64, rate=1e-2, warmup=10, steps=500, progress=False)
        assert run.reached
    chance = random.Random(4)
    for length in (0, 1, 2, 5, 17, 60):
        numbers = [chance.randint(-99, 99) for _ in range(length)]
        assert machine.run(table.index("sum"), images["sum"].words, input=numbers).output == [sum(numbers)]
        done = machine.run(table.index("sort"), images["sort"].words, input=numbers, max_steps=10**6)
        assert done.output == sorted(numbers)
        assert done == three_address.run(images["sort"], numbers)


@pytest.mark.parametrize(
    "text, said",
    [
        ("HALT\n FLY x", "line 2: 'FLY' is not an instruction"),
        ("MOV x", "line 1: 'MOV' takes 2 arguments, not 1"),
        ("JMP nowhere", "line 1: 'nowhere' is not defined"),
        ("OUT -1", "line 1: '-1' is -1; an address is 0 or more"),
        ("x: .data 1", "no instructions"),
    ],
)
def test_three_address_errors_name_the_line_and_the_token(text, said):
    with pytest.raises(InputError, match=said):
        three_address.assemble(text)


def test_three_address_machine_at_its_edges():
    with pytest.raises(DidNotHalt, match="at instruction 0: JMP 0"):
        three_address.run(three_address.assemble("a: JMP a"), max_steps=9)
    with pytest.raises(RangeError, match="instruction 1 is outside 0 … 0"):
        three_address.run(three_address.assemble("MOV x x\n x: .data 1"))
    with pytest.raises(RangeError, match="instruction 0: address -5 is outside memory"):
        three_address.run(three_address.assemble("LOAD p x\n HALT\n p: .data -5\n x: .data 0"))
    with pytest.raises(RangeError, match="instruction 0: opcode 99"):
        three_address.ThreeAddress().execute(Store([]), 0, (99, 0, 0, 0))


def test_an_image_of_one_memory_is_refused():
    image = kl.subleq.Image((3, 4, 0, 2, 5))
    with pytest.raises(InputError, match="'one' has no instructions apart from its 5 words"):
        kl.InstructionTable.of_images({"one": image})


def test_any_module_is_a_network():
    """Its instructions are the largest logits of each operand, whatever numbers the module reads."""
    torch.manual_seed(0)

    def most(logits):
        return [tuple(int(part.argmax()) for part in row.split(4)) for row in logits]

    linear = nn.Linear(2, 12)
    pairs = torch.tensor([[0, 1], [1, 1], [2, 1]])
    machine = Synthesizer(linear, (4, 4, 4), Executor(), by_index)
    assert [tuple(one) for one in machine.instructions(1, [0, 1, 2])] == most(linear(pairs.float()))
    double = Synthesizer(linear.double(), (4, 4, 4), Executor(), by_index)
    assert [tuple(one) for one in double.instructions(1, [0, 1, 2])] == most(linear(pairs.double()))
    reader = nn.Sequential(nn.Embedding(9, 3), nn.Flatten(), nn.Linear(6, 12))
    tokens = Synthesizer(
        reader,
        (4, 4, 4),
        Executor(),
        lambda description, numbers: torch.tensor([[number, description] for number in numbers]),
    )
    assert [tuple(one) for one in tokens.instructions(1, [0, 1, 2])] == most(reader(pairs))


def test_a_soft_instruction_learns_b_and_c():
    torch.manual_seed(0)
    machine = soft_instruction(nn.Linear(2, 2), 2, addresses=5, instructions=4, learned=True)
    inputs = torch.randn(64, 2)
    classes = (inputs[:, 0] > 0).long()
    labels = torch.stack([classes, torch.full_like(classes, 2), torch.zeros_like(classes)], dim=1)
    found = machine.predict(inputs)
    assert not torch.equal(found, labels)
    descent = torch.optim.Adam(machine.parameters(), lr=0.1)
    for _ in range(150):
        descent.zero_grad()
        machine.loss(inputs, labels).backward()
        descent.step()
    found = machine.predict(inputs)
    assert torch.equal(found[:, 1:], labels[:, 1:]) and (found[:, 0] == classes).double().mean() > 0.95
    given = inputs[classes == 1][0]
    assert machine.run(given, soft_memory(2, 5)).memory[2] == 1


# Experiments


def test_tasks_go_on_where_they_were(tmp_path):
    done = []

    def square(x, folder, deadline):
        done.append(x)
        return {"square": x * x}

    tasks = {f"t{x}": {"x": x} for x in range(3)}
    plan = Plan(workers=1)
    assert run_tasks(square, tasks, tmp_path, plan=plan, progress=False)["t2"]["square"] == 4
    again = run_tasks(square, {**tasks, "t1": {"x": 7}}, tmp_path, plan=plan, progress=False)
    assert [again[name]["square"] for name in tasks] == [0, 49, 4] and done == [0, 1, 2, 7]


def test_a_stack_of_berts_computes_and_learns_what_each_of_them_does():
    models = []
    for seed in range(3):
        torch.manual_seed(seed)
        models.append(tiny_bert(20, 50))
    stack = BertStack(models)
    tokens = torch.randint(1, 50, (3, 6, 9))
    tokens[:, 2, 5:] = 0  # padding
    labels = torch.randint(0, 10, (3, 6, 2))
    for _ in range(2):
        own = torch.stack([model(rows) for model, rows in zip(models, tokens)])
        assert torch.allclose(stack(tokens), own, atol=1e-4)
        Descent(stack, torch.optim.SGD(stack.parameters(), lr=0.3), (10, 10), clip=1.0)(stack, (tokens, labels, 0.3))
        for model, rows, wanted in zip(models, tokens, labels):
            model.zero_grad()
            Synthesizer(model, (10, 10), Executor(), by_index).loss(rows, wanted).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            torch.optim.SGD(model.parameters(), lr=0.3).step()
    before = [p.clone() for p in models[0].parameters()]
    stack.copy_to(models)
    assert all(torch.allclose(a, b, atol=1e-4) for a, b in zip(before, models[0].parameters()))


def test_reproduce_memorise(tmp_path):
    arguments = ["reproduce", "synthesizer.memorise", "--scale", "tiny", "-o", str(tmp_path), "--json"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    rows = kl.files.read_json(tmp_path / "memorise.json")["rows"]
    assert all(row["holds"] for row in rows if "verdict" in row)
    assert sum("memorised and performed" in row["name"] for row in rows) == 4


def test_memorising_says_what_was_not_run(tmp_path):
    arguments = ["reproduce", "synthesizer.memorise", "--scale", "tiny", "--limit", "0", "-o", str(tmp_path)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert (
        result.output.count("not run") == 8
    )  # two compiled, one refused, four useful programs and two vectors, less yun


@needs_sst2
@pytest.mark.parametrize("name", ["soft-instruction", "soft-imperative"])
def test_reproduce_soft_programs(name, tmp_path):
    arguments = ["reproduce", f"synthesizer.{name}", "--scale", "tiny", "--data", str(DATA), "-o", str(tmp_path)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "whole run is right" in result.output and (tmp_path / f"{name}.png").exists()
    late = CliRunner().invoke(app, [*arguments[:-1], str(tmp_path / "late"), "--limit", "0"])
    assert late.exit_code == 0 and "not run" in late.output


def test_missing_data_is_said(monkeypatch, tmp_path):
    monkeypatch.delenv("KLEENE_DATA", raising=False)
    from kleene.papers.synthesizer_soft import SOFT_INSTRUCTION

    with pytest.raises(FileError, match="no data folder; pass --data DIR or set KLEENE_DATA"):
        SOFT_INSTRUCTION.run("tiny", None, tmp_path)
