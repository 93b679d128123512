"""Read the file of any machine. The suffix and the content tell which machine it holds."""

from __future__ import annotations

import re
from pathlib import Path

from kleene.errors import FileError, a_type
from kleene.files import as_path, read_json
from kleene.machines.automata import jflap, text_formats
from kleene.machines.automata.dfa import DFA
from kleene.machines.automata.draft import Draft
from kleene.machines.automata.files import TEXT, read, read_automaton_text
from kleene.machines.automata.nfa import NFA
from kleene.machines.automata.transducer import Transducer
from kleene.machines.automata.weighted import WeightedAutomaton
from kleene.machines.multitape import MultiTapeMachine
from kleene.machines.turing import TuringMachine
from kleene.machines.turing_files import BBCHALLENGE
from kleene.machines.xml import text_of

Machine = DFA | NFA | Transducer | WeightedAutomaton | TuringMachine | MultiTapeMachine
TURING = (".yaml", ".yml", ".tm", ".bb")
SUFFIXES = (*TURING, ".json", *jflap.SUFFIXES, ".regex", ".re", *(suffix for suffix in TEXT if suffix != ".txt"))


def read_machine(path: str | Path) -> Machine:
    """The machine in a file: an automaton (a DFA where it is one), perhaps with output or weights, a Turing machine."""
    path = as_path(path)
    if path.suffix in TURING:
        return TuringMachine.load(path)
    if path.suffix == ".json":
        return _from_json(path)
    if path.suffix in jflap.SUFFIXES:
        return _from_jflap(path)
    if path.suffix == ".txt" and is_bbchallenge(path):
        return TuringMachine.load(path)
    if path.suffix in (".att", ".fst", ".txt"):
        file = text_formats.parse_att(read_automaton_text(path), str(path))
        if file.output is not None:
            return Transducer.load(path)
        if file.weighted:
            return WeightedAutomaton.load(path)
    return deterministic_if_possible(read(path))


def is_bbchallenge(path: Path) -> bool:
    """Whether a text file begins with a Turing machine in bbchallenge's text."""
    return BBCHALLENGE.match(read_automaton_text(path).lstrip()) is not None


def text_has_machine(path: Path) -> bool:
    """Whether a text file begins as bbchallenge's text, or as AT&T's with a move between numbered states."""
    return is_bbchallenge(path) or re.match(r"\s*\d+\s+\d+\s+\S", read_automaton_text(path)) is not None


def _from_json(path: Path) -> Machine:
    content = read_json(path)
    kind = content.get("kind") if isinstance(content, dict) else None
    if kind == "transducer":
        return Transducer.load(path)
    if kind == "weighted-automaton":
        return WeightedAutomaton.load(path)
    if kind == "turing-machine" or (kind is None and isinstance(content, dict) and "blank" in content):
        return TuringMachine.load(path)
    return deterministic_if_possible(read(path))


def _from_jflap(path: Path) -> Machine:
    document = jflap.parse(read_automaton_text(path), str(path))
    kind = jflap.kind_of(document)
    if kind in ("turing", "turingbb"):
        several = text_of(document.root.find("tapes")).strip() not in ("", "1")
        return MultiTapeMachine.load(path) if several else TuringMachine.load(path)
    if kind in ("mealy", "moore"):
        return jflap.read_transducer(document)
    return deterministic_if_possible(jflap.read(document))


def deterministic_if_possible(found: Draft | DFA) -> DFA | NFA:
    """The automaton in a file: a DFA, completed if need be, where it is deterministic; otherwise an NFA."""
    if isinstance(found, DFA):
        return found
    pairs = list(zip(found.sources, found.symbols))
    several = len(set(zip(found.sources, found.symbols, found.targets))) > len(set(pairs))
    return found.nfa() if several or "" in found.symbols or len(found.starts) != 1 else found.dfa()


def as_automaton(machine: Machine, where: str) -> DFA:
    """A finite automaton as a DFA. Reject other machines."""
    if isinstance(machine, NFA):
        return machine.determinise().minimise()
    if isinstance(machine, DFA):
        return machine
    raise FileError(f"{where}: holds {a_type(machine)}; give a finite automaton")
