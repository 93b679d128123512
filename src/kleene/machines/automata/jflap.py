"""JFLAP's files of finite automata, Mealy and Moore machines, regular expressions and regular grammars.

Kleene reads versions 4 to 8. JFLAP reads a label of several characters as a string, and `[a-d]` as a range.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from kleene.errors import FileError, KleeneError
from kleene.machines.automata.dfa import DFA
from kleene.machines.automata.draft import Draft
from kleene.machines.automata.nfa import NFA
from kleene.machines.xml import Document, Element, text_of, xml_text

if TYPE_CHECKING:
    from kleene.machines.automata.transducer import Transducer

EMPTY_LABELS = {"", "ε", "λ"}
RANGE = re.compile(r"\[(.)-(.)\]", re.DOTALL)
SUFFIXES = (".jff", ".jflap")  # JFLAP 4 to 7, JFLAP 8


def parse(text: str, where: str) -> Document:
    """A JFLAP file in the form of JFLAP 7. Files of JFLAP 8 are rewritten."""
    document = Document(text, where)
    if document.root.get("type") is not None and document.root.find("type") is None:
        from kleene.machines.automata.jflap8 import rewrite

        rewrite(document)
    return document


def kind_of(document: Document) -> str:
    """The kind of machine in a JFLAP file: `fa`, `turing`, `mealy`, …"""
    root = document.root
    found = root.find("type")
    if found is None:
        raise document.error(root, "no <type>; a JFLAP file has one, such as <type>fa</type>")
    return text_of(found).strip().lower()


def read(document: Document) -> Draft | DFA:
    """A finite automaton from any JFLAP file that describes one."""
    kind = kind_of(document)
    if kind == "fa":
        return read_automaton(document)
    if kind == "re":
        return read_expression(document)
    if kind == "grammar":
        return read_grammar(document)
    other = {
        "mealy": "; read it with kl.Transducer.load",
        "moore": "; read it with kl.Transducer.load",
        "turing": "; read it with kl.TuringMachine.load",
        "turingbb": "; read it with kl.TuringMachine.load",
        "pda": ": a pushdown automaton, whose language need not be regular",
    }.get(kind, "")
    raise document.error(document.root, f"<type>{kind}</type>{other}; a finite automaton has <type>fa</type>")


def body_of(document: Document) -> Element:
    """The element that holds states and transitions: <automaton>, or before JFLAP 6 the root."""
    body = document.root.find("automaton")
    return document.root if body is None else body


def read_states(document: Document, draft: Draft) -> dict[str, int]:
    """Add the states to a draft. Return the number of each id."""
    body = body_of(document)
    ids: dict[str, int] = {}
    for state in body:
        if state.tag != "state":
            continue
        key = state.get("id")
        if key is None:
            raise document.error(state, "a <state> without an id")
        if key in ids:
            raise document.error(state, f"a second state with id {key!r}")
        inside = {child.tag: child for child in state}
        name = state.get("name") or text_of(inside.get("name")) or key
        ids[key] = draft.state(name if name not in draft.number else f"{name}/{key}")
        if "initial" in inside:
            draft.starts.append(ids[key])
        if "final" in inside:
            draft.final.append(ids[key])
    draft.state_place = lambda q: f"line {document.line(body.findall('state')[q])}"
    if not draft.starts:
        raise document.error(body, "no start states; an automaton has one <initial/>")
    return ids


def ends_of(document: Document, move: Element, parts: dict[str, str | None], ids: dict[str, int]) -> tuple[int, int]:
    """The states that a transition leads from and to."""
    source, target = (parts.get("from") or "").strip(), (parts.get("to") or "").strip()
    if source in ids and target in ids:
        return ids[source], ids[target]
    tag, key = ("from", source) if source not in ids else ("to", target)
    raise document.error(move, f"a transition {tag} unknown state {key!r}")


def read_automaton(document: Document) -> Draft:
    """Add states and transitions. A label of several characters becomes several moves."""
    draft = Draft(document.where)
    ids = read_states(document, draft)
    elements = body_of(document).findall("transition")
    if not _read_plain_moves(elements, ids, draft):
        elements = _read_moves(document, elements, ids, draft)
    draft.move_place = lambda i: f"line {document.line(elements[i])}"
    if declared := [text_of(symbol) for symbol in body_of(document).findall("symbol")]:  # JFLAP 8's alphabet
        draft.alphabet = tuple(dict.fromkeys(declared + sorted({s for s in draft.symbols if s})))
    return draft


def _read_plain_moves(elements: list[Element], ids: dict[str, int], draft: Draft) -> bool:
    """Add all moves column by column; return False if some transition is not a plain <from>, <to> and single <read>."""
    parts = [part for move in elements for part in move]
    if [part.tag for part in parts] != ["from", "to", "read"] * len(elements):
        return False
    texts = [part.text or "" for part in parts]
    labels = texts[2::3]
    if any(len(label) != 1 or label in EMPTY_LABELS for label in set(labels)) or not ids.keys() >= {
        *texts[0::3],
        *texts[1::3],
    }:
        return False
    draft.sources, draft.targets = [ids[p] for p in texts[0::3]], [ids[q] for q in texts[1::3]]
    draft.symbols = labels
    return True


def _read_moves(document: Document, moves: list[Element], ids: dict[str, int], draft: Draft) -> list[Element]:
    """Add the moves one by one. Return the element of each."""
    elements: list[Element] = []
    for move in moves:
        parts = {child.tag: child.text for child in move}
        source, target = ends_of(document, move, parts, ids)
        for word in _words_of(document, move, parts.get("read") or ""):
            draft.read(source, word, target)
        elements += [move] * (len(draft.sources) - len(elements))
    return elements


def _words_of(document: Document, move: Element, label: str) -> Iterable[str]:
    """The words that a label reads: one, or the characters of a range."""
    if label in EMPTY_LABELS:
        return [""]
    if found := RANGE.fullmatch(label):
        first, last = map(ord, found.groups())
        if first > last or last - first > 10_000:
            raise document.error(move, f"the range {label!r} is empty or too large")
        return [chr(c) for c in range(first, last + 1)]
    return [label]


# Regular expressions: + is union, * is star, ! is the empty word


def read_expression(document: Document) -> DFA:
    """The automaton of JFLAP's regular expression."""
    from kleene.machines.automata.regex import regex

    element = document.root.find("expression")
    if element is None:
        raise document.error(document.root, "no <expression>; a regular expression's file has one")
    text = "".join(text_of(element).split())
    symbols = sorted(set(text) - set("+*()!λε"))
    if not symbols:
        raise document.error(element, f"the expression {text!r:.60} names no symbols")
    pattern = re.sub(r"[+!λε]|[^+*()!λε]", lambda m: _python(m.group()), text)
    try:
        return regex(pattern, symbols)
    except KleeneError as error:
        raise document.error(element, f"{text!r:.60} is not a JFLAP expression ({str(error)[-60:]})") from None


def _python(character: str) -> str:
    if character == "+":
        return "|"
    return "(?:)" if character in "!λε" else re.escape(character)


# Regular grammars: A → uB and A → u throughout, or A → Bu and A → u throughout


def read_grammar(document: Document) -> Draft:
    """The automaton of a right-linear or left-linear grammar. Uppercase letters are variables."""
    rules: list[tuple[str, str, Element]] = []
    for production in document.root.iter("production"):
        left, right = text_of(production.find("left")).strip(), text_of(production.find("right")).strip()
        if len(left) != 1 or not left.isupper():
            raise document.error(production, f"{left!r} → {right!r}: a regular grammar has one variable on the left")
        rules.append((left, "" if right in EMPTY_LABELS else right, production))
    if not rules:
        raise document.error(document.root, "no <production>; a grammar needs at least one")
    for left_linear in (False, True):
        if all(_linear(right, left_linear) for _, right, _ in rules):
            return _from_grammar(document, rules, left_linear)
    bad = next((r for r in rules if not _linear(r[1], False) and not _linear(r[1], True)), rules[0])
    raise document.error(
        bad[2], f"{bad[0]} → {bad[1]}: the grammar is not regular (A → uB throughout, or A → Bu throughout)"
    )


def _linear(right: str, left_linear: bool) -> bool:
    rest = right[1:] if left_linear else right[:-1]
    return not any(c.isupper() for c in rest)


def _from_grammar(document: Document, rules: list[tuple[str, str, Element]], left_linear: bool) -> Draft:
    draft = Draft(document.where)
    for left, _, _ in rules:
        draft.state(left)
    end = draft.state("end")  # variables are single letters
    for left, right, _ in rules:
        variable = right[:1] if left_linear else right[-1:]
        has = variable.isupper()
        other = draft.state(variable) if has else end
        word = right if not has else right[1:] if left_linear else right[:-1]
        draft.read(*((other, word, draft.state(left)) if left_linear else (draft.state(left), word, other)))
    first = draft.state(rules[0][0])
    draft.starts, draft.final = ([end], [first]) if left_linear else ([first], [end])
    if all(not s for s in draft.symbols):
        raise document.error(document.root, "the grammar has no terminals, so no alphabet")
    return draft


# Mealy and Moore machines


def read_transducer(document: Document) -> Transducer:
    """A Mealy machine (<transout> on transitions) or a Moore machine (<output> of states)."""
    from kleene.machines.automata.transducer import Transducer

    kind = kind_of(document)
    if kind not in ("mealy", "moore"):
        raise document.error(document.root, f"<type>{kind}</type>; a machine with output has the type mealy or moore")
    draft = Draft(document.where)
    ids = read_states(document, draft)
    body = body_of(document)
    outputs = [text_of(state.find("output")) for state in body.iterfind("state")]
    moves: dict[tuple[int, str], tuple[int, str]] = {}
    for move in body.iterfind("transition"):
        parts = {child.tag: child.text for child in move}
        source, target = ends_of(document, move, parts, ids)
        label = parts.get("read") or ""
        if len(label) != 1:
            raise document.error(move, f"reads {label!r}; a machine with output reads one symbol per move")
        out = outputs[target] if kind == "moore" else parts.get("transout") or ""
        if moves.setdefault((source, label), (target, out)) != (target, out):
            raise document.error(move, f"a second move from {list(draft.number)[source]!r} on {label!r}")
    return Transducer.from_moves(
        document.where,
        list(draft.number),
        draft.starts[0],
        moves,
        first=outputs[draft.starts[0]] if kind == "moore" else "",
    )


# Writing


def write(machine: DFA | NFA) -> str:
    """Write a JFLAP file, with the states on a circle."""
    for symbol in machine.alphabet:
        if symbol in EMPTY_LABELS or symbol in ("<eps>", "<epsilon>", "@0@"):
            raise FileError(f"symbol {symbol!r}: JFLAP reads it as an empty move; save the automaton as .json")
        if len(symbol) > 1:
            raise FileError(
                f"symbol {symbol!r}: JFLAP reads several characters as a string of symbols; save the automaton as .json"
            )
    nfa = machine if isinstance(machine, NFA) else None
    starts = set(machine.start) if isinstance(machine, NFA) else {machine.start}
    if len(starts) != 1:
        raise FileError(f"{len(starts)} start states: JFLAP files have one; save the automaton as .json")
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<structure>", " <type>fa</type>", " <automaton>"]
    angles = 2 * np.pi * np.arange(len(machine)) / len(machine)
    xs, ys = (300 + 200 * np.cos(angles)).tolist(), (300 + 200 * np.sin(angles)).tolist()
    for q in range(len(machine)):
        marks = ("<initial/>" if q in starts else "") + ("<final/>" if machine.accepting[q] else "")
        name = xml_text(machine.name(q))
        lines.append(f'  <state id="{q}" name="{name}"><x>{xs[q]:.1f}</x><y>{ys[q]:.1f}</y>{marks}</state>')
    moves = nfa.transitions() if nfa is not None else _moves_of(machine)
    spelled = {symbol: xml_text(symbol) for symbol in (*machine.alphabet, "")}
    lines += [f"  <transition><from>{p}</from><to>{r}</to><read>{spelled[s]}</read></transition>" for p, s, r in moves]
    return "\n".join([*lines, " </automaton>", "</structure>", ""])


def _moves_of(dfa: DFA | NFA) -> Iterable[tuple[int, str, int]]:
    assert isinstance(dfa, DFA)
    return ((q, s, r) for q, row in enumerate(dfa.table.tolist()) for s, r in zip(dfa.alphabet, row))
