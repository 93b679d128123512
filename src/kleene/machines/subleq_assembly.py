"""Assembly language for SUBLEQ: labels, data, macros; and back from words to text.

    ; a comment, to the end of the line
    loop:   subleq a b c          ; memory[b] −= memory[a]; jump to c if that is 0 or less (c is optional)
            ADD a b               ; a macro: b += a
            SUB =5 b              ; =5 is the address of a word that holds 5
            JMP loop
    a:      .data 3 -1 'x' "text" loop+1
    b:      .zero 10              ; ten words of 0
            .equ SIZE 10          ; a name for a number
            .macro TWICE x        ; defines a macro; labels inside it are local
            ADD x x
            .end

Macros (the last operand of B… is the target): JMP c, HALT, CLR x, NEG x, INC x, DEC x, SUB a b (b −= a),
ADD a b (b += a), MOV a b (b = a), BEQ a b c, BNE, BLT, BLE, BGT, BGE; with input and output IN x, OUT x; where
instructions can be changed LOAD p x (x = memory[memory[p]]) and STORE x p. `?` is the next instruction, `STOP`
the target that halts. Macros use the words Z = 0, T = 0, ONE = 1 and MINUS = −1, made where needed and not defined; a
program that defines one itself gives it that value, and leaves it to the macros, which write Z and T. In the dialect
"paper" labels of instructions count instructions, labels of data count data.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from kleene.errors import InputError
from kleene.machines.subleq import IO, MAX_WORDS, Dialect, Image

NAME = re.compile(r"[A-Za-z_][\w@]*")
TOKEN = re.compile(r"""\s*(?:("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)')|([^\s,;"']+)|(,))""")
TERM = re.compile(r"([+-]?)(?:(0[xX][0-9a-fA-F]+|\d+)|('(?:[^'\\]|\\.)')|([A-Za-z_][\w@]*))")
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
WORKING = {"Z": 0, "T": 0, "ONE": 1, "MINUS": -1}  # words that macros use
MAX_DEPTH, MAX_ITEMS = 50, 1_000_000

MACROS = """
.macro JMP c
    subleq Z Z c
.end
.macro HALT
    subleq Z Z STOP
.end
.macro CLR x
    subleq x x
.end
.macro SUB a b
    subleq a b
.end
.macro INC x
    subleq MINUS x
.end
.macro DEC x
    subleq ONE x
.end
.macro ADD a b
    subleq a Z
    subleq Z b
    subleq Z Z
.end
.macro MOV a b
    subleq a Z
    subleq b b
    subleq Z b
    subleq Z Z
.end
.macro NEG x
    subleq T T          ; comparisons leave something there
    subleq x Z
    subleq x x
    subleq Z T
    subleq T x
    subleq T T
    subleq Z Z
.end
.macro BLE a b c
    MOV a T
    subleq b T c
.end
.macro BGE a b c
    MOV b T
    subleq a T c
.end
.macro BGT a b c
    MOV a T
    subleq b T no
    JMP c
no:
.end
.macro BLT a b c
    MOV b T
    subleq a T no
    JMP c
no:
.end
.macro BEQ a b c
    MOV a T
    subleq b T low      ; a − b: not above 0, and one more is above 0 (so also where words wrap round)
    JMP no
low: subleq MINUS T no
    JMP c
no:
.end
.macro BNE a b c
    MOV a T
    subleq b T low
    JMP c
low: subleq MINUS T c
.end
.macro IN x
    subleq IO x
.end
.macro OUT x
    subleq x IO
.end
.macro LOAD p x
    MOV p from
from: subleq 0 Z
    subleq x x
    subleq Z x
    subleq Z Z
.end
.macro STORE x p
    MOV p clear
    MOV p clear+1
    MOV p to+1
    subleq x Z
clear: subleq 0 0
to: subleq Z 0
    subleq Z Z
.end
"""


@dataclass(frozen=True)
class Line:
    """One statement: its line number, the labels before it, and its words."""

    number: int
    labels: tuple[str, ...]
    words: tuple[str, ...]


@dataclass(frozen=True)
class Macro:
    parameters: tuple[str, ...]
    body: tuple[Line, ...]


@dataclass(frozen=True)
class Item:
    """An instruction (three words), data, or a label, which takes no memory."""

    kind: str  # "code", "data", "zero", "label"
    line: int
    words: tuple[str, ...]


class Source:
    """The text to assemble. It makes the error messages."""

    def __init__(self, name: str, dialect: Dialect) -> None:
        self.name, self.dialect = name, dialect
        self.expansions = 0
        self.working: dict[str, int] = {}  # words that macros use → the first line that needs them
        self.constants: dict[str, int] = {"STOP": dialect.stop}
        if dialect.io:
            self.constants["IO"] = IO

    def error(self, line: int, token: str, wrong: str) -> InputError:
        return InputError(f"{self.name}, line {line}: {token[:40]!r} {wrong}")

    # Reading

    def lines(self, text: str) -> list[Line]:
        """The statements with their labels, without comments."""
        found = []
        for number, raw in enumerate(text.splitlines(), 1):
            words, at = [], 0
            while at < len(raw):
                match = TOKEN.match(raw, at)
                if match is None:
                    rest = raw[at:].strip()
                    if rest and not rest.startswith(";"):
                        raise self.error(number, rest.split()[0], "is not closed by the quote it begins with")
                    break
                at = match.end()
                if match[3] is None:
                    words.append(match[1] or match[2])
            labels = []
            while words and words[0].endswith(":"):
                label = words.pop(0)[:-1]
                if not NAME.fullmatch(label) or "@" in label:
                    raise self.error(number, label, "is not a name; a label is letters, digits and _")
                labels.append(label)
            if words or labels:
                found.append(Line(number, tuple(labels), tuple(words)))
        return found

    def macros(self, lines: list[Line], known: dict[str, Macro]) -> tuple[list[Line], dict[str, Macro]]:
        """Statements outside macro definitions, and the macros by name."""
        macros, outside, opened = dict(known), list[Line](), None
        body: list[Line] = []
        for line in lines:
            head = line.words[0].lower() if line.words else ""
            if head == ".macro":
                if opened:
                    raise self.error(line.number, ".macro", f"inside {opened.words[1]}; close that with .end first")
                if len(line.words) < 2 or not all(NAME.fullmatch(word) for word in line.words[1:]):
                    raise self.error(line.number, " ".join(line.words), "is not '.macro NAME parameter …'")
                opened, body = line, []
            elif head == ".end":
                if not opened:
                    raise self.error(line.number, ".end", "without a .macro before it")
                macros[opened.words[1].upper()] = Macro(opened.words[2:], tuple(body))
                opened = None
            else:
                (body if opened else outside).append(line)
        if opened:
            raise self.error(opened.number, opened.words[1], "is a .macro without .end")
        return outside, macros

    def expand(self, lines: list[Line], macros: dict[str, Macro], depth: int = 0) -> list[Item]:
        """Replace macros by their statements."""
        items: list[Item] = []
        for line in lines:
            items += [Item("label", line.number, (label,)) for label in line.labels]
            if not line.words:
                continue
            head, operands = line.words[0], line.words[1:]
            if head.lower() == "subleq":
                if len(operands) not in (2, 3):
                    raise self.error(line.number, head, f"takes A, B and perhaps C, not {len(operands)} operands")
                items.append(Item("code", line.number, operands if len(operands) == 3 else (*operands, "?")))
            elif self.directive(line, items):
                pass
            elif head.upper() in macros:
                items += self._expansion(line, head.upper(), macros, depth)
            else:
                known = ", ".join(["subleq", ".data", ".zero", ".equ", ".macro", *macros])
                raise self.error(line.number, head, f"is not an instruction; known: {known}")
            if len(items) > MAX_ITEMS:
                raise self.error(line.number, head, f"makes more than {MAX_ITEMS:,} statements")
        return items

    def check_size(self, lines: Sequence[Line], macros: dict[str, Macro]) -> None:
        """Reject lines that expand to too many statements, nested macros included, before expanding them."""
        sizes: dict[str, int] = {}

        def size(line: Line, depth: int = 0) -> int:
            name = line.words[0].upper() if line.words else ""
            if name not in macros or depth > MAX_DEPTH:  # expansion rejects macros that are nested too deeply
                return len(line.labels) + bool(name)
            if name not in sizes:
                sizes[name] = 1  # where it uses itself
                sizes[name] += sum(size(inner, depth + 1) for inner in macros[name].body)
            return len(line.labels) + sizes[name]

        total = 0
        for line in lines:
            total += size(line)
            if total > MAX_ITEMS:
                first = (line.words or line.labels)[0]
                raise self.error(line.number, first, f"makes more than {MAX_ITEMS:,} statements")

    def directive(self, line: Line, items: list[Item]) -> bool:
        """Process `.data`, `.zero` or `.equ`. Return whether the line is one of them."""
        head, operands = line.words[0], line.words[1:]
        if head.lower() in (".data", ".zero"):
            if not operands:
                raise self.error(line.number, head, "needs at least one value")
            items.append(Item(head[1:].lower(), line.number, operands))
        elif head.lower() == ".equ":
            if len(operands) != 2 or not NAME.fullmatch(operands[0]):
                raise self.error(line.number, " ".join(line.words), "is not '.equ NAME number'")
            self.constants[operands[0]] = self.value(operands[1], line.number, self.constants, None)
        else:
            return False
        return True

    def _expansion(self, line: Line, name: str, macros: dict[str, Macro], depth: int) -> list[Item]:
        macro, operands = macros[name], line.words[1:]
        if name in ("IN", "OUT") and not self.dialect.io:
            wrong = f"needs input and output; dialect {self.dialect.name} has none"
            raise self.error(line.number, line.words[0], wrong)
        if name in ("LOAD", "STORE") and self.dialect.separate:
            raise self.error(line.number, line.words[0], f"changes instructions; dialect {self.dialect.name} cannot")
        if len(operands) != len(macro.parameters):
            wants = " ".join(macro.parameters) or "no operands"
            raise self.error(line.number, line.words[0], f"takes {wants}, not {len(operands)} operands")
        if depth >= MAX_DEPTH:
            raise self.error(line.number, line.words[0], f"uses itself more than {MAX_DEPTH} deep")
        self.expansions += 1
        if macro is _built_in().get(name):
            words = {word for inner in macro.body for word in inner.words}
            self.working = {**{word: line.number for word in WORKING if word in words}, **self.working}
        own = {label: f"{label}@{self.expansions}" for inner in macro.body for label in inner.labels}
        given = dict(zip(macro.parameters, operands))

        def renamed(word: str) -> str:
            if word[0] in "\"'":
                return word
            return NAME.sub(lambda found: given.get(found[0], own.get(found[0], found[0])), word)

        body = [
            Line(line.number, tuple(own[label] for label in inner.labels), tuple(map(renamed, inner.words)))
            for inner in macro.body
        ]
        return self.expand(body, macros, depth + 1)

    # Values

    def value(self, token: str, line: int, names: dict[str, int], following: int | None) -> int:
        """The number that an operand denotes: a sum of numbers, characters and names, or `?`."""
        total, at = 0, 0
        if token == "?" and following is not None:
            return following
        while at < len(token) or not token:
            match = TERM.match(token, at)
            if match is None or (at and not match[1]):
                raise self.error(line, token, "is not a number, a name or a sum of them")
            sign = -1 if match[1] == "-" else 1
            if match[2]:
                total += sign * int(match[2], 0 if match[2][:2].lower() == "0x" else 10)
            elif match[3]:
                total += sign * ord(_text(match[3])[0])
            elif match[4] in names:
                total += sign * names[match[4]]
            else:
                known = ", ".join(name for name in names if "@" not in name)
                raise self.error(line, match[4], f"is not defined; defined: {known}")
            at = match.end()
        return total

    def word(self, token: str, line: int, names: dict[str, int], following: int | None = None) -> int:
        """The value of an operand, checked against the words of the dialect."""
        value = self.value(token, line, names, following)
        if not self.dialect.holds(value):
            raise self.error(line, token, f"is {value}, outside the words {self.dialect.low} … {self.dialect.high}")
        return self.dialect.word(value)


def _text(quoted: str) -> str:
    return re.sub(r"\\(.)", lambda found: ESCAPES.get(found[1], found[1]), quoted[1:-1])


def assemble(text: str, dialect: Dialect, name: str = "assembly") -> Image:
    """Assemble a text: expand the macros, assign addresses, and write the words."""
    source = Source(name, dialect)
    lines, macros = source.macros(source.lines(text), _built_in())
    source.check_size(lines, macros)
    items = _with_literals(source.expand(lines, macros))
    labels, names = place_labels(source, items, 1 if dialect.separate else 0)
    known = {**source.constants, **labels, **names}
    instructions = [item for item in items if item.kind == "code"]
    code: list[tuple[int, ...]] = []
    if dialect.separate:
        for number, item in enumerate(instructions, 1):
            code.append(tuple(source.word(token, item.line, known, number + 1) for token in item.words))
    words = written_words(source, items, known)
    for word, line in source.working.items():
        if word in labels or words[names[word] : names[word] + 1] != [WORKING[word]]:
            wrong = f"is a word of the macros'; define it as '.data {WORKING[word]}', or give yours another name"
            raise source.error(line, word, wrong)
    if not words and not code:
        raise InputError(f"{name}: no instructions and no data")
    if dialect.separate and not code:
        raise InputError(f"{name}: no instructions; a program of dialect {dialect.name} needs one")
    shown, words_at = ({k: at for k, at in table.items() if "@" not in k} for table in (labels, names))
    return Image(tuple(words), tuple(code), shown, words_at)


def written_words(source: Source, items: list[Item], known: dict[str, int]) -> list[int]:
    """The words of memory: data, and instructions where both share one memory."""
    words: list[int] = []
    for item in items:
        if item.kind == "code" and not source.dialect.separate:
            following = len(words) + 3
            words += [source.word(token, item.line, known, following) for token in item.words]
        elif item.kind == "data":
            for token in item.words:
                words += [*_text(token).encode()] if token[0] == '"' else [source.word(token, item.line, known)]
        elif item.kind == "zero":
            words += [0] * _count(source, item)
    return words


@cache
def _built_in() -> dict[str, Macro]:
    source = Source("macros", Dialect("macros", io=True))
    return source.macros(source.lines(MACROS), {})[1]


def _with_literals(items: list[Item]) -> list[Item]:
    """Place the values of `=value` operands, and the words that macros use, at the end of the program."""
    defined = {item.words[0] for item in items if item.kind == "label"}
    literals: dict[str, int] = {}
    used: dict[str, int] = {}
    changed = []
    for item in items:
        if item.kind in ("code", "data"):
            for token in item.words:
                if token.startswith("="):
                    literals.setdefault(token, item.line)
                elif token in WORKING and token not in defined:
                    used.setdefault(token, item.line)
            words = tuple(f"literal@{token[1:]}" if token.startswith("=") else token for token in item.words)
            changed.append(Item(item.kind, item.line, words))
        else:
            changed.append(item)
    at_end = []
    for word, line in used.items():
        at_end += [Item("label", line, (word,)), Item("data", line, (str(WORKING[word]),))]
    numbers = {token: f"literal@{number}" for number, token in enumerate(literals)}
    renamed = {f"literal@{token[1:]}": short for token, short in numbers.items()}
    for token, line in literals.items():
        at_end += [Item("label", line, (numbers[token],)), Item("data", line, (token[1:],))]
    found = [Item(i.kind, i.line, tuple(renamed.get(word, word) for word in i.words)) for i in changed]
    return found + at_end


def _count(source: Source, item: Item) -> int:
    count = source.value(item.words[0], item.line, source.constants, None)
    if len(item.words) != 1 or not 0 <= count <= MAX_WORDS:
        raise source.error(item.line, " ".join(item.words), f"is not one count of words within 0 … {MAX_WORDS:,}")
    return count


def place_labels(source: Source, items: list[Item], first: int) -> tuple[dict[str, int], dict[str, int]]:
    """The address of each label: labels of instructions, and labels of data."""
    labels: dict[str, int] = {}
    names: dict[str, int] = {}
    waiting: list[Item] = []
    place = {True: first, False: 0}  # instruction or not → next place
    for item in [*items, Item("end", 0, ())]:
        if item.kind == "label":
            waiting.append(item)
            continue
        instruction = item.kind == "code" or (item.kind == "end" and source.dialect.separate)
        for label in waiting:
            name = label.words[0]
            if name in labels or name in names or name in source.constants:
                raise source.error(label.line, name, "is defined twice")
            (labels if instruction else names)[name] = place[instruction]
        waiting = []
        size = {"code": 3, "zero": 0, "end": 0, "data": 0}[item.kind]
        if item.kind == "zero":
            size = _count(source, item)
        elif item.kind == "data":
            size = sum(len(_text(word).encode()) if word[0] == '"' else 1 for word in item.words)
        if source.dialect.separate:
            place[instruction] += 1 if item.kind == "code" else size
        else:
            place = {True: place[True] + size, False: place[True] + size}
        if place[False] > MAX_WORDS:
            raise source.error(item.line, item.kind, f"reaches past {MAX_WORDS:,} words")
    return labels, names


# Back to text

Triple = tuple[int, int, int]


def disassemble(image: Image, dialect: Dialect) -> str:
    """Write text with labels and macros that assembles to the same image."""
    return _Listing(image, dialect).text()


class _Listing:
    """A listing: instructions are found by following jumps from the start; everything else is data."""

    def __init__(self, image: Image, dialect: Dialect) -> None:
        self.words, self.dialect = image.words, dialect
        self.step = 1 if dialect.separate else 3  # from an instruction to the next
        self.code: dict[int, Triple] = {}
        if dialect.separate:
            self.code = {number: (a, b, c) for number, (a, b, c) in enumerate(image.code, 1)}
        else:
            self._follow()
        self.inside: dict[int, tuple[int, int]] = {}  # address → (its instruction, which of the three)
        if not dialect.separate:
            self.inside = {at + k: (at, k) for at in self.code for k in range(3)}
        self.working = self._zero()
        self.macros = self._found_macros()

    def _follow(self) -> None:
        taken: set[int] = set()
        waiting = [0]
        while waiting:
            at = waiting.pop()
            if at in self.code or at < 0 or at + 2 >= len(self.words) or taken & {at, at + 1, at + 2}:
                continue
            a, b, c = self.words[at : at + 3]
            self.code[at] = (a, b, c)
            taken |= {at, at + 1, at + 2}
            if self.dialect.negative_halts and (a < 0 or b < 0):
                continue
            if self.dialect.io and IO in (a, b):
                waiting.append(at + 3)
            else:
                waiting += [c] if a == b else [c, at + 3]

    def _is_data(self, at: int, value: int) -> bool:
        return 0 <= at < len(self.words) and at not in self.inside and self.words[at] == value

    def _zero(self) -> dict[str, int]:
        """Guess Z: the word that most often jumps by `subleq Z Z c` or is cleared after use."""
        cleared = Counter(a for a, b, _ in self.code.values() if a == b and self._is_data(a, 0))
        return {"Z": cleared.most_common(1)[0][0]} if cleared else {}

    def _found_macros(self) -> dict[int, tuple[int, str, list[int]]]:
        """Find macros: start → (how many instructions, name, operands)."""
        referred: dict[int, list[int]] = {}
        for at, (a, b, c) in self.code.items():
            for target, is_code in ((a, False), (b, False), (c, True)):
                if (is_code or not self.dialect.separate) and not (is_code and target == at + self.step):
                    referred.setdefault(target, []).append(at)
        found: dict[int, tuple[int, str, list[int]]] = {}
        covered: set[int] = set()
        for name, parameters, template in _templates(self.dialect):
            length = len(template) * self.step
            for at in sorted(self.code):
                span = range(at, at + length, self.step)
                if covered & set(span) or not all(place in self.code for place in span):
                    continue
                interior = range(at + 1, at + length)
                if any(not at <= source < at + length for place in interior for source in referred.get(place, ())):
                    continue
                operands = self._match(template, at, parameters)
                if operands is not None:
                    found[at] = (len(template), name, operands)
                    covered |= set(span)
        return found

    def _match(self, template: list[tuple[str, ...]], at: int, parameters: tuple[str, ...]) -> list[int] | None:
        bound: dict[str, int] = {}
        working = dict(self.working)
        for number, tokens in enumerate(template):
            for token, value in zip(tokens, self.code[at + number * self.step]):
                if token in parameters:
                    if bound.setdefault(token, value) != value:
                        return None
                elif token in WORKING:
                    if token not in working and (value in working.values() or not self._is_data(value, WORKING[token])):
                        return None
                    if working.setdefault(token, value) != value:
                        return None
                elif value != self._meaning(token, at, number):
                    return None
        self.working = working
        return [bound[name] for name in parameters]

    def _meaning(self, token: str, at: int, number: int) -> int:
        if token == "?":
            return at + (number + 1) * self.step
        if token == "STOP":
            return self.dialect.stop
        if token == "IO":
            return IO
        if token.startswith("rel"):
            instruction, cell = map(int, token[3:].split("."))
            return at + instruction * self.step + cell
        return int(token)

    # Writing

    def text(self) -> str:
        self.used: set[int] = set()  # addresses of data that need a label
        self.targets: set[int] = set()  # instructions that need one
        at = 1 if self.dialect.separate else 0
        lines: list[tuple[str, int, str]] = []
        end = len(self.code) + 1 if self.dialect.separate else len(self.words)
        while at < end:
            if at in self.macros:
                count, name, operands = self.macros[at]
                kinds = _kinds(name)
                shown = [self._operand(value, kind) for value, kind in zip(operands, kinds)]
                lines.append(("code", at, " ".join([name, *shown])))
                at += count * self.step
            elif at in self.code:
                a, b, c = self.code[at]
                shown = [self._operand(a, "data"), self._operand(b, "data")]
                shown += [] if c == at + self.step else [self._operand(c, "code")]
                lines.append(("code", at, " ".join(["subleq", *shown])))
                at += self.step
            else:
                lines.append(("data", at, str(self.words[at])))
                at += 1
        if self.dialect.separate:
            lines += [("data", place, str(word)) for place, word in enumerate(self.words)]
        return self._joined(lines)

    def _operand(self, value: int, kind: str) -> str:
        if kind == "code" and value == self.dialect.stop:
            return "STOP"
        if kind == "data" and self.dialect.io and value == IO:
            return "IO"
        if self.dialect.separate:
            if kind == "code" and value in self.code:
                self.targets.add(value)
                return f"L{value}"
            return self._data_name(value) if kind == "data" and 0 <= value < len(self.words) else str(value)
        if value in self.inside:
            start, cell = self.inside[value]
            self.targets.add(start)
            return f"L{start}" + (f"+{cell}" if cell else "")
        return self._data_name(value) if 0 <= value < len(self.words) else str(value)

    def _data_name(self, at: int) -> str:
        self.used.add(at)
        return next((name for name, place in self.working.items() if place == at), f"d{at}")

    def _joined(self, lines: list[tuple[str, int, str]]) -> str:
        names = {place: name for name, place in self.working.items()}
        text: list[str] = []
        for kind, at, content in lines:
            label = ""
            if kind == "code" and at in self.targets:
                label = f"L{at}:"
            elif kind == "data" and (at in self.used or at in names):
                label = f"{names.get(at, f'd{at}')}:"
            if kind == "data":
                if text and not label and text[-1].split(":")[-1].lstrip().startswith(".data") and len(text[-1]) < 90:
                    text[-1] += f" {content}"
                    continue
                content = f".data {content}"
            text.append(f"{label:<8}{content}")
        return "\n".join(text) + "\n"


@cache
def _templates(dialect: Dialect) -> list[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]:
    """Each macro as instructions with its parameters' names, longest first; local labels as places from its start."""
    found = []
    for name, macro in _built_in().items():
        if (name in ("IN", "OUT") and not dialect.io) or (name in ("LOAD", "STORE") and dialect.separate):
            continue
        if name == "SUB":
            continue  # one plain subleq
        source = Source("macros", dialect)
        items = source.expand([Line(1, (), (name, *macro.parameters))], _built_in())
        places: dict[str, int] = {}
        count = 0
        for item in items:
            if item.kind == "label":
                places[item.words[0]] = count
            count += item.kind == "code"

        def local(token: str, places: dict[str, int] = places) -> str:
            label, _, cell = token.partition("+")
            return f"rel{places[label]}.{cell or 0}" if label in places else token

        template = [tuple(local(token) for token in item.words) for item in items if item.kind == "code"]
        found.append((name, macro.parameters, template))
    return sorted(found, key=lambda entry: -len(entry[2]))


def _kinds(name: str) -> list[str]:
    """Whether each operand of a macro is an address of data or of an instruction."""
    parameters = _built_in()[name].parameters
    return ["code" if parameter == "c" else "data" for parameter in parameters]
