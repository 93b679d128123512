"""End-to-end supervision: a standard transformer learns what a program answers, not how."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kleene.errors import InputError
from kleene.machines.program import ProgramClass
from kleene.networks.trained.encoder_decoder import StandardBlock, StandardConfig, StandardTransformer
from kleene.training.cuda_graph import CudaGraphStep, make_optimiser
from kleene.training.from_traces import reference
from kleene.training.loop import fingerprint, seeded, train
from kleene.training.options import GradientStep, Metrics, Storage, TrainingPlan

IGNORED = -100  # the label of a position without a target
READS = ("all", "last")
EVALUATED = 1024  # examples that the metrics use


@dataclass(frozen=True)
class StandardShape:
    """The shape of a standard transformer.

    layers: how many; with `shared` they have one set of weights.
    positions: "relative" or "absolute".
    width: dimensions of the residual stream.
    hidden: hidden units of the MLP.
    heads, head_size: attention heads, and their dimensions.
    max_length: the longest input; by default the longest of training and test.
    """

    layers: int = 4
    shared: bool = True
    positions: str = "relative"
    width: int = 64
    hidden: int = 256
    heads: int = 4
    head_size: int = 16
    max_length: int | None = None


END_TO_END = (StandardShape(), TrainingPlan(), Storage())  # the options and their defaults


def learn_end_to_end(
    program: ProgramClass,
    inputs: Sequence[Sequence[int]],
    *,
    test: Sequence[Sequence[int]] | None = None,
    read: str = "all",
    shape: StandardShape = END_TO_END[0],
    plan: TrainingPlan = END_TO_END[1],
    storage: Storage = END_TO_END[2],
) -> StandardTransformer:
    """Train a standard transformer on a program's inputs and outputs.

    Metrics: the loss, and the share of (up to 1,024) training inputs that are right at every position that is read;
    with `test` also of those inputs.
    read: learn the output at "all" positions, or at the "last" alone.
    """
    if read not in READS:
        raise InputError(f"read={read!r}: unknown; choose one of {', '.join(READS)}")
    if not inputs:
        raise InputError(f"{program.spec.name}: no inputs to learn from; give at least one")
    if program.spec.max_tokens is not None:
        raise InputError(f"{program.spec.name}: a decoder; this learns programs with an output per token")
    longest = max(len(tokens) for tokens in [*inputs, *(test or [])])
    config = StandardConfig(
        tokens=program.spec.tokens,
        classes=len(program.spec.kinds[program.spec.output]),
        name=program.spec.name,
        **{**asdict(shape), "max_length": max(shape.max_length or 0, longest)},
    )
    torch.manual_seed(seeded(plan.seed, -1))
    model = StandardTransformer(config)
    data = labelled(inputs, reference(program, inputs), read)
    held_out = labelled(test, reference(program, test), read) if test else None
    train_standard(model, data, held_out, plan=plan, storage=storage)
    return model


Data = tuple[Tensor, Tensor, Tensor]  # tokens, which are real, labels: (example, position)


def labelled(inputs: Sequence[Sequence[int]], outputs: Sequence[Sequence[int]], read: str) -> Data:
    """Examples as padded arrays; positions that are not read have the label IGNORED."""
    size = max(map(len, inputs))
    tokens, labels = torch.zeros(len(inputs), size, dtype=torch.long), torch.full((len(inputs), size), IGNORED)
    lengths = torch.tensor([len(row) for row in inputs])
    for i, (given, wanted) in enumerate(zip(inputs, outputs)):
        tokens[i, : len(given)] = torch.tensor(given)
        first = len(given) - 1 if read == "last" else 0
        labels[i, first : len(given)] = torch.tensor(wanted[first:])
    return tokens, torch.arange(size) < lengths[:, None], labels


def train_standard(
    model: StandardTransformer,
    data: Data,
    test: Data | None = None,
    *,
    targets: Tensor | None = None,
    test_targets: Tensor | None = None,
    extra: Callable[[nn.Module, list[Tensor], Tensor], Tensor] | None = None,
    plan: TrainingPlan,
    storage: Storage,
    title: str | None = None,
) -> StandardTransformer:
    """Train in place on examples; `targets` (example, position) is what the decoder reads, if there is one.

    `extra(model, layers, indices)` adds to the loss from the residual stream of every layer (probes).
    """
    where = torch.device(storage.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    model.to(where)
    tokens, real, labels = (part.to(where) for part in data)
    given = None if targets is None else targets.to(where)

    def loss(net: nn.Module, indices: Tensor) -> Tensor:
        layers: list[Tensor] | None = [] if extra is not None else None
        heard = None if given is None else given[indices]
        logits = net(tokens[indices], real[indices], heard, layers)
        value = F.cross_entropy(logits.flatten(0, 1).float(), labels[indices].flatten(), ignore_index=IGNORED)
        return value if extra is None or layers is None else value + extra(net, layers, indices)

    def batches(step: int) -> Tensor:
        source = torch.Generator().manual_seed(seeded(plan.seed, step))
        return torch.randint(len(tokens), (plan.batch,), generator=source)

    blocks = [part for part in model.modules() if isinstance(part, StandardBlock)] if where.type == "cuda" else []
    some = torch.randperm(len(tokens), generator=torch.Generator().manual_seed(0))[:EVALUATED].to(where)

    def evaluate(_: nn.Module) -> Metrics:
        part = None if given is None else given[some]
        with torch.compiler.set_stance("force_eager") if blocks else nullcontext():  # its batches have other shapes
            found = {"accuracy": share_right(model, (tokens[some], real[some], labels[some]), part)}
            return found | ({} if test is None else {"test": share_right(model, test, test_targets)})

    use_half = where.type == "cuda" if plan.half is None else plan.half
    for block in blocks:
        block.compile(dynamic=False)  # fused kernels; all layers share one compilation
    descent = make_optimiser(plan.optimiser, model, plan.rate)
    settings = {
        **asdict(model.config),
        "examples": fingerprint(tokens, real, labels, *(() if given is None else (given,))),
        "rate": plan.rate,
        "optimiser": plan.optimiser,
        "batch": plan.batch,
        "half": use_half,
    }
    run = train(
        model,
        descent,
        loss,
        batches,
        steps=plan.steps,
        seed=plan.seed,
        evaluation=plan.evaluation(evaluate, "accuracy", 10),
        gradient=GradientStep(descend=CudaGraphStep(descent, loss, half=use_half)),
        storage=storage,
        settings=settings,
        title=title or f"{model.config.name} end to end",
    )
    for block in blocks:
        block._compiled_call_impl = None
    model.metrics = [dict(entry) for entry in run.metrics]
    return model.eval()


@torch.no_grad()
def right(model: StandardTransformer, data: Data, targets: Tensor | None = None, chunk: int = 1024) -> Tensor:
    """Which examples are right at every position that is read.

    With a decoder this is teacher forced, and the same as decoding greedily: up to the first mistake the decoder
    has read only right tokens.
    """
    model.eval()
    found = []
    for start in range(0, len(data[0]), chunk):
        tokens, real, labels = (part[start : start + chunk].to(model.device) for part in data)
        heard = None if targets is None else targets[start : start + chunk].to(model.device)
        best = model(tokens, real, heard).argmax(dim=-1)
        found.append(((best == labels) | (labels == IGNORED)).all(dim=1).cpu())
    return torch.cat(found)


def share_right(model: StandardTransformer, data: Data, targets: Tensor | None = None) -> float:
    """The share of examples that are right at every position that is read."""
    return right(model, data, targets).double().mean().item()
