"""Automata from labelled words: RPNI and EDSM, which merge states of the words' prefix tree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from kleene.common.alphabet import check_alphabet, show_word
from kleene.errors import InputError, NotSupported
from kleene.machines.automata.dfa import DFA

MAX_NODES = 200_000
UNKNOWN = -1


def from_samples(
    accepted: Iterable[str],
    rejected: Iterable[str],
    alphabet: Iterable[str] | None = None,
    *,
    method: Literal["edsm", "rpni"] = "edsm",
) -> DFA:
    """Find a small automaton that accepts and rejects the given words.

    - `accepted`, `rejected`: the labelled words.
    - `alphabet`: by default the symbols of the words.
    - `method`: "rpni" merges the first states that can be merged (in order of their shortest words); with enough
      words it finds the language itself. "edsm" merges the two states for which most labels agree.

    >>> odd = from_samples(["1", "01", "10", "111", "100"], ["", "0", "11", "00", "101", "110"], method="rpni")
    >>> len(odd), odd.accepts("0111"), odd.accepts("0110")
    (2, True, False)
    """
    good, bad = _words(accepted, "accepted"), _words(rejected, "rejected")
    if both := set(good) & set(bad):
        raise InputError(f"from_samples: {show_word(min(both))} is both accepted and rejected; each word has one label")
    found = alphabet if alphabet is not None else sorted({s for w in (*good, *bad) for s in w})
    symbols = check_alphabet(found)
    if method not in ("rpni", "edsm"):
        raise InputError(f"from_samples: method={method!r}; it must be 'rpni' or 'edsm'")
    return _Merger(good, bad, symbols).run(best=method == "edsm")


def _words(given: Iterable[str], what: str) -> list[str]:
    if isinstance(given, str):
        raise InputError(f"from_samples: {what}={given!r:.60} is one word; give a list of words")
    words = list(given)
    for word in words:
        if not isinstance(word, str):
            raise InputError(f"from_samples: {what}: {word!r:.60} must be a string")
    return words


class _Merger:
    """The prefix tree of the words and its quotient so far: red states are settled, blue ones are next to them."""

    def __init__(self, good: Sequence[str], bad: Sequence[str], alphabet: tuple[str, ...]) -> None:
        self.alphabet = alphabet
        code = {s: i for i, s in enumerate(alphabet)}
        self.children: list[list[int]] = [[UNKNOWN] * len(alphabet)]
        self.label = [UNKNOWN]
        for words, label in ((good, 1), (bad, 0)):
            for word in words:
                self._add(word, label, code)
        order = self._breadth_first()
        number = {old: new for new, old in enumerate(order)}
        self.children = [[number.get(c, UNKNOWN) for c in self.children[old]] for old in order]
        self.label = [self.label[old] for old in order]
        self.parent = list(range(len(order)))

    def _add(self, word: str, label: int, code: dict[str, int]) -> None:
        at = 0
        for place, symbol in enumerate(word):
            if symbol not in code:
                raise InputError(f"word {show_word(word)!r}: {symbol!r} at position {place} is not in the alphabet")
            after = self.children[at][code[symbol]]
            if after == UNKNOWN:
                if len(self.label) >= MAX_NODES:
                    raise NotSupported(f"from_samples: the words have more than {MAX_NODES:,} prefixes")
                after = len(self.label)
                self.children.append([UNKNOWN] * len(self.alphabet))
                self.label.append(UNKNOWN)
                self.children[at][code[symbol]] = after
            at = after
        self.label[at] = label

    def _breadth_first(self) -> list[int]:
        order = [0]
        for node in order:
            order += [c for c in self.children[node] if c != UNKNOWN]
        return order

    def find(self, node: int) -> int:
        while self.parent[node] != node:
            node = self.parent[node]
        return node

    def merge(self, red: int, blue: int) -> tuple[int, list[tuple[str, int, int, int]]] | None:
        """Merge two states and all states that then coincide. Return the number of labels that agreed, and the changes.

        Return None, without a change, if an accepting state would merge with a rejecting one.
        """
        changed: list[tuple[str, int, int, int]] = []
        score, stack = 0, [(red, blue)]
        while stack:
            p, q = (self.find(node) for node in stack.pop())
            if p == q:
                continue
            p, q = min(p, q), max(p, q)
            if self.label[p] != UNKNOWN and self.label[q] != UNKNOWN:
                if self.label[p] != self.label[q]:
                    self.undo(changed)
                    return None
                score += 1
            changed.append(("parent", q, 0, self.parent[q]))
            self.parent[q] = p
            if self.label[p] == UNKNOWN and self.label[q] != UNKNOWN:
                changed.append(("label", p, 0, UNKNOWN))
                self.label[p] = self.label[q]
            for a, child in enumerate(self.children[q]):
                if child == UNKNOWN:
                    continue
                if self.children[p][a] == UNKNOWN:
                    changed.append(("child", p, a, UNKNOWN))
                    self.children[p][a] = child
                else:
                    stack.append((self.children[p][a], child))
        return score, changed

    def undo(self, changed: list[tuple[str, int, int, int]]) -> None:
        for what, node, a, before in reversed(changed):
            if what == "parent":
                self.parent[node] = before
            elif what == "label":
                self.label[node] = before
            else:
                self.children[node][a] = before

    def run(self, best: bool) -> DFA:
        red = [0]
        while True:
            red = sorted({self.find(q) for q in red})
            reds = set(red)
            blue = sorted({self.find(c) for q in red for c in self.children[q] if c != UNKNOWN} - reds)
            if not blue:
                break
            promoted = self._merge_best(red, blue) if best else self._merge_first(red, blue[0])
            if promoted is not None:
                red.append(promoted)
        return self._automaton(red)

    def _merge_first(self, red: list[int], blue: int) -> int | None:
        """RPNI: merge with the first red state that allows it; if none does, the blue state becomes red."""
        return blue if all(self.merge(q, blue) is None for q in red) else None

    def _merge_best(self, red: list[int], blue: list[int]) -> int | None:
        """EDSM: a blue state that fits no red state becomes red; otherwise do the merge with the most evidence."""
        chosen: tuple[int, int, int] | None = None
        for b in blue:
            possible = False
            for q in red:
                found = self.merge(q, b)
                if found is not None:
                    possible = True
                    self.undo(found[1])
                    if chosen is None or found[0] > chosen[0]:
                        chosen = (found[0], q, b)
            if not possible:
                return b
        assert chosen is not None
        self.merge(chosen[1], chosen[2])
        return None

    def _automaton(self, red: list[int]) -> DFA:
        """The merged states as an automaton; transitions that no word showed lead to a rejecting sink."""
        number = {q: i for i, q in enumerate(red)}
        sink = len(red)
        table = np.full((sink + 1, len(self.alphabet)), sink)
        for q in red:
            for a, child in enumerate(self.children[q]):
                if child != UNKNOWN:
                    table[number[q], a] = number[self.find(child)]
        accepting = [*(self.label[q] == 1 for q in red), False]
        return DFA(table, accepting, self.alphabet, number[self.find(0)]).minimise()
