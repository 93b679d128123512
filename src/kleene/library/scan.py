"""SCAN: commands such as `jump twice and look left` to actions, by a shift-reduce parser and a decoder.

One program does both. It parses the words into a tree, which is held in memory cells, one cell a position;
then it walks through the tree and writes the actions. The grammar is synchronous: each rule has the right-hand
side that the parser looks for on its stack, and a target that the decoder writes, in which a nonterminal
stands for what its part of the tree gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from kleene.lowering.symbolic import table
from kleene.machines import scan_grammar as scan_words
from kleene.machines.program import Program, attend, cat, relative
from kleene.machines.scan_grammar import ACTIONS, TIMES, TURNS, VERBS, WORDS, interpret

# --- the grammar ------------------------------------------------------------------------------------------

END = "end"  # what stands after the last word, and below the stack
SYMBOLS = (END, *WORDS, "U", "V", "S")  # what a stack cell holds; a word has the same number as its token
CHILDREN = ("U", "V", "S", "S1", "S2")  # in a target: what the tree below gives


@dataclass(frozen=True)
class Rule:
    """left → right, which gives target. It is used only where the next word is one of `before`."""

    left: str
    right: tuple[str, ...]
    target: tuple[str, ...]
    before: frozenset[str]

    def __str__(self) -> str:
        return f"{self.left} → {' '.join(self.right)}"


def _rule(left: str, right: str, target: str, before: Sequence[str] = (END, *WORDS)) -> Rule:
    return Rule(left, tuple(right.split()), tuple(target.split()), frozenset(before))


RULES = (
    *(_rule("U", verb, action) for verb, action in VERBS.items()),
    *(
        rule
        for way, turn in TURNS.items()
        for rule in (
            _rule("V", f"U opposite {way}", f"{turn} {turn} U"),
            _rule("V", f"U around {way}", f"{turn} U {turn} U {turn} U {turn} U"),
            _rule("V", f"U {way}", f"{turn} U"),
            _rule("V", f"turn opposite {way}", f"{turn} {turn}"),
            _rule("V", f"turn around {way}", f"{turn} {turn} {turn} {turn}"),
            _rule("V", f"turn {way}", f"{turn}"),
        )
    ),
    _rule("V", "U", "U", before=[END, *TIMES, "and", "after"]),
    *(_rule("S", f"V {word}", "V " * times) for word, times in TIMES.items()),
    _rule("S", "V", "V", before=[END, "and", "after"]),
    _rule("C", "S and S", "S1 S2", before=[END]),
    _rule("C", "S after S", "S2 S1", before=[END]),
    _rule("C", "S", "S", before=[END]),
)

# A target is decoded in steps: perhaps an action, then perhaps a child.
Step = tuple[str | None, str | None]


def steps(rule: Rule) -> list[Step]:
    """The steps of a rule's target.

    >>> steps(_rule("V", "U opposite left", "I_TURN_LEFT I_TURN_LEFT U"))
    [('I_TURN_LEFT', None), ('I_TURN_LEFT', 'U')]
    """
    made: list[Step] = []
    for symbol in rule.target:
        if symbol not in CHILDREN:
            made.append((symbol, None))
        elif made and made[-1][1] is None:
            made[-1] = (made[-1][0], symbol)
        else:
            made.append((None, symbol))
    return made


MOST_STEPS = max(len(steps(rule)) for rule in RULES)
NO_CHILD, FIRST, SECOND = 0, 1, 2


def _by_step(entry: Any, otherwise: int) -> Any:
    """A table [rule][step]; rules count from 1, since 0 is an empty cell."""
    rows = [[entry(rule, place) for place in range(len(steps(rule)))] for rule in RULES]
    return table([[otherwise] * MOST_STEPS, *(row + [otherwise] * (MOST_STEPS - len(row)) for row in rows)])


def _action(rule: Rule, place: int) -> int:
    action, _ = steps(rule)[place]
    return 1 + ACTIONS.index(action) if action else 0


def _child(rule: Rule, place: int) -> int:
    _, child = steps(rule)[place]
    return NO_CHILD if child is None else SECOND if child == "S2" else FIRST


ACTION = _by_step(_action, 0)
CHILD = _by_step(_child, NO_CHILD)
LAST = _by_step(lambda rule, place: place == len(steps(rule)) - 1, 1)

# --- memory -----------------------------------------------------------------------------------------------

CELLS = scan_words.LONGEST_COMMAND + 1  # positions that are memory cells: every word, and the end
ELSEWHERE = CELLS  # the address of all other positions, which hold output only
BOTTOM = 3  # the stack begins here: its top three symbols can be read even where it is empty
PARSE, DECODE, DONE = 0, 1, 2


def _address(place: int) -> int:
    return min(place, ELSEWHERE)


class scan(Program):
    """SCAN commands to actions: a shift-reduce parse into a tree, then the tree is decoded."""

    tokens = 1 + len(WORDS)
    positions = 48

    # Memory, one cell a position. Input, stack, tree and output are variables of their own.
    token = cat(1 + len(WORDS), token=lambda t: t)
    address = cat(CELLS + 1, position=_address)
    symbol = cat(len(SYMBOLS))  # the stack's: a word or a nonterminal,
    subtree = cat(CELLS + 1)  # the tree cell it stands for (in decoding: the cell to return to),
    back = cat(MOST_STEPS)  # and the step to return to
    rule = cat(1 + len(RULES))  # the tree's: a rule,
    first = cat(CELLS + 1)  # and the cells of its children
    second = cat(CELLS + 1)
    action = cat(1 + len(ACTIONS))  # the output's
    here = cat(2, position=lambda p: p == 0)  # 1 where the next action goes

    # Registers, the same at every position: each position works them out for itself.
    phase = cat(3)
    word_at = cat(CELLS + 1)  # the next word
    top = cat(CELLS + 1, default=BOTTOM)  # the first free cell of the stack
    made = cat(CELLS + 1)  # the first free cell of the tree
    at = cat(CELLS + 1)  # the tree cell that is being decoded,
    done = cat(MOST_STEPS)  # and how many of its steps are done

    # A cell that is k places below the address p has p as its key here.
    above1 = cat(CELLS + 1, position=lambda p: (p + 1) % (CELLS + 1) if p < CELLS - 1 else 0)
    above2 = cat(CELLS + 1, position=lambda p: (p + 2) % (CELLS + 1) if p < CELLS - 2 else 0)
    above3 = cat(CELLS + 1, position=lambda p: (p + 3) % (CELLS + 1) if p < CELLS - 3 else 0)
    word = attend(word_at, address, token)
    symbol1 = attend(top, above1, symbol)  # the stack's top,
    symbol2 = attend(top, above2, symbol)  # what is below it,
    symbol3 = attend(top, above3, symbol)  # and below that
    subtree1 = attend(top, above1, subtree)
    subtree2 = attend(top, above2, subtree)
    subtree3 = attend(top, above3, subtree)
    back1 = attend(top, above1, back)
    rule_at = attend(at, address, rule)
    first_at = attend(at, address, first)
    second_at = attend(at, address, second)
    here_left = relative(here, -1, default=0)
    output = action
    halt = {phase: DONE}

    @staticmethod
    def encode(text: str) -> list[int]:
        interpret(text)  # raises where it is no command
        words = text.split()
        return [1 + WORDS.index(word) for word in words] + [0] * (memory(len(words)) - len(words))

    @staticmethod
    def decode(outputs: Sequence[int]) -> str:
        return " ".join(ACTIONS[number - 1] for number in outputs if number)

    def step(z: Any) -> None:
        if z.phase == PARSE:
            rule = matching_rule(z)
            if rule is not None:
                reduce(z, rule)
            elif z.word != 0 and z.top < CELLS:
                shift(z)
            else:  # nothing can be done, and this is no tree: not a command
                z.phase = DONE
        elif z.phase == DECODE:
            write_step(z)


def matching_rule(z: Any) -> Rule | None:
    """The rule whose right-hand side is on top of the stack, with the next word as it should be."""
    top = (z.symbol1, z.symbol2, z.symbol3)
    for rule in RULES:
        if all(found == SYMBOLS.index(wanted) for found, wanted in zip(top, reversed(rule.right))):
            if len(rule.before) == 1 + len(WORDS) or _next_word_is(z, rule.before):
                return rule
    return None


def _next_word_is(z: Any, words: frozenset[str]) -> bool:
    return bool(table([symbol in words for symbol in (END, *WORDS)])[z.word])


def shift(z: Any) -> None:
    """Put the next word on the stack."""
    if z.address == z.top:
        z.symbol = z.word
    z.top += 1
    z.word_at = (z.word_at + 1) % (CELLS + 1)


def reduce(z: Any, rule: Rule) -> None:
    """Put the rule into the tree, and its left-hand side on the stack instead of its right-hand side."""
    size = len(rule.right)
    subtrees = [z.subtree3, z.subtree2, z.subtree1][-size:]
    children = [subtrees[place] for place, symbol in enumerate(rule.right) if symbol in CHILDREN]
    if z.address == z.made:
        z.rule = 1 + RULES.index(rule)
        if children:
            z.first, z.second = children[0], children[-1]
    if rule.left == "C":  # the tree is complete if nothing else is on the stack
        z.phase = DECODE if z.top == BOTTOM + size else DONE
        z.at = z.made
        z.top = BOTTOM
    else:
        if z.address == z.top - size:
            z.symbol = SYMBOLS.index(rule.left)
            z.subtree = z.made
        z.top = (z.top + 1 - size) % (CELLS + 1)
    z.made = (z.made + 1) % (CELLS + 1)


def write_step(z: Any) -> None:
    """One step of the target of the rule at hand: perhaps write an action, then perhaps go to a child."""
    action, child = ACTION[z.rule_at, z.done], CHILD[z.rule_at, z.done]
    last = LAST[z.rule_at, z.done]
    if action != 0:
        if z.here:
            z.action = action
        z.here = z.here_left
    if child != NO_CHILD:
        if not last:  # after the last step there is nothing to return to
            if z.address == z.top:
                z.subtree, z.back = z.at, z.done + 1
            z.top = (z.top + 1) % (CELLS + 1)
        z.at = z.first_at if child == FIRST else z.second_at
        z.done = 0
    elif not last:
        z.done += 1
    elif z.top != BOTTOM:  # return
        z.at, z.done = z.subtree1, z.back1
        z.top = (z.top - 1) % (CELLS + 1)
    else:
        z.phase = DONE


@cache
def memory(words: int) -> int:
    """How many positions a command of so many words gets: its cells, and room for the longest output that
    such a command can have."""
    lengths = [(len(c.split()), len(interpret(c).split())) for c in scan_words.phrases()]
    longest = {n: max(size for length, size in lengths if length == n) for n, _ in lengths}  # by words
    joined = [longest[a] + longest[b] for a in longest for b in longest if a + b + 1 == words]
    return max([CELLS, longest.get(words, 0), *joined])
