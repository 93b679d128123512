"""Teach a Synthesizer's network programs by gradient descent: summed cross-entropy over the operands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from kleene.errors import InputError
from kleene.machines.instruction_table import InstructionTable
from kleene.networks.synthesizer.descriptions import PAD
from kleene.networks.synthesizer.synthesizer import Synthesizer
from kleene.training.loop import Run, fingerprint, shuffled, train
from kleene.training.options import Evaluation, GradientStep, Metrics, Storage


def examples(synthesizer: Synthesizer, table: InstructionTable, descriptions: Sequence[Any]) -> tuple[Tensor, Tensor]:
    """Every instruction of every program: the network's inputs, and the operands (entries, operands)."""
    if len(descriptions) != len(table):
        raise InputError(f"memorise: {len(descriptions)} descriptions for {len(table)} programs")
    if synthesizer.sizes != table.sizes:
        raise InputError(f"memorise: the Synthesizer has {synthesizer.sizes} classes, the table {table.sizes}")
    parts = [synthesizer.describe(d, range(len(rows))) for d, rows in zip(descriptions, table.programs)]
    if not parts[0].is_floating_point():  # tokens: programs' texts may have different lengths
        longest = max(part.shape[1] for part in parts)
        parts = [nn.functional.pad(part, (0, longest - part.shape[1]), value=PAD) for part in parts]
    return torch.cat(parts), torch.as_tensor(table.entries()[2])


def memorise(
    synthesizer: Synthesizer,
    table: InstructionTable,
    *,
    descriptions: Sequence[Any] | None = None,
    steps: int = 5000,
    batch: int | None = None,
    rate: float = 5e-4,
    warmup: int = 100,
    every: int = 10,
    sample: int | None = None,
    seed: int = 0,
    folder: str | Path | None = None,
    save_seconds: float = 60.0,
    progress: bool = True,
    title: str = "memorising",
) -> Run:
    """Train a Synthesizer until every operand of every instruction is right.

    `run.reached` says whether all are right, `run.step` after how many steps.

    - `descriptions`: how each program is described to the Synthesizer; by default the program's number.
    - `steps`: the most steps of gradient descent.
    - `batch`: the batch size; by default a twentieth of the table, as in the paper.
    - `rate`: the learning rate.
    - `warmup`: how many steps the learning rate takes to rise.
    - `every`: how many steps lie between two measurements.
    - `sample`: measure this many entries first, and the others only when these are right.
    - `seed`: the seed of the batches.
    - `folder`: keep checkpoints here; the same call goes on from the last one.
    - `save_seconds`: how many seconds lie between two checkpoints.
    - `progress`: show a progress bar.
    - `title`: the text of the progress bar.
    """
    device = next(synthesizer.parameters()).device
    given = list(range(len(table))) if descriptions is None else descriptions
    inputs, labels = (part.to(device) for part in examples(synthesizer, table, given))
    count = len(inputs)
    size = max(1, count // 20) if batch is None else batch
    order = shuffled(seed, count, size)
    looked_at = torch.randperm(count, generator=torch.Generator().manual_seed(0))[:sample].to(device)

    def batches(step: int) -> tuple[Tensor, Tensor]:
        chosen = order(step).to(device)
        return inputs[chosen], labels[chosen]

    def evaluate(model: nn.Module) -> Metrics:
        assert isinstance(model, Synthesizer)
        found = accuracies(model.predict(inputs[looked_at]), labels[looked_at], table.fields)
        if found["right"] == 1.0 and len(looked_at) < count:
            found = accuracies(model.predict(inputs), labels, table.fields)
        return found

    return train(
        synthesizer,
        torch.optim.AdamW(synthesizer.parameters(), lr=rate, fused=device.type == "cuda"),
        lambda model, some: model.loss(*some),  # type: ignore[operator]
        batches,
        steps=steps,
        gradient=GradientStep(schedule=lambda step: rate * min(1.0, (step + 1) / max(warmup, 1))),
        seed=seed,
        settings={"rate": rate, "warmup": warmup, "batch": size, "entries": fingerprint(inputs, labels)},
        title=title,
        evaluation=Evaluation(measure=evaluate, every=every, until=lambda metrics: metrics["right"] == 1.0),
        storage=Storage(folder=folder, save_seconds=save_seconds, progress=progress),
    )


def accuracies(found: Tensor, labels: Tensor, fields: Sequence[str]) -> Metrics:
    """The share of right operands, of each and of whole instructions."""
    same = found == labels
    each = same.double().mean(dim=0).tolist()
    return {"right": same.all(dim=1).double().mean().item(), **dict(zip(fields, each))}
