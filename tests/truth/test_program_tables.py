"""Programs as tables mean what the interpreter means, with and without interventions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import kleene as kl
from kleene.machines.interpreter import layers_of
from kleene.truth.causal_graph import causal_graph
from kleene.truth.program_tables import Tables
from kleene.truth.random_programs import Size, random_program


def programs(count=3, **size):
    return [random_program(np.random.default_rng([3, seed]), Size(**size)) for seed in range(count)]


def test_every_node_has_the_interpreters_value():
    made = programs()
    tables = Tables.of(made, 4)
    inputs = tables.every_input()
    kept, outputs = tables.run(inputs.expand(len(made), -1, -1))
    for k, program in enumerate(made):
        for row in range(0, len(inputs), 11):
            word = inputs[row].tolist()
            assert outputs[k, row].tolist() == program.run(word)
            for layer, (looking, after) in enumerate(layers_of(program, word)):
                heads = looking.spec.heads
                want = [
                    [looking.output(heads[n], i).value if n in heads else after[i][n] for n in tables.names]
                    for i in range(4)
                ]
                assert kept[layer][k, row].tolist() == want


def test_interventions_do_what_the_causal_graph_says():
    """A node changes the output under some value at some position iff the graph gives it an effect there."""
    (program,) = programs(1, layers=2)
    tables, word = Tables.of([program], 4), [0, 2, 1, 1]
    graph, size = causal_graph(program, word), len(tables.names)
    inputs = torch.tensor(word).expand(1, 1, -1)
    plain, before = tables.run(inputs)
    for node, effect in graph.effects.items():
        if node.layer == 0:
            continue
        column, moved = tables.names.index(node.name), 0
        own = int(plain[node.layer - 1][0, 0, node.position, column])
        for value in {0, 1, 2} - {own}:
            masks = torch.zeros(2, 1, 1, 4, size, dtype=torch.bool)
            masks[node.layer - 1, 0, 0, node.position, column] = True
            given = [torch.full((1, 1, 4, size), value)] * 2
            moved += int((tables.run(inputs, masks, given)[1] != before).any())
        assert moved / 2 == effect


def test_what_has_no_tables_is_named():
    with pytest.raises(kl.InputError, match="layers"):
        Tables.of([kl.library.parity_relative], 4)
    with pytest.raises(kl.InputError, match="2 shapes"):
        Tables.of([*programs(1), *programs(1, layers=2)], 4)

    class Wide(kl.Program):
        tokens, layers = 2, 1
        a, b = kl.cat(700, token=lambda t: t), kl.cat(700)
        output = a

        def step(z):
            z.b = z.a

    with pytest.raises(kl.InputError, match="490,000 combinations"):
        Tables.of([Wide], 3)
