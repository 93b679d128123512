"""Files of automata: which format a suffix means, reading and writing. Every error names the place in the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kleene.errors import FileError
from kleene.files import as_path, read_json, read_text, write_json, write_text
from kleene.machines.automata import jflap, text_formats
from kleene.machines.automata.dfa import DFA
from kleene.machines.automata.draft import Draft
from kleene.machines.automata.nfa import NFA

OPENFST = b"\xd6\xfd\xb2\x7e"  # the first bytes of binary OpenFst files
TEXT: dict[str, Callable[[str, str], Draft]] = {
    ".att": text_formats.from_att,
    ".fst": text_formats.from_att,
    ".txt": text_formats.from_att,
    ".mata": text_formats.from_mata,
    ".ba": text_formats.from_ba,
}
WRITTEN: dict[str, Callable[[DFA | NFA], str]] = {
    ".jff": jflap.write,
    ".att": text_formats.to_att,
    ".fst": text_formats.to_att,
    ".txt": text_formats.to_att,
    ".mata": text_formats.to_mata,
    ".ba": text_formats.to_ba,
    ".dot": lambda machine: machine.to_dot(),
    ".gv": lambda machine: machine.to_dot(),
}
PICTURES = (".png", ".svg", ".pdf")


def load_dfa(path: str | Path) -> DFA:
    """A deterministic automaton from a file."""
    found = read(as_path(path))
    return found if isinstance(found, DFA) else found.dfa()


def load_nfa(path: str | Path) -> NFA:
    """A finite automaton from a file, deterministic or not."""
    found = read(as_path(path))
    return NFA.of(found) if isinstance(found, DFA) else found.nfa()


def read(path: Path) -> Draft | DFA:
    """The automaton that a file describes. The suffix names the format."""
    where = str(path)
    if path.suffix == ".json":
        return _json_draft(read_json(path), where)
    if path.suffix not in (*jflap.SUFFIXES, ".regex", ".re", ".hoa", *TEXT):
        raise FileError(
            f"{path}: unknown suffix {path.suffix!r}; use .json, .jff (JFLAP), .att (AT&T), .mata, .ba or .regex"
        )
    text = read_automaton_text(path)
    if path.suffix in jflap.SUFFIXES:
        return jflap.read(jflap.parse(text, where))
    if path.suffix in (".regex", ".re"):
        from kleene.machines.automata.regex import regex

        return regex(text.strip("\r\n"))
    if path.suffix == ".hoa":
        raise FileError(
            f"{path}: HOA files hold automata on infinite words; Kleene's words are finite, so use .mata or .ba"
        )
    return TEXT[path.suffix](text, where)


def read_automaton_text(path: Path) -> str:
    """The text of a file. Reject OpenFst's binary files with a hint."""
    if path.is_file():
        with path.open("rb") as file:
            if file.read(4) == OPENFST:
                raise FileError(
                    f"{path}: a binary OpenFst file; 'fstprint {path.name} > {path.stem}.att' converts it to text"
                )
    return read_text(path)


def save(machine: DFA | NFA, path: str | Path) -> None:
    """Write an automaton; the suffix names the format."""
    path = as_path(path)
    if path.suffix == ".json":
        write_json(path, machine.to_json())
    elif path.suffix in WRITTEN:
        write_text(path, WRITTEN[path.suffix](machine))
    elif path.suffix in (".regex", ".re"):
        write_text(path, machine.to_regex() + "\n")
    elif path.suffix in PICTURES:
        from kleene.show.automata import draw

        draw(machine, path)
    else:
        known = ".json, .jff, .att, .mata, .ba, .regex, .dot, .png, .svg or .pdf"
        raise FileError(f"{path}: unknown suffix {path.suffix!r}; use {known}")


# JSON: {"alphabet": […], "start": "q0", "accepting": […], "transitions": {"q0": {"0": "q1", …}, …}}, and for
# nondeterministic automata "start" is a list and "transitions" a list of [state, symbol, state]


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


def nfa_to_json(nfa: NFA) -> dict[str, object]:
    """Plain data."""
    names = _distinct_names(nfa)
    return {
        "kind": "nfa",
        "version": 1,
        "alphabet": list(nfa.alphabet),
        "states": names,
        "start": [names[q] for q in nfa.start],
        "accepting": [names[q] for q in np.flatnonzero(nfa.accepting)],
        "transitions": [[names[p], symbol, names[q]] for p, symbol, q in nfa.transitions()],
    }


def from_json(data: object, where: str) -> DFA:
    """Build a deterministic automaton from plain data."""
    return _json_draft(data, where).dfa()


def _json_draft(data: Any, where: str) -> Draft:
    many = isinstance(data, dict) and isinstance(data.get("transitions"), list)
    _check_json(data, where, many)
    draft = Draft(where, alphabet=tuple(data["alphabet"]))
    for name in data["states"] if many else data["transitions"]:
        draft.state(name)
    for source, symbol, target in _json_moves(data["transitions"], where):
        if symbol not in data["alphabet"] and (symbol or not many):
            raise FileError(
                f"{where}, 'transitions' → {source!r}: unknown symbol {symbol!r}; the alphabet is {data['alphabet']}"
            )
        for name in (source, target):
            if not isinstance(name, str) or name not in draft.number:
                raise FileError(f"{where}, 'transitions' → {source!r} → {symbol!r}: unknown state {name!r}")
        draft.move(draft.number[source], symbol, draft.number[target])
    for key, names in (("start", data["start"] if many else [data["start"]]), ("accepting", data["accepting"])):
        for name in names:
            if name not in draft.number:
                raise FileError(f"{where}, {key!r}: unknown state {name!r}")
        (draft.starts if key == "start" else draft.final).extend(draft.number[name] for name in names)
    return draft


def _check_json(data: Any, where: str, many: bool) -> None:
    """Check the kinds of all parts."""
    if not isinstance(data, dict):
        raise FileError(
            f"{where}: not an automaton; an automaton is an object with 'start', 'accepting', 'transitions'"
        )
    if data.get("version", 1) != 1:
        raise FileError(f"{where}: version {data['version']!r} is unknown; known: 1")
    expected = {"alphabet": list, "accepting": list, "transitions": list if many else dict, "start": str}
    for key, kind in ({**expected, "start": list, "states": list} if many else expected).items():
        if not isinstance(data.get(key), kind):
            right = {list: "a list", dict: "an object", str: "one state's name"}[kind]
            raise FileError(f"{where}, {key!r}: is {data.get(key)!r:.40}; it should be {right}")
    for key in ("alphabet", "accepting", *(("start", "states") if many else ())):
        if not all(isinstance(s, str) for s in data[key]):
            raise FileError(f"{where}, {key!r}: {'symbols' if key == 'alphabet' else 'states'} should be strings")
    if not data["alphabet"] or "" in data["alphabet"] or len(set(data["alphabet"])) < len(data["alphabet"]):
        raise FileError(f"{where}, 'alphabet': it needs at least one symbol; symbols are distinct and not empty")


def _json_moves(transitions: Any, where: str) -> list[tuple[str, str, str]]:
    if isinstance(transitions, list):
        for move in transitions:
            if not isinstance(move, list) or len(move) != 3 or not all(isinstance(part, str) for part in move):
                raise FileError(f"{where}, 'transitions': {move!r:.60} should be [state, symbol, state]")
        return [(p, s, q) for p, s, q in transitions]
    for name, moves in transitions.items():
        if not isinstance(moves, dict):
            raise FileError(f"{where}, 'transitions' → {name!r}: should be an object from symbols to states")
    return [(name, s, target) for name, moves in transitions.items() for s, target in moves.items()]


def _distinct_names(machine: DFA | NFA) -> list[str]:
    names = [machine.name(q) for q in range(len(machine))]
    return names if len(set(names)) == len(names) else [f"q{q}" for q in range(len(machine))]
