"""Weighted automata and linear RNNs: their weights compared in exact rationals, and how far rounding goes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch

from kleene.checks.bisimulation import Report, chosen_words
from kleene.checks.languages import WordCertificate
from kleene.common.alphabet import Word, show_word
from kleene.decompilers.linear_to_dfa import weighted_of
from kleene.errors import InputError, NotSupported, a_type
from kleene.machines.automata.weighted import WeightedAutomaton, from_json
from kleene.networks.formats import PRECISION
from kleene.networks.rnn.linear import DTYPES, LinearRNN

FOR_EVER = 1 << 14  # symbols; bounds are not followed further
CLOSE = 1e-6  # the relative difference of weights that chosen words may show: the roundings of two orders of summation


def saved_weights(net: LinearRNN) -> WeightedAutomaton:
    """The weighted automaton that a network was compiled from, as saved with it."""
    machine = net.about.get("machine")
    if not isinstance(machine, dict) or machine.get("kind") != "weighted-automaton":
        raise InputError("the network was not compiled from a weighted automaton; name what to compare it with")
    return from_json(machine, "the network's 'machine'")


def certify_weights(net: LinearRNN, machine: Any, dtype: Any, tolerance: float) -> WordCertificate:
    """Equal weights in exact rationals (Schützenberger), and the length up to which rounding stays small."""
    name = net.dtype if dtype is None else str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise NotSupported(f"certify: dtype={dtype!r}; a linear RNN runs in {', '.join(DTYPES)}")
    wanted = saved_weights(net) if machine is None else machine
    kept = LinearRNN(net.alphabet, net.shapes, net.read_units, name)
    kept.load_state_dict(net.state_dict())  # rounds to the format
    found = weighted_of(kept)
    word = wanted.distinguish(found)
    if word is not None:
        given = f"{wanted.weight(word)}, and the network's numbers give {found.weight(word)}"
        reason = f"{show_word(word)} has the weight {given}"
        return WordCertificate(False, name, (reason,))
    length, said = weights_length(found, name, tolerance)
    if length < 0:
        return WordCertificate(False, name, (f"even the empty word's weight may be off by more than {tolerance}",))
    reasons = ("every word has the weight that the machine gives it, in exact arithmetic (Schützenberger)", said)
    return WordCertificate(True, name, reasons, max_length=None if length > FOR_EVER else length)


def weights_length(automaton: WeightedAutomaton, dtype: str, tolerance: float) -> tuple[int, str]:
    """The longest words whose weights a format computes to a tolerance, and why.

    Sums of absolute values bound a weight and, times the number of roundings, its error, in whatever order a scan
    multiplies. The largest matrix entries of all symbols bound every word of a length. Whole numbers are exact as long
    as the bound of every part of the word fits the format. Where numbers are not whole, the smallest ones may become
    0: that error grows with what is to the left and to the right of it.
    """
    kind = torch.finfo(DTYPES[dtype])
    unit, smallest, most = 2.0 ** -PRECISION[DTYPES[dtype]], kind.smallest_normal, kind.max
    parts = (automaton.initial, automaton.matrices, automaton.final)
    exact = whole = all(bool((part == np.round(part)).all()) for part in parts)
    largest = np.abs(automaton.matrices).max(axis=0)
    vector, final, size = np.abs(automaton.initial), np.abs(automaton.final), len(automaton)
    length, step, power = -1, 0, np.eye(size)
    widest = max(1.0, float(final.max(initial=0)), float(vector.max(initial=0)))  # of all parts of words so far
    while step <= FOR_EVER:
        with np.errstate(over="ignore", invalid="ignore"):
            reach = float(vector @ final) * (1 + 1e-9)
            here = max(reach, float(vector.max(initial=0)), float(power.max(initial=0))) * (1 + 1e-9)
            after, powers = vector @ largest, power @ largest
        if not math.isfinite(here):
            break
        widest = max(widest, here)
        roundings = (step + 1) * (size + 2) * unit
        lost = 0.0 if whole else 2 * (step + 2) * size**3 * smallest * widest * widest
        exact = exact and widest * size <= 1 / unit
        if not exact and (roundings > 0.1 or 2 * widest * size >= most or 1.2 * roundings * reach + lost > tolerance):
            break
        length = step
        if np.array_equal(after, vector) and np.array_equal(power, powers) and exact:
            return FOR_EVER + 1, f"whole numbers up to {reach:,.0f}, which {dtype} holds exactly"
        vector, power, step = after, powers, step + 1
    said = f"rounding in {dtype} changes a weight by {tolerance:g} at most up to {length:,} symbols"
    return length, f"whole numbers; {said}" if whole else said


def _automaton(thing: Any) -> WeightedAutomaton:
    if isinstance(thing, WeightedAutomaton):
        return thing
    if isinstance(thing, LinearRNN):
        return weighted_of(thing)
    raise NotSupported(f"verify: {a_type(thing)} has no weights; it takes weighted automata and linear RNNs")


def verify_weights(
    machine: WeightedAutomaton | LinearRNN,
    network: WeightedAutomaton | LinearRNN | None = None,
    *,
    inputs: Iterable[Word] | None = None,
    lengths: Sequence[int] | None = None,
    random: int | None = None,
    length: int = 50,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """Compare the weights that two weighted automata or linear RNNs give to words.

    By default for all words at once, in the exact rationals of the tensors; on chosen words what the two compute, which
    may differ by rounding. Without `network`, compare a linear RNN with the automaton saved with it.
    """
    if network is None:
        if not isinstance(machine, LinearRNN):
            raise InputError("verify: name the linear RNN to compare the weighted automaton with")
        network = saved_weights(machine)
    first, second = _automaton(machine), _automaton(network)
    if inputs is None and lengths is None and random is None:
        word = first.distinguish(second)
        how = "words of every length, in exact rationals"
        example = None if word is None else f"{show_word(word)}: {first.weight(word):g} and {second.weight(word):g}"
        return Report(len(first) + len(second), int(word is not None), how, example)
    words, how = chosen_words(first.alphabet, inputs, lengths, random, length, seed)
    if progress is not None:
        progress(len(words) // 2)
    ours, theirs = machine.weights(words), network.weights(words)
    close = np.isclose(ours, theirs, rtol=CLOSE, atol=CLOSE, equal_nan=False)
    wrong = np.flatnonzero(~close)
    at = min(wrong.tolist(), key=lambda i: len(words[i]), default=None)
    example = None if at is None else f"{show_word(words[at])}: {ours[at]:g} and {theirs[at]:g}"
    return Report(len(words), len(wrong), how, example)
