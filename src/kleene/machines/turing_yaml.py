"""Read and write turingmachine.io's YAML: 'blank', 'start state', 'table', 'synonyms'.

Kleene's own keys are 'tape', 'reject' and 'input alphabet'. A state without transitions accepts, unless 'reject' names
it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from kleene.errors import FileError
from kleene.machines.turing import MOVES, TuringMachine
from kleene.machines.turing_files import LETTERS, make_machine

SPECIAL = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")  # not in YAML, or line ends
STUCK = "reject"  # the state after a missing transition


def from_yaml(text: str, where: str) -> TuringMachine:
    """Read turingmachine.io's YAML. A state without transitions accepts, unless 'reject' names it."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else None
        problem = getattr(error, "problem", None) or "nested too deeply"
        if isinstance(error, yaml.reader.ReaderError):
            line, problem = text.count("\n", 0, error.position) + 1, error.reason
        raise FileError(f"{where}{f', line {line}' if line else ''}: not YAML ({problem})") from None
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
            raise self.fail(node, f"{what} must be a mapping")
        found: dict[str, tuple[Any, Any]] = {}
        for key, value in node.value:
            name = self.text(key, f"a key of {what}")
            if name in found:
                raise self.fail(key, f"{name!r} appears twice in {what}")
            found[name] = (key, value)
        return found

    def text(self, node: Any, what: str) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise self.fail(node, f"{what} must be one string")
        return str(node.value)

    def texts(self, node: Any, what: str) -> list[str]:
        if isinstance(node, yaml.SequenceNode):
            return [self.text(item, what) for item in node.value]
        return [self.text(node, what)]

    def machine(self, root: Any) -> TuringMachine:
        top = self.pairs(root, "the file")
        if "source code" in top and "table" not in top:  # turingmachine.io's own wrapper: name, source code, positions
            return from_yaml(self.text(top["source code"][1], "'source code'"), self.where)
        for key in ("blank", "start state", "table"):
            if key not in top:
                raise self.fail(root, f"no {key!r}; a machine has 'blank', 'start state' and 'table'")
        blank = self.text(top["blank"][1], "'blank'")
        start = self.text(top["start state"][1], "'start state' is the name of one state, and")
        two_way = self.two_way(top)
        if "synonyms" in top and isinstance(top["synonyms"][1], yaml.MappingNode):
            self.synonyms = {name: value for name, (_, value) in self.pairs(top["synonyms"][1], "'synonyms'").items()}
        table = self.pairs(top["table"][1], "'table'")
        if start not in table:
            raise self.fail(top["start state"][0], f"start state {start!r} is not in the table")
        rows = {q: self.row(q, value, table) for q, (_, value) in table.items()}
        accept, reject = self.halting(top, table, rows)
        alphabet = self.texts(top["input alphabet"][1], "'input alphabet'") if "input alphabet" in top else None
        symbols = {blank, *(s for row in rows.values() for a, t in row.items() for s in (a, t[1])), *(alphabet or ())}
        if self.complete(rows, symbols, two_way, table):
            reject.add(STUCK)
        made = make_machine(
            self.where,
            {q: r for q, r in rows.items() if r},
            start,
            accept - reject,
            reject,
            blank,
            alphabet,
            two_way,
            Path(self.where).stem,
        )
        return replace(made, example=self.text(top["input"][1], "'input'")) if "input" in top else made

    def two_way(self, top: dict[str, Any]) -> bool:
        """Whether the tape is endless both ways: yes, unless the file says otherwise."""
        if "tape" not in top:
            return True
        tape = self.text(top["tape"][1], "'tape'")
        if tape not in ("one-way", "two-way"):
            raise self.fail(top["tape"][0], f"'tape' is {tape!r}; it must be 'one-way' or 'two-way'")
        return tape == "two-way"

    def halting(self, top: dict[str, Any], table: dict[str, Any], rows: dict[str, Any]) -> tuple[set[str], set[str]]:
        """The states that accept and that reject: those without transitions."""
        lists = {key: self.texts(top[key][1], repr(key)) for key in ("accept", "reject") if key in top}
        for key, states in lists.items():
            for q in states:
                if q not in table or rows[q]:
                    raise self.fail(top[key][0], f"{key!r}: {q!r} must be a state of the table without transitions")
        halting = [q for q, row in rows.items() if not row]
        reject = set(lists.get("reject", [q for q in halting if q == STUCK]))
        accept = set(lists.get("accept", [q for q in halting if q not in reject]))
        if left := [q for q in halting if q not in accept | reject]:
            raise self.fail(table[left[0]][0], f"state {left[0]!r} has no transitions; is it 'accept' or 'reject'?")
        return accept, reject

    def complete(self, rows: dict[str, Any], symbols: set[str], two_way: bool, table: dict[str, Any]) -> bool:
        """Let missing transitions enter the state STUCK, which rejects. Return whether any were missing."""
        stuck = False
        for q, row in rows.items():
            for a in sorted(symbols - set(row)) if row else ():
                if not two_way:
                    raise self.fail(
                        table[q][0],
                        f"state {q!r} has no transition for {a!r}; on a one-way tape every state needs one",
                    )
                row[a] = (STUCK, a, 0)
                stuck = True
        if stuck and rows.get(STUCK):
            raise self.fail(
                table[STUCK][0],
                f"state {STUCK!r} is entered after a missing transition, so it can have none itself",
            )
        return stuck

    def row(self, state: str, node: Any, table: dict[str, Any]) -> dict[str, tuple[str, str, int]]:
        if isinstance(node, yaml.ScalarNode) and node.value in ("", "null", "~"):
            return {}
        if not isinstance(node, yaml.MappingNode):
            raise self.fail(node, f"state {state!r}: must be a mapping from symbols to instructions")
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
                f"{where}: {node.value!r} is not an instruction; it must be L, R, {{R: state}} or a synonym",
            )
        parts = self.pairs(node, where)
        moves = [m for m in MOVES if m in parts]
        if len(moves) != 1 or set(parts) - {*MOVES, "write"}:
            raise self.fail(node, f"{where}: has {', '.join(parts)}; it must have one of L and R, and perhaps write")
        target = parts[moves[0]][1]
        name = target.value if isinstance(target, yaml.ScalarNode) else None
        name = state if name in ("", "null", "~") else name
        if name not in table:
            raise self.fail(target, f"{where}: goes to {name!r}, which is not in the table")
        write = self.text(parts["write"][1], f"{where}: 'write'") if "write" in parts else symbol
        return name, write, MOVES[moves[0]]


def to_yaml(machine: TuringMachine) -> str:
    """Write turingmachine.io's YAML, with Kleene's own keys where that format has none."""

    def quote(text: str) -> str:
        return SPECIAL.sub(lambda found: f"\\u{ord(found.group()):04x}", json.dumps(text, ensure_ascii=False))

    def listed(items: Any) -> str:
        return "[" + ", ".join(quote(item) for item in items) + "]"

    lines = [
        f"blank: {quote(machine.blank)}",
        f"start state: {quote(machine.start)}",
        f"tape: {'two-way' if machine.two_way else 'one-way'}",
        f"input alphabet: {listed(machine.input_alphabet or ())}",
        f"accept: {listed(sorted(machine.accept))}",
        f"reject: {listed(sorted(machine.reject))}",
        *([f"input: {quote(machine.example)}"] if machine.example else []),
        "table:",
    ]
    for q, row in machine.transitions.items():
        lines.append(f"  {quote(q)}:")
        lines += [f"    {quote(a)}: {{write: {quote(w)}, {LETTERS[m]}: {quote(t)}}}" for a, (t, w, m) in row.items()]
    return "\n".join(lines + [f"  {quote(q)}:" for q in sorted(machine.accept | machine.reject)]) + "\n"
