"""The causal graph of an attention program on one input, by intervention on the interpreter.

Nodes are variables by layer and position, and heads by layer and position. Variables of layer 0 are those of the input.
An edge says that some intervention on its source changes its target while everything else that the target reads stays
as it was. The `effect` of a node is the share of interventions on it that change the program's output; a run that
raises an error after an intervention counts as changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from kleene.errors import InputError, KleeneError
from kleene.machines.interpreter import RunningLayer, layers_of, run_step
from kleene.machines.kinds import Kind, Value
from kleene.machines.program import LayerProgram, ProgramClass
from kleene.machines.spec import HeadSpec
from kleene.machines.trace import HeadOutput, States
from kleene.truth.games import Input

MAX_VALUES = 16  # interventions on one node; a wider range is sampled evenly
MAX_NODES = 20_000


class Node(NamedTuple):
    """A variable or a head at a position. A head of layer k reads the variables of layer k − 1."""

    layer: int
    position: int
    name: str

    def __str__(self) -> str:
        return f"{self.name}[{self.position}]@{self.layer}"


@dataclass(frozen=True)
class CausalGraph:
    """The nodes with their values and effects on the output, and the edges with the share of interventions that act."""

    program: str
    tokens: tuple[int, ...]
    layers: int
    values: dict[Node, Value | None]
    heads: frozenset[Node]
    effects: dict[Node, float]
    edges: dict[tuple[Node, Node], float]

    def circuit(self) -> frozenset[Node]:
        """The nodes for which some intervention changes the output."""
        return frozenset(node for node, effect in self.effects.items() if effect > 0)

    def circuit_edges(self) -> frozenset[tuple[Node, Node]]:
        """The edges between nodes of the circuit."""
        inside = self.circuit()
        return frozenset(edge for edge in self.edges if edge[0] in inside and edge[1] in inside)

    def __str__(self) -> str:
        inside, edges = self.circuit(), self.circuit_edges()
        return (
            f"{self.program}: {self.layers} layers, {len(self.values)} nodes, {len(self.edges)} edges; "
            f"{len(inside)} nodes and {len(edges)} edges can change the output"
        )

    def to_dict(self) -> dict[str, Any]:
        """The graph as plain data: nodes and edges by name, as `parity[2]@1`."""
        return {
            "program": self.program,
            "tokens": list(self.tokens),
            "layers": self.layers,
            "nodes": [
                {
                    "name": str(node),
                    "kind": "head" if node in self.heads else "variable",
                    "layer": node.layer,
                    "position": node.position,
                    "of": node.name,
                    "value": None if value is None else str(value),
                    "effect": self.effects[node],
                }
                for node, value in self.values.items()
            ],
            "edges": [{"from": str(a), "to": str(b), "share": share} for (a, b), share in self.edges.items()],
        }

    def to_dot(self, *, all: bool = False) -> str:
        """The graph for Graphviz: the circuit, or everything."""
        keep = set(self.values) if all else self.circuit()
        lines = [f'digraph "{self.program}" {{', "  rankdir=BT;"]
        for node in keep:
            shape = "ellipse" if node in self.heads else "box"
            lines.append(f'  "{node}" [shape={shape}, label="{node.name}[{node.position}]\\n{self.values[node]}"];')
        lines += [f'  "{a}" -> "{b}";' for a, b in self.edges if a in keep and b in keep]
        return "\n".join([*lines, "}", ""])


class HeldLayer(RunningLayer):
    """A layer in which some heads have a given output."""

    held: dict[tuple[str, int], HeadOutput] = {}

    def output(self, head: HeadSpec, position: int) -> HeadOutput:
        found = self.held.get((head.name, position))
        return super().output(head, position) if found is None else found


def _run(part: ProgramClass | LayerProgram, states: States, number: int, held: Any = None) -> States | None:
    """The states after one layer; None if the program raises."""
    layer = HeldLayer(part.spec, states, number)
    layer.held = held or {}
    try:
        return [run_step(part, layer, position) for position in range(len(states))]
    except KleeneError:
        return None


def _others(kind: Kind, value: Value | None) -> list[Value]:
    """The values that an intervention tries."""
    count = len(kind.values)
    if count <= MAX_VALUES + 1:
        return [other for other in kind.values if other != value]
    spaced = sorted({i * (count - 1) // (MAX_VALUES - 1) for i in range(MAX_VALUES)})
    return [kind.values[i] for i in spaced if kind.values[i] != value]


def _with(states: States, position: int, name: str, value: Value) -> States:
    changed = list(states)
    changed[position] = {**states[position], name: value}
    return changed


class _Builder:
    """Runs the program once, and then the interventions."""

    def __init__(self, program: ProgramClass, tokens: list[int], max_layers: int) -> None:
        self.program, self.layers = program, list(layers_of(program, tokens, None, max_layers))
        first = self.layers[0][0].states if self.layers else None
        if first is None:
            raise InputError(f"{program.spec.name}: runs no layer, so it has no causal graph")
        self.states: list[States] = [first, *(after for _, after in self.layers)]
        self.outputs = [self._looking(k) for k in range(1, len(self.states))]
        nodes = len(tokens) * sum(len(self.part(k).spec.kinds) for k in range(1, len(self.states)))
        if nodes > MAX_NODES:
            raise InputError(f"{program.spec.name}: {nodes:,} nodes; a causal graph has at most {MAX_NODES:,}")

    def part(self, layer: int) -> ProgramClass | LayerProgram:
        """The program as layer k sees it, counted from 1."""
        parts = self.program.by_layer
        return parts[(layer - 1) % len(parts)]

    def _looking(self, layer: int) -> dict[tuple[str, int], HeadOutput]:
        """The output of every head of a layer at every position."""
        running = self.layers[layer - 1][0]
        heads = {**running.spec.heads, **running.spec.moves}
        return {(name, i): running.output(h, i) for name, h in heads.items() for i in range(len(running.states))}

    def _changes_output(self, states: States | None, layer: int) -> bool:
        """Whether a run that continues from other states after a layer has another end."""
        for number in range(layer + 1, len(self.states)):
            if states is None or states == self.states[number - 1]:
                break
            states = _run(self.part(number), states, number)
        else:
            if states is not None:
                name = self.program.spec.output
                return any(a[name] != b[name] for a, b in zip(states, self.states[-1]))
        return states is None

    def _changed(self, after: States | None, layer: int) -> Iterator[Node]:
        """The variables of a layer that changed; all of them if the layer raised."""
        for position, before in enumerate(self.states[layer]):
            for name, value in before.items():
                if after is None or after[position][name] != value:
                    yield Node(layer, position, name)

    def variable(self, node: Node) -> tuple[float, dict[Node, float]]:
        """The effect of a variable on the output, and on heads and variables of the next layer."""
        k, states = node.layer, self.states[node.layer]
        others = _others(self.program.spec.variables[node.name].kind, states[node.position][node.name])
        moved, found = 0, dict[Node, float]()
        for other in others:
            changed = _with(states, node.position, node.name, other)
            moved += self._changes_output(changed, k)
            if k + 1 < len(self.states):
                for target in self._next(changed, node.position, k + 1):
                    found[target] = found.get(target, 0) + 1
        return moved / max(1, len(others)), {target: n / len(others) for target, n in found.items()}

    def _next(self, changed: States, position: int, layer: int) -> Iterator[Node]:
        part = self.part(layer)
        looking = RunningLayer(part.spec, changed, layer)
        for name, head in {**part.spec.heads, **part.spec.moves}.items():
            for i in range(len(changed)):
                if looking.output(head, i).value != self.outputs[layer - 1][name, i].value:
                    yield Node(layer, i, name)
        after = _run(part, changed, layer, self.outputs[layer - 1])
        yield from (target for target in self._changed(after, layer) if target.position == position)

    def head(self, node: Node) -> tuple[float, dict[Node, float]]:
        """The effect of a head on the output, and on the variables of its layer."""
        k, part, outputs = node.layer, self.part(node.layer), self.outputs[node.layer - 1]
        head = {**part.spec.heads, **part.spec.moves}[node.name]
        own = outputs[node.name, node.position]
        others = _others(head.kind, own.value)
        moved, found = 0, dict[Node, float]()
        for other in others:
            held = {(node.name, node.position): HeadOutput(own.selected or (node.position,), other)}
            after = _run(part, self.states[k - 1], k, held)
            moved += self._changes_output(after, k)
            for target in self._changed(after, k):
                if target.position == node.position:
                    found[target] = found.get(target, 0) + 1
        return moved / max(1, len(others)), {target: n / len(others) for target, n in found.items()}


def causal_graph(program: ProgramClass, input: Input, *, max_layers: int = 10_000) -> CausalGraph:
    """The causal graph of a program on an input: its variables and heads by layer and position.

    - `program`: an attention program.
    - `input`: tokens, or text where the program takes text.
    - `max_layers`: raise `DidNotHalt` after this many layers.

    >>> from kleene.library.parity import parity_relative
    >>> graph = causal_graph(parity_relative, [2, 1, 0])
    >>> print(graph)
    parity_relative: 2 layers, 30 nodes, 27 edges; 18 nodes and 19 edges can change the output
    """
    if not isinstance(program, ProgramClass):
        raise InputError(f"causal_graph: a {type(program).__name__}; give an attention program")
    tokens = program.spec.check_input(input)
    if program.spec.max_tokens is not None:
        raise InputError(f"{program.spec.name}: appends tokens; a causal graph is of one run without that")
    run = _Builder(program, tokens, max_layers)
    values: dict[Node, Value | None] = {}
    effects, edges, heads = dict[Node, float](), dict[tuple[Node, Node], float](), set[Node]()
    for layer, states in enumerate(run.states):
        if layer:
            for (name, position), output in run.outputs[layer - 1].items():
                node = Node(layer, position, name)
                values[node], (effects[node], targets) = output.value, run.head(node)
                heads.add(node)
                edges |= {(node, target): share for target, share in targets.items()}
        for position, state in enumerate(states):
            for name, value in state.items():
                node = Node(layer, position, name)
                values[node], (effects[node], targets) = value, run.variable(node)
                edges |= {(node, target): share for target, share in targets.items()}
    return CausalGraph(program.spec.name, tuple(tokens), len(run.layers), values, frozenset(heads), effects, edges)
