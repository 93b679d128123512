"""Networks of random programs, at four levels, with the truth about their circuits.

- compiled: certified weights;
- superposed: the same rotated, in fewer dimensions than there are features;
- interchange: a small transformer trained so that its circuit is the program's (`kleene.truth.interchange`);
- trained: the same small transformer trained end to end on the program's outputs.

A node is a head or a variable of the program, in a layer. It is in the circuit where some interchange of it changes the
program's output: its value at all positions becomes what it is on another input.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kleene.compilers.program_to_transformer import compile_program
from kleene.errors import InputError
from kleene.evidence.circuit_graph import CompiledParts, SmallParts
from kleene.files import write_json
from kleene.machines.program import ProgramClass
from kleene.training.options import Storage
from kleene.truth.circuit_lists import interpbench_lists, mib_graph
from kleene.truth.directions import measured_directions, places_of, write_directions
from kleene.truth.interchange import Schedule, edge_effects_of, effects_of, measure, train_stack
from kleene.truth.program_tables import Tables
from kleene.truth.random_programs import Size, random_program
from kleene.truth.shapley import interactions, shapley

VERSION = 3
DRAWS = 1000  # of a program, before giving up
FEW_PAIRS = 256  # where a program is drawn
LEAST = 0.01  # a head with a smaller effect does not make a layer count


def drawn_program(seed: int, index: int, size: Size, length: int) -> tuple[ProgramClass, np.random.Generator]:
    """A random program that uses its depth: some head of every layer is in its circuit. With the generator after it."""
    rng = np.random.default_rng([seed, index])
    for _ in range(DRAWS):
        program = random_program(rng, size)
        tables = Tables.of([program], length)
        effects = effects_of(tables, FEW_PAIRS)[0].view(size.layers, -1)
        if bool((effects[:, : tables.heads] > LEAST).any(1).all()) and _rewrites(program):
            return program, rng
    raise InputError(
        f"depth {size.layers}: none of {DRAWS:,} random programs uses this many layers; ask for fewer, or more heads"
    )


def _rewrites(program: ProgramClass) -> bool:
    """Whether its compiled network writes every variable anew, so that each is a node of a graph."""
    try:
        CompiledParts(compile_program(program))
    except InputError:
        return False
    return True


def nodes_of(tables: Tables, effects: Tensor) -> list[dict[str, Any]]:
    """The nodes of one program, with their effects (node,)."""
    return [
        {
            "name": f"{name}@{layer}",
            "layer": layer,
            "kind": "head" if name in tables.names[: tables.heads] else "variable",
            "of": name,
            "effect": round(float(effect), 6),
            "in": bool(effect > 0),
        }
        for (layer, name), effect in zip(tables.nodes, effects)
    ]


def exact_effects(machine: Any, word: Any) -> dict[str, Any]:
    """The exact Shapley values and interactions of a word, as plain data."""
    return {"shapley": shapley(machine, word).tolist(), "interactions": interactions(machine, word).tolist()}


def output_effects(tables: Tables, word: list[int]) -> dict[str, Any]:
    """The exact effects on whether a program's output at the last position stays as it is on the word."""

    def outputs(words: Any) -> Any:
        return tables.run(torch.tensor(words)[None])[1][0, :, -1].numpy()

    own = int(outputs([word])[0])
    same = SimpleNamespace(alphabet=tuple(range(tables.tokens)), accepts_batch=lambda words: outputs(words) == own)
    return {"output": own, **exact_effects(same, word)}


def truth_about(
    level: str, seed: int, index: int, program: ProgramClass, tables: Tables, effects: Tensor, inputs: list[list[int]]
) -> dict[str, Any]:
    """Return what every truth file of a program holds."""
    return {
        "version": VERSION,
        "kind": "program",
        "level": level,
        "seed": seed,
        "index": index,
        "states": tables.layers,
        "certified": False,
        "words": [{"word": word, **output_effects(tables, word)} for word in inputs],
        "nodes": nodes_of(tables, effects),
        "edges": [
            {"from": a, "to": b, "effect": round(effect, 6)} for (a, b), effect in edge_effects_of(tables).items()
        ],
        "program": {"spec": program.spec.to_json(), "step": tables.step[0].tolist()},
    }


def locate(about: dict[str, Any], parts: CompiledParts | SmallParts, explained: Mapping[str, float]) -> None:
    """Say of each node in a truth which head or neurons it is, and what share of it its directions explain."""
    places = places_of(parts)
    for node in about["nodes"]:
        node.update(places[node["of"]])
        if node["name"] in explained:
            node["explained"] = round(explained[node["name"]], 4)


def write_lists(folder: Path, about: Mapping[str, Any]) -> None:
    """Write the circuit as MIB and InterpBench list it, beside the truth."""
    write_json(folder / "mib.json", mib_graph(about), indent=None)
    write_json(folder / "interpbench.json", interpbench_lists(about), indent=None)


def train_models(
    *,
    level: str,
    seed: int,
    first: int,
    count: int,
    size: Mapping[str, int],
    length: int,
    steps: int,
    batch: int,
    words: int,
    folder: Path,
    deadline: float | None = None,
    device: str | None = None,
) -> dict[str, Any]:
    """Train some models of an order in one stack, and write them below the folder; what was reached, for each.

    - `level`: "interchange" or "trained".
    - `seed`, `first`, `count`, `size`, `length`: which programs.
    - `steps`, `batch`: of training; a call with the same folder goes on.
    - `words`: how many words with exact effects each truth file has.
    - `folder`: for the checkpoint, and for `models`.
    - `deadline`: of `time.monotonic`.
    - `device`: by default a GPU if there is one.
    """
    on = device or ("cuda" if torch.cuda.is_available() else "cpu")
    drawn = [drawn_program(seed, index, Size(**size), length) for index in range(first, first + count)]
    tables = Tables.of([program for program, _ in drawn], length, on)
    effects = effects_of(tables)
    circuit = effects > 0
    schedule = Schedule(steps, batch, interchange=level == "interchange", seed=seed * 100_000 + first)
    storage = Storage(folder / "training", deadline=deadline)
    model, run = train_stack(tables, circuit, schedule, storage=storage)
    reached = measure(model, tables, circuit)
    found = []
    for k, (program, rng) in enumerate(drawn):
        alone = Tables.of([program], length)
        inputs = rng.integers(program.spec.tokens, size=(words, length)).tolist()
        about = truth_about(level, seed, first + k, program, alone, effects[k].cpu(), inputs)
        about |= {"cell": "small transformer", "agreement": reached[k]["accuracy"], "reached": reached[k]}
        place = folder / "models" / f"{first + k:05d}"
        one = model.one(k).cpu()
        one.save(place)
        about["residual"] = model.shape.dim
        parts = SmallParts(one, tables.names)
        directions, explained = measured_directions(parts, alone)
        write_directions(place, directions)
        locate(about, parts, explained)
        write_lists(place, about)
        write_json(place / "truth.json", about, indent=None)
        found.append({"index": first + k, **reached[k]})
    return {"models": found, "step": run.step, "finished": run.step >= steps}


def tasks_of(order: Mapping[str, Any], count: int, together: int) -> dict[str, dict[str, Any]]:
    """An order as tasks, each a stack of at most `together` models."""
    return {
        f"{order['level']}-{first:05d}": {**order, "first": first, "count": min(together, count - first)}
        for first in range(0, count, together)
    }
