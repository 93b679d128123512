"""Files of Turing machines: bbchallenge text, turingmachine.io YAML, JFLAP, JSON.

A transition that a YAML or JFLAP file leaves out is a step that rejects; on a one-way tape (Sipser's
machines) every transition must be there. Every complaint names the place in the file.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from kleene.errors import FileError, InputError
from kleene.files import read_json, read_text, write_json, write_text
from kleene.machines import xml
from kleene.machines.automata.files import xml_text
from kleene.machines.turing import MOVES, TuringMachine

LIMIT = 16 * 1024 * 1024
BLANK = "□"  # JFLAP's
LETTERS = {-1: "L", 0: "S", 1: "R"}
BBCHALLENGE = re.compile(r"(?:[0-9][LR][A-Z]|---)+(?:_(?:[0-9][LR][A-Z]|---)+)*")

Rows = dict[str, dict[str, tuple[str, str, int]]]


def load(path: Path) -> TuringMachine:
    """Read a machine; the suffix says how."""
    if path.suffix == ".json":
        return from_json(read_json(path, LIMIT), str(path))
    text = read_text(path, LIMIT)
    if path.suffix in (".yaml", ".yml"):
        from kleene.machines.turing_yaml import from_yaml

        return from_yaml(text, str(path))
    if path.suffix == ".jff":
        return from_jflap(text, str(path))
    if path.suffix in (".txt", ".tm", ".bb"):
        return from_bbchallenge(text.strip(), str(path))
    raise FileError(f"{path}: unknown suffix {path.suffix!r}; machines are read from .yaml, .jff, .json and .txt")


def save(machine: TuringMachine, path: Path) -> None:
    """Write a machine; the suffix says how."""
    if path.suffix == ".json":
        write_json(path, to_json(machine))
    elif path.suffix in (".yaml", ".yml"):
        from kleene.machines.turing_yaml import to_yaml

        write_text(path, to_yaml(machine))
    elif path.suffix == ".jff":
        write_text(path, to_jflap(machine))
    elif path.suffix in (".dot", ".gv"):
        write_text(path, machine.to_dot())
    else:
        raise FileError(f"{path}: unknown suffix {path.suffix!r}; use .json, .yaml, .jff or .dot")


# bbchallenge: a row a state, three characters a symbol, as in 1RB1LB_1LA1RZ


def from_bbchallenge(text: str, where: str) -> TuringMachine:
    """From bbchallenge's text; a state without a row of its own halts."""
    if not BBCHALLENGE.fullmatch(text):
        good = re.match(r"(?:(?:[0-9][LR][A-Z]|---)_?)*", text)
        at = good.end() if good else 0
        raise FileError(
            f"{where}, character {at + 1}: {text[at : at + 10]!r} is not bbchallenge text such as '1RB1LB_1LA1RZ'"
        )
    lines = text.split("_")
    width = len(lines[0]) // 3
    rows: Rows = {}
    for i, line in enumerate(lines):
        if len(line) != 3 * width:
            raise FileError(f"{where}, row {i + 1}: {len(line) // 3} transitions; the first row has {width}")
        rows[chr(65 + i)] = {}
        for a in range(width):
            write, move, target = list(line[3 * a : 3 * a + 3].replace("---", "1RZ"))
            if int(write) >= max(width, 2):
                raise FileError(f"{where}, row {i + 1}, symbol {a}: writes {write}; the symbols are 0…{width - 1}")
            rows[chr(65 + i)][str(a)] = (target if ord(target) < 65 + len(lines) else "Z", write, MOVES[move])
    if width == 1:  # a machine of one column can still write a 1 as it halts
        for row in rows.values():
            row.setdefault("1", ("Z", "1", 1))
    return TuringMachine(rows, "A", frozenset("Z"), blank="0", name=text if len(text) < 60 else text[:57] + "…")


# JSON


def to_json(machine: TuringMachine) -> dict[str, object]:
    """Plain data."""
    return {
        "kind": "turing-machine",
        "version": 1,
        "name": machine.name,
        "tape": "two-way" if machine.two_way else "one-way",
        "blank": machine.blank,
        "input": list(machine.input_alphabet or ()),
        "start": machine.start,
        "accept": sorted(machine.accept),
        "reject": sorted(machine.reject),
        "transitions": {
            q: {a: [t, w, LETTERS[m]] for a, (t, w, m) in row.items()} for q, row in machine.transitions.items()
        },
    }


def from_json(data: Any, where: str) -> TuringMachine:
    """From plain data."""
    if not isinstance(data, dict):
        raise FileError(f"{where}: not a machine; it should be an object with 'start', 'accept', 'transitions'")
    if data.get("version", 1) != 1:
        raise FileError(f"{where}: version {data['version']!r} is unknown; known: 1")
    expected = (
        ("start", str),
        ("blank", str),
        ("accept", list),
        ("reject", list),
        ("input", list),
        ("transitions", dict),
    )
    for key, kind in expected:
        if not isinstance(data.get(key), kind):
            right = {list: "a list", dict: "an object", str: "one text"}[kind]
            raise FileError(f"{where}, {key!r}: is {data.get(key)!r:.40}; it should be {right}")
    if data.get("tape") not in ("one-way", "two-way"):
        raise FileError(f"{where}, 'tape': is {data.get('tape')!r}; it should be 'one-way' or 'two-way'")
    rows: Rows = {}
    for q, row in data["transitions"].items():
        if not isinstance(row, dict):
            raise FileError(
                f"{where}, 'transitions' → {q!r}: should be an object from symbols to [state, symbol, move]"
            )
        rows[q] = {}
        for a, action in row.items():
            good = isinstance(action, list) and len(action) == 3 and all(isinstance(x, str) for x in action)
            if not good or action[2] not in MOVES:
                raise FileError(f"{where}, 'transitions' → {q!r} → {a!r}: should be [state, symbol, 'L', 'S' or 'R']")
            rows[q][a] = (action[0], action[1], MOVES[action[2]])
    return make_machine(
        where,
        rows,
        data["start"],
        data["accept"],
        data["reject"],
        data["blank"],
        data["input"],
        data["tape"] == "two-way",
        str(data.get("name", "Turing machine")),
    )


def make_machine(
    where: str,
    rows: Rows,
    start: str,
    accept: Any,
    reject: Any,
    blank: str,
    alphabet: Any,
    two_way: bool,
    name: str,
) -> TuringMachine:
    for states in (accept, reject, alphabet or ()):
        if not all(isinstance(q, str) for q in states):
            raise FileError(f"{where}: states and symbols should be texts")
    try:
        return TuringMachine(
            rows,
            start,
            frozenset(accept),
            frozenset(reject),
            blank,
            None if alphabet is None else tuple(alphabet),
            two_way,
            name,
        )
    except InputError as error:
        raise FileError(f"{where}: {str(error).removeprefix(name + ': ')}") from None


# JFLAP: an XML file with <type>turing</type>; the tape is two-way, an empty read or write is the blank


def from_jflap(text: str, where: str) -> TuringMachine:
    """From a JFLAP file; final states accept, a missing transition rejects."""
    root = xml.parse(text, where)
    kind = root.first("type")
    if kind is None or kind.text.strip() != "turing":
        found = "no <type>" if kind is None else f"<type>{kind.text.strip()}</type>"
        raise FileError(f"{where}, line {root.line}: {found}; a Turing machine has <type>turing</type>")
    tapes = root.first("tapes")
    if tapes is not None and tapes.text.strip() != "1":
        raise FileError(f"{where}, line {tapes.line}: {tapes.text.strip()} tapes; one is read")
    body = root.first("automaton") or root
    names: dict[str, str] = {}
    starts, final, rows = [], set(), Rows()
    for state in [*body.all("state"), *body.all("block")]:
        key = state.attributes.get("id")
        if key is None or key in names:
            raise FileError(
                f"{where}, line {state.line}: a state {'without an id' if key is None else f'with id {key!r} again'}"
            )
        name = state.attributes.get("name") or key
        names[key] = name if name not in names.values() else f"{name}/{key}"
        rows[names[key]] = {}
        if state.first("initial"):
            starts.append((names[key], state.line))
        if state.first("final"):
            final.add(names[key])
    if len(starts) != 1:
        line = starts[1][1] if starts else body.line
        raise FileError(f"{where}, line {line}: {len(starts) or 'no'} start states; a machine has one <initial/>")
    blank = BLANK
    for move in body.all("transition"):
        parts = {
            tag: (e.text if (e := move.first(tag)) is not None else "")
            for tag in ("from", "to", "read", "write", "move")
        }
        for tag in ("from", "to"):
            if parts[tag].strip() not in names:
                raise FileError(f"{where}, line {move.line}: a transition {tag} unknown state {parts[tag].strip()!r}")
        source, target = names[parts["from"].strip()], names[parts["to"].strip()]
        read, write, way = parts["read"] or blank, parts["write"] or blank, parts["move"].strip() or "S"
        if way not in MOVES:
            raise FileError(f"{where}, line {move.line}: move {way!r}; it should be L, S or R")
        if read in rows[source]:
            raise FileError(f"{where}, line {move.line}: a second transition from {source!r} on {read!r}")
        if source not in final:  # JFLAP stops on entering a final state
            rows[source][read] = (target, write, MOVES[way])
    symbols = {blank, *(s for row in rows.values() for a, t in row.items() for s in (a, t[1]))}
    stuck = "reject" if "reject" not in names.values() else "reject (stuck)"
    reject = {q for q, row in rows.items() if not row and q not in final and q != starts[0][0]}  # nothing goes on
    for q, row in rows.items():
        for a in sorted(symbols - set(row)) if q not in final | reject else ():
            row[a] = (stuck, a, 0)
            reject.add(stuck)
    return make_machine(
        where,
        {q: r for q, r in rows.items() if q not in final | reject},
        starts[0][0],
        final,
        reject,
        blank,
        None,
        True,
        Path(where).stem,
    )


def to_jflap(machine: TuringMachine) -> str:
    """A JFLAP file; a rejecting state is one that nothing leads out of."""
    if not machine.two_way:
        raise FileError(f"{machine.name}: JFLAP's tape is two-way, this machine's one-way; save it as .yaml or .json")
    if BLANK in machine.symbols[1:]:
        raise FileError(f"{machine.name}: {BLANK!r} is JFLAP's blank, here another symbol; save it as .yaml or .json")
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
