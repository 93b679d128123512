"""Files of automata: JSON, JFLAP, AT&T. Every complaint names the place in the file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from kleene.errors import FileError, InputError
from kleene.files import read_json, read_text, write_json, write_text
from kleene.machines import xml
from kleene.machines.automata.dfa import DFA, MAX_STATES

SPELLED = {"<space>": " ", "<tab>": "\t", "<newline>": "\n"}  # how AT&T files write white space
EPSILON = {"", "<eps>", "<epsilon>", "ε", "@0@"}  # how AT&T and JFLAP files write an empty move
NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def load(path: Path) -> DFA:
    """Read an automaton; the suffix says how."""
    if path.suffix == ".json":
        return from_json(read_json(path), str(path))
    text = read_text(path)
    if path.suffix == ".jff":
        return from_jflap(text, str(path))
    if path.suffix in (".att", ".fst", ".txt"):
        return from_att(text, str(path))
    raise FileError(f"{path}: unknown suffix {path.suffix!r}; automata are read from .json, .jff (JFLAP), .att (AT&T)")


def save(dfa: DFA, path: Path) -> None:
    """Write an automaton; the suffix says how."""
    if path.suffix == ".json":
        write_json(path, to_json(dfa))
    elif path.suffix == ".jff":
        write_text(path, to_jflap(dfa))
    elif path.suffix in (".att", ".fst", ".txt"):
        write_text(path, to_att(dfa))
    elif path.suffix in (".dot", ".gv"):
        write_text(path, dfa.to_dot())
    elif path.suffix in (".png", ".svg", ".pdf"):
        from kleene.show.automata import draw

        draw(dfa, path)
    else:
        raise FileError(f"{path}: unknown suffix {path.suffix!r}; use .json, .jff, .att, .dot, .png, .svg or .pdf")


class _Rows:
    """Transitions as they are read: checked one by one, made into a table at the end."""

    def __init__(self, where: str, epsilon: Iterable[str] = EPSILON) -> None:
        self.where, self.epsilon = where, epsilon
        self.number: dict[str, int] = {}
        self.place: dict[str, str] = {}
        self.moves: dict[tuple[str, str], str] = {}

    def state(self, name: str, place: str) -> str:
        if name not in self.number:
            if len(self.number) >= MAX_STATES:
                raise FileError(f"{self.where}, {place}: more than {MAX_STATES:,} states")
            self.number[name] = len(self.number)
            self.place[name] = place
        return name

    def move(self, source: str, symbol: str, target: str, place: str) -> None:
        if symbol in self.epsilon:
            raise FileError(f"{self.where}, {place}: an empty (ε) move from {source!r}; a DFA reads a symbol a move")
        known = self.moves.setdefault((source, symbol), target)
        if known != target:
            raise FileError(
                f"{self.where}, {place}: a second move from {source!r} on {symbol!r} (to {target!r}, before "
                f"to "
                f"{known!r}); a DFA has one"
            )

    def dfa(self, start: str, accepting: Iterable[str], alphabet: tuple[str, ...] | None = None) -> DFA:
        symbols = alphabet or tuple(sorted({symbol for _, symbol in self.moves}))
        if not symbols:
            raise FileError(f"{self.where}: no transitions, so no alphabet; give at least one")
        for name in self.number:  # before the table is made: its size is then that of the file
            for symbol in symbols:
                if (name, symbol) not in self.moves:
                    raise FileError(
                        f"{self.where}, {self.place[name]}: state {name!r} has no transition for {symbol!r}; "
                        "a DFA needs one for every symbol"
                    )
        table = np.array([[self.number[self.moves[name, s]] for s in symbols] for name in self.number])
        final = np.array(sorted({self.number[name] for name in accepting}), dtype=int)
        return DFA(table, final, symbols, self.number[start], tuple(self.number))


# JSON: {"alphabet": […], "start": "q0", "accepting": […], "transitions": {"q0": {"0": "q1", …}, …}}


def to_json(dfa: DFA) -> dict[str, object]:
    """Plain data."""
    names = _distinct_names(dfa)
    return {
        "kind": "dfa",
        "version": 1,
        "alphabet": list(dfa.alphabet),
        "start": names[dfa.start],
        "accepting": [names[q] for q in np.flatnonzero(dfa.accepting)],
        "transitions": {
            names[q]: {s: names[r] for s, r in zip(dfa.alphabet, row)} for q, row in enumerate(dfa.table.tolist())
        },
    }


def from_json(data: Any, where: str) -> DFA:
    """From plain data."""
    if not isinstance(data, dict):
        raise FileError(f"{where}: not an automaton; it should be an object with 'start', 'accepting', 'transitions'")
    if data.get("version", 1) != 1:
        raise FileError(f"{where}: version {data['version']!r} is unknown; known: 1")
    for key, kind in (("alphabet", list), ("accepting", list), ("transitions", dict), ("start", str)):
        if not isinstance(data.get(key), kind):
            right = {list: "a list", dict: "an object", str: "one state's name"}[kind]
            raise FileError(f"{where}, {key!r}: is {data.get(key)!r:.40}; it should be {right}")
    if not all(isinstance(s, str) for s in data["alphabet"]):
        raise FileError(f"{where}, 'alphabet': symbols should be strings")
    rows = _Rows(where, epsilon=("",))
    for name in data["transitions"]:
        rows.state(name, f"'transitions' → {name!r}")
    for name, moves in data["transitions"].items():
        place = f"'transitions' → {name!r}"
        if not isinstance(moves, dict):
            raise FileError(f"{where}, {place}: should be an object from symbols to states")
        for symbol, target in moves.items():
            if symbol not in data["alphabet"]:
                raise FileError(f"{where}, {place}: unknown symbol {symbol!r}; the alphabet is {data['alphabet']}")
            if not isinstance(target, str) or target not in rows.number:
                raise FileError(f"{where}, {place} → {symbol!r}: unknown state {target!r}")
            rows.move(name, symbol, target, place)
    for key, names in (("start", [data["start"]]), ("accepting", data["accepting"])):
        for name in names:
            if not isinstance(name, str) or name not in rows.number:
                raise FileError(f"{where}, {key!r}: unknown state {name!r}")
    try:
        return rows.dfa(data["start"], data["accepting"], tuple(data["alphabet"]))
    except InputError as error:
        raise FileError(f"{where}: {error}") from None


def _distinct_names(dfa: DFA) -> list[str]:
    names = [dfa.name(q) for q in range(len(dfa))]
    return names if len(set(names)) == len(names) else [f"q{q}" for q in range(len(dfa))]


# JFLAP: an XML file with <type>fa</type>


def from_jflap(text: str, where: str) -> DFA:
    """From a JFLAP file."""
    root = xml.parse(text, where)
    kind = root.first("type")
    if kind is None or kind.text.strip() != "fa":
        found = "no <type>" if kind is None else f"<type>{kind.text.strip()}</type>"
        raise FileError(f"{where}, line {root.line}: {found}; a finite automaton has <type>fa</type>")
    body = root.first("automaton") or root
    rows, ids = _Rows(where), {}
    starts, final = [], []
    for state in body.all("state"):
        if "id" not in state.attributes:
            raise FileError(f"{where}, line {state.line}: a <state> without an id")
        if state.attributes["id"] in ids:
            raise FileError(f"{where}, line {state.line}: a second state with id {state.attributes['id']!r}")
        name = state.attributes.get("name") or state.attributes["id"]
        name = name if name not in rows.number else f"{name}/{state.attributes['id']}"
        ids[state.attributes["id"]] = rows.state(name, f"line {state.line}")
        if state.first("initial"):
            starts.append((name, state.line))
        if state.first("final"):
            final.append(name)
    for move in body.all("transition"):
        ends = []
        for tag in ("from", "to"):
            end = move.first(tag)
            key = "" if end is None else end.text.strip()
            if key not in ids:
                raise FileError(f"{where}, line {move.line}: a transition {tag} unknown state {key!r}")
            ends.append(ids[key])
        read = move.first("read")
        rows.move(ends[0], "" if read is None else read.text, ends[1], f"line {move.line}")
    if len(starts) != 1:
        place = f"line {starts[1][1] if starts else body.line}"
        raise FileError(f"{where}, {place}: {len(starts) or 'no'} start states; a DFA has one <initial/>")
    return rows.dfa(starts[0][0], final)


def to_jflap(dfa: DFA) -> str:
    """A JFLAP file; states on a circle."""
    for symbol in dfa.alphabet:
        if symbol in EPSILON:
            raise FileError(f"symbol {symbol!r}: JFLAP files read it as an empty move; save the automaton as .json")
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<structure>", " <type>fa</type>", " <automaton>"]
    for q in range(len(dfa)):
        angle = 2 * np.pi * q / len(dfa)
        x, y = 300 + 200 * np.cos(angle), 300 + 200 * np.sin(angle)
        marks = ("<initial/>" if q == dfa.start else "") + ("<final/>" if dfa.accepting[q] else "")
        lines.append(f'  <state id="{q}" name="{xml_text(dfa.name(q))}"><x>{x:.1f}</x><y>{y:.1f}</y>{marks}</state>')
    for q, row in enumerate(dfa.table.tolist()):
        for symbol, r in zip(dfa.alphabet, row):
            read = xml_text(symbol)
            lines.append(f"  <transition><from>{q}</from><to>{r}</to><read>{read}</read></transition>")
    return "\n".join([*lines, " </automaton>", "</structure>", ""])


def xml_text(text: str) -> str:
    """Text for XML, white space included; refused where XML has no way to write a character."""
    from xml.sax.saxutils import escape

    if bad := NOT_XML.search(text):
        raise FileError(f"{text!r:.60}: XML cannot hold {bad.group()!r}, so JFLAP files cannot; save it as .json")
    return escape(text, {"\r": "&#13;", "\n": "&#10;", "\t": "&#9;", '"': "&quot;"})


# AT&T: "source target symbol" a line, "state" for a final one; the first line's source is the start


def from_att(text: str, where: str) -> DFA:
    """From AT&T text (OpenFst, foma, HFST)."""
    rows, final = _Rows(where), []
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        fields = re.findall(r"[^ \t\r]+", line)  # no other white space: it can be a symbol
        place = f"line {number}"
        if not fields:
            continue
        if len(fields) in (1, 2):
            final.append(rows.state(fields[0], place))
        elif len(fields) in (3, 4, 5):
            source, target, symbol = fields[:3]
            if len(fields) >= 4 and fields[3] != symbol:
                raise FileError(f"{where}, {place}: {symbol!r} becomes {fields[3]!r}: a transducer, not an automaton")
            rows.move(rows.state(source, place), SPELLED.get(symbol, symbol), rows.state(target, place), place)
        else:
            raise FileError(f"{where}, {place}: {len(fields)} fields; 'source target symbol' or 'state'")
    if not rows.number:
        raise FileError(f"{where}: no states; an AT&T file has lines 'source target symbol' and 'state'")
    return rows.dfa(next(iter(rows.number)), final)


def to_att(dfa: DFA) -> str:
    """AT&T text; the start state's lines come first."""
    spelled = {character: name for name, character in SPELLED.items()}
    for s in dfa.alphabet:
        if s in EPSILON or s in SPELLED or (s not in spelled and re.search(r"[ \t\r\n]", s)):
            raise FileError(f"symbol {s!r}: AT&T files cannot hold it, or read it as another; save it as .json")
    order = [dfa.start, *(q for q in range(len(dfa)) if q != dfa.start)]
    lines = [f"{q}\t{r}\t{spelled.get(s, s)}" for q in order for s, r in zip(dfa.alphabet, dfa.table[q].tolist())]
    return "\n".join(lines + [str(q) for q in order if dfa.accepting[q]]) + "\n"
