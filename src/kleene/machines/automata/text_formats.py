"""Automata as lines of text: AT&T (OpenFst, foma, HFST), MATA, and BA (RABIT, Reduce)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from kleene.errors import FileError
from kleene.machines.automata.dfa import DFA
from kleene.machines.automata.draft import Draft
from kleene.machines.automata.nfa import NFA

SPELLED = {"<space>": " ", "<tab>": "\t", "<newline>": "\n"}  # how AT&T files write white space
NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)(e[-+]?\d+)?|Infinity", re.IGNORECASE)
EPSILON = {"", "<eps>", "<epsilon>", "ε", "@0@"}  # how AT&T files write an empty move


def moves_of(machine: DFA | NFA) -> Iterator[tuple[int, str, int]]:
    """Every move, with those of the start states first."""
    if isinstance(machine, NFA):
        moves = machine.transitions()
        starts = set(machine.start)
        yield from (move for move in moves if move[0] in starts)
        yield from (move for move in moves if move[0] not in starts)
        return
    order = [machine.start, *(q for q in range(len(machine)) if q != machine.start)]
    yield from ((q, s, r) for q in order for s, r in zip(machine.alphabet, machine.table[q].tolist()))


def starts_of(machine: DFA | NFA) -> list[int]:
    """The start states."""
    return list(machine.start) if isinstance(machine, NFA) else [machine.start]


# AT&T: "source target input [output] [weight]" a line, "state [weight]" for a final one; the first line's source
# is the start. Weights are costs: 0 is no cost, Infinity forbids.


@dataclass(frozen=True)
class AttMove:
    """A move in an AT&T file. `written` is None if the file has no output column."""

    source: str
    target: str
    read: str
    written: str | None
    weight: float
    line: int


@dataclass
class AttFile:
    """The lines of an AT&T file."""

    where: str
    start: str
    moves: list[AttMove] = field(default_factory=list)
    final: dict[str, float] = field(default_factory=dict)  # state → cost

    @property
    def weighted(self) -> bool:
        """Whether some cost is neither 0 nor Infinity."""
        costs = [*(m.weight for m in self.moves), *self.final.values()]
        return any(cost != 0 and not math.isinf(cost) for cost in costs)

    @property
    def output(self) -> AttMove | None:
        """The first move that writes something other than it reads."""
        return next((m for m in self.moves if m.written is not None and m.written != m.read), None)


def parse_att(text: str, where: str) -> AttFile:
    """The lines of an AT&T file, checked."""
    found: AttFile | None = None
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        fields = re.findall(r"[^ \t\r]+", line)  # other white space can be a symbol
        if not fields:
            continue
        found = found or AttFile(where, fields[0])
        if len(fields) <= 2:
            cost = _cost(fields[1], where, number) if len(fields) == 2 else 0.0
            found.final[fields[0]] = cost
            continue
        if len(fields) > 5:
            raise FileError(f"{where}, line {number}: {len(fields)} fields; 'source target symbol' or 'state'")
        source, target, read = fields[:3]
        written, weight = _output_and_weight(fields[3:], where, number)
        found.moves.append(AttMove(source, target, read, written, weight, number))
    if found is None:
        raise FileError(f"{where}: no states; an AT&T file has lines 'source target symbol' and 'state'")
    if _fourth_field_is_a_weight(found.moves):
        found.moves = [
            m if m.written is None else replace(m, written=None, weight=_cost(m.written, where, m.line))
            for m in found.moves
        ]
    return found


def _fourth_field_is_a_weight(moves: list[AttMove]) -> bool:
    """Whether the lines of an acceptor are 'source target symbol weight': all fourth fields are numbers, and some have
    a point or stand beside a symbol that is not a number."""
    fourth = [m for m in moves if m.written is not None]
    if not fourth or any(m.weight for m in moves) or not all(NUMBER.fullmatch(m.written or "") for m in fourth):
        return False
    decimal = any("." in (m.written or "") or (m.written or "").startswith("I") for m in fourth)
    return decimal or not any(NUMBER.fullmatch(m.read) for m in moves)


def _output_and_weight(rest: list[str], where: str, line: int) -> tuple[str | None, float]:
    """The fields after the input symbol: nothing, an output, or an output and a cost."""
    if not rest:
        return None, 0.0
    if len(rest) == 1:
        return rest[0], 0.0
    return rest[0], _cost(rest[1], where, line)


def _cost(text: str, where: str, line: int) -> float:
    try:
        cost = float(text)
    except ValueError:
        raise FileError(f"{where}, line {line}: {text!r} is not a weight; a weight is a number or Infinity") from None
    if math.isnan(cost) or cost == -math.inf:
        raise FileError(f"{where}, line {line}: {text!r} is not a weight; a weight is a number or Infinity")
    return cost


def plain_symbol(text: str) -> str:
    """A symbol as AT&T spells it; "" for an empty move."""
    return "" if text in EPSILON else SPELLED.get(text, text)


def from_att(text: str, where: str) -> Draft:
    """A finite automaton from AT&T text without outputs and costs. A cost of Infinity forbids a move or an end."""
    file = parse_att(text, where)
    if file.output is not None:
        m = file.output
        raise FileError(
            f"{where}, line {m.line}: {m.read!r} becomes {m.written!r}: a transducer, not an automaton; "
            "read it with kl.Transducer.load"
        )
    if file.weighted:
        raise FileError(f"{where}: it has weights; read it with kl.WeightedAutomaton.load")
    draft = Draft(where)
    draft.starts = [draft.state(file.start)]
    lines = []
    for m in file.moves:
        source, target = draft.state(m.source), draft.state(m.target)
        if not math.isinf(m.weight):
            draft.move(source, plain_symbol(m.read), target)
            lines.append(m.line)
    draft.final = [draft.state(name) for name, cost in file.final.items() if not math.isinf(cost)]
    draft.move_place = lambda i: f"line {lines[i]}"
    return draft


def check_att_symbol(symbol: str) -> str:
    """Spell a symbol as AT&T files do. Reject a symbol that they cannot hold."""
    spelled = {character: name for name, character in SPELLED.items()}
    if symbol in EPSILON or symbol in SPELLED or (symbol not in spelled and re.search(r"[ \t\r\n]", symbol)):
        raise FileError(f"symbol {symbol!r}: AT&T files cannot hold it unchanged; save it as .json")
    return spelled.get(symbol, symbol)


def to_att(machine: DFA | NFA) -> str:
    """Write AT&T text, with the lines of the start state first."""
    spelled = {"": "<eps>", **{s: check_att_symbol(s) for s in machine.alphabet}}
    starts = starts_of(machine)
    if len(starts) != 1:
        raise FileError(f"{len(starts)} start states: AT&T files have one; save the automaton as .json")
    lines = [f"{p}\t{q}\t{spelled[s]}" for p, s, q in moves_of(machine)]
    final = [q for q in range(len(machine)) if machine.accepting[q]]
    if not lines or not lines[0].startswith(f"{starts[0]}\t"):  # the start state has no moves: name it first
        if starts[0] not in final:
            lines.insert(0, f"{starts[0]}\tInfinity")
        else:
            final.remove(starts[0])
            lines.insert(0, str(starts[0]))
    return "\n".join(lines + [str(q) for q in final]) + "\n"


# MATA: "@NFA-explicit" (or "@NFA-bits": mata_bits.py), "%Initial q0", "%Final q1", and moves "q0 a q1"


def from_mata(text: str, where: str) -> Draft:
    """A finite automaton in MATA's format, with explicit symbols or with formulas over bits."""
    numbered = [(n, line.partition("#")[0].strip()) for n, line in enumerate(text.split("\n"), 1)]
    content = [(n, line) for n, line in numbered if line]
    if content and content[0][1] in ("@NFA-bits", "@NFA-bits-auto"):
        from kleene.machines.automata.mata_bits import from_bits

        return from_bits(content[1:], where)
    draft, lines, header = Draft(where), list[int](), ""
    for number, line in enumerate(text.split("\n"), 1):
        words = _mata_words(line.partition("#")[0], where, number)
        if not words:
            continue
        if words[0].startswith("@"):
            if header or words[0] not in ("@NFA-explicit", "@NFA"):
                raise FileError(f"{where}, line {number}: {words[0]}; give one automaton of @NFA-explicit or @NFA-bits")
            header = words[0]
        elif words[0].startswith("%"):
            _mata_key(draft, words, where, number)
        elif len(words) in (2, 3):
            source, target = draft.state(words[0]), draft.state(words[-1])
            draft.move(source, words[1] if len(words) == 3 else "", target)
            lines.append(number)
        else:
            raise FileError(f"{where}, line {number}: {len(words)} words; a move is 'state symbol state'")
    if not header:
        raise FileError(f"{where}, line 1: no @NFA-explicit or @NFA-bits, with which MATA files begin")
    draft.move_place = lambda i: f"line {lines[i]}"
    return draft


def _mata_key(draft: Draft, words: list[str], where: str, line: int) -> None:
    key, values = words[0], words[1:]
    if key == "%Initial":
        draft.starts += [draft.state(q) for q in values]
    elif key == "%Final":
        draft.final += [draft.state(q) for q in values]
    elif key == "%Alphabet":
        draft.alphabet = values
    elif key == "%States":
        for q in values:
            draft.state(q)
    elif not key.startswith("%Alphabet") and not key.startswith("%States"):
        raise FileError(f"{where}, line {line}: {key!r} is unknown; known: %Initial, %Final, %Alphabet, %States")


def _mata_words(line: str, where: str, number: int) -> list[str]:
    """The words of a line. A word in double quotes can hold white space."""
    words = re.findall(r'"((?:[^"\\]|\\.)*)"|(\S+)', line)
    if line.count('"') % 2 and not re.search(r'\\"', line):
        raise FileError(f"{where}, line {number}: a double quote is not closed")
    return [plain or re.sub(r"\\(.)", r"\1", quoted) for quoted, plain in words]


def to_mata(machine: DFA | NFA) -> str:
    """MATA's format."""

    def quoted(symbol: str) -> str:
        if re.search(r"[\n\r#]", symbol):
            raise FileError(f"symbol {symbol!r}: MATA's files cannot hold it; save it as .json")
        if re.fullmatch(r"[^\s\"%@\\]+", symbol):
            return symbol
        return '"' + symbol.replace("\\", "\\\\").replace('"', '\\"') + '"'

    final = [q for q in range(len(machine)) if machine.accepting[q]]
    lines = ["@NFA-explicit", "%Alphabet " + " ".join(quoted(s) for s in machine.alphabet)]
    lines += ["%Initial " + " ".join(f"q{q}" for q in starts_of(machine))]
    lines += ["%Final " + " ".join(f"q{q}" for q in final)]
    lines += [f"q{p} {quoted(s) + ' ' if s else ''}q{q}" for p, s, q in moves_of(machine)]
    return "\n".join(lines) + "\n"


# BA: the start state, moves "symbol,source->target", final states; states are written [name]


def from_ba(text: str, where: str) -> Draft:
    """A finite automaton in the BA format, on finite words. If no state is final, all are."""
    draft, lines, final = Draft(where), list[int](), list[str]()
    seen = False
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip()
        move = re.fullmatch(r"(.+),(\[?[^,\]]+\]?)->(\[?[^,\]]+\]?)", line)
        if not line:
            continue
        if move:
            symbol, source, target = move.groups()
            if not seen:
                draft.starts = [draft.state(source)]
            draft.move(draft.state(source), symbol, draft.state(target))
            lines.append(number)
        elif not seen:
            draft.starts = [draft.state(line)]
        elif "->" in line:
            raise FileError(f"{where}, line {number}: {line!r:.60} should be 'symbol,[state]->[state]'")
        else:
            final.append(line)
        seen = True
    if not draft.number:
        raise FileError(f"{where}: no states; a BA file has a start state, then 'symbol,[state]->[state]'")
    draft.final = [draft.state(name) for name in final] or list(range(len(draft.number)))
    draft.move_place = lambda i: f"line {lines[i]}"
    return draft


def to_ba(machine: DFA | NFA) -> str:
    """Write the BA format. It has no empty moves, and a file without final states makes all states final."""
    starts, final = starts_of(machine), [q for q in range(len(machine)) if machine.accepting[q]]
    if len(starts) != 1 or not final:
        raise FileError(
            f"{len(starts)} start and {len(final)} final states: BA files need one start state and at least one "
            "final state; use .json"
        )
    lines = [f"[{starts[0]}]"]
    for p, symbol, q in moves_of(machine):
        if not symbol or re.search(r"[\n\r]|^\s|\s$|->", symbol):
            raise FileError(f"symbol {symbol!r}: BA files cannot hold it; save it as .json")
        lines.append(f"{symbol},[{p}]->[{q}]")
    return "\n".join([*lines, *(f"[{q}]" for q in final)]) + "\n"
