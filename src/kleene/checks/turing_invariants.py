"""Theorem 4.11 tested along runs: the network's values against a direct simulator, configuration by configuration.

The proof for all runs is in `turing_steps`; this is what `verify` counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

from kleene.checks.bisimulation import Report, chosen_words
from kleene.common.alphabet import Word, all_words, show_word
from kleene.errors import InputError, NotSupported, a_type
from kleene.machines.turing import Configuration, TuringMachine
from kleene.networks.rnn.decider import ANSWERS, Decider, code
from kleene.networks.rnn.matrix import Vector


def machine_of(net: Decider) -> TuringMachine:
    """The machine that a network was compiled from, as saved with it."""
    if "machine" not in net.about or net.about.get("form") not in ("compact", "literal"):
        raise InputError("verify: the network was not compiled from a Turing machine with one tape")
    return TuringMachine.from_json(net.about["machine"], "the network's 'machine'")


def verify_turing(
    machine: TuringMachine,
    net: Decider,
    *,
    inputs: Iterable[Word] | None = None,
    lengths: Sequence[int] | None = None,
    random: int | None = None,
    length: int = 10,
    seed: int = 0,
    max_steps: int = 500,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """Compare machine and network configuration by configuration: on `inputs`, on all words of some
    `lengths`, on
    `random` words of up to `length` symbols; by default on all words of up to 4 symbols, at most 50."""
    if not isinstance(machine, TuringMachine) or not isinstance(net, Decider):
        raise NotSupported(f"verify: cannot compare {a_type(machine)} with {a_type(net)}")
    if inputs is None and lengths is None and random is None:
        words = _words(machine, None)
        how = f"the {len(words)} shortest words, of up to {max(map(len, words))} symbols"
    else:
        words, how = chosen_words(machine.input_alphabet or (), inputs, lengths, random, length, seed)
    found: dict[str, str | None] = {}
    for done, word in enumerate(words):
        found[show_word(word)] = check_run(machine, net, word, max_steps)[1]
        if progress is not None:
            progress(done + 1)
    wrong = {word: problem for word, problem in found.items() if problem is not None}
    example = next((f"{word}: {problem}" for word, problem in wrong.items()), None)
    how += f", up to {max_steps:,} steps each, configuration by configuration"
    return Report(len(words), len(wrong), how, example)


def verify_saved(net: Decider, machine: Any = None, **options: Any) -> Report:
    """Compare a network with the machine saved with it (None, or the network itself), or with another one."""
    return verify_turing(machine_of(net) if machine is None or machine is net else machine, net, **options)


def _words(machine: TuringMachine, inputs: Iterable[Word] | None) -> list[Word]:
    if inputs is not None:
        return list(inputs)
    return list(islice(all_words(machine.input_alphabet or (), 4), 50))


def check_run(machine: TuringMachine, net: Decider, word: Word, max_steps: int) -> tuple[int, str | None]:
    """Run both side by side: (steps of the network, what is wrong or None)."""
    vectors = net.run_inputs(word)
    lead = net.lead(len(word))
    first = len(word) if net.about["form"] == "compact" else 0  # compact: no conditions while the input is read
    for time in range(lead):
        g = next(vectors)
        if problem := _general(net, g, time > first):
            return time, f"before the start, step {time}: {problem}"
        if net.answer(g):
            return time, f"an answer before the start, at step {time}"
    configuration = None
    for step, configuration in enumerate(islice(machine.configurations(word), max_steps + 1)):
        g = next(vectors)
        problem = _general(net, g, True) or _same(machine, net, g, configuration)
        if problem is None and ANSWERS[net.answer(g)] != machine.answer(configuration.state):
            problem = f"the output says {ANSWERS[net.answer(g)]}, the machine {machine.answer(configuration.state)}"
        if problem is not None:
            return lead + step, f"step {step}: {problem}"
    if configuration is not None and machine.answer(configuration.state):
        for _ in range(3):  # halted: nothing moves any more
            g = next(vectors)
            if problem := _general(net, g, True) or _same(machine, net, g, configuration):
                return lead + step, f"after halting: {problem}"
            if ANSWERS[net.answer(g)] != machine.answer(configuration.state):
                return lead + step, "the answer does not stay"
    return lead + step, None


def _general(net: Decider, g: Vector, conditions: bool) -> str | None:
    """The invariants that need no simulator."""
    h = net.values(g)
    if any(not 0 <= v <= 1 for v in h.values()):
        return "a value outside [0, 1]"
    if sorted(net.output(g)) != [0, 0, 1]:
        return "the output is not one-hot"
    if conditions:
        true = [sum(factor * g.get(unit, 0) for unit, factor in units) for _, units in net.about["conditions"]]
        if sorted(true)[:-1] != [0] * (len(true) - 1) or max(true) != 1:
            return f"{sum(v == 1 for v in true)} conditions are true; exactly one should be"
    return None


def _same(machine: TuringMachine, net: Decider, g: Vector, configuration: Configuration) -> str | None:
    """Whether the values are those of a configuration."""
    h = net.values(g)
    value = {tuple(role): h.get(i, 0) for i, role in enumerate(net.about["roles"])}
    compact = net.about["form"] == "compact"
    state, left, symbol, right = configuration
    wanted: set[tuple[str, ...]] = {("pair", state, symbol)} if compact else {("q", state), ("c", symbol)}
    for role, v in value.items():
        if role[0] in ("pair", "q", "c") and v != int(role in wanted):
            return f"{role} is {v}; state and symbol should be one-hot at {state!r}, {symbol!r}"
    for part, cells in (("l", left), ("r", right)):
        number = {role[1]: v for role, v in value.items() if role[0] == part}
        codes = [code(cells, number, net.about["base"], machine.blank if compact else None)]
        if not compact and part == "r":  # rewinding leaves the blank behind the word on the stack
            codes.append(code((*cells, machine.blank), number, net.about["base"], None))
        if number not in codes:
            return f"stack {part} is not the code of {''.join(cells)!r}"
    return None
