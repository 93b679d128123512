"""Learning automata by membership queries: an observation table (L*) and a discrimination tree (Kearns, Vazirani)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from kleene.decompilers.queries import Memory
from kleene.machines.automata.dfa import DFA


class TooManyStates(Exception):
    """A learner needs more states than it may have."""


class Learner(Protocol):
    """Makes an automaton that fits the answers so far, and a better automaton from a word on which it is wrong."""

    def hypothesis(self) -> DFA:
        """The automaton of the answers so far."""

    def refine(self, dfa: DFA, word: str) -> None:
        """Use a word on which `dfa`, the last hypothesis, and the classifier differ."""


def split_point(ask: Memory, access: list[str], dfa: DFA, word: str) -> int:
    """The place where a counterexample splits a state (Rivest and Schapire), by binary search.

    With the prefix of i symbols replaced by its state's access word, the answer changes between i − 1 and i.
    """
    path = dfa.path(word)

    def answer(i: int) -> bool:
        return bool(ask([access[path[i]] + word[i:]])[0])

    low, high, first = 0, len(word), answer(0)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if answer(middle) == first else (low, middle)
    return high


class Table:
    """Angluin's L*: an access word per state, and the suffixes that tell them apart."""

    def __init__(self, ask: Memory, alphabet: tuple[str, ...], most: int) -> None:
        self.ask, self.alphabet, self.most = ask, alphabet, most
        self.access, self.suffixes = [""], [""]

    def _rows(self, words: list[str]) -> list[tuple[bool, ...]]:
        answers = self.ask([word + suffix for word in words for suffix in self.suffixes])
        return [tuple(row) for row in answers.reshape(len(words), -1).tolist()]

    def hypothesis(self) -> DFA:
        """Close the table, and read the automaton off."""
        while True:
            state = {row: i for i, row in enumerate(self._rows(self.access))}
            after = [word + symbol for word in self.access for symbol in self.alphabet]
            rows = self._rows(after)
            new = {row: word for word, row in reversed(list(zip(after, rows))) if row not in state}
            if not new:
                break
            if len(self.access) + len(new) > self.most:
                raise TooManyStates
            self.access += sorted(new.values(), key=lambda word: (len(word), word))
        table = np.array([state[row] for row in rows]).reshape(len(self.access), -1)
        return DFA(table, self.ask(self.access), self.alphabet)

    def refine(self, dfa: DFA, word: str) -> None:
        """Add the suffix that tells two words of one state apart."""
        self.suffixes.append(word[split_point(self.ask, self.access, dfa, word) :])


@dataclass(eq=False)
class Node:
    """A node of the discrimination tree: a suffix with two children, or a leaf that is a state."""

    state: int | None = None
    suffix: str = ""
    children: dict[bool, Node] = field(default_factory=dict)


class Tree:
    """Kearns and Vazirani's learner: a tree of suffixes, so that a word needs few queries."""

    def __init__(self, ask: Memory, alphabet: tuple[str, ...], most: int) -> None:
        self.ask, self.alphabet, self.most = ask, alphabet, most
        self.access = [""]
        self.leaves = [Node(state=0)]
        self.root = Node(children={bool(ask([""])[0]): self.leaves[0]})
        self.reached: dict[tuple[int, str], Node] = {}  # the node that each transition's word reached last

    def hypothesis(self) -> DFA:
        """Sift every transition's word down the tree; a word that reaches no leaf is a new state."""
        while True:
            wanted = [(q, s) for q in range(len(self.access)) for s in self.alphabet]
            places = self._sift([(self.access[q] + s, self.reached.get((q, s), self.root)) for q, s in wanted])
            self.reached.update(zip(wanted, places))
            if len(wanted) == len(self.access) * len(self.alphabet):
                break
        table = np.array([self.reached[q, s].state for q, s in wanted]).reshape(len(self.access), -1)
        return DFA(table, self.ask(self.access), self.alphabet)

    def _sift(self, words: list[tuple[str, Node]]) -> list[Node]:
        """The leaf of each word, from the node where it stands; all words move one level at a time."""
        at = [node for _, node in words]
        while True:
            moving = [i for i, node in enumerate(at) if node.state is None]
            if not moving:
                return at
            answers = self.ask([words[i][0] + at[i].suffix for i in moving])
            for i, answer in zip(moving, answers.tolist()):
                if answer not in at[i].children:
                    at[i].children[answer] = self._new_state(words[i][0])
                at[i] = at[i].children[answer]

    def _new_state(self, word: str) -> Node:
        if len(self.access) >= self.most:
            raise TooManyStates
        self.access.append(word)
        self.leaves.append(Node(state=len(self.access) - 1))
        return self.leaves[-1]

    def refine(self, dfa: DFA, word: str) -> None:
        """Split the leaf of the state that the counterexample splits."""
        place = split_point(self.ask, self.access, dfa, word)
        path = dfa.path(word)
        old, suffix = path[place], word[place:]
        new_word = self.access[path[place - 1]] + word[place - 1]
        node = self.leaves[old]
        leaf, other = Node(state=old), self._new_state(new_word)
        answers = self.ask([self.access[old] + suffix, new_word + suffix]).tolist()
        node.state, node.suffix = None, suffix
        node.children = {answers[0]: leaf, answers[1]: other}
        self.leaves[old] = leaf


LEARNERS: dict[str, Callable[[Memory, tuple[str, ...], int], Learner]] = {"table": Table, "tree": Tree}
