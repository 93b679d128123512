"""Transformers as graphs: parts add up to the network; interchanges do what the program says."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import kleene as kl
from kleene.evidence import circuit_methods  # noqa: F401  (registers methods)
from kleene.evidence.circuit_graph import CircuitGraph, parts_of
from kleene.evidence.methods import EDGES, NODES
from kleene.networks.trained.stacked_transformer import Shape, StackedTransformer
from kleene.truth.interchange import edge_effects_of, effects_of, only_node, pairs_of
from kleene.truth.program_models import drawn_program
from kleene.truth.program_tables import Tables
from kleene.truth.random_programs import Size, superposed

PROGRAM, _ = drawn_program(0, 1, Size(layers=2), 4)
TABLES = Tables.of([PROGRAM], 4)


def compiled(level="compiled"):
    net = kl.compile(PROGRAM).double()
    return superposed(net, np.random.default_rng(0), 4)[0] if level == "superposed" else net


def small():
    torch.manual_seed(0)
    net = StackedTransformer(Shape(3, 3, 4, 2, 3, 4)).double()
    for name, parameter in net.named_parameters():
        parameter.requires_grad_(False)
        if "bias" in name:
            parameter.normal_()  # a bias that is forgotten is seen
    return net


def graph(network, pairs=60):
    return CircuitGraph(parts_of(network, TABLES.names), *pairs_of(TABLES, pairs), 3)


@pytest.mark.parametrize(
    "network", [compiled(), compiled("superposed"), small()], ids=["compiled", "superposed", "small"]
)
def test_parts_add_up_to_the_network(network):
    found = graph(network)
    want = network(found.inputs[None])[0] if isinstance(network, StackedTransformer) else network(found.inputs)
    assert torch.allclose(found.clean.logits, want, atol=1e-9)
    nothing, everything = (torch.full((found.nodes + 1, found.nodes + 1), v, dtype=torch.float64) for v in (0.0, 1.0))
    assert torch.allclose(found.with_edges(nothing), want, atol=1e-9)
    assert torch.allclose(found.with_edges(everything), found.other.logits, atol=1e-9)
    for k in range(0, len(found.edges), 7):  # one edge by itself, without keeping the sources apart
        only = found.edge_mask(np.arange(len(found.edges)) == k)
        assert torch.allclose(found.with_edge(*found.edges[k]), found.with_edges(only), atol=1e-12)


@pytest.mark.parametrize("level", ["compiled", "superposed"])
def test_interchanges_do_what_the_program_says(level):
    """Every node and every edge, on the same pairs: the network's answers are the program's."""
    found = graph(compiled(level), 128)
    base, source = (part[None] for part in (found.inputs, found.others))
    values = TABLES.run(source)[0]
    for node in range(found.nodes):
        chosen = torch.arange(found.nodes) == node
        want = TABLES.run(base, only_node(TABLES, node, base), values)[1][0]
        assert torch.equal(found.with_nodes(chosen).argmax(-1), want)
    effects, before = edge_effects_of(TABLES, 128), found.clean.logits.argmax(-1)
    for chosen, name in zip(np.eye(len(found.edges)), found.edge_names):
        moved = (found.with_edges(found.edge_mask(chosen)).argmax(-1) != before).float().mean()
        assert float(moved) == pytest.approx(effects.get(name, 0.0), abs=1e-6), name


def test_rotation_changes_no_interchange():
    """What each source leaves changes from input to input as in the compiled network, in every dimension."""
    program, _ = drawn_program(0, 0, Size(), 5)
    tables, wide = Tables.of([program], 5), kl.compile(program).double()
    narrow, _, basis = superposed(wide, np.random.default_rng(0), 5)
    assert narrow.config.dim < wide.config.dim
    graphs = [CircuitGraph(parts_of(net, tables.names), *pairs_of(tables, 40), 3) for net in (narrow, wide)]
    for small, large in zip(*([b - a for a, b in zip(g.clean.left, g.other.left)] for g in graphs)):
        assert large.abs().max() > 0.5 and torch.allclose(small @ basis, large, atol=1e-9)
    for name in ("activation patching", "acdc"):
        scores = [EDGES[name](g, np.random.default_rng(0)) for g in graphs]
        assert np.abs(scores[0] - scores[1]).max() < 1e-9 and np.ptp(scores[1]) > 0.01


def test_a_small_network_interchanges_like_its_stack():
    """Nodes of a small network are the stack's: the same masks give the same logits."""
    net, found = small(), graph(small())
    kept = net.run(found.others[None])[0]
    for node in (0, 4, 8):
        masks = only_node(TABLES, node, found.inputs).expand(-1, 1, *found.inputs.shape, -1)
        want = net.run(found.inputs[None], masks, kept)[1][0]
        assert torch.allclose(found.with_nodes(torch.arange(found.nodes) == node), want, atol=1e-9)


def test_attributions_are_first_order():
    """For a small change of what a target sees, the slope times the change is the change of the chosen logit."""
    net = small()
    found = graph(net, 30)
    near = CircuitGraph(found.parts, found.inputs, found.inputs, 3)
    slope_of = EDGES["eap"](found, np.random.default_rng(0))
    tiny, chosen = 1e-5, found.clean.logits.argmax(-1, keepdim=True)
    for edge in (0, len(found.edges) // 2, len(found.edges) - 3):
        weights = found.edge_mask(tiny * (np.arange(len(found.edges)) == edge))
        moved = (found.with_edges(weights) - found.clean.logits).gather(-1, chosen).sum() / len(found.inputs) / tiny
        assert abs(float(moved)) == pytest.approx(slope_of[edge], rel=1e-3, abs=1e-6)
    assert np.abs(EDGES["eap"](near, np.random.default_rng(0))).max() == 0


def test_slopes_are_the_networks_own():
    """Units that clear old values pass on the derivative that torch gives them."""
    net = compiled()
    found, slopes = graph(net, 30), []
    for taken in (lambda x: found.run(found.inputs, given=x).logits, lambda x: net.logits(through(net, x))):
        leaf = net.embed(found.inputs).detach().requires_grad_()
        logits = taken(leaf).gather(-1, found.clean.logits.argmax(-1, keepdim=True))
        slopes += torch.autograd.grad(logits.sum(), leaf)
    assert slopes[1].abs().max() > 0.5 and torch.allclose(*slopes, atol=1e-9)


def through(net, x):
    for layer in range(net.config.layers):
        x = net.block(layer)(x, torch.ones(x.shape[:2], dtype=torch.bool))
    return x


def test_methods_find_the_circuit_of_a_compiled_network():
    found, rng = graph(compiled()), np.random.default_rng(0)
    inside = effects_of(TABLES)[0].numpy() > 0
    assert {name for name, moved in zip(found.names, NODES["activation patching"](found, rng)) if moved > 1e-9} <= {
        name for name, yes in zip(found.names, inside) if yes
    }
    edges = {name for name, moved in zip(found.edge_names, EDGES["acdc"](found, rng)) if moved > 0}
    assert edges and edges <= set(edge_effects_of(TABLES, 4096))


def test_what_has_no_graph_is_named():
    with pytest.raises(kl.InputError, match="graph needs"):
        parts_of(kl.compile(kl.library.parity_relative), ())
