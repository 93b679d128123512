"""Deterministic automata with output: Mealy machines, Moore machines, and sequential transducers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from kleene.common.alphabet import Word, check_alphabet, encode
from kleene.errors import FileError, InputError, a_type, counted
from kleene.files import as_path, read_json, write_json, write_text
from kleene.machines.automata.dfa import DFA

UNDEFINED = -1
Output = tuple[str, ...]


@dataclass(frozen=True, eq=False, init=False)
class Transducer:
    """A sequential transducer: in state q it reads a, writes outputs[q][a], and goes to table[q, a].

    A Mealy machine writes one symbol per move. A Moore machine writes a symbol for each state that it enters, the
    start state included: `first`. A word that ends in a state also writes what `last` holds for that state; if
    that is None, the word is not in the domain.

    >>> flip = Transducer.mealy([[0, 0]], ["10"], "01")
    >>> flip("0110")
    '1001'
    """

    table: np.ndarray  # (state, symbol) → state, or UNDEFINED
    outputs: tuple[tuple[Output, ...], ...]  # state → symbol → what is written
    alphabet: tuple[str, ...]
    start: int
    first: Output
    last: tuple[Output | None, ...]
    names: tuple[str, ...] | None

    def __init__(
        self,
        table: Any,
        outputs: Sequence[Sequence[Word]],
        alphabet: Iterable[str],
        start: int = 0,
        *,
        first: Word = (),
        last: Sequence[Word | None] | None = None,
        names: Iterable[str] | None = None,
    ) -> None:
        """Check the parts.

        table: one row per state and one column per symbol; −1 where the machine has no move
        outputs: a word for each move, in the shape of the table
        alphabet: the input symbols
        start: the start state's number
        first: the output before the first symbol
        last: the output at the end, for each state; None where no word may end
        names: the states' names
        """
        symbols = check_alphabet(alphabet)
        rows = np.asarray(table)
        if rows.ndim != 2 or rows.shape[0] == 0 or rows.shape[1] != len(symbols) or rows.dtype.kind not in "iu":
            raise InputError(
                f"Transducer: the table has shape {rows.shape}; it needs one row per state and {len(symbols)} columns "
                "of whole numbers"
            )
        states = rows.shape[0]
        if int(rows.min()) < UNDEFINED or int(rows.max()) >= states:
            raise InputError(f"Transducer: the table names states outside 0…{states - 1}")
        if len(outputs) != states or any(len(row) != len(symbols) for row in outputs):
            raise InputError(f"Transducer: the outputs need {states} rows of {len(symbols)} words")
        if not isinstance(start, int | np.integer) or not 0 <= start < states:
            raise InputError(f"Transducer: start state {start!r} is outside 0…{states - 1}")
        ends: Sequence[Word | None] = [()] * states if last is None else last
        if len(ends) != states:
            raise InputError(f"Transducer: {counted(len(ends), 'last output')} for {counted(states, 'state')}")
        for key, value in (
            ("table", rows.astype(np.int32)),
            ("outputs", tuple(tuple(tuple(word) for word in row) for row in outputs)),
            ("alphabet", symbols),
            ("start", int(start)),
            ("first", tuple(first)),
            ("last", tuple(None if word is None else tuple(word) for word in ends)),
            ("names", None if names is None else tuple(names)),
        ):
            object.__setattr__(self, key, value)

    @classmethod
    def mealy(cls, table: Any, outputs: Sequence[Sequence[str]], alphabet: Iterable[str], start: int = 0) -> Transducer:
        """A Mealy machine: one output symbol per move."""
        return cls(table, [[(symbol,) for symbol in row] for row in outputs], alphabet, start)

    @classmethod
    def moore(cls, table: Any, outputs: Sequence[str], alphabet: Iterable[str], start: int = 0) -> Transducer:
        """A Moore machine: one output symbol for each state, the start state included."""
        rows = np.asarray(table)
        moves = [[(outputs[r],) for r in row] for row in rows.tolist()]
        return cls(rows, moves, alphabet, start, first=(outputs[start],))

    @classmethod
    def from_moves(
        cls,
        where: str,
        names: Sequence[str],
        start: int,
        moves: Mapping[tuple[int, str], tuple[int, Word]],
        first: Word = (),
        last: Sequence[Word | None] | None = None,
    ) -> Transducer:
        """Build a machine from (state, symbol) → (state, output). The alphabet is the symbols that occur."""
        symbols = tuple(sorted({symbol for _, symbol in moves}))
        if not symbols:
            raise FileError(f"{where}: no transitions, so no alphabet; give at least one")
        table = np.full((len(names), len(symbols)), UNDEFINED, dtype=np.int32)
        outputs: list[list[Word]] = [[()] * len(symbols) for _ in names]
        for (q, symbol), (r, out) in moves.items():
            a = symbols.index(symbol)
            table[q, a], outputs[q][a] = r, out
        return cls(table, outputs, symbols, start, first=first, last=last, names=names)

    def __len__(self) -> int:
        return len(self.outputs)

    def name(self, state: int) -> str:
        """A state's name; `q3` where it has none."""
        return self.names[state] if self.names else f"q{state}"

    def __str__(self) -> str:
        lines = [f"Transducer: {counted(len(self), 'state')} over {{{', '.join(self.alphabet[:12])}}}"]
        for q in range(min(len(self), 20)):
            moves = "  ".join(
                f"{s}/{' '.join(out) or 'ε'}→{self.name(r)}"
                for s, r, out in zip(self.alphabet, self.table[q].tolist(), self.outputs[q])
                if r >= 0
            )
            lines.append(f"{'→' if q == self.start else ' '} {self.name(q)}: {moves}")
        return "\n".join(lines + (["  …"] if len(self) > 20 else []))

    @cached_property
    def index(self) -> dict[str, int]:
        """Each input symbol's column."""
        return {symbol: i for i, symbol in enumerate(self.alphabet)}

    @cached_property
    def output_alphabet(self) -> tuple[str, ...]:
        """The symbols that can be written, sorted."""
        words = [self.first, *(w for w in self.last if w), *(w for row in self.outputs for w in row)]
        return tuple(sorted({symbol for word in words for symbol in word}))

    def __call__(self, word: Word) -> Word:
        """The output for a word: text if every output symbol is one character, otherwise a list."""
        state, written = self.start, list(self.first)
        for place, code in enumerate(encode(word, self.index)):
            if self.table[state, code] < 0:
                raise InputError(
                    f"word {word!r:.60}: {self.name(state)!r} has no move on {self.alphabet[code]!r} at position "
                    f"{place}"
                )
            written += self.outputs[state][code]
            state = int(self.table[state, code])
        end = self.last[state]
        if end is None:
            raise InputError(f"word {word!r:.60}: it ends in {self.name(state)!r}, where no word may end")
        return self._spell((*written, *end))

    def _spell(self, symbols: Sequence[str]) -> Word:
        return "".join(symbols) if all(len(s) == 1 for s in self.output_alphabet) else list(symbols)

    def domain(self) -> DFA:
        """The automaton of the words that the machine reads to the end."""
        sink = len(self)
        table = np.where(self.table < 0, sink, self.table)
        table = np.concatenate([table, np.full((1, len(self.alphabet)), sink)])
        accepting = [*(end is not None for end in self.last), False]
        return DFA(table, accepting, self.alphabet, self.start)

    def compose(self, then: Transducer) -> Transducer:
        """The composition: run this machine, then the other machine on its output."""
        if unknown := [s for s in self.output_alphabet if s not in then.index]:
            raise InputError(f"compose: the first machine writes {unknown[0]!r}, which the second does not read")
        begin, written = then.steps(then.start, self.first)
        if begin is None:
            raise InputError("compose: the second machine cannot read what the first writes at its start")
        number = {(self.start, begin): 0}
        queue = [(self.start, begin)]
        rows, outs, ends = list[list[int]](), list[list[Output]](), list[Output | None]()
        for p, q in queue:
            row, out = list[int](), list[Output]()
            for r, word in zip(self.table[p].tolist(), self.outputs[p]):
                after, text = then.steps(q, word) if r >= 0 else (None, ())
                if after is None:
                    row.append(UNDEFINED)
                    out.append(())
                    continue
                pair = (r, after)
                if pair not in number:
                    number[pair] = len(number)
                    queue.append(pair)
                row.append(number[pair])
                out.append(text)
            rows.append(row)
            outs.append(out)
            ends.append(self._end(p, q, then))
        return Transducer(rows, outs, self.alphabet, first=(*then.first, *written), last=ends)

    def _end(self, p: int, q: int, then: Transducer) -> Output | None:
        mine = self.last[p]
        if mine is None:
            return None
        after, text = then.steps(q, mine)
        theirs = None if after is None else then.last[after]
        return None if theirs is None else (*text, *theirs)

    def steps(self, state: int, word: Word) -> tuple[int | None, Output]:
        """The state after a word from some state, and the output; None if a move is missing."""
        written: list[str] = []
        for code in encode(word, self.index):
            if self.table[state, code] < 0:
                return None, ()
            written += self.outputs[state][code]
            state = int(self.table[state, code])
        return state, tuple(written)

    def minimise(self) -> Transducer:
        """The smallest machine that writes the same at every step (Mealy and Moore machines' own minimisation).

        Merge states with the same outputs, ends and missing moves, now and after every word.
        """
        reach, seen = [self.start], {self.start}
        for q in reach:
            reach += [r for r in dict.fromkeys(self.table[q].tolist()) if r >= 0 and r not in seen]
            seen.update(reach[len(seen) :])
        classes = dict.fromkeys(reach, 0)
        keys: dict[Any, int] = {}
        while True:
            before = len(keys)
            rows = {
                q: (
                    classes[q],
                    self.outputs[q],
                    self.last[q],
                    tuple(UNDEFINED if r < 0 else classes[r] for r in self.table[q].tolist()),
                )
                for q in reach
            }
            keys = {}
            classes = {q: keys.setdefault(row, len(keys)) for q, row in rows.items()}
            if len(keys) == before:
                break
        one = {c: q for q, c in reversed(list(classes.items()))}
        order = sorted(one)
        table = [[UNDEFINED if r < 0 else classes[r] for r in self.table[one[c]].tolist()] for c in order]
        outputs = [self.outputs[one[c]] for c in order]
        ends = [self.last[one[c]] for c in order]
        return Transducer(table, outputs, self.alphabet, classes[self.start], first=self.first, last=ends)

    def distinguish(self, other: Transducer) -> Word | None:
        """A word on which the outputs differ or only one is defined; None if there is no such word.

        Carry along what one machine has written ahead of the other, so that machines that write at different times can
        be compared. The search goes on for ever only if the outputs differ, and then it finds the difference.
        """
        if not isinstance(other, Transducer):
            raise InputError(f"{other!r:.60}: {a_type(other)}; give a Transducer")
        if set(self.alphabet) != set(other.alphabet):
            raise InputError("Transducer: the two input alphabets must be equal")
        left, right = _living(self), _living(other)
        first = (self.start, other.start, *_cancel(self.first, other.first))
        came: dict[Any, tuple[Any, str] | None] = {first: None}
        queue = [first]
        bound = 2 * (len(self) + 1) * (len(other) + 1) * (1 + _longest(self) + _longest(other))
        for key in queue:
            _, _, mine, theirs = key
            if self._differs(other, key) or (mine and theirs) or len(mine) + len(theirs) > bound:
                ending = _to_an_end(self, other, key, left, right)
                return self._path(came, key, ending)
            for symbol in self.alphabet:
                after = _both(self, other, key, symbol, left, right)
                if after is not None and after not in came:
                    came[after] = (key, symbol)
                    queue.append(after)
        return None

    def _differs(self, other: Transducer, key: Any) -> bool:
        p, q, mine, theirs = key
        end, other_end = (self.last[p] if p >= 0 else None), (other.last[q] if q >= 0 else None)
        if end is None or other_end is None:
            return (end is None) != (other_end is None)
        return (*mine, *end) != (*theirs, *other_end)

    def _path(self, came: Any, key: Any, ending: list[str]) -> Word:
        symbols: list[str] = []
        while came[key] is not None:
            key, symbol = came[key]
            symbols.append(symbol)
        found = [*symbols[::-1], *ending]
        return "".join(found) if all(len(s) == 1 for s in self.alphabet) else found

    def equivalent(self, other: Transducer) -> bool:
        """Whether both write the same on every word."""
        return self.distinguish(other) is None

    # Files

    def to_json(self) -> dict[str, object]:
        """Convert to plain data; `Transducer.load` reads it."""
        return {
            "kind": "transducer",
            "version": 1,
            "alphabet": list(self.alphabet),
            "start": self.start,
            "first": list(self.first),
            "table": self.table.tolist(),
            "outputs": [[list(word) for word in row] for row in self.outputs],
            "last": [None if word is None else list(word) for word in self.last],
            **({} if self.names is None else {"names": list(self.names)}),
        }

    def save(self, path: str | Path) -> None:
        """Write `.json`, `.jff` (JFLAP's Mealy machine), `.att` (AT&T) or `.dot`."""
        path = as_path(path)
        if path.suffix == ".json":
            write_json(path, self.to_json())
        elif path.suffix == ".jff":
            write_text(path, _to_jflap(self))
        elif path.suffix in (".att", ".fst"):
            write_text(path, _to_att(self))
        elif path.suffix in (".dot", ".gv"):
            write_text(path, self.to_dot())
        else:
            raise FileError(f"{path}: unknown suffix {path.suffix!r}; use .json, .jff, .att or .dot")

    def to_dot(self) -> str:
        """The machine in Graphviz's language."""
        from kleene.show.automata import transducer_to_dot

        return transducer_to_dot(self)

    @classmethod
    def load(cls, path: str | Path) -> Transducer:
        """Read `.json`, `.jff` (JFLAP's Mealy and Moore machines) or `.att` (AT&T, deterministic on its input)."""
        path = as_path(path)
        if path.suffix == ".json":
            return from_json(read_json(path), str(path))
        if path.suffix in (".jff", ".jflap"):
            from kleene.files import read_text
            from kleene.machines.automata.jflap import parse, read_transducer

            return read_transducer(parse(read_text(path), str(path)))
        if path.suffix in (".att", ".fst", ".txt"):
            from kleene.machines.automata.files import read_automaton_text

            return _from_att(read_automaton_text(path), str(path))
        raise FileError(f"{path}: unknown suffix {path.suffix!r}; use .json, .jff or .att")


def _cancel(left: Output, right: Output) -> tuple[Output, Output]:
    """Two outputs without the prefix that they share."""
    same = 0
    while same < min(len(left), len(right)) and left[same] == right[same]:
        same += 1
    return left[same:], right[same:]


def _longest(machine: Transducer) -> int:
    words = [machine.first, *(w for w in machine.last if w), *(w for row in machine.outputs for w in row)]
    return max(len(w) for w in words)


def _living(machine: Transducer) -> np.ndarray:
    """Whether some word from each state can end."""
    from kleene.machines.automata.operations import alive

    return alive(machine.domain())[: len(machine)]


def _both(left: Transducer, right: Transducer, key: Any, symbol: str, alive_l: Any, alive_r: Any) -> Any:
    """The pair of states after one symbol, with the lead of each; None if neither word can end any more."""
    p, q, mine, theirs = key
    sides = []
    for machine, state, ahead, living in ((left, p, mine, alive_l), (right, q, theirs, alive_r)):
        code = machine.index[symbol]
        after = int(machine.table[state, code]) if state >= 0 else -1
        if after < 0 or not living[after]:
            sides.append((-1, ()))
        else:
            sides.append((after, (*ahead, *machine.outputs[state][code])))
    (p, mine), (q, theirs) = sides
    if p < 0 and q < 0:
        return None
    return (p, q, *_cancel(mine, theirs)) if p >= 0 and q >= 0 else (p, q, (), ())


def _to_an_end(left: Transducer, right: Transducer, key: Any, alive_l: Any, alive_r: Any) -> list[str]:
    """A shortest continuation after which the whole outputs of the two machines differ."""
    queue: list[tuple[Any, list[str]]] = [(key, [])]
    seen = {key[:2]}
    for at, symbols in queue:
        if left._differs(right, at):
            return symbols
        for symbol in left.alphabet:
            after = _both(left, right, at, symbol, alive_l, alive_r)
            if after is not None and (after[:2] not in seen or left._differs(right, after)):
                seen.add(after[:2])
                queue.append((after, [*symbols, symbol]))
    raise AssertionError("two machines that differ differ at some end")


def from_json(data: Any, where: str) -> Transducer:
    if not isinstance(data, dict) or data.get("kind") != "transducer" or data.get("version") != 1:
        raise FileError(f"{where}: not a transducer of version 1, as Transducer.save writes it")
    try:
        words = [data["first"], *(word for row in data["outputs"] for word in row), *(data["last"] or ())]
        wrong = [symbol for word in words for symbol in word or () if not isinstance(symbol, str)]
        if wrong or not isinstance(data["names"] if data.get("names") else [], list):
            raise ValueError(f"it writes {str(wrong[0])[:40]}, no symbol" if wrong else "its names are no list")
        return Transducer(
            data["table"],
            data["outputs"],
            data["alphabet"],
            data["start"],
            first=data["first"],
            last=data["last"],
            names=data.get("names"),
        )
    except (KeyError, TypeError, ValueError, InputError) as error:
        raise FileError(f"{where}: not a transducer ({error})") from None


def _from_att(text: str, where: str) -> Transducer:
    from kleene.machines.automata.text_formats import parse_att, plain_symbol

    file = parse_att(text, where)
    if file.weighted:
        raise FileError(f"{where}: it has weights; read it with kl.WeightedAutomaton.load")
    names = list(dict.fromkeys([file.start, *(q for m in file.moves for q in (m.source, m.target)), *file.final]))
    number = {name: i for i, name in enumerate(names)}
    moves: dict[tuple[int, str], tuple[int, Word]] = {}
    for m in file.moves:
        read = plain_symbol(m.read)
        written = read if m.written is None else plain_symbol(m.written)
        if not read:
            raise FileError(f"{where}, line {m.line}: an empty input; Kleene's transducers read a symbol per move")
        target = (number[m.target], (written,) if written else ())
        if moves.setdefault((number[m.source], read), target) != target:
            raise FileError(f"{where}, line {m.line}: a second move from {m.source!r} on {read!r}; give one")
    ends: list[Word | None] = [() if file.final.get(name, np.inf) != np.inf else None for name in names]
    return Transducer.from_moves(where, names, 0, moves, last=ends)


def _to_att(machine: Transducer) -> str:
    from kleene.machines.automata.text_formats import check_att_symbol

    if machine.first or any(machine.last):
        raise FileError("transducer: AT&T files cannot write before the first symbol or at the end; save it as .json")
    order = [machine.start, *(q for q in range(len(machine)) if q != machine.start)]
    lines = []
    for q in order:
        for a, (r, out) in enumerate(zip(machine.table[q].tolist(), machine.outputs[q])):
            if len(out) > 1:
                raise FileError(
                    f"transducer: it writes {''.join(out)!r} in one move; AT&T files write at most one symbol"
                )
            if r >= 0:
                written = check_att_symbol(out[0]) if out else "<eps>"
                lines.append(f"{q}\t{r}\t{check_att_symbol(machine.alphabet[a])}\t{written}")
    ends = [str(q) for q in order if machine.last[q] is not None]
    if not lines or not lines[0].startswith(f"{machine.start}\t"):
        lines.insert(0, f"{machine.start}" if machine.last[machine.start] is not None else f"{machine.start}\tInfinity")
    return "\n".join([*lines, *ends]) + "\n"


def _to_jflap(machine: Transducer) -> str:
    from kleene.machines.xml import xml_text

    if machine.first or any(end != () for end in machine.last):
        raise FileError("transducer: JFLAP's Mealy machines write only on moves and may end anywhere; use .json")
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<structure>", " <type>mealy</type>", " <automaton>"]
    for q in range(len(machine)):
        mark = "<initial/>" if q == machine.start else ""
        lines.append(f'  <state id="{q}" name="{xml_text(machine.name(q))}"><x>{80 * q}</x><y>80</y>{mark}</state>')
    for q, row in enumerate(machine.table.tolist()):
        for a, r in enumerate(row):
            if len(machine.alphabet[a]) != 1 or any(len(s) != 1 for s in machine.outputs[q][a]):
                raise FileError("transducer: JFLAP's symbols are single characters; save it as .json")
            if r >= 0:
                read, out = xml_text(machine.alphabet[a]), xml_text("".join(machine.outputs[q][a]))
                lines.append(
                    f"  <transition><from>{q}</from><to>{r}</to><read>{read}</read>"
                    f"<transout>{out}</transout></transition>"
                )
    return "\n".join([*lines, " </automaton>", "</structure>", ""])
