"""Train transformers so that their circuit is a program's: strict interchange intervention training.

Each node of a program (a head or a variable, in a layer) is aligned with a node of a small transformer: the head with
an attention head, the variable with a group of units. A batch has a base input and a source input. Some nodes of the
base run get what they had in the source run, in the program and in the network alike, at all positions or some:

- nodes of the circuit: the network's output must become what the program's becomes (interchange loss);
- nodes off the circuit: the output must stay (the strict part);
- no node, in the source run: the output must be the program's (behaviour loss).

The circuit holds the nodes for which some interchange changes the program's output. Many networks train at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from kleene.networks.trained.stacked_transformer import Shape, StackedTransformer
from kleene.training.cuda_graph import CudaGraphStep
from kleene.training.loop import Run, fingerprint, train
from kleene.training.options import Evaluation, GradientStep, Storage
from kleene.truth.program_tables import Tables

MOST_PAIRS = 1024  # the most pairs of inputs for the effects of nodes
EDGE_PAIRS = 128  # pairs of inputs for the effects of edges
BLOCK = 4096  # pairs at a time
CLIP = 1.0  # the largest norm of a network's gradient
SINGLE, SEVERAL = 0.5, 0.75  # shares of a batch: one node of the circuit; up to here several; then none


@dataclass(frozen=True)
class Schedule:
    """How long and how fast networks train."""

    steps: int = 20_000
    batch: int = 256
    rate: float = 1e-3
    interchange: bool = True  # without, only the behaviour is trained: end to end
    seed: int = 0

    def rate_at(self, step: int) -> float:
        """The learning rate: a short rise, then half a cosine to nothing."""
        rise = max(1, self.steps // 50)
        return self.rate * min(1.0, (step + 1) / rise, 0.5 + 0.5 * math.cos(math.pi * step / self.steps))


def pairs_among(tokens: int, length: int, most: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Pairs of different inputs, (pairs, position) each: all pairs where there are few enough, else random ones."""
    count = tokens**length
    if count * count <= most:
        base, source = torch.cartesian_prod(torch.arange(count), torch.arange(count)).T
    else:
        drawn = torch.Generator().manual_seed(seed)
        base, source = (torch.randint(count, (most,), generator=drawn) for _ in range(2))
    kept = base != source
    powers = tokens ** torch.arange(length - 1, -1, -1)
    return base[kept, None] // powers % tokens, source[kept, None] // powers % tokens


def pairs_of(tables: Tables, most: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Pairs of different inputs of programs."""
    base, source = pairs_among(tables.tokens, tables.length, most, seed)
    return base.to(tables.output.device), source.to(tables.output.device)


def only_node(tables: Tables, node: int, like: Tensor) -> Tensor:
    """A mask of one node at all positions: (layer, 1, 1, 1, node)."""
    size = len(tables.names)
    found = torch.zeros(tables.layers, 1, 1, 1, size, dtype=torch.bool, device=like.device)
    found[node // size, ..., node % size] = True
    return found


@torch.no_grad()
def effects_of(tables: Tables, pairs: int = MOST_PAIRS) -> Tensor:
    """How often an interchange of a node changes the program's output at a position: (program, node)."""
    base, source = pairs_of(tables, pairs)
    total = torch.zeros(len(tables), tables.layers * len(tables.names), device=base.device)
    for one, other in zip(base.split(BLOCK), source.split(BLOCK)):
        one, other = (part.expand(len(tables), -1, -1) for part in (one, other))
        given, plain = tables.run(other)[0], tables.run(one)[1]
        for node in range(total.shape[1]):
            changed = tables.run(one, only_node(tables, node, one), given)[1] != plain
            total[:, node] += changed.float().mean(2).sum(1)
    return total / max(1, len(base))


@torch.no_grad()
def edge_effects_of(tables: Tables, pairs: int = EDGE_PAIRS) -> dict[tuple[str, str], float]:
    """How often an interchange of an edge changes the output of one program at a position, by the names of its ends.

    The target alone sees the source's value on the other input: a head sees a variable, a variable sees a head or a
    variable of the layer before. "input" stands for all variables before the first layer. An edge that the program does
    not have is left out.
    """
    base, source = (part[None] for part in pairs_of(tables, pairs))
    (values, plain), others = tables.run(base), tables.run(source)[0]
    found: dict[tuple[str, str], float] = {}

    def note(start: str, end: int, layer: int, changed: Tensor) -> None:
        """The effect of the target `end`, as a share of outputs that change."""
        given = [part.clone() for part in values]
        given[layer][..., end] = changed
        node = layer * len(tables.names) + end
        after = tables.run(base, only_node(tables, node, base), given)[1]
        share = float((after != plain).float().mean())
        if share > 0:
            found[start, f"{tables.names[end]}@{layer + 1}"] = share

    states = [tables.initial(base), *(part[..., tables.heads :] for part in values)]
    swapped = [tables.initial(source), *(part[..., tables.heads :] for part in others)]
    for layer in range(tables.layers):
        state, read = states[layer], values[layer][..., : tables.heads]
        sources = {"input": swapped[0]} if layer == 0 else _one_swapped(tables, state, swapped[layer], layer)
        for start, seen in sources.items():
            for end in range(tables.heads):
                note(start, end, layer, tables.looked_up(seen)[..., end])
            for end in range(state.shape[-1]):
                note(start, tables.heads + end, layer, tables.stepped(seen, read)[..., end])
        for head in range(tables.heads):
            moved = read.clone()
            moved[..., head] = others[layer][..., head]
            for end in range(state.shape[-1]):
                start = f"{tables.names[head]}@{layer + 1}"
                note(start, tables.heads + end, layer, tables.stepped(state, moved)[..., end])
    last = tables.names[tables.heads + int(tables.output[0])]
    final = tables.run(base, only_node(tables, tables.nodes.index((tables.layers, last)), base), others)[1]
    found[f"{last}@{tables.layers}", "output"] = float((final != plain).float().mean())
    return found


def _one_swapped(tables: Tables, state: Tensor, other: Tensor, layer: int) -> dict[str, Tensor]:
    """The state after a layer with one variable's values from the other run, for each variable."""
    found = {}
    for k, name in enumerate(tables.names[tables.heads :]):
        found[f"{name}@{layer}"] = state.clone()
        found[f"{name}@{layer}"][..., k] = other[..., k]
    return found


class _Batches:
    """The loss on random pairs of inputs, and random nodes."""

    def __init__(self, tables: Tables, circuit: Tensor, schedule: Schedule) -> None:
        self.tables, self.schedule = tables, schedule
        self.every = tables.every_input()
        self.circuit = circuit.view(len(tables), tables.layers, -1)  # (program, layer, node)

    def inputs(self) -> Tensor:
        """Random inputs: (program, batch, position)."""
        index = torch.randint(len(self.every), (len(self.tables), self.schedule.batch), device=self.every.device)
        return self.every[index]

    def masks(self) -> Tensor:
        """Which nodes are interchanged, where: (layer, program, batch, position, node)."""
        tables, batch = self.tables, self.schedule.batch
        count, layers, size = self.circuit.shape
        device = self.every.device
        circuit = self.circuit[:, None].expand(-1, batch, -1, -1).flatten(2)  # (program, batch, node)
        kind = torch.rand(count, batch, 1, device=device)
        drawn = torch.rand(count, batch, layers * size, device=device)
        single = drawn * circuit == (drawn * circuit).amax(-1, keepdim=True)
        several = torch.rand_like(drawn) < 0.3
        inside = circuit & torch.where(kind < SINGLE, single, several & (kind < SEVERAL))
        strict = (torch.rand_like(kind) < 0.5) | (kind >= SEVERAL)
        outside = ~circuit & strict & (torch.rand_like(drawn) < 0.5)
        chosen = (inside | outside).view(count, batch, layers, size).permute(2, 0, 1, 3)[:, :, :, None]
        everywhere = torch.rand(1, count, batch, 1, 1, device=device) < 0.5
        places = torch.rand(layers, count, batch, tables.length, size, device=device) < 0.5
        return chosen & (everywhere | places)

    def loss(self, model: nn.Module, _: Any) -> Tensor:
        """The sum over networks of behaviour and interchange loss."""
        assert isinstance(model, StackedTransformer)
        source = self.inputs()
        values, wanted = self.tables.run(source)
        kept, logits = model.run(source)
        total = _error(logits, wanted)
        if self.schedule.interchange:
            base, masks = self.inputs(), self.masks()
            _, wanted = self.tables.run(base, self._inside(masks), values)
            total = total + _error(model.run(base, masks, kept)[1], wanted)
        return total

    def _inside(self, masks: Tensor) -> Tensor:
        return masks & self.circuit.permute(1, 0, 2)[:, :, None, None]


def _error(logits: Tensor, wanted: Tensor) -> Tensor:
    return cross_entropy(logits.flatten(0, 2), wanted.flatten()) * len(logits)


@torch.no_grad()
def measure(model: StackedTransformer, tables: Tables, circuit: Tensor, pairs: int = 2048) -> list[dict[str, Any]]:
    """The measures that each network reached.

    - `accuracy`: the share of inputs with the program's output at every position.
    - `interchange`: the share of interchanges of a node of the circuit, at all positions, after which every position
      equals the program's; the mean over nodes, and `interchange_least`, the least.
    - `off_circuit`: the share of interchanges of a node off the circuit that change some position; mean and `most`.
    """
    every = tables.every_input().expand(len(tables), -1, -1)
    right = (model(every).argmax(-1) == tables.run(every)[1]).all(-1).float().mean(1)
    base, source = (part.expand(len(tables), -1, -1) for part in pairs_of(tables, pairs, seed=1))
    values, kept = tables.run(source)[0], model.run(source)[0]
    before = model(base).argmax(-1)
    agrees, moves = [], []
    for node in range(circuit.shape[1]):
        only = only_node(tables, node, base)
        wide = only.expand(-1, *base.shape, -1)
        after = model.run(base, wide, kept)[1].argmax(-1)
        agrees.append((after == tables.run(base, only, values)[1]).all(-1).float().mean(1))
        moves.append((after != before).any(-1).float().mean(1))
    found = []
    for k, inside in enumerate(circuit.cpu()):
        agree, move = (torch.stack(part, 1)[k].cpu() for part in (agrees, moves))
        hit, off = agree[inside], move[~inside]
        found.append(
            {
                "accuracy": float(right[k]),
                "interchange": float(hit.mean()) if len(hit) else None,
                "interchange_least": float(hit.min()) if len(hit) else None,
                "off_circuit": float(off.mean()) if len(off) else None,
                "off_circuit_most": float(off.max()) if len(off) else None,
            }
        )
    return found


def _summary(tables: Tables, circuit: Tensor) -> Callable[[nn.Module], dict[str, Any]]:
    def look(model: nn.Module) -> dict[str, Any]:
        assert isinstance(model, StackedTransformer)
        found = measure(model, tables, circuit, 256)
        names = {"accuracy": "accuracy", "interchange": "interchange", "off_circuit": "off"}
        return {
            short: [None if one[name] is None else round(one[name], 4) for one in found]
            for name, short in names.items()
        }

    return look


def _clip_each(optimiser: torch.optim.Optimizer, *_: Any) -> None:
    """Scale down the gradient of each network of a stack whose norm is above `CLIP`."""
    slopes = [p.grad for group in optimiser.param_groups for p in group["params"] if p.grad is not None]
    norms = torch.stack([slope.flatten(1).square().sum(1) for slope in slopes]).sum(0).sqrt()  # (network,)
    scale = (CLIP / (norms + 1e-9)).clamp(max=1)
    for slope in slopes:
        slope.mul_(scale.view(-1, *[1] * (slope.dim() - 1)))


def train_stack(
    tables: Tables, circuit: Tensor, schedule: Schedule, *, every: int | None = None, storage: Storage | None = None
) -> tuple[StackedTransformer, Run]:
    """Train one network for each program; if the storage has a folder, a second call continues.

    - `tables`: the programs; their tensors' device is where training runs.
    - `circuit`: (program, node), whether a node is in the circuit.
    - `schedule`: steps, batch and rate; whether the circuit is trained, or the behaviour alone.
    - `every`: steps between measurements.
    - `storage`: where checkpoints lie.
    """
    device = tables.output.device
    torch.manual_seed(schedule.seed)
    groups = len(tables.names) - tables.heads
    shape = Shape(tables.tokens, tables.classes, tables.length, tables.layers, tables.heads, groups)
    model = StackedTransformer(shape, len(tables)).to(device)
    rate: Any = torch.tensor(schedule.rate, device=device) if device.type == "cuda" else schedule.rate
    optimiser = torch.optim.Adam(
        model.parameters(), lr=rate, betas=(0.9, 0.995), capturable=device.type == "cuda", fused=device.type == "cuda"
    )
    optimiser.register_step_pre_hook(_clip_each)
    step = CudaGraphStep(optimiser, _Batches(tables, circuit, schedule).loss)

    def batches(index: int) -> Tensor:
        group, now = optimiser.param_groups[0], schedule.rate_at(index)
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(now)
        else:
            group["lr"] = now
        return torch.zeros(1)

    run = train(
        model,
        optimiser,
        lambda net, batch: net(batch),
        batches,
        steps=schedule.steps,
        seed=schedule.seed,
        evaluation=Evaluation(_summary(tables, circuit), every or max(1, schedule.steps // 20)),
        gradient=GradientStep(descend=step),
        storage=storage or Storage(),
        settings={**asdict(schedule), "shape": asdict(shape), "programs": fingerprint(tables.step, tables.looks)},
        title="training",
    )
    return model.eval(), run


def stack_of(programs: Sequence[Any], length: int, device: str) -> tuple[Tables, Tensor]:
    """The tables of programs and the effects of their nodes, (program, node)."""
    tables = Tables.of(programs, length, device)
    return tables, effects_of(tables)
