"""Certificates for automata and RNNs: a bisimulation, which anyone can check with fractions and the files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from kleene.common.alphabet import Word, show_word, words_of
from kleene.errors import DidNotHalt, FileError, InputError, NotSupported, a_type, counted
from kleene.files import read_json, write_json
from kleene.machines.automata.dfa import DFA, as_dfa
from kleene.networks.rnn.exact import ExactRNN
from kleene.networks.rnn.matrix import Vector, number_from_json, number_to_json

MAX_WORDS = 5_000_000  # the most held at once; each takes about a hundred bytes


@dataclass(frozen=True)
class Report:
    """How often a machine and a network agreed; `example` is a shortest disagreement."""

    checked: int
    mismatches: int
    how: str
    example: str | None = None

    @property
    def holds(self) -> bool:
        """Whether something was checked, and the two agreed on all of it."""
        return self.mismatches == 0 and self.checked > 0

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        said = f"agree on {self.how}" if self.holds else f"differ in {self.mismatches:,} of {self.how}"
        return said + ("" if self.example is None else f"; for instance {self.example}")

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "holds": self.holds,
            "checked": self.checked,
            "mismatches": self.mismatches,
            "how": self.how,
            "example": self.example,
        }


@dataclass(frozen=True)
class Bisimulation:
    """Pairs (state, hidden vector) that hold the starts, are closed under every symbol and agree on the
    answer."""

    holds: bool
    reasons: tuple[str, ...]
    alphabet: tuple[str, ...] = ()
    relation: tuple[tuple[str, Vector], ...] = field(default=(), repr=False)

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        if not self.holds:
            return "no certificate: " + "; ".join(self.reasons)
        return f"certified for words of every length: {'; '.join(self.reasons)}"

    def to_json(self) -> dict[str, Any]:
        """Plain data, the relation included."""
        return {
            "holds": self.holds,
            "reasons": list(self.reasons),
            "relation": [[q, [[i, number_to_json(v)] for i, v in sorted(g.items())]] for q, g in self.relation],
        }

    def save(self, folder: str | Path) -> None:
        """Write bisimulation.json into the folder of a saved network; `check_files` reads it."""
        write_json(Path(folder) / "bisimulation.json", self.to_json())


def machine_of(rnn: ExactRNN) -> DFA:
    """The automaton that a network was compiled from, as saved with it."""
    if "machine" not in rnn.about:
        raise InputError("certify: the network was not compiled from an automaton; pass machine=")
    return DFA.from_json(rnn.about["machine"], "the network's 'machine'")


def certify_rnn(rnn: ExactRNN, *, machine: DFA | None = None, limit: int = 1_000_000) -> Bisimulation:
    """A bisimulation between a network and the automaton that it was compiled from (or `machine`)."""
    dfa = machine_of(rnn) if machine is None else machine
    if rnn.readout is not None and (rnn.readout.A @ rnn.readout.R).entries != rnn.V.entries:
        return Bisimulation(False, ("V is not A·R, so exact steps and the torch module differ",), dfa.alphabet)
    relation, problem = _explore(dfa, rnn, limit)
    if problem is not None:
        return Bisimulation(False, (problem[1],), dfa.alphabet)
    names = [dfa.name(q) for q in range(len(dfa))]
    label = names if len(set(names)) == len(dfa) else [f"q{q}" for q in range(len(dfa))]
    reasons = (
        f"{len(relation):,} pairs of a state and a hidden vector are closed under "
        f"{counted(len(dfa.alphabet), 'symbol')}",
        "the output is 1 at accepting states and 0 at the others"
        if rnn.criterion == "one"
        else "the output is positive exactly at accepting states",
        f"{'integer' if rnn.integer else 'rational'} weights, exact arithmetic",
    )
    return Bisimulation(True, reasons, dfa.alphabet, tuple((label[q], g) for q, g in relation))


def _explore(dfa: DFA, rnn: ExactRNN, limit: int) -> tuple[list[tuple[int, Vector]], tuple[str, str] | None]:
    """All pairs that words reach, and the first (so a shortest) word on which the answers differ, with a
    reason."""
    if set(dfa.alphabet) != set(rnn.alphabet):
        raise InputError(f"certify: the machine reads {dfa.alphabet}, the network {rnn.alphabet}; they must be equal")
    columns = [dfa.index[symbol] for symbol in rnn.alphabet]
    table = dfa.table[:, columns].tolist()
    pairs = [(dfa.start, rnn.s)]
    seen = {(dfa.start, frozenset(rnn.s.items()))}
    came: list[tuple[int, int]] = [(-1, -1)]
    for at, (q, g) in enumerate(pairs):
        y = rnn.output(g)[0]
        right = (y == int(dfa.accepting[q])) if rnn.criterion == "one" else (y > 0) == bool(dfa.accepting[q])
        if not right:
            word = []
            while came[at][0] >= 0:
                word.append(rnn.alphabet[came[at][1]])
                at = came[at][0]
            text = show_word(word[::-1])
            said = "accepts" if dfa.accepting[q] else "rejects"
            return pairs, (text, f"on {text} the machine {said}, and the network's output is {y}")
        for symbol in range(len(rnn.alphabet)):
            after = (table[q][symbol], rnn.step(g, symbol))
            key = (after[0], frozenset(after[1].items()))
            if key not in seen:
                if len(pairs) >= limit:
                    raise DidNotHalt(f"certify: more than {limit:,} pairs of a state and a hidden vector; raise limit=")
                seen.add(key)
                pairs.append(after)
                came.append((at, symbol))
    return pairs, None


def verify_dfa(
    dfa: DFA,
    network: Any,
    *,
    inputs: Iterable[Word] | None = None,
    lengths: Sequence[int] | None = None,
    random: int | None = None,
    length: int = 50,
    seed: int = 0,
    limit: int = 1_000_000,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """Compare an automaton and a network: on all words at once (exact networks, the default), on `inputs`, on
    all words of some `lengths`, or on `random` words (of these lengths, or up to `length` symbols)."""
    if not hasattr(network, "accepts_batch") or not hasattr(dfa, "accepts_batch"):
        raise NotSupported(f"verify: cannot compare {a_type(dfa)} with {a_type(network)}")
    dfa = as_dfa(dfa)
    if inputs is None and lengths is None and random is None:
        if not isinstance(network, ExactRNN):
            from kleene.checks.languages import verify_networks

            return verify_networks(network, dfa)
        pairs, problem = _explore(dfa, network, limit)
        if problem is None:
            how = f"words of every length ({len(pairs):,} pairs of state and hidden vector)"
            return Report(len(pairs), 0, how)
        return Report(len(pairs), 1, f"{len(pairs):,} pairs of state and hidden vector", problem[1])
    words, how = chosen_words(dfa.alphabet, inputs, lengths, random, length, seed)
    if progress is not None:
        progress(len(words) // 2)
    wrong = np.flatnonzero(dfa.accepts_batch(words) != network.accepts_batch(words))
    example = min((words[i] for i in wrong), key=len, default=None)
    return Report(len(words), len(wrong), how, None if example is None else show_word(example))


def chosen_words(
    alphabet: Sequence[str],
    inputs: Iterable[Word] | None,
    lengths: Sequence[int] | None,
    random: int | None,
    length: int,
    seed: int,
) -> tuple[list[Word], str]:
    """The words that options ask for, and a description of them."""
    if inputs is not None:
        words: list[Word] = list(inputs)
        return words, f"{len(words):,} given words"
    wanted = sorted(set(lengths)) if lengths is not None else list(range(length + 1))
    if (wanted and wanted[0] < 0) or (random is not None and random < 0):
        raise InputError(f"verify: lengths={wanted}, random={random}; neither can be negative")
    if random is None:
        if sum(len(alphabet) ** min(n, 64) for n in wanted) > MAX_WORDS:
            said = f"all words of up to {max(wanted)} symbols are more than {MAX_WORDS:,}"
            raise InputError(f"verify: {said}; use random=, or shorter ones")
        words = list(words_of(alphabet, wanted))
        return words, f"all {len(words):,} words of lengths {min(wanted, default=0)}…{max(wanted, default=0)}"
    rng = np.random.default_rng(seed)
    letters = np.array(alphabet, dtype=object)
    sizes = rng.choice(wanted if len(letters) and wanted else [0], size=random)
    words = [letters[rng.integers(len(letters) or 1, size=int(n))].tolist() for n in sizes]
    return words, f"{len(words):,} random words"


def verify_saved(rnn: ExactRNN, machine: Any = None, **options: Any) -> Report:
    """Compare a network with the automaton saved with it (None, or the network itself), or with another automaton or
    network."""
    if machine is None or machine is rnn or not hasattr(machine, "sizes"):  # networks have sizes
        return verify_dfa(machine_of(rnn) if machine is None or machine is rnn else machine, rnn, **options)
    from kleene.checks.languages import verify_networks

    return verify_networks(rnn, machine, **options)


def check_files(folder: str | Path) -> bool:
    """Check a saved network, its machine and its bisimulation.json: only the files' numbers and `Fraction` are
    used."""
    from kleene.networks.rnn.files import load

    description = read_json(Path(folder) / "kleene.json")
    if not isinstance(description, dict) or description.get("kind") != "rnn":
        raise FileError(f"{folder}/kleene.json: not a network with a certificate; 'kind' must be 'rnn'")
    rnn: ExactRNN = load(Path(folder))
    where = f"{folder}/bisimulation.json"
    try:
        dfa = machine_of(rnn)
    except InputError as error:
        raise FileError(f"{folder}/kleene.json: {error}") from None
    return _check(dfa, rnn, _relation_from_json(read_json(where), dfa, rnn.units, where))


def _relation_from_json(content: Any, dfa: DFA, units: int, where: str) -> set[tuple[int, frozenset[Any]]]:
    """The pairs (state, entries of the hidden vector) that `Bisimulation.to_json` wrote."""
    relation = content.get("relation") if isinstance(content, dict) else None
    if not isinstance(relation, list):
        raise FileError(f"{where}, 'relation': must be a list of [state, hidden vector]")
    number = {dfa.name(q): q for q in range(len(dfa))}
    pairs = set()
    for pair in relation:
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[1], list):
            raise FileError(f"{where}, 'relation': {pair!r:.60} must be [state, hidden vector]")
        state, entries = pair
        if not isinstance(state, str) or state not in number:
            raise FileError(f"{where}, 'relation': {state!r:.40} is not a state of the machine")
        g: dict[int, Fraction] = {}
        for entry in entries:
            good = isinstance(entry, list) and len(entry) == 2 and type(entry[0]) is int
            if not good or not 0 <= entry[0] < units or entry[0] in g:
                raise FileError(
                    f"{where}, 'relation': {entry!r:.60} must be [unit, number], each of {units} units at most once"
                )
            g[entry[0]] = Fraction(number_from_json(entry[1], f"{where}, 'relation'"))
        pairs.add((number[state], frozenset((i, v) for i, v in g.items() if v)))
    return pairs


Hidden = frozenset[tuple[int, Fraction]]  # the non-zero units with their values


class _Numbers:
    """A network's weights as fractions. This uses the numbers alone, not the network's code."""

    def __init__(self, rnn: ExactRNN) -> None:
        self.rnn = rnn
        self.columns: dict[int, list[tuple[int, Fraction]]] = {}
        for (i, j), weight in rnn.V.entries.items():
            self.columns.setdefault(j, []).append((i, Fraction(weight)))
        self.inputs: list[dict[int, Fraction]] = [{i: Fraction(v) for i, v in rnn.b.items()} for _ in rnn.alphabet]
        for (i, a), weight in rnn.W.entries.items():
            self.inputs[a][i] = self.inputs[a].get(i, Fraction(0)) + weight
        self.read = {j: Fraction(weight) for (row, j), weight in rnn.out_W.entries.items() if row == 0}

    def accepts(self, hidden: Hidden) -> bool | None:
        """The answer that the output gives for a hidden vector; None if it is neither yes nor no."""
        y = sum((self.read.get(j, 0) * v for j, v in hidden), Fraction(self.rnn.out_b.get(0, 0)))
        if self.rnn.criterion == "one":
            return bool(y) if y in (0, 1) else None
        return y > 0

    def after(self, hidden: Hidden, symbol: int) -> Hidden:
        """The hidden vector after a symbol."""
        sums = dict(self.inputs[symbol])
        for j, h in hidden:
            for i, weight in self.columns.get(j, ()):
                sums[i] = sums.get(i, Fraction(0)) + weight * h
        return frozenset(
            (i, min(v, Fraction(1)) if self.rnn.activation == "slu" else v) for i, v in sums.items() if v > 0
        )


def _check(dfa: DFA, rnn: ExactRNN, pairs: set[tuple[int, Hidden]]) -> bool:
    """Whether the pairs are a bisimulation."""
    if set(dfa.alphabet) != set(rnn.alphabet):
        return False
    if (dfa.start, frozenset((i, Fraction(v)) for i, v in rnn.s.items())) not in pairs:
        return False
    numbers = _Numbers(rnn)
    for q, hidden in pairs:
        if numbers.accepts(hidden) is not bool(dfa.accepting[q]):
            return False
        for a, symbol in enumerate(rnn.alphabet):
            if (int(dfa.table[q, dfa.index[symbol]]), numbers.after(hidden, a)) not in pairs:
                return False
    return True
