"""The causal graph: edges of a program that is known, effects against runs with an intervention by hand."""

from __future__ import annotations

import pytest

import kleene as kl
from kleene.truth.causal_graph import Node, causal_graph


def test_parity():
    graph = causal_graph(kl.library.parity_relative, [2, 1, 0])
    edges = {(str(a), str(b)) for a, b in graph.edges}
    assert ("parity[0]@0", "parity_left[1]@1") in edges and ("parity_left[1]@1", "parity[1]@1") in edges
    assert ("done[0]@0", "done_left[1]@1") in edges and ("parity[1]@1", "parity_left[2]@2") in edges
    assert ("parity[2]@0", "parity_left[1]@1") not in edges  # nothing moves to the left
    assert ("parity_left[2]@1", "parity[2]@1") not in edges  # position 1 is not done yet: the head is not used
    assert graph.effects[Node(0, 1, "parity")] == 1 and graph.effects[Node(2, 0, "done")] == 0
    assert all(a.layer <= b.layer <= a.layer + 1 for a, b in graph.edges)
    data = graph.to_dict()
    assert len(data["nodes"]) == len(graph.values) == 30 and data["layers"] == 2
    assert '"parity[0]@0" -> "parity_left[1]@1"' in graph.to_dot()


class Copies(kl.Program):
    """x and its copy y a layer later; z is a constant that nothing reads."""

    tokens = 3
    x = kl.cat(3, token=lambda t: t)
    y = kl.cat(3)
    z = kl.cat(2)
    last = kl.relative(x, -1, default=0)
    output = y
    layers = 2

    def step(z):
        z.y = z.last


def test_a_known_graph():
    graph = causal_graph(Copies, [1, 2])
    found = {(str(a), str(b)) for a, b in graph.edges}
    kept = {(f"{v}[{i}]@{k}", f"{v}[{i}]@{k + 1}") for v in "xz" for i in (0, 1) for k in (0, 1)}
    moved = {(f"x[0]@{k}", f"last[1]@{k + 1}") for k in (0, 1)}
    written = {(f"last[{i}]@{k}", f"y[{i}]@{k}") for i in (0, 1) for k in (1, 2)}
    assert found == kept | moved | written
    assert {str(node) for node in graph.circuit()} == {
        *("x[0]@0", "x[0]@1", "last[0]@2", "last[1]@2", "y[0]@2", "y[1]@2"),
    }


def test_wrong_uses_are_named():
    with pytest.raises(kl.InputError, match="attention program"):
        causal_graph(kl.regex("a", "a"), "a")
    with pytest.raises(kl.InputError, match="token"):
        causal_graph(Copies, [9])
