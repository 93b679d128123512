"""Trace supervision (ALTA, appendix C.1): an MLP learns a program's steps, and replaces the MLP of the compiled
network.

The MLP is given the residual stream after attention, as the program's traces have it, and learns the residual
stream after the layer, by mean squared error. Noise on its input makes it robust to its own imprecision, which
comes back in the next layer. A head that is not defined is coded as zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from kleene.common.residual import Layout
from kleene.compilers.program_to_transformer import compile_program
from kleene.errors import InputError
from kleene.lowering.guarding import guarded_updates
from kleene.lowering.step_traces import Traces, traces
from kleene.machines.program import ProgramClass
from kleene.networks.trained.learned_mlp import LearnedTransformer, mlp
from kleene.training.cuda_graph import CudaGraphStep, make_optimiser
from kleene.training.loop import fingerprint, seeded, train
from kleene.training.options import GradientStep, Metrics, Storage, TrainingPlan


@dataclass(frozen=True)
class MLPShape:
    """The MLP that learns: `depth` hidden layers of `width` units, with `noise` on its input."""

    depth: int = 2
    width: int = 128
    noise: float = 0.1


FROM_TRACES = (
    MLPShape(),
    TrainingPlan(steps=5_000, rate=1e-2, batch=256, half=False),
    Storage(),
)  # options and defaults


def learn_from_traces(
    program: ProgramClass,
    inputs: Sequence[Sequence[int]],
    *,
    test: Sequence[Sequence[int]] | None = None,
    shape: MLPShape = FROM_TRACES[0],
    plan: TrainingPlan = FROM_TRACES[1],
    storage: Storage = FROM_TRACES[2],
) -> LearnedTransformer:
    """Train an MLP on the traces of a program's runs on `inputs`.

    Metrics: the loss, and the shares of traces whose every value is right, with (`accuracy_noisy`) and without
    noise. `plan.target` ends the training when `accuracy_noisy` reaches it. With `test`, the last metrics have the
    share of these inputs that the network gets right.
    """
    where = storage.device or ("cuda" if torch.cuda.is_available() else "cpu")
    base = compile_program(program)
    found = traces(program, inputs)
    if not len(found):
        raise InputError(f"{program.spec.name}: no inputs to learn from; give at least one")
    before, after = (x.to(where) for x in vectors(found, base.layout))
    torch.manual_seed(seeded(plan.seed, -1))
    model = mlp(before.shape[1], shape.depth, shape.width).to(where)
    segments = [base.layout[name].slice for name in program.spec.variables]

    def loss(net: nn.Module, indices: Tensor) -> Tensor:
        x = before[indices]
        loss: Tensor = ((net(x + shape.noise * torch.randn_like(x)) - after[indices]) ** 2).mean()
        return loss

    def batches(step: int) -> Tensor:
        source = torch.Generator().manual_seed(seeded(plan.seed, step))
        return torch.randint(len(before), (plan.batch,), generator=source)

    def right(x: Tensor) -> float:
        made = model(x)
        same = [made[:, part].argmax(dim=1) == after[:, part].argmax(dim=1) for part in segments]
        return torch.stack(same).all(dim=0).double().mean().item()

    def evaluate(_: nn.Module) -> Metrics:
        torch.manual_seed(0)
        noisy = before + shape.noise * torch.randn_like(before)
        return {"accuracy": right(before), "accuracy_noisy": right(noisy)}

    descent = make_optimiser(plan.optimiser, model, plan.rate)
    settings = {
        "program": program.spec.name,
        "updates": fingerprint(guarded_updates(program).to_json()),
        "inputs": fingerprint([list(tokens) for tokens in inputs]),
        "traces": fingerprint(before, after),
        "depth": shape.depth,
        "width": shape.width,
        "rate": plan.rate,
        "optimiser": plan.optimiser,
        "batch": plan.batch,
        "noise": shape.noise,
    }
    run = train(
        model,
        descent,
        loss,
        batches,
        steps=plan.steps,
        seed=plan.seed,
        evaluation=plan.evaluation(evaluate, "accuracy_noisy", 20),
        gradient=GradientStep(descend=CudaGraphStep(descent, loss, half=bool(plan.half))),
        storage=storage,
        settings=settings,
        title=f"{program.spec.name} from traces",
    )
    net = LearnedTransformer(base.to(where), model).eval()
    net.metrics = [dict(entry) for entry in run.metrics]
    if test and net.metrics:
        net.metrics[-1]["test"] = accuracy(net, program, test)
    return net


def vectors(found: Traces, layout: Layout) -> tuple[Tensor, Tensor]:
    """MLP inputs and outputs (row, dim) of traces: variables and heads, without scratch dimensions."""
    spec = found.spec
    size = max(layout[name].stop for name in spec.kinds)
    before, after = torch.zeros(len(found), size), torch.zeros(len(found), size)
    for name in spec.kinds:
        segment = layout[name]
        if segment.coding == "scalar":
            before[:, segment.start] = torch.from_numpy(found.averages[name] * segment.scale).float()
            continue
        codes = torch.cat([torch.eye(segment.size), torch.zeros(1, segment.size)])  # −1 is the last row: no value
        before[:, segment.slice] = codes[torch.from_numpy(found.before[name])]
        if name in spec.variables:
            after[:, segment.slice] = codes[torch.from_numpy(found.after[name])]
    return before, after


def accuracy(net: Any, program: ProgramClass, inputs: Sequence[Sequence[int]], read: str = "all") -> float:
    """The share of inputs on which a network and the program give the same: at "all" positions or the "last"."""
    wanted = reference(program, inputs)
    made = net.run_batch(inputs)
    same = [a[-1] == b[-1] if read == "last" else list(a) == list(b) for a, b in zip(made, wanted)]
    return sum(map(bool, same)) / len(same)


def reference(program: ProgramClass, inputs: Sequence[Sequence[int]]) -> list[list[int]]:
    """The program's outputs, by the rule machine."""
    from kleene.lowering.rule_machine import RuleMachine

    return [list(output) for output in RuleMachine(guarded_updates(program)).run_batch(inputs)]
