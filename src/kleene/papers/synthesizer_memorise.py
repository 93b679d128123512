"""Experiment 1 and Theorem 1: programs memorised by BERT, by compiled networks, and performed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import mean, stdev
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

import kleene as kl
from kleene.errors import InputError, NotExact
from kleene.library import memorised
from kleene.machines.instruction_table import InstructionTable
from kleene.machines.subleq import Executor
from kleene.networks.synthesizer.descriptions import ByVector, bert_tokenizer, by_index
from kleene.networks.synthesizer.synthesizer import OneHot, Synthesizer
from kleene.networks.trained.bert import Bert
from kleene.networks.trained.bert_stack import BertStack, predict
from kleene.papers.report import Result, plot
from kleene.papers.sst2 import vocabulary_file
from kleene.papers.tasks import Plan, at_scale, fast_device, train_all
from kleene.training.loop import Metrics, shuffled, train
from kleene.training.memorise import accuracies, memorise
from kleene.training.stacked import Batch, Descent, adamw, endless

PAPER = {16: "1030 ± 74", 32: "1366 ± 95", 64: "1907 ± 153", 128: "2991 ± 72"}

SCALES: dict[str, dict[str, Any]] = {
    "paper": {
        "programs": [16, 32, 64, 128],
        "length": 256,
        "addresses": 256,
        "seeds": [1, 2, 3, 4, 5],
        "dropouts": [0.1],
        "bert_vocabulary": True,
        "steps": 10_000,
        "bert": {"hidden": 256, "intermediate": 1024, "layers": 4, "heads": 4},
        "rate": 5e-4,
        "warmup": 100,
        "compiled": [64, 128],
        "vector": {"length": 16, "addresses": 32, "sets": [64, 16384], "steps": 5000, "batch": 512, "hidden": 128},
    },
    "small": {
        "programs": [2, 4],
        "length": 32,
        "addresses": 32,
        "seeds": [1, 2],
        "dropouts": [0.0],
        "bert_vocabulary": False,
        "steps": 3000,
        "bert": {"hidden": 64, "intermediate": 256, "layers": 2, "heads": 4, "spread": 0.1},
        "rate": 1e-3,
        "warmup": 100,
        "compiled": [64, 128],
        "vector": {"length": 4, "addresses": 8, "sets": [16, 2048], "steps": 1500, "batch": 128, "hidden": 64},
    },
    "tiny": {
        "programs": [2],
        "length": 4,
        "addresses": 4,
        "seeds": [1],
        "dropouts": [0.0],
        "bert_vocabulary": False,
        "steps": 400,
        "bert": {"hidden": 32, "intermediate": 64, "layers": 1, "heads": 2, "spread": 0.2},
        "rate": 3e-3,
        "warmup": 10,
        "compiled": [4],
        "vector": {"length": 2, "addresses": 4, "sets": [4, 64], "steps": 20, "batch": 16, "hidden": 16},
    },
}

CHOSEN = (
    "The paper leaves out layers, heads, optimiser, learning rate, schedule, dropout, memory size and how numbers "
    "become tokens. Chosen: {layers} layers, {heads} heads, post-norm BERT, AdamW {rate}, {warmup} steps of warm-up, "
    "then constant; k = n = {length}; three tokens an input ([CLS], the number, the program's special token); batches "
    "of ⌊entries/20⌋, epochs in a new order without a break between them; accuracy without dropout every 10 steps, on "
    "2,048 entries until these are right, then on all; TF32 on a GPU"
)


def memorise_programs(
    scale: str = "small",
    data: Path | None = None,
    folder: Path | str = "results/synthesizer.memorise",
    progress: bool = True,
    plan: Plan | None = None,
) -> Result:
    """Table 1, Theorem 1's networks, programs that do something, and programs described by their instructions."""
    config, plan = at_scale(SCALES, scale), plan or Plan()
    result = Result("synthesizer.memorise", Path(folder), {"scale": scale, **config})
    tasks = {**table_1_tasks(config, data, plan), **vector_tasks(config["vector"], plan)}
    train_all(result, one_run, tasks, scale, plan, progress)
    table_1(result, config)
    theorem_1(result, config)
    useful_programs(result, progress)
    vectors(result, config["vector"])
    result.write()
    return result


def one_run(experiment: str, **arguments: Any) -> dict[str, Any]:
    """One training run, by the name of its experiment."""
    work: Callable[..., dict[str, Any]] = table_1_run if experiment == "table 1" else vector_run
    return work(**arguments)


# Table 1


class NumberAndToken:
    """[CLS], the token of a number, and a program's special token, which comes after the vocabulary."""

    def __init__(self, tokens: dict[str, Any], programs: int) -> None:
        self.cls, self.numbers, self.vocabulary = tokens["cls"], tokens["numbers"], tokens["vocabulary"]
        self.size = self.vocabulary + programs

    def __call__(self, description: int, numbers: Any) -> Tensor:
        return torch.tensor([[self.cls, self.numbers[j], self.vocabulary + description] for j in numbers])


def number_tokens(config: dict[str, Any], data: Path | None) -> dict[str, Any]:
    """The tokens of numbers: BERT's, whose vocabulary has one for each number here, or just as many as needed."""
    length = config["length"]
    if not config["bert_vocabulary"]:
        return {"cls": 1, "numbers": list(range(2, 2 + length)), "vocabulary": 2 + length}
    tokenizer = bert_tokenizer(vocabulary_file(data))
    rows = [tokenizer.encode(str(number)).ids for number in range(length)]  # [CLS] number [SEP]
    if any(len(row) != 3 for row in rows):
        raise InputError("vocab.txt: a number below 256 has no token of its own; use that of bert-base-uncased")
    return {"cls": rows[0][0], "numbers": [row[1] for row in rows], "vocabulary": tokenizer.get_vocab_size()}


def table_1_tasks(config: dict[str, Any], data: Path | None, plan: Plan) -> dict[str, dict[str, Any]]:
    """The training runs of Table 1, by name: all seeds of a size together."""
    tokens = number_tokens(config, data)
    return {
        f"programs-{count}-dropout-{dropout}": {
            "experiment": "table 1",
            "programs": count,
            "dropout": dropout,
            "seeds": config["seeds"],
            "length": config["length"],
            "addresses": config["addresses"],
            "tokens": tokens,
            "bert": config["bert"],
            "rate": config["rate"],
            "warmup": config["warmup"],
            "steps": plan.step_count(config["steps"]),
        }
        for dropout in config["dropouts"]
        for count in config["programs"]
    }


def table_1(result: Result, config: dict[str, Any]) -> None:
    """Steps until every operand of random programs is right."""
    chosen = CHOSEN.format(length=config["length"], rate=config["rate"], warmup=config["warmup"], **config["bert"])
    for dropout in config["dropouts"]:
        for count in config["programs"]:
            title = f"steps to 100 %: {count} random programs of {config['length']}, dropout {dropout}"
            paper = PAPER.get(count, "") if config["length"] == 256 else ""
            run = result.runs.get(f"programs-{count}-dropout-{dropout}")
            if run is None:
                result.row(title, paper, "not run")
                continue
            found = run["steps"]
            steps = [step for step in found if step is not None]
            spread = f" ± {stdev(steps):.0f}" if len(steps) > 1 else ""
            ours = f"{mean(steps):.0f}{spread}" if steps else "not reached"
            if len(steps) < len(found):
                ours += f" ({len(steps)} of {len(found)} seeds reached 100 % in {run['step']:,} steps)"
            batch = max(1, count * config["length"] // 20)
            result.row(title, paper, ours, f"batch {batch}, {len(found)} seeds: {', '.join(map(str, steps))}. {chosen}")
            chosen = "as above"
    _draw(result, config)


def table_1_run(
    programs: int,
    dropout: float,
    seeds: list[int],
    length: int,
    addresses: int,
    tokens: dict[str, Any],
    bert: dict[str, Any],
    rate: float,
    warmup: int,
    steps: int,
    folder: Path,
    deadline: float | None,
) -> dict[str, Any]:
    """One row of Table 1: a model a seed, each with programs of its own, trained side by side."""
    device = fast_device()
    tables = [InstructionTable.random(programs, length, addresses, seed=seed) for seed in seeds]
    describe, sizes = NumberAndToken(tokens, programs), tables[0].sizes
    models = []
    for seed in seeds:
        torch.manual_seed(seed)
        models.append(Bert(sum(sizes), describe.size, dropout=dropout, positions=16, **bert))
    stack = BertStack(models).to(device)
    stack.register_buffer("reached", torch.full((len(seeds),), -1))  # the step at which all was right: saved with it
    reached = cast(Tensor, stack.reached)
    inputs = torch.cat([describe(program, range(length)) for program in range(programs)]).to(device)
    labels = torch.stack([torch.as_tensor(table.entries()[2]) for table in tables]).to(device)
    everything = inputs.expand(len(seeds), -1, -1)
    count = len(inputs)
    orders = [endless(seed, count, max(1, count // 20)) for seed in seeds]
    models_at = torch.arange(len(seeds), device=device)[:, None]
    sample = torch.randperm(count, generator=torch.Generator().manual_seed(0))[:2048].to(device)

    def batches(step: int) -> Batch:
        chosen = torch.stack([order(step) for order in orders]).to(device)
        return inputs[chosen], labels[models_at, chosen], rate * min(1.0, (step + 1) / warmup)

    def evaluate(model: nn.Module) -> Metrics:
        assert isinstance(model, BertStack)
        same = (predict(model, everything[:, sample], sizes, padded=False) == labels[:, sample]).all(dim=-1)
        right = same.double().mean(dim=1).tolist()
        if 1.0 in right and count > len(sample):  # only then look at all
            same = (predict(model, everything, sizes, padded=False) == labels).all(dim=-1)
            full = same.double().mean(dim=1).tolist()
            right = [all_of if some == 1.0 else some for some, all_of in zip(right, full)]
        return {"right": right}

    def until(metrics: Metrics) -> bool:
        for model, right in enumerate(metrics["right"]):
            if right == 1.0 and reached[model] < 0:
                reached[model] = metrics["step"]
        return bool((reached >= 0).all())

    optimiser = adamw(stack, rate)
    run = train(
        stack,
        optimiser,
        lambda model, batch: torch.zeros(()),  # `descend` makes the steps
        batches,
        steps=steps,
        evaluate=evaluate,
        every=10,
        until=until,
        descend=Descent(stack, optimiser, sizes, padded=False),
        seed=seeds[0],
        folder=folder,
        save_seconds=120,
        keep=False,
        deadline=deadline,
        settings={
            "programs": programs,
            "seeds": seeds,
            "length": length,
            "addresses": addresses,
            "dropout": dropout,
            "bert": bert,
            "rate": rate,
            "warmup": warmup,
        },
        progress=False,
    )
    curve = [[m["step"], *(round(right, 5) for right in m["right"])] for m in run.metrics]
    return {
        "steps": [step if step >= 0 else None for step in reached.tolist()],
        "step": run.step,
        "curve": curve,
        "parameters": sum(p.numel() for p in models[0].parameters()),
        "finished": run.reached or run.step >= steps,
    }


def _draw(result: Result, config: dict[str, Any]) -> None:
    panels = len(config["dropouts"])
    with plot(result.folder / "memorise.png", panels=panels, title="random programs memorised") as axes:
        for axis, dropout in zip(axes, config["dropouts"]):
            for colour, count in enumerate(config["programs"]):
                run = result.runs.get(f"programs-{count}-dropout-{dropout}")
                if run is None or not run["curve"]:
                    continue
                curve = np.array(run["curve"])
                axis.plot(curve[:, 0], curve[:, 1], color=f"C{colour}", lw=0.8, label=f"{count} programs")
                axis.plot(curve[:, 0], curve[:, 2:], color=f"C{colour}", lw=0.8)
            axis.set_xlabel("step")
            axis.set_ylabel("instructions right")
            axis.set_title(f"dropout {dropout}", fontsize=9)
            if axis.lines:
                axis.legend(fontsize=7)


# Theorem 1


def theorem_1(result: Result, config: dict[str, Any]) -> None:
    """Compiled memorisers: how many labels come out right, and the parameters beside the theorem's."""
    length = config["length"] if config["compiled"] == [4] else 256
    for count in config["compiled"]:
        table = InstructionTable.random(count, length, length, seed=count)
        for method in ("grid", "yun"):
            if method == "yun" and count > 64:
                continue
            net = kl.compile(table, method=method)
            report = kl.verify(table, net)
            sizes = net.sizes
            each = ", ".join(f"{field} {sizes[field]:,}" for field in net.fields)
            result.row(
                f"{method}: {count} random programs of {length} in {net.dtype}",
                f"{sizes['theorem']:,} parameters by the theorem as stated, {sizes['theorem_corrected']:,} corrected",
                f"{1 - report.mismatches / report.checked:.2%} of {report.checked:,} operands, {each} parameters",
                "compiled, not trained; corrected: h3 = 4z, and the last layer counted",
                holds=report.holds,
            )
    table = InstructionTable.random(min(config["compiled"]), length, length, seed=min(config["compiled"]))
    try:
        kl.compile(table, method="yun", dtype="float32")
        said = "exact"
    except NotExact as error:
        said = str(error)
    result.row("yun in float32", "", said, "compiling refuses what does not come out exactly")


# Programs that do something


ANSWERS = {"multiply": ("product", 42), "fibonacci": ("a", 55), "sort": ("list", [1, 2, 3, 4, 5]), "count": ("ones", 6)}


def useful_programs(result: Result, progress: bool) -> None:
    """multiply, Fibonacci, sort and count, memorised by a trained and by a compiled network, and performed."""
    images = memorised.subleq_images()
    table = InstructionTable.of_images(images)
    torch.manual_seed(0)
    network = OneHot(table.longest, len(table), sum(table.sizes))
    trained = Synthesizer(network, table.sizes, Executor(), by_index)
    run = memorise(trained, table, steps=4000, rate=3e-3, batch=64, progress=progress, title="useful programs")
    compiled = Synthesizer(kl.compile(table), table.sizes, Executor(), by_index)
    for index, (name, image) in enumerate(images.items()):
        label, answer = ANSWERS[name]
        at = image.address(label)
        said = []
        for machine in (trained, compiled):
            done = machine.run(index, image.words, max_steps=10_000)
            memory: Any = done.memory[at : at + 5] if isinstance(answer, list) else done.memory[at]
            said.append((memory, done.steps))
        result.row(
            f"{name}, memorised and performed",
            "",
            f"{said[0][0]} by a trained feedforward network, {said[1][0]} by a compiled one",
            f"{len(image.code)} instructions, {said[0][1]} performed; training took {run.step} steps",
            holds=all(found == answer for found, _ in said),
        )


# Programs described by their own instructions


class Reader(nn.Module):
    """[j, the program's operands] → logits: operands as embedded numbers at places, j as a question; a transformer."""

    def __init__(self, length: int, sizes: tuple[int, ...], hidden: int) -> None:
        super().__init__()
        operands, values = len(sizes), max(*sizes, length)
        self.value = nn.Embedding(values, hidden)
        self.place = nn.Embedding(length, hidden)
        self.operand = nn.Embedding(operands, hidden)
        layer = nn.TransformerEncoderLayer(hidden, 4, 4 * hidden, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.ask = nn.Embedding(operands, hidden)
        self.heads = nn.ModuleList(nn.Linear(hidden, size) for size in sizes)
        self.register_buffer("places", torch.arange(length * operands) // operands)
        self.register_buffer("kinds", torch.arange(length * operands) % operands)

    def forward(self, inputs: Tensor) -> Tensor:  # (batch, 1 + length·operands)
        """Logits of all operands."""
        number, program = inputs[:, 0].long(), inputs[:, 1:].long()
        known = self.value(program) + self.place(self.places) + self.operand(self.kinds)
        asked = self.place(number)[:, None] + self.ask.weight  # one question an operand
        read = self.encoder(torch.cat([asked, known], dim=1))
        return torch.cat([head(read[:, k]) for k, head in enumerate(self.heads)], dim=-1)


def vector_tasks(config: dict[str, Any], plan: Plan) -> dict[str, dict[str, Any]]:
    """One training run for each number of programs."""
    shared = {key: value for key, value in config.items() if key != "sets"}
    shared["steps"] = plan.step_count(shared["steps"])
    return {f"vector-{count}": {"experiment": "vector", "programs": count, **shared} for count in config["sets"]}


def vectors(result: Result, config: dict[str, Any]) -> None:
    """The instruction vector as the description, on programs of the training set and on new ones."""
    for count in config["sets"]:
        title = f"instruction vector as description, {count} programs of {config['length']} in training"
        run = result.runs.get(f"vector-{count}")
        if run is None:
            result.row(title, "", "not run")
            continue
        result.row(
            title,
            "",
            f"{run['seen']:.1%} of instructions right on programs seen, {run['new']:.1%} on 256 new ones",
            f"a 2-layer transformer over the vector, {run['step']} steps of {config['batch']}",
        )


def vector_run(
    programs: int,
    length: int,
    addresses: int,
    steps: int,
    batch: int,
    hidden: int,
    folder: Path,
    deadline: float | None,
) -> dict[str, Any]:
    """Train on some programs that are described by their instructions; measure on them and on others."""
    device = fast_device()
    tables = {
        "seen": InstructionTable.random(programs, length, addresses, seed=1),
        "new": InstructionTable.random(256, length, addresses, seed=99),
    }
    arrays = {name: torch.as_tensor(table.array()).to(device) for name, table in tables.items()}
    sizes, fields = tables["seen"].sizes, tables["seen"].fields
    torch.manual_seed(0)
    machine = Synthesizer(Reader(length, sizes, hidden), sizes, Executor(), ByVector(3 * length)).to(device)
    order = shuffled(0, programs * length, batch)

    def evaluate(model: nn.Module) -> Metrics:
        assert isinstance(model, Synthesizer)
        found = {}
        for name, array in arrays.items():
            some = array[:256]
            inputs, labels = _questions(some, torch.arange(some.shape[0] * length, device=device))
            found[name] = accuracies(model.predict(inputs), labels, fields)["right"]
        return found

    run = train(
        machine,
        torch.optim.AdamW(machine.parameters(), lr=1e-3),
        lambda model, some: model.loss(*some),  # type: ignore[operator]
        lambda step: _questions(arrays["seen"], order(step).to(device)),
        steps=steps,
        every=100,
        evaluate=evaluate,
        until=lambda metrics: min(metrics["seen"], metrics["new"]) == 1.0,
        schedule=lambda step: 1e-3 * min(1.0, (step + 1) / 100),
        folder=folder,
        save_seconds=60,
        keep=False,
        deadline=deadline,
        settings={"programs": programs, "length": length, "addresses": addresses, "batch": batch, "hidden": hidden},
        progress=False,
    )
    return {
        "step": run.step,
        "seen": run.last.get("seen", 0.0),
        "new": run.last.get("new", 0.0),
        "curve": run.metrics,
        "finished": run.reached or run.step >= steps,
    }


def _questions(programs: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Inputs [j, program] and operands of entries that are counted through all programs."""
    length = programs.shape[1]
    program, number = chosen // length, chosen % length
    inputs = torch.cat([number[:, None], programs[program].flatten(1)], dim=1).float()
    return inputs, programs[program, number]
