"""Regular expressions into automata. Python's own parser reads the pattern, and Python's own matcher says
which symbols each character class holds, so that `regex(p).accepts(w) == bool(re.fullmatch(p, w))`."""

from __future__ import annotations

import re
import re._constants as sre  # type: ignore[import-not-found]
import re._parser as sre_parser  # type: ignore[import-not-found]
import string
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from kleene.common.alphabet import check_alphabet
from kleene.errors import InputError, KleeneWarning, NotSupported, a_type
from kleene.machines.automata.dfa import DFA
from kleene.machines.automata.nfa import MAX_WORK, NFA, grouped
from kleene.machines.automata.regex_positions import Positions, shown

CATEGORIES = {
    sre.CATEGORY_DIGIT: string.digits,
    sre.CATEGORY_SPACE: " \t\n\r\f\v",
    sre.CATEGORY_WORD: string.ascii_letters + string.digits + "_",
}
MAX_CHARACTERS = 10_000  # the most that a pattern may name without alphabet=


def regex(
    pattern: str,
    alphabet: Iterable[str] | None = None,
    *,
    search: bool = False,
    flags: int = 0,
    limit: int = 100_000,
    work: int = MAX_WORK,
) -> DFA:
    """The minimal automaton of the words over `alphabet` that a Python regular expression matches in full.

    - `pattern`: Python's syntax; lookahead, lookbehind, atomic groups and possessive repeats included.
    - `alphabet`: the symbols, single characters. By default those that the pattern names (for \\d, \\w and \\s the
      ASCII ones); `.` and `[^…]` then mean the matching ones among them.
    - `search`: accept the words that contain a match of the pattern, as `re.search` does.
    - `flags`: flags of the `re` module, such as `re.IGNORECASE`.
    - `limit`: the most states before minimisation.
    - `work`: the most moves to follow.

    >>> even = regex("(0|10*1)*", alphabet="01")
    >>> len(even), even.accepts("0110"), even.accepts("010")
    (2, True, False)
    >>> regex("(?=.*b)(?!.*aa).*", "ab") == regex("a?b(ab|b)*a?", "ab")
    True
    >>> regex(r"(a)\\1")
    Traceback (most recent call last):
    kleene.errors.NotSupported: pattern '(a)\\\\1': a backreference ...
    """
    positions, symbols = _read(pattern, alphabet, search, flags)
    try:
        dfa = _determinise(positions, symbols, limit, work).minimise()
    except RecursionError:
        raise InputError(f"pattern {shown(pattern)}: nested too deeply") from None
    if alphabet is None and dfa.is_empty() and not re.fullmatch(r"[^\[.\\]*", pattern):
        listed = "".join(symbols) if len(symbols) <= 20 else f"{len(symbols)} characters"
        warnings.warn(
            f"pattern {shown(pattern)}: no word over the characters in it ({listed}) matches; give alphabet='…'",
            KleeneWarning,
            stacklevel=2,
        )
    return dfa


def thompson(pattern: str, alphabet: Iterable[str] | None = None, *, flags: int = 0) -> NFA:
    """The nondeterministic automaton of a pattern without assertions, as Thompson builds it.

    >>> len(thompson("ab|c").determinise())
    4
    """
    positions, symbols = _read(pattern, alphabet, False, flags)
    if positions.asserting:
        raise NotSupported(f"pattern {shown(pattern)}: it has assertions, which need kl.regex")
    moves = [(p, "", q) for p, targets in enumerate(positions.empty) for q in targets]
    for p, reads in enumerate(positions.reads):
        if reads is not None:
            moves += [(p, s, reads[1]) for i, s in enumerate(symbols) if reads[0] >> i & 1]
    return NFA(moves, [positions.end], symbols, positions.begin, len(positions.empty))


def _read(pattern: str, alphabet: Iterable[str] | None, search: bool, flags: int) -> tuple[Positions, tuple[str, ...]]:
    """The positions of a pattern, and its alphabet."""
    if not isinstance(pattern, str):
        raise InputError(f"pattern {pattern!r:.60}: {a_type(pattern)}; it should be a string")
    try:
        tree = sre_parser.parse(pattern, flags)
        found = sorted(named_characters(tree)) if alphabet is None else alphabet
        if not found:
            raise InputError(f"pattern {shown(pattern)}: it names no characters; give alphabet='…'")
        symbols = check_alphabet(found)
        if any(len(symbol) != 1 for symbol in symbols):
            raise InputError(f"pattern {shown(pattern)}: the symbols of a regular expression are single characters")
        return Positions(pattern, tree, symbols, tree.state.flags | flags, search), symbols
    except (re.error, ValueError, TypeError) as error:  # ValueError and TypeError come from the flags
        raise InputError(f"pattern {shown(pattern)}: {str(error)[:200]}") from None
    except (RecursionError, OverflowError):
        raise InputError(f"pattern {shown(pattern)}: nested too deeply or too large") from None


def named_characters(tree: Any) -> set[str]:
    """The characters that a pattern names."""
    found: set[str] = set()
    for op, value in tree:
        found |= _named_by(op, value, tree)
    if isinstance(tree, sre_parser.SubPattern) and tree.state.flags & re.IGNORECASE:
        found |= _both_cases(found)
    return found


def _named_by(op: Any, value: Any, tree: Any) -> set[str]:
    if op in (sre.LITERAL, sre.NOT_LITERAL):
        return {chr(value)}
    if op is sre.RANGE:
        if value[1] - value[0] > MAX_CHARACTERS:
            raise InputError(f"pattern: it names more than {MAX_CHARACTERS:,} characters; give alphabet='…'")
        return set(map(chr, range(value[0], value[1] + 1)))
    if op is sre.CATEGORY:
        return set(CATEGORIES.get(value, ""))
    if op is sre.BRANCH:
        return set().union(*(named_characters(branch) for branch in value[1]))
    if op is sre.SUBPATTERN:
        inner = named_characters(value[3])
        return inner | _both_cases(inner) if (tree.state.flags | value[1]) & re.IGNORECASE else inner
    if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
        return named_characters(value[2])
    if op in (sre.ATOMIC_GROUP, sre.IN):
        return named_characters(value)
    return named_characters(value[1]) if op in (sre.ASSERT, sre.ASSERT_NOT) else set()


def _both_cases(symbols: set[str]) -> set[str]:
    return {c for s in symbols for c in (s.lower(), s.upper()) if len(c) == 1}


def _determinise(positions: Positions, symbols: tuple[str, ...], limit: int, work: int) -> DFA:
    if positions.asserting:
        from kleene.machines.automata.regex_assertions import determinise

        return determinise(positions, symbols, limit, work)
    from kleene.machines.automata import kernels

    groups, columns = positions.groups()
    reading = [(p, reads) for p, reads in enumerate(positions.reads) if reads is not None]
    cells = [(p * len(groups) + g, q) for p, (mask, q) in reading for g, i in enumerate(groups) if mask >> i & 1]
    keys, targets = (np.array(part, dtype=np.int64) for part in zip(*cells)) if cells else (np.zeros(0, int),) * 2
    count = len(positions.empty)
    starts, targets = grouped(keys, targets, count * len(groups))
    flat = [(p, q) for p, empties in enumerate(positions.empty) for q in empties]
    sources, ends = (np.array(part, dtype=np.int64) for part in zip(*flat)) if flat else (np.zeros(0, int),) * 2
    empty_starts, empty = grouped(sources, ends, count)
    keep = np.array([reads is not None for reads in positions.reads])
    keep[positions.end] = True
    rank_starts, rank_keys, ranks = positions.rank_arrays()
    found, table, offsets, members = kernels.subset_construction(
        np.array([positions.begin], dtype=np.int32),
        len(groups),
        starts,
        targets,
        empty_starts,
        empty,
        keep,
        rank_starts,
        rank_keys,
        ranks,
        limit,
        work,
    )
    refuse(positions.pattern, found, limit, work)
    hits = np.concatenate([[0], np.cumsum(members == positions.end)])
    accepting = hits[offsets[1:]] > hits[offsets[:-1]]
    return DFA(table.reshape(found, -1)[:, columns], accepting, symbols)


def refuse(pattern: str, count: int, limit: int, work: int) -> None:
    """The error of a construction that ended early."""
    from kleene.machines.automata import kernels

    if count == kernels.TOO_MANY_STATES:
        raise NotSupported(f"pattern {shown(pattern)}: more than {limit:,} states; raise limit=")
    if count == kernels.TOO_MUCH_WORK:
        raise NotSupported(f"pattern {shown(pattern)}: more than {work:,} moves; raise work=")
