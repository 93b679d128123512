"""Counted agreement of a machine and a network: on all inputs up to a length, random ones, or given ones."""

from __future__ import annotations

import random as random_module
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice, product
from typing import Any

import numpy as np
import torch

from kleene.common.cluster import Cluster, chunks, cluster_of, gather
from kleene.common.output import Output
from kleene.common.tokens import Tokens, list_of_inputs
from kleene.compilers.transformer_coding import encode
from kleene.errors import InputError, KleeneError, NotSupported, UndefinedRead, a_type
from kleene.lowering.rule_machine import RuleMachine
from kleene.lowering.updates import Cycle, Updates
from kleene.machines.interpreter import trace
from kleene.machines.program import ProgramClass, sent_program
from kleene.machines.spec import Spec
from kleene.networks.rnn.sequence import SequenceRNN
from kleene.networks.stock.model import StockModel
from kleene.networks.trained.encoder_decoder import StandardTransformer
from kleene.networks.trained.learned_mlp import LearnedTransformer
from kleene.networks.transformer.model import Transformer

MAX_EXHAUSTIVE = 50_000_000
FEW_INPUTS, LITTLE_WORK = 20_000, 3e8  # inputs, and their tokens times weights, that run dense: nothing is compiled
CHUNK = 512
CLUSTER_CHUNK = 8 * CHUNK  # inputs of a call on a cluster


@dataclass(frozen=True)
class Disagreement:
    """An input on which the two differ, and the place of the first difference."""

    input: tuple[int, ...]
    expected: Any
    found: Any
    where: str | None  # layer, position and variable

    def __str__(self) -> str:
        place = f"; they first differ {self.where}" if self.where else ""
        return f"input {list(self.input)}: expected {self.expected}, found {self.found}{place}"


@dataclass(frozen=True)
class Report:
    """The number of inputs checked, the number that disagree, and the shortest of these."""

    program: str
    checked: int
    mismatches: int
    raised: int  # inputs on which both raise the same error
    compared_with: str
    evaluator: str
    inputs: str
    counterexample: Disagreement | None = None
    layers: bool = True  # whether the numbers of layers were also compared
    left_out: int = 0  # inputs on which the program raises an error, of networks that cannot raise

    @property
    def holds(self) -> bool:
        return self.checked > 0 and self.mismatches == 0

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        what = f"{self.program}: network ({self.evaluator}) against {self.compared_with}, {self.inputs}"
        agreed = f"{self.checked - self.mismatches:,} of {self.checked:,} inputs agree in outputs"
        agreed += " and layers" if self.layers else ""
        also = f" (on {self.raised:,} both raise the same error)" if self.raised else ""
        also += f"; {self.left_out:,} more left out: the program raises an error there" if self.left_out else ""
        shown = f"\n  shortest disagreement: {self.counterexample}" if self.counterexample else ""
        return f"{what}\n{self._mostly_errors()}  {agreed}{also}{shown}"

    def _mostly_errors(self) -> str:
        """A warning for the first line if most inputs were not computed at all."""
        if 2 * self.raised <= self.checked:
            return ""
        return (
            f"  beware: only {self.checked - self.raised:,} of {self.checked:,} inputs were computed; on the other "
            f"{self.raised:,} both sides raise the same error. Give inputs that mean something to the program: "
            "inputs=[…], or a sample(chance, length) in its class\n"
        )

    def to_json(self) -> dict[str, Any]:
        found = self.counterexample
        return {
            "program": self.program,
            "holds": self.holds,
            "checked": self.checked,
            "mismatches": self.mismatches,
            "raised": self.raised,
            "left_out": self.left_out,
            "compared_with": self.compared_with,
            "evaluator": self.evaluator,
            "inputs": self.inputs,
            "counterexample": None
            if found is None
            else {
                "input": list(found.input),
                "expected": str(found.expected),
                "found": str(found.found),
                "where": found.where,
            },
        }


@dataclass
class InterpreterReference:
    """The program itself, run as written."""

    program: ProgramClass
    options: dict[str, Any]
    name = "the interpreter"

    def __reduce__(self) -> Any:  # a class made inside a function is pickled as its body
        return _interpreted, (*sent_program(self.program), self.options)

    @property
    def spec(self) -> Spec:
        return self.program.spec

    @property
    def sample(self) -> Any:
        return getattr(self.program, "sample", None)

    def run_batch(self, inputs: Sequence[Sequence[int]]) -> list[Output | KleeneError]:
        return [_attempt(self.program.run, tokens, self.options) for tokens in inputs]

    def states(self, tokens: Sequence[int]) -> list[dict[str, list[int]]]:
        """Indices of every variable's values by position, after 0, 1, … layers."""
        kinds = self.spec.kinds
        return [
            {n: [kinds[n].index(state[n]) or 0 for state in states] for n in self.spec.variables}
            for states in trace(self.program, tokens, **self.options).states
        ]


@dataclass
class UpdatesReference:
    """Guarded updates on the rule machine: those saved with a network, so no Python is needed."""

    updates: Updates | Cycle
    options: dict[str, Any]
    name = "the saved guarded updates (rule machine)"

    @property
    def spec(self) -> Spec:
        return self.updates.spec

    def run_batch(self, inputs: Sequence[Sequence[int]]) -> list[Output | KleeneError]:
        machine = RuleMachine(self.updates)
        if self.spec.max_tokens is None:
            try:
                return list(machine.run_batch(inputs, **self.options))
            except KleeneError:
                pass
        return [_attempt(machine.run, tokens, self.options) for tokens in inputs]

    def states(self, tokens: Sequence[int]) -> list[dict[str, list[int]]]:
        kept: list[dict[str, list[int]]] = []

        def watch(layer: int, rows: Any, state: dict[str, np.ndarray]) -> None:
            kept.append({name: array[0].tolist() for name, array in state.items()})

        RuleMachine(self.updates).run_batch([tokens], watch=watch, **self.options)
        return [{}, *kept]


def _interpreted(make: Callable[..., ProgramClass], arguments: Any, options: dict[str, Any]) -> InterpreterReference:
    return InterpreterReference(make(*arguments), options)


def _attempt(run: Callable[..., Output], tokens: Sequence[int], options: dict[str, Any]) -> Output | KleeneError:
    try:
        return run(tokens, **options)
    except KleeneError as error:
        return error


def verify_program(
    machine: ProgramClass,
    network: Transformer | LearnedTransformer | StandardTransformer | StockModel | SequenceRNN,
    *,
    inputs: Iterable[Tokens] | None = None,
    lengths: Iterable[int] | None = None,
    random: int | None = None,
    seed: int = 0,
    evaluator: str | None = None,
    layers: int | None = None,
    max_layers: int | None = None,
    cluster: Cluster | str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """Compare a network with a program, run by the interpreter. `kl.verify` documents the options."""
    run = _run_options(machine.spec, network, layers, max_layers)
    chosen: dict[str, Any] = {"inputs": inputs, "lengths": lengths, "random": random, "seed": seed}
    chosen |= {"evaluator": evaluator, "cluster": cluster, "progress": progress}
    return compare(InterpreterReference(machine, run), network, **chosen, run=run)


def verify_updates(
    machine: Updates | Cycle,
    network: Transformer | LearnedTransformer | StandardTransformer | StockModel | SequenceRNN,
    *,
    inputs: Iterable[Tokens] | None = None,
    lengths: Iterable[int] | None = None,
    random: int | None = None,
    seed: int = 0,
    evaluator: str | None = None,
    layers: int | None = None,
    max_layers: int | None = None,
    cluster: Cluster | str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """Compare a network with guarded updates, run by the rule machine. `kl.verify` documents the options."""
    run = _run_options(machine.spec, network, layers, max_layers)
    chosen: dict[str, Any] = {"inputs": inputs, "lengths": lengths, "random": random, "seed": seed}
    chosen |= {"evaluator": evaluator, "cluster": cluster, "progress": progress}
    return compare(UpdatesReference(machine, run), network, **chosen, run=run)


def _run_options(spec: Spec, network: Any, layers: int | None, max_layers: int | None) -> dict[str, Any]:
    """How to run both: unchanged, unless `layers` is given."""
    if not isinstance(network, (Transformer, LearnedTransformer, StandardTransformer, StockModel, SequenceRNN)):
        raise NotSupported(f"verify: cannot compare the program {spec.name} with {a_type(network)}")
    given = (("layers", layers), ("max_layers", max_layers))
    run: dict[str, Any] = {key: value for key, value in given if value is not None}
    return run


def compare(
    reference: Any,
    network: Any,
    *,
    inputs: Iterable[Tokens] | None = None,
    lengths: Iterable[int] | None = None,
    random: int | None = None,
    seed: int = 0,
    evaluator: str | None = None,
    run: dict[str, Any] | None = None,
    cluster: Cluster | str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """Count on how many inputs a network agrees with a reference in outputs and layers."""
    if isinstance(lengths, int):
        raise InputError(f"verify: lengths={lengths}; give several, as in lengths=range(1, {lengths + 1})")
    sample, run = getattr(reference, "sample", None), run or {}
    exact = isinstance(network, Transformer)  # of learned and stock networks only the outputs are compared
    if not exact and (run or evaluator not in (None, "dense")):
        raise NotSupported(
            "verify: evaluator and layers are options for compiled networks, not for learned or stock networks"
        )
    longest = None if isinstance(network, SequenceRNN) else network.longest
    chosen, described = choose_inputs(reference.spec, inputs, lengths, random, seed, sample, longest)
    few, chosen = _is_little_work(network, chosen) if exact and evaluator is None else (not exact, chosen)
    evaluator = evaluator or ("dense" if few else network.preferred_evaluator())
    # an encoder has its own number of layers, so only outputs are compared
    halts_alone = exact and network.config.shape == "encoder" and bool(reference.spec.halt)
    counted = exact and (not halts_alone or "layers" in run)
    tally = _Tally(counted)
    work = _Comparison(reference, network, evaluator, run, counted)
    for counts in _counted(work, chosen, cluster_of(cluster)):
        tally.add(counts)
        if progress is not None:
            progress(tally.checked)
    return Report(
        reference.spec.name,
        tally.checked,
        tally.mismatches,
        tally.raised,
        reference.name,
        "step by step"
        if isinstance(network, SequenceRNN)
        else f"{evaluator}, {str(next(network.parameters()).dtype).removeprefix('torch.')}",
        described,
        _counterexample(reference, network, tally, run),
        layers=counted,
        left_out=tally.left_out,
    )


def _counterexample(reference: Any, network: Any, tally: _Tally, run: dict[str, Any]) -> Disagreement | None:
    """The shortest input on which both sides differ, with what each says; None if they agree."""
    if tally.worst is None:
        return None
    (_, shortest), wanted, given = tally.worst
    exact = isinstance(network, Transformer)
    where = _first_difference(reference, network, shortest, run) if exact else None
    return Disagreement(shortest, _told(wanted), _told(given), where)


def _counted(work: _Comparison, inputs: Iterable[list[int]], cluster: Cluster | None) -> Iterator[_Tally]:
    """The counts on chunks of the inputs, made here or on a cluster."""
    if cluster is None:
        return map(work, chunks(inputs, CHUNK))
    calls = ((str(number), (work, (part,))) for number, part in enumerate(chunks(inputs, CLUSTER_CHUNK)))
    return (counts for _, counts in gather(cluster, calls))


@dataclass(frozen=True)
class _Comparison:
    """Runs a reference and a network on some inputs, here or on a cluster, and counts agreement."""

    reference: Any
    network: Any
    evaluator: str
    run: dict[str, Any]
    layers: bool  # whether the numbers of layers are compared

    def __call__(self, inputs: list[list[int]]) -> _Tally:
        tally = _Tally(self.layers)
        for chunk in chunks(inputs, CHUNK):
            expected = self.reference.run_batch(chunk)
            if isinstance(self.network, Transformer):
                found = _run_network(self.network, chunk, expected, self.evaluator, self.run)
                tally.count(zip(chunk, expected, found))
            elif isinstance(self.network, SequenceRNN):
                tally.count(_run_sequence(self.network, chunk, expected))
            elif isinstance(self.network, StockModel):
                tally.left_out += sum(not isinstance(wanted, Output) for wanted in expected)
                tally.count(_run_stock(self.network, chunk, expected))
            else:
                tally.left_out += sum(not isinstance(wanted, Output) for wanted in expected)
                tally.count(_run_learned(self.network, chunk, expected))
        return tally


class _Tally:
    """Counts agreement, and keeps the shortest disagreement. `layers`: also compare the numbers of layers."""

    def __init__(self, layers: bool) -> None:
        self.layers = layers
        self.checked = self.mismatches = self.raised = self.left_out = 0
        self.worst: tuple[tuple[int, tuple[int, ...]], Any, Any] | None = None

    def count(self, results: Iterable[tuple[list[int], Any, Any]]) -> None:
        """Count (input, expected, found) triples."""
        for tokens, wanted, given in results:
            same = _same(wanted, given, self.layers)
            self.checked += 1
            self.raised += same and isinstance(wanted, KleeneError)
            self.mismatches += not same
            key = (len(tokens), tuple(tokens))
            if not same and (self.worst is None or key < self.worst[0]):
                self.worst = key, wanted, given

    def add(self, other: _Tally) -> None:
        """Add the counts of another."""
        self.checked += other.checked
        self.mismatches += other.mismatches
        self.raised += other.raised
        self.left_out += other.left_out
        if other.worst is not None and (self.worst is None or other.worst[0] < self.worst[0]):
            self.worst = other.worst


def _run_learned(network: Any, chunk: list[list[int]], expected: list[Any]) -> Iterator[tuple[list[int], Any, Any]]:
    """(input, expected, found) without the inputs on which the program raises: a learned network cannot raise."""
    for tokens, wanted, outputs in zip(chunk, expected, network.run_batch(chunk)):
        if isinstance(wanted, Output):
            yield tokens, wanted, Output(outputs, wanted.layers)


def _run_stock(
    network: StockModel, chunk: list[list[int]], expected: list[Any]
) -> Iterator[tuple[list[int], Any, Any]]:
    """(input, expected, found), as far as the model's length allows, without the inputs on which the program raises."""
    for tokens, wanted, found in zip(chunk, expected, network.run_as_far(chunk)):
        if isinstance(wanted, Output):
            cut = len(tokens) + len(found) > network.length and len(found) < len(wanted)
            yield tokens, Output(wanted[: len(found)] if cut else wanted, wanted.layers), Output(found, wanted.layers)


def _run_sequence(
    network: SequenceRNN, chunk: list[list[int]], expected: list[Any]
) -> Iterator[tuple[list[int], Any, Any]]:
    """(input, expected, found). The network raises where the program raises, without the reason."""
    for tokens, wanted in zip(chunk, expected):
        found = _attempt(network.run, tokens, {})
        both = isinstance(wanted, KleeneError) and isinstance(found, KleeneError)
        yield tokens, wanted, wanted if both else found


def _told(result: Any) -> Any:
    return f"{type(result).__name__}: {result}" if isinstance(result, Exception) else result


def _run_network(
    network: Transformer, chunk: list[list[int]], expected: list[Any], evaluator: Any, run: dict[str, Any]
) -> list[Output | KleeneError]:
    """Run the inputs on which the reference raises one by one, with the network's own checks."""
    plain = [i for i, wanted in enumerate(expected) if not isinstance(wanted, Exception)]
    results: dict[int, Output | KleeneError] = {}
    try:
        outputs = network.run_batch([chunk[i] for i in plain], evaluator=evaluator, **run) if plain else []
        results = dict(zip(plain, outputs))
    except NotSupported:  # the question is wrong, so this is not an answer
        raise
    except KleeneError:
        for i in plain:
            results[i] = _attempt(network.run, chunk[i], {"evaluator": evaluator, **run})
    for i in range(len(chunk)):
        if i not in results:
            results[i] = _attempt(network.run, chunk[i], {"check": True, **run})
    return [results[i] for i in range(len(chunk))]


def _same(wanted: Any, found: Any, layers: bool) -> bool:
    if isinstance(wanted, Exception) or isinstance(found, Exception):
        if isinstance(wanted, UndefinedRead) and isinstance(found, UndefinedRead):
            return str(wanted) == str(found)
        return type(wanted) is type(found)
    return bool(wanted == found and (not layers or wanted.layers == found.layers))


def _any_tokens(spec: Spec) -> Callable[[random_module.Random, int], list[int]]:
    return lambda chance, length: [chance.randrange(spec.tokens) for _ in range(length)]


def choose_inputs(
    spec: Spec,
    inputs: Iterable[Tokens] | None,
    lengths: Iterable[int] | None,
    random: int | None,
    seed: int,
    sample: Callable[[random_module.Random, int], list[int]] | None = None,
    longest: int | None = None,
) -> tuple[Iterator[list[int]], str]:
    """The inputs to check, and a description of them. A program's own `sample(chance, length)` draws inputs
    that mean something to it; other programs get uniform tokens. `longest` is the network's longest input."""
    if inputs is not None:
        given = [spec.read_input(tokens) for tokens in list_of_inputs(inputs, spec.name)]
        return iter(given), f"{len(given):,} given input{'' if len(given) == 1 else 's'}"
    sizes = _check_lengths(spec, lengths, longest)
    shown = f"lengths {sizes[0]} to {sizes[-1]}" if len(sizes) > 1 else f"length {sizes[0]}"
    if random is not None:
        chance = random_module.Random(seed)
        draw = sample or (spec.text.sample if spec.text is not None else None) or _any_tokens(spec)
        drawn = (draw(chance, chance.choice(sizes)) for _ in range(random))
        return drawn, f"{random:,} random inputs of {shown} (seed {seed})"
    if lengths is None:
        raise InputError(f"{spec.name}: say what to check: lengths=range(1, 9), random=1000 or inputs=[…]")
    total = sum(spec.tokens ** min(size, 64) for size in sizes)  # enough to see that the inputs are too many
    if total > MAX_EXHAUSTIVE:
        raise InputError(
            f"{spec.name}: all inputs of {shown} are more than {MAX_EXHAUSTIVE:,}; use random= or shorter ones"
        )
    every = (list(tokens) for size in sizes for tokens in product(range(spec.tokens), repeat=size))
    return every, f"all {total:,} inputs of {shown}"


def _is_little_work(network: Any, inputs: Iterator[list[int]]) -> tuple[bool, Iterator[list[int]]]:
    """Whether a layer of all inputs is less work than getting the sparse evaluator ready; and the inputs again."""
    first = list(islice(inputs, FEW_INPUTS + 1))
    weights = sum(parameter.numel() for parameter in network.parameters())
    return len(first) <= FEW_INPUTS and sum(map(len, first)) * weights <= LITTLE_WORK, chain(first, inputs)


def _check_lengths(spec: Spec, lengths: Iterable[int] | None, longest: int | None) -> list[int]:
    """The lengths to check, ascending; by default those up to 20 that both sides accept."""
    limit = min(n for n in (spec.positions, longest, 20) if n is not None)
    sizes = sorted(set(lengths)) if lengths is not None else list(range(1, limit + 1))
    if not sizes or sizes[0] < 1:
        raise InputError(f"{spec.name}: lengths must be at least 1, not {sizes}")
    if spec.positions is not None and sizes[-1] > spec.positions:
        raise InputError(f"{spec.name}: length {sizes[-1]} is more than the {spec.positions} positions declared")
    if longest is not None and sizes[-1] > longest:
        raise InputError(f"{spec.name}: length {sizes[-1]} is more than the {longest} that the network takes")
    return sizes


def _first_difference(reference: Any, network: Transformer, tokens: Sequence[int], run: dict[str, Any]) -> str | None:
    """The first layer, position and variable in which the two states differ."""
    if network.config.shape == "decoder":
        return None
    kept: list[torch.Tensor] = []
    try:
        wanted = [encode(network.layout, reference.spec, state) for state in reference.states(tokens)[1:]]
    except (KleeneError, KeyError, RuntimeError):  # one side raises, or the two have different variables
        return None
    with suppress(KleeneError):  # keep the layers before the error
        network.run_batch([tokens], evaluator="dense", watch=lambda layer, rows, x: kept.append(x[0].clone()), **run)
    for layer, (a, b) in enumerate(zip(wanted, kept), start=1):
        apart = torch.nonzero(a != b.double().cpu())
        if len(apart):
            position, dim = apart[0].tolist()
            return f"in layer {layer}, position {position}, at '{network.layout.names[dim]}'"
    return "in the number of layers" if len(wanted) != len(kept) else None
