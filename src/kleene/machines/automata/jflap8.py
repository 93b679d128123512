"""JFLAP 8's files (`.jflap`): the machines of JFLAP 7 in other elements, rewritten here in the form of JFLAP 7."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kleene.machines.xml import Document, Element, text_of

KINDS = {  # JFLAP 8's name → JFLAP 7's
    "fsa": "fa",
    "regex": "re",
    "grammar": "grammar",
    "mealy_machine": "mealy",
    "moore_machine": "moore",
    "turing": "turing",
}
WRAPPERS = ("editor_panel", "transition_graph", "block_tm_graph")  # around a machine: what its editor shows


def rewrite(document: Document) -> None:
    """Replace a JFLAP 8 file's elements by JFLAP 7's; each keeps the line of the element that it replaces."""
    machine = document.root
    while machine.get("type") in WRAPPERS:
        inner = [part for part in machine.findall("structure") if part.get("type") in (*KINDS, *WRAPPERS)]
        if not inner:
            raise document.error(
                machine, f"<structure type={machine.get('type')!r}> without a machine that Kleene knows"
            )
        machine = inner[0]
    kind = KINDS.get(machine.get("type") or "")
    if kind is None:
        known = ", ".join(KINDS)
        raise document.error(machine, f"type {machine.get('type')!r} of JFLAP 8 is not supported; known: {known}")
    if long := [e for e in machine.iter("symbol") if len(text_of(e)) > 1]:
        raise document.error(long[0], f"symbol {text_of(long[0])!r:.40}: a symbol must be one character")
    _Rewriting(document, machine, kind).run()


class _Rewriting:
    def __init__(self, document: Document, machine: Element, kind: str) -> None:
        self.document, self.machine, self.kind = document, machine, kind
        self.parts = {part.get("type"): part for part in machine.findall("structure")}

    def run(self) -> None:
        root = self._new("structure", self.machine)
        self._add(root, "type", self.machine, self.kind)
        if self.kind == "re":
            self._add(root, "expression", self.machine, text_of(next(self._of("exp", "exp"), None)))
        elif self.kind == "grammar":
            self._grammar(root)
        else:
            tapes = self.machine.find("tapes")
            if tapes is not None:
                self._add(root, "tapes", tapes, text_of(tapes))
            self._automaton(self._add(root, "automaton", self.machine))
        self.document.root = root

    def _of(self, part: str, tag: str) -> Iterator[Element]:
        """The elements of one part of the machine, such as the states of `state_set`."""
        found = self.parts.get(part)
        return iter(()) if found is None else found.iterfind(tag)

    def _new(self, tag: str, origin: Element, text: str | None = None, **attributes: str) -> Element:
        element = Element(tag, attributes)
        element.text = text
        self.document.origins[element] = origin
        return element

    def _add(self, parent: Element, tag: str, origin: Element, text: str | None = None, **attributes: str) -> Element:
        element = self._new(tag, origin, text, **attributes)
        parent.append(element)
        return element

    def _grammar(self, root: Element) -> None:
        """The productions, those of the start variable first: JFLAP 7 starts with the first one."""
        start = text_of(next(self._of("start_var", "value"), None)).strip()
        productions = sorted(
            self._of("production_set", "production"), key=lambda rule: text_of(rule.find("lhs")).strip() != start
        )
        for rule in productions:
            production = self._add(root, "production", rule)
            self._add(production, "left", rule, text_of(rule.find("lhs")))
            self._add(production, "right", rule, text_of(rule.find("rhs")))

    def _automaton(self, body: Element) -> None:
        outputs = {
            (_id_of(function.find("state")), text_of(function.find("input"))): text_of(function.find("output"))
            for function in self._of("output_set", "output_func")
        }
        marks = {
            "initial": {_id_of(state) for state in self._of("start_state", "state")},
            "final": {_id_of(state) for state in self._of("final_states", "state")},
        }
        for symbol in self._of("input_alph", "symbol"):
            self._add(body, "symbol", symbol, text_of(symbol))
        for state in self._of("state_set", "state"):
            key = _id_of(state)
            element = self._add(body, "state", state, id=key, name=text_of(state.find("name")).strip() or key)
            for mark, keys in marks.items():
                if key in keys:
                    self._add(element, mark, state)
            if (key, "") in outputs:
                self._add(element, "output", state, outputs[key, ""])
        blank = text_of(next(self._of("blank_symbol", "value"), None)).strip()
        for move in self.parts.get("transition_set", ()):
            element = self._add(body, "transition", move)
            source, target, label = _id_of(move.find("from")), _id_of(move.find("to")), text_of(move.find("input"))
            self._add(element, "from", move, source)
            self._add(element, "to", move, target)
            if self.kind == "turing":
                self._tapes(element, move, blank)
            else:
                self._add(element, "read", move, label)
                if (source, label) in outputs:
                    self._add(element, "transout", move, outputs[source, label])

    def _tapes(self, element: Element, move: Element, blank: str) -> None:
        """`<read0>` of tape 0 becomes `<read tape="1">`, and the blank an empty text."""
        for part in move:
            if found := re.fullmatch("(read|write|move)([0-9])", part.tag):
                text = text_of(part)
                tape = str(int(found[2]) + 1)
                self._add(element, found[1], part, "" if text == blank and found[1] != "move" else text, tape=tape)


def _id_of(state: Element | None) -> str:
    return "" if state is None else text_of(state.find("id")).strip()
