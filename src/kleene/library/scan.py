"""SCAN: commands such as `jump twice and look left` to actions, by a shift-reduce parser and a decoder.

One program does both. It parses the words into a tree in memory cells, one cell at each position. Then it walks through
the tree and writes the actions. The grammar is synchronous: each rule has a right-hand side, which the parser looks for
on its stack, and a target, which the decoder writes. A nonterminal in a target stands for the actions of its subtree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from kleene.common.text import Text
from kleene.library.encoding import TextProgram
from kleene.lowering.symbolic import among, table
from kleene.machines import scan_grammar
from kleene.machines.declarations import attend, cat, relative
from kleene.machines.scan_grammar import ACTIONS, JOINS, TIMES, TURNS, VERBS, WORDS, interpret

# --- the grammar ------------------------------------------------------------------------------------------

END = "end"  # what stands after the last word, and in an empty stack cell
NONTERMINALS = ("U", "T", "V", "S")
SYMBOLS = (END, *WORDS, *NONTERMINALS)  # what a stack cell holds; a word has the same number as its token
CHILDREN = (*NONTERMINALS, "S1", "S2")  # in a target: the actions of a subtree


@dataclass(frozen=True)
class GrammarRule:
    """left → right, with actions `target`. The parser applies it where the next word is one of `before`."""

    left: str
    right: tuple[str, ...]
    target: tuple[str, ...]
    before: frozenset[str] | None = None  # None: any word

    def __str__(self) -> str:
        return f"{self.left} → {' '.join(self.right)}"


def _rule(left: str, right: str, target: str, before: Sequence[str] | None = None) -> GrammarRule:
    words = None if before is None else frozenset(before)
    return GrammarRule(left, tuple(right.split()), tuple(target.split()), words)


RULES = (
    *(_rule("U", verb, action) for verb, action in VERBS.items()),
    _rule("T", "turn", ""),
    *(
        rule
        for way, turn in TURNS.items()
        for rule in (
            _rule("V", f"U {way}", f"{turn} U"),
            _rule("V", f"U opposite {way}", f"{turn} {turn} U"),
            _rule("V", f"U around {way}", f"{turn} U {turn} U {turn} U {turn} U"),
            _rule("V", f"T {way}", f"{turn}"),
            _rule("V", f"T opposite {way}", f"{turn} {turn}"),
            _rule("V", f"T around {way}", f"{turn} {turn} {turn} {turn}"),
        )
    ),
    _rule("V", "U", "U", before=[END, *TIMES, *JOINS]),
    *(_rule("S", f"V {word}", "V " * times) for word, times in TIMES.items()),
    _rule("S", "V", "V", before=[END, *JOINS]),
    _rule("C", "S and S", "S1 S2", before=[END]),
    _rule("C", "S after S", "S2 S1", before=[END]),
    _rule("C", "S", "S", before=[END]),
)

# What the parser needs to know of each rule, by number. 0 means no rule; SHIFT follows the last rule.
SHIFT = len(RULES) + 1
SIZE = table([0, *(len(rule.right) for rule in RULES), 0])
LEFT = table([0, *(SYMBOLS.index(rule.left) if rule.left != "C" else 0 for rule in RULES), 0])
WHOLE = [number for number, rule in enumerate(RULES, start=1) if rule.left == "C"]


def _depth_of_child(rule: GrammarRule, which: int) -> int:
    """The depth in the stack of the first (0) or last (−1) nonterminal of a rule; 0 if it has none."""
    depths = [len(rule.right) - place for place, symbol in enumerate(rule.right) if symbol in NONTERMINALS]
    return depths[which] if depths else 0


FIRST_DEPTH = table([0, *(_depth_of_child(rule, 0) for rule in RULES), 0])
LAST_DEPTH = table([0, *(_depth_of_child(rule, -1) for rule in RULES), 0])

# The decoder goes through the target of a rule in steps: an optional action, then an optional child.
Step = tuple[str | None, str | None]


def steps(rule: GrammarRule) -> list[Step]:
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


def _by_step(entry: Callable[[GrammarRule, int], int], otherwise: int) -> Any:
    """A table by number of the rule and step."""
    rows = [[entry(rule, place) for place in range(len(steps(rule)))] for rule in RULES]
    return table([[otherwise] * MOST_STEPS, *(row + [otherwise] * (MOST_STEPS - len(row)) for row in rows)])


def _action(rule: GrammarRule, place: int) -> int:
    action, _ = steps(rule)[place]
    return 1 + ACTIONS.index(action) if action else 0


def _child(rule: GrammarRule, place: int) -> int:
    _, child = steps(rule)[place]
    return NO_CHILD if child is None else SECOND if child == "S2" else FIRST


ACTION = _by_step(_action, 0)
CHILD = _by_step(_child, NO_CHILD)
LAST = _by_step(lambda rule, place: int(place == len(steps(rule)) - 1), 1)

# --- the program ------------------------------------------------------------------------------------------

CELLS = scan_grammar.LONGEST_COMMAND + 1  # positions that are memory cells: every word, and the end
ELSEWHERE = CELLS  # the address of all other positions, which hold output only
BOTTOM = 3  # the stack begins here: its top three cells can be read even where it is empty
PARSE, DECODE, RETURN, DONE = 0, 1, 2, 3


def pointer(**initialiser: Any) -> Any:
    """A variable that holds an address."""
    return cat(CELLS + 1, **initialiser)


def _below(distance: int) -> Any:
    """A key: the cell that is this many cells below p has the address p."""
    return pointer(position=lambda p: p + distance if p + distance < CELLS else 0)


ROOM = (10, 10, 10, 10, 24, 10, 25, 27, 32, 48)  # `memory` of 0 … 9 words


class scan(TextProgram):
    """Translate SCAN commands to actions: a shift-reduce parser builds a tree, and a decoder walks through it."""

    tokens = ("·", *WORDS)
    text = Text(room=ROOM, example="jump twice and look left", names=("·", *ACTIONS), join=" ", omit=("·",))
    positions = 48

    # Memory, one cell per position: input, stack, tree and output have variables of their own.
    token = cat(1 + len(WORDS), token=lambda t: t)
    symbol = cat(len(SYMBOLS))  # stack: a word or a nonterminal,
    subtree = pointer()  # the tree cell that it stands for (when decoding: the one to return to)
    back = cat(MOST_STEPS)  # (when decoding: the step to return to)
    rule = cat(1 + len(RULES))  # tree: a rule,
    first = pointer()  # and the tree cells of its children
    second = pointer()
    action = cat(1 + len(ACTIONS))  # output
    here = cat(2, position=lambda p: p == 0)  # 1 where the next action goes

    # Registers: every position computes them, so they are equal everywhere.
    phase = cat(4)
    move = cat(SHIFT + 1)  # what the parser does next: a rule to reduce by, or SHIFT; 0 until it is known
    next_word = pointer()
    top = pointer(default=BOTTOM)  # the stack's first free cell
    made = pointer()  # the tree's first free cell
    at = pointer()  # the tree cell that is decoded,
    done = cat(MOST_STEPS)  # and how many of its steps are done

    address = pointer(position=lambda p: min(p, ELSEWHERE))
    below1, below2, below3 = _below(1), _below(2), _below(3)
    word = attend(next_word, address, token)
    symbol1 = attend(top, below1, symbol)  # on top of the stack
    symbol2 = attend(top, below2, symbol)
    symbol3 = attend(top, below3, symbol)
    subtree1 = attend(top, below1, subtree)
    subtree2 = attend(top, below2, subtree)
    subtree3 = attend(top, below3, subtree)
    back1 = attend(top, below1, back)
    rule_at = attend(at, address, rule)
    first_at = attend(at, address, first)
    second_at = attend(at, address, second)
    here_left = relative(here, -1, default=0)
    output = action
    halt = {phase: DONE}
    labels = {  # what a page calls the values
        "tokens": ("·", *WORDS),
        "token": ("·", *WORDS),
        "symbol": ("·", *SYMBOLS[1:]),
        "action": ("·", *ACTIONS),
        "phase": ("parse", "decode", "return", "done"),
    }

    @staticmethod
    def encode(text: str) -> list[int]:
        interpret(text)  # raises an error for a text that is not a command
        words = text.split()
        return [1 + WORDS.index(word) for word in words] + [0] * (memory(len(words)) - len(words))

    @staticmethod
    def decode(outputs: Sequence[int]) -> str:
        return " ".join(ACTIONS[number - 1] for number in outputs if number)

    @staticmethod
    def describe(trace: Any) -> tuple[list[str], list[list[str]]]:
        """Describe each layer as Table 5 of the paper does: columns, and a row for each move."""
        return ["Layer", "Action", "Stack", "Parse tree", "Input buffer", "Output"], _moves(trace)

    def step(z) -> None:
        if z.phase == PARSE:
            if z.move == 0:
                choose(z)
            else:
                shift(z) if z.move == SHIFT else reduce(z)
                z.move = 0
        elif z.phase == DECODE:
            write(z)
        elif z.phase == RETURN:
            return_(z)


def choose(z: Any) -> None:
    """Choose the rule whose right-hand side is on top of the stack; if there is none, choose to shift."""
    top = (z.symbol1, z.symbol2, z.symbol3)
    for number, rule in enumerate(RULES, start=1):
        on_top = all(symbol == SYMBOLS.index(wanted) for symbol, wanted in zip(top, reversed(rule.right)))
        if on_top and (rule.before is None or among(z.word, map(SYMBOLS.index, rule.before))):
            z.move = number
            return
    if z.word != SYMBOLS.index(END):
        z.move = SHIFT
    else:  # no words are left and there is no tree: not a command
        z.phase = DONE


def shift(z: Any) -> None:
    """Put the next word on the stack."""
    if z.address == z.top:
        z.symbol = z.word
    z.top = (z.top + 1) % (CELLS + 1)
    z.next_word = (z.next_word + 1) % (CELLS + 1)
    if z.top == ELSEWHERE:  # the stack is full: not a command
        z.phase = DONE


def reduce(z: Any) -> None:
    """Add a rule to the tree, and put its left-hand side on the stack instead of its right-hand side."""
    subtrees = {1: z.subtree1, 2: z.subtree2, 3: z.subtree3}  # by depth in the stack
    if z.address == z.made:
        z.rule = z.move
        for depth, subtree in subtrees.items():
            if FIRST_DEPTH[z.move] == depth:
                z.first = subtree
            if LAST_DEPTH[z.move] == depth:
                z.second = subtree
    bottom = z.top - SIZE[z.move]
    whole = among(z.move, WHOLE)
    if z.address >= bottom:  # clear the cells that were taken off the stack
        z.symbol, z.subtree = 0, 0
    if not whole:
        if z.address == bottom:
            z.symbol, z.subtree = LEFT[z.move], z.made
        z.top = (bottom + 1) % (CELLS + 1)
    else:  # the tree is complete, if nothing else is on the stack
        z.phase = DECODE if bottom == BOTTOM else DONE
        z.at, z.top = z.made, BOTTOM
    z.made = (z.made + 1) % (CELLS + 1)


def write(z: Any) -> None:
    """Do one step of the decoded rule: write its action, if any, then go to its child, if any."""
    action, child = ACTION[z.rule_at, z.done], CHILD[z.rule_at, z.done]
    last = LAST[z.rule_at, z.done]
    if action != 0:
        if z.here:
            z.action = action
        z.here = z.here_left
    if z.address == z.top:
        z.subtree = z.at  # where to return to, if this is not the last step
    if child != NO_CHILD:
        if not last:
            if z.address == z.top:
                z.back = z.done + 1
            z.top = (z.top + 1) % (CELLS + 1)
        z.at = z.first_at if child == FIRST else z.second_at
        z.done = 0
    elif not last:
        z.done += 1
    else:
        z.phase, z.done = RETURN, 0


def return_(z: Any) -> None:
    """Return to the rule on the stack, if there is one."""
    if z.back1 == 0:
        z.phase = DONE
    else:
        z.phase, z.at, z.done = DECODE, z.subtree1, z.back1
        if z.address >= z.top - 1:
            z.subtree, z.back = 0, 0
        z.top = (z.top - 1) % (CELLS + 1)


@cache
def memory(words: int) -> int:
    """The number of positions for a command of this many words: its cells, and room for its longest possible output."""
    sizes = [(len(phrase.split()), len(interpret(phrase).split())) for phrase in scan_grammar.phrases()]
    longest = {count: max(size for words, size in sizes if words == count) for count, _ in sizes}
    joined = [longest[a] + longest[b] for a in longest for b in longest if a + b + 1 == words]
    return max([CELLS, longest.get(words, 0), *joined])


# --- showing a run ----------------------------------------------------------------------------------------


def _moves(trace: Any) -> list[list[str]]:
    """A row for the start and for each layer that does more than choose a move."""
    rows = [["0", "Initialize", *_memories(trace.states[0])]]
    for layer, (before, after) in enumerate(zip(trace.states, trace.states[1:]), start=1):
        action = _told(before[0], before, after)
        if action:
            rows.append([str(layer), action, *_memories(after)])
    return rows


def _told(z: dict[str, int], before: Sequence[dict[str, int]], after: Sequence[dict[str, int]]) -> str:
    """Describe what one layer did; nothing if the parser only chose its move."""
    if z["phase"] == PARSE:
        if after[0]["phase"] == DONE:
            return "Reject"
        return "" if z["move"] == 0 else "Shift" if z["move"] == SHIFT else f"Reduce by {RULES[z['move'] - 1]}"
    if z["phase"] == RETURN:
        return "Halt" if after[0]["phase"] == DONE else f"Return to {_rule_in(after, after[0]['at'])}"
    action, child = steps(RULES[before[z["at"]]["rule"] - 1])[z["done"]]
    parts = [f"Write {action}"] if action else []
    return ", ".join(parts + ([f"Go to {_rule_in(after, after[0]['at'])}"] if child else []))


def _rule_in(states: Sequence[dict[str, int]], cell: int) -> str:
    return f"[{RULES[states[cell]['rule'] - 1]}]"


def _memories(states: Sequence[dict[str, int]]) -> list[str]:
    """Stack, parse tree, input buffer and output as text."""
    z, cells = states[0], states[:CELLS]
    stack = [SYMBOLS[cell["symbol"]] for cell in cells if cell["symbol"]]
    if z["phase"] != PARSE:  # the rule to return to, and how many of its steps are done
        stack = [f"{_rule_in(states, cell['subtree'])} {cell['back']}" for cell in cells if cell["back"]]
    tree = [str(RULES[cell["rule"] - 1]) for cell in cells if cell["rule"]]
    words = [SYMBOLS[cell["token"]] for cell in cells[z["next_word"] :] if cell["token"]]
    actions = [ACTIONS[cell["action"] - 1] for cell in states if cell["action"]]
    return [f"⟨ {', '.join(part)} ⟩" if part else "⟨ ⟩" for part in (stack, tree, words, actions)]
