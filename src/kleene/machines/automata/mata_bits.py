"""MATA's automata over bits (`@NFA-bits`): a symbol is a set of bits, and a move reads all symbols of a formula.

A symbol is written as its bits, the last-named bit first: for the bits a0 and a1, "10" is a1 without a0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from kleene.errors import FileError
from kleene.machines.automata.draft import Draft

MAX_MOVES = 5_000_000  # after every formula is expanded
TOKEN = re.compile(r"\s*(?:([()!&|])|([^\s()!&|]+))")


class _Formula:
    """A Boolean formula of names, read from text: `!`, `&`, `|`, parentheses, `true` and `false`."""

    def __init__(self, text: str, fail: Callable[[str], FileError]) -> None:
        self.tokens = [sign or name for sign, name in TOKEN.findall(text)]
        self.at, self.fail = 0, fail
        self.root = self._either()
        if self.at < len(self.tokens):
            raise fail(f"{self.tokens[self.at]!r} is not expected in a formula")

    @property
    def names(self) -> list[str]:
        """The names in the formula, each once."""
        return list(dict.fromkeys(t for t in self.tokens if t not in ("(", ")", "!", "&", "|", "true", "false")))

    def _next(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def _either(self) -> tuple[object, ...]:
        parts = [self._both()]
        while self._next() == "|":
            self.at += 1
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else ("|", *parts)

    def _both(self) -> tuple[object, ...]:
        parts = [self._one()]
        while self._next() == "&":
            self.at += 1
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else ("&", *parts)

    def _one(self) -> tuple[object, ...]:
        token, negations = self._next(), 0
        while token == "!":
            self.at, negations = self.at + 1, negations + 1
            token = self._next()
        self.at += 1
        if token == "(":
            found = self._either()
            if self._next() != ")":
                raise self.fail("a parenthesis is not closed")
            self.at += 1
        elif token in ("", ")", "&", "|"):
            raise self.fail("a formula lacks a name")
        else:
            found = (token,) if token not in ("true", "false") else ("&",) if token == "true" else ("|",)
        return ("!", found) if negations % 2 else found

    def cubes(self, limit: int) -> list[dict[str, bool]]:
        """The conjunctions of literals whose disjunction is the formula."""
        return _cubes(self.root, True, limit, self.fail)


def _cubes(
    node: tuple[object, ...], positive: bool, limit: int, fail: Callable[[str], FileError]
) -> list[dict[str, bool]]:
    sign, parts = node[0], node[1:]
    if sign == "!":
        return _cubes(parts[0], not positive, limit, fail)  # type: ignore[arg-type]
    if sign not in ("&", "|"):
        return [{str(sign): positive}]
    each = [_cubes(part, positive, limit, fail) for part in parts]  # type: ignore[arg-type]
    if (sign == "|") == positive:
        return [cube for found in each for cube in found]
    made: list[dict[str, bool]] = [{}]
    for found in each:
        made = [
            {**a, **b} for a in made for b in found if all(b.get(name, value) == value for name, value in a.items())
        ]
        if len(made) > limit:
            raise fail("a formula is too long after expansion")
    return made


def _names(text: str, fail: Callable[[str], FileError]) -> tuple[set[str], bool]:
    """The states that a key lists, and whether the key means all other states: "q1 | q2", "q1 q2", or "!q0 & !q3"."""
    tokens = [sign or name for sign, name in TOKEN.findall(text)]
    listed = {t for t in tokens if t not in ("(", ")", "!", "&", "|")}
    if listed <= {"true", "false"}:
        return set(), "true" in listed
    if "!" not in tokens:
        if "&" in tokens:
            raise fail("a conjunction of states; an NFA has 'q1 | q2', or '!q0 & !q3' for all except some")
        return listed, False
    if "|" in tokens or tokens.count("!") != len([t for t in tokens if t in listed]):
        raise fail("states and negated states together; an NFA has 'q1 | q2', or '!q0 & !q3' for all except some")
    return listed, True


def from_bits(lines: Sequence[tuple[int, str]], where: str) -> Draft:
    """A finite automaton from the numbered lines below `@NFA-bits`."""
    draft, moves = Draft(where), list[tuple[int, int, _Formula, int]]()
    keys: dict[str, tuple[set[str], bool]] = {}
    for number, line in lines:

        def fail(message: str, number: int = number) -> FileError:
            return FileError(f"{where}, line {number}: {message}")

        if line.startswith("%"):
            key, _, rest = line.partition(" ")
            if key in ("%Initial", "%Final"):
                keys[key] = _names(rest, fail)
                for name in sorted(keys[key][0]):
                    draft.state(name)
            elif key == "%States":
                for name in rest.split():
                    draft.state(name)
            elif not key.startswith("%Alphabet"):
                raise fail(f"{key!r} is unknown; known: %Initial, %Final, %Alphabet, %States")
            continue
        found = re.fullmatch(r"(\S+)\s+(.*\S)\s+(\S+)", line)
        if found is None:
            raise fail(f"{line!r:.60} must be 'state formula state'")
        moves.append((draft.state(found[1]), draft.state(found[3]), _Formula(found[2], fail), number))
    _write_out(draft, moves, where)
    for key, marked in (("%Initial", draft.starts), ("%Final", draft.final)):
        names, all_others = keys.get(key, (set(), False))
        marked.extend(q for name, q in draft.number.items() if (name in names) != all_others)
    return draft


def _write_out(draft: Draft, moves: list[tuple[int, int, _Formula, int]], where: str) -> None:
    """Add a move for every symbol of every formula; a bit that a formula leaves out may be on or off."""
    bits = sorted({name for _, _, formula, _ in moves for name in formula.names}, key=_by_number, reverse=True)
    lines: list[int] = []
    written: dict[tuple[str, ...], list[str]] = {}
    for source, target, formula, number in moves:
        key = tuple(formula.tokens)
        if key not in written:
            cubes = formula.cubes(MAX_MOVES)
            if sum(1 << (len(bits) - len(cube)) for cube in cubes) + len(lines) > MAX_MOVES:
                raise FileError(f"{where}, line {number}: more than {MAX_MOVES:,} moves after expanding the formulas")
            written[key] = sorted({symbol for cube in cubes for symbol in _symbols(bits, cube)})
        if len(written[key]) + len(lines) > MAX_MOVES:
            raise FileError(f"{where}, line {number}: more than {MAX_MOVES:,} moves after expanding the formulas")
        for symbol in written[key]:
            draft.move(source, symbol, target)
        lines += [number] * len(written[key])
    draft.move_place = lambda i: f"line {lines[i]}"


def _by_number(name: str) -> tuple[str, int]:
    found = re.fullmatch(r"(.*?)(\d*)", name)
    assert found is not None
    return found[1], int(found[2] or 0)


def _symbols(bits: Sequence[str], cube: dict[str, bool]) -> list[str]:
    made = [""]
    for bit in bits:
        ends = "01" if bit not in cube else str(int(cube[bit]))
        made = [symbol + end for symbol in made for end in ends]
    return made
