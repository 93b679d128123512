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
from kleene.networks.rnn.decider import ANSWERS, END, NUL, Decider, code
from kleene.networks.rnn.gated import GatedRNN
from kleene.networks.rnn.matrix import Vector
from kleene.networks.stock.model import StockModel
from kleene.networks.transformer.model import Transformer


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
        options: dict[str, Any] = {"inputs": inputs, "lengths": lengths, "random": random, "length": length}
        return verify_decisions(machine, net, **options, seed=seed, max_steps=max_steps, progress=progress)
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


def verify_decisions(
    first: Any,
    second: Any,
    *,
    inputs: Iterable[Word] | None = None,
    lengths: Sequence[int] | None = None,
    random: int | None = None,
    length: int = 10,
    seed: int = 0,
    max_steps: int = 500,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """Compare the answers, and the numbers of steps, of any two of a Turing machine and its networks, on words as for
    `verify_turing`. Steps for which one has no room are not compared; an LSTM or GRU gives only an answer."""
    alphabet = _letters(first)
    if set(alphabet) != set(_letters(second)):
        raise InputError(f"verify: one reads {alphabet}, the other {_letters(second)}; they must be equal")
    if inputs is None and lengths is None and random is None:
        words: list[Word] = list(islice(all_words(alphabet, 4), 50))
        how = f"the {len(words)} shortest words, of up to {max(map(len, words))} symbols"
    else:
        words, how = chosen_words(alphabet, inputs, lengths, random, length, seed)
    wrong = []
    for done, word in enumerate(words):
        room = min(_room(first, word, max_steps), _room(second, word, max_steps))
        one, other = (_decided(thing, word, room) for thing in (first, second))
        steps = one[1] == other[1] or None in (one[1], other[1])
        accepts = "accept" in (one[0], other[0]) if None in (one[1], other[1]) else True
        if (one[0] != other[0] and accepts) or not steps:
            wrong.append(f"{show_word(word)}: {_told(one)} and {_told(other)}")
        if progress is not None:
            progress(done + 1)
    how += f", up to {max_steps:,} steps each, by answers and numbers of steps"
    return Report(len(words), len(wrong), how, wrong[0] if wrong else None)


def _letters(thing: Any) -> tuple[str, ...]:
    if isinstance(thing, TuringMachine):
        return tuple(thing.input_alphabet or ())
    if isinstance(thing, Decider):
        return tuple(letter for letter in thing.alphabet if letter not in (END, NUL))
    if isinstance(thing, (Transformer, StockModel)) and thing.description.keys() & {"tape", "chain"}:
        return tuple((thing.description.get("tape") or thing.description["chain"])["alphabet"])
    if isinstance(thing, GatedRNN) and "turing" in thing.about:
        return thing.alphabet
    raise NotSupported(
        f"verify: cannot compare {a_type(thing)}: it is not a Turing machine, and was not compiled from one"
    )


def _room(thing: Any, word: Word, max_steps: int) -> int:
    """The number of steps that fit: a decoder writes a token per step, then its answer."""
    chain = thing.description.get("chain") if isinstance(thing, (Transformer, StockModel)) else None
    return max_steps if chain is None else max(0, min(max_steps, chain["length"] - len(word) - 2))


def _decided(thing: Any, word: Word, max_steps: int) -> tuple[str | None, int | None]:
    """The answer and the number of steps; None for steps if the network counts none."""
    if isinstance(thing, GatedRNN):
        return ("accept" if thing.accepts(word) else "reject"), None
    found = thing.run(word, max_steps=max_steps) if isinstance(thing, TuringMachine) else None
    found = thing.decide(word, max_steps=max_steps) if found is None else found
    return found.answer, found.steps


def _told(decision: tuple[str | None, int | None]) -> str:
    return f"{decision[0] or 'no answer'}{'' if decision[1] is None else f' after {decision[1]:,} steps'}"


def verify_saved(net: Decider, machine: Any = None, **options: Any) -> Report:
    """Compare a network with the machine saved with it (None, or the network itself), or with another one."""
    if machine is None or machine is net:
        machine = machine_of(net)
    if isinstance(machine, TuringMachine):
        return verify_turing(machine, net, **options)
    return verify_decisions(net, machine, **options)


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
        for _ in range(3):  # halted: nothing may move
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
    """Return what is wrong with the values of a configuration, or None."""
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
