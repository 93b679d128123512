"""A Mealy machine from any system that answers words with outputs, by queries (L* for Mealy machines)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from kleene.common.alphabet import check_alphabet, words_of
from kleene.errors import InputError, NotSupported
from kleene.machines.automata.transducer import Transducer

Outputs = tuple[str, ...]


@dataclass(frozen=True)
class ExtractedMealy:
    """A Mealy machine, the number of words it was compared on, and the number of queries."""

    machine: Transducer
    compared: int
    queries: int


def extract_mealy(
    run: Callable[[str], Iterable[str]],
    alphabet: Iterable[str],
    *,
    max_states: int = 200,
    length: int = 16,
    random: int = 2000,
    seed: int = 0,
) -> ExtractedMealy:
    """Find the Mealy machine of a system that writes one symbol for each symbol that it reads.

    - `run`: from a word to what is written, as long as the word.
    - `alphabet`: the input symbols, single characters.
    - `max_states`: more are refused.
    - `length`, `random`, `seed`: each hypothesis is compared on all short words and on `random` words of up to
      `length` symbols.

    >>> found = extract_mealy(lambda w: ["01"[w[: i + 1].count("1") % 2] for i in range(len(w))], "01")
    >>> len(found.machine), found.machine("0110")
    (2, '0100')
    """
    symbols = check_alphabet(alphabet)
    if any(len(s) != 1 for s in symbols):
        raise InputError("extract_mealy: symbols must be single characters")
    for name, value, least in (("max_states", max_states, 1), ("length", length, 0), ("random", random, 0)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InputError(f"extract_mealy: {name}={value!r}; it must be a whole number, {least} or more")
    return _Search(run, symbols, max_states).run(length, random, np.random.default_rng(seed))


class _Search:
    def __init__(self, run: Callable[[str], Iterable[str]], alphabet: tuple[str, ...], most: int) -> None:
        self.system, self.alphabet, self.most = run, alphabet, most
        self.known: dict[str, Outputs] = {}
        self.access = [""]
        self.suffixes = list(alphabet)

    def ask(self, word: str) -> Outputs:
        if word not in self.known:
            found = tuple(self.system(word))
            if len(found) != len(word) or not all(isinstance(s, str) for s in found):
                raise InputError(f"extract_mealy: {found!r:.60} for {word!r:.60}; give one symbol per symbol")
            self.known[word] = found
        return self.known[word]

    def row(self, word: str) -> tuple[Outputs, ...]:
        return tuple(self.ask(word + suffix)[len(word) :] for suffix in self.suffixes)

    def hypothesis(self) -> Transducer:
        while True:
            state = {self.row(word): i for i, word in enumerate(self.access)}
            new = next((w + s for w in self.access for s in self.alphabet if self.row(w + s) not in state), None)
            if new is None:
                break
            if len(self.access) >= self.most:
                raise NotSupported(f"extract_mealy: more than {self.most} states; raise max_states=")
            self.access.append(new)
        table = [[state[self.row(w + s)] for s in self.alphabet] for w in self.access]
        outputs = [[self.ask(w + s)[-1:] for s in self.alphabet] for w in self.access]
        return Transducer(table, outputs, self.alphabet)

    def run(self, length: int, random: int, rng: np.random.Generator) -> ExtractedMealy:
        while True:
            machine = self.hypothesis()
            words = [
                str(w)
                for n in range(1, length + 1)
                if len(self.alphabet) ** n <= 1024
                for w in words_of(self.alphabet, [n])
            ]
            for _ in range(random):
                codes = rng.integers(len(self.alphabet), size=int(rng.integers(length + 1)))
                words.append("".join(self.alphabet[c] for c in codes))
            wrong = [w for w in words if tuple(machine(w)) != self.ask(w)]
            if not wrong:
                return ExtractedMealy(machine, len(words), len(self.known))
            self.refine(machine, min(wrong, key=len))

    def refine(self, machine: Transducer, word: str) -> None:
        """Add the shortest suffix of a counterexample that tells a state's access word from the word's own prefix."""
        states = [machine.start]
        for symbol in word:
            states.append(int(machine.table[states[-1], machine.index[symbol]]))
        for i in range(len(word) - 1, -1, -1):
            suffix = word[i + 1 :]
            after = self.access[states[i]] + word[i]
            if (
                suffix
                and self.ask(after + suffix)[len(after) :]
                != self.ask(self.access[states[i + 1]] + suffix)[-len(suffix) :]
            ):
                self.suffixes.append(suffix)
                return
        raise InputError(f"extract_mealy: the system answers {word!r:.60} in two ways; its answers must not change")
