"""Networks that hold an automaton, whatever their architecture: comparing two of them, and their certificates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np

from kleene.checks.bisimulation import Report, chosen_words
from kleene.checks.stock import decompile_stock
from kleene.checks.turing_invariants import verify_decisions
from kleene.common.alphabet import Word, show_word, words_of
from kleene.decompilers import acceptor_to_dfa, linear_to_dfa
from kleene.decompilers.gated_to_dfa import Saturated, reached
from kleene.decompilers.linear_to_dfa import Whole, holds_weights
from kleene.decompilers.rnn_to_dfa import reachable
from kleene.decompilers.transformer_to_updates import decompile_transformer
from kleene.errors import DidNotHalt, InputError, NotExact, NotSupported, a_type, counted
from kleene.machines.automata.dfa import DFA, as_dfa
from kleene.machines.automata.weighted import WeightedAutomaton
from kleene.machines.turing import Configuration, TuringMachine
from kleene.networks.rnn.exact import ExactRNN
from kleene.networks.rnn.gated import GatedRNN
from kleene.networks.rnn.linear import LinearRNN
from kleene.networks.stock.acceptor import StockAcceptor
from kleene.networks.stock.model import StockModel
from kleene.networks.transformer.model import Transformer

LIMIT = 1_000_000


@dataclass(frozen=True)
class WordCertificate:
    """Whether a network is proved to accept the words of an automaton, in which format, up to which length, and why."""

    holds: bool
    dtype: str
    reasons: tuple[str, ...]
    max_length: int | None = None  # None: words of every length
    margin: float | None = None  # the distance of the nearest gate argument from the end of saturation

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        if not self.holds:
            return f"no certificate in {self.dtype}: " + "; ".join(self.reasons)
        length = "words of every length" if self.max_length is None else f"words of up to {self.max_length:,} symbols"
        return f"certified in {self.dtype} for {length}: " + "; ".join(self.reasons)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "holds": self.holds,
            "dtype": self.dtype,
            "max_length": self.max_length,
            "margin": self.margin,
            "reasons": list(self.reasons),
        }


def saved_machine(network: Any) -> DFA:
    """The automaton that a network was compiled from, as saved with it."""
    described = isinstance(network, (Transformer, StockModel))
    about = network.description.get("words", {}) if described else network.about
    if "machine" not in about:
        raise InputError("certify: the network was not compiled from an automaton; pass machine=")
    return DFA.from_json(about["machine"], "the network's 'machine'")


def compared(found: DFA, machine: DFA) -> str | None:
    """A sentence on a shortest word on which a network's automaton and a machine differ, or None."""
    if set(found.alphabet) != set(machine.alphabet):
        raise InputError(
            f"certify: the machine reads {machine.alphabet}, the network {found.alphabet}; they must be equal"
        )
    word = machine.distinguish(found)
    if word is None:
        return None
    said = ("accepts", "rejects") if machine.accepts(word) else ("rejects", "accepts")
    return f"on {show_word(word)} the machine {said[0]}, and the network {said[1]}"


def certify_gated(
    net: GatedRNN, *, machine: DFA | None = None, dtype: Any = None, limit: int = LIMIT
) -> WordCertificate:
    """Prove from the tensors that every gate saturates on every word, and that the network accepts the machine's words.

    - `machine`: the automaton, by default the one saved with the network.
    - `dtype`: certify the network as if it were converted to this format.
    - `limit`: the most hidden vectors to visit.
    """
    wanted = saved_machine(net) if machine is None else as_dfa(machine)
    saturated = None
    try:
        saturated = Saturated(net, dtype)
        found = reached(saturated, net.alphabet, limit)
    except (NotExact, DidNotHalt) as error:
        name = net.dtype if saturated is None else saturated.name
        return WordCertificate(False, name, (str(error),))
    problem = compared(found, wanted) or (
        _compared_on_tape(found, net.about["turing"]) if "turing" in net.about else None
    )
    if problem is not None:
        return WordCertificate(False, saturated.name, (problem,))
    reasons: tuple[str, ...] = (
        f"{counted(len(found), 'hidden vector')} are closed under {counted(len(net.alphabet), 'symbol')}",
        f"every gate is saturated in each of them, {saturated.margin:.1f} beyond what {saturated.name} needs, with any "
        "rounding of the sums",
        f"their automaton accepts the words of the machine's {counted(len(wanted), 'state')}",
    )
    if "turing" in net.about:
        about = net.about["turing"]
        reasons += (f"these are the words of up to {about['length']} symbols that the Turing machine accepts",)
    return WordCertificate(True, saturated.name, reasons, margin=saturated.margin)


def _compared_on_tape(found: DFA, about: dict[str, Any]) -> str | None:
    """A sentence on a word on which a Turing machine, run configuration by configuration, and an automaton differ."""
    machine, length = TuringMachine.from_json(about["machine"], "the network's 'turing'"), about["length"]
    for word in words_of(found.alphabet, range(length + 1)):
        seen, answer = set[Configuration](), False
        for now in machine.configurations(word):
            answer = now.state in machine.accept
            if now in seen:
                break
            seen.add(now)
            if len(seen) > LIMIT:
                return f"on {show_word(word)} the Turing machine takes more than {LIMIT:,} steps"
        if answer != found.accepts(word):
            return f"the Turing machine and the network differ on {show_word(word)}"
    if found.is_empty():
        return None
    longest = found.language.longest
    return None if longest is not None and longest <= length else "the network accepts words with more symbols"


def certify_linear(
    net: LinearRNN,
    *,
    machine: DFA | WeightedAutomaton | None = None,
    dtype: Any = None,
    limit: int = LIMIT,
    tolerance: float = 1e-6,
) -> WordCertificate:
    """Prove from the tensors that a linear RNN accepts the machine's words, or computes its weights.

    - `machine`: the automaton, by default the one saved with the network.
    - `dtype`: certify the network as if it were converted to this format.
    - `limit`: the most hidden vectors to visit.
    - `tolerance`: for weights, the largest error; the certificate gives the longest words for which it is certain.
    """
    if isinstance(machine, WeightedAutomaton) or (machine is None and holds_weights(net)):
        from kleene.checks.weights import certify_weights

        return certify_weights(net, machine, dtype, tolerance)
    wanted = saved_machine(net) if machine is None else as_dfa(machine)
    name = net.dtype if dtype is None else str(dtype).removeprefix("torch.")
    try:
        whole = Whole(net, name, closed=True)
        found = linear_to_dfa.reached(whole, net.alphabet, limit)
    except (NotExact, DidNotHalt) as error:
        return WordCertificate(False, name, (str(error),))
    problem = compared(found, wanted)
    if problem is not None:
        return WordCertificate(False, name, (problem,))
    reasons = (
        f"{counted(len(found), 'hidden vector')} are closed under {counted(len(net.alphabet), 'symbol')}",
        f"all numbers are whole, and no sum is above {whole.largest:,}, which {name} holds exactly",
        "the kinds of the steps are closed under composition, so a parallel scan rounds nothing either",
        f"their automaton accepts the words of the machine's {counted(len(wanted), 'state')}",
    )
    return WordCertificate(True, name, reasons)


def certify_acceptor(net: StockAcceptor, *, machine: DFA | None = None, limit: int = 20_000) -> WordCertificate:
    """Show that a stock model, run token by token with its cache, accepts the machine's words, whatever their length.

    - `machine`: the automaton, by default the one saved with the network.
    - `limit`: the most caches to visit.
    """
    wanted = saved_machine(net) if machine is None else as_dfa(machine)
    try:
        found = acceptor_to_dfa.reached(net, limit)
    except (DidNotHalt, NotExact) as error:
        return WordCertificate(False, net.dtype, (str(error),))
    problem = compared(found, wanted)
    if problem is not None:
        return WordCertificate(False, net.dtype, (problem,))
    reasons = (
        f"{len(found):,} caches are closed under {counted(len(net.alphabet), 'symbol')}, number for number",
        f"they were computed by the stock model itself, token by token, in this machine's {net.dtype}"
        + (", all symbols in one batch" if net.batched else ""),
        f"their automaton accepts the words of the machine's {counted(len(wanted), 'state')}",
    )
    return WordCertificate(True, net.dtype, reasons)


def _longest(thing: Any) -> int | None:
    """The longest words that a network reads; None without a limit."""
    words = thing.description.get("words", {}) if isinstance(thing, (Transformer, StockModel)) else {}
    length: int | None = words.get("length")
    return length


# --- comparing any two ------------------------------------------------------------------------------------


@singledispatch
def automaton_of(thing: Any, limit: int) -> DFA:
    """The automaton of a machine, or of a network, read from its weights; raise DidNotHalt above `limit` states."""
    try:
        return as_dfa(thing)
    except InputError:
        raise NotSupported(
            f"verify: the words of {a_type(thing)} cannot be read from its weights; say which words to compare: "
            "inputs=, lengths= or random="
        ) from None


@automaton_of.register
def _(rnn: ExactRNN, limit: int) -> DFA:
    return reachable(rnn, limit)[0]


@automaton_of.register
def _(net: GatedRNN, limit: int) -> DFA:
    return reached(Saturated(net), net.alphabet, limit)


@automaton_of.register
def _(net: Transformer, limit: int) -> DFA:
    dfa: DFA = decompile_transformer(net, to="dfa")
    return dfa


@automaton_of.register
def _(net: LinearRNN, limit: int) -> DFA:
    return linear_to_dfa.reached(Whole(net), net.alphabet, limit)


@automaton_of.register
def _(net: StockModel, limit: int) -> DFA:
    dfa: DFA = decompile_stock(net, to="dfa")
    return dfa


@automaton_of.register
def _(net: StockAcceptor, limit: int) -> DFA:
    return acceptor_to_dfa.reached(net, limit)


def _decides(network: Any) -> bool:
    """Whether a transformer runs a Turing machine."""
    return isinstance(network, (Transformer, StockModel)) and bool(network.description.keys() & {"tape", "chain"})


def _saved_turing(network: Transformer | StockModel) -> TuringMachine:
    about = network.description.get("tape") or network.description["chain"]
    return TuringMachine.from_json(about["machine"], "the network's 'machine'")


def verify_networks(
    network: Any,
    other: Any = None,
    *,
    inputs: Iterable[Word] | None = None,
    lengths: Sequence[int] | None = None,
    random: int | None = None,
    length: int = 50,
    seed: int = 0,
    limit: int = LIMIT,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """Compare a network with the automaton saved with it (None), with another machine, or with another network: by
    default on all words at once, through the automata of their weights; or on chosen words."""
    chosen: dict[str, Any] = {"inputs": inputs, "lengths": lengths, "random": random, "length": length}
    if _decides(network):
        machine = _saved_turing(network) if other is None else other
        return verify_decisions(machine, network, **chosen, seed=seed, progress=progress)
    if isinstance(other, WeightedAutomaton) or any(
        isinstance(x, LinearRNN) and holds_weights(x) for x in (network, other)
    ):
        from kleene.checks.weights import verify_weights

        return verify_weights(network, other, **chosen, seed=seed, progress=progress)
    machine = saved_machine(network) if other is None else other
    if not hasattr(machine, "accepts_batch"):
        raise NotSupported(f"verify: cannot compare {a_type(network)} with {a_type(machine)}")
    if inputs is None and lengths is None and random is None:
        first, second = automaton_of(machine, limit), automaton_of(network, limit)
        problem = compared(second, first)
        states = len(first) * len(second)
        limits = [n for thing in (machine, network) if (n := _longest(thing)) is not None]
        which = f"words of up to {min(limits):,} symbols" if limits else "words of every length"
        how = f"{which}, through the automata of the weights"
        return Report(states, int(problem is not None), how, problem)
    words, how = chosen_words(tuple(network.alphabet), inputs, lengths, random, length, seed)
    if progress is not None:
        progress(len(words) // 2)
    wrong = np.flatnonzero(machine.accepts_batch(words) != network.accepts_batch(words))
    example = min((words[i] for i in wrong), key=len, default=None)
    return Report(len(words), len(wrong), how, None if example is None else show_word(example))
