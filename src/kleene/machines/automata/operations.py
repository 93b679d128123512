"""Regular operations on deterministic automata; each returns a minimal automaton."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kleene.common.alphabet import Word, encode
from kleene.errors import InputError
from kleene.machines.automata.dfa import DFA
from kleene.machines.automata.nfa import NFA


def concatenate(left: DFA, right: DFA) -> DFA:
    """The words u·v with u of the left language and v of the right."""
    left, right = left.aligned(right)
    return NFA.of(left).concatenate(NFA.of(right)).determinise().minimise()


def star(dfa: DFA) -> DFA:
    """The words u₁·…·uₙ of words of the language."""
    return NFA.of(dfa).star().determinise().minimise()


def prefixes(dfa: DFA) -> DFA:
    """Every prefix of every word: states that lead to an accepting one accept."""
    return DFA(dfa.table, alive(dfa), dfa.alphabet, dfa.start).minimise()


def alive(dfa: DFA) -> np.ndarray:
    """Whether some word leads from each state to an accepting one."""
    return distances(dfa) >= 0


def distances(dfa: DFA) -> np.ndarray:
    """The length of a shortest word from each state to an accepting one; −1 where there is none."""
    from kleene.machines.automata import kernels

    starts, sources = kernels.predecessors(dfa.table)
    return kernels.distances(starts, sources, dfa.accepting, len(dfa.alphabet))


def right_quotient(dfa: DFA, suffixes: DFA) -> DFA:
    """Words u with u·v in the language for some suffix v.

    A state accepts where the pair (state, start of the suffixes' automaton) leads to a pair of accepting states:
    one search backwards over all pairs.
    """
    left, right = dfa.aligned(suffixes)
    width = len(right)
    if len(left) * width > 50_000_000:
        raise InputError(f"quotient: {len(left):,} × {width:,} pairs of states are too many; minimise both first")
    pairs = left.table[:, None, :].astype(np.int64) * width + right.table[None, :, :]  # (left, right, symbol)
    both = (left.accepting[:, None] & right.accepting[None, :]).reshape(-1)
    whole = DFA(pairs.reshape(-1, len(left.alphabet)), both, left.alphabet)
    accepting = alive(whole).reshape(len(left), width)[:, right.start]
    return DFA(left.table, accepting, left.alphabet, left.start).minimise()


def left_quotient(dfa: DFA, prefixes: DFA) -> DFA:
    """Words v with u·v in the language for some prefix u: start wherever a prefix can end."""
    left, right = dfa.aligned(prefixes)
    from kleene.machines.automata.kernels import product

    _, lefts, rights, _ = product(left.table, left.start, right.table, right.start, 2**31 - 2)
    begins = np.unique(lefts[right.accepting[rights]])
    base = NFA.of(left)
    return NFA.from_arrays(base, start=begins).determinise().minimise()


def homomorphism(dfa: DFA, image: Mapping[str, Word]) -> DFA:
    """The words with every symbol replaced by its image."""
    for symbol in dfa.alphabet:
        if symbol not in image:
            raise InputError(f"homomorphism: no image for {symbol!r}; give one for each of {', '.join(dfa.alphabet)}")
    symbols = tuple(dict.fromkeys(s for symbol in dfa.alphabet for s in image[symbol])) or dfa.alphabet
    moves: list[tuple[int, str, int]] = []
    states = len(dfa)
    for q, row in enumerate(dfa.table.tolist()):
        for symbol, r in zip(dfa.alphabet, row):
            word = list(image[symbol])
            at = q
            for i, s in enumerate(word):
                last = i == len(word) - 1
                moves.append((at, s, r if last else states))
                at = states
                states += not last
            if not word:
                moves.append((q, "", r))
    accepting = np.flatnonzero(dfa.accepting).tolist()
    return NFA(moves, accepting, symbols, start=[dfa.start], states=states).determinise().minimise()


def inverse_homomorphism(dfa: DFA, image: Mapping[str, Word]) -> DFA:
    """The words over the mapping's symbols whose image is in the language."""
    if not image:
        raise InputError("inverse homomorphism: the mapping has no symbols; give an image for each")
    columns = []
    for word in image.values():
        column = np.arange(len(dfa))
        for code in encode(word, dfa.index):
            column = dfa.table[column, code]
        columns.append(column)
    return DFA(np.stack(columns, axis=1), dfa.accepting, tuple(image), dfa.start).minimise()


def canonical(dfa: DFA) -> DFA:
    """The minimal automaton over the symbols that occur in some word, in their own order.

    Two automata with the same words become equal, whatever their alphabets.
    """
    minimal = dfa.minimise()
    living = alive(minimal)
    used = [a for a in range(len(dfa.alphabet)) if living[minimal.table[living, a]].any()]
    used = sorted(used or [0], key=lambda a: dfa.alphabet[a])
    if not living[minimal.start] or not living[minimal.table[living]].any():  # no words, or the empty word alone
        return DFA([[1], [1]], [bool(minimal.accepting[minimal.start]), False], "a")
    symbols = tuple(dfa.alphabet[a] for a in used)
    # one alphabet needs the sink and another does not: remove it, then add it again
    narrow = DFA(minimal.table[:, used], minimal.accepting, symbols, minimal.start).over((*symbols, symbols[-1] + "\0"))
    return narrow.minimise()
