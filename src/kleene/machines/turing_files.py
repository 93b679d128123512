"""Files of Turing machines: bbchallenge text, turingmachine.io YAML, JFLAP, JSON.

A YAML or JFLAP file may leave out a transition: that step rejects. On a one-way tape (Sipser's machines) every
transition must be there. Every message names the place in the file.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from kleene.errors import FileError, InputError
from kleene.files import as_path, read_json, read_text, write_json, write_text
from kleene.machines.turing import MOVES, TuringMachine

LIMIT = 16 * 1024 * 1024
LETTERS = {-1: "L", 0: "S", 1: "R"}
BBCHALLENGE = re.compile(r"(?:[0-9][LR][A-Z]|---)+(?:_(?:[0-9][LR][A-Z]|---)+)*")

Rows = dict[str, dict[str, tuple[str, str, int]]]


def load(path: str | Path) -> TuringMachine:
    """Read a machine; the suffix names the format."""
    path = as_path(path)
    if path.suffix == ".json":
        return from_json(read_json(path, LIMIT), str(path))
    text = read_text(path, LIMIT)
    if path.suffix in (".yaml", ".yml"):
        from kleene.machines.turing_yaml import from_yaml

        return from_yaml(text, str(path))
    if path.suffix in (".jff", ".jflap"):
        from kleene.machines.turing_jflap import from_jflap

        return from_jflap(text, str(path))
    if path.suffix in (".txt", ".tm", ".bb"):
        return from_bbchallenge(text.strip(), str(path))
    raise FileError(f"{path}: unknown suffix {path.suffix!r}; use .yaml, .jff, .json or .txt")


def save(machine: TuringMachine, path: str | Path) -> None:
    """Write a machine; the suffix names the format."""
    path = as_path(path)
    if path.suffix == ".json":
        write_json(path, to_json(machine))
    elif path.suffix in (".yaml", ".yml"):
        from kleene.machines.turing_yaml import to_yaml

        write_text(path, to_yaml(machine))
    elif path.suffix == ".jff":
        from kleene.machines.turing_jflap import to_jflap

        write_text(path, to_jflap(machine))
    elif path.suffix in (".dot", ".gv"):
        write_text(path, machine.to_dot())
    else:
        raise FileError(f"{path}: unknown suffix {path.suffix!r}; use .json, .yaml, .jff or .dot")


# bbchallenge: a row per state, three characters per symbol, as in 1RB1LB_1LA1RZ


def from_bbchallenge(text: str, where: str) -> TuringMachine:
    """Read bbchallenge text. A state without a row of its own halts."""
    lines = _rows(text, where)
    width = len(lines[0])
    rows: Rows = {}
    for i, line in enumerate(lines):
        if len(line) != width:
            raise FileError(f"{where}, row {i + 1}: {len(line)} transitions; the first row has {width}")
        rows[chr(65 + i)] = {}
        for a, action in enumerate(line):
            write, move, target = list("1RZ" if action == "---" else action)
            if int(write) >= max(width, 2):
                raise FileError(f"{where}, row {i + 1}, symbol {a}: writes {write}; the symbols are 0…{width - 1}")
            rows[chr(65 + i)][str(a)] = (target if ord(target) < 65 + len(lines) else "Z", write, MOVES[move])
    if width == 1:  # a machine of one column can still write a 1 as it halts
        for row in rows.values():
            row.setdefault("1", ("Z", "1", 1))
    return TuringMachine(rows, "A", frozenset("Z"), blank="0", name=text if len(text) < 60 else text[:57] + "…")


def _rows(text: str, where: str) -> list[list[str]]:
    """The transitions row by row. In older texts a space separates transitions, several spaces or a line end rows."""
    if not re.search(r"\s", text):
        spaced = text
    elif re.search(r"_|\s{2,}|[\n;|]", text):
        spaced = re.sub(r" ?[_;|]\s*|\s{2,}|\n", "_", text).replace(" ", "")
    else:  # single spaces only: words are rows if some are longer than a transition; otherwise two symbols make a row
        parts = text.split(" ")
        whole = any(len(part) > 3 for part in parts)
        pairs = ["".join(pair) for pair in zip(parts[::2], parts[1::2])]
        spaced = "_".join(parts) if whole else "_".join(pairs) if len(parts) % 2 == 0 else text
    if not BBCHALLENGE.fullmatch(spaced):
        good = re.match(r"(?:(?:[0-9][LR][A-Z]|---)[\s_;|]*)*", text)
        at = good.end() if good else 0
        raise FileError(
            f"{where}, character {at + 1}: {text[at : at + 10]!r} is not bbchallenge text such as '1RB1LB_1LA1RZ'"
        )
    return [re.findall("...", row) for row in spaced.split("_")]


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
    """Read a machine from plain data."""
    if not isinstance(data, dict):
        raise FileError(f"{where}: not a machine; a machine is an object with 'start', 'accept', 'transitions'")
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
            raise FileError(f"{where}, {key!r}: is {data.get(key)!r:.40}; it must be {right}")
    if data.get("tape") not in ("one-way", "two-way"):
        raise FileError(f"{where}, 'tape': is {data.get('tape')!r}; it must be 'one-way' or 'two-way'")
    rows: Rows = {}
    for q, row in data["transitions"].items():
        if not isinstance(row, dict):
            raise FileError(f"{where}, 'transitions' → {q!r}: must be an object from symbols to [state, symbol, move]")
        rows[q] = {}
        for a, action in row.items():
            good = isinstance(action, list) and len(action) == 3 and all(isinstance(x, str) for x in action)
            if not good or action[2] not in MOVES:
                raise FileError(f"{where}, 'transitions' → {q!r} → {a!r}: must be [state, symbol, 'L', 'S' or 'R']")
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
            raise FileError(f"{where}: states and symbols must be strings")
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
