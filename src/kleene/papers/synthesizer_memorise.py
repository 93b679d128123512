"""Theorem 1 of the Synthesizer paper: programs memorised by compiled networks, and performed.

Programs that do something are memorised and performed by a trained and by a compiled network. Programs described by
their own instructions are read by a transformer. Table 1, random programs memorised by BERT, is `synthesizer_sweep`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

import kleene as kl
from kleene.errors import NotExact
from kleene.library import memorised
from kleene.machines.instruction_table import InstructionTable
from kleene.machines.subleq import Executor
from kleene.networks.synthesizer.descriptions import ByVector, by_index
from kleene.networks.synthesizer.synthesizer import OneHot, Synthesizer
from kleene.papers.protocol import Config, Criterion, Experiment, Measured, Row, Runs
from kleene.papers.tasks import Plan, Tasks, Work, fast_device
from kleene.training.loop import shuffled, train
from kleene.training.memorise import accuracies, memorise
from kleene.training.options import Evaluation, GradientStep, Metrics, Storage

SCALES: dict[str, dict[str, Any]] = {
    "paper": {
        "length": 256,
        "compiled": [64, 128],
        "vector": {"length": 16, "addresses": 32, "sets": [64, 16384], "steps": 5000, "batch": 512, "hidden": 128},
    },
    "small": {
        "length": 256,
        "compiled": [64, 128],
        "vector": {"length": 4, "addresses": 8, "sets": [16, 2048], "steps": 1500, "batch": 128, "hidden": 64},
    },
    "tiny": {
        "length": 4,
        "compiled": [4],
        "vector": {"length": 2, "addresses": 4, "sets": [4, 64], "steps": 20, "batch": 16, "hidden": 16},
    },
}


def tasks(config: Config, data: Path | None, plan: Plan, runs: Runs) -> Tasks:
    """Compiled memorisers, useful programs, and a training run for each number of described programs."""
    found: dict[str, dict[str, Any]] = {}
    for count in config["compiled"]:
        for method in ("grid", "yun") if count <= 64 else ("grid",):
            asked = {"programs": count, "length": config["length"], "method": method}
            found[f"{method}-{count}"] = {"experiment": "compiled", **asked}
    least = {"programs": min(config["compiled"]), "length": config["length"]}
    found["yun-float32"] = {"experiment": "refused", **least}
    found["useful"] = {"experiment": "useful"}
    shared = {key: value for key, value in config["vector"].items() if key != "sets"}
    shared["steps"] = plan.step_count(shared["steps"])
    for count in config["vector"]["sets"]:
        found[f"vector-{count}"] = {"experiment": "vector", "programs": count, **shared}
    return found


def work(experiment: str, **arguments: Any) -> dict[str, Any]:
    """One task, by the name of its experiment."""
    if experiment == "vector":
        return vector_run(**arguments)
    del arguments["folder"], arguments["deadline"]
    done: dict[str, Work] = {"compiled": compiled, "refused": refused, "useful": useful_programs}
    return done[experiment](**arguments)


# --- Theorem 1 --------------------------------------------------------------------------------------------


def compiled(programs: int, length: int, method: Literal["grid", "yun"]) -> dict[str, Any]:
    """A compiled memoriser of random programs: its parameters, and how many labels come out right."""
    table = InstructionTable.random(programs, length, length, seed=programs)
    net = kl.compile(table, method=method)
    report = kl.verify(table, net)
    sizes = net.sizes
    return {
        "dtype": net.dtype,
        "checked": report.checked,
        "mismatches": report.mismatches,
        "parameters": {field: sizes[field] for field in net.fields},
        "theorem": sizes["theorem"],
        "corrected": sizes["theorem_corrected"],
    }


def refused(programs: int, length: int) -> dict[str, Any]:
    """What compiling says of the paper's network in float32."""
    table = InstructionTable.random(programs, length, length, seed=programs)
    try:
        kl.compile(table, method="yun", dtype="float32")
    except NotExact as error:
        return {"said": str(error)}
    return {"said": "exact"}


# --- programs that do something ---------------------------------------------------------------------------


ANSWERS = {"multiply": ("product", 42), "fibonacci": ("a", 55), "sort": ("list", [1, 2, 3, 4, 5]), "count": ("ones", 6)}


def useful_programs() -> dict[str, Any]:
    """multiply, Fibonacci, sort and count, memorised by a trained and by a compiled network, and performed."""
    images = memorised.subleq_images()
    table = InstructionTable.of_images(images)
    torch.manual_seed(0)
    network = OneHot(table.longest, len(table), sum(table.sizes))
    trained = Synthesizer(network, table.sizes, Executor(), by_index)
    run = memorise(trained, table, steps=4000, rate=3e-3, batch=64, progress=False)
    machines = {"trained": trained, "compiled": Synthesizer(kl.compile(table), table.sizes, Executor(), by_index)}
    found: dict[str, Any] = {"step": run.step}
    for index, (name, image) in enumerate(images.items()):
        label, answer = ANSWERS[name]
        at, many = image.address(label), len(answer) if isinstance(answer, list) else 1
        found[name] = {"instructions": len(image.code)}
        for kind, machine in machines.items():
            done = machine.run(index, image.words, max_steps=10_000)
            memory: Any = done.memory[at : at + many] if isinstance(answer, list) else done.memory[at]
            found[name] |= {kind: memory, f"{kind}_steps": done.steps}
    return found


# --- programs described by their own instructions ---------------------------------------------------------


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
        asked = self.place(number)[:, None] + self.ask.weight  # one question per operand
        read = self.encoder(torch.cat([asked, known], dim=1))
        return torch.cat([head(read[:, k]) for k, head in enumerate(self.heads)], dim=-1)


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
        gradient=GradientStep(schedule=lambda step: 1e-3 * min(1.0, (step + 1) / 100)),
        settings={"programs": programs, "length": length, "addresses": addresses, "batch": batch, "hidden": hidden},
        evaluation=Evaluation(
            every=100, measure=evaluate, until=lambda metrics: min(metrics["seen"], metrics["new"]) == 1.0
        ),
        storage=Storage(folder=folder, save_seconds=60, keep=False, deadline=deadline),
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


# --- rows -------------------------------------------------------------------------------------------------


def rows(config: Config) -> list[Row]:
    """Compiled networks, useful programs, described programs."""
    found = [_compiled_row(config, name) for name in tasks(config, None, Plan(), {}) if name[:5] in ("grid-", "yun-6")]
    found.append(
        Row("yun in float32", lambda runs: _said(runs), note="compiling refuses what does not come out exactly")
    )
    found += [_useful_row(name) for name in ANSWERS]
    return found + [_vector_row(config["vector"], count) for count in config["vector"]["sets"]]


def _said(runs: Runs) -> Measured | None:
    return Measured(runs["yun-float32"]["said"]) if "yun-float32" in runs else None


def _compiled_row(config: Config, name: str) -> Row:
    method, _, count = name.partition("-")

    def measure(runs: Runs) -> Measured | None:
        run = runs.get(name)
        if run is None:
            return None
        each = ", ".join(f"{field} {number:,}" for field, number in run["parameters"].items())
        right = 1 - run["mismatches"] / run["checked"]
        note = (
            f"in {run['dtype']}; by the theorem {run['theorem']:,} as stated, {run['corrected']:,} corrected "
            "(h3 = 4z, and the last layer counted)"
        )
        text = f"{right:.2%} of {run['checked']:,} operands, {each} parameters"
        return Measured(text, run["mismatches"], 1, note=note, runs=(name,))

    return Row(
        f"{method}: {count} random programs of {config['length']}, compiled",
        measure,
        "every operand",
        "Synthesizer paper, Theorem 1",
        Criterion("every operand of every instruction is right", lambda wrong: wrong == 0, seeds=1, since="24a96f5"),
    )


def _useful_row(name: str) -> Row:
    def measure(runs: Runs) -> Measured | None:
        if "useful" not in runs:
            return None
        run = runs["useful"][name]
        steps = f"{run['instructions']} instructions, {run['trained_steps']} performed"
        note = f"{steps}; training took {runs['useful']['step']} steps"
        return Measured(f"{run['trained']} by a trained feedforward network, {run['compiled']} compiled", note=note)

    return Row(f"{name}, memorised and performed: {ANSWERS[name][1]}", measure)


def _vector_row(config: Config, count: int) -> Row:
    def measure(runs: Runs) -> Measured | None:
        run = runs.get(f"vector-{count}")
        if run is None:
            return None
        text = f"{run['seen']:.1%} of instructions right on programs seen, {run['new']:.1%} on 256 new ones"
        return Measured(text, note=f"a 2-layer transformer over the vector, {run['step']} steps of {config['batch']}")

    title = f"instruction vector as description, {count} programs of {config['length']} in training"
    return Row(title, measure)


MEMORISE = Experiment("synthesizer.memorise", SCALES, (tasks,), work, rows)
