"""JFLAP's files of Turing machines: one tape or several, wildcards, building blocks.

The tape is endless both ways, and an empty read or write is the blank. `~` reads anything, or writes what was read;
`!a` reads anything but a. A building block runs its own machine until that halts, and then its transitions apply.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from kleene.errors import FileError, InputError
from kleene.machines.automata.jflap import body_of, kind_of, parse
from kleene.machines.multitape import MAX_CASES, MultiTapeMachine, Rule
from kleene.machines.turing import MOVES, TuringMachine
from kleene.machines.turing_files import LETTERS, Rows, make_machine
from kleene.machines.xml import Document, Element, text_of, xml_text

BLANK = "□"
ANY = "~"
MAX_DEPTH = 20  # blocks inside blocks
MAX_STATES = 100_000


@dataclass(frozen=True)
class Move:
    """A transition as the file has it; `reads` and `writes` have one part per tape."""

    element: Element
    target: str  # the id of a state of the same machine
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    ways: tuple[int, ...]

    def fits(self, shown: tuple[str, ...]) -> bool:
        """Whether the transition applies to the symbols under the heads."""
        return all(_reads(read, symbol) for read, symbol in zip(self.reads, shown))


@dataclass
class Machine:
    """The states and transitions of one level: the file's, or a block's."""

    names: dict[str, str]  # id → name
    moves: dict[str, list[Move]]  # id → the transitions that leave the state
    blocks: dict[str, Machine]  # id → the machine inside
    start: str
    final: set[str]


@dataclass(frozen=True)
class Leaf:
    """A state that is not a block: its own transitions, then those of each block around it."""

    name: str
    levels: tuple[tuple[Machine, str, str], ...]  # (machine, id in it, prefix of its names), innermost first


def _reads(read: str, symbol: str) -> bool:
    if read == ANY:
        return True
    return symbol != read[1:] if len(read) == 2 else symbol == read


class _Reader:
    def __init__(self, document: Document, tapes: int) -> None:
        self.document, self.tapes = document, tapes

    def machine(self, body: Element, depth: int = 0) -> Machine:
        """The states, blocks and transitions under an element."""
        if depth > MAX_DEPTH:
            raise self.document.error(body, f"blocks nested more than {MAX_DEPTH} deep, or a block inside itself")
        names: dict[str, str] = {}
        blocks, starts, final = dict[str, Machine](), list[Element](), set[str]()
        for state in [*body.findall("state"), *body.findall("block")]:
            key = state.get("id")
            if key is None or key in names:
                what = "without an id" if key is None else f"with id {key!r} again"
                raise self.document.error(state, f"a state {what}")
            name = state.get("name") or key
            names[key] = name if name not in names.values() else f"{name}/{key}"
            if state.find("initial") is not None:
                starts.append(state)
            if state.find("final") is not None:
                final.add(key)
            if (inner := self._inside(state)) is not None:
                blocks[key] = self.machine(inner, depth + 1)
                if key in final and depth == 0:
                    raise self.document.error(
                        state, f"the building block {name!r} is final; let it lead to a plain final state"
                    )
        if len(starts) != 1:
            raise self.document.error(
                starts[1] if starts else body, f"{len(starts) or 'no'} start states; a machine has one <initial/>"
            )
        moves: dict[str, list[Move]] = {key: [] for key in names}
        for element in body.iterfind("transition"):
            source, move = self._move(element, names)
            moves[source].append(move)
        start = starts[0].get("id")
        assert start is not None
        return Machine(names, moves, blocks, start, final)

    def _inside(self, state: Element) -> Element | None:
        """The element that holds a block's own machine; None where the block is a plain state."""
        tag = text_of(state.find("tag")).strip()
        if not tag:
            return None
        for element in self.document.root.iter(tag):
            body = element.find("automaton")
            body = element if body is None else body
            if body.find("state") is not None or body.find("block") is not None:
                return body
        return None

    def _move(self, element: Element, names: dict[str, str]) -> tuple[str, Move]:
        ends = []
        for tag in ("from", "to"):
            key = text_of(element.find(tag)).strip()
            if key not in names:
                raise self.document.error(element, f"a transition {tag} unknown state {key!r}")
            ends.append(key)
        parts: dict[str, list[str]] = {}
        for tag in ("read", "write", "move"):
            found = element.findall(tag)
            by_tape = {part.get("tape", "1"): text_of(part) for part in found}
            parts[tag] = [by_tape.get(str(tape), "") for tape in range(1, self.tapes + 1)]
        reads = tuple(self._symbol(element, text, "read") for text in parts["read"])
        writes = tuple(self._symbol(element, text, "write") for text in parts["write"])
        ways = []
        for text in parts["move"]:
            way = text.strip() or "S"
            if way not in MOVES:
                raise self.document.error(element, f"move {way!r}; it must be L, S or R")
            ways.append(MOVES[way])
        return ends[0], Move(element, ends[1], reads, writes, tuple(ways))

    def _symbol(self, element: Element, text: str, what: str) -> str:
        if text == "":
            return BLANK
        if "}" in text and len(text) > 1:
            raise self.document.error(element, f"{what}s {text!r}: a variable of JFLAP's, which is not supported")
        if len(text) == 1 or (what == "read" and len(text) == 2 and text[0] == "!"):
            return text
        raise self.document.error(element, f"{what}s {text!r}; a cell holds one character (or ~, or !a when read)")


def _leaves(machine: Machine, prefix: str, around: tuple[tuple[Machine, str, str], ...]) -> Iterator[Leaf]:
    """The states that are not blocks, at every depth."""
    for key, name in machine.names.items():
        levels = ((machine, key, prefix), *around)
        if key in machine.blocks:
            yield from _leaves(machine.blocks[key], f"{prefix}{name}/", levels)
        else:
            yield Leaf(prefix + name, levels)


def _entered(machine: Machine, key: str, prefix: str) -> str:
    """The name of the state that runs on entry: for a block, its start."""
    while key in machine.blocks:
        prefix += machine.names[key] + "/"
        machine = machine.blocks[key]
        key = machine.start
    return prefix + machine.names[key]


def _action(document: Document, leaf: Leaf, shown: tuple[str, ...]) -> tuple[str, Move] | None:
    """The next state and the transition that applies; None where the whole machine halts."""
    for machine, key, prefix in leaf.levels:
        fitting = [move for move in machine.moves[key] if move.fits(shown)]
        effects = {(m.target, tuple(_written(m, shown)), m.ways) for m in fitting}
        if len(effects) > 1:
            raise document.error(
                fitting[1].element,
                f"a second transition from {leaf.name!r} on {', '.join(map(repr, shown))}; Kleene's machines are "
                "deterministic",
            )
        if fitting:
            return _entered(machine, fitting[0].target, prefix), fitting[0]
    return None


def _written(move: Move, shown: tuple[str, ...]) -> list[str]:
    return [symbol if write == ANY else write for write, symbol in zip(move.writes, shown)]


def _read_file(text: str, where: str) -> tuple[Document, Machine, list[Leaf], int]:
    document = parse(text, where)
    kind = kind_of(document)
    if kind not in ("turing", "turingbb"):
        raise document.error(document.root, f"<type>{kind}</type>; a Turing machine has <type>turing</type>")
    element = document.root.find("tapes")
    said = text_of(element).strip() or "1"
    if not said.isdigit() or not 1 <= int(said) <= 5:
        raise document.error(element if element is not None else document.root, f"{said!r} tapes; a machine has 1 to 5")
    machine = _Reader(document, int(said)).machine(body_of(document))
    leaves: list[Leaf] = []
    for leaf in _leaves(machine, "", ()):
        if len(leaves) >= MAX_STATES:
            raise FileError(f"{where}: more than {MAX_STATES:,} states after expanding the blocks")
        leaves.append(leaf)
    return document, machine, leaves, int(said)


def _symbols(leaves: list[Leaf], tape: int) -> list[str]:
    """The symbols that transitions name on a tape, the blank first."""
    moves = {id(m): m for leaf in leaves for machine, key, _ in leaf.levels for m in machine.moves[key]}
    named = [part for m in moves.values() for part in (m.reads[tape], m.writes[tape]) if part != ANY]
    return [BLANK, *sorted({part[-1] for part in named} - {BLANK})]


def from_jflap(text: str, where: str) -> TuringMachine:
    """A machine with one tape; final states accept, and a machine that halts elsewhere rejects."""
    document, machine, leaves, tapes = _read_file(text, where)
    if tapes != 1:
        raise FileError(f"{where}: {tapes} tapes; read it with kl.MultiTapeMachine.load")
    final = {machine.names[key] for key in machine.final}
    symbols = _symbols(leaves, 0)
    rows: Rows = {}
    for leaf in leaves:
        rows[leaf.name] = {}
        for symbol in symbols if leaf.name not in final else ():  # JFLAP stops on entering a final state
            found = _action(document, leaf, (symbol,))
            if found is not None:
                target, move = found
                rows[leaf.name][symbol] = (target, _written(move, (symbol,))[0], move.ways[0])
    start = _entered(machine, machine.start, "")
    stuck = "reject" if "reject" not in rows else "reject (stuck)"
    reject = {q for q, row in rows.items() if not row and q not in final and q != start}  # no transition leaves it
    for q, row in rows.items():
        for a in [a for a in symbols if a not in row] if q not in final | reject else ():
            row[a] = (stuck, a, 0)
            reject.add(stuck)
    working = {q: row for q, row in rows.items() if q not in final | reject}
    return make_machine(where, working, start, final, reject, BLANK, None, True, Path(where).stem)


def multitape_from_jflap(text: str, where: str) -> MultiTapeMachine:
    """A machine with several tapes; the first holds the input, the others are blank."""
    document, machine, leaves, tapes = _read_file(text, where)
    symbols = [_symbols(leaves, tape) for tape in range(tapes)]
    cases = len(leaves)
    for tape in symbols:
        cases *= len(tape)
    if cases > MAX_CASES:
        raise FileError(f"{where}: {cases:,} cases of state and symbols are too many")
    final = {machine.names[key] for key in machine.final}
    rejecting = "reject"
    while rejecting in {leaf.name for leaf in leaves}:
        rejecting += "'"
    rules = []
    for leaf in leaves:
        for shown in product(*symbols) if leaf.name not in final else ():
            reads = tuple(frozenset([symbol]) for symbol in shown)
            found = _action(document, leaf, shown)
            if found is None:
                rules.append(Rule(frozenset([leaf.name]), reads, rejecting, (None,) * tapes, (0,) * tapes))
            else:
                target, move = found
                rules.append(Rule(frozenset([leaf.name]), reads, target, tuple(_written(move, shown)), move.ways))
    try:
        return MultiTapeMachine(
            tuple(map(tuple, symbols)),
            tuple(symbols[0][1:]),
            tuple(rules),
            _entered(machine, machine.start, ""),
            frozenset(final),
            frozenset([rejecting]),
            name=Path(where).stem,
        )
    except InputError as error:
        raise FileError(f"{where}: {error}") from None


def to_jflap(machine: TuringMachine) -> str:
    """Write a JFLAP file. A state without transitions rejects."""
    if not machine.two_way:
        raise FileError(
            f"{machine.name}: JFLAP's tape is two-way and this machine's tape is one-way; save it as .yaml or .json"
        )
    if BLANK in machine.symbols[1:]:
        raise FileError(
            f"{machine.name}: {BLANK!r} is JFLAP's blank and an ordinary symbol here; save it as .yaml or .json"
        )
    for symbol in machine.symbols[1:]:
        if len(symbol) != 1 or symbol == ANY:
            raise FileError(f"{machine.name}: JFLAP cannot hold the symbol {symbol!r}; save it as .yaml or .json")
    number = {q: i for i, q in enumerate(machine.states)}
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<structure>", " <type>turing</type>", " <automaton>"]
    for q, i in number.items():
        marks = ("<initial/>" if q == machine.start else "") + ("<final/>" if q in machine.accept else "")
        lines.append(f'  <state id="{i}" name="{xml_text(q)}"><x>{100 * i + 50}</x><y>100</y>{marks}</state>')
    for q, row in machine.transitions.items():
        for a, (t, w, m) in row.items():
            read, write = ("" if s == machine.blank else xml_text(s) for s in (a, w))
            lines.append(
                f"  <transition><from>{number[q]}</from><to>{number[t]}</to><read>{read}</read>"
                f"<write>{write}</write><move>{LETTERS[m]}</move></transition>"
            )
    return "\n".join([*lines, " </automaton>", "</structure>", ""])
