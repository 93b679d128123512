"""Methods that find circuits: one number per node (a head or a group of units in a layer), or one per edge.

Each is a function of a `CircuitGraph`, a network on inputs and on others to interchange with, and a random generator.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import kl_div

from kleene.evidence.circuit_graph import CircuitGraph, CompiledParts, SmallParts
from kleene.evidence.methods import edges, nodes
from kleene.evidence.readings import Array

STEPS = 5  # points of a path integral
TOLERANCE = 0.01  # the tolerance of ACDC, in nats
PRUNING_STEPS, PRUNING_RATE, PRUNING_WEIGHT = 60, 0.3, 2.0


def _moved(graph: CircuitGraph, logits: Tensor) -> float:
    """The distance of logits from those on the inputs."""
    return float((logits - graph.clean.logits).abs().mean())


def _divergence(graph: CircuitGraph, logits: Tensor) -> Tensor:
    """The divergence of logits from those on the inputs, in nats per position."""
    clean = graph.clean.logits.log_softmax(-1)
    return kl_div(logits.log_softmax(-1), clean, log_target=True, reduction="none").sum(-1).mean()


def _chosen_logit(graph: CircuitGraph, logits: Tensor) -> Tensor:
    """The sum of the logits that are largest on the inputs."""
    return logits.gather(-1, graph.clean.logits.argmax(-1, keepdim=True)).sum()


def _one_by_one(graph: CircuitGraph, instead: Tensor | None = None) -> Array:
    """How far the logits move if one node at a time is replaced."""
    every = torch.eye(graph.nodes, dtype=torch.bool)
    return np.array([_moved(graph, graph.with_nodes(chosen, instead)) for chosen in every])


# --- nodes ------------------------------------------------------------------------------------------------


@nodes("random")
def _random_nodes(graph: CircuitGraph, rng: np.random.Generator) -> Array:
    return rng.standard_normal(graph.nodes)


@nodes("position")
def _late_nodes(graph: CircuitGraph, rng: np.random.Generator) -> Array:
    """Later layers first."""
    return np.array([float(name.rpartition("@")[2]) for name in graph.names])


@nodes("weight norm")
def _weight_norm(graph: CircuitGraph, rng: np.random.Generator) -> Array:
    """The norm of the weights by which a node writes."""
    found: list[float] = []
    for layer in range(graph.parts.layers):
        found += _norms(graph, layer)
    return np.array(found)


def _norms(graph: CircuitGraph, layer: int) -> list[float]:
    parts = graph.parts
    if isinstance(parts, CompiledParts):
        block = parts.network.block(layer)
        heads = [float(block.out[head][:, values].norm()) for head, values in parts.values]
        return heads + [float(block.out2[:, units].norm()) for units in parts.members]
    assert isinstance(parts, SmallParts)
    heads_out, units_out = parts.network.heads_out[layer][0], parts.network.units_out[layer][0]
    chunks = [*heads_out.split(parts.shape.key), *units_out.split(parts.shape.units)]
    return [float(chunk.norm()) for chunk in chunks]


@nodes("activation patching")
@torch.no_grad()
def _activation_patching(graph: CircuitGraph, rng: np.random.Generator) -> Array:
    return _one_by_one(graph)


@nodes("zero ablation")
@torch.no_grad()
def _zero_ablation(graph: CircuitGraph, rng: np.random.Generator) -> Array:
    return _one_by_one(graph, torch.zeros_like(graph.clean.written))


@nodes("mean ablation")
@torch.no_grad()
def _mean_ablation(graph: CircuitGraph, rng: np.random.Generator) -> Array:
    written = graph.clean.written
    return _one_by_one(graph, written.mean((0, 2), keepdim=True).expand_as(written))


def _node_slopes(graph: CircuitGraph, at: float) -> Tensor:
    """The derivative by what every node writes, with all nodes moved this far towards the other inputs."""
    first, last = graph.clean.written, graph.other.written
    leaf = (first + at * (last - first)).requires_grad_()

    def written(stage: int, out: Tensor) -> Tensor:
        return leaf[:, graph.targets(stage)]

    def nudged(stage: int, out: Tensor) -> Tensor:
        part = leaf[:, graph.targets(stage)]
        return out + part - part.detach()

    run = graph.run(graph.inputs, written=written if at else nudged)
    (slope,) = torch.autograd.grad(_chosen_logit(graph, run.logits), leaf)
    return slope


def _first_order(graph: CircuitGraph, slope: Tensor) -> Array:
    change = graph.other.written - graph.clean.written
    found: Array = (slope * change).sum(-1).abs().mean((0, 2)).detach().numpy()
    return found


@nodes("attribution patching")
def _attribution(graph: CircuitGraph, rng: np.random.Generator) -> Array:
    return _first_order(graph, _node_slopes(graph, 0.0))


@nodes("attribution patching, integrated")
def _integrated(graph: CircuitGraph, rng: np.random.Generator) -> Array:
    """The slope is a mean along the path from one input's activations to the other's, for all nodes at once."""
    slopes = [_node_slopes(graph, (step + 0.5) / STEPS) for step in range(STEPS)]
    return _first_order(graph, torch.stack(slopes).mean(0))


# --- edges ------------------------------------------------------------------------------------------------


@edges("random")
def _random_edges(graph: CircuitGraph, rng: np.random.Generator) -> Array:
    return rng.standard_normal(len(graph.edges))


@edges("nearness")
def _near_edges(graph: CircuitGraph, rng: np.random.Generator) -> Array:
    """Edges between neighbours first."""
    return np.array([float(source - target) for source, target in graph.edges]) + graph.nodes + 1


@edges("activation patching")
@torch.no_grad()
def _edge_patching(graph: CircuitGraph, rng: np.random.Generator) -> Array:
    """Interchange each edge alone."""
    return np.array([_moved(graph, graph.with_edge(*edge)) for edge in graph.edges])


def _edge_slopes(graph: CircuitGraph, given: Tensor) -> list[Tensor]:
    """The derivative by what every target sees, by stage, with what the input writes."""
    leaves: list[Tensor] = []

    def seen(stage: int, x: Tensor, sources: Tensor) -> Tensor:
        leaves.append(torch.zeros_like(x).requires_grad_())
        return x + leaves[-1]

    run = graph.run(graph.inputs, seen=seen, given=given)
    return list(torch.autograd.grad(_chosen_logit(graph, run.logits), leaves))


def _edge_first_order(graph: CircuitGraph, slopes: list[Tensor]) -> Array:
    """The change of a source times the slope of a target: the mean over inputs, without its sign."""
    found = np.zeros((graph.nodes + 1, graph.nodes + 1))
    for stage, slope in enumerate(slopes):
        change = graph.other.left[stage] - graph.clean.left[stage]
        score = torch.einsum("bsnd,btnd->st", change, slope) / len(change)
        found[: len(score), graph.targets(stage)] = score.detach().numpy()
    return np.array([abs(found[edge]) for edge in graph.edges])


@edges("eap")
def _eap(graph: CircuitGraph, rng: np.random.Generator) -> Array:
    """Edge attribution patching."""
    return _edge_first_order(graph, _edge_slopes(graph, graph.clean.left[0][:, 0]))


@edges("eap-ig")
def _eap_ig(graph: CircuitGraph, rng: np.random.Generator) -> Array:
    """Edge attribution patching with slopes integrated along the way between the inputs."""
    first, last = graph.clean.left[0][:, 0], graph.other.left[0][:, 0]
    every = [_edge_slopes(graph, last + (step + 0.5) / STEPS * (first - last)) for step in range(STEPS)]
    return _edge_first_order(graph, [torch.stack(slopes).mean(0) for slopes in zip(*every)])


@edges("acdc")
@torch.no_grad()
def _acdc(graph: CircuitGraph, rng: np.random.Generator) -> Array:
    """Remove edges one by one, from the output back, as long as the divergence rises by less than the tolerance.

    An edge that stays scores the rise that its removal would cause. The edges into a node from which nothing leads on
    are removed at once.
    """
    place = {edge: k for k, edge in enumerate(graph.edges)}
    weights, scores = graph.edge_mask(np.zeros(len(graph.edges))), np.zeros(len(graph.edges))
    now = 0.0
    for target in range(graph.nodes, -1, -1):
        into = sorted((edge for edge in graph.edges if edge[1] == target), reverse=True)
        leads_on = target == graph.nodes or any(scores[place[e]] > 0 for e in graph.edges if e[0] == target + 1)
        for edge in into:
            weights[edge] = 1
            if not leads_on:
                continue
            new = float(_divergence(graph, graph.with_edges(weights)))
            if new - now < TOLERANCE:
                now = new
            else:
                weights[edge] = 0
                scores[place[edge]] = new - now
    return scores


@edges("edge pruning")
def _edge_pruning(graph: CircuitGraph, rng: np.random.Generator) -> Array:
    """Learn which edges to keep, by descent through noisy gates: little divergence, few edges."""
    size = len(graph.edges)
    gates = torch.zeros(size, dtype=graph.inputs_dtype, requires_grad=True)  # above zero: interchanged
    source, target = (torch.tensor(side) for side in zip(*graph.edges))
    optimiser = torch.optim.Adam([gates], lr=PRUNING_RATE)
    for _ in range(PRUNING_STEPS):
        drawn = torch.from_numpy(rng.uniform(1e-6, 1 - 1e-6, size=size)).to(gates)
        soft = torch.sigmoid((gates + drawn.log() - (1 - drawn).log()) / 0.5)
        weights = torch.zeros(graph.nodes + 1, graph.nodes + 1, dtype=gates.dtype)
        weights = weights.index_put((source, target), (1.2 * soft - 0.1).clamp(0, 1))
        loss = PRUNING_WEIGHT * _divergence(graph, graph.with_edges(weights)) - torch.sigmoid(gates).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return torch.sigmoid(-gates).detach().numpy()
