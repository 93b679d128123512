"""The check that the compiler makes itself: run the MLP blocks beside `step`, on chosen and random states."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from kleene.common.residual import Layout
from kleene.compilers.transformer_coding import code, encode
from kleene.errors import KleeneError
from kleene.lowering.averages import extreme_averages
from kleene.lowering.guarding import guarded_updates
from kleene.lowering.thresholds import averaging_heads
from kleene.lowering.updates import Test, Updates
from kleene.machines.bitwords import bit_of_name
from kleene.machines.interpreter import RunningLayer, quiet, run_step, value_of
from kleene.machines.kinds import Word
from kleene.machines.program import ProgramClass
from kleene.machines.spec import HeadSpec, Spec
from kleene.machines.trace import HeadOutput
from kleene.networks.transformer.model import Transformer

MAX_SAMPLES = 5_000  # states that weights are tested on
MAX_PRODUCTS = 2 * 10**11  # of a weight and a state; a network of more weights is tested on fewer states


@quiet()
def check_weights(program: ProgramClass, net: Transformer, samples: int = 1_000, seed: int = 0) -> None:
    """Run each MLP block beside `step`, and raise a `KleeneError` where they differ.

    The states are one for each update, and random ones. Averages lie next to a boundary. A second pass makes heads
    undefined where `step` does not read them.
    """
    most = max(samples, min(MAX_SAMPLES, MAX_PRODUCTS // net.sizes.parameters))
    for layer, part in enumerate(program.by_layer[: len(net.blocks)]):  # an encoder may be shorter than the cycle
        updates = guarded_updates(program).by_layer[layer]
        if updates.second is None:
            _check_block(part, updates, net, layer, (samples, most), seed)
        else:
            _check_two_steps(part, updates, net, layer, (samples, most), seed)


def _check_two_steps(
    program: Any, updates: Updates, net: Transformer, layer: int, samples: tuple[int, int], seed: int
) -> None:
    """Run each half of a block beside its step of a layer with two steps."""
    assert updates.second is not None
    block, layout, chance = net.block(layer), net.layout, random.Random(seed)
    written: set[str] = set()
    for part, step, half in (
        (replace(updates, second=None), program.first, block.first_half),
        (updates.second, program.second, block.second_half),
    ):
        spec = part.spec
        states = [_cleared(spec, state, written) for state in _states(part, {}, chance, samples)]
        expected = [_step_on(step, state)[0] for state in states]
        before = encode(layout, spec, {n: [state[n] for state in states] for n in spec.variables})
        wanted = encode(layout, spec, {n: [state[n] for state in expected] for n in spec.variables})
        after = torch.cat([half(rows) for rows in before.to(net.dtype).split(256)]).double()
        if not torch.equal(after, wanted):
            row, dim = torch.nonzero(after != wanted)[0].tolist()
            raise KleeneError(
                f"{spec.name}: the weights differ from step in '{layout.names[dim]}' for {states[row]}: an error in "
                "Kleene, unless step does other things with symbols than with values (isinstance, 'is', chance)"
            )
        written |= set(part.variables)


def _cleared(spec: Spec, state: dict[str, int], written: set[str]) -> dict[str, int]:
    """A state as it is after the layer's heads have cleared variables that no step has written since."""
    cleared = spec.cleared(written)
    return {**state, **{n: 0 for n, where in cleared.items() if all(value_of(state, name) == i for name, i in where)}}


def _check_block(
    program: Any, updates: Updates, net: Transformer, layer: int, samples: tuple[int, int], seed: int
) -> None:
    spec, chance = program.spec, random.Random(seed)
    averages = {
        name: extreme_averages(spec, name, net.config.max_length or 1)
        for name, head in spec.heads.items()
        if head.numerical
    }
    states = [_cleared(spec, state, set()) for state in _states(updates, averages, chance, samples)]
    expected, read = zip(*(_step_on(program, state) for state in states))
    block, layout = net.block(layer), net.layout
    before = encode(layout, spec, {n: [state[n] for state in states] for n in spec.kinds})
    for name, each in averages.items():
        chosen = [float(chance.choice(each[state[name]])) for state in states]
        before[:, layout[name].start] = torch.tensor(chosen, dtype=before.dtype)
    wanted = encode(layout, spec, {n: [state[n] for state in expected] for n in spec.variables})
    unread = _with_undefined(before, layout, updates, read, seed)
    for given in (before, unread):
        rows = given.to(net.dtype).split(256)
        after = torch.cat([block.second_half(block.first_half(part)) for part in rows]).double()
        if not torch.equal(after, wanted):
            row, dim = torch.nonzero(after != wanted)[0].tolist()
            where = f"{states[row]}" + (", heads that are not read undefined" if given is unread else "")
            raise KleeneError(
                f"{spec.name}: the weights differ from step in '{layout.names[dim]}' for {where}: an error in Kleene, "
                "unless step does other things with symbols than with values (isinstance, 'is', chance, globals)"
            )


def _states(
    updates: Updates, averages: Mapping[str, Sequence[Sequence[Any]]], chance: random.Random, samples: tuple[int, int]
) -> list[dict[str, int]]:
    """States to test weights on: a witness for each update, and random ones. Values of a variable are equally frequent.

    - `averages`: for each averaging head and each of its values, the averages that round to it; none excludes it.
    - `samples`: how many random states at least and at most; more than the least where a variable has more values.
    """
    spec = updates.spec
    ranges: dict[str, Sequence[int]] = {name: updates.values(name) for name in spec.kinds}
    ranges |= {name: [i for i in ranges[name] if each[i]] for name, each in averages.items()}
    sizes = [len(values) for name, values in ranges.items() if not isinstance(spec.kinds[name], Word)]
    least, most = samples
    count = min(max(least, *sizes), most) if sizes else least
    states = [*_witnesses(updates, chance), *[{} for _ in range(count)]]
    states = [state for state in states if all(index in ranges[n] for n, index in state.items() if n in ranges)]
    for name, values in ranges.items():
        count = min(len(values), len(states))
        order = [value for _ in range(0, len(states), count) for value in chance.sample(values, count)]
        for state, value in zip(states, order):
            state.setdefault(name, value)
    return states


def _with_undefined(
    states: torch.Tensor, layout: Layout, updates: Updates, read: Sequence[set[str]], seed: int
) -> torch.Tensor:
    """Change heads that `step` does not read: they select no position, or up to three."""
    mixed, several, chance = states.clone(), averaging_heads(updates), torch.Generator().manual_seed(seed)
    for name, head in updates.spec.heads.items():
        rows = [row for row, names in enumerate(read) if name not in names]
        if rows and not head.numerical:
            count = torch.randint(4 if name in several else 1, (len(rows), 1), generator=chance)
            chosen = torch.randint(len(head.kind), (3, len(rows)), generator=chance).tolist()
            values = [code(head.kind, indices) * (k < count) for k, indices in enumerate(chosen)]
            mixed[torch.tensor(rows), layout[name].slice] = sum(values) / count.clamp(min=1)
    return mixed


def _witnesses(updates: Updates, chance: random.Random) -> Iterable[dict[str, int]]:
    """A state for each guarded update that passes its tests on single variables."""
    for update in updates:
        yield from _with_bits(update.guard, updates, chance)
    for word in updates.words:
        yield from _with_bits(word.guard, updates, chance)


def _with_bits(guard: Iterable[Test], updates: Updates, chance: random.Random) -> Iterator[dict[str, int]]:
    """Values that pass the tests on single variables, and on single bits of words; none where no value does."""
    state: dict[str, int] = {}
    for test in guard:
        if test.variable is None:
            continue
        bit = bit_of_name(test.variable)
        if bit is not None:
            word = state.setdefault(bit[0], chance.randrange(len(updates.spec.kinds[bit[0]])))
            state[bit[0]] = word & ~(1 << bit[1]) | chance.choice(sorted(test.indices)) << bit[1]
        elif test.variable in updates.spec.kinds:
            ways = sorted(test.indices.intersection(updates.values(test.variable)))
            if not ways:
                return
            state[test.variable] = chance.choice(ways)
    yield state


class _Given(RunningLayer):
    """A layer whose heads give chosen values, and whose moves have already been made."""

    @property
    def moved(self) -> Any:
        return self.states

    def __init__(self, spec: Spec, values: dict[str, Any]) -> None:
        super().__init__(spec, [{name: values[name] for name in spec.variables}], 1)
        self.given, self.read = values, set[str]()

    def output(self, head: HeadSpec, position: int) -> HeadOutput:
        self.read.add(head.name)
        return HeadOutput((0,), self.given[head.name])


def _step_on(program: Any, indices: dict[str, int]) -> tuple[dict[str, int], set[str]]:
    """The variables' indices after `step` on plain values, and the heads that it read."""
    spec = program.spec
    layer = _Given(spec, {name: kind.values[indices[name]] for name, kind in spec.kinds.items()})
    after = run_step(program, layer, 0)
    return {name: spec.variables[name].kind.index(value) or 0 for name, value in after.items()}, layer.read
