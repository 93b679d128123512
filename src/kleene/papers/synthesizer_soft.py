"""Experiments 2 and 3 (Figure 3): soft instructions and soft imperatives on SST-2, beside a plain BERT classifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from kleene.common.execution import Instruction, Store
from kleene.compilers.classifier_to_synthesizer import soft_memory
from kleene.machines.instruction_table import InstructionTable
from kleene.machines.subleq import Executor
from kleene.networks.synthesizer.descriptions import PAD, bert_tokenizer, padded
from kleene.networks.trained.bert import Bert
from kleene.networks.trained.bert_stack import BertStack, predict
from kleene.papers.protocol import Config, Criterion, Experiment, Measured, Row, Runs
from kleene.papers.report import plot
from kleene.papers.sst2 import read_sst2, vocabulary_file
from kleene.papers.tasks import Plan, Tasks, fast_device
from kleene.training.bert_stack import Batch, Descent, adamw, endless
from kleene.training.loop import train
from kleene.training.options import Evaluation, GradientStep, Metrics, Storage

PAPER = {"classifier": "81.9 ± 0.5", "instruction": "81.9 ± 0.5", "imperative": "80.7 ± 1.3"}
TITLES = {
    "classifier": "BERT for sequence classification",
    "instruction": "Synthesizer, soft instruction",
    "imperative": "Synthesizer, soft imperative",
}
ASK = {"classifier": "{text}", "instruction": "classify this input: {text}"}
IMPERATIVE = "as long as the input text is positive run [P{program}] [SEP] {text}"
HALT = (0, 0, 0)
WIDTH = 16  # texts of a batch are padded to a multiple of this, so that few shapes occur

RATES = [{"rate": rate} for rate in (1e-4, 2e-4, 4e-4, 8e-4)]
SPREADS = (0.02, 0.04, 0.0625, 0.09)
# what is tried with seed 0, to choose from: rates, and for the imperative rates × initial deviations
TRIALS: dict[str, list[dict[str, Any]]] = {
    "classifier": RATES,
    "instruction": RATES,
    "imperative": [{**rate, "spread": spread} for spread in SPREADS for rate in RATES],
}

SCALES: dict[str, dict[str, Any]] = {
    "paper": {
        "seeds": [1, 2, 3, 4, 5],
        "texts": None,
        "epochs": 2,
        "batch": 32,
        "every": 200,
        "trials": TRIALS,
        "warmup": 400,
        "bert": {"hidden": 256, "intermediate": 1024, "layers": 4, "heads": 4, "dropout": 0.1},
        "sizes": [256, 256, 256],
        "programs": 10,
        "length": 10,
        "run_steps": 50,
    },
    "small": {
        "seeds": [1],
        "texts": 16000,
        "epochs": 2,
        "batch": 32,
        "every": 100,
        "rate": 1e-3,
        "warmup": 100,
        "bert": {"hidden": 64, "intermediate": 128, "layers": 2, "heads": 2, "dropout": 0.1, "spread": 0.125},
        "sizes": [32, 32, 32],
        "programs": 4,
        "length": 5,
        "run_steps": 50,
    },
    "tiny": {
        "seeds": [1],
        "texts": 200,
        "epochs": 1,
        "batch": 20,
        "every": 5,
        "rate": 1e-3,
        "warmup": 2,
        "bert": {"hidden": 16, "intermediate": 16, "layers": 1, "heads": 2, "dropout": 0.0},
        "sizes": [16, 16, 16],
        "programs": 10,
        "length": 10,
        "run_steps": 50,
    },
}


def _task(kind: str, seeds: list[int], trial: Config, config: Config, data: Path | None, plan: Plan) -> dict[str, Any]:
    settings = {key: value for key, value in config.items() if key not in ("seeds", "trials", "scale")}
    settings |= {key: value for key, value in trial.items() if key != "spread"}
    if "spread" in trial:
        settings["bert"] = {**settings["bert"], "spread": trial["spread"]}
    given = {} if plan.steps is None else {"steps": plan.steps}  # not of the task: the learning rate falls with them
    return {"kind": kind, "seeds": seeds, "data": data, "config": {**settings, **given}}


def trials_of(kinds: Sequence[str]) -> Any:
    """The first stage: every setting, with seed 0."""

    def stage(config: Config, data: Path | None, plan: Plan, runs: Runs) -> Tasks:
        vocabulary_file(data), read_sst2(data, "dev")  # a clear error before any work
        return {
            f"{kind}-trial-{number}": _task(kind, [0], trial, config, data, plan)
            for kind in kinds
            for number, trial in enumerate(config.get("trials", {}).get(kind, ()))
        }

    return stage


def finals_of(kinds: Sequence[str]) -> Any:
    """The second stage: the best setting, with all other seeds."""

    def stage(config: Config, data: Path | None, plan: Plan, runs: Runs) -> Tasks:
        chosen = {kind: choose(kind, config, runs) for kind in kinds}
        return {
            kind: _task(kind, config["seeds"], trial, config, data, plan)
            for kind, trial in chosen.items()
            if trial is not None
        }

    return stage


def _best(run: dict[str, Any]) -> float:
    return max(float(point["right"]) for point in run["seeds"][0]["curve"])


def choose(kind: str, config: Config, runs: Runs) -> dict[str, Any] | None:
    """The setting with the best validation accuracy; None as long as a trial is missing."""
    trials = config.get("trials", {}).get(kind)
    if not trials:
        return {}
    names = [f"{kind}-trial-{number}" for number in range(len(trials))]
    if any(name not in runs or runs[name]["step"] < runs[name]["steps"] for name in names):
        return None
    found = [_best(runs[name]) for name in names]
    return dict(trials[found.index(max(found))])


def _spread(values: list[float]) -> str:
    spread = f" ± {100 * stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * mean(values):.1f}{spread}"


# what a row reads off a run's seed, by title
READS: dict[str, Any] = {
    "best validation accuracy of operand A, %": lambda seed: max(point["A"] for point in seed["curve"]),
    "accuracy of operand A at the end, %": lambda seed: seed["curve"][-1]["A"],
    "all three operands right at the end, %": lambda seed: seed["curve"][-1]["right"],
    "validation texts whose whole run is right, %": lambda seed: seed["runs"].get("right"),
    "positive texts whose whole run is right, %": lambda seed: seed["runs"].get("positive"),
    "negative texts that halt at once, %": lambda seed: seed["runs"].get("negative"),
    "instructions right where the text is taken as positive, %": lambda seed: seed["runs"].get("programs"),
}
COSTS = {"classifier": "3 minutes", "instruction": "3 minutes", "imperative": "10 minutes with 16 settings"}


def rows_of(kinds: Sequence[str]) -> Any:
    """The settings tried, then what the five seeds of the best one reach."""

    def rows(config: Config) -> list[Row]:
        found = [_trials_row(config, kind) for kind in kinds if config.get("trials")]
        for kind in kinds:
            parts = list(READS)[: {"classifier": 2, "instruction": 4, "imperative": 7}[kind]]
            found += [_row(config, kind, part) for part in parts]
        return found

    return rows


def _trials_row(config: Config, kind: str) -> Row:
    def measure(runs: Runs) -> Measured | None:
        trials = config["trials"][kind]
        done = [(trial, runs[name]) for n, trial in enumerate(trials) if (name := f"{kind}-trial-{n}") in runs]
        if not done:
            return None
        return Measured("; ".join(f"{_settings(trial)}: {100 * _best(run):.1f}" for trial, run in done))

    note = "validation chooses, so that the best of several is a little flattered; seed 0 is not among the five"
    return Row(f"{TITLES[kind]}: settings tried with seed 0, best validation accuracy, %", measure, note=note)


def _settings(trial: Config) -> str:
    return f"rate {trial['rate']:g}" + (f", initial deviation {trial['spread']:g}" if "spread" in trial else "")


def _row(config: Config, kind: str, part: str) -> Row:
    first = part == next(iter(READS))
    stated = PAPER[kind] if first and config["texts"] is None else ""
    theirs, spread = (float(number) for number in PAPER[kind].split(" ± "))

    def measure(runs: Runs) -> Measured | None:
        run = runs.get(kind)
        if run is None or not run["seeds"][0]["curve"]:
            return None
        values = [READS[part](seed) for seed in run["seeds"]]
        if values[0] is None:
            return None
        whole = run["step"] >= run["steps"]
        note = f"{len(values)} seed{'s' * (len(values) > 1)}"
        note += "" if whole else f", stopped after {run['step']:,} of {run['steps']:,} steps"
        return Measured(_spread(values), 100 * mean(values), len(values), whole, note, (kind,))

    title = part.replace("operand A", "the class") if kind == "classifier" else part
    return Row(
        f"{TITLES[kind]}: {title}",
        measure,
        stated,
        "Synthesizer paper, Figure 3" if stated else "",
        Criterion(
            "the mean of five seeds is within two of the paper's standard deviations",
            lambda found: abs(found - theirs) <= 2 * spread,
            seeds=5,
        )
        if stated
        else None,
        cost=f"{COSTS[kind]} on an H200" if config["texts"] is None else "",
    )


def draw_of(short: str, kinds: Sequence[str]) -> Any:
    """Figure 3: validation accuracy over training, mean and every seed."""

    def draw(folder: Path, config: Config, runs: Runs) -> None:
        with plot(folder / f"{short}.png", title="validation accuracy of operand A (or of the class)") as (axis,):
            for colour, kind in enumerate(kind for kind in kinds if kind in runs):
                curves = [seed["curve"] for seed in runs[kind]["seeds"]]
                for curve in curves:
                    axis.plot([p["step"] for p in curve], [p["A"] for p in curve], color=f"C{colour}", lw=0.5)
                middle = np.mean([[p["A"] for p in curve] for curve in curves], axis=0)
                axis.plot([p["step"] for p in curves[0]], middle, color=f"C{colour}", lw=2, label=TITLES[kind])
            axis.set_xlabel("step")
            axis.legend(fontsize=7)

    return draw


# One run


@dataclass
class Task:
    """Texts as tokens, and the operands that belong to them."""

    tokens: Tensor  # (texts, time), padded
    lengths: np.ndarray
    labels: Tensor  # (texts, operands)


class Maker:
    """Makes the three tasks out of SST-2."""

    def __init__(self, data: Path | None, config: dict[str, Any], seed: int) -> None:
        special = [f"[P{i}]" for i in range(config["programs"])]
        self.tokenizer = bert_tokenizer(vocabulary_file(data), special)
        self.config, self.seed = config, seed
        # random programs of instructions 1 … length that avoid address 0 and instruction 0
        chance = np.random.default_rng(seed)
        k, _, _ = config["sizes"]
        shape = (config["programs"], config["length"] + 1)
        operands = [chance.integers(1, k, shape), chance.integers(1, k, shape), chance.integers(1, shape[1], shape)]
        programs = np.stack(operands, axis=-1)
        programs[:, 0] = HALT
        self.table = InstructionTable(programs, sizes=config["sizes"])
        self.memory = chance.integers(-9, 10, k).tolist()

    @property
    def vocabulary(self) -> int:
        return int(self.tokenizer.get_vocab_size())

    def encode(self, texts: list[str], numbers: Sequence[int] | None = None) -> list[list[int]]:
        """Tokens of many texts, each after the number of an instruction where there is one."""
        if numbers is not None:
            texts = [f"{number} {text}" for number, text in zip(numbers, texts)]
        return [encoding.ids for encoding in self.tokenizer.encode_batch(texts)]

    def make(self, kind: str, texts: list[str], sentiments: list[int], part: int) -> Task:
        """The task's inputs and labels for these texts."""
        numbers: list[int] | None
        if kind == "imperative":
            chance = np.random.default_rng([self.seed, part])
            programs = chance.integers(0, len(self.table), len(texts)).tolist()
            numbers = chance.integers(1, self.table.longest, len(texts)).tolist()
            asked = [IMPERATIVE.format(program=p, text=text) for p, text in zip(programs, texts)]
            labels = [
                self.table.lookup(p, j) if positive else HALT for p, j, positive in zip(programs, numbers, sentiments)
            ]
        elif kind == "instruction":
            numbers = [1] * len(texts)
            asked = [ASK[kind].format(text=text) for text in texts]
            labels = [(positive, 2, 0) for positive in sentiments]  # subleq(&−class, &output, 0)
        else:
            numbers = None
            asked = [ASK[kind].format(text=text) for text in texts]
            labels = [(positive,) for positive in sentiments]
        rows = self.encode(asked, numbers)
        return Task(padded(rows), np.array([len(row) for row in rows]), torch.tensor(labels))


def train_kind(
    kind: str,
    seeds: list[int],
    data: Path | None,
    config: dict[str, Any],
    folder: Path,
    deadline: float | None,
) -> dict[str, Any]:
    """Train one kind of model of Figure 3, all seeds side by side, and measure each."""
    device = torch.device(fast_device())
    makers = [Maker(data, config, seed) for seed in seeds]
    texts, sentiments = read_sst2(data, "train")
    if config["texts"] is not None:
        some = np.random.default_rng(0).permutation(len(texts))[: config["texts"]].tolist()
        texts, sentiments = [texts[i] for i in some], [sentiments[i] for i in some]
    held, held_sentiments = read_sst2(data, "dev")
    learned = [maker.make(kind, texts, sentiments, 0) for maker in makers]
    validation = [maker.make(kind, held, held_sentiments, 1) for maker in makers]
    sizes = [2] if kind == "classifier" else config["sizes"]
    tokens, labels = stacked([task.tokens for task in learned]).to(device), _labels(learned).to(device)
    asked, answers = stacked([task.tokens for task in validation]).to(device), _labels(validation)
    models = []
    for seed in seeds:
        torch.manual_seed(seed)
        positions = max(128, tokens.shape[2], asked.shape[2])
        models.append(Bert(sum(sizes), makers[0].vocabulary, positions=positions, **config["bert"]))
    stack = BertStack(models).to(device)
    batch, rate, warmup = config["batch"], config["rate"], config["warmup"]
    orders = [endless(seed, len(texts), batch) for seed in seeds]
    models_at = torch.arange(len(seeds), device=device)[:, None]
    steps = config.get("steps") or config["epochs"] * -(-len(texts) // batch)

    def batches(step: int) -> Batch:
        chosen = [order(step) for order in orders]
        longest = max(int(task.lengths[index.numpy()].max()) for task, index in zip(learned, chosen))
        at = torch.stack(chosen).to(device)
        now = rate * min((step + 1) / warmup, (steps - step) / max(1, steps - warmup))
        return tokens[models_at, at, : -(-longest // WIDTH) * WIDTH], labels[models_at, at], now

    def evaluate(model: nn.Module) -> Metrics:
        assert isinstance(model, BertStack)
        same = predict(model, asked, sizes, padded=True).cpu() == answers
        return {"A": same[..., 0].double().mean(dim=1).tolist(), "right": same.all(dim=2).double().mean(dim=1).tolist()}

    optimiser = adamw(stack, rate)
    run = train(
        stack,
        optimiser,
        lambda model, some: torch.zeros(()),  # `descend` makes the steps
        batches,
        steps=steps,
        gradient=GradientStep(descend=Descent(stack, optimiser, sizes, clip=1.0)),
        seed=seeds[0],
        settings={"kind": kind, "seeds": seeds, "config": config},
        evaluation=Evaluation(measure=evaluate, every=config["every"]),
        storage=Storage(folder=folder, save_seconds=120, keep=False, deadline=deadline),
    )
    stack.eval()
    measured: list[dict[str, float]] = [{} for _ in seeds]
    if kind == "instruction":
        found = predict(stack, asked, sizes, padded=True).cpu()
        measured = [_written(rows, held_sentiments, sizes[0]) for rows in found]
    elif kind == "imperative":
        measured = _performed(stack, makers, held, held_sentiments, config["run_steps"])
    each = [
        {
            "seed": seed,
            "curve": [{"step": m["step"], "A": m["A"][s], "right": m["right"][s]} for m in run.metrics],
            "runs": measured[s],
        }
        for s, seed in enumerate(seeds)
    ]
    parameters = sum(p.numel() for p in models[0].parameters())
    return {
        "seeds": each,
        "step": run.step,
        "steps": steps,
        "parameters": parameters,
        "finished": run.step >= steps,
    }


def stacked(parts: Sequence[Tensor]) -> Tensor:
    """Token tensors (texts, time) as one (models, texts, time), the time rounded up to a multiple of WIDTH."""
    longest = -(-max(part.shape[1] for part in parts) // WIDTH) * WIDTH
    return torch.stack([nn.functional.pad(part, (0, longest - part.shape[1]), value=PAD) for part in parts])


def _labels(tasks: Sequence[Task]) -> Tensor:
    return torch.stack([task.labels for task in tasks])


def _written(found: Tensor, sentiments: list[int], addresses: int) -> dict[str, float]:
    """The share of texts for which performing the instruction writes the right class."""
    executor, right = Executor(literal=True), 0
    for instruction, positive in zip(found.tolist(), sentiments):
        store = Store(soft_memory(2, addresses))
        following = executor.execute(store, 1, tuple(instruction))
        right += following is None and store.memory[2] == positive
    return {"right": right / len(sentiments)}


def visited(table: InstructionTable, program: int, memory: list[int], limit: int) -> list[int]:
    """The numbers of the instructions that a program's own run comes to, at most `limit` steps."""
    store, executor, number, seen = Store(list(memory)), Executor(), 1, []
    for _ in range(limit):
        if number >= len(table.programs[program]):  # past the last instruction
            break
        seen.append(number)
        following = executor.execute(store, number, table.lookup(program, number))
        if following is None:
            break
        number = following
    return seen


def _performed(
    stack: BertStack, makers: list[Maker], texts: list[str], sentiments: list[int], limit: int
) -> list[dict[str, float]]:
    """The share of texts whose whole run is right: from instruction 1 on, with a random program each."""
    numbers = range(1, makers[0].table.longest)
    programs = [np.random.default_rng([m.seed, 2]).integers(0, len(m.table), len(texts)).tolist() for m in makers]
    rows = []
    for maker, chosen in zip(makers, programs):
        asked = [IMPERATIVE.format(program=p, text=text) for p, text in zip(chosen, texts) for _ in numbers]
        rows.append(padded(maker.encode(asked, [*numbers] * len(texts))))
    tokens = stacked(rows).to(next(stack.parameters()).device)
    found = predict(stack, tokens, makers[0].table.sizes, padded=True).cpu()
    found = found.view(len(makers), len(texts), len(numbers), 3)
    return [
        _whole_runs(maker, said, chosen, sentiments, limit)
        for maker, said, chosen in zip(makers, found.tolist(), programs)
    ]


def _whole_runs(
    maker: Maker, found: list[list[list[int]]], programs: list[int], sentiments: list[int], limit: int
) -> dict[str, float]:
    """found[text][number − 1] is the instruction that the network names."""
    table, right, taken = maker.table, {True: list[bool](), False: list[bool]()}, list[bool]()
    paths = [visited(table, program, maker.memory, limit) for program in range(len(table))]
    for rows, program, positive in zip(found, programs, sentiments):
        said: list[Instruction] = [tuple(row) for row in rows]
        wanted = [table.lookup(program, number) for number in range(1, table.longest)]
        if positive:
            right[True].append(all(said[j - 1] == wanted[j - 1] for j in paths[program]))
        else:
            right[False].append(said[0] == HALT)
        taken += [one == other for one, other in zip(said, wanted) if one != HALT]
    return {
        "right": mean(map(float, right[True] + right[False])),
        "positive": mean(map(float, right[True])),
        "negative": mean(map(float, right[False])),
        "programs": mean(map(float, taken)) if taken else 0.0,
    }


def _experiment(short: str, kinds: Sequence[str]) -> Experiment:
    stages = (trials_of(kinds), finals_of(kinds))
    return Experiment(f"synthesizer.{short}", SCALES, stages, train_kind, rows_of(kinds), draw_of(short, kinds))


SOFT_INSTRUCTION = _experiment("soft-instruction", ("classifier", "instruction"))
SOFT_IMPERATIVE = _experiment("soft-imperative", ("imperative",))
