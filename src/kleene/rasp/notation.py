"""RASP's own notation: parse a `.rasp` text into s-ops, selectors and functions.

The grammar and the strength of its operators are those of the RASP interpreter: postfix, then unary, `^`, `* /`, `%`,
`+ -`, comparisons, `and or` (equally strong), `… if … else …`, `in`. The parser makes closures; nothing of the text is
run as Python.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from kleene.errors import FileError, InputError, KleeneError, ProgramError
from kleene.rasp import notation_library as names
from kleene.rasp.expressions import RASPExpr, Select, Selector, SOp

Closure = Callable[["Scope"], Any]

TOKEN = re.compile(
    r"(?P<space>[ \t\r\n]+|\#[^\n]*)|(?P<float>\d+\.\d+)|(?P<int>\d+)|(?P<text>\"[^\"\n]*\"|'[^'\n]*')"
    r"|(?P<name>[A-Za-z_][A-Za-z_0-9]*)|(?P<sign>==|<=|>=|!=|[-+*/%^<>=()\[\]{},:;])"
)
BUILT_IN = frozenset({"select", "aggregate", "round", "indicator", "range", "zip", "len"})
WORDS = BUILT_IN | {"def", "return", "for", "in", "if", "else", "and", "or", "not", "draw", "load"}
WHOSE = r"(?:s-op[ \t]+|selector[ \t]+)?"
INTERPRETER_ONLY = re.compile(  # commands of the interpreter's prompt; they have no semicolon
    rf"(?m)^[ \t]*(set[ \t]+{WHOSE}example\b.*|show[ \t]+{WHOSE}example.*|{WHOSE}examples[ \t]+(?:on|off)"
    r"|full seq display[ \t]+(?:on|off)|exit(?:\(\))?|quit(?:\(\))?)[ \t]*;?[ \t]*(?:\#.*)?$"
)
STRENGTH = {"in": 1, "if": 2, "and": 3, "or": 3, "==": 4, "<=": 4, ">=": 4, "<": 4, ">": 4, "!=": 4}
STRENGTH |= {"+": 5, "-": 5, "%": 6, "*": 7, "/": 7, "^": 8}
UNARY = 9
MAX_STEPS = 200_000  # statements and calls of one text


@dataclass(frozen=True)
class Sign:
    """One sign or word of the text."""

    kind: str
    text: str
    line: int


@dataclass
class Scope:
    """Names and their values; `outer` has those of the enclosing function or file."""

    known: dict[str, Any]
    outer: Scope | None
    budget: list[int]
    folder: Path | None = None

    def find(self, name: str, line: int) -> Any:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.known:
                return scope.known[name]
            scope = scope.outer
        raise ProgramError(f"line {line}: '{name}' is not defined")

    def inner(self) -> Scope:
        return Scope({}, self, self.budget, self.folder)

    def spend(self, line: int) -> None:
        self.budget[0] -= 1
        if self.budget[0] < 0:
            raise ProgramError(f"line {line}: the text takes more than {MAX_STEPS:,} steps to build")


@dataclass(frozen=True)
class Function:
    """A function that a text defines. `defaults`: what arguments are where none is given."""

    name: str
    arguments: tuple[str, ...]
    defaults: dict[str, Any]
    body: tuple[Closure, ...]
    result: Closure
    scope: Scope

    def __call__(self, values: Sequence[Any], named: Mapping[str, Any], line: int) -> Any:
        inner = self.scope.inner()
        inner.spend(line)
        inner.known.update(self._bound(values, named, line))
        for statement in self.body:
            statement(inner)
        return self.result(inner)

    def _bound(self, values: Sequence[Any], named: Mapping[str, Any], line: int) -> dict[str, Any]:
        """Each argument with its value."""
        given = dict(zip(self.arguments, values))
        for name in named:
            if name not in self.arguments:
                raise ProgramError(
                    f"line {line}: {self.name} has no argument '{name}'; it has {', '.join(self.arguments)}"
                )
            if name in given:
                raise ProgramError(f"line {line}: {self.name} is given '{name}' twice")
        bound = {**self.defaults, **given, **named}
        if len(values) > len(self.arguments) or len(bound) < len(self.arguments):
            most = len(self.arguments)
            count = f"{most - len(self.defaults)} to {most}" if self.defaults else f"{most}"
            raise ProgramError(f"line {line}: {self.name} takes {count} arguments, not {len(values) + len(named)}")
        return bound


@dataclass(frozen=True)
class RaspFile(Mapping[str, Any]):
    """What a RASP text defines, by name. `main` is the s-op that it defined last."""

    defined: dict[str, Any]
    results: list[Any] = field(default_factory=list)  # of expressions such as reverse("hello");

    def __getitem__(self, name: str) -> Any:
        if name not in self.defined:
            raise InputError(f"the text defines no '{name}'; it defines {', '.join(self.defined) or 'nothing'}")
        return self.defined[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.defined)

    def __len__(self) -> int:
        return len(self.defined)

    @property
    def sops(self) -> dict[str, SOp]:
        return {name: value for name, value in self.defined.items() if isinstance(value, SOp)}

    @property
    def main(self) -> SOp:
        if not self.sops:
            raise InputError("the text defines no s-op; assign one, as in out = indices + 1;")
        return list(self.sops.values())[-1]


def parse(text: str, *, folder: str | Path | None = None) -> RaspFile:
    """Parse RASP's own notation.

    - `text`: statements such as `same = select(tokens, tokens, ==); hist = selector_width(same);`.
    - `folder`: where `load "file";` looks for other texts; without it, `load` is an error.

    >>> parse("same = select(tokens, tokens, ==); hist = selector_width(same);")["hist"]("abca")
    [2, 1, 1, 2]
    """
    made = RaspFile({})
    scope = Scope({}, Scope(names.builtins(), None, []), [MAX_STEPS], None if folder is None else Path(folder))
    assert scope.outer is not None
    scope.outer.budget = scope.budget
    _execute(text, scope, made.results)
    made.defined.update(scope.known)
    return made


def parse_file(path: str | Path) -> RaspFile:
    """Parse a `.rasp` file; `load` finds files beside it."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise FileError(f"{file}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise FileError(f"{file}: not a text in UTF-8") from None
    try:
        return parse(text, folder=file.parent)
    except ProgramError as error:
        raise ProgramError(f"{file}, {error}") from None


def _execute(text: str, scope: Scope, results: list[Any]) -> None:
    try:
        for statement in Parser(text).statements():
            found = statement(scope)
            if found is not None:
                results.append(found)
    except RecursionError:
        raise ProgramError("the text nests too deeply, or a function calls itself without end") from None


class Parser:
    """A text as statements, each a closure of a scope."""

    def __init__(self, text: str) -> None:
        self.signs, self.place = _signs(INTERPRETER_ONLY.sub("", text)), 0

    # --- reading signs ---

    @property
    def here(self) -> Sign:
        return self.signs[self.place]

    def at(self, *texts: str) -> bool:
        return self.here.kind != "text" and self.here.text in texts

    def take(self) -> Sign:
        self.place += 1
        return self.signs[self.place - 1]

    def expect(self, text: str) -> Sign:
        if not self.at(text):
            raise self.wrong(f"{text!r}")
        return self.take()

    def wrong(self, wanted: str) -> ProgramError:
        shown = "the end of the text" if self.here.kind == "end" else repr(self.here.text)
        return ProgramError(f"line {self.here.line}: {shown} where {wanted} should be")

    def name(self) -> str:
        if self.here.kind != "name" or self.here.text in WORDS:
            raise self.wrong("a name")
        return self.take().text

    def listed(self, one: Callable[[], Any], end: str | None = None) -> list[Any]:
        """Parts between commas."""
        if end is not None and self.at(end):
            return []
        found = [one()]
        while self.at(","):
            self.take()
            found.append(one())
        return found

    # --- statements ---

    def statements(self, end: str = "") -> Iterator[Closure]:
        while self.here.kind != "end" and not self.at(end):
            yield self.statement()

    def statement(self) -> Closure:
        if self.at("def"):
            return self.function()
        if self.at("for"):
            return self.loop()
        if self.at("load"):
            return self.load()
        if self.at("draw"):
            self.take()
            self.expect("(")
            self.listed(self.expression, ")")
            self.expect(")")
            self.expect(";")
            return lambda scope: None
        return self.assignment_or_expression()

    def assignment_or_expression(self) -> Closure:
        start, line = self.place, self.here.line
        if self.here.kind == "name" and self.here.text not in WORDS:
            targets = self.listed(self.name) if self._looks_like_targets() else []
            if targets and self.at("="):
                self.take()
                value = self.several()
                self.expect(";")
                return lambda scope: _assign(scope, targets, value(scope), line)
            self.place = start
        shown = self.expression()
        self.expect(";")
        return lambda scope: _only_values(shown(scope))

    def _looks_like_targets(self) -> bool:
        """Whether names and commas, and then =, come next."""
        place = self.place
        while self.signs[place].kind == "name" and self.signs[place + 1].text == ",":
            place += 2
        return self.signs[place].kind == "name" and self.signs[place + 1].text == "="

    def several(self) -> Closure:
        """One expression, or a list of several."""
        parts = self.listed(self.expression)
        return parts[0] if len(parts) == 1 else lambda scope: [part(scope) for part in parts]

    def function(self) -> Closure:
        line = self.take().line
        name = self.name()
        self.expect("(")
        arguments = self.listed(self.argument, ")")
        self.expect(")")
        self.expect("{")
        body = []
        while not self.at("return"):
            if self.at("}") or self.here.kind == "end":
                raise self.wrong("'return'")
            body.append(self.statement())
        self.take()
        result = self.several()
        self.expect(";")
        self.expect("}")

        if any(before[1] and not after[1] for before, after in pairwise(arguments)):
            raise ProgramError(f"line {line}: {name}: arguments without a default come first")

        def define(scope: Scope) -> None:
            defaults = {argument: default(scope) for argument, default in arguments if default is not None}
            scope.known[name] = Function(name, tuple(a for a, _ in arguments), defaults, tuple(body), result, scope)

        return define

    def argument(self) -> tuple[str, Closure | None]:
        """An argument of a definition, and its default."""
        name = self.name()
        if not self.at("="):
            return name, None
        self.take()
        return name, self.expression()

    def given(self) -> tuple[str | None, Closure]:
        """What a call gives: a value, or `name = value`."""
        named = self.here.kind == "name" and self.here.text not in WORDS and self.signs[self.place + 1].text == "="
        name = self.name() if named else None
        if named:
            self.take()
        return name, self.expression()

    def loop(self) -> Closure:
        line = self.take().line
        targets = self.listed(self.name)
        self.expect("in")
        over = self.expression()
        self.expect("{")
        body = list(self.statements("}"))
        self.expect("}")

        def run(scope: Scope) -> None:
            for item in _items(over(scope), line):
                scope.spend(line)
                _assign(scope, targets, item, line)
                for statement in body:
                    statement(scope)

        return run

    def load(self) -> Closure:
        line = self.take().line
        if self.here.kind != "text":
            raise self.wrong("a file name in quotes")
        file = self.take().text[1:-1]
        self.expect(";")

        def run(scope: Scope) -> None:
            if scope.folder is None:
                raise ProgramError(f"line {line}: load {file!r}: only texts in files load others; use rasp.parse_file")
            base = scope.folder.resolve()
            path = (base / (file if file.endswith(".rasp") else f"{file}.rasp")).resolve()
            if not path.is_relative_to(base) or not path.is_file():
                raise FileError(f"load {file!r}: there is no such file in {scope.folder}")
            scope.spend(line)
            _execute(path.read_text(encoding="utf-8"), scope, [])

        return run

    # --- expressions ---

    def expression(self, weakest: int = 0) -> Closure:
        left = self.unary()
        while True:
            sign = self.here
            if self.at("not") and self.signs[self.place + 1].text == "in" and weakest < STRENGTH["in"]:
                self.take()
                found = self.binary(left, self.take(), STRENGTH["in"])
                left = _negated(found, sign.line)
                continue
            strength = STRENGTH.get(sign.text, 0) if sign.kind in ("sign", "name") else 0
            if strength <= weakest:
                return left
            self.take()
            left = self.choice(left, sign) if sign.text == "if" else self.binary(left, sign, strength)

    def binary(self, left: Closure, sign: Sign, strength: int) -> Closure:
        right = self.expression(strength) if sign.text != "in" else self.container()
        return lambda scope: _at_line(sign.line, names.binary, sign.text, left(scope), right(scope))

    def container(self) -> Closure:
        """What is right of `in`. A list in brackets ends before `and` and `or`, which could not take a list."""
        start = self.place
        if self.at("["):
            found = self.expression(STRENGTH["and"])
            if not self.at("if"):
                return found
            self.place = start
        return self.expression(STRENGTH["in"])

    def choice(self, yes: Closure, sign: Sign) -> Closure:
        condition = self.expression(STRENGTH["if"])
        self.expect("else")
        no = self.expression(STRENGTH["if"])

        def chosen(scope: Scope) -> Any:
            holds = condition(scope)
            if isinstance(holds, SOp):
                return names.choose(holds, yes(scope), no(scope))
            if isinstance(holds, RASPExpr):
                raise ProgramError(f"line {sign.line}: the condition of if is a selector")
            return yes(scope) if holds else no(scope)

        return chosen

    def unary(self) -> Closure:
        if self.at("not", "-", "+"):
            sign = self.take()
            inner = self.unary()
            return lambda scope: _at_line(sign.line, names.unary, sign.text, inner(scope))
        return self.postfix(self.atom())

    def postfix(self, left: Closure) -> Closure:
        while self.at("(", "["):
            sign = self.take()
            if sign.text == "[":
                index = self.expression()
                self.expect("]")
                left = _indexed(left, index, sign.line)
            else:
                arguments = self.listed(self.given, ")")
                self.expect(")")
                left = _called(left, arguments, sign.line)
        return left

    def atom(self) -> Closure:
        sign = self.here
        if sign.kind in ("int", "float", "text"):
            self.take()
            value: Any = (
                sign.text[1:-1] if sign.kind == "text" else int(sign.text) if sign.kind == "int" else float(sign.text)
            )
            return lambda scope: value
        if self.at("("):
            self.take()
            inner = self.several()
            self.expect(")")
            return inner
        if self.at("["):
            return self.list_or_comprehension()
        if self.at("{"):
            return self.dict_or_comprehension()
        if sign.text in BUILT_IN and sign.kind == "name":
            self.take()
            return self.built_in(sign)
        name = self.name()
        return lambda scope: scope.find(name, sign.line)

    def built_in(self, sign: Sign) -> Closure:
        self.expect("(")
        if sign.text == "select":
            key = self.expression()
            self.expect(",")
            query = self.expression()
            self.expect(",")
            if not self.at(*names.SELECTIONS):
                raise self.wrong("one of == < > >= <= !=")
            how = names.SELECTIONS[self.take().text]
            self.expect(")")
            return lambda scope: Select(names.sequence(key(scope)), names.sequence(query(scope)), how)
        arguments = self.listed(self.expression, ")")
        self.expect(")")
        function = getattr(names, f"call_{sign.text}")
        return lambda scope: _at_line(sign.line, function, *(argument(scope) for argument in arguments))

    def list_or_comprehension(self) -> Closure:
        line = self.take().line
        if self.at("]"):
            self.take()
            return lambda scope: []
        first = self.expression()
        if self.at("for"):
            targets, over = self.comprehension("]")
            return lambda scope: [first(inner) for inner in _each(scope, targets, over(scope), line)]
        parts = [first]
        while self.at(","):
            self.take()
            parts.append(self.expression())
        self.expect("]")
        return lambda scope: [part(scope) for part in parts]

    def comprehension(self, end: str) -> tuple[list[str], Closure]:
        self.expect("for")
        targets = self.listed(self.name)
        self.expect("in")
        over = self.expression()
        self.expect(end)
        return targets, over

    def dict_or_comprehension(self) -> Closure:
        line = self.take().line
        if self.at("}"):
            self.take()
            return lambda scope: {}
        first = self.pair()
        if self.at("for"):
            targets, over = self.comprehension("}")
            return lambda scope: dict(_entry(first, inner, line) for inner in _each(scope, targets, over(scope), line))
        pairs = [first]
        while self.at(","):
            self.take()
            pairs.append(self.pair())
        self.expect("}")
        return lambda scope: dict(_entry(pair, scope, line) for pair in pairs)

    def pair(self) -> tuple[Closure, Closure]:
        key = self.expression()
        self.expect(":")
        return key, self.expression()


def _signs(text: str) -> list[Sign]:
    found, place, line = [], 0, 1
    while place < len(text):
        match = TOKEN.match(text, place)
        if match is None:
            raise ProgramError(f"line {line}: the character {text[place]!r} has no meaning in RASP")
        if match.lastgroup != "space":
            found.append(Sign(str(match.lastgroup), match[0], line))
        line += match[0].count("\n")
        place = match.end()
    return [*found, Sign("end", "", line)]


def _assign(scope: Scope, targets: Sequence[str], value: Any, line: int) -> None:
    scope.spend(line)
    if len(targets) == 1:
        values = [value]
    elif isinstance(value, list | tuple | str) and len(value) == len(targets):
        values = list(value)
    else:
        raise ProgramError(f"line {line}: {len(targets)} names, but not as many values")
    for name, each in zip(targets, values):
        if name in names.RESERVED:
            raise ProgramError(f"line {line}: '{name}' is RASP's own; give another name")
        scope.known.pop(name, None)  # the last name that is assigned comes last
        scope.known[name] = each
        if isinstance(each, RASPExpr) and not any(each is one for one in names.PRIMITIVES):
            each.named(name)


def _only_values(found: Any) -> Any:
    return found if isinstance(found, list) and not isinstance(found, RASPExpr) else None


def _items(over: Any, line: int) -> list[Any]:
    if not isinstance(over, list | dict):
        raise ProgramError(f"line {line}: for needs a list or a dict, not {names.described(over)}")
    return list(over)


def _each(scope: Scope, targets: Sequence[str], over: Any, line: int) -> Iterator[Scope]:
    for item in _items(over, line):
        inner = scope.inner()
        _assign(inner, targets, item, line)
        yield inner


def _entry(pair: tuple[Closure, Closure], scope: Scope, line: int) -> tuple[Any, Any]:
    key = pair[0](scope)
    if not names.is_atom(key):
        raise ProgramError(f"line {line}: the key of a dict is {names.described(key)}, not a number or text")
    return key, pair[1](scope)


def _indexed(left: Closure, index: Closure, line: int) -> Closure:
    return lambda scope: _at_line(line, names.item, left(scope), index(scope))


def _called(left: Closure, arguments: Sequence[tuple[str | None, Closure]], line: int) -> Closure:
    def call(scope: Scope) -> Any:
        function = left(scope)
        values = [argument(scope) for name, argument in arguments if name is None]
        named = {name: argument(scope) for name, argument in arguments if name is not None}
        if isinstance(function, Function):
            return function(values, named, line)
        if isinstance(function, RASPExpr):
            if len(values) != 1 or named or not isinstance(values[0], str | list):
                raise ProgramError(f"line {line}: an s-op or selector is called with one text or list")
            return _at_line(line, function, values[0])
        if callable(function):
            return _at_line(line, names.call, function, values, named)
        raise ProgramError(f"line {line}: {names.described(function)} cannot be called")

    return call


def _negated(found: Closure, line: int) -> Closure:
    return lambda scope: _at_line(line, names.unary, "not", found(scope))


def _at_line(line: int, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function; errors say the line."""
    try:
        return function(*arguments)
    except ProgramError as error:
        raise error if str(error).startswith("line ") else ProgramError(f"line {line}: {error}") from None
    except KleeneError:
        raise
    except RecursionError:
        raise
    except Exception as error:
        raise ProgramError(f"line {line}: {error}") from None


__all__ = ["Function", "RaspFile", "Selector", "parse", "parse_file"]
