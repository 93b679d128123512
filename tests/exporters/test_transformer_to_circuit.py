"""circuit.json says the truth: what it names, switched off, is what stops, and nothing else does."""

from __future__ import annotations

import json
import random
import shutil
import subprocess

import pydot
import pytest
import torch

import kleene as kl
from kleene.machines.automata.alternating import all_of, any_of, not_

PROGRAMS = {
    "parity": kl.library.parity_relative,
    "addition": kl.library.addition,
    "histogram": kl.library.histogram(5, 3),
    "computer": kl.library.computer(4),
}


@pytest.fixture(scope="module", params=PROGRAMS)
def case(request):
    program = PROGRAMS[request.param]
    net = kl.compile(program)
    return net, kl.export(net, "circuit"), states(program, net)


def states(program, net):
    """Residual streams (batch 1) before each layer of some runs."""
    chance, found = random.Random(0), []
    for _ in range(8):
        if hasattr(program, "sample"):
            tokens = program.sample(chance, 12)
        elif program is kl.library.addition:
            tokens = program.encode(f"{chance.randrange(1000)}+{chance.randrange(1000)}")
        else:
            tokens = [chance.randrange(program.spec.tokens) for _ in range(5)]
        x, mask = net.embed(torch.tensor([tokens])), torch.ones(1, len(tokens), dtype=torch.bool)
        for layer in range(net.run(tokens).layers):
            found.append((layer % len(net.blocks), x, mask))
            x = net.block(layer)(x, mask)
    return found


def parts(circuit):
    return {node["id"]: node for node in circuit["nodes"]}


def switch_off(net, node):
    """Zero what a node writes."""
    block = net.block(node["block"])
    with torch.no_grad():
        if node["kind"] == "head":
            block.out[node["index"]].zero_()
        else:
            (block.out1 if node["order"] == 1 else block.out2)[:, node["units"]] = 0


def test_switching_off_a_variables_units_stops_its_updates_and_no_others(case):
    net, circuit, runs = case
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    nodes, updated = parts(circuit), set()
    for name, variable in circuit["variables"].items():
        dims = variable["dims"]
        others = [dim for dim in range(net.config.dim) if dim not in dims]
        expected = [net.block(b)(x, mask) for b, x, mask in runs]
        moved = [_after_attention(net.block(b), x, mask) for b, x, mask in runs]
        for node in variable["written_by"]:
            if nodes[node]["kind"] == "units":
                switch_off(net, nodes[node])
        for (b, x, mask), whole, attended in zip(runs, expected, moved):
            found = net.block(b)(x, mask)
            assert torch.equal(found[..., others], whole[..., others]), name
            assert torch.equal(found[..., dims], attended[..., dims]), name  # as it was, but for heads that write it
            if not torch.equal(found, whole):
                updated.add(name)
        net.load_state_dict(before)
    changing = {name for name, v in circuit["variables"].items() if any("half" in node for node in v["written_by"])}
    assert updated and updated <= changing  # the runs do update variables, so that stopping them shows
    if net.config.name in ("parity_relative", "addition"):
        assert updated == changing


def _after_attention(block, x, mask):
    keys, values = block.keys_values(x)
    return block.attend(x, block.scores(x, keys, mask), values)


def test_edges_are_all_that_is_felt_in_a_layer(case):
    """What changes in a layer when a node is switched off is what its edges lead to, and what those lead to."""
    net, circuit, runs = case
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    nodes = parts(circuit)
    same = {}
    for edge in circuit["edges"]:
        if edge["when"] == "same layer":
            same.setdefault(edge["from"], set()).add(edge["to"])
    for name, node in nodes.items():
        if "block" not in node:
            continue
        reached, todo = {name}, [name]
        while todo:
            for target in same.get(todo.pop(), ()):
                if target not in reached:
                    reached.add(target)
                    todo.append(target)
        allowed = {dim for one in reached for dim in nodes[one]["writes"]}
        here = [(x, mask) for b, x, mask in runs if b == node["block"]][:12]
        block = net.block(node["block"])
        expected = [block(x, mask) for x, mask in here]
        switch_off(net, node)
        for (x, mask), whole in zip(here, expected):
            changed = torch.nonzero((block(x, mask) != whole).any(dim=1).any(dim=0)).flatten().tolist()
            assert set(changed) <= allowed, name
        net.load_state_dict(before)


def test_every_unit_head_and_dimension_is_in_it(case):
    net, circuit, _ = case
    groups = [node for node in circuit["nodes"] if node["kind"] == "units"]
    listed = sorted((g["block"], g["order"], unit) for g in groups for unit in g["units"])
    every = [
        (b, half, u)
        for b in range(len(net.blocks))
        for half in (1, 2)
        for u in range(net.config.cycle[b].hidden[half - 1])
    ]
    assert listed == every
    assert sum(node["kind"] == "head" for node in circuit["nodes"]) == net.sizes.heads
    assert [row["name"] for row in circuit["residual"]] == list(net.layout.names)
    assert all(found for found in circuit["heads"].values())
    ids = [node["id"] for node in circuit["nodes"]]
    assert len(set(ids)) == len(ids)
    assert {end for edge in circuit["edges"] for end in (edge["from"], edge["to"])} <= set(ids)


def test_the_circuit_of_parity(tmp_path):
    net = kl.compile(kl.library.parity_relative)
    kl.export(net, "circuit", tmp_path / "circuit.json")
    circuit = json.loads((tmp_path / "circuit.json").read_text())
    assert (circuit["format"], circuit["version"], circuit["program"]) == ("kleene circuit", 1, "parity_relative")
    done = circuit["variables"]["done"]
    assert done["written_by"] == ["block0.half2.done"] and done["depends_on"] == ["done", "done_left"]
    assert done["halts_at"] == "done=1" and circuit["heads"]["done_left"] == ["block0.head.done_left"]
    assert {
        "from": "block0.head.done_left",
        "to": "block0.half2.done",
        "when": "same layer",
        "as": ["input"],
        "dims": [7],
    } in circuit["edges"]
    assert circuit["algorithm"][0][1].startswith("done := 1")


def test_a_scratch_value_is_followed_to_what_it_is_of():
    circuit = kl.export(kl.compile(kl.library.computer(4)), "circuit")
    jump = circuit["variables"]["jump"]
    assert {"mem_a", "mem_b", "talks", "processor"} <= set(jump["depends_on"])
    assert not any("[" in name for name in jump["depends_on"])
    assert circuit["heads"]["advance"] == ["block0.head.fetch_a+advance"]


def test_blocks_of_an_encoder(tmp_path):
    net = kl.compile(kl.library.parity_relative, shape="encoder", layers=3, shared=False)
    circuit = kl.export(net, "circuit")
    assert circuit["blocks"] == 3 and len(circuit["heads"]["done_left"]) == 3
    assert len(circuit["variables"]["done"]["written_by"]) == 3


# --- Graphviz -----------------------------------------------------------------------------------------------------


def read_dot(text):
    """By another parser, and by Graphviz itself where it is installed."""
    (graph,) = pydot.graph_from_dot_data(text)
    if shutil.which("dot"):
        subprocess.run(["dot", "-Tsvg"], input=text.encode(), capture_output=True, check=True)
    return graph


def named(graph):
    return {node.get_name(): node for node in graph.get_nodes() if node.get_name() not in ("node", '"\\n"', "\\n")}


PATTERNS = [("(0|10*1)*", "01"), ('[a-z]*"', 'abcxyz"'), (r"\\|a", "\\a"), ("a", "a ")]


@pytest.mark.parametrize("pattern, alphabet", PATTERNS)
def test_dot_of_a_dfa_is_the_dfa(pattern, alphabet):
    dfa = kl.regex(pattern, alphabet)
    graph = read_dot(kl.export(dfa, "graphviz"))
    nodes = named(graph)
    assert len(nodes) == len(dfa) + 1
    double = {name for name, node in nodes.items() if node.get("shape") == "doublecircle"}
    assert double == {f"n{q}" for q in range(len(dfa)) if dfa.accepting[q]}
    edges = {(edge.get_source(), edge.get_destination()) for edge in graph.get_edges()}
    wanted = {(f"n{q}", f"n{r}") for q, row in enumerate(dfa.table.tolist()) for r in row}
    assert edges == wanted | {("begin", f"n{dfa.start}")}


def test_dot_of_an_afa_is_the_afa():
    """The graph, evaluated by itself, accepts the same words."""
    weighted = kl.AFA(
        "ab",
        accepting=[1],
        head=all_of(0, not_(1)),
        transitions=[{"a": any_of(0, all_of(0, 1)), "b": 1}, {"a": all_of(), "b": any_of(1, not_(0))}],
    )
    graph = read_dot(kl.export(weighted, "graphviz"))
    nodes = named(graph)
    labels = {name: (node.get("label") or "").strip('"') for name, node in nodes.items()}
    edges = [(e.get_source(), e.get_destination(), (e.get("label") or "").strip('"')) for e in graph.get_edges()]

    def true(name, word):
        if name.startswith("n"):
            if not word:
                return nodes[name].get("shape") == "doublecircle"
            (target,) = [t for s, t, label in edges if s == name and label == word[0]]
            return true(target, word[1:])
        found = [true(t, word) for s, t, _ in edges if s == name]
        return {"and": all(found), "or": any(found), "not": not any(found), "true": True, "false": False}[labels[name]]

    (head,) = [t for s, t, _ in edges if s == "begin"]
    for length in range(5):
        for number in range(2**length):
            word = "".join("ab"[number >> k & 1] for k in range(length))
            assert true(head, word) == weighted.accepts(word), word


def test_dot_of_networks_and_machines(tmp_path):
    dfa = kl.regex("(0|10*1)*", "01")
    assert kl.export(kl.compile(dfa), "graphviz", tmp_path / "even.dot") == (tmp_path / "even.dot").read_text()
    assert len(named(read_dot((tmp_path / "even.dot").read_text()))) == 3
    beaver = kl.TuringMachine.parse("1RB1LB_1LA1RZ")
    assert "→" in kl.export(beaver, "graphviz") and read_dot(kl.export(kl.compile(beaver), "graphviz"))
