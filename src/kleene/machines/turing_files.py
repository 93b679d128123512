"""Files of Turing machines: bbchallenge text, turingmachine.io YAML, JFLAP, JSON.

A transition that a YAML or JFLAP file leaves out is a step that rejects; on a one-way tape (Sipser's
machines) every transition must be there. Every complaint names the place in the file.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from kleene.errors import FileError, InputError
from kleene.files import read_text, write_json, write_text
from kleene.machines import xml
from kleene.machines.turing import MOVES, TuringMachine

LIMIT = 16 * 1024 * 1024
LETTERS = {-1: "L", 0: "S", 1: "R"}
STUCK = "reject"  # the state entered where a file leaves a transition out
BBCHALLENGE = re.compile(r"(?:[0-9][LR][A-Z]|---)+(?:_(?:[0-9][LR][A-Z]|---)+)*")

Rows = dict[str, dict[str, tuple[str, str, int]]]


def load(path: Path) -> TuringMachine:
    """Read a machine; the suffix says how."""
    text = read_text(path, LIMIT)
    if path.suffix == ".json":
        try:
            return from_json(json.loads(text), str(path))
        except (json.JSONDecodeError, RecursionError) as error:
            raise FileError(f"{path}: not JSON ({error})") from None
    if path.suffix in (".yaml", ".yml"):
        return from_yaml(text, str(path))
    if path.suffix == ".jff":
        return from_jflap(text, str(path))
    if path.suffix in (".txt", ".tm", ".bb"):
        return from_bbchallenge(text.strip(), str(path))
    raise FileError(
        f"{path}: unknown suffix {path.suffix!r}; machines are read from .yaml, .jff, .json and .txt"
    )


def save(machine: TuringMachine, path: Path) -> None:
    """Write a machine; the suffix says how."""
    if path.suffix == ".json":
        write_json(path, to_json(machine))
    elif path.suffix in (".yaml", ".yml"):
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
            f"{where}, character {at + 1}: {text[at : at + 10]!r} is not bbchallenge text such as "
            f"'1RB1LB_1LA1RZ'"
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
                raise FileError(
                    f"{where}, row {i + 1}, symbol {a}: writes {write}; the symbols are 0…{width - 1}"
                )
            rows[chr(65 + i)][str(a)] = (target if ord(target) < 65 + len(lines) else "Z", write, MOVES[move])
    if width == 1:  # a machine of one column can still write a 1 as it halts
        for row in rows.values():
            row.setdefault("1", ("Z", "1", 1))
    return TuringMachine(
        rows, "A", frozenset("Z"), blank="0", name=text if len(text) < 60 else text[:57] + "…"
    )


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
            q: {a: [t, w, LETTERS[m]] for a, (t, w, m) in row.items()}
            for q, row in machine.transitions.items()
        },
    }


def from_json(data: Any, where: str) -> TuringMachine:
    """From plain data."""
    if not isinstance(data, dict):
        raise FileError(
            f"{where}: not a machine; it should be an object with 'start', 'accept', 'transitions'"
        )
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
                raise FileError(
                    f"{where}, 'transitions' → {q!r} → {a!r}: should be [state, symbol, 'L', 'S' or 'R']"
                )
            rows[q][a] = (action[0], action[1], MOVES[action[2]])
    return _machine(
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


def _machine(
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


# turingmachine.io: 'blank', 'start state', 'table'; Kleene's own keys are 'tape', 'accept', 'reject', 'input
# alphabet'


def from_yaml(text: str, where: str) -> TuringMachine:
    """From turingmachine.io's YAML. A state without transitions accepts, unless it is called reject."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark else ""
        raise FileError(
            f"{where}{place}: not YAML ({getattr(error, 'problem', None) or 'nested too deeply'})"
        ) from None
    return _Yaml(where).machine(root)


class _Yaml:
    def __init__(self, where: str) -> None:
        self.where = where
        self.synonyms: dict[str, Any] = {}

    def fail(self, node: Any, message: str) -> FileError:
        line = node.start_mark.line + 1 if node is not None else 1
        return FileError(f"{self.where}, line {line}: {message}")

    def pairs(self, node: Any, what: str) -> dict[str, tuple[Any, Any]]:
        """A mapping as text → (key node, value node)."""
        if not isinstance(node, yaml.MappingNode):
            raise self.fail(node, f"{what} should be a mapping")
        found: dict[str, tuple[Any, Any]] = {}
        for key, value in node.value:
            name = self.text(key, f"a key of {what}")
            if name in found:
                raise self.fail(key, f"{name!r} is there twice in {what}")
            found[name] = (key, value)
        return found

    def text(self, node: Any, what: str) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise self.fail(node, f"{what} should be one text")
        return node.value

    def texts(self, node: Any, what: str) -> list[str]:
        if isinstance(node, yaml.SequenceNode):
            return [self.text(item, what) for item in node.value]
        return [self.text(node, what)]

    def machine(self, root: Any) -> TuringMachine:
        top = self.pairs(root, "the file")
        for key in ("blank", "start state", "table"):
            if key not in top:
                raise self.fail(root, f"no {key!r}; a machine has 'blank', 'start state' and 'table'")
        blank = self.text(top["blank"][1], "'blank'")
        start = self.text(top["start state"][1], "'start state': it is one state's name, and")
        two_way = True
        if "tape" in top:
            tape = self.text(top["tape"][1], "'tape'")
            if tape not in ("one-way", "two-way"):
                raise self.fail(top["tape"][0], f"'tape' is {tape!r}; it should be 'one-way' or 'two-way'")
            two_way = tape == "two-way"
        if "synonyms" in top and isinstance(top["synonyms"][1], yaml.MappingNode):
            self.synonyms = {
                name: value for name, (_, value) in self.pairs(top["synonyms"][1], "'synonyms'").items()
            }
        table = self.pairs(top["table"][1], "'table'")
        if start not in table:
            raise self.fail(top["start state"][0], f"start state {start!r} is not in the table")
        lists: dict[str, list[str]] = {
            key: self.texts(top[key][1], repr(key))
            for key in ("accept", "reject", "input alphabet")
            if key in top
        }
        rows = {q: self.row(q, value, table) for q, (_, value) in table.items()}
        halting = [q for q, row in rows.items() if not row]
        for key in ("accept", "reject"):
            for q in lists.get(key, []):
                if q not in table or rows[q]:
                    raise self.fail(
                        top[key][0], f"{key!r}: {q!r} should be a state of the table without transitions"
                    )
        reject = set(lists.get("reject", [q for q in halting if q == STUCK]))
        accept = set(lists.get("accept", [q for q in halting if q not in reject]))
        if left := [q for q in halting if q not in accept | reject]:
            raise self.fail(
                table[left[0]][0], f"state {left[0]!r} has no transitions; is it 'accept' or 'reject'?"
            )
        symbols = {blank, *(s for row in rows.values() for a, t in row.items() for s in (a, t[1]))}
        symbols |= set(lists.get("input alphabet", []))
        for q, row in rows.items():
            for a in sorted(symbols - set(row)) if row else ():
                if not two_way:
                    raise self.fail(
                        table[q][0],
                        f"state {q!r} has no transition for {a!r}; on a one-way tape each needs one",
                    )
                row[a] = (STUCK, a, 0)
                reject.add(STUCK)
        if STUCK in reject and STUCK in rows and rows[STUCK]:
            raise self.fail(
                table[STUCK][0],
                f"state {STUCK!r} is entered where a transition is missing; it can have none itself",
            )
        return _machine(
            self.where,
            {q: r for q, r in rows.items() if r},
            start,
            accept - reject,
            reject,
            blank,
            lists.get("input alphabet"),
            two_way,
            Path(self.where).stem,
        )

    def row(self, state: str, node: Any, table: dict[str, Any]) -> dict[str, tuple[str, str, int]]:
        if isinstance(node, yaml.ScalarNode) and node.value in ("", "null", "~"):
            return {}
        if not isinstance(node, yaml.MappingNode):
            raise self.fail(node, f"state {state!r}: should be a mapping from symbols to instructions")
        row: dict[str, tuple[str, str, int]] = {}
        for key, value in node.value:
            for symbol in self.texts(key, f"a symbol of state {state!r}"):
                if symbol in row:
                    raise self.fail(key, f"state {state!r}: a second instruction for {symbol!r}")
                row[symbol] = self.instruction(state, symbol, value, table)
        return row

    def instruction(
        self, state: str, symbol: str, node: Any, table: dict[str, Any], depth: int = 0
    ) -> tuple[str, str, int]:
        where = f"state {state!r} on {symbol!r}"
        if isinstance(node, yaml.ScalarNode):
            if node.value in MOVES:
                return state, symbol, MOVES[node.value]
            if node.value in self.synonyms and depth < 2:
                return self.instruction(state, symbol, self.synonyms[node.value], table, depth + 1)
            raise self.fail(
                node,
                f"{where}: {node.value!r} is no instruction; it should be L, R, {{R: state}} or a synonym",
            )
        parts = self.pairs(node, where)
        moves = [m for m in MOVES if m in parts]
        if len(moves) != 1 or set(parts) - {*MOVES, "write"}:
            raise self.fail(
                node, f"{where}: has {', '.join(parts)}; it should have one of L and R, and perhaps write"
            )
        target = parts[moves[0]][1]
        name = target.value if isinstance(target, yaml.ScalarNode) else None
        name = state if name in ("", "null", "~") else name
        if name not in table:
            raise self.fail(target, f"{where}: goes to {name!r}, which is not in the table")
        write = self.text(parts["write"][1], f"{where}: 'write'") if "write" in parts else symbol
        return name, write, MOVES[moves[0]]


def to_yaml(machine: TuringMachine) -> str:
    """turingmachine.io's YAML, with Kleene's keys for what that has no words for."""

    def quote(text: str) -> str:
        return json.dumps(text, ensure_ascii=False)

    def listed(items: Any) -> str:
        return "[" + ", ".join(quote(item) for item in items) + "]"

    lines = [
        f"blank: {quote(machine.blank)}",
        f"start state: {quote(machine.start)}",
        f"tape: {'two-way' if machine.two_way else 'one-way'}",
        f"input alphabet: {listed(machine.input_alphabet or ())}",
        f"accept: {listed(sorted(machine.accept))}",
        f"reject: {listed(sorted(machine.reject))}",
        "table:",
    ]
    for q, row in machine.transitions.items():
        lines.append(f"  {quote(q)}:")
        lines += [
            f"    {quote(a)}: {{write: {quote(w)}, {LETTERS[m]}: {quote(t)}}}" for a, (t, w, m) in row.items()
        ]
    return "\n".join(lines + [f"  {quote(q)}:" for q in sorted(machine.accept | machine.reject)]) + "\n"


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
                f"{where}, line {state.line}: a state "
                f"{'without an id' if key is None else f'with id {key!r} again'}"
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
        raise FileError(
            f"{where}, line {line}: {len(starts) or 'no'} start states; a machine has one <initial/>"
        )
    blank = "□"
    for move in body.all("transition"):
        parts = {
            tag: (e.text if (e := move.first(tag)) is not None else "")
            for tag in ("from", "to", "read", "write", "move")
        }
        for tag in ("from", "to"):
            if parts[tag].strip() not in names:
                raise FileError(
                    f"{where}, line {move.line}: a transition {tag} unknown state {parts[tag].strip()!r}"
                )
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
    reject = set()
    for q, row in rows.items():
        for a in sorted(symbols - set(row)) if q not in final else ():
            row[a] = (stuck, a, 0)
            reject.add(stuck)
    return _machine(
        where,
        {q: r for q, r in rows.items() if q not in final},
        starts[0][0],
        final,
        reject,
        blank,
        None,
        True,
        Path(where).stem,
    )


def to_jflap(machine: TuringMachine) -> str:
    """A JFLAP file; rejecting is a missing way on, so steps into a rejecting state are kept as they are."""
    from xml.sax.saxutils import escape, quoteattr

    if not machine.two_way:
        raise FileError(
            f"{machine.name}: JFLAP's tape is two-way, this machine's one-way; save it as .yaml or .json"
        )
    number = {q: i for i, q in enumerate(machine.states)}
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<structure>", " <type>turing</type>", " <automaton>"]
    for q, i in number.items():
        marks = ("<initial/>" if q == machine.start else "") + ("<final/>" if q in machine.accept else "")
        lines.append(f'  <state id="{i}" name={quoteattr(q)}><x>{100 * i + 50}</x><y>100</y>{marks}</state>')
    for q, row in machine.transitions.items():
        for a, (t, w, m) in row.items():
            read, write = ("" if s == machine.blank else escape(s) for s in (a, w))
            lines.append(
                f"  <transition><from>{number[q]}</from><to>{number[t]}</to><read>{read}</read>"
                f"<write>{write}</write><move>{LETTERS[m]}</move></transition>"
            )
    return "\n".join([*lines, " </automaton>", "</structure>", ""])
